//! One connection to one server: its process or its address, the talk with it, and its end.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use machine::file::mcp::{Reach, Server, expand};
use machine::server::{Claim, Limits, ServerTools, offers};
use machine::task::Workspace;
use machine::time::Span;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    Implementation, PaginatedRequestParams, ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer,
    RoleClient, RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use serde_json::Value;
use tokio::net::unix::pipe;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::engine;
use crate::http;
use crate::network;
use crate::process::{Cancel, Child, ProcessSpec};
use crate::providers::{Secret, is_provider_key};

/// The longest line, and the largest event, that is read.
const MAX_MESSAGE: usize = 8 << 20;
/// The most pages of a list of tools, and the most tools on all of them.
const MAX_PAGES: usize = 64;
const MAX_LISTED: usize = 4096;
/// How long a server may take to end by itself.
const GRACE: Duration = Duration::from_millis(500);
/// How long a list may settle before it is asked for again, and how often it is at all.
const SETTLE: Duration = Duration::from_millis(200);
const MOST_CHANGES: usize = 100;
/// How much of its error output a report shows, in characters from the end.
const STDERR_SHOWN: usize = 2000;

/// Hears the new list.
pub(super) type Signal = Box<dyn Fn(ServerTools) + Send + Sync>;

/// Where a server works, and for whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) task: &'a str,
    pub(super) folder: &'a Path,
    pub(super) workspace: &'a Workspace,
}

/// Why a call has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server said no.
    Refused(String),
    /// The server is gone, or its connection is.
    Dead(String),
    /// Time was up.
    TimedOut,
    /// Somebody stopped it.
    Cancelled,
}

/// A server that has told its tools.
pub(super) struct Connection {
    handle: Handle,
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Ear>>>,
    child: Option<Arc<Mutex<Child>>>,
    timeout: Span,
    secrets: Vec<Secret>,
    tools: Mutex<ServerTools>,
}

/// Hears what a server says at nobody's asking. It is asked for nothing and given nothing.
#[derive(Debug)]
pub(super) struct Ear {
    list_changed: Arc<Notify>,
}

impl rmcp::ClientHandler for Ear {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("drivetrain", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

type Service = RunningService<RoleClient, Ear>;

/// The two ways to begin. Nearly every server knows the first; one that only knows the second says no to it.
fn beginnings() -> [ClientLifecycleMode; 2] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions }]
}

impl Connection {
    /// Starts a server, or reaches it, and asks for its tools.
    pub(super) fn start(
        server: &Server,
        own: bool,
        place: &Place<'_>,
        marks: Option<&Path>,
        signal: Signal,
        cancel: &Cancel,
    ) -> Result<Connection, String> {
        let handle = engine::handle()?;
        let reach = Expanded::of(server, own)?;
        let mut first = None;
        for beginning in beginnings() {
            let list_changed = Arc::new(Notify::new());
            let ear = Ear { list_changed: Arc::clone(&list_changed) };
            let (child, began) =
                reach.begin(&handle, ear, beginning, place, marks, server.start_timeout, cancel)?;
            let service = match began {
                Ok(service) => service,
                Err(Unbegun::Refused(why)) => {
                    // If neither way is taken, the usual one is the one to talk about.
                    first.get_or_insert_with(|| explained(&why, child.as_ref()));
                    continue;
                }
                Err(Unbegun::Failed(why)) => {
                    return Err(reach.hide(&explained(&why, child.as_ref())));
                }
            };
            let connection = Connection {
                peer: service.peer().clone(),
                service: Mutex::new(Some(service)),
                handle,
                child,
                timeout: server.timeout,
                secrets: reach.secrets(),
                tools: Mutex::new(ServerTools {
                    server: server.name.clone(),
                    tools: Vec::new(),
                    problem: None,
                }),
            };
            return connection.listed(server, list_changed, signal, cancel);
        }
        Err(reach.hide(&first.unwrap_or_default()))
    }

    /// Asks for the tools, and listens for changes from here on.
    fn listed(
        self,
        server: &Server,
        list_changed: Arc<Notify>,
        signal: Signal,
        cancel: &Cancel,
    ) -> Result<Connection, String> {
        let wishes = Wishes::of(server);
        let asked = self.handle.block_on(async {
            let limit = Duration::from_millis(server.start_timeout.0);
            let list = tokio::time::timeout(limit, list(&self.peer));
            network::first(http::triggered(cancel), list).await
        });
        let claims = match asked {
            Some(Ok(Ok(claims))) => claims,
            Some(Ok(Err(why))) => {
                let why = self.explain(&format!("it does not tell its tools: {why}"));
                self.close();
                return Err(why);
            }
            Some(Err(_)) => {
                let why = format!("it did not tell its tools within {}", server.start_timeout);
                let why = self.explain(&why);
                self.close();
                return Err(why);
            }
            None => {
                self.close();
                return Err("it was stopped".to_owned());
            }
        };
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = wishes.offers(claims);
        let peer = self.peer.clone();
        self.handle.spawn(listen(peer, list_changed, wishes, signal));
        Ok(self)
    }

