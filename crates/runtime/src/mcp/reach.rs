//! The way to a server: its program, owned as a whole tree, or its address; and how a talk with it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use machine::file::mcp::{Reach, Server, expand};
use machine::policy::sandbox::{Level, Needs, Network};
use machine::time::Span;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, serve_client_with_lifecycle};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use tokio::net::unix::pipe;
use tokio::runtime::Handle;

use super::NOBODY;
use super::connection::{Ear, GRACE, Place, Service};
use super::pipes::watched;
use crate::acting;
use crate::home::Home;
use crate::http;
use crate::network;
use crate::process::{Cancel, Child, Containment, ProcessSpec, this_program};
use crate::providers::{Environment, Secret, key_variables, named_in};
use crate::redact;
use crate::sandbox::{Access, Program};
use crate::trust::TrustState;

/// The longest line, and the largest event, that is read.
const MAX_MESSAGE: usize = 8 << 20;

/// How a server is reached, with its variables in place.
pub(super) enum Expanded {
    Program {
        command: Vec<String>,
        env: Vec<(String, Secret)>,
    },
    Address {
        url: String,
        headers: Vec<(String, Secret)>,
        hidden: Vec<Secret>,
    },
    /// This program, with these arguments.
    Own {
        arguments: Vec<String>,
    },
}

/// Why a talk did not begin.
pub(super) enum Unbegun {
    /// It said no to this way of beginning.
    Refused(String),
    /// There is no use in another way.
    Failed(String),
}

pub(super) type Began = (Option<Arc<Mutex<Child>>>, Result<Service, Unbegun>);

/// A program that ended, or let go of its pipes.
const CLOSED: &str = "it closed the connection before it answered";

/// What is said of a program that does not begin, where walls may be the reason.
const NO_NETWORK: &str = "\nit runs in a sandbox without a network; if it needs one, or more files, its entry says so: network = \"open\", \
     read = [\"~/…\"] (docs/sandbox.md)";

