//! Google's errors, as an answer of their own or inside a stream.

use serde_json::Value;

use crate::model::error::{
    duration, kind_of_answer, kind_of_status, says_overflow, told, words_of,
};
use crate::model::{ErrorKind, ModelError};

/// Reads an answer that is no stream.
pub(super) fn read(status: u16, headers: &[(String, String)], body: &[u8]) -> ModelError {
    let of_answer = |kind, message: &str| ModelError::of_answer(kind, message, status, headers);
    if (300..400).contains(&status) {
        return ModelError::redirect(status, headers);
    }
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    // Without `alt=sse` even an error comes in a list.
    let whole = if let Value::Array(list) = &parsed { list.first() } else { Some(&parsed) };
    match whole.and_then(|whole| whole.get("error")).filter(|error| !error.is_null()) {
        Some(error) => {
            let (said, message) = classify(status, error);
            of_answer(kind_of_answer(status, said), &message).wait(delay(error))
        }
        None => of_answer(kind_of_status(status), &words_of(status, body)),
    }
}

/// Reads an error object that came after status 200.
pub(super) fn in_stream(error: &Value) -> ModelError {
    let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let (kind, message) = classify(code.unwrap_or(500), error);
    ModelError::new(kind, told(&message)).wait(delay(error))
}

fn classify(status: u16, error: &Value) -> (ErrorKind, String) {
    let word = error.get("status").and_then(Value::as_str).unwrap_or_default();
    let said = match error {
        Value::String(text) => text.as_str(),
        error => error.get("message").and_then(Value::as_str).unwrap_or_default(),
    };
    let kind = match word {
        "RESOURCE_EXHAUSTED" => exhausted(error, said),
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => argument(error, said),
        "UNAUTHENTICATED" | "PERMISSION_DENIED" => ErrorKind::Auth,
        "NOT_FOUND" | "UNIMPLEMENTED" => ErrorKind::Config,
        "UNAVAILABLE" => ErrorKind::Overloaded,
        "CANCELLED" => ErrorKind::Cancelled,
        "DEADLINE_EXCEEDED" => ErrorKind::TotalTimeout,
        "INTERNAL" | "UNKNOWN" | "ABORTED" | "DATA_LOSS" => ErrorKind::Server,
        "ALREADY_EXISTS" => ErrorKind::Client,
        _ => match kind_of_status(status) {
            ErrorKind::RateLimited => exhausted(error, said),
            ErrorKind::Config if status == 400 => argument(error, said),
            kind => kind,
        },
    };
    let message = match (word, said) {
        ("", "") => format!("status {status}"),
        (word, "") => word.to_owned(),
        ("", said) => said.to_owned(),
        (word, said) => format!("{word}: {said}"),
    };
    (kind, message)
}

fn details(error: &Value) -> impl Iterator<Item = &Value> {
    error.get("details").and_then(Value::as_array).into_iter().flatten()
}

/// A limit by the minute heals by itself; one by the day, or of nothing, does not.
fn exhausted(error: &Value, said: &str) -> ErrorKind {
    let violations = details(error).filter_map(|detail| detail.get("violations")?.as_array());
    let is_lasting = violations.flatten().any(|violation| {
        let text = |key: &str| violation.get(key).and_then(Value::as_str).unwrap_or_default();
        text("quotaId").contains("PerDay") || text("quotaValue") == "0"
    });
    let lower = said.to_ascii_lowercase();
    let is_spent = ["per day", "spending cap", "spend limit", "credits are depleted"]
        .iter()
        .any(|words| lower.contains(words));
    if is_lasting || is_spent { ErrorKind::Quota } else { ErrorKind::RateLimited }
}

/// One word for all that can be wrong with a request: the reason and the text tell it apart.
fn argument(error: &Value, said: &str) -> ErrorKind {
    let has_reason =
        |word: &str| details(error).any(|detail| detail.get("reason").is_some_and(|r| r == word));
    let lower = said.to_ascii_lowercase();
    let says = |words: &str| lower.contains(words);
    if has_reason("API_KEY_INVALID") || says("api key") {
        ErrorKind::Auth
    } else if says_overflow(said) {
        ErrorKind::ContextOverflow
    } else if says("payload size") && says("exceed") {
        ErrorKind::TooLarge
    } else if says("thought_signature")
        || says("thought signature")
        || says("function response")
        || says("function_response")
        || says("function call turn")
        || says("multiturn requests")
        || says("contents.parts must not be empty")
    {
        ErrorKind::History
    } else if says("billing") {
        ErrorKind::Quota
    } else {
        ErrorKind::Config
    }
}

/// The wait of `RetryInfo` (`"39s"`, `"0.5s"`, or seconds and nanoseconds apart), or the one told in prose.
fn delay(error: &Value) -> Option<u64> {
    let info = details(error).find_map(|detail| match detail.get("retryDelay")? {
        Value::String(text) => duration(text),
        Value::Object(parts) => {
            let seconds = parts.get("seconds").and_then(Value::as_u64).unwrap_or(0);
            let nanos = parts.get("nanos").and_then(Value::as_u64).unwrap_or(0);
            Some(seconds.saturating_mul(1000).saturating_add(nanos.div_ceil(1_000_000)))
        }
        _ => None,
    });
    info.or_else(|| {
        let (_, rest) = error.get("message")?.as_str()?.split_once("retry in ")?;
        duration(rest.split_whitespace().next()?.trim_end_matches(['.', ',']))
    })
}
