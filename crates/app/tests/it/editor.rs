//! An editor: the client's side of the Agent Client Protocol, for tests of `drivetrain acp`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// An editor that answers every question in one way.
pub(crate) struct Editor {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last: u64,
    pub(crate) answer: &'static str,
    /// What was told since the last prompt.
    pub(crate) updates: Vec<Value>,
    pub(crate) asked: Vec<Value>,
}

impl Editor {
    /// The editor of `drivetrain acp` with these arguments.
    pub(crate) fn of(place: &TestEnvironment, args: &[&str]) -> Editor {
        let line = [&["acp"], args].concat();
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

    pub(crate) fn send(&mut self, message: &impl std::fmt::Display) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.await_answer(id)
    }

    pub(crate) fn await_answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        loop {
            match self.hear() {
                Some(said) if said["id"] == id => return said,
                Some(said) => panic!("unexpected: {said}"),
                None => {}
            }
        }
    }

    /// Takes the next message; gives it if it is an answer.
    pub(crate) fn hear(&mut self) -> Option<Value> {
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
            _ => return Some(said),
        }
        None
    }

    pub(crate) fn open(&mut self, place: &TestEnvironment) -> String {
        let said = self.ask("session/new", json!({ "cwd": place.folder(), "mcpServers": [] }));
        said["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.updates.clear();
        self.asked.clear();
        self.ask("session/prompt", prompt(session, text))
    }

    /// The words of the agent since the last prompt.
    pub(crate) fn words(&self, kind: &str) -> String {
        let chunks = self.updates.iter().filter(|update| update["sessionUpdate"] == kind);
        chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    /// How far calls were said to be since the last prompt, one after another.
    pub(crate) fn progress(&self) -> Vec<&str> {
        let is_call = |kind: &str| matches!(kind, "tool_call" | "tool_call_update");
        let kind = |update: &Value| update["sessionUpdate"].as_str().is_some_and(is_call);
        let calls = self.updates.iter().filter(|update| kind(update));
        calls.map(|update| update["status"].as_str().unwrap_or_default()).collect()
    }

    pub(crate) fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.updates.iter().filter(|update| update["sessionUpdate"] == kind).collect()
    }
}

pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

/// It closes its end, and drivetrain goes.
impl Drop for Editor {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}
