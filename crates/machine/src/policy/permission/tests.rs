//! What the gate says, and the laws that it keeps.

use serde_json::{Value, json};

use super::*;

fn question<'a>(tool: &'a str, input: &'a Value) -> Question<'a> {
    let class = crate::tool::find(tool).map_or(EffectClass::Unsafe, |tool| tool.class);
    Question {
        tool,
        input,
        class,
        author: Author::Worker,
        driver: "llm",
        attended: true,
        workspace: Some("/w"),
        sandboxed: true,
    }
}

fn of_profile(profile: Profile) -> Policy {
    Policy { profile: Some(profile), home: Some("/home/u".to_owned()), ..Policy::default() }
}

fn rule(tool: &str, decide: Decide) -> Rule {
    Rule { tool: tool.to_owned(), decide, ..Rule::default() }
}

mod without_a_profile {
    use super::*;

    fn check(policy: &Policy, author: Author, attended: bool) -> &'static str {
        let input = json!({ "command": "true" });
        let question = Question { author, attended, ..question("shell", &input) };
        judge(policy, &question).decide.word()
    }

    #[test]
    fn an_unsafe_call_of_a_worker_is_asked_about_or_refused_by_default() {
        let policy = Policy::default();
        assert_eq!(check(&policy, Author::Worker, true), "ask");
        assert_eq!(check(&policy, Author::Worker, false), "deny");
        assert_eq!(check(&policy, Author::Operator, false), "allow");
    }

    #[test]
    fn the_first_matching_rule_decides_for_everybody() {
        let mut policy = Policy {
            rules: vec![rule("shell", Decide::Deny), rule("*", Decide::Allow)],
            ..Policy::default()
        };
        assert_eq!(check(&policy, Author::Operator, true), "deny");
        policy.rules.reverse();
        assert_eq!(check(&policy, Author::Worker, false), "allow");
    }

    #[test]
    fn an_unattended_question_ends_as_declared() {
        let mut policy = Policy { rules: vec![rule("shell", Decide::Ask)], ..Policy::default() };
        assert_eq!(check(&policy, Author::Operator, false), "deny");
        for unattended in [Unattended::Wait, Unattended::Escalate] {
            policy.unattended = unattended;
            assert_eq!(check(&policy, Author::Operator, false), "ask");
        }
    }
}

mod tools {
    use super::*;

    fn check(profile: Profile, tool: &str, input: Value) -> String {
        let judgement = judge(&of_profile(profile), &question(tool, &input));
        format!("{} {}", judgement.decide.word(), judgement.layer.word())
    }

    #[test]
    fn file_tools_are_judged_by_their_paths() {
        let write = |path: &str| json!({ "path": path, "content": "" });
        for path in ["a", "src/a.rs", "/w/a"] {
            assert_eq!(check(Profile::Dev, "write", write(path)), "allow tool", "{path}");
            assert_eq!(check(Profile::ReadOnly, "write", write(path)), "ask path", "{path}");
        }
        for path in ["../a", "/etc/x", "~/a", "$HOME/a", "a/../../b", "/ww/a"] {
            assert_eq!(check(Profile::Dev, "write", write(path)), "ask path", "{path}");
        }
        for profile in Profile::ALL {
            for path in [".git/hooks/x", ".drivetrain/policy.toml", ".claude/x", "a/.ENV"] {
                assert_eq!(check(profile, "write", write(path)), "deny path", "{path}");
            }
            for path in [".env", "deploy/key.pem", "id_rsa"] {
                assert_eq!(check(profile, "read", json!({ "path": path })), "ask path", "{path}");
            }
            assert_eq!(check(profile, "read", json!({ "path": "src/a.rs" })), "allow tool");
            assert_eq!(check(profile, "say", json!({ "text": "hello" })), "allow tool");
        }
    }

    #[test]
    fn a_patch_is_judged_by_every_file_it_names() {
        let diff = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +1,2 @@\n--- /etc/x\n x\n+++ .git/y\n\
            diff --git a/b b/c\nrename from b\nrename to .git/hooks/c\n";
        assert_eq!(check(Profile::Dev, "patch", json!({ "diff": diff })), "deny path");
        let harmless = diff.replace(".git/hooks/c", "c");
        assert_eq!(check(Profile::Dev, "patch", json!({ "diff": harmless })), "allow tool");
    }

