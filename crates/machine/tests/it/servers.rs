//! Tools of servers through the loop: when they are asked for, what a model is offered, what a call carries, and
//! what a crash, a change or a refusal makes of them.

use machine::effect::{Effect, ToolCall};
use machine::event::EventKind;
use machine::input::{Command, Signal};
use machine::message::{Block, Message, ModelCall, Part, Reply, Role, StopReason, Usage};
use machine::policy::permission::{Decide, Rule};
use machine::server::{Claim, Limits, ServerSpec, ServerTools, offers};
use machine::state::Standing;
use machine::task::{DriverSpec, TaskSpec};
use machine::tool::{EffectClass, ToolResult};
use serde_json::{Value, json};

use crate::rig::{Rig, spec};

fn server(name: &str) -> ServerSpec {
    ServerSpec {
        name: name.to_owned(),
        file: "/project/.mcp.json".to_owned(),
        sha256: "ab".to_owned(),
    }
}

fn offered(server: &str, tools: &[&str], trusted: bool) -> ServerTools {
    let claim = |name: &&str| Claim {
        name: (*name).to_owned(),
        description: format!("does {name}"),
        read_only: true,
        ..Claim::default()
    };
    let limits = Limits { only: None, trust_annotations: trusted };
    offers(server, tools.iter().map(claim).collect(), limits)
}

fn calling(author: &str) -> TaskSpec {
    let call = json!({ "tool": "mcp__s__look", "input": { "at": 1 } });
    let mut spec = spec(json!({ "turns": [[call]], "author": author }));
    spec.servers = vec![server("s")];
    spec
}

/// A task that was taken up and whose servers have answered.
fn opened(spec: TaskSpec, tools: Vec<ServerTools>) -> Rig {
    let mut rig = Rig::started(spec);
    let id = rig.effect("open_tools");
    rig.input(Signal::ToolsOpened(id, tools).into());
    rig
}

fn run(rig: &Rig) -> ToolCall {
    let found = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::RunTool { call, .. } => Some(call.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("a tool runs: {}", rig.told()))
}

#[test]
fn servers_are_asked_before_the_driver_decides_and_a_call_carries_its_server() {
    let mut rig = Rig::started(calling("operator"));
    assert_eq!(rig.told(), "[open_tools#2] workspace_opened");
    let id = rig.effect("open_tools");
    rig.input(Signal::ToolsOpened(id, vec![offered("s", &["look", "move"], false)]).into());
    assert_eq!(rig.told(), "[run_tool#3] tools_opened, turn_started, tool_started c1");
    let call = run(&rig);
    let behind = call.server.unwrap();
    assert_eq!((behind.tool.as_str(), behind.server.name.as_str()), ("look", "s"));
    assert_eq!((behind.folder.as_str(), call.class), ("/project", EffectClass::Unsafe));
    rig.ended(3, ToolResult::ok("seen"));
    assert!(rig.told().ends_with("task_finished completed"), "{}", rig.told());
}

/// The tool `look` with other words.
fn reworded(words: &str) -> ServerTools {
    let claim =
        Claim { name: "look".to_owned(), description: words.to_owned(), ..Claim::default() };
    offers("s", vec![claim], Limits { only: None, trust_annotations: false })
}

#[test]
fn a_tool_that_changed_is_reported_and_asked_about_though_a_rule_allows_it() {
    let mut task = calling("worker");
    let turn = task.driver.config["turns"][0].clone();
    task.driver.config["turns"] = json!([turn, turn, turn, turn]);
    let tool = "mcp__s__look".to_owned();
    task.policy.rules = vec![Rule { tool, decide: Decide::Allow, ..Rule::default() }];
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task))).attach(true).open_workspace();
    let id = rig.effect("open_tools");
    rig.input(Signal::ToolsOpened(id, vec![reworded("looks")]).into());
    assert_eq!(rig.told(), "[run_tool#3] tools_opened, turn_started, tool_started c1");
    // The same again changes nothing.
    rig.input(Signal::ToolsChanged(reworded("looks")).into());
    rig.ended(3, ToolResult::ok(""));
    assert!(rig.told().contains("tool_started c2"), "{}", rig.told());
    // A server that goes away and comes back with another tool under the name has changed it too.
    rig.input(Signal::ToolsChanged(ServerTools { tools: Vec::new(), ..reworded("") }).into());
    rig.input(Signal::ToolsChanged(reworded("looks, and sends it away")).into());
    let EventKind::ToolsOpened { problem: Some(problem), .. } = &rig.last.events[0].kind else {
        panic!("{}", rig.told())
    };
    assert!(problem.contains("changed since") && problem.contains("mcp__s__look"), "{problem}");
    rig.ended(4, ToolResult::ok(""));
    assert!(rig.told().ends_with("approval_requested c3"), "{}", rig.told());
    // Listed once more as it is now, it is still not what was allowed.
    rig.input(Signal::ToolsChanged(reworded("looks, and sends it away")).into());
    rig.command(Command::approve(machine::id::CallId(3)));
    assert!(rig.told().contains("tool_started c3"), "{}", rig.told());
    let id = rig.effect("run_tool").0;
    rig.ended(id, ToolResult::ok(""));
    assert!(rig.told().contains("tool_started c4"), "a person allowed it as it is: {}", rig.told());
}

