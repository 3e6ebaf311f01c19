//! Drawings as they are shown, and what holds for any outline.

use machine::outline::{self, Edge, EdgeKind, Node, NodeKind, Outline};
use machine::task::DriverSpec;
use proptest::prelude::*;
use serde_json::json;

use super::layout::{self, Rect, Wanted};
use super::{Format, draw};

fn example() -> Outline {
    outline::of(&DriverSpec::new(
        "workflow",
        json!({ "name": "fix & check", "steps": [
            { "name": "validate", "tool": "shell", "parameters": { "command": "make check" }, "on_error": "skip" },
            { "name": "analyze", "type": "llm", "prompt": "What is wrong?", "input_from": "validate" },
            { "name": "fix", "tool": "patch", "input_from": "analyze", "on_error": "retry", "max_retries": 2 },
            { "name": "both", "parallel": { "unit": [{ "name": "test", "tool": "shell" }], "lint": [{ "name": "clippy", "tool": "shell" }] } },
            { "name": "each", "foreach": "facts.changed_files", "as": "file", "steps": [{ "name": "look", "tool": "view", "when": "loop.index < 3" }] },
            { "name": "ship", "approve": "ship it <b>now</b>", "on_error": { "action": "goto", "target": "validate" } },
        ]}),
    ))
}

#[test]
fn a_workflow_as_text() {
    insta::assert_snapshot!(draw(&example(), Format::Text), @r"
    fix & check

    ○ start
        → validate
    □ validate  [tool]  shell: make check
        ⇢ analyze  (if it fails)
        → both  (if it succeeds)
    □ analyze  [model]  What is wrong?
        → fix
    □ fix  [tool]  patch
        ↺ fix  (retry: if it fails ≤ 2)
        ⇢ validate  (check again ≤ 2)
    ▣ both  [parallel]
        → both/lint/clippy  (branch: lint)
        → both/unit/test  (branch: unit)
        □ both/lint/clippy  [tool]  shell
            → both/join
        □ both/unit/test  [tool]  shell
            → both/join
      ┴ both/join  all
          → each
    ▣ each  [foreach]  file in facts.changed_files
        → each/look  (each)
        → ship
      □ each/look  [tool]  view
          when loop.index < 3
          ⇢ each  (next element)
    ☺ ship  [person]  approve: ship it <b>now</b>
        ⇢ validate  (if it fails)
        → end
    ● end
    ");
}

#[test]
fn a_workflow_as_mermaid() {
    insta::assert_snapshot!(draw(&example(), Format::Mermaid), @r#"
    flowchart TD
        n0(["start"])
        n1["validate<br/>tool<br/>shell: make check"]
        n2["analyze<br/>model<br/>What is wrong?"]
        n3["fix<br/>tool<br/>patch"]
        n4[["both<br/>parallel"]]
        n5["both/lint/clippy<br/>tool<br/>shell"]
        n6["both/unit/test<br/>tool<br/>shell"]
        n7{{"both/join<br/>all"}}
        n8[["each<br/>foreach<br/>file in facts.changed#95;files"]]
        n9["each/look<br/>tool<br/>view<br/>when loop.index #60; 3"]
        n10[/"ship<br/>person<br/>approve: ship it #60;b#62;now#60;/b#62;"/]
        n11(["end"])
        n0 --> n1
        n1 -.->|"if it fails"| n2
        n3 -.->|"retry: if it fails ≤ 2"| n3
        n2 --> n3
        n4 -->|"branch: lint"| n5
        n4 -->|"branch: unit"| n6
        n5 --> n7
        n6 --> n7
        n1 -->|"if it succeeds"| n4
        n8 -->|"each"| n9
        n9 -.->|"next element"| n8
        n7 --> n8
        n8 --> n10
        n3 -.->|"check again ≤ 2"| n1
        n10 -.->|"if it fails"| n1
        n10 --> n11
    "#);
}

#[test]
fn a_workflow_as_a_picture() {
    let outline = example();
    let svg = draw(&outline, Format::Svg);
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width="), "{svg}");
    assert!(svg.contains("<title>fix &amp; check</title>"), "{svg}");
    assert!(svg.contains("approve: ship it &lt;b&gt;now&lt;/b&gt;</text>"), "{svg}");
    // Repair, retry, back to the check, the next element and the goto.
    assert_eq!(svg.matches("stroke-dasharray").count(), 5, "{svg}");
    assert_eq!(svg.matches("marker-end").count(), outline.edges.len());
    check_geometry(&outline);
}

/// No two boxes meet, and no line runs through a box.
fn check_geometry(outline: &Outline) {
    let nodes = outline.nodes.iter().map(|node| vec![node.path.clone(), node.detail.clone()]);
    let labels = outline.edges.iter().map(|edge| edge.label.clone());
    let wanted = Wanted { nodes: nodes.collect(), labels: labels.collect() };
    let layout = layout::place(outline, &wanted, 0.0);
    let meets = |x: (f64, f64), y: (f64, f64), rect: &Rect| {
        x.0 < rect.x + rect.width - 0.5
            && x.1 > rect.x + 0.5
            && y.0 < rect.y + rect.height - 0.5
            && y.1 > rect.y + 0.5
    };
    for (at, rect) in layout.boxes.iter().enumerate() {
        assert!(rect.x >= 0.0 && rect.x + rect.width <= layout.width, "{rect:?}");
        assert!(rect.y >= 0.0 && rect.y + rect.height <= layout.height, "{rect:?}");
        for other in &layout.boxes[at + 1..] {
            let (x, y) = ((rect.x, rect.x + rect.width), (rect.y, rect.y + rect.height));
            assert!(!meets(x, y, other), "{rect:?} meets {other:?}");
        }
    }
    for route in &layout.routes {
        for ends in route.points.windows(2) {
            let x = (ends[0].0.min(ends[1].0), ends[0].0.max(ends[1].0));
            let y = (ends[0].1.min(ends[1].1), ends[0].1.max(ends[1].1));
            let hit = layout.boxes.iter().find(|rect| meets(x, y, rect));
            assert!(hit.is_none(), "{:?} runs through {hit:?}", route.points);
            assert!(x.0 >= 0.0 && x.1 <= layout.width && y.1 <= layout.height);
        }
    }
}

#[test]
fn ten_thousand_steps_are_drawn() {
    let steps: Vec<_> =
        (0..10_000).map(|n| json!({ "name": format!("s{n}"), "tool": "shell" })).collect();
    let driver = DriverSpec::new("workflow", json!({ "steps": steps }));
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
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, failure_persistence: None, ..ProptestConfig::default() })]

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
            prop_assert!(matches!(line.matches('"').count(), 0 | 2));
        }

        let svg = draw(&outline, Format::Svg);
        prop_assert_eq!(svg.matches("<g class=\"node\">").count(), nodes);
        prop_assert_eq!(svg.matches("<path class=\"edge\"").count(), edges);
        prop_assert_eq!(svg.matches("</text>").count(), svg.matches("<text ").count());
        prop_assert!(!svg.contains("<script"));
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
        prop_assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
        prop_assert_eq!(&svg, &draw(&outline, Format::Svg));
        check_geometry(&outline);
    }
}
