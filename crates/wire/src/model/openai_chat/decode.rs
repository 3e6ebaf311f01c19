//! The chunks of a chat completion as events.

use std::sync::Arc;

use machine::message::{StopReason, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::details::Details;
use super::failure;
use super::frame::{self, Counters, Field};
use crate::model::quick::Template;
use crate::model::{Decode, ErrorKind, ModelError, StreamEvent};

const COUNTERS: Counters = Counters {
    input: "prompt_tokens",
    input_details: "prompt_tokens_details",
    output: "completion_tokens",
    output_details: "completion_tokens_details",
};

/// The decoder. Blocks are numbered as they first appear; a tool call is closed by the `finish_reason`, as
/// nothing else in this dialect says that its arguments are whole.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    is_started: bool,
    /// The number of the next block.
    blocks: usize,
    /// The text or thinking that goes on.
    prose: Option<Prose>,
    calls: Vec<Call>,
    /// Whether the last piece of a call had its name.
    is_named: bool,
    /// Reasoning that a gateway passes on piece by piece, to be given back as it is.
    details: Details,
    is_refused: bool,
    is_finished: bool,
    is_done: bool,
    /// What the last frame brought, if another like it can be read at a glance.
    like: Option<Like>,
    template: Template,
}

/// One piece for this block, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Like {
    Text(usize),
    Arguments(usize),
}

#[derive(Debug)]
struct Prose {
    block: usize,
    /// None for text.
    thinking: Option<Thinking>,
}

/// Thinking is kept to be given back in the form it came in.
#[derive(Debug)]
struct Thinking {
    form: Form,
    text: String,
    signature: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A field of the delta, of this name.
    Field(&'static str),
    /// A part of the content.
    Part,
}

#[derive(Debug)]
struct Call {
    block: usize,
    /// The server's number of the call, if it counts them.
    index: Option<u64>,
    id: String,
    name: String,
    /// Arguments that came before the name.
    held: String,
    has_arguments: bool,
    extent: Extent,
    extra: Option<Value>,
    is_started: bool,
    is_closed: bool,
}

/// How far arguments go, as they come: whether one whole object is there. Whether it is JSON is seen elsewhere.
#[derive(Debug, Default)]
struct Extent {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    is_whole: bool,
}

impl Extent {
    fn go_on(&mut self, arguments: &str) {
        for byte in arguments.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_whole |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    id: Field<'a>,
    #[serde(borrow, default)]
    model: Field<'a>,
    #[serde(borrow, default)]
    object: Field<'a>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Value>,
    error: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    /// Instead of `delta`, from servers that send an answer in one piece.
    #[serde(borrow)]
    message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Field<'a>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Field<'a>,
    #[serde(borrow, default)]
    refusal: Field<'a>,
    #[serde(borrow, default)]
    reasoning_content: Field<'a>,
    #[serde(borrow, default)]
    reasoning: Field<'a>,
    #[serde(borrow, default)]
    reasoning_details: Field<'a>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolDelta<'a>>>,
}

#[derive(Deserialize)]
struct ToolDelta<'a> {
    index: Option<u64>,
    #[serde(borrow, default)]
    id: Field<'a>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
    /// Google's signatures travel here and must come back.
    extra_content: Option<Value>,
}

#[derive(Deserialize, Default)]
struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Field<'a>,
    #[serde(borrow, default)]
    arguments: Field<'a>,
}

impl Decode for Decoder {
    fn frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        if self.is_done {
            return Ok(());
        }
        if self.repeat(event, data, out) {
            return Ok(());
        }
        self.like = None;
        if data.trim() == "[DONE]" {
            return self.done(out);
        }
        let (before, details) = (out.len(), self.details.heard());
        let chunk: Chunk<'_> = frame::read(data)?;
        let is_error = chunk.error.is_some()
            || chunk.object.as_str() == "error"
            || event == "error"
            || (chunk.choices.is_none() && chunk.message.is_some());
        if is_error {
            return Err(failure::in_stream(&frame::read(data)?));
        }
        self.chunk(chunk, out)?;
        if let [said] = &out[before..]
            && self.details.heard() == details
        {
            self.learn(event, data, said);
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_finished
    }
}

impl Decoder {
    /// Takes a frame that is like the last one that was read, but for its text. Nothing else came in between, so it
    /// goes where that one went.
    pub(super) fn repeat(&mut self, event: &str, data: &str, out: &mut Vec<StreamEvent>) -> bool {
        let Some(like) = self.like.filter(|_| event.is_empty()) else { return false };
        let Some(text) = self.template.fill(data).filter(|text| !text.is_empty()) else {
            return false;
        };
        let text = text.into_owned();
        out.push(match like {
            Like::Text(index) => StreamEvent::TextDelta { index, text },
            Like::Arguments(index) => {
                if let Some(call) = self.calls.iter_mut().rfind(|call| call.block == index) {
                    call.extent.go_on(&text);
                }
                StreamEvent::InputJsonDelta { index, id: Arc::default(), json: text }
            }
        });
        true
    }

