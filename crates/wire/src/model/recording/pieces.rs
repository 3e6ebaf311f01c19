//! Words that a stream brings in pieces: a key among them lies across events, with everything between that an event has. Pieces that
//! belong together are joined, and what is covered then stands in the first of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Cover;

/// What a piece is called, in all dialects.
const PIECES: [&str; 9] = [
    "arguments",
    "content",
    "delta",
    "partial_json",
    "reasoning",
    "reasoning_content",
    "refusal",
    "text",
    "thinking",
];

/// A stream of events whose joined pieces show no key; none if they show none as they are.
pub(super) fn covered(stream: &str, cover: &Cover) -> Option<String> {
    let mut lines: Vec<Line<'_>> = stream.split_inclusive('\n').map(Line::of).collect();
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for event in lines.iter_mut().filter_map(|line| line.event.as_mut()) {
        let group = group(event);
        each(event, &group, &mut |name, piece| {
            joined.entry(name.to_owned()).or_default().push_str(piece);
            None
        });
    }
    joined.retain(|_, words| {
        let covered = cover.text(words);
        let shows = covered != *words;
        *words = covered;
        shows
    });
    if joined.is_empty() {
        return None;
    }
    let mut hidden = String::new();
    let mut told = Vec::new();
    for line in &mut lines {
        let mut changed = false;
        if let Some(event) = line.event.as_mut() {
            let group = group(event);
            each(event, &group, &mut |name, _| {
                let words = joined.get(name)?;
                changed = true;
                if told.iter().any(|known| known == name) {
                    return Some(String::new());
                }
                told.push(name.to_owned());
                Some(words.clone())
            });
        }
        match line.event.as_ref().filter(|_| changed) {
            Some(event) => hidden.push_str(&format!("data: {event}{}", line.end)),
            None => hidden.push_str(line.text),
        }
    }
    Some(hidden)
}

struct Line<'a> {
    text: &'a str,
    event: Option<Value>,
    /// How the line ends.
    end: &'a str,
}

impl Line<'_> {
    fn of(text: &str) -> Line<'_> {
        let bare = text.trim_end_matches(['\r', '\n']);
        let event = bare.strip_prefix("data:").and_then(|data| serde_json::from_str(data).ok());
        Line { text, event, end: &text[bare.len()..] }
    }
}

/// What an event says of the place that its pieces belong to.
fn group(event: &Value) -> String {
    let place = |(name, value): (&String, &Value)| {
        let counts = name == "type" || name.ends_with("index");
        counts.then(|| format!("{name}={value} "))
    };
    event.as_object().into_iter().flatten().filter_map(place).collect()
}

/// Gives each piece below a value with its name, and puts in its place what comes back.
fn each(value: &mut Value, name: &str, piece: &mut impl FnMut(&str, &str) -> Option<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = format!("{name}.{key}");
                match value {
                    Value::String(text) if PIECES.contains(&key.as_str()) => {
                        if let Some(other) = piece(&name, text) {
                            *text = other;
                        }
                    }
                    _ => each(value, &name, piece),
                }
            }
        }
        Value::Array(values) => {
            for (at, value) in values.iter_mut().enumerate() {
                // Of many at once only one may be told of, and says itself which one it is.
                let at = value.get("index").and_then(Value::as_u64).unwrap_or(at as u64);
                each(value, &format!("{name}[{at}]"), piece);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
