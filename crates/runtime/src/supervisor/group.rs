//! What one commit holds: inputs numbered and encoded, within what a record can hold.

use journal::{Entry, MAX_BODY};
use machine::Input;
use machine::id::TaskId;
use machine::input::{Command, MACHINE_VERSION, Signal};
use machine::task::TaskSpec;
use machine::time::Timestamp;

use super::{SupervisorError, delivery};
use crate::host;
use crate::inbox::{Delivery, Refusal};
use crate::perform::Perform;

/// A batch on its way to the disk: one commit.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) time: Timestamp,
    pub(super) items: Vec<Item>,
    pub(super) snapshots: Vec<(TaskId, u64, Vec<u8>)>,
}

/// One input of a group, numbered and encoded.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) delivery: Delivery,
    pub(super) slot: usize,
    pub(super) n: u64,
    pub(super) body: Vec<u8>,
}

impl Group {
    /// Takes everything of a task out of it.
    pub(super) fn forget(&mut self, task: &TaskId) {
        self.items.retain(|item| item.delivery.task != *task);
        self.snapshots.retain(|(of, _, _)| of != task);
    }

    /// What the journal writes, in order: a task is made before its first record.
    pub(super) fn entries(&self) -> Vec<Entry<'_>> {
        let mut entries = Vec::with_capacity(self.items.len() + self.snapshots.len() + 1);
        let time = self.time.0;
        for item in &self.items {
            let task = item.delivery.task.as_str();
            if item.n == 1 {
                entries.push(Entry::Create { task, time });
            }
            let (n, version, body) = (item.n, MACHINE_VERSION, item.body.as_slice());
            entries.push(Entry::Record { task, n, time, version, body });
        }
        for (task, n, body) in &self.snapshots {
            entries.push(Entry::Snapshot { task: task.as_str(), n: *n, body });
        }
        entries
    }
}

/// The first input of a task, if a record can hold it.
pub(super) fn start(id: &TaskId, spec: TaskSpec) -> Result<Delivery, SupervisorError> {
    let input = Input::from(Command::Start(Box::new(spec)));
    let body = host::encode(&input);
    if body.len() > MAX_BODY {
        let why = input.in_brief(body.len(), MAX_BODY).err().unwrap_or_default();
        return Err(SupervisorError::Refused(why));
    }
    Ok(Delivery { body: Some(body), ..delivery(id, input) })
}

/// An input as the journal keeps it; in brief if no record can hold it, and none if it can only be refused.
pub(super) fn encode<P: Perform>(delivery: &mut Delivery, perform: &mut P) -> Option<Vec<u8>> {
    let body = delivery.body.take().unwrap_or_else(|| host::encode(&delivery.input));
    if body.len() <= MAX_BODY {
        return Some(body);
    }
    match delivery.input.in_brief(body.len(), MAX_BODY) {
        Ok(brief) => {
            if let Input::Signal(Signal::AgentEnded(turn, _)) = &brief {
                // It may be at work, and nobody would hear of it any more.
                perform.cancel(&delivery.task, *turn);
            }
            delivery.input = brief;
            Some(host::encode(&delivery.input))
        }
        Err(why) => {
            if let Some(reply) = delivery.reply.take() {
                let _ = reply.try_send(Err(Refusal::Rejected(why)));
            }
            None
        }
    }
}
