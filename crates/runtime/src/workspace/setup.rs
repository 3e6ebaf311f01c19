//! Makes a new worktree ready by the commands of the task, once.

use std::fs;
use std::path::{Path, PathBuf};

use machine::policy::sandbox::SandboxSpec;
use machine::task::{Workspace, WorkspaceKind, WorkspaceSpec};

use crate::acceptance::{Trouble, command};
use crate::process::Cancel;
use crate::tool::ToolServices;

/// Runs the setup commands of a worktree that has not been made ready by them; the error says which failed and how it
/// ended. A folder that the user works in is as ready as the user made it.
pub(crate) fn make_ready(
    task: &str,
    workspace: &Workspace,
    spec: &WorkspaceSpec,
    sandbox: &SandboxSpec,
    services: &ToolServices,
    state_home: &Path,
    cancel: &Cancel,
) -> Result<(), String> {
    let (WorkspaceKind::Worktree, Some(path)) = (workspace.kind, &workspace.path) else {
        return Ok(());
    };
    if spec.setup.is_empty() {
        return Ok(());
    }
    // Written when all of them have passed, so that a process that died among them begins again.
    let done = mark(task, state_home);
    let wanted = serde_json::to_vec(&spec.setup).map_err(|error| error.to_string())?;
    if fs::read(&done).is_ok_and(|written| written == wanted) {
        return Ok(());
    }
    let containment = services.containment_of(sandbox, workspace);
    command::set_up(&spec.setup, Path::new(path), &containment, services, cancel)
        .map_err(Trouble::into_text)?;
    fs::write(&done, wanted).map_err(|error| format!("cannot write {}: {error}", done.display()))
}

/// The file that says by which commands a task's worktree was made ready.
pub(super) fn mark(task: &str, state_home: &Path) -> PathBuf {
    state_home.join("worktrees").join(format!("{task}.ready"))
}
