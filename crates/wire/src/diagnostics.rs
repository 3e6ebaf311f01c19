//! What compilers, checkers and test runners say is wrong, and where: their output as values.
//!
//! One reader for all of them, line by line, because a check's command may be anything: a shape that no tool uses
//! for something else is recognised wherever it stands. What is not recognised is left to the raw output.

#[cfg(test)]
mod tests;

use std::fmt;

/// The most that are kept of one output.
const MOST: usize = 1000;
/// How much of a line is looked at, in bytes.
const LINE: usize = 4000;
/// How long a message is at most, in characters.
const MESSAGE: usize = 400;
/// File names without an ending that tools report.
const BARE_FILES: [&str; 4] = ["Makefile", "makefile", "GNUmakefile", "Dockerfile"];

/// How bad it is. The worst is the least, so that it comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The check fails because of it.
    Error,
    /// Worth a look.
    Warning,
    /// Belongs to another one.
    Note,
}

impl Severity {
    /// The word people see.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, as the tool named it, without `./` in front.
    pub path: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, where the tool tells.
    pub column: Option<u32>,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.line)?;
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, " {} {}", self.severity.word(), self.message)
    }
}

/// Everything recognised in an output, each once: errors first, otherwise in the order of the output.
pub fn parse(output: &str) -> Vec<Diagnostic> {
    let mut reader = Reader::default();
    for line in output.lines() {
        reader.line(&plain(line));
        if reader.found.len() >= MOST {
            break;
        }
    }
    reader.end_of_section();
    let mut found = reader.found;
    found.sort_by_key(|diagnostic| diagnostic.severity);
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|diagnostic| seen.insert(diagnostic.clone()));
    found
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: String,
    line: u32,
    column: Option<u32>,
}

/// What was read and waits for its other half: some tools say the place first, some the message.
#[derive(Debug, Default)]
struct Reader {
    found: Vec<Diagnostic>,
    /// A message of rustc, before its place.
    message: Option<(Severity, String)>,
    /// A place whose message is on the next line: a panic, an error of CMake.
    place: Option<(Severity, Place)>,
    /// The last place of a traceback of Python.
    traceback: Option<Place>,
    /// Whether it is one that Python itself prints: the next line that is not indented says what was raised.
    is_printed: bool,
    /// What pytest marks with `E`.
    marked: Option<Marked>,
    /// What a program in Go panics with, before the places of its trace.
    panic: Option<String>,
    /// Where Go's own sources are, as far as the trace shows it.
    go_root: Option<String>,
}

/// Lines that pytest marks, one after the other.
#[derive(Debug)]
struct Marked {
    first: String,
    last: String,
    /// Whether Python showed source between them: what is wrong comes last then, and first otherwise.
    shows_source: bool,
}

impl Marked {
    fn message(self) -> String {
        if self.shows_source { self.last } else { self.first }
    }
}

