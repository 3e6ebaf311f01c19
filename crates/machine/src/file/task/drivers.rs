//! Driver configurations inside a task file: steps and states anywhere in a tree of drivers are checked where
//! they stand, so that their errors have a line.

use serde_json::Value;

use super::{Brought, Known, check_driver};
use crate::driver::workflow::read;
use crate::driver::{composite, state_machine};
use crate::file::check::{Cursor, Problems};
use crate::file::shape::{task as shape, workflow as workflow_shape};
use crate::file::workflow::{self as workflow_file, Workflow};
use crate::task::DriverSpec;

/// Checks the configuration of a driver, and those of the drivers inside it.
pub(super) fn check(name: &str, at: &Cursor<'_>, known: Known<'_>, problems: &mut Problems) {
    if !at.value.is_object() {
        at.wrong(problems, "a table");
        return;
    }
    match name {
        "workflow" => check_workflow(at, known, problems),
        "state_machine" => check_machine(at, known, problems),
        "agent" => check_agent(at, problems),
        _ => {
            for child in at.get("driver").into_iter().chain(children(at)) {
                check_child(&child, known, problems);
            }
        }
    }
}

fn children<'v>(at: &Cursor<'v>) -> Vec<Cursor<'v>> {
    // Whether it must be a list is the composite's own business.
    at.get("drivers")
        .filter(|list| list.value.is_array())
        .map(|list| list.items(&mut Problems::default()))
        .unwrap_or_default()
}

fn check_child(at: &Cursor<'_>, known: Known<'_>, problems: &mut Problems) {
    let Some(given) = at.get("driver").filter(|_| at.value.is_object()) else { return };
    at.keys(problems, &shape::CHILD);
    let Some(name) = check_driver(&given, known.registry, problems) else { return };
    match at.get("driver_config").or_else(|| at.get("config")) {
        Some(config) => check(name, &config, known, problems),
        None if matches!(name, "workflow" | "state_machine") => {
            let hint = "add config = { workflow = \"NAME\" }".to_owned();
            problems.push(&given, format!("the driver {name:?} has nothing to run"), Some(hint));
        }
        None if name == "agent" => {
            let hint = "add config = { agent = \"claude\" }".to_owned();
            problems.push(&given, "it is not said which agent", Some(hint));
        }
        None => {}
    }
}

/// Which agent is meant is looked up later: programs are not named in task files.
fn check_agent(at: &Cursor<'_>, problems: &mut Problems) {
    at.keys(problems, &shape::AGENT_CONFIG);
    at.need(problems, "agent").and_then(|name| name.name(problems));
    at.get("model").and_then(|model| model.text(problems));
    at.get("idle").and_then(|idle| idle.span(problems));
}

fn check_workflow(at: &Cursor<'_>, known: Known<'_>, problems: &mut Problems) {
    at.keys(problems, &workflow_shape::DRIVER_CONFIG);
    at.get("name").and_then(|name| name.name(problems));
    at.get("initial").and_then(|initial| initial.name(problems));
    at.get("max_steps").and_then(|most| most.whole(problems));
    match (at.get("workflow"), at.get("steps")) {
        (Some(given), None) => check_reference(&given, known, problems),
        (None, Some(_)) => {
            let resolved = workflow_file::resolved(at, &mut known.resolver.borrow_mut(), problems);
            read::check(&at.instead(&resolved), problems);
        }
        (Some(_), Some(steps)) => problems.push_key(
            &steps,
            "give either workflow or steps",
            Some("remove one of the two".to_owned()),
        ),
        (None, None) => {
            let hint = Some("add workflow = \"NAME\"".to_owned());
            problems.push_key(at, "driver_config needs workflow = \"NAME\", or steps", hint);
        }
    }
}

