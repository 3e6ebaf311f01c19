//! `drivetrain approvals`: what people are asked, of all open tasks.

use journal::Journal;
use serde_json::{Value, json};
use view::approvals::{answers, lines, next_lines};
use view::{Line, Tone, text};

use crate::error::CommandError;
use crate::locate::Records;
use crate::output;

/// Runs the command.
pub(crate) fn run(json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let mut shown: Vec<Value> = Vec::new();
    let mut page = Vec::new();
    for row in records.journal.open_tasks()? {
        // A damaged task is named by list and journal verify; here it must not hide the others.
        let Ok(task) = records.glance(&row) else { continue };
        let id = task.state.id();
        let asks = task.state.asks();
        if asks.is_empty() {
            continue;
        }
        if !page.is_empty() {
            page.push(Line::empty());
        }
        page.push(Line::new(
            Tone::Strong,
            format!("task {id}: {}", text::visible(&task.state.data().spec.goal)),
        ));
        for ask in asks {
            page.extend(lines(&ask));
            page.extend(next_lines(&answers(id, task.state.driver_name(), &ask)));
            let mut entry = json!(ask);
            entry["task"] = json!(id);
            shown.push(entry);
        }
    }
    if json {
        output::json(&json!({ "v": 1, "asks": shown }));
    } else if page.is_empty() {
        output::lines(&[Line::plain("nobody is asked anything")]);
    } else {
        output::lines(&page);
    }
    Ok(0)
}
