//! `drivetrain agents`: what is installed, in which version, and what can be done with it.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::repository::Repository;

/// Programs of these names, each of which prints its version, or whatever its script does.
fn install(environment: &TestEnvironment, programs: &[(&str, &str)]) -> String {
    let folder = environment.home().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, script) in programs {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:/usr/bin:/bin", folder.display())
}

fn agents(environment: &TestEnvironment, path: &str) -> Vec<Value> {
    let output = environment.command(&["agents", "--json"]).env("PATH", path).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["v"], 1);
    said["agents"].as_array().unwrap().clone()
}

fn named<'a>(agents: &'a [Value], name: &str) -> &'a Value {
    agents.iter().find(|agent| agent["name"] == name).unwrap()
}

#[test]
fn what_is_installed_is_told_with_its_version_and_whether_that_was_tried() {
    let environment = TestEnvironment::new();
    let path = install(
        &environment,
        &[
            ("claude", "[ \"$*\" = --version ] || exit 9; echo '2.1.112 (Claude Code)'"),
            ("codex", "echo 'codex-cli 0.999.0'"),
            ("gemini", "echo broken >&2; exit 3"),
        ],
    );
    let agents = agents(&environment, &path);
    let names: Vec<&str> = agents.iter().filter_map(|agent| agent["name"].as_str()).collect();
    assert_eq!(names, ["claude", "codex", "gemini", "opencode"]);
    let claude = named(&agents, "claude");
    assert_eq!(claude["support"], "tested");
    assert!(claude["installed"].as_str().unwrap().ends_with("/bin/claude"));
    assert_eq!(claude["can"]["gate"], "hook");
    assert_eq!(claude["can"]["pause"], "call");
    assert_eq!(claude["can"]["tools"], true, "it is offered tools of drivetrain's own");
    assert_eq!(named(&agents, "codex")["support"], "newer");
    assert_eq!(named(&agents, "codex")["can"]["cost"], false);
    let gemini = named(&agents, "gemini");
    assert_eq!(gemini["version_problem"], "asked with --version it ends with 3: broken");
    assert_eq!(gemini["support"], Value::Null);
    let opencode = named(&agents, "opencode");
    assert_eq!((&opencode["installed"], &opencode["support"]), (&Value::Null, &Value::Null));
    assert_eq!(opencode["can"]["steer"], false);
    assert_eq!(opencode["can"]["tools"], false);
}

#[test]
fn an_agent_of_a_file_is_compared_with_what_was_tried_of_its_program_and_takes_no_taken_name() {
    let environment = TestEnvironment::new();
    let script = "[ \"$*\" = '--quiet --version' ] || exit 9; echo '1.0.3 (Claude Code)'";
    let path = install(&environment, &[("old", script)]);
    let file = |name: &str, more: &str| {
        let text = format!("[agent]\nname = \"{name}\"\ncommand = [\"old\", \"--quiet\"]\n{more}");
        environment.write(&format!(".drivetrain/agents/{name}.toml"), &text);
    };
    file("mine", "protocol = \"claude\"\n");
    file("codex", "");
    environment.trust();
    let agents = agents(&environment, &path);
    let mine = named(&agents, "mine");
    assert_eq!(
        (&mine["version"], &mine["support"]),
        (&"1.0.3 (Claude Code)".into(), &"older".into())
    );
    assert_eq!(mine["tested"][0], "2.1.112");
    let codex: Vec<&Value> = agents.iter().filter(|agent| agent["name"] == "codex").collect();
    assert_eq!(codex[0]["source"], "built_in");
    let problem = codex[1]["problem"].as_str().unwrap();
    assert!(
        problem.ends_with(
            "codex.toml counts for nothing: codex needs no file, and none can take its name"
        ),
        "{problem}"
    );
}

#[test]
fn an_agent_that_is_given_its_key_is_told_where_the_operator_has_it_sent() {
    let address = "http://127.0.0.1:9/v1";
    let environment = TestEnvironment::new().with_variable("OPENAI_BASE_URL", address);
    let file = "[agent]\nname = \"mine\"\ncommand = [\"sh\", \"-c\", \"echo $OPENAI_BASE_URL > seen.txt\"]\n\
                keys = [\"OPENAI_API_KEY\"]\n";
    environment.write(".drivetrain/agents/mine.toml", file);
    environment.trust();
    let run = ["run", "a goal", "--agent", "mine", "--no-gateway", "--no-sandbox", "--in-place"];
    environment.run(&run);
    assert_eq!(environment.read("seen.txt").trim(), address);
}

