//! Replays captures of agents through their codecs. A capture is one JSON object a line, `dir` is `out` for what the
//! agent wrote, `in` for what was written to it, `note` for frames that were cut from the capture.

use machine::agent::{AgentEvent, AgentOrder};
use machine::stream::StreamEvent;
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
