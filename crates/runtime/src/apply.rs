//! Hands a task's frozen tree to the user's checkout. Everything that can go wrong is tried before anything of the
//! user's changes, in a repository of our own that only borrows objects; nothing of the user's repository runs.
//!
//! The order: the result is made as a commit of our own; it is tried against the checkout; its objects are copied in;
//! what is about to happen is written down; the branch moves, in one step that fails if somebody else moved it; the
//! files follow. A crash before the branch moves leaves everything as it was, and one after it is completed by asking
//! again.

mod attributes;
mod checkout;
mod following;
mod large_files;
mod place;
mod scratch;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use machine::task::Workspace;
use machine::verdict::Checkpoint;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Change, Content, Store};
use crate::lock::FileLock;
use crate::process::Cancel;
use crate::workspace::{absolute, check_task, origin};
use checkout::{Checkout, named};
use scratch::{Entry, Merged, Scratch};

/// What is to be handed over, and how.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    /// The task.
    pub task: &'a str,
    /// Where it worked.
    pub workspace: &'a Workspace,
    /// The checkpoint that changes are counted from; the commit that the worktree began at if absent.
    pub base: Option<&'a str>,
    /// The checkpoint that is handed over.
    pub frozen: &'a str,
    /// Another branch than the one that is checked out.
    pub onto: Option<&'a str>,
    /// The folder that the user is in.
    pub here: Option<&'a Path>,
    /// Whether the files follow in whichever worktree has that branch checked out.
    pub follow: bool,
    /// The message of the commit; none leaves the changes in index and files.
    pub message: Option<&'a str>,
    /// Whether the changes may be merged into a branch that has moved.
    pub merge: bool,
    /// Whether uncommitted changes of the user may stay beside those of the task.
    pub beside_changes: bool,
    /// Whether the user's own git makes the commit, with hooks and signature.
    pub hooks: bool,
}

impl Wish<'_> {
    fn by_users_git(&self) -> bool {
        self.hooks && self.message.is_some()
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// How far it went.
    pub how: How,
    /// The branch, or `HEAD` where none is checked out.
    pub branch: String,
    /// How many paths differ from before.
    pub paths: usize,
    /// What a person should know.
    pub notices: Vec<String>,
}

/// How far handing over went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// There is a new commit.
    Committed(String),
    /// The changes are in the index and in the files.
    Staged,
    /// It had been done before; the commit that did it, where that is known.
    Already(Option<String>),
}

/// Why nothing was handed over. Everything is as it was, unless the reason says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Somebody has to decide or tidy up first.
    #[error("{reason}")]
    Refused {
        /// Why.
        reason: String,
        /// What to do.
        hints: Vec<String>,
    },
    /// What the task left cannot become a commit of this repository, however tidy everything else is.
    #[error("{reason}")]
    Unfit {
        /// Why.
        reason: String,
        /// What to do.
        hints: Vec<String>,
    },
    /// Both sides changed the same lines.
    #[error("the changes conflict with {branch} in {}", paths.join(", "))]
    Conflict {
        /// The branch.
        branch: String,
        /// Where.
        paths: Vec<String>,
    },
    /// The machine, or git.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for ApplyError {
    fn from(reason: String) -> ApplyError {
        ApplyError::Failed(reason)
    }
}

pub(crate) fn refused(reason: impl Into<String>, hints: &[&str]) -> ApplyError {
    let hints = hints.iter().map(|hint| (*hint).to_owned()).collect();
    ApplyError::Refused { reason: reason.into(), hints }
}

pub(crate) fn unfit(reason: impl Into<String>, hints: &[&str]) -> ApplyError {
    let hints = hints.iter().map(|hint| (*hint).to_owned()).collect();
    ApplyError::Unfit { reason: reason.into(), hints }
}

/// What was done, or is about to be, written down before it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Whether all of it was done.
    pub done: bool,
    /// The checkout.
    pub checkout: String,
    /// The branch, or `HEAD` where none is checked out.
    pub branch: String,
    /// Whether that branch is the one that is checked out.
    pub checked_out: bool,
    /// The commit before; none for a branch that is new.
    pub before: Option<String>,
    /// The new commit; none if the changes are only in index and files.
    pub commit: Option<String>,
    /// The tree of what was handed over, in the user's repository.
    pub tree: String,
    /// The checkpoint.
    pub frozen: String,
}

