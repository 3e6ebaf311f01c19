//! `apply`: exactly what was proven, or nothing at all; nothing of the user's is lost and nothing of the repository runs.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use crate::repository::{Repository, git, ids};

const WORK: [&str; 1] =
    ["echo three >> a.txt; mkdir made; echo n > made/new; rm sub/b.txt; chmod +x a.txt"];

fn proven(repository: &Repository) -> String {
    repository.task(&WORK, Some("grep -q three a.txt")).0
}

#[test]
fn a_task_that_is_done_says_how_its_work_is_seen_and_taken() {
    let repository = Repository::new();
    let (proven, _) = repository.task(&["echo 1 > new"], Some("test -e new"));
    let why = repository.place.ok(&["why", &proven]);
    for command in ["diff", "apply", "receipt"] {
        assert!(why.contains(&format!("  drivetrain {command} {proven}")), "{why}");
    }
    let (claimed, _) = repository.task(&["echo 2 > other"], None);
    let why = repository.place.ok(&["why", &claimed]);
    assert!(why.contains(&format!("  drivetrain diff {claimed}")), "{why}");
    assert!(!why.contains("drivetrain apply"), "nothing was proven: {why}");
}

/// Row 25 of the edge cases.
#[test]
fn edge_case_25_the_users_branch_index_and_files_are_untouched_until_apply_and_a_moved_head_needs_consent()
 {
    let repository = Repository::new();
    let before = repository.users();
    let id = proven(&repository);
    assert_eq!(repository.users(), before, "a task leaves everything alone");
    repository.place.write("other.txt", "of the user\n");
    let moved = repository.commit("the user goes on");
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains("main has moved") && said.contains("--merge"), "{said}");
    let applied = repository.json(&["apply", &id, "--merge"]);
    assert_eq!((&applied["how"], &applied["branch"]), (&"committed".into(), &"main".into()));
    assert_eq!(repository.git(&["rev-parse", "HEAD~1"]), moved, "one commit, on what was there");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(repository.place.read("other.txt"), "of the user\n");
    assert_eq!(repository.place.read("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn another_branch_than_at_the_start_is_not_one_that_has_moved() {
    let repository = Repository::new();
    repository.git(&["switch", "--quiet", "-c", "feature"]);
    repository.place.write("feature.txt", "f\n");
    repository.commit("of the feature");
    let id = proven(&repository);
    repository.git(&["switch", "--quiet", "main"]);
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains("main does not have the commit"), "{said}");
    assert!(said.contains("the task began at feature: git switch feature, and ask"), "{said}");
    repository.git(&["switch", "--quiet", "feature"]);
    assert_eq!(repository.json(&["apply", &id])["branch"], "feature");
}

