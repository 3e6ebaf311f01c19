//! What commands do to an agent that is in the middle of a turn: each cell of the table of abilities that changes what
//! happens.

use std::sync::Arc;

use machine::agent::ability::remark;
use machine::agent::{
    AgentAsk, AgentCall, AgentEnd, AgentFault, AgentMeans, AgentNews, AgentOrder, AgentProgram,
    AgentRequest, AgentTurn, FailedOrder,
};
use machine::effect::Effect;
use machine::id::EffectId;
use machine::input::{Command, Resolution, Signal};
use machine::message::Usage;
use machine::policy::budget::Budget;
use machine::policy::permission::{Decide, Profile, Rule};
use machine::state::{CallStatus, Standing};
use machine::task::{DriverSpec, TaskSpec};
use machine::tool::{Status, ToolResult};
use serde_json::{Value, json};

use crate::rig::{Rig, call, spec};

fn task(agent: &str, mode: Option<&str>) -> TaskSpec {
    let program = AgentProgram {
        operator: "0123".to_owned(),
        mode: mode.map(str::to_owned),
        ..AgentProgram::built_in(agent).unwrap()
    };
    let mut task = spec(Value::Null);
    task.driver = DriverSpec::new("agent", json!({ "program": program }));
    task.policy.profile = Some(Profile::Dev);
    task
}

/// A task whose agent is in the middle of a turn and has been told what it was asked.
fn at_work(agent: &str, mode: Option<&str>) -> (Rig, EffectId) {
    let mut rig = Rig::started(task(agent, mode));
    let turn = rig.effect("agent");
    rig.input(Signal::AgentSaid(turn, AgentNews::Taken { session: Some("s".to_owned()) }).into());
    (rig, turn)
}

impl Rig {
    fn agent_asks(&mut self, turn: EffectId, command: &str) -> &mut Rig {
        let ask = AgentAsk {
            key: "k1".to_owned(),
            id: Arc::from("toolu_1"),
            tool: "Bash".to_owned(),
            input: Arc::new(json!({ "command": command })),
            means: AgentMeans::Command(command.to_owned()),
            helper: None,
        };
        self.input(Signal::AgentSaid(turn, AgentNews::Asks(ask)).into())
    }

    /// The agent calls a tool of ours.
    fn agent_calls(&mut self, turn: EffectId, key: &str, tool: &str, input: Value) -> &mut Rig {
        let request = AgentRequest {
            key: key.to_owned(),
            id: Arc::from("toolu_7"),
            tool: tool.to_owned(),
            input: Arc::new(input),
        };
        self.input(Signal::AgentSaid(turn, AgentNews::Calls(request)).into())
    }

    fn agent_ends(&mut self, turn: EffectId, end: AgentEnd) -> &mut Rig {
        let text = String::new();
        let ended = AgentTurn { end, text, ordered: true, refused: 0, background: 0, queued: 0 };
        self.input(Signal::AgentEnded(turn, Ok(ended)).into())
    }

    /// The results that the agent was given by the last input: key, then what came of it.
    fn results(&self) -> Vec<String> {
        let orders = self.orders().into_iter();
        let result = |order: &AgentOrder| match order {
            AgentOrder::ToolResult { key, result: Ok(text) } => Some(format!("{key}: {text}")),
            AgentOrder::ToolResult { key, result: Err(why) } => Some(format!("{key} no: {why}")),
            _ => None,
        };
        orders.filter_map(result).collect()
    }

    /// What the agent is asked by the last input.
    fn prompt(&self) -> String {
        let asked = self.last.effects.iter().find_map(|effect| match effect {
            Effect::AskAgent { call, .. } => Some(call.prompt.clone()),
            _ => None,
        });
        asked.unwrap_or_else(|| panic!("{:?}", self.last.effects))
    }

    /// The turn that the agent is asked for by the last input.
    fn asked(&self) -> (EffectId, AgentCall) {
        let asked = self.last.effects.iter().find_map(|effect| match effect {
            Effect::AskAgent { id, call, .. } => Some((*id, call.clone())),
            _ => None,
        });
        asked.unwrap_or_else(|| panic!("{:?}", self.last.effects))
    }

