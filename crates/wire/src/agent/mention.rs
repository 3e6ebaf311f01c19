//! Prompts that name files behind an `@`. Claude Code, and what is built around it, reads such files by itself and gives them
//! to its model: no hook and no question comes before it, and a prompt holds what a check printed, which is nobody's wish.

use serde_json::{Value, json};

/// The words behind a prompt. Only the last block of a prompt is looked through for such names, so that these stand for it.
const END: &str = "(This is the end of the message.)";

/// A prompt in blocks of which the last names no file; none if the text names none.
pub(super) fn blocks(text: &str) -> Option<Value> {
    let named = text.contains('@');
    named.then(|| json!([{ "type": "text", "text": text }, { "type": "text", "text": END }]))
}
