//! Workflow files: `[workflow]` with steps or states, or a `[machine]`.

use serde_json::{Map, Value};

use super::check::{Cursor, Problems, is_name};
use super::source::Source;
use super::{Format, SourceError};
use crate::driver::{state_machine, workflow};
use crate::policy::budget::Budget;
use crate::task::DriverSpec;
use crate::time::Span;

/// A workflow as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Its name; that of the file if it gives none.
    pub name: String,
    /// For a person.
    pub description: String,
    /// For a person.
    pub version: String,
    /// What its own limits allow: tokens and time. A task's budget may be tighter.
    pub budget: Budget,
    /// The driver that runs it, `workflow` or `state_machine`, with its configuration.
    pub driver: DriverSpec,
}

/// Reads a workflow file. TOML unless the file's name says YAML.
pub fn parse(text: &str, file: &str) -> Result<Workflow, Vec<SourceError>> {
    let source = Source::read(file, text, Format::of(file))?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.table(&mut problems, "a workflow file", &["workflow", "machine"]);
    let read = match (top.get("workflow"), top.get("machine")) {
        (Some(_), Some(machine)) => {
            problems.push_key(
                &machine,
                "a file has either [workflow] or [machine]",
                Some("remove one of the two".to_owned()),
            );
            None
        }
        (Some(table), None) => read_workflow(&table, &mut problems),
        (None, Some(table)) => read_machine(&table, &mut problems),
        (None, None) => {
            let hint = "begin with [workflow] and [[workflow.steps]]".to_owned();
            problems.push(&top, "the file has no [workflow]", Some(hint));
            None
        }
    };
    match read {
        Some(mut workflow) if problems.is_empty() => {
            if workflow.name.is_empty() {
                workflow.name = stem(file);
                if let Value::Object(config) = &mut workflow.driver.config {
                    config.insert("name".to_owned(), Value::String(workflow.name.clone()));
                }
            }
            Ok(workflow)
        }
        _ => Err(source.errors(problems)),
    }
}

/// The file's name without folders and ending, if it can be a name.
fn stem(file: &str) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if is_name(name) { name.to_owned() } else { "workflow".to_owned() }
}

/// Reads a `[workflow]` table; nothing if it is too wrong to go on.
pub(super) fn read_workflow(at: &Cursor<'_>, problems: &mut Problems) -> Option<Workflow> {
    const KEYS: [&str; 8] =
        ["name", "description", "version", "limits", "llm", "steps", "states", "initial"];
    if !at.table(problems, "[workflow]", &KEYS) {
        return None;
    }
    let name = at.get("name").and_then(|name| name.name(problems)).unwrap_or_default();
    let text = |key: &str, problems: &mut Problems| {
        at.get(key).and_then(|text| text.text(problems)).unwrap_or_default().to_owned()
    };
    let description = text("description", problems);
    let version = text("version", problems);
    let limits = at.get("limits").map(|limits| read_limits(&limits, problems)).unwrap_or_default();
    if let Some(llm) = at.get("llm") {
        llm.table(problems, "[workflow.llm]", &["model", "temperature", "system_prompt"]);
        llm.get("temperature").and_then(|temperature| temperature.number(problems));
        let hint = Some("this version runs steps of type \"tool\"".to_owned());
        problems.push_key(&llm, "not supported yet: [workflow.llm]", hint);
    }
    let driver = match (at.get("steps"), at.get("states")) {
        (Some(_), Some(states)) => {
            problems.push_key(&states, "a workflow has either steps or states", None);
            return None;
        }
        (Some(steps), None) => {
            if let Some(initial) = at.get("initial") {
                problems.push_key(
                    &initial,
                    "initial goes with states",
                    Some("steps begin with the first".to_owned()),
                );
            }
            workflow::read_steps(&steps, problems);
            "workflow"
        }
        (None, Some(_)) => {
            state_machine::read_machine(at, "", 0, problems);
            "state_machine"
        }
        (None, None) => {
            let hint = "add [[workflow.steps]] with name, tool and parameters".to_owned();
            problems.push_key(at, "a workflow needs at least one step", Some(hint));
            return None;
        }
    };
    let budget = Budget { max_tokens: limits.tokens, max_time: limits.time, ..Budget::default() };
    let driver = driver_spec(driver, at, limits.steps);
    Some(Workflow { name: name.to_owned(), description, version, budget, driver })
}

/// Reads a `[machine]` table.
pub(super) fn read_machine(at: &Cursor<'_>, problems: &mut Problems) -> Option<Workflow> {
    if !at.table(problems, "[machine]", &["name", "description", "initial", "states"]) {
        return None;
    }
    let name = at.get("name").and_then(|name| name.name(problems)).unwrap_or_default().to_owned();
    let description =
        at.get("description").and_then(|text| text.text(problems)).unwrap_or_default().to_owned();
    state_machine::read_machine(at, "", 0, problems);
    let driver = driver_spec("state_machine", at, None);
    Some(Workflow { name, description, version: String::new(), budget: Budget::default(), driver })
}

/// The driver's configuration: what of the table is its business.
fn driver_spec(driver: &str, at: &Cursor<'_>, max_steps: Option<u64>) -> DriverSpec {
    let mut config = Map::new();
    for key in ["name", "steps", "initial", "states"] {
        if let Some(entry) = at.get(key) {
            config.insert(key.to_owned(), entry.value.clone());
        }
    }
    if let Some(most) = max_steps {
        config.insert("max_steps".to_owned(), most.into());
    }
    DriverSpec { name: driver.to_owned(), config: Value::Object(config) }
}

#[derive(Debug, Default)]
struct Limits {
    steps: Option<u64>,
    tokens: Option<u64>,
    time: Option<Span>,
}

fn read_limits(at: &Cursor<'_>, problems: &mut Problems) -> Limits {
    at.table(problems, "[workflow.limits]", &["max_steps", "token_budget", "timeout_seconds"]);
    let some = |key: &str, problems: &mut Problems| {
        let given = at.get(key)?;
        let number = given.whole(problems)?;
        if number == 0 {
            problems.push(
                &given,
                format!("{key} = 0 would allow nothing"),
                Some("leave it out for no limit".to_owned()),
            );
        }
        Some(number)
    };
    let steps = some("max_steps", problems);
    let tokens = some("token_budget", problems);
    let seconds = some("timeout_seconds", problems);
    Limits { steps, tokens, time: seconds.map(|seconds| Span(seconds.saturating_mul(1000))) }
}