    /// The agent made its conversation shorter.
    fn agent_compacted(&mut self, turn: EffectId, ordered: bool) -> &mut Rig {
        let news = AgentNews::Compacted { ordered, before: Some(900), after: None };
        self.input(Signal::AgentSaid(turn, news).into())
    }

    /// What the agent was told by the last input.
    fn orders(&self) -> Vec<&AgentOrder> {
        let order = |effect: &'_ Effect| matches!(effect, Effect::TellAgent { .. });
        let told = self.last.effects.iter().filter(|effect| order(effect));
        told.filter_map(|effect| match effect {
            Effect::TellAgent { order, .. } => Some(order),
            _ => None,
        })
        .collect()
    }

    fn remark(&self, command: &Command) -> String {
        remark(self.state.data(), command).unwrap_or_default()
    }
}

fn steer() -> Command {
    Command::Steer { text: "smaller".to_owned() }
}

#[test]
fn an_agent_that_can_be_steered_has_the_note_at_once_and_another_after_its_turn() {
    for agent in ["claude", "codex"] {
        let (mut rig, _) = at_work(agent, None);
        assert_eq!(rig.remark(&steer()), "", "{agent}");
        rig.command(steer());
        let text = "[operator 0123] smaller".to_owned();
        assert_eq!(rig.orders(), [&AgentOrder::Steer { text }], "{agent}");
        assert_eq!(rig.told(), "[tell agent#3] note_queued, note_delivered smaller", "{agent}");
    }
    for agent in ["gemini", "opencode"] {
        let (mut rig, _) = at_work(agent, None);
        let said = rig.remark(&steer());
        assert!(
            said.starts_with(&format!("{agent} cannot be told anything in the middle")),
            "{said}"
        );
        rig.command(steer());
        assert_eq!(rig.orders(), Vec::<&AgentOrder>::new(), "{agent}");
        assert_eq!(rig.told(), "[] note_queued", "{agent}");
    }
}

#[test]
fn a_pause_holds_what_an_agent_asks_about_until_the_task_goes_on() {
    for (agent, mode, said) in [
        ("claude", None, "claude is held at its next call of a tool"),
        ("codex", None, "codex goes on until it asks about something"),
        ("gemini", None, "gemini goes on until it asks about something"),
        ("claude", Some("bypassPermissions"), "claude asks about nothing"),
        ("codex", Some("never/read-only"), "codex asks about nothing"),
    ] {
        let (mut rig, turn) = at_work(agent, mode);
        let remark = rig.remark(&Command::Pause);
        assert!(remark.starts_with(said), "{agent} {mode:?}: {remark}");
        rig.command(Command::Pause);
        rig.agent_asks(turn, "ls");
        assert_eq!(rig.orders(), Vec::<&AgentOrder>::new(), "{agent}: it is held");
        rig.command(Command::Resume);
        let key = "k1".to_owned();
        assert_eq!(
            rig.orders(),
            [&AgentOrder::Answer { key, may: Ok(None) }],
            "{agent}: it goes on"
        );
    }
}

#[test]
fn every_agent_can_be_interrupted_and_handed_over_in_the_middle_of_a_turn() {
    let user = || DriverSpec::new("user", json!({}));
    for agent in AgentProgram::BUILT_IN {
        for command in [Command::Interrupt { note: "stop".to_owned() }, Command::HandOver(user())] {
            let (mut rig, turn) = at_work(agent, None);
            assert_eq!(rig.remark(&command), "", "{agent}");
            rig.command(command);
            let stopped = Effect::Cancel { target: turn };
            assert!(rig.last.effects.contains(&stopped), "{agent}: {:?}", rig.last.effects);
        }
    }
}

#[test]
fn the_last_words_of_a_turn_that_was_stopped_are_told_until_its_end_has_come() {
    let says = |text: &str| AgentNews::Said { text: text.to_owned(), thinking: String::new() };
    let (mut rig, turn) = at_work("claude", None);
    rig.command(Command::Interrupt { note: "wait".to_owned() });
    rig.input(Signal::AgentSaid(turn, says("I was about to")).into());
    assert_eq!(rig.told(), "[] agent_said");
    rig.agent_ends(turn, AgentEnd::Interrupted);
    rig.input(Signal::AgentSaid(turn, says("and more")).into());
    assert_eq!(rig.told(), "[] signal_dropped", "its end has come");
    let (mut rig, turn) = at_work("claude", None);
    rig.command(Command::Cancel { reason: String::new() });
    rig.input(Signal::AgentSaid(turn, says("but")).into());
    assert_eq!(rig.told(), "[] signal_dropped", "nothing follows the end of a task");
}