    /// Remembers a frame that brought one piece of text or arguments and nothing else.
    fn learn(&mut self, event: &str, data: &str, said: &StreamEvent) {
        let (like, key, text) = match said {
            StreamEvent::TextDelta { index, text } => (Like::Text(*index), "\"content\":", text),
            // A piece that names its call may begin another.
            StreamEvent::InputJsonDelta { index, json, .. } if !self.is_named => {
                (Like::Arguments(*index), "\"arguments\":", json)
            }
            _ => return,
        };
        if event.is_empty() && !self.is_finished && self.template.learn(data, key, text) {
            self.like = Some(like);
        }
    }

    fn done(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        self.is_done = true;
        if self.is_finished {
            out.push(StreamEvent::MessageStop);
            return Ok(());
        }
        Err(if self.blocks == 0 {
            ModelError::new(ErrorKind::EmptyCompletion, "the answer has nothing in it")
        } else {
            ModelError::new(ErrorKind::StreamTruncated, "the answer ended without a finish reason")
        })
    }

    fn chunk(&mut self, chunk: Chunk<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let Chunk { id, model, choices, usage, .. } = chunk;
        let before = out.len();
        let mut choices = choices.unwrap_or_default();
        // Gateways begin with a chunk that names nothing.
        let says_something = !choices.is_empty() || !id.as_str().is_empty();
        if !self.is_started && says_something {
            self.is_started = true;
            let (id, model) = (id.as_str().to_owned(), model.as_str().to_owned());
            out.push(StreamEvent::MessageStart { id, model });
        }
        // One answer is asked for; others would be mixed into it.
        choices.retain(|choice| choice.index.unwrap_or(0) == 0);
        let mut stop = None;
        let mut usage = usage;
        for choice in choices {
            if let Some(delta) = choice.delta.or(choice.message) {
                self.delta(delta, out)?;
            }
            usage = usage.or(choice.usage);
            match choice.finish_reason {
                Field::Text(reason) if !reason.is_empty() => stop = Some(reason.into_owned()),
                Field::Absent | Field::Text(_) => {}
                Field::Other(reason) => stop = Some(reason.to_string()),
            }
        }
        let usage = usage.filter(|usage| !usage.is_null()).map(|usage| COUNTERS.read(&usage));
        let Some(reason) = stop else {
            if let Some(usage) = usage.filter(|usage| *usage != Usage::default()) {
                out.push(StreamEvent::MessageDelta { usage, stop: None });
            }
            if out.len() == before {
                out.push(StreamEvent::Ping);
            }
            return Ok(());
        };
        self.close(out);
        let usage = usage.unwrap_or_default();
        let stop = self.stop(&reason);
        out.push(StreamEvent::MessageDelta { usage, stop: stop.as_ref().ok().copied() });
        self.is_finished = true;
        stop.map(drop)
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        // Gateways repeat the same reasoning under both names.
        if let Some(text) = delta.reasoning_content.into_text() {
            self.think(Form::Field("reasoning_content"), text, None, out);
        } else if let Some(text) = delta.reasoning.into_text() {
            self.think(Form::Field("reasoning"), text, None, out);
        }
        if let Field::Other(Value::Array(pieces)) = delta.reasoning_details {
            self.details.hear(pieces);
        }
        match delta.content {
            Field::Absent => {}
            Field::Text(text) if text.is_empty() => {}
            Field::Text(text) => self.say(text.into_owned(), out),
            Field::Other(Value::Array(parts)) => {
                for part in parts {
                    self.part(part, out);
                }
            }
            Field::Other(_) => {
                let message = "the content of a chunk is neither text nor parts";
                return Err(ModelError::new(ErrorKind::Protocol, message));
            }
        }
        if let Some(text) = delta.refusal.into_text() {
            self.is_refused = true;
            self.say(text, out);
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.tool(call, out)?;
        }
        Ok(())
    }

