//! The words of the language: filters, tests and functions. What could give much for little is bounded here.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value, filters, functions, tests};

/// What one filter may give, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// Deeper than any plain data that is read.
const MAX_DEPTH: usize = 160;

/// Filters whose result is not larger than what they are given.
pub(super) const FILTERS: [&str; 31] = [
    "abs",
    "bool",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "int",
    "items",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "round",
    "select",
    "selectattr",
    "sort",
    "split",
    "sum",
    "title",
    "trim",
    "unique",
];
/// Filters that keep to the size of their letters only.
pub(super) const CASE: [&str; 1] = ["upper"];
/// Filters that put a text together; bounded by this file.
pub(super) const JOINERS: [&str; 6] = ["indent", "join", "quote", "replace", "string", "tojson"];

/// Tests, as in `x is defined`.
pub(super) const TESTS: [&str; 22] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "even",
    "false",
    "float",
    "in",
    "integer",
    "iterable",
    "lower",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
];

/// Functions.
pub(super) const FUNCTIONS: [&str; 1] = ["range"];

/// Teaches all of it.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    add_filters(environment);
    add_tests(environment);
    environment.add_function("range", functions::range);
}

fn add_filters(environment: &mut Environment<'static>) {
    environment.add_filter("abs", filters::abs);
    environment.add_filter("bool", filters::bool);
    environment.add_filter("capitalize", filters::capitalize);
    environment.add_filter("count", filters::length);
    environment.add_filter("d", filters::default);
    environment.add_filter("default", filters::default);
    environment.add_filter("dictsort", filters::dictsort);
    environment.add_filter("first", filters::first);
    environment.add_filter("float", filters::float);
    environment.add_filter("indent", indent);
    environment.add_filter("int", filters::int);
    environment.add_filter("items", filters::items);
    environment.add_filter("join", join);
    environment.add_filter("last", filters::last);
    environment.add_filter("length", filters::length);
    environment.add_filter("lines", filters::lines);
    environment.add_filter("list", filters::list);
    environment.add_filter("lower", filters::lower);
    environment.add_filter("map", filters::map);
    environment.add_filter("max", filters::max);
    environment.add_filter("min", filters::min);
    environment.add_filter("quote", quote);
    environment.add_filter("reject", filters::reject);
    environment.add_filter("rejectattr", filters::rejectattr);
    environment.add_filter("replace", replace);
    environment.add_filter("reverse", filters::reverse);
    environment.add_filter("round", filters::round);
    environment.add_filter("select", filters::select);
    environment.add_filter("selectattr", filters::selectattr);
    environment.add_filter("sort", filters::sort);
    environment.add_filter("split", filters::split);
    environment.add_filter("string", string);
    environment.add_filter("sum", filters::sum);
    environment.add_filter("title", filters::title);
    environment.add_filter("tojson", tojson);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("unique", filters::unique);
    environment.add_filter("upper", filters::upper);
}

fn add_tests(environment: &mut Environment<'static>) {
    environment.add_test("boolean", tests::is_boolean);
    environment.add_test("defined", tests::is_defined);
    environment.add_test("divisibleby", tests::is_divisibleby);
    environment.add_test("endingwith", tests::is_endingwith);
    environment.add_test("eq", tests::is_eq);
    environment.add_test("even", tests::is_even);
    environment.add_test("false", tests::is_false);
    environment.add_test("float", tests::is_float);
    environment.add_test("in", tests::is_in);
    environment.add_test("integer", tests::is_integer);
    environment.add_test("iterable", tests::is_iterable);
    environment.add_test("lower", tests::is_lower);
    environment.add_test("mapping", tests::is_mapping);
    environment.add_test("ne", tests::is_ne);
    environment.add_test("none", tests::is_none);
    environment.add_test("number", tests::is_number);
    environment.add_test("odd", tests::is_odd);
    environment.add_test("sequence", tests::is_sequence);
    environment.add_test("startingwith", tests::is_startingwith);
    environment.add_test("string", tests::is_string);
    environment.add_test("true", tests::is_true);
    environment.add_test("undefined", tests::is_undefined);
}

/// A text that stops growing at the bound.
#[derive(Default)]
struct Short(String);