#[test]
fn a_task_whose_agent_is_not_installed_does_not_begin() {
    let environment = TestEnvironment::new();
    let path = install(&environment, &[]);
    let ask = ["run", "a goal", "--agent", "opencode", "--no-sandbox", "--unattended"];
    let output = environment.command(&ask).env("PATH", path).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(20), "{said}");
    let expected = "error: the agent opencode is not installed: there is no program \"opencode\" on PATH or at that path\n  \
                    hint: npm install -g opencode-ai@1.18.33\n  \
                    hint: drivetrain agents shows those that are\n";
    assert_eq!(said, expected);
    let listed = environment.command(&["list", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["tasks"], Value::Array(Vec::new()), "nothing was begun");
}

#[test]
fn a_task_whose_agent_is_too_old_to_be_held_does_not_begin_unless_its_operator_says_so() {
    let environment = TestEnvironment::new();
    let path = install(&environment, &[("claude", "echo '1.0.3 (Claude Code)'")]);
    let run = |more: &[&str]| {
        let ask = ["run", "a goal", "--agent", "claude", "--no-sandbox", "--unattended"];
        let ask = [&ask[..], more].concat();
        let key = ("ANTHROPIC_API_KEY", "sk-none");
        let output = environment.command(&ask).env("PATH", &path).env(key.0, key.1).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&[]);
    assert_eq!(code, Some(20), "{said}");
    let expected = "error: the agent claude is not started: Claude Code 1.0.3 is older than what can be held: expected is \
                    2.1.112 or newer (tried are 2.1.112 to 2.1.325)\n  \
                    hint: install a newer version of it; drivetrain agents shows what was found\n  \
                    hint: run, race, fork and hand-over --any-version, or any_version = true in its file, let it work all the \
                    same\n";
    assert_eq!(said, expected);
    assert_eq!(environment.tasks(), Vec::<Value>::new(), "nothing was begun");
    let (code, said) = run(&["--any-version"]);
    assert_ne!(code, Some(20), "{said}");
    assert_eq!(environment.tasks().len(), 1, "it was begun");
}

