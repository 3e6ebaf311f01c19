//! Scenarios of checkpoints: at the start, before turns, and when the work is handed over.

use machine::effect::{Effect, Worker};
use machine::event::EventKind;
use machine::input::{Command, Signal};
use machine::policy::permission::Profile;
use machine::state::{Phase, Standing};
use machine::task::{
    Checkpoints, Criterion, CriterionResult, Outcome, TaskSpec, Workspace, WorkspaceKind,
};
use machine::tool::ToolResult;
use machine::verdict::{Checkpoint, Place, Verdict};
use serde_json::json;

use crate::rig::{Rig, check_of, read, shell, spec};

/// A task in a worktree, as far as its workspace being open.
fn opened(task: TaskSpec) -> Rig {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task)));
    rig.attach(false);
    let id = rig.effect("open_workspace");
    let workspace = Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some("/w".to_owned()),
        branch: None,
        base: Some("c0".to_owned()),
    };
    rig.input(Signal::WorkspaceOpened(id, Ok(workspace)).into());
    rig
}

fn worker(turns: serde_json::Value) -> TaskSpec {
    let mut task = spec(json!({ "turns": turns, "author": "worker" }));
    task.policy.profile = Some(Profile::Open);
    task
}

/// Why the one checkpoint in the last output is made.
fn reason(rig: &Rig) -> (String, Worker) {
    let mut found = rig.last.effects.iter().filter_map(|effect| match effect {
        Effect::Checkpoint { reason, worker, .. } => Some((reason.clone(), *worker)),
        _ => None,
    });
    let first = found.next().unwrap();
    assert_eq!(found.next(), None);
    first
}

fn kept(rig: &mut Rig, name: &str) {
    let id = rig.effect("checkpoint");
    let made = Checkpoint { name: name.to_owned(), tree: format!("tree of {name}") };
    rig.input(Signal::Checkpointed(id, Ok(made)).into());
}

fn checked(rig: &mut Rig, passed: bool, touched: u64) {
    let id = rig.effect("verify");
    let result =
        CriterionResult { title: "shell: t".to_owned(), passed, ..CriterionResult::default() };
    let verdict = Verdict {
        place: Place::CleanCheckout,
        touched_total: touched,
        ..Verdict::of(vec![result])
    };
    rig.input(Signal::Verified(id, Ok(verdict)).into());
}

fn ended(rig: &Rig) -> Option<(Outcome, String)> {
    match rig.state.standing() {
        Standing::Finished { outcome, reason } => Some((outcome, reason)),
        _ => None,
    }
}

#[test]
fn the_base_is_kept_before_the_first_decision_and_the_worker_is_stopped_before_the_last() {
    let mut task = worker(json!([[shell("a")]]));
    task.acceptance = vec![check_of("t")];
    let mut rig = opened(task);
    assert_eq!(rig.told(), "[checkpoint#2] workspace_opened");
    assert_eq!(reason(&rig), ("start".to_owned(), Worker::Stays));
    assert_eq!(rig.state.data().phase, Phase::KeepingBase);
    kept(&mut rig, "base");
    // Nothing can have changed since, so the first turn needs none of its own.
    assert_eq!(rig.told(), "[run_tool#3] checkpointed, turn_started, tool_started c1");
    rig.ended(3, ToolResult::ok(""));
    assert_eq!(reason(&rig), ("handed over".to_owned(), Worker::Stops));
    kept(&mut rig, "done");
    let (base, frozen) = rig
        .last
        .effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Verify { base, frozen, .. } => Some((base.clone(), frozen.clone())),
            _ => None,
        })
        .unwrap();
    assert_eq!((base.unwrap().name, frozen.unwrap().name), ("base".to_owned(), "done".to_owned()));
    checked(&mut rig, true, 1);
    assert_eq!(ended(&rig).map(|(outcome, _)| outcome), Some(Outcome::Verified));
}

