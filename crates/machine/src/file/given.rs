//! `--input NAME=VALUE`: values for the inputs that a workflow declares, read by their declared type.

use serde_json::{Map, Value};

use super::check::{short, suggest};

/// Reads what was given, against the table of inputs in a workflow's configuration. The error says which one is wrong.
pub fn read(declared: &Value, given: &[String]) -> Result<Map<String, Value>, String> {
    let empty = Map::new();
    let declared = declared.as_object().unwrap_or(&empty);
    let mut values = Map::new();
    for pair in given {
        let Some((name, text)) = pair.split_once('=') else {
            return Err(format!("{}: expected NAME=VALUE", short(&pair.as_str().into())));
        };
        let Some(input) = declared.get(name) else {
            let hint = suggest(name, declared.keys().map(String::as_str)).unwrap_or_else(|| {
                let names: Vec<&str> = declared.keys().map(String::as_str).collect();
                match names.is_empty() {
                    true => "it takes none".to_owned(),
                    false => format!("it takes {}", names.join(", ")),
                }
            });
            return Err(format!("the workflow takes no input {name:?}: {hint}"));
        };
        let kind = input["type"].as_str().unwrap_or("string");
        let value = value_of(kind, text)
            .ok_or_else(|| format!("the input {name:?} must be {}, not {text:?}", words(kind)))?;
        if values.insert(name.to_owned(), value).is_some() {
            return Err(format!("the input {name:?} is given twice"));
        }
    }
    Ok(values)
}

fn value_of(kind: &str, text: &str) -> Option<Value> {
    match kind {
        "string" => Some(text.into()),
        "integer" => text.parse::<i64>().map(Value::from).ok(),
        "number" => {
            let number: Value = serde_json::from_str(text).ok()?;
            number.is_number().then_some(number)
        }
        "boolean" => text.parse::<bool>().map(Value::from).ok(),
        "list" => serde_json::from_str(text).ok().filter(Value::is_array),
        "table" => serde_json::from_str(text).ok().filter(Value::is_object),
        _ => None,
    }
}

fn words(kind: &str) -> &str {
    match kind {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "list" => "a JSON list such as [\"a\", \"b\"]",
        "table" => "a JSON table such as {\"a\": 1}",
        _ => "text",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_the_declared_type() {
        let declared = json!({
            "issue": { "type": "string" }, "plain": {}, "count": { "type": "integer" }, "rate": { "type": "number" },
            "deep": { "type": "boolean" }, "files": { "type": "list" }, "more": { "type": "table" },
        });
        let of = |text: &str| read(&declared, &[text.to_owned()]);
        let is = |text: &str, name: &str, value: Value| assert_eq!(of(text).unwrap()[name], value);
        is("issue=12", "issue", json!("12"));
        is("issue=a=b", "issue", json!("a=b"));
        is("issue=", "issue", json!(""));
        is("plain=x", "plain", json!("x"));
        is("count=-3", "count", json!(-3));
        is("rate=1.5", "rate", json!(1.5));
        is("deep=true", "deep", json!(true));
        is("files=[\"a\", 1]", "files", json!(["a", 1]));
        is("more={\"a\": 1}", "more", json!({ "a": 1 }));
        for (text, said) in [
            ("count=3.5", "must be a whole number"),
            ("rate=NaN", "must be a number"),
            ("deep=yes", "must be true or false"),
            ("files=a", "a JSON list"),
            ("more=[1]", "a JSON table"),
            ("issu=1", "did you mean \"issue\"?"),
            ("zzzzzz=1", "it takes count, deep"),
            ("issue", "expected NAME=VALUE"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let twice = read(&declared, &["deep=true".to_owned(), "deep=false".to_owned()]);
        assert!(twice.unwrap_err().contains("twice"));
        assert!(read(&Value::Null, &["a=1".to_owned()]).unwrap_err().contains("it takes none"));
    }
}
