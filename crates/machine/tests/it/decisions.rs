//! Who decides about a call, and how far that reaches: the gate, people, grants and deciders.

use std::sync::Arc;

use machine::Effect;
use machine::event::EventKind;
use machine::id::{CallId, EffectId};
use machine::input::{Channel, Command, Signal};
use machine::message::{Block, Message, ModelFailure, Part, Reply, Retry, Role, StopReason, Usage};
use machine::policy::call_hash::CallHash;
use machine::policy::decider::{Decider, DeciderKind};
use machine::policy::grant::Scope;
use machine::policy::permission::{Decide, Policy, Rule, Unattended};
use machine::server::{Claim, Limits, ServerSpec, ServerTools, offers};
use machine::state::{Ask, Standing, State};
use machine::task::{DriverSpec, TaskSpec};
use machine::time::Span;
use machine::tool::ToolResult;
use serde_json::{Value, json};

use crate::rig::{Rig, call, registry, shell, spec};

/// A worker that runs these commands, one a turn.
pub(crate) fn worker(commands: &[&str]) -> TaskSpec {
    let turns: Vec<Value> = commands.iter().map(|command| json!([shell(command)])).collect();
    spec(json!({ "turns": turns, "author": "worker" }))
}

/// A task that somebody attends.
pub(crate) fn attended(task: TaskSpec) -> Rig {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task)));
    rig.attach(true).open_workspace();
    rig
}

fn rule(tool: &str, decide: Decide) -> Rule {
    Rule { tool: tool.to_owned(), decide, ..Rule::default() }
}

/// The hash of what is asked.
pub(crate) fn hash_of(rig: &Rig, id: CallId) -> CallHash {
    let asked = rig.state.asks().into_iter().find_map(|ask| match ask {
        Ask::Approval { call, hash, .. } if call == id => Some(hash),
        _ => None,
    });
    asked.unwrap()
}

fn approve(rig: &mut Rig, id: u64, scope: Scope) {
    let hash = Some(hash_of(rig, call(id)));
    let via = Some(Channel::Prompt);
    rig.command(Command::Approve { call: call(id), scope, like: None, hash, via });
}

fn end(rig: &mut Rig) {
    let effect = rig.effect("run_tool");
    rig.ended(effect.0, ToolResult::ok(""));
}

#[test]
fn an_answer_is_bound_to_the_exact_call_that_was_shown() {
    let mut rig = attended(worker(&["a"]));
    let event = rig.last.events.iter().find_map(|event| match &event.kind {
        EventKind::ApprovalRequested { hash, .. } => Some(*hash),
        _ => None,
    });
    assert_eq!(event, Some(CallHash::of("shell", &json!({ "command": "a" }))));
    assert_eq!(event, Some(hash_of(&rig, call(1))));
    let other = Some(CallHash::of("shell", &json!({ "command": "b" })));
    for command in [
        Command::Approve { call: call(1), scope: Scope::Task, like: None, hash: other, via: None },
        Command::Deny { call: call(1), reason: String::new(), hash: other, via: None },
    ] {
        rig.command(command);
        let said = rig.last.rejected.clone().unwrap();
        assert!(said.contains("c1 has changed since it was shown"), "{said}");
        assert_eq!(rig.state.asks().len(), 1, "it still waits");
        assert!(rig.state.data().grants.is_empty() && rig.state.data().denials.is_empty());
    }
    approve(&mut rig, 1, Scope::Once);
    assert_eq!(rig.told(), "[run_tool#2] approval_decided, tool_started c1");
    assert_eq!(rig.decisions(), "c1 allow by person (prompt)");
}