impl Note {
    fn path(task: &str, state_home: &Path) -> PathBuf {
        state_home.join("applied").join(format!("{task}.json"))
    }

    /// What is known of a task's handing over.
    pub fn read(task: &str, state_home: &Path) -> Option<Note> {
        serde_json::from_slice(&fs::read(Note::path(task, state_home)).ok()?).ok()
    }

    /// Has an earlier note, or none, in place of the one that is there.
    fn put_back(earlier: Option<&Note>, task: &str, state_home: &Path) -> Result<(), String> {
        match earlier {
            Some(note) => note.write(task, state_home),
            None => fs::remove_file(Note::path(task, state_home)).map_err(|e| e.to_string()),
        }
    }

    fn write(&self, task: &str, state_home: &Path) -> Result<(), String> {
        let path = Note::path(task, state_home);
        let wrong = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        let bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        let next = path.with_extension("next");
        fs::create_dir_all(state_home.join("applied")).map_err(wrong)?;
        fs::write(&next, bytes).map_err(wrong)?;
        fs::File::open(&next).and_then(|file| file.sync_all()).map_err(wrong)?;
        fs::rename(&next, &path).map_err(wrong)
    }
}

/// Hands over.
pub fn apply(wish: &Wish<'_>, state_home: &Path, cancel: &Cancel) -> Result<Applied, ApplyError> {
    match propose(wish, state_home, cancel)? {
        Begun::Before(applied) => Ok(applied),
        Begun::Made(proposal) if !proposal.collisions.is_empty() => Err(ApplyError::Conflict {
            branch: proposal.checkout.branch.clone(),
            paths: proposal.collisions,
        }),
        Begun::Made(proposal) => proposal.hand_over(wish, state_home),
    }
}

/// How far looking at a wish went.
pub(crate) enum Begun<'c> {
    /// It was handed over before.
    Before(Applied),
    /// The result is there, and nothing of the user's has changed.
    Made(Box<Proposal<'c>>),
}

/// A result on the tip of a branch, made in a repository of our own.
pub(crate) struct Proposal<'c> {
    cancel: &'c Cancel,
    store: Store<'c>,
    scratch: Scratch,
    checkout: Checkout,
    top: PathBuf,
    /// The commit that the result comes after.
    target: String,
    /// The result: the files of both, with conflict marks where they collide.
    tree: String,
    /// Paths in which both changed the same places.
    collisions: Vec<String>,
    /// Paths at which a large file belongs.
    large: Vec<OsString>,
    notices: Vec<String>,
    /// Nobody else hands this task over meanwhile: what is written down of it would be another's.
    _alone: FileLock,
}

/// Makes the result, and changes nothing of the user's.
pub(crate) fn propose<'c>(
    wish: &Wish<'_>,
    state_home: &Path,
    cancel: &'c Cancel,
) -> Result<Begun<'c>, ApplyError> {
    check_task(wish.task)?;
    let state_home = &absolute(state_home)?;
    let origin = origin(wish.task, state_home).ok_or_else(|| {
        unfit("the task has no worktree of its own: what it changed is where it worked", &[])
    })?;
    let repository = place::chosen(&origin, wish, state_home)?;
    let top = repository.top.clone();
    let checkout = Checkout::open(repository, wish)?;
    let alone = alone(wish.task, state_home)?;
    if let Some(note) = Note::read(wish.task, state_home).filter(|note| note.frozen == wish.frozen)
        && let Some(applied) = checkout.taken_up(wish, &note, state_home)?
    {
        return Ok(Begun::Before(applied));
    }
    let mut store = Store::open(wish.task, state_home, cancel)?;
    let scratch = Scratch::new(&store, &checkout, state_home, cancel)?;
    // A task that was reopened goes on at another commit than its worktree was made at.
    let began = wish.workspace.base.clone().unwrap_or(origin.base);
    let base = match wish.base {
        Some(name) => store.content(name)?,
        None => store.base(None)?,
    };
    let frozen = store.content(wish.frozen)?;
    // The task's own branch holds it, unless somebody removed that too.
    scratch.tree_of(&began).map_err(|reason| match cancel.is_triggered() {
        true => ApplyError::Failed(reason),
        false => unfit(
            format!("the commit {began} that the task began at is no longer in the repository"),
            &["take the changes with --patch FILE: git apply --3way takes them"],
        ),
    })?;
    scratch.check(base.tree(), frozen.tree())?;
    let mut result = scratch.build(&began, &base, &frozen)?;
    scratch.check(&began, &result.tree)?;
    result.notices.extend(left_behind(&store, &base, &frozen, &result.modules)?);
    result.notices.extend(only_committed(&scratch, &checkout, &origin.branch, &began, &frozen));
    let target = checkout.tip.clone().unwrap_or_else(|| began.clone());
    let Merged { tree, collisions } = if target == began {
        Merged { tree: result.tree.clone(), collisions: Vec::new() }
    } else if wish.merge {
        scratch.check(&began, &target)?;
        scratch.merge(&began, &target, &result.tree, &checkout.branch, wish.task)?
    } else {
        return Err(moved(&checkout, &began));
    };
    let (large, notices) = (result.large, result.notices);
    let proposal = Proposal {
        cancel,
        store,
        scratch,
        checkout,
        top,
        target,
        tree,
        collisions,
        large,
        notices,
        _alone: alone,
    };
    Ok(Begun::Made(Box::new(proposal)))
}

