//! Cases that went wrong in the systems before this one, by the number they have in the list of them. Others stand where
//! what they are about is tested: look for the number.

use machine::cause::{Cause, Repetition};
use machine::effect::Effect;
use machine::input::{Command, Signal};
use machine::message::{Block, Message, ModelFailure, Part, Reply, Retry, Role, StopReason, Usage};
use machine::policy::budget::Budget;
use machine::policy::permission::{Decide, Rule};
use machine::state::{Phase, SavedState, Standing, State};
use machine::task::{DriverSpec, Outcome, TaskSpec};
use machine::tool::ToolResult;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::answer;
use crate::rig::{Rig, registry, shell, spec};

fn model(context: u64) -> TaskSpec {
    let config = json!({ "model": "script/x", "context": context });
    let mut task = TaskSpec { driver: DriverSpec::new("llm", config), ..spec(json!(null)) };
    task.policy.rules =
        vec![Rule { tool: "shell".to_owned(), decide: Decide::Allow, ..Rule::default() }];
    task
}

fn reply(part: Part, stop: StopReason, tokens: u64) -> Result<Reply, ModelFailure> {
    let usage = Usage { input: Some(tokens), ..Usage::default() };
    let message = Message { role: Role::Assistant, blocks: vec![Block { part, native: None }] };
    Ok(Reply { id: String::new(), model: String::new(), message, stop, usage })
}

fn says(text: &str, tokens: u64) -> Result<Reply, ModelFailure> {
    reply(Part::Text { text: text.to_owned() }, StopReason::EndTurn, tokens)
}

fn runs(command: &str, tokens: u64) -> Result<Reply, ModelFailure> {
    let (id, name) = ("u".to_owned(), "shell".to_owned());
    let part = Part::ToolUse { id, name, input: json!({ "command": command }) };
    reply(part, StopReason::ToolUse, tokens)
}

fn overflow() -> Result<Reply, ModelFailure> {
    let (kind, message) = ("context_overflow".to_owned(), "too long".to_owned());
    Err(ModelFailure { kind, retry: Retry::Never, message, usage: Usage::default() })
}

fn run(rig: &mut Rig, command: &str, tokens: u64) {
    answer(rig, runs(command, tokens));
    let id = rig.effect("run_tool");
    rig.ended(id.0, ToolResult::ok(format!("output of {command}")));
}

/// Whether the model is asked to sum up, and everything that it is sent.
fn asked(rig: &Rig) -> (bool, String) {
    let call = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, .. } => Some(call),
        _ => None,
    });
    let call = call.unwrap_or_else(|| panic!("a model is asked: {}", rig.told()));
    let texts: Vec<String> = call.messages.iter().map(|message| message.text()).collect();
    (call.compacts, texts.join("\n"))
}

fn through_disk(rig: &mut Rig) {
    let saved = serde_json::to_string(&rig.state.save()).unwrap();
    let saved: SavedState = serde_json::from_str(&saved).unwrap();
    rig.state = State::load(&saved, registry()).unwrap();
}

fn outcome(rig: &Rig) -> Option<Outcome> {
    match rig.state.standing() {
        Standing::Finished { outcome, .. } => Some(outcome),
        _ => None,
    }
}

#[test]
fn edge_case_08_one_task_whose_context_overflows_does_not_keep_another_from_being_summed_up() {
    let mut first = Rig::started(model(1_000));
    let mut second = Rig::started(model(1_000));
    for _ in 0..10 {
        if outcome(&first).is_none() {
            answer(&mut first, overflow());
        }
    }
    assert_eq!(outcome(&first), Some(Outcome::Failed));
    run(&mut second, "ls", 900);
    assert!(asked(&second).0, "the other is still summed up");
    answer(&mut second, says("a summary", 10));
    assert!(!asked(&second).0);
}

