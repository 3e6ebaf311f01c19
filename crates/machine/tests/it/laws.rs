//! Laws of the machine, over random inputs: recorded inputs fold to the live state, saving and loading
//! between any two inputs changes nothing, every call has exactly one result and whoever decides hears of that one, nothing
//! begins while a task is held, one that may move has under way what it waits for, and nothing panics.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::agent::{
    AgentAsk, AgentEnd, AgentFault, AgentMeans, AgentNews, AgentRequest, AgentTurn, FailedOrder,
};
use machine::child::step::ChildEnd;
use machine::child::{Charge, ChildOrder, ChildReport, allot};
use machine::driver::external::PluginSpec;
use machine::driver::{Consultation, Wait};
use machine::effect::Effect;
use machine::event::EventKind;
use machine::id::{CallId, EffectId, QuestionId, TaskId};
use machine::input::{Channel, Command, Input, Resolution, Signal, Stamped, Withdrawal};
use machine::message::{Block, Message, ModelFailure, Part, Reply, Retry, Role, StopReason, Usage};
use machine::policy::budget::Budget;
use machine::policy::call_hash::CallHash;
use machine::policy::decider::{Decider, DeciderKind};
use machine::policy::grant::Scope;
use machine::policy::permission::{Policy, Profile, Unattended};
use machine::queue::{Integration, Rebase};
use machine::server::{Claim, Limits, ServerSpec, ServerTools, offers};
use machine::state::{CallStatus, Pending, Phase, SavedState, State};
use machine::task::{
    Criterion, CriterionResult, DriverSpec, Outcome, TaskSpec, Workspace, WorkspaceKind,
};
use machine::time::{Span, Timestamp};
use machine::tool::{Status, ToolResult};
use machine::{Output, step};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rig::{check_of, read, registry, shell, spec};
use machine::verdict::{Checkpoint, Verdict};

/// One random number pair decides an input, given the state: mostly fitting ones, some that do not fit.
type Seed = (u8, u16);

fn task(seed: u16) -> TaskSpec {
    let ask = json!({ "tool": "ask", "input": { "question": "q" } });
    let write = json!({ "tool": "write", "input": { "path": "p", "content": "c" } });
    let bad = json!({ "tool": "nonsense", "input": {} });
    let mcp = json!({ "tool": "mcp__s__t", "input": { "a": 1 } });
    let turns: Value = match seed % 5 {
        0 => json!([[shell("a"), mcp], [read("b"), mcp], [shell("d")]]),
        1 => json!([[shell("a"), shell("b"), read("c"), ask]]),
        2 => json!([[ask], [write, shell("x")], [bad]]),
        3 => json!([]),
        _ => json!([[read("a"), read("b"), write, shell("c")], [ask, shell("z")]]),
    };
    let end = ["claim", "give_up", "wait_for_person", "claim"][usize::from(seed / 5 % 4)];
    let author = ["operator", "worker"][usize::from(seed / 20 % 2)];
    let script = json!({ "turns": turns, "end": end, "author": author, "repeat": seed / 40 % 3 });
    let mut task = spec(json!(null));
    task.driver = driver(seed / 2880, script);
    if (seed / 120).is_multiple_of(3) {
        task.acceptance = vec![check_of("t")];
        task.acceptance.extend((0..seed / 7 % 3).map(|place| Criterion::Judge {
            model: "script/judge".to_owned(),
            rubric: "r".to_owned(),
            decides: place == 0,
        }));
    }
    if (seed / 3).is_multiple_of(2) {
        task.servers = ["s", "other"].map(server).to_vec();
    }
    (task.policy.unattended, task.policy.deciders) = match seed / 360 % 4 {
        0 => (Unattended::Wait, Vec::new()),
        1 => (Unattended::Deny, Vec::new()),
        _ => (Unattended::Escalate, deciders(seed)),
    };
    task.budget = match seed / 720 % 4 {
        0 => Budget { max_turns: Some(2), max_tool_calls: Some(3), ..Budget::default() },
        1 => Budget { max_time: Some(Span(40)), ..Budget::default() },
        2 => Budget {
            max_consecutive_errors: Some(2),
            max_consecutive_denies: Some(1),
            ..Budget::default()
        },
        _ => Budget { max_usd: Some(2.0), ..Budget::default() },
    };
    task
}

fn deciders(seed: u16) -> Vec<Decider> {
    let model = || DeciderKind::Model { model: "script/x".to_owned(), rubric: "r".to_owned() };
    let command = vec!["judge".to_owned()];
    let env = BTreeMap::new();
    let plugin = PluginSpec {
        name: "p".to_owned(),
        command,
        timeout: None,
        folder: None,
        env,
        needs: Default::default(),
    };
    let kinds = [model(), DeciderKind::Program { plugin }, DeciderKind::Person, model()];
    let chosen = kinds.into_iter().enumerate().filter(|(n, _)| (seed >> (n + 2)) & 1 == 0);
    let decider = |(n, kind)| Decider {
        name: format!("d{n}"),
        kind,
        timeout: seed.is_multiple_of(2).then_some(Span(20)),
    };
    chosen.map(decider).collect()
}

fn server(name: &str) -> ServerSpec {
    ServerSpec {
        name: name.to_owned(),
        file: "/project/.mcp.json".to_owned(),
        sha256: "ab".to_owned(),
    }
}

/// What a server offers: nothing, or tools of any class.
fn offered(seed: u16) -> ServerTools {
    let server = ["s", "other", "stranger"][usize::from(seed % 3)];
    let claims = ["t", "u"].iter().take(usize::from(seed / 3 % 3)).map(|name| Claim {
        name: (*name).to_owned(),
        read_only: seed.is_multiple_of(2),
        idempotent: seed.is_multiple_of(5),
        ..Claim::default()
    });
    let limits = Limits { only: None, trust_annotations: (seed / 2).is_multiple_of(2) };
    offers(server, claims.collect(), limits)
}

