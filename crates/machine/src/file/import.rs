//! Files of other programs as files of ours: text in, files and remarks out. Nothing here opens or writes a file.
//!
//! Four kinds are read: recipes of goose (YAML or JSON), commands of Claude Code (Markdown with front matter), skills
//! (`SKILL.md`) and pages that drive a tracker's issues (`WORKFLOW.md` with front matter). What cannot be carried over
//! is remarked with its line, never dropped in silence; what comes out was read by our own strict readers.

mod front;
mod markdown;
mod page;
mod recipe;
#[cfg(test)]
mod tests;
mod write;

use super::{SourceError, source};

/// Larger files are not prompts.
const MAX_BYTES: usize = 1 << 20;

/// What a file was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A recipe of goose.
    Recipe,
    /// A command of Claude Code.
    Command,
    /// A skill.
    Skill,
    /// A `WORKFLOW.md`.
    Page,
}

impl Kind {
    /// What a file's name promises; nothing if none of the four.
    pub fn of(file: &str) -> Option<Kind> {
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        match (name, name.rsplit_once('.').map(|(_, ending)| ending)) {
            ("SKILL.md", _) => Some(Kind::Skill),
            ("WORKFLOW.md", _) => Some(Kind::Page),
            (_, Some("md")) => Some(Kind::Command),
            (_, Some("yaml" | "yml" | "json")) => Some(Kind::Recipe),
            _ => None,
        }
    }

    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Recipe => "a goose recipe",
            Kind::Command => "a Claude Code command",
            Kind::Skill => "a skill",
            Kind::Page => "a WORKFLOW.md",
        }
    }
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// What it was taken for.
    pub kind: Kind,
    /// The name that the new files have.
    pub name: String,
    /// The new files.
    pub files: Vec<NewFile>,
    /// What could not be carried, in the order of the file.
    pub remarks: Vec<Remark>,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Its path below the folder of our files: `prompts/` or `workflows/` and a plain name.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// Something that was not carried over as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// The line of the old file, from 1.
    pub line: usize,
    /// What, and what to do about it.
    pub text: String,
}

/// Converts a file; its name tells what it is.
pub fn import(text: &str, file: &str) -> Result<Imported, Vec<SourceError>> {
    let whole = |message: String, hint: Option<String>| {
        Err(vec![source::error_at(file, text, 0..0, message, hint)])
    };
    let Some(kind) = Kind::of(file) else {
        let hint = "a goose recipe ends in .yaml or .json, a command in .md; the others are SKILL.md and WORKFLOW.md";
        return whole(
            "nothing is known about files of this name".to_owned(),
            Some(hint.to_owned()),
        );
    };
    if text.len() > MAX_BYTES {
        return whole(
            format!("the file has {} bytes: at most {MAX_BYTES} are read", text.len()),
            None,
        );
    }
    if let Some(at) = text.find('\0') {
        let message = "the file contains a NUL byte".to_owned();
        return Err(vec![source::error_at(file, text, at..at + 1, message, None)]);
    }
    let mut imported = match kind {
        Kind::Recipe => recipe::import(text, file)?,
        Kind::Command | Kind::Skill => markdown::import(text, file, kind)?,
        Kind::Page => page::import(text, file)?,
    };
    imported.remarks.sort();
    imported.remarks.dedup();
    Ok(imported)
}

/// A name of ours made of any text: small letters, digits, `-` and `_`.
fn slug(text: &str, otherwise: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '_' => name.push(c.to_ascii_lowercase()),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
        if name.len() >= 60 {
            break;
        }
    }
    let name = name.trim_matches('-');
    if name.is_empty() { otherwise.to_owned() } else { name.to_owned() }
}

/// The part of a path that names the thing: the file without its ending, or the folder of a file that is always called the
/// same.
fn own_name(file: &str) -> &str {
    let mut parts = file.rsplit(['/', '\\']);
    let name = parts.next().unwrap_or(file);
    match name {
        "SKILL.md" | "WORKFLOW.md" => parts.next().unwrap_or_default(),
        name => name.rsplit_once('.').map_or(name, |(stem, _)| stem),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
