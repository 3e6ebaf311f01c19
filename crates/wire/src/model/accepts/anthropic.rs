//! Anthropic's rules: turns alternate and begin with the user, every call has its result first thing in the next
//! turn, ids are unique, nothing is empty, nothing ends in thought, nothing of what was thought goes to a model that is not
//! to think, instructions stand between the user and the model.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Refusal, is_name, is_plain, text};

pub(super) fn check(body: &Value) -> Result<(), Refusal> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.is_empty() {
        return Err("messages: at least one message is required".to_owned());
    }
    let mut ids = BTreeSet::new();
    // Calls of the last turn of the model that have no result yet.
    let mut open: Vec<&str> = Vec::new();
    let mut turn = "";
    // Whether only results came so far in this turn of the user.
    let mut is_answering = false;
    for (at, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if role == "system" {
            check_instructions(messages, at, message)?;
            continue;
        }
        if turn.is_empty() && role != "user" {
            return Err("messages: first message must use the \"user\" role".to_owned());
        }
        if role != turn {
            if turn == "user" && !open.is_empty() {
                return Err(unanswered(at.saturating_sub(2), &open));
            }
            is_answering = role == "user";
            turn = role;
        }
        for (place, block) in blocks(at, message)?.iter().enumerate() {
            let refuse = |why: &str| Err(format!("messages.{at}.content.{place}: {why}"));
            match (role, text(block, "type")) {
                ("user", "tool_result") => {
                    let id = text(block, "tool_use_id");
                    let Some(found) = open.iter().position(|known| *known == id) else {
                        return refuse(&format!(
                            "unexpected `tool_use_id` found in `tool_result` blocks: {id}"
                        ));
                    };
                    if !is_answering {
                        return Err(unanswered(at.saturating_sub(1), &open));
                    }
                    open.remove(found);
                    if block["is_error"] == true && is_empty(&block["content"]) {
                        return refuse("content cannot be empty if `is_error` is true");
                    }
                }
                ("user", "text" | "image" | "document") => is_answering = false,
                ("assistant", "tool_use") => {
                    let id = text(block, "id");
                    if id.is_empty() || !is_plain(id) {
                        return refuse("tool_use.id: String should match '^[a-zA-Z0-9_-]+$'");
                    }
                    if !ids.insert(id) {
                        return refuse("`tool_use` ids must be unique");
                    }
                    if !is_name(text(block, "name")) || !block["input"].is_object() {
                        return refuse("tool_use: expected a name and an object as input");
                    }
                    open.push(id);
                }
                ("assistant", "text" | "redacted_thinking") => {}
                ("assistant", "thinking") if block["signature"].is_string() => {}
                // What the provider's own tools, or a newer version of it, leave behind is its own business.
                ("assistant", kind) if !is_ours(kind) => {}
                (_, kind) => return refuse(&format!("`{kind}` has no place here")),
            }
            if block["type"] == "text" && text(block, "text").trim().is_empty() {
                return refuse("text content blocks must contain non-whitespace text");
            }
        }
        let last = blocks(at, message)?.last().map(|block| text(block, "type"));
        let next = messages[at + 1..].iter().find(|next| !is_setting(next));
        let next = next.map(|next| text(next, "role"));
        if role == "assistant" && next != Some("assistant") {
            if matches!(last, Some("thinking" | "redacted_thinking")) {
                return Err(format!("messages.{at}: the final block cannot be `thinking`"));
            }
            if next.is_none() && !last.is_some_and(is_server_block) {
                return Err(if open.is_empty() {
                    "messages: the conversation must end with a user message".to_owned()
                } else {
                    unanswered(at, &open)
                });
            }
        }
    }
    if !open.is_empty() {
        return Err(unanswered(messages.len().saturating_sub(2), &open));
    }
    check_thoughts(messages, &body["thinking"])?;
    if !ids.is_empty() && body["tools"].as_array().is_none_or(Vec::is_empty) {
        return Err("messages: requests with `tool_use` blocks must define tools".to_owned());
    }
    Ok(())
}

