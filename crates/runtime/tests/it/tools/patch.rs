//! The `patch` tool: exactly what diff and git say, or nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use machine::tool::Status;
use proptest::prelude::*;
use serde_json::json;

use super::{folder, run, run_again};

fn apply(folder: &Path, diff: &str) -> Result<String, String> {
    let result = run(folder, "patch", json!({"diff": diff}));
    if result.status == Status::Ok { Ok(result.text) } else { Err(result.text) }
}

const MANY: &str = "\
diff --git a/new.sh b/new.sh
new file mode 100755
index 0000000..1111111
--- /dev/null
+++ b/new.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+true
diff --git a/old.txt b/old.txt
deleted file mode 100644
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/from.txt b/sub/to.txt
similarity index 60%
rename from from.txt
rename to sub/to.txt
--- a/from.txt
+++ b/sub/to.txt
@@ -1,2 +1,2 @@
 same
-before
+after
\\ No newline at end of file
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
";

fn many() -> tempfile::TempDir {
    let place = folder();
    fs::write(place.path().join("old.txt"), "gone\n").unwrap();
    fs::write(place.path().join("from.txt"), "same\nbefore\n").unwrap();
    place
}

#[test]
fn a_diff_creates_deletes_renames_and_changes() {
    let place = many();
    let text = apply(place.path(), MANY).unwrap();
    assert_eq!(
        text,
        "created empty\ndeleted from.txt\ncreated new.sh\ndeleted old.txt\ncreated sub/to.txt"
    );
    assert_eq!(fs::read_to_string(place.path().join("sub/to.txt")).unwrap(), "same\nafter");
    assert_eq!(fs::read(place.path().join("empty")).unwrap(), b"");
    let mode =
        std::os::unix::fs::MetadataExt::mode(&fs::metadata(place.path().join("new.sh")).unwrap());
    assert_eq!(mode & 0o111, 0o111);
    assert!(!place.path().join("old.txt").exists() && !place.path().join("from.txt").exists());
}

#[test]
fn a_renamed_program_stays_a_program() {
    let place = folder();
    fs::write(place.path().join("run me"), "x\n").unwrap();
    let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().permissions();
    let mut program = mode("run me");
    std::os::unix::fs::PermissionsExt::set_mode(&mut program, 0o755);
    fs::set_permissions(place.path().join("run me"), program).unwrap();
    let diff =
        "diff --git a/run me b/ran\nsimilarity index 100%\nrename from run me\nrename to ran\n";
    assert_eq!(apply(place.path(), diff).unwrap(), "created ran\ndeleted run me");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode("ran")) & 0o100, 0o100);
}

#[test]
fn a_repeated_diff_is_done_once_from_wherever_the_first_attempt_came_to() {
    let place = many();
    let result = run_again(place.path(), "patch", json!({"diff": MANY}));
    assert_eq!(result.status, Status::Ok, "{}", result.text);
    let result = run_again(place.path(), "patch", json!({"diff": MANY}));
    assert_eq!(result.text, "already done: all 4 files have the new content");
    // Half of it was done.
    fs::write(place.path().join("old.txt"), "gone\n").unwrap();
    let result = run_again(place.path(), "patch", json!({"diff": MANY}));
    assert_eq!(result.text, "deleted old.txt");
    assert!(apply(place.path(), MANY).unwrap_err().contains("exists already"));
}

#[test]
fn a_file_that_moves_is_in_one_of_its_places_at_every_moment() {
    let place = folder();
    fs::write(place.path().join("a"), "precious\n").unwrap();
    let mut diff =
        "diff --git a/a b/z\nsimilarity index 100%\nrename from a\nrename to z\n".to_owned();
    for number in 0..300 {
        diff.push_str(&format!("--- /dev/null\n+++ b/b{number}\n@@ -0,0 +1 @@\n+1\n"));
    }
    let is_there = |name: &str| place.path().join(name).exists();
    std::thread::scope(|scope| {
        let patching = scope.spawn(|| apply(place.path(), &diff).unwrap());
        while !patching.is_finished() {
            assert!(is_there("a") || is_there("z"), "killed now, it would be lost");
        }
    });
    assert_eq!(fs::read_to_string(place.path().join("z")).unwrap(), "precious\n");
    // One that was killed before it took the old one away goes on from there.
    fs::write(place.path().join("a"), "precious\n").unwrap();
    let result = run_again(place.path(), "patch", json!({"diff": diff}));
    assert_eq!(result.status, Status::Ok, "{}", result.text);
    assert!(!is_there("a") && is_there("z"));
    fs::write(place.path().join("a"), "other\n").unwrap();
    let text = run_again(place.path(), "patch", json!({"diff": diff})).text;
    assert!(text.contains("\"z\" is to be created and exists already"), "{text}");
}

