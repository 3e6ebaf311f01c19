//! Messages, turns and states.

use machine::message::{Part, Reply, StopReason, Usage};
use machine::stream::{Interruption, StreamEvent};
use machine::time::{Span, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json as value};
use view::stream::message::{Assistant, End, Input, Message, MessageLayer, Said};
use view::stream::state::{State, StateLayer};
use view::stream::turn::{Turn, TurnEnd, TurnEvent, TurnLayer};
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::assemble::Limits;
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::script::{self, Mode, Player, Script, Served};
use wire::model::{Dialect, Stream};

use super::{any_event, call, called, failed, interrupted, json, result, start, stop, text};

fn messages(events: &[StreamEvent]) -> Vec<Message> {
    let mut layer = MessageLayer::default();
    events.iter().filter_map(|event| layer.push(event)).collect()
}

fn answer(events: &[StreamEvent]) -> Assistant {
    match messages(events).as_slice() {
        [Message::Assistant(answer)] => answer.clone(),
        other => panic!("{other:?}"),
    }
}

fn dialect(served: Served) -> Box<dyn Dialect> {
    match served {
        Served::AnthropicMessages => Box::new(AnthropicMessages),
        Served::OpenAiChat => Box::new(OpenAiChat::openai()),
        Served::OpenAiResponses => Box::new(OpenAiResponses),
        Served::GoogleGenerate => Box::new(GoogleGenerate),
        Served::Mistral => Box::new(OpenAiChat::mistral()),
    }
}

/// A reply as the layer tells it.
fn told(reply: &Reply) -> Message {
    let blocks = reply.message.blocks.iter().filter_map(|block| match &block.part {
        Part::Text { text } => Some(Said::Text(text.clone())),
        Part::Thinking { text } => Some(Said::Thinking(text.clone())),
        Part::ToolUse { id, name, input } => Some(Said::ToolUse {
            id: id.as_str().into(),
            name: name.clone(),
            input: Input::Whole(input.clone()),
        }),
        _ => None,
    });
    Message::Assistant(Assistant {
        id: reply.id.clone(),
        model: reply.model.clone(),
        blocks: blocks.collect(),
        usage: reply.usage,
        stop: Some(reply.stop),
        end: End::Whole,
        missing: 0,
    })
}

