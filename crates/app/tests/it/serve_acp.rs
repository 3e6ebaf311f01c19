//! `drivetrain acp`: an editor's agent, spoken to as an editor does, and by drivetrain itself.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::editor::{Editor, prompt};
use crate::environment::TestEnvironment;
use crate::model::SCRIPT;

/// The editor of somebody who talks to a scripted model.
fn start(place: &TestEnvironment, args: &[&str]) -> Editor {
    let line = ["--model", "script/replies.toml", "--in-place"];
    Editor::of(place, &[&line[..], args].concat())
}

#[test]
fn prompts_are_a_conversation_with_words_calls_and_diffs() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let mut editor = start(&place, &[]);
    let session = editor.open(&place);
    let ended = editor.prompt(&session, "write one line");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert!(editor.words("agent_message_chunk").contains("I write one line."));
    assert!(editor.words("agent_message_chunk").contains("Done."));
    let calls = editor.of_kind("tool_call");
    assert_eq!((calls.len(), &calls[0]["kind"]), (1, &json!("edit")));
    assert_eq!(editor.progress(), ["in_progress", "completed"]);
    let update = editor.of_kind("tool_call_update")[0];
    let diff = &update["content"][0];
    assert_eq!((&diff["type"], &diff["newText"]), (&json!("diff"), &json!("one\n")));
    assert_eq!(diff["path"], json!(place.folder().join("a.txt")));
    let ended = editor.prompt(&session, "not accepted: two, please");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert_eq!(place.read("a.txt"), "one\ntwo\n");
    assert_eq!(place.tasks().len(), 1, "one session is one task");
    assert_eq!(place.id(), session);
}

#[test]
fn what_the_policy_does_not_allow_is_asked_in_the_editor() {
    for (answer, written) in [("reject_once", ""), ("allow_once", "one\n")] {
        let place = TestEnvironment::new();
        place.write("replies.toml", SCRIPT);
        let mut editor = start(&place, &["--profile", "read-only"]);
        editor.answer = answer;
        let session = editor.open(&place);
        let ended = editor.prompt(&session, "write one line");
        assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
        assert_eq!(editor.asked.len(), 1, "{:?}", editor.updates);
        let call = &editor.of_kind("tool_call")[0]["toolCallId"];
        assert_eq!(editor.asked[0]["toolCall"]["toolCallId"], *call, "it was shown before");
        let progress = if written.is_empty() {
            &["pending", "failed"][..]
        } else {
            &["pending", "in_progress", "completed"]
        };
        assert_eq!(editor.progress(), progress);
        assert_eq!(place.read("a.txt"), written, "{answer}");
    }
}

#[test]
fn a_cancelled_prompt_ends_at_once_and_the_next_one_goes_on() {
    let place = TestEnvironment::new();
    let slow = "[[reply]]\ndelay = \"60s\"\ntext = \"too late\"\n[[reply]]\ntext = \"here I am\"\n";
    place.write("replies.toml", slow);
    let mut editor = start(&place, &[]);
    let session = editor.open(&place);
    let id = editor.begin("session/prompt", prompt(&session, "wait for me"));
    place.until(|| {
        let log = place.run(&["log", &session, "--json"]).out;
        log.contains("\"model_called\"").then_some(())
    });
    editor.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
    assert_eq!(editor.await_answer(id)["result"]["stopReason"], "cancelled");
    let ended = editor.prompt(&session, "and now");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert_eq!(editor.words("agent_message_chunk"), "here I am");
}

