//! `glob`: files by pattern. A pattern is matched against the whole path below the workspace.

use std::path::Path;

use globset::GlobBuilder;
use ignore::WalkBuilder;
use machine::effect::ToolCall;
use machine::tool::ToolResult;

use super::{Patience, ToolServices, failed, number, shown_text, text};
use crate::beneath::Root;

/// How many paths are listed if nobody says.
const DEFAULT_LIMIT: usize = 1000;

pub(super) fn run(
    call: &ToolCall,
    root: &Root,
    folder: &Path,
    services: &ToolServices,
    patience: &Patience<'_>,
) -> ToolResult {
    let pattern = text(call, "pattern");
    let limit = number(call, "limit").unwrap_or(DEFAULT_LIMIT);
    let below = match root.relative(pattern) {
        Ok(below) => below,
        Err(error) => return failed(format!("glob pattern {error}")),
    };
    let matcher = match GlobBuilder::new(&below).literal_separator(true).build() {
        Ok(glob) => glob.compile_matcher(),
        Err(error) => return failed(format!("{pattern:?} is not a pattern: {}", error.kind())),
    };
    let mut paths = Vec::new();
    for entry in walk(folder) {
        if let Some(result) = patience.over() {
            return result;
        }
        // A folder that cannot be read is left out, as every listing does.
        let Ok(entry) = entry else { continue };
        let Ok(path) = entry.path().strip_prefix(folder) else { continue };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_symlink());
        if is_file && matcher.is_match(path) {
            paths.push(path.to_string_lossy().into_owned());
        }
    }
    paths.sort();
    let more = paths.len().saturating_sub(limit);
    paths.truncate(limit);
    let mut list = paths.join("\n");
    if more > 0 {
        list.push_str(&format!("\n[{more} more paths are not shown]"));
    }
    shown_text(&list, services)
}

/// The files of a workspace: hidden ones too, but none that git ignores, nothing of `.git`, and no link followed.
pub(super) fn walk(folder: &Path) -> ignore::Walk {
    WalkBuilder::new(folder)
        .follow_links(false)
        .hidden(false)
        .git_global(false)
        .require_git(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .sort_by_file_path(Path::cmp)
        .build()
}