#[test]
fn edge_case_13_once_is_once_and_for_the_task_is_the_same_call_again_and_no_other() {
    let mut rig = attended(worker(&["a", "a", "a", "b"]));
    approve(&mut rig, 1, Scope::Once);
    end(&mut rig);
    assert!(rig.told().ends_with("approval_requested c2"), "{}", rig.told());
    approve(&mut rig, 2, Scope::Task);
    assert_eq!(rig.decisions(), "c2 allow by person (prompt): for this task");
    end(&mut rig);
    assert_eq!(rig.decisions(), "c3 allow by grant c2");
    assert!(rig.told().ends_with("tool_started c3"), "{}", rig.told());
    end(&mut rig);
    assert!(rig.told().ends_with("approval_requested c4"), "another command is asked about");
    assert_eq!(rig.decisions(), "c4 ask by default: no rule allows shell");
}

#[test]
fn what_waits_and_is_covered_by_an_answer_is_not_asked_about_any_more() {
    let turn = json!([shell("a"), shell("a"), shell("b")]);
    let mut rig = attended(spec(json!({ "turns": [turn], "author": "worker" })));
    assert_eq!(rig.state.asks().len(), 3);
    approve(&mut rig, 1, Scope::Project);
    assert_eq!(
        rig.decisions(),
        "c1 allow by person (prompt): for the project\nc2 allow by grant c1"
    );
    assert!(rig.told().starts_with("[run_tool#2 run_tool#3] "), "{}", rig.told());
    assert_eq!(rig.state.asks().len(), 1);
}

#[test]
fn a_grant_stays_when_the_person_leaves_but_never_passes_what_a_rule_denies() {
    let mut rig = attended(worker(&["a"; 3]));
    approve(&mut rig, 1, Scope::Task);
    rig.input(Signal::OwnerLost.into()).attach(false);
    rig.command(Command::Resolve { call: call(1), how: machine::input::Resolution::Did });
    assert_eq!(rig.decisions(), "c2 allow by grant c1");

    // The same state under a policy that denies it.
    let mut task = worker(&["a"; 3]);
    task.policy.rules = vec![rule("shell", Decide::Deny)];
    let running = rig.effect("run_tool");
    let mut saved = rig.state.save();
    saved.data.spec = Arc::new(task);
    rig.state = State::load(&saved, registry()).unwrap();
    rig.ended(running.0, ToolResult::ok(""));
    assert_eq!(rig.state.data().grants.len(), 1);
    assert_eq!(rig.decisions(), "c3 deny by rule 1");
}

#[test]
fn a_grant_ends_with_the_tool_it_was_given_for() {
    let tools = |schema: Value| -> ServerTools {
        let claim = Claim { name: "t".to_owned(), schema, ..Claim::default() };
        offers("s", vec![claim], Limits { only: None, trust_annotations: false })
    };
    let mcp = json!([{ "tool": "mcp__s__t", "input": { "a": 1 } }]);
    let mut task = spec(json!({ "turns": [mcp, mcp, mcp], "author": "worker" }));
    task.servers =
        vec![ServerSpec { name: "s".to_owned(), file: "/f".to_owned(), sha256: "ab".to_owned() }];
    let mut rig = attended(task);
    let open = rig.effect("open_tools");
    rig.input(Signal::ToolsOpened(open, vec![tools(json!({ "type": "object" }))]).into());
    approve(&mut rig, 1, Scope::Task);
    end(&mut rig);
    assert_eq!(rig.decisions(), "c2 allow by grant c1");
    let running = rig.effect("run_tool");
    let other = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    rig.input(Signal::ToolsChanged(tools(other)).into());
    rig.ended(running.0, ToolResult::ok(""));
    assert!(rig.told().ends_with("approval_requested c3"), "{}", rig.told());
}

#[test]
fn a_pattern_is_for_the_shell_and_for_more_than_one_call() {
    let mut rig = attended(worker(&["a x", "a y", "a x; b"]));
    let like = |scope| Command::Approve {
        call: call(1),
        scope,
        like: Some("a *".to_owned()),
        hash: None,
        via: None,
    };
    rig.command(like(Scope::Once));
    assert!(rig.last.rejected.clone().unwrap().contains("cannot be approved by a pattern"));
    rig.command(like(Scope::Task));
    assert_eq!(rig.state.data().grants[0].like.as_deref(), Some("a *"));
    end(&mut rig);
    assert_eq!(rig.decisions(), "c2 allow by grant c1");
    end(&mut rig);
    assert!(rig.told().ends_with("approval_requested c3"), "{}", rig.told());
    rig.command(Command::Approve {
        call: call(3),
        scope: Scope::Task,
        like: Some("a *".to_owned()),
        hash: None,
        via: None,
    });
    assert!(rig.last.rejected.clone().unwrap().contains("is not about all of call c3"));
}

