//! Agents that speak the Agent Client Protocol: every capture of theirs, whole, in pieces, cut and spoiled; their
//! modes, their quirks, and what they ask of us.

use machine::agent::{
    AgentEnd, AgentEvent, AgentMeans, AgentOrder, AgentQuirks, AgentSupport, AgentTurn, GateDepth,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::agent::AgentCodec;
use wire::agent::acp::{AcpCodec, AcpOffers, AcpOpen};
use wire::agent::opening::Opening;

use crate::agent_rig::{FOLDER, Frame, Replay, codec_laws, frames, holds, in_pieces, output};

macro_rules! captures {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../fixtures/agents/acp/acp_", $name, ".jsonl")))),*]
    };
}

const CAPTURES: [(&str, &str); 40] = captures![
    "claude_cancel",
    "claude_cancel_pending",
    "claude_edit",
    "claude_edit_deny",
    "claude_err_429_then_ok",
    "claude_err_500x",
    "claude_err_max_tokens",
    "claude_err_refusal",
    "claude_session_load",
    "codex_cancel",
    "codex_edit",
    "codex_err_429_then_ok",
    "codex_err_500x",
    "codex_mode_default",
    "codex_mode_read-only",
    "codex_session_load",
    "gemini_cancel",
    "gemini_cancel_pending",
    "gemini_edit",
    "gemini_edit_deny",
    "gemini_err_429_then_ok",
    "gemini_err_500x",
    "gemini_session_load",
    "opencode_cancel",
    "opencode_cancel_pending",
    "opencode_edit",
    "opencode_edit_deny",
    "opencode_err_429_then_ok",
    "opencode_err_500x",
    "opencode_session_load",
    "zed-claude_cancel",
    "zed-claude_cancel_pending",
    "zed-claude_edit",
    "zed-claude_edit_deny",
    "zed-claude_session_load",
    "zed-codex_cancel",
    "zed-codex_cancel_pending",
    "zed-codex_edit",
    "zed-codex_edit_deny",
    "zed-codex_session_load",
];

const SESSION: &str = "00000000-0000-4000-8000-000000000001";

pub(crate) fn open() -> AcpOpen {
    AcpOpen {
        version: "0.1".to_owned(),
        folder: FOLDER.to_owned(),
        opening: Opening::New,
        cost: None,
        mode: None,
        model: None,
        offers: AcpOffers::default(),
        quirks: AgentQuirks::default(),
    }
}

/// The codec that asks as whoever made the capture did: in the mode in which the agent began, but for the one capture
/// that sets it.
fn codec_for(name: &str) -> AcpCodec {
    let mut open = open();
    if name.ends_with("session_load") {
        let id = if name.starts_with("opencode") { "ses_0001" } else { SESSION };
        open.opening = Opening::Resume(id.to_owned());
    }
    if name.starts_with("codex_") && name != "codex_mode_read-only" {
        open.mode = Some("agent".to_owned());
    }
    // This one was configured to ask in a way that is none of its modes, so it told of none.
    if name == "zed-codex_edit" {
        open.quirks.set("outlives_input");
    }
    AcpCodec::new(open)
}