#[test]
fn a_turn_of_a_worker_that_may_change_something_waits_for_its_checkpoint() {
    let turns = json!([[shell("a")], [read("x"), shell("b"), shell("c")], [read("y")]]);
    let mut rig = opened(worker(turns));
    kept(&mut rig, "base");
    rig.ended(3, ToolResult::ok(""));
    // Reading goes on meanwhile; both commands wait, for one checkpoint.
    assert_eq!(reason(&rig), ("before turn 2".to_owned(), Worker::Stays));
    assert!(
        rig.told().contains("run_tool#4") || rig.told().contains("run_tool#5"),
        "{}",
        rig.told()
    );
    let kinds = |rig: &Rig| rig.told().matches("run_tool").count();
    assert_eq!(kinds(&rig), 1);
    kept(&mut rig, "before");
    assert_eq!(kinds(&rig), 2);
}

#[test]
fn steps_that_were_written_down_and_prove_nothing_are_not_slowed_down() {
    let mut rig = opened(spec(json!({ "turns": [[shell("a")], [shell("b")]] })));
    assert_eq!(rig.told(), "[run_tool#2] workspace_opened, turn_started, tool_started c1");
    rig.ended(2, ToolResult::ok(""));
    assert_eq!(
        rig.told(),
        "[run_tool#3] tool_ended c1 ok, turn_ended, turn_started, tool_started c2"
    );
    let mut task = spec(json!({ "turns": [[shell("a")], [shell("b")]] }));
    task.workspace.checkpoints = Some(Checkpoints::Turns);
    let mut rig = opened(task);
    kept(&mut rig, "base");
    rig.ended(3, ToolResult::ok(""));
    assert_eq!(reason(&rig).0, "before turn 2");
    let mut task = worker(json!([[shell("a")], [shell("b")]]));
    task.workspace.checkpoints = Some(Checkpoints::Claims);
    let mut rig = opened(task);
    kept(&mut rig, "base");
    rig.ended(3, ToolResult::ok(""));
    assert_eq!(
        rig.told(),
        "[run_tool#4] tool_ended c1 ok, turn_ended, turn_started, tool_started c2"
    );
}

#[test]
fn a_crash_a_pause_and_an_interrupt_find_every_checkpoint_again() {
    let mut task = worker(json!([[shell("a")], [shell("b")]]));
    task.acceptance = vec![check_of("t")];
    let mut rig = opened(task);
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(reason(&rig).0, "start");
    rig.command(Command::Interrupt { note: "wait".to_owned() });
    assert_eq!(reason(&rig).0, "start", "{}", rig.told());
    rig.command(Command::Pause);
    let id = rig.state.data().pending.keys().next().copied().unwrap();
    let base = Checkpoint { name: "base".to_owned(), tree: "t".to_owned() };
    rig.input(Signal::Checkpointed(id, Ok(base)).into());
    assert_eq!(rig.told(), "[] checkpointed");
    rig.command(Command::Resume);
    let first = rig.effect("run_tool").0;
    rig.ended(first, ToolResult::ok(""));
    assert_eq!(reason(&rig).0, "before turn 2");
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(reason(&rig).0, "before turn 2");
    kept(&mut rig, "again");
    let second = rig.effect("run_tool").0;
    rig.ended(second, ToolResult::ok(""));
    assert_eq!(reason(&rig).0, "handed over");
    kept(&mut rig, "handed");
    rig.input(Signal::OwnerLost.into()).attach(false);
    // Whoever takes the task up cannot know what happened to the files meanwhile.
    assert_eq!(reason(&rig).0, "handed over");
    rig.command(Command::Cancel { reason: String::new() });
    assert_eq!(ended(&rig).map(|(outcome, _)| outcome), Some(Outcome::Cancelled));
    assert!(rig.state.data().pending.is_empty());
}

#[test]
fn a_workspace_that_cannot_be_kept_ends_the_task_with_the_reason() {
    let mut rig = opened(worker(json!([[shell("a")]])));
    let id = rig.effect("checkpoint");
    rig.input(Signal::Checkpointed(id, Err("a file is too large".to_owned())).into());
    let why = "the workspace cannot be kept: a file is too large".to_owned();
    assert_eq!(ended(&rig), Some((Outcome::Failed, why)));
}