fn model(name: &str) -> Decider {
    let kind = DeciderKind::Model { model: "script/x".to_owned(), rubric: "r".to_owned() };
    Decider { name: name.to_owned(), kind, timeout: None }
}

fn person(timeout: Option<Span>) -> Decider {
    Decider { name: "owner".to_owned(), kind: DeciderKind::Person, timeout }
}

fn escalating(deciders: Vec<Decider>) -> Rig {
    let mut task = worker(&["a", "b"]);
    task.policy = Policy { unattended: Unattended::Escalate, deciders, ..Policy::default() };
    Rig::started(task)
}

fn says(rig: &mut Rig, text: &str) {
    let id = rig.effect("call_model");
    answers(rig, id, Ok(text));
}

fn answers(rig: &mut Rig, id: EffectId, text: Result<&str, &str>) {
    let usage = Usage { input: Some(7), output: Some(3), ..Usage::default() };
    let reply = match text {
        Ok(text) => {
            let block = Block { part: Part::Text { text: text.to_owned() }, native: None };
            let message = Message { role: Role::Assistant, blocks: vec![block] };
            let (id, model) = (String::new(), "m".to_owned());
            Ok(Reply { id, model, message, stop: StopReason::EndTurn, usage })
        }
        Err(kind) => Err(ModelFailure {
            kind: kind.to_owned(),
            retry: Retry::Backoff,
            message: "down".to_owned(),
            usage: Usage::default(),
        }),
    };
    rig.input(Signal::ModelReplied(id, Box::new(reply)).into());
}

