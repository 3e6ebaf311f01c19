//! Every key of the language: what it changes, and that the middle of anything can be saved and loaded.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::child::step::{ChildEnd, TaskOrder};
use crate::driver::workflow::WorkflowKind;
use crate::driver::workflow::tests::result;
use crate::driver::{
    Action, Consultation, Decision, Driver, DriverKind, Fact, Registry, Situation, Wait,
};
use crate::id::{CallId, TaskId};
use crate::message::{Block, Message, Part, Reply, Role, StopReason, Usage};
use crate::task::Criterion;
use crate::time::Timestamp;

/// Plays a workflow: results by the label of the step, answers of models and people in order. With `reload` it is
/// saved and loaded between any two calls.
struct Play {
    config: Value,
    driver: Box<dyn Driver>,
    reload: bool,
    now: Timestamp,
    results: BTreeMap<String, VecDeque<String>>,
    answers: VecDeque<String>,
    told: VecDeque<String>,
    tasks: VecDeque<String>,
    /// Whether actions end in the reverse order.
    reversed: bool,
    log: String,
}

impl Play {
    fn new(config: &Value, reload: bool) -> Play {
        let driver = WorkflowKind.create(config, &Registry::builtin()).unwrap();
        Play {
            config: config.clone(),
            driver,
            reload,
            now: Timestamp(1_000_000),
            results: BTreeMap::new(),
            answers: VecDeque::new(),
            told: VecDeque::new(),
            tasks: VecDeque::new(),
            reversed: false,
            log: String::new(),
        }
    }

    fn between(&mut self) {
        if self.reload {
            let saved = self.driver.save().to_string();
            let state: Value = serde_json::from_str(&saved).unwrap();
            self.driver = WorkflowKind.load(&self.config, &state, &Registry::builtin()).unwrap();
            assert_eq!(self.driver.save().to_string(), saved);
        }
    }

    fn situation(&self) -> Situation<'static> {
        Situation {
            goal: "the goal",
            criteria: &[],
            now: self.now,
            turns: 7,
            path: &[7],
            tools: &[],
        }
    }

    fn decide(&mut self) -> Decision {
        self.between();
        let situation = self.situation();
        self.driver.decide(&situation)
    }

    fn observe(&mut self, fact: &Fact<'_>) {
        self.between();
        let situation = self.situation();
        self.driver.observe(&situation, fact);
    }

    fn note(&mut self, line: String) {
        self.log.push_str(&line);
        self.log.push('\n');
    }

    fn run(&mut self) {
        let mut under_way: VecDeque<(u64, Action)> = VecDeque::new();
        let mut calls = 0;
        for _ in 0..5_000 {
            let decision = self.decide();
            match decision {
                Decision::Act(actions) => {
                    let shown: Vec<String> = actions
                        .iter()
                        .map(|action| format!("{} {}", action.label, words(&action.input)))
                        .collect();
                    self.note(format!("act {}", shown.join(" + ")));
                    for action in actions {
                        calls += 1;
                        under_way.push_back((calls, action));
                    }
                }
                Decision::Wait(Wait::Results) => {
                    assert!(!under_way.is_empty(), "waits for nothing")
                }
                Decision::Wait(Wait::Until { at, .. }) => {
                    self.note(format!("until +{}", at.since(self.now)));
                    self.now = at;
                    continue;
                }
                Decision::Wait(Wait::Person { prompt, until }) => {
                    assert!(under_way.is_empty(), "a person is asked when nothing is under way");
                    let end = until.map(|at| format!(" until +{}", at.since(self.now)));
                    self.note(format!("person: {prompt}{}", end.unwrap_or_default()));
                    match (self.told.pop_front().filter(|line| line != "…"), until) {
                        (Some(line), _) => self.observe(&Fact::Told(&line)),
                        (None, Some(at)) => self.now = at,
                        (None, None) => return,
                    }
                    continue;
                }
                Decision::Consult(Consultation::Model(call)) => {
                    assert!(under_way.is_empty(), "a model is asked when nothing is under way");
                    let said =
                        call.messages.last().map(|message| message.text()).unwrap_or_default();
                    let system = if call.system.is_empty() {
                        String::new()
                    } else {
                        format!(" [{}]", call.system)
                    };
                    let heat =
                        call.temperature.map(|heat| format!(" at {heat}")).unwrap_or_default();
                    let bound = if call.schema.is_some() { " bound" } else { "" };
                    self.note(format!(
                        "model {}{heat}{bound}{system}: {}",
                        call.model,
                        said.replace('\n', "\\n")
                    ));
                    let Some(answer) = self.answers.pop_front() else { return };
                    self.observe(&Fact::Replied(Ok(&reply(&answer))));
                    continue;
                }
                Decision::Consult(Consultation::Task(order)) => {
                    assert!(under_way.is_empty(), "a task begins when nothing is under way");
                    self.note(format!("task {}", in_short(&order)));
                    let Some(end) = self.tasks.pop_front() else { return };
                    let id = order.id(&TaskId("p".to_owned()));
                    self.observe(&Fact::ChildEnded(&child_end(id, &end)));
                    continue;
                }
                Decision::Consult(Consultation::Agent(call)) => {
                    return self.note(format!("agent {call:?}"));
                }
                Decision::Consult(other @ Consultation::Plugin(_)) => panic!("{other:?}"),
                Decision::Claim { summary } => {
                    let situation = self.situation();
                    let outputs = self.driver.outputs(&situation).map(|value| format!(" {value}"));
                    return self.note(format!("claim: {summary}{}", outputs.unwrap_or_default()));
                }
                Decision::GiveUp { reason, stuck } => {
                    let word = if stuck { "stuck" } else { "give up" };
                    return self.note(format!("{word}: {reason}"));
                }
            }
            loop {
                let next = if self.reversed { under_way.pop_back() } else { under_way.pop_front() };
                let Some((call, action)) = next else { break };
                let given = self.results.get_mut(&action.label).and_then(VecDeque::pop_front);
                let result = result(given.as_deref().unwrap_or("ok"));
                self.observe(&Fact::Result {
                    call: CallId(call),
                    action: &action,
                    result: &result,
                });
                if self.driver.eager() {
                    break;
                }
            }
        }
        panic!("it does not end:\n{}", self.log);
    }
}

