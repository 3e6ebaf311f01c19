//! A restart of the machine is told to whoever goes on, and nobody goes on where nobody knows what was lost.

use machine::input::{Command, Signal};
use machine::policy::budget::Budget;
use machine::state::{Phase, Standing};
use machine::task::{Workspace, WorkspaceKind};
use machine::time::Span;
use machine::tool::ToolResult;
use serde_json::json;

use crate::rig::{Rig, check_of, read, shell, spec};

/// A task whose process was lost together with the machine, while it read a file.
fn cut_off(author: &str, brought_back: Result<u32, String>) -> Rig {
    let turns = json!([[read("a")], [shell("b")]]);
    let mut rig = Rig::started(spec(json!({ "author": author, "turns": turns })));
    rig.input(Signal::OwnerLost.into());
    rig.input(Signal::Restarted(brought_back).into());
    rig
}

#[test]
fn the_driver_is_told_and_goes_on() {
    for (count, words) in [(0, "at work. What"), (1, "One file that"), (7, "7 files that")] {
        let mut rig = cut_off("worker", Ok(count));
        assert_eq!(rig.told(), "[] restarted");
        assert!(rig.state.data().notes.back().is_some_and(|note| note.text.contains("restarted")));
        let note = &rig.state.data().notes.back().expect("a note").text;
        assert!(note.contains(words), "{note}");
        assert_eq!(rig.attach(false).told(), "[run_tool#3] attached, tool_started c1");
        rig.ended(3, ToolResult::ok("text"));
        assert!(rig.told().contains(words), "{}", rig.told());
    }
}

#[test]
fn a_folder_that_was_gone_is_not_called_a_restart() {
    let mut rig = Rig::started(spec(json!({ "author": "worker", "turns": [[read("a")]] })));
    rig.input(Signal::OwnerLost.into());
    rig.input(Signal::FolderGone(Ok(2)).into());
    let note = &rig.state.data().notes.back().expect("a note").text;
    assert!(note.contains("workspace was removed") && note.contains("2 files that"), "{note}");
    assert!(!note.contains("restarted"), "{note}");
}

#[test]
fn where_nobody_knows_or_nobody_can_look_a_person_looks_first() {
    for (author, brought_back) in [("worker", Err("no room".to_owned())), ("operator", Ok(0))] {
        for attended in [false, true] {
            let mut rig = cut_off(author, brought_back.clone());
            assert_eq!(rig.told(), "[] restarted, paused");
            assert_eq!(rig.state.standing(), Standing::Paused);
            assert_eq!(rig.attach(attended).told(), "[] attached");
            assert!(rig.state.wants_release(), "no process waits while somebody looks");
            let reason = rig.state.release_reason();
            assert!(reason.ends_with("look at the files, then resume it"), "{reason}");
            rig.command(Command::Detach { reason });
            assert!(rig.told().contains("task_finished waiting"), "{}", rig.told());
            assert_eq!(rig.command(Command::Resume).told(), "[] resumed");
            assert_eq!(rig.attach(attended).told(), "[run_tool#3] attached, tool_started c1");
            assert!(!rig.state.wants_release());
        }
    }
}

#[test]
fn a_claim_that_is_being_checked_rests_on_its_checkpoint_and_nobody_is_asked_again() {
    let mut task = spec(json!({ "turns": [] }));
    task.acceptance = vec![check_of("true")];
    let mut rig = Rig::started(task);
    assert!(matches!(rig.state.data().phase, Phase::Verifying { .. }), "{}", rig.told());
    rig.input(Signal::OwnerLost.into());
    rig.input(Signal::FolderGone(Ok(3)).into());
    assert_eq!((rig.told().as_str(), rig.state.data().notes.len()), ("[] restarted", 0));
}

