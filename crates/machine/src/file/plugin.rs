//! `.drivetrain/drivers/NAME.toml`: a driver that is a process outside.

use std::collections::BTreeMap;

use super::check::{Cursor, Problems};
use super::sandbox::read_needs;
use super::shape::plugin as shape;
use super::source::Source;
use super::{Format, SourceError};
use crate::policy::sandbox::Needs;
use crate::time::Span;

/// How long a plugin may think if its file does not say.
const DEFAULT_TIMEOUT: Span = Span::seconds(30);

/// A plugin as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// The NAME of `external:NAME`.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How long one answer may take.
    pub timeout: Span,
    /// Variables to set for it.
    pub env: BTreeMap<String, String>,
    /// What it needs of the sandbox.
    pub needs: Needs,
}

/// Reads a plugin's file. TOML unless the file's name says YAML.
pub fn parse(text: &str, file: &str) -> Result<Plugin, Vec<SourceError>> {
    let source = Source::read(file, text, Format::of(file))?;
    let mut problems = Problems::default();
    let top = Cursor::top(&source.value);
    top.keys(&mut problems, &shape::TOP);
    let plugin =
        top.need(&mut problems, "driver").and_then(|table| read_plugin(&table, &mut problems));
    match plugin {
        Some(plugin) if problems.is_empty() => Ok(plugin),
        _ => Err(source.errors(problems)),
    }
}

fn read_plugin(at: &Cursor<'_>, problems: &mut Problems) -> Option<Plugin> {
    if !at.keys(problems, &shape::DRIVER) {
        return None;
    }
    let name = at.need(problems, "name").and_then(|name| name.name(problems)).map(str::to_owned);
    let command = at.need(problems, "command").map(|list| {
        let command = list.texts(problems);
        if list.value.is_array() && command.first().is_none_or(|program| program.trim().is_empty())
        {
            problems.push(
                &list,
                "the command is empty",
                Some("write [\"program\", \"argument\"]".to_owned()),
            );
        }
        command
    });
    let timeout = match at.get("timeout") {
        Some(timeout) => timeout.span(problems),
        None => Some(DEFAULT_TIMEOUT),
    };
    if let Some(given) = at.get("timeout")
        && timeout == Some(Span(0))
    {
        problems.push(
            &given,
            "a timeout of nothing would stop every answer",
            Some("write a longer one, such as \"30s\", or leave it out".to_owned()),
        );
    }
    let mut env = BTreeMap::new();
    if let Some(table) = at.get("env") {
        if !table.value.is_object() {
            table.wrong(problems, "a table of texts");
        }
        for (key, entry) in table.entries() {
            if key.is_empty() || key.contains(['=', '\0']) {
                problems.push_key(
                    &entry,
                    format!("{key:?} cannot be the name of a variable"),
                    Some("letters, digits and _, no digit first".to_owned()),
                );
            }
            env.extend(entry.text(problems).map(|text| (key.to_owned(), text.to_owned())));
        }
    }
    let needs = read_needs(at, problems);
    Some(Plugin { name: name?, command: command?, timeout: timeout?, env, needs })
}
