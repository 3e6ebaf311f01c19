//! Replays captures of agents through their codecs. A capture is one JSON object a line, `dir` is `out` for what the
//! agent wrote, `in` for what was written to it, `note` for frames that were cut from the capture.

use machine::agent::{AgentEvent, AgentOrder};
use machine::stream::StreamEvent;
use proptest::prelude::*;
use serde_json::Value;
use wire::agent::AgentCodec;

/// One line of a capture.
pub(crate) enum Frame {
    Read(Value),
    Written(Value),
}

/// The folder in which the agents of the captures worked; those call it `WORKDIR`.
pub(crate) const FOLDER: &str = "/workdir";

/// The frames of a capture.
pub(crate) fn frames(text: &str) -> Vec<Frame> {
    let text = text.replace("WORKDIR", FOLDER);
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter_map(|mut line| {
            let message = line["msg"].take();
            match line["dir"].as_str().unwrap() {
                "out" => Some(Frame::Read(message)),
                "in" => Some(Frame::Written(message)),
                "note" => None,
                other => panic!("{other}"),
            }
        })
        .collect()
}

/// All that the agent wrote, as bytes.
pub(crate) fn output(text: &str) -> Vec<u8> {
    let read = frames(text).into_iter().filter_map(|frame| match frame {
        Frame::Read(message) => Some(format!("{message}\n")),
        Frame::Written(_) => None,
    });
    read.collect::<String>().into_bytes()
}

/// What came of a replay: one line an event, and one an order.
pub(crate) struct Replay<'c> {
    pub(crate) codec: &'c mut dyn AgentCodec,
    pub(crate) events: Vec<AgentEvent>,
    pub(crate) lines: Vec<String>,
    /// What the codec wrote and the capture has not shown yet.
    pub(crate) written: Vec<Value>,
}

impl<'c> Replay<'c> {
    pub(crate) fn new(codec: &'c mut dyn AgentCodec) -> Replay<'c> {
        let opening = codec.open();
        let mut replay =
            Replay { codec, events: Vec::new(), lines: Vec::new(), written: Vec::new() };
        replay.wrote(&opening);
        replay
    }

    pub(crate) fn read(&mut self, message: &Value) {
        let mut reply = Vec::new();
        let events = self.codec.read(format!("{message}\n").as_bytes(), &mut reply);
        self.heard(events);
        self.wrote(&reply);
    }

    pub(crate) fn order(&mut self, order: AgentOrder) {
        let bytes = self.codec.order(order).unwrap();
        self.wrote(&bytes);
    }

    pub(crate) fn end(&mut self) {
        let events = self.codec.end();
        self.heard(events);
    }

    fn heard(&mut self, events: Vec<AgentEvent>) {
        self.lines.extend(events.iter().map(show));
        self.events.extend(events);
    }

    fn wrote(&mut self, bytes: &[u8]) {
        for line in std::str::from_utf8(bytes).unwrap().lines() {
            let message: Value = serde_json::from_str(line).unwrap();
            let what = message["method"].as_str().map_or_else(
                || format!("answer {}", message.get("result").unwrap_or(&message["error"])),
                str::to_owned,
            );
            self.lines.push(format!("-> {what}"));
            self.written.push(message);
        }
    }
}

/// Whether everything in `wanted` is in `is` as well; more may be in it.
pub(crate) fn holds(is: &Value, wanted: &Value) -> bool {
    match (is, wanted) {
        (Value::Object(is), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| is.get(key).is_some_and(|is| holds(is, wanted)))
        }
        (is, wanted) => is == wanted,
    }
}

/// An event in one line.
pub(crate) fn show(event: &AgentEvent) -> String {
    match event {
        AgentEvent::Stream(event) => format!("~ {}", show_stream(event)),
        other => format!("{other:?}").chars().take(600).collect(),
    }
}

fn show_stream(event: &StreamEvent) -> String {
    serde_json::to_string(event).unwrap().chars().take(300).collect()
}

