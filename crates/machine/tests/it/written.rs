//! Drivers whose moves were written down, in the whole loop: what follows a failure, a refused claim, a hand-over and a
//! person's word. The world is a few rules, so a test is a task and the story of what was done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::agent::{AgentEnd, AgentNews, AgentProgram, AgentTurn};
use machine::cause::CauseKind;
use machine::child::Charge;
use machine::child::step::ChildEnd;
use machine::effect::Effect;
use machine::event::EventKind;
use machine::id::TaskId;
use machine::input::{Command, Input, Signal};
use machine::policy::permission::{Decide, Rule};
use machine::state::{SavedState, State};
use machine::task::{CriterionResult, DriverSpec, Outcome, TaskSpec, Workspace, WorkspaceKind};
use machine::tool::{Status, ToolResult};
use machine::verdict::{Checkpoint, Verdict};
use serde_json::{Value, json};

use crate::recovery::ladder;
use crate::rig::{Rig, check_of, registry, spec};

/// A task in a world that answers at once.
struct Play {
    rig: Rig,
    /// What is to be done outside, in order.
    open: VecDeque<Effect>,
    /// How often each command is still to fail.
    failing: BTreeMap<&'static str, usize>,
    /// How many claims are still to be refused.
    refusals: usize,
    /// How often the task of a step ended, by its id: one that has ended is told of again.
    ended: BTreeMap<TaskId, Outcome>,
    /// What becomes of the tasks of steps, in order; completed when there are no more.
    outcomes: VecDeque<Outcome>,
    story: Vec<String>,
    /// By which marks workers know the operator, in order.
    marks: Vec<String>,
}

impl Play {
    fn of(task: TaskSpec) -> Play {
        let mut play = Play {
            rig: Rig::new(),
            open: VecDeque::new(),
            failing: BTreeMap::new(),
            refusals: 0,
            ended: BTreeMap::new(),
            outcomes: VecDeque::new(),
            story: Vec::new(),
            marks: Vec::new(),
        };
        play.give(Command::Start(Box::new(task)).into());
        play
    }

    fn failing(mut self, command: &'static str, times: usize) -> Play {
        self.failing.insert(command, times);
        self
    }

    fn refusing(mut self, times: usize) -> Play {
        self.refusals = times;
        self
    }

    fn with_ends(mut self, outcomes: &[Outcome]) -> Play {
        self.outcomes = outcomes.iter().copied().collect();
        self
    }

    /// Takes the task up and drives it as far as it goes.
    fn run(mut self) -> Play {
        self.give(Command::Attach { owner: 1, attended: false }.into());
        self.go_on();
        self
    }

    fn tell(&mut self, line: &str) {
        self.give(Command::tell(line).into());
        self.go_on();
    }

    fn give(&mut self, input: Input) {
        let saved = serde_json::to_string(&self.rig.state.save()).unwrap();
        let saved: SavedState = serde_json::from_str(&saved).unwrap();
        self.rig.state = State::load(&saved, registry()).unwrap();
        self.rig.input(input);
        for event in &self.rig.last.events {
            match &event.kind {
                EventKind::RecoveryChosen { action, .. } => self.story.push(action.to_string()),
                EventKind::DriverChanged { to, .. } => self.story.push(format!("now {to}")),
                EventKind::NoteDelivered { note } => self.story.push(format!("note {}", note.text)),
                EventKind::TaskFinished { outcome, .. } => {
                    self.story.push(outcome.word().to_owned())
                }
                _ => {}
            }
        }
        for effect in &self.rig.last.effects {
            match effect {
                Effect::Cancel { target } => self.open.retain(|open| open.id() != *target),
                other => self.open.push_back(other.clone()),
            }
        }
    }

    fn go_on(&mut self) {
        for _ in 0..1000 {
            let Some(effect) = self.open.pop_front() else { return };
            if let Some(input) = self.perform(&effect) {
                self.give(input);
            }
        }
        panic!("it does not end: {:?}", self.story);
    }

