//! Composites against a small loop that keeps the driver's contract: scenarios as transcripts, and the law
//! that saving and loading between any two calls changes nothing.

use std::collections::VecDeque;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::driver::{Consultation, NoteKind};
use crate::id::{EffectId, TaskId};
use crate::policy::permission::Author;
use crate::task::{Outcome, Workspace, WorkspaceKind};
use crate::time::Timestamp;
use crate::{Command, Effect, EventKind, Input, Signal, Stamped, State, step};

/// A driver that makes the moves it was given, in order, and insists on the contract.
#[derive(Debug)]
struct ScriptKind;

#[derive(Debug, Serialize, Deserialize)]
struct Script {
    moves: Vec<String>,
    eager: bool,
    at: usize,
    open: u32,
    last_call: u64,
    heard: Vec<String>,
}

impl DriverKind for ScriptKind {
    fn name(&self) -> &str {
        "script"
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        let moves = config["moves"].as_array().ok_or("moves: expected a list")?;
        let moves = moves.iter().map(|text| text.as_str().unwrap().to_owned()).collect();
        let eager = config["eager"] == true;
        Ok(Box::new(Script { moves, eager, at: 0, open: 0, last_call: 0, heard: Vec::new() }))
    }

    fn load(&self, _: &Value, state: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        Ok(Box::new(Script::deserialize(state).map_err(|why| why.to_string())?))
    }
}

impl Driver for Script {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        assert!(self.open == 0 || self.eager, "asked while its actions are under way");
        let text = self
            .moves
            .get(self.at)
            .cloned()
            .unwrap_or_else(|| "fail the script is over".to_owned());
        self.at += 1;
        let (verb, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let rest = rest.to_owned();
        match verb {
            "act" => {
                let labels: Vec<&str> = rest.split(' ').collect();
                self.open += u32::try_from(labels.len()).unwrap();
                Decision::Act(labels.into_iter().map(action).collect())
            }
            "wait" => {
                let at = situation.now.after(crate::time::Span(rest.parse().unwrap()));
                Decision::Wait(Wait::Until { at, reason: String::new() })
            }
            "results" if self.open > 0 => {
                self.at -= 1;
                Decision::Wait(Wait::Results { until: None })
            }
            "results" => self.decide(situation),
            "ask" => Decision::Wait(Wait::person(rest)),
            "consult" => Decision::Consult(Consultation::Plugin(json!(rest))),
            "claim" => Decision::Claim { summary: rest },
            "fail" => Decision::GiveUp { reason: rest, stuck: false },
            "stuck" => Decision::GiveUp { reason: rest, stuck: true },
            "heard" => Decision::Claim { summary: self.heard.join(",") },
            other => panic!("no move {other}"),
        }
    }

    fn observe(&mut self, _: &Situation<'_>, fact: &Fact<'_>) {
        self.heard.push(match fact {
            Fact::Result { call, action, result } => {
                assert!(action.path.is_empty(), "the path was not taken off");
                assert!(self.eager || call.0 > self.last_call, "results out of order");
                self.last_call = call.0;
                self.open -= 1;
                format!("{}={}", action.label, result.text)
            }
            Fact::Told(line) => format!("told {line}"),
            Fact::Note(note) => format!("note {}", note.text),
            Fact::VerdictFailed(_) => "refused".to_owned(),
            Fact::Replied(_)
            | Fact::AgentTook(_)
            | Fact::AgentEnded(_)
            | Fact::ChildBegan(_)
            | Fact::ChildEnded(_) => "reply".to_owned(),
            Fact::Retry(retry) => format!("retry {}", retry.why),
            Fact::Consulted(answer) => format!("answer {}", answer.unwrap()),
        });
    }

    fn save(&self) -> Value {
        to_value(self)
    }

    fn eager(&self) -> bool {
        self.eager
    }
}

fn action(label: &str) -> Action {
    Action {
        tool: "shell".to_owned(),
        input: Arc::new(json!({ "command": label })),
        label: label.to_owned(),
        tool_use: String::new(),
        path: Vec::new(),
        author: Author::Operator,
        timeout: None,
    }
}

fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register(Arc::new(ScriptKind));
    for kind in kinds() {
        registry.register(kind);
    }
    registry
}

