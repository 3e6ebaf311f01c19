//! A coding agent that cannot be worked with: one that answers its greeting with an error, in each of the three protocols, and one
//! that misses a file. The task ends with a reason that has a name, soon, and nothing of the program is left.

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// A project whose agent refuses to be greeted.
fn place(protocol: &str) -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("steps.txt", "refuse not today, sign in first\n");
    place.write(
        ".drivetrain/agents/refusing.toml",
        &format!(
            "[agent]\nname = \"refusing\"\nprotocol = \"{protocol}\"\nidle = \"60s\"\ncommand = [{:?}, \"fake\", \"agent\", \"steps.txt\"]\n",
            env!("CARGO_BIN_EXE_drivetrain")
        ),
    );
    place.trust();
    place
}

fn is_refused(protocol: &str, end: &Value) {
    let place = place(protocol);
    let began = std::time::Instant::now();
    let ran = place.run(&["run", "do it", "--agent", "refusing", "--in-place", "--no-sandbox"]);
    assert!(began.elapsed().as_secs() < 60, "it hung: {:?}", began.elapsed());
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    let id = place.id();
    let ended: Vec<Value> =
        place.events(&id).into_iter().filter(|event| event["type"] == "agent_ended").collect();
    assert!(!ended.is_empty());
    for event in &ended {
        assert_eq!(event["end"], *end, "{event}");
        let text = event["text"].as_str().unwrap();
        assert!(text.contains("not today, sign in first"), "{text}");
    }
    let why = place.ok(&["why", &id]);
    assert!(why.contains("not today, sign in first"), "{why}");
    assert_eq!(place.processes(), [""; 0]);
}

#[test]
fn claude_code_that_refuses_its_greeting_ends_the_turn_by_name() {
    is_refused("claude", &json!({ "broken": "protocol" }));
}

#[test]
fn codex_that_refuses_its_greeting_ends_the_turn_by_name() {
    is_refused("codex", &json!("failed"));
}

#[test]
fn an_acp_agent_that_refuses_its_greeting_ends_the_turn_by_name() {
    is_refused("acp", &json!("failed"));
}

#[test]
fn an_agent_that_misses_a_file_which_the_sandbox_hides_is_quoted_with_that() {
    let place = TestEnvironment::new();
    let hidden = place.home().with_file_name("tool");
    std::fs::write(&hidden, "#!/bin/sh\n").unwrap();
    let command = ["sh", "-c", &format!("exec {}", hidden.display())];
    place.write_agent("wrapped", &format!("protocol = \"claude\"\ncommand = {command:?}\n"));
    place.git(&["init", "--quiet"]);
    place.write("main.py", "print(1)\n");
    place.commit_all("one");
    let ran = place.run(&["run", "g", "--agent", "wrapped", "--any-version", "--unattended"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    let said = format!("{} is there, but the sandbox hides it", hidden.display());
    assert!(ran.out.contains(&said), "{}{}", ran.out, ran.err);
}
