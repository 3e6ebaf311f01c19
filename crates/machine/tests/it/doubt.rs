//! Calls in doubt whose turn somebody ended: their results are for whoever decided on them, each once and by its id,
//! whoever decides next.

use std::sync::Arc;

use machine::driver::{Decision, DriverSlot, Fact, Situation};
use machine::effect::Effect;
use machine::event::EventKind;
use machine::id::CallId;
use machine::input::{Command, Resolution, Signal};
use machine::message::{Part, StopReason};
use machine::policy::permission::{Policy, Profile};
use machine::state::{CallStatus, SavedState, Standing, State};
use machine::task::{DriverSpec, TaskSpec};
use machine::time::Timestamp;
use machine::tool::ToolResult;
use serde_json::{Value, json};

use crate::model::{reply, text, tool};
use crate::rig::{Rig, call, read, registry, shell, spec};

fn plugin() -> Value {
    json!({ "plugin": { "name": "x", "command": ["x"] }, "config": null })
}

fn child(driver: &str, config: Value) -> Value {
    json!({ "driver": driver, "config": config })
}

fn scripted() -> Value {
    child("scripted", json!({ "turns": [[read("a"), shell("b")]] }))
}

fn workflow(steps: Value) -> Value {
    json!({ "name": "w", "steps": steps })
}

fn ask_step(name: &str) -> Value {
    json!({ "name": name, "prompt": "x", "model": "script/x" })
}

/// A task whose plugin asked for a command, and whose process died over it.
fn in_doubt(driver: DriverSpec) -> Rig {
    let mut task = TaskSpec { driver, ..spec(json!(null)) };
    task.policy = Policy { profile: Some(Profile::Open), ..Policy::default() };
    let mut rig = Rig::started(task);
    let (key, tool) = ("k1".to_owned(), "shell".to_owned());
    let input = Arc::new(json!({ "command": "deploy" }));
    rig.input(Signal::Requested { key, tool, input }.into());
    rig.input(Signal::OwnerLost.into()).attach(false);
    assert_eq!(rig.state.data().calls[0].status, CallStatus::InDoubt, "{}", rig.told());
    rig
}

fn resolve(rig: &mut Rig) {
    rig.command(Command::Resolve { call: call(1), how: Resolution::Did });
    assert!(rig.told().contains("tool_ended c1 ok"), "{}", rig.told());
}

/// What the plugin was last told, by call.
fn observed(rig: &Rig) -> Vec<String> {
    let consulted = rig.last.effects.iter().find_map(|effect| match effect {
        Effect::Consult { request, .. } => Some(request["params"]["observations"].clone()),
        _ => None,
    });
    let observations = consulted.expect("a plugin is asked");
    let results = observations.as_array().unwrap().iter().filter(|o| o["kind"] == "result");
    results.map(|o| format!("{} {}", o["call"].as_str().unwrap(), o["text"])).collect()
}

#[test]
fn whoever_takes_over_decides_once_somebody_has_said_what_became_of_a_call_in_doubt() {
    let llm = || child("llm", json!({ "model": "script/x" }));
    let race = |children: Value| json!({ "drivers": children });
    let successors = [
        ("race", race(json!([child("race", race(json!([scripted(), llm()]))), scripted()]))),
        ("sequence", race(json!([child("retry", json!({ "driver": llm() })), scripted()]))),
        ("fallback", race(json!([llm(), scripted()]))),
        ("retry", json!({ "driver": scripted() })),
        ("until_accepted", json!({ "driver": child("race", race(json!([llm()]))) })),
        ("workflow", workflow(json!([ask_step("a")]))),
        (
            "workflow",
            workflow(json!([
            { "name": "both", "parallel": { "x": [ask_step("b")], "y": [ask_step("c")] } }])),
        ),
        ("user", json!(null)),
        ("external:x", plugin()),
        ("llm", json!({ "model": "script/x" })),
    ];
    for (name, next) in successors {
        let mut rig = in_doubt(DriverSpec::new("external:x", plugin()));
        rig.command(Command::HandOver(DriverSpec::new(name, next)));
        assert!(!rig.told().contains("driver_changed"), "{name}: {}", rig.told());
        assert!(matches!(rig.state.standing(), Standing::AwaitingPerson { .. }), "{name}");
        resolve(&mut rig);
        assert!(rig.told().contains("driver_changed"), "{name}: {}", rig.told());
        assert!(!rig.told().contains("signal_dropped"), "{name}: {}", rig.told());
        assert_eq!(rig.state.driver_name(), name);
        let calls = &rig.state.data().calls;
        assert!(calls.iter().all(|call| call.id != CallId(1)), "{name}: {calls:?}");
    }
}