/// Replays a capture up to where it does something that no order of ours leads to, and holds what is written against
/// what was written then.
fn replay(name: &str, text: &str) -> (Vec<AgentEvent>, Vec<String>) {
    let mut codec = codec_for(name);
    let mut replay = Replay::new(&mut codec);
    for frame in frames(text) {
        match frame {
            Frame::Read(message) => replay.read(&message),
            Frame::Written(wanted) => {
                match wanted["method"].as_str() {
                    // The captures load and then resume; a conversation is gone on with once, without telling it again
                    // where that can be had.
                    Some("session/load") => {
                        let is = replay.written.remove(0);
                        let methods = ["session/load", "session/resume"];
                        assert!(methods.contains(&is["method"].as_str().unwrap()), "{is}");
                        assert!(holds(&is["params"], &wanted["params"]), "{name}: {is}");
                        continue;
                    }
                    Some("session/resume" | "session/list") => break,
                    Some("session/set_mode") if name.ends_with("session_load") => break,
                    // Offered by nobody, and answered by whoever made the capture.
                    None if wanted["result"] == json!({}) => {
                        let is = replay.written.remove(0);
                        assert!(is["error"]["message"].as_str().unwrap().contains("not offered"));
                        continue;
                    }
                    _ => {}
                }
                // A cancel answers what is asked by itself.
                if replay.written.is_empty()
                    && let Some(order) = order(&wanted, &replay.events)
                {
                    replay.order(order);
                }
                let is = replay.written.remove(0);
                assert!(holds(&is, &trimmed(wanted.clone())), "{name}: {is} is not {wanted}");
            }
        }
    }
    replay.end();
    assert_eq!(replay.written, Vec::<Value>::new(), "{name}: more was written");
    (replay.events.clone(), replay.lines.clone())
}

/// Without what differs between whoever made the captures and us.
fn trimmed(mut wanted: Value) -> Value {
    if wanted["method"] == "initialize" {
        wanted["params"]["clientInfo"] = json!({});
    }
    wanted
}