/// Any of the drivers; half of the time the scripted one, which acts the most.
fn driver(seed: u16, script: Value) -> DriverSpec {
    let child = json!({ "driver": "scripted", "config": script });
    let steps = json!({ "name": "w", "steps": [
        { "name": "a", "tool": "shell", "parameters": { "command": "a" }, "on_error": "retry", "max_retries": 2 },
        { "name": "b", "tool": "read", "parameters": { "path": "b" }, "on_error": { "action": "goto", "target": "a" } },
        { "name": "c", "tool": "shell", "parameters": { "command": "c" }, "on_error": "skip" },
    ] });
    let states = json!({ "initial": "work", "states": {
        "work": {
            "action": { "tool": "shell", "parameters": { "command": "w" } },
            "transitions": [{ "to": "both", "when": "ok" }, { "to": "work", "when": "error", "max": 3 }],
        },
        "both": {
            "parallel": [
                { "name": "x", "tool": "read", "parameters": { "path": "x" } },
                { "name": "y", "tool": "shell", "parameters": { "command": "y" } },
            ],
            "join": "any",
            "transitions": [{ "to": "end" }],
        },
        "end": { "terminal": true },
    } });
    let workflow = json!({ "driver": "workflow", "config": steps });
    let part =
        json!({ "goal": "part of {{ goal }}", "driver": "scripted", "budget": { "max_turns": 3 } });
    let tasks = json!({ "name": "t", "steps": [
        { "name": "a", "task": part, "on_error": "retry", "max_retries": 2, "backoff": "5ms" },
        { "name": "b", "foreach": "[1, 2]", "steps": [{ "name": "c", "task": part, "on_error": "skip" }] },
    ] });
    let protocol = ["claude", "acp"][usize::from(seed / 31 % 2)];
    let agent = json!({ "program": {
        "name": "x", "protocol": protocol, "command": ["x"], "operator": "k",
    } });
    let (name, config) = match seed % 31 {
        0 => ("workflow", steps),
        1 => ("state_machine", states),
        2 => ("user", json!(null)),
        3 | 22..=25 => {
            ("external:x", json!({ "plugin": { "name": "x", "command": ["x"] }, "config": null }))
        }
        4 => ("sequence", json!({ "drivers": [child, workflow] })),
        5 => ("fallback", json!({ "drivers": [child, workflow] })),
        6 => ("retry", json!({ "driver": child, "limit": 2, "backoff": "5ms" })),
        7 => ("race", json!({ "drivers": [workflow, child, { "driver": "user" }] })),
        8 => ("until_accepted", json!({ "driver": workflow, "rounds": 2 })),
        9 => ("llm", json!({ "model": "script/x", "max_steps": 9 })),
        10 => ("llm", json!({ "model": "script/x", "context": 40 })),
        11 => ("llm", json!({ "model": "script/x", "context": 40, "chat": true })),
        12 => (
            "race",
            json!({ "drivers": [{ "driver": "llm", "config": { "model": "a/b" } }, child] }),
        ),
        13 | 14 => ("workflow", tasks),
        15 => ("race", json!({ "drivers": [{ "driver": "workflow", "config": tasks }, child] })),
        26..=28 => ("agent", agent),
        29 => ("race", json!({ "drivers": [{ "driver": "agent", "config": agent }, child] })),
        _ => ("scripted", script),
    };
    DriverSpec::new(name, config)
}

/// What came of an attempt; no two say the same.
fn result(id: EffectId, seed: u16) -> ToolResult {
    let text = |word: &str| format!("{word} {}", id.0);
    match seed % 4 {
        0 | 1 => ToolResult::ok(text("out")),
        2 => ToolResult { exit: Some(1), ..ToolResult::ended(Status::Error, text("bad")) },
        _ => ToolResult::ended(Status::TimedOut, text("slow")),
    }
}

/// A report of some outstanding effect, or of one that never was.
pub(crate) fn report(state: &State, seed: u16) -> Input {
    let pending: Vec<(&EffectId, &Pending)> = state.data().pending.iter().collect();
    let foreign = EffectId(u64::from(seed % 40));
    let Some((id, kind)) = pending.get(usize::from(seed) % pending.len().max(1)) else {
        return Input::ToolEnded(foreign, result(foreign, seed));
    };
    let id = if seed.is_multiple_of(11) { foreign } else { **id };
    let workspace = Workspace {
        kind: WorkspaceKind::Worktree,
        path: Some("/w".to_owned()),
        branch: None,
        base: None,
    };
    let checked = CriterionResult {
        title: "shell: t".to_owned(),
        passed: seed.is_multiple_of(3),
        exit: Some(0),
        evidence: String::new(),
        millis: 1,
        ..CriterionResult::default()
    };
    match kind {
        Pending::Call(_) => Input::ToolEnded(id, result(id, seed / 11)),
        Pending::Workspace if seed % 7 == 1 => {
            Signal::WorkspaceOpened(id, Err("no".to_owned())).into()
        }
        Pending::Workspace => Signal::WorkspaceOpened(id, Ok(workspace)).into(),
        Pending::Tools => Signal::ToolsOpened(id, vec![offered(seed), offered(seed / 2)]).into(),
        Pending::Consult => Signal::Consulted(id, consulted(seed)).into(),
        Pending::Decider(_) if seed.is_multiple_of(2) => {
            Signal::Consulted(id, decided(seed / 2)).into()
        }
        Pending::Decider(_) => Signal::ModelReplied(id, Box::new(judged(seed / 2))).into(),
        Pending::Model => Signal::ModelReplied(id, Box::new(replied(id, seed))).into(),
        Pending::Agent => agent(id, seed),
        Pending::Child => Signal::ChildLeft(id, Box::new(left(state, seed))).into(),
        Pending::Checkpoint if seed % 5 == 1 => Signal::Unkeepable(id, "a pipe".to_owned()).into(),
        Pending::Checkpoint => Signal::Checkpointed(
            id,
            Ok(Checkpoint { name: "abc".to_owned(), tree: "tree".to_owned() }),
        )
        .into(),
        Pending::Restore if seed % 5 == 1 => Signal::Restored(id, Err("no".to_owned())).into(),
        Pending::Restore => {
            let undo = Checkpoint { name: "before".to_owned(), tree: "tree".to_owned() };
            Signal::Restored(id, Ok(undo)).into()
        }
        Pending::Verify => {
            let criteria = state.data().spec.criteria();
            let mut results = vec![checked];
            // What stands in the place of a judge is nobody's opinion.
            results.extend(criteria.iter().skip(1).map(|criterion| CriterionResult {
                title: criterion.title(),
                passed: true,
                ..CriterionResult::default()
            }));
            Signal::Verified(id, Ok(Verdict::of(results))).into()
        }
        Pending::Judge => Signal::ModelReplied(id, Box::new(opinion(seed))).into(),
        Pending::Alarm
        | Pending::Deadline
        | Pending::Retry
        | Pending::DeciderTimer(_)
        | Pending::JudgeTimer => Signal::TimerFired(id).into(),
    }
}

