//! What follows a failed turn: ladders, circles, waits for a model, and what a person is told. Time is a field.

use machine::cause::{Cause, CauseKind, ModelTrouble, Repetition};
use machine::effect::{Effect, InTheWay};
use machine::event::EventKind;
use machine::id::QuestionId;
use machine::input::{Command, Signal};
use machine::message::{ModelCall, ModelFailure, Part, Reply, Retry, StopReason, Usage};
use machine::policy::budget::Budget;
use machine::policy::permission::{Decide, Rule};
use machine::policy::recovery::{Ladder, Rung};
use machine::state::{Ask, SavedState, Standing, State};
use machine::task::{CriterionResult, DriverSpec, Outcome, TaskSpec, Workspace, WorkspaceKind};
use machine::time::{Span, Timestamp};
use machine::tool::{Status, ToolResult};
use machine::verdict::{Checkpoint, Verdict};
use serde_json::{Value, json};

use crate::model::{self, answer, reply};
use crate::rig::{Rig, check_of, registry, shell, spec};

pub(crate) fn ladder(rungs: &[&str]) -> Ladder {
    let rungs = rungs.iter().map(|rung| Rung::read(rung).unwrap()).collect();
    Ladder { rungs, after: 1, most: None }
}

/// A model whose work is checked.
fn checked() -> TaskSpec {
    TaskSpec { acceptance: vec![check_of("make test")], ..model::task() }
}

fn says(text: &str) -> Reply {
    reply(vec![Part::Text { text: text.to_owned() }], StopReason::EndTurn)
}

fn uses(tool: &str, input: Value) -> Reply {
    let part = Part::ToolUse { id: "u".to_owned(), name: tool.to_owned(), input };
    reply(vec![part], StopReason::ToolUse)
}

fn failure(kind: &str, retry: Retry) -> ModelFailure {
    let (kind, message) = (kind.to_owned(), "no".to_owned());
    ModelFailure { kind, retry, message, usage: Usage::default() }
}

fn failed(evidence: &str) -> Verdict {
    Verdict::of(vec![CriterionResult {
        title: "shell: make test".to_owned(),
        passed: false,
        exit: Some(1),
        evidence: evidence.to_owned(),
        ..CriterionResult::default()
    }])
}

/// The model claims, and the claim does not hold.
fn claim(rig: &mut Rig, evidence: &str) {
    answer(rig, Ok(says("done")));
    refuse(rig, evidence);
}

fn refuse(rig: &mut Rig, evidence: &str) {
    let verify = rig.effect("verify");
    rig.input(Signal::Verified(verify, Ok(failed(evidence))).into());
}

/// What the model was last sent.
fn asked(rig: &Rig) -> ModelCall {
    let call = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, .. } => Some(call.clone()),
        _ => None,
    });
    call.unwrap_or_else(|| panic!("a model is asked: {}", rig.told()))
}

fn words(call: &ModelCall) -> String {
    call.messages.iter().map(|message| message.text()).collect::<Vec<_>>().join("\n---\n")
}

fn end(rig: &Rig) -> (Outcome, Cause) {
    let Standing::Finished { outcome, reason } = rig.state.standing() else {
        panic!("not finished: {}", rig.told())
    };
    let found = rig.last.events.iter().find_map(|event| match &event.kind {
        EventKind::TaskFinished { cause, reason: told, exit_code, .. } => {
            assert_eq!((told, *exit_code), (&reason, outcome.exit_code()));
            cause.clone()
        }
        _ => None,
    });
    (outcome, found.unwrap_or_else(|| panic!("a cause: {}", rig.told())))
}

fn chosen(rig: &Rig) -> Vec<String> {
    let told = rig.last.events.iter().filter_map(|event| match &event.kind {
        EventKind::RecoveryChosen { action, attempt, .. } => Some(format!("{attempt} {action}")),
        _ => None,
    });
    told.collect()
}

/// Saves and loads the state, as a crash and a resume do.
fn through_disk(rig: &mut Rig) {
    let saved = serde_json::to_string(&rig.state.save()).unwrap();
    let saved: SavedState = serde_json::from_str(&saved).unwrap();
    rig.state = State::load(&saved, registry()).unwrap();
}

