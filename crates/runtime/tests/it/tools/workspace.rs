//! Worktrees come back as they were; checkpoints hold everything and run nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use machine::event::Loss;
use machine::task::{Workspace, WorkspaceKind, WorkspaceSpec};
use machine::upkeep::Branch;
use runtime::checkpoint::{Store, checkpoint};
use runtime::process::Cancel;
use runtime::workspace::{open, taken_up, told, upkeep};
use tempfile::TempDir;

use super::{folder, in_place};

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t.invalid",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A repository with a commit, a changed file, a staged file and a new file; and a state folder.
fn repository() -> (TempDir, PathBuf, PathBuf) {
    let all = folder();
    let (top, state) = (all.path().join("repo"), all.path().join("state"));
    fs::create_dir_all(top.join("sub/deep")).unwrap();
    git(&top, &["init", "--quiet"]);
    fs::write(top.join("file"), "committed\n").unwrap();
    fs::write(top.join("sub/deep/inner"), "inner\n").unwrap();
    git(&top, &["add", "."]);
    git(&top, &["commit", "--quiet", "-m", "first"]);
    fs::write(top.join("file"), "changed\n").unwrap();
    fs::write(top.join("staged"), "staged\n").unwrap();
    git(&top, &["add", "staged"]);
    fs::write(top.join("untracked"), "untracked\n").unwrap();
    (all, top, state)
}

/// What must not change: status, branch, index and files of the user.
fn snapshot(top: &Path) -> (String, String, Vec<u8>, String) {
    let status = git(top, &["status", "--porcelain"]);
    let head = git(top, &["rev-parse", "HEAD"]) + git(top, &["symbolic-ref", "HEAD"]).as_str();
    (
        status,
        head,
        fs::read(top.join(".git/index")).unwrap(),
        fs::read_to_string(top.join("file")).unwrap(),
    )
}

fn opened(top: &Path, state: &Path) -> Workspace {
    open("t1", &WorkspaceSpec::default(), top, state).unwrap()
}

fn path_of(workspace: &Workspace) -> PathBuf {
    PathBuf::from(workspace.path.as_ref().unwrap())
}

#[test]
fn a_worktree_is_made_once_and_found_again_and_the_users_things_stay() {
    let (_all, top, state) = repository();
    let before = snapshot(&top);
    let base = git(&top, &["rev-parse", "HEAD"]);
    let workspace = opened(&top, &state);
    assert_eq!(workspace.kind, WorkspaceKind::Worktree);
    assert_eq!(workspace.branch.as_deref(), Some("drivetrain/t1"));
    assert_eq!(workspace.base.as_deref(), Some(base.as_str()));
    let path = path_of(&workspace);
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "committed\n");
    assert_eq!(git(&path, &["symbolic-ref", "HEAD"]), "refs/heads/drivetrain/t1");
    assert_eq!(git(&path, &["status", "--porcelain"]), "");

    fs::write(path.join("work"), "precious\n").unwrap();
    git(&path, &["commit", "--quiet", "--allow-empty", "-m", "by the worker"]);
    assert_eq!(opened(&top, &state), workspace);
    assert_eq!(snapshot(&top), before);
    git(&top, &["commit", "--quiet", "-m", "the user goes on"]);
    assert_eq!(opened(&top, &state), workspace, "the base stays where the task began");
    assert_eq!(fs::read_to_string(path.join("work")).unwrap(), "precious\n");
}

#[test]
fn a_task_started_in_a_subfolder_works_in_that_subfolder() {
    let (_all, top, state) = repository();
    let workspace = opened(&top.join("sub/deep"), &state);
    assert!(path_of(&workspace).ends_with("t1/sub/deep"));
    assert!(path_of(&workspace).join("inner").exists());
    let fresh = top.join("fresh");
    fs::create_dir(&fresh).unwrap();
    let workspace = open("t2", &WorkspaceSpec::default(), &fresh, &state).unwrap();
    assert!(path_of(&workspace).is_dir());
    fs::remove_dir(&fresh).unwrap();
    assert_eq!(open("t2", &WorkspaceSpec::default(), &fresh, &state), Ok(workspace));
    let reason = open("t2", &WorkspaceSpec::default(), &state, &state).unwrap_err();
    assert!(reason.contains("start it in the same repository"), "{reason}");
}

