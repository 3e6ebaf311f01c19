//! Steps that hold others: called workflows, lists, branches and states.

use serde_json::{Value, json};

use super::play::{Play, play, sh, steps};

#[test]
fn another_workflow_is_called_with_inputs_and_gives_outputs() {
    let inner = json!({"name": "inner", "max_steps": 2,
        "inputs": {"n": {"type": "integer"}, "label": {"type": "string", "default": "x"}},
        "outputs": {"twice": "inputs.n * 2", "said": "steps.one.text"},
        "steps": [sh("one", "in {{ inputs.label }} {{ inputs.n }}", json!({}))]});
    let config = steps(&[
        sh("one", "outer", json!({})),
        json!({"name": "call", "workflow": inner, "inputs": {"n": "steps.one.value + 1", "label": "'y'"}}),
        sh(
            "use",
            "{{ steps.call.outputs.twice }} {{ steps.call.outputs.said }} {{ steps.one.text }}",
            json!({}),
        ),
    ]);
    let play_inner = |script: &[&str]| play(&config, script);
    insta::assert_snapshot!(play_inner(&["one: 0 20", "one: 0 hi"]), @"
    act one (outer)
    act one (in y 21)
    act use (42 hi 20)
    claim: workflow w: 3 steps done
    ");
    insta::assert_snapshot!(play_inner(&["one: 0 20", "one: 1 boom"]), @r#"
    act one (outer)
    act one (in y 21)
    give up: step "call" (workflow inner) failed: step "one" (shell) failed: error, exit code 1: boom
    "#);
}

#[test]
fn a_foreach_goes_through_a_list_and_gathers_what_came() {
    let each = |rest: Value| {
        let mut each = json!({"name": "each", "foreach": "steps.list.text | lines", "as": "file",
            "steps": [sh("test", "test {{ file }} {{ loop.index }}/{{ loop.length }}", json!({}))]});
        each.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        steps(&[
            sh("list", "ls", json!({})),
            each,
            sh("use", "{{ steps.each.results | map(attribute='text') | join(',') }}", json!({})),
        ])
    };
    insta::assert_snapshot!(play(&each(json!({})), &["list: 0 a\nb", "test: 0 A", "test: 0 B"]), @"
    act list (ls)
    act test (test a 1/2)
    act test (test b 2/2)
    act use (A,B)
    claim: workflow w: 3 steps done
    ");
    insta::assert_snapshot!(play(&each(json!({"max_parallel": 2})), &["list: 0 a\nb\nc", "test: 0 A", "test: 0 B", "test: 0 C"]), @"
    act list (ls)
    act test (test a 1/3) + test (test b 2/3)
    act test (test c 3/3)
    act use (A,B,C)
    claim: workflow w: 3 steps done
    ");
    insta::assert_snapshot!(play(&each(json!({})), &["list: 0 a\nb", "test: 1 no"]), @r#"
    act list (ls)
    act test (test a 1/2)
    give up: step "each" failed: element 1: step "test" (shell) failed: error, exit code 1: no
    "#);
    insta::assert_snapshot!(play(&each(json!({"join": "any"})), &["list: 0 a\nb\nc", "test: 1 no", "test: 0 B"]), @"
    act list (ls)
    act test (test a 1/3)
    act test (test b 2/3)
    act use (no,B)
    claim: workflow w: 3 steps done
    ");
}

#[test]
fn branches_work_at_once_and_join() {
    let config = |join: &str| {
        steps(&[
            json!({"name": "both", "join": join, "on_error": "skip", "parallel": {
                "lint": [sh("lint", "l", json!({}))],
                "unit": [sh("build", "b", json!({})), sh("unit", "u {{ steps.build.text }}", json!({}))],
            }}),
            sh(
                "use",
                "{{ steps.both.ok }} {{ steps.both.branches.lint.ok }} {{ steps.both.branches.unit.text }}",
                json!({}),
            ),
        ])
    };
    insta::assert_snapshot!(play(&config("all"), &["build: 0 B", "unit: 0 U", "lint: 1"]), @"
    act lint (l) + build (b)
    act unit (u B)
    act use (False False U)
    claim: workflow w: 2 steps done, 1 failed on the way
    ");
    let log = play(&config("any"), &["lint: 1"]);
    assert!(log.contains("act use (True False"), "{log}");
}

#[test]
fn questions_of_branches_are_put_one_at_a_time() {
    let ask = |name: &str| json!({"name": name, "prompt": name});
    let config = json!({"llm": {"model": "a/b"}, "steps": [
        {"name": "both", "parallel": {"x": [ask("one")], "y": [ask("two"), sh("t", "{{ steps.two.text }}", json!({}))]}},
        {"name": "say", "tool": "say", "parameters": {"text": "{{ steps.both.branches.x.text }}"}}]});
    insta::assert_snapshot!(play(&config, &["model: 1", "model: 2"]), @"
    model a/b: one
    model a/b: two
    act t (2)
    act say (1)
    claim: the workflow: 2 steps done
    ");
}

#[test]
fn time_that_is_over_ends_a_group_at_its_next_move() {
    let inner = [sh("a", "x", json!({"on_error": "retry", "max_retries": 9, "backoff": "40s"}))];
    let config = steps(&[
        json!({"name": "each", "foreach": "[1]", "steps": inner, "timeout": "1m", "on_error": "skip"}),
        sh("b", "{{ steps.each.status }}", json!({})),
    ]);
    insta::assert_snapshot!(play(&config, &["a: 1", "a: 1", "a: 1"]), @"
    act a (x)
    until +40s
    act a (x)
    until +1m20s
    act b (timed_out)
    claim: workflow w: 2 steps done, 1 failed on the way
    ");
}

fn machine() -> Value {
    json!({"name": "m", "initial": "triage", "llm": {"model": "a/b"}, "outputs": {"n": "visits.fix"}, "states": [
        sh("triage", "look", json!({"on_entry": [sh("hello", "hi", json!({}))],
            "on_exit": [sh("bye", "left {{ result.status }}", json!({}))],
            "transitions": [{"to": "done", "when": "result.ok"}, {"to": "fix", "max": 2}]})),
        {"name": "fix", "steps": [sh("edit", "edit", json!({}))], "transitions": [{"to": "pick"}]},
        {"name": "pick", "choose": {"prompt": "again?", "fallback": "broken"},
         "transitions": [{"to": "triage", "when": "visits.fix < 9"}, {"to": "broken"}]},
        {"name": "done", "terminal": true},
        {"name": "broken", "terminal": true, "outcome": "failed"}]})
}

#[test]
fn states_follow_their_transitions_and_a_model_may_choose() {
    insta::assert_snapshot!(play(&machine(), &[]), @r#"
    act hello (hi)
    act triage (look)
    act bye (left ok)
    claim: workflow m ended in the state "done" {"n":0}
    "#);
    insta::assert_snapshot!(play(&machine(), &["triage: 1", "model: `triage`"]), @r#"
    act hello (hi)
    act triage (look)
    act bye (left error)
    act edit (edit)
    model a/b: again?\n\nAnswer with nothing but one of these names: triage, broken
    act hello (hi)
    act triage (look)
    act bye (left ok)
    claim: workflow m ended in the state "done" {"n":1}
    "#);
    let log = play(&machine(), &["triage: 1", "model: who knows"]);
    assert!(log.ends_with("give up: workflow m ended in the failed state \"broken\"\n"), "{log}");
    let log = play(
        &machine(),
        &["triage: 1", "model: triage", "triage: 1", "model: triage", "triage: 1"],
    );
    assert!(
        log.ends_with(
            "stuck: the transition triage -> fix was taken 2 times, which is its limit\n"
        ),
        "{log}"
    );
}

#[test]
fn a_thousand_elements_are_not_quadratic() {
    let items: Vec<u32> = (0..1_000).collect();
    for width in [1, 1000] {
        let config = json!({"inputs": {"list": {"type": "list"}}, "given": {"list": items}, "steps": [
            {"name": "each", "foreach": "inputs.list", "max_parallel": width, "steps": [sh("t", "{{ item }}", json!({}))]}]});
        let mut play = Play::new(&config, false);
        play.reversed = true;
        play.run();
        assert!(play.log.ends_with("claim: the workflow: 1 step done\n"), "{}", play.log);
    }
}
