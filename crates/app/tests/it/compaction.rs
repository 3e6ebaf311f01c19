//! The conversation of whoever works is made shorter on demand, from another process. The agent is a fake one, whose script
//! lies outside of the workspace.

use serde_json::Value;

use crate::environment::TestEnvironment;

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s1","permissionMode":"default"}"#;
const SAYS: &str = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"done"}]},"session_id":"s1"}"#;
const ENDS: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1"}"#;
/// The summary, and the end of the order.
const SHORTER: &str = r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"manual","pre_tokens":900,"post_tokens":90},"session_id":"s1"}"#;
const ORDER_ENDS: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"s1"}"#;
/// The end of an order that came to nothing.
const NOTHING: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"Not enough messages to compact.","session_id":"s1"}"#;

/// An agent whose first turn lasts until there is a file `go`, and does not pass the check. Then it is told to make its
/// conversation shorter, plays these steps, and does what passes.
fn place(order: &[&str]) -> TestEnvironment {
    let first = [
        INIT,
        "note prompt",
        "run touch begun; while ! test -e go; do sleep 0.05; done",
        SAYS,
        ENDS,
        "resumed",
        "note prompt",
        INIT,
    ];
    let second = ["next prompt", "note prompt", INIT, "run touch passes", SAYS, ENDS];
    TestEnvironment::with_played_agent(&[&first[..], order, &second[..]].concat())
}

/// Runs the task, and has its conversation made shorter in the middle of the first turn. What the agent was asked, in order.
fn compacted(place: &TestEnvironment) -> Vec<String> {
    let check = ["--check", "test -e passes", "--max-turns", "6"];
    let ask = ["run", "do it", "--agent", "played", "--no-sandbox", "--unattended"];
    let task = place.start(&[&ask[..], &check].concat());
    let worktree = place.home().join("worktrees").join(&task.id);
    place.until(|| worktree.join("begun").exists().then_some(()));
    let told = place.ok(&["compact", &task.id, "the names\nof files"]);
    assert!(told.contains("has its conversation made shorter before its next turn"), "{told}");
    assert!(told.contains("played is told to when this turn has ended"), "{told}");
    std::fs::write(worktree.join("go"), "").unwrap();
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let heard = std::fs::read_to_string(worktree.join("heard.jsonl")).unwrap();
    heard.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind(place: &TestEnvironment, kind: &str) -> Vec<Value> {
    let events = place.events(&place.id()).into_iter();
    events.filter(|event| event["type"] == kind).collect()
}

#[test]
fn an_agent_at_work_makes_its_conversation_shorter_before_it_is_asked_again() {
    let place = place(&[SHORTER, ORDER_ENDS]);
    let heard = compacted(&place);
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert!(heard[0].starts_with("do it"), "{heard:?}");
    assert_eq!(heard[1], "/compact the names of files");
    assert!(heard[2].starts_with("The work was not accepted."), "{heard:?}");
    assert_eq!(of_kind(&place, "compaction_asked")[0]["focus"], "the names\nof files");
    let shorter = of_kind(&place, "agent_compacted");
    assert_eq!(shorter.len(), 1, "{shorter:?}");
    assert_eq!((&shorter[0]["before"], &shorter[0]["after"]), (&900.into(), &90.into()));
    assert_eq!(of_kind(&place, "agent_asked").len(), 2, "the order is part of the turn after it");
    let log = place.ok(&["log", &place.id()]);
    assert!(log.contains("from here on, from 900 tokens to 90 tokens"), "{log}");
}

#[test]
fn an_agent_that_could_not_make_its_conversation_shorter_says_so_and_works_on() {
    let place = place(&[NOTHING]);
    let heard = compacted(&place);
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert_eq!(of_kind(&place, "agent_compacted").len(), 0);
    let failed = of_kind(&place, "order_failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0]["order"], "compact");
    assert_eq!(failed[0]["reason"], "Not enough messages to compact.");
}

#[test]
fn a_task_without_a_conversation_refuses_to_make_it_shorter() {
    let place = place(&[]);
    let ran = place.run_with(&["run", "g", "--driver", "user", "--no-sandbox"], "say one\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let ran = place.run(&["compact", &place.id()]);
    let said = "no model and no agent works now whose conversation could be made shorter";
    assert!(ran.code != 0 && ran.err.contains(said), "{} {}", ran.code, ran.err);
}

#[test]
fn a_model_at_rest_sums_up_before_it_is_asked_again() {
    let place = TestEnvironment::new();
    let script = "[[reply]]\ntool_calls = [{ tool = \"ask\", input = { question = \"Which?\" } }]\n\
                  [[reply]]\ntext = \"the names are a and b\"\n[[reply]]\ntext = \"done\"\n";
    place.write("replies.toml", script);
    let ask = ["run", "g", "--model", "script/replies.toml", "--no-sandbox", "--unattended"];
    assert_eq!(place.run(&ask).code, 13);
    let id = place.id();
    let told: Value = serde_json::from_str(&place.ok(&["compact", &id, "--json"])).unwrap();
    assert_eq!((&told["command"], &told["ok"]), (&"compact".into(), &true.into()));
    place.ok(&["answer", &id, "both"]);
    let ran = place.run(&["resume", &id, "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(of_kind(&place, "compacted").len(), 1);
}
