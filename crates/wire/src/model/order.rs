//! What the vocabulary promises, as a check over the events of one answer: for the tests of every dialect.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::message::{Reply, StopReason, Usage};
use machine::stream::StreamEvent;

/// Says which promise the events of one answer break. An answer that failed has no end mark; one that did not says
/// by its events what it cost and why it stops.
pub(crate) fn check(events: &[StreamEvent], reply: Option<&Reply>) -> Result<(), String> {
    let mut order = Order::default();
    for (at, event) in events.iter().filter(|event| event.is_public()).enumerate() {
        order.take(event).map_err(|why| format!("event {at}, {event:?}: {why}"))?;
    }
    match (reply, order.ended) {
        (Some(_), false) => Err("the answer is whole and has no message_stop".to_owned()),
        (None, true) => Err("there is no answer, but a message_stop".to_owned()),
        (Some(reply), true) if (order.usage, order.stop) != (reply.usage, Some(reply.stop)) => {
            Err(format!("the events say {:?} {:?}, the answer {reply:?}", order.usage, order.stop))
        }
        (Some(_), true) | (None, false) => Ok(()),
    }
}

#[derive(Default)]
struct Order {
    begun: bool,
    ended: bool,
    /// The calls by block, and whether each has ended.
    calls: BTreeMap<usize, (Arc<str>, bool)>,
    usage: Usage,
    stop: Option<StopReason>,
}

impl Order {
    fn take(&mut self, event: &StreamEvent) -> Result<(), String> {
        let is_start = matches!(event, StreamEvent::MessageStart { .. });
        if self.ended {
            return Err("comes after message_stop".to_owned());
        }
        if is_start == self.begun {
            return Err("message_start must come first, and once".to_owned());
        }
        match event {
            StreamEvent::MessageStart { .. } => self.begun = true,
            StreamEvent::ToolUseStart { id, .. } if id.is_empty() => {
                return Err("a call without an id".to_owned());
            }
            StreamEvent::ToolUseStart { index, id, .. } => {
                if self.calls.insert(*index, (id.clone(), false)).is_some() {
                    return Err("a call begins twice".to_owned());
                }
            }
            StreamEvent::InputJsonDelta { index, id, .. } => {
                if self.calls.get(index) != Some(&(id.clone(), false)) {
                    return Err("not of a call that is open".to_owned());
                }
            }
            StreamEvent::ToolUseStop { index, id } => {
                if self.calls.insert(*index, (id.clone(), true)) != Some((id.clone(), false)) {
                    return Err("not of a call that is open".to_owned());
                }
            }
            StreamEvent::MessageDelta { usage, stop } => {
                self.usage.update(usage);
                self.stop = stop.or(self.stop);
            }
            StreamEvent::MessageStop => {
                self.ended = true;
                if let Some((id, _)) = self.calls.values().find(|(_, ended)| !ended) {
                    return Err(format!("the call {id} has not ended"));
                }
            }
            StreamEvent::TextDelta { .. } | StreamEvent::ThinkingDelta { .. } => {}
            StreamEvent::ToolResult { .. }
            | StreamEvent::Error { .. }
            | StreamEvent::Interrupted { .. }
            | StreamEvent::Gap { .. } => return Err("no provider sends this".to_owned()),
            // Not public.
            StreamEvent::Native { .. } | StreamEvent::Ping => {}
        }
        Ok(())
    }
}
