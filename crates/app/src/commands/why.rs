//! `drivetrain why`: why it stopped or what it waits for, on one screen.

use serde_json::json;
use view::story::Failure;
use view::why;

use crate::error::CommandError;
use crate::locate::Records;
use crate::output;

/// Runs the command.
pub(crate) fn run(prefix: &str, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(prefix)?;
    let task = records.load(&id)?;
    let standing = task.state.standing();
    let subject = task.subject(&standing);
    if json {
        let next: Vec<_> = why::next(&subject)
            .into_iter()
            .map(|next| json!({ "command": next.command, "effect": next.effect }))
            .collect();
        let mut shown = task.json();
        shown["standing"] = json!(standing);
        let told = |failure: &Failure| json!({ "call": failure.call, "title": failure.title, "result": failure.result });
        shown["failures"] = task.story.failures.iter().map(told).collect();
        shown["cut_short"] = task.story.cut_short.iter().map(told).collect();
        shown["next"] = json!(next);
        output::json(&shown);
    } else {
        output::lines(&why::lines(&subject));
    }
    Ok(0)
}