fn script(moves: &[&str]) -> Value {
    json!({ "driver": "script", "config": { "moves": moves } })
}

fn composite(name: &str, children: &[Value]) -> Value {
    json!({ "driver": name, "config": { "drivers": children } })
}

/// The loop, reduced to what drivers can see of it.
struct World {
    registry: Registry,
    spec: Value,
    driver: Box<dyn Driver>,
    /// Save and load before every call.
    reload: bool,
    now: Timestamp,
    last_call: u64,
    /// In the order of the decisions; those that have ended hold their result.
    calls: Vec<(CallId, Action)>,
    /// Which of the running calls ends next; the first when there are no more.
    ends: VecDeque<usize>,
    /// Whether each claim is accepted; accepted when there are no more.
    verdicts: VecDeque<bool>,
    transcript: Vec<String>,
}

impl World {
    fn new(spec: &Value) -> World {
        let registry = registry();
        let kind = registry.find(spec["driver"].as_str().unwrap()).unwrap();
        let driver = kind.create(&spec["config"], &registry).unwrap();
        World {
            registry: registry.clone(),
            spec: spec.clone(),
            driver,
            reload: true,
            now: Timestamp(0),
            last_call: 0,
            calls: Vec::new(),
            ends: VecDeque::new(),
            verdicts: VecDeque::new(),
            transcript: Vec::new(),
        }
    }

    fn driver(&mut self) -> &mut dyn Driver {
        if self.reload {
            let state = self.driver.save();
            let kind = self.registry.find(self.spec["driver"].as_str().unwrap()).unwrap();
            let text = serde_json::to_string(&state).unwrap();
            let read = serde_json::from_str(&text).unwrap();
            self.driver = kind.load(&self.spec["config"], &read, &self.registry).unwrap();
            assert_eq!(self.driver.save(), state);
        }
        self.driver.as_mut()
    }

    fn situation(&self) -> Situation<'static> {
        Situation { goal: "goal", criteria: &[], now: self.now, turns: 0, path: &[], tools: &[] }
    }

    fn tell(&mut self, fact: &Fact<'_>) {
        let situation = self.situation();
        self.driver().observe(&situation, fact);
    }

    fn note(&mut self, text: &str) {
        self.tell(&Fact::Note(&Note { kind: NoteKind::Steer, text: text.to_owned() }));
    }

    fn end(&mut self, index: usize, text: &str) {
        let (call, action) = self.calls.remove(index);
        self.tell(&Fact::Result { call, action: &action, result: &ToolResult::ok(text) });
    }

    /// Runs until the task is finished, or until `decisions` were made.
    fn run(&mut self, decisions: usize) -> &mut World {
        for _ in 0..decisions {
            let situation = self.situation();
            let decision = self.driver().decide(&situation);
            let eager = self.driver.eager();
            let busy = !self.calls.is_empty();
            assert!(eager || !busy, "asked while actions are under way");
            match decision {
                Decision::Act(actions) => {
                    assert!(!actions.is_empty());
                    let words: Vec<String> = actions
                        .iter()
                        .map(|action| format!("{}@{:?}", action.label, action.path))
                        .collect();
                    self.transcript.push(format!("act {}", words.join(" ")));
                    for action in actions {
                        self.last_call += 1;
                        self.calls.push((CallId(self.last_call), action));
                    }
                }
                Decision::Wait(Wait::Results { .. }) => assert!(eager && busy, "waits for nothing"),
                // What runs comes first; the driver is asked again after it.
                Decision::Wait(_) if busy => {}
                Decision::Wait(Wait::Until { at, .. }) => {
                    assert!(at > self.now);
                    self.transcript.push(format!("until {}", at.0));
                    self.now = at;
                }
                Decision::Wait(Wait::Person { prompt, .. }) => {
                    self.transcript.push(format!("ask {prompt}"));
                    self.tell(&Fact::Told("yes"));
                }
                Decision::Consult(
                    Consultation::Model(_) | Consultation::Agent(_) | Consultation::Task(_),
                ) => {
                    panic!("no child asks a model or an agent")
                }
                Decision::Consult(Consultation::Plugin(request)) => {
                    assert!(!busy, "a question would stop what is under way");
                    self.transcript.push(format!("consult {request}"));
                    self.tell(&Fact::Consulted(Ok(&request)));
                }
                Decision::Claim { summary } => {
                    self.transcript.push(format!("claim {summary}"));
                    while !self.calls.is_empty() {
                        self.end(0, "aborted");
                    }
                    if self.verdicts.pop_front().unwrap_or(true) {
                        break;
                    }
                    self.tell(&Fact::VerdictFailed(&[CriterionResult {
                        title: "shell: test".to_owned(),
                        passed: false,
                        exit: Some(1),
                        evidence: "no".to_owned(),
                        millis: 0,
                        ..CriterionResult::default()
                    }]));
                }
                Decision::GiveUp { reason, stuck } => {
                    self.transcript
                        .push(format!("{} {reason}", if stuck { "stuck" } else { "fail" }));
                    break;
                }
            }
            if self.driver.eager() && !self.calls.is_empty() {
                let index = self.ends.pop_front().unwrap_or(0) % self.calls.len();
                self.end(index, "ok");
            } else {
                while !self.calls.is_empty() {
                    self.end(0, "ok");
                }
            }
        }
        self
    }
}

