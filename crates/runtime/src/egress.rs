//! The only way out of a sandbox whose network is limited to named hosts.
//!
//! A sandbox has a network of its own with nothing in it but its loopback. Inside, [`bridge`] listens there and carries
//! each connection to a Unix socket that is bound into the sandbox; outside, a [`Proxy`] serves that socket: HTTP
//! (`CONNECT` and whole addresses) and SOCKS5. The list of hosts decides (`machine::policy::hosts`): a name is judged,
//! resolved once, and the connection goes to exactly an address that was judged.
//!
//! A box has few connections and each one blocks, so each has a thread.

mod guest;
mod inlet;
mod log;
mod plain;
mod pump;
mod reach;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use machine::policy::hosts::{Allowed, Decision, Manner, Passage};
use rustix::event::{PollFd, PollFlags, poll};

pub use log::{Entry, PassageLog, read_log};

use crate::socket::with_short_path;

/// The socket's name in its folder.
pub const SOCKET: &str = "egress.sock";

/// How long a proxy that is dropped waits for its connections to write their last word.
const FAREWELL: Duration = Duration::from_secs(2);

/// What one proxy takes on.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Entries in the log. Once they are used up, nothing more is allowed.
    pub passages: u64,
    /// How long a client may take for the head of its request.
    pub head: Duration,
    /// How long a name may take to resolve, and an address to answer.
    pub connect: Duration,
    /// How long a connection may be silent in both directions.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 128,
            passages: 50_000,
            head: Duration::from_secs(10),
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(300),
        }
    }
}

/// How names are resolved.
pub type Resolver = Box<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// How a proxy works; the default is right outside of tests.
pub struct Options {
    /// What it takes on.
    pub limits: Limits,
    /// Who resolves names.
    pub resolver: Resolver,
    /// What is expected of a connection to a port.
    pub manner: fn(u16) -> Manner,
}

impl Default for Options {
    fn default() -> Options {
        let resolver =
            |name: &str| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect());
        Options { limits: Limits::default(), resolver: Box::new(resolver), manner: Manner::of }
    }
}

/// A proxy at work. Dropping it ends the socket and every connection.
pub struct Proxy {
    socket: PathBuf,
    stop: UnixStream,
    listener: Option<std::thread::JoinHandle<()>>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Proxy").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Listens on [`SOCKET`] in `folder`, which is made if it is missing and is closed to everybody else. Each wish of
    /// a client is told to `log`.
    pub fn start(
        folder: &Path,
        allowed: Allowed,
        log: impl Fn(Passage) + Send + Sync + 'static,
    ) -> io::Result<Proxy> {
        Proxy::start_with(folder, allowed, Options::default(), log)
    }

    /// As [`Proxy::start`], with other limits or another resolver.
    pub fn start_with(
        folder: &Path,
        allowed: Allowed,
        options: Options,
        log: impl Fn(Passage) + Send + Sync + 'static,
    ) -> io::Result<Proxy> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        let socket = folder.join(SOCKET);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = with_short_path(&socket, |path| UnixListener::bind(path))?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let (stop, stopped) = UnixStream::pair()?;
        let shared = Arc::new(Shared {
            allowed,
            options,
            log: Box::new(log),
            passages: AtomicU64::new(0),
            open: Mutex::default(),
            left: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let listener = std::thread::Builder::new()
            .name("egress".to_owned())
            .spawn(move || listen(&listener, &stopped, &own))?;
        Ok(Proxy { socket, stop, listener: Some(listener), shared })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.stop.shutdown(Shutdown::Both);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let _ = fs::remove_file(&self.socket);
        self.shared.close();
    }
}

/// What all connections of a proxy share.
struct Shared {
    allowed: Allowed,
    options: Options,
    log: Box<dyn Fn(Passage) + Send + Sync>,
    passages: AtomicU64,
    open: Mutex<Open>,
    left: Condvar,
}

#[derive(Default)]
struct Open {
    closed: bool,
    next: u64,
    sockets: BTreeMap<u64, Socket>,
    clients: usize,
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        // What the lock guards is whole at every moment, so a panic elsewhere does not spoil it.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the log, unless it is full; the last entry says that it is. The end of what was allowed is always told
    /// and not counted: there are no more of these than of the others.
    fn note(&self, mut passage: Passage) {
        if passage.decision != Decision::Ended {
            let limit = self.options.limits.passages;
            let used = self.passages.fetch_add(1, Ordering::Relaxed);
            if used > limit {
                return;
            }
            if used == limit {
                passage.reason =
                    format!("the log is full after {limit} entries: more are refused and not told");
            }
        }
        passage.host = passage.host.chars().take(300).collect();
        (self.log)(passage);
    }

