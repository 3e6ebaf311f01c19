//! Codex: every capture of its program, whole, in pieces, cut and spoiled; and what it can be told.

use machine::agent::{AgentAsk, AgentEnd, AgentEvent, AgentMeans, AgentOrder, FailedOrder};
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::agent::AgentCodec;
use wire::agent::codex::{Approval, CodexCodec, CodexOpen, CodexSandbox};
use wire::agent::opening::Opening;

use crate::agent_rig::{FOLDER, Frame, Replay, codec_laws, frames, holds, in_pieces, output, show};

macro_rules! captures {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../fixtures/agents/codex/codex_", $name, ".jsonl")))),*]
    };
}

const APP_SERVER: [(&str, &str); 7] = captures![
    "appserver_approve",
    "appserver_err_429",
    "appserver_err_500",
    "appserver_err_ctx",
    "appserver_err_quota",
    "appserver_interrupt",
    "appserver_resume",
];

/// Captures of `codex exec --json`, which is another protocol.
const EXEC: [(&str, &str); 14] = captures![
    "edit_bypass",
    "edit_readonly",
    "edit_workspace_write",
    "err_400_ctx",
    "err_401",
    "err_429",
    "err_500_exhausted",
    "err_503",
    "err_cut",
    "err_failed_ctx",
    "err_failed_ratelimit",
    "err_quota",
    "kill",
    "text",
];

const THREAD: &str = "00000000-0000-4000-8000-000000000001";

fn codec(opening: Opening, approval: Approval) -> CodexCodec {
    CodexCodec::new(CodexOpen {
        version: "0.1".to_owned(),
        folder: FOLDER.to_owned(),
        opening,
        model: None,
        approval,
        sandbox: CodexSandbox::ReadOnly,
    })
}

/// The codec that asks as whoever made the capture did.
fn codec_for(name: &str) -> CodexCodec {
    let opening = match name {
        "appserver_resume" => Opening::Resume(THREAD.to_owned()),
        _ => Opening::New,
    };
    let approval = match name {
        "appserver_approve" => Approval::Untrusted,
        _ => Approval::OnRequest,
    };
    codec(opening, approval)
}

/// Replays a capture, gives the orders that lead to what was written then, and holds what is written against it.
fn replay(name: &str, text: &str) -> (Vec<AgentEvent>, Vec<String>) {
    let mut codec = codec_for(name);
    let mut replay = Replay::new(&mut codec);
    for frame in frames(text) {
        match frame {
            Frame::Read(message) => replay.read(&message),
            Frame::Written(mut wanted) => {
                if let Some(order) = order(&wanted, &replay.events) {
                    replay.order(order);
                }
                if wanted["method"] == "initialize" {
                    wanted["params"]["clientInfo"] = json!({});
                }
                // Whoever made the captures gave no reason, which is taken before the no is said.
                if replay.written[0]["method"] == "turn/steer" {
                    let steer = replay.written.remove(0);
                    replay.read(&json!({ "id": steer["id"], "result": { "turnId": "u" } }));
                }
                let is = replay.written.remove(0);
                assert!(holds(&is, &wanted), "{name}: {is} is not {wanted}");
            }
        }
    }
    replay.end();
    assert_eq!(replay.written, Vec::<Value>::new(), "{name}: more was written");
    (replay.events.clone(), replay.lines.clone())
}

/// The order that leads to this line; nothing for what a codec says by itself.
fn order(wanted: &Value, events: &[AgentEvent]) -> Option<AgentOrder> {
    let text = || wanted["params"]["input"][0]["text"].as_str().unwrap().to_owned();
    match wanted["method"].as_str() {
        Some("turn/start") => Some(AgentOrder::Prompt { text: text() }),
        Some("turn/interrupt") => Some(AgentOrder::Interrupt),
        Some("thread/compact/start") => Some(AgentOrder::Compact { focus: String::new() }),
        Some("initialize" | "initialized" | "thread/start" | "thread/resume") => None,
        Some(other) => panic!("{other}"),
        None => {
            let key = last_ask(events);
            let is_yes = wanted["result"]["decision"] == "accept";
            let may = if is_yes { Ok(None) } else { Err("no".to_owned()) };
            Some(AgentOrder::Answer { key, may })
        }
    }
}

