//! The interpreter: walks from the top to everything that can move, moves it as far as it goes, and collects what has to
//! be done outside. It remembers nothing itself: all of it is in the frames.

mod groups;
mod states;
mod task;

pub(super) use groups::outputs;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::End;
use super::call::is_put_off;
use super::child::{self, Goal, Move, StepChild};
use super::definition::*;
use super::frame::{Address, Branch, Came, EachFrame, FlowFrame, RowFrame, Stage, StepFrame};
use super::result::{self, Ended};
use super::scope::{Layer, Scope, World};
use crate::child::step::ChildEnd;
use crate::driver::{Action, Consultation, Registry, Situation, Wait};
use crate::time::{Span, Timestamp};
use crate::tool;

/// The longest wait before a retry.
const LONGEST_BACKOFF: Span = Span(600_000);
/// More elements than this are not begun.
const MAX_ELEMENTS: usize = 10_000;
/// How often a model may be told that its answer does not fit.
const MAX_MISFITS: u32 = 2;

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
    /// How many tasks of their own steps have asked for.
    pub(super) tasks: &'r mut u64,
    /// The end of one of them that has not been looked at.
    pub(super) child_end: &'r mut Option<(Address, ChildEnd)>,
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
    pub(super) person: Option<(Address, String)>,
    /// The next moment at which something is due.
    pub(super) moment: Option<(Timestamp, String)>,
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

    /// A row of steps, to its end or as far as it goes.
    pub(super) fn row(
        &mut self,
        row: &Row,
        frame: &mut RowFrame,
        outer: &Scope<'_>,
        address: &mut Address,
    ) -> Option<Result<(), End>> {
        #[cfg(test)]
        LOOKS.with(|looks| looks.set(looks.get() + 1));
        loop {
            let Some(step) = row.steps.get(frame.at) else { return Some(Ok(())) };
            let begins = frame.step.stage == Stage::Next;
            let is_idle = begins
                && step.repairs.is_some_and(|check| !result::is_failure(frame.results.get(&check)));
            if begins && step.counted && !is_idle {
                *frame.visits.entry(frame.at).or_default() += 1;
            }
            let ended = if is_idle {
                Ended::skipped()
            } else {
                let RowFrame { step: inner, results, visits, .. } = frame;
                let scope = outer.with(Layer::Steps { index: &row.index, results, visits });
                self.step(step, inner, &scope, address)?
            };
            let attempts = std::mem::take(&mut frame.step).retries + 1;
            let (ok, skipped, stuck) = (ended.ok, ended.is_skipped(), ended.stuck);
            let timed_out = ended.status == "timed_out";
            let why = ended.why.clone();
            if step.keeps || row.keeps_last {
                let packed = result::packed(ended.value(attempts));
                if step.keeps {
                    frame.results.insert(frame.at, packed.clone());
                }
                if row.keeps_last && !skipped {
                    frame.last = Some(packed);
                }
            }
            let escape = if timed_out { step.on_timeout } else { None };
            let escape = escape.unwrap_or(step.on_error.escape());
            let left = match (ok, skipped) {
                (_, true) => row.next(frame),
                (true, _) => row.succeeded(frame, step),
                (false, _) => {
                    if escape != Escape::Fail {
                        *self.passed_over += 1;
                    }
                    row.failed(frame, step, escape, why, stuck)
                }
            };
            if let Err(end) = left {
                return Some(Err(end));
            }
        }
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
                    if is_put_off(&came.result(), frame.put_off) {
                        frame.put_off += 1;
                        *self.carried_out = self.carried_out.saturating_sub(1);
                        frame.stage = Stage::Go;
                        continue;
                    }
                    frame.put_off = 0;
                    step.came(&came)
                }
                Stage::Driver => self.driver(step, frame.until, address)?,
                Stage::Person(prompt) => self.person(step, prompt, frame.until, address)?,
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

    fn call(
        &mut self,
        work: &ToolWork,
        scope: &Scope<'_>,
        address: &Address,
    ) -> Result<Stage, String> {
        let mut action = work.call.action(self.situation);
        if let Some(shape) = &work.shape {
            action.input = Arc::new(work.fill(shape, scope)?);
        }
        if !address.is_empty() {
            action.path.splice(0..0, address.iter().copied());
        }
        if !self.deadlines.is_empty() {
            action.timeout = self.time_left(action.timeout);
        }
        self.round.actions.push(action);
        Ok(Stage::Busy)
    }

    fn begin_driver(
        &mut self,
        step: &Step,
        work: &DriverWork,
        scope: &Scope<'_>,
        address: &Address,
    ) -> Result<Stage, String> {
        let (config, goal) = work.told(scope)?;
        let child = StepChild::create(
            &step.name,
            &work.driver,
            config,
            goal,
            *self.conversations,
            self.registry,
        )?;
        self.children.insert(address.clone(), child);
        Ok(Stage::Driver)
    }

    /// How it stands with the driver of a step.
    fn driver(
        &mut self,
        step: &Step,
        until: Option<Timestamp>,
        address: &Address,
    ) -> Option<Ended> {
        let who = if let Work::Driver(work) = &step.work { work.driver.as_str() } else { "llm" };
        let late = until.is_some_and(|until| until <= self.now()) || self.is_late();
        if late && self.children.get(address).is_some_and(|child| !child.is_busy()) {
            self.children.remove(address);
            let why = format!("step {:?} ({who}) failed: its time is over", step.name);
            return Some(Ended::failed("timed_out", "", why));
        }
        loop {
            let end = self.ask(&step.name, until, address)?;
            let schema =
                if let Work::Driver(work) = &step.work { work.schema.as_ref() } else { None };
            let text = match end {
                child::End::Done(text) => text,
                child::End::GaveUp { reason, stuck } => {
                    self.children.remove(address);
                    let why = format!("step {:?} ({who}) failed: {reason}", step.name);
                    return Some(Ended { stuck, ..Ended::failed("error", &reason, why) });
                }
            };
            let value = result::as_json(&text);
            let misfit = schema.and_then(|schema| match &value {
                Some(value) => schema.refuses(value),
                None => Some("the answer is not JSON".to_owned()),
            });
            if let Some(misfit) = misfit {
                if let Some(child) = self.children.get_mut(address)
                    && child.misfits < MAX_MISFITS
                {
                    let why =
                        format!("{misfit}. Answer with nothing but JSON that fits the schema");
                    child.again(self.situation, why);
                    continue;
                }
                self.children.remove(address);
                let why = format!("step {:?} ({who}) failed: {misfit}", step.name);
                return Some(Ended::failed("error", &text, why));
            }
            self.children.remove(address);
            let mut ended = Ended::ok(&text);
            ended.set("value", value.unwrap_or_default());
            return Some(ended);
        }
    }

    /// Asks a driver and collects what it wants; its end, if it ended.
    pub(super) fn ask(
        &mut self,
        step: &str,
        until: Option<Timestamp>,
        address: &Address,
    ) -> Option<child::End> {
        let Some(child) = self.children.get_mut(address) else {
            // A frame that says so has its driver; a saved state without it was changed by somebody.
            let reason = "the driver of the step is not there any more".to_owned();
            return Some(child::End::GaveUp { reason, stuck: false });
        };
        match child.next(self.situation, self.conversations) {
            Move::Ended(end) => return Some(end),
            Move::Acts(actions) => {
                for mut action in actions {
                    action.path.splice(0..0, address.iter().copied());
                    let left = until.map(|until| until.since(self.situation.now));
                    action.timeout = self.time_left(action.timeout).into_iter().chain(left).min();
                    self.round.actions.push(action);
                }
            }
            Move::Busy => self.round.busy = true,
            Move::Asks(request) => {
                self.round.question.get_or_insert((address.clone(), request));
            }
            Move::Waits(Wait::Person { prompt, until }) => {
                if let Some(until) = until {
                    self.round.due(until, || format!("step {step:?} waits no longer"));
                }
                self.round.person.get_or_insert((address.clone(), prompt));
            }
            Move::Waits(Wait::Until { at, reason }) => self.round.due(at, || reason),
            Move::Waits(Wait::Results) => self.round.busy = true,
        }
        if let Some(until) = until {
            self.round.due(until, || format!("the time of step {step:?} ends"));
        }
        None
    }

    /// How it stands with a question to a person.
    fn person(
        &mut self,
        step: &Step,
        prompt: &mut String,
        until: Option<Timestamp>,
        address: &Address,
    ) -> Option<Ended> {
        let Work::Person(work) = &step.work else { return Some(Ended::skipped()) };
        if let Some(came) = self.came.remove(address) {
            match work.understand(&came.text) {
                Ok(answer) => return Some(work.ended(step, answer)),
                Err(expected) => *prompt = format!("{expected}\n{}", work.first(prompt)),
            }
        }
        let until = until.into_iter().chain(self.deadlines.iter().copied()).min();
        if let Some(until) = until {
            if until <= self.now() {
                let why = format!("step {:?}: nobody answered in time", step.name);
                let status = if work.denies { "denied" } else { "timed_out" };
                return Some(Ended::failed(status, "", why));
            }
            self.round.due(until, || format!("step {:?} waits no longer", step.name));
        }
        self.round.person.get_or_insert((address.clone(), prompt.clone()));
        None
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

impl Row {
    fn next(&self, frame: &mut RowFrame) -> Result<(), End> {
        frame.at += 1;
        Ok(())
    }

    fn name(&self, at: usize) -> &str {
        self.steps.get(at).map_or("end", |step| step.name.as_str())
    }

    /// After success: the check that it repaired, where it leads, or the next one.
    fn succeeded(&self, frame: &mut RowFrame, step: &Step) -> Result<(), End> {
        if let Some(target) = step.then {
            let to = match target {
                Target::Step(to) => to,
                Target::End => self.steps.len(),
            };
            let taken = frame.thens.entry(frame.at).or_default();
            if *taken >= step.max_visits {
                return Err(End::stuck(format!(
                    "the way {} -> {} was taken {} times, which is its limit",
                    step.name,
                    self.name(to),
                    step.max_visits
                )));
            }
            *taken += 1;
            frame.at = to;
            return Ok(());
        }
        match step.checks_again {
            Some(check) => self.check_again(frame, step, check, String::new),
            None => self.next(frame),
        }
    }

    fn check_again(
        &self,
        frame: &mut RowFrame,
        step: &Step,
        check: usize,
        why: impl FnOnce() -> String,
    ) -> Result<(), End> {
        let taken = frame.gotos.entry(frame.at).or_default();
        if *taken >= step.max_gotos {
            let why = match why() {
                why if why.is_empty() => format!("{:?} still fails", self.name(check)),
                why => format!("the last time, {why}"),
            };
            return Err(End::stuck(format!(
                "the way {} -> {} was taken {} times; {why}",
                step.name,
                self.name(check),
                step.max_gotos
            )));
        }
        *taken += 1;
        frame.at = check;
        Ok(())
    }

    fn failed(
        &self,
        frame: &mut RowFrame,
        step: &Step,
        escape: Escape,
        why: String,
        stuck: bool,
    ) -> Result<(), End> {
        match escape {
            Escape::Fail => Err(End { reason: why, stuck }),
            Escape::Skip => match step.checks_again {
                Some(check) => self.check_again(frame, step, check, || why),
                None => self.next(frame),
            },
            Escape::Goto(target) => {
                let taken = frame.gotos.entry(frame.at).or_default();
                if *taken >= step.max_gotos {
                    return Err(End::stuck(format!(
                        "the goto {} -> {} was taken {} times; the last time, {why}",
                        step.name,
                        self.name(target),
                        step.max_gotos
                    )));
                }
                *taken += 1;
                frame.at = target;
                Ok(())
            }
        }
    }
}

impl Step {
    /// The end of its tool call.
    fn came(&self, came: &Came) -> Ended {
        let Work::Tool(work) = &self.work else { return Ended::skipped() };
        came.ended(|| work.call.failure("step", &came.result()), true)
    }
}

impl ToolWork {
    /// The parameters with everything filled in.
    fn fill(&self, shape: &Shape, scope: &Scope<'_>) -> Result<Value, String> {
        let spec = tool::find(self.call.tool());
        let is_text = |key: &str| {
            let parameter = spec.and_then(|spec| spec.parameters.iter().find(|p| p.name == key));
            parameter.is_some_and(|parameter| parameter.kind == tool::ParameterKind::Text)
        };
        let mut filled = match shape {
            Shape::Table(fields) => {
                let mut table = serde_json::Map::new();
                for (key, shape) in fields {
                    let value = match shape {
                        Shape::Whole(text, _) if is_text(key) => {
                            scope.text(text).map(Value::String)
                        }
                        shape => fill(shape, scope),
                    };
                    table.insert(key.clone(), value.map_err(|why| format!("{key}: {why}"))?);
                }
                Value::Object(table)
            }
            shape => fill(shape, scope)?,
        };
        if let Some((step, parameter)) = &self.input {
            let result = scope.step(step).unwrap_or_else(result::not_run);
            let text = result["text"].as_str().unwrap_or_default();
            // An answer of a model wraps what is meant in a block.
            let text = if parameter == "diff" { result::block(text).unwrap_or(text) } else { text };
            filled[parameter.as_str()] = json!(text);
        }
        if let Some(spec) = spec {
            tool::check_input(spec, &filled)?;
        }
        Ok(filled)
    }
}

fn fill(shape: &Shape, scope: &Scope<'_>) -> Result<Value, String> {
    match shape {
        Shape::Plain(value) => Ok(value.clone()),
        Shape::Text(text) => scope.text(text).map(Value::String),
        Shape::Whole(_, formula) => scope.value(formula),
        Shape::List(items) => items.iter().map(|item| fill(item, scope)).collect(),
        Shape::Table(fields) => {
            fields.iter().map(|(key, shape)| Ok((key.clone(), fill(shape, scope)?))).collect()
        }
    }
}

impl DriverWork {
    /// Its configuration and its goal, filled in.
    pub(super) fn told(&self, scope: &Scope<'_>) -> Result<(Value, Goal), String> {
        let mut config = self.config.clone();
        if let Some(system) = &self.system {
            let own = scope.text(system).map_err(|why| format!("system_prompt: {why}"))?;
            let page = config["system"].as_str().map(|page| format!("\n\n{page}"));
            config["system"] = json!(format!("{own}{}", page.unwrap_or_default()));
        }
        let prompt = self.prompt.as_ref().map(|prompt| scope.text(prompt)).transpose();
        let mut prompt = prompt.map_err(|why| format!("prompt: {why}"))?;
        if let Some(step) = &self.input {
            let result = scope.step(step).unwrap_or_else(result::not_run);
            let said = result["text"].as_str().unwrap_or_default();
            let before = prompt.get_or_insert_default();
            before.push_str(&format!("\n\nThe output of {step:?}:\n{said}"));
        }
        if let (Some(schema), Some(prompt)) = (&self.schema, &mut prompt) {
            prompt.push_str(&format!(
                "\n\nAnswer with nothing but JSON that fits this JSON Schema:\n{}",
                schema.text()
            ));
        }
        Ok((config, prompt.map_or(Goal::Task, Goal::Own)))
    }
}

impl PersonWork {
    /// What the person sees.
    fn prompt(&self, text: &str) -> String {
        if self.approves {
            format!("{text} (yes / no)")
        } else if self.choices.is_empty() {
            text.to_owned()
        } else {
            format!("{text} ({})", self.choices.join(" / "))
        }
    }

    /// The prompt without what was said about a former answer.
    fn first<'p>(&self, prompt: &'p str) -> &'p str {
        match prompt.split_once('\n') {
            Some((said, rest)) if said.ends_with(" is expected") => rest,
            _ => prompt,
        }
    }

    fn understand(&self, line: &str) -> Result<String, String> {
        let line = line.trim();
        if self.approves {
            return match line.to_lowercase().as_str() {
                "yes" | "y" | "ok" | "approve" | "allow" => Ok("yes".to_owned()),
                "no" | "n" | "deny" | "reject" => Ok("no".to_owned()),
                _ => Err(format!("{line:?} is neither: yes or no is expected")),
            };
        }
        if self.choices.is_empty() {
            return Ok(line.to_owned());
        }
        let chosen = self.choices.iter().find(|choice| choice.eq_ignore_ascii_case(line));
        chosen.cloned().ok_or_else(|| {
            format!("{line:?} is none of them: one of {} is expected", self.choices.join(", "))
        })
    }

    fn ended(&self, step: &Step, answer: String) -> Ended {
        if self.approves && answer == "no" {
            let why = format!("step {:?}: a person said no", step.name);
            return Ended::failed("denied", &answer, why);
        }
        Ended::ok(&answer)
    }
}
