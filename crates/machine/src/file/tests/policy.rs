//! Policy files: what loads, what does not, and what a person sees then.

use super::super::policy::{Combined, check, combine, parse};
use super::shown;
use crate::policy::permission::{Profile, Unattended};

fn wrong(text: &str) -> String {
    shown(parse(text, "policy.toml"))
}

fn one(text: &str) -> Combined {
    combine(vec![parse(text, ".drivetrain/policy.toml").unwrap()], None)
}

#[test]
fn a_whole_file_is_read() {
    let combined = one(r#"
profile = "read-only"
unattended = "escalate"

[[rule]]
command = ["git push", "npm publish"]
decide = "deny"
reason = "a person publishes"

[[rule]]
tool = "mcp__tickets__*"
driver = ["agent", "external:mine"]
attended = false
decide = "ask"

[[rule]]
path = "docs/**"
access = "write"
decide = "allow"

[[rule]]
host = "*.example.com"
decide = "allow"

[[decider]]
kind = "person"
"#);
    let policy = combined.policy;
    assert_eq!(policy.deciders.len(), 1);
    assert_eq!(
        (policy.profile, policy.unattended),
        (Some(Profile::ReadOnly), Unattended::Escalate)
    );
    let tools: Vec<&str> = policy.rules.iter().map(|rule| rule.tool.as_str()).collect();
    assert_eq!(tools, ["shell", "mcp__tickets__*", "*", "shell"]);
    let places: Vec<(usize, usize)> = policy
        .rules
        .iter()
        .filter_map(|rule| Some((rule.from.as_ref()?.number, rule.from.as_ref()?.line)))
        .collect();
    assert_eq!(places, [(1, 5), (2, 10), (3, 16), (4, 21)]);
}

#[test]
fn an_empty_file_is_the_default_profile() {
    assert_eq!(one("# nothing\n").policy.profile, Some(Profile::Dev));
    assert_eq!(combine(Vec::new(), None).policy.profile, Some(Profile::Dev));
}

#[test]
fn the_stricter_profile_counts_and_the_first_word_on_questions() {
    let file = |text: &str| parse(text, "policy.toml").unwrap();
    let both = |first: &str, second: &str| combine(vec![file(first), file(second)], None).policy;
    let open = "profile = \"open\"\nunattended = \"wait\"\n";
    let strict = "profile = \"read-only\"\nunattended = \"deny\"\n";
    assert_eq!(both(open, strict).profile, Some(Profile::ReadOnly));
    assert_eq!(both(strict, open).profile, Some(Profile::ReadOnly));
    assert_eq!(both(open, strict).unattended, Unattended::Wait);
    assert_eq!(both("", open).profile, Some(Profile::Open));
}

#[test]
fn what_can_never_match_is_an_error_with_a_suggestion() {
    insta::assert_snapshot!(wrong(
        r#"profile = "devel"
[[rule]]
command = "make && make install"
decide = "allow"
[[rule]]
command = "echo * > out"
decide = "allow"
[[rule]]
path = "../x"
decide = "deny"
[[rule]]
host = "https://crates.io/api"
decide = "allow"
[[rule]]
tool = "read"
command = "cat"
decide = "allow"
[[rule]]
decide = "deny"
[[rule]]
command = "ls"
acess = "read"
decide = "deny"
"#
    ), @r#"
    error: "devel" must be one of read-only, dev, open
     --> policy.toml:1:11
      |
    1 | profile = "devel"
      |           ^^^^^^^
      = help: write one of them, such as "read-only"

    error: the pattern can never match: it holds "&&"
     --> policy.toml:3:11
      |
    3 | command = "make && make install"
      |           ^^^^^^^^^^^^^^^^^^^^^^
      = help: each command of a line is judged by itself: write a pattern for each

    error: the pattern can never match: redirections are no arguments
     --> policy.toml:6:11
      |
    6 | command = "echo * > out"
      |           ^^^^^^^^^^^^^^
      = help: say which files with path = "…" and access = "write"

    error: the pattern can never match: paths are compared without ".."
     --> policy.toml:9:8
      |
    9 | path = "../x"
      |        ^^^^^^
      = help: write it from the workspace on, absolute, or from ~/ on

    error: "https://crates.io/api" is no host's name, so it can never match
      --> policy.toml:12:8
       |
    12 | host = "https://crates.io/api"
       |        ^^^^^^^^^^^^^^^^^^^^^^^
       = help: write "crates.io"

    error: the rule can never match: read runs no commands
      --> policy.toml:15:8
       |
    15 | tool = "read"
       |        ^^^^^^
       = help: leave tool out, or the other matcher

    error: the rule does not say which calls it is about
      --> policy.toml:18:1
       |
    18 | [[rule]]
       | ^^^^^^^^
       = help: name a tool, a command, a path or a host; tool = "*" is every call

    error: unknown key "acess" in a rule
      --> policy.toml:22:1
       |
    22 | acess = "read"
       | ^^^^^
       = help: did you mean "access"?
    "#);
}

#[test]
fn a_rule_behind_one_that_means_all_of_it_is_an_error() {
    insta::assert_snapshot!(wrong(
        "[[rule]]\ncommand = \"git\"\ndecide = \"allow\"\n[[rule]]\ncommand = \"git push\"\ndecide = \"deny\"\n"
    ), @"
    error: the rule never decides anything: rule 1 in line 1 means all of it and comes first
     --> policy.toml:4:1
      |
    4 | [[rule]]
      | ^^^^^^^^
      = help: put the narrower rule first
    ");
    for (first, second) in [
        ("tool = \"*\"", "command = \"x\""),
        ("tool = \"shell\"", "tool = \"shell\"\nattended = true"),
        ("path = [\"a\", \"b\"]", "path = \"a\"\naccess = \"read\""),
        ("host = \"*\"", "host = \"crates.io\""),
        ("command = \"npm run *\"", "command = \"npm run build\""),
    ] {
        let rules = |a: &str, b: &str| {
            format!("[[rule]]\n{a}\ndecide = \"ask\"\n[[rule]]\n{b}\ndecide = \"deny\"\n")
        };
        assert!(parse(&rules(first, second), "p").is_err(), "{first} {second}");
        assert!(parse(&rules(second, first), "p").is_ok(), "{second} {first}");
    }
}

#[test]
fn a_rule_that_another_file_hides_is_a_warning() {
    let user = parse("[[rule]]\ncommand = \"git\"\ndecide = \"ask\"\n", "user.toml").unwrap();
    let project = "[[rule]]\ncommand = \"git status\"\ndriver = \"lm\"\ndecide = \"allow\"\n";
    let project = parse(project, "project.toml").unwrap();
    let combined = combine(vec![user, project], None);
    assert_eq!(
        combined.warnings,
        [
            "project.toml:1: there is no built-in driver \"lm\"; did you mean \"llm\"?",
            "project.toml:1: the rule never decides anything: rule 1 of user.toml:1 means all of it and comes first",
        ]
    );
}

#[test]
fn an_example_that_comes_out_otherwise_names_the_rule_that_decides() {
    let combined = one(
        "[[rule]]\ntool = \"read\"\npath = \"secret/**\"\ndecide = \"deny\"\nreason = \"not yours\"\n\
         deny = ['read: {\"path\": \"secret/a\"}']\nallow = ['read: {\"path\": \"secret/b\"}']\n",
    );
    let checked = check(&combined.policy, &combined.examples);
    let errors: Vec<String> =
        checked.iter().filter_map(|one| Some(one.error.as_ref()?.to_string())).collect();
    assert_eq!((checked.len(), errors.len()), (2, 1));
    insta::assert_snapshot!(errors[0], @r#"
    error: the example "read: {\"path\": \"secret/b\"}" must be allowed, but it is denied: rule 1 of .drivetrain/policy.toml:1 decides for `read secret/b` (not yours)
     --> .drivetrain/policy.toml:7:10
      |
    7 | allow = ['read: {"path": "secret/b"}']
      |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      = help: the first rule that means a command decides on it
    "#);
}

#[test]
fn an_example_must_be_one_that_can_be_called() {
    let example =
        |text: &str| format!("[[rule]]\ntool = \"*\"\ndecide = \"ask\"\nask = [{text:?}]\n");
    assert!(wrong(&example("read: {\"pth\": 1}")).contains("read has no parameter \"pth\""));
    assert!(wrong(&example("read: {")).contains("not JSON"));
    assert!(wrong(&example(" ")).contains("the example is empty"));
    assert!(parse(&example("echo a: {b}"), "p").is_ok());
}
