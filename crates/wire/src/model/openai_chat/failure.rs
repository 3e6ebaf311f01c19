//! What OpenAI, Mistral and compatible servers say when they fail: as an answer with another status, or as an
//! error object in a stream. Their types are too coarse, so code, type and text decide before the status does.

use serde_json::Value;

use crate::model::error::{self, ErrorKind, ModelError, Retry};

const QUOTA: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "usage_not_included",
    "usage_limit_reached",
    "quota_exceeded",
];
const OVERFLOW: &[&str] =
    &["context_length_exceeded", "context_window_exceeded", "exceed_context_size_error"];
const OVERLOADED: &[&str] = &[
    "server_is_overloaded",
    "server_overloaded",
    "slow_down",
    "overloaded_error",
    "engine_overloaded",
    "engine_overloaded_error",
    "service_tier_capacity_exceeded",
    "3505",
];
const RATE: &[&str] =
    &["rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests"];
const HISTORY: &[&str] = &[
    "invalid_function_call",
    "invalid_request_message_order",
    "invalid_encrypted_content",
    "3280",
    "3230",
];
const AUTH: &[&str] = &[
    "invalid_api_key",
    "authentication_error",
    "invalid_authentication",
    "permission_error",
    "permission_denied",
    "account_deactivated",
    "unsupported_country_region_territory",
];
const FILTER: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "image_content_policy_violation",
    "invalid_prompt",
    "bio_policy",
    "cyber_policy",
    "misalignment_policy_violation",
];
/// The model wrote something that the server (Groq) cannot read as a call; another try may do.
const MALFORMED_CALL: &[&str] = &["tool_use_failed", "output_parse_failed", "json_validate_failed"];
const CONFIG: &[&str] =
    &["model_not_found", "invalid_request_error", "BadRequestError", "NotFoundError"];

/// Texts by which a server says that calls, results and reasoning do not fit together.
const HISTORY_SIGNS: &[&str] = &[
    "tool call id",
    "tool_call_id",
    "must be followed by tool messages",
    "must be a response to a prece",
    "no tool output found for function call",
    "no tool call found for function call",
    "without its required",
    "number of function calls and responses",
    "unexpected role",
    "expected last role",
    "items are not persisted",
    "must have either content or tool_calls",
    "'messages[",
    "'input[",
];

/// Reads an answer that is no stream.
pub(in crate::model) fn read(status: u16, headers: &[(String, String)], body: &[u8]) -> ModelError {
    if (300..400).contains(&status) {
        return ModelError::redirect(status, headers);
    }
    let problem = serde_json::from_slice(body).ok().map(|body: Value| Problem::read(&body));
    let kind = match (&problem, status) {
        (Some(problem), 200..=299) if problem.is_error => problem.kind(None),
        (Some(problem), _) => problem.kind(Some(status)),
        (None, _) => error::kind_of_status(status),
    };
    let resets = problem.as_ref().and_then(|problem| problem.resets);
    let said = problem.map(|problem| problem.message).filter(|said| !said.is_empty());
    let message = said.unwrap_or_else(|| error::words_of(status, body));
    let wait = error::try_again_in(&message);
    let mut failure =
        ModelError::of_answer(kind, &message, status, headers).wait(wait).wait_for_reset(headers);
    if let (ErrorKind::Quota, Some(seconds)) = (kind, resets) {
        // A plan's allowance comes back by itself, and the server says when.
        failure.retry = Retry::After(seconds.saturating_mul(1000));
    }
    failure
}

/// Reads an error object of a stream, or the error of a failed response.
pub(in crate::model) fn in_stream(value: &Value) -> ModelError {
    let problem = Problem::read(value);
    let message = match problem.message.as_str() {
        "" => "the provider reports an error without a message",
        told => told,
    };
    ModelError::new(problem.kind(None), error::told(message)).wait(error::try_again_in(message))
}

/// An error in any of the shapes that servers give it.
#[derive(Debug, Default)]
struct Problem {
    message: String,
    code: String,
    name: String,
    /// Whether the object says by itself that it is an error.
    is_error: bool,
    /// In how many seconds what was used up is there again.
    resets: Option<u64>,
}

