//! Processes: how they open, take their turns, die, and take tasks up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use journal::{Journal as _, JournalError};
use machine::id::TaskId;
use machine::input::Command;
use machine::task::Outcome;
use runtime::inbox::{Delivery, Inbox};
use runtime::supervisor::{Notice, Supervisor, SupervisorError};

use super::{Death, Process, Run, guarded};
use crate::audit::Check;
use crate::journal::SimulatedJournal;
use crate::world::{Happening, Performer, SimulatedClock, brief, lock};

impl Run {
    /// Opens a process; `None` if it died at once or the disk is full.
    pub(super) fn open(&mut self) -> Option<usize> {
        self.made += 1;
        let number = self.made;
        let world = Arc::clone(&self.world);
        let journal = match guarded(|| SimulatedJournal::open(&world)) {
            Ok(Ok(journal)) => journal,
            Ok(Err(JournalError::Full(_))) => return None,
            Ok(Err(error)) => {
                self.give_up(number, &error.into());
                return None;
            }
            Err(death) => {
                self.bury(number, death);
                return None;
            }
        };
        let owner = journal.owner();
        self.note(|| format!("process {number} begins as owner {owner}"));
        let performer = Performer { world: Arc::clone(&world), process: number, owner };
        let inbox = Inbox::default();
        let registry = Arc::clone(&lock(&world).registry);
        let clock = Box::new(SimulatedClock(Arc::clone(&world)));
        let mut supervisor =
            Supervisor::new(Box::new(journal), performer, clock, registry, inbox.clone());
        if self.scenario.observed {
            self.listen(&mut supervisor);
        }
        self.processes.push(Process {
            number,
            owner,
            inbox,
            stops: 0,
            supervisor,
            wake: None,
            compared: BTreeMap::new(),
        });
        Some(self.processes.len() - 1)
    }

    pub(super) fn listen(&self, supervisor: &mut Supervisor<Performer>) {
        let heard = Arc::clone(&self.heard);
        let world = Arc::clone(&self.world);
        supervisor.observe(Box::new(move |notice| match notice {
            Notice::Event(event) => {
                heard.lock().unwrap_or_else(PoisonError::into_inner).push((*event).clone());
            }
            Notice::Lost(task, reason) => {
                let mut world = lock(&world);
                world.tally.fenced += 1;
                world.note(|| format!("{task} is lost: {reason}"));
            }
            Notice::Streamed(..) | Notice::Stalled(_) | Notice::Unstalled | Notice::Room(_) => {}
        }));
    }

    /// A process died, alone or because the power went.
    pub(super) fn bury(&mut self, number: usize, death: Death) {
        self.processes.retain(|process| process.number != number);
        if let Death::Panic(message) = death {
            return self.fail(Check::Sound, format!("process {number} panicked: {message}"));
        }
        // The power takes every process with it.
        let power = !self.random.one_in(3) && (self.processes.is_empty() || self.random.one_in(3));
        {
            let mut world = lock(&self.world);
            world.on_death(number, power);
            for other in self.processes.extract_if(.., |_| power) {
                world.on_death(other.number, power);
            }
        }
        self.hear();
        self.plan_recovery(200);
    }

    /// A process ends with an error. Only a disk that fails is a reason to.
    pub(super) fn give_up(&mut self, number: usize, error: &SupervisorError) {
        if !matches!(error, SupervisorError::Journal(JournalError::Store(_))) {
            self.fail(Check::Sound, format!("process {number} fails: {error}"));
        }
        self.bury(number, Death::Crash);
    }

    pub(super) fn plan_recovery(&mut self, within: u64) {
        if !std::mem::replace(&mut self.recovery_is_due, true) {
            let delay = self.random.millis(0, within);
            lock(&self.world).after(delay, Happening::Recover);
        }
    }

    pub(super) fn wake(&mut self, index: usize, delay: i64) {
        let number = self.processes[index].number;
        let mut world = lock(&self.world);
        let at = world.now + delay;
        if self.processes[index].wake.is_none_or(|(wake, _)| wake > at) {
            self.processes[index].wake = Some(world.after(delay, Happening::Cycle(number)));
        }
    }

