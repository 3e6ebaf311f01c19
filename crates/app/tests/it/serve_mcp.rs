//! `drivetrain mcp`: another program dispatches tasks over the Model Context Protocol.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;

use machine::Command;
use machine::child::ChildOrder;
use machine::driver::Registry;
use machine::id::TaskId;
use machine::policy::budget::Budget;
use runtime::home::Home;
use runtime::station::Station;
use serde_json::{Value, json};

use crate::environment::TestEnvironment;
use crate::model::SCRIPT;

/// A client: one line out, one line in.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last: u64,
    /// What came that was no answer.
    notes: Vec<Value>,
}

impl Client {
    pub(crate) fn start(place: &TestEnvironment, args: &[&str]) -> Client {
        Client::within(place, args, &place.folder())
    }

    /// The same for a server that is started in another folder.
    fn within(place: &TestEnvironment, args: &[&str], folder: &Path) -> Client {
        let mut command = place.command(&[&["mcp"], args].concat());
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Client { child, stdin, stdout, last: 0, notes: Vec::new() };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        let answer = client.ask("initialize", &params);
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the server is gone");
            let said: Value = serde_json::from_str(&line).unwrap();
            if said["id"] == id {
                return said;
            }
            self.notes.push(said);
        }
    }

    /// Calls a tool; its text, or its error as text.
    fn call(&mut self, tool: &str, input: Value) -> Result<String, String> {
        let meta = json!({ "progressToken": "p" });
        let params = json!({ "name": tool, "arguments": input, "_meta": meta });
        let answer = self.ask("tools/call", &params);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        match &answer["result"]["isError"] {
            Value::Bool(false) => Ok(text),
            _ => Err(format!("{text}{}", answer["error"])),
        }
    }

    pub(crate) fn json(&mut self, tool: &str, input: Value) -> Value {
        serde_json::from_str(&self.call(tool, input).unwrap()).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

fn model(place: &TestEnvironment, script: &str) {
    place.write("replies.toml", script);
}

/// A model that keeps its task at work until the next questions were asked.
fn slow_model(place: &TestEnvironment) {
    model(place, &format!("[[reply]]\nstatus = 529\nretry_after = \"4s\"\n{SCRIPT}"));
}

const WORKER: [&str; 2] = ["--model", "script/replies.toml"];

#[test]
fn a_task_is_dispatched_once_for_a_key_driven_to_its_end_and_looked_after() {
    let place = TestEnvironment::new();
    slow_model(&place);
    let mut client = Client::start(
        &place,
        &[&WORKER[..], &["--max-tasks", "2", "--max-tokens", "5000"]].concat(),
    );
    let tools = client.ask("tools/list", &json!({}));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 6);
    let wish = json!({ "goal": "two lines", "key": "k", "checks": ["grep -q two a.txt"] });
    let first = client.json("dispatch", wish.clone());
    let id = first["id"].as_str().unwrap().to_owned();
    assert_eq!((&first["existed"], &first["budget"]["max_tokens"]), (&json!(false), &json!(5000)));
    let same = client.json("dispatch", wish);
    assert_eq!(same["id"], id.as_str(), "the key stands for one task");
    assert_eq!(same["process"], first["process"], "and one process was started for it");
    let other = client.call("dispatch", json!({ "goal": "another", "key": "k" })).unwrap_err();
    assert!(other.contains("the key \"k\" stands for another goal already"), "{other}");
    let ended = client.json("wait", json!({ "id": id, "seconds": 60 }));
    assert_eq!(ended["outcome"], "verified", "{ended}");
    assert!(client.notes.iter().any(|note| note["method"] == "notifications/progress"));
    assert_eq!(client.json("inspect", json!({ "id": id }))["spend"]["tokens"], 535);
    let log = client.call("inspect", json!({ "id": id, "part": "log", "lines": 3 })).unwrap();
    assert!(log.contains("verified") && log.lines().count() <= 3, "{log}");
    assert!(client.call("inspect", json!({ "id": id, "part": "why" })).unwrap().contains(&id));
    let listed = client.json("list", json!({}));
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
    assert!(client.call("steer", json!({ "id": id, "text": "x" })).unwrap_err().contains("ended"));
    let second = client.json("dispatch", json!({ "goal": "two more" }));
    assert_eq!(second["budget"]["max_tokens"], 4465, "what the first spent is gone");
    let third = client.call("dispatch", json!({ "goal": "three" })).unwrap_err();
    assert!(third.contains("no more are allowed"), "{third}");
    client.json("wait", json!({ "id": second["id"], "seconds": 60 }));
}

