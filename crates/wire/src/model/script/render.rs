//! The bytes with which a server answers: one file a dialect, and what they share.

mod anthropic;
mod chat;
mod google;
mod responses;

use machine::message::{Part, Reply, Usage};
use machine::time::Span;
use serde_json::{Value, json};

use super::{Failure, Outcome, Served, Turn};
use crate::model::ErrorKind;

/// A moment in the past for fields that want one: nothing here knows the time.
const CREATED: u64 = 1_700_000_000;
/// Texts stream in pieces of so many characters, and never in more than so many pieces.
const PIECE: usize = 16;
const MAX_PIECES: usize = 500;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One JSON document.
    Whole,
    /// Server-sent events.
    Stream,
    /// Server-sent events without counters, as OpenAI's chat sends them unless asked for more.
    StreamWithoutUsage,
}

/// An answer as bytes. Each chunk is one write; together they are the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub chunks: Vec<Vec<u8>>,
}

/// How a turn is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Wait this long first.
    pub delay: Span,
    /// Then send this.
    pub rendered: Rendered,
    /// Be silent before the chunk of this number; if there is none, before the end.
    pub stall: Option<(usize, Span)>,
    /// Be silent so long before every chunk.
    pub drip: Span,
    /// How the connection ends.
    pub ending: Ending,
}

/// How the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Whole,
    /// In the middle: close it without finishing the body.
    Cut,
    /// At once: close it before anything is sent.
    HangUp,
}

/// The failures that a script can ask for by their meaning, with their usual status.
pub const FAILURES: &[(ErrorKind, u16)] = &[
    (ErrorKind::Config, 400),
    (ErrorKind::History, 400),
    (ErrorKind::Auth, 401),
    (ErrorKind::RateLimited, 429),
    (ErrorKind::Quota, 429),
    (ErrorKind::Overloaded, 503),
    (ErrorKind::Server, 500),
    (ErrorKind::ContextOverflow, 400),
    (ErrorKind::TooLarge, 413),
];

/// The bytes of a reply in a dialect.
pub fn render(reply: &Reply, dialect: Served, mode: Mode) -> Rendered {
    let chunks = match (dialect, mode) {
        (Served::AnthropicMessages, Mode::Whole) => vec![document(&anthropic::whole(reply))],
        (Served::AnthropicMessages, _) => anthropic::stream(reply),
        (Served::OpenAiChat, Mode::Whole) => {
            vec![document(&chat::whole(reply, chat::Kind::OpenAi))]
        }
        (Served::OpenAiChat, mode) => {
            chat::stream(reply, chat::Kind::OpenAi, mode != Mode::StreamWithoutUsage)
        }
        (Served::Mistral, Mode::Whole) => vec![document(&chat::whole(reply, chat::Kind::Mistral))],
        (Served::Mistral, _) => chat::stream(reply, chat::Kind::Mistral, true),
        (Served::OpenAiResponses, Mode::Whole) => vec![document(&responses::whole(reply))],
        (Served::OpenAiResponses, _) => responses::stream(reply),
        (Served::GoogleGenerate, Mode::Whole) => vec![document(&google::whole(reply))],
        (Served::GoogleGenerate, _) => google::stream(reply),
    };
    let kind = match mode {
        Mode::Whole => "application/json",
        Mode::Stream | Mode::StreamWithoutUsage => "text/event-stream",
    };
    let mut headers = vec![("content-type".to_owned(), kind.to_owned())];
    let id = match dialect {
        Served::AnthropicMessages => "request-id",
        Served::OpenAiChat | Served::OpenAiResponses | Served::GoogleGenerate | Served::Mistral => {
            "x-request-id"
        }
    };
    headers.push((id.to_owned(), format!("req_{}", reply.id)));
    Rendered { status: 200, headers, chunks }
}

/// The bytes of an HTTP error in a dialect.
pub fn render_failure(failure: &Failure, dialect: Served) -> Rendered {
    let body = match &failure.body {
        Some(body) => body.clone().into_bytes(),
        None => document(&match dialect {
            Served::AnthropicMessages => anthropic::failure(failure),
            Served::OpenAiChat | Served::OpenAiResponses => chat::failure(failure),
            Served::Mistral => chat::mistral_failure(failure),
            Served::GoogleGenerate => google::failure(failure),
        }),
    };
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
    let kind = if is_json { "application/json" } else { "text/html" };
    let mut headers = vec![("content-type".to_owned(), kind.to_owned())];
    if let Some(Span(wait)) = failure.retry_after {
        headers.push(("retry-after".to_owned(), wait.div_ceil(1000).to_string()));
        if wait % 1000 != 0 {
            headers.push(("retry-after-ms".to_owned(), wait.to_string()));
        }
    }
    Rendered { status: failure.status, headers, chunks: vec![body] }
}

