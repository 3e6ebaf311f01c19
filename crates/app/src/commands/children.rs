//! What tasks that were dispatched owe to the task that dispatched them.

use std::collections::BTreeSet;

use journal::Journal;
use machine::Command;
use machine::child::{Charge, ChildReport};
use machine::id::TaskId;
use runtime::dispatching::Dispatching;
use runtime::home::Home;
use serde_json::json;

use crate::error::CommandError;
use crate::locate::{Records, Task};
use crate::output;

/// Charges what a task has spent to its parent, if it has one. Whatever goes wrong is for the next time: what it may
/// spend stays set aside until then.
pub(crate) fn report(id: &TaskId) -> Result<(), CommandError> {
    let records = Records::open()?;
    let row = records.journal.task(id.as_str())?;
    let task = records.glance(&row)?;
    let Some(parent) = parent(&task) else { return Ok(()) };
    let (ended, charge) = (task.state.reported_end(), task.state.charge());
    let report = ChildReport { child: id.clone(), charge, ended, never_began: false };
    let row = records.journal.task(parent.as_str())?;
    let above = records.glance(&row)?;
    let known = above.state.data().children.get(id);
    if known.is_some_and(|known| known.charged == report.charge && known.ended == report.ended) {
        return Ok(());
    }
    records.give(&parent, Command::ChildReport(report))?;
    // One that has ended was charged with what its children might still spend, and now there is less of that.
    if above.state.reported_end().is_some() { self::report(&parent) } else { Ok(()) }
}

/// The same at the end of a process that drove the task. How the task ended is one thing, and that its parent cannot be told
/// now another: it is said, and changes no exit code.
pub(crate) fn report_end(id: &TaskId, json: bool) {
    let Err(error) = report(id) else { return };
    let text = error.text();
    let why = text.trim_start_matches("error: ");
    let said = format!(
        "the task that dispatched {id} could not be told, and will be when that is looked at: {why}"
    );
    let notice = json!({ "v": 1, "notice": said }).to_string();
    output::error(if json { &notice } else { &said });
}

/// Gives back what was set aside for children that never began: whoever dispatched them was killed before they were in
/// the journal.
pub(crate) fn give_back(home: &Home, parent: &TaskId) -> Result<(), CommandError> {
    let _lock = dispatching(home, &scope(parent))?;
    give_back_under_lock(parent)
}

/// The same for somebody who dispatches for this parent, and so knows that nobody else is about to.
pub(crate) fn give_back_under_lock(parent: &TaskId) -> Result<(), CommandError> {
    let records = Records::open()?;
    let task = records.glance(&records.journal.task(parent.as_str())?)?;
    // What a step began is looked after by whoever drives the parent.
    let open = task.state.data().children.iter();
    let open = open.filter(|(_, child)| child.ended.is_none() && child.step.is_none());
    let known: BTreeSet<String> =
        records.journal.list(usize::MAX, None)?.into_iter().map(|row| row.id).collect();
    let lost = open.map(|(id, _)| id.clone()).filter(|id| !known.contains(id.as_str()));
    for child in lost.collect::<Vec<_>>() {
        never_began(parent, child)?;
    }
    Ok(())
}

/// Tells a parent that a child that it set aside for is not there and will not be.
pub(crate) fn never_began(parent: &TaskId, child: TaskId) -> Result<(), CommandError> {
    let report = ChildReport { child, charge: Charge::default(), ended: None, never_began: true };
    Records::open()?.give(parent, Command::ChildReport(report)).map(drop)
}

/// Waits until nobody else dispatches from there.
pub(crate) fn dispatching(home: &Home, scope: &str) -> Result<Dispatching, CommandError> {
    Dispatching::begin(home, scope).map_err(|error| {
        let folder = home.root().join("dispatched");
        CommandError::environment(format!("cannot lock {}: {error}", folder.display()))
    })
}

/// From where the children of a task are dispatched.
pub(crate) fn scope(parent: &TaskId) -> String {
    format!("task {parent}")
}

/// The task that a task is counted to.
pub(crate) fn parent(task: &Task) -> Option<TaskId> {
    task.state.data().spec.dispatch.as_ref()?.parent.clone()
}
