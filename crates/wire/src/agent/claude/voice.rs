//! What Claude Code's model says, as the stream that observers know. The program tells each answer twice: piece by
//! piece as its provider sends it, and block by block. What streams is taken; blocks count only for answers that did
//! not stream, such as those of a second try without a stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::message::Usage;
use machine::stream::{Interruption, StreamEvent};
use serde_json::Value;

use crate::model::anthropic_messages::AnthropicMessages;
use crate::model::error::kind_of_status;
use crate::model::{Decode, Dialect, ErrorKind};

/// One speaker: the agent itself, or a helper of it.
#[derive(Default)]
pub(super) struct Voice {
    /// The answer that is under way.
    open: Option<Answer>,
    /// The last answer that streamed: its blocks are known.
    streamed: String,
}

/// An answer that is under way.
struct Answer {
    id: String,
    /// For one that streams.
    decoder: Option<Box<dyn Decode>>,
    /// The calls by their block.
    calls: BTreeMap<usize, Arc<str>>,
    /// How many blocks were told, for one that does not stream.
    blocks: usize,
    usage: Usage,
}

/// Why an answer that is under way ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending<'a> {
    /// Nothing more comes of it, and that is as it should be.
    Whole,
    /// Somebody stopped it.
    Stopped,
    /// It broke off, for this reason; it is asked for again in so many milliseconds, or is not.
    Broken {
        /// The kind in one word.
        kind: &'a str,
        /// When.
        again_in: Option<u64>,
    },
}

/// What came of a piece.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// For observers.
    pub(super) events: Vec<StreamEvent>,
    /// What answers that ended cost.
    pub(super) spent: Vec<Usage>,
}

impl Voice {
    /// A piece of an answer, in its provider's own form.
    pub(super) fn piece(&mut self, event: &str) -> Heard {
        let mut heard = Heard::default();
        let mut events = Vec::new();
        let begins = is_start(event);
        if begins {
            self.end(Ending::Broken { kind: "stream_truncated", again_in: Some(0) }, &mut heard);
            let decoder = Some(AnthropicMessages.decoder());
            self.open = Some(Answer { decoder, ..Answer::new(String::new()) });
        }
        let Some(answer) = &mut self.open else { return heard };
        let Some(decoder) = &mut answer.decoder else { return heard };
        // A frame that this decoder refuses is a matter between the program and its provider.
        let _ = decoder.frame("", event, &mut events);
        let is_complete = decoder.is_complete();
        for event in &mut events {
            answer.notice(event);
        }
        if begins {
            self.streamed.clone_from(&answer.id);
        }
        heard.events.extend(events.into_iter().filter(StreamEvent::is_public));
        if is_complete && let Some(answer) = self.open.take() {
            heard.spent.push(answer.usage);
        }
        heard
    }

    /// A block of an answer, whole.
    pub(super) fn blocks(&mut self, message: &Value) -> Heard {
        let mut heard = Heard::default();
        let id = message["id"].as_str().unwrap_or_default();
        if id == self.streamed && !id.is_empty() {
            return heard;
        }
        if self.open.as_ref().is_none_or(|answer| answer.id != id || answer.decoder.is_some()) {
            let is_stream = self.open.as_ref().is_some_and(|answer| answer.decoder.is_some());
            let broken = Ending::Broken { kind: "stream_truncated", again_in: Some(0) };
            self.end(if is_stream { broken } else { Ending::Whole }, &mut heard);
            self.open = Some(Answer::new(id.to_owned()));
            let model = message["model"].as_str().unwrap_or_default().to_owned();
            heard.events.push(StreamEvent::MessageStart { id: id.to_owned(), model });
        }
        if let Some(answer) = &mut self.open {
            for block in message["content"].as_array().into_iter().flatten() {
                answer.block(block, &mut heard.events);
            }
        }
        heard
    }

