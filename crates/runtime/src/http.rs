//! The only HTTP client. A call gives its reader the answer as it comes. It follows no redirect, asks for no
//! compression, unpacks gzip all the same, and stops at once when it is dropped. What it says about a failure names the server, never
//! a header.
//!
//! Servers on this machine are reached in the clear by `plain`; all others by a library that knows encryption and
//! proxies.

mod pace;
mod plain;
mod unpack;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use reqwest::Url;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};
use rustls::CertificateError;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use wire::model::HttpRequest;

use crate::network;
use crate::process::Cancel;
use crate::providers::Secret;
use unpack::{Unpacker, unpacked};

/// Who asks.
const AGENT: &str = concat!("drivetrain/", env!("CARGO_PKG_VERSION"));

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
    /// The same while chunks come that show work on what is not shown.
    pub busy: Duration,
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
            busy: Duration::from_secs(900),
            total: Duration::from_secs(3600),
            error_body: 64 << 10,
        }
    }
}

/// What a chunk meant to whoever reads the answer; of several, the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chunk {
    /// Only that the connection lives; the time for silence runs on.
    Empty,
    /// A part of what may carry something: the time allowed for silence begins again, as long as it was.
    Part,
    /// Nothing yet, but that the server works on it: silence may last longer, though not for ever.
    Busy,
    /// It carried something: the time allowed for silence begins again.
    Counted,
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

/// Who reads an answer with status 200: gets its body as it comes and says what each piece meant.
pub type Reader<'a> = &'a mut (dyn FnMut(&[u8]) -> Chunk + Send);

/// Sends a request and waits for the answer; dropped, it closes its connection. `reader` gets the body of an answer
/// with status 200; the body of any other answer is in [`Finished`].
pub(crate) async fn exchange(
    url: &str,
    request: HttpRequest,
    key: Option<KeyHeader<'_>>,
    limits: Limits,
    reader: Reader<'_>,
) -> Result<Finished, TransportError> {
    let started = Instant::now();
    let unusable = |reason: String| TransportError::Unusable(reason);
    let url = Url::parse(url).map_err(|error| unusable(format!("{url:?} is no URL: {error}")))?;
    let call = Call { origin: url.origin().ascii_serialization(), limits, started };
    let _place = network::place().await;
    if is_loopback(&url) && url.scheme() == "http" {
        return plain::perform(&call, &url, key, request, reader).await;
    }
    // A connection that its server closed meanwhile is found out before it is used again.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    let headers = header_map(&request.headers, key)?;
    let client = client_for(&url).map_err(unusable)?;
    let proxy = proxy_variable(&url);
    let request = client.post(url).headers(headers).body(request.whole());
    // Large, and not every call needs it.
    let answered = Box::pin(call.perform(request, reader)).await;
    answered.map_err(|error| match (error, proxy) {
        (TransportError::Unreachable { origin, reason }, Some(name)) => {
            let reason = format!("{reason}; {name} names a proxy to go through");
            TransportError::Unreachable { origin, reason }
        }
        (error, _) => error,
    })
}

/// The variable that names a proxy on the way to a URL: what cannot be reached may be the proxy, and errors name only the server.
fn proxy_variable(url: &Url) -> Option<&'static str> {
    let names = match url.scheme() {
        "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    names.into_iter().find(is_set).filter(|_| !is_loopback(url))
}

