//! The tools that drivetrain offers to Claude Code: a server of the Model Context Protocol that speaks through the
//! program's own pipe, so that no other process is needed.

use machine::server::ToolOffer;
use serde_json::{Value, json};

use super::OWN_SERVER;
use crate::gate::code::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};

/// What a message to the server comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// This answer, at once.
    Answer(Value),
    /// A call; the answer has this id.
    Call {
        /// What the protocol numbers it with.
        id: Value,
        /// What the program's model calls it; empty if it does not say.
        call: String,
        /// The tool, as drivetrain names it.
        tool: String,
        /// Its parameters.
        input: Value,
    },
    /// The call with this number is not waited for any more.
    Cancelled {
        /// The number.
        id: Value,
    },
}

/// Where a call says which one of its model's it is.
const TOOL_USE: &str = "claudecode/toolUseId";

/// Answers a message. Whatever it is, it has an answer: the program waits for one.
pub(super) fn hear(message: &Value, offers: &[ToolOffer]) -> Heard {
    let id = &message["id"];
    let has_id = id.is_string() || id.is_number();
    let params = &message["params"];
    let method = match message["method"].as_str() {
        Some(method) if has_id || message.get("id").is_none() => method,
        _ => {
            let words = "expected a method, and a number or a text as id";
            return Heard::Answer(error(id, INVALID_REQUEST, words));
        }
    };
    match method {
        "notifications/cancelled" => Heard::Cancelled { id: params["requestId"].clone() },
        // Notes want no answer, but the request that carries them does.
        _ if !has_id && method.starts_with("notifications/") => Heard::Answer(noted()),
        _ if !has_id => {
            let words = format!("expected an id with {method:?}: its answer needs one");
            Heard::Answer(error(id, INVALID_REQUEST, &words))
        }
        "initialize" => {
            let asked = params["protocolVersion"].as_str().unwrap_or("2025-11-25");
            Heard::Answer(result(
                id,
                &json!({
                    "protocolVersion": asked,
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": OWN_SERVER, "version": env!("CARGO_PKG_VERSION") },
                }),
            ))
        }
        "tools/list" => {
            let tool = |offer: &ToolOffer| json!({ "name": offer.name, "description": offer.summary, "inputSchema": offer.schema });
            let tools: Vec<Value> = offers.iter().map(tool).collect();
            Heard::Answer(result(id, &json!({ "tools": tools })))
        }
        "tools/call" => call(id, params, offers),
        "ping" => Heard::Answer(result(id, &json!({}))),
        method => {
            let words = format!("no method is called {method:?}");
            Heard::Answer(error(id, METHOD_NOT_FOUND, &words))
        }
    }
}

fn call(id: &Value, params: &Value, offers: &[ToolOffer]) -> Heard {
    let wrong = |words: &str| Heard::Answer(error(id, INVALID_PARAMS, words));
    let Some(name) = params["name"].as_str() else { return wrong("expected a text as name") };
    let Some(offer) = offers.iter().find(|offer| offer.name == name) else {
        let names: Vec<&str> = offers.iter().map(|offer| offer.name.as_str()).collect();
        return wrong(&format!("no tool is called {name:?}: expected one of {}", names.join(", ")));
    };
    let input = match params.get("arguments") {
        None | Some(Value::Null) => json!({}),
        Some(input @ Value::Object(_)) => input.clone(),
        Some(_) => return wrong("expected a table as arguments"),
    };
    let call = params["_meta"][TOOL_USE].as_str().unwrap_or_default().to_owned();
    Heard::Call { id: id.clone(), call, tool: offer.tool.clone(), input }
}

/// The answer to a note.
pub(super) fn noted() -> Value {
    result(&json!(0), &json!({}))
}

/// The answer to a call.
pub(super) fn called(id: &Value, outcome: &Result<String, String>) -> Value {
    let (text, is_error) = match outcome {
        Ok(text) => (text, false),
        Err(text) => (text, true),
    };
    result(id, &json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}

fn result(id: &Value, result: &Value) -> Value {
    json!({ "mcp_response": { "jsonrpc": "2.0", "id": id, "result": result } })
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    let error = json!({ "code": code, "message": message });
    json!({ "mcp_response": { "jsonrpc": "2.0", "id": id, "error": error } })
}
