//! `worktrees`: what there is, and that taking away never loses anything.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::pty::Screen;
use crate::repository::{Repository, git};

fn listed(repository: &Repository, id: &str) -> Value {
    let listed = repository.json(&["worktrees"]);
    let rows = listed["worktrees"].as_array().unwrap();
    rows.iter().find(|row| row["task"] == id).cloned().unwrap_or(Value::Null)
}

#[test]
fn a_worktree_goes_once_its_work_is_in_a_branch_and_not_before() {
    let repository = Repository::new();
    let (id, worktree) =
        repository.task(&["echo n > new; mkdir ignored; echo i > ignored/i"], Some("test -e new"));
    let row = listed(&repository, &id);
    assert_eq!((&row["files"], &row["state"]), (&"unmerged".into(), &"verified".into()));
    let said = repository.place.run(&["worktrees", "clean", &id]);
    assert_eq!(said.code, 2);
    assert!(said.out.contains("in no branch of yours"), "{}", said.out);
    assert!(said.out.contains(&format!("drivetrain apply {id}")), "{}", said.out);
    assert!(worktree.join("new").exists());
    repository.place.ok(&["apply", &id]);
    let dry = repository.place.ok(&["worktrees", "clean", "--dry-run"]);
    assert!(dry.contains("would be taken away") && worktree.exists(), "{dry}");
    assert!(repository.place.ok(&["worktrees", "clean", "--older-than", "7d"]).contains("nothing"));
    // Work that came after is in no branch.
    std::fs::write(worktree.join("late"), "late").unwrap();
    let said = repository.place.run(&["worktrees", "clean", &id]);
    assert_eq!(said.code, 2);
    assert!(said.out.contains("in no checkpoint") && worktree.join("late").exists());
    std::fs::remove_file(worktree.join("late")).unwrap();
    repository.place.ok(&["worktrees", "clean"]);
    assert!(!worktree.exists());
    assert_eq!(repository.git(&["branch", "--list", "drivetrain/*"]), "");
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
    // The checkpoints are still there, until they are given up by name.
    assert!(repository.place.ok(&["diff", &id, "--name-only"]).contains("A new"));
    repository.place.ok(&["worktrees", "clean", &id, "--checkpoints"]);
    assert!(!repository.place.home().join("checkpoints").join(format!("{id}.git")).exists());
}

#[test]
fn commits_that_are_nowhere_else_keep_their_branch() {
    let repository = Repository::new();
    let commit =
        "echo n > new; git add new; git -c user.name=w -c user.email=w@w.invalid commit -qm work";
    let (id, worktree) = repository.task(&[commit], Some("test -e new"));
    assert_eq!(listed(&repository, &id)["commits_only_here"], 1);
    repository.place.ok(&["apply", &id]);
    let said = repository.place.ok(&["worktrees", "clean", &id]);
    assert!(said.contains("its branch stays"), "{said}");
    assert!(!worktree.exists());
    assert!(repository.git(&["branch", "--list", "drivetrain/*"]).contains(&id));
}

#[test]
fn commits_that_are_on_no_branch_keep_their_worktree() {
    let repository = Repository::new();
    let commit = "git checkout -q --detach; echo n > new; git add new; \
        git -c user.name=w -c user.email=w@w.invalid commit -qm work";
    let (id, worktree) = repository.task(&[commit], Some("test -e new"));
    repository.place.ok(&["apply", &id]);
    assert_eq!(listed(&repository, &id)["removable"], false);
    let said = repository.place.run(&["worktrees", "clean", &id]);
    assert_eq!(said.code, 2, "{}", said.out);
    assert!(said.out.contains("1 commit in it is on no branch"), "{}", said.out);
    let commit = git(&worktree, &["rev-parse", "HEAD"]);
    assert!(said.out.contains(&format!("git branch NAME {commit}")), "{}", said.out);
    assert!(worktree.join("new").exists());
    repository.git(&["branch", "kept", &commit]);
    repository.place.ok(&["worktrees", "clean", &id]);
    assert!(!worktree.exists());
    assert_eq!(repository.git(&["log", "-1", "--format=%s", "kept"]), "work");
}

