//! Outlines of workflows, as lines `from -kind-> to (label)`.

use serde_json::{Value, json};

use super::{Outline, of};
use crate::task::DriverSpec;

fn outline(driver: &str, config: Value) -> Outline {
    of(&DriverSpec::new(driver, config))
}

fn lines(outline: &Outline) -> String {
    let path = |at: usize| outline.nodes[at].path.as_str();
    let nodes = outline.nodes.iter().map(|node| {
        let detail =
            if node.detail.is_empty() { String::new() } else { format!(" ({})", node.detail) };
        let when =
            if node.when.is_empty() { String::new() } else { format!(" when {}", node.when) };
        format!("{} {}{detail}{when}", node.kind.word(), node.path)
    });
    let edges = outline.edges.iter().map(|edge| {
        let label =
            if edge.label.is_empty() { String::new() } else { format!(" ({})", edge.label) };
        format!("{} -{:?}-> {}{label}", path(edge.from), edge.kind, path(edge.to))
    });
    nodes.chain(edges).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_check_and_its_repair_are_a_circle_that_ends() {
    let outline = outline(
        "workflow",
        json!({ "name": "validate-fix", "steps": [
            { "name": "validate", "tool": "shell", "parameters": { "command": "make check" }, "on_error": "skip" },
            { "name": "analyze", "type": "llm", "prompt": "What is wrong?", "input_from": "validate" },
            { "name": "fix", "tool": "patch", "input_from": "analyze", "on_error": { "action": "goto", "target": "analyze" }, "max_retries": 3 },
        ]}),
    );
    insta::assert_snapshot!(lines(&outline), @r"
    start start
    tool validate (shell: make check)
    model analyze (What is wrong?)
    tool fix (patch)
    end end
    start -Next-> validate
    validate -Repair-> analyze (if it fails)
    analyze -Next-> fix
    fix -Recheck-> validate (check again ≤ 3)
    fix -Goto-> analyze (if it fails ≤ 3)
    validate -Next-> end (if it succeeds)
    ");
}

#[test]
fn every_way_out_of_a_step_is_an_edge() {
    let outline = outline(
        "workflow",
        json!({ "steps": [
            { "name": "a", "tool": "shell", "parameters": { "command": "x" }, "on_error": "retry", "max_retries": 2, "backoff": "2s", "on_exhausted": { "action": "goto", "target": "c" } },
            { "name": "b", "ask": "go on?", "on_timeout": "skip", "then": "end", "when": "steps.a.ok" },
            { "name": "c", "agent": "claude", "prompt": "do\nit", "on_error": "skip" },
        ]}),
    );
    insta::assert_snapshot!(lines(&outline), @r"
    start start
    tool a (shell: x)
    person b (go on?) when steps.a.ok
    agent c (claude: do…)
    end end
    a -Retry-> a (if it fails ≤ 2 after 2s)
    start -Next-> a
    a -Next-> b
    b -Next-> c (if nobody answers)
    a -Goto-> c (after the last retry)
    c -Next-> end (also if it fails)
    b -Then-> end
    ");
}

#[test]
fn parts_lie_inside_their_step() {
    let inner = json!({ "name": "inner", "steps": [{ "name": "one", "tool": "view" }] });
    let outline = outline(
        "workflow",
        json!({ "steps": [
            { "name": "each", "foreach": "facts.changed_files", "as": "file", "steps": [{ "name": "look", "tool": "view", "parameters": { "path": "{{ file }}" } }] },
            { "name": "both", "parallel": { "unit": [{ "name": "test", "tool": "shell" }], "lint": [{ "name": "test", "tool": "shell" }] }, "join": "any" },
            { "name": "call", "workflow": inner },
        ]}),
    );
    insta::assert_snapshot!(lines(&outline), @r"
    start start
    foreach each (file in facts.changed_files)
    tool each/look (view: {{ file }})
    parallel both
    tool both/lint/test (shell)
    tool both/unit/test (shell)
    join both/join (any)
    workflow call (inner)
    tool call/one (view)
    join call/done
    end end
    each -Each-> each/look (each)
    each/look -Again-> each (next element)
    start -Next-> each
    both -Branch-> both/lint/test (lint)
    both -Branch-> both/unit/test (unit)
    both/lint/test -Next-> both/join
    both/unit/test -Next-> both/join
    each -Next-> both
    call -Nested-> call/one
    call/one -Next-> call/done
    both/join -Next-> call
    call/done -Next-> end
    ");
}

#[test]
fn states_have_guards_choices_and_ends() {
    let outline = outline(
        "workflow",
        json!({ "initial": "triage", "states": [
            { "name": "done", "terminal": true },
            { "name": "triage", "prompt": "which?", "transitions": [{ "to": "fix", "when": "result.ok", "max": 5 }, { "to": "lost" }], "choose": { "prompt": "pick", "fallback": "lost" } },
            { "name": "fix", "steps": [{ "name": "one", "tool": "shell" }], "on_exit": [{ "name": "tidy", "tool": "shell" }], "transitions": [{ "to": "done" }] },
            { "name": "lost", "terminal": true, "outcome": "failed" },
        ]}),
    );
    insta::assert_snapshot!(lines(&outline), @r"
    start start
    end done
    model triage (which?; choose: pick)
    junction fix (exit: tidy)
    tool fix/one (shell)
    join fix/done
    failed lost
    fix -Nested-> fix/one
    fix/one -Next-> fix/done
    start -Next-> triage
    triage -Choose-> fix (result.ok ≤ 5)
    triage -Choose-> lost
    triage -Transition-> lost (fallback)
    fix/done -Transition-> done
    ");
}

#[test]
fn a_machine_file_is_drawn_too() {
    let inner = json!({ "initial": "in", "states": { "in": { "terminal": true } } });
    let outline = outline(
        "state_machine",
        json!({ "name": "m", "initial": "build", "states": {
            "build": { "action": { "tool": "shell", "parameters": { "command": "make" } }, "transitions": [{ "to": "both", "when": "success" }, { "to": "build", "max": 2 }] },
            "both": { "parallel": [{ "name": "a", "tool": "shell" }, { "name": "b", "tool": "shell" }], "transitions": [{ "to": "nested" }] },
            "nested": { "machine": inner, "transitions": [{ "to": "end" }] },
            "end": { "terminal": true },
        }}),
    );
    insta::assert_snapshot!(lines(&outline), @r"
    start start
    parallel both
    tool both/a (shell)
    tool both/b (shell)
    join both/join (all)
    tool build (shell: make)
    end end
    workflow nested
    end nested/in
    join nested/done
    both -Branch-> both/a
    both -Branch-> both/b
    both/a -Next-> both/join
    both/b -Next-> both/join
    nested -Nested-> nested/in
    nested/in -Next-> nested/done
    start -Next-> build
    both/join -Transition-> nested
    build -Transition-> both (success)
    build -Transition-> build (≤ 2)
    nested/done -Transition-> end
    ");
}

#[test]
fn what_is_not_a_workflow_has_no_outline_and_what_is_odd_breaks_nothing() {
    assert!(outline("llm", json!({ "model": "x" })).nodes.is_empty());
    for config in [
        json!(null),
        json!([]),
        json!({ "steps": [1, null, "x", {}] }),
        json!({ "states": { "a": 1 } }),
    ] {
        outline("workflow", config.clone());
        outline("state_machine", config);
    }
    let mut deep = json!({ "steps": [{ "name": "a", "tool": "t" }] });
    for _ in 0..100 {
        deep = json!({ "steps": [{ "name": "a", "workflow": deep }] });
    }
    assert!(outline("workflow", deep).nodes.len() < 60);
}
