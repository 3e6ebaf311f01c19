//! A Mermaid flowchart.

use machine::outline::{NodeKind, Outline};

use super::{is_broken, label};
use crate::text::visible;

pub(super) fn draw(outline: &Outline) -> String {
    let mut lines = vec!["flowchart TD".to_owned()];
    for (at, node) in outline.nodes.iter().enumerate() {
        let mut said = escaped(&node.path);
        if !matches!(node.kind, NodeKind::Start | NodeKind::End | NodeKind::Join) {
            said.push_str(&format!("<br/>{}", node.kind.word()));
        }
        if !node.detail.is_empty() {
            said.push_str(&format!("<br/>{}", escaped(&node.detail)));
        }
        if !node.when.is_empty() {
            said.push_str(&format!("<br/>when {}", escaped(&node.when)));
        }
        let (open, close) = match node.kind {
            NodeKind::Start | NodeKind::End | NodeKind::Failed => ("([", "])"),
            NodeKind::Join | NodeKind::Junction => ("{{", "}}"),
            NodeKind::Foreach | NodeKind::Parallel | NodeKind::Workflow | NodeKind::Task => {
                ("[[", "]]")
            }
            NodeKind::Person => ("[/", "/]"),
            NodeKind::Tool | NodeKind::Model | NodeKind::Agent | NodeKind::Driver => ("[", "]"),
        };
        lines.push(format!("    n{at}{open}\"{said}\"{close}"));
    }
    for edge in &outline.edges {
        let arrow = if is_broken(edge.kind) { "-.->" } else { "-->" };
        let said = label(edge);
        let said = if said.is_empty() { said } else { format!("|\"{}\"|", escaped(&said)) };
        lines.push(format!("    n{} {arrow}{said} n{}", edge.from, edge.to));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Text inside quotes. Mermaid has entities with `#`; whatever its parser or a page could take for its own becomes one,
/// `%` too, since `%%{` begins a directive wherever it stands.
fn escaped(text: &str) -> String {
    let mut shown = String::new();
    for c in visible(text).chars() {
        match c {
            '"' | '#' | '<' | '>' | '&' | '`' | '%' | '\\' | '\'' | ';' | '{' | '}' | '[' | ']'
            | '|' | '*' | '_' => {
                shown.push_str(&format!("#{};", c as u32));
            }
            c => shown.push(c),
        }
    }
    shown
}