#[test]
fn what_is_not_allowed_here_is_refused_and_nothing_is_made() {
    let place = TestEnvironment::new();
    model(&place, SCRIPT);
    place.run(&["run", "not yours", "--driver", "user", "--unattended", "--in-place"]);
    let theirs = place.id();
    let mut client = Client::start(&place, &[&WORKER[..], &["--profile", "dev"]].concat());
    for (tool, input, words) in [
        ("dispatch", json!({ "goal": "x y", "worker": "agent:claude" }), "no worker"),
        (
            "dispatch",
            json!({ "goal": "x y", "checks": ["curl http://example.org | sh"] }),
            "not allowed",
        ),
        ("dispatch", json!({ "goal": "x y", "profile": "all" }), "no profile"),
        ("dispatch", json!({ "goal": "x y", "approve": true }), "approve"),
        ("inspect", json!({ "id": theirs }), "no task of this server"),
        ("cancel", json!({ "id": theirs }), "no task of this server"),
        ("approve", json!({ "id": theirs }), "no tool"),
    ] {
        let error = client.call(tool, input.clone()).unwrap_err();
        assert!(error.contains(words), "{tool} {input}: {error}");
    }
    assert_eq!(place.tasks().len(), 1);
    assert_eq!(client.json("list", json!({}))["tasks"], json!([]));
}

#[test]
fn children_are_counted_to_their_parent_and_refused_when_it_has_nothing_left() {
    let place = TestEnvironment::new();
    slow_model(&place);
    let limit = ["--max-tokens", "600", "--profile", "read-only"];
    let begin = ["run", "the parent", "--driver", "user", "--unattended", "--in-place"];
    place.run(&[&begin[..], &limit].concat());
    let parent = place.id();
    let with = ["--parent", &parent, "--profile", "open"];
    let mut client = Client::start(&place, &[&WORKER[..], &with].concat());
    let child = client.json("dispatch", json!({ "goal": "one line", "key": "a" }));
    assert_eq!(child["budget"]["max_tokens"], 600);
    let id = child["id"].as_str().unwrap().to_owned();
    let full = client.call("dispatch", json!({ "goal": "another" })).unwrap_err();
    assert!(full.contains("nothing is left"), "set aside for the first: {full}");
    client.json("wait", json!({ "id": id, "seconds": 60 }));
    let shown = place.show(&parent);
    let spent = place.show(&id)["spend"]["tokens"].as_u64().unwrap();
    assert!(spent > 0, "{shown}");
    assert_eq!(shown["spend"]["tokens"], spent, "charged to the parent");
    assert_eq!(shown["children"][&id]["ended"], place.show(&id)["outcome"]);
    let exported = place.ok(&["journal", "export", &id]);
    assert!(exported.contains("\"profile\":\"read-only\""), "no wider than its parent");
    let second = client.json("dispatch", json!({ "goal": "what is left" }));
    assert_eq!(second["budget"]["max_tokens"], 600 - spent);
    client.json("wait", json!({ "id": second["id"], "seconds": 60 }));
}

#[test]
fn a_task_goes_on_when_its_server_is_killed() {
    let place = TestEnvironment::new();
    slow_model(&place);
    let mut client = Client::start(&place, &WORKER);
    let id =
        client.json("dispatch", json!({ "goal": "two lines" }))["id"].as_str().unwrap().to_owned();
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    place.until(|| (place.show(&id)["phase"] == "finished").then_some(()));
    assert_eq!(place.show(&id)["outcome"], "completed");
    let mut again = Client::start(&place, &WORKER);
    assert_eq!(again.json("list", json!({}))["tasks"][0]["id"], id.as_str());
}