    fn perform(&mut self, effect: &Effect) -> Option<Input> {
        let id = effect.id();
        Some(match effect {
            Effect::OpenWorkspace { spec, .. } => {
                let kind = spec.kind.unwrap_or(WorkspaceKind::InPlace);
                let path = Some("/tree".to_owned());
                let workspace = Workspace { kind, path, branch: None, base: None };
                Signal::WorkspaceOpened(id, Ok(workspace)).into()
            }
            Effect::RunTool { call, .. } => {
                let command = call.input["command"].as_str().unwrap().to_owned();
                let left = self.failing.get_mut(command.as_str()).filter(|left| **left > 0);
                let fails = left.map(|left| *left -= 1).is_some();
                self.story.push(if fails { format!("{command} fails") } else { command });
                let status = if fails { Status::Error } else { Status::Ok };
                Input::ToolEnded(id, ToolResult::ended(status, ""))
            }
            Effect::Verify { .. } => {
                let passed = self.refusals == 0;
                self.refusals = self.refusals.saturating_sub(1);
                self.story.push(if passed { "accepted" } else { "refused" }.to_owned());
                let title = "shell: make test".to_owned();
                let result = CriterionResult { title, passed, ..CriterionResult::default() };
                Signal::Verified(id, Ok(Verdict::of(vec![result]))).into()
            }
            Effect::DriveChild { child, spec, .. } => {
                let known = self.ended.get(child).copied();
                let told = if known.is_some() { " again" } else { "" };
                self.story.push(format!("task {}{told}", spec.goal));
                let mark = spec.driver.config["program"]["operator"].as_str();
                self.marks.extend(mark.map(str::to_owned));
                let next = known.or_else(|| self.outcomes.pop_front());
                let ended = next.unwrap_or(Outcome::Completed);
                self.ended.insert(child.clone(), ended);
                let charge = Charge::default();
                let end = ChildEnd {
                    ended: Some(ended),
                    charge,
                    ..ChildEnd::put_down(child.clone(), String::new())
                };
                Signal::ChildLeft(id, Box::new(end)).into()
            }
            Effect::AskAgent { call, .. } => {
                self.story.push(format!("conversation {} at {:?}", call.conversation, call.path));
                self.marks.push(call.program.operator.clone());
                self.give(Signal::AgentSaid(id, AgentNews::Taken { session: None }).into());
                let text = "done".to_owned();
                let turn = AgentTurn {
                    end: AgentEnd::Done,
                    text,
                    ordered: true,
                    refused: 0,
                    background: 0,
                    queued: 0,
                };
                Signal::AgentEnded(id, Ok(turn)).into()
            }
            Effect::Checkpoint { .. } => {
                let made = Checkpoint { name: format!("k{}", id.0), tree: format!("t{}", id.0) };
                Signal::Checkpointed(id, Ok(made)).into()
            }
            Effect::Restore { .. } => {
                self.story.push("restore".to_owned());
                let undo = Checkpoint { name: format!("u{}", id.0), tree: format!("t{}", id.0) };
                Signal::Restored(id, Ok(undo)).into()
            }
            _ => return None,
        })
    }

    #[track_caller]
    fn is(&self, expected: &[&str]) {
        assert_eq!(self.story, expected);
    }
}

fn sh(command: &str) -> Value {
    json!({ "name": command, "tool": "shell", "parameters": { "command": command } })
}

fn steps(steps: &[Value]) -> Value {
    json!({ "driver": "workflow", "driver_config": { "name": "w", "steps": steps } })
}

fn machine(command: &str) -> Value {
    json!({ "driver": "state_machine", "driver_config": { "initial": "a", "states": {
        "a": { "action": { "tool": "shell", "parameters": { "command": command } },
            "transitions": [{ "to": "z", "when": "ok" }] },
        "z": { "terminal": true },
    } } })
}

fn several(name: &str, children: &[Value]) -> Value {
    json!({ "driver": name, "driver_config": { "drivers": children } })
}

fn single(name: &str, child: Value) -> Value {
    json!({ "driver": name, "driver_config": { "driver": child } })
}

fn driver(of: &Value) -> DriverSpec {
    DriverSpec::new(of["driver"].as_str().unwrap(), of["driver_config"].clone())
}

/// A task with this driver.
fn task(of: &Value) -> TaskSpec {
    TaskSpec { driver: driver(of), ..spec(Value::Null) }
}

/// The same, and its work is checked.
fn checked(of: &Value) -> TaskSpec {
    TaskSpec { acceptance: vec![check_of("make test")], ..task(of) }
}

