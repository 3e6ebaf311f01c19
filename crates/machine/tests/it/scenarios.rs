//! Scenarios: each reads as a script of inputs and what came of them.

use machine::driver::Wait;
use machine::input::{Command, Input, Resolution, Signal};
use machine::policy::budget::Budget;
use machine::policy::permission::{Decide, Policy, Rule, Unattended};
use machine::state::{Ask, CallStatus, Phase, Standing, State};
use machine::task::{CriterionResult, DriverSpec, Outcome, TaskSpec};
use machine::time::Span;
use machine::tool::{Status, ToolResult};
use serde_json::{Value, json};

use crate::rig::{Rig, call, check_of, read, registry, shell, spec};
use machine::verdict::Verdict;

fn finished(rig: &Rig) -> Option<Outcome> {
    match rig.state.standing() {
        Standing::Finished { outcome, .. } => Some(outcome),
        _ => None,
    }
}

#[test]
fn a_task_without_criteria_completes_on_the_drivers_word() {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("true")]] })));
    assert_eq!(rig.told(), "[run_tool#2] workspace_opened, turn_started, tool_started c1");
    rig.ended(2, ToolResult::ok("fine"));
    assert_eq!(rig.told(), "[] tool_ended c1 ok, turn_ended, claimed, task_finished completed");
}

#[test]
fn parallel_results_reach_the_driver_in_source_order_whatever_the_order_of_arrival() {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("a"), shell("b"), shell("c")]] })));
    assert_eq!(
        rig.told(),
        "[run_tool#2 run_tool#3 run_tool#4] workspace_opened, turn_started, tool_started c1, tool_started c2, tool_started c3"
    );
    rig.ended(4, ToolResult::ok("c"));
    assert_eq!(rig.told(), "[] tool_ended c3 ok");
    rig.ended(2, ToolResult::ok("a"));
    assert_eq!(finished(&rig), None);
    rig.ended(3, ToolResult::ok("b"));
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}

#[test]
fn edge_case_31_late_doubled_and_foreign_signals_are_dropped_and_counted() {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("a"), shell("b")]] })));
    rig.ended(2, ToolResult::ok("once"));
    rig.ended(2, ToolResult::ok("twice"));
    assert_eq!(rig.told(), "[] signal_dropped");
    rig.ended(77, ToolResult::ok("foreign"));
    rig.input(Signal::Verified(machine::id::EffectId(3), Ok(Verdict::of(Vec::new()))).into());
    assert_eq!(rig.state.data().dropped, 3);
    rig.ended(3, ToolResult::ok(""));
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}

#[test]
fn a_failed_verdict_goes_back_to_the_driver_and_a_passed_one_verifies() {
    let mut task = spec(json!({ "turns": [[shell("make")]] }));
    task.acceptance = vec![check_of("make test")];
    let mut rig = Rig::started(task);
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(rig.told(), "[verify#3] tool_ended c1 ok, turn_ended, claimed");
    let result = |passed| CriterionResult {
        title: "shell: make test".to_owned(),
        passed,
        exit: Some(i32::from(!passed)),
        evidence: "1 test failed".to_owned(),
        millis: 5,
        ..CriterionResult::default()
    };
    let verify = rig.effect("verify");
    rig.input(Signal::Verified(verify, Ok(Verdict::of(vec![result(false)]))).into());
    assert_eq!(rig.told(), "[verify#4] criterion_checked, verdict_failed, claimed");
    let verify = rig.effect("verify");
    rig.input(Signal::Verified(verify, Ok(Verdict::of(vec![result(true)]))).into());
    assert_eq!(rig.told(), "[] criterion_checked, task_finished verified");
}