#[test]
fn what_makes_room_for_another_file_is_written_first() {
    let place = folder();
    let at = |name: &str| place.path().join(name);
    fs::write(at("a"), "precious\n").unwrap();
    fs::write(at("b"), "other\n").unwrap();
    let rename = |from: &str, to: &str| {
        format!(
            "diff --git a/{from} b/{to}\nsimilarity index 100%\nrename from {from}\nrename to {to}\n"
        )
    };
    let mut diff = format!("{}{}", rename("a", "z"), rename("b", "a"));
    for number in 0..300 {
        diff.push_str(&format!("--- /dev/null\n+++ b/m{number}\n@@ -0,0 +1 @@\n+1\n"));
    }
    let is_kept = |name: &str| fs::read(at(name)).is_ok_and(|bytes| bytes == b"precious\n");
    std::thread::scope(|scope| {
        let patching = scope.spawn(|| apply(place.path(), &diff).unwrap());
        while !patching.is_finished() {
            assert!(is_kept("a") || is_kept("z"), "killed now, it would be lost");
        }
    });
    assert!(is_kept("z") && fs::read(at("a")).unwrap() == b"other\n" && !at("b").exists());
}

#[test]
fn a_file_that_moves_to_another_name_of_itself_is_not_taken_away() {
    let place = folder();
    fs::create_dir(place.path().join("real")).unwrap();
    fs::write(place.path().join("real/f"), "precious\n").unwrap();
    std::os::unix::fs::symlink("real", place.path().join("link")).unwrap();
    let diff = "diff --git a/link/f b/real/f\nsimilarity index 100%\nrename from link/f\nrename to real/f\n";
    let result = run_again(place.path(), "patch", json!({"diff": diff}));
    assert!(result.text.contains("exists already"), "{}", result.text);
    assert_eq!(fs::read(place.path().join("real/f")).unwrap(), b"precious\n");
}

#[test]
fn what_belongs_to_another_file_ends_the_part_of_the_one_before() {
    let place = folder();
    let at = |name: &str| place.path().join(name);
    for name in ["run", "f", "old"] {
        fs::write(at(name), "1\n").unwrap();
    }
    let plain = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+2\n";
    let mode = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n";
    apply(place.path(), &format!("{mode}{plain}")).unwrap();
    let mode = |name| std::os::unix::fs::MetadataExt::mode(&fs::metadata(at(name)).unwrap());
    assert_eq!((mode("run") & 0o111, mode("f") & 0o111), (0o111, 0));
    let moved = "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n";
    let made = "--- /dev/null\n+++ b/made\n@@ -0,0 +1 @@\n+3\n";
    apply(place.path(), &format!("{moved}{made}")).unwrap();
    let text = |name| fs::read_to_string(at(name)).unwrap();
    assert_eq!((text("f"), text("new"), text("made")), ("2\n".into(), "1\n".into(), "3\n".into()));
}

#[test]
fn what_diff_prints_of_a_file_that_is_new_or_gone_makes_or_removes_it() {
    let place = folder();
    let at = |name: &str| place.path().join(name);
    for folder in ["a", "b", "w"] {
        fs::create_dir(at(folder)).unwrap();
    }
    fs::write(at("a/gone"), "1\n").unwrap();
    fs::write(at("b/new"), "2\n").unwrap();
    for zone in ["UTC", "America/New_York", "Asia/Kolkata", "UTC-12"] {
        let output = Command::new("diff")
            .args(["-ruN", "a", "b"])
            .env("TZ", zone)
            .current_dir(place.path())
            .output()
            .unwrap();
        let diff = String::from_utf8(output.stdout).unwrap();
        fs::write(at("w/gone"), "1\n").unwrap();
        assert_eq!(apply(&at("w"), &diff).unwrap(), "deleted gone\ncreated new", "{diff}");
        assert_eq!(fs::read_to_string(at("w/new")).unwrap(), "2\n");
        assert!(!at("w/gone").exists());
        fs::remove_file(at("w/new")).unwrap();
    }
    // A file of that age that is there is one.
    fs::write(at("w/old"), "1\n").unwrap();
    let diff = "--- a/old\t1970-01-01 00:00:00.000000000 +0000\n+++ b/old\t2026-01-01 00:00:00 +0000\n@@ -1 +1 @@\n-1\n+2\n";
    assert_eq!(apply(&at("w"), diff).unwrap(), "changed old");
}

#[test]
fn one_hunk_that_does_not_fit_leaves_everything_as_it_was() {
    let place = folder();
    fs::write(place.path().join("a"), "1\n2\n3\n").unwrap();
    fs::write(place.path().join("b"), "1\n2\n3\n").unwrap();
    let diff = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n--- a/b\n+++ b/b\n@@ -1,2 +1,2 @@\n 1\n-zwei\n+two\n";
    let text = apply(place.path(), diff).unwrap_err();
    assert_eq!(
        text,
        "nothing was changed: \"b\", hunk 1 of 1 does not apply: expected at line 1: line 2 should be \
         \"zwei\\n\" and is \"2\\n\""
    );
    assert_eq!(fs::read_to_string(place.path().join("a")).unwrap(), "1\n2\n3\n");
}