fn on(mut task: TaskSpec, cause: CauseKind, rungs: &[&str]) -> TaskSpec {
    task.recovery.ladders.insert(cause, ladder(rungs));
    task
}

fn in_worktree(mut task: TaskSpec) -> TaskSpec {
    task.workspace.kind = Some(WorkspaceKind::Worktree);
    task
}

#[test]
fn whoever_takes_over_after_a_refused_claim_does_its_own_work_first() {
    let flow = steps(&[sh("a")]);
    let done = ["a", "refused", "a", "accepted", "verified"];
    Play::of(checked(&single("until_accepted", flow.clone()))).refusing(1).run().is(&done);
    Play::of(checked(&single("retry", flow.clone()))).refusing(1).run().is(&done);
    Play::of(checked(&several("fallback", &[flow.clone(), flow.clone()])))
        .refusing(1)
        .run()
        .is(&done);
    let machine = machine("b");
    Play::of(checked(&single("until_accepted", machine.clone())))
        .refusing(1)
        .run()
        .is(&["b", "refused", "b", "accepted", "verified"]);
    Play::of(checked(&several("fallback", &[flow.clone(), machine.clone()])))
        .refusing(1)
        .run()
        .is(&["a", "refused", "b", "accepted", "verified"]);
    let mut handed = on(checked(&flow), CauseKind::VerdictFailed, &["hand_over:other"]);
    handed.recovery.drivers.insert("other".to_owned(), driver(&machine));
    Play::of(handed).refusing(1).run().is(&[
        "a",
        "refused",
        "hand_over:other",
        "now state_machine",
        "b",
        "accepted",
        "verified",
    ]);
}

#[test]
fn a_refused_claim_of_its_own_ends_a_workflow() {
    for flow in [steps(&[sh("a")]), machine("a")] {
        Play::of(checked(&flow)).refusing(1).run().is(&["a", "refused", "failed"]);
    }
}

/// A step that has a task of its own done.
fn begins(goal: &str) -> Value {
    let inner = json!({ "name": "i", "steps": [sh("inner")] });
    json!({ "name": goal, "task": { "goal": goal, "workflow": inner } })
}

/// A step that an agent does.
fn agent() -> Value {
    let built_in = AgentProgram::built_in("claude").unwrap();
    let program = AgentProgram { operator: "0123".to_owned(), ..built_in };
    json!({ "name": "ag", "agent": "claude", "prompt": "p", "driver_config": { "program": program } })
}

#[test]
fn each_step_has_a_task_of_its_own_whichever_driver_asked_for_it() {
    let (one, two) = (steps(&[begins("one")]), steps(&[begins("two")]));
    Play::of(task(&several("sequence", &[one.clone(), two.clone()]))).run().is(&[
        "task one",
        "task two",
        "completed",
    ]);
    Play::of(task(&single("retry", one.clone()))).with_ends(&[Outcome::Failed]).run().is(&[
        "task one",
        "task one",
        "completed",
    ]);
    Play::of(task(&several("race", &[one.clone(), two.clone()])))
        .with_ends(&[Outcome::Failed])
        .run()
        .is(&["task one", "task two", "completed"]);
    let anew = steps(&[begins("one"), sh("b")]);
    Play::of(on(task(&anew), CauseKind::GaveUp, &["fresh_session"])).failing("b", 1).run().is(&[
        "task one",
        "b fails",
        "fresh_session",
        "task one",
        "b",
        "completed",
    ]);
    let mut handed = on(task(&one), CauseKind::GaveUp, &["hand_over:other"]);
    handed.recovery.drivers.insert("other".to_owned(), driver(&two));
    let story = ["task one", "hand_over:other", "now workflow", "task two", "completed"];
    Play::of(handed).with_ends(&[Outcome::Failed]).run().is(&story);
}

