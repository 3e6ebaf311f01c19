//! A chat: the `llm` driver with a person who speaks in between.

use machine::effect::Effect;
use machine::input::{Command, Signal};
use machine::message::{ModelFailure, Retry, StopReason, Usage};
use machine::state::{Standing, State};
use machine::task::{CriterionResult, DriverSpec, Outcome};
use machine::tool::ToolResult;
use machine::verdict::Verdict;
use serde_json::json;

use super::{chat, reply, sent, told};
use crate::model::{answer, task, text, tool};
use crate::rig::{Rig, check_of, registry};

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
fn in_a_chat_a_model_that_circles_gives_the_word_back() {
    let mut rig = chat(json!({ "max_steps": 30 }));
    let circle = |rig: &mut Rig| {
        for _ in 0..5 {
            let calls = vec![tool("u1", "read", json!({ "path": "a" }))];
            answer(rig, Ok(reply(calls, StopReason::ToolUse)));
            let read = rig.effect("run_tool").0;
            rig.ended(read, ToolResult::ok("A"));
        }
        let Standing::AwaitingPerson { asks } = rig.state.standing() else { panic!("goes on") };
        assert!(format!("{asks:?}").contains("5 times in a row"), "{asks:?}");
    };
    circle(&mut rig);
    told(&mut rig, "look elsewhere");
    assert_eq!(sent(&rig).pop().unwrap(), "User: result u1 A | look elsewhere");
    circle(&mut rig);
    rig.command(Command::Steer { text: "read b".to_owned() });
    assert_eq!(sent(&rig).pop().unwrap(), "User: result u1 A | The operator says: read b");
    answer(&mut rig, Ok(reply(vec![text("done")], StopReason::EndTurn)));
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }));
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
fn in_a_chat_a_line_that_was_refused_is_left_out_once_a_person_says_something_else() {
    let refuses = || Ok(reply(vec![text("I will not")], StopReason::Refusal));
    let says = |rig: &mut Rig, said: &str| {
        answer(rig, Ok(reply(vec![text(said)], StopReason::EndTurn)));
    };
    let asked = |rig: &Rig| {
        let Standing::AwaitingPerson { asks } = rig.state.standing() else { panic!("goes on") };
        format!("{asks:?}")
    };
    let is_left_out =
        "the model refused: I will not (what you say next goes without the line that was refused)";
    let reload = |rig: &mut Rig| {
        let saved = rig.state.save();
        rig.state = State::load(&saved, registry()).unwrap();
    };
    let mut rig = chat(json!({}));
    says(&mut rig, "hello");
    told(&mut rig, "a bad thing");
    answer(&mut rig, refuses());
    assert!(asked(&rig).contains(is_left_out), "{}", asked(&rig));
    reload(&mut rig);
    told(&mut rig, "a worse thing");
    assert_eq!(sent(&rig), ["User: a goal", "Assistant: hello", "User: a worse thing"]);
    // With it goes what was done for its sake; the results of calls before it stay with their calls.
    let calls = || Ok(reply(vec![tool("u1", "read", json!({ "path": "a" }))], StopReason::ToolUse));
    answer(&mut rig, calls());
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    answer(&mut rig, refuses());
    rig.command(Command::Steer { text: "a good thing".to_owned() });
    let said = ["User: a goal", "Assistant: hello", "User: The operator says: a good thing"];
    assert_eq!(sent(&rig), said);
    says(&mut rig, "well");
    told(&mut rig, "more");
    assert_eq!(sent(&rig).len(), 5, "what was not refused stays");

    let mut rig = chat(json!({ "max_steps": 1 }));
    answer(&mut rig, calls());
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    told(&mut rig, "a bad thing");
    answer(&mut rig, refuses());
    told(&mut rig, "a good thing");
    assert_eq!(
        sent(&rig),
        ["User: a goal", "Assistant: use u1 read", "User: result u1 A", "User: a good thing"]
    );
    // A summary does not bring it back, and needs no answer.
    let mut rig = chat(json!({}));
    says(&mut rig, "hello");
    rig.command(Command::Steer { text: "a bad thing".to_owned() });
    answer(&mut rig, refuses());
    told(&mut rig, "/compact");
    says(&mut rig, "nothing yet");
    assert!(asked(&rig).contains("your turn"), "{}", asked(&rig));
    told(&mut rig, "a good thing");
    assert!(!sent(&rig).join(" ").contains("a bad thing"), "{:?}", sent(&rig));
    // Where what was refused stands further back, the next refusal reaches it.
    let mut rig = chat(json!({}));
    says(&mut rig, "hello");
    told(&mut rig, "a bad thing");
    answer(&mut rig, Ok(reply(vec![text("I beg")], StopReason::MaxTokens)));
    answer(&mut rig, refuses());
    told(&mut rig, "a good thing");
    assert!(sent(&rig).contains(&"User: a bad thing".to_owned()), "it was asked to go on since");
    answer(&mut rig, refuses());
    told(&mut rig, "another");
    assert_eq!(sent(&rig), ["User: a goal", "Assistant: hello", "User: another"]);
    // A provider that refuses before it answers says so as an error.
    let failure = ModelFailure {
        kind: "content_filter".to_owned(),
        retry: Retry::Never,
        message: "no".to_owned(),
        usage: Usage::default(),
    };
    answer(&mut rig, Err(failure));
    assert!(asked(&rig).contains("goes without"), "{}", asked(&rig));
    // The goal stays: without it nobody knows what the chat is for.
    let mut rig = chat(json!({}));
    answer(&mut rig, refuses());
    assert!(!asked(&rig).contains("goes without"), "{}", asked(&rig));
    told(&mut rig, "a good thing");
    assert_eq!(sent(&rig), ["User: a goal", "Assistant: I will not", "User: a good thing"]);
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
