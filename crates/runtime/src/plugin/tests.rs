//! Plugins as small shell scripts.

use machine::task::WorkspaceKind;

use super::*;

/// A plugin in shell: `$1` is what it does with a question, `$n` its id. It answers `initialize` itself.
fn plugin(on_decide: &str, capabilities: &str) -> Value {
    let script = format!(
        r#"
        say() {{ printf '%s\n' "$1"; }}
        answer() {{ say "{{\"jsonrpc\":\"2.0\",\"id\":$n,\"result\":$1}}"; }}
        while read -r line; do
            n=${{line#*\"id\":}}; n=${{n%%,*}}
            case "$line" in
            *'"method":"initialize"'*) first=$line; answer '{{"name":"t","version":"1","capabilities":{capabilities}}}';;
            *'"method":"observe"'*) seen="$seen+";;
            *'"method":"snapshot"'*) answer "\"seen$seen\"";;
            *'"method":"decide"'*) {on_decide};;
            esac
        done"#
    );
    json!({ "plugin": { "name": "t", "command": ["sh", "-c", script], "timeout": "5s" }, "config": { "a": 1 } })
}

fn decide(state: Value) -> Value {
    json!({ "method": "decide", "params": { "observations": [1, 2], "state": state } })
}

fn consult(
    plugins: &Plugins,
    task: &str,
    plugin: &Value,
    request: &Value,
    cancel: &Cancel,
) -> Result<Value, String> {
    let workspace = Workspace { kind: WorkspaceKind::None, path: None, branch: None, base: None };
    let walls = Walls { spec: &SandboxSpec::off(), workspace: &workspace };
    plugins.consult(task, plugin, request, walls, cancel)
}

fn ask(plugins: &Plugins, plugin: &Value) -> Result<Value, String> {
    consult(plugins, "t1", plugin, &decide(Value::Null), &Cancel::new())
}

#[test]
fn a_process_lives_from_one_question_to_the_next_and_ends_with_its_task() {
    let plugins = Plugins::new(None);
    let counts = plugin(r#"count=$((count+1)); answer "$count""#, "{}");
    assert_eq!(ask(&plugins, &counts), Ok(json!(1)));
    assert_eq!(ask(&plugins, &counts), Ok(json!(2)));
    let other = consult(&plugins, "t2", &counts, &decide(Value::Null), &Cancel::new());
    assert_eq!(other, Ok(json!(1)));
    plugins.close("t1");
    assert_eq!(ask(&plugins, &counts), Ok(json!(1)));
}

#[test]
fn each_driver_of_a_tree_has_its_own_process_and_configuration() {
    let plugins = Plugins::new(None);
    let counts = plugin(r#"count=$((count+1)); answer "$count""#, "{}");
    for path in [json!([0]), json!([1])] {
        let mut request = decide(Value::Null);
        request["plugin"] = counts["plugin"].clone();
        request["path"] = path;
        let answer = consult(&plugins, "t1", &json!({ "drivers": [] }), &request, &Cancel::new());
        assert_eq!(answer, Ok(json!(1)));
    }
}

#[test]
fn a_process_that_died_is_started_again_with_the_last_state() {
    let plugins = Plugins::new(None);
    let once = plugin(r#"answer "$first"; exit 0"#, "{}");
    let cancel = Cancel::new();
    let first = consult(&plugins, "t1", &once, &decide(Value::Null), &cancel).unwrap();
    assert_eq!(
        first["params"],
        json!({ "protocol": 1, "driver": "t", "config": { "a": 1 }, "state": null })
    );
    // The process ends right after its answer; wait for that, or the next question may meet it alive.
    let slot = lock(&plugins.slots).values().next().cloned().unwrap();
    assert!(lock(&slot).process.as_ref().unwrap().child.wait(Duration::from_secs(10)).is_some());
    let again = consult(&plugins, "t1", &once, &decide(json!({ "left": 2 })), &cancel).unwrap();
    assert_eq!(again["params"]["state"], json!({ "left": 2 }));
}

#[test]
fn noise_between_answers_is_skipped_and_a_request_is_refused() {
    let noisy = plugin(
        r#"say hello; say '{"jsonrpc":"2.0","method":"log","params":1}';
           say '{"jsonrpc":"2.0","id":999,"result":"stale"}';
           say '{"jsonrpc":"2.0","id":"q","method":"which"}'; read -r refusal; answer "$refusal""#,
        "{}",
    );
    let answer = ask(&Plugins::new(None), &noisy).unwrap();
    assert_eq!(answer["id"], "q");
    assert_eq!(answer["error"]["code"], jsonrpc::METHOD_NOT_FOUND);
}

#[test]
fn one_that_speaks_while_it_is_spoken_to_hears_all_of_it() {
    let script = r#"
import json, sys
def say(**what):
    print(json.dumps({"jsonrpc": "2.0", **what}), flush=True)
seen = 0
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        say(id=request["id"], result={"capabilities": ["observe"]})
    elif request["method"] == "observe":
        seen += 1
        say(method="log", params=request["params"])
    else:
        say(id=request["id"], result=seen)
"#;
    let plugin =
        json!({ "plugin": { "name": "t", "command": ["python3", "-c", script] }, "config": null });
    let seen: Vec<Value> =
        (0..40).map(|n| json!({ "n": n, "text": "x".repeat(16 * 1024) })).collect();
    let request = json!({ "method": "decide", "params": { "observations": seen, "state": null } });
    let answer = consult(&Plugins::new(None), "t1", &plugin, &request, &Cancel::new());
    assert_eq!(answer, Ok(json!(40)));
}

#[test]
fn too_much_noise_ends_it() {
    let error = ask(&Plugins::new(None), &plugin("while :; do say hello; done", "{}")).unwrap_err();
    assert!(
        error.starts_with("plugin t: 65 of its lines are no JSON-RPC, the last: not JSON"),
        "{error}"
    );
}

#[test]
fn edge_case_36_a_failure_shows_how_it_ended_and_the_end_of_its_error_output() {
    let plugins = Plugins::new(None);
    let error = ask(&plugins, &plugin("echo 'no such key' >&2; exit 3", "{}")).unwrap_err();
    let expected = "plugin t: it exited with 3 before it answered decide\nthe end of its error output:\nno such key";
    assert_eq!(error, expected);
    let refuses = r#"say "{\"jsonrpc\":\"2.0\",\"id\":$n,\"error\":{\"code\":-1,\"message\":\"not today\"}}""#;
    let error =
        consult(&plugins, "t2", &plugin(refuses, "{}"), &decide(Value::Null), &Cancel::new());
    assert_eq!(error, Err("plugin t: it refused decide: not today (-1)".to_owned()));
    let missing = json!({ "plugin": { "name": "t", "command": ["no-such-program-anywhere"] } });
    assert!(ask(&Plugins::new(None), &missing).unwrap_err().contains("there is no such program"));
}

#[test]
fn edge_case_36_a_process_that_does_not_answer_is_ended() {
    let plugins = Plugins::new(None);
    let mut silent = plugin(":", "{}");
    silent["plugin"]["timeout"] = json!("50ms");
    let error = ask(&plugins, &silent).unwrap_err();
    assert!(error.starts_with("plugin t: no answer to "), "{error}");
    assert!(lock(lock(&plugins.slots).values().next().unwrap()).process.is_none());
}

#[test]
fn a_question_can_be_cancelled() {
    let plugins = Plugins::new(None);
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let asked = scope
            .spawn(|| consult(&plugins, "t1", &plugin(":", "{}"), &decide(Value::Null), &cancel));
        cancel.trigger();
        let error = asked.join().unwrap().unwrap_err();
        assert!(error.contains("cancelled"), "{error}");
    });
    plugins.close("t1");
}

#[test]
fn a_question_that_nobody_reads_can_be_cancelled() {
    let script = r#"for n in 1 2; do read -r line; echo "{\"jsonrpc\":\"2.0\",\"id\":$n,\"result\":{}}"; done; sleep 60"#;
    let deaf = json!({ "plugin": { "name": "t", "command": ["sh", "-c", script] } });
    let long =
        json!({ "method": "decide", "params": { "goal": "x".repeat(1_000_000), "state": null } });
    let plugins = Plugins::new(None);
    // It is there and listens before it stops listening.
    let short = json!({ "method": "decide", "params": { "state": null } });
    assert_eq!(consult(&plugins, "t1", &deaf, &short, &Cancel::new()), Ok(json!({})));
    let cancel = Cancel::new();
    let (stop, (sender, ended)) = (cancel.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let _ = sender.send(consult(&plugins, "t1", &deaf, &long, &cancel));
    });
    assert!(ended.recv_timeout(Duration::from_secs(1)).is_err(), "it waits for the plugin");
    stop.trigger();
    let error = ended.recv_timeout(Duration::from_secs(10)).expect("it ends").unwrap_err();
    assert!(error.contains("it takes no question: it was cancelled"), "{error}");
}