fn last_ask(events: &[AgentEvent]) -> String {
    let asked = events.iter().rev().find_map(|event| match event {
        AgentEvent::Asks(ask) => Some(ask.key.clone()),
        _ => None,
    });
    asked.unwrap()
}

#[test]
fn every_capture_is_understood_and_every_order_is_written_as_it_was_then() {
    for (name, text) in APP_SERVER {
        let (events, lines) = replay(name, text);
        let bad = |event: &&AgentEvent| {
            matches!(event, AgentEvent::Malformed { .. } | AgentEvent::Unknown { .. })
        };
        assert_eq!(events.iter().find(bad), None, "{name}");
        insta::assert_snapshot!(format!("codex_{name}"), lines.join("\n"));
    }
}

#[test]
fn the_other_protocol_of_the_program_is_told_apart_line_by_line() {
    for (name, text) in EXEC {
        let (events, _) = in_pieces(Box::new(codec_for(name)), &output(text), &[]);
        let (last, lines) = events.split_last().unwrap();
        assert!(lines.iter().all(|event| matches!(event, AgentEvent::Malformed { .. })), "{name}");
        let AgentEvent::TurnEnded(turn) = last else { panic!("{name}: {last:?}") };
        assert_eq!(turn.end, AgentEnd::Failed, "{name}");
    }
}

#[test]
fn bytes_may_come_one_by_one() {
    for (name, text) in APP_SERVER {
        let bytes = output(text);
        let whole = in_pieces(Box::new(codec_for(name)), &bytes, &[]);
        let every: Vec<usize> = (0..bytes.len()).collect();
        assert!(whole == in_pieces(Box::new(codec_for(name)), &bytes, &every), "{name}");
    }
}

#[test]
fn what_is_asked_says_what_it_does() {
    let (_, text) = APP_SERVER[0];
    let (events, _) = replay("appserver_approve", text);
    let asks: Vec<(&str, &AgentMeans)> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Asks(ask) => Some((&*ask.id, &ask.means)),
            _ => None,
        })
        .collect();
    let written = vec!["/workdir/hello.txt".to_owned(), "/workdir/new.txt".to_owned()];
    assert_eq!(
        asks,
        [
            ("call_0001", &AgentMeans::Command("cat hello.txt && git status --short".to_owned())),
            ("call_0002", &AgentMeans::Write(written)),
            ("call_0003", &AgentMeans::Command("touch x.tmp; git status --short".to_owned())),
        ]
    );
    let AgentEvent::TurnEnded(turn) = events.last().unwrap() else { panic!() };
    assert_eq!((turn.refused, turn.ordered, turn.text.as_str()), (1, true, "All done."));
}

/// A codec with its thread open, and everything that was written so far dropped.
fn ready() -> CodexCodec {
    let mut codec = codec(Opening::New, Approval::Untrusted);
    codec.open();
    let events =
        feed(&mut codec, &[json!({ "id": 1, "result": { "userAgent": "x/0.166.0 y" } }), opened()]);
    assert!(matches!(events[0], AgentEvent::Ready(_)), "{events:?}");
    codec
}

fn opened() -> Value {
    json!({ "id": 2, "result": {
        "thread": { "id": "t" },
        "model": "m",
        "approvalPolicy": "untrusted",
        "approvalsReviewer": "user",
        "sandbox": { "type": "readOnly", "networkAccess": false },
    } })
}

fn feed(codec: &mut CodexCodec, messages: &[Value]) -> Vec<AgentEvent> {
    let mut reply = Vec::new();
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    codec.read(lines.as_bytes(), &mut reply)
}