/// A model that is not to think gets no thoughts in what it last said and now goes on with. Only where it is said: whether a
/// model thinks unasked is its own business.
fn check_thoughts(messages: &[Value], thinking: &Value) -> Result<(), Refusal> {
    let last = messages.iter().rposition(|message| message["role"] == "assistant");
    let Some(at) = last.filter(|_| thinking["type"] == "disabled") else { return Ok(()) };
    let after = messages[at + 1..].iter().find(|message| message["role"] == "user");
    let goes_on = |user: &Value| {
        let blocks = user["content"].as_array();
        blocks.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
    };
    if !after.is_none_or(goes_on) {
        return Ok(());
    }
    let is_thought = |block: &&Value| text(block, "type").contains("thinking");
    match blocks(at, &messages[at])?.iter().find(is_thought) {
        Some(block) => Err(format!(
            "messages.{at}: When thinking is disabled, an `assistant` message in the final position cannot contain `{}`",
            text(block, "type")
        )),
        None => Ok(()),
    }
}

/// A message of the system in the middle of a conversation: after the user, or after a tool of the provider's own,
/// and before the model or at the end. Several may follow each other.
fn check_instructions(messages: &[Value], at: usize, message: &Value) -> Result<(), Refusal> {
    const ANYWHERE: &str =
        "the directive-only form (content: [] with output_config) is accepted at any position";
    if is_setting(message) {
        return Ok(());
    }
    let refuse = |why: &str| Err(format!("messages.{at}: {why}"));
    let before = messages[..at].iter().rev().find(|other| !is_setting(other));
    let after = messages[at + 1..].iter().find(|other| !is_setting(other));
    match before.map(|before| (text(before, "role"), before)) {
        None => {
            let why = "use the top-level 'system' parameter for the initial system prompt";
            return refuse(&format!("{why}; {ANYWHERE}"));
        }
        Some(("user" | "system", _)) => {}
        Some((_, before)) if ends_in_result(before) => {}
        Some(_) => {
            let why = "role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result";
            return refuse(&format!("{why}; {ANYWHERE}"));
        }
    }
    if !matches!(after.map(|after| text(after, "role")), None | Some("assistant" | "system")) {
        let why = "role 'system' must precede an 'assistant' message or end the array";
        return refuse(&format!("{why}; {ANYWHERE}"));
    }
    match &message["content"] {
        Value::String(text) if !text.is_empty() => Ok(()),
        Value::Array(blocks) if !blocks.is_empty() => {
            let kinds = ["text", "tool_addition", "tool_removal"];
            if !blocks.iter().all(|block| kinds.contains(&text(block, "type"))) {
                let why =
                    "role 'system' supports text, tool_addition, and tool_removal blocks only";
                return refuse(why);
            }
            if blocks.iter().any(|block| block["type"] == "text" && text(block, "text").is_empty())
            {
                return Err("messages: text content blocks must be non-empty".to_owned());
            }
            Ok(())
        }
        _ => refuse("system content must contain at least one block"),
    }
}

/// A message of the system that says nothing and only sets something from there on.
fn is_setting(message: &Value) -> bool {
    message["role"] == "system"
        && message["content"].as_array().is_some_and(Vec::is_empty)
        && !message["output_config"].is_null()
}

fn ends_in_result(message: &Value) -> bool {
    let last = message["content"].as_array().and_then(|blocks| blocks.last());
    last.is_some_and(|block| text(block, "type").ends_with("_tool_result"))
}

/// The content as blocks; a text alone is one, and needs no further look.
fn blocks(at: usize, message: &Value) -> Result<&[Value], Refusal> {
    match &message["content"] {
        Value::String(text) if !text.trim().is_empty() => Ok(&[]),
        Value::Array(blocks) if !blocks.is_empty() => Ok(blocks),
        _ => Err(format!("messages.{at}: all messages must have non-empty content")),
    }
}

fn unanswered(at: usize, open: &[&str]) -> Refusal {
    let ids = open.join(", ");
    format!(
        "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}"
    )
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::String(text) => text.is_empty(),
        Value::Array(blocks) => blocks.is_empty(),
        _ => true,
    }
}

/// Blocks that only a client sends, or that have rules of their own.
fn is_ours(kind: &str) -> bool {
    matches!(kind, "" | "tool_result" | "image" | "document" | "thinking")
}

/// What the provider's own tools leave behind.
fn is_server_block(kind: &str) -> bool {
    kind == "server_tool_use" || kind == "mcp_tool_use" || kind.ends_with("_tool_result")
}
