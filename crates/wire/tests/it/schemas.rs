//! Tools of servers as each provider gets them: whatever their schemas are like, the request is one that is taken.

use serde_json::{Value, json};
use wire::model::ToolDeclaration;
use wire::model::constrained::constrain;
use wire::model::script::Served;

use crate::histories::dialect;
use crate::rig::{request, text, user};

/// Parameters as servers of the Model Context Protocol declare them, right and wrong.
fn given() -> Vec<Value> {
    let parameter = |schema: Value| json!({ "type": "object", "properties": { "p": schema } });
    vec![
        Value::Null,
        json!({}),
        json!({ "type": "object" }),
        // zod, pydantic and their like.
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "url": { "type": "string", "format": "uri", "minLength": 1 },
                "limit": { "type": "integer", "exclusiveMinimum": 0, "maximum": 100, "default": 10 },
                "mode": { "const": "fast" },
                "level": { "enum": [1, 2, 3] },
                "headers": { "type": "object", "additionalProperties": { "type": "string" } },
                "filter": { "$ref": "#/$defs/Filter" },
                "tags": { "anyOf": [{ "type": "array", "items": { "type": "string" } }, { "type": "null" }], "default": null },
                "when": { "type": ["string", "integer", "null"] },
                "anything": { "description": "any JSON" },
            },
            "required": ["url"],
            "additionalProperties": false,
            "$defs": { "Filter": { "type": "object", "properties": {
                "and": { "type": "array", "items": { "$ref": "#/$defs/Filter" } },
            } } },
        }),
        json!({ "anyOf": [
            { "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] },
            { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] },
        ] }),
        json!({ "type": "object", "properties": { "a": { "type": "string" } }, "not": { "required": ["b"] },
            "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
        json!({ "$ref": "#/definitions/Args", "definitions": { "Args": { "properties": { "x": true } } } }),
        parameter(json!({ "type": "array" })),
        parameter(
            json!({ "type": "array", "items": [{ "type": "string" }, { "type": "number" }] }),
        ),
        parameter(
            json!({ "type": "array", "items": { "anyOf": [{ "type": "string" }, { "type": "array" }] } }),
        ),
        parameter(json!({ "type": "integer", "minimum": 0, "exclusiveMinimum": true })),
        parameter(json!({ "type": "dict" })),
        parameter(json!({ "type": "" })),
        parameter(json!({ "type": "string", "enum": [] })),
        parameter(json!({ "type": "string", "required": true })),
        parameter(json!({ "type": "string", "pattern": "^\\p{L}+$" })),
        parameter(json!({ "type": "object", "properties": { "type": "object" } })),
        parameter(
            json!({ "type": "object", "properties": { "q": {} }, "anyOf": [{ "required": ["q"] }] }),
        ),
        parameter(json!({ "$ref": "https://example.invalid/schema.json" })),
        parameter(json!({ "$ref": "#/$defs/lost" })),
        parameter(json!("string")),
    ]
}

/// All tools in one request, as they stand in its body.
fn declared(served: Served) -> Vec<Value> {
    let mut asked = request("m", vec![user([text("hi")])]);
    asked.tools = tools().into();
    let body: Value = serde_json::from_slice(&dialect(served).encode(&asked).body).unwrap();
    let list = match served {
        Served::GoogleGenerate => &body["tools"][0]["functionDeclarations"],
        _ => &body["tools"],
    };
    let key = match served {
        Served::AnthropicMessages => "/input_schema",
        Served::OpenAiChat | Served::Mistral => "/function/parameters",
        Served::OpenAiResponses | Served::GoogleGenerate => "/parameters",
    };
    let tools = list.as_array().unwrap();
    tools.iter().map(|tool| tool.pointer(key).cloned().unwrap_or_default()).collect()
}

fn tools() -> Vec<ToolDeclaration> {
    let declare = |(n, schema)| ToolDeclaration {
        name: format!("tool{n}"),
        description: String::new(),
        schema,
    };
    given().into_iter().enumerate().map(declare).collect()
}

