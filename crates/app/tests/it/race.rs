//! Several drivers, one goal: who wins, what becomes of the others, and that a crash changes neither.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::environment::{Ran, TestEnvironment, exists};

/// Plays replies: each writes so many lines after such a wait, then claims to be done.
pub(crate) fn script(wait: &str, command: &str) -> String {
    let command = Value::from(command);
    format!(
        "[[reply]]\ndelay = \"{wait}\"\ntool_calls = [{{ tool = \"shell\", input = {{ command = {command} }} }}]\n\n\
         [[reply]]\ntext = \"done\"\nrepeat = 9\n"
    )
}

const CHECK: &str = "grep -q 42 out.txt";

fn place() -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("readme", "a project\n");
    place.git(&["init", "--quiet", "--initial-branch=main"]);
    place.commit_all("first");
    place
}

fn race(place: &TestEnvironment, drivers: &str, more: &[&str]) -> Ran {
    let mut arguments = vec!["race", "make it", "--drivers", drivers, "--check", CHECK];
    arguments.extend(["--profile", "open", "--json"]);
    arguments.extend(more);
    place.run(&arguments)
}

fn finished(out: &str) -> Value {
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "race_finished", "{out}");
    last
}

/// How many times a task was told that it is cancelled, taken or not.
fn cancels(place: &TestEnvironment, id: &str) -> usize {
    place.ok(&["journal", "export", id]).matches("\"cancel\"").count()
}