#[test]
fn the_ladder_of_a_failed_verdict_is_walked_and_survives_the_process() {
    let mut task = checked();
    let rungs = ["next_turn", "next_turn", "fresh_session", "hand_over:strong", "escalate"];
    task.recovery.ladders.insert(CauseKind::VerdictFailed, ladder(&rungs));
    let strong = DriverSpec::new("llm", json!({ "model": "script/strong" }));
    task.recovery.drivers.insert("strong".to_owned(), strong);
    let mut rig = Rig::started(task);
    claim(&mut rig, "3 tests failed");
    assert_eq!(chosen(&rig), [] as [&str; 0], "the verdict tells it");
    claim(&mut rig, "3 tests failed");
    assert_eq!(asked(&rig).messages.len(), 5);
    through_disk(&mut rig);
    claim(&mut rig, "3 tests failed");
    assert_eq!(chosen(&rig), ["3 fresh_session"]);
    let fresh = asked(&rig);
    assert_eq!(fresh.messages.len(), 1, "a new conversation");
    let said = words(&fresh);
    assert!(said.starts_with("a goal\n\nThe work is accepted when"), "{said}");
    assert!(said.contains("3 tests failed") && said.contains("try another way"), "{said}");
    through_disk(&mut rig);
    claim(&mut rig, "3 tests failed");
    assert_eq!(chosen(&rig), ["4 hand_over:strong"]);
    assert_eq!(asked(&rig).model, "script/strong");
    assert!(words(&asked(&rig)).contains("3 tests failed"), "{}", words(&asked(&rig)));
    claim(&mut rig, "3 tests failed");
    assert_eq!(chosen(&rig), ["5 escalate"]);
    assert!(rig.state.wants_release(), "nobody attends");
    let asks = rig.state.asks();
    assert!(matches!(&asks[..], [Ask::Escalation { cause: Cause::VerdictFailed { .. }, .. }]));
    through_disk(&mut rig);
    rig.command(Command::Detach { reason: rig.state.release_reason() });
    let EventKind::TaskFinished { outcome, exit_code, cause, .. } =
        &rig.last.events.last().unwrap().kind
    else {
        panic!("{}", rig.told())
    };
    assert_eq!((*outcome, *exit_code), (Outcome::Waiting, 13));
    assert!(matches!(cause, Some(Cause::Escalated { .. })), "{cause:?}");
    // A person says how: the ladder begins at its foot. What was said to another question is no answer.
    let other = Some(QuestionId(7));
    rig.command(Command::Tell { line: "go on".to_owned(), question: other });
    assert_eq!(rig.last.rejected.as_deref(), Some("q7 does not wait any more: q1 is asked now"));
    rig.command(Command::tell("look at the fixture"));
    rig.attach(false);
    assert!(words(&asked(&rig)).contains("look at the fixture"));
    claim(&mut rig, "3 tests failed");
    assert_eq!(chosen(&rig), [] as [&str; 0]);
}

#[test]
fn an_escalated_task_is_given_up_handed_over_or_cancelled() {
    let escalated = || {
        let mut task = checked();
        task.recovery.ladders.insert(CauseKind::VerdictFailed, ladder(&["escalate"]));
        let mut rig = Rig::started(task);
        claim(&mut rig, "no");
        assert!(rig.told().ends_with("recovery_chosen, escalated"), "{}", rig.told());
        rig
    };
    let mut rig = escalated();
    rig.command(Command::tell("give up"));
    assert!(matches!(end(&rig), (Outcome::Failed, Cause::VerdictFailed { .. })));
    let mut rig = escalated();
    let driver = DriverSpec::new("user", json!({}));
    rig.command(Command::HandOver(driver));
    assert!(matches!(rig.state.asks()[..], [Ask::Decision { .. }]), "{}", rig.told());
    let mut rig = escalated();
    rig.command(Command::Cancel { reason: String::new() });
    assert_eq!(end(&rig), (Outcome::Cancelled, Cause::Cancelled));
    let mut rig = escalated();
    rig.command(Command::Steer { text: "try b".to_owned() });
    assert!(words(&asked(&rig)).contains("try b"));
    let mut rig = escalated();
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert!(matches!(rig.state.asks()[..], [Ask::Escalation { .. }]), "it still waits");
    rig.command(Command::tell("go on"));
    assert_eq!(asked(&rig).messages.len(), 3);
}

