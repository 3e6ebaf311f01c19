//! The gateway between a coding agent and its models. The agent is told an address of this machine in place of its
//! provider's; what it asks there is sent on unchanged with the real key, which the agent never has, and the answer goes
//! back byte for byte as it comes. Whether a request may be sent is asked of the loop first; what an answer counted is
//! told to it before the agent sees its end.
//!
//! One gateway serves one agent's process. It has a thread with a loop of its own: connections are few, and what passes
//! must not wait for anything else of this program.

mod answer;
mod connection;
mod exchange;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::agent::AgentNews;
use machine::message::Usage;
use machine::policy::gateway;
use machine::policy::price::Price;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, oneshot};
use wire::gateway::Api;

use crate::model::Traffic;
use crate::network;
use crate::providers::Secret;
use crate::socket::with_short_path;
use connection::Socket;

/// The socket's name in its folder.
pub const SOCKET: &str = "gateway.sock";

/// What one gateway takes on.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Bytes of a request's body.
    pub body: u64,
    /// How long the head of a request may take once it has begun, and its body.
    pub request: Duration,
    /// How long a connection may wait for its next request.
    pub kept: Duration,
    /// How long a provider may be silent, and how long the agent may take no bytes.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 64,
            body: 64 << 20,
            request: Duration::from_secs(60),
            kept: Duration::from_secs(300),
            idle: Duration::from_secs(600),
        }
    }
}

/// A provider that is asked in the agent's place.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// What it speaks.
    pub api: Api,
    /// Where it is.
    pub address: String,
    /// Its key.
    pub key: Secret,
}

/// Where a gateway listens.
#[derive(Debug, Clone, Copy)]
pub enum Listen<'a> {
    /// On this machine's loopback.
    Loopback,
    /// On a socket in this folder, which is made for it and goes with it; a bridge in the agent's sandbox leads there
    /// from this port.
    Folder(&'a Path, u16),
}

/// What a model costs, by its name.
pub type PriceOf = Box<dyn Fn(&str) -> Option<Price> + Send + Sync>;

/// What a gateway works with.
pub struct Options {
    /// Whom it can ask.
    pub upstreams: Vec<Upstream>,
    /// The task whose agent asks: what is replayed is replayed to each task from its beginning.
    pub task: String,
    /// Whether what passes is written down, or was.
    pub traffic: Traffic,
    /// What `PROVIDER/NAME` costs.
    pub price: PriceOf,
    /// What it takes on.
    pub limits: Limits,
}

/// Who is told what a turn's requests come to.
pub type Hear = Arc<dyn Fn(AgentNews) + Send + Sync>;