impl<'c> Proposal<'c> {
    /// The commit at the tip of the branch; none if the branch is new.
    pub(crate) fn tip(&self) -> Option<&str> {
        self.checkout.tip.as_deref()
    }

    /// The result.
    pub(crate) fn tree(&self) -> &str {
        &self.tree
    }

    /// Paths in which both changed the same places.
    pub(crate) fn collisions(&self) -> &[String] {
        &self.collisions
    }

    /// Refuses what would lose something of the user's.
    pub(crate) fn ready(&self, wish: &Wish<'_>) -> Result<(), ApplyError> {
        if self.checkout.checked_out {
            self.checkout.ready_for(wish, &self.scratch.changed(&self.target, &self.tree)?)?;
        }
        Ok(())
    }

    /// The files at the tip and the result, kept beside the task's checkpoints.
    pub(crate) fn keep(&self, known: &[&str]) -> Result<(Checkpoint, Checkpoint), String> {
        let tip = self.scratch.tree_of(&self.target)?;
        self.scratch.keep_in(&self.store, &[&tip, &self.tree], known)?;
        Ok((self.store.keep_tree(&tip)?, self.store.keep_tree(&self.tree)?))
    }

    /// Changes what is the user's: the branch, then the files.
    pub(crate) fn hand_over(
        self,
        wish: &Wish<'_>,
        state_home: &Path,
    ) -> Result<Applied, ApplyError> {
        let Proposal {
            cancel,
            scratch,
            checkout,
            top,
            target,
            tree,
            large,
            mut notices,
            _alone,
            ..
        } = self;
        let state_home = &absolute(state_home)?;
        let changed = scratch.changed(&target, &tree)?;
        let done =
            |how, paths, notices| Applied { how, branch: checkout.branch.clone(), paths, notices };
        let note = Note {
            done: true,
            checkout: top.to_string_lossy().into_owned(),
            branch: checkout.branch.clone(),
            checked_out: checkout.checked_out,
            before: checkout.tip.clone(),
            commit: None,
            tree: tree.clone(),
            frozen: wish.frozen.to_owned(),
        };
        if changed.is_empty()
            && let Some(tip) = &checkout.tip
        {
            // Whoever brought it there: from here on it is known to be there.
            Note { commit: Some(tip.clone()), ..note }.write(wish.task, state_home)?;
            return Ok(done(How::Already(None), 0, notices));
        }
        if checkout.checked_out {
            checkout.ready_for(wish, &changed)?;
        }
        let commit = match wish.message {
            Some(message) if !wish.hooks => {
                Some(scratch.commit(&tree, &target, message, &checkout.who()?)?)
            }
            Some(_) | None => None,
        };
        scratch.hand_objects(&target, &tree, commit.as_deref(), &checkout)?;
        if checkout.checked_out {
            checkout.try_out(&tree)?;
        }
        let note = Note { done: false, commit, ..note };
        let earlier = Note::read(wish.task, state_home).filter(|note| note.done);
        note.write(wish.task, state_home)?;
        let commit = checkout.perform(wish, &note, state_home, cancel).inspect_err(|error| {
            // Everything is as it was, and so is what is known of it.
            if matches!(error, ApplyError::Refused { .. }) {
                let _ = Note::put_back(earlier.as_ref(), wish.task, state_home);
            }
        })?;
        if let Some(commit) = commit.as_deref().filter(|_| wish.by_users_git()) {
            notices.extend(checkout.made_by_hooks(commit, &tree)?);
        }
        notices.extend(checkout.fill(&changed, &large));
        Note { done: true, commit: commit.clone(), ..note }.write(wish.task, state_home)?;
        Ok(done(commit.map_or(How::Staged, How::Committed), changed.len(), notices))
    }
}

