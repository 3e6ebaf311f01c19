//! Requests of a coding agent that pass its gateway, as the loop sees them: judged one by one, counted once.

use machine::agent::{AgentNews, AgentProgram};
use machine::effect::Effect;
use machine::id::EffectId;
use machine::input::Signal;
use machine::message::Usage;
use machine::policy::budget::Budget;
use machine::task::DriverSpec;
use serde_json::json;

use crate::rig::{Rig, spec};

/// A task whose agent is in the middle of its turn; and that turn.
fn at_work(budget: Budget) -> (Rig, EffectId) {
    let program = AgentProgram::built_in("claude").unwrap();
    let mut spec = spec(json!({}));
    spec.driver = DriverSpec::new("agent", json!({ "program": program }));
    spec.budget = budget;
    let rig = Rig::started(spec);
    let turn = rig.effect("agent");
    (rig, turn)
}

fn said(rig: &mut Rig, turn: EffectId, news: AgentNews) {
    rig.input(Signal::AgentSaid(turn, news).into());
}

/// What the gateway is told about a request.
fn asks(rig: &mut Rig, turn: EffectId, request: u64) -> Option<Result<(), String>> {
    said(rig, turn, AgentNews::WouldAsk { request, bytes: 400 });
    rig.last.effects.iter().find_map(|effect| match effect {
        Effect::LetAsk { request: own, may, .. } if *own == request => Some(may.clone()),
        _ => None,
    })
}

fn passed(request: u64, tokens: u64, nanodollars: Option<u64>) -> AgentNews {
    let usage = Usage { input: Some(tokens), nanodollars, ..Usage::default() };
    AgentNews::Passed { request, model: "m".to_owned(), usage }
}

fn spent(tokens: u64, usd: f64, metered: bool) -> AgentNews {
    let usage = Usage { input: Some(tokens), ..Usage::default() };
    AgentNews::Spent { usage, usd: Some(usd), metered }
}

#[test]
fn what_passed_counts_once_whatever_the_agent_says_of_it() {
    let (mut rig, turn) = at_work(Budget::default());
    assert_eq!(asks(&mut rig, turn, 7), Some(Ok(())));
    said(&mut rig, turn, passed(7, 100, Some(500_000_000)));
    said(&mut rig, turn, passed(7, 100, Some(500_000_000)));
    said(&mut rig, turn, spent(100, 0.6, true));
    let spend = &rig.state.data().spend;
    assert_eq!((spend.tokens, spend.usd, spend.unpriced), (100, 0.5, 0));
    said(&mut rig, turn, spent(30, 0.25, false));
    let spend = &rig.state.data().spend;
    assert_eq!((spend.tokens, spend.usd), (130, 0.75), "past the gateway its own word counts");
}

#[test]
fn a_price_that_the_gateway_does_not_know_is_the_agents_to_name() {
    let (mut rig, turn) = at_work(Budget::default());
    assert_eq!(asks(&mut rig, turn, 1), Some(Ok(())));
    said(&mut rig, turn, passed(1, 100, None));
    assert_eq!(rig.state.data().spend.unpriced, 1, "nobody knows it before the agent names it");
    said(&mut rig, turn, spent(100, 0.6, true));
    let spend = &rig.state.data().spend;
    assert_eq!((spend.tokens, spend.usd, spend.unpriced), (100, 0.6, 0));
}

#[test]
fn an_answer_whose_price_nobody_knows_is_the_last_under_a_limit_of_money() {
    let budget = Budget { max_usd: Some(5.0), ..Budget::default() };
    let (mut rig, turn) = at_work(budget);
    assert_eq!(asks(&mut rig, turn, 1), Some(Ok(())));
    said(&mut rig, turn, passed(1, 100, None));
    assert!(rig.told().contains("budget_exhausted"), "{}", rig.told());
    assert!(asks(&mut rig, turn, 2).unwrap().is_err());
}

#[test]
fn a_budget_that_is_spent_ends_the_task_and_the_next_request_is_refused() {
    let budget = Budget { max_tokens: Some(100), ..Budget::default() };
    let (mut rig, turn) = at_work(budget);
    assert_eq!(asks(&mut rig, turn, 1), Some(Ok(())));
    assert_eq!(asks(&mut rig, turn, 2), Some(Ok(())), "two at once may begin");
    said(&mut rig, turn, passed(1, 100, Some(0)));
    assert!(rig.told().contains("budget_exhausted"), "{}", rig.told());
    let refused = asks(&mut rig, turn, 3).unwrap().unwrap_err();
    assert!(refused.contains("no turn"), "{refused}");
    said(&mut rig, turn, passed(2, 50, Some(0)));
    assert_eq!(rig.state.data().spend.tokens, 150, "what was under way is paid for");
}

#[test]
fn what_was_under_way_when_its_process_died_counts_by_its_size() {
    let (mut rig, turn) = at_work(Budget::default());
    assert_eq!(asks(&mut rig, turn, 1), Some(Ok(())));
    rig.input(Signal::OwnerLost.into());
    let spend = &rig.state.data().spend;
    assert_eq!((spend.tokens, spend.unpriced), (100, 1), "nobody knows what it cost");
    said(&mut rig, turn, passed(1, 100, Some(0)));
    assert_eq!(rig.state.data().spend.tokens, 100, "not twice");
}
