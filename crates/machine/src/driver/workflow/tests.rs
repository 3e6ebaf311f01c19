//! Workflows as scripts: results in, decisions out. The rig serves the state machine's tests too.

mod groups;
mod language;
mod people;
pub(crate) mod play;
mod tasks;
mod work;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::driver::{Note, NoteKind};
use crate::id::CallId;
use crate::time::Timestamp;
use crate::tool::ToolResult;

/// A driver under test. With `reload` it is saved and loaded again between any two calls.
pub(crate) struct Rig {
    kind: &'static dyn DriverKind,
    config: Value,
    driver: Box<dyn Driver>,
    reload: bool,
    /// What happened, a line each.
    pub(crate) log: String,
}

const SITUATION: Situation<'static> =
    Situation { goal: "test", criteria: &[], now: Timestamp(0), turns: 0, path: &[7], tools: &[] };

impl Rig {
    pub(crate) fn new(kind: &'static dyn DriverKind, config: Value, reload: bool) -> Rig {
        let driver = kind.create(&config, &Registry::default()).unwrap();
        Rig { kind, config, driver, reload, log: String::new() }
    }

    fn between(&mut self) {
        if self.reload {
            let saved = self.driver.save().to_string();
            let state: Value = serde_json::from_str(&saved).unwrap();
            self.driver = self.kind.load(&self.config, &state, &Registry::default()).unwrap();
            assert_eq!(self.driver.save().to_string(), saved);
        }
    }

    pub(crate) fn decide(&mut self) -> Decision {
        self.between();
        let decision = self.driver.decide(&SITUATION);
        self.log.push_str(&match &decision {
            Decision::Act(actions) => {
                assert!(actions.iter().all(|action| action.path == [7]
                    && action.author == crate::policy::permission::Author::Operator));
                let labels: Vec<&str> =
                    actions.iter().map(|action| action.label.as_str()).collect();
                format!("act {}", labels.join(" + "))
            }
            Decision::Claim { summary } => format!("claim: {summary}\n"),
            Decision::GiveUp { reason, stuck } => {
                format!("{}: {reason}\n", if *stuck { "stuck" } else { "give up" })
            }
            other => format!("{other:?}\n"),
        });
        decision
    }

    pub(crate) fn observe(&mut self, fact: &Fact<'_>) {
        self.between();
        self.driver.observe(&SITUATION, fact);
    }

    /// Decides until there is nothing to do, giving each action the next of the results.
    pub(crate) fn run(&mut self, results: &mut dyn Iterator<Item = ToolResult>) -> Decision {
        loop {
            let decision = self.decide();
            let Decision::Act(actions) = &decision else { return decision };
            for action in actions {
                let Some(result) = results.next() else {
                    self.log.push_str(" …\n");
                    return decision;
                };
                self.log.push_str(&format!(" -> {}", result.status.word()));
                self.observe(&Fact::Result { call: CallId(1), action, result: &result });
            }
            self.log.push('\n');
        }
    }

    pub(crate) fn saved(&self) -> Value {
        self.driver.save()
    }
}

/// Results in short: `ok`, `3` (an exit code), a status, each with output after a space.
pub(crate) fn result(short: &str) -> ToolResult {
    let (word, text) = short.split_once(' ').unwrap_or((short, ""));
    if let Ok(code) = word.parse() {
        let status = if code == 0 { Status::Ok } else { Status::Error };
        return ToolResult { exit: Some(code), ..ToolResult::ended(status, text) };
    }
    let status: Status = serde_json::from_value(json!(word)).unwrap();
    ToolResult::ended(status, text)
}

pub(crate) fn play(kind: &'static dyn DriverKind, config: Value, results: &[&str]) -> String {
    let logs = [false, true].map(|reload| {
        let mut rig = Rig::new(kind, config.clone(), reload);
        rig.run(&mut results.iter().copied().map(result));
        rig.log
    });
    assert_eq!(logs[0], logs[1], "saving and loading changes nothing");
    logs[0].clone()
}

fn step(name: &str, rest: Value) -> Value {
    let mut step =
        json!({"name": name, "tool": "shell", "parameters": {"command": format!("run {name}")}});
    step.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    step
}

fn check(steps: Vec<Value>, results: &[&str]) -> String {
    play(&WorkflowKind, json!({"name": "w", "steps": steps}), results)
}

