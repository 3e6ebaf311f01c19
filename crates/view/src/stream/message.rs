//! Messages: what a model said, put together from its deltas.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::message::{StopReason, Usage};
use machine::stream::{Interruption, StreamEvent};
use machine::tool::Status;
use serde_json::Value;

/// Folds the stream into messages.
#[derive(Debug, Default)]
pub struct MessageLayer {
    open: Option<Draft>,
}

/// A message that is finished.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// What the model said.
    Assistant(Assistant),
    /// What came of a tool.
    ToolResult {
        /// The id of the call.
        id: Arc<str>,
        /// The tool.
        name: String,
        /// How it ended.
        status: Status,
        /// What came of it.
        text: String,
    },
    /// The model did not begin to answer.
    Error {
        /// The kind in one word.
        kind: String,
        /// What is wrong.
        message: String,
    },
}

/// What a model said.
#[derive(Debug, Clone, PartialEq)]
pub struct Assistant {
    /// The provider's id; may be empty.
    pub id: String,
    /// The model; may be empty.
    pub model: String,
    /// What it said, in the order of its blocks.
    pub blocks: Vec<Said>,
    /// What it cost, as far as it was told.
    pub usage: Usage,
    /// Why it stopped, if that was told.
    pub stop: Option<StopReason>,
    /// How it ended.
    pub end: End,
    /// Deltas that are missing in it.
    pub missing: u64,
}

/// One block.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Text.
    Text(String),
    /// Thinking; may be empty where the provider hides it.
    Thinking(String),
    /// It asks for a tool.
    ToolUse {
        /// The id of the call.
        id: Arc<str>,
        /// The tool.
        name: String,
        /// The parameters.
        input: Input,
    },
}

/// The parameters of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// All of them.
    Whole(Value),
    /// As far as they came: never to be taken for a call.
    Partial(String),
}

/// How a message ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// As it should.
    Whole,
    /// It was stopped; what it had said by then is kept.
    Interrupted(Interruption),
    /// It failed; what it had said by then is kept, but does not count.
    Failed {
        /// The kind in one word.
        kind: String,
        /// What is wrong.
        message: String,
    },
    /// The next one began before its end was told.
    Untold,
}

#[derive(Debug, Default)]
struct Draft {
    id: String,
    model: String,
    blocks: BTreeMap<usize, Block>,
    usage: Usage,
    stop: Option<StopReason>,
    missing: u64,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thinking(String),
    Tool { id: Arc<str>, name: String, json: String, stopped: bool },
}

impl MessageLayer {
    /// Takes an event; gives the message that it finishes.
    pub fn push(&mut self, event: &StreamEvent) -> Option<Message> {
        match event {
            StreamEvent::MessageStart { id, model } => {
                let draft = Draft { id: id.clone(), model: model.clone(), ..Draft::default() };
                let former = self.open.replace(draft);
                former.map(|former| former.finish(End::Untold))
            }
            StreamEvent::MessageStop => self.end(End::Whole),
            StreamEvent::Interrupted { reason } => self.end(End::Interrupted(*reason)),
            StreamEvent::Error { kind, message, .. } => {
                let (kind, message) = (kind.clone(), message.clone());
                match self.open.take() {
                    Some(draft) => Some(draft.finish(End::Failed { kind, message })),
                    None => Some(Message::Error { kind, message }),
                }
            }
            StreamEvent::ToolResult { id, name, status, text, .. } => Some(Message::ToolResult {
                id: Arc::clone(id),
                name: name.clone(),
                status: *status,
                text: text.clone(),
            }),
            StreamEvent::TextDelta { .. }
            | StreamEvent::ThinkingDelta { .. }
            | StreamEvent::ToolUseStart { .. }
            | StreamEvent::InputJsonDelta { .. }
            | StreamEvent::ToolUseStop { .. }
            | StreamEvent::MessageDelta { .. }
            | StreamEvent::Gap { .. }
            | StreamEvent::Native { .. }
            | StreamEvent::Ping => {
                if let Some(draft) = &mut self.open {
                    draft.grow(event);
                }
                None
            }
        }
    }

    fn end(&mut self, end: End) -> Option<Message> {
        self.open.take().map(|draft| draft.finish(end))
    }
}

impl Draft {
    /// Takes what adds to the message. What does not fit its block is passed over: the sender's order is checked
    /// where it is made.
    fn grow(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::TextDelta { index, text } => {
                let block = self.blocks.entry(*index).or_insert_with(|| Block::Text(String::new()));
                if let Block::Text(all) = block {
                    all.push_str(text);
                }
            }
            StreamEvent::ThinkingDelta { index, text } => {
                let begun = || Block::Thinking(String::new());
                if let Block::Thinking(all) = self.blocks.entry(*index).or_insert_with(begun) {
                    all.push_str(text);
                }
            }
            StreamEvent::ToolUseStart { index, id, name } => {
                let (id, name, json) = (Arc::clone(id), name.clone(), String::new());
                self.blocks.entry(*index).or_insert_with(|| Block::Tool {
                    id,
                    name,
                    json,
                    stopped: false,
                });
            }
            StreamEvent::InputJsonDelta { index, id: of, json } => {
                if let Some(Block::Tool { id, json: all, stopped: false, .. }) =
                    self.blocks.get_mut(index)
                    && id == of
                {
                    all.push_str(json);
                }
            }
            StreamEvent::ToolUseStop { index, id: of } => {
                if let Some(Block::Tool { id, stopped, .. }) = self.blocks.get_mut(index)
                    && id == of
                {
                    *stopped = true;
                }
            }
            StreamEvent::MessageDelta { usage, stop } => {
                self.usage.update(usage);
                self.stop = stop.or(self.stop);
            }
            StreamEvent::Gap { deltas } => self.missing = self.missing.saturating_add(*deltas),
            _ => {}
        }
    }

    fn finish(self, end: End) -> Message {
        let Draft { id, model, blocks, usage, stop, missing } = self;
        // What was refused is not done, and is no part of the answer.
        let is_refused = end == End::Whole && stop == Some(StopReason::Refusal);
        let blocks = blocks.into_values().filter_map(|block| match block {
            Block::Text(text) if text.is_empty() => None,
            Block::Text(text) => Some(Said::Text(text)),
            Block::Thinking(text) => Some(Said::Thinking(text)),
            Block::Tool { .. } if is_refused => None,
            Block::Tool { id, name, json, stopped } => {
                let input = match serde_json::from_str(&json) {
                    Ok(input @ Value::Object(_)) if stopped && missing == 0 => Input::Whole(input),
                    _ => Input::Partial(json),
                };
                Some(Said::ToolUse { id, name, input })
            }
        });
        let blocks = blocks.collect();
        Message::Assistant(Assistant { id, model, blocks, usage, stop, end, missing })
    }
}

impl Assistant {
    /// All its text.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|said| match said {
            Said::Text(text) => Some(text.as_str()),
            Said::Thinking(_) | Said::ToolUse { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
