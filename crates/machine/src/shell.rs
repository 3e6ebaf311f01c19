//! What a shell command line runs, as far as its text tells. Reading is total and has no opinion: what may run is
//! decided by `policy::permission`, and what is not understood is named, so that it can be refused.

mod builtin;
mod characters;
mod compound;
mod device;
mod dollar;
mod here;
pub mod known;
mod options;
mod scan;
mod script;
mod settle;
mod simple;
mod variable;
mod word;
mod wrap;

use serde::{Deserialize, Serialize};

/// A command line as read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// Every simple command that can run, in the order of the text: those of pipelines, lists, groups, bodies,
    /// substitutions, and those that a wrapper (`env`, `sudo`, `xargs`, `bash -c`, `find -exec` …) starts.
    pub runs: Vec<Run>,
    /// What the text does that this reading does not cover; empty if all of it is understood.
    pub unclear: Vec<Unclear>,
}

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    /// The program and its arguments; empty for a line of assignments and redirections alone.
    pub argv: Vec<Word>,
    /// Variables set for it, or for the shell if there is no program.
    pub assignments: Vec<(String, Word)>,
    /// Where its input comes from and its output goes; those of enclosing groups too.
    pub redirects: Vec<Redirect>,
    /// The wrappers it was reached through, outermost first; empty if the line names it itself.
    pub through: Vec<String>,
}

/// A word after quotes are removed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Word {
    /// Exactly this text, whatever happens.
    Plain(String),
    /// Names of files that match, or the text itself if none does.
    Pattern(String),
    /// Depends on what happens when it runs; the text as written.
    Unknown(String),
}

/// One redirection to or from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Which way.
    pub flow: Flow,
    /// The file.
    pub target: Word,
}

/// Which way a redirection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flow {
    /// The file is read.
    Read,
    /// The file is written, from its start or its end.
    Write,
}

/// Something that is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclear {
    /// The part of the text.
    pub text: String,
    /// Why it is not understood, in a few words.
    pub why: String,
}

impl Word {
    /// The exact text, if it is certain.
    pub fn plain(&self) -> Option<&str> {
        match self {
            Word::Plain(text) => Some(text),
            Word::Pattern(_) | Word::Unknown(_) => None,
        }
    }

    /// The text to show, whatever it stands for.
    pub fn text(&self) -> &str {
        match self {
            Word::Plain(text) | Word::Pattern(text) | Word::Unknown(text) => text,
        }
    }

    /// Whether it is one argument, and not an option, whatever happens when it runs.
    pub fn is_operand(&self) -> bool {
        match self {
            Word::Plain(text) => !text.starts_with('-'),
            // A pattern stands for any number of names, all of which begin as it does.
            Word::Pattern(text) => !text.starts_with(['-', '*', '?', '[']),
            Word::Unknown(text) => {
                self.is_single() && !text.starts_with(['-', '$', '`']) && !begins_open(text)
            }
        }
    }

    /// Whether it is exactly one argument, whatever happens when it runs.
    pub fn is_single(&self) -> bool {
        match self {
            Word::Plain(_) => true,
            Word::Pattern(_) => false,
            Word::Unknown(text) => one_quoted(text) || home_path(text),
        }
    }
}

/// Whether the text is one pair of double quotes and what is between them.
fn one_quoted(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return false;
    };
    !inner.contains(['"', '\\', '@', '*'])
}

/// Whether the text is a path below the home folder, with nothing else to expand.
fn home_path(text: &str) -> bool {
    text.starts_with("~/") && !text.contains(['$', '`', '*', '?', '[', '"', '\'', '\\'])
}

/// Whether the first character inside the quotes is not known, or is a dash.
fn begins_open(text: &str) -> bool {
    text.strip_prefix('"').is_some_and(|inner| inner.starts_with(['-', '$', '`', '"']))
}

/// Reads a command line. Takes time in proportion to its length, and never panics.
///
/// The line is for `sh`, which is dash on some machines and bash on others: what the two would read differently is
/// unclear. Where something is unclear the rest is still read as far as it can be, so that a rule that forbids a
/// program finds it.
pub fn read(text: &str) -> Reading {
    let mut reading = Reading::default();
    characters::check(text, &mut reading);
    scan::Scanner::new(text, 0, &mut reading).whole();
    reading
}

impl Reading {
    /// Notes something that is not understood. The first few are enough to say why a line is not clear.
    fn doubt(&mut self, text: &str, why: impl Into<String>) {
        if self.unclear.len() < MOST_DOUBTS {
            self.unclear.push(Unclear { text: excerpt(text), why: why.into() });
        }
    }
}

/// How many doubts are kept.
const MOST_DOUBTS: usize = 16;

/// How many characters of the text a doubt shows.
const EXCERPT: usize = 80;

/// How deep quotes, groups, substitutions and wrappers may be nested.
const DEEPEST: usize = 24;

/// How many redirections of a group or a wrapper are passed on to what runs inside.
const MOST_SHARED_REDIRECTS: usize = 8;

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