/// What an agent says: most of it in the middle of a turn.
fn agent(id: machine::id::EffectId, seed: u16) -> Input {
    let key = || format!("a{}", seed / 40 % 3);
    let means = || match seed / 40 % 5 {
        0 => AgentMeans::Command("git push".to_owned()),
        1 => AgentMeans::Write(vec!["a".to_owned(), "../b".to_owned()]),
        2 => AgentMeans::Read("a".to_owned()),
        3 if (seed / 200).is_multiple_of(2) => AgentMeans::Inner,
        3 => AgentMeans::Ours("write".to_owned()),
        _ => AgentMeans::Other,
    };
    let turn = |end| AgentTurn {
        end,
        text: "words".to_owned(),
        ordered: true,
        refused: 0,
        background: 0,
        queued: 0,
    };
    let usage = Usage { input: Some(u64::from(seed % 50)), output: Some(3), ..Usage::default() };
    let said = |news| Signal::AgentSaid(id, news).into();
    let ended = |ended| Signal::AgentEnded(id, ended).into();
    match seed % 19 {
        0 => said(AgentNews::Taken {
            session: (seed / 19).is_multiple_of(2).then(|| "s".to_owned()),
        }),
        1 => said(AgentNews::Said { text: "words".to_owned(), thinking: "thoughts".to_owned() }),
        2..=4 => said(AgentNews::Asks(AgentAsk {
            key: key(),
            id: key().into(),
            tool: "Tool".to_owned(),
            input: Arc::new(json!({ "a": seed % 3 })),
            means: means(),
            helper: None,
        })),
        5 => said(AgentNews::Withdrawn { key: key() }),
        6 if (seed / 40).is_multiple_of(3) => {
            let ordered = seed.is_multiple_of(2);
            said(AgentNews::Compacted { ordered, before: Some(u64::from(seed)), after: None })
        }
        6 => said(AgentNews::ToolEnded { id: key().into(), ok: true, text: String::new() }),
        7 => said(AgentNews::Spent { usage, usd: Some(0.01), metered: false }),
        8 => ended(Err("gone".to_owned())),
        9 => ended(Ok(turn(AgentEnd::NoSession))),
        10 => ended(Ok(turn(AgentEnd::ContextOverflow))),
        11 => {
            let after = [None, Some(5), Some(100_000_000)][usize::from(seed / 19 % 3)];
            let kind = "rate_limited".to_owned();
            ended(Ok(turn(AgentEnd::Model { kind, status: Some(429), again: true, after })))
        }
        12..=14 => said(AgentNews::Calls(AgentRequest {
            key: key(),
            id: key().into(),
            tool: ["view", "validator.run", "memory", "shell"][usize::from(seed / 40 % 4)]
                .to_owned(),
            input: Arc::new(
                [json!({ "symbol": "x" }), json!({}), json!({ "action": "list" })]
                    [usize::from(seed / 40 % 3)]
                .clone(),
            ),
        })),
        15 => said(AgentNews::OrderFailed(FailedOrder {
            order: "steer".to_owned(),
            reason: "no".to_owned(),
            words: (seed / 40).is_multiple_of(2).then(|| "[operator ] words".to_owned()),
        })),
        16 => ended(Ok(turn(AgentEnd::Broken(AgentFault::Killed)))),
        _ => ended(Ok(turn(AgentEnd::Done))),
    }
}

/// How a process leaves the child of a step: any way there is, or another one's.
fn left(state: &State, seed: u16) -> ChildEnd {
    let child = state.data().awaited_child().map(|(id, _)| id);
    let child = child.filter(|_| !seed.is_multiple_of(13));
    let child = child.unwrap_or_else(|| TaskId("stranger".to_owned()));
    let charge = Charge { usd: 0.1 * f64::from(seed % 5), tokens: 10, unpriced: 0 };
    let end = ChildEnd { charge, ..ChildEnd::put_down(child, "words".to_owned()) };
    let ended = |outcome| ChildEnd { ended: Some(outcome), ..end.clone() };
    match seed / 5 % 7 {
        0 | 1 => ended(Outcome::Completed),
        2 => ended(Outcome::Verified),
        3 => ended(Outcome::Failed),
        4 => ended(Outcome::BudgetExhausted),
        5 => ChildEnd { asks: true, ..end },
        _ => end,
    }
}

/// What a judge says: an opinion, nonsense, or nothing.
fn opinion(seed: u16) -> Result<Reply, ModelFailure> {
    let mut reply = replied(EffectId(0), 0)?;
    let text = match seed / 3 % 5 {
        0 | 1 => json!({ "pass": true, "reason": "good" }).to_string(),
        2 => json!({ "pass": false, "reason": "bad" }).to_string(),
        3 => "it passes".to_owned(),
        _ => return replied(EffectId(0), 5),
    };
    reply.message.blocks = vec![Block { part: Part::Text { text }, native: None }];
    Ok(reply)
}