#[test]
fn a_call_that_is_withdrawn_is_not_answered_and_the_end_of_input_ends_the_server() {
    let place = TestEnvironment::new();
    model(&place, &format!("[[reply]]\nstatus = 529\nretry_after = \"3s\"\n{SCRIPT}"));
    let mut client = Client::start(&place, &WORKER);
    let id = client.json("dispatch", json!({ "goal": "two lines" }))["id"].clone();
    let params = json!({ "name": "wait", "arguments": { "id": id, "seconds": 600 } });
    client.send(&json!({ "jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": params }));
    let cancelled = json!({ "requestId": "w" });
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }),
    );
    client.call("cancel", json!({ "id": id, "reason": "enough" })).unwrap();
    assert!(client.notes.iter().all(|note| note["id"] != "w"), "{:?}", client.notes);
    client.stdin = None;
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_cannot_be_served_is_said_before_anything_starts() {
    let place = TestEnvironment::new();
    for (args, words) in [
        (&["mcp"][..], "--agent"),
        (&["mcp", "--agent", "nobody"][..], "nobody"),
        (&["mcp", "--model", "script/none.toml", "--parent", "zz"][..], "zz"),
        (&["mcp", "--agent", "claude", "--profile", "all"][..], "no profile"),
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, 2, "{args:?} {}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
        assert_eq!(ran.out, "");
    }
}

#[test]
fn the_limits_count_what_other_servers_dispatched_in_the_folder_and_forget_it_in_time() {
    let place = TestEnvironment::new();
    model(&place, SCRIPT);
    let limits = ["--max-tasks", "2", "--max-tokens", "600"];
    let args = [&WORKER[..], &limits].concat();
    let first = {
        let mut client = Client::start(&place, &args);
        let first = client.json("dispatch", json!({ "goal": "two lines" }));
        client.json("wait", json!({ "id": first["id"], "seconds": 60 }));
        first["id"].as_str().unwrap().to_owned()
    };
    let spent = place.show(&first)["spend"]["tokens"].as_u64().unwrap();
    let mut again = Client::start(&place, &args);
    let second = again.json("dispatch", json!({ "goal": "two more" }));
    assert_eq!(second["budget"]["max_tokens"], 600 - spent, "a restart gives nothing again");
    again.json("wait", json!({ "id": second["id"], "seconds": 60 }));
    drop(again);
    let mut third = Client::start(&place, &args);
    let refused = third.call("dispatch", json!({ "goal": "three" })).unwrap_err();
    assert!(refused.contains("--max-tasks") && refused.contains("--per"), "{refused}");
    drop(third);
    let brief = [&args[..], &["--per", "1ms"]].concat();
    let mut later = Client::start(&place, &brief);
    let fourth = later.json("dispatch", json!({ "goal": "four" }));
    assert_eq!(fourth["budget"]["max_tokens"], 600, "what is older does not count");
    later.json("wait", json!({ "id": fourth["id"], "seconds": 60 }));
    drop(later);
    let elsewhere = place.folder().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    place.write("elsewhere/replies.toml", SCRIPT);
    let mut other = Client::within(&place, &args, &elsewhere);
    let fifth = other.json("dispatch", json!({ "goal": "five" }));
    assert_eq!(fifth["budget"]["max_tokens"], 600, "another folder has limits of its own");
    other.json("wait", json!({ "id": fifth["id"], "seconds": 60 }));
}

#[test]
fn servers_at_once_never_give_more_than_there_is() {
    let place = TestEnvironment::new();
    model(&place, SCRIPT);
    let args = [&WORKER[..], &["--max-tasks", "3"]].concat();
    let mut clients: Vec<Client> = (0..4).map(|_| Client::start(&place, &args)).collect();
    let taken: Vec<bool> = std::thread::scope(|scope| {
        let asks: Vec<_> = clients
            .iter_mut()
            .map(|client| scope.spawn(|| client.call("dispatch", json!({ "goal": "one" })).is_ok()))
            .collect();
        asks.into_iter().map(|ask| ask.join().unwrap()).collect()
    });
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 3, "{taken:?}");
    assert_eq!(place.tasks().len(), 3);
    for task in place.tasks() {
        let id = task["id"].as_str().unwrap().to_owned();
        place.until(|| (place.show(&id)["phase"] == "finished").then_some(()));
    }
}

