//! What models and agents are just saying, on its way to observers: bounded, joined where nobody has looked yet, and never
//! journaled. What does not fit is left out as whole deltas, and a mark says so: text is late or missing, never wrong.
//! It shows no secret that this process knows, also where one comes in pieces.

use std::sync::Arc;
use std::time::Duration;

use machine::id::{EffectId, TaskId};
use machine::stream::StreamEvent;

use crate::inbox::{Inbox, Line};
use crate::redact::{self, Redactor};

/// What is just being said is told at once, and what goes on within this time together: a screen shows no more pictures.
pub(crate) const PICTURE: Duration = Duration::from_millis(15);

/// Events of one call that wait at once. Deltas are left out beyond it; beyond four times as many, everything is.
const MAX_EVENTS: usize = 1024;

/// Bytes of one call's deltas that wait at once.
const MAX_BYTES: usize = 256 << 10;

/// What one call of a model said since somebody looked.
#[derive(Debug, Clone, PartialEq)]
pub struct Streamed {
    /// The task.
    pub task: Arc<TaskId>,
    /// The call.
    pub effect: EffectId,
    /// What was said, in order.
    pub events: Vec<StreamEvent>,
    bytes: usize,
}

impl Streamed {
    /// Nothing was said yet.
    pub fn new(task: Arc<TaskId>, effect: EffectId) -> Streamed {
        Streamed { task, effect, events: Vec::new(), bytes: 0 }
    }

    /// Adds an event: to the delta before it if it goes on there, else behind it. Without room for it, a mark.
    pub fn add(&mut self, event: StreamEvent) {
        let size = match &event {
            StreamEvent::TextDelta { text, .. } | StreamEvent::ThinkingDelta { text, .. } => {
                Some(text.len())
            }
            StreamEvent::InputJsonDelta { json, .. } => Some(json.len()),
            _ => None,
        };
        let Some(size) = size else {
            return if self.events.len() < 4 * MAX_EVENTS {
                self.events.push(event);
            } else {
                self.leave_out();
            };
        };
        if self.bytes + size > MAX_BYTES {
            return self.leave_out();
        }
        if self.events.last_mut().is_some_and(|last| join(last, &event)) {
            self.bytes += size;
        } else if self.events.len() < MAX_EVENTS {
            self.bytes += size;
            self.events.push(event);
        } else {
            self.leave_out();
        }
    }

    fn leave_out(&mut self) {
        match self.events.last_mut() {
            Some(StreamEvent::Gap { deltas }) => *deltas += 1,
            _ => self.events.push(StreamEvent::Gap { deltas: 1 }),
        }
    }
}

/// Appends a delta to the one before it, if it is of the same block.
fn join(last: &mut StreamEvent, next: &StreamEvent) -> bool {
    let (all, at, more, index) = match (last, next) {
        (
            StreamEvent::TextDelta { index: at, text: all },
            StreamEvent::TextDelta { index, text: more },
        )
        | (
            StreamEvent::ThinkingDelta { index: at, text: all },
            StreamEvent::ThinkingDelta { index, text: more },
        )
        | (
            StreamEvent::InputJsonDelta { index: at, json: all, .. },
            StreamEvent::InputJsonDelta { index, json: more, .. },
        ) => (all, at, more, index),
        _ => return false,
    };
    if at == index {
        all.push_str(more);
    }
    at == index
}

/// One call's line to the observers.
#[derive(Debug)]
pub struct Feed {
    inbox: Inbox,
    task: Arc<TaskId>,
    effect: EffectId,
    line: Line,
    /// Ends of deltas that may be the beginnings of secrets, one a block at most.
    held: Vec<StreamEvent>,
}

impl Feed {
    pub(crate) fn new(inbox: Inbox, task: TaskId, effect: EffectId) -> Feed {
        Feed { inbox, task: Arc::new(task), effect, line: Line::default(), held: Vec::new() }
    }

    /// Passes on what is for observers and takes everything out. The end of an answer is not passed on: it is told
    /// once it is in the journal.
    pub fn push(&mut self, events: &mut Vec<StreamEvent>) {
        self.pass_on(events, |event| !matches!(event, StreamEvent::MessageStop));
    }

    /// The same with the ends of answers: the journal has an agent's words, and does not know its answers.
    pub fn push_with_ends(&mut self, events: &mut Vec<StreamEvent>) {
        self.pass_on(events, |_| true);
    }