/// The order that leads to this line; nothing for what a codec says by itself.
fn order(wanted: &Value, events: &[AgentEvent]) -> Option<AgentOrder> {
    let text = || wanted["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
    match wanted["method"].as_str() {
        Some("session/prompt") => Some(AgentOrder::Prompt { text: text() }),
        Some("session/cancel") => Some(AgentOrder::Interrupt),
        Some("initialize" | "session/new" | "session/set_mode") => None,
        Some(other) => panic!("{other}"),
        None => {
            let option = wanted["result"]["outcome"]["optionId"].as_str().unwrap();
            let refuses = ["reject", "cancel", "abort"].contains(&option);
            let may = if refuses { Err("no".to_owned()) } else { Ok(None) };
            Some(AgentOrder::Answer { key: last_ask(events), may })
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

pub(crate) fn turns(events: &[AgentEvent]) -> Vec<&AgentTurn> {
    let turns = events.iter().filter_map(|event| match event {
        AgentEvent::TurnEnded(turn) => Some(turn),
        _ => None,
    });
    turns.collect()
}

fn capture(name: &str) -> Vec<AgentEvent> {
    let (_, text) = CAPTURES.iter().find(|(other, _)| *other == name).unwrap();
    replay(name, text).0
}

#[test]
fn every_capture_is_understood_and_every_order_is_written_as_it_was_then() {
    for (name, text) in CAPTURES {
        let (events, lines) = replay(name, text);
        let bad = events.iter().find(|event| match event {
            AgentEvent::Malformed { .. } => true,
            AgentEvent::Unknown { kind } => !kind.contains("not offered"),
            _ => false,
        });
        assert_eq!(bad, None, "{name}");
        insta::assert_snapshot!(format!("acp_{name}"), lines.join("\n"));
    }
}

#[test]
fn bytes_may_come_one_by_one() {
    for (name, text) in CAPTURES {
        let bytes = output(text);
        let whole = in_pieces(Box::new(codec_for(name)), &bytes, &[]);
        let every: Vec<usize> = (0..bytes.len()).collect();
        assert!(whole == in_pieces(Box::new(codec_for(name)), &bytes, &every), "{name}");
    }
}

#[test]
fn what_every_agent_asks_says_what_it_does_where_that_is_certain() {
    let write = AgentMeans::Write(vec!["/workdir/hello.txt".to_owned()]);
    let touch = AgentMeans::Command("touch x.tmp && git status --short".to_owned());
    let made = AgentMeans::Write(vec!["/workdir/new.txt".to_owned()]);
    let status = AgentMeans::Command("git status --short".to_owned());
    for (name, wanted) in [
        ("claude_edit", vec![write.clone(), touch.clone()]),
        ("zed-claude_edit", vec![write.clone(), touch]),
        // A patch's question names no patch: it is in the call that was told before.
        ("codex_mode_read-only", vec![write.clone()]),
        ("zed-codex_edit_deny", vec![write.clone()]),
        ("opencode_edit", vec![write.clone(), made, status]),
        // Its command is in a title only.
        ("gemini_edit", vec![write, AgentMeans::Other]),
    ] {
        let events = capture(name);
        let means: Vec<AgentMeans> = events
            .into_iter()
            .filter_map(|event| match event {
                AgentEvent::Asks(ask) => Some(ask.means),
                _ => None,
            })
            .collect();
        assert_eq!(means, wanted, "{name}");
    }
}

#[test]
fn a_failure_that_ends_as_if_all_were_well_is_not_believed() {
    let end = |name: &str| turns(&capture(name)).last().unwrap().end.clone();
    let failed = |kind: &str, status| AgentEnd::Model {
        kind: kind.to_owned(),
        status,
        again: true,
        after: None,
    };
    // Errors as text, a reason to stop like any other, and no usage.
    assert_eq!(end("codex_err_500x"), failed("stream_truncated", None));
    // The end of the cancelled prompt, given for the next one.
    assert_eq!(end("zed-claude_cancel"), failed("empty_completion", None));
    assert_eq!(end("claude_err_500x"), failed("server", Some(500)));
    assert_eq!(end("claude_err_max_tokens"), AgentEnd::Limit);
    assert_eq!(end("claude_err_refusal"), AgentEnd::Refused);
    // Nothing came within the capture's time; the process then ended.
    assert_eq!(end("opencode_err_500x"), AgentEnd::Failed);
    for fine in ["codex_err_429_then_ok", "claude_err_429_then_ok", "zed-codex_session_load"] {
        assert_eq!(end(fine), AgentEnd::Done, "{fine}");
    }
}

#[test]
fn what_was_said_before_is_not_told_again() {
    for name in ["gemini_session_load", "claude_session_load", "zed-codex_session_load"] {
        let events = capture(name);
        let told = format!("{events:?}");
        assert!(!told.contains("first answer"), "{name}");
        assert!(told.contains("second answer"), "{name}");
    }
}

/// A codec that was answered with this session, and what came of it.
fn opened(open: AcpOpen, agent: &str, session: Value) -> (AcpCodec, Vec<AgentEvent>, Vec<Value>) {
    let mut codec = AcpCodec::new(open);
    codec.open();
    let hello = json!({ "protocolVersion": 1, "agentInfo": { "name": agent, "version": "1.0.0" },
        "agentCapabilities": { "loadSession": true } });
    let (mut events, mut written) = feed(&mut codec, &[answer(1, hello)]);
    let (more, replies) = feed(&mut codec, &[answer(2, session)]);
    events.extend(more);
    written.extend(replies);
    (codec, events, written)
}

pub(crate) fn answer(id: u64, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(crate) fn ask(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn update(update: Value) -> Value {
    let params = json!({ "sessionId": "s", "update": update });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
}

pub(crate) fn feed(codec: &mut AcpCodec, messages: &[Value]) -> (Vec<AgentEvent>, Vec<Value>) {
    let mut reply = Vec::new();
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let events = codec.read(lines.as_bytes(), &mut reply);
    (events, values(&reply))
}

pub(crate) fn values(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn session(modes: &[&str]) -> Value {
    let available: Vec<Value> = modes.iter().map(|id| json!({ "id": id })).collect();
    json!({ "sessionId": "s",
        "modes": { "currentModeId": modes[0], "availableModes": available } })
}

pub(crate) fn ready(open: AcpOpen) -> AcpCodec {
    let (codec, events, _) = opened(open, "some-agent", session(&["default", "yolo"]));
    assert!(matches!(events[0], AgentEvent::Ready(_)), "{events:?}");
    codec
}

pub(crate) fn prompt() -> AgentOrder {
    AgentOrder::Prompt { text: "go".to_owned() }
}

#[test]
fn an_agent_that_begins_in_a_mode_without_questions_is_put_into_one_with_them() {
    let modes = ["agent", "read-only", "agent-full-access"];
    let (mut codec, events, written) =
        opened(open(), "@agentclientprotocol/codex-acp", session(&modes));
    assert_eq!(events, []);
    let params = json!({ "sessionId": "s", "modeId": "read-only" });
    assert_eq!(written.last().unwrap(), &ask(3, "session/set_mode", params));
    assert!(codec.order(prompt()).unwrap_err().contains("not ready"));
    let (events, _) = feed(&mut codec, &[answer(3, json!({}))]);
    let AgentEvent::Ready(facts) = &events[0] else { panic!("{events:?}") };
    assert_eq!(facts.modes, ["read-only", "agent", "agent-full-access"]);
    assert_eq!((facts.can.gate, facts.support), (GateDepth::Protocol, AgentSupport::Older));
}

#[test]
fn an_agent_that_does_not_take_the_mode_or_says_that_it_is_in_another_is_not_used() {
    let told = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "agent" });
    let error = json!({ "jsonrpc": "2.0", "id": 3, "error": { "code": -1, "message": "no" } });
    for (messages, said) in [
        (vec![error], "could not be put into mode \"read-only\": no"),
        (vec![update(told), answer(3, json!({}))], "is in \"agent\""),
    ] {
        let (mut codec, _, _) =
            opened(open(), "@agentclientprotocol/codex-acp", session(&["agent", "read-only"]));
        let (events, _) = feed(&mut codec, &messages);
        let [AgentEvent::TurnEnded(turn)] = &events[..] else { panic!("{events:?}") };
        assert!(turn.text.contains(said), "{}", turn.text);
        assert!(codec.order(prompt()).unwrap_err().contains("is not used"));
    }
}

#[test]
fn an_agent_that_nobody_knows_needs_a_mode_that_asks_or_one_that_is_named() {
    let (_, events, _) = opened(open(), "stranger", session(&["go", "faster"]));
    let [AgentEvent::TurnEnded(turn)] = &events[..] else { panic!("{events:?}") };
    assert!(turn.text.contains("none of its modes is known to ask"), "{}", turn.text);
    let named = AcpOpen { mode: Some("go".to_owned()), ..open() };
    let (_, events, _) = opened(named, "stranger", session(&["go", "faster"]));
    let AgentEvent::Ready(facts) = &events[0] else { panic!("{events:?}") };
    assert_eq!(facts.can.gate, GateDepth::Sandbox);
}

#[test]
fn a_mode_that_the_agent_goes_into_by_itself_is_undone_and_if_it_stays_it_is_stopped() {
    let mut codec = ready(open());
    codec.order(prompt()).unwrap();
    let told = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "yolo" });
    let (events, written) = feed(&mut codec, &[update(told)]);
    assert!(matches!(&events[0], AgentEvent::Unknown { kind } if kind.contains("yolo")));
    assert_eq!(written[0]["params"]["modeId"], "default");
    let error = json!({ "jsonrpc": "2.0", "id": 4, "error": { "code": -1, "message": "no" } });
    let (events, written) = feed(&mut codec, &[error]);
    assert_eq!(written[0]["method"], "session/cancel");
    assert_eq!(turns(&events)[0].end, AgentEnd::Failed);
    assert!(codec.order(prompt()).unwrap_err().contains("is not used"));
}

#[test]
fn a_model_is_set_in_the_way_that_the_agent_has() {
    let wanted = AcpOpen { model: Some("m2".to_owned()), ..open() };
    let mut by_models = session(&["default"]);
    by_models["models"] = json!({ "currentModelId": "m1", "availableModels": [] });
    let (_, _, written) = opened(wanted.clone(), "x", by_models);
    let last = written.last().unwrap();
    assert_eq!(
        (&last["method"], &last["params"]["modelId"]),
        (&json!("session/set_model"), &json!("m2"))
    );
    let mut by_options = session(&["default"]);
    by_options["configOptions"] =
        json!([{ "id": "model", "category": "model", "currentValue": "m1" }]);
    let (mut codec, _, written) = opened(wanted.clone(), "x", by_options);
    assert_eq!(written.last().unwrap()["method"], "session/set_config_option");
    let error = json!({ "jsonrpc": "2.0", "id": 3, "error": { "code": -1, "message": "which?" } });
    let (events, _) = feed(&mut codec, &[error]);
    assert!(turns(&events)[0].text.contains("does not take the model \"m2\": which?"));
    let (_, events, _) = opened(wanted, "x", session(&["default"]));
    assert!(turns(&events)[0].text.contains("cannot be told which model"));
}

#[test]
fn a_permission_is_never_wider_than_what_was_asked() {
    let mut codec = ready(open());
    codec.order(prompt()).unwrap();
    let asks = |id: u64, kinds: &[&str]| {
        let options: Vec<Value> = kinds
            .iter()
            .map(|kind| json!({ "optionId": format!("the-{kind}"), "kind": kind }))
            .collect();
        let call = json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": "ls" } });
        let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
        ask(id, "session/request_permission", params)
    };
    let told = |codec: &mut AcpCodec, n: u64, may: Result<Option<Value>, String>| {
        let order = AgentOrder::Answer { key: format!("acp-{n}"), may };
        codec.order(order).map(|bytes| values(&bytes)[0]["result"]["outcome"].clone())
    };
    let selected = |option: &str| json!({ "outcome": "selected", "optionId": option });
    feed(&mut codec, &[asks(0, &["allow_always", "allow_once", "reject_once"])]);
    assert_eq!(told(&mut codec, 1, Ok(None)), Ok(selected("the-allow_once")));
    feed(&mut codec, &[asks(1, &["allow_always"])]);
    assert!(told(&mut codec, 2, Ok(Some(json!({})))).unwrap_err().contains("other parameters"));
    assert_eq!(told(&mut codec, 2, Err("no".to_owned())), Ok(json!({ "outcome": "cancelled" })));
    feed(&mut codec, &[asks(2, &["allow_once", "reject_always"])]);
    assert_eq!(told(&mut codec, 3, Err("no".to_owned())), Ok(selected("the-reject_always")));
    let ended = answer(3, json!({ "stopReason": "cancelled" }));
    let (events, _) = feed(&mut codec, &[ended]);
    assert_eq!(turns(&events)[0].refused, 2);
    assert_eq!(turns(&events)[0].text, "a call was refused: no");
}

#[test]
fn a_question_that_comes_again_before_its_answer_is_one_question() {
    let offers = AcpOffers::ALL;
    let mut codec = ready(AcpOpen { offers, ..open() });
    codec.order(prompt()).unwrap();
    let call = json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": "ls" } });
    let options = json!([{ "optionId": "yes", "kind": "allow_once" }]);
    let asks = json!({ "sessionId": "s", "toolCall": call, "options": options });
    let asks = || ask(0, "session/request_permission", asks.clone());
    let writes = || ask(1, "fs/write_text_file", json!({ "path": "b", "content": "x" }));
    let (events, written) = feed(&mut codec, &[asks(), asks(), writes(), writes()]);
    let is_question = |e: &&AgentEvent| matches!(e, AgentEvent::Asks(_) | AgentEvent::Wants(_));
    assert_eq!(events.iter().filter(is_question).count(), 2, "{events:?}");
    let odd = |method: &str| AgentEvent::Unknown { kind: format!("{method} asked twice") };
    for method in ["session/request_permission", "fs/write_text_file"] {
        assert!(events.contains(&odd(method)), "{events:?}");
    }
    assert_eq!(written, [] as [Value; 0]);
    let order = AgentOrder::Answer { key: "acp-1".to_owned(), may: Ok(None) };
    assert_eq!(values(&codec.order(order).unwrap()).len(), 1);
    let (events, _) = feed(&mut codec, &[asks()]);
    assert_eq!(events.iter().filter(is_question).count(), 1, "it was answered");
}

#[test]
fn a_turn_that_ends_with_a_refused_call_is_no_claim_unless_the_agent_went_on() {
    let update = |update: Value| {
        let params = json!({ "sessionId": "s", "update": update });
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
    };
    let failed = update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed" }),
    );
    let says = |text: &str| {
        update(
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }),
        )
    };
    let call = update(json!({ "sessionUpdate": "tool_call", "toolCallId": "d", "kind": "read" }));
    let stopped = (AgentEnd::Interrupted, "a call was refused: not that");
    for (then, end) in [
        (vec![], stopped.clone()),
        (vec![says("")], stopped),
        (vec![says("I could not.")], (AgentEnd::Done, "I could not.")),
        (vec![call], (AgentEnd::Done, "")),
    ] {
        let mut codec = ready(open());
        codec.order(prompt()).unwrap();
        let asked =
            json!({ "toolCallId": "c", "kind": "execute", "rawInput": { "command": "ls" } });
        let options = json!([{ "optionId": "no", "kind": "reject_once" }]);
        let params = json!({ "sessionId": "s", "toolCall": asked, "options": options });
        feed(&mut codec, &[ask(0, "session/request_permission", params)]);
        let no = Err("not that".to_owned());
        codec.order(AgentOrder::Answer { key: "acp-1".to_owned(), may: no }).unwrap();
        feed(&mut codec, &[vec![failed.clone()], then].concat());
        let ended = answer(3, json!({ "stopReason": "end_turn" }));
        let (events, _) = feed(&mut codec, &[ended]);
        let turn = &turns(&events)[0];
        assert_eq!((turn.end.clone(), turn.text.as_str(), turn.refused), (end.0, end.1, 1));
    }
}

