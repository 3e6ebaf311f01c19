//! Frames of both OpenAI dialects as they are read: fields that may hold anything, counters, the first check.

use std::borrow::Cow;
use std::fmt;

use machine::message::Usage;
use machine::policy::price;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor, value};
use serde_json::Value;

use crate::model::{ErrorKind, ModelError};

/// Reads a frame. What is no JSON is a malformed stream; JSON of another shape breaks the protocol.
pub(in crate::model) fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    // A derived struct would also take an array, field by field.
    if !data.trim_start().starts_with('{') {
        return Err(match serde_json::from_str::<Value>(data) {
            Ok(_) => ModelError::new(ErrorKind::Protocol, "a frame is no JSON object"),
            Err(error) => no_json(&error),
        });
    }
    serde_json::from_str(data).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            ModelError::new(ErrorKind::Protocol, format!("a frame has another shape: {error}"))
        }
        _ => no_json(&error),
    })
}

fn no_json(error: &serde_json::Error) -> ModelError {
    ModelError::new(ErrorKind::MalformedStream, format!("a frame is no JSON: {error}"))
}

/// A field that should be text. Servers put null, objects and lists in its place, and one odd field must not
/// cost the frame.
#[derive(Debug, Default)]
pub(in crate::model) enum Field<'a> {
    /// Not there, or null.
    #[default]
    Absent,
    /// Text.
    Text(Cow<'a, str>),
    /// Anything else.
    Other(Value),
}

impl Field<'_> {
    /// The text; empty if it is none.
    pub(in crate::model) fn as_str(&self) -> &str {
        match self {
            Field::Text(text) => text,
            Field::Absent | Field::Other(_) => "",
        }
    }

    /// The text, if it is one and not empty.
    pub(in crate::model) fn into_text(self) -> Option<String> {
        match self {
            Field::Text(text) if !text.is_empty() => Some(text.into_owned()),
            Field::Absent | Field::Text(_) | Field::Other(_) => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Field<'a>, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Field<'de>, E> {
        Ok(Field::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Field<'de>, E> {
        Ok(Field::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Field<'de>, E> {
        Ok(Field::Absent)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Field<'de>, E> {
        Ok(Field::Other(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Field<'de>, E> {
        Ok(Field::Other(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Field<'de>, E> {
        Ok(Field::Other(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Field<'de>, E> {
        Ok(Field::Other(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Field<'de>, A::Error> {
        Value::deserialize(value::SeqAccessDeserializer::new(list)).map(Field::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Field<'de>, A::Error> {
        Value::deserialize(value::MapAccessDeserializer::new(map)).map(Field::Other)
    }
}

/// How a dialect names its counters.
pub(in crate::model) struct Counters {
    /// All input tokens.
    pub(in crate::model) input: &'static str,
    /// The object that splits them.
    pub(in crate::model) input_details: &'static str,
    /// All output tokens.
    pub(in crate::model) output: &'static str,
    /// The object that splits them.
    pub(in crate::model) output_details: &'static str,
}

impl Counters {
    /// Reads a `usage` object. What is no whole number, or not there, is not counted; cached tokens are taken
    /// out of the input, where this API counts them too.
    pub(in crate::model) fn read(&self, usage: &Value) -> Usage {
        let details = &usage[self.input_details];
        let cache_read = details["cached_tokens"]
            .as_u64()
            // DeepSeek and Moonshot have names of their own.
            .or_else(|| usage["prompt_cache_hit_tokens"].as_u64())
            .or_else(|| usage["cached_tokens"].as_u64());
        let written = details["cache_write_tokens"].as_u64();
        let cache_write_long = details["cache_write_tokens_details"]["ttl_12h_tokens"].as_u64();
        let cache_write = written.map(|all| all.saturating_sub(cache_write_long.unwrap_or(0)));
        let cached = cache_read.unwrap_or(0).saturating_add(written.unwrap_or(0));
        let input = usage[self.input].as_u64();
        let thinking = usage[self.output_details]["reasoning_tokens"].as_u64();
        let said = usage[self.output].as_u64();
        // xAI counts reasoning beside the output, and Google's server of this dialect does not count it at all; only the
        // sum of all tells.
        let beside =
            usage["total_tokens"].as_u64().zip(input).map(|(all, of)| all.saturating_sub(of));
        Usage {
            nanodollars: said_cost(usage),
            input: input.map(|all| all.saturating_sub(cached)),
            output: said.map(|said| said.max(beside.unwrap_or(0))),
            thinking,
            cache_read,
            cache_write,
            cache_write_long,
        }
    }
}

/// What a gateway says that an answer cost, in billionths of a dollar. OpenRouter's is what it takes itself: with a key of
/// one's own for the provider behind it, that one's bill comes on top. Perplexity splits it.
fn said_cost(usage: &Value) -> Option<u64> {
    let dollars = |value: &Value| value.as_f64().and_then(price::told);
    let cost = dollars(&usage["cost"]).or_else(|| dollars(&usage["cost"]["total_cost"]))?;
    let behind = dollars(&usage["cost_details"]["upstream_inference_cost"]).unwrap_or(0);
    Some(match usage["is_byok"].as_bool() {
        Some(true) => cost.saturating_add(behind),
        Some(false) | None => cost.max(behind),
    })
}