fn check(world: &mut World, expected: &[&str]) {
    world.run(100);
    assert_eq!(world.transcript, expected);
}

#[test]
fn a_sequence_goes_on_after_a_claim_and_joins_the_summaries() {
    let spec = composite(
        "sequence",
        &[script(&["act a b", "claim one"]), script(&["act c", "claim two"])],
    );
    check(&mut World::new(&spec), &["act a@[0] b@[0]", "act c@[1]", "claim one; two"]);
}

#[test]
fn edge_case_16_a_sequence_ends_when_a_child_gives_up() {
    let spec =
        composite("sequence", &[script(&["claim"]), script(&["stuck no way"]), script(&["claim"])]);
    check(&mut World::new(&spec), &["stuck drivers[1] (script): no way"]);
}

#[test]
fn a_refused_claim_of_a_sequence_goes_to_its_last_child() {
    let spec = composite("sequence", &[script(&["claim one"]), script(&["claim two", "heard"])]);
    let mut world = World::new(&spec);
    world.verdicts = [false].into();
    check(&mut world, &["claim one; two", "claim one; refused"]);
}

#[test]
fn what_people_say_to_a_sequence_the_children_that_begin_later_know_too() {
    let spec = composite("sequence", &[script(&["act a", "claim one"]), script(&["heard"])]);
    let mut world = World::new(&spec);
    world.run(1).note("mind the gap");
    check(&mut world, &["act a@[0]", "claim one; note mind the gap"]);
}

#[test]
fn a_fallback_takes_over_from_a_stuck_child_and_knows_what_people_said() {
    let spec =
        composite("fallback", &[script(&["act a", "stuck circle"]), script(&["act b", "heard"])]);
    let mut world = World::new(&spec);
    world.run(1).note("mind the gap");
    check(&mut world, &["act a@[0]", "act b@[1]", "claim note mind the gap,b=ok"]);
}

#[test]
fn a_fallback_gives_up_with_all_reasons() {
    let spec = composite("fallback", &[script(&["stuck circle"]), script(&["fail no tool"])]);
    let reason = "fail all gave up: drivers[0] (script): circle; drivers[1] (script): no tool";
    check(&mut World::new(&spec), &[reason]);
}

#[test]
fn a_retry_begins_anew_after_a_pause_that_doubles() {
    let child = composite(
        "sequence",
        &[script(&["act a", "claim one"]), script(&["act b", "fail no luck"])],
    );
    let spec = json!({ "driver": "retry", "config": { "driver": child, "backoff": "2s" } });
    check(
        &mut World::new(&spec),
        &[
            "act a@[0, 0]",
            "act b@[0, 1]",
            "until 2000",
            "act a@[0, 0]",
            "act b@[0, 1]",
            "until 6000",
            "act a@[0, 0]",
            "act b@[0, 1]",
            "fail gave up after 3 attempts, the last: drivers[1] (script): no luck",
        ],
    );
}