/// A worktree with a base to go back to.
fn kept(mut task: TaskSpec) -> Rig {
    task.workspace.kind = Some(WorkspaceKind::Worktree);
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task)));
    rig.attach(false);
    let id = rig.effect("open_workspace");
    let workspace = Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some("/tree".to_owned()),
        branch: Some("b".to_owned()),
        base: Some("c0".to_owned()),
    };
    rig.input(Signal::WorkspaceOpened(id, Ok(workspace)).into());
    keep(&mut rig, "base");
    rig
}

/// The checkpoint that is asked for is made.
fn keep(rig: &mut Rig, tree: &str) {
    let id = rig.effect("checkpoint");
    let made = Checkpoint { name: format!("{tree}-{}", id.0), tree: tree.to_owned() };
    rig.input(Signal::Checkpointed(id, Ok(made)).into());
}

#[test]
fn rolling_back_goes_to_the_base_begins_anew_and_is_left_out_where_there_is_none() {
    let mut task = checked();
    task.recovery.ladders.insert(CauseKind::VerdictFailed, ladder(&["rollback", "escalate"]));
    let mut rig = kept(task.clone());
    answer(&mut rig, Ok(says("done")));
    keep(&mut rig, "t1");
    refuse(&mut rig, "no");
    assert_eq!(chosen(&rig), ["1 rollback"]);
    let Some(Effect::Restore { to, in_the_way, .. }) = rig.last.effects.last() else {
        panic!("{}", rig.told())
    };
    assert!(to.starts_with("base-"), "{to}");
    assert_eq!(*in_the_way, InTheWay::SetAside, "nobody may be there to move anything");
    // A crash in between restores again.
    through_disk(&mut rig);
    rig.input(Signal::OwnerLost.into()).attach(false);
    let id = rig.effect("restore");
    let undo = Checkpoint { name: "undo".to_owned(), tree: "t1".to_owned() };
    rig.input(Signal::Restored(id, Ok(undo)).into());
    let said = words(&asked(&rig));
    assert!(said.contains("try another way") && said.contains("put back"), "{said}");
    let mut rig = Rig::started(task);
    claim(&mut rig, "no");
    assert_eq!(chosen(&rig), ["2 escalate"], "in place there is nothing to go back to");
}

#[test]
fn the_same_failure_is_stuck_only_when_nothing_else_is_left_to_try() {
    let mut rig = Rig::started(checked());
    for took in ["0.1s", "0.2s", "0.3s"] {
        claim(&mut rig, &format!("1 test failed in {took}"));
    }
    let (outcome, cause) = end(&rig);
    assert_eq!(outcome, Outcome::Stuck);
    assert_eq!(cause, Cause::NoProgress { what: Repetition::SameFailure });
    let mut task = checked();
    task.recovery.ladders.insert(CauseKind::VerdictFailed, ladder(&["next_turn", "fresh_session"]));
    let mut rig = Rig::started(task);
    let mut claims = 0;
    while !matches!(rig.state.standing(), Standing::Finished { .. }) {
        claim(&mut rig, "1 test failed");
        claims += 1;
    }
    // One in the old conversation, then as many as it takes in new ones.
    assert_eq!((claims, end(&rig).0), (5, Outcome::Stuck));
}

#[test]
fn claims_over_an_unchanged_tree_and_failures_in_turn_are_stuck() {
    let mut task = checked();
    task.recovery.stuck.same_failure = 0;
    let mut rig = kept(task.clone());
    for n in 0..4 {
        answer(&mut rig, Ok(says("done")));
        keep(&mut rig, "same");
        refuse(&mut rig, &format!("{n} failed"));
    }
    assert_eq!(end(&rig).1, Cause::NoProgress { what: Repetition::UnchangedTree });
    let mut rig = kept(task);
    let mut claims = 0;
    while !matches!(rig.state.standing(), Standing::Finished { .. }) {
        answer(&mut rig, Ok(says("done")));
        keep(&mut rig, &format!("t{claims}"));
        refuse(&mut rig, ["a fails", "b fails"][claims % 2]);
        claims += 1;
    }
    assert_eq!((claims, end(&rig).1), (8, Cause::NoProgress { what: Repetition::Cycle }));
}

