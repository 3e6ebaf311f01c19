//! Events of a response in, events and replies out.

use super::super::OpenAiResponses;
use crate::model::openai_chat::tests::{calls, events, interleave, reply, says};
use crate::model::{Dialect, Retry, StreamEvent};
use machine::message::{Part, StopReason};
use serde_json::{Value, json};

fn event(kind: &str, fields: Value) -> String {
    let mut event = json!({ "type": kind, "sequence_number": 1 });
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    event.to_string()
}

fn created() -> String {
    let response = json!({ "id": "r1", "model": "gpt-x", "status": "in_progress", "output": [] });
    event("response.created", json!({ "response": response }))
}

fn added(index: u64, item: Value) -> String {
    event("response.output_item.added", json!({ "output_index": index, "item": item }))
}

fn item(index: u64, item: Value) -> String {
    event("response.output_item.done", json!({ "output_index": index, "item": item }))
}

fn says_text(index: u64, delta: &str) -> String {
    let fields = json!({ "output_index": index, "content_index": 0, "item_id": format!("msg_{index}"), "delta": delta });
    event("response.output_text.delta", fields)
}

fn arguments(index: u64, delta: &str) -> String {
    let fields = json!({ "output_index": index, "item_id": format!("fc_{index}"), "delta": delta });
    event("response.function_call_arguments.delta", fields)
}

fn message(index: u64, text: &str) -> Value {
    let part = json!({ "type": "output_text", "text": text, "annotations": [] });
    json!({ "type": "message", "id": format!("msg_{index}"), "role": "assistant", "status": "completed", "content": [part] })
}

fn function_call(index: u64, arguments: &str) -> Value {
    json!({
        "type": "function_call", "id": format!("fc_{index}"), "call_id": format!("call_{index}"),
        "name": "bash", "arguments": arguments, "status": "completed",
    })
}

fn completed() -> String {
    let usage = json!({
        "input_tokens": 100, "output_tokens": 20, "total_tokens": 120,
        "input_tokens_details": { "cached_tokens": 60, "cache_write_tokens": 30, "cache_write_tokens_details": { "ttl_30m_tokens": 10, "ttl_12h_tokens": 20 } },
        "output_tokens_details": { "reasoning_tokens": 5 },
    });
    event(
        "response.completed",
        json!({ "response": { "id": "r1", "status": "completed", "usage": usage } }),
    )
}

fn incomplete(reason: &str) -> String {
    let response =
        json!({ "id": "r1", "status": "incomplete", "incomplete_details": { "reason": reason } });
    event("response.incomplete", json!({ "response": response }))
}

#[track_caller]
fn check(frames: &[String], expected: &[&str]) {
    assert_eq!(events(&OpenAiResponses, frames), expected);
}

fn fails(frames: &[String]) -> &'static str {
    reply(&OpenAiResponses, frames).unwrap_err().kind.word()
}

#[test]
fn text_is_told_once_and_its_item_kept() {
    let part = json!({ "output_index": 0, "part": { "type": "output_text", "text": "Hello" } });
    let frames = [
        created(),
        event("response.in_progress", json!({ "response": { "id": "r1" } })),
        added(0, json!({ "type": "message", "id": "msg_0", "content": [] })),
        event("response.content_part.added", part.clone()),
        says_text(0, "Hel"),
        event("keepalive", json!({})),
        says_text(0, "lo"),
        event("response.output_text.done", json!({ "output_index": 0, "text": "Hello" })),
        event("response.content_part.done", part),
        item(0, message(0, "Hello")),
        completed(),
        "[DONE]".to_owned(),
    ];
    let native = format!("0 native {}", message(0, "Hello"));
    check(
        &frames,
        &[
            "start r1 gpt-x",
            "ping",
            "0 text Hel",
            "ping",
            "0 text lo",
            "ping",
            "ping",
            &native,
            "delta in=10 out=20 thinking=5 read=60 write=10 long=20 EndTurn",
            "end",
            "complete",
        ],
    );
    let reply = reply(&OpenAiResponses, &frames).unwrap();
    assert_eq!(says(&reply), ("Hello".to_owned(), StopReason::EndTurn));
    let native = reply.message.blocks[0].native.as_ref().unwrap();
    assert_eq!(
        (native.dialect.as_str(), native.raw["id"].as_str()),
        ("openai_responses", Some("msg_0"))
    );
}

