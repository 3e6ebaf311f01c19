//! Criteria pass only when they were seen to pass.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use machine::policy::sandbox::SandboxSpec;
use machine::task::{Criterion, CriterionResult, Workspace, WorkspaceKind, WorkspaceSpec};
use machine::time::Span;
use runtime::acceptance::{Claim, Places, verify};
use runtime::process::{Cancel, Containment};
use runtime::tool::ToolServices;

use super::{NONE, folder, in_place, running, services, unique};

fn shell(command: &str) -> Criterion {
    Criterion::Shell {
        command: command.to_owned(),
        exit: 0,
        stdout: None,
        timeout: Span::seconds(30),
        repeat: 1,
        red_first: false,
    }
}

fn file(path: &str, pattern: Option<&str>, forbidden: bool) -> Criterion {
    Criterion::File { path: path.to_owned(), pattern: pattern.map(str::to_owned), forbidden }
}

fn check(folder: &Path, criterion: Criterion) -> CriterionResult {
    let services = services(Containment::Auto);
    let results = in_workspace(&[criterion], &in_place(folder), &services, &Cancel::new());
    results.unwrap().into_iter().next().unwrap()
}

/// Checks criteria in a workspace itself, without walls.
fn in_workspace(
    criteria: &[Criterion],
    workspace: &Workspace,
    services: &ToolServices,
    cancel: &Cancel,
) -> Result<Vec<CriterionResult>, String> {
    let nowhere = Path::new("/nonexistent");
    let claim = Claim {
        goal: "a goal",
        task: "t1",
        criteria,
        workspace,
        spec: &WorkspaceSpec::default(),
        base: None,
        frozen: None,
        sandbox: &SandboxSpec::off(),
    };
    let places = Places { state_home: nowhere, checkouts: nowhere };
    Ok(verify(&claim, &places, services, cancel)?.results)
}

#[test]
fn a_command_passes_by_its_exit_code_and_its_output() {
    let place = folder();
    let result = check(place.path(), shell("echo fine; pwd"));
    assert!(result.passed && result.exit == Some(0));
    assert!(result.evidence.starts_with("fine\n/"));
    let result = check(place.path(), shell("echo 'assertion failed: 1 == 2' >&2; exit 3"));
    assert_eq!((result.passed, result.exit), (false, Some(3)));
    assert_eq!(result.evidence, "assertion failed: 1 == 2\n[exit code 3, expected 0]");
    assert_eq!(result.title, "shell: echo 'assertion failed: 1 == 2' >&2; exit 3");
    let with = |command: &str, exit, stdout: &str| Criterion::Shell {
        command: command.to_owned(),
        exit,
        stdout: Some(stdout.to_owned()),
        timeout: Span::seconds(30),
        repeat: 1,
        red_first: false,
    };
    assert!(check(place.path(), with("echo a; echo 12 passed; exit 2", 2, "^\\d+ passed$")).passed);
    let result = check(place.path(), with("echo 12 passed >&2", 0, "passed"));
    assert!(
        !result.passed && result.evidence.contains("standard output does not contain"),
        "{}",
        result.evidence
    );
    let result = check(place.path(), with("true", 0, "("));
    assert!(!result.passed && result.evidence.contains("is not a regular expression"));
}

#[test]
fn a_megabyte_of_output_passes_with_its_end_as_evidence() {
    let place = folder();
    let result =
        check(place.path(), shell("head -c 1048576 /dev/zero | tr '\\0' x; echo; echo the end"));
    assert!(result.passed);
    assert!(result.evidence.len() < 5000 && result.evidence.ends_with("x\nthe end\n"));
    let deep = Criterion::Shell {
        command: "echo needle; seq 1 500000".to_owned(),
        exit: 0,
        stdout: Some("needle".to_owned()),
        timeout: Span::seconds(30),
        repeat: 1,
        red_first: false,
    };
    assert!(check(place.path(), deep).passed);
}

