//! Folds of events and states into what a person sees. Pure: text in, text out; nothing here prints.

pub mod agents;
pub mod approvals;
pub mod checkpoints;
pub mod contest;
pub mod decisions;
pub mod diff;
pub mod graph;
pub mod network;
pub mod policy;
pub mod queue;
pub mod receipt;
pub mod recovery;
pub mod scripts;
pub mod shelf;
pub mod spend;
pub mod story;
pub mod stream;
pub mod tasks;
pub mod text;
pub mod transcript;
pub mod why;
pub mod worktrees;

/// One line for a person, with how it is meant. The terminal decides about colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How it is meant.
    pub tone: Tone,
    /// The text: printable, without a line break.
    pub text: String,
}

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// A heading.
    Strong,
    /// Beside the point.
    Faint,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// A person is asked.
    Ask,
}

impl Line {
    /// A line of any tone.
    pub fn new(tone: Tone, text: impl Into<String>) -> Line {
        Line { tone, text: text.into() }
    }

    /// A plain line.
    pub fn plain(text: impl Into<String>) -> Line {
        Line::new(Tone::Plain, text)
    }

    /// An empty line.
    pub fn empty() -> Line {
        Line::plain("")
    }
}

/// Lines as one text, without their tones.
pub fn join(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.text.trim_end());
        text.push('\n');
    }
    text
}
