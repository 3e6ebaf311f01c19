//! The tools that drivetrain offers to Claude Code: a server of the Model Context Protocol that speaks through the
//! program's own pipe, so that no other process is needed.

use machine::server::ToolOffer;
use serde_json::{Value, json};

use super::OWN_SERVER;

/// What a message to the server comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// This answer, at once.
    Answer(Value),
    /// A call; the answer has this id.
    Call {
        /// What the protocol numbers it with.
        id: Value,
        /// The tool.
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

/// Answers a message.
pub(super) fn hear(message: &Value, offers: &[ToolOffer]) -> Heard {
    let id = message["id"].clone();
    let params = &message["params"];
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            let asked = params["protocolVersion"].as_str().unwrap_or("2025-11-25");
            Heard::Answer(result(
                &id,
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
            Heard::Answer(result(&id, &json!({ "tools": tools })))
        }
        "tools/call" => {
            let name = params["name"].as_str().unwrap_or_default();
            match offers.iter().find(|offer| offer.name == name) {
                Some(offer) => Heard::Call {
                    id,
                    tool: offer.name.clone(),
                    input: params.get("arguments").cloned().unwrap_or_else(|| json!({})),
                },
                None => Heard::Answer(error(&id, -32602, &format!("no tool is called {name:?}"))),
            }
        }
        "ping" => Heard::Answer(result(&id, &json!({}))),
        "notifications/cancelled" => Heard::Cancelled { id: params["requestId"].clone() },
        // Notes want no answer, but the request that carries them does.
        _ if message.get("id").is_none() => Heard::Answer(noted()),
        method => Heard::Answer(error(&id, -32601, &format!("no method is called {method:?}"))),
    }
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
