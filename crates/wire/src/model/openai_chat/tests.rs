//! The chat dialect by scripts: chunks in, events and replies out; conversations in, bodies out. The helpers
//! serve the Responses dialect's tests too.

mod decode;
mod encode;
mod failure;

use machine::message::{Block, Message, Native, Part, Reply, Role, StopReason, Usage};
use serde_json::{Value, json};

use crate::model::assemble::Limits;
use crate::model::{
    Dialect, ModelError, ModelRequest, Stream, StreamEvent, ToolChoice, ToolDeclaration, cuts,
    order,
};

/// The events of these frames as short lines, and how the last frame went.
#[track_caller]
pub(in crate::model) fn events(dialect: &dyn Dialect, frames: &[String]) -> Vec<String> {
    // Whatever comes of them, the order of their events holds, and every cut of their bytes gives the same.
    let _ = reply(dialect, frames);
    let mut decoder = dialect.decoder();
    let mut lines = Vec::new();
    for frame in frames {
        let mut out = Vec::new();
        let result = decoder.frame("", frame, &mut out);
        lines.extend(out.iter().map(line));
        if let Err(error) = result {
            lines.push(format!("error {error}"));
            return lines;
        }
    }
    lines.push((if decoder.is_complete() { "complete" } else { "cut" }).to_owned());
    lines
}

/// The reply that these frames make, however their bytes are cut.
#[track_caller]
pub(in crate::model) fn reply(
    dialect: &dyn Dialect,
    frames: &[String],
) -> Result<Reply, ModelError> {
    let bytes: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    let (_, answer) = cuts::same_in_all(bytes.as_bytes(), |pieces| {
        let mut stream = Stream::new(dialect, Limits::default()).for_model("m");
        let mut events = Vec::new();
        for piece in pieces {
            if stream.push(piece, &mut events).is_err() {
                break;
            }
        }
        let answer = stream.close(&mut events);
        order::check(&events, answer.as_ref().ok()).unwrap();
        (events, answer)
    });
    answer
}

fn line(event: &StreamEvent) -> String {
    match event {
        StreamEvent::MessageStart { id, model } => format!("start {id} {model}"),
        StreamEvent::TextDelta { index, text } => format!("{index} text {text}"),
        StreamEvent::ThinkingDelta { index, text } => format!("{index} thinking {text}"),
        StreamEvent::ToolUseStart { index, id, name } => format!("{index} tool {id} {name}"),
        StreamEvent::InputJsonDelta { index, json, .. } => format!("{index} json {json}"),
        StreamEvent::ToolUseStop { index, .. } => format!("{index} stop"),
        StreamEvent::Native { index, raw } => format!("{index} native {raw}"),
        StreamEvent::MessageDelta { usage, stop } => {
            format!(
                "delta{}{}",
                usage_line(usage),
                stop.map_or(String::new(), |s| format!(" {s:?}"))
            )
        }
        StreamEvent::MessageStop => "end".to_owned(),
        StreamEvent::Ping => "ping".to_owned(),
        other => format!("{other:?}"),
    }
}

fn usage_line(usage: &Usage) -> String {
    let Usage {
        input,
        output,
        thinking,
        cache_read,
        cache_write,
        cache_write_long,
        nanodollars: _,
    } = *usage;
    [
        ("in", input),
        ("out", output),
        ("thinking", thinking),
        ("read", cache_read),
        ("write", cache_write),
        ("long", cache_write_long),
    ]
    .into_iter()
    .filter_map(|(name, count)| count.map(|count| format!(" {name}={count}")))
    .collect()
}

/// The body of a request, read back.
pub(in crate::model) fn body(dialect: &dyn Dialect, request: &ModelRequest) -> Value {
    serde_json::from_slice(&dialect.encode(request).body).unwrap()
}

pub(in crate::model) fn ask(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: "m".to_owned(),
        system: String::new(),
        messages: machine::message::conversation(messages),
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

pub(in crate::model) fn bash() -> ToolDeclaration {
    ToolDeclaration {
        name: "bash".to_owned(),
        description: "Runs a command".to_owned(),
        schema: json!({ "type": "object", "properties": { "command": { "type": "string" } } }),
    }
}

pub(in crate::model) fn user(parts: Vec<Part>) -> Message {
    let blocks = parts.into_iter().map(|part| Block { part, native: None }).collect();
    Message { role: Role::User, blocks }
}

pub(in crate::model) fn assistant(blocks: Vec<Block>) -> Message {
    Message { role: Role::Assistant, blocks }
}

pub(in crate::model) fn plain(part: Part) -> Block {
    Block { part, native: None }
}

pub(in crate::model) fn made_by(dialect: &str, model: &str, part: Part, raw: Value) -> Block {
    Block {
        part,
        native: Some(Native { dialect: dialect.to_owned(), model: model.to_owned(), raw }),
    }
}

pub(in crate::model) fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

pub(in crate::model) fn thinking(text: &str) -> Part {
    Part::Thinking { text: text.to_owned() }
}

pub(in crate::model) fn call(id: &str, input: Value) -> Part {
    Part::ToolUse { id: id.to_owned(), name: "bash".to_owned(), input }
}

pub(in crate::model) fn result(id: &str, text: &str) -> Part {
    Part::ToolResult {
        id: id.to_owned(),
        name: "bash".to_owned(),
        text: text.to_owned(),
        is_error: false,
    }
}

pub(in crate::model) fn media(media_type: &str, data: &str, name: Option<&str>) -> Part {
    Part::Media {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
        name: name.map(str::to_owned),
    }
}

/// `text` in short pieces, cut pseudo-randomly but the same in every run.
pub(in crate::model) fn cuts(text: &str, seed: u64) -> Vec<&str> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let wanted = 1 + (state % 5) as usize;
        let at = rest.char_indices().map(|(at, _)| at).nth(wanted).unwrap_or(rest.len());
        let (piece, left) = rest.split_at(at);
        pieces.push(piece);
        rest = left;
    }
    pieces
}

/// The pieces of several texts, each text's in order, otherwise mixed.
pub(in crate::model) fn interleave<'a>(texts: &[&'a str], seed: u64) -> Vec<(usize, &'a str)> {
    let mut left: Vec<std::collections::VecDeque<&str>> =
        texts.iter().zip(seed..).map(|(text, seed)| cuts(text, seed).into()).collect();
    let mut state = seed.wrapping_add(1).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let mut mixed = Vec::new();
    while left.iter().any(|pieces| !pieces.is_empty()) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let which = (state >> 20) as usize % left.len();
        if let Some(piece) = left[which].pop_front() {
            mixed.push((which, piece));
        }
    }
    mixed
}

/// The calls of a reply: id and input.
pub(in crate::model) fn calls(reply: &Reply) -> Vec<(String, Value)> {
    let call = |block: &Block| match &block.part {
        Part::ToolUse { id, input, .. } => Some((id.clone(), input.clone())),
        _ => None,
    };
    reply.message.blocks.iter().filter_map(call).collect()
}

/// What the reply says, and why it stops.
pub(in crate::model) fn says(reply: &Reply) -> (String, StopReason) {
    let text = |block: &Block| match &block.part {
        Part::Text { text } => Some(text.clone()),
        _ => None,
    };
    (reply.message.blocks.iter().filter_map(text).collect(), reply.stop)
}
