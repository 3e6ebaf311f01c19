//! Text into plain data that remembers the place of each part.
//!
//! Both formats end in a [`Value`] and a tree of [`Place`]s of the same shape. What plain data cannot hold is
//! refused here: dates, numbers that are not finite or need more than 64 bits, tags, merge keys, and nesting
//! or repetition that only an attack needs.

mod mend;
mod toml;
mod yaml;

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Number, Value};

use super::check::{Cursor, Problem, Problems, Segment};
use super::{Format, SourceError, printable, reference};
use crate::lookalike::cover_lookalikes;

/// No file of ours nests deeper, and recursion over data stays far from the end of the stack.
const MAX_DEPTH: usize = 48;
/// Larger than a workflow of ten thousand steps.
const MAX_BYTES: usize = 16 << 20;
/// A person fixes a few errors at a time.
const MAX_ERRORS: usize = 20;
const SNIPPET_WIDTH: usize = 100;
/// What stands where a secret was.
const COVER: &str = "***";

/// A file as plain data.
#[derive(Debug)]
pub(super) struct Source<'t> {
    file: &'t str,
    text: &'t str,
    /// What it says.
    pub(super) value: Value,
    place: Place,
    /// True if a script gave the value and the text is the script.
    is_generated: bool,
}

/// Where a part stands: byte ranges in the text.
#[derive(Debug, Default)]
struct Place {
    key: Option<Range<usize>>,
    value: Range<usize>,
    parts: Parts,
}

#[derive(Debug, Default)]
enum Parts {
    #[default]
    None,
    List(Vec<Place>),
    Table(BTreeMap<String, Place>),
}

impl<'t> Source<'t> {
    /// Reads a whole file; its top is a table.
    pub(super) fn read(
        file: &'t str,
        text: &'t str,
        format: Format,
    ) -> Result<Source<'t>, Vec<SourceError>> {
        let whole = |message: String| {
            let hint = mend::hint(&message);
            vec![error_at(file, text, 0..0, message, Some(hint))]
        };
        if text.len() > MAX_BYTES {
            return Err(whole(format!(
                "the file has {} bytes: at most {MAX_BYTES} are read",
                text.len()
            )));
        }
        if let Some(at) = text.find('\0') {
            return Err(vec![error_at(
                file,
                text,
                at..at + 1,
                "the file contains a NUL byte".to_owned(),
                Some(mend::hint("NUL byte")),
            )]);
        }
        if text.trim().is_empty() {
            return Err(whole("the file is empty".to_owned()));
        }
        let (value, place) = match format {
            Format::Toml => toml::read(file, text)?,
            Format::Yaml => yaml::read(file, text)?,
        };
        if !value.is_object() {
            return Err(vec![error_at(
                file,
                text,
                place.value,
                "the file must be a table of keys".to_owned(),
                Some("write key: value, one a line".to_owned()),
            )]);
        }
        Ok(Source { file, text, value, place, is_generated: false })
    }

    /// What a script gave. Its parts have no places of their own: problems are shown at one place of the script, with the
    /// way to the part in the message.
    pub(super) fn generated(
        file: &'t str,
        text: &'t str,
        value: Value,
        range: Range<usize>,
    ) -> Source<'t> {
        let place = Place { value: range, ..Place::default() };
        Source { file, text, value, place, is_generated: true }
    }

    /// Puts each problem at its place, in the order of the file.
    pub(super) fn errors(&self, problems: Problems) -> Vec<SourceError> {
        let (list, left_out) = problems.into_parts();
        let mut placed: Vec<(Range<usize>, Problem)> =
            list.into_iter().map(|problem| (self.range(&problem), problem)).collect();
        placed.sort_by_key(|(range, _)| range.start);
        let more = left_out + placed.len().saturating_sub(MAX_ERRORS);
        let mut errors: Vec<SourceError> = placed
            .into_iter()
            .take(MAX_ERRORS)
            .map(|(range, problem)| {
                let way = if self.is_generated { problem.way() } else { String::new() };
                // What a script gives stands in the table that a file would call [workflow].
                let message = match way.strip_prefix("workflow.").unwrap_or(&way) {
                    "" | "workflow" => problem.message,
                    way => format!("{way}: {}", problem.message),
                };
                error_at(self.file, self.text, range, message, problem.hint)
            })
            .collect();
        if more > 0
            && let Some(last) = errors.last_mut()
        {
            let errors = if more == 1 { "error" } else { "errors" };
            last.message.push_str(&format!(" (and {more} more {errors})"));
        }
        errors
    }

    /// The line of a part, from 1.
    pub(super) fn line(&self, at: &Cursor<'_>) -> usize {
        let mut problems = Problems::default();
        problems.push_key(at, String::new(), None);
        let found = problems.into_parts().0.first().map(|problem| self.range(problem).start);
        self.text.as_bytes()[..found.unwrap_or(0)].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// The range of a problem: its own place, or that of the nearest part around it that has one.
    fn range(&self, problem: &Problem) -> Range<usize> {
        let mut place = &self.place;
        let mut value = Some(&self.value);
        let mut found = place.key.clone().unwrap_or(place.value.clone());
        for (index, segment) in problem.path.iter().enumerate() {
            let next = match (segment, &place.parts) {
                (Segment::Key(key), Parts::Table(table)) => table.get(key.as_str()),
                (Segment::Index(index), Parts::List(list)) => list.get(*index),
                _ => None,
            };
            let Some(next) = next else { break };
            place = next;
            value = value.and_then(|value| match segment {
                Segment::Key(key) => value.get(key.as_str()),
                Segment::Index(index) => value.get(*index),
            });
            let at_key = problem.on_key || index + 1 < problem.path.len();
            let is_large = !matches!(place.parts, Parts::None);
            found = match &place.key {
                Some(key) if at_key || is_large => key.clone(),
                // A table that TOML only implies has no place of its own.
                _ if place.value == (0..0) => found,
                _ => place.value.clone(),
            };
        }
        let words = value.and_then(Value::as_str);
        match (problem.within, words) {
            (Some((start, end)), Some(words)) => self.inside(&found, words, start, end),
            _ => found,
        }
    }

    /// The range of some bytes of a text, if the file has the text as it is (no escapes, no margins); else that of
    /// the whole text.
    fn inside(&self, whole: &Range<usize>, words: &str, start: usize, end: usize) -> Range<usize> {
        let written = self.text.get(whole.clone()).unwrap_or_default();
        // What stands in another file is not here.
        let is_here =
            !matches!(reference::read(words), Ok(Some(_))) && words.get(start..end).is_some();
        match written.find(words).filter(|_| is_here) {
            Some(at) => whole.start + at + start..whole.start + at + end,
            None => whole.clone(),
        }
    }
}

