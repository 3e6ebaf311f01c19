//! The reader of `models.toml` and its schema agree on keys and types.

use std::path::Path;

use machine::file::shape::{FileKind, schema};
use serde_json::{Value, json};

use super::{Source, parse};

#[path = "../../../machine/tests/support/fit.rs"]
mod fit;

use fit::Fit;

/// Every key there is.
const WHOLE: &str = r#"
[provider.work]
dialect = "openai_chat"
base_url = "https://models.example/v1"
key_env = "WORK_KEY"
key_command = ["pass", "show", "models"]
short_tool_ids = true
max_completion_tokens = true
tool_choice_any = true
no_stream_options = true
assistant_after_tools = true
document_url = true
decisions = "constrained"
first_piece = "30m"
next_piece = "10m"
whole_answer = "6h"
max_output = 4096
tells_cost = true
[model."work/large"]
context = 128000
price = { input = 3, output = 15.5, cache_read = 0.3, cache_write = 3.75, cache_write_long = 6, as_of = "2026-01-31", long = { over = 200000, input = 6, output = 22.5, cache_read = 0.6, cache_write = 7.5, cache_write_long = 12 } }
decisions = "native"
max_output = 8192
"#;

fn refusal(value: &Value) -> Option<String> {
    let text = toml::to_string(value).ok()?;
    let path = Path::new("models.toml");
    parse(path, text.as_bytes(), Source::User(path.to_owned())).err().map(|error| error.to_string())
}

fn ways(value: &Value, to: &str, found: &mut Vec<String>) {
    found.push(to.to_owned());
    match value {
        Value::Object(table) => table.iter().for_each(|(key, part)| {
            ways(part, &format!("{to}/{}", key.replace('/', "~1")), found);
        }),
        Value::Array(list) => list.iter().enumerate().for_each(|(index, part)| {
            ways(part, &format!("{to}/{index}"), found);
        }),
        _ => {}
    }
}

/// Whether a message is about a key or a type, which a schema can know.
fn is_about_shape(message: &str) -> bool {
    ["unknown field", "invalid type", "missing field", "unknown variant", "invalid length"]
        .iter()
        .any(|word| message.contains(word))
}

fn agree(schema: &Fit, value: &Value) {
    match (refusal(value), schema.misfit(value)) {
        (None, Some(misfit)) => {
            panic!("the reader takes what the schema refuses: {value}\n{misfit}")
        }
        (Some(message), None) if is_about_shape(&message) => {
            panic!("the schema takes what the reader refuses: {value}\n{message}")
        }
        _ => {}
    }
}

#[test]
fn every_key_fits_and_no_part_may_be_of_another_type() {
    let schema_of = schema(FileKind::Models);
    let fit = Fit::new(schema_of.clone());
    let whole: Value = toml::from_str::<toml::Value>(WHOLE).unwrap().try_into().unwrap();
    assert_eq!((refusal(&whole), fit.misfit(&whole)), (None, None));
    let mut parts = Vec::new();
    ways(&whole, "", &mut parts);
    for (table, part) in schema_of["$defs"].as_object().unwrap() {
        for key in part["properties"].as_object().unwrap().keys() {
            assert!(parts.iter().any(|way| way.ends_with(&format!("/{key}"))), "{table}.{key}");
        }
    }
    let others = [
        json!(true),
        json!(7),
        json!(-1),
        json!(1.5),
        json!("x"),
        json!([]),
        json!([7]),
        json!(["x"]),
        json!({}),
        json!({"zzz": 1}),
    ];
    // The top of a file is a table whatever is written.
    for way in parts {
        for other in others.iter().filter(|_| !way.is_empty()) {
            let mut changed = whole.clone();
            *changed.pointer_mut(&way).unwrap() = other.clone();
            agree(&fit, &changed);
        }
        let Some(Value::Object(table)) = whole.pointer(&way) else { continue };
        let mut more = whole.clone();
        more.pointer_mut(&way).unwrap()["zzz"] = json!(1);
        agree(&fit, &more);
        for key in table.keys() {
            let mut less = whole.clone();
            less.pointer_mut(&way).unwrap().as_object_mut().unwrap().remove(key);
            agree(&fit, &less);
        }
    }
}
