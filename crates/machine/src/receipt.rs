//! The receipt of a verified task: what was asked, what was handed over, what was run on it and what came of it, bound
//! to the record of the journal that holds the verdict.
//!
//! A receipt is a fold of the journal and nothing else, so it can be made again at any time, and two of the same task
//! are the same bytes. Its id is the SHA-256 of its canonical form. That id shows that a file is whole; it does not show
//! who made it: for that the journal is asked, and the criteria are run again.

mod form;
mod report;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::TaskId;
use crate::policy::budget::Spend;
use crate::state::{Data, Phase};
use crate::task::{Criterion, CriterionResult, Outcome, WorkspaceKind};
use crate::time::Timestamp;
use crate::verdict::{Checkpoint, Environment, Place, Verdict};

pub use form::Malformed;
pub use report::{Again, Conclusion, Held, How, Record, Report};

/// The form that is written and read.
pub const FORMAT: u32 = 1;

/// The evidence for one verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The form of the receipt; says what the file is.
    pub drivetrain_receipt: u32,
    /// SHA-256 of the canonical form of all the rest, in hex.
    pub id: String,
    /// The task.
    pub task: TaskId,
    /// What was to be achieved.
    pub goal: String,
    /// Who decided at the end.
    pub driver: String,
    /// When the task started.
    pub started: Timestamp,
    /// When the verdict was recorded.
    pub finished: Timestamp,
    /// The criteria, as frozen at the start.
    pub criteria: Vec<Criterion>,
    /// SHA-256 of the canonical form of the criteria, in hex.
    pub criteria_sha256: String,
    /// Commands that made the checkout ready before the criteria ran.
    pub setup: Vec<String>,
    /// Ignored folders of the user's checkout that the criteria saw.
    pub share: Vec<String>,
    /// What the task worked in.
    pub workspace: WorkspaceKind,
    /// The files before anything changed them; absent where nothing was kept.
    pub base: Option<Checkpoint>,
    /// The files that were handed over; absent where nothing was kept.
    pub result: Option<Checkpoint>,
    /// The commit of the user's repository that the work began at.
    pub commit: Option<String>,
    /// The folder below the top of the repository that the criteria ran in; empty for the top.
    pub prefix: String,
    /// Where the criteria ran.
    pub place: Place,
    /// On what they ran.
    pub environment: Environment,
    /// The walls around every process of the task, in a person's words.
    pub sandbox: String,
    /// One for each criterion, in the same order.
    pub results: Vec<Checked>,
    /// How many paths differ between the base and the result.
    pub touched: u64,
    /// How many lines were added and removed.
    pub diff_lines: u64,
    /// What it cost.
    pub spend: Spent,
    /// The record that holds the verdict.
    pub journal: Link,
}

/// What came of one criterion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// The criterion in one line.
    pub title: String,
    /// Whether it passed; only what is advisory may not have.
    pub passed: bool,
    /// True if it decided nothing.
    pub advisory: bool,
    /// The exit code of a command.
    pub exit: Option<i32>,
    /// The exit code on the base, for one that had to fail there.
    pub on_base: Option<i32>,
    /// How often it ran, where that is more than once.
    pub runs: Option<u32>,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// SHA-256 of all that it printed, in hex.
    pub output: Option<String>,
}

/// What a task cost until the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// Decisions made.
    pub turns: u64,
    /// Milliseconds driven and not paused.
    pub millis: u64,
    /// Model tokens.
    pub tokens: u64,
    /// Tool calls started.
    pub tool_calls: u64,
    /// Millionths of a US dollar, as far as prices are known: whole numbers are written in one way only.
    pub micro_usd: u64,
    /// Answers of models whose cost nobody knows.
    pub unpriced: u64,
}

/// A record of a journal, by number and by the link of the hash chain after it, which depends on every record before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The record's number within the task.
    pub record: u64,
    /// The link, in hex.
    pub chain: String,
}

/// One field in which two receipts differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where, such as `results[0].exit`.
    pub field: String,
    /// What the one says, as JSON; empty if it has no such field.
    pub here: String,
    /// What the other says.
    pub there: String,
}