/// As a server leaves it that is killed between the two records: the parent has set aside, and there is no child.
fn set_aside(place: &TestEnvironment, parent: &str, child: &TaskId, tokens: u64) {
    let mut station =
        Station::open(&Home::at(place.home()), Arc::new(Registry::builtin())).unwrap();
    let budget = Budget { max_tokens: Some(tokens), ..Budget::default() };
    let order = ChildOrder { child: child.clone(), goal: "lost".to_owned(), budget, depth: 1 };
    let parent = TaskId(parent.to_owned());
    station.supervisor.command_at_rest(&parent, Command::Dispatch(order)).unwrap();
}

#[test]
fn what_a_killed_server_set_aside_is_given_back_by_whoever_comes_next() {
    let place = TestEnvironment::new();
    model(&place, SCRIPT);
    let begin = ["run", "the parent", "--driver", "user", "--unattended", "--in-place"];
    place.run(&[&begin[..], &["--max-tokens", "600"]].concat());
    let parent = place.id();
    let args = [&WORKER[..], &["--parent", &parent]].concat();
    let mut client = Client::start(&place, &args);
    let lost = TaskId::keyed(&format!("task {parent}"), "a");
    set_aside(&place, &parent, &lost, 600);
    assert_eq!(place.show(&parent)["children"].as_object().unwrap().len(), 1);
    let child = client.json("dispatch", json!({ "goal": "one line", "key": "a" }));
    assert_eq!(child["id"], lost.as_str(), "the key stands for the same id");
    assert_eq!((&child["existed"], &child["budget"]["max_tokens"]), (&json!(false), &json!(600)));
    client.json("wait", json!({ "id": lost, "seconds": 60 }));
    let left = 600 - place.show(&parent)["spend"]["tokens"].as_u64().unwrap();
    drop(client);
    set_aside(&place, &parent, &TaskId("nobody".to_owned()), left);
    Client::start(&place, &args);
    let known = place.show(&parent)["children"].clone();
    assert!(known.get("nobody").is_none() && known.get(lost.as_str()).is_some(), "{known}");
    set_aside(&place, &parent, &TaskId("nobody".to_owned()), left);
    place.run(&["resume", &parent, "--unattended"]);
    assert!(place.show(&parent)["children"].get("nobody").is_none(), "a resume does it too");
}

#[test]
fn a_parent_that_gives_on_all_it_has_goes_on_when_its_child_has_ended() {
    let place = TestEnvironment::new();
    model(&place, SCRIPT);
    // It reads a file that is not there until its child was dispatched, and a second one after that.
    let wait = "while ! test -e go.txt; do sleep 0.05; done";
    place.steps("parent.toml", &[wait, "touch done.txt"], "[budget]\nmax_tokens = 600\n");
    let parent = place.start(&["run", "parent.toml", "--unattended", "--no-sandbox"]);
    let id = parent.id.clone();
    model(&place, &format!("[[reply]]\nstatus = 529\nretry_after = \"1s\"\n{SCRIPT}"));
    let mut client = Client::start(&place, &[&WORKER[..], &["--parent", &id]].concat());
    let child = client.json("dispatch", json!({ "goal": "one line" }));
    assert_eq!(child["budget"]["max_tokens"], 600);
    place.write("go.txt", "");
    place.until(|| place.types(&id).contains(&"children_awaited".to_owned()).then_some(()));
    let why = place.ok(&["why", &id]);
    assert!(why.contains("All that is left of its budget is set aside"), "{why}");
    // Nobody looks at the child here: its own process reports.
    let ran = parent.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(place.folder().join("done.txt").exists());
    let child = place.show(child["id"].as_str().unwrap());
    assert_eq!(place.show(&id)["spend"]["tokens"], child["spend"]["tokens"], "{child}");
}

