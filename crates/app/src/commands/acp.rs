//! `drivetrain acp`: drivetrain as the agent of an editor. A session is a task: its first prompt is the goal, the next
//! ones are said to whoever works on it, and a session that is loaded is folded from the journal again.

mod session;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journal::{Journal, Loaded};
use machine::driver::{Registry, agent};
use machine::id::{CallId, EffectId, TaskId};
use machine::state::{Ask, Standing};
use machine::task::{Criterion, DriverSpec, TaskSpec};
use machine::{Command, Signal};
use runtime::agent::acp_server::{AcpServer, EditorEnd, EditorEvent, EditorOrder, EditorUpdate};
use runtime::agent::acp_told::{Telling, Told, said_by_person};
use runtime::home::Home;
use runtime::host::Host;
use runtime::inbox::Inbox;
use runtime::library::Library;
use runtime::station::{Station, new_task_id};
use serde_json::json;

use super::options::Options;
use super::settle::{self, Change};
use super::{children, model_name, prepare};
use crate::args::AcpArgs;
use crate::error::{CommandError, Kind};
use crate::locate::{self, Records, Task};
use crate::{foreground, output, take_up};
use session::{Session, Sessions};

/// Why tasks are let go when nobody is left who would hear of them.
const GONE: &str = "the editor is gone";

/// Runs the command.
pub(crate) fn run(args: &AcpArgs) -> Result<u8, CommandError> {
    let home = locate::home()?;
    let mut station = Station::open(&home, Arc::new(Registry::builtin()))?;
    let pipe = Pipe(Arc::new(Mutex::new(AcpServer::new(env!("CARGO_PKG_VERSION")))));
    let sessions = Sessions::default();
    let (sender, events) = channel();
    listen(pipe.clone(), sender, station.inbox.clone())?;
    foreground::listen(station.inbox.clone(), Arc::new(AtomicBool::new(false)), None, None)?;
    let (told, heard) = (pipe.clone(), Arc::clone(&sessions));
    station.supervisor.follow(Box::new(move |notice| session::hear(notice, &heard, &told)));
    let mut desk = Desk { args, home, station, pipe, sessions, stops: 0 };
    desk.serve(&events)?;
    Ok(0)
}

/// The editor's side: what it says goes through one codec, and so does what it is told.
#[derive(Clone)]
struct Pipe(Arc<Mutex<AcpServer>>);

impl Pipe {
    /// Tells the editor. An order that does not fit any more has nobody who waits for it.
    fn tell(&self, order: EditorOrder) {
        let mut server = lock(&self.0);
        if let Ok(bytes) = server.order(order) {
            write(&bytes);
        }
    }

    fn update(&self, session: &str, update: EditorUpdate) {
        self.tell(EditorOrder::Update { session: session.to_owned(), update });
    }
}

/// Written under the codec's lock, so that lines do not mix. An editor that is gone is noticed by the end of its input.
fn write(bytes: &[u8]) {
    let _ = output::Whole(std::io::stdout().lock()).write_all(bytes);
}

/// Reads what the editor says, on a thread of its own, and wakes the loop.
fn listen(pipe: Pipe, sender: Sender<EditorEvent>, inbox: Inbox) -> Result<(), CommandError> {
    let read = move || {
        let mut chunk = vec![0u8; 64 << 10];
        loop {
            match std::io::stdin().lock().read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    let events = {
                        let mut server = lock(&pipe.0);
                        let mut reply = Vec::new();
                        let events = server.read(&chunk[..count], &mut reply);
                        write(&reply);
                        events
                    };
                    for event in events {
                        let _ = sender.send(event);
                    }
                    // A report for a task that nobody holds does nothing but wake the loop.
                    inbox.signal(TaskId(String::new()), Signal::TimerFired(EffectId(0)).into());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // Whoever is told to stop finds out by this who is gone.
        drop(sender);
        inbox.leave(GONE);
    };
    let spawned = std::thread::Builder::new().name("editor".to_owned()).spawn(read);
    spawned.map(drop).map_err(|error| {
        CommandError::environment(format!("cannot start a thread for the editor: {error}"))
    })
}

/// Where the editor's wishes are worked on, together with the tasks.
struct Desk<'a> {
    args: &'a AcpArgs,
    home: Home,
    station: Station,
    pipe: Pipe,
    sessions: Sessions,
    stops: u32,
}