#[test]
fn edge_case_12_a_check_that_outlasts_the_time_ends_on_that_axis_and_goes_on_when_there_is_more() {
    let mut task = spec(json!({ "turns": [] }));
    task.acceptance = vec![check_of("long")];
    task.budget.max_time = Some(Span::seconds(10));
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task))).attach(false);
    let deadline = rig.effect("set_timer");
    rig.open_workspace();
    let late = rig.effect("verify");
    rig.now += 11_000;
    rig.input(Signal::TimerFired(deadline).into());
    assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted), "{}", rig.told());
    let passed = CriterionResult { passed: true, ..CriterionResult::default() };
    rig.input(Signal::Verified(late, Ok(Verdict::of(vec![passed.clone()]))).into());
    assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted));
    let more = Budget { max_time: Some(Span::seconds(60)), ..Budget::default() };
    rig.command(Command::Raise(more)).attach(false);
    let again = rig.effect("verify");
    rig.input(Signal::Verified(again, Ok(Verdict::of(vec![passed]))).into());
    assert_eq!(finished(&rig), Some(Outcome::Verified));
}

#[test]
fn a_verdict_over_fewer_criteria_than_were_frozen_does_not_verify() {
    let mut task = spec(json!({ "turns": [] }));
    task.acceptance = vec![check_of("a"), check_of("b")];
    let mut rig = Rig::started(task);
    let verify = rig.effect("verify");
    rig.input(Signal::Verified(verify, Ok(Verdict::of(Vec::new()))).into());
    assert_eq!(finished(&rig), None);
}

#[test]
fn a_crash_repeats_what_is_repeatable_and_leaves_an_unsafe_call_in_doubt() {
    let mut rig = Rig::started(spec(json!({ "turns": [[read("a"), shell("b")]] })));
    rig.input(Signal::OwnerLost.into());
    assert_eq!(rig.told(), "[] call_in_doubt c2, owner_lost");
    rig.attach(false);
    assert_eq!(rig.told(), "[run_tool#4] attached, tool_started c1");
    // The report of the first life's attempt is nobody's any more.
    rig.ended(2, ToolResult::ok("late"));
    assert_eq!(rig.told(), "[] signal_dropped");
    rig.ended(4, ToolResult::ok("again"));
    assert!(rig.state.wants_release(), "nobody attends, and only a person can say");
    rig.command(Command::Resolve { call: call(2), how: Resolution::Did });
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}

#[test]
fn a_call_in_doubt_can_be_retried_or_taken_as_not_done() {
    for (how, status) in [(Resolution::Retry, Status::Ok), (Resolution::DidNot, Status::Error)] {
        let mut rig = Rig::started(spec(json!({ "turns": [[shell("a")], [shell("b")]] })));
        rig.input(Signal::OwnerLost.into()).attach(false);
        rig.command(Command::Resolve { call: call(1), how });
        if how == Resolution::Retry {
            let again = rig.effect("run_tool");
            rig.ended(again.0, ToolResult::ok(""));
        }
        assert!(rig.told().contains(&format!("tool_ended c1 {}", status.word())), "{}", rig.told());
        rig.command(Command::Resolve { call: call(1), how });
        assert!(rig.last.rejected.is_some());
    }
}

#[test]
fn pause_holds_the_next_move_and_resume_makes_it() {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("a")], [shell("b")]] })));
    rig.command(Command::Pause);
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(rig.told(), "[] tool_ended c1 ok");
    rig.command(Command::Pause);
    assert_eq!(rig.last.rejected.as_deref(), Some("the task is paused already"));
    rig.command(Command::Resume);
    assert_eq!(rig.told(), "[run_tool#3] resumed, turn_ended, turn_started, tool_started c2");
}

#[test]
fn edge_case_34_cancel_gives_every_call_its_result_and_wins_over_pause_and_budget() {
    let mut task = spec(json!({ "turns": [[shell("a"), shell("b")]] }));
    task.budget.max_time = Some(Span::seconds(1));
    let mut rig = Rig::started(task);
    rig.command(Command::Pause);
    rig.now += 10_000;
    rig.command(Command::Cancel { reason: String::new() });
    assert_eq!(finished(&rig), Some(Outcome::Cancelled));
    assert!(rig.told().contains("tool_ended c1 aborted, tool_ended c2 aborted"), "{}", rig.told());
    assert!(rig.state.data().pending.is_empty());
}

