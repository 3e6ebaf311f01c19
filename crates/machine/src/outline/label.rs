//! What a step is and does, in a line.

use serde_json::Value;

use super::{NodeKind, text};

/// Longer lines are cut: a drawing shows the way, not the contents.
const WIDTH: usize = 60;

/// What a step or a state is, and what it does.
pub(super) fn describe(step: &Value) -> (NodeKind, String) {
    let has = |key: &str| step.get(key).is_some_and(|value| !value.is_null());
    let (kind, detail) = if let Some(action) = step.get("action") {
        (NodeKind::Tool, call(action))
    } else if has("foreach") {
        let name = step.get("as").and_then(Value::as_str).unwrap_or("item");
        (NodeKind::Foreach, format!("{name} in {}", text(step, "foreach")))
    } else if has("parallel") {
        (NodeKind::Parallel, String::new())
    } else if has("workflow") || has("machine") {
        (NodeKind::Workflow, nested_name(step))
    } else if has("agent") {
        (NodeKind::Agent, joined(text(step, "agent"), text(step, "prompt")))
    } else if has("ask") {
        (NodeKind::Person, text(step, "ask").to_owned())
    } else if has("approve") {
        (NodeKind::Person, joined("approve", text(step, "approve")))
    } else if has("driver") {
        (NodeKind::Driver, text(step, "driver").to_owned())
    } else if has("task") {
        (
            NodeKind::Task,
            step.get("task").map(|task| text(task, "goal")).unwrap_or_default().to_owned(),
        )
    } else if text(step, "type") == "llm" || (has("prompt") && !has("tool")) {
        (NodeKind::Model, text(step, "prompt").to_owned())
    } else if has("tool") {
        (NodeKind::Tool, call(step))
    } else {
        (NodeKind::Junction, String::new())
    };
    (kind, short(&detail))
}

fn nested_name(step: &Value) -> String {
    match step.get("workflow") {
        Some(Value::String(name)) => name.clone(),
        Some(table) => text(table, "name").to_owned(),
        None => String::new(),
    }
}

/// The tool and the parameter that tells most.
fn call(step: &Value) -> String {
    let parameters = step.get("parameters");
    let telling = ["command", "path", "pattern", "query"].iter();
    let found = parameters
        .and_then(|given| telling.map(|key| text(given, key)).find(|text| !text.is_empty()));
    joined(text(step, "tool"), found.unwrap_or_default())
}

fn joined(left: &str, right: &str) -> String {
    if right.is_empty() { left.to_owned() } else { format!("{left}: {right}") }
}

/// One line of a readable length.
pub(super) fn short(given: &str) -> String {
    let mut line = given.trim().lines().map(str::trim);
    let first = line.next().unwrap_or_default();
    let is_cut = line.next().is_some() || first.chars().count() > WIDTH;
    let mut shown: String = first.chars().take(WIDTH).collect();
    if is_cut {
        shown.push('…');
    }
    shown
}

/// A count as a label: `≤ 3`.
pub(super) fn most(given: Option<&Value>) -> String {
    given.and_then(Value::as_u64).map(|most| format!("≤ {most}")).unwrap_or_default()
}

/// Words with blanks between; empty ones are left out.
pub(super) fn words(parts: &[&str]) -> String {
    let kept: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    kept.join(" ")
}
