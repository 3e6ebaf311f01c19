//! `rollback`: exact, undoable, for tasks that are driven, at rest and at their end, and after a crash.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::repository::{Repository, ids};

/// Everything below a folder but `.git`: mode and content of files and links, and folders.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let (mut all, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            if name == Path::new(".git") {
                continue;
            }
            if meta.is_dir() {
                all.insert(name, (0, b"folder".to_vec()));
                open.push(path);
            } else if meta.is_symlink() {
                let to = std::fs::read_link(&path).unwrap();
                all.insert(name, (1, to.to_string_lossy().into_owned().into_bytes()));
            } else {
                let mode = meta.permissions().mode() & 0o7777;
                all.insert(name, (mode, std::fs::read(&path).unwrap()));
            }
        }
    }
    all
}

const CHANGES: &str = "echo more >> a.txt; rm sub/b.txt; rmdir sub; echo s > sub; printf '\\000' > bin; \
    chmod 600 bin; mkdir -p deep/er; ln -s a.txt l; mkdir ignored; echo i > ignored/kept; echo x > x.log";

/// Row 4 of the edge cases, the second half.
#[test]
fn edge_case_4_rollback_gives_the_exact_files_and_undoing_it_too_and_ignored_ones_stay() {
    let repository = Repository::new();
    let before = repository.users();
    let (id, worktree) = repository.task(&[CHANGES], Some("test -e bin"));
    let done = snapshot(&worktree);
    let preview = repository.json(&["rollback", &id, "--to", "1", "--preview"]);
    assert_eq!(snapshot(&worktree), done, "a preview changes nothing");
    assert!(preview["paths"].as_array().unwrap().len() >= 6);
    let went = repository.json(&["rollback", &id, "--to", "1"]);
    assert_eq!(went["paths"], preview["paths"]);
    let mut back = snapshot(&worktree);
    for kept in ["ignored", "ignored/kept", "x.log"] {
        assert!(back.remove(Path::new(kept)).is_some(), "{kept} is ignored and stays");
    }
    let mut user = snapshot(&repository.place.folder());
    user.remove(Path::new(".git"));
    user.retain(|path, _| !path.starts_with(".git"));
    assert_eq!(back, user, "the worktree is as the task found it");
    // What was proven stays proven, and what is handed over stays what it was.
    assert_eq!(repository.place.show(&id)["outcome"], "verified");
    let undo = went["undo"]["number"].as_u64().unwrap().to_string();
    let text = repository.place.ok(&["rollback", &id, "--to", &undo]);
    assert!(text.contains("undoes this") && text.contains("still hands over"), "{text}");
    assert_eq!(snapshot(&worktree), done, "undone");
    assert_eq!(repository.users(), before, "the user's things are untouched");
}

#[test]
fn a_driven_task_goes_back_after_what_runs_in_it_was_stopped() {
    let repository = Repository::new();
    let more = "[workspace]\ncheckpoints = \"turns\"\n";
    let steps = ["echo first > first", "while :; do date >> busy; done"];
    let file = repository.task_file("t.toml", &steps, Some("true"), more);
    let running = repository.place.start(&["run", file.to_str().unwrap()]);
    let id = running.id.clone();
    let worktree = repository.place.until(|| {
        let path = repository.place.show(&id)["workspace"].as_str()?.to_owned();
        Path::new(&path).join("busy").exists().then(|| PathBuf::from(path))
    });
    let went = repository.json(&["rollback", &id, "--to", "2"]);
    assert!(went["process"].as_u64().is_some());
    running.wait();
    assert!(worktree.join("first").exists() && !worktree.join("busy").exists());
    let types = repository.place.types(&id);
    let place = |name: &str| types.iter().position(|kind| kind == name).unwrap();
    assert!(place("roll_back_asked") < place("rolled_back"), "{types:?}");
    let told = repository.place.ok(&["log", &id]);
    assert!(told.contains("look again before you rely"), "the driver is told: {told}");
    // The state in the middle of the loop was kept.
    let undo = went["undo"]["number"].as_u64().unwrap().to_string();
    let names = repository.place.ok(&["diff", &id, "--from", "2", "--to", &undo, "--name-only"]);
    assert!(names.contains("busy"), "{names}");
}

