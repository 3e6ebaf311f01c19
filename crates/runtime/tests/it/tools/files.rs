//! The tools `read`, `write`, `edit`, `glob` and `grep`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use machine::tool::Status;
use runtime::process::{Cancel, Containment};
use serde_json::{Value, json};

use super::{call, folder, run, run_again, services};

fn ok(folder: &Path, tool: &str, input: Value) -> String {
    let result = run(folder, tool, input);
    assert_eq!(result.status, Status::Ok, "{}", result.text);
    result.text
}

fn error(folder: &Path, tool: &str, input: Value) -> String {
    let result = run(folder, tool, input);
    assert_eq!(result.status, Status::Error, "{}", result.text);
    result.text
}

#[test]
fn read_shows_a_file_or_some_of_its_lines() {
    let place = folder();
    fs::write(place.path().join("f"), "one\ntwo\r\nthree").unwrap();
    fs::write(place.path().join("empty"), "").unwrap();
    let read = |input| ok(place.path(), "read", input);
    assert_eq!(read(json!({"path": "f"})), "one\ntwo\r\nthree");
    assert_eq!(read(json!({"path": "f", "offset": 2, "limit": 1})), "two\r\n");
    assert_eq!(read(json!({"path": "f", "offset": 3})), "three");
    assert_eq!(read(json!({"path": "empty"})), "");
    let text = error(place.path(), "read", json!({"path": "f", "offset": 9}));
    assert!(text.contains("has 3 lines; cannot begin at line 9"), "{text}");
}

#[test]
fn read_cuts_what_is_long_and_says_how_to_go_on() {
    let place = folder();
    let lines: String = (1..=20_000).map(|number| format!("line {number}\n")).collect();
    fs::write(place.path().join("long"), &lines).unwrap();
    let mut seen = String::new();
    let mut offset = 1;
    loop {
        let text = ok(place.path(), "read", json!({"path": "long", "offset": offset}));
        let Some((part, note)) = text.split_once("\n[cut here") else {
            seen.push_str(&text);
            break;
        };
        seen.push_str(part);
        offset = note.rsplit_once(' ').unwrap().1.trim_end_matches(']').parse().unwrap();
    }
    assert_eq!(seen, lines);
    fs::write(place.path().join("wide"), "x".repeat(1_000_000) + "\nend\n").unwrap();
    let text = ok(place.path(), "read", json!({"path": "wide"}));
    assert!(
        text.ends_with(
            "[cut here: the beginning of line 1 is shown; the line after it has offset 2]"
        ),
        "{}",
        text.len()
    );
    assert_eq!(ok(place.path(), "read", json!({"path": "wide", "offset": 2})), "end\n");
    fs::write(place.path().join("one"), "x".repeat(1_000_000)).unwrap();
    let text = ok(place.path(), "read", json!({"path": "one"}));
    assert!(text.ends_with("line 1 is shown; there is no line after it]"), "{}", text.len());
}

#[test]
fn what_is_half_written_has_no_name() {
    let place = folder();
    let content = "x".repeat(30_000_000);
    let names = || fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
    std::thread::scope(|scope| {
        let writing =
            scope.spawn(|| ok(place.path(), "write", json!({"path": "f", "content": content})));
        while !writing.is_finished() {
            for path in names() {
                let size = fs::metadata(&path).map_or(30_000_000, |found| found.len());
                assert_eq!(size, 30_000_000, "killed now, it would leave {path:?} behind");
            }
        }
    });
    assert_eq!(names().collect::<Vec<_>>(), [place.path().join("f")]);
}

#[test]
fn read_refuses_what_is_no_text_or_not_there() {
    let place = folder();
    fs::write(place.path().join("binary"), b"\x7fELF\0\0").unwrap();
    for (path, what) in [
        ("binary", "binary file"),
        ("none", "no such file"),
        (".", "workspace folder itself"),
        ("../x", "out of"),
    ] {
        let text = error(place.path(), "read", json!({"path": path}));
        assert!(text.contains(what), "{text}");
    }
}