    fn part(&mut self, mut part: Value, out: &mut Vec<StreamEvent>) {
        match part["type"].as_str() {
            Some("text") => {
                if let Value::String(text) = part["text"].take()
                    && !text.is_empty()
                {
                    self.say(text, out);
                }
            }
            Some("thinking") => {
                let text = match &part["thinking"] {
                    Value::String(text) => text.clone(),
                    Value::Array(inner) => {
                        inner.iter().filter_map(|part| part["text"].as_str()).collect()
                    }
                    _ => String::new(),
                };
                let signature = part.get("signature").filter(|mark| mark.is_string()).cloned();
                if !text.is_empty() || signature.is_some() {
                    self.think(Form::Part, text, signature, out);
                }
            }
            _ => {
                self.close_prose(out);
                let index = self.new_block();
                out.push(StreamEvent::Native { index, raw: part });
            }
        }
    }

    fn say(&mut self, text: String, out: &mut Vec<StreamEvent>) {
        let index = match &self.prose {
            Some(Prose { block, thinking: None }) => *block,
            _ => {
                self.close_prose(out);
                let block = self.new_block();
                self.prose = Some(Prose { block, thinking: None });
                block
            }
        };
        self.is_finished = false;
        out.push(StreamEvent::TextDelta { index, text });
    }

    fn think(
        &mut self,
        form: Form,
        text: String,
        signature: Option<Value>,
        out: &mut Vec<StreamEvent>,
    ) {
        self.is_finished = false;
        if let Some(Prose { block, thinking: Some(thinking) }) = &mut self.prose
            && thinking.form == form
            && thinking.signature.is_none()
        {
            thinking.text.push_str(&text);
            thinking.signature = signature;
            out.push(StreamEvent::ThinkingDelta { index: *block, text });
            return;
        }
        self.close_prose(out);
        let block = self.new_block();
        let thinking = Some(Thinking { form, text: text.clone(), signature });
        self.prose = Some(Prose { block, thinking });
        out.push(StreamEvent::ThinkingDelta { index: block, text });
    }

    /// Takes a piece of a tool call. Servers differ in what tells their calls apart: a number, an id, or that
    /// each call comes whole.
    fn tool(&mut self, delta: ToolDelta<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let FunctionDelta { name, arguments } = delta.function.unwrap_or_default();
        let (id, name) = (delta.id.as_str(), name.as_str());
        let brings = match &arguments {
            Field::Absent => false,
            Field::Text(text) => !text.trim().is_empty(),
            Field::Other(_) => true,
        };
        self.is_named = !name.is_empty();
        let known = |call: &Call| !id.is_empty() && call.id == id;
        // Some servers make up another id for each piece, but name a call only once.
        let is_new = !self.calls.iter().any(known);
        let goes_on = |call: &Call| {
            let may_go_on = !(call.extent.is_whole && brings);
            is_new && name.is_empty() && !call.name.is_empty() && may_go_on
        };
        let other = |call: &Call| {
            (!id.is_empty() && !call.id.is_empty() && call.id != id && !goes_on(call))
                // Where ids do not tell, another name under the same number is another call, and so is the same name
                // with arguments after those of the call are whole.
                || (!known(call)
                    && !name.is_empty()
                    && !call.name.is_empty()
                    && (call.name != name || (call.extent.is_whole && brings)))
        };
        let found = match delta.index {
            Some(index) => {
                let last = self.calls.iter().rposition(|call| call.index == Some(index));
                match last {
                    // Some servers number every call 0.
                    Some(at) if other(&self.calls[at]) => self.calls.iter().rposition(known),
                    last => last,
                }
            }
            None if !id.is_empty() => {
                let last = self.calls.len().checked_sub(1).filter(|at| goes_on(&self.calls[*at]));
                self.calls.iter().rposition(known).or(last)
            }
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        };
        let at = match found {
            Some(at) => at,
            None => {
                let block = self.new_block();
                self.calls.push(Call::new(block, delta.index));
                self.calls.len() - 1
            }
        };
        let arguments = match arguments {
            Field::Absent => String::new(),
            Field::Text(text) => text.into_owned(),
            Field::Other(Value::Object(whole)) => Value::Object(whole).to_string(),
            Field::Other(_) => {
                let message = "the arguments of a tool call are neither text nor an object";
                return Err(ModelError::new(ErrorKind::Protocol, message));
            }
        };
        let call = &mut self.calls[at];
        if call.is_closed {
            if arguments.is_empty() {
                return Ok(());
            }
            let message = "a tool call goes on after the finish reason";
            return Err(ModelError::new(ErrorKind::Protocol, message));
        }
        self.is_finished = false;
        call.extra = delta.extra_content.filter(|extra| !extra.is_null()).or(call.extra.take());
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call.go_on(arguments, out);
        Ok(())
    }