fn alone(task: &str, state_home: &Path) -> Result<FileLock, ApplyError> {
    let path = Note::path(task, state_home).with_extension("lock");
    let wrong = |error: std::io::Error| format!("cannot use {}: {error}", path.display());
    fs::create_dir_all(state_home.join("applied")).map_err(wrong)?;
    let file = fs::File::options().create(true).append(true).open(&path).map_err(wrong)?;
    FileLock::take(file).ok_or_else(|| {
        let reason = format!("task {task} is being handed over by another process");
        refused(reason, &["ask again when it has ended"])
    })
}

/// A part of a name that nobody can have put something under before.
fn unguessable() -> std::io::Result<String> {
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(random)))
}

fn moved(checkout: &Checkout, began: &str) -> ApplyError {
    let branch = &checkout.branch;
    let proven = "what was proven was proven on its base";
    let reason = match checkout.has(began) {
        true => format!("{branch} has moved since the task began: {proven}"),
        // Another branch is checked out than at the start, or its history was written anew.
        false => format!(
            "{branch} does not have the commit {} that the task began at: {proven}",
            began.get(..10).unwrap_or(began)
        ),
    };
    let mut hints = vec![
        "--merge merges the changes into what is there now; nothing changes if they conflict"
            .to_owned(),
        "--onto NEW-BRANCH puts the proven tree on a branch of its own".to_owned(),
    ];
    if let Some(there) = checkout.branch_at(began) {
        hints.insert(0, format!("the task began at {there}: git switch {there}, and ask again"));
    }
    ApplyError::Refused { reason, hints }
}

/// Files that the task committed on its own branch and that are not in what was verified: git ignores them, so that
/// no checkpoint holds them, or they were removed later.
fn only_committed(
    scratch: &Scratch,
    checkout: &Checkout,
    branch: &str,
    began: &str,
    frozen: &Content,
) -> Option<String> {
    let tip = checkout.commit_of(branch)?;
    let added = |from: &str| {
        let entries = scratch.compare(from, &tip).unwrap_or_default().into_iter();
        // A repository of its own is kept as its files.
        let is_new = |entry: &Entry| entry.is_new() && !entry.is_module();
        entries.filter(is_new).map(|entry| entry.path).collect::<BTreeSet<OsString>>()
    };
    let (since, beside) = (added(began), added(frozen.tree()));
    let only: Vec<&OsStr> = since.intersection(&beside).map(OsString::as_os_str).collect();
    (!only.is_empty()).then(|| {
        format!(
            "committed on {branch} and not in what was verified (git ignores them, or they were removed later): {}",
            named(only.into_iter())
        )
    })
}

/// What git has no place for is said, not dropped in silence.
fn left_behind(
    store: &Store<'_>,
    base: &Content,
    frozen: &Content,
    modules: &[PathBuf],
) -> Result<Vec<String>, String> {
    let names = |changes: &[Change]| {
        let first = changes.iter().take(5).map(|change| change.path.to_string_lossy().into_owned());
        first.collect::<Vec<_>>().join(", ")
    };
    // In a worktree a submodule is an empty folder.
    let is_module = |change: &Change| modules.iter().any(|module| *module == change.path);
    let (removed, beside): (Vec<_>, Vec<_>) =
        store.unpatched(base, frozen)?.into_iter().partition(is_module);
    let mut notices = Vec::new();
    if !removed.is_empty() {
        let (which, git_rm) = match removed.len() {
            1 => ("a submodule, which stays", "git rm removes it"),
            _ => ("submodules, which stay", "git rm removes them"),
        };
        notices.push(format!(
            "the task removed the folder of {which} in the commit ({git_rm}): {}",
            names(&removed)
        ));
    }
    if !beside.is_empty() {
        let are = if beside.len() == 1 { "is" } else { "are" };
        notices.push(format!(
            "git keeps no empty folders and only two modes, so {} of these {are} left behind: {}",
            beside.len(),
            names(&beside)
        ));
    }
    Ok(notices)
}
