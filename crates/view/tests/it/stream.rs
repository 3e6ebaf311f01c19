//! The layers over the live stream: what they make of conversations as decoders tell them, and that nothing can
//! upset them.

mod layers;
mod reading;

use std::sync::Arc;

use machine::message::{StopReason, Usage};
use machine::stream::{Interruption, StreamEvent};
use machine::tool::Status;
use proptest::prelude::*;

pub(crate) fn start() -> StreamEvent {
    StreamEvent::MessageStart { id: "m".to_owned(), model: "model".to_owned() }
}

pub(crate) fn text(index: usize, text: &str) -> StreamEvent {
    StreamEvent::TextDelta { index, text: text.to_owned() }
}

pub(crate) fn call(index: usize, id: &str, name: &str) -> StreamEvent {
    StreamEvent::ToolUseStart { index, id: id.into(), name: name.to_owned() }
}

pub(crate) fn json(index: usize, id: &str, json: &str) -> StreamEvent {
    StreamEvent::InputJsonDelta { index, id: id.into(), json: json.to_owned() }
}

pub(crate) fn called(index: usize, id: &str) -> StreamEvent {
    StreamEvent::ToolUseStop { index, id: id.into() }
}

pub(crate) fn result(id: &str, is_error: bool) -> StreamEvent {
    let status = if is_error { Status::Error } else { Status::Ok };
    let (name, text) = ("read".to_owned(), "out".to_owned());
    StreamEvent::ToolResult { id: id.into(), name, status, is_error, text }
}

/// The counters and the reason, then the end.
pub(crate) fn stop(stop: StopReason, output: u64) -> [StreamEvent; 2] {
    let usage = Usage { output: Some(output), ..Usage::default() };
    [StreamEvent::MessageDelta { usage, stop: Some(stop) }, StreamEvent::MessageStop]
}

pub(crate) fn failed(again_in: Option<u64>) -> StreamEvent {
    StreamEvent::Error { kind: "overloaded".to_owned(), message: "busy".to_owned(), again_in }
}

pub(crate) fn interrupted() -> StreamEvent {
    StreamEvent::Interrupted { reason: Interruption::Operator }
}

/// Any event, in any order: few blocks and ids, so that they meet.
pub(crate) fn any_event() -> impl Strategy<Value = StreamEvent> {
    let index = 0..3_usize;
    let id = || prop_oneof![Just("a"), Just("b")].prop_map(Arc::<str>::from);
    let reason = prop_oneof![
        Just(StopReason::EndTurn),
        Just(StopReason::ToolUse),
        Just(StopReason::Refusal),
        Just(StopReason::Pause),
        Just(StopReason::MaxTokens),
    ];
    prop_oneof![
        3 => Just(start()),
        3 => (index.clone(), "[ab\n{} ]{0,4}").prop_map(|(at, more)| text(at, &more)),
        1 => (index.clone(), "[ab]{0,3}")
            .prop_map(|(index, text)| StreamEvent::ThinkingDelta { index, text }),
        3 => (index.clone(), id()).prop_map(|(at, id)| call(at, &id, "read")),
        1 => (index.clone(), id(), "[{}\"a:1]{0,4}").prop_map(|(at, id, more)| json(at, &id, &more)),
        1 => (index, id()).prop_map(|(at, id)| called(at, &id)),
        1 => (id(), any::<bool>()).prop_map(|(id, is_error)| result(&id, is_error)),
        2 => proptest::option::of(reason).prop_map(|stop| StreamEvent::MessageDelta {
            usage: Usage { output: Some(1), ..Usage::default() },
            stop,
        }),
        3 => Just(StreamEvent::MessageStop),
        1 => proptest::option::of(0..9_u64).prop_map(failed),
        1 => Just(interrupted()),
        1 => (1..9_u64).prop_map(|deltas| StreamEvent::Gap { deltas }),
        1 => Just(StreamEvent::Ping),
    ]
}
