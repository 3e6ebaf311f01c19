//! The `llm` driver through the loop: what the model is sent, what its answers cause, what a failure costs.

mod chat;
mod context;
mod waiting;

use std::sync::Arc;

use machine::effect::Effect;
use machine::input::{Command, Signal};
use machine::message::{
    Block, Effort, Message, ModelCall, ModelFailure, Part, Reply, Retry, StopReason, Usage,
};
use machine::policy::budget::Budget;
use machine::state::Standing;
use machine::task::{CriterionResult, DriverSpec, Outcome, TaskSpec};
use machine::tool::{Status, ToolResult};
use serde_json::{Value, json};

use crate::model::{self, answer, task, text, tool};
use crate::rig::{Rig, check_of};
use machine::verdict::Verdict;

fn usage(tokens: u64) -> Usage {
    Usage { input: Some(tokens), output: Some(1), ..Usage::default() }
}

fn reply(parts: Vec<Part>, stop: StopReason) -> Reply {
    Reply { usage: usage(9), ..model::reply(parts, stop) }
}

fn answer_to(rig: &mut Rig, effect: u64, answer: Result<Reply, ModelFailure>) {
    let id = machine::id::EffectId(effect);
    rig.input(Signal::ModelReplied(id, Box::new(answer)).into());
}

/// What was claimed is checked, and does not hold.
fn fail_check(rig: &mut Rig) {
    let failed = CriterionResult {
        title: "shell: make test".to_owned(),
        passed: false,
        exit: Some(2),
        evidence: "3 tests failed".to_owned(),
        millis: 1,
        ..CriterionResult::default()
    };
    let verify = rig.effect("verify");
    rig.input(Signal::Verified(verify, Ok(Verdict::of(vec![failed]))).into());
}

fn failed(kind: &str, retry: Retry) -> Result<Reply, ModelFailure> {
    let usage = Usage::default();
    Err(ModelFailure { kind: kind.to_owned(), retry, message: String::new(), usage })
}

/// The question that is under way.
fn call(rig: &Rig) -> &ModelCall {
    let asked = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, .. } => Some(call),
        _ => None,
    });
    asked.expect("a model is asked")
}

/// What the model was last sent, in words.
fn sent(rig: &Rig) -> Vec<String> {
    let part = |block: &Block| match &block.part {
        Part::Text { text } => text.clone(),
        Part::ToolUse { id, name, .. } => format!("use {id} {name}"),
        Part::ToolResult { id, text, is_error, .. } => {
            format!("result {id} {}{text}", if *is_error { "failed " } else { "" })
        }
        other => format!("{other:?}"),
    };
    let line = |message: &Arc<Message>| {
        let parts: Vec<String> = message.blocks.iter().map(part).collect();
        format!("{:?}: {}", message.role, parts.join(" | "))
    };
    call(rig).messages.iter().map(line).collect()
}

fn chat(config: Value) -> Rig {
    let mut asked = task();
    asked.driver.config = json!({ "model": "script/x", "chat": true });
    for (key, value) in config.as_object().into_iter().flatten() {
        asked.driver.config[key] = value.clone();
    }
    Rig::started(asked)
}

fn told(rig: &mut Rig, line: &str) {
    rig.command(Command::tell(line));
}

#[test]
fn tools_of_an_answer_run_at_once_and_each_result_goes_back_under_its_id() {
    let mut rig = Rig::started(task());
    assert_eq!(sent(&rig), ["User: a goal"]);
    let calls = vec![
        text("let me see"),
        tool("u1", "read", json!({ "path": "a" })),
        tool("u2", "read", json!({ "path": "b" })),
    ];
    answer(&mut rig, Ok(reply(calls, StopReason::ToolUse)));
    assert_eq!(
        rig.told(),
        "[run_tool#3 run_tool#4] model_replied, turn_started, tool_started c1, tool_started c2"
    );
    rig.ended(4, ToolResult::ended(Status::Error, "no such file"));
    rig.ended(3, ToolResult::ok("A"));
    assert_eq!(
        sent(&rig),
        [
            "User: a goal",
            "Assistant: let me see | use u1 read | use u2 read",
            "User: result u1 A | result u2 failed [error]\nno such file",
        ]
    );
    answer(&mut rig, Ok(reply(vec![text("done")], StopReason::EndTurn)));
    assert_eq!(rig.told(), "[] model_replied, claimed, task_finished completed");
    assert_eq!(rig.state.data().spend.tokens, 20);
}