#[test]
fn a_retry_does_not_repeat_a_circle() {
    let child = script(&["act a", "stuck circle"]);
    let spec = json!({ "driver": "retry", "config": { "driver": child, "limit": 5 } });
    check(&mut World::new(&spec), &["act a@[0]", "stuck circle"]);
}

#[test]
fn in_a_race_the_slower_loses() {
    let spec = composite(
        "race",
        &[script(&["act slow", "claim slow"]), script(&["act quick", "claim quick"])],
    );
    let mut world = World::new(&spec);
    world.ends = [1].into();
    check(&mut world, &["act slow@[0] quick@[1]", "claim quick"]);
}

#[test]
fn a_race_goes_on_after_a_refused_claim() {
    let spec = composite(
        "race",
        &[script(&["act slow", "heard"]), script(&["act quick", "claim quick", "fail no idea"])],
    );
    let mut world = World::new(&spec);
    world.ends = [1].into();
    world.verdicts = [false].into();
    check(&mut world, &["act slow@[0] quick@[1]", "claim quick", "claim slow=aborted"]);
}

#[test]
fn a_race_gives_each_child_its_results_in_the_order_of_its_actions() {
    let spec =
        composite("race", &[script(&["act a b c", "heard"]), script(&["act d", "act e", "act f"])]);
    let mut world = World::new(&spec);
    world.ends = [3, 2, 0, 1, 0].into();
    check(
        &mut world,
        &["act a@[0] b@[0] c@[0] d@[1]", "act e@[1]", "act f@[1]", "claim a=ok,b=ok,c=ok"],
    );
}

#[test]
fn a_question_that_waits_in_a_race_is_put_anew_after_a_note() {
    let spec = composite(
        "race",
        &[
            script(&["act slow", "wait 50"]),
            script(&["act quick", "consult q1", "consult q2", "heard"]),
        ],
    );
    let mut world = World::new(&spec);
    world.ends = [1].into();
    // The question waits until nothing is under way, and so does the note.
    world.run(2).note("mind the gap");
    let heard = "claim quick=ok,note mind the gap,answer \"q2\"";
    check(&mut world, &["act slow@[0] quick@[1]", "consult \"q2\"", heard]);
}

#[test]
fn a_race_waits_for_moments_first_and_then_for_people() {
    let spec = composite(
        "race",
        &[
            script(&["ask left?", "fail a"]),
            script(&["wait 70", "wait 5", "ask right?", "heard"]),
            script(&["wait 50"]),
        ],
    );
    check(
        &mut World::new(&spec),
        &[
            "until 50",
            "until 70",
            "until 75",
            "ask drivers[0] (script): left?\ndrivers[1] (script): right?",
            "ask right?",
            "claim told yes",
        ],
    );
}

#[test]
fn a_race_puts_one_question_at_a_time_and_each_child_gets_its_answer() {
    let spec = composite(
        "race",
        &[
            script(&["act a", "consult left", "act b", "fail no"]),
            script(&["consult right", "act c", "consult more", "heard"]),
        ],
    );
    check(
        &mut World::new(&spec),
        &[
            "consult \"right\"",
            "act a@[0] c@[1]",
            "consult \"left\"",
            "consult \"more\"",
            "claim answer \"right\",c=ok,answer \"more\"",
        ],
    );
}

#[test]
fn a_question_that_was_dropped_is_put_again() {
    let spec = composite("race", &[script(&["consult one", "consult one again", "claim"])]);
    let mut world = World::new(&spec);
    let situation = world.situation();
    assert_eq!(
        world.driver().decide(&situation),
        Decision::Consult(Consultation::Plugin(json!("one")))
    );
    world.note("stop and think");
    check(&mut world, &["consult \"one again\"", "claim "]);
}

#[test]
fn a_race_in_a_sequence_is_over_before_the_next_child_begins() {
    let race = composite("race", &[script(&["act slow"]), script(&["act quick", "claim quick"])]);
    let spec = composite("sequence", &[race, script(&["act next", "claim next"])]);
    let mut world = World::new(&spec);
    world.ends = [1].into();
    check(&mut world, &["act slow@[0, 0] quick@[0, 1]", "act next@[1]", "claim quick; next"]);
}