fn replied(asked: EffectId, seed: u16) -> Result<Reply, ModelFailure> {
    let usage = Usage { input: Some(u64::from(seed % 50)), output: Some(3), ..Usage::default() };
    let block = |part| Block { part, native: None };
    let tool = |name: &str, input| {
        block(Part::ToolUse { id: format!("{name}{}", asked.0), name: name.to_owned(), input })
    };
    let text = block(Part::Text { text: "words".to_owned() });
    let (blocks, stop) = match seed % 7 {
        0 => (vec![text], StopReason::EndTurn),
        1 => (
            vec![
                text,
                tool("read", json!({ "path": "p" })),
                tool("shell", json!({ "command": "a" })),
                tool("nonsense", json!({})),
            ],
            StopReason::ToolUse,
        ),
        2 => (vec![tool("shell", json!({ "command": "c" }))], StopReason::ToolUse),
        3 if (seed / 7).is_multiple_of(2) => (vec![text], StopReason::Pause),
        3 => (vec![text], StopReason::MaxTokens),
        4 => (vec![text], StopReason::Refusal),
        _ => {
            let retry = [Retry::Never, Retry::Backoff, Retry::After(5)][usize::from(seed / 7 % 3)];
            let kind = ["overloaded", "context_overflow"][usize::from(seed / 21 % 2)].to_owned();
            return Err(ModelFailure { kind, retry, message: "no".to_owned(), usage });
        }
    };
    let message = Message { role: Role::Assistant, blocks };
    Ok(Reply { id: "r".to_owned(), model: "m".to_owned(), message, stop, usage })
}

/// What a decider answers: any decision, nonsense, or nothing.
fn decided(seed: u16) -> Result<Value, String> {
    match seed % 6 {
        0 => Err("it died".to_owned()),
        1 => Ok(json!({ "decision": "perhaps" })),
        2 | 3 => Ok(json!({ "decision": "unsure", "reason": "?" })),
        4 => Ok(json!({ "decision": "deny", "reason": "no" })),
        _ => Ok(json!({ "decision": "allow", "reason": "yes" })),
    }
}

fn judged(seed: u16) -> Result<Reply, ModelFailure> {
    let mut reply = replied(EffectId(0), seed)?;
    if let Ok(answer) = decided(seed) {
        let part = Part::Text { text: answer.to_string() };
        reply.message.blocks = vec![Block { part, native: None }];
        reply.stop = StopReason::EndTurn;
    }
    Ok(reply)
}

fn consulted(seed: u16) -> Result<Value, String> {
    let action = json!({ "tool": "read", "parameters": { "path": "p" }, "label": "l" });
    match seed % 6 {
        0 => Err("it died".to_owned()),
        1 => Ok(json!({ "decision": "claim", "summary": "s" })),
        2 => Ok(json!({ "decision": "nonsense" })),
        3 => Ok(json!({ "decision": "wait", "prompt": "well?" })),
        _ => Ok(json!({ "decision": "act", "actions": [action, action], "state": { "n": seed } })),
    }
}

fn input(state: &State, (kind, seed): Seed) -> Input {
    let text = || format!("text {seed}");
    let call = CallId(u64::from(seed % 6) + state.data().last_call.saturating_sub(4));
    let how = [Resolution::Did, Resolution::DidNot, Resolution::Retry][usize::from(seed % 3)];
    match kind % 38 {
        36 | 37 => child(state, seed),
        0 => Command::Start(Box::new(task(seed))).into(),
        1 => Command::Pause.into(),
        2 => Command::Resume.into(),
        3 if seed.is_multiple_of(4) => Command::Cancel { reason: String::new() }.into(),
        4 => Command::Interrupt { note: text() }.into(),
        5 if seed.is_multiple_of(3) => Command::Compact { focus: text() }.into(),
        5 => Command::Steer { text: text() }.into(),
        6 => Command::FollowUp { text: text() }.into(),
        7 => Command::Raise(Budget { max_turns: Some(u64::from(seed % 9)), ..Budget::default() })
            .into(),
        8 => approve(state, call, seed),
        9 => {
            Command::Deny { call, reason: text(), hash: hash(state, call, seed), via: None }.into()
        }
        10 => Command::Answer { call, text: text() }.into(),
        11 => Command::Tell {
            line: ["done", "shell x", "read y", "what", "/done", "/compact names"]
                [usize::from(seed % 6)]
            .to_owned(),
            question: [None, Some(QuestionId(seed.into()))][usize::from(seed % 2)],
        }
        .into(),
        12 => Command::Resolve { call, how }.into(),
        13 => Command::HandOver(task(seed).driver).into(),
        24 if seed.is_multiple_of(7) => Command::NoteIntegration(Integration {
            branch: "main".to_owned(),
            commit: text(),
            tree: text(),
        })
        .into(),
        24 => reopen(seed),
        14 if seed.is_multiple_of(3) => Command::RollBack { to: text() }.into(),
        14 => Command::Drain.into(),
        15 => Command::Detach { reason: text() }.into(),
        16 if seed.is_multiple_of(2) => Signal::ToolsChanged(offered(seed)).into(),
        16 if seed % 24 == 1 => Signal::Slept(Span(u64::from(seed) * 100)).into(),
        16 if seed % 24 == 13 => Signal::SetBack(Span(u64::from(seed) * 100)).into(),
        16 if seed % 24 == 5 => {
            let child = seed.is_multiple_of(5).then(|| TaskId("c0".to_owned()));
            Signal::RecordsLost { lost: u64::from(seed % 3), child }.into()
        }
        16 if seed % 3 == 1 => {
            let count = u32::from(seed % 7);
            let told = if count == 6 { Err(text()) } else { Ok(count) };
            let is_gone = seed.is_multiple_of(5);
            if is_gone { Signal::FolderGone(told) } else { Signal::Restarted(told) }.into()
        }
        16 => Signal::OwnerLost.into(),
        17..=19 => {
            Command::Attach { owner: u64::from(seed), attended: seed.is_multiple_of(2) }.into()
        }
        20..=22 => requested(seed),
        23 => Signal::Withdrawn {
            key: format!("k{}", seed % 5),
            how: [Withdrawal::Cancelled, Withdrawal::Gone][usize::from(seed / 5 % 2)],
        }
        .into(),
        _ => report(state, seed),
    }
}

