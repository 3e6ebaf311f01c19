//! The only HTTP client. One background thread drives the network for all calls; it starts with the first call,
//! and nothing of it exists before.
//!
//! A call blocks its own thread and gives it the answer chunk by chunk. It follows no redirect, asks for no
//! compression and stops at once when it is cancelled. What it says about a failure names the server, never
//! a header.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::future::{Future, pending, poll_fn};
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

pub use reqwest::Url;
use reqwest::header::{ACCEPT_ENCODING, CONNECTION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use crate::process::Cancel;
use crate::providers::Secret;

/// How long a connection, its encryption included, may take to come about.
const CONNECT: Duration = Duration::from_secs(30);

/// How often a wait looks whether it was cancelled, where it cannot be woken.
const GLANCE: Duration = Duration::from_millis(20);

/// How long the end of an answer is waited for after its last event: an encrypted connection read to its end can be
/// used again.
const LINGER: Duration = Duration::from_millis(20);

/// How long the body of an answer that is an error may take.
const ERROR_PATIENCE: Duration = Duration::from_secs(30);

/// How long a call may take, part by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the beginning to the first chunk that counts.
    pub first: Duration,
    /// Between two chunks that count.
    pub idle: Duration,
    /// The whole call.
    pub total: Duration,
    /// The most bytes that are read of an answer that is an error.
    pub error_body: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            first: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(3600),
            error_body: 64 << 10,
        }
    }
}

/// What a chunk meant to whoever reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    /// It carried something: the time allowed for silence begins again.
    Counted,
    /// Only that the connection lives; the time for silence runs on.
    Empty,
    /// Nothing more is wanted.
    Last,
}

/// An answer that was read as far as it was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its status.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body if the status is not 200, as far as the limits allow; else it went to the reader.
    pub body: Vec<u8>,
}

/// Why there is no whole answer. Exhaustive on purpose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The request cannot be sent at all, now or later.
    #[error("{0}")]
    Unusable(String),
    /// No answer began.
    #[error("cannot reach {origin}: {reason}")]
    Unreachable {
        /// The server.
        origin: String,
        /// Why not.
        reason: String,
    },
    /// The connection broke inside the answer.
    #[error("the connection to {origin} broke: {reason}")]
    Broken {
        /// The server.
        origin: String,
        /// Why.
        reason: String,
    },
    /// Nothing that counts came for too long.
    #[error("{origin} sent nothing for {} s", after.as_secs_f32())]
    Silent {
        /// The server.
        origin: String,
        /// How long was waited.
        after: Duration,
    },
    /// The whole call took too long.
    #[error("{origin} was not done after {} s", after.as_secs_f32())]
    TooLong {
        /// The server.
        origin: String,
        /// How long was waited.
        after: Duration,
    },
    /// Somebody cancelled the call.
    #[error("the call was stopped")]
    Cancelled,
}

/// The header that carries a key.
#[derive(Debug, Clone, Copy)]
pub struct KeyHeader<'a> {
    /// The header, in lower case.
    pub name: &'a str,
    /// What stands before the key.
    pub prefix: &'a str,
    /// The key.
    pub key: &'a Secret,
}

/// Sends a request and waits for the answer, on the thread that calls. `on_chunk` gets the body of an answer with
/// status 200 as it comes and says what each chunk meant; the body of any other answer is in [`Finished`].
///
/// Must not be called from inside an asynchronous runtime.
pub fn post(
    url: &str,
    headers: &[(String, String)],
    key: Option<KeyHeader<'_>>,
    body: Vec<u8>,
    limits: Limits,
    cancel: &Cancel,
    on_chunk: &mut dyn FnMut(&[u8]) -> Chunk,
) -> Result<Finished, TransportError> {
    let unusable = |reason: String| TransportError::Unusable(reason);
    let url = Url::parse(url).map_err(|error| unusable(format!("{url:?} is no URL: {error}")))?;
    let mut headers = header_map(headers, key)?;
    if url.scheme() == "http" {
        // Some servers promise to keep a connection and close it: the next question would be lost. In the clear a
        // new connection costs next to nothing.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let (handle, client) = client_for(&url).map_err(unusable)?;
    let call = Call { origin: url.origin().ascii_serialization(), limits, started: Instant::now() };
    let request = client.post(url).headers(headers).body(body);
    handle.block_on(async {
        let work = pin!(call.perform(request, on_chunk));
        // What is dropped unfinished closes its connection.
        first(triggered(cancel), work).await.unwrap_or(Err(TransportError::Cancelled))
    })
}

/// Whether a URL points to this machine.
pub fn is_loopback(url: &Url) -> bool {
    // The host of an IPv6 address stands in brackets.
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    }
}

