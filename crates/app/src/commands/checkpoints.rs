//! `drivetrain checkpoints`: the states of a task's workspace that are kept.

use machine::time::Timestamp;
use runtime::process::Cancel;
use serde_json::json;
use view::checkpoints::{Row, table};
use view::{Line, Tone};

use crate::args::TaskArgs;
use crate::error::CommandError;
use crate::kept::{Kept, joined};
use crate::locate::{self, Records};
use crate::{output, screen};

/// Runs the command.
pub(crate) fn run(args: &TaskArgs, json: bool) -> Result<u8, CommandError> {
    let (records, cancel) = (Records::open()?, Cancel::new());
    let kept = Kept::open(&records, &args.id, &cancel)?;
    let (mut rows, mut shown) = (Vec::new(), Vec::new());
    let mut before = None;
    for point in &kept.points {
        let content = kept.store.content(&point.commit).map_err(CommandError::environment)?;
        let paths = match &before {
            None => None,
            Some(before) => {
                let changes = kept.store.compare(before, &content);
                let lines = kept.store.lines(before, &content);
                let changes = changes.map_err(CommandError::environment)?;
                Some(joined(&changes, &lines.map_err(CommandError::environment)?))
            }
        };
        let data = kept.data();
        let is = |checkpoint: &Option<machine::verdict::Checkpoint>| {
            checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.name == point.commit)
        };
        let mark = match () {
            () if is(&data.frozen) => Some("handed over"),
            () if is(&data.base) => Some("base"),
            () => None,
        };
        let (added, removed) = view::diff::lines_of(paths.as_deref().unwrap_or_default());
        shown.push(json!({
            "number": point.number,
            "checkpoint": point.commit,
            "tree": content.tree(),
            "time": point.time.saturating_mul(1000),
            "reason": point.reason,
            "paths": paths.as_ref().map(Vec::len),
            "added": added,
            "removed": removed,
            "mark": mark,
        }));
        rows.push(Row {
            number: point.number,
            time: Timestamp(point.time.saturating_mul(1000)),
            reason: point.reason.clone(),
            paths: paths.as_ref().map(Vec::len),
            lines: (added, removed),
            mark,
        });
        before = Some(content);
    }
    if json {
        output::json(&json!({ "v": 1, "task": kept.id, "checkpoints": shown }));
        return Ok(0);
    }
    if rows.is_empty() {
        output::lines(&[Line::plain(format!("no checkpoints: {}", kept.why_none()))]);
        return Ok(0);
    }
    output::lines(&table(&rows, locate::now(), screen::columns()));
    output::lines(&[Line::new(
        Tone::Faint,
        format!(
            "drivetrain rollback {} --to N --preview shows what going back would change",
            kept.id
        ),
    )]);
    Ok(0)
}
