//! The client of servers that bring tools, over the Model Context Protocol.
//!
//! One connection for each server of a task, started when its tools are first wanted and ended with the task. A server
//! that dies is started again by the next call, after a wait that grows, and not for ever. Nothing starts that the
//! user's own or a trusted file does not declare at that moment: the file is read again for every start.

mod answer;
mod connection;
mod engine;
mod pipes;
mod reach;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use machine::effect::ToolCall;
use machine::policy::sandbox::SandboxSpec;
use machine::server::{ServerCall, ServerSpec, ServerTools};
use machine::task::Workspace;
use machine::tool::{Status, ToolResult};

use crate::home::Home;
use crate::process::Cancel;
use crate::servers;
use crate::tool::ToolServices;
use connection::{Connection, Failure, Place};

/// Deaths in a row, starts that failed included, after which a server is left alone for a while.
const MOST_DEATHS: u32 = 3;
/// The first wait before a dead server is started again; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// How long a server is left alone that died too often.
const REST: Duration = Duration::from_secs(60);
/// How often a wait looks whether it was cancelled.
const GLANCE: Duration = Duration::from_millis(10);

/// Stands where a task's id would, for somebody who only asks what servers offer.
pub const NOBODY: &str = "tools";

/// Hears that a server of a task has other tools now.
pub type Listener = Arc<dyn Fn(&str, ServerTools) + Send + Sync>;

/// The connections of this process.
pub struct Mcp {
    home: Home,
    marks: Option<PathBuf>,
    changed: Listener,
    slots: Mutex<BTreeMap<Key, Arc<Mutex<Slot>>>>,
}

/// A task and a server's name.
type Key = (String, String);

/// A place for one connection.
#[derive(Debug, Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    news: Arc<News>,
    deaths: u32,
    /// Not before this moment is it started again.
    rests_until: Option<Instant>,
    closed: bool,
}

/// What the task knows of a server's tools. It has a lock of its own, held for an instant only: a slot's is held while
/// its server starts, and whoever brings news must not wait for that.
#[derive(Debug, Default)]
struct News(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    tools: Option<ServerTools>,
    /// What the task's question is being answered with.
    answer: Option<ServerTools>,
    /// Whether the task has its answer: before, news is only kept, because what comes before an answer is dropped.
    answered: bool,
    closed: bool,
}

impl News {
    /// Takes a list; gives it back if the task has to be told.
    fn take(&self, tools: ServerTools) -> Option<ServerTools> {
        let mut known = lock(&self.0);
        if known.closed || known.tools.as_ref() == Some(&tools) {
            return None;
        }
        known.tools = Some(tools.clone());
        known.answered.then_some(tools)
    }

    /// The latest list, as the answer to the task's question.
    fn answer(&self) -> Option<ServerTools> {
        let mut known = lock(&self.0);
        known.answer = known.tools.clone();
        known.answer.clone()
    }

    /// The task has the answer: from here on it is told. What came since is given back.
    fn answered(&self) -> Option<ServerTools> {
        let mut known = lock(&self.0);
        known.answered = true;
        let answer = known.answer.take();
        known.tools.clone().filter(|tools| answer.as_ref() != Some(tools) && !known.closed)
    }
}

impl Mcp {
    /// No connection yet. `changed` hears of lists that change; marks of processes go to `marks`.
    pub fn new(home: Home, marks: Option<PathBuf>, changed: Listener) -> Mcp {
        Mcp { home, marks, changed, slots: Mutex::default() }
    }