#[test]
fn a_worktree_left_half_made_is_completed_and_nothing_is_lost() {
    let (_all, top, state) = repository();
    let whole = opened(&top, &state);
    let path = path_of(&whole);
    let record = state.join("worktrees/t1.json");
    let not_ready =
        fs::read_to_string(&record).unwrap().replace("\"ready\":true", "\"ready\":false");

    // Killed in the middle of the checkout: registered, locked, files missing.
    fs::write(&record, &not_ready).unwrap();
    fs::remove_file(path.join("file")).unwrap();
    fs::write(path.join("stray"), "kept").unwrap();
    fs::write(top.join(".git/worktrees/t1/locked"), "initializing").unwrap();
    assert_eq!(opened(&top, &state), whole);
    assert_eq!(git(&path, &["status", "--porcelain"]), "");
    assert_eq!(fs::read(state.join("worktrees/t1.half-made-1/stray")).unwrap(), b"kept");

    // Killed right after the record was written.
    let record = state.join("worktrees/t9.json");
    fs::write(record, &not_ready).unwrap();
    let workspace = open("t9", &WorkspaceSpec::default(), &top, &state).unwrap();
    assert!(path_of(&workspace).join("file").exists());

    // Killed while git wrote down what it knows of another task's worktree: git would not make any more.
    fs::write(state.join("worktrees/t8.json"), &not_ready).unwrap();
    let about = top.join(".git/worktrees/t8");
    fs::create_dir(&about).unwrap();
    fs::write(about.join("gitdir"), "/nowhere/.git\n").unwrap();
    fs::write(about.join("commondir"), "").unwrap();
    let workspace = open("t7", &WorkspaceSpec::default(), &top, &state).unwrap();
    assert!(path_of(&workspace).join("file").exists());
    let workspace = open("t8", &WorkspaceSpec::default(), &top, &state).unwrap();
    assert!(path_of(&workspace).join("file").exists());

    // Killed between any two steps of making one.
    let steps = ["", "locked", "gitdir", "commondir", "HEAD", "refs/", ".git", "-locked"];
    for (number, last) in steps.into_iter().enumerate() {
        let task = format!("s{number}");
        let (about, path) =
            (top.join(".git/worktrees").join(&task), state.join("worktrees").join(&task));
        fs::write(state.join(format!("worktrees/{task}.json")), &not_ready).unwrap();
        git(&top, &["branch", &format!("drivetrain/{task}")]);
        fs::create_dir(&about).unwrap();
        fs::create_dir(&path).unwrap();
        for step in steps {
            let text = match step {
                "gitdir" => format!("{}/.git\n", path.display()),
                "commondir" => "../..\n".to_owned(),
                "HEAD" => format!("ref: refs/heads/drivetrain/{task}\n"),
                ".git" => format!("gitdir: {}\n", about.display()),
                _ => "initializing".to_owned(),
            };
            match step {
                "" => {}
                "refs/" => fs::create_dir(about.join(step)).unwrap(),
                ".git" => fs::write(path.join(step), text).unwrap(),
                "-locked" => fs::remove_file(about.join("locked")).unwrap(),
                _ => fs::write(about.join(step), text).unwrap(),
            }
            if step == last {
                break;
            }
        }
        let workspace = open(&task, &WorkspaceSpec::default(), &top, &state).unwrap();
        assert!(path_of(&workspace).join("file").exists(), "after {last:?}");
        assert_eq!(git(&path_of(&workspace), &["status", "--porcelain"]), "");
        assert!(about.join("HEAD").exists(), "under its own name, after {last:?}");
    }

    // The folder was removed by somebody: commits are still there.
    git(&path, &["commit", "--quiet", "--allow-empty", "-m", "by the worker"]);
    let head = git(&path, &["rev-parse", "HEAD"]);
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(opened(&top, &state), whole);
    assert_eq!(git(&path, &["rev-parse", "HEAD"]), head);

    // The link to the repository was removed: repaired, with the files as they are.
    fs::write(path.join("work"), "precious").unwrap();
    fs::remove_file(path.join(".git")).unwrap();
    assert_eq!(opened(&top, &state), whole);
    assert_eq!(fs::read(path.join("work")).unwrap(), b"precious");
    assert_eq!(git(&path, &["status", "--porcelain"]), "?? work");
}

