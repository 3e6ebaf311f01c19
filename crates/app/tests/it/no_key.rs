//! A model without a key: nothing is begun that could not ask it, and what was never sent is not counted as wasted.

use crate::environment::{Ran, TestEnvironment};

const SAID: &str = "there is no key for \"anthropic\": set ANTHROPIC_API_KEY";

fn place() -> TestEnvironment {
    let place = TestEnvironment::new().with_variable("ANTHROPIC_API_KEY", "");
    let step = "[[workflow.steps]]\nname = \"a\"\nprompt = \"say so\"\nmodel = \"anthropic/m\"\n";
    place.write(".drivetrain/workflows/asks.toml", &format!("[workflow]\n{step}"));
    place.write(
        ".drivetrain/agents/mine.toml",
        "[agent]\nname = \"mine\"\nmodel = \"anthropic/m\"\n",
    );
    place.write("replies.toml", "[[reply]]\ntext = \"so\"\nrepeat = 9\n");
    place.trust();
    place
}

fn refused(place: &TestEnvironment, args: &[&str]) -> Ran {
    let ran = place.run(args);
    assert_eq!(ran.code, 20, "{args:?}: {}{}", ran.out, ran.err);
    assert!(ran.err.contains(SAID), "{args:?}: {}", ran.err);
    ran
}

#[test]
fn what_could_not_ask_its_model_is_not_begun() {
    let place = place();
    place.git(&["init", "--quiet", "--initial-branch=main"]);
    place.commit_all("first");
    for args in [
        &["run", "x y", "--model", "anthropic/m", "--in-place"][..],
        &[
            "run",
            "x y",
            "--model",
            "script/replies.toml",
            "--judge",
            "anthropic/m",
            "--rubric",
            "good",
        ],
        &["chat", "x y", "--model", "anthropic/m", "--in-place"],
        &["race", "x y", "--drivers", "script/replies.toml,anthropic/m", "--check", "true"],
        &["workflow", "run", "asks", "--in-place"],
        &["agent", "run", "mine", "x y", "--in-place"],
    ] {
        refused(&place, args);
    }
    assert!(place.tasks().is_empty(), "nothing was recorded");
    let ran = refused(&place, &["run", "x y", "--model", "anthropic/m"]);
    assert!(ran.err.contains("key_command"), "it says what to do: {}", ran.err);
}

#[test]
fn what_cannot_be_a_key_is_told_before_anything_begins() {
    let place = TestEnvironment::new().with_variable("ANTHROPIC_API_KEY", "one-half\nthe-other");
    let ran = place.run(&["run", "x y", "--model", "anthropic/m", "--in-place"]);
    assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("what ANTHROPIC_API_KEY gives is no key"), "{}", ran.err);
    assert!(!ran.err.contains("half"), "nothing of it is shown: {}", ran.err);
    assert!(place.tasks().is_empty(), "nothing was recorded");
    let listed = place.run(&["models"]).out;
    assert!(listed.contains("what ANTHROPIC_API_KEY holds is no key"), "{listed}");
}

#[test]
fn a_task_at_rest_is_not_handed_over_to_a_model_without_a_key() {
    let place = place();
    let run = ["run", "x y", "--driver", "user", "--in-place", "--unattended"];
    assert_eq!(place.run(&run).code, 13);
    let id = place.id();
    refused(&place, &["hand-over", &id, "--model", "anthropic/m"]);
    place.ok(&["hand-over", &id, "--model", "script/replies.toml"]);
}

#[test]
fn one_of_several_may_have_no_key_and_a_command_is_asked_when_it_is_needed() {
    let place = place();
    let model = |name: &str| format!("{{ driver = \"llm\", config = {{ model = \"{name}\" }} }}");
    let drivers = [model("anthropic/m"), model("script/replies.toml")].join(", ");
    let task = format!(
        "[task]\ngoal = \"x y\"\ndriver = \"fallback\"\ndriver_config = {{ drivers = [{drivers}] }}\n"
    );
    place.write("task.toml", &task);
    let ran = place.run(&["run", "task.toml", "--in-place"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let shown = place.show(&place.id());
    assert!(shown["spend"].get("wasted").is_none(), "none was sent: {shown}");

    let place = self::place();
    let user = ".config/drivetrain/models.toml";
    let provider = "[provider.own]\ndialect = \"openai_chat\"\nbase_url = \"http://127.0.0.1:1\"\n\
                    key_command = [\"sh\", \"-c\", \"exit 3\"]\n";
    let file = place.folder().parent().unwrap().join(user);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, provider).unwrap();
    let ran = place.run(&["run", "x y", "--model", "own/m", "--in-place"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("exit code 3"), "{}", ran.out);
    assert!(!ran.out.contains("wasted"), "none was sent: {}", ran.out);
    let shown = place.show(&place.id());
    assert!(shown["spend"].get("wasted").is_none(), "{shown}");
}

#[test]
fn what_a_recording_answers_needs_no_key() {
    let place = place();
    for command in ["run", "chat"] {
        let ran = place.run(&[command, "x y", "--model", "anthropic/m", "--replay", "none"]);
        assert_eq!(ran.code, 2, "{command}: {}", ran.err);
        assert!(ran.err.contains("cannot replay none"), "{command}: {}", ran.err);
    }
}
