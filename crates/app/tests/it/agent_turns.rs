//! What a turn of a coding agent leaves in its workspace, and how often one that leads nowhere is repeated. The agent is a
//! fake one, whose script lies outside of the workspace.

use std::path::PathBuf;

use serde_json::Value;

use crate::environment::TestEnvironment;

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s1","permissionMode":"default"}"#;
const SAYS: &str = r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"done"}]},"session_id":"s1"}"#;
const ENDS: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1"}"#;

/// A repository with one file that anybody sees, and an agent that plays these steps in each turn and says that it is done.
fn place(steps: &[&str]) -> TestEnvironment {
    TestEnvironment::with_played_agent(&[&[INIT], steps, &[SAYS, ENDS]].concat())
}

const RUN: &[&str] =
    &["run", "do it", "--agent", "played", "--no-sandbox", "--unattended", "--max-turns", "6"];

fn worktree(place: &TestEnvironment) -> PathBuf {
    place.home().join("worktrees").join(place.id())
}

fn of_kind(place: &TestEnvironment, kind: &str) -> Vec<Value> {
    let events = place.events(&place.id()).into_iter();
    events.filter(|event| event["type"] == kind).collect()
}

#[test]
fn files_that_are_all_moved_are_work_and_no_workspace_that_is_gone() {
    for folder in ["src", ".github"] {
        let place = place(&[&format!("run mkdir {folder} && mv main.py {folder}/main.py")]);
        let ran = place.run(RUN);
        assert_eq!(ran.code, 0, "{folder}: {}{}", ran.out, ran.err);
        let ended = of_kind(&place, "agent_ended");
        assert_eq!((ended.len(), &ended[0]["end"]), (1, &"done".into()), "{ended:?}");
        assert!(worktree(&place).join(folder).join("main.py").exists(), "{folder}");
    }
}

#[test]
fn a_workspace_that_is_emptied_again_and_again_is_put_back_and_the_third_time_ends_it() {
    let place = place(&["rm -rf worktree"]);
    let ran = place.run(RUN);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    let ended = of_kind(&place, "agent_ended");
    assert_eq!(ended.len(), 3, "{ended:?}");
    assert!(ended.iter().all(|event| event["end"]["broken"] == "workspace"), "{ended:?}");
    assert_eq!(of_kind(&place, "rolled_back").len(), 3);
    assert!(worktree(&place).join("main.py").exists(), "its files are back");
    let why = place.ok(&["why", &place.id()]);
    assert!(why.contains("played broke off (workspace) 3 times in a row"), "{why}");
}

#[test]
fn an_agent_that_is_held_more_strictly_is_told_of_once_in_the_run_and_in_the_log() {
    let place = place(&["run touch made.py"]);
    let check = ["--check", "test -e made.py && test -e never.py"];
    let ran = place.run(&[RUN, &check].concat());
    assert!(of_kind(&place, "agent_ended").len() > 1, "{}{}", ran.out, ran.err);
    let line = "played 2.1.112: a tool runs if the hook before it fails, so every call is asked about a second time";
    assert_eq!(ran.out.matches(line).count(), 1, "{}", ran.out);
    let met = of_kind(&place, "agent_met");
    assert_eq!(met.len(), 1, "each of its processes says so, and the log once");
    assert_eq!((&met[0]["agent"], &met[0]["version"]), (&"played".into(), &"2.1.112".into()));
    assert!(place.ok(&["log", &place.id()]).contains(line));
}

