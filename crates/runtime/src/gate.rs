//! The gate socket: through it a worker that decides outside can ask for tools, and only that. What it asks for
//! becomes an input of its task; whether it runs is decided there, by the same gate as every other call.
//!
//! One socket a task, in a folder of its own that a box can hand to the worker alone. A connection begins with the
//! task's token as its first line; then it speaks MCP (`wire::gate`). Connections, frames, open calls and time are
//! bounded. Nothing that approves is here: that is the control socket, which no worker sees.

mod connection;
mod outbox;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::id::TaskId;
use machine::input::{Signal, Withdrawal};
use machine::tool::ToolResult;
use serde_json::Value;
use wire::gate::{RequestId, Toolbox};

use crate::inbox::Inbox;
use crate::providers::Secret;
use crate::socket;
use outbox::Outbox;

/// The variable that tells a worker where its gate is.
pub const SOCKET_VARIABLE: &str = "DRIVETRAIN_GATE";
/// The variable that tells a worker what to say first there.
pub const TOKEN_VARIABLE: &str = "DRIVETRAIN_GATE_TOKEN";

/// Connections of one task at once; more are closed unanswered.
pub const MAX_CONNECTIONS: usize = 16;

/// What a socket is called in the folder where it stands.
const NAME: &str = "gate.sock";

/// As many bytes an address of a socket holds. Workers connect by themselves, so there is no way around it.
const ADDRESS: usize = 107;

/// What the folder of a socket is called whose usual place has too long a name, before what makes it different.
const SHORT: &str = "drivetrain-gate-";

/// A link in the usual place that leads there.
const ELSEWHERE: &str = "elsewhere";

/// How long a listener rests after the system refused it a connection.
const REST: Duration = Duration::from_millis(50);

/// The doors of this process: one for each task that has a worker.
#[derive(Debug)]
pub struct Gates {
    folder: PathBuf,
    inbox: Inbox,
    doors: Mutex<BTreeMap<TaskId, Arc<Door>>>,
}

impl Gates {
    /// No door yet; sockets will stand in folders below `folder`.
    pub fn new(folder: PathBuf, inbox: Inbox) -> Gates {
        Gates { folder, inbox, doors: Mutex::default() }
    }

    /// The task's door, opened if there is none, with these tools behind it. The error is for a person.
    pub fn open(&self, task: &TaskId, toolbox: Toolbox) -> Result<Arc<Door>, String> {
        let mut doors = lock(&self.doors);
        if let Some(door) = doors.get(task) {
            *lock(&door.toolbox) = Arc::new(toolbox);
            return Ok(Arc::clone(door));
        }
        let folder = self.folder.join(task.as_str());
        let opened = Door::open(&folder, task, toolbox, self.inbox.clone());
        let door = opened.map_err(|error| {
            format!("the gate of task {task} cannot be opened in {}: {error}", folder.display())
        })?;
        doors.insert(task.clone(), Arc::clone(&door));
        Ok(door)
    }

    /// The task's door, if it is open.
    pub fn door(&self, task: &str) -> Option<Arc<Door>> {
        lock(&self.doors).get(&TaskId(task.to_owned())).map(Arc::clone)
    }

    /// Answers everybody who asked for this call with this key. Never waits.
    pub fn answer(
        &self,
        task: &TaskId,
        key: &str,
        digest: u64,
        answer: &Result<ToolResult, String>,
    ) {
        let door = lock(&self.doors).get(task).map(Arc::clone);
        if let Some(door) = door {
            door.answer(key, digest, answer);
        }
    }

