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
        within: &[],
        attended: true,
        workspace: Some("/w"),
        sandboxed: true,
    }
}

fn of_profile(profile: Profile) -> Policy {
    Policy { profile: Some(profile), home: Some("/users/u".to_owned()), ..Policy::default() }
}

fn rule(tool: &str, decide: Decide) -> Rule {
    Rule { tool: tool.to_owned(), decide, ..Rule::default() }
}

#[test]
fn a_rule_about_a_tool_alone_stands_in_its_place_among_the_others() {
    let command =
        |pattern: &str, decide| Rule { command: vec![pattern.into()], ..rule("shell", decide) };
    let path = |pattern: &str, decide| Rule { path: vec![pattern.into()], ..rule("*", decide) };
    let said = |rules: &[Rule], tool: &str, input: Value| {
        let policy = Policy { rules: rules.to_vec(), ..of_profile(Profile::Dev) };
        judge(&policy, &question(tool, &input)).decide
    };
    let line = |rules: &[Rule], line: &str| said(rules, "shell", json!({ "command": line }));
    let only = [command("cargo test", Decide::Allow), rule("shell", Decide::Deny)];
    assert_eq!(line(&only, "cargo test -q"), Decide::Allow);
    for other in
        ["ls", "cargo test && ls", "cargo test > out", "cargo test $(ls)", "cargo test 'x", ""]
    {
        assert_eq!(line(&only, other), Decide::Deny, "{other}");
    }
    let mut first = only.clone();
    first.reverse();
    assert_eq!(line(&first, "cargo test -q"), Decide::Deny);
    let all_but = [command("git push", Decide::Deny), rule("shell", Decide::Allow)];
    assert_eq!(line(&all_but, "frob; git push"), Decide::Deny);
    assert_eq!(line(&all_but, "frob; git pull"), Decide::Allow);
    let docs = [path("docs/**", Decide::Allow), rule("write", Decide::Deny)];
    let write = |path: &str| said(&docs, "write", json!({ "path": path, "content": "" }));
    assert_eq!((write("docs/a.md"), write("src/a.rs")), (Decide::Allow, Decide::Deny));
    assert_eq!(said(&docs, "read", json!({ "path": "src/a.rs" })), Decide::Allow);
    let checks = [path("**", Decide::Allow), rule("validator.run", Decide::Deny)];
    assert_eq!(said(&checks, "validator.run", json!({})), Decide::Deny, "it is more than a path");
    let policy = Policy {
        rules: vec![rule("validator.run", Decide::Allow)],
        ..of_profile(Profile::ReadOnly)
    };
    assert_eq!(judge(&policy, &question("validator.run", &json!({}))).decide, Decide::Allow);
    let before = Policy { profile: None, ..policy.clone() };
    let before = Policy { rules: vec![rule("write", Decide::Allow), docs[0].clone()], ..before };
    let input = json!({ "path": "a", "content": "" });
    assert_eq!(judge(&before, &question("write", &input)).decide, Decide::Allow, "no profile");
}