#[test]
fn edge_case_09_a_conversation_that_was_summed_up_is_not_summed_up_again_at_once() {
    let mut rig = Rig::started(model(1_000));
    run(&mut rig, "ls", 900);
    assert!(asked(&rig).0);
    answer(&mut rig, says("a summary", 950));
    let (compacts, said) = asked(&rig);
    assert!(!compacts && said.contains("a summary"), "{said}");
    for step in 0..5 {
        run(&mut rig, &format!("step {step}"), 100 + step);
        assert!(!asked(&rig).0, "its context is small, whatever was spent in all");
    }
    assert!(rig.state.data().spend.tokens > 1_000);
}

#[test]
fn edge_case_10_a_note_and_a_claim_around_a_summary_are_not_lost() {
    let mut rig = Rig::started(model(1_000));
    answer(&mut rig, runs("ls", 900));
    let id = rig.effect("run_tool");
    rig.command(Command::Steer { text: "use the other file".to_owned() });
    rig.ended(id.0, ToolResult::ok("a b"));
    assert!(asked(&rig).0);
    rig.command(Command::FollowUp { text: "then tidy up".to_owned() });
    let id = rig.state.data().pending.iter().find(|(_, p)| **p == machine::state::Pending::Model);
    let id = *id.unwrap().0;
    // The summary says that all is done: that is no claim, and the model is asked.
    rig.input(Signal::ModelReplied(id, Box::new(says("all is done", 10))).into());
    let (_, said) = asked(&rig);
    assert!(said.contains("use the other file"), "{said}");
    assert_eq!(outcome(&rig), None);
    answer(&mut rig, says("done", 20));
    assert!(asked(&rig).1.contains("then tidy up"));
    answer(&mut rig, says("tidy", 20));
    assert_eq!(outcome(&rig), Some(Outcome::Completed));
}

/// A plugin that sleeps first.
fn sleeper() -> Rig {
    let config = json!({ "plugin": { "name": "p", "command": ["p"] }, "config": null });
    let mut task = spec(json!(null));
    task.driver = DriverSpec::new("external:p", config);
    let mut rig = Rig::started(task);
    decides(&mut rig, json!({ "decision": "wait", "seconds": 60, "state": "mine" }));
    assert!(matches!(rig.state.data().phase, Phase::Waiting(_)), "{}", rig.told());
    rig
}

fn decides(rig: &mut Rig, decision: Value) {
    let id = rig.effect("consult");
    rig.input(Signal::Consulted(id, Ok(decision)).into());
}

#[test]
fn edge_case_11_sleep_keeps_what_the_driver_knows_and_can_be_stopped() {
    let mut rig = sleeper();
    through_disk(&mut rig);
    rig.input(Signal::OwnerLost.into()).attach(false);
    let timer = rig.effect("set_timer");
    rig.command(Command::Pause);
    rig.now += 60_000;
    rig.input(Signal::TimerFired(timer).into());
    assert_eq!(rig.told(), "[] ");
    rig.command(Command::Resume);
    let Some(Effect::Consult { request, .. }) = rig.last.effects.first() else {
        panic!("{}", rig.told())
    };
    assert_eq!(request["params"]["state"], "mine");
    let mut rig = sleeper();
    rig.command(Command::Cancel { reason: String::new() });
    assert_eq!(outcome(&rig), Some(Outcome::Cancelled));
}

#[test]
fn edge_case_18_a_restart_keeps_what_was_spent() {
    let mut task = model(100_000);
    task.budget = Budget { max_tokens: Some(250), max_turns: Some(9), ..Budget::default() };
    let mut rig = Rig::started(task);
    run(&mut rig, "a", 100);
    let before = rig.state.data().spend.clone();
    through_disk(&mut rig);
    rig.input(Signal::OwnerLost.into()).attach(false);
    let after = &rig.state.data().spend;
    assert_eq!((before.tokens, before.turns), (after.tokens, after.turns));
    run(&mut rig, "b", 150);
    assert_eq!(outcome(&rig), Some(Outcome::BudgetExhausted));
}

