//! YAML into plain data, within limits that only an attack reaches.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned, options::MergeKeyPolicy, options::NonFiniteFloatPolicy};

use super::{Builder, MAX_DEPTH, Parts, Place, error_at};
use crate::file::SourceError;

/// Reads the one document.
pub(super) fn read(file: &str, text: &str) -> Result<(Value, Place), Vec<SourceError>> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
        merge_keys: MergeKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 8,
            max_alias_expansions_per_anchor: 100,
        },
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_documents: 1,
        },
    };
    let node: Spanned<Node> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let range = error.location().map_or(0..0, |location| range_of(text, &location));
            let message = message_of(&error.to_string());
            let hint = super::mend::hint(&message);
            vec![error_at(file, text, range, message, Some(hint))]
        })?;
    let mut builder = Builder { file, text, errors: Vec::new() };
    let (value, place) = part(&mut builder, node);
    builder.finish(value, place)
}

/// The parser's message without its own places, and in words a person knows.
fn message_of(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    let message = message.split(", set DuplicateKeyPolicy").next().unwrap_or(message);
    for (theirs, ours) in [
        ("budget breached: Documents", "the file holds more than one document"),
        ("budget breached: Depth", "the file nests too deeply"),
        ("recursion limit", "the file nests too deeply"),
        ("budget breached", "the file is larger than a file of ours can be"),
        ("alias", "the file repeats its aliases too often"),
        ("YAML merge keys", "merge keys (<<) are not used here: write the keys out"),
        ("expected string scalar", "a key must be plain text"),
    ] {
        if message.starts_with(theirs) {
            return ours.to_owned();
        }
    }
    message.to_owned()
}

fn range_of(text: &str, location: &Location) -> Range<usize> {
    if let (Some(start), Some(length)) = (location.span().byte_offset(), location.span().byte_len())
    {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        return start..start.saturating_add(usize::try_from(length).unwrap_or(0));
    }
    // Errors of the scanner know only line and column.
    let line = usize::try_from(location.line()).unwrap_or(1).max(1);
    let column = usize::try_from(location.column()).unwrap_or(1).max(1);
    let line_start = text.match_indices('\n').nth(line.wrapping_sub(2)).map_or(0, |(at, _)| at + 1);
    let rest = text[line_start..].split('\n').next().unwrap_or_default();
    let offset = rest.char_indices().nth(column - 1).map_or(rest.len(), |(at, _)| at);
    line_start + offset..line_start + offset
}

fn part(builder: &mut Builder<'_>, node: Spanned<Node>) -> (Value, Place) {
    let range = range_of(builder.text, &node.referenced);
    let mut parts = Parts::None;
    let value = match node.value {
        Node::Null => Value::Null,
        Node::Flag(flag) => Value::Bool(flag),
        Node::Whole(number) => builder.whole(&range, Some(number)),
        Node::Float(number) => builder.float(&range, Some(number)),
        Node::Text(text) => Value::String(text),
        Node::List(items) => {
            let (values, places) = items.into_iter().map(|item| part(builder, item)).unzip();
            parts = Parts::List(places);
            Value::Array(values)
        }
        Node::Table(entries) => {
            let mut values = Map::new();
            let mut places = BTreeMap::new();
            for (key, item) in entries {
                let (value, mut place) = part(builder, item);
                place.key = Some(range_of(builder.text, &key.referenced));
                values.insert(key.value.clone(), value);
                places.insert(key.value, place);
            }
            parts = Parts::Table(places);
            Value::Object(values)
        }
    };
    (value, Place { key: None, value: range, parts })
}

/// A YAML node before its numbers are judged.
#[derive(Debug)]
enum Node {
    Null,
    Flag(bool),
    Whole(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Node>>),
    Table(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain data")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Whole(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Whole(number.into()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Node, E> {
        Ok(Node::Whole(number))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Node, E> {
        Ok(Node::Whole(i128::try_from(number).unwrap_or(i128::MAX)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut table = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            table.push(entry);
        }
        Ok(Node::Table(table))
    }
}
