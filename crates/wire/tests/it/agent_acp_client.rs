//! Files and terminals that an agent of the Agent Client Protocol has its client do: judged before they are done, and
//! refused where they were not offered.

use machine::agent::client::{ClientDone, ClientFailure, ClientWork, CommandExit};
use machine::agent::{AgentEnd, AgentEvent, AgentMeans, AgentOrder};
use serde_json::{Value, json};
use wire::agent::AgentCodec;
use wire::agent::acp::{AcpCodec, AcpOffers, AcpOpen};

use crate::agent_acp::{answer, ask, feed, open, prompt, ready, turns, values};
use crate::agent_rig::FOLDER;

#[test]
fn files_and_terminals_that_were_not_offered_are_refused() {
    let mut codec = ready(open());
    codec.order(prompt()).unwrap();
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "fs/unheard"] {
        let params = json!({ "sessionId": "s", "path": "/etc/passwd", "command": "id" });
        let (events, written) = feed(&mut codec, &[ask(7, method, params)]);
        assert_eq!(written[0]["error"]["message"], format!("{method} was not offered"));
        assert!(matches!(&events[..], [AgentEvent::Unknown { .. }]), "{events:?}");
    }
}

/// With files and terminals offered.
fn all() -> AcpOpen {
    AcpOpen { offers: AcpOffers::ALL, ..open() }
}

/// What it wants done: the call that the gate judges, if one is judged, and the work.
fn wants(events: &[AgentEvent]) -> Vec<(Option<(String, Value)>, ClientWork)> {
    let wants = events.iter().filter_map(|event| match event {
        AgentEvent::Wants(request) => {
            let asked = request.ask.as_ref().map(|ask| {
                assert_eq!(ask.key, request.key);
                let AgentMeans::Ours(tool) = &ask.means else { panic!("{ask:?}") };
                (tool.clone(), (*ask.input).clone())
            });
            Some((asked, request.work.clone()))
        }
        _ => None,
    });
    wants.collect()
}

fn served(
    codec: &mut AcpCodec,
    key: &str,
    done: Result<ClientDone, ClientFailure>,
) -> Result<Value, String> {
    codec.served(key, done).map(|bytes| values(&bytes)[0].clone())
}

#[test]
fn files_that_were_offered_are_judged_as_our_own_tools_and_then_done() {
    let mut codec = ready(all());
    codec.order(prompt()).unwrap();
    let below = format!("{FOLDER}/b");
    let (events, written) = feed(
        &mut codec,
        &[
            ask(1, "fs/read_text_file", json!({ "path": "a", "line": 2, "limit": 1 })),
            ask(2, "fs/write_text_file", json!({ "path": below, "content": "x" })),
            ask(3, "fs/write_text_file", json!({ "path": "b" })),
            ask(4, "fs/read_text_file", json!({ "path": "/etc/passwd" })),
        ],
    );
    let call = |tool: &str, input: Value| Some((tool.to_owned(), input));
    let read = |path: &str| ClientWork::ReadFile { path: path.to_owned() };
    let write = ClientWork::WriteFile { path: "b".to_owned(), content: "x".to_owned() };
    assert_eq!(
        wants(&events),
        [
            (call("read", json!({ "path": "a", "offset": 2, "limit": 1 })), read("a")),
            (call("write", json!({ "path": "b", "content": "x" })), write),
            (call("read", json!({ "path": "/etc/passwd" })), read("/etc/passwd")),
        ]
    );
    assert!(written[0]["error"]["message"].as_str().unwrap().contains("needs the text"));
    let answered = |key: &str, may| AgentOrder::Answer { key: key.to_owned(), may };
    assert_eq!(codec.order(answered("acp-1", Ok(None))), Ok(Vec::new()), "it is not done yet");
    let content = ClientDone::Content("one\r\ntwo\r\nthree".into());
    let told = served(&mut codec, "acp-1", Ok(content)).unwrap();
    assert_eq!(told, answer(1, json!({ "content": "two\r\n" })));
    let refused = codec.order(answered("acp-2", Err("not by hand".to_owned()))).unwrap();
    assert_eq!(values(&refused)[0]["error"]["message"], "not by hand");
    let error = served(&mut codec, "acp-2", Ok(ClientDone::Done)).unwrap_err();
    assert!(error.contains("waits for nothing"), "{error}");
    let missing = ClientFailure { is_missing: true, why: "there is none".to_owned() };
    let told = served(&mut codec, "acp-4", Err(missing)).unwrap();
    assert_eq!(told["error"]["code"], -32002);
    let (events, _) = feed(&mut codec, &[answer(3, json!({ "stopReason": "end_turn" }))]);
    assert_eq!((turns(&events)[0].refused, &turns(&events)[0].end), (1, &AgentEnd::Done));
}