    /// What it offered when it was started.
    pub(super) fn tools(&self) -> ServerTools {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn timeout(&self) -> Span {
        self.timeout
    }

    /// The text without what the server was given to keep.
    pub(super) fn hide(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.hide(&text))
    }

    /// Why it is of no use any more, if so.
    pub(super) fn death(&self) -> Option<String> {
        if let Some(child) = &self.child {
            let child = child.lock().unwrap_or_else(PoisonError::into_inner);
            if child.wait(Duration::ZERO).is_some() {
                return Some("it has ended".to_owned());
            }
        }
        self.peer.is_transport_closed().then(|| "its connection is closed".to_owned())
    }

    /// Makes a call and waits for the answer. A wait that is given up tells the server so.
    pub(super) fn call(
        &self,
        tool: &str,
        input: &Value,
        limit: Span,
        cancel: &Cancel,
    ) -> Result<CallToolResult, Failure> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = input.as_object().cloned();
        let answer = self.handle.block_on(async {
            let limit = Duration::from_millis(limit.0);
            let call = tokio::time::timeout(limit, self.peer.call_tool_once(params));
            network::first(http::triggered(cancel), call).await
        });
        match answer {
            None => Err(Failure::Cancelled),
            Some(Err(_)) => Err(Failure::TimedOut),
            Some(Ok(Ok(CallToolResponse::Complete(answer)))) => Ok(answer),
            Some(Ok(Ok(_))) => Err(Failure::Refused(
                "it wants to ask back or to work on in the background, which is not supported"
                    .to_owned(),
            )),
            Some(Ok(Err(error))) => Err(self.failure(&error)),
        }
    }

    fn failure(&self, error: &ServiceError) -> Failure {
        match error {
            ServiceError::McpError(said) => {
                let said = machine::server::clean(&said.message, 2000);
                Failure::Refused(self.hide(&format!("it refused the call: {said}")))
            }
            ServiceError::TransportClosed => Failure::Dead(self.explain("it went away")),
            ServiceError::TransportSend(_) => {
                Failure::Dead(self.explain(&format!("it cannot be reached: {error}")))
            }
            _ => Failure::Refused(self.hide(&format!("its answer cannot be used: {error}"))),
        }
    }

    /// A reason with how its process ended and the end of its error output.
    fn explain(&self, why: &str) -> String {
        self.hide(&explained(why, self.child.as_ref()))
    }

    /// Ends the talk, then the process with all that it started; returns when they are gone.
    pub(super) fn close(&self) {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Dropping the service ends the talk too; on the network's own thread nothing may wait for that.
        if let Some(mut service) = service
            && Handle::try_current().is_err()
        {
            // Whether it says good-bye in time or not, the process is ended below.
            let _ = self.handle.block_on(service.close_with_timeout(GRACE));
        }
        if let Some(child) = &self.child {
            child.lock().unwrap_or_else(PoisonError::into_inner).finish(GRACE);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("tools", &self.tools().server).finish_non_exhaustive()
    }
}

/// How a server is reached, with its variables in place.
enum Expanded {
    Program { command: Vec<String>, env: Vec<(String, Secret)> },
    Address { url: String, headers: Vec<(String, Secret)>, hidden: Vec<Secret> },
}

/// Why a talk did not begin.
enum Unbegun {
    /// It said no to this way of beginning.
    Refused(String),
    /// There is no use in another way.
    Failed(String),
}

type Began = (Option<Arc<Mutex<Child>>>, Result<Service, Unbegun>);