#[test]
fn an_agent_is_dismissed_when_somebody_takes_over_who_is_no_agent() {
    let dismissed = |rig: &Rig| {
        let is = |effect: &Effect| matches!(effect, Effect::DismissAgents { .. });
        rig.last.effects.iter().any(is)
    };
    let (mut rig, _) = at_work("claude", None);
    rig.command(Command::HandOver(DriverSpec::new("user", json!({}))));
    assert!(dismissed(&rig), "{:?}", rig.last.effects);
    // Another agent takes the place of the former one, and ends it.
    let (mut rig, _) = at_work("claude", None);
    let other = task("codex", None).driver;
    rig.command(Command::HandOver(other));
    assert!(!dismissed(&rig), "{:?}", rig.last.effects);
    // There is nobody to dismiss.
    let mut rig = Rig::started(spec(json!({ "turns": [] })));
    rig.command(Command::HandOver(DriverSpec::new("user", json!({}))));
    assert!(!dismissed(&rig), "{:?}", rig.last.effects);
}

#[test]
fn nothing_is_remarked_where_no_agent_is_at_work() {
    let rig = Rig::started(spec(json!({ "turns": [] })));
    assert_eq!(rig.remark(&steer()), "");
    assert_eq!(rig.remark(&Command::Pause), "");
}

fn view() -> Value {
    json!({ "symbol": "push" })
}

fn checks(task: &mut TaskSpec) {
    let rule = Rule { tool: "validator.run".to_owned(), decide: Decide::Allow, ..Rule::default() };
    task.policy.rules.push(rule);
}

/// The same with the project's checks allowed.
fn checking() -> (Rig, EffectId) {
    let mut task = task("claude", None);
    checks(&mut task);
    let mut rig = Rig::started(task);
    let turn = rig.effect("agent");
    rig.input(Signal::AgentSaid(turn, AgentNews::Taken { session: Some("s".to_owned()) }).into());
    (rig, turn)
}

#[test]
fn an_agent_that_can_be_is_offered_our_tools() {
    let offered = |agent: &str| {
        let rig = Rig::started(task(agent, None));
        let tools = rig.last.effects.iter().find_map(|effect| match effect {
            Effect::AskAgent { tools, .. } => Some(tools.clone()),
            _ => None,
        });
        tools.unwrap().into_iter().map(|offer| offer.tool).collect::<Vec<_>>()
    };
    assert_eq!(offered("claude"), ["memory", "skeleton", "validator.run", "view"]);
    assert_eq!(offered("codex"), [] as [&str; 0]);
}

#[test]
fn a_call_of_our_tool_is_judged_run_and_answered_in_the_turn() {
    let (mut rig, turn) = at_work("claude", None);
    rig.agent_calls(turn, "m1", "view", view());
    assert_eq!(rig.told(), "[run_tool#3] tool_started c1");
    assert_eq!(rig.decisions(), "c1 allow by profile dev");
    let Some(Effect::RunTool { call: run, .. }) = rig.last.effects.first() else { panic!() };
    assert_eq!((run.tool.as_str(), &*run.input), ("view", &view()));
    rig.ended(3, ToolResult::ok("fn push"));
    assert_eq!(rig.told(), "[tell agent#4] tool_ended c1 ok");
    assert_eq!(rig.results(), ["m1: fn push"]);
    assert_eq!(rig.state.data().spend.tool_calls, 1);
    assert!(rig.state.data().calls.is_empty());
    rig.agent_ends(turn, AgentEnd::Done);
    assert!(rig.told().contains("claimed"), "{}", rig.told());
}

