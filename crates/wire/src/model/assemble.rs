//! From the bytes of an answer to the answer: frames, the dialect's events, and one fold of them that holds
//! every dialect to the same policy.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use machine::message::{Block, Message, Native, Part, Reply, Role, StopReason, Usage};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{Answer, Decode, Dialect, ErrorKind, ModelError, StreamEvent};
use crate::sse;

/// How much of an answer is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of one line and one event.
    pub frame: sse::Limits,
    /// Bytes received altogether.
    pub received: u64,
    /// Bytes of the assembled answer.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { frame: sse::Limits::default(), received: 256 << 20, output: 32 << 20 }
    }
}

/// One answer as it comes. [`Stream::push`] each chunk, then [`Stream::finish`] at the end of the stream,
/// whichever way it ended; after an error there is nothing more to push.
pub struct Stream {
    parser: sse::Parser,
    decoder: Box<dyn Decode>,
    assembler: Assembler,
    limit: u64,
    received: u64,
    begun: bool,
    failed: Option<ModelError>,
}

impl Stream {
    /// An answer in this dialect.
    pub fn new(dialect: &dyn Dialect, limits: Limits) -> Stream {
        Stream {
            parser: sse::Parser::new(limits.frame),
            decoder: dialect.decoder(),
            assembler: Assembler::new(dialect.name(), limits.output),
            limit: limits.received,
            received: 0,
            begun: false,
            failed: None,
        }
    }

    /// The same, with native blocks kept under the name by which the model was asked. Providers answer under
    /// another (a dated one for an alias), and the next request knows only the first.
    pub fn for_model(mut self, model: &str) -> Stream {
        self.assembler = self.assembler.for_model(model);
        self
    }

    /// Takes the next bytes and appends the events that they complete. Events before an error are given too;
    /// a tool call that the provider gave no id has ours.
    pub fn push(&mut self, chunk: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.take(chunk, events).map_err(|error| {
            let error = self.assembler.charge(error);
            self.failed = Some(error.clone());
            error
        })
    }

    /// What the answer has cost so far.
    pub fn usage(&self) -> Usage {
        self.assembler.usage
    }

    /// The answer, now that nothing more comes.
    pub fn finish(self) -> Answer {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if !self.decoder.is_complete() {
            let error = if self.parser.is_plausible() {
                ModelError::new(ErrorKind::StreamTruncated, "the stream ended without its end mark")
            } else {
                ModelError::new(ErrorKind::Malformed, NOT_A_STREAM)
            };
            return Err(self.assembler.charge(error));
        }
        self.assembler.conclude()
    }

    fn take(&mut self, chunk: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        self.received = self.received.saturating_add(chunk.len() as u64);
        if self.received > self.limit {
            return Err(too_large(self.limit));
        }
        // No line of an event stream begins like a JSON document or a page; waiting for its end would be
        // waiting for nothing.
        if !self.begun
            && let Some(first) = chunk.iter().find(|b| !b" \t\r\n\xef\xbb\xbf".contains(b))
        {
            self.begun = true;
            if matches!(first, b'{' | b'[' | b'<') {
                return Err(ModelError::new(ErrorKind::Malformed, NOT_A_STREAM));
            }
        }
        let Stream { parser, decoder, assembler, .. } = self;
        parser.push(chunk, |frame| {
            if frame.data.is_empty() {
                return Ok(());
            }
            let from = events.len();
            let decoded = decoder.frame(frame.event, frame.data, events);
            for at in from..events.len() {
                if let Err(error) = assembler.apply(&mut events[at]) {
                    events.truncate(at);
                    return Err(error);
                }
            }
            decoded
        })
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("assembler", &self.assembler).finish_non_exhaustive()
    }
}

impl From<sse::Error> for ModelError {
    fn from(error: sse::Error) -> ModelError {
        let kind = match error {
            sse::Error::LineTooLong { .. } | sse::Error::EventTooLarge { .. } => {
                ErrorKind::OutputTooLarge
            }
            sse::Error::NotUtf8 => ErrorKind::MalformedStream,
        };
        ModelError::new(kind, error.to_string())
    }
}

const NOT_A_STREAM: &str = "expected a stream of events, got something else";

fn too_large(limit: u64) -> ModelError {
    ModelError::new(ErrorKind::OutputTooLarge, format!("the answer is larger than {limit} bytes"))
}

/// Folds events into an answer. Usable without bytes, for events from elsewhere.
#[derive(Debug)]
pub struct Assembler {
    dialect: String,
    asked: Option<String>,
    limit: u64,
    size: u64,
    id: String,
    model: String,
    /// By index: the order in which the provider numbers its blocks, however they interleave.
    blocks: BTreeMap<usize, Slot>,
    tool_ids: BTreeSet<String>,
    /// The number of the next id that we make.
    next_id: usize,
    duplicate_id: Option<String>,
    usage: Usage,
    stop: Option<StopReason>,
    ended: bool,
}

#[derive(Debug)]
struct Slot {
    content: Content,
    native: Option<Value>,
}

