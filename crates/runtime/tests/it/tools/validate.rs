//! `validator.run` with real commands.

use std::fs;

use super::*;

fn written(checks: &[(&str, &str)]) -> TempDir {
    let folder = folder();
    fs::create_dir(folder.path().join(".drivetrain")).unwrap();
    let text: String = checks
        .iter()
        .map(|(name, command)| format!("[[check]]\nname = \"{name}\"\ncommand = '''{command}'''\n"))
        .collect();
    fs::write(folder.path().join(".drivetrain/validators.toml"), text).unwrap();
    folder
}

fn validate(folder: &TempDir) -> ToolResult {
    run(folder.path(), "validator.run", json!({}))
}

#[test]
fn a_broken_crate_is_reported_where_it_is_broken_and_passes_once_it_is_mended() {
    let folder = folder();
    fs::create_dir(folder.path().join("src")).unwrap();
    let manifest =
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    let source = folder.path().join("src/lib.rs");
    fs::write(&source, "pub fn five() -> String {\n    5\n}\n").unwrap();
    let result = validate(&folder);
    assert_eq!((result.status, result.exit), (Status::Error, Some(101)), "{}", result.text);
    let mut lines = result.text.lines();
    assert_eq!(lines.next(), Some("failed: cargo (exit 101)"));
    assert_eq!(lines.next(), Some("src/lib.rs:2:5 error mismatched types"));
    assert_eq!(lines.next(), Some(""));
    assert_eq!(lines.next(), Some("== cargo: cargo check --quiet --all-targets"));
    assert!(result.text.contains("expected `String`, found integer"), "{}", result.text);

    fs::write(&source, "pub fn five() -> u32 {\n    let six = 6;\n    5\n}\n").unwrap();
    let result = validate(&folder);
    assert_eq!((result.status, result.exit), (Status::Ok, Some(0)), "{}", result.text);
    assert_eq!(result.text, "ok: cargo\nsrc/lib.rs:2:9 warning unused variable: `six`");
}

#[test]
fn written_checks_win_and_each_is_named_with_its_end() {
    let folder = written(&[
        ("first", "true"),
        ("second", "echo 'a.c:3:1: warning: odd'; echo 'a.c:2:1: error: bad'; exit 3"),
        ("third", "echo 'a.c:2:1: error: bad'; kill -9 $$"),
    ]);
    fs::write(folder.path().join("Cargo.toml"), "").unwrap();
    let result = validate(&folder);
    assert_eq!((result.status, result.exit), (Status::Error, Some(3)));
    let (head, rest) = result.text.split_once("\n\n").unwrap();
    assert!(head.starts_with("failed: second (exit 3), third ("), "{head}");
    assert!(head.ends_with("; ok: first\na.c:2:1 error bad\na.c:3:1 warning odd"), "{head}");
    assert!(rest.starts_with("== second: echo"), "{rest}");
    assert!(rest.contains("a.c:3:1: warning: odd\na.c:2:1: error: bad\n\n== third: "), "{rest}");
}

#[test]
fn only_some_checks_can_be_asked_for() {
    let folder = written(&[("first", "echo > one"), ("second", "echo > two")]);
    let result = run(folder.path(), "validator.run", json!({ "only": ["second"] }));
    assert_eq!(result.text, "ok: second");
    assert!(!folder.path().join("one").exists() && folder.path().join("two").exists());
    let result = run(folder.path(), "validator.run", json!({ "only": ["third"] }));
    assert_eq!(result.text, "there is no check \"third\"; expected one of first, second");
    // Models fill in lists that they have nothing to say for.
    let result = run(folder.path(), "validator.run", json!({ "only": [] }));
    assert_eq!(result.text, "ok: first, second");
}

#[test]
fn a_folder_below_has_its_own_checks() {
    let folder = folder();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let rule =
        "test:\n\t@echo \"$(CURDIR)/a.c:1:2: error: in here\"; echo \"./b.c:3: there\"; false\n";
    fs::write(folder.path().join("sub/Makefile"), rule).unwrap();
    let result = validate(&folder);
    assert!(
        result
            .text
            .starts_with("no check is known for this folder; expected .drivetrain/validators.toml")
    );
    let result = run(folder.path(), "validator.run", json!({ "path": "sub" }));
    assert!(
        result.text.starts_with(
            "failed: make (exit 2)\nsub/a.c:1:2 error in here\nsub/b.c:3 error there\n"
        ),
        "{}",
        result.text
    );
}

#[test]
fn a_wrong_file_of_checks_runs_nothing_and_says_where_it_is_wrong() {
    let folder = written(&[("first", "echo > one")]);
    let file = folder.path().join(".drivetrain/validators.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}shell = true\n")).unwrap();
    let result = validate(&folder);
    assert_eq!(result.status, Status::Error);
    assert!(result.text.contains(".drivetrain/validators.toml:4:1"), "{}", result.text);
    assert!(!folder.path().join("one").exists());
}

#[test]
fn checks_outside_the_workspace_are_not_run() {
    let outside = written(&[("first", "echo > ran")]);
    let folder = folder();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
    let absolute = outside.path().to_str().unwrap();
    for path in ["link", "..", absolute, "link/.drivetrain"] {
        let result = run(folder.path(), "validator.run", json!({ "path": path }));
        assert_eq!(result.status, Status::Error, "{path}");
        assert!(result.text.contains("leads out of the workspace"), "{}", result.text);
    }
    std::os::unix::fs::symlink(
        outside.path().join(".drivetrain"),
        folder.path().join(".drivetrain"),
    )
    .unwrap();
    let result = validate(&folder);
    assert!(result.text.contains("leads out of the workspace"), "{}", result.text);
    assert!(!outside.path().join("ran").exists() && !folder.path().join("ran").exists());
}

#[test]
fn a_check_that_takes_too_long_is_stopped_with_everything_it_started() {
    let nap = unique();
    let folder = written(&[("slow", &format!("sleep {nap} & sleep {nap}")), ("quick", "true")]);
    let call = ToolCall {
        timeout: Some(machine::time::Span(300)),
        ..call(folder.path(), "validator.run", json!({ "only": ["slow"] }))
    };
    let result = runtime::tool::run(&call, &services(Containment::Auto), &Cancel::new());
    assert_eq!(result.status, Status::TimedOut, "{}", result.text);
    assert_eq!(running(&nap), NONE);
}

#[test]
fn a_cancelled_check_is_aborted() {
    let folder = written(&[("slow", "echo > begun; sleep 600")]);
    let cancel = Cancel::new();
    let call = call(folder.path(), "validator.run", json!({}));
    let handle = {
        let cancel = cancel.clone();
        std::thread::spawn(move || runtime::tool::run(&call, &services(Containment::Auto), &cancel))
    };
    eventually("the check has begun", || folder.path().join("begun").exists());
    cancel.trigger();
    let result = handle.join().unwrap();
    assert_eq!(result.status, Status::Aborted);
    assert_eq!(result.text, "stopped while the check \"slow\" ran");
}

#[test]
fn a_long_output_is_shown_by_its_end_and_kept_whole() {
    let folder = written(&[(
        "loud",
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo \"a.c:$i:1: error: number $i\"; done; exit 1",
    )]);
    let result = validate(&folder);
    assert!(result.text.contains("\na.c:50:1 error number 50\n["), "{}", result.text);
    assert!(result.text.contains(" more are not listed]\n"), "{}", result.text);
    assert!(result.text.ends_with("a.c:3000:1: error: number 3000"), "{}", result.text);
    assert!(result.text.len() < 10_000);
    assert!(result.blob.unwrap().size > 70_000);
}
