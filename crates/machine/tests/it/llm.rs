//! The `llm` driver through the loop: what the model is sent, what its answers cause, what a failure costs.

use std::sync::Arc;

use machine::effect::Effect;
use machine::input::{Command, Signal};
use machine::message::{
    Block, Message, ModelCall, ModelFailure, Part, Reply, Retry, StopReason, Usage,
};
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
fn edge_case_5_a_failed_check_with_the_end_of_its_output_is_in_the_next_question() {
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
        ..CriterionResult::default()
    };
    let verify = rig.effect("verify");
    rig.input(Signal::Verified(verify, Ok(Verdict::of(vec![failed]))).into());
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
    assert_eq!(rig.state.data().spend.tokens, 50, "ten questions, five tokens each");
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
    assert!(reason.starts_with("the model did not answer: tool_args_truncated"), "{reason}");
    assert_eq!(rig.state.data().spend.tokens, 9 * 10, "what was cut is paid for");
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

fn chat(config: Value) -> Rig {
    let mut asked = task();
    asked.driver.config = json!({ "model": "script/x", "chat": true });
    for (key, value) in config.as_object().into_iter().flatten() {
        asked.driver.config[key] = value.clone();
    }
    Rig::started(asked)
}

fn told(rig: &mut Rig, line: &str) {
    rig.command(Command::Tell { line: line.to_owned() });
}

#[test]
fn in_a_chat_a_person_speaks_when_the_model_has_nothing_more_to_do() {
    let mut rig = chat(json!({}));
    answer(&mut rig, Ok(reply(vec![text("hello")], StopReason::EndTurn)));
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }));
    told(&mut rig, "and now?");
    assert_eq!(sent(&rig), ["User: a goal", "Assistant: hello", "User: and now?"]);
    answer(&mut rig, Ok(reply(vec![text("that is all")], StopReason::EndTurn)));
    told(&mut rig, "/done");
    let Standing::Finished { outcome, .. } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::Completed);
    assert!(rig.told().contains("claimed"), "{}", rig.told());
}

#[test]
fn in_a_chat_a_failed_check_goes_back_to_the_model_and_the_chat_goes_on() {
    let mut asked = task();
    asked.driver.config = json!({ "model": "script/x", "chat": true });
    asked.acceptance = vec![check_of("make test")];
    let mut rig = Rig::started(asked);
    answer(&mut rig, Ok(reply(vec![text("ready")], StopReason::EndTurn)));
    told(&mut rig, "/done");
    let verify = rig.effect("verify");
    let failed = CriterionResult {
        title: "shell: make test".to_owned(),
        passed: false,
        exit: Some(2),
        evidence: String::new(),
        millis: 1,
        ..CriterionResult::default()
    };
    rig.input(Signal::Verified(verify, Ok(Verdict::of(vec![failed]))).into());
    assert!(sent(&rig).pop().unwrap().contains("was not accepted"));
    answer(&mut rig, Ok(reply(vec![text("mended")], StopReason::EndTurn)));
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }), "not claimed again");
}

#[test]
fn in_a_chat_a_stop_a_limit_and_a_failure_only_end_the_turn() {
    let mut rig = chat(json!({ "max_steps": 1 }));
    rig.command(Command::Interrupt { note: String::new() });
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }), "stopped");
    told(&mut rig, "go on");
    assert_eq!(sent(&rig), ["User: a goal", "User: The operator stopped you. | go on"]);
    let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
    answer(&mut rig, Ok(reply(calls, StopReason::ToolUse)));
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    assert!(rig.told().contains("decision_awaited"), "{}", rig.told());
    told(&mut rig, "once more");
    assert_eq!(sent(&rig).pop().unwrap(), "User: result u1 A | once more");
    let failure = ModelFailure {
        kind: "auth".to_owned(),
        retry: Retry::Never,
        message: "no key".to_owned(),
        usage: Usage::default(),
    };
    answer(&mut rig, Err(failure));
    let Standing::AwaitingPerson { asks } = rig.state.standing() else { panic!("does not wait") };
    assert!(format!("{asks:?}").contains("no key"));
    told(&mut rig, "again");
    assert_eq!(rig.state.data().dropped, 0);
    assert_eq!(sent(&rig).pop().unwrap(), "User: again");
}

