//! Patterns of commands: words that are compared with a program and its arguments, after quotes are gone.
//!
//! What allows is compared narrowly and what holds back widely: an `allow` pattern must match from the first
//! word on, while a `deny` or `ask` pattern is found behind options, paths and wrappers too. A word that only
//! the run can tell makes the answer a *maybe*, which never allows.

use serde::{Deserialize, Serialize};

use super::Fit;
use super::glob::{self, Reach};
use crate::shell::{Run, Word};

/// Folders whose programs are the system's: `/usr/bin/git` is `git`.
const SYSTEM_FOLDERS: [&str; 6] =
    ["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/usr/local/sbin/"];

/// Wrappers that start a program as it is. What is allowed by name is also allowed through them.
const PLAIN_WRAPPERS: [&str; 18] = [
    "bash", "builtin", "chronic", "command", "dash", "env", "exec", "find", "ionice", "nice",
    "nohup", "setsid", "sh", "stdbuf", "time", "timeout", "xargs", "zsh",
];

/// Variables that change how something looks, not what it does.
const PLAIN_VARIABLES: [&str; 17] = [
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "COLUMNS",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// One pattern, such as `git push` or `npm run *`. Words are split once, when it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct CommandPattern {
    words: Vec<String>,
}

impl From<String> for CommandPattern {
    fn from(text: String) -> CommandPattern {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if let Some(program) = words.first_mut()
            && let Some(rest) = program.strip_prefix("./")
            && !rest.contains('/')
        {
            *program = format!("./{rest}");
        }
        CommandPattern { words }
    }
}

impl From<&str> for CommandPattern {
    fn from(text: &str) -> CommandPattern {
        CommandPattern::from(text.to_owned())
    }
}

impl From<CommandPattern> for String {
    fn from(pattern: CommandPattern) -> String {
        pattern.words.join(" ")
    }
}

impl CommandPattern {
    /// Its words.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether everything that `other` plainly means is meant by this too.
    pub(crate) fn covers(&self, other: &CommandPattern) -> bool {
        let own = match self.words.split_last() {
            Some((last, rest)) if last == "*" && !rest.is_empty() => rest,
            _ => &self.words[..],
        };
        own.len() <= other.words.len()
            && own.iter().zip(&other.words).all(|(own, other)| glob::matches(own, other))
    }

    /// Whether it means this run, for a rule that allows: from the first word on, in plain text, without variables
    /// that change what runs and without wrappers that change who runs it.
    pub(super) fn allows(&self, run: &Run) -> Fit {
        let plain = run.assignments.iter().all(|(name, _)| is_plain(name));
        if !plain || has_odd_wrapper(run) {
            return Fit::No;
        }
        let mut arguments = run.argv.iter();
        for (index, word) in self.words.iter().enumerate() {
            if word == "*" && index > 0 && index + 1 == self.words.len() {
                return Fit::Yes;
            }
            let Some(Word::Plain(text)) = arguments.next() else { return Fit::No };
            let text = if index == 0 { program_name(text) } else { text };
            if !glob::matches(word, text) {
                return Fit::No;
            }
        }
        Fit::Yes
    }

    /// Whether it means this run, for a rule that holds back. `opaque` is a run of which nothing is known: what it
    /// mentions may be what it starts.
    pub(super) fn reaches(&self, run: &Run, opaque: bool) -> Fit {
        let Some(name) = self.words.first() else { return Fit::No };
        let program = match run.argv.first() {
            None => Fit::No,
            Some(Word::Plain(text)) => {
                Fit::from(glob::matches(name, base_name(text)) || glob::matches(name, text))
            }
            Some(Word::Pattern(text)) => match glob::meets(base_name(text), name) {
                true => Fit::Maybe,
                false => Fit::No,
            },
            Some(Word::Unknown(_)) => Fit::Maybe,
        };
        let here = match program {
            Fit::No => Fit::No,
            // What cannot be the program with these arguments is out, whatever the program turns out to be.
            Fit::Maybe => self.arguments_reach(run).min(Fit::Maybe),
            Fit::Yes => self.arguments_reach(run),
        };
        if here != Fit::No {
            return here;
        }
        let only_program = self.words[1..].iter().all(|word| word == "*");
        if only_program && run.through.iter().any(|wrapper| glob::matches(name, base_name(wrapper)))
        {
            return Fit::Yes;
        }
        let mentions = |word: &Word| {
            let (Word::Plain(text) | Word::Pattern(text) | Word::Unknown(text)) = word;
            let pieces = text.split(|c: char| !(c.is_alphanumeric() || "._-+".contains(c)));
            name != "*" && pieces.into_iter().any(|piece| glob::matches(name, piece))
        };
        if opaque && run.argv.iter().skip(1).any(mentions) { Fit::Maybe } else { Fit::No }
    }