impl Expanded {
    /// A project's file may name variables, but none that holds a key of a provider of models.
    fn of(server: &Server, own: bool) -> Result<Expanded, String> {
        let lookup = |name: &str| std::env::var(name).ok();
        let fill = |text: &str| -> Result<String, String> {
            if !own && let Some(name) = is_provider_key(text) {
                return Err(format!(
                    "a project's file may not hand over {name}; declare the server in your own mcp.toml"
                ));
            }
            expand(text, &lookup)
        };
        let secrets = |table: &std::collections::BTreeMap<String, String>| {
            let filled = table.iter().map(|(name, text)| {
                let value = fill(text).map_err(|why| format!("{name}: {why}"))?;
                Ok((name.clone(), Secret::exactly(&value)))
            });
            filled.collect::<Result<Vec<_>, String>>()
        };
        match &server.reach {
            Reach::Program { command, env } => {
                let command: Result<Vec<String>, String> =
                    command.iter().map(|word| fill(word)).collect();
                Ok(Expanded::Program { command: command?, env: secrets(env)? })
            }
            Reach::Address { url, headers } => {
                let filled = fill(url)?;
                let hidden = if filled == *url { vec![] } else { vec![Secret::exactly(&filled)] };
                Ok(Expanded::Address { url: filled, headers: secrets(headers)?, hidden })
            }
        }
    }

    fn secrets(&self) -> Vec<Secret> {
        let (Expanded::Program { env: named, .. } | Expanded::Address { headers: named, .. }) =
            self;
        let mut secrets: Vec<Secret> = named.iter().map(|(_, secret)| secret.clone()).collect();
        if let Expanded::Address { hidden, headers, .. } = self {
            secrets.extend(hidden.iter().cloned());
            // A token is as secret without the word before it.
            let tokens = headers.iter().filter_map(|(_, value)| value.reveal().split_once(' '));
            secrets.extend(tokens.map(|(_, token)| Secret::new(token)));
        }
        secrets
    }

    fn hide(&self, text: &str) -> String {
        self.secrets().iter().fold(text.to_owned(), |text, secret| secret.hide(&text))
    }

    fn begin(
        &self,
        handle: &Handle,
        ear: Ear,
        beginning: ClientLifecycleMode,
        place: &Place<'_>,
        marks: Option<&Path>,
        limit: Span,
        cancel: &Cancel,
    ) -> Result<Began, String> {
        let time = Duration::from_millis(limit.0);
        let _inside = handle.enter();
        match self {
            Expanded::Program { command, env } => {
                let (child, reader, writer) = spawn(command, env, place, marks)?;
                let transport =
                    AsyncRwTransport::new(reader, writer).with_max_line_length(MAX_MESSAGE);
                let serve = serve_client_with_lifecycle(ear, transport, beginning);
                Ok((Some(child), began(handle, serve, time, limit, cancel)))
            }
            Expanded::Address { url, headers, .. } => {
                let parsed = http::Url::parse(url).map_err(|why| format!("its url: {why}"))?;
                if parsed.scheme() != "https"
                    && !(parsed.scheme() == "http" && http::is_loopback(&parsed))
                {
                    return Err("its url must be https, or http on this machine".to_owned());
                }
                let client = http::client_apart(&parsed)?;
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(http::secret_headers(headers)?)
                    .max_sse_event_size(MAX_MESSAGE);
                let transport = StreamableHttpClientTransport::with_client(client, config);
                let serve = serve_client_with_lifecycle(ear, transport, beginning);
                Ok((None, began(handle, serve, time, limit, cancel)))
            }
        }
    }
}

type Spawned = (Arc<Mutex<Child>>, pipe::Receiver, pipe::Sender);

/// Starts the program, owned as a whole tree like any other, with only the variables that its file names.
fn spawn(
    command: &[String],
    env: &[(String, Secret)],
    place: &Place<'_>,
    marks: Option<&Path>,
) -> Result<Spawned, String> {
    let cwd = place.workspace.path.as_deref().map_or(place.folder, Path::new);
    let spec = ProcessSpec {
        cwd: Some(cwd.to_owned()),
        secrets: env.to_vec(),
        mark: format!("{}-mcp", place.task),
        mark_dir: marks.map(Path::to_owned),
        ..ProcessSpec::new(command)
    };
    let mut child = Child::spawn(spec).map_err(|error| error.to_string())?;
    let failed = |why: std::io::Error| format!("its pipes cannot be used: {why}");
    let (stdin, stdout) = child.take_pipes().ok_or("its pipes cannot be used")?;
    let reader = pipe::Receiver::from_owned_fd(stdout).map_err(failed)?;
    let writer = pipe::Sender::from_owned_fd(stdin).map_err(failed)?;
    Ok((Arc::new(Mutex::new(child)), reader, writer))
}

