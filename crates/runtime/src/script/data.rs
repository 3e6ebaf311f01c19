//! Between plain data and the values of a script.

use rhai::{Array, Dynamic, Map as Table};
use serde_json::{Map, Number, Value};

/// No file of ours nests deeper.
const MAX_DEPTH: usize = 48;

/// Plain data as a script sees it.
pub(super) fn dynamic(value: &Value) -> Dynamic {
    match value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.clone().into(),
        Value::Array(items) => items.iter().map(dynamic).collect::<Array>().into(),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.as_str().into(), dynamic(value)));
            entries.collect::<Table>().into()
        }
    }
}

/// What a script gave as plain data. Functions, ranges and numbers that are not finite are none.
pub(super) fn value(given: &Dynamic) -> Result<Value, String> {
    convert(given, &mut Vec::new())
}

fn convert(given: &Dynamic, way: &mut Vec<String>) -> Result<Value, String> {
    let wrong = |way: &[String], what: &str| {
        let at = if way.is_empty() { String::new() } else { format!("{}: ", way.concat()) };
        Err(format!("{at}{what}"))
    };
    if way.len() > MAX_DEPTH {
        return wrong(&way[..4], "the script's result nests too deeply");
    }
    if given.is_unit() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = given.as_bool() {
        return Ok(Value::Bool(flag));
    }
    if let Ok(whole) = given.as_int() {
        return Ok(Value::Number(whole.into()));
    }
    if let Ok(number) = given.as_float() {
        return match Number::from_f64(number) {
            Some(number) => Ok(Value::Number(number)),
            None => wrong(way, "the number must be finite"),
        };
    }
    if let Ok(letter) = given.as_char() {
        return Ok(Value::String(letter.to_string()));
    }
    if let Some(text) = given.read_lock::<rhai::ImmutableString>() {
        return Ok(Value::String(text.to_string()));
    }
    if let Some(items) = given.read_lock::<Array>() {
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            way.push(format!("[{index}]"));
            list.push(convert(item, way)?);
            way.pop();
        }
        return Ok(Value::Array(list));
    }
    if let Some(entries) = given.read_lock::<Table>() {
        let mut table = Map::new();
        for (key, entry) in entries.iter() {
            way.push(if way.is_empty() { key.to_string() } else { format!(".{key}") });
            table.insert(key.to_string(), convert(entry, way)?);
            way.pop();
        }
        return Ok(Value::Object(table));
    }
    let kind = match given.type_name() {
        kind if kind.contains("FnPtr") || kind == "Fn" => "a function",
        kind if kind.contains("Range") => "a range",
        _ => "a value of this kind",
    };
    wrong(way, &format!("{kind} is not data: give text, numbers, true or false, lists and maps"))
}
