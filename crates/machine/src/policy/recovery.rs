//! What follows a failed turn: a ladder for each kind of cause, walked as often as the cause comes back. Here is what a
//! task says about it and where it stands on its ladders; what the steps do is in `activity/recovery.rs`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, CauseKind};
use crate::policy::retry::Waits;
use crate::policy::stuck::{Limits, Watch};
use crate::task::{CriterionResult, DriverSpec};
use crate::time::Span;

/// Everything that a task says about failed turns. Frozen at the start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recovery {
    /// The ladders that are not the usual ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ladders: BTreeMap<CauseKind, Ladder>,
    /// Who can be handed over to, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub drivers: BTreeMap<String, DriverSpec>,
    /// How long a model that fails is waited for.
    #[serde(skip_serializing_if = "Waits::is_default")]
    pub waits: Waits,
    /// When going on is no longer progress.
    #[serde(skip_serializing_if = "Limits::is_default")]
    pub stuck: Limits,
    /// How often the task tells how far it is.
    #[serde(skip_serializing_if = "Every::is_default")]
    pub progress: Every,
}

/// What is tried after a cause, the first time, the second time, and so on. The last rung is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    /// The rungs, in order; at least one.
    pub rungs: Vec<Rung>,
    /// How many failures in a row are one: for calls that fail or are denied.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub after: u32,
    /// How often in a row anything is tried; after that it ends. As often as there are rungs if absent, but without
    /// limit for verdicts that failed, which end as stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
}

/// One thing to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Rung {
    /// The driver is told what failed and goes on.
    NextTurn,
    /// The driver begins a new conversation with the goal and what failed; the files stay.
    FreshSession,
    /// The files go back to what they were at the start, and the driver begins anew.
    RollBack,
    /// Another driver of the task goes on.
    HandOver(String),
    /// A person is asked.
    Escalate,
    /// It ends.
    GiveUp,
}

/// Every so many turns the task tells how far it is; never if zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Every {
    /// How many turns.
    pub every: u64,
}

impl Default for Every {
    fn default() -> Every {
        Every { every: 10 }
    }
}

impl Every {
    fn is_default(&self) -> bool {
        *self == Every::default()
    }
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

/// The words of the rungs without a name behind them.
pub const RUNGS: [&str; 5] = ["next_turn", "fresh_session", "rollback", "escalate", "give_up"];

/// The beginning of the rung that has one.
pub const HAND_OVER: &str = "hand_over:";

impl Rung {
    /// Reads `next_turn` or `hand_over:NAME`.
    pub fn read(word: &str) -> Option<Rung> {
        Some(match word {
            "next_turn" => Rung::NextTurn,
            "fresh_session" => Rung::FreshSession,
            "rollback" => Rung::RollBack,
            "escalate" => Rung::Escalate,
            "give_up" => Rung::GiveUp,
            _ => Rung::HandOver(
                word.strip_prefix(HAND_OVER).filter(|name| !name.is_empty())?.to_owned(),
            ),
        })
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rung::NextTurn => f.write_str("next_turn"),
            Rung::FreshSession => f.write_str("fresh_session"),
            Rung::RollBack => f.write_str("rollback"),
            Rung::HandOver(name) => write!(f, "{HAND_OVER}{name}"),
            Rung::Escalate => f.write_str("escalate"),
            Rung::GiveUp => f.write_str("give_up"),
        }
    }
}

impl From<Rung> for String {
    fn from(rung: Rung) -> String {
        rung.to_string()
    }
}

impl TryFrom<String> for Rung {
    type Error = String;

    fn try_from(word: String) -> Result<Rung, String> {
        Rung::read(&word).ok_or_else(|| format!("{word:?} is nothing that can be tried"))
    }
}

impl Ladder {
    /// The rung for the `attempt`-th failure in a row, from 1; none if nothing is tried any more.
    pub fn rung(&self, kind: CauseKind, attempt: u32) -> Option<&Rung> {
        let length = u32::try_from(self.rungs.len()).unwrap_or(u32::MAX);
        let most = match (self.most, kind) {
            (Some(most), _) => most,
            (None, CauseKind::VerdictFailed) => u32::MAX,
            (None, _) => length,
        };
        if attempt > most {
            return None;
        }
        let index = attempt.clamp(1, length.max(1)) - 1;
        self.rungs.get(usize::try_from(index).unwrap_or(usize::MAX))
    }
}

impl Recovery {
    /// Whether the task says nothing of its own.
    pub fn is_default(&self) -> bool {
        *self == Recovery::default()
    }

    /// The ladder of a kind of cause: its own, else that of models in general, else the usual one.
    pub fn ladder(&self, kind: CauseKind) -> Ladder {
        let general = match kind {
            CauseKind::RateLimited
            | CauseKind::Overloaded
            | CauseKind::Auth
            | CauseKind::ContextOverflow
            | CauseKind::Refusal
            | CauseKind::BadReply => Some(CauseKind::ModelFailed),
            CauseKind::TimedOut => Some(CauseKind::ToolErrors),
            CauseKind::VerdictFailed
            | CauseKind::ModelFailed
            | CauseKind::ToolErrors
            | CauseKind::Denied
            | CauseKind::WorkerDied
            | CauseKind::GaveUp
            | CauseKind::NoProgress => None,
        };
        let own = self.ladders.get(&kind);
        own.or_else(|| self.ladders.get(&general?)).cloned().unwrap_or_else(|| usual(kind))
    }
}

