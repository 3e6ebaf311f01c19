//! JSON that has one reading: no key stands twice, nothing nests beyond a limit, all of it is text.
//!
//! Readers differ in which of two equal keys they take, so a gate and a tool could read different calls out of one
//! line. What is read here is read once.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The deepest nesting of lists and tables.
pub const MAX_DEPTH: usize = 64;

/// Why a line has no reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It does not even begin as JSON does: the other side speaks something else.
    Foreign,
    /// It is no JSON, or has more than one reading; the words say where.
    Malformed(String),
}

/// Reads a line.
pub fn parse(line: &[u8]) -> Result<Value, Unfit> {
    let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|byte| {
        !matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
    }) {
        return Err(Unfit::Foreign);
    }
    let text = std::str::from_utf8(line)
        .map_err(|why| Unfit::Malformed(format!("not UTF-8 at byte {}", why.valid_up_to())))?;
    let malformed = |why: serde_json::Error| Unfit::Malformed(why.to_string());
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Depth(MAX_DEPTH).deserialize(&mut reader).map_err(malformed)?;
    reader.end().map_err(malformed)?;
    Ok(value)
}

/// How much deeper a value may nest.
#[derive(Clone, Copy)]
struct Depth(usize);

impl Depth {
    fn inner<E: serde::de::Error>(self) -> Result<Depth, E> {
        let too_deep = || E::custom(format!("nested deeper than {MAX_DEPTH}"));
        self.0.checked_sub(1).map(Depth).ok_or_else(too_deep)
    }
}

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Depth {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number out of range"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut table = Map::new();
        while let Some(key) = entries.next_key_seed(Key)? {
            let value = entries.next_value_seed(inner)?;
            if table.contains_key(&key) {
                return Err(serde::de::Error::custom(format!("the key {key:?} stands twice")));
            }
            table.insert(key, value);
        }
        Ok(Value::Object(table))
    }
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        String::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn wrong(line: &[u8]) -> String {
        match parse(line) {
            Err(Unfit::Malformed(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_an_error_wherever_and_however_it_is_written() {
        for line in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"x":{"a":1,"b":2,"a":3}}]"#,
            r#"{"":1,"":2}"#,
        ] {
            assert!(wrong(line.as_bytes()).contains("stands twice"), "{line}");
        }
        assert_eq!(parse(br#"{"a":{"a":1},"b":{"a":1}}"#).unwrap()["b"]["a"], 1);
    }

    #[test]
    fn depth_text_and_ends_are_checked() {
        let nest = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(nest(MAX_DEPTH).as_bytes()).is_ok());
        assert!(wrong(nest(MAX_DEPTH + 1).as_bytes()).contains("nested deeper"));
        wrong(nest(100_000).as_bytes());
        wrong(b"{\"\xff\"");
        wrong(br#"{"a":"\ud800"}"#);
        wrong(b"{} {}");
        wrong(b"{\"a\":1e999}");
        wrong(b"");
        for line in
            [&b"GET / HTTP/1.1"[..], b"Content-Length: 10", b"\x16\x03\x01", b"\xef\xbb\xbf{}"]
        {
            assert_eq!(parse(line), Err(Unfit::Foreign));
        }
    }

    proptest! {
        #[test]
        fn what_has_one_reading_is_read_as_others_read_it(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = parse(&bytes) {
                prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), value);
            }
        }

        #[test]
        fn what_is_written_is_read(keys in prop::collection::btree_map(".{0,8}", any::<i64>(), 0..8)) {
            let value = json!({ "list": [null, true, 1.5, keys] });
            prop_assert_eq!(parse(value.to_string().as_bytes()).unwrap(), value);
        }
    }
}
