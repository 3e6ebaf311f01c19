//! Tasks that are dispatched by others. What a child may spend is set aside at its parent before it begins, and what it
//! spent is charged there; what it may do is never more than what its parent may.

pub mod minding;
pub mod step;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::driver::Note;
use crate::event::EventKind;
use crate::id::{EffectId, TaskId};
use crate::policy::budget::{Budget, Purchase, Spend};
use crate::policy::permission::{Author, Decide, Question, judge};
use crate::policy::sandbox::Level;
use crate::step::Step;
use crate::task::{Outcome, TaskSpec, Workspace, WorkspaceKind};
use crate::time::Span;
use crate::tool::EffectClass;

/// How deep tasks may dispatch tasks: a child of a child of a child dispatches nobody.
pub const MOST_DEPTH: u32 = 3;

/// How many children a task may have, all of its life.
pub const MOST_CHILDREN: usize = 32;

/// That a task was dispatched, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The task that it is counted to; nothing if a person's own program dispatched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// How many dispatches it is away from a task that a person started, from 1.
    pub depth: u32,
    /// What its dispatcher calls this one dispatch: the same key is the same task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The place of its parent, if a step of it began the task: it works right there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Workspace>,
}

/// A child, as its parent knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    /// What it is to achieve.
    pub goal: String,
    /// What it may spend; set aside until it has ended.
    pub budget: Budget,
    /// What it has spent, as far as that was charged here.
    #[serde(default)]
    pub charged: Charge,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Outcome>,
    /// The step that began it; none if it was dispatched from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What it waits for a person for, if it was put down for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// How often it was taken up since it last came further, its process being gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub taken_up: u32,
    /// It comes no further, so nobody waits for it; what is set aside for it stays so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// Its parent may spend more since it began, and so may it when it goes on. Only for those that steps begin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raised: bool,
    /// What people said to its parent that it is not known to have heard. It is told at once if it is driven, and all of it
    /// when it goes on. Only for those that steps begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<Note>,
    /// How many notes it is known to have heard before these.
    #[serde(default, skip_serializing_if = "is_none")]
    pub heard: u64,
    /// How many notes it was told of in all, so that nobody is shown twice that it was.
    #[serde(default, skip_serializing_if = "is_none")]
    pub told: u64,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// What a child spent that counts at its parent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Charge {
    /// US dollars.
    pub usd: f64,
    /// Model tokens.
    pub tokens: u64,
    /// Answers of models whose cost nobody knows.
    #[serde(default)]
    pub unpriced: u64,
}

/// A child that is about to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildOrder {
    /// Its id.
    pub child: TaskId,
    /// What it is to achieve.
    pub goal: String,
    /// What it may spend.
    pub budget: Budget,
    /// How deep it is.
    pub depth: u32,
}

/// A request of an agent to its model that waits until children have reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldAsk {
    /// The agent's turn.
    pub turn: EffectId,
    /// The number of the request.
    pub request: u64,
    /// The size of its body, in bytes.
    pub bytes: u64,
}

/// What became of a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildReport {
    /// The child.
    pub child: TaskId,
    /// All that it has spent so far.
    pub charge: Charge,
    /// How it ended; nothing while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Outcome>,
    /// There is no such task, and nobody is about to make it: whoever set aside for it did not come to begin it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_began: bool,
}

impl Child {
    /// One that has spent nothing.
    pub fn new(goal: String, budget: Budget) -> Child {
        let charged = Charge::default();
        Child {
            goal,
            budget,
            charged,
            ended: None,
            step: None,
            waits: None,
            taken_up: 0,
            given_up: false,
            raised: false,
            untold: Vec::new(),
            heard: 0,
            told: 0,
        }
    }
}

impl Charge {
    /// What of a task's spend is charged.
    pub fn of(spend: &Spend) -> Charge {
        Charge { usd: spend.usd, tokens: spend.tokens, unpriced: spend.unpriced }
    }

    /// The spend with this on top.
    pub fn on(&self, mut spend: Spend) -> Spend {
        spend.usd += self.usd;
        spend.tokens = spend.tokens.saturating_add(self.tokens);
        spend.unpriced = spend.unpriced.saturating_add(self.unpriced);
        spend
    }

