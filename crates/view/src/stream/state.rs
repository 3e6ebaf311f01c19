//! States: what a model is doing just now, in one word. Only the changes that make sense are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::message::StopReason;
use machine::stream::StreamEvent;

/// Folds the stream into a state.
#[derive(Debug, Default)]
pub struct StateLayer {
    state: State,
    /// The calls that have no result yet, and their tools.
    calls: BTreeMap<Arc<str>, String>,
    stop: Option<StopReason>,
}

/// What a model is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing: nobody asked it, or it has answered.
    #[default]
    Idle,
    /// It thinks, or has begun and not said anything yet.
    Thinking,
    /// It says something.
    Responding,
    /// It writes down what it asks of a tool.
    PlanningTool {
        /// The tool.
        tool: String,
    },
    /// It waits for what it asked for.
    AwaitingToolResult {
        /// How many results are missing.
        left: usize,
    },
    /// It failed.
    Error {
        /// Whether it is asked again.
        again: bool,
    },
}

impl State {
    /// The state in one word.
    pub fn word(&self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Thinking => "thinking",
            State::Responding => "responding",
            State::PlanningTool { .. } => "planning_tool",
            State::AwaitingToolResult { .. } => "awaiting_tool_result",
            State::Error { .. } => "error",
        }
    }

    /// Whether this state may come right after the other.
    pub fn may_follow(&self, former: &State) -> bool {
        let within_answer =
            matches!(former, State::Thinking | State::Responding | State::PlanningTool { .. });
        match self {
            State::Thinking | State::Error { .. } => true,
            State::Idle => *former != State::Idle,
            State::Responding | State::PlanningTool { .. } => within_answer,
            State::AwaitingToolResult { left } => match former {
                State::AwaitingToolResult { left: before } => left < before,
                _ => within_answer,
            },
        }
    }
}

impl StateLayer {
    /// What it is doing.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Takes an event; gives the state if that changed.
    pub fn push(&mut self, event: &StreamEvent) -> Option<&State> {
        let next = match event {
            StreamEvent::MessageStart { .. } => {
                self.calls.clear();
                self.stop = None;
                State::Thinking
            }
            StreamEvent::TextDelta { .. } if self.state == State::Responding => return None,
            StreamEvent::TextDelta { .. } => State::Responding,
            // Hidden thinking has no words: it is no reason to leave what is being said.
            StreamEvent::ThinkingDelta { text, .. } if text.is_empty() => return None,
            StreamEvent::ThinkingDelta { .. } if self.is_answering() => State::Thinking,
            StreamEvent::ToolUseStart { id, name, .. } if self.is_answering() => {
                self.calls.insert(Arc::clone(id), name.clone());
                State::PlanningTool { tool: name.clone() }
            }
            StreamEvent::InputJsonDelta { id, .. } => match (&self.state, self.calls.get(id)) {
                (State::PlanningTool { .. }, _) | (_, None) => return None,
                (_, Some(tool)) => State::PlanningTool { tool: tool.clone() },
            },
            StreamEvent::MessageDelta { stop, .. } => {
                self.stop = stop.or(self.stop);
                return None;
            }
            StreamEvent::MessageStop if !self.is_answering() => return None,
            StreamEvent::MessageStop => self.after_answer(),
            StreamEvent::ToolResult { id, .. } => {
                let is_known = self.calls.remove(id).is_some();
                match (&self.state, self.calls.len()) {
                    (State::AwaitingToolResult { .. }, 0) if is_known => State::Thinking,
                    (State::AwaitingToolResult { .. }, left) if is_known => {
                        State::AwaitingToolResult { left }
                    }
                    _ => return None,
                }
            }
            StreamEvent::Error { again_in, .. } => {
                self.calls.clear();
                State::Error { again: again_in.is_some() }
            }
            StreamEvent::Interrupted { .. } => {
                self.calls.clear();
                State::Idle
            }
            StreamEvent::ThinkingDelta { .. }
            | StreamEvent::ToolUseStart { .. }
            | StreamEvent::ToolUseStop { .. }
            | StreamEvent::Gap { .. }
            | StreamEvent::Native { .. }
            | StreamEvent::Ping => return None,
        };
        if next == self.state || !next.may_follow(&self.state) {
            return None;
        }
        self.state = next;
        Some(&self.state)
    }

    fn is_answering(&self) -> bool {
        matches!(self.state, State::Thinking | State::Responding | State::PlanningTool { .. })
    }

    fn after_answer(&mut self) -> State {
        match (self.stop, self.calls.len()) {
            (Some(StopReason::ToolUse), left @ 1..) => State::AwaitingToolResult { left },
            // The same question goes out again.
            (Some(StopReason::Pause), _) => State::Thinking,
            _ => {
                self.calls.clear();
                State::Idle
            }
        }
    }
}