    /// Starts servers, all at once, and asks for their tools. One that cannot be had says why. Call `answered` once
    /// the answer is on its way.
    pub fn open(
        &self,
        task: &str,
        servers: &[ServerSpec],
        workspace: &Workspace,
        folder: &str,
        sandbox: &SandboxSpec,
        cancel: &Cancel,
    ) -> Vec<ServerTools> {
        let ask = |spec: &ServerSpec| {
            let (folder, state) = (Path::new(folder), self.home.root());
            let place = Place { task, folder, workspace, sandbox, state };
            self.connected(spec, &place, cancel).map(drop)
        };
        let none = |spec: &ServerSpec, problem: String| ServerTools {
            server: spec.name.clone(),
            tools: Vec::new(),
            problem: Some(problem),
        };
        let news = |spec: &ServerSpec| {
            let slot = self.slot(task, &spec.name);
            let news = Arc::clone(&lock(&slot).news);
            news.answer()
        };
        std::thread::scope(|scope| {
            let asked: Vec<_> = servers.iter().map(|spec| scope.spawn(|| ask(spec))).collect();
            let joined = asked.into_iter().zip(servers).map(|(asked, spec)| {
                let failed = || Err("the client failed; this is a bug".to_owned());
                (spec, asked.join().unwrap_or_else(|_| failed()))
            });
            // All have answered or failed before the first is told: what changed meanwhile is in the answer.
            let ended: Vec<(&ServerSpec, Result<(), String>)> = joined.collect();
            let told = ended.into_iter().map(|(spec, ended)| match ended {
                Ok(()) => news(spec).unwrap_or_else(|| none(spec, "it told nothing".to_owned())),
                Err(problem) => none(spec, problem),
            });
            told.collect()
        })
    }

    /// The answer that `open` gave has been handed on: what changed meanwhile, and from here on, is told.
    pub fn answered(&self, task: &str) {
        let slots: Vec<Arc<Mutex<Slot>>> = {
            let slots = lock(&self.slots);
            let mine = slots.iter().filter(|((owner, _), _)| owner == task);
            mine.map(|(_, slot)| Arc::clone(slot)).collect()
        };
        for slot in slots {
            let news = Arc::clone(&lock(&slot).news);
            if let Some(tools) = news.answered() {
                (self.changed)(task, tools);
            }
        }
    }

    /// Runs a call to its end. Blocks the calling thread; `cancel` ends it at once, and the server is told.
    pub fn call(
        &self,
        task: &str,
        call: &ToolCall,
        behind: &ServerCall,
        services: &ToolServices,
        cancel: &Cancel,
    ) -> ToolResult {
        let name = &behind.server.name;
        let failed =
            |why: String| ToolResult::ended(Status::Error, format!("server {name}: {why}"));
        let place = Place {
            task,
            folder: Path::new(&behind.folder),
            workspace: &call.workspace,
            sandbox: &call.sandbox,
            state: self.home.root(),
        };
        let connection = match self.connected(&behind.server, &place, cancel) {
            Ok(connection) => connection,
            Err(_) if cancel.is_triggered() => {
                return ToolResult::ended(Status::Aborted, "stopped before it was sent");
            }
            Err(why) => return failed(format!("not called: {why}")),
        };
        let limit = call.timeout.unwrap_or(connection.timeout());
        let answer = connection.call(&behind.tool, &call.input, limit, cancel);
        self.note_end(task, name, &connection, &answer);
        match answer {
            Ok(answer) => answer::result(answer, services, &|text| connection.hide(text)),
            Err(Failure::Cancelled) => ToolResult::ended(
                Status::Aborted,
                "stopped while the server worked on it; the server was told",
            ),
            Err(Failure::TimedOut) => ToolResult::ended(
                Status::TimedOut,
                format!("server {name}: no answer within {limit}; the server was told to stop"),
            ),
            Err(Failure::Refused(why)) => failed(why),
            Err(Failure::Dead(why)) => failed(format!(
                "{why}; whether the call did its work is not known; the next call starts it again"
            )),
        }
    }

    /// Ends the servers of a task; returns when they are gone. Cancel the task's calls first.
    pub fn close(&self, task: &str) {
        let ended: Vec<Arc<Mutex<Slot>>> = {
            let mut slots = lock(&self.slots);
            let keys: Vec<Key> = slots.keys().filter(|(owner, _)| owner == task).cloned().collect();
            keys.iter().filter_map(|key| slots.remove(key)).collect()
        };
        for slot in ended {
            let connection = {
                let mut slot = lock(&slot);
                slot.closed = true;
                lock(&slot.news.0).closed = true;
                slot.connection.take()
            };
            if let Some(connection) = connection {
                connection.close();
            }
        }
    }

