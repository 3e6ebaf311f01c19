//! The live stream: what a task's model or agent says and asks for while it does, in one vocabulary for every driver and
//! provider. For observers only; it is never journaled and never needed to resume.
//!
//! The stream of a task is a row of answers, and between them the results of the tools that they asked for. An
//! answer is `message_start`, deltas, tool calls (each `tool_use_start`, `input_json_delta`s, `tool_use_stop`, all
//! with the call's id), at least one `message_delta`, `message_stop`. An `error` or `interrupted` may stand in place
//! of any part of it, also of all of it, and ends it. Nothing comes after the end but the next answer and results.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::AgentEnd;
use crate::driver::NoteKind;
use crate::event::EventKind;
use crate::message::{StopReason, Usage};
use crate::tool::Status;

/// One piece of the stream. `index` tells the blocks of an answer apart; blocks may interleave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamEvent {
    /// An answer begins.
    MessageStart {
        /// The provider's id of the answer; may be empty.
        id: String,
        /// The model that answers; may be empty.
        model: String,
    },
    /// More text.
    TextDelta {
        /// The block.
        index: usize,
        /// The text.
        text: String,
    },
    /// More thinking.
    ThinkingDelta {
        /// The block.
        index: usize,
        /// The text.
        text: String,
    },
    /// A tool call begins.
    ToolUseStart {
        /// The block.
        index: usize,
        /// The id of the call: the provider's, or ours where it gives none. Empty only inside a decoder.
        id: Arc<str>,
        /// The tool.
        name: String,
    },
    /// More of a tool call's arguments.
    InputJsonDelta {
        /// The block.
        index: usize,
        /// The call. Empty only inside a decoder: whoever assembles the answer fills it in.
        id: Arc<str>,
        /// A piece of JSON text.
        json: String,
    },
    /// A tool call is complete.
    ToolUseStop {
        /// The block.
        index: usize,
        /// The call, as in the deltas.
        id: Arc<str>,
    },
    /// A tool that the model asked for has ended.
    ToolResult {
        /// The call.
        id: Arc<str>,
        /// The tool.
        name: String,
        /// How it ended.
        status: Status,
        /// Whether that is anything but well.
        is_error: bool,
        /// What came of it.
        text: String,
    },
    /// Counters, and why it stops, as far as they are known by now; later ones replace earlier ones, counter
    /// by counter. The last one before the end says why.
    MessageDelta {
        /// What it cost so far.
        usage: Usage,
        /// Why it stops.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop: Option<StopReason>,
    },
    /// The answer is whole; in the stream of a task that a model drives also: it is in the journal.
    MessageStop,
    /// There is no answer, or what came of it does not count.
    Error {
        /// The kind in one word.
        kind: String,
        /// What is wrong.
        message: String,
        /// In how many milliseconds the same question is asked again; absent if it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again_in: Option<u64>,
    },
    /// The answer, or the turn between two answers, was stopped.
    Interrupted {
        /// By what.
        reason: Interruption,
    },
    /// Whole deltas are missing here, because whoever listens was too slow: the text around it is right, but
    /// not all of it.
    Gap {
        /// How many.
        deltas: u64,
    },
    /// A block in its provider's own form, to be sent back unchanged. Comes after the block's deltas; a block
    /// without any is opaque. Between decoder and assembler only.
    #[serde(skip)]
    Native {
        /// The block.
        index: usize,
        /// The block as its provider wants it back.
        raw: Value,
    },
    /// Something that means nothing but that the connection lives. Between decoder and transport only.
    #[serde(skip)]
    Ping,
}

/// What stopped an answer or a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interruption {
    /// A person interrupted it.
    Operator,
    /// Another driver took over.
    HandOver,
    /// The task ended: it was cancelled, or ran into a limit.
    TaskEnded,
    /// The process let go of the task.
    LetGo,
}

impl StreamEvent {
    /// Whether it is for observers; the rest is between decoders, assembler and transport.
    pub fn is_public(&self) -> bool {
        !matches!(self, StreamEvent::Native { .. } | StreamEvent::Ping)
    }

    /// Whether it is a piece of something longer: text, thinking, or a tool call's arguments.
    pub fn is_delta(&self) -> bool {
        use StreamEvent::{InputJsonDelta, TextDelta, ThinkingDelta};
        matches!(self, TextDelta { .. } | ThinkingDelta { .. } | InputJsonDelta { .. })
    }
}

/// What a task's own events add to its stream: how each answer ended, and the results of its tools. An answer ends
/// when its end is in the journal, whatever the provider had sent by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Endings {
    /// Whether a model is asked, or its tools are under way, or an agent's turn is.
    is_open: bool,
}

impl Endings {
    /// What this event adds; goes before the event itself.
    pub fn hear(&mut self, event: &EventKind) -> Option<StreamEvent> {
        match event {
            EventKind::ModelCalled { .. } | EventKind::AgentAsked { .. } => {
                self.is_open = true;
                None
            }
            // Who stopped it is told by another event.
            EventKind::AgentEnded { end: Some(AgentEnd::Interrupted), .. } => None,
            // How its answers ended was told as it came.
            EventKind::AgentEnded { .. } => {
                self.is_open = false;
                None
            }
            EventKind::ModelReplied { stop, .. } => {
                self.is_open = matches!(stop, StopReason::ToolUse | StopReason::Pause);
                Some(StreamEvent::MessageStop)
            }
            EventKind::ModelFailed { kind, message, again_in } => {
                self.is_open = again_in.is_some();
                let (kind, message, again_in) = (kind.clone(), message.clone(), *again_in);
                Some(StreamEvent::Error { kind, message, again_in })
            }
            EventKind::ToolEnded { tool_use, tool, result, .. } if !tool_use.is_empty() => {
                Some(StreamEvent::ToolResult {
                    id: tool_use.as_str().into(),
                    name: tool.clone(),
                    status: result.status,
                    is_error: result.status != Status::Ok,
                    text: result.text.clone(),
                })
            }
            EventKind::NoteQueued { note } if note.kind == NoteKind::Interrupt => {
                self.interrupt(Interruption::Operator)
            }
            EventKind::DriverChanged { .. } => self.interrupt(Interruption::HandOver),
            EventKind::Detached { .. } => self.interrupt(Interruption::LetGo),
            EventKind::TaskFinished { .. } => self.interrupt(Interruption::TaskEnded),
            _ => None,
        }
    }

    fn interrupt(&mut self, reason: Interruption) -> Option<StreamEvent> {
        std::mem::take(&mut self.is_open).then_some(StreamEvent::Interrupted { reason })
    }
}