/// A model that uses the same tool again and again; how many requests it took until the end.
fn requests(
    mut rig: Rig,
    mut turn: impl FnMut(&mut Rig, usize) -> Option<()>,
) -> (usize, Outcome, Cause) {
    for n in 1..=1_000 {
        if turn(&mut rig, n).is_none() || matches!(rig.state.standing(), Standing::Finished { .. })
        {
            let (outcome, cause) = end(&rig);
            return (n, outcome, cause);
        }
    }
    panic!("endless: {}", rig.told());
}

fn run_tool(rig: &mut Rig, command: &str, result: ToolResult, takes: i64) {
    answer(rig, Ok(uses("shell", json!({ "command": command }))));
    let id = rig.effect("run_tool");
    rig.now += takes;
    rig.ended(id.0, result);
}

fn allowed() -> TaskSpec {
    let mut task = model::task();
    task.policy.rules =
        vec![Rule { tool: "shell".to_owned(), decide: Decide::Allow, ..Rule::default() }];
    task
}

#[test]
fn the_stuck_suite_wastes_no_more_requests_than_its_limits_say() {
    let no = Cause::NoProgress { what: Repetition::SameAction };
    let denied = |mut task: TaskSpec| {
        task.policy.rules =
            vec![Rule { tool: "shell".to_owned(), decide: Decide::Deny, ..Rule::default() }];
        task
    };
    let mut table = Vec::new();
    let mut row = |name: &str, bound: usize, got: (usize, Outcome, Cause), cause: Cause| {
        table.push(format!("{name:34} {:3} of at most {bound:3}  {}", got.0, got.1.word()));
        assert_eq!((got.1, got.2), (Outcome::Stuck, cause), "{name}");
        assert!(got.0 <= bound, "{name}: {} requests", got.0);
    };
    let blocked = requests(Rig::started(denied(model::task())), |rig, _| {
        answer(rig, Ok(uses("shell", json!({ "command": "rm -r x" }))));
        Some(())
    });
    row("a blocked tool", 5, blocked, Cause::NoProgress { what: Repetition::BlockedCall });
    let wandering = requests(Rig::started(denied(model::task())), |rig, n| {
        answer(rig, Ok(uses("shell", json!({ "command": format!("rm -r x{n}") }))));
        Some(())
    });
    row("ever other blocked calls", 10, wandering, Cause::Denied { count: 10 });
    let same = requests(Rig::started(allowed()), |rig, n| {
        let took = format!("error: no such file (in 0.{n}s)");
        run_tool(rig, "cat x", ToolResult::ended(Status::Error, took), 1);
        Some(())
    });
    row("the same error", 5, same, no.clone());
    let errors = requests(Rig::started(allowed()), |rig, n| {
        run_tool(rig, &format!("cat {n}"), ToolResult::ended(Status::Error, "no"), 1);
        Some(())
    });
    row("ever other errors", 20, errors, Cause::ToolErrors { count: 20 });
    let timeouts = requests(Rig::started(allowed()), |rig, n| {
        run_tool(rig, &format!("sleep {n}"), ToolResult::ended(Status::TimedOut, ""), 60_000);
        Some(())
    });
    row("calls that run out of time", 20, timeouts, Cause::TimedOut { count: 20 });
    let question = {
        let mut rig = Rig::new();
        rig.command(Command::Start(Box::new(model::task())));
        rig.attach(true).open_workspace();
        requests(rig, |rig, n| {
            answer(rig, Ok(uses("ask", json!({ "question": "which port?" }))));
            let text = format!("{n}");
            rig.command(Command::Answer { call: crate::rig::call(n as u64), text });
            Some(())
        })
    };
    row("an endless question", 4, question, Cause::NoProgress { what: Repetition::SameQuestion });
    let rounds = requests(Rig::started(allowed()), |rig, n| {
        run_tool(rig, ["make", "git stash"][n % 2], ToolResult::ok("nothing to do"), 1);
        Some(())
    });
    row("two actions in turn", 8, rounds, Cause::NoProgress { what: Repetition::Cycle });
    let verdicts = requests(Rig::started(checked()), |rig, n| {
        claim(rig, ["a", "b"][n % 2]);
        Some(())
    });
    row("a verdict that alternates", 8, verdicts, Cause::NoProgress { what: Repetition::Cycle });
    println!("requests wasted until the end\n{}", table.join("\n"));
}

