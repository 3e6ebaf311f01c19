//! `drivetrain apply`: hands what a task proved to the user's checkout.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;

use machine::contest::{Standing, judge};
use machine::id::TaskId;
use machine::task::{Outcome, WorkspaceKind};
use machine::verdict::Checkpoint;
use runtime::apply::{ApplyError, How, Wish, apply};
use runtime::process::Cancel;
use serde_json::json;
use view::{Line, Tone, text};

use super::race::referee;
use crate::args::ApplyArgs;
use crate::error::{CommandError, Kind};
use crate::kept::Kept;
use crate::locate::Records;
use crate::{output, signals};

/// The longest first line of a message.
const SUBJECT: usize = 72;

/// Runs the command.
pub(crate) fn run(args: &ApplyArgs, json: bool) -> Result<u8, CommandError> {
    let (records, cancel) = (Records::open()?, Cancel::new());
    let mut kept = Kept::open(&records, &args.id, &cancel)?;
    let id = kept.id.clone();
    if kept.workspace.kind != WorkspaceKind::Worktree {
        return Err(CommandError::new(
            Kind::Refused,
            format!(
                "task {id} worked in {} itself (--in-place): what it changed is there",
                kept.folder.display()
            ),
        ));
    }
    let verified = kept.outcome() == Some(Outcome::Verified);
    let winner = lost_to(&kept);
    if !verified && !args.force_unverified {
        return Err(unverified(&kept, winner.as_ref()));
    }
    if let Some(pid) = kept.task.driven_by {
        let reason = format!("task {id} is driven by process {pid}: its files may change");
        return Err(
            CommandError::new(Kind::Refused, reason).hint("wait, or pause and stop it first")
        );
    }
    let frozen = match kept.data().result().cloned() {
        Some(handed_over) => handed_over,
        None => keep(&kept)?,
    };
    if let Some(file) = &args.patch {
        return patch(&mut kept, &frozen, file, json);
    }
    let data = kept.data();
    let base = data.whole_base();
    let registry = Arc::clone(&records.registry);
    let receipt = runtime::receipt::of_task(&records.journal, registry, &id).ok();
    let receipt = receipt.filter(|_| verified).map(|receipt| receipt.id);
    let message = (!args.no_commit).then(|| message(args, &kept, &frozen, receipt.as_deref()));
    let here = std::env::current_dir().ok();
    let wish = Wish {
        task: id.as_str(),
        workspace: &kept.workspace,
        base: base.map(|base| base.name.as_str()),
        frozen: &frozen.name,
        onto: args.onto.as_deref(),
        here: here.as_deref(),
        follow: false,
        message: message.as_deref(),
        merge: args.merge,
        beside_changes: args.beside_changes,
        hooks: args.hooks,
    };
    stopped_by_signals(cancel.clone())?;
    let mut applied = apply(&wish, records.home.root(), &cancel).map_err(shown)?;
    if let Some(winner) = &winner {
        let said = format!("this task did not win its race: task {winner} did");
        applied.notices.push(said);
    }
    if json {
        let (how, commit) = match &applied.how {
            How::Committed(commit) => ("committed", Some(commit.clone())),
            How::Staged => ("staged", None),
            How::Already(commit) => ("already", commit.clone()),
        };
        output::json(&json!({
            "v": 1,
            "ok": true,
            "task": id,
            "command": "apply",
            "how": how,
            "commit": commit,
            "branch": applied.branch,
            "tree": frozen.tree,
            "paths": applied.paths,
            "verified": verified,
            "notices": applied.notices,
        }));
        return Ok(0);
    }
    let branch = text::visible(&applied.branch);
    let count = format!("{} {}", applied.paths, text::plural(applied.paths, "path"));
    let said = match &applied.how {
        How::Committed(commit) => {
            format!("{branch} has commit {}: {count} changed", text::commit(commit))
        }
        How::Staged => format!("{count} changed in your files and index; nothing is committed"),
        How::Already(Some(commit)) => {
            format!("already applied: {branch} has commit {}", text::commit(commit))
        }
        How::Already(None) if args.no_commit => {
            format!("already applied: {branch} or your index has every change of the task")
        }
        How::Already(None) => format!("already applied: {branch} has every change of the task"),
    };
    let mut lines = vec![Line::new(Tone::Good, said)];
    if !verified {
        lines.push(Line::new(Tone::Ask, "this was not verified: you asked for it all the same"));
    }
    for notice in &applied.notices {
        lines.push(Line::new(Tone::Ask, text::visible(notice)));
    }
    output::lines(&lines);
    Ok(0)
}

/// A signal stops it where everything can still be as it was; past that it ends by itself, at once.
fn stopped_by_signals(cancel: Cancel) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::environment(format!("cannot listen for signals: {error}"))
    };
    let mut signals = signals::listen().map_err(failed)?;
    let hear = move || signals.forever().for_each(|_| cancel.trigger());
    std::thread::Builder::new().name("signals".to_owned()).spawn(hear).map(drop).map_err(failed)
}

