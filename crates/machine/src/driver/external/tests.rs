//! Questions and answers, with the driver saved and loaded before each use.

use super::*;
use crate::driver::{Note, NoteKind};
use crate::id::CallId;
use crate::task::CriterionResult;
use crate::time::Timestamp;
use crate::tool::{Status, ToolResult};

const HERE: Situation<'static> = Situation {
    goal: "count",
    criteria: &[],
    now: Timestamp(1000),
    turns: 4,
    path: &[2],
    tools: &[],
};

fn config() -> Value {
    json!({ "plugin": { "name": "countdown", "command": ["./countdown"] }, "config": { "from": 3 } })
}

/// Saves and loads before each use.
struct Plugin(Box<dyn Driver>);

impl Plugin {
    fn new() -> Plugin {
        Plugin(ExternalKind.create(&config(), &Registry::default()).unwrap())
    }

    fn reload(&mut self) -> &mut dyn Driver {
        let saved = self.0.save();
        self.0 = ExternalKind.load(&config(), &saved, &Registry::default()).unwrap();
        assert_eq!(self.0.save(), saved);
        self.0.as_mut()
    }

    fn decide(&mut self) -> Decision {
        self.reload().decide(&HERE)
    }

    /// The parameters of the question it has now.
    fn question(&mut self) -> Value {
        match self.decide() {
            Decision::Consult(Consultation::Plugin(request)) => request["params"].clone(),
            other => panic!("expected a question, got {other:?}"),
        }
    }

    fn tell(&mut self, fact: &Fact<'_>) {
        self.reload().observe(&HERE, fact);
    }

    fn answer(&mut self, answer: Value) -> Decision {
        self.question();
        self.tell(&Fact::Consulted(Ok(&answer)));
        self.decide()
    }
}

#[test]
fn a_question_says_who_is_asked_and_what_is_known() {
    let mut plugin = Plugin::new();
    let Decision::Consult(Consultation::Plugin(request)) = plugin.decide() else {
        panic!("expected a question")
    };
    let expected = json!({
        "method": "decide",
        "params": { "goal": "count", "turns": 4, "observations": [], "state": null },
        "plugin": { "name": "countdown", "command": ["./countdown"] },
        "config": { "from": 3 },
        "path": [2],
    });
    assert_eq!(request, expected);
}

#[test]
fn many_long_results_fit_into_one_question() {
    let mut plugin = Plugin::new();
    let read = |n: u64| json!({ "tool": "read", "parameters": { "path": format!("f{n}") } });
    let answer = json!({ "decision": "act", "actions": (1..=512).map(read).collect::<Vec<_>>() });
    let Decision::Act(actions) = plugin.answer(answer) else { panic!("expected actions") };
    // Texts as long as results can be, and as long as they can get in JSON.
    let long = ["\u{1}".repeat(64 * 1024), "é".repeat(32 * 1024), "short".to_owned()];
    for (n, action) in (1..).zip(&actions) {
        let result = ToolResult::ok(format!("{}end of {n}", long[n as usize % 3]));
        plugin.0.observe(&HERE, &Fact::Result { call: CallId(n), action, result: &result });
    }
    let question = plugin.question();
    assert!(question.to_string().len() < 8_000_000, "{}", question.to_string().len());
    let seen = question["observations"].as_array().unwrap();
    assert_eq!(seen.len(), 512);
    for (n, seen) in (1..).zip(seen) {
        let text = seen["text"].as_str().unwrap();
        assert!(text.ends_with(&format!("end of {n}")), "the end of each is there");
        let is_cut = text.starts_with("[... ");
        assert_eq!(is_cut, n % 3 != 2, "{n}: what is short is there whole");
    }
}

