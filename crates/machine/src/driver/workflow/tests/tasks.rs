//! Steps that have a task of their own done: what is asked for, what the end is worth, and what is refused.

use serde_json::{Value, json};

use super::play::{play, sh, steps};
use crate::driver::workflow::WorkflowKind;
use crate::driver::{DriverKind, Registry};

fn task(name: &str, task: Value, rest: Value) -> Value {
    let mut step = json!({"name": name, "task": task});
    step.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    step
}

fn model() -> Value {
    json!({"goal": "mend {{ steps.look.text }}", "model": "script/x"})
}

#[test]
fn a_task_is_asked_for_with_what_is_known_then_and_its_end_can_be_looked_at() {
    let mut order = model();
    order["checks"] = json!(["make test"]);
    order["budget"] = json!({"max_turns": 5, "max_usd": 0.5});
    let config = steps(&[
        sh("look", "ls", json!({})),
        task("mend", order, json!({})),
        sh(
            "tell",
            "{{ steps.mend.ok }} {{ steps.mend.outcome }} {{ steps.mend.text }} {{ steps.mend.id }}",
            json!({}),
        ),
    ]);
    insta::assert_snapshot!(play(&config, &["look: 0 it", "task: verified all is well"]), @r#"
    act look (ls)
    task 1 "mend it" by llm {"model":"script/x"} {"max_turns":5,"max_usd":0.5} [shell: make test]
    act tell (True verified all is well 8dkr8s8mpg3n)
    claim: workflow w: 3 steps done
    "#);
    insta::assert_snapshot!(play(&config, &["look: 0 it", "task: completed nothing proven"]), @r#"
    act look (ls)
    task 1 "mend it" by llm {"model":"script/x"} {"max_turns":5,"max_usd":0.5} [shell: make test]
    give up: step "mend" (task 8dkr8s8mpg3n) failed: completed: nothing proven
    "#);
}

#[test]
fn a_task_that_failed_is_an_error_and_another_try_is_another_task() {
    let config = steps(&[
        sh("look", "ls", json!({})),
        task(
            "mend",
            model(),
            json!({"on_error": "retry", "max_retries": 1, "backoff": "2s", "on_exhausted": "skip"}),
        ),
        sh(
            "tell",
            "{{ steps.mend.status }} {{ steps.mend.outcome }} {{ steps.mend.attempts }}",
            json!({}),
        ),
    ]);
    insta::assert_snapshot!(play(&config, &["look: 0 it", "task: failed no", "task: stuck still no"]), @r#"
    act look (ls)
    task 1 "mend it" by llm {"model":"script/x"} {} []
    until +2s
    task 2 "mend it" by llm {"model":"script/x"} {} []
    act tell (failed stuck 2)
    claim: workflow w: 3 steps done, 1 failed on the way
    "#);
    insta::assert_snapshot!(play(&config, &["look: 0 it", "task: failed no", "task: completed yes"]), @r#"
    act look (ls)
    task 1 "mend it" by llm {"model":"script/x"} {} []
    until +2s
    task 2 "mend it" by llm {"model":"script/x"} {} []
    act tell (ok completed 2)
    claim: workflow w: 3 steps done
    "#);
    let fails = steps(&[task("mend", json!({"goal": "g", "model": "script/x"}), json!({}))]);
    insta::assert_snapshot!(play(&fails, &["task: budget_exhausted max_turns = 1 reached"]), @r#"
    task 1 "g" by llm {"model":"script/x"} {} []
    give up: step "mend" (task 8dkr8s8mpg3n) failed: budget_exhausted: max_turns = 1 reached
    "#);
}

#[test]
fn a_workflow_is_given_its_inputs_and_gives_its_outputs() {
    let flow = json!({"name": "inner", "inputs": {"n": {"type": "integer"}}, "outputs": {"twice": "inputs.n * 2"},
        "steps": [sh("a", "x", json!({}))]});
    let order = json!({"goal": "count", "workflow": flow, "inputs": {"n": "steps.look.value"}});
    let mut config = steps(&[
        sh("look", "ls", json!({})),
        task("count", order, json!({"timeout": "90s"})),
        sh("tell", "{{ steps.count.outputs.twice }}", json!({})),
    ]);
    config["llm"] = json!({"model": "script/y"});
    insta::assert_snapshot!(play(&config, &["look: 0 21", r#"task: completed {"twice": 42}"#]), @r#"
    act look (ls)
    task 1 "count" by workflow {"given":{"n":21},"inputs":{"n":{"type":"integer"}},"llm":{"model":"script/y"},"name":"inner","outputs":{"twice":"inputs.n * 2"},"steps":[{"name":"a","parameters":{"command":"x"},"tool":"shell"}]} {"max_time":"1m30s"} []
    act tell (42)
    claim: workflow w: 3 steps done
    "#);
}

#[test]
fn elements_and_branches_have_tasks_one_at_a_time() {
    let order = |goal: &str| {
        json!({"goal": goal, "agent": "claude", "driver_config": {"program": {
        "name": "claude", "protocol": "claude", "command": ["claude"], "operator": "k"}}})
    };
    let config = steps(&[
        json!({"name": "each", "foreach": "['a', 'b']", "max_parallel": 2,
            "steps": [task("t", order("do {{ item }}"), json!({}))]}),
        json!({"name": "both", "parallel": {
            "x": [task("u", order("x"), json!({}))],
            "y": [sh("v", "y", json!({}))],
        }}),
        sh(
            "tell",
            "{{ steps.each.results | length }} {{ steps.both.branches.x.outcome }}",
            json!({}),
        ),
    ]);
    let log = play(&config, &["task: completed 1", "task: completed 2", "task: verified 3"]);
    let begun: Vec<&str> = log.lines().map(|line| line.split(" by ").next().unwrap()).collect();
    insta::assert_snapshot!(begun.join("\n"), @r#"
    task 1 "do a"
    task 2 "do b"
    act v (y)
    task 3 "x"
    act tell (2 verified)
    claim: workflow w: 3 steps done
    "#);
}

#[test]
fn what_is_wrong_with_a_task_is_said_at_its_place() {
    let wrong = |order: Value| {
        let config = steps(&[task("a", order, json!({}))]);
        WorkflowKind.create(&config, &Registry::builtin()).unwrap_err()
    };
    let of = |more: Value| {
        let mut order = json!({"goal": "g", "model": "script/x"});
        order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        order
    };
    insta::assert_snapshot!(wrong(json!("g")), @r#"steps[0].task: expected a table, got "g"; write a table: { key = value }, or [name] on a line of its own"#);
    insta::assert_snapshot!(wrong(json!({"model": "script/x"})), @r#"steps[0].task: the key "goal" is missing; add goal = …"#);
    insta::assert_snapshot!(wrong(json!({"goal": "g"})), @"steps[0].task: it is not said who works; add agent, model, driver or workflow to the task, or model to [workflow.llm]");
    insta::assert_snapshot!(wrong(json!({"goal": " ", "model": "script/x"})), @"steps[0].task.goal: the goal is empty; say what is to be achieved");
    insta::assert_snapshot!(wrong(of(json!({"gaol": "g"}))), @r#"steps[0].task.gaol: unknown key "gaol" in a task; did you mean "goal"?"#);
    insta::assert_snapshot!(wrong(of(json!({"model": "x"}))), @r#"steps[0].task.model: "x" is not a model: expected PROVIDER/NAME; write something such as anthropic/NAME or script/FILE"#);
    insta::assert_snapshot!(wrong(of(json!({"driver": "user"}))), @"steps[0].task.model: model does not go with driver; say it in the driver, or leave driver out");
    insta::assert_snapshot!(wrong(json!({"goal": "g", "driver": "user", "agent": "claude"})), @"steps[0].task.driver: there is agent already; one task has one of them: leave agent or driver out");
    insta::assert_snapshot!(wrong(of(json!({"inputs": {"n": 1}}))), @r#"steps[0].task.inputs: inputs are what a workflow takes; add workflow = "@workflows/NAME", or leave it out"#);
    insta::assert_snapshot!(wrong(of(json!({"checks": [""]}))), @r#"steps[0].task.checks[0]: the command is empty; write the command line, such as "make test""#);
    insta::assert_snapshot!(wrong(of(json!({"budget": {"max_turn": 1}}))), @r#"steps[0].task.budget.max_turn: unknown key "max_turn" in [budget]; did you mean "max_turns"?"#);
    insta::assert_snapshot!(wrong(of(json!({"goal": "{{ steps.b.text }}"}))), @r#"steps[0].task.goal: there is no step "b"; there are a"#);
    insta::assert_snapshot!(wrong(of(json!({"acceptance": [{"kind": "judge", "model": "a/b", "rubric_file": "r.md"}]}))), @"steps[0].task.acceptance[0]: the task of a step has no criterion that is looked up in a file; make it a criterion of the whole task, or write the rubric itself");
}