/// The winner of a race that the task took part in and did not win.
fn lost_to(kept: &Kept<'_>) -> Option<TaskId> {
    let contest = kept.data().spec.contest.as_ref()?;
    match judge(contest.pick, &referee::look(contest).ok()?) {
        Standing::Won { winner, .. } => Some(winner).filter(|winner| *winner != kept.id),
        Standing::Open | Standing::Nobody => None,
    }
}

fn unverified(kept: &Kept<'_>, winner: Option<&TaskId>) -> CommandError {
    let id = &kept.id;
    let how = match kept.outcome() {
        None => "it has not ended".to_owned(),
        Some(Outcome::Completed) => {
            "it changed nothing, or had no criteria that could prove it".to_owned()
        }
        Some(outcome) => format!("it ended as {}", outcome.word()),
    };
    let error = CommandError::new(Kind::Refused, format!("task {id} is not verified: {how}"));
    let error = match winner {
        Some(winner) => error.hint(format!(
            "task {winner} won the race: drivetrain apply {winner} hands over what that one proved"
        )),
        None => error,
    };
    error
        .hint(format!("drivetrain diff {id} shows what it changed"))
        .hint("--force-unverified hands it over all the same, and the commit says so")
}

/// A task that handed nothing over is taken as its files are, kept under a name first; where they are gone, as they were
/// last kept.
fn keep(kept: &Kept<'_>) -> Result<Checkpoint, CommandError> {
    let refused = |reason| CommandError::new(Kind::Refused, reason);
    let name = match kept.points.last() {
        Some(last) if !kept.folder.exists() => last.commit.clone(),
        // Asked again, it is the same that is handed over.
        Some(last) if kept.now()?.content == kept.side(&last.number.to_string())?.content => {
            last.commit.clone()
        }
        Some(_) | None => {
            kept.store.keep(&kept.folder, "applied without proof").map_err(refused)?
        }
    };
    let tree = kept.store.tree(&name).map_err(refused)?;
    Ok(Checkpoint { name, tree })
}

fn patch(
    kept: &mut Kept<'_>,
    frozen: &Checkpoint,
    file: &std::path::Path,
    json: bool,
) -> Result<u8, CommandError> {
    let base = kept.base()?;
    let to = kept.store.content(&frozen.name).map_err(CommandError::environment)?;
    let patch = kept.store.patch_between(&base.content, &to).map_err(CommandError::environment)?;
    if file.as_os_str() == "-" {
        output::raw(&patch);
        return Ok(0);
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)
        .and_then(|mut file| file.write_all(&patch).and_then(|()| file.sync_all()));
    written.map_err(|error| {
        let error = CommandError::new(
            Kind::Refused,
            format!("the patch cannot be written to {}: {error}", file.display()),
        );
        error.hint("name a file that does not exist yet, or - for standard output")
    })?;
    if json {
        output::json(&json!({
            "v": 1, "ok": true, "task": kept.id, "command": "apply", "how": "patch",
            "file": file, "bytes": patch.len(),
        }));
    } else {
        output::lines(&[Line::plain(format!(
            "wrote {} bytes to {}: git apply takes them",
            patch.len(),
            text::visible(&file.to_string_lossy())
        ))]);
    }
    Ok(0)
}

/// What the goal says, and what the commit is by.
fn message(
    args: &ApplyArgs,
    kept: &Kept<'_>,
    frozen: &Checkpoint,
    receipt: Option<&str>,
) -> String {
    let said = args.message.as_deref().unwrap_or(&kept.data().spec.goal);
    let mut lines = said.trim().lines().map(text::visible);
    let first = lines.next().unwrap_or_default();
    let rest: Vec<String> = lines.collect();
    let subject = text::short(&first, SUBJECT);
    let mut message = format!("{subject}\n\n");
    if subject != first {
        message.push_str(&format!("{first}\n"));
    }
    let rest = rest.join("\n");
    if !rest.trim().is_empty() {
        message.push_str(&format!("{}\n", rest.trim()));
    }
    if !message.ends_with("\n\n") {
        message.push('\n');
    }
    message.push_str(&format!("Drivetrain-Task: {}\n", kept.id));
    message.push_str(&format!("Drivetrain-Tree: {}\n", frozen.tree));
    match receipt {
        Some(receipt) => message.push_str(&format!("Drivetrain-Receipt: {receipt}\n")),
        None => message.push_str("Drivetrain-Verified: no\n"),
    }
    message
}

fn shown(error: ApplyError) -> CommandError {
    let message = error.to_string();
    match error {
        ApplyError::Refused { hints, .. } | ApplyError::Unfit { hints, .. } => {
            let error = CommandError::new(Kind::Refused, message);
            hints.into_iter().fold(error, CommandError::hint)
        }
        ApplyError::Conflict { .. } => CommandError::new(Kind::Refused, message)
            .hint("nothing was changed; --onto NEW-BRANCH puts the proven tree on a branch to merge by hand"),
        ApplyError::Failed(_) => CommandError::environment(message),
    }
}
