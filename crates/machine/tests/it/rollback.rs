//! Going back: journaled first, performed by whoever is there, and never half done in silence.

use machine::driver::Wait;
use machine::effect::{Effect, InTheWay};
use machine::input::{Command, Signal};
use machine::policy::budget::Budget;
use machine::state::{Phase, Standing};
use machine::task::Outcome;
use machine::tool::ToolResult;
use machine::verdict::Checkpoint;
use serde_json::json;

use crate::rig::{Rig, read, shell, spec};

fn to(name: &str) -> Command {
    Command::RollBack { to: name.to_owned() }
}

fn undo() -> Result<Checkpoint, String> {
    Ok(Checkpoint { name: "before".to_owned(), tree: "tree".to_owned() })
}

fn restored(rig: &mut Rig, how: Result<Checkpoint, String>) {
    let pending = &rig.state.data().pending;
    let found = pending.iter().find(|(_, p)| **p == machine::state::Pending::Restore);
    let id = *found.expect("a restore is under way").0;
    rig.input(Signal::Restored(id, how).into());
}

fn working() -> Rig {
    Rig::started(spec(json!({ "turns": [[shell("a")], [shell("b")]] })))
}

#[test]
fn what_runs_is_stopped_first_and_the_driver_is_told_after() {
    let mut rig = working();
    rig.command(to("abcdefghijkl"));
    assert_eq!(
        rig.told(),
        "[cancel#2 restore#3] roll_back_asked, tool_ended c1 aborted, turn_ended"
    );
    let Some(Effect::Restore { in_the_way, .. }) = rig.last.effects.last() else {
        panic!("{}", rig.told())
    };
    assert_eq!(*in_the_way, InTheWay::Refused, "somebody asked, and can move it");
    rig.command(to("other"));
    assert_eq!(
        rig.told(),
        "[] rejected rejected: the workspace is going back already: wait until it has"
    );
    // Half way between two states is nobody's wish.
    rig.command(Command::Interrupt { note: "stop".to_owned() });
    assert!(!rig.told().contains("cancel"), "{}", rig.told());
    restored(&mut rig, undo());
    let told = rig.told();
    assert!(told.contains("rolled_back") && told.contains("(checkpoint abcdefghij)"), "{told}");
    assert!(told.contains("turn_started"), "the driver goes on: {told}");
}

#[test]
fn a_pause_does_not_hold_it_up_and_is_not_ended_by_it() {
    let mut rig = working();
    rig.command(Command::Pause);
    rig.command(to("x"));
    assert!(rig.told().contains("restore#"), "{}", rig.told());
    restored(&mut rig, undo());
    assert_eq!(rig.told(), "[] rolled_back");
    assert_eq!(rig.state.standing(), Standing::Paused);
}

#[test]
fn at_rest_it_is_noted_and_done_by_whoever_takes_the_task_up_also_after_a_crash() {
    let mut rig = working();
    rig.ended(2, ToolResult::ok(""));
    rig.command(Command::Detach { reason: "asked to".to_owned() });
    rig.command(to("x"));
    assert!(rig.told().starts_with("[]"), "nobody is there to do it: {}", rig.told());
    assert_eq!(rig.state.data().going_back.as_deref(), Some("x"));
    for _ in 0..2 {
        rig.attach(false);
        assert!(rig.told().contains("restore#"), "{}", rig.told());
        assert!(!rig.told().contains("run_tool"), "first of all: {}", rig.told());
        rig.input(Signal::OwnerLost.into());
        assert!(matches!(rig.state.data().phase, Phase::RollingBack { .. }));
    }
    rig.attach(false);
    restored(&mut rig, undo());
    assert!(rig.told().contains("rolled_back"), "{}", rig.told());
    assert_eq!(rig.state.data().going_back, None);
}

#[test]
fn a_process_that_is_about_to_let_go_leaves_it_to_the_next() {
    let mut rig = working();
    rig.command(Command::Drain);
    rig.command(to("x"));
    assert!(!rig.told().contains("restore"), "{}", rig.told());
    rig.command(Command::Detach { reason: "asked to".to_owned() });
    rig.attach(true);
    assert!(rig.told().contains("restore#"), "{}", rig.told());
}