/// Reads the same bytes cut at these places, and gives all events and everything that was written.
pub(crate) fn in_pieces(
    mut codec: Box<dyn AgentCodec>,
    bytes: &[u8],
    cuts: &[usize],
) -> (Vec<AgentEvent>, Vec<u8>) {
    let mut written = codec.open();
    let mut events = Vec::new();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    for pair in cuts.windows(2) {
        events.extend(codec.read(&bytes[pair[0]..pair[1]], &mut written));
    }
    events.extend(codec.end());
    (events, written)
}

/// A capture by its name.
pub(crate) type Capture = (&'static str, &'static str);

/// A codec for the capture of this name.
pub(crate) type Made = Box<dyn AgentCodec>;

/// Bytes that were cut anywhere say the same.
pub(crate) fn holds_cut(
    make: impl Fn(&str) -> Made,
    (name, text): Capture,
    cuts: &[usize],
) -> Result<(), TestCaseError> {
    let bytes = output(text);
    let whole = in_pieces(make(name), &bytes, &[]);
    prop_assert!(whole == in_pieces(make(name), &bytes, cuts));
    Ok(())
}

/// Bytes that end anywhere and are spoiled at these places lead to an end that has a name, or to a codec that can be
/// asked.
pub(crate) fn holds_spoiled(
    make: impl Fn(&str) -> Made,
    (name, text): Capture,
    end: usize,
    spoil: &[(usize, u8)],
) -> Result<(), TestCaseError> {
    let mut bytes = output(text);
    bytes.truncate(end % (bytes.len() + 1));
    for (at, byte) in spoil {
        if !bytes.is_empty() {
            let at = at % bytes.len();
            bytes[at] = *byte;
        }
    }
    let mut codec = make(name);
    codec.open();
    let mut events = codec.read(&bytes, &mut Vec::new());
    let is_ready = events.iter().any(|event| matches!(event, AgentEvent::Ready(_)));
    let prompt = AgentOrder::Prompt { text: "go on".to_owned() };
    let ordered = codec.order(prompt).is_ok();
    events.extend(codec.end());
    let ended = events.iter().any(|event| matches!(event, AgentEvent::TurnEnded(_)));
    prop_assert!(ended || (is_ready && !ordered), "{:?}", events);
    Ok(())
}

/// Frames that nobody knows, between any two lines, are told and change nothing else.
pub(crate) fn holds_among(
    make: impl Fn(&str) -> Made,
    (name, text): Capture,
    at: usize,
    unknown: &[u8],
) -> Result<(), TestCaseError> {
    let bytes = output(text);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let (before, after) = lines.split_at(at % (lines.len() + 1));
    let spoiled = [before.concat(), unknown.to_vec(), after.concat()].concat();
    let (whole, _) = in_pieces(make(name), &bytes, &[]);
    let (mut events, _) = in_pieces(make(name), &spoiled, &[]);
    events.retain(|event| match event {
        AgentEvent::Unknown { kind } => kind != "brand/new",
        AgentEvent::Malformed { .. } => false,
        _ => true,
    });
    prop_assert_eq!(events, whole);
    Ok(())
}

/// What holds for every codec, tried on the captures of one. The unknown frames have the method `brand/new`.
macro_rules! codec_laws {
    ($captures:expr, $codec:expr, $unknown:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 5))]

            #[test]
            fn any_cut_gives_the_same(
                which in 0..$captures.len(),
                cuts in proptest::collection::vec(any::<usize>(), 0..20),
            ) {
                let make = |name: &str| -> crate::agent_rig::Made { Box::new($codec(name)) };
                crate::agent_rig::holds_cut(make, $captures[which], &cuts)?;
            }

            #[test]
            fn whatever_is_spoiled_has_a_typed_end(
                which in 0..$captures.len(),
                end in any::<usize>(),
                spoil in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..8),
            ) {
                let make = |name: &str| -> crate::agent_rig::Made { Box::new($codec(name)) };
                crate::agent_rig::holds_spoiled(make, $captures[which], end, &spoil)?;
            }

            #[test]
            fn unknown_frames_anywhere_change_nothing(
                which in 0..$captures.len(),
                at in any::<usize>(),
            ) {
                let make = |name: &str| -> crate::agent_rig::Made { Box::new($codec(name)) };
                crate::agent_rig::holds_among(make, $captures[which], at, $unknown)?;
            }
        }
    };
}
pub(crate) use codec_laws;
