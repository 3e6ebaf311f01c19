//! `drivetrain policy`, and what a policy does to a run.

use serde_json::Value;

use crate::environment::TestEnvironment;

const POLICY: &str = r#"
[[rule]]
command = "git push"
decide = "deny"
reason = "a person publishes"
deny = ["git status && git -C . push --force"]
allow = ["git status"]

[[rule]]
path = "docs/**"
access = "write"
decide = "ask"
ask = ["echo x > docs/a", 'write: {"path": "docs/a", "content": ""}']
"#;

fn place() -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write(".drivetrain/policy.toml", POLICY);
    let ran = place.run(&["policy", "explain", "git push"]);
    assert!(ran.err.contains("policy.toml is not trusted"), "{}", ran.err);
    place.trust();
    assert_eq!(place.run(&["policy", "explain", "git push"]).err, "");
    place
}

#[test]
fn a_call_is_explained_part_by_part() {
    let place = place();
    insta::assert_snapshot!(place.ok(&["policy", "explain", "cargo test && git push --force > docs/log"]), @"
    cargo test && git push --force > docs/log
    decision  deny
    by        rule 1 of .drivetrain/policy.toml:2
    layer     command
    part      git push --force
    reason    a person publishes

    3 parts
      allow  cargo test
             profile dev
      deny   git push --force
             rule 1 of .drivetrain/policy.toml:2: a person publishes
      ask    write docs/log
             rule 2 of .drivetrain/policy.toml:9

    policy    2 rules, profile dev, unattended deny
    ");
    insta::assert_snapshot!(place.ok(&["policy", "explain", "curl https://example.com/x"]), @"
    curl https://example.com/x
    decision  ask
    by        profile dev
    layer     host
    part      example.com
    reason    it needs the network
    question  may it run? asked by profile dev for `example.com`: it needs the network

    2 parts
      allow  curl https://example.com/x
             profile dev
      ask    example.com
             profile dev: it needs the network

    policy    2 rules, profile dev, unattended deny
    ");
    insta::assert_snapshot!(place.ok(&["policy", "explain", "curl x", "--unattended"]), @"
    curl x
    decision  deny: a person would be asked, but nobody attends
    by        profile dev
    layer     host
    part      x
    reason    it needs the network

    2 parts
      allow  curl x
             profile dev
      ask    x
             profile dev: it needs the network

    policy    2 rules, profile dev, unattended deny
    ");
    let write = ["--tool", "write", "--input", r#"{"path": ".git/config", "content": ""}"#];
    insta::assert_snapshot!(place.ok(&[&["policy", "explain"], &write[..]].concat()), @r#"
    write: {"content":"","path":".git/config"}
    decision  deny
    by        protected names
    layer     path
    part      write .git/config
    reason    it steers other programs, and no tool may write it

    policy    2 rules, profile dev, unattended deny
    "#);
    let json = place.ok(&["policy", "explain", "git push", "--json", "--profile", "open"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["v"], &json["decide"], &json["profile"]),
        (&1.into(), &"deny".into(), &"open".into())
    );
    assert_eq!(json["by"], "rule 1 of .drivetrain/policy.toml:2");
    assert_eq!(json["parts"][0]["part"], "git push");
}

#[test]
fn what_cannot_be_explained_is_said() {
    let place = place();
    for (arguments, said) in [
        (&["ls", "--profile", "opne"][..], "did you mean \"open\"?"),
        (&["--tool", "raed", "--input", "{}"], "did you mean \"read\"?"),
        (&["--tool", "read", "--input", "{"], "not JSON"),
        (&["--tool", "read"], "needs the parameter \"path\""),
        (&[], "a call is a command line"),
    ] {
        let ran = place.run(&[&["policy", "explain"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.err.contains(said), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn policies_of_the_user_and_the_project_are_checked_together() {
    let place = place();
    insta::assert_snapshot!(TestEnvironment::new().ok(&["policy", "check"]), @"
    no file     the profile alone decides; drivetrain init writes a policy
    profile     dev
    unattended  deny
    ");
    place.write(
        "../.config/drivetrain/policy.toml",
        "profile = \"read-only\"\n[[rule]]\ncommand = \"git\"\ndecide = \"ask\"\n",
    );
    // The user's rule comes first, so what the project says of git push is never heard.
    let ran = place.run(&["policy", "check"]);
    assert_eq!(ran.code, 2);
    insta::assert_snapshot!(ran.err, @r#"
    error: the example "git status && git -C . push --force" must be denied, but it is asked about: rule 1 of ~/.config/drivetrain/policy.toml:2 decides for `git status`
     --> .drivetrain/policy.toml:6:9
      |
    6 | deny = ["git status && git -C . push --force"]
      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      = help: the first rule that means a command decides on it

    error: the example "git status" must be allowed, but it is asked about: rule 1 of ~/.config/drivetrain/policy.toml:2 decides for `git status`
     --> .drivetrain/policy.toml:7:10
      |
    7 | allow = ["git status"]
      |          ^^^^^^^^^^^^
      = help: the first rule that means a command decides on it
    "#);
    let tested = place.run(&["policy", "test"]);
    assert_eq!(tested.code, 2);
    insta::assert_snapshot!(tested.out, @r#"
    FAIL .drivetrain/policy.toml:6: git status && git -C . push --force: ask instead of deny by rule 1 of ~/.config/drivetrain/policy.toml:2
    FAIL .drivetrain/policy.toml:7: git status: ask instead of allow by rule 1 of ~/.config/drivetrain/policy.toml:2
    ok   .drivetrain/policy.toml:13: echo x > docs/a: ask by rule 2 of .drivetrain/policy.toml:9
    ok   .drivetrain/policy.toml:13: write: {"path": "docs/a", "content": ""}: ask by rule 2 of .drivetrain/policy.toml:9
    2 passed, 2 failed
    "#);
    place.write("../.config/drivetrain/policy.toml", "unattended = \"wait\"\n[[rule]]\ncommand = \"git push\"\nattended = true\ndecide = \"deny\"\n");
    insta::assert_snapshot!(place.ok(&["policy", "check"]), @"
    ok          ~/.config/drivetrain/policy.toml: 1 rule, 0 examples
    ok          .drivetrain/policy.toml: 2 rules, 4 examples
    profile     dev
    unattended  wait
    ");
    let json: Value = serde_json::from_str(&place.ok(&["policy", "test", "--json"])).unwrap();
    assert_eq!((&json["passed"], &json["failed"]), (&4.into(), &0.into()));
    let json: Value = serde_json::from_str(&place.ok(&["policy", "check", "--json"])).unwrap();
    assert_eq!(json["files"][1]["rules"], 2);
}

#[test]
fn the_policy_that_init_writes_holds() {
    let place = TestEnvironment::new();
    place.ok(&["init"]);
    insta::assert_snapshot!(place.ok(&["policy", "check"]), @"
    ok          .drivetrain/policy.toml: 1 rule, 4 examples
    profile     dev
    unattended  deny
    ");
    insta::assert_snapshot!(place.ok(&["policy", "test"]), @"
    ok   .drivetrain/policy.toml:23: git push: ask by rule 1 of .drivetrain/policy.toml:19
    ok   .drivetrain/policy.toml:23: git status && git -C . push --force: ask by rule 1 of .drivetrain/policy.toml:19
    ok   .drivetrain/policy.toml:23: bash -c 'npm publish': ask by rule 1 of .drivetrain/policy.toml:19
    ok   .drivetrain/policy.toml:24: git status: allow by profile dev
    4 passed, 0 failed
    ");
}

#[test]
fn a_profile_decides_what_a_model_may_run() {
    let place = TestEnvironment::new();
    place.write(
        "replies.toml",
        r#"
[[reply]]
tool_calls = [{ tool = "shell", input = { command = "mkdir -p made && echo yes > made/it" } }]

[[reply]]
text = "done"
"#,
    );
    let run = ["run", "make it", "--model", "script/replies.toml", "--in-place"];
    let refused = place.run(&[&run[..], &["--profile", "read-only"]].concat());
    assert!(
        refused.out.contains("asked by profile read-only for `mkdir -p made`"),
        "{}",
        refused.out
    );
    assert_eq!(place.read("made/it"), "");
    place.ok(&run);
    assert_eq!(place.read("made/it"), "yes\n");
    let ran = place.run(&[&run[..], &["--profile", "free"]].concat());
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("expected read-only, dev, open"), "{}", ran.err);
}
