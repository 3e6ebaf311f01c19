//! The small languages of sed and awk: does a script only print?

mod awk;
mod sed;

pub(super) use awk::awk;
pub(super) use sed::sed;

use super::Word;

/// What a script can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It only prints.
    Prints,
    /// It changes the files that it is given.
    Writes,
    /// It may write, or read what it is not given.
    NotKnown,
    /// It may run commands.
    MayRun,
}

/// A script and the files it is given.
pub(super) struct Script {
    pub(super) verdict: Verdict,
    pub(super) files: Vec<Word>,
}

impl Script {
    fn of(verdict: Verdict) -> Script {
        Script { verdict, files: Vec::new() }
    }
}
