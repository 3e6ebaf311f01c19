//! The root of a tool's schema, in the form that every provider takes: one object with properties. Some refuse
//! alternatives there, some an object that does not say its properties, and each refuses the whole request for it.
//!
//! What becomes of it never allows less than the server does; what it allows beyond, the server refuses itself.

use serde_json::{Map, Value, json};

/// How many parts are looked into, and how deep: a reference may lead back to where it stands.
const MAX_PARTS: usize = 1000;
const MAX_DEPTH: usize = 8;

/// The longest name of a parameter.
const MAX_KEY: usize = 64;

/// Makes the root one object with properties: those of all parts that it is put together from.
pub(super) fn unite(schema: &mut Value) {
    let whole = schema.clone();
    let (properties, required) = (Map::new(), Vec::new());
    let mut found = Parts { whole: &whole, count: 0, properties, required };
    found.add(&whole, true, 0);
    let Parts { properties, required, .. } = found;
    let Some(root) = schema.as_object_mut() else { return };
    for key in ["allOf", "anyOf", "oneOf", "$ref"] {
        root.remove(key);
    }
    if required.is_empty() {
        root.remove("required");
    } else {
        root.insert("required".to_owned(), required.into());
    }
    root.insert("properties".to_owned(), properties.into());
}

/// The first parameter whose name not every provider takes.
pub(super) fn unsendable(schema: &Value) -> Option<&str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut keys = schema["properties"].as_object().into_iter().flat_map(Map::keys);
    keys.find(|key| !(1..=MAX_KEY).contains(&key.len()) || !key.chars().all(fits))
        .map(String::as_str)
}

struct Parts<'s> {
    whole: &'s Value,
    count: usize,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Parts<'_> {
    /// Adds what a part says. Only a part that holds in every case can require anything.
    fn add(&mut self, part: &Value, holds: bool, depth: usize) {
        self.count += 1;
        if depth > MAX_DEPTH || self.count > MAX_PARTS {
            return;
        }
        for (name, schema) in part["properties"].as_object().into_iter().flatten() {
            self.property(name, schema);
        }
        if holds {
            let required = part["required"].as_array().into_iter().flatten();
            let new: Vec<Value> =
                required.filter(|name| !self.required.contains(name)).cloned().collect();
            self.required.extend(new);
        }
        let target = part["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
        if let Some(target) = target.and_then(|pointer| self.whole.pointer(pointer)) {
            self.add(&target.clone(), holds, depth + 1);
        }
        for (key, always) in [("allOf", holds), ("anyOf", false), ("oneOf", false)] {
            for part in part[key].as_array().into_iter().flatten() {
                self.add(part, always, depth + 1);
            }
        }
    }

    /// A property that parts describe differently may be either.
    fn property(&mut self, name: &str, schema: &Value) {
        let Some(known) = self.properties.get_mut(name) else {
            self.properties.insert(name.to_owned(), schema.clone());
            return;
        };
        if known == schema {
            return;
        }
        let is_choice = known.as_object().is_some_and(|fields| fields.len() == 1);
        match known.get_mut("anyOf") {
            Some(Value::Array(either)) if is_choice && either.contains(schema) => {}
            Some(Value::Array(either)) if is_choice => either.push(schema.clone()),
            _ => *known = json!({ "anyOf": [known.take(), schema] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn united(mut schema: Value) -> Value {
        unite(&mut schema);
        schema
    }

    #[test]
    fn a_root_without_properties_says_that_it_has_none() {
        assert_eq!(united(json!({"type": "object"})), json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn alternatives_become_properties_of_which_none_is_required() {
        let one = json!({"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["x"]});
        let two = json!({"properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["y"]});
        let given = json!({"type": "object", "properties": {"z": {}}, "required": ["z"], "oneOf": [one, two]});
        assert_eq!(
            united(given),
            json!({
                "type": "object",
                "properties": {
                    "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
                    "x": {"type": "string"},
                    "y": {"type": "string"},
                    "z": {},
                },
                "required": ["z"],
            })
        );
        let bound = json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
        assert_eq!(united(bound), json!({"properties": {}}));
    }

    #[test]
    fn what_holds_in_every_case_stays_required_also_by_reference() {
        let given = json!({
            "$ref": "#/$defs/base",
            "allOf": [{"properties": {"b": {}}, "required": ["b", "a"]}],
            "$defs": {"base": {"properties": {"a": {}}, "required": ["a"], "$ref": "#/$defs/base"}},
        });
        let united = united(given);
        assert_eq!(united["properties"], json!({"a": {}, "b": {}}));
        assert_eq!(united["required"], json!(["a", "b"]));
        assert!(united.get("allOf").is_none() && united.get("$ref").is_none());
    }

    #[test]
    fn a_name_that_cannot_be_sent_is_found() {
        let of = |key: &str| json!({"properties": {"fine.one-2_": {}, key: {}}});
        assert_eq!(unsendable(&of("also")), None);
        for key in ["filter[id]", "$top", "", "größe", &"x".repeat(65)] {
            assert_eq!(unsendable(&of(key)), Some(key));
        }
    }
}