#[test]
fn a_terminal_is_a_command_that_is_judged_before_it_runs() {
    let mut codec = ready(all());
    codec.order(prompt()).unwrap();
    let create = json!({ "command": "cargo", "args": ["test", "a b"], "cwd": "/w/x y",
        "env": [{ "name": "A", "value": "1 2" }], "outputByteLimit": 4 });
    let (events, written) = feed(&mut codec, &[ask(1, "terminal/create", create)]);
    let line = "cd '/w/x y' && A='1 2' cargo test 'a b'".to_owned();
    let terminal = || "terminal-1".to_owned();
    let run = ClientWork::RunCommand { terminal: terminal(), command: line.clone(), keep: 4 };
    let call = |line: &str| Some(("shell".to_owned(), json!({ "command": line })));
    assert_eq!(wants(&events), [(call(&line), run)]);
    assert_eq!(written, [] as [Value; 0], "it is not there before it may run");
    let of = json!({ "terminalId": "terminal-1" });
    let (events, written) = feed(&mut codec, &[ask(2, "terminal/output", of.clone())]);
    assert_eq!(events, []);
    assert!(written[0]["error"]["message"].as_str().unwrap().contains("no terminal"));
    let told = served(&mut codec, "acp-1", Ok(ClientDone::Done)).unwrap();
    assert_eq!(told, answer(1, json!({ "terminalId": "terminal-1" })));
    let (events, _) = feed(
        &mut codec,
        &[
            ask(3, "terminal/output", of.clone()),
            ask(4, "terminal/wait_for_exit", of.clone()),
            ask(5, "terminal/kill", of.clone()),
            ask(6, "terminal/release", of.clone()),
        ],
    );
    let works: Vec<ClientWork> = wants(&events)
        .into_iter()
        .map(|(asked, work)| {
            assert_eq!(asked, None, "it belongs to what was let pass");
            work
        })
        .collect();
    let all = [
        ClientWork::ShowOutput { terminal: terminal() },
        ClientWork::AwaitExit { terminal: terminal() },
        ClientWork::Kill { terminal: terminal() },
        ClientWork::Release { terminal: terminal() },
    ];
    assert_eq!(works, all);
    let output = ClientDone::Output { bytes: "all fine".into(), is_cut: false, exit: None };
    let told = served(&mut codec, "acp-3", Ok(output)).unwrap();
    assert_eq!(told, answer(3, json!({ "output": "fine", "truncated": true })));
    let exit = CommandExit::of(None, Some(9));
    let told = served(&mut codec, "acp-4", Ok(ClientDone::Exited(exit))).unwrap();
    assert_eq!(told, answer(4, json!({ "exitCode": null, "signal": "SIGKILL" })));
    for (key, id) in [("acp-5", 5), ("acp-6", 6)] {
        assert_eq!(served(&mut codec, key, Ok(ClientDone::Done)).unwrap(), answer(id, json!({})));
    }
    let (_, written) = feed(&mut codec, &[ask(7, "terminal/output", of)]);
    assert!(written[0]["error"]["message"].as_str().unwrap().contains("no terminal"), "released");
}

