//! What an approver sees: every byte of a call, nothing hidden, and what was decided.

use machine::Command;
use machine::id::{CallId, QuestionId, TaskId};
use machine::policy::call_hash::CallHash;
use machine::policy::grant::Scope;
use machine::state::Ask;
use serde_json::{Value, json};
use view::approvals::{Amount, Approval, Next, answers, approval, next_lines};
use view::decisions;

use crate::scene::{Scene, asking, workflow};

fn shown(tool: &str, input: &Value, part: &str, amount: Amount) -> String {
    let hash = CallHash::of(tool, input);
    let reason = "asked by rule 1";
    view::join(&approval(&Approval { call: CallId(7), tool, input, reason, hash, part }, amount))
}

#[test]
fn what_hides_is_shown_and_what_only_looks_familiar_is_named() {
    let command = format!("echo hi{}; g\u{456}t push \u{202e}x\u{1b}[8m", " ".repeat(300));
    let input = json!({ "command": command, "note": "a\n\n\n\n\n\n\n\n\nb" });
    insta::assert_snapshot!(shown("shell", &input, "g\u{456}t push", Amount::Screen), @r"
    ? c7 wants to run shell (asked by rule 1)
        command: echo hi\(300 spaces); gіt push \u{202e}x\x1b[8m
        note:
          | a
          | \(8 empty lines)
          | b
        asked about: gіt push
        ! 2 characters that cannot be seen, shown as escapes
        ! gіt mixes alphabets: U+0456 is Cyrillic
        hash: a0f094f6b2a4
    ");
}

#[test]
fn a_long_call_says_how_much_is_missing_and_shows_both_ends() {
    let content: Vec<String> = (1..=500).map(|n| format!("line {n}")).collect();
    let input = json!({ "content": content.join("\n"), "path": "x".repeat(9000) + "END" });
    let page = shown("write", &input, "", Amount::Screen);
    let lines: Vec<&str> = page.lines().collect();
    assert!(lines.len() < 60, "{page}");
    for part in ["| line 1", "| line 40", "| line 491", "| line 500"] {
        assert!(lines.iter().any(|line| line.trim() == part), "{part}: {page}");
    }
    let bytes = content.join("\n").len();
    assert!(page.contains(&format!(
        "… 450 more lines here, {bytes} bytes in all; drivetrain approvals --whole"
    )));
    assert!(page.contains("…(7003 more characters here;") && page.contains("xEND\n"), "{page}");
    let whole = shown("write", &input, "", Amount::Whole);
    assert!(whole.contains("| line 250\n") && whole.contains(&("x".repeat(9000) + "END")));
    assert!(!whole.contains("more lines") && !whole.contains("more characters"));
}

#[test]
fn every_byte_of_a_call_counts_in_what_is_shown() {
    // Two calls that differ anywhere are shown differently, in full.
    let base = "echo a b\tc\u{200b}d\n\n\n\n\n\n\n  e";
    let page = |command: &str| shown("shell", &json!({ "command": command }), "", Amount::Whole);
    for (at, c) in base.char_indices() {
        let mut other = base.to_owned();
        other.replace_range(at..at + c.len_utf8(), "");
        assert_ne!(page(base), page(&other), "without {c:?} at {at}");
    }
}

#[test]
fn each_decision_is_one_line_with_who_and_why() {
    let mut task = workflow(&["make", "make"]);
    task.policy = asking();
    task.budget.max_turns = None;
    let mut scene = Scene::begin(task);
    let hash = |scene: &Scene| match &scene.state.asks()[0] {
        Ask::Approval { hash, .. } => Some(*hash),
        other => panic!("{other:?}"),
    };
    let (scope, bound) = (Scope::Task, hash(&scene));
    scene.put(Command::Approve { call: CallId(1), scope, like: None, hash: bound, via: None });
    scene.end(machine::tool::ToolResult::ok(""));
    let lines: Vec<view::Line> =
        scene.events.iter().filter_map(|event| decisions::line(&event.kind)).collect();
    insta::assert_snapshot!(view::join(&lines), @"
    c1 ask 2e8b7a1f3b2c shell: make [rule 1, tool: look first]
    c1 allow 2e8b7a1f3b2c shell: make [person, tool: for this task]
    c2 allow 2e8b7a1f3b2c shell: make [grant c1, tool]
    ");
    let why = scene.why();
    assert!(why.contains("allowed    shell ") && why.contains(" as approved at c1"), "{why}");
}

#[test]
fn a_denial_that_stands_is_in_why_until_it_ends() {
    let mut task = workflow(&["make", "make"]);
    task.policy = asking();
    task.driver = machine::task::DriverSpec::new("user", Value::Null);
    let mut scene = Scene::begin(task);
    scene.put(Command::tell("shell make"));
    let Ask::Approval { hash, .. } = scene.state.asks()[0].clone() else { panic!() };
    let reason = "not \u{1b}[8mnow".to_owned();
    scene.put(Command::Deny { call: CallId(1), reason, hash: Some(hash), via: None });
    let why = scene.why();
    assert!(
        why.contains("denied     shell ") && why.contains("for 20 more turns: not \\x1b[8mnow"),
        "{why}"
    );
}

#[test]
fn a_choice_is_suggested_only_if_it_is_shown_as_it_is() {
    let suggested = |choice: &str| {
        let choices = vec![choice.to_owned(), "blue".to_owned()];
        let ask = Ask::Question { call: CallId(1), question: "which?".to_owned(), choices };
        let next = answers(&TaskId("k3v9".to_owned()), "llm", &ask);
        view::join(&next_lines(&next)).trim().to_owned()
    };
    assert_eq!(suggested("dark red"), "drivetrain answer k3v9 c1 'dark red'  answer it");
    let hostile = "\u{1b}]0;PWNED\u{7}\u{1b}[31mred\nEVIL LINE";
    for choice in [hostile, "red\u{202e}", "--help", ""] {
        assert_eq!(suggested(choice), "drivetrain answer k3v9 c1 TEXT  answer it", "{choice:?}");
    }
    let ask = Ask::Decision {
        number: QuestionId(2),
        prompt: "Ship it? (--now\u{1b}[2J / no)".to_owned(),
    };
    let next = answers(&TaskId("k3v9".to_owned()), "workflow", &ask);
    assert_eq!(next[0].command, "drivetrain answer k3v9 q2 TEXT");
    let forged = [Next::new("drivetrain \u{1b}[2J\nx".to_owned(), "no")];
    assert_eq!(view::join(&next_lines(&forged)).trim(), r"drivetrain \x1b[2J\nx  no");
}
