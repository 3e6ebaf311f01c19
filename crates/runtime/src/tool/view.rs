//! `view`: the source of a definition, found by its name.

use std::collections::BTreeSet;
use std::path::Path;

use machine::effect::ToolCall;
use machine::tool::ToolResult;

use super::outline::{self, Item, Unfinished};
use super::skeleton::{files, read, unfinished};
use super::{Patience, ToolServices, failed, shown_text, text};
use crate::beneath::Root;

/// The most definitions whose source is shown.
const SHOWN: usize = 10;
/// The most definitions that are listed.
const LISTED: usize = 50;
/// The most lines of one definition.
const LINES: usize = 400;
/// The most near names, where nothing has the name itself.
const NEAR: usize = 8;
/// How much source is looked through for near names, in bytes.
const NEAR_BYTES: usize = 16 * 1024 * 1024;

/// What stands before a name of Rust that is otherwise a word of the language; it is no part of the name.
const RAW: &str = "r#";

/// A definition that has the name.
struct Found {
    file: String,
    name: String,
    lines: (usize, usize),
    source: String,
}

pub(super) fn run(
    call: &ToolCall,
    root: &Root,
    folder: &Path,
    services: &ToolServices,
    patience: &Patience<'_>,
) -> ToolResult {
    let symbol = text(call, "symbol");
    let wanted = parts(symbol);
    let Some(last) = wanted.last() else {
        return failed(format!("{symbol:?} is no name; expected one such as push or Parser::push"));
    };
    let path = call.input.get("path").and_then(|value| value.as_str()).unwrap_or(".");
    let files = match files(root, folder, path, patience) {
        Ok(files) => files,
        Err(result) => return result,
    };
    let stop = || patience.over().is_some();
    let mut found: Vec<Found> = Vec::new();
    for file in &files {
        let (language, source) = match read(root, file) {
            Ok(read) => read,
            Err(reason) if files.len() == 1 => return failed(reason),
            Err(_) => continue,
        };
        // Parsing is the costly part: only a file that holds the name at all is worth it.
        if !holds(&source, last.as_bytes()) {
            continue;
        }
        let items = match outline::items(language, &source, &stop) {
            Ok(items) => items,
            Err(Unfinished::TooHard) if files.len() > 1 => continue,
            Err(why) => return unfinished(why, patience, file),
        };
        let fits = |item: &&Item| item.defines && ends_with(&item.path, &wanted);
        found.extend(items.iter().filter(fits).map(|item| Found {
            file: file.clone(),
            name: item.name(language),
            lines: item.lines,
            source: cut(file, item, &source),
        }));
    }
    if found.is_empty() {
        return match near(root, &files, last, &stop) {
            Ok(names) => failed(missing(symbol, path, &names)),
            Err(why) => unfinished(why, patience, path),
        };
    }
    shown_text(&shown(symbol, &found), services)
}

/// The parts of a name, whatever language's sign is between them.
fn parts(symbol: &str) -> Vec<&str> {
    let symbol = symbol.trim().trim_end_matches("()");
    let raw = symbol.split("::").map(|part| part.trim().trim_start_matches(RAW));
    let split = raw.flat_map(|part| part.split(['.', '#'])).map(str::trim);
    split.filter(|part| !part.is_empty()).collect()
}

fn ends_with(path: &[String], wanted: &[&str]) -> bool {
    path.len() >= wanted.len()
        // A sign that is between names elsewhere begins the name of a private member of JavaScript.
        && path[path.len() - wanted.len()..]
            .iter()
            .zip(wanted)
            .all(|(have, want)| have.trim_start_matches(RAW).trim_start_matches('#') == *want)
}

fn holds(source: &[u8], name: &[u8]) -> bool {
    source.windows(name.len().max(1)).any(|window| window == name)
}

/// The source of an item, cut if it is long.
fn cut(file: &str, item: &Item, source: &[u8]) -> String {
    let bytes = source.get(item.source.clone()).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end();
    match text.match_indices('\n').nth(LINES - 1) {
        None => text.to_owned(),
        Some((at, _)) => {
            let next = item.lines.0 + LINES;
            let more = item.lines.1.saturating_sub(next) + 1;
            let cut = &text[..at];
            format!("{cut}\n[{more} more lines; read {file} with offset {next}]")
        }
    }
}

fn shown(symbol: &str, found: &[Found]) -> String {
    let place = |found: &Found| {
        format!("{}:{}-{}  {}", found.file, found.lines.0, found.lines.1, found.name)
    };
    let mut text = String::new();
    if found.len() > 1 {
        text.push_str(&format!("{} definitions of {symbol}:\n", found.len()));
        for one in found.iter().take(LISTED) {
            text.push_str(&format!("  {}\n", place(one)));
        }
        let more = found.len().saturating_sub(LISTED);
        if more > 0 {
            text.push_str(&format!("  [{more} more; say more of the name or give a path]\n"));
        }
        text.push('\n');
    }
    let sources: Vec<String> =
        found.iter().take(SHOWN).map(|one| format!("{}\n{}", place(one), one.source)).collect();
    text.push_str(&sources.join("\n\n"));
    if found.len() > SHOWN {
        text.push_str(&format!("\n\n[the source of the first {SHOWN} is shown]"));
    }
    text
}

/// Qualified names that look like the one that was asked for.
fn near(
    root: &Root,
    files: &[String],
    last: &str,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<String>, Unfinished> {
    let lower = last.to_lowercase();
    let mut names: BTreeSet<(usize, String)> = BTreeSet::new();
    let mut looked = 0;
    for file in files {
        let Ok((language, source)) = read(root, file) else { continue };
        looked += source.len();
        if looked > NEAR_BYTES {
            break;
        }
        let items = match outline::items(language, &source, stop) {
            Err(Unfinished::TooHard) => continue,
            other => other?,
        };
        for item in items {
            if let Some(distance) = item.path.last().and_then(|name| likeness(&lower, name)) {
                names.insert((distance, item.name(language)));
                if names.len() > NEAR {
                    names.pop_last();
                }
            }
        }
    }
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

/// How far two names are from each other, if they are near: the same but for case, one inside the other, or a few
/// letters changed.
fn likeness(wanted: &str, name: &str) -> Option<usize> {
    let name = name.to_lowercase();
    if name == wanted {
        return Some(0);
    }
    let (a, b): (Vec<char>, Vec<char>) = (wanted.chars().collect(), name.chars().collect());
    if a.len() > 64 || b.len() > 64 {
        return None;
    }
    let inside = a.len() >= 3 && b.len() >= 3 && (name.contains(wanted) || wanted.contains(&name));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = corner + usize::from(from != to);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    let distance = row[b.len()];
    (inside || distance <= a.len() / 3).then_some(distance)
}

fn missing(symbol: &str, path: &str, near: &[String]) -> String {
    let place = if path == "." { "the workspace" } else { path };
    let hint = match near {
        [] => "expected the name of a function, type, class or module; grep finds other text"
            .to_owned(),
        names => format!("did you mean {}?", names.join(", ")),
    };
    format!("nothing in {place} defines {symbol:?}; {hint}")
}
