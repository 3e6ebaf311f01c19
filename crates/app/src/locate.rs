//! Finds a task by the beginning of its id, reads how it stands, and brings commands to whoever drives it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::sqlite::SqliteJournal;
use journal::{Journal, JournalError, Loaded, TaskRow};
use machine::driver::Registry;
use machine::id::TaskId;
use machine::receipt::Receipt;
use machine::state::{Call, CallStatus, Standing, State};
use machine::task::DriverSpec;
use machine::time::Timestamp;
use machine::{Command, Input, Signal, Stamped};
use runtime::clock::{Clock, SystemClock};
use runtime::control::{self, ControlError};
use runtime::home::Home;
use runtime::host::{self, Host};
use runtime::receipt;
use runtime::room;
use runtime::station::Station;
use runtime::supervisor::SupervisorError;
use runtime::workspace::upkeep;
use serde_json::{Value, json};
use view::story::Story;
use view::why::Subject;

use crate::error::{CommandError, near};
use crate::take_up;

/// Candidates that are listed when an id is ambiguous.
const CANDIDATES: usize = 8;

/// The home of this environment.
pub(crate) fn home() -> Result<Home, CommandError> {
    let home = Home::from_environment().map_err(CommandError::environment)?;
    runtime::sandbox::mark_trials(&home);
    Ok(home)
}

/// The folder that the command was given in.
pub(crate) fn folder() -> Result<PathBuf, CommandError> {
    std::env::current_dir().map_err(|error| {
        CommandError::environment(format!("the current folder cannot be used: {error}"))
    })
}

/// This moment.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// A moment in local time.
pub(crate) fn moment(time: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(time.0) {
        Ok(time) => {
            time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
        }
        Err(_) => time.0.to_string(),
    }
}

/// The journal, for reading.
pub(crate) struct Records {
    pub(crate) home: Home,
    pub(crate) journal: SqliteJournal,
    pub(crate) registry: Arc<Registry>,
}

/// A task as it stands in the journal.
pub(crate) struct Task {
    pub(crate) state: State,
    pub(crate) story: Story,
    /// The living process that drives it.
    pub(crate) driven_by: Option<u32>,
    /// Whether the process that drove it died.
    pub(crate) interrupted: bool,
    /// Calls of its agent that ended with that process.
    pub(crate) stopped: Vec<Call>,
    /// A folder of it whose disk has no room, while a process drives it; not looked for at a glance.
    pub(crate) full: Option<String>,
    /// The evidence, if it is verified.
    pub(crate) receipt: Option<Receipt>,
    /// The branch and the commit that have its change; not looked for at a glance.
    pub(crate) applied: Option<(String, String)>,
}

impl Task {
    /// What `why` and the summaries look at.
    pub(crate) fn subject<'a>(&'a self, standing: &'a Standing) -> Subject<'a> {
        Subject {
            data: self.state.data(),
            standing,
            driver: self.state.driver_name(),
            same: view::why::same(&self.state.driver_spec()),
            story: &self.story,
            driven_by: self.driven_by,
            interrupted: self.interrupted,
            stopped: &self.stopped,
            full: self.full.as_deref(),
            receipt: self.receipt.as_ref().map(Receipt::short),
            applied: self.applied.as_ref().map(|(branch, commit)| (&**branch, &**commit)),
            now: now(),
        }
    }

    /// Who decides, or will once the hand-over that waits takes place.
    pub(crate) fn driver(&self) -> DriverSpec {
        match &self.state.data().successor {
            Some(successor) => successor.clone(),
            None => self.state.driver_spec(),
        }
    }

    /// The stable shape of `show --json`.
    pub(crate) fn json(&self) -> Value {
        let mut row = runtime::host::summary(&self.state);
        row["v"] = json!(1);
        row["driven_by"] = json!(self.driven_by);
        row["interrupted"] = json!(self.interrupted);
        if let Some(folder) = &self.full {
            row["full_disk"] = json!(folder);
        }
        row["folder"] = json!(self.state.data().spec.folder);
        row["sandbox"] = json!(self.state.data().spec.sandbox);
        row["verdict"] = json!(self.story.verdict);
        if let Some(receipt) = &self.receipt {
            row["receipt"] = json!(receipt.id);
        }
        if let Some((branch, commit)) = &self.applied {
            row["applied"] = json!({ "branch": branch, "commit": commit });
        }
        row
    }
}

impl Records {
    /// Opens the journal of this environment.
    pub(crate) fn open() -> Result<Records, CommandError> {
        let home = home()?;
        let journal = SqliteJournal::read(&home.journal())?;
        Ok(Records { home, journal, registry: Arc::new(Registry::builtin()) })
    }