#[test]
fn a_yes_to_what_can_only_be_had_for_ever_is_a_no_that_is_told_to_both_sides() {
    for (reject, outcome) in [
        (Some("reject_once"), json!({ "outcome": "selected", "optionId": "no" })),
        (None, json!({ "outcome": "cancelled" })),
    ] {
        let mut codec = ready(open());
        codec.order(prompt()).unwrap();
        let mut options = vec![json!({ "optionId": "yes", "kind": "allow_always" })];
        options.extend(reject.map(|kind| json!({ "optionId": "no", "kind": kind })));
        let call =
            json!({ "toolCallId": "c7", "kind": "execute", "rawInput": { "command": "ls" } });
        let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
        feed(&mut codec, &[ask(1, "session/request_permission", params)]);
        let yes = AgentOrder::Answer { key: "acp-1".to_owned(), may: Ok(None) };
        let written = values(&codec.order(yes).unwrap());
        assert_eq!(written[0]["result"]["outcome"], outcome);
        let (events, _) = feed(&mut codec, &[answer(3, json!({ "stopReason": "cancelled" }))]);
        let AgentEvent::ToolEnded { id, ok: false, text, .. } = &events[0] else {
            panic!("{events:?}")
        };
        assert!(&**id == "c7" && text.starts_with("it did not run"), "{text}");
        assert_eq!(turns(&events)[0].refused, 1);
    }
}

