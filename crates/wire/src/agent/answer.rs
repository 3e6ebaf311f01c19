//! Puts what an agent's model says into the order that [`machine::stream`] promises: agents tell of items and chunks,
//! not of answers, so an answer begins with the first of them and ends when a tool has ended or the turn does.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::agent::AgentEvent;
use machine::message::{StopReason, Usage};
use machine::stream::{Interruption, StreamEvent};
use serde_json::Value;

/// An answer with more blocks than this is ended and the next one begun, so that an agent cannot fill the memory.
const MOST_BLOCKS: usize = 1000;

/// Ids are told apart by this much of them.
const LONGEST_ID: usize = 256;

/// The last words that are kept.
const LONGEST_WORDS: usize = 16 << 10;

/// The answer under way.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The model, as far as the agent says; may be empty.
    pub(super) model: String,
    is_open: bool,
    has_tools: bool,
    /// A tool came after the last words: what is said next is no part of them.
    is_after_tool: bool,
    blocks: BTreeMap<String, usize>,
    /// The block of the last words, and the words.
    words: (String, String),
}

impl Answer {
    /// More text of the message with this id.
    pub(super) fn text(&mut self, id: &str, text: &str, out: &mut Vec<AgentEvent>) {
        if text.is_empty() {
            return;
        }
        if !self.is_aside(id) {
            let is_next = std::mem::take(&mut self.is_after_tool) || !self.is_open;
            if is_next || self.words.0 != super::peer::beginning(id, LONGEST_ID) {
                self.words = (super::peer::beginning(id, LONGEST_ID).to_owned(), String::new());
            }
            let room = LONGEST_WORDS.saturating_sub(self.words.1.len());
            self.words.1.push_str(super::peer::beginning(text, room));
        }
        let index = self.block(&format!("text {id}"), id, out);
        out.push(AgentEvent::Stream(StreamEvent::TextDelta { index, text: text.to_owned() }));
    }

    /// Whether a text is no message of the model, but a notice of the program: where messages have ids, that has none.
    pub(super) fn is_aside(&self, id: &str) -> bool {
        id.is_empty() && !self.words.0.is_empty()
    }

    /// More thinking of the block with this id.
    pub(super) fn thinking(&mut self, id: &str, text: &str, out: &mut Vec<AgentEvent>) {
        if text.is_empty() {
            return;
        }
        let index = self.block(&format!("thinking {id}"), id, out);
        out.push(AgentEvent::Stream(StreamEvent::ThinkingDelta { index, text: text.to_owned() }));
    }

    /// A call of one of the agent's tools, whole.
    pub(super) fn tool(
        &mut self,
        id: &Arc<str>,
        name: &str,
        input: &Value,
        out: &mut Vec<AgentEvent>,
    ) {
        let index = self.block(&format!("tool {id}"), "", out);
        (self.has_tools, self.is_after_tool) = (true, true);
        let (id, name, json) = (Arc::clone(id), name.to_owned(), input.to_string());
        let events = [
            StreamEvent::ToolUseStart { index, id: Arc::clone(&id), name },
            StreamEvent::InputJsonDelta { index, id: Arc::clone(&id), json },
            StreamEvent::ToolUseStop { index, id },
        ];
        out.extend(events.map(AgentEvent::Stream));
    }

    /// The answer is whole.
    pub(super) fn close(&mut self, out: &mut Vec<AgentEvent>) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let has_tools = std::mem::take(&mut self.has_tools);
        let stop = Some(if has_tools { StopReason::ToolUse } else { StopReason::EndTurn });
        let delta = StreamEvent::MessageDelta { usage: Usage::default(), stop };
        out.extend([delta, StreamEvent::MessageStop].map(AgentEvent::Stream));
    }

    /// The answer was stopped from outside.
    pub(super) fn interrupt(&mut self, out: &mut Vec<AgentEvent>) {
        if self.stop() {
            let reason = Interruption::Operator;
            out.push(AgentEvent::Stream(StreamEvent::Interrupted { reason }));
        }
    }

    /// What came of the answer does not count.
    pub(super) fn fail(&mut self, kind: &str, message: &str, out: &mut Vec<AgentEvent>) {
        if self.stop() {
            let (kind, message) = (kind.to_owned(), message.to_owned());
            out.push(AgentEvent::Stream(StreamEvent::Error { kind, message, again_in: None }));
        }
    }

    /// The last words since the last time they were taken.
    pub(super) fn take_words(&mut self) -> String {
        std::mem::take(&mut self.words).1
    }

    fn stop(&mut self) -> bool {
        self.has_tools = false;
        std::mem::take(&mut self.is_open)
    }

    fn block(&mut self, key: &str, message: &str, out: &mut Vec<AgentEvent>) -> usize {
        let key = super::peer::beginning(key, LONGEST_ID);
        if self.blocks.len() >= MOST_BLOCKS && !self.blocks.contains_key(key) {
            self.close(out);
        }
        if !self.is_open {
            self.is_open = true;
            self.blocks.clear();
            let (id, model) = (message.to_owned(), self.model.clone());
            out.push(AgentEvent::Stream(StreamEvent::MessageStart { id, model }));
        }
        let next = self.blocks.len();
        *self.blocks.entry(key.to_owned()).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_after_a_tool_is_no_part_of_what_was_said_before() {
        let mut answer = Answer::default();
        let mut out = Vec::new();
        answer.text("", "I look.", &mut out);
        answer.tool(&Arc::from("t"), "run", &Value::Null, &mut out);
        // A tool that is refused ends no answer.
        answer.text("", "I may", &mut out);
        answer.text("", " not.", &mut out);
        assert_eq!(answer.take_words(), "I may not.");
    }
}
