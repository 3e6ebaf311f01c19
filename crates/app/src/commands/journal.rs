//! `drivetrain journal`: checks, mends and exports the record.

use std::collections::BTreeMap;

use journal::sqlite::{LossNote, SqliteJournal};
use journal::{Damage, DamageKind, Journal, Report};
use machine::id::TaskId;
use machine::input::Signal;
use runtime::station::Station;
use serde_json::json;
use view::{Line, Tone, text};

use crate::error::CommandError;
use crate::locate::{self, Records, home};
use crate::output;

/// Checks everything; 20 if something is wrong.
pub(crate) fn verify(json: bool) -> Result<u8, CommandError> {
    let report = SqliteJournal::inspect(&home()?.journal());
    let sound = report.damages.is_empty();
    if json {
        output::json(&json!({ "v": 1, "sound": sound, "report": report }));
    } else {
        let mut lines = lines(&report);
        let is_denied = |damage: &Damage| damage.detail.contains("Permission denied");
        if !sound && report.damages.iter().all(is_denied) {
            lines.push(Line::plain(
                "look again as the user whose journal it is: nothing else is known to be wrong",
            ));
        } else if !sound && report.damages.iter().all(|damage| damage.kind == DamageKind::Blob) {
            lines.push(Line::plain(
                "the records are whole; what a tool said at length was kept there, and only a copy brings it back",
            ));
        } else if !sound {
            lines.push(Line::plain("drivetrain journal rebuild makes a new journal of what can be read; the old one is kept"));
        }
        output::lines(&lines);
    }
    Ok(if sound { 0 } else { 20 })
}

/// Makes a new journal of everything that can be read.
pub(crate) fn rebuild(json: bool) -> Result<u8, CommandError> {
    let home = home()?;
    let mut lost = BTreeMap::new();
    let mut waiting = Vec::new();
    let report = SqliteJournal::rebuild_noting(&home.journal(), &mut |tail| {
        let id = TaskId(tail.task.to_owned());
        if tail.kept > 0 {
            waiting.push(id.clone());
        }
        lost.insert(id, tail.lost);
        Some(note(tail.lost))
    })?;
    waiting.extend(tell_parents(&lost)?);
    SqliteJournal::told_of_rebuild(&home.journal())?;
    if json {
        output::json(&json!({ "v": 1, "report": report, "look_first": waiting }));
    } else {
        let mut lines = vec![Line::plain("the journal was rebuilt; the old one is kept beside it")];
        lines.extend(self::lines(&report));
        lines.extend(waiting.iter().map(|id| {
            let text = format!("task {id} may do again what it has done: look at its files, then drivetrain resume {id}");
            Line::new(Tone::Ask, text)
        }));
        output::lines(&lines);
    }
    Ok(0)
}

/// What a task finds at the end of its records, instead of those that were lost.
fn note(lost: u64) -> LossNote {
    let body = runtime::host::encode(&Signal::RecordsLost { lost, child: None }.into());
    LossNote { time: locate::now().0, version: machine::MACHINE_VERSION, body }
}

/// A task whose step began one that lost records would go on with that one, or begin it again if nothing of it is left.
/// These are the ones that were told.
fn tell_parents(lost: &BTreeMap<TaskId, u64>) -> Result<Vec<TaskId>, CommandError> {
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let records = Records::open()?;
    let mut open = Vec::new();
    for row in records.journal.open_tasks()? {
        // One that this version cannot read does not go on either, and says so by itself.
        let Ok(task) = records.glance(&row) else { continue };
        let children = task.state.data().children.iter();
        let begun = children.filter(|(_, child)| child.step.is_some() && child.ended.is_none());
        let begun: Vec<TaskId> = begun.map(|(id, _)| id.clone()).collect();
        open.push((TaskId(row.id), row.owner, begun));
    }
    // Whoever takes up a parent goes on with its child, so those around it are told too.
    let mut known = lost.clone();
    let mut parents = Vec::new();
    loop {
        let before = parents.len();
        for (id, owner, begun) in &open {
            let found = begun.iter().find_map(|child| known.get_key_value(child));
            if let Some((child, count)) = found.filter(|_| !known.contains_key(id)) {
                let (child, count) = (child.clone(), *count);
                known.insert(id.clone(), count);
                parents.push((id.clone(), *owner, child, count));
            }
        }
        if parents.len() == before {
            break;
        }
    }
    let Records { home, registry, journal } = records;
    drop(journal);
    let mut told = Vec::new();
    if !parents.is_empty() {
        let mut station = Station::open(&home, registry)?;
        for (id, owner, child, count) in parents {
            station.supervisor.tell_of_lost_records(&id, owner, child, count)?;
            told.push(id);
        }
    }
    Ok(told)
}

/// Prints a task's records, one JSON object a line.
pub(crate) fn export(prefix: &str) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    records.journal.export(id.as_str(), &mut output::JsonLines::default())?;
    Ok(0)
}

fn lines(report: &Report) -> Vec<Line> {
    let counted = format!(
        "{}, {}",
        text::counted(report.tasks as usize, "task"),
        text::counted(report.records as usize, "record")
    );
    let mut lines = match report.damages.len() {
        0 => vec![Line::new(Tone::Good, format!("sound: {counted}"))],
        count => vec![Line::new(
            Tone::Bad,
            format!("{count} {} in {counted}", text::plural(count, "damage")),
        )],
    };
    lines.extend(report.damages.iter().map(damage));
    lines
}

fn damage(damage: &Damage) -> Line {
    let place = match (&damage.task, damage.n) {
        (Some(task), Some(n)) => format!("task {}, record {n}: ", text::visible(task)),
        (Some(task), None) => format!("task {}: ", text::visible(task)),
        (None, _) => String::new(),
    };
    Line::plain(format!("  {place}{}", text::visible(&damage.detail)))
}