#[test]
fn edge_case_19_a_limit_of_turns_is_not_success() {
    let mut task = spec(json!({ "turns": [[shell("a")]], "repeat": 50 }));
    task.budget.max_turns = Some(1);
    let mut rig = Rig::started(task);
    let id = rig.effect("run_tool");
    rig.ended(id.0, ToolResult::ok(""));
    assert_eq!(outcome(&rig), Some(Outcome::BudgetExhausted));
    assert_eq!(Outcome::BudgetExhausted.exit_code(), 11);
}

proptest! {
    /// Whatever the limits are and whatever the calls say: a task that a limit ended is never a success, and its cause
    /// names the axis.
    #[test]
    fn a_limit_is_never_success(
        turns in 0u64..4,
        calls in 0u64..4,
        errors in 0u64..3,
        statuses in prop::collection::vec(0u8..3, 1..12),
    ) {
        let mut task = spec(json!({ "turns": [[shell("a"), shell("b")]], "repeat": 4 }));
        task.budget = Budget {
            max_turns: Some(turns),
            max_tool_calls: Some(calls),
            max_consecutive_errors: Some(errors),
            ..Budget::default()
        };
        let mut rig = Rig::started(task);
        let mut open: Vec<u64> = Vec::new();
        for status in statuses.into_iter().cycle().take(40) {
            let effects = rig.last.effects.iter();
            open.extend(effects.filter_map(|effect| match effect {
                Effect::RunTool { id, .. } => Some(id.0),
                _ => None,
            }));
            if open.is_empty() {
                break;
            }
            let status = [
                machine::tool::Status::Ok,
                machine::tool::Status::Error,
                machine::tool::Status::TimedOut,
            ][usize::from(status)];
            rig.ended(open.remove(0), ToolResult::ended(status, "x"));
        }
        let Phase::Finished { outcome, cause, .. } = &rig.state.data().phase else {
            return Err(TestCaseError::fail(rig.told()));
        };
        // Ten turns are more than any of these limits.
        prop_assert_eq!(*outcome, Outcome::BudgetExhausted);
        prop_assert_eq!(outcome.exit_code(), 11);
        let Some(Cause::Budget { axes }) = cause else {
            return Err(TestCaseError::fail(format!("{cause:?}")));
        };
        prop_assert!(!axes.is_empty());
    }
}

#[test]
fn edge_case_23_the_same_prompt_twice_is_no_cycle_and_a_true_cycle_is() {
    let mut rig = Rig::started(model(100_000));
    for _ in 0..2 {
        run(&mut rig, "make", 1);
        run(&mut rig, "make", 1);
        run(&mut rig, "git diff", 1);
    }
    assert_eq!(outcome(&rig), None);
    for _ in 0..10 {
        if outcome(&rig).is_none() {
            run(&mut rig, "make", 1);
        }
    }
    let Phase::Finished { outcome, cause, .. } = &rig.state.data().phase else { panic!() };
    assert_eq!(*outcome, Outcome::Stuck);
    assert_eq!(*cause, Some(Cause::NoProgress { what: Repetition::SameAction }));
}

#[test]
fn edge_case_24_a_resume_restores_plan_role_counters_and_queues() {
    let mut rig = Rig::started(model(100_000));
    run(&mut rig, "make", 5);
    rig.command(Command::FollowUp { text: "later".to_owned() });
    rig.command(Command::Steer { text: "now".to_owned() });
    let before = rig.state.save();
    through_disk(&mut rig);
    assert_eq!(rig.state.save(), before);
    let data = rig.state.data();
    assert_eq!((data.notes.len(), data.follow_ups.len(), data.spend.turns), (1, 1, 1));
    rig.input(Signal::OwnerLost.into()).attach(false);
    let said = asked(&rig).1;
    assert!(said.contains("a goal"), "{said}");
}
