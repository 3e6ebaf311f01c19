//! The chunks of an answer.

use std::borrow::Cow;
use std::sync::Arc;

use machine::message::{StopReason, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::failure;
use crate::model::error::told;
use crate::model::{Decode, ErrorKind, ModelError, StreamEvent};

/// What kind of block is being continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

/// Reads the chunks of one answer.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    is_started: bool,
    /// Why the answer stops, once that was said. More of it may come all the same.
    stop: Option<StopReason>,
    /// Whether the answer asks for a tool: the reason to stop is the same word as without.
    has_calls: bool,
    open: Option<(Kind, usize)>,
    next: usize,
    /// Each as it was last told: every chunk tells of the whole answer so far, and may leave some out.
    counters: Counters,
    usage: Usage,
}

/// The counters of a chunk.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Counters {
    #[serde(rename = "promptTokenCount")]
    prompt: Option<u64>,
    #[serde(rename = "cachedContentTokenCount")]
    cached: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount")]
    tools: Option<u64>,
    #[serde(rename = "candidatesTokenCount")]
    said: Option<u64>,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: Option<u64>,
}

/// The chunk that most chunks are: one piece of text and nothing else. Read without a tree of values; whatever
/// does not fit is read the long way.
#[derive(Deserialize)]
struct Plain<'d> {
    #[serde(borrow)]
    candidates: [PlainCandidate<'d>; 1],
    #[serde(borrow, rename = "responseId")]
    response_id: Option<Cow<'d, str>>,
    #[serde(borrow, rename = "modelVersion")]
    model_version: Option<Cow<'d, str>>,
    #[serde(rename = "usageMetadata")]
    usage: Option<Counters>,
    #[serde(rename = "promptFeedback")]
    feedback: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainCandidate<'d> {
    #[serde(borrow)]
    content: PlainContent<'d>,
    #[serde(rename = "finishReason")]
    finish: Option<IgnoredAny>,
    index: Option<u64>,
}

#[derive(Deserialize)]
struct PlainContent<'d> {
    #[serde(borrow)]
    parts: [PlainPart<'d>; 1],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainPart<'d> {
    #[serde(borrow)]
    text: Cow<'d, str>,
    #[serde(default)]
    thought: bool,
}

impl Plain<'_> {
    fn is_plain(&self) -> bool {
        let [candidate] = &self.candidates;
        candidate.finish.is_none()
            && candidate.index.unwrap_or(0) == 0
            && self.feedback.is_none()
            && self.error.is_none()
    }
}

impl Decode for Decoder {
    fn frame(&mut self, _: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let data = data.trim();
        // Gateways that also speak other dialects close every stream with their mark.
        if data.is_empty() || data == "[DONE]" {
            let is_end = !data.is_empty() && self.is_complete();
            out.push(if is_end { StreamEvent::MessageStop } else { StreamEvent::Ping });
            return Ok(());
        }
        if let Ok(chunk) = serde_json::from_str::<Plain<'_>>(data)
            && chunk.is_plain()
        {
            self.plain(chunk, out);
            return Ok(());
        }
        let chunk: Value = serde_json::from_str(data).map_err(|error| {
            self.fail(ErrorKind::MalformedStream, format!("a frame is no JSON: {error}"))
        })?;
        match chunk {
            // Without `alt=sse` the chunks come as one list.
            Value::Array(chunks) => chunks.iter().try_for_each(|chunk| self.chunk(chunk, out)),
            chunk => self.chunk(&chunk, out),
        }
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some()
    }
}

