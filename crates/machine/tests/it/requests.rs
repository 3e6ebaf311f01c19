//! Scenarios of calls that a worker asks for while it decides.

use std::sync::Arc;

use machine::effect::Effect;
use machine::id::EffectId;
use machine::input::{Command, Resolution, Signal, Withdrawal};
use machine::policy::budget::Budget;
use machine::policy::permission::{Decide, Policy, Rule, Unattended};
use machine::state::{Phase, Standing};
use machine::task::{DriverSpec, Outcome, TaskSpec};
use machine::tool::ToolResult;
use serde_json::{Value, json};

use crate::rig::{Rig, call, spec};

fn task(rules: &[(&str, Decide)]) -> TaskSpec {
    let mut task = spec(json!(null));
    task.driver = DriverSpec::new(
        "external:x",
        json!({ "plugin": { "name": "x", "command": ["x"] }, "config": null }),
    );
    let rule = |(tool, decide): &(&str, Decide)| Rule {
        tool: (*tool).to_owned(),
        decide: *decide,
        ..Rule::default()
    };
    task.policy = Policy { rules: rules.iter().map(rule).collect(), ..Policy::default() };
    task
}

/// A task whose plugin is being consulted, by effect 2.
fn consulting(task: TaskSpec) -> Rig {
    let rig = Rig::started(task);
    assert_eq!(rig.told(), "[consult#2] workspace_opened");
    rig
}

impl Rig {
    fn request(&mut self, key: &str, tool: &str, input: Value) -> &mut Rig {
        let (key, tool) = (key.to_owned(), tool.to_owned());
        self.input(Signal::Requested { key, tool, input: Arc::new(input) }.into())
    }

    fn shell(&mut self, key: &str, command: &str) -> &mut Rig {
        self.request(key, "shell", json!({ "command": command }))
    }

    fn withdraw(&mut self, key: &str, how: Withdrawal) -> &mut Rig {
        self.input(Signal::Withdrawn { key: key.to_owned(), how }.into())
    }

    /// The answers of the last output: key, then the result or the refusal.
    fn answers(&self) -> Vec<String> {
        let said = |effect: &Effect| match effect {
            Effect::AnswerRequest { key, answer: Ok(result), .. } => {
                Some(format!("{key} {}: {}", result.status.word(), result.text))
            }
            Effect::AnswerRequest { key, answer: Err(why), .. } => Some(format!("{key} no: {why}")),
            _ => None,
        };
        self.last.effects.iter().filter_map(said).collect()
    }

    fn claim(&mut self, consult: u64) -> &mut Rig {
        self.input(Signal::Consulted(EffectId(consult), Ok(json!({ "decision": "claim" }))).into())
    }
}

const ALLOW: &[(&str, Decide)] = &[("shell", Decide::Allow)];

#[test]
fn a_request_is_judged_run_and_answered_and_the_driver_goes_on_deciding() {
    let mut rig = consulting(task(ALLOW));
    rig.shell("k1", "ls");
    assert_eq!(rig.told(), "[run_tool#3] tool_started c1");
    rig.ended(3, ToolResult::ok("files"));
    assert_eq!(rig.told(), "[answer_request#4] tool_ended c1 ok");
    assert_eq!(rig.answers(), ["k1 ok: files"]);
    assert_eq!(rig.state.data().spend.tool_calls, 1);
    assert!(rig.state.data().calls.is_empty());
    rig.claim(2);
    assert_eq!(rig.told(), "[] claimed, task_finished completed");
}

#[test]
fn an_unsafe_request_is_asked_about_or_refused_when_nobody_attends() {
    let mut rig = consulting(task(&[]));
    rig.shell("k1", "ls");
    assert_eq!(rig.told(), "[answer_request#3] tool_ended c1 denied");
    assert!(rig.answers()[0].contains("nobody attends"), "{:?}", rig.answers());

    let mut attended = Rig::new();
    attended.command(Command::Start(Box::new(task(&[])))).attach(true).open_workspace();
    attended.shell("k1", "ls");
    assert_eq!(attended.told(), "[] approval_requested c1");
    assert!(matches!(attended.state.standing(), Standing::AwaitingPerson { .. }));
    attended.command(Command::approve(call(1)));
    assert_eq!(attended.told(), "[run_tool#3] approval_decided, tool_started c1");
    attended.ended(3, ToolResult::ok("files"));
    assert_eq!(attended.answers(), ["k1 ok: files"]);
}

