//! Codex, scenario by scenario.

use std::time::{Duration, Instant};

use machine::agent::{
    AgentEnd, AgentEvent, AgentMeans, AgentOrder, AgentProgram, AgentSupport, GateDepth,
};
use machine::stream::StreamEvent;
use wire::agent::Session;

use crate::program::{Driven, Place, call, named, says, talks};

/// How a patch reaches Codex when its model has no tool for patches.
const PATCH: &str = r#"{ cmd = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: hello.txt
@@
-hello world
+hello driver
 second line
*** End Patch
EOF""" }"#;

fn codex(script: &[String]) -> Place {
    let mut program = AgentProgram::built_in("codex").unwrap();
    program.command = named("DRIVETRAIN_CODEX");
    program.model = Some("scripted-1".to_owned());
    Place::new(program, &script.concat())
}

fn means(agent: &Driven) -> Vec<AgentMeans> {
    agent.asked.iter().map(|ask| ask.means.clone()).collect()
}

#[test]
#[ignore = "needs Codex: scripts/agents"]
fn an_edit_end_to_end_with_what_is_not_only_reading_asked_about() {
    let place = codex(&[
        call("exec_command", r#"{ cmd = "cat hello.txt" }"#),
        call("exec_command", PATCH),
        call("exec_command", r#"{ cmd = "touch made.txt; git status --short" }"#),
        says("All done."),
    ]);
    let mut agent = place.begin();
    let AgentEvent::Ready(facts) = agent.events[0].clone() else { panic!("{}", agent.story()) };
    assert_eq!((facts.support, facts.can.gate), (AgentSupport::Tested, GateDepth::Ask));
    let turn = agent.turn("please edit");
    assert_eq!(
        (&turn.end, turn.text.as_str()),
        (&AgentEnd::Done, "All done."),
        "{}",
        agent.story()
    );
    assert_eq!(place.read("hello.txt").unwrap(), "hello driver\nsecond line\n");
    assert!(place.read("made.txt").is_some(), "{}", agent.story());
    let touch = AgentMeans::Command("touch made.txt; git status --short".to_owned());
    let asked = means(&agent);
    assert!(asked.contains(&AgentMeans::Write(vec![place.work("hello.txt")])), "{asked:?}");
    assert!(asked.contains(&touch), "{asked:?}");
    assert_eq!(agent.spent(), (400, 80, 0.0));
    assert!(agent.text().ends_with("All done."));
    let strange = |event: &&AgentEvent| {
        matches!(event, AgentEvent::Unknown { .. } | AgentEvent::Malformed { .. })
    };
    assert_eq!(agent.events.iter().find(strange), None);
}

#[test]
#[ignore = "needs Codex: scripts/agents"]
fn what_is_denied_is_not_done_and_the_turn_goes_on() {
    let place = codex(&[
        call("exec_command", PATCH),
        call("exec_command", r#"{ cmd = "touch made.txt" }"#),
        says("I could not."),
    ]);
    let mut agent = place.begin();
    agent.answer = Box::new(|_| Some(Err("nothing is touched here".to_owned())));
    let turn = agent.turn("edit it");
    assert_eq!((&turn.end, turn.refused), (&AgentEnd::Done, 2), "{}", agent.story());
    assert_eq!(turn.text, "I could not.");
    assert_eq!(place.read("hello.txt").unwrap(), "hello world\nsecond line\n");
    assert_eq!(place.read("made.txt"), None);
    assert!(place.requests()[1]["body"].to_string().contains("reject"));
}

#[test]
#[ignore = "needs Codex: scripts/agents"]
fn in_every_mode_what_is_in_force_is_what_was_asked_for() {
    for mode in ["untrusted/read-only", "untrusted/workspace-write", "on-request/workspace-write"] {
        let mut place =
            codex(&[call("exec_command", r#"{ cmd = "touch made.txt" }"#), says("tried")]);
        place.program.mode = Some(mode.to_owned());
        let mut agent = place.begin();
        let AgentEvent::Ready(facts) = agent.events[0].clone() else { panic!("{}", agent.story()) };
        assert_eq!(facts.modes, [mode]);
        assert_eq!(agent.turn("touch it").end, AgentEnd::Done, "{mode}: {}", agent.story());
        // What was approved in a mode that is closed it may do outside of its own sandbox, or not: the walls must be ours.
        if mode.ends_with("write") {
            assert!(place.read("made.txt").is_some(), "{mode}: {}", agent.story());
        }
    }
}

#[test]
#[ignore = "needs Codex: scripts/agents"]
fn an_answer_is_interrupted_in_the_middle_and_the_conversation_goes_on() {
    let place = codex(&[talks(), says("and on")]);
    let mut agent = place.begin();
    agent.prompt("talk");
    agent.until("text", |event| matches!(event, AgentEvent::Stream(StreamEvent::TextDelta { .. })));
    let begun = Instant::now();
    agent.order(AgentOrder::Interrupt);
    assert_eq!(agent.turn_end().end, AgentEnd::Interrupted, "{}", agent.story());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let turn = agent.turn("go on");
    assert_eq!((turn.end, turn.text.as_str()), (AgentEnd::Done, "and on"));
}

#[test]
#[ignore = "needs Codex: scripts/agents"]
fn a_tool_is_interrupted_in_the_middle_and_a_question_is_withdrawn() {
    let place = codex(&[
        call("exec_command", r#"{ cmd = "touch begun.txt; sleep 5; touch late.txt" }"#),
        call("exec_command", r#"{ cmd = "touch asked.txt" }"#),
        says("and on"),
    ]);
    let mut agent = place.begin();
    agent.prompt("run it");
    agent.until("question", |event| matches!(event, AgentEvent::Asks(_)));
    place.await_file("begun.txt", &agent);
    agent.order(AgentOrder::Interrupt);
    assert_eq!(agent.turn_end().end, AgentEnd::Interrupted, "{}", agent.story());
    agent.answer = Box::new(|_| None);
    agent.prompt("another");
    agent.until("question", |event| matches!(event, AgentEvent::Asks(_)));
    agent.order(AgentOrder::Interrupt);
    agent.until("withdrawal", |event| matches!(event, AgentEvent::Withdrawn { .. }));
    assert_eq!(agent.turn_end().end, AgentEnd::Interrupted);
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!((place.read("late.txt"), place.read("asked.txt")), (None, None));
}

#[test]
#[ignore = "needs Codex: scripts/agents"]
fn every_failure_of_the_model_has_its_end() {
    let model = |kind: &str, status, again| AgentEnd::Model {
        kind: kind.to_owned(),
        status,
        again,
        after: None,
    };
    for (reply, wanted) in [
        ("status = 429\nrepeat = 40", model("rate_limited", Some(429), true)),
        ("status = 500\nrepeat = 40", model("server", None, true)),
        ("status = 503\nrepeat = 40", model("overloaded", None, true)),
        ("status = 401\nrepeat = 40", model("auth", Some(401), false)),
        ("error = \"context_overflow\"\nrepeat = 40", AgentEnd::ContextOverflow),
        (
            "text = \"never whole\"\ncut_after_bytes = 300\nrepeat = 40",
            model("stream_truncated", None, true),
        ),
    ] {
        let place = codex(&[format!("[[reply]]\n{reply}\n")]);
        let mut agent = place.begin();
        let turn = agent.turn("say something");
        assert_eq!(turn.end, wanted, "{reply}: {}", agent.story());
        assert!(!turn.text.is_empty());
    }
}

#[test]
#[ignore = "needs Codex: scripts/agents"]
fn killed_in_the_middle_of_a_tool_it_is_resumed_by_its_id_and_costs_are_counted_once() {
    let place = codex(&[
        says("first"),
        call("exec_command", r#"{ cmd = "touch begun.txt; sleep 60; touch late.txt" }"#),
        says("resumed"),
    ]);
    let mut agent = place.begin();
    assert_eq!(agent.turn("remember me").end, AgentEnd::Done);
    assert_eq!(agent.spent(), (100, 20, 0.0));
    agent.prompt("run it");
    agent.until("question", |event| matches!(event, AgentEvent::Asks(_)));
    place.await_file("begun.txt", &agent);
    let id = agent.session();
    agent.kill();
    let mut agent = place.resume(&id);
    assert_eq!(agent.session(), id);
    let turn = agent.turn("go on");
    assert_eq!((turn.end, turn.text.as_str()), (AgentEnd::Done, "resumed"), "{}", agent.story());
    assert_eq!(agent.spent(), (100, 20, 0.0), "{}", agent.story());
    assert!(place.requests().last().unwrap()["body"].to_string().contains("remember me"));
    assert_eq!(place.read("late.txt"), None);
}

#[test]
#[ignore = "needs Codex: scripts/agents"]
fn a_conversation_that_is_not_there_is_told_and_a_fresh_one_works() {
    let place = codex(&[says("fresh")]);
    let mut lost = place.spawn(Session::Resume("00000000-0000-7000-8000-00000000dead"));
    let turn = lost.turn_end();
    assert_eq!(turn.end, AgentEnd::NoSession, "{}", lost.story());
    let mut agent = place.begin();
    assert_eq!(agent.turn("hello").text, "fresh");
}

#[test]
#[ignore = "needs Codex: scripts/agents"]
fn a_conversation_is_made_shorter_and_another_model_is_asked() {
    let place = codex(&[says("one"), says("a summary"), says("two")]);
    let mut agent = place.begin();
    assert_eq!(agent.turn("remember me").end, AgentEnd::Done);
    agent.order(AgentOrder::Compact { focus: String::new() });
    agent.until("summary", |event| matches!(event, AgentEvent::Compacted { .. }));
    assert_eq!(agent.turn_end().end, AgentEnd::Done);
    agent.order(AgentOrder::SetModel { model: "scripted-2".to_owned() });
    assert_eq!(agent.turn("go on").text, "two", "{}", agent.story());
    assert_eq!(place.requests().last().unwrap()["body"]["model"], "scripted-2");
}
