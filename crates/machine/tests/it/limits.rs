//! Limits in the middle of something: what runs is not lost, what was held back is done once there is more, and a person
//! who speaks in between is heard first.

use machine::cause::CauseKind;
use machine::effect::Effect;
use machine::input::{Command, Resolution, Signal};
use machine::message::StopReason;
use machine::policy::budget::Budget;
use machine::policy::decider::{Decider, DeciderKind};
use machine::policy::permission::{Policy, Unattended};
use machine::policy::stuck::Limits;
use machine::state::Standing;
use machine::task::{CriterionResult, DriverSpec, Outcome, TaskSpec};
use machine::time::Span;
use machine::tool::{Status, ToolResult};
use machine::verdict::Verdict;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::{self, answer, text};
use crate::recovery::ladder;
use crate::rig::{Rig, call, check_of, read, shell, spec};

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
    assert_eq!(started.collect::<Vec<_>>(), ["b", "d"], "{}", rig.told());
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

/// Plays a worker that says that it is done, and nothing else, with a check that never holds; how often it claimed.
fn claims_in_vain(rig: &mut Rig, most: u32) -> u32 {
    let mut claims = 0;
    while finished(rig).is_none() {
        let effect = |kind: &str| rig.told().contains(kind);
        if effect("call_model#") {
            answer(rig, Ok(model::reply(vec![text("done")], StopReason::EndTurn)));
        } else if effect("consult#") {
            let id = rig.effect("consult");
            rig.input(Signal::Consulted(id, Ok(json!({ "decision": "claim" }))).into());
        } else {
            claims += 1;
            assert!(claims <= most, "nothing ends it: {}", rig.told());
            let failed = CriterionResult { title: "t".to_owned(), ..CriterionResult::default() };
            let id = rig.effect("verify");
            rig.input(Signal::Verified(id, Ok(Verdict::of(vec![failed]))).into());
        }
    }
    claims
}

fn only_claims(name: &str, config: Value) -> TaskSpec {
    let mut task = TaskSpec { driver: DriverSpec::new(name, config), ..spec(Value::Null) };
    task.acceptance = vec![check_of("t")];
    task.budget = turns(3);
    task.recovery.stuck = Limits {
        same_failure: 0,
        same_action: 0,
        unchanged_tree: 0,
        cycle: 0,
        same_question: 0,
        same_denied: 0,
    };
    let anew = ladder(&["next_turn", "fresh_session"]);
    task.recovery.ladders.insert(CauseKind::VerdictFailed, anew);
    task
}

#[test]
fn a_limit_of_turns_ends_a_worker_that_only_claims() {
    let llm = json!({ "model": "script/x" });
    let child = |name: &str, config: &Value| json!({ "driver": name, "config": config });
    let plugin = json!({ "plugin": { "name": "x", "command": ["x"] }, "config": null });
    let machine = json!({ "initial": "end", "states": { "end": { "terminal": true } } });
    let drivers = [
        ("until_accepted", json!({ "driver": child("llm", &llm), "rounds": 99 })),
        ("race", json!({ "drivers": [child("llm", &llm)] })),
        ("llm", llm),
        ("external:x", plugin),
        ("state_machine", machine),
    ];
    for (name, config) in drivers {
        let mut rig = Rig::started(only_claims(name, config));
        assert_eq!(claims_in_vain(&mut rig, 9), 3, "{name}");
        assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{name}: {}", rig.told());
        assert_eq!(rig.state.data().spend.turns, 3, "{name}");
        rig.command(Command::Raise(turns(5))).attach(false);
        assert_eq!(claims_in_vain(&mut rig, 9), 2, "{name}");
        assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{name}: {}", rig.told());
    }
}

#[test]
fn a_claim_after_work_costs_no_turn_of_its_own() {
    let mut task =
        only_claims("scripted", json!({ "turns": [[read("a")], [read("b")], [read("c")]] }));
    let mut rig = Rig::started(task.clone());
    for _ in 0..3 {
        let id = rig.effect("run_tool");
        rig.ended(id.0, ToolResult::ok(""));
    }
    // All turns are spent, and what they came to is checked nevertheless; a second claim would be one more.
    assert_eq!(claims_in_vain(&mut rig, 9), 1);
    assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{}", rig.told());
    assert_eq!(rig.state.data().spend.turns, 3);
    // Nothing of it is spent by a claim that holds.
    task.budget = turns(0);
    task.driver.config = json!({ "turns": [] });
    let mut rig = Rig::started(task);
    let held = CriterionResult { passed: true, ..CriterionResult::default() };
    let id = rig.effect("verify");
    rig.input(Signal::Verified(id, Ok(Verdict::of(vec![held]))).into());
    assert_eq!(finished(&rig), Some(Outcome::Verified), "{}", rig.told());
    assert_eq!(rig.state.data().spend.turns, 0);
}

#[test]
fn a_limit_of_turns_ends_a_model_that_only_breaks_off() {
    for driver in [
        DriverSpec::new("llm", json!({ "model": "script/x" })),
        workflow(json!([{ "name": "s", "prompt": "x", "model": "script/x" }])).driver,
    ] {
        let mut rig = Rig::started(TaskSpec { driver, budget: turns(3), ..spec(Value::Null) });
        let mut asked = 0;
        while finished(&rig).is_none() {
            asked += 1;
            assert!(asked < 9, "nothing ends it: {}", rig.told());
            answer(&mut rig, Ok(model::reply(vec![text("so")], StopReason::Pause)));
        }
        assert_eq!((asked, finished(&rig)), (3, Some(Outcome::BudgetExhausted)), "{}", rig.told());
        rig.command(Command::Raise(turns(4))).attach(false);
        answer(&mut rig, Ok(model::reply(vec![text("so")], StopReason::EndTurn)));
        assert_eq!(finished(&rig), Some(Outcome::Completed), "{}", rig.told());
    }
}

#[test]
fn what_was_done_is_not_kept_in_a_turn_that_never_ends() {
    let many =
        json!([{ "name": "many", "foreach": "range(300)", "max_parallel": 2, "steps": [sh("a")] }]);
    let steps = json!([{ "name": "both", "parallel": { "slow": [sh("slow")], "many": many } }]);
    let mut rig = Rig::started(workflow(steps));
    let mut sizes = Vec::new();
    for round in 0..300 {
        let pending: Vec<u64> = rig.state.data().pending.keys().map(|id| id.0).collect();
        let [_slow, first, ..] = pending[..] else { panic!("{round}: {}", rig.told()) };
        rig.ended(first, ToolResult::ok("x".repeat(1_000)));
        let calls = rig.state.data().calls.len();
        assert!(calls <= 3, "{calls} calls are kept after {round}");
        sizes.push(serde_json::to_string(&rig.state.save()).unwrap().len());
    }
    assert!(sizes[290].abs_diff(sizes[10]) < 200, "{} then {}", sizes[10], sizes[290]);
    assert_eq!(finished(&rig), None);
    let slow = *rig.state.data().pending.keys().next().unwrap();
    rig.ended(slow.0, ToolResult::ok(""));
    assert_eq!(finished(&rig), Some(Outcome::Completed), "{}", rig.told());
    assert!(rig.told().contains("tool_ended c1 ok, turn_ended, "), "{}", rig.told());
}