    fn arguments_reach(&self, run: &Run) -> Fit {
        let arguments = &run.argv[1..];
        let is_unknown = |word: &Word| matches!(word, Word::Unknown(_));
        let mut fit = Fit::Yes;
        let mut at = 0;
        for (index, word) in self.words.iter().enumerate().skip(1) {
            if word == "*" {
                if index + 1 == self.words.len() {
                    break;
                }
                at += 1;
                continue;
            }
            if word.starts_with('-') && word.len() > 1 {
                if has_option(arguments, word) {
                    continue;
                }
                if arguments.iter().any(is_unknown) {
                    fit = Fit::Maybe;
                    continue;
                }
                return Fit::No;
            }
            // A sub-command may stand behind options and what belongs to them, but not behind another word.
            let mut after_option = false;
            loop {
                match arguments.get(at) {
                    None => return Fit::No,
                    Some(Word::Unknown(_)) => return Fit::Maybe,
                    Some(Word::Pattern(text)) if glob::meets(text, word) => return Fit::Maybe,
                    Some(Word::Plain(text) | Word::Pattern(text)) => {
                        at += 1;
                        if glob::matches(word, text) {
                            break;
                        }
                        let is_option = text.starts_with('-');
                        if !is_option && !after_option {
                            return Fit::No;
                        }
                        after_option = is_option && !text.contains('=');
                    }
                }
            }
        }
        fit
    }
}

/// What the program is called: a plain path into a folder of the system counts as the name alone.
pub(super) fn program_name(text: &str) -> &str {
    let inside = |folder: &&str| text.strip_prefix(*folder).is_some_and(|rest| !rest.contains('/'));
    if SYSTEM_FOLDERS.iter().any(inside) { base_name(text) } else { text }
}

fn base_name(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or(text)
}

/// Whether something else than the program's own rights and place decides what it does.
pub(super) fn has_odd_wrapper(run: &Run) -> bool {
    run.through.iter().any(|wrapper| {
        let name = program_name(wrapper).split_whitespace().next().unwrap_or_default();
        !PLAIN_WRAPPERS.contains(&program_name(name))
    })
}

pub(super) fn is_plain(name: &str) -> bool {
    name.starts_with("LC_") || PLAIN_VARIABLES.contains(&name)
}

/// Whether an option is given: as written, with a value, shortened, or among other letters.
fn has_option(arguments: &[Word], option: &str) -> bool {
    let texts = || {
        arguments.iter().filter_map(|word| match word {
            Word::Plain(text) => Some(text.as_str()),
            Word::Pattern(_) | Word::Unknown(_) => None,
        })
    };
    if option.starts_with("--") {
        return texts().any(|text| {
            let name = text.split('=').next().unwrap_or_default();
            glob::matches(option, name) || (name.len() > 3 && option.starts_with(name))
        });
    }
    let given = texts().any(|text| glob::matches(option, text));
    let clusters = || texts().filter(|text| text.starts_with('-') && !text.starts_with("--"));
    given || option[1..].chars().all(|letter| clusters().any(|text| text[1..].contains(letter)))
}

/// A pattern of hosts: a name, `*.example.com` for every name below it, or `*`.
pub(super) fn host_fits(pattern: &str, host: &Word, reach: Reach) -> Fit {
    match host {
        Word::Plain(text) => {
            let name = host_name(text).to_ascii_lowercase();
            Fit::from(glob::matches(&pattern.to_ascii_lowercase(), &name))
        }
        Word::Pattern(_) | Word::Unknown(_) => match reach {
            Reach::Narrow => Fit::No,
            Reach::Wide => Fit::Maybe,
        },
    }
}

