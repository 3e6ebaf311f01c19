//! The fake model: a script served over HTTP on this machine alone, in every dialect.
//!
//! What it says is decided in `wire::model::script`; here are the socket, one thread a connection, and the
//! waits. All connections play the same script: whoever asks next gets its next reply. Besides the dialects'
//! own paths there are two for tests, `GET /requests` and `POST /reset`.

pub mod acp_agent;
pub mod agent;
mod http;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use wire::model::script::{self, Delivery, Ending, Player, Route, Script, Served};

use crate::library::LibraryError;
use http::{Connection, Next, Request, Stop};

/// The largest script that is read.
const MAX_SCRIPT: u64 = 4 << 20;
/// How much of what was asked is remembered; the oldest is forgotten first.
const MAX_REQUESTS: usize = 10_000;
const MAX_REMEMBERED: usize = 64 << 20;

/// How long a client may go on sending after the last answer; one too many holds up the others meanwhile.
const LINGER: Duration = Duration::from_secs(2);
const SURPLUS_LINGER: Duration = Duration::from_millis(50);

/// What is served, for people who ask for something else.
const ROUTES: &[(&str, &str, Option<Served>)] = &[
    ("POST", "/v1/messages", Some(Served::AnthropicMessages)),
    ("POST", "/v1/chat/completions", Some(Served::OpenAiChat)),
    ("POST", "/v1/responses", Some(Served::OpenAiResponses)),
    ("POST", "/v1beta/models/MODEL:generateContent", Some(Served::GoogleGenerate)),
    ("POST", "/v1beta/models/MODEL:streamGenerateContent", Some(Served::GoogleGenerate)),
    ("POST", "/mistral/v1/chat/completions", Some(Served::Mistral)),
    ("GET", REQUESTS, None),
    ("POST", RESET, None),
];
const REQUESTS: &str = "/requests";
const RESET: &str = "/reset";

/// How many clients are served, and how long they may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; one more is told so and closed.
    pub connections: usize,
    /// Silence between two requests.
    pub idle: Duration,
    /// A request line and its headers.
    pub head: Duration,
    /// A body.
    pub body: Duration,
    /// A write that the client does not take.
    pub write: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 64,
            idle: Duration::from_secs(60),
            head: Duration::from_secs(10),
            body: Duration::from_secs(60),
            write: Duration::from_secs(30),
        }
    }
}

/// Reads a script's file.
pub fn load(path: &Path) -> Result<Script, LibraryError> {
    let unreadable = |reason: String| LibraryError::Unreadable { path: path.to_owned(), reason };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_SCRIPT + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MAX_SCRIPT {
        return Err(unreadable(format!("it is larger than {MAX_SCRIPT} bytes")));
    }
    let name = path.display().to_string();
    let text = machine::file::decode(&bytes, &name).map_err(LibraryError::Source)?;
    Script::parse(text, &name).map_err(LibraryError::Source)
}

/// A server that listens. It serves once [`Fake::serve`] is called; until then clients wait.
#[derive(Debug)]
pub struct Fake {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    limits: Limits,
    open: AtomicUsize,
    state: Mutex<State>,
}

/// What all connections share. Under one lock, so that the requests stand in the order of the turns.
#[derive(Debug)]
struct State {
    player: Player,
    asked: VecDeque<Asked>,
    /// Bytes of `asked`.
    remembered: usize,
    forgotten: u64,
}

/// A request as it is remembered: without secrets.
#[derive(Debug)]
struct Asked {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    dialect: Option<Served>,
    turn: Option<u64>,
}

impl Fake {
    /// Listens on a port of 127.0.0.1, on any free one if it is 0.
    pub fn bind(script: Script, port: u16, limits: Limits) -> io::Result<Fake> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let state = Mutex::new(State::new(&script));
        let shared = Arc::new(Shared { script, limits, open: AtomicUsize::new(0), state });
        Ok(Fake { listener, address, shared })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What clients take as their base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked so far: the same as `GET /requests` gives.
    pub fn requests(&self) -> Value {
        self.shared.lock().asked()
    }

