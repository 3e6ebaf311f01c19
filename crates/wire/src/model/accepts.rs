//! What each provider accepts of a conversation: the rules that a request's history is held to, one file a
//! dialect, by the bytes that were sent and nothing else.
//!
//! A history that breaks one of them is refused by its provider for ever: asking again does not help, and the
//! task that holds it is lost. So the fake model refuses it too, in the same words, and tests ask here directly.
//! Where servers of one dialect differ, the strictest counts. What is no part of the conversation (models,
//! temperatures, schemas) is not looked at.

mod anthropic;
mod chat;
mod google;
mod responses;

use serde_json::Value;

use super::script::Served;

/// Why a provider refuses a conversation, in its words.
pub type Refusal = String;

/// Whether the provider of this dialect takes the conversation in a request's body.
pub fn check(dialect: Served, body: &Value) -> Result<(), Refusal> {
    match dialect {
        Served::AnthropicMessages => anthropic::check(body),
        Served::OpenAiChat => chat::check(body, chat::Rules::OpenAi),
        Served::Mistral => chat::check(body, chat::Rules::Mistral),
        Served::OpenAiResponses => responses::check(body),
        Served::GoogleGenerate => google::check(body),
    }
}

/// The text of a field; empty if it is absent or something else.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Whether it is one JSON object in a string, as both of OpenAI's dialects carry arguments.
fn is_object_in_text(arguments: &Value) -> bool {
    let parsed = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    parsed.is_some_and(|value| value.is_object())
}

/// A tool's name as all providers take it.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && is_plain(name)
}

/// Letters, digits, `_` and `-`.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
