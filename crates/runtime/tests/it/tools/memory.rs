//! `memory`: notes that outlive a task.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::*;

fn remember(home: &TempDir, folder: &Path, input: Value) -> ToolResult {
    remember_as(home, folder, input, false)
}

fn remember_as(home: &TempDir, folder: &Path, input: Value, repeated: bool) -> ToolResult {
    let services =
        ToolServices { memory: Some(home.path().join("memory")), ..services(Containment::Auto) };
    let call = ToolCall { repeated, ..call(folder, "memory", input) };
    runtime::tool::run(&call, &services, &Cancel::new())
}

fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_note_is_written_listed_read_and_forgotten() {
    let (home, project) = (folder(), folder());
    let list = || remember(&home, project.path(), json!({ "action": "list" })).text;
    assert!(list().starts_with("there are no notes about "), "{}", list());
    let write = json!({ "action": "write", "name": "build", "text": "\nUse make.\nNot cmake.\n" });
    let result = remember(&home, project.path(), write.clone());
    assert_eq!(result, ToolResult::ok("wrote the note build (22 bytes)"));
    // The same call again is the same note.
    assert_eq!(remember_as(&home, project.path(), write, true).status, Status::Ok);
    assert_eq!(list(), "build (22 bytes)  Use make.");
    let read = json!({ "action": "read", "name": "build" });
    assert_eq!(remember(&home, project.path(), read.clone()).text, "\nUse make.\nNot cmake.\n");
    let forget = json!({ "action": "forget", "name": "build" });
    assert_eq!(remember(&home, project.path(), forget.clone()).text, "forgot the note build");
    assert_eq!(remember_as(&home, project.path(), forget.clone(), true).status, Status::Ok);
    assert_eq!(remember(&home, project.path(), forget).status, Status::Error);
    assert_eq!(
        remember(&home, project.path(), read),
        ToolResult::ended(Status::Error, "there is no note \"build\"; this project has none yet")
    );
    assert!(fs::read_dir(project.path()).unwrap().next().is_none(), "the workspace is untouched");
}

#[test]
fn worktrees_and_folders_of_one_repository_share_notes_and_other_projects_do_not() {
    let (home, place) = (folder(), folder());
    let main = place.path().join("main");
    fs::create_dir_all(main.join("sub")).unwrap();
    git(&main, &["init", "-q"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&main, &["worktree", "add", "-q", "../linked"]);
    let linked = place.path().join("linked");
    remember(&home, &linked, json!({ "action": "write", "name": "a", "text": "from a worktree" }));
    for folder in [&main, &main.join("sub"), &linked] {
        let result = remember(&home, folder, json!({ "action": "read", "name": "a" }));
        assert_eq!(result.text, "from a worktree", "{}", folder.display());
    }
    let other = place.path().join("other");
    fs::create_dir(&other).unwrap();
    let read = json!({ "action": "read", "name": "a" });
    assert_eq!(remember(&home, &other, read.clone()).status, Status::Error);
    // A folder that claims to be a worktree of the project, but that the project does not know.
    fs::copy(linked.join(".git"), other.join(".git")).unwrap();
    assert_eq!(remember(&home, &other, read).status, Status::Error);
}

#[test]
fn a_name_is_never_a_path() {
    let (home, project) = (folder(), folder());
    for name in ["../a", "a/b", "/etc/passwd", "..", ".hidden", "a\u{7}b", "a b", ""] {
        for action in ["read", "write", "forget"] {
            let input = json!({ "action": action, "name": name, "text": "x" });
            let result = remember(&home, project.path(), input);
            assert_eq!(result.status, Status::Error, "{name:?}");
        }
    }
    assert!(fs::read_dir(home.path()).unwrap().next().is_none());
}

#[test]
fn notes_are_bounded_whole_and_for_their_owner_only() {
    let (home, project) = (folder(), folder());
    let write = |name: &str, text: &str| {
        remember(&home, project.path(), json!({ "action": "write", "name": name, "text": text }))
    };
    let result = write("big", &"x".repeat(64 * 1024 + 1));
    assert_eq!(result.text, "the note \"big\" has 65537 bytes; expected at most 65536");
    for number in 0..200 {
        assert_eq!(write(&format!("n{number}"), "x").status, Status::Ok);
    }
    assert!(write("one-more", "x").text.contains("already 200 notes"));
    assert_eq!(write("n7", "changed").text, "replaced the note n7 (7 bytes)");
    let notes = fs::read_dir(home.path().join("memory")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::metadata(&notes).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(notes.join("n7.md")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&notes).unwrap().count(), 200, "nothing half written is left");
}

#[test]
fn what_is_missing_in_a_call_is_named() {
    let (home, project) = (folder(), folder());
    let result = remember(&home, project.path(), json!({ "action": "read" }));
    assert_eq!(result.text, "memory read needs the parameter \"name\": the note");
    let result = remember(&home, project.path(), json!({ "action": "write", "name": "a" }));
    assert_eq!(result.text, "memory write needs the parameter \"text\": the whole note");
    let result = run(project.path(), "memory", json!({ "action": "list" }));
    assert_eq!(result.status, Status::Error);
}