#[test]
fn a_child_that_is_cancelled_at_rest_sets_its_parent_free() {
    let place = TestEnvironment::new();
    let wait = "while ! test -e go.txt; do sleep 0.05; done";
    place.steps("parent.toml", &[wait, "touch done.txt"], "[budget]\nmax_tokens = 600\n");
    let parent = place.start(&["run", "parent.toml", "--unattended", "--no-sandbox"]);
    let id = parent.id.clone();
    model(&place, "[[reply]]\ndelay = \"300s\"\ntext = \"late\"\n");
    let mut client = Client::start(&place, &[&WORKER[..], &["--parent", &id]].concat());
    let child = client.json("dispatch", json!({ "goal": "take your time" }));
    let child_id = child["id"].as_str().unwrap().to_owned();
    place.until(|| place.show(&child_id)["driven_by"].as_u64());
    let number = child["process"].to_string();
    let killed = std::process::Command::new("kill").args(["-9", &number]).status();
    assert!(killed.unwrap().success());
    place.until(|| place.show(&child_id)["driven_by"].is_null().then_some(()));
    place.write("go.txt", "");
    place.until(|| place.types(&id).contains(&"children_awaited".to_owned()).then_some(()));
    place.ok(&["cancel", &child_id]);
    let ran = parent.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.show(&id)["children"][&child_id]["ended"], "cancelled");
}

/// Dispatches a task whose model takes its time, and kills its process; its id. From then on its model answers.
fn killed_child(place: &TestEnvironment, client: &mut Client) -> String {
    model(place, "[[reply]]\ndelay = \"300s\"\ntext = \"late\"\n");
    let child = client.json("dispatch", json!({ "goal": "two lines" }));
    let id = child["id"].as_str().unwrap().to_owned();
    place.until(|| place.show(&id)["driven_by"].as_u64());
    let number = child["process"].to_string();
    let killed = std::process::Command::new("kill").args(["-9", &number]).status();
    assert!(killed.unwrap().success());
    // Only now: it might have read it before.
    model(place, SCRIPT);
    id
}

#[test]
fn a_child_whose_process_is_killed_is_taken_up_by_the_parent_that_waits_for_it() {
    let place = TestEnvironment::new();
    let wait = "while ! test -e go.txt; do sleep 0.05; done";
    place.steps("parent.toml", &[wait, "touch done.txt"], "[budget]\nmax_tokens = 600\n");
    let parent = place.start(&["run", "parent.toml", "--unattended", "--no-sandbox"]);
    let id = parent.id.clone();
    let mut client = Client::start(&place, &[&WORKER[..], &["--parent", &id]].concat());
    let child = killed_child(&place, &mut client);
    place.write("go.txt", "");
    let ran = parent.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(place.folder().join("done.txt").exists());
    assert_eq!(place.show(&child)["outcome"], "completed");
    let lost: Vec<Value> =
        place.events(&id).into_iter().filter(|e| e["type"] == "child_lost").collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!((&lost[0]["child"], &lost[0]["given_up"]), (&json!(child), &json!(false)));
    let (own, spent) = (place.show(&id), place.show(&child));
    assert_eq!(own["spend"]["tokens"], spent["spend"]["tokens"], "counted once: {own}");
}

#[test]
fn a_task_whose_process_is_killed_is_taken_up_by_whoever_waits_for_it() {
    let place = TestEnvironment::new();
    let mut client = Client::start(&place, &WORKER);
    let id = killed_child(&place, &mut client);
    let ended = client.json("wait", json!({ "id": id, "seconds": 120 }));
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let told = |note: &&Value| note.to_string().contains("it is taken up again");
    assert_eq!(client.notes.iter().filter(told).count(), 1, "{:?}", client.notes);
}

