//! The folder that a coding agent has for itself: it writes there what it likes, and nothing that it leaves there leads
//! drivetrain to files that the agent cannot reach.

use crate::environment::TestEnvironment;

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s1","permissionMode":"default"}"#;
const ENDS: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1"}"#;

/// A project whose agent runs a command in each turn and claims to be done.
fn place(command: &str) -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("steps.txt", &format!("{INIT}\nrun {command}\n{ENDS}\n"));
    let agent = [env!("CARGO_BIN_EXE_drivetrain"), "fake", "agent", "steps.txt"];
    place.write(
        ".drivetrain/agents/sly.toml",
        &format!(
            "[agent]\nname = \"sly\"\nprotocol = \"claude\"\nidle = \"60s\"\ncommand = {agent:?}\n"
        ),
    );
    place.git(&["init", "--quiet"]);
    place.commit_all("one");
    place.trust();
    place
}

/// The agent is started anew once its first claim has failed.
fn run(place: &TestEnvironment) {
    let words = ["run", "do it", "--agent", "sly", "--no-sandbox", "--check", "false"];
    place.run(&[&words[..], &["--max-turns", "2"]].concat());
}

#[test]
fn links_that_an_agent_leaves_in_its_folder_lead_drivetrain_nowhere() {
    for name in ["tmp/.keep", "tmp", "conversation-0", "conversation-1"] {
        let outside = tempfile::tempdir().unwrap();
        let (file, folder) = (outside.path().join("file"), outside.path().join("folder"));
        std::fs::create_dir(&folder).unwrap();
        for precious in [&file, &folder.join(".keep")] {
            std::fs::write(precious, "precious").unwrap();
        }
        let target = if name == "tmp" { &folder } else { &file };
        let place = place(&format!(
            "cd \"$CLAUDE_CONFIG_DIR\"; echo \"$PWD\" > {}; rm -rf {name}; ln -s {} {name}",
            outside.path().join("home").display(),
            target.display()
        ));
        run(&place);
        let home = std::fs::read_to_string(outside.path().join("home")).unwrap();
        let folder_of_task = place.home().join("agents").join(place.id());
        assert!(home.starts_with(folder_of_task.to_str().unwrap()), "{home}");
        for precious in [&file, &folder.join(".keep")] {
            assert_eq!(std::fs::read_to_string(precious).unwrap(), "precious", "{name}");
        }
    }
}

#[test]
fn an_agent_that_put_a_link_in_the_place_of_a_file_is_not_started_again_and_it_is_said_why() {
    let place = place("cd \"$CLAUDE_CONFIG_DIR\"; rm -f tmp/.keep; ln -s /dev/null tmp/.keep");
    run(&place);
    let log = place.ok(&["log", &place.id()]);
    assert!(log.contains("tmp/.keep") && log.contains("symbolic link"), "{log}");
}