/// Drivers in which a worker wishes for calls, alone or among others.
fn worker(seed: u16) -> DriverSpec {
    let child = |name: &str, config: Value| json!({ "driver": name, "config": config });
    let plugin = || {
        child("external:x", json!({ "plugin": { "name": "x", "command": ["x"] }, "config": null }))
    };
    let llm = || child("llm", json!({ "model": "script/x" }));
    let asks = |name: &str| json!({ "name": name, "prompt": "p", "model": "script/x" });
    let calls = |name: &str| json!({ "name": name, "driver": "external:x", "driver_config": plugin()["config"].clone() });
    let both = json!({ "name": "w", "steps": [{ "name": "both", "parallel": {
        "x": [calls("a"), asks("b")], "y": [asks("c"), calls("d")] } }] });
    let nested = || child("sequence", json!({ "drivers": [plugin(), llm()] }));
    let (name, config) = match seed % 8 {
        0 => ("external:x", plugin()["config"].clone()),
        1 => ("llm", llm()["config"].clone()),
        2 => ("workflow", both),
        3 => ("race", json!({ "drivers": [nested(), plugin(), llm()] })),
        4 => ("fallback", json!({ "drivers": [llm(), nested()] })),
        5 => ("retry", json!({ "driver": nested(), "limit": 3 })),
        6 => (
            "until_accepted",
            json!({ "driver": child("race", json!({ "drivers": [llm(), plugin()] })) }),
        ),
        _ => return driver(26, Value::Null),
    };
    DriverSpec::new(name, config)
}

/// What happens to a worker whose process dies, and that people stop, hold, speak to and replace.
fn cut_off(state: &State, (kind, seed): Seed) -> Input {
    let text = || format!("text {seed}");
    let open = &state.data().calls;
    let call = open.get(usize::from(seed) % open.len().max(1)).map_or(CallId(1), |call| call.id);
    let how = [Resolution::Did, Resolution::DidNot, Resolution::Retry][usize::from(seed % 3)];
    match kind % 24 {
        0 | 1 => Signal::OwnerLost.into(),
        2..=5 => Command::Attach { owner: u64::from(seed), attended: false }.into(),
        6 => Command::Interrupt { note: text() }.into(),
        7 => Command::Steer { text: text() }.into(),
        8 => Command::HandOver(worker(seed)).into(),
        9 | 10 => Command::Resolve { call, how }.into(),
        11 => Command::Pause.into(),
        12 | 13 => Command::Resume.into(),
        14 => Command::Drain.into(),
        15 => Command::Detach { reason: text() }.into(),
        16 | 17 => {
            let (key, tool) = (format!("k{seed}"), "shell".to_owned());
            Signal::Requested { key, tool, input: Arc::new(json!({ "command": "c" })) }.into()
        }
        _ => report(state, seed),
    }
}

/// A child is dispatched, often with all that is left, or one reports.
fn child(state: &State, seed: u16) -> Input {
    let child = TaskId(format!("c{}", seed / 4 % 4));
    if seed.is_multiple_of(2) {
        let wish = [Some(f64::from(seed / 16 % 3) + 0.5), None][usize::from(seed / 2 % 2)];
        let wish = Budget { max_usd: wish, ..Budget::default() };
        let data = state.data();
        let budget = allot(&data.budget, &data.committed(), &wish).unwrap_or(wish);
        let (goal, depth) = ("part".to_owned(), 1);
        return Command::Dispatch(ChildOrder { child, goal, budget, depth }).into();
    }
    let charge = Charge { usd: f64::from(seed / 16 % 5) / 2.0, tokens: 7, unpriced: 0 };
    let ended = (!seed.is_multiple_of(3)).then_some(Outcome::Completed);
    let never_began = seed.is_multiple_of(7);
    Command::ChildReport(ChildReport { child, charge, ended, never_began }).into()
}

/// A change that did not hold where it was to go; now and then nothing is said to have failed, or where to go on.
fn reopen(seed: u16) -> Input {
    let failed = CriterionResult {
        title: "c".to_owned(),
        passed: seed.is_multiple_of(5),
        ..CriterionResult::default()
    };
    let kept = |name: &str| Checkpoint { name: format!("{name}{seed}"), tree: "t".to_owned() };
    let rebase = (!seed.is_multiple_of(3)).then(|| Rebase {
        branch: "main".to_owned(),
        commit: "2".repeat(40),
        base: kept("b"),
        combined: kept("c"),
    });
    Command::Reopen { reason: "r".to_owned(), results: vec![failed], rebase }.into()
}

/// A call that a worker asks for: few keys, so that some come twice, with the same call or another.
fn requested(seed: u16) -> Input {
    let call = match seed / 5 % 5 {
        0 => shell("a"),
        1 => json!({ "tool": "ask", "input": { "question": "q" } }),
        2 => json!({ "tool": "mcp__s__t", "input": {} }),
        3 => json!({ "tool": "approve", "input": { "call": 1 } }),
        _ => read("b"),
    };
    let key = format!("k{}", seed % 5);
    let tool = call["tool"].as_str().unwrap().to_owned();
    Signal::Requested { key, tool, input: Arc::new(call["input"].clone()) }.into()
}

