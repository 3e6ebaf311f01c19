//! The order for a release: the program under `scripts/first-calls` does what it always does, and all it called is named.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::environment::TestEnvironment;

#[test]
fn a_task_that_is_watched_ends_as_always_and_every_function_is_named_once() {
    let place = TestEnvironment::new();
    place.steps("task.toml", &["echo one >> seen", "echo two >> seen"], "");
    let calls = place.home().join("calls");
    let usual = place.command(&["run", "task.toml", "--in-place"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/first-calls");
    let mut watched = Command::new(script);
    watched.arg(usual.get_program()).args(usual.get_args()).env_clear();
    for (name, value) in usual.get_envs() {
        watched.env(name, value.unwrap());
    }
    watched.env("FIRST_CALLS", &calls).current_dir(usual.get_current_dir().unwrap());
    let ran = place.ran(watched.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.read("seen"), "one\ntwo\n");

    let calls = fs::read_to_string(calls).unwrap();
    let names: Vec<&str> = calls.lines().collect();
    assert_eq!(names[0], "_start");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    // The main thread's, another thread's, and C.
    for part in ["drivetrain4main", "machine4step", "runtime7process", "sqlite3_open"] {
        assert!(names.iter().any(|name| name.contains(part)), "{part} among {}", names.len());
    }
}
