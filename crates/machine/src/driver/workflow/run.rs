//! The interpreter: walks from the top to everything that can move, moves it as far as it goes, and collects what has to
//! be done outside. It remembers nothing itself: all of it is in the frames.

mod call;
mod driver;
mod groups;
mod person;
mod row;
mod states;
mod task;

pub(super) use groups::outputs;

use std::collections::BTreeMap;

use serde_json::Value;

use super::End;
use super::call::is_put_off;
use super::child::{Goal, StepChild};
use super::definition::*;
use super::frame::{Address, Branch, Came, EachFrame, FlowFrame, Stage, StepFrame};
use super::result::Ended;
use super::scope::{Layer, Scope, World};
use crate::child::step::ChildEnd;
use crate::driver::{Action, Consultation, Registry, Situation};
use crate::time::{Span, Timestamp};

/// The longest wait before a retry.
const LONGEST_BACKOFF: Span = Span(600_000);
/// More elements than this are not begun.
const MAX_ELEMENTS: usize = 10_000;

#[cfg(test)]
thread_local! {
    /// How often this thread looked at a row, for tests.
    pub(super) static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One decision in the making.
pub(super) struct Run<'r> {
    pub(super) world: World<'r>,
    pub(super) situation: &'r Situation<'r>,
    pub(super) registry: &'r Registry,
    /// Steps begun, repeats included.
    pub(super) carried_out: &'r mut u64,
    /// Failures passed over.
    pub(super) passed_over: &'r mut u64,
    /// The number of the last conversation with an agent.
    pub(super) conversations: &'r mut u32,
    /// What came and has not been looked at.
    pub(super) came: &'r mut BTreeMap<Address, Came>,
    /// The number of the last question to a person.
    pub(super) questions: &'r mut u64,
    /// The highest number of a task that a step has asked for.
    pub(super) tasks: &'r mut u64,
    /// The number that one of them got, until its step knows it.
    pub(super) child_began: &'r mut Option<(Address, u64)>,
    /// The end of one of them that has not been looked at.
    pub(super) child_end: &'r mut Option<(Address, ChildEnd)>,
    /// Whose question was put last and has no answer.
    pub(super) asked: Option<&'r Address>,
    /// The drivers at work.
    pub(super) children: &'r mut BTreeMap<Address, StepChild>,
    /// The limits of the workflows around the step: the most steps, and how many there were at the beginning.
    pub(super) limits: Vec<(u64, u64)>,
    /// The ends of the times around the step.
    pub(super) deadlines: Vec<Timestamp>,
    /// What has to be done outside.
    pub(super) round: Round,
    /// It is over, whatever anything says about failures.
    pub(super) over: Option<End>,
}

/// What has to be done outside.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) actions: Vec<Action>,
    /// Something is under way.
    pub(super) busy: bool,
    /// The first question to a decider outside.
    pub(super) question: Option<(Address, Consultation)>,
    /// The first question to a person.
    pub(super) person: Option<Asked>,
    /// The next moment at which something is due, whatever a person says.
    pub(super) moment: Option<(Timestamp, String)>,
}

/// A question to a person.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) address: Address,
    pub(super) prompt: String,
    /// Until when it waits, once it is put: the time of one that is not has not begun.
    pub(super) until: Option<Timestamp>,
    /// Its number, if a step asks it and not a driver.
    pub(super) number: Option<u64>,
}

impl Round {
    fn due(&mut self, at: Timestamp, reason: impl FnOnce() -> String) {
        if self.moment.as_ref().is_none_or(|(sooner, _)| at < *sooner) {
            self.moment = Some((at, reason()));
        }
    }
}

