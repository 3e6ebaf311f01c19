//! The driver `workflow`: steps in a row or states with transitions, as a file wrote them down.
//!
//! Its configuration is what [`crate::file::workflow`] makes of a `[workflow]`: `{"name", "steps" or "states", "inputs",
//! "given", "outputs", "llm", "facts", "max_steps", …}`, with every reference replaced by what it names. `definition`
//! holds it once it is read, `frame` the place in it, and `run` moves from one place to the next. After the last step
//! it claims. A failed verdict on its claim ends it: what it does was decided when it was written.
//!
//! Whatever fails, it ends: every retry, goto and transition is counted. What it remembers is a place, those counters,
//! and the results that something in it mentions.

pub(crate) mod call;
mod child;
mod definition;
mod frame;
mod names;
pub(crate) mod read;
mod result;
mod run;
mod schema;
mod scope;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, Driver, DriverKind, Fact, NO_CONVERSATION, Registry, Situation, Wait};
use crate::child::step::ChildEnd;
use crate::task::CriterionResult;
use crate::tool::Status;

use call::tail;
use child::{SavedStepChild, StepChild};
use definition::{Body, Definition};
pub use definition::{Input, InputKind};
use frame::{Address, Came, FlowFrame, RowFrame, StepFrame};
pub(crate) use read::{chooser_of, criteria_of_steps, driver_of, task_driver_of};
use run::{Asked, Round, Run};
use scope::World;

/// The kind of driver that follows a workflow.
#[derive(Debug)]
pub struct WorkflowKind;

impl DriverKind for WorkflowKind {
    fn name(&self) -> &str {
        "workflow"
    }

    fn version(&self) -> u32 {
        2
    }

    fn create(&self, config: &Value, registry: &Registry) -> Result<Box<dyn Driver>, String> {
        let definition = Arc::new(read::definition(config, false)?);
        let memory = Memory::new(&definition, false);
        Ok(Box::new(Workflow {
            definition,
            memory,
            children: BTreeMap::new(),
            registry: registry.clone(),
        }))
    }

    fn load(
        &self,
        config: &Value,
        state: &Value,
        registry: &Registry,
    ) -> Result<Box<dyn Driver>, String> {
        let wrong = |error: serde_json::Error| format!("saved workflow: {error}");
        let mut memory = if state.get("at").is_some() {
            FirstMemory::deserialize(state).map_err(wrong)?.into()
        } else {
            Memory::deserialize(state).map_err(wrong)?
        };
        let definition = read::definition(config, memory.plain)?;
        if !memory.flow.fits(&definition.flow) {
            return Err(match &definition.flow.body {
                Body::Row(row) => format!(
                    "saved workflow stands at step {} of {}",
                    memory.flow.row.at,
                    row.steps.len()
                ),
                Body::States(_) => {
                    "saved workflow stands at a state that it does not have".to_owned()
                }
            });
        }
        let mut children = BTreeMap::new();
        for saved in std::mem::take(&mut memory.children) {
            children.insert(saved.address.clone(), StepChild::load(saved, registry)?);
        }
        Ok(Box::new(Workflow {
            definition: Arc::new(definition),
            memory,
            children,
            registry: registry.clone(),
        }))
    }
}

/// A workflow under way.
#[derive(Debug)]
struct Workflow {
    definition: Arc<Definition>,
    memory: Memory,
    /// The drivers at work in steps, by the way to them.
    children: BTreeMap<Address, StepChild>,
    /// Makes them.
    registry: Registry,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// All that is remembered between two calls.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Memory {
    /// The place.
    flow: FlowFrame,
    /// Steps that were begun, repeats included.
    #[serde(skip_serializing_if = "is_default")]
    carried_out: u64,
    /// Failures passed over.
    #[serde(skip_serializing_if = "is_default")]
    passed_over: u64,
    /// The number of the last conversation with an agent.
    #[serde(skip_serializing_if = "is_default")]
    conversations: u32,
    /// What came and has not been looked at, by the way to whom it is for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", with = "pairs")]
    came: BTreeMap<Address, Came>,
    /// The number of the last question to a person.
    #[serde(skip_serializing_if = "is_default")]
    questions: u64,
    /// The highest number of a task that a step has asked for.
    #[serde(skip_serializing_if = "is_default")]
    tasks: u64,
    /// The number that one of them got, with the way to whom it is for, until that one knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    child_began: Option<(Address, u64)>,
    /// The end of one of them that has not been looked at, with the way to whom it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    child_end: Option<(Address, ChildEnd)>,
    /// Whose question was put last.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Address>,
    /// Whether it has claimed. A verdict without a claim of its own is news from before, told to whoever takes over.
    #[serde(skip_serializing_if = "is_default")]
    claimed: bool,
    /// Why it cannot go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<End>,
    /// Whether braces mean nothing: it was begun before there were templates.
    #[serde(skip_serializing_if = "is_default")]
    plain: bool,
    /// The drivers at work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<SavedStepChild>,
}

