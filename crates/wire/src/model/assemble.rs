//! From the bytes of an answer to the answer: frames, the dialect's events, and one fold of them that holds
//! every dialect to the same policy.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use machine::message::{Block, Message, Native, Part, Reply, Role, StopReason, Usage};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{Answer, Decode, Dialect, ErrorKind, ModelError, StreamEvent};
use crate::sse;

/// More calls than any answer has that means them: each is judged, and waits for those before it.
const MOST_TOOLS: usize = 512;

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

    /// Whether a sign of life is all that can be expected for now (see [`Decode::is_held_back`]).
    pub fn is_held_back(&self) -> bool {
        self.decoder.is_held_back()
    }

    /// Whether an event has begun whose end has not come.
    pub fn is_within_an_event(&self) -> bool {
        self.parser.is_within_an_event()
    }

    /// What the answer has cost so far.
    pub fn usage(&self) -> Usage {
        self.assembler.usage
    }

    /// The searches that its provider has counted so far (see [`Decode::searches`]).
    pub fn searches(&self) -> u64 {
        self.decoder.searches()
    }

    /// The answer, now that nothing more comes.
    pub fn finish(self) -> Answer {
        self.close(&mut Vec::new())
    }

    /// The same, with the events that are still owed: some servers end without the mark that others send.
    pub fn close(mut self, events: &mut Vec<StreamEvent>) -> Answer {
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
        if self.assembler.whole.is_none() {
            let from = events.len();
            events.push(StreamEvent::MessageStop);
            self.assembler.take(events, from).map_err(|error| self.assembler.charge(error))?;
        }
        self.assembler.finish()
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
            assembler.take(events, from)?;
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
    tool_ids: BTreeSet<Arc<str>>,
    /// The number of the next id that we make.
    next_id: usize,
    duplicate_id: Option<Arc<str>>,
    usage: Usage,
    stop: Option<StopReason>,
    begun: bool,
    /// What must be told before the end mark.
    owed: Vec<StreamEvent>,
    /// The answer, once its end mark has come.
    whole: Option<Reply>,
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
    Tool { id: Arc<str>, name: String, json: String, stopped: bool },
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
            begun: false,
            owed: Vec::new(),
            whole: None,
        }
    }

    /// See [`Stream::for_model`].
    pub fn for_model(mut self, model: &str) -> Assembler {
        self.asked = Some(model.to_owned());
        self
    }

    /// Takes the events from this place on and makes them what [`machine::stream`] promises: ids are filled in, the
    /// beginning and the end are where they belong, and what is wrong with the answer cuts off its end.
    pub fn take(&mut self, events: &mut Vec<StreamEvent>, from: usize) -> Result<(), ModelError> {
        let mut at = from;
        while at < events.len() {
            if let Some(reply) = &mut self.whole {
                // Nothing is told after the end; counters count all the same.
                for event in events.drain(at..) {
                    if let StreamEvent::MessageDelta { usage, .. } = event {
                        reply.usage.update(&usage);
                    }
                }
                return Ok(());
            }
            if !self.begun
                && !matches!(events[at], StreamEvent::MessageStart { .. } | StreamEvent::Ping)
            {
                let (id, model) = (String::new(), String::new());
                events.insert(at, StreamEvent::MessageStart { id, model });
            }
            let again = self.begun && matches!(events[at], StreamEvent::MessageStart { .. });
            if let Err(error) = self.apply(&mut events[at]) {
                events.truncate(at);
                return Err(error);
            }
            if again {
                events.remove(at);
                continue;
            }
            if !self.owed.is_empty() {
                let owed = std::mem::take(&mut self.owed);
                let before = at;
                at += owed.len();
                events.splice(before..before, owed);
            }
            at += 1;
        }
        Ok(())
    }

    /// What must be told before the end, and was not: the end of a call that was refused in the middle, and why
    /// the answer stops, if that is not what the provider said.
    fn missing(&self, stop: StopReason) -> Vec<StreamEvent> {
        let open = self.blocks.iter().filter_map(|(index, slot)| match &slot.content {
            Content::Tool { id, stopped: false, .. } => {
                Some(StreamEvent::ToolUseStop { index: *index, id: Arc::clone(id) })
            }
            _ => None,
        });
        let mut owed: Vec<StreamEvent> = open.collect();
        if self.stop != Some(stop) {
            owed.push(StreamEvent::MessageDelta { usage: Usage::default(), stop: Some(stop) });
        }
        owed
    }

    /// Takes the next event. Gives a tool call without an id one of ours (`call_0`, `call_1`, …), and every event of
    /// a call its id.
    fn apply(&mut self, event: &mut StreamEvent) -> Result<(), ModelError> {
        match event {
            StreamEvent::MessageStart { id, model } => {
                self.begun = true;
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
            StreamEvent::InputJsonDelta { index, id, json } => {
                self.grow(json.len())?;
                match self.blocks.get_mut(index).map(|slot| &mut slot.content) {
                    Some(Content::Tool { id: known, json: all, stopped: false, .. }) => {
                        *id = Arc::clone(known);
                        all.push_str(json);
                    }
                    _ => return Err(wrong_block(*index)),
                }
            }
            StreamEvent::ToolUseStop { index, id } => {
                match self.blocks.get_mut(index).map(|slot| &mut slot.content) {
                    Some(Content::Tool { id: known, stopped, .. }) if !*stopped => {
                        *id = Arc::clone(known);
                        *stopped = true;
                    }
                    _ => return Err(wrong_block(*index)),
                }
            }
            StreamEvent::Native { index, raw } => {
                self.grow(size(raw))?;
                self.slot(*index, || Content::Opaque).native = Some(raw.clone());
            }
            StreamEvent::MessageDelta { usage, stop } => {
                self.usage.update(usage);
                self.stop = stop.or(self.stop);
            }
            StreamEvent::MessageStop => self.whole = Some(self.conclude()?),
            // The rest is told by others than a provider.
            StreamEvent::Ping
            | StreamEvent::ToolResult { .. }
            | StreamEvent::Error { .. }
            | StreamEvent::Interrupted { .. }
            | StreamEvent::Gap { .. } => {}
        }
        Ok(())
    }

    /// What the answer has cost so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The answer, if its end mark has come.
    pub fn finish(self) -> Answer {
        if let Some(reply) = self.whole {
            return Ok(reply);
        }
        let error =
            ModelError::new(ErrorKind::StreamTruncated, "the events ended without the end mark");
        Err(self.charge(error))
    }

    /// The error, with what the answer had cost by then.
    fn charge(&self, mut error: ModelError) -> ModelError {
        let told = error.usage;
        error.usage = self.usage;
        error.usage.update(&told);
        error
    }

    fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.size = self.size.saturating_add(bytes as u64);
        if self.size > self.limit { Err(too_large(self.limit)) } else { Ok(()) }
    }

    fn slot(&mut self, index: usize, content: impl FnOnce() -> Content) -> &mut Slot {
        self.blocks.entry(index).or_insert_with(|| Slot { content: content(), native: None })
    }

    fn start_tool(
        &mut self,
        index: usize,
        id: &mut Arc<str>,
        name: &str,
    ) -> Result<(), ModelError> {
        while id.is_empty() {
            let made = format!("call_{}", self.next_id);
            self.next_id += 1;
            if !self.tool_ids.contains(made.as_str()) {
                *id = made.into();
            }
        }
        self.grow(id.len() + name.len())?;
        if !self.tool_ids.insert(Arc::clone(id)) {
            self.duplicate_id.get_or_insert_with(|| Arc::clone(id));
        }
        let content = Content::Tool {
            id: Arc::clone(id),
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

    fn conclude(&mut self) -> Answer {
        match self.judge() {
            Ok(stop) => {
                self.owed = self.missing(stop);
                self.reply(stop)
            }
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
        if tools > MOST_TOOLS {
            let message = format!(
                "the answer has {tools} tool calls, and no more than {MOST_TOOLS} are taken: none of them was made"
            );
            return Err(ModelError::new(ErrorKind::ToolArgsInvalid, message));
        }
        if tools == 0 && !says_something && stop != StopReason::StopSequence {
            let message = "the answer has nothing in it";
            return Err(ModelError::new(ErrorKind::EmptyCompletion, message));
        }
        // Some servers say `stop` though they ask for tools.
        Ok(if tools > 0 && stop == StopReason::EndTurn { StopReason::ToolUse } else { stop })
    }

    fn reply(&mut self, stop: StopReason) -> Answer {
        let usage = self.usage;
        let model = std::mem::take(&mut self.model);
        let native_model = self.asked.take().unwrap_or_else(|| model.clone());
        let mut content = Vec::with_capacity(self.blocks.len());
        for slot in std::mem::take(&mut self.blocks).into_values() {
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
                    Part::ToolUse { id: id.as_ref().to_owned(), name, input }
                }
            };
            let native = slot.native.map(|raw| Native {
                dialect: self.dialect.clone(),
                model: native_model.clone(),
                raw,
            });
            content.push(Block { part, native });
        }
        let model = if model.is_empty() { native_model } else { model };
        let message = Message { role: Role::Assistant, blocks: content };
        Ok(Reply { id: std::mem::take(&mut self.id), model, message, stop, usage })
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
