//! `edit`: exact text replaced in a file.

use std::borrow::Cow;

use machine::diff::has_only_crlf;
use machine::effect::ToolCall;
use machine::tool::ToolResult;

use super::{FILE_LIMIT, failed, flag, text};
use crate::beneath::Root;

pub(super) fn run(call: &ToolCall, root: &Root) -> ToolResult {
    let (path, old, new) = (text(call, "path"), text(call, "old"), text(call, "new"));
    let all = flag(call, "all");
    if old.is_empty() {
        return failed("parameter \"old\" of edit is empty; expected the exact text to replace");
    }
    if old == new {
        return failed(
            "parameters \"old\" and \"new\" of edit are the same; there is nothing to do",
        );
    }
    let content = match root.read(path, FILE_LIMIT) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(content) => content,
            Err(_) => return failed(format!("cannot edit {path:?}: it is not UTF-8 text")),
        },
        Err(error) => return failed(format!("cannot edit {error}")),
    };
    let (old, new) = in_its_line_ends(&content, old, new);
    let (old, new) = (old.as_ref(), new.as_ref());
    let places: Vec<usize> = content.match_indices(old).map(|(at, _)| at).collect();
    if call.repeated && is_done(&content, &places, old, new) {
        return ToolResult::ok(format!("already done: {path} has the new text"));
    }
    if places.is_empty() {
        return failed(format!(
            "cannot edit {path:?}: the text to replace does not occur in it{}",
            near_miss(&content, old)
        ));
    }
    if places.len() > 1 && !all {
        let lines: Vec<String> =
            places.iter().take(10).map(|at| line_of(&content, *at).to_string()).collect();
        return failed(format!(
            "cannot edit {path:?}: the text to replace occurs {} times (lines {}{}); expected exactly once, \
             or the parameter \"all\"",
            places.len(),
            lines.join(", "),
            if places.len() > 10 { ", ..." } else { "" }
        ));
    }
    match root.write(path, content.replace(old, new).as_bytes(), None) {
        Err(error) => failed(format!("cannot edit {error}")),
        Ok(_) => ToolResult::ok(match places.len() {
            1 => format!("replaced the text in {path}, line {}", line_of(&content, places[0])),
            count => format!("replaced the text in {path}, {count} times"),
        }),
    }
}

/// The texts as they are meant: models write lines that end in LF, whatever the file has.
fn in_its_line_ends<'a>(content: &str, old: &'a str, new: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
    if old.contains('\r') || new.contains('\r') || !has_only_crlf(content.as_bytes()) {
        return (old.into(), new.into());
    }
    (old.replace('\n', "\r\n").into(), new.replace('\n', "\r\n").into())
}

/// Whether an earlier attempt shows in the file: the new text is there and the old one only as part of it.
fn is_done(content: &str, places: &[usize], old: &str, new: &str) -> bool {
    if new.is_empty() || places.is_empty() {
        return places.is_empty() && content.contains(new);
    }
    let done: Vec<usize> = content.match_indices(new).map(|(at, _)| at).collect();
    places
        .iter()
        .all(|at| done.iter().any(|new_at| new_at <= at && at + old.len() <= new_at + new.len()))
}

/// Where the text would occur if spaces at the ends of lines did not count.
fn near_miss(content: &str, old: &str) -> String {
    let wanted: Vec<&str> = old.lines().map(str::trim).collect();
    let lines: Vec<&str> = content.lines().map(str::trim).collect();
    if wanted.is_empty() || wanted.iter().all(|line| line.is_empty()) {
        return String::new();
    }
    lines.windows(wanted.len()).position(|window| window == wanted).map_or(String::new(), |at| {
        format!("; line {} would match if spaces at the ends of lines did not count", at + 1)
    })
}

fn line_of(content: &str, at: usize) -> usize {
    content[..at].matches('\n').count() + 1
}
