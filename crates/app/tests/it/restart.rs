//! A machine that was restarted in the middle of a task: what the disk lost of the last checkpoint is there again, and
//! whoever looks sees it.

use std::fs::{File, FileTimes};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// The task of `task.toml`, killed in the step that has just made `begun`: its id and its worktree.
fn killed_in_a_step(place: &TestEnvironment) -> (String, PathBuf) {
    let task = place.start(&["run", "task.toml", "--no-sandbox", "--worktree"]);
    let worktree = |id: &str| place.home().join("worktrees").join(id);
    place.until(|| {
        let tasks = place.tasks();
        let id = tasks.first()?["id"].as_str()?;
        worktree(id).join("begun").exists().then_some(())
    });
    let id = place.id();
    task.signal("KILL");
    task.wait();
    place.until_quiet();
    let worktree = worktree(&id);
    (id, worktree)
}

/// What is known of the machine's start is no longer so, as after a loss of power.
fn start_another_time(place: &TestEnvironment, id: &str) {
    let record = place.home().join(format!("worktrees/{id}.json"));
    let mut known: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    known["boot"] = json!("another start");
    std::fs::write(&record, known.to_string()).unwrap();
}

#[test]
fn what_the_disk_lost_is_brought_back_and_told() {
    let place = TestEnvironment::new();
    place.git(&["init", "--quiet"]);
    place.write("kept.txt", "all of it\n");
    place.commit_all("first");
    let check = "[[acceptance]]\nkind = \"shell\"\ncommand = \"true\"\n";
    place.steps("task.toml", &["touch begun; sleep 300"], check);
    let (id, worktree) = killed_in_a_step(&place);

    // What a loss of power does to a file that was not synced.
    std::fs::write(worktree.join("kept.txt"), "").unwrap();
    let store = place.home().join(format!("checkpoints/{id}.git/refs/heads/checkpoints"));
    let later = FileTimes::new().set_modified(SystemTime::now() + Duration::from_secs(3600));
    File::options().write(true).open(store).unwrap().set_times(later).unwrap();
    start_another_time(&place, &id);

    let ran = place.run(&["resume", &id]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let told = "1 file of the last checkpoint had been lost and was brought back";
    assert!(ran.out.contains(told), "{}", ran.out);
    assert_eq!(std::fs::read_to_string(worktree.join("kept.txt")).unwrap(), "all of it\n");
    let events = place.events(&id);
    let restarted = events.iter().find(|event| event["type"] == "restarted").unwrap();
    assert_eq!((&restarted["brought_back"], &restarted["by"]), (&1.into(), &"restart".into()));
    let again = place.run(&["resume", &id]);
    assert!(!again.out.contains("restarted"), "{}", again.out);
}

/// Saying what became of the call in doubt is what a person does first after a loss of power; it must not pass for having
/// looked at the files.
#[test]
fn a_command_that_comes_before_the_resume_does_not_hide_what_was_lost() {
    for is_gone in [false, true] {
        let place = TestEnvironment::new();
        place.git(&["init", "--quiet"]);
        place.write("kept.txt", "all of it\n");
        place.commit_all("first");
        let check = "[[acceptance]]\nkind = \"shell\"\ncommand = \"true\"\n";
        place.steps("task.toml", &["echo 1 > one", "touch begun; sleep 300"], check);
        let (id, worktree) = killed_in_a_step(&place);
        if is_gone {
            std::fs::remove_dir_all(&worktree).unwrap();
        } else {
            start_another_time(&place, &id);
        }
        place.ok(&["resolve", &id, "--did"]);
        assert_eq!(place.show(&id)["interrupted"], true, "nobody has taken it up since");

        let ran = place.run(&["resume", &id]);
        assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
        let told = if is_gone { "the folder was gone" } else { "the machine was restarted" };
        assert!(ran.out.contains(told), "{}", ran.out);
        assert!(ran.out.contains("look at the files, then resume it"), "{}", ran.out);
        let again = place.run(&["resume", &id]);
        assert_eq!(again.code, 0, "{}{}", again.out, again.err);
        assert!(!again.out.contains(told), "{}", again.out);
    }
}

/// A task that was put down in order has all its work in its folder, and nowhere else.
#[test]
fn a_worktree_that_was_removed_while_its_task_was_paused_is_told_of_too() {
    let place = TestEnvironment::new();
    place.git(&["init", "--quiet"]);
    place.write("kept.txt", "all of it\n");
    place.commit_all("first");
    place.steps(
        "task.toml",
        &["echo 1 > one", "touch begun; until test -e go; do sleep 0.05; done", "true"],
        "",
    );
    let task = place.start(&["run", "task.toml", "--no-sandbox", "--worktree"]);
    let id = place.until(|| {
        let id = place.tasks().first()?["id"].as_str()?.to_owned();
        place.home().join("worktrees").join(&id).join("begun").exists().then_some(id)
    });
    let worktree = place.home().join("worktrees").join(&id);
    place.ok(&["pause", &id]);
    task.signal("TERM");
    std::fs::write(worktree.join("go"), "").unwrap();
    task.wait();
    std::fs::remove_dir_all(&worktree).unwrap();
    let ran = place.run(&["resume", &id]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("the folder was gone"), "{}", ran.out);
}

/// A person, or a program that tidies up, takes the folder away of a task that is under way: it goes on with the last
/// checkpoint, exactly.
#[test]
fn a_worktree_that_was_removed_is_made_anew_as_it_was_last_kept() {
    let place = TestEnvironment::new();
    place.git(&["init", "--quiet"]);
    place.write("kept.txt", "all of it\n");
    place.write("removed.txt", "by the task\n");
    place.commit_all("first");
    let work = "echo new > new.txt; rm removed.txt; mkdir empty";
    place.steps("task.toml", &[work, "touch begun; sleep 300"], "checkpoints = \"turns\"\n");
    let (id, worktree) = killed_in_a_step(&place);
    std::fs::remove_dir_all(&worktree).unwrap();

    let ran = place.run(&["resume", &id]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let told = "the folder was gone: 3 files of the last checkpoint had been lost";
    assert!(ran.out.contains(told) && !ran.out.contains("restarted"), "{}", ran.out);
    let events = place.events(&id);
    let gone = events.iter().find(|event| event["type"] == "restarted").unwrap();
    assert_eq!(gone["by"], "folder");
    let there = |name: &str| worktree.join(name).exists();
    let found = ["kept.txt", "new.txt", "empty", "removed.txt"].map(there);
    assert_eq!(found, [true, true, true, false], "{}", ran.out);
    let again = place.run(&["resume", &id]);
    assert!(!again.out.contains("the folder was gone"), "{}", again.out);
}

/// A disk that is not mounted yet, for one: a task that went on would fail for good.
#[test]
fn a_task_in_place_whose_folder_is_gone_stays_at_rest_until_it_is_back() {
    let place = TestEnvironment::new();
    let wait = "touch begun; until test -e go; do sleep 0.05; done";
    place.steps("task.toml", &[wait, "touch whole"], "");
    let task = place.start(&["run", "task.toml"]);
    place.until_file("begun");
    task.signal("TERM");
    place.until_draining(&task.id);
    place.write("go", "");
    let id = task.id.clone();
    task.wait();
    let (there, away) = (place.folder(), place.folder().with_extension("away"));
    std::fs::rename(&there, &away).unwrap();
    let resume = |words: &[&str]| {
        let output = place.command(words).current_dir(place.home()).output().unwrap();
        place.ran(output)
    };
    for words in [&["resume", &id][..], &["resume", "--all"]] {
        let ran = resume(words);
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        assert!(
            ran.err.contains("stays at rest") && ran.err.contains("which is gone"),
            "{}",
            ran.err
        );
    }
    std::fs::rename(&away, &there).unwrap();
    let ran = resume(&["resume", &id]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(there.join("whole").exists());
}

/// What setup commands make is ignored by git, so no checkpoint holds it.
#[test]
fn a_worktree_that_was_made_anew_is_made_ready_anew() {
    let place = TestEnvironment::new();
    place.git(&["init", "--quiet"]);
    place.write(".gitignore", "built\n");
    place.commit_all("first");
    let setup = "setup = [\"echo 1 >> built\"]\n";
    place.steps("task.toml", &["touch begun; test -e again || sleep 300"], setup);
    let (id, worktree) = killed_in_a_step(&place);
    std::fs::remove_dir_all(&worktree).unwrap();
    let ran = place.run(&["resume", &id]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let built = || std::fs::read_to_string(worktree.join("built")).unwrap_or_default();
    assert_eq!(built(), "", "a person looks at the files first: {}", ran.out);
    let ran = place.run(&["resume", &id]);
    assert_eq!(built(), "1\n", "{}{}", ran.out, ran.err);
    // A worktree that is there is ready.
    place.run(&["resume", &id]);
    assert_eq!(built(), "1\n");
}
