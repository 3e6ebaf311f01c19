//! `fork`: a new task from any state of an old one.

use std::path::Path;

use crate::environment::TestEnvironment;
use crate::repository::{Repository, ids};

#[test]
fn a_fork_begins_with_the_files_of_a_checkpoint_and_leaves_the_old_task_alone() {
    let repository = Repository::new();
    let before = repository.users();
    let more = "[workspace]\ncheckpoints = \"turns\"\n";
    let steps = ["echo 1 > n1; mkdir hollow", "echo 2 > n2"];
    let file = repository.task_file("t.toml", &steps, Some("test -e n3"), more);
    assert_eq!(repository.place.run(&["run", file.to_str().unwrap()]).code, 10);
    let old = repository.place.id();
    let old_path = repository.place.show(&old)["workspace"].as_str().unwrap().to_owned();
    let fork = ["fork", &old, "--at", "2", "--driver", "user", "--goal", "another way"];
    let ran = repository.place.run_with(&fork, "shell echo 3 > n3\ndone\n");
    assert_eq!(ran.code, 0, "the old criteria hold now: {}{}", ran.out, ran.err);
    let new = ids(&repository.place).into_iter().find(|id| *id != old).unwrap();
    let shown = repository.place.show(&new);
    assert_eq!(shown["goal"], "another way");
    assert_eq!(shown["outcome"], "verified");
    let path = Path::new(shown["workspace"].as_str().unwrap());
    assert!(path.join("n1").exists() && path.join("hollow").is_dir() && !path.join("n2").exists());
    assert!(Path::new(&old_path).join("n2").exists(), "the old worktree is as it was");
    // Changes are counted from where the old task began, so that criteria cover all of them.
    let names = repository.place.ok(&["diff", &new, "--name-only"]);
    assert_eq!(names, "A hollow\nA n1\nA n3\n");
    let export = repository.place.ok(&["journal", "export", &new]);
    assert!(export.contains("\"forked_from\""), "{export}");
    assert_eq!(repository.users(), before, "the user's things are untouched");
    let applied = repository.json(&["apply", &new]);
    assert_eq!(applied["how"], "committed");
    assert_eq!(repository.place.read("n1"), "1\n");
    assert_eq!(repository.place.read("n3"), "3\n");
}

#[test]
fn a_fork_can_be_given_to_a_coding_agent_by_its_name() {
    let place = TestEnvironment::with_played_agent(&[
        r#"{"type":"system","subtype":"init","session_id":"s1","permissionMode":"default"}"#,
        "run touch n2",
        r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1"}"#,
    ]);
    let run = ["run", "g", "--driver", "user", "--no-sandbox", "--check", "test -e n1"];
    let ran = place.run_with(&run, "shell echo 1 > n1\ndone\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let old = place.id();
    let fork =
        ["fork", &old, "--at", "2", "--agent", "played", "--check", "test -e n1 && test -e n2"];
    let ran = place.run(&[&fork[..], &["--unattended"]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let new = ids(&place).into_iter().find(|id| *id != old).unwrap();
    let events = place.events(&new);
    let asked = events.iter().find(|event| event["type"] == "agent_asked").unwrap();
    assert_eq!(asked["agent"], "played");
}

/// A task with `n1`, and the id of a fork of it that adds `n2` and counts its changes from there.
fn forked_from_here(repository: &Repository) -> String {
    let (old, _) = repository.task(&["echo 1 > n1"], Some("test -e n1"));
    let fork =
        ["fork", &old, "--at", "2", "--base", "here", "--driver", "user", "--check", "test -e n2"];
    let ran = repository.place.run_with(&fork, "shell echo 2 > n2\ndone\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    ids(&repository.place).into_iter().find(|id| *id != old).unwrap()
}

#[test]
fn a_fork_that_counts_from_here_still_hands_over_the_whole_tree() {
    let repository = Repository::new();
    let new = forked_from_here(&repository);
    assert_eq!(repository.place.ok(&["diff", &new, "--name-only"]), "A n2\n");
    let applied = repository.json(&["apply", &new]);
    assert_eq!(applied["paths"], 2, "{applied}");
    assert_eq!(repository.git(&["rev-parse", "HEAD^{tree}"]), applied["tree"].as_str().unwrap());
}

#[test]
fn the_queue_takes_all_of_a_fork_that_counts_from_here() {
    let repository = Repository::new();
    let new = forked_from_here(&repository);
    repository.place.ok(&["queue", "add", &new]);
    repository.place.ok(&["queue", "run"]);
    assert_eq!(repository.git(&["show", "--name-only", "--format=", "main"]), "n1\nn2");
}

#[test]
fn a_fork_needs_a_checkpoint_that_there_is() {
    let repository = Repository::new();
    let (old, _) = repository.task(&["echo 1 > n1"], Some("test -e n1"));
    let ran = repository.place.run(&["fork", &old, "--at", "7"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("there are 1 to 2"), "{}", ran.err);
    assert_eq!(ids(&repository.place).len(), 1, "nothing was started");
}
