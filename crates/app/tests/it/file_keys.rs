//! Keys of agents' and prompts' files, each shown by a run of the real binary that goes another way with it. That there is
//! a pair of files for every key is held in `machine/src/file/tests/keys.rs`.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::environment::{Ran, TestEnvironment};

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s1","permissionMode":"default"}"#;

/// What drives an agent of the project's own.
const RUN_MINE: [&str; 6] = ["run", "do it", "--agent", "mine", "--in-place", "--no-sandbox"];

/// What an agent says at the end of its turn.
fn ends(text: &str) -> String {
    let said = serde_json::json!({ "type": "assistant", "session_id": "s1",
        "message": { "role": "assistant", "content": [{ "type": "text", "text": text }] } });
    let end = serde_json::json!({ "type": "result", "subtype": "success", "is_error": false,
        "result": text, "session_id": "s1" });
    format!("{INIT}\n{said}\n{end}\n")
}

/// A program that notes what it was started with and then plays a coding agent.
fn program(place: &TestEnvironment, path: &str, steps: &str) -> String {
    place.write(steps, &ends(&format!("{steps} was played")));
    let folder = place.folder();
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Keys are only told by whether they are there.
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--version*) echo '2.1.112 (Claude Code)'; exit 0 ;; esac\n\
         {{ for word; do echo \"word $word\"; done; \
         echo \"env ${{PLAIN:-unset}} ${{PASSED:-unset}} ${{ANTHROPIC_API_KEY:+key}} ${{ANTHROPIC_BASE_URL:-direct}}\"; \
         }} > {0}/started\n\
         case \"$*\" in *stream-json*) exec {1} fake agent {0}/{steps} \"$@\" ;; *) exit 3 ;; esac\n",
        folder.display(),
        env!("CARGO_BIN_EXE_drivetrain")
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_string_lossy().into_owned()
}

/// Runs a task with an agent whose file has these lines; how it ended, and what its program was started with.
fn started(lines: &str) -> (Ran, String) {
    let place = TestEnvironment::new().with_variable("PASSED", "from-the-user");
    let command = program(&place, "tools/agent", "steps.txt");
    program(&place, "tools/other", "other.txt");
    let mut file = format!("[agent]\nname = \"mine\"\n{lines}\n");
    for (key, value) in [
        ("command", format!("[{command:?}]")),
        ("protocol", "\"claude\"".to_owned()),
        ("gateway", "false".to_owned()),
    ] {
        if !lines.contains(&format!("{key} =")) {
            file.push_str(&format!("{key} = {value}\n"));
        }
    }
    place.write(".drivetrain/agents/mine.toml", &file);
    place.trust();
    let ran = place.run(&RUN_MINE);
    let started = place.read("started");
    (ran, started)
}

#[test]
fn the_keys_of_a_programs_file_reach_the_program() {
    let (ran, plain) = started("");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for (lines, with) in [
        ("env = { PLAIN = \"said\" }", "env said "),
        ("pass = [\"PASSED\"]", " from-the-user "),
        ("keys = [\"ANTHROPIC_API_KEY\"]", " key "),
        ("keys = [\"ANTHROPIC_API_KEY\"]\ngateway = true", "http://127.0.0.1:"),
        ("model = \"some-model\"", "word --model\nword some-model\n"),
        ("model = \"some-model\"\nmodel_flag = \"--use\"", "word --use\nword some-model\n"),
        ("mode = \"plan\"", "word --permission-mode\nword plan\n"),
        ("command = [\"./tools/agent\", \"--mine\"]", "word --mine\n"),
    ] {
        let (ran, seen) = started(lines);
        assert!(seen.contains(with), "{lines}: {seen}{}{}", ran.out, ran.err);
        assert!(!plain.contains(with), "{lines}: it is there without the key, too: {plain}");
    }
}

#[test]
fn the_protocol_says_how_a_program_is_begun_and_the_command_which() {
    for (protocol, is_played) in [("claude", true), ("codex", false), ("acp", false)] {
        let (ran, seen) = started(&format!("protocol = \"{protocol}\""));
        assert_eq!(ran.code == 0, is_played, "{protocol}: {}{}", ran.out, ran.err);
        assert_eq!(seen.contains("word stream-json"), is_played, "{protocol}: {seen}");
    }
    let (ran, _) = started("command = [\"./tools/other\"]");
    assert!(ran.out.contains("other.txt was played"), "{}{}", ran.out, ran.err);
}

/// A place with an agent that may be silent for so long, and plays these steps before it ends well.
fn place_of_silent(idle: &str, before: &str) -> TestEnvironment {
    let place = TestEnvironment::new();
    let command = program(&place, "tools/agent", "steps.txt");
    let played = place.read("steps.txt");
    place.write("steps.txt", &format!("{before}\n{played}"));
    place.write(
        ".drivetrain/agents/mine.toml",
        &format!("[agent]\nname = \"mine\"\nprotocol = \"claude\"\ncommand = [{command:?}]\nidle = \"{idle}\"\n"),
    );
    place.trust();
    place
}

#[test]
fn an_agent_that_is_silent_for_too_long_does_not_end_well() {
    for (idle, ends_well) in [("20s", true), ("300ms", false)] {
        let ran = place_of_silent(idle, "sleep 2").run(&RUN_MINE);
        assert_eq!(ran.code == 0, ends_well, "{idle}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn while_drivetrain_itself_is_stopped_the_time_of_its_agent_does_not_run() {
    let place = place_of_silent("5s", "write begun\nsleep 9");
    let task = place.start(&RUN_MINE);
    place.until_file("begun");
    task.signal("STOP");
    std::thread::sleep(Duration::from_secs(8));
    task.signal("CONT");
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn a_step_of_a_workflow_is_the_work_of_an_agent_that_needs_no_file() {
    let place = TestEnvironment::new();
    program(&place, "bin/claude", "steps.txt");
    let path = format!("{}:/usr/bin:/bin", place.folder().join("bin").display());
    let place = place.with_variable("PATH", &path);
    place.write(
        "task.toml",
        "[task]\ngoal = \"g\"\n[workflow]\n[[workflow.steps]]\nname = \"before\"\ntool = \"write\"\n\
         parameters = { path = \"order\", content = \"look at {{ goal }}\" }\n\
         [[workflow.steps]]\nname = \"work\"\nagent = \"claude\"\nmodel = \"small\"\nprompt = \"Do {{ goal }}.\"\n\
         [[workflow.steps]]\nname = \"after\"\ntool = \"write\"\nparameters = { path = \"said\", content = \"{{ steps.work.text }}\" }\n",
    );
    let ran = place.run(&["run", "task.toml", "--in-place", "--no-sandbox"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("said"), "steps.txt was played");
    let started = place.read("started");
    assert!(started.contains("word --model\nword small\n"), "{started}");
}

/// Runs an agent that is made of parts.
fn composed(place: &TestEnvironment, lines: &str) -> Ran {
    place.write(".drivetrain/agents/mine.toml", &format!("[agent]\nname = \"mine\"\n{lines}\n"));
    place.trust();
    let run = ["agent", "run", "mine", "mend it", "--in-place", "--no-sandbox", "--unattended"];
    place.run(&run)
}

#[test]
fn whoever_an_agents_file_names_does_the_work() {
    let place = TestEnvironment::new();
    program(&place, "bin/claude", "steps.txt");
    let path = format!("{}:/usr/bin:/bin", place.folder().join("bin").display());
    let place = place.with_variable("PATH", &path);
    for name in ["one", "two"] {
        let reply = format!("[[reply]]\ntext = \"I am {name}.\"\nrepeat = true\n");
        place.write(&format!("{name}.toml"), &reply);
        let ran = composed(&place, &format!("model = \"script/{name}.toml\""));
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert!(ran.out.contains(&format!("I am {name}.")), "{}", ran.out);
    }
    let ran = composed(
        &place,
        "program = \"claude\"\nmodel = \"small\"\nprompt = \"First read {{ goal }}.\"",
    );
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(place.read("started").contains("word --model\nword small\n"));
    let id = place.tasks()[0]["id"].as_str().unwrap().to_owned();
    assert!(place.ok(&["journal", "export", &id]).contains("First read mend it."));
    let ran = composed(&place, "driver = \"user\"");
    assert_eq!(ran.code, 13, "a person is asked: {}{}", ran.out, ran.err);
}

/// Runs a workflow that asks a model with a prompt of this file; what the model was told, and all that is recorded.
fn asked(prompt: &str) -> (String, String) {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\ntext = \"fine\"\n");
    place.write(".drivetrain/prompts/p.toml", prompt);
    place.write(
        ".drivetrain/workflows/w.toml",
        "[workflow]\n[workflow.llm]\nmodel = \"script/replies.toml\"\n[[workflow.steps]]\nname = \"a\"\nprompt = \"@prompts/p\"\n",
    );
    place.trust();
    let ran = place.run(&["workflow", "run", "w", "--in-place"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let id = place.tasks()[0]["id"].as_str().unwrap().to_owned();
    let listed = place.ok(&["prompt", "list", "--json"]);
    let shown = place.ok(&["prompt", "show", "p"]);
    (format!("{shown}{listed}"), place.ok(&["journal", "export", &id]))
}

#[test]
fn the_keys_of_a_prompts_file_reach_the_journal_and_whoever_looks() {
    let text =
        "[prompt]\ntext = \"Be {{ inputs.how }}.\"\n[prompt.inputs.how]\ndefault = \"brief\"\n";
    let (_, plain) = asked(text);
    assert!(plain.contains("brief"), "the default is what the workflow takes: {plain}");
    let (_, other) = asked(&text.replace("brief", "long"));
    assert!(other.contains("long") && !other.contains("brief"), "{other}");
    let (shown, record) = asked(&format!(
        "[meta]\nname = \"p\"\nversion = \"7.1\"\ndescription = \"for tests\"\n{text}"
    ));
    assert!(record.contains("\"version\":\"7.1\"") && !plain.contains("7.1"), "{record}");
    assert!(shown.contains("for tests") && shown.contains("7.1"), "{shown}");
    let hash = |text: &str| runtime::trust::hash(text.as_bytes());
    assert!(plain.contains(&hash(text)), "the hash of the prompt is in the journal");
    assert!(!record.contains(&hash(text)), "another file, another hash");
}