#[test]
fn in_the_real_loop_the_slower_is_stopped() {
    let race = json!({ "drivers": [script(&["act slow", "claim"]), script(&["act quick", "claim quick"])] });
    let mut state = State::new(TaskId("t".to_owned()), Arc::new(registry()));
    let mut at = 0;
    let mut take = |input: Input| {
        at += 1;
        step(&mut state, Stamped { time: Timestamp(at), input })
    };
    let spec = json!({ "goal": "g", "folder": "/", "driver": { "name": "race", "config": race } });
    take(Command::Start(Box::new(serde_json::from_value(spec).unwrap())).into());
    let opening = take(Command::Attach { owner: 1, attended: false }.into()).effects[0].id();
    let place = Workspace { kind: WorkspaceKind::InPlace, path: None, branch: None, base: None };
    let running: Vec<EffectId> = take(Signal::WorkspaceOpened(opening, Ok(place)).into())
        .effects
        .iter()
        .map(Effect::id)
        .collect();
    assert_eq!(running.len(), 2);
    let output = take(Input::ToolEnded(running[1], ToolResult::ok("")));
    assert_eq!(output.effects, [Effect::Cancel { target: running[0] }]);
    let last = output.events.last().map(|event| &event.kind);
    assert!(
        matches!(last, Some(EventKind::TaskFinished { outcome: Outcome::Completed, reason, .. }) if reason == "quick"),
        "{last:?}"
    );
}

#[test]
fn until_accepted_gives_refused_work_to_a_fresh_child_that_knows_why() {
    let child = script(&["act a", "heard", "fail no idea"]);
    let spec = json!({ "driver": "until_accepted", "config": { "driver": child } });
    let mut world = World::new(&spec);
    world.verdicts = [false, false, true].into();
    check(
        &mut world,
        &[
            "act a@[0]",
            "claim a=ok",
            "act a@[0]",
            "claim refused,a=ok",
            "act a@[0]",
            "claim refused,a=ok",
        ],
    );
}

#[test]
fn until_accepted_ends_after_its_rounds() {
    let child = script(&["claim one", "claim two", "claim three"]);
    let spec = json!({ "driver": "until_accepted", "config": { "driver": child, "rounds": 2 } });
    let mut world = World::new(&spec);
    world.verdicts = [false; 5].into();
    check(
        &mut world,
        &["claim one", "claim two", "fail not accepted after 2 rounds; failed last: shell: test"],
    );
}

#[test]
fn until_accepted_does_not_replace_a_child_that_never_claimed() {
    let spec = json!({ "driver": "until_accepted", "config": { "driver": script(&["fail no"]) } });
    check(&mut World::new(&spec), &["fail no"]);
}

#[track_caller]
fn refused(name: &str, config: &Value, expected: &str) {
    let registry = registry();
    assert_eq!(registry.find(name).unwrap().create(config, &registry).unwrap_err(), expected);
}

#[test]
fn errors_name_the_place_of_the_child() {
    refused(
        "sequence",
        &json!({ "drivers": [script(&[]), { "driver": "script", "driver_config": {} }] }),
        "drivers[1].driver_config.moves: expected a list",
    );
    refused(
        "retry",
        &json!({ "driver": composite("race", &[json!({ "driver": "race", "config": { "drivers": [] } })]) }),
        "driver.config.drivers[0].config.drivers: expected a list of at least one driver, got []",
    );
    refused(
        "race",
        &json!({}),
        "drivers: missing; expected a list of {driver = NAME, config = {…}}",
    );
    refused(
        "race",
        &json!({ "drivers": ["user"] }),
        "drivers[0]: expected a table with driver, config, driver_config, got \"user\"",
    );
    refused(
        "race",
        &json!({ "drivers": [{ "config": {} }] }),
        "drivers[0].driver: missing; expected a driver's name",
    );
    refused(
        "retry",
        &json!({ "driver": script(&[]), "limits": 3 }),
        "limits: unknown; expected driver, limit, backoff",
    );
    refused(
        "retry",
        &json!({ "driver": script(&[]), "limit": 0 }),
        "limit: expected a whole number of at least 1, got 0",
    );
    refused(
        "retry",
        &json!({ "driver": script(&[]), "backoff": "2" }),
        "backoff: \"2\" is not a duration: expected something like \"90s\", \"30m\" or \"1h30m\"",
    );
    let error = World::new(&script(&[]))
        .registry
        .find("race")
        .unwrap()
        .create(&json!({ "drivers": [{ "driver": "nobody" }] }), &registry());
    assert!(
        error.unwrap_err().starts_with("drivers[0].driver: no driver \"nobody\": expected one of")
    );
}

