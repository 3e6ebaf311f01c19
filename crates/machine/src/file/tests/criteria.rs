//! Every kind of criterion: how it is written, and what is said about each mistake.

use serde_json::json;

use super::{shown, toml, yaml};
use crate::task::{Criterion, CustomCheck, WorkspaceSpec, default_check_timeout};
use crate::time::Span;

fn read(text: &str) -> Vec<Criterion> {
    toml(&format!("goal = \"x\"\n{text}")).unwrap().acceptance
}

fn wrong(text: &str) -> String {
    shown(toml(&format!("goal = \"x\"\n[[acceptance]]\n{text}")))
}

fn custom(text: &str) -> CustomCheck {
    match read(&format!("[[acceptance]]\nkind = \"custom\"\n{text}")).remove(0) {
        Criterion::Custom(check) => check,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_key_of_every_kind_arrives() {
    let shell = "[[acceptance]]\nkind = \"shell\"\ncommand = \"t\"\nrepeat = 5\nred_first = true\n";
    let Criterion::Shell { repeat, red_first, .. } = read(shell).remove(0) else { panic!() };
    assert_eq!((repeat, red_first), (5, true));
    assert_eq!(custom("name = \"git_clean\""), CustomCheck::GitClean);
    let paths = vec!["tests/**".to_owned(), "*.lock".to_owned()];
    let list = "paths = [\"tests/**\", \"*.lock\"]";
    assert_eq!(
        custom(&format!("name = \"no_paths_touched\"\n{list}")),
        CustomCheck::NoPathsTouched { paths: paths.clone() }
    );
    assert_eq!(
        custom(&format!("name = \"only_paths_touched\"\n{list}")),
        CustomCheck::OnlyPathsTouched { paths }
    );
    assert_eq!(
        custom("name = \"max_diff_lines\"\nlines = 0"),
        CustomCheck::MaxDiffLines { lines: 0 }
    );
    assert_eq!(
        custom("name = \"tests_not_fewer\"\ncommand = \"cargo test\"\ntimeout = \"5m\""),
        CustomCheck::TestsNotFewer {
            command: "cargo test".to_owned(),
            timeout: Span::seconds(300)
        }
    );
    assert_eq!(
        custom("name = \"plugin:sizes\"\nconfig = { most = 3 }"),
        CustomCheck::Plugin { plugin: json!({"name": "sizes"}), config: json!({"most": 3}) }
    );
    let judge = "[[acceptance]]\nkind = \"judge\"\nmodel = \"script/j\"\nrubric = \"short\"\ndecides = true\n";
    let (model, rubric) = ("script/j".to_owned(), "short".to_owned());
    assert_eq!(read(judge), [Criterion::Judge { model, rubric, decides: true }]);
}

#[test]
fn what_is_left_out_is_the_careful_choice() {
    let judge = "[[acceptance]]\nkind = \"judge\"\nmodel = \"script/j\"\nrubric = \"short\"\n";
    assert!(!read(judge)[0].decides(), "an opinion is advisory");
    let CustomCheck::TestsNotFewer { timeout, .. } =
        custom("name = \"tests_not_fewer\"\ncommand = \"t\"")
    else {
        panic!()
    };
    assert_eq!(timeout, default_check_timeout());
    let Criterion::Shell { repeat, red_first, .. } =
        read("[[acceptance]]\nkind = \"shell\"\ncommand = \"t\"\n").remove(0)
    else {
        panic!()
    };
    assert_eq!((repeat, red_first), (1, false));
    assert_eq!(toml("goal = \"x\"\n").unwrap().workspace, WorkspaceSpec::default());
}

#[test]
fn short_forms_mean_the_same_in_both_formats() {
    let long = yaml(concat!(
        "goal: x\nacceptance:\n",
        "  - {kind: custom, name: git_clean}\n",
        "  - {kind: custom, name: no_paths_touched, paths: [a]}\n",
        "  - {kind: custom, name: max_diff_lines, lines: 9}\n",
        "  - {kind: custom, name: 'plugin:p', config: {a: 1}}\n",
        "  - {kind: judge, model: a/b, rubric: short}\n",
        "  - {kind: judge, model: a/b, rubric_file: r.md, decides: true}\n",
    ));
    let beside = yaml(concat!(
        "goal: x\nacceptance:\n",
        "  - custom: git_clean\n",
        "  - custom: no_paths_touched\n    paths: [a]\n",
        "  - custom: max_diff_lines\n    lines: 9\n",
        "  - custom: plugin:p\n    config: {a: 1}\n",
        "  - judge: short\n    model: a/b\n",
        "  - judge: {rubric_file: r.md, model: a/b, decides: true}\n",
    ));
    let inside = toml(concat!(
        "goal = \"x\"\nacceptance = [\n",
        "  { custom = { name = \"git_clean\" } },\n",
        "  { custom = { name = \"no_paths_touched\", paths = [\"a\"] } },\n",
        "  { custom = { name = \"max_diff_lines\", lines = 9 } },\n",
        "  { custom = { name = \"plugin:p\", config = { a = 1 } } },\n",
        "  { judge = { rubric = \"short\", model = \"a/b\" } },\n",
        "  { judge = { rubric_file = \"r.md\", model = \"a/b\", decides = true } },\n",
        "]\n",
    ));
    let long = long.unwrap();
    assert_eq!(long, beside.unwrap());
    assert_eq!(long, inside.unwrap());
    assert_eq!(long.rubric_files.get(&5).map(String::as_str), Some("r.md"));
    assert_eq!(long.rubric_files.len(), 1);
}

#[test]
fn criteria_read_back_from_a_record_as_they_were_written() {
    let all = read(concat!(
        "acceptance = [\n",
        "  { shell = \"t\", repeat = 3, red_first = true },\n",
        "  { custom = \"git_clean\" },\n",
        "  { custom = \"only_paths_touched\", paths = [\"a\"] },\n",
        "  { custom = \"tests_not_fewer\", command = \"t\" },\n",
        "  { custom = \"plugin:p\", config = { a = 1 } },\n",
        "  { judge = \"short\", model = \"a/b\" },\n",
        "]\n",
    ));
    let text = serde_json::to_string(&all).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Criterion>>(&text).unwrap(), all);
}

#[test]
fn protection_and_its_exceptions_arrive() {
    let task = toml(
        "goal = \"x\"\n[workspace]\nprotect = [\"tests/**\", \"!tests/new/**\"]\nprotect_framework = true\n",
    );
    let workspace = task.unwrap().workspace;
    assert_eq!(workspace.protect, ["tests/**", "!tests/new/**"]);
    assert!(workspace.protect_framework);
    let only = toml("goal = \"x\"\n[workspace]\nprotect = [\"!a\"]\nprotect_framework = true\n");
    assert!(only.is_ok(), "exceptions from what steers the tests");
    insta::assert_snapshot!(shown(toml("goal = \"x\"\n[workspace]\nprotect = [\"!a\"]\n")), @r#"
    error: these are exceptions from nothing
     --> task.toml:3:1
      |
    3 | protect = ["!a"]
      | ^^^^^^^
      = help: name what is protected, or set protect_framework = true
    "#);
    insta::assert_snapshot!(shown(toml("goal = \"x\"\n[workspace]\nprotect = [\"../a\", \"!/b\"]\n")), @r#"
    error: the path "../a" leads out of the workspace
     --> task.toml:3:12
      |
    3 | protect = ["../a", "!/b"]
      |            ^^^^^^
      = help: write it relative to the workspace, without ..

    error: the path "!/b" is absolute
     --> task.toml:3:20
      |
    3 | protect = ["../a", "!/b"]
      |                    ^^^^^
      = help: write it relative to the workspace, without ..
    "#);
    insta::assert_snapshot!(shown(toml("goal = \"x\"\n[workspace]\nprotect_frameworks = true\n")), @r#"
    error: unknown key "protect_frameworks" in [workspace]
     --> task.toml:3:1
      |
    3 | protect_frameworks = true
      | ^^^^^^^^^^^^^^^^^^
      = help: did you mean "protect_framework"?
    "#);
    insta::assert_snapshot!(shown(toml("goal = \"x\"\n[workspace]\nprotect_framework = \"yes\"\n")), @r#"
    error: expected true or false, got "yes"
     --> task.toml:3:21
      |
    3 | protect_framework = "yes"
      |                     ^^^^^
      = help: write true or false, without quotes
    "#);
}

#[test]
fn a_shell_criterion_says_what_is_wrong_with_it() {
    insta::assert_snapshot!(wrong("kind = \"shell\"\ncommand = \"t\"\nrepeat = 0\n"), @"
    error: a check runs 1 to 100 times, not 0
     --> task.toml:5:10
      |
    5 | repeat = 0
      |          ^
      = help: 1 runs it once; more shows that it does not pass by luck
    ");
    insta::assert_snapshot!(wrong("kind = \"shell\"\ncommand = \"t\"\nrepeat = \"twice\"\n"), @r#"
    error: expected a whole number, zero or more, got "twice"
     --> task.toml:5:10
      |
    5 | repeat = "twice"
      |          ^^^^^^^
      = help: write a number, without quotes
    "#);
    insta::assert_snapshot!(wrong("kind = \"shell\"\ncommand = \"t\"\nred_fisrt = true\n"), @r#"
    error: unknown key "red_fisrt" in a shell criterion
     --> task.toml:5:1
      |
    5 | red_fisrt = true
      | ^^^^^^^^^
      = help: did you mean "red_first"?
    "#);
    insta::assert_snapshot!(wrong("kind = \"shell\"\ncommand = \"t\"\nred_first = 1\n"), @"
    error: expected true or false, got 1
     --> task.toml:5:13
      |
    5 | red_first = 1
      |             ^
      = help: write true or false, without quotes
    ");
    insta::assert_snapshot!(wrong("kind = \"shell\"\ncommand = \"t\"\ntimeout = \"0s\"\n"), @r#"
    error: a timeout of nothing would stop every check
     --> task.toml:5:11
      |
    5 | timeout = "0s"
      |           ^^^^
      = help: write a longer one, such as "10m", or leave it out
    "#);
}

#[test]
fn a_custom_criterion_says_what_is_wrong_with_it() {
    insta::assert_snapshot!(wrong("kind = \"custom\"\n"), @r#"
    error: the key "name" is missing
     --> task.toml:2:1
      |
    2 | [[acceptance]]
      | ^^^^^^^^^^^^^^
      = help: one of git_clean, no_paths_touched, only_paths_touched, max_diff_lines, tests_not_fewer, or plugin:NAME
    "#);
    insta::assert_snapshot!(wrong("kind = \"custom\"\nname = \"git_claen\"\n"), @r#"
    error: "git_claen" must be one of git_clean, no_paths_touched, only_paths_touched, max_diff_lines, tests_not_fewer, or plugin:NAME
     --> task.toml:4:8
      |
    4 | name = "git_claen"
      |        ^^^^^^^^^^^
      = help: did you mean "git_clean"?
    "#);
    insta::assert_snapshot!(wrong("custom = \"git_clean\"\npaths = [\"a\"]\n"), @r#"
    error: unknown key "paths" in the criterion git_clean
     --> task.toml:4:1
      |
    4 | paths = ["a"]
      | ^^^^^
      = help: expected custom
    "#);
    insta::assert_snapshot!(wrong("custom = \"no_paths_touched\"\n"), @r#"
    error: the key "paths" is missing
     --> task.toml:2:1
      |
    2 | [[acceptance]]
      | ^^^^^^^^^^^^^^
      = help: add paths = …
    "#);
    insta::assert_snapshot!(wrong("custom = \"no_paths_touched\"\npaths = \"tests\"\n"), @r#"
    error: expected a list, got "tests"
     --> task.toml:4:9
      |
    4 | paths = "tests"
      |         ^^^^^^^
      = help: put it in brackets: ["tests"]
    "#);
    insta::assert_snapshot!(wrong("custom = \"no_paths_touched\"\npaths = []\n"), @r#"
    error: no path is named
     --> task.toml:4:1
      |
    4 | paths = []
      | ^^^^^
      = help: write ["tests/**"]
    "#);
    insta::assert_snapshot!(wrong("custom = \"only_paths_touched\"\npaths = [\"!a\", \"/etc\"]\n"), @r#"
    error: "!a" is an exception, which has no meaning here
     --> task.toml:4:10
      |
    4 | paths = ["!a", "/etc"]
      |          ^^^^
      = help: only protect has exceptions; write what is meant without !

    error: the path "/etc" is absolute
     --> task.toml:4:16
      |
    4 | paths = ["!a", "/etc"]
      |                ^^^^^^
      = help: write it relative to the workspace, without ..
    "#);
    insta::assert_snapshot!(wrong("custom = \"max_diff_lines\"\nlines = -1\n"), @"
    error: expected a whole number, zero or more, got -1
     --> task.toml:4:9
      |
    4 | lines = -1
      |         ^^
      = help: write a number without a sign and without a point
    ");
    insta::assert_snapshot!(wrong("custom = \"max_diff_lines\"\n"), @r#"
    error: the key "lines" is missing
     --> task.toml:2:1
      |
    2 | [[acceptance]]
      | ^^^^^^^^^^^^^^
      = help: add lines = …
    "#);
    insta::assert_snapshot!(wrong("custom = \"tests_not_fewer\"\ncommand = \" \"\n"), @r#"
    error: the command is empty
     --> task.toml:4:11
      |
    4 | command = " "
      |           ^^^
      = help: write the command line, such as "make test"
    "#);
    insta::assert_snapshot!(wrong("custom = \"tests_not_fewer\"\n"), @r#"
    error: the key "command" is missing
     --> task.toml:2:1
      |
    2 | [[acceptance]]
      | ^^^^^^^^^^^^^^
      = help: add command = "…"
    "#);
    insta::assert_snapshot!(wrong("custom = \"plugin:a b\"\n"), @r#"
    error: "a b" is not the name of a plugin
     --> task.toml:3:10
      |
    3 | custom = "plugin:a b"
      |          ^^^^^^^^^^^^
      = help: names are made of letters, digits, _ . and -, up to 100 of them
    "#);
    insta::assert_snapshot!(wrong("custom = \"plugin:p\"\nconfg = 1\n"), @r#"
    error: unknown key "confg" in a plugin's criterion
     --> task.toml:4:1
      |
    4 | confg = 1
      | ^^^^^
      = help: did you mean "config"?
    "#);
}

#[test]
fn a_judge_says_what_is_wrong_with_it() {
    insta::assert_snapshot!(wrong("kind = \"judge\"\nrubric = \"r\"\n"), @r#"
    error: the key "model" is missing
     --> task.toml:2:1
      |
    2 | [[acceptance]]
      | ^^^^^^^^^^^^^^
      = help: add model = …
    "#);
    insta::assert_snapshot!(wrong("kind = \"judge\"\nmodel = \"gpt\"\nrubric = \"r\"\n"), @r#"
    error: "gpt" is not a model
     --> task.toml:4:9
      |
    4 | model = "gpt"
      |         ^^^^^
      = help: write PROVIDER/NAME, such as anthropic/NAME or script/FILE
    "#);
    insta::assert_snapshot!(wrong("kind = \"judge\"\nmodel = \"a/b\"\nrubric = \" \"\n"), @r#"
    error: the rubric is empty
     --> task.toml:5:10
      |
    5 | rubric = " "
      |          ^^^
      = help: say what the work is judged by
    "#);
    insta::assert_snapshot!(wrong("kind = \"judge\"\nmodel = \"a/b\"\nrubric = \"r\"\nrubric_file = \"f\"\n"), @r#"
    error: the rubric is given twice: here and in words
     --> task.toml:6:1
      |
    6 | rubric_file = "f"
      | ^^^^^^^^^^^
      = help: remove one of the two
    "#);
    insta::assert_snapshot!(wrong("judge = \"r\"\nmodel = \"a/b\"\ndecide = true\n"), @r#"
    error: unknown key "decide" in a judge
     --> task.toml:5:1
      |
    5 | decide = true
      | ^^^^^^
      = help: did you mean "decides"?
    "#);
    insta::assert_snapshot!(wrong("judge = { model = \"a/b\", rubric = \"r\" }\nmodel = \"a/b\"\n"), @r#"
    error: unknown key "model" in a criterion
     --> task.toml:4:1
      |
    4 | model = "a/b"
      | ^^^^^
      = help: expected judge
    "#);
}
