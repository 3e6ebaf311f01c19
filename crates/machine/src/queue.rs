//! The queue: verified tasks on their way into a branch, one at a time. What is kept of each, who is next, and what
//! follows from what was tried. Files and git are somebody else's.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::task::{CriterionResult, Outcome};
use crate::time::Timestamp;
use crate::verdict::Checkpoint;

/// How often an entry is tried anew because its branch moved meanwhile.
pub const MOST_MOVES: u32 = 5;

/// How many entries that are through are remembered.
pub const REMEMBERED: usize = 200;

/// A change that is in a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integration {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The commit that brought it.
    pub commit: String,
    /// The hash of all files of that commit: what the criteria held on.
    pub tree: String,
}

/// Where the work goes on when a change did not hold on its branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebase {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The commit at its tip.
    pub commit: String,
    /// The files of that commit: the base from there on.
    pub base: Checkpoint,
    /// The files of both together, with conflict marks where they collide.
    pub combined: Checkpoint,
}

/// All entries, in the order they are taken.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Queue {
    /// The version of this shape.
    pub v: u32,
    /// The entries: those to come in their order, those that are through where they were.
    pub entries: Vec<Entry>,
}

/// A branch of a repository: entries of one lane wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lane {
    /// The top folder of the repository.
    pub repository: String,
    /// The branch, without `refs/heads/`.
    pub branch: String,
}

/// One task on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The task.
    pub task: TaskId,
    /// Where it goes.
    #[serde(flatten)]
    pub lane: Lane,
    /// When it was added.
    pub added: Timestamp,
    /// How far it came.
    #[serde(flatten)]
    pub stage: Stage,
}

/// How far an entry came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// It waits for its turn.
    Waiting,
    /// It is being integrated, or was when a process died.
    Integrating,
    /// It is in the branch.
    Integrated {
        /// The commit.
        commit: String,
        /// When that was noted.
        at: Timestamp,
    },
    /// It did not hold on the branch; the task has the failure.
    Reopened {
        /// What failed, in one line.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// It cannot be integrated at all.
    Refused {
        /// Why.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// Somebody took it out.
    Dropped {
        /// When.
        at: Timestamp,
    },
}

impl Stage {
    /// The word people and JSON see.
    pub fn word(&self) -> &'static str {
        match self {
            Stage::Waiting => "waiting",
            Stage::Integrating => "integrating",
            Stage::Integrated { .. } => "integrated",
            Stage::Reopened { .. } => "reopened",
            Stage::Refused { .. } => "refused",
            Stage::Dropped { .. } => "dropped",
        }
    }

    /// Whether something is still to be done about it.
    pub fn is_open(&self) -> bool {
        matches!(self, Stage::Waiting | Stage::Integrating)
    }
}

/// Where a new entry goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Behind all others.
    Back,
    /// Before all that wait.
    Front,
}

impl Queue {
    /// Adds a task. What is on its way already is not added twice; what came back may come again.
    pub fn add(
        &mut self,
        task: TaskId,
        lane: Lane,
        end: End,
        now: Timestamp,
    ) -> Result<(), String> {
        if let Some(entry) = self.open_entry(&task) {
            return Err(format!("task {task} is in the queue already, for {}", entry.lane.branch));
        }
        let entry = Entry { task, lane, added: now, stage: Stage::Waiting };
        let waits = |entry: &Entry| entry.stage == Stage::Waiting;
        match self.entries.iter().position(waits).filter(|_| end == End::Front) {
            Some(first) => self.entries.insert(first, entry),
            None => self.entries.push(entry),
        }
        self.forget_old();
        Ok(())
    }

    /// Takes a task that waits out of the queue.
    pub fn drop_task(&mut self, task: &TaskId, now: Timestamp) -> Result<(), String> {
        match self.entries.iter_mut().find(|entry| entry.task == *task && entry.stage.is_open()) {
            Some(entry) if entry.stage == Stage::Waiting => {
                entry.stage = Stage::Dropped { at: now };
                Ok(())
            }
            Some(_) => Err(format!("task {task} is being integrated, or was when a process died")),
            None => Err(format!("task {task} does not wait in the queue")),
        }
    }