/// What is tried if a task says nothing.
pub fn usual(kind: CauseKind) -> Ladder {
    let (rungs, after) = match kind {
        CauseKind::VerdictFailed => (vec![Rung::NextTurn], 1),
        CauseKind::ToolErrors | CauseKind::TimedOut => (vec![Rung::GiveUp], 20),
        CauseKind::Denied => (vec![Rung::GiveUp], 10),
        CauseKind::ModelFailed
        | CauseKind::RateLimited
        | CauseKind::Overloaded
        | CauseKind::Auth
        | CauseKind::ContextOverflow
        | CauseKind::Refusal
        | CauseKind::BadReply
        | CauseKind::WorkerDied
        | CauseKind::GaveUp
        | CauseKind::NoProgress => (vec![Rung::GiveUp], 1),
    };
    Ladder { rungs, after, most: None }
}

/// Where a task stands on its ladders. Part of its state: it survives the process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// How often in a row each kind of cause came.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tried: BTreeMap<CauseKind, u32>,
    /// What the driver was last told that may make it give up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Cause>,
    /// How long the model that failed last wants to be left alone, if no task waits that long by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_wait: Option<Span>,
    /// The results of the last verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verdict: Vec<CriterionResult>,
    /// What a driver that takes over is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brief: Option<String>,
    /// Calls of the worker in a row that failed, since something was last done about it.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors: u64,
    /// Calls of the worker in a row that were denied, since something was last done about it.
    #[serde(skip_serializing_if = "is_zero")]
    pub denies: u64,
    /// Calls of the worker in a row that ran out of time, since something was last done about it.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeouts: u64,
    /// What the worker does over and over.
    #[serde(skip_serializing_if = "Watch::is_default")]
    pub watch: Watch,
    /// The last report of how far the task is.
    #[serde(skip_serializing_if = "Milestone::is_default")]
    pub milestone: Milestone,
}

/// What was told when the task last said how far it is, and what happened since.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Milestone {
    /// The turn.
    pub turn: u64,
    /// The tree that was known then; empty if none was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tree: String,
    /// Calls since then that may have changed something.
    pub changes: u64,
    /// The last calls, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

impl Milestone {
    fn is_default(&self) -> bool {
        *self == Milestone::default()
    }
}

impl Course {
    /// Whether nothing has happened.
    pub fn is_default(&self) -> bool {
        *self == Course::default()
    }

    /// A person has stepped in: what was tried before does not count any more.
    pub fn begin_anew(&mut self) {
        self.tried.clear();
        self.watch = Watch::default();
        (self.errors, self.denies, self.timeouts) = (0, 0, 0);
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_is_walked_and_its_last_rung_tried_again_up_to_the_most() {
        let rungs = vec![Rung::NextTurn, Rung::FreshSession];
        let ladder = |most| Ladder { rungs: rungs.clone(), after: 1, most };
        let walk = |ladder: &Ladder, kind| {
            (1..=5).map_while(|n| ladder.rung(kind, n)).map(Rung::to_string).collect::<Vec<_>>()
        };
        let verdict = walk(&ladder(None), CauseKind::VerdictFailed);
        assert_eq!(
            verdict,
            ["next_turn", "fresh_session", "fresh_session", "fresh_session", "fresh_session"]
        );
        assert_eq!(walk(&ladder(None), CauseKind::WorkerDied), ["next_turn", "fresh_session"]);
        assert_eq!(walk(&ladder(Some(3)), CauseKind::VerdictFailed).len(), 3);
        assert_eq!(walk(&ladder(Some(0)), CauseKind::VerdictFailed).len(), 0);
    }

    #[test]
    fn a_kind_of_model_failure_has_its_own_ladder_or_that_of_all() {
        let escalate = Ladder { rungs: vec![Rung::Escalate], after: 1, most: None };
        let mut recovery = Recovery::default();
        assert_eq!(recovery.ladder(CauseKind::Auth), usual(CauseKind::Auth));
        recovery.ladders.insert(CauseKind::ModelFailed, escalate.clone());
        assert_eq!(recovery.ladder(CauseKind::Auth), escalate);
        recovery.ladders.insert(CauseKind::Auth, usual(CauseKind::Auth));
        assert_eq!(recovery.ladder(CauseKind::Auth), usual(CauseKind::Auth));
    }

    #[test]
    fn a_rung_reads_what_it_writes() {
        for word in RUNGS.into_iter().chain(["hand_over:strong"]) {
            assert_eq!(Rung::read(word).unwrap().to_string(), word);
        }
        for wrong in ["", "next", "hand_over:", "hand_over", "NEXT_TURN"] {
            assert_eq!(Rung::read(wrong), None, "{wrong}");
        }
    }
}
