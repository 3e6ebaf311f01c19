//! The model that a question names, found without reading the rest of it: the whole conversation comes with each.

use std::fmt;

use memchr::{memchr2, memchr3, memmem};
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// What the key `model` of a question says; empty if there is no such text, or more than one.
pub(super) fn model(body: &[u8]) -> String {
    first(body).or_else(|| skim(body)).unwrap_or_else(|| read(body))
}

/// The same, all of it read.
fn read(body: &[u8]) -> String {
    let said = all(body, "model").unwrap_or_default();
    let mut texts = said.iter().filter_map(Value::as_str);
    texts.next().filter(|_| texts.next().is_none()).unwrap_or_default().to_owned()
}

/// Everything that a key of a question says, however often it stands there: nobody knows which one counts. None if this is no
/// question in JSON.
pub(super) fn all(body: &[u8], key: &str) -> Option<Vec<Value>> {
    let mut body = serde_json::Deserializer::from_slice(body);
    let said = body.deserialize_map(Said { key }).ok()?;
    body.end().ok().map(|()| said)
}

struct Said<'a> {
    key: &'a str,
}

impl<'de> Visitor<'de> for Said<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Vec<Value>, M::Error> {
        let mut said = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == self.key {
                said.push(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(said)
    }
}

/// The same where it stands first, as most agents write it, and no other key of that name anywhere says a text: then it is
/// not worth knowing what is inside what. None if that is not so.
fn first(body: &[u8]) -> Option<String> {
    let open = after_blanks(body, 0);
    let key = after_blanks(body, open + 1);
    let text = named_text(body, key)?;
    // Its letters could be written by their numbers, all of which begin like that.
    if body.get(open) != Some(&b'{') || memmem::find(body, br"\u006").is_some() {
        return None;
    }
    let rest = body.get(text..)?;
    let mut others = memmem::find_iter(rest, KEY);
    if others.any(|at| named_text(rest, at).is_some()) {
        return None;
    }
    let end = end_of_string(body, text + 1)?;
    serde_json::from_slice(&body[text..=end]).ok()
}

const KEY: &[u8] = b"\"model\"";

/// Where the text begins that the key here says, if it is that key and says one.
fn named_text(body: &[u8], at: usize) -> Option<usize> {
    let colon = after_blanks(body, at + body.get(at..)?.strip_prefix(KEY).map(|_| KEY.len())?);
    let text = after_blanks(body, colon + 1);
    (body.get(colon) == Some(&b':') && body.get(text) == Some(&b'"')).then_some(text)
}

/// The same, going from string to string. None if it is not certain like that.
fn skim(body: &[u8]) -> Option<String> {
    let (mut at, mut depth, mut found) = (0, 0usize, None);
    while let Some(next) = memchr3(b'"', b'{', b'}', &body[at..]) {
        at += next;
        match body[at] {
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1)?,
            _ => {
                let from = at + 1;
                at = end_of_string(body, from)?;
                let after = after_blanks(body, at + 1);
                if depth == 1 && body.get(after) == Some(&b':') {
                    let key = &body[from..at];
                    if key.contains(&b'\\') {
                        return None;
                    }
                    if key == b"model" {
                        let from = after_blanks(body, after + 1);
                        if found.is_some() || body.get(from) != Some(&b'"') {
                            return None;
                        }
                        at = end_of_string(body, from + 1)?;
                        found = Some(serde_json::from_slice(&body[from..=at]).ok()?);
                    }
                }
            }
        }
        at += 1;
    }
    if depth == 0 { found } else { None }
}

/// Where the string ends whose first letter is here.
fn end_of_string(body: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr2(b'"', b'\\', body.get(at..)?)?;
        if body[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

fn after_blanks(body: &[u8], from: usize) -> usize {
    let rest = body.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_one_text_of_the_questions_own_key_counts() {
        for (body, expected) in [
            (r#"{"model":"m","messages":[{"model":"other"}]}"#, "m"),
            (r#"{ "tools" : [ { "model": "other" }, "model" ], "model" : "m\u0041" }"#, "mA"),
            (r#"{"messages":["say \"model\":\"other\""],"model":"m"}"#, "m"),
            (r#"{"model":"m","model":"other"}"#, ""),
            (r#" { "model" : "m", "tools":[{"model":{"enum":["model"]}}, {"model": "x"}] }"#, "m"),
            (r#"{"model":"m","model":{"model":"other"},"model":null}"#, "m"),
            (r#"{"model":"m","text":"\"model\": \"other\" \u0065"}"#, "m"),
            (r#"{"messages":[{"model":"other"}]}"#, ""),
            (r#"["model","m"]"#, ""),
            (r#"{"model":"m","\u006dodel":"other"}"#, ""),
            (r#"{"model":7}"#, ""),
            (r#"{"models":"m"}"#, ""),
            ("nothing", ""),
        ] {
            assert_eq!(model(body.as_bytes()), expected, "{body}");
            assert_eq!(read(body.as_bytes()), expected, "{body}");
        }
    }

    proptest! {
        #[test]
        fn it_is_what_reading_all_of_it_gives(parts in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", " ", "\"model\"", "\"m\"", "\"\\\"model\"", "\"\\\\\"", "\"\\u006dodel\"", "1",
            "\"model\":\"m\"", "{\"model\":\"other\"}", "{\"model\":\"m\",", "\"model\":{\"type\":[]}", "\"model\" : 7", "\"tools\":[{\"model\":\"x\"}]", "\"é{\"",
        ]), 0..12)) {
            let inside = parts.concat();
            for body in [format!("{{{inside}}}"), inside] {
                if serde_json::from_str::<serde_json::Value>(&body).is_ok_and(|body| body.is_object()) {
                    prop_assert_eq!(model(body.as_bytes()), read(body.as_bytes()), "{}", body);
                } else {
                    // What is no question is none of anything; that it ends is all that counts.
                    model(body.as_bytes());
                }
            }
        }
    }
}
