//! A workflow as it is played in tests: results, answers and people in, what it does out.

use std::collections::{BTreeMap, VecDeque};

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
pub(super) struct Play {
    config: Value,
    driver: Box<dyn Driver>,
    reload: bool,
    now: Timestamp,
    pub(super) results: BTreeMap<String, VecDeque<String>>,
    pub(super) answers: VecDeque<String>,
    pub(super) told: VecDeque<String>,
    tasks: VecDeque<String>,
    /// Whether actions end in the reverse order.
    pub(super) reversed: bool,
    pub(super) log: String,
}

impl Play {
    pub(super) fn new(config: &Value, reload: bool) -> Play {
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

    pub(super) fn situation(&self) -> Situation<'static> {
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

    pub(super) fn run(&mut self) {
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
                Decision::Wait(Wait::Results { .. }) => {
                    assert!(!under_way.is_empty(), "waits for nothing")
                }
                Decision::Wait(Wait::Until { at, .. }) => {
                    self.note(format!("until +{}", at.since(self.now)));
                    self.now = at;
                    continue;
                }
                Decision::Wait(Wait::Person { prompt, until, due: due_at, .. }) => {
                    assert!(under_way.is_empty(), "a person is asked when nothing is under way");
                    let after = |at: Timestamp| at.since(self.now);
                    let end = until.map(|at| format!(" until +{}", after(at)));
                    let due = due_at.map(|at| format!(" due +{}", after(at)));
                    let (end, due) = (end.unwrap_or_default(), due.unwrap_or_default());
                    self.note(format!("person: {prompt}{end}{due}"));
                    let moment = until.iter().chain(&due_at).copied().min();
                    match (self.told.pop_front().filter(|line| line != "…"), moment) {
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
