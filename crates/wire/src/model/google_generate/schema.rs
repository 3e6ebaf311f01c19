//! JSON schemas, reduced to the part of them that Google reads.
//!
//! A key it does not know makes it refuse the whole request, so what cannot be said is left out or, where it
//! would be missed, said in the description. The reduced schema never allows less than the given one.

use serde_json::{Map, Value, json};

/// The keys of Google's `Schema` that are copied as they are.
const COPIED: &[&str] = &[
    "description",
    "title",
    "nullable",
    "default",
    "example",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "pattern",
    "propertyOrdering",
];

/// The formats it knows, by type; any other is an error.
const FORMATS: &[(&str, &[&str])] = &[
    ("string", &["date-time", "enum"]),
    ("integer", &["int32", "int64"]),
    ("number", &["float", "double"]),
];

/// References are resolved in place; deeper than this they are cut, as a recursive type would never end.
const MAX_DEPTH: usize = 12;
/// A small schema can spell out to a very large one.
const MAX_NODES: usize = 2000;

/// Reduces a schema.
pub(super) fn reduce(schema: &Value) -> Value {
    Reducer { root: schema, nodes: 0 }.node(schema, 0)
}

/// Whether a reduced schema of parameters says anything: an object without properties is refused.
pub(super) fn has_properties(reduced: &Value) -> bool {
    reduced["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

struct Reducer<'s> {
    root: &'s Value,
    nodes: usize,
}

impl Reducer<'_> {
    fn node(&mut self, schema: &Value, depth: usize) -> Value {
        self.nodes += 1;
        let mut out = Map::new();
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Value::Object(out);
        }
        let Some(given) = schema.as_object() else { return Value::Object(out) };
        if let Some(name) = given.get("$ref").and_then(Value::as_str) {
            let target = self.resolve(name);
            if let Value::Object(resolved) = self.node(&target, depth + 1) {
                out = resolved;
            }
        }
        for part in given.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            if let Value::Object(reduced) = self.node(part, depth + 1) {
                merge(&mut out, reduced);
            }
        }
        out.extend(
            COPIED.iter().filter_map(|key| Some(((*key).to_owned(), given.get(*key)?.clone()))),
        );
        self.kind(given, &mut out);
        self.choices(given, &mut out);
        self.parts(given, &mut out, depth);
        Value::Object(out)
    }

    /// A local reference; anything else is unknown and allows everything.
    fn resolve(&self, name: &str) -> Value {
        let target = name.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        target.cloned().unwrap_or(Value::Null)
    }

    /// The type: one word, `nullable` for null, `anyOf` for several.
    fn kind(&self, given: &Map<String, Value>, out: &mut Map<String, Value>) {
        let words: Vec<&str> = match given.get("type") {
            Some(Value::String(word)) => vec![word],
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let named: Vec<&str> = words.iter().copied().filter(|word| *word != "null").collect();
        if named.len() < words.len() {
            out.insert("nullable".to_owned(), Value::Bool(true));
        }
        match named[..] {
            [] => {
                let implied = if given.contains_key("properties") {
                    Some("object")
                } else if given.contains_key("items") || given.contains_key("prefixItems") {
                    Some("array")
                } else {
                    None
                };
                if let Some(word) = implied {
                    out.insert("type".to_owned(), word.into());
                }
            }
            [word] => {
                out.insert("type".to_owned(), word.into());
                let known = FORMATS.iter().find(|(kind, _)| *kind == word);
                if let (Some((_, formats)), Some(format)) =
                    (known, given.get("format").and_then(Value::as_str))
                    && formats.contains(&format)
                {
                    out.insert("format".to_owned(), format.into());
                }
            }
            _ => {
                let several = named.iter().map(|word| match *word {
                    "array" => json!({"type": "array", "items": {"type": "string"}}),
                    word => json!({"type": word}),
                });
                out.insert("anyOf".to_owned(), several.collect());
            }
        }
    }

    /// `enum` and `const`. Google knows only texts, and no empty ones; other values are told in words.
    fn choices(&self, given: &Map<String, Value>, out: &mut Map<String, Value>) {
        let values: Vec<&Value> = match (given.get("enum"), given.get("const")) {
            (Some(Value::Array(values)), _) => values.iter().collect(),
            (_, Some(value)) => vec![value],
            _ => return,
        };
        let texts: Vec<&&Value> = values.iter().filter(|value| !value.is_null()).collect();
        if texts.len() < values.len() {
            out.insert("nullable".to_owned(), Value::Bool(true));
        }
        let is_text = |kind: Option<&Value>| kind.is_none_or(|kind| kind == "string");
        let are_texts = !texts.is_empty() && texts.iter().all(|value| value.is_string());
        if are_texts && is_text(out.get("type")) {
            out.insert("type".to_owned(), "string".into());
        }
        if are_texts && is_text(out.get("type")) && !texts.iter().any(|value| **value == "") {
            out.insert("enum".to_owned(), texts.into_iter().map(|v| (*v).clone()).collect());
        } else if !texts.is_empty() {
            let listed: Vec<String> = texts.iter().map(|value| value.to_string()).collect();
            let words = format!("One of: {}.", listed.join(", "));
            let said = match out.get("description").and_then(Value::as_str) {
                Some(before) => format!("{before} {words}"),
                None => words,
            };
            out.insert("description".to_owned(), said.into());
        }
    }

    /// What lies inside: properties, items, alternatives.
    fn parts(&mut self, given: &Map<String, Value>, out: &mut Map<String, Value>, depth: usize) {
        if let Some(Value::Object(properties)) = given.get("properties") {
            let reduced: Map<String, Value> = properties
                .iter()
                .map(|(name, schema)| (name.clone(), self.node(schema, depth + 1)))
                .collect();
            let mut whole = Map::from_iter([("properties".to_owned(), reduced.into())]);
            // Naming a property that is not there is an error.
            let required: Vec<Value> = given
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name)))
                .cloned()
                .collect();
            if !required.is_empty() {
                whole.insert("required".to_owned(), required.into());
            }
            merge(out, whole);
        }
        let alternatives = given.get("anyOf").or_else(|| given.get("oneOf"));
        if let Some(Value::Array(alternatives)) = alternatives {
            self.alternatives(alternatives, out, depth);
        }
        if out.get("type").is_some_and(|kind| kind == "array") {
            let items = match given.get("items") {
                Some(items @ Value::Object(_)) => self.node(items, depth + 1),
                _ => out.get("items").cloned().unwrap_or_default(),
            };
            // A list that does not say of what is an error.
            let is_bare = items.as_object().is_none_or(Map::is_empty);
            let items = if is_bare { json!({"type": "string"}) } else { items };
            out.insert("items".to_owned(), items);
        }
    }

    fn alternatives(&mut self, given: &[Value], out: &mut Map<String, Value>, depth: usize) {
        let is_null = |schema: &&Value| schema["type"] == "null";
        let mut reduced: Vec<Value> = given
            .iter()
            .filter(|schema| !is_null(schema))
            .map(|schema| self.node(schema, depth + 1))
            .collect();
        if reduced.len() < given.len() {
            out.insert("nullable".to_owned(), Value::Bool(true));
        }
        if reduced.len() == 1
            && let Some(Value::Object(only)) = reduced.pop()
        {
            let said = out.remove("description");
            merge(out, only);
            out.extend(said.map(|said| ("description".to_owned(), said)));
        } else if !reduced.is_empty() {
            out.insert("anyOf".to_owned(), reduced.into());
        }
    }
}

/// Adds what another schema says: properties and requirements are united, anything else is replaced.
fn merge(out: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        match (out.get_mut(&key), value) {
            (Some(Value::Object(have)), Value::Object(new)) if key == "properties" => {
                have.extend(new);
            }
            (Some(Value::Array(have)), Value::Array(new)) if key == "required" => {
                have.extend(new);
            }
            (_, value) => {
                out.insert(key, value);
            }
        }
    }
}