#[test]
fn what_an_agent_has_us_do_is_judged_as_our_own_tool_and_its_end_is_news() {
    let (mut rig, turn) = at_work("gemini", None);
    let asks = |rig: &mut Rig, key: &str, path: &str| {
        let ask = AgentAsk {
            key: key.to_owned(),
            id: Arc::from(key),
            tool: "fs/write_text_file".to_owned(),
            input: Arc::new(json!({ "path": path, "content": "x" })),
            means: AgentMeans::Ours("write".to_owned()),
            helper: None,
        };
        rig.input(Signal::AgentSaid(turn, AgentNews::Asks(ask)).into());
    };
    asks(&mut rig, "k1", "a.txt");
    assert_eq!(rig.decisions(), "c1 allow by profile dev");
    let yes = AgentOrder::Answer { key: "k1".to_owned(), may: Ok(None) };
    assert_eq!(rig.orders(), [&yes], "whoever performs it is told, and no tool is run here");
    let call = &rig.state.data().calls[0];
    assert_eq!((call.action.tool.as_str(), &call.action.input["content"]), ("write", &json!("x")));
    let text = "created a.txt (1 bytes)".to_owned();
    let ended = AgentNews::ToolEnded { id: Arc::from("k1"), ok: true, text };
    rig.input(Signal::AgentSaid(turn, ended).into());
    assert!(rig.told().contains("tool_ended c1 ok"), "{}", rig.told());
    asks(&mut rig, "k2", ".git/config");
    let orders = rig.orders();
    let AgentOrder::Answer { key, may: Err(why) } = orders[0] else { panic!("{orders:?}") };
    assert!(key == "k2" && why.contains("protected"), "{why}");
}

#[test]
fn a_tool_that_an_agent_used_without_asking_is_a_call_that_is_seen_and_counted() {
    let (mut rig, turn) = at_work("gemini", None);
    let used = |id: &str, ok| AgentNews::Used {
        id: Arc::from(id),
        tool: "read_file".to_owned(),
        input: Arc::new(json!({ "absolute_path": "/w/a.txt" })),
        ok,
        text: "1 line".to_owned(),
    };
    rig.input(Signal::AgentSaid(turn, used("u1", true)).into());
    assert_eq!(rig.told(), "[] tool_started c1, tool_ended c1 ok");
    assert!(rig.orders().is_empty(), "nobody waits for an answer");
    rig.input(Signal::AgentSaid(turn, used("u2", false)).into());
    assert!(rig.told().contains("tool_ended c2 error"), "{}", rig.told());
    assert_eq!(rig.state.data().spend.tool_calls, 2);
    assert!(rig.state.data().calls.is_empty());
    rig.agent_ends(turn, AgentEnd::Done);
    rig.input(Signal::AgentSaid(turn, used("u3", true)).into());
    assert_eq!(rig.state.data().spend.tool_calls, 2, "its turn is over");
}

#[test]
fn calls_at_once_run_at_once_and_each_has_its_own_answer() {
    let (mut rig, turn) = at_work("claude", None);
    for key in ["m1", "m2", "m3"] {
        rig.agent_calls(turn, key, "view", json!({ "symbol": key }));
    }
    rig.ended(5, ToolResult::ok("three")).ended(3, ToolResult::ended(Status::Error, "one"));
    assert_eq!(rig.results(), ["m1 no: one"]);
    rig.ended(4, ToolResult::ok("two"));
    assert_eq!(rig.results(), ["m2: two"]);
    // Asked again with the same key it is the same call.
    rig.agent_calls(turn, "m2", "view", json!({ "symbol": "m2" }));
    assert_eq!((rig.results(), rig.state.data().spend.tool_calls), (vec!["m2: two".to_owned()], 3));
}

#[test]
fn what_is_denied_unknown_or_wrong_is_answered_with_the_reason() {
    let mut task = task("claude", None);
    let rule = Rule {
        tool: "memory".to_owned(),
        decide: Decide::Deny,
        reason: "no notes here".to_owned(),
        ..Rule::default()
    };
    task.policy.rules.push(rule);
    let mut rig = Rig::started(task);
    let turn = rig.effect("agent");
    rig.agent_calls(turn, "m1", "memory", json!({ "action": "list" }));
    assert!(rig.results()[0].contains("no notes here"), "{:?}", rig.results());
    assert!(rig.told().contains("tool_ended c1 denied"), "{}", rig.told());
    // Not ours to give, though we have it.
    rig.agent_calls(turn, "m2", "shell", json!({ "command": "ls" }));
    assert_eq!(rig.results(), ["m2 no: the tool \"shell\" is not offered to the agent"]);
    rig.agent_calls(turn, "m3", "view", json!({ "name": "x" }));
    assert!(rig.results()[0].contains("no parameter \"name\""), "{:?}", rig.results());
    assert_eq!(rig.state.data().spend.tool_calls, 0);
}

