//! How a turn of Codex failed, from its typed error (`codexErrorInfo`) and, where that says too little, its text.

use machine::agent::AgentEnd;
use serde_json::Value;

use crate::model::ErrorKind;

/// How a turn with this error ended. The error is the object with `message` and `codexErrorInfo`.
pub(in crate::agent) fn end_of(error: &Value) -> AgentEnd {
    let message = error["message"].as_str().unwrap_or_default();
    let (word, status) = named(&error["codexErrorInfo"]);
    // A provider that answers 400 for a conversation that is too long is passed on as a bad request.
    if message.contains("context_length_exceeded") {
        return AgentEnd::ContextOverflow;
    }
    let kind = match word {
        "contextWindowExceeded" => return AgentEnd::ContextOverflow,
        "sessionBudgetExceeded" | "tooManyDenials" => return AgentEnd::Limit,
        "cyberPolicy" | "misalignmentPolicyViolation" => return AgentEnd::Refused,
        "usageLimitExceeded" => ErrorKind::Quota,
        "rateLimitExceeded" => ErrorKind::RateLimited,
        "serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable" => {
            ErrorKind::Overloaded
        }
        "internalServerError" => ErrorKind::Server,
        "unauthorized" => ErrorKind::Auth,
        "badRequest" => ErrorKind::Client,
        "modelNotFound" => ErrorKind::Config,
        "httpConnectionFailed" | "responseStreamConnectionFailed" => {
            status.map_or(ErrorKind::Transport, of_status)
        }
        "responseStreamDisconnected" => status.map_or(ErrorKind::StreamTruncated, of_status),
        "responseTooManyFailedAttempts" => status.map_or(ErrorKind::Server, of_status),
        // A stream that was cut once too often has no type, only this text.
        _ if message.starts_with("stream disconnected") => ErrorKind::StreamTruncated,
        // The text of an answer that has no kind of its own names the status.
        _ => match status_in(message) {
            Some(status) => return model(of_status(status), Some(status)),
            None => return AgentEnd::Failed,
        },
    };
    model(kind, status.or_else(|| status_in(message)))
}

/// The kind of a failure in one word, for one that is tried again.
pub(in crate::agent) fn word_of(error: &Value) -> String {
    match end_of(error) {
        AgentEnd::Model { kind, .. } => kind,
        AgentEnd::ContextOverflow => ErrorKind::ContextOverflow.word().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// A failed model, with what its kind says about trying again.
pub(in crate::agent) fn model(kind: ErrorKind, status: Option<u16>) -> AgentEnd {
    let again = matches!(
        kind,
        ErrorKind::RateLimited
            | ErrorKind::Overloaded
            | ErrorKind::Server
            | ErrorKind::Transport
            | ErrorKind::StreamTruncated
            | ErrorKind::EmptyCompletion
    );
    AgentEnd::Model { kind: kind.word().to_owned(), status, again, after: None }
}

/// What a status other than 200 means.
pub(in crate::agent) fn of_status(status: u16) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Auth,
        402 => ErrorKind::Quota,
        404 => ErrorKind::Config,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        500.. => ErrorKind::Server,
        _ => ErrorKind::Client,
    }
}

/// The error's name, and the status that some carry: `"name"` or `{"name": {"httpStatusCode": 429}}`.
fn named(info: &Value) -> (&str, Option<u16>) {
    match info {
        Value::String(name) => (name, None),
        Value::Object(fields) => fields.iter().next().map_or(("", None), |(name, inner)| {
            let status = inner["httpStatusCode"].as_u64();
            (name, status.and_then(|status| u16::try_from(status).ok()))
        }),
        _ => ("", None),
    }
}

/// The status in a text such as `unexpected status 503 Service Unavailable` or `last status: 429 Too Many Requests`.
fn status_in(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("status")?;
    let digits = rest.trim_start_matches([':', ' ']);
    let status = digits.get(..3)?.parse().ok()?;
    (400..600).contains(&status).then_some(status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_error_has_its_end() {
        let end = |info: Value| end_of(&json!({ "message": "m", "codexErrorInfo": info }));
        let failed = |kind: ErrorKind, status| model(kind, status);
        assert_eq!(end(json!("contextWindowExceeded")), AgentEnd::ContextOverflow);
        assert_eq!(end(json!("tooManyDenials")), AgentEnd::Limit);
        assert_eq!(end(json!("cyberPolicy")), AgentEnd::Refused);
        assert_eq!(end(json!("usageLimitExceeded")), failed(ErrorKind::Quota, None));
        assert_eq!(end(json!("unauthorized")), failed(ErrorKind::Auth, None));
        assert_eq!(end(json!("serverOverloaded")), failed(ErrorKind::Overloaded, None));
        assert_eq!(end(json!("sandboxError")), AgentEnd::Failed);
        assert_eq!(end(json!("somethingNew")), AgentEnd::Failed);
        assert_eq!(end(json!({})), AgentEnd::Failed);
        assert_eq!(end(json!(7)), AgentEnd::Failed);
        let with = |name: &str, status: Value| end(json!({ name: { "httpStatusCode": status } }));
        let attempts = "responseTooManyFailedAttempts";
        assert_eq!(with(attempts, json!(429)), failed(ErrorKind::RateLimited, Some(429)));
        assert_eq!(with(attempts, json!(null)), failed(ErrorKind::Server, None));
        assert_eq!(with("httpConnectionFailed", json!(null)), failed(ErrorKind::Transport, None));
        let cut = "responseStreamDisconnected";
        assert_eq!(with(cut, json!(null)), failed(ErrorKind::StreamTruncated, None));
        assert_eq!(with(cut, json!(503)), failed(ErrorKind::Overloaded, Some(503)));
        assert_eq!(with(cut, json!(70_000)), failed(ErrorKind::StreamTruncated, None));
    }

    #[test]
    fn a_text_that_names_a_status_is_read_where_the_type_says_nothing() {
        let end = |text: &str| end_of(&json!({ "message": text, "codexErrorInfo": "other" }));
        let text = "unexpected status 401 Unauthorized: bad key";
        assert_eq!(end(text), model(ErrorKind::Auth, Some(401)));
        assert_eq!(end("exceeded retry limit, last status: 429 Too Many Requests").clone(), {
            model(ErrorKind::RateLimited, Some(429))
        });
        let cut = "stream disconnected before completion: Transport error: network error";
        assert_eq!(end(cut), model(ErrorKind::StreamTruncated, None));
        assert_eq!(end("status: fine"), AgentEnd::Failed);
        let long = r#"{"error": {"code": "context_length_exceeded"}}"#;
        assert_eq!(
            end_of(&json!({ "message": long, "codexErrorInfo": "badRequest" })),
            AgentEnd::ContextOverflow
        );
    }
}