/// The hash of what was shown: of the call, of another one, or none as in old records.
fn hash(state: &State, call: CallId, seed: u16) -> Option<CallHash> {
    let asked = state.data().calls.iter().find(|open| open.id == call).map(|open| open.hash());
    match seed / 6 % 4 {
        0 => None,
        1 => Some(CallHash::of("another", &json!(seed))),
        _ => asked,
    }
}

fn approve(state: &State, call: CallId, seed: u16) -> Input {
    let scope = [Scope::Once, Scope::Task, Scope::Project][usize::from(seed / 24 % 3)];
    let like = (seed % 5 == 1).then(|| "a *".to_owned());
    let via = [None, Some(Channel::Prompt), Some(Channel::Command)][usize::from(seed % 3)];
    Command::Approve { call, scope, like, hash: hash(state, call, seed), via }.into()
}

/// Every call has at most one end, and is open in the state exactly as long as it has none.
#[derive(Default)]
struct Ledger {
    ended: BTreeMap<CallId, u32>,
    /// What each key of a worker was answered with.
    answers: BTreeMap<String, ToolResult>,
    /// The calls of each key.
    asked: BTreeMap<String, CallId>,
    /// What judges said of the last claim.
    opinions: Vec<CriterionResult>,
    /// What came of each call.
    results: BTreeMap<CallId, ToolResult>,
    /// The same, by what a model calls it.
    by_model: BTreeMap<String, ToolResult>,
}

impl Ledger {
    fn check(&mut self, state: &State, output: &Output) {
        for event in &output.events {
            if let EventKind::ToolEnded { call, tool_use, result, .. } = &event.kind {
                *self.ended.entry(*call).or_default() += 1;
                self.results.insert(*call, result.clone());
                self.by_model.insert(tool_use.clone(), result.clone());
            }
        }
        for (call, times) in &self.ended {
            assert_eq!(*times, 1, "{call} has {times} results");
        }
        self.check_requests(state, output);
        self.check_told(output);
        let data = state.data();
        for number in 1..=data.last_call {
            let call = CallId(number);
            let open = data.calls.iter().find(|open| open.id == call);
            let has_result = self.ended.contains_key(&call);
            match open.map(|open| &open.status) {
                None => assert!(has_result, "{call} vanished without a result"),
                Some(CallStatus::Done(_)) => assert!(has_result, "{call} is done but nobody heard"),
                Some(_) => assert!(!has_result, "{call} has a result but is open"),
            }
        }
        self.check_judges(state, output);
        for pending in data.pending.values() {
            if let Pending::Call(call) = pending {
                let running = data.calls.iter().any(|open| {
                    open.id == *call && matches!(open.status, CallStatus::Running { .. })
                });
                assert!(running, "an effect of {call} is outstanding but the call does not run");
            }
            if let Pending::Decider(call) | Pending::DeciderTimer(call) = pending {
                let asked = data.calls.iter().any(|open| {
                    let asked = matches!(
                        open.status,
                        CallStatus::AwaitingDecider { effect: Some(_), .. }
                            | CallStatus::AwaitingApproval { turn: Some(_), .. }
                    );
                    open.id == *call && asked
                });
                assert!(asked, "a decider is asked about {call}, which does not wait for one");
            }
        }
    }
}

impl Ledger {
    /// Whoever decides is told of each call once, and what is told is what came of it.
    fn check_told(&self, output: &Output) {
        for effect in &output.effects {
            match effect {
                Effect::CallModel { call, .. } => self.check_conversation(&call.messages),
                Effect::Consult { request, .. } => self.check_observed(&request["params"]),
                Effect::AnswerRequest { key, answer: Ok(result), .. } => {
                    let call = self.asked.get(key);
                    assert_eq!(call.and_then(|call| self.results.get(call)), Some(result), "{key}");
                }
                _ => {}
            }
        }
    }

    fn check_conversation(&self, messages: &[Arc<Message>]) {
        for (place, message) in messages.iter().enumerate() {
            let uses = message.blocks.iter().filter_map(|block| match &block.part {
                Part::ToolUse { id, .. } => Some(id),
                _ => None,
            });
            let mut uses: Vec<&String> = uses.collect();
            let next = messages.get(place + 1).map(|next| next.blocks.iter());
            let told = next.into_iter().flatten().filter_map(|block| match &block.part {
                Part::ToolResult { id, text, is_error, .. } => Some((id, text, *is_error)),
                _ => None,
            });
            let told: Vec<(&String, &String, bool)> = told.collect();
            let mut results: Vec<&String> = told.iter().map(|(id, ..)| *id).collect();
            uses.sort();
            results.sort();
            assert_eq!(uses, results, "each call of an answer has one result");
            for (id, text, is_error) in told {
                let came = &self.by_model[id];
                assert!(text.ends_with(&came.text), "{id} is told {text:?}, and was {came:?}");
                assert_eq!(is_error, came.status != Status::Ok, "{id}: {came:?}");
            }
        }
    }

    fn check_observed(&self, asked: &Value) {
        let observed = asked["observations"].as_array().into_iter().flatten();
        let results: Vec<&Value> = observed.filter(|said| said["kind"] == "result").collect();
        let mut calls: Vec<&str> =
            results.iter().filter_map(|said| said["call"].as_str()).collect();
        for said in &results {
            let came = self.results.iter().find(|(call, _)| call.to_string() == said["call"]);
            let (call, came) = came.expect("it has ended");
            assert_eq!(
                (&said["text"], &said["status"]),
                (&json!(came.text), &json!(came.status.word())),
                "{call}"
            );
        }
        let count = calls.len();
        calls.sort_unstable();
        calls.dedup();
        assert_eq!(calls.len(), count, "each is told once: {calls:?}");
    }

