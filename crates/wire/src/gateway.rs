//! The bytes of a gateway between a coding agent and its models: whom a request is for, how it is refused in words that
//! the agent knows, and what an answer counts for, read from a copy of its bytes.

mod named;
mod tap;
#[cfg(test)]
mod tests;

pub use tap::Tap;

use serde_json::{Value, json};

/// A provider's API. Exhaustive on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// Anthropic's.
    Anthropic,
    /// OpenAI's.
    OpenAi,
    /// Google's.
    Google,
}

/// What an answer is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// Anthropic's messages.
    AnthropicMessages,
    /// OpenAI's responses.
    OpenAiResponses,
    /// OpenAI's chat completions.
    OpenAiChat,
    /// Google's generated content.
    GoogleGenerate,
}

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It asks a model, which is counted.
    Ask(Speaks),
    /// It costs nothing: a list of models, a count of tokens.
    Free,
}

impl Api {
    /// All of them.
    pub const ALL: [Api; 3] = [Api::Anthropic, Api::OpenAi, Api::Google];

    /// The provider's name, as `PROVIDER/NAME` has it.
    pub fn name(self) -> &'static str {
        match self {
            Api::Anthropic => "anthropic",
            Api::OpenAi => "openai",
            Api::Google => "google",
        }
    }

    /// The variable that holds its key.
    pub fn key_variable(self) -> &'static str {
        match self {
            Api::Anthropic => "ANTHROPIC_API_KEY",
            Api::OpenAi => "OPENAI_API_KEY",
            Api::Google => "GEMINI_API_KEY",
        }
    }

    /// The variable by which the agents that use it are pointed elsewhere.
    pub fn address_variable(self) -> &'static str {
        match self {
            Api::Anthropic => "ANTHROPIC_BASE_URL",
            Api::OpenAi => "OPENAI_BASE_URL",
            Api::Google => "GOOGLE_GEMINI_BASE_URL",
        }
    }

    /// Where it is, if nobody says otherwise, in the form that the variable has.
    pub fn address(self) -> &'static str {
        match self {
            Api::Anthropic => "https://api.anthropic.com",
            Api::OpenAi => "https://api.openai.com/v1",
            Api::Google => "https://generativelanguage.googleapis.com",
        }
    }

    /// The header that carries its key, and what stands before the key.
    pub fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Api::Anthropic => ("x-api-key", ""),
            Api::OpenAi => ("authorization", "Bearer "),
            Api::Google => ("x-goog-api-key", ""),
        }
    }

    /// Where a request for this path goes. The path begins with a slash and has no key in it.
    pub fn target(self, address: &str, path: &str) -> String {
        let path = match self {
            // Its address ends in the version, which the agent's path begins with.
            Api::OpenAi => path.strip_prefix("/v1").unwrap_or(path),
            Api::Anthropic | Api::Google => path,
        };
        format!("{}{path}", address.trim_end_matches('/'))
    }

    /// An answer that refuses a request so that the agent does not try again: the status and the body.
    pub fn refusal(self, status: u16, message: &str) -> (u16, String) {
        let message = format!("drivetrain: {message}");
        let body = match self {
            Api::Anthropic => json!({
                "type": "error",
                "error": { "type": "invalid_request_error", "message": message },
            }),
            Api::OpenAi => json!({ "error": {
                "message": message, "type": "invalid_request_error", "param": null, "code": "refused",
            } }),
            Api::Google => json!({ "error": {
                "code": status, "message": message, "status": "FAILED_PRECONDITION",
            } }),
        };
        (status, body.to_string())
    }
}

/// Whose API a path belongs to, and what is wanted there. Other parts of an API can spend without anybody counting, so
/// what is not known here does not pass. Where two providers have the same path, the one counts whose key there is.
pub fn wish(method: &str, path: &str, keys: &[Api]) -> Option<(Api, Wish)> {
    let path = path.split('?').next().unwrap_or_default();
    Some(match (method, path) {
        ("POST", "/v1/messages") => (Api::Anthropic, Wish::Ask(Speaks::AnthropicMessages)),
        ("POST", "/v1/messages/count_tokens") => (Api::Anthropic, Wish::Free),
        ("POST", "/v1/responses") => (Api::OpenAi, Wish::Ask(Speaks::OpenAiResponses)),
        ("POST", "/v1/chat/completions") => (Api::OpenAi, Wish::Ask(Speaks::OpenAiChat)),
        ("GET", "/v1/models") => {
            let is_anthropic = keys.contains(&Api::Anthropic) && !keys.contains(&Api::OpenAi);
            (if is_anthropic { Api::Anthropic } else { Api::OpenAi }, Wish::Free)
        }
        ("GET", "/v1beta/models") => (Api::Google, Wish::Free),
        ("HEAD" | "GET", "/" | "/api/hello") => (Api::Anthropic, Wish::Free),
        ("POST", path) => {
            let rest = path.strip_prefix("/v1beta/models/").or(path.strip_prefix("/v1/models/"))?;
            let (name, verb) = rest.rsplit_once(':')?;
            if !is_plain(name) {
                return None;
            }
            match verb {
                "generateContent" | "streamGenerateContent" => {
                    (Api::Google, Wish::Ask(Speaks::GoogleGenerate))
                }
                "countTokens" => (Api::Google, Wish::Free),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Whether a part of a path is what it looks like to everybody: no way up, nothing written in another way.
fn is_plain(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_letter)
}

/// A path without what stands for a key in its query.
pub fn without_key(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("key=")).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// The model that a request asks, as it names it. The error says, in words for whoever asks, why what it costs cannot be
/// counted.
pub fn asked(speaks: Speaks, path: &str, body: &[u8]) -> Result<String, &'static str> {
    if speaks == Speaks::OpenAiResponses {
        refuse_background(body)?;
    }
    let model = if speaks == Speaks::GoogleGenerate {
        let path = path.split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        name.split(':').next().unwrap_or_default().to_owned()
    } else {
        named::model(body)
    };
    if model.is_empty() {
        return Err("what it costs is not known: a question names one \"model\"");
    }
    Ok(model)
}

/// An answer of OpenAI's that is made in the background is fetched later, by a path that does not pass, and what it cost is
/// told there alone.
fn refuse_background(body: &[u8]) -> Result<(), &'static str> {
    let is_later = |said: &Value| !matches!(said, Value::Bool(false) | Value::Null);
    let said = named::all(body, "background").ok_or("this is no question in JSON")?;
    if said.iter().any(is_later) {
        return Err(
            "an answer in the background cannot be counted: ask without \"background\": true",
        );
    }
    Ok(())
}

/// Header fields that carry keys: none of them passes.
pub const KEY_FIELDS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "cookie"];
