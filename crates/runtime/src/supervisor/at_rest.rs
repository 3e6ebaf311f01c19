//! Tasks that no process drives: told something, or given an earlier state of their workspace, and left at rest.

use std::sync::{Arc, Mutex, PoisonError};

use journal::JournalError;
use machine::event::EventKind;
use machine::id::TaskId;
use machine::input::{Command, Input, Signal};
use machine::state::Pending;
use machine::verdict::Checkpoint;

use super::{Notice, Supervisor, SupervisorError, delivery, detach};
use crate::host::Host;
use crate::inbox::{Delivery, Refusal};
use crate::perform::Perform;

impl<P: Perform> Supervisor<P> {
    /// Gives a command to a task that no process drives: journaled, taken note of, nothing performed.
    pub fn command_at_rest(
        &mut self,
        id: &TaskId,
        command: Command,
    ) -> Result<(), SupervisorError> {
        self.at_rest(id, None, command)
    }

    /// The same for one that was seen in the hands of this owner, which does not drive it. If a process takes it up
    /// meanwhile, that goes on undisturbed, and the error is [`JournalError::Fenced`].
    pub fn command_at_rest_from(
        &mut self,
        id: &TaskId,
        from: u64,
        command: Command,
    ) -> Result<(), SupervisorError> {
        self.at_rest(id, Some(from), command)
    }

    /// Tells a task at rest, seen in the hands of this owner, that a damaged journal lost records of a task that a step of
    /// it began.
    pub fn tell_of_lost_records(
        &mut self,
        id: &TaskId,
        from: u64,
        child: TaskId,
        lost: u64,
    ) -> Result<(), SupervisorError> {
        self.at_rest(id, Some(from), Signal::RecordsLost { lost, child: Some(child) })
    }

    fn at_rest(
        &mut self,
        id: &TaskId,
        from: Option<u64>,
        input: impl Into<Input>,
    ) -> Result<(), SupervisorError> {
        let mut inputs = self.take_over(id, from)?;
        inputs.push(input.into());
        // Of a task that has ended already; one that ends now tells them itself.
        let left = self.hosts.get(id).map(|host| host.state.left_behind()).unwrap_or_default();
        let (sender, answer) = std::sync::mpsc::sync_channel(1);
        let mut deliveries: Vec<Delivery> =
            inputs.into_iter().map(|input| delivery(id, input)).collect();
        if let Some(last) = deliveries.last_mut() {
            last.reply = Some(sender);
        }
        self.turn(deliveries)?;
        let is_gone = self.hosts.remove(id).is_none();
        self.run_errands()?;
        self.cancel_left(id, left)?;
        // On a full disk the command is refused, so it must not be tried again behind the sender's back.
        self.backlog.retain(|delivery| delivery.task != *id);
        if let Some(group) = &mut self.held {
            group.forget(id);
        }
        if self.held.take_if(|group| group.items.is_empty()).is_some() {
            self.stalled = None;
        }
        match answer.try_recv() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Refusal::Rejected(reason))) => Err(SupervisorError::Refused(reason)),
            // Somebody took it up in between.
            Ok(Err(Refusal::NotHere)) | Err(_) if is_gone => {
                let (task, owner) = (id.to_string(), self.journal.owner());
                let by = self.journal.task(id.as_str())?.owner;
                Err(JournalError::Fenced { task, owner, by }.into())
            }
            Ok(Err(Refusal::NotHere)) | Err(_) => Err(SupervisorError::Refused(
                "the journal cannot be written at the moment".to_owned(),
            )),
        }
    }

    /// Gives the workspace of a task that no process drives an earlier state: journaled, then performed, and nothing
    /// else of the task goes on. Returns once it is done, with what it was before; a crash leaves the rest to whoever
    /// takes the task up. If a process takes it up that was seen in the hands of `from`, that goes on undisturbed, and
    /// the error is [`JournalError::Fenced`].
    pub fn roll_back_at_rest(
        &mut self,
        id: &TaskId,
        from: u64,
        to: &str,
    ) -> Result<Checkpoint, SupervisorError> {
        self.inbox.take_up(id);
        let done = self.roll_back(id, from, to);
        self.inbox.let_go(id);
        done
    }

    fn roll_back(
        &mut self,
        id: &TaskId,
        from: u64,
        to: &str,
    ) -> Result<Checkpoint, SupervisorError> {
        self.command_at_rest_from(id, from, Command::RollBack { to: to.to_owned() })?;
        let mut inputs = self.take_over(id, Some(self.journal.owner()))?;
        inputs.push(Command::Attach { owner: self.journal.owner(), attended: false }.into());
        inputs.push(Command::Drain.into());
        let ended = Arc::new(Mutex::new(None));
        let heard = Arc::clone(&ended);
        self.observe(Box::new(move |notice| {
            let Notice::Event(event) = notice else { return };
            let end = match &event.kind {
                EventKind::RolledBack { undo, .. } => Ok(undo.clone()),
                EventKind::RollBackFailed { reason, .. } => Err(reason.clone()),
                _ => return,
            };
            *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        }));
        self.turn(inputs.into_iter().map(|input| delivery(id, input)).collect())?;
        let is_restoring = |host: &Host| {
            host.state.data().pending.values().any(|pending| *pending == Pending::Restore)
        };
        while self.held.is_some() || self.hosts.get(id).is_some_and(is_restoring) {
            let batch = self.inbox.take(self.patience(), self.stops);
            self.cycle(batch)?;
        }
        if self.hosts.get(id).is_some() {
            self.perform.release(id);
            self.turn(vec![delivery(id, detach("the workspace went back"))])?;
        }
        let ended = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ended {
            Some(Ok(name)) => Ok(Checkpoint { name, tree: String::new() }),
            Some(Err(reason)) => Err(SupervisorError::Refused(reason)),
            None => Err(SupervisorError::Refused(format!(
                "it was stopped before it was done: drivetrain resume {id} brings it to its end"
            ))),
        }
    }
}
