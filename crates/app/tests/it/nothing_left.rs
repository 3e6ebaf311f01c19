//! Without namespaces too, nothing that a task started outlives drivetrain, however it ends, and what a command ends with is
//! told as it was. Nothing else of drivetrain runs meanwhile that could clear up.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::environment::TestEnvironment;

/// The two ways in which a command has no namespace: by choice, and because none can be made.
const WAYS: [[&str; 2]; 2] = [["--sandbox", "reduced"], ["--no-sandbox", "--quiet"]];

fn place() -> TestEnvironment {
    without_namespaces(TestEnvironment::new())
}

/// The same place, in which no namespace can be made where there is no sandbox.
fn without_namespaces(place: TestEnvironment) -> TestEnvironment {
    use std::os::unix::fs::PermissionsExt;
    let bin = place.home().with_file_name("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("bwrap"), "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(bin.join("bwrap"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    place.with_variable("PATH", &path)
}

/// Those that work below a folder or were started with its name, but for this process: what they were started with.
fn running(root: &Path) -> Vec<String> {
    let listed = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let seen = |process: PathBuf| {
        let words = std::fs::read(process.join("cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let works_there =
            std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(root));
        let is_named = words.contains(&*root.to_string_lossy());
        (works_there || is_named).then_some(words)
    };
    listed.filter_map(seen).collect()
}

fn until_nothing_runs(place: &TestEnvironment) {
    let root = place.home().parent().unwrap().to_owned();
    place.until(|| running(&root).is_empty().then_some(()));
}

/// Goes into the background as daemons do, without anything by which it could be known; says when it is there.
const DAEMON: &str = "setsid env -i sh -c 'touch daemon; exec sleep 300' >/dev/null 2>&1 &";

#[test]
fn what_a_step_started_ends_with_a_drivetrain_that_is_killed() {
    for way in WAYS {
        let place = place();
        let command =
            format!("({DAEMON}) ; sh -c 'sleep 300; true' & touch begun; sleep 300; true");
        place.steps("task.toml", &[&command], "");
        let task = place.start(&[&["run", "task.toml"], &way[..]].concat());
        place.until_file("begun");
        place.until_file("daemon");
        task.signal("KILL");
        task.wait();
        until_nothing_runs(&place);
    }
}

#[test]
fn what_a_step_left_behind_ends_with_it() {
    for way in WAYS {
        let place = place();
        let command =
            format!("({DAEMON}) ; while ! test -e daemon; do sleep 0.01; done; echo said");
        place.steps("task.toml", &[&command], "");
        let ran = place.run(&[&["run", "task.toml"], &way[..]].concat());
        assert_eq!(ran.code, 0, "{way:?}: {}{}", ran.out, ran.err);
        assert_eq!(place.result("s1").trim(), "said");
        until_nothing_runs(&place);
    }
}

#[test]
fn what_an_agent_started_ends_with_a_drivetrain_that_is_killed() {
    let init = r#"{"type":"system","subtype":"init","session_id":"s1","permissionMode":"default"}"#;
    for way in WAYS {
        let steps = [init, "fork-daemon", "setsid-child", "run touch begun", "sleep 300"];
        let place = without_namespaces(TestEnvironment::with_played_agent(&steps));
        let run = ["run", "do it", "--agent", "played", "--unattended", "--in-place"];
        let task = place.start(&[&run[..], &way[..]].concat());
        place.until_file("begun");
        task.signal("KILL");
        task.wait();
        until_nothing_runs(&place);
    }
}

#[test]
fn a_command_ends_as_it_ended() {
    for way in WAYS {
        let how = |command: &str| {
            let place = place();
            place.steps("task.toml", &[command], "");
            let ran = place.run(&[&["run", "task.toml"], &way[..]].concat());
            let events = place.events(&place.id());
            let ended = events.iter().find(|event| event["type"] == "tool_ended");
            ended.unwrap_or_else(|| panic!("{}{}", ran.out, ran.err))["result"].clone()
        };
        let ended = how("echo said; exit 7");
        assert_eq!((&ended["exit"], &ended["text"]), (&7.into(), &"said\n".into()), "{way:?}");
        for (name, number) in [("KILL", 9), ("SEGV", 11), ("TERM", 15), ("USR1", 10), ("PIPE", 13)]
        {
            let ended = how(&format!("kill -s {name} $$"));
            let said = format!("killed by signal {number}");
            assert!(ended.to_string().contains(&said), "{way:?} {name}: {ended}");
            assert_eq!(ended["exit"], Value::Null, "{way:?} {name}: {ended}");
        }
    }
}

#[test]
fn a_command_has_nothing_of_drivetrain_open_but_its_streams() {
    // Whoever runs the tests may have left something open for everybody; the walls keep that out.
    let open = std::process::Command::new("ls").arg("/proc/self/fd").output().unwrap().stdout;
    for (way, open) in WAYS.into_iter().zip(["0\n1\n2\n3\n", &String::from_utf8(open).unwrap()]) {
        let place = place();
        place.steps("task.toml", &["ls /proc/self/fd"], "");
        let ran = place.run(&[&["run", "task.toml"], &way[..]].concat());
        assert_eq!(ran.code, 0, "{way:?}: {}{}", ran.out, ran.err);
        assert_eq!(place.result("s1"), open, "{way:?}");
    }
}

#[test]
fn a_command_that_ends_its_warden_leaves_nothing_that_can_be_known_and_behind_walls_it_cannot() {
    let ends = ["Operation not permitted", "killed by signal 9"];
    for (way, end) in WAYS.into_iter().zip(ends) {
        let place = place();
        let daemon = DAEMON.replace("env -i ", "");
        // The warden is the parent of the command.
        let command =
            format!("({daemon}) ; while ! test -e daemon; do sleep 0.01; done; kill -9 $PPID");
        place.steps("task.toml", &[&command], "");
        let ran = place.run(&[&["run", "task.toml"], &way[..]].concat());
        assert!(place.result("s1").contains(end), "{way:?}: {}{}", ran.out, ran.err);
        until_nothing_runs(&place);
    }
}