/// A script of some replies; what they say is quoted as JSON, which TOML reads too.
fn any_script() -> impl Strategy<Value = String> {
    let word = "[a-z\\n\"\\\\ü🙂 ]{0,40}";
    let says =
        (word, proptest::option::of(word), proptest::collection::vec(word, 0..3), any::<u32>());
    let reply = says.prop_map(|(said, thinking, calls, output)| {
        let mut text = format!("[[reply]]\ntext = {}\n", Value::from(format!("x{said}")));
        if let Some(thinking) = thinking {
            text.push_str(&format!("thinking = {}\n", Value::from(format!("t{thinking}"))));
        }
        let calls = calls.iter().map(|said| {
            format!("{{ tool = \"say\", input = {{ text = {} }} }}", Value::from(said.as_str()))
        });
        let calls = calls.collect::<Vec<_>>().join(", ");
        format!("{text}tool_calls = [{calls}]\nusage = {{ input = 7, output = {output} }}\n")
    });
    proptest::collection::vec(reply, 1..4).prop_map(|replies| replies.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    /// The law of the stream: whoever folds what was told live has what is in the journal.
    #[test]
    fn the_live_stream_folds_to_the_replies_in_every_dialect(text in any_script(), cut in 1..200_usize) {
        let script = Script::parse(&text, "s.toml").unwrap();
        let turns = script.replies.len();
        let mut player = Player::new(script);
        for _ in 0..turns {
            let turn = player.next("");
            let (events, embedded) = turn.play();
            let embedded = embedded.unwrap();
            prop_assert_eq!(messages(&events), [told(&embedded)]);
            for served in Served::ALL {
                let bytes = script::render(&embedded, served, Mode::Stream).chunks.concat();
                let mut stream = Stream::new(&*dialect(served), Limits::default());
                let mut events = Vec::new();
                for chunk in bytes.chunks(cut) {
                    stream.push(chunk, &mut events).unwrap();
                }
                let reply = stream.close(&mut events).unwrap();
                prop_assert_eq!(messages(&events), [told(&reply)], "{}", served.name());
            }
        }
    }

    #[test]
    fn no_row_of_events_upsets_a_layer_and_states_change_as_they_may(
        events in proptest::collection::vec(any_event(), 0..60)
    ) {
        let (mut message, mut turn, mut state) =
            (MessageLayer::default(), TurnLayer::default(), StateLayer::default());
        let mut open = false;
        for (at, event) in events.iter().enumerate() {
            message.push(event);
            for told in turn.push(event, Timestamp(at as i64)) {
                prop_assert_eq!(open, matches!(told, TurnEvent::Ended(..)), "begin and end alternate");
                open = !open;
            }
            let former = state.state().clone();
            let changed = state.push(event).cloned();
            if let Some(next) = &changed {
                prop_assert!(*next != former && next.may_follow(&former), "{former:?} {next:?}");
            }
            prop_assert_eq!(changed.unwrap_or(former), state.state().clone());
        }
    }
}

#[test]
fn calls_that_interleave_keep_their_own_arguments() {
    let mut events = vec![start(), call(0, "a", "read"), call(1, "b", "grep")];
    events.extend([json(0, "a", "{\"path\":"), json(1, "b", "{\"pat"), json(0, "a", "1}")]);
    events.extend([json(1, "b", "tern\":2}"), called(1, "b"), called(0, "a")]);
    events.extend(stop(StopReason::ToolUse, 5));
    let tool = |id: &str, name: &str, input| Said::ToolUse {
        id: id.into(),
        name: name.to_owned(),
        input: Input::Whole(input),
    };
    assert_eq!(
        answer(&events).blocks,
        [tool("a", "read", value!({"path": 1})), tool("b", "grep", value!({"pattern": 2}))]
    );
}

#[test]
fn an_answer_that_was_stopped_keeps_its_part_and_says_so() {
    let begun = [
        start(),
        text(0, "Let me "),
        text(0, "see"),
        call(1, "a", "shell"),
        json(1, "a", "{\"com"),
    ];
    let stopped = answer(&[&begun[..], &[interrupted()]].concat());
    assert_eq!(stopped.text(), "Let me see");
    assert_eq!(stopped.end, End::Interrupted(Interruption::Operator));
    let Said::ToolUse { input, .. } = &stopped.blocks[1] else { panic!("{stopped:?}") };
    assert_eq!(*input, Input::Partial("{\"com".to_owned()), "never taken for a call");

    let broken = answer(&[&begun[..], &[failed(None)]].concat());
    assert!(matches!(broken.end, End::Failed { .. }), "{broken:?}");
    assert!(matches!(messages(&[failed(None)])[..], [Message::Error { .. }]));
    assert!(messages(&[interrupted(), StreamEvent::MessageStop, text(0, "x")]).is_empty());
}

#[test]
fn what_is_missing_is_counted_and_makes_no_call() {
    let mut events = vec![start(), text(0, "a"), call(1, "a", "shell"), json(1, "a", "{}")];
    events.extend([StreamEvent::Gap { deltas: 2 }, called(1, "a")]);
    events.extend(stop(StopReason::ToolUse, 1));
    let answer = answer(&events);
    assert_eq!(answer.missing, 2);
    assert!(
        matches!(&answer.blocks[1], Said::ToolUse { input: Input::Partial(_), .. }),
        "a gap may hide half of the arguments: {answer:?}"
    );
}

/// Each event one second after the other.
fn turns(events: &[StreamEvent]) -> Vec<(Turn, TurnEnd)> {
    let mut layer = TurnLayer::default();
    let told = events
        .iter()
        .enumerate()
        .flat_map(|(at, event)| layer.push(event, Timestamp(at as i64 * 1000)));
    told.collect::<Vec<_>>()
        .into_iter()
        .filter_map(|told| match told {
            TurnEvent::Began(_) => None,
            TurnEvent::Ended(turn, end) => Some((turn, end)),
        })
        .collect()
}

#[test]
fn a_turn_goes_through_its_tools_and_its_usage_is_counted_once() {
    let counted = |output| StreamEvent::MessageDelta {
        usage: Usage { input: Some(10), output: Some(output), ..Usage::default() },
        stop: None,
    };
    let mut events = vec![failed(Some(5)), start(), counted(1), text(0, "a"), counted(2)];
    events.extend([call(1, "a", "read"), called(1, "a"), call(2, "b", "read"), called(2, "b")]);
    events.extend(stop(StopReason::ToolUse, 20));
    events.extend([result("a", false), result("b", true), start(), counted(1), text(0, "done")]);
    events.extend(stop(StopReason::EndTurn, 5));
    let [(turn, end)] = &turns(&events)[..] else { panic!("{:?}", turns(&events)) };
    assert_eq!(*end, TurnEnd::Stopped(Some(StopReason::EndTurn)));
    assert_eq!((turn.answers, turn.tool_calls, turn.tool_errors, turn.failures), (2, 2, 1, 1));
    assert_eq!((turn.usage.input, turn.usage.output), (Some(20), Some(25)));
    assert_eq!((turn.began, turn.took), (Timestamp(0), Span((events.len() as u64 - 1) * 1000)));
}

#[test]
fn a_turn_closes_for_every_reason_but_the_two_that_go_on() {
    let ends = |reason| {
        let events = [&[start(), text(0, "x")][..], &stop(reason, 1)].concat();
        turns(&events).pop().map(|(_, end)| end)
    };
    for reason in
        [StopReason::EndTurn, StopReason::MaxTokens, StopReason::StopSequence, StopReason::Refusal]
    {
        assert_eq!(ends(reason), Some(TurnEnd::Stopped(Some(reason))));
    }
    assert_eq!(ends(StopReason::ToolUse), None);
    assert_eq!(ends(StopReason::Pause), None);
    let last = |event: StreamEvent| turns(&[start(), event]).pop().map(|(_, end)| end);
    assert_eq!(last(interrupted()), Some(TurnEnd::Interrupted(Interruption::Operator)));
    assert_eq!(last(failed(None)), Some(TurnEnd::Failed { kind: "overloaded".to_owned() }));
    assert_eq!(last(failed(Some(1))), None, "it is asked again");
}

#[test]
fn states_follow_what_the_model_does() {
    let mut events = vec![failed(Some(1)), start(), text(0, "a"), text(0, "b")];
    events.extend([
        call(1, "a", "read"),
        call(2, "b", "grep"),
        json(1, "a", "{}"),
        called(1, "a"),
        called(2, "b"),
    ]);
    events.extend(stop(StopReason::ToolUse, 1));
    events.extend([
        result("b", false),
        result("b", false),
        result("a", true),
        start(),
        text(0, "x"),
    ]);
    events.extend(stop(StopReason::EndTurn, 1));
    events.extend([text(0, "late"), start(), interrupted(), start(), failed(None)]);
    let mut layer = StateLayer::default();
    let mut words = Vec::new();
    for event in &events {
        words.extend(layer.push(event).map(|state| match state {
            State::PlanningTool { tool } => format!("{} {tool}", state.word()),
            State::AwaitingToolResult { left } => format!("{} {left}", state.word()),
            _ => state.word().to_owned(),
        }));
    }
    // The second answer begins in the state that waiting for it is.
    assert_eq!(
        words.join(", "),
        "error, thinking, responding, planning_tool read, planning_tool grep, awaiting_tool_result 2, \
         awaiting_tool_result 1, thinking, responding, idle, thinking, idle, thinking, error"
    );
}