/// What a turn spends in which the session's sum comes to this, by the agent's own count: tokens and dollars.
fn spent(codec: &mut AcpCodec, prompt_id: u64, sum: Option<f64>) -> Vec<(u64, Option<f64>)> {
    codec.order(prompt()).unwrap();
    let cost = sum.map(|amount| json!({ "amount": amount, "currency": "USD" }));
    let told =
        update(json!({ "sessionUpdate": "usage_update", "used": 9, "size": 99, "cost": cost }));
    let usage = json!({ "inputTokens": 1000, "outputTokens": 42, "totalTokens": 1042 });
    let ended = answer(prompt_id, json!({ "stopReason": "end_turn", "usage": usage }));
    let (events, _) = feed(codec, &[told, ended]);
    let spent = events.into_iter().filter_map(|event| match event {
        AgentEvent::Spent { usage, usd } => Some((usage.total(), usd)),
        _ => None,
    });
    spent.collect()
}

#[test]
fn tokens_whose_money_was_told_apart_are_not_without_a_price() {
    let mut codec = ready(open());
    assert_eq!(spent(&mut codec, 3, Some(1.0)), [(0, Some(1.0)), (1042, Some(0.0))]);
    assert_eq!(spent(&mut codec, 4, Some(1.5)), [(0, Some(0.5)), (1042, Some(0.0))]);
    assert_eq!(spent(&mut codec, 5, None), [(1042, None)], "nobody says what these cost");
}

