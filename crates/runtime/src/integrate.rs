//! Integrates a verified task: its change on the tip of a branch, the task's criteria on both together, and only then the
//! branch is moved, by one step that fails if somebody else moved it. What each result means is `machine::queue`'s.

use std::ffi::OsString;
use std::path::Path;

use machine::id::TaskId;
use machine::queue::{Integration, Lane, Rebase, Tried};
use machine::state::{Data, Phase};
use machine::task::{Criterion, CriterionResult, CustomCheck, Outcome, Workspace, WorkspaceKind};
use machine::verdict::Checkpoint;

use crate::acceptance::{self, Claim, Places};
use crate::apply::{Applied, ApplyError, Begun, How, Note, Proposal, Wish, propose};
use crate::home::Home;
use crate::process::Cancel;
use crate::tool::ToolServices;
use crate::workspace::{Repository, origin, text};

/// What an integration works with.
#[derive(Debug)]
pub struct Ground<'a> {
    /// Where all state is.
    pub home: &'a Home,
    /// The folder that clean checkouts are made in.
    pub checkouts: &'a Path,
    /// What commands are run with.
    pub services: &'a ToolServices,
    /// Stops it.
    pub cancel: &'a Cancel,
}

/// Why nothing came of trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped;

/// Tries to integrate a task into a branch of its repository, with this message. Nothing of the user's has changed
/// unless it says that the branch was advanced.
pub fn integrate(
    data: &Data,
    branch: &str,
    message: &str,
    ground: &Ground<'_>,
) -> Result<Tried, Stopped> {
    let tried = attempt(data, branch, message, ground);
    match tried {
        Ok(tried) => Ok(tried),
        Err(_) if ground.cancel.is_triggered() => Err(Stopped),
        // Others need not wait for what no tidying up can mend.
        Err(error @ ApplyError::Unfit { .. }) => Ok(Tried::Impossible(words(error))),
        Err(error) => Ok(Tried::Held(words(error))),
    }
}

fn attempt(
    data: &Data,
    branch: &str,
    message: &str,
    ground: &Ground<'_>,
) -> Result<Tried, ApplyError> {
    let (workspace, frozen) = match handed_over(data) {
        Ok(handed_over) => handed_over,
        Err(reason) => return Ok(Tried::Impossible(reason)),
    };
    let base = data.whole_base();
    let wish = Wish {
        task: data.id.as_str(),
        workspace,
        base: base.map(|base| base.name.as_str()),
        frozen: &frozen.name,
        onto: Some(branch),
        here: None,
        follow: true,
        message: Some(message),
        merge: true,
        beside_changes: false,
        hooks: false,
    };
    let home = ground.home.root();
    let proposal = match propose(&wish, home, ground.cancel)? {
        Begun::Before(applied) => return Ok(done(applied, frozen, &data.id, home)),
        Begun::Made(proposal) => proposal,
    };
    let Some(tip) = proposal.tip().map(str::to_owned) else {
        return Ok(Tried::Held(format!("there is no branch {branch}")));
    };
    let known: Vec<&str> =
        base.into_iter().chain([frozen]).map(|kept| kept.tree.as_str()).collect();
    let (at_tip, combined) = proposal.keep(&known)?;
    let rebase = || {
        let (branch, commit) = (branch.to_owned(), tip.clone());
        Some(Rebase { branch, commit, base: at_tip.clone(), combined: combined.clone() })
    };
    if !proposal.collisions().is_empty() {
        return Ok(Tried::Collided { paths: proposal.collisions().to_vec(), rebase: rebase() });
    }
    proposal.ready(&wish)?;
    // The very files that the criteria have held on, on the very base: nothing is left to be seen.
    let seen_before =
        combined.tree == frozen.tree && base.is_some_and(|base| base.tree == at_tip.tree);
    if !seen_before {
        let on_tip = Workspace { base: Some(tip.clone()), ..workspace.clone() };
        let results = verify(data, &on_tip, &at_tip, &combined, ground)?;
        if results.iter().any(CriterionResult::fails) {
            return Ok(Tried::Failed { results, rebase: rebase() });
        }
    }
    advance(*proposal, &wish, &tip, ground)
}

/// What a task has to hand over, if it is verified.
fn handed_over(data: &Data) -> Result<(&Workspace, &Checkpoint), String> {
    let id = &data.id;
    match &data.phase {
        Phase::Finished { outcome: Outcome::Verified, .. } => {}
        Phase::Finished { outcome, .. } => {
            return Err(format!("task {id} is not verified: it ended as {}", outcome.word()));
        }
        _ => return Err(format!("task {id} is not verified: it has not ended")),
    }
    match (&data.workspace, &data.frozen) {
        (Some(workspace), Some(frozen)) if workspace.kind == WorkspaceKind::Worktree => {
            Ok((workspace, frozen))
        }
        _ => Err(format!("task {id} did not work in a worktree: there is nothing to integrate")),
    }
}

