//! `drivetrain mcp` and bytes that no client should send: the cases of the corpus that make sense against a server that is
//! not a task's gate, and some of its own. Whatever came, the server answers, lives and has made nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const INIT: &str = r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":"still there","method":"ping"}"#;

/// A server, and its answers as they come; the end of its output is an end of the channel.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Receiver<Value>,
}

fn start(place: &TestEnvironment) -> (Child, ChildStdin, ChildStdout) {
    place.write("replies.toml", "[[reply]]\ntext = \"x\"\n");
    let mut child = place
        .command(&["mcp", "--model", "script/replies.toml"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, stdin, stdout)
}

impl Server {
    fn new(place: &TestEnvironment) -> Server {
        let (child, stdin, stdout) = start(place);
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let line = line.unwrap();
                let said = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
                if sender.send(said).is_err() {
                    break;
                }
            }
        });
        Server { child, stdin: Some(stdin), answers }
    }

    fn greeted(place: &TestEnvironment) -> Server {
        let mut server = Server::new(place);
        server.send(format!("{INIT}\n").as_bytes());
        assert!(server.answer()["result"].is_object());
        server
    }

    /// Says something; whoever closed its end misses it.
    fn send(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
    }

    fn answer(&self) -> Value {
        self.answers.recv_timeout(PATIENCE).unwrap()
    }

    /// Everything that it says until it answers a ping, or ends; and whether it ended.
    fn rest(&mut self) -> (Vec<Value>, bool) {
        self.send(format!("{PING}\n").as_bytes());
        let mut heard = Vec::new();
        loop {
            match self.answers.recv_timeout(PATIENCE) {
                Ok(said) if said["id"] == "still there" => return (heard, false),
                Ok(said) => heard.push(said),
                Err(RecvTimeoutError::Disconnected) => return (heard, true),
                Err(RecvTimeoutError::Timeout) => panic!("it neither answers nor ends: {heard:?}"),
            }
        }
    }

    /// Ends its input; it ends well and has not complained of itself.
    fn end(mut self) {
        self.stdin = None;
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!said.contains("panicked") && !said.contains("internal error"), "{said}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The cases that are bytes, and were not made for servers of tools.
fn cases() -> Vec<Value> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/mcp.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let cases = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    cases.filter(|case| case["script"].is_null() && case["side"].is_null()).collect()
}