/// An error at a byte range of a text.
pub(super) fn error_at(
    file: &str,
    text: &str,
    range: Range<usize>,
    message: String,
    hint: Option<String>,
) -> SourceError {
    let mut start = range.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let line = text[line_start..line_end].trim_end_matches('\r');
    let before = text[line_start..start].chars().count();
    let mut stop = range.end.clamp(start, line_end);
    while !text.is_char_boundary(stop) {
        stop -= 1;
    }
    let width = text[start..stop].chars().count();
    let from = before.saturating_sub(SNIPPET_WIDTH / 2);
    let shown: String =
        printable(&hide_secrets(line)).chars().skip(from).take(SNIPPET_WIDTH).collect();
    let room = shown.chars().count().saturating_sub(before - from);
    SourceError {
        file: file.to_owned(),
        line: text[..start].matches('\n').count() + 1,
        column: before + 1,
        message: cover_lookalikes(&message, COVER),
        hint: hint.map(|hint| cover_lookalikes(&hint, COVER)),
        snippet: shown.trim_end().to_owned(),
        caret: (before - from, width.min(room)),
    }
}

/// Leaves out what looks like a key, and what follows a name that says that it is a secret; errors are shown, logged and
/// sent on.
fn hide_secrets(line: &str) -> String {
    const SECRET: [&str; 11] = [
        "api_key",
        "apikey",
        "api-key",
        "secret",
        "password",
        "passwd",
        "credential",
        "authorization",
        "access_token",
        "auth_token",
        "private_key",
    ];
    let lower = line.to_ascii_lowercase();
    let found = SECRET.iter().filter_map(|word| lower.find(word).map(|at| at + word.len())).min();
    let value = found.and_then(|end| line[end..].find([':', '=']).map(|at| end + at + 1));
    let line = value.map_or_else(|| line.to_owned(), |at| format!("{} {COVER}", &line[..at]));
    cover_lookalikes(&line, COVER)
}

/// Collects what the formats have in common.
struct Builder<'t> {
    file: &'t str,
    text: &'t str,
    errors: Vec<SourceError>,
}

impl Builder<'_> {
    fn refuse(&mut self, range: &Range<usize>, message: &str) -> Value {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error_at(
                self.file,
                self.text,
                range.clone(),
                message.to_owned(),
                Some(mend::hint(message)),
            ));
        }
        Value::Null
    }

    fn whole(&mut self, range: &Range<usize>, number: Option<i128>) -> Value {
        let fitting = number.and_then(|number| {
            i64::try_from(number)
                .map(Number::from)
                .or_else(|_| u64::try_from(number).map(Number::from))
                .ok()
        });
        match fitting {
            Some(number) => Value::Number(number),
            None => self.refuse(range, "the number needs more than 64 bits"),
        }
    }

    fn float(&mut self, range: &Range<usize>, number: Option<f64>) -> Value {
        match number.and_then(Number::from_f64) {
            Some(number) => Value::Number(number),
            None => self.refuse(range, "the number must be finite"),
        }
    }

    fn finish(self, value: Value, place: Place) -> Result<(Value, Place), Vec<SourceError>> {
        if self.errors.is_empty() { Ok((value, place)) } else { Err(self.errors) }
    }
}