    /// The server's connection; a new one if there is none or it is dead.
    fn connected(
        &self,
        spec: &ServerSpec,
        place: &Place<'_>,
        cancel: &Cancel,
    ) -> Result<Arc<Connection>, String> {
        let shared = self.slot(place.task, &spec.name);
        let mut slot = lock_patiently(&shared, cancel).ok_or("it was stopped")?;
        if slot.closed {
            return Err("the task was let go".to_owned());
        }
        if let Some(connection) = &slot.connection {
            match connection.death() {
                None => return Ok(Arc::clone(connection)),
                Some(_) => {
                    connection.close();
                    slot.connection = None;
                    slot.died();
                }
            }
        }
        slot.rest(cancel)?;
        let started = servers::load(&self.home, place.folder, spec).and_then(|(server, file)| {
            let signal = self.signal(&slot.news, place.task);
            Connection::start(&server, file.own, place, self.marks.as_deref(), signal, cancel)
        });
        let connection = match started {
            Ok(connection) => Arc::new(connection),
            Err(why) => {
                slot.died();
                return Err(why);
            }
        };
        slot.connection = Some(Arc::clone(&connection));
        if let Some(tools) = slot.news.take(connection.tools()) {
            (self.changed)(place.task, tools);
        }
        Ok(connection)
    }

    fn slot(&self, task: &str, server: &str) -> Arc<Mutex<Slot>> {
        let key = (task.to_owned(), server.to_owned());
        Arc::clone(lock(&self.slots).entry(key).or_default())
    }

    /// Tells the task of a list that is not the one it was told before.
    fn signal(&self, news: &Arc<News>, task: &str) -> connection::Signal {
        let (news, changed, task) = (Arc::clone(news), Arc::clone(&self.changed), task.to_owned());
        Box::new(move |tools| {
            if let Some(tools) = news.take(tools) {
                changed(&task, tools);
            }
        })
    }

    /// An answer shows that the server is well; a death is counted once, by whoever sees it first.
    fn note_end<T>(
        &self,
        task: &str,
        server: &str,
        connection: &Arc<Connection>,
        answer: &Result<T, Failure>,
    ) {
        let key = (task.to_owned(), server.to_owned());
        let Some(slot) = lock(&self.slots).get(&key).cloned() else { return };
        let mut slot = lock(&slot);
        let is_current =
            slot.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection));
        match answer {
            Ok(_) | Err(Failure::Refused(_)) => slot.deaths = 0,
            Err(Failure::Dead(_)) if is_current => {
                slot.connection = None;
                slot.died();
                connection.close();
            }
            Err(Failure::Dead(_) | Failure::Cancelled | Failure::TimedOut) => {}
        }
    }
}

impl Slot {
    fn died(&mut self) {
        self.deaths += 1;
        let wait = if self.deaths >= MOST_DEATHS {
            REST
        } else {
            FIRST_WAIT * 2u32.pow(self.deaths.saturating_sub(1))
        };
        self.rests_until = Some(Instant::now() + wait);
    }

    /// Waits until it may be started again; an error if that is too long to wait.
    fn rest(&mut self, cancel: &Cancel) -> Result<(), String> {
        let Some(until) = self.rests_until else { return Ok(()) };
        let left = until.saturating_duration_since(Instant::now());
        if self.deaths >= MOST_DEATHS && !left.is_zero() {
            return Err(format!(
                "it failed {} times in a row and is left alone for {} s",
                self.deaths,
                left.as_secs().max(1)
            ));
        }
        while Instant::now() < until {
            if cancel.is_triggered() {
                return Err("it was stopped".to_owned());
            }
            std::thread::sleep(GLANCE.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}

/// A slot is locked while its server starts, which may take long; a call that is cancelled does not wait for that.
fn lock_patiently<'a>(slot: &'a Mutex<Slot>, cancel: &Cancel) -> Option<MutexGuard<'a, Slot>> {
    loop {
        match slot.try_lock() {
            Ok(slot) => return Some(slot),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if cancel.is_triggered() => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(GLANCE),
        }
    }
}

/// Each change under a lock is one assignment, so what it holds is whole after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp").field("home", &self.home).finish_non_exhaustive()
    }
}