/// A gateway at work. Dropping it ends every connection; what was under way is told before.
pub struct Gateway {
    address: String,
    folder: Option<PathBuf>,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its address holds its token.
        f.debug_struct("Gateway").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// What all connections share.
struct Shared {
    token: String,
    port: u16,
    options: Options,
    door: Mutex<Door>,
    places: Arc<Semaphore>,
    used: Arc<AtomicBool>,
    /// When something of an answer last came.
    heard: Mutex<Instant>,
    clients: Mutex<BTreeMap<Api, reqwest::Client>>,
    /// Where the last request went, as it was written.
    last: Mutex<Option<(String, reqwest::Url)>>,
}

/// The way to the loop.
#[derive(Default)]
struct Door {
    /// The turn that is under way.
    hear: Option<Hear>,
    /// Requests that wait for a word, by their numbers.
    waiting: BTreeMap<u64, oneshot::Sender<Result<(), String>>>,
    last: u64,
}

impl Gateway {
    /// Begins to listen. No turn is under way yet.
    pub fn start(listen: Listen<'_>, options: Options) -> io::Result<Gateway> {
        let mut random = [0u8; 24];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let token: String = random[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let mut first = [0u8; 8];
        first.copy_from_slice(&random[16..]);
        let (bound, port, folder) = bind(listen)?;
        let shared = Arc::new(Shared {
            port,
            places: Arc::new(Semaphore::new(options.limits.connections)),
            options,
            // Numbers of different processes must not meet in one journal.
            door: Mutex::new(Door { last: u64::from_le_bytes(first) >> 1, ..Door::default() }),
            used: Arc::default(),
            heard: Mutex::new(Instant::now()),
            clients: Mutex::default(),
            last: Mutex::default(),
            token: token.clone(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("gateway".to_owned()).spawn(move || {
            runtime.block_on(async move {
                // A listener that cannot be used has nobody who could be told; agents find nobody there.
                let _ = network::first(
                    async {
                        let _ = stopped.await;
                    },
                    serve(bound, own),
                )
                .await;
            });
        })?;
        let address = format!("http://127.0.0.1:{port}/{token}");
        Ok(Gateway { address, folder, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// What the agent is told in place of its provider's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether anything was let through: an agent that asks past the gateway is not counted by it.
    pub fn used(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.used)
    }

    /// A turn of the agent begins: its requests are told to `hear`, and answered by [`Gateway::answer`].
    pub fn open(&self, hear: Hear) {
        self.shared.door().hear = Some(hear);
    }

    /// The turn has ended. Requests that wait are refused; those under way go on to their end.
    pub fn close(&self) {
        let mut door = self.shared.door();
        door.hear = None;
        // Whoever waits for a word that cannot come any more is refused.
        door.waiting.clear();
    }

    /// Whether a request waits for a word.
    pub fn waits(&self) -> bool {
        !self.shared.door().waiting.is_empty()
    }

    /// When something of an answer last came, or when the gateway was made.
    pub fn heard(&self) -> Instant {
        *self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether a request may be sent.
    pub fn answer(&self, request: u64, may: Result<(), String>) {
        let waiting = self.shared.door().waiting.remove(&request);
        if let Some(waiting) = waiting {
            // One that is gone misses it.
            let _ = waiting.send(may);
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl Shared {
    fn door(&self) -> MutexGuard<'_, Door> {
        // Each change is one assignment or one entry.
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks whether a request may be sent. Gives its number and who is told what it counts for.
    async fn ask(&self, bytes: u64) -> Result<(u64, Hear), String> {
        let (answered, request, hear) = {
            let mut door = self.door();
            let Some(hear) = door.hear.clone() else { return Err(no_turn()) };
            door.last += 1;
            let (sender, answered) = oneshot::channel();
            let request = door.last;
            door.waiting.insert(request, sender);
            (answered, request, hear)
        };
        hear(AgentNews::WouldAsk { request, bytes });
        let mut asking = Asking { shared: self, request, hear: Some(&hear) };
        if let Ok(may) = answered.await {
            asking.hear = None;
            may?;
            self.used.store(true, Ordering::Relaxed);
            return Ok((request, Arc::clone(&hear)));
        }
        Err(no_turn())
    }

    /// Something of an answer has come.
    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Where a request goes. Most go where the last one went, which is not understood anew.
    fn target(&self, url: String) -> Result<reqwest::Url, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((written, parsed)) = &*last
            && *written == url
        {
            return Ok(parsed.clone());
        }
        let parsed =
            reqwest::Url::parse(&url).map_err(|error| format!("its address is no URL: {error}"))?;
        *last = Some((url, parsed.clone()));
        Ok(parsed)
    }

    /// Makes a client for a provider, once.
    fn client(&self, api: Api, url: &reqwest::Url) -> Result<reqwest::Client, String> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&api) {
            return Ok(client.clone());
        }
        let client = crate::http::client_apart(url)?;
        clients.insert(api, client.clone());
        Ok(client)
    }
}

/// A request that waits for a word. If nobody waits any more, the loop is told that nothing came of it.
struct Asking<'a> {
    shared: &'a Shared,
    request: u64,
    hear: Option<&'a Hear>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.shared.door().waiting.remove(&self.request);
        if let Some(hear) = self.hear {
            let (request, model) = (self.request, String::new());
            hear(AgentNews::Passed { request, model, usage: Usage::default() });
        }
    }
}

/// The loop's own words for a request that belongs to no turn.
fn no_turn() -> String {
    let (budget, spend) = Default::default();
    gateway::may_ask(gateway::Turn::None, &budget, &spend).err().unwrap_or_default()
}

enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

fn bind(listen: Listen<'_>) -> io::Result<(Bound, u16, Option<PathBuf>)> {
    match listen {
        Listen::Loopback => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            Ok((Bound::Tcp(listener), port, None))
        }
        Listen::Folder(folder, port) => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let socket = folder.join(SOCKET);
            let listener =
                with_short_path(&socket, |path| std::os::unix::net::UnixListener::bind(path))?;
            std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok((Bound::Unix(listener), port, Some(folder.to_owned())))
        }
    }
}

/// Takes connections for as long as the gateway is there.
async fn serve(bound: Bound, shared: Arc<Shared>) -> io::Result<()> {
    enum Listener {
        Tcp(TcpListener),
        Unix(UnixListener),
    }
    let listener = match bound {
        Bound::Tcp(listener) => Listener::Tcp(TcpListener::from_std(listener)?),
        Bound::Unix(listener) => Listener::Unix(UnixListener::from_std(listener)?),
    };
    let own = rustix::process::geteuid().as_raw();
    loop {
        let accepted = match &listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                let _ = stream.set_nodelay(true);
                Some(Socket::Tcp(stream))
            }),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                let is_own = stream.peer_cred().is_ok_and(|peer| peer.uid() == own);
                is_own.then_some(Socket::Unix(stream))
            }),
        };
        match accepted {
            // Beyond the limit a connection is closed at once: its client tries again.
            Ok(Some(socket)) => {
                if let Ok(place) = Arc::clone(&shared.places).try_acquire_owned() {
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        exchange::serve(socket, &shared).await;
                        drop(place);
                    });
                }
            }
            Ok(None) => {}
            // Out of descriptors, most likely: those of other connections come back.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
