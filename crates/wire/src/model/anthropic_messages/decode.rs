//! Events of the Messages API. Blocks are told apart by their index, and each is given back in its own form
//! where that holds more than its text: a signature, citations, a server's tool, a type nobody knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::message::{StopReason, Usage};
use serde_json::{Map, Value};

use super::failure;
use crate::model::{Decode, ErrorKind, ModelError, StreamEvent, quick};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    begun: bool,
    ended: bool,
    /// By index; `None` once it is complete.
    blocks: BTreeMap<usize, Option<Open>>,
    cache_write_long: Option<u64>,
}

/// A block that is still growing.
#[derive(Debug)]
struct Open {
    kind: Kind,
    /// The block as it was begun, with all that was added but the text.
    raw: Map<String, Value>,
    /// Text, thinking or JSON: a later addition may show that the native form is needed.
    text: String,
    /// Whether any text came.
    has_text: bool,
    /// Whether the native form holds more than everybody can read.
    is_native: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Tool,
    Other,
}

/// The additions that come most often; each is one piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Text,
    Thinking,
    Json,
}

impl Decode for Decoder {
    fn frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        if self.ended {
            return Ok(());
        }
        if let Some((index, piece, text)) = quick_piece(data) {
            return self.add_piece(index, piece, text, out);
        }
        match quick_mark(data) {
            Some(Mark::BlockStop(index)) => return self.stop_block(index, out),
            Some(Mark::MessageStop) => return self.stop(out),
            Some(Mark::Ping) => {
                out.push(StreamEvent::Ping);
                return Ok(());
            }
            None => {}
        }
        let mut data: Value = serde_json::from_str(data).map_err(|error| {
            ModelError::new(ErrorKind::MalformedStream, format!("a frame is no JSON: {error}"))
        })?;
        if !data.is_object() {
            return Err(ModelError::new(ErrorKind::MalformedStream, "a frame is no JSON object"));
        }
        let name = data["type"].as_str().unwrap_or(event).to_owned();
        match name.as_str() {
            "message_start" => self.start(&data["message"], out)?,
            "content_block_start" => {
                let block = data["content_block"].take();
                self.start_block(index(&data)?, block, out)?;
            }
            "content_block_delta" => self.add(&data, out)?,
            "content_block_stop" => self.stop_block(index(&data)?, out)?,
            "message_delta" => {
                self.must_have_begun()?;
                // The counters first: they are owed also where the reason is an error.
                let usage = self.usage(&data["usage"]);
                let stop = stop_reason(&data["delta"]["stop_reason"]);
                let known = stop.as_ref().ok().copied().flatten();
                out.push(StreamEvent::MessageDelta { usage, stop: known });
                stop?;
            }
            "message_stop" => self.stop(out)?,
            "ping" => out.push(StreamEvent::Ping),
            "error" => return Err(failure::of_event(&data)),
            _ => {}
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.ended
    }
}

impl Decoder {
    fn start(&mut self, message: &Value, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        if self.begun {
            return Err(protocol("an answer begins twice"));
        }
        self.begun = true;
        let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
        out.push(StreamEvent::MessageStart { id: text("id"), model: text("model") });
        let usage = self.usage(&message["usage"]);
        out.push(StreamEvent::MessageDelta { usage, stop: None });
        Ok(())
    }

    fn start_block(
        &mut self,
        index: usize,
        block: Value,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        self.must_have_begun()?;
        if self.blocks.contains_key(&index) {
            return Err(protocol(format!("block {index} begins twice")));
        }
        let Value::Object(mut raw) = block else {
            return Err(protocol(format!("block {index} begins without its content")));
        };
        let known = |keys: &[&str]| raw.keys().all(|key| keys.contains(&key.as_str()));
        let (kind, is_native, text_key) = match raw.get("type").and_then(Value::as_str) {
            Some("text") => {
                let cites = raw.get("citations").and_then(Value::as_array);
                let has_more = !known(&["type", "text", "citations"])
                    || cites.is_some_and(|cites| !cites.is_empty());
                (Kind::Text, has_more, "text")
            }
            Some("thinking") => (Kind::Thinking, true, "thinking"),
            Some("tool_use") => (Kind::Tool, !known(&["type", "id", "name", "input"]), ""),
            _ => (Kind::Other, true, ""),
        };
        let begun_with = match raw.get_mut(text_key).map(Value::take) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        if kind == Kind::Tool {
            let text = |key| raw.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            out.push(StreamEvent::ToolUseStart {
                index,
                id: text("id").into(),
                name: text("name"),
            });
        }
        let open = Open { kind, raw, text: String::new(), has_text: false, is_native };
        self.blocks.insert(index, Some(open));
        match kind {
            Kind::Text if !begun_with.is_empty() => {
                self.add_piece(index, Piece::Text, begun_with, out)
            }
            // Also where the provider hides the text: the block is thinking all the same.
            Kind::Thinking => self.add_piece(index, Piece::Thinking, begun_with, out),
            Kind::Text | Kind::Tool | Kind::Other => Ok(()),
        }
    }