#[test]
fn a_diff_in_lf_keeps_the_line_ends_of_a_file_in_cr_lf() {
    let place = folder();
    let file = place.path().join("f");
    fs::write(&file, "one\r\ntwo\r\nthree\r\n").unwrap();
    let diff = "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three\n";
    apply(place.path(), diff).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\r\n2\r\n2b\r\nthree\r\n");
    let diff = "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-one\r\n+one\n";
    apply(place.path(), diff).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\n2\r\n2b\r\nthree\r\n");
}

#[test]
fn a_hunk_is_found_near_its_place() {
    let place = folder();
    let lines: String = (1..=50).map(|number| format!("{number}\n")).collect();
    fs::write(place.path().join("f"), &lines).unwrap();
    let diff = "--- f\n+++ f\n@@ -10,3 +10,3 @@\n 19\n-20\n+twenty\n 21\n@@ -30,3 +30,2 @@\n 39\n-40\n 41\n";
    assert_eq!(apply(place.path(), diff).unwrap(), "changed f");
    let expected = lines.replace("\n20\n", "\ntwenty\n").replace("\n40\n", "\n");
    assert_eq!(fs::read_to_string(place.path().join("f")).unwrap(), expected);
}

#[test]
fn wrong_diffs_are_refused_with_a_reason() {
    let place = folder();
    fs::write(place.path().join("f"), "1\n2\n").unwrap();
    for (diff, what) in [
        ("", "names no file"),
        ("hello\n", "names no file"),
        ("@@ -1 +1 @@\n-1\n+2\n", "without the names"),
        ("--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-1\n", "ends too early"),
        ("--- a/f\n+++ b/f\n@@ -18446744073709551615 +1 @@\n-1\n+2\n", "not a hunk header"),
        ("--- a/f\n+++ b/f\n@@ -4294967295 +1 @@\n-1\n+2\n", "does not apply"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+2\n+3\n", "more lines than its header promises"),
        ("--- a/f\n+++ b/f\n@@ nonsense @@\n", "not a hunk header"),
        ("--- a/none\n+++ b/none\n@@ -1 +1 @@\n-1\n+2\n", "does not exist"),
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+1\n", "exists already"),
        ("--- /dev/null\n+++ b/../f\n@@ -0,0 +1 @@\n+1\n", "out of the workspace"),
        ("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+1\n", "protected"),
        ("--- /dev/null\n+++ /etc/x\n@@ -0,0 +1 @@\n+1\n", "out of the workspace"),
        ("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", "2 bytes more than the diff removes"),
        (
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n",
            "mode 120000",
        ),
        ("diff --git a/f b/f\nindex 1..2 100644\nGIT binary patch\n", "binary change"),
        ("diff --git a/f b/f\nrename from f\nrename to .git/f\n", "protected"),
    ] {
        let text = apply(place.path(), diff).unwrap_err();
        assert!(text.contains(what), "{diff:?}: {text}");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

/// Small texts over few lines, so that contexts repeat; the end may lack its newline.
fn content() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "",
        "-- x",
        "++ y",
        "@@ -1 +1 @@",
        "\\ z",
        "d\r",
        "é",
    ]);
    (prop::collection::vec(line, 0..30), any::<bool>()).prop_map(|(lines, end)| {
        let text = lines.join("\n");
        if end && !text.is_empty() { text + "\n" } else { text }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_diff_and_git_print_applies_to_the_exact_bytes(old in content(), new in content(), context in 0u8..4) {
        let place = folder();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("a")).unwrap();
        fs::create_dir_all(at("b")).unwrap();
        fs::write(at("a/f"), &old).unwrap();
        fs::write(at("b/f"), &new).unwrap();
        let unified = format!("-U{context}");
        for program in [&["diff"][..], &["git", "diff", "--no-index", "--no-prefix"]] {
            let output = Command::new(program[0])
                .args(&program[1..])
                .args([unified.as_str(), "a/f", "b/f"])
                .current_dir(place.path())
                .output()
                .unwrap();
            let diff = String::from_utf8(output.stdout).unwrap();
            if old == new {
                prop_assert_eq!(diff, "");
                continue;
            }
            fs::create_dir_all(at("w")).unwrap();
            fs::write(at("w/f"), &old).unwrap();
            let result = run(&at("w"), "patch", json!({"diff": diff}));
            prop_assert_eq!(result.status, Status::Ok, "{}\n{}", result.text, diff);
            prop_assert_eq!(fs::read_to_string(at("w/f")).unwrap(), new.as_str(), "{}", diff);
            let result = run_again(&at("w"), "patch", json!({"diff": diff}));
            prop_assert_eq!(result.status, Status::Ok, "{}\n{}", result.text, diff);
            prop_assert_eq!(fs::read_to_string(at("w/f")).unwrap(), new.as_str(), "{}", diff);
        }
    }
}