    /// Serves for as long as the process lives.
    pub fn serve(&self) {
        for stream in self.listener.incoming() {
            match stream {
                Ok(stream) => self.accept(stream),
                // Too many files are open, most likely: some will be closed.
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn accept(&self, stream: TcpStream) {
        let most = self.shared.limits.connections;
        let Ok(mut connection) = Connection::new(stream, self.shared.limits) else { return };
        let taken = self.shared.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
            (open < most).then_some(open + 1)
        });
        if taken.is_err() {
            let message = format!("{most} connections are open: no more are served at a time");
            // A client that is gone needs no answer.
            let _ = connection.refuse(503, &trouble("overloaded", &message));
            return connection.close(SURPLUS_LINGER);
        }
        let slot = Slot(self.shared.clone());
        let attend = move || slot.0.attend(connection);
        // Without a thread the connection is closed, and its slot given back.
        let _ = std::thread::Builder::new().name("fake model".to_owned()).spawn(attend);
    }
}

/// The place of a connection; given back however it ends.
struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    /// Serves a connection to its end.
    fn attend(&self, mut connection: Connection) {
        loop {
            let next = match connection.next() {
                Ok(request) => self.answer(&mut connection, &request),
                Err(Stop::Closed) => return,
                Err(Stop::Refused(status, message)) => connection
                    .refuse(status, &trouble("invalid_request", &message))
                    .map(|()| Next::Close),
            };
            match next {
                Ok(Next::Request) => {}
                Ok(Next::Close) => return connection.close(LINGER),
                Ok(Next::Cut) => return connection.cut(),
                // The client is gone.
                Err(_) => return,
            }
        }
    }

    fn answer(&self, connection: &mut Connection, request: &Request) -> io::Result<Next> {
        let path = request.target.split(['?', '#']).next().unwrap_or_default();
        match (request.method.as_str(), path) {
            (_, REQUESTS | RESET) if !is_meant_for_us(request) => {
                let message = "ask for this by the address 127.0.0.1 or the name localhost";
                document(connection, request, 403, None, &trouble("forbidden", message))
            }
            ("GET" | "HEAD", REQUESTS) => {
                let body = self.lock().asked().to_string().into_bytes();
                document(connection, request, 200, None, &body)
            }
            ("POST", RESET) => {
                *self.lock() = State::new(&self.script);
                document(connection, request, 200, None, json!({ "v": 1 }).to_string().as_bytes())
            }
            (_, REQUESTS) => wrong_method(connection, request, "GET, HEAD"),
            (_, RESET) => wrong_method(connection, request, "POST"),
            (method, _) => match script::route(method, &request.target) {
                Some(route) => self.play(connection, request, &route),
                None => {
                    self.lock().remember(request, None, None);
                    if script::route("POST", &request.target).is_some() {
                        return wrong_method(connection, request, "POST");
                    }
                    let message = format!("nothing is served at {method} {path}");
                    document(connection, request, 404, None, &trouble("not_found", &message))
                }
            },
        }
    }