#[test]
fn a_limit_of_turns_ends_the_task_and_a_raised_one_reopens_it_where_it_was() {
    let mut task = spec(json!({ "turns": [[shell("a")], [shell("b")]] }));
    task.budget.max_turns = Some(1);
    let mut rig = Rig::started(task);
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(
        rig.told(),
        "[] tool_ended c1 ok, turn_ended, budget_exhausted, task_finished budget_exhausted"
    );
    rig.command(Command::Raise(Budget { max_turns: Some(1), ..Budget::default() }));
    assert!(rig.last.rejected.is_some());
    rig.command(Command::Raise(Budget { max_turns: Some(2), ..Budget::default() }));
    rig.attach(false);
    assert_eq!(rig.told(), "[run_tool#3] attached, turn_started, tool_started c2");
    rig.ended(3, ToolResult::ok(""));
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}

#[test]
fn a_limit_of_tool_calls_lets_what_runs_end_first() {
    let mut task = spec(json!({ "turns": [[shell("a"), shell("b")]] }));
    task.budget.max_tool_calls = Some(1);
    let mut rig = Rig::started(task);
    assert_eq!(rig.told(), "[run_tool#2] workspace_opened, turn_started, tool_started c1");
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted));
    rig.command(Command::Raise(Budget { max_tool_calls: Some(2), ..Budget::default() }));
    rig.attach(false);
    let second = rig.effect("run_tool");
    rig.ended(second.0, ToolResult::ok(""));
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}

#[test]
fn a_limit_of_time_aborts_what_runs_and_does_not_count_paused_or_undriven_time() {
    let mut task = spec(json!({ "turns": [[shell("a")]] }));
    task.budget.max_time = Some(Span::seconds(10));
    let mut rig = Rig::started(task);
    rig.command(Command::Pause);
    rig.now += 60_000;
    rig.command(Command::Resume);
    let deadline = rig.effect("set_timer");
    assert!(rig.state.data().spend.millis < 100);
    rig.command(Command::Detach { reason: "test".to_owned() });
    rig.now += 60_000;
    rig.attach(false);
    assert!(rig.state.data().spend.millis < 100);
    rig.input(Signal::TimerFired(deadline).into());
    assert_eq!(rig.told(), "[] signal_dropped");
    rig.now += 10_000;
    rig.command(Command::Steer { text: "hurry".to_owned() });
    assert_eq!(finished(&rig), Some(Outcome::BudgetExhausted));
}

#[test]
fn edge_case_06_three_denies_end_the_task_on_the_deny_axis() {
    let turn = json!([shell("a")]);
    let mut task = spec(json!({ "turns": [turn, turn, turn, turn], "author": "worker" }));
    task.budget.max_consecutive_denies = Some(3);
    let rig = Rig::started(task);
    let Standing::Finished { outcome, reason } = rig.state.standing() else {
        panic!("not finished")
    };
    assert_eq!(outcome, Outcome::BudgetExhausted);
    assert_eq!(reason, "max_consecutive_denies = 3 reached (3)");
}

#[test]
fn an_asked_call_waits_durably_and_runs_once_approved() {
    let mut task = spec(json!({ "turns": [[shell("a")]], "author": "worker" }));
    task.policy = Policy { unattended: Unattended::Wait, ..Policy::default() };
    let mut rig = Rig::started(task);
    assert_eq!(rig.told(), "[] workspace_opened, turn_started, approval_requested c1");
    assert!(rig.state.wants_release());
    rig.command(Command::Detach { reason: "waits".to_owned() });
    assert_eq!(rig.told(), "[] detached, task_finished waiting");
    rig.command(Command::approve(call(1)));
    rig.attach(false);
    assert_eq!(rig.told(), "[run_tool#2] attached, tool_started c1");
}

#[test]
fn a_denied_call_has_the_persons_reason_as_its_result() {
    let mut task = spec(json!({ "turns": [[shell("a")]] }));
    task.policy.rules = vec![Rule {
        tool: "shell".to_owned(),
        decide: Decide::Ask,
        reason: "it is a shell".to_owned(),
        ..Rule::default()
    }];
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task)));
    rig.attach(true).open_workspace();
    assert!(!rig.state.wants_release(), "a person is there");
    rig.command(Command::deny(call(1), "not today".to_owned()));
    assert!(rig.told().starts_with("[] approval_decided, tool_ended c1 denied"), "{}", rig.told());
    rig.command(Command::approve(call(1)));
    assert!(rig.last.rejected.is_some());
}