    /// The spend without this.
    fn off(&self, mut spend: Spend) -> Spend {
        spend.usd = (spend.usd - self.usd).max(0.0);
        spend.tokens = spend.tokens.saturating_sub(self.tokens);
        spend.unpriced = spend.unpriced.saturating_sub(self.unpriced);
        spend
    }

    /// What came on top since; what shrank counts as nothing.
    pub(crate) fn since(&self, before: &Charge) -> Charge {
        Charge {
            usd: (self.usd - before.usd).max(0.0),
            tokens: self.tokens.saturating_sub(before.tokens),
            unpriced: self.unpriced.saturating_sub(before.unpriced),
        }
    }
}

/// What is spent together with what is set aside for children that have not ended. One that a step began is nobody's
/// rival: its parent does nothing while it works, and goes on with it or not at all.
pub fn committed<'s, 'c>(
    spend: &'s Spend,
    children: impl IntoIterator<Item = &'c Child>,
) -> Cow<'s, Spend> {
    // Most tasks have no children, and each of their steps asks.
    let mut spend = Cow::Borrowed(spend);
    let counts = |child: &&Child| child.ended.is_none() && child.step.is_none();
    for child in children.into_iter().filter(counts) {
        let spend = spend.to_mut();
        if let Some(usd) = child.budget.max_usd {
            spend.usd += (usd - child.charged.usd).max(0.0);
        }
        if let Some(tokens) = child.budget.max_tokens {
            let left = tokens.saturating_sub(child.charged.tokens);
            spend.tokens = spend.tokens.saturating_add(left);
        }
    }
    spend
}

/// What a child may spend: what it wants, and at most what is left. The error says what there is nothing left of.
pub fn allot(budget: &Budget, committed: &Spend, wish: &Budget) -> Result<Budget, String> {
    let mut allotted = wish.clone();
    if let Some(limit) = budget.max_usd {
        let left = limit - committed.usd;
        if committed.unpriced > committed.unpriced_allowed {
            return Err("max_usd: answers whose price nobody knows were paid from it, so nothing of it can be given on".to_owned());
        }
        if left <= 0.0 {
            return Err(format!("max_usd = {limit}: nothing is left of it for another task"));
        }
        allotted.max_usd = Some(wish.max_usd.map_or(left, |usd| usd.min(left)));
    }
    if let Some(limit) = budget.max_tokens {
        let left = limit.saturating_sub(committed.tokens);
        if left == 0 {
            return Err(format!("max_tokens = {limit}: nothing is left of it for another task"));
        }
        allotted.max_tokens = Some(wish.max_tokens.map_or(left, |tokens| tokens.min(left)));
    }
    if let Some(limit) = budget.max_time {
        let left = limit.0.saturating_sub(committed.millis);
        if left == 0 {
            return Err(format!("max_time = {limit}: nothing is left of it for another task"));
        }
        allotted.max_time = Some(Span(wish.max_time.map_or(left, |span| span.0.min(left))));
    }
    Ok(allotted)
}

/// Makes a child's permissions no wider than its parent's. The error says what it would have needed.
pub fn narrow(
    child: &mut TaskSpec,
    parent: &TaskSpec,
    workspace: Option<&Workspace>,
) -> Result<(), String> {
    let places = [Some(parent.folder.as_str()), workspace.and_then(|place| place.path.as_deref())];
    if !places.into_iter().flatten().any(|place| is_below(&child.folder, place)) {
        return Err(format!(
            "{} is outside of what the task that dispatches works in ({})",
            child.folder, parent.folder
        ));
    }
    let in_place = workspace.is_some_and(|place| place.kind == WorkspaceKind::InPlace);
    if child.workspace.kind == Some(WorkspaceKind::InPlace) && !in_place {
        return Err(
            "a task in a worktree dispatches none that works in the folder itself".to_owned()
        );
    }
    let profile = match (parent.policy.profile, child.policy.profile) {
        (Some(theirs), Some(own)) => Some(theirs.stricter(own)),
        (theirs, _) => theirs,
    };
    child.policy = parent.policy.clone();
    child.policy.profile = profile;
    child.sandbox = parent.sandbox.clone();
    child.servers.retain(|server| parent.servers.contains(server));
    child.workspace.protect_framework |= parent.workspace.protect_framework;
    for path in &parent.workspace.protect {
        if !child.workspace.protect.contains(path) {
            child.workspace.protect.push(path.clone());
        }
    }
    Ok(())
}

