//! What a person who watches a task reads.

use machine::event::{Event, EventKind};
use machine::id::{CallId, TaskId};
use machine::input::{Command, Input, Resolution, Signal};
use machine::message::{StopReason, Usage};
use machine::task::{CriterionResult, Workspace, WorkspaceKind};
use machine::time::Timestamp;
use machine::tool::{Status, ToolResult};
use serde_json::{Value, json};
use view::transcript::{Detail, Transcript};

use crate::scene::{Scene, asking, shell, workflow};
use machine::verdict::Verdict;

const DETAIL: Detail = Detail { starts: true, inner: false, output: 2, failure: 5, change: 4 };

#[test]
fn a_run_reads_from_the_goal_to_the_verdict() {
    let mut asked = workflow(&["echo 1", "false"]);
    asked.acceptance.push(shell("test -s out.txt"));
    asked.budget.max_turns = None;
    let mut scene = Scene::begin(asked);
    scene.end(ToolResult::ok("a\nb\nc\n"));
    scene.put(Command::Steer { text: "be quick".to_owned() });
    scene.end(ToolResult::ok(""));
    let id = scene.next_effect();
    let result = CriterionResult {
        title: "shell: test -s out.txt".to_owned(),
        passed: false,
        exit: Some(1),
        evidence: "no such file\n".to_owned(),
        millis: 12,
        ..CriterionResult::default()
    };
    scene.put(Signal::Verified(id, Ok(Verdict::of(vec![result]))));
    insta::assert_snapshot!(scene.transcript(DETAIL), @"
    task k3v9: make the numbers add up
      driver workflow, 1 acceptance criterion
      works in /work (in place): there is no way back, and checks run where the worker works
    c1 s0 (shell: echo 1)
    c1 ok: s0 (100ms)
      | … 1 more line before
      | b
      | c
    c2 s1 (shell: false)
    steered: be quick
    c2 ok: s1 (200ms)
    claims to be finished: the workflow: 2 steps done
    failed, exit 1: shell: test -s out.txt (12ms)
      | no such file
    not accepted: 1 criterion failed
    failed: the workflow is finished, but acceptance failed: shell: test -s out.txt (exit code 1): no such file
    ");
}

#[test]
fn a_crash_and_what_a_person_says_of_it() {
    let mut asked = workflow(&["make install"]);
    asked.policy = asking();
    let mut scene = Scene::begin(asked);
    scene.put(Command::approve(CallId(1)));
    scene.put(Signal::OwnerLost);
    scene.put(Command::Attach { owner: 2, attended: false });
    scene.put(Command::Resolve { call: CallId(1), how: Resolution::Did });
    insta::assert_snapshot!(scene.transcript(Detail { starts: false, inner: true, ..DETAIL }), @"
    task k3v9: make the numbers add up
      driver workflow, no acceptance criteria
    taken up by process 1
      works in /work (in place): there is no way back, and checks run where the worker works
    turn 1: 1 action
    ? c1 wants to run shell (asked by rule 1: look first)
        command: make install
        hash: 48e390454c3b
    c1 approved
    ? c1 is in doubt: shell was under way when it was cut off; did it run?
        command: make install
    the process that drove it was lost; 1 call in doubt
    taken up by process 2
    c1 resolved: it ran to its end
    c1 ok: s0
      | a person says that it ran to its end
    claims to be finished: the workflow: 1 step done
    completed: the workflow: 1 step done
    ");
}

#[test]
fn commands_and_refusals_are_told() {
    let mut scene = Scene::begin(workflow(&["sleep 9", "true"]));
    scene.put(Command::Pause);
    scene.put(Command::Pause);
    scene.put(Command::Resume);
    scene.put(Command::FollowUp { text: "then the docs".to_owned() });
    scene.put(Command::Raise(machine::policy::budget::Budget {
        max_turns: Some(7),
        ..Default::default()
    }));
    let stale =
        Input::ToolEnded(machine::id::EffectId(99), ToolResult::ended(Status::Error, "late"));
    scene.put(stale);
    scene.put(Command::Cancel { reason: String::new() });
    insta::assert_snapshot!(scene.transcript(DETAIL), @"
    task k3v9: make the numbers add up
      driver workflow, no acceptance criteria
      works in /work (in place): there is no way back, and checks run where the worker works
    c1 s0 (shell: sleep 9)
    paused
    refused: the task is paused already
    resumed
    follow-up queued: then the docs
    budget raised: max-turns 7
    c1 aborted: s0 (700ms)
      | the task was cancelled
    cancelled
    ");
}

#[test]
fn an_interrupt_without_a_note_is_told_as_one() {
    let mut scene = Scene::begin(workflow(&["make"]));
    scene.put(Command::Interrupt { note: String::new() });
    let told = scene.transcript(Detail { inner: true, ..DETAIL });
    assert!(told.contains("\nthe driver was told that it was interrupted\n"), "{told}");
}

#[test]
fn a_claim_does_not_repeat_what_was_just_said() {
    let mut transcript = Transcript::new(DETAIL);
    let mut told = |kind| {
        let task = TaskId("t".to_owned());
        view::join(&transcript.lines(&Event { seq: 1, time: Timestamp(0), task, kind }))
    };
    let claim = |summary: &str| EventKind::Claimed { summary: summary.to_owned() };
    assert_eq!(told(claim("All\ndone.")), "claims to be finished: All\n  done.\n");
    let said = EventKind::ModelReplied {
        model: "m".to_owned(),
        text: "All\ndone.".to_owned(),
        tools: Vec::new(),
        stop: StopReason::EndTurn,
        usage: Usage::default(),
    };
    assert_eq!(told(said), "says: All\n  done.\n");
    assert_eq!(told(claim("All\ndone.")), "claims to be finished\n");
    assert_eq!(told(claim("Nearly.")), "claims to be finished: Nearly.\n");
}

#[test]
fn what_a_call_changed_is_told_with_its_end() {
    let mut transcript = Transcript::new(DETAIL);
    let mut told = |kind| {
        let task = TaskId("t".to_owned());
        view::join(&transcript.lines(&Event { seq: 1, time: Timestamp(0), task, kind }))
    };
    let path = Some("/w".to_owned());
    let kind = WorkspaceKind::InPlace;
    let workspace = Workspace { path, kind, branch: None, base: None };
    told(EventKind::WorkspaceOpened { workspace });
    let mut ended = |input: Value, result: ToolResult| {
        let (tool, label) = ("write".to_owned(), "claude Edit".to_owned());
        let began = EventKind::ToolStarted {
            call: CallId(1),
            tool: tool.clone(),
            label: label.clone(),
            input: input.into(),
            allowed_by: String::new(),
        };
        let ended =
            EventKind::ToolEnded { call: CallId(1), tool, label, result, tool_use: String::new() };
        told(began) + &told(ended)
    };
    let edit =
        json!({ "file_path": "/w/a.rs", "old_string": "a\nb", "new_string": "a\n\u{1b}c\td" });
    let edit = json!({ "paths": ["/w/a.rs"], "input": edit });
    assert_eq!(
        ended(edit.clone(), ToolResult::ok("updated")),
        "c1 claude Edit (write: a.rs)\nc1 ok: claude Edit (0ms)\n  - b\n  + \\x1bc    d\n  | updated\n"
    );
    let failed = ended(edit, ToolResult::ended(Status::Error, "no such text"));
    assert!(!failed.contains("  - b"), "what failed changed nothing: {failed}");
    let whole = |path: &str, old: &str, new: &str| json!({ "type": "diff", "path": path, "oldText": old, "newText": new });
    let files = [whole("/w/x", "1\n2\n3\n", "1\ntwo\n3\n"), whole("/w/y", "4\n", "5\n6\n7\n")];
    assert_eq!(
        ended(
            json!({ "paths": ["/w/x", "/w/y"], "input": { "content": files } }),
            ToolResult::ok("")
        ),
        "c1 claude Edit (write: x, y)\nc1 ok: claude Edit (0ms)\n  x\n  - 2\n  + two\n  y\n  … 4 more lines of the change\n"
    );
}

#[test]
fn a_task_that_goes_on_names_files_and_its_agent_as_the_process_before_did() {
    let (path, kind) = (Some("/w".to_owned()), WorkspaceKind::InPlace);
    let workspace = Workspace { path, kind, branch: None, base: None };
    let transcript = Transcript::new(DETAIL);
    let mut transcript = transcript.going_on(Some(workspace), Some("claude".to_owned()));
    let mut told = |kind| {
        let task = TaskId("t".to_owned());
        view::join(&transcript.lines(&Event { seq: 1, time: Timestamp(0), task, kind }))
    };
    let began = EventKind::ToolStarted {
        call: CallId(1),
        tool: "read".to_owned(),
        label: "claude Read".to_owned(),
        input: json!({ "path": "/w/a.rs" }).into(),
        allowed_by: String::new(),
    };
    assert_eq!(told(began), "c1 claude Read (read: a.rs)\n");
    let (from, to) = ("agent".to_owned(), "user".to_owned());
    let changed = EventKind::DriverChanged { from, to, model: None, agent: None };
    assert_eq!(told(changed), "driver agent (claude) handed over to user\n");
}
