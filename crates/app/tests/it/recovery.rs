//! What follows a failed turn, through the real binary: ladders of a task file, a person who is asked, files that go back.

use std::process::Command;

use crate::environment::TestEnvironment;
use crate::stuck::{last, task};

const CHECK: &str = "[[acceptance]]\nkind = \"shell\"\ncommand = \"test -f right.txt\"\n";

fn wrote(path: &str) -> String {
    format!(
        "[[reply]]\ntool_calls = [{{ tool = \"write\", input = {{ path = \"{path}\", content = \"x\\n\" }} }}]\n\
         [[reply]]\ntext = \"Done.\"\n"
    )
}

#[test]
fn a_fresh_session_knows_the_goal_and_what_failed_and_nothing_else() {
    let place = TestEnvironment::new();
    let script = format!(
        "{}[[reply]]\nmatch = \"try another way\"\ntool_calls = [{{ tool = \"write\", input = {{ path = \"right.txt\", content = \"x\" }} }}]\n[[reply]]\ntext = \"Done.\"\n",
        wrote("wrong.txt")
    );
    task(&place, &script, &format!("{CHECK}[retry]\nverdict_failed = [\"fresh_session\"]\n"));
    let ran = place.run(&["run", "task.toml", "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("the work was not accepted: the driver begins a new conversation"),
        "{}",
        ran.out
    );
    let events = place.events(&place.id());
    let sent: Vec<u64> = events
        .iter()
        .filter(|event| event["type"] == "model_called")
        .map(|event| event["messages"].as_u64().unwrap())
        .collect();
    assert_eq!(sent, [1, 3, 1, 3]);
}

#[test]
fn an_escalated_task_waits_says_what_to_do_and_goes_on() {
    let place = TestEnvironment::new();
    let script = format!("[[reply]]\ntext = \"Done.\"\n{}", wrote("right.txt"));
    task(&place, &script, &format!("{CHECK}[retry]\nverdict_failed = [\"escalate\"]\n"));
    let ran = place.run(&["run", "task.toml", "--unattended"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let id = place.id();
    let end = last(&place);
    assert_eq!((&end["outcome"], &end["cause"]["kind"]), (&"waiting".into(), &"escalated".into()));
    assert_eq!(end["cause"]["over"]["criteria"][0], "shell");
    let why = place.ok(&["why", &id]);
    for said in ["not accepted: shell: test -f right.txt", "'go on'", "'give up'", "hand-over"] {
        assert!(why.contains(said), "{said}: {why}");
    }
    assert!(place.ok(&["approvals"]).contains("is it to go on?"));
    place.ok(&["answer", &id, "write right.txt"]);
    let ran = place.run(&["resume", &id, "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let exported = place.ok(&["journal", "export", &id]);
    assert!(exported.contains("write right.txt"));

    let place = TestEnvironment::new();
    task(&place, &script, &format!("{CHECK}[retry]\nverdict_failed = [\"escalate\"]\n"));
    assert_eq!(place.run(&["run", "task.toml", "--unattended"]).code, 13);
    place.ok(&["answer", &place.id(), "give up"]);
    assert_eq!(last(&place)["outcome"], "failed");
}

#[test]
fn another_driver_of_the_task_takes_over() {
    let place = TestEnvironment::new();
    // The conversation goes on: the first answer in it was the other model's.
    place.write("strong.toml", &format!("[[reply]]\ntext = \"unused\"\n{}", wrote("right.txt")));
    let more = format!(
        "{CHECK}[retry]\nverdict_failed = [\"hand_over:strong\"]\n[retry.drivers.strong]\ndriver = \"llm\"\ndriver_config = {{ \
         model = \"script/strong.toml\" }}\n"
    );
    task(&place, "[[reply]]\ntext = \"Done.\"\n", &more);
    let ran = place.run(&["run", "task.toml", "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("handed over to llm (script/strong.toml)"), "{}", ran.out);
    // One that is missing is an error before anything begins.
    std::fs::remove_file(place.folder().join("strong.toml")).unwrap();
    assert_eq!(place.run(&["run", "task.toml", "--unattended"]).code, 2);
}

#[test]
fn rolling_back_gives_the_next_attempt_the_files_of_the_start() {
    let place = TestEnvironment::new();
    let git = |args: &[&str]| {
        let ran = Command::new("git").args(args).current_dir(place.folder()).output().unwrap();
        assert!(ran.status.success(), "{args:?}");
    };
    place.write("a.txt", "a\n");
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "a"]);
    let check = "[[acceptance]]\nkind = \"shell\"\ncommand = \"test -f right.txt && ! test -f wrong.txt\"\n";
    place.write("replies.toml", &format!("{}{}", wrote("wrong.txt"), wrote("right.txt")));
    place.write(
        "task.toml",
        &format!(
            "[task]\ngoal = \"get there\"\ndriver = \"llm\"\n[task.driver_config]\nmodel = \"script/replies.toml\"\n\
             [workspace]\nkind = \"worktree\"\n{check}[retry]\nverdict_failed = [\"rollback\"]\n"
        ),
    );
    let ran = place.run(&["run", "task.toml", "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("the files go back to the start"), "{}", ran.out);
}

#[test]
fn a_wrong_ladder_is_an_error_with_its_line_and_a_suggestion() {
    for (more, said) in [
        ("[retry]\nverdict_faild = [\"next_turn\"]\n", "did you mean \"verdict_failed\"?"),
        ("[retry]\nverdict_failed = [\"next_turns\"]\n", "did you mean \"next_turn\"?"),
        ("[retry]\nverdict_failed = []\n", "the list is empty"),
        ("[retry]\nverdict_failed = \"next_turn\"\n", "expected a list"),
        ("[retry]\nverdict_failed = [\"hand_over:strong\"]\n", "[retry.drivers.strong]"),
        (
            "[retry]\nverdict_failed = [\"hand_over:stong\"]\n[retry.drivers.strong]\ndriver = \"user\"\n",
            "did you mean \"strong\"?",
        ),
        ("[retry.drivers.x]\ndriver = \"lmm\"\n", "did you mean \"llm\"?"),
        (
            "[retry]\nverdict_failed = { do = [\"next_turn\"], after = 2 }\n",
            "unknown key \"after\"",
        ),
        ("[retry]\ntool_errors = { do = [\"give_up\"], after = 0 }\n", "at least 1"),
        ("[retry]\nattempts = 0\n", "at least once"),
        ("[retry]\nlongest_wait = 5\n", "expected a duration in quotes"),
        ("[stuck]\nsame_action = 1\n", "once is no repetition"),
        ("[stuck]\nsame_actions = 3\n", "did you mean \"same_action\"?"),
        ("[progress]\nevery = -1\n", "expected a whole number"),
        ("[progress]\nevry = 1\n", "did you mean \"every\"?"),
    ] {
        let place = TestEnvironment::new();
        task(&place, "[[reply]]\ntext = \"x\"\n", more);
        let ran = place.run(&["run", "task.toml", "--unattended"]);
        assert_eq!(ran.code, 2, "{more}\n{}{}", ran.out, ran.err);
        assert!(ran.err.contains(said), "{more}\n{}", ran.err);
    }
}

#[test]
fn edge_case_15_progress_is_told_every_so_many_turns_once_over_a_kill() {
    let place = TestEnvironment::new();
    let mut script = String::new();
    for n in 1..=7 {
        let wait = if n == 5 { "delay = \"60s\"\n" } else { "" };
        script.push_str(&format!(
            "[[reply]]\n{wait}tool_calls = [{{ tool = \"write\", input = {{ path = \"f{n}\", content = \"x\" }} }}]\n"
        ));
    }
    script.push_str("[[reply]]\ntext = \"Done.\"\n");
    task(&place, &script, "[progress]\nevery = 2\n");
    let background = place.start(&["run", "task.toml", "--unattended", "--json"]);
    let id = background.id.clone();
    let turns = |place: &TestEnvironment| -> Vec<u64> {
        let events = place.events(&id);
        let told = events.iter().filter(|event| event["type"] == "progress");
        told.map(|event| event["turn"].as_u64().unwrap()).collect()
    };
    place.until(|| (turns(&place) == [2, 4]).then_some(()));
    background.signal("KILL");
    background.wait();
    place.write("replies.toml", &script.replace("delay = \"60s\"\n", ""));
    let ran = place.run(&["resume", &id, "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(turns(&place), [2, 4, 6]);
    assert!(ran.out.contains("so far: turn 6, 2 calls that may change files"), "{}", ran.out);
}

#[test]
fn edge_case_14_five_tasks_of_one_process_all_finish() {
    let place = TestEnvironment::new();
    place.write("replies.toml", "[[reply]]\ntool_calls = [{ tool = \"ask\", input = { question = \"go?\" } }]\n[[reply]]\ntext = \"Done.\"\n");
    for _ in 0..5 {
        let ran = place.run(&[
            "run",
            "x y",
            "--model",
            "script/replies.toml",
            "--in-place",
            "--unattended",
        ]);
        assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    }
    let ids: Vec<String> =
        place.tasks().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect();
    for id in &ids {
        place.ok(&["answer", id, "yes"]);
    }
    let ran = place.run(&["resume", "--all", "--unattended"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(place.tasks().iter().all(|task| task["outcome"] == "completed"));
    assert_eq!(ids.len(), 5);
}