/// Checks run without being asked about, so one that a dispatcher wrote must be one that the child could run anyway.
pub fn may_check(child: &TaskSpec, command: &str) -> Result<(), String> {
    let input = json!({ "command": command });
    let judged = judge(
        &child.policy,
        &Question {
            tool: "shell",
            input: &input,
            class: EffectClass::Unsafe,
            author: Author::Worker,
            driver: &child.driver.name,
            within: &[],
            attended: true,
            workspace: Some(&child.folder),
            sandboxed: child.sandbox.level != Level::Off,
        },
    );
    if judged.decide == Decide::Allow {
        return Ok(());
    }
    let why = if judged.reason.is_empty() { String::new() } else { format!(": {}", judged.reason) };
    Err(format!("the check {command:?} is not allowed by {}{why}", judged.by))
}

fn is_below(path: &str, place: &str) -> bool {
    let rest = path.strip_prefix(place.trim_end_matches('/'));
    let climbs = path.split('/').any(|part| part == "..");
    !climbs && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Step<'_> {
    pub(crate) fn on_dispatch(&mut self, order: ChildOrder) {
        if self.is_finished() {
            return self.reject(self.ended());
        }
        let data = &self.state.data;
        let depth = data.spec.dispatch.as_ref().map_or(0, |dispatch| dispatch.depth) + 1;
        if depth > MOST_DEPTH {
            return self.reject(format!(
                "tasks dispatch tasks {MOST_DEPTH} deep, and this one is at the end of that"
            ));
        }
        if order.depth != depth {
            return self
                .reject(format!("a child of this task is at depth {depth}, got {}", order.depth));
        }
        if data.children.contains_key(&order.child) {
            return self.reject(format!("the child {} is there already", order.child));
        }
        let dispatched = data.children.values().filter(|child| child.step.is_none()).count();
        if dispatched >= MOST_CHILDREN {
            return self.reject(format!("a task dispatches at most {MOST_CHILDREN} others"));
        }
        match allot(&data.budget, &data.committed(), &order.budget) {
            Err(reason) => return self.reject(reason),
            Ok(allotted) if allotted != order.budget => {
                return self.reject("the child would get more than what is left");
            }
            Ok(_) => {}
        }
        let ChildOrder { child, goal, budget, .. } = order;
        let made = Child::new(goal.clone(), budget);
        self.state.data.children.insert(child.clone(), made);
        self.event(|| EventKind::ChildDispatched { child, goal });
    }

    pub(crate) fn on_child_report(&mut self, report: ChildReport) {
        let ChildReport { child, charge, ended, never_began } = report;
        if !self.state.data.children.contains_key(&child) {
            return self.reject(format!("{child} is no child of this task"));
        }
        if never_began {
            return self.forget_child(child);
        }
        if !charge.usd.is_finite() {
            return self.reject("what a child spent must be a number");
        }
        self.charge_child(&child, charge, ended);
    }

    /// Counts what a child spent since it was last told, once.
    pub(crate) fn charge_child(&mut self, child: &TaskId, charge: Charge, ended: Option<Outcome>) {
        let Some(known) = self.state.data.children.get_mut(child) else { return };
        let is_told = known.charged == charge && known.ended == ended;
        if is_told && ended.is_some() || !charge.usd.is_finite() {
            return;
        }
        let more = charge.since(&known.charged);
        // What shrinks of one that had ended is what was set aside for children of its own.
        let less = match known.ended {
            Some(_) => known.charged.since(&charge),
            None => Charge::default(),
        };
        known.charged = charge;
        known.ended = ended;
        // It is heard of: whoever gave it up was wrong.
        known.given_up = false;
        if ended.is_some() {
            known.waits = None;
        }
        let spend = std::mem::take(&mut self.state.data.spend);
        self.state.data.spend = less.off(more.on(spend));
        let child = child.clone();
        self.event(|| EventKind::ChildReported {
            child,
            outcome: ended,
            usd: charge.usd,
            tokens: charge.tokens,
        });
    }
}