    /// The one task whose id begins so.
    pub(crate) fn find(&self, prefix: &str) -> Result<TaskId, CommandError> {
        let wanted = prefix.trim().to_lowercase();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if wanted.is_empty() || !wanted.chars().all(fits) {
            return Err(CommandError::usage(format!("{prefix:?} is not a task's id"))
                .hint("ids are made of a-z and 0-9; drivetrain list shows them"));
        }
        let found = self.journal.find(&wanted, CANDIDATES + 1)?;
        match found.as_slice() {
            [one] => Ok(TaskId(one.clone())),
            [] => Err(self.unknown(&wanted)),
            many if many.contains(&wanted) => Ok(TaskId(wanted)),
            many => {
                let mut error = CommandError::usage(format!(
                    "{wanted:?} is the beginning of more than one task's id"
                ));
                for id in many.iter().take(CANDIDATES) {
                    error = error.hint(self.candidate(id));
                }
                if many.len() > CANDIDATES {
                    error = error.hint("… and more; type more of the id");
                }
                Err(error)
            }
        }
    }

    fn unknown(&self, wanted: &str) -> CommandError {
        let error = CommandError::usage(format!("no task's id begins with {wanted:?}"));
        let rows = self.journal.list(200, None).unwrap_or_default();
        let cut = |id: &str| id.chars().take(wanted.chars().count()).collect::<String>();
        let starts: Vec<String> = rows.iter().map(|row| cut(&row.id)).collect();
        let meant = near(wanted, starts.iter().map(String::as_str));
        match meant.and_then(|meant| rows.iter().find(|row| row.id.starts_with(meant))) {
            Some(row) => error.hint(format!("did you mean {}?", self.candidate(&row.id))),
            None if rows.is_empty() => {
                error.hint(format!("there are no tasks in {}", self.home.root().display()))
            }
            None => error.hint("drivetrain list shows the tasks"),
        }
    }

    fn candidate(&self, id: &str) -> String {
        let row = self.journal.task(id).ok();
        let summary = row.and_then(|row| serde_json::from_str::<Value>(&row.summary).ok());
        let goal = summary
            .and_then(|summary| Some(summary["goal"].as_str()?.to_owned()))
            .unwrap_or_default();
        format!("{id}  {}", view::text::short(&goal, 60)).trim_end().to_owned()
    }

    /// The task, with everything that happened to it.
    pub(crate) fn load(&self, id: &TaskId) -> Result<Task, CommandError> {
        let row = self.journal.task(id.as_str())?;
        let loaded = Loaded { snapshot: None, records: self.journal.records(id.as_str(), 0)? };
        let mut story = Story::default();
        let host = Host::fold(id, &loaded, Arc::clone(&self.registry), false, |output| {
            output.events.iter().for_each(|event| story.tell(event));
        });
        // Records of an older machine may need its snapshot; the state is then right and the story short.
        let host = match host {
            Ok(host) => host,
            Err(error) => {
                self.fold(id).map_err(|_| CommandError::environment(error.to_string()))?
            }
        };
        let mut task = self.as_seen(&row, host.state, story);
        task.full = task.driven_by.and_then(|_| self.full_disk_of(&task.state));
        task.receipt = receipt::of_records(id, &loaded, Arc::clone(&self.registry)).ok();
        let result = task.state.data().result();
        task.applied = result
            .and_then(|result| upkeep::handed_over(id.as_str(), self.home.root(), &result.name));
        Ok(task)
    }

    /// The task's state alone, from its snapshot.
    pub(crate) fn glance(&self, row: &TaskRow) -> Result<Task, CommandError> {
        let host = self.fold(&TaskId(row.id.clone()))?;
        Ok(self.as_seen(row, host.state, Story::default()))
    }

    /// The task as a person should see it. If the process that drove it died, nothing of it is under way any
    /// more: that is shown at once, and recorded by whoever takes the task up.
    fn as_seen(&self, row: &TaskRow, mut state: State, mut story: Story) -> Task {
        let driven_by = self.driver_of(row, &state);
        let mut stopped = Vec::new();
        if state.data().attachment.is_some() && driven_by.is_none() {
            let running = |call: &&Call| matches!(call.status, CallStatus::Running { .. });
            let of_agent =
                state.data().calls.iter().filter(running).filter(|call| call.agent.is_some());
            stopped = of_agent.cloned().collect();
            let lost = Stamped { time: state.data().clock, input: Signal::OwnerLost.into() };
            machine::step(&mut state, lost).events.iter().for_each(|event| story.tell(event));
        }
        let interrupted =
            state.data().owner_lost && !matches!(state.standing(), Standing::Finished { .. });
        let (full, receipt, applied) = (None, None, None);
        Task { driven_by, interrupted, stopped, full, state, story, receipt, applied }
    }

    /// The folder that keeps its process waiting: such a process cannot record that it waits.
    fn full_disk_of(&self, state: &State) -> Option<String> {
        let workspace =
            state.data().workspace.as_ref().and_then(|workspace| workspace.path.as_deref());
        let folders: Vec<&Path> =
            std::iter::once(self.home.root()).chain(workspace.map(Path::new)).collect();
        room::missing(&folders).map(|folder| folder.display().to_string())
    }

