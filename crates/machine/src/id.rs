//! One newtype for each kind of id. Numbers are counted in the state, so that a replay gives the same ones;
//! only the task's own id comes from outside.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A task's id: lowercase letters and digits, made by the runtime.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

/// Letters and digits that cannot be mistaken for one another.
pub const TASK_LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl TaskId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of a task that is asked for with a key: the same for the same words, so that it can be made only once.
    pub fn keyed(scope: &str, key: &str) -> TaskId {
        let mut hash = Sha256::new();
        hash.update((scope.len() as u64).to_le_bytes());
        hash.update(scope);
        hash.update(key);
        let bytes = hash.finalize();
        let letters = bytes.iter().take(12).map(|byte| TASK_LETTERS[usize::from(byte % 32)]);
        TaskId(letters.map(char::from).collect())
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One piece of work for the world. Never used twice within a task, not even for a repeated attempt.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EffectId(pub u64);

/// One action of a driver, whatever number of attempts it takes. People see it as `c12`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CallId(pub u64);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// One question to a person about what comes next, as often as one is put. People see it as `q3`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct QuestionId(pub u64);

impl QuestionId {
    pub(crate) fn is_none(&self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "q{}", self.0)
    }
}

impl std::str::FromStr for QuestionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix('q').and_then(|number| number.parse().ok());
        number
            .map(QuestionId)
            .ok_or_else(|| format!("{text:?} is not a question: expected something like q3"))
    }
}

impl std::str::FromStr for CallId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.strip_prefix('c')
            .unwrap_or(text)
            .parse()
            .map(CallId)
            .map_err(|_| format!("{text:?} is not a call: expected something like c12"))
    }
}
