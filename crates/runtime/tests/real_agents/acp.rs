//! An agent of the Agent Client Protocol, scenario by scenario: Claude Code behind the adapter of Zed.

use std::time::{Duration, Instant};

use machine::agent::{
    AgentEnd, AgentEvent, AgentMeans, AgentOrder, AgentProgram, AgentSupport, GateDepth,
};
use machine::stream::StreamEvent;
use wire::agent::Session;

use crate::program::{Place, call, named, says, talks};

/// As a file below `.drivetrain/agents` would say it.
fn agent(script: &[String]) -> Place {
    let mut program = AgentProgram::built_in("opencode").unwrap();
    program.name = "zed-claude".to_owned();
    program.model = None;
    program.command = named("DRIVETRAIN_ACP");
    let quiet = [
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "2"),
        ("DISABLE_AUTOUPDATER", "1"),
    ];
    program.env = quiet.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Place::new(program, &script.concat())
}

#[test]
#[ignore = "needs an agent of the protocol: scripts/agents"]
fn an_edit_end_to_end_with_what_it_asks_about_approved() {
    let place = agent(&[
        call("Read", r#"{ file_path = "hello.txt" }"#),
        call(
            "Edit",
            r#"{ file_path = "hello.txt", old_string = "hello world", new_string = "hello driver" }"#,
        ),
        call("Bash", r#"{ command = "touch made.txt", description = "make" }"#),
        says("All done."),
    ]);
    let mut agent = place.begin();
    let AgentEvent::Ready(facts) = agent.events[0].clone() else { panic!("{}", agent.story()) };
    assert_eq!((facts.support, facts.can.gate), (AgentSupport::Tested, GateDepth::Protocol));
    assert_eq!(facts.modes[0], "default");
    let turn = agent.turn("please edit");
    assert_eq!(
        (&turn.end, turn.text.as_str()),
        (&AgentEnd::Done, "All done."),
        "{}",
        agent.story()
    );
    assert_eq!(place.read("hello.txt").unwrap(), "hello driver\nsecond line\n");
    assert!(place.read("made.txt").is_some());
    let asked: Vec<AgentMeans> = agent.asked.iter().map(|ask| ask.means.clone()).collect();
    let edit = AgentMeans::Write(vec![place.work("hello.txt")]);
    assert_eq!(asked, [edit, AgentMeans::Command("touch made.txt".to_owned())]);
    let (input, output, dollars) = agent.spent();
    assert_eq!((input, output), (400, 80), "{}", agent.story());
    assert!(dollars > 0.0, "{dollars}");
    let strange = |event: &&AgentEvent| {
        matches!(event, AgentEvent::Unknown { .. } | AgentEvent::Malformed { .. })
    };
    assert_eq!(agent.events.iter().find(strange), None);
}

#[test]
#[ignore = "needs an agent of the protocol: scripts/agents"]
fn a_mode_that_is_named_is_set_and_one_that_is_not_there_is_refused() {
    let mut place = agent(&[says("planned")]);
    place.program.mode = Some("plan".to_owned());
    let mut planning = place.begin();
    let AgentEvent::Ready(facts) = planning.events[0].clone() else {
        panic!("{}", planning.story())
    };
    assert_eq!(facts.modes[0], "plan");
    assert_eq!(planning.turn("plan it").text, "planned", "{}", planning.story());
    place.program.mode = Some("no-such-mode".to_owned());
    let mut refused = place.spawn(Session::New("x"));
    let turn = refused.turn_end();
    assert!(turn.text.contains("no mode \"no-such-mode\""), "{}", turn.text);
}

#[test]
#[ignore = "needs an agent of the protocol: scripts/agents"]
fn an_answer_is_cancelled_in_the_middle_and_what_comes_next_is_not_taken_for_work() {
    let place = agent(&[talks(), says("and on"), says("and on again")]);
    let mut agent = place.begin();
    agent.prompt("talk");
    agent.until("text", |event| matches!(event, AgentEvent::Stream(StreamEvent::TextDelta { .. })));
    let begun = Instant::now();
    agent.order(AgentOrder::Interrupt);
    assert_eq!(agent.turn_end().end, AgentEnd::Interrupted, "{}", agent.story());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    // This version may answer with the end of what was cancelled. Then it is said that nothing was done, and the same
    // may be asked again.
    let turn = agent.turn("go on");
    match turn.end {
        AgentEnd::Done => assert!(turn.text.starts_with("and on")),
        AgentEnd::Model { kind, again: true, .. } => assert_eq!(kind, "empty_completion"),
        other => panic!("{other:?}: {}", agent.story()),
    }
    let turn = agent.turn("once more");
    assert_eq!(turn.end, AgentEnd::Done, "{}", agent.story());
    assert!(turn.text.starts_with("and on"), "{}", agent.story());
}

#[test]
#[ignore = "needs an agent of the protocol: scripts/agents"]
fn a_question_is_withdrawn_when_its_turn_is_cancelled() {
    let place =
        agent(&[call("Write", r#"{ file_path = "made.txt", content = "x" }"#), says("never")]);
    let mut agent = place.begin();
    agent.answer = Box::new(|_| None);
    agent.prompt("write it");
    agent.until("question", |event| matches!(event, AgentEvent::Asks(_)));
    agent.order(AgentOrder::Interrupt);
    agent.until("withdrawal", |event| matches!(event, AgentEvent::Withdrawn { .. }));
    assert_eq!(agent.turn_end().end, AgentEnd::Interrupted, "{}", agent.story());
    assert_eq!(place.read("made.txt"), None);
}

#[test]
#[ignore = "needs an agent of the protocol: scripts/agents"]
fn failures_of_the_model_are_never_a_turn_that_is_done() {
    for reply in [
        "status = 429\nrepeat = 40",
        "status = 500\nrepeat = 40",
        "status = 401\nrepeat = 40",
        "error = \"context_overflow\"\nrepeat = 40",
    ] {
        let place = agent(&[format!("[[reply]]\n{reply}\n")]);
        let mut agent = place.begin();
        let turn = agent.turn("say something");
        assert_ne!(turn.end, AgentEnd::Done, "{reply}: {}", agent.story());
        assert!(!turn.text.is_empty(), "{reply}");
    }
}

#[test]
#[ignore = "needs an agent of the protocol: scripts/agents"]
fn a_conversation_that_is_not_there_is_told_and_a_fresh_one_works() {
    let place = agent(&[says("fresh")]);
    let mut lost = place.spawn(Session::Resume("00000000-0000-4000-8000-00000000dead"));
    let turn = lost.turn_end();
    assert_eq!(turn.end, AgentEnd::NoSession, "{}", lost.story());
    let mut agent = place.begin();
    assert_eq!(agent.turn("hello").text, "fresh", "{}", agent.story());
}