impl Problem {
    fn read(value: &Value) -> Problem {
        if let Some(first) = value.as_array().and_then(|list| list.first()) {
            return Problem::read(first);
        }
        let error = value.get("error").filter(|error| !error.is_null());
        let inner = match error {
            Some(Value::String(message)) => {
                return Problem { message: message.clone(), is_error: true, ..Problem::default() };
            }
            Some(error) => error,
            None => value,
        };
        let message = ["message", "detail", "error_description"]
            .into_iter()
            .find_map(|name| inner.get(name).filter(|message| !message.is_null()));
        let (mut message, mut name) =
            (message.map(prose).unwrap_or_default(), word(&inner["type"]));
        if let Some(behind) = Problem::behind(inner) {
            message = [message, behind.message].join(": ");
            name = Some(name).filter(|name| !name.is_empty()).unwrap_or(behind.name);
        }
        Problem {
            message,
            code: word(&inner["code"]),
            name,
            is_error: error.is_some() || value["object"] == "error",
            resets: inner["resets_in_seconds"].as_u64(),
        }
    }

    /// What the server behind a gateway said (OpenRouter): its own answer, or words about it.
    fn behind(error: &Value) -> Option<Problem> {
        let raw = error["metadata"]["raw"].as_str().filter(|raw| !raw.trim().is_empty())?;
        let read = match serde_json::from_str::<Value>(raw) {
            Ok(answer @ Value::Object(_)) => Problem::read(&answer),
            _ => Problem::default(),
        };
        let message = if read.message.is_empty() { raw.to_owned() } else { read.message };
        Some(Problem { message, ..read })
    }

    fn kind(&self, status: Option<u16>) -> ErrorKind {
        let is = |words: &[&str]| words.iter().any(|word| *word == self.code || *word == self.name);
        let text = self.message.to_ascii_lowercase();
        let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
        // Gateways put the status of the server behind them into the code.
        let status = status.or_else(|| self.code.parse().ok().filter(|s| (400..600).contains(s)));
        let is_rate = is(RATE) || status == Some(429);
        if is(QUOTA)
            || says(&[
                "exceeded your current quota",
                "insufficient balance",
                "insufficient credits",
            ])
        {
            ErrorKind::Quota
        } else if is(MALFORMED_CALL) {
            ErrorKind::MalformedToolCall
        } else if is(OVERFLOW) || (!is_rate && error::says_overflow(&text)) {
            ErrorKind::ContextOverflow
        } else if is_rate && says(&["request too large"]) {
            // More than a minute's tokens in one request: waiting does not help, a shorter history does.
            ErrorKind::ContextOverflow
        } else if is(OVERLOADED) || says(&["capacity exceeded", "currently overloaded"]) {
            ErrorKind::Overloaded
        } else if is_rate {
            ErrorKind::RateLimited
        } else if error::says_stale_thinking(&text) {
            ErrorKind::StaleThinking
        } else if is(HISTORY) || says(HISTORY_SIGNS) {
            ErrorKind::History
        } else if is(FILTER) {
            ErrorKind::ContentFilter
        } else if is(AUTH) {
            ErrorKind::Auth
        } else if let Some(status) = status {
            error::kind_of_status(status)
        } else if is(CONFIG) {
            ErrorKind::Config
        } else if self.code.contains("image") {
            ErrorKind::Client
        } else {
            ErrorKind::Server
        }
    }
}

/// A code as text: some servers send numbers.
fn word(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// A message as text. Mistral and other validating servers send lists of `{loc, msg}`, also one level down.
fn prose(message: &Value) -> String {
    match message {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(prose).collect::<Vec<_>>().join("; "),
        Value::Object(map) => {
            match map.get("msg").or_else(|| map.get("detail")).or_else(|| map.get("message")) {
                Some(inner) => match map.get("loc").and_then(Value::as_array) {
                    Some(place) => {
                        let place: Vec<String> = place.iter().map(prose).collect();
                        format!("{}: {}", place.join("."), prose(inner))
                    }
                    None => prose(inner),
                },
                None => message.to_string(),
            }
        }
        other => other.to_string(),
    }
}
