//! A workflow as a drawing: text for a terminal, Mermaid for a page, SVG for everything else.
//!
//! What is drawn is an [`Outline`]; names and texts come from files that anybody may have written, so each drawing escapes
//! them in its own way. Every node and every edge is drawn exactly once.

mod layout;
mod mermaid;
mod svg;
#[cfg(test)]
mod tests;
mod text;

use machine::outline::{EdgeKind, Outline};

/// How a drawing is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines for a terminal.
    Text,
    /// A Mermaid flowchart, as forges show it in pages.
    Mermaid,
    /// A picture.
    Svg,
}

/// Draws an outline.
pub fn draw(outline: &Outline, format: Format) -> String {
    match format {
        Format::Text => text::draw(outline),
        Format::Mermaid => mermaid::draw(outline),
        Format::Svg => svg::draw(outline),
    }
}

/// Ways that are taken when something is not as it should be, or again: drawn broken.
fn is_broken(kind: EdgeKind) -> bool {
    match kind {
        EdgeKind::Goto
        | EdgeKind::Retry
        | EdgeKind::Repair
        | EdgeKind::Recheck
        | EdgeKind::Again
        | EdgeKind::Choose => true,
        EdgeKind::Next
        | EdgeKind::Then
        | EdgeKind::Transition
        | EdgeKind::Branch
        | EdgeKind::Each
        | EdgeKind::Nested => false,
    }
}

/// What an edge says beside its line.
fn label(edge: &machine::outline::Edge) -> String {
    let word = match edge.kind {
        EdgeKind::Then => "then",
        EdgeKind::Retry => "retry",
        EdgeKind::Choose => "choice",
        EdgeKind::Branch => "branch",
        EdgeKind::Next
        | EdgeKind::Goto
        | EdgeKind::Repair
        | EdgeKind::Recheck
        | EdgeKind::Transition
        | EdgeKind::Each
        | EdgeKind::Again
        | EdgeKind::Nested => "",
    };
    let said = crate::text::visible(&edge.label);
    match (word, said.as_str()) {
        ("", said) => said.to_owned(),
        (word, "") => word.to_owned(),
        (word, said) => format!("{word}: {said}"),
    }
}
