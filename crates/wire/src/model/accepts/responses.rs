//! The rules of OpenAI's Responses: every call has one output after it, every output a call before it, and
//! reasoning is followed by what it led to.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Refusal, is_name, is_object_in_text, text};

/// The longest id of a call.
const MAX_ID: usize = 64;

pub(super) fn check(body: &Value) -> Result<(), Refusal> {
    let items = match &body["input"] {
        Value::String(text) if !text.is_empty() => return Ok(()),
        Value::Array(items) if !items.is_empty() => items,
        _ => return Err("Invalid 'input': expected a text or at least one item".to_owned()),
    };
    let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for (at, item) in items.iter().enumerate() {
        let kind = match text(item, "type") {
            "" if item["role"].is_string() => "message",
            kind => kind,
        };
        let wrong = |what: &str| Err(format!("Invalid 'input[{at}].{what}' of a {kind}"));
        match kind {
            "message" => {
                let role = text(item, "role");
                if !matches!(role, "user" | "assistant" | "system" | "developer") {
                    return wrong("role");
                }
                if is_empty(&item["content"], role == "assistant") {
                    return wrong("content");
                }
            }
            "function_call" => {
                let call = text(item, "call_id");
                if !(1..=MAX_ID).contains(&call.len()) {
                    return wrong("call_id");
                }
                if !asked.insert(call) {
                    return Err(format!("Duplicate function_call with call_id {call}."));
                }
                if !is_name(text(item, "name")) {
                    return wrong("name");
                }
                if !is_object_in_text(&item["arguments"]) {
                    return wrong("arguments");
                }
            }
            "function_call_output" => {
                let call = text(item, "call_id");
                if !asked.contains(call) {
                    return Err(format!(
                        "No tool call found for function call output with call_id {call}."
                    ));
                }
                if !answered.insert(call) {
                    return Err(format!("Duplicate function_call_output with call_id {call}."));
                }
                if !item["output"].is_string() && !item["output"].is_array() {
                    return wrong("output");
                }
            }
            "reasoning" => {
                let next = items.get(at + 1);
                let follows = next.is_some_and(|next| {
                    next["type"] != "function_call_output" && next["role"] != "user"
                });
                if !follows {
                    let id = text(item, "id");
                    return Err(format!(
                        "Item '{id}' of type 'reasoning' was provided without its required following item."
                    ));
                }
            }
            "" => return wrong("type"),
            // Items of the provider's own tools.
            _ => {}
        }
    }
    match asked.difference(&answered).next() {
        Some(call) => Err(format!("No tool output found for function call {call}.")),
        None => Ok(()),
    }
}

/// The model may have said nothing; a person may not.
fn is_empty(content: &Value, is_models: bool) -> bool {
    match content {
        Value::String(text) => text.is_empty(),
        Value::Array(parts) => {
            let is_blank =
                |part: &Value| part["type"] == "input_text" && text(part, "text").is_empty();
            !is_models && (parts.is_empty() || parts.iter().any(is_blank))
        }
        _ => true,
    }
}
