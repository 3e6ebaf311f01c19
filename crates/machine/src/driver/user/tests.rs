//! Lines and what they mean; what the prompt says.

use super::*;
use crate::driver::{Note, NoteKind};
use crate::id::CallId;
use crate::time::Timestamp;
use crate::tool::Status;

const HERE: Situation<'static> =
    Situation { goal: "g", criteria: &[], now: Timestamp(0), turns: 0, path: &[], tools: &[] };

fn check(line: &str, expected: &str) {
    let got = match parse(line) {
        Ok(Move::Act { tool, input }) => format!("{tool} {input}"),
        Ok(Move::Claim(summary)) => format!("claim {summary:?}"),
        Ok(Move::GiveUp(reason)) => format!("give up {reason:?}"),
        Ok(Move::Help) => "help".to_owned(),
        Err(why) => format!("error: {why}"),
    };
    assert_eq!(got, expected, "{line}");
}

#[test]
fn a_line_is_a_tool_call_in_words_or_in_json() {
    check("shell cargo test -- 'a b'", r#"shell {"command":"cargo test -- 'a b'"}"#);
    check("!ls | wc -l", r#"shell {"command":"ls | wc -l"}"#);
    check("  ! ls ", r#"shell {"command":"ls"}"#);
    check("shell { echo a; }", r#"shell {"command":"{ echo a; }"}"#);
    check(r#"shell {"command":"ls","timeout":"9s"}"#, r#"shell {"command":"ls","timeout":"9s"}"#);
    check("read a.txt", r#"read {"path":"a.txt"}"#);
    check("read 'a b.txt' 10 20", r#"read {"limit":20,"offset":10,"path":"a b.txt"}"#);
    check(
        r#"write a.txt say "hi"  there"#,
        r#"write {"content":"say \"hi\"  there\n","path":"a.txt"}"#,
    );
    check("glob {src,tests}/*.rs", r#"glob {"pattern":"{src,tests}/*.rs"}"#);
    check("grep fn.main src", r#"grep {"path":"src","pattern":"fn.main"}"#);
    check(r#"grep "fn main""#, r#"grep {"pattern":"fn main"}"#);
    check(r#"edit {"path":"a","old":"b","new":"c"}"#, r#"edit {"new":"c","old":"b","path":"a"}"#);
    check("skeleton src", r#"skeleton {"path":"src"}"#);
    check(r#"skeleton {"path":"a","depth":1}"#, r#"skeleton {"depth":1,"path":"a"}"#);
    check("view Parser::push src/lib.rs", r#"view {"path":"src/lib.rs","symbol":"Parser::push"}"#);
    check("validator.run", "validator.run {}");
    check("validator.run rust docs", r#"validator.run {"only":["rust","docs"]}"#);
    check("memory list", r#"memory {"action":"list"}"#);
    check("memory forget ci", r#"memory {"action":"forget","name":"ci"}"#);
    check(
        "memory write ci it is  slow",
        r#"memory {"action":"write","name":"ci","text":"it is  slow\n"}"#,
    );
    check("say hello there", r#"say {"text":"hello there"}"#);
    check("ask is it ready", r#"ask {"question":"is it ready"}"#);
}

#[test]
fn help_lists_every_tool_and_every_verb() {
    let shown = |word: &str| HELP.lines().any(|line| line.starts_with(word));
    // `fail` is another word for giving up.
    let missing: Vec<&str> = commands().filter(|word| *word != "fail" && !shown(word)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_line_can_end_the_task() {
    check("done", r#"claim """#);
    check("done all numbers add up", r#"claim "all numbers add up""#);
    check("give up", r#"give up "the operator gave up""#);
    check("give up  no access", r#"give up "no access""#);
    check("fail no access", r#"give up "no access""#);
    check("help", "help");
}

#[test]
fn a_wrong_line_says_what_was_expected() {
    check("", "error: nothing was typed");
    check("shel ls", "error: there is no command \"shel\"; did you mean shell?");
    check("give in", "error: expected: give up [REASON]");
    let error = parse("frobnicate").unwrap_err();
    assert!(
        error.starts_with("there is no command \"frobnicate\"; expected one of ask, edit, glob"),
        "{error}"
    );
    assert!(error.ends_with("write, done, fail, give up, help"), "{error}");
    check("shell", "error: expected: shell COMMAND");
    check("!", "error: expected: shell COMMAND");
    check("fail", "error: expected: fail REASON");
    check("read", "error: expected: read PATH [FROM [LINES]]");
    check("read a x", "error: expected: read PATH [FROM [LINES]]; \"x\" is not a number of lines");
    check("read 'a", "error: a closing ' is missing");
    check("write a.txt", "error: expected: write PATH TEXT");
    check("grep a b c", "error: expected: grep PATTERN [PATH]; quote a pattern with spaces");
    check("patch", r#"error: expected: patch {"diff": …}"#);
    check(
        "edit a b",
        "error: expected: edit {\"path\": …, \"old\": …, \"new\": …}; the text after edit is not a JSON \
         object: expected value at line 1 column 1",
    );
    check(
        r#"read {"file":"a"}"#,
        "error: read has no parameter \"file\": expected path, offset, limit",
    );
}

/// Saves and loads the driver before each use: a person may answer days later, in another process.
fn reload(driver: &dyn Driver) -> Box<dyn Driver> {
    let saved = driver.save();
    let again = UserKind.load(&Value::Null, &saved, &Registry::default()).unwrap();
    assert_eq!(again.save(), saved);
    again
}

fn prompt(driver: &mut dyn Driver) -> String {
    match driver.decide(&HERE) {
        Decision::Wait(Wait::Person { prompt, .. }) => prompt,
        other => panic!("expected a prompt, got {other:?}"),
    }
}

#[test]
fn the_prompt_tells_what_happened_since_the_last_line() {
    let mut driver = UserKind.create(&json!({}), &Registry::default()).unwrap();
    assert_eq!(prompt(driver.as_mut()), "What is the next move? Type help for the commands.");

    driver.observe(&HERE, &Fact::Told("!make"));
    let mut driver = reload(driver.as_ref());
    let Decision::Act(actions) = driver.decide(&HERE) else { panic!("expected an action") };
    assert_eq!(actions[0].author, Author::Operator);

    let mut result = ToolResult::ended(Status::Error, "cc\nno rule\n\n");
    result.exit = Some(2);
    driver.observe(&HERE, &Fact::Result { call: CallId(1), action: &actions[0], result: &result });
    let note = Note { kind: NoteKind::Steer, text: "try ninja".to_owned() };
    driver.observe(&HERE, &Fact::Note(&note));
    let mut driver = reload(driver.as_ref());
    assert_eq!(prompt(driver.as_mut()), "shell: error (exit 2): no rule\nnote: try ninja");

    driver.observe(&HERE, &Fact::Told("don"));
    assert_eq!(
        prompt(driver.as_mut()),
        "there is no command \"don\"; did you mean done? (help lists the commands)"
    );
    driver.observe(&HERE, &Fact::Told("help"));
    assert_eq!(prompt(driver.as_mut()), HELP);
    driver.observe(&HERE, &Fact::Told("done"));
    assert_eq!(driver.decide(&HERE), Decision::Claim { summary: String::new() });
}

#[test]
fn a_failed_verdict_is_in_the_prompt_with_the_end_of_its_evidence() {
    let mut driver = UserKind.create(&Value::Null, &Registry::default()).unwrap();
    let result = |title: &str, passed, evidence: String| CriterionResult {
        title: title.to_owned(),
        passed,
        exit: Some(1),
        evidence,
        millis: 3,
        ..CriterionResult::default()
    };
    let long = format!("{}\nthe end", "x".repeat(3000));
    driver.observe(
        &HERE,
        &Fact::VerdictFailed(&[
            result("shell: true", true, String::new()),
            result("shell: make test", false, long),
        ]),
    );
    let text = prompt(driver.as_mut());
    assert!(
        text.starts_with("the work was not accepted:\n- shell: make test (exit 1)\n  …\n  xxx"),
        "{text}"
    );
    assert!(text.ends_with("x\n  the end"), "{text}");
    assert!(text.chars().count() < 2200);
}

#[test]
fn any_configuration_is_refused() {
    let error = UserKind.create(&json!({"steps": []}), &Registry::default()).unwrap_err();
    assert_eq!(error, "steps: the driver user takes no configuration");
}
