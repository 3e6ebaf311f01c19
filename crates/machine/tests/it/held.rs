//! A pause and a drain hold whatever would begin, also what waited for a report; once the task may move it goes on exactly
//! there.

use machine::agent::{AgentEnd, AgentTurn};
use machine::cause::CauseKind;
use machine::effect::Effect;
use machine::event::EventKind;
use machine::id::EffectId;
use machine::input::{Command, Signal};
use machine::message::{Block, Message, Part, Reply, Role, StopReason, Usage};
use machine::policy::budget::Budget;
use machine::policy::permission::{Policy, Profile};
use machine::state::{Pending, State};
use machine::task::{CriterionResult, DriverSpec, TaskSpec, Workspace, WorkspaceKind};
use machine::time::Span;
use machine::tool::ToolResult;
use machine::verdict::{Checkpoint, Verdict};
use serde_json::{Value, json};

use crate::recovery::ladder;
use crate::rig::{Rig, call, check_of, read, registry, shell, spec};

/// Opens a worktree for a task that is taken up.
fn opened(task: TaskSpec) -> Rig {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task))).attach(false);
    let workspace = Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some("/w".to_owned()),
        branch: None,
        base: Some("c0".to_owned()),
    };
    let id = rig.effect("open_workspace");
    rig.input(Signal::WorkspaceOpened(id, Ok(workspace)).into());
    kept(&mut rig);
    rig
}

fn kept(rig: &mut Rig) {
    let found = rig.state.data().pending.iter().find(|(_, what)| **what == Pending::Checkpoint);
    let id = *found.expect("a checkpoint is made").0;
    let made = Checkpoint { name: format!("kept{}", id.0), tree: "t".to_owned() };
    rig.input(Signal::Checkpointed(id, Ok(made)).into());
}

fn worker(turns: Value) -> TaskSpec {
    let mut task = spec(json!({ "turns": turns, "author": "worker" }));
    task.policy = Policy { profile: Some(Profile::Open), ..Policy::default() };
    task.acceptance = vec![check_of("t")];
    task
}

/// A task that has claimed, and whose files are being kept.
fn handing_over() -> Rig {
    let mut rig = opened(worker(json!([[shell("a")]])));
    let id = rig.effect("run_tool");
    rig.ended(id.0, ToolResult::ok(""));
    rig.effect("checkpoint");
    rig
}

/// Makes the task hold still, brings what comes, and has it go on: by the same process, or by the next one.
fn goes_on_with(rig: &mut Rig, comes: impl Fn(&mut Rig), what: &str, from_the_next: &str) {
    let before = rig.state.save();
    let load = || State::load(&before, registry()).unwrap();
    rig.command(Command::Pause);
    comes(rig);
    assert!(rig.last.effects.is_empty(), "{what}: {}", rig.told());
    rig.command(Command::Resume);
    rig.effect(what);
    assert_eq!(rig.last.effects.len(), 1, "{}", rig.told());
    for hold in [Command::Pause, Command::Drain] {
        rig.state = load();
        let is_paused = hold == Command::Pause;
        rig.command(hold);
        comes(rig);
        assert!(rig.last.effects.is_empty(), "{what}: {}", rig.told());
        assert!(rig.state.is_idle(), "the process can let go");
        rig.command(Command::Detach { reason: "asked to".to_owned() }).attach(false);
        if is_paused {
            assert_eq!(rig.told(), "[] attached", "{what}");
            rig.command(Command::Resume);
        }
        rig.effect(from_the_next);
        assert_eq!(rig.last.effects.len(), 1, "{}", rig.told());
    }
}

#[test]
fn a_claim_is_not_checked_while_the_task_is_held() {
    goes_on_with(&mut handing_over(), kept, "verify", "checkpoint");
}