fn words(input: &Value) -> String {
    let texts: Vec<String> = input
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, value)| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    format!("({})", texts.join(", ").replace('\n', "\\n"))
}

fn reply(text: &str) -> Reply {
    let block = Block { part: Part::Text { text: text.to_owned() }, native: None };
    Reply {
        id: String::new(),
        model: String::new(),
        message: Message { role: Role::Assistant, blocks: vec![block] },
        stop: StopReason::EndTurn,
        usage: Usage::default(),
    }
}

/// A task that a step asks for, in a line.
fn in_short(order: &TaskOrder) -> String {
    let TaskOrder { number, goal, driver, budget, acceptance, .. } = order;
    let checks: Vec<String> = acceptance.iter().map(Criterion::title).collect();
    let budget = serde_json::to_value(budget).unwrap();
    format!(
        "{number} {goal:?} by {} {} {budget} [{}]",
        driver.name,
        driver.config,
        checks.join(", ")
    )
}

/// The end of a task: `OUTCOME WORDS`, with `{…}` for its outputs.
fn child_end(child: TaskId, end: &str) -> ChildEnd {
    let (outcome, text) = end.split_once(' ').unwrap_or((end, ""));
    let ended = Some(serde_json::from_value(json!(outcome)).unwrap());
    let outputs = serde_json::from_str(text).ok();
    ChildEnd { ended, outputs, ..ChildEnd::put_down(child, text.to_owned()) }
}

/// What happens, with and without reloads, which must be the same. `script` has lines `LABEL: RESULT`, `model: TEXT`,
/// `task: OUTCOME WORDS` and `person: LINE` (`…` for nobody).
pub(crate) fn play(config: &Value, script: &[&str]) -> String {
    let logs = [false, true].map(|reload| {
        let mut play = Play::new(config, reload);
        for line in script {
            let (who, what) = line.split_once(": ").unwrap();
            match who {
                "model" => play.answers.push_back(what.to_owned()),
                "person" => play.told.push_back(what.to_owned()),
                "task" => play.tasks.push_back(what.to_owned()),
                label => {
                    play.results.entry(label.to_owned()).or_default().push_back(what.to_owned())
                }
            }
        }
        play.run();
        play.log
    });
    assert_eq!(logs[0], logs[1], "saving and loading changes nothing");
    logs[0].clone()
}

pub(super) fn sh(name: &str, command: &str, rest: Value) -> Value {
    let mut step = json!({"name": name, "tool": "shell", "parameters": {"command": command}});
    step.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    step
}

pub(super) fn steps(list: &[Value]) -> Value {
    json!({"name": "w", "steps": list})
}

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
    #![proptest_config(ProptestConfig::with_cases(48))]
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
