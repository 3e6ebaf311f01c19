//! The fold of events, and the policy that holds for every dialect.

use machine::message::{Part, StopReason, Usage};
use proptest::prelude::*;
use serde_json::json;
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::assemble::{Assembler, Limits, strict_json};
use wire::model::{Answer, ErrorKind, Stream, StreamEvent};

use crate::rig::run_in_all_cuts;

fn fold(events: impl IntoIterator<Item = StreamEvent>) -> Answer {
    let mut assembler = Assembler::new("dialect", 1000).for_model("asked");
    assembler.take(&mut events.into_iter().collect(), 0)?;
    assembler.finish()
}

fn kind(events: impl IntoIterator<Item = StreamEvent>) -> ErrorKind {
    fold(events).unwrap_err().kind
}

fn text(index: usize, text: &str) -> StreamEvent {
    StreamEvent::TextDelta { index, text: text.to_owned() }
}

fn stop(stop: StopReason) -> [StreamEvent; 2] {
    let usage = Usage { output: Some(5), ..Usage::default() };
    [StreamEvent::MessageDelta { usage, stop: Some(stop) }, StreamEvent::MessageStop]
}

fn tool(index: usize, id: &str, json: &str) -> [StreamEvent; 3] {
    [
        StreamEvent::ToolUseStart { index, id: id.into(), name: "read".to_owned() },
        StreamEvent::InputJsonDelta { index, id: "".into(), json: json.to_owned() },
        StreamEvent::ToolUseStop { index, id: "".into() },
    ]
}

#[test]
fn blocks_come_out_in_the_order_of_their_index() {
    let raw = json!({"type": "secret"});
    let events = [
        text(2, "c"),
        StreamEvent::ThinkingDelta { index: 0, text: "a".to_owned() },
        text(2, "d"),
        StreamEvent::Native { index: 1, raw: raw.clone() },
        StreamEvent::Native { index: 0, raw },
    ];
    let reply = fold(events.into_iter().chain(stop(StopReason::EndTurn))).unwrap();
    let blocks = reply.message.blocks;
    assert_eq!(blocks[0].part, Part::Thinking { text: "a".to_owned() });
    let native = blocks[0].native.as_ref().unwrap();
    assert_eq!((native.dialect.as_str(), native.model.as_str()), ("dialect", "asked"));
    assert_eq!(blocks[1].part, Part::Opaque);
    assert_eq!(blocks[2].part, Part::Text { text: "cd".to_owned() });
}

