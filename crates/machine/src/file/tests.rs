//! What loads, what does not, and what a person sees then.

mod corpus;
mod criteria;
mod keys;
mod mistakes;
mod policy;
pub(super) mod shelf;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::driver::Registry;
use crate::policy::budget::Budget;
use crate::policy::permission::{Decide, Unattended};
use crate::task::{Criterion, WorkspaceKind, default_check_timeout};
use crate::time::Span;

fn toml(text: &str) -> Result<task::TaskFile, Vec<SourceError>> {
    task::parse(text, "task.toml", Format::Toml)
}

fn yaml(text: &str) -> Result<task::TaskFile, Vec<SourceError>> {
    task::parse(text, "task.yaml", Format::Yaml)
}

fn shown<T: std::fmt::Debug>(read: Result<T, Vec<SourceError>>) -> String {
    let errors = read.unwrap_err();
    errors.iter().map(SourceError::to_string).collect::<Vec<_>>().join("\n\n")
}

const FULL: &str = r#"
[task]
goal = "make the numbers add up"
driver = "workflow"
[task.driver_config]
workflow = "count"
[budget]
max_turns = 40
max_time = "30m"
max_tokens = 200000
max_usd = 2.5
max_tool_calls = 200
max_consecutive_denies = 3
max_consecutive_errors = 0
max_context_overflows = 2
[[acceptance]]
kind = "shell"
command = "cargo test"
[[acceptance]]
kind = "shell"
command = "false"
expect_exit = 1
stdout = "x+"
timeout = "90s"
[[acceptance]]
kind = "file"
path = "src/lib.rs"
pattern = "TODO"
forbidden = true
[workspace]
kind = "worktree"
protect = ["tests/**"]
"#;

#[test]
fn every_key_of_a_task_file_arrives() {
    let task = toml(FULL).unwrap();
    assert_eq!(task.goal, "make the numbers add up");
    assert_eq!(
        (task.driver.name.as_str(), &task.driver.config),
        ("workflow", &json!({"workflow": "count"}))
    );
    let budget = Budget {
        max_turns: Some(40),
        max_time: Some(Span::seconds(1800)),
        max_tokens: Some(200_000),
        max_usd: Some(2.5),
        max_tool_calls: Some(200),
        max_consecutive_denies: Some(3),
        max_consecutive_errors: Some(0),
        max_context_overflows: Some(2),
    };
    assert_eq!(task.budget, budget);
    let shell = |command: &str, exit, stdout: Option<&str>, timeout| Criterion::Shell {
        command: command.to_owned(),
        exit,
        stdout: stdout.map(str::to_owned),
        timeout,
        repeat: 1,
        red_first: false,
    };
    let file = Criterion::File {
        path: "src/lib.rs".to_owned(),
        pattern: Some("TODO".to_owned()),
        forbidden: true,
    };
    let criteria = [
        shell("cargo test", 0, None, default_check_timeout()),
        shell("false", 1, Some("x+"), Span::seconds(90)),
        file,
    ];
    assert_eq!(task.acceptance, criteria);
    assert_eq!(task.workspace.kind, Some(WorkspaceKind::Worktree));
    assert_eq!(task.workspace.protect, ["tests/**"]);
}

#[test]
fn yaml_has_the_same_keys_and_a_short_form() {
    let long = yaml("task:\n  goal: fix it\nacceptance:\n  - kind: shell\n    command: \"true\"\n")
        .unwrap();
    let short = yaml("goal: fix it\nacceptance:\n  - shell: \"true\"\n").unwrap();
    assert_eq!(long, short);
    assert_eq!(short.driver.name, "user");
    let more = yaml(concat!(
        "goal: x\nacceptance:\n",
        "  - shell: make\n    exit: 2\n",
        "  - shell: {command: make, exit: 2}\n",
        "  - file: a.txt\n    pattern: b\n",
        "  - file_match: {path: a.txt, regex: b}\n"
    ))
    .unwrap();
    assert_eq!(more.acceptance[0], more.acceptance[1]);
    assert_eq!(more.acceptance[2], more.acceptance[3]);
}