#[test]
fn nothing_of_ours_runs_for_a_turn_that_is_over_or_for_an_agent_that_is_offered_nothing() {
    let (mut rig, turn) = at_work("codex", None);
    rig.agent_calls(turn, "m1", "view", view());
    assert_eq!(rig.results(), ["m1 no: the tool \"view\" is not offered to the agent"]);
    let (mut rig, turn) = at_work("claude", None);
    rig.agent_ends(turn, AgentEnd::Done).agent_calls(turn, "m1", "view", view());
    assert_eq!(rig.results(), ["m1 no: nobody asked for this turn any more"]);
    // A worker of another kind cannot ask in its place.
    let (mut rig, _) = at_work("claude", None);
    let asks =
        Signal::Requested { key: "k".to_owned(), tool: "view".to_owned(), input: view().into() };
    rig.input(asks.into());
    assert!(rig.told().starts_with("[answer_request#"), "{}", rig.told());
}

#[test]
fn what_the_agent_takes_back_or_a_person_stops_is_stopped() {
    let (mut rig, turn) = at_work("claude", None);
    rig.agent_calls(turn, "m1", "view", view());
    rig.input(Signal::AgentSaid(turn, AgentNews::Withdrawn { key: "m1".to_owned() }).into());
    assert!(rig.told().contains("[cancel#3"), "{}", rig.told());
    assert!(rig.told().contains("tool_ended c1 aborted"), "{}", rig.told());
    let (mut rig, turn) = at_work("claude", None);
    rig.agent_calls(turn, "m1", "view", view());
    rig.command(Command::Interrupt { note: "stop".to_owned() });
    let cancelled = |target: EffectId| rig.last.effects.contains(&Effect::Cancel { target });
    assert!(cancelled(turn) && cancelled(EffectId(3)), "{}", rig.told());
    assert_eq!(rig.results(), ["m1 no: interrupted by the operator"]);
    assert_eq!(rig.prompt(), "[operator 0123] I stopped you. stop");
}

#[test]
fn a_turn_that_ends_before_a_call_of_ours_stops_it() {
    let (mut rig, turn) = at_work("claude", None);
    rig.agent_calls(turn, "m1", "view", view());
    rig.agent_ends(turn, AgentEnd::Broken(AgentFault::Killed));
    assert!(rig.told().contains("cancel#3"), "{}", rig.told());
    assert!(rig.told().contains("tool_ended c1 aborted"), "{}", rig.told());
    assert!(rig.state.data().calls.is_empty());
}

#[test]
fn a_pause_holds_a_call_of_ours_too() {
    let (mut rig, turn) = at_work("claude", None);
    rig.command(Command::Pause).agent_calls(turn, "m1", "view", view());
    assert_eq!(rig.told(), "[] ");
    rig.command(Command::Resume);
    assert!(rig.told().contains("tool_started c1"), "{}", rig.told());
}

#[test]
fn after_a_crash_a_call_of_ours_is_not_made_again_and_an_unsafe_one_is_in_doubt() {
    let (mut rig, turn) = at_work("claude", None);
    rig.agent_calls(turn, "m1", "view", view());
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert!(rig.state.data().calls.is_empty());
    assert!(!rig.told().contains("run_tool"), "{}", rig.told());
    assert!(rig.prompt().starts_with("Your work was interrupted"), "{}", rig.prompt());

    let (mut rig, turn) = checking();
    rig.agent_calls(turn, "m1", "validator.run", json!({}));
    assert!(rig.told().contains("tool_started c1"), "{}", rig.told());
    rig.input(Signal::OwnerLost.into());
    assert!(rig.told().contains("call_in_doubt c1"), "{}", rig.told());
    rig.attach(false);
    assert_eq!(rig.state.data().calls[0].status, CallStatus::InDoubt);
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }));
    assert_eq!(rig.told(), "[] attached", "the agent is not asked while a call is in doubt");
    rig.command(Command::Resolve { call: call(1), how: Resolution::Did });
    let prompt = rig.prompt();
    assert!(prompt.contains("Of the call of validator.run that was under way"), "{prompt}");
    assert!(prompt.contains("a person says that it ran to its end"), "{prompt}");
}