#[test]
fn polling_and_work_that_moves_on_are_no_circles() {
    let mut rig = Rig::started(allowed());
    // It sleeps, and what it waits for is not there yet.
    for _ in 0..40 {
        run_tool(&mut rig, "sleep 30; gh run view", ToolResult::ok("in progress"), 30_000);
    }
    // A test that fails in ever other ways, between edits.
    for n in 0..40 {
        run_tool(&mut rig, "make test", ToolResult::ended(Status::Error, format!("{n} left")), 900);
        run_tool(&mut rig, &format!("sed -i {n}"), ToolResult::ok(""), 5);
    }
    // The same test, green, between edits.
    for n in 0..40 {
        run_tool(&mut rig, "make test", ToolResult::ok("ok"), 900);
        run_tool(&mut rig, &format!("sed -i a{n}"), ToolResult::ok(""), 5);
    }
    assert_eq!(rig.state.standing(), Standing::Working);
}

#[test]
fn compaction_and_a_persons_word_forget_what_was_done_before() {
    let mut rig = Rig::started(allowed());
    for _ in 0..5 {
        for _ in 0..3 {
            run_tool(&mut rig, "cat x", ToolResult::ok("same"), 1);
        }
        answer(&mut rig, Ok(uses("shell", json!({ "command": "cat x" }))));
        let id = rig.effect("run_tool");
        rig.command(Command::Steer { text: "look again".to_owned() });
        rig.ended(id.0, ToolResult::ok("same"));
    }
    assert_eq!(rig.state.standing(), Standing::Working);
    for _ in 0..4 {
        run_tool(&mut rig, "cat x", ToolResult::ok("same"), 1);
    }
    assert_eq!(end(&rig).0, Outcome::Stuck);
    let mut task = allowed();
    task.driver.config = json!({ "model": "script/x", "context": 100 });
    let mut rig = Rig::started(task);
    for _ in 0..5 {
        for _ in 0..3 {
            run_tool(&mut rig, "cat x", ToolResult::ok("same"), 1);
        }
        let mut full = uses("shell", json!({ "command": "cat x" }));
        full.usage = Usage { input: Some(90), ..Usage::default() };
        answer(&mut rig, Ok(full));
        let id = rig.effect("run_tool");
        rig.ended(id.0, ToolResult::ok("same"));
        assert!(asked(&rig).compacts);
        answer(&mut rig, Ok(says("a summary")));
    }
    assert_eq!(rig.state.standing(), Standing::Working);
}

#[test]
fn a_circle_can_be_handed_over_or_begun_anew_before_it_is_the_end() {
    let mut task = allowed();
    task.recovery.ladders.insert(CauseKind::NoProgress, ladder(&["fresh_session", "escalate"]));
    let mut rig = Rig::started(task);
    for _ in 0..5 {
        run_tool(&mut rig, "cat x", ToolResult::ok("same"), 1);
    }
    assert_eq!(chosen(&rig), ["1 fresh_session"]);
    let said = words(&asked(&rig));
    assert!(said.contains("came 5 times in a row: shell: cat x"), "{said}");
    for _ in 0..5 {
        run_tool(&mut rig, "cat x", ToolResult::ok("same"), 1);
    }
    assert_eq!(chosen(&rig), ["2 escalate"]);
}