    fn fold(&self, id: &TaskId) -> Result<Host, CommandError> {
        let loaded = self.journal.load(id.as_str())?;
        Host::fold(id, &loaded, Arc::clone(&self.registry), true, drop)
            .map_err(|error| CommandError::environment(error.to_string()))
    }

    /// The living process that drives the task. Its last holder may live on and have let go of it.
    fn driver_of(&self, row: &TaskRow, state: &State) -> Option<u32> {
        let attachment = state.data().attachment.as_ref()?;
        if attachment.owner != row.owner { None } else { self.home.alive(row.owner) }
    }

    /// Whether the process that drove a task, which stands so, died over it.
    pub(crate) fn is_left(&self, id: &TaskId, state: &State) -> Result<bool, CommandError> {
        if state.data().attachment.is_none() {
            return Ok(false);
        }
        Ok(self.driver_of(&self.journal.task(id.as_str())?, state).is_none())
    }

    /// Whether the task's owner has it in hand, as far as the journal says.
    fn is_attached(&self, id: &TaskId, row: &TaskRow) -> bool {
        let Ok(host) = self.fold(id) else { return false };
        let attachment = host.state.data().attachment.as_ref();
        attachment.is_some_and(|attachment| attachment.owner == row.owner)
            && self.home.alive(row.owner).is_some()
    }

    /// Gives a task a command: through the socket of the process that drives it, else into the journal.
    /// Returns once it is journaled; the process that took it, if one did.
    pub(crate) fn give(self, id: &TaskId, command: Command) -> Result<Option<u32>, CommandError> {
        let mut records = self;
        for _ in 0..take_up::TAKEN_UP {
            match records.try_to_give(id, command.clone()) {
                // A process has taken the task up meanwhile, and is the one to tell.
                Err(Ungiven::TakenUp) => records = Records::open()?,
                Err(Ungiven::Failed(error)) => return Err(error),
                Ok(taken) => return Ok(taken),
            }
        }
        Err(take_up::passed_on(id))
    }

    /// Whether a command of this kind was recorded since this moment.
    fn has_taken(
        &self,
        id: &TaskId,
        command: &Command,
        since: Timestamp,
    ) -> Result<bool, JournalError> {
        let kind = std::mem::discriminant(command);
        let records = self.journal.records(id.as_str(), 0)?;
        // What a text holds that nobody may read was taken out of it, so the texts need not be the same.
        let mut recent = records.iter().rev().take_while(|record| record.time >= since.0);
        Ok(recent.any(|record| match host::decode(&record.body) {
            Ok(Input::Command(taken)) => std::mem::discriminant(&taken) == kind,
            Ok(_) | Err(_) => false,
        }))
    }

    fn try_to_give(self, id: &TaskId, command: Command) -> Result<Option<u32>, Ungiven> {
        let row = self.journal.task(id.as_str())?;
        if let Some(pid) = self.home.alive(row.owner) {
            let asked = now();
            match control::send(&self.home.socket(row.owner), id, command.clone()) {
                Ok(()) => return Ok(Some(pid)),
                // It drives the task and does not listen: the task would be taken out of its hands in the middle of a call.
                Err(ControlError::Gone(socket)) if self.is_attached(id, &row) => {
                    return Err(Ungiven::Failed(unreachable(id, pid, &socket)));
                }
                Err(ControlError::Gone(_)) => {}
                // Its last holder lives but has let go of it.
                Err(ControlError::NotHere) => {}
                // It ended before it answered, so what it took is on record.
                Err(ControlError::Unknown(_)) if control::has_ended(&self.home, row.owner) => {
                    let is_taken = self.has_taken(id, &command, asked)?;
                    return if is_taken { Ok(Some(pid)) } else { Err(Ungiven::TakenUp) };
                }
                Err(error) => return Err(Ungiven::Failed(error.into())),
            }
        }
        let Records { home, registry, journal } = self;
        drop(journal);
        let mut station = Station::open(&home, registry)?;
        match station.supervisor.command_at_rest_from(id, row.owner, command) {
            Ok(()) => Ok(None),
            Err(SupervisorError::Journal(JournalError::Fenced { .. })) => Err(Ungiven::TakenUp),
            Err(error) => Err(Ungiven::Failed(error.into())),
        }
    }
}

/// What is said of a process that drives a task and whose socket is not there.
fn unreachable(id: &TaskId, pid: u32, socket: &std::path::Path) -> CommandError {
    CommandError::environment(format!(
        "task {id} is driven by process {pid}, which cannot be told anything: no process listens on {}",
        socket.display()
    ))
    .hint("it makes its socket again: give the command once more in a few seconds")
    .hint(format!("kill {pid} lets it stop in order, if that does not help; then give the command again"))
}

/// Why a command was not given.
enum Ungiven {
    TakenUp,
    Failed(CommandError),
}

impl<E: Into<CommandError>> From<E> for Ungiven {
    fn from(error: E) -> Ungiven {
        Ungiven::Failed(error.into())
    }
}