#[test]
fn a_tool_that_takes_over_the_name_of_an_allowed_one_is_asked_about() {
    // Both names are `mcp__s__lo_ok` here; the first that a server lists has it.
    let listed = |tools: &[&str]| offered("s", tools, false);
    let mut task = calling("worker");
    let call = json!({ "tool": "mcp__s__lo_ok", "input": {} });
    task.driver.config["turns"] = json!([[call], [call], [call]]);
    let tool = "mcp__s__lo_ok".to_owned();
    task.policy.rules = vec![Rule { tool, decide: Decide::Allow, ..Rule::default() }];
    for (between, other) in [(None, &["lo ok", "lo_ok"][..]), (Some(&[][..]), &["lo ok"][..])] {
        let mut rig = Rig::new();
        rig.command(Command::Start(Box::new(task.clone()))).attach(true).open_workspace();
        let id = rig.effect("open_tools");
        rig.input(Signal::ToolsOpened(id, vec![listed(&["lo_ok"])]).into());
        assert!(rig.told().contains("tool_started c1"), "{}", rig.told());
        if let Some(between) = between {
            rig.input(Signal::ToolsChanged(listed(between)).into());
        }
        rig.input(Signal::ToolsChanged(listed(other)).into());
        let EventKind::ToolsOpened { problem: Some(problem), .. } = &rig.last.events[0].kind else {
            panic!("{}", rig.told())
        };
        assert!(problem.contains("that other tools had: mcp__s__lo_ok"), "{problem}");
        rig.ended(3, ToolResult::ok(""));
        assert!(rig.told().ends_with("approval_requested c2"), "{}", rig.told());
        rig.command(Command::approve(machine::id::CallId(2)));
        let id = rig.effect("run_tool").0;
        // A person has seen what it is now; listed once more it is the same.
        rig.input(Signal::ToolsChanged(listed(other)).into());
        rig.ended(id, ToolResult::ok(""));
        assert!(rig.told().contains("tool_started c3"), "{}", rig.told());
    }
}

#[test]
fn a_server_that_cannot_be_had_costs_its_tools_and_not_the_task() {
    let nothing = ServerTools {
        server: "s".to_owned(),
        tools: Vec::new(),
        problem: Some("it exited with 3".to_owned()),
    };
    let rig = opened(calling("operator"), vec![nothing]);
    let problem = rig.last.events.iter().find_map(|event| match &event.kind {
        EventKind::ToolsOpened { problem, .. } => problem.clone(),
        _ => None,
    });
    assert_eq!(problem.as_deref(), Some("it exited with 3"));
    assert!(rig.told().contains("tool_ended c1 error"), "{}", rig.told());
}

#[test]
fn a_worker_is_asked_about_a_servers_tool_like_about_any_unsafe_one() {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(calling("worker"))));
    rig.attach(true);
    rig.open_workspace();
    let id = rig.effect("open_tools");
    rig.input(Signal::ToolsOpened(id, vec![offered("s", &["look"], false)]).into());
    assert!(rig.told().contains("approval_requested c1"), "{}", rig.told());
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }));

    let refused = opened(calling("worker"), vec![offered("s", &["look"], false)]);
    assert!(refused.told().contains("tool_ended c1 denied"), "{}", refused.told());

    let mut allowed = calling("worker");
    let rule = |tool: &str, decide| Rule { tool: tool.to_owned(), decide, ..Rule::default() };
    allowed.policy.rules = vec![rule("mcp__s__*", Decide::Allow)];
    let rig = opened(allowed, vec![offered("s", &["look"], false)]);
    assert!(rig.told().contains("tool_started c1"), "{}", rig.told());

    // What the operator trusts the server's word on changes nothing and needs no answer.
    let rig = opened(calling("worker"), vec![offered("s", &["look"], true)]);
    assert!(rig.told().contains("tool_started c1"), "{}", rig.told());
}

#[test]
fn a_rule_for_one_server_says_nothing_about_another() {
    let mut spec = calling("operator");
    let deny = |tool: &str| Rule { tool: tool.to_owned(), decide: Decide::Deny, ..Rule::default() };
    spec.policy.rules = vec![deny("mcp__other__*"), deny("mcp__s__loo")];
    let rig = opened(spec, vec![offered("s", &["look"], false)]);
    assert!(rig.told().contains("tool_started c1"), "{}", rig.told());
}

