//! A call taken apart: the commands that a line can run, the paths that are read and written, the hosts that are
//! spoken to. Nothing is decided here.

use serde_json::Value;

use super::place::{Folders, Place};
use super::{Access, Question, command};
use crate::diff;
use crate::shell::known::{self, Deeds, Kind, Known};
use crate::shell::{self, Flow, Reading, Run, Unclear, Word};

/// As many folders are followed that a line changes to; beyond, nobody knows where it is.
const MAX_FOLDERS: usize = 6;
/// The longest text of a part.
const MAX_TEXT: usize = 200;

/// One thing that is judged alone.
#[derive(Debug)]
pub(super) struct Part<'a> {
    /// What it is.
    pub(super) subject: Subject<'a>,
    /// The command it belongs to.
    pub(super) run: Option<&'a Run>,
    /// Whether nothing is known of that command.
    pub(super) opaque: bool,
}

/// What a part is.
#[derive(Debug)]
pub(super) enum Subject<'a> {
    /// The call itself, by its tool.
    Call {
        /// Whether it says something that its other parts do not. Where it does not, a rule that holds the tool alone back
        /// means each of them, in its place among the rules, and not the call beside them: else it would come before every
        /// rule about a part.
        alone: bool,
    },
    /// One command.
    Command(Deed<'a>),
    /// A piece of the line that is not understood.
    Unclear(&'a Unclear),
    /// A path.
    Path {
        place: Place,
        access: Access,
        /// Whether a folder is meant with all that is in it.
        whole: bool,
        named: Named,
        /// As it was written.
        text: &'a str,
    },
    /// A host.
    Host(&'a Word),
}

/// What is known of a command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed<'a> {
    /// It does nothing but set variables or open files, which are judged by themselves.
    Nothing,
    /// Work of a kind.
    Work(Kind),
    /// It speaks to hosts that are all named, and they are judged by themselves.
    Speaks,
    /// Nothing, and why.
    Unknown(&'a str),
}

/// Who names a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// A file tool's parameter.
    Tool,
    /// A redirection: the shell opens it, whatever the command is.
    Redirect,
    /// An argument of a program that is known to read or write it.
    Program,
    /// An argument of a program of which nobody knows what it does with it.
    Guess,
}

/// The command that an agent's call names in its title, where its parameters name none.
pub(super) fn titled<'q>(question: &Question<'q>) -> Option<&'q str> {
    let is_command = question.tool.contains('.') && question.input["kind"] == "execute";
    question.input["title"].as_str().filter(|_| is_command)
}

/// A call that has been read, to borrow parts from.
#[derive(Debug, Default)]
pub(super) struct Call {
    reading: Reading,
    known: Vec<Known>,
    paths: Vec<(String, Access)>,
    /// Whether its parts are all there is to it.
    is_its_parts: bool,
    /// Whether a tool reads folders with all that is in them.
    is_deep: bool,
}

impl Call {
    /// Reads a call.
    pub(super) fn read(question: &Question<'_>) -> Call {
        if question.tool != "shell" {
            let paths = tool_paths(question.tool, question.input);
            // Checks do more than read the path that they are asked about.
            let is_its_parts = question.tool != "validator.run";
            let is_deep = matches!(question.tool, "grep" | "skeleton" | "view");
            return Call { paths, is_its_parts, is_deep, ..Call::default() };
        }
        let reading = shell::read(question.input["command"].as_str().unwrap_or_default());
        let known = reading.runs.iter().map(look).collect();
        Call { reading, known, is_its_parts: true, ..Call::default() }
    }

    /// Gives every part to `take`, in the order of the text.
    pub(super) fn each<'a>(&'a self, folders: Folders<'_>, mut take: impl FnMut(Part<'a>)) {
        let Reading { runs, unclear } = &self.reading;
        let is_empty = self.paths.is_empty() && runs.is_empty() && unclear.is_empty();
        let alone = is_empty || !self.is_its_parts;
        take(Part { subject: Subject::Call { alone }, run: None, opaque: false });
        for (text, access) in &self.paths {
            let place = Place::of_tool(text, folders);
            let (access, named) = (*access, Named::Tool);
            let whole = access == Access::Write || self.is_deep;
            let subject = Subject::Path { place, access, whole, named, text };
            take(Part { subject, run: None, opaque: false });
        }
        if !runs.is_empty() {
            let mut places: Vec<Option<String>> = vec![Some(String::new())];
            for (run, known) in runs.iter().zip(&self.known) {
                each_of_run(run, known, folders, &mut places, &mut take);
            }
        }
        for unclear in unclear {
            take(Part { subject: Subject::Unclear(unclear), run: None, opaque: true });
        }
    }
}