struct Call {
    origin: String,
    limits: Limits,
    started: Instant,
}

impl Call {
    async fn perform(
        &self,
        request: reqwest::RequestBuilder,
        on_chunk: &mut dyn FnMut(&[u8]) -> Chunk,
    ) -> Result<Finished, TransportError> {
        let mut counted = Waiting { since: self.started, limit: self.limits.first };
        let mut response = self.within(&counted, request.send()).await?.map_err(|error| {
            let (origin, reason) = (self.origin.clone(), reason(error));
            TransportError::Unreachable { origin, reason }
        })?;
        let mut finished = Finished {
            status: response.status().as_u16(),
            headers: plain_headers(response.headers()),
            body: Vec::new(),
        };
        if finished.status != 200 {
            finished.body = self.error_body(&mut response).await;
            return Ok(finished);
        }
        loop {
            let chunk = self.within(&counted, response.chunk()).await?.map_err(|error| {
                let (origin, reason) = (self.origin.clone(), reason(error));
                TransportError::Broken { origin, reason }
            })?;
            let Some(chunk) = chunk else { return Ok(finished) };
            match on_chunk(&chunk) {
                Chunk::Counted => {
                    counted = Waiting { since: Instant::now(), limit: self.limits.idle };
                }
                Chunk::Empty => {}
                Chunk::Last => {
                    // Whether the end comes or not changes nothing for this call.
                    let _ = tokio::time::timeout(LINGER, response.chunk()).await;
                    return Ok(finished);
                }
            }
        }
    }

    /// The future's end, unless the silence or the whole call lasts too long before it.
    async fn within<T>(
        &self,
        waiting: &Waiting,
        future: impl Future<Output = T>,
    ) -> Result<T, TransportError> {
        let silence = waiting.limit.saturating_sub(waiting.since.elapsed());
        let rest = self.limits.total.saturating_sub(self.started.elapsed());
        let origin = self.origin.clone();
        tokio::time::timeout(silence.min(rest), future).await.map_err(|_| {
            if rest <= silence {
                TransportError::TooLong { origin, after: self.limits.total }
            } else {
                TransportError::Silent { origin, after: waiting.limit }
            }
        })
    }

    /// As much of the body as comes in time and fits: the status alone already says that it failed.
    async fn error_body(&self, response: &mut Response) -> Vec<u8> {
        let (mut body, most) = (Vec::new(), self.limits.error_body);
        let until = ERROR_PATIENCE.min(self.limits.idle);
        let _ = tokio::time::timeout(until, async {
            while let Ok(Some(chunk)) = response.chunk().await {
                let room = most - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() >= room {
                    break;
                }
            }
        })
        .await;
        body
    }
}

/// Since when, and how long, nothing may come that counts.
struct Waiting {
    since: Instant,
    limit: Duration,
}