#[test]
fn a_model_that_failed_for_good_is_recovered_from_by_its_kind() {
    for (kind, trouble, rungs, expected) in [
        ("auth", ModelTrouble::Auth, &["escalate"][..], "1 escalate"),
        ("context_overflow", ModelTrouble::ContextOverflow, &["fresh_session"], "1 fresh_session"),
        ("malformed", ModelTrouble::BadReply, &["next_turn"], "1 next_turn"),
    ] {
        let mut task = model::task();
        task.recovery.ladders.insert(CauseKind::ModelFailed, ladder(rungs));
        let mut rig = Rig::started(task);
        for _ in 0..10 {
            if !chosen(&rig).is_empty() {
                break;
            }
            answer(&mut rig, Err(failure(kind, Retry::Never)));
        }
        assert_eq!(chosen(&rig), [expected], "{kind}");
        if rungs == ["escalate"] {
            rig.command(Command::tell("go on"));
        }
        // The driver is asked again, and the second time it is over.
        for _ in 0..10 {
            if matches!(rig.state.standing(), Standing::Finished { .. }) {
                break;
            }
            if !rig.state.asks().is_empty() {
                rig.command(Command::tell("give up"));
                break;
            }
            answer(&mut rig, Err(failure(kind, Retry::Never)));
        }
        let cause = Cause::ModelFailed { failure: trouble };
        assert_eq!(end(&rig), (Outcome::Failed, cause), "{kind}");
    }
    let mut rig = Rig::started(model::task());
    answer(&mut rig, Ok(reply(Vec::new(), StopReason::Refusal)));
    let refused = Cause::ModelFailed { failure: ModelTrouble::Refusal };
    assert_eq!(end(&rig), (Outcome::Failed, refused));
}

#[test]
fn a_row_of_steps_can_be_followed_by_somebody_who_thinks() {
    let steps = json!({ "name": "w", "steps": [{ "name": "a", "tool": "shell", "parameters": { "command": "false" } }] });
    let mut task = spec(json!(null));
    task.driver = DriverSpec::new("workflow", steps);
    task.recovery.ladders.insert(CauseKind::GaveUp, ladder(&["hand_over:strong"]));
    task.recovery.drivers.insert("strong".to_owned(), model::task().driver);
    let mut rig = Rig::started(task);
    let id = rig.effect("run_tool");
    rig.ended(id.0, ToolResult::ended(Status::Error, "oh no"));
    assert_eq!(chosen(&rig), ["1 hand_over:strong"]);
    let said = words(&asked(&rig));
    assert!(said.contains("oh no"), "{said}");
}

#[test]
fn a_driver_that_gives_up_again_at_once_is_not_asked_for_ever() {
    for rungs in [&["next_turn"][..], &["next_turn", "fresh_session", "next_turn"]] {
        let mut task = spec(json!({ "turns": [], "end": "give_up" }));
        task.recovery.ladders.insert(CauseKind::GaveUp, ladder(rungs));
        let rig = Rig::started(task);
        assert_eq!(end(&rig), (Outcome::Failed, Cause::GaveUp));
        assert_eq!(chosen(&rig).len(), rungs.len());
    }
}

fn waits(rig: &Rig) -> Option<i64> {
    rig.last.effects.iter().find_map(|effect| match effect {
        Effect::SetTimer { at, .. } => Some(at.0),
        _ => None,
    })
}

const HOURS: i64 = 5 * 60 * 60 * 1000;

/// A task whose model takes no requests for five hours.
fn limited(task: TaskSpec) -> Rig {
    let mut rig = Rig::started(task);
    let limit = failure("rate_limited", Retry::After(u64::try_from(HOURS).unwrap()));
    answer(&mut rig, Err(limit));
    rig
}

#[test]
fn hours_of_a_usage_limit_are_waited_out_once_over_a_crash() {
    let mut rig = limited(model::task());
    let at = waits(&rig).unwrap();
    assert!(at >= rig.now + HOURS);
    assert!(rig.state.wants_release());
    rig.command(Command::Detach { reason: rig.state.release_reason() });
    let told = &rig.last.events.last().unwrap().kind;
    assert!(matches!(told, EventKind::TaskFinished { cause: Some(Cause::UsageLimit), .. }));
    through_disk(&mut rig);
    rig.now += HOURS / 2;
    rig.attach(false);
    assert_eq!(waits(&rig), Some(at), "it waits the rest");
    rig.input(Signal::OwnerLost.into());
    rig.now = at + 1;
    rig.attach(false);
    assert_eq!(rig.told(), "[call_model#5] attached, model_called");
    answer(&mut rig, Ok(says("done")));
    assert_eq!(rig.state.data().spend.wasted_requests(), 1);
}