impl Receipt {
    /// The receipt of a task that has just been verified by this verdict; the error says why it has none.
    pub fn of(
        data: &Data,
        driver: &str,
        verdict: &Verdict,
        journal: Link,
    ) -> Result<Receipt, String> {
        if let Some(ended) = not_verified(&data.phase) {
            return Err(format!("task {} has no receipt: {ended}", data.id));
        }
        let criteria = data.spec.criteria();
        let passed = !verdict.results.iter().any(CriterionResult::fails);
        if criteria.len() != verdict.results.len() || !passed {
            return Err(format!("the last verdict of task {} does not prove it", data.id));
        }
        let criteria = form::settled(criteria)?;
        let results = criteria.iter().zip(&verdict.results).map(Checked::of).collect();
        let receipt = Receipt {
            drivetrain_receipt: FORMAT,
            id: String::new(),
            task: data.id.clone(),
            goal: data.spec.goal.clone(),
            driver: driver.to_owned(),
            started: data.started,
            finished: data.clock,
            criteria_sha256: criteria_digest(&criteria),
            criteria,
            setup: data.spec.workspace.setup.clone(),
            share: data.spec.workspace.share.clone(),
            workspace: data.workspace.as_ref().map_or(WorkspaceKind::None, |found| found.kind),
            base: data.base.clone(),
            result: data.frozen.clone(),
            commit: data.workspace.as_ref().and_then(|workspace| workspace.base.clone()),
            prefix: prefix(data),
            place: verdict.place,
            environment: verdict.environment.clone(),
            sandbox: data.spec.sandbox.said(),
            results,
            touched: verdict.touched_total,
            diff_lines: verdict.diff_lines,
            spend: Spent::of(&data.spend),
            journal,
        };
        Ok(Receipt { id: receipt.digest(), ..receipt })
    }

    /// Reads a receipt that somebody brings. What is returned is whole, written in the one way that receipts are
    /// written, and agrees with itself; whether it is true is another question.
    pub fn read(bytes: &[u8]) -> Result<Receipt, Malformed> {
        form::read(bytes)
    }

    /// The receipt as a file: JSON with sorted keys, for people and programs. Ends with a line end.
    pub fn write(&self) -> String {
        form::pretty(self)
    }

    /// The receipt as a JSON value.
    pub fn json(&self) -> Value {
        form::value(self)
    }

    /// SHA-256 of the canonical form of everything but the id, in hex.
    pub fn digest(&self) -> String {
        let mut value = form::value(self);
        if let Some(fields) = value.as_object_mut() {
            fields.remove("id");
        }
        form::digest(&value)
    }

    /// The beginning of the id: enough for a person to tell receipts apart.
    pub fn short(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }

    /// Where two receipts say different things.
    pub fn differences(&self, other: &Receipt) -> Vec<Difference> {
        form::differences(&form::value(self), &form::value(other))
    }
}

impl Checked {
    fn of((criterion, result): (&Criterion, &CriterionResult)) -> Checked {
        Checked {
            title: criterion.title(),
            passed: result.passed,
            advisory: result.advisory,
            exit: result.exit,
            on_base: result.on_base,
            runs: result.runs,
            millis: result.millis,
            output: result.output.clone(),
        }
    }
}

impl Spent {
    fn of(spend: &Spend) -> Spent {
        // Negative and endless amounts become the nearest that can be written.
        let micro_usd = (spend.usd * 1e6).round() as u64;
        Spent {
            turns: spend.turns,
            millis: spend.millis,
            tokens: spend.tokens,
            tool_calls: spend.tool_calls,
            micro_usd,
            unpriced: spend.unpriced,
        }
    }

    /// The amounts as the loop counts them.
    pub fn spend(&self) -> Spend {
        Spend {
            turns: self.turns,
            millis: self.millis,
            tokens: self.tokens,
            tool_calls: self.tool_calls,
            usd: self.micro_usd as f64 / 1e6,
            unpriced: self.unpriced,
            ..Spend::default()
        }
    }
}

/// SHA-256 of the canonical form of criteria, in hex.
pub fn criteria_digest(criteria: &[Criterion]) -> String {
    form::digest(&criteria)
}

/// How a task that is not verified stands, in a few words.
pub fn not_verified(phase: &Phase) -> Option<String> {
    let Phase::Finished { outcome, .. } = phase else {
        return Some("it has not ended".to_owned());
    };
    (*outcome != Outcome::Verified).then(|| format!("it ended {}", outcome.word()))
}

/// The folder below the top of a task's worktree that it works in. Worktrees are named after their task.
fn prefix(data: &Data) -> String {
    let Some(workspace) = &data.workspace else { return String::new() };
    let Some(path) = workspace.path.as_ref().filter(|_| workspace.kind == WorkspaceKind::Worktree)
    else {
        return String::new();
    };
    let mut parts = path.split('/').skip_while(|part| *part != data.id.as_str());
    parts.next();
    parts.collect::<Vec<_>>().join("/")
}