#[test]
fn calls_without_an_id_get_one_that_nobody_has() {
    let mut assembler = Assembler::new("dialect", 1000);
    let events = [tool(0, "call_1", "{}"), tool(1, "", "{}"), tool(2, "", "{}")].concat();
    let mut events = [events, stop(StopReason::EndTurn).to_vec()].concat();
    assembler.take(&mut events, 0).unwrap();
    let call =
        |id: &str| StreamEvent::ToolUseStart { index: 1, id: id.into(), name: "read".to_owned() };
    assert_eq!(events[4], call("call_0"), "after the start that was missing");
    assert_eq!(events[6], StreamEvent::ToolUseStop { index: 1, id: "call_0".into() });
    let reply = assembler.finish().unwrap();
    // A server that says it had finished, and asks for tools, asks for tools.
    assert_eq!(reply.stop, StopReason::ToolUse);
    let ids = reply.message.blocks.iter().map(|block| match &block.part {
        Part::ToolUse { id, .. } => id.as_str(),
        _ => "",
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["call_1", "call_0", "call_2"]);
}

#[test]
fn arguments_are_one_complete_object_or_the_answer_is_none() {
    let with = |json: &str, reason| tool(0, "t", json).into_iter().chain(stop(reason));
    for json in [
        "",
        "{",
        "{}{}",
        "[]",
        "null",
        "\"{}\"",
        r#"{"a":1,"a":2}"#,
        r#"{"a":{"b":1,"b":1}}"#,
        r#"{"a":[{"b":1,"b":1}]}"#,
        "{'a':1}",
    ] {
        assert_eq!(kind(with(json, StopReason::ToolUse)), ErrorKind::ToolArgsInvalid, "{json}");
        assert_eq!(kind(with(json, StopReason::MaxTokens)), ErrorKind::ToolArgsTruncated, "{json}");
    }
    assert_eq!(kind(with("{}", StopReason::MaxTokens)), ErrorKind::ToolArgsTruncated);
    let error = fold(with("[]", StopReason::ToolUse)).unwrap_err();
    assert_eq!(error.usage.output, Some(5), "errors are paid for too");
    let unstopped = tool(0, "t", "{}").into_iter().take(2).chain(stop(StopReason::ToolUse));
    assert_eq!(kind(unstopped), ErrorKind::ToolArgsInvalid);
}

#[test]
fn answers_that_are_none_have_their_kinds() {
    let ended = |events: Vec<StreamEvent>, reason| events.into_iter().chain(stop(reason));
    let thought = StreamEvent::ThinkingDelta { index: 0, text: "hm".to_owned() };
    assert_eq!(kind([text(0, "a")]), ErrorKind::StreamTruncated);
    assert_eq!(kind([text(0, "a"), StreamEvent::MessageStop]), ErrorKind::StreamTruncated);
    assert_eq!(kind([StreamEvent::MessageStop]), ErrorKind::EmptyCompletion);
    assert_eq!(kind(ended(vec![], StopReason::EndTurn)), ErrorKind::EmptyCompletion);
    assert_eq!(kind(ended(vec![text(0, " \n")], StopReason::EndTurn)), ErrorKind::EmptyCompletion);
    assert_eq!(kind(ended(vec![thought.clone()], StopReason::EndTurn)), ErrorKind::EmptyCompletion);
    assert_eq!(kind(ended(vec![thought], StopReason::MaxTokens)), ErrorKind::Truncated);
    assert_eq!(kind(ended(vec![], StopReason::ToolUse)), ErrorKind::MalformedToolCall);
    let twice = [tool(0, "t", "{}"), tool(1, "t", "{}")].concat();
    assert_eq!(kind(ended(twice, StopReason::ToolUse)), ErrorKind::DuplicateToolId);
    let many = |count: usize| {
        let mut assembler = Assembler::new("dialect", 1 << 20);
        let one = |at: usize| tool(at, &format!("u{at}"), "{}");
        let events = (0..count).flat_map(one).chain(stop(StopReason::ToolUse));
        assembler.take(&mut events.collect(), 0).and_then(|_| assembler.finish()).map(drop)
    };
    assert!(many(512).is_ok());
    assert_eq!(many(513).unwrap_err().kind, ErrorKind::ToolArgsInvalid);
    assert_eq!(kind([text(0, &"a".repeat(1001))]), ErrorKind::OutputTooLarge);
    let mixed = [text(0, "a"), StreamEvent::ToolUseStop { index: 0, id: "".into() }];
    assert_eq!(kind(mixed), ErrorKind::Protocol);
    assert_eq!(fold(ended(vec![], StopReason::Refusal)).unwrap().stop, StopReason::Refusal);
}

#[test]
fn the_end_says_what_the_answer_is_and_nothing_comes_after_it() {
    let mut assembler = Assembler::new("dialect", 1000);
    let late = Usage { output: Some(9), ..Usage::default() };
    let mut events = [tool(0, "t", "{").to_vec(), stop(StopReason::Refusal).to_vec()].concat();
    // Refused in the middle of a call.
    events.remove(2);
    events.push(StreamEvent::MessageDelta { usage: late, stop: None });
    events.push(text(1, "more"));
    assembler.take(&mut events, 0).unwrap();
    let end = [StreamEvent::ToolUseStop { index: 0, id: "t".into() }, StreamEvent::MessageStop];
    assert_eq!(events[events.len() - 2..], end);
    let reply = assembler.finish().unwrap();
    assert_eq!((reply.usage.output, reply.message.blocks.len()), (Some(9), 0));

    let mut assembler = Assembler::new("dialect", 1000);
    let mut events = [tool(0, "t", "{}").to_vec(), stop(StopReason::EndTurn).to_vec()].concat();
    assembler.take(&mut events, 0).unwrap();
    let asks =
        StreamEvent::MessageDelta { usage: Usage::default(), stop: Some(StopReason::ToolUse) };
    assert_eq!(events[events.len() - 2..], [asks, StreamEvent::MessageStop]);

    let mut assembler = Assembler::new("dialect", 1000);
    let mut events = [tool(0, "t", "[]").to_vec(), stop(StopReason::ToolUse).to_vec()].concat();
    assert!(assembler.take(&mut events, 0).is_err());
    assert!(matches!(events.last(), Some(StreamEvent::MessageDelta { .. })), "no end mark");
}

#[test]
fn later_counters_replace_earlier_ones_one_by_one() {
    let delta = |usage| StreamEvent::MessageDelta { usage, stop: Some(StopReason::EndTurn) };
    let reply = fold([
        delta(Usage { input: Some(1), output: Some(2), ..Usage::default() }),
        text(0, "a"),
        delta(Usage { output: Some(3), cache_read: Some(4), ..Usage::default() }),
        StreamEvent::MessageStop,
    ]);
    let usage = reply.unwrap().usage;
    assert_eq!((usage.input, usage.output, usage.cache_read), (Some(1), Some(3), Some(4)));
    assert_eq!(usage.cache_write, None);
}

#[test]
fn what_is_no_stream_is_malformed_at_once_and_a_cut_one_truncated() {
    let outcome = |bytes: &str| {
        let (events, answer) = run_in_all_cuts(&AnthropicMessages, bytes.as_bytes());
        assert!(events.is_empty());
        answer.unwrap_err().kind
    };
    for bytes in ["{\"a\":1}", "\n [1]", "<html>", "\u{feff}{}", "not gzip", "What?\nNo.\n"] {
        assert_eq!(outcome(bytes), ErrorKind::Malformed, "{bytes}");
    }
    for bytes in ["", "da", "data: {\"type\"", "event: x\n", ": hello\n", "\u{feff}dat"] {
        assert_eq!(outcome(bytes), ErrorKind::StreamTruncated, "{bytes}");
    }
}

#[test]
fn a_failed_stream_stays_failed() {
    let limits = Limits { received: 10, ..Limits::default() };
    let mut stream = Stream::new(&AnthropicMessages, limits);
    let mut events = Vec::new();
    assert_eq!(
        stream.push(b"data: 12345678", &mut events).unwrap_err().kind,
        ErrorKind::OutputTooLarge
    );
    assert_eq!(stream.push(b"\n", &mut events).unwrap_err().kind, ErrorKind::OutputTooLarge);
    assert_eq!(stream.finish().unwrap_err().kind, ErrorKind::OutputTooLarge);
}

proptest! {
    #[test]
    fn strict_json_reads_what_others_read(text in r#"[\[\]{}",:a0-9.e\-ntrul ]{0,16}"#) {
        if let Ok(value) = strict_json(&text) {
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (_, answer) = run_in_all_cuts(&AnthropicMessages, &bytes);
        prop_assert!(answer.is_err());
    }
}
