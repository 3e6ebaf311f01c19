//! Events of the Messages API. Blocks are told apart by their index, and each is given back in its own form
//! where that holds more than its text: a signature, citations, a server's tool, a type nobody knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::message::{StopReason, Usage};
use serde_json::{Map, Value};

use super::failure;
use super::quick::{self, Addition, Counts, Frame, Piece};
use crate::model::{Decode, ErrorKind, ModelError, StreamEvent};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    begun: bool,
    ended: bool,
    /// By index; `None` once it is complete.
    blocks: BTreeMap<usize, Option<Open>>,
    cache_write_long: Option<u64>,
    searches: u64,
}

/// A block that is still growing.
#[derive(Debug)]
struct Open {
    kind: Kind,
    begun: Begun,
    /// Text, thinking or JSON: a later addition may show that the native form is needed.
    text: String,
    /// Whether any text came.
    has_text: bool,
    /// Whether the native form holds more than everybody can read.
    is_native: bool,
}

/// A block as it was begun.
#[derive(Debug, Default)]
struct Begun {
    /// Its own form, with all that was added but the text. Made when it is needed for one that began with no more than
    /// usual: an empty text, or a call without parameters.
    raw: Option<Map<String, Value>>,
    /// The id and the name of such a call.
    call: Option<(Arc<str>, String)>,
}

