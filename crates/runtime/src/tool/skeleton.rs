//! `skeleton`: the items of a file, or of every source file of a folder, without their bodies.

use std::path::Path;

use machine::effect::ToolCall;
use machine::tool::{Status, ToolResult};

use super::glob::walk;
use super::outline::{self, Item, SOURCE_LIMIT, Unfinished};
use super::{Patience, ToolServices, failed, number, shown_text, text};
use crate::beneath::{Kind, Root};

/// How many items are shown if nobody says.
const DEFAULT_LIMIT: usize = 500;

pub(super) fn run(
    call: &ToolCall,
    root: &Root,
    folder: &Path,
    services: &ToolServices,
    patience: &Patience<'_>,
) -> ToolResult {
    let path = text(call, "path");
    let depth = number(call, "depth").unwrap_or(usize::MAX);
    let limit = number(call, "limit").unwrap_or(DEFAULT_LIMIT);
    let files = match files(root, folder, path, patience) {
        Ok(files) => files,
        Err(result) => return result,
    };
    let mut list = String::new();
    let mut left = limit;
    let mut unread = 0;
    for (at, file) in files.iter().enumerate() {
        if left == 0 && at > 0 {
            let more = files.len() - at;
            list.push_str(&format!("\n[{more} more files are not shown; ask for a part of them]"));
            break;
        }
        let (language, source) = match read(root, file) {
            Ok(read) => read,
            Err(reason) if files.len() == 1 => return failed(reason),
            Err(_) => {
                unread += 1;
                continue;
            }
        };
        let stop = || patience.over().is_some();
        let items = match outline::items(language, &source, &stop) {
            Ok(items) => items,
            Err(Unfinished::TooHard) if files.len() > 1 => {
                unread += 1;
                continue;
            }
            Err(why) => return unfinished(why, patience, file),
        };
        let items: Vec<&Item> = items.iter().filter(|item| item.depth < depth).collect();
        if at > 0 {
            list.push_str("\n\n");
        }
        list.push_str(file);
        let width = items.last().map_or(1, |item| item.line.to_string().len());
        for item in items.iter().take(left) {
            let indent = "  ".repeat(item.depth);
            list.push_str(&format!("\n{:>width$}  {indent}{}", item.line, item.signature));
        }
        if items.len() > left {
            let more = items.len() - left;
            list.push_str(&format!("\n[{more} more items of this file are not shown]"));
        } else if items.is_empty() {
            list.push_str("\n[no items]");
        }
        left = left.saturating_sub(items.len());
    }
    if unread > 0 {
        list.push_str(&format!("\n[{unread} files could not be read]"));
    }
    shown_text(list.trim_start_matches('\n'), services)
}

/// The result for a file that has no outline.
pub(super) fn unfinished(why: Unfinished, patience: &Patience<'_>, file: &str) -> ToolResult {
    let stopped = || ToolResult::ended(Status::Aborted, "stopped before it was done");
    match why {
        Unfinished::Stopped => patience.over().unwrap_or_else(stopped),
        Unfinished::TooHard => failed(format!(
            "cannot outline {file:?}: it takes too much time or memory to parse; read shows its text"
        )),
    }
}

/// The source files that a path names, below the workspace.
pub(super) fn files(
    root: &Root,
    folder: &Path,
    path: &str,
    patience: &Patience<'_>,
) -> Result<Vec<String>, ToolResult> {
    let named = root.kind(path).and_then(|kind| Ok((kind, root.relative(path)?)));
    let start = match named {
        Err(error) => return Err(failed(format!("cannot look into {error}"))),
        Ok((Some(Kind::File), below)) => return Ok(vec![below]),
        Ok((Some(Kind::Folder), below)) => below,
        Ok((Some(Kind::Special), _)) => {
            let text = format!("cannot look into {path:?}: it is neither a file nor a folder");
            return Err(failed(text));
        }
        Ok((None, _)) => {
            return Err(failed(format!("cannot look into {path:?}: it does not exist")));
        }
    };
    let mut files = Vec::new();
    for entry in walk(&folder.join(&start)) {
        if let Some(result) = patience.over() {
            return Err(result);
        }
        let Ok(entry) = entry else { continue };
        let Ok(path) = entry.path().strip_prefix(folder) else { continue };
        let Some(name) = path.to_str() else { continue };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if is_file && outline::language_of(name).is_some() {
            files.push(name.to_owned());
        }
    }
    if files.is_empty() {
        return Err(failed(format!(
            "no source file below {path:?}; known are {}",
            outline::known_languages()
        )));
    }
    Ok(files)
}

/// A source file and its language.
pub(super) fn read(
    root: &Root,
    file: &str,
) -> Result<(&'static outline::Language, Vec<u8>), String> {
    let language = outline::language_of(file).ok_or_else(|| {
        format!(
            "cannot outline {file:?}: its language is not known by its name; known are {}",
            outline::known_languages()
        )
    })?;
    let source =
        root.read(file, SOURCE_LIMIT).map_err(|error| format!("cannot outline {error}"))?;
    Ok((language, source))
}