#[test]
fn a_task_of_a_step_that_is_asked_for_again_is_the_same_one() {
    let flows = several("sequence", &[steps(&[begins("one")]), steps(&[begins("two")])]);
    let mut play = Play::of(task(&flows));
    play.give(Command::Attach { owner: 1, attended: false }.into());
    let mut asked: Vec<TaskId> = Vec::new();
    for _ in 0..20 {
        let Some(effect) = play.open.pop_front() else { break };
        if let Effect::DriveChild { child, .. } = &effect {
            let is_new = !asked.contains(child);
            asked.push(child.clone());
            if is_new {
                // Whatever stops the question: the step asks it again.
                play.give(Command::RollBack { to: "k1".to_owned() }.into());
                continue;
            }
        }
        if let Some(input) = play.perform(&effect) {
            play.give(input);
        }
    }
    assert_eq!(asked.len(), 4, "{asked:?} {:?}", play.story);
    assert!(asked[0] == asked[1] && asked[1] != asked[2] && asked[2] == asked[3], "{asked:?}");
}

#[test]
fn agents_of_steps_have_conversations_of_their_own_whoever_begins_anew() {
    let first = "conversation 1 at [0]";
    let flow = steps(&[agent(), sh("b")]);
    Play::of(on(task(&flow), CauseKind::GaveUp, &["fresh_session"])).failing("b", 1).run().is(&[
        first,
        "b fails",
        "fresh_session",
        "conversation 2 at [0]",
        "b",
        "completed",
    ]);
    Play::of(checked(&single("until_accepted", flow.clone()))).refusing(1).run().is(&[
        "conversation 1 at [0, 0]",
        "b",
        "refused",
        "conversation 2 at [0, 0]",
        "b",
        "accepted",
        "verified",
    ]);
    let mut handed = on(task(&flow), CauseKind::GaveUp, &["hand_over:other"]);
    handed.recovery.drivers.insert("other".to_owned(), driver(&steps(&[agent()])));
    Play::of(handed).failing("b", 1).run().is(&[
        first,
        "b fails",
        "hand_over:other",
        "now workflow",
        "conversation 2 at [0]",
        "completed",
    ]);
}

#[test]
fn each_worker_of_a_task_knows_the_operator_by_a_mark_that_no_other_is_told() {
    let each =
        |name: &str, step: Value| json!({ "name": name, "foreach": "[1, 2]", "steps": [step] });
    let mut part = agent();
    let config = part["driver_config"].take();
    let part =
        json!({ "name": "t", "task": { "goal": "g", "agent": "claude", "driver_config": config } });
    let flow = steps(&[each("x", agent()), each("y", part), agent()]);
    let play = Play::of(checked(&single("until_accepted", flow))).refusing(1).run();
    let marks: BTreeSet<&String> = play.marks.iter().collect();
    assert_eq!((play.marks.len(), marks.len()), (10, 10), "{:?}", play.marks);
    assert!(!play.marks.contains(&"0123".to_owned()), "they follow from this one");
}

#[test]
fn tasks_of_steps_that_an_earlier_build_began_go_on_with_their_numbers() {
    let mut play = Play::of(task(&steps(&[begins("one"), begins("two")])));
    play.give(Command::Attach { owner: 1, attended: false }.into());
    let opened = play.open.pop_front().and_then(|effect| play.perform(&effect)).unwrap();
    play.give(opened);
    // As it was saved then: the driver had given the number, and nobody had told it.
    let mut saved = serde_json::to_value(play.rig.state.save()).unwrap();
    let state = saved["driver"]["state"].as_object_mut().unwrap();
    assert!(state.remove("child_began").is_some(), "{state:?}");
    let order = &mut state["flow"]["row"]["step"]["stage"]["task"];
    assert_eq!(order.as_object_mut().unwrap().remove("first"), Some(json!(true)));
    let saved: SavedState = serde_json::from_value(saved).unwrap();
    play.rig.state = State::load(&saved, registry()).unwrap();
    play.go_on();
    play.is(&["task one", "task two", "completed"]);
    assert_eq!(play.ended.len(), 2);
}

#[test]
fn a_hand_over_takes_place_once_what_runs_has_ended_also_where_each_result_is_decided_on() {
    let one = json!({ "name": "one", "tool": "shell", "parameters": { "command": "{{ item }}" } });
    let each = json!({ "name": "each", "foreach": "['a', 'b', 'c', 'd']", "max_parallel": 2, "steps": [one] });
    let race = several("race", &[steps(&[sh("a"), sh("c")]), steps(&[sh("b"), sh("d")])]);
    for of in [steps(&[each]), race] {
        let mut play = Play::of(task(&of));
        play.give(Command::Attach { owner: 1, attended: false }.into());
        let opened = play.open.pop_front().and_then(|effect| play.perform(&effect)).unwrap();
        play.give(opened);
        play.give(Command::HandOver(driver(&steps(&[sh("x")]))).into());
        play.go_on();
        play.is(&["a", "b", "now workflow", "x", "completed"]);
    }
}