/// What version 1 remembered of a row of steps.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstMemory {
    at: usize,
    #[serde(default)]
    carried_out: u64,
    #[serde(default)]
    retries: u64,
    #[serde(default)]
    put_off: u32,
    #[serde(default)]
    passed_over: u64,
    #[serde(default)]
    gotos: BTreeMap<usize, u64>,
    #[serde(default)]
    end: Option<End>,
}

impl From<FirstMemory> for Memory {
    fn from(first: FirstMemory) -> Memory {
        let FirstMemory { at, carried_out, retries, put_off, passed_over, gotos, end } = first;
        let stage = frame::Stage::First;
        let step = StepFrame { stage, retries, put_off, ..StepFrame::default() };
        let row = RowFrame { at, step, gotos, ..RowFrame::default() };
        let flow = FlowFrame { row, ..FlowFrame::default() };
        Memory { flow, carried_out, passed_over, end, plain: true, ..Memory::default() }
    }
}

impl Memory {
    fn new(definition: &Definition, plain: bool) -> Memory {
        let flow = FlowFrame::new(&definition.flow, Value::Null, 0);
        Memory { flow, plain, ..Memory::default() }
    }

    /// Goes on where it ended: with the step that failed, or with its claim if that was refused.
    fn try_again(&mut self) {
        if self.end.take().is_none() {
            return;
        }
        // A state is left when its step has failed; what none of its ways fits is found out anew.
        if let Some(states) = &mut self.flow.states
            && states.stage == frame::StateStage::Choose
        {
            states.stage = frame::StateStage::Work;
        }
    }
}