fn told(codec: &mut CodexCodec, order: AgentOrder) -> Value {
    let bytes = codec.order(order).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn prompt() -> AgentOrder {
    AgentOrder::Prompt { text: "go".to_owned() }
}

#[test]
fn every_conversation_is_opened_without_a_search_of_its_own() {
    for opening in [Opening::New, Opening::Resume("t".into()), Opening::Fork("t".into())] {
        let mut codec = codec(opening, Approval::Untrusted);
        codec.open();
        let mut reply = Vec::new();
        let hello = json!({ "id": 1, "result": { "userAgent": "x/0.166.0 y" } });
        codec.read(format!("{hello}\n").as_bytes(), &mut reply);
        let lines = String::from_utf8(reply).unwrap();
        let opened: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        // What a project's file says of it counts less than what is said here.
        assert_eq!(opened["params"]["config"], json!({ "web_search": "disabled" }), "{opened}");
    }
}

#[test]
fn a_thread_with_other_settings_than_were_asked_for_is_not_used() {
    let changes = [
        ("approvalPolicy", json!("never"), "approval policy is \"never\""),
        ("approvalPolicy", Value::Null, "approval policy is null"),
        ("approvalsReviewer", json!("auto_review"), "reviewer"),
        ("sandbox", json!({ "type": "dangerFullAccess" }), "sandbox is"),
        ("sandbox", json!({ "type": "readOnly", "networkAccess": true }), "network"),
    ];
    for (field, value, said) in changes {
        let mut codec = codec(Opening::New, Approval::Untrusted);
        codec.open();
        let mut thread = opened();
        thread["result"][field] = value;
        let hello = json!({ "id": 1, "result": { "userAgent": "x/0.166.0 y" } });
        let events = feed(&mut codec, &[hello, thread]);
        let [AgentEvent::TurnEnded(turn)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(turn.end, AgentEnd::Failed);
        assert!(turn.text.contains(said), "{}", turn.text);
        let error = codec.order(prompt()).unwrap_err();
        assert!(error.contains("is not used"), "{error}");
    }
}

#[test]
fn a_thread_that_is_not_there_is_no_session() {
    let mut codec = codec(Opening::Resume("gone".to_owned()), Approval::Untrusted);
    codec.open();
    let hello = json!({ "id": 1, "result": { "userAgent": "x/0.166.0 y" } });
    let missing = json!({ "id": 2, "error": { "code": -32600, "message": "no rollout found" } });
    let events = feed(&mut codec, &[hello, missing]);
    let [AgentEvent::TurnEnded(turn)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&turn.end, turn.text.as_str()), (&AgentEnd::NoSession, "no rollout found"));
}

#[test]
fn orders_that_do_not_fit_say_why() {
    let mut codec = ready();
    let cases = [
        (AgentOrder::Interrupt, "no turn that could be stopped"),
        (AgentOrder::Steer { text: "x".to_owned() }, "no turn that could be steered"),
        (AgentOrder::Compact { focus: "tests".to_owned() }, "without a focus"),
        (AgentOrder::MayStop { key: "k".to_owned(), missing: None }, "does not ask"),
        (AgentOrder::Answer { key: "k".to_owned(), may: Ok(None) }, "does not wait"),
        (AgentOrder::Answer { key: "k".to_owned(), may: Ok(Some(json!({}))) }, "other parameters"),
    ];
    for (order, why) in cases {
        let error = codec.order(order).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    told(&mut codec, prompt());
    let error = codec.order(prompt()).unwrap_err();
    assert!(error.contains("in the middle of a turn"), "{error}");
    let mut early = self::codec(Opening::New, Approval::Untrusted);
    early.open();
    assert!(early.order(prompt()).unwrap_err().contains("not ready"));
}

#[test]
fn a_turn_that_has_no_id_yet_is_stopped_as_soon_as_it_has_one() {
    let mut codec = ready();
    told(&mut codec, prompt());
    assert_eq!(codec.order(AgentOrder::Interrupt), Ok(Vec::new()));
    let mut reply = Vec::new();
    codec.read(b"{\"id\":3,\"result\":{\"turn\":{\"id\":\"u\"}}}\n", &mut reply);
    let written: Value = serde_json::from_slice(&reply).unwrap();
    let params = json!({ "threadId": "t", "turnId": "u" });
    assert_eq!(written, json!({ "id": 4, "method": "turn/interrupt", "params": params }));
}

#[test]
fn a_steer_is_for_the_turn_under_way_and_a_refused_one_is_told() {
    let mut codec = ready();
    told(&mut codec, AgentOrder::Prompt { text: "go".to_owned() });
    feed(&mut codec, &[json!({ "id": 3, "result": { "turn": { "id": "u" } } })]);
    let steer = told(&mut codec, AgentOrder::Steer { text: "left".to_owned() });
    let input = json!([{ "type": "text", "text": "left" }]);
    let params = json!({ "threadId": "t", "expectedTurnId": "u", "input": input });
    assert_eq!(steer, json!({ "id": 4, "method": "turn/steer", "params": params }));
    let late = json!({ "id": 4, "error": { "code": -32600, "message": "no active turn" } });
    let events = feed(&mut codec, &[late]);
    assert_eq!(events, [not_steered("left", "no active turn")]);
}

fn not_steered(words: &str, reason: &str) -> AgentEvent {
    let (order, reason) = ("steer".to_owned(), reason.to_owned());
    AgentEvent::OrderFailed(FailedOrder { order, reason, words: Some(words.to_owned()) })
}

#[test]
fn a_steer_that_was_not_answered_when_its_turn_ends_is_told_before_the_end_and_never_again() {
    let mut codec = ready();
    told(&mut codec, AgentOrder::Prompt { text: "go".to_owned() });
    feed(&mut codec, &[json!({ "id": 3, "result": { "turn": { "id": "u" } } })]);
    told(&mut codec, AgentOrder::Steer { text: "left".to_owned() });
    let turn = json!({ "id": "u", "status": "completed", "items": [] });
    let ends = json!({ "method": "turn/completed", "params": { "threadId": "t", "turn": turn } });
    let events = feed(&mut codec, &[ends]);
    let failed = events.iter().position(|event| matches!(event, AgentEvent::OrderFailed(_)));
    let ended = events.iter().position(|event| matches!(event, AgentEvent::TurnEnded(_)));
    assert!(failed.is_some() && failed < ended, "{events:?}");
    let wanted = not_steered("left", "its turn ended before it took this");
    assert_eq!(events[failed.unwrap()], wanted);
    let late = json!({ "id": 4, "error": { "code": -32600, "message": "no active turn" } });
    assert_eq!(feed(&mut codec, &[late]), []);
}

#[test]
fn another_model_is_asked_from_the_next_turn_on() {
    let mut codec = ready();
    let order = AgentOrder::SetModel { model: "n".to_owned() };
    assert_eq!(codec.order(order), Ok(Vec::new()));
    assert_eq!(told(&mut codec, prompt())["params"]["model"], "n");
}

#[test]
fn questions_of_older_releases_are_answered_in_their_form() {
    let mut codec = ready();
    told(&mut codec, prompt());
    let command = json!(["bash", "-lc", "rm x"]);
    let patch = json!({ "a.rs": { "type": "update", "unified_diff": "", "move_path": "b.rs" } });
    let events = feed(
        &mut codec,
        &[
            json!({ "id": "q1", "method": "execCommandApproval", "params":
                { "callId": "c1", "conversationId": "t", "command": command, "cwd": "/w" } }),
            json!({ "id": "q2", "method": "applyPatchApproval", "params":
                { "callId": "c2", "conversationId": "t", "fileChanges": patch } }),
        ],
    );
    let means: Vec<&AgentMeans> = events
        .iter()
        .map(|event| match event {
            AgentEvent::Asks(ask) => &ask.means,
            other => panic!("{other:?}"),
        })
        .collect();
    let files = vec!["/workdir/a.rs".to_owned(), "/workdir/b.rs".to_owned()];
    let elsewhere = AgentMeans::Command("cd /w && rm x".to_owned());
    assert_eq!(means, [&elsewhere, &AgentMeans::Write(files)]);
    let refuse = AgentOrder::Answer { key: "codex-1".to_owned(), may: Err("not that".to_owned()) };
    let denied = json!({ "decision": { "denied": { "rejection": "not that" } } });
    assert_eq!(told(&mut codec, refuse), json!({ "id": "q1", "result": denied }));
    let allow = AgentOrder::Answer { key: "codex-2".to_owned(), may: Ok(None) };
    let approved = json!({ "decision": "approved" });
    assert_eq!(told(&mut codec, allow), json!({ "id": "q2", "result": approved }));
}

#[test]
fn a_command_in_another_folder_is_judged_with_the_way_there() {
    let mut codec = ready();
    told(&mut codec, prompt());
    // As codex 0.166.0 asks for `exec_command {cmd: "rm 0001.sql", workdir: …}`.
    let ask = |id: u64, folder: &str| {
        json!({ "method": "item/commandExecution/requestApproval", "id": id, "params": {
            "kind": "command", "threadId": "t", "turnId": "u", "itemId": format!("call_{id}"),
            "startedAtMs": 1794704755540u64, "environmentId": "local",
            "command": "/bin/bash -lc 'rm 0001.sql'", "cwd": folder,
            "commandActions": [{ "type": "unknown", "command": "rm 0001.sql" }],
        } })
    };
    let folders = ["/workdir", "/workdir/migrations", "/workdir/two words", "/etc"];
    let asked: Vec<Value> = (0u64..).zip(folders).map(|(id, folder)| ask(id, folder)).collect();
    let events = feed(&mut codec, &asked);
    let lines: Vec<&str> = events.iter().map(command_of).collect();
    assert_eq!(
        lines,
        [
            "rm 0001.sql",
            "cd migrations && rm 0001.sql",
            "cd 'two words' && rm 0001.sql",
            "cd /etc && rm 0001.sql",
        ]
    );
}

/// The command line that is asked about.
fn command_of(event: &AgentEvent) -> &str {
    match event {
        AgentEvent::Asks(AgentAsk { means: AgentMeans::Command(line), .. }) => line,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_asks_for_more_than_it_shows_is_not_called_a_command_or_a_patch() {
    let mut codec = ready();
    told(&mut codec, prompt());
    let item = json!({ "type": "fileChange", "id": "p", "changes": [{ "path": "a", "kind": {} }] });
    let ask = |id: u64, method: &str, params: Value| json!({ "id": id, "method": format!("item/{method}/requestApproval"), "params": params });
    let host = json!({ "host": "example.org", "protocol": "https" });
    let events = feed(
        &mut codec,
        &[
            json!({ "method": "item/started", "params": { "threadId": "t", "item": item } }),
            ask(1, "fileChange", json!({ "itemId": "p", "grantRoot": "/" })),
            ask(2, "fileChange", json!({ "itemId": "unknown" })),
            ask(3, "commandExecution", json!({ "itemId": "c", "kind": "stdin", "command": "y" })),
            ask(4, "commandExecution", json!({ "itemId": "c", "networkApprovalContext": host })),
            ask(5, "permissions", json!({ "itemId": "w", "permissions": { "network": {} } })),
        ],
    );
    let means: Vec<AgentMeans> = events
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::Asks(ask) => Some(ask.means),
            _ => None,
        })
        .collect();
    use AgentMeans::{Fetch, Other};
    assert_eq!(means, [Other, Other, Other, Fetch("example.org".to_owned()), Other]);
    let refuse = |n: u64| AgentOrder::Answer { key: format!("codex-{n}"), may: Err(String::new()) };
    assert_eq!(told(&mut codec, refuse(5))["result"], json!({ "permissions": {} }));
}

#[test]
fn a_question_that_is_settled_elsewhere_is_withdrawn_and_so_is_one_whose_turn_ended() {
    let mut codec = ready();
    told(&mut codec, prompt());
    let ask = |id: u64| {
        let params = json!({ "threadId": "t", "itemId": "c", "command": "ls" });
        json!({ "id": id, "method": "item/commandExecution/requestApproval", "params": params })
    };
    let resolved = json!({ "method": "serverRequest/resolved",
        "params": { "threadId": "t", "requestId": 0 } });
    let ended = json!({ "method": "turn/completed",
        "params": { "threadId": "t", "turn": { "id": "u", "status": "interrupted" } } });
    let events = feed(&mut codec, &[ask(0), resolved, ask(1), ended]);
    let lines: Vec<String> = events.iter().map(show).collect();
    assert!(lines[1].contains("Withdrawn") && lines[1].contains("codex-1"), "{lines:?}");
    assert!(lines[3].contains("Withdrawn") && lines[3].contains("codex-2"), "{lines:?}");
}

#[test]
fn a_question_that_comes_again_before_its_answer_is_one_question() {
    let mut codec = ready();
    told(&mut codec, prompt());
    let asks = |command: &str| {
        let params = json!({ "threadId": "t", "itemId": "c", "command": command });
        json!({ "id": 7, "method": "item/commandExecution/requestApproval", "params": params })
    };
    let events = feed(&mut codec, &[asks("ls"), asks("rm x")]);
    let [AgentEvent::Asks(_), AgentEvent::Unknown { kind }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(kind, "item/commandExecution/requestApproval asked twice");
    let order = AgentOrder::Answer { key: "codex-1".to_owned(), may: Ok(None) };
    assert_eq!(told(&mut codec, order)["id"], 7);
    assert!(matches!(&feed(&mut codec, &[asks("ls")])[..], [AgentEvent::Asks(_)]));
}

#[test]
fn a_refusal_says_its_reason_first_where_the_answer_has_no_room_for_it() {
    let mut codec = ready();
    told(&mut codec, prompt());
    feed(&mut codec, &[json!({ "id": 3, "result": { "turn": { "id": "u" } } })]);
    let asks = |id: u64, thread: &str| {
        let params = json!({ "threadId": thread, "itemId": "c", "command": "rm x" });
        json!({ "id": id, "method": "item/commandExecution/requestApproval", "params": params })
    };
    let refuse = |codec: &mut CodexCodec, n: u64| {
        let may = Err("nobody removes that".to_owned());
        told(codec, AgentOrder::Answer { key: format!("codex-{n}"), may })
    };
    let no = |id: u64| json!({ "id": id, "result": { "decision": "decline" } });
    let read = |codec: &mut CodexCodec, message: Value| {
        let mut reply = Vec::new();
        assert_eq!(codec.read(format!("{message}\n").as_bytes(), &mut reply), []);
        reply
    };
    let said = |reply: &[u8]| serde_json::from_slice::<Value>(reply).unwrap();
    feed(&mut codec, &[asks(0, "t"), asks(1, "helper"), asks(2, "t"), asks(3, "t")]);
    let words = "drivetrain refused the command rm x: nobody removes that";
    let input = json!([{ "type": "text", "text": words }]);
    let params = json!({ "threadId": "t", "expectedTurnId": "u", "input": input });
    let reason = |id: u64| json!({ "id": id, "method": "turn/steer", "params": params });
    assert_eq!(refuse(&mut codec, 1), reason(4));
    let taken = json!({ "id": 4, "result": { "turnId": "u" } });
    assert_eq!(said(&read(&mut codec, taken)), no(0), "once the reason is there");
    assert_eq!(refuse(&mut codec, 2), no(1), "a helper has a turn of its own");
    // What an older release does not know is a no all the same, and nobody's note that would have to be said again.
    assert_eq!(refuse(&mut codec, 3), reason(5));
    let error = json!({ "code": -32601, "message": "no such method" });
    assert_eq!(said(&read(&mut codec, json!({ "id": 5, "error": error }))), no(2));
    // Nobody waits for a no to what its turn asked and did not wait for.
    assert_eq!(refuse(&mut codec, 4), reason(6));
    let turn = json!({ "id": "u", "status": "interrupted" });
    let ends = json!({ "method": "turn/completed", "params": { "threadId": "t", "turn": turn } });
    let ended = feed(&mut codec, &[ends]);
    assert!(matches!(&ended[..], [AgentEvent::TurnEnded(turn)] if turn.refused == 4), "{ended:?}");
    assert_eq!(read(&mut codec, json!({ "id": 6, "result": {} })), b"");
}

#[test]
fn a_helper_asks_in_its_own_name_and_its_turns_are_not_the_agents() {
    let mut codec = ready();
    told(&mut codec, prompt());
    let of_helper = |method: &str, mut params: Value| {
        params["threadId"] = json!("helper");
        json!({ "method": method, "params": params })
    };
    let usage =
        json!({ "total": { "inputTokens": 10, "cachedInputTokens": 4, "outputTokens": 1 } });
    let mut ask = of_helper("item/commandExecution/requestApproval", json!({ "command": "ls" }));
    ask["id"] = json!(9);
    let events = feed(
        &mut codec,
        &[
            of_helper("turn/started", json!({ "turn": { "id": "h" } })),
            ask,
            of_helper("thread/tokenUsage/updated", json!({ "tokenUsage": usage })),
            of_helper("turn/completed", json!({ "turn": { "id": "h", "status": "completed" } })),
        ],
    );
    let [AgentEvent::Asks(ask), AgentEvent::Spent { usage, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(ask.helper.as_deref(), Some("helper"));
    assert_eq!((usage.input, usage.cache_read, usage.output), (Some(6), Some(4), Some(1)));
}

#[test]
fn a_turn_that_nobody_ordered_begins_by_itself() {
    let mut codec = ready();
    let began = json!({ "method": "turn/started",
        "params": { "threadId": "t", "turn": { "id": "x" } } });
    let ended = json!({ "method": "turn/completed",
        "params": { "threadId": "t", "turn": { "id": "x", "status": "completed" } } });
    let events = feed(&mut codec, &[began, ended]);
    let [AgentEvent::TurnBegan, AgentEvent::TurnEnded(turn)] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(!turn.ordered);
}

#[test]
fn a_process_that_ends_in_the_middle_ends_its_turn() {
    let mut codec = ready();
    told(&mut codec, prompt());
    codec.read(b"{\"method\":\"tur", &mut Vec::new());
    let events = codec.end();
    assert!(matches!(events[0], AgentEvent::Malformed { .. }));
    let AgentEvent::TurnEnded(turn) = &events[1] else { panic!("{events:?}") };
    assert_eq!(turn.end, AgentEnd::Failed);
}

#[test]
fn a_line_without_an_end_is_passed_over() {
    let mut codec = ready();
    let mut reply = Vec::new();
    let piece = vec![b'x'; 1 << 20];
    let mut events = Vec::new();
    for _ in 0..20 {
        events.extend(codec.read(&piece, &mut reply));
    }
    assert_eq!(events.len(), 1);
    events.extend(codec.read(b"\n{\"method\":\"unheard\"}\n", &mut reply));
    assert_eq!(events[1], AgentEvent::Unknown { kind: "unheard".to_owned() });
}

const UNKNOWN: &[u8] = b"{\"method\":\"brand/new\",\"params\":{\"threadId\":\"other\"}}\n\
    {\"method\":\"brand/new\",\"params\":[1]}\n\n{}\n";
codec_laws!(APP_SERVER, codec_for, UNKNOWN);
