//! Shortcuts learned from denials: a worker that asks for the same call again is refused at once, without a person
//! being asked again.
//!
//! Three laws hold (`crates/machine/tests/it/shortcuts.rs`): a shortcut never allows anything, it is learned only from
//! what a person said and never from a refusal of its own, and it expires.

use serde::{Deserialize, Serialize};

use crate::id::CallId;
use crate::policy::budget::Spend;
use crate::policy::call_hash::CallHash;
use crate::time::Span;

/// Turns for which a denial stands.
pub const TURNS: u64 = 20;

/// Time of the task (driven and not paused) for which a denial stands.
pub const TIME: Span = Span::seconds(3600);

/// The most denials that a task keeps; the oldest go first.
pub const MOST_DENIALS: usize = 64;

/// A person's denial, remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The call that was denied.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The exact call.
    pub hash: CallHash,
    /// What the worker was told; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The turn in which that was.
    pub turn: u64,
    /// The task's time by then, in milliseconds.
    pub millis: u64,
}

impl Denial {
    /// How many more turns it stands; none once it has expired.
    pub fn turns_left(&self, spend: &Spend) -> Option<u64> {
        let in_time = spend.millis.saturating_sub(self.millis) < TIME.0;
        let left = TURNS.saturating_sub(spend.turns.saturating_sub(self.turn));
        (in_time && left > 0).then_some(left)
    }

    /// Why the same call is refused again.
    pub fn said(&self) -> String {
        let reason = if self.reason.is_empty() { "by a person" } else { self.reason.as_str() };
        format!("denied before, at {}: {reason}", self.call)
    }
}

/// Remembers a denial in place of an older one of the same call, and forgets what has expired.
pub fn learn(denials: &mut Vec<Denial>, denial: Denial, spend: &Spend) {
    denials.retain(|old| old.hash != denial.hash && old.turns_left(spend).is_some());
    denials.push(denial);
    let surplus = denials.len().saturating_sub(MOST_DENIALS);
    denials.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn denial(command: &str, turn: u64, millis: u64) -> Denial {
        Denial {
            call: CallId(3),
            tool: "shell".to_owned(),
            hash: CallHash::of("shell", &json!({ "command": command })),
            reason: String::new(),
            turn,
            millis,
        }
    }

    #[test]
    fn a_denial_stands_for_some_turns_and_some_time() {
        let spend = |turns, millis| Spend { turns, millis, ..Spend::default() };
        let denied = denial("a", 5, 1000);
        assert_eq!(denied.turns_left(&spend(5, 1000)), Some(20));
        assert_eq!(denied.turns_left(&spend(24, 1000)), Some(1));
        assert_eq!(denied.turns_left(&spend(25, 1000)), None);
        assert_eq!(denied.turns_left(&spend(6, 1000 + TIME.0 - 1)), Some(19));
        assert_eq!(denied.turns_left(&spend(6, 1000 + TIME.0)), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_newest_stays() {
        let (mut denials, spend) = (Vec::new(), Spend::default());
        for n in 0..200 {
            learn(&mut denials, denial(&n.to_string(), 0, 0), &spend);
            learn(&mut denials, denial(&n.to_string(), 0, 0), &spend);
        }
        assert_eq!(denials.len(), MOST_DENIALS);
        assert_eq!(denials.last().unwrap().hash, denial("199", 0, 0).hash);
    }
}