impl Step<'_> {
    /// What was set aside for a child that never began is free again, and so is its id.
    fn forget_child(&mut self, child: TaskId) {
        let known = self.state.data.children.get(&child);
        if !known.is_some_and(|known| known.ended.is_none() && known.charged == Charge::default()) {
            return self.reject(format!("the child {child} has begun"));
        }
        self.state.data.children.remove(&child);
        let outcome = Some(Outcome::Cancelled);
        self.event(|| EventKind::ChildReported { child, outcome, usd: 0.0, tokens: 0 });
    }

    /// Whether a limit is reached only because of what is set aside for children: what they do not spend is free again
    /// when they report.
    pub(crate) fn holds_back(&self) -> bool {
        self.is_set_aside() && self.state.data.children.values().any(|child| child.may_report())
    }

    /// The same, whether or not any of them will report.
    pub(crate) fn is_set_aside(&self) -> bool {
        let data = &self.state.data;
        if data.children.is_empty() {
            return false;
        }
        let forbids = |spend: &Spend| !data.budget.forbids(spend, &[Purchase::Answer]).is_empty();
        !forbids(&data.spend) && forbids(&data.committed())
    }

    /// Nothing new begins while that is so. It ends with the report of a child, or of the time: a child that has ended
    /// sets nothing aside, and one whose process is gone is taken up again ([`minding`]), so nobody is waited for who
    /// cannot report.
    pub(crate) fn awaits_children(&mut self) -> bool {
        if !self.holds_back() {
            return false;
        }
        if !std::mem::replace(&mut self.state.data.awaits_children, true) {
            let open = self.state.data.children.iter().filter(|(_, child)| child.ended.is_none());
            let children = open.map(|(id, _)| id.clone()).collect();
            self.event(|| EventKind::ChildrenAwaited { children });
        }
        true
    }

    /// One that cannot move does not wait for children that have reported, nor does one that has ended.
    pub(crate) fn forget_waiting(&mut self) {
        if self.state.data.awaits_children && (self.is_finished() || !self.holds_back()) {
            self.state.data.awaits_children = false;
        }
        if self.is_finished() {
            self.state.data.held_asks.clear();
        }
    }

    /// There is something left again: whoever waited goes on.
    pub(crate) fn go_on_after_children(&mut self) {
        self.state.data.awaits_children = false;
        for HeldAsk { turn, request, bytes } in std::mem::take(&mut self.state.data.held_asks) {
            self.on_agent_would_ask(turn, request, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_gets_what_it_wants_and_at_most_what_is_left() {
        let budget = |usd: Option<f64>| Budget { max_usd: usd, ..Budget::default() };
        let spent = |usd: f64| Spend { usd, ..Spend::default() };
        let given = |limit, usd, wish| {
            allot(&budget(limit), &spent(usd), &budget(wish)).map(|got| got.max_usd)
        };
        assert_eq!(given(Some(5.0), 1.0, Some(2.0)), Ok(Some(2.0)));
        assert_eq!(given(Some(5.0), 1.0, Some(9.0)), Ok(Some(4.0)));
        assert_eq!(given(Some(5.0), 1.0, None), Ok(Some(4.0)));
        assert_eq!(given(None, 1.0, Some(2.0)), Ok(Some(2.0)));
        assert!(given(Some(5.0), 5.0, Some(0.1)).unwrap_err().contains("nothing is left"));
        let unknown = Spend { unpriced: 1, ..Spend::default() };
        assert!(allot(&budget(Some(5.0)), &unknown, &budget(None)).is_err());
        let allowed = Spend { unpriced_allowed: 1, ..unknown };
        assert!(allot(&budget(Some(5.0)), &allowed, &budget(None)).is_ok(), "it was raised since");
    }

    #[test]
    fn a_place_is_below_another_by_whole_names_only() {
        assert!(is_below("/p", "/p") && is_below("/p/a", "/p") && is_below("/p/a", "/p/"));
        assert!(!is_below("/pq", "/p") && !is_below("/", "/p") && !is_below("/p/../q", "/p"));
    }
}
