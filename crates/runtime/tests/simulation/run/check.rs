//! What must hold after every step, and at the end.

use std::sync::PoisonError;

use machine::task::Outcome;

use super::Run;
use crate::audit::{Check, Violation};
use crate::scenario;
use crate::world::{World, lock};

/// Jumps of a clock that is only set right go unnoticed; a scenario has no more of them.
const SET_RIGHT: u64 = 16_000;

impl Run {
    /// Operators hear their answers and observers their events: all of it must be durable.
    pub(super) fn hear(&mut self) {
        let mut world = lock(&self.world);
        match self.people.hear(&world.audit) {
            Ok(heard) => world.tally.acknowledged += heard,
            Err(violation) => world.check(Err(violation)),
        }
        let heard = std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        for event in heard {
            let kept = world
                .audit
                .tasks
                .get(&event.task)
                .and_then(|task| task.events.get(event.seq as usize - 1));
            if kept != Some(&event) {
                let what = format!(
                    "{} was shown event {} ({:?}), which is not on disk",
                    event.task, event.seq, event.kind
                );
                world.fail(Check::NothingLost, what);
            }
        }
    }

    /// The live state of every task that the process owns is the fold of its durable records.
    pub(super) fn check_fold(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let mut world = lock(&self.world);
        let mut wrong = None;
        for (id, task) in &world.audit.tasks {
            let Some(host) = process.supervisor.host(id) else { continue };
            if host.numbered != host.last {
                // Stepped, but kept back until the disk has space: nothing of it is out yet.
                continue;
            }
            let compared = process.compared.insert(id.clone(), host.last);
            let unchanged = compared == Some(host.last) && host.last == task.records;
            if task.owner != process.owner || unchanged {
                continue;
            }
            if host.last != task.records || host.state.save() != task.saved() {
                wrong = Some(format!(
                    "process {} has {id} after {} records, the disk says {} records",
                    process.number, host.last, task.records
                ));
                break;
            }
        }
        if let Some(what) = wrong {
            world.fail(Check::Fold, what);
        }
    }

    /// A process that let go of a task, or lost it, has stopped all work for it.
    pub(super) fn check_held(&self, number: usize, attempt: usize) {
        let Some(process) = self.processes.iter().find(|process| process.number == number) else {
            return;
        };
        let mut world = lock(&self.world);
        let Some(task) = world.attempts[attempt].goes_on_for() else { return };
        if process.supervisor.host(task).is_none() {
            let what = format!("process {number} no longer has {task} but works for it");
            world.fail(Check::StoppedIsStopped, what);
        }
    }

    /// A process that ends in order has said so in the records of all its tasks.
    pub(super) fn check_let_go(&self, index: usize) {
        let process = &self.processes[index];
        let mut world = lock(&self.world);
        let left = world.audit.tasks.iter().find(|(_, task)| {
            let attachment = task.state.data().attachment.as_ref();
            attachment.is_some_and(|attachment| attachment.owner == process.owner)
                && task.owner == process.owner
        });
        if let Some((id, _)) = left {
            let what = format!("process {} ended and left {id} as if it still ran", process.number);
            world.fail(Check::Sound, what);
        }
    }

    /// A batch is one commit, however many tasks it is about.
    pub(super) fn check_syncs(&self, index: usize, before: u64, allowed: u64) {
        let process = &self.processes[index];
        let mut world = lock(&self.world);
        let commits = world.commits - before;
        if commits > allowed {
            let what = format!(
                "process {} made {commits} commits where {allowed} are enough",
                process.number
            );
            world.fail(Check::OneSync, what);
        }
    }

    pub(super) fn check_end(&mut self) -> Result<(), Violation> {
        let world = lock(&self.world);
        self.people.check(&world.audit)?;
        for plan in &self.scenario.tasks {
            let Some(task) = world.audit.tasks.get(&plan.id) else { continue };
            let charged = task.state.data().spend.millis;
            if charged > world.now.unsigned_abs() + SET_RIGHT {
                let what = format!("{} is charged {charged} ms of {}", plan.id, world.now);
                return Err(Violation { check: Check::TimeWorked, what });
            }
            let Some(outcome) = task.outcome() else { continue };
            self.check_outcome(plan, outcome, &world)?;
            for event in &task.events {
                if let machine::EventKind::ToolEnded { call, tool, result, .. } = &event.kind
                    && result.text.contains("by effect")
                    && world.times(&plan.id, *call) == 0
                {
                    let what = format!("{tool} {call} of {} has a result but never ran", plan.id);
                    return Err(Violation { check: Check::TrueResult, what });
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_outcome(
        &self,
        plan: &scenario::Plan,
        outcome: Outcome,
        world: &World,
    ) -> Result<(), Violation> {
        let sent = |word: &str| self.people.has_sent(&plan.id, |key| key.contains(word));
        let script = &plan.spec.driver.config;
        let plain = plan.spec.driver.name == "scripted" && !sent("\"hand_over\"");
        let right = match outcome {
            Outcome::Verified => {
                !plan.spec.acceptance.is_empty() && world.passed.contains_key(&plan.id)
            }
            Outcome::Completed => plan.spec.acceptance.is_empty(),
            Outcome::Cancelled => sent("\"cancel\""),
            Outcome::BudgetExhausted => {
                plan.spec.budget != machine::policy::budget::Budget::default()
            }
            Outcome::Failed if plain => {
                script["end"] == "give_up" || !plan.spec.acceptance.is_empty()
            }
            Outcome::Stuck if plain => !plan.spec.acceptance.is_empty(),
            Outcome::Failed | Outcome::Stuck => true,
            Outcome::Waiting => false,
        };
        if right {
            return Ok(());
        }
        let what = format!("{} ended as {}, which cannot be", plan.id, outcome.word());
        Err(Violation { check: Check::RightOutcome, what })
    }
}