/// Keys that are lists cannot be keys of a table.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Address, Came};

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<Address, Came>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Address, Came>, D::Error> {
        Ok(Vec::<(Address, Came)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Why a driver cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// For a person.
    pub(crate) reason: String,
    /// Whether it is a circle rather than a failure.
    pub(crate) stuck: bool,
}

impl End {
    /// A failure.
    pub(crate) fn failed(reason: String) -> End {
        End { reason, stuck: false }
    }

    /// A circle.
    pub(crate) fn stuck(reason: String) -> End {
        End { reason, stuck: true }
    }

    /// The decision that says so.
    pub(crate) fn decision(&self) -> Decision {
        Decision::GiveUp { reason: self.reason.clone(), stuck: self.stuck }
    }
}

/// What a definition without means of repair says to a failed verdict.
pub(crate) fn verdict_failed(who: &str, results: &[CriterionResult]) -> End {
    let failed: Vec<String> = results
        .iter()
        .filter(|result| result.fails())
        .map(|result| {
            let exit = result.exit.map(|code| format!(" (exit code {code})")).unwrap_or_default();
            let evidence = tail(&result.evidence);
            let evidence = if evidence.is_empty() { evidence } else { format!(": {evidence}") };
            format!("{}{exit}{evidence}", result.title)
        })
        .collect();
    End::failed(format!("{who} is finished, but acceptance failed: {}", failed.join("; ")))
}

impl Driver for Workflow {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        if let Some(end) = &self.memory.end {
            return end.decision();
        }
        let definition = Arc::clone(&self.definition);
        let Memory {
            flow,
            carried_out,
            passed_over,
            conversations,
            came,
            questions,
            tasks,
            child_began,
            child_end,
            asked,
            ..
        } = &mut self.memory;
        let mut run = Run {
            world: world(&definition, situation),
            situation,
            registry: &self.registry,
            carried_out,
            passed_over,
            conversations,
            came,
            questions,
            tasks,
            child_began,
            child_end,
            asked: asked.as_ref(),
            children: &mut self.children,
            limits: Vec::new(),
            deadlines: Vec::new(),
            round: Round::default(),
            over: None,
        };
        let ended = run.flow(&definition.flow, flow, &definition.inputs, &mut Address::new());
        let ended = match ended {
            Some(Ok(())) => Some(
                run::outputs(run.world, &definition.flow, flow, &definition.inputs)
                    .map(drop)
                    .map_err(End::failed),
            ),
            other => other,
        };
        let Round { actions, busy, question, person, moment } = run.round;
        let ended = run.over.map(Err).or(ended);
        self.memory.asked = None;
        match ended {
            Some(Ok(())) => {
                self.memory.claimed = true;
                return Decision::Claim { summary: self.summary() };
            }
            Some(Err(end)) => return self.memory.end.insert(end).decision(),
            None => {}
        }
        if !actions.is_empty() {
            return Decision::Act(actions);
        }
        if busy {
            return Decision::Wait(Wait::Results { until: moment.map(|(at, _)| at) });
        }
        if let Some((address, request)) = question {
            if let Some(child) = self.children.get_mut(&address) {
                child.asked();
            }
            self.memory.asked = Some(address);
            return Decision::Consult(request);
        }
        if let Some(Asked { address, prompt, until, number }) = person {
            self.memory.asked = Some(address);
            let due = moment.map(|(at, _)| at).filter(|at| until.is_none_or(|until| *at < until));
            return Decision::Wait(Wait::Person { prompt, until, due, number });
        }
        match moment {
            Some((at, reason)) => Decision::Wait(Wait::Until { at, reason }),
            // Whatever has not ended waits for something; if nothing does, going on would be a circle.
            None => {
                let reason = format!("{} waits for nothing", definition.flow.title());
                self.memory.end.insert(End::failed(reason)).decision()
            }
        }
    }

    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        match fact {
            Fact::Result { action, result, call } => match self.owner(&action.path) {
                Some((address, end)) => {
                    let Some(child) = self.children.get_mut(&address) else { return };
                    let mut action = (*action).clone();
                    action.path.drain(..end);
                    child
                        .observe(situation, &Fact::Result { call: *call, action: &action, result });
                }
                None if self.memory.end.is_none() => {
                    let own = action.path.len().saturating_sub(situation.path.len());
                    let address = action.path[..own].to_vec();
                    self.memory.came.insert(address, Came::of(result));
                }
                None => {}
            },
            Fact::Told(line) => {
                let Some(address) = self.memory.asked.take() else { return };
                match self.children.get_mut(&address) {
                    Some(child) => child.observe(situation, fact),
                    None => {
                        let text = (*line).to_owned();
                        let came = Came { status: Status::Ok, exit: None, text };
                        self.memory.came.insert(address, came);
                    }
                }
            }
            Fact::Consulted(_) | Fact::Replied(_) | Fact::AgentTook(_) | Fact::AgentEnded(_) => {
                let child = self.memory.asked.as_ref().and_then(|at| self.children.get_mut(at));
                if let Some(child) = child {
                    child.observe(situation, fact);
                }
            }
            Fact::ChildBegan(number) => {
                let Some(address) = self.memory.asked.clone() else { return };
                match self.children.get_mut(&address) {
                    Some(child) => child.observe(situation, fact),
                    None => {
                        self.memory.tasks = self.memory.tasks.max(*number);
                        self.memory.child_began = Some((address, *number));
                    }
                }
            }
            Fact::ChildEnded(end) => {
                let Some(address) = self.memory.asked.take() else { return };
                match self.children.get_mut(&address) {
                    Some(child) => {
                        self.memory.asked = Some(address);
                        child.observe(situation, fact);
                    }
                    None => self.memory.child_end = Some((address, ChildEnd::clone(end))),
                }
            }
            // What it does was decided when it was written; a worker inside of it takes advice.
            Fact::Note(_) => {
                for child in self.children.values_mut() {
                    child.observe(situation, fact);
                }
            }
            Fact::Retry(retry) if retry.fresh => {
                // What was begun before keeps its number, and whatever begins gets another one.
                let Memory { plain, questions, tasks, conversations, .. } = self.memory;
                let anew = Memory::new(&self.definition, plain);
                self.memory = Memory { questions, tasks, conversations, ..anew };
                self.children.clear();
            }
            Fact::Retry(_) => self.memory.try_again(),
            Fact::VerdictFailed(results) if self.memory.claimed => {
                self.memory.claimed = false;
                let who = self.definition.flow.title();
                self.memory.end.get_or_insert_with(|| verdict_failed(&who, results));
            }
            Fact::VerdictFailed(_) => {}
        }
    }

    fn save(&self) -> Value {
        // Plain numbers, texts and maps with number keys: nothing in it can fail to become JSON.
        let mut saved = serde_json::to_value(&self.memory).unwrap_or_default();
        if !self.children.is_empty() {
            let children: Vec<SavedStepChild> =
                self.children.iter().map(|(address, child)| child.save(address)).collect();
            saved["children"] = serde_json::to_value(children).unwrap_or_default();
        }
        saved
    }

    fn owns(&self, path: &[u32]) -> bool {
        let child = self.owner(path).and_then(|(at, end)| Some((self.children.get(&at)?, end)));
        child.is_none_or(|(child, end)| path.get(end..).is_some_and(|rest| child.owns(rest)))
    }

    fn has_decided(&self) -> bool {
        self.children.values().any(StepChild::has_decided)
    }

    fn not_put(&mut self) -> bool {
        let Some(address) = self.memory.asked.take() else { return false };
        if let Some(child) = self.children.get_mut(&address) {
            child.not_put();
        }
        true
    }

    /// All workers inside of it who can are meant.
    fn compact(&mut self, focus: &str) -> Result<(), String> {
        let nobody = Err(NO_CONVERSATION.to_owned());
        self.children.values_mut().fold(nobody, |told, child| {
            let taken = child.compact(focus);
            told.or(taken)
        })
    }

    fn eager(&self) -> bool {
        self.definition.forks || self.children.values().any(StepChild::eager)
    }

    fn outputs(&self, situation: &Situation<'_>) -> Option<Value> {
        let definition = &self.definition;
        if definition.flow.outputs.is_empty() {
            return None;
        }
        run::outputs(
            world(definition, situation),
            &definition.flow,
            &self.memory.flow,
            &definition.inputs,
        )
        .ok()
    }
}