/// A task that waits for a person, with one checkpoint and a change since.
fn at_rest(repository: &Repository) -> (String, PathBuf) {
    let run = ["run", "do it", "--driver", "user", "--check", "true"];
    let ran = repository.place.run_with(&run, "shell echo u > u\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let id = repository.place.id();
    let path = repository.place.show(&id)["workspace"].as_str().unwrap().to_owned();
    let worktree = PathBuf::from(path);
    assert!(worktree.join("u").exists());
    (id, worktree)
}

#[test]
fn a_task_at_rest_goes_back_and_nothing_else_of_it_goes_on() {
    let repository = Repository::new();
    let (id, worktree) = at_rest(&repository);
    let went = repository.json(&["rollback", &id, "--to", "1"]);
    assert_eq!(went["process"], Value::Null);
    assert!(!worktree.join("u").exists());
    let shown = repository.place.show(&id);
    assert!(shown["outcome"].is_null() && shown["driven_by"].is_null(), "{shown}");
    assert_eq!(shown["turns"], 1, "nothing was decided");
    // It goes on from there.
    let ran = repository.place.run_with(&["resume", &id], "shell test ! -e u\ndone\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

/// The command is journaled first: whoever takes the task up does what a crash left undone.
#[test]
fn a_roll_back_that_a_crash_cut_short_is_done_by_whoever_takes_the_task_up() {
    for ended in [false, true] {
        let repository = Repository::new();
        let (id, worktree) = at_rest(&repository);
        if ended {
            repository.place.ok(&["cancel", &id]);
        }
        // The process is killed while the state before is kept, once the command is journaled. Before, it was only looked
        // at, with an index of another name.
        let bin = repository.place.home().with_file_name("bin");
        std::fs::create_dir(&bin).unwrap();
        let path = std::env::var("PATH").unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$*:$GIT_INDEX_FILE\" in *write-tree:*/index) kill -9 $PPID; exit 1;; esac\nPATH='{path}' exec git \"$@\"\n"
        );
        std::fs::write(bin.join("git"), script).unwrap();
        std::fs::set_permissions(bin.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let killed = repository
            .place
            .command(&["rollback", &id, "--to", "1"])
            .env("PATH", format!("{}:{path}", bin.display()))
            .output()
            .unwrap();
        assert_eq!(killed.status.code(), None, "killed: {killed:?}");
        assert!(worktree.join("u").exists(), "nothing was changed yet");
        let export = repository.place.ok(&["journal", "export", &id]);
        assert!(export.contains("roll_back"), "{export}");
        repository.place.run_with(&["resume", &id], "");
        assert!(!worktree.join("u").exists(), "ended {ended}: it was brought to its end");
        let types = repository.place.types(&id);
        assert!(types.iter().any(|kind| kind == "rolled_back"), "{types:?}");
        let outcome = &repository.place.show(&id)["outcome"];
        assert_eq!(outcome.as_str(), ended.then_some("cancelled"));
    }
}

#[test]
fn what_cannot_be_kept_is_refused_by_name_and_nothing_changes() {
    let repository = Repository::new();
    let (id, worktree) = at_rest(&repository);
    let made = std::process::Command::new("mkfifo").arg(worktree.join("pipe")).status().unwrap();
    assert!(made.success());
    let ran = repository.place.run(&["rollback", &id, "--to", "1"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("incomplete: pipe is a pipe"), "{}", ran.err);
    assert!(worktree.join("u").exists() && worktree.join("pipe").exists());
    std::fs::write(worktree.join(".gitignore"), "pipe\n").unwrap();
    repository.place.ok(&["rollback", &id, "--to", "1", "--preview"]);
    let large = std::fs::File::create(worktree.join("large")).unwrap();
    large.set_len(3 << 20).unwrap();
    let ran = repository
        .place
        .command(&["rollback", &id, "--to", "1"])
        .env("DRIVETRAIN_MAX_FILE", "2MiB")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.contains("larger than 2 MiB") && said.contains("large (3 MiB)"), "{said}");
}

/// A task whose files cannot go back to its first checkpoint without an ignored file: its id, its worktree and the file.
fn blocked(repository: &Repository, steps: &[&str], file: &str) -> (String, PathBuf, PathBuf) {
    let more = "[workspace]\ncheckpoints = \"turns\"\n";
    let steps = [steps, &["echo d > done"]].concat();
    let task = repository.task_file("t.toml", &steps, Some("test -e done"), more);
    repository.place.ok(&["run", task.to_str().unwrap()]);
    let id = repository.place.id();
    let worktree = PathBuf::from(repository.place.show(&id)["workspace"].as_str().unwrap());
    let file = worktree.join(file);
    (id, worktree, file)
}

/// They are in no checkpoint: nobody could bring them back.
#[test]
fn ignored_files_in_the_way_are_named_and_stay() {
    let below = ["rm a.txt; mkdir -p a.txt/deep; echo c > a.txt/deep/c.log; echo k > a.txt/known"];
    let anew = ["echo m > made", "rm made", "echo made >> .gitignore; echo mine > made"];
    for (steps, name, to) in [(&below[..], "a.txt/deep/c.log", "1"), (&anew, "made", "2")] {
        let repository = Repository::new();
        let (id, worktree, file) = blocked(&repository, steps, name);
        let before = snapshot(&worktree);
        let ran = repository.place.run(&["rollback", &id, "--to", to]);
        assert_eq!(snapshot(&worktree), before, "nothing was changed");
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains(name) && ran.err.contains("move"), "{}", ran.err);
        let preview = repository.json(&["rollback", &id, "--to", to, "--preview"]);
        assert_eq!(preview["in_the_way"], serde_json::json!([name]));
        let preview = repository.place.ok(&["rollback", &id, "--to", to, "--preview"]);
        assert!(preview.contains(&format!("in the way: {name}")), "{preview}");
        // Once it is out of the way, nothing is.
        std::fs::remove_file(&file).unwrap();
        let went = repository.json(&["rollback", &id, "--to", to]);
        assert!(worktree.join("a.txt").is_file() && !worktree.join("done").exists());
        let undo = went["undo"]["number"].to_string();
        repository.place.ok(&["rollback", &id, "--to", &undo]);
        assert!(worktree.join("done").exists());
    }
}

/// A file that the task began with is its work whatever ignores it.
#[test]
fn what_was_there_in_spite_of_an_ignore_file_is_kept_when_it_is_made_anew() {
    let repository = Repository::new();
    repository.place.write("ignored/out.txt", "one\n");
    repository.place.write("ignored/deep/link", "one\n");
    repository.git(&["add", "--force", "ignored"]);
    repository.commit("in spite of it");
    let steps = [
        "git rm -r -q ignored a.txt",
        "mkdir -p ignored; echo two > ignored/out.txt; echo junk > ignored/junk; \
         echo a.txt >> .gitignore; echo three > a.txt",
    ];
    let (id, worktree, _) = blocked(&repository, &steps, "a.txt");
    let names = repository.place.ok(&["diff", &id, "--name-only"]);
    assert!(names.contains("M ignored/out.txt") && names.contains("M a.txt"), "{names}");
    assert!(names.contains("D ignored/deep/link") && !names.contains("junk"), "{names}");
    let read = |name: &str| std::fs::read_to_string(worktree.join(name)).unwrap();
    let went = repository.json(&["rollback", &id, "--to", "1"]);
    assert_eq!([read("ignored/out.txt"), read("a.txt")], ["one\n", "one\ntwo\n"]);
    let undo = went["undo"]["number"].to_string();
    repository.place.ok(&["rollback", &id, "--to", &undo]);
    assert_eq!([read("ignored/out.txt"), read("a.txt")], ["two\n", "three\n"]);
    repository.place.ok(&["apply", &id]);
    assert_eq!(repository.git(&["show", "HEAD:ignored/out.txt"]), "two");
    assert_eq!(repository.place.read("a.txt"), "three\n");
    // A fork begins with a state in which they are gone.
    repository.place.run_with(&["fork", &id, "--at", "2", "--driver", "user"], "done\n");
    let fork = ids(&repository.place).into_iter().find(|fork| *fork != id).unwrap();
    let names = repository.place.ok(&["diff", &fork, "--name-only"]);
    assert!(names.contains("D ignored/out.txt") && names.contains("D a.txt"), "{names}");
}

/// Nobody is there to move anything: what drivetrain's own rollback meets is set aside.
#[test]
fn ignored_files_in_the_way_of_an_unattended_rollback_are_set_aside() {
    let repository = Repository::new();
    let steps = ["test -d a.txt || { rm -f a.txt; mkdir a.txt; echo mine > a.txt/c.log; }"];
    let more = "[retry]\nverdict_failed = [\"rollback\"]\n";
    let task = repository.task_file("t.toml", &steps, Some("false"), more);
    let ran = repository.place.run(&["run", task.to_str().unwrap()]);
    let id = repository.place.id();
    let types = repository.place.types(&id);
    assert!(types.iter().any(|kind| kind == "rolled_back"), "{}{}", ran.out, ran.err);
    let aside = repository.place.home().join("worktrees").join(format!("{id}.aside-1"));
    assert_eq!(std::fs::read_to_string(aside.join("a.txt/c.log")).unwrap(), "mine\n");
}
