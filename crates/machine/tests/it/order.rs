//! The calls of one answer of a model: what changes something runs in the order of the answer, what changes nothing side by
//! side.

use machine::id::CallId;
use machine::input::Command;
use machine::message::{Part, StopReason};
use machine::policy::permission::{Decide, Rule};
use machine::task::TaskSpec;
use machine::tool::{Status, ToolResult};
use serde_json::{Value, json};

use crate::model::{self, answer, reply};
use crate::rig::{Rig, spec};

/// A model that may do this with every tool.
fn task(decide: Decide) -> TaskSpec {
    let mut task = model::task();
    task.policy.rules = vec![Rule { tool: "*".to_owned(), decide, ..Rule::default() }];
    task
}

fn shell(command: &str) -> (&str, Value) {
    ("shell", json!({ "command": command }))
}

fn read(path: &str) -> (&str, Value) {
    ("read", json!({ "path": path }))
}

/// A task whose model has asked for these.
fn asked(task: TaskSpec, attended: bool, calls: &[(&str, Value)]) -> Rig {
    let mut rig = Rig::new();
    rig.command(Command::Start(Box::new(task)));
    rig.attach(attended).open_workspace();
    let part = |(at, (name, input)): (usize, &(&str, Value))| {
        model::tool(&format!("u{at}"), name, input.clone())
    };
    let parts: Vec<Part> = calls.iter().enumerate().map(part).collect();
    answer(&mut rig, Ok(reply(parts, StopReason::ToolUse)));
    rig
}

fn ok(rig: &mut Rig, effect: u64) -> String {
    rig.ended(effect, ToolResult::ok("")).told()
}

#[test]
fn what_changes_something_waits_for_what_was_asked_for_before_it() {
    let calls =
        [read("a"), read("b"), shell("git add a"), shell("git commit"), read("a"), read("b")];
    let mut rig = asked(task(Decide::Allow), false, &calls);
    assert_eq!(
        rig.told(),
        "[run_tool#3 run_tool#4] model_replied, turn_started, tool_started c1, tool_started c2"
    );
    assert_eq!(ok(&mut rig, 4), "[] tool_ended c2 ok");
    assert_eq!(ok(&mut rig, 3), "[run_tool#5] tool_ended c1 ok, tool_started c3");
    assert_eq!(ok(&mut rig, 5), "[run_tool#6] tool_ended c3 ok, tool_started c4");
    let both = "[run_tool#7 run_tool#8] tool_ended c4 ok, tool_started c5, tool_started c6";
    assert_eq!(ok(&mut rig, 6), both);
    assert_eq!(ok(&mut rig, 8), "[] tool_ended c6 ok");
    assert_eq!(ok(&mut rig, 7), "[call_model#9] tool_ended c5 ok, turn_ended, model_called");
}

#[test]
fn one_that_fails_or_is_refused_lets_the_next_one_begin() {
    let mut rule = task(Decide::Allow);
    rule.policy
        .rules
        .insert(0, Rule { tool: "write".to_owned(), decide: Decide::Deny, ..Rule::default() });
    let write = ("write", json!({ "path": "a", "content": "x" }));
    let mut rig = asked(rule, false, &[shell("false"), write, ("edit", json!({})), shell("true")]);
    assert_eq!(rig.told(), "[run_tool#3] model_replied, turn_started, tool_started c1");
    rig.ended(3, ToolResult::ended(Status::Error, "no"));
    assert_eq!(
        rig.told(),
        "[run_tool#4] tool_ended c1 error, tool_ended c2 denied, tool_ended c3 error, tool_started c4"
    );
}

#[test]
fn a_person_is_asked_about_all_of_them_at_once_and_they_run_in_their_order() {
    let mut rig = asked(task(Decide::Ask), true, &[shell("one"), shell("two")]);
    assert_eq!(
        rig.told(),
        "[] model_replied, turn_started, approval_requested c1, approval_requested c2"
    );
    let approve = |rig: &mut Rig, call| rig.command(Command::approve(CallId(call))).told();
    assert_eq!(approve(&mut rig, 2), "[] approval_decided");
    assert_eq!(approve(&mut rig, 1), "[run_tool#3] approval_decided, tool_started c1");
    assert_eq!(ok(&mut rig, 3), "[run_tool#4] tool_ended c1 ok, tool_started c2");
}

#[test]
fn a_question_to_a_person_holds_up_nothing() {
    let ask = ("ask", json!({ "question": "why?" }));
    let rig = asked(task(Decide::Allow), true, &[ask, shell("one")]);
    assert_eq!(
        rig.told(),
        "[run_tool#3] model_replied, turn_started, question_asked c1, tool_started c2"
    );
}

#[test]
fn what_was_written_down_to_run_at_once_does() {
    let turns = json!({ "turns": [[crate::rig::shell("one"), crate::rig::shell("two")]] });
    let mut written = spec(turns);
    written.policy = task(Decide::Allow).policy;
    let rig = Rig::started(written);
    assert_eq!(
        rig.told(),
        "[run_tool#2 run_tool#3] workspace_opened, turn_started, tool_started c1, tool_started c2"
    );
}