impl Reader {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return;
        }
        if let Some((severity, place)) = self.place.take() {
            return self.add(place, severity, trimmed);
        }
        // Dashes stand before what a test printed.
        if ["____", "====", "----"].iter().any(|rule| line.starts_with(rule)) {
            return self.end_of_section();
        }
        if let Some(text) = line.strip_prefix("E ").or_else(|| line.strip_prefix("E\t")) {
            return self.marked(text.trim());
        }
        if let Some(rest) = trimmed.strip_prefix("--> ") {
            if let (Some((severity, message)), Some((place, ""))) =
                (self.message.take(), place(rest))
            {
                self.add(place, severity, &message);
            }
            return;
        }
        if let Some(place) = python_frame(trimmed) {
            self.traceback = Some(place);
            self.is_printed = true;
            return;
        }
        if let Some(place) = announced(trimmed) {
            self.place = Some(place);
            return;
        }
        if let Some(said) = line.strip_prefix("panic: ") {
            self.panic = Some(said.split(" [recovered").next().unwrap_or(said).to_owned());
            return;
        }
        if let Some(place) = go_frame(line) {
            return self.go_frame(place);
        }
        if let Some((severity, message)) = severity(line) {
            self.message = Some((severity, message.to_owned()));
            return;
        }
        let is_raised = is_exception(line) || (self.is_printed && is_named(line));
        if let Some(place) = self.traceback.take_if(|_| is_raised) {
            return self.add(place, Severity::Error, trimmed);
        }
        let by_whom = ["vet: ", "/usr/bin/ld: "];
        self.placed(by_whom.iter().find_map(|who| trimmed.strip_prefix(who)).unwrap_or(trimmed));
    }

    /// A step of Go's trace, the innermost first. The first that is not in Go's own sources is where it went wrong.
    fn go_frame(&mut self, place: Place) {
        let own = ["/src/runtime/panic.go", "/src/testing/testing.go"]
            .iter()
            .find_map(|own| place.path.find(own));
        if let Some(at) = own {
            self.go_root = Some(place.path[..at].to_owned());
        }
        let is_own = self.go_root.as_ref().is_some_and(|root| place.path.starts_with(root));
        if let Some(said) = self.panic.take_if(|_| !is_own) {
            self.add(place, Severity::Error, &format!("panic: {said}"));
        }
    }

    /// A line that begins with its place.
    fn placed(&mut self, line: &str) {
        let Some((place, rest)) = place(line) else { return };
        let rest = rest.trim_start_matches([':', ' ']).trim_start_matches("- ");
        if let Some((severity, message)) = severity(rest) {
            return self.add(place, severity, message);
        }
        // Without a word that says so, only what cannot be anything else is a file.
        if place.path.contains(char::is_whitespace) || !has_ending(&place.path) {
            return;
        }
        let is_step = rest.is_empty() || rest.starts_with("in ");
        let is_class = is_exception(rest) && !rest.contains(' ');
        let names_class = self.marked.is_some() && !rest.contains(' ') && !is_step;
        if is_class || names_class || (rest.is_empty() && self.marked.is_some()) {
            // How pytest ends what it marked.
            let message = match self.marked.take().map(Marked::message) {
                Some(said) if names(&said, rest) => said,
                Some(said) => format!("{rest}: {said}"),
                None => rest.to_owned(),
            };
            self.traceback = None;
            self.add(place, Severity::Error, &message);
        } else if is_step {
            if self.marked.is_some() {
                // In its short form another error follows what was marked.
                self.place_marked();
            }
            // A step of a traceback; those outside the project are not where the mistake is.
            if !place.path.starts_with(['/', '<', '.']) {
                self.traceback = Some(place);
                self.is_printed = false;
            }
        } else if is_warning(rest) {
            self.add(place, Severity::Warning, rest);
        } else if rest.starts_with("required ") || rest.starts_with("recursively required ") {
            // How gcc tells where a template is used.
            self.add(place, Severity::Note, rest);
        } else {
            self.add(place, Severity::Error, rest);
        }
    }

    /// A line that pytest marks: a part of an error whose place comes before or after it.
    fn marked(&mut self, text: &str) {
        let frame = python_frame(text);
        let shows_source = frame.is_some();
        if let Some(place) = frame {
            self.traceback = Some(place);
            self.is_printed = false;
        }
        match &mut self.marked {
            Some(marked) => {
                marked.shows_source |= shows_source;
                text.clone_into(&mut marked.last);
            }
            None => {
                let (first, last) = (text.to_owned(), text.to_owned());
                self.marked = Some(Marked { first, last, shows_source });
            }
        }
    }

    /// What was marked and got no place of its own belongs to the last one of the traceback.
    fn place_marked(&mut self) {
        if let (Some(marked), Some(place)) = (self.marked.take(), self.traceback.take()) {
            self.add(place, Severity::Error, &marked.message());
        }
    }

    fn end_of_section(&mut self) {
        self.place_marked();
        self.message = None;
    }

    fn add(&mut self, place: Place, severity: Severity, message: &str) {
        let message: String = message.chars().take(MESSAGE).collect();
        let path = place.path.strip_prefix("./").unwrap_or(&place.path).to_owned();
        let Place { line, column, .. } = place;
        self.found.push(Diagnostic { path, line, column, severity, message });
    }
}

/// A line without colours and control characters, and not longer than anyone reads.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // `ESC [ ... letter` sets a colour; anything else is two characters long.
            if chars.next() == Some('[') {
                let _ = chars.find(char::is_ascii_alphabetic);
            }
        } else if c == '\t' || !c.is_control() {
            text.push(c);
        }
        if text.len() >= LINE {
            break;
        }
    }
    text
}

