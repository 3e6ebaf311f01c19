//! The `llm` driver through the loop: what the model is sent, what its answers cause, what a failure costs.

use std::sync::Arc;

use machine::effect::Effect;
use machine::input::{Command, Signal};
use machine::message::{
    Block, Message, ModelCall, ModelFailure, Part, Reply, Retry, Role, StopReason, Usage,
};
use machine::state::Standing;
use machine::task::{CriterionResult, DriverSpec, Outcome, TaskSpec};
use machine::tool::{Status, ToolResult};
use serde_json::{Value, json};

use crate::rig::{Rig, check_of, spec};

fn task() -> TaskSpec {
    let driver = DriverSpec { name: "llm".to_owned(), config: json!({ "model": "script/x" }) };
    TaskSpec { driver, ..spec(json!(null)) }
}

fn usage(tokens: u64) -> Usage {
    Usage { input: Some(tokens), output: Some(1), ..Usage::default() }
}

fn reply(parts: Vec<Part>, stop: StopReason) -> Reply {
    let blocks = parts.into_iter().map(|part| Block { part, native: None }).collect();
    Reply {
        id: "r".to_owned(),
        model: "m".to_owned(),
        message: Message { role: Role::Assistant, blocks },
        stop,
        usage: usage(9),
    }
}

fn text(words: &str) -> Part {
    Part::Text { text: words.to_owned() }
}

fn tool(id: &str, name: &str, input: Value) -> Part {
    Part::ToolUse { id: id.to_owned(), name: name.to_owned(), input }
}

/// Answers the question of the last output.
fn answer(rig: &mut Rig, answer: Result<Reply, ModelFailure>) {
    let id = rig.effect("call_model");
    answer_to(rig, id.0, answer);
}

fn answer_to(rig: &mut Rig, effect: u64, answer: Result<Reply, ModelFailure>) {
    let id = machine::id::EffectId(effect);
    rig.input(Signal::ModelReplied(id, Box::new(answer)).into());
}

/// What the model was last sent, in words.
fn sent(rig: &Rig) -> Vec<String> {
    let call: &ModelCall = rig
        .last
        .effects
        .iter()
        .find_map(|effect| match effect {
            Effect::CallModel { call, .. } => Some(call),
            _ => None,
        })
        .expect("a model is asked");
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
    call.messages.iter().map(line).collect()
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
fn a_failed_check_with_the_end_of_its_output_is_in_the_next_question() {
    let mut asked = task();
    asked.acceptance = vec![check_of("make test")];
    let mut rig = Rig::started(asked);
    answer(&mut rig, Ok(reply(vec![text("done")], StopReason::EndTurn)));
    let failed = CriterionResult {
        title: "shell: make test".to_owned(),
        passed: false,
        exit: Some(2),
        evidence: "3 tests failed".to_owned(),
        millis: 1,
    };
    let verify = rig.effect("verify");
    rig.input(Signal::Verified(verify, Ok(vec![failed])).into());
    let last = sent(&rig).pop().unwrap();
    assert_eq!(
        last,
        "User: The work was not accepted. These checks failed:\n\nshell: make test (exit code 2)\n3 tests failed"
    );
}

#[test]
fn an_overloaded_model_is_asked_again_later_and_its_cost_is_counted_once() {
    let mut rig = Rig::started(task());
    let failure = ModelFailure {
        kind: "overloaded".to_owned(),
        retry: Retry::After(5_000),
        message: "busy".to_owned(),
        usage: usage(4),
    };
    answer(&mut rig, Err(failure.clone()));
    assert_eq!(rig.told(), "[set_timer#3] model_failed");
    let timer = rig.effect("set_timer");
    rig.input(Signal::TimerFired(timer).into());
    assert_eq!(rig.told(), "[call_model#4] model_called");
    assert_eq!(sent(&rig), ["User: a goal"], "the same question");
    assert_eq!(rig.state.data().spend.tokens, 5);
    for _ in 0..20 {
        if matches!(rig.state.standing(), Standing::Finished { .. }) {
            break;
        }
        answer(&mut rig, Err(failure.clone()));
        if rig.told().contains("set_timer") {
            let timer = rig.effect("set_timer");
            rig.input(Signal::TimerFired(timer).into());
        }
    }
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!((outcome, reason.contains("busy")), (Outcome::Failed, true));
    assert_eq!(rig.state.data().spend.tokens, 30, "six questions, five tokens each");
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
    let Standing::Finished { outcome, .. } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::BudgetExhausted);
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
fn a_note_that_came_before_the_results_is_sent_after_them() {
    let mut rig = Rig::started(task());
    rig.command(Command::Steer { text: "be brief".to_owned() });
    let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
    answer_to(&mut rig, 2, Ok(reply(calls, StopReason::ToolUse)));
    rig.ended(3, ToolResult::ok("A"));
    assert_eq!(sent(&rig).pop().unwrap(), "User: result u1 A | The operator says: be brief",);
}