#[test]
fn an_agent_that_waited_for_a_checkpoint_is_not_asked_while_the_task_is_held() {
    let agent = json!({ "program": {
        "name": "x", "protocol": "claude", "command": ["x"], "operator": "k" } });
    for unkeepable in [false, true] {
        let mut task = worker(json!([]));
        task.driver = DriverSpec::new("agent", agent.clone());
        let mut rig = opened(task);
        let turn = rig.effect("agent");
        rig.command(Command::FollowUp { text: "one more".to_owned() });
        let (end, text) = (AgentEnd::Done, String::new());
        let ended = AgentTurn { end, text, ordered: true, refused: 0, background: 0, queued: 0 };
        rig.input(Signal::AgentEnded(turn, Ok(ended)).into());
        rig.effect("checkpoint");
        let comes = |rig: &mut Rig| match unkeepable {
            false => kept(rig),
            true => {
                let pending = rig.state.data().pending.iter();
                let id = *pending.last().expect("a checkpoint is made").0;
                rig.input(Signal::Unkeepable(id, "a pipe".to_owned()).into());
            }
        };
        goes_on_with(&mut rig, comes, "agent", "checkpoint");
    }
}

#[test]
fn an_agent_that_is_asked_again_after_a_pause_waits_for_one_checkpoint_and_is_asked_once() {
    let mut task = worker(json!([]));
    let program = json!({ "name": "x", "protocol": "claude", "command": ["x"], "operator": "k" });
    task.driver = DriverSpec::new("agent", json!({ "program": program }));
    let mut rig = opened(task);
    let turn = rig.effect("agent");
    let end =
        AgentEnd::Model { kind: "overloaded".to_owned(), status: None, again: true, after: None };
    let ended =
        AgentTurn { end, text: String::new(), ordered: true, refused: 0, background: 0, queued: 0 };
    rig.input(Signal::AgentEnded(turn, Ok(ended)).into());
    let timer = rig.effect("set_timer");
    rig.now += 60_000;
    rig.input(Signal::TimerFired(timer).into());
    rig.effect("checkpoint");
    rig.command(Command::Steer { text: "mind the gap".to_owned() });
    assert!(rig.last.effects.is_empty(), "{}", rig.told());
    kept(&mut rig);
    rig.effect("agent");
    assert_eq!(rig.last.effects.len(), 1, "{}", rig.told());
}

#[test]
fn the_files_do_not_go_back_by_themselves_while_the_task_is_held() {
    let mut task = worker(json!([[shell("a")]]));
    task.recovery.ladders.insert(CauseKind::VerdictFailed, ladder(&["rollback"]));
    let mut rig = opened(task);
    let id = rig.effect("run_tool");
    rig.ended(id.0, ToolResult::ok(""));
    kept(&mut rig);
    let verify = rig.effect("verify");
    let refused = |rig: &mut Rig| {
        let failed = CriterionResult { title: "t".to_owned(), ..CriterionResult::default() };
        rig.input(Signal::Verified(verify, Ok(Verdict::of(vec![failed]))).into());
    };
    goes_on_with(&mut rig, refused, "restore", "restore");
}

#[test]
fn a_workspace_that_was_made_ready_does_not_set_anything_going_while_the_task_is_held() {
    let plugin = json!({ "plugin": { "name": "x", "command": ["x"] }, "config": null });
    let mut task = spec(Value::Null);
    task.driver = DriverSpec::new("external:x", plugin);
    task.workspace.setup = vec!["npm ci".to_owned()];
    let mut rig = Rig::started(task);
    rig.effect("consult");
    rig.input(Signal::OwnerLost.into()).input(Signal::FolderGone(Ok(3)).into());
    rig.attach(false);
    let setup = rig.effect("open_workspace");
    let place = rig.state.data().workspace.clone().unwrap();
    let ready = |rig: &mut Rig| {
        rig.input(Signal::WorkspaceOpened(setup, Ok(place.clone())).into());
    };
    goes_on_with(&mut rig, ready, "consult", "consult");
    // Nor is it made ready by a process that takes a paused task up.
    rig.input(Signal::OwnerLost.into()).input(Signal::FolderGone(Ok(3)).into());
    rig.command(Command::Pause);
    assert_eq!(rig.attach(false).told(), "[] attached");
    rig.command(Command::Resume);
    rig.effect("open_workspace");
}

