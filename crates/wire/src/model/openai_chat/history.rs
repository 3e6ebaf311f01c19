//! A conversation as both OpenAI dialects need it: turns that alternate, every tool call with its result and
//! an id that the server takes. Stored history stays as it is.

use std::borrow::Cow;
use std::sync::Arc;

use machine::message::{Block, Message, Part, Role};
use serde_json::Value;

use crate::model::written::Ids;

/// What stands in for a result that never came.
const NO_RESULT: &str = "The call was interrupted; its outcome is unknown.";

/// What may be an id of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) enum IdForm {
    /// Exactly nine letters or digits.
    Nine,
    /// Letters, digits, `_` and `-`, at most so many.
    AtMost(usize),
}

/// One speaker's turn.
#[derive(Debug)]
pub(in crate::model) enum Turn<'a> {
    /// A person.
    User(Vec<Heard<'a>>),
    /// The model.
    Assistant(Vec<Said<'a>>),
}

/// What a person gives.
#[derive(Debug)]
pub(in crate::model) enum Heard<'a> {
    /// Text, never empty.
    Text(Cow<'a, str>),
    /// A picture or a document.
    Media {
        /// Such as `image/png`.
        media_type: &'a str,
        /// The content in base64.
        data: &'a str,
        /// The document's name.
        name: Option<&'a str>,
    },
}

/// What the model said: a block, and what belongs to it if it is a tool call.
#[derive(Debug)]
pub(in crate::model) struct Said<'a> {
    /// The block; never a tool's result.
    pub(in crate::model) block: &'a Block,
    /// Of a tool use.
    pub(in crate::model) call: Option<Call<'a>>,
    /// Whether it was said after something else than what stands before it now.
    pub(in crate::model) is_moved: bool,
}

/// A tool call of this request.
#[derive(Debug)]
pub(in crate::model) struct Call<'a> {
    /// The id in this request.
    pub(in crate::model) id: String,
    /// The text for the model.
    pub(in crate::model) result: Cow<'a, str>,
    stored_id: &'a str,
    is_answered: bool,
}

/// A conversation, or a part of one, in order.
pub(in crate::model) struct History<'a> {
    /// Its turns.
    pub(in crate::model) turns: Vec<Turn<'a>>,
    /// The ids of its calls.
    pub(in crate::model) ids: Ids,
}

impl<'a> History<'a> {
    /// Puts a conversation in order, after one that took the ids `before`. A result goes to its call if nobody
    /// spoke in between; any other becomes text of the user, so that what was sent before stays as it was. The first
    /// `moved` messages were said after something else than what stands before them now.
    pub(in crate::model) fn new(
        messages: &'a [Arc<Message>],
        form: IdForm,
        before: &Ids,
        moved: usize,
    ) -> History<'a> {
        let ids = Ids::after(before);
        let mut calls = CallIds { form, before, ids };
        let mut turns: Vec<Turn<'_>> = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            match message.role {
                Role::Assistant => {
                    let said = said(&message.blocks, &mut calls, at < moved);
                    match turns.last_mut() {
                        _ if said.is_empty() => {}
                        Some(Turn::Assistant(before))
                            if before.iter().all(|s| s.call.is_none()) =>
                        {
                            before.extend(said);
                        }
                        _ => turns.push(Turn::Assistant(said)),
                    }
                }
                Role::User => {
                    for block in &message.blocks {
                        if let Some(heard) = hear(block, &mut turns) {
                            match turns.last_mut() {
                                Some(Turn::User(before)) => before.push(heard),
                                _ => turns.push(Turn::User(vec![heard])),
                            }
                        }
                    }
                }
            }
        }
        History { turns, ids: calls.ids }
    }

    /// Whether nothing that follows can change it, if an answer follows that is not empty: the last turn is not
    /// one that goes on, and no call of the last answers waits for its result.
    pub(in crate::model) fn is_settled(&self) -> bool {
        let goes_on = match self.turns.last() {
            Some(Turn::User(_)) => false,
            Some(Turn::Assistant(said)) => said.iter().all(|said| said.call.is_none()),
            None => true,
        };
        let latest = self.turns.iter().rev().map_while(|turn| match turn {
            Turn::Assistant(said) => Some(said),
            Turn::User(_) => None,
        });
        let mut calls = latest.flatten().filter_map(|said| said.call.as_ref());
        !goes_on && calls.all(|call| call.is_answered)
    }
}

fn said<'a>(blocks: &'a [Block], ids: &mut CallIds<'_>, is_moved: bool) -> Vec<Said<'a>> {
    let mut said = Vec::with_capacity(blocks.len());
    for block in blocks {
        let call = match &block.part {
            Part::ToolResult { .. } => continue,
            Part::Text { text } if text.is_empty() && block.native.is_none() => continue,
            Part::ToolUse { id, .. } => Some(Call {
                id: ids.take(id),
                result: Cow::Borrowed(NO_RESULT),
                stored_id: id,
                is_answered: false,
            }),
            Part::Text { .. } | Part::Thinking { .. } | Part::Media { .. } | Part::Opaque => None,
        };
        said.push(Said { block, call, is_moved });
    }
    said
}

