//! A reply as Google's generateContent sends it.

use machine::message::{Part, Reply, StopReason, Usage};
use serde_json::{Value, json};

use super::{counters, data, is_counted, pieces, prompt, said, words};
use crate::model::ErrorKind;
use crate::model::script::Failure;

pub(super) fn whole(reply: &Reply) -> Value {
    let parts: Vec<Value> = said(reply).flat_map(|(_, part)| parts(part, false)).collect();
    chunk(reply, parts, true)
}

pub(super) fn stream(reply: &Reply) -> Vec<Vec<u8>> {
    let parts = said(reply).flat_map(|(_, part)| parts(part, true));
    let mut out: Vec<Vec<u8>> = parts.map(|part| data(&chunk(reply, vec![part], false))).collect();
    out.push(data(&chunk(reply, vec![json!({"text": ""})], true)));
    out
}

pub(super) fn failure(failure: &Failure) -> Value {
    let word = match (failure.kind, failure.status) {
        (ErrorKind::Auth, 401) => "UNAUTHENTICATED",
        (ErrorKind::Auth, _) => "PERMISSION_DENIED",
        (ErrorKind::RateLimited | ErrorKind::Quota, _) => "RESOURCE_EXHAUSTED",
        (ErrorKind::Overloaded, _) => "UNAVAILABLE",
        (ErrorKind::Server, 504) => "DEADLINE_EXCEEDED",
        (ErrorKind::Server, _) => "INTERNAL",
        (ErrorKind::Cancelled, _) => "CANCELLED",
        (ErrorKind::Config, 404) => "NOT_FOUND",
        _ => "INVALID_ARGUMENT",
    };
    let overflow =
        "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).";
    let history = "Please ensure that function call turn comes immediately after a user turn or after a function response turn.";
    let large = "Request payload size exceeds the limit: 20971520 bytes.";
    let message = match (failure.kind, &failure.message) {
        (ErrorKind::TooLarge, None) => large.to_owned(),
        _ => words(failure, overflow, history),
    };
    let mut details = Vec::new();
    if failure.kind == ErrorKind::Quota {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
        }));
    }
    if let Some(wait) = failure.retry_after {
        let delay = format!("{}.{:03}s", wait.0 / 1000, wait.0 % 1000);
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": delay,
        }));
    }
    let code = failure.status;
    json!({"error": {"code": code, "message": message, "status": word, "details": details}})
}

/// A block as parts: a call always whole, text in pieces if it streams.
fn parts(part: &Part, in_pieces: bool) -> Vec<Value> {
    let split = |text: &str| {
        if in_pieces { pieces(text).collect() } else { vec![text.to_owned()] }
    };
    match part {
        Part::Text { text } => split(text).into_iter().map(|text| json!({"text": text})).collect(),
        Part::Thinking { text } => {
            split(text).into_iter().map(|text| json!({"text": text, "thought": true})).collect()
        }
        Part::ToolUse { id, name, input } => {
            vec![json!({"functionCall": {"id": id, "name": name, "args": input}})]
        }
        Part::ToolResult { .. } | Part::Media { .. } | Part::Opaque => Vec::new(),
    }
}

fn chunk(reply: &Reply, parts: Vec<Value>, is_last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if is_last {
        candidate["finishReason"] = match reply.stop {
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::StopSequence
            | StopReason::Pause => "STOP",
            StopReason::MaxTokens => "MAX_TOKENS",
            StopReason::Refusal => "SAFETY",
        }
        .into();
    }
    let mut out = json!({
        "candidates": [candidate],
        "modelVersion": reply.model,
        "responseId": reply.id,
    });
    if is_last && is_counted(&reply.usage) {
        out["usageMetadata"] = usage(&reply.usage);
    }
    out
}

fn usage(usage: &Usage) -> Value {
    let all = usage.output.unwrap_or(0);
    let thinking = usage.thinking.map(|thinking| thinking.min(all));
    counters(&[
        ("promptTokenCount", Some(prompt(usage))),
        ("cachedContentTokenCount", usage.cache_read),
        ("candidatesTokenCount", Some(all - thinking.unwrap_or(0))),
        ("thoughtsTokenCount", thinking),
        ("totalTokenCount", Some(usage.total())),
    ])
}
