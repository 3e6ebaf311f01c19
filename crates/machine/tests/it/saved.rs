//! States at rest: what they hold, and that those of an earlier drivetrain are still understood.

use machine::driver::workflow::WorkflowKind;
use machine::driver::{DriverKind, DriverSlot};
use machine::input::Command;
use machine::state::{SavedState, State};
use machine::task::{DriverSpec, TaskSpec};
use machine::tool::ToolResult;
use serde_json::{Value, json};

use crate::rig::{Rig, registry, spec};

/// A workflow whose first step has ended.
fn under_way() -> Rig {
    let step =
        |name: &str| json!({ "name": name, "tool": "say", "parameters": { "text": "UNIQUE" } });
    let config = json!({ "name": "w", "steps": [step("one"), step("two"), step("three")] });
    let driver = DriverSpec::new(WorkflowKind.name(), config);
    let mut rig = Rig::started(TaskSpec { driver, ..spec(json!(null)) });
    let id = rig.effect("run_tool");
    rig.ended(id.0, ToolResult::ok("said".to_owned()));
    rig
}

fn loaded(saved: &Value) -> State {
    let saved: SavedState = serde_json::from_value(saved.clone()).unwrap();
    State::load(&saved, registry()).unwrap()
}

#[test]
fn what_a_task_was_started_with_is_saved_once_and_found_again() {
    let rig = under_way();
    let saved = serde_json::to_value(rig.state.save()).unwrap();
    assert_eq!(saved.to_string().matches("\"steps\"").count(), 1, "{saved}");
    let again = loaded(&saved);
    assert_eq!(serde_json::to_value(again.save()).unwrap(), saved);
    assert_eq!(again.driver_spec(), rig.state.data().spec.driver);
}

#[test]
fn a_state_that_holds_the_configuration_beside_the_driver_is_still_understood() {
    let rig = under_way();
    let saved = serde_json::to_value(rig.state.save()).unwrap();
    let mut earlier = saved.clone();
    earlier["driver"]["config"] = earlier["data"]["spec"]["driver"]["config"].clone();
    assert!(earlier.as_object_mut().unwrap().remove("as_started").is_some());
    assert_eq!(serde_json::to_value(loaded(&earlier).save()).unwrap(), saved);
}

#[test]
fn a_driver_that_was_put_in_later_is_saved_with_its_own_configuration() {
    let mut rig = under_way();
    let config = json!({ "name": "other", "steps": [
        { "name": "only", "tool": "say", "parameters": { "text": "OTHER" } }] });
    DriverSlot::create("workflow", &config, &registry()).unwrap();
    let driver = DriverSpec::new("workflow", config);
    let open = rig.effect("run_tool");
    rig.input(Command::HandOver(driver.clone()).into());
    rig.ended(open.0, ToolResult::ok("said".to_owned()));
    assert_eq!(rig.state.driver_spec(), driver, "{}", rig.told());
    let saved = serde_json::to_value(rig.state.save()).unwrap();
    assert_eq!(saved["driver"]["config"], driver.config);
    assert_eq!(loaded(&saved).driver_spec(), driver);
}

#[test]
fn a_driver_that_was_made_beforehand_is_used_only_if_it_is_the_one_that_is_asked_for() {
    let config = |word: &str| json!({ "name": "w", "steps": [{ "name": "a", "tool": "say", "parameters": { "text": word } }] });
    for (made, asked) in [("ONE", "ONE"), ("ONE", "TWO")] {
        let mut rig = Rig::new();
        rig.state.prepare(DriverSlot::create("workflow", &config(made), &registry()).unwrap());
        let driver = DriverSpec::new("workflow", config(asked));
        let task = TaskSpec { driver: driver.clone(), ..spec(json!(null)) };
        rig.command(Command::Start(Box::new(task)));
        rig.attach(false).open_workspace();
        assert_eq!(rig.state.driver_spec(), driver);
        let effects = format!("{:?}", rig.last.effects);
        assert!(effects.contains(asked), "{effects}");
    }
}