/// The name in `user@name:port`, `scheme://name/path` or `[address]:port`.
fn host_name(text: &str) -> &str {
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.split(['/', '?', '#']).next().unwrap_or_default();
    let text = text.rsplit('@').next().unwrap_or_default();
    if let Some(address) = text.strip_prefix('[') {
        return address.split(']').next().unwrap_or_default();
    }
    let text = text.split(':').next().unwrap_or_default();
    text.trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str]) -> Run {
        let word = |text: &&str| match text.strip_prefix('$') {
            Some(_) => Word::Unknown((*text).to_owned()),
            None if text.contains('?') => Word::Pattern((*text).to_owned()),
            None => Word::Plain((*text).to_owned()),
        };
        Run { argv: words.iter().map(word).collect(), ..Run::default() }
    }

    fn check(pattern: &str, words: &[&str]) -> (Fit, Fit) {
        let (pattern, run) = (CommandPattern::from(pattern), run(words));
        (pattern.allows(&run), pattern.reaches(&run, false))
    }

    #[test]
    fn what_allows_is_compared_from_the_first_word_on() {
        assert_eq!(check("cargo test", &["cargo", "test", "--all"]).0, Fit::Yes);
        assert_eq!(check("cargo *", &["cargo"]).0, Fit::Yes);
        assert_eq!(check("cargo", &["/usr/bin/cargo", "run"]).0, Fit::Yes);
        for words in [&["./cargo", "test"][..], &["cargo", "-q", "test"], &["cargo", "$x"], &["$x"]]
        {
            assert_eq!(check("cargo test", words).0, Fit::No, "{words:?}");
        }
    }

    #[test]
    fn what_holds_back_is_found_behind_options_paths_and_shortened_words() {
        for words in [
            &["git", "push", "--force"][..],
            &["git", "push", "origin", "main", "--force"],
            &["git", "-C", "x", "--no-pager", "push", "--forc"],
            &["../../bin/git", "push", "--force=yes"],
        ] {
            assert_eq!(check("git push --force", words).1, Fit::Yes, "{words:?}");
        }
        for words in [&["git", "push"][..], &["git", "commit", "-m", "push"], &["gitk", "push"]] {
            assert_eq!(check("git push --force", words).1, Fit::No, "{words:?}");
        }
        assert_eq!(check("rm -rf", &["rm", "-r", "x", "-fv"]).1, Fit::Yes);
        assert_eq!(check("git push", &["git", "commit", "-m", "push"]).1, Fit::No);
    }

    #[test]
    fn what_only_the_run_can_tell_is_a_maybe() {
        for words in [&["git", "$x"][..], &["$git", "push"], &["/???/g?t", "push"]] {
            assert_eq!(check("git push", words).1, Fit::Maybe, "{words:?}");
        }
        assert_eq!(check("git push", &["$x", "status"]).1, Fit::No);
        let opaque = run(&["unshare", "-Ur", "touch", "x"]);
        assert_eq!(CommandPattern::from("touch").reaches(&opaque, true), Fit::Maybe);
        assert_eq!(CommandPattern::from("touch").reaches(&opaque, false), Fit::No);
    }

    #[test]
    fn variables_and_wrappers_that_change_what_runs_are_not_allowed_by_a_name() {
        let pattern = CommandPattern::from("ls");
        let mut ls = run(&["ls"]);
        ls.assignments.push(("LC_ALL".to_owned(), Word::Plain("C".to_owned())));
        ls.through = vec!["/usr/bin/env".to_owned()];
        assert_eq!(pattern.allows(&ls), Fit::Yes);
        ls.assignments.push(("LD_PRELOAD".to_owned(), Word::Plain("x".to_owned())));
        assert_eq!(pattern.allows(&ls), Fit::No);
        let mut ls = run(&["ls"]);
        ls.through = vec!["sudo".to_owned()];
        assert_eq!(pattern.allows(&ls), Fit::No);
        assert_eq!(CommandPattern::from("sudo").reaches(&ls, false), Fit::Yes);
    }

    #[test]
    fn a_host_is_its_name_whatever_stands_around_it() {
        let fits = |pattern: &str, host: &str| {
            host_fits(pattern, &Word::Plain(host.to_owned()), Reach::Narrow) == Fit::Yes
        };
        assert!(fits("crates.io", "https://me@Crates.io:443/x?y"));
        assert!(fits("*.example.com", "git.example.com"));
        assert!(fits("::1", "[::1]:80"));
        assert!(!fits("crates.io", "crates.io.evil.invalid"));
        assert!(!fits("*.example.com", "example.com"));
        assert!(!fits("crates.io", "https://crates.io@evil.invalid/"));
    }
}
