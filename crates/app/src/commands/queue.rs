//! `drivetrain queue`: what waits to be put into a branch, and what became of it.

mod work;

use journal::Journal;
use machine::id::TaskId;
use machine::queue::{End, Entry, Stage};
use machine::state::Standing;
use machine::task::{Outcome, WorkspaceKind};
use runtime::integrate;
use runtime::queue::QueueFile;
use serde_json::{Value, json};
use view::{Line, Tone};

use crate::args::{QueueAddArgs, QueueCmd};
use crate::error::{CommandError, Kind};
use crate::locate::{self, Records, Task};
use crate::{output, screen};

/// Runs the command.
pub(crate) fn run(command: &QueueCmd, json: bool) -> Result<u8, CommandError> {
    match command {
        QueueCmd::Add(args) => add(args, json),
        QueueCmd::List => list(json),
        QueueCmd::Show { id: Some(id) } => show(id, json),
        QueueCmd::Show { id: None } => overview(json),
        QueueCmd::Run(args) => work::run(args, json),
        QueueCmd::Drop(args) => take_out(&args.id, json),
    }
}

/// All or none: an id that cannot be added keeps the others out too.
fn add(args: &QueueAddArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let mut wanted = Vec::new();
    for prefix in &args.ids {
        let id = records.find(prefix)?;
        check(&records.glance(&records.journal.task(id.as_str())?)?)?;
        let refused = |reason| CommandError::new(Kind::Refused, reason);
        let lane = integrate::lane(&id, args.onto.as_deref(), &records.home).map_err(refused)?;
        wanted.push((id, lane));
    }
    let now = locate::now();
    let added = QueueFile::of(&records.home).change(|queue| {
        // To the front as a block, in the order they were named.
        let turned: Vec<_> = match args.front {
            true => wanted.iter().rev().collect(),
            false => wanted.iter().collect(),
        };
        let end = if args.front { End::Front } else { End::Back };
        for (id, lane) in turned {
            queue.add(id.clone(), lane.clone(), end, now)?;
        }
        Ok(queue.open())
    });
    let waiting = added.map_err(|reason| CommandError::new(Kind::Refused, reason))?;
    if json {
        let tasks: Vec<Value> =
            wanted.iter().map(|(id, lane)| json!({ "task": id, "branch": lane.branch })).collect();
        output::json(&json!({ "v": 1, "ok": true, "added": tasks, "waiting": waiting }));
        return Ok(0);
    }
    let mut lines: Vec<Line> = wanted
        .iter()
        .map(|(id, lane)| {
            Line::plain(format!("task {id} waits for {}", view::text::visible(&lane.branch)))
        })
        .collect();
    if QueueFile::of(&records.home).runner().is_none() {
        lines.push(Line::new(Tone::Faint, "drivetrain queue run integrates what waits"));
    }
    output::lines(&lines);
    Ok(0)
}

/// Only what is proven, in a worktree of its own and not integrated yet, can be added.
fn check(task: &Task) -> Result<(), CommandError> {
    let data = task.state.data();
    let id = &data.id;
    let refused = |reason: String| CommandError::new(Kind::Refused, reason);
    match task.state.standing() {
        Standing::Finished { outcome: Outcome::Verified, .. } => {}
        Standing::Finished { outcome, .. } => {
            return Err(refused(format!(
                "task {id} is not verified: it ended as {}",
                outcome.word()
            ))
            .hint(format!("drivetrain why {id} says how it ended")));
        }
        Standing::Working | Standing::Paused | Standing::AwaitingPerson { .. } => {
            return Err(refused(format!("task {id} is not verified: it has not ended"))
                .hint(format!("drivetrain why {id} says what it waits for")));
        }
    }
    if data.workspace.as_ref().is_none_or(|place| place.kind != WorkspaceKind::Worktree) {
        return Err(refused(format!(
            "task {id} did not work in a worktree of its own: what it changed is where it worked"
        )));
    }
    match &data.integrated {
        Some(done) => {
            Err(refused(format!("task {id} is in {} already, as {}", done.branch, done.commit)))
        }
        None => Ok(()),
    }
}

fn list(json: bool) -> Result<u8, CommandError> {
    let file = QueueFile::of(&locate::home()?);
    let queue = file.read().map_err(CommandError::environment)?;
    if json {
        output::json(&json!({ "v": 1, "runner": file.runner(), "entries": queue.entries }));
        return Ok(0);
    }
    if queue.entries.is_empty() {
        output::lines(&[
            Line::plain("the queue is empty"),
            Line::new(Tone::Faint, "  drivetrain queue add ID puts a verified task into it"),
        ]);
        return Ok(0);
    }
    let goals = goals(&queue.entries);
    output::lines(&view::queue::table(&queue.entries, &goals, locate::now(), screen::columns()));
    Ok(0)
}

/// What each entry's task is to achieve; empty where nothing is known of it.
fn goals(entries: &[Entry]) -> Vec<String> {
    let Ok(records) = Records::open() else { return vec![String::new(); entries.len()] };
    let goal = |id: &TaskId| {
        let row = records.journal.task(id.as_str()).ok()?;
        Some(records.glance(&row).ok()?.state.data().spec.goal.clone())
    };
    entries.iter().map(|entry| goal(&entry.task).unwrap_or_default()).collect()
}

fn show(prefix: &str, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    let queue = QueueFile::of(&records.home).read().map_err(CommandError::environment)?;
    let Some(entry) = queue.entry(&id) else {
        return Err(CommandError::usage(format!("task {id} is not in the queue"))
            .hint(format!("drivetrain queue add {id} puts it there, if it is verified")));
    };
    if json {
        let mut shown = json!(entry);
        shown["v"] = json!(1);
        output::json(&shown);
        return Ok(0);
    }
    let goal = goals(std::slice::from_ref(entry)).pop().unwrap_or_default();
    output::lines(&view::queue::entry(entry, &goal));
    Ok(0)
}

fn overview(json: bool) -> Result<u8, CommandError> {
    let file = QueueFile::of(&locate::home()?);
    let queue = file.read().map_err(CommandError::environment)?;
    let current = queue.entries.iter().find(|entry| entry.stage == Stage::Integrating);
    let waiting = queue.entries.iter().filter(|entry| entry.stage == Stage::Waiting).count();
    if json {
        output::json(&json!({
            "v": 1, "runner": file.runner(), "current": current, "waiting": waiting,
        }));
        return Ok(0);
    }
    let mut lines = vec![match file.runner() {
        Some(pid) => Line::new(Tone::Good, format!("process {pid} works on the queue")),
        None => Line::plain("nobody works on the queue: drivetrain queue run does"),
    }];
    if let Some(entry) = current {
        let branch = view::text::visible(&entry.lane.branch);
        lines.push(Line::plain(format!("task {} is being put into {branch}", entry.task)));
    }
    lines.push(Line::plain(format!("{waiting} {} waiting", view::text::plural(waiting, "task"))));
    output::lines(&lines);
    Ok(0)
}

fn take_out(prefix: &str, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    QueueFile::of(&records.home)
        .change(|queue| queue.drop_task(&id, locate::now()))
        .map_err(|reason| CommandError::new(Kind::Refused, reason))?;
    if json {
        output::json(&json!({ "v": 1, "ok": true, "task": id, "command": "queue drop" }));
    } else {
        output::lines(&[Line::plain(format!("task {id} is out of the queue"))]);
    }
    Ok(0)
}
