//! Lines for a terminal: each node with the ways out of it below.

use machine::outline::{NodeKind, Outline};

use super::{is_broken, label};
use crate::text::visible;

pub(super) fn draw(outline: &Outline) -> String {
    let mut lines = Vec::new();
    if !outline.title.is_empty() {
        lines.push(visible(&outline.title));
        lines.push(String::new());
    }
    for (at, node) in outline.nodes.iter().enumerate() {
        let indent = "  ".repeat(node.depth);
        let mut line = format!("{indent}{} {}", mark(node.kind), visible(&node.path));
        if !matches!(node.kind, NodeKind::Start | NodeKind::End | NodeKind::Join) {
            line.push_str(&format!("  [{}]", node.kind.word()));
        }
        if !node.detail.is_empty() {
            line.push_str(&format!("  {}", visible(&node.detail)));
        }
        lines.push(line);
        if !node.when.is_empty() {
            lines.push(format!("{indent}    when {}", visible(&node.when)));
        }
        for edge in outline.edges.iter().filter(|edge| edge.from == at) {
            let arrow = match edge {
                edge if edge.to == at => "↺",
                edge if is_broken(edge.kind) => "⇢",
                _ => "→",
            };
            let said = label(edge);
            let said = if said.is_empty() { said } else { format!("  ({said})") };
            let to = outline.nodes.get(edge.to).map(|node| node.path.as_str()).unwrap_or_default();
            lines.push(format!("{indent}    {arrow} {}{said}", visible(to)));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn mark(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Start => "○",
        NodeKind::End => "●",
        NodeKind::Failed => "✗",
        NodeKind::Join => "┴",
        NodeKind::Foreach | NodeKind::Parallel | NodeKind::Workflow => "▣",
        NodeKind::Person => "☺",
        NodeKind::Junction => "◇",
        NodeKind::Tool | NodeKind::Model | NodeKind::Agent | NodeKind::Driver | NodeKind::Task => {
            "□"
        }
    }
}