#[test]
fn in_a_chat_a_command_with_one_more_slash_is_said_to_the_model() {
    let mut rig = chat(json!({ "max_steps": 1 }));
    for line in ["//done", " //compact the file", "//etc"] {
        answer(&mut rig, Ok(reply(vec![text("hm")], StopReason::EndTurn)));
        told(&mut rig, line);
        let said = line.trim().strip_prefix('/').filter(|_| line != "//etc").unwrap_or(line);
        assert_eq!(sent(&rig).pop().unwrap(), format!("User: {said}"));
    }
}

#[test]
fn in_a_chat_a_note_is_a_line_of_the_person_for_the_limit_of_steps() {
    let mut rig = chat(json!({ "max_steps": 1 }));
    let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
    answer(&mut rig, Ok(reply(calls, StopReason::ToolUse)));
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    let Standing::AwaitingPerson { asks } = rig.state.standing() else { panic!("does not wait") };
    assert!(format!("{asks:?}").contains("max_steps"), "{asks:?}");
    rig.command(Command::Steer { text: "look again".to_owned() });
    assert_eq!(sent(&rig).pop().unwrap(), "User: result u1 A | The operator says: look again");
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
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::BudgetExhausted);
    assert!(reason.contains("1 answers whose price is unknown"), "{reason}");
}

fn with_context(tokens: u64) -> TaskSpec {
    let mut asked = task();
    asked.driver.config = json!({ "model": "script/x", "context": tokens });
    asked.acceptance = vec![check_of("make test")];
    asked
}

fn overflow() -> Result<Reply, ModelFailure> {
    Err(ModelFailure {
        kind: "context_overflow".to_owned(),
        retry: Retry::Never,
        message: "prompt is too long".to_owned(),
        usage: Usage::default(),
    })
}

/// One step of the model: it reads a file that says `content`.
fn step(rig: &mut Rig, tokens: u64, content: &str) {
    let mut asks = reply(vec![tool("u1", "read", json!({ "path": "a" }))], StopReason::ToolUse);
    asks.usage = usage(tokens);
    answer(rig, Ok(asks));
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok(content));
}

#[test]
fn a_full_context_is_summed_up_and_what_must_not_be_lost_is_kept_word_for_word() {
    let mut rig = Rig::started(with_context(1000));
    rig.command(Command::Interrupt { note: "never touch b".to_owned() });
    step(&mut rig, 100, "A");
    assert_eq!(sent(&rig).len(), 4, "there is room");
    step(&mut rig, 799, "B");
    let asked = sent(&rig);
    assert!(asked.last().unwrap().contains("Your context is nearly full"), "{asked:?}");
    assert_eq!(asked.len(), 7, "everything so far, and the request");
    answer(&mut rig, Ok(reply(vec![text("a says A")], StopReason::EndTurn)));
    assert!(rig.told().contains("model_replied, compacted"), "{}", rig.told());
    let now = sent(&rig);
    assert_eq!(now.len(), 3, "{now:?}");
    for kept in ["a goal", "shell: make test", "- never touch b", "a says A"] {
        assert!(now[0].contains(kept), "{kept}: {}", now[0]);
    }
    assert_eq!(now[1..], ["Assistant: use u1 read", "User: result u1 B"]);
    // The last failure is kept as well.
    answer(&mut rig, Ok(reply(vec![text("done")], StopReason::EndTurn)));
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
    step(&mut rig, 900, "C");
    answer(&mut rig, Ok(reply(vec![text("second")], StopReason::EndTurn)));
    assert!(sent(&rig)[0].contains("3 tests failed"), "{:?}", sent(&rig));
}

/// The question that is under way.
fn call(rig: &Rig) -> &ModelCall {
    let asked = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, .. } => Some(call),
        _ => None,
    });
    asked.expect("a model is asked")
}