/// Runs the task's criteria on both together. What is about the worker alone, its branch and a judge's opinion of its
/// change, was seen when the task was verified.
fn verify(
    data: &Data,
    workspace: &Workspace,
    base: &Checkpoint,
    combined: &Checkpoint,
    ground: &Ground<'_>,
) -> Result<Vec<CriterionResult>, String> {
    let mut criteria = data.spec.criteria();
    criteria.retain(|criterion| {
        !matches!(criterion, Criterion::Judge { .. } | Criterion::Custom(CustomCheck::GitClean))
    });
    let claim = Claim {
        task: data.id.as_str(),
        goal: &data.spec.goal,
        criteria: &criteria,
        workspace,
        spec: &data.spec.workspace,
        base: Some(base),
        frozen: Some(combined),
        sandbox: &data.spec.sandbox,
    };
    let places = Places { state_home: ground.home.root(), checkouts: ground.checkouts };
    let verdict = acceptance::verify(&claim, &places, ground.services, ground.cancel)?;
    // A verdict over fewer criteria than were asked about proves nothing.
    if verdict.results.len() != criteria.len() {
        return Err("not every criterion could be checked".to_owned());
    }
    Ok(verdict.results)
}

fn advance(
    proposal: Proposal<'_>,
    wish: &Wish<'_>,
    tip: &str,
    ground: &Ground<'_>,
) -> Result<Tried, ApplyError> {
    let (home, tree) = (ground.home.root(), proposal.tree().to_owned());
    let failed = match proposal.hand_over(wish, home) {
        Ok(Applied { how: How::Committed(commit), branch, .. }) => {
            return Ok(Tried::Advanced(Integration { branch, commit, tree }));
        }
        // The branch has every change already, by somebody else's hand.
        Ok(Applied { branch, .. }) => {
            return Ok(Tried::Advanced(Integration { branch, commit: tip.to_owned(), tree }));
        }
        Err(error) => error,
    };
    // Whether somebody else moved it is seen, not read from a message.
    let moved = match propose(wish, home, ground.cancel)? {
        Begun::Before(_) => true,
        Begun::Made(again) => again.tip() != Some(tip),
    };
    if moved { Ok(Tried::Moved) } else { Err(failed) }
}

/// What was handed over before: by a process that died before it could say so, or by the user's own hand.
fn done(applied: Applied, frozen: &Checkpoint, task: &TaskId, home: &Path) -> Tried {
    let branch = applied.branch;
    match applied.how {
        How::Committed(commit) | How::Already(Some(commit)) => {
            let note = Note::read(task.as_str(), home);
            let tree = note.map_or_else(|| frozen.tree.clone(), |note| note.tree);
            Tried::Advanced(Integration { branch, commit, tree })
        }
        How::Staged | How::Already(None) => Tried::Held(format!(
            "the change is in the files of the checkout of {branch}, and not committed"
        )),
    }
}

/// The branch of a task's repository that its change would go to: the one that is named, or the one that is checked out.
pub fn lane(task: &TaskId, onto: Option<&str>, home: &Home) -> Result<Lane, String> {
    let origin = origin(task.as_str(), home.root())
        .ok_or_else(|| format!("task {task} has no worktree of its own"))?;
    let repository = Repository::find(&origin.repository)?;
    let branch = match onto {
        Some(branch) => branch.to_owned(),
        None if origin.repository != origin.begun_in => {
            let gone = origin.begun_in.display();
            return Err(format!("the worktree {gone} is gone: name a branch with --onto BRANCH"));
        }
        None => repository
            .git(["symbolic-ref", "--quiet", "--short", "HEAD"].map(OsString::from))
            .map(|name| name.trim_end().to_owned())
            .map_err(|_| {
                let top = repository.top.display();
                format!("no branch is checked out in {top}: name one with --onto BRANCH")
            })?,
    };
    let name = format!("refs/heads/{branch}");
    if branch.starts_with('-') || branch.starts_with("drivetrain/") || !is_there(&repository, &name)
    {
        let top = repository.top.display();
        return Err(format!("{branch:?} is not a branch of yours in {top}"));
    }
    Ok(Lane { repository: text(&origin.repository)?, branch })
}

fn is_there(repository: &Repository, name: &str) -> bool {
    repository.git(["show-ref", "--verify", "--quiet", name].map(OsString::from)).is_ok()
}

fn words(error: ApplyError) -> String {
    let message = error.to_string();
    match error {
        // Options are those of `apply`.
        ApplyError::Refused { hints, .. } | ApplyError::Unfit { hints, .. } => {
            match hints.iter().find(|hint| !hint.starts_with('-')) {
                Some(hint) => format!("{message} ({hint})"),
                None => message,
            }
        }
        ApplyError::Conflict { .. } | ApplyError::Failed(_) => message,
    }
}