    /// Ends the answer that is under way, if there is one.
    pub(super) fn end(&mut self, how: Ending<'_>, heard: &mut Heard) {
        let Some(answer) = self.open.take() else { return };
        let streams = answer.decoder.is_some();
        match how {
            Ending::Whole => {
                // Blocks come without the counters; the turn's result has them.
                heard
                    .events
                    .push(StreamEvent::MessageDelta { usage: Usage::default(), stop: None });
                heard.events.push(StreamEvent::MessageStop);
            }
            Ending::Stopped => {
                heard.events.push(StreamEvent::Interrupted { reason: Interruption::Operator });
            }
            Ending::Broken { kind, again_in } => heard.events.push(StreamEvent::Error {
                kind: kind.to_owned(),
                message: "the answer broke off".to_owned(),
                again_in,
            }),
        }
        if streams {
            heard.spent.push(answer.usage);
        }
    }

    /// A tool has ended, so an answer that came in blocks is whole.
    pub(super) fn ended_blocks(&mut self) -> Heard {
        let streams = self.open.as_ref().is_some_and(|answer| answer.decoder.is_some());
        if streams { Heard::default() } else { self.ended(Ending::Whole) }
    }

    /// Ends the answer that is under way, and says so.
    pub(super) fn ended(&mut self, how: Ending<'_>) -> Heard {
        let mut heard = Heard::default();
        self.end(how, &mut heard);
        heard
    }
}

impl Answer {
    fn new(id: String) -> Answer {
        Answer { id, decoder: None, calls: BTreeMap::new(), blocks: 0, usage: Usage::default() }
    }

    /// Remembers what an event says, and fills in what decoders leave out.
    fn notice(&mut self, event: &mut StreamEvent) {
        match event {
            StreamEvent::MessageStart { id, .. } => self.id.clone_from(id),
            StreamEvent::ToolUseStart { index, id, .. } => {
                self.calls.insert(*index, Arc::clone(id));
            }
            StreamEvent::InputJsonDelta { index, id, .. }
            | StreamEvent::ToolUseStop { index, id } => {
                if let Some(call) = self.calls.get(index) {
                    *id = Arc::clone(call);
                }
            }
            StreamEvent::MessageDelta { usage, .. } => self.usage.update(usage),
            _ => {}
        }
    }

    fn block(&mut self, block: &Value, events: &mut Vec<StreamEvent>) {
        let index = self.blocks;
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str().unwrap_or_default() {
            "text" => events.push(StreamEvent::TextDelta { index, text: text("text") }),
            "thinking" => {
                events.push(StreamEvent::ThinkingDelta { index, text: text("thinking") });
            }
            "tool_use" => {
                let id: Arc<str> = text("id").into();
                let json = block["input"].to_string();
                events.push(StreamEvent::ToolUseStart {
                    index,
                    id: Arc::clone(&id),
                    name: text("name"),
                });
                events.push(StreamEvent::InputJsonDelta { index, id: Arc::clone(&id), json });
                events.push(StreamEvent::ToolUseStop { index, id });
            }
            // Blocks of the provider's own, such as hidden thinking.
            _ => return,
        }
        self.blocks += 1;
    }
}

impl std::fmt::Debug for Voice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let open = self.open.as_ref().map(|answer| &answer.id);
        f.debug_struct("Voice").field("open", &open).finish_non_exhaustive()
    }
}

/// Whether a piece begins an answer.
fn is_start(event: &str) -> bool {
    event.contains("message_start")
        && serde_json::from_str::<Value>(event).is_ok_and(|event| event["type"] == "message_start")
}

/// The kind of a failure, from the status of the provider's answer and the program's own word for it.
pub(super) fn failure(status: Option<u16>, word: Option<&str>, text: &str) -> ErrorKind {
    match (word, status) {
        (Some("billing_error"), _) => ErrorKind::Quota,
        (_, Some(400)) if text.contains("Credit balance") => ErrorKind::Quota,
        (_, Some(status)) => kind_of_status(status),
        (Some("authentication_failed" | "oauth_org_not_allowed"), None) => ErrorKind::Auth,
        (Some("rate_limit"), None) => ErrorKind::RateLimited,
        (Some("overloaded"), None) => ErrorKind::Overloaded,
        (Some("invalid_request"), None) => ErrorKind::Client,
        (Some("model_not_found"), None) => ErrorKind::Config,
        (Some("max_output_tokens"), None) => ErrorKind::Truncated,
        // Without an answer there is no telling more than that it did not come.
        (_, None) => ErrorKind::Transport,
    }
}