#[test]
fn a_model_decides_in_a_persons_place_and_its_answer_is_paid_for() {
    let mut rig = escalating(vec![model("careful")]);
    assert!(rig.told().starts_with("[set_timer#2 call_model#3] "), "{}", rig.told());
    assert!(rig.told().ends_with("decider_asked c1"), "{}", rig.told());
    let Some(Effect::CallModel { call: question, .. }) = rig.last.effects.last() else { panic!() };
    assert!(question.tools.is_empty() && question.question == 1);
    assert!(!rig.state.wants_release(), "it waits for a model, not for a person");
    says(&mut rig, r#"{"decision":"allow","reason":"it is a test"}"#);
    assert_eq!(rig.decisions(), "c1 allow by decider careful: it is a test");
    assert!(rig.told().starts_with("[cancel#2 run_tool#4] tool_started c1"), "{}", rig.told());
    assert_eq!(rig.state.data().spend.tokens, 10);
    assert!(rig.last.events.iter().any(|event| matches!(
        &event.kind,
        EventKind::ToolStarted { allowed_by, .. } if allowed_by == "decider careful"
    )));
    end(&mut rig);
    says(&mut rig, r#"{"decision":"deny","reason":"not that"}"#);
    assert_eq!(rig.decisions(), "c2 deny by decider careful: not that");
    assert!(rig.told().contains("tool_ended c2 denied"), "{}", rig.told());
    assert!(rig.state.data().denials.is_empty(), "nothing is learned from a model");
}

#[test]
fn edge_case_37_an_answer_that_is_none_is_a_no() {
    for answer in ["Sure, go ahead.", r#"{"decision":"allow"} ok"#, "", r#"{"decision":"yes"}"#] {
        let mut rig = escalating(vec![model("careful"), person(None)]);
        says(&mut rig, answer);
        assert!(rig.decisions().starts_with("c1 deny by decider careful: its answer"), "{answer}");
        assert!(rig.told().contains("tool_ended c1 denied"), "{}", rig.told());
    }
}

#[test]
fn a_chain_goes_on_until_one_decides_and_ends_in_a_no() {
    let mut rig = escalating(vec![model("one"), model("two")]);
    says(&mut rig, r#"{"decision":"unsure","reason":"hm"}"#);
    assert!(rig.decisions().starts_with("c1 ask by decider one: hm"), "{}", rig.decisions());
    let second = rig.effect("call_model");
    answers(&mut rig, second, Err("overloaded"));
    assert_eq!(
        rig.decisions().lines().take(2).collect::<Vec<_>>(),
        [
            "c1 ask by decider two: no answer (overloaded): down",
            "c1 deny by deciders: nobody attends, and no decider allowed it",
        ]
    );
    assert!(rig.told().contains("tool_ended c1 denied"), "{}", rig.told());

    let rig = escalating(Vec::new());
    assert_eq!(rig.state.data().spend.consecutive_denies, 2, "nobody to ask is a no");
}

#[test]
fn edge_case_37_a_decider_that_takes_too_long_is_passed_over_and_a_late_answer_is_only_paid_for() {
    let mut rig = escalating(vec![model("slow"), person(None)]);
    let (timer, question) = (rig.effect("set_timer"), rig.effect("call_model"));
    rig.input(Signal::TimerFired(timer).into());
    assert_eq!(rig.decisions(), "c1 ask by decider slow: no answer in time");
    assert!(rig.told().ends_with("approval_requested c1"), "{}", rig.told());
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }));
    assert!(rig.state.wants_release(), "a person may take forever");
    answers(&mut rig, question, Ok(r#"{"decision":"allow"}"#));
    assert_eq!(rig.told(), "[] signal_dropped");
    assert_eq!(rig.state.data().spend.tokens, 10);
    assert_eq!(rig.state.asks().len(), 1);
}

#[test]
fn a_person_in_the_chain_has_until_then_and_the_wait_outlives_the_process() {
    let mut rig = escalating(vec![person(Some(Span::seconds(60)))]);
    assert!(!rig.state.wants_release(), "somebody has to hear the timer");
    assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }));
    rig.input(Signal::OwnerLost.into()).attach(false);
    let timer = rig.effect("set_timer");
    rig.input(Signal::TimerFired(timer).into());
    assert!(rig.decisions().starts_with(
        "c1 ask by decider owner: no answer in time\nc1 deny by deciders: nobody attends"
    ));

    let mut rig = escalating(vec![person(Some(Span::seconds(60)))]);
    approve(&mut rig, 1, Scope::Once);
    assert!(rig.told().starts_with("[cancel#2 run_tool#3] "), "{}", rig.told());
}