fn spent(usd: f64, metered: bool) -> AgentNews {
    AgentNews::Spent { usage: Usage::default(), usd: Some(usd), metered }
}

/// What the conversation of an agent that is just asked has cost by its own count.
fn cost(rig: &Rig) -> Option<u64> {
    let asked = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::AskAgent { call, .. } => Some(call.cost),
        _ => None,
    });
    asked.unwrap_or_else(|| panic!("{:?}", rig.last.effects))
}

/// The next process tells the sum of both.
#[test]
fn what_an_agent_says_that_it_cost_when_its_task_was_put_down_or_ended_is_counted_once() {
    let (mut rig, turn) = at_work("opencode", None);
    rig.command(Command::Detach { reason: "bye".to_owned() });
    rig.input(Signal::AgentSaid(turn, spent(1.0, false)).into());
    assert_eq!(rig.state.data().spend.usd, 1.0);
    rig.attach(false);
    assert_eq!(cost(&rig), Some(1_000_000_000));

    let mut limited = task("opencode", None);
    limited.budget.max_usd = Some(1.0);
    let mut rig = Rig::started(limited);
    let turn = rig.effect("agent");
    let taken = AgentNews::Taken { session: Some("s".to_owned()) };
    rig.input(Signal::AgentSaid(turn, taken).into());
    rig.input(Signal::AgentSaid(turn, spent(1.0, false)).into());
    assert!(matches!(rig.state.standing(), Standing::Finished { .. }));
    rig.input(Signal::AgentSaid(turn, spent(0.5, false)).into());
    assert_eq!(rig.state.data().spend.usd, 1.5);
    rig.command(Command::Raise(Budget { max_usd: Some(9.0), ..Budget::default() })).attach(false);
    assert_eq!(cost(&rig), Some(1_500_000_000));
}

#[test]
fn what_a_conversation_cost_goes_with_it_into_the_next_process_and_a_fresh_one_begins_at_nothing() {
    let (mut rig, turn) = at_work("opencode", None);
    rig.input(Signal::AgentSaid(turn, spent(1.0, false)).into());
    rig.input(Signal::AgentSaid(turn, spent(0.5, true)).into());
    // After a crash it is asked by what was asked before; after an end by the driver.
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(cost(&rig), Some(1_500_000_000));
    let turn = rig.effect("agent");
    rig.agent_ends(turn, AgentEnd::Failed);
    assert_eq!(cost(&rig), Some(1_500_000_000));
    let turn = rig.effect("agent");
    rig.agent_ends(turn, AgentEnd::NoSession);
    assert_eq!(cost(&rig), Some(0));
}

#[test]
fn no_count_of_dollars_is_without_a_number() {
    for metered in [false, true] {
        let (mut rig, turn) = at_work("claude", None);
        for request in [1, 2] {
            let asks = AgentNews::WouldAsk { request, bytes: 10 };
            rig.input(Signal::AgentSaid(turn, asks).into());
            let usage = Usage { input: Some(5), ..Usage::default() };
            let passed = AgentNews::Passed { request, model: "m".to_owned(), usage };
            rig.input(Signal::AgentSaid(turn, passed).into());
            rig.input(Signal::AgentSaid(turn, spent(1.7e308, metered)).into());
        }
        assert_eq!(rig.state.data().spend.usd, 1e12, "metered: {metered}");
    }
}

fn not_taken(turn: EffectId, words: &str) -> Signal {
    let failed = FailedOrder {
        order: "steer".to_owned(),
        reason: "no active turn".to_owned(),
        words: Some(words.to_owned()),
    };
    Signal::AgentSaid(turn, AgentNews::OrderFailed(failed))
}

