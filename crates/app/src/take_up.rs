//! Takes up tasks that nobody drives. Of several processes that do so at once one does; the others learn which.

use journal::JournalError;
use machine::Command;
use machine::id::TaskId;
use runtime::control;
use runtime::station::Station;
use runtime::supervisor::SupervisorError;

use crate::error::{CommandError, Kind};

/// How often a task may go from one process to the next just when it is reached for.
pub(crate) const TAKEN_UP: usize = 10;

/// Why a task was left where it is.
pub(crate) enum Untaken {
    /// This process drives it already.
    Driven(TaskId, u32),
    Failed(CommandError),
}

impl From<SupervisorError> for Untaken {
    fn from(error: SupervisorError) -> Untaken {
        Untaken::Failed(error.into())
    }
}

impl From<Untaken> for CommandError {
    fn from(untaken: Untaken) -> CommandError {
        match untaken {
            Untaken::Driven(id, pid) => driven(&id, pid),
            Untaken::Failed(error) => error,
        }
    }
}

/// What is said of a task that another process is at work on.
pub(crate) fn driven(id: &TaskId, pid: u32) -> CommandError {
    CommandError::new(Kind::Refused, format!("task {id} is driven by process {pid} already"))
        .hint(format!("drivetrain log {id} --follow watches it"))
}

/// What is said of a task that could not be reached because others always had it.
pub(crate) fn passed_on(id: &TaskId) -> CommandError {
    CommandError::environment(format!(
        "task {id} goes from one process to the next, and none could be told; try again"
    ))
}

/// Goes on with a task.
pub(crate) fn resume(station: &mut Station, id: &TaskId, attended: bool) -> Result<(), Untaken> {
    unless_driven(station, id, |station, from| station.supervisor.resume_from(id, from, attended))
}

/// Gives a task a command, without going on with it.
pub(crate) fn command(station: &mut Station, id: &TaskId, command: Command) -> Result<(), Untaken> {
    unless_driven(station, id, |station, from| {
        station.supervisor.command_at_rest_from(id, from, command.clone())
    })
}

/// Does something with a task that takes it from its last holder, if that does not drive it. Whoever else was quicker, to
/// give it a command or to go on with it, is looked at in turn.
pub(crate) fn unless_driven<T>(
    station: &mut Station,
    id: &TaskId,
    mut act: impl FnMut(&mut Station, u64) -> Result<T, SupervisorError>,
) -> Result<T, Untaken> {
    for _ in 0..TAKEN_UP {
        let journal = station.supervisor.journal();
        let row = journal.task(id.as_str()).map_err(SupervisorError::from)?;
        let (from, ours) = (row.owner, journal.owner());
        if from != ours
            && let Some(pid) = control::driver(&station.home, from, id)
        {
            return Err(Untaken::Driven(id.clone(), pid));
        }
        match act(station, from) {
            Err(SupervisorError::Journal(JournalError::Fenced { .. })) => {}
            done => return Ok(done?),
        }
    }
    Err(Untaken::Failed(passed_on(id)))
}
