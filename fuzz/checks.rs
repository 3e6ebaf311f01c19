//! What is true of any bytes. Shared by the fuzz targets and by the bounded run in `crates/wire/tests/it/fuzz.rs`.

use std::collections::BTreeSet;

use machine::message::{Message, Part, Reply, Role, StopReason, conversation};
use wire::gate;
use wire::jsonrpc::{self, Incoming};
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::assemble::Limits;
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::script::{Mode, Player, Script, Served, deliver};
use wire::model::{
    Answer, Dialect, ModelRequest, Stream, StreamEvent, ToolChoice, ToolDeclaration, accepts,
};
use wire::sse;

/// Small, so that limits are reached too.
const LIMITS: Limits =
    Limits { frame: sse::Limits { line: 4096, event: 8192 }, received: 1 << 16, output: 1 << 14 };

/// The same bytes give the same events however they are cut.
pub(crate) fn sse(bytes: &[u8]) {
    let whole = frames([bytes]);
    assert_eq!(frames(bytes.chunks(1)), whole, "byte by byte");
    assert_eq!(frames(pieces(bytes)), whole, "in pieces");
}

/// An answer is the same however it is cut, and what it asks for is whole; it can go back to any provider.
pub(crate) fn decoder(dialect: &dyn Dialect, bytes: &[u8]) {
    let whole = answer(dialect, [bytes]);
    assert_eq!(answer(dialect, pieces(bytes)), whole, "in pieces");
    if bytes.len() < 1 << 12 {
        assert_eq!(answer(dialect, bytes.chunks(1)), whole, "byte by byte");
    }
    let (events, answer) = whole;
    match answer {
        Ok(reply) => {
            check_calls(&reply, &events);
            check_history(&reply);
        }
        Err(error) => check_words(&error.message),
    }
    // The same bytes as the body of an error.
    for status in [400, 429, 500] {
        check_words(&dialect.failure(status, &[], bytes).message);
    }
}

/// A script is read or refused with a place; what is read can be played in every dialect.
pub(crate) fn script_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Script::parse(text, "s.toml") {
        Ok(script) => {
            let mut player = Player::new(script);
            for turn in 0..4 {
                let turn = player.next(["", "add up", "x"][turn % 3]);
                let _ = turn.play();
                for served in Served::ALL {
                    let _ = deliver(&turn, served, "m", Mode::Stream);
                    let _ = deliver(&turn, served, "m", Mode::Whole);
                }
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused for no reason");
            let lines = text.matches('\n').count() + 1;
            for error in errors {
                assert!((1..=lines).contains(&error.line), "{error:?}");
                let _ = error.to_string();
            }
        }
    }
}

/// A line is told apart or refused with a reason; what was told apart can be said again.
pub(crate) fn jsonrpc(bytes: &[u8]) {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    match jsonrpc::classify(line) {
        Err(reason) => assert!(!reason.is_empty()),
        Ok(Incoming::Notification { method, params }) => {
            let again = jsonrpc::classify(&jsonrpc::notification(&method, &params));
            assert_eq!(again, Ok(Incoming::Notification { method, params }));
        }
        Ok(Incoming::Request { id, method, params }) => {
            let refused = jsonrpc::refusal(&id, jsonrpc::METHOD_NOT_FOUND, &method);
            assert!(!refused.contains('\n'));
            if let Some(number) = id.as_u64() {
                let again = jsonrpc::classify(&jsonrpc::request(number, &method, &params));
                assert_eq!(again, Ok(Incoming::Request { id, method, params }));
            }
        }
        Ok(Incoming::Response { .. }) => {}
    }
}

/// A gate reads the same lines however they are cut, and asks for a call only if the line is one request that every
/// reader reads in the same way.
pub(crate) fn gate_frame(bytes: &[u8]) {
    let whole = gate_lines([bytes]);
    assert_eq!(gate_lines(bytes.chunks(1)), whole, "byte by byte");
    assert_eq!(gate_lines(pieces(bytes)), whole, "in pieces");
    let toolbox = gate::Toolbox::new(&[], Some("/w".to_owned()));
    let mut session = gate::Session::default();
    for line in &whole {
        match session.take(line, &toolbox) {
            gate::Reaction::Call { tool, input, .. } => {
                let value: serde_json::Value = serde_json::from_slice(line).unwrap();
                assert_eq!(value["method"], "tools/call");
                assert_eq!(value["params"]["name"], *machine::tool::model_name(&tool));
                assert_eq!(
                    value["params"].get("arguments").unwrap_or(&serde_json::json!({})),
                    &input
                );
            }
            gate::Reaction::Answer(text) | gate::Reaction::Close(Some(text)) => {
                assert!(!text.contains('\n'));
                serde_json::from_str::<serde_json::Value>(&text).unwrap();
            }
            gate::Reaction::Close(None) | gate::Reaction::Ignore | gate::Reaction::Withdraw(_) => {}
        }
    }
}

