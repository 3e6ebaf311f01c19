//! A verified task whose change goes into a branch, or comes back.

use machine::event::EventKind;
use machine::input::{Command, Signal};
use machine::queue::{Integration, Rebase};
use machine::state::Standing;
use machine::task::{CriterionResult, Outcome, TaskSpec, Workspace, WorkspaceKind};
use machine::verdict::{Checkpoint, Verdict};
use serde_json::json;

use crate::rig::{Rig, check_of, spec};

fn result(passed: bool) -> CriterionResult {
    CriterionResult { title: "shell: t".to_owned(), passed, ..CriterionResult::default() }
}

fn kept(name: &str) -> Checkpoint {
    Checkpoint { name: name.to_owned(), tree: format!("tree-{name}") }
}

fn reopen(rebase: Option<Rebase>) -> Command {
    Command::Reopen { reason: "it broke".to_owned(), results: vec![result(false)], rebase }
}

fn integrated() -> Command {
    Command::NoteIntegration(Integration {
        branch: "main".to_owned(),
        commit: "c1".to_owned(),
        tree: "t1".to_owned(),
    })
}

/// A task that works in a worktree and claims, over and over.
fn task() -> TaskSpec {
    TaskSpec { acceptance: vec![check_of("t")], ..spec(json!({ "turns": [] })) }
}

fn verify(rig: &mut Rig) {
    let id = rig.effect("checkpoint");
    rig.input(Signal::Checkpointed(id, Ok(kept("claim"))).into());
    let id = rig.effect("verify");
    let verdict = Verdict { diff_lines: 7, ..Verdict::of(vec![result(true)]) };
    rig.input(Signal::Verified(id, Ok(verdict)).into());
}

fn verified() -> Rig {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task()))).attach(false);
    let workspace = Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some("/w".to_owned()),
        branch: None,
        base: Some("base".to_owned()),
    };
    let id = rig.effect("open_workspace");
    rig.input(Signal::WorkspaceOpened(id, Ok(workspace)).into());
    let id = rig.effect("checkpoint");
    rig.input(Signal::Checkpointed(id, Ok(kept("start"))).into());
    verify(&mut rig);
    assert!(matches!(rig.state.standing(), Standing::Finished { outcome: Outcome::Verified, .. }));
    rig
}

#[test]
fn a_reopened_task_is_at_rest_and_claims_again_when_taken_up() {
    let mut rig = verified();
    let proof = rig.state.data().proof;
    assert_eq!(proof.unwrap().diff_lines, 7);
    rig.command(reopen(None));
    assert_eq!(rig.told(), "[] reopened, criterion_checked");
    assert_eq!(rig.state.standing(), Standing::Working);
    rig.attach(false);
    assert_eq!(rig.told(), "[checkpoint#5] attached, claimed");
    verify(&mut rig);
    assert!(matches!(rig.state.standing(), Standing::Finished { outcome: Outcome::Verified, .. }));
    assert_eq!(rig.state.data().proof, proof, "the first time counts");
}

#[test]
fn the_work_goes_on_on_the_branch_and_the_base_moves_with_the_files() {
    let mut rig = verified();
    let rebase = Rebase {
        branch: "main".to_owned(),
        commit: "tip".to_owned(),
        base: kept("tip"),
        combined: kept("both"),
    };
    rig.command(reopen(Some(rebase)));
    rig.attach(false);
    assert_eq!(rig.told(), "[restore#5] attached");
    // The process dies before the files are in place: nothing has moved.
    rig.input(Signal::OwnerLost.into());
    assert_ne!(rig.state.data().base, Some(kept("tip")));
    rig.attach(false);
    let id = rig.effect("restore");
    rig.input(Signal::Restored(id, Ok(kept("before"))).into());
    let said = rig.last.events.iter().find_map(|event| match &event.kind {
        EventKind::NoteDelivered { note } => Some(note.text.clone()),
        _ => None,
    });
    assert!(said.unwrap().contains("branch main as it is now (commit tip)"), "{}", rig.told());
    assert!(rig.told().contains("rebased, note_delivered"), "{}", rig.told());
    let data = rig.state.data();
    assert_eq!((&data.base, &data.rebase), (&Some(kept("tip")), &None));
    assert_eq!(data.workspace.as_ref().unwrap().base.as_deref(), Some("tip"));
}

#[test]
fn only_a_verified_task_is_reopened_or_integrated_and_an_integrated_one_stays() {
    let mut rig = Rig::started(spec(json!({ "turns": [] })));
    for command in [reopen(None), integrated()] {
        rig.command(command);
        let why = rig.last.rejected.clone().unwrap();
        assert_eq!(why, "the task is not verified: it ended as completed");
    }
    let mut rig = verified();
    let nothing =
        Command::Reopen { reason: "r".to_owned(), results: vec![result(true)], rebase: None };
    rig.command(nothing);
    assert!(rig.last.rejected.is_some());
    rig.command(integrated());
    assert_eq!(rig.told(), "[] integrated");
    for command in [reopen(None), integrated()] {
        rig.command(command);
        let why = rig.last.rejected.clone().unwrap();
        assert_eq!(why, "the task is integrated in main already");
    }
}