#[test]
fn whoever_takes_a_paused_task_up_asks_nobody_again_before_it_goes_on() {
    let plugin = json!({ "plugin": { "name": "x", "command": ["x"] }, "config": null });
    for (name, config, what) in [
        ("external:x", plugin, "consult"),
        ("llm", json!({ "model": "script/x" }), "call_model"),
        ("scripted", json!({ "turns": [[read("a")]] }), "run_tool"),
    ] {
        let driver = DriverSpec::new(name, config);
        let mut rig = Rig::started(TaskSpec { driver, ..spec(Value::Null) });
        rig.effect(what);
        rig.command(Command::Pause).input(Signal::OwnerLost.into());
        assert_eq!(rig.attach(false).told(), "[] attached", "{name}");
        rig.command(Command::Resume);
        rig.effect(what);
        assert_eq!(rig.last.effects.len(), 1, "{name}: {}", rig.told());
    }
}

#[test]
fn a_limit_that_cuts_going_back_short_leaves_it_to_be_done_once_there_is_more() {
    let mut task = worker(json!([[shell("a")], [shell("b")]]));
    task.recovery.ladders.insert(CauseKind::VerdictFailed, ladder(&["rollback"]));
    task.budget.max_time = Some(Span::seconds(10));
    let mut rig = opened(task);
    for _ in 0..2 {
        let id = rig.effect("run_tool");
        rig.ended(id.0, ToolResult::ok(""));
        kept(&mut rig);
    }
    let verify = rig.effect("verify");
    let failed = CriterionResult { title: "t".to_owned(), ..CriterionResult::default() };
    rig.input(Signal::Verified(verify, Ok(Verdict::of(vec![failed]))).into());
    rig.effect("restore");
    let timer = |(_, what): &(&EffectId, &Pending)| **what == Pending::Deadline;
    let deadline = *rig.state.data().pending.iter().find(timer).expect("a deadline").0;
    rig.now += 11_000;
    rig.input(Signal::TimerFired(deadline).into());
    assert!(rig.told().contains("task_finished budget_exhausted"), "{}", rig.told());
    let more = Budget { max_time: Some(Span::seconds(60)), ..Budget::default() };
    rig.command(Command::Raise(more)).attach(false);
    let base = rig.state.data().base.clone().expect("it was kept");
    let back = |rig: &Rig| {
        rig.last.effects.iter().any(|e| matches!(e, Effect::Restore { to, .. } if *to == base.name))
    };
    assert!(back(&rig), "{}", rig.told());
    assert!(!rig.told().contains("turn_started"), "{}", rig.told());
    let undo = Checkpoint { name: "undo".to_owned(), tree: "t".to_owned() };
    rig.input(Signal::Restored(rig.effect("restore"), Ok(undo)).into());
    assert!(rig.told().contains("rolled_back"), "{}", rig.told());
    assert_eq!(rig.state.data().cut_short, None);
}

/// A task at rest, after a person had a say in it.
fn at_rest(task: TaskSpec) -> Rig {
    let mut rig = Rig::started(task);
    rig.command(Command::Detach { reason: "asked to".to_owned() });
    rig
}

/// Whether what is said to a task at rest is told to whoever takes over before it goes on.
fn hears(rig: &mut Rig, said: Command, successor: DriverSpec) -> Vec<String> {
    rig.command(said);
    assert_eq!(rig.last.rejected, None);
    rig.command(Command::HandOver(successor));
    rig.attach(false);
    let delivered = rig.last.events.iter().filter_map(|event| match &event.kind {
        EventKind::NoteDelivered { note } => Some(note.text.clone()),
        _ => None,
    });
    delivered.collect()
}

fn told(line: &str) -> Command {
    Command::Tell { line: line.to_owned(), question: None }
}