fn began(
    handle: &Handle,
    serve: impl Future<Output = Result<Service, ClientInitializeError>>,
    time: Duration,
    limit: Span,
    cancel: &Cancel,
) -> Result<Service, Unbegun> {
    let ended = handle.block_on(async {
        network::first(http::triggered(cancel), tokio::time::timeout(time, serve)).await
    });
    match ended {
        None => Err(Unbegun::Failed("it was stopped".to_owned())),
        Some(Err(_)) => Err(Unbegun::Failed(format!("it did not answer within {limit}"))),
        Some(Ok(Ok(service))) => Ok(service),
        Some(Ok(Err(error))) if error.is_authorization_required() => {
            Err(Unbegun::Failed(format!("it wants another authorization: {error}")))
        }
        // Over HTTP a refusal may be a status instead of a message.
        Some(Ok(Err(
            error @ (ClientInitializeError::JsonRpcError(_)
            | ClientInitializeError::TransportError { .. }),
        ))) => Err(Unbegun::Refused(format!("it refused to begin: {error}"))),
        Some(Ok(Err(ClientInitializeError::ConnectionClosed(_)))) => {
            Err(Unbegun::Failed("it closed the connection before it answered".to_owned()))
        }
        Some(Ok(Err(error))) => Err(Unbegun::Failed(format!("no talk began: {error}"))),
    }
}

/// What the file wants of a server's tools.
struct Wishes {
    server: String,
    only: Option<Vec<String>>,
    trust_annotations: bool,
}

impl Wishes {
    fn of(server: &Server) -> Wishes {
        Wishes {
            server: server.name.clone(),
            only: server.tools.clone(),
            trust_annotations: server.trust_annotations,
        }
    }

    fn offers(&self, claims: Vec<Claim>) -> ServerTools {
        let limits =
            Limits { only: self.only.as_deref(), trust_annotations: self.trust_annotations };
        offers(&self.server, claims, limits)
    }
}

/// All pages of the list, as far as anybody could want them.
async fn list(peer: &Peer<RoleClient>) -> Result<Vec<Claim>, String> {
    // A list that was kept is no news.
    peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
    let (mut claims, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await.map_err(|error| match error {
            ServiceError::McpError(said) => machine::server::clean(&said.message, 500),
            error => error.to_string(),
        })?;
        claims.extend(page.tools.into_iter().map(claim));
        cursor = page.next_cursor;
        if cursor.is_none() || claims.len() > MAX_LISTED {
            break;
        }
    }
    Ok(claims)
}

fn claim(tool: rmcp::model::Tool) -> Claim {
    let hint = |of: fn(&rmcp::model::ToolAnnotations) -> Option<bool>| {
        tool.annotations.as_ref().and_then(of).unwrap_or(false)
    };
    Claim {
        read_only: hint(|said| said.read_only_hint),
        idempotent: hint(|said| said.idempotent_hint),
        name: tool.name.to_string(),
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        schema: Value::Object((*tool.input_schema).clone()),
    }
}

/// Asks again whenever the server says that its list changed: not more often than makes sense, and not for ever.
async fn listen(peer: Peer<RoleClient>, list_changed: Arc<Notify>, wishes: Wishes, signal: Signal) {
    let speaks_newly = peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize());
    if speaks_newly {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        if let Ok(mut subscription) = peer.listen(filter).await {
            let heard = Arc::clone(&list_changed);
            tokio::spawn(async move {
                while let Ok(Some(_)) = subscription.next().await {
                    heard.notify_one();
                }
            });
        }
    }
    for _ in 0..MOST_CHANGES {
        while tokio::time::timeout(Duration::from_secs(5), list_changed.notified()).await.is_err() {
            if peer.is_transport_closed() {
                return;
            }
        }
        // One that changes its list changes it again at once, often enough.
        tokio::time::sleep(SETTLE).await;
        let Ok(claims) = list(&peer).await else { return };
        signal(wishes.offers(claims));
    }
}

/// A reason, with how the process ended if it did, and the end of what it wrote to its error output.
fn explained(why: &str, child: Option<&Arc<Mutex<Child>>>) -> String {
    let Some(child) = child else { return why.to_owned() };
    let child = child.lock().unwrap_or_else(PoisonError::into_inner);
    let mut report = why.to_owned();
    if let Some(exit) = child.wait(GRACE) {
        match (exit.code, exit.signal) {
            (Some(code), _) => report.push_str(&format!(" (it exited with {code})")),
            (None, Some(signal)) => {
                report.push_str(&format!(" (it was killed by signal {signal})"));
            }
            (None, None) => report.push_str(" (it ended)"),
        }
    }
    let errors = machine::server::clean(&child.stderr_tail(), usize::MAX);
    let errors = errors.trim_end();
    if !errors.is_empty() {
        let skipped = errors.chars().count().saturating_sub(STDERR_SHOWN);
        let end: String = errors.chars().skip(skipped).collect();
        report.push_str(&format!("\nthe end of its error output:\n{end}"));
    }
    report
}
