//! A pause and a drain hold whatever would begin, also what waited for a report; once the task may move it goes on exactly
//! there.

use machine::agent::{AgentEnd, AgentTurn};
use machine::cause::CauseKind;
use machine::effect::Effect;
use machine::id::EffectId;
use machine::input::{Command, Signal};
use machine::policy::budget::Budget;
use machine::policy::permission::{Policy, Profile};
use machine::state::{Pending, State};
use machine::task::{CriterionResult, DriverSpec, TaskSpec, Workspace, WorkspaceKind};
use machine::time::Span;
use machine::tool::ToolResult;
use machine::verdict::{Checkpoint, Verdict};
use serde_json::{Value, json};

use crate::recovery::ladder;
use crate::rig::{Rig, check_of, read, registry, shell, spec};

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
