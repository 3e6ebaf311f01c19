//! A reply as chat completions send it: OpenAI's, and Mistral's variant of them.

use machine::message::{Part, Reply, StopReason, Usage};
use serde_json::{Value, json};

use super::{
    CREATED, counters, data, is_counted, joined, pieces, prompt, said, text_of, thinking_of, words,
};
use crate::model::ErrorKind;
use crate::model::script::Failure;

/// Whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// OpenAI's, with thinking as compatible servers send it.
    OpenAi,
    /// Mistral's: thinking is content, calls come whole, counters with the end.
    Mistral,
}

pub(super) fn whole(reply: &Reply, kind: Kind) -> Value {
    let text = joined(reply, text_of);
    let thinking = joined(reply, thinking_of);
    let calls: Vec<Value> = calls(reply)
        .map(|(index, id, name, arguments)| {
            let function = json!({"name": name, "arguments": arguments});
            match kind {
                Kind::OpenAi => json!({"id": id, "type": "function", "function": function}),
                Kind::Mistral => {
                    json!({"id": id, "type": "function", "function": function, "index": index})
                }
            }
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": text});
    match (kind, thinking) {
        (Kind::OpenAi, thinking) => {
            message["refusal"] = Value::Null;
            if let Some(thinking) = thinking {
                message["reasoning_content"] = thinking.into();
            }
        }
        (Kind::Mistral, Some(thinking)) => {
            let mut content = vec![thought(&thinking)];
            content.extend(text.map(|text| json!({"type": "text", "text": text})));
            message["content"] = content.into();
        }
        (Kind::Mistral, None) => {}
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": finish(reply.stop)});
    let mut out = envelope(reply, "chat.completion", json!([choice]));
    // Mistral's clients ask for counters; OpenAI's take their absence.
    if is_counted(&reply.usage) || kind == Kind::Mistral {
        out["usage"] = usage(&reply.usage);
    }
    out
}

pub(super) fn stream(reply: &Reply, kind: Kind, with_usage: bool) -> Vec<Vec<u8>> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        envelope(reply, "chat.completion.chunk", json!([choice]))
    };
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    let mut calls = 0;
    for (_, part) in said(reply) {
        match part {
            Part::Thinking { text } => deltas.extend(pieces(text).map(|text| match kind {
                Kind::OpenAi => json!({"reasoning_content": text}),
                Kind::Mistral => json!({"content": [thought(&text)]}),
            })),
            Part::Text { text } => {
                deltas.extend(pieces(text).map(|text| json!({"content": text})));
            }
            Part::ToolUse { id, name, input } => {
                deltas.extend(call_deltas(calls, id, name, input, kind));
                calls += 1;
            }
            Part::ToolResult { .. } | Part::Media { .. } | Part::Opaque => {}
        }
    }
    let mut out: Vec<Vec<u8>> =
        deltas.into_iter().map(|delta| data(&chunk(delta, Value::Null))).collect();
    let is_counted = with_usage && is_counted(&reply.usage);
    let mut last = chunk(json!({}), finish(reply.stop).into());
    match kind {
        Kind::OpenAi => {
            out.push(data(&last));
            if is_counted {
                let mut counted = envelope(reply, "chat.completion.chunk", json!([]));
                counted["usage"] = usage(&reply.usage);
                out.push(data(&counted));
            }
        }
        Kind::Mistral => {
            last["choices"][0]["delta"] = json!({"content": ""});
            if is_counted {
                last["usage"] = usage(&reply.usage);
            }
            out.push(data(&last));
        }
    }
    out.push(b"data: [DONE]\n\n".to_vec());
    out
}

fn call_deltas(index: usize, id: &str, name: &str, input: &Value, kind: Kind) -> Vec<Value> {
    let begin = |arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
    };
    let arguments = input.to_string();
    match kind {
        Kind::Mistral => vec![begin(&arguments)],
        Kind::OpenAi => {
            let rest = pieces(&arguments).map(
                |piece| json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
            );
            std::iter::once(begin("")).chain(rest).collect()
        }
    }
}

pub(super) fn failure(failure: &Failure) -> Value {
    let (kind, code) = match failure.kind {
        ErrorKind::Auth => ("invalid_request_error", Some("invalid_api_key")),
        ErrorKind::RateLimited => ("requests", Some("rate_limit_exceeded")),
        ErrorKind::Quota => ("insufficient_quota", Some("insufficient_quota")),
        ErrorKind::Overloaded => ("server_error", Some("server_is_overloaded")),
        ErrorKind::Server => ("server_error", None),
        ErrorKind::ContextOverflow => ("invalid_request_error", Some("context_length_exceeded")),
        ErrorKind::Config if failure.status == 404 => {
            ("invalid_request_error", Some("model_not_found"))
        }
        _ => ("invalid_request_error", None),
    };
    let message = words(failure, OVERFLOW, HISTORY);
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

pub(super) fn mistral_failure(failure: &Failure) -> Value {
    let (kind, code) = match failure.kind {
        ErrorKind::RateLimited => ("rate_limited", Some("1300")),
        ErrorKind::Overloaded => ("service_tier_capacity_exceeded", Some("3505")),
        ErrorKind::History => ("invalid_request_message_order", Some("3230")),
        ErrorKind::Server => ("internal_server_error", Some("3000")),
        ErrorKind::Quota => ("insufficient_quota", None),
        _ => ("invalid_request_error", None),
    };
    let overflow =
        "Prompt contains 210000 tokens, too large for model with 131072 maximum context length";
    let history = "Not the same number of function calls and responses";
    let message = words(failure, overflow, history);
    let status = failure.status;
    json!({"object": "error", "message": message, "type": kind, "param": null, "code": code, "raw_status_code": status})
}

const OVERFLOW: &str = "This model's maximum context length is 128000 tokens. However, your messages resulted in 210000 tokens.";
const HISTORY: &str = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.";

fn envelope(reply: &Reply, object: &str, choices: Value) -> Value {
    json!({
        "id": reply.id,
        "object": object,
        "created": CREATED,
        "model": reply.model,
        "choices": choices,
    })
}

fn thought(text: &str) -> Value {
    json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
}

fn calls(reply: &Reply) -> impl Iterator<Item = (usize, &str, &str, String)> {
    let calls = said(reply).filter_map(|(_, part)| match part {
        Part::ToolUse { id, name, input } => Some((id.as_str(), name.as_str(), input.to_string())),
        _ => None,
    });
    calls.enumerate().map(|(index, (id, name, arguments))| (index, id, name, arguments))
}

fn finish(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn | StopReason::StopSequence | StopReason::Pause => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
    }
}

fn usage(usage: &Usage) -> Value {
    let output = usage.output.unwrap_or(0);
    let mut counted = counters(&[
        ("prompt_tokens", Some(prompt(usage))),
        ("completion_tokens", Some(output)),
        ("total_tokens", Some(prompt(usage).saturating_add(output))),
    ]);
    if let Some(cached) = usage.cache_read {
        counted["prompt_tokens_details"] = json!({"cached_tokens": cached});
    }
    if let Some(thinking) = usage.thinking {
        counted["completion_tokens_details"] = json!({"reasoning_tokens": thinking});
    }
    counted
}