    /// The entry of a task that is on its way.
    pub fn open_entry(&self, task: &TaskId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.task == *task && entry.stage.is_open())
    }

    /// The last entry of a task, whatever became of it.
    pub fn entry(&self, task: &TaskId) -> Option<&Entry> {
        self.open_entry(task)
            .or_else(|| self.entries.iter().rev().find(|entry| entry.task == *task))
    }

    /// Who is next: first whatever a crash left in the middle, then the first that waits and whose branch is not held up.
    pub fn next(&self, held: &BTreeSet<Lane>) -> Option<&Entry> {
        let free = || self.entries.iter().filter(|entry| !held.contains(&entry.lane));
        let left = free().find(|entry| entry.stage == Stage::Integrating);
        left.or_else(|| free().find(|entry| entry.stage == Stage::Waiting))
    }

    /// Notes how far a task that is on its way has come.
    pub fn settle(&mut self, task: &TaskId, stage: Stage) {
        let mut entries = self.entries.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.task == *task && entry.stage.is_open()) {
            entry.stage = stage;
        }
        self.forget_old();
    }

    /// How many are on their way.
    pub fn open(&self) -> usize {
        self.entries.iter().filter(|entry| entry.stage.is_open()).count()
    }

    fn forget_old(&mut self) {
        let through = self.entries.len() - self.open();
        let mut surplus = through.saturating_sub(REMEMBERED);
        self.entries.retain(|entry| {
            let goes = surplus > 0 && !entry.stage.is_open();
            surplus -= usize::from(goes);
            !goes
        });
    }
}

/// What came of trying to integrate a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Tried {
    /// The branch was moved to a commit with the change, which held there.
    Advanced(Integration),
    /// The change collides with what the branch has now.
    Collided {
        /// The paths.
        paths: Vec<String>,
        /// Where the work can go on.
        rebase: Option<Rebase>,
    },
    /// The two together do not pass.
    Failed {
        /// Every criterion, in the order they were frozen.
        results: Vec<CriterionResult>,
        /// Where the work can go on.
        rebase: Option<Rebase>,
    },
    /// Somebody else moved the branch meanwhile.
    Moved,
    /// Not now: a person has to do something first.
    Held(String),
    /// Never: what is needed is not there.
    Impossible(String),
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub enum Follow {
    /// Note it with the task, then in the queue.
    Note(Integration),
    /// Give the task its failure back, and go on with the next one.
    Reopen {
        /// What failed, in one line.
        reason: String,
        /// What the driver is told.
        results: Vec<CriterionResult>,
        /// Where the work goes on.
        rebase: Option<Rebase>,
    },
    /// Try it once more, on the branch as it is now.
    Again,
    /// Leave it, and all others for the same branch, where they are.
    Hold(String),
    /// Take it out, and go on with the next one.
    Refuse(String),
}

/// What follows from what was tried, if the branch was moved by others so many times before.
pub fn follow(tried: Tried, branch: &str, moves: u32) -> Follow {
    match tried {
        Tried::Advanced(integration) => Follow::Note(integration),
        Tried::Collided { paths, rebase } => {
            let (reason, results) = collision(branch, &paths);
            Follow::Reopen { reason, results: vec![results], rebase }
        }
        Tried::Failed { mut results, rebase } => {
            let failed: Vec<&str> = results
                .iter()
                .filter(|result| result.fails())
                .map(|result| result.title.as_str())
                .collect();
            let reason = format!("together with {branch} it does not pass: {}", failed.join("; "));
            for result in results.iter_mut().filter(|result| result.fails()) {
                result.title = format!("{} (together with {branch})", result.title);
            }
            Follow::Reopen { reason, results, rebase }
        }
        Tried::Moved if moves < MOST_MOVES => Follow::Again,
        Tried::Moved => Follow::Hold(format!(
            "{branch} was moved by somebody else {} times while the task was verified on it",
            moves + 1
        )),
        Tried::Held(reason) => Follow::Hold(reason),
        Tried::Impossible(reason) => Follow::Refuse(reason),
    }
}

/// What becomes of an entry whose task is not verified when its turn comes. If it was being integrated when a process died,
/// it was reopened and nobody could say so any more.
pub fn unfit(stage: &Stage, reason: String, at: Timestamp) -> Stage {
    match stage {
        Stage::Integrating => Stage::Reopened { reason, at },
        _ => Stage::Refused { reason, at },
    }
}

/// The exit code of a run over the queue.
pub fn exit_code(sent_back: usize, held: usize) -> u8 {
    match (sent_back, held) {
        (0, 0) => 0,
        (0, _) => Outcome::Waiting.exit_code(),
        _ => Outcome::Failed.exit_code(),
    }
}

/// A collision as a criterion that failed: what a driver understands already.
fn collision(branch: &str, paths: &[String]) -> (String, CriterionResult) {
    let named: Vec<&str> = paths.iter().take(20).map(String::as_str).collect();
    let more = match paths.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let reason = format!("it collides with {branch} in {}{more}", named.join(", "));
    let evidence = format!(
        "{branch} has changed since this task began, and both changed the same places of: {}{more}. Bring both \
         changes together.",
        named.join(", ")
    );
    let title = format!("the change fits on {branch}");
    (reason, CriterionResult { title, passed: false, evidence, ..CriterionResult::default() })
}

#[cfg(test)]
#[path = "queue/tests.rs"]
mod tests;
