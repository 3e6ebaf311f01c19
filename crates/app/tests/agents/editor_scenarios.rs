//! What is tried with a program that an editor's prompts are for, through `drivetrain acp`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::editor::{Editor, prompt};
use crate::program::{Program, says};
use crate::stage::{OPEN, Stage};

/// A command that is in the middle for long.
const SLOW: &str = "touch begun.txt && sleep 300 && touch late.txt";

fn stop(ended: &Value) -> &str {
    ended["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{ended}"))
}

/// Waits until the agent of a session has made a file.
fn until_made(stage: &Stage, session: &str, file: &str) {
    let file = stage.place.home().join("worktrees").join(session).join(file);
    stage.place.until(|| file.exists().then_some(()));
}

fn load(editor: &mut Editor, stage: &Stage, session: &str) {
    editor.updates.clear();
    let folder = stage.place.folder();
    let params = json!({ "sessionId": session, "cwd": folder, "mcpServers": [] });
    let loaded = editor.ask("session/load", params);
    assert!(loaded["error"].is_null(), "{loaded}");
}

/// Whatever the editor is told of a call, it is told once, and what is said is said once.
pub(crate) fn an_editor_sees_words_calls_and_the_plan(program: &Program) {
    let stage = Stage::new(program, OPEN, &[(program.edit)(), says("All done.")]);
    let check = ["--check", "grep -q 'hello driver' hello.txt"];
    let mut editor = stage.editor(&check);
    let session = editor.open(&stage.place);
    let ended = editor.prompt(&session, "say hello to the driver");
    assert_eq!(stop(&ended), "end_turn", "{:?}", editor.updates);
    let words = editor.words("agent_message_chunk");
    assert_eq!(words.matches("All done.").count(), 1, "{words}");
    let calls = editor.of_kind("tool_call");
    let edit = calls.iter().find(|call| call["kind"] == "edit" || call["kind"] == "other");
    assert!(edit.is_some(), "{calls:?}");
    let plan = editor.of_kind("plan");
    assert_eq!(plan.last().unwrap()["entries"][0]["status"], "completed", "{plan:?}");
    assert_eq!(editor.asked.len(), 0);
    drop(editor);
    stage.await_nobody();
    assert!(stage.asked()[0].contains("say hello to the driver"));
}

pub(crate) fn what_it_asks_is_asked_in_the_editor_and_the_answer_counts(program: &Program) {
    let policy = "unattended = \"wait\"\n[[rule]]\ncommand = \"touch *\"\ndecide = \"ask\"\n";
    for (answer, made) in [("allow_once", true), ("reject_once", false)] {
        let replies = [(program.shell)("touch asked.txt"), says("I tried.")];
        let stage = Stage::new(program, policy, &replies);
        let mut editor = stage.editor(&[]);
        editor.answer = answer;
        let session = editor.open(&stage.place);
        let ended = editor.prompt(&session, "touch it");
        assert_eq!(stop(&ended), "end_turn", "{answer}: {:?}", editor.updates);
        assert_eq!(editor.asked.len(), 1, "{answer}: {:?}", editor.updates);
        assert_eq!(editor.asked[0]["toolCall"]["rawInput"]["command"], "touch asked.txt");
        let progress: &[&str] =
            if made { &["pending", "in_progress", "completed"] } else { &["pending", "failed"] };
        assert_eq!(editor.progress(), progress, "{answer}");
        drop(editor);
        stage.await_nobody();
        assert_eq!(stage.has("asked.txt"), made, "{answer}");
        let told = ["refused in the editor", "reject", "refused permission"];
        let heard = stage.asked_last();
        assert!(made || told.iter().any(|words| heard.contains(words)), "{heard}");
    }
}

pub(crate) fn a_cancel_in_the_editor_stops_it_and_the_next_prompt_goes_on(program: &Program) {
    let replies = [(program.shell)(SLOW), says("To the left, then."), says("Yes.")];
    let stage = Stage::new(program, OPEN, &replies);
    let mut editor = stage.editor(&[]);
    let session = editor.open(&stage.place);
    let id = editor.begin("session/prompt", prompt(&session, "take your time"));
    until_made(&stage, &session, "begun.txt");
    let begun = Instant::now();
    let params = json!({ "sessionId": session });
    editor.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
    assert_eq!(stop(&editor.await_answer(id)), "cancelled");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let ended = editor.prompt(&session, "take the left door");
    assert_eq!(stop(&ended), "end_turn", "{:?}", editor.updates);
    assert_eq!(stage.place.id(), session, "the same task");
    drop(editor);
    stage.await_nobody();
    assert!(!stage.has("late.txt"));
    let heard = stage.asked_last();
    assert!(heard.contains("[operator ") && heard.contains("take the left door"), "{heard}");
    assert!(heard.contains("take your time"), "the same conversation: {heard}");
}

pub(crate) fn a_word_from_a_terminal_reaches_an_agent_of_an_editor(program: &Program) {
    let replies = [
        (program.shell)("touch begun.txt; while ! test -e go.txt; do sleep 0.1; done"),
        says("I keep left."),
        says("Left it is."),
    ];
    let stage = Stage::new(program, OPEN, &replies);
    let mut editor = stage.editor(&[]);
    let session = editor.open(&stage.place);
    let id = editor.begin("session/prompt", prompt(&session, "go"));
    until_made(&stage, &session, "begun.txt");
    stage.place.ok(&["steer", &session, "keep to the left"]);
    if program.steers {
        // Its pipe has it before the tool ends.
        std::thread::sleep(Duration::from_millis(500));
    }
    std::fs::write(stage.worktree().join("go.txt"), "").unwrap();
    assert_eq!(stop(&editor.await_answer(id)), "end_turn", "{:?}", editor.updates);
    drop(editor);
    stage.await_nobody();
    let heard = stage.asked_last();
    assert!(heard.contains("[operator ") && heard.contains("keep to the left"), "{heard}");
}

pub(crate) fn a_session_is_loaded_after_a_kill_and_goes_on(program: &Program) {
    let replies = [(program.shell)(SLOW), (program.edit)(), says("Done after all.")];
    let stage = Stage::new(program, OPEN, &replies);
    let mut editor = stage.editor(&[]);
    let session = editor.open(&stage.place);
    editor.begin("session/prompt", prompt(&session, "say hello to the driver"));
    until_made(&stage, &session, "begun.txt");
    editor.child.kill().unwrap();
    editor.child.wait().unwrap();
    stage.await_nobody();
    let mut again = stage.editor(&[]);
    load(&mut again, &stage, &session);
    assert_eq!(again.words("user_message_chunk"), "say hello to the driver");
    let ended = again.prompt(&session, "please go on");
    assert_eq!(stop(&ended), "end_turn", "{:?}", again.updates);
    assert!(again.words("agent_message_chunk").ends_with("Done after all."));
    drop(again);
    stage.await_nobody();
    let heard = stage.asked_last();
    assert!(heard.contains("please go on"), "{heard}");
    assert!(heard.contains("say hello to the driver"), "the same conversation: {heard}");
    assert!(!stage.has("late.txt"));
}