impl Desk<'_> {
    /// Serves until the editor is gone; its tasks are let go then, and can be loaded again.
    fn serve(&mut self, events: &Receiver<EditorEvent>) -> Result<(), CommandError> {
        while self.stops == 0 || !self.station.supervisor.is_empty() {
            self.cycle(self.station.supervisor.patience())?;
            let is_gone = loop {
                match events.try_recv() {
                    Ok(event) => self.take(event)?,
                    Err(TryRecvError::Empty) => break false,
                    Err(TryRecvError::Disconnected) => break true,
                }
            };
            // Nobody hears how an answer goes on, and whoever started this process does not wait for long.
            if is_gone && self.stops == 1 && !self.station.supervisor.is_in_the_middle() {
                self.station.inbox.stop();
            }
        }
        // A session may be a task that another one dispatched.
        for session in lock(&self.sessions).values().filter(|session| session.tasks > 0) {
            let _ = children::report(&session.task);
        }
        Ok(())
    }

    fn cycle(&mut self, patience: Option<Duration>) -> Result<(), CommandError> {
        let batch = self.station.inbox.take(patience, self.stops);
        self.stops = batch.stops;
        self.station.supervisor.cycle(batch)?;
        Ok(self.station.supervisor.check_room()?)
    }

    fn take(&mut self, event: EditorEvent) -> Result<(), CommandError> {
        match event {
            EditorEvent::Open { key, folder } => match self.spec("a session", Path::new(&folder)) {
                Ok(_) => {
                    let id = new_task_id().0;
                    lock(&self.sessions).insert(id.clone(), Session::new(folder.into()));
                    self.pipe.tell(EditorOrder::Opened { key, session: id });
                }
                Err(error) => {
                    self.pipe.tell(EditorOrder::NotOpened { key, reason: error.told() });
                }
            },
            EditorEvent::Load { key, session, folder } => {
                let order = match self.load(&session, folder.into()) {
                    Ok(()) => EditorOrder::Opened { key, session },
                    Err(error) => EditorOrder::NotOpened { key, reason: error.told() },
                };
                self.pipe.tell(order);
            }
            EditorEvent::Prompt { session, key, text } => {
                if let Some(known) = lock(&self.sessions).get_mut(&session) {
                    known.prompt.clone_from(&key);
                }
                if let Err(error) = self.prompt(&session, text) {
                    let end = EditorEnd::Failed(error.told());
                    self.pipe.tell(EditorOrder::Ended { session, key, end });
                }
            }
            EditorEvent::Cancel { session } => self.cancel(&session)?,
            EditorEvent::Answered { key, may, always } => self.answer(&key, may, always)?,
            EditorEvent::Strange { reason } => {
                output::error(&format!(
                    "the editor said something strange: {}",
                    view::text::short(&reason, 200)
                ));
            }
        }
        Ok(())
    }

    /// Tells what happened in a session, and knows its task from here on.
    fn load(&self, name: &str, folder: PathBuf) -> Result<(), CommandError> {
        let records = Records::open()?;
        let unknown = || CommandError::usage(format!("there is no session {name:?}"));
        records.journal.task(name).map_err(|_| unknown())?;
        let mut session = Session::new(folder);
        loop {
            let id = session::task_of(name, session.tasks + 1);
            if session.tasks > 0 && records.journal.task(id.as_str()).is_err() {
                break;
            }
            not_elsewhere(&records, &id)?;
            (session.telling, session.question) = self.retell(&records, name, &id)?;
            (session.task, session.tasks) = (id, session.tasks + 1);
        }
        lock(&self.sessions).insert(name.to_owned(), session);
        Ok(())
    }

    /// Tells what happened to one task of a session; the question that the next prompt answers, if there is one.
    fn retell(
        &self,
        records: &Records,
        name: &str,
        id: &TaskId,
    ) -> Result<(Telling, Option<CallId>), CommandError> {
        let loaded = Loaded { snapshot: None, records: records.journal.records(id.as_str(), 0)? };
        let mut telling = Telling::default();
        let folded = Host::fold(id, &loaded, Arc::clone(&records.registry), false, |output| {
            for event in &output.events {
                if let Some(text) = said_by_person(event) {
                    self.pipe.update(name, EditorUpdate::Asked(text.to_owned()));
                }
                for told in telling.hear(event) {
                    if let Told::Update(update) = told {
                        self.pipe.update(name, update);
                    }
                }
            }
        })
        .map_err(|error| CommandError::environment(error.to_string()))?;
        let question = asks(&folded.state.standing()).into_iter().find_map(|ask| match ask {
            Ask::Question { call, .. } => Some(call),
            _ => None,
        });
        Ok((telling, question))
    }

    /// A prompt begins the session's task, or goes on with it; one that has ended is followed by another.
    fn prompt(&mut self, name: &str, text: String) -> Result<(), CommandError> {
        let known = lock(&self.sessions).get(name).map(|session| {
            (session.task.clone(), session.folder.clone(), session.tasks, session.question)
        });
        let Some((task, folder, tasks, question)) = known else {
            return Err(CommandError::usage(format!("there is no session {name:?}")));
        };
        if tasks == 0 {
            return self.begin(name, 1, &text, &folder);
        }
        if self.station.supervisor.host(&task).is_none() {
            let found = not_elsewhere(&Records::open()?, &task)?;
            if let Standing::Finished { .. } = found.state.standing() {
                return self.begin(name, tasks + 1, &text, &folder);
            }
            settle::go_on(found.state.data(), Change::Refused, true)?;
            settle::models(&self.station.home, &found, Change::Refused)?;
            prepare::require_sandbox(&found.state.data().spec.sandbox)?;
            if found.state.driver_name() == agent::KIND {
                // What it was doing when its process went is over: the prompt is what it is told first, not later.
                let note = Command::Interrupt { note: text };
                take_up::command(&mut self.station, &task, note)?;
                take_up::resume(&mut self.station, &task, true)?;
                return self.cycle(Some(Duration::ZERO));
            }
            self.quietly(name, |desk| {
                take_up::resume(&mut desk.station, &task, true)?;
                desk.cycle(Some(Duration::ZERO))
            })?;
            let standing = self.station.supervisor.host(&task).map(|host| host.state.standing());
            if let Some(session) = lock(&self.sessions).get_mut(name) {
                let asks = standing.as_ref().map(asks).unwrap_or_default();
                session::ask_again(asks, name, session, &self.pipe);
            }
        }
        if let Some(call) = question {
            if let Some(session) = lock(&self.sessions).get_mut(name) {
                session.question = None;
            }
            if self.give(&task, Command::Answer { call, text: text.clone() })? {
                return Ok(());
            }
        }
        if self.give(&task, Command::tell(text.clone()))? {
            return Ok(());
        }
        if !self.give(&task, Command::Steer { text })? {
            return Err(CommandError::new(
                Kind::Refused,
                format!("task {task} takes no prompt now"),
            ));
        }
        // One that was cancelled is held.
        self.give(&task, Command::Resume).map(drop)
    }

    fn begin(
        &mut self,
        name: &str,
        number: u64,
        text: &str,
        folder: &Path,
    ) -> Result<(), CommandError> {
        let spec = self.spec(text, folder)?;
        let task = session::task_of(name, number);
        let prompt = lock(&self.sessions).get(name).map(|known| known.prompt.clone());
        let mut session = Session {
            task: task.clone(),
            tasks: number,
            prompt: prompt.unwrap_or_default(),
            ..Session::new(folder.to_owned())
        };
        let checks = spec.acceptance.iter().map(Criterion::title).collect();
        if let Some(plan) = session.telling.plan(checks) {
            self.pipe.update(name, plan);
        }
        lock(&self.sessions).insert(name.to_owned(), session);
        self.station.supervisor.begin(task, spec, true)?;
        self.cycle(Some(Duration::ZERO))
    }

    /// Does something whose ends of turns belong to no prompt.
    fn quietly(
        &mut self,
        name: &str,
        act: impl FnOnce(&mut Self) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        self.settling(name, true);
        let done = act(self);
        self.settling(name, false);
        done
    }

    fn settling(&self, name: &str, is: bool) {
        if let Some(session) = lock(&self.sessions).get_mut(name) {
            session.settling = is;
        }
    }

    /// What runs is stopped. A model that talks waits for the next line; anybody else is held until it comes.
    fn cancel(&mut self, name: &str) -> Result<(), CommandError> {
        let task = lock(&self.sessions).get(name).map(|session| session.task.clone());
        let Some(task) = task else { return Ok(()) };
        let talks = self.args.agent.is_none();
        let stopped = self.quietly(name, |desk| {
            if !talks {
                desk.give(&task, Command::Pause)?;
            }
            desk.give(&task, Command::Interrupt { note: String::new() }).map(drop)
        });
        // An agent takes its time to stop; who cancelled waits for none of it.
        if let Some(session) = lock(&self.sessions).get_mut(name) {
            for update in session.telling.stop() {
                self.pipe.update(name, update);
            }
            let (session, key) = (name.to_owned(), session.prompt.clone());
            self.pipe.tell(EditorOrder::Ended { session, key, end: EditorEnd::Cancelled });
        }
        stopped
    }

    fn answer(&mut self, key: &str, may: bool, always: bool) -> Result<(), CommandError> {
        let asked = lock(&self.sessions).values_mut().find_map(|session| {
            let (call, hash) = session.asked.remove(key)?;
            Some((session.task.clone(), call, hash))
        });
        let Some((task, call, hash)) = asked else { return Ok(()) };
        self.give(&task, session::answer(call, hash, may, always)).map(drop)
    }

    /// Gives a command to a task that is driven here; false if it does not take it.
    fn give(&mut self, task: &TaskId, command: Command) -> Result<bool, CommandError> {
        let (sender, answer) = sync_channel(1);
        let brought = self.station.inbox.command(task.clone(), command.into(), Some(sender));
        brought.map_err(CommandError::environment)?;
        self.cycle(Some(Duration::ZERO))?;
        Ok(matches!(answer.try_recv(), Ok(Ok(()))))
    }

    /// The task of a session, complete and checked.
    fn spec(&self, goal: &str, folder: &Path) -> Result<TaskSpec, CommandError> {
        if !folder.is_dir() {
            return Err(CommandError::usage(format!("{} is no folder", folder.display())));
        }
        let registry = Registry::builtin();
        let library = Library::of(folder).judged_by(&self.home, folder);
        let driver = match (&self.args.agent, &self.args.model) {
            (Some(agent), model) => {
                let mut config = json!({ "agent": agent });
                if let Some(model) = model {
                    config["model"] = json!(model);
                }
                DriverSpec::new("agent", config)
            }
            (None, model) => {
                let model = model.as_deref().unwrap_or_default();
                model_name::check(model, folder, &library)?;
                let config = json!({ "model": model, "chat": true });
                DriverSpec::new("llm", config)
            }
        };
        let mut task = prepare::from_goal(goal, driver)?;
        library.resolve_task(&mut task, folder, &registry)?;
        let options = Options {
            check: &self.args.check,
            limits: &self.args.limits,
            place: &self.args.place,
            walls: &self.args.walls,
            home: &self.home,
            json: true,
            attended: false,
            replays: false,
        };
        prepare::complete(task, options, &library, folder.to_owned())
    }
}

/// The task as it stands, unless another process drives it.
fn not_elsewhere(records: &Records, id: &TaskId) -> Result<Task, CommandError> {
    let task = records.glance(&records.journal.task(id.as_str())?)?;
    match task.driven_by.filter(|pid| *pid != std::process::id()) {
        Some(pid) => {
            let words = format!("task {id} is driven by process {pid}");
            Err(CommandError::new(Kind::Refused, words))
        }
        None => Ok(task),
    }
}

/// What a person is asked.
fn asks(standing: &Standing) -> Vec<Ask> {
    match standing {
        Standing::AwaitingPerson { asks } => asks.clone(),
        Standing::Working | Standing::Paused | Standing::Finished { .. } => Vec::new(),
    }
}

/// What a panic under a lock leaves is whole: each change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sessions by their names.
type Named = BTreeMap<String, Session>;