#[test]
fn steps_and_states_may_stand_in_the_task_file() {
    let step = json!({"name": "a", "tool": "shell", "parameters": {"command": "true"}});
    let steps = "[[STEPS]]\nname = \"a\"\ntool = \"shell\"\nparameters = { command = \"true\" }\n";
    let head = "[task]\ngoal = \"x\"\ndriver = \"workflow\"\n";
    for place in ["workflow.steps", "task.driver_config.steps", "task.driver_config.workflow.steps"]
    {
        let task = toml(&format!("{head}{}", steps.replace("STEPS", place))).unwrap();
        assert_eq!(task.driver.name, "workflow", "{place}");
        assert_eq!(task.driver.config, json!({"steps": [step]}), "{place}");
    }
    let limits = "[workflow.limits]\nmax_steps = 3\ntoken_budget = 10\ntimeout_seconds = 60\n";
    let task = toml(&format!(
        "{head}[budget]\nmax_tokens = 5\n{limits}{}",
        steps.replace("STEPS", "workflow.steps")
    ))
    .unwrap();
    assert_eq!(task.driver.config["max_steps"], 3);
    assert_eq!((task.budget.max_tokens, task.budget.max_time), (Some(5), Some(Span::seconds(60))));
    for place in ["machine", "task.driver_config", "task.driver_config.machine"] {
        let machine = format!("[{place}]\ninitial = \"a\"\n[{place}.states.a]\nterminal = true\n");
        let task =
            toml(&format!("[task]\ngoal = \"x\"\ndriver = \"state_machine\"\n{machine}")).unwrap();
        assert_eq!(
            task.driver.config,
            json!({"initial": "a", "states": {"a": {"terminal": true}}}),
            "{place}"
        );
        Registry::builtin()
            .find("state_machine")
            .unwrap()
            .create(&task.driver.config, &Registry::builtin())
            .unwrap();
    }
    let states = "[[workflow.states]]\nname = \"a\"\nterminal = true\n";
    let task = toml(&format!("{head}{states}")).unwrap();
    assert_eq!(task.driver.name, "workflow");
}

#[test]
fn a_named_workflow_is_put_in_its_place_in_composites_too() {
    let file = "[workflow]\nname = \"count\"\n[[workflow.steps]]\nname = \"a\"\ntool = \"shell\"\nparameters = { command = \"true\" }\n";
    let mut asked = Vec::new();
    let mut load = |name: &str| {
        asked.push(name.to_owned());
        workflow::parse(file, "count.toml", &lookup::Nothing)
            .map_err(|errors| errors[0].to_string())
    };
    let mut single = toml(FULL).unwrap();
    single.resolve(&mut load).unwrap();
    assert_eq!(single.driver.config["steps"][0]["name"], "a");
    let mut tree = toml(concat!(
        "[task]\ngoal = \"x\"\ndriver = \"sequence\"\n",
        "[[task.driver_config.drivers]]\ndriver = \"workflow\"\nconfig = { workflow = \"b\" }\n"
    ))
    .unwrap();
    tree.resolve(&mut load).unwrap();
    assert_eq!(tree.driver.config["drivers"][0]["config"]["name"], "count");
    assert_eq!(asked, ["count", "b"]);
    Registry::builtin()
        .find("sequence")
        .unwrap()
        .create(&tree.driver.config, &Registry::builtin())
        .unwrap();
}