#[test]
fn without_a_repository_or_a_commit_the_folder_itself_is_the_workspace() {
    let all = folder();
    let (plain, empty) = (all.path().join("plain"), all.path().join("empty"));
    fs::create_dir(&plain).unwrap();
    fs::create_dir(&empty).unwrap();
    git(&empty, &["init", "--quiet"]);
    let state = all.path().join("state");
    for folder in [&plain, &empty] {
        let workspace = open("t", &WorkspaceSpec::default(), folder, &state).unwrap();
        assert_eq!(workspace.kind, WorkspaceKind::InPlace);
        assert_eq!(path_of(&workspace), folder.canonicalize().unwrap());
        let wanted =
            WorkspaceSpec { kind: Some(WorkspaceKind::Worktree), ..WorkspaceSpec::default() };
        let reason = open("t", &wanted, folder, &state).unwrap_err();
        assert!(reason.contains("make a commit, or set kind = \"in_place\""), "{reason}");
    }
    let none = WorkspaceSpec { kind: Some(WorkspaceKind::None), ..WorkspaceSpec::default() };
    assert_eq!(open("t", &none, &plain, &state).unwrap().path, None);
    assert!(open("../t", &none, &plain, &state).unwrap_err().contains("is not a task id"));
    assert!(open("t", &WorkspaceSpec::default(), Path::new("/no/such"), &state).is_err());
}

#[test]
fn a_branch_of_the_same_name_is_left_alone() {
    let (_all, top, state) = repository();
    git(&top, &["branch", "drivetrain/t1"]);
    let reason = open("t1", &WorkspaceSpec::default(), &top, &state).unwrap_err();
    assert!(reason.contains("already has a branch drivetrain/t1"), "{reason}");
    assert!(!state.join("worktrees/t1").exists());
}

/// As a file and as one line among packed names.
#[test]
fn a_branch_in_the_place_of_all_tasks_branches_is_named_and_can_be_renamed() {
    for packed in [false, true] {
        let (_all, top, state) = repository();
        git(&top, &["branch", "drivetrain"]);
        if packed {
            git(&top, &["pack-refs", "--all"]);
        }
        let reason = open("t1", &WorkspaceSpec::default(), &top, &state).unwrap_err();
        assert!(reason.contains("git branch -m drivetrain NAME"), "{reason}");
        assert!(!state.join("worktrees/t1").exists());
        git(&top, &["branch", "-m", "drivetrain", "mine"]);
        let made = open("t1", &WorkspaceSpec::default(), &top, &state).unwrap();
        assert_eq!(made.branch.as_deref(), Some("drivetrain/t1"));
        git(&top, &["fsck", "--strict"]);
    }
}

