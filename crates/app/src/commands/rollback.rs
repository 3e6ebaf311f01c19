//! `drivetrain rollback`: gives a task's workspace an earlier state, whoever drives the task, and so that it can be undone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{Journal, Loaded};
use machine::Command;
use machine::event::EventKind;
use machine::id::TaskId;
use machine::state::Standing;
use machine::task::Outcome;
use runtime::checkpoint::in_the_way;
use runtime::control::{self, ControlError};
use runtime::host::Host;
use runtime::process::Cancel;
use runtime::station::Station;
use runtime::supervisor::Notice;
use serde_json::json;
use view::{Line, Tone, diff, text};

use crate::args::RollbackArgs;
use crate::error::{CommandError, Kind};
use crate::kept::{Kept, paths_json};
use crate::locate::Records;
use crate::{output, take_up};

/// How long the process that drives the task may take to go back.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is asked whether it has.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs the command.
pub(crate) fn run(args: &RollbackArgs, json: bool) -> Result<u8, CommandError> {
    let (records, cancel) = (Records::open()?, Cancel::new());
    let kept = Kept::open(&records, &args.id, &cancel)?;
    let point = kept.point(&args.to)?.clone();
    if !args.preview {
        leave_files_of_another(&records, &kept)?;
    }
    if !kept.folder.exists() {
        let reason = format!("the folder {} of task {} is gone", kept.folder.display(), kept.id);
        return Err(CommandError::new(Kind::Refused, reason).hint(format!(
            "drivetrain fork {} --at {} begins a new task with those files",
            kept.id, point.number
        )));
    }
    let target = kept.side(&point.number.to_string())?;
    let now = kept.now()?;
    let paths = kept.paths(&now, &target)?;
    let blocked = kept
        .store
        .in_the_way(&kept.folder, &now.content, &target.content)
        .map_err(CommandError::environment)?;
    let lacks = kept.lacks(&records, &point)?;
    if args.preview {
        return preview(&kept, point.number, &paths, &blocked, lacks, json);
    }
    // What was proven is handed over whatever the files are; all else is handed over as they are then.
    if let Some(lacks) = lacks.as_ref().filter(|_| kept.outcome() != Some(Outcome::Verified)) {
        let reason = format!("task {} stays as it is: {lacks}", kept.id);
        return Err(CommandError::new(Kind::Refused, reason)
            .hint("go back to a later one: handed over, this one would take that away again")
            .hint(format!(
                "drivetrain diff {} --from {} shows what differs from it",
                kept.id, point.number
            )));
    }
    // Said before a task that runs is stopped for it.
    if !blocked.is_empty() {
        let reason = format!("task {} stays as it is: {}", kept.id, in_the_way::words(&blocked));
        return Err(CommandError::new(Kind::Refused, reason));
    }
    let id = kept.id.clone();
    let process = go_back(&records, &id, &point.commit)?;
    let undo = match process {
        Some(_) => awaited(&records, &id)?,
        None => {
            let Records { home, registry, journal } = records;
            drop(journal);
            let mut station = Station::open(&home, registry)?;
            station.supervisor.observe(Box::new(told));
            take_up::unless_driven(&mut station, &id, |station, from| {
                station.supervisor.roll_back_at_rest(&id, from, &point.commit)
            })?
            .name
        }
    };
    let points = kept.store.points().map_err(CommandError::environment)?;
    let undo_number = points.iter().find(|point| point.commit == undo).map(|point| point.number);
    if json {
        output::json(&json!({
            "v": 1,
            "ok": true,
            "task": id,
            "command": "rollback",
            "process": process,
            "to": { "number": point.number, "checkpoint": point.commit },
            "undo": { "number": undo_number, "checkpoint": undo },
            "paths": paths_json(&paths),
            "lacks": lacks,
        }));
        return Ok(0);
    }
    let mut lines = vec![Line::new(
        Tone::Good,
        format!("the workspace of task {id} is as at checkpoint {}", point.number),
    )];
    lines.push(diff::sum(&paths));
    lines.extend(lacks.map(|lacks| Line::new(Tone::Ask, text::visible(&lacks))));
    if let Some(number) = undo_number {
        lines.push(Line::plain(format!("drivetrain rollback {id} --to {number} undoes this")));
    }
    if kept.outcome() == Some(Outcome::Verified) && kept.task.state.begun_by().is_none() {
        lines.push(Line::plain(format!(
            "what was proven stays: drivetrain apply {id} still hands over the tree that was verified"
        )));
    }
    output::lines(&lines);
    Ok(0)
}

