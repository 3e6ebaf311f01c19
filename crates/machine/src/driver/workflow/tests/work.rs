//! How much work a workflow makes, counted and not timed: rows that are looked at, texts that are compiled, and values that
//! are put together for them.

use std::cell::Cell;
use std::collections::VecDeque;

use serde_json::{Value, json};

use super::super::WorkflowKind;
use super::super::run::LOOKS;
use super::super::scope::{Layer, Scope, World};
use super::{SITUATION, step};
use crate::driver::{Action, Decision, DriverKind, Fact, Registry, Wait};
use crate::id::CallId;
use crate::template::count;
use crate::tool::ToolResult;

/// Rows that were looked at and texts that were compiled until it claims to be finished, each call ending well, the last one
/// first.
fn work_of(config: &Value) -> (u64, u64) {
    let mut driver = WorkflowKind.create(config, &Registry::builtin()).unwrap();
    let so_far = || (LOOKS.with(Cell::get), count::so_far());
    let before = so_far();
    let mut under_way: VecDeque<Action> = VecDeque::new();
    loop {
        match driver.decide(&SITUATION) {
            Decision::Act(actions) => under_way.extend(actions),
            Decision::Wait(Wait::Results { .. }) => {}
            Decision::Claim { .. } => break,
            other => panic!("{other:?}"),
        }
        let action = under_way.pop_back().expect("something is under way");
        let result = ToolResult::ok("x".to_owned());
        driver.observe(
            &SITUATION,
            &Fact::Result { call: CallId(1), action: &action, result: &result },
        );
    }
    let after = so_far();
    (after.0 - before.0, after.1 - before.1)
}

fn each(elements: u64, width: u64) -> Value {
    let one = step(
        "one",
        json!({ "when": "item >= 0", "parameters": { "command": "echo {{ item }} {{ inputs.word }}" } }),
    );
    json!({ "name": "w", "inputs": { "word": { "type": "string" } }, "given": { "word": "x" }, "steps": [
        { "name": "all", "foreach": format!("range({elements})"), "max_parallel": width, "steps": [one] }] })
}

#[test]
fn the_work_of_a_foreach_grows_with_its_elements_and_not_with_their_square() {
    for width in [1, 30, 1000] {
        let (looks, compiled) = work_of(&each(1000, width));
        assert!(looks <= 4 * 1000 + 10, "{looks} rows were looked at, {width} at once");
        assert!(compiled <= 10, "{compiled} texts were compiled, {width} at once");
    }
}

#[test]
fn a_row_is_looked_at_once_for_each_of_its_steps() {
    let steps: Vec<Value> = (0..2000)
        .map(|n| step(&format!("s{n}"), json!({ "parameters": { "command": "echo {{ goal }}" } })))
        .collect();
    let (looks, compiled) = work_of(&json!({ "name": "w", "steps": steps }));
    assert!(looks <= 2001 && compiled <= 2000, "{looks} {compiled}");
}

#[test]
fn an_input_that_nobody_mentions_is_not_copied() {
    let list: Vec<u32> = (0..1000).collect();
    let (inputs, facts) = (json!({ "list": list, "word": "x" }), json!({ "files": list }));
    let world = World { goal: "", facts: &facts, turns: 0 };
    let scope = Scope { outer: None, layer: Layer::Flow { world, inputs: &inputs } };
    let size = |names: &[&[&str]]| {
        let path = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        scope.values(&names.iter().map(path).collect::<Vec<Vec<String>>>()).to_string().len()
    };
    assert!(size(&[&["inputs", "word"], &["facts", "branch"]]) < 60);
    for all in [
        &[&["inputs"][..]][..],
        &[&["inputs", "word"], &["inputs"]],
        &[&["inputs"], &["inputs", "word"]],
    ] {
        assert!(size(all) > 1000, "all of it where all of it is meant");
    }
}

#[test]
fn branches_are_looked_at_when_something_came_for_them() {
    let steps: Vec<Value> = (0..3).map(|at| step(&format!("s{at}"), json!({}))).collect();
    let branches: serde_json::Map<String, Value> =
        (0..200).map(|n| (format!("b{n}"), json!(steps))).collect();
    let (looks, _) =
        work_of(&json!({ "name": "w", "steps": [{ "name": "all", "parallel": branches }] }));
    // The row around them once a result, each branch at its beginning and once for each of its steps.
    let most = 600 + 200 * (1 + 3) + 10;
    assert!(looks <= most, "{looks} rows were looked at, expected at most {most}");
}

#[test]
fn of_a_result_only_what_is_mentioned_is_remembered() {
    let said = |driver: &mut Box<dyn crate::driver::Driver>| {
        let Decision::Act(actions) = driver.decide(&SITUATION) else { panic!("it acts") };
        let result = ToolResult::ok("a long text".to_owned());
        let action = &actions[0];
        driver.observe(&SITUATION, &Fact::Result { call: CallId(1), action, result: &result });
    };
    for (when, kept) in [
        ("steps.one.ok", json!({ "ok": true })),
        ("steps.one.attempts == 1", json!({ "attempts": 1 })),
        ("steps.one.text == 'x' or steps.one.ok", json!({ "ok": true, "text": "a long text" })),
        (
            "steps.one | length > 0",
            json!({ "attempts": 1, "ok": true, "status": "ok", "text": "a long text" }),
        ),
    ] {
        let config = json!({ "name": "w", "steps": [
            step("one", json!({})), step("two", json!({ "when": when })), step("three", json!({}))] });
        let mut driver = WorkflowKind.create(&config, &Registry::builtin()).unwrap();
        said(&mut driver);
        driver.decide(&SITUATION);
        assert_eq!(driver.save()["flow"]["row"]["results"]["0"], kept, "{when}");
    }
}

#[test]
fn a_text_is_read_once_however_often_a_workflow_is_made() {
    let config = each(10, 1);
    WorkflowKind.create(&config, &Registry::builtin()).unwrap();
    let before = count::read_so_far();
    for _ in 0..5 {
        WorkflowKind.create(&config, &Registry::builtin()).unwrap();
    }
    assert_eq!(count::read_so_far(), before);
}
