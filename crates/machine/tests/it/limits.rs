//! Limits in the middle of something: what runs is not lost, what was held back is done once there is more, and a person
//! who speaks in between is heard first.

use machine::cause::CauseKind;
use machine::effect::Effect;
use machine::input::{Command, Resolution, Signal};
use machine::message::StopReason;
use machine::policy::budget::Budget;
use machine::policy::decider::{Decider, DeciderKind};
use machine::policy::permission::{Policy, Unattended};
use machine::state::Standing;
use machine::task::{DriverSpec, Outcome, TaskSpec};
use machine::time::Span;
use machine::tool::{Status, ToolResult};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::{self, answer, text};
use crate::recovery::ladder;
use crate::rig::{Rig, call, read, shell, spec};

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

/// The next step of a workflow that mixes both kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Shell,
    /// Ten tokens and a cent.
    Ask,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A limit of money or tokens refuses every question once it is reached, and nothing that asks nobody.
    #[test]
    fn what_is_spent_refuses_what_spends_it_and_nothing_else(
        kinds in proptest::collection::vec(prop_oneof![Just(Kind::Shell), Just(Kind::Ask)], 1..7),
        tokens in proptest::option::of(0u64..40),
        cents in proptest::option::of(0u64..4),
    ) {
        let step = |(place, kind): (usize, &Kind)| match kind {
            Kind::Shell => sh(&format!("s{place}")),
            Kind::Ask => json!({ "name": format!("s{place}"), "prompt": "x", "model": "script/x" }),
        };
        let mut task = workflow(kinds.iter().enumerate().map(step).collect());
        task.budget.max_tokens = tokens;
        task.budget.max_usd = cents.map(|cents| cents as f64 / 100.0);
        let mut rig = Rig::started(task);
        let mut asked = 0;
        for kind in &kinds {
            let reached = tokens.is_some_and(|limit| asked * 10 >= limit)
                || cents.is_some_and(|limit| asked >= limit);
            if *kind == Kind::Ask && reached {
                prop_assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{}", rig.told());
                return Ok(());
            }
            prop_assert_eq!(finished(&rig), None, "{:?}: {}", kind, rig.told());
            match kind {
                Kind::Shell => {
                    let call = rig.effect("run_tool");
                    rig.ended(call.0, ToolResult::ok(""));
                }
                Kind::Ask => {
                    asked += 1;
                    let mut reply = model::reply(vec![text("so")], StopReason::EndTurn);
                    (reply.usage.input, reply.usage.output) = (Some(10), None);
                    reply.usage.nanodollars = Some(10_000_000);
                    answer(&mut rig, Ok(reply));
                }
            }
        }
        let reached = asked > 0
            && (tokens.is_some_and(|limit| asked * 10 >= limit)
                || cents.is_some_and(|limit| asked >= limit));
        if reached {
            prop_assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{}", rig.told());
            let more = |limit: Option<u64>| limit.map(|_| 1_000);
            let max_usd = cents.map(|_| 10.0);
            let raise = Budget { max_tokens: more(tokens), max_usd, ..Budget::default() };
            rig.command(Command::Raise(raise)).attach(false);
        }
        prop_assert_eq!(finished(&rig), Some(Outcome::Completed), "{}", rig.told());
    }
}

#[test]
fn a_decider_that_is_a_model_is_not_asked_beyond_the_limit_and_is_once_there_is_more() {
    let mut task = spec(json!({ "turns": [[shell("make")]], "author": "worker" }));
    let kind = DeciderKind::Model { model: "script/x".to_owned(), rubric: "r".to_owned() };
    let decider = Decider { name: "careful".to_owned(), kind, timeout: None };
    let (unattended, deciders) = (Unattended::Escalate, vec![decider]);
    task.policy = Policy { unattended, deciders, ..Policy::default() };
    task.budget.max_tokens = Some(0);
    let mut rig = Rig::started(task);
    assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{}", rig.told());
    assert!(!rig.told().contains("decider_asked"), "{}", rig.told());
    let more = Budget { max_tokens: Some(9), ..Budget::default() };
    rig.command(Command::Raise(more)).attach(false);
    rig.effect("call_model");
    assert!(rig.told().ends_with("decider_asked c1"), "{}", rig.told());
}
