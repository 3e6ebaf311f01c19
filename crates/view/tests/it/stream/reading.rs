//! Reading along shows what the transcript shows, once.

use machine::event::{Event, EventKind};
use machine::id::TaskId;
use machine::message::{StopReason, Usage};
use machine::stream::StreamEvent;
use machine::time::Timestamp;
use proptest::prelude::*;
use view::stream::live::{Live, Speaker};
use view::stream::reading::Reading;
use view::transcript::{Detail, Transcript};
use view::{Line, Tone, join};

use super::{call, failed, interrupted, start, stop, text};

/// What the transcript shows of a reply.
fn whole(text: &str) -> Vec<Line> {
    let kind = EventKind::ModelReplied {
        model: "m".to_owned(),
        text: text.to_owned(),
        tools: Vec::new(),
        stop: StopReason::EndTurn,
        usage: Usage::default(),
    };
    let detail = Detail { starts: false, inner: false, output: 1, failure: 1, change: 0 };
    let event = Event { seq: 1, time: Timestamp(0), task: TaskId("t".to_owned()), kind };
    Transcript::new(detail).lines(&event)
}

/// The lines that were shown while it came, and those after.
fn read(events: &[StreamEvent], text: &str) -> (Vec<Line>, Vec<Line>) {
    let mut reading = Reading::default();
    let along = events.iter().flat_map(|event| reading.push(event)).collect();
    (along, reading.rest(whole(text)))
}

proptest! {
    #[test]
    fn in_whatever_pieces_it_comes_the_lines_are_those_of_the_transcript(
        blocks in proptest::collection::vec(
            proptest::collection::vec("[ab\n\r\t ü\u{301}\u{1b}]{1,6}", 1..6), 1..4
        )
    ) {
        let mut events = vec![start()];
        for (index, pieces) in blocks.iter().enumerate() {
            events.extend(pieces.iter().map(|piece| text(index, piece)));
        }
        let all = blocks.iter().map(|pieces| pieces.concat()).collect::<Vec<_>>().join("\n");
        let (along, after) = read(&events, &all);
        prop_assert_eq!([along, after].concat(), whole(&all));
    }
}

#[test]
fn a_line_is_shown_when_it_is_finished() {
    let mut reading = Reading::default();
    let mut shown = |event| join(&reading.push(&event));
    assert_eq!(shown(start()), "");
    assert_eq!(shown(text(0, "\n One")), "says:\n");
    assert_eq!(shown(text(0, " line\nand ")), "   One line\n");
    assert_eq!(shown(text(0, "more")), "");
    assert_eq!(join(&reading.rest(whole("\n One line\nand more"))), "  and more\n");
}

#[test]
fn a_call_ends_the_line_before_it() {
    let events = [
        start(),
        text(0, "I look.\nThen I "),
        text(0, "write"),
        call(1, "a", "write"),
        text(2, "so"),
    ];
    let (along, after) = read(&events, "I look.\nThen I write\nso");
    assert_eq!(
        (join(&along).as_str(), join(&after).as_str()),
        ("says: I look.\n  Then I write\n", "  so\n")
    );
    // A block that goes on after all was misread, and is shown whole at the end.
    let events = [start(), text(0, "I lo"), call(1, "a", "write"), text(0, "ok\n")];
    assert_eq!(read(&events, "I look\n").1, whole("I look\n"));
    let events = [start(), text(0, "I look\n"), call(1, "a", "write")];
    assert_eq!(read(&events, "I look\n").1, []);
}

#[test]
fn what_was_misread_is_shown_whole_at_the_end() {
    let events = [start(), text(1, "b\nb"), text(0, "a\na")];
    let (along, after) = read(&events, "a\na\nb\nb");
    assert_eq!(join(&along), "says: b\n  b\n  a\n");
    assert_eq!(after, whole("a\na\nb\nb"));

    let events =
        [start(), text(0, "one\ntw"), StreamEvent::Gap { deltas: 1 }, text(0, "our\nfive\n")];
    let (along, after) = read(&events, "one\ntwo\nfour\nfive\n");
    assert_eq!(
        (join(&along).as_str(), join(&after).as_str()),
        ("says: one\n", "  two\n  four\n  five\n")
    );
}

#[test]
fn an_answer_that_ends_early_is_marked() {
    let mut reading = Reading::default();
    let mut shown = |events: &[StreamEvent]| {
        events.iter().flat_map(|event| reading.push(event)).collect::<Vec<_>>()
    };
    let cut = shown(&[start(), text(0, "one\ntwo"), interrupted()]);
    assert_eq!(join(&cut), "says: one\n  two\n  … the answer was interrupted\n");
    assert_eq!(cut[2].tone, Tone::Faint);
    assert!(shown(&[start(), text(0, " \n"), failed(None)]).is_empty());
    assert_eq!(
        join(&shown(&[start(), text(0, "x"), failed(Some(1))])),
        "says: x\n  … the answer broke off\n"
    );
    assert!(shown(&[failed(None)]).is_empty(), "told once");
}

#[test]
fn what_the_model_does_is_said_in_few_words() {
    let mut live = Live::default();
    let mut doing = |events: &[StreamEvent]| {
        live.push(events);
        live.doing().unwrap_or_default()
    };
    assert_eq!(doing(&[]), "");
    assert_eq!(doing(&[start()]), "thinks");
    let thinks = |text: &str| StreamEvent::ThinkingDelta { index: 0, text: text.to_owned() };
    assert_eq!(doing(&[thinks("I should\nlook")]), "thinks: … I should look");
    let long = doing(&[thinks(&"0123456789".repeat(10))]);
    assert!(long.ends_with("0123456789") && long.chars().count() < 75, "{long}");
    assert_eq!(doing(&[text(1, "One\nTw")]), "says: … Tw");
    assert_eq!(doing(&[text(1, "o\u{1b}")]), "says: … Two\\x1b");
    assert_eq!(doing(&[call(2, "a", "shell")]), "calls shell");
    assert_eq!(doing(&stop(StopReason::ToolUse, 1)), "");
}

#[test]
fn an_agents_words_are_shown_once_however_far_the_stream_is_ahead_of_the_events() {
    let mut live = Live::default();
    live.begin(Speaker::Agent);
    let said = |lines: &[StreamEvent], live: &mut Live| join(&live.push(lines));
    let [counters, end] = stop(StopReason::ToolUse, 1);
    let along = [start(), text(0, "I look.\nThen"), call(1, "a", "Bash"), text(2, "so")];
    assert_eq!(said(&along, &mut live), "says: I look.\n  Then\n");
    assert_eq!(
        said(&[counters, end, start(), text(0, "One\nTw")], &mut live),
        "says: so\nsays: One\n"
    );
    for told in ["I look.\nThen", "so"] {
        assert_eq!(live.rest(whole(told)), [], "{told}");
    }
    assert_eq!(said(&[interrupted()], &mut live), "  Tw\n  … the answer was interrupted\n");
    assert_eq!(live.rest(whole("One\nTw")), []);
    assert_eq!(live.rest(whole("One\nTw")), whole("One\nTw"), "the same words once more");
    // What broke off is told by no event, and what was left out is told by one alone.
    said(&[start(), text(0, "x\n"), failed(Some(1)), start(), text(0, "y\nz")], &mut live);
    said(&[StreamEvent::Gap { deltas: 1 }, StreamEvent::MessageStop], &mut live);
    assert_eq!(join(&live.rest(whole("y\nzzz"))), "  zzz\n");
}