    fn pass_on(&mut self, events: &mut Vec<StreamEvent>, is_wanted: impl Fn(&StreamEvent) -> bool) {
        if !self.inbox.is_followed() {
            return events.clear();
        }
        if let Some(redactor) = redact::known().as_ref().filter(|redactor| !redactor.is_empty()) {
            *events = cover(redactor, &mut self.held, std::mem::take(events));
        }
        let is_told = |event: &StreamEvent| event.is_public() && is_wanted(event);
        if events.iter().any(is_told) {
            let told = events.drain(..).filter(is_told);
            let begun = || Streamed::new(Arc::clone(&self.task), self.effect);
            self.inbox.stream(&mut self.line, begun, told);
        }
        events.clear();
    }
}

/// The events without secrets, as far as they can be told by now.
fn cover(
    redactor: &Redactor,
    held: &mut Vec<StreamEvent>,
    events: Vec<StreamEvent>,
) -> Vec<StreamEvent> {
    let mut shown = Vec::with_capacity(events.len());
    for mut event in events {
        for mut before in held.extract_if(.., |before| is_over(before, &event)) {
            if let Some(text) = delta(&mut before) {
                *text = redactor.text(text).into_owned();
                shown.push(before);
            }
        }
        if let StreamEvent::Error { message, .. } = &mut event {
            *message = redactor.text(message).into_owned();
        }
        let place = held.iter().position(|before| are_of_one_block(before, &event));
        let mut before = place.map(|place| held.swap_remove(place));
        if let Some(text) = delta(&mut event) {
            let mut rest = before.as_mut().and_then(delta).map(std::mem::take).unwrap_or_default();
            let told = redactor.piece(&mut rest, text);
            *text = rest;
            let waits = (!text.is_empty()).then(|| event.clone());
            held.extend(waits);
            if let Some(text) = delta(&mut event) {
                *text = told;
            }
        }
        if delta(&mut event).is_none_or(|text| !text.is_empty()) {
            shown.push(event);
        }
    }
    shown
}

/// Whether nothing comes any more of a delta's block, once that came. Words go on in one block at a time, arguments in many.
fn is_over(before: &StreamEvent, now: &StreamEvent) -> bool {
    use StreamEvent as E;
    match (before, now) {
        (_, E::Ping | E::Native { .. }) => false,
        (E::InputJsonDelta { .. }, E::ToolUseStart { .. }) => false,
        (E::InputJsonDelta { index: at, .. }, E::ToolUseStop { index, .. }) => at == index,
        (E::InputJsonDelta { .. }, _) if is_delta(now) => false,
        _ => !are_of_one_block(before, now),
    }
}

fn is_delta(event: &StreamEvent) -> bool {
    use StreamEvent as E;
    matches!(event, E::TextDelta { .. } | E::ThinkingDelta { .. } | E::InputJsonDelta { .. })
}

fn are_of_one_block(one: &StreamEvent, other: &StreamEvent) -> bool {
    use StreamEvent as E;
    match (one, other) {
        (E::TextDelta { index: at, .. }, E::TextDelta { index, .. })
        | (E::ThinkingDelta { index: at, .. }, E::ThinkingDelta { index, .. })
        | (E::InputJsonDelta { index: at, .. }, E::InputJsonDelta { index, .. }) => at == index,
        _ => false,
    }
}