/// The second future's end; none if the first ends before.
pub(crate) async fn first<T>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    poll_fn(|context| {
        if stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// Ends once the handle is triggered.
pub(crate) async fn triggered(cancel: &Cancel) {
    let event = cancel.event().and_then(watch);
    while !cancel.is_triggered() {
        match &event {
            Some(event) => match event.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => tokio::time::sleep(GLANCE).await,
            },
            None => tokio::time::sleep(GLANCE).await,
        }
    }
}

/// The descriptor, so that waiting for it costs nothing. A handle that another call watches cannot be watched twice.
#[allow(unsafe_code)]
fn watch(event: BorrowedFd<'_>) -> Option<AsyncFd<BorrowedFd<'_>>> {
    // SAFETY: a borrowed descriptor is valid and stays open and the same for its lifetime, which is that of
    // the value made here.
    unsafe { AsyncFd::register_with_interest(event, Interest::READABLE) }.ok()
}

fn header_map(
    headers: &[(String, String)],
    key: Option<KeyHeader<'_>>,
) -> Result<HeaderMap, TransportError> {
    let wrong = |what: &str| TransportError::Unusable(format!("{what} cannot be sent as a header"));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(name))?;
        map.insert(parsed, HeaderValue::from_str(value).map_err(|_| wrong(name))?);
    }
    map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(KeyHeader { name, prefix, key }) = key {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(name))?;
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.reveal()))
            .map_err(|_| wrong("the key"))?;
        value.set_sensitive(true);
        map.insert(parsed, value);
    }
    Ok(map)
}

/// Headers of a server that another client speaks to: what they hold is never shown.
pub(crate) fn secret_headers(
    headers: &[(String, Secret)],
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let wrong = |name: &str| format!("the header {name:?} cannot be sent");
    let mut map = HashMap::new();
    for (name, secret) in headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(name))?;
        let mut value = HeaderValue::from_str(secret.reveal()).map_err(|_| wrong(name))?;
        value.set_sensitive(true);
        map.insert(parsed, value);
    }
    Ok(map)
}

fn plain_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// The innermost cause: the outer ones say no more than that a request failed.
fn reason(error: reqwest::Error) -> String {
    if error.is_timeout() && error.is_connect() {
        return format!("no connection within {} s", CONNECT.as_secs());
    }
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// What all calls share once the first was made.
#[derive(Debug)]
struct Engine {
    handle: Handle,
    clients: BTreeMap<Reach, Client>,
}

/// Which client a URL needs. No proxy is asked to reach this machine, and certificates are not loaded for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// This machine, in the clear.
    Here,
    /// This machine, encrypted.
    HereEncrypted,
    /// Any other.
    Away,
}

static ENGINE: Mutex<Option<Engine>> = Mutex::new(None);

/// The thread that drives the network, started if it is the first time.
pub(crate) fn network() -> Result<Handle, String> {
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*engine {
        Some(engine) => Ok(engine.handle.clone()),
        None => {
            let handle = start()?;
            *engine = Some(Engine { handle: handle.clone(), clients: BTreeMap::new() });
            Ok(handle)
        }
    }
}

/// The client that reaches the URL, made if it is the first of its kind.
pub(crate) fn client_for(url: &Url) -> Result<(Handle, Client), String> {
    let reach = match (is_loopback(url), url.scheme()) {
        (true, "http") => Reach::Here,
        (true, _) => Reach::HereEncrypted,
        (false, _) => Reach::Away,
    };
    // Each change is one assignment or one insert, so the engine is whole after any panic.
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = match &mut *engine {
        Some(engine) => engine,
        none => none.insert(Engine { handle: start()?, clients: BTreeMap::new() }),
    };
    let client = match engine.clients.entry(reach) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => place.insert(build(reach)?),
    };
    Ok((engine.handle.clone(), client.clone()))
}

/// Starts the thread that drives the network. It ends with the process.
fn start() -> Result<Handle, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the network cannot be used: {error}"))?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("network".to_owned())
        .spawn(move || runtime.block_on(pending::<()>()))
        .map_err(|error| format!("no thread can be started for the network: {error}"))?;
    Ok(handle)
}

/// Makes a client: the one place that does, and that chooses who encrypts.
fn build(reach: Reach) -> Result<Client, String> {
    // Somebody else's choice, made before, is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("drivetrain/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT);
    let builder = match reach {
        Reach::Here => builder.no_proxy().tls_certs_only([]),
        Reach::HereEncrypted => builder.no_proxy(),
        Reach::Away => builder,
    };
    builder.build().map_err(|error| {
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        format!(
            "encrypted connections cannot be used: {reason}; install the system's certificates or set SSL_CERT_FILE"
        )
    })
}
