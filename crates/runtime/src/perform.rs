//! The door to the world: starts effects and brings their reports to the inbox. Never decides.

use machine::Effect;
use machine::event::Loss;
use machine::id::{EffectId, TaskId};
use machine::task::Workspace;

/// Performs effects. The real one starts threads and processes; a simulation schedules reports.
pub trait Perform {
    /// Starts an effect and returns at once. Its report comes to the inbox later, exactly once, unless the
    /// effect is cancelled; a report after that is dropped by the machine.
    ///
    /// Timers and cancels never come here: the supervisor keeps the first and calls `cancel` for the second.
    fn start(&mut self, task: &TaskId, effect: Effect);

    /// Stops an effect and everything it started. Harmless for one that has ended.
    fn cancel(&mut self, task: &TaskId, target: EffectId);

    /// A task comes into being here: nothing was done for it before, by anybody.
    fn begun(&mut self, _task: &TaskId) {}

    /// Another process drove the task before, and this one is about to. If the machine was restarted in between, or the
    /// task's folder is gone: how many files of its last checkpoint were lost, and are there again.
    fn taken_up(&mut self, _task: &TaskId) -> Option<(Loss, Result<u32, String>)> {
        None
    }

    /// What was said of a task that was taken up is in the journal, or need not be: until then it is said again.
    fn told_of_loss(&mut self, _task: &TaskId) {}

    /// Why nobody can go on in a task's workspace as things are; none if somebody can.
    fn hinders(&self, _task: &TaskId, _workspace: &Workspace) -> Option<String> {
        None
    }

    /// The living process, other than this one, that drives a task which has this owner in the journal.
    fn driver(&self, _task: &TaskId, _owner: u64) -> Option<u32> {
        None
    }

    /// The task waits for these children of others' processes: whoever of them has ended, or is driven by nobody, is told of
    /// as `ChildrenSeen`. Said anew whenever they are others; none ends it.
    fn mind(&mut self, _task: &TaskId, _children: Vec<TaskId>) {}

    /// Has all effects of a task stop, without waiting for it: before several are released, so that they end together.
    fn stop(&mut self, _task: &TaskId) {}

    /// Stops all effects of a task and frees what it held. Returns when they have ended and the work in its worktree is on
    /// the disk.
    fn release(&mut self, task: &TaskId);

    /// The task has ended, and that is in the journal: what was kept to go on with it is of no use any more.
    fn finished(&mut self, _task: &TaskId) {}
}