#[test]
fn edge_case_5_a_failed_check_with_the_end_of_its_output_is_in_the_next_question() {
    let mut asked = task();
    asked.acceptance = vec![check_of("make test")];
    let mut rig = Rig::started(asked);
    answer(&mut rig, Ok(reply(vec![text("done")], StopReason::EndTurn)));
    fail_check(&mut rig);
    let last = sent(&rig).pop().unwrap();
    assert_eq!(
        last,
        "User: The work was not accepted. These checks failed:\n\nshell: make test (exit code 2)\n3 tests failed"
    );
}

#[test]
fn a_crash_asks_an_unanswered_question_again_and_never_an_answered_one() {
    let mut rig = Rig::started(task());
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(rig.told(), "[call_model#3] attached, model_called");
    let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
    answer(&mut rig, Ok(reply(calls, StopReason::ToolUse)));
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(rig.told(), "[run_tool#5] attached, tool_started c1");
}

#[test]
fn a_limit_of_tokens_binds_before_the_next_question() {
    let mut asked = task();
    asked.budget.max_tokens = Some(10);
    let mut rig = Rig::started(asked);
    let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
    answer(&mut rig, Ok(reply(calls, StopReason::ToolUse)));
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    assert!(rig.last.effects.is_empty(), "what was asked for costs nothing: {}", rig.told());
    let Standing::Finished { outcome, .. } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::BudgetExhausted);
    rig.command(Command::Raise(Budget { max_tokens: Some(99), ..Budget::default() })).attach(false);
    assert_eq!(
        sent(&rig).pop().unwrap(),
        "User: result u1 A",
        "it is asked what it was to be asked"
    );
}

#[test]
fn a_claim_of_an_answer_that_reached_the_limit_is_checked_once_there_is_more() {
    let mut asked = task();
    asked.budget.max_tokens = Some(10);
    let mut rig = Rig::started(asked);
    answer(&mut rig, Ok(reply(vec![text("done")], StopReason::EndTurn)));
    let Standing::Finished { outcome, .. } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::BudgetExhausted, "a limit is never success");
    rig.command(Command::Raise(Budget { max_tokens: Some(99), ..Budget::default() })).attach(false);
    let Standing::Finished { outcome, .. } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::Completed, "{}", rig.told());
}

#[test]
fn an_interrupt_stops_the_question_and_its_note_reaches_the_model() {
    let mut rig = Rig::started(task());
    rig.command(Command::Interrupt { note: "look at b instead".to_owned() });
    assert_eq!(
        sent(&rig),
        ["User: a goal", "User: The operator stopped you and says: look at b instead"]
    );
}

#[test]
fn an_answer_that_is_cut_goes_on_and_a_refusal_ends() {
    let mut rig = Rig::started(task());
    answer(&mut rig, Ok(reply(vec![text("half")], StopReason::MaxTokens)));
    assert!(sent(&rig).pop().unwrap().contains("was cut at its limit"));
    answer(&mut rig, Ok(reply(vec![text("I will not")], StopReason::Refusal)));
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!((outcome, reason.as_str()), (Outcome::Failed, "the model refused: I will not"));
    let mut rig = Rig::started(task());
    answer(&mut rig, Ok(reply(vec![], StopReason::Refusal)));
    let Standing::Finished { reason, .. } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(reason, "the model refused, without a word");
}

