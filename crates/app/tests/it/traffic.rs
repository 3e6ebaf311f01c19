//! Recorded traffic through the whole program, and a wait that outlives its process.

use serde_json::Value;

use crate::environment::{Ran, TestEnvironment};
use crate::fake::Server;
use crate::model::{SCRIPT, count, story};

/// Two lines, once the file `go` is there; nothing else of it differs between runs.
const CHECK: &str = "test -e go || exec sleep 60; test $(wc -l < a.txt) -eq 2";

fn provider(place: &TestEnvironment, port: u16) {
    let text = format!(
        "[provider.fake]\ndialect = \"anthropic_messages\"\nbase_url = \"http://127.0.0.1:{port}\"\n\
        key_env = \"DRIVETRAIN_FAKE_KEY\"\n"
    );
    place.write(".drivetrain/models.toml", &text);
}

fn args<'a>(goal: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["run", goal, "--model", "fake/m", "--in-place", "--check", CHECK];
    args.extend(more);
    args
}

/// A place with a recording of the script, with one failure first; its server is gone.
fn recorded() -> (TestEnvironment, Vec<String>) {
    let place = TestEnvironment::new();
    let script = format!("[[reply]]\nstatus = 529\nretry_after = \"0s\"\n{SCRIPT}");
    let server = Server::of(&place, &script);
    provider(&place, server.port);
    place.write("go", "");
    let ran = place
        .command(&args("two lines", &["--record", "tapes"]))
        .env("DRIVETRAIN_FAKE_KEY", "a-private-key-0123456789")
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let told = story(&place.events(&place.id()));
    let answers = std::fs::read_dir(place.home().join("answers")).unwrap();
    let kept = answers.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_file());
    assert_eq!(kept.count(), 0, "the task has ended");
    let under_way = std::fs::read_dir(place.home().join("answers/under-way")).unwrap();
    assert_eq!(under_way.count(), 0, "the process has ended");
    drop(server);
    (place, told)
}

fn replayed(place: &TestEnvironment, goal: &str) -> Ran {
    let _ = std::fs::remove_file(place.folder().join("a.txt"));
    place.run(&args(goal, &["--replay", "tapes"]))
}

fn newest(place: &TestEnvironment) -> String {
    place.tasks()[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_recorded_run_replays_to_the_same_end_without_a_server_and_without_a_key() {
    let (place, told) = recorded();
    let tapes: Vec<_> = std::fs::read_dir(place.folder().join("tapes")).unwrap().collect();
    assert_eq!(tapes.len(), 5, "a failure and four answers");
    for tape in tapes {
        let text = std::fs::read_to_string(tape.unwrap().path()).unwrap();
        assert!(!text.contains("a-private-key") && !text.contains("127.0.0.1"), "{text}");
    }
    let ran = replayed(&place, "two lines");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("a.txt"), "one\ntwo\n");
    assert_eq!(story(&place.events(&newest(&place))), told);

    let ran = replayed(&place, "three lines");
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    let said = "replay_missing: tapes has no answer to this question: the nearest, 0001-";
    assert!(ran.out.contains(said), "{}", ran.out);
    assert!(ran.out.contains("differs first in messages[0].content"), "{}", ran.out);
    let events = place.events(&newest(&place));
    assert_eq!(count(&events, "model_called"), 1, "never asked again");
}

#[test]
fn a_replay_that_is_killed_goes_on_where_the_conversation_is() {
    let (place, told) = recorded();
    for file in ["go", "a.txt"] {
        std::fs::remove_file(place.folder().join(file)).unwrap();
    }
    let background = place.start(&args("two lines", &["--replay", "tapes", "--json"]));
    let id = background.id.clone();
    // The first claim is being checked; the answers after it have not been asked for.
    place.until(|| (count(&place.events(&id), "claimed") == 1).then_some(()));
    background.signal("KILL");
    background.wait();
    place.write("go", "");
    let ran = place.run(&["resume", &id, "--replay", "tapes"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(story(&place.events(&id)), told);
}

#[test]
fn folders_that_cannot_be_used_start_nothing() {
    let key = ("DRIVETRAIN_FAKE_KEY", "a-private-key-0123456789");
    let place = TestEnvironment::new().with_variable(key.0, key.1);
    provider(&place, 1);
    place.write("file", "");
    place.write("wrong/0001-aa.json", "{\"v\": 9}");
    for (more, said) in [
        (&["--record", "file"][..], "cannot record into file"),
        (&["--replay", "none"], "cannot replay none"),
        (&["--replay", "."], "nothing is recorded there"),
        (&["--replay", "wrong"], "version 9"),
        (&["--record", "a", "--replay", "b"], "cannot be used with"),
    ] {
        let ran = place.run(&args("two lines", more));
        assert_eq!(ran.code, 2, "{more:?}\n{}{}", ran.out, ran.err);
        assert!(ran.err.contains(said), "{more:?}\n{}", ran.err);
    }
    assert!(!place.home().join("journal").exists(), "nothing was recorded");
}

#[test]
fn a_model_that_asks_for_hours_is_asked_again_after_them_and_no_process_waits() {
    let place = TestEnvironment::new();
    let script = "[[reply]]\nstatus = 429\nretry_after = \"7200s\"\n[[reply]]\ntext = \"ok\"\n";
    let server = Server::of(&place, script);
    let text = format!(
        "[provider.fake]\ndialect = \"openai_chat\"\nbase_url = \"http://127.0.0.1:{}/v1\"\n",
        server.port
    );
    place.write(".drivetrain/models.toml", &text);
    let ran = place.run(&["run", "x y", "--model", "fake/m", "--in-place"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("the model is asked again in 2h"), "{}", ran.out);
    let id = place.id();
    let shown = place.show(&id);
    let wait = shown["asked_again"].as_i64().unwrap() - shown["updated"].as_i64().unwrap();
    assert!((7_100_000..7_600_000).contains(&wait), "{shown}");
    assert!(place.ok(&["why", &id]).contains("the model fake/m is asked again in "));
    let records = place.show(&id)["records"].clone();
    let all: Value = serde_json::from_str(&place.ok(&["resume", "--all", "--json"])).unwrap();
    assert_eq!((&all["resumed"], &all["resting"]), (&0.into(), &1.into()));
    assert_eq!(place.show(&id)["records"], records, "it was left alone");
    let ran = place.run(&["resume", &id, "--json"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert_eq!(count(&place.events(&id), "model_called"), 1, "not before its time");
}
