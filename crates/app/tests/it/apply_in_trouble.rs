//! `apply` where something of the user's, or of the machine, stands in its way: nothing is lost, and what is said is true.

use std::process::Command;

use crate::repository::Repository;

fn proven(repository: &Repository, step: &str) -> String {
    repository.task(&[step], Some("true")).0
}

/// Git is told not to look at such a file, so its status does not show what the user has in it.
#[test]
fn changes_that_git_was_told_not_to_see_are_named() {
    for (flag, back) in
        [("--assume-unchanged", "--no-assume-unchanged"), ("--skip-worktree", "--no-skip-worktree")]
    {
        let repository = Repository::new();
        let id = proven(&repository, "echo three >> a.txt; echo n > new.txt");
        repository.git(&["update-index", flag, "a.txt"]);
        repository.place.write("a.txt", "mine\n");
        for more in [&["--hooks"][..], &["--no-commit"], &["--beside-changes"], &[]] {
            let said = repository.refused(&[&["apply", &id], more].concat());
            assert!(said.contains("told not to look at: a.txt"), "{more:?}: {said}");
            assert!(said.contains(back), "{said}");
            assert_eq!(repository.place.read("a.txt"), "mine\n");
        }
        // One that is as it was is no change, whatever git was told.
        repository.git(&["update-index", back, "a.txt"]);
        repository.git(&["checkout", "--quiet", "a.txt"]);
        repository.git(&["update-index", flag, "a.txt"]);
        repository.place.ok(&["apply", &id]);
        assert_eq!(repository.place.read("a.txt"), "one\ntwo\nthree\n");
    }
}

/// What is done by one name of a branch is done by every other.
#[test]
fn a_commit_that_has_come_to_another_branch_is_applied_there() {
    let repository = Repository::new();
    let id = proven(&repository, "echo three >> a.txt");
    repository.git(&["checkout", "--quiet", "--detach"]);
    repository.place.ok(&["apply", &id]);
    let commit = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&["checkout", "--quiet", "main"]);
    repository.git(&["merge", "--quiet", "--ff-only", &commit]);
    repository.place.write("more.txt", "more\n");
    repository.commit("more");
    let said = repository.json(&["apply", &id]);
    assert_eq!((&said["how"], &said["commit"]), (&"already".into(), &commit.into()));
}

#[test]
fn what_a_killed_process_left_is_cleared_away() {
    let repository = Repository::new();
    let id = proven(&repository, "echo three >> a.txt");
    let run = repository.place.home().join("run");
    std::fs::create_dir_all(run.join("apply-12345.git/files/large")).unwrap();
    repository.place.ok(&["apply", &id]);
    let left = std::fs::read_dir(&run).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("apply-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Git would take each of these for a new branch, of a name that hides another.
#[test]
fn a_name_that_means_another_branch_makes_no_new_one() {
    let repository = Repository::new();
    let id = proven(&repository, "echo three >> a.txt");
    repository.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    for name in ["refs/heads/main", "@", "origin/main", "drivetrain/x"] {
        repository.refused(&["apply", &id, "--onto", name]);
    }
    assert_eq!(repository.git(&["for-each-ref", "refs/heads"]).lines().count(), 2);
    repository.place.ok(&["apply", &id, "--onto", "origin2/main"]);
}

/// A disk that is full leaves the beginning of a file, and so does a kill: it is git's, and nothing of it is lost.
#[test]
fn a_file_that_was_cut_off_is_no_file_of_the_users() {
    let repository = Repository::new();
    let id = proven(&repository, "echo three >> a.txt; seq 1000 > new.txt; echo e > empty.txt");
    repository.place.ok(&["apply", &id]);
    let after = repository.users();
    let note = repository.place.home().join("applied").join(format!("{id}.json"));
    let undone = std::fs::read_to_string(&note).unwrap().replace("\"done\":true", "\"done\":false");
    repository.git(&["read-tree", "--reset", "-u", "HEAD~1"]);
    repository.place.write("new.txt", "1\n2\n");
    repository.place.write("empty.txt", "");
    std::fs::write(&note, &undone).unwrap();
    assert_eq!(repository.json(&["apply", &id])["how"], "committed");
    assert_eq!(repository.users(), after);
    assert!(repository.place.read("new.txt").ends_with("1000\n"));
}

/// A limit for the size of files stands in for a disk that is full: objects fit, one of the files does not.
#[test]
fn files_that_cannot_be_written_leave_branch_and_files_as_they_were() {
    let repository = Repository::new();
    let step =
        "echo three >> a.txt; rm sub/b.txt; head -c 20000000 /dev/zero > big; echo n > new.txt";
    let id = proven(&repository, step);
    let before = repository.users();
    let apply = repository.place.command(&["apply", &id]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 16384; exec \"$@\"", "sh"]);
    limited.arg(apply.get_program()).args(apply.get_args());
    limited.env_clear().current_dir(apply.get_current_dir().unwrap());
    for (name, value) in apply.get_envs() {
        limited.env(name, value.unwrap_or_default());
    }
    let ran = repository.place.ran(limited.output().unwrap());
    assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("as it was"), "{}", ran.err);
    assert_eq!(repository.users(), before);
    repository.place.ok(&["apply", &id]);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}
