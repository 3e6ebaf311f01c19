//! Children that steps of a workflow begin. A step asks for one with a [`TaskOrder`]; what it may spend is set aside in the
//! same record, it works in the place of its parent, and its parent waits for its [`ChildEnd`]. Its id follows from the
//! parent's and from its number among the children of the parent's steps, so whoever takes the parent up finds it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Charge, Child, Dispatch, MOST_DEPTH, allot};
use crate::driver::{Consultation, agent};
use crate::id::TaskId;
use crate::policy::budget::Budget;
use crate::state::{Ask, Data, Pending, Phase, Standing, State};
use crate::task::{Criterion, DriverSpec, Outcome, TaskSpec};

/// How many children the steps of a task may begin, all of its life.
pub const MOST_OF_STEPS: usize = 1000;

/// A child that a step asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskOrder {
    /// Which of the children that steps of the parent begin it is, from 1. A step that is tried again has another one.
    pub number: u64,
    /// Whether it is asked for for the first time. Then a child that has its number is another one's: several drivers of
    /// the parent may count from 1, and it gets the next number that is free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// The step's name.
    pub step: String,
    /// What it is to achieve.
    pub goal: String,
    /// Who decides.
    pub driver: DriverSpec,
    /// What it wants to spend.
    #[serde(default)]
    pub budget: Budget,
    /// What decides whether it is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<Criterion>,
}

/// How a process left a child: ended, or put down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildEnd {
    /// The child.
    pub child: TaskId,
    /// How it ended; nothing if it was put down and can go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Outcome>,
    /// Its last words, why it failed, or why it was put down.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// All that it has spent so far.
    #[serde(default)]
    pub charge: Charge,
    /// Whether it was put down because it waits for a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
    /// What it handed over beside the work itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    /// How many of the notes that its parent passes on it has heard in all, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<u64>,
}

impl ChildEnd {
    /// One that was put down, having spent nothing that is known.
    pub fn put_down(child: TaskId, text: String) -> ChildEnd {
        let charge = Charge::default();
        ChildEnd { child, ended: None, text, charge, asks: false, outputs: None, heard: None }
    }

    /// One that could not begin.
    pub fn failed(child: TaskId, text: String) -> ChildEnd {
        ChildEnd { ended: Some(Outcome::Failed), ..ChildEnd::put_down(child, text) }
    }
}

impl TaskOrder {
    /// The id of the child.
    pub fn id(&self, parent: &TaskId) -> TaskId {
        TaskId::keyed(&format!("steps of {parent}"), &self.number.to_string())
    }

    /// Whether a child that ended so did what was asked: it was proven, or there was nothing to prove it by.
    pub fn is_met(&self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Verified => true,
            Outcome::Completed => !self.acceptance.iter().any(Criterion::decides),
            Outcome::Failed
            | Outcome::BudgetExhausted
            | Outcome::Cancelled
            | Outcome::Waiting
            | Outcome::Stuck => false,
        }
    }

    /// What is set aside for it: what it wants, at most what is left, and never without an end. The error says why it cannot begin.
    pub(crate) fn allotted(&self, parent: &Data) -> Result<Budget, String> {
        if depth(parent) > MOST_DEPTH {
            return Err(format!(
                "tasks begin tasks {MOST_DEPTH} deep, and this one is at the end of that"
            ));
        }
        let begun = parent.children.values().filter(|child| child.step.is_some()).count();
        if begun >= MOST_OF_STEPS {
            return Err(format!("the steps of a task begin at most {MOST_OF_STEPS} others"));
        }
        let mut budget = allot(&parent.budget, &parent.committed(), &self.budget)?;
        budget.bound(&self.driver, 0);
        Ok(budget)
    }

    /// What a child that was begun may spend in all, now that its parent may spend more. Its time is also its parent's, who
    /// stops it.
    pub(crate) fn allotted_more(&self, parent: &Data, known: &Child) -> Budget {
        let (limits, spent, wish) = (&parent.budget, parent.committed(), &self.budget);
        let mut budget = known.budget.clone();
        if let (Some(had), Some(limit)) = (budget.max_usd, limits.max_usd) {
            let all = known.charged.usd + (limit - spent.usd).max(0.0);
            budget.max_usd = Some(wish.max_usd.map_or(all, |usd| usd.min(all)).max(had));
        }
        if let (Some(had), Some(limit)) = (budget.max_tokens, limits.max_tokens) {
            let left = limit.saturating_sub(spent.tokens);
            let all = known.charged.tokens.saturating_add(left);
            budget.max_tokens =
                Some(wish.max_tokens.map_or(all, |tokens| tokens.min(all)).max(had));
        }
        if let (Some(had), Some(limit)) = (budget.max_time, limits.max_time) {
            budget.max_time = Some(wish.max_time.map_or(limit, |time| time.min(limit)).max(had));
        }
        budget
    }

    /// The child as it starts: what the order says, in the parent's place and with its permissions.
    pub(crate) fn spec(&self, parent: &Data, budget: Budget) -> TaskSpec {
        let spec = &parent.spec;
        let mut driver = self.driver.clone();
        agent::mark_for(&driver.name, &mut driver.config, self.id(&parent.id).as_str());
        TaskSpec {
            goal: self.goal.clone(),
            driver,
            budget,
            acceptance: self.acceptance.clone(),
            workspace: spec.workspace.clone(),
            policy: spec.policy.clone(),
            sandbox: spec.sandbox.clone(),
            recovery: spec.recovery.clone(),
            folder: spec.folder.clone(),
            servers: spec.servers.clone(),
            files: spec.files.clone(),
            forked_from: None,
            contest: None,
            dispatch: Some(Dispatch {
                parent: Some(parent.id.clone()),
                depth: depth(parent),
                key: None,
                within: parent.workspace.clone(),
            }),
        }
    }
}

