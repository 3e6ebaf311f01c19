//! Whether a value fits a JSON Schema: the keywords that drivetrain's own schemas use, and no others. It is shared by
//! the tests of several crates, and a keyword that it does not know is a failed test rather than a free pass.

use std::cell::RefCell;
use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

/// A schema, and the patterns of it that were needed so far.
pub(crate) struct Fit {
    root: Value,
    patterns: RefCell<BTreeMap<String, Regex>>,
}

impl Fit {
    /// To check values against this schema.
    pub(crate) fn new(schema: Value) -> Fit {
        Fit { root: schema, patterns: RefCell::default() }
    }

    /// The first thing that does not fit, with the way to it; nothing if all fits.
    pub(crate) fn misfit(&self, value: &Value) -> Option<String> {
        self.check(&self.root, value, "")
    }

    fn check(&self, schema: &Value, value: &Value, at: &str) -> Option<String> {
        let keywords = schema.as_object().unwrap_or_else(|| panic!("no schema: {schema}"));
        keywords.iter().find_map(|(word, says)| self.keyword(keywords, word, says, value, at))
    }

    fn keyword(
        &self,
        all: &Map<String, Value>,
        word: &str,
        says: &Value,
        value: &Value,
        at: &str,
    ) -> Option<String> {
        let wrong = |what: String| Some(format!("{at}: {what}, got {value}"));
        let list = || says.as_array().unwrap();
        match word {
            "$schema" | "$defs" | "title" | "description" | "examples" | "default" | "then" => None,
            "$ref" => {
                let name = says.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                self.check(&self.root["$defs"][name], value, at)
            }
            "type" => {
                let fits = match says.as_str().unwrap() {
                    "string" => value.is_string(),
                    "integer" => {
                        value.is_i64()
                            || value.is_u64()
                            || value.as_f64().is_some_and(|n| n.fract() == 0.0)
                    }
                    "number" => value.is_number(),
                    "boolean" => value.is_boolean(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("unknown type {other}"),
                };
                if fits { None } else { wrong(format!("expected {says}")) }
            }
            "enum" if list().contains(value) => None,
            "enum" => wrong(format!("expected one of {says}")),
            "const" if says == value => None,
            "const" => wrong(format!("expected {says}")),
            "pattern" => {
                let text = value.as_str()?;
                let mut patterns = self.patterns.borrow_mut();
                let pattern = says.as_str().unwrap();
                let pattern = patterns
                    .entry(pattern.to_owned())
                    .or_insert_with(|| Regex::new(pattern).unwrap());
                if pattern.is_match(text) { None } else { wrong(format!("does not match {says}")) }
            }
            "minimum" => {
                let small = value.as_f64()? < says.as_f64().unwrap();
                if small { wrong(format!("less than {says}")) } else { None }
            }
            "maximum" => {
                let large = value.as_f64()? > says.as_f64().unwrap();
                if large { wrong(format!("more than {says}")) } else { None }
            }
            "minItems" => {
                let few = (value.as_array()?.len() as u64) < says.as_u64().unwrap();
                if few { wrong(format!("fewer than {says}")) } else { None }
            }
            "items" => {
                let mut items = value.as_array()?.iter().enumerate();
                items.find_map(|(index, item)| self.check(says, item, &format!("{at}[{index}]")))
            }
            "required" => {
                let table = value.as_object()?;
                let missing = list().iter().find(|key| !table.contains_key(key.as_str().unwrap()));
                missing.and_then(|key| wrong(format!("{key} is missing")))
            }
            "properties" => {
                let table = value.as_object()?;
                let known = says.as_object().unwrap();
                let mut held =
                    known.iter().filter_map(|(key, part)| Some((key, part, table.get(key)?)));
                held.find_map(|(key, part, held)| self.check(part, held, &format!("{at}.{key}")))
            }
            "additionalProperties" => {
                let known = all.get("properties").and_then(Value::as_object);
                let mut others = value
                    .as_object()?
                    .iter()
                    .filter(|(key, _)| known.is_none_or(|known| !known.contains_key(*key)));
                match says {
                    Value::Bool(true) => None,
                    Value::Bool(false) => {
                        others.next().and_then(|(key, _)| wrong(format!("unknown key {key:?}")))
                    }
                    part => others
                        .find_map(|(key, held)| self.check(part, held, &format!("{at}.{key}"))),
                }
            }
            "propertyNames" => {
                let mut keys = value.as_object()?.keys();
                keys.find_map(|key| self.check(says, &Value::String(key.clone()), at))
            }
            "anyOf" => {
                let mut misfits = Vec::new();
                for part in list() {
                    misfits.push(self.check(part, value, at)?);
                }
                Some(format!("{at}: none of [{}]", misfits.join(" | ")))
            }
            "allOf" => list().iter().find_map(|part| self.check(part, value, at)),
            "if" => match self.check(says, value, at) {
                None => self.check(&all["then"], value, at),
                Some(_) => None,
            },
            other => panic!("the keyword {other:?} is not known to this test"),
        }
    }
}
