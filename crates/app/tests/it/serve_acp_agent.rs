//! `drivetrain acp --agent`: an editor whose prompts a coding agent works on, here one that plays a script.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::editor::{Editor, prompt};
use crate::environment::TestEnvironment;

const AGENT: [&str; 5] = ["--agent", "played", "--in-place", "--no-sandbox", "--trust"];

/// The lines with which a turn of Claude Code begins.
fn begins() -> String {
    let init = json!({ "type": "system", "subtype": "init", "session_id": "s1", "tools": ["Bash"],
        "permissionMode": "default" });
    format!("{init}\n")
}

/// Words of the agent, whole.
fn says(id: &str, text: &str) -> String {
    let content = json!([{ "type": "text", "text": text }]);
    let message = json!({ "id": id, "role": "assistant", "content": content });
    let said = json!({ "type": "assistant", "message": message, "session_id": "s1",
        "parent_tool_use_id": null });
    format!("{said}\n")
}

/// The line with which a turn ends.
fn ends(text: &str) -> String {
    let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
    let result = json!({ "type": "result", "subtype": "success", "is_error": false, "num_turns": 1,
        "result": text, "session_id": "s1", "total_cost_usd": 0.01, "usage": usage });
    format!("{result}\n")
}

/// A place with an agent that plays this.
fn played(script: &[String]) -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("steps.txt", &script.concat());
    let command = [env!("CARGO_BIN_EXE_drivetrain"), "fake", "agent", "steps.txt"];
    place.write(
        ".drivetrain/agents/played.toml",
        &format!(
            "[agent]\nname = \"played\"\nprotocol = \"claude\"\ncommand = {command:?}\nidle = \"20s\"\n"
        ),
    );
    place
}

fn load(editor: &mut Editor, place: &TestEnvironment, session: &str) -> Value {
    editor.updates.clear();
    let params = json!({ "sessionId": session, "cwd": place.folder(), "mcpServers": [] });
    editor.ask("session/load", params)
}

fn stop(ended: &Value) -> &str {
    ended["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{ended}"))
}

#[test]
fn what_an_agent_says_and_asks_reaches_the_editor_and_the_answer_reaches_the_agent() {
    let deed = "ask touch asked.txt\n".to_owned();
    let script = [begins(), says("m1", "I look."), deed, says("m2", "Done."), ends("Done.")];
    let check = ["--check", "test -e asked.txt", "--profile", "read-only", "--max-turns", "1"];
    for answer in ["allow_once", "reject_once"] {
        let place = played(&script);
        let mut editor = Editor::of(&place, &[&AGENT[..], &check].concat());
        editor.answer = answer;
        let session = editor.open(&place);
        let ended = editor.prompt(&session, "touch it");
        let story = format!("{answer}: {ended} {:?}", editor.updates);
        assert_eq!(editor.words("agent_message_chunk").matches("I look.").count(), 1, "{story}");
        assert_eq!(editor.asked.len(), 1, "{story}");
        let call = editor.of_kind("tool_call")[0];
        assert_eq!(editor.asked[0]["toolCall"]["toolCallId"], call["toolCallId"], "{story}");
        assert_eq!(call["rawInput"]["command"], "touch asked.txt", "{story}");
        let plans = editor.of_kind("plan");
        let entry = |plan: &Value| plan["entries"][0]["status"].as_str().unwrap().to_owned();
        assert_eq!(plans[0]["entries"][0]["content"], "shell: test -e asked.txt", "{story}");
        let done = answer == "allow_once";
        let progress: Vec<String> = plans.iter().map(|plan| entry(plan)).collect();
        let last = if done { "completed" } else { "pending" };
        assert_eq!(progress, ["pending", "in_progress", last], "{story}");
        let told = editor.words("agent_thought_chunk");
        let why = "a check failed: shell: test -e asked.txt\n[exit code 1, expected 0";
        assert_eq!(told.contains(why), !done, "{told}");
        assert_eq!(place.folder().join("asked.txt").exists(), done, "{story}");
        let progress: &[&str] =
            if done { &["pending", "in_progress", "completed"] } else { &["pending", "failed"] };
        assert_eq!(editor.progress(), progress, "{story}");
        // Its one turn is spent when the check has failed.
        assert_eq!(stop(&ended), if done { "end_turn" } else { "max_turn_requests" }, "{story}");
        assert_eq!(place.id(), session);
    }
}