impl Write for Short {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > MAX_TEXT {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn too_long(_: std::fmt::Error) -> Error {
    wrong(format!("the text is longer than {MAX_TEXT} bytes"))
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn defined(value: &Value) -> Result<&Value, Error> {
    if value.is_undefined() { Err(Error::from(ErrorKind::UndefinedError)) } else { Ok(value) }
}

fn string(value: &Value) -> Result<String, Error> {
    let mut text = Short::default();
    write!(text, "{}", defined(value)?).map_err(too_long)?;
    Ok(text.0)
}

fn join(list: &Value, between: Option<String>) -> Result<String, Error> {
    let mut text = Short::default();
    let between = between.unwrap_or_default();
    for (index, item) in defined(list)?.try_iter()?.enumerate() {
        let between = if index == 0 { "" } else { &between };
        write!(text, "{between}{}", defined(&item)?).map_err(too_long)?;
    }
    Ok(text.0)
}

fn replace(text: String, from: String, to: String) -> Result<String, Error> {
    if from.is_empty() {
        return Err(wrong("replace needs a text to look for".to_owned()));
    }
    let mut new = Short::default();
    for (index, part) in text.split(from.as_str()).enumerate() {
        let before = if index == 0 { "" } else { &to };
        write!(new, "{before}{part}").map_err(too_long)?;
    }
    Ok(new.0)
}

/// The text as one word of a command line, whatever is in it.
fn quote(value: &Value) -> Result<String, Error> {
    let mut text = Short::default();
    let inside = replace(string(value)?, "'".to_owned(), "'\\''".to_owned())?;
    write!(text, "'{inside}'").map_err(too_long)?;
    Ok(text.0)
}

/// Every line but the first begins with so many spaces; `first=true`: every line.
fn indent(text: String, width: usize, options: Kwargs) -> Result<String, Error> {
    let first = options.get::<Option<bool>>("first")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut new = Short::default();
    let margin = " ".repeat(width.min(MAX_TEXT));
    for (index, line) in text.split('\n').enumerate() {
        let end = if index == 0 { "" } else { "\n" };
        let is_bare = line.is_empty() || (index == 0 && !first);
        let margin = if is_bare { "" } else { &margin };
        write!(new, "{end}{margin}{line}").map_err(too_long)?;
    }
    Ok(new.0)
}

/// The value as JSON in one line, keys in order.
fn tojson(value: &Value) -> Result<String, Error> {
    let value = plain(defined(value)?).map_err(wrong)?;
    let mut text = Short::default();
    write!(text, "{value}").map_err(too_long)?;
    Ok(text.0)
}

/// A value as plain data. What plain data cannot hold is an error.
pub(super) fn plain(value: &Value) -> Result<serde_json::Value, String> {
    plain_at(value, 0)
}

fn plain_at(value: &Value, depth: usize) -> Result<serde_json::Value, String> {
    use serde_json::Value as Plain;
    if depth > MAX_DEPTH {
        return Err("the value nests too deeply".to_owned());
    }
    Ok(match value.kind() {
        ValueKind::Undefined => return Err("a part of the value is missing".to_owned()),
        ValueKind::None => Plain::Null,
        ValueKind::Bool => Plain::Bool(value.is_true()),
        ValueKind::Number => number(value)?,
        ValueKind::String => Plain::String(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|error| error.to_string())?;
            Plain::Array(items.map(|item| plain_at(&item, depth + 1)).collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let mut table = serde_json::Map::new();
            for key in value.try_iter().map_err(|error| error.to_string())? {
                let part = value.get_item(&key).map_err(|error| error.to_string())?;
                let name = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                table.insert(name, plain_at(&part, depth + 1)?);
            }
            Plain::Object(table)
        }
        _ => return Err(format!("{value} is no plain value")),
    })
}

fn number(value: &Value) -> Result<serde_json::Value, String> {
    let text = value.to_string();
    if let Ok(whole) = text.parse::<i64>() {
        return Ok(whole.into());
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Ok(whole.into());
    }
    if value.is_integer() {
        return Err(format!("the number {text} needs more than 64 bits"));
    }
    let float = f64::try_from(value.clone()).map_err(|error| error.to_string())?;
    serde_json::Number::from_f64(float)
        .map(serde_json::Value::Number)
        .ok_or_else(|| format!("{text} is not a number"))
}
