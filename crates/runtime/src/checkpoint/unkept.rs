//! Why there is no checkpoint: something in the workspace, which whoever put it there can mend, or anything else.

use std::fmt;

/// Why a workspace could not be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unkept {
    /// The workspace holds something that cannot be kept.
    Incomplete(String),
    /// Keeping it did not work.
    Failed(String),
}

impl Unkept {
    pub(super) fn incomplete(what: impl fmt::Display) -> Unkept {
        Unkept::Incomplete(format!("incomplete: {what}"))
    }

    /// The same in more words.
    pub(super) fn map(self, words: impl Fn(String) -> String) -> Unkept {
        match self {
            Unkept::Incomplete(why) => Unkept::Incomplete(words(why)),
            Unkept::Failed(why) => Unkept::Failed(words(why)),
        }
    }
}

impl AsRef<str> for Unkept {
    fn as_ref(&self) -> &str {
        match self {
            Unkept::Incomplete(why) | Unkept::Failed(why) => why,
        }
    }
}

impl From<String> for Unkept {
    fn from(why: String) -> Unkept {
        Unkept::Failed(why)
    }
}

impl From<Unkept> for String {
    fn from(unkept: Unkept) -> String {
        match unkept {
            Unkept::Incomplete(why) | Unkept::Failed(why) => why,
        }
    }
}