/// The place that a line begins with, `path:1:2` or `path(1,2)`, and what follows it.
fn place(line: &str) -> Option<(Place, &str)> {
    for (at, sign) in line.char_indices().filter(|(_, c)| matches!(c, ':' | '(')) {
        let (path, after) = (&line[..at], &line[at + 1..]);
        let Some((number, rest)) = whole(after) else { continue };
        if !is_path(path) {
            return None;
        }
        let found = |column| Place { path: path.to_owned(), line: number, column };
        if sign == '(' {
            let (column, rest) = match rest.strip_prefix(',').and_then(whole) {
                Some((column, rest)) => (Some(column), rest),
                None => (None, rest),
            };
            return rest.strip_prefix("):").map(|rest| (found(column), rest));
        }
        return match rest.strip_prefix(':').and_then(whole) {
            Some((column, rest)) => Some((found(Some(column)), rest)),
            None if rest.is_empty() || rest.starts_with([':', ' ']) => Some((found(None), rest)),
            None => None,
        };
    }
    None
}

/// The number that a text begins with.
fn whole(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn is_path(path: &str) -> bool {
    let odd = |c: char| matches!(c, '"' | '|' | '=' | '{' | '}' | ';' | '`' | '*');
    let numbers = |c: char| c.is_ascii_digit() || matches!(c, '.' | ':');
    !path.trim().is_empty()
        && !path.contains(odd)
        && !path.contains("://")
        && !path.chars().all(numbers)
        && (path.contains(['.', '/']) || BARE_FILES.contains(&path))
}

fn has_ending(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    BARE_FILES.contains(&name)
        || name.starts_with('<')
        || ending.is_some_and(|ending| ending.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The severity that a text begins with, and its message: `error[E0308]: mismatched types`.
fn severity(text: &str) -> Option<(Severity, &str)> {
    const WORDS: [(&str, Severity); 8] = [
        ("fatal error", Severity::Error),
        ("error", Severity::Error),
        ("Error", Severity::Error),
        ("warning", Severity::Warning),
        ("Warning", Severity::Warning),
        ("note", Severity::Note),
        ("info", Severity::Note),
        ("hint", Severity::Note),
    ];
    let (word, severity) = WORDS.iter().find(|(word, _)| text.starts_with(word))?;
    let rest = &text[word.len()..];
    // The tool's own code of the message may stand between: `[E0308]`, ` TS2322`.
    let (code, message) = rest.split_once(':')?;
    let short =
        code.len() <= 60 && code.chars().all(|c| c.is_alphanumeric() || "[]-_: ".contains(c));
    let fits = code.is_empty() || code.starts_with('[') || code.starts_with(" TS");
    (short && fits && !message.trim().is_empty()).then(|| (*severity, message.trim()))
}

/// `File "a.py", line 3, in f`.
fn python_frame(line: &str) -> Option<Place> {
    let (path, rest) = line.strip_prefix("File \"")?.split_once("\", line ")?;
    let (line, _) = whole(rest)?;
    Some(Place { path: path.to_owned(), line, column: None })
}

/// `ValueError: too bad`, or the bare name.
fn is_exception(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let named = ["Error", "Exception", "Interrupt", "Exit", "Failed", "Warning"];
    name.chars().all(plain) && named.iter().any(|end| name.ends_with(end))
}

/// `subprocess.TimeoutExpired: too late`, `zlib.error: bad`: a class by the way it is written.
fn is_named(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    name.chars().all(plain) && (name.starts_with(char::is_uppercase) || name.contains('.'))
}

/// Whether an error's own words begin with its class, with or without the module; without a class they are all there is.
fn names(said: &str, class: &str) -> bool {
    let name = said.split(':').next().unwrap_or_default();
    class.is_empty() || name == class || name.ends_with(&format!(".{class}"))
}

/// `DeprecationWarning: old`, as Python and pytest tell what does not fail.
fn is_warning(text: &str) -> bool {
    let name = text.split(':').next().unwrap_or_default();
    text != name && name.ends_with("Warning") && is_exception(name)
}

/// `\t/project/a.go:4 +0x1d`, a step of Go's trace.
fn go_frame(line: &str) -> Option<Place> {
    let (place, rest) = place(line.strip_prefix('\t')?)?;
    let is_step = rest.is_empty() || rest.starts_with(" +0x");
    (is_step && place.path.ends_with(".go")).then_some(place)
}

/// A place whose message follows on the next line.
fn announced(line: &str) -> Option<(Severity, Place)> {
    if line.starts_with("thread ") {
        let (_, at) = line.split_once(" panicked at ")?;
        return match place(at)? {
            (place, ":") => Some((Severity::Error, place)),
            _ => None,
        };
    }
    let (severity, rest) = match line.strip_prefix("CMake Error at ") {
        Some(rest) => (Severity::Error, rest),
        None => (Severity::Warning, line.strip_prefix("CMake Warning at ")?),
    };
    place(rest).map(|(place, _)| (severity, place))
}