fn check_machine(at: &Cursor<'_>, known: Known<'_>, problems: &mut Problems) {
    at.keys(problems, &workflow_shape::machine::DRIVER_CONFIG);
    at.get("name").and_then(|name| name.name(problems));
    at.get("initial").and_then(|initial| initial.name(problems));
    at.get("max_steps").and_then(|most| most.whole(problems));
    let given: Vec<Cursor<'_>> =
        ["workflow", "machine", "states"].iter().filter_map(|key| at.get(key)).collect();
    match given.as_slice() {
        [] => problems.push_key(
            at,
            "driver_config needs workflow = \"NAME\", or initial and states",
            None,
        ),
        [_, second, ..] => problems.push_key(
            second,
            "give one of workflow, machine and states",
            Some("remove the others".to_owned()),
        ),
        [_] if at.get("states").is_some() => {
            state_machine::read_machine(at, "", 0, problems);
        }
        [machine] if at.get("machine").is_some() => {
            workflow_file::read_machine(machine, problems);
        }
        [reference] => check_reference(reference, known, problems),
    }
}

/// `workflow` is a name or a path to look up, or the `[workflow]` table itself.
fn check_reference(at: &Cursor<'_>, known: Known<'_>, problems: &mut Problems) {
    if at.value.is_object() {
        workflow_file::read_workflow(at, &mut known.resolver.borrow_mut(), problems);
    } else if at.text(problems).is_some_and(|name| name.trim().is_empty()) {
        problems.push(
            at,
            "the workflow's name is empty",
            Some("write the name of a file below .drivetrain/workflows".to_owned()),
        );
    }
}

/// Puts in its place what steps refer to that stand in a configuration themselves, in composites too.
pub(super) fn resolve(name: &str, config: &mut Value, known: Known<'_>) {
    if name == "workflow" && config.get("steps").is_some() {
        // What is wrong was told when it was checked.
        let mut problems = Problems::default();
        let mut resolver = known.resolver.borrow_mut();
        *config = workflow_file::resolved(&Cursor::top(config), &mut resolver, &mut problems);
        return;
    }
    let Value::Object(fields) = config else { return };
    for (key, value) in fields {
        let children: &mut [Value] = match (key.as_str(), value) {
            ("drivers", Value::Array(list)) => list,
            ("driver", child) => std::slice::from_mut(child),
            _ => continue,
        };
        for child in children {
            let Some(name) = child["driver"].as_str().map(str::to_owned) else { continue };
            for key in ["driver_config", "config"] {
                if let Some(config) = child.get_mut(key) {
                    resolve(&name, config, known);
                }
            }
        }
    }
}

/// Brings a table under `workflow` or `machine` into the form that the driver takes, in composites and in steps too. Gives
/// what these workflows bring.
pub(super) fn unwrap(spec: &mut DriverSpec, known: Known<'_>) -> Brought {
    let mut brought = Brought::default();
    let mut switched = None;
    // The driver itself is visited before those inside it.
    let mut is_first = true;
    let visited = composite::visit(&spec.name, &mut spec.config, &mut |name, config| {
        let is_own = std::mem::take(&mut is_first);
        if !matches!(name, "workflow" | "state_machine") {
            return Ok(());
        }
        if let Some(found) = table_of(config, known) {
            brought.add(Brought::by(&found));
            *config = found.driver.config;
            if is_own {
                switched = Some(found.driver.name);
            }
        }
        Ok(())
    });
    // Nesting beyond the limit is reported by the composite itself when it is made.
    drop(visited);
    if let Some(name) = switched {
        spec.name = name;
    }
    brought
}

/// The workflow that stands in a configuration as a table. What is wrong with it was told when it was checked.
fn table_of(config: &Value, known: Known<'_>) -> Option<Workflow> {
    let top = Cursor::top(config);
    let is_table = |at: &Cursor<'_>| at.value.is_object();
    let mut problems = Problems::default();
    match (top.get("workflow").filter(is_table), top.get("machine").filter(is_table)) {
        (Some(table), _) => {
            let mut resolver = known.resolver.borrow_mut();
            workflow_file::read_workflow(&table, &mut resolver, &mut problems)
        }
        (None, Some(table)) => workflow_file::read_machine(&table, &mut problems),
        (None, None) => None,
    }
}
