//! `drivetrain approvals`: what people are asked, of all open tasks; with `--watch` as it comes.

use std::collections::BTreeMap;
use std::time::Duration;

use journal::Journal;
use machine::id::TaskId;
use machine::state::Ask;
use serde_json::{Value, json};
use view::approvals::{Amount, answers, next_lines, shown};
use view::{Line, Tone, text};

use crate::args::ApprovalsArgs;
use crate::error::CommandError;
use crate::locate::Records;
use crate::output;

/// How often the journal is looked at.
const GLANCE: Duration = Duration::from_millis(300);

/// A task that asks, and what.
struct Asking {
    id: TaskId,
    goal: String,
    driver: String,
    asks: Vec<Ask>,
}

/// Runs the command.
pub(crate) fn run(args: &ApprovalsArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let amount = if args.whole { Amount::Whole } else { Amount::Screen };
    if args.watch {
        return watch(&records, amount, json);
    }
    let asking = asking(&records)?;
    if json {
        let asks: Vec<Value> =
            asking.iter().flat_map(|task| task.asks.iter().map(|ask| entry(task, ask))).collect();
        output::json(&json!({ "v": 1, "asks": asks }));
    } else if asking.is_empty() {
        output::lines(&[Line::plain("nobody is asked anything")]);
    } else {
        let mut page = Vec::new();
        for task in &asking {
            if !page.is_empty() {
                page.push(Line::empty());
            }
            page.push(heading(task));
            page.extend(task.asks.iter().flat_map(|ask| asked(task, ask, amount)));
        }
        output::lines(&page);
    }
    Ok(0)
}

/// Tells what is newly asked and what was settled, until nobody reads any more.
fn watch(records: &Records, amount: Amount, json: bool) -> Result<u8, CommandError> {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    if !json {
        output::lines(&[Line::new(Tone::Faint, "watching; Ctrl-C ends it")]);
    }
    while !output::is_closed() && !output::has_no_reader() {
        let mut open = BTreeMap::new();
        for task in asking(records)? {
            for ask in &task.asks {
                let entry = entry(&task, ask);
                let key = entry.to_string();
                if !known.contains_key(&key) {
                    if json {
                        output::json(&json!({ "v": 1, "asked": entry }));
                    } else {
                        let mut page = vec![heading(&task)];
                        page.extend(asked(&task, ask, amount));
                        output::lines(&page);
                    }
                }
                open.insert(key, entry);
            }
        }
        for (_, entry) in known.iter().filter(|(key, _)| !open.contains_key(*key)) {
            let (task, call) = (&entry["task"], &entry["call"]);
            if json {
                output::json(&json!({ "v": 1, "settled": { "task": task, "call": call } }));
            } else {
                let call = call.as_u64().map(|call| format!(" c{call}")).unwrap_or_default();
                let task = task.as_str().unwrap_or_default();
                output::lines(&[Line::new(Tone::Good, format!("settled: {task}{call}"))]);
            }
        }
        known = open;
        std::thread::sleep(GLANCE);
    }
    Ok(0)
}

/// The tasks that ask somebody something. A damaged one is named by list and journal verify; here it must not hide the
/// others.
fn asking(records: &Records) -> Result<Vec<Asking>, CommandError> {
    let rows = records.journal.open_tasks()?;
    let found = rows.iter().filter_map(|row| records.glance(row).ok());
    let asking = found.map(|task| Asking {
        id: task.state.id().clone(),
        goal: task.state.data().spec.goal.clone(),
        driver: task.state.driver_name().to_owned(),
        asks: task.state.asks(),
    });
    Ok(asking.filter(|task| !task.asks.is_empty()).collect())
}

fn entry(task: &Asking, ask: &Ask) -> Value {
    let mut entry = json!(ask);
    entry["task"] = json!(task.id);
    entry
}

fn heading(task: &Asking) -> Line {
    Line::new(Tone::Strong, format!("task {}: {}", task.id, text::visible(&task.goal)))
}

fn asked(task: &Asking, ask: &Ask, amount: Amount) -> Vec<Line> {
    let mut lines = shown(ask, amount);
    lines.extend(next_lines(&answers(&task.id, &task.driver, ask)));
    lines
}