    /// Gives the script's next turn, in the dialect of the route.
    fn play(
        &self,
        connection: &mut Connection,
        request: &Request,
        route: &Route,
    ) -> io::Result<Next> {
        let asked = match script::read(route, &request.body) {
            Ok(asked) => asked,
            Err(failure) => {
                self.lock().remember(request, Some(route.dialect), None);
                let wrong = script::render_failure(&failure, route.dialect);
                return connection.reply(
                    request,
                    wrong.status,
                    &wrong.headers,
                    &wrong.chunks.concat(),
                );
            }
        };
        let turn = {
            let mut state = self.lock();
            let aside = if asked.offers_tools { None } else { state.player.aside() };
            match aside {
                Some(turn) => {
                    state.remember(request, Some(route.dialect), None);
                    turn
                }
                None => {
                    let turn = state.player.next(&asked.text);
                    let number = state.player.position().turns;
                    state.remember(request, Some(route.dialect), Some(number));
                    turn
                }
            }
        };
        let delivery = script::deliver(&turn, route.dialect, &asked.model, asked.mode);
        send(connection, request, &delivery)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in between costs at most a turn or an entry; both stay whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a turn, with its waits and its faults.
fn send(connection: &mut Connection, request: &Request, delivery: &Delivery) -> io::Result<Next> {
    let Delivery { delay, rendered, stall, drip, ending } = delivery;
    connection.pause(*delay)?;
    if *ending == Ending::HangUp {
        return Ok(Next::Cut);
    }
    let is_stream = http::header(&rendered.headers, "content-type") == Some("text/event-stream");
    if !is_stream && stall.is_none() && *ending == Ending::Whole {
        let body = rendered.chunks.concat();
        return connection.reply(request, rendered.status, &rendered.headers, &body);
    }
    connection.begin(request, rendered.status, &rendered.headers)?;
    for (at, chunk) in rendered.chunks.iter().enumerate() {
        if let Some((before, silence)) = stall
            && *before == at
        {
            connection.pause(*silence)?;
        }
        connection.pause(*drip)?;
        connection.piece(chunk)?;
    }
    if let Some((before, silence)) = stall
        && *before >= rendered.chunks.len()
    {
        connection.pause(*silence)?;
    }
    match ending {
        Ending::Whole => connection.end(request),
        Ending::Cut | Ending::HangUp => Ok(Next::Cut),
    }
}

impl State {
    fn new(script: &Script) -> State {
        State {
            player: Player::new(script.clone()),
            asked: VecDeque::new(),
            remembered: 0,
            forgotten: 0,
        }
    }

    fn remember(&mut self, request: &Request, dialect: Option<Served>, turn: Option<u64>) {
        let headers = request.headers.iter().filter(|(name, _)| !is_secret(name));
        let asked = Asked {
            method: request.method.clone(),
            path: without_secrets(&request.target),
            headers: headers.cloned().collect(),
            body: request.body.clone(),
            dialect,
            turn,
        };
        self.remembered += asked.size();
        self.asked.push_back(asked);
        // The newest stays, however large it is.
        while self.asked.len() > 1
            && (self.asked.len() > MAX_REQUESTS || self.remembered > MAX_REMEMBERED)
        {
            let oldest = self.asked.pop_front();
            self.remembered -= oldest.map_or(0, |oldest| oldest.size());
            self.forgotten += 1;
        }
    }

    fn asked(&self) -> Value {
        let requests: Vec<Value> = self.asked.iter().map(Asked::json).collect();
        json!({ "v": 1, "requests": requests, "forgotten": self.forgotten })
    }
}

impl Asked {
    fn size(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        self.path.len() + headers.sum::<usize>() + self.body.len()
    }

    fn json(&self) -> Value {
        let mut headers = Map::new();
        for (name, value) in &self.headers {
            match headers.get_mut(name) {
                Some(Value::String(known)) => known.push_str(&format!(", {value}")),
                _ => drop(headers.insert(name.clone(), Value::from(value.as_str()))),
            }
        }
        let body = match serde_json::from_slice(&self.body) {
            Ok(body) => body,
            Err(_) if self.body.is_empty() => Value::Null,
            Err(_) => Value::from(String::from_utf8_lossy(&self.body)),
        };
        json!({
            "method": self.method,
            "path": self.path,
            "headers": headers,
            "body": body,
            "dialect": self.dialect.map(Served::name),
            "turn": self.turn,
        })
    }
}

/// Whether a header or a parameter of this name may carry a key.
fn is_secret(name: &str) -> bool {
    const MARKS: &[&str] =
        &["auth", "key", "token", "secret", "cookie", "password", "credential", "signature"];
    let name = name.to_ascii_lowercase();
    name != "idempotency-key" && MARKS.iter().any(|mark| name.contains(mark))
}

/// A target whose query has no keys in it: one dialect takes them there.
fn without_secrets(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=-"),
        _ => parameter.to_owned(),
    });
    format!("{path}?{}", parameters.collect::<Vec<_>>().join("&"))
}

/// Whether a request names this machine. A page in a browser can make any other name lead here, and then read
/// what was asked.
fn is_meant_for_us(request: &Request) -> bool {
    let host = http::header(&request.headers, "host").unwrap_or("localhost");
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

fn wrong_method(connection: &mut Connection, request: &Request, allowed: &str) -> io::Result<Next> {
    let message = format!("this takes {allowed}, not {}", request.method);
    document(connection, request, 405, Some(allowed), &trouble("method_not_allowed", &message))
}

fn document(
    connection: &mut Connection,
    request: &Request,
    status: u16,
    allowed: Option<&str>,
    body: &[u8],
) -> io::Result<Next> {
    let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    headers.extend(allowed.map(|allowed| ("allow".to_owned(), allowed.to_owned())));
    connection.reply(request, status, &headers, body)
}

/// An error that is the server's and no dialect's, with what could be asked for.
fn trouble(kind: &str, message: &str) -> Vec<u8> {
    let route = |(method, path, dialect): &(&str, &str, Option<Served>)| json!({ "method": method, "path": path, "dialect": dialect.map(Served::name) });
    let routes: Vec<Value> = ROUTES.iter().map(route).collect();
    let body = json!({ "error": { "type": kind, "message": message }, "routes": routes });
    body.to_string().into_bytes()
}