    /// Judges are asked one at a time, and a task is verified only if each one that decides said yes.
    fn check_judges(&mut self, state: &State, output: &Output) {
        let data = state.data();
        let asked = data.pending.values().filter(|pending| **pending == Pending::Judge).count();
        assert!(asked <= usize::from(matches!(data.phase, Phase::Judging(_))), "{:?}", data.phase);
        for event in &output.events {
            match &event.kind {
                EventKind::Claimed { .. } => self.opinions.clear(),
                EventKind::CriterionChecked { result } if result.title.starts_with("judge") => {
                    assert_eq!(result.passed, result.evidence == "good", "{result:?}");
                    self.opinions.push(result.clone());
                }
                EventKind::TaskFinished { outcome: Outcome::Verified, .. } => {
                    let judges = data.spec.acceptance.len().saturating_sub(1);
                    assert_eq!(self.opinions.len(), judges, "not every judge was heard");
                    assert!(!self.opinions.iter().any(CriterionResult::fails), "one said no");
                }
                _ => {}
            }
        }
    }

    /// A key has one call and one answer; a call that was asked for is open only while its worker is at work.
    fn check_requests(&mut self, state: &State, output: &Output) {
        for effect in &output.effects {
            if let Effect::AnswerRequest { key, answer: Ok(result), .. } = effect {
                let first = self.answers.entry(key.clone()).or_insert_with(|| result.clone());
                assert_eq!(first, result, "{key} is answered in two ways");
                // One that is refused ends where it was asked for, and is never seen open.
                let refused = output.events.iter().find_map(|event| match &event.kind {
                    EventKind::ToolEnded { call, result: ended, .. } if ended == result => {
                        Some(*call)
                    }
                    _ => None,
                });
                if let Some(call) = refused {
                    self.asked.entry(key.clone()).or_insert(call);
                }
            }
        }
        let data = state.data();
        for call in &data.calls {
            let Some(key) = &call.request else { continue };
            assert_eq!(*self.asked.entry(key.clone()).or_insert(call.id), call.id, "{key}");
            assert!(!self.answers.contains_key(key), "{key} is answered but its call is open");
            let decides = |p: &Pending| matches!(p, Pending::Consult | Pending::Agent);
            let consulted = data.pending.values().any(decides);
            assert!(consulted, "{key} waits but nobody is consulted");
        }
        let open = |key: &String| data.calls.iter().any(|call| call.request.as_ref() == Some(key));
        for key in self.asked.keys().filter(|key| !open(key)) {
            let lost = data.calls.iter().any(|call| self.asked[key] == call.id);
            let in_doubt = self.ended.contains_key(&self.asked[key]);
            assert!(self.answers.contains_key(key) || lost || in_doubt, "{key} waits for ever");
        }
    }
}

fn reload(state: &State) -> State {
    let text = serde_json::to_string(&state.save()).unwrap();
    let saved: SavedState = serde_json::from_str(&text).unwrap();
    assert_eq!(saved, state.save(), "what is saved reads back the same");
    State::load(&saved, registry()).unwrap()
}

fn fresh() -> State {
    State::new(TaskId("t1".to_owned()), registry())
}

/// Whether nothing new may begin.
fn is_held(state: &State) -> bool {
    let data = state.data();
    data.paused || data.attachment.as_ref().is_none_or(|by| by.draining)
}

/// Whether an effect does something that costs or changes anything.
fn works(effect: &Effect) -> bool {
    match effect {
        Effect::OpenWorkspace { .. }
        | Effect::OpenTools { .. }
        | Effect::RunTool { .. }
        | Effect::Consult { .. }
        | Effect::CallModel { .. }
        | Effect::AskAgent { .. }
        | Effect::Checkpoint { .. }
        | Effect::Restore { .. }
        | Effect::Verify { .. }
        | Effect::DriveChild { .. }
        | Effect::TakeUpChild { .. } => true,
        Effect::AnswerRequest { .. }
        | Effect::TellAgent { .. }
        | Effect::LetAsk { .. }
        | Effect::DismissAgents { .. }
        | Effect::TellChild { .. }
        | Effect::SetTimer { .. }
        | Effect::Cancel { .. } => false,
    }
}

/// A task that may move has under way what it waits for.
fn waits_for_something(state: &State) {
    let data = state.data();
    let is_made_ready = data.unready && data.pending.values().any(|p| *p == Pending::Workspace);
    // What is set aside comes back with the children.
    if is_held(state) || is_made_ready || data.awaits_children {
        return;
    }
    if !data.calls.is_empty() {
        return a_call_waits_for_something(state);
    }
    let expected: &[Pending] = match &data.phase {
        Phase::OpeningWorkspace => &[Pending::Workspace],
        Phase::OpeningTools => &[Pending::Tools],
        Phase::KeepingBase | Phase::Checkpointing { .. } => &[Pending::Checkpoint],
        Phase::Verifying { .. } => &[Pending::Verify],
        Phase::RollingBack { .. } => &[Pending::Restore],
        Phase::Judging(_) => &[Pending::Judge, Pending::JudgeTimer],
        Phase::Waiting(Wait::Until { .. } | Wait::Person { until: Some(_), .. }) => {
            &[Pending::Alarm]
        }
        Phase::Consulting { request } => match request {
            Consultation::Plugin(_) => &[Pending::Consult],
            Consultation::Model(_) => &[Pending::Model, Pending::Retry],
            Consultation::Agent(_) => &[Pending::Agent, Pending::Checkpoint, Pending::Retry],
            // A child may have been put down.
            Consultation::Task(_) => return,
        },
        Phase::Ready | Phase::Acting => panic!("nothing is decided: {:?}", data.phase),
        Phase::New | Phase::Waiting(_) | Phase::Escalated { .. } | Phase::Finished { .. } => return,
    };
    let is_under_way = data.pending.values().any(|pending| expected.contains(pending));
    assert!(is_under_way, "{:?} waits for nothing: {:?}", data.phase, data.pending);
}

