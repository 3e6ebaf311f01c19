//! What an answer must be like: the part of JSON Schema that says what a value is, without references.

use serde_json::Value;

use crate::file::check::{Cursor, Problems, short, suggest};
use crate::file::shape::workflow::step::{ANSWER_SCHEMA, ANSWER_TYPES};

/// A schema that was checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schema(Value);

impl Schema {
    /// Reads a schema. What it could not hold is a problem.
    pub(super) fn read(at: &Cursor<'_>, problems: &mut Problems) -> Schema {
        check(at, problems);
        Schema(at.value.clone())
    }

    /// As it was written, for whoever has to answer.
    pub(super) fn text(&self) -> String {
        self.0.to_string()
    }

    /// The schema itself.
    pub(super) fn value(&self) -> &Value {
        &self.0
    }

    /// What is wrong with a value, if anything.
    pub(super) fn refuses(&self, value: &Value) -> Option<String> {
        refuses(&self.0, value, "the answer")
    }
}

fn check(at: &Cursor<'_>, problems: &mut Problems) {
    if !at.value.is_object() {
        return at.wrong(problems, "a JSON Schema, as a table");
    }
    for (key, entry) in at.entries() {
        match key {
            "type" => {
                let words =
                    entry.value.as_array().map_or(vec![entry.clone()], |_| entry.items(problems));
                for word in words {
                    word.choice(problems, &ANSWER_TYPES);
                }
            }
            "properties" if !entry.value.is_object() => entry.wrong(problems, "a table"),
            "properties" => entry.entries().for_each(|(_, inner)| check(&inner, problems)),
            "items" => check(&entry, problems),
            "required" => drop(entry.texts(problems)),
            "enum" => drop(entry.items(problems)),
            "minLength" | "maxLength" | "minItems" | "maxItems" => drop(entry.whole(problems)),
            "additionalProperties" => drop(entry.flag(problems)),
            "minimum" | "maximum" if !entry.value.is_number() => entry.wrong(problems, "a number"),
            key if ANSWER_SCHEMA.names().any(|known| known == key) => {}
            key => {
                let known: Vec<&str> = ANSWER_SCHEMA.names().collect();
                let hint = suggest(key, known.iter().copied())
                    .or_else(|| Some(format!("expected {}", known.join(", "))));
                problems.push_key(&entry, format!("a schema cannot say {key:?} here"), hint);
            }
        }
    }
}

fn is_a(word: &str, value: &Value) -> bool {
    match word {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    }
}

fn refuses(schema: &Value, value: &Value, place: &str) -> Option<String> {
    let wrong = |what: String| Some(format!("{place} {what}, got {}", short(value)));
    let types: Vec<&str> = match &schema["type"] {
        Value::String(word) => vec![word],
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|word| is_a(word, value)) {
        return wrong(format!("must be of type {}", types.join(" or ")));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return wrong(format!("must be one of {}", schema["enum"]));
    }
    if let Some(only) = schema.get("const")
        && only != value
    {
        return wrong(format!("must be {only}"));
    }
    let number = |key: &str| schema[key].as_f64();
    if let Some(given) = value.as_f64() {
        if let Some(least) = number("minimum").filter(|least| given < *least) {
            return wrong(format!("must be at least {least}"));
        }
        if let Some(most) = number("maximum").filter(|most| given > *most) {
            return wrong(format!("must be at most {most}"));
        }
    }
    let size = |least: &str, most: &str, size: usize, of: &str| {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        match (schema[least].as_u64(), schema[most].as_u64()) {
            (Some(least), _) if size < least => wrong(format!("must have at least {least} {of}")),
            (_, Some(most)) if size > most => wrong(format!("must have at most {most} {of}")),
            _ => None,
        }
    };
    match value {
        Value::String(text) => size("minLength", "maxLength", text.chars().count(), "characters"),
        Value::Array(items) => size("minItems", "maxItems", items.len(), "items").or_else(|| {
            let inner = schema.get("items")?;
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| refuses(inner, item, &format!("{place}[{index}]")))
        }),
        Value::Object(fields) => {
            let required = schema["required"].as_array().into_iter().flatten();
            let mut required = required.filter_map(Value::as_str);
            if let Some(missing) = required.find(|key| !fields.contains_key(*key)) {
                return Some(format!("{place} lacks {missing:?}"));
            }
            let known = schema["properties"].as_object();
            if schema["additionalProperties"] == false
                && let Some(unknown) =
                    fields.keys().find(|key| known.is_none_or(|known| !known.contains_key(*key)))
            {
                return Some(format!("{place} must not have {unknown:?}"));
            }
            known?.iter().find_map(|(key, inner)| {
                refuses(inner, fields.get(key)?, &format!("{place}.{key}"))
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_refuses_what_does_not_fit_and_says_where() {
        let schema = json!({"type": "object", "required": ["files"], "additionalProperties": false,
            "properties": {"files": {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": 3}},
                           "level": {"enum": ["low", "high"]}, "count": {"type": "integer", "minimum": 0}}});
        let mut problems = Problems::default();
        let schema = Schema::read(&Cursor::top(&schema), &mut problems);
        assert!(problems.is_empty());
        for (value, wanted) in [
            (json!({"files": ["a"]}), None),
            (json!([]), Some("the answer must be of type object, got a list")),
            (json!({}), Some("the answer lacks \"files\"")),
            (json!({"files": []}), Some("the answer.files must have at least 1 items, got a list")),
            (
                json!({"files": ["abcd"]}),
                Some("the answer.files[0] must have at most 3 characters, got \"abcd\""),
            ),
            (
                json!({"files": ["a"], "level": "x"}),
                Some("the answer.level must be one of [\"low\",\"high\"], got \"x\""),
            ),
            (
                json!({"files": ["a"], "count": -1}),
                Some("the answer.count must be at least 0, got -1"),
            ),
            (json!({"files": ["a"], "x": 1}), Some("the answer must not have \"x\"")),
        ] {
            assert_eq!(schema.refuses(&value).as_deref(), wanted, "{value}");
        }
        let wrong = json!({"type": "strin", "patern": "x"});
        Schema::read(&Cursor::top(&wrong), &mut problems);
        insta::assert_snapshot!(problems.line(), @r#"patern: a schema cannot say "patern" here; expected type, properties, required, items, enum, const, minimum, maximum, minLength, maxLength, minItems, maxItems, additionalProperties, title, description, default, $schema; type: "strin" must be one of object, array, string, integer, number, boolean, null; did you mean "string"?"#);
    }
}
