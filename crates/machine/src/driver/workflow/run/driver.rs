//! Steps that other drivers carry out: begun with what is known then, asked as long as they have something to do.

use serde_json::{Value, json};

use super::{Asked, Run};
use crate::driver::workflow::child::{self, Goal, Move, StepChild};
use crate::driver::workflow::definition::*;
use crate::driver::workflow::frame::{Address, Stage};
use crate::driver::workflow::result::{self, Ended};
use crate::driver::workflow::scope::Scope;
use crate::driver::{Wait, agent};
use crate::time::Timestamp;

/// How often a model may be told that its answer does not fit.
const MAX_MISFITS: u32 = 2;

impl Run<'_> {
    pub(super) fn begin_driver(
        &mut self,
        step: &Step,
        work: &DriverWork,
        scope: &Scope<'_>,
        address: &Address,
    ) -> Result<Stage, String> {
        let (mut config, goal) = work.told(scope)?;
        let whom = format!("{:?} {address:?} at {}", self.situation.path, self.now().0);
        agent::mark_for(&work.driver, &mut config, &whom);
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
    pub(super) fn driver(
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
        if self.asked != Some(address) {
            child.not_put();
        }
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
            Move::Waits(Wait::Person { prompt, until, due, .. }) => {
                if let Some(due) = due {
                    self.round.due(due, || format!("step {step:?} goes on"));
                }
                let address = address.clone();
                let asked = Asked { address, prompt, until, number: None };
                self.round.person.get_or_insert(asked);
            }
            Move::Waits(Wait::Until { at, reason }) => self.round.due(at, || reason),
            Move::Waits(Wait::Results { until }) => {
                self.round.busy = true;
                if let Some(until) = until {
                    self.round.due(until, || format!("step {step:?} goes on"));
                }
            }
        }
        // Of one that is still busy then, what is under way has its own time. What is around it ends its time, too: it may wait
        // for a person, who has all the time there is.
        let ends = until.into_iter().chain(self.deadlines.iter().copied()).min();
        if let Some(ends) = ends.filter(|ends| *ends > self.now()) {
            self.round.due(ends, || format!("the time of step {step:?} ends"));
        }
        None
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
        if let (Some(schema), "llm") = (&self.schema, self.driver.as_str()) {
            config["schema"] = schema.value().clone();
        }
        let prompt = self.prompt.as_ref().map(|prompt| scope.text(prompt)).transpose();
        let mut prompt = prompt.map_err(|why| format!("prompt: {why}"))?;
        if let Some(step) = &self.input {
            let said = scope.said(step);
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
