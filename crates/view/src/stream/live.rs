//! What a terminal shows of a task's stream: finished lines of text, and what the model is doing in a few words.

use std::collections::VecDeque;

use machine::stream::StreamEvent;

use super::reading::{Reading, cut_mark};
use super::state::{State, StateLayer};
use crate::{Line, text};

/// How much of what is being said fits into a line of progress.
const TAIL: usize = 60;

/// Words of an agent that were shown and that no event has told yet, as far as they are remembered.
const UNTOLD: usize = 256;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speaker {
    /// A model: an event tells each answer before the next one begins.
    #[default]
    Model,
    /// An agent: events tell its words up to each call and each end, and come after the stream, however far that is.
    Agent,
}

/// One task's stream, as far as it is shown.
#[derive(Debug, Default)]
pub struct Live {
    state: StateLayer,
    reading: Reading,
    /// The end of what it is thinking.
    thought: String,
    speaker: Speaker,
    /// What was shown of an agent's words, up to each call and each end.
    untold: VecDeque<Vec<Line>>,
}

impl Live {
    /// From here on this one speaks.
    pub fn begin(&mut self, speaker: Speaker) {
        self.speaker = speaker;
        self.untold.clear();
    }

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
            if self.speaker == Speaker::Agent && ends_words(event) {
                lines.append(&mut self.end_words(event));
            }
            lines.append(&mut self.reading.push(event));
        }
        lines
    }

    /// The lines of a finished answer, or of an agent's words, that were not shown while they came.
    pub fn rest(&mut self, mut lines: Vec<Line>) -> Vec<Line> {
        if self.speaker == Speaker::Model {
            return self.reading.rest(lines);
        }
        // What does not fit was shown of words that no event tells, because they do not count.
        if let Some(at) = self.untold.iter().position(|shown| lines.starts_with(shown)) {
            let shown = self.untold.drain(..=at).next_back().unwrap_or_default();
            lines.drain(..shown.len());
        }
        lines
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

    fn end_words(&mut self, by: &StreamEvent) -> Vec<Line> {
        let (mut lines, shown) = self.reading.end_words();
        if !shown.is_empty() {
            lines.extend(cut_mark(by));
            self.untold.push_back(shown);
        }
        if self.untold.len() > UNTOLD {
            self.untold.pop_front();
        }
        lines
    }

    fn think(&mut self, text: &str) {
        self.thought.push_str(text);
        let from = self.thought.char_indices().rev().nth(TAIL).map_or(0, |(at, _)| at);
        self.thought.drain(..from);
    }
}

/// Whether an agent's words before this are told by an event of their own.
fn ends_words(event: &StreamEvent) -> bool {
    use StreamEvent as E;
    matches!(
        event,
        E::MessageStart { .. }
            | E::ToolUseStart { .. }
            | E::MessageStop
            | E::Error { .. }
            | E::Interrupted { .. }
    )
}