#[test]
fn no_tool_approves_and_what_does_not_exist_is_an_error() {
    let mut rig = consulting(task(&[("*", Decide::Allow)]));
    rig.request("k1", "approve", json!({ "call": "*" }));
    assert_eq!(rig.told(), "[answer_request#3] tool_ended c1 error");
    rig.shell("k2", "ls").request("k3", "shell", json!({ "command": "ls", "cwd": "/" }));
    assert!(rig.answers()[0].contains("no parameter \"cwd\""), "{:?}", rig.answers());
}

#[test]
fn one_key_is_one_call_with_one_answer_and_another_call_under_it_is_refused() {
    let mut rig = consulting(task(ALLOW));
    rig.shell("k1", "make");
    rig.shell("k1", "make");
    assert_eq!(rig.told(), "[] ");
    rig.shell("k1", "rm");
    assert!(rig.answers()[0].starts_with("k1 no: the key \"k1\" was used for another call"));
    rig.ended(3, ToolResult::ok("made"));
    assert_eq!(rig.answers(), ["k1 ok: made"]);
    rig.shell("k1", "make");
    assert_eq!(rig.answers(), ["k1 ok: made"]);
    assert_eq!(rig.state.data().spend.tool_calls, 1);
}

#[test]
fn a_worker_may_ask_only_while_it_decides() {
    let mut rig = Rig::started(spec(json!({ "turns": [[crate::rig::shell("a")]] })));
    rig.shell("k1", "ls");
    assert_eq!(rig.told(), "[answer_request#3] rejected");
    assert!(rig.answers()[0].contains("not at work"), "{:?}", rig.answers());
    rig.ended(2, ToolResult::ok(""));
    rig.shell("k2", "ls");
    assert_eq!(rig.answers(), ["k2 no: the task has ended: completed"]);
}

#[test]
fn what_is_not_answered_when_the_driver_has_decided_is_stopped() {
    let mut rig = consulting(task(ALLOW));
    rig.shell("k1", "sleep");
    rig.claim(2);
    assert_eq!(
        rig.told(),
        "[cancel#3 answer_request#4] tool_ended c1 aborted, claimed, task_finished completed"
    );
}

#[test]
fn a_paused_task_begins_no_request_and_a_cancelled_one_answers_it() {
    let mut rig = consulting(task(ALLOW));
    rig.command(Command::Pause).shell("k1", "ls");
    assert_eq!(rig.told(), "[] ");
    rig.command(Command::Resume);
    assert!(rig.told().contains("tool_started c1"), "{}", rig.told());
    rig.shell("k2", "ls").command(Command::Cancel { reason: String::new() });
    let answers = rig.answers();
    assert_eq!(
        answers,
        ["k1 aborted: the task was cancelled", "k2 aborted: the task was cancelled"]
    );
}

#[test]
fn budgets_bind_requests_and_a_raised_one_lets_the_driver_decide_anew() {
    let mut limited = task(ALLOW);
    limited.budget = Budget { max_tool_calls: Some(1), ..Budget::default() };
    let mut rig = consulting(limited);
    rig.shell("k1", "a").shell("k2", "b");
    assert_eq!(rig.told(), "[] ");
    rig.ended(3, ToolResult::ok(""));
    assert_eq!(rig.answers(), ["k1 ok: ", "k2 skipped: the budget was exhausted"]);
    assert!(matches!(
        rig.state.standing(),
        Standing::Finished { outcome: Outcome::BudgetExhausted, .. }
    ));
    let more = Budget { max_tool_calls: Some(5), ..Budget::default() };
    rig.command(Command::Raise(more)).attach(false);
    assert!(rig.told().starts_with("[consult#"), "{}", rig.told());
}