#[test]
fn a_circle_in_a_list_or_in_branches_is_one_of_the_workflow() {
    let mut round = sh("a");
    round["on_error"] = json!({ "action": "goto", "target": "a" });
    round["max_retries"] = json!(1);
    let each = json!({ "name": "each", "foreach": "[1]", "steps": [round] });
    let both = json!({ "name": "both", "parallel": { "x": [round], "y": [sh("b")] } });
    let story = ["a fails", "a fails", "stuck"];
    Play::of(task(&steps(&[each]))).failing("a", 2).run().is(&story);
    let play = Play::of(task(&steps(&[both]))).failing("a", 2).run();
    assert_eq!(play.story.last().unwrap(), "stuck", "{:?}", play.story);
}

#[test]
fn many_calls_that_are_denied_at_once_are_no_circle() {
    let denied = json!({ "name": "x", "tool": "write", "on_error": "skip",
        "parameters": { "path": "a", "content": "{{ item }}" } });
    let each = json!({ "name": "each", "foreach": "range(200) | list", "steps": [denied] });
    let mut task = task(&steps(&[each, sh("b")]));
    let rule = Rule { tool: "write".to_owned(), decide: Decide::Deny, ..Rule::default() };
    task.policy.rules = vec![rule];
    Play::of(task).run().is(&["b", "completed"]);
}

#[test]
fn drivers_made_of_drivers_begin_anew_with_the_first() {
    let (one, two) = (steps(&[sh("a")]), steps(&[sh("b")]));
    let rolled = on(
        checked(&several("sequence", &[one.clone(), two.clone()])),
        CauseKind::VerdictFailed,
        &["rollback"],
    );
    Play::of(in_worktree(rolled))
        .refusing(1)
        .run()
        .is(&["a", "b", "refused", "rollback", "restore", NOTE, "a", "b", "accepted", "verified"]);
    let fresh = |of: &Value| on(task(of), CauseKind::GaveUp, &["fresh_session"]);
    let all = several("fallback", &[one.clone(), two.clone()]);
    Play::of(fresh(&all)).failing("a", 1).failing("b", 1).run().is(&[
        "a fails",
        "b fails",
        "fresh_session",
        "a",
        "completed",
    ]);
    let all = several("race", &[one.clone(), two.clone()]);
    let play = Play::of(fresh(&all)).failing("a", 1).failing("b", 1).run();
    assert_eq!(play.story[..3], ["a fails", "b fails", "fresh_session"]);
    assert_eq!(play.story.last().unwrap(), "completed", "{:?}", play.story);
    let again = json!({ "driver": "retry", "driver_config": { "driver": one, "limit": 2 } });
    Play::of(fresh(&again)).failing("a", 3).run().is(&[
        "a fails",
        "a fails",
        "fresh_session",
        "a fails",
        "a",
        "completed",
    ]);
    let rounds =
        json!({ "driver": "until_accepted", "driver_config": { "driver": one, "rounds": 2 } });
    let rounds = on(
        checked(&rounds),
        CauseKind::VerdictFailed,
        &["next_turn", "next_turn", "fresh_session"],
    );
    Play::of(rounds).refusing(3).run().is(&[
        "a",
        "refused",
        "a",
        "refused",
        "fresh_session",
        "a",
        "refused",
        "fresh_session",
        "a",
        "accepted",
        "verified",
    ]);
}

/// What is said of files that were put back.
const NOTE: &str = "note The files of the workspace were put back to an earlier state (checkpoint k2): look again before you rely on \
    what you remember of them.";

