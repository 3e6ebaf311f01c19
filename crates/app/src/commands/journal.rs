//! `drivetrain journal`: checks, mends and exports the record.

use journal::sqlite::SqliteJournal;
use journal::{Damage, Report};
use serde_json::json;
use view::{Line, Tone, text};

use crate::error::CommandError;
use crate::locate::{Records, home};
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
    let report = SqliteJournal::rebuild(&home.journal())?;
    if json {
        output::json(&json!({ "v": 1, "report": report }));
    } else {
        let mut lines = vec![Line::plain("the journal was rebuilt; the old one is kept beside it")];
        lines.extend(self::lines(&report));
        output::lines(&lines);
    }
    Ok(0)
}

/// Prints a task's records, one JSON object a line.
pub(crate) fn export(prefix: &str) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    records.journal.export(id.as_str(), &mut output::JsonLines::default())?;
    Ok(0)
}

fn lines(report: &Report) -> Vec<Line> {
    let counted = format!("{} tasks, {} records", report.tasks, report.records);
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