#[derive(Debug)]
enum Content {
    Text(String),
    Thinking(String),
    Tool { id: String, name: String, json: String, stopped: bool },
    Opaque,
}

impl Assembler {
    /// A fold for one answer in this dialect, of at most `limit` bytes.
    pub fn new(dialect: &str, limit: u64) -> Assembler {
        Assembler {
            dialect: dialect.to_owned(),
            asked: None,
            limit,
            size: 0,
            id: String::new(),
            model: String::new(),
            blocks: BTreeMap::new(),
            tool_ids: BTreeSet::new(),
            next_id: 0,
            duplicate_id: None,
            usage: Usage::default(),
            stop: None,
            ended: false,
        }
    }

    /// See [`Stream::for_model`].
    pub fn for_model(mut self, model: &str) -> Assembler {
        self.asked = Some(model.to_owned());
        self
    }

    /// Takes the next event. Gives a tool call without an id one of ours (`call_0`, `call_1`, …).
    pub fn apply(&mut self, event: &mut StreamEvent) -> Result<(), ModelError> {
        match event {
            StreamEvent::MessageStart { id, model } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
            }
            StreamEvent::TextDelta { index, text } => {
                self.grow(text.len())?;
                let slot = self.slot(*index, || Content::Text(String::new()));
                let Content::Text(all) = &mut slot.content else { return Err(wrong_block(*index)) };
                all.push_str(text);
            }
            StreamEvent::ThinkingDelta { index, text } => {
                self.grow(text.len())?;
                let slot = self.slot(*index, || Content::Thinking(String::new()));
                let Content::Thinking(all) = &mut slot.content else {
                    return Err(wrong_block(*index));
                };
                all.push_str(text);
            }
            StreamEvent::ToolUseStart { index, id, name } => self.start_tool(*index, id, name)?,
            StreamEvent::InputJsonDelta { index, json } => {
                self.grow(json.len())?;
                match self.blocks.get_mut(index).map(|slot| &mut slot.content) {
                    Some(Content::Tool { json: all, stopped: false, .. }) => all.push_str(json),
                    _ => return Err(wrong_block(*index)),
                }
            }
            StreamEvent::ToolUseStop { index } => {
                match self.blocks.get_mut(index).map(|slot| &mut slot.content) {
                    Some(Content::Tool { stopped, .. }) if !*stopped => *stopped = true,
                    _ => return Err(wrong_block(*index)),
                }
            }
            StreamEvent::Native { index, raw } => {
                self.grow(size(raw))?;
                self.slot(*index, || Content::Opaque).native = Some(raw.clone());
            }
            StreamEvent::MessageDelta { usage, stop } => {
                merge(&mut self.usage, usage);
                self.stop = stop.or(self.stop);
            }
            StreamEvent::MessageStop => self.ended = true,
            StreamEvent::Ping => {}
        }
        Ok(())
    }

    /// What the answer has cost so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The answer, if its end mark has come.
    pub fn finish(self) -> Answer {
        if self.ended {
            return self.conclude();
        }
        let error =
            ModelError::new(ErrorKind::StreamTruncated, "the events ended without the end mark");
        Err(self.charge(error))
    }

    /// The error, with what the answer had cost by then.
    fn charge(&self, mut error: ModelError) -> ModelError {
        let told = error.usage;
        error.usage = self.usage;
        merge(&mut error.usage, &told);
        error
    }

    fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.size = self.size.saturating_add(bytes as u64);
        if self.size > self.limit { Err(too_large(self.limit)) } else { Ok(()) }
    }

    fn slot(&mut self, index: usize, content: impl FnOnce() -> Content) -> &mut Slot {
        self.blocks.entry(index).or_insert_with(|| Slot { content: content(), native: None })
    }

    fn start_tool(&mut self, index: usize, id: &mut String, name: &str) -> Result<(), ModelError> {
        while id.is_empty() {
            let made = format!("call_{}", self.next_id);
            self.next_id += 1;
            if !self.tool_ids.contains(&made) {
                *id = made;
            }
        }
        self.grow(id.len() + name.len())?;
        if !self.tool_ids.insert(id.clone()) {
            self.duplicate_id.get_or_insert_with(|| id.clone());
        }
        let content = Content::Tool {
            id: id.clone(),
            name: name.to_owned(),
            json: String::new(),
            stopped: false,
        };
        let slot = Slot { content, native: None };
        if self.blocks.insert(index, slot).is_some() {
            return Err(wrong_block(index));
        }
        Ok(())
    }

    fn conclude(self) -> Answer {
        match self.judge() {
            Ok(stop) => self.reply(stop),
            Err(error) => Err(self.charge(error)),
        }
    }

    /// Why the answer stops, if it is one at all.
    fn judge(&self) -> Result<StopReason, ModelError> {
        let mut tools = 0;
        let mut says_something = false;
        for slot in self.blocks.values() {
            match &slot.content {
                Content::Text(text) => says_something |= !text.trim().is_empty(),
                Content::Tool { .. } => tools += 1,
                Content::Opaque => says_something = true,
                // Thought alone is no answer.
                Content::Thinking(_) => {}
            }
        }
        let Some(stop) = self.stop else {
            return Err(if self.blocks.is_empty() {
                ModelError::new(ErrorKind::EmptyCompletion, "the answer has nothing in it")
            } else {
                ModelError::new(ErrorKind::StreamTruncated, "the answer does not say why it stops")
            });
        };
        match stop {
            StopReason::Refusal => return Ok(stop),
            // A provider that says `tool_use` under a limit, or closes the braces itself, cannot be told from
            // one that was done: no call of a cut answer runs.
            StopReason::MaxTokens if tools > 0 => {
                let message = "the answer ended at its token limit inside its tool calls";
                return Err(ModelError::new(ErrorKind::ToolArgsTruncated, message));
            }
            StopReason::MaxTokens if !says_something => {
                let message = "the answer ended at its token limit before it said anything";
                return Err(ModelError::new(ErrorKind::Truncated, message));
            }
            StopReason::ToolUse if tools == 0 => {
                let message = "the answer stops for a tool call and has none";
                return Err(ModelError::new(ErrorKind::MalformedToolCall, message));
            }
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::MaxTokens
            | StopReason::StopSequence
            | StopReason::Pause => {}
        }
        if let Some(id) = &self.duplicate_id {
            let message = format!("two tool calls have the id `{id}`");
            return Err(ModelError::new(ErrorKind::DuplicateToolId, message));
        }
        if tools == 0 && !says_something && stop != StopReason::StopSequence {
            let message = "the answer has nothing in it";
            return Err(ModelError::new(ErrorKind::EmptyCompletion, message));
        }
        // Some servers say `stop` though they ask for tools.
        Ok(if tools > 0 && stop == StopReason::EndTurn { StopReason::ToolUse } else { stop })
    }

    fn reply(self, stop: StopReason) -> Answer {
        let Assembler { dialect, asked, id, model, blocks, usage, .. } = self;
        let native_model = asked.unwrap_or_else(|| model.clone());
        let mut content = Vec::with_capacity(blocks.len());
        for slot in blocks.into_values() {
            let part = match slot.content {
                Content::Text(text) if text.is_empty() && slot.native.is_none() => continue,
                Content::Text(text) => Part::Text { text },
                Content::Thinking(text) => Part::Thinking { text },
                Content::Opaque => Part::Opaque,
                // What was refused is not done.
                Content::Tool { .. } if stop == StopReason::Refusal => continue,
                Content::Tool { id, name, json, stopped } => {
                    let input = arguments(&name, &json, stopped)
                        .map_err(|error| ModelError { usage, ..error })?;
                    Part::ToolUse { id, name, input }
                }
            };
            let native = slot.native.map(|raw| Native {
                dialect: dialect.clone(),
                model: native_model.clone(),
                raw,
            });
            content.push(Block { part, native });
        }
        let model = if model.is_empty() { native_model } else { model };
        let message = Message { role: Role::Assistant, blocks: content };
        Ok(Reply { id, model, message, stop, usage })
    }
}