    fn is_full(&self) -> bool {
        self.passages.load(Ordering::Relaxed) >= self.options.limits.passages
    }

    /// Keeps a handle on a socket, so that closing the proxy ends it. Fails once the proxy is closed.
    fn hold(self: &Arc<Shared>, socket: Socket) -> io::Result<Held> {
        let mut open = self.open();
        if open.closed {
            return Err(io::Error::other("the proxy is closed"));
        }
        let id = open.next;
        open.next += 1;
        open.sockets.insert(id, socket);
        Ok(Held { shared: Arc::clone(self), id })
    }

    /// Ends every connection and waits until each has said its last word.
    fn close(&self) {
        let mut open = self.open();
        open.closed = true;
        for socket in open.sockets.values() {
            let _ = match socket {
                Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
                Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            };
        }
        let _ = self.left.wait_timeout_while(open, FAREWELL, |open| open.clients > 0);
    }
}

struct Held {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.open().sockets.remove(&self.id);
    }
}

/// Counts a client for as long as it is served.
struct Client(Arc<Shared>);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.open().clients -= 1;
        self.0.left.notify_all();
    }
}

fn listen(listener: &UnixListener, stopped: &UnixStream, shared: &Arc<Shared>) {
    loop {
        let mut waiting = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        match poll(&mut waiting, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        if !waiting[1].revents().is_empty() {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => admit(stream, shared),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors, most likely: those of other connections come back.
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Serves a client on a thread of its own, if there is room.
fn admit(stream: UnixStream, shared: &Arc<Shared>) {
    let same_user = rustix::net::sockopt::socket_peercred(&stream)
        .is_ok_and(|peer| peer.uid == rustix::process::geteuid());
    if !same_user || stream.set_nonblocking(false).is_err() {
        return;
    }
    {
        let mut open = shared.open();
        if open.clients >= shared.options.limits.connections {
            drop(open);
            shared.note(Passage {
                host: String::new(),
                port: 0,
                decision: Decision::Refused,
                reason: format!(
                    "more than {} connections at once",
                    shared.options.limits.connections
                ),
                bytes_up: 0,
                bytes_down: 0,
            });
            return;
        }
        open.clients += 1;
    }
    let client = Client(Arc::clone(shared));
    // If no thread can be had, the client is counted out again as its closure is dropped.
    let _ = std::thread::Builder::new().name("egress-client".to_owned()).spawn(move || {
        // A broken connection is its client's loss: what counts has been told to the log.
        let _ = guest::serve(&stream, &client.0);
    });
}

/// The most connections that a bridge carries at once.
const CARRIED: usize = 256;

/// Runs inside the sandbox: carries each connection to `listener` to the proxy's socket. Returns only if the listener
/// fails for good.
pub fn bridge(socket: &Path, listener: TcpListener) -> io::Result<()> {
    let carried = Arc::new(AtomicUsize::new(0));
    loop {
        let guest = match listener.accept() {
            Ok((guest, _)) => guest,
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK)
                ) =>
            {
                return Err(error);
            }
            Err(_) => {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
        };
        if carried.fetch_add(1, Ordering::Relaxed) >= CARRIED {
            carried.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (socket, counted) = (socket.to_owned(), Carried(Arc::clone(&carried)));
        let _ = std::thread::Builder::new().name("egress-bridge".to_owned()).spawn(move || {
            let counted = counted;
            if let Ok(proxy) = with_short_path(&socket, |path| UnixStream::connect(path)) {
                let _ = guest.set_nodelay(true);
                // The proxy ends what is idle; here nothing is known about a connection.
                let _ = pump::pump(&guest, &proxy, &[], None, &mut pump::Counts::default());
            }
            drop(counted);
        });
    }
}

struct Carried(Arc<AtomicUsize>);

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The variables that send the programs in a sandbox through a bridge on this port of its loopback.
pub fn variables(port: u16) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let own = "localhost,127.0.0.1,::1";
    // npm and cargo read their own variables before the common ones, so a user's settings do not lead past the bridge;
    // pip and yarn read theirs as options; node's own fetch looks at none of them unless told.
    let through = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "npm_config_proxy",
        "npm_config_https_proxy",
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
        "PIP_PROXY",
        "CARGO_HTTP_PROXY",
    ];
    let around = ["NO_PROXY", "no_proxy", "npm_config_noproxy"];
    let through = through.iter().map(|name| ((*name).to_owned(), proxy.clone()));
    let around = around.iter().map(|name| ((*name).to_owned(), own.to_owned()));
    let node = std::iter::once(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    through.chain(around).chain(node).collect()
}