#[test]
fn an_answer_that_cannot_be_used_is_told_to_the_model_and_the_third_in_a_row_ends() {
    let cut = || {
        let message = "the answer ended at its token limit inside its tool calls".to_owned();
        let (kind, retry) = ("tool_args_truncated".to_owned(), Retry::Never);
        Err(ModelFailure { kind, retry, message, usage: usage(9) })
    };
    let mut rig = Rig::started(task());
    for _ in 0..2 {
        answer(&mut rig, cut());
        let told = sent(&rig).pop().unwrap();
        assert!(told.contains("nothing of it was done: the answer ended at its"), "{told}");
        answer(&mut rig, cut());
        answer(&mut rig, Ok(reply(vec![tool("u1", "read", json!({}))], StopReason::ToolUse)));
        assert!(sent(&rig).pop().unwrap().contains("result u1"), "an answer begins the row anew");
    }
    for _ in 0..3 {
        answer(&mut rig, cut());
    }
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::Failed);
    assert!(
        reason.starts_with("what the model answers cannot be used: tool_args_truncated"),
        "{reason}"
    );
    assert_eq!(rig.state.data().spend.tokens, 9 * 10, "what was cut is paid for");
}

/// Some models answer what their tools told them with nothing at all, however often they are asked the same.
#[test]
fn an_answer_that_says_nothing_again_and_again_is_told_to_the_model() {
    let nothing = || {
        let message = "the answer has nothing in it".to_owned();
        let (kind, retry) = ("empty_completion".to_owned(), Retry::Backoff);
        Err(ModelFailure { kind, retry, message, usage: usage(9) })
    };
    let asked_again = |rig: &mut Rig| {
        answer(rig, nothing());
        assert_eq!(rig.told().split(' ').nth(1), Some("model_failed"), "{}", rig.told());
        let timer = rig.effect("set_timer");
        rig.input(Signal::TimerFired(timer).into());
    };
    let mut rig = Rig::started(task());
    for _ in 0..2 {
        asked_again(&mut rig);
        assert_eq!(sent(&rig), ["User: a goal"], "the same question");
    }
    answer(&mut rig, nothing());
    let told = sent(&rig).pop().unwrap();
    assert!(told.contains("could not be used") && told.contains("has nothing in it"), "{told}");
    answer(&mut rig, Ok(reply(vec![tool("u1", "read", json!({}))], StopReason::ToolUse)));
    // It is paid for no longer than without a word.
    for _ in 0..8 {
        answer(&mut rig, nothing());
        if rig.told().contains("set_timer") {
            let timer = rig.effect("set_timer");
            rig.input(Signal::TimerFired(timer).into());
        }
    }
    assert!(!matches!(rig.state.standing(), Standing::Finished { .. }));
    answer(&mut rig, nothing());
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::Failed);
    assert!(reason.starts_with("what the model answers cannot be used: empty_completion"));
}

#[test]
fn an_unsafe_call_of_a_model_is_refused_when_nobody_attends_and_the_model_is_told() {
    let mut rig = Rig::started(task());
    let calls = vec![tool("u1", "shell", json!({ "command": "rm -rf ." }))];
    answer(&mut rig, Ok(reply(calls, StopReason::ToolUse)));
    assert!(
        sent(&rig).pop().unwrap().starts_with("User: result u1 failed [denied]\nnobody attends")
    );
}

#[test]
fn a_note_that_came_while_the_model_thought_skips_the_calls_that_it_asks_for() {
    let child = json!({ "driver": "llm", "driver_config": task().driver.config });
    let step = json!({ "name": "s", "driver": "llm", "driver_config": task().driver.config });
    for driver in [
        task().driver,
        DriverSpec::new("retry", json!({ "driver": child })),
        DriverSpec::new("race", json!({ "drivers": [child] })),
        DriverSpec::new("workflow", json!({ "steps": [step] })),
    ] {
        let mut rig = Rig::started(TaskSpec { driver, ..task() });
        rig.command(Command::Steer { text: "be brief".to_owned() });
        let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
        answer_to(&mut rig, 2, Ok(reply(calls, StopReason::ToolUse)));
        assert_eq!(
            sent(&rig).pop().unwrap(),
            "User: result u1 failed [skipped]\nthe operator spoke before it began | The operator says: be brief",
        );
    }
}