fn depth(parent: &Data) -> u32 {
    parent.spec.dispatch.as_ref().map_or(0, |dispatch| dispatch.depth) + 1
}

impl Data {
    /// The task whose step began this one, if one did.
    pub fn begun_by(&self) -> Option<&TaskId> {
        let dispatch = self.spec.dispatch.as_ref()?;
        dispatch.parent.as_ref().filter(|_| dispatch.within.is_some())
    }

    /// The child that the task waits for, if a step has begun one.
    pub fn awaited_child(&self) -> Option<(TaskId, &Child)> {
        let Phase::Consulting { request: Consultation::Task(order) } = &self.phase else {
            return None;
        };
        let id = order.id(&self.id);
        let child = self.children.get(&id)?;
        Some((id, child))
    }

    /// Whether that child is being driven, as far as the task knows.
    pub fn drives_child(&self) -> bool {
        self.pending.values().any(|pending| *pending == Pending::Child)
    }
}

impl State {
    /// Whether nobody waits for the children that steps of it began, and nobody will again. A larger budget lets a task go
    /// on that had none left.
    pub fn leaves_children(&self) -> bool {
        match self.standing() {
            Standing::Finished { outcome, .. } => outcome != Outcome::BudgetExhausted,
            Standing::Working | Standing::Paused | Standing::AwaitingPerson { .. } => false,
        }
    }

    /// The children that steps began and that are to be cancelled since the task has ended. They were told so, but whoever
    /// told them may have died over it; one that has ended since takes no harm.
    pub fn left_behind(&self) -> Vec<TaskId> {
        if !self.leaves_children() {
            return Vec::new();
        }
        let children = self.data().children.iter();
        let open = children.filter(|(_, child)| child.step.is_some() && child.ended.is_none());
        open.map(|(id, _)| id.clone()).collect()
    }

    /// The task whose step began this one, if one did.
    pub fn begun_by(&self) -> Option<&TaskId> {
        self.data().begun_by()
    }

    /// How the task has ended for the one that it is counted to. One that a step began and that used up what it had may
    /// get more with its parent, which learns of its end when it goes on with it.
    pub fn reported_end(&self) -> Option<Outcome> {
        match self.standing() {
            Standing::Finished { outcome: Outcome::BudgetExhausted, .. }
                if self.begun_by().is_some() =>
            {
                None
            }
            Standing::Finished { outcome, .. } => Some(outcome),
            Standing::Working | Standing::Paused | Standing::AwaitingPerson { .. } => None,
        }
    }

    /// What counts of the task at the one that it is counted to. While it goes on, all that it may spend is set aside there;
    /// once it has ended, what its own children may still spend would be nobody's.
    pub fn charge(&self) -> Charge {
        match self.reported_end() {
            Some(_) => Charge::of(&self.data().committed()),
            None => Charge::of(&self.data().spend),
        }
    }

    /// How a child that is put down or has ended is told of at its parent.
    pub fn child_end(&self) -> ChildEnd {
        let data = self.data();
        let charge = self.charge();
        let heard = Some(data.relayed);
        let end = ChildEnd { charge, heard, ..ChildEnd::put_down(data.id.clone(), String::new()) };
        match self.standing() {
            Standing::Finished { outcome, reason } => {
                let outputs = self.outputs();
                ChildEnd { ended: Some(outcome), text: reason, outputs, ..end }
            }
            Standing::AwaitingPerson { asks } => {
                let text = asks.first().map(Ask::in_words).unwrap_or_default();
                ChildEnd { asks: true, text, ..end }
            }
            Standing::Paused => ChildEnd { text: "it is paused".to_owned(), ..end },
            Standing::Working => ChildEnd { text: "it was put down".to_owned(), ..end },
        }
    }
}

impl Ask {
    /// What a person is asked, in a line.
    fn in_words(&self) -> String {
        match self {
            Ask::Approval { call, tool, .. } => format!("may {call} run {tool}?"),
            Ask::Question { question, .. } => question.clone(),
            Ask::InDoubt { call, tool, .. } => format!("did {call}, a call of {tool}, run?"),
            Ask::Escalation { reason, .. } => reason.clone(),
            Ask::Decision { prompt, .. } => prompt.clone(),
            Ask::Child { child, reason } => format!("task {child}: {reason}"),
        }
    }
}