/// The text of a delta.
fn delta(event: &mut StreamEvent) -> Option<&mut String> {
    match event {
        StreamEvent::TextDelta { text, .. }
        | StreamEvent::ThinkingDelta { text, .. }
        | StreamEvent::InputJsonDelta { json: text, .. } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed() -> Streamed {
        Streamed::new(Arc::new(TaskId("t".to_owned())), EffectId(1))
    }

    fn text(index: usize, text: &str) -> StreamEvent {
        StreamEvent::TextDelta { index, text: text.to_owned() }
    }

    fn json(index: usize, id: &str, json: &str) -> StreamEvent {
        StreamEvent::InputJsonDelta { index, id: id.into(), json: json.to_owned() }
    }

    #[test]
    fn deltas_of_one_block_are_joined_and_of_two_are_not() {
        let mut waits = streamed();
        for event in
            [text(0, "a"), text(0, "b"), text(1, "c"), json(2, "x", "{"), json(2, "x", "}")]
        {
            waits.add(event);
        }
        waits.add(json(3, "y", "{}"));
        waits.add(StreamEvent::ThinkingDelta { index: 3, text: "hm".to_owned() });
        let thinks = StreamEvent::ThinkingDelta { index: 3, text: "hm".to_owned() };
        assert_eq!(
            waits.events,
            [text(0, "ab"), text(1, "c"), json(2, "x", "{}"), json(3, "y", "{}"), thinks]
        );
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole_and_marked_where_it_is_missing() {
        let mut waits = streamed();
        let half = "x".repeat(MAX_BYTES / 2 + 1);
        for event in [text(0, &half), text(0, &half), text(0, &half), text(0, "y")] {
            waits.add(event);
        }
        waits.add(StreamEvent::ToolUseStop { index: 1, id: "c".into() });
        waits.add(text(2, &half));
        let stop = StreamEvent::ToolUseStop { index: 1, id: "c".into() };
        let gap = |deltas| StreamEvent::Gap { deltas };
        assert_eq!(waits.events, [text(0, &half), gap(2), text(0, "y"), stop, gap(1)]);
    }

    #[test]
    fn what_two_calls_say_is_kept_apart_and_goes_on_after_it_was_taken() {
        let inbox = Inbox::default();
        inbox.follow();
        let task = || TaskId("t".to_owned());
        let (mut one, mut two) = (inbox.feed(task(), EffectId(1)), inbox.feed(task(), EffectId(2)));
        let taken = || {
            let streams = inbox.take(Some(std::time::Duration::ZERO), 0).streams;
            streams.into_iter().map(|s| (s.effect.0, s.events)).collect::<Vec<_>>()
        };
        one.push(&mut vec![text(0, "a")]);
        two.push(&mut vec![StreamEvent::Ping, text(0, "x"), StreamEvent::MessageStop]);
        one.push(&mut vec![text(0, "b")]);
        assert_eq!(taken(), [(1, vec![text(0, "ab")]), (2, vec![text(0, "x")])]);
        two.push(&mut vec![text(0, "y")]);
        one.push(&mut vec![StreamEvent::Ping]);
        assert_eq!(taken(), [(2, vec![text(0, "y")])]);
    }

    #[test]
    fn a_secret_that_comes_in_pieces_is_not_shown() {
        let mut redactor = Redactor::default();
        redactor.add("K", "secret-of-this-test");
        let mut held = Vec::new();
        let mut shown = |event| cover(&redactor, &mut held, vec![event]);
        assert_eq!(shown(text(0, "it is secret-of")), [text(0, "it is ")]);
        assert_eq!(shown(StreamEvent::Ping), [StreamEvent::Ping]);
        assert_eq!(shown(text(0, "-this-test, s")), [text(0, "[redacted: K], ")]);
        let start = |index, id: &str| StreamEvent::ToolUseStart {
            index,
            id: id.into(),
            name: "t".to_owned(),
        };
        assert_eq!(shown(start(1, "x")), [text(0, "s"), start(1, "x")], "words are over");
        assert_eq!(shown(json(1, "x", "\"secret-of-")), [json(1, "x", "\"")]);
        assert_eq!(shown(start(2, "y")), [start(2, "y")], "arguments of two calls come mixed");
        assert_eq!(shown(json(2, "y", "{}")), [json(2, "y", "{}")]);
        assert_eq!(shown(json(1, "x", "this-test\" sec")), [json(1, "x", "[redacted: K]\" ")]);
        let stop = StreamEvent::ToolUseStop { index: 1, id: "x".into() };
        assert_eq!(shown(stop.clone()), [json(1, "x", "sec"), stop]);
        assert_eq!(shown(text(3, "secret-of")), []);
        assert_eq!(
            shown(StreamEvent::MessageStop),
            [text(3, "secret-of"), StreamEvent::MessageStop]
        );
    }

    #[test]
    fn the_number_of_events_is_bounded_whatever_they_are() {
        let mut waits = streamed();
        for n in 0..MAX_EVENTS * 2 {
            waits.add(text(n, "x"));
        }
        assert_eq!(waits.events.len(), MAX_EVENTS + 1);
        for _ in 0..MAX_EVENTS * 8 {
            waits.add(StreamEvent::ToolUseStop { index: 1, id: "c".into() });
        }
        assert_eq!(waits.events.len(), 4 * MAX_EVENTS + 1);
        let missing = waits.events.iter().map(|event| match event {
            StreamEvent::Gap { deltas } => *deltas as usize,
            _ => 0,
        });
        let there = waits.events.len() - 2;
        assert_eq!(
            missing.sum::<usize>() + there,
            MAX_EVENTS * 10,
            "every event is there or counted"
        );
    }
}