/// Plants programs wherever git would run them; each leaves a canary.
fn plant(top: &Path, canary: &Path) {
    let program = top.join(".git/planted");
    fs::write(
        &program,
        format!("#!/bin/sh\necho \"$0\" >> {}\ncat 2>/dev/null\n", canary.display()),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(top.join(".git/hooks")).unwrap();
    for hook in
        ["post-checkout", "reference-transaction", "post-index-change", "pre-commit", "post-commit"]
    {
        fs::copy(&program, top.join(".git/hooks").join(hook)).unwrap();
    }
    let program = program.to_str().unwrap();
    for name in [
        "filter.evil.smudge",
        "filter.evil.clean",
        "core.fsmonitor",
        "core.sshCommand",
        "diff.external",
    ] {
        git(top, &["config", name, program]);
    }
    git(top, &["config", "filter.evil.required", "true"]);
}

#[test]
fn a_hostile_repository_runs_nothing() {
    let (all, top, state) = repository();
    fs::write(top.join(".gitattributes"), "* filter=evil text=auto\n").unwrap();
    git(&top, &["add", ".gitattributes"]);
    git(&top, &["commit", "--quiet", "-m", "attributes"]);
    let canary = all.path().join("canary");
    plant(&top, &canary);
    let workspace = opened(&top, &state);
    assert_eq!(fs::read_to_string(path_of(&workspace).join("file")).unwrap(), "committed\n");
    checkpoint("t1", &workspace, "kept", &state, &Cancel::new()).unwrap();
    checkpoint("t2", &in_place(&top), "kept", &state, &Cancel::new()).unwrap();
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());
}

#[test]
fn what_a_sandbox_puts_in_the_place_of_an_ignored_name_keeps_no_checkpoint_from_being_made() {
    let (_all, top, state) = repository();
    fs::write(top.join(".gitignore"), ".env\n/.vscode\n").unwrap();
    git(&top, &["add", ".gitignore"]);
    git(&top, &["commit", "--quiet", "-m", "ignore"]);
    let workspace = opened(&top, &state);
    let folder = path_of(&workspace);
    // While a process in a sandbox lives, as that of an agent between two turns.
    for name in [".env", ".vscode", ".mcp.json"] {
        fs::write(folder.join(name), "").unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o1400)).unwrap();
    }
    fs::write(folder.join("new"), "new").unwrap();
    let kept = checkpoint("t1", &workspace, "kept", &state, &Cancel::new()).unwrap();
    let store = format!("--git-dir={}", state.join("checkpoints/t1.git").display());
    let files = git(&top, &[&store, "ls-tree", "-r", "--name-only", &kept.tree]);
    let files: Vec<&str> = files.lines().collect();
    assert!(files.contains(&"new") && files.contains(&".gitignore"), "{files:?}");
    let masked = |name: &&str| [".env", ".vscode", ".mcp.json"].contains(name);
    assert!(!files.iter().any(masked), "{files:?}");
}

#[test]
fn a_checkpoint_holds_every_file_byte_for_byte_and_touches_nothing() {
    let (all, top, state) = repository();
    let before = snapshot(&top);
    fs::write(top.join("crlf.txt"), "a\r\nb\r\n").unwrap();
    fs::write(
        top.join(".gitattributes"),
        "* text=auto eol=lf\n*.txt working-tree-encoding=UTF-16\n",
    )
    .unwrap();
    fs::write(top.join("grüße\n"), "odd name").unwrap();
    fs::write(top.join(".gitignore"), "ignored\n").unwrap();
    fs::write(top.join("ignored"), "big build").unwrap();
    symlink("file", top.join("link")).unwrap();
    let nested = top.join("vendor/nested");
    fs::create_dir_all(&nested).unwrap();
    git(&nested, &["init", "--quiet"]);
    fs::write(nested.join("kept"), "in a repository of its own").unwrap();
    git(&nested, &["add", "."]);
    git(&nested, &["commit", "--quiet", "-m", "nested"]);
    fs::write(nested.join("new"), "not committed there").unwrap();

    let cancel = Cancel::new();
    let first = checkpoint("t", &in_place(&top), "kept", &state, &cancel).unwrap().name;
    let store = state.join("checkpoints/t.git");
    let shown = |what: &str| {
        let output = Command::new("git")
            .arg("--git-dir")
            .arg(&store)
            .args(["cat-file", "blob", what])
            .output()
            .unwrap();
        output.stdout
    };
    for (name, content) in [
        ("file", "changed\n"),
        ("untracked", "untracked\n"),
        ("crlf.txt", "a\r\nb\r\n"),
        ("grüße\n", "odd name"),
        ("link", "file"),
        ("vendor/nested/kept", "in a repository of its own"),
        ("vendor/nested/new", "not committed there"),
        ("ignored", ""),
    ] {
        assert_eq!(
            String::from_utf8_lossy(&shown(&format!("{first}:files/{name}"))),
            content,
            "{name}"
        );
    }
    fs::remove_file(top.join("untracked")).unwrap();
    fs::write(store.join("index.lock"), "").unwrap();
    let second = checkpoint("t", &in_place(&top), "kept", &state, &cancel).unwrap().name;
    let listed = git(
        all.path(),
        &[
            "--git-dir",
            store.to_str().unwrap(),
            "ls-tree",
            "-r",
            "--name-only",
            &format!("{second}:files"),
        ],
    );
    assert!(!listed.contains("untracked") && listed.contains("vendor/nested/new"), "{listed}");
    let parents = git(all.path(), &["--git-dir", store.to_str().unwrap(), "rev-list", &second]);
    assert_eq!(parents, format!("{second}\n{first}"));
    let after = snapshot(&top);
    assert_eq!((after.1, after.2, after.3), (before.1, before.2, before.3));
}