#[test]
fn an_editor_hears_of_a_call_that_is_cancelled_before_its_prompt_has_ended() {
    let place = TestEnvironment::new();
    let call = "{ tool = \"shell\", input = { command = \"touch begun.txt; sleep 60\" } }";
    let script = format!("[[reply]]\ntool_calls = [{call}]\n[[reply]]\ntext = \"here I am\"\n");
    place.write("replies.toml", &script);
    let mut editor = start(&place, &["--profile", "dev", "--no-sandbox"]);
    editor.answer = "allow_once";
    let session = editor.open(&place);
    let id = editor.begin("session/prompt", prompt(&session, "do it"));
    while editor.progress().last() != Some(&"in_progress") {
        assert_eq!(editor.hear(), None, "the turn goes on");
    }
    place.until_file("begun.txt");
    editor.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
    assert_eq!(editor.await_answer(id)["result"]["stopReason"], "cancelled");
    assert_eq!(
        editor.progress(),
        ["pending", "in_progress", "failed"],
        "all of it was told before"
    );
    let ended = editor.prompt(&session, "and now");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert_eq!(editor.progress(), [""; 0], "and none of it once more");
}

#[test]
fn an_editor_that_goes_is_not_waited_for_while_a_model_thinks() {
    let place = TestEnvironment::new();
    let slow = "[[reply]]\ndelay = \"60s\"\ntext = \"too late\"\n";
    place.write("replies.toml", slow);
    let mut editor = start(&place, &[]);
    let session = editor.open(&place);
    editor.begin("session/prompt", prompt(&session, "think about it"));
    place.until(|| {
        let log = place.run(&["log", &session, "--json"]).out;
        log.contains("\"model_called\"").then_some(())
    });
    let begun = Instant::now();
    drop(editor);
    let stayed = begun.elapsed();
    assert!(stayed < Duration::from_secs(5), "{stayed:?}");
    let events = place.events(&session);
    let let_go: Vec<&Value> = events.iter().filter(|event| event["type"] == "detached").collect();
    assert_eq!(let_go.len(), 1, "{events:?}");
    assert_eq!(let_go[0]["reason"], "the editor is gone");
    // It was asked of the model, and is again.
    place.write("replies.toml", "[[reply]]\ntext = \"here I am\"\n[[reply]]\ntext = \", well\"\n");
    let mut again = start(&place, &[]);
    let params = json!({ "sessionId": session, "cwd": place.folder(), "mcpServers": [] });
    assert!(again.ask("session/load", params)["error"].is_null());
    assert_eq!(again.words("user_message_chunk"), "think about it");
    let ended = again.prompt(&session, "well?");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended} {:?}", again.updates);
    assert_eq!(again.words("agent_message_chunk"), "here I am, well");
}

#[test]
fn a_command_that_runs_when_the_editor_goes_comes_to_its_end() {
    let place = TestEnvironment::new();
    let command = "touch begun.txt; sleep 2; touch done.txt";
    let call = format!("{{ tool = \"shell\", input = {{ command = \"{command}\" }} }}");
    place.write("replies.toml", &format!("[[reply]]\ntool_calls = [{call}]\n"));
    let mut editor = start(&place, &["--profile", "dev", "--no-sandbox"]);
    editor.answer = "allow_once";
    let session = editor.open(&place);
    editor.begin("session/prompt", prompt(&session, "do it"));
    while editor.progress().last() != Some(&"in_progress") {
        assert_eq!(editor.hear(), None, "the turn goes on");
    }
    place.until_file("begun.txt");
    let begun = Instant::now();
    drop(editor);
    let stayed = begun.elapsed();
    assert!(stayed < Duration::from_secs(8), "{stayed:?}");
    assert!(place.folder().join("done.txt").exists());
    let events = place.events(&session);
    let in_doubt = events.iter().find(|event| event["type"] == "call_in_doubt");
    assert_eq!(in_doubt, None);
}

