//! Every key of workflows, prompts and agents changes something: for each key that a schema names there is a pair of files
//! that differ in that key, and what comes of them differs. A key without a pair fails here.

mod pairs;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::shelf::Shelf;
use crate::driver::workflow::tests::play::play;
use crate::driver::{Registry, composite};
use crate::file::shape::{FileKind, schema};
use crate::file::{SourceError, agent, composed, prompt, workflow};

use pairs::Pair;

/// What the steps of any kind have in common; each kind's own keys are named by the kind.
const STEP: [&str; 10] = [
    "name",
    "when",
    "timeout",
    "on_error",
    "max_retries",
    "backoff",
    "on_exhausted",
    "then",
    "max_visits",
    "type",
];
const STATE: [&str; 6] = ["on_entry", "on_exit", "transitions", "choose", "terminal", "outcome"];

/// Parts of these files whose keys are those of other files, and where their tests are: criteria in `file/tests/criteria.rs`
/// and `app/tests/it/criteria.rs`, budgets in `policy/budget.rs` and `app/tests/it/outcomes.rs`, the older form of states in
/// `driver/state_machine/tests.rs`.
const ELSEWHERE: [&str; 43] = [
    "condition",
    "count",
    "listed_machine_state",
    "action",
    "branch",
    "hook",
    "inner_machine",
    "machine",
    "machine_state",
    "machine_transition",
    "budget",
    "custom_table",
    "file_criterion",
    "file_inside",
    "file_match_short",
    "file_match_table",
    "file_short",
    "file_table",
    "git_clean",
    "git_clean_inside",
    "git_clean_short",
    "judge",
    "judge_inside",
    "judge_short",
    "judge_table",
    "max_diff_lines",
    "max_diff_lines_inside",
    "max_diff_lines_short",
    "paths_touched",
    "paths_touched_inside",
    "paths_touched_short",
    "plugin_criterion",
    "plugin_criterion_inside",
    "plugin_criterion_short",
    "shell",
    "shell_inside",
    "shell_short",
    "shell_table",
    "tests_not_fewer",
    "tests_not_fewer_inside",
    "tests_not_fewer_short",
    "file",
    "workflow_config",
];

/// What a key is called in the table of pairs.
fn called(table: &str, key: &str) -> String {
    let kind = table.strip_suffix("_step").or(table.strip_suffix("_state"));
    let is_state = table.ends_with("state");
    match kind.or((table == "state").then_some("step")) {
        Some(_) if STEP.contains(&key) => format!("step.{key}"),
        Some(_) if is_state && STATE.contains(&key) => format!("state.{key}"),
        Some(kind) => format!("{kind}.{key}"),
        None => format!("{table}.{key}"),
    }
}

/// The keys that the schema of a kind of file names.
fn keys(kind: FileKind, but: &[&str]) -> BTreeSet<String> {
    let schema = schema(kind);
    let tables = schema["$defs"].as_object().unwrap().iter();
    let tables = tables.filter(|(table, _)| !but.contains(&table.as_str()));
    tables
        .flat_map(|(table, shape)| {
            let keys = shape["properties"].as_object().into_iter().flatten();
            keys.map(|(key, _)| called(table, key)).collect::<Vec<_>>()
        })
        .collect()
}

fn refused(errors: &[SourceError]) -> String {
    format!(
        "refused: {}",
        errors.iter().map(|error| &*error.message).collect::<Vec<_>>().join("; ")
    )
}

/// What comes of a workflow: what the task gets from it, and how it runs.
fn ran(table: &Value, script: &[&str]) -> String {
    let text = json!({ "workflow": table }).to_string();
    let mut read = match workflow::parse(&text, "w.yaml", &Shelf) {
        Ok(read) => read,
        Err(errors) => return refused(&errors),
    };
    if let Some(given) = table["inputs"].get("n").filter(|input| input.get("default").is_none()) {
        let value = if given["type"] == "integer" { json!(7) } else { json!("seven") };
        read.driver.config["given"] = json!({ "n": value });
    }
    let workflow::Workflow { name, description, version, budget, acceptance, .. } = &read;
    let budget = serde_json::to_value(budget).unwrap();
    let titles: Vec<String> = acceptance.iter().map(|criterion| criterion.title()).collect();
    // What the library is shown to look up: the drivers inside.
    let mut drivers = String::new();
    composite::visit("workflow", &mut read.driver.config.clone(), &mut |name, config| {
        if name != "workflow" {
            drivers.push_str(&format!("{name} {config} "));
        }
        Ok(())
    })
    .unwrap();
    let made = format!("{name} {description} {version} {budget} {titles:?} {drivers}");
    match crate::driver::DriverSlot::create("workflow", &read.driver.config, &Registry::builtin()) {
        Ok(_) => format!("{made}\n{}", play(&read.driver.config, script)),
        Err(reason) => format!("{made}\ncannot be made: {reason}"),
    }
}

/// What comes of a prompt: its text with what it takes.
fn told(file: &Value) -> String {
    let text = toml::to_string(file).unwrap();
    match prompt::parse(&text, "p.toml") {
        Ok(prompt) => format!("{prompt:?}"),
        Err(errors) => refused(&errors),
    }
}

/// What comes of an agent: the driver of its tasks and what it may do, or the program.
fn works(file: &Value) -> String {
    let text = file.to_string();
    if !composed::is_composed(&text, "a.yaml") {
        return match agent::parse(&text, "a.yaml") {
            Ok(program) => format!("{program:?}"),
            Err(errors) => refused(&errors),
        };
    }
    match composed::parse(&text, "a.yaml", &Shelf) {
        Ok(agent) => {
            let mut driver = agent.driver();
            let instructed = agent.instruct(&mut driver, "the goal", Some("a note"));
            format!("{agent:?} {driver:?} {instructed:?}")
        }
        Err(errors) => refused(&errors),
    }
}

/// Every key has a pair, every pair a key, and the two of a pair differ in what comes of them.
fn hold(kind: FileKind, but: &[&str], pairs: &[Pair], seen: impl Fn(&Value, &[&str]) -> String) {
    let wanted = keys(kind, but);
    let have: BTreeSet<String> = pairs.iter().map(|pair| pair.key.to_owned()).collect();
    let missing: Vec<&String> = wanted.difference(&have).collect();
    assert!(missing.is_empty(), "no pair shows what these change: {missing:?}");
    let strange: Vec<&String> = have.difference(&wanted).collect();
    assert!(strange.is_empty(), "there are no such keys: {strange:?}");
    let same = pairs.iter().filter_map(|Pair { key, without, with, script }| {
        assert_ne!(without, with, "{key}: the two files are the same");
        let (one, other) = (seen(without, script), seen(with, script));
        (one == other).then(|| format!("{key}: {one}"))
    });
    let same: Vec<String> = same.collect();
    assert!(same.is_empty(), "these keys change nothing:\n{}", same.join("\n"));
}

#[test]
fn every_key_of_a_workflow_changes_what_happens() {
    hold(FileKind::Workflow, &ELSEWHERE, &pairs::of_workflows(), ran);
}

#[test]
fn every_key_of_a_prompt_changes_what_is_said() {
    hold(FileKind::Prompt, &[], &pairs::of_prompts(), |file, _| told(file));
}

#[test]
fn every_key_of_an_agent_changes_what_works() {
    hold(FileKind::Agent, &["file"], &pairs::of_agents(), |file, _| works(file));
}
