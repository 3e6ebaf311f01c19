//! Processes, paths, tools, workspaces and acceptance, on real files and real processes.

mod acceptance;
mod beneath;
mod checkpoint;
mod files;
mod memory;
mod patch;
mod process;
mod shell;
mod skeleton;
mod validate;
mod verify;
mod view;
mod workspace;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use machine::effect::ToolCall;
use machine::id::CallId;
use machine::policy::sandbox::SandboxSpec;
use machine::task::{Workspace, WorkspaceKind};
use machine::tool::{Status, ToolResult, find};
use runtime::process::{Cancel, Containment};
use runtime::tool::{BlobSink, ToolServices};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Blobs in memory.
#[derive(Default)]
struct Blobs(Mutex<Vec<Vec<u8>>>);

impl BlobSink for Blobs {
    fn put(&self, bytes: &[u8]) -> Result<String, String> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Ok(format!("blob-{}", bytes.len()))
    }
}

pub(crate) fn services(containment: Containment) -> ToolServices {
    ToolServices {
        judge: None,
        blobs: Arc::new(Blobs::default()),
        mark_dir: None,
        env: Vec::new(),
        containment,
        memory: None,
        state: None,
        passages: None,
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn in_place(folder: &Path) -> Workspace {
    Workspace {
        kind: WorkspaceKind::InPlace,
        path: Some(folder.to_str().unwrap().to_owned()),
        branch: None,
        base: None,
    }
}

fn call(folder: &Path, tool: &str, input: Value) -> ToolCall {
    ToolCall {
        call: CallId(1),
        tool: tool.to_owned(),
        input: Arc::new(input),
        class: find(tool).unwrap().class,
        timeout: None,
        workspace: in_place(folder),
        sandbox: SandboxSpec::off(),
        repeated: false,
        server: None,
    }
}

fn run(folder: &Path, tool: &str, input: Value) -> ToolResult {
    runtime::tool::run(&call(folder, tool, input), &services(Containment::Auto), &Cancel::new())
}

/// The same call as an attempt after one that may have run.
fn run_again(folder: &Path, tool: &str, input: Value) -> ToolResult {
    let call = ToolCall { repeated: true, ..call(folder, tool, input) };
    runtime::tool::run(&call, &services(Containment::Auto), &Cancel::new())
}

/// A number that no other test sleeps for: processes are found by it.
fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let next = NEXT.fetch_add(1, Ordering::SeqCst);
    format!("36{next:03}.{}", std::process::id())
}

/// No processes.
const NONE: [i32; 0] = [];

/// The processes that have this argument and run.
fn running(argument: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Waits until something holds; fails after ten seconds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "not seen in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