#[test]
fn a_note_that_an_agent_did_not_take_is_told_and_is_its_next_prompt() {
    let (mut rig, turn) = at_work("codex", None);
    rig.command(steer()).input(not_taken(turn, "[operator 0123] smaller").into());
    assert_eq!(rig.told(), "[] order_failed, note_queued");
    rig.agent_ends(turn, AgentEnd::Done);
    assert_eq!(rig.prompt(), "[operator 0123] smaller", "it is not finished before it has it");
    // Said when its turn had ended already, and taken for heard.
    let (mut rig, turn) = at_work("codex", None);
    rig.command(steer()).command(Command::Pause).agent_ends(turn, AgentEnd::Done);
    rig.input(not_taken(turn, "[operator 0123] smaller").into()).command(Command::Resume);
    assert_eq!(rig.prompt(), "[operator 0123] smaller");
}

#[test]
fn what_an_agent_was_told_in_a_turn_that_breaks_off_is_told_again() {
    let (mut rig, turn) = at_work("claude", None);
    rig.command(steer()).agent_ends(turn, AgentEnd::Broken(AgentFault::Killed));
    assert!(rig.prompt().contains("[operator 0123] smaller"), "{}", rig.prompt());
    let (mut rig, turn) = at_work("claude", None);
    rig.command(steer()).input(Signal::OwnerLost.into()).attach(false);
    assert!(rig.prompt().starts_with("Your work was interrupted"), "{}", rig.prompt());
    assert!(rig.prompt().ends_with("[operator 0123] smaller"), "{}", rig.prompt());
    let turn = EffectId(turn.0 + 2);
    let again = rig.effect("agent");
    assert!(again >= turn, "{again:?}");
    // A turn that ends well has heard it.
    rig.agent_ends(again, AgentEnd::Done);
    assert!(rig.told().contains("claimed"), "{}", rig.told());
}

#[test]
fn an_order_that_is_not_words_and_fails_is_told_and_nothing_else() {
    let (mut rig, turn) = at_work("codex", None);
    let failed = FailedOrder {
        order: "interrupt".to_owned(),
        reason: "no active turn".to_owned(),
        words: None,
    };
    rig.input(Signal::AgentSaid(turn, AgentNews::OrderFailed(failed)).into());
    assert_eq!(rig.told(), "[] order_failed");
    assert!(rig.state.data().notes.is_empty());
}

#[test]
fn overflows_are_counted_in_a_row_and_the_third_ends_the_attempt() {
    let (mut rig, turn) = at_work("claude", None);
    rig.agent_ends(turn, AgentEnd::ContextOverflow);
    assert_eq!(rig.state.data().spend.context_overflows, 1);
    let again = rig.effect("agent");
    rig.command(steer()).command(Command::Pause).agent_ends(again, AgentEnd::Done);
    assert_eq!(rig.state.data().spend.context_overflows, 0, "one that fitted came between");
    rig.command(Command::Resume);
    for _ in 0..3 {
        let turn = rig.effect("agent");
        rig.agent_ends(turn, AgentEnd::ContextOverflow);
    }
    assert!(matches!(rig.state.standing(), Standing::Finished { .. }), "{}", rig.told());
}

fn compact(focus: &str) -> Command {
    Command::Compact { focus: focus.to_owned() }
}

#[test]
fn a_conversation_that_is_to_be_shorter_becomes_so_between_two_turns_and_once() {
    let (mut rig, turn) = at_work("claude", None);
    assert_eq!(rig.remark(&compact("")), "claude is told to when this turn has ended");
    rig.command(compact("the names"));
    assert_eq!(rig.told(), "[] compaction_asked", "not in the middle of a turn");
    rig.agent_compacted(turn, false);
    assert_eq!(rig.told(), "[] agent_compacted", "by itself, and not as it was told");
    rig.agent_ends(turn, AgentEnd::Failed);
    let (turn, call) = rig.asked();
    assert_eq!(call.compact.as_deref(), Some("the names"));
    assert_eq!((call.conversation, call.session.as_deref()), (1, Some("s")));
    // It was stopped before it could: it does so before the turn after that.
    rig.command(Command::Interrupt { note: "wait".to_owned() });
    let (next, call) = rig.asked();
    assert_eq!(call.compact.as_deref(), Some("the names"));
    rig.agent_ends(turn, AgentEnd::Interrupted).agent_compacted(next, true);
    assert_eq!(rig.told(), "[] agent_compacted");
    rig.agent_ends(next, AgentEnd::Failed);
    assert_eq!(rig.asked().1.compact, None);
}

