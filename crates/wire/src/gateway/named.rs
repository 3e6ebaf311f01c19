//! The model that a question names, found without reading the rest of it: the whole conversation comes with each.

use memchr::{memchr2, memchr3};
use serde::Deserialize;

/// What the key `model` of a question says; empty if there is no such text, or more than one.
pub(super) fn model(body: &[u8]) -> String {
    skim(body).unwrap_or_else(|| read(body))
}

/// The same, all of it read.
fn read(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        model: String,
    }
    serde_json::from_slice::<Named>(body).map(|named| named.model).unwrap_or_default()
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
    let blanks = body[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    from + blanks
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
            "\"model\":\"m\"", "{\"model\":\"other\"}", "\"tools\":[{\"model\":\"x\"}]", "\"é{\"",
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
