//! Drawings as they are shown, and what holds for any outline.

use machine::outline::{self, Edge, EdgeKind, Node, NodeKind, Outline};
use machine::task::DriverSpec;
use proptest::prelude::*;
use serde_json::json;

use super::{Format, draw};

fn example() -> Outline {
    outline::of(&DriverSpec {
        name: "workflow".to_owned(),
        config: json!({ "name": "fix & check", "steps": [
            { "name": "validate", "tool": "shell", "parameters": { "command": "make check" }, "on_error": "skip" },
            { "name": "analyze", "type": "llm", "prompt": "What is wrong?", "input_from": "validate" },
            { "name": "fix", "tool": "patch", "input_from": "analyze", "on_error": "retry", "max_retries": 2 },
            { "name": "both", "parallel": { "unit": [{ "name": "test", "tool": "shell" }], "lint": [{ "name": "clippy", "tool": "shell" }] } },
            { "name": "each", "foreach": "facts.changed_files", "as": "file", "steps": [{ "name": "look", "tool": "view", "when": "loop.index < 3" }] },
            { "name": "ship", "approve": "ship it <b>now</b>", "on_error": { "action": "goto", "target": "validate" } },
        ]}),
    })
}

#[test]
fn a_workflow_as_text() {
    insta::assert_snapshot!(draw(&example(), Format::Text), @"");
}

#[test]
fn a_workflow_as_mermaid() {
    insta::assert_snapshot!(draw(&example(), Format::Mermaid), @"");
}

#[test]
fn a_workflow_as_a_picture() {
    insta::assert_snapshot!("picture", draw(&example(), Format::Svg));
}

#[test]
fn ten_thousand_steps_are_drawn() {
    let steps: Vec<_> =
        (0..10_000).map(|n| json!({ "name": format!("s{n}"), "tool": "shell" })).collect();
    let driver = DriverSpec { name: "workflow".to_owned(), config: json!({ "steps": steps }) };
    let outline = outline::of(&driver);
    for format in [Format::Text, Format::Mermaid, Format::Svg] {
        assert!(draw(&outline, format).contains("s9999"));
    }
}

const NODES: [NodeKind; 6] = [
    NodeKind::Tool,
    NodeKind::Model,
    NodeKind::Join,
    NodeKind::End,
    NodeKind::Foreach,
    NodeKind::Person,
];
const EDGES: [EdgeKind; 4] =
    [EdgeKind::Next, EdgeKind::Goto, EdgeKind::Retry, EdgeKind::Transition];

/// Names and texts with everything that means something to a terminal, to Mermaid or to XML.
fn hostile() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "a",
        "\"",
        "<script>",
        "]]>",
        "&amp;",
        "#quot;",
        "%%{init",
        "}%%",
        "\u{1b}[2J",
        "\u{202e}",
        "\n",
        "-->",
        "|",
        "]",
        "`",
        "\u{0}",
        "é",
        "漢",
        "</text>",
        "end",
        ";",
        "\\",
        "\u{ffff}",
        "click n0 href",
    ]);
    prop::collection::vec(parts, 0..5).prop_map(|parts| parts.concat())
}

prop_compose! {
    fn any_outline()(texts in prop::collection::vec((hostile(), hostile(), hostile(), 0..6usize), 1..12))
        (edges in prop::collection::vec((0..texts.len(), 0..texts.len(), 0..4usize, hostile()), 0..20), texts in Just(texts)) -> Outline
    {
        let nodes = texts.into_iter().map(|(path, detail, when, kind)| {
            Node { name: path.clone(), path, detail, when, kind: NODES[kind], depth: 0 }
        });
        let edges = edges.into_iter().map(|(from, to, kind, label)| Edge { from, to, kind: EDGES[kind], label });
        Outline { title: "t".to_owned(), nodes: nodes.collect(), edges: edges.collect() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_node_and_edge_is_drawn_once_and_no_text_becomes_syntax(outline in any_outline()) {
        let (nodes, edges) = (outline.nodes.len(), outline.edges.len());
        let whens = outline.nodes.iter().filter(|node| !node.when.is_empty()).count();

        let text = draw(&outline, Format::Text);
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
        prop_assert_eq!(text.lines().count(), 2 + nodes + whens + edges);

        let mermaid = draw(&outline, Format::Mermaid);
        prop_assert_eq!(mermaid.lines().count(), 1 + nodes + edges);
        prop_assert!(!mermaid.contains('%'));
        prop_assert!(mermaid.chars().all(|c| c == '\n' || !c.is_control()));
        for (at, line) in mermaid.lines().skip(1).take(nodes).enumerate() {
            let begin = format!("    n{at}");
            prop_assert!(line.starts_with(&begin));
            prop_assert_eq!(line.matches('"').count(), 2);
        }
        for line in mermaid.lines().skip(1 + nodes) {
            prop_assert!(line.matches('"').count() % 2 == 0 && line.matches('"').count() <= 2);
        }

        let svg = draw(&outline, Format::Svg);
        prop_assert_eq!(svg.matches("<g class=\"node\">").count(), nodes);
        prop_assert_eq!(svg.matches("<path class=\"edge\"").count(), edges);
        prop_assert_eq!(svg.matches("</text>").count(), svg.matches("<text ").count());
        prop_assert!(!svg.contains("<script"));
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
        prop_assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
        prop_assert_eq!(&svg, &draw(&outline, Format::Svg));
    }
}