impl Expanded {
    /// What is said of the walls around a program that did not begin: most that are fetched as they start need a network.
    pub(super) fn walls(&self, server: &Server, place: &Place<'_>) -> &'static str {
        let is_program = matches!(self, Expanded::Program { .. });
        let is_walled = place.sandbox.level != Level::Off && server.needs.network == Network::None;
        if is_program && is_walled { NO_NETWORK } else { "" }
    }

    /// A project's file may name variables, but none that holds a key of a provider of models. What it hands over as a secret is
    /// known as one from here on.
    pub(super) fn of(server: &Server, own: bool, task: &str) -> Result<Expanded, String> {
        if let Some(why) = server.unusable {
            return Err(why.to_owned());
        }
        let kept = match own {
            true => BTreeSet::new(),
            false => key_variables(&Environment::default()).map_err(|why| why.to_string())?,
        };
        let lookup = |name: &str| std::env::var(name).ok();
        let fill = |text: &str| -> Result<String, String> {
            if let Some(name) = named_in(text, &kept) {
                return Err(format!(
                    "a project's file may not hand over {name}; declare the server in your own mcp.toml"
                ));
            }
            expand(text, &lookup)
        };
        let secrets = |table: &BTreeMap<String, String>| {
            let filled = table.iter().map(|(name, text)| {
                let value = fill(text).map_err(|why| format!("{name}: {why}"))?;
                redact::learn_variable(name, &value);
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
            Reach::Dispatch(dispatching) => {
                let parent = (task != NOBODY).then_some(task);
                Ok(Expanded::Own { arguments: dispatching.arguments(parent) })
            }
        }
    }

    pub(super) fn secrets(&self) -> Vec<Secret> {
        let named: &[(String, Secret)] = match self {
            Expanded::Program { env: named, .. } | Expanded::Address { headers: named, .. } => {
                named
            }
            Expanded::Own { .. } => &[],
        };
        let mut secrets: Vec<Secret> = named.iter().map(|(_, secret)| secret.clone()).collect();
        if let Expanded::Address { hidden, headers, .. } = self {
            secrets.extend(hidden.iter().cloned());
            // A token is as secret without the word before it.
            let tokens = headers.iter().filter_map(|(_, value)| value.reveal().split_once(' '));
            secrets.extend(tokens.map(|(_, token)| Secret::new(token)));
        }
        secrets
    }

    pub(super) fn hide(&self, text: &str) -> String {
        self.secrets().iter().fold(text.to_owned(), |text, secret| secret.hide(&text))
    }

    pub(super) fn begin(
        &self,
        handle: &Handle,
        ear: Ear,
        beginning: ClientLifecycleMode,
        place: &Place<'_>,
        marks: Option<&Path>,
        server: &Server,
        cancel: &Cancel,
    ) -> Result<Began, String> {
        let limit = server.start_timeout;
        let time = Duration::from_millis(limit.0);
        let _inside = handle.enter();
        match self {
            Expanded::Program { command, env } => {
                let spec = walled(command, env, &server.needs, place, marks)?;
                talk(handle, ear, beginning, spec, limit, cancel)
            }
            Expanded::Own { arguments } => {
                talk(handle, ear, beginning, own(arguments, place)?, limit, cancel)
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

/// A program, owned as a whole tree like any other, with only the variables that its file names.
fn walled(
    command: &[String],
    env: &[(String, Secret)],
    needs: &Needs,
    place: &Place<'_>,
    marks: Option<&Path>,
) -> Result<ProcessSpec, String> {
    let cwd = place.workspace.path.as_deref().map_or(place.folder, Path::new);
    // It holds variables and reaches hosts that the worker does not: it must not run what the worker wrote.
    let home = Home::at(place.state);
    for program in acting::interpreted(command, cwd).map_err(|error| error.to_string())? {
        if program.state(&home, cwd)? != TrustState::Trusted {
            return Err(format!(
                "it would run {}, which nobody trusts as it is: `drivetrain trust` shows the project's and asks",
                program.seen.path.display()
            ));
        }
    }
    // A server of tools works where the task works, unless its entry says that it only looks.
    let walls = Program {
        task: place.sandbox,
        needs,
        workspace: place.workspace,
        folder: Some(place.folder),
        access: if needs.writes_workspace == Some(false) { Access::Read } else { Access::Write },
        state: Some(place.state),
        name: place.task,
        gate: None,
        own: None,
        gateway: None,
        files: &[],
    };
    Ok(ProcessSpec {
        cwd: Some(cwd.to_owned()),
        secrets: env.to_vec(),
        mark: format!("{}-mcp", place.task),
        mark_dir: marks.map(Path::to_owned),
        containment: walls.containment(&Containment::Auto),
        ..ProcessSpec::new(command)
    })
}

/// This program, as a person would start it where the task was started: it is given orders by nobody but us, and takes only
/// calls that the gate let pass.
fn own(arguments: &[String], place: &Place<'_>) -> Result<ProcessSpec, String> {
    let program = this_program().map_err(|why| format!("drivetrain itself is not found: {why}"))?;
    let words = arguments.iter().map(OsString::from);
    Ok(ProcessSpec {
        cwd: Some(place.folder.to_owned()),
        containment: Containment::Alone,
        ..ProcessSpec::new(std::iter::once(program.into_os_string()).chain(words))
    })
}

/// Starts a program and begins to talk with it.
fn talk(
    handle: &Handle,
    ear: Ear,
    beginning: ClientLifecycleMode,
    spec: ProcessSpec,
    limit: Span,
    cancel: &Cancel,
) -> Result<Began, String> {
    let (child, reader, writer) = spawn(spec)?;
    let (reader, writer) = watched(reader, writer);
    let transport = AsyncRwTransport::new(reader, writer).with_max_line_length(MAX_MESSAGE);
    let serve = serve_client_with_lifecycle(ear, transport, beginning);
    let time = Duration::from_millis(limit.0);
    Ok((Some(child), began(handle, serve, time, limit, cancel)))
}

fn spawn(spec: ProcessSpec) -> Result<Spawned, String> {
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
        // A program that ends at once may be gone before it could be written to.
        Some(Ok(Err(ClientInitializeError::TransportError { error, .. })))
            if error.error.is::<std::io::Error>() =>
        {
            Err(Unbegun::Failed(CLOSED.to_owned()))
        }
        // Over HTTP a refusal may be a status instead of a message.
        Some(Ok(Err(ClientInitializeError::TransportError { error, .. }))) => {
            Err(Unbegun::Refused(format!("no talk began: {}", said(&error))))
        }
        Some(Ok(Err(error @ ClientInitializeError::JsonRpcError(_)))) => {
            Err(Unbegun::Refused(format!("it refused to begin: {error}")))
        }
        Some(Ok(Err(ClientInitializeError::ConnectionClosed(_)))) => {
            Err(Unbegun::Failed(CLOSED.to_owned()))
        }
        Some(Ok(Err(error))) => Err(Unbegun::Failed(format!("no talk began: {error}"))),
    }
}

/// What went wrong on the way, without the names of types around it.
pub(super) fn said(error: &DynamicTransportError) -> String {
    let Some(StreamableHttpError::Client(client)) =
        error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>()
    else {
        return error.error.to_string();
    };
    let mut cause: &dyn std::error::Error = client;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// A reason, with how the process ended if it did, and the end of what it wrote to its error output.
pub(super) fn explained(why: &str, child: Option<&Arc<Mutex<Child>>>) -> String {
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
    report.push_str(&machine::server::clean(&child.complaint(), usize::MAX));
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::engine;

    #[test]
    fn no_login_of_a_provider_is_handed_over_by_a_projects_file() {
        let reach = |value: &str| Reach::Program {
            command: vec!["x".to_owned()],
            env: [("GIVEN".to_owned(), value.to_owned())].into(),
        };
        let text = "[server.x]\ncommand = [\"x\"]\n";
        let server = machine::file::mcp::parse(text, "mcp.toml").unwrap().remove(0);
        let expanded = |value: &str, own| {
            let server = Server { reach: reach(value), ..server.clone() };
            Expanded::of(&server, own, "t").map(|_| ())
        };
        for name in ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"] {
            for text in [format!("${{{name}}}"), format!("${{{name}:-none}}")] {
                let refused = expanded(&text, false).unwrap_err();
                assert!(refused.contains(&format!("may not hand over {name}")), "{refused}");
            }
            assert_eq!(expanded(&format!("${{{name}:-none}}"), true), Ok(()));
            assert_eq!(expanded(&format!("${{{name}S:-none}}"), false), Ok(()), "another name");
        }
    }

    #[test]
    fn a_program_that_is_gone_before_it_is_written_to_has_closed_the_connection() {
        let (unread, theirs) = std::io::pipe().unwrap();
        // Its output is open still: the write is what fails.
        let (ours, _unwritten) = std::io::pipe().unwrap();
        drop(unread);
        let handle = engine::handle().unwrap();
        let _entered = handle.enter();
        let reader = pipe::Receiver::from_owned_fd(ours.into()).unwrap();
        let writer = pipe::Sender::from_owned_fd(theirs.into()).unwrap();
        let transport = AsyncRwTransport::new(reader, writer);
        let beginning = ClientLifecycleMode::Initialize;
        let serve = serve_client_with_lifecycle(Ear::default(), transport, beginning);
        let (time, limit) = (Duration::from_secs(5), Span(5_000));
        let Err(Unbegun::Failed(why)) = began(&handle, serve, time, limit, &Cancel::default())
        else {
            panic!("another way to begin is no use");
        };
        assert_eq!(why, CLOSED);
    }
}
