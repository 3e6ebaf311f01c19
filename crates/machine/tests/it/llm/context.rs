//! A conversation that grows too long for its model.

use machine::id::EffectId;
use machine::input::{Command, Signal};
use machine::message::{ModelFailure, Reply, Retry, StopReason, Usage};
use machine::state::Standing;
use machine::task::{Outcome, TaskSpec};
use machine::tool::ToolResult;
use serde_json::json;

use super::{call, chat, fail_check, failed, reply, sent, told, usage};
use crate::model::{answer, task, text, tool};
use crate::rig::{Rig, check_of};

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
    fail_check(&mut rig);
    step(&mut rig, 900, "C");
    answer(&mut rig, Ok(reply(vec![text("second")], StopReason::EndTurn)));
    assert!(sent(&rig)[0].contains("3 tests failed"), "{:?}", sent(&rig));
}

#[test]
fn a_long_note_does_not_cost_the_others() {
    let mut rig = Rig::started(with_context(1000));
    rig.command(Command::Steer { text: "never touch b".to_owned() });
    let log = format!("it prints {} and stops there", "x".repeat(30_000));
    rig.command(Command::Interrupt { note: log });
    step(&mut rig, 900, "A");
    answer(&mut rig, Ok(reply(vec![text("a says A")], StopReason::EndTurn)));
    let now = sent(&rig);
    for kept in ["- never touch b", "- it prints x", "x and stops there"] {
        assert!(now[0].contains(kept), "{kept}: {}", now[0].len());
    }
    assert!(now[0].len() < 10_000, "{}", now[0].len());
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
fn what_a_person_said_last_is_asked_again_however_short_the_conversation_must_be() {
    let mut rig = chat(json!({}));
    rig.command(Command::Interrupt { note: "never touch b".to_owned() });
    answer(&mut rig, Ok(reply(vec![text("hello")], StopReason::EndTurn)));
    told(&mut rig, &format!("and now list the files {} of that kind", "x".repeat(50_000)));
    for _ in 0..3 {
        answer(&mut rig, overflow());
    }
    let asked = sent(&rig);
    assert_eq!(asked.len(), 1, "{}", asked.len());
    for kept in ["a goal", "- never touch b", "and now list the files xx", "xx of that kind"] {
        assert!(asked[0].contains(kept), "{kept}: {}", asked[0]);
    }
    assert!(asked[0].len() < 5000, "{}", asked[0].len());
    assert_eq!(asked[0].matches("never touch b").count(), 1, "{}", asked[0]);
}

#[test]
fn a_short_line_that_stands_in_other_words_by_chance_is_asked_again_too() {
    let mut rig = chat(json!({}));
    rig.command(Command::Interrupt { note: "b".to_owned() });
    answer(&mut rig, Ok(reply(vec![text("hello")], StopReason::EndTurn)));
    for line in ["go", "list all of a and b"] {
        told(&mut rig, line);
        for _ in 0..3 {
            answer(&mut rig, overflow());
        }
        let asked = sent(&rig);
        assert!(
            asked[0].ends_with(&format!("What was said to you last:\n\n{line}")),
            "{}",
            asked[0]
        );
        answer(&mut rig, Ok(reply(vec![text("done")], StopReason::EndTurn)));
    }
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

#[test]
fn a_conversation_that_somebody_wants_shorter_is_summed_up_before_the_next_question() {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(with_context(1000))));
    rig.command(Command::Compact { focus: "the names".to_owned() });
    let said = rig.last.rejected.clone().unwrap_or_default();
    assert_eq!(said, "the conversation with the model has not begun");
    rig.attach(false);
    rig.open_workspace();
    // While the question is under way: it is not another one for that.
    let asked = compact_while_asked(&mut rig);
    let looks = reply(vec![tool("u1", "read", json!({ "path": "a" }))], StopReason::ToolUse);
    rig.input(Signal::ModelReplied(asked, Box::new(Ok(looks))).into());
    let read = rig.effect("run_tool").0;
    rig.ended(read, ToolResult::ok("A"));
    let asked = sent(&rig);
    assert!(asked.last().unwrap().ends_with("Above all keep: the names"), "{asked:?}");
    answer(&mut rig, Ok(reply(vec![text("a says A")], StopReason::EndTurn)));
    assert!(rig.told().contains("model_replied, compacted"), "{}", rig.told());
    assert!(sent(&rig)[0].contains("a says A"), "{:?}", sent(&rig));
    // A claim is no question: it is checked first.
    let asked = compact_while_asked(&mut rig);
    let claims = reply(vec![text("done")], StopReason::EndTurn);
    rig.input(Signal::ModelReplied(asked, Box::new(Ok(claims))).into());
    fail_check(&mut rig);
    let asked = sent(&rig);
    assert!(asked.last().unwrap().ends_with("Above all keep: the names"), "{asked:?}");
}

/// Somebody wants the conversation shorter while this question is under way.
fn compact_while_asked(rig: &mut Rig) -> EffectId {
    let asked = rig.effect("call_model");
    rig.command(Command::Compact { focus: "the names".to_owned() });
    assert_eq!(rig.told(), "[] compaction_asked");
    asked
}

#[test]
fn a_conversation_of_a_model_at_rest_is_summed_up_before_its_question_is_asked_again() {
    let mut rig = Rig::started(with_context(1000));
    step(&mut rig, 100, "A");
    let length = sent(&rig).len();
    rig.input(Signal::OwnerLost.into());
    rig.command(Command::Compact { focus: "the names".to_owned() }).attach(false);
    let asked = sent(&rig);
    assert!(asked.last().unwrap().ends_with("Above all keep: the names"), "{asked:?}");
    assert_eq!(asked.len(), length + 1, "the same, and the request");
}