#[test]
fn a_command_that_hangs_or_is_killed_has_failed() {
    let place = folder();
    let number = unique();
    let hanging = Criterion::Shell {
        command: format!("echo begun; (setsid sleep {number} &); sleep {number}"),
        exit: 0,
        stdout: None,
        timeout: Span(300),
        repeat: 1,
        red_first: false,
    };
    let result = check(place.path(), hanging);
    assert!(!result.passed && result.exit.is_none());
    assert_eq!(result.evidence, "begun\n[stopped: it ran longer than 300ms]");
    assert_eq!(running(&number), NONE);
    for containment in [Containment::Auto, Containment::Group] {
        let services = services(containment);
        let killed = [shell("kill -9 $$")];
        let results =
            in_workspace(&killed, &in_place(place.path()), &services, &Cancel::new()).unwrap();
        assert!(
            !results[0].passed && results[0].evidence.contains("signal 9"),
            "{}",
            results[0].evidence
        );
    }
}

#[test]
fn files_are_looked_at_beneath_the_workspace_only() {
    let place = folder();
    fs::write(place.path().join("f"), b"one\nversion = 2\n\xff\n").unwrap();
    fs::create_dir(place.path().join("d")).unwrap();
    symlink("/etc/passwd", place.path().join("out")).unwrap();
    symlink("gone", place.path().join("dangling")).unwrap();
    for (path, pattern, forbidden, passes) in [
        ("f", None, false, true),
        ("f", Some("^version = \\d$"), false, true),
        ("f", Some("^version = 3"), false, false),
        ("f", Some("version"), true, false),
        ("f", Some("todo"), true, true),
        ("f", None, true, false),
        ("none", None, false, false),
        ("none", None, true, true),
        ("none", Some("x"), true, true),
        ("none", Some("x"), false, false),
        ("d", None, false, false),
        ("d", None, true, false),
        ("out", Some("root"), false, false),
        ("out", Some("no such text"), true, false),
        ("../x", None, true, false),
        ("dangling", None, false, false),
        ("dangling", None, true, false),
        ("f", Some("("), true, false),
    ] {
        let result = check(place.path(), file(path, pattern, forbidden));
        assert_eq!(result.passed, passes, "{path} {pattern:?} {forbidden}: {}", result.evidence);
        assert!(!result.evidence.is_empty());
    }
}

#[test]
fn a_fifo_does_not_block_and_a_bad_expression_is_quick() {
    let place = folder();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(place.path().join("p"))
            .status()
            .unwrap()
            .success()
    );
    fs::write(place.path().join("a"), "a".repeat(200_000)).unwrap();
    let started = Instant::now();
    for criterion in
        [file("p", None, false), file("p", Some("x"), false), file("p", Some("x"), true)]
    {
        assert!(!check(place.path(), criterion).passed);
    }
    assert!(!check(place.path(), file("a", Some("(a+)+$x"), false)).passed);
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn every_criterion_has_a_result_in_order_and_cancelling_gives_none() {
    let place = folder();
    let criteria = [shell("touch made"), file("made", None, false), shell("false")];
    let services = services(Containment::Auto);
    let results =
        in_workspace(&criteria, &in_place(place.path()), &services, &Cancel::new()).unwrap();
    assert_eq!(results.iter().map(|result| result.passed).collect::<Vec<_>>(), [true, true, false]);
    let cancel = Cancel::new();
    cancel.trigger();
    assert!(in_workspace(&criteria, &in_place(place.path()), &services, &cancel).is_err());
    let none = Workspace { kind: WorkspaceKind::None, path: None, branch: None, base: None };
    assert!(
        in_workspace(&criteria, &none, &services, &Cancel::new()).unwrap_err().contains("\"none\"")
    );
    assert_eq!(in_workspace(&[], &none, &services, &Cancel::new()), Ok(Vec::new()));
}