#[test]
fn a_checkpoint_of_a_worktree_covers_it_whole() {
    let (all, top, state) = repository();
    let workspace = opened(&top.join("sub/deep"), &state);
    fs::write(path_of(&workspace).join("../../above"), "x").unwrap();
    let commit = checkpoint("t1", &workspace, "kept", &state, &Cancel::new()).unwrap();
    let store = state.join("checkpoints/t1.git");
    let listed = git(
        all.path(),
        &[
            "--git-dir",
            store.to_str().unwrap(),
            "ls-tree",
            "-r",
            "--name-only",
            &format!("{}:files", commit.name),
        ],
    );
    assert_eq!(listed, "above\nfile\nsub/deep/inner");
    let none = Workspace { kind: WorkspaceKind::None, path: None, branch: None, base: None };
    assert!(checkpoint("t1", &none, "kept", &state, &Cancel::new()).is_err());
}

#[test]
fn a_file_that_is_ignored_and_yet_committed_is_kept_like_any_other() {
    let (all, top, state) = repository();
    fs::write(top.join(".gitignore"), "kept*\ncache/\n").unwrap();
    fs::write(top.join("kept.txt"), "committed\n").unwrap();
    fs::write(top.join("kept.old"), "committed\n").unwrap();
    git(&top, &["add", "--force", ".gitignore", "kept.txt", "kept.old"]);
    git(&top, &["commit", "--quiet", "-m", "ignored, and yet here"]);
    let workspace = opened(&top, &state);
    let cancel = Cancel::new();
    let first = checkpoint("t1", &workspace, "start", &state, &cancel).unwrap();
    let place = path_of(&workspace);
    fs::write(place.join("kept.txt"), "changed\n").unwrap();
    fs::remove_file(place.join("kept.old")).unwrap();
    fs::write(place.join("kept.new"), "ignored\n").unwrap();
    let second = checkpoint("t1", &workspace, "claim", &state, &cancel).unwrap();
    let store = Store::open("t1", &state, &cancel).unwrap();
    let changes = store.changes(&first.name, &second.name).unwrap();
    let changed: Vec<String> =
        changes.iter().map(|change| change.path.to_string_lossy().into_owned()).collect();
    assert_eq!(changed, ["kept.old", "kept.txt"]);
    let copy = all.path().join("copy");
    fs::create_dir(&copy).unwrap();
    store.copy(&second.name, &copy).unwrap();
    assert_eq!(fs::read_to_string(copy.join("kept.txt")).unwrap(), "changed\n");
    assert!(!copy.join("kept.old").exists() && !copy.join("kept.new").exists());
}