impl Begun {
    fn raw(&mut self) -> &mut Map<String, Value> {
        let call = &self.call;
        self.raw.get_or_insert_with(|| {
            let fields = match call {
                None => vec![("type", "text".into())],
                Some((id, name)) => vec![
                    ("type", "tool_use".into()),
                    ("id", (&**id).into()),
                    ("name", name.as_str().into()),
                    ("input", Value::Object(Map::new())),
                ],
            };
            fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Tool,
    Other,
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
        if let Some(Addition { index, piece, text }) = quick::addition(data) {
            return self.add_piece(index, piece, text.into_owned(), out);
        }
        if let Some(frame) = quick::read(data) {
            return self.take(frame, out);
        }
        let mut data: Value = serde_json::from_str(data).map_err(|error| {
            ModelError::new(ErrorKind::MalformedStream, format!("a frame is no JSON: {error}"))
        })?;
        if !data.is_object() {
            return Err(ModelError::new(ErrorKind::MalformedStream, "a frame is no JSON object"));
        }
        let name = data["type"].as_str().unwrap_or(event).to_owned();
        match name.as_str() {
            "message_start" => {
                let message = &data["message"];
                let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
                self.count_searches(&message["usage"]);
                self.start(text("id"), text("model"), counts(&message["usage"]), out)?;
            }
            "content_block_start" => {
                let block = data["content_block"].take();
                self.start_block(index(&data)?, block, out)?;
            }
            "content_block_delta" => self.add(&data, out)?,
            "content_block_stop" => self.stop_block(index(&data)?, out)?,
            "message_delta" => {
                if data["delta"]["stop_reason"] == "refusal" {
                    self.explain(&data["delta"]["stop_details"], out)?;
                }
                self.count_searches(&data["usage"]);
                self.count(counts(&data["usage"]), data["delta"]["stop_reason"].as_str(), out)?;
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

    fn searches(&self) -> u64 {
        self.searches
    }

    /// The parameters of a call come once they are whole, and thinking that is not shown does not come at all.
    fn is_held_back(&self) -> bool {
        self.blocks.values().flatten().any(|open| open.kind != Kind::Text)
    }
}

impl Decoder {
    fn take(&mut self, frame: Frame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        match frame {
            Frame::Begin { id, model, counts } => {
                self.start(id.into_owned(), model.into_owned(), counts, out)
            }
            Frame::Text { index } => self.open_block(index, Kind::Text, Begun::default(), false),
            Frame::Tool { index, id, name } => {
                let (id, name): (Arc<str>, _) = (id.into(), name.into_owned());
                let begun = Begun { raw: None, call: Some((Arc::clone(&id), name.clone())) };
                self.open_block(index, Kind::Tool, begun, false)?;
                out.push(StreamEvent::ToolUseStart { index, id, name });
                Ok(())
            }
            Frame::BlockStop { index } => self.stop_block(index, out),
            Frame::Delta { stop, counts } => self.count(counts, stop.as_deref(), out),
            Frame::Stop => self.stop(out),
            Frame::Ping => {
                out.push(StreamEvent::Ping);
                Ok(())
            }
        }
    }

    fn start(
        &mut self,
        id: String,
        model: String,
        counts: Counts,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        if self.begun {
            return Err(protocol("an answer begins twice"));
        }
        self.begun = true;
        out.push(StreamEvent::MessageStart { id, model });
        out.push(StreamEvent::MessageDelta { usage: self.usage(counts), stop: None });
        Ok(())
    }

    fn count(
        &mut self,
        counts: Counts,
        reason: Option<&str>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        self.must_have_begun()?;
        // The counters first: they are owed also where the reason is an error.
        let usage = self.usage(counts);
        let stop = reason.map(stop_reason).transpose();
        let known = stop.as_ref().ok().copied().flatten();
        out.push(StreamEvent::MessageDelta { usage, stop: known });
        stop.map(drop)
    }

    /// Why an answer was refused, in its provider's words: what there is of the answer does not say it.
    fn explain(&self, details: &Value, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        self.must_have_begun()?;
        let said = details["explanation"].as_str().filter(|said| !said.trim().is_empty());
        let index = self.blocks.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        out.extend(said.map(|said| StreamEvent::TextDelta { index, text: said.to_owned() }));
        Ok(())
    }

    fn open_block(
        &mut self,
        index: usize,
        kind: Kind,
        begun: Begun,
        is_native: bool,
    ) -> Result<(), ModelError> {
        self.must_have_begun()?;
        if self.blocks.contains_key(&index) {
            return Err(protocol(format!("block {index} begins twice")));
        }
        let open = Open { kind, begun, text: String::new(), has_text: false, is_native };
        self.blocks.insert(index, Some(open));
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
        self.open_block(index, kind, Begun { raw: Some(raw), call: None }, is_native)?;
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
            match open.begun.raw().entry("citations").or_insert_with(|| Value::Array(Vec::new())) {
                Value::Array(all) => all.push(citation),
                other => *other = Value::Array(vec![citation]),
            }
            return Ok(());
        }
        // Signatures, and additions nobody knows: text is appended, anything else replaces.
        for (key, value) in delta.iter().filter(|(key, _)| *key != "type") {
            match (open.begun.raw().get_mut(key), value) {
                (Some(Value::String(all)), Value::String(more)) => all.push_str(more),
                _ => {
                    open.begun.raw().insert(key.clone(), value.clone());
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
                match open.begun.raw().entry(key).or_insert_with(|| Value::String(String::new())) {
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
        let Open { kind, mut begun, text, has_text, is_native } = open;
        match kind {
            Kind::Text if is_native => {
                begun.raw().insert("text".to_owned(), Value::String(text));
            }
            Kind::Text => {}
            Kind::Thinking => {
                begun.raw().insert("thinking".to_owned(), Value::String(text));
            }
            Kind::Tool => {
                if !has_text {
                    // The whole input came with the start; an empty one is how a call without parameters looks.
                    let json = match &begun.raw {
                        Some(raw) => {
                            let input = raw.get("input").filter(|input| input.is_object());
                            input.map(Value::to_string).unwrap_or_default()
                        }
                        None => "{}".to_owned(),
                    };
                    out.push(StreamEvent::InputJsonDelta { index, id: Arc::default(), json });
                } else if is_native {
                    insert_input(begun.raw(), &text);
                }
                out.push(StreamEvent::ToolUseStop { index, id: Arc::default() });
            }
            Kind::Other => insert_input(begun.raw(), &text),
        }
        if is_native {
            let raw = Value::Object(std::mem::take(begun.raw()));
            out.push(StreamEvent::Native { index, raw });
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

    fn count_searches(&mut self, usage: &Value) {
        let told = usage["server_tool_use"]["web_search_requests"].as_u64();
        self.searches = told.unwrap_or(self.searches);
    }

    /// The counters as they are charged.
    fn usage(&mut self, counts: Counts) -> Usage {
        self.cache_write_long = counts.cache_write_long.or(self.cache_write_long);
        // The sum of both; the long part is told apart only where the split is sent.
        let written =
            counts.cache_write.map(|all| all.saturating_sub(self.cache_write_long.unwrap_or(0)));
        Usage {
            nanodollars: None,
            input: counts.input,
            output: counts.output,
            thinking: counts.thinking,
            cache_read: counts.cache_read,
            cache_write: counts.cache_write_short.or(written),
            cache_write_long: self.cache_write_long,
        }
    }
}

/// The counters. What is no count of tokens (text, negative, beyond 64 bits) counts as not sent.
fn counts(usage: &Value) -> Counts {
    let count = |key: &str| usage[key].as_u64();
    let split = &usage["cache_creation"];
    Counts {
        input: count("input_tokens"),
        output: count("output_tokens"),
        thinking: usage["output_tokens_details"]["thinking_tokens"].as_u64(),
        cache_read: count("cache_read_input_tokens"),
        cache_write: count("cache_creation_input_tokens"),
        cache_write_short: split["ephemeral_5m_input_tokens"].as_u64(),
        cache_write_long: split["ephemeral_1h_input_tokens"].as_u64(),
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

fn stop_reason(reason: &str) -> Result<StopReason, ModelError> {
    Ok(match reason {
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
    })
}

fn protocol(message: impl Into<String>) -> ModelError {
    ModelError::new(ErrorKind::Protocol, message)
}
