//! Frames as the provider writes them, read without a JSON parser: what most of a stream is made of, and what every
//! answer begins and ends with. Whatever looks different in any way is left to the parser.

use std::borrow::Cow;

use crate::model::quick::string;

/// The additions that come most often; each is one piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Text,
    Thinking,
    Json,
}

/// One of them, to a block.
#[derive(Debug, PartialEq)]
pub(super) struct Addition<'f> {
    pub(super) index: usize,
    pub(super) piece: Piece,
    pub(super) text: Cow<'f, str>,
}

/// Any other frame that was understood.
#[derive(Debug, PartialEq)]
pub(super) enum Frame<'f> {
    /// An answer begins.
    Begin { id: Cow<'f, str>, model: Cow<'f, str>, counts: Counts },
    /// A block of text begins, empty.
    Text { index: usize },
    /// A call begins, without parameters yet.
    Tool { index: usize, id: Cow<'f, str>, name: Cow<'f, str> },
    /// A block ends.
    BlockStop { index: usize },
    /// Why the answer stops, and the counters.
    Delta { stop: Option<Cow<'f, str>>, counts: Counts },
    /// The answer ends.
    Stop,
    /// The connection lives.
    Ping,
}

/// The counters of a frame; those that were not sent are absent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) thinking: Option<u64>,
    pub(super) cache_read: Option<u64>,
    /// Short and long together.
    pub(super) cache_write: Option<u64>,
    pub(super) cache_write_short: Option<u64>,
    pub(super) cache_write_long: Option<u64>,
}