/// What cannot be written down is not done: whoever waits is told what for.
fn told(notice: &Notice<'_>) {
    match notice {
        Notice::Stalled(reason) => {
            output::error(&format!("the journal cannot be written, everything waits: {reason}"));
        }
        Notice::Unstalled => output::error("the journal can be written again"),
        Notice::Event(_) | Notice::Streamed(..) | Notice::Room(_) | Notice::Lost(..) => {}
    }
}

/// A task that a step began works in the files of the task around it. Once it has ended they are that task's, which
/// would not be told.
fn leave_files_of_another(records: &Records, kept: &Kept<'_>) -> Result<(), CommandError> {
    let (Some(_), Some(around)) = (kept.outcome(), kept.task.state.begun_by()) else {
        return Ok(());
    };
    let standing = records.load(around)?.state.standing();
    if let Standing::Finished { .. } = standing {
        return Ok(());
    }
    let reason = format!(
        "task {} has ended, and its files are those of task {around}, which has not",
        kept.id
    );
    Err(CommandError::new(Kind::Refused, reason)
        .hint(format!("drivetrain checkpoints {around} lists what that one can go back to")))
}

fn preview(
    kept: &Kept<'_>,
    number: usize,
    paths: &[diff::Path],
    blocked: &[PathBuf],
    lacks: Option<String>,
    json: bool,
) -> Result<u8, CommandError> {
    let blocked: Vec<String> =
        blocked.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    if json {
        output::json(&json!({
            "v": 1, "task": kept.id, "preview": true, "to": number, "paths": paths_json(paths),
            "in_the_way": blocked, "lacks": lacks,
        }));
        return Ok(0);
    }
    let mut lines = diff::stat(paths);
    lines.extend(lacks.map(|lacks| Line::new(Tone::Ask, text::visible(&lacks))));
    for path in &blocked {
        lines.push(Line::new(
            Tone::Ask,
            format!("in the way: {} (git ignores it: move it away first)", text::visible(path)),
        ));
    }
    lines.push(Line::new(
        Tone::Faint,
        format!("nothing was changed: drivetrain rollback {} --to {number} does it", kept.id),
    ));
    output::lines(&lines);
    Ok(0)
}

/// Tells the process that drives the task; none if nobody does.
fn go_back(records: &Records, id: &TaskId, to: &str) -> Result<Option<u32>, CommandError> {
    let row = records.journal.task(id.as_str())?;
    let Some(pid) = records.home.alive(row.owner) else { return Ok(None) };
    let command = Command::RollBack { to: to.to_owned() };
    match control::send(&records.home.socket(row.owner), id, command) {
        Ok(()) => Ok(Some(pid)),
        // Its last holder lives but has let go of it, or died a moment ago.
        Err(ControlError::Gone(_) | ControlError::NotHere) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the process that drives the task has gone back; what the files were before.
fn awaited(records: &Records, id: &TaskId) -> Result<String, CommandError> {
    let begun = Instant::now();
    loop {
        let row = records.journal.task(id.as_str())?;
        let task = records.glance(&row)?;
        if task.state.data().going_back.is_none() {
            break;
        }
        if task.driven_by.is_none() {
            return Err(CommandError::environment(format!(
                "the process that drove task {id} ended before it had gone back"
            ))
            .hint(format!("drivetrain resume {id} brings it to its end")));
        }
        if begun.elapsed() > PATIENCE {
            return Err(CommandError::environment(format!(
                "the process that drives task {id} was told and has not gone back yet"
            ))
            .hint(format!("drivetrain log {id} --follow watches it")));
        }
        std::thread::sleep(PAUSE);
    }
    let mut end = None;
    let loaded = Loaded { snapshot: None, records: records.journal.records(id.as_str(), 0)? };
    let folded = Host::fold(id, &loaded, Arc::clone(&records.registry), false, |output| {
        for event in output.events {
            match event.kind {
                EventKind::RolledBack { undo, .. } => end = Some(Ok(undo)),
                EventKind::RollBackFailed { reason, .. } => end = Some(Err(reason)),
                _ => {}
            }
        }
    });
    folded.map_err(|error| CommandError::environment(error.to_string()))?;
    match end {
        Some(Ok(undo)) => Ok(undo),
        Some(Err(reason)) => Err(CommandError::new(Kind::Refused, reason)
            .hint(format!("the task is paused: look, then drivetrain resume {id}"))),
        None => Err(CommandError::environment("nothing says what became of it")),
    }
}