fn arguments(name: &str, json: &str, stopped: bool) -> Result<Value, ModelError> {
    if name.is_empty() {
        return Err(ModelError::new(ErrorKind::MalformedToolCall, "a tool call names no tool"));
    }
    let why = match strict_json(json) {
        Ok(input @ Value::Object(_)) if stopped => return Ok(input),
        Ok(Value::Object(_)) => "the call was never completed".to_owned(),
        Ok(_) => "they are no object".to_owned(),
        Err(why) => why,
    };
    let message = format!("the arguments of a call of `{name}` cannot be used: {why}");
    Err(ModelError::new(ErrorKind::ToolArgsInvalid, message))
}

/// One complete JSON text. Says what is wrong with anything else, also with an object that has a key twice:
/// which of the two counts differs between readers, so what is shown could differ from what is done.
pub fn strict_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map(|Strict(value)| value).map_err(|error| error.to_string())
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, Strict(value))) = map.next_entry::<String, Strict>()? {
            if object.contains_key(&key) {
                return Err(de::Error::custom(format_args!("the key `{key}` comes twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Takes over each counter that was sent.
fn merge(usage: &mut Usage, later: &Usage) {
    usage.input = later.input.or(usage.input);
    usage.output = later.output.or(usage.output);
    usage.thinking = later.thinking.or(usage.thinking);
    usage.cache_read = later.cache_read.or(usage.cache_read);
    usage.cache_write = later.cache_write.or(usage.cache_write);
    usage.cache_write_long = later.cache_write_long.or(usage.cache_write_long);
}

/// About how many bytes a value takes as text.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().fold(2, |sum, item| sum + size(item) + 1),
        Value::Object(map) => {
            map.iter().fold(2, |sum, (key, item)| sum + key.len() + size(item) + 4)
        }
    }
}

fn wrong_block(index: usize) -> ModelError {
    let message = format!("an event does not fit block {index} as it stands");
    ModelError::new(ErrorKind::Protocol, message)
}