#[test]
fn what_a_person_has_tried_again_goes_on_where_it_ended() {
    let escalated = |of: &Value| on(task(of), CauseKind::GaveUp, &["escalate"]);
    let mut play = Play::of(escalated(&steps(&[sh("a"), sh("b"), sh("c")]))).failing("b", 2).run();
    play.tell("go on");
    play.tell("go on");
    play.is(&["a", "b fails", "escalate", "b fails", "escalate", "b", "c", "completed"]);
    let (one, two) = (steps(&[sh("a")]), steps(&[sh("b")]));
    for name in ["fallback", "race"] {
        let of = several(name, &[one.clone(), two.clone()]);
        let mut play = Play::of(escalated(&of)).failing("a", 1).failing("b", 1).run();
        play.tell("go on");
        assert_eq!(play.story[..3], ["a fails", "b fails", "escalate"]);
        assert_eq!(play.story.last().unwrap(), "completed", "{:?}", play.story);
    }
    let mut play = Play::of(escalated(&single("retry", one.clone()))).failing("a", 3).run();
    play.tell("go on");
    play.is(&["a fails", "a fails", "a fails", "escalate", "a", "completed"]);
    let states = json!({ "driver": "workflow", "driver_config": { "name": "s", "initial": "a", "states": [
        { "name": "a", "tool": "shell", "parameters": { "command": "a" },
            "transitions": [{ "to": "z", "when": "result.ok" }] },
        { "name": "z", "terminal": true },
    ] } });
    for of in [machine("a"), states, several("sequence", &[one])] {
        let mut play = Play::of(escalated(&of)).failing("a", 1).run();
        play.tell("go on");
        play.is(&["a fails", "escalate", "a", "completed"]);
    }
}

#[test]
fn a_refused_claim_that_a_person_has_tried_again_is_made_again() {
    for of in [steps(&[sh("a")]), machine("a"), several("sequence", &[steps(&[sh("a")])])] {
        let task = on(checked(&of), CauseKind::VerdictFailed, &["escalate"]);
        let mut play = Play::of(task).refusing(1).run();
        play.tell("go on");
        play.is(&["a", "refused", "escalate", "accepted", "verified"]);
    }
    let of = json!({ "driver": "until_accepted", "driver_config": { "driver": steps(&[sh("a")]), "rounds": 1 } });
    let mut play =
        Play::of(on(checked(&of), CauseKind::VerdictFailed, &["escalate"])).refusing(1).run();
    play.tell("go on");
    assert_eq!(play.story.last().unwrap(), "verified", "{:?}", play.story);
}

#[test]
fn of_a_note_to_steps_that_were_written_down_is_said_what_becomes_of_it() {
    let steer = || Command::Steer { text: "use make".to_owned() };
    let remark = |of: &Value, command: Command| {
        let play = Play::of(task(of));
        play.rig.state.remark(&command, true).unwrap_or_default()
    };
    let unread =
        "its steps do what was written, and nobody reads the note: it stands in the log alone";
    let plain = steps(&[sh("a")]);
    assert_eq!(remark(&plain, steer()), unread);
    assert_eq!(remark(&machine("a"), steer()), unread);
    assert_eq!(remark(&several("sequence", &[machine("a"), plain.clone()]), steer()), unread);
    assert_eq!(remark(&plain, Command::FollowUp { text: "use make".to_owned() }), unread);
    assert_eq!(remark(&plain, Command::Interrupt { note: "use make".to_owned() }), unread);
    assert_eq!(remark(&plain, Command::Interrupt { note: String::new() }), "", "there is no note");
    assert_eq!(remark(&plain, Command::Pause), "");
    let some = "only the steps at which a model, an agent, a plugin or a person is at work then read it; the others do what \
                was written";
    let mixed = several("sequence", &[plain.clone(), steps(&[agent()])]);
    assert_eq!(remark(&mixed, steer()), some);
    let asks = json!({ "name": "b", "driver": "llm", "prompt": "p", "driver_config": { "model": "script/x" } });
    let flow = steps(&[sh("a"), asks.clone()]);
    assert_eq!(remark(&flow, steer()), some);
    // Whoever works already reads it, and whoever decides alone does so in any case.
    let mut play = Play::of(task(&steps(&[asks])));
    play.rig.attach(false).open_workspace();
    assert_eq!(play.rig.state.remark(&steer(), true), None);
    let model = json!({ "driver": "llm", "driver_config": { "model": "script/x" } });
    assert_eq!(remark(&model, steer()), "");
}