    #[test]
    fn tools_of_servers_are_judged_by_name_and_class() {
        let input = json!({});
        let mut policy = of_profile(Profile::Dev);
        let asked = judge(&policy, &question("mcp__x__do", &input));
        assert_eq!(asked.said(), "asked by profile dev: no rule allows mcp__x__do");
        let look = Question { class: EffectClass::Pure, ..question("mcp__x__see", &input) };
        assert_eq!(judge(&policy, &look).decide, Decide::Allow);
        policy.rules.push(rule("mcp__x__*", Decide::Deny));
        assert_eq!(judge(&policy, &look).decide, Decide::Deny);
        let open = judge(&of_profile(Profile::Open), &question("mcp__x__do", &input));
        assert_eq!(open.decide, Decide::Allow);
    }

    #[test]
    fn a_rule_about_paths_says_who_may_read_and_write_them() {
        let path = |path: &str, access, decide| Rule {
            path: vec![path.into()],
            access,
            ..rule("*", decide)
        };
        let mut policy = of_profile(Profile::Dev);
        policy.rules = vec![
            path("docs/**", Some(Access::Write), Decide::Deny),
            path("deploy/test.pem", Some(Access::Read), Decide::Allow),
        ];
        let says = |tool: &str, input: Value| judge(&policy, &question(tool, &input)).said();
        let text = json!({ "path": "docs/a.md", "content": "" });
        assert_eq!(says("write", text), "denied by rule 1 for `write docs/a.md`");
        assert_eq!(says("read", json!({ "path": "docs/a.md" })), "allowed by profile dev");
        assert_eq!(says("read", json!({ "path": "deploy/test.pem" })), "allowed by rule 2");
        assert!(says("read", json!({ "path": "deploy/real.pem" })).starts_with("asked by profile"));
    }

    #[test]
    fn without_a_sandbox_what_runs_is_asked_about() {
        let input = json!({});
        let checks = question("validator.run", &input);
        let policy = of_profile(Profile::Dev);
        assert_eq!(judge(&policy, &checks).decide, Decide::Allow);
        let bare = Question { sandboxed: false, ..checks };
        let said = judge(&policy, &bare).said();
        assert_eq!(said, "asked by profile dev: no rule allows validator.run; no sandbox holds it");
        assert_eq!(judge(&of_profile(Profile::Open), &bare).decide, Decide::Ask);
    }

    #[test]
    fn drivers_and_attendance_are_matched_too() {
        let mut policy = of_profile(Profile::Dev);
        policy.rules = vec![Rule {
            driver: vec!["agent".to_owned()],
            attended: Some(false),
            ..rule("read", Decide::Deny)
        }];
        let input = json!({ "path": "a" });
        let decide = |driver, attended| {
            judge(&policy, &Question { driver, attended, ..question("read", &input) }).decide
        };
        assert_eq!(decide("agent", false), Decide::Deny);
        assert_eq!(decide("agent", true), Decide::Allow);
        assert_eq!(decide("llm", false), Decide::Allow);
    }
}

#[test]
fn a_policy_of_an_older_task_is_read_and_one_of_today_survives() {
    let old: Policy = serde_json::from_str(
        r#"{"rules":[{"tool":"shell","decide":"ask","reason":""}],"unattended":"wait"}"#,
    )
    .unwrap();
    assert_eq!((old.profile, old.rules[0].command.len()), (None, 0));
    assert_eq!(serde_json::to_value(Policy::default()).unwrap(), json!({ "unattended": "deny" }));
    let mut new = of_profile(Profile::ReadOnly);
    new.rules = vec![Rule {
        command: vec!["git push".into()],
        path: vec!["~/x/**".into()],
        access: Some(Access::Read),
        from: Some(Origin { file: "p".to_owned(), line: 3, number: 1 }),
        ..rule("shell", Decide::Deny)
    }];
    let text = serde_json::to_string(&new).unwrap();
    assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), new);
}
