//! Every key of a step: what it changes, and that the middle of anything can be saved and loaded.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::play::{Play, play, sh, steps};
use crate::driver::workflow::WorkflowKind;
use crate::driver::{Decision, DriverKind, Registry};

#[test]
fn parameters_are_filled_in_and_when_decides() {
    let config = json!({"name": "w",
    "inputs": {"deep": {"type": "boolean", "default": true}, "path": {"type": "string"}},
    "given": {"path": "src"},
    "outputs": {"where": "inputs.path", "said": "steps.look.text", "ran": "steps.more.skipped"},
    "steps": [
        sh("look", "ls {{ inputs.path }}; echo {{ goal }} {{ task.turns }}", json!({})),
        sh("more", "wc -l {{ steps.look.text | trim }}", json!({"when": "not inputs.deep and steps.look.ok"})),
        {"name": "read", "tool": "read", "parameters": {"path": "a", "limit": "{{ steps.look.value }}"},
         "when": "steps.more.skipped and steps.look.exit == 0"},
    ]});
    insta::assert_snapshot!(play(&config, &["look: 0 12"]), @r#"
    act look (ls src; echo the goal 7)
    act read (12, a)
    claim: workflow w: 3 steps done {"ran":true,"said":"12","where":"src"}
    "#);
    insta::assert_snapshot!(play(&config, &["look: 0 many"]), @r#"
    act look (ls src; echo the goal 7)
    give up: step "read": parameter "limit" of read must be a whole number, got null
    "#);
}

#[test]
fn inputs_are_checked_before_anything_begins() {
    let config = |given: Value| {
        json!({"inputs": {"n": {"type": "integer"}, "mode": {"type": "string", "default": "fast", "choices": ["fast", "deep"]}},
               "given": given, "steps": [sh("a", "true", json!({}))]})
    };
    let wrong =
        |given: Value| WorkflowKind.create(&config(given), &Registry::builtin()).unwrap_err();
    insta::assert_snapshot!(wrong(json!({})), @r#"the input "n" (integer) is missing: give it with --input n=…"#);
    insta::assert_snapshot!(wrong(json!({"n": "x"})), @r#"the input "n" must be of type integer, got "x""#);
    insta::assert_snapshot!(wrong(json!({"n": 1, "mode": "slow"})), @r#"the input "mode" must be one of "fast", "deep", got "slow""#);
    insta::assert_snapshot!(wrong(json!({"n": 1, "mod": "fast"})), @r#"there is no input "mod": did you mean "mode"?"#);
}

#[test]
fn a_condition_that_is_neither_true_nor_false_fails_the_step() {
    let config =
        steps(&[sh("a", "x", json!({})), sh("b", "y", json!({"when": "steps.a.value.n"}))]);
    insta::assert_snapshot!(play(&config, &["a: 0 {\"n\": 3}"]), @r#"
    act a (x)
    give up: step "b": when: "steps.a.value.n" must give true or false, and gave 3
    "#);
}

#[test]
fn a_retry_waits_longer_each_time_and_then_takes_the_declared_branch() {
    let config = steps(&[
        sh(
            "a",
            "x",
            json!({"on_error": "retry", "max_retries": 3, "backoff": "2s", "on_exhausted": "skip"}),
        ),
        sh("b", "tried {{ steps.a.attempts }} {{ steps.a.status }}", json!({})),
    ]);
    insta::assert_snapshot!(play(&config, &["a: 1", "a: 1", "a: 1", "a: 1"]), @"
    act a (x)
    until +2s
    act a (x)
    until +4s
    act a (x)
    until +8s
    act a (x)
    act b (tried 4 error)
    claim: workflow w: 2 steps done, 1 failed on the way
    ");
}

#[test]
fn then_leads_elsewhere_and_is_counted() {
    let config = steps(&[
        sh("a", "visit {{ visits.a }}", json!({"then": "c"})),
        sh("b", "never", json!({})),
        sh("c", "x", json!({"then": "a", "max_visits": 2, "when": "visits.a < 9"})),
    ]);
    insta::assert_snapshot!(play(&config, &[]), @"
    act a (visit 1)
    act c (x)
    act a (visit 2)
    act c (x)
    act a (visit 3)
    act c (x)
    stuck: the way c -> a was taken 2 times, which is its limit
    ");
    let end = steps(&[sh("a", "x", json!({"then": "end"})), sh("b", "never", json!({}))]);
    insta::assert_snapshot!(play(&end, &[]), @"
    act a (x)
    claim: workflow w: 2 steps done
    ");
}

/// The example of the format that this one goes back to, as its driver's configuration.
fn validate_fix() -> Value {
    json!({"name": "validate-fix", "max_steps": 20,
    "llm": {"model": "script/x", "temperature": 0.0, "system_prompt": "Be terse."},
    "steps": [
        {"name": "validate", "tool": "validator.run", "type": "tool", "on_error": "skip"},
        {"name": "analyze", "tool": "llm.analyze", "type": "llm", "input_from": "validate", "prompt": "REPAIR"},
        {"name": "fix", "tool": "patch.apply", "type": "tool", "input_from": "analyze",
         "on_error": {"action": "goto", "target": "validate"}, "max_retries": 3},
    ]})
}

#[test]
fn validate_fix_stops_when_valid_and_validates_again_after_a_fix() {
    insta::assert_snapshot!(play(&validate_fix(), &[]), @"
    act validate ()
    claim: workflow validate-fix: 3 steps done
    ");
    let script = [
        "validate: 1 E1",
        "model: Here:\n```diff\n--- a\n```\nGood luck",
        "validate: 1 E2",
        "model: --- b",
    ];
    insta::assert_snapshot!(play(&validate_fix(), &script), @r#"
    act validate ()
    model script/x at 0 [Be terse.]: REPAIR\n\nThe output of "validate":\nE1
    act fix (--- a\n)
    act validate ()
    model script/x at 0 [Be terse.]: REPAIR\n\nThe output of "validate":\nE2
    act fix (--- b)
    act validate ()
    claim: workflow validate-fix: 3 steps done, 2 failed on the way
    "#);
}

#[test]
fn a_repair_that_does_not_help_is_stuck_with_the_edge_named() {
    let mut script = vec!["validate: 1"; 9];
    script.extend(vec!["model: --- a"; 9]);
    let log = play(&validate_fix(), &script);
    assert!(
        log.ends_with(
            "stuck: the way fix -> validate was taken 3 times; \"validate\" still fails\n"
        ),
        "{log}"
    );
    // What would be mended after the last check, nobody would look at.
    assert_eq!((log.matches("act fix").count(), log.matches("act validate").count()), (3, 4));
    script.extend(vec!["fix: 1 does not apply"; 9]);
    let log = play(&validate_fix(), &script);
    assert!(log.ends_with("was taken 3 times; \"validate\" still fails\n"), "{log}");
    assert_eq!((log.matches("act fix").count(), log.matches("act validate").count()), (3, 4));
    // A step that would not run anyway ends nothing.
    let mut bounded = validate_fix();
    bounded["steps"][1]["when"] = json!("visits.validate < 4");
    bounded["steps"][2]["when"] = json!("visits.validate < 4");
    let log = play(&bounded, &script);
    assert!(log.contains("claim: workflow validate-fix: 3 steps done"), "{log}");
}

#[test]
fn an_answer_has_to_fit_its_schema() {
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let config = json!({"llm": {"model": "a/b"}, "steps": [
        {"name": "ask", "prompt": "how many?", "model": "c/d", "schema": schema},
        sh("use", "{{ steps.ask.value.n }}", json!({})),
    ]});
    insta::assert_snapshot!(play(&config, &["model: many", "model: {\"n\": 4}"]), @r#"
    model c/d bound: how many?\n\nAnswer with nothing but JSON that fits this JSON Schema:\n{"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object"}
    model c/d bound: the answer is not JSON. Answer with nothing but JSON that fits the schema. Go on.
    act use (4)
    claim: the workflow: 2 steps done
    "#);
    let log = play(&config, &["model: a", "model: b", "model: c"]);
    assert!(log.ends_with("give up: step \"ask\" (llm) failed: the answer is not JSON\n"), "{log}");
}

#[test]
fn a_model_with_tools_works_and_its_last_words_are_the_result() {
    let config = json!({"llm": {"model": "a/b"}, "steps": [
        {"name": "ask", "prompt": "look", "tools": ["read"]}, sh("use", "{{ steps.ask.text }}", json!({}))]});
    let driver = WorkflowKind.create(&config, &Registry::builtin()).unwrap();
    drop(driver);
    let log = play(&config, &["model: seen"]);
    assert!(log.contains("You work on a task") && log.contains("act use (seen)"), "{log}");
}

#[test]
fn what_version_1_saved_goes_on() {
    let config = json!({"steps": [sh("a", "echo {{.Names}}", json!({})), sh("b", "y", json!({"on_error": "retry"}))]});
    let state = json!({"at": 1, "carried_out": 2, "retries": 1, "put_off": 0, "passed_over": 0, "gotos": {"0": 1}});
    let mut driver = WorkflowKind.load(&config, &state, &Registry::builtin()).unwrap();
    let situation = Play::new(&steps(&[sh("x", "x", json!({}))]), false).situation();
    assert!(matches!(driver.decide(&situation), Decision::Act(actions) if actions[0].label == "b"));
    let saved = driver.save();
    assert_eq!(saved["flow"]["row"]["step"]["retries"], 1);
    WorkflowKind.load(&config, &saved, &Registry::builtin()).unwrap();
}

/// Any tree of steps: whatever comes, it ends, and saving and loading in the middle of anything changes nothing.
fn any_step(depth: u32) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        4 => Just(json!({"tool": "shell", "parameters": {"command": "x"}})),
        1 => Just(json!({"prompt": "p"})),
        1 => Just(json!({"ask": "q", "timeout": "1m", "on_timeout": "skip"})),
        1 => Just(json!({"approve": "q", "timeout": "1m"})),
    ];
    let base = if depth == 0 {
        leaf.boxed()
    } else {
        let row = || any_row(depth - 1);
        prop_oneof![
            3 => leaf,
            1 => (row(), 1..4u32, prop::bool::ANY).prop_map(|(row, width, any)| json!({"foreach": "[1, 2, 3]",
                "steps": row, "max_parallel": width, "join": if any { "any" } else { "all" }})),
            1 => (row(), row()).prop_map(|(a, b)| json!({"parallel": {"a": a, "b": b}})),
            1 => row().prop_map(|row| json!({"workflow": {"steps": row}})),
        ]
        .boxed()
    };
    (base, 0..6u8)
        .prop_map(|(mut step, answer)| {
            let fields = step.as_object_mut().unwrap();
            match answer {
                0 => drop(fields.insert("on_error".into(), json!("skip"))),
                1 => {
                    fields.insert("on_error".into(), json!("retry"));
                    fields.insert("max_retries".into(), json!(1));
                    fields.insert("backoff".into(), json!("1s"));
                }
                2 => drop(fields.insert("when".into(), json!("steps.s0.ok or visits.s0 < 2"))),
                _ => {}
            }
            step
        })
        .boxed()
}

fn any_row(depth: u32) -> BoxedStrategy<Value> {
    prop::collection::vec(any_step(depth), 1..4)
        .prop_map(|steps| {
            let named = steps.into_iter().enumerate().map(|(index, mut step)| {
                step["name"] = json!(format!("s{index}"));
                step
            });
            Value::Array(named.collect())
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 5))]
    #[test]
    fn any_tree_of_steps_ends_and_survives_reloads(
        row in any_row(2),
        picks in prop::collection::vec(0..5usize, 1..12),
        reversed: bool,
    ) {
        let config = json!({"llm": {"model": "a/b"}, "max_steps": 300, "steps": row});
        let results = ["ok", "0 text", "1", "denied", "ok"];
        let logs = [false, true].map(|reload| {
            let mut play = Play::new(&config, reload);
            play.reversed = reversed;
            for label in ["s0", "s1", "s2"] {
                let list = picks.iter().cycle().take(400).map(|pick| results[*pick].to_owned());
                play.results.insert(label.to_owned(), list.collect());
            }
            play.answers = picks.iter().cycle().take(400).map(|pick| format!("answer {pick}")).collect();
            play.told = picks.iter().cycle().take(400)
                .map(|pick| ["yes", "no", "…", "yes", "…"][*pick].to_owned()).collect();
            play.run();
            play.log
        });
        prop_assert_eq!(&logs[0], &logs[1]);
    }
}
