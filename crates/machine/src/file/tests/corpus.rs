//! The hostile configurations of `corpus/config.jsonl`: for which reason each is refused. That each ends in its class, in
//! time and through the binary is what `just corpus` looks at.

use serde_json::Value;

use super::super::{Format, decode, lookup, task, workflow};

const CASES: &str = include_str!("../../../../../corpus/config.jsonl");

fn bytes(case: &Value) -> Vec<u8> {
    if let Some(text) = case["in"].as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(hex) = case["in_hex"].as_str() {
        return (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
    }
    let count = usize::try_from(case["gen"]["n"].as_u64().unwrap_or(0)).unwrap();
    match case["gen"]["kind"].as_str().unwrap() {
        "toml-dotted" => format!("{} = 1\n", vec!["a"; count].join(".")),
        "yaml-flow-nest" => format!("a: {}{}\n", "[".repeat(count), "]".repeat(count)),
        "yaml-aliases" => format!("a: &a [x, x, x]\nb: [{}]\n", vec!["*a"; count].join(",")),
        "yaml-alias-chain" => {
            let links = (1..count).map(|i| format!("k{i}: &k{i} [*k{}]\n", i - 1));
            format!("k0: &k0 v\n{}", links.collect::<String>())
        }
        // Of the other kinds the reason is not looked at.
        _ => String::new(),
    }
    .into_bytes()
}

/// The errors, or nothing if it loads.
fn load(case: &Value) -> Option<String> {
    let bytes = bytes(case);
    let text = match decode(&bytes, "case") {
        Ok(text) => text,
        Err(errors) => return Some(errors[0].to_string()),
    };
    let is_yaml = case["format"] == "yaml";
    let read = if is_yaml {
        task::parse(text, "case.yaml", Format::Yaml).map(drop)
    } else {
        workflow::parse(text, "case.toml", &lookup::Nothing).map(drop)
    };
    read.err().map(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// The corpus's workflows name a tool without parameters. With one that exists, the reason for which they are
/// refused must be their own.
#[test]
fn with_a_tool_that_exists_each_is_refused_for_its_own_reason() {
    let reasons = [
        ("CF-005", "two steps named"),
        ("CF-011", "max_retries is at most"),
        ("CF-012", "max_steps = 0"),
        ("CF-013", "expected a whole number"),
        ("CF-017", "must be finite"),
        ("CF-018", "must be finite"),
        ("CF-019", "does not name a file of prompts"),
        ("CF-023", "unknown key \"extends\""),
        ("CF-024", "duplicate key"),
        ("CF-027", "is not a name"),
        ("CF-028", "must not contain NUL"),
        ("CF-032", "unknown key \"env\""),
        ("CF-033", "unknown key \"permissions\""),
        ("CF-036", "unknown key \"driver\""),
        ("CF-038", "recursion limit"),
        ("CF-046", "there is no state \"zzz\""),
        ("CF-052", "a key must be plain text"),
        ("CF-053", "unsupported tag"),
        ("CF-055", "more than one document"),
        ("CF-077", "unsupported YAML"),
        ("CF-078", "nests too deeply"),
        ("CF-081", "aliases too often"),
    ];
    for line in CASES.lines() {
        let real = line.replace(
            "tool = \\\"shell.run\\\"",
            "tool = \\\"shell\\\"\\nparameters = { command = \\\"true\\\" }",
        );
        let case: Value = serde_json::from_str(&real).unwrap();
        let errors = load(&case);
        let id = case["id"].as_str().unwrap();
        if matches!(id, "CF-001" | "CF-007" | "CF-030") {
            assert_eq!(errors, None, "{id}");
        }
        if let Some((_, reason)) = reasons.iter().find(|(wanted, _)| *wanted == id) {
            assert!(errors.as_ref().is_some_and(|text| text.contains(reason)), "{id}: {errors:?}");
        }
    }
}