/// What is known of a run, and what this gate knows of the shell itself.
fn look(run: &Run) -> Known {
    let nothing = |reads| {
        let (writes, hosts) = (Vec::new(), Vec::new());
        Known::Understood(Deeds { kind: Kind::Look, reads, deep: false, writes, hosts })
    };
    if command::has_odd_wrapper(run) {
        let wrapper = run.through.join(" ");
        return Known::Unknown(format!("it runs through {wrapper}"));
    }
    match run.argv.first() {
        None => {
            // Names in capitals may be exported already, and steer what runs next.
            let own = |name: &str| !name.contains(|c: char| c.is_uppercase() || "[]$`".contains(c));
            let all = run.assignments.iter().all(|(name, _)| own(name) || command::is_plain(name));
            if all { nothing(Vec::new()) } else { known::look(run) }
        }
        Some(Word::Plain(name)) if name == "cd" && run.assignments.is_empty() => {
            nothing(folder_of(run).into_iter().cloned().collect())
        }
        Some(Word::Plain(_)) => known::look(run),
        Some(Word::Pattern(_) | Word::Unknown(_)) => {
            Known::Unknown("only the run can tell which program it is".to_owned())
        }
    }
}

fn folder_of(run: &Run) -> Option<&Word> {
    run.argv.iter().skip(1).find(|word| match word {
        Word::Plain(text) => !text.starts_with('-') || text == "-",
        Word::Pattern(_) | Word::Unknown(_) => true,
    })
}

fn each_of_run<'a>(
    run: &'a Run,
    known: &'a Known,
    folders: Folders<'_>,
    places: &mut Vec<Option<String>>,
    take: &mut impl FnMut(Part<'a>),
) {
    let (deed, deeds) = match known {
        _ if run.argv.is_empty() && matches!(known, Known::Understood(_)) => (Deed::Nothing, None),
        Known::Understood(deeds) if deeds.kind == Kind::Reach && all_named(&deeds.hosts) => {
            (Deed::Speaks, Some(deeds))
        }
        Known::Understood(deeds) => (Deed::Work(deeds.kind), Some(deeds)),
        Known::Unknown(why) => (Deed::Unknown(why), None),
    };
    let opaque = deeds.is_none() && !matches!(deed, Deed::Nothing);
    take(Part { subject: Subject::Command(deed), run: Some(run), opaque });
    let is_deep = deeds.is_none_or(|deeds| deeds.deep);
    let mut path = |word: &Word, text: &'a str, access, named| {
        let mut seen: Vec<Place> = Vec::new();
        for folder in places.iter() {
            let place = Place::of_word(word, folder.as_deref(), folders);
            if !seen.contains(&place) {
                seen.push(place.clone());
                let whole = match named {
                    _ if access == Access::Write => true,
                    Named::Program => is_deep,
                    // Nobody knows how much of a folder such a program reads.
                    Named::Guess => opaque,
                    Named::Redirect | Named::Tool => false,
                };
                let subject = Subject::Path { place, access, whole, named, text };
                take(Part { subject, run: Some(run), opaque });
            }
        }
    };
    for redirect in &run.redirects {
        let access = match redirect.flow {
            Flow::Read => Access::Read,
            Flow::Write => Access::Write,
        };
        path(&redirect.target, text_of(&redirect.target), access, Named::Redirect);
    }
    if let Some(deeds) = deeds {
        for word in &deeds.reads {
            path(word, text_of(word), Access::Read, Named::Program);
        }
        for word in &deeds.writes {
            path(word, text_of(word), Access::Write, Named::Program);
        }
    }
    if opaque && known::may_show_checkout(run) {
        path(&Word::Plain(".".to_owned()), ".", Access::Read, Named::Program);
    }
    if opaque && known::may_change_checkout(run) {
        path(&Word::Plain(".".to_owned()), ".", Access::Write, Named::Program);
    }
    let exact = deeds.is_some_and(|deeds| matches!(deeds.kind, Kind::Look | Kind::Change));
    if !exact {
        let named = |word: &&Word| {
            let known = |words: &[Word]| words.contains(word);
            !deeds.is_some_and(|deeds| known(&deeds.reads) || known(&deeds.writes))
        };
        for word in run.argv.iter().skip(1).filter(named) {
            if is_plain_path(word) {
                path(word, text_of(word), Access::Read, Named::Guess);
            }
            if let Some(value) = value_of(word).filter(|_| opaque) {
                path(&value, text_of(word), Access::Read, Named::Guess);
            }
        }
    }
    for host in deeds.into_iter().flat_map(|deeds| &deeds.hosts) {
        take(Part { subject: Subject::Host(host), run: Some(run), opaque });
    }
    change_folder(run, folders, places);
}

fn all_named(hosts: &[Word]) -> bool {
    !hosts.is_empty() && hosts.iter().all(|host| matches!(host, Word::Plain(_)))
}

/// An argument that may be a path; options and words that only the run can tell are none to look at.
fn is_plain_path(word: &Word) -> bool {
    let text = text_of(word);
    !matches!(word, Word::Unknown(_)) && !text.starts_with('-') && !text.contains("://")
        || matches!(word, Word::Unknown(text) if text.starts_with(['~', '$']) && text.contains('/'))
}