/// As an earlier drivetrain left it: the next driver had decided on a call of its own, beside the one in doubt.
fn with_a_call_of_another(next: DriverSpec, path: &[u32]) -> Rig {
    let mut rig = in_doubt(DriverSpec::new("external:x", plugin()));
    let foreign = serde_json::to_value(&rig.state.data().calls[0]).unwrap();
    rig.command(Command::HandOver(next));
    resolve(&mut rig);
    let mut saved = serde_json::to_value(rig.state.save()).unwrap();
    let calls = saved["data"]["calls"].as_array_mut().unwrap();
    calls.insert(0, foreign);
    calls[0]["action"]["path"] = json!(path);
    let saved: SavedState = serde_json::from_value(saved).unwrap();
    rig.state = State::load(&saved, registry()).unwrap();
    rig
}

#[test]
fn a_result_that_is_nobodys_is_dropped_and_counted() {
    let children = json!({ "drivers": [child("race", json!({ "drivers": [scripted()] }))] });
    let both = workflow(json!([{ "name": "both", "parallel": {
        "x": [{ "name": "d", "driver": "scripted", "driver_config": { "turns": [[shell("b")]] } }],
        "y": [{ "name": "t", "tool": "shell", "parameters": { "command": "t" } }],
    } }]));
    let cases: [(&str, Value, &[u32]); 7] = [
        ("race", children.clone(), &[]),
        ("race", children.clone(), &[0]),
        ("race", children.clone(), &[0, 4]),
        ("sequence", children.clone(), &[0]),
        ("fallback", children, &[7, 7]),
        ("retry", json!({ "driver": scripted() }), &[]),
        ("workflow", both, &[0]),
    ];
    for (name, config, path) in cases {
        let mut rig = with_a_call_of_another(DriverSpec::new(name, config), path);
        rig.command(Command::Resolve { call: call(1), how: Resolution::Did });
        let mut dropped = rig.told().contains("signal_dropped");
        let own: Vec<u64> = rig.state.data().pending.keys().map(|id| id.0).collect();
        for effect in own {
            rig.ended(effect, ToolResult::ok(""));
            dropped |= rig.told().contains("signal_dropped");
        }
        assert!(dropped, "{name} {path:?}: {}", rig.told());
        assert_eq!(rig.state.data().dropped, 1, "{name} {path:?}");
        assert!(rig.told().contains("task_finished completed"), "{name} {path:?}: {}", rig.told());
    }
}

#[test]
fn a_result_goes_to_the_branch_that_asked_for_it() {
    let step =
        |name: &str| json!({ "name": name, "driver": "external:x", "driver_config": plugin() });
    for quick in [0, 1] {
        let shell = json!({ "name": "t", "tool": "read", "parameters": { "path": "t" } });
        let mut branches = [json!([step("a")]), json!([step("b")])];
        branches[quick] = json!([shell, step("c")]);
        let (x, y) = (&branches[0], &branches[1]);
        let both = workflow(json!([{ "name": "both", "parallel": { "x": x, "y": y } }]));
        let mut task = TaskSpec { driver: DriverSpec::new("workflow", both), ..spec(json!(null)) };
        task.policy = Policy { profile: Some(Profile::Open), ..Policy::default() };
        let mut rig = Rig::started(task);
        rig.ended(rig.effect("run_tool").0, ToolResult::ok(""));
        for round in ["first", "second"] {
            let (key, tool) = (round.to_owned(), "shell".to_owned());
            let input = Arc::new(json!({ "command": round }));
            rig.input(Signal::Requested { key, tool, input }.into());
            rig.input(Signal::OwnerLost.into()).attach(false);
            let doubtful = rig.state.data().calls[0].id;
            rig.command(Command::Resolve { call: doubtful, how: Resolution::Did });
            assert_eq!(observed(&rig).len(), 1, "{}", rig.told());
            let asked = rig.effect("consult");
            rig.input(Signal::Consulted(asked, Ok(json!({ "decision": "claim" }))).into());
        }
        assert!(rig.told().contains("task_finished completed"), "{}", rig.told());
    }
}