fn gate_lines<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let (mut frames, mut lines) = (gate::Frames::default(), Vec::new());
    for chunk in chunks {
        let _ = frames.push(chunk, |line| lines.push(line.to_vec()));
    }
    lines
}

type Frames = (Vec<(String, String, String)>, Option<sse::Error>, bool);

fn frames<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Frames {
    let mut parser = sse::Parser::new(LIMITS.frame);
    let mut frames = Vec::new();
    for chunk in chunks {
        let pushed = parser.push(chunk, |frame| {
            frames.push((frame.event.to_owned(), frame.data.to_owned(), frame.id.to_owned()));
            Ok::<(), sse::Error>(())
        });
        if let Err(error) = pushed {
            return (frames, Some(error), false);
        }
    }
    (frames, None, parser.is_plausible())
}

fn answer<'a>(
    dialect: &dyn Dialect,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<StreamEvent>, Answer) {
    let mut stream = Stream::new(dialect, LIMITS).for_model("m");
    let mut events = Vec::new();
    for chunk in chunks {
        if stream.push(chunk, &mut events).is_err() {
            break;
        }
    }
    (events, stream.finish())
}

/// Cut at places that the bytes themselves decide.
fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut state = bytes
        .iter()
        .fold(7_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (piece, after) = rest.split_at(rest.len().min((state >> 33) as usize % 48 + 1));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Every call is complete: begun, ended, and one object; ids are there and unique; the answer said why it stops.
fn check_calls(reply: &Reply, events: &[StreamEvent]) {
    let mut ids = BTreeSet::new();
    for block in &reply.message.blocks {
        let Part::ToolUse { id, name, input } = &block.part else { continue };
        assert!(!id.is_empty() && ids.insert(id), "the id {id:?} is missing or comes twice");
        assert!(!name.is_empty() && input.is_object(), "{name:?} {input}");
        assert_ne!(reply.stop, StopReason::MaxTokens, "a call of an answer that was cut");
        assert_ne!(reply.stop, StopReason::Refusal, "a call of an answer that was refused");
    }
    if ids.is_empty() {
        return;
    }
    let says_why =
        |event: &StreamEvent| matches!(event, StreamEvent::MessageDelta { stop: Some(_), .. });
    assert!(events.iter().any(says_why), "a call of an answer that does not say why it stops");
    let ended = events.iter().filter(|event| matches!(event, StreamEvent::ToolUseStop { .. }));
    assert!(ended.count() >= ids.len(), "a call that never ended");
}

/// Asked again after the answer, every provider takes the history.
fn check_history(reply: &Reply) {
    let results = reply.message.blocks.iter().filter_map(|block| match &block.part {
        Part::ToolUse { id, name, .. } => Some(Part::ToolResult {
            id: id.clone(),
            name: name.clone(),
            text: "out".to_owned(),
            is_error: false,
        }),
        _ => None,
    });
    let mut blocks: Vec<_> =
        results.map(|part| machine::message::Block { part, native: None }).collect();
    blocks.extend(Message::user("go on").blocks);
    let tool = ToolDeclaration {
        name: "read".to_owned(),
        description: String::new(),
        schema: serde_json::json!({ "type": "object" }),
    };
    let request = ModelRequest {
        model: "m".to_owned(),
        system: String::new(),
        messages: conversation([
            Message::user("hi"),
            reply.message.clone(),
            Message { role: Role::User, blocks },
        ]),
        moved: 0,
        tools: vec![tool].into(),
        tool_choice: ToolChoice::Auto,
        max_tokens: None,
        temperature: None,
        effort: None,
        output_schema: None,
        cache: false,
    };
    for served in Served::ALL {
        let dialect: Box<dyn Dialect> = match served {
            Served::AnthropicMessages => Box::new(AnthropicMessages),
            Served::OpenAiChat => Box::new(OpenAiChat::openai()),
            Served::OpenAiResponses => Box::new(OpenAiResponses),
            Served::GoogleGenerate => Box::new(GoogleGenerate),
            Served::Mistral => Box::new(OpenAiChat::mistral()),
        };
        let body = dialect.encode(&request).body;
        let body = serde_json::from_slice(&body).expect("a request is JSON");
        if let Err(why) = accepts::check(served, &body) {
            panic!("{served:?} refuses: {why}\n{body}\n{:?}", reply.message);
        }
    }
}

/// Fit for a log: of bounded length, and without what moves a cursor.
fn check_words(message: &str) {
    assert!(message.len() < 4096, "{} bytes", message.len());
    assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "{message:?}");
}