#[test]
fn what_a_person_says_to_a_task_at_rest_reaches_whoever_takes_over_before_it_is_acted_on() {
    let next = || DriverSpec::new("scripted", json!({ "turns": [] }));
    let by = |name: &str, config: Value| TaskSpec {
        driver: DriverSpec::new(name, config),
        ..spec(json!({ "turns": [] }))
    };
    let person = || at_rest(by("user", Value::Null));
    assert_eq!(hears(&mut person(), told("shell make"), next()), ["shell make"]);
    let none: [&str; 0] = [];
    assert_eq!(hears(&mut person(), told("help"), next()), none, "it is about the prompt alone");
    for said in [
        Command::Steer { text: "use make".to_owned() },
        Command::FollowUp { text: "use make".to_owned() },
        Command::Interrupt { note: "use make".to_owned() },
    ] {
        assert_eq!(hears(&mut person(), said, next()), ["use make"]);
    }
    let ask = json!({ "tool": "ask", "input": { "question": "which?\nall?" } });
    let mut rig = at_rest(spec(json!({ "turns": [[ask]] })));
    let answer = Command::Answer { call: call(1), text: "this one".to_owned() };
    assert_eq!(hears(&mut rig, answer, next()), [r#"this one (the answer to "which?\nall?")"#]);
    let step = json!({ "name": "ok", "approve": "Release?" });
    let mut rig = at_rest(by("workflow", json!({ "name": "w", "steps": [step] })));
    assert_eq!(
        hears(&mut rig, told("yes"), next()),
        [r#"yes (the answer to "Release? (yes / no)")"#]
    );
    // What was acted on is not said again.
    let mut rig = person();
    rig.command(told("read a")).attach(false);
    let id = rig.effect("run_tool");
    rig.ended(id.0, ToolResult::ok(""));
    rig.command(Command::Detach { reason: "asked to".to_owned() });
    assert_eq!(hears(&mut rig, told("shell make"), next()), ["shell make"]);
}

#[test]
fn a_line_of_a_chat_at_rest_is_told_once_whoever_takes_over() {
    let chat = |name: &str| {
        DriverSpec::new("llm", json!({ "model": format!("script/{name}"), "chat": true }))
    };
    let waiting = || {
        let mut rig = Rig::started(TaskSpec { driver: chat("a"), ..spec(json!({ "turns": [] })) });
        let id = rig.effect("call_model");
        let said = Part::Text { text: "what next?".to_owned() };
        let message =
            Message { role: Role::Assistant, blocks: vec![Block { part: said, native: None }] };
        let stop = StopReason::EndTurn;
        let (id_of, model) = (String::new(), String::new());
        let reply = Reply { id: id_of, model, message, stop, usage: Usage::default() };
        rig.input(Signal::ModelReplied(id, Box::new(Ok(reply))).into());
        rig.command(Command::Detach { reason: "asked to".to_owned() });
        rig
    };
    let next = DriverSpec::new("scripted", json!({ "turns": [] }));
    assert_eq!(hears(&mut waiting(), told("use make"), next.clone()), ["use make"]);
    let none: [&str; 0] = [];
    assert_eq!(hears(&mut waiting(), told("/done"), next), none, "it is about the chat alone");
    let mut rig = waiting();
    assert_eq!(hears(&mut rig, told("use make"), chat("b")), none);
    let asked = format!("{:?}", rig.last.effects);
    assert_eq!(asked.matches("use make").count(), 1, "{asked}");
}

#[test]
fn a_move_that_a_limit_held_back_reaches_whoever_takes_over() {
    let mut task =
        TaskSpec { driver: DriverSpec::new("user", Value::Null), ..spec(json!({ "turns": [] })) };
    task.budget.max_turns = Some(0);
    let mut rig = Rig::started(task);
    rig.command(told("shell make"));
    assert!(rig.told().ends_with("task_finished budget_exhausted"), "{}", rig.told());
    rig.command(Command::Raise(Budget { max_turns: Some(3), ..Budget::default() }));
    let more = Command::Raise(Budget { max_turns: Some(4), ..Budget::default() });
    let next = DriverSpec::new("scripted", json!({ "turns": [] }));
    assert_eq!(hears(&mut rig, more, next), ["shell make"]);
}
