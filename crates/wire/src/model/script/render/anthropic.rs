//! A reply as Anthropic's messages send it.

use machine::message::{Part, Reply, StopReason, Usage};
use serde_json::{Value, json};

use super::{counters, event, pieces, said, words};
use crate::model::ErrorKind;
use crate::model::script::Failure;

/// What stands for the signature that real thinking carries.
const SIGNATURE: &str = "c2NyaXB0";

pub(super) fn whole(reply: &Reply) -> Value {
    let content: Vec<Value> = said(reply)
        .map(|(_, part)| match part {
            Part::Thinking { text } => {
                json!({"type": "thinking", "thinking": text, "signature": SIGNATURE})
            }
            Part::ToolUse { id, name, input } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
            part => json!({"type": "text", "text": super::text_of(part).unwrap_or_default()}),
        })
        .collect();
    let (stop, sequence) = stop(reply.stop);
    message(reply, content.into(), stop.into(), sequence, usage(&reply.usage, reply.usage.output))
}

pub(super) fn stream(reply: &Reply) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut send = |data: Value| {
        let name = data["type"].as_str().unwrap_or_default().to_owned();
        out.push(event(&name, &data));
    };
    let begun = usage(&reply.usage, Some(1));
    let empty = message(reply, json!([]), Value::Null, Value::Null, begun);
    send(json!({"type": "message_start", "message": empty}));
    send(json!({"type": "ping"}));
    for (index, part) in said(reply) {
        let delta =
            |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let (block, deltas): (Value, Vec<Value>) = match part {
            Part::Thinking { text } => {
                let mut deltas: Vec<Value> = pieces(text)
                    .map(|text| json!({"type": "thinking_delta", "thinking": text}))
                    .collect();
                deltas.push(json!({"type": "signature_delta", "signature": SIGNATURE}));
                (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
            }
            Part::ToolUse { id, name, input } => {
                let first = json!({"type": "input_json_delta", "partial_json": ""});
                let rest = pieces(&input.to_string())
                    .map(|json| json!({"type": "input_json_delta", "partial_json": json}))
                    .collect::<Vec<_>>();
                let deltas = std::iter::once(first).chain(rest).collect();
                (json!({"type": "tool_use", "id": id, "name": name, "input": {}}), deltas)
            }
            part => {
                let text = super::text_of(part).unwrap_or_default();
                let deltas =
                    pieces(text).map(|text| json!({"type": "text_delta", "text": text})).collect();
                (json!({"type": "text", "text": ""}), deltas)
            }
        };
        send(json!({"type": "content_block_start", "index": index, "content_block": block}));
        deltas.into_iter().for_each(|content| send(delta(content)));
        send(json!({"type": "content_block_stop", "index": index}));
    }
    let (stop, sequence) = stop(reply.stop);
    send(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": sequence},
        "usage": {"output_tokens": reply.usage.output.unwrap_or(0)},
    }));
    send(json!({"type": "message_stop"}));
    out
}

pub(super) fn failure(failure: &Failure) -> Value {
    let kind = match failure.kind {
        ErrorKind::Auth => "authentication_error",
        ErrorKind::RateLimited => "rate_limit_error",
        ErrorKind::Quota => "billing_error",
        ErrorKind::Overloaded => "overloaded_error",
        ErrorKind::TooLarge => "request_too_large",
        ErrorKind::Server => "api_error",
        ErrorKind::Config if failure.status == 404 => "not_found_error",
        _ => "invalid_request_error",
    };
    let overflow = "prompt is too long: 210000 tokens > 200000 maximum";
    let history =
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after";
    let error = json!({"type": kind, "message": words(failure, overflow, history)});
    json!({"type": "error", "error": error, "request_id": "req_script"})
}

fn message(reply: &Reply, content: Value, stop: Value, sequence: Value, usage: Value) -> Value {
    json!({
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": sequence,
        "usage": usage,
    })
}

fn stop(stop: StopReason) -> (&'static str, Value) {
    match stop {
        StopReason::EndTurn => ("end_turn", Value::Null),
        StopReason::ToolUse => ("tool_use", Value::Null),
        StopReason::MaxTokens => ("max_tokens", Value::Null),
        StopReason::StopSequence => ("stop_sequence", "STOP".into()),
        StopReason::Refusal => ("refusal", Value::Null),
        StopReason::Pause => ("pause_turn", Value::Null),
    }
}

/// Input and output are always counted here.
fn usage(usage: &Usage, output: Option<u64>) -> Value {
    let mut counted = counters(&[
        ("input_tokens", Some(usage.input.unwrap_or(0))),
        ("output_tokens", Some(output.unwrap_or(0))),
        ("cache_read_input_tokens", usage.cache_read),
    ]);
    if usage.cache_write.is_some() || usage.cache_write_long.is_some() {
        let (short, long) = (usage.cache_write.unwrap_or(0), usage.cache_write_long.unwrap_or(0));
        counted["cache_creation_input_tokens"] = short.saturating_add(long).into();
        counted["cache_creation"] =
            json!({"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long});
    }
    counted
}