/// As if the machine had been started anew since the worktree was last looked after.
fn restart(state: &Path) {
    let path = state.join("worktrees/t1.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_ne!(record["boot"], "", "it is known after which start it was made");
    record["boot"] = "another start".into();
    fs::write(&path, record.to_string()).unwrap();
}

/// As if the last checkpoint had been made before or after everything that was written until now.
fn checkpoint_was_made(state: &Path, when: SystemTime) {
    let name = state.join("checkpoints/t1.git/refs/heads/checkpoints");
    let times = fs::FileTimes::new().set_modified(when);
    fs::File::options().write(true).open(name).unwrap().set_times(times).unwrap();
}

/// What a task that is taken up is told, and it is told.
fn taken_up_and_told(state: &Path) -> Option<(Loss, Result<u32, String>)> {
    let said = taken_up("t1", state);
    told("t1", state);
    said
}

#[test]
fn a_worktree_whose_task_is_taken_up_while_it_is_taken_away_is_put_back() {
    let (_all, top, state) = repository();
    let path = path_of(&opened(&top, &state));
    fs::write(path.join("work"), "precious\n").unwrap();
    let refused = upkeep::remove("t1", &state, Branch::Alone(0), || {
        assert!(!path.exists(), "who looks at the folder from here on finds none");
        false
    });
    assert!(refused.unwrap_err().contains("meanwhile"));
    assert_eq!(fs::read_to_string(path.join("work")).unwrap(), "precious\n");
    assert_eq!(taken_up("t1", &state), None);
    upkeep::remove("t1", &state, Branch::Alone(0), || true).unwrap();
    assert!(!path.exists());
}

#[test]
fn what_was_lost_is_said_until_the_task_was_told() {
    let (_all, top, state) = repository();
    let workspace = opened(&top, &state);
    let path = path_of(&workspace);
    fs::write(path.join("work"), "precious\n").unwrap();
    checkpoint("t1", &workspace, "one", &state, &Cancel::new()).unwrap();
    let hour = Duration::from_secs(3600);
    checkpoint_was_made(&state, SystemTime::now() + hour);
    fs::write(path.join("work"), "").unwrap();
    restart(&state);
    // Whoever took it up was killed before the journal had it.
    for _ in 0..3 {
        assert_eq!(taken_up("t1", &state), Some((Loss::Restart, Ok(1))));
    }
    // And the machine was restarted once more.
    fs::write(path.join("work"), "").unwrap();
    restart(&state);
    assert_eq!(taken_up("t1", &state), Some((Loss::Restart, Ok(2))));
    told("t1", &state);
    assert_eq!(taken_up("t1", &state), None);

    // Killed while the folder was made again, which then is there.
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(taken_up("t1", &state), Some((Loss::Folder, Ok(1))));
    let record = state.join("worktrees/t1.json");
    let mut known: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    known["untold"]["brought_back"] = serde_json::Value::Null;
    fs::write(&record, known.to_string()).unwrap();
    assert_eq!(taken_up("t1", &state), Some((Loss::Folder, Ok(0))));
    told("t1", &state);
    assert_eq!(taken_up("t1", &state), None);
    assert_eq!(fs::read_to_string(path.join("work")).unwrap(), "precious\n");
}

#[test]
fn what_a_restart_lost_of_the_last_checkpoint_is_brought_back_and_later_work_stays() {
    let (_all, top, state) = repository();
    let workspace = opened(&top, &state);
    let path = path_of(&workspace);
    let (cancel, hour) = (Cancel::new(), Duration::from_secs(3600));
    fs::create_dir(path.join("new")).unwrap();
    for (name, text) in
        [("emptied", "1\n"), ("zeroed", "2\n"), ("rewritten", "34\n"), ("kept", "4\n")]
    {
        fs::write(path.join(name), text).unwrap();
        fs::write(path.join("new").join(name), text).unwrap();
    }
    symlink("kept", path.join("link")).unwrap();
    checkpoint("t1", &workspace, "one", &state, &cancel).unwrap();
    assert_eq!(taken_up_and_told(&state), None, "it was looked after when it was made");

    fs::write(path.join("emptied"), "").unwrap();
    let zeroed = path.join("zeroed");
    let times =
        fs::FileTimes::new().set_modified(fs::metadata(&zeroed).unwrap().modified().unwrap());
    fs::write(&zeroed, "\0\0").unwrap();
    fs::File::options().write(true).open(&zeroed).unwrap().set_times(times).unwrap();
    fs::write(path.join("rewritten"), "5\n").unwrap();
    fs::remove_dir_all(path.join("new")).unwrap();
    fs::remove_file(path.join("link")).unwrap();
    fs::write(path.join(".git"), "").unwrap();
    fs::write(path.join("later"), "5\n").unwrap();
    restart(&state);
    let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
    let restarted = |count| Some((Loss::Restart, Ok(count)));
    assert_eq!(taken_up_and_told(&state), restarted(2), "what ends too early was lost at any time");
    assert_eq!(git(&path, &["rev-parse", "--show-prefix"]), "", "it is a worktree again");
    assert_eq!([read("emptied"), read("zeroed"), read("rewritten")], ["1\n", "2\n", "5\n"]);
    assert!(
        !path.join("new").exists() && !path.join("link").exists(),
        "removed after the checkpoint"
    );

    fs::write(path.join("emptied"), "").unwrap();
    fs::write(path.join("zeroed"), "2\0").unwrap();
    restart(&state);
    checkpoint_was_made(&state, SystemTime::now() + hour);
    assert_eq!(taken_up_and_told(&state), restarted(8));
    assert_eq!([read("emptied"), read("zeroed"), read("rewritten")], ["1\n", "2\n", "34\n"]);
    assert_eq!([read("new/zeroed"), read("new/kept"), read("link")], ["2\n", "4\n", "4\n"]);
    assert_eq!([read("later"), read("file")], ["5\n", "committed\n"]);
    assert_eq!(taken_up_and_told(&state), None, "once after each start");
}

#[test]
fn of_a_worktree_that_a_restart_took_as_a_whole_nothing_is_missed() {
    let (_all, top, state) = repository();
    let workspace = opened(&top, &state);
    let path = path_of(&workspace);
    fs::write(path.join("work"), "precious\n").unwrap();
    checkpoint("t1", &workspace, "one", &state, &Cancel::new()).unwrap();
    fs::remove_dir_all(&path).unwrap();
    restart(&state);
    assert_eq!(taken_up_and_told(&state), Some((Loss::Restart, Ok(1))));
    assert_eq!(fs::read_to_string(path.join("work")).unwrap(), "precious\n");
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(taken_up_and_told(&state), Some((Loss::Folder, Ok(1))), "nothing was restarted");
    assert_eq!(fs::read_to_string(path.join("work")).unwrap(), "precious\n");
    fs::write(state.join("checkpoints/t1.git/refs/heads/checkpoints"), "no name").unwrap();
    restart(&state);
    assert!(
        taken_up_and_told(&state).unwrap().1.unwrap_err().contains("not the name of a checkpoint")
    );
    assert_eq!(taken_up_and_told(&state), None, "who was told is not told again");
}

#[test]
fn what_a_killed_git_or_a_loss_of_power_left_of_a_worktree_does_not_stop_the_next_try() {
    for lost in ["commondir", "gitdir", "HEAD"] {
        let (_all, top, state) = repository();
        let workspace = opened(&top, &state);
        let record = state.join("worktrees/t1.json");
        let text = fs::read_to_string(&record).unwrap();
        fs::write(&record, text.replace("\"ready\":true", "\"ready\":false")).unwrap();
        fs::write(top.join(".git/worktrees/t1").join(lost), "").unwrap();
        fs::write(path_of(&workspace).join(".git"), "").unwrap();
        git(&top, &["update-ref", "-d", "refs/heads/drivetrain/t1"]);
        fs::create_dir_all(top.join(".git/refs/heads/drivetrain")).unwrap();
        fs::write(top.join(".git/refs/heads/drivetrain/t1.lock"), "").unwrap();
        assert_eq!(opened(&top, &state), workspace, "{lost}");
        assert_eq!(git(&path_of(&workspace), &["status", "--porcelain"]), "", "{lost}");
        git(&top, &["worktree", "list"]);
    }
}