#[test]
fn after_a_summary_no_thinking_from_before_it_counts() {
    let mut rig = Rig::started(with_context(1000));
    step(&mut rig, 100, "A");
    step(&mut rig, 900, "B");
    assert_eq!(call(&rig).moved, 0, "the question for a summary only adds to what was said");
    answer(&mut rig, Ok(reply(vec![text("notes")], StopReason::EndTurn)));
    assert_eq!((call(&rig).moved, sent(&rig).len()), (3, 3), "{:?}", sent(&rig));
    step(&mut rig, 100, "C");
    assert_eq!(
        (call(&rig).moved, sent(&rig).len()),
        (3, 5),
        "what came later stands as it was said"
    );
    // What was cut for the sake of a summary has no place behind what it was said after, either.
    answer(&mut rig, overflow());
    assert_eq!(call(&rig).moved, sent(&rig).len());
}

#[test]
fn thinking_that_is_refused_is_left_out_of_the_same_question_once() {
    let mut rig = Rig::started(task());
    step(&mut rig, 100, "A");
    assert_eq!(call(&rig).moved, 0);
    let refused = || failed("stale_thinking", Retry::Never);
    answer(&mut rig, refused());
    assert_eq!((call(&rig).moved, sent(&rig).len()), (3, 3));
    step(&mut rig, 100, "B");
    assert_eq!((call(&rig).moved, sent(&rig).len()), (3, 5), "it stays left out");
    answer(&mut rig, refused());
    assert_eq!(call(&rig).moved, 5, "tools may change again");
    answer(&mut rig, refused());
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::Failed);
    assert!(reason.contains("stale_thinking"), "{reason}");
}

#[test]
fn what_is_no_summary_never_takes_the_place_of_the_conversation() {
    let wants_more = || {
        let parts = vec![text("Let me see."), tool("u9", "read", json!({ "path": "b" }))];
        Ok(reply(parts, StopReason::ToolUse))
    };
    let says_nothing = || Ok(reply(vec![text(" ")], StopReason::EndTurn));
    let refuses = || Ok(reply(vec![text("I cannot.")], StopReason::Refusal));
    let is_cut = || failed("tool_args_truncated", Retry::Never);
    let answers: [&dyn Fn() -> Result<Reply, ModelFailure>; 4] =
        [&wants_more, &says_nothing, &refuses, &is_cut];
    for no_summary in answers {
        let mut rig = Rig::started(with_context(1000));
        step(&mut rig, 100, "A");
        step(&mut rig, 900, "B");
        assert!(!call(&rig).words_only, "forbidding tools costs the cache");
        answer(&mut rig, no_summary());
        assert!(!rig.told().contains("compacted"), "nothing became shorter: {}", rig.told());
        assert_eq!(sent(&rig).len(), 6, "the same question: {:?}", sent(&rig));
        assert!(call(&rig).words_only && call(&rig).compacts);
        answer(&mut rig, Ok(reply(vec![text("a says A")], StopReason::EndTurn)));
        assert!(rig.told().contains("compacted"), "{}", rig.told());
        assert!(sent(&rig)[0].contains("a says A"), "{:?}", sent(&rig));
        assert!(!call(&rig).words_only && !call(&rig).compacts);
    }
}

#[test]
fn without_a_summary_a_full_conversation_keeps_the_last_one_and_its_last_step() {
    let mut rig = Rig::started(with_context(1000));
    step(&mut rig, 100, "A");
    step(&mut rig, 900, "B");
    answer(&mut rig, Ok(reply(vec![text("a says A")], StopReason::EndTurn)));
    step(&mut rig, 900, "C");
    for _ in 0..3 {
        assert!(call(&rig).compacts, "{:?}", sent(&rig));
        answer(&mut rig, Ok(reply(vec![], StopReason::EndTurn)));
    }
    let now = sent(&rig);
    assert!(!call(&rig).compacts && now[0].contains("a says A"), "{now:?}");
    assert_eq!(now[1..], ["Assistant: use u1 read", "User: result u1 C"]);
}

