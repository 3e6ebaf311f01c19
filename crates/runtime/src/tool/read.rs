//! `read`: a text file, or some lines of it.

use std::io::{BufRead, BufReader, Read};

use machine::effect::ToolCall;
use machine::tool::ToolResult;

use super::{failed, number, text};
use crate::beneath::Root;
use crate::redact;

/// The most that one call shows.
const SHOWN: usize = 64 * 1024;
/// The most of a file that is gone through to find the lines.
const SCANNED: u64 = 256 * 1024 * 1024;

pub(super) fn run(call: &ToolCall, root: &Root) -> ToolResult {
    let path = text(call, "path");
    let first = number(call, "offset").unwrap_or(1).max(1);
    let limit = number(call, "limit").unwrap_or(usize::MAX);
    let file = match root.open_file(path) {
        Ok(file) => file,
        Err(error) => return failed(format!("cannot read {error}")),
    };
    let mut reader = BufReader::new(file.take(SCANNED));
    let mut shown: Vec<u8> = Vec::new();
    let mut number = 0;
    let mut cut = false;
    let (mut of_one, mut goes_on) = (false, false);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(SHOWN as u64 + 1).read_until(b'\n', &mut line) {
            Err(error) => return failed(format!("cannot read {path:?}: {error}")),
            Ok(0) => break,
            Ok(_) => {}
        }
        number += 1;
        if line.contains(&0) {
            return failed(format!(
                "cannot read {path:?}: it is a binary file (line {number} holds a NUL byte); expected text"
            ));
        }
        let whole = line.ends_with(b"\n") || line.len() <= SHOWN;
        if !whole && let Err(error) = reader.skip_until(b'\n') {
            return failed(format!("cannot read {path:?}: {error}"));
        }
        if number < first {
            continue;
        }
        if number - first >= limit {
            break;
        }
        if shown.len() + line.len() > SHOWN {
            cut = true;
            if shown.is_empty() {
                shown = redact::until_cut(&line[..SHOWN]).to_vec();
                of_one = true;
                goes_on = reader.fill_buf().is_ok_and(|rest| !rest.is_empty());
            }
            break;
        }
        shown.extend(line);
    }
    if first > 1 && number < first {
        return failed(format!("{path:?} has {number} lines; cannot begin at line {first}"));
    }
    let mut text = String::from_utf8_lossy(&shown).into_owned();
    if of_one {
        let after = match goes_on {
            true => format!("the line after it has offset {}", number + 1),
            false => "there is no line after it".to_owned(),
        };
        text.push_str(&format!("\n[cut here: the beginning of line {number} is shown; {after}]"));
    } else if cut {
        text.push_str(&format!(
            "\n[cut here: lines {first} to {} are shown; read on with offset {number}]",
            number - 1
        ));
    }
    ToolResult::ok(text)
}
