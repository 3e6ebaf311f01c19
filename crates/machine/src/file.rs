//! Files that people write, read strictly: text in, a typed value or errors with their place out.
//!
//! Nothing here opens a file. Every reader works in three stages: the text becomes plain data with the place
//! of each part (`source`), the data is checked key by key (`check`), and each problem is shown at its place
//! as a [`SourceError`]. Drivers use the same checks for a configuration that has no file.

pub mod agent;
pub(crate) mod brought;
pub(crate) mod check;
pub mod composed;
mod deciders;
pub mod import;
pub mod lookup;
pub mod mcp;
pub mod plugin;
pub mod policy;
pub mod policy_rule;
pub mod prompt;
mod recovery;
pub mod reference;
pub mod sandbox;
pub mod shape;
mod source;
pub mod task;
#[cfg(test)]
mod tests;
pub mod validators;
pub mod workflow;

use std::fmt;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.1.
    Toml,
    /// YAML 1.2: one document, plain data only.
    Yaml,
}

impl Format {
    /// The format that a file's name promises; TOML unless it ends in `.yaml` or `.yml`, in capitals or not.
    pub fn of(file: &str) -> Format {
        let ending = file.rsplit('.').next().unwrap_or_default();
        let is_yaml = ["yaml", "yml"].into_iter().any(|yaml| ending.eq_ignore_ascii_case(yaml));
        if is_yaml && ending.len() < file.len() { Format::Yaml } else { Format::Toml }
    }
}

/// Something wrong in a file, with its place. [`fmt::Display`] shows it the way a compiler would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// The file, as the person named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and what was expected.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The source line, cut to a readable width; what looks like a secret is left out.
    pub snippet: String,
    /// The first character of the snippet that is meant, and how many.
    pub caret: (usize, usize),
}

impl SourceError {
    /// An error at a line and a column, both from 1, as other parsers report them. The word that begins there is meant.
    pub fn at(
        file: &str,
        text: &str,
        (line, column): (usize, usize),
        message: String,
        hint: Option<String>,
    ) -> SourceError {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let start = std::iter::once(0).chain(breaks).nth(line.max(1) - 1).unwrap_or(text.len());
        let rest = text[start..].split('\n').next().unwrap_or_default();
        let offset = rest.char_indices().nth(column.max(1) - 1).map_or(rest.len(), |(at, _)| at);
        let word = rest[offset..].find(|c: char| !c.is_alphanumeric() && c != '_');
        let end = start + offset + word.unwrap_or(rest.len() - offset);
        source::error_at(file, text, start + offset..end, message, hint)
    }

    /// An error at a range of bytes.
    pub fn within(
        file: &str,
        text: &str,
        range: std::ops::Range<usize>,
        message: String,
        hint: Option<String>,
    ) -> SourceError {
        source::error_at(file, text, range, message, hint)
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let margin = " ".repeat(self.line.to_string().len());
        writeln!(f, "error: {}", printable(&self.message))?;
        writeln!(f, "{margin}--> {}:{}:{}", printable(&self.file), self.line, self.column)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{} | {}", self.line, self.snippet)?;
        write!(f, "{margin} | {}{}", " ".repeat(self.caret.0), "^".repeat(self.caret.1.max(1)))?;
        match &self.hint {
            Some(hint) => write!(f, "\n{margin} = help: {}", printable(hint)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SourceError {}

/// Reads bytes as text; the error points at the first byte that is not UTF-8.
pub fn decode<'b>(bytes: &'b [u8], file: &str) -> Result<&'b str, Vec<SourceError>> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let end = good.len();
        let (message, hint) = ("the file is not UTF-8 text", "save the file as UTF-8");
        vec![source::error_at(file, &good, end..end, message.to_owned(), Some(hint.to_owned()))]
    })
}

/// A mistake of a file as a whole, shown at its beginning.
pub fn whole(file: &str, text: &str, message: String) -> SourceError {
    source::error_at(file, text, 0..0, message, None)
}

/// A mistake in what a file says, shown where it first says so; at the beginning if it is written otherwise there.
pub fn at_part(
    file: &str,
    text: &str,
    part: &str,
    message: String,
    help: Option<String>,
) -> SourceError {
    let place = match text.find(part) {
        Some(start) if !part.is_empty() => start..start + part.len(),
        _ => 0..0,
    };
    source::error_at(file, text, place, message, help)
}

/// "Did you mean", if one of the known names is near to the given one.
pub fn suggestion<'c>(given: &str, known: impl Iterator<Item = &'c str>) -> Option<String> {
    check::suggest(given, known)
}

/// Control characters and those that reorder text, replaced one for one: a file must not steer a terminal. A tab is as good
/// as a space, and the caret below stays right.
fn printable(text: &str) -> String {
    let shown = |c| match c {
        '\t' => ' ',
        c if steers(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