    fn add(&mut self, data: &Value, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let index = index(data)?;
        let Value::Object(delta) = &data["delta"] else {
            return Err(protocol(format!("an addition to block {index} without content")));
        };
        let name = delta.get("type").and_then(Value::as_str).unwrap_or_default();
        let piece = match name {
            "text_delta" => Some((Piece::Text, "text")),
            "thinking_delta" => Some((Piece::Thinking, "thinking")),
            "input_json_delta" => Some((Piece::Json, "partial_json")),
            _ => None,
        };
        if let Some((piece, key)) = piece {
            let Some(text) = delta.get(key).and_then(Value::as_str) else {
                return Err(protocol(format!("a `{name}` without text")));
            };
            return self.add_piece(index, piece, text.to_owned(), out);
        }
        let open = self.open(index)?;
        open.is_native = true;
        if name == "citations_delta" {
            let citation = delta.get("citation").cloned().unwrap_or_default();
            match open.raw.entry("citations").or_insert_with(|| Value::Array(Vec::new())) {
                Value::Array(all) => all.push(citation),
                other => *other = Value::Array(vec![citation]),
            }
            return Ok(());
        }
        // Signatures, and additions nobody knows: text is appended, anything else replaces.
        for (key, value) in delta.iter().filter(|(key, _)| *key != "type") {
            match (open.raw.get_mut(key), value) {
                (Some(Value::String(all)), Value::String(more)) => all.push_str(more),
                _ => {
                    open.raw.insert(key.clone(), value.clone());
                }
            }
        }
        Ok(())
    }

    fn add_piece(
        &mut self,
        index: usize,
        piece: Piece,
        text: String,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        let open = self.open(index)?;
        open.has_text |= !text.is_empty();
        out.push(match (open.kind, piece) {
            (Kind::Text, Piece::Text) => {
                open.text.push_str(&text);
                StreamEvent::TextDelta { index, text }
            }
            (Kind::Thinking, Piece::Thinking) => {
                open.text.push_str(&text);
                StreamEvent::ThinkingDelta { index, text }
            }
            (Kind::Tool, Piece::Json) => {
                open.text.push_str(&text);
                StreamEvent::InputJsonDelta { index, id: Arc::default(), json: text }
            }
            (Kind::Other, Piece::Json) => {
                open.text.push_str(&text);
                return Ok(());
            }
            (Kind::Other, Piece::Text | Piece::Thinking) => {
                let key = if piece == Piece::Text { "text" } else { "thinking" };
                match open.raw.entry(key).or_insert_with(|| Value::String(String::new())) {
                    Value::String(all) => all.push_str(&text),
                    other => *other = Value::String(text),
                }
                return Ok(());
            }
            (Kind::Text | Kind::Thinking | Kind::Tool, _) => {
                return Err(protocol(format!("an addition of the wrong type to block {index}")));
            }
        });
        Ok(())
    }

    fn stop_block(&mut self, index: usize, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        self.open(index)?;
        let Some(open) = self.blocks.insert(index, None).flatten() else { return Ok(()) };
        let Open { kind, mut raw, text, has_text, is_native } = open;
        match kind {
            Kind::Text => {
                raw.insert("text".to_owned(), Value::String(text));
            }
            Kind::Thinking => {
                raw.insert("thinking".to_owned(), Value::String(text));
            }
            Kind::Tool => {
                if !has_text {
                    // The whole input came with the start; an empty one is how a call without parameters looks.
                    let input = raw.get("input").filter(|input| input.is_object());
                    let json = input.map(Value::to_string).unwrap_or_default();
                    out.push(StreamEvent::InputJsonDelta { index, id: Arc::default(), json });
                } else if is_native {
                    insert_input(&mut raw, &text);
                }
                out.push(StreamEvent::ToolUseStop { index, id: Arc::default() });
            }
            Kind::Other => insert_input(&mut raw, &text),
        }
        if is_native {
            out.push(StreamEvent::Native { index, raw: Value::Object(raw) });
        }
        Ok(())
    }

    fn stop(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        self.must_have_begun()?;
        if let Some((index, _)) = self.blocks.iter().find(|(_, block)| block.is_some()) {
            return Err(protocol(format!("the answer ends inside block {index}")));
        }
        self.ended = true;
        out.push(StreamEvent::MessageStop);
        Ok(())
    }

    fn open(&mut self, index: usize) -> Result<&mut Open, ModelError> {
        self.must_have_begun()?;
        match self.blocks.get_mut(&index) {
            Some(Some(open)) => Ok(open),
            Some(None) => Err(protocol(format!("block {index} is complete already"))),
            None => Err(protocol(format!("block {index} has not begun"))),
        }
    }