#[test]
fn a_question_takes_only_one_of_its_choices() {
    let ask = json!({ "tool": "ask", "input": { "question": "which?", "choices": ["a", "b"] } });
    let mut rig = Rig::started(spec(json!({ "turns": [[ask]] })));
    assert_eq!(rig.told(), "[] workspace_opened, turn_started, question_asked c1");
    rig.command(Command::Answer { call: call(1), text: "c".to_owned() });
    assert_eq!(rig.last.rejected.as_deref(), Some("\"c\" is not a choice: expected one of a, b"));
    rig.command(Command::Answer { call: call(1), text: "b".to_owned() });
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}

#[test]
fn a_refusal_that_names_the_choices_is_one_line_and_steers_no_terminal() {
    let choices = json!(["a\u{1b}[2J\nerror: no", "b"]);
    let ask = json!({ "tool": "ask", "input": { "question": "which?", "choices": choices } });
    let mut rig = Rig::started(spec(json!({ "turns": [[ask]] })));
    rig.command(Command::Answer { call: call(1), text: "c".to_owned() });
    let said = r#""c" is not a choice: expected one of a\u{1b}[2J\nerror: no, b"#;
    assert_eq!(rig.last.rejected.as_deref(), Some(said));
}

#[test]
fn an_interrupt_aborts_what_runs_and_its_note_reaches_the_driver_first() {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("a")], [shell("b")]] })));
    rig.command(Command::Interrupt { note: "stop that".to_owned() });
    assert_eq!(
        rig.told(),
        "[cancel#2 run_tool#3] tool_ended c1 aborted, note_queued, turn_ended, note_delivered stop that, turn_started, tool_started c2"
    );
}

#[test]
fn steering_skips_what_a_worker_has_not_begun_and_lets_the_rest_end() {
    let mut task = spec(json!({ "turns": [[read("a"), read("b")]], "author": "worker" }));
    task.budget.max_tool_calls = Some(1);
    let mut rig = Rig::started(task);
    rig.command(Command::Steer { text: "other way".to_owned() });
    assert_eq!(rig.told(), "[] tool_ended c2 skipped, note_queued");
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}

#[test]
fn a_follow_up_reaches_the_driver_when_it_would_be_finished() {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("a")]] })));
    rig.command(Command::FollowUp { text: "and then?".to_owned() });
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(
        rig.told(),
        "[] tool_ended c1 ok, turn_ended, note_delivered and then?, claimed, task_finished completed"
    );
}

#[test]
fn a_hand_over_keeps_history_workspace_and_budget() {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("a")]], "end": "give_up" })));
    let next = |turns| DriverSpec::new("scripted", json!({ "turns": turns }));
    rig.command(Command::HandOver(next(json!([[shell("b")]]))));
    assert_eq!(rig.told(), "[] ");
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(
        rig.told(),
        "[run_tool#3] tool_ended c1 ok, turn_ended, driver_changed, turn_started, tool_started c2"
    );
    assert_eq!(rig.state.data().spend.turns, 2);
    let unknown = DriverSpec::new("nobody", json!(null));
    rig.command(Command::HandOver(unknown));
    assert!(rig.last.rejected.as_deref().unwrap().contains("no driver \"nobody\""));
}