#[test]
fn denied_requests_in_a_row_end_the_task() {
    let mut limited = task(&[]);
    limited.budget = Budget { max_consecutive_denies: Some(2), ..Budget::default() };
    let mut rig = consulting(limited);
    rig.shell("k1", "a").shell("k2", "b");
    assert!(matches!(
        rig.state.standing(),
        Standing::Finished { outcome: Outcome::BudgetExhausted, .. }
    ));
}

#[test]
fn nothing_begins_for_a_worker_that_is_gone_and_what_runs_keeps_its_result() {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task(&[("read", Decide::Allow)])))).attach(true);
    rig.open_workspace();
    rig.shell("k1", "ls").withdraw("k1", Withdrawal::Gone);
    assert_eq!(rig.told(), "[answer_request#3] tool_ended c1 skipped");
    rig.command(Command::approve(call(1)));
    assert!(rig.last.rejected.is_some(), "{}", rig.told());

    rig.request("k2", "read", json!({ "path": "p" })).withdraw("k2", Withdrawal::Gone);
    assert_eq!(rig.told(), "[] ");
    rig.ended(4, ToolResult::ok("text"));
    rig.request("k2", "read", json!({ "path": "p" }));
    assert_eq!(rig.answers(), ["k2 ok: text"]);

    rig.request("k3", "read", json!({ "path": "p" })).withdraw("k3", Withdrawal::Cancelled);
    assert!(rig.told().starts_with("[cancel#7 "), "{}", rig.told());
    assert_eq!(rig.answers(), ["k3 aborted: the worker took its request back"]);
}

#[test]
fn a_crash_skips_what_had_not_begun_and_holds_the_driver_up_over_what_is_in_doubt() {
    let mut unattended = task(&[("shell", Decide::Allow), ("write", Decide::Ask)]);
    unattended.policy.unattended = Unattended::Wait;
    let mut rig = consulting(unattended);
    rig.shell("k1", "deploy");
    rig.request("k2", "write", json!({ "path": "p", "content": "c" }));
    rig.request("k3", "read", json!({ "path": "p" }));
    rig.input(Signal::OwnerLost.into());
    let why = "the process that ran it is gone";
    assert_eq!(rig.answers(), [format!("k3 aborted: {why}"), format!("k2 skipped: {why}")]);
    rig.attach(false);
    assert_eq!(rig.told(), "[] attached", "the driver is not asked while a call is in doubt");
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }));
    rig.shell("k4", "ls");
    assert!(rig.answers()[0].contains("not at work"), "{:?}", rig.answers());
    rig.command(Command::Resolve { call: call(1), how: Resolution::Did });
    assert!(rig.told().contains("tool_ended c1 ok"), "{}", rig.told());
    let Some(Effect::Consult { request, .. }) = rig.last.effects.last() else {
        panic!("{}", rig.told())
    };
    assert_eq!(request["params"]["observations"][0]["call"], "c1");
    rig.shell("k1", "deploy");
    assert!(rig.answers()[0].contains("kept no longer"), "{:?}", rig.answers());
}

#[test]
fn a_hand_over_and_an_interrupt_end_what_the_former_driver_asked_for() {
    let mut rig = consulting(task(ALLOW));
    rig.shell("k1", "sleep");
    let driver = DriverSpec::new("user", json!(null));
    rig.command(Command::HandOver(driver));
    assert_eq!(rig.answers(), ["k1 aborted: somebody else decides"]);
    assert!(matches!(rig.state.data().phase, Phase::Waiting(_)));

    let mut rig = consulting(task(ALLOW));
    rig.shell("k1", "sleep").command(Command::Interrupt { note: "stop".to_owned() });
    assert_eq!(rig.answers(), ["k1 aborted: interrupted by the operator"]);
}

#[test]
fn a_consultation_names_the_tools_of_servers_and_the_workspace() {
    let rig = consulting(task(&[]));
    let [Effect::Consult { tools, workspace, .. }] = rig.last.effects.as_slice() else {
        panic!("{}", rig.told())
    };
    assert!(tools.as_ref().is_some_and(|tools| tools.is_empty()));
    assert_eq!(workspace.path.as_deref(), Some("/project"));
}