#[test]
fn a_misspelled_key_is_shown_with_its_place_and_the_right_one() {
    insta::assert_snapshot!(shown(toml("[task]\ngoal = \"x\"\n[budget]\nmax_turn = 3\n")), @r#"
    error: unknown key "max_turn" in [budget]
     --> task.toml:4:1
      |
    4 | max_turn = 3
      | ^^^^^^^^
      = help: did you mean "max_turns"?
    "#);
    insta::assert_snapshot!(shown(yaml("goal: x\nbudget:\n  max_usd: -1\n  max_time: 30\nworkspace: {kind: worktre}\n")), @r#"
    error: expected a number, zero or more, got -1
     --> task.yaml:3:12
      |
    3 |   max_usd: -1
      |            ^^
      = help: write a number, without quotes

    error: expected a duration in quotes such as "90s", got 30
     --> task.yaml:4:13
      |
    4 |   max_time: 30
      |             ^^
      = help: write "30s" for seconds; the units are ms, s, m, h and d

    error: "worktre" must be one of worktree, in_place, none
     --> task.yaml:5:19
      |
    5 | workspace: {kind: worktre}
      |                   ^^^^^^^
      = help: did you mean "worktree"?
    "#);
}

#[test]
fn a_broken_file_is_shown_where_it_breaks() {
    insta::assert_snapshot!(shown(toml("[task]\ngoal = \"x\ndriver = \"user\"\n")), @r#"
    error: invalid basic string, expected `"`
     --> task.toml:2:10
      |
    2 | goal = "x
      |          ^
      = help: close the text with a quote; """ begins one of several lines
    "#);
    insta::assert_snapshot!(shown(yaml("goal: [x\n")), @"
    error: unclosed bracket '['
     --> task.yaml:1:7
      |
    1 | goal: [x
      |       ^
      = help: add the bracket that closes it
    ");
}

#[test]
fn a_workflow_is_checked_line_by_line() {
    let text = r#"
[workflow]
name = "w"
[[workflow.steps]]
name = "test"
tool = "shel"
parameters = { command = "make" }
on_error = { action = "goto", target = "fxi" }
[[workflow.steps]]
name = "fix"
tool = "shell"
parameters = { comand = "make fix" }
[[workflow.steps]]
name = "test"
type = "llm"
tool = "llm.analyze"
"#;
    insta::assert_snapshot!(shown(workflow::parse(text, "w.toml", &lookup::Nothing)), @r#"
    error: there is no tool "shel"
     --> w.toml:6:8
      |
    6 | tool = "shel"
      |        ^^^^^^
      = help: did you mean "shell"?

    error: there is no step "fxi"
     --> w.toml:8:40
      |
    8 | on_error = { action = "goto", target = "fxi" }
      |                                        ^^^^^
      = help: did you mean "fix"?

    error: shell has no parameter "comand": expected command, timeout
      --> w.toml:12:16
       |
    12 | parameters = { comand = "make fix" }
       |                ^^^^^^
       = help: did you mean "command"?

    error: the key "prompt" is missing
      --> w.toml:13:1
       |
    13 | [[workflow.steps]]
       | ^^^^^^^^^^^^^^^^^^
       = help: add prompt = …

    error: there are two steps named "test"
      --> w.toml:14:8
       |
    14 | name = "test"
       |        ^^^^^^
       = help: give each a name of its own
    "#);
}

#[test]
fn what_is_missing_is_shown_at_the_part_that_lacks_it() {
    insta::assert_snapshot!(shown(toml("[task]\ndriver = \"user\"\n[[acceptance]]\nkind = \"shell\"\n")), @r#"
    error: the key "goal" is missing
     --> task.toml:1:2
      |
    1 | [task]
      |  ^^^^
      = help: add goal = …

    error: the key "command" is missing
     --> task.toml:3:1
      |
    3 | [[acceptance]]
      | ^^^^^^^^^^^^^^
      = help: add command = "…"
    "#);
    insta::assert_snapshot!(shown(yaml("driver: user\nacceptance:\n  - kind: file\n  - path: x\n")), @r#"
    error: the key "goal" is missing
     --> task.yaml:1:1
      |
    1 | driver: user
      | ^
      = help: add goal = …

    error: the key "path" is missing
     --> task.yaml:3:5
      |
    3 |   - kind: file
      |     ^
      = help: add path = "…"

    error: a criterion needs a kind, one of shell, file, custom, judge
     --> task.yaml:4:5
      |
    4 |   - path: x
      |     ^
      = help: add kind = "shell" and command = "…"
    "#);
    insta::assert_snapshot!(shown(workflow::parse("[[workflow.steps]]\ntool = \"shell\"\n", "w.toml", &lookup::Nothing)), @r#"
    error: the key "name" is missing
     --> w.toml:1:1
      |
    1 | [[workflow.steps]]
      | ^^^^^^^^^^^^^^^^^^
      = help: add name = …

    error: shell needs the parameter "command": the command line, run by sh in the workspace
     --> w.toml:2:8
      |
    2 | tool = "shell"
      |        ^^^^^^^
      = help: add parameters = { command = … }
    "#);
    insta::assert_snapshot!(shown(workflow::parse("# nothing\n", "w.toml", &lookup::Nothing)), @"
    error: the file has no [workflow]
     --> w.toml:1:1
      |
    1 | # nothing
      | ^
      = help: begin with [workflow] and [[workflow.steps]]
    ");
}

#[test]
fn a_machine_is_checked_as_a_whole() {
    let text = "[machine]\ninitial = \"a\"\n[machine.states.a]\ntransitions = [{ to = \"b\" }]\n[machine.states.b]\nterminal = true\n[machine.states.c]\nterminal = true\n";
    insta::assert_snapshot!(shown(workflow::parse(text, "m.toml", &lookup::Nothing)), @r#"
    error: state "c" cannot be reached from "a"
     --> m.toml:7:17
      |
    7 | [machine.states.c]
      |                 ^
      = help: remove it, or add a transition to it
    "#);
}

#[test]
fn a_secret_is_not_repeated() {
    let shown = shown(yaml("goal: x\nmodel: {api_key: \"sk-canary-0000\"}\n"));
    assert!(!shown.contains("canary"), "{shown}");
    insta::assert_snapshot!(shown, @r#"
    error: unknown key "model" in a task file
     --> task.yaml:2:1
      |
    2 | model: {api_key: ***
      | ^^^^^
      = help: expected goal, driver, driver_config, red_first, task, budget, acceptance, workspace, sandbox, retry, stuck, progress, workflow, machine
    "#);
}

#[test]
fn what_looks_like_a_key_is_not_repeated_wherever_it_stands() {
    let key = "sk-ant-api03-0123456789abcdefghij";
    for text in [
        format!("goal = \"x\"\ndriver = \"{key}\"\n"),
        format!("goal = \"x\"\n\"{key}\" = 1\n"),
        format!("goal = \"x\" \"{key}\"\n"),
        format!("goal = \"x\"\n[budget]\nmax_turns = \"{key}\"\n"),
        format!("goal = \"x\"\n[task]\nmodel = [\"{key}\"]\n"),
    ] {
        let shown = shown(toml(&text));
        assert!(shown.contains("error: ") && !shown.contains("0123456789"), "{shown}");
        assert!(shown.contains("***"), "{shown}");
    }
}

#[test]
fn nothing_in_a_file_steers_the_terminal() {
    let shown = shown(toml("[task]\ngoal = \"x\"\n\"\\u001b[2J\" = 1 # \u{202e}evil\n"));
    assert!(shown.chars().all(|c| c == '\n' || !steers(c)), "{shown:?}");
}

#[test]
fn a_line_that_is_indented_with_tabs_is_shown_as_it_looks() {
    let shown = shown(toml("[task]\ngoal = \"x\"\n\t\tdrivr = \"user\"\n"));
    assert!(shown.contains("\n3 |   drivr = \"user\"\n  |   ^^^^^\n"), "{shown}");
}

#[test]
fn wrong_values_are_refused() {
    for (wrong, expected) in [
        ("[task]\n", "\"goal\" is missing"),
        ("[task]\ngoal = \" \"\n", "the goal is empty"),
        ("[task]\ngoal = \"a\\u0000\"\n", "must not contain NUL"),
        ("[task]\ngoal = 3\n", "put it in quotes: \"3\""),
        ("[task]\ngoal = 1979-05-27\n", "dates are not used"),
        ("goal = \"x\"\n[task]\ngoal = \"y\"\n", "unknown key \"goal\""),
        ("goal = \"x\"\ndriver = \"workflw\"\n", "did you mean \"workflow\""),
        ("goal = \"x\"\ndriver = \"workflow\"\n", "has nothing to run"),
        ("goal = \"x\"\ndriver = \"user:x\"\n", "only external:NAME"),
        ("goal = \"x\"\ndriver = \"agent\"\n", "it is not said which agent"),
        (
            "goal = \"x\"\ndriver = \"agent\"\n[driver_config]\nagnt = \"claude\"\n",
            "did you mean \"agent\"",
        ),
        ("goal = \"x\"\n[budget]\nmax_usd = nan\n", "must be finite"),
        ("goal = \"x\"\n[budget]\nmax_turns = 99999999999999999999\n", "more than 64 bits"),
        ("goal = \"x\"\n[budget]\nmax_turns = 1.0\n", "expected a whole number"),
        ("goal = \"x\"\n[budget]\nmax_turns = \"3\"\n", "expected a whole number"),
        ("goal = \"x\"\n[budget]\nmax_time = \"30\"\n", "is not a duration"),
        ("goal = \"x\"\n[[acceptance]]\nkind = \"judge\"\n", "\"rubric\" is missing"),
        ("goal = \"x\"\n[[acceptance]]\nkind = \"shel\"\n", "did you mean \"shell\""),
        ("goal = \"x\"\n[[acceptance]]\nkind = \"shell\"\n", "\"command\" is missing"),
        ("goal = \"x\"\n[[acceptance]]\nkind = \"file\"\npath = \"/etc/passwd\"\n", "is absolute"),
        ("goal = \"x\"\n[[acceptance]]\nkind = \"file\"\npath = \"a/../../b\"\n", "leads out"),
        (
            "goal = \"x\"\n[[acceptance]]\nkind = \"file\"\npath = \"a\"\nrequired = false\n",
            "says nothing",
        ),
        (
            "goal = \"x\"\n[[acceptance]]\nkind = \"shell\"\ncommand = \"x\"\nexit = 1\nexpect_exit = 1\n",
            "the same",
        ),
        ("goal = \"x\"\n[workspace]\nbranch = \"b\"\n", "unknown key \"branch\""),
        ("goal = \"x\"\n[workflow]\n[machine]\n", "either [workflow] or [machine]"),
    ] {
        let errors =
            toml(wrong).map(|task| format!("{task:?}")).map_err(|errors| shown::<()>(Err(errors)));
        assert!(errors.as_ref().is_err_and(|text| text.contains(expected)), "{wrong}\n{errors:?}");
    }
}

#[test]
fn errors_inside_a_tree_of_drivers_have_a_line() {
    let text = concat!(
        "[task]\ngoal = \"x\"\ndriver = \"fallback\"\n",
        "[[task.driver_config.drivers]]\ndriver = \"workflow\"\n",
        "[[task.driver_config.drivers.config.steps]]\nname = \"a\"\ntool = \"reed\"\n"
    );
    let errors = toml(text).unwrap_err();
    assert_eq!((errors[0].line, errors[0].column), (8, 8));
    assert!(errors[0].hint.as_ref().unwrap().contains("\"read\""));
}

#[test]
fn ten_thousand_steps_load() {
    let steps = (0..10_000).map(|index| {
        format!("[[workflow.steps]]\nname = \"s{index}\"\ntool = \"shell\"\nparameters = {{ command = \"true\" }}\n")
    });
    let text = format!("[workflow]\nname = \"w\"\n{}", steps.collect::<String>());
    let read = workflow::parse(&text, "w.toml", &lookup::Nothing).unwrap();
    assert_eq!(read.driver.config["steps"].as_array().unwrap().len(), 10_000);
}

#[test]
fn many_errors_are_counted_and_few_are_shown() {
    let keys: String = (0..1000).map(|index| format!("k{index} = 1\n")).collect();
    let errors = toml(&keys).unwrap_err();
    assert_eq!(errors.len(), 20);
    assert!(errors[19].message.contains("more errors"), "{}", errors[19].message);
}

#[test]
fn a_tree_deeper_than_the_stack_is_refused() {
    // Each inline table is within the parser's own limits; together they are not.
    let key = vec!["a"; 79].join(".");
    let text = format!("{}1{}\n", format!("{key} = {{ ").repeat(70), " }".repeat(70));
    let text = text.replace(" 1", " x = 1");
    assert!(toml(&text).is_err());
    let broken = format!("{text}\n= broken\n");
    assert!(toml(&broken).is_err());
}

#[test]
fn a_policy_says_who_may_do_what() {
    let text = "unattended = \"wait\"\n[[rule]]\ntool = \"shell\"\ndecide = \"ask\"\nreason = \"look\"\n[[rule]]\ntool = \"*\"\ndecide = \"deny\"\n";
    let read = super::policy::parse(text, "policy.toml").unwrap();
    assert_eq!(read.unattended, Some(Unattended::Wait));
    assert_eq!(
        read.rules.iter().map(|rule| rule.decide).collect::<Vec<_>>(),
        [Decide::Ask, Decide::Deny]
    );
    assert_eq!(super::policy::parse("# nothing\n", "policy.toml").unwrap().rules, []);
    let wrong = "[[rule]]\ntool = \"shel\"\ndecide = \"alow\"\n[[rules]]\n";
    insta::assert_snapshot!(shown(super::policy::parse(wrong, "policy.toml")), @r#"
    error: there is no tool "shel"
     --> policy.toml:2:8
      |
    2 | tool = "shel"
      |        ^^^^^^
      = help: did you mean "shell"?

    error: "alow" must be one of allow, ask, deny
     --> policy.toml:3:10
      |
    3 | decide = "alow"
      |          ^^^^^^
      = help: did you mean "allow"?

    error: unknown key "rules" in a policy
     --> policy.toml:4:3
      |
    4 | [[rules]]
      |   ^^^^^
      = help: did you mean "rule"?
    "#);
}

#[test]
fn a_plugin_is_a_command() {
    let text =
        "[driver]\nname = \"mine\"\ncommand = [\"python3\", \"x.py\"]\nenv = { A = \"b\" }\n";
    let read = plugin::parse(text, "mine.toml").unwrap();
    assert_eq!(
        (read.name.as_str(), read.timeout, read.env["A"].as_str()),
        ("mine", Span::seconds(30), "b")
    );
    assert_eq!(read.command, ["python3", "x.py"]);
    let wrong = "[driver]\nname = \"../x\"\ncommand = \"python3 x.py\"\ntimeout = 30\n";
    insta::assert_snapshot!(shown(plugin::parse(wrong, "mine.toml")), @r#"
    error: "../x" is not a name
     --> mine.toml:2:8
      |
    2 | name = "../x"
      |        ^^^^^^
      = help: names are made of letters, digits, _ . and -, up to 100 of them

    error: expected a list, got "python3 x.py"
     --> mine.toml:3:11
      |
    3 | command = "python3 x.py"
      |           ^^^^^^^^^^^^^^
      = help: put it in brackets, each part in quotes of its own: ["a", "b"]

    error: expected a duration in quotes such as "90s", got 30
     --> mine.toml:4:11
      |
    4 | timeout = 30
      |           ^^
      = help: write "30s" for seconds; the units are ms, s, m, h and d
    "#);
}

#[test]
fn bytes_that_are_not_text_are_shown_at_their_place() {
    let error = decode(b"[task]\ngoal = \"\xff\"\n", "task.toml").unwrap_err();
    assert_eq!((error[0].line, error[0].column), (2, 9));
}

proptest! {
    #[test]
    fn no_damage_to_a_file_makes_a_reader_panic(
        cuts in prop::collection::vec((0..FULL.len(), 0..40usize, "[\\[\\]{}=.\"'\n:&*!# a-z0-9\u{e9}\u{1b}-]{0,6}"), 0..5),
    ) {
        let mut text = FULL.to_owned();
        for (at, length, put) in cuts {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &put);
            }
        }
        for read in [toml(&text).map(drop), yaml(&text).map(drop), workflow::parse(&text, "w.toml", &lookup::Nothing).map(drop)] {
            let shown: Vec<String> = read.err().into_iter().flatten().map(|error| error.to_string()).collect();
            prop_assert!(shown.iter().flat_map(|text| text.chars()).all(|c| c == '\n' || !steers(c)));
        }
    }
}