#[test]
fn a_chat_that_a_person_wants_shorter_stays_as_it_is_without_a_summary() {
    let mut rig = chat(json!({}));
    answer(&mut rig, Ok(reply(vec![text("hello")], StopReason::EndTurn)));
    told(&mut rig, "/compact");
    for _ in 0..2 {
        answer(&mut rig, Ok(reply(vec![], StopReason::EndTurn)));
    }
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }), "a person speaks");
    told(&mut rig, "and now?");
    assert_eq!(sent(&rig).len(), 3, "{:?}", sent(&rig));
}

#[test]
fn edge_case_07_an_overflow_forces_ever_shorter_conversations_and_then_an_end() {
    let mut rig = Rig::started(task());
    let large = "x".repeat(50_000);
    step(&mut rig, 10, &large);
    step(&mut rig, 10, &large);
    let size = |rig: &Rig| sent(rig).iter().map(String::len).sum::<usize>();
    assert!(size(&rig) > 100_000);
    answer(&mut rig, overflow());
    assert!(size(&rig) < 4_000, "a summary of what is left is asked for: {}", size(&rig));
    answer(&mut rig, Ok(reply(vec![text("x is everywhere")], StopReason::EndTurn)));
    assert!(sent(&rig)[0].contains("x is everywhere"));
    answer(&mut rig, overflow());
    assert!(sent(&rig)[0].contains("x is everywhere"), "the summary stays");
    assert_eq!(sent(&rig).len(), 3);
    answer(&mut rig, overflow());
    assert_eq!(sent(&rig).len(), 1, "only what must not be lost");
    answer(&mut rig, overflow());
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::Failed);
    assert!(reason.contains("prompt is too long"), "{reason}");
}

#[test]
fn edge_case_07_a_summary_that_does_not_fit_is_done_without_and_overflows_are_limited() {
    let mut asked = task();
    asked.budget.max_context_overflows = Some(3);
    let mut rig = Rig::started(asked);
    step(&mut rig, 10, "A");
    answer(&mut rig, overflow());
    answer(&mut rig, overflow());
    assert!(sent(&rig)[0].contains("did not fit and is gone"), "{:?}", sent(&rig));
    answer(&mut rig, overflow());
    let Standing::Finished { outcome, .. } = rig.state.standing() else { panic!("goes on") };
    assert_eq!(outcome, Outcome::BudgetExhausted);
}

#[test]
fn a_context_that_stays_full_ends_instead_of_being_summed_up_for_ever() {
    let mut rig = Rig::started(with_context(1000));
    step(&mut rig, 10, "A");
    for _ in 0..20 {
        if let Standing::Finished { reason, .. } = rig.state.standing() {
            assert!(reason.contains("3 times in a row"), "{reason}");
            return;
        }
        if sent(&rig).last().unwrap().contains("Your context is nearly full") {
            answer(&mut rig, Ok(reply(vec![text("notes")], StopReason::EndTurn)));
        } else {
            step(&mut rig, 999, "A");
        }
    }
    panic!("goes on for ever");
}

#[test]
fn a_person_can_make_a_chat_shorter() {
    let mut rig = chat(json!({}));
    answer(&mut rig, Ok(reply(vec![text("hello")], StopReason::EndTurn)));
    told(&mut rig, "/compact the names");
    assert!(sent(&rig).last().unwrap().ends_with("Above all keep: the names"), "{:?}", sent(&rig));
    answer(&mut rig, Ok(reply(vec![text("nothing yet")], StopReason::EndTurn)));
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }), "a person speaks");
    told(&mut rig, "and now?");
    assert!(sent(&rig)[0].contains("nothing yet"), "{:?}", sent(&rig));
}

fn failed(kind: &str, retry: Retry) -> Result<Reply, ModelFailure> {
    let usage = Usage::default();
    Err(ModelFailure { kind: kind.to_owned(), retry, message: String::new(), usage })
}

/// The number of the question that is asked, and when the timer of the last output is due.
fn question(rig: &Rig) -> Option<u64> {
    rig.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, .. } => Some(call.question),
        _ => None,
    })
}

