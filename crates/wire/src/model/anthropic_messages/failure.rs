//! Errors of the Messages API, from answers and from events inside a stream.

use serde_json::Value;

use crate::model::error::{self, ErrorKind, ModelError};

/// The error of an answer that is no stream.
pub(super) fn of_answer(status: u16, headers: &[(String, String)], body: &[u8]) -> ModelError {
    if (300..400).contains(&status) {
        return ModelError::redirect(status, headers);
    }
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let (name, message) = told(&json["error"]);
    if message.is_empty() && name.is_empty() {
        let (kind, message) = (error::kind_of_status(status), error::words_of(status, body));
        return ModelError::of_answer(kind, &message, status, headers);
    }
    let kind = if status >= 500 && name != "overloaded_error" {
        error::kind_of_status(status)
    } else {
        let said = kind(name, message).unwrap_or_else(|| error::kind_of_status(status));
        error::kind_of_answer(status, said)
    };
    let message = if message.is_empty() { name } else { message };
    let mut failure = ModelError::of_answer(kind, message, status, headers).wait_for_reset(headers);
    let id = json["request_id"].as_str().map(str::to_owned);
    failure.request_id = failure.request_id.or(id);
    failure
}

/// The error of an `error` event.
pub(super) fn of_event(event: &Value) -> ModelError {
    let (name, message) = told(&event["error"]);
    let kind = kind(name, message).unwrap_or(ErrorKind::Server);
    let message = if message.is_empty() { name } else { message };
    let mut failure = ModelError::new(kind, error::told(message));
    failure.request_id = event["request_id"].as_str().map(str::to_owned);
    failure
}

/// The type and the message of an error, which some servers send as plain text.
fn told(error: &Value) -> (&str, &str) {
    match error {
        Value::String(message) => ("", message),
        _ => (
            error["type"].as_str().unwrap_or_default(),
            error["message"].as_str().unwrap_or_default(),
        ),
    }
}

/// The kind of an error of this type. The same type may mean what heals and what does not, so the text has a
/// say; a type that nobody knows gives `None`.
fn kind(name: &str, message: &str) -> Option<ErrorKind> {
    let lower = message.to_ascii_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| lower.contains(sign));
    let no_money = || {
        says(&["spend limit", "spend_limit", "usage limits", "credit balance", "billing", "quota"])
    };
    Some(match name {
        "overloaded_error" => ErrorKind::Overloaded,
        "rate_limit_error" if no_money() => ErrorKind::Quota,
        "rate_limit_error" => ErrorKind::RateLimited,
        "billing_error" => ErrorKind::Quota,
        "authentication_error" | "permission_error" => ErrorKind::Auth,
        "not_found_error" => ErrorKind::Config,
        "request_too_large" => ErrorKind::TooLarge,
        _ if says(&["content filtering"]) => ErrorKind::ContentFilter,
        "api_error" | "timeout_error" => ErrorKind::Server,
        "invalid_request_error" if no_money() => ErrorKind::Quota,
        "invalid_request_error" if error::says_overflow(&lower) => ErrorKind::ContextOverflow,
        "invalid_request_error" if says(&["image exceeds", "request exceeds"]) => {
            ErrorKind::TooLarge
        }
        "invalid_request_error" if error::says_stale_thinking(&lower) => ErrorKind::StaleThinking,
        // Messages about the conversation begin with the place in it.
        "invalid_request_error"
            if lower.starts_with("messages")
                || says(&["tool_use", "tool_result", "roles must alternate"]) =>
        {
            ErrorKind::History
        }
        "invalid_request_error" => ErrorKind::Config,
        _ => return None,
    })
}