#[test]
fn a_note_that_came_while_a_call_ran_is_sent_after_its_result() {
    let mut rig = Rig::started(task());
    let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
    answer_to(&mut rig, 2, Ok(reply(calls, StopReason::ToolUse)));
    rig.command(Command::Steer { text: "be brief".to_owned() });
    rig.ended(3, ToolResult::ok("A"));
    assert_eq!(sent(&rig).pop().unwrap(), "User: result u1 A | The operator says: be brief",);
}

#[test]
fn a_call_that_is_written_as_text_is_no_claim_and_three_in_a_row_end_it() {
    let written = || {
        let call = r#"<tool_call>{"name":"read","arguments":{"path":"a"}}</tool_call>"#;
        Ok(reply(vec![text(call)], StopReason::EndTurn))
    };
    let mut rig = Rig::started(task());
    for _ in 0..2 {
        answer(&mut rig, written());
        let told = sent(&rig).pop().unwrap();
        assert!(told.contains("nothing of it was done"), "{told}");
    }
    // One that can be used is between them.
    answer(
        &mut rig,
        Ok(reply(vec![tool("u1", "read", json!({ "path": "a" }))], StopReason::ToolUse)),
    );
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    for _ in 0..3 {
        assert!(!matches!(rig.state.standing(), Standing::Finished { .. }));
        answer(&mut rig, written());
    }
    let ended = format!("{:?}", rig.state.standing());
    assert!(ended.contains("Failed") && ended.contains("constrained"), "{ended}");
}

#[test]
fn how_much_it_thinks_and_what_its_answer_must_be_like_go_with_the_question() {
    let asked = |more: Value| {
        let mut asked = task();
        asked.driver.config =
            json!({ "model": "script/x", "effort": "low", "schema": { "type": "object" } });
        asked.driver.config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let rig = Rig::started(asked);
        (call(&rig).effort, call(&rig).schema.is_some())
    };
    assert_eq!(asked(json!({ "tools": [] })), (Some(Effort::Low), true));
    assert_eq!(asked(json!({})), (Some(Effort::Low), false), "it may ask for a tool");
}

#[test]
fn another_model_goes_on_with_the_same_conversation() {
    let mut rig = Rig::started(task());
    let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
    answer(&mut rig, Ok(reply(calls, StopReason::ToolUse)));
    let other = DriverSpec::new("llm", json!({ "model": "script/y" }));
    rig.command(Command::HandOver(other));
    let read = machine::id::EffectId(3);
    rig.ended(read.0, ToolResult::ok("A"));
    assert_eq!(sent(&rig), ["User: a goal", "Assistant: use u1 read", "User: result u1 A"]);
    let asked = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, .. } => Some(call.model.as_str()),
        _ => None,
    });
    assert_eq!(asked, Some("script/y"));
}

#[test]
fn money_is_counted_once_and_binds_before_the_next_question() {
    let mut asked = task();
    asked.budget.max_usd = Some(0.05);
    let mut rig = Rig::started(asked);
    let priced = |cost| {
        let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
        let mut reply = reply(calls, StopReason::ToolUse);
        reply.usage.nanodollars = cost;
        Ok(reply)
    };
    answer(&mut rig, priced(Some(30_000_000)));
    assert_eq!(rig.state.data().spend.usd, 0.03);
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    answer(&mut rig, priced(Some(20_000_000)));
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::BudgetExhausted);
    assert_eq!(reason, "max_usd = 0.05 reached (0.0500)");
}