#[test]
fn a_wait_can_be_paused_cancelled_and_outlasts_no_budget() {
    let mut rig = limited(model::task());
    let timer = rig.effect("set_timer");
    rig.command(Command::Pause);
    rig.now += 2 * HOURS;
    rig.input(Signal::TimerFired(timer).into());
    assert_eq!(rig.told(), "[] ", "paused");
    rig.command(Command::Resume);
    assert_eq!(rig.told(), "[call_model#4] resumed, model_called");
    let mut rig = limited(model::task());
    rig.command(Command::Cancel { reason: String::new() });
    assert_eq!(end(&rig), (Outcome::Cancelled, Cause::Cancelled));
    let mut task = model::task();
    task.budget = Budget { max_time: Some(Span::seconds(3600)), ..Budget::default() };
    let mut rig = limited(task);
    let cause = Cause::Budget { axes: vec!["max_time".to_owned()] };
    assert_eq!(end(&rig), (Outcome::BudgetExhausted, cause));
    let raise = Budget { max_time: Some(Span::seconds(10 * 3600)), ..Budget::default() };
    rig.command(Command::Raise(raise)).attach(false);
    assert!(!rig.told().contains("call_model"), "not sooner than asked for: {}", rig.told());
    assert!(waits(&rig).is_some());
}

#[test]
fn a_clock_that_jumps_neither_hangs_a_wait_nor_makes_it_a_storm() {
    // Back by a year while nobody drives it: it waits no longer than it was asked to.
    let mut rig = limited(model::task());
    rig.input(Signal::OwnerLost.into());
    rig.now -= 400 * 24 * 3600 * 1000;
    assert_eq!(rig.state.rests_until(Timestamp(rig.now)), None, "it can be taken up");
    rig.attach(false);
    assert!(waits(&rig).unwrap() <= rig.now + HOURS + HOURS / 20 + 1);
    // Back while it is driven: the timer that fires ends the wait.
    let mut rig = limited(model::task());
    let timer = rig.effect("set_timer");
    rig.now -= 400 * 24 * 3600 * 1000;
    rig.input(Signal::TimerFired(timer).into());
    assert_eq!(rig.told(), "[call_model#4] model_called");
    // Forward: asked once, and again only after the next wait.
    let mut rig = limited(model::task());
    for asked in 2..=12u64 {
        let timer = rig.effect("set_timer");
        rig.now += 400 * 24 * 3600 * 1000;
        rig.input(Signal::TimerFired(timer).into());
        let calls = rig.last.effects.iter().filter(|e| matches!(e, Effect::CallModel { .. }));
        assert_eq!(calls.count(), 1);
        answer(&mut rig, Err(failure("rate_limited", Retry::After(HOURS as u64))));
        if let Standing::Finished { .. } = rig.state.standing() {
            assert_eq!(asked, 10, "as often as a question may be asked");
            let cause = Cause::ModelFailed { failure: ModelTrouble::RateLimited };
            assert_eq!(end(&rig), (Outcome::Failed, cause));
            assert_eq!(rig.state.data().spend.wasted["rate_limited"], 10);
            return;
        }
    }
    panic!("asked for ever");
}

#[test]
fn requests_wasted_in_the_whole_task_are_bounded_by_it() {
    let mut task = allowed();
    task.recovery.waits.max_wasted = 6;
    let mut rig = Rig::started(task);
    let mut wasted = 0;
    // Every second request fails: no question fails often, but all of them together do.
    while !matches!(rig.state.standing(), Standing::Finished { .. }) {
        answer(&mut rig, Err(failure("overloaded", Retry::Backoff)));
        wasted += 1;
        if let Standing::Finished { .. } = rig.state.standing() {
            break;
        }
        let timer = rig.effect("set_timer");
        rig.now += 60_000;
        rig.input(Signal::TimerFired(timer).into());
        run_tool(&mut rig, &format!("step {wasted}"), ToolResult::ok(""), 1);
    }
    assert_eq!((wasted, end(&rig).0), (6, Outcome::Failed));
}

#[test]
fn edge_case_15_progress_is_told_at_each_interval_once_over_a_restart() {
    let mut task = allowed();
    task.recovery.progress.every = 3;
    let mut rig = Rig::started(task);
    let mut told = Vec::new();
    for n in 1..=10u64 {
        run_tool(&mut rig, &format!("step {n}"), ToolResult::ok(""), 1);
        told.extend(rig.last.events.iter().filter_map(|event| match &event.kind {
            EventKind::Progress { turn, actions, changes, .. } => {
                assert_eq!((actions.len(), *changes), (3, 3));
                Some(*turn)
            }
            _ => None,
        }));
        through_disk(&mut rig);
        if n == 4 {
            rig.input(Signal::OwnerLost.into()).attach(false);
        }
    }
    assert_eq!(told, [3, 6, 9]);
}