/// Visits a schema and all that stand in it.
fn walk(schema: &Value, visit: &mut dyn FnMut(&Value)) {
    visit(schema);
    for key in ["properties", "$defs", "definitions"] {
        schema[key]
            .as_object()
            .into_iter()
            .flat_map(|all| all.values())
            .for_each(|s| walk(s, visit));
    }
    for key in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        schema[key].as_array().into_iter().flatten().for_each(|s| walk(s, visit));
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(inside) = schema.get(key) {
            walk(inside, visit);
        }
    }
}

/// What draft 2020-12 says of a schema's keywords, as far as the ones above break it, and where OpenAI says more.
fn check_draft(schema: &Value, whole: &Value) {
    const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
    let told = || format!("{schema} of {whole}");
    if schema.is_boolean() {
        return;
    }
    let schema = schema.as_object().unwrap_or_else(|| panic!("{}", told()));
    let words = match schema.get("type") {
        None => Vec::new(),
        Some(Value::Array(words)) => words.iter().map(|word| word.as_str().unwrap()).collect(),
        Some(word) => vec![word.as_str().unwrap_or_else(|| panic!("{}", told()))],
    };
    assert!(words.iter().all(|word| TYPES.contains(word)), "{}", told());
    assert!(!words.contains(&"array") || schema.contains_key("items"), "{}", told());
    for (key, is_right) in [
        ("items", (|value| value.is_object() || value.is_boolean()) as fn(&Value) -> bool),
        ("exclusiveMinimum", Value::is_number),
        ("required", Value::is_array),
        ("enum", |value| value.as_array().is_some_and(|all| !all.is_empty())),
        ("pattern", |value| !value.as_str().unwrap().contains(r"\p")),
    ] {
        assert!(schema.get(key).is_none_or(is_right), "{key} in {}", told());
    }
    if let Some(name) = schema.get("$ref") {
        let target = name.as_str().and_then(|name| whole.pointer(name.strip_prefix('#')?));
        assert!(target.is_some(), "{}", told());
    }
}

#[test]
fn the_tools_of_every_server_are_declared_as_each_provider_takes_them() {
    for served in
        [Served::AnthropicMessages, Served::OpenAiChat, Served::OpenAiResponses, Served::Mistral]
    {
        for schema in declared(served) {
            assert_eq!(schema["type"], "object", "{served:?} {schema}");
            assert!(schema["properties"].is_object(), "{served:?} {schema}");
            for key in ["anyOf", "oneOf", "allOf", "enum", "not", "$ref", "$schema"] {
                assert!(schema.get(key).is_none(), "{served:?} {schema}");
            }
            walk(&schema, &mut |part| check_draft(part, &schema));
        }
    }
}

#[test]
fn google_gets_no_word_that_it_does_not_know() {
    const KNOWN: &[&str] = &[
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "anyOf",
        "propertyOrdering",
        "default",
        "items",
        "minimum",
        "maximum",
    ];
    // A tool without parameters has no schema at all.
    for schema in declared(Served::GoogleGenerate).iter().filter(|schema| !schema.is_null()) {
        assert_eq!(schema["type"], "object", "{schema}");
        walk(schema, &mut |part| {
            let told = || format!("{part} of {schema}");
            let fields = part.as_object().unwrap_or_else(|| panic!("{}", told()));
            assert!(fields.keys().all(|key| KNOWN.contains(&key.as_str())), "{}", told());
            // One type or alternatives, and never both.
            let has = |key: &str| fields.contains_key(key);
            assert!(has("type") != has("anyOf"), "{}", told());
            assert!(!has("type") || part["type"].is_string(), "{}", told());
            assert_eq!(part["type"] == "array", has("items"), "{}", told());
            assert!(part["type"] == "object" || !has("properties"), "{}", told());
            assert!(!has("properties") || part["properties"] != json!({}), "{}", told());
            assert!(part["type"] == "string" || !has("enum"), "{}", told());
            assert!(part["enum"].as_array().is_none_or(|all| !all.is_empty()), "{}", told());
        });
    }
}

#[test]
fn a_model_that_is_held_to_a_form_is_held_to_schemas_that_are_some() {
    let mut asked = request("m", vec![user([text("hi")])]);
    asked.tools = tools().into();
    let schema = constrain(asked).0.output_schema.unwrap();
    walk(&schema, &mut |part| check_draft(part, &schema));
}
