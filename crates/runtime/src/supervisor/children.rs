//! Children that steps of a task begin: taken up or begun for their parent, told what it is told, and told of when they
//! leave. What follows from any of that is decided in the machine.

use journal::JournalError;
use machine::child::ChildReport;
use machine::child::step::ChildEnd;
use machine::id::{EffectId, TaskId};
use machine::input::{Command, Signal};
use machine::state::{Data, Standing};
use machine::task::TaskSpec;

use super::{Supervisor, SupervisorError, delivery};
use crate::perform::Perform;

impl<P: Perform> Supervisor<P> {
    /// Sees to it that the child is driven here. The parent hears when it has left.
    pub(super) fn drive_child(
        &mut self,
        waits: (TaskId, EffectId),
        child: TaskId,
        spec: TaskSpec,
        attended: bool,
    ) {
        if self.hosts.get(&child).is_some() {
            self.awaited.insert(child, waits);
            return;
        }
        let left = match self.journal.task(child.as_str()) {
            Err(JournalError::UnknownTask(_)) => match self.begin(child.clone(), spec, attended) {
                Ok(()) => None,
                Err(error) => Some(ChildEnd::failed(child.clone(), error.to_string())),
            },
            Ok(row) => self.take_up(&child, row.owner, attended),
            Err(error) => Some(ChildEnd::put_down(child.clone(), error.to_string())),
        };
        match left {
            Some(end) => {
                let (parent, effect) = waits;
                let left = Signal::ChildLeft(effect, Box::new(end));
                self.backlog.push(delivery(&parent, left.into()));
            }
            None => drop(self.awaited.insert(child, waits)),
        }
    }

    /// Takes up a child that was begun; how it left, if it is not to be driven.
    fn take_up(&mut self, child: &TaskId, from: u64, attended: bool) -> Option<ChildEnd> {
        let is_ours = from == self.journal.owner();
        if let Some(pid) = (!is_ours).then(|| self.perform.driver(child, from)).flatten() {
            // It is not taken from whoever is at work on it.
            let why = format!("it is driven by process {pid}");
            return Some(ChildEnd::put_down(child.clone(), why));
        }
        let why = match self.resume_from(child, from, attended) {
            Ok(()) => return None,
            // Refused also because it has ended: what is on record says which.
            Err(why) => why.to_string(),
        };
        let put_down = |why: String| Some(ChildEnd::put_down(child.clone(), why));
        let loaded = match self.journal.load(child.as_str()) {
            Ok(loaded) => loaded,
            Err(error) => return put_down(error.to_string()),
        };
        let registry = std::sync::Arc::clone(&self.registry);
        match crate::host::Host::fold(child, &loaded, registry, true, drop) {
            Ok(host) if matches!(host.state.standing(), Standing::Finished { .. }) => {
                Some(host.state.child_end())
            }
            Ok(_) => put_down(why),
            Err(error) => put_down(error.to_string()),
        }
    }

    /// Gives a child a command. One that is driven here takes it with the next batch.
    pub(super) fn tell_child(&mut self, child: TaskId, command: Command) {
        let is_here = self.hosts.get(&child).is_some();
        match command {
            Command::Detach { .. } if is_here => {
                self.awaited.remove(&child);
                // The work is stopped before the record says so.
                self.perform.release(&child);
                self.backlog.push(delivery(&child, command.into()));
            }
            command if is_here => self.backlog.push(delivery(&child, command.into())),
            Command::Cancel { .. } => self.errands.push((child, command)),
            Command::Allot(_) | Command::Relay { .. } => self.tell_at_rest(&child, command),
            // Whoever rests has nothing to be stopped or held.
            _ => {}
        }
    }

    /// Tells a child at rest that it may spend more, before it is taken up, or what was said to its parent. One that cannot be told
    /// now that it may is told the next time that its parent goes on with it.
    fn tell_at_rest(&mut self, child: &TaskId, command: Command) {
        let Ok(row) = self.journal.task(child.as_str()) else { return };
        let is_ours = row.owner == self.journal.owner();
        if is_ours || self.perform.driver(child, row.owner).is_none() {
            let _ = self.command_at_rest_from(child, row.owner, command);
        }
    }