#[test]
fn a_plugin_that_only_waits_is_told_of_and_has_an_end() {
    let mut plugin = ExternalKind.create(&config(), &Registry::default()).unwrap();
    let answer = json!({ "decision": "wait", "seconds": 1, "reason": "no file" });
    let mut wait = |heard: bool| {
        if heard {
            plugin.observe(&HERE, &Fact::Told("go"));
        }
        plugin.decide(&HERE);
        plugin.observe(&HERE, &Fact::Consulted(Ok(&answer)));
        match plugin.decide(&HERE) {
            Decision::Wait(Wait::Until { reason, .. }) => reason,
            Decision::GiveUp { reason, stuck } => format!("gives up ({stuck}): {reason}"),
            other => panic!("{other:?}"),
        }
    };
    for _ in 1..MANY_WAITS {
        assert_eq!(wait(false), "no file");
    }
    assert_eq!(wait(false), "10 times in a row: no file");
    assert_eq!(wait(true), "no file", "something happened");
    for _ in 1..MOST_WAITS {
        wait(false);
    }
    assert_eq!(
        wait(false),
        "gives up (true): plugin countdown did nothing but wait 100000 times in a row, last with: no file"
    );
    assert_eq!(wait(false), "no file", "whoever has it try again has it begin to count again");
}

#[test]
fn an_answer_becomes_a_decision() {
    let mut plugin = Plugin::new();
    let acted = plugin.answer(json!({
        "decision": "act",
        "actions": [{ "tool": "write", "parameters": { "path": "a" }, "label": "one", "timeout": "9s" }],
    }));
    let expected = Action {
        tool: "write".to_owned(),
        input: Arc::new(json!({ "path": "a" })),
        label: "one".to_owned(),
        tool_use: String::new(),
        path: Vec::new(),
        author: Author::Worker,
        timeout: Some(Span::seconds(9)),
    };
    assert_eq!(acted, Decision::Act(vec![expected]));
    let waited = plugin.answer(json!({ "decision": "wait", "seconds": 1.5, "reason": "rate" }));
    assert_eq!(
        waited,
        Decision::Wait(Wait::Until { at: Timestamp(2500), reason: "rate".to_owned() })
    );
    // One that asks for no wait at all is not asked as fast as it answers.
    let waited = plugin.answer(json!({ "decision": "wait", "seconds": 0, "reason": "soon" }));
    assert_eq!(
        waited,
        Decision::Wait(Wait::Until { at: Timestamp(2000), reason: "soon".to_owned() })
    );
    let asked = plugin.answer(json!({ "decision": "wait", "prompt": "which?" }));
    assert_eq!(asked, Decision::Wait(Wait::person("which?")));
    let claimed = plugin.answer(json!({ "decision": "claim", "summary": "done" }));
    assert_eq!(claimed, Decision::Claim { summary: "done".to_owned() });
    let stuck = plugin.answer(json!({ "decision": "give_up", "reason": "circle", "stuck": true }));
    assert_eq!(stuck, Decision::GiveUp { reason: "circle".to_owned(), stuck: true });
}

#[test]
fn a_plugin_hears_everything_once_and_gets_its_state_back() {
    let mut plugin = Plugin::new();
    let act = json!({ "decision": "act", "actions": [{ "tool": "read" }], "state": { "left": 2 } });
    let Decision::Act(actions) = plugin.answer(act) else { panic!("expected actions") };
    let mut result = ToolResult::ended(Status::Error, "no such file");
    result.exit = Some(1);
    plugin.tell(&Fact::Result { call: CallId(7), action: &actions[0], result: &result });
    plugin.tell(&Fact::Told("go on"));
    let note = Note { kind: NoteKind::FollowUp, text: "and then".to_owned() };
    plugin.tell(&Fact::Note(&note));
    let failed = CriterionResult {
        title: "shell: test".to_owned(),
        passed: false,
        exit: Some(2),
        evidence: "no".to_owned(),
        millis: 5,
        ..CriterionResult::default()
    };
    plugin.tell(&Fact::VerdictFailed(&[failed]));
    let question = plugin.question();
    assert_eq!(question["state"], json!({ "left": 2 }));
    let observed = json!([
        { "kind": "result", "call": "c7", "tool": "read", "label": "", "status": "error", "exit": 1, "text": "no such file" },
        { "kind": "told", "line": "go on" },
        { "kind": "note", "how": "follow_up", "text": "and then" },
        { "kind": "verdict_failed", "criteria": [
            { "title": "shell: test", "passed": false, "exit": 2, "evidence": "no", "millis": 5 }
        ] },
    ]);
    assert_eq!(question["observations"], observed);

    // What comes while the question is open belongs to the next one; an answer without state keeps it.
    plugin.tell(&Fact::Told("late"));
    plugin.tell(&Fact::Consulted(Ok(&json!({ "decision": "claim" }))));
    plugin.decide();
    let question = plugin.question();
    assert_eq!(question["observations"], json!([{ "kind": "told", "line": "late" }]));
    assert_eq!(question["state"], json!({ "left": 2 }));
}

