//! One connection to one server: its tools, its calls, and its end.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use machine::file::mcp::Server;
use machine::policy::sandbox::SandboxSpec;
use machine::server::{Claim, Limits, ServerTools, offers};
use machine::task::Workspace;
use machine::time::Span;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, RequestId, ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    ClientCacheConfig, ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions,
    RoleClient, RunningService, ServiceError,
};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::reach::{Expanded, Unbegun, explained, said};
use super::{answer, engine};
use crate::http;
use crate::network;
use crate::process::{Cancel, Child};
use crate::providers::Secret;

/// The most pages of a list of tools, and the most tools on all of them.
const MAX_PAGES: usize = 64;
const MAX_LISTED: usize = 4096;
/// How long a server may take to end by itself.
pub(super) const GRACE: Duration = Duration::from_millis(500);
/// How long a list may settle before it is asked for again, and how often it is at all.
const SETTLE: Duration = Duration::from_millis(200);
/// How long a list that changed may take, and how long until it is asked for again if it could not be had.
const LISTED: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_secs(1);
const MOST_CHANGES: usize = 100;
/// How long the answer to a call is held back at most for a list that changed before it.
const HELD: Duration = Duration::from_secs(2);

/// Hears the new list.
pub(super) type Signal = Box<dyn Fn(ServerTools) + Send + Sync>;

/// Where a server works, and for whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) task: &'a str,
    pub(super) folder: &'a Path,
    pub(super) workspace: &'a Workspace,
    /// The walls of the task.
    pub(super) sandbox: &'a SandboxSpec,
    /// What nothing inside sees.
    pub(super) state: &'a Path,
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
    changes: Arc<Changes>,
}

/// The changes of a list: those that were heard of, and those whose list has been handed on.
#[derive(Debug, Default)]
struct Changes {
    came: Notify,
    heard: AtomicU64,
    told: watch::Sender<u64>,
}

impl Changes {
    fn hear(&self) {
        self.heard.fetch_add(1, Ordering::SeqCst);
        self.came.notify_one();
    }

    /// Waits until all changes heard of so far are told.
    async fn settled(&self) {
        let heard = self.heard.load(Ordering::SeqCst);
        // The sender is here, so it cannot be gone.
        let _ = self.told.subscribe().wait_for(|told| *told >= heard).await;
    }
}

/// Hears what a server says at nobody's asking. It is asked for nothing and given nothing.
#[derive(Debug, Default)]
pub(super) struct Ear {
    changes: Arc<Changes>,
}

