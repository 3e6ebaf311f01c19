//! A picture that stands alone: no fonts, scripts or links of its own, and nothing in a text can become markup.

use machine::outline::{Node, NodeKind, Outline};

use super::layout::{self, LINE, Layout, NAME_SIZE, Rect, Route, SMALL_SIZE, Wanted};
use super::{is_broken, label};
use crate::text::visible;

pub(super) fn draw(outline: &Outline) -> String {
    let title = visible(&outline.title);
    let wanted = Wanted {
        nodes: outline.nodes.iter().map(lines).collect(),
        labels: outline.edges.iter().map(label).collect(),
    };
    let top = if title.is_empty() { 12.0 } else { 44.0 };
    let layout = layout::place(outline, &wanted, top);
    let width = layout.width.max(layout::width(&title, 15.0) + 48.0).ceil();
    let height = layout.height.ceil();
    let mut parts = vec![format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\">"
    )];
    parts.push(format!("<title>{}</title>", escaped(&title)));
    parts.push("<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#57606a\"/></marker></defs>".to_owned());
    parts.push(format!("<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"));
    if !title.is_empty() {
        parts.push(format!("<text x=\"24\" y=\"30\" font-size=\"15\" font-weight=\"bold\" fill=\"#1f2328\">{}</text>", escaped(&title)));
    }
    draw_edges(outline, &wanted, &layout, &mut parts);
    for ((node, lines), rect) in outline.nodes.iter().zip(&wanted.nodes).zip(&layout.boxes) {
        parts.push(draw_node(node, lines, rect));
    }
    parts.push("</svg>\n".to_owned());
    parts.join("\n")
}

fn lines(node: &Node) -> Vec<String> {
    let mut lines = vec![visible(&node.path)];
    let plain = matches!(node.kind, NodeKind::Start | NodeKind::End | NodeKind::Join);
    match (plain, node.detail.is_empty()) {
        (true, true) => {}
        (true, false) => lines.push(visible(&node.detail)),
        (false, true) => lines.push(node.kind.word().to_owned()),
        (false, false) => lines.push(format!("{} · {}", node.kind.word(), visible(&node.detail))),
    }
    if !node.when.is_empty() {
        lines.push(format!("when {}", visible(&node.when)));
    }
    lines
}

fn draw_edges(outline: &Outline, wanted: &Wanted, layout: &Layout, parts: &mut Vec<String>) {
    for (edge, route) in outline.edges.iter().zip(&layout.routes) {
        let dashes = if is_broken(edge.kind) { " stroke-dasharray=\"5 3\"" } else { "" };
        parts.push(format!(
            "<path class=\"edge\" d=\"{}\" fill=\"none\" stroke=\"#57606a\" stroke-width=\"1.3\"{dashes} marker-end=\"url(#tip)\"/>",
            path(route)
        ));
    }
    // Labels lie above all lines; a white seam keeps them readable where they cross one.
    for (label, route) in
        wanted.labels.iter().zip(&layout.routes).filter(|(label, _)| !label.is_empty())
    {
        parts.push(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{SMALL_SIZE}\" fill=\"#0550ae\" stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
            route.label.0,
            route.label.1,
            escaped(label)
        ));
    }
}

/// A line with round corners.
fn path(route: &Route) -> String {
    const ROUND: f64 = 5.0;
    let points = &route.points;
    let Some(first) = points.first() else { return "M0 0".to_owned() };
    let mut drawn = format!("M{:.1} {:.1}", first.0, first.1);
    for window in points.windows(3) {
        let [before, corner, after] = [window[0], window[1], window[2]];
        let near = |other: (f64, f64)| {
            let (dx, dy) = (other.0 - corner.0, other.1 - corner.1);
            let length = dx.hypot(dy);
            let part = if length == 0.0 { 0.0 } else { ROUND.min(length / 2.0) / length };
            (corner.0 + dx * part, corner.1 + dy * part)
        };
        let (start, end) = (near(before), near(after));
        drawn.push_str(&format!(
            "L{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}",
            start.0, start.1, corner.0, corner.1, end.0, end.1
        ));
    }
    if let Some(last) = points.last() {
        drawn.push_str(&format!("L{:.1} {:.1}", last.0, last.1));
    }
    drawn
}

fn draw_node(node: &Node, lines: &[String], rect: &Rect) -> String {
    let (fill, stroke) = colours(node.kind);
    let round = match node.kind {
        NodeKind::Start | NodeKind::End | NodeKind::Failed | NodeKind::Join => rect.height / 2.0,
        _ => 6.0,
    };
    let mut drawn = format!(
        "<g class=\"node\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{round:.1}\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.3\"/>",
        rect.x, rect.y, rect.width, rect.height
    );
    let middle = rect.x + rect.width / 2.0;
    for (at, line) in lines.iter().enumerate() {
        let y = rect.y + 18.0 + LINE * at as f64;
        let (size, style) = match at {
            0 => (NAME_SIZE, "font-weight=\"bold\" fill=\"#1f2328\""),
            _ => (SMALL_SIZE, "fill=\"#57606a\""),
        };
        drawn.push_str(&format!(
            "<text x=\"{middle:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"{size}\" {style}>{}</text>",
            escaped(line)
        ));
    }
    drawn.push_str("</g>");
    drawn
}

fn colours(kind: NodeKind) -> (&'static str, &'static str) {
    match kind {
        NodeKind::Start | NodeKind::Join | NodeKind::Junction => ("#f6f8fa", "#8c959f"),
        NodeKind::End => ("#dafbe1", "#1a7f37"),
        NodeKind::Failed => ("#ffebe9", "#cf222e"),
        NodeKind::Tool => ("#ddf4ff", "#0969da"),
        NodeKind::Model | NodeKind::Agent => ("#fbefff", "#8250df"),
        NodeKind::Person => ("#fff8c5", "#9a6700"),
        NodeKind::Workflow | NodeKind::Foreach | NodeKind::Parallel => ("#fff1e5", "#bc4c00"),
        NodeKind::Driver | NodeKind::Task => ("#eaeef2", "#57606a"),
    }
}

/// Text as the contents of an element or an attribute; what XML cannot hold is replaced.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => shown.push('\u{fffd}'),
            c if c.is_control() => shown.push('\u{fffd}'),
            c => shown.push(c),
        }
    }
    shown
}
