//! `drivetrain list`: open tasks and the newest others.

use journal::{Journal, TaskRow};
use serde_json::{Value, json};
use view::tasks::{Row, table};
use view::{Line, Tone};

use crate::args::ListArgs;
use crate::error::CommandError;
use crate::locate::{self, Records};
use crate::{output, screen};

/// Runs the command.
pub(crate) fn run(args: &ListArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let limit = if args.all { usize::MAX } else { args.limit };
    let mut rows = records.journal.list(limit, None)?;
    // An open task is never left out by the limit: it may need somebody.
    for open in records.journal.open_tasks()?.into_iter().rev() {
        if !rows.iter().any(|row| row.id == open.id) {
            rows.push(open);
        }
    }
    let summaries: Vec<Value> = rows.iter().map(|row| summary(&records, row)).collect();
    if json {
        output::json(&json!({ "v": 1, "tasks": summaries }));
        return Ok(0);
    }
    if summaries.is_empty() {
        output::lines(&[
            Line::plain("no tasks yet"),
            Line::new(Tone::Faint, "  drivetrain run --help shows how to start one"),
        ]);
        return Ok(0);
    }
    let rows: Vec<Row> = summaries
        .iter()
        .map(|summary| Row::from_summary(summary, !summary["driven_by"].is_null()))
        .collect();
    output::lines(&table(&rows, locate::now(), screen::columns()));
    Ok(0)
}

/// The stored summary of a closed task; an open one may have moved on since, so it is looked at.
fn summary(records: &Records, row: &TaskRow) -> Value {
    let stored = || serde_json::from_str::<Value>(&row.summary).ok().filter(|_| !row.open);
    let mut summary = stored().unwrap_or_else(|| match records.glance(row) {
        Ok(task) => {
            let mut summary = runtime::host::summary(&task.state);
            summary["driven_by"] = json!(task.driven_by);
            summary["interrupted"] = json!(task.interrupted);
            summary
        }
        Err(error) => json!({
            "id": row.id, "phase": "damaged", "goal": error.text(), "updated": row.created,
        }),
    });
    if summary.get("driven_by").is_none() {
        summary["driven_by"] = Value::Null;
    }
    summary["created"] = json!(row.created);
    summary
}
