//! What tasks that were dispatched owe to the task that dispatched them.

use journal::Journal;
use machine::Command;
use machine::child::{Charge, ChildReport};
use machine::id::TaskId;
use machine::state::Standing;

use crate::error::CommandError;
use crate::locate::{Records, Task};

/// Charges what a task has spent to its parent, if it has one. Whatever goes wrong is for the next time: what it may
/// spend stays set aside until then.
pub(crate) fn report(id: &TaskId) -> Result<(), CommandError> {
    let records = Records::open()?;
    let row = records.journal.task(id.as_str())?;
    let task = records.glance(&row)?;
    let Some(parent) = parent(&task) else { return Ok(()) };
    let data = task.state.data();
    let ended = match task.state.standing() {
        Standing::Finished { outcome, .. } => Some(outcome),
        _ => None,
    };
    let report = ChildReport { child: id.clone(), charge: Charge::of(&data.spend), ended };
    let row = records.journal.task(parent.as_str())?;
    let known = records.glance(&row)?;
    let known = known.state.data().children.get(id);
    if known.is_some_and(|known| known.charged == report.charge && known.ended == report.ended) {
        return Ok(());
    }
    records.give(&parent, Command::ChildReport(report)).map(drop)
}

/// The task that a task is counted to.
pub(crate) fn parent(task: &Task) -> Option<TaskId> {
    task.state.data().spec.dispatch.as_ref()?.parent.clone()
}
