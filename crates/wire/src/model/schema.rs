//! The JSON schemas of tools in a form that every provider takes. Servers of tools say them in the words of every draft
//! there was, and in words of no draft; a provider that holds them to draft 2020-12 refuses the whole request for one.
//!
//! What becomes of a schema never allows less than it did; what it allows beyond, the server of the tool refuses itself.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// The parameters of a tool: one object that says its properties, and no alternatives to it.
pub(super) fn parameters(given: &Value) -> Value {
    let mut root = match node(given) {
        Value::Object(root) => root,
        _ => Map::new(),
    };
    unite(&mut root);
    root.insert("type".to_owned(), "object".into());
    root.entry("properties").or_insert_with(|| json!({}));
    let mut whole = Value::Object(root);
    let known = whole.clone();
    drop_dangling(&mut whole, &known);
    whole
}

/// Takes in what the root refers to and is put together from; what cannot be said of an object's properties is left out.
fn unite(root: &mut Map<String, Value>) {
    let whole = Value::Object(root.clone());
    let target = |part: &Value| part["$ref"].as_str().and_then(|name| find(&whole, name)).cloned();
    // A part that is a reference in turn is followed once: servers say no more than that.
    let direct = |part: &Value| target(part).unwrap_or_else(|| part.clone());
    let list = |key: &str| whole[key].as_array().into_iter().flatten().map(direct);
    for part in target(&whole).into_iter().chain(list("allOf")) {
        add_properties(root, &part);
        let required = part["required"].as_array().cloned().unwrap_or_default();
        if let Value::Array(all) = root.entry("required").or_insert_with(|| json!([])) {
            let new: Vec<Value> = required.into_iter().filter(|name| !all.contains(name)).collect();
            all.extend(new);
        }
    }
    for part in list("anyOf").chain(list("oneOf")) {
        add_properties(root, &part);
    }
    for key in ["$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not", "if", "then", "else"] {
        root.remove(key);
    }
    if root.get("required").is_some_and(|names| *names == json!([])) {
        root.remove("required");
    }
}

/// Adds the properties of another schema to those of an object; one that both describe may be either.
pub(super) fn add_properties(object: &mut Map<String, Value>, other: &Value) {
    let Some(more) = other["properties"].as_object() else { return };
    let Value::Object(properties) = object.entry("properties").or_insert_with(|| json!({})) else {
        return;
    };
    for (name, schema) in more {
        let known = properties.entry(name.clone()).or_insert_with(|| schema.clone());
        if known == schema {
            continue;
        }
        let is_choice = known.as_object().is_some_and(|fields| fields.len() == 1);
        match known.get_mut("anyOf") {
            Some(Value::Array(either)) if is_choice && either.contains(schema) => {}
            Some(Value::Array(either)) if is_choice => either.push(schema.clone()),
            _ => *known = json!({ "anyOf": [known.take(), schema] }),
        }
    }
}

/// A schema, or a part of one: every keyword that has a value of its kind.
fn node(given: &Value) -> Value {
    let Value::Object(given) = given else {
        return if *given == Value::Bool(false) { given.clone() } else { json!({}) };
    };
    let mut out = Map::new();
    for (key, value) in given {
        if let Some(value) = keyword(key, value) {
            out.insert(key.clone(), value);
        }
    }
    // As drafts before 2019 wrote lists whose places differ.
    if let Some(Value::Array(places)) = given.get("items") {
        let rest = given.get("additionalItems").filter(|rest| is_schema(rest)).map(node);
        out.insert("items".to_owned(), rest.unwrap_or_else(|| json!({})));
        out.extend(schemas(places).map(|places| ("prefixItems".to_owned(), places)));
    }
    // As draft 4 wrote limits that are not reached.
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if given.get(exclusive) == Some(&Value::Bool(true))
            && let Some(value) = out.remove(limit)
        {
            out.insert(exclusive.to_owned(), value);
        }
    }
    let is_list = match out.get("type") {
        Some(Value::Array(words)) => words.iter().any(|word| word == "array"),
        word => word.is_some_and(|word| word == "array"),
    };
    if is_list {
        out.entry("items").or_insert_with(|| json!({}));
    }
    // Names that are left out would be forbidden now.
    if given.contains_key("patternProperties") && !out.contains_key("patternProperties") {
        out.remove("additionalProperties");
    }
    Value::Object(out)
}