impl Run<'_> {
    fn now(&self) -> Timestamp {
        self.situation.now
    }

    /// A workflow, to its end or as far as it goes.
    pub(super) fn flow(
        &mut self,
        flow: &Flow,
        frame: &mut FlowFrame,
        inputs: &Value,
        address: &mut Address,
    ) -> Option<Result<(), End>> {
        self.limits.extend(flow.max_steps.map(|most| (most, frame.began)));
        let top = Scope { outer: None, layer: Layer::Flow { world: self.world, inputs } };
        let ended = match (&flow.body, &mut frame.states) {
            (Body::Row(row), _) => self.row(row, &mut frame.row, &top, address),
            (Body::States(states), Some(frame)) => self.states(states, flow, frame, &top, address),
            // A frame is made for its workflow, and checked when it is loaded.
            (Body::States(_), None) => {
                Some(Err(End::failed("the saved place is that of a row".to_owned())))
            }
        };
        if flow.max_steps.is_some() {
            self.limits.pop();
        }
        ended
    }

    /// A step, to its end or as far as it goes.
    fn step(
        &mut self,
        step: &Step,
        frame: &mut StepFrame,
        scope: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Ended> {
        loop {
            let ended = match &mut frame.stage {
                Stage::Next => {
                    match step.when.as_ref().map(|when| scope.holds(when)) {
                        Some(Err(why)) => {
                            let why = format!("step {:?}: when: {why}", step.name);
                            return Some(Ended::failed("error", "", why));
                        }
                        Some(Ok(false)) => return Some(Ended::skipped()),
                        Some(Ok(true)) | None => frame.stage = Stage::Go,
                    }
                    continue;
                }
                Stage::First => {
                    let came = self.came.contains_key(address);
                    frame.stage = if came { Stage::Busy } else { Stage::Go };
                    continue;
                }
                Stage::Rest(until) if *until > self.now() => {
                    self.round.due(*until, || format!("step {:?} is tried again", step.name));
                    return None;
                }
                Stage::Rest(_) => {
                    frame.stage = Stage::Go;
                    continue;
                }
                Stage::Go => match self.begin(step, frame, scope, address) {
                    Some(Ok(stage)) => {
                        frame.stage = stage;
                        continue;
                    }
                    Some(Err(ended)) => ended,
                    None => return None,
                },
                Stage::Busy => {
                    let Some(came) = self.came.remove(address) else {
                        self.round.busy = true;
                        return None;
                    };
                    if is_put_off(came.status, frame.put_off) {
                        frame.put_off += 1;
                        *self.carried_out = self.carried_out.saturating_sub(1);
                        frame.stage = Stage::Go;
                        continue;
                    }
                    frame.put_off = 0;
                    step.came(&came)
                }
                Stage::Driver => self.driver(step, frame.until, address)?,
                Stage::Person(prompt) => {
                    self.person(step, prompt, &mut frame.until, &mut frame.question, address)?
                }
                Stage::Task(order) => self.task(step, order, frame.until, address)?,
                Stage::Flow(_) | Stage::Each(_) | Stage::Parallel(_) | Stage::Row(_) => {
                    self.deadlines.extend(frame.until);
                    let ended = self.group(step, &mut frame.stage, scope, address);
                    if frame.until.is_some() {
                        self.deadlines.pop();
                    }
                    let mut ended = ended?;
                    if !ended.ok && frame.until.is_some_and(|until| until <= self.now()) {
                        ended.status = "timed_out".to_owned();
                    }
                    ended
                }
            };
            let is_late = self.is_late();
            let OnError::Retry { most, .. } = step.on_error else { return Some(ended) };
            let denied = ended.status == "timed_out" && step.on_timeout.is_some();
            if ended.ok || is_late || denied || frame.retries >= most {
                let why = match ended.why.as_str() {
                    "" => String::new(),
                    why => format!("{why} (after {} retries)", frame.retries),
                };
                return Some(Ended { why, ..ended });
            }
            frame.retries += 1;
            frame.until = None;
            frame.stage = match step.backoff {
                Some(first) => Stage::Rest(self.now().after(backoff(first, frame.retries))),
                None => Stage::Go,
            };
        }
    }

    /// Whether the time of something around the step is over.
    fn is_late(&self) -> bool {
        self.deadlines.iter().any(|deadline| *deadline <= self.now())
    }

    /// The time that is left for an action.
    fn time_left(&self, own: Option<Span>) -> Option<Span> {
        let left = self.deadlines.iter().map(|deadline| deadline.since(self.now()));
        left.chain(own).min()
    }

    /// Begins a step: where it stands then, or how it ended at once.
    fn begin(
        &mut self,
        step: &Step,
        frame: &mut StepFrame,
        scope: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Result<Stage, Ended>> {
        if step.work.is_leaf() {
            if self.is_late() {
                let why = format!("the time is over before step {:?}", step.name);
                return Some(Err(Ended::failed("timed_out", "", why)));
            }
            let reached =
                |(most, began): &&(u64, u64)| self.carried_out.saturating_sub(*began) >= *most;
            if let Some((most, _)) = self.limits.iter().find(reached) {
                let reason = format!("max_steps = {most} is reached before step {:?}", step.name);
                self.over = Some(End::stuck(reason));
                return None;
            }
            *self.carried_out += 1;
        }
        let limit = match &step.work {
            Work::Tool(_) => None,
            Work::Flow(work) => step.timeout.into_iter().chain(work.flow.time).min(),
            _ => step.timeout,
        };
        frame.until = limit.map(|limit| self.now().after(limit));
        let wrong =
            |why: String| Ended::failed("error", "", format!("step {:?}: {why}", step.name));
        Some(match &step.work {
            Work::Nothing => Err(Ended::ok("")),
            Work::Tool(work) => self.call(work, scope, address).map_err(wrong),
            Work::Driver(work) => self.begin_driver(step, work, scope, address).map_err(wrong),
            Work::Person(work) => {
                scope.text(&work.text).map(|text| Stage::Person(work.prompt(&text))).map_err(wrong)
            }
            Work::Flow(work) => self.begin_flow(work, scope).map_err(wrong),
            Work::Each(each) => begin_each(each, scope).map_err(wrong),
            Work::Parallel(work) => {
                Ok(Stage::Parallel(vec![Branch::default(); work.branches.len()]))
            }
            Work::Row(_) => Ok(Stage::Row(Box::default())),
            Work::Task(work) => self.begin_task(step, work, frame.until, scope).map_err(wrong),
        })
    }

    fn begin_flow(&mut self, work: &FlowWork, scope: &Scope<'_>) -> Result<Stage, String> {
        let inputs = given(&work.flow.inputs, &work.given, scope)?;
        Ok(Stage::Flow(Box::new(FlowFrame::new(&work.flow, inputs, *self.carried_out))))
    }
}

/// The values of a workflow's inputs.
fn given(inputs: &[Input], given: &[(String, Given)], scope: &Scope<'_>) -> Result<Value, String> {
    let mut values = serde_json::Map::new();
    for (name, value) in given {
        let value = match value {
            Given::Literal(value) => value.clone(),
            Given::Formula(formula) => {
                scope.value(formula).map_err(|why| format!("input {name:?}: {why}"))?
            }
        };
        values.insert(name.clone(), value);
    }
    bind(inputs, &values)
}

fn begin_each(each: &Each, scope: &Scope<'_>) -> Result<Stage, String> {
    let items = match scope.value(&each.list).map_err(|why| format!("foreach: {why}"))? {
        Value::Array(items) => items,
        other => {
            let got = crate::file::check::short(&other);
            return Err(format!(
                "foreach needs a list, and {:?} gave {got}",
                each.list.expression.text()
            ));
        }
    };
    if items.len() > MAX_ELEMENTS {
        return Err(format!(
            "the list has {} elements: at most {MAX_ELEMENTS} are taken",
            items.len()
        ));
    }
    Ok(Stage::Each(Box::new(EachFrame { items, ..EachFrame::default() })))
}

/// The wait before this retry: it doubles each time.
fn backoff(first: Span, retry: u64) -> Span {
    let doublings = u32::try_from(retry.saturating_sub(1)).unwrap_or(u32::MAX).min(32);
    Span(first.0.saturating_mul(1 << doublings).min(LONGEST_BACKOFF.0.max(first.0)))
}
