//! Tools of drivetrain's own that a coding agent calls over its own pipe: the way of a call, and what becomes of it when
//! somebody says no, stops it, or is killed. The agent is a fake one; what the real program does is in `tests/agents`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::environment::TestEnvironment;

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s1","permissionMode":"default"}"#;
const SAYS: &str = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"done"}]},"session_id":"s1"}"#;
const ENDS: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1"}"#;

/// What the agent's calls need to be let pass.
const OPEN: &str = "[[rule]]\ntool = \"*\"\ndecide = \"allow\"\n";

/// A repository with a source file, and an agent that plays these steps after its first words and before its last ones.
fn place(policy: &str, steps: &[&str]) -> TestEnvironment {
    let place = TestEnvironment::new();
    let steps = [&[INIT], steps, &[SAYS, ENDS]].concat().join("\n");
    place.write("steps.txt", &steps);
    place.write("src/lib.rs", "/// Adds one.\npub fn add_one(n: u32) -> u32 {\n    n + 1\n}\n");
    place.write(".drivetrain/policy.toml", policy);
    place.write(
        ".drivetrain/agents/played.toml",
        &format!(
            "[agent]\nname = \"played\"\nprotocol = \"claude\"\nidle = \"60s\"\ncommand = [{:?}, \"fake\", \"agent\", \"steps.txt\"]\n",
            env!("CARGO_BIN_EXE_drivetrain")
        ),
    );
    place.git(&["init", "--quiet"]);
    place.commit_all("one");
    place.trust();
    place
}

const RUN: &[&str] = &["run", "look at it", "--agent", "played", "--no-sandbox"];

/// What the agent noted of the answers that it was given.
fn called(place: &TestEnvironment) -> String {
    let worktree: PathBuf = place.home().join("worktrees").join(place.id());
    std::fs::read_to_string(worktree.join("called.txt")).unwrap_or_default()
}

fn of_kind(place: &TestEnvironment, kind: &str) -> Vec<Value> {
    let events = place.events(&place.id()).into_iter();
    events.filter(|event| event["type"] == kind).collect()
}

#[test]
fn a_call_is_judged_journaled_performed_and_answered() {
    let place = place(
        OPEN,
        &[
            r#"call view {"symbol":"add_one"}"#,
            r#"call skeleton {"path":"src"}"#,
            r#"call memory {"action":"write","name":"seen","text":"there is add_one"}"#,
            r#"call memory {"action":"read","name":"seen"}"#,
        ],
    );
    let ran = place.run(RUN);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let answers = called(&place);
    assert!(answers.contains("n + 1"), "{answers}");
    assert!(answers.contains("memory: there is add_one"), "{answers}");
    let started = of_kind(&place, "tool_started");
    let tools: Vec<&str> = started.iter().filter_map(|event| event["tool"].as_str()).collect();
    assert_eq!(tools, ["view", "skeleton", "memory", "memory"]);
    assert_eq!(of_kind(&place, "call_judged").len(), 4);
    let ended = of_kind(&place, "tool_ended");
    assert!(ended.iter().all(|event| event["result"]["status"] == "ok"), "{ended:?}");
    assert_eq!(ended[0]["tool_use"], "toolu-1", "what the model calls it");
    // The request stands in the journal before what came of it.
    let journal = place.ok(&["journal", "export", &place.id()]);
    let asked = journal.find("\"calls\"").unwrap_or_else(|| panic!("{journal}"));
    let result = journal.find("n + 1").unwrap_or_else(|| panic!("{journal}"));
    assert!(asked < result);
    assert_eq!(place.show(&place.id())["spend"]["tool_calls"], 4);
}

#[test]
fn calls_at_once_each_have_their_answer() {
    let begins = [
        r#"begin call view {"symbol":"add_one"}"#,
        r#"begin call view {"symbol":"nothing_like_it"}"#,
        r#"begin call skeleton {"path":"src/lib.rs"}"#,
        r#"begin call memory {"action":"list"}"#,
        "await calls",
    ];
    let place = place(OPEN, &begins);
    let ran = place.run(RUN);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let answers = called(&place);
    for tool in ["view: ", "skeleton: ", "memory: "] {
        assert!(answers.contains(tool), "{answers}");
    }
    assert_eq!(of_kind(&place, "tool_ended").len(), 4);
}