#[test]
fn a_command_line_is_what_will_run_and_a_wrong_one_is_named() {
    let mut codec = ready(all());
    codec.order(prompt()).unwrap();
    let mut id = 0;
    let mut line = |params: Value| {
        id += 1;
        let (events, written) = feed(&mut codec, &[ask(id, "terminal/create", params)]);
        match wants(&events).pop() {
            Some((_, ClientWork::RunCommand { command, .. })) => command,
            _ => written[0]["error"]["message"].as_str().unwrap().to_owned(),
        }
    };
    assert_eq!(line(json!({ "command": "ls; pwd", "cwd": FOLDER })), "ls; pwd");
    let variable = json!([{ "name": "A", "value": "1" }]);
    let several = json!({ "command": "a; b", "env": variable, "cwd": format!("{FOLDER}/c d") });
    assert_eq!(line(several), "cd 'c d' && export A=1 && a; b");
    assert!(line(json!({ "command": "ls", "args": [3] })).contains("must be texts"));
    let bad = json!({ "command": "ls", "env": [{ "name": "A;B", "value": "" }] });
    assert!(line(bad).contains("A;B"));
    assert!(line(json!({ "command": "ls", "outputByteLimit": -1 })).contains("whole number"));
    assert!(line(json!({ "args": ["x"] })).contains("command"));
    assert!(line(json!({ "command": "a\0b" })).contains("NUL"));
}

#[test]
fn what_was_permitted_word_for_word_is_done_once_without_another_question() {
    let mut codec = ready(all());
    codec.order(prompt()).unwrap();
    let path = format!("{FOLDER}/a");
    let diff = json!({ "type": "diff", "path": path, "oldText": "", "newText": "new" });
    let options = json!([{ "optionId": "y", "kind": "allow_once" },
        { "optionId": "n", "kind": "reject_once" }]);
    let edit = json!({ "toolCallId": "c", "kind": "edit", "content": [diff] });
    let run = json!({ "toolCallId": "d", "kind": "execute", "rawInput": { "command": "ls -l" } });
    let question = |id, call: &Value| {
        ask(id, "session/request_permission", json!({ "toolCall": call, "options": options }))
    };
    feed(&mut codec, &[question(1, &edit), question(2, &run), question(3, &edit)]);
    let answered = |key: &str, may| AgentOrder::Answer { key: key.to_owned(), may };
    codec.order(answered("acp-1", Ok(None))).unwrap();
    codec.order(answered("acp-2", Ok(None))).unwrap();
    codec.order(answered("acp-3", Err("no".to_owned()))).unwrap();
    let write = |content: &str| json!({ "path": path, "content": content });
    let list = json!({ "command": "ls", "args": ["-l"] });
    let (events, _) = feed(
        &mut codec,
        &[
            ask(4, "fs/write_text_file", write("other")),
            ask(5, "fs/write_text_file", write("new")),
            ask(6, "fs/write_text_file", write("new")),
            ask(7, "terminal/create", list.clone()),
            ask(8, "terminal/create", list),
        ],
    );
    let asked: Vec<bool> = wants(&events).iter().map(|(asked, _)| asked.is_some()).collect();
    assert_eq!(asked, [true, false, true, false, true]);
}

#[test]
fn an_interrupt_answers_what_is_asked_and_says_so() {
    let mut codec = ready(all());
    codec.order(prompt()).unwrap();
    let call = json!({ "toolCallId": "c", "kind": "execute" });
    let params = json!({ "sessionId": "s", "toolCall": call, "options": [] });
    let read = json!({ "sessionId": "s", "path": "a" });
    feed(
        &mut codec,
        &[ask(0, "session/request_permission", params), ask(1, "fs/read_text_file", read)],
    );
    let written = values(&codec.order(AgentOrder::Interrupt).unwrap());
    assert_eq!(written[0]["method"], "session/cancel");
    assert_eq!(written[1]["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(written[2]["error"]["message"], "the turn was stopped");
    let late = served(&mut codec, "acp-2", Ok(ClientDone::Done)).unwrap_err();
    assert!(late.contains("waits for nothing"), "{late}");
    let ended = answer(3, json!({ "stopReason": "cancelled" }));
    let (events, _) = feed(&mut codec, &[ended]);
    let withdrawn = events.iter().filter(|event| matches!(event, AgentEvent::Withdrawn { .. }));
    assert_eq!(withdrawn.count(), 2);
    assert_eq!(turns(&events)[0].end, AgentEnd::Interrupted);
}
