//! What a served script is asked: which dialect by the path, which words by the body.

use std::borrow::Borrow;

use machine::message::{Message, Part, Role};
use serde_json::Value;

use super::{Failure, Mode};
use crate::model::{ErrorKind, accepts};

/// A dialect that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// Anthropic's messages.
    AnthropicMessages,
    /// OpenAI's chat completions.
    OpenAiChat,
    /// OpenAI's responses.
    OpenAiResponses,
    /// Google's generateContent.
    GoogleGenerate,
    /// Mistral's chat completions.
    Mistral,
}

impl Served {
    /// All of them.
    pub const ALL: [Served; 5] = [
        Served::AnthropicMessages,
        Served::OpenAiChat,
        Served::OpenAiResponses,
        Served::GoogleGenerate,
        Served::Mistral,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Served::AnthropicMessages => "anthropic_messages",
            Served::OpenAiChat => "openai_chat",
            Served::OpenAiResponses => "openai_responses",
            Served::GoogleGenerate => "google_generate",
            Served::Mistral => "mistral",
        }
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Served> {
        Served::ALL.into_iter().find(|served| served.name() == name)
    }
}

/// Where a request leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The dialect of its answer.
    pub dialect: Served,
    /// The model, where the path names it.
    pub model: Option<String>,
    /// Whether it wants a stream, where the path says so.
    pub streaming: Option<bool>,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The model.
    pub model: String,
    /// The form of the answer.
    pub mode: Mode,
    /// What was said since the model last spoke.
    pub text: String,
    /// Whether it offers tools.
    pub offers_tools: bool,
}

/// Finds the dialect of a request; none if nothing is served there. Anything may stand before the known end of
/// a path, so that base URLs work with and without a prefix; Mistral, whose path is OpenAI's, is told by the
/// prefix `/mistral/`.
pub fn route(method: &str, path: &str) -> Option<Route> {
    if method != "POST" {
        return None;
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let of = |dialect| Some(Route { dialect, model: None, streaming: None });
    match parts[..] {
        [.., "messages"] => of(Served::AnthropicMessages),
        ["mistral", .., "chat", "completions"] => of(Served::Mistral),
        [.., "chat", "completions"] => of(Served::OpenAiChat),
        [.., "responses"] => of(Served::OpenAiResponses),
        [.., "models", last] => {
            let (model, verb) = last.rsplit_once(':')?;
            let streaming = match verb {
                "streamGenerateContent" => true,
                "generateContent" => false,
                _ => return None,
            };
            Some(Route {
                dialect: Served::GoogleGenerate,
                model: Some(decoded(model)),
                streaming: Some(streaming),
            })
        }
        _ => None,
    }
}

/// Reads a request's body. One that cannot be read, or whose conversation the provider itself would refuse, is
/// answered with the failure: the script is not asked.
pub fn read(route: &Route, body: &[u8]) -> Result<Asked, Failure> {
    let refuse =
        |kind, message| Failure { kind, message: Some(message), ..Failure::of_status(400) };
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| refuse(ErrorKind::Config, format!("the body is no JSON: {error}")))?;
    let asked = question(route, &body).map_err(|message| refuse(ErrorKind::Config, message))?;
    accepts::check(route.dialect, &body).map_err(|message| refuse(ErrorKind::History, message))?;
    Ok(asked)
}

fn question(route: &Route, body: &Value) -> Result<Asked, String> {
    if !body.is_object() {
        return Err("the body is no object".to_owned());
    }
    let streaming = route.streaming.unwrap_or_else(|| body["stream"].as_bool() == Some(true));
    let wants_usage = body["stream_options"]["include_usage"].as_bool() == Some(true);
    let mode = match (streaming, route.dialect) {
        (false, _) => Mode::Whole,
        (true, Served::OpenAiChat) if !wants_usage => Mode::StreamWithoutUsage,
        (true, _) => Mode::Stream,
    };
    let model = match (&route.model, body["model"].as_str()) {
        (Some(model), _) => model.clone(),
        (None, Some(model)) => model.to_owned(),
        (None, None) => return Err("the key \"model\" is missing".to_owned()),
    };
    let key = match route.dialect {
        Served::AnthropicMessages | Served::OpenAiChat | Served::Mistral => "messages",
        Served::OpenAiResponses => "input",
        Served::GoogleGenerate => "contents",
    };
    let text = match &body[key] {
        Value::String(text) if route.dialect == Served::OpenAiResponses => text.clone(),
        Value::Array(items) => since_the_model_spoke(items),
        _ => return Err(format!("the key {key:?} is missing or no list")),
    };
    let has_tools = |value: &Value| value["tools"].as_array().is_some_and(|it| !it.is_empty());
    // Codex offers its newest models their tools within the conversation.
    let offers_tools =
        has_tools(body) || body[key].as_array().is_some_and(|items| items.iter().any(has_tools));
    Ok(Asked { model, mode, text, offers_tools })
}

/// What was said since the model last spoke: for a [`super::Player`] without a server.
pub fn heard(messages: &[impl Borrow<Message>]) -> String {
    let after = messages.iter().rposition(|message| message.borrow().role == Role::Assistant);
    let fresh = messages[after.map_or(0, |at| at + 1)..].iter().map(Borrow::borrow);
    let texts = fresh.flat_map(|message| &message.blocks).filter_map(|block| match &block.part {
        Part::Text { text } | Part::ToolResult { text, .. } => Some(text.as_str()),
        Part::Thinking { .. } | Part::ToolUse { .. } | Part::Media { .. } | Part::Opaque => None,
    });
    texts.collect::<Vec<&str>>().join("\n")
}

/// The items after the model's last one, in whichever dialect, as text.
fn since_the_model_spoke(items: &[Value]) -> String {
    let is_models = |item: &Value| {
        matches!(item["role"].as_str(), Some("assistant" | "model"))
            || matches!(item["type"].as_str(), Some("function_call" | "reasoning"))
    };
    let after = items.iter().rposition(is_models);
    let mut texts = Vec::new();
    for item in &items[after.map_or(0, |at| at + 1)..] {
        if !matches!(item["role"].as_str(), Some("system" | "developer")) {
            for key in ["content", "parts", "output"] {
                collect(&item[key], &mut texts);
            }
        }
    }
    texts.join("\n")
}

/// The texts of a content: a text, or a list of blocks with text or results in them.
fn collect(content: &Value, texts: &mut Vec<String>) {
    match content {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(blocks) => {
            for block in blocks {
                texts.extend(block["text"].as_str().map(str::to_owned));
                collect(&block["content"], texts);
                let response = &block["functionResponse"]["response"];
                match (&response["output"], &response["error"]) {
                    (Value::String(text), _) | (_, Value::String(text)) => texts.push(text.clone()),
                    _ if response.is_object() => texts.push(response.to_string()),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// A part of a path without its percent signs; what is no UTF-8 stays as it is.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| part.to_owned())
}
