//! Workflows with every kind of step that there is: rows and states, loops, branches, nested workflows and tasks of their own.

use serde_json::{Value, json};

use crate::random::Random;

/// A workflow of any shape. `depth` is how far steps may hold steps.
pub(crate) fn flow(random: &mut Random, depth: u32) -> Value {
    let mut flow = if random.one_in(3) { states(random, depth) } else { row(random, depth) };
    flow["name"] = json!("any");
    flow["llm"] = json!({ "model": "sim/model" });
    flow
}

fn row(random: &mut Random, depth: u32) -> Value {
    let steps = steps(random, depth);
    let mut flow = json!({ "steps": steps });
    if random.one_in(2) {
        flow["outputs"] = json!({ "last": "steps.s0.status" });
    }
    flow
}

/// Steps `s0`, `s1` and so on; each may look at the one before.
fn steps(random: &mut Random, depth: u32) -> Vec<Value> {
    let count = 1 + random.below(3);
    (0..count)
        .map(|number| {
            let mut step = work(random, depth, number);
            step["name"] = json!(format!("s{number}"));
            answer_failures(&mut step, random, count);
            if number > 0 && random.one_in(5) {
                step["when"] = json!(format!("not steps.s{}.skipped", number - 1));
            }
            if random.one_in(8) {
                let to = random.below(count);
                step["then"] = json!(format!("s{to}"));
                step["max_visits"] = json!(1 + random.below(2));
                step["when"] = json!(format!("visits.s{number} < 3"));
            }
            step
        })
        .collect()
}

/// What follows a failure: any of the answers.
fn answer_failures(step: &mut Value, random: &mut Random, count: u64) {
    match random.below(6) {
        0 | 1 => step["on_error"] = json!("skip"),
        2 => {
            step["on_error"] = json!("retry");
            step["max_retries"] = json!(1 + random.below(2));
            step["on_exhausted"] = json!("skip");
        }
        3 => {
            step["on_error"] = json!("retry");
            step["max_retries"] = json!(1);
            step["backoff"] = json!("150ms");
        }
        4 => {
            let target = format!("s{}", random.below(count));
            step["on_error"] = json!({ "action": "goto", "target": target });
            step["max_retries"] = json!(2);
        }
        _ => {}
    }
}

fn work(random: &mut Random, depth: u32, number: u64) -> Value {
    let kind = if depth == 0 { random.below(5) } else { random.below(12) };
    match kind {
        5 => json!({ "type": "llm", "prompt": "say {{ goal }}" }),
        6 if random.one_in(2) => json!({ "ask": "which?", "choices": ["left", "right"] }),
        6 => json!({ "approve": "go on?", "timeout": "400ms", "on_timeout": "skip" }),
        7 => json!({
            "foreach": "['a', 'b', 'c']", "as": "part", "max_parallel": 1 + random.below(3),
            "join": *random.pick(&["all", "any"]), "steps": steps(random, depth - 1),
        }),
        8 => json!({
            "parallel": { "left": steps(random, depth - 1), "right": steps(random, depth - 1) },
            "join": *random.pick(&["all", "any"]),
        }),
        9 => {
            let mut inner = row(random, depth - 1);
            inner["name"] = json!("inner");
            inner["inputs"] = json!({ "n": { "type": "integer", "default": 1 } });
            json!({ "workflow": inner, "inputs": { "n": "1 + 1" } })
        }
        10 => json!({ "task": task(random, depth - 1) }),
        11 => json!({ "driver": "scripted", "driver_config": script(random) }),
        _ => call(random, number),
    }
}

/// A task of its own: a script, or a workflow again.
fn task(random: &mut Random, depth: u32) -> Value {
    let mut task = json!({ "goal": "a part of {{ goal }}" });
    if random.one_in(2) {
        task["driver"] = json!("scripted");
        task["driver_config"] = script(random);
    } else {
        task["workflow"] = row(random, depth.min(1));
    }
    match random.below(4) {
        0 => task["checks"] = json!(["check it"]),
        1 => task["budget"] = json!({ "max_turns": random.below(4) }),
        _ => {}
    }
    task
}

fn script(random: &mut Random) -> Value {
    let call = json!({ "tool": "shell", "input": { "command": "script" } });
    let turns: Vec<Vec<Value>> = (0..random.below(3)).map(|_| vec![call.clone()]).collect();
    let end = *random.pick(&["claim", "claim", "give_up", "wait_for_person"]);
    json!({ "turns": turns, "end": end })
}

fn call(random: &mut Random, number: u64) -> Value {
    let before = match number {
        0 => "begin".to_owned(),
        number => format!("{{{{ steps.s{}.status }}}}", number - 1),
    };
    let (tool, parameters) = match random.below(8) {
        0..5 => ("shell", json!({ "command": format!("run after {before}") })),
        5 => ("write", json!({ "path": "out", "content": before })),
        6 => ("ask", json!({ "question": "what now?" })),
        _ => ("read", json!({ "path": "in" })),
    };
    json!({ "tool": tool, "parameters": parameters })
}

/// States that lead to an end, with work of any kind on the way.
fn states(random: &mut Random, depth: u32) -> Value {
    let entry = |name: &str, random: &mut Random| {
        let mut step = call(random, 0);
        step["name"] = json!(name);
        step["on_error"] = json!("skip");
        step
    };
    let mut first = work(random, depth, 0);
    first["name"] = json!("first");
    first["on_entry"] = json!([entry("enter", random)]);
    first["on_exit"] = json!([entry("leave", random), entry("gone", random)]);
    first["transitions"] = json!([
        { "to": "second", "when": "result.ok" },
        { "to": "first", "when": "result.failed", "max": 2 },
        { "to": "second" },
    ]);
    let mut second = work(random, depth, 0);
    second["name"] = json!("second");
    second["transitions"] = json!([{ "to": "done" }, { "to": "lost" }]);
    if random.one_in(2) {
        second["choose"] = json!({ "prompt": "which way?", "fallback": "done" });
    }
    json!({ "initial": "first", "states": [
        first, second,
        { "name": "done", "terminal": true },
        { "name": "lost", "terminal": true, "outcome": "failed" },
    ] })
}