    /// Cancels children of steps that a task left when it ended, as far as they are there and open.
    pub(super) fn cancel_left(
        &mut self,
        parent: &TaskId,
        children: Vec<TaskId>,
    ) -> Result<(), SupervisorError> {
        for child in children {
            let reason = format!("the task that began it has ended ({parent})");
            self.errands.push((child, Command::Cancel { reason }));
        }
        self.run_errands()
    }

    /// Whether a task has ended that began others by its steps. One that cannot be read is taken for going on.
    pub(super) fn is_left_by(&self, parent: &TaskId) -> bool {
        if let Some(host) = self.hosts.get(parent) {
            return host.state.leaves_children();
        }
        let Ok(loaded) = self.journal.load(parent.as_str()) else { return false };
        let registry = std::sync::Arc::clone(&self.registry);
        let folded = crate::host::Host::fold(parent, &loaded, registry, true, drop);
        folded.is_ok_and(|host| host.state.leaves_children())
    }

    /// Gives commands to children that nobody drives here.
    pub(super) fn run_errands(&mut self) -> Result<(), SupervisorError> {
        if self.stalled.is_some() {
            return Ok(());
        }
        for (child, command) in std::mem::take(&mut self.errands) {
            // One that has ended, or has never begun, has nothing to be told.
            if self.journal.task(child.as_str()).is_ok_and(|row| row.open) {
                match self.command_at_rest(&child, command) {
                    // Its list entry may be late: it may have ended all the same.
                    Ok(()) | Err(SupervisorError::Refused(_)) => {}
                    // Whoever takes it up looks whether it is still wanted.
                    Err(SupervisorError::Journal(JournalError::Fenced { .. })) => continue,
                    Err(error) => return Err(error),
                }
            }
            self.report_end(&child)?;
        }
        Ok(())
    }

    /// Tells the task whose step began this one what it has spent, once it has ended and nobody waits for it: otherwise that
    /// would be charged to nobody.
    pub(super) fn report_end(&mut self, child: &TaskId) -> Result<(), SupervisorError> {
        let Some((parent, report)) = self.what_was_spent(child) else { return Ok(()) };
        if report.ended.is_none() {
            return Ok(());
        }
        let report = Command::ChildReport(report);
        if self.hosts.get(&parent).is_some() {
            self.backlog.push(delivery(&parent, report.into()));
            return Ok(());
        }
        let Ok(row) = self.journal.task(parent.as_str()) else { return Ok(()) };
        let is_ours = row.owner == self.journal.owner();
        if !is_ours && self.perform.driver(&parent, row.owner).is_some() {
            return Ok(());
        }
        match self.command_at_rest_from(&parent, row.owner, report) {
            // Whoever takes the parent up looks what its children have spent.
            Ok(()) | Err(SupervisorError::Refused(_)) => Ok(()),
            Err(SupervisorError::Journal(JournalError::Fenced { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What the children that steps of a task began have spent beyond what it knows, for whoever takes it up. The one that it waits
    /// for is taken up with it, and reports itself.
    pub(super) fn unreported(&self, parent: &Data) -> Vec<Command> {
        let awaited = parent.awaited_child().map(|(id, _)| id);
        let open = parent.children.iter().filter(|(_, child)| child.step.is_some());
        let open =
            open.filter(|(id, child)| child.ended.is_none() && Some(*id) != awaited.as_ref());
        let reports = open.filter_map(|(id, child)| {
            let (_, report) = self.what_was_spent(id)?;
            let is_news = report.ended.is_some() || report.charge != child.charged;
            is_news.then_some(Command::ChildReport(report))
        });
        reports.collect()
    }

    /// What a task that a step began has spent so far and how it has ended, with the task around it. Nothing of one that cannot be
    /// read: it may never have begun.
    fn what_was_spent(&self, child: &TaskId) -> Option<(TaskId, ChildReport)> {
        // One that is driven here says so itself when it leaves.
        if self.hosts.get(child).is_some() {
            return None;
        }
        let loaded = self.journal.load(child.as_str()).ok()?;
        let registry = std::sync::Arc::clone(&self.registry);
        let state = crate::host::Host::fold(child, &loaded, registry, true, drop).ok()?.state;
        let (child, charge) = (child.clone(), state.charge());
        let report = ChildReport { child, charge, ended: state.reported_end(), never_began: false };
        Some((state.begun_by()?.clone(), report))
    }
}