#[test]
fn a_crash_beside_a_servers_call_leaves_it_in_doubt_and_asks_the_servers_again() {
    let mut rig = opened(calling("operator"), vec![offered("s", &["look"], false)]);
    rig.input(Signal::OwnerLost.into());
    assert_eq!(rig.told(), "[] call_in_doubt c1, owner_lost");
    rig.attach(false);
    assert_eq!(rig.told(), "[] attached", "nothing is repeated");
    rig.command(Command::Resolve {
        call: crate::rig::call(1),
        how: machine::input::Resolution::Did,
    });
    assert!(rig.told().starts_with("[open_tools#4]"), "{}", rig.told());

    let mut rig = opened(calling("operator"), vec![offered("s", &["look"], true)]);
    rig.input(Signal::OwnerLost.into());
    rig.attach(false);
    assert_eq!(rig.told(), "[open_tools#4] attached", "the server may be another one by now");
    // Nor does it matter that this process is lost, too.
    rig.input(Signal::OwnerLost.into()).attach(false);
    let id = rig.effect("open_tools");
    rig.input(Signal::ToolsOpened(id, vec![offered("s", &["look"], true)]).into());
    assert!(rig.told().starts_with("[run_tool#6]"), "{}", rig.told());
    assert!(run(&rig).repeated && run(&rig).server.is_some());
}

/// A worker's turn with a call of the shell and one of the tool `look`, of which a model's answer is made.
fn two_calls() -> Rig {
    let mut task = crate::model::task();
    task.servers = vec![server("s")];
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task))).attach(true).open_workspace();
    let id = rig.effect("open_tools");
    rig.input(Signal::ToolsOpened(id, vec![reworded("looks")]).into());
    let parts = vec![
        crate::model::tool("u1", "shell", json!({ "command": "make" })),
        crate::model::tool("u2", "mcp__s__look", json!({})),
    ];
    crate::model::answer(&mut rig, Ok(crate::model::reply(parts, StopReason::ToolUse)));
    rig
}

#[test]
fn a_yes_that_waits_for_its_turn_is_for_the_tool_as_it_was_shown() {
    let mut rig = two_calls();
    rig.command(Command::approve(crate::rig::call(2)));
    rig.command(Command::approve(crate::rig::call(1)));
    let first = rig.effect("run_tool").0;
    // What the first call does has the server offer another tool under the name.
    let other = || Signal::ToolsChanged(reworded("looks, and sends it away"));
    rig.input(other().into());
    assert!(rig.told().ends_with("approval_requested c2"), "{}", rig.told());
    rig.command(Command::approve(crate::rig::call(2)));
    // Listed once more as it is now, the yes for it stands.
    rig.input(other().into());
    rig.ended(first, ToolResult::ok(""));
    assert!(rig.told().contains("tool_started c2"), "{}", rig.told());
}

#[test]
fn a_yes_of_the_day_before_is_not_for_what_the_server_has_become() {
    for (words, runs) in [("looks", true), ("looks, and sends it away", false)] {
        let mut rig = two_calls();
        rig.command(Command::Deny {
            call: crate::rig::call(1),
            reason: String::new(),
            hash: None,
            via: None,
        });
        rig.command(Command::Detach { reason: String::new() });
        rig.command(Command::approve(crate::rig::call(2)));
        rig.attach(true);
        let id = rig.effect("open_tools");
        rig.input(Signal::ToolsOpened(id, vec![reworded(words)]).into());
        let asked = rig.told().ends_with("approval_requested c2");
        assert_eq!(rig.told().contains("tool_started c2"), runs, "{}", rig.told());
        assert_eq!(asked, !runs, "{}", rig.told());
    }
}

#[test]
fn a_call_that_is_repeated_accepts_no_tool_that_has_changed() {
    let mut task = calling("worker");
    let tool = "mcp__s__look".to_owned();
    task.policy.rules = vec![Rule { tool, decide: Decide::Allow, ..Rule::default() }];
    let mut rig = opened(task, vec![offered("s", &["look"], true)]);
    assert!(rig.told().contains("tool_started c1"), "{}", rig.told());
    rig.input(Signal::OwnerLost.into()).attach(true);
    let id = rig.effect("open_tools");
    rig.input(Signal::ToolsOpened(id, vec![reworded("looks, and sends it away")]).into());
    assert!(rig.told().ends_with("approval_requested c1"), "{}", rig.told());
    assert!(rig.state.data().tools[0].changed);
}

