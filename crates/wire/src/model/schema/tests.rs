//! Schemas as servers give them, and what becomes of them.

use serde_json::{Value, json};

use super::parameters;

/// What becomes of a schema of one parameter.
#[track_caller]
fn check(given: Value, expected: Value) {
    let whole = parameters(&json!({ "type": "object", "properties": { "p": given } }));
    assert_eq!(whole, json!({ "type": "object", "properties": { "p": expected } }));
}

#[test]
fn what_is_right_stays_as_it_is() {
    let right = json!({
        "type": "object",
        "description": "d",
        "properties": {
            "kind": { "const": "a", "title": "Kind" },
            "n": { "type": ["integer", "null"], "exclusiveMinimum": 0, "maximum": 1.5, "default": null },
            "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" }, "uniqueItems": true },
            "any": {},
            "more": { "type": "object", "additionalProperties": { "type": "string" }, "minProperties": 1 },
            "pair": { "type": "array", "prefixItems": [{ "type": "string" }], "items": false },
            "either": { "oneOf": [{ "type": "string", "format": "uri" }, { "type": "boolean" }] },
            "not": { "not": { "type": "null" }, "examples": [1] },
            "named": { "type": "string", "pattern": "^(?:[a-z\\d_-]{2,}|\\.x)$" },
        },
        "required": ["kind", "tags"],
        "additionalProperties": false,
        "x-of-a-vendor": [1],
        "$defs": { "tag": { "type": "string", "enum": ["x", "y"] } },
    });
    assert_eq!(parameters(&right), right);
}

#[test]
fn keywords_of_other_drafts_are_said_as_in_this_one() {
    let whole = parameters(&json!({
        "$schema": "http://json-schema.org/draft-04/schema#", "$id": "urn:x", "type": "object",
        "properties": {},
    }));
    assert_eq!(whole, json!({ "type": "object", "properties": {} }));
    check(
        json!({ "type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false }),
        json!({ "type": "integer", "exclusiveMinimum": 0, "maximum": 9 }),
    );
    check(
        json!({ "type": "array", "items": [{ "type": "string" }, true], "additionalItems": { "type": "number" } }),
        json!({ "type": "array", "prefixItems": [{ "type": "string" }, {}], "items": { "type": "number" } }),
    );
    check(json!({ "type": "string", "required": true }), json!({ "type": "string" }));
}

#[test]
fn what_is_no_schema_allows_anything() {
    check(json!("object"), json!({}));
    check(json!({ "type": "any" }), json!({}));
    check(json!({ "type": ["string", "file"] }), json!({}));
    check(json!({ "type": "STRING", "title": null }), json!({ "type": "string" }));
    check(json!({ "type": ["string", "string"] }), json!({ "type": "string" }));
    check(json!({ "type": "array" }), json!({ "type": "array", "items": {} }));
    check(
        json!({ "type": ["array", "null"], "items": "string" }),
        json!({ "type": ["array", "null"], "items": {} }),
    );
    check(json!({ "enum": [], "anyOf": [], "examples": 1, "minLength": -1 }), json!({}));
    check(
        json!({ "anyOf": [{ "type": "string" }, "x"] }),
        json!({ "anyOf": [{ "type": "string" }, {}] }),
    );
    check(json!({ "required": ["a", 1, "a"], "properties": [] }), json!({ "required": ["a"] }));
    for pattern in [r"^\p{L}+$", "^(?<n>a)", "(?!a)", r"\u00e9", "(a", "a)", "[a"] {
        check(json!({ "type": "string", "pattern": pattern }), json!({ "type": "string" }));
    }
    // What is left out on one side must not be missing on the other.
    check(
        json!({ "patternProperties": { r"^\p{L}": {} }, "additionalProperties": false }),
        json!({}),
    );
    check(json!({ "not": { "type": "file" } }), json!({}));
    check(json!({ "$ref": "other.json#/a" }), json!({}));
    check(json!({ "$ref": "#/$defs/none", "title": "t" }), json!({ "title": "t" }));
    let forbidden = json!({ "properties": { "never": false, "may": true } });
    assert_eq!(parameters(&forbidden), json!({ "type": "object", "properties": { "may": {} } }));
}

#[test]
fn the_root_is_one_object_without_alternatives() {
    let bare = json!({ "type": "object", "properties": {} });
    for given in [json!(null), json!(true), json!({ "type": "string" }), json!({ "enum": [1] })] {
        assert_eq!(parameters(&given), bare, "{given}");
    }
    let one = json!({ "properties": { "kind": { "const": "a" }, "x": {} }, "required": ["x"] });
    let two = json!({ "properties": { "kind": { "const": "b" } } });
    let three = json!({ "properties": { "kind": { "const": "b" } }, "required": ["z"] });
    assert_eq!(
        parameters(&json!({ "anyOf": [one, two], "allOf": [three], "required": ["kind"] })),
        json!({
            "type": "object",
            "properties": { "kind": { "anyOf": [{ "const": "b" }, { "const": "a" }] }, "x": {} },
            "required": ["kind", "z"],
        })
    );
    let known =
        json!({ "A": { "properties": { "a": { "$ref": "#/$defs/A" } }, "required": ["a"] } });
    assert_eq!(
        parameters(&json!({ "$ref": "#/$defs/A", "$defs": known })),
        json!({
            "type": "object",
            "properties": { "a": { "$ref": "#/$defs/A" } },
            "required": ["a"],
            "$defs": known,
        })
    );
}
