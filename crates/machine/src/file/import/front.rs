//! Front matter: a YAML block between two lines `---` at the top of a page.

use serde_json::Value;

use super::super::check::Cursor;
use super::super::source::{self, Source};
use super::super::{Format, SourceError};
use super::{Remark, line_of};

/// A page in its two parts.
#[derive(Debug)]
pub(super) struct Page<'t> {
    /// The front matter with the lines before it kept blank, so that lines are those of the file; empty if there is none.
    pub(super) front: String,
    /// What follows it.
    pub(super) body: &'t str,
    /// The line that the body begins at.
    pub(super) body_line: usize,
}

pub(super) fn split<'t>(text: &'t str, file: &str) -> Result<Page<'t>, Vec<SourceError>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return Ok(Page { front: String::new(), body: text, body_line: 1 });
    }
    let mut at = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            let front = format!("\n{}", quoted(&text[first.len()..at]));
            let body = &text[at + line.len()..];
            return Ok(Page { front, body, body_line: line_of(text, at + line.len()) });
        }
        at += line.len();
    }
    let message = "the front matter has no end".to_owned();
    let hint = "close it with a line ---".to_owned();
    Err(vec![source::error_at(file, text, 0..3, message, Some(hint))])
}

/// `argument-hint: [file] [line]` is how everybody writes it, and no YAML: its value is put in quotes.
fn quoted(front: &str) -> String {
    let line = |line: &str| match line.strip_prefix("argument-hint:") {
        Some(hint) if hint.trim_start().starts_with('[') => {
            format!("argument-hint: {}\n", Value::from(hint.trim()))
        }
        _ => line.to_owned(),
    };
    front.split_inclusive('\n').map(line).collect()
}

/// Reads the front matter; nothing if there is none.
pub(super) fn read<'t>(
    page: &'t Page<'_>,
    file: &'t str,
) -> Result<Option<Source<'t>>, Vec<SourceError>> {
    if page.front.trim().is_empty() {
        return Ok(None);
    }
    let read = Source::read(file, &page.front, Format::Yaml);
    read.map(Some).map_err(|mut errors| {
        // What other readers guess at is an error here, so it is said how to write it.
        if let Some(first) = errors.first_mut() {
            first.hint.get_or_insert_with(|| {
                "a value with \": \" or a bracket in it needs quotes".to_owned()
            });
        }
        errors
    })
}

/// Remarks with the places of keys.
#[derive(Debug, Default)]
pub(super) struct Remarks(pub(super) Vec<Remark>);

impl Remarks {
    /// Notes something about a key.
    pub(super) fn at(&mut self, source: &Source<'_>, at: &Cursor<'_>, text: impl Into<String>) {
        self.0.push(Remark { line: source.line(at), text: text.into() });
    }

    /// Notes something about a line.
    pub(super) fn line(&mut self, line: usize, text: impl Into<String>) {
        self.0.push(Remark { line, text: text.into() });
    }
}
