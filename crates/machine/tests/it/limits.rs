//! Limits in the middle of something: what runs is not lost, what was held back is done once there is more, and a person
//! who speaks in between is heard first.

use machine::cause::CauseKind;
use machine::effect::Effect;
use machine::input::{Command, Resolution, Signal};
use machine::policy::budget::Budget;
use machine::state::Standing;
use machine::task::{DriverSpec, Outcome, TaskSpec};
use machine::time::Span;
use machine::tool::{Status, ToolResult};
use serde_json::{Value, json};

use crate::recovery::ladder;
use crate::rig::{Rig, call, read, spec};

fn finished(rig: &Rig) -> Option<Outcome> {
    match rig.state.standing() {
        Standing::Finished { outcome, .. } => Some(outcome),
        _ => None,
    }
}

fn workflow(steps: Value) -> TaskSpec {
    let driver = DriverSpec::new("workflow", json!({ "name": "w", "steps": steps }));
    TaskSpec { driver, ..spec(Value::Null) }
}

fn sh(name: &str) -> Value {
    json!({ "name": name, "tool": "shell", "parameters": { "command": name } })
}

/// Three elements, two of them at once.
fn elements() -> TaskSpec {
    let inner = sh("a");
    workflow(
        json!([{ "name": "each", "foreach": "[1, 2, 3]", "max_parallel": 2, "steps": [inner] }]),
    )
}

fn turns(most: u64) -> Budget {
    Budget { max_turns: Some(most), ..Budget::default() }
}

fn error() -> ToolResult {
    ToolResult::ended(Status::Error, "no")
}

#[test]
fn a_limit_of_turns_lets_what_runs_end_first_and_a_raised_one_goes_on_with_the_rest() {
    let mut rig = Rig::started(TaskSpec { budget: turns(1), ..elements() });
    assert!(rig.told().ends_with("tool_started c1, tool_started c2"), "{}", rig.told());
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(rig.told(), "[] tool_ended c1 ok");
    rig.ended(3, ToolResult::ok(""));
    assert_eq!(
        rig.told(),
        "[] tool_ended c2 ok, turn_ended, budget_exhausted, task_finished budget_exhausted"
    );
    rig.command(Command::Raise(turns(9))).attach(false);
    assert_eq!(rig.told(), "[run_tool#4] attached, turn_started, tool_started c3");
    rig.ended(4, ToolResult::ok(""));
    assert_eq!(finished(&rig), Some(Outcome::Completed), "{}", rig.told());
}

#[test]
fn what_a_limit_held_back_outlives_a_failure_that_only_goes_on() {
    let child = |first: &str, second: &str| {
        let turns = json!([[read(first)], [read(second)]]);
        json!({ "driver": "scripted", "config": { "turns": turns, "author": "worker" } })
    };
    let driver = DriverSpec::new("race", json!({ "drivers": [child("a", "b"), child("c", "d")] }));
    let mut task = TaskSpec { budget: turns(1), driver, ..spec(Value::Null) };
    task.recovery.ladders.insert(CauseKind::ToolErrors, ladder(&["next_turn"]));
    let mut rig = Rig::started(task);
    rig.ended(2, error());
    rig.ended(3, error());
    assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{}", rig.told());
    assert!(rig.told().contains("recovery_chosen"), "{}", rig.told());
    rig.command(Command::Raise(turns(9))).attach(false);
    let started = rig.last.effects.iter().filter_map(|effect| match effect {
        Effect::RunTool { call, .. } => call.input["path"].as_str(),
        _ => None,
    });
    assert_eq!(started.collect::<Vec<_>>(), ["b"], "{}", rig.told());
}

#[test]
fn a_step_that_a_limit_of_time_stopped_is_a_persons_to_try_again() {
    let mut task = workflow(json!([sh("a"), sh("b")]));
    task.budget.max_time = Some(Span::seconds(10));
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task))).attach(false);
    let deadline = rig.effect("set_timer");
    rig.open_workspace();
    rig.now += 11_000;
    rig.input(Signal::TimerFired(deadline).into());
    assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{}", rig.told());
    assert!(rig.told().contains("cancel#"), "it is stopped: {}", rig.told());
    let more = Budget { max_time: Some(Span::seconds(60)), ..Budget::default() };
    rig.command(Command::Raise(more)).attach(false);
    assert_eq!(finished(&rig), None, "{}", rig.told());
    rig.command(Command::Resolve { call: call(1), how: Resolution::Retry });
    let again = rig.effect("run_tool");
    rig.ended(again.0, ToolResult::ok(""));
    let next = rig.effect("run_tool");
    rig.ended(next.0, ToolResult::ok(""));
    assert_eq!(finished(&rig), Some(Outcome::Completed), "{}", rig.told());
}

#[test]
fn what_a_limit_held_back_is_not_done_if_the_operator_speaks_first() {
    let three = json!([[read("a")], [read("b")], [read("c")]]);
    let worker = json!({ "turns": three, "author": "worker" });
    for command in [
        Command::Steer { text: "not b".to_owned() },
        Command::Interrupt { note: "not b".to_owned() },
    ] {
        let mut rig = Rig::started(TaskSpec { budget: turns(1), ..spec(worker.clone()) });
        rig.ended(2, ToolResult::ok(""));
        assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{}", rig.told());
        rig.command(Command::Raise(turns(9))).command(command).attach(false);
        let told = "note_delivered not b, tool_ended c2 skipped, turn_started, tool_started c3";
        assert!(rig.told().ends_with(told), "{}", rig.told());
    }
    // Steps that were written down stand.
    let written = json!({ "turns": three });
    let mut rig = Rig::started(TaskSpec { budget: turns(1), ..spec(written) });
    rig.ended(2, ToolResult::ok(""));
    rig.command(Command::Raise(turns(9)));
    rig.command(Command::Steer { text: "not b".to_owned() }).attach(false);
    assert!(rig.told().ends_with("turn_started, tool_started c2"), "{}", rig.told());
}