/// A worker can write the name of its branch, and make it another name of the user's.
#[test]
fn a_branch_that_stands_for_the_users_stays_and_so_does_the_users() {
    let repository = Repository::new();
    let led = "echo n > new; git symbolic-ref $(git symbolic-ref HEAD) refs/heads/main";
    let (id, worktree) = repository.task(&[led], Some("test -e new"));
    repository.place.ok(&["apply", &id]);
    let before = repository.users();
    let said = repository.place.ok(&["worktrees", "clean", &id]);
    assert!(said.contains("taken away") && said.contains("only another name"), "{said}");
    assert!(!worktree.exists());
    assert_eq!(repository.users(), before);
    let name = format!("refs/heads/drivetrain/{id}");
    assert_eq!(repository.git(&["symbolic-ref", &name]), "refs/heads/main");
    repository.git(&["symbolic-ref", "--delete", &name]);
    assert_eq!(repository.users(), before);
}

/// What a worker can write of a worktree's own records must not lead git to the user's.
#[test]
fn links_in_the_records_of_a_worktree_do_not_lead_to_the_users_index() {
    for (name, of_user) in [("index", "index"), ("index.lock", "HEAD")] {
        let repository = Repository::new();
        let (id, worktree) = repository.task(&["echo n > new"], Some("test -e new"));
        repository.place.ok(&["apply", &id]);
        repository.place.write("staged", "mine\n");
        repository.git(&["add", "staged"]);
        let before = repository.users();
        let own = git(&worktree, &["rev-parse", "--path-format=absolute", "--git-dir"]);
        let link = Path::new(&own).join(name);
        let _ = std::fs::remove_file(&link);
        let target = repository.place.folder().join(".git").join(of_user);
        std::os::unix::fs::symlink(target, &link).unwrap();
        repository.place.ok(&["worktrees", "clean", &id]);
        assert!(!worktree.exists());
        assert_eq!(repository.users(), before, "{name}");
    }
}