fn world<'w>(definition: &'w Definition, situation: &Situation<'w>) -> World<'w> {
    World { goal: situation.goal, facts: &definition.facts, turns: situation.turns }
}

impl Workflow {
    /// The driver of a step that a result belongs to: its address, and how much of the path leads to it.
    fn owner(&self, path: &[u32]) -> Option<(Address, usize)> {
        // Whoever is asked outside has asked for it itself, by a path that names no branch. Nothing else is under way then.
        let asked = self.memory.asked.as_ref().filter(|at| self.children.contains_key(*at));
        if let Some(asked) = asked {
            return Some((asked.clone(), 0));
        }
        let end = (0..=path.len()).rev().find(|end| self.children.contains_key(&path[..*end]))?;
        Some((path[..end].to_vec(), end))
    }

    fn summary(&self) -> String {
        let title = self.definition.flow.title();
        let done = match (&self.definition.flow.body, &self.memory.flow.states) {
            (Body::States(states), Some(frame)) => {
                return format!(
                    "{title} ended in the state {:?}",
                    states.states[frame.at].step.name
                );
            }
            (Body::Row(row), _) => row.steps.len(),
            (Body::States(states), None) => states.states.len(),
        };
        let plural = if done == 1 { "" } else { "s" };
        match self.memory.passed_over {
            0 => format!("{title}: {done} step{plural} done"),
            over => format!("{title}: {done} step{plural} done, {over} failed on the way"),
        }
    }
}