#[test]
fn what_an_agent_thinks_and_says_reaches_the_editor_while_it_is_at_work_and_once() {
    let thinks = json!([{ "type": "thinking", "thinking": "Is it there?" }]);
    let message = json!({ "id": "m1", "role": "assistant", "content": thinks });
    let thinks = json!({ "type": "assistant", "message": message, "session_id": "s1",
        "parent_tool_use_id": null });
    let place = played(&[
        begins(),
        format!("{thinks}\n"),
        says("m1", "I look."),
        says("m2", "It is there."),
        "run until test -e seen.txt; do sleep 0.05; done\n".to_owned(),
        says("m3", "Done."),
        ends("Done."),
    ]);
    let mut editor = Editor::of(&place, &AGENT);
    let session = editor.open(&place);
    let id = editor.begin("session/prompt", prompt(&session, "is it there?"));
    while !editor.words("agent_message_chunk").contains("It is there.") {
        assert_eq!(editor.hear(), None, "the turn goes on");
    }
    place.write("seen.txt", "");
    assert_eq!(stop(&editor.await_answer(id)), "end_turn");
    assert_eq!(editor.words("agent_thought_chunk"), "Is it there?");
    assert_eq!(editor.words("agent_message_chunk"), "I look.It is there.Done.");
}

#[test]
fn a_cancelled_agent_is_stopped_and_the_next_prompt_goes_on_in_the_same_task() {
    let place = played(&[
        begins(),
        says("m1", "I begin."),
        "run touch begun.txt\nsleep 300\nresumed\n".to_owned(),
        begins(),
        says("m2", "I go on."),
        ends("I go on."),
    ]);
    let mut editor = Editor::of(&place, &AGENT);
    let session = editor.open(&place);
    let id = editor.begin("session/prompt", prompt(&session, "take your time"));
    place.until_file("begun.txt");
    let begun = Instant::now();
    let params = json!({ "sessionId": session });
    editor.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
    assert_eq!(stop(&editor.await_answer(id)), "cancelled");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let before = editor.words("agent_message_chunk");
    let ended = editor.prompt(&session, "to the left, please");
    assert_eq!(stop(&ended), "end_turn", "{:?}", editor.updates);
    // What it said before it was stopped is recorded when its turn has ended, which nobody waits for who cancels; told it is
    // once, as it came or then.
    let after = editor.words("agent_message_chunk");
    assert_eq!(format!("{before}{after}"), "I begin.I go on.");
    assert_eq!(place.id(), session, "the same task");
    let notes: Vec<Value> = place
        .events(&session)
        .into_iter()
        .filter(|event| event["type"] == "note_delivered")
        .map(|event| event["note"]["text"].clone())
        .collect();
    assert_eq!(notes, ["", "to the left, please"]);
}

#[test]
fn an_editor_that_goes_is_not_waited_for_while_an_agent_works() {
    let place = played(&[
        begins(),
        says("m1", "I begin."),
        "run touch begun.txt\nsleep 300\nresumed\n".to_owned(),
        begins(),
        says("m2", "I go on."),
        ends("I go on."),
    ]);
    let mut editor = Editor::of(&place, &AGENT);
    let session = editor.open(&place);
    editor.begin("session/prompt", prompt(&session, "take your time"));
    place.until_file("begun.txt");
    let begun = Instant::now();
    drop(editor);
    let stayed = begun.elapsed();
    // An agent that does not stop by itself has five seconds.
    assert!(stayed < Duration::from_secs(9), "{stayed:?}");
    let said = place.run(&["resume", &session]);
    assert!(said.out.contains("I go on."), "{}{}", said.out, said.err);
}