/// As `git clone --bare` and `git worktree add` make one: nothing is checked out in the repository itself.
#[test]
fn a_task_works_in_a_worktree_of_a_bare_repository() {
    let repository = Repository::new();
    let (folder, place) = (repository.place.folder(), &repository.place);
    let (whole, bare) = (folder.with_extension("whole"), folder.with_extension("git"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    std::fs::rename(&folder, &whole).unwrap();
    git(&whole, &["clone", "--quiet", "--bare", ".", &text(&bare)]);
    for (name, value) in [("user.name", "The User"), ("user.email", "user@example.invalid")] {
        git(&bare, &["config", name, value]);
    }
    git(&bare, &["worktree", "add", "--quiet", &text(&folder), "main"]);
    let commit = "echo n > new; git add new; git -c user.name=w -c user.email=w@w commit -qm work";
    let (id, worktree) = repository.task(&[commit], Some("test -e new && git log -1 HEAD~1"));
    place.ok(&["apply", &id]);
    assert_eq!(place.read("new"), "n\n");
    place.ok(&["worktrees", "clean", &id]);
    assert!(!worktree.exists());
    // The worktree that it was begun in is gone, and another one is there.
    let (id, worktree) = repository.task(&["echo more > more"], Some("test -e more"));
    let other = folder.with_extension("other");
    git(&bare, &["worktree", "add", "--quiet", "-b", "other", &text(&other)]);
    git(&bare, &["worktree", "remove", &text(&folder)]);
    let there = |arguments: &[&str]| {
        let output = place.command(arguments).current_dir(&other).output().unwrap();
        place.ran(output)
    };
    let ran = there(&["apply", &id, "--onto", "main"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(git(&bare, &["show", "main:more"]), "more");
    let ran = there(&["worktrees", "clean", &id]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(!worktree.exists());
    assert_eq!(git(&bare, &["branch", "--list", "drivetrain/*"]).lines().count(), 1);
}

#[test]
fn a_locked_worktree_stays_whole() {
    let repository = Repository::new();
    let (id, worktree) =
        repository.task(&["echo n > new; mkdir ignored; echo i > ignored/i"], Some("true"));
    repository.place.ok(&["apply", &id]);
    let path = worktree.to_str().unwrap();
    repository.git(&["worktree", "lock", "--reason", "on a stick", path]);
    assert_eq!(listed(&repository, &id)["removable"], false);
    for way in [&["worktrees", "clean", &id][..], &["worktrees", "clean", &id, "--dry-run"]] {
        let said = repository.place.run(way);
        assert_eq!(said.code, 2, "{}", said.out);
        assert!(said.out.contains("locked: on a stick"), "{}", said.out);
        assert!(said.out.contains(&format!("git worktree unlock {path}")), "{}", said.out);
        assert!(worktree.join("new").exists() && worktree.join("ignored/i").exists());
    }
    repository.git(&["worktree", "unlock", path]);
    repository.place.ok(&["worktrees", "clean", &id]);
    assert!(!worktree.exists());
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_worktree_whose_submodules_were_filled_goes() {
    let repository = Repository::new();
    let part = repository.place.home().with_file_name("part");
    std::fs::create_dir(&part).unwrap();
    git(&part, &["init", "--quiet"]);
    std::fs::write(part.join("file"), "part").unwrap();
    git(&part, &["add", "file"]);
    git(&part, &["-c", "user.name=p", "-c", "user.email=p@p", "commit", "--quiet", "-m", "part"]);
    let allow = ["-c", "protocol.file.allow=always"];
    repository.git(
        &[&allow[..], &["submodule", "--quiet", "add", part.to_str().unwrap(), "part"]].concat(),
    );
    repository.commit("a part");
    let fill =
        "[workspace]\nsetup = [\"git -c protocol.file.allow=always submodule update --init\"]\n";
    let file = repository.task_file("task.toml", &["true"], Some("test -e part/file"), fill);
    let ran = repository.place.run(&["run", file.to_str().unwrap(), "--no-sandbox"]);
    let id = repository.place.id();
    let path = repository.place.show(&id)["workspace"].as_str().unwrap().to_owned();
    assert!(Path::new(&path).join("part/file").exists(), "{}{}", ran.out, ran.err);
    let before = repository.users();
    repository.place.ok(&["worktrees", "clean", &id]);
    assert!(!Path::new(&path).exists());
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(repository.users(), before);
}

/// What a process that was killed over it left is no worktree, and goes with the next one.
#[test]
fn taking_away_that_was_cut_short_is_completed() {
    let repository = Repository::new();
    let (id, worktree) = repository.task(&["echo n > new"], Some("true"));
    repository.place.ok(&["apply", &id]);
    let going = worktree.with_file_name(format!("{id}.going"));
    std::fs::rename(&worktree, &going).unwrap();
    assert_eq!(listed(&repository, &id)["files"], "gone");
    repository.place.ok(&["worktrees", "clean", &id]);
    assert!(!going.exists());
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(repository.git(&["branch", "--list", "drivetrain/*"]), "");
}

#[test]
fn a_task_that_may_go_on_and_one_that_failed_keep_their_worktrees() {
    let repository = Repository::new();
    let (failed, _) = repository.task(&["echo n > new"], Some("false"));
    let (open, _) = {
        let run = ["run", "do it", "--driver", "user"];
        assert_eq!(repository.place.run(&run).code, 13);
        let ids = crate::repository::ids(&repository.place);
        (ids.into_iter().find(|id| *id != failed).unwrap(), ())
    };
    let (unchanged, worktree) = repository.task(&["true"], None);
    let said = repository.json(&["worktrees", "clean"]);
    let removed: Vec<&str> = said["removed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["task"].as_str().unwrap())
        .collect();
    assert_eq!(removed, [unchanged.as_str()]);
    assert!(!worktree.exists());
    let reasons = said["stayed"].to_string();
    assert!(reasons.contains("the task has not ended") && reasons.contains(&open), "{reasons}");
    assert!(reasons.contains("what it changed is in no branch"), "{reasons}");
}

/// Worktree removed, branch deleted, repository moved: all by hand.
#[test]
fn what_was_done_by_hand_is_named_and_breaks_nothing() {
    let repository = Repository::new();
    let (gone, worktree) = repository.task(&["echo n > new"], Some("test -e new"));
    std::fs::remove_dir_all(&worktree).unwrap();
    assert_eq!(listed(&repository, &gone)["files"], "gone");
    assert!(repository.place.ok(&["diff", &gone, "--name-only"]).contains("A new"));
    let ran = repository.place.run(&["rollback", &gone, "--to", "1"]);
    assert!(ran.err.contains("is gone") && ran.err.contains("drivetrain fork"), "{}", ran.err);
    assert_eq!(repository.json(&["apply", &gone])["how"], "committed");
    git(&repository.place.folder(), &["worktree", "prune"]);
    git(&repository.place.folder(), &["branch", "-D", &format!("drivetrain/{gone}")]);
    repository.place.ok(&["worktrees", "clean", &gone]);
    let (moved, _) = repository.task(&["echo m > more"], Some("test -e more"));
    let aside = repository.place.folder().with_extension("aside");
    std::fs::rename(repository.place.folder(), &aside).unwrap();
    std::fs::create_dir(repository.place.folder()).unwrap();
    let ran = repository.place.run(&["apply", &moved]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("put the repository back"), "{}", ran.err);
    let ran = repository.place.run(&["worktrees", "clean", &moved]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(repository.place.ok(&["diff", &moved, "--name-only"]).contains("A more"));
    std::fs::remove_dir(repository.place.folder()).unwrap();
    std::fs::rename(&aside, repository.place.folder()).unwrap();
    assert_eq!(repository.json(&["apply", &moved])["how"], "committed");
    assert!(Path::new(&repository.place.folder()).join("more").exists());
}

#[test]
fn checkpoints_go_only_if_all_that_are_named_may_and_not_those_of_young_tasks() {
    let repository = Repository::new();
    let (id, _) = repository.task(&["true"], Some("true"));
    let (other, _) = repository.task(&["true"], Some("true"));
    let place = &repository.place;
    let store = |id: &str| place.home().join("checkpoints").join(format!("{id}.git"));
    place.ok(&["worktrees", "clean", &id]);
    // The worktree of the other one is still there: nothing goes.
    let said = repository.refused(&["worktrees", "clean", &id, &other, "--checkpoints"]);
    assert!(said.contains(&format!("the checkpoints of task {other} stay")), "{said}");
    assert!(store(&id).exists());
    let young = ["worktrees", "clean", &id, "--checkpoints", "--older-than", "7d"];
    assert_eq!(place.ok(&young), "nothing to take away\n");
    assert_eq!(repository.json(&young)["removed_checkpoints"], serde_json::json!([]));
    assert!(store(&id).exists());
    place.ok(&["worktrees", "clean", &id, "--checkpoints", "--older-than", "0s"]);
    assert!(!store(&id).exists());
    let said = place.ok(&["checkpoints", &id]);
    assert!(
        said.contains("or `drivetrain worktrees clean --checkpoints` took them away"),
        "{said}"
    );
}

/// In a folder that is in no repository a task works in place; a repository that is there and cannot be used is no such
/// folder, and nobody gave up the worktree.
#[test]
fn a_repository_that_cannot_be_used_is_never_worked_in() {
    type Spoil = fn(&Repository);
    let elsewhere: Spoil = |repository| {
        let git = repository.place.folder().join(".git");
        std::fs::rename(&git, git.with_file_name("moved")).unwrap();
        std::fs::write(&git, "gitdir: /nowhere\n").unwrap();
    };
    let too_new: Spoil = |repository| {
        repository.git(&["config", "core.repositoryFormatVersion", "99"]);
    };
    for (spoil, reason) in [(elsewhere, "/nowhere"), (too_new, "99")] {
        let repository = Repository::new();
        spoil(&repository);
        let file = repository.task_file("task.toml", &["echo was here > a.txt"], Some("true"), "");
        let ran = repository.place.run(&["run", file.to_str().unwrap()]);
        assert_ne!(ran.code, 0, "{}", ran.out);
        assert!(format!("{}{}", ran.out, ran.err).contains(reason), "{}{}", ran.out, ran.err);
        assert_eq!(repository.place.read("a.txt"), "one\ntwo\n");
        let in_place = repository.place.run(&["run", file.to_str().unwrap(), "--in-place"]);
        assert_eq!(in_place.code, 0, "{}{}", in_place.out, in_place.err);
    }
}

#[test]
fn a_repository_that_is_gone_is_named() {
    let repository = Repository::new();
    let (id, _) = repository.task(&["echo n > new.txt"], Some("true"));
    let folder = repository.place.folder();
    let moved = folder.with_file_name("moved");
    std::fs::rename(&folder, &moved).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let reason = listed(&repository, &id)["reason"].to_string();
    assert!(reason.contains(folder.to_str().unwrap()), "{reason}");
}

/// A task that cannot go on where it is waits until it can.
#[test]
fn a_task_at_rest_waits_for_its_repository_and_its_folder_to_be_put_back() {
    let repository = Repository::new();
    let ask = "[[task.driver_config.steps]]\nname = \"q\"\ntool = \"ask\"\nparameters = { question = \"well?\" }\n";
    let work = "[[task.driver_config.steps]]\nname = \"w\"\ntool = \"shell\"\nparameters = { command = \"git status\" }\n";
    let file = repository.task_file("task.toml", &[], None, &format!("{ask}{work}"));
    assert_eq!(repository.place.run(&["run", file.to_str().unwrap()]).code, 13);
    let id = repository.place.id();
    repository.place.ok(&["answer", &id, "c1", "yes"]);
    let (folder, home) = (repository.place.folder(), repository.place.home());
    let aside = |path: &std::path::Path| path.with_extension("moved");
    std::fs::rename(&folder, aside(&folder)).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let ran = repository.place.run(&["resume", &id]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("put it back where it was"), "{}", ran.err);
    std::fs::remove_dir(&folder).unwrap();
    std::fs::rename(aside(&folder), &folder).unwrap();
    std::fs::rename(&home, aside(&home)).unwrap();
    let mut moved = repository.place.command(&["resume", &id]);
    let ran = repository.place.ran(moved.env("DRIVETRAIN_HOME", aside(&home)).output().unwrap());
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("drivetrain's folder was moved"), "{}", ran.err);
    std::fs::rename(aside(&home), &home).unwrap();
    assert_eq!(repository.place.run(&["resume", &id]).code, 0);
}

/// A task in place has empty files stand in for names that are not there; a killed one leaves them behind.
#[test]
fn what_a_sandbox_left_in_a_folder_is_no_repository_and_declares_nothing() {
    let place = TestEnvironment::new();
    for name in [".git", ".mcp.json"] {
        place.write(name, "");
        let left = std::fs::Permissions::from_mode(0o1400);
        std::fs::set_permissions(place.folder().join(name), left).unwrap();
    }
    place.steps("task.toml", &["echo was here > a.txt"], "");
    let task = place.read("task.toml").replace("[workspace]\nkind = \"in_place\"\n", "");
    place.write("task.toml", &task);
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("a.txt"), "was here\n");
}

#[test]
fn a_new_repository_is_worked_in_without_asking_git_for_its_commit() {
    let place = TestEnvironment::new();
    git(&place.folder(), &["init", "--quiet"]);
    let bin = place.home().with_file_name("bin");
    std::fs::create_dir(&bin).unwrap();
    let asked = bin.join("asked");
    let script = format!("#!/bin/sh\necho \"$*\" >> {}\nexit 1\n", asked.display());
    std::fs::write(bin.join("git"), script).unwrap();
    std::fs::set_permissions(bin.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let place = place.with_variable("PATH", &path);
    place.steps("task.toml", &["true"], "");
    for way in [&["run", "task.toml"][..], &["run", "task.toml", "--in-place"]] {
        let ran = place.run(way);
        assert_eq!(ran.code, 0, "{way:?}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains("in place"), "{}", ran.out);
    }
    // Who would make a commit is asked for a command that could make one.
    let asked = std::fs::read_to_string(&asked).unwrap_or_default();
    assert!(!asked.contains("rev-"), "{asked}");
}

/// A task that waits for a file beside the project, and what a terminal shows of its beginning.
fn begun_on_a_terminal(environment: &TestEnvironment) -> String {
    let go = environment.folder().with_file_name("go");
    let wait = format!("while ! [ -e {} ]; do sleep 0.01; done", go.display());
    environment.worktree_steps("../task.toml", &[&wait], "");
    let mut screen = Screen::start(environment, &["run", "../task.toml", "--no-sandbox"]);
    screen.until("works in").until("not committed: ").until("\n");
    if environment.folder().join(".gitmodules").exists() {
        screen.until("submodules are empty").until("part");
    }
    std::fs::write(go, "").unwrap();
    let shown = screen.shown();
    assert_eq!(screen.end(), 0);
    shown
}

#[test]
fn whoever_watches_is_told_which_work_of_theirs_a_new_worktree_does_not_have() {
    let environment = TestEnvironment::new();
    for name in ["changed.txt", "staged.txt", "same.txt"] {
        environment.write(name, "one\n");
    }
    environment.git(&["init", "--quiet"]);
    environment.write("part/file", "");
    environment.git(&["-C", "part", "init", "--quiet"]);
    environment.git(&["-C", "part", "add", "file"]);
    environment.git(&["-C", "part", "commit", "--quiet", "--message", "part"]);
    environment.write(".gitmodules", "[submodule \"part\"]\n\tpath = part\n\turl = ./part\n");
    environment.commit_all("one");
    environment.write("changed.txt", "two\n");
    environment.write("staged.txt", "two\n");
    environment.git(&["add", "staged.txt"]);
    environment.write("new.txt", "");
    let shown = begun_on_a_terminal(&environment);
    assert!(shown.contains("not committed: changed.txt, staged.txt"), "{shown:?}");
    assert!(!shown.contains("same.txt") && !shown.contains("new.txt"), "{shown:?}");
}

/// Begun in a folder of which nothing is in the repository, as in one below a home that is kept in git.
#[test]
fn whoever_watches_is_told_that_a_folder_is_not_in_its_repository() {
    let environment = TestEnvironment::new();
    let above = environment.folder().join("..");
    std::fs::write(above.join("kept"), "").unwrap();
    let git = |arguments: &[&str]| {
        let who = ["-c", "user.name=p", "-c", "user.email=p@example.org"];
        let git = Command::new("git").args(who).args(arguments).current_dir(&above).status();
        assert!(git.unwrap().success());
    };
    git(&["init", "--quiet"]);
    git(&["add", "kept"]);
    git(&["commit", "--quiet", "--message", "one"]);
    environment.write("main.py", "");
    let shown = begun_on_a_terminal(&environment);
    assert!(shown.contains("not committed: all of project"), "{shown:?}");
}