#[test]
fn capabilities_decide_whether_it_observes_and_is_asked_for_its_state() {
    for can in [r#"{"observe":true,"snapshot":true}"#, r#"["observe","snapshot"]"#] {
        let able = plugin(r#"answer '{"decision":"claim"}'"#, can);
        let answer = ask(&Plugins::new(None), &able);
        assert_eq!(answer, Ok(json!({ "decision": "claim", "state": "seen++" })), "{can}");
    }
    let plain = plugin(r#"answer '{"decision":"claim"}'"#, "{}");
    assert_eq!(ask(&Plugins::new(None), &plain), Ok(json!({ "decision": "claim" })));
}

#[test]
fn another_protocol_is_refused() {
    let other = json!({ "plugin": { "name": "t", "command": ["sh", "-c",
        r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocol":2}}'; cat >/dev/null"#
    ] } });
    let error = ask(&Plugins::new(None), &other).unwrap_err();
    assert_eq!(error, "plugin t: it speaks protocol 2, expected 1");
}

/// It never stops to breathe, so there is always something to read.
#[test]
fn a_process_that_says_nothing_without_end_is_given_up_and_can_be_cancelled() {
    for (timeout, is_cancelled) in [("300ms", false), ("1h", true)] {
        let mut floods = plugin("yes ''", "{}");
        floods["plugin"]["timeout"] = timeout.into();
        let cancel = Cancel::new();
        let (stop, (sender, ended)) = (cancel.clone(), std::sync::mpsc::channel());
        std::thread::spawn(move || {
            let plugins = Plugins::new(None);
            let answer = consult(&plugins, "t1", &floods, &decide(Value::Null), &cancel);
            plugins.close("t1");
            sender.send(answer).unwrap();
        });
        if is_cancelled {
            std::thread::sleep(Duration::from_millis(300));
            stop.trigger();
        }
        let answer = ended.recv_timeout(Duration::from_secs(30)).expect("it has an end");
        assert!(answer.unwrap_err().contains("no answer to decide"));
    }
}