#[test]
fn a_hand_over_takes_back_what_has_not_begun_and_lets_the_rest_end() {
    let ask = json!({ "tool": "ask", "input": { "question": "which?" } });
    let mut task = spec(json!({ "turns": [[ask, read("a")], [shell("never")]] }));
    task.budget.max_tool_calls = Some(9);
    let mut rig = Rig::started(task);
    assert!(matches!(rig.state.standing(), Standing::Working), "{}", rig.told());
    let next = DriverSpec::new("scripted", json!({ "turns": [[shell("b")]] }));
    rig.command(Command::HandOver(next));
    assert_eq!(rig.told(), "[] tool_ended c1 skipped");
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(
        rig.told(),
        "[run_tool#3] tool_ended c2 ok, turn_ended, driver_changed, turn_started, tool_started c3"
    );
    // Alone, the question would be all that the turn waits for.
    let ask = json!({ "tool": "ask", "input": { "question": "which?" } });
    let mut rig = Rig::started(spec(json!({ "turns": [[ask]] })));
    let next = DriverSpec::new("scripted", json!({ "turns": [[shell("b")]] }));
    rig.command(Command::HandOver(next));
    assert_eq!(
        rig.told(),
        "[run_tool#2] tool_ended c1 skipped, turn_ended, driver_changed, turn_started, tool_started c2"
    );
}

#[test]
fn a_worker_that_takes_over_has_an_end() {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("a")]] })));
    let worker = DriverSpec::new("llm", json!({ "model": "script/x" }));
    rig.command(Command::HandOver(worker.clone()));
    assert_eq!(rig.state.data().budget.max_turns, Some(1001), "one turn is spent");
    let mut task = spec(json!({ "turns": [[shell("a")]] }));
    task.budget.max_turns = Some(5);
    let mut rig = Rig::started(task);
    rig.command(Command::HandOver(worker));
    assert_eq!(rig.state.data().budget.max_turns, Some(5));
}

#[test]
fn a_task_that_gave_up_can_be_handed_over() {
    let mut rig = Rig::started(spec(json!({ "turns": [], "end": "give_up" })));
    assert_eq!(finished(&rig), Some(Outcome::Failed));
    let next = DriverSpec::new("scripted", json!({ "turns": [] }));
    rig.command(Command::HandOver(next)).attach(false);
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}

#[test]
fn draining_lets_work_end_and_detaching_puts_unsafe_work_in_doubt() {
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("a"), shell("b")]] })));
    rig.command(Command::Drain);
    rig.ended(2, ToolResult::ok(""));
    assert!(!rig.state.is_idle());
    rig.command(Command::Detach { reason: "stopped".to_owned() });
    assert_eq!(rig.told(), "[] call_in_doubt c2, detached, task_finished waiting");
    let statuses: Vec<_> = rig.state.data().calls.iter().map(|call| call.status.clone()).collect();
    assert!(matches!(statuses[..], [CallStatus::Done(_), CallStatus::InDoubt]));
}

#[test]
fn an_unknown_tool_and_a_wrong_parameter_are_results_not_crashes() {
    let turns = json!([[{ "tool": "frobnicate", "input": {} }, { "tool": "shell", "input": { "cmd": "x" } }]]);
    let rig = Rig::started(spec(json!({ "turns": turns })));
    assert!(rig.told().contains("tool_ended c1 error, tool_ended c2 error"), "{}", rig.told());
}

#[test]
fn inputs_before_the_start_and_a_second_start_are_refused() {
    let mut rig = Rig::new();
    rig.command(Command::Pause);
    assert!(rig.last.rejected.is_some());
    rig.input(Input::ToolEnded(machine::id::EffectId(1), ToolResult::ok("")));
    let bad = DriverSpec::new("scripted", json!({ "turn": [] }));
    rig.command(Command::Start(Box::new(machine::task::TaskSpec {
        driver: bad,
        ..spec(json!({}))
    })));
    assert_eq!(rig.state.data().phase, Phase::New);
    rig.command(Command::Start(Box::new(spec(json!({ "turns": [] })))));
    rig.command(Command::Start(Box::new(spec(json!({ "turns": [] })))));
    assert_eq!(rig.last.rejected.as_deref(), Some("the task has been started already"));
}

#[test]
fn a_person_decides_only_when_asked() {
    let mut rig = Rig::started(spec(json!({ "turns": [], "end": "wait_for_person" })));
    assert!(matches!(rig.state.data().phase, Phase::Waiting(Wait::Person { .. })));
    rig.command(Command::tell("hm"));
    assert_eq!(finished(&rig), None);
    rig.command(Command::tell("done"));
    assert_eq!(finished(&rig), Some(Outcome::Completed));
    rig.command(Command::tell("done"));
    assert_eq!(rig.last.rejected.as_deref(), Some("the task has ended: completed"));
}