#[test]
fn a_task_that_ended_goes_back_in_its_files_alone() {
    for outcome in [Outcome::Cancelled, Outcome::Completed] {
        let mut rig = working();
        if outcome == Outcome::Cancelled {
            rig.command(Command::Cancel { reason: String::new() });
        } else {
            rig.ended(2, ToolResult::ok(""));
            rig.ended(3, ToolResult::ok(""));
        }
        rig.attach(false);
        assert!(rig.told().contains("the task has ended"), "{}", rig.told());
        rig.command(to("x"));
        assert_eq!(rig.told(), "[] roll_back_asked");
        assert!(rig.state.wants_release(), "nothing of it goes on by itself");
        rig.attach(true);
        assert!(rig.told().contains("restore#"), "{}", rig.told());
        assert!(!rig.state.wants_release(), "not while its files change");
        // The process dies; the next one does it.
        rig.input(Signal::OwnerLost.into());
        rig.attach(false);
        restored(&mut rig, undo());
        assert_eq!(rig.told(), "[] rolled_back");
        assert_eq!(rig.state.data().attachment, None);
        assert!(
            matches!(rig.state.standing(), Standing::Finished { outcome: o, .. } if o == outcome)
        );
        rig.attach(false);
        assert!(rig.told().contains("the task has ended"), "{}", rig.told());
    }
}

#[test]
fn a_task_that_goes_on_after_its_end_goes_back_first() {
    let mut limited = spec(json!({ "turns": [[shell("a")], [shell("b")]] }));
    limited.budget.max_turns = Some(1);
    let mut rig = Rig::started(limited);
    rig.ended(2, ToolResult::ok(""));
    assert!(rig.told().contains("budget_exhausted"), "{}", rig.told());
    rig.command(to("x"));
    rig.command(Command::Raise(Budget { max_turns: Some(9), ..Budget::default() }));
    rig.attach(false);
    assert!(rig.told().contains("restore#"), "{}", rig.told());
    assert!(!rig.told().contains("turn_started"), "{}", rig.told());
    restored(&mut rig, undo());
    assert!(rig.told().contains("turn_started"), "{}", rig.told());
}

#[test]
fn what_cannot_be_done_pauses_the_task_and_says_why() {
    let mut rig = working();
    rig.command(to("x"));
    restored(&mut rig, Err("incomplete: pipe is a pipe".to_owned()));
    assert_eq!(rig.told(), "[] roll_back_failed, paused");
    assert_eq!(rig.state.standing(), Standing::Paused);
    assert!(!matches!(rig.state.data().phase, Phase::Waiting(Wait::Results { .. })));
    rig.command(Command::Resume);
    assert!(rig.told().contains("turn_started"), "{}", rig.told());
    let mut rig = working();
    rig.command(Command::Cancel { reason: String::new() });
    rig.command(to("x")).attach(false);
    restored(&mut rig, Err("no".to_owned()));
    assert_eq!(rig.told(), "[] roll_back_failed");
    assert_eq!(rig.state.data().attachment, None);
}

#[test]
fn what_a_limit_held_back_is_still_to_be_done_after_it() {
    let step = json!({ "name": "s", "tool": "shell", "parameters": { "command": "s" } });
    let each = json!({ "name": "each", "foreach": "[1, 2, 3]", "steps": [step], "max_parallel": 2, "on_error": "skip" });
    let mut task = spec(json!({ "name": "w", "steps": [each] }));
    task.driver.name = "workflow".to_owned();
    task.budget = Budget { max_turns: Some(1), ..Budget::default() };
    let mut rig = Rig::started(task);
    rig.ended(3, ToolResult::ok(""));
    assert!(rig.state.data().held.is_some(), "the third has to wait: {}", rig.told());
    rig.command(to("x"));
    restored(&mut rig, undo());
    assert!(rig.told().contains("budget_exhausted"), "{}", rig.told());
    rig.command(Command::Raise(Budget { max_turns: Some(9), ..Budget::default() }));
    rig.attach(false);
    assert!(rig.told().contains("run_tool#5"), "the third begins: {}", rig.told());
    rig.ended(5, ToolResult::ok(""));
    assert!(rig.told().contains("task_finished completed"), "{}", rig.told());
}

#[test]
fn what_a_worker_wished_for_before_it_is_not_done_after() {
    let worker =
        |turns| json!({ "driver": "scripted", "config": { "turns": turns, "author": "worker" } });
    let drivers = json!([worker(json!([[read("a")]])), worker(json!([[read("b")], [read("c")]]))]);
    let mut task = spec(json!({ "drivers": drivers }));
    task.driver.name = "race".to_owned();
    task.budget = Budget { max_turns: Some(1), ..Budget::default() };
    let mut rig = Rig::started(task);
    rig.ended(3, ToolResult::ok(""));
    assert!(rig.state.data().held.is_some(), "{} {:?}", rig.told(), rig.state.data().calls);
    rig.command(to("x"));
    rig.command(Command::Raise(Budget { max_turns: Some(9), ..Budget::default() }));
    restored(&mut rig, undo());
    assert!(rig.told().contains("tool_ended c3 skipped"), "{}", rig.told());
    assert!(!rig.told().contains("run_tool#"), "{}", rig.told());
}
