//! What a terminal shows of a task's stream: finished lines of text, and what the model is doing in a few words.

use machine::stream::StreamEvent;

use super::reading::Reading;
use super::state::{State, StateLayer};
use crate::{Line, text};

/// How much of what is being said fits into a line of progress.
const TAIL: usize = 60;

/// One task's stream, as far as it is shown.
#[derive(Debug, Default)]
pub struct Live {
    state: StateLayer,
    reading: Reading,
    /// The end of what it is thinking.
    thought: String,
}

impl Live {
    /// Takes events; gives the lines of text that they finish.
    pub fn push(&mut self, events: &[StreamEvent]) -> Vec<Line> {
        let mut lines = Vec::new();
        for event in events {
            self.state.push(event);
            match event {
                StreamEvent::ThinkingDelta { text, .. } => self.think(text),
                StreamEvent::MessageStart { .. } | StreamEvent::MessageStop => self.thought.clear(),
                _ => {}
            }
            lines.append(&mut self.reading.push(event));
        }
        lines
    }

    /// The lines of a finished answer that were not shown while it came.
    pub fn rest(&mut self, lines: Vec<Line>) -> Vec<Line> {
        self.reading.rest(lines)
    }

    /// What the model is doing, while it answers.
    pub fn doing(&self) -> Option<String> {
        let (what, tail) = match self.state.state() {
            State::Thinking => ("thinks", self.thought.as_str()),
            State::Responding => ("says", self.reading.tail(TAIL)),
            State::PlanningTool { tool } => return Some(format!("calls {}", text::visible(tool))),
            State::Idle | State::AwaitingToolResult { .. } | State::Error { .. } => return None,
        };
        let tail = text::visible(tail.replace(['\n', '\t'], " ").trim());
        Some(if tail.is_empty() { what.to_owned() } else { format!("{what}: … {tail}") })
    }

    fn think(&mut self, text: &str) {
        self.thought.push_str(text);
        let from = self.thought.char_indices().rev().nth(TAIL).map_or(0, |(at, _)| at);
        self.thought.drain(..from);
    }
}
