//! JSON schemas, reduced to the part of them that Google reads.
//!
//! A key it does not know makes it refuse the whole request, so what cannot be said is left out or, where it
//! would be missed, said in the description. The reduced schema never allows less than the given one.

use serde_json::{Map, Value, json};

use crate::model::schema;

/// The keys of Google's `Schema` that are copied as they are, whatever the type.
const COPIED: &[&str] = &["description", "title", "nullable", "default", "example"];

/// Those that are copied with a type, and refused with another.
const TYPED: &[(&str, &[&str])] = &[
    ("string", &["minLength", "maxLength", "pattern"]),
    ("integer", &["minimum", "maximum"]),
    ("number", &["minimum", "maximum"]),
    ("array", &["minItems", "maxItems"]),
    ("object", &["minProperties", "maxProperties", "propertyOrdering"]),
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

/// Reduces the parameters of a tool.
pub(super) fn parameters(given: &Value) -> Value {
    reduce(&schema::parameters(given))
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
        copy(COPIED, given, &mut out);
        if let Some(Value::Array(words)) = given.get("type")
            && words.iter().filter(|word| *word != "null").count() > 1
        {
            self.several(words, given, &mut out, depth);
            return Value::Object(out);
        }
        self.kind(given, &mut out);
        self.choices(given, &mut out);
        self.parts(given, &mut out, depth);
        // Put together from parts it may have got both.
        if out.contains_key("type") {
            out.remove("anyOf");
        }
        let word = out.get("type").and_then(Value::as_str).unwrap_or_default();
        if let Some((_, keys)) = TYPED.iter().find(|(kind, _)| *kind == word) {
            copy(keys, given, &mut out);
        }
        Value::Object(out)
    }

    /// Several types: an alternative for each, with what can be said of that type. Beside alternatives no type is taken.
    fn several(
        &mut self,
        words: &[Value],
        given: &Map<String, Value>,
        out: &mut Map<String, Value>,
        depth: usize,
    ) {
        let alternative = |word: &Value| {
            let mut one = given.clone();
            one.retain(|key, _| !COPIED.contains(&key.as_str()));
            one.insert("type".to_owned(), word.clone());
            Value::Object(one)
        };
        let alternatives: Vec<Value> = words.iter().map(alternative).collect();
        self.alternatives(&alternatives, out, depth);
    }

    /// A local reference; anything else is unknown and allows everything.
    fn resolve(&self, name: &str) -> Value {
        let target = name.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        target.cloned().unwrap_or(Value::Null)
    }

    /// The type: one word, and `nullable` for null.
    fn kind(&self, given: &Map<String, Value>, out: &mut Map<String, Value>) {
        let words: Vec<&str> = match given.get("type") {
            Some(Value::String(word)) => vec![word],
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if words.contains(&"null") {
            out.insert("nullable".to_owned(), Value::Bool(true));
        }
        match words.into_iter().find(|word| *word != "null") {
            None => {
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
            Some(word) => {
                out.insert("type".to_owned(), word.into());
                let known = FORMATS.iter().find(|(kind, _)| *kind == word);
                if let (Some((_, formats)), Some(format)) =
                    (known, given.get("format").and_then(Value::as_str))
                    && formats.contains(&format)
                {
                    out.insert("format".to_owned(), format.into());
                }
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
            if let Some(word) = kind_of(&texts).filter(|_| !out.contains_key("type")) {
                out.insert("type".to_owned(), word.into());
            }
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
                .map(|(name, schema)| (name.clone(), self.typed(schema, depth + 1)))
                .collect();
            let mut whole = Map::new();
            // An object that says it has no properties is refused.
            if !reduced.is_empty() {
                whole.insert("properties".to_owned(), reduced.into());
            }
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
            let items = if is_untyped(&items) { json!({"type": "string"}) } else { items };
            out.insert("items".to_owned(), items);
        }
    }

    fn alternatives(&mut self, given: &[Value], out: &mut Map<String, Value>, depth: usize) {
        let is_null = |schema: &&Value| schema["type"] == "null";
        let mut reduced: Vec<Value> = Vec::new();
        for schema in given.iter().filter(|schema| !is_null(schema)) {
            let schema = self.node(schema, depth + 1);
            if !reduced.contains(&schema) {
                reduced.push(schema);
            }
        }
        if given.iter().any(|schema| is_null(&schema)) {
            out.insert("nullable".to_owned(), Value::Bool(true));
        }
        if out.get("type").is_some_and(|kind| kind == "object") {
            // Beside alternatives nothing else may be said of an object, so all that they name is optional.
            reduced.iter().for_each(|other| schema::add_properties(out, other));
        } else if out.contains_key("type") || reduced.iter().any(is_untyped) {
            // One type without what the alternatives add, or anything at all.
        } else if reduced.len() == 1
            && let Some(Value::Object(only)) = reduced.pop()
        {
            let said = out.remove("description");
            merge(out, only);
            out.extend(said.map(|said| ("description".to_owned(), said)));
        } else if !reduced.is_empty() {
            out.insert("anyOf".to_owned(), reduced.into());
        }
    }

    /// A schema that must have a type: one that allows anything names all of them.
    fn typed(&mut self, schema: &Value, depth: usize) -> Value {
        let mut reduced = self.node(schema, depth);
        if is_untyped(&reduced) {
            reduced["anyOf"] = json!([
                {"type": "string"},
                {"type": "number"},
                {"type": "boolean"},
                {"type": "array", "items": {"type": "string"}},
                {"type": "object"},
            ]);
        }
        reduced
    }
}

fn copy(keys: &[&str], given: &Map<String, Value>, out: &mut Map<String, Value>) {
    out.extend(keys.iter().filter_map(|key| Some(((*key).to_owned(), given.get(*key)?.clone()))));
}

fn is_untyped(reduced: &Value) -> bool {
    reduced.get("type").is_none() && reduced.get("anyOf").is_none()
}

/// The type that all of these values have.
fn kind_of(values: &[&&Value]) -> Option<&'static str> {
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| is(value));
    if all(|value| value.is_i64() || value.is_u64()) {
        Some("integer")
    } else if all(Value::is_number) {
        Some("number")
    } else if all(Value::is_boolean) {
        Some("boolean")
    } else {
        None
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
                let new: Vec<Value> = new.into_iter().filter(|name| !have.contains(name)).collect();
                have.extend(new);
            }
            (_, value) => {
                out.insert(key, value);
            }
        }
    }
}