    fn must_have_begun(&self) -> Result<(), ModelError> {
        if self.begun { Ok(()) } else { Err(protocol("the answer has not begun")) }
    }

    /// The counters. What is no count of tokens (text, negative, beyond 64 bits) counts as not sent.
    fn usage(&mut self, usage: &Value) -> Usage {
        let count = |key: &str| usage[key].as_u64();
        let split = &usage["cache_creation"];
        self.cache_write_long =
            split["ephemeral_1h_input_tokens"].as_u64().or(self.cache_write_long);
        // The sum of both; the long part is told apart only where the split is sent.
        let written = count("cache_creation_input_tokens")
            .map(|all| all.saturating_sub(self.cache_write_long.unwrap_or(0)));
        Usage {
            nanodollars: None,
            input: count("input_tokens"),
            output: count("output_tokens"),
            thinking: usage["output_tokens_details"]["thinking_tokens"].as_u64(),
            cache_read: count("cache_read_input_tokens"),
            cache_write: split["ephemeral_5m_input_tokens"].as_u64().or(written),
            cache_write_long: self.cache_write_long,
        }
    }
}

fn insert_input(raw: &mut Map<String, Value>, json: &str) {
    // Not ours to run: what does not parse stays as it began.
    if let Ok(input) = serde_json::from_str(json) {
        raw.insert("input".to_owned(), input);
    }
}

fn index(data: &Value) -> Result<usize, ModelError> {
    let index = data["index"].as_u64().and_then(|index| usize::try_from(index).ok());
    index.ok_or_else(|| protocol("an event of a block does not say which block"))
}

fn stop_reason(reason: &Value) -> Result<Option<StopReason>, ModelError> {
    let Some(reason) = reason.as_str() else { return Ok(None) };
    Ok(Some(match reason {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        "pause_turn" => StopReason::Pause,
        "model_context_window_exceeded" => {
            let message = "the answer filled the model's context";
            return Err(ModelError::new(ErrorKind::ContextOverflow, message));
        }
        _ => {
            let message = format!("the answer stops for an unknown reason: {reason}");
            return Err(ModelError::new(ErrorKind::UnknownStop, message));
        }
    }))
}

fn protocol(message: impl Into<String>) -> ModelError {
    ModelError::new(ErrorKind::Protocol, message)
}

/// Reads an addition of text as the provider writes it, byte for byte up to its text, without a JSON parser:
/// most of a stream is made of these. Whatever looks different in any way is left to the parser.
fn quick_piece(data: &str) -> Option<(usize, Piece, String)> {
    let rest = data.strip_prefix(r#"{"type":"content_block_delta","index":"#)?;
    let (index, rest) = quick_index(rest)?;
    let rest = rest.strip_prefix(r#","delta":{"type":""#)?;
    let (piece, literal) = if let Some(rest) = rest.strip_prefix(r#"text_delta","text":"#) {
        (Piece::Text, rest)
    } else if let Some(rest) = rest.strip_prefix(r#"input_json_delta","partial_json":"#) {
        (Piece::Json, rest)
    } else {
        (Piece::Thinking, rest.strip_prefix(r#"thinking_delta","thinking":"#)?)
    };
    let (text, rest) = quick::string(literal)?;
    // Between the braces the provider puts a random number of spaces.
    let rest = rest.strip_prefix('}')?.trim_start_matches(' ').strip_prefix('}')?;
    rest.trim_start_matches(' ').is_empty().then(|| (index, piece, text.into_owned()))
}

/// Frames that say nothing but that something ends, or that the connection lives.
enum Mark {
    BlockStop(usize),
    MessageStop,
    Ping,
}

/// Reads a mark as the provider writes it; see [`quick_piece`].
fn quick_mark(data: &str) -> Option<Mark> {
    let rest = data.strip_prefix(r#"{"type":""#)?;
    let (mark, rest) = if let Some(rest) = rest.strip_prefix(r#"content_block_stop","index":"#) {
        let (index, rest) = quick_index(rest)?;
        (Mark::BlockStop(index), rest)
    } else if let Some(rest) = rest.strip_prefix(r#"message_stop""#) {
        (Mark::MessageStop, rest)
    } else {
        (Mark::Ping, rest.strip_prefix(r#"ping""#)?)
    };
    (rest.trim_matches(' ') == "}").then_some(mark)
}

/// A number of a block, and what comes after it.
fn quick_index(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take(6).take_while(u8::is_ascii_digit).count();
    if digits == 0 || (digits > 1 && text.starts_with('0')) {
        return None;
    }
    Some((text[..digits].parse().ok()?, &text[digits..]))
}