impl Decoder {
    fn chunk(&mut self, chunk: &Value, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let Some(chunk) = chunk.as_object() else {
            return Err(self.fail(ErrorKind::MalformedStream, "a frame is no object"));
        };
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(ModelError { usage: self.usage, ..failure::in_stream(error) });
        }
        let text = |key: &str| chunk.get(key).and_then(Value::as_str).unwrap_or_default();
        self.start(text("responseId"), text("modelVersion"), out);
        let metadata = chunk.get("usageMetadata");
        let counter = |key: &str| metadata.and_then(|metadata| metadata.get(key)?.as_u64());
        let has_usage = self.count(&Counters {
            prompt: counter("promptTokenCount"),
            cached: counter("cachedContentTokenCount"),
            tools: counter("toolUsePromptTokenCount"),
            said: counter("candidatesTokenCount"),
            thoughts: counter("thoughtsTokenCount"),
        });
        let mut stop = None;
        if let Some(candidate) = first_candidate(chunk) {
            let parts = candidate.get("content").and_then(|content| content.get("parts"));
            for part in parts.and_then(Value::as_array).into_iter().flatten() {
                self.part(part, out)?;
            }
            stop = self.stop(candidate)?;
        }
        if stop.is_none() && is_blocked(chunk) {
            stop = Some(StopReason::Refusal);
        }
        // What was cut or refused stays so.
        if matches!(self.stop, Some(StopReason::MaxTokens | StopReason::Refusal)) {
            stop = None;
        }
        self.stop = stop.or(self.stop);
        if has_usage || stop.is_some() {
            out.push(StreamEvent::MessageDelta { usage: self.usage, stop });
        }
        Ok(())
    }

    fn part(&mut self, part: &Value, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let Some(fields) = part.as_object() else { return Ok(()) };
        if let Some(call) = fields.get("functionCall").and_then(Value::as_object) {
            return self.call(fields, call, out);
        }
        let is_text = fields
            .keys()
            .all(|key| matches!(key.as_str(), "text" | "thought" | "thoughtSignature"));
        let Some(text) = fields.get("text").and_then(Value::as_str).filter(|_| is_text) else {
            let index = self.open_block(None);
            out.push(StreamEvent::Native { index, raw: part.clone() });
            return Ok(());
        };
        let is_thought = fields.get("thought").and_then(Value::as_bool) == Some(true);
        let is_signed = fields.contains_key("thoughtSignature");
        if text.is_empty() && !is_signed {
            return Ok(());
        }
        // A signature without text is thought that is not shown, and no answer.
        let kind = if is_thought || text.is_empty() { Kind::Thinking } else { Kind::Text };
        // A signature covers its own part only.
        if is_signed {
            self.open = None;
        }
        let index = self.say(kind, text, out);
        if is_signed {
            self.open = None;
            out.push(StreamEvent::Native { index, raw: part.clone() });
        }
        Ok(())
    }

    fn call(
        &mut self,
        part: &Map<String, Value>,
        call: &Map<String, Value>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        // Arguments in pieces come only to those who ask for them; taken for a whole call they would be empty.
        let continues = call.get("willContinue").and_then(Value::as_bool) == Some(true);
        if continues || call.contains_key("partialArgs") {
            return Err(self.fail(ErrorKind::Protocol, "a function call came in pieces"));
        }
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            return Err(self.fail(ErrorKind::MalformedToolCall, "a function call has no name"));
        }
        let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
        // Google leaves the arguments out if there are none.
        let json = match call.get("args") {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(args) => args.to_string(),
        };
        self.has_calls = true;
        let index = self.open_block(None);
        out.push(StreamEvent::ToolUseStart { index, id: id.into(), name: name.to_owned() });
        out.push(StreamEvent::InputJsonDelta { index, id: Arc::default(), json });
        out.push(StreamEvent::ToolUseStop { index, id: Arc::default() });
        let is_plain = !id.is_empty()
            && part.len() == 1
            && call.keys().all(|key| matches!(key.as_str(), "id" | "name" | "args"));
        if !is_plain {
            out.push(StreamEvent::Native { index, raw: Value::Object(part.clone()) });
        }
        Ok(())
    }

    fn open_block(&mut self, kind: Option<Kind>) -> usize {
        let index = self.next;
        self.next += 1;
        self.open = kind.map(|kind| (kind, index));
        index
    }

    fn stop(&self, candidate: &Value) -> Result<Option<StopReason>, ModelError> {
        let reason = match candidate.get("finishReason") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(reason)) => reason.as_str(),
            Some(other) => {
                let message = format!("finishReason is {other}");
                return Err(self.fail(ErrorKind::UnknownStop, message));
            }
        };
        let said = candidate.get("finishMessage").and_then(Value::as_str).unwrap_or_default();
        let words = || match said {
            "" => format!("finishReason {reason}"),
            said => format!("finishReason {reason}: {}", told(said)),
        };
        Ok(Some(match reason {
            "" | "FINISH_REASON_UNSPECIFIED" => return Ok(None),
            "STOP" if self.has_calls => StopReason::ToolUse,
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "MODEL_ARMOR" => StopReason::Refusal,
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
                return Err(self.fail(ErrorKind::MalformedToolCall, words()));
            }
            // The answer came to nothing, and the same question is answered well the next time.
            "MALFORMED_RESPONSE" => return Err(self.fail(ErrorKind::Protocol, words())),
            "OTHER" | "IMAGE_OTHER" | "NO_IMAGE" => {
                return Err(self.fail(ErrorKind::Server, words()));
            }
            "MISSING_THOUGHT_SIGNATURE" => return Err(self.fail(ErrorKind::History, words())),
            _ => return Err(self.fail(ErrorKind::UnknownStop, words())),
        }))
    }

    fn start(&mut self, id: &str, model: &str, out: &mut Vec<StreamEvent>) {
        if !self.is_started {
            self.is_started = true;
            out.push(StreamEvent::MessageStart { id: id.to_owned(), model: model.to_owned() });
        }
    }

    /// More of the open block, or of a new one; gives its index.
    fn say(&mut self, kind: Kind, text: &str, out: &mut Vec<StreamEvent>) -> usize {
        let index = match self.open {
            Some((open, index)) if open == kind => index,
            _ => self.open_block(Some(kind)),
        };
        let text = text.to_owned();
        out.push(match kind {
            Kind::Text => StreamEvent::TextDelta { index, text },
            Kind::Thinking => StreamEvent::ThinkingDelta { index, text },
        });
        index
    }

    fn plain(&mut self, chunk: Plain<'_>, out: &mut Vec<StreamEvent>) {
        let text = |text: Option<Cow<'_, str>>| text.unwrap_or_default().into_owned();
        if !self.is_started {
            self.start(&text(chunk.response_id), &text(chunk.model_version), out);
        }
        let has_usage = self.count(&chunk.usage.unwrap_or_default());
        let [candidate] = chunk.candidates;
        let [part] = candidate.content.parts;
        if !part.text.is_empty() {
            let kind = if part.thought { Kind::Thinking } else { Kind::Text };
            self.say(kind, &part.text, out);
        }
        if has_usage {
            out.push(StreamEvent::MessageDelta { usage: self.usage, stop: None });
        }
    }

    /// Takes the counters that are there; false if they tell nothing new.
    fn count(&mut self, counters: &Counters) -> bool {
        let last = self.counters;
        self.counters = Counters {
            prompt: counters.prompt.or(last.prompt),
            cached: counters.cached.or(last.cached),
            tools: counters.tools.or(last.tools),
            said: counters.said.or(last.said),
            thoughts: counters.thoughts.or(last.thoughts),
        };
        let Counters { prompt, cached, tools, said, thoughts } = self.counters;
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            _ => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
        };
        let before = self.usage;
        self.usage = Usage {
            // What a server-side tool put into the context is input, and not part of the prompt's count.
            input: sum(prompt, tools).map(|all| all.saturating_sub(cached.unwrap_or(0))),
            output: sum(said, thoughts),
            thinking: thoughts,
            cache_read: cached,
            ..Usage::default()
        };
        self.usage != before
    }

    fn fail(&self, kind: ErrorKind, message: impl Into<String>) -> ModelError {
        ModelError { usage: self.usage, ..ModelError::new(kind, message) }
    }
}

/// The first candidate, which is the only one that is asked for; others may come in chunks of their own.
fn first_candidate(chunk: &Map<String, Value>) -> Option<&Value> {
    let candidates = chunk.get("candidates")?.as_array()?;
    candidates.iter().find(|candidate| match candidate.get("index") {
        None | Some(Value::Null) => true,
        Some(index) => index == 0,
    })
}

/// Whether the prompt itself was refused.
fn is_blocked(chunk: &Map<String, Value>) -> bool {
    let reason = chunk.get("promptFeedback").and_then(|feedback| feedback.get("blockReason"));
    reason
        .and_then(Value::as_str)
        .is_some_and(|reason| !matches!(reason, "" | "BLOCK_REASON_UNSPECIFIED"))
}
