//! What a shell command line runs, as far as its text tells. Reading is total and has no opinion: what may run is
//! decided by `policy::permission`, and what is not understood is named, so that it can be refused.

pub mod known;

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

/// Reads a command line. Takes time in proportion to its length, and never panics.
pub fn read(text: &str) -> Reading {
    let unclear = Unclear { text: text.to_owned(), why: "it is not read yet".to_owned() };
    Reading { runs: Vec::new(), unclear: vec![unclear] }
}
