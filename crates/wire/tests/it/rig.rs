//! Streams cut in many ways, and what came of them as text.

use crate::{cuts, order};
use machine::message::{Block, Message, Part, Role, conversation};
use wire::model::assemble::Limits;
use wire::model::{Answer, Dialect, ModelRequest, Stream, StreamEvent, ToolChoice};

/// A stream in the form of Anthropic and OpenAI Responses: each line of `data` is one event, named by its
/// type.
pub(crate) fn named_events(data: &str) -> String {
    let mut out = String::new();
    for line in data.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        out.push_str(&format!("event: {}\ndata: {line}\n\n", value["type"].as_str().unwrap()));
    }
    out
}

/// Feeds the chunks until an error, then ends the stream.
pub(crate) fn run<'a>(
    dialect: &dyn Dialect,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<StreamEvent>, Answer) {
    let mut stream = Stream::new(dialect, Limits::default());
    let mut events = Vec::new();
    for chunk in chunks {
        if stream.push(chunk, &mut events).is_err() {
            break;
        }
    }
    let answer = stream.close(&mut events);
    if let Err(why) = order::check(&events, answer.as_ref().ok()) {
        panic!("{why}\n{}", show(&(events, answer)));
    }
    (events, answer)
}

/// What comes of the bytes whole; in all cuts it must be the same.
pub(crate) fn run_in_all_cuts(dialect: &dyn Dialect, bytes: &[u8]) -> (Vec<StreamEvent>, Answer) {
    cuts::same_in_all(bytes, |pieces| run(dialect, pieces))
}

/// One event a line, then the reply or the error.
pub(crate) fn show((events, answer): &(Vec<StreamEvent>, Answer)) -> String {
    let mut out = String::new();
    for event in events {
        let line = match event {
            StreamEvent::MessageStart { id, model } => format!("start {id} {model}"),
            StreamEvent::TextDelta { index, text } => format!("{index} text {text:?}"),
            StreamEvent::ThinkingDelta { index, text } => format!("{index} thinking {text:?}"),
            StreamEvent::ToolUseStart { index, id, name } => format!("{index} tool {id} {name}"),
            StreamEvent::InputJsonDelta { index, json, .. } => format!("{index} json {json}"),
            StreamEvent::ToolUseStop { index, .. } => format!("{index} tool stop"),
            StreamEvent::Native { index, raw } => format!("{index} native {raw}"),
            StreamEvent::MessageDelta { usage, stop } => {
                format!("delta {} {stop:?}", serde_json::to_string(usage).unwrap())
            }
            StreamEvent::MessageStop => "stop".to_owned(),
            StreamEvent::Ping => "ping".to_owned(),
            other => format!("{other:?}"),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out.push_str(&show_answer(answer));
    out
}

/// One block a line, or the error.
pub(crate) fn show_answer(answer: &Answer) -> String {
    match answer {
        Ok(reply) => {
            let mut out = format!(
                "=> {} {} {:?} {}\n",
                reply.id,
                reply.model,
                reply.stop,
                serde_json::to_string(&reply.usage).unwrap()
            );
            for block in &reply.message.blocks {
                out.push_str(&format!("   {}\n", serde_json::to_string(block).unwrap()));
            }
            out
        }
        Err(error) => format!(
            "=> {error} ({:?}, {})\n",
            error.retry,
            serde_json::to_string(&error.usage).unwrap()
        ),
    }
}

/// A request with nothing in it but a model.
pub(crate) fn request(model: &str, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: model.to_owned(),
        system: String::new(),
        messages: conversation(messages),
        moved: 0,
        tools: Default::default(),
        tool_choice: ToolChoice::Auto,
        max_tokens: None,
        temperature: None,
        effort: None,
        output_schema: None,
        cache: false,
    }
}

pub(crate) fn user(parts: impl IntoIterator<Item = Part>) -> Message {
    message(Role::User, parts)
}

pub(crate) fn assistant(parts: impl IntoIterator<Item = Part>) -> Message {
    message(Role::Assistant, parts)
}

fn message(role: Role, parts: impl IntoIterator<Item = Part>) -> Message {
    let blocks = parts.into_iter().map(|part| Block { part, native: None }).collect();
    Message { role, blocks }
}

pub(crate) fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

pub(crate) fn tool_use(id: &str, name: &str, input: serde_json::Value) -> Part {
    Part::ToolUse { id: id.to_owned(), name: name.to_owned(), input }
}

pub(crate) fn tool_result(id: &str, name: &str, text: &str) -> Part {
    let (id, name, text) = (id.to_owned(), name.to_owned(), text.to_owned());
    Part::ToolResult { id, name, text, is_error: false }
}
