//! Turns: from what a person said to the answer that asks for no more tools, whatever lies between.

use machine::message::{StopReason, Usage};
use machine::stream::{Interruption, StreamEvent};
use machine::time::{Span, Timestamp};

/// Folds the stream into turns.
#[derive(Debug, Default)]
pub struct TurnLayer {
    open: Option<Turn>,
    /// Of the answer that is just coming; added to the turn once, at its end.
    usage: Usage,
    stop: Option<StopReason>,
}

/// What happened to a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEvent {
    /// One began.
    Began(Timestamp),
    /// One ended.
    Ended(Turn, TurnEnd),
}

/// A turn in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// When it began.
    pub began: Timestamp,
    /// How long it took.
    pub took: Span,
    /// Answers of the model, whole or not.
    pub answers: u64,
    /// Tools that it asked for.
    pub tool_calls: u64,
    /// Results that were no success.
    pub tool_errors: u64,
    /// Calls of the model that failed.
    pub failures: u64,
    /// What all its answers cost, each counted once; failed ones too, as far as they told it.
    pub usage: Usage,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model stopped, for this reason; absent if it gave none.
    Stopped(Option<StopReason>),
    /// It was interrupted.
    Interrupted(Interruption),
    /// The model failed and is not asked again.
    Failed {
        /// The kind in one word.
        kind: String,
    },
}

impl TurnLayer {
    /// A person's message went out: a turn begins, unless one is open.
    pub fn asked(&mut self, now: Timestamp) -> Option<TurnEvent> {
        if self.open.is_some() {
            return None;
        }
        self.open = Some(Turn {
            began: now,
            took: Span::default(),
            answers: 0,
            tool_calls: 0,
            tool_errors: 0,
            failures: 0,
            usage: Usage::default(),
        });
        Some(TurnEvent::Began(now))
    }

    /// Takes an event that came at this time. One that nobody asked for opens a turn of its own.
    pub fn push(&mut self, event: &StreamEvent, now: Timestamp) -> Vec<TurnEvent> {
        let mut told = Vec::new();
        if matches!(event, StreamEvent::MessageStart { .. } | StreamEvent::Error { .. }) {
            told.extend(self.asked(now));
        }
        let Some(turn) = &mut self.open else { return told };
        let mut end = None;
        match event {
            StreamEvent::MessageStart { .. } => {
                turn.usage.add(&std::mem::take(&mut self.usage));
                self.stop = None;
                turn.answers += 1;
            }
            StreamEvent::MessageDelta { usage, stop } => {
                self.usage.update(usage);
                self.stop = stop.or(self.stop);
            }
            StreamEvent::ToolUseStop { .. } => turn.tool_calls += 1,
            StreamEvent::ToolResult { is_error: true, .. } => turn.tool_errors += 1,
            StreamEvent::MessageStop => {
                turn.usage.add(&std::mem::take(&mut self.usage));
                let goes_on = matches!(self.stop, Some(StopReason::ToolUse | StopReason::Pause));
                end = (!goes_on).then_some(TurnEnd::Stopped(self.stop));
            }
            StreamEvent::Error { kind, again_in, .. } => {
                turn.usage.add(&std::mem::take(&mut self.usage));
                turn.failures += 1;
                end = again_in.is_none().then(|| TurnEnd::Failed { kind: kind.clone() });
            }
            StreamEvent::Interrupted { reason } => {
                turn.usage.add(&std::mem::take(&mut self.usage));
                end = Some(TurnEnd::Interrupted(*reason));
            }
            StreamEvent::TextDelta { .. }
            | StreamEvent::ThinkingDelta { .. }
            | StreamEvent::ToolUseStart { .. }
            | StreamEvent::InputJsonDelta { .. }
            | StreamEvent::ToolResult { .. }
            | StreamEvent::Gap { .. }
            | StreamEvent::Native { .. }
            | StreamEvent::Ping => {}
        }
        if let Some(end) = end
            && let Some(mut turn) = self.open.take()
        {
            turn.took = now.since(turn.began);
            told.push(TurnEvent::Ended(turn, end));
        }
        told
    }
}
