//! Shapes as JSON Schema, draft 2020-12. Every table becomes a definition, so that tables may hold each other.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{FileKind, Kind, Table};

/// What [`crate::file::check::is_name`] asks for, but that a name of dots alone is left to the reader.
const NAME: &str = "^[A-Za-z0-9_.-]{1,100}$";
/// What [`crate::time::Span::parse`] takes.
const SPAN: &str = "^\\s*([0-9]+(ms|s|m|min|h|d))+\\s*$";
/// What a size is, beside a number of bytes.
const SIZE: &str = "^[0-9]+\\s*[KkMGT]?[iB]*$";

/// The schema of a kind of file.
pub(super) fn schema(kind: FileKind) -> Value {
    let mut defs = BTreeMap::new();
    let top = of(kind.shape(), &mut defs);
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!(format!("drivetrain: {}", kind.files())));
    if let Value::Object(top) = top {
        schema.extend(top);
    }
    schema.insert("$defs".to_owned(), Value::Object(defs.into_iter().collect()));
    Value::Object(schema)
}

fn of(kind: &Kind, defs: &mut BTreeMap<String, Value>) -> Value {
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Words => json!({"type": "string", "pattern": "\\S"}),
        Kind::Name => json!({"type": "string", "pattern": NAME}),
        Kind::Like(pattern) => json!({"type": "string", "pattern": pattern}),
        Kind::Known(words) => json!({"anyOf": [{"enum": words()}, {"type": "string"}]}),
        Kind::One(words) => json!({"enum": words}),
        Kind::Whole(least, u64::MAX) => json!({"type": "integer", "minimum": least}),
        Kind::Whole(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        Kind::Exit => json!({"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX}),
        Kind::Number => json!({"type": "number", "minimum": 0}),
        Kind::Signed => json!({"type": "number"}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Span => json!({"type": "string", "pattern": SPAN, "examples": ["90s", "1h30m"]}),
        Kind::Size => json!({"anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": SIZE, "examples": ["512M", "8G"]},
        ]}),
        Kind::List(item) => json!({"type": "array", "items": of(item, defs)}),
        Kind::Some(item) => json!({"type": "array", "minItems": 1, "items": of(item, defs)}),
        Kind::Named(item) => json!({"type": "object", "additionalProperties": of(item, defs)}),
        Kind::Table(table) => reference(table, defs),
        Kind::Either(kinds) => {
            json!({"anyOf": kinds.iter().map(|kind| of(kind, defs)).collect::<Vec<_>>()})
        }
        Kind::Fields => json!({"type": "object"}),
        Kind::Any => json!({}),
    }
}

fn reference(table: &Table, defs: &mut BTreeMap<String, Value>) -> Value {
    if !defs.contains_key(table.id) {
        // The name is taken before the table is written: a table may hold itself.
        defs.insert(table.id.to_owned(), Value::Null);
        let written = write(table, defs);
        defs.insert(table.id.to_owned(), written);
    }
    json!({"$ref": format!("#/$defs/{}", table.id)})
}

fn write(table: &Table, defs: &mut BTreeMap<String, Value>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in table.keys.iter().flat_map(|group| group.iter()) {
        let mut value = of(&key.kind, defs);
        if let Value::Object(value) = &mut value {
            value.insert("description".to_owned(), json!(key.help));
        }
        properties.insert(key.name.to_owned(), value);
        if key.required {
            required.push(key.name);
        }
    }
    let mut schema = json!({
        "type": "object",
        "description": table.help,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let mut rules = Vec::new();
    for keys in table.needs {
        let any: Vec<Value> = keys.iter().map(|key| json!({"required": [key]})).collect();
        rules.push(json!({"anyOf": any}));
    }
    for when in table.when {
        let then = of(&when.kind, defs);
        rules.push(json!({
            "if": {"properties": {when.key: {"const": when.value}}, "required": [when.key]},
            "then": {"properties": {when.then: then}},
        }));
    }
    if !rules.is_empty() {
        schema["allOf"] = json!(rules);
    }
    schema
}
