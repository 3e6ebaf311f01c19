//! What programs do that are known by name.

use super::{Run, Word};

/// What is known of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The program is known, and so is what it does with these arguments.
    Understood(Deeds),
    /// It is not, and why.
    Unknown(String),
}

/// What a run does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deeds {
    /// The kind of work.
    pub kind: Kind,
    /// What it reads.
    pub reads: Vec<Word>,
    /// What it writes.
    pub writes: Vec<Word>,
    /// Whom it speaks to.
    pub hosts: Vec<Word>,
}

/// The kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only reads.
    Look,
    /// It writes exactly the named paths.
    Change,
    /// It runs the project's code or build tools.
    Build,
    /// It records what is there: `git add`, `git commit`.
    Record,
    /// It needs the network.
    Reach,
}

/// Looks at one run.
pub fn look(run: &Run) -> Known {
    let _ = run;
    Known::Unknown("nothing is known yet".to_owned())
}