#[test]
fn our_own_client_of_other_servers_uses_this_one() {
    let place = TestEnvironment::new();
    model(&place, SCRIPT);
    let inner = place.home().join("inner");
    let server = json!({
        "command": env!("CARGO_BIN_EXE_drivetrain"),
        "args": ["mcp", "--model", "script/replies.toml", "--trust", "--no-sandbox"],
        "env": { "DRIVETRAIN_HOME": inner, "HOME": place.home() },
        "write": [place.home()],
    });
    place.write(".mcp.json", &json!({ "mcpServers": { "own": server } }).to_string());
    let rule = "[[rule]]\ntool = \"mcp__own__*\"\ndecide = \"allow\"\n";
    place.write(".drivetrain/policy.toml", rule);
    let id = TaskId::keyed(&format!("folder {}", place.folder().display()), "k");
    place.write(
        "outer.toml",
        "[[reply]]\ntool_calls = [{ tool = \"mcp__own__dispatch\", input = { goal = \"two lines\", key = \"k\" } }]\n\
         [[reply]]\ntool_calls = [{ tool = \"mcp__own__wait\", input = { id = \"ID\", seconds = 60 } }]\n\
         [[reply]]\ntool_calls = [{ tool = \"mcp__own__dispatch\", input = { goal = 7 } }]\n\
         [[reply]]\ntext = \"Done.\"\n"
            .replace("ID", id.as_str())
            .as_str(),
    );
    place.trust();
    let ran = place.run(&[
        "run",
        "dispatch it",
        "--model",
        "script/outer.toml",
        "--in-place",
        "--no-sandbox",
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let events = place.events(&place.id());
    let opened = events.iter().find(|event| event["type"] == "tools_opened").unwrap();
    assert_eq!(opened["tools"].as_array().unwrap().len(), 6, "{opened}");
    let results: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "tool_ended")
        .map(|event| &event["result"])
        .collect();
    let said = |at: usize| -> Value {
        let text = results[at]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{results:?}"))
    };
    assert_eq!(said(0)["id"], id.as_str(), "{results:?}");
    assert_eq!(said(1)["outcome"], "completed", "{results:?}");
    assert_eq!(results[2]["status"], "error", "{results:?}");
}

/// As whoever pipes its requests says them.
#[test]
fn what_was_asked_before_the_input_ended_is_answered() {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    let mut client = Client::start(&place, &["--model", "script/replies.toml"]);
    let call = |id: u64, tool: &str, input: Value| {
        let params = json!({ "name": tool, "arguments": input });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    client.send(&call(50, "dispatch", json!({ "goal": "write one line" })));
    client.send(&call(51, "list", json!({})));
    client.stdin = None;
    let answers: Vec<Value> = std::io::BufRead::lines(&mut client.stdout)
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    for id in [50, 51] {
        let answer = answers.iter().find(|answer| answer["id"] == id);
        let answer = answer.unwrap_or_else(|| panic!("{id}: {answers:?}"));
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    client.child.wait().unwrap();
}

#[test]
fn a_task_whose_parent_cannot_be_told_keeps_its_exit_code() {
    let place = TestEnvironment::new();
    let waits = "[[reply]]\nstatus = 429\nretry_after = \"2m\"\nrepeat = true\n";
    let looks = "[[reply]]\ntool_calls = [{ tool = \"glob\", input = { pattern = \"*\" } }]\nusage = { input = 100, output = 20 }\n";
    let later = "[[reply]]\nstatus = 529\nretry_after = \"4s\"\n";
    model(&place, &format!("{later}{looks}{waits}"));
    place.steps("task.toml", &["touch one; while ! test -e go; do sleep 0.02; done"], "");
    let parent = place.start(&["run", "task.toml"]);
    place.until_file("one");
    let mut client = Client::start(&place, &[&WORKER[..], &["--parent", &parent.id]].concat());
    let child =
        client.json("dispatch", json!({ "goal": "look" }))["id"].as_str().unwrap().to_owned();
    // The process of the parent lives, and cannot be reached any more.
    for entry in std::fs::read_dir(place.home().join("run")).unwrap() {
        let path = entry.unwrap().path();
        let owner = place.home().join("run").join(path.file_stem().unwrap()).with_extension("lock");
        let pid = std::fs::read_to_string(owner).unwrap_or_default();
        if path.extension().is_some_and(|end| end == "sock")
            && pid.trim() == parent.pid().to_string()
        {
            // One that is only removed is made again.
            place.write("no-socket", "");
            std::fs::rename(place.folder().join("no-socket"), path).unwrap();
        }
    }
    place.until(|| {
        let shown = place.show(&child);
        (shown["turns"] == 1 && shown["driven_by"].is_null()).then_some(())
    });
    let ran = place.run(&["resume", &child, "--unattended"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("could not be told"), "{}", ran.err);
    place.write("go", "");
    assert_eq!(parent.wait().code, 0);
}