#[test]
fn an_agent_that_could_not_make_its_conversation_shorter_goes_on_with_it_as_it_is() {
    let (mut rig, turn) = at_work("codex", None);
    rig.command(compact("")).agent_ends(turn, AgentEnd::Failed);
    let (turn, call) = rig.asked();
    assert_eq!(call.compact.as_deref(), Some(""));
    let failed = FailedOrder::not_compacted("nothing to sum up");
    rig.input(Signal::AgentSaid(turn, AgentNews::OrderFailed(failed)).into());
    assert_eq!(rig.told(), "[] order_failed");
    rig.agent_ends(turn, AgentEnd::Failed);
    assert_eq!(rig.asked().1.compact, None);
}

#[test]
fn a_conversation_of_a_task_at_rest_is_made_shorter_before_its_work_goes_on() {
    let (mut rig, _) = at_work("claude", None);
    rig.input(Signal::OwnerLost.into()).command(compact("the names"));
    assert_eq!(rig.told(), "[] compaction_asked");
    rig.attach(false);
    let (turn, call) = rig.asked();
    assert_eq!(call.compact.as_deref(), Some("the names"));
    assert!(call.prompt.starts_with("Your work was interrupted"), "{}", call.prompt);
    // What is done is not done again after a crash.
    rig.agent_compacted(turn, true).input(Signal::OwnerLost.into());
    rig.attach(false);
    assert_eq!(rig.asked().1.compact, None);
}

#[test]
fn who_cannot_make_a_conversation_shorter_is_named_and_nothing_happens() {
    let refused = |rig: &mut Rig, focus: &str| {
        rig.command(compact(focus));
        rig.last.rejected.clone().unwrap_or_default()
    };
    let (mut codex, turn) = at_work("codex", None);
    let said = refused(&mut codex, "the names");
    assert!(said.starts_with("codex cannot be told what to keep"), "{said}");
    codex.agent_ends(turn, AgentEnd::Failed);
    assert_eq!(codex.asked().1.compact, None);
    let (mut gemini, _) = at_work("gemini", None);
    let said = refused(&mut gemini, "");
    assert_eq!(said, "gemini cannot make its conversation shorter on demand");
    let mut young = Rig::started(task("claude", None));
    assert_eq!(refused(&mut young, ""), "the conversation of claude has not begun");
    let mut person = spec(Value::Null);
    person.driver = DriverSpec::new("user", json!({}));
    let said = refused(&mut Rig::started(person), "");
    assert_eq!(said, "no model and no agent works now whose conversation could be made shorter");
}

#[test]
fn only_the_agent_of_a_file_knows_whether_it_can_make_its_conversation_shorter() {
    let mut task = task("gemini", None);
    task.driver.config["program"]["name"] = json!("mine");
    let mut rig = Rig::started(task);
    let turn = rig.effect("agent");
    rig.input(Signal::AgentSaid(turn, AgentNews::Taken { session: None }).into());
    let said = rig.remark(&compact("the names"));
    assert!(said.contains("only it knows whether it can"), "{said}");
    rig.command(compact("the names")).agent_ends(turn, AgentEnd::Failed);
    assert_eq!(rig.asked().1.compact.as_deref(), Some("the names"));
}

#[test]
fn a_conversation_that_is_too_long_is_made_shorter_first_and_begins_afresh_only_then() {
    for (agent, focus) in [("claude", "what the goal needs: a goal"), ("codex", "")] {
        let (mut rig, turn) = at_work(agent, None);
        rig.agent_ends(turn, AgentEnd::ContextOverflow);
        let (turn, call) = rig.asked();
        assert_eq!((call.conversation, call.compact.as_deref()), (1, Some(focus)), "{agent}");
        rig.agent_compacted(turn, true).agent_ends(turn, AgentEnd::ContextOverflow);
        let (_, call) = rig.asked();
        assert_eq!((call.conversation, call.compact), (2, None), "{agent}");
    }
    let (mut rig, turn) = at_work("gemini", None);
    rig.agent_ends(turn, AgentEnd::ContextOverflow);
    let (_, call) = rig.asked();
    assert_eq!((call.conversation, call.compact), (2, None), "it cannot");
}