/// What an argument of an unknown program gives a name to, as in `--output=x`, `of=x` and `-Cx`: that may be a path, too.
fn value_of(word: &Word) -> Option<Word> {
    let text = text_of(word);
    let value = match (text.split_once('='), text.strip_prefix('-')) {
        (Some((_, value)), _) => value,
        (None, Some(letters)) if !letters.starts_with('-') => letters.get(1..)?,
        (None, _) => return None,
    };
    let value = value.to_owned();
    match word {
        Word::Plain(_) => Some(Word::Plain(value)),
        Word::Pattern(_) => Some(Word::Pattern(value)),
        Word::Unknown(_) => None,
    }
    .filter(|value| is_plain_path(value) && !text_of(value).is_empty())
}

/// Follows a line to where it changes folders. It may fail to, or do so in a sub-shell: the former places stay.
fn change_folder(run: &Run, folders: Folders<'_>, places: &mut Vec<Option<String>>) {
    let Some(Word::Plain(program)) = run.argv.first() else { return };
    if !matches!(program.as_str(), "cd" | "pushd" | "popd") {
        return;
    }
    let home = Word::Unknown("~".to_owned());
    let target = folder_of(run);
    let next: Vec<Option<String>> = match (program.as_str(), target) {
        ("popd", _) => vec![None],
        (_, Some(Word::Plain(text))) if text == "-" => vec![None],
        (_, target) => {
            let word = target.unwrap_or(&home);
            let to = |from: &Option<String>| {
                Place::of_word(word, from.as_deref(), folders).folder().map(str::to_owned)
            };
            places.iter().map(to).collect()
        }
    };
    for place in next {
        let place = if places.len() < MAX_FOLDERS { place } else { None };
        if !places.contains(&place) {
            places.push(place);
        }
    }
}

/// The paths that a file tool is given.
pub(crate) fn tool_paths(tool: &str, input: &Value) -> Vec<(String, Access)> {
    let text = |key: &str| input[key].as_str().map(str::to_owned);
    let path = || text("path").unwrap_or_else(|| ".".to_owned());
    match tool {
        "read" | "skeleton" | "view" | "grep" => vec![(path(), Access::Read)],
        "glob" => vec![(text("pattern").unwrap_or_default(), Access::Read)],
        "validator.run" => vec![(path(), Access::Read)],
        "write" | "edit" => match input["paths"].as_array() {
            // What an agent writes with a tool of its own may be several files.
            Some(paths) if !paths.is_empty() => {
                let text = |path: &Value| path.as_str().unwrap_or_default().to_owned();
                paths.iter().map(|path| (text(path), Access::Write)).collect()
            }
            _ => vec![(path(), Access::Write)],
        },
        "patch" => patched(input["diff"].as_str().unwrap_or_default()),
        _ => Vec::new(),
    }
}

/// The files that a diff names. One that the tool cannot read changes nothing.
fn patched(diff: &str) -> Vec<(String, Access)> {
    let mut paths: Vec<(String, Access)> = Vec::new();
    for patch in diff::parse(diff).unwrap_or_default() {
        // What is moved or copied can be read at its new place.
        let moved = patch.old.as_deref().filter(|_| patch.new.is_some() && patch.new != patch.old);
        let read = moved.into_iter().map(|name| (name, Access::Read));
        for (name, access) in read.chain(patch.names().map(|name| (name, Access::Write))) {
            let path = (name.to_owned(), access);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths
}

impl Part<'_> {
    /// The part in one line, for a person.
    pub(super) fn text(&self) -> String {
        match &self.subject {
            Subject::Call { .. } => String::new(),
            Subject::Command(_) => self.run.map(run_text).unwrap_or_default(),
            Subject::Unclear(unclear) => short(&unclear.text),
            Subject::Path { place, access, text, .. } => {
                let verb = match access {
                    Access::Read => "read",
                    Access::Write => "write",
                };
                short(&format!("{verb} {}", place.shown().unwrap_or(text)))
            }
            Subject::Host(word) => short(text_of(word)),
        }
    }
}

/// The program of a run as written.
pub(super) fn program(run: &Run) -> &str {
    run.argv.first().map_or("", text_of)
}

fn run_text(run: &Run) -> String {
    let set = run.assignments.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
    let words: Vec<String> = set.chain(run.argv.iter().map(quoted)).collect();
    short(&words.join(" "))
}

fn quoted(word: &Word) -> String {
    match word {
        Word::Plain(text) => {
            let plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_^".contains(c);
            if !text.is_empty() && text.chars().all(plain) {
                text.clone()
            } else {
                format!("'{}'", text.replace('\'', "'\\''"))
            }
        }
        Word::Pattern(text) | Word::Unknown(text) => text.clone(),
    }
}

fn text_of(word: &Word) -> &str {
    let (Word::Plain(text) | Word::Pattern(text) | Word::Unknown(text)) = word;
    text
}

fn short(text: &str) -> String {
    if text.chars().count() <= MAX_TEXT {
        return text.to_owned();
    }
    let start: String = text.chars().take(MAX_TEXT - 1).collect();
    format!("{start}…")
}