#[test]
fn a_task_is_handed_to_an_agent_that_is_too_old_only_if_its_operator_says_so() {
    let environment = TestEnvironment::new();
    let path = install(&environment, &[("claude", "echo '1.0.3 (Claude Code)'")]);
    environment.run(&["run", "a goal", "--driver", "user", "--unattended", "--in-place"]);
    let id = environment.id();
    let hand_over = |more: &[&str]| {
        let ask = [&["hand-over", &id, "--agent", "claude"], more].concat();
        let output = environment.command(&ask).env("PATH", &path).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = hand_over(&[]);
    assert_eq!(code, Some(20), "{said}");
    assert!(said.contains("hand-over --any-version"), "{said}");
    let (code, said) = hand_over(&["--any-version"]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_task_is_forked_for_an_agent_that_is_too_old_only_if_its_operator_says_so() {
    let repository = Repository::new();
    let path = install(&repository.place, &[("claude", "echo '1.0.3 (Claude Code)'")]);
    let (old, _) = repository.task(&["echo 1 > n1"], Some("test -e n1"));
    let fork = |more: &[&str]| {
        let ask = ["fork", &old, "--at", "2", "--agent", "claude", "--unattended"];
        let ask = [&ask[..], more].concat();
        let mut command = repository.place.command(&ask);
        let output = command.env("PATH", &path).env("ANTHROPIC_API_KEY", "sk-none").output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = fork(&[]);
    assert_eq!(code, Some(20), "{said}");
    assert!(said.contains("fork and hand-over --any-version"), "{said}");
    assert_eq!(repository.place.tasks().len(), 1, "nothing was begun");
    let (code, said) = fork(&["--any-version"]);
    assert_ne!(code, Some(20), "{said}");
    assert_eq!(repository.place.tasks().len(), 2, "it was begun");
}

#[test]
fn agents_that_are_too_old_take_part_in_a_race_only_if_its_operator_says_so() {
    let repository = Repository::new();
    let path = install(&repository.place, &[("claude", "echo '1.0.3 (Claude Code)'")]);
    let race = |drivers: &str, more: &[&str]| {
        let ask = ["race", "a goal", "--drivers", drivers, "--check", "false", "--no-sandbox"];
        let ask = [&ask[..], more].concat();
        let mut command = repository.place.command(&ask);
        let output = command.env("PATH", &path).env("ANTHROPIC_API_KEY", "sk-none").output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = race("agent:claude,agent:claude", &[]);
    assert_eq!(code, Some(20), "{said}");
    assert!(said.contains("run, race, fork and hand-over --any-version"), "{said}");
    let (code, said) = race("script/a.toml,script/b.toml", &["--any-version"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--any-version is for coding agents, and none takes part"), "{said}");
    assert_eq!(repository.place.tasks(), Vec::<Value>::new(), "nothing was begun");
    let (code, said) = race("agent:claude,agent:claude", &["--any-version"]);
    assert_ne!(code, Some(20), "{said}");
    assert_eq!(repository.place.tasks().len(), 2, "both were begun");
}

#[test]
fn a_program_of_a_projects_file_is_not_started_before_the_file_is_trusted() {
    let environment = TestEnvironment::new();
    environment.git(&["init", "--quiet"]);
    environment.write("tool", "#!/bin/sh\ntouch started\necho 1.2.3\n");
    let tool = environment.folder().join("tool");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    environment.write(
        ".drivetrain/agents/mine.toml",
        "[agent]\nname = \"mine\"\ncommand = [\"./tool\"]\n",
    );
    environment.write(".drivetrain/agents/bad.toml", "[agent]\nnam = \"bad\"\n");
    environment.write(
        ".drivetrain/agents/claude.toml",
        "[agent]\nname = \"claude\"\ncommand = [\"./tool\"]\n",
    );
    let listed = agents(&environment, "/usr/bin:/bin");
    let mine = named(&listed, "mine");
    assert_eq!(mine["source"], "project");
    assert!(mine["version_problem"].as_str().unwrap().contains("not trusted"), "{mine}");
    assert_eq!(
        mine["says_itself"],
        serde_json::json!(["resume", "fork", "usage", "cost", "compact"])
    );
    assert!(named(&listed, "bad")["problem"].as_str().unwrap().contains("nam"));
    assert_eq!(named(&listed, "claude")["source"], "built_in", "a file cannot take its name");
    assert!(!environment.folder().join("started").exists());
    let own = environment.home().parent().unwrap().join(".config/drivetrain/agents");
    std::fs::create_dir_all(&own).unwrap();
    let file = format!("[agent]\nname = \"ours\"\ncommand = [{tool:?}]\n");
    std::fs::write(own.join("ours.toml"), file).unwrap();
    let listed = agents(&environment, "/usr/bin:/bin");
    let ours = named(&listed, "ours");
    assert_eq!((&ours["source"], &ours["version"]), (&"user".into(), &"1.2.3".into()), "{ours}");
    assert_eq!(ours["support"], "unknown");
}

#[test]
fn a_program_that_is_asked_for_its_version_is_inside_walls() {
    let environment = TestEnvironment::new();
    std::fs::write(environment.home().with_file_name("private"), "hush").unwrap();
    let path = install(
        &environment,
        &[(
            "claude",
            "cat ~/private >&2 && exit 5\nenv | grep -q -e _API_KEY && exit 6\n\
             cd \"$(dirname \"$0\")\" && touch written 2>/dev/null && exit 7\n\
             [ \"$(wc -l < /proc/net/dev)\" -gt 3 ] && exit 8\necho 2.1.112",
        )],
    );
    assert_eq!(named(&agents(&environment, &path), "claude")["version"], "2.1.112");
    assert!(!environment.home().join("bin/written").exists());
}

#[test]
fn doctor_names_the_agents_that_are_there_in_short() {
    let environment = TestEnvironment::new();
    let path = install(&environment, &[("claude", "echo '2.1.999 (Claude Code)'")]);
    let output = environment.command(&["doctor", "--json"]).env("PATH", path).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = said["checks"].as_array().unwrap();
    let agents = checks.iter().find(|check| check["name"] == "agents").unwrap();
    assert_eq!(agents["health"], "less");
    assert_eq!(agents["found"], "claude 2.1.999 (Claude Code) (newer than tried)");
}
