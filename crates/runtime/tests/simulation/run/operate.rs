//! Operators: whims first, then whatever it takes to bring every task to its end.

use std::sync::mpsc::sync_channel;

use journal::JournalError;
use machine::id::TaskId;
use machine::input::{Command, Input};
use machine::state::Standing;
use runtime::supervisor::SupervisorError;

use super::{LAST_ROUNDS, Run, guarded};
use crate::audit::Check;
use crate::bug::Bug;
use crate::people::key_of;
use crate::world::{Happening, lock};

impl Run {
    pub(super) fn person(&mut self) {
        let children = self.children();
        let task = if !children.is_empty() && self.random.one_in(3) {
            self.random.pick(&children).clone()
        } else {
            self.random.pick(&self.scenario.tasks).id.clone()
        };
        let command = {
            let world = lock(&self.world);
            let Some(found) = world.audit.tasks.get(&task) else { return };
            if found.outcome().is_none() && self.random.one_in(4) {
                None
            } else {
                Some(self.people.whim(&found.state, &mut self.random))
            }
        };
        match command {
            None => self.take_up(&task),
            Some(command) => self.send(&task, command),
        }
    }

    /// Sends a command to whoever drives the task, or to the journal if nobody does.
    pub(super) fn send(&mut self, task: &TaskId, command: Command) {
        let mut index = self.holder(task);
        if index.is_some() && self.random.one_in(8) {
            // An operator who talks to the wrong process is told so.
            index =
                self.processes.iter().position(|process| process.supervisor.host(task).is_some());
        }
        match index {
            Some(index) => self.send_live(index, task, command),
            None => self.send_at_rest(task, command),
        }
    }

    pub(super) fn send_live(&mut self, index: usize, task: &TaskId, command: Command) {
        self.note(|| format!("operator to {task}: {}", key_of(&command)));
        self.people.sends(task, &command);
        let bug = lock(&self.world).bug;
        let (reply, answer) = sync_channel(1);
        if bug == Some(Bug::CommandIsAcknowledgedOnArrival) {
            let _ = reply.try_send(Ok(()));
        }
        let process = &self.processes[index];
        let input = Input::Command(command.clone());
        if bug == Some(Bug::CommandIsHandedOnTwice) {
            let _ = process.inbox.command(task.clone(), input.clone(), None);
        }
        let _ = process.inbox.command(task.clone(), input, Some(reply));
        self.people.awaits(task, command, answer);
        let delay = self.random.millis(0, 6);
        self.wake(index, delay);
    }

    pub(super) fn send_at_rest(&mut self, task: &TaskId, command: Command) {
        let Some(index) = self.any_process() else { return };
        self.note(|| format!("operator to {task}, which nobody drives: {}", key_of(&command)));
        self.people.sends(task, &command);
        let number = self.processes[index].number;
        let sent =
            guarded(|| self.processes[index].supervisor.command_at_rest(task, command.clone()));
        match sent {
            Ok(Ok(())) => {
                let mut world = lock(&self.world);
                world.tally.acknowledged += 1;
                let kept = self.people.acknowledge(task, command, &world.audit);
                world.check(kept);
            }
            Ok(Err(
                SupervisorError::Refused(_)
                | SupervisorError::Journal(JournalError::Full(_) | JournalError::Fenced { .. }),
            )) => self.people.refuse(task, &command),
            Ok(Err(error)) => return self.give_up(number, &error),
            Err(death) => return self.bury(number, death),
        }
        self.hear();
        self.wake(index, 0);
    }

    /// A process that lives, or a new one.
    pub(super) fn any_process(&mut self) -> Option<usize> {
        let live: Vec<usize> =
            (0..self.processes.len()).filter(|index| self.processes[*index].stops == 0).collect();
        if live.is_empty() || (live.len() < 3 && self.random.one_in(4)) {
            return self.open();
        }
        Some(*self.random.pick(&live))
    }

    /// Somebody resumes a task that nobody drives; one that has ended is refused.
    pub(super) fn take_up(&mut self, task: &TaskId) {
        if self.holder(task).is_none()
            && let Some(index) = self.any_process()
        {
            self.resume(index, task);
        }
    }

    /// The operators answer everything, so that every task can end.
    pub(super) fn finish(&mut self) {
        self.last_rounds += 1;
        {
            let mut world = lock(&self.world);
            world.finishing = true;
            world.disk.full = false;
            world.after(100, Happening::Finish);
        }
        if self.last_rounds > LAST_ROUNDS {
            let open: Vec<String> = {
                let world = lock(&self.world);
                let tasks = world.audit.tasks.iter().filter(|(_, task)| task.outcome().is_none());
                tasks
                    .map(|(id, task)| {
                        format!("{id} {:?} {:?}", task.state.standing(), task.state.data().phase)
                    })
                    .collect()
            };
            return self.fail(Check::ComesToAnEnd, format!("still open: {}", open.join("; ")));
        }
        for child in self.children() {
            self.answer(&child);
        }
        for plan in self.scenario.tasks.clone() {
            self.settle(&plan.id);
        }
    }

    /// The tasks that steps of others began.
    fn children(&self) -> Vec<TaskId> {
        let world = lock(&self.world);
        let all = world.audit.tasks.keys();
        all.filter(|id| !self.scenario.tasks.iter().any(|plan| plan.id == **id)).cloned().collect()
    }

    pub(super) fn settle(&mut self, task: &TaskId) {
        let known = lock(&self.world).audit.tasks.get(task).map(|found| found.outcome().is_some());
        match known {
            None => self.plan_recovery(0),
            Some(true) => {}
            Some(false) => {
                self.answer(task);
                self.take_up(task);
            }
        }
    }

    /// Answers everything that a task asks. Whoever waits for it takes it up.
    fn answer(&mut self, task: &TaskId) {
        let commands = {
            let world = lock(&self.world);
            let Some(found) = world.audit.tasks.get(task) else { return };
            if found.outcome().is_some() {
                return;
            }
            let mut commands: Vec<Command> = found
                .state
                .asks()
                .iter()
                .map(|ask| self.people.reply(ask, &mut self.random))
                .collect();
            if matches!(found.state.standing(), Standing::Paused) || found.state.data().paused {
                commands.push(Command::Resume);
            }
            // What hangs for good has to be interrupted.
            if self.last_rounds.is_multiple_of(10) && world.hangs(task, &found.outstanding()) {
                commands.push(Command::Interrupt { note: format!("hangs {}", self.last_rounds) });
            }
            commands
        };
        for command in commands {
            self.send(task, command);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let world = lock(&self.world);
        self.scenario.tasks.iter().all(|plan| {
            world.audit.tasks.get(&plan.id).is_some_and(|task| task.outcome().is_some())
        })
    }
}
