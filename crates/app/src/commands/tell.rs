//! Commands that tell a task something: `pause`, `cancel`, `interrupt`, `steer`, `follow-up`, `compact`, `raise`.

use machine::Command;
use machine::id::TaskId;
use serde_json::{Value, json};
use view::Line;

use super::children;
use crate::args::{CancelArgs, CompactArgs, InterruptArgs, NoteArgs, RaiseArgs};
use crate::error::CommandError;
use crate::locate::Records;
use crate::output;

/// Holds a task.
pub(crate) fn pause(prefix: &str, json: bool) -> Result<u8, CommandError> {
    tell(prefix, "pause", Command::Pause, "is paused", json)
}

/// Ends a task.
pub(crate) fn cancel(args: &CancelArgs, json: bool) -> Result<u8, CommandError> {
    tell(&args.id, "cancel", Command::Cancel { reason: args.reason.clone() }, "is cancelled", json)
}

/// Stops what runs and tells the driver.
pub(crate) fn interrupt(args: &InterruptArgs, json: bool) -> Result<u8, CommandError> {
    let note = spoken(&args.text);
    tell(&args.id, "interrupt", Command::Interrupt { note }, "is interrupted", json)
}

/// Tells the driver.
pub(crate) fn steer(args: &NoteArgs, json: bool) -> Result<u8, CommandError> {
    tell(&args.id, "steer", Command::Steer { text: said(args)? }, "has the note", json)
}

/// Tells the driver once it would be finished.
pub(crate) fn follow_up(args: &NoteArgs, json: bool) -> Result<u8, CommandError> {
    tell(
        &args.id,
        "follow-up",
        Command::FollowUp { text: said(args)? },
        "has the note for its end",
        json,
    )
}

/// Makes the conversation of whoever works shorter.
pub(crate) fn compact(args: &CompactArgs, json: bool) -> Result<u8, CommandError> {
    let focus = spoken(&args.focus);
    let done = "has its conversation made shorter before its next turn";
    tell(&args.id, "compact", Command::Compact { focus }, done, json)
}

/// Allows more.
pub(crate) fn raise(args: &RaiseArgs, json: bool) -> Result<u8, CommandError> {
    tell(&args.id, "raise", Command::Raise(args.limits.budget()), "may spend more", json)
}

fn said(args: &NoteArgs) -> Result<String, CommandError> {
    match spoken(&args.text) {
        text if text.is_empty() => Err(CommandError::usage("the text is empty")),
        text => Ok(text),
    }
}

/// The words of a text that was given with or without quotes.
fn spoken(words: &[String]) -> String {
    words.join(" ").trim().to_owned()
}

fn tell(
    prefix: &str,
    name: &str,
    command: Command,
    done: &str,
    json: bool,
) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    give(records, &id, name, command, done, json)
}

/// Gives a command and says what came of it.
pub(crate) fn give(
    records: Records,
    id: &TaskId,
    name: &str,
    command: Command,
    done: &str,
    json: bool,
) -> Result<u8, CommandError> {
    let ends = matches!(command, Command::Cancel { .. });
    // What whoever works or decides cannot do is said; a task that cannot be read is the next line's error.
    let row = journal::Journal::task(&records.journal, id.as_str()).ok();
    let task = row.and_then(|row| records.glance(&row).ok());
    let remark = task.and_then(|task| task.state.remark(&command, task.driven_by.is_some()));
    let process = records.give(id, command)?;
    if ends && process.is_none() {
        // Nobody drives it who would say so: whoever waits for it is told here, or when it is looked at.
        let _ = children::report(id);
    }
    if json {
        let mut answer = answer(id, name, process);
        if let Some(remark) = remark {
            answer["remark"] = json!(remark);
        }
        output::json(&answer);
        return Ok(0);
    }
    let mut lines = told(id, done, process, ends);
    lines.extend(remark.map(|remark| Line::plain(view::text::visible(&remark))));
    output::lines(&lines);
    Ok(0)
}

/// What a program reads of a command that was taken.
pub(crate) fn answer(id: &TaskId, name: &str, process: Option<u32>) -> Value {
    json!({ "v": 1, "ok": true, "task": id, "command": name, "process": process })
}

/// What a person reads of it.
pub(crate) fn told(id: &TaskId, done: &str, process: Option<u32>, ends: bool) -> Vec<Line> {
    let mut lines = vec![Line::plain(format!("task {id} {done}"))];
    if process.is_none() && !ends {
        let id = outermost(id);
        lines.push(Line::plain(format!("no process drives it: drivetrain resume {id} goes on")));
    }
    lines
}

/// The task to resume so that this one goes on: whoever waits for it takes it up, and one that is resumed by itself would
/// leave that one behind.
fn outermost(id: &TaskId) -> TaskId {
    let around = |id: &TaskId| {
        let records = Records::open().ok()?;
        let row = journal::Journal::task(&records.journal, id.as_str()).ok()?;
        records.glance(&row).ok()?.state.begun_by().cloned()
    };
    let mut top = id.clone();
    // Tasks begin tasks three deep.
    for _ in 0..machine::child::MOST_DEPTH {
        let Some(next) = around(&top) else { break };
        top = next;
    }
    top
}
