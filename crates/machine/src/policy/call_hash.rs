//! The hash of one exact call: what an approval is bound to, and how two calls are told apart.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Digits that a person is shown.
const SHOWN: usize = 12;

/// SHA-256 of a tool's name and its parameters. A person sees its first twelve digits, JSON has all of them.
///
/// What is hashed is the JSON text `["TOOL",INPUT]` without spaces, with the keys of every table in the order of
/// their bytes: the same call has the same hash however its parameters were ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallHash([u8; 32]);

impl CallHash {
    /// The hash of a call.
    pub fn of(tool: &str, input: &Value) -> CallHash {
        let mut text = String::from("[");
        write_text(tool, &mut text);
        text.push(',');
        write_canonical(input, &mut text);
        text.push(']');
        CallHash(Sha256::digest(text.as_bytes()).into())
    }

    /// All 64 digits.
    pub fn full(&self) -> String {
        let digit = |bits: u8| char::from(b"0123456789abcdef"[usize::from(bits)]);
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
    }

    /// Whether these are its first digits; at least as many as a person is shown.
    pub fn begins_with(&self, digits: &str) -> bool {
        digits.len() >= SHOWN && self.full().starts_with(&digits.to_ascii_lowercase())
    }
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (index, (name, value)) in fields.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_text(name, text);
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::String(said) => write_text(said, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

/// A text as JSON writes it.
fn write_text(said: &str, text: &mut String) {
    // Most have nothing to escape. Looked at in pieces, because that the processor does at once.
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    let are_plain = |bytes: &[u8]| bytes.iter().fold(true, |all, byte| all & is_plain(byte));
    if said.as_bytes().chunks(64).all(are_plain) {
        text.reserve(said.len() + 2);
        text.push('"');
        text.push_str(said);
        text.push('"');
    } else {
        text.push_str(&Value::from(said).to_string());
    }
}

impl fmt::Display for CallHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full()[..SHOWN])
    }
}

impl fmt::Debug for CallHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallHash({self})")
    }
}

impl FromStr for CallHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a call's hash: expected 64 hex digits");
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| wrong())?;
        }
        Ok(CallHash(bytes))
    }
}

impl Serialize for CallHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.full())
    }
}

impl<'de> Deserialize<'de> for CallHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hash_is_of_the_exact_call_and_not_of_the_order_of_its_keys() {
        // As `printf '["shell",{"command":"ls"}]' | sha256sum` says.
        let hash = CallHash::of("shell", &json!({ "command": "ls" }));
        assert_eq!(hash.full(), "25f8cbedc5ca85b34a6d09a55f98661acf6a8a57ffce86dabeba1437051213fd");
        let read = |text: &str| CallHash::of("t", &serde_json::from_str(text).unwrap());
        assert_eq!(
            read(r#"{"b":[1,{"d":2,"c":3}],"a":1}"#),
            read(r#"{ "a":1, "b":[1,{"c":3,"d":2}] }"#)
        );
        for other in [r#"{"b":[{"d":2,"c":3},1],"a":1}"#, r#"{"a":"1"}"#, "null", r#""null""#] {
            assert_ne!(read(other), read(r#"{"b":[1,{"d":2,"c":3}],"a":1}"#), "{other}");
        }
        assert_ne!(CallHash::of("a", &json!("b")), CallHash::of("a\",\"b", &json!("")));
    }

    proptest::proptest! {
        #[test]
        fn a_text_is_written_as_json_writes_it(
            said in "[a-z\"\\\\\n\u{1}\u{1f}\u{7f} é\u{2028}]{0,3}[a-z]{0,80}[a-z\"\\\\\t]{0,2}"
        ) {
            let mut text = String::new();
            write_text(&said, &mut text);
            proptest::prop_assert_eq!(text, json!(said).to_string());
        }
    }

    #[test]
    fn a_hash_reads_what_it_writes_and_shows_twelve_digits() {
        let hash = CallHash::of("shell", &json!({ "command": "ls" }));
        assert_eq!(hash.full().parse(), Ok(hash));
        assert_eq!(hash.to_string().len(), 12);
        assert!(hash.begins_with(&hash.to_string()) && !hash.begins_with(&hash.full()[..8]));
        for wrong in ["", "12", &"g".repeat(64), &"é".repeat(32)] {
            assert!(wrong.parse::<CallHash>().is_err(), "{wrong}");
        }
    }
}