/// The value of a keyword, if it can have this one. What is no keyword stays as it is.
fn keyword(key: &str, value: &Value) -> Option<Value> {
    let same = |is_right: bool| is_right.then(|| value.clone());
    match key {
        // Of other drafts, or for other places than one schema in a request.
        "$schema" | "$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef"
        | "$recursiveAnchor" | "$vocabulary" | "dependencies" | "additionalItems" => None,
        "type" => types(value),
        "properties" => {
            // One that is forbidden need not be told of.
            let properties = value.as_object()?.iter().filter(|(_, schema)| **schema != false);
            Some(properties.map(|(name, schema)| (name.clone(), node(schema))).collect())
        }
        "$defs" | "definitions" | "dependentSchemas" => {
            let known = value.as_object()?.iter().filter(|(_, schema)| is_schema(schema));
            Some(known.map(|(name, schema)| (name.clone(), node(schema))).collect())
        }
        "patternProperties" => {
            let all = value.as_object()?;
            let is_common =
                |(name, schema): (&String, &Value)| is_pattern(name) && is_schema(schema);
            let named = || all.iter().map(|(name, schema)| (name.clone(), node(schema))).collect();
            all.iter().all(is_common).then(named)
        }
        "items"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "contains"
        | "propertyNames"
        | "contentSchema"
        | "then"
        | "else" => {
            is_schema(value).then(|| if value.is_boolean() { value.clone() } else { node(value) })
        }
        // Where less is said inside, these forbid more.
        "not" | "if" => same(is_schema(value) && node(value) == *value),
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => schemas(value.as_array()?),
        "required" => {
            let mut names: Vec<&Value> = Vec::new();
            for name in value.as_array()?.iter().filter(|name| name.is_string()) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            (!names.is_empty()).then(|| names.into_iter().cloned().collect())
        }
        "dependentRequired" => {
            let is_names = |names: &Value| {
                names.as_array().is_some_and(|names| names.iter().all(Value::is_string))
            };
            same(value.as_object()?.values().all(is_names))
        }
        "enum" => same(!value.as_array()?.is_empty()),
        "examples" => same(value.is_array()),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => same(value.is_number()),
        "multipleOf" => same(value.as_f64()? > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => same(value.is_u64()),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => same(value.is_boolean()),
        "title" | "description" | "format" | "contentEncoding" | "contentMediaType"
        | "$comment" => same(value.is_string()),
        "$ref" => same(value.is_string()),
        "pattern" => same(is_pattern(value.as_str()?)),
        _ => Some(value.clone()),
    }
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// A list of schemas, which must not be empty. What is none would have been refused, so it allows anything.
fn schemas(given: &[Value]) -> Option<Value> {
    (!given.is_empty()).then(|| given.iter().map(node).collect())
}

/// The type: one word, or several that differ.
fn types(given: &Value) -> Option<Value> {
    let known = |word: &Value| {
        let word = word.as_str()?.to_ascii_lowercase();
        TYPES.into_iter().find(|known| **known == *word)
    };
    let Value::Array(words) = given else { return known(given).map(Value::from) };
    let mut found: Vec<&str> = Vec::new();
    for word in words {
        // One that nobody knows may be anything.
        let word = known(word)?;
        if !found.contains(&word) {
            found.push(word);
        }
    }
    match found[..] {
        [] => None,
        [only] => Some(only.into()),
        _ => Some(found.into()),
    }
}

/// Whether all read a pattern alike: no classes of Unicode, nothing that looks around, no groups with names.
fn is_pattern(pattern: &str) -> bool {
    let mut rest = pattern.chars();
    let mut depth = 0_u32;
    let mut in_class = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' | 'n' | 'r' | 't') => {}
                Some(c) if c.is_ascii_punctuation() => {}
                _ => return false,
            },
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '(' => {
                depth += 1;
                let mut ahead = rest.clone();
                if ahead.next() == Some('?') {
                    if ahead.next() != Some(':') {
                        return false;
                    }
                    rest = ahead;
                }
            }
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            _ => {}
        }
    }
    depth == 0 && !in_class
}

/// What a reference within a schema stands for.
fn find<'s>(whole: &'s Value, name: &str) -> Option<&'s Value> {
    name.strip_prefix('#').and_then(|pointer| whole.pointer(pointer)).filter(|s| is_schema(s))
}

/// Leaves out references to what is not there, or is somewhere else in the world.
fn drop_dangling(value: &mut Value, whole: &Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| match value.as_str() {
                Some(name) if key == "$ref" => find(whole, name).is_some(),
                _ => true,
            });
            fields.values_mut().for_each(|value| drop_dangling(value, whole));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_dangling(item, whole)),
        _ => {}
    }
}
