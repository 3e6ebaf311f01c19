//! Steps that ask a person: what is said, and until when it is waited for.

use serde_json::{Value, json};

use super::play::{play, sh, steps};

#[test]
fn a_person_is_asked_and_may_be_late() {
    let config = steps(&[
        json!({"name": "which", "ask": "Which of {{ goal }}?", "choices": ["red", "blue"]}),
        json!({"name": "sure", "approve": "Paint it {{ steps.which.text }}?"}),
        sh("paint", "{{ steps.which.text }}", json!({})),
    ]);
    insta::assert_snapshot!(play(&config, &["person: green", "person: Blue", "person: yes"]), @r#"
    person: Which of the goal? (red / blue)
    person: "green" is none of them: one of red, blue is expected
    Which of the goal? (red / blue)
    person: Paint it blue? (yes / no)
    act paint (blue)
    claim: workflow w: 3 steps done
    "#);
    insta::assert_snapshot!(play(&config, &["person: red", "person: no"]), @r#"
    person: Which of the goal? (red / blue)
    person: Paint it red? (yes / no)
    give up: step "sure": a person said no
    "#);
    let late = |rest: Value| {
        let mut ask = json!({"name": "sure", "approve": "Go?", "timeout": "5m"});
        ask.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        play(&steps(&[ask, sh("b", "{{ steps.sure.status }}", json!({}))]), &["person: …"])
    };
    insta::assert_snapshot!(late(json!({})), @r#"
    person: Go? (yes / no) until +5m
    give up: step "sure": nobody answered in time
    "#);
    assert!(late(json!({"on_timeout": "skip"})).contains("act b (timed_out)"));
    assert!(late(json!({"on_timeout": "deny", "on_error": "skip"})).contains("act b (denied)"));
    assert!(
        late(json!({"on_timeout": {"action": "goto", "target": "b"}}))
            .contains("act b (timed_out)")
    );
}

#[test]
fn the_time_of_a_person_begins_when_the_question_is_put() {
    let ask = |name: &str| {
        let asked = format!("{name}?");
        json!([{"name": name, "approve": asked, "timeout": "5m", "on_timeout": "skip"}])
    };
    let config = steps(&[json!({"name": "p", "parallel": {"a": ask("a"), "b": ask("b")}})]);
    insta::assert_snapshot!(play(&config, &["person: …", "person: …"]), @"
    person: a? (yes / no) until +5m
    person: b? (yes / no) until +5m
    claim: workflow w: 1 step done, 2 failed on the way
    ");
    let timed = json!({"name": "p", "parallel": {"a": ask("a"), "b": ask("b")}, "timeout": "7m"});
    insta::assert_snapshot!(play(&steps(&[timed]), &["person: …", "person: yes"]), @"
    person: a? (yes / no) until +5m
    person: b? (yes / no) until +2m
    claim: workflow w: 1 step done, 1 failed on the way
    ");
}

#[test]
fn a_driver_of_a_step_waits_for_a_person_no_longer_than_it_says() {
    let inner = json!([
        {"name": "which", "ask": "Which?", "timeout": "5m", "on_timeout": "skip"},
        sh("b", "{{ steps.which.status }}", json!({})),
    ]);
    let config =
        steps(&[json!({"name": "d", "driver": "workflow", "driver_config": {"steps": inner}})]);
    insta::assert_snapshot!(play(&config, &["person: …"]), @"
    person: Which? until +5m
    act b (timed_out)
    claim: workflow w: 1 step done
    ");
}

#[test]
fn a_driver_of_a_step_waits_for_a_person_no_longer_than_what_is_around_it() {
    let work = json!([{"name": "d", "driver": "user"}]);
    for around in
        [json!({"parallel": {"a": work.clone()}}), json!({"foreach": "[1]", "steps": work.clone()})]
    {
        let mut group = around;
        group["name"] = json!("g");
        group["timeout"] = json!("7m");
        group["on_error"] = json!("skip");
        let log =
            play(&steps(&[group, sh("b", "{{ steps.g.status }}", json!({}))]), &["person: …"]);
        assert!(log.contains("act b (timed_out)"), "{log}");
    }
}

#[test]
fn the_time_of_a_person_inside_of_a_drivers_step_begins_when_the_question_is_put() {
    let ask =
        |name: &str| json!({"name": name, "ask": name, "timeout": "5m", "on_timeout": "skip"});
    let inner = |step: Value| json!({"driver": "workflow", "driver_config": {"steps": [step]}});
    let named = |name: &str, mut step: Value| {
        step["name"] = json!(name);
        step
    };
    let branches = json!({"a": [ask("a")], "b": [named("d", inner(ask("b")))]});
    let config = steps(&[json!({"name": "p", "parallel": branches})]);
    insta::assert_snapshot!(play(&config, &["person: …", "person: …"]), @"
    person: a until +5m
    person: b until +5m
    claim: workflow w: 1 step done, 1 failed on the way
    ");
    let race = |first: Value| {
        let drivers = json!([inner(first), inner(ask("b"))]);
        steps(&[json!({"name": "r", "driver": "race", "driver_config": {"drivers": drivers}})])
    };
    let waits = sh("c", "x", json!({"on_error": "retry", "max_retries": 1, "backoff": "9m"}));
    insta::assert_snapshot!(play(&race(waits), &["c: 1", "c: 1", "person: …"]), @"
    act c (x)
    until +9m
    act c (x)
    person: b until +5m
    claim: workflow w: 1 step done
    ");
}