#[test]
fn a_session_of_another_process_goes_on_counting_from_what_was_told_there() {
    let resumed = |cost| AcpOpen { opening: Opening::Resume("s".to_owned()), cost, ..open() };
    let first = |cost, sum| spent(&mut ready(resumed(cost)), 3, Some(sum));
    assert_eq!(first(Some(1_000_000_000), 3.0), [(0, Some(2.0)), (1042, Some(0.0))]);
    assert_eq!(first(Some(0), 1.0), [(0, Some(1.0)), (1042, Some(0.0))]);
    assert_eq!(
        first(Some(1_000_000_000), 0.5),
        [(0, Some(0.5)), (1042, Some(0.0))],
        "it counts anew"
    );
    assert_eq!(first(Some(333_333_333), 0.333_333_332), [(1042, Some(0.0))]);
    assert_eq!(first(None, 3.0), [(1042, Some(0.0))], "how much was paid before is not known");
}

#[test]
fn orders_that_do_not_fit_say_why() {
    let mut codec = ready(open());
    for (order, why) in [
        (AgentOrder::Interrupt, "no turn"),
        (AgentOrder::Steer { text: String::new() }, "in the middle of a turn"),
        (AgentOrder::Compact { focus: String::new() }, "no command"),
        (AgentOrder::MayStop { key: String::new(), missing: None }, "does not ask"),
        (AgentOrder::SetModel { model: "m".to_owned() }, "cannot be told which model"),
        (AgentOrder::Answer { key: "k".to_owned(), may: Ok(None) }, "does not wait"),
    ] {
        let error = codec.order(order).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    codec.order(prompt()).unwrap();
    assert!(codec.order(prompt()).unwrap_err().contains("in the middle of a turn"));
}

#[test]
fn what_is_to_be_done_is_never_a_command_to_the_agent_itself() {
    for (text, written) in [
        ("go", "go"),
        ("/compact the log files", "The task: /compact the log files"),
        ("\n /memory shows nothing", "The task: /memory shows nothing"),
    ] {
        let mut codec = ready(open());
        let order = AgentOrder::Prompt { text: text.to_owned() };
        let sent = values(&codec.order(order).unwrap());
        assert_eq!(sent[0]["params"]["prompt"][0]["text"], written);
    }
}

#[test]
fn a_file_that_a_prompt_names_behind_an_at_is_not_in_its_last_block() {
    let mut codec = ready(open());
    let order = AgentOrder::Prompt { text: "the check said @.env".to_owned() };
    let sent = values(&codec.order(order).unwrap());
    let blocks = &sent[0]["params"]["prompt"];
    assert_eq!(blocks[0]["text"], "the check said @.env");
    let last = blocks[1]["text"].as_str().unwrap();
    assert!(!last.contains('@') && !last.trim().is_empty(), "{last}");
}

#[test]
fn a_notice_of_the_agents_program_is_not_what_its_model_said() {
    let mut codec = ready(open());
    codec.order(prompt()).unwrap();
    let chunk = |id: Option<&str>, text: &str| {
        let mut chunk = json!({ "sessionUpdate": "agent_message_chunk",
            "content": { "type": "text", "text": text } });
        if let Some(id) = id {
            chunk["messageId"] = json!(id);
        }
        update(chunk)
    };
    let frames = [
        chunk(None, "**Before:** the modes differ"),
        chunk(Some("m1"), "All "),
        chunk(None, "**Warning:** something else"),
        chunk(Some("m1"), "done."),
        chunk(None, "**Model fallback:** another one"),
        answer(3, json!({ "stopReason": "end_turn" })),
    ];
    let (events, _) = feed(&mut codec, &frames);
    assert_eq!(turns(&events)[0].text, "All done.");
}

#[test]
fn an_agent_with_a_command_for_it_makes_its_conversation_shorter() {
    let mut codec = ready(open());
    let commands = json!({ "sessionUpdate": "available_commands_update",
        "availableCommands": [{ "name": "compact" }] });
    feed(&mut codec, &[update(commands)]);
    let order = AgentOrder::Compact { focus: "the tests".to_owned() };
    let written = values(&codec.order(order).unwrap());
    assert_eq!(written[0]["params"]["prompt"][0]["text"], "/compact the tests");
    let (events, _) = feed(&mut codec, &[answer(3, json!({ "stopReason": "end_turn" }))]);
    assert_eq!(events[0], AgentEvent::Compacted { before: None, after: None });
    assert_eq!(turns(&events)[0].end, AgentEnd::Done);
}

#[test]
fn a_conversation_that_is_not_there_and_a_protocol_of_another_version_have_their_ends() {
    let resumed = AcpOpen { opening: Opening::Resume("gone".to_owned()), ..open() };
    let hello = |version: u64, loads: bool| {
        let can = json!({ "loadSession": loads });
        answer(1, json!({ "protocolVersion": version, "agentCapabilities": can }))
    };
    let ends = |open: AcpOpen, messages: &[Value]| {
        let mut codec = AcpCodec::new(open);
        codec.open();
        let (events, _) = feed(&mut codec, messages);
        turns(&events)[0].clone()
    };
    let missing =
        json!({ "jsonrpc": "2.0", "id": 2, "error": { "code": -32002, "message": "gone" } });
    assert_eq!(ends(resumed.clone(), &[hello(1, true), missing]).end, AgentEnd::NoSession);
    assert_eq!(ends(resumed, &[hello(1, false)]).end, AgentEnd::NoSession);
    let turn = ends(open(), &[hello(2, true)]);
    assert_eq!(turn.text, "it speaks version 2 of the protocol; expected 1");
    let login =
        json!({ "jsonrpc": "2.0", "id": 2, "error": { "code": -32000, "message": "log in" } });
    let AgentEnd::Model { kind, .. } = ends(open(), &[hello(1, true), login]).end else { panic!() };
    assert_eq!(kind, "auth");
}

#[test]
fn a_loaded_conversation_that_the_provider_does_not_take_is_as_good_as_gone() {
    let refused =
        r#"{"error":{"code":400,"message":"function response","status":"INVALID_ARGUMENT"}}"#;
    let error = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": 500, "message": refused } });
    let end = |opening: Opening, proven: bool| {
        let mut codec = ready(AcpOpen { opening, ..open() });
        let mut id = values(&codec.order(prompt()).unwrap())[0]["id"].as_u64().unwrap();
        if proven {
            feed(&mut codec, &[answer(id, json!({ "stopReason": "end_turn" }))]);
            id = values(&codec.order(prompt()).unwrap())[0]["id"].as_u64().unwrap();
        }
        let (events, _) = feed(&mut codec, &[error(id)]);
        turns(&events)[0].end.clone()
    };
    let resumed = || Opening::Resume("s".to_owned());
    assert_eq!(end(resumed(), false), AgentEnd::NoSession);
    for end in [end(resumed(), true), end(Opening::New, false)] {
        assert!(matches!(&end, AgentEnd::Model { kind, .. } if kind == "client"), "{end:?}");
    }
}

const UNKNOWN: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"brand/new\"}\nnoise\n\n{}\n";
codec_laws!(CAPTURES, codec_for, UNKNOWN);
