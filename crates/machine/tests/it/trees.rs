//! The laws again, for drivers within drivers: composites, branches, elements, states and workers of every kind, nested at
//! random. And whatever happened to such a tree, an honest world brings it to an end.

use machine::driver::Wait;
use machine::id::{CallId, EffectId};
use machine::input::{Command, Input, Resolution, Signal, Stamped};
use machine::message::{Block, Message, Part, Reply, Role, StopReason, Usage};
use machine::policy::budget::Budget;
use machine::policy::grant::Scope;
use machine::policy::permission::{Policy, Profile};
use machine::state::{CallStatus, Pending, Phase, State};
use machine::step;
use machine::task::{CriterionResult, DriverSpec, Outcome, Workspace, WorkspaceKind};
use machine::time::Timestamp;
use machine::tool::ToolResult;
use machine::verdict::{Checkpoint, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::laws::{check_laws, report};
use crate::rig::{check_of, read, shell, spec};

/// Numbers that follow from one.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A tree of drivers, as the name and the configuration of its top.
fn tree(dice: &mut Dice, depth: u32, names: &mut u32) -> (&'static str, Value) {
    let kind = if depth == 0 { dice.roll(6) } else { dice.roll(13) };
    let mut child = |dice: &mut Dice| {
        let (name, config) = tree(dice, depth - 1, names);
        json!({ "driver": name, "config": config })
    };
    match kind {
        0 => ("scripted", script(dice)),
        1 | 6 | 7 => ("workflow", json!({ "name": "w", "steps": row(dice, depth, names) })),
        2 => ("state_machine", machine(dice)),
        3 => ("external:x", json!({ "plugin": { "name": "x", "command": ["x"] }, "config": null })),
        4 => ("user", Value::Null),
        5 => ("llm", json!({ "model": "script/x" })),
        8 => ("sequence", json!({ "drivers": [child(dice), child(dice)] })),
        9 => ("fallback", json!({ "drivers": [child(dice), child(dice)] })),
        10 => {
            let mut config = json!({ "driver": child(dice), "limit": 2 });
            if dice.roll(2) == 0 {
                config["backoff"] = json!("5ms");
            }
            ("retry", config)
        }
        11 => ("until_accepted", json!({ "driver": child(dice), "rounds": 2 })),
        _ => ("race", json!({ "drivers": [child(dice), child(dice)] })),
    }
}

fn script(dice: &mut Dice) -> Value {
    let ask = json!({ "tool": "ask", "input": { "question": "q" } });
    let turns = match dice.roll(4) {
        0 => json!([[shell("a"), read("b")]]),
        1 => json!([[ask], [shell("c")]]),
        2 => json!([]),
        _ => json!([[read("d")], [shell("e"), shell("f")]]),
    };
    let end = ["claim", "give_up", "wait_for_person", "claim"][dice.roll(4) as usize];
    let author = ["operator", "worker"][dice.roll(2) as usize];
    json!({ "turns": turns, "end": end, "author": author })
}

fn machine(dice: &mut Dice) -> Value {
    let inner = json!({ "initial": "in", "states": {
        "in": { "action": { "tool": "shell", "parameters": { "command": "in" } },
                "transitions": [{ "to": "out", "when": "ok" }, { "to": "in", "when": "error", "max": 2 }] },
        "out": { "terminal": true },
    } });
    let hook = json!([{ "tool": "read", "parameters": { "path": "h" }, "on_error": "skip" }]);
    let both = json!([
        { "name": "x", "tool": "read", "parameters": { "path": "x" } },
        { "name": "y", "tool": "shell", "parameters": { "command": "y" } },
    ]);
    let join = ["all", "any"][dice.roll(2) as usize];
    json!({ "initial": "a", "states": {
        "a": { "machine": inner, "on_exit": hook, "transitions": [{ "to": "b", "when": "ok" }, { "to": "a", "when": "error", "max": 2 }] },
        "b": { "parallel": both, "join": join, "on_entry": hook,
               "transitions": [{ "to": "end", "when": "ok" }, { "to": "a", "max": 1 }] },
        "end": { "terminal": true },
    } })
}

fn row(dice: &mut Dice, depth: u32, names: &mut u32) -> Value {
    let count = 1 + dice.roll(3);
    Value::Array((0..count).map(|_| work(dice, depth, names)).collect())
}

fn work(dice: &mut Dice, depth: u32, names: &mut u32) -> Value {
    *names += 1;
    let name = format!("s{names}");
    let kind = if depth == 0 { dice.roll(5) } else { dice.roll(10) };
    let mut made = match kind {
        0 | 1 => json!({ "tool": "shell", "parameters": { "command": name } }),
        2 => json!({ "tool": "read", "parameters": { "path": name } }),
        3 => json!({ "approve": "may it?" }),
        4 => json!({ "prompt": "p", "model": "script/x" }),
        5 | 6 => {
            let (driver, config) = tree(dice, depth - 1, names);
            let config = if config.is_null() { json!({}) } else { config };
            json!({ "driver": driver, "driver_config": config })
        }
        7 => json!({
            "foreach": "[1, 2, 3]", "steps": row(dice, depth - 1, names), "max_parallel": 1 + dice.roll(2),
        }),
        8 => json!({ "workflow": { "name": "n", "steps": row(dice, depth - 1, names) } }),
        _ => {
            let join = ["all", "any"][dice.roll(2) as usize];
            let (x, y) = (row(dice, depth - 1, names), row(dice, depth - 1, names));
            json!({ "parallel": { "x": x, "y": y }, "join": join })
        }
    };
    made["name"] = json!(name);
    match dice.roll(6) {
        0 => made["on_error"] = json!("skip"),
        1 => {
            made["on_error"] = json!("retry");
            made["max_retries"] = json!(2);
            if dice.roll(2) == 0 {
                made["backoff"] = json!("5ms");
            }
        }
        _ => {}
    }
    if dice.roll(5) == 0 {
        made["timeout"] = json!("9ms");
    }
    made
}

/// What an honest world does next: whatever is under way goes well, and people say yes.
fn honest(state: &State, turn: u64) -> Option<Input> {
    let data = state.data();
    match &data.phase {
        Phase::Finished { outcome: Outcome::BudgetExhausted, .. } => {
            let more = |limit: Option<u64>| limit.map(|limit| limit + 1_000);
            let (max_turns, max_tool_calls) =
                (more(data.budget.max_turns), more(data.budget.max_tool_calls));
            let raised = Budget { max_turns, max_tool_calls, ..Budget::default() };
            return Some(Command::Raise(raised).into());
        }
        Phase::Finished { .. } => return None,
        _ => {}
    }
    if data.paused {
        return Some(Command::Resume.into());
    }
    match &data.attachment {
        None => return Some(Command::Attach { owner: 9, attended: true }.into()),
        Some(by) if by.draining => {
            return Some(Command::Detach { reason: "drained".to_owned() }.into());
        }
        Some(_) => {}
    }
    let is_timer = |pending: &Pending| {
        matches!(
            pending,
            Pending::Alarm | Pending::Retry | Pending::DeciderTimer(_) | Pending::JudgeTimer
        )
    };
    if let Some((id, pending)) =
        data.pending.iter().find(|(_, p)| !is_timer(p) && **p != Pending::Deadline)
    {
        return Some(reported(state, *id, pending));
    }
    for call in &data.calls {
        match call.status {
            CallStatus::AwaitingApproval { .. } => {
                let (scope, like, via) = (Scope::Once, None, None);
                let hash = Some(call.hash());
                return Some(Command::Approve { call: call.id, scope, like, hash, via }.into());
            }
            CallStatus::AwaitingAnswer => {
                return Some(Command::Answer { call: call.id, text: "a".to_owned() }.into());
            }
            CallStatus::InDoubt => {
                return Some(Command::Resolve { call: call.id, how: Resolution::Did }.into());
            }
            _ => {}
        }
    }
    if matches!(data.phase, Phase::Waiting(Wait::Person { .. })) {
        let line = ["done", "yes", "/done"][(turn % 3) as usize].to_owned();
        return Some(Command::Tell { line, question: None }.into());
    }
    let timer = data.pending.iter().find(|(_, pending)| is_timer(pending));
    timer.map(|(id, _)| Signal::TimerFired(*id).into())
}

fn reported(state: &State, id: EffectId, pending: &Pending) -> Input {
    let reply = |text: &str| {
        let part = Part::Text { text: text.to_owned() };
        let message = Message { role: Role::Assistant, blocks: vec![Block { part, native: None }] };
        let usage = Usage::default();
        let (id, model, stop) = ("r".to_owned(), "m".to_owned(), StopReason::EndTurn);
        Ok(Reply { id, model, message, stop, usage })
    };
    let kept = || Checkpoint { name: format!("c{}", id.0), tree: format!("t{}", id.0) };
    match pending {
        Pending::Call(_) => Input::ToolEnded(id, ToolResult::ok("out")),
        Pending::Workspace => {
            let (kind, path) = (WorkspaceKind::InPlace, Some("/w".to_owned()));
            Signal::WorkspaceOpened(id, Ok(Workspace { kind, path, branch: None, base: None }))
                .into()
        }
        Pending::Consult => {
            Signal::Consulted(id, Ok(json!({ "decision": "claim", "summary": "s" }))).into()
        }
        Pending::Model => Signal::ModelReplied(id, Box::new(reply("words"))).into(),
        Pending::Checkpoint => Signal::Checkpointed(id, Ok(kept())).into(),
        Pending::Restore => Signal::Restored(id, Ok(kept())).into(),
        Pending::Verify => {
            let passed = |title: String| CriterionResult {
                title,
                passed: true,
                ..CriterionResult::default()
            };
            let criteria = state.data().spec.criteria();
            let results = criteria.iter().map(|criterion| passed(criterion.title())).collect();
            Signal::Verified(id, Ok(Verdict::of(results))).into()
        }
        other => panic!("no part of these trees: {other:?}"),
    }
}

/// Words of a driver, or of the loop, that has lost its place.
const LOST: [&str; 7] = [
    "waits for results but nothing is under way",
    "waits for nothing",
    "is not there any more",
    "in a circle",
    "without anything happening",
    "named no action",
    "the saved place",
];

fn ends_in_an_honest_world(state: &mut State, mut now: i64) {
    for turn in 0..600 {
        if let Phase::Finished { reason, outcome, .. } = &state.data().phase
            && *outcome != Outcome::BudgetExhausted
        {
            let is_lost = LOST.iter().any(|words| reason.contains(words));
            assert!(!is_lost, "{reason}");
            return;
        }
        if matches!(state.data().phase, Phase::Escalated { .. }) {
            return;
        }
        let Some(input) = honest(state, turn) else {
            let data = state.data();
            panic!("it waits for nothing: {:?} {:?} {:?}", data.phase, data.calls, data.pending);
        };
        now += 50;
        let output = step(state, Stamped { time: Timestamp(now), input: input.clone() });
        let is_tell = matches!(&input, Input::Command(Command::Tell { .. }));
        assert!(is_tell || output.rejected.is_none(), "{:?} at {input:?}", output.rejected);
    }
    let open: Vec<CallId> = state.data().calls.iter().map(|call| call.id).collect();
    panic!("it never ends: {:?} {open:?} {:?}", state.data().phase, state.data().pending);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4 * ProptestConfig::default().cases, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_hold_for_any_tree_of_drivers(
        of in 0..u64::MAX,
        seeds in prop::collection::vec(any::<(u8, u16)>(), 0..60),
    ) {
        let mut dice = Dice(of);
        let (name, config) = tree(&mut dice, 3, &mut 0);
        let mut task = spec(Value::Null);
        task.driver = DriverSpec::new(name, config);
        if dice.roll(2) == 0 {
            task.acceptance = vec![check_of("t")];
        }
        task.budget = match dice.roll(4) {
            0 => Budget { max_turns: Some(dice.roll(3)), ..Budget::default() },
            1 => Budget { max_tool_calls: Some(dice.roll(4)), ..Budget::default() },
            _ => Budget::default(),
        };
        if dice.roll(2) == 0 {
            task.policy = Policy { profile: Some(Profile::Open), ..Policy::default() };
        }
        let opening = [
            Command::Start(Box::new(task)).into(),
            Command::Attach { owner: 1, attended: dice.roll(2) == 0 }.into(),
        ];
        let mut left = check_laws(&opening, &seeds, of_a_tree);
        ends_in_an_honest_world(&mut left, 10_000);
    }
}

/// Mostly reports, and now and then what befalls a task.
fn of_a_tree(state: &State, (kind, seed): (u8, u16)) -> Input {
    let open = &state.data().calls;
    let call = open.get(usize::from(seed) % open.len().max(1)).map_or(CallId(1), |call| call.id);
    let how = [Resolution::Did, Resolution::DidNot, Resolution::Retry][usize::from(seed % 3)];
    match kind % 32 {
        0 => Signal::OwnerLost.into(),
        1..=3 => Command::Attach { owner: seed.into(), attended: seed.is_multiple_of(2) }.into(),
        4 => Command::Interrupt { note: "i".to_owned() }.into(),
        5 => Command::Steer { text: "s".to_owned() }.into(),
        6 => Command::FollowUp { text: "f".to_owned() }.into(),
        7 => {
            let (name, config) = tree(&mut Dice(seed.into()), 2, &mut 0);
            Command::HandOver(DriverSpec::new(name, config)).into()
        }
        8 | 9 => Command::Resolve { call, how }.into(),
        10 => Command::Pause.into(),
        11 | 12 => Command::Resume.into(),
        13 => Command::Drain.into(),
        14 => Command::Detach { reason: "d".to_owned() }.into(),
        15 if seed.is_multiple_of(4) => Command::RollBack { to: "c1".to_owned() }.into(),
        15 | 16 => Command::Answer { call, text: "a".to_owned() }.into(),
        17 | 18 => {
            let line = ["done", "yes", "no", "fail x", "what"][usize::from(seed % 5)].to_owned();
            Command::Tell { line, question: None }.into()
        }
        _ => report(state, seed),
    }
}
