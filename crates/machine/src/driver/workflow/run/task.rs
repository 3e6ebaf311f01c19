//! Steps that have a task of their own done: asked for with what is known when the step begins, and waited for.

use serde_json::json;

use super::{Run, given};
use crate::child::step::TaskOrder;
use crate::driver::Consultation;
use crate::driver::workflow::definition::*;
use crate::driver::workflow::frame::{Address, Stage};
use crate::driver::workflow::result::Ended;
use crate::driver::workflow::scope::Scope;
use crate::task::Outcome;
use crate::time::Timestamp;

impl Run<'_> {
    /// Writes the order. A step that is tried again writes another one, which is another task. Its number is what this
    /// workflow knows to be free; the loop knows better.
    pub(super) fn begin_task(
        &mut self,
        step: &Step,
        work: &TaskWork,
        until: Option<Timestamp>,
        scope: &Scope<'_>,
    ) -> Result<Stage, String> {
        let goal = scope.text(&work.goal).map_err(|why| format!("goal: {why}"))?;
        if goal.trim().is_empty() {
            return Err("the goal of its task is empty".to_owned());
        }
        let mut driver = work.driver.clone();
        if !work.takes.is_empty() {
            driver.config["given"] = given(&work.takes, &work.given, scope)?;
        }
        let mut budget = work.budget.clone();
        let left = until.map(|until| until.since(self.situation.now));
        budget.max_time = self.time_left(budget.max_time).into_iter().chain(left).min();
        *self.tasks += 1;
        let number = *self.tasks;
        let (step, acceptance) = (step.name.clone(), work.acceptance.clone());
        let order = TaskOrder { number, first: true, step, goal, driver, budget, acceptance };
        Ok(Stage::Task(Box::new(order)))
    }

    /// How it stands with the task: it ended, or it is waited for.
    pub(super) fn task(
        &mut self,
        step: &Step,
        order: &mut TaskOrder,
        until: Option<Timestamp>,
        address: &Address,
    ) -> Option<Ended> {
        if let Some((_, number)) = self.child_began.take_if(|(whose, _)| whose == address) {
            (order.number, order.first) = (number, false);
        }
        let Some((_, end)) = self.child_end.take_if(|(whose, _)| whose == address) else {
            let request = Consultation::Task(Box::new(order.clone()));
            self.round.question.get_or_insert((address.clone(), request));
            return None;
        };
        let outcome = end.ended?;
        let mut ended = if order.is_met(outcome) {
            Ended::ok(&end.text)
        } else {
            let is_late = until.is_some_and(|until| until <= self.now()) || self.is_late();
            let status = if is_late { "timed_out" } else { "failed" };
            let said = match (outcome, end.text.as_str()) {
                (Outcome::Failed, said) => said.to_owned(),
                (other, "") => other.word().to_owned(),
                (other, said) => format!("{}: {said}", other.word()),
            };
            let why = format!("step {:?} (task {}) failed: {said}", step.name, end.child);
            Ended::failed(status, &end.text, why)
        };
        ended.set("outcome", json!(outcome.word()));
        ended.set("id", json!(end.child));
        if let Some(outputs) = end.outputs {
            ended.set("outputs", outputs);
        }
        Some(ended)
    }
}