/// How a server sends a turn to somebody who asked for `model`.
pub fn deliver(turn: &Turn, dialect: Served, model: &str, mode: Mode) -> Delivery {
    let named = |reply: &Reply| Reply { model: model.to_owned(), ..reply.clone() };
    let mut drip = Span::default();
    let (rendered, stall, ending) = match &turn.outcome {
        Outcome::Reply(reply) => (render(&named(reply), dialect, mode), None, Ending::Whole),
        Outcome::Failure(failure) => (render_failure(failure, dialect), None, Ending::Whole),
        Outcome::Stall { reply, stall } => {
            (render(&named(reply), dialect, mode), Some((1, *stall)), Ending::Whole)
        }
        Outcome::Drip { reply, pause } => {
            drip = *pause;
            (render(&named(reply), dialect, mode), None, Ending::Whole)
        }
        Outcome::HangUp => {
            let nothing = Rendered { status: 200, headers: Vec::new(), chunks: Vec::new() };
            (nothing, None, Ending::HangUp)
        }
        Outcome::Cut { reply, after_bytes, stall } => {
            let mut rendered = render(&named(reply), dialect, mode);
            rendered.chunks = cut(rendered.chunks, *after_bytes);
            let stall = (stall.0 > 0).then_some((rendered.chunks.len(), *stall));
            (rendered, stall, Ending::Cut)
        }
    };
    Delivery { delay: turn.delay, rendered, stall, drip, ending }
}

/// The first bytes of a body.
fn cut(chunks: Vec<Vec<u8>>, after_bytes: u64) -> Vec<Vec<u8>> {
    let mut left = usize::try_from(after_bytes).unwrap_or(usize::MAX);
    let mut kept = Vec::new();
    for mut chunk in chunks {
        chunk.truncate(left);
        left -= chunk.len();
        if chunk.is_empty() {
            break;
        }
        kept.push(chunk);
    }
    kept
}

/// A text in pieces, cut between characters. At least one, so that an empty text is a block too.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    let size = PIECE.max(characters.len().div_ceil(MAX_PIECES));
    let mut pieces: Vec<String> =
        characters.chunks(size).map(|piece| piece.iter().collect()).collect();
    if pieces.is_empty() {
        pieces.push(String::new());
    }
    pieces.into_iter()
}

fn document(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// An event with a name.
fn event(name: &str, data: &Value) -> Vec<u8> {
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

/// An event without a name.
fn data(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

/// The blocks that a model can say, numbered.
fn said(reply: &Reply) -> impl Iterator<Item = (usize, &Part)> {
    let parts = reply.message.blocks.iter().map(|block| &block.part);
    parts
        .filter(|part| match part {
            Part::Text { .. } | Part::Thinking { .. } | Part::ToolUse { .. } => true,
            Part::ToolResult { .. } | Part::Media { .. } | Part::Opaque => false,
        })
        .enumerate()
}

/// All text, or all thinking, in one.
fn joined(reply: &Reply, is_wanted: fn(&Part) -> Option<&str>) -> Option<String> {
    let texts: Vec<&str> = said(reply).filter_map(|(_, part)| is_wanted(part)).collect();
    (!texts.is_empty()).then(|| texts.concat())
}

fn text_of(part: &Part) -> Option<&str> {
    if let Part::Text { text } = part { Some(text) } else { None }
}

fn thinking_of(part: &Part) -> Option<&str> {
    if let Part::Thinking { text } = part { Some(text) } else { None }
}

/// The size of the whole context, which some dialects count as one.
fn prompt(usage: &Usage) -> u64 {
    usage.context()
}

/// Whether any counter is given.
fn is_counted(usage: &Usage) -> bool {
    *usage != Usage::default()
}

/// What a provider says of a failure of this kind, in words that its clients know it by.
fn words(failure: &Failure, overflow: &str, history: &str) -> String {
    if let Some(message) = &failure.message {
        return message.clone();
    }
    match failure.kind {
        ErrorKind::ContextOverflow => overflow.to_owned(),
        ErrorKind::History => history.to_owned(),
        ErrorKind::Overloaded => "The model is overloaded.".to_owned(),
        ErrorKind::Quota => "You exceeded your current quota.".to_owned(),
        _ => failure.message(),
    }
}

/// Keys whose values are known.
fn counters(list: &[(&str, Option<u64>)]) -> Value {
    let known = list.iter().filter_map(|(key, value)| Some(((*key).to_owned(), json!((*value)?))));
    Value::Object(known.collect())
}
