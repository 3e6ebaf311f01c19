//! The events of a response as events of the one vocabulary.

use std::sync::Arc;

use machine::message::StopReason;
use serde::Deserialize;
use serde_json::Value;

use crate::model::openai_chat::failure;
use crate::model::openai_chat::frame::{self, Counters, Field};
use crate::model::{Decode, ErrorKind, ModelError, StreamEvent, error};

const COUNTERS: Counters = Counters {
    input: "input_tokens",
    input_details: "input_tokens_details",
    output: "output_tokens",
    output_details: "output_tokens_details",
};

/// The decoder. Each output item is one block; the item itself, as `response.output_item.done` has it, decides
/// what the block holds, and adds what no delta brought.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    is_started: bool,
    items: Vec<Item>,
    is_refused: bool,
    is_complete: bool,
}

#[derive(Debug)]
struct Item {
    /// The server's number of the item, if it counts them.
    output_index: Option<u64>,
    id: String,
    /// Of a call.
    call_id: String,
    kind: Kind,
    /// Text, thinking or arguments so far.
    so_far: String,
    is_done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Reasoning,
    Call,
    Other,
}

impl Kind {
    fn of(item: &Value) -> Kind {
        match item["type"].as_str() {
            Some("message") => Kind::Message,
            Some("reasoning") => Kind::Reasoning,
            Some("function_call") => Kind::Call,
            _ => Kind::Other,
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Field<'a>,
    output_index: Option<u64>,
    #[serde(borrow, default)]
    item_id: Field<'a>,
    summary_index: Option<u64>,
    #[serde(borrow, default)]
    delta: Field<'a>,
    #[serde(borrow, default)]
    arguments: Field<'a>,
    item: Option<Value>,
    response: Option<Value>,
}

impl Decode for Decoder {
    fn frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        // Some servers end like chat completions.
        if self.is_complete || data.trim() == "[DONE]" {
            return Ok(());
        }
        let mut frame: Event<'_> = frame::read(data)?;
        let kind = std::mem::take(&mut frame.kind);
        let kind = match kind.as_str() {
            "" => event,
            kind => kind,
        };
        match kind {
            "response.output_text.delta" => self.more(Kind::Message, frame, out),
            "response.refusal.delta" => {
                self.is_refused = true;
                self.more(Kind::Message, frame, out)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.more(Kind::Reasoning, frame, out)
            }
            "response.function_call_arguments.delta" => self.more(Kind::Call, frame, out),
            "response.function_call_arguments.done" => {
                let Some(whole) = frame.arguments.into_text() else { return Ok(()) };
                match self.find(frame.output_index, frame.item_id.as_str(), Kind::Call) {
                    Some(at) => self.fill(at, whole, out),
                    None => Ok(()),
                }
            }
            "response.reasoning_summary_part.added" => {
                self.next_summary(&frame, out);
                Ok(())
            }
            "response.output_item.added" => {
                let Some(item) = frame.item else { return Ok(()) };
                self.start(None, out);
                self.add(frame.output_index, &item, out);
                Ok(())
            }
            "response.output_item.done" => {
                let Some(item) = frame.item else { return Ok(()) };
                self.start(None, out);
                self.item(frame.output_index, item, out)
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                self.start(frame.response.as_ref(), out);
                Ok(())
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => self.end(kind, frame.response.unwrap_or_default(), out),
            "error" => Err(failure::in_stream(&frame::read(data)?)),
            // A gateway's error that says nothing of the protocol.
            "" => match frame::read::<Value>(data)? {
                value if !value["error"].is_null() => Err(failure::in_stream(&value)),
                _ => Ok(()),
            },
            _ => {
                out.push(StreamEvent::Ping);
                Ok(())
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Reasoning that is not shown comes once it is whole, and before its first item a model may wait for its turn. What it
    /// says comes as it is said.
    fn is_held_back(&self) -> bool {
        self.is_started && self.items.last().is_none_or(|item| item.kind != Kind::Message)
    }
}

impl Decoder {
    fn start(&mut self, response: Option<&Value>, out: &mut Vec<StreamEvent>) {
        if self.is_started {
            return;
        }
        self.is_started = true;
        let text =
            |name: &str| response.and_then(|r| r[name].as_str()).unwrap_or_default().to_owned();
        out.push(StreamEvent::MessageStart { id: text("id"), model: text("model") });
    }

    /// The item that an event speaks of: by number, else by id, else the last open one of its kind, as some
    /// servers do not number their items and some gateways change ids from event to event.
    fn find(&self, output_index: Option<u64>, id: &str, kind: Kind) -> Option<usize> {
        let last = |fits: &dyn Fn(&Item) -> bool| self.items.iter().rposition(fits);
        let uncounted = |item: &Item| output_index.is_none() || item.output_index.is_none();
        last(&|item| output_index.is_some() && item.output_index == output_index)
            .or_else(|| last(&|item| uncounted(item) && !id.is_empty() && item.id == id))
            .or_else(|| last(&|item| uncounted(item) && item.kind == kind && !item.is_done))
    }

    fn push(&mut self, output_index: Option<u64>, id: &str, kind: Kind) -> usize {
        self.items.push(Item {
            output_index,
            id: id.to_owned(),
            call_id: String::new(),
            kind,
            so_far: String::new(),
            is_done: false,
        });
        self.items.len() - 1
    }

    /// Takes a delta. Text and thinking need no announcement; a call does, for its name.
    fn more(
        &mut self,
        kind: Kind,
        frame: Event<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        self.start(None, out);
        let at = match self.find(frame.output_index, frame.item_id.as_str(), kind) {
            Some(at) => at,
            None if kind == Kind::Call => {
                return Err(protocol("arguments of a call that was not announced"));
            }
            None => self.push(frame.output_index, frame.item_id.as_str(), kind),
        };
        let item = &mut self.items[at];
        if item.kind == Kind::Other {
            return Ok(());
        }
        if item.kind != kind || item.is_done {
            return Err(protocol("a delta does not fit the item that it belongs to"));
        }
        let delta = match frame.delta {
            Field::Absent => return Ok(()),
            Field::Text(delta) => delta.into_owned(),
            Field::Other(_) => return Err(protocol("a delta is no text")),
        };
        self.items[at].so_far.push_str(&delta);
        if !delta.is_empty() {
            out.push(self.event(at, delta));
        }
        Ok(())
    }

    fn event(&self, index: usize, text: String) -> StreamEvent {
        match self.items[index].kind {
            Kind::Message | Kind::Other => StreamEvent::TextDelta { index, text },
            Kind::Reasoning => StreamEvent::ThinkingDelta { index, text },
            Kind::Call => StreamEvent::InputJsonDelta { index, id: Arc::default(), json: text },
        }
    }

    /// Parts of a summary are paragraphs.
    fn next_summary(&mut self, frame: &Event<'_>, out: &mut Vec<StreamEvent>) {
        let found = self.find(frame.output_index, frame.item_id.as_str(), Kind::Reasoning);
        if let Some(at) = found.filter(|at| {
            let item = &self.items[*at];
            item.kind == Kind::Reasoning && !item.is_done && !item.so_far.is_empty()
        }) && frame.summary_index != Some(0)
        {
            self.items[at].so_far.push_str("\n\n");
            out.push(self.event(at, "\n\n".to_owned()));
        }
    }

    fn add(
        &mut self,
        output_index: Option<u64>,
        item: &Value,
        out: &mut Vec<StreamEvent>,
    ) -> usize {
        let kind = Kind::of(item);
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        let index = self.push(output_index, &text("id"), kind);
        if kind == Kind::Call {
            self.items[index].call_id = text("call_id");
            out.push(StreamEvent::ToolUseStart {
                index,
                id: text("call_id").into(),
                name: text("name"),
            });
        }
        index
    }

    /// Takes a finished item: adds what no delta brought, closes the block and keeps the item.
    fn item(
        &mut self,
        output_index: Option<u64>,
        raw: Value,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        let kind = Kind::of(&raw);
        let called = |item: &Item| item.kind == Kind::Call && raw["call_id"] == *item.call_id;
        let found = match self.items.iter().position(|item| called(item) && !item.is_done) {
            None => self.find(output_index, raw["id"].as_str().unwrap_or_default(), kind),
            found => found,
        };
        let index = match found {
            Some(at) if self.items[at].is_done => {
                // Told twice, or one of several that the server gives the same number.
                if raw["id"] == *self.items[at].id {
                    return Ok(());
                }
                self.add(output_index, &raw, out)
            }
            Some(at) if self.items[at].kind != kind => {
                return Err(protocol("an item changes its type"));
            }
            Some(at) if kind == Kind::Call && !called(&self.items[at]) => {
                return Err(protocol("a call changes its id"));
            }
            Some(at) => at,
            None => self.add(output_index, &raw, out),
        };
        match kind {
            Kind::Message => {
                self.is_refused |= parts(&raw["content"]).any(|part| part["type"] == "refusal");
                let whole = parts(&raw["content"])
                    .filter_map(|part| part["text"].as_str().or_else(|| part["refusal"].as_str()))
                    .collect();
                self.fill(index, whole, out)?;
            }
            Kind::Reasoning => {
                if self.items[index].so_far.is_empty() {
                    // Also when there is nothing to show: hidden thinking is thinking.
                    let text = thinking(&raw);
                    out.push(StreamEvent::ThinkingDelta { index, text });
                }
            }
            Kind::Call => {
                let whole = match raw["arguments"].as_str() {
                    // How gateways pass on a call without parameters.
                    Some("") if self.items[index].so_far.is_empty() => "{}",
                    whole => whole.unwrap_or_default(),
                };
                self.fill(index, whole.to_owned(), out)?;
                out.push(StreamEvent::ToolUseStop { index, id: Arc::default() });
            }
            Kind::Other => {}
        }
        self.items[index].is_done = true;
        out.push(StreamEvent::Native { index, raw });
        Ok(())
    }

    /// Adds the rest of a block whose whole text is known. Arguments that differ from their deltas are an
    /// error: one of the two was never meant to run.
    fn fill(
        &mut self,
        at: usize,
        whole: String,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        let item = &mut self.items[at];
        match whole.strip_prefix(item.so_far.as_str()) {
            Some("") => {}
            Some(rest) => {
                let rest = rest.to_owned();
                item.so_far = whole;
                out.push(self.event(at, rest));
            }
            None if item.kind == Kind::Call && !same_json(&item.so_far, &whole) => {
                return Err(protocol("the arguments of a call differ from their deltas"));
            }
            None => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        kind: &str,
        response: Value,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        self.start(Some(&response), out);
        let usage = COUNTERS.read(&response["usage"]);
        let status = response["status"].as_str().unwrap_or_default();
        if kind == "response.failed" || status == "failed" {
            out.push(StreamEvent::MessageDelta { usage, stop: None });
            return Err(failure::in_stream(&response));
        }
        if kind == "response.cancelled" || status == "cancelled" {
            out.push(StreamEvent::MessageDelta { usage, stop: None });
            return Err(ModelError::new(ErrorKind::Cancelled, "the response was cancelled"));
        }
        let is_incomplete = kind == "response.incomplete" || status == "incomplete";
        if self.items.is_empty() {
            for item in parts(&response["output"]) {
                self.item(None, item.clone(), out)?;
            }
        }
        let stop = if is_incomplete { incomplete(&response) } else { Ok(self.completed(out)) };
        out.push(StreamEvent::MessageDelta { usage, stop: stop.as_ref().ok().copied() });
        stop?;
        self.is_complete = true;
        out.push(StreamEvent::MessageStop);
        Ok(())
    }

    fn completed(&mut self, out: &mut Vec<StreamEvent>) -> StopReason {
        let mut has_calls = false;
        for (index, item) in self.items.iter_mut().enumerate() {
            has_calls |= item.kind == Kind::Call;
            if item.kind == Kind::Call && !item.is_done {
                item.is_done = true;
                out.push(StreamEvent::ToolUseStop { index, id: Arc::default() });
            }
        }
        match (self.is_refused, has_calls) {
            (true, _) => StopReason::Refusal,
            (false, true) => StopReason::ToolUse,
            (false, false) => StopReason::EndTurn,
        }
    }
}

fn incomplete(response: &Value) -> Result<StopReason, ModelError> {
    match response["incomplete_details"]["reason"].as_str() {
        Some("max_output_tokens" | "max_tokens") => Ok(StopReason::MaxTokens),
        Some("content_filter") => Ok(StopReason::Refusal),
        reason => {
            let reason = reason.unwrap_or("not given");
            let message = error::told(&format!("the response is incomplete, reason: {reason}"));
            Err(ModelError::new(ErrorKind::UnknownStop, message))
        }
    }
}

fn parts(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// What a reasoning item shows: its summary, else the reasoning itself.
fn thinking(raw: &Value) -> String {
    let texts = |list: &Value| {
        let texts: Vec<&str> = parts(list).filter_map(|part| part["text"].as_str()).collect();
        texts.join("\n\n")
    };
    match texts(&raw["summary"]) {
        summary if summary.is_empty() => texts(&raw["content"]),
        summary => summary,
    }
}

/// Whether two texts are the same JSON: some servers write it anew.
fn same_json(one: &str, other: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text).ok();
    read(one).is_some_and(|one| read(other) == Some(one))
}

fn protocol(message: &str) -> ModelError {
    ModelError::new(ErrorKind::Protocol, message)
}