#[test]
fn what_is_denied_unknown_or_malformed_is_answered_with_the_reason_and_nothing_is_done() {
    let policy = "[[rule]]\ntool = \"memory\"\ndecide = \"deny\"\nreason = \"no notes here\"\n";
    let place = place(
        policy,
        &[
            r#"call memory {"action":"write","name":"n","text":"x"}"#,
            r#"call shell {"command":"touch made.txt"}"#,
            r#"call view {"name":"x"}"#,
            r#"call validator_run {}"#,
            r#"call view [1]"#,
        ],
    );
    let ran = place.run(RUN);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let answers = called(&place);
    let lines: Vec<&str> = answers.lines().collect();
    assert!(lines[0].contains("no notes here"), "{answers}");
    assert!(lines[1].contains("no tool is called \"shell\""), "{answers}");
    assert!(answers.contains("has no parameter \"name\""), "{answers}");
    assert!(answers.contains("validator_run: "), "{answers}");
    assert!(answers.contains("expected a table as arguments"), "{answers}");
    let ended = of_kind(&place, "tool_ended");
    assert!(ended.iter().all(|event| event["result"]["status"] != "ok"), "{ended:?}");
    assert_eq!(place.show(&place.id())["spend"]["tool_calls"], 0);
}

/// The project's checks take long: there is something in the middle.
fn slow() -> TestEnvironment {
    let place = place(
        OPEN,
        &["call validator_run {}", SAYS, ENDS, "next prompt", INIT, SAYS, ENDS, "resumed", INIT],
    );
    place.write(
        ".drivetrain/validators.toml",
        "[[check]]\nname = \"slow\"\ncommand = \"echo once >> ran.txt; touch begun; sleep 300\"\n",
    );
    place.commit_all("checks");
    place.trust();
    place
}

fn worktree_has(place: &TestEnvironment, id: &str, file: &str) -> bool {
    place.home().join("worktrees").join(id).join(file).exists()
}

#[test]
fn an_interrupt_stops_a_call_and_the_agent_goes_on_with_the_note() {
    let place = slow();
    let task = place.start(RUN);
    place.until(|| worktree_has(&place, &task.id, "begun").then_some(()));
    let begun = Instant::now();
    place.ok(&["interrupt", &task.id, "leave that"]);
    let ran = task.wait();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ended = of_kind(&place, "tool_ended");
    assert_eq!(ended[0]["result"]["status"], "aborted", "{ended:?}");
}

#[test]
fn killed_in_the_middle_a_call_is_in_doubt_and_made_once() {
    let place = slow();
    let task = place.start(RUN);
    place.until(|| worktree_has(&place, &task.id, "begun").then_some(()));
    let id = task.id.clone();
    task.signal("KILL");
    task.wait();
    let ran = place.run(&["resume", &id]);
    assert_eq!(ran.code, 13, "it waits for a person: {}{}", ran.out, ran.err);
    place.ok(&["resolve", &id, "c1", "--did-not"]);
    let ran = place.run(&["resume", &id]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let made = place.home().join("worktrees").join(&id).join("ran.txt");
    assert_eq!(std::fs::read_to_string(made).unwrap(), "once\n");
}

#[test]
fn a_message_that_is_none_is_answered_and_the_turn_goes_on() {
    let message = r#"{"type":"control_request","request_id":"odd","request":{"subtype":"mcp_message","server_name":"drivetrain","message":[7]}}"#;
    let call = r#"{"type":"control_request","request_id":"odd2","request":{"subtype":"mcp_message","server_name":"drivetrain","message":{"jsonrpc":"2.0","method":"tools/call","params":{"name":"view"}}}}"#;
    let place = place(OPEN, &[message, call, r#"call view {"symbol":"add_one"}"#]);
    let ran = place.run(RUN);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(of_kind(&place, "tool_started").len(), 1);
    assert!(called(&place).contains("n + 1"), "{}", called(&place));
}