#[test]
fn a_fork_has_a_mark_of_the_operator_that_no_file_of_the_old_task_can_hold() {
    let place = place(&["run touch made.py"]);
    assert_eq!(place.run(&[RUN, &["--check", "test -e made.py"]].concat()).code, 0);
    let old = place.id();
    let ran = place.run(&["fork", &old, "--at", "2", "--goal", "again", "--unattended"]);
    let tasks = place.tasks();
    let new = tasks.iter().find(|task| task["goal"] == "again");
    let new = new.unwrap_or_else(|| panic!("{}{}", ran.out, ran.err))["id"].as_str().unwrap();
    let mark = |id: &str| {
        let records = place.ok(&["journal", "export", id]);
        let (_, rest) = records.split_once("\"operator\":\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    assert_ne!(mark(&old), mark(new));
}

#[test]
fn a_conversation_that_is_too_long_however_often_it_begins_ends_the_attempt() {
    let long = r#"{"type":"result","subtype":"success","is_error":true,"result":"Prompt is too long","terminal_reason":"prompt_too_long","session_id":"s1"}"#;
    let again = ["next prompt", INIT, long];
    let too_long = [&[long][..], &again, &again, &["next prompt", INIT]].concat();
    let place = place(&too_long);
    let ran = place.run(RUN);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    assert_eq!(of_kind(&place, "agent_ended").len(), 3);
    assert!(ran.out.contains("became too long 3 times in a row"), "{}", ran.out);
}

#[test]
fn messages_that_nobody_knows_are_named_at_the_end_of_the_turn() {
    let strange = r#"{"type":"weather","session_id":"s1"}"#;
    let place = place(&[strange, strange, r#"{"type":"mood","session_id":"s1"}"#]);
    let ran = place.run(RUN);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ended = of_kind(&place, "agent_ended");
    assert_eq!(ended[0]["unknown"]["count"], 3, "{ended:?}");
    assert_eq!(ended[0]["unknown"]["kinds"], serde_json::json!(["weather", "mood"]));
}

#[test]
fn what_an_agent_said_before_it_was_interrupted_is_in_the_log() {
    let begins = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","model":"x","usage":{}}},"session_id":"s1"}"#;
    let opens = r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}},"session_id":"s1"}"#;
    let says = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I shall rewrite all of it"}},"session_id":"s1"}"#;
    let place = place(&[begins, opens, says, "run touch spoken", "sleep 600", "resumed", INIT]);
    let task = place.start(RUN);
    let spoken = place.home().join("worktrees").join(&task.id).join("spoken");
    place.until(|| spoken.exists().then_some(()));
    place.ok(&["interrupt", &task.id, "only the parser"]);
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let said = of_kind(&place, "agent_said");
    let said: Vec<&str> = said.iter().filter_map(|event| event["text"].as_str()).collect();
    assert_eq!(said, ["I shall rewrite all of it", "done"]);
    assert!(place.ok(&["log", &place.id()]).contains("I shall rewrite all of it"));
}

#[test]
fn what_an_agent_thought_is_in_the_log() {
    let piece =
        |event: &str| format!(r#"{{"type":"stream_event","event":{event},"session_id":"s1"}}"#);
    let begins = piece(r#"{"type":"message_start","message":{"id":"m1","model":"x","usage":{}}}"#);
    let opens = piece(
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
    );
    let thinks = piece(
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"It may be the parser."}}"#,
    );
    let closes = piece(r#"{"type":"content_block_stop","index":0}"#);
    let ends = piece(r#"{"type":"message_stop"}"#);
    let place = place(&[&begins, &opens, &thinks, &closes, &ends]);
    let ran = place.run(RUN);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let said = of_kind(&place, "agent_said");
    assert_eq!(
        (&said[0]["thinking"], &said[0]["text"]),
        (&"It may be the parser.".into(), &"".into())
    );
    assert!(said[1].get("thinking").is_none(), "{said:?}");
    let log = place.ok(&["log", &place.id()]);
    assert!(log.contains("  thinks: It may be the parser.\n"), "{log}");
}

#[test]
fn an_agent_whose_driver_is_gone_was_at_work() {
    let place = place(&["ask touch begun; sleep 600"]);
    place.write(".drivetrain/policy.toml", "[[rule]]\ntool = \"shell\"\ndecide = \"allow\"\n");
    let task = place.start(&[RUN, &["--trust"]].concat());
    let begun = place.home().join("worktrees").join(&task.id).join("begun");
    place.until(|| begun.exists().then_some(()));
    let id = task.id.clone();
    let why = place.ok(&["why", &id]);
    assert!(why.contains("  the agent played is at work\n") && why.contains("  c1 runs"), "{why}");
    task.signal("KILL");
    task.wait();
    let why = place.ok(&["why", &id]);
    assert!(why.contains("  the agent played was at work\n"), "{why}");
    let told = "  c1 was under way and ended with its agent: played Bash (shell: touch begun; sleep 600)\n";
    assert!(why.contains(told), "{why}");
}
