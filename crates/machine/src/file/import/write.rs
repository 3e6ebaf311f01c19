//! Our files as text that a person would have written.

use serde_json::Value;

use super::NewFile;

/// A text as TOML: in one line, or between three quotes if it has several.
pub(super) fn text(given: &str) -> String {
    if !given.contains('\n') {
        return format!("\"{}\"", escaped(given, false));
    }
    format!("\"\"\"\n{}\"\"\"", escaped(given, true))
}

fn escaped(given: &str, keeps_lines: bool) -> String {
    let mut shown = String::with_capacity(given.len());
    for c in given.chars() {
        match c {
            '\n' if keeps_lines => shown.push('\n'),
            '\t' if keeps_lines => shown.push('\t'),
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            '\\' => shown.push_str("\\\\"),
            // Two in a row are fine, three would end the text.
            '"' if !keeps_lines || shown.ends_with("\"\"") || shown.ends_with('"') => {
                shown.push_str("\\\"")
            }
            c if c.is_control() => shown.push_str(&format!("\\u{:04X}", c as u32)),
            c => shown.push(c),
        }
    }
    if keeps_lines && shown.ends_with('"') && !shown.ends_with("\\\"") {
        shown.pop();
        shown.push_str("\\\"");
    }
    shown
}

/// Plain data as a TOML value in one line; nothing where TOML has no word for it.
pub(super) fn value(given: &Value) -> Option<String> {
    Some(match given {
        Value::Null => return None,
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(string) => format!("\"{}\"", escaped(string, false)),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .filter_map(|(key, entry)| Some(format!("{} = {}", text(key), value(entry)?)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
    })
}

/// An input of a workflow or a prompt.
#[derive(Debug, Clone, Default)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) description: String,
    pub(super) default: Option<Value>,
    pub(super) choices: Vec<String>,
}

impl Input {
    /// Its table below `[TABLE.inputs.NAME]`.
    pub(super) fn table(&self, below: &str, has_choices: bool) -> String {
        let mut lines = format!("\n[{below}.inputs.{}]\ntype = \"{}\"\n", self.name, self.kind);
        if !self.description.is_empty() {
            lines.push_str(&format!("description = {}\n", text(&self.description)));
        }
        if let Some(default) = self.default.as_ref().and_then(value) {
            lines.push_str(&format!("default = {default}\n"));
        }
        if has_choices && !self.choices.is_empty() {
            let choices: Vec<String> = self.choices.iter().map(|choice| text(choice)).collect();
            lines.push_str(&format!("choices = [{}]\n", choices.join(", ")));
        }
        lines
    }
}

/// A prompt's file.
pub(super) fn prompt(
    name: &str,
    description: &str,
    version: &str,
    said: &str,
    inputs: &[Input],
) -> NewFile {
    let mut lines = format!("[meta]\nname = {}\n", text(name));
    for (key, given) in [("description", description), ("version", version)] {
        if !given.is_empty() {
            lines.push_str(&format!("{key} = {}\n", text(given)));
        }
    }
    lines.push_str(&format!("\n[prompt]\ntext = {}\n", text(said)));
    for input in inputs {
        lines.push_str(&input.table("prompt", false));
    }
    NewFile { path: format!("prompts/{name}.toml"), text: lines }
}
