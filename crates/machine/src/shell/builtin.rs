//! Commands that the shell itself carries out.

use super::settle::shown;
use super::variable::{is_harmless, is_harmless_value, is_name, may_be_set};
use super::{Reading, Run, Word};

/// Commands that change what the text after them means, or that only one of the shells has.
const CHANGING: &[(&str, &str)] = &[
    (".", "commands from a file"),
    ("alias", "a name that stands for something else"),
    ("bind", "keys that run commands"),
    ("builtin", "a command that one shell has and another does not"),
    ("caller", "a command that one shell has and another does not"),
    ("chdir", "a command that one shell has and another does not"),
    ("compgen", "a command that runs others"),
    ("complete", "a command that runs others"),
    ("compopt", "a command that one shell has and another does not"),
    ("coproc", "a command at the side"),
    ("declare", "variables with a meaning of their own"),
    ("dirs", "a command that one shell has and another does not"),
    ("disown", "a command that one shell has and another does not"),
    ("enable", "commands that the shell gets from a file"),
    ("exec", "it takes the place of the shell"),
    ("fc", "commands from the history"),
    ("function", "a function: what its name does changes"),
    ("getopts", "it sets variables"),
    ("hash", "a name that stands for another program"),
    ("help", "a command that one shell has and another does not"),
    ("history", "commands from the history, or a file that it writes"),
    ("let", "arithmetic that evaluates more than numbers"),
    ("local", "variables with a meaning of their own"),
    ("logout", "a command that one shell has and another does not"),
    ("mapfile", "a command that runs others"),
    ("popd", "a command that one shell has and another does not"),
    ("pushd", "a command that one shell has and another does not"),
    ("readarray", "a command that runs others"),
    ("select", "a loop that one shell knows and another does not"),
    ("shopt", "options that change how the text is read"),
    ("source", "commands from a file"),
    ("suspend", "a command that one shell has and another does not"),
    ("trap", "commands that run later"),
    ("typeset", "variables with a meaning of their own"),
    ("unalias", "a name that stood for something else"),
];

/// Doubts what a built-in command does beyond the plain.
pub(super) fn check(reading: &mut Reading, run: &Run, name: &str) {
    let arguments = &run.argv[1..];
    if let Ok(index) = CHANGING.binary_search_by_key(&name, |(name, _)| name) {
        return reading.doubt(&shown(&run.argv), CHANGING[index].1);
    }
    let problem = match name {
        "export" => export(arguments),
        "readonly" => readonly(arguments),
        "read" => read(arguments),
        "unset" => unset(arguments),
        "set" => set(arguments),
        "printf" => printf(arguments),
        "test" => test(arguments),
        "[" => match arguments.split_last() {
            Some((Word::Plain(last), rest)) if last == "]" => test(rest),
            _ => Some("`]` was expected"),
        },
        _ => None,
    };
    if let Some(problem) = problem {
        reading.doubt(&shown(&run.argv), problem);
    }
}

/// Only variables that change nothing for any program.
fn export(arguments: &[Word]) -> Option<&'static str> {
    let fine = !arguments.is_empty()
        && arguments.iter().all(|word| match word.plain() {
            Some(text) => match text.split_once('=') {
                Some((name, value)) => is_harmless_value(name, &Word::Plain(value.to_owned())),
                None => is_harmless(text),
            },
            None => false,
        });
    (!fine).then_some("it sets a variable that can change what programs do")
}

fn readonly(arguments: &[Word]) -> Option<&'static str> {
    let fine = !arguments.is_empty()
        && arguments.iter().all(|word| match word.plain() {
            Some(text) => may_be_set(text.split_once('=').map_or(text, |(name, _)| name)),
            None => false,
        });
    (!fine).then_some("it sets a variable that can change what programs do")
}

/// `read -r name…`, with names that are neither indexes nor meaningful.
fn read(arguments: &[Word]) -> Option<&'static str> {
    let names = match arguments.split_first() {
        Some((Word::Plain(option), rest)) if option == "-r" => rest,
        _ => arguments,
    };
    let fine = !names.is_empty() && names.iter().all(is_local);
    (!fine).then_some("it sets a variable in a form that is not known")
}

fn unset(arguments: &[Word]) -> Option<&'static str> {
    let names = match arguments.split_first() {
        Some((Word::Plain(option), rest)) if option == "-v" => rest,
        _ => arguments,
    };
    let fine = !names.is_empty() && names.iter().all(is_local);
    (!fine).then_some("it unsets a variable in a form that is not known")
}

fn is_local(word: &Word) -> bool {
    word.plain().is_some_and(|name| is_name(name) && may_be_set(name))
}

/// Options that change whether the shell goes on after a failure and what it prints, and nothing else.
fn set(arguments: &[Word]) -> Option<&'static str> {
    let problem = Some("an option that can change how the text is read");
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.plain() else { return problem };
        if text == "--" {
            return None;
        }
        let Some(letters) = text.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty())
        else {
            return problem;
        };
        let (letters, named) = match letters.strip_suffix('o') {
            Some(letters) => (letters, true),
            None => (letters, false),
        };
        if !letters.bytes().all(|letter| b"eux".contains(&letter)) {
            return problem;
        }
        let names = ["pipefail", "errexit", "nounset", "xtrace"];
        if named && !rest.next().and_then(Word::plain).is_some_and(|name| names.contains(&name)) {
            return problem;
        }
    }
    (arguments.is_empty()).then_some("it prints every variable")
}

/// `-v` and `%n` set variables.
fn printf(arguments: &[Word]) -> Option<&'static str> {
    let rest = match arguments.split_first() {
        Some((Word::Plain(text), rest)) if text == "--" => rest,
        _ => arguments,
    };
    let format = rest.first()?;
    let Some(text) = format.plain() else { return Some("what it prints by is not certain") };
    let dashed = text.starts_with('-') && rest.len() == arguments.len();
    (dashed || sets_variable(text)).then_some("it sets a variable")
}

/// Whether a format has a conversion that sets a variable, or one that cannot be followed.
fn sets_variable(format: &str) -> bool {
    let mut rest = format;
    while let Some((_, conversion)) = rest.split_once('%') {
        let letter =
            conversion.trim_start_matches(|c: char| "#-+ '.*".contains(c) || c.is_ascii_digit());
        let mut letters = letter.chars();
        match letters.next() {
            Some('n' | 'l' | 'h' | 'j' | 'z' | 't' | 'L' | 'q' | '\\') => return true,
            _ => rest = letters.as_str(),
        }
    }
    false
}

/// `-v` and `-R` evaluate an index; which word is an operator must be certain.
fn test(arguments: &[Word]) -> Option<&'static str> {
    let problem = Some("what is tested is not certain");
    let is = |word: &Word, texts: &[&str]| word.plain().is_some_and(|text| texts.contains(&text));
    if arguments.iter().any(|word| is(word, &["-v", "-R"])) {
        return Some("it evaluates the name of a variable");
    }
    if !arguments.iter().all(Word::is_single) {
        return problem;
    }
    if arguments.iter().all(|word| word.plain().is_some()) {
        return None;
    }
    let arguments = match arguments.split_first() {
        Some((first, rest)) if is(first, &["!"]) => rest,
        _ => arguments,
    };
    let fine = match arguments {
        [_] => true,
        [operator, _] => operator.plain().is_some_and(|text| text.starts_with('-')),
        [_, operator, _] => {
            let operators =
                ["=", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];
            is(operator, &operators)
        }
        _ => false,
    };
    if fine { None } else { problem }
}
