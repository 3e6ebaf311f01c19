//! `diff` and `checkpoints`: what a task changed, for people and for `git apply`.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::pty::Screen;
use crate::repository::Repository;

const STEPS: [&str; 1] =
    ["printf 'three\\033[2J\\r\\n' >> a.txt; mv sub/b.txt sub/c.txt; printf '\\000\\001' > bin; \
     mkdir empty; ln -s a.txt link; mkdir -p ignored; echo i > ignored/x"];

/// Row 4 of the edge cases: new, deleted, renamed, ignored and untracked files.
#[test]
fn edge_case_4_a_diff_has_new_deleted_and_renamed_files_and_no_ignored_ones_and_applies() {
    let repository = Repository::new();
    let (id, _) = repository.task(&STEPS, Some("test -e bin"));
    let shown = repository.json(&["diff", &id]);
    let paths: Vec<(&str, &str)> = shown["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| (path["path"].as_str().unwrap(), path["how"].as_str().unwrap()))
        .collect();
    assert_eq!(
        paths,
        [
            ("a.txt", "changed"),
            ("bin", "added"),
            ("empty", "added"),
            ("link", "added"),
            ("sub/b.txt", "removed"),
            ("sub/c.txt", "added"),
        ]
    );
    assert_eq!(shown["paths"][1]["binary"], true);
    // Piped, it is what git takes, byte for byte.
    let patch = repository.place.command(&["diff", &id]).output().unwrap().stdout;
    assert!(patch.windows(4).any(|four| four == b"\x1b[2J"));
    let mut apply = Command::new("git")
        .args(["apply", "--index"])
        .current_dir(repository.place.folder())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    apply.stdin.take().unwrap().write_all(&patch).unwrap();
    assert!(apply.wait().unwrap().success());
    let tree = repository.git(&["write-tree"]);
    assert_eq!(shown["to"]["tree"], tree.as_str(), "the patch gives exactly the frozen tree");
    let stat = repository.place.ok(&["diff", &id, "--stat"]);
    assert!(stat.contains("6 paths differ"), "{stat}");
    let names = repository.place.ok(&["diff", &id, "--name-only"]);
    assert!(names.contains("A sub/c.txt") && !names.contains("ignored"), "{names}");
}

#[test]
fn on_a_terminal_a_diff_cannot_steer_it() {
    let repository = Repository::new();
    let (id, _) = repository.task(&STEPS, Some("test -e bin"));
    let mut screen = Screen::start(&repository.place, &["diff", &id]);
    screen.until("+three").until("rename to");
    let all = screen.shown();
    assert_eq!(screen.end(), 0);
    assert!(all.contains("\\x1b[2J\\r"), "{all:?}");
    assert!(!all.contains("\u{1b}[2J"), "{all:?}");
}

#[test]
fn checkpoints_have_numbers_reasons_and_what_changed_and_a_diff_is_between_any_two() {
    let repository = Repository::new();
    let more = "[workspace]\ncheckpoints = \"turns\"\n";
    let steps = ["echo 1 > n1", "echo 2 > n2", "echo 3 > n3"];
    let file = repository.task_file("t.toml", &steps, Some("test -e n3"), more);
    repository.place.ok(&["run", file.to_str().unwrap()]);
    let id = repository.place.id();
    let listed = repository.json(&["checkpoints", &id]);
    let points = listed["checkpoints"].as_array().unwrap();
    let about: Vec<(u64, &str, Option<u64>)> = points
        .iter()
        .map(|point| {
            (
                point["number"].as_u64().unwrap(),
                point["reason"].as_str().unwrap(),
                point["paths"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        about,
        [
            (1, "start", None),
            (2, "before turn 2", Some(1)),
            (3, "before turn 3", Some(1)),
            (4, "handed over", Some(1)),
        ]
    );
    assert_eq!(points[3]["mark"], "handed over");
    let between = repository.json(&["diff", &id, "--from", "2", "--to", "3"]);
    assert_eq!(between["paths"][0]["path"], "n2");
    assert_eq!(between["paths"].as_array().unwrap().len(), 1);
    assert!(repository.place.ok(&["checkpoints", &id]).contains("[base]"));
    let wrong = repository.place.run(&["diff", &id, "--from", "9"]);
    assert!(wrong.err.contains("there are 1 to 4"), "{}", wrong.err);
}

#[test]
fn a_task_in_place_says_what_it_gave_up() {
    let repository = Repository::new();
    repository.place.steps("t.toml", &["echo x > x"], "");
    repository.place.ok(&["run", "t.toml"]);
    let id = repository.place.id();
    let ran = repository.place.run(&["diff", &id]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--in-place") && ran.err.contains("git diff"), "{}", ran.err);
    let ran = repository.place.run(&["rollback", &id, "--to", "1"]);
    assert!(ran.err.contains("where nothing is kept"), "{}", ran.err);
    let ran = repository.place.run(&["apply", &id, "--force-unverified"]);
    assert!(ran.err.contains("what it changed is there"), "{}", ran.err);
    let none = repository.place.run(&["run", "look", "--driver", "user", "--no-workspace"]);
    assert_eq!(none.code, 13);
    let id =
        crate::repository::ids(&repository.place).into_iter().find(|other| *other != id).unwrap();
    let ran = repository.place.run(&["rollback", &id, "--to", "1"]);
    assert!(ran.err.contains("no folder"), "{}", ran.err);
}

/// A model that hands something over, is told no, goes on, and comes to no second claim.
fn refused_once(repository: &Repository) -> (String, std::path::PathBuf) {
    let call = |command: &str| {
        format!(
            "[[reply]]\ntool_calls = [{{ tool = \"shell\", input = {{ command = \"{command}\" }} }}]\n"
        )
    };
    let claim = "[[reply]]\ntext = \"done\"\n";
    let more = call("echo SECOND > a.txt; echo n > n.txt");
    let script = format!("{}{claim}{more}{}", call("echo first > a.txt"), call("true"));
    repository.place.write("../model.toml", &script);
    let run = ["run", "do it", "--model", "script/../model.toml", "--profile", "open"];
    let ran = repository.place.run(&[&run[..], &["--check", "false", "--max-turns", "9"]].concat());
    let id = repository.place.id();
    let shown = repository.place.show(&id);
    assert_eq!(shown["outcome"], "failed", "{}{}", ran.out, ran.err);
    let worktree = std::path::PathBuf::from(shown["workspace"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(worktree.join("a.txt")).unwrap(), "SECOND\n");
    (id, worktree)
}

#[test]
fn what_was_refused_does_not_stand_for_what_came_after() {
    let repository = Repository::new();
    let (id, _) = refused_once(&repository);
    assert_eq!(repository.place.ok(&["diff", &id, "--name-only"]), "M a.txt\nA n.txt\n");
    let patch = repository.place.ok(&["apply", &id, "--force-unverified", "--patch", "-"]);
    assert!(patch.contains("+SECOND") && patch.contains("n.txt"), "{patch}");
    let applied = repository.json(&["apply", &id, "--force-unverified"]);
    assert_eq!((&applied["paths"], &applied["verified"]), (&2.into(), &false.into()));
    assert_eq!(repository.place.read("a.txt"), "SECOND\n");
    assert_eq!(repository.place.read("n.txt"), "n\n");
    // What was handed over is in a branch, so that nothing is lost with the worktree.
    let said = repository.place.ok(&["worktrees", "clean", &id]);
    assert!(said.contains("taken away"), "{said}");
}

#[test]
fn where_the_folder_is_gone_the_last_checkpoint_stands_for_what_came_after_a_refusal() {
    let repository = Repository::new();
    let (id, worktree) = refused_once(&repository);
    std::fs::remove_dir_all(&worktree).unwrap();
    assert_eq!(repository.place.ok(&["diff", &id, "--name-only"]), "M a.txt\nA n.txt\n");
    let applied = repository.json(&["apply", &id, "--force-unverified"]);
    assert_eq!(applied["how"], "committed");
    assert_eq!(repository.place.read("a.txt"), "SECOND\n");
}