/// A workflow of these steps, in the whole loop.
fn workflow(steps: Value) -> TaskSpec {
    let driver = DriverSpec::new("workflow", json!({ "steps": steps }));
    TaskSpec { driver, ..spec(json!({})) }
}

#[test]
fn a_yes_is_for_the_question_that_was_seen_and_approves_no_later_one() {
    let mut rig = Rig::started(workflow(json!([
        { "name": "post", "approve": "Post the draft?", "timeout": "4s", "on_timeout": "skip" },
        { "name": "deploy", "approve": "Deploy to production?" },
    ])));
    let yes = |question| Command::Tell { line: "yes".to_owned(), question };
    let [Ask::Decision { number: first, .. }] = rig.state.asks()[..] else { panic!() };
    let alarm = rig.effect("set_timer");
    rig.now += 4000;
    rig.input(Signal::TimerFired(alarm).into());
    let asks = rig.state.asks();
    let [Ask::Decision { number: second, prompt }] = &asks[..] else { panic!("{asks:?}") };
    assert_eq!(prompt, "Deploy to production? (yes / no)");
    rig.command(yes(Some(first)));
    let refusal = format!("{first} does not wait any more: {second} is asked now");
    assert_eq!(rig.last.rejected, Some(refusal));
    assert_eq!(rig.state.asks(), asks, "nothing was approved");
    rig.command(yes(Some(*second)));
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}

/// A step that reads a file, with these keys beside.
fn reads(path: &str, rest: Value) -> Value {
    let mut step = json!({ "name": path, "tool": "read", "parameters": { "path": path } });
    step.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    step
}

fn failed() -> ToolResult {
    ToolResult::ended(Status::Error, "")
}

#[test]
fn a_retry_is_made_when_its_pause_is_over_whatever_else_runs() {
    let again = json!({ "on_error": "retry", "max_retries": 5, "backoff": "1s" });
    let branches = json!({
        "a": [reads("serve", json!({}))],
        "b": [reads("is-up", again), reads("stop", json!({}))],
        "c": [reads("first", json!({})), reads("second", json!({}))],
    });
    let mut rig = Rig::started(workflow(json!([{ "name": "all", "parallel": branches }])));
    assert!(rig.told().starts_with("[run_tool#2 run_tool#3 run_tool#4]"), "{}", rig.told());
    rig.ended(3, failed());
    rig.effect("set_timer");
    // What is begun beside it takes nothing of its moment away, and whoever takes over sets it anew.
    rig.ended(4, ToolResult::ok(""));
    let saved = serde_json::to_string(&rig.state.save()).unwrap();
    rig.state = State::load(&serde_json::from_str(&saved).unwrap(), registry()).unwrap();
    rig.input(Signal::OwnerLost.into()).attach(false);
    let alarm = rig.effect("set_timer");
    rig.now += 1000;
    rig.input(Signal::TimerFired(alarm).into());
    assert!(rig.told().contains("turn_started, tool_started c5"), "{}", rig.told());
}

#[test]
fn a_pause_of_one_racer_ends_while_another_one_runs() {
    let worker = |step: Value| json!({ "driver": "workflow", "config": { "steps": [step] } });
    let again = json!({ "driver": worker(reads("b", json!({}))), "limit": 3, "backoff": "1s" });
    let racers = json!([worker(reads("a", json!({}))), { "driver": "retry", "config": again }]);
    let driver = DriverSpec::new("race", json!({ "drivers": racers }));
    let mut rig = Rig::started(TaskSpec { driver, ..spec(json!({})) });
    rig.ended(3, failed());
    rig.now += 1000;
    rig.input(Signal::TimerFired(rig.effect("set_timer")).into());
    assert!(rig.told().contains("turn_started, tool_started c3"), "{}", rig.told());
}