/// As long as calls of an open turn have not ended, one of them runs, or somebody is asked about one.
fn a_call_waits_for_something(state: &State) {
    let data = state.data();
    if !matches!(data.phase, Phase::Acting | Phase::Ready) {
        return;
    }
    let is_alive = data.calls.iter().any(|call| match &call.status {
        CallStatus::Queued { .. } | CallStatus::Done(_) => false,
        CallStatus::AwaitingDecider { .. }
        | CallStatus::AwaitingApproval { .. }
        | CallStatus::AwaitingAnswer
        | CallStatus::Running { .. }
        | CallStatus::InDoubt => true,
    });
    let is_under_way = data.pending.values().any(|pending| *pending != Pending::Deadline);
    assert!(is_alive || is_under_way, "nothing happens to {:?}", data.calls);
}

/// Gives back the live state as it is in the end.
pub(crate) fn check_laws(
    opening: &[Input],
    seeds: &[Seed],
    input: impl Fn(&State, Seed) -> Input,
) -> State {
    let first = seeds.len() as u16;
    let mut live = fresh();
    let mut reloaded = fresh();
    let mut ledger = Ledger::default();
    let mut records: Vec<(i64, String)> = Vec::new();
    let mut outputs: Vec<Output> = Vec::new();
    let mut now = 1_000;
    let count = opening.len();
    for index in 0..count + seeds.len() {
        let input =
            if index < count { opening[index].clone() } else { input(&live, seeds[index - count]) };
        now += i64::from(first % 7);
        records.push((now, serde_json::to_string(&input).unwrap()));
        let stamped = |input| Stamped { time: Timestamp(now), input };
        let was_held = is_held(&live);
        let was_over = matches!(live.data().phase, Phase::Finished { .. });
        let output = step(&mut live, stamped(input.clone()));
        ledger.check(&live, &output);
        waits_for_something(&live);
        // Going back is asked for by a person, and done also where the task is held or has ended.
        let is_asked = live.data().going_back.is_some();
        // Where it ends in the same step, it calls off what it had begun in it.
        let ends = !was_over && matches!(live.data().phase, Phase::Finished { .. });
        let is_called_off = |id| {
            let off =
                |effect: &Effect| matches!(effect, Effect::Cancel { target } if *target == id);
            ends && output.effects.iter().any(off)
        };
        if was_held && is_held(&live) && !is_asked {
            let begun = output.effects.iter().filter(|e| works(e) && !is_called_off(e.id()));
            let begun: Vec<&Effect> = begun.collect();
            assert_eq!(begun, Vec::<&Effect>::new(), "held, it begins something at {input:?}");
        }
        if seeds.get(index.saturating_sub(count)).is_none_or(|seed| seed.1.is_multiple_of(3)) {
            reloaded = reload(&reloaded);
        }
        assert_eq!(
            step(&mut reloaded, stamped(input)),
            output,
            "a reloaded state answers the same"
        );
        outputs.push(output);
    }
    let mut folded = fresh();
    for ((time, text), output) in records.iter().zip(&outputs) {
        let input: Input = serde_json::from_str(text).unwrap();
        let again = step(&mut folded, Stamped { time: Timestamp(*time), input });
        assert_eq!(again, *output, "a replay gives the same effects and events");
    }
    assert_eq!(folded.save(), live.save(), "the fold of the records is the live state");
    let mut quiet = fresh();
    quiet.set_quiet(true);
    for (time, text) in &records {
        let input: Input = serde_json::from_str(text).unwrap();
        assert!(step(&mut quiet, Stamped { time: Timestamp(*time), input }).events.is_empty());
    }
    assert_eq!(quiet.save(), live.save(), "a quiet fold differs only in what is heard");
    goes_on_once_it_may(reload(&live), now);
    nobody_is_waited_for_in_vain(reload(&live), now);
    live
}

/// Whatever a task was held in the middle of, it is under way again as soon as it may move.
fn goes_on_once_it_may(mut state: State, now: i64) {
    let inputs: [Input; 2] =
        [Command::Resume.into(), Command::Attach { owner: 9, attended: false }.into()];
    for input in inputs {
        step(&mut state, Stamped { time: Timestamp(now), input });
        waits_for_something(&state);
    }
}

/// A task that waits for its children has some that have not ended, and waits no longer once all have reported.
fn nobody_is_waited_for_in_vain(mut state: State, now: i64) {
    let open: Vec<TaskId> = (state.data().children.iter())
        .filter(|(_, child)| child.ended.is_none())
        .map(|(id, _)| id.clone())
        .collect();
    assert!(!state.data().awaits_children || !open.is_empty(), "nobody is left to report");
    for child in open {
        let charge = state.data().children[&child].charged;
        let ended = Some(Outcome::Cancelled);
        let report = ChildReport { child, charge, ended, never_began: false };
        step(
            &mut state,
            Stamped { time: Timestamp(now), input: Command::ChildReport(report).into() },
        );
    }
    let moves = state.data().attachment.as_ref().is_some_and(|by| !by.draining);
    if moves && !state.data().paused {
        assert!(!state.data().awaits_children, "it waits for nobody");
        assert!(state.data().held_asks.is_empty(), "a request waits for nobody");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40 * ProptestConfig::default().cases, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_hold_for_any_inputs(first: u16, seeds in prop::collection::vec(any::<Seed>(), 0..40)) {
        let opening = [
            Command::Start(Box::new(task(first))).into(),
            Command::Attach { owner: 1, attended: first.is_multiple_of(2) }.into(),
        ];
        check_laws(&opening, &seeds, input);
    }

    #[test]
    fn the_laws_hold_for_workers_that_are_cut_off(first: u16, seeds in prop::collection::vec(any::<Seed>(), 0..40)) {
        let mut task = task(first);
        task.driver = worker(first);
        task.budget = Budget::default();
        task.policy = Policy { profile: Some(Profile::Open), ..Policy::default() };
        let opening = [
            Command::Start(Box::new(task)).into(),
            Command::Attach { owner: 1, attended: first.is_multiple_of(2) }.into(),
        ];
        check_laws(&opening, &seeds, cut_off);
    }
}
