//! Reads a copy of an answer for what it counts for. Nothing depends on it but the count: what it does not understand
//! passes all the same.

use machine::message::Usage;
use machine::stream::StreamEvent;
use serde_json::{Value, json};

use super::Speaks;
use crate::model::Dialect;
use crate::model::anthropic_messages::AnthropicMessages;
use crate::model::assemble::{Limits, Stream};
use crate::model::google_generate::GoogleGenerate;
use crate::model::openai_chat::OpenAiChat;
use crate::model::openai_responses::OpenAiResponses;

/// The longest answer that is kept to be read at its end.
const MAX_WHOLE: usize = 32 << 20;

/// What Anthropic charges for one search of the web, in billionths of a US dollar: ten dollars for a thousand, whichever the
/// model. The searches of the others are not counted: the agents that have some are started without.
const SEARCH: u64 = 10_000_000;

/// A reader of one answer.
#[derive(Debug)]
pub struct Tap {
    speaks: Speaks,
    stream: Stream,
    /// An answer that is no stream, until its end.
    whole: Option<Vec<u8>>,
    events: Vec<StreamEvent>,
    said: u64,
    complete: bool,
    /// The rest is not understood.
    lost: bool,
}

impl Tap {
    /// For an answer with this type of content.
    pub fn new(speaks: Speaks, content_type: &str) -> Tap {
        let is_stream = content_type.to_ascii_lowercase().contains("text/event-stream");
        Tap {
            speaks,
            stream: stream(speaks),
            whole: (!is_stream).then(Vec::new),
            events: Vec::new(),
            said: 0,
            complete: false,
            lost: false,
        }
    }

    /// Takes the next bytes of the answer.
    pub fn push(&mut self, bytes: &[u8]) {
        if let Some(whole) = &mut self.whole {
            if whole.len() + bytes.len() <= MAX_WHOLE {
                whole.extend_from_slice(bytes);
            } else {
                self.lost = true;
            }
            return;
        }
        if self.lost {
            self.said = self.said.saturating_add(bytes.len() as u64);
            return;
        }
        self.lost = self.stream.push(bytes, &mut self.events).is_err();
        for event in self.events.drain(..) {
            let text = match &event {
                StreamEvent::TextDelta { text, .. } | StreamEvent::ThinkingDelta { text, .. } => {
                    text.len()
                }
                StreamEvent::InputJsonDelta { json, .. } => json.len(),
                StreamEvent::MessageStop => {
                    self.complete = true;
                    0
                }
                _ => 0,
            };
            self.said = self.said.saturating_add(text as u64);
        }
    }

    /// The answer has ended as its length says: one that is no stream can be read now.
    pub fn end(&mut self) {
        let Some(whole) = self.whole.take() else {
            // Google's streams have no mark of their end.
            self.complete |= self.speaks == Speaks::GoogleGenerate && !self.lost;
            return;
        };
        self.said = whole.len() as u64;
        let Ok(answer) = serde_json::from_slice::<Value>(&whole) else { return };
        self.complete = true;
        for frame in frames(self.speaks, answer) {
            let _ = self.stream.push(frame.as_bytes(), &mut self.events);
        }
        self.events.clear();
    }

    /// Whether the answer has come to its own end.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// What its provider has counted so far.
    pub fn usage(&self) -> Usage {
        self.stream.usage()
    }

    /// What its provider charges for beside the tokens so far, in billionths of a US dollar.
    pub fn fees(&self) -> u64 {
        self.stream.searches().saturating_mul(SEARCH)
    }

    /// How many bytes of text came, roughly.
    pub fn said(&self) -> u64 {
        self.said
    }
}

fn stream(speaks: Speaks) -> Stream {
    let dialect: &dyn Dialect = match speaks {
        Speaks::AnthropicMessages => &AnthropicMessages,
        Speaks::OpenAiResponses => &OpenAiResponses,
        Speaks::OpenAiChat => &OpenAiChat::openai(),
        Speaks::GoogleGenerate => &GoogleGenerate,
    };
    Stream::new(dialect, Limits::default())
}

/// The events that a stream would have said the counts of a whole answer with.
fn frames(speaks: Speaks, answer: Value) -> Vec<String> {
    let frame = |event: &str, data: Value| {
        let event = if event.is_empty() { String::new() } else { format!("event: {event}\n") };
        format!("{event}data: {data}\n\n")
    };
    match speaks {
        Speaks::AnthropicMessages => {
            let usage = &answer["usage"];
            let start = json!({ "type": "message_start", "message": {
                "id": "m", "type": "message", "role": "assistant", "content": [],
                "model": answer["model"], "usage": usage,
            } });
            let delta = json!({
                "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage,
            });
            vec![frame("message_start", start), frame("message_delta", delta)]
        }
        Speaks::OpenAiResponses => {
            let done = json!({ "type": "response.completed", "response": answer });
            vec![frame("response.completed", done)]
        }
        Speaks::OpenAiChat => {
            let chunk = json!({
                "id": "c", "object": "chat.completion.chunk", "model": answer["model"],
                "choices": [], "usage": answer["usage"],
            });
            vec![frame("", chunk)]
        }
        Speaks::GoogleGenerate => vec![frame("", answer)],
    }
}