#[test]
fn write_creates_and_replaces_and_may_be_repeated() {
    let place = folder();
    let input = json!({"path": "a/b.txt", "content": "hi\n"});
    assert_eq!(ok(place.path(), "write", input.clone()), "created a/b.txt (3 bytes)");
    assert!(ok(place.path(), "write", input).starts_with("already had this content"));
    let other = json!({"path": "a/b.txt", "content": ""});
    assert_eq!(ok(place.path(), "write", other), "replaced a/b.txt (0 bytes)");
    let text = error(place.path(), "write", json!({"path": ".git/config", "content": ""}));
    assert!(text.contains("cannot write \".git/config\": .git is protected"), "{text}");
    let text = error(place.path(), "write", json!({"path": "a/b.txt/c", "content": ""}));
    assert!(text.contains("a/b.txt/c"), "{text}");
}

#[test]
fn edit_replaces_exactly_what_it_is_told() {
    let place = folder();
    let file = place.path().join("f");
    fs::write(&file, "a b a\n  indented\n").unwrap();
    let edit =
        |old: &str, new: &str, all: bool| json!({"path": "f", "old": old, "new": new, "all": all});
    let text = error(place.path(), "edit", edit("a", "c", false));
    assert!(text.contains("occurs 2 times (lines 1, 1)"), "{text}");
    let text = error(place.path(), "edit", edit("zzz", "c", false));
    assert!(text.contains("does not occur"), "{text}");
    let text = error(place.path(), "edit", edit("\tindented", "c", false));
    assert!(text.contains("line 2 would match if spaces"), "{text}");
    assert!(error(place.path(), "edit", edit("", "c", false)).contains("is empty"));
    assert!(error(place.path(), "edit", edit("b", "b", false)).contains("are the same"));
    assert_eq!(ok(place.path(), "edit", edit("b", "B", false)), "replaced the text in f, line 1");
    assert_eq!(ok(place.path(), "edit", edit("a", "A", true)), "replaced the text in f, 2 times");
    assert_eq!(fs::read_to_string(&file).unwrap(), "A B A\n  indented\n");
}

#[test]
fn edit_keeps_the_line_ends_of_a_file_whose_lines_end_in_cr_lf() {
    let place = folder();
    let file = place.path().join("f");
    let cases = [
        ("one\r\ntwo\r\nthree", "one\ntwo", "1\n2\n2b", "1\r\n2\r\n2b\r\nthree"),
        ("one\r\ntwo\r\n", "two", "two\nthree", "one\r\ntwo\r\nthree\r\n"),
        ("one\r\ntwo\r\n", "one\r\n", "1\n", "1\ntwo\r\n"),
        ("one\r\ntwo\nthree\n", "two\n", "2\n", "one\r\n2\nthree\n"),
    ];
    for (before, old, new, after) in cases {
        fs::write(&file, before).unwrap();
        let input = json!({"path": "f", "old": old, "new": new});
        for _ in 0..2 {
            assert_eq!(run_again(place.path(), "edit", input.clone()).status, Status::Ok, "{old}");
            assert_eq!(fs::read_to_string(&file).unwrap(), after);
        }
    }
}

#[test]
fn a_repeated_edit_is_done_once() {
    let place = folder();
    let file = place.path().join("f");
    for (before, old, new, after) in [
        ("one two\n", "two", "three", "one three\n"),
        ("use a;\n", "use a;\n", "use a;\nuse b;\n", "use a;\nuse b;\n"),
        ("keep drop\n", " drop", "", "keep\n"),
    ] {
        fs::write(&file, before).unwrap();
        let input = json!({"path": "f", "old": old, "new": new});
        for _ in 0..3 {
            assert_eq!(run_again(place.path(), "edit", input.clone()).status, Status::Ok);
            assert_eq!(fs::read_to_string(&file).unwrap(), after);
        }
    }
    let input = json!({"path": "f", "old": "never there", "new": "nor this"});
    assert_eq!(run_again(place.path(), "edit", input).status, Status::Error);
}

