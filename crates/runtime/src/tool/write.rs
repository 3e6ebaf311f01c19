//! `write`: the whole new content of a file. Writing the same content again changes nothing.

use machine::effect::ToolCall;
use machine::tool::ToolResult;

use super::{failed, text};
use crate::beneath::{Root, Written};

pub(super) fn run(call: &ToolCall, root: &Root) -> ToolResult {
    let (path, content) = (text(call, "path"), text(call, "content"));
    match root.write(path, content.as_bytes(), None) {
        Err(error) => failed(format!("cannot write {error}")),
        Ok(written) => {
            let did = match written {
                Written::Created => "created",
                Written::Replaced => "replaced",
                Written::Unchanged => "already had this content:",
            };
            ToolResult::ok(format!("{did} {path} ({} bytes)", content.len()))
        }
    }
}
