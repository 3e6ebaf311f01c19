//! Performs tool calls. Each call gets exactly one result; an error says what was tried, on what, and what was
//! expected. Whether a call may run was decided before it came here.

mod edit;
mod glob;
mod grep;
mod line;
mod memory;
mod outline;
mod patch;
mod read;
mod shell;
mod skeleton;
mod validate;
mod view;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::effect::ToolCall;
use machine::policy::sandbox::SandboxSpec;
use machine::task::Workspace;
use machine::tool::{BlobRef, Status, ToolResult, check_input, find};

use crate::beneath::Root;
use crate::home::Home;
use crate::process::{Cancel, Capture, Containment};
use crate::sandbox::Sandbox;

pub(crate) use line::Lines;
#[cfg(test)]
pub(crate) use memory::note;
pub use memory::notes;

/// Where output goes that does not fit into a result.
pub trait BlobSink: Send + Sync {
    /// Keeps the bytes and gives their SHA-256 in hex.
    fn put(&self, bytes: &[u8]) -> Result<String, String>;
}

/// What tools need beside the call itself.
#[derive(Clone)]
pub struct ToolServices {
    /// Where large output goes.
    pub blobs: Arc<dyn BlobSink>,
    /// Where marks of running commands are kept.
    pub mark_dir: Option<PathBuf>,
    /// Variables that commands get beside the usual few.
    pub env: Vec<(String, String)>,
    /// How commands are held together where the sandbox is off.
    pub containment: Containment,
    /// The folder of this program's own state, which no sandbox shows.
    pub state: Option<PathBuf>,
    /// Where it is told which hosts the task's sandboxes have reached for.
    pub passages: Option<PathBuf>,
    /// Where notes about projects are kept; without it there are none.
    pub memory: Option<PathBuf>,
    /// Whose record of trust decides about the project's own checks; without one they are believed.
    pub judge: Option<Home>,
}

impl ToolServices {
    /// How the commands of a task are held.
    pub(crate) fn containment_of(&self, spec: &SandboxSpec, workspace: &Workspace) -> Containment {
        let (state, passages) = (self.state.as_deref(), self.passages.as_deref());
        Sandbox::containment(spec, workspace, state, passages, &self.containment)
    }
}

impl fmt::Debug for ToolServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolServices")
            .field("mark_dir", &self.mark_dir)
            .field("containment", &self.containment)
            .finish_non_exhaustive()
    }
}

/// The largest file that edit, patch and write work on.
const FILE_LIMIT: u64 = 32 * 1024 * 1024;

/// Runs a call to its end on the calling thread. `cancel` stops it, with everything it started.
/// The `ask` tool is not performed here: its answer comes from a person.
pub fn run(call: &ToolCall, services: &ToolServices, cancel: &Cancel) -> ToolResult {
    let Some(tool) = find(&call.tool) else {
        return failed(format!("there is no tool {:?}", call.tool));
    };
    if let Err(reason) = check_input(tool, &call.input) {
        return failed(reason);
    }
    let folder = match &call.workspace.path {
        Some(path) => Path::new(path),
        None => {
            return failed(format!(
                "{} needs a folder to work in, and this task's workspace is of the kind \"none\"",
                call.tool
            ));
        }
    };
    let root = match Root::open(folder) {
        Ok(root) => root,
        Err(error) => {
            return failed(format!(
                "cannot open the workspace folder {}: {error}; expected the folder that the task was \
                 given at its start",
                folder.display()
            ));
        }
    };
    let patience = Patience::new(call, cancel);
    match call.tool.as_str() {
        "edit" => edit::run(call, &root),
        "glob" => glob::run(call, &root, folder, services, &patience),
        "grep" => grep::run(call, &root, folder, services, &patience),
        "memory" => memory::run(call, folder, services),
        "patch" => patch::run(call, &root),
        "read" => read::run(call, &root),
        "shell" => shell::run(call, folder, services, cancel),
        "skeleton" => skeleton::run(call, &root, folder, services, &patience),
        "validator.run" => validate::run(call, &root, folder, services, cancel),
        "view" => view::run(call, &root, folder, services, &patience),
        "write" => write::run(call, &root),
        other => failed(format!("{other} is not performed by the tools")),
    }
}

/// Whether a tool that runs in this process should go on.
struct Patience<'a> {
    cancel: &'a Cancel,
    deadline: Option<Instant>,
    limit: Duration,
}

impl Patience<'_> {
    fn new<'a>(call: &ToolCall, cancel: &'a Cancel) -> Patience<'a> {
        let limit = Duration::from_millis(call.timeout.map_or(600_000, |span| span.0));
        Patience { cancel, deadline: Instant::now().checked_add(limit), limit }
    }

    /// The result to end with, once the call was cancelled or its time is over.
    fn over(&self) -> Option<ToolResult> {
        if self.cancel.is_triggered() {
            return Some(ToolResult::ended(Status::Aborted, "stopped before it was done"));
        }
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        late.then(|| {
            let text = format!("not done within {:?}", self.limit);
            ToolResult::ended(Status::TimedOut, text)
        })
    }
}

fn failed(text: impl Into<String>) -> ToolResult {
    ToolResult::ended(Status::Error, text)
}

/// A text parameter; `check_input` has seen to it that required ones are there.
fn text<'a>(call: &'a ToolCall, name: &str) -> &'a str {
    call.input.get(name).and_then(|value| value.as_str()).unwrap_or_default()
}

fn number(call: &ToolCall, name: &str) -> Option<usize> {
    let value = call.input.get(name)?.as_u64()?;
    Some(usize::try_from(value).unwrap_or(usize::MAX))
}

fn flag(call: &ToolCall, name: &str) -> bool {
    call.input.get(name).and_then(serde_json::Value::as_bool).unwrap_or_default()
}

/// Turns output into a result's text, and into a blob where the text cannot hold it all.
fn shown(capture: &Capture, services: &ToolServices) -> (String, Option<BlobRef>) {
    let mut text = capture.text();
    if capture.fits() {
        return (text, None);
    }
    let kept = capture.bytes().map_err(|error| error.to_string());
    match kept.and_then(|bytes| Ok((services.blobs.put(&bytes)?, bytes.len() as u64))) {
        Ok((sha256, size)) => {
            if size < capture.total() {
                text.push_str(&format!("\n[only the first {size} bytes of the output were kept]"));
            }
            (text, Some(BlobRef { sha256, size }))
        }
        Err(reason) => {
            text.push_str(&format!("\n[the whole output could not be kept: {reason}]"));
            (text, None)
        }
    }
}

/// The same for text made in this process.
pub(crate) fn shown_text(whole: &str, services: &ToolServices) -> ToolResult {
    let mut capture = Capture::new(crate::process::KEPT);
    capture.push(whole.as_bytes());
    let (text, blob) = shown(&capture, services);
    ToolResult { text, blob, ..ToolResult::default() }
}