fn due(rig: &Rig) -> Option<i64> {
    rig.last.effects.iter().find_map(|effect| match effect {
        Effect::SetTimer { at, .. } => Some(at.0),
        _ => None,
    })
}

/// Lets the last timer fire at its moment.
fn fire(rig: &mut Rig) {
    let timer = rig.effect("set_timer");
    rig.now = rig.now.max(due(rig).unwrap());
    rig.input(Signal::TimerFired(timer).into());
}

#[test]
fn a_wait_survives_the_process_and_is_kept_to_the_moment() {
    let mut rig = Rig::started(task());
    answer(&mut rig, failed("rate_limited", Retry::After(30_000)));
    let moment = due(&rig).unwrap();
    assert!(moment >= rig.now + 30_000);
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(rig.told(), "[set_timer#4] attached", "not asked before its time");
    assert_eq!(due(&rig), Some(moment));
    rig.input(Signal::OwnerLost.into());
    rig.now = moment;
    rig.attach(false);
    assert_eq!(rig.told(), "[call_model#5] attached, model_called", "its time has come");
    assert_eq!(question(&rig), Some(1));
}

#[test]
fn a_long_wait_lets_go_of_a_task_that_nobody_attends() {
    for (attended, millis, lets_go) in
        [(false, 7_200_000, true), (false, 40_000, false), (true, 7_200_000, false)]
    {
        let mut rig = Rig::new();
        rig.command(Command::Start(Box::new(task())));
        rig.attach(attended).open_workspace();
        answer(&mut rig, failed("rate_limited", Retry::After(millis)));
        assert_eq!(rig.state.wants_release(), lets_go, "{attended} {millis}");
        if lets_go {
            let reason = rig.state.release_reason();
            assert!(reason.starts_with("the model is asked again in 2h"), "{reason}");
            rig.command(Command::Detach { reason });
            assert_eq!(rig.told(), "[] detached, task_finished waiting");
            assert!(rig.state.rests_until(machine::time::Timestamp(rig.now)).is_some());
            rig.now += 8_000_000;
            assert_eq!(rig.state.rests_until(machine::time::Timestamp(rig.now)), None);
            rig.attach(false);
            assert_eq!(rig.told(), "[call_model#4] attached, model_called");
        }
    }
}

#[test]
fn a_paused_task_asks_again_only_once_it_goes_on() {
    let mut rig = Rig::started(task());
    answer(&mut rig, failed("overloaded", Retry::Backoff));
    let (timer, moment) = (rig.effect("set_timer"), due(&rig).unwrap());
    rig.command(Command::Pause);
    rig.now = moment;
    rig.input(Signal::TimerFired(timer).into());
    assert_eq!(rig.told(), "[] ");
    rig.command(Command::Resume);
    assert_eq!(rig.told(), "[call_model#4] resumed, model_called");
}

#[test]
fn a_server_that_is_left_alone_costs_no_attempt_but_not_for_ever() {
    let mut rig = Rig::started(task());
    let open = || failed("circuit_open", Retry::After(30_000));
    for _ in 0..20 {
        answer(&mut rig, open());
        fire(&mut rig);
    }
    assert_eq!(rig.state.data().model_failures, 0);
    answer(&mut rig, failed("transport", Retry::Backoff));
    assert_eq!(rig.state.data().model_failures, 1);
    fire(&mut rig);
    let begun = rig.now;
    while let Standing::Working = rig.state.standing() {
        answer(&mut rig, open());
        if due(&rig).is_some() {
            fire(&mut rig);
        }
    }
    assert!(rig.now - begun < 30 * 60_000, "half an hour for all of it");
    let Standing::Finished { outcome, reason } = rig.state.standing() else { panic!("goes on") };
    assert_eq!((outcome, reason.contains("circuit_open")), (Outcome::Failed, true));
}