#[test]
fn a_wrong_answer_is_told_and_the_third_in_a_row_ends_it() {
    let mut plugin = Plugin::new();
    plugin.tell(&Fact::Told("hello"));
    let wrong = json!({ "decision": "act", "actions": [], "state": "spoilt" });
    let Decision::Consult(Consultation::Plugin(request)) = plugin.answer(wrong) else {
        panic!("expected a question")
    };
    assert_eq!(request["params"]["error"], "actions: expected at least one");
    assert_eq!(request["params"]["observations"], json!([{ "kind": "told", "line": "hello" }]));
    assert_eq!(request["params"]["state"], Value::Null);
    plugin.answer(json!("act"));
    let ended = plugin.answer(json!({ "decision": "sing" }));
    let Decision::GiveUp { reason, stuck: false } = ended else {
        panic!("expected an end, got {ended:?}")
    };
    assert!(
        reason.starts_with(
            "plugin countdown answered wrongly 3 times in a row: unknown variant `sing`"
        ),
        "{reason}"
    );
}

#[test]
fn wrong_answers_say_what_is_wrong() {
    for (answer, expected) in [
        (json!(3), "expected an object with \"decision\", got 3"),
        (json!({}), "missing field `decision`"),
        (json!({ "decision": "act" }), "missing field `actions`"),
        (
            json!({ "decision": "act", "actions": [{ "tool": "read", "input": {} }] }),
            "unknown field `input`",
        ),
        (
            json!({ "decision": "act", "actions": vec![json!({ "tool": "read" }); 513] }),
            "actions: expected at most 512, got 513",
        ),
        (json!({ "decision": "claim", "sumary": "" }), "unknown field `sumary`"),
        (json!({ "decision": "wait" }), "wait: expected either \"prompt\" or \"seconds\""),
        (json!({ "decision": "wait", "seconds": -1 }), "seconds: expected 0 to 31536000, got -1"),
    ] {
        let error = Answer::read(&answer).unwrap_err();
        assert!(error.starts_with(expected), "{answer}: {error}");
    }
}

#[test]
fn a_lost_answer_is_asked_for_once_more() {
    let mut plugin = Plugin::new();
    plugin.question();
    plugin.tell(&Fact::Consulted(Err("it exited with 1")));
    plugin.question();
    plugin.tell(&Fact::Consulted(Err("it exited with 1\nTraceback")));
    let reason =
        "plugin countdown did not answer 2 times in a row: it exited with 1\nTraceback".to_owned();
    assert_eq!(plugin.decide(), Decision::GiveUp { reason, stuck: false });
}

#[test]
fn a_wrong_configuration_is_named() {
    let create = |config: Value| ExternalKind.create(&config, &Registry::default()).unwrap_err();
    assert!(create(json!({ "from": 3 })).starts_with("plugin: missing"));
    assert!(
        create(json!({ "plugin": { "name": "a" } })).starts_with("plugin: missing field `command`")
    );
    let empty = json!({ "plugin": { "name": "a", "command": [] } });
    assert_eq!(create(empty), "plugin.command: expected a program and its arguments");
    let extra = json!({ "plugin": { "name": "a", "command": ["b"] }, "from": 3 });
    assert!(create(extra).starts_with("plugin: unknown field `from`"));
}