#[test]
fn an_interrupt_and_a_steer_leave_a_call_in_doubt_until_somebody_says_what_became_of_it() {
    let mut rig = in_doubt(DriverSpec::new("external:x", plugin()));
    rig.command(Command::Interrupt { note: "stop".to_owned() });
    rig.command(Command::Steer { text: "the other way".to_owned() });
    assert!(!rig.told().contains("consult"), "{}", rig.told());
    assert_eq!(rig.state.data().calls[0].status, CallStatus::InDoubt, "{}", rig.told());
    resolve(&mut rig);
    assert!(rig.told().contains("note_delivered the other way"), "{}", rig.told());
    assert_eq!(observed(&rig), ["c1 \"a person says that it ran to its end\""]);
    // It decides on calls, and the operator speaks before they begin.
    let asked = rig.effect("consult");
    let act = json!({ "decision": "act", "actions": [{ "tool": "shell", "parameters": { "command": "x" } }] });
    rig.command(Command::Pause).input(Signal::Consulted(asked, Ok(act)).into());
    rig.command(Command::Steer { text: "no".to_owned() }).command(Command::Resume);
    assert!(rig.told().contains("tool_ended c2 skipped"), "{}", rig.told());
    assert_eq!(observed(&rig).len(), 1, "{}", rig.told());
    let told = |rig: &Rig| {
        let ends = rig.last.events.iter();
        ends.filter(|event| matches!(event.kind, EventKind::ToolEnded { .. })).count()
    };
    assert_eq!(told(&rig), 1);
}

#[test]
fn a_model_hears_of_each_call_by_its_id_whatever_the_order() {
    let config = json!({ "model": "script/x", "first": [
        { "tool": "read", "input": { "path": "p" }, "title": "The plan" }] });
    let mut llm = DriverSlot::create("llm", &config, &registry()).unwrap().live;
    let situation =
        Situation { goal: "g", criteria: &[], now: Timestamp(0), turns: 0, path: &[], tools: &[] };
    let Decision::Act(looks) = llm.decide(&situation) else { panic!("it looks first") };
    let tell = |llm: &mut Box<dyn machine::driver::Driver>, id: u64, action, said: &str| {
        let result = ToolResult::ok(said);
        llm.observe(&situation, &Fact::Result { call: CallId(id), action, result: &result });
    };
    tell(&mut llm, 1, &looks[0], "the plan");
    let Decision::Consult(_) = llm.decide(&situation) else { panic!("it asks") };
    let asks = ["a", "b", "c"].map(|id| tool(id, "shell", json!({ "command": id })));
    llm.observe(&situation, &Fact::Replied(Ok(&reply(asks.to_vec(), StopReason::ToolUse))));
    let Decision::Act(mut actions) = llm.decide(&situation) else { panic!("it acts") };
    // One that an earlier drivetrain had begun and saved.
    actions[0].tool_use.clear();
    // What another one asked for, and what was looked at before, is no result of these.
    tell(&mut llm, 9, &looks[0], "late");
    for (place, said) in [(2, "of c"), (0, "of a"), (1, "of b")] {
        tell(&mut llm, 2, &actions[place], said);
    }
    tell(&mut llm, 9, &actions[0], "twice");
    let Decision::Consult(machine::driver::Consultation::Model(asked)) = llm.decide(&situation)
    else {
        panic!("it asks again")
    };
    let last = asked.messages.last().unwrap();
    let told: Vec<String> = (last.blocks.iter())
        .map(|block| match &block.part {
            Part::ToolResult { id, text, .. } => format!("{id}: {text}"),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["c: of c", "a: of a", "b: of b"]);
    llm.observe(&situation, &Fact::Replied(Ok(&reply(vec![text("x")], StopReason::EndTurn))));
}