#[test]
fn parallel_calls_interleave_and_keep_their_items() {
    let frames = [
        created(),
        added(0, function_call(0, "")),
        added(1, function_call(1, "")),
        arguments(1, "{\"command\":"),
        arguments(0, "{}"),
        arguments(1, "\"b\"}"),
        event(
            "response.function_call_arguments.done",
            json!({ "output_index": 0, "arguments": "{}" }),
        ),
        item(1, function_call(1, "{\"command\":\"b\"}")),
        item(0, function_call(0, "{}")),
        completed(),
    ];
    let reply = reply(&OpenAiResponses, &frames).unwrap();
    assert_eq!(
        calls(&reply),
        [("call_0".to_owned(), json!({})), ("call_1".to_owned(), json!({ "command": "b" })),]
    );
    assert_eq!(reply.stop, StopReason::ToolUse);
    let ids: Vec<&str> = reply
        .message
        .blocks
        .iter()
        .map(|b| b.native.as_ref().unwrap().raw["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["fc_0", "fc_1"]);
}

#[test]
fn however_arguments_are_cut_and_mixed_they_assemble_to_the_same() {
    let inputs =
        [json!({ "command": "printf 'ä\"\\n' \u{1f600}" }), json!({ "a": [1, { "b": null }] })];
    let texts: Vec<String> = inputs.iter().map(Value::to_string).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for seed in 0..200 {
        let mut frames =
            vec![created(), added(0, function_call(0, "")), added(1, function_call(1, ""))];
        frames.extend(
            interleave(&texts, seed).into_iter().map(|(n, piece)| arguments(n as u64, piece)),
        );
        frames.extend([
            item(0, function_call(0, texts[0])),
            item(1, function_call(1, texts[1])),
            completed(),
        ]);
        let got = calls(&reply(&OpenAiResponses, &frames).unwrap());
        let expected =
            [("call_0".to_owned(), inputs[0].clone()), ("call_1".to_owned(), inputs[1].clone())];
        assert_eq!(got, expected, "seed {seed}");
    }
}

#[test]
fn reasoning_shows_its_summary_and_keeps_what_is_encrypted() {
    let reasoning = json!({
        "type": "reasoning", "id": "rs_0", "encrypted_content": "enc",
        "summary": [{ "type": "summary_text", "text": "One" }, { "type": "summary_text", "text": "Two" }],
    });
    let summary = |index: u64, delta: &str| {
        let fields = json!({ "output_index": 0, "summary_index": index, "delta": delta });
        event("response.reasoning_summary_text.delta", fields)
    };
    let part = |index: u64| {
        event(
            "response.reasoning_summary_part.added",
            json!({ "output_index": 0, "summary_index": index }),
        )
    };
    let frames = [
        created(),
        added(0, json!({ "type": "reasoning", "id": "rs_0", "summary": [] })),
        part(0),
        summary(0, "One"),
        part(1),
        summary(1, "Two"),
        item(0, reasoning.clone()),
        item(1, function_call(1, "{}")),
        completed(),
    ];
    let with_deltas = reply(&OpenAiResponses, &frames).unwrap();
    assert_eq!(
        with_deltas.message.blocks[0].part,
        Part::Thinking { text: "One\n\nTwo".to_owned() }
    );
    let bare = [created(), item(0, reasoning), item(1, function_call(1, "{}")), completed()];
    assert_eq!(reply(&OpenAiResponses, &bare).unwrap().message, with_deltas.message);
    let hidden =
        json!({ "type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "enc" });
    let hidden = [created(), item(0, hidden), completed()];
    assert_eq!(fails(&hidden), "empty_completion");
}

#[test]
fn an_item_nobody_knows_is_kept() {
    let search = json!({ "type": "web_search_call", "id": "ws_0", "status": "completed" });
    let frames = [
        created(),
        added(0, search.clone()),
        event("response.web_search_call.searching", json!({ "output_index": 0 })),
        item(0, search.clone()),
        item(1, message(1, "Found")),
        completed(),
    ];
    let reply = reply(&OpenAiResponses, &frames).unwrap();
    assert_eq!(reply.message.blocks[0].part, Part::Opaque);
    assert_eq!(reply.message.blocks[0].native.as_ref().unwrap().raw, search);
}

#[test]
fn servers_that_number_nothing_are_read_by_ids() {
    let unnumbered = |kind: &str, item: Value| event(kind, json!({ "item": item }));
    let frames = [
        event("response.created", json!({ "response": { "id": "r1" } })),
        unnumbered("response.output_item.added", json!({ "type": "message", "id": "msg_1" })),
        event("response.output_text.delta", json!({ "item_id": "msg_1", "delta": "Hi" })),
        unnumbered("response.output_item.done", message(1, "Hi")),
        unnumbered("response.output_item.added", function_call(2, "")),
        unnumbered("response.output_item.added", function_call(3, "")),
        event(
            "response.function_call_arguments.delta",
            json!({ "item_id": "fc_2", "delta": "{}" }),
        ),
        unnumbered(
            "response.output_item.done",
            json!({ "type": "function_call", "call_id": "call_2", "name": "bash", "arguments": "{}" }),
        ),
        unnumbered("response.output_item.done", function_call(3, "{\"a\":1}")),
        completed(),
    ];
    let reply = reply(&OpenAiResponses, &frames).unwrap();
    assert_eq!(says(&reply).0, "Hi");
    assert_eq!(
        calls(&reply),
        [("call_2".to_owned(), json!({})), ("call_3".to_owned(), json!({ "a": 1 })),]
    );
}

#[test]
fn an_answer_that_comes_only_with_its_end_is_taken() {
    let response = json!({ "id": "r1", "status": "completed", "output": [message(0, "Hi"), function_call(1, "{}")] });
    let frames = [event("response.completed", json!({ "response": response }))];
    let reply = reply(&OpenAiResponses, &frames).unwrap();
    assert_eq!(says(&reply), ("Hi".to_owned(), StopReason::ToolUse));
    assert_eq!(reply.id, "r1");
}

#[test]
fn every_end_has_its_meaning() {
    let end = |end: String| {
        let frames = [created(), says_text(0, "x"), end];
        match reply(&OpenAiResponses, &frames) {
            Ok(reply) => format!("{:?}", reply.stop),
            Err(error) => error.kind.word().to_owned(),
        }
    };
    assert_eq!(end(completed()), "EndTurn");
    assert_eq!(end(incomplete("max_output_tokens")), "MaxTokens");
    assert_eq!(end(incomplete("content_filter")), "Refusal");
    assert_eq!(end(incomplete("banana")), "unknown_stop");
    assert_eq!(end(event("response.cancelled", json!({ "response": {} }))), "cancelled");
    assert_eq!(end(event("response.failed", json!({ "response": { "error": null } }))), "server");
    assert_eq!(end(event("response.unheard_of", json!({}))), "stream_truncated");
    // Some servers say `completed` and mean it only in the status.
    let response =
        json!({ "status": "incomplete", "incomplete_details": { "reason": "max_output_tokens" } });
    assert_eq!(end(event("response.completed", json!({ "response": response }))), "MaxTokens");
    assert_eq!(fails(&[incomplete("max_output_tokens")]), "truncated");
    assert_eq!(
        reply(&OpenAiResponses, &[incomplete("content_filter")]).unwrap().stop,
        StopReason::Refusal
    );
}

#[test]
fn a_refusal_is_text_and_a_reason() {
    let refusal =
        |delta: &str| event("response.refusal.delta", json!({ "output_index": 0, "delta": delta }));
    let frames = [created(), refusal("I "), refusal("won't"), completed()];
    let expected = ("I won't".to_owned(), StopReason::Refusal);
    assert_eq!(says(&reply(&OpenAiResponses, &frames).unwrap()), expected);
    let content = json!([{ "type": "refusal", "refusal": "I won't" }]);
    let whole = json!({ "type": "message", "id": "msg_0", "content": content });
    assert_eq!(
        says(&reply(&OpenAiResponses, &[created(), item(0, whole), completed()]).unwrap()),
        expected
    );
}

#[test]
fn failures_have_their_kinds_and_what_they_cost() {
    let failed = |code: &str, message: &str| {
        let error = json!({ "code": code, "message": message });
        let response = json!({ "id": "r1", "status": "failed", "error": error, "usage": { "output_tokens": 3 } });
        let frames = [event("response.failed", json!({ "response": response }))];
        reply(&OpenAiResponses, &frames).unwrap_err()
    };
    let limited = failed("rate_limit_exceeded", "Rate limit reached. Please try again in 1.898s.");
    assert_eq!((limited.kind.word(), limited.retry), ("rate_limited", Retry::After(1898)));
    assert_eq!(limited.usage.output, Some(3));
    assert_eq!(failed("server_is_overloaded", "x").kind.word(), "overloaded");
    assert_eq!(failed("slow_down", "x").kind.word(), "overloaded");
    assert_eq!(failed("context_length_exceeded", "x").kind.word(), "context_overflow");
    assert_eq!(failed("insufficient_quota", "x").kind.word(), "quota");
    assert_eq!(failed("invalid_prompt", "x").kind.word(), "content_filter");
    assert_eq!(failed("invalid_image_format", "x").kind.word(), "client");
    assert_eq!(failed("server_error", "x").kind.word(), "server");
    let error = |fields: Value| fails(&[created(), event("error", fields)]);
    assert_eq!(error(json!({ "code": "server_error", "message": "x", "param": null })), "server");
    assert_eq!(
        error(json!({ "error": { "type": "too_many_requests", "message": "x" } })),
        "rate_limited"
    );
    assert_eq!(
        fails(&[created(), json!({ "error": { "code": 429 } }).to_string()]),
        "rate_limited"
    );
}

#[test]
fn a_cut_call_never_runs() {
    let open = [created(), added(0, function_call(0, "")), arguments(0, "{\"command\":\"l")];
    let ends = |end: &[String]| fails(&[&open[..], end].concat());
    assert_eq!(ends(&[]), "stream_truncated");
    assert_eq!(ends(&[completed()]), "tool_args_invalid");
    assert_eq!(ends(&[incomplete("max_output_tokens")]), "tool_args_truncated");
    let cut = item(0, function_call(0, "{\"command\":\"l"));
    assert_eq!(ends(&[cut.clone(), completed()]), "tool_args_invalid");
    assert_eq!(ends(&[cut, incomplete("max_output_tokens")]), "tool_args_truncated");
    // What was shown and what would run must be the same.
    assert_eq!(ends(&[item(0, function_call(0, "{\"command\":\"rm\"}"))]), "protocol");
    assert_eq!(
        ends(&[item(0, json!({ "type": "function_call", "call_id": "other" }))]),
        "protocol"
    );
    let none = [created(), item(0, function_call(0, "")), completed()];
    let none = reply(&OpenAiResponses, &none).unwrap();
    assert_eq!(calls(&none), [("call_0".to_owned(), json!({}))], "a call without parameters");
    assert_eq!(ends(&[item(0, message(0, "x"))]), "protocol");
    assert_eq!(fails(&[created(), arguments(7, "{}")]), "protocol");
    let rest = item(0, function_call(0, "{\"command\":\"ls\"}"));
    let whole = reply(&OpenAiResponses, &[&open[..], &[rest, completed()]].concat()).unwrap();
    assert_eq!(calls(&whole), [("call_0".to_owned(), json!({ "command": "ls" }))]);
    let same = [created(), item(0, function_call(0, "{}")), item(1, function_call(0, "{}"))];
    let mut twice = same.to_vec();
    twice[2] = twice[2].replace("fc_0", "fc_1");
    assert_eq!(fails(&[twice, vec![completed()]].concat()), "duplicate_tool_id");
}

#[test]
fn what_is_no_json_or_of_another_shape_ends_the_stream() {
    let fails = |frame: &str| fails(&[created(), frame.to_owned()]);
    assert_eq!(fails("{\"type\":"), "malformed_stream");
    assert_eq!(fails("[]"), "protocol");
    assert_eq!(fails(&event("response.output_text.delta", json!({ "delta": 7 }))), "protocol");
}

#[test]
fn while_a_model_reasons_unseen_a_sign_of_life_is_all_that_comes() {
    let keepalive = event("keepalive", json!({}));
    let reasoning = json!({ "type": "reasoning", "id": "rs_0", "summary": [] });
    let mut decoder = OpenAiResponses.decoder();
    let mut held_after = |frame: &str| {
        let mut out = Vec::new();
        decoder.frame("", frame, &mut out).unwrap();
        (out.contains(&StreamEvent::Ping), decoder.is_held_back())
    };
    assert_eq!(held_after(&created()), (false, true));
    assert_eq!(held_after(&added(0, reasoning.clone())), (false, true));
    assert_eq!(held_after(&keepalive), (true, true));
    assert_eq!(held_after(&item(0, reasoning)), (false, true));
    assert_eq!(held_after(&added(1, message(1, ""))), (false, false));
    assert_eq!(held_after(&says_text(1, "So")), (false, false));
    assert_eq!(held_after(&keepalive), (true, false));
}
