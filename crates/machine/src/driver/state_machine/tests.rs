//! Machines as scripts: results in, decisions out.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::driver::Retry;
use crate::driver::workflow::tests::{Rig, ends_and_survives_reloads, play, result};

fn call(command: &str) -> Value {
    json!({"tool": "shell", "parameters": {"command": command}})
}

fn check(config: Value, results: &[&str]) -> String {
    play(&StateMachineKind, config, results)
}

fn wrong(config: Value) -> String {
    StateMachineKind.create(&config, &Registry::default()).unwrap_err()
}

fn repair(when: Value) -> Value {
    json!({"initial": "test", "states": {
        "test": {"action": call("make test"), "transitions": [
            {"to": "done", "when": "ok"},
            {"to": "fix", "when": when, "max": 2},
            {"to": "lost", "when": {"status": "timed_out"}},
        ]},
        "fix": {"action": call("make fix"), "transitions": [{"to": "test"}]},
        "done": {"terminal": true},
        "lost": {"terminal": true, "outcome": "failed"},
    }})
}

#[test]
fn it_validates_again_after_a_fix_and_stops_when_valid() {
    insta::assert_snapshot!(check(repair(json!({"exit": 1})), &["1", "ok", "0"]), @r#"
    act test -> error
    act fix -> ok
    act test -> ok
    claim: the state machine ended in the state "done"
    "#);
}

#[test]
fn a_failed_end_gives_up() {
    insta::assert_snapshot!(check(repair(json!({"exit": 1})), &["timed_out"]), @r#"
    act test -> timed_out
    give up: the state machine ended in the failed state "lost"
    "#);
}

#[test]
fn one_that_begins_anew_begins_with_its_first_state() {
    for reload in [false, true] {
        let mut rig = Rig::new(&StateMachineKind, repair(json!({"exit": 1})), reload);
        rig.run(&mut ["timed_out"].map(result).into_iter());
        rig.observe(&Fact::Retry(&Retry { why: "it failed".to_owned(), fresh: true }));
        rig.run(&mut ["1", "ok", "0"].map(result).into_iter());
        insta::allow_duplicates! {
            insta::assert_snapshot!(rig.log, @r#"
            act test -> timed_out
            give up: the state machine ended in the failed state "lost"
            act test -> error
            act fix -> ok
            act test -> ok
            claim: the state machine ended in the state "done"
            "#);
        }
    }
}

#[test]
fn a_result_that_no_transition_fits_is_a_failure() {
    insta::assert_snapshot!(check(repair(json!({"exit": 1})), &["2 strange"]), @r#"
    act test -> error
    give up: no transition of state "test" fits what came of it; its call "test" (shell) ended: error, exit code 2: strange
    "#);
}

#[test]
fn edge_case_22_a_circle_ends_with_the_name_of_its_edge() {
    insta::assert_snapshot!(check(repair(json!("error")), &["1", "ok", "1", "ok", "1"]), @"
    act test -> error
    act fix -> ok
    act test -> error
    act fix -> ok
    act test -> error
    stuck: the transition test -> fix was taken 2 times, which is its limit
    ");
}

#[test]
fn a_count_leads_out_of_a_circle() {
    let config = json!({"initial": "try", "states": {
        "try": {"action": call("try"), "transitions": [
            {"to": "done", "when": {"ok": true, "not": {"empty": true}}},
            {"to": "try", "when": {"count": {"less_than": 2}}},
            {"to": "other", "when": {"count": {"edge": "try -> try", "at_least": 2}}},
        ]},
        "other": {"action": call("other"), "transitions": [{"to": "done"}]},
        "done": {"terminal": true},
    }});
    insta::assert_snapshot!(check(config, &["ok", "1", "1", "ok"]), @r#"
    act try -> ok
    act try -> error
    act try -> error
    act other -> ok
    claim: the state machine ended in the state "done"
    "#);
}

#[test]
fn edge_case_21_guards_see_what_they_say() {
    let took = |when: Value, result: &str| {
        let config = json!({"initial": "a", "states": {
            "a": {"action": call("a"), "transitions": [{"to": "yes", "when": when}, {"to": "no"}]},
            "yes": {"terminal": true}, "no": {"terminal": true},
        }});
        check(config, &[result]).contains("\"yes\"")
    };
    assert!(took(json!("ok"), "ok") && !took(json!("ok"), "denied"));
    assert!(took(json!("error"), "denied") && !took(json!({"error": true}), "ok 0 errors"));
    assert!(took(json!({"error": false}), "ok"));
    assert!(
        took(json!({"status": "in_doubt"}), "in_doubt")
            && !took(json!({"status": "error"}), "in_doubt")
    );
    assert!(took(json!({"exit": 3}), "3") && !took(json!({"exit": 3}), "error"));
    assert!(
        took(json!({"contains": "warn"}), "0 a warning")
            && !took(json!({"contains": "Warn"}), "0 a warning")
    );
    assert!(took(json!({"empty": true}), "0  \n") && took(json!({"empty": false}), "0 x"));
    assert!(
        took(json!({"and": ["ok", {"contains": "x"}]}), "0 x")
            && !took(json!({"and": ["ok", {"contains": "x"}]}), "1 x")
    );
    assert!(
        took(json!({"or": [{"exit": 1}, {"exit": 2}]}), "2")
            && !took(json!({"or": [{"exit": 1}]}), "2")
    );
    assert!(took(json!({"not": {"exit": 1}}), "2"));
}

#[test]
fn entry_and_exit_calls_are_made_in_order_and_may_fail_only_if_told() {
    let config = |on_error: &str| {
        json!({"initial": "a", "states": {
            "a": {
                "on_entry": [call("in 1"), call("in 2")],
                "action": call("work"),
                "on_exit": [{"tool": "shell", "parameters": {"command": "out"}, "on_error": on_error}],
                "transitions": [{"to": "b"}],
            },
            "b": {"terminal": true, "on_entry": [call("last")]},
        }})
    };
    insta::assert_snapshot!(check(config("skip"), &["ok", "ok", "1", "1", "ok"]), @r#"
    act a/on_entry[0] -> ok
    act a/on_entry[1] -> ok
    act a -> error
    act a/on_exit[0] -> error
    act b/on_entry[0] -> ok
    claim: the state machine ended in the state "b"
    "#);
    insta::assert_snapshot!(check(config("fail"), &["ok", "ok", "ok", "1 no"]), @r#"
    act a/on_entry[0] -> ok
    act a/on_entry[1] -> ok
    act a -> ok
    act a/on_exit[0] -> error
    give up: state "a/on_exit[0]" (shell) failed: error, exit code 1: no
    "#);
}

#[test]
fn branches_run_at_once_and_are_joined() {
    let config = |join: &str| {
        json!({"initial": "both", "states": {
            "both": {
                "parallel": [
                    {"name": "left", "tool": "shell", "parameters": {"command": "l"}},
                    {"name": "right", "tool": "shell", "parameters": {"command": "r"}},
                ],
                "join": join,
                "transitions": [{"to": "done", "when": "ok"}, {"to": "bad"}],
            },
            "done": {"terminal": true},
            "bad": {"terminal": true, "outcome": "failed"},
        }})
    };
    insta::assert_snapshot!(check(config("all"), &["ok", "1"]), @r#"
    act both/left + both/right -> ok -> error
    give up: the state machine ended in the failed state "bad"
    "#);
    insta::assert_snapshot!(check(config("any"), &["ok", "1"]), @r#"
    act both/left + both/right -> ok -> error
    claim: the state machine ended in the state "done"
    "#);
}

#[test]
fn a_branch_that_was_not_begun_is_begun_after_the_note_and_the_others_keep_what_came_of_them() {
    let branch =
        |name: &str| json!({"name": name, "tool": "shell", "parameters": {"command": "x"}});
    let config = json!({"initial": "all", "max_steps": 3, "states": {
        "all": {
            "parallel": [branch("a"), branch("b"), branch("c")],
            "transitions": [
                {"to": "done", "when": "ok"},
                {"to": "bad"},
            ],
        },
        "done": {"terminal": true},
        "bad": {"terminal": true, "outcome": "failed"},
    }});
    insta::assert_snapshot!(check(config.clone(), &["ok", "skipped", "skipped", "skipped", "ok", "ok"]), @r#"
    act all/a + all/b + all/c -> ok -> skipped -> skipped
    act all/b + all/c -> skipped -> ok
    act all/b -> ok
    claim: the state machine ended in the state "done"
    "#);
    insta::assert_snapshot!(check(config.clone(), &["ok", "1", "skipped", "ok"]), @r#"
    act all/a + all/b + all/c -> ok -> error -> skipped
    act all/c -> ok
    give up: the state machine ended in the failed state "bad"
    "#);
    let log = check(config, &["skipped"; 999]);
    assert!(
        log.ends_with("give up: the state machine ended in the failed state \"bad\"\n"),
        "{log}"
    );
}

#[test]
fn a_machine_inside_a_state_runs_to_its_end() {
    let inner = json!({"initial": "try", "states": {
        "try": {"action": call("try"), "transitions": [{"to": "good", "when": "ok"}, {"to": "bad"}]},
        "good": {"terminal": true},
        "bad": {"terminal": true, "outcome": "failed"},
    }});
    let config = json!({"initial": "outer", "states": {
        "outer": {"machine": inner, "transitions": [
            {"to": "done", "when": {"ok": true, "contains": "good"}},
            {"to": "outer", "when": "error", "max": 1},
        ]},
        "done": {"terminal": true},
    }});
    insta::assert_snapshot!(check(config.clone(), &["1", "ok"]), @r#"
    act outer/try -> error
    act outer/try -> ok
    claim: the state machine ended in the state "done"
    "#);
    insta::assert_snapshot!(check(config, &["1", "1"]), @"
    act outer/try -> error
    act outer/try -> error
    stuck: the transition outer -> outer was taken 1 times, which is its limit
    ");
}

#[test]
fn a_circle_that_does_nothing_ends() {
    let config = json!({"initial": "a", "states": {
        "a": {"transitions": [{"to": "end", "when": "error"}, {"to": "a", "max": 1_000_000_000_000u64}]},
        "end": {"terminal": true},
    }});
    let mut rig = Rig::new(&StateMachineKind, config, true);
    assert!(matches!(rig.decide(), Decision::GiveUp { stuck: true, .. }), "{}", rig.log);
}

#[test]
fn max_steps_counts_calls() {
    let mut config = repair(json!("error"));
    config["max_steps"] = json!(3);
    config["name"] = json!("m");
    insta::assert_snapshot!(check(config, &["1", "ok", "1", "ok"]), @r#"
    act test -> error
    act fix -> ok
    act test -> error
    stuck: max_steps = 3 is reached before "fix"
    "#);
}

#[test]
fn a_wrong_machine_is_refused_with_the_reason() {
    let end = json!({"terminal": true});
    insta::assert_snapshot!(wrong(json!({"initial": "zzz", "states": {"a": end}})), @r#"initial: there is no state "zzz"; there are a"#);
    insta::assert_snapshot!(wrong(json!({"initial": "a", "states": {"a": end, "b": end}})), @r#"
    states.b: state "b" cannot be reached from "a"; remove it, or add a transition to it
    "#);
    insta::assert_snapshot!(wrong(json!({"initial": "a", "states": {"a": {}}})), @r#"states.a: state "a" has neither action nor transitions and is not terminal; add transitions, or terminal = true"#);
    insta::assert_snapshot!(wrong(json!({"initial": "a", "states": {"a": {"action": call("x")}}})), @r#"states.a: state "a" has no transitions: it could never be left; add transitions, or terminal = true"#);
    insta::assert_snapshot!(wrong(json!({"initial": "a", "states": {"a": {"transitions": [{"to": "a"}]}}})), @r#"
    states.a: no way leads from state "a" to a terminal state; add a transition, or terminal = true
    "#);
    insta::assert_snapshot!(
        wrong(json!({"initial": "a", "states": {"a": {"transitions": [{"to": "b", "when": {"has_errors": true}}]}, "b": end}})),
        @r#"states.a.transitions[0].when.has_errors: unknown condition "has_errors"; expected ok, error, status, exit, contains, empty, count, and, or, not"#);
    insta::assert_snapshot!(
        wrong(json!({"initial": "a", "states": {"a": {"transitions": [{"to": "b"}, {"to": "b"}]}, "b": end}})), @"
        states.a.transitions[1]: this transition is never taken: the one before it has no condition; put it first, or give the other a condition
        ");
    insta::assert_snapshot!(wrong(json!({"states": [{"name": "a", "terminal": true}, {"name": "a", "terminal": true}]})), @r#"
    states[1]: there are two states named "a"; give each a name of its own
    "#);
    insta::assert_snapshot!(wrong(json!({"initial": "a", "states": {"a": {"terminal": true, "action": call("x")}}})), @r#"states.a.action: the terminal state "a" does nothing itself; put it in on_entry"#);
    let deep = (0..20).fold(json!({"initial": "a", "states": {"a": end}}), |inner, _| {
        json!({"initial": "a", "states": {"a": {"machine": inner, "transitions": [{"to": "z"}]}, "z": end}})
    });
    assert!(wrong(deep).contains("nested at most 8 deep"));
}

#[test]
fn a_saved_place_that_does_not_exist_is_refused() {
    let load =
        |state: Value| StateMachineKind.load(&repair(json!("error")), &state, &Registry::default());
    assert!(load(json!({"frames": []})).is_err());
    assert!(load(json!({"frames": [{"state": 9, "stage": "work"}]})).is_err());
    assert!(
        load(json!({"frames": [{"state": 0, "stage": {"exit": {"hook": 0, "way": 9}}}]})).is_err()
    );
    assert!(
        load(json!({"frames": [{"state": 0, "stage": "work"}, {"state": 0, "stage": "work"}]}))
            .is_err()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]
    #[test]
    fn any_machine_ends_and_survives_reloads(
        ways in prop::collection::vec(prop::collection::vec((0..6usize, 0..4usize, 0..5u64), 0..4), 1..5),
        works in prop::collection::vec(0..4usize, 5),
        picks in prop::collection::vec(0..7usize, 1..30),
    ) {
        let count = ways.len();
        let mut states = serde_json::Map::new();
        states.insert("end".to_owned(), json!({"terminal": true}));
        for (index, ways) in ways.iter().enumerate() {
            let mut transitions: Vec<Value> = ways.iter().map(|(to, when, max)| {
                let when = match when {
                    0 => json!("ok"),
                    1 => json!({"exit": 3}),
                    2 => json!({"contains": "text"}),
                    _ => json!({"count": {"less_than": 3}}),
                };
                json!({"to": format!("s{}", to % count), "when": when, "max": max})
            }).collect();
            transitions.push(json!({"to": "end", "when": {"status": "denied"}}));
            if index + 1 < count {
                transitions.push(json!({"to": format!("s{}", index + 1)}));
            }
            let mut state = json!({"transitions": transitions});
            match works[index] {
                0 => {}
                1 => state["action"] = call("x"),
                2 => {
                    state["parallel"] = json!([{"name": "l", "tool": "glob", "parameters": {"pattern": "*"}}, {"name": "r", "tool": "read", "parameters": {"path": "x"}}]);
                    state["on_exit"] = json!([{"tool": "shell", "parameters": {"command": "x"}, "on_error": "skip"}]);
                }
                _ => state["machine"] = json!({"initial": "i", "states": {
                    "i": {"action": call("i"), "transitions": [{"to": "i", "when": "error", "max": 2}, {"to": "e"}]},
                    "e": {"terminal": true},
                }}),
            }
            states.insert(format!("s{index}"), state);
        }
        ends_and_survives_reloads(&StateMachineKind, &json!({"initial": "s0", "states": states}), &picks);
    }
}