impl rmcp::ClientHandler for Ear {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.hear();
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("drivetrain", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

pub(super) type Service = RunningService<RoleClient, Ear>;

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
        let reach = Expanded::of(server, own, place.task)?;
        let mut first = None;
        for beginning in beginnings() {
            let changes: Arc<Changes> = Arc::default();
            let ear = Ear { changes: Arc::clone(&changes) };
            let (child, began) =
                reach.begin(&handle, ear, beginning, place, marks, server, cancel)?;
            let service = match began {
                Ok(service) => service,
                Err(Unbegun::Refused(why)) => {
                    // If neither way is taken, the usual one is the one to talk about.
                    first.get_or_insert_with(|| explained(&why, child.as_ref()));
                    continue;
                }
                Err(Unbegun::Failed(why)) => {
                    let why = explained(&why, child.as_ref()) + reach.walls(server, place);
                    return Err(reach.hide(&why));
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
                changes,
            };
            return connection.listed(server, signal, cancel);
        }
        Err(reach.hide(&first.unwrap_or_default()))
    }

    /// Asks for the tools, and listens for changes from here on.
    fn listed(
        self,
        server: &Server,
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
        let (peer, changes) = (self.peer.clone(), Arc::clone(&self.changes));
        self.handle.spawn(async move {
            listen(&peer, &changes, wishes, signal).await;
            // Nobody asks for the list any more, so nobody waits for it either.
            changes.told.send_replace(u64::MAX);
        });
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
            let call = tokio::time::timeout(limit, self.ask(params));
            let answer = network::first(http::triggered(cancel), call).await;
            if let Some(Ok(Ok(_))) = &answer {
                network::first(http::triggered(cancel), self.list_is_told()).await;
            }
            answer
        });
        match answer {
            None => Err(Failure::Cancelled),
            Some(Err(_)) => Err(Failure::TimedOut),
            Some(Ok(Ok(ServerResult::CallToolResult(answer)))) => Ok(answer),
            // One part of a kind that is not known must not cost the others: the tool has done its work.
            Some(Ok(Ok(ServerResult::CustomResult(odd)))) if odd.0["content"].is_array() => {
                Ok(answer::odd(&odd.0))
            }
            Some(Ok(Ok(
                ServerResult::InputRequiredResult(_) | ServerResult::CreateTaskResult(_),
            ))) => Err(Failure::Refused(
                "it wants to ask back or to work on in the background, which is not supported"
                    .to_owned(),
            )),
            Some(Ok(Ok(_))) => Err(self.failure(&ServiceError::UnexpectedResponse)),
            Some(Ok(Err(error))) => Err(self.failure(&error)),
        }
    }

    /// Waits until a list that changed before is told, so that whoever hears an answer knows the list too.
    async fn list_is_told(&self) {
        // What came before the answer was given to the loop before it: its turn has come when that of this task comes again.
        let _ = self.handle.spawn(tokio::task::yield_now()).await;
        // If it takes longer, it is told later.
        let _ = tokio::time::timeout(HELD, self.changes.settled()).await;
    }

    /// Sends a call and waits for what comes back; dropped before, it tells the server that nobody waits any more.
    async fn ask(&self, params: CallToolRequestParams) -> Result<ServerResult, ServiceError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        let sent = sent.await?;
        let mut given_up = GivenUp { connection: self, request: Some(sent.id.clone()) };
        let answer = sent.await_response().await;
        given_up.request = None;
        answer
    }

    fn failure(&self, error: &ServiceError) -> Failure {
        match error {
            ServiceError::McpError(said) => {
                let said = machine::server::clean(&said.message, 2000);
                Failure::Refused(self.hide(&format!("it refused the call: {said}")))
            }
            ServiceError::TransportClosed => Failure::Dead(self.explain("it went away")),
            ServiceError::TransportSend(error) => {
                Failure::Dead(self.explain(&format!("it cannot be reached: {}", said(error))))
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

/// A request that nobody waits for any more when this is dropped with it.
struct GivenUp<'a> {
    connection: &'a Connection,
    request: Option<RequestId>,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let peer = self.connection.peer.clone();
        drop(self.connection.handle.spawn(async move {
            let told = CancelledNotificationParam::new(Some(request), None);
            // A server that cannot be told any more is gone.
            let _ = peer.notify_cancelled(told).await;
        }));
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
        let request = ListToolsRequest {
            method: Default::default(),
            params: Some(params),
            extensions: Default::default(),
        };
        let page = peer.send_request(ClientRequest::ListToolsRequest(request)).await;
        let page = page.map_err(|error| match error {
            ServiceError::McpError(said) => machine::server::clean(&said.message, 500),
            ServiceError::TransportSend(error) => said(&error),
            error => error.to_string(),
        })?;
        cursor = match page {
            ServerResult::ListToolsResult(page) => {
                claims.extend(page.tools.into_iter().map(claim));
                page.next_cursor
            }
            // One tool that breaks the rules must not cost the others.
            ServerResult::CustomResult(page) if page.0["tools"].is_array() => {
                claims.extend(page.0["tools"].as_array().into_iter().flatten().map(odd_claim));
                page.0["nextCursor"].as_str().map(str::to_owned)
            }
            _ => return Err("what it sent is no list of tools".to_owned()),
        };
        if cursor.is_none() || claims.len() > MAX_LISTED {
            break;
        }
    }
    Ok(claims)
}

/// A tool of a list that is not as it should be, as far as it can be read. Its own word that it is safe is not taken.
fn odd_claim(tool: &Value) -> Claim {
    match serde_json::from_value(tool.clone()) {
        Ok(tool) => claim(tool),
        Err(_) => Claim {
            name: tool["name"].as_str().unwrap_or_default().to_owned(),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            schema: tool["inputSchema"].clone(),
            ..Claim::default()
        },
    }
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
async fn listen(peer: &Peer<RoleClient>, changes: &Arc<Changes>, wishes: Wishes, signal: Signal) {
    let speaks_newly = peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize());
    if speaks_newly {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        if let Ok(mut subscription) = peer.listen(filter).await {
            let heard = Arc::clone(changes);
            tokio::spawn(async move {
                while let Ok(Some(_)) = subscription.next().await {
                    heard.hear();
                }
            });
        }
    }
    for _ in 0..MOST_CHANGES {
        while tokio::time::timeout(Duration::from_secs(5), changes.came.notified()).await.is_err() {
            if peer.is_transport_closed() {
                return;
            }
        }
        // One that changes its list changes it again at once, often enough.
        tokio::time::sleep(SETTLE).await;
        let heard = changes.heard.load(Ordering::SeqCst);
        match tokio::time::timeout(LISTED, list(peer)).await {
            Ok(Ok(claims)) => {
                signal(wishes.offers(claims));
                changes.told.send_replace(heard);
            }
            _ if peer.is_transport_closed() => return,
            // It cannot say now; what it said last holds until it can.
            _ => {
                tokio::time::sleep(AGAIN).await;
                changes.came.notify_one();
            }
        }
    }
}