fn tree() -> tempfile::TempDir {
    let place = folder();
    for (path, text) in [
        ("src/a.rs", "fn Alpha() {}\nfn beta() {}\n"),
        ("src/deep/b.rs", "alpha\n"),
        ("src/c.txt", "alpha in text\n"),
        ("target/out.rs", "alpha ignored\n"),
        (".hidden/d.rs", "alpha hidden\n"),
        (".git/e.rs", "alpha in git\n"),
        (".gitignore", "target/\n"),
        ("top.rs", "nothing\n"),
    ] {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(place.path().join("binary.rs"), b"alpha\0\0").unwrap();
    let outside = place.path().parent().unwrap();
    symlink(outside, place.path().join("out")).unwrap();
    place
}

#[test]
fn glob_lists_sorted_paths_without_what_git_ignores() {
    let place = tree();
    let glob = |pattern: &str| ok(place.path(), "glob", json!({"pattern": pattern}));
    assert_eq!(glob("src/**/*.rs"), "src/a.rs\nsrc/deep/b.rs");
    assert_eq!(glob("**/*.rs"), ".hidden/d.rs\nbinary.rs\nsrc/a.rs\nsrc/deep/b.rs\ntop.rs");
    assert_eq!(glob("*.{rs,txt}"), "binary.rs\ntop.rs");
    assert_eq!(glob("out/**"), "");
    assert_eq!(glob(&format!("{}/src/*.rs", place.path().display())), "src/a.rs");
    let text = ok(place.path(), "glob", json!({"pattern": "**/*.rs", "limit": 2}));
    assert_eq!(text, ".hidden/d.rs\nbinary.rs\n[3 more paths are not shown]");
    assert!(error(place.path(), "glob", json!({"pattern": "src/[a"})).contains("is not a pattern"));
    assert!(
        error(place.path(), "glob", json!({"pattern": "../*"})).contains("out of the workspace")
    );
}

#[test]
fn grep_finds_lines_and_stays_inside() {
    let place = tree();
    let grep = |input: Value| ok(place.path(), "grep", input);
    assert_eq!(
        grep(json!({"pattern": "alpha"})),
        ".hidden/d.rs:1:alpha hidden\nsrc/c.txt:1:alpha in text\nsrc/deep/b.rs:1:alpha"
    );
    assert_eq!(
        grep(
            json!({"pattern": "^(fn )?ALPHA", "ignore_case": true, "glob": "*.rs", "path": "src"})
        ),
        "src/a.rs:1:fn Alpha() {}\nsrc/deep/b.rs:1:alpha"
    );
    assert_eq!(grep(json!({"pattern": "beta", "path": "src/a.rs"})), "src/a.rs:2:fn beta() {}");
    assert_eq!(grep(json!({"pattern": "absent"})), "");
    let below = place.path().canonicalize().unwrap();
    for glob in ["src/deep/*.rs".into(), "./src/deep/*.rs".into(), below.join("src/deep/*.rs")] {
        assert_eq!(grep(json!({"pattern": "alpha", "glob": glob})), "src/deep/b.rs:1:alpha");
    }
    let text = grep(json!({"pattern": "alpha", "limit": 1}));
    assert_eq!(
        text,
        ".hidden/d.rs:1:alpha hidden\n[more than 1 lines match; the rest is not shown]"
    );
    for (input, what) in [
        (json!({"pattern": "("}), "is not a regular expression"),
        (json!({"pattern": "a", "path": "none"}), "does not exist"),
        (json!({"pattern": "a", "path": "out"}), "leads out"),
        (json!({"pattern": "a", "glob": "[a"}), "is not a pattern"),
        (json!({"pattern": "a", "glob": "/elsewhere/*.rs"}), "grep glob \"/elsewhere/*.rs\""),
    ] {
        let text = error(place.path(), "grep", input);
        assert!(text.contains(what), "{text}");
    }
}

#[test]
fn long_lines_are_cut_and_a_cancelled_search_is_aborted() {
    let place = folder();
    fs::write(place.path().join("wide"), "ä".repeat(100_000)).unwrap();
    let text = ok(place.path(), "grep", json!({"pattern": "ä"}));
    assert!(text.len() < 1000 && text.contains("[... 199200 bytes more]"), "{text}");
    let cancel = Cancel::new();
    cancel.trigger();
    for tool in ["grep", "glob"] {
        let call = call(place.path(), tool, json!({"pattern": "a"}));
        let result = runtime::tool::run(&call, &services(Containment::Auto), &cancel);
        assert_eq!(result.status, Status::Aborted);
    }
}
