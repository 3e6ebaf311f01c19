//! What is remembered of a workflow under way: a tree of places, as plain data. What is at its default is left out, so
//! that ten thousand plain steps are remembered in a few bytes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::{Body, Flow, Row, State, States, Step, Work};
use crate::child::step::TaskOrder;
use crate::time::Timestamp;
use crate::tool::Status;

/// The way to something that works on its own: the number of each branch or element that leads there.
pub(super) type Address = Vec<u32>;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The place in a workflow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FlowFrame {
    /// The values of its inputs; those of the outermost one are in the configuration.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) inputs: Value,
    /// How many steps had been carried out when it began.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) began: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) row: RowFrame,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) states: Option<StatesFrame>,
}

/// The place in a row of steps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RowFrame {
    /// The step that is next or under way; the number of steps when all are done.
    pub(super) at: usize,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) step: StepFrame,
    /// How often each step was left by its goto, or for the check it belongs to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) gotos: BTreeMap<usize, u64>,
    /// How often each step was left by its `then`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) thens: BTreeMap<usize, u64>,
    /// The results that somebody mentions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) results: BTreeMap<usize, Value>,
    /// How often steps were begun, where somebody mentions it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) visits: BTreeMap<usize, u64>,
    /// The result that came last, where somebody mentions it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<Value>,
}

/// The place in one step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StepFrame {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) stage: Stage,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) retries: u64,
    /// Times in a row that it was put off.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) put_off: u32,
    /// When its time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Timestamp>,
    /// The number of the question that it asks a person; none yet if 0.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) question: u64,
}

/// How far a step is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// Whether it runs at all is to be decided.
    #[default]
    Next,
    /// It is to begin.
    Go,
    /// It waits before it is tried again.
    Rest(Timestamp),
    /// It is to begin, or its tool call is under way: version 1 did not tell these apart.
    First,
    /// Its tool call is under way.
    Busy,
    /// Its driver is at work.
    Driver,
    /// A person is asked this.
    Person(String),
    Flow(Box<FlowFrame>),
    Each(Box<EachFrame>),
    Parallel(Vec<Branch>),
    Row(Box<RowFrame>),
    /// The task that it asked for is under way.
    Task(Box<TaskOrder>),
}

/// The place in a foreach.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct EachFrame {
    pub(super) items: Vec<Value>,
    /// The element that begins next.
    pub(super) next: usize,
    /// Those under way.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) running: BTreeMap<usize, RowFrame>,
    /// Those of them that wait for something else than the result of a tool call, and so are looked at each time; all, if
    /// it is not known. It follows from the rest, so it is not saved.
    #[serde(skip)]
    pub(super) awake: Option<BTreeSet<usize>>,
    /// What came of those that ended, where somebody mentions it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) results: BTreeMap<usize, Value>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) succeeded: u64,
    /// What went wrong with the first that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
    /// Whether that was a circle.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) stuck: bool,
}

/// The place in one of several rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Branch {
    #[serde(skip_serializing_if = "is_default")]
    pub(super) row: RowFrame,
    /// Why it failed, or an empty text, once it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<String>,
    /// Whether it failed by going in a circle.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) stuck: bool,
    /// Whether it waits for the result of a tool call and for nothing else, so that it is looked at when that came. It
    /// follows from the rest, so it is not saved.
    #[serde(skip)]
    pub(super) sleeps: bool,
}

/// The place in a machine of states.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StatesFrame {
    pub(super) at: usize,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) stage: StateStage,
    /// The place in `on_entry` or `on_exit`.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) row: RowFrame,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) step: StepFrame,
    /// What came of the state's work.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) result: Value,
    /// How often each way was taken, by state and place in its list.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) taken: BTreeMap<usize, BTreeMap<usize, u64>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) results: BTreeMap<usize, Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) visits: BTreeMap<usize, u64>,
}

/// How far a state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StateStage {
    #[default]
    Entry,
    Work,
    Choose,
    /// This way was chosen.
    Exit(usize),
}

/// How a tool call or a question to a person ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Came {
    pub(super) status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exit: Option<i32>,
    /// The end of the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) text: String,
}

impl FlowFrame {
    /// The beginning of a workflow.
    pub(super) fn new(flow: &Flow, inputs: Value, began: u64) -> FlowFrame {
        let states = match &flow.body {
            Body::Row(_) => None,
            Body::States(states) => {
                Some(StatesFrame { at: states.initial, ..StatesFrame::default() })
            }
        };
        FlowFrame { inputs, began, states, ..FlowFrame::default() }
    }

    /// Whether every place exists, so that it can be looked up without a check.
    pub(super) fn fits(&self, flow: &Flow) -> bool {
        match (&flow.body, &self.states) {
            (Body::Row(row), None) => self.row.fits(row),
            (Body::States(states), Some(frame)) => frame.fits(states),
            _ => false,
        }
    }
}

impl RowFrame {
    fn fits(&self, row: &Row) -> bool {
        let is_over = matches!(self.step.stage, Stage::Next | Stage::First);
        self.at == row.steps.len() && is_over
            || row.steps.get(self.at).is_some_and(|step| self.step.fits(step))
    }
}

impl StepFrame {
    fn fits(&self, step: &Step) -> bool {
        match (&self.stage, &step.work) {
            (Stage::Next | Stage::Go | Stage::First | Stage::Rest(_), _) => true,
            (Stage::Busy, Work::Tool(_)) => true,
            (Stage::Driver, Work::Driver(_)) => true,
            (Stage::Person(_), Work::Person(_)) => true,
            (Stage::Flow(frame), Work::Flow(work)) => frame.fits(&work.flow),
            (Stage::Each(frame), Work::Each(each)) => {
                frame.running.values().all(|row| row.fits(&each.row))
            }
            (Stage::Parallel(branches), Work::Parallel(work)) => {
                branches.len() == work.branches.len()
                    && branches
                        .iter()
                        .zip(&work.branches)
                        .all(|(frame, (_, row))| frame.row.fits(row))
            }
            (Stage::Row(frame), Work::Row(row)) => frame.fits(row),
            (Stage::Task(_), Work::Task(_)) => true,
            _ => false,
        }
    }
}

impl StatesFrame {
    fn fits(&self, states: &States) -> bool {
        let Some(state) = states.states.get(self.at) else { return false };
        match self.stage {
            StateStage::Entry => self.row.fits(&state.on_entry),
            StateStage::Work => self.step.fits(&state.step),
            StateStage::Choose => true,
            StateStage::Exit(way) => self.exits(state, way),
        }
    }

    fn exits(&self, state: &State, way: usize) -> bool {
        way < state.ways.len() && self.row.fits(&state.on_exit)
    }
}