#[test]
fn edge_case_20_a_model_that_answers_nonsense_for_ever_is_bounded() {
    let bad = requests(Rig::started(model::task()), |rig, _| {
        answer(rig, Err(failure("tool_args_invalid", Retry::Backoff)));
        let of = |is: fn(&Effect) -> bool| rig.last.effects.iter().find(|e| is(e)).map(Effect::id);
        if let Some(timer) = of(|effect| matches!(effect, Effect::SetTimer { .. })) {
            rig.now += 60_000;
            rig.input(Signal::TimerFired(timer).into());
            return Some(());
        }
        // After three tries it is told what is wrong with its answers, at once.
        of(|effect| matches!(effect, Effect::CallModel { .. })).map(drop)
    });
    let cause = Cause::ModelFailed { failure: ModelTrouble::BadReply };
    assert_eq!(bad, (9, Outcome::Failed, cause));
    let unknown = requests(Rig::started(model::task()), |rig, n| {
        answer(rig, Ok(uses(&format!("tool{n}"), json!({}))));
        Some(())
    });
    assert_eq!(unknown, (20, Outcome::Stuck, Cause::ToolErrors { count: 20 }));
    let empty = requests(Rig::started(checked()), |rig, _| {
        claim(rig, "nothing there");
        Some(())
    });
    assert_eq!(empty.0, 3);
}

#[test]
fn a_plugin_that_repeats_itself_or_talks_nonsense_is_bounded() {
    let plugin = json!({ "plugin": { "name": "p", "command": ["p"] }, "config": null });
    let task = || {
        let mut task = allowed();
        task.driver = DriverSpec::new("external:p", plugin.clone());
        Rig::started(task)
    };
    let consulted = |rig: &mut Rig, answer: Result<Value, String>| {
        let id = rig.effect("consult");
        rig.input(Signal::Consulted(id, answer).into());
    };
    let same = requests(task(), |rig, _| {
        let act = json!({ "tool": "shell", "parameters": { "command": "make" } });
        consulted(rig, Ok(json!({ "decision": "act", "actions": [act] })));
        let id = rig.effect("run_tool");
        rig.ended(id.0, ToolResult::ok("nothing to do"));
        Some(())
    });
    let circle = Cause::NoProgress { what: Repetition::SameAction };
    assert_eq!(same, (5, Outcome::Stuck, circle));
    let nonsense = requests(task(), |rig, _| {
        consulted(rig, Ok(json!("what?")));
        Some(())
    });
    let bad = Cause::ModelFailed { failure: ModelTrouble::BadReply };
    assert_eq!(nonsense, (3, Outcome::Failed, bad));
    let dead = requests(task(), |rig, _| {
        consulted(rig, Err("it exited with 1".to_owned()));
        Some(())
    });
    assert_eq!(dead, (2, Outcome::Failed, Cause::WorkerDied));
}

#[test]
fn the_cause_says_what_was_missing_around_the_task() {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(model::task())));
    rig.attach(false);
    let id = rig.effect("open_workspace");
    rig.input(Signal::WorkspaceOpened(id, Err("no room".to_owned())).into());
    let part = machine::cause::Surroundings::Workspace;
    assert_eq!(end(&rig), (Outcome::Failed, Cause::Environment { part }));
    let mut rig = Rig::started(checked());
    answer(&mut rig, Ok(says("done")));
    let id = rig.effect("verify");
    rig.input(Signal::Verified(id, Err("no sandbox".to_owned())).into());
    let part = machine::cause::Surroundings::Verdict;
    assert_eq!(end(&rig), (Outcome::Failed, Cause::Environment { part }));
    let mut rig = Rig::started(spec(json!({ "turns": [[shell("x")]] })));
    rig.input(Signal::OwnerLost.into()).attach(false);
    rig.command(Command::Detach { reason: "bye".to_owned() });
    let told = &rig.last.events.last().unwrap().kind;
    assert!(
        matches!(told, EventKind::TaskFinished { cause: Some(Cause::InDoubt), .. }),
        "{told:?}"
    );
}