/// The same on this thread, until it is cancelled. Must not be called from inside an asynchronous runtime.
pub fn post(
    url: &str,
    request: HttpRequest,
    key: Option<KeyHeader<'_>>,
    limits: Limits,
    cancel: &Cancel,
    reader: Reader<'_>,
) -> Result<Finished, TransportError> {
    let exchange = exchange(url, request, key, limits, reader);
    let ended = network::wait(network::first(triggered(cancel), exchange));
    ended.map_err(TransportError::Unusable)?.unwrap_or(Err(TransportError::Cancelled))
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
        reader: Reader<'_>,
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
            let body = self.error_body(&mut response).await;
            finished.body = unpacked(&mut finished.headers, body, self.limits.error_body);
            return Ok(finished);
        }
        let mut unpacker = Unpacker::new(&mut finished.headers, reader);
        loop {
            let chunk = self.within(&counted, response.chunk()).await?.map_err(|error| {
                let (origin, reason) = (self.origin.clone(), reason(error));
                TransportError::Broken { origin, reason }
            })?;
            let Some(chunk) = chunk else {
                return self.unless_damaged(unpacker.damage(), finished);
            };
            match unpacker.take(&chunk) {
                Chunk::Counted => {
                    counted = Waiting { since: Instant::now(), limit: self.limits.idle };
                }
                Chunk::Part => counted.since = Instant::now(),
                Chunk::Busy => counted.grow(&self.limits),
                Chunk::Empty => {}
                Chunk::Last => {
                    // Whether the end comes or not changes nothing for this call.
                    let _ = tokio::time::timeout(LINGER, response.chunk()).await;
                    return self.unless_damaged(unpacker.damage(), finished);
                }
            }
        }
    }

    fn unless_damaged(
        &self,
        damage: Option<String>,
        finished: Finished,
    ) -> Result<Finished, TransportError> {
        let broken = |reason| TransportError::Broken { origin: self.origin.clone(), reason };
        damage.map(broken).map_or(Ok(finished), Err)
    }

    /// The future's end, unless the silence or the whole call lasts too long before it.
    async fn within<T>(
        &self,
        waiting: &Waiting,
        future: impl Future<Output = T>,
    ) -> Result<T, TransportError> {
        let until = self.until(waiting);
        tokio::time::timeout_at(until.into(), future).await.map_err(|_| self.late(waiting))
    }

    /// When it is too late.
    fn until(&self, waiting: &Waiting) -> Instant {
        (waiting.since + waiting.limit).min(self.started + self.limits.total)
    }

    /// What is too late, if anything is.
    fn overdue(&self, waiting: &Waiting) -> Option<TransportError> {
        (Instant::now() >= self.until(waiting)).then(|| self.late(waiting))
    }

    fn late(&self, waiting: &Waiting) -> TransportError {
        let origin = self.origin.clone();
        if self.started + self.limits.total <= waiting.since + waiting.limit {
            TransportError::TooLong { origin, after: self.limits.total }
        } else {
            TransportError::Silent { origin, after: waiting.limit }
        }
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

impl Waiting {
    /// The server shows that it works: it may be silent from now on for as long as ever, up to the longest time.
    fn grow(&mut self, limits: &Limits) {
        let limit = (self.since.elapsed() + limits.idle).min(limits.busy);
        self.limit = self.limit.max(limit);
    }
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
    let wrong = not_a_header;
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

fn not_a_header(what: &str) -> TransportError {
    TransportError::Unusable(format!("{what} cannot be sent as a header"))
}

pub(crate) fn plain_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// The innermost cause: the outer ones say no more than that a request failed.
pub(crate) fn reason(error: reqwest::Error) -> String {
    if error.is_timeout() && error.is_connect() {
        return format!("no connection within {} s", CONNECT.as_secs());
    }
    let error = error.without_url();
    let mut cause: &(dyn std::error::Error + 'static) = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    unencrypted(cause).unwrap_or_else(|| cause.to_string())
}

/// Why nothing could be said under encryption, where more can be said of it than its error says.
fn unencrypted(mut cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    // An error of a socket hides what it is made of from its chain.
    while let Some(inner) = cause.downcast_ref::<std::io::Error>().and_then(|it| it.get_ref()) {
        cause = inner;
    }
    match cause.downcast_ref()? {
        // A server that spoke without encryption: that reads like a message of a kind that does not exist.
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            Some("what it says is not encrypted: it may be a server for http://".to_owned())
        }
        rustls::Error::InvalidCertificate(error) => Some(unbelieved(error)),
        _ => None,
    }
}

/// Why a certificate is not believed.
fn unbelieved(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "nobody whom this machine believes vouches for its certificate; SSL_CERT_FILE may name a file of \
             those who are to be believed, such as a company's proxy"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired, by the clock of this machine".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet, by the clock of this machine".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            // Each as `DnsName("example.org")`.
            let names = presented.iter().map(|name| name.split('"').nth(1).unwrap_or(name));
            let names: Vec<&str> = names.take(5).collect();
            format!("its certificate is for {}, not for {}", names.join(", "), expected.to_str())
        }
        other => format!("its certificate cannot be believed: {other}"),
    }
}

/// Which client a URL needs. No proxy is asked to reach this machine, and certificates are not loaded for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// This machine, in the clear.
    HereInTheClear,
    /// This machine, encrypted.
    Here,
    /// Any other.
    Away,
}

static CLIENTS: Mutex<BTreeMap<Reach, Client>> = Mutex::new(BTreeMap::new());

/// A client that shares no connection with others: a connection lives on the loop that it began on.
pub(crate) fn client_apart(url: &Url) -> Result<Client, String> {
    build(match (is_loopback(url), url.scheme()) {
        (true, "http") => Reach::HereInTheClear,
        (true, _) => Reach::Here,
        (false, _) => Reach::Away,
    })
}

/// The client that reaches the URL, made if it is the first of its kind.
fn client_for(url: &Url) -> Result<Client, String> {
    let reach = if is_loopback(url) { Reach::Here } else { Reach::Away };
    // Each change is one insert, so the map is whole after any panic.
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let client = match clients.entry(reach) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => place.insert(build(reach)?),
    };
    Ok(client.clone())
}

/// Makes a client: the one place that does, and that chooses who encrypts.
fn build(reach: Reach) -> Result<Client, String> {
    // Somebody else's choice, made before, is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT);
    let builder = match reach {
        Reach::HereInTheClear => builder.no_proxy().tls_certs_only([]),
        Reach::Here => builder.no_proxy(),
        Reach::Away => builder,
    };
    builder.build().map_err(|error| {
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        format!(
            "encrypted connections cannot be used: {reason}; install the system's certificates or set SSL_CERT_FILE"
        )
    })
}
