//! What came of verifying a receipt, and what follows from it.

use serde::Serialize;

use super::{Difference, Receipt};
use crate::task::{Criterion, CriterionResult, CustomCheck};

/// What was found out about one receipt.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The receipt.
    pub receipt: Receipt,
    /// What the journal of this machine says of it.
    pub record: Record,
    /// What came of running its criteria again.
    pub again: Again,
}

/// What a journal says of a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// It has the record, with the same link of the chain, and everything agrees word for word.
    Agrees,
    /// It has no such task: whoever made the receipt is not known here.
    Unknown,
    /// It has the task, and says something else.
    Contradicted(Vec<Difference>),
    /// It has the task, and the task is not verified.
    NotVerified(String),
}

/// What came of running the criteria again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    /// They ran on exactly the tree that was handed over.
    Ran {
        /// Where the tree was found, in a person's words.
        found: String,
        /// One for each criterion, in the same order.
        held: Vec<Held>,
    },
    /// They could not be run here; why, and what to do.
    Impossible(String),
    /// They were not run: the receipt was refused before.
    Refused,
}

/// Whether one criterion still holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The criterion in one line.
    pub title: String,
    /// How.
    pub how: How,
    /// The exit code now.
    pub exit: Option<i32>,
    /// Whether all that it printed is the same as then; absent where nothing was noted.
    pub same_output: Option<bool>,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// The end of its output, or why it could not run.
    pub evidence: String,
}

/// How a criterion stands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It passed again.
    Holds,
    /// It did not, and it decides.
    Fails,
    /// It did not, and decides nothing.
    FailsAdvisory,
    /// It was not run again: it is nothing that can be measured once more on the tree alone.
    NotRun,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Every criterion that can be run again passed on the tree of the receipt.
    Holds,
    /// One failed.
    DoesNotHold,
    /// The journal contradicts it.
    Forged,
    /// It cannot be told here.
    CannotBeChecked,
}

impl Report {
    /// What follows from what was found.
    pub fn conclusion(&self) -> Conclusion {
        match (&self.record, &self.again) {
            (Record::Contradicted(_) | Record::NotVerified(_), _) => Conclusion::Forged,
            (Record::Agrees | Record::Unknown, Again::Ran { held, .. }) => {
                if held.len() != self.receipt.criteria.len()
                    || held.iter().any(|held| held.how == How::Fails)
                {
                    return Conclusion::DoesNotHold;
                }
                match held.iter().any(|held| held.how == How::Holds) {
                    true => Conclusion::Holds,
                    // Nothing was measured.
                    false => Conclusion::CannotBeChecked,
                }
            }
            (Record::Agrees | Record::Unknown, Again::Impossible(_) | Again::Refused) => {
                Conclusion::CannotBeChecked
            }
        }
    }
}

impl Conclusion {
    /// The word people and JSON see.
    pub fn word(self) -> &'static str {
        match self {
            Conclusion::Holds => "holds",
            Conclusion::DoesNotHold => "does_not_hold",
            Conclusion::Forged => "forged",
            Conclusion::CannotBeChecked => "cannot_be_checked",
        }
    }

    /// The exit code of `drivetrain verify`.
    pub fn exit_code(self) -> u8 {
        match self {
            Conclusion::Holds => 0,
            Conclusion::DoesNotHold | Conclusion::Forged => 10,
            Conclusion::CannotBeChecked => 20,
        }
    }
}

impl Receipt {
    /// The criteria that are run again: those that a tree alone decides.
    pub fn repeatable(&self) -> Vec<Criterion> {
        let repeats = |criterion: &&Criterion| not_repeatable(criterion).is_none();
        self.criteria.iter().filter(repeats).cloned().collect()
    }

    /// Puts what came of the repeatable criteria beside what the receipt says of all of them.
    pub fn compare(&self, now: &[CriterionResult]) -> Vec<Held> {
        let mut now = now.iter();
        let mut held = Vec::with_capacity(self.criteria.len());
        for (criterion, then) in self.criteria.iter().zip(&self.results) {
            let title = criterion.title();
            if let Some(why) = not_repeatable(criterion) {
                let (evidence, how) = (why.to_owned(), How::NotRun);
                let (exit, same_output, millis) = (None, None, 0);
                held.push(Held { title, how, exit, same_output, millis, evidence });
                continue;
            }
            // One that is missing has not passed.
            let absent = CriterionResult {
                evidence: "nothing was said of it".to_owned(),
                ..CriterionResult::default()
            };
            let result = now.next().unwrap_or(&absent);
            let how = match (result.passed, then.advisory) {
                (true, _) => How::Holds,
                (false, true) => How::FailsAdvisory,
                (false, false) => How::Fails,
            };
            let outputs = then.output.as_ref().zip(result.output.as_ref());
            held.push(Held {
                title,
                how,
                exit: result.exit,
                same_output: outputs.map(|(then, now)| then == now),
                millis: result.millis,
                evidence: result.evidence.clone(),
            });
        }
        held
    }
}

/// Why a criterion is not run again.
fn not_repeatable(criterion: &Criterion) -> Option<&'static str> {
    match criterion {
        Criterion::Shell { .. } | Criterion::File { .. } | Criterion::Protect { .. } => None,
        Criterion::Judge { .. } => Some("it is a model's opinion"),
        Criterion::Custom(check) => match check {
            CustomCheck::NoPathsTouched { .. }
            | CustomCheck::OnlyPathsTouched { .. }
            | CustomCheck::MaxDiffLines { .. }
            | CustomCheck::TestsNotFewer { .. } => None,
            CustomCheck::GitClean => Some("it was about the worktree at that moment"),
            CustomCheck::Plugin { .. } => Some("it is a program of the machine that it ran on"),
        },
    }
}
