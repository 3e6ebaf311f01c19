//! The `shell` tool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::effect::ToolCall;
use machine::task::{Workspace, WorkspaceKind};
use machine::time::Span;
use machine::tool::Status;
use runtime::process::{Cancel, Containment};
use serde_json::json;

use super::{Blobs, call, folder, run, services};

#[test]
fn a_command_runs_in_the_workspace_and_its_output_is_the_result() {
    let place = folder();
    let result =
        run(place.path(), "shell", json!({"command": "pwd; echo 1 >> out.txt; cat out.txt"}));
    let real = place.path().canonicalize().unwrap();
    assert_eq!(result.text, format!("{}\n1\n", real.display()));
    assert_eq!((result.status, result.exit), (Status::Ok, Some(0)));
}

#[test]
fn a_failing_command_is_an_error_with_its_output() {
    let place = folder();
    let result = run(place.path(), "shell", json!({"command": "echo no >&2; exit 4"}));
    assert_eq!(
        (result.status, result.exit, result.text.as_str()),
        (Status::Error, Some(4), "no\n")
    );
}

#[test]
fn a_command_that_takes_too_long_is_stopped_and_says_so() {
    let place = folder();
    let result =
        run(place.path(), "shell", json!({"command": "echo begun; sleep 60", "timeout": "300ms"}));
    assert_eq!(result.status, Status::TimedOut);
    assert_eq!(result.text, "begun\n[stopped: it ran longer than 300ms]");
    let mut slow = call(place.path(), "shell", json!({"command": "sleep 60", "timeout": "1h"}));
    slow.timeout = Some(Span(200));
    let result = runtime::tool::run(&slow, &services(Containment::Group), &Cancel::new());
    assert_eq!(result.status, Status::TimedOut);
    let result = run(place.path(), "shell", json!({"command": "true", "timeout": "5"}));
    assert!(result.text.contains("is not a duration"), "{}", result.text);
}

#[test]
fn a_cancelled_command_is_aborted() {
    let place = folder();
    let cancel = Cancel::new();
    cancel.trigger();
    let started = Instant::now();
    let call = call(place.path(), "shell", json!({"command": "sleep 60"}));
    let result = runtime::tool::run(&call, &services(Containment::Auto), &cancel);
    assert_eq!(result.status, Status::Aborted);
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn large_output_goes_to_a_blob_whole() {
    let place = folder();
    let blobs = Arc::new(Blobs::default());
    let mut services = services(Containment::Auto);
    services.blobs = blobs.clone();
    let call = call(place.path(), "shell", json!({"command": "seq 1 200000"}));
    let result = runtime::tool::run(&call, &services, &Cancel::new());
    let blob = result.blob.unwrap();
    assert!(result.text.starts_with("1\n2\n") && result.text.ends_with("200000\n"));
    assert!(result.text.contains("bytes are missing here"));
    let kept = blobs.0.lock().unwrap();
    assert_eq!(kept[0].len() as u64, blob.size);
    assert!(kept[0].ends_with(b"199999\n200000\n"));
}

#[test]
fn a_task_without_a_folder_and_a_wrong_call_are_told_so() {
    let place = folder();
    let nowhere = Workspace { kind: WorkspaceKind::None, path: None, branch: None, base: None };
    let call =
        ToolCall { workspace: nowhere, ..call(place.path(), "shell", json!({"command": "true"})) };
    let result = runtime::tool::run(&call, &services(Containment::Auto), &Cancel::new());
    assert_eq!(result.status, Status::Error);
    assert!(result.text.contains("kind \"none\""), "{}", result.text);
    let result = run(place.path(), "shell", json!({"cmd": "true"}));
    assert!(result.text.contains("no parameter \"cmd\""), "{}", result.text);
    let result = run(&place.path().join("gone"), "shell", json!({"command": "true"}));
    assert!(result.text.contains("cannot open the workspace folder"), "{}", result.text);
}