#[test]
fn what_is_handed_over_is_exactly_the_tree_that_was_verified_once() {
    let repository = Repository::new();
    let id = proven(&repository);
    let applied = repository.json(&["apply", &id]);
    let tree = repository.git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(applied["tree"].as_str().unwrap(), tree);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert!(!repository.place.folder().join("sub").exists());
    let log = repository.git(&["log", "-1", "--format=%an <%ae>%n%B"]);
    assert!(log.starts_with("The User <user@example.invalid>\nmake the numbers add up\n"), "{log}");
    assert!(log.contains(&format!("Drivetrain-Task: {id}")), "{log}");
    assert!(log.contains(&format!("Drivetrain-Tree: {tree}")), "{log}");
    let receipt = repository.json(&["receipt", &id])["id"].as_str().unwrap().to_owned();
    assert!(log.contains(&format!("Drivetrain-Receipt: {receipt}")), "{log}");
    let head = repository.git(&["rev-parse", "HEAD"]);
    assert_eq!(repository.json(&["show", &id])["applied"]["commit"].as_str(), Some(&*head));
    let why = repository.place.ok(&["why", &id]);
    assert!(why.contains(&format!("applied    to main as {}", &head[..10])), "{why}");
    assert!(!why.contains("drivetrain apply"), "{why}");
    let again = repository.json(&["apply", &id]);
    assert_eq!((&again["how"], again["commit"].as_str()), (&"already".into(), Some(head.as_str())));
    assert!(repository.place.ok(&["apply", &id]).contains("already applied"));
    // Also where nobody remembers having done it.
    std::fs::remove_dir_all(repository.place.home().join("applied")).unwrap();
    assert_eq!(repository.json(&["apply", &id, "--merge"])["how"], "already");
    assert_eq!(repository.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn what_was_applied_and_taken_back_is_not_said_to_be_there() {
    let repository = Repository::new();
    let id = proven(&repository);
    repository.json(&["apply", &id]);
    repository.git(&["branch", "kept"]);
    repository.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    assert!(repository.json(&["show", &id])["applied"].is_null());
    assert!(repository.place.ok(&["why", &id]).contains("drivetrain apply"));
}

#[test]
fn a_conflict_changes_nothing_and_says_where_it_is() {
    let repository = Repository::new();
    let id = proven(&repository);
    repository.place.write("a.txt", "one\ntwo\nanother three\n");
    repository.commit("the user changes the same line");
    let said = repository.refused(&["apply", &id, "--merge"]);
    assert!(said.contains("conflict with main in a.txt"), "{said}");
    let applied = repository.json(&["apply", &id, "--onto", "review/it"]);
    assert_eq!(applied["branch"], "review/it");
    let tree = repository.git(&["rev-parse", "review/it^{tree}"]);
    assert_eq!(applied["tree"].as_str().unwrap(), tree, "on a branch of its own it is whole");
    assert_eq!(repository.git(&["symbolic-ref", "--short", "HEAD"]), "main");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

#[test]
fn nothing_that_is_not_verified_is_handed_over_without_consent() {
    let repository = Repository::new();
    let (failed, _) = repository.task(&["echo x > x"], Some("false"));
    let (unproven, _) = repository.task(&["echo y > y"], None);
    assert!(repository.refused(&["apply", &failed]).contains("ended as failed"));
    let said = repository.refused(&["apply", &unproven]);
    assert!(said.contains("had no criteria") && said.contains("--force-unverified"), "{said}");
    repository.place.ok(&["apply", &unproven, "--force-unverified", "-m", "as it is"]);
    let log = repository.git(&["log", "-1", "--format=%B"]);
    assert!(log.starts_with("as it is\n") && log.contains("Drivetrain-Verified: no"), "{log}");
    assert_eq!(repository.place.read("y"), "y\n");
}

#[test]
fn uncommitted_changes_and_files_that_git_does_not_know_are_never_overwritten() {
    let repository = Repository::new();
    let id = proven(&repository);
    repository.place.write("sub/b.txt", "mine\n");
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains("uncommitted changes") && said.contains("sub/b.txt"), "{said}");
    assert!(repository.refused(&["apply", &id, "--beside-changes"]).contains("in the same files"));
    repository.git(&["checkout", "--", "sub/b.txt"]);
    // Untracked, ignored, a link to elsewhere, a file where a folder belongs.
    let made = repository.place.folder().join("made");
    std::fs::create_dir(&made).unwrap();
    std::fs::write(made.join("new"), "mine\n").unwrap();
    assert!(repository.refused(&["apply", &id]).contains("made/new"));
    std::fs::write(repository.place.folder().join(".git/info/exclude"), "made\n").unwrap();
    assert!(
        repository.refused(&["apply", &id]).contains("made/new"),
        "ignored is mine all the same"
    );
    std::fs::remove_dir_all(&made).unwrap();
    let elsewhere = repository.place.home().with_file_name("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &made).unwrap();
    assert!(repository.refused(&["apply", &id]).contains("in the way: made"));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing went through the link");
    std::fs::remove_file(&made).unwrap();
    std::fs::write(&made, "mine\n").unwrap();
    assert!(repository.refused(&["apply", &id]).contains("in the way: made"));
    std::fs::remove_file(&made).unwrap();
    // Changes elsewhere may stay, staged or not, where the user says so.
    repository.place.write("sub/mine.txt", "mine\n");
    repository.git(&["add", "sub/mine.txt"]);
    repository.place.ok(&["apply", &id, "--beside-changes"]);
    assert_eq!(repository.git(&["status", "--porcelain"]), "A  sub/mine.txt");
    assert_eq!(repository.place.read("made/new"), "n\n");
}

#[test]
fn without_a_commit_the_changes_are_in_index_and_files() {
    let repository = Repository::new();
    let id = proven(&repository);
    let head = repository.git(&["rev-parse", "HEAD"]);
    let applied = repository.json(&["apply", &id, "--no-commit"]);
    assert_eq!(applied["how"], "staged");
    assert_eq!(repository.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(repository.git(&["write-tree"]), applied["tree"].as_str().unwrap());
    assert_eq!(repository.git(&["diff", "--name-only"]), "", "files and index agree");
    assert_eq!(repository.json(&["apply", &id, "--no-commit"])["how"], "already");
    // What the user does with it afterwards is the user's.
    repository.place.write("a.txt", "one\ntwo\nthree\nfour\n");
    assert_eq!(repository.json(&["apply", &id, "--no-commit"])["how"], "already");
    assert_eq!(repository.place.read("a.txt"), "one\ntwo\nthree\nfour\n");
    repository.git(&["checkout", "--", "a.txt"]);
    assert!(
        repository.refused(&["apply", &id]).contains("uncommitted changes"),
        "it asks for a commit"
    );
    let patch = repository.place.home().with_file_name("p.patch");
    repository.place.ok(&["apply", &id, "--patch", patch.to_str().unwrap()]);
    repository.git(&["reset", "--quiet", "--hard"]);
    repository.git(&["apply", "--index", patch.to_str().unwrap()]);
    assert_eq!(repository.git(&["write-tree"]), applied["tree"].as_str().unwrap());
    let again = repository.place.run(&["apply", &id, "--patch", patch.to_str().unwrap()]);
    assert!(again.err.contains("does not exist yet"), "{}", again.err);
}

#[test]
fn a_file_that_was_only_touched_is_no_change() {
    let repository = Repository::new();
    let id = proven(&repository);
    let file = std::fs::File::options().write(true).open(repository.place.folder().join("a.txt"));
    file.unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
    assert_eq!(repository.json(&["apply", &id])["how"], "committed");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

/// Cut short after the branch moved: asking again completes it, unless the user has worked on.
#[test]
fn a_crash_in_the_middle_is_completed_by_asking_again() {
    let repository = Repository::new();
    let id = proven(&repository);
    repository.place.ok(&["apply", &id]);
    let after = repository.users();
    let note = repository.place.home().join("applied").join(format!("{id}.json"));
    let undone = std::fs::read_to_string(&note).unwrap().replace("\"done\":true", "\"done\":false");
    let cut_short = |files: &[&str]| {
        repository.git(&["read-tree", "--reset", "-u", "HEAD~1"]);
        for file in files {
            std::fs::write(repository.place.folder().join(file), "one\ntwo\nthree\n").unwrap();
        }
        std::fs::write(&note, &undone).unwrap();
    };
    // No file was written yet; and one of them was.
    for files in [&[][..], &["a.txt"]] {
        cut_short(files);
        if !files.is_empty() {
            let path = repository.place.folder().join("a.txt");
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(repository.json(&["apply", &id])["how"], "committed");
        assert_eq!(repository.users(), after);
    }
    cut_short(&[]);
    repository.place.write("a.txt", "the user's own\n");
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains("cut short") && said.contains("a.txt"), "{said}");
    assert_eq!(repository.place.read("a.txt"), "the user's own\n");
    // Before the branch moved there is nothing to see of it.
    repository.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    std::fs::write(&note, &undone).unwrap();
    assert_eq!(repository.json(&["apply", &id])["how"], "committed");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

/// What the user has beside the task's files is as much the user's after completing as before, and nothing that is hinted
/// at undoes the task.
#[test]
fn completing_leaves_everything_that_is_not_the_tasks_as_it_is() {
    let repository = Repository::new();
    let id = proven(&repository);
    repository.place.write("mine.txt", "staged\n");
    repository.git(&["add", "mine.txt"]);
    repository.place.write(".gitignore", "of the user\n");
    repository.place.ok(&["apply", &id, "--beside-changes"]);
    let after = repository.users();
    let note = repository.place.home().join("applied").join(format!("{id}.json"));
    let undone = std::fs::read_to_string(&note).unwrap().replace("\"done\":true", "\"done\":false");
    let cut_short = || {
        // As if the branch alone had moved: the index of before holds what the user had staged too.
        repository.git(&["restore", "--staged", "--worktree", "--source=HEAD~1", "a.txt", "sub"]);
        repository.git(&["rm", "--quiet", "--force", "made/new"]);
        std::fs::write(&note, &undone).unwrap();
    };
    for more in [&["--beside-changes"][..], &[]] {
        cut_short();
        assert_eq!(repository.place.read("a.txt"), "one\ntwo\n");
        assert_eq!(repository.json(&[&["apply", &id], more].concat())["how"], "committed");
        assert_eq!(repository.users(), after);
        assert_eq!(repository.place.read("mine.txt"), "staged\n");
        assert_eq!(repository.place.read(".gitignore"), "of the user\n");
        assert_eq!(repository.place.read("a.txt"), "one\ntwo\nthree\n");
    }
    // A file of the task that the user changed since: what is hinted at keeps both.
    cut_short();
    repository.place.write("a.txt", "the user's own\n");
    repository.git(&["add", "a.txt"]);
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains("cut short") && !said.contains("git reset"), "{said}");
    assert!(said.contains("git restore --staged") && said.contains("mv FILE"), "{said}");
    repository.git(&["restore", "--staged", "a.txt"]);
    let folder = repository.place.folder();
    std::fs::rename(folder.join("a.txt"), folder.join("a.txt.mine")).unwrap();
    assert_eq!(repository.json(&["apply", &id])["how"], "committed");
    assert_eq!(repository.place.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(repository.place.read("a.txt.mine"), "the user's own\n");
    assert_eq!(repository.place.read("mine.txt"), "staged\n");
}

/// Cut short where one of the new files was written and nothing else: that is known, and completed.
#[test]
fn a_new_file_that_was_written_is_no_file_of_the_users() {
    let repository = Repository::new();
    let (id, _) = repository.task(&["echo n > new; echo m > other"], Some("true"));
    repository.json(&["apply", &id, "--no-commit"]);
    let after = repository.users();
    let note = repository.place.home().join("applied").join(format!("{id}.json"));
    let undone = std::fs::read_to_string(&note).unwrap().replace("\"done\":true", "\"done\":false");
    repository.git(&["rm", "--quiet", "--force", "new", "other"]);
    repository.place.write("new", "n\n");
    std::fs::write(&note, &undone).unwrap();
    assert_eq!(repository.json(&["apply", &id, "--no-commit"])["how"], "staged");
    assert_eq!(repository.users(), after);
}

#[test]
fn hooks_run_only_if_asked_for_and_filters_never() {
    let repository = Repository::new();
    let canary = repository.place.home().with_file_name("canary");
    let touch = format!("#!/bin/sh\ntouch {}\n", canary.display());
    let hooks = repository.place.folder().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    for hook in
        ["pre-commit", "post-commit", "post-checkout", "reference-transaction", "post-index-change"]
    {
        std::fs::write(hooks.join(hook), &touch).unwrap();
        std::fs::set_permissions(hooks.join(hook), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, value) in [("clean", "cat"), ("smudge", "cat"), ("process", "")] {
        let run = format!("touch {}; {value}", canary.display());
        repository.git(&["config", &format!("filter.big.{name}"), &run]);
    }
    std::fs::write(repository.place.folder().join(".git/info/attributes"), "*.big filter=big\n")
        .unwrap();
    let _ = std::fs::remove_file(&canary);
    let (id, _) = repository.task(&["echo pointer > x.big"], Some("test -e x.big"));
    for command in
        [&["diff", &id][..], &["rollback", &id, "--to", "1"], &["apply", &id, "--no-commit"]]
    {
        repository.place.ok(command);
        assert!(!canary.exists(), "{command:?} ran something");
    }
    repository.git(&[
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "filter.big.smudge=",
        "-c",
        "filter.big.process=",
        "reset",
        "--quiet",
        "--hard",
    ]);
    let _ = std::fs::remove_file(&canary);
    let applied = repository.json(&["apply", &id]);
    assert!(!canary.exists(), "apply ran something");
    assert!(applied["notices"].to_string().contains("x.big (big)"), "{applied}");
    let (id, _) = repository.task(&["echo z > z"], Some("test -e z"));
    assert!(!canary.exists(), "a task ran something");
    // With hooks it is the user's own git that commits, filters and all; one that dies would end that git whenever it
    // looks at the file again, which depends on the second in which the file was written.
    repository.git(&["config", "--remove-section", "filter.big"]);
    assert!(!canary.exists(), "a setting ran something");
    repository.place.ok(&["apply", &id, "--hooks"]);
    assert!(canary.exists(), "the user asked for hooks");
    // A hook that says no takes everything back.
    std::fs::write(hooks.join("pre-commit"), "#!/bin/sh\necho not today\nexit 1\n").unwrap();
    let (id, _) = repository.task(&["echo w > w"], Some("test -e w"));
    let said = repository.refused(&["apply", &id, "--hooks"]);
    assert!(said.contains("not today"), "{said}");
}

/// As git keeps files that are large: never as objects of their own.
#[test]
fn what_checkpoints_hold_in_packs_arrives_too() {
    let repository = Repository::new();
    let id = proven(&repository);
    let store = repository.place.home().join("checkpoints").join(format!("{id}.git"));
    git(&store, &["--git-dir=.", "repack", "-a", "-d", "-q"]);
    git(&store, &["--git-dir=.", "prune-packed", "-q"]);
    repository.place.ok(&["apply", &id]);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(repository.place.read("a.txt"), "one\ntwo\nthree\n");
    repository.git(&["fsck", "--full", "--strict"]);
}

#[test]
fn large_files_arrive_as_pointers_and_content_without_a_program_of_theirs() {
    let repository = Repository::new();
    repository.git(&["lfs", "install", "--local"]);
    repository.place.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    let old = "old\n".repeat(1000);
    repository.place.write("old.bin", &old);
    repository.commit("a large file");
    let is_pointer = |name: &str| {
        let held = repository.git(&["cat-file", "blob", &format!("HEAD:{name}")]);
        held.starts_with("version https://git-lfs.github.com/spec/v1\noid sha256:")
    };
    assert!(is_pointer("old.bin"), "git-lfs is at work");
    // Git alone cannot tell that it is what it was.
    let touch = |hour: u64| {
        let file = repository.place.folder().join("old.bin");
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(3600 * hour)).unwrap();
    };
    touch(1);
    let work = "yes new | head -c 5000 > new.bin; cp old.bin copied.bin; : > empty.bin; \
                sed s/sha256:..../sha256:0000/ old.bin > gone.bin";
    let (id, _) = repository.task(&[work], Some("test -s new.bin"));
    let applied = repository.json(&["apply", &id]);
    let notices = applied["notices"].to_string();
    assert!(
        notices.contains("git lfs pull brings the content of large files: gone.bin\""),
        "{notices}"
    );
    for (name, content) in
        [("new.bin", &"new\n".repeat(1250)), ("copied.bin", &old), ("old.bin", &old)]
    {
        assert!(is_pointer(name), "{name}");
        assert_eq!(repository.place.read(name), *content, "{name}");
    }
    assert_eq!(repository.git(&["cat-file", "blob", "HEAD:empty.bin"]), "");
    assert_eq!(repository.git(&["status", "--porcelain"]), "", "LFS sees what it knows");
    repository.git(&["rm", "--quiet", "gone.bin"]);
    repository.git(&["commit", "--quiet", "-m", "what LFS lacks"]);
    repository.git(&["lfs", "fsck", "HEAD"]);

    let (id, _) = repository.task(&["echo other > old.bin"], Some("true"));
    touch(2);
    let ran = repository.place.run(&["apply", &id]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("same files: old.bin"), "{}", ran.err);
    assert!(ran.err.contains("git status has git see it"), "{}", ran.err);
    repository.git(&["status"]);
    repository.json(&["apply", &id]);
    assert_eq!(repository.place.read("old.bin"), "other\n");
    assert!(is_pointer("old.bin"));
}

#[test]
fn line_ends_become_what_the_repository_asks_for() {
    let repository = Repository::new();
    repository.place.write(".gitattributes", "*.crlf text eol=crlf\n*.raw -text\n");
    repository.place.write("d.crlf", "one\r\ntwo\r\n");
    repository.place.write("e.raw", "one\r\n");
    repository.commit("line ends");
    let id = repository
        .task(&["printf 'three\\r\\n' >> d.crlf; printf 'two\\r\\n' >> e.raw; printf 'n\\r\\n' > n.crlf"], Some("test -e n.crlf"))
        .0;
    repository.place.ok(&["apply", &id]);
    assert_eq!(repository.git(&["cat-file", "blob", "HEAD:d.crlf"]), "one\ntwo\nthree");
    assert_eq!(repository.git(&["cat-file", "blob", "HEAD:n.crlf"]), "n");
    assert_eq!(repository.git(&["cat-file", "blob", "HEAD:e.raw"]), "one\r\ntwo");
    assert_eq!(repository.place.read("d.crlf"), "one\r\ntwo\r\nthree\r\n");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    // Somebody whose own files all have the other line ends.
    repository.git(&["config", "core.autocrlf", "true"]);
    let id = proven(&repository);
    repository.place.ok(&["apply", &id]);
    assert_eq!(repository.git(&["cat-file", "blob", "HEAD:a.txt"]), "one\ntwo\nthree");
    assert_eq!(repository.place.read("a.txt"), "one\r\ntwo\r\nthree\r\n");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

/// As with `git add`, which leaves line ends that are committed already where it is to find out what is text.
#[test]
fn line_ends_that_are_committed_stay_where_git_finds_out_what_is_text() {
    let repository = Repository::new();
    repository.place.write("old.txt", "one\r\ntwo\r\n");
    repository.commit("other line ends");
    repository.place.write(".gitattributes", "* text=auto\n*.plain text\n");
    repository.place.write("sub/.gitattributes", "*.raw -text\n");
    repository.place.write("old.plain", "one\n");
    repository.commit("attributes");
    let step = "printf 'three\\r\\n' >> old.txt; printf 'n\\r\\n' > new.txt; printf 'two\\r\\n' >> old.plain; \
                printf 'n\\r\\n' > sub/new.raw; printf 'n\\r\\n' > sub/new.txt";
    let (id, _) = repository.task(&[step], Some("test -e new.txt"));
    repository.place.ok(&["apply", &id]);
    let held = |name: &str| repository.git(&["cat-file", "blob", &format!("HEAD:{name}")]);
    assert_eq!(held("old.txt"), "one\r\ntwo\r\nthree");
    assert_eq!(held("new.txt"), "n");
    assert_eq!(held("old.plain"), "one\ntwo");
    assert_eq!(repository.git(&["cat-file", "-s", "HEAD:sub/new.raw"]), "3");
    assert_eq!(repository.git(&["cat-file", "-s", "HEAD:sub/new.txt"]), "2");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_submodule_stays_what_it_is_and_what_lies_in_its_place_is_refused() {
    let repository = Repository::new();
    let inner = repository.place.home().with_file_name("inner");
    std::fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "--quiet", "-b", "main"]);
    git(
        &inner,
        &[
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t.invalid",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "x",
        ],
    );
    let inner = inner.to_str().unwrap();
    repository.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        inner,
        "module",
    ]);
    repository.commit("with a submodule");
    let link = repository.git(&["ls-tree", "HEAD", "module"]);
    let id = proven(&repository);
    repository.place.ok(&["apply", &id]);
    assert_eq!(repository.git(&["ls-tree", "HEAD", "module"]), link);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    let (id, _) = repository.task(&["echo x > module/x"], Some("test -e module/x"));
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains("the submodule module belongs"), "{said}");
    let (id, _) = repository.task(&["rmdir module; rm .gitmodules"], Some("test ! -e module"));
    let said = repository.place.ok(&["apply", &id]);
    let removed = "the task removed the folder of a submodule, which stays in the commit";
    assert!(said.contains(&format!("{removed} (git rm removes it): module")), "{said}");
    assert!(!said.contains("empty folders"), "{said}");
    assert_eq!(repository.git(&["ls-tree", "HEAD", "module"]), link);
}

#[test]
fn of_several_worktrees_the_one_that_is_meant_gets_it() {
    let repository = Repository::new();
    let linked = repository.place.home().with_file_name("linked");
    repository.git(&["worktree", "add", "--quiet", linked.to_str().unwrap(), "-b", "feature"]);
    let id = proven(&repository);
    let there = |arguments: &[&str]| {
        let mut command = repository.place.command(arguments);
        repository.place.ran(command.current_dir(&linked).output().unwrap())
    };
    let before = repository.users();
    let ran = there(&["apply", &id]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("another worktree of its repository"), "{}", ran.err);
    let said = repository.refused(&["apply", &id, "--onto", "feature"]);
    assert!(said.contains("feature is checked out in") && said.contains("go there"), "{said}");
    let ran = there(&["apply", &id, "--onto", "feature"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(git(&linked, &["status", "--porcelain"]), "");
    assert_eq!(std::fs::read_to_string(linked.join("a.txt")).unwrap(), "one\ntwo\nthree\n");
    assert_eq!(repository.users(), before);
    // The queue has the files follow wherever its branch is.
    repository.place.ok(&["queue", "add", &id, "--onto", "main"]);
    repository.place.ok(&["queue", "run"]);
    assert_eq!(repository.place.read("a.txt"), "one\ntwo\nthree\n");
    let (id, _) = repository.task(&["echo n > n"], Some("test -e n"));
    repository.place.ok(&["queue", "add", &id, "--onto", "feature"]);
    repository.place.ok(&["queue", "run"]);
    assert_eq!(std::fs::read_to_string(linked.join("n")).unwrap(), "n\n");
    assert_eq!(git(&linked, &["status", "--porcelain"]), "");
    // What a worker checks out is nobody's checkout.
    repository.git(&["branch", "loose"]);
    let (id, worktree) = repository.task(&["git checkout -q loose; echo o > o"], Some("test -e o"));
    repository.place.ok(&["queue", "add", &id, "--onto", "loose"]);
    assert_eq!(repository.place.run(&["queue", "run"]).code, 13);
    assert_eq!(git(&worktree, &["rev-parse", "HEAD"]), repository.git(&["rev-parse", "loose"]));
}

#[test]
fn a_tag_with_the_name_of_the_branch_is_not_taken_for_it() {
    let repository = Repository::new();
    repository.git(&["tag", "main"]);
    let id = proven(&repository);
    let applied = repository.json(&["apply", &id, "--onto", "main"]);
    assert_eq!((&applied["how"], &applied["branch"]), (&"committed".into(), &"main".into()));
    assert_eq!(
        repository.git(&["rev-parse", "refs/heads/main"]),
        repository.git(&["rev-parse", "HEAD"])
    );
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

/// Its end goes back to the branch, and a commit that was made meanwhile is on none.
#[test]
fn nothing_is_handed_over_amid_a_bisection() {
    let repository = Repository::new();
    for content in ["1\n", "2\n", "3\n"] {
        repository.place.write("a.txt", content);
        repository.commit(content);
    }
    let id = proven(&repository);
    repository.git(&["bisect", "start", "HEAD", "HEAD~3"]);
    assert_eq!(repository.git(&["branch", "--show-current"]), "");
    let before = repository.git(&["rev-parse", "HEAD"]);
    let ran = repository.place.run(&["apply", &id, "--merge"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(
        ran.err.contains("a bisection is under way") && ran.err.contains("git bisect reset"),
        "{}",
        ran.err
    );
    assert_eq!(repository.git(&["rev-parse", "HEAD"]), before);
    repository.git(&["bisect", "reset"]);
    repository.place.ok(&["apply", &id]);
}

/// Whoever gives up a rebase has git set the branch to where it was before.
#[test]
fn a_branch_that_is_being_rebased_is_not_moved() {
    let repository = Repository::new();
    repository.git(&["branch", "other"]);
    repository.place.write("a.txt", "mine\n");
    repository.commit("mine");
    repository.git(&["switch", "--quiet", "other"]);
    repository.place.write("a.txt", "theirs\n");
    repository.commit("theirs");
    repository.git(&["switch", "--quiet", "main"]);
    let (id, _) = repository.task(&["echo n > n"], Some("test -e n"));
    let tip = repository.git(&["rev-parse", "main"]);
    let mut rebase = std::process::Command::new("git");
    rebase.args(["rebase", "other"]).current_dir(repository.place.folder());
    assert!(!rebase.output().unwrap().status.success(), "it stops at a conflict");
    for arguments in [&["apply", &id][..], &["apply", &id, "--onto", "main"]] {
        let ran = repository.place.run(arguments);
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("under way"), "{}", ran.err);
    }
    repository.place.ok(&["queue", "add", &id, "--onto", "main"]);
    assert_eq!(repository.place.run(&["queue", "run"]).code, 13);
    assert_eq!(repository.git(&["rev-parse", "main"]), tip);
    repository.git(&["rebase", "--abort"]);
    repository.place.ok(&["queue", "run"]);
    assert_eq!(repository.git(&["show", "main:n"]), "n");
}

/// No checkpoint holds what git ignores, also if the task told its git to take it.
#[test]
fn what_the_task_committed_and_git_ignores_is_named() {
    let repository = Repository::new();
    let work = "echo l > out.log; git add -f out.log; git -c user.name=t -c user.email=t@t.invalid commit -qm l; echo n > n";
    let (id, _) = repository.task(&[work], Some("test -e n"));
    let said = repository.place.ok(&["apply", &id]);
    assert!(said.contains(&format!("committed on drivetrain/{id} and not in")), "{said}");
    assert!(said.contains("removed later): out.log"), "{said}");
    let (id, _) = repository.task(&["echo m > m"], Some("test -e m"));
    assert!(!repository.place.ok(&["apply", &id]).contains("committed on"), "nothing was");
}

/// A file that a sparse worktree never had is not the one that the task wrote at its place.
#[test]
fn what_a_sparse_worktree_did_not_have_is_named_when_it_is_written_anew() {
    let repository = Repository::new();
    repository.place.write("kept/x", "x\n");
    repository.commit("more");
    repository.git(&["sparse-checkout", "set", "kept"]);
    let work = "mkdir sub; echo other > sub/b.txt; echo n > sub/new";
    let (id, _) = repository.task(&[work], Some("test -e sub/new"));
    let said = repository.place.ok(&["apply", &id]);
    assert!(said.contains("(it is sparse)") && said.contains("wrote them: sub/b.txt"), "{said}");
    assert_eq!(repository.git(&["show", "HEAD:sub/b.txt"]), "other");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

/// A worktree is removed when its branch is done, and tasks that were begun in it are not.
#[test]
fn a_task_that_was_begun_in_a_worktree_is_handed_over_when_that_is_gone() {
    let repository = Repository::new();
    let linked = repository.place.home().with_file_name("linked");
    repository.git(&["worktree", "add", "--quiet", linked.to_str().unwrap(), "-b", "feature"]);
    let file = repository.task_file("task.toml", &WORK, Some("grep -q three a.txt"), "");
    let run = |arguments: &[&str]| {
        let mut command = repository.place.command(arguments);
        repository.place.ran(command.current_dir(&linked).output().unwrap())
    };
    let ran = run(&["run", file.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let id = repository.place.id();
    repository.git(&["worktree", "remove", linked.to_str().unwrap()]);
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains("is gone") && said.contains("--onto BRANCH"), "{said}");
    let said = repository.refused(&["queue", "add", &id]);
    assert!(said.contains("is gone: name a branch with --onto BRANCH"), "{said}");
    repository.place.ok(&["diff", &id]);
    let applied = repository.json(&["apply", &id, "--onto", "feature"]);
    assert_eq!(applied["how"], "committed", "{applied}");
    assert_eq!(repository.git(&["show", "feature:a.txt"]), "one\ntwo\nthree");
    assert_eq!(repository.place.read("a.txt"), "one\ntwo\n", "that branch is not checked out");
    // What is in a branch can go, wherever it was begun.
    repository.place.ok(&["worktrees", "clean", &id]);
    assert!(!repository.place.home().join("worktrees").join(&id).exists());
}

#[test]
fn odd_names_links_and_cases_arrive_as_they_are() {
    let repository = Repository::new();
    let step = "printf x > \"$(printf 'new\\nline')\"; printf x > \"$(printf '\\377\\376')\"; printf x > -x; \
        printf x > README; printf y > readme; ln -s /etc/passwd out; ln -s a.txt in; mkdir -p ':(top)'; printf x > ':(top)/y'";
    let (id, _) = repository.task(&[step], Some("test -e README"));
    let applied = repository.json(&["apply", &id]);
    assert_eq!(repository.git(&["rev-parse", "HEAD^{tree}"]), applied["tree"].as_str().unwrap());
    let folder = repository.place.folder();
    let odd = Path::new(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    for name in [Path::new("new\nline"), odd, Path::new("-x"), Path::new(":(top)/y")] {
        assert_eq!(std::fs::read(folder.join(name)).unwrap(), b"x", "{name:?}");
    }
    assert_eq!(
        (repository.place.read("README"), repository.place.read("readme")),
        ("x".into(), "y".into())
    );
    assert_eq!(std::fs::read_link(folder.join("out")).unwrap(), Path::new("/etc/passwd"));
}

#[test]
fn a_branch_is_named_with_care_and_nobody_commits_without_a_name() {
    let repository = Repository::new();
    let id = proven(&repository);
    for wrong in ["drivetrain/x", "a..b", "x y", ""] {
        assert!(
            repository.refused(&["apply", &id, "--onto", wrong]).contains("cannot be the name"),
            "{wrong}"
        );
    }
    let beside = repository.place.home().with_file_name("beside");
    repository.git(&["worktree", "add", "--quiet", "-b", "taken", beside.to_str().unwrap()]);
    assert!(
        repository.refused(&["apply", &id, "--onto", "taken"]).contains("taken is checked out in ")
    );
    repository.git(&["config", "--unset", "user.name"]);
    let said = repository.refused(&["apply", &id]);
    assert!(said.contains("who you are") && said.contains("--no-commit"), "{said}");
    let global = "[user]\n\tname = Of Home\n";
    std::fs::write(repository.place.home().with_file_name(".gitconfig"), global).unwrap();
    repository.place.ok(&["apply", &id]);
    assert_eq!(repository.git(&["log", "-1", "--format=%an"]), "Of Home");
}

#[test]
fn whoever_is_named_by_variables_makes_the_commit() {
    for hooks in [&[][..], &["--hooks"]] {
        let repository = Repository::new();
        let id = proven(&repository);
        repository.git(&["config", "--unset", "user.name"]);
        let settings = repository.place.home().with_file_name("elsewhere");
        std::fs::write(&settings, "[user]\n\tname = Of Elsewhere\n").unwrap();
        let apply = [&["apply", &id], hooks].concat();
        let mut command = repository.place.command(&apply);
        command.env("GIT_CONFIG_GLOBAL", settings).env("GIT_AUTHOR_NAME", "Of Variables");
        let ran = repository.place.ran(command.output().unwrap());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let by = repository.git(&["log", "-1", "--format=%an, %cn"]);
        assert_eq!(by, "Of Variables, Of Elsewhere", "{hooks:?}");
    }
}

/// Row 3 of the edge cases.
#[test]
fn edge_case_3_the_same_goal_started_twice_has_two_worktrees_also_after_a_crash_and_after_the_end()
{
    let repository = Repository::new();
    let (first, one) = repository.task(&WORK, Some("grep -q three a.txt"));
    let (second, two) = repository.task(&WORK, Some("grep -q three a.txt"));
    assert!(first != second && one != two && one.exists() && two.exists());
    let file = repository.task_file("slow.toml", &["echo s > s; sleep 60"], Some("test -e s"), "");
    let running = repository.place.start(&["run", file.to_str().unwrap()]);
    let id = running.id.clone();
    let path = repository.place.until(|| {
        let path = repository.place.show(&id)["workspace"].as_str()?.to_owned();
        Path::new(&path).join("s").exists().then_some(path)
    });
    running.signal("KILL");
    running.wait();
    let ran = repository.place.run(&["resume", &id, "--unattended"]);
    assert_eq!(ran.code, 13, "the step is in doubt: {}{}", ran.out, ran.err);
    assert_eq!(repository.place.show(&id)["workspace"], path.as_str(), "the same worktree");
    repository.place.ok(&["cancel", &id]);
    let (third, three) = repository.task(&WORK, Some("grep -q three a.txt"));
    assert!(three.exists() && ids(&repository.place).len() == 4);
    let branches = repository.git(&["branch", "--list", "drivetrain/*"]);
    assert_eq!(branches.lines().count(), 4, "{branches}");
    assert_eq!(repository.json(&["apply", &third])["how"], "committed");
    let again: Value = repository.json(&["apply", &first, "--merge"]);
    assert_eq!(again["how"], "already", "the same change is there once");
}