#[test]
fn a_command_that_stands_in_a_title_only_is_held_back_by_its_rules_and_let_through_by_none() {
    let command =
        |pattern: &str, decide| Rule { command: vec![pattern.into()], ..rule("shell", decide) };
    let said = |rules: &[Rule], title: &str| {
        let policy = Policy { rules: rules.to_vec(), ..of_profile(Profile::Dev) };
        let input = json!({ "kind": "execute", "title": title });
        judge(&policy, &question("gemini.execute", &input)).decide
    };
    let all_but = [
        command("git push", Decide::Deny),
        command("git pull", Decide::Ask),
        rule("*", Decide::Allow),
    ];
    assert_eq!(said(&all_but, "cd x && git push --force"), Decide::Deny);
    assert_eq!(said(&all_but, "git pull"), Decide::Ask);
    assert_eq!(said(&all_but, "git fetch"), Decide::Allow);
    assert_eq!(said(&[command("git fetch", Decide::Allow)], "git fetch"), Decide::Ask);
    let trusted = [rule("gemini.execute", Decide::Allow), rule("shell", Decide::Deny)];
    assert_eq!(said(&trusted, "git push"), Decide::Allow, "its own rule stands before");
    assert_eq!(said(&trusted[1..], "git push"), Decide::Deny);
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

    /// Whatever the tool would change is what the gate sees, in every way of writing its name.
    #[test]
    fn a_patch_names_its_files_to_the_gate_as_to_the_tool() {
        let path = |pattern: &str, access| Rule {
            path: vec![pattern.into()],
            access: Some(access),
            ..rule("*", Decide::Deny)
        };
        let rules = vec![path("kept/**", Access::Write), path("b/**", Access::Write)];
        let policy = Policy { rules, ..of_profile(Profile::Dev) };
        let hunk = "@@ -1 +1 @@\n-x\n+y\n";
        for diff in [
            format!("--- \"a/\\153ept/x\"\n+++ \"b/\\153ept/x\"\n{hunk}"),
            format!("--- x/y\n+++ b/y\n{hunk}"),
            "diff --git a/kept/x b/kept/x\nold mode 100644\nnew mode 100755\n".to_owned(),
            "diff --git a/kept/x b/kept/x\nnew file mode 100644\nindex 000..111\n".to_owned(),
            format!(
                "--- a/x\n+++ b/x\n{hunk}diff --git a/z b/z\nrename from z\nrename to kept/z\n"
            ),
        ] {
            let input = json!({ "diff": diff });
            assert_eq!(judge(&policy, &question("patch", &input)).decide, Decide::Deny, "{diff}");
        }
        let input = json!({ "diff": format!("--- a/x\n+++ b/x\n{hunk}") });
        assert_eq!(judge(&policy, &question("patch", &input)).decide, Decide::Allow);
        let hidden = Policy { rules: vec![path("kept/**", Access::Read)], ..policy };
        let input = json!({ "diff": "diff --git a/kept/x b/y\nrename from kept/x\nrename to y\n" });
        assert_eq!(judge(&hidden, &question("patch", &input)).decide, Decide::Deny);
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

mod lines {
    use super::*;

    fn says(policy: &Policy, line: &str) -> Judgement {
        judge(policy, &question("shell", &json!({ "command": line })))
    }

    fn check(policy: &Policy, expected: &str, lines: &[&str]) {
        for line in lines {
            let judgement = says(policy, line);
            assert_eq!(judgement.decide.word(), expected, "{line}: {}", judgement.said());
        }
    }

    fn commands(profile: Profile, rules: &[(&str, Decide)]) -> Policy {
        let one = |(pattern, decide): &(&str, Decide)| Rule {
            command: vec![(*pattern).into()],
            ..rule("shell", *decide)
        };
        Policy { rules: rules.iter().map(one).collect(), ..of_profile(profile) }
    }

    #[test]
    fn dev_edits_and_builds_in_the_workspace_and_asks_for_the_rest() {
        let dev = of_profile(Profile::Dev);
        check(
            &dev,
            "allow",
            &[
                "ls -la",
                "cat src/main.rs | head -20",
                "cargo test -p machine 2>&1 | tail -5",
                "mkdir -p a/b && cp x a/b/x && mv a/b/x y",
                "echo hi >> notes.md",
                "cd src && ls",
                "git add -A && git commit -m 'a && b'",
                "cat /etc/hosts",
                "cargo build > /dev/null 2>&1",
                "rm -r target/debug",
                "grep -rn x . | sort | uniq -c",
                "cat > a.txt <<'E'\nx\nE",
                "(cd src; wc -l *.rs)",
                "if test -f a; then cat a; fi",
                "x=1; echo done",
            ],
        );
        check(
            &dev,
            "ask",
            &[
                "curl https://example.com",
                "git push",
                "cat ../x",
                "cat ~/notes",
                "echo x > /tmp/x",
                "cp a ../b",
                "rm -rf /",
                "rm $x",
                "cat .env",
                "cat deploy/key.pem",
                "cat ~/.ssh/id_rsa",
                "cat /proc/self/environ",
                "sudo ls",
                "frobnicate",
                "$x y",
                "eval \"$x\"",
                "cd .. && rm x",
                "cd /tmp && echo x > y",
                "cd $x && rm y",
                "echo x | sh",
                "npm install x",
                "PATH=. ls",
                "ls > $HOME/x",
                "cp .env x",
            ],
        );
        check(
            &dev,
            "deny",
            &[
                "echo x > .git/hooks/pre-commit",
                "cd .git && echo x > config",
                "rm -rf .git",
                "cp x .claude/settings.json",
                "mkdir .g*/x",
                "(cd .git/hooks; cp ../../x post-commit)",
                "ls && tee .mcp.json < x",
            ],
        );
    }

    #[test]
    fn read_only_looks_and_asks_for_the_rest() {
        let policy = of_profile(Profile::ReadOnly);
        check(
            &policy,
            "allow",
            &["ls", "git log --oneline | head", "cat a", "find . -name '*.rs'"],
        );
        check(
            &policy,
            "ask",
            &["cargo test", "touch a", "echo x > a", "git commit -m x", "find . -delete"],
        );
    }

    #[test]
    fn open_allows_what_no_rule_holds_back() {
        let open = of_profile(Profile::Open);
        check(
            &open,
            "allow",
            &["frobnicate $x", "curl http://x.invalid", "echo x > /tmp/y", "$x", "a \"$(b)\""],
        );
        check(&open, "ask", &["cat ~/.ssh/id_ed25519", "frobnicate ~/.ssh/id_ed25519"]);
        check(&open, "deny", &["echo x > .git/config"]);
    }

    #[test]
    fn a_program_is_denied_however_it_is_reached() {
        let policy = commands(Profile::Open, &[("touch", Decide::Deny)]);
        let far = format!("{}touch x", "true && ".repeat(60));
        check(
            &policy,
            "deny",
            &[
                "touch x",
                "/usr/bin/touch x",
                "t''ouch x",
                "\\touch x",
                "env touch x",
                "ls; touch x",
                "echo $(touch x)",
                "bash -c 'touch x'",
                "find . -exec touch {} \\;",
                "nice -n 5 touch x",
                "../../bin/touch x",
                "true | xargs touch",
                "f() { touch x; }; f",
                "timeout 5 touch x",
                &far,
            ],
        );
        for line in [
            "$x y",
            "/???/t?uch x",
            "eval \"$x\"",
            "echo x | sh",
            "weird touch x",
            "python3 -c 'x'",
        ] {
            assert_ne!(says(&policy, line).decide, Decide::Allow, "{line}");
        }
        check(&policy, "allow", &["ls touch", "grep touch x", "git log", "frobnicate x"]);
    }

    #[test]
    fn the_decisive_part_is_named() {
        let policy = commands(Profile::Dev, &[("git push", Decide::Deny)]);
        let said = says(&policy, "cargo test && git -C . push --force | cat").said();
        assert_eq!(said, "denied by rule 1 for `git -C . push --force`");
        let said = says(&policy, "git \"$x\" y").said();
        assert_eq!(said, "asked by rule 1 for `git \"$x\" y`: it may be what the rule denies");
        let said = says(&policy, "ls | tee ../x").said();
        assert_eq!(said, "asked by profile dev for `write /x`: it writes outside the workspace");
    }

    #[test]
    fn an_allowed_command_carries_nothing_else_with_it() {
        let policy =
            commands(Profile::Dev, &[("frobnicate *", Decide::Allow), ("cat", Decide::Allow)]);
        check(&policy, "allow", &["frobnicate --all x", "cat ../x", "ls | frobnicate"]);
        check(
            &policy,
            "ask",
            &[
                "frobnicate > ../x",
                "frobnicate && other",
                "LD_PRELOAD=x frobnicate",
                "sudo frobnicate",
                "./frobnicate",
                "cat .env",
                "frobnicate $(other)",
                "cat < ~/.netrc",
            ],
        );
    }

    #[test]
    fn a_rule_for_a_host_is_enough_for_a_program_that_names_it() {
        let mut policy = of_profile(Profile::Dev);
        policy.rules =
            vec![Rule { host: vec!["*.example.com".to_owned()], ..rule("shell", Decide::Allow) }];
        check(&policy, "allow", &["curl -s https://api.example.com/x"]);
        check(
            &policy,
            "ask",
            &[
                "curl https://example.com.evil.invalid",
                "curl $x",
                "curl https://api.example.com https://b.invalid",
                "curl -o ../x https://api.example.com",
            ],
        );
    }

    #[test]
    fn a_denied_path_is_denied_for_every_tool_and_program() {
        let mut policy = of_profile(Profile::Open);
        policy.rules = vec![Rule { path: vec!["vault/**".into()], ..rule("*", Decide::Deny) }];
        check(
            &policy,
            "deny",
            &["cat vault/a", "cat < vault/a", "cd vault && cat a", "frob vault/a", "cp x vault/y"],
        );
        check(&policy, "deny", &["dd if=x of=vault/a", "frob --output=vault/a", "frob a=./vault"]);
        check(&policy, "ask", &["cat $x", "cat v*/a", "$(frob)"]);
        check(&policy, "allow", &["cat a", "ls", "frob --output=vaults/a", "frob a="]);
        let read = judge(&policy, &question("read", &json!({ "path": "vault/a" })));
        assert_eq!(read.decide, Decide::Deny);
    }

    #[test]
    fn a_denied_path_is_not_read_or_changed_with_the_folder_that_it_is_in() {
        let of = |access| Policy {
            rules: vec![Rule {
                path: vec!["data/kept/**".into()],
                access: Some(access),
                ..rule("*", Decide::Deny)
            }],
            ..of_profile(Profile::Dev)
        };
        let read = of(Access::Read);
        check(
            &read,
            "ask",
            &[
                "grep -r x .",
                "grep -R x data",
                "grep -r x",
                "rg x",
                "rg x data",
                "cp -r data other",
                "cp -a . ../x",
                "mv data other",
                "ln -s data other",
                "diff -r data other",
                "git grep x",
                "git grep x -- data",
                "git diff HEAD~1 -- 'd*/kept/x'",
                "git diff HEAD~1 -- ':(top)data/kept'",
                "git -C data show HEAD:./kept/x",
                "git diff",
                "git diff HEAD~1",
                "git show",
                "git show --stat -p HEAD",
                "git show :/x",
                "git show 'HEAD^{/a:b}'",
                "git log -p",
                "git stash show -p",
            ],
        );
        check(&read, "deny", &["cat data/kept/x", "mv data/kept other", "grep -r x data/kept"]);
        check(
            &read,
            "allow",
            &[
                "ls -R data",
                "grep -r x src",
                "rg x src",
                "cp -r src other",
                "mv src other",
                "git diff -- src",
                "git diff HEAD~1 -- src",
                "git diff --stat",
                "git show HEAD:src/x",
                "git show --name-only",
                "git log --oneline",
                "git add data",
            ],
        );
        for (tool, input) in [
            ("grep", json!({ "pattern": "x" })),
            ("grep", json!({ "pattern": "x", "path": "data" })),
            ("skeleton", json!({ "path": "." })),
            ("view", json!({ "symbol": "x" })),
        ] {
            assert_eq!(judge(&read, &question(tool, &input)).decide, Decide::Ask, "{tool} {input}");
        }
        let input = json!({ "pattern": "x", "path": "src" });
        assert_eq!(judge(&read, &question("grep", &input)).decide, Decide::Allow);
        let write = of(Access::Write);
        check(
            &write,
            "ask",
            &[
                "rm -rf *",
                "rm -rf d*",
                "git rm -r 'd*'",
                "git checkout HEAD~1 -- 'd*/kept/x'",
                "git restore -s HEAD~1 ':(top)data/kept/x'",
                "git restore -s HEAD~1 ':!src'",
                "git rm -q :data/kept/x",
                "git checkout .",
                "git checkout main",
                "git switch main",
                "git switch -c new main",
                "git stash",
                "git stash pop",
                "cd src && git stash",
                "git merge --no-edit main",
                "git cherry-pick --no-edit x",
                "git reset --keep HEAD~1",
                "git pull",
                "ruff check --fix data",
                "ruff check --fix",
                "ruff format",
                "ruff format data",
                "eslint --fix data",
                "eslint --fix",
            ],
        );
        check(
            &write,
            "allow",
            &[
                "rm -rf s*",
                "git checkout -- 'src/*.rs'",
                "git checkout HEAD~1 src/a",
                "git checkout -b new",
                "git switch -c new",
                "git stash push src/a",
                "git stash drop",
                "git reset HEAD~1",
                "git diff HEAD~1",
                "git grep x",
                "ruff check data",
                "ruff check --fix src",
                "ruff format src",
                "eslint data",
                "eslint --fix src lib",
            ],
        );
    }

    #[test]
    fn what_git_does_to_all_files_counts_for_a_rule_about_some() {
        let deny = Rule {
            path: vec!["data/kept/**".into()],
            access: Some(Access::Write),
            ..rule("*", Decide::Deny)
        };
        let allow = Rule { command: vec!["git *".into()], ..rule("shell", Decide::Allow) };
        let lines = [
            "git reset --hard HEAD~1",
            "git clean -fd",
            "git rebase main",
            "git am x.patch",
            "git read-tree -u -m HEAD~1",
            "git submodule update",
            "git worktree add ../x",
            "git an-alias",
            "git stash",
        ];
        let of = |rules| Policy { rules, ..of_profile(Profile::Dev) };
        let denied_first = of(vec![deny.clone(), allow.clone()]);
        check(&denied_first, "ask", &lines);
        let leaves = ["git config user.name x", "git gc --auto", "git commit", "git -C src log"];
        check(&denied_first, "allow", &leaves);
        // Whoever allows the commands first means what they do.
        check(&of(vec![allow, deny]), "allow", &lines);
    }

    #[test]
    fn the_operators_lines_are_held_back_by_rules_alone() {
        let line = json!({ "command": "frobnicate > ../x; echo > .git/x; git push" });
        let ask = |policy: &Policy| {
            judge(policy, &Question { author: Author::Operator, ..question("shell", &line) }).decide
        };
        assert_eq!(ask(&of_profile(Profile::ReadOnly)), Decide::Allow);
        assert_eq!(ask(&commands(Profile::Open, &[("git push", Decide::Deny)])), Decide::Deny);
    }

    #[test]
    fn each_part_is_explained() {
        let policy = commands(Profile::Dev, &[("git push", Decide::Ask)]);
        let line = json!({ "command": "cargo test > log && git push" });
        let all = explain(&policy, &question("shell", &line));
        let all: Vec<String> =
            all.iter().map(|p| format!("{} {} {}", p.decide.word(), p.part, p.by)).collect();
        assert_eq!(
            all,
            ["allow cargo test profile dev", "allow write log profile dev", "ask git push rule 1"]
        );
    }
}

mod laws {
    use proptest::prelude::*;

    use super::*;

    fn commands() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "ls",
            "cat a",
            "git push",
            "git -C x push --force",
            "rm -rf b",
            "cargo test",
            "$x",
            "echo $(cat c)",
            "frob vault/a",
            "echo x > vault/y",
            "bash -c 'git push'",
            "curl https://h.invalid",
            "cd vault",
            "touch ../z",
            "X=1 ls",
            "cat < ~/.ssh/k",
            "env git push",
            "echo 'a",
            "for i in 1; do rm $i; done",
        ]);
        prop::collection::vec(word, 1..5).prop_map(|words| words.join(" ; "))
    }

    fn rules() -> impl Strategy<Value = Rule> {
        let decide = prop::sample::select(vec![Decide::Allow, Decide::Ask, Decide::Deny]);
        let command =
            prop::sample::select(vec!["git push", "git", "rm -rf", "frob *", "ls", "cat", "*"]);
        let path = prop::sample::select(vec!["vault/**", "a", "~/.ssh/**", "/w/b"]);
        (decide, 0..4u8, command, path).prop_map(|(decide, kind, command, path)| match kind {
            0 => rule("shell", decide),
            1 => Rule { command: vec![command.into()], ..rule("shell", decide) },
            2 => Rule { path: vec![path.into()], ..rule("*", decide) },
            _ => Rule { host: vec!["*".to_owned()], ..rule("shell", decide) },
        })
    }

    fn policies() -> impl Strategy<Value = Policy> {
        let profile = prop::sample::select(Profile::ALL.to_vec());
        (profile, prop::collection::vec(rules(), 0..5))
            .prop_map(|(profile, rules)| Policy { rules, ..of_profile(profile) })
    }

    fn decided(policy: &Policy, line: &str) -> Decide {
        judge(policy, &question("shell", &json!({ "command": line }))).decide
    }

    proptest! {
        #[test]
        fn one_more_rule_that_denies_never_allows_more(
            policy in policies(), more in rules(), at in 0..5usize, line in commands()
        ) {
            let mut stricter = policy.clone();
            let more = Rule { decide: Decide::Deny, ..more };
            stricter.rules.insert(at.min(policy.rules.len()), more);
            prop_assert!(decided(&stricter, &line) >= decided(&policy, &line), "{line}");
        }

        #[test]
        fn a_stricter_profile_never_allows_more(policy in policies(), line in commands()) {
            let of = |profile| decided(&Policy { profile: Some(profile), ..policy.clone() }, &line);
            prop_assert!(of(Profile::ReadOnly) >= of(Profile::Dev));
            prop_assert!(of(Profile::Dev) >= of(Profile::Open));
        }

        #[test]
        fn a_line_is_never_allowed_more_than_a_whole_line_that_it_begins_with(
            policy in policies(), first in commands(), second in commands()
        ) {
            // A quote that is open at the end is closed by what follows, and then means something else.
            prop_assume!(crate::shell::read(&first).unclear.is_empty());
            let both = format!("{first}\n{second}");
            prop_assert!(decided(&policy, &both) >= decided(&policy, &first), "{both}");
        }

        #[test]
        fn without_a_sandbox_nothing_is_allowed_more(policy in policies(), line in commands()) {
            let input = json!({ "command": line });
            let held = question("shell", &input);
            let bare = Question { sandboxed: false, ..held };
            prop_assert!(judge(&policy, &bare).decide >= judge(&policy, &held).decide);
        }

        #[test]
        fn the_answer_is_the_strictest_word_of_the_parts(policy in policies(), line in commands()) {
            let input = json!({ "command": line });
            let asked = question("shell", &input);
            let strictest = explain(&policy, &asked).iter().map(|part| part.decide).max();
            prop_assert_eq!(Some(judge(&policy, &asked).decide), strictest);
        }

        #[test]
        fn what_is_denied_by_its_tool_alone_is_denied_whatever_it_says(
            profile in prop::sample::select(Profile::ALL.to_vec()), text in ".{0,60}", line in commands()
        ) {
            let policy = Policy { rules: vec![rule("shell", Decide::Deny)], ..of_profile(profile) };
            prop_assert_eq!(decided(&policy, &text), Decide::Deny);
            prop_assert_eq!(decided(&policy, &line), Decide::Deny);
        }

        #[test]
        fn any_text_is_judged(policy in policies(), line in ".{0,60}") {
            decided(&policy, &line);
        }
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