#[test]
fn the_first_verified_one_wins_and_the_others_are_cancelled_and_kept() {
    let place = place();
    place.write("slow.toml", &script("0s", "sleep 60; echo 42 > out.txt"));
    place.write("wrong.toml", &script("0s", "echo 41 > out.txt; sleep 60"));
    place.write("right.toml", &script("0s", "echo 42 > out.txt"));
    let ran = race(&place, "script/slow.toml,script/wrong.toml,llm:script/right.toml", &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let end = finished(&ran.out);
    let racers = end["racers"].as_array().unwrap();
    let outcomes: Vec<&str> = racers.iter().map(|r| r["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["cancelled", "cancelled", "verified"]);
    assert_eq!((&end["winner"], &end["race"]), (&racers[2]["task"], &racers[0]["task"]));
    assert_eq!((&end["pick"], &end["exit_code"]), (&"first".into(), &0.into()));
    let winner = end["winner"].as_str().unwrap();
    for racer in racers {
        let id = racer["task"].as_str().unwrap();
        let shown = place.show(id);
        assert!(exists(shown["workspace"].as_str().unwrap().as_ref()), "{shown}");
        assert_eq!(shown["race"]["racers"].as_array().unwrap().len(), 3);
        let branch = shown["branch"].as_str().unwrap();
        place.git(&["rev-parse", "--verify", branch]);
        if id != winner {
            let said = shown["reason"].as_str().unwrap();
            assert_eq!(said, format!("lost the race: task {winner} was verified first"));
            assert_eq!(cancels(&place, id), 1);
        }
    }
    assert!(!exists(&place.folder().join("out.txt")), "the user's files are untouched");
    let listed = place.ok(&["list"]);
    for number in 1..=3 {
        assert!(
            listed.contains(&format!("[race {} {number}/3]", racers[0]["task"].as_str().unwrap()))
        );
    }
    let shown = place.ok(&["show", racers[0]["task"].as_str().unwrap()]);
    assert!(shown.contains(&format!("1 of 3: cancelled; {winner} won")), "{shown}");
    let refused = place.run(&["apply", racers[0]["task"].as_str().unwrap()]);
    assert_eq!(refused.code, 2, "{}", refused.out);
    let won = format!("task {winner} won the race: drivetrain apply {winner}");
    assert!(refused.err.contains(&won), "{}", refused.err);
}

#[test]
fn a_person_reads_who_does_what_and_what_to_type_next() {
    let place = place();
    place.write("right.toml", &script("0s", "echo 42 > out.txt"));
    let workflow = "[workflow]\nname = \"slow\"\n[[workflow.steps]]\nname = \"wait\"\ntool = \"shell\"\n\
                    parameters = { command = \"sleep 60\" }\n";
    place.write("slow.toml", workflow);
    let ran = place.run(&[
        "race",
        "make it",
        "--drivers",
        "workflow:slow.toml,script/right.toml",
        "--check",
        CHECK,
        "--profile",
        "open",
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for said in [
        "2 drivers, the first verified one wins",
        "1 workflow:slow.toml  wait (shell: sleep 60)",
        "2 script/right.toml   verified: done",
        "wins (script/right.toml): it was verified first",
        "drivetrain apply ",
        "drivetrain queue add ",
    ] {
        assert!(ran.out.contains(said), "{said}\n{}", ran.out);
    }
}

#[test]
fn the_smallest_verified_change_wins_once_all_have_ended() {
    let place = place();
    place.write("large.toml", &script("0s", "seq 1 50 > out.txt"));
    place.write("small.toml", &script("1s", "echo 42 > out.txt"));
    place.write("wrong.toml", &script("0s", "echo 41 > out.txt"));
    let drivers = "script/large.toml,script/small.toml,script/wrong.toml";
    let ran = race(&place, drivers, &["--pick", "smallest"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let end = finished(&ran.out);
    let racers = end["racers"].as_array().unwrap();
    assert_eq!(end["winner"], racers[1]["task"], "{end}");
    assert_eq!((&racers[0]["diff_lines"], &racers[1]["diff_lines"]), (&50.into(), &1.into()));
    assert_eq!(racers[0]["outcome"], "verified");
    assert_eq!(racers[2]["won"], false);
    let shown = place.ok(&["show", racers[0]["task"].as_str().unwrap()]);
    assert!(shown.contains("verified but not chosen, 50 lines changed"), "{shown}");
    place.git(&["config", "user.name", "someone"]);
    place.git(&["config", "user.email", "someone@example.org"]);
    let onto = ["apply", racers[0]["task"].as_str().unwrap(), "--onto", "loser"];
    let said = place.ok(&onto);
    let won = format!("did not win its race: task {} did", end["winner"].as_str().unwrap());
    assert!(said.contains(&won), "{said}");
}

#[test]
fn without_a_winner_the_code_says_how_they_ended() {
    let place = place();
    place.write("wrong.toml", &script("0s", "echo 41 > out.txt"));
    place.write(
        "short.toml",
        "[[reply]]\ntool_calls = [{ tool = \"shell\", input = { command = \"true\" } }]\n",
    );
    let ran = race(&place, "script/wrong.toml,script/wrong.toml", &[]);
    let end = finished(&ran.out);
    assert_eq!((ran.code, &end["winner"]), (14, &Value::Null), "{end}");
    let ran = race(&place, "script/wrong.toml,script/short.toml", &[]);
    let end = finished(&ran.out);
    let outcomes: Vec<&Value> =
        end["racers"].as_array().unwrap().iter().map(|racer| &racer["outcome"]).collect();
    assert_ne!(outcomes[0], outcomes[1]);
    assert_eq!(ran.code, 10, "{end}");
    let ran = race(&place, "script/wrong.toml,script/wrong.toml", &["--max-turns", "1"]);
    assert!([11, 14].contains(&ran.code), "{}", ran.out);
}

#[test]
fn a_fork_of_a_racer_runs_in_no_race() {
    let place = place();
    place.write("right.toml", &script("0s", "echo 42 > out.txt"));
    let ran = race(&place, "script/right.toml,script/right.toml", &[]);
    let end = finished(&ran.out);
    let winner = end["winner"].as_str().unwrap();
    let ran = place.run(&["fork", winner, "--at", "1", "--goal", "again", "--unattended"]);
    let tasks = place.tasks();
    let forked = tasks.iter().find(|task| task["goal"] == "again");
    let forked = forked.unwrap_or_else(|| panic!("{}{}", ran.out, ran.err));
    let shown = place.show(forked["id"].as_str().unwrap());
    assert!(shown["race"].is_null(), "{shown}");
}

#[test]
fn what_cannot_be_a_race_is_refused_before_anything_is_written() {
    let place = place();
    place.write("right.toml", &script("0s", "echo 42 > out.txt"));
    let refused = |arguments: &[&str], said: &str| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?} {}{}", ran.out, ran.err);
        assert!(ran.err.contains(said), "{said}\n{}", ran.err);
    };
    let two = "script/right.toml,script/right.toml";
    refused(&["race", "x y", "--drivers", two], "a race needs criteria");
    refused(
        &["race", "x y", "--drivers", "script/right.toml", "--check", "true"],
        "2 to 32 drivers",
    );
    refused(
        &["race", "x y", "--drivers", two, "--check", "true", "--in-place"],
        "worktree of its own",
    );
    let with_user = "user,script/right.toml";
    refused(&["race", "x y", "--drivers", with_user, "--check", "true"], "waits for a person");
    let unknown = "nobody,script/right.toml";
    refused(&["race", "x y", "--drivers", unknown, "--check", "true"], "no driver \"nobody\"");
    refused(&["race", "x y", "--drivers", "a/b,,c/d", "--check", "true"], "empty name");
    refused(&["race", "--resume", "zzz", "--check", "true"], "cannot be used with");
    refused(&["race", "x y", "--check", "true"], "--drivers");
    assert!(!place.home().join("journal").exists(), "nothing was recorded");
}

#[test]
fn interrupted_twice_the_race_waits_and_goes_on_by_the_same_rule() {
    let place = place();
    place.write("a.toml", &script("60s", "echo 42 > out.txt"));
    place.write("b.toml", &script("60s", "echo 42 > out.txt"));
    let drivers = "script/a.toml,script/b.toml";
    let race = place.start(&["race", "make it", "--drivers", drivers, "--check", CHECK]);
    place.until(|| asked(&place, 2).then_some(()));
    race.signal("INT");
    place.until_draining(&race.id);
    race.signal("INT");
    let ran = race.wait();
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("nobody has won yet") && ran.out.contains("race --resume"),
        "{}",
        ran.out
    );
    let ids = racers(&place);
    place.write("b.toml", &script("0s", "echo 42 > out.txt"));
    let ran = place.run(&["race", "--resume", &ids[1], "--json"]);
    let end = finished(&ran.out);
    assert_eq!((ran.code, &end["winner"]), (0, &ids[1].as_str().into()), "{end}");
    assert_eq!(place.show(&ids[0])["outcome"], "cancelled");
    // Asking again changes nothing and says the same.
    let ran = place.run(&["race", "--resume", &ids[0], "--json"]);
    assert_eq!((ran.code, &finished(&ran.out)["winner"]), (0, &ids[1].as_str().into()));
    assert_eq!(cancels(&place, &ids[0]), 1);
}

#[test]
fn killed_the_race_goes_on_with_resume_all_and_the_loser_is_cancelled_once() {
    let place = place();
    place.write("a.toml", &script("60s", "echo 42 > out.txt"));
    place.write("b.toml", &script("60s", "echo 42 > out.txt"));
    let drivers = "script/a.toml,script/b.toml";
    let race = place.start(&["race", "make it", "--drivers", drivers, "--check", CHECK]);
    place.until(|| asked(&place, 2).then_some(()));
    race.signal("KILL");
    race.wait();
    let ids = racers(&place);
    place.write("a.toml", &script("0s", "echo 42 > out.txt"));
    let ran = place.run(&["resume", "--all", "--quiet"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.show(&ids[0])["outcome"], "verified");
    assert_eq!(place.show(&ids[1])["outcome"], "cancelled");
    assert_eq!(cancels(&place, &ids[1]), 1);
    let ran = place.run(&["race", "--resume", &ids[0], "--json"]);
    assert_eq!(finished(&ran.out)["winner"], ids[0].as_str());
    assert_eq!(cancels(&place, &ids[1]), 1);
}

#[test]
fn killed_at_any_moment_exactly_one_wins_and_every_other_one_has_ended() {
    for millis in [150, 300, 450, 600, 750] {
        let place = place();
        place.write("a.toml", &script("0s", "echo 42 > out.txt"));
        place.write("b.toml", &script("60s", "echo 42 > out.txt"));
        let drivers = "script/a.toml,script/b.toml";
        let mut child = place
            .command(&[
                "race",
                "make it",
                "--drivers",
                drivers,
                "--check",
                CHECK,
                "--profile",
                "open",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
        if !place.home().join("journal").exists() || place.tasks().is_empty() {
            continue;
        }
        for id in racers(&place) {
            // The command may have been under way when the process died.
            for event in place.events(&id) {
                if event["type"] == "call_in_doubt" {
                    place.ok(&["resolve", &id, event["call"].as_str().unwrap_or("c1"), "--retry"]);
                }
            }
        }
        let asks = place.ok(&["approvals", "--json"]);
        let asks: Value = serde_json::from_str(&asks).unwrap();
        for ask in asks["asks"].as_array().unwrap() {
            let id = ask["task"].as_str().unwrap();
            place.ok(&["resolve", id, "--retry"]);
        }
        let ids = racers(&place);
        let ran = place.run(&["resume", "--all", "--quiet"]);
        assert_eq!(ran.code, 0, "after {millis} ms: {}{}", ran.out, ran.err);
        let winner = place.show(&ids[0]);
        assert_eq!(winner["outcome"], "verified", "after {millis} ms: {winner}");
        let loser = place.show(&ids[1]);
        assert_eq!(loser["outcome"], "cancelled", "after {millis} ms: {loser}");
        assert_eq!(cancels(&place, &ids[1]), 1);
    }
}

/// The racers in the order they were named.
fn racers(place: &TestEnvironment) -> Vec<String> {
    let tasks = place.tasks();
    let racers = tasks[0]["race"]["racers"].as_array().unwrap();
    racers.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// Whether so many tasks wait for their models.
fn asked(place: &TestEnvironment, count: usize) -> bool {
    let tasks = place.tasks();
    let waits = |task: &&Value| {
        let types = place.types(task["id"].as_str().unwrap());
        types.last().is_some_and(|last| last == "model_called")
    };
    tasks.iter().filter(waits).count() == count
}