#[test]
fn a_workers_claim_over_an_unchanged_tree_is_no_proof() {
    for (author, outcome) in [("worker", Outcome::Completed), ("operator", Outcome::Verified)] {
        let mut task = spec(json!({ "turns": [], "author": author }));
        task.acceptance = vec![check_of("t")];
        let mut rig = opened(task);
        kept(&mut rig, "base");
        kept(&mut rig, "done");
        checked(&mut rig, true, 0);
        let (ended, reason) = ended(&rig).unwrap();
        assert_eq!(ended, outcome);
        assert!(reason.contains("nothing was changed"), "{reason}");
    }
}

#[test]
fn what_must_fail_first_needs_a_worktree() {
    let mut task = spec(json!({ "turns": [[shell("a")]] }));
    task.acceptance = vec![check_of("t")];
    assert!(Criterion::require_red_first(&mut task.acceptance));
    let rig = Rig::started(task);
    let (outcome, reason) = ended(&rig).unwrap();
    assert_eq!(outcome, Outcome::Failed);
    assert!(reason.starts_with("red_first compares"), "{reason}");
}

/// The one checkpoint that is being made finds a pipe.
fn unkeepable(rig: &mut Rig) {
    let id = rig.effect("checkpoint");
    rig.input(Signal::Unkeepable(id, "incomplete: p is a pipe".to_owned()).into());
}

#[test]
fn what_cannot_be_kept_before_a_turn_holds_nobody_up_and_is_told_once() {
    let mut rig = opened(worker(json!([[shell("a")], [shell("b")], [shell("c")]])));
    kept(&mut rig, "base");
    rig.ended(3, ToolResult::ok(""));
    unkeepable(&mut rig);
    let second = rig.effect("run_tool").0;
    assert!(rig.told().contains("unkept"), "{}", rig.told());
    let notes = |rig: &Rig| rig.state.data().notes.len();
    assert_eq!(notes(&rig), 1);
    assert!(rig.state.data().notes[0].text.contains("p is a pipe"));
    rig.ended(second, ToolResult::ok(""));
    let delivered = notes(&rig);
    unkeepable(&mut rig);
    rig.effect("run_tool");
    assert_eq!(notes(&rig), delivered, "the same reason is not told again");
}

#[test]
fn what_cannot_be_kept_refuses_the_claim_of_a_worker_and_ends_steps_that_were_written_down() {
    for author in ["worker", "operator"] {
        let mut task = spec(json!({ "turns": [[shell("a")]], "author": author }));
        task.policy.profile = Some(Profile::Open);
        task.acceptance = vec![check_of("t")];
        let mut rig = opened(task);
        kept(&mut rig, "base");
        rig.ended(3, ToolResult::ok(""));
        unkeepable(&mut rig);
        match author {
            "worker" => {
                assert!(rig.told().contains("verdict_failed"), "{}", rig.told());
                // It claims again, and what it hands over can be kept now.
                kept(&mut rig, "done");
                checked(&mut rig, true, 1);
                assert_eq!(ended(&rig).map(|(outcome, _)| outcome), Some(Outcome::Verified));
            }
            _ => {
                let why = "the workspace cannot be kept: incomplete: p is a pipe".to_owned();
                assert_eq!(ended(&rig), Some((Outcome::Failed, why)));
            }
        }
    }
}

#[test]
fn a_report_says_that_nothing_changed_only_where_a_checkpoint_says_so() {
    let turns = |turn: serde_json::Value| json!([[turn.clone()], [turn.clone()], [turn]]);
    for (turns, changed) in [(turns(shell("a")), None), (turns(read("x")), Some(false))] {
        let mut task = worker(turns);
        task.recovery.progress.every = 2;
        let mut rig = opened(task);
        kept(&mut rig, "base");
        let mut told = Vec::new();
        while told.is_empty() {
            let is_kept = rig.told().contains("[checkpoint#");
            if is_kept {
                kept(&mut rig, "base");
            } else {
                let call = rig.effect("run_tool").0;
                rig.ended(call, ToolResult::ok(""));
            }
            told.extend(rig.last.events.iter().filter_map(|event| match &event.kind {
                EventKind::Progress { changed, .. } => Some(*changed),
                _ => None,
            }));
        }
        assert_eq!(told, [changed]);
    }
}