    /// Closes the task's door and every connection through it.
    pub fn close(&self, task: &TaskId) {
        let door = lock(&self.doors).remove(task);
        if let Some(door) = door {
            door.close();
        }
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        for door in std::mem::take(&mut *lock(&self.doors)).into_values() {
            door.close();
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// One task's socket.
#[derive(Debug)]
pub struct Door {
    task: TaskId,
    folder: PathBuf,
    path: PathBuf,
    token: Secret,
    inbox: Inbox,
    toolbox: Mutex<Arc<Toolbox>>,
    open: Mutex<Open>,
    connections: AtomicUsize,
    closing: AtomicBool,
}

/// What is under way at a door.
#[derive(Debug, Default)]
struct Open {
    /// Who waits for the answer of each key.
    waiting: BTreeMap<String, Vec<Waiter>>,
    /// To be shut when the door closes, by a number of ours.
    streams: BTreeMap<u64, UnixStream>,
    last: u64,
    /// When the last answer was given.
    answered: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    connection: u64,
    id: RequestId,
    /// Of the call: another one under the same key is answered otherwise.
    digest: u64,
    outbox: Arc<Outbox>,
}

impl Door {
    fn open(folder: &Path, task: &TaskId, toolbox: Toolbox, inbox: Inbox) -> io::Result<Arc<Door>> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = place(folder)?.join(NAME);
        let listener = socket::listen(&path).inspect_err(|_| clear(folder))?;
        let door = Arc::new(Door {
            task: task.clone(),
            folder: folder.to_owned(),
            path,
            token: Secret::new(&new_token()?),
            inbox,
            toolbox: Mutex::new(Arc::new(toolbox)),
            open: Mutex::default(),
            connections: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
        });
        let listening = Arc::clone(&door);
        std::thread::Builder::new()
            .name("gate".to_owned())
            .spawn(move || listening.listen(&listener))?;
        Ok(door)
    }

    /// Where the socket stands; a box that holds the worker binds this folder's path and no other of the home.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a connection must say first.
    pub fn token(&self) -> &Secret {
        &self.token
    }

    /// The same as text, for whoever hands it to the worker by other means than its environment.
    pub fn token_text(&self) -> &str {
        self.token.reveal()
    }

    /// The last moment at which an answer was owed: a worker that waits for us is not slow itself.
    pub fn last_owed(&self) -> Option<Instant> {
        let open = lock(&self.open);
        if open.waiting.is_empty() { open.answered } else { Some(Instant::now()) }
    }

    fn listen(self: &Arc<Door>, listener: &UnixListener) {
        for stream in listener.incoming() {
            if self.closing.load(Ordering::Relaxed) {
                break;
            }
            let Ok(stream) = stream else {
                std::thread::sleep(REST);
                continue;
            };
            if self.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                self.connections.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let door = Arc::clone(self);
            let served =
                std::thread::Builder::new().name("gate-client".to_owned()).spawn(move || {
                    // A broken client is its own loss: there is nobody to tell.
                    let _ = connection::serve(&door, stream);
                    door.connections.fetch_sub(1, Ordering::Relaxed);
                });
            if served.is_err() {
                self.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Notes a connection, so that closing the door ends it. None if the door is closing.
    fn enter(&self, stream: &UnixStream) -> io::Result<u64> {
        let mut open = lock(&self.open);
        open.last += 1;
        let number = open.last;
        open.streams.insert(number, stream.try_clone()?);
        drop(open);
        if self.closing.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(number)
    }

    /// Forgets a connection. What only it waited for is withdrawn.
    fn leave(&self, connection: u64) {
        let mut orphans = Vec::new();
        {
            let mut open = lock(&self.open);
            open.streams.remove(&connection);
            open.waiting.retain(|key, waiters| {
                waiters.retain(|waiter| waiter.connection != connection);
                if waiters.is_empty() {
                    orphans.push(key.clone());
                }
                !waiters.is_empty()
            });
        }
        if !self.closing.load(Ordering::Relaxed) {
            for key in orphans {
                let gone = Signal::Withdrawn { key, how: Withdrawal::Gone };
                self.inbox.signal(self.task.clone(), gone.into());
            }
        }
    }

    /// Brings a request to the task. The waiter is noted first, so that no answer can come before it.
    fn ask(&self, key: String, waiter: Waiter, tool: String, input: Value) {
        lock(&self.open).waiting.entry(key.clone()).or_default().push(waiter);
        let requested = Signal::Requested { key, tool, input: Arc::new(input) };
        self.inbox.signal(self.task.clone(), requested.into());
    }

    fn withdraw(&self, connection: u64, id: &RequestId) {
        let mine = |waiter: &Waiter| waiter.connection == connection && waiter.id == *id;
        let key = {
            let open = lock(&self.open);
            let found = open.waiting.iter().find(|(_, waiters)| waiters.iter().any(mine));
            found.map(|(key, _)| key.clone())
        };
        let Some(key) = key else { return };
        let withdrawn = Signal::Withdrawn { key, how: Withdrawal::Cancelled };
        self.inbox.signal(self.task.clone(), withdrawn.into());
    }

    fn answer(&self, key: &str, digest: u64, answer: &Result<ToolResult, String>) {
        let answered = {
            let mut open = lock(&self.open);
            open.answered = Some(Instant::now());
            let waiters = open.waiting.remove(key).unwrap_or_default();
            let (answered, others): (Vec<_>, Vec<_>) =
                waiters.into_iter().partition(|waiter| waiter.digest == digest);
            if !others.is_empty() {
                open.waiting.insert(key.to_owned(), others);
            }
            answered
        };
        for waiter in answered {
            waiter.outbox.push(match answer {
                Ok(result) => wire::gate::result(&waiter.id, result),
                Err(reason) => wire::gate::refused(&waiter.id, reason),
            });
        }
    }

    fn toolbox(&self) -> Arc<Toolbox> {
        Arc::clone(&lock(&self.toolbox))
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        for stream in std::mem::take(&mut lock(&self.open).streams).into_values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        // Wakes the listener so that it sees the flag.
        let _ = socket::connect(&self.path);
        let _ = fs::remove_file(&self.path);
        clear(&self.folder);
    }
}

/// The folder that a door's socket stands in: the door's own, or a private one with a shorter name.
fn place(folder: &Path) -> io::Result<PathBuf> {
    let fits = |folder: &Path| folder.join(NAME).as_os_str().len() <= ADDRESS;
    if fits(folder) {
        return Ok(folder.to_owned());
    }
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let name = format!("{SHORT}{:016x}", u64::from_ne_bytes(random));
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.filter(|own| socket::check_private(own).is_ok());
    let places = own.into_iter().chain([std::env::temp_dir(), PathBuf::from("/tmp")]);
    let mut shorter = places.filter_map(|place| Some(place.canonicalize().ok()?.join(&name)));
    let Some(shorter) = shorter.find(|shorter| fits(shorter)) else {
        return Err(io::Error::other(format!(
            "an address of a socket holds {ADDRESS} bytes; set XDG_RUNTIME_DIR or DRIVETRAIN_HOME to a folder with a \
             shorter name"
        )));
    };
    // First, so that whoever is killed leaves a trace of it.
    std::os::unix::fs::symlink(&shorter, folder.join(ELSEWHERE))?;
    fs::DirBuilder::new().mode(0o700).create(&shorter)?;
    Ok(shorter)
}

/// Removes the folder of a door, and where its socket stood.
fn clear(folder: &Path) {
    let link = folder.join(ELSEWHERE);
    let named =
        |to: &PathBuf| to.file_name().is_some_and(|to| to.to_string_lossy().starts_with(SHORT));
    if let Some(shorter) = fs::read_link(&link).ok().filter(named) {
        let _ = fs::remove_file(shorter.join(NAME));
        let _ = fs::remove_dir(shorter);
        let _ = fs::remove_file(&link);
    }
    let _ = fs::remove_file(folder.join(NAME));
    let _ = fs::remove_dir(folder);
}

/// Removes the doors that a process left which is gone.
pub(crate) fn clear_away(doors: &Path) {
    for door in fs::read_dir(doors).into_iter().flatten().flatten() {
        clear(&door.path());
    }
    let _ = fs::remove_dir_all(doors);
}

/// Connects to a gate as its worker and says the token: what follows is MCP, both ways.
pub fn connect(path: &Path, token: &str) -> io::Result<UnixStream> {
    use std::io::Write;
    let stream = socket::connect_from_box(path)?;
    (&stream).write_all(format!("{}\n", token.trim()).as_bytes())?;
    Ok(stream)
}

/// 256 random bits, in hex.
fn new_token() -> io::Result<String> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole after any panic: each change is one insert or one remove.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