#[test]
fn a_yes_for_the_task_ends_with_what_the_tool_said_it_does() {
    let mut task = calling("worker");
    let turn = task.driver.config["turns"][0].clone();
    task.driver.config["turns"] = json!([turn, turn, turn]);
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task))).attach(true).open_workspace();
    let id = rig.effect("open_tools");
    rig.input(Signal::ToolsOpened(id, vec![reworded("looks")]).into());
    let for_task = |call| Command::Approve {
        call: crate::rig::call(call),
        scope: machine::policy::grant::Scope::Task,
        like: None,
        hash: None,
        via: None,
    };
    rig.command(for_task(1));
    let first = rig.effect("run_tool").0;
    rig.input(Signal::ToolsChanged(reworded("looks, and sends it away")).into());
    rig.ended(first, ToolResult::ok(""));
    assert!(rig.told().ends_with("approval_requested c2"), "{}", rig.told());
    rig.command(for_task(2));
    let second = rig.effect("run_tool").0;
    rig.ended(second, ToolResult::ok(""));
    assert!(rig.told().contains("tool_started c3"), "{}", rig.told());
}

#[test]
fn while_servers_are_asked_a_crash_asks_them_again_and_an_interrupt_waits() {
    let mut rig = Rig::started(calling("operator"));
    let id = rig.effect("open_tools");
    rig.command(Command::Interrupt { note: "hm".to_owned() });
    assert_eq!(rig.told(), "[] note_queued");
    rig.input(Signal::OwnerLost.into());
    rig.attach(false);
    assert_eq!(rig.told(), "[open_tools#3] attached");
    rig.input(Signal::ToolsOpened(id, vec![offered("s", &["look"], false)]).into());
    assert_eq!(rig.told(), "[] signal_dropped", "the answer to the first question is late");
}

#[test]
fn late_and_foreign_changes_are_dropped() {
    let mut rig = opened(calling("operator"), vec![offered("s", &["look"], false)]);
    rig.input(Signal::ToolsChanged(offered("stranger", &["x"], false)).into());
    assert_eq!(rig.told(), "[] signal_dropped");
    rig.input(Signal::OwnerLost.into());
    rig.input(Signal::ToolsChanged(offered("s", &["x"], false)).into());
    assert_eq!(rig.told(), "[] signal_dropped");
    assert_eq!(rig.state.data().tools[0].tool, "look");
}

fn asked(rig: &Rig) -> ModelCall {
    let found = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, .. } => Some(call.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("a model is asked: {}", rig.told()))
}

fn offers_of(call: &ModelCall) -> Vec<&str> {
    call.offers.iter().map(|offer| offer.name.as_str()).collect()
}

fn thinking(config: Value) -> TaskSpec {
    let driver = DriverSpec::new("llm", config);
    let mut spec = TaskSpec { driver, ..spec(json!(null)) };
    spec.servers = vec![server("s"), server("web")];
    spec
}

#[test]
fn a_model_is_offered_what_its_configuration_allows() {
    let tools = || vec![offered("s", &["look", "move"], false), offered("web", &["get"], false)];
    let offered = |config: Value| {
        let rig = opened(thinking(config), tools());
        let call = asked(&rig);
        let offers: Vec<String> = offers_of(&call).iter().map(|name| (*name).to_owned()).collect();
        (call.tools.len(), offers)
    };
    let all = machine::tool::TOOLS.len();
    let (built_in, offers) = offered(json!({ "model": "a/b" }));
    assert_eq!(built_in, all);
    assert_eq!(offers, ["mcp__s__look", "mcp__s__move", "mcp__web__get"]);
    assert_eq!(offered(json!({ "model": "a/b", "servers": ["web"] })).1, ["mcp__web__get"]);
    assert_eq!(
        offered(json!({ "model": "a/b", "tools": ["read", "mcp__s__*"] })),
        (1, vec!["mcp__s__look".to_owned(), "mcp__s__move".to_owned()])
    );
    assert_eq!(offered(json!({ "model": "a/b", "tools": ["read"] })), (1, Vec::new()));
}

#[test]
fn a_changed_list_is_in_the_next_question() {
    let config = json!({ "model": "a/b" });
    let mut rig = opened(thinking(config), vec![offered("s", &["look"], false)]);
    let id = rig.effect("call_model");
    assert_eq!(offers_of(&asked(&rig)), ["mcp__s__look"]);
    rig.input(Signal::ToolsChanged(offered("s", &["look", "jump"], false)).into());
    assert_eq!(rig.told(), "[] tools_opened");
    let part =
        Part::ToolUse { id: "u".to_owned(), name: "say".to_owned(), input: json!({ "text": "x" }) };
    let message = Message { role: Role::Assistant, blocks: vec![Block { part, native: None }] };
    let reply = Reply {
        id: String::new(),
        model: "m".to_owned(),
        message,
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    rig.input(Signal::ModelReplied(id, Box::new(Ok(reply))).into());
    let say = rig.effect("run_tool");
    rig.ended(say.0, ToolResult::ok("x"));
    assert_eq!(offers_of(&asked(&rig)), ["mcp__s__jump", "mcp__s__look"]);
}