#[test]
fn a_crash_asks_the_same_decider_again_and_a_person_who_has_come_instead() {
    let mut rig = escalating(vec![model("one"), model("two")]);
    says(&mut rig, r#"{"decision":"unsure"}"#);
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert!(rig.told().ends_with("decider_asked c1"), "{}", rig.told());
    says(&mut rig, r#"{"decision":"unsure"}"#);
    assert!(rig.decisions().contains("c1 deny by deciders"), "two was the last: {}", rig.told());

    let mut rig = escalating(vec![model("one")]);
    rig.input(Signal::OwnerLost.into()).attach(true);
    assert!(rig.told().ends_with("approval_requested c1"), "{}", rig.told());
}

#[test]
fn deciders_are_asked_one_question_at_a_time_and_a_limit_ends_that() {
    let calls: Vec<Value> = (0..50).map(|at| shell(&format!("a {at}"))).collect();
    let mut task = spec(json!({ "turns": [calls], "author": "worker" }));
    let (unattended, deciders) = (Unattended::Escalate, vec![model("careful")]);
    task.policy = Policy { unattended, deciders, ..Policy::default() };
    task.budget.max_tokens = Some(25);
    let mut rig = Rig::started(task);
    // Each answer counts ten.
    for _ in 0..3 {
        says(&mut rig, r#"{"decision":"deny","reason":"no"}"#);
    }
    assert!(rig.told().contains("task_finished budget_exhausted"), "{}", rig.told());
    assert_eq!(rig.state.data().spend.tokens, 30);
}

#[test]
fn while_a_task_is_held_no_further_decider_is_asked() {
    let mut rig = escalating(vec![model("one"), model("two")]);
    let question = rig.effect("call_model");
    rig.command(Command::Pause);
    answers(&mut rig, question, Ok(r#"{"decision":"unsure"}"#));
    assert_eq!(rig.told(), "[cancel#2] ");
    rig.command(Command::Resume);
    assert!(rig.told().ends_with("decider_asked c1"), "{}", rig.told());
    rig.command(Command::Cancel { reason: String::new() });
    assert!(rig.told().contains("tool_ended c1 skipped"), "{}", rig.told());
    assert!(rig.state.data().pending.is_empty());
}

#[test]
fn a_program_decides_by_the_same_answers() {
    let plugin = machine::driver::external::PluginSpec {
        name: "judge".to_owned(),
        command: vec!["./judge".to_owned()],
        timeout: None,
        folder: None,
        env: Default::default(),
        needs: Default::default(),
    };
    let kind = DeciderKind::Program { plugin };
    let decider = Decider { name: "judge".to_owned(), kind, timeout: None };
    for (answer, decision) in [
        (Ok(json!({ "decision": "allow", "reason": "y" })), "c1 allow by decider judge: y"),
        (Ok(json!({ "decision": "deny", "reason": "n" })), "c1 deny by decider judge: n"),
        (Ok(json!("allow")), "c1 deny by decider judge: its answer is not"),
        (Err("it died".to_owned()), "c1 ask by decider judge: no answer: it died"),
    ] {
        let mut rig = escalating(vec![decider.clone()]);
        let Some(Effect::Consult { request, plugin, .. }) = rig.last.effects.last() else {
            panic!()
        };
        assert_eq!(
            (&request["method"], &request["params"]["tool"]),
            (&json!("judge"), &json!("shell"))
        );
        assert_eq!(plugin["plugin"]["folder"], "/project");
        let id = rig.effect("consult");
        rig.input(Signal::Consulted(id, answer).into());
        assert!(rig.decisions().starts_with(decision), "{}", rig.decisions());
    }
}

#[test]
fn a_rule_that_holds_a_driver_back_holds_where_another_has_it_work() {
    let worker = json!({ "turns": [[shell("a")]], "author": "worker" });
    let child = json!({ "driver": "scripted", "driver_config": worker });
    let step = json!({ "name": "s", "driver": "scripted", "driver_config": worker });
    let own = json!({ "name": "own", "tool": "shell", "parameters": { "command": "b" } });
    let within = [
        DriverSpec::new("scripted", worker.clone()),
        DriverSpec::new("retry", json!({ "driver": child })),
        DriverSpec::new("workflow", json!({ "name": "w", "steps": [step, own] })),
    ];
    let of =
        |driver: &str, decide| Rule { driver: vec![driver.to_owned()], ..rule("shell", decide) };
    for driver in within {
        let is_flow = driver.name == "workflow";
        let mut task = TaskSpec { driver, ..spec(json!(null)) };
        task.policy.rules = vec![of("scripted", Decide::Deny), rule("shell", Decide::Allow)];
        let rig = Rig::started(task.clone());
        assert!(rig.told().contains("tool_ended c1 denied"), "{}", rig.told());
        // What the operator wrote is not that worker's.
        assert_eq!(rig.told().contains("tool_started c2"), is_flow, "{}", rig.told());
        // A rule that lets pass is read narrowly.
        task.policy.rules = vec![of("scripted", Decide::Allow)];
        let rig = Rig::started(task.clone());
        assert_eq!(rig.told().contains("tool_started c1"), task.driver.name == "scripted");
    }
}