#[test]
fn a_workspace_that_was_put_back_is_made_ready_again_before_anybody_goes_on() {
    let turns = json!([[read("a")], [read("b")]]);
    let mut task = spec(json!({ "author": "worker", "turns": turns }));
    task.workspace.setup = vec!["npm ci".to_owned()];
    let mut rig = Rig::started(task);
    rig.input(Signal::OwnerLost.into());
    let base = rig.state.data().workspace.clone();
    rig.input(Signal::FolderGone(Ok(3)).into());
    assert!(rig.attach(true).told().starts_with("[open_workspace#"), "{}", rig.told());
    // What cannot be made ready is tried again by whoever resumes.
    let id = rig.effect("open_workspace");
    rig.input(Signal::WorkspaceOpened(id, Err("npm ci failed".to_owned())).into());
    assert_eq!(rig.state.standing(), Standing::Paused);
    assert!(rig.state.release_reason().contains("npm ci failed"), "{}", rig.state.release_reason());
    assert!(rig.command(Command::Resume).told().contains("open_workspace"), "{}", rig.told());
    let other = Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some("/elsewhere".to_owned()),
        branch: None,
        base: Some("older".to_owned()),
    };
    rig.input(Signal::WorkspaceOpened(rig.effect("open_workspace"), Ok(other)).into());
    assert!(rig.told().contains("tool_started c1"), "{}", rig.told());
    assert_eq!(rig.state.data().workspace, base, "where it works and what it began at stay");
    assert!(!rig.state.data().unready);
}

#[test]
fn after_a_loss_of_records_a_person_looks_first_whoever_decides() {
    for author in ["worker", "operator"] {
        let turns = json!([[read("a")], [shell("b")]]);
        let mut rig = Rig::started(spec(json!({ "author": author, "turns": turns })));
        // The records end where a process still has the task in hand, and the next one finds that.
        rig.input(Signal::RecordsLost { lost: 3, child: None }.into());
        assert_eq!(rig.told(), "[] records_lost, paused");
        rig.input(Signal::OwnerLost.into());
        assert_eq!(rig.state.standing(), Standing::Paused);
        assert_eq!(rig.state.data().records_lost, 3);
        let reason = rig.state.release_reason();
        assert!(reason.contains("lost the last 3 records of it"), "{reason}");
        assert!(rig.state.data().notes.back().is_some_and(|note| note.text.contains("twice")));
        assert_eq!(rig.attach(true).told(), "[] attached");
        assert!(rig.state.wants_release(), "no process waits while somebody looks");
        rig.command(Command::Detach { reason });
        assert_eq!(rig.command(Command::Resume).told(), "[] resumed");
        assert_eq!(rig.attach(true).told(), "[run_tool#3] attached, tool_started c1");
    }
}

/// A damaged journal may be mended days after the task was last driven.
#[test]
fn time_of_which_the_records_were_lost_is_not_the_tasks() {
    let mut task = spec(json!({ "turns": [[read("a")]] }));
    task.budget.max_time = Some(Span(60_000));
    let mut rig = Rig::started(task);
    let spent = rig.state.data().spend.millis;
    rig.now += 86_400_000;
    rig.input(Signal::RecordsLost { lost: 3, child: None }.into());
    rig.input(Signal::OwnerLost.into());
    assert_eq!(rig.state.data().spend.millis, spent);
    rig.command(Command::Resume);
    assert_eq!(rig.attach(true).told(), "[set_timer#4 run_tool#5] attached, tool_started c1");
}

#[test]
fn a_task_that_had_ended_before_its_records_were_lost_waits_once_it_is_to_go_on() {
    let mut task = spec(json!({ "turns": [[read("a")], [read("b")]] }));
    task.budget.max_turns = Some(1);
    let mut rig = Rig::started(task);
    rig.ended(rig.effect("run_tool").0, ToolResult::ok("text"));
    assert!(matches!(rig.state.standing(), Standing::Finished { .. }), "{}", rig.told());
    rig.input(Signal::RecordsLost { lost: 1, child: None }.into());
    assert_eq!(rig.told(), "[] records_lost");
    rig.command(Command::Raise(Budget { max_turns: Some(5), ..Budget::default() }));
    rig.attach(true);
    assert_eq!(rig.state.standing(), Standing::Paused, "{}", rig.told());
    assert!(rig.state.release_reason().contains("lost the last record of it"));
}
