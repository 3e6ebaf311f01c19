//! Cases that went wrong in the systems before this one, by the number they have in the list of them: those of workflows.

use serde_json::Value;

use crate::environment::TestEnvironment;

fn run(place: &TestEnvironment, name: &str) -> (i32, String) {
    let ran = place.run(&["workflow", "run", name, "--in-place"]);
    (ran.code, format!("{}{}", ran.out, ran.err))
}

#[test]
fn edge_case_39_a_later_step_reads_the_output_and_the_error_of_a_failed_step_that_was_skipped() {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\nmatch = \"to-err\"\ntext = \"heard\"\n");
    place.write(
        ".drivetrain/workflows/look.toml",
        r#"
        [workflow]
        [workflow.llm]
        model = "script/replies.toml"
        [[workflow.steps]]
        name = "fails"
        tool = "shell"
        parameters = { command = "echo to-out; echo to-err >&2; exit 3" }
        on_error = "skip"
        [[workflow.steps]]
        name = "left"
        tool = "shell"
        when = "steps.fails.ok"
        parameters = { command = "touch never" }
        [[workflow.steps]]
        name = "tell"
        tool = "write"
        when = "steps.fails.failed and steps.left.skipped"
        parameters = { path = "seen", content = "{{ steps.fails.text }}|{{ steps.fails.status }} {{ steps.fails.exit }}|{{ steps.left.status }}|{{ steps.left.text }}|" }
        [[workflow.steps]]
        name = "ask"
        prompt = "What is wrong with {{ steps.fails.text }}"
        [[workflow.steps]]
        name = "answer"
        tool = "write"
        parameters = { path = "answer", content = "{{ steps.ask.text }}" }
        "#,
    );
    let (code, said) = run(&place, "look");
    assert_eq!(code, 0, "{said}");
    let seen = place.read("seen");
    assert!(seen.contains("to-out") && seen.contains("to-err"), "{seen}");
    assert!(seen.ends_with("|error 3|skipped||"), "{seen}");
    assert!(!place.folder().join("never").exists());
    assert_eq!(place.read("answer"), "heard", "the model was told what the failed step said");
}

#[test]
fn edge_case_40_a_sign_that_is_meant_a_reference_twice_and_a_real_cycle() {
    let place = TestEnvironment::new();
    place.write(".drivetrain/prompts/line.txt", "from the prompt");
    place.write(
        ".drivetrain/workflows/inner.toml",
        "[workflow]\n[[workflow.steps]]\nname = \"say\"\ntool = \"shell\"\nparameters = { command = \"echo inner >> out\" }\n",
    );
    place.write(
        ".drivetrain/workflows/twice.toml",
        r#"
        [workflow]
        [[workflow.steps]]
        name = "literal"
        tool = "write"
        parameters = { path = "literal", content = "@@prompts/line" }
        [[workflow.steps]]
        name = "first"
        tool = "write"
        parameters = { path = "first", content = "@prompts/line" }
        [[workflow.steps]]
        name = "second"
        tool = "write"
        parameters = { path = "second", content = "@prompts/line" }
        [[workflow.steps]]
        name = "one"
        workflow = "@workflows/inner"
        [[workflow.steps]]
        name = "two"
        workflow = "@workflows/inner"
        "#,
    );
    let (code, said) = run(&place, "twice");
    assert_eq!(code, 0, "{said}");
    assert_eq!(place.read("literal"), "@prompts/line");
    assert_eq!((place.read("first"), place.read("second")), {
        let text = "from the prompt".to_owned();
        (text.clone(), text)
    });
    assert_eq!(place.read("out"), "inner\ninner\n");

    for (name, next) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let text = format!(
            "[workflow]\n[[workflow.steps]]\nname = \"on\"\nworkflow = \"@workflows/{next}\"\n"
        );
        place.write(&format!(".drivetrain/workflows/{name}.toml"), &text);
    }
    let (code, said) = run(&place, "a");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("in a circle: a -> b -> c -> a"), "{said}");
}

/// The example of the format that this one goes back to; only its model is one that can be had here.
const VALIDATE_FIX: &str = r#"
[workflow]
name = "validate-fix"
description = "Validate, and repair until it is valid"
version = "1.0"

[workflow.limits]
max_steps = 10
token_budget = 50000
timeout_seconds = 300