#[test]
fn a_question_has_one_number_however_often_it_is_asked() {
    let mut rig = Rig::started(task());
    assert_eq!(question(&rig), Some(1));
    answer(&mut rig, failed("transport", Retry::Backoff));
    fire(&mut rig);
    assert_eq!(question(&rig), Some(1));
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(question(&rig), Some(1));
    answer(&mut rig, Ok(reply(vec![text("half")], StopReason::MaxTokens)));
    assert_eq!(question(&rig), Some(2));
    rig.command(Command::Interrupt { note: "no".to_owned() });
    assert_eq!(question(&rig), Some(3));
}

#[test]
fn what_an_interrupted_call_cost_is_counted_once_when_it_is_known() {
    let mut rig = Rig::started(task());
    let stopped = rig.effect("call_model").0;
    rig.command(Command::Interrupt { note: "wait".to_owned() });
    assert_eq!(rig.state.data().spend.tokens, 0);
    let cut = ModelFailure {
        kind: "cancelled".to_owned(),
        retry: Retry::Never,
        message: "the call was stopped".to_owned(),
        usage: usage(40),
    };
    answer_to(&mut rig, stopped, Err(cut.clone()));
    assert_eq!(rig.state.data().spend.tokens, 41);
    answer_to(&mut rig, stopped, Err(cut));
    assert_eq!(rig.state.data().spend.tokens, 41, "a second report is nobody's");
}

/// The model that is asked by the last output, if one is.
fn asked(rig: &Rig) -> Option<&str> {
    rig.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, .. } => Some(call.model.as_str()),
        _ => None,
    })
}

fn hand_over(rig: &mut Rig) {
    let config = json!({ "model": "script/y", "chat": true });
    rig.command(Command::HandOver(DriverSpec::new("llm", config)));
}

#[test]
fn in_a_chat_another_model_waits_for_the_next_line_if_all_was_answered() {
    let mut rig = chat(json!({}));
    answer(&mut rig, Ok(reply(vec![text("hello")], StopReason::EndTurn)));
    hand_over(&mut rig);
    assert_eq!(rig.told(), "[] driver_changed, decision_awaited");
    told(&mut rig, "and you?");
    assert_eq!(asked(&rig), Some("script/y"));
    assert_eq!(sent(&rig), ["User: a goal", "Assistant: hello", "User: and you?"]);
    // Stopped before it answered: the person still has the word.
    rig.command(Command::Interrupt { note: String::new() });
    hand_over(&mut rig);
    assert_eq!(rig.told(), "[] driver_changed, decision_awaited");
}

#[test]
fn in_a_chat_another_model_answers_what_the_former_could_not() {
    let mut rig = chat(json!({}));
    let failure = ModelFailure {
        kind: "auth".to_owned(),
        retry: Retry::Never,
        message: "no key".to_owned(),
        usage: Usage::default(),
    };
    answer(&mut rig, Err(failure));
    hand_over(&mut rig);
    assert_eq!((asked(&rig), sent(&rig)), (Some("script/y"), vec!["User: a goal".to_owned()]));
    answer(&mut rig, Ok(reply(vec![text("I will not")], StopReason::Refusal)));
    hand_over(&mut rig);
    assert_eq!(sent(&rig).pop().unwrap(), "User: Go on.", "the last word is never the model's");
}

#[test]
fn in_a_chat_a_stop_while_nothing_runs_changes_nothing_and_a_check_can_be_stopped() {
    let mut asked = task();
    asked.driver.config = json!({ "model": "script/x", "chat": true });
    asked.acceptance = vec![check_of("make test")];
    let mut rig = Rig::started(asked);
    answer(&mut rig, Ok(reply(vec![text("ready")], StopReason::EndTurn)));
    rig.command(Command::Interrupt { note: String::new() });
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }));
    told(&mut rig, "/done");
    rig.effect("verify");
    rig.command(Command::Interrupt { note: String::new() });
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }), "not claimed again");
    told(&mut rig, "wait");
    assert_eq!(sent(&rig)[1..], ["Assistant: ready", "User: wait"]);
    rig.command(Command::Interrupt { note: "no".to_owned() });
    answer(&mut rig, Ok(reply(vec![text("well")], StopReason::EndTurn)));
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }), "nobody said done");
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