    /// Ends every block: what comes after this belongs to new ones.
    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        self.close_prose(out);
        if let Some(raw) = self.details.take() {
            let index = self.new_block();
            // It is thinking, whether it can be read or not.
            out.push(StreamEvent::ThinkingDelta { index, text: String::new() });
            out.push(StreamEvent::Native { index, raw });
        }
        for call in self.calls.iter_mut().filter(|call| !call.is_closed) {
            call.is_closed = true;
            // A call without a name is started too: whoever assembles the answer refuses it.
            call.start(out);
            if !call.has_arguments {
                // How a call without parameters comes from Claude through gateways. A tool that needs some says so.
                let (index, id) = (call.block, Arc::default());
                out.push(StreamEvent::InputJsonDelta { index, id, json: "{}".to_owned() });
            }
            out.push(StreamEvent::ToolUseStop { index: call.block, id: Arc::default() });
            if let Some(extra) = call.extra.take() {
                let raw = json!({ "extra_content": extra });
                out.push(StreamEvent::Native { index: call.block, raw });
            }
        }
    }

    fn close_prose(&mut self, out: &mut Vec<StreamEvent>) {
        let Some(Prose { block, thinking: Some(thinking) }) = self.prose.take() else { return };
        let Thinking { form, text, signature } = thinking;
        let raw = match form {
            Form::Field(name) => json!({ name: text }),
            Form::Part => {
                let mut raw =
                    json!({ "type": "thinking", "thinking": [{ "type": "text", "text": text }] });
                if let Some(signature) = signature {
                    raw["signature"] = signature;
                }
                raw
            }
        };
        out.push(StreamEvent::Native { index: block, raw });
    }

    fn stop(&self, reason: &str) -> Result<StopReason, ModelError> {
        // Together says `eos`; gateways let words of the provider behind them through, in its own letters.
        let word = reason.to_ascii_lowercase();
        Ok(match word.as_str() {
            "stop" | "eos" | "eos_token" | "end_turn" | "stop_sequence" => match self.is_refused {
                true => StopReason::Refusal,
                false => StopReason::EndTurn,
            },
            "tool_calls" | "function_call" | "tool_use" => StopReason::ToolUse,
            "length" | "max_tokens" => StopReason::MaxTokens,
            // Zhipu's word for what its filter took away.
            "refusal" | "safety" | "sensitive" => StopReason::Refusal,
            // Google adds its own reason.
            word if word.starts_with("content_filter") => StopReason::Refusal,
            word if word.contains("malformed_function_call") => {
                let message = "the provider says that the call is malformed";
                return Err(ModelError::new(ErrorKind::MalformedToolCall, message));
            }
            "model_length" | "model_context_window_exceeded" => {
                let message = "the answer ended at the end of the model's context";
                return Err(ModelError::new(ErrorKind::ContextOverflow, message));
            }
            "error" | "abort" | "network_error" => {
                let message = "the provider ended the answer with an error";
                return Err(ModelError::new(ErrorKind::Server, message));
            }
            "insufficient_system_resource" => {
                let message = "the provider ran out of resources";
                return Err(ModelError::new(ErrorKind::Overloaded, message));
            }
            _ => {
                let message =
                    crate::model::error::told(&format!("the finish reason is `{reason}`"));
                return Err(ModelError::new(ErrorKind::UnknownStop, message));
            }
        })
    }

    fn new_block(&mut self) -> usize {
        self.is_finished = false;
        self.blocks += 1;
        self.blocks - 1
    }
}

impl Call {
    fn new(block: usize, index: Option<u64>) -> Call {
        Call {
            block,
            index,
            id: String::new(),
            name: String::new(),
            held: String::new(),
            has_arguments: false,
            extent: Extent::default(),
            extra: None,
            is_started: false,
            is_closed: false,
        }
    }

    /// Takes more arguments; holds them back until the call has a name, and an id if one may still come.
    fn go_on(&mut self, arguments: String, out: &mut Vec<StreamEvent>) {
        self.has_arguments |= !arguments.is_empty();
        self.extent.go_on(&arguments);
        if !self.is_started {
            self.held.push_str(&arguments);
            let id_may_come = self.id.is_empty() && self.held.is_empty();
            if !self.name.is_empty() && !id_may_come {
                self.start(out);
            }
        } else if !arguments.is_empty() {
            let (index, id) = (self.block, Arc::default());
            out.push(StreamEvent::InputJsonDelta { index, id, json: arguments });
        }
    }

    fn start(&mut self, out: &mut Vec<StreamEvent>) {
        if self.is_started {
            return;
        }
        self.is_started = true;
        let (index, id, name) = (self.block, self.id.as_str().into(), self.name.clone());
        out.push(StreamEvent::ToolUseStart { index, id, name });
        if !self.held.is_empty() {
            let json = std::mem::take(&mut self.held);
            out.push(StreamEvent::InputJsonDelta { index, id: Arc::default(), json });
        }
    }
}