#[test]
fn a_limit_of_money_is_not_held_by_an_unknown_price() {
    let mut asked = task();
    asked.budget.max_usd = Some(5.0);
    let mut rig = Rig::started(asked);
    let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
    answer(&mut rig, Ok(reply(calls, StopReason::ToolUse)));
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::BudgetExhausted);
    assert!(reason.contains("1 answer whose price is unknown"), "{reason}");
    // Raised, it would count as reached for ever if it had to hold what nobody will ever know.
    rig.command(Command::Raise(Budget { max_usd: Some(9.0), ..Budget::default() })).attach(false);
    answer(
        &mut rig,
        Ok(reply(vec![tool("u2", "read", json!({ "path": "b" }))], StopReason::ToolUse)),
    );
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("B"));
    let Standing::Finished { reason, .. } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(reason, "max_usd = 9 reached (0.0000, and 2 answers whose price is unknown)");
}

#[test]
fn what_an_interrupted_call_cost_is_counted_once_when_it_is_known() {
    let stops = [
        Command::Interrupt { note: "wait".to_owned() },
        Command::Cancel { reason: String::new() },
        Command::Detach { reason: "bye".to_owned() },
    ];
    for stop in stops {
        let mut rig = Rig::started(task());
        let stopped = rig.effect("call_model").0;
        rig.command(stop);
        assert_eq!(rig.state.data().spend.tokens, 0);
        assert!(rig.state.is_owed());
        answer_to(&mut rig, stopped, Err(cut_off()));
        assert_eq!(rig.state.data().spend.tokens, 41);
        assert!(!rig.state.is_owed());
        answer_to(&mut rig, stopped, Err(cut_off()));
        assert_eq!(rig.state.data().spend.tokens, 41, "a second report is nobody's");
    }
}

fn cut_off() -> ModelFailure {
    ModelFailure {
        kind: "cancelled".to_owned(),
        retry: Retry::Never,
        message: "the call was stopped".to_owned(),
        usage: usage(40),
    }
}

/// The answer is kept, and found again by whoever takes the task up.
#[test]
fn a_whole_answer_that_comes_when_its_task_was_put_down_is_counted_when_it_is_taken_up() {
    let mut rig = Rig::started(task());
    let answered = rig.effect("call_model").0;
    rig.command(Command::Detach { reason: "bye".to_owned() });
    let whole = || reply(vec![text("Done.")], StopReason::EndTurn);
    answer_to(&mut rig, answered, Ok(whole()));
    assert_eq!(rig.state.data().spend.tokens, 0);
    rig.attach(false);
    answer(&mut rig, Ok(whole()));
    assert_eq!(rig.state.data().spend.tokens, whole().usage.total());
}

#[test]
fn another_process_does_not_wait_for_what_a_former_one_stopped() {
    let mut rig = Rig::started(task());
    rig.command(Command::Detach { reason: "bye".to_owned() });
    assert!(rig.state.is_owed());
    rig.attach(false);
    assert!(!rig.state.is_owed());
}

#[test]
fn a_tool_whose_name_a_provider_cannot_take_is_known_by_the_name_the_model_was_told() {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task()))).attach(true).open_workspace();
    let call = tool("u1", "validator_run", json!({ "only": ["cargo"] }));
    answer(&mut rig, Ok(reply(vec![call], StopReason::ToolUse)));
    // It runs code of the workspace, so it is asked about as a shell command is.
    let asked = rig.told();
    assert!(asked.contains("approval_requested"), "{asked}");
    rig.command(Command::approve(machine::id::CallId(1)));
    let ran = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::RunTool { id, call, .. } => Some((*id, call.tool.clone())),
        _ => None,
    });
    let (id, ran) = ran.expect("the tool runs");
    assert_eq!(ran, "validator.run");
    rig.ended(id.0, ToolResult::ok("ok: cargo"));
    assert_eq!(
        sent(&rig),
        ["User: a goal", "Assistant: use u1 validator_run", "User: result u1 ok: cargo"]
    );
}