fn bytes(case: &Value) -> Vec<u8> {
    let mut bytes = match (case["in"].as_str(), case["in_hex"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(hex)) => (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect(),
        (None, None) => generated(&case["gen"]),
    };
    bytes.push(b'\n');
    bytes
}

fn generated(how: &Value) -> Vec<u8> {
    let number = |field: &str| usize::try_from(how[field].as_u64().unwrap()).unwrap();
    match how["kind"].as_str().unwrap() {
        "json-nest" => [vec![b'['; number("n")], vec![b']'; number("n")]].concat(),
        "json-line" => format!("{{\"a\":\"{}\"}}", "x".repeat(number("mb") << 20)).into_bytes(),
        other => panic!("no generator for {other}"),
    }
}

fn holds(expect: &str, heard: &[Value], closed: bool) -> bool {
    let is_error = |said: &Value| !said["error"].is_null() || said["result"]["isError"] == true;
    let last = heard.last();
    match expect.split_once(':').unwrap_or((expect, "")) {
        ("ok", _) => last.is_some_and(|said| !is_error(said)),
        // None of its tools is what these ask for, so nothing runs and that is said.
        ("error" | "gated" | "capped", "") => last.is_some_and(is_error),
        ("error", code) => {
            heard.iter().any(|said| said["error"]["code"].as_i64() == code.parse().ok())
        }
        ("close", _) => closed,
        ("ignore" | "ignored", _) => heard.is_empty() && !closed,
        _ => false,
    }
}

#[test]
fn every_case_of_the_corpus_that_is_bytes_comes_out_as_it_must() {
    let place = TestEnvironment::new();
    let cases = cases();
    assert!(cases.len() >= 30, "{}", cases.len());
    for case in &cases {
        let (id, bytes) = (&case["id"], bytes(case));
        let greets = String::from_utf8_lossy(&bytes).contains("initialize");
        let is_early = case["why"].as_str().unwrap().contains("before initialize");
        let mut server =
            if greets || is_early { Server::new(&place) } else { Server::greeted(&place) };
        match case["chunk"].as_str() {
            Some("1") => bytes.chunks(1).for_each(|byte| server.send(byte)),
            _ => server.send(&bytes),
        }
        let (heard, closed) = server.rest();
        let expect = case["expect"].as_str().unwrap();
        let fine = expect.split("-or-").any(|expect| holds(expect, &heard, closed));
        assert!(fine, "{id} expects {expect}: {heard:?}, closed: {closed}");
        server.end();
    }
    assert!(place.tasks().is_empty(), "nothing was dispatched");
}

#[test]
fn calls_of_the_wrong_shape_are_refused_in_words_and_make_nothing() {
    let place = TestEnvironment::new();
    let mut server = Server::greeted(&place);
    let deep = (0..40).fold(json!("x"), |inner, _| json!([inner]));
    let inputs = [
        ("dispatch", json!({ "goal": 7 })),
        ("dispatch", json!({ "goal": ["x"] })),
        ("dispatch", json!({ "goal": "x", "max_usd": "much" })),
        ("dispatch", json!({ "goal": "x", "max_turns": -1 })),
        ("dispatch", json!({ "goal": "x", "max_turns": 1e300 })),
        ("dispatch", json!({ "goal": "x", "checks": "true" })),
        ("dispatch", json!({ "goal": "x", "checks": deep })),
        ("dispatch", json!({ "goal": "g".repeat(70 << 10) })),
        ("dispatch", json!({ "goal": "x", "key": "a\u{7}b" })),
        ("dispatch", json!({ "goal": "x", "parent": "someone" })),
        ("inspect", json!({ "id": "../../etc/passwd" })),
        ("inspect", json!({ "id": "" })),
        ("inspect", json!({ "id": "a", "lines": "all" })),
        ("steer", json!({ "id": "a", "text": { "a": 1 } })),
        ("cancel", json!({})),
        ("wait", json!({ "id": "a", "seconds": -5 })),
        ("list", json!(["x"])),
    ];
    for (number, (tool, input)) in inputs.iter().enumerate() {
        let params = json!({ "name": tool, "arguments": input });
        let asked =
            json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params });
        server.send(format!("{asked}\n").as_bytes());
        let said = server.answer();
        assert_eq!(said["id"], number, "{said}");
        let words = said["error"]["message"].as_str();
        let words = words.or(said["result"]["content"][0]["text"].as_str()).unwrap_or_default();
        assert!(!words.is_empty() && words.len() < 2000, "{tool} {input}: {said}");
        assert!(said["error"].is_object() || said["result"]["isError"] == true, "{said}");
    }
    assert_eq!(server.rest(), (Vec::new(), false));
    server.end();
    assert!(place.tasks().is_empty());
}

#[test]
fn a_line_that_is_too_long_is_not_kept_and_what_follows_it_is_answered() {
    let place = TestEnvironment::new();
    let mut server = Server::greeted(&place);
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..2 {
        for _ in 0..64 {
            server.send(&piece);
        }
        server.send(b"\n");
        let said = server.answer();
        assert!(said["error"].is_object() && said["id"].is_null(), "{said}");
        server.send(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n");
        let said = server.answer();
        assert!(said["id"] == 7 && said["result"].is_object(), "{said}");
    }
    assert!(memory(&server.child) < 256);
    server.end();
}

#[test]
fn half_a_line_and_the_end_do_nothing() {
    let place = TestEnvironment::new();
    let mut server = Server::greeted(&place);
    let call = json!({ "name": "dispatch", "arguments": { "goal": "half" } });
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
    server.send(asked.to_string().as_bytes());
    server.end();
    assert!(place.tasks().is_empty());
}

/// Its memory, in megabytes.
fn memory(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() >> 10
}

#[test]
fn a_client_that_never_reads_holds_up_nobody_but_itself() {
    let place = TestEnvironment::new();
    let (mut child, mut stdin, stdout) = start(&place);
    let before = memory(&child);
    let writes = std::thread::spawn(move || {
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let lines = format!("{INIT}\n{}", format!("{list}\n").repeat(100_000));
        // It stops taking them, and is killed below.
        let _ = stdin.write_all(lines.as_bytes());
    });
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        let grown = memory(&child).saturating_sub(before);
        assert!(grown < 64, "it grew by {grown} MB");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(child.try_wait().unwrap().is_none(), "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    writes.join().unwrap();
    drop(stdout);
}