#[test]
fn composites_nest_sixteen_deep_and_no_deeper() {
    let mut spec = script(&["claim"]);
    for _ in 0..DEPTH {
        spec = composite("sequence", &[spec]);
    }
    check(&mut World::new(&spec), &["claim "]);
    let config = json!({ "drivers": [spec] });
    let registry = registry();
    let error = registry.find("sequence").unwrap().create(&config, &registry).unwrap_err();
    assert!(error.ends_with("drivers[0].config: drivers may be nested at most 16 deep"), "{error}");
}

#[test]
fn a_visitor_sees_every_driver_and_may_change_its_configuration() {
    let mut config = json!({ "drivers": [
        { "driver": "external:count" },
        { "driver": "retry", "driver_config": { "driver": { "driver": "workflow", "config": { "workflow": "x" } } } },
    ] });
    let mut seen = Vec::new();
    visit("race", &mut config, &mut |name, config| {
        seen.push(name.to_owned());
        if name.starts_with("external:") {
            *config = json!({ "plugin": {} });
        }
        if name == "workflow" { Err("workflow: no file x".to_owned()) } else { Ok(()) }
    })
    .map_err(|why| assert_eq!(why, "drivers[1].driver_config.driver.config.workflow: no file x"))
    .unwrap_err();
    assert_eq!(seen, ["race", "external:count", "retry", "workflow"]);
    assert_eq!(config["drivers"][0]["config"], json!({ "plugin": {} }));
    assert_eq!(
        config["drivers"][1]["driver_config"]["driver"]["config"],
        json!({ "workflow": "x" })
    );
}

fn any_script() -> impl Strategy<Value = Value> {
    let moves = prop_oneof![
        4 => prop::sample::select(vec!["act a", "act a b", "act a b c"]),
        1 => prop::sample::select(vec!["wait 1", "wait 30", "ask who", "consult q"]),
        1 => prop::sample::select(vec!["claim x", "heard", "fail y", "stuck z"]),
    ];
    (prop::collection::vec(moves, 0..5), any::<bool>()).prop_map(|(mut moves, eager)| {
        if eager {
            // One that decides while its actions are under way has to be able to wait for them.
            moves = moves.into_iter().flat_map(|text| [text, "results"]).collect();
        }
        json!({ "driver": "script", "config": { "moves": moves, "eager": eager } })
    })
}

fn any_tree() -> impl Strategy<Value = Value> {
    any_script().prop_recursive(3, 12, 3, |inner| {
        let many = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (prop::sample::select(vec!["sequence", "fallback", "race", "race"]), many)
                .prop_map(|(name, children)| composite(name, &children)),
            inner.clone().prop_map(|child| json!({
                "driver": "retry", "config": { "driver": child, "limit": 2, "backoff": "5ms" }
            })),
            inner.prop_map(|child| json!({
                "driver": "until_accepted", "config": { "driver": child, "rounds": 2 }
            })),
        ]
    })
}

proptest! {
    /// Also that the contract holds toward every child, in whatever order actions end: the script insists.
    #[test]
    fn saving_and_loading_between_any_two_calls_changes_nothing(
        spec in any_tree(),
        ends in prop::collection::vec(0usize..5, 0..20),
        verdicts in prop::collection::vec(any::<bool>(), 0..4),
        note in 0usize..10,
    ) {
        let run = |reload| {
            let mut world = World::new(&spec);
            world.reload = reload;
            world.ends = ends.clone().into();
            world.verdicts = verdicts.clone().into();
            world.run(note);
            world.note("hello");
            world.run(60);
            (world.transcript, world.driver.save())
        };
        prop_assert_eq!(run(true), run(false));
    }
}
