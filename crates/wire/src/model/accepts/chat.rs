//! The rules of chat completions: the results of a call follow it at once, one for each; nothing is empty. Mistral
//! wants ids of nine characters and an answer after each result.

use serde_json::Value;

use super::{Refusal, is_name, is_object_in_text, is_plain, text};

/// Whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// OpenAI's, and those of compatible servers.
    OpenAi,
    /// Mistral's.
    Mistral,
}

/// The longest id of a call.
const MAX_ID: usize = 40;

pub(super) fn check(body: &Value, rules: Rules) -> Result<(), Refusal> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.is_empty() {
        return Err("[] is too short - 'messages'".to_owned());
    }
    // Calls that have no result yet, while nothing else was said.
    let mut open: Vec<&str> = Vec::new();
    let mut previous = "";
    for (at, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if role != "tool" && !open.is_empty() {
            return Err(unanswered(rules, &open));
        }
        match role {
            "system" | "developer" | "user" => {
                if rules == Rules::Mistral && previous == "tool" {
                    return Err(format!("Unexpected role '{role}' after role 'tool'"));
                }
                if is_empty(&message["content"]) {
                    return Err(format!("Invalid value for 'messages[{at}].content': it is empty"));
                }
            }
            "assistant" => open = calls(message, at, rules)?,
            "tool" => {
                let id = text(message, "tool_call_id");
                let Some(found) = open.iter().position(|known| *known == id) else {
                    return Err(unasked(rules, previous));
                };
                open.remove(found);
                if is_empty(&message["content"]) {
                    return Err(format!("Invalid value for 'messages[{at}].content': it is empty"));
                }
            }
            other => return Err(format!("Invalid value: '{other}' for 'messages[{at}].role'")),
        }
        previous = role;
    }
    if !open.is_empty() {
        return Err(unanswered(rules, &open));
    }
    if rules == Rules::Mistral && !matches!(previous, "user" | "tool") {
        return Err(format!(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got {previous}"
        ));
    }
    Ok(())
}

/// The calls of what the model said.
fn calls(message: &Value, at: usize, rules: Rules) -> Result<Vec<&str>, Refusal> {
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if calls.is_empty() && is_empty(&message["content"]) {
        return Err(match rules {
            Rules::OpenAi => format!("Invalid value for 'messages[{at}].content': it is empty"),
            Rules::Mistral => {
                "Assistant message must have either content or tool_calls, but not none.".to_owned()
            }
        });
    }
    let mut ids = Vec::new();
    for (place, call) in calls.iter().enumerate() {
        let wrong = |what: &str| {
            Err(format!("Invalid 'messages[{at}].tool_calls[{place}].{what}' of a tool_call"))
        };
        let id = text(call, "id");
        let fits = match rules {
            Rules::OpenAi => (1..=MAX_ID).contains(&id.len()) && is_plain(id),
            Rules::Mistral => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        };
        match rules {
            _ if fits && !ids.contains(&id) => {}
            Rules::OpenAi => return wrong("id"),
            Rules::Mistral => {
                return Err(format!(
                    "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
                ));
            }
        }
        if !is_name(text(&call["function"], "name")) {
            return wrong("function.name");
        }
        if !is_object_in_text(&call["function"]["arguments"]) {
            return wrong("function.arguments");
        }
        ids.push(id);
    }
    Ok(ids)
}

fn unanswered(rules: Rules, open: &[&str]) -> Refusal {
    match rules {
        Rules::OpenAi => format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
             'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            open.join(", ")
        ),
        Rules::Mistral => "Not the same number of function calls and responses".to_owned(),
    }
}

fn unasked(rules: Rules, previous: &str) -> Refusal {
    match rules {
        Rules::OpenAi => {
            "Invalid parameter: messages with role 'tool' must be a response to a preceding message with \
             'tool_calls'."
                .to_owned()
        }
        Rules::Mistral => format!("Unexpected role 'tool' after role '{previous}'"),
    }
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::String(text) => text.is_empty(),
        Value::Array(parts) => {
            parts.is_empty()
                || parts.iter().any(|part| part["type"] == "text" && text(part, "text").is_empty())
        }
        _ => true,
    }
}
