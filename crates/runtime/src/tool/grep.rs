//! `grep`: lines that match a regular expression, as `path:line:text`.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::RegexMatcherBuilder;
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use machine::effect::ToolCall;
use machine::tool::ToolResult;

use super::glob::walk;
use super::{Patience, ToolServices, failed, flag, number, shown_text, text};
use crate::beneath::{Kind, Root};
use crate::redact;

/// How many lines are shown if nobody says.
const DEFAULT_LIMIT: usize = 200;
/// How much of a line is shown, in characters.
const LINE_SHOWN: usize = 400;
/// The most memory that one file's lines may take.
const LINE_MEMORY: usize = 16 * 1024 * 1024;

pub(super) fn run(
    call: &ToolCall,
    root: &Root,
    folder: &Path,
    services: &ToolServices,
    patience: &Patience<'_>,
) -> ToolResult {
    let pattern = text(call, "pattern");
    let limit = number(call, "limit").unwrap_or(DEFAULT_LIMIT);
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(flag(call, "ignore_case"))
        .line_terminator(Some(b'\n'))
        .build(pattern);
    let matcher = match matcher {
        Ok(matcher) => matcher,
        Err(error) => return failed(format!("{pattern:?} is not a regular expression: {error}")),
    };
    let only = call.input.get("glob").and_then(|value| value.as_str());
    let only = match only.map(|pattern| name_pattern(root, pattern)) {
        None => None,
        Some(Ok(only)) => Some(only),
        Some(Err(reason)) => return failed(reason),
    };
    let start = match call.input.get("path").and_then(|value| value.as_str()) {
        None => String::new(),
        Some(path) => match root.kind(path).and_then(|kind| Ok((kind, root.relative(path)?))) {
            Err(error) => return failed(format!("cannot search {error}")),
            Ok((Some(Kind::File | Kind::Folder), below)) => below,
            Ok((Some(Kind::Special), _)) => {
                return failed(format!(
                    "cannot search {path:?}: it is neither a file nor a folder"
                ));
            }
            Ok((None, _)) => return failed(format!("cannot search {path:?}: it does not exist")),
        },
    };
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .heap_limit(Some(LINE_MEMORY))
        .binary_detection(BinaryDetection::quit(0))
        .build();
    let mut found = String::new();
    let mut count = 0;
    let mut more = false;
    let mut unread = 0;
    for entry in walk(&folder.join(&start)) {
        if let Some(result) = patience.over() {
            return result;
        }
        let Ok(entry) = entry else { continue };
        let Ok(path) = entry.path().strip_prefix(folder) else { continue };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || only.as_ref().is_some_and(|only| !only.is_match(path)) {
            continue;
        }
        let name = path.to_string_lossy().into_owned();
        // Opened beneath the root: the walk's own path could have changed meanwhile.
        let Ok(file) = root.open_file(&name) else {
            unread += 1;
            continue;
        };
        let sink = Lossy(|number, line| {
            if count == limit {
                more = true;
                return Ok(false);
            }
            count += 1;
            found.push_str(&format!("{name}:{number}:{}\n", short(line)));
            Ok(patience.over().is_none())
        });
        if searcher.search_file(&matcher, &file, sink).is_err() {
            unread += 1;
        }
        if more {
            break;
        }
    }
    if let Some(result) = patience.over() {
        return result;
    }
    if more {
        found.push_str(&format!("[more than {limit} lines match; the rest is not shown]\n"));
    }
    if unread > 0 {
        found.push_str(&format!("[{unread} files could not be searched]\n"));
    }
    shown_text(found.trim_end_matches('\n'), services)
}

/// A pattern without a slash matches names in every folder; any other is one of `glob`.
fn name_pattern(root: &Root, pattern: &str) -> Result<GlobMatcher, String> {
    let below = if pattern.contains('/') {
        root.relative(pattern).map_err(|error| format!("grep glob {error}"))?
    } else {
        format!("**/{pattern}")
    };
    GlobBuilder::new(&below)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("{pattern:?} is not a pattern: {}", error.kind()))
}

fn short(line: &str) -> String {
    let line = line.trim_end_matches(['\n', '\r']);
    match line.char_indices().nth(LINE_SHOWN) {
        None => line.to_owned(),
        // A secret that the cut goes through would be known to nobody.
        Some((at, _)) => {
            let shown = String::from_utf8_lossy(redact::until_cut(&line.as_bytes()[..at]));
            format!("{shown}[... {} bytes more]", line.len() - shown.len())
        }
    }
}