/// The frame, if it is written as usual.
pub(super) fn read(data: &str) -> Option<Frame<'_>> {
    let rest = data.strip_prefix(r#"{"type":""#)?;
    let (name, rest) = rest.split_once('"')?;
    let (frame, rest) = match name {
        "content_block_start" => block(rest)?,
        "content_block_stop" => {
            let (index, rest) = number(rest.strip_prefix(r#","index":"#)?)?;
            (Frame::BlockStop { index: usize::try_from(index).ok()? }, rest)
        }
        "message_start" => begin(rest)?,
        "message_delta" => delta(rest)?,
        "message_stop" => (Frame::Stop, rest),
        "ping" => (Frame::Ping, rest),
        _ => return None,
    };
    is_end(rest).then_some(frame)
}

/// The addition that a frame is, if it is written as usual. Asked first: nearly all frames are one.
pub(super) fn addition(data: &str) -> Option<Addition<'_>> {
    let (index, rest) = index(data.strip_prefix(r#"{"type":"content_block_delta""#)?)?;
    let rest = rest.strip_prefix(r#","delta":{"type":""#)?;
    let (piece, literal) = if let Some(rest) = rest.strip_prefix(r#"text_delta","text":"#) {
        (Piece::Text, rest)
    } else if let Some(rest) = rest.strip_prefix(r#"input_json_delta","partial_json":"#) {
        (Piece::Json, rest)
    } else {
        (Piece::Thinking, rest.strip_prefix(r#"thinking_delta","thinking":"#)?)
    };
    let (text, rest) = string(literal)?;
    is_end(rest.strip_prefix('}')?).then_some(Addition { index, piece, text })
}

/// Whether nothing but the end of a frame is left. Behind what it holds the provider puts a random number of spaces.
fn is_end(rest: &str) -> bool {
    let end = rest.trim_start_matches(' ').strip_prefix('}');
    rest == "}" || end.is_some_and(|rest| rest.trim_start_matches(' ').is_empty())
}

fn block(rest: &str) -> Option<(Frame<'_>, &str)> {
    let (index, rest) = index(rest)?;
    let rest = rest.strip_prefix(r#","content_block":{"type":""#)?;
    if let Some(rest) = rest.strip_prefix(r#"text","text":""}"#) {
        return Some((Frame::Text { index }, rest));
    }
    let (id, rest) = string(rest.strip_prefix(r#"tool_use","id":"#)?)?;
    let (name, rest) = string(rest.strip_prefix(r#","name":"#)?)?;
    Some((Frame::Tool { index, id, name }, rest.strip_prefix(r#","input":{}}"#)?))
}

fn begin(rest: &str) -> Option<(Frame<'_>, &str)> {
    let (mut id, mut model) = (Cow::Borrowed(""), Cow::Borrowed(""));
    let mut counts = Counts::default();
    let rest = object(rest.strip_prefix(r#","message":"#)?, |key, value| {
        Some(match key {
            "id" => text(value, &mut id)?,
            "model" => text(value, &mut model)?,
            "type" => value.strip_prefix(r#""message""#)?,
            "role" => value.strip_prefix(r#""assistant""#)?,
            "content" => value.strip_prefix("[]")?,
            "stop_reason" | "stop_sequence" => value.strip_prefix("null")?,
            "usage" => usage(value, &mut counts)?,
            _ => return None,
        })
    })?;
    Some((Frame::Begin { id, model, counts }, rest))
}

fn delta(rest: &str) -> Option<(Frame<'_>, &str)> {
    let mut stop = None;
    let rest = object(rest.strip_prefix(r#","delta":"#)?, |key, value| {
        if let Some(rest) = value.strip_prefix("null") {
            return ["stop_reason", "stop_sequence"].contains(&key).then_some(rest);
        }
        let (said, rest) = string(value)?;
        match key {
            "stop_reason" => stop = Some(said),
            "stop_sequence" => {}
            _ => return None,
        }
        Some(rest)
    })?;
    let mut counts = Counts::default();
    let rest = usage(rest.strip_prefix(r#","usage":"#)?, &mut counts)?;
    Some((Frame::Delta { stop, counts }, rest))
}

fn usage<'f>(value: &'f str, counts: &mut Counts) -> Option<&'f str> {
    *counts = Counts::default();
    object(value, |key, value| {
        let counter = match key {
            "input_tokens" => &mut counts.input,
            "output_tokens" => &mut counts.output,
            "cache_read_input_tokens" => &mut counts.cache_read,
            "cache_creation_input_tokens" => &mut counts.cache_write,
            "cache_creation" => {
                (counts.cache_write_short, counts.cache_write_long) = (None, None);
                return object(value, |key, value| match key {
                    "ephemeral_5m_input_tokens" => count(value, &mut counts.cache_write_short),
                    "ephemeral_1h_input_tokens" => count(value, &mut counts.cache_write_long),
                    _ => None,
                });
            }
            "output_tokens_details" => {
                return object(value, |key, value| match key {
                    "thinking_tokens" => count(value, &mut counts.thinking),
                    _ => None,
                });
            }
            "service_tier" => return string(value).map(|(_, rest)| rest),
            _ => return None,
        };
        count(value, counter)
    })
}

/// Reads an object without spaces: `each` gets a key and what comes after its colon, and says what comes after the
/// value. A key may come again, as it may for the parser: the last one counts.
fn object<'f>(
    text: &'f str,
    mut each: impl FnMut(&'f str, &'f str) -> Option<&'f str>,
) -> Option<&'f str> {
    let mut rest = text.strip_prefix('{')?;
    loop {
        let (key, value) = rest.strip_prefix('"')?.split_once(r#"":"#)?;
        rest = each(key, value)?;
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.strip_prefix('}'),
        }
    }
}

fn text<'f>(value: &'f str, into: &mut Cow<'f, str>) -> Option<&'f str> {
    let (said, rest) = string(value)?;
    *into = said;
    Some(rest)
}

fn count<'f>(value: &'f str, into: &mut Option<u64>) -> Option<&'f str> {
    let (found, rest) = number(value)?;
    // What comes now decides whether it was a whole number; nothing else ends one.
    rest.starts_with([',', '}']).then(|| {
        *into = Some(found);
        rest
    })
}

fn index(rest: &str) -> Option<(usize, &str)> {
    let (index, rest) = number(rest.strip_prefix(r#","index":"#)?)?;
    Some((usize::try_from(index).ok()?, rest))
}

/// A number of few digits, and what comes after it.
fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take(16).take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 15 || (digits > 1 && text.starts_with('0')) {
        return None;
    }
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_as_the_provider_writes_them_need_no_parser() {
        let begin = r#"{"type":"message_start","message":{"model":"m-1","id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":7,"cache_read_input_tokens":3,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":3},"output_tokens":1,"service_tier":"standard"}}       }"#;
        let counts = Counts {
            input: Some(25),
            output: Some(1),
            thinking: None,
            cache_read: Some(3),
            cache_write: Some(7),
            cache_write_short: Some(4),
            cache_write_long: Some(3),
        };
        assert_eq!(
            read(begin),
            Some(Frame::Begin { id: "msg_1".into(), model: "m-1".into(), counts })
        );
        let tool = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t\u00e9","name":"read","input":{}}  }"#;
        assert_eq!(
            read(tool),
            Some(Frame::Tool { index: 1, id: "té".into(), name: "read".into() })
        );
        let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}"#;
        let counts = Counts { output: Some(9), ..Counts::default() };
        assert_eq!(read(delta), Some(Frame::Delta { stop: Some("end_turn".into()), counts }));
        assert_eq!(read(r#"{"type":"ping"}"#), Some(Frame::Ping));
        for end in ["}", "  }", "}  ", " } "] {
            let text = r#"{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"a\tb"}"#;
            let text = format!("{text}{end}");
            let added = Addition { index: 3, piece: Piece::Text, text: "a\tb".into() };
            assert_eq!((addition(&text), read(&text)), (Some(added), None));
        }
    }

    #[test]
    fn anything_unusual_is_left_to_the_parser() {
        for frame in [
            r#"{ "type":"ping"}"#,
            r#"{"type":"ping"}}"#,
            r#"{"type":"ping","more":1}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":-9}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9.5}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":012}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"new_tokens":9}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":7},"usage":{"output_tokens":9}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
            r#"{"type":"message_start","message":{"id":"a","content":["x"],"usage":{"input_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"b","input":{"c":1}}}"#,
            r#"{"type":"content_block_start","index":-1,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_stop","index":0.5}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","more":1}}"#,
            r#"{"type":"content_block_delta","index":-1,"delta":{"type":"text_delta","text":"a"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"other_delta","text":"a"}}"#,
        ] {
            assert_eq!((read(frame), addition(frame)), (None, None), "{frame}");
        }
    }
}