#[test]
fn the_time_of_a_question_that_is_not_put_keeps_nobody_waiting_and_a_retry_does() {
    let ask = |rest: Value| {
        let mut step = json!({ "name": "q", "ask": "Which?" });
        step.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        step
    };
    let late = ask(json!({ "timeout": "3s", "on_timeout": "skip" }));
    let both = |other: Value| {
        workflow(json!([{ "name": "both", "parallel": { "a": [ask(json!({}))], "b": [other] } }]))
    };
    let rig = Rig::started(both(late));
    assert!(rig.state.wants_release(), "the one that is put waits for as long as it takes");
    let wait =
        Wait::Person { prompt: "Which?".to_owned(), until: None, due: None, number: Some(1) };
    assert_eq!(rig.state.data().phase, Phase::Waiting(wait));

    let again = json!({ "on_error": "retry", "max_retries": 5, "backoff": "40s" });
    let mut rig = Rig::started(both(reads("poll", again)));
    rig.ended(2, failed());
    let asked = rig.state.asks();
    assert!(!rig.state.wants_release(), "the retry was declared, and is near");
    let Phase::Waiting(Wait::Person { until: None, due: Some(_), .. }) = rig.state.data().phase
    else {
        panic!("{:?}", rig.state.data().phase)
    };
    rig.now += 40_000;
    rig.input(Signal::TimerFired(rig.effect("set_timer")).into());
    assert!(rig.told().contains("run_tool"), "{}", rig.told());
    rig.ended(rig.effect("run_tool").0, failed());
    assert_eq!(rig.state.asks(), asked, "it is the same question, put again");
    let [Ask::Decision { number, .. }] = asked[..] else { panic!("{asked:?}") };
    rig.command(Command::Tell { line: "red".to_owned(), question: Some(number) });
    assert_eq!(rig.last.rejected, None);
}

#[test]
fn a_claim_is_checked_once_what_the_other_racers_run_has_ended_and_takes_nothing_from_them() {
    let worker = |command: &str| json!({ "driver": "workflow", "config": { "steps": [reads(command, json!({}))] } });
    let driver = DriverSpec::new("race", json!({ "drivers": [worker("slow"), worker("quick")] }));
    let race = TaskSpec { driver, ..spec(json!({})) };
    let mut checked = race.clone();
    checked.acceptance = vec![check_of("test -e made-by-slow")];
    let verdict = |passed| {
        let title = "shell: test -e made-by-slow".to_owned();
        Verdict::of(vec![CriterionResult { title, passed, ..CriterionResult::default() }])
    };
    let mut rig = Rig::started(checked);
    rig.ended(3, ToolResult::ok(""));
    assert!(rig.told().starts_with("[] tool_ended c2 ok"), "nothing is stopped: {}", rig.told());
    rig.ended(2, ToolResult::ok(""));
    assert!(rig.told().contains("tool_ended c1 ok, turn_ended, claimed"), "{}", rig.told());
    rig.input(Signal::Verified(rig.effect("verify"), Ok(verdict(false))).into());
    assert!(rig.told().contains("verdict_failed"), "{}", rig.told());
    // The slow one has what it did, and claims.
    rig.input(Signal::Verified(rig.effect("verify"), Ok(verdict(true))).into());
    assert_eq!(finished(&rig), Some(Outcome::Verified));

    let mut rig = Rig::started(race);
    rig.ended(3, ToolResult::ok(""));
    assert_eq!(finished(&rig), Some(Outcome::Completed), "without a check the first claim holds");
}

#[test]
fn when_another_way_wins_a_call_in_doubt_has_that_as_its_result() {
    let child = |turns| json!({ "driver": "scripted", "config": { "turns": turns } });
    let race =
        json!({ "drivers": [child(json!([[shell("slow")]])), child(json!([[read("quick")]]))] });
    let mut task = spec(json!(null));
    task.driver = DriverSpec::new("race", race);
    let mut rig = Rig::started(task);
    rig.input(Signal::OwnerLost.into()).attach(false);
    let again = rig.effect("run_tool");
    rig.ended(again.0, ToolResult::ok(""));
    assert!(rig.told().contains("tool_ended c1 in_doubt"), "{}", rig.told());
    assert_eq!(finished(&rig), Some(Outcome::Completed));
}