/// What a block of the user adds to the user's turn; a result goes to its call instead.
fn hear<'a>(block: &'a Block, turns: &mut [Turn<'a>]) -> Option<Heard<'a>> {
    match &block.part {
        Part::Text { text } => (!text.is_empty()).then(|| Heard::Text(Cow::Borrowed(text))),
        Part::Media { media_type, data, name } => {
            Some(Heard::Media { media_type, data, name: name.as_deref() })
        }
        Part::ToolResult { id, name, text, is_error } => {
            let result = result_text(text, *is_error);
            let said = |turn: &Turn<'_>| matches!(turn, Turn::Assistant(_));
            let latest =
                turns.iter_mut().rev().skip_while(|turn| !said(turn)).take_while(|turn| said(turn));
            let mut calls = latest.flat_map(|turn| match turn {
                Turn::Assistant(said) => said.iter_mut().filter_map(|s| s.call.as_mut()).collect(),
                Turn::User(_) => Vec::new(),
            });
            match calls.find(|call| !call.is_answered && call.stored_id == id) {
                Some(call) => {
                    call.result = result;
                    call.is_answered = true;
                    None
                }
                None => Some(Heard::Text(format!("Result of the tool {name}:\n{result}").into())),
            }
        }
        Part::Thinking { .. } | Part::ToolUse { .. } | Part::Opaque => None,
    }
}

/// Neither dialect has a mark for a failed result, and some servers refuse an empty one.
fn result_text(text: &str, is_error: bool) -> Cow<'_, str> {
    match (is_error, text.is_empty()) {
        (false, false) => Cow::Borrowed(text),
        (false, true) => Cow::Borrowed("(no output)"),
        (true, false) => Cow::Owned(format!("Error: {text}")),
        (true, true) => Cow::Borrowed("Error"),
    }
}

/// Gives each call of a request an id of its own. An id that fits and is not taken is kept; others get the
/// next number, so that the same history always gives the same ids.
struct CallIds<'a> {
    form: IdForm,
    before: &'a Ids,
    ids: Ids,
}

impl CallIds<'_> {
    fn take(&mut self, id: &str) -> String {
        let fits = match self.form {
            IdForm::Nine => id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
            IdForm::AtMost(longest) => {
                (1..=longest).contains(&id.len())
                    && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            }
        };
        if fits && self.ids.take(id, self.before) {
            return id.to_owned();
        }
        loop {
            self.ids.made += 1;
            let made = match self.form {
                IdForm::Nine => format!("c{:08}", self.ids.made),
                IdForm::AtMost(_) => format!("call_{}", self.ids.made),
            };
            if self.ids.take(&made, self.before) {
                return made;
            }
        }
    }
}

/// The block's own form, if this dialect and this model made it.
pub(in crate::model) fn native<'a>(
    block: &'a Block,
    dialect: &str,
    model: &str,
) -> Option<&'a Value> {
    let native = block.native.as_ref()?;
    (native.dialect == dialect && native.model == model).then_some(&native.raw)
}

/// The parameters of a call as both dialects carry them: JSON in a string.
pub(in crate::model) fn arguments(input: &Value) -> String {
    match input {
        Value::Null => "{}".to_owned(),
        other => other.to_string(),
    }
}

/// A data URL.
pub(in crate::model) fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

/// What a document is called if nobody named it: servers tell the kind of a file by its name.
pub(in crate::model) fn file_name(media_type: &str) -> String {
    let subtype = media_type.rsplit('/').next().unwrap_or_default();
    let plain = !subtype.is_empty() && subtype.bytes().all(|b| b.is_ascii_alphanumeric());
    format!("document.{}", if plain { subtype } else { "bin" })
}

/// The text of a document that is text, under its name: so no server needs to know the kind of file.
pub(in crate::model) fn document_text(
    media_type: &str,
    data: &str,
    name: Option<&str>,
) -> Option<String> {
    if !media_type.starts_with("text/") && media_type != "application/json" {
        return None;
    }
    let text = String::from_utf8(from_base64(data)?).ok()?;
    Some(match name {
        Some(name) => format!("{name}:\n{text}"),
        None => text,
    })
}

/// What stands in for a picture or document that the server cannot take in this place.
pub(in crate::model) fn left_out(media_type: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("[{name} ({media_type}) left out]"),
        None => format!("[{media_type} left out]"),
    }
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut held, mut bits) = (0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\r' | b'\n' => continue,
            _ => return None,
        };
        held = (held << 6) | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            // Only the lowest byte above the bits that are left is new.
            out.push((held >> bits) as u8);
        }
    }
    Some(out)
}

/// Whether a schema describes an object and says nothing that providers refuse where an answer is bound to it: limits of
/// numbers, lengths and counts, values by default.
pub(in crate::model) fn is_plain_object(schema: &Value) -> bool {
    const REFUSED: [&str; 8] = [
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "default",
        "$schema",
    ];
    fn is_plain(schema: &Value) -> bool {
        match schema {
            Value::Object(map) => {
                !map.keys().any(|key| REFUSED.contains(&key.as_str())) && map.values().all(is_plain)
            }
            Value::Array(list) => list.iter().all(is_plain),
            _ => true,
        }
    }
    schema["type"] == "object" && is_plain(schema)
}

/// Whether a schema keeps the rules of strict mode: every object closed, every property required. Strict mode
/// refuses any other.
pub(in crate::model) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let closed = match map.get("properties").and_then(Value::as_object) {
                Some(properties) => {
                    let required = map.get("required").and_then(Value::as_array);
                    map.get("additionalProperties") == Some(&Value::Bool(false))
                        && properties.keys().all(|name| {
                            required.is_some_and(|r| r.iter().any(|v| v.as_str() == Some(name)))
                        })
                }
                None => map.get("type").and_then(Value::as_str) != Some("object"),
            };
            closed && map.values().all(is_strict)
        }
        Value::Array(list) => list.iter().all(is_strict),
        _ => true,
    }
}
