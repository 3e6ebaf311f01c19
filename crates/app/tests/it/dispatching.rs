//! A task that drivetrain drives dispatches tasks itself: the server of tools is drivetrain, and its calls pass the gate.

use machine::id::TaskId;
use runtime::dispatching::Dispatching;
use runtime::home::Home;
use serde_json::{Value, json};

use crate::environment::TestEnvironment;
use crate::model::SCRIPT;
use crate::serve_mcp::Client;

const RUN: [&str; 7] = [
    "run",
    "the parent",
    "--model",
    "script/replies.toml",
    "--in-place",
    "--no-sandbox",
    "--unattended",
];

/// A project whose tasks may have a scripted model work for them.
fn project(policy: &str) -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write(
        ".drivetrain/mcp.toml",
        "[server.tasks]\ndispatch = { models = [\"script/child.toml\"], max_tasks = 2 }\n",
    );
    place.write(".drivetrain/policy.toml", policy);
    place.trust();
    place
}

const OPEN: &str = "[[rule]]\ntool = \"shell\"\ndecide = \"allow\"\n";

/// What a child of this task has as its id if it was dispatched with this key.
fn child_of(parent: &str, key: &str) -> String {
    TaskId::keyed(&format!("task {parent}"), key).to_string()
}

fn calls(tool: &str, input: &str) -> String {
    let usage = "usage = { input = 10, output = 1 }";
    format!("[[reply]]\ntool_calls = [{{ tool = \"{tool}\", input = {input} }}]\n{usage}\n")
}

const ENDS: &str = "[[reply]]\ntext = \"Done.\"\nusage = { input = 10, output = 1 }\n";
const DISPATCH: &str = "{ goal = \"one line\", key = \"k\" }";

fn of(events: &[Value], kind: &str, tool: &str) -> Vec<Value> {
    let fits = |event: &&Value| event["type"] == kind && event["tool"] == tool;
    events.iter().filter(fits).cloned().collect()
}

fn kill(process: &Value) {
    let killed = std::process::Command::new("kill").args(["-9", &process.to_string()]).status();
    assert!(killed.unwrap().success());
}

