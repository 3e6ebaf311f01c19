//! `drivetrain acp`: an editor's agent, spoken to as an editor does, and by drivetrain itself.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::environment::TestEnvironment;
use crate::model::SCRIPT;

/// An editor that answers every question in one way.
struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last: u64,
    answer: &'static str,
    /// What was told since the last prompt.
    updates: Vec<Value>,
    asked: Vec<Value>,
}

impl Editor {
    fn start(place: &TestEnvironment, args: &[&str]) -> Editor {
        let mut line = vec!["acp", "--model", "script/replies.toml", "--in-place"];
        line.extend(args);
        let mut child =
            place.command(&line).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (updates, asked) = (Vec::new(), Vec::new());
        let mut editor =
            Editor { child, stdin, stdout, last: 0, answer: "reject_once", updates, asked };
        let said =
            editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        assert_eq!(said["result"]["agentCapabilities"]["loadSession"], true, "{said}");
        editor
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.await_answer(id)
    }

    fn await_answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it is gone");
            let said: Value = serde_json::from_str(&line).unwrap();
            match said["method"].as_str() {
                Some("session/update") => self.updates.push(said["params"]["update"].clone()),
                Some("session/request_permission") => {
                    self.asked.push(said["params"].clone());
                    let outcome = json!({ "outcome": "selected", "optionId": self.answer });
                    let result = json!({ "outcome": outcome });
                    self.send(&json!({ "jsonrpc": "2.0", "id": said["id"], "result": result }));
                }
                _ if said["id"] == id => return said,
                _ => panic!("unexpected: {said}"),
            }
        }
    }

    fn open(&mut self, place: &TestEnvironment) -> String {
        let said = self.ask("session/new", json!({ "cwd": place.folder(), "mcpServers": [] }));
        said["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.updates.clear();
        self.asked.clear();
        self.ask("session/prompt", prompt(session, text))
    }

    /// The words of the agent since the last prompt.
    fn words(&self, kind: &str) -> String {
        let chunks = self.updates.iter().filter(|update| update["sessionUpdate"] == kind);
        chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.updates.iter().filter(|update| update["sessionUpdate"] == kind).collect()
    }
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

#[test]
fn prompts_are_a_conversation_with_words_calls_and_diffs() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let mut editor = Editor::start(&place, &[]);
    let session = editor.open(&place);
    let ended = editor.prompt(&session, "write one line");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert!(editor.words("agent_message_chunk").contains("I write one line."));
    assert!(editor.words("agent_message_chunk").contains("Done."));
    let calls = editor.of_kind("tool_call");
    assert_eq!((calls.len(), &calls[0]["kind"]), (1, &json!("edit")));
    let update = editor.of_kind("tool_call_update")[0];
    assert_eq!(update["status"], "completed");
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
        let mut editor = Editor::start(&place, &["--profile", "read-only"]);
        editor.answer = answer;
        let session = editor.open(&place);
        let ended = editor.prompt(&session, "write one line");
        assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
        assert_eq!(editor.asked.len(), 1, "{:?}", editor.updates);
        let call = &editor.of_kind("tool_call")[0]["toolCallId"];
        assert_eq!(editor.asked[0]["toolCall"]["toolCallId"], *call, "it was shown before");
        let status = if written.is_empty() { "failed" } else { "completed" };
        assert_eq!(editor.of_kind("tool_call_update")[0]["status"], status);
        assert_eq!(place.read("a.txt"), written, "{answer}");
    }
}

#[test]
fn a_cancelled_prompt_ends_at_once_and_the_next_one_goes_on() {
    let place = TestEnvironment::new();
    let slow = "[[reply]]\ndelay = \"60s\"\ntext = \"too late\"\n[[reply]]\ntext = \"here I am\"\n";
    place.write("replies.toml", slow);
    let mut editor = Editor::start(&place, &[]);
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
fn a_session_is_loaded_from_the_journal_after_a_kill() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let mut editor = Editor::start(&place, &[]);
    let session = editor.open(&place);
    editor.prompt(&session, "write one line");
    editor.child.kill().unwrap();
    editor.child.wait().unwrap();
    let mut again = Editor::start(&place, &[]);
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
    assert_eq!(again.ask("session/load", params)["error"]["code"], -32002);
}

#[test]
fn what_cannot_be_served_is_said() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let mut editor = Editor::start(&place, &[]);
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
