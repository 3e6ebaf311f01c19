//! Workflows beside the plain durable loop, in one run on one disk: ten thousand steps in a row, and a list of a thousand
//! elements, one after the other and all at once.

use std::path::{Path, PathBuf};

use journal::sqlite::SqliteJournal;
use machine::id::TaskId;
use machine::task::{DriverSpec, TaskSpec};
use runtime::home::Home;
use serde_json::{Value, json};

use crate::{Meter, durable_steps, spec, supervisor, warm};

/// What a step says; as much as a step of the plain loop.
fn said() -> String {
    "x".repeat(200)
}

/// Steps that say something, one after the other.
fn row(steps: u64) -> Value {
    let step =
        |n| json!({ "name": format!("s{n}"), "tool": "say", "parameters": { "text": said() } });
    json!({ "name": "row", "steps": (0..steps).map(step).collect::<Vec<_>>() })
}

/// The same, each with a condition over the one before and a text to fill in.
fn mentioning(steps: u64) -> Value {
    let step = |n: u64| {
        let mut step = json!({ "name": format!("s{n}"), "tool": "say",
                               "parameters": { "text": format!("{{{{ goal }}}} {n} {}", said()) } });
        if n > 0 {
            step["when"] = json!(format!("steps.s{}.ok", n - 1));
        }
        step
    };
    json!({ "name": "mentioning", "steps": (0..steps).map(step).collect::<Vec<_>>() })
}

/// A list whose elements are said, that many at once.
fn each(elements: u64, at_once: u64) -> Value {
    let said = json!({ "name": "one", "tool": "say", "when": "item >= 0",
                       "parameters": { "text": format!("{{{{ item }}}} {}", said()) } });
    json!({ "name": "each", "steps": [{ "name": "all", "foreach": format!("range({elements})"),
            "max_parallel": at_once, "steps": [said] }] })
}

/// Runs a workflow as a task.
fn run(folder: &Path, case: &str, steps: u64, config: Value) -> Value {
    let home = Home::at(folder);
    home.create().unwrap();
    warm(&home);
    let journal = SqliteJournal::open(&home.journal()).unwrap();
    let mut supervisor = supervisor(Box::new(journal), &home);
    let driver = DriverSpec::new("workflow", config);
    let task = TaskSpec { driver, ..spec(1) };
    supervisor.begin(TaskId("w".to_owned()), task, false).unwrap();
    let meter = Meter::start();
    supervisor.run().unwrap();
    let outcomes: Vec<&str> =
        supervisor.outcomes().values().map(|outcome| outcome.word()).collect();
    assert_eq!(outcomes, ["completed"], "{case}");
    meter.report(case, steps, json!({}))
}

/// The plain loop before and after, and each workflow beside it.
pub(crate) fn rates(folder: &Path, steps: u64, elements: u64) -> Vec<Value> {
    let fresh = |name: &str| -> PathBuf {
        let path = folder.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let rate = |line: &Value| line["steps_per_s"].as_f64().unwrap_or_default();
    let mut lines = Vec::new();
    let mut beside = |case: &str, count: u64, config: Value| {
        let before = durable_steps(&fresh(&format!("a-{case}")), count, 1);
        let mut ours = run(&fresh(case), case, count, config);
        let after = durable_steps(&fresh(&format!("b-{case}")), count, 1);
        let plain = (rate(&before) + rate(&after)) / 2.0;
        ours["plain_steps_per_s"] = json!(plain);
        ours["ratio"] = json!(rate(&ours) / plain);
        ours["plain_cpu_us_per_step"] = before["cpu_us_per_step"].clone();
        lines.push(ours);
    };
    beside("row", steps, row(steps));
    beside("mentioning", steps, mentioning(steps));
    beside("foreach", elements, each(elements, 1));
    beside("foreach-at-once", elements, each(elements, elements));
    lines
}