    pub(super) fn cycle(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let number = process.number;
        let batch = process.inbox.take(Some(Duration::ZERO), process.stops);
        process.stops = batch.stops;
        let before = process.supervisor.outcomes().len();
        // A full disk is tried again once a second; otherwise nobody waits that long without a timer.
        let stalled = process.supervisor.patience() == Some(Duration::from_secs(1));
        let held = self.held(index);
        let cancelled = self.cancelled_children();
        let commits = {
            let mut world = lock(&self.world);
            world.tally.cycles += 1;
            world.note(|| {
                let brief = |d: &Delivery| format!("{} {}", d.task, brief(&d.input));
                let inputs: Vec<String> = batch.deliveries.iter().map(brief).collect();
                format!("process {number} takes [{}]", inputs.join(", "))
            });
            world.commits
        };
        let ended = guarded(|| self.processes[index].supervisor.cycle(batch));
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return self.give_up(number, &error),
            Err(death) => return self.bury(number, death),
        }
        self.hear();
        self.check_fold(index);
        // Letting go of a task may take two more, and so may what a full disk held back.
        let left = held.difference(&self.held(index)).count()
            + self.processes[index].supervisor.outcomes().len().saturating_sub(before);
        let batches = if stalled { 2 } else { 1 };
        // A child that nobody drives is claimed, told and put down by itself.
        let errands = self.cancelled_children() - cancelled + self.raised_children(index, &held);
        self.check_syncs(index, commits, batches + 2 * left as u64 + 3 * errands);
        self.plan_next(index);
    }

    pub(super) fn plan_next(&mut self, index: usize) {
        let process = &self.processes[index];
        if process.stops > 0 && process.supervisor.is_empty() {
            let number = process.number;
            self.note(|| format!("process {number} ends"));
            self.check_let_go(index);
            self.processes.remove(index);
            lock(&self.world).on_death(number, false);
            return self.plan_recovery(300);
        }
        if let Some(patience) = process.supervisor.patience() {
            let millis = patience.as_millis().min(100_000) as i64;
            self.wake(index, millis);
        }
    }

    /// How many tasks that steps of others began were cancelled.
    fn cancelled_children(&self) -> u64 {
        let world = lock(&self.world);
        let tasks = world.audit.tasks.values();
        let cancelled = tasks.filter(|task| {
            task.state.data().spec.dispatch.is_some() && task.outcome() == Some(Outcome::Cancelled)
        });
        cancelled.count() as u64
    }

    /// How many tasks that steps of its tasks began this process did not drive and may have told that they may spend more.
    fn raised_children(&self, index: usize, driven: &BTreeSet<TaskId>) -> u64 {
        let supervisor = &self.processes[index].supervisor;
        let world = lock(&self.world);
        let parents = world.audit.tasks.iter().filter(|(id, _)| supervisor.host(id).is_some());
        let children = parents.flat_map(|(_, task)| &task.state.data().children);
        let raised = children.filter(|(id, child)| child.raised && !driven.contains(*id));
        raised.count() as u64
    }

    pub(super) fn held(&self, index: usize) -> BTreeSet<TaskId> {
        let supervisor = &self.processes[index].supervisor;
        let world = lock(&self.world);
        let ids = world.audit.tasks.keys();
        ids.filter(|id| supervisor.host(id).is_some()).cloned().collect()
    }

    /// Who drives a task: the process that has it and that the journal says owns it.
    pub(super) fn holder(&self, task: &TaskId) -> Option<usize> {
        let owner = lock(&self.world).audit.tasks.get(task).map(|task| task.owner);
        self.processes.iter().position(|process| {
            process.supervisor.host(task).is_some()
                && owner.is_none_or(|owner| owner == process.owner)
        })
    }

    pub(super) fn resume(&mut self, index: usize, task: &TaskId) {
        let number = self.processes[index].number;
        let attended = self.scenario.tasks.iter().any(|plan| plan.id == *task && plan.attended);
        self.note(|| format!("process {number} takes up {task}"));
        // Taking up a paused task ends the pause.
        self.people.sends(task, &Command::Resume);
        let resumed = guarded(|| self.processes[index].supervisor.resume(task, attended));
        let finished =
            lock(&self.world).audit.tasks.get(task).is_some_and(|task| task.outcome().is_some());
        match resumed {
            Ok(Ok(())) if finished => {
                self.fail(Check::NeverRevived, format!("{task} had ended and was taken up"))
            }
            Ok(Ok(())) => {
                self.processes[index].compared.remove(task);
                self.check_fold(index);
                self.wake(index, 0);
            }
            Ok(Err(SupervisorError::Refused(_))) => {}
            Ok(Err(SupervisorError::Journal(JournalError::Full(_)))) => self.plan_recovery(100),
            Ok(Err(error)) => self.give_up(number, &error),
            Err(death) => self.bury(number, death),
        }
    }

    /// Begins what is not in the journal and takes up what nobody drives and nobody paused.
    pub(super) fn recover(&mut self) {
        self.recovery_is_due = false;
        let Some(index) = self.any_process() else { return self.plan_recovery(100) };
        let number = self.processes[index].number;
        for plan in self.scenario.tasks.clone() {
            let Some(index) = self.processes.iter().position(|process| process.number == number)
            else {
                return;
            };
            if self.processes[index].supervisor.host(&plan.id).is_some()
                || self.holder(&plan.id).is_some()
            {
                continue;
            }
            let known = {
                let world = lock(&self.world);
                world
                    .audit
                    .tasks
                    .get(&plan.id)
                    .map(|task| (task.outcome().is_some(), task.state.data().paused))
            };
            match known {
                None => {
                    self.note(|| format!("process {number} begins {}", plan.id));
                    let begun = self.processes[index].supervisor.begin(
                        plan.id.clone(),
                        plan.spec.clone(),
                        plan.attended,
                    );
                    if let Err(error) = begun {
                        self.fail(Check::Sound, format!("{} cannot begin: {error}", plan.id));
                    }
                    self.wake(index, 0);
                }
                Some((_, true)) => {}
                Some((true, _)) if !self.random.one_in(4) => {}
                Some(_) => self.resume(index, &plan.id),
            }
        }
    }

    /// A second process takes a task whose owner lives.
    pub(super) fn take_over(&mut self) {
        let task = self.random.pick(&self.scenario.tasks).id.clone();
        let Some(holder) = self.holder(&task) else { return };
        let open =
            lock(&self.world).audit.tasks.get(&task).is_some_and(|task| task.outcome().is_none());
        if !open {
            return;
        }
        let first = self.processes[holder].number;
        self.note(|| format!("{task} is taken from process {first}"));
        if let Some(index) = self.open() {
            self.resume(index, &task);
        }
    }

    pub(super) fn stop(&mut self) {
        if self.processes.is_empty() {
            return;
        }
        let index = self.random.below(self.processes.len() as u64) as usize;
        let number = self.processes[index].number;
        self.note(|| format!("process {number} is asked to stop"));
        self.processes[index].inbox.stop();
        if self.random.one_in(3) {
            self.processes[index].inbox.stop();
        }
        self.wake(index, 0);
    }
}