#[test]
fn a_model_dispatches_a_task_that_goes_on_without_it_and_waits_for_it_when_it_is_resumed() {
    let place = project("");
    let late = "[[reply]]\ndelay = \"300s\"\ntext = \"late\"\n";
    place.write("child.toml", late);
    place.write("replies.toml", &format!("{}{late}", calls("mcp__tasks__dispatch", DISPATCH)));
    let parent = place.start(&[&RUN[..], &["--max-tokens", "2000"]].concat());
    let id = parent.id.clone();
    let child = child_of(&id, "k");
    // It is counted to its parent before it is there.
    place.until(|| {
        let tasks = place.tasks();
        tasks.iter().find(|task| task["id"] == child.as_str())?["driven_by"].as_u64()
    });
    place.until(|| {
        let ended = of(&place.events(&id), "tool_ended", "mcp__tasks__dispatch");
        ended.first().map(|ended| assert_eq!(ended["result"]["status"], "ok", "{ended}"))
    });
    parent.signal("TERM");
    parent.wait();
    let driven_by = place.show(&child)["driven_by"].clone();
    assert!(driven_by.is_u64(), "the child goes on");

    // Its process is killed, so whoever waits for it takes it up.
    kill(&driven_by);
    place.write("child.toml", SCRIPT);
    let wait = calls("mcp__tasks__wait", &format!("{{ id = \"{child}\", seconds = 60 }}"));
    let before = calls("mcp__tasks__dispatch", DISPATCH);
    place.write("replies.toml", &format!("{before}{wait}{ENDS}"));
    place.ok(&["raise", &id, "--max-tokens", "4000"]);
    let ran = place.run(&["resume", &id, "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let events = place.events(&id);
    let waited = of(&events, "tool_ended", "mcp__tasks__wait");
    let told = waited[0]["result"]["text"].as_str().unwrap();
    assert!(told.contains("\"outcome\":\"completed\""), "{told}");
    assert_eq!(place.tasks().len(), 2);
    let (own, theirs) = (place.show(&id), place.show(&child));
    assert_eq!(own["children"][&child]["ended"], "completed");
    let spent = theirs["spend"]["tokens"].as_u64().unwrap();
    assert_eq!(own["spend"]["tokens"], 33 + spent, "the child is counted to its parent: {own}");
    assert_eq!(place.read("a.txt"), "one\n");
}

#[test]
fn a_dispatch_that_the_policy_denies_makes_nothing() {
    let deny = "[[rule]]\ntool = \"mcp__tasks__dispatch\"\ndecide = \"deny\"\nreason = \"alone\"\n";
    let place = project(deny);
    place.write("child.toml", SCRIPT);
    let list = calls("mcp__tasks__list", "{ }");
    place
        .write("replies.toml", &format!("{}{list}{ENDS}", calls("mcp__tasks__dispatch", DISPATCH)));
    let ran = place.run(&RUN);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let events = place.events(&place.id());
    let refused = of(&events, "tool_ended", "mcp__tasks__dispatch");
    assert_eq!(refused[0]["result"]["status"], "denied", "{refused:?}");
    let listed = of(&events, "tool_ended", "mcp__tasks__list");
    assert_eq!(listed[0]["result"]["text"], "{\"tasks\":[]}");
}

#[test]
fn without_a_rule_one_that_may_only_read_is_not_let_and_none_is_made_without_a_key() {
    let place = project("");
    place.write("child.toml", SCRIPT);
    let calls = calls("mcp__tasks__dispatch", DISPATCH);
    place.write("replies.toml", &format!("{calls}{ENDS}"));
    place.run(&[&RUN[..], &["--profile", "read-only"]].concat());
    let ended = of(&place.events(&place.id()), "tool_ended", "mcp__tasks__dispatch");
    assert_eq!(ended[0]["result"]["status"], "denied", "{ended:?}");
    place.write("replies.toml", &format!("{}{ENDS}", calls.replace(", key = \"k\"", "")));
    let before = place.id();
    place.run(&RUN);
    let tasks = place.tasks();
    let id = tasks.iter().map(|task| task["id"].as_str().unwrap()).find(|id| *id != before);
    let ended = of(&place.events(id.unwrap()), "tool_ended", "mcp__tasks__dispatch");
    let told = ended[0]["result"]["text"].as_str().unwrap();
    assert!(told.contains("key"), "{told}");
    assert_eq!(tasks.len(), 2, "nothing was dispatched");
}

#[test]
fn killed_in_the_middle_of_a_dispatch_a_task_has_one_child_when_it_is_resumed() {
    let place = project(OPEN);
    place.write("child.toml", SCRIPT);
    let until = calls("shell", "{ command = \"while ! test -e go.txt; do sleep 0.05; done\" }");
    let dispatch = calls("mcp__tasks__dispatch", DISPATCH);
    place.write("replies.toml", &format!("{until}{dispatch}{ENDS}"));
    let parent = place.start(&RUN);
    let id = parent.id.clone();
    place.until(|| (!of(&place.events(&id), "tool_started", "shell").is_empty()).then_some(()));
    let held = Dispatching::begin(&Home::at(place.home()), &format!("task {id}")).unwrap();
    place.write("go.txt", "");
    let began = |id: &str| of(&place.events(id), "tool_started", "mcp__tasks__dispatch");
    place.until(|| (!began(&id).is_empty()).then_some(()));
    parent.signal("KILL");
    parent.wait();
    place.until_quiet();
    drop(held);
    assert_eq!(place.tasks().len(), 1, "its server is gone with it");

    // As if it had been killed a moment later: the child is there, and the answer is not.
    let worker = ["--model", "script/child.toml", "--parent", &id];
    let made = Client::start(&place, &worker)
        .json("dispatch", json!({ "goal": "one line", "key": "k" }))["id"]
        .clone();
    let ran = place.run(&["resume", &id, "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ended = of(&place.events(&id), "tool_ended", "mcp__tasks__dispatch");
    let told: Value = serde_json::from_str(ended[0]["result"]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&told["id"], &told["existed"]), (&made, &json!(true)), "{told}");
    assert_eq!(place.tasks().len(), 2);
    let child = made.as_str().unwrap();
    place.until(|| (place.show(child)["phase"] == "finished").then_some(()));
}

#[test]
fn a_coding_agent_dispatches_tasks_too() {
    let place = project("");
    place.write("child.toml", SCRIPT);
    let said = |text: &str| {
        let content = json!([{ "type": "text", "text": text }]);
        json!({ "type": "assistant", "message": { "role": "assistant", "content": content }, "session_id": "s" })
    };
    let begins = json!({ "type": "system", "subtype": "init", "session_id": "s", "permissionMode": "default" });
    let ends = json!({ "type": "result", "subtype": "success", "is_error": false, "result": "done", "session_id": "s" });
    let call = r#"call tasks__dispatch {"goal":"one line","key":"k"}"#;
    let steps =
        format!("{begins}\n{call}\n{call}\ncall tasks__list {{}}\n{}\n{ends}\n", said("done"));
    place.write("steps.txt", &steps);
    place.write(
        ".drivetrain/agents/played.toml",
        &format!(
            "[agent]\nname = \"played\"\nprotocol = \"claude\"\nidle = \"60s\"\n\
             command = [{:?}, \"fake\", \"agent\", \"steps.txt\"]\n",
            env!("CARGO_BIN_EXE_drivetrain")
        ),
    );
    place.trust();
    let ran = place.run(&["run", "the parent", "--agent", "played", "--in-place", "--no-sandbox"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let answers = place.read("called.txt");
    let lines: Vec<&str> = answers.lines().collect();
    assert!(lines[0].contains("\"existed\":false"), "{answers}");
    assert!(lines[1].contains("\"existed\":true"), "{answers}");
    assert!(lines[2].contains("\"goal\":\"one line\""), "{answers}");
    let tasks = place.tasks();
    assert_eq!(tasks.len(), 2);
    let is_parent = |task: &&Value| task["goal"] == "the parent";
    let parent = tasks.iter().find(is_parent).unwrap()["id"].as_str().unwrap();
    let child = child_of(parent, "k");
    place.until(|| (place.show(&child)["phase"] == "finished").then_some(()));
    assert_eq!(place.show(&child)["dispatch"]["parent"], parent);
}

#[test]
fn what_would_be_started_is_shown_before_it_is_trusted_and_its_tools_are_listed() {
    let place = project("");
    place.write("child.toml", SCRIPT);
    let shown = place.ok(&["trust", "--show"]);
    let words =
        "drivetrain mcp --require-key --parent=TASK --model=script/child.toml --max-tasks=2";
    assert!(shown.contains(words), "{shown}");
    let shown: Value = serde_json::from_str(&place.ok(&["trust", "--show", "--json"])).unwrap();
    let files = shown["files"].as_array().unwrap();
    let declared = files.iter().find_map(|file| file["servers"][0]["dispatch"].as_array());
    assert_eq!(declared.unwrap()[2], "--parent=TASK");
    let listed = place.ok(&["tools"]);
    assert!(listed.contains("mcp__tasks__dispatch: "), "{listed}");
    assert!(!listed.contains("in doubt, a person decides\n  mcp__tasks"), "{listed}");
    assert!(place.tasks().is_empty());
}

#[test]
fn what_a_child_gave_on_counts_at_its_parent_until_that_has_ended_too() {
    let place = project("");
    place.write(
        ".drivetrain/mcp.toml",
        "[server.tasks.dispatch]\nmodels = [\"script/child.toml\", \"script/late.toml\"]\n",
    );
    place.trust();
    place.write("late.toml", "[[reply]]\ndelay = \"300s\"\ntext = \"late\"\n");
    let gives_on =
        "{ goal = \"deeper\", key = \"g\", worker = \"model:script/late.toml\", max_usd = 1.0 }";
    place.write("child.toml", &format!("{}{ENDS}", calls("mcp__tasks__dispatch", gives_on)));
    place.write("replies.toml", &calls("ask", "{ question = \"Which?\" }"));
    place.run(&[&RUN[..], &["--max-usd", "5"]].concat());
    let parent = place.id();
    let worker = ["--model", "script/child.toml", "--parent", &parent];
    let mut client = Client::start(&place, &worker);
    let wish = json!({ "goal": "a part", "key": "c", "max_usd": 4.0 });
    let child = client.json("dispatch", wish)["id"].as_str().unwrap().to_owned();
    let ended = client.json("wait", json!({ "id": child, "seconds": 60 }));
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let charged = || place.show(&parent)["spend"]["usd"].as_f64().unwrap();
    assert!((charged() - 1.0).abs() < 1e-9, "what the child of the child may spend: {}", charged());
    place.ok(&["cancel", &child_of(&child, "g")]);
    place.until(|| (charged().abs() < 1e-9).then_some(()));
}