#[test]
fn prompts_after_an_end_are_further_tasks_and_a_load_tells_all_of_them() {
    let place = played(&[begins(), says("m1", "There."), ends("There.")]);
    let mut editor = Editor::of(&place, &AGENT);
    let session = editor.open(&place);
    assert_eq!(stop(&editor.prompt(&session, "first wish")), "end_turn");
    assert_eq!(stop(&editor.prompt(&session, "second wish")), "end_turn");
    editor.child.kill().unwrap();
    editor.child.wait().unwrap();
    let mut again = Editor::of(&place, &AGENT);
    let loaded = load(&mut again, &place, &session);
    assert!(loaded["error"].is_null(), "{loaded}");
    assert_eq!(again.words("user_message_chunk"), "first wishsecond wish");
    assert_eq!(again.words("agent_message_chunk"), "There.There.");
    assert_eq!(stop(&again.prompt(&session, "third wish")), "end_turn");
    assert_eq!(place.tasks().len(), 3);
    load(&mut again, &place, &session);
    assert!(again.words("user_message_chunk").ends_with("third wish"));
}

#[test]
fn a_session_whose_process_was_killed_in_a_turn_goes_on_with_the_next_prompt() {
    let place = played(&[
        begins(),
        "run touch begun.txt\nsleep 300\nresumed\n".to_owned(),
        begins(),
        says("m2", "I go on."),
        ends("I go on."),
    ]);
    let mut editor = Editor::of(&place, &AGENT);
    let session = editor.open(&place);
    editor.begin("session/prompt", prompt(&session, "take your time"));
    place.until_file("begun.txt");
    editor.child.kill().unwrap();
    editor.child.wait().unwrap();
    let mut again = Editor::of(&place, &AGENT);
    let loaded = load(&mut again, &place, &session);
    assert!(loaded["error"].is_null(), "{loaded}");
    assert_eq!(again.words("user_message_chunk"), "take your time");
    assert_eq!(stop(&again.prompt(&session, "are you there?")), "end_turn");
    assert_eq!(again.words("agent_message_chunk"), "I go on.");
    let asked = place.events(&session);
    let asked = asked.iter().filter(|event| event["type"] == "agent_asked").count();
    assert_eq!(asked, 2, "what was cut off is not asked for once more");
}

#[test]
fn an_agent_that_breaks_off_is_an_error_of_the_prompt() {
    let place = played(&[begins(), "exit 3\n".to_owned()]);
    let mut editor = Editor::of(&place, &AGENT);
    let session = editor.open(&place);
    let ended = editor.prompt(&session, "do it");
    let words = ended["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("played broke off (exit)"), "{ended}");
    let said = editor.ask("session/prompt", prompt(&session, "do it after all"));
    assert!(said["error"]["message"].as_str().unwrap().contains("broke off"), "{said}");
}

#[test]
fn an_agent_that_is_not_there_is_said_when_a_session_is_opened() {
    let place = TestEnvironment::new();
    let mut editor = Editor::of(&place, &["--agent", "nobody", "--in-place"]);
    let said = editor.ask("session/new", json!({ "cwd": place.folder(), "mcpServers": [] }));
    assert!(said["error"]["message"].as_str().unwrap().contains("nobody"), "{said}");
}

/// A session of several tasks, each of which counts its calls from the first.
#[test]
fn no_two_calls_of_a_session_have_the_same_id() {
    let deed = "ask touch asked.txt\n".to_owned();
    let place = played(&[begins(), deed, says("m1", "Done."), ends("Done.")]);
    let mut editor = Editor::of(&place, &[&AGENT[..], &["--profile", "read-only"]].concat());
    editor.answer = "allow_once";
    let session = editor.open(&place);
    let mut names = Vec::new();
    for words in ["one", "two"] {
        let ended = editor.prompt(&session, words);
        let calls = editor.of_kind("tool_call");
        assert_eq!(calls.len(), 1, "{ended} {:?}", editor.updates);
        names.push(calls[0]["toolCallId"].clone());
        assert_eq!(editor.asked[0]["toolCall"]["toolCallId"], names[names.len() - 1]);
        assert_eq!(editor.of_kind("tool_call_update")[0]["toolCallId"], names[names.len() - 1]);
    }
    assert_ne!(names[0], names[1]);
    load(&mut editor, &place, &session);
    let told: Vec<Value> =
        editor.of_kind("tool_call").iter().map(|call| call["toolCallId"].clone()).collect();
    assert_eq!(told, names);
}