#[test]
fn a_session_is_loaded_from_the_journal_after_a_kill() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let mut editor = start(&place, &[]);
    let session = editor.open(&place);
    editor.prompt(&session, "write one line");
    editor.child.kill().unwrap();
    editor.child.wait().unwrap();
    let mut again = start(&place, &[]);
    let folder = place.folder();
    let params = json!({ "sessionId": session, "cwd": folder, "mcpServers": [] });
    let loaded = again.ask("session/load", params);
    assert!(loaded["error"].is_null(), "{loaded}");
    assert_eq!(again.words("user_message_chunk"), "write one line");
    assert!(again.words("agent_message_chunk").contains("Done."));
    assert_eq!(again.of_kind("tool_call").len(), 1);
    let ended = again.prompt(&session, "not accepted: are you there?");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert!(again.words("agent_message_chunk").ends_with("Now there are two."));
    assert_eq!(place.read("a.txt"), "one\ntwo\n");
    let params = json!({ "sessionId": "nobody", "cwd": folder, "mcpServers": [] });
    let error = &again.ask("session/load", params)["error"];
    assert_eq!(error["code"], -32002);
    let told = error["message"].as_str().unwrap();
    assert!(told.starts_with("there is no session "), "{told}");
}

#[test]
fn what_cannot_be_served_is_said() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let mut editor = start(&place, &[]);
    let server = json!([{ "name": "x", "command": "x", "args": [], "env": [] }]);
    let said = editor.ask("session/new", json!({ "cwd": place.folder(), "mcpServers": server }));
    assert!(said["error"]["message"].as_str().unwrap().contains("mcpServers"), "{said}");
    let said = editor.ask("session/new", json!({ "cwd": "/no/such/folder", "mcpServers": [] }));
    assert!(said["error"]["message"].as_str().unwrap().contains("no folder"), "{said}");
    let said = editor.ask("session/prompt", prompt("nobody", "x"));
    assert_eq!(said["error"]["code"], -32002, "{said}");
    let ran = place.run(&["acp"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
}

#[test]
fn a_line_that_is_no_message_is_refused_by_its_id_and_the_next_one_is_served() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let mut editor = start(&place, &[]);
    let lines = [
        ("{not json", -32700, Value::Null),
        (r#"{"id":99,"method":"session/new","params":{}}"#, -32600, json!(99)),
        (r#"{"jsonrpc":"2.0","id":"a"}"#, -32600, json!("a")),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#, -32600, Value::Null),
    ];
    for (line, code, id) in lines {
        editor.send(&line);
        let said = editor.await_answer(id);
        assert_eq!(said["error"]["code"], code, "{line}: {said}");
    }
    editor.open(&place);
}

#[test]
fn a_session_whose_turn_is_under_way_is_not_loaded_over_it() {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\ndelay = \"2s\"\ntext = \"here I am\"\n");
    let mut editor = start(&place, &[]);
    let session = editor.open(&place);
    let id = editor.begin("session/prompt", prompt(&session, "wait for me"));
    let params = json!({ "sessionId": session, "cwd": place.folder(), "mcpServers": [] });
    let said = editor.ask("session/load", params.clone());
    assert!(said["error"]["message"].as_str().unwrap().contains("under way"), "{said}");
    assert_eq!(editor.await_answer(id)["result"]["stopReason"], "end_turn");
    assert!(editor.ask("session/load", params)["error"].is_null());
}

/// Drivetrain as the agent of drivetrain.
fn own_agent(place: &TestEnvironment) {
    place.write("replies.toml", SCRIPT);
    let command = [
        env!("CARGO_BIN_EXE_drivetrain"),
        "acp",
        "--model",
        "script/replies.toml",
        "--in-place",
        "--profile",
        "read-only",
        "--no-sandbox",
    ];
    let home = place.home().join("inner");
    place.write(
        ".drivetrain/agents/own.toml",
        &format!(
            "[agent]\nname = \"own\"\ncommand = {command:?}\nenv = {{ DRIVETRAIN_HOME = {home:?} }}\n"
        ),
    );
}

fn run_own(place: &TestEnvironment, profile: &str, turns: &str) -> (i32, String) {
    let check = "test $(wc -l < a.txt) -eq 2";
    let begin = ["run", "two lines", "--agent", "own", "--in-place", "--no-sandbox"];
    let how = ["--unattended", "--profile", profile, "--check", check, "--max-turns", turns];
    let ran = place.run(&[&begin[..], &how].concat());
    (ran.code, format!("{}{}", ran.out, ran.err))
}

#[test]
fn drivetrain_drives_drivetrain_and_the_outer_gate_decides() {
    let place = TestEnvironment::new();
    own_agent(&place);
    let (code, said) = run_own(&place, "read-only", "1");
    assert_ne!(code, 0, "nobody allowed it to write: {said}");
    assert_eq!(place.read("a.txt"), "");
    let events = place.events(&place.id());
    let denied = |event: &&Value| event["type"] == "call_judged" && event["decide"] == "deny";
    assert_eq!(events.iter().find(denied).unwrap()["tool"], "write", "{said}");
    let place = TestEnvironment::new();
    own_agent(&place);
    let (code, said) = run_own(&place, "dev", "4");
    assert_eq!(code, 0, "{said}");
    assert_eq!(place.read("a.txt"), "one\ntwo\n");
}

#[test]
fn a_script_that_is_over_is_a_failure_of_the_model_for_whoever_prompts() {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\ntext = \"only this\"\n");
    let mut editor = start(&place, &[]);
    let session = editor.open(&place);
    assert_eq!(editor.prompt(&session, "say it")["result"]["stopReason"], "end_turn");
    let ended = editor.prompt(&session, "say more");
    let words = ended["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("nothing comes after reply 1"), "{ended}");
    assert_eq!(ended["error"]["data"]["errorKind"], "invalid_request", "{ended}");
}

#[test]
fn a_model_that_fails_within_is_a_typed_end_of_the_turn_outside_and_soon() {
    let place = TestEnvironment::new();
    own_agent(&place);
    place.write("replies.toml", "[[reply]]\nmatch = \"never said\"\ntext = \"only this\"\n");
    let begun = std::time::Instant::now();
    let (code, said) = run_own(&place, "dev", "4");
    assert_ne!(code, 0, "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let events = place.events(&place.id());
    let failed = |event: &&Value| !event["end"]["model"].is_null();
    let ended = events.iter().find(failed).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(ended["end"]["model"]["kind"], "client", "{ended}");
    assert!(said.contains("no reply that is left in the script matches"), "{said}");
}

#[test]
fn a_limit_of_steps_and_a_refusal_are_reasons_of_their_own() {
    let place = TestEnvironment::new();
    let look = |n: u32| {
        let input = format!("{{ pattern = \"{n}*\" }}");
        format!("[[reply]]\ntool_calls = [{{ tool = \"glob\", input = {input} }}]\n")
    };
    let looks: String = (0..10).map(look).collect();
    let refuses = "[[reply]]\ntext = \"No.\"\nstop = \"refusal\"\n";
    place.write("replies.toml", &format!("{looks}{refuses}"));
    let mut editor = start(&place, &[]);
    let session = editor.open(&place);
    let ended = editor.prompt(&session, "go round");
    assert_eq!(ended["result"]["stopReason"], "max_turn_requests", "{ended}");
    assert!(editor.words("agent_message_chunk").contains("max_steps = 10"), "{:?}", editor.updates);
    let ended = editor.prompt(&session, "now the bad thing");
    assert_eq!(ended["result"]["stopReason"], "refusal", "{ended}");
}

#[test]
fn what_was_asked_before_a_kill_is_asked_again_with_the_next_prompt() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let profile = ["--profile", "read-only"];
    let mut editor = start(&place, &profile);
    let session = editor.open(&place);
    editor.begin("session/prompt", prompt(&session, "write one line"));
    place.until(|| place.ok(&["approvals", "--json"]).contains("a.txt").then_some(()));
    editor.child.kill().unwrap();
    editor.child.wait().unwrap();
    let mut again = start(&place, &profile);
    again.answer = "allow_once";
    let params = json!({ "sessionId": session, "cwd": place.folder(), "mcpServers": [] });
    assert!(again.ask("session/load", params)["error"].is_null());
    let ended = again.prompt(&session, "well?");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended} {:?}", again.updates);
    assert_eq!(again.asked.len(), 1, "{:?}", again.updates);
    assert_eq!(place.read("a.txt"), "one\n");
}
