//! Runs the criteria of a receipt again, in clean checkouts of exactly the tree that it names.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use journal::blob::Blobs;
use machine::policy::sandbox::{Level, SandboxSpec};
use machine::receipt::{Again, Receipt};
use machine::task::{Workspace, WorkspaceKind, WorkspaceSpec};
use machine::verdict::Checkpoint;

use crate::acceptance::{self, Claim, Places, clear_away};
use crate::checkpoint::Store;
use crate::home::Home;
use crate::process::{Cancel, Containment};
use crate::tool::ToolServices;
use crate::workspace::{note_origin, objects_of};
use crate::world::JournalBlobs;

/// Whose receipt it is.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// Of a task of this journal, which had these walls.
    Journal(&'a SandboxSpec),
    /// Somebody brought it. Its commands run in the full sandbox without a network, whatever it says itself, and its tree
    /// is looked for in the repository of this folder.
    Elsewhere(&'a Path),
}

/// Runs all criteria that can be run again. Whoever calls this has asked, if the receipt comes from elsewhere: it runs
/// commands.
pub fn run_again(receipt: &Receipt, origin: Origin<'_>, home: &Home, cancel: &Cancel) -> Again {
    let scratch = match Scratch::new(home) {
        Ok(scratch) => scratch,
        Err(reason) => return Again::Impossible(reason),
    };
    match attempt(receipt, origin, home, &scratch.0, cancel) {
        Ok(again) => again,
        Err(reason) => Again::Impossible(reason),
    }
}

/// What is checked, and where it was found.
struct Found {
    base: Option<Checkpoint>,
    result: Checkpoint,
    state: PathBuf,
    words: String,
}

fn attempt(
    receipt: &Receipt,
    origin: Origin<'_>,
    home: &Home,
    scratch: &Path,
    cancel: &Cancel,
) -> Result<Again, String> {
    let result = receipt.result.as_ref().filter(|result| !result.tree.is_empty()).ok_or(
        "the task worked in place, so no tree was kept that could be checked again; a task in a worktree has one",
    )?;
    let (found, sandbox) = match origin {
        Origin::Journal(sandbox) => (own(receipt, result, home, cancel)?, sandbox.clone()),
        Origin::Elsewhere(folder) => {
            let found = foreign(receipt, result, folder, scratch, cancel)?;
            (found, SandboxSpec::default())
        }
    };
    let criteria = receipt.repeatable();
    if criteria.is_empty() {
        return Ok(Again::Ran { found: found.words, held: receipt.compare(&[]) });
    }
    let spec = WorkspaceSpec {
        kind: Some(WorkspaceKind::Worktree),
        setup: receipt.setup.clone(),
        share: receipt.share.clone(),
        ..WorkspaceSpec::default()
    };
    // Criteria run in checkouts of the tree: the folder of the worker, if it is still there, has no part in it.
    let workspace = Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some("/nonexistent".to_owned()),
        branch: None,
        base: receipt.commit.clone(),
    };
    let services = ToolServices {
        blobs: Arc::new(JournalBlobs(Blobs::new(scratch.join("blobs")))),
        mark_dir: None,
        env: Vec::new(),
        containment: Containment::Auto,
        state: Some(home.root().to_owned()),
        passages: None,
        memory: None,
        judge: Some(home.clone()),
    };
    let claim = Claim {
        task: receipt.task.as_str(),
        goal: &receipt.goal,
        criteria: &criteria,
        workspace: &workspace,
        spec: &spec,
        base: found.base.as_ref(),
        frozen: Some(&found.result),
        sandbox: &sandbox,
    };
    let checkouts = scratch.join("checkouts");
    let places = Places { state_home: &found.state, checkouts: &checkouts };
    let verdict = acceptance::verify(&claim, &places, &services, cancel)?;
    let walls = if sandbox.level == Level::Off { ", without a sandbox, as then" } else { "" };
    let held = receipt.compare(&verdict.results);
    Ok(Again::Ran { found: format!("{}{walls}", found.words), held })
}

/// The trees of a task of this journal, in its own checkpoints.
fn own(
    receipt: &Receipt,
    result: &Checkpoint,
    home: &Home,
    cancel: &Cancel,
) -> Result<Found, String> {
    let folder = home.checkpoints().join(format!("{}.git", receipt.task));
    if !folder.exists() {
        return Err(format!(
            "the checkpoints of the task are gone: there is no {}",
            folder.display()
        ));
    }
    let store = Store::open(receipt.task.as_str(), home.root(), cancel)?;
    store.check().map_err(|said| format!("the checkpoints of the task are damaged: {said}"))?;
    for point in [Some(result), receipt.base.as_ref()].into_iter().flatten() {
        let tree = store.tree(&point.name).map_err(|said| {
            format!("the checkpoint {} is not there any more: {said}", point.name)
        })?;
        if tree != point.tree {
            return Err(format!(
                "the checkpoint {} has the tree {tree}, and the receipt names {}",
                point.name, point.tree
            ));
        }
    }
    Ok(Found {
        base: receipt.base.clone(),
        result: result.clone(),
        state: home.root().to_owned(),
        words: "the task's own checkpoint".to_owned(),
    })
}

/// The trees of a receipt from elsewhere, in the repository of a folder.
fn foreign(
    receipt: &Receipt,
    result: &Checkpoint,
    folder: &Path,
    scratch: &Path,
    cancel: &Cancel,
) -> Result<Found, String> {
    if !receipt.share.is_empty() {
        return Err(
            "its criteria saw folders of the checkout that it was made in, and those are not here"
                .to_owned(),
        );
    }
    let here = folder.display();
    let (top, objects) = objects_of(folder).map_err(|said| {
        format!("{here} is in no git repository that could have its tree ({said}); go to a clone that has it")
    })?;
    let state = scratch.join("state");
    let task = receipt.task.as_str();
    let store = Store::open(task, &state, cancel)?;
    let missing = |what: &str, hash: &str| {
        format!(
            "the repository {} has no {what} {hash}: fetch it, or go to a clone that has it",
            top.display()
        )
    };
    let adopt =
        |what: &str, tree: &str| store.adopt(&objects, tree).map_err(|_| missing(what, tree));
    let base = match &receipt.base {
        Some(base) => Some(adopt("tree", &base.tree)?),
        None => None,
    };
    let result = adopt("tree", &result.tree)?;
    if let Some(commit) = &receipt.commit {
        store.has_commit(commit).map_err(|_| missing("commit", commit))?;
        note_origin(task, &state, &top, commit, &receipt.prefix)?;
    }
    let words = format!("the repository {}", top.display());
    Ok(Found { base, result, state, words })
}

/// A folder for one run, gone with this value. One that a killed process left is cleared away by the next.
struct Scratch(PathBuf);

impl Scratch {
    fn new(home: &Home) -> Result<Scratch, String> {
        home.create()?;
        let name = |pid: &str| home.run().join(format!("verify-{pid}"));
        for entry in fs::read_dir(home.run()).into_iter().flatten().flatten() {
            let file = entry.file_name();
            let pid = file.to_str().and_then(|file| file.strip_prefix("verify-"));
            if let Some(pid) = pid.filter(|pid| !Path::new("/proc").join(pid).exists()) {
                clear_away(&name(pid));
            }
        }
        let path = name(&std::process::id().to_string());
        clear_away(&path);
        fs::create_dir_all(&path)
            .map_err(|error| format!("cannot make the folder {}: {error}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        clear_away(&self.0);
    }
}