#[test]
fn steps_run_in_order_and_then_the_workflow_claims() {
    insta::assert_snapshot!(check(vec![step("one", json!({})), step("two", json!({}))], &["ok", "ok"]), @"
    act one -> ok
    act two -> ok
    claim: workflow w: 2 steps done
    ");
}

#[test]
fn a_failed_step_gives_up_with_status_exit_code_and_the_end_of_the_output() {
    insta::assert_snapshot!(check(vec![step("one", json!({}))], &["3 line 1\nline 2"]), @r#"
    act one -> error
    give up: step "one" (shell) failed: error, exit code 3: line 1
    line 2
    "#);
    let long: String = (0..100).map(|line| format!("line {line}\n")).collect();
    let log = check(vec![step("one", json!({}))], &[&format!("1 {long}")]);
    assert!(
        log.contains("…line 88") && log.contains("line 99") && !log.contains("line 87"),
        "{log}"
    );
}

#[test]
fn whatever_is_not_ok_counts_as_a_failure() {
    for status in ["error", "denied", "aborted", "timed_out", "in_doubt"] {
        let log = check(vec![step("one", json!({}))], &[status]);
        assert!(log.contains(&format!("give up: step \"one\" (shell) failed: {status}")), "{log}");
    }
}

#[test]
fn a_call_that_was_put_off_is_made_again_but_not_forever() {
    let log = check(vec![step("one", json!({}))], &["skipped", "skipped", "ok"]);
    assert!(log.ends_with("claim: workflow w: 1 step done\n"), "{log}");
    let log = check(vec![step("one", json!({}))], &["skipped"; 200]);
    assert_eq!(log.lines().count(), 102, "{log}");
    assert!(log.contains("give up"), "{log}");
}

#[test]
fn a_skipped_failure_goes_on_and_is_told_in_the_end() {
    let steps = vec![step("one", json!({"on_error": "skip"})), step("two", json!({}))];
    insta::assert_snapshot!(check(steps, &["1", "ok"]), @"
    act one -> error
    act two -> ok
    claim: workflow w: 2 steps done, 1 failed on the way
    ");
}

#[test]
fn edge_case_42_retries_are_counted_and_end_in_the_declared_branch() {
    let retry = |rest: Value| {
        let mut keys = json!({"on_error": "retry", "max_retries": 2});
        keys.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        vec![step("one", keys), step("two", json!({}))]
    };
    insta::assert_snapshot!(check(retry(json!({})), &["1", "1", "1"]), @r#"
    act one -> error
    act one -> error
    act one -> error
    give up: step "one" (shell) failed: error, exit code 1 (after 2 retries)
    "#);
    insta::assert_snapshot!(check(retry(json!({})), &["1", "1", "ok", "ok"]), @"
    act one -> error
    act one -> error
    act one -> ok
    act two -> ok
    claim: workflow w: 2 steps done
    ");
    insta::assert_snapshot!(check(retry(json!({"on_exhausted": "skip"})), &["1", "1", "1", "ok"]), @"
    act one -> error
    act one -> error
    act one -> error
    act two -> ok
    claim: workflow w: 2 steps done, 1 failed on the way
    ");
    let default = vec![step("one", json!({"on_error": "retry"}))];
    assert_eq!(check(default, &["1"; 9]).lines().count(), 5);
}

#[test]
fn edge_case_22_a_goto_repairs_and_stops_with_a_named_edge() {
    let goto =
        |target: &str| json!({"on_error": {"action": "goto", "target": target}, "max_retries": 2});
    let steps = || vec![step("fix", json!({})), step("test", goto("fix"))];
    insta::assert_snapshot!(check(steps(), &["ok", "1", "ok", "ok"]), @"
    act fix -> ok
    act test -> error
    act fix -> ok
    act test -> ok
    claim: workflow w: 2 steps done, 1 failed on the way
    ");
    insta::assert_snapshot!(check(steps(), &["ok", "1", "ok", "1", "ok", "1 still broken"]), @r#"
    act fix -> ok
    act test -> error
    act fix -> ok
    act test -> error
    act fix -> ok
    act test -> error
    stuck: the goto test -> fix was taken 2 times; the last time, step "test" (shell) failed: error, exit code 1: still broken
    "#);
}

#[test]
fn two_gotos_in_a_circle_end_after_their_defaults() {
    let goto = |target: &str| json!({"on_error": {"action": "goto", "target": target}});
    let log = check(vec![step("a", goto("b")), step("b", goto("a"))], &["1"; 100]);
    assert_eq!(log.lines().count(), 22);
    assert!(log.contains("stuck: the goto a -> b was taken 10 times"), "{log}");
}

#[test]
fn max_steps_counts_repeats_too() {
    let config = json!({"steps": [step("one", json!({"on_error": "retry", "max_retries": 9}))], "max_steps": 2});
    insta::assert_snapshot!(play(&WorkflowKind, config, &["1"; 9]), @r#"
    act one -> error
    act one -> error
    stuck: max_steps = 2 is reached before step "one"
    "#);
}

#[test]
fn a_failed_verdict_ends_it_and_notes_are_ignored() {
    let mut rig = Rig::new(&WorkflowKind, json!({"steps": [step("one", json!({}))]}), true);
    rig.observe(&Fact::Note(&Note { kind: NoteKind::Steer, text: "hurry".to_owned() }));
    rig.run(&mut [result("ok")].into_iter());
    let failed = [
        CriterionResult {
            title: "shell: true".to_owned(),
            passed: true,
            exit: Some(0),
            evidence: String::new(),
            millis: 1,
            ..CriterionResult::default()
        },
        CriterionResult {
            title: "shell: make".to_owned(),
            passed: false,
            exit: Some(2),
            evidence: "no rule".to_owned(),
            millis: 1,
            ..CriterionResult::default()
        },
    ];
    rig.observe(&Fact::VerdictFailed(&failed));
    rig.decide();
    insta::assert_snapshot!(rig.log, @"
    act one -> ok
    claim: the workflow: 1 step done
    give up: the workflow is finished, but acceptance failed: shell: make (exit code 2): no rule
    ");
}

#[test]
fn ten_thousand_steps_are_remembered_in_a_few_bytes() {
    let steps: Vec<Value> =
        (0..10_000).map(|index| step(&format!("s{index}"), json!({}))).collect();
    let mut rig = Rig::new(&WorkflowKind, json!({"steps": steps}), false);
    rig.run(&mut std::iter::repeat_with(|| ToolResult::ok("x".repeat(100))).take(9_999));
    assert!(rig.saved().to_string().len() < 120, "{}", rig.saved());
    assert_eq!(rig.saved()["flow"]["row"]["at"], 9_999);
}

#[test]
fn a_wrong_configuration_names_the_key() {
    let wrong = |config: Value| WorkflowKind.create(&config, &Registry::default()).unwrap_err();
    insta::assert_snapshot!(wrong(json!({"steps": [{"name": "a", "tool": "shel"}]})), @r#"steps[0].tool: there is no tool "shel"; did you mean "shell"?"#);
    insta::assert_snapshot!(wrong(json!({"workflow": "count"})), @r#"the workflow "count" has not been looked up"#);
    insta::assert_snapshot!(wrong(json!({"steps": [step("a", json!({"on_error": {"action": "goto", "target": "b"}}))]})), @r#"
    steps[0].on_error.target: there is no step "b"; there are a
    "#);
    insta::assert_snapshot!(wrong(json!({"steps": [{"name": "a", "tol": "shell"}]})), @r#"steps[0].tol: unknown key "tol" in a step; did you mean "tool"?"#);
    assert!(wrong(json!(null)).contains("expected a table"));
    assert!(wrong(json!({})).contains("\"steps\" is missing"));
    let saved = json!({"at": 5});
    assert!(
        WorkflowKind
            .load(&json!({"steps": [step("a", json!({}))]}), &saved, &Registry::default())
            .is_err()
    );
}

const STATUSES: [&str; 7] = ["ok", "ok", "1", "3 text", "denied", "timed_out", "skipped"];

/// Any results, for ever: with saving and loading between any two calls and without, the same things happen,
/// and they come to an end.
pub(crate) fn ends_and_survives_reloads(
    kind: &'static dyn DriverKind,
    config: &Value,
    picks: &[usize],
) {
    let logs = [false, true].map(|reload| {
        let mut rig = Rig::new(kind, config.clone(), reload);
        let mut results = picks.iter().cycle().take(20_000).map(|pick| result(STATUSES[*pick]));
        let last = rig.run(&mut results);
        assert!(!matches!(last, Decision::Act(_)), "it does not end");
        rig.log
    });
    assert_eq!(logs[0], logs[1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]
    #[test]
    fn any_workflow_ends_and_survives_reloads(
        answers in prop::collection::vec((0..5usize, 0..6usize, 0..4u64), 1..6),
        picks in prop::collection::vec(0..STATUSES.len(), 1..30),
    ) {
        let count = answers.len();
        let steps: Vec<Value> = answers.iter().enumerate().map(|(index, (answer, target, most))| {
            let target = json!({"action": "goto", "target": format!("s{}", target % count)});
            step(&format!("s{index}"), match answer {
                0 => json!({}),
                1 => json!({"on_error": "skip"}),
                2 => json!({"on_error": "retry", "max_retries": most}),
                3 => json!({"on_error": "retry", "max_retries": most, "on_exhausted": target}),
                _ => json!({"on_error": target, "max_retries": most}),
            })
        }).collect();
        ends_and_survives_reloads(&WorkflowKind, &json!({"steps": steps}), &picks);
    }
}