[workflow.llm]
model = "script/replies.toml"
temperature = 0.0
system_prompt = "@prompts/terse"  # a prompt's file

[[workflow.steps]]
name = "validate"
tool = "validator.run"
type = "tool"
on_error = "skip"

[[workflow.steps]]
name = "analyze"
tool = "llm.analyze"
type = "llm"
input_from = "validate"
prompt = "@prompts/repair-engine"

[[workflow.steps]]
name = "fix"
tool = "patch.apply"
type = "tool"
input_from = "analyze"
on_error = { action = "goto", target = "validate" }
max_retries = 3
"#;

const REPAIR_ENGINE: &str = r#"
[meta]
name = "repair-engine"
version = "1.0"
description = "For errors only"

[prompt]
text = """
MEND what is reported, and nothing else.
"""
"#;

const REPAIR_AGENT: &str = r#"
[agent]
name = "repair-agent"
description = "Mends what the checks report"

workflow = "@workflows/validate-fix"

[agent.tools]
enabled = ["skeleton", "grep", "patch", "validator"]
disabled = []

[agent.context]
include_diagnostics = true
include_memory = true
peek_first = true
"#;

/// A project with the example's files, whose check wants `right` in a file that says something else.
fn example(content: &str) -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("a.txt", content);
    place.write(
        ".drivetrain/validators.toml",
        "[[check]]\nname = \"look\"\ncommand = \"grep -q right a.txt || { echo a.txt is not right; exit 1; }\"\n",
    );
    place.write(".drivetrain/workflows/validate-fix.toml", VALIDATE_FIX);
    place.write(".drivetrain/prompts/repair-engine.toml", REPAIR_ENGINE);
    place.write(".drivetrain/agents/repair-agent.toml", REPAIR_AGENT);
    place.trust();
    place
}

fn answers(place: &TestEnvironment, lines: &[&str]) {
    let diff = |line: &&str| {
        let text = format!(
            "Here:\n```diff\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-wrong\n+{line}\n```\nThat is all.\n"
        );
        format!("[[reply]]\nmatch = \"MEND what is reported\"\ntext = {}\n", Value::from(text))
    };
    let none = "[[reply]]\nstatus = 400\n".to_owned();
    let script: Vec<String> = lines.iter().map(diff).collect();
    place.write("replies.toml", &if script.is_empty() { none } else { script.concat() });
}

/// How each validation ended.
fn validated(place: &TestEnvironment) -> Vec<String> {
    let events = place.events(&place.id()).into_iter();
    let ended =
        events.filter(|event| event["type"] == "tool_ended" && event["label"] == "validate");
    ended.map(|event| event["result"]["status"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn edge_case_41_the_example_stops_when_it_is_valid_and_validates_again_after_a_fix() {
    for kind in ["workflow", "prompt", "agent"] {
        let place = example("right\n");
        let checked = place.run(&[kind, "check"]);
        assert_eq!(checked.code, 0, "{kind}: {}{}", checked.out, checked.err);
    }
    let valid = example("right\n");
    answers(&valid, &[]);
    let (code, said) = run(&valid, "validate-fix");
    assert_eq!(code, 0, "nobody is asked if all is well: {said}");
    assert_eq!(validated(&valid), ["ok"]);

    let broken = example("wrong\n");
    answers(&broken, &["right"]);
    let (code, said) = run(&broken, "validate-fix");
    assert_eq!(code, 0, "{said}");
    assert_eq!(broken.read("a.txt"), "right\n");
    assert_eq!(validated(&broken), ["error", "ok"], "it is validated again after the fix");

    let hopeless = example("wrong\n");
    answers(&hopeless, &["wrong again", "nothing", "nothing", "nothing"]);
    let (code, said) = run(&hopeless, "validate-fix");
    assert_eq!(code, 14, "it never says that it is done: {said}");
}

#[test]
fn edge_case_41_the_agent_of_the_example_does_its_work() {
    let agent = |place: &TestEnvironment| {
        let ran = place.run(&["agent", "run", "repair-agent", "mend it", "--in-place"]);
        (ran.code, format!("{}{}", ran.out, ran.err))
    };
    let place = example("wrong\n");
    answers(&place, &["right"]);
    let (code, said) = agent(&place);
    assert_eq!(code, 0, "{said}");
    assert_eq!(place.read("a.txt"), "right\n");
}
