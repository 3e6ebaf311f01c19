//! Process trees end whole; output is bounded; nothing secret is handed on.

use std::path::Path;
use std::time::{Duration, Instant};

use runtime::process::{
    Cancel, Child, Containment, Finished, HEAD, ProcessSpec, ReadError, Streams, TAIL,
    namespaces_work, reap_leftovers, run,
};

use super::{NONE, eventually, folder, running, unique};

const BOTH: [Containment; 2] = [Containment::Auto, Containment::Group];

fn sh(command: &str, containment: Containment) -> ProcessSpec {
    ProcessSpec { containment, ..ProcessSpec::new(["sh", "-c", command]) }
}

fn finish(spec: ProcessSpec) -> Finished {
    run(spec, &Cancel::new()).unwrap()
}

/// Leaves its session by a double fork, as daemons do, and lets others do the same.
fn daemons(number: &str) -> String {
    format!(
        "(setsid sh -c '(sleep {number} &) ; sleep {number}' &) ; setsid sleep {number} & sleep {number}"
    )
}

#[test]
fn output_comes_in_the_order_of_the_writes_with_the_exit_code() {
    for containment in BOTH {
        let finished = finish(sh("echo a; echo b >&2; echo c; exit 7", containment.clone()));
        assert_eq!((finished.exit, finished.output.text().as_str()), (Some(7), "a\nb\nc\n"));
        let spec = ProcessSpec {
            streams: Streams::Separate,
            ..sh("echo a; echo b >&2", containment.clone())
        };
        let finished = finish(spec);
        assert_eq!(finished.stdout.text(), "a\n");
        assert_eq!(finished.stderr.text(), "b\n");
        assert_eq!(finished.output.total(), 4);
    }
}

#[test]
fn standard_output_is_captured_alone_after_standard_error_was_closed() {
    let spec = ProcessSpec {
        streams: Streams::Separate,
        ..sh("exec 2>&-; echo a; sleep 0.1; echo b", Containment::Group)
    };
    assert_eq!(finish(spec).stdout.text(), "a\nb\n");
}

#[test]
fn input_is_handed_over_whole_and_an_early_end_of_the_reader_is_no_error() {
    for containment in BOTH {
        let bytes = vec![b'x'; 3_000_000];
        let spec = ProcessSpec { stdin: Some(bytes.clone()), ..sh("wc -c", containment.clone()) };
        assert_eq!(finish(spec).output.text().trim(), "3000000");
        let spec = ProcessSpec { stdin: Some(bytes), ..sh("exit 3", containment.clone()) };
        assert_eq!(finish(spec).exit, Some(3));
        assert_eq!(finish(sh("cat", containment.clone())).exit, Some(0));
    }
}

#[test]
fn a_timeout_ends_the_whole_tree_with_its_daemons() {
    for containment in BOTH {
        let number = unique();
        let spec = ProcessSpec {
            timeout: Some(Duration::from_millis(500)),
            grace: Duration::from_millis(200),
            ..sh(&daemons(&number), containment.clone())
        };
        let finished = finish(spec);
        assert!(finished.timed_out && !finished.cancelled);
        assert_eq!(running(&number), NONE, "{containment:?}");
    }
}

#[test]
fn cancelling_ends_the_whole_tree_with_its_daemons() {
    for containment in BOTH {
        let number = unique();
        let cancel = Cancel::new();
        let (handle, seen) = (cancel.clone(), number.clone());
        let watcher = std::thread::spawn(move || {
            eventually("four sleepers", || running(&seen).len() == 4);
            handle.trigger();
        });
        let finished = run(sh(&daemons(&number), containment.clone()), &cancel).unwrap();
        watcher.join().unwrap();
        assert!(finished.cancelled && !finished.timed_out);
        assert!(finished.duration < Duration::from_secs(30));
        assert_eq!(running(&number), NONE, "{containment:?}");
    }
}

#[test]
fn a_command_that_ends_takes_its_daemons_with_it() {
    for containment in BOTH {
        let number = unique();
        let command = format!(
            "(setsid sleep {number} >/dev/null 2>&1 &); sleep {number} >/dev/null 2>&1 & echo ok"
        );
        let finished = finish(sh(&command, containment.clone()));
        assert_eq!((finished.exit, finished.output.text().as_str()), (Some(0), "ok\n"));
        assert_eq!(running(&number), NONE, "{containment:?}");
    }
}

#[test]
fn a_program_that_stays_in_its_session_is_looked_for_elsewhere_only_if_it_had_to_be_killed() {
    // One that has left when the line goes on, and one that stays.
    let two = |number: &str| {
        let leaves = format!("setsid sh -c 'echo; exec sleep {number} >/dev/null 2>&1'");
        format!("({leaves} &) | read -r left; sleep {number} >/dev/null 2>&1 &")
    };
    let number = unique();
    assert_eq!(finish(sh(&two(&number), Containment::Session)).exit, Some(0));
    eventually("the one that stayed ends", || running(&number).len() == 1);
    let left = rustix::process::Pid::from_raw(running(&number)[0]).unwrap();
    assert_eq!(rustix::process::getsid(Some(left)).unwrap(), left);
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();

    let number = unique();
    let deaf = format!("trap '' TERM; {} while :; do sleep 0.05; done", two(&number));
    let spec = ProcessSpec {
        timeout: Some(Duration::from_millis(500)),
        grace: Duration::from_millis(100),
        ..sh(&deaf, Containment::Session)
    };
    assert!(finish(spec).timed_out);
    assert_eq!(running(&number), NONE);
}

#[test]
fn a_command_is_asked_to_end_before_it_is_killed() {
    for containment in BOTH {
        let command = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
        let spec = ProcessSpec {
            timeout: Some(Duration::from_millis(1500)),
            ..sh(command, containment.clone())
        };
        let finished = finish(spec);
        assert!(finished.timed_out);
        let text = finished.output.text();
        assert!(
            text.starts_with("ready\n") && text.ends_with("asked\n"),
            "{containment:?}: {text}"
        );
        let number = unique();
        let spec = ProcessSpec {
            timeout: Some(Duration::from_millis(300)),
            grace: Duration::from_millis(300),
            ..sh(&format!("trap '' TERM; sleep {number}; sleep {number}"), containment.clone())
        };
        assert!(finish(spec).duration < Duration::from_secs(30));
        assert_eq!(running(&number), NONE, "{containment:?}");
    }
}

#[test]
fn a_grandchild_that_keeps_the_output_open_does_not_hang_the_call() {
    for containment in BOTH {
        let number = unique();
        let finished = finish(sh(&format!("sleep {number} & echo done"), containment.clone()));
        assert_eq!(finished.output.text(), "done\n");
        assert!(finished.duration < Duration::from_secs(30));
        assert_eq!(running(&number), NONE, "{containment:?}");
    }
}

#[test]
fn a_gigabyte_of_output_is_bounded_in_memory_and_counted() {
    let before = resident();
    let finished = finish(sh("head -c 1000000000 /dev/zero", Containment::Auto));
    assert_eq!(finished.output.total(), 1_000_000_000);
    assert!(finished.output.kept() <= 64 * 1024 * 1024);
    assert!(finished.output.text().len() < HEAD + TAIL + 200);
    assert!(resident() < before + 48 * 1024 * 1024, "{} then {}", before, resident());
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn the_environment_holds_no_key_and_a_listed_one_is_refused() {
    let helper = std::env::current_exe().unwrap();
    let output = std::process::Command::new(helper)
        .args(["--exact", "tools::process::helper", "--nocapture"])
        .env("HELPER", "environment")
        .env("ANTHROPIC_API_KEY", "sk-mark-of-a-key")
        .env("LC_TOKEN", "mark-of-a-key")
        .env("SOMETHING_ELSE", "mark-of-a-key")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("PATH=") && text.contains("LISTED=yes"), "{text}");
    assert!(!text.contains("mark-of-a-key"), "{text}");
    for (name, value) in
        [("API_KEY", "x"), ("GH_TOKEN", "x"), ("INNOCENT", "ghp_abc"), ("DB_PASSWORD", "x")]
    {
        let env = vec![(name.to_owned(), value.to_owned())];
        let error =
            run(ProcessSpec { env, ..sh("true", Containment::Auto) }, &Cancel::new()).unwrap_err();
        assert!(error.to_string().contains("looks like a secret"), "{error}");
    }
}

#[test]
fn a_missing_program_or_folder_is_named() {
    for containment in BOTH {
        let spec = ProcessSpec {
            containment: containment.clone(),
            ..ProcessSpec::new(["no-such-program-here"])
        };
        let error = run(spec, &Cancel::new()).unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"), "{error}");
        let spec =
            ProcessSpec { cwd: Some("/no/such/folder".into()), ..sh("true", containment.clone()) };
        let error = run(spec, &Cancel::new()).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }
}

/// The numbers of signals in one of the sets that the system tells of a process.
fn signals(status: &str, set: &str) -> Vec<u32> {
    let line = status.lines().find(|line| line.starts_with(set)).unwrap();
    let bits = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
    (1..=64).filter(|number| bits >> (number - 1) & 1 == 1).collect()
}

#[test]
fn a_command_begins_with_nothing_of_our_signals_and_ours_are_as_before() {
    let own = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let before = own();
    // This test's own process leaves signals of closed pipes out, as every Rust program does.
    assert!(signals(&before, "SigIgn:").contains(&13));
    let spec = ProcessSpec {
        containment: Containment::Group,
        ..ProcessSpec::new(["cat", "/proc/self/status"])
    };
    let status = finish(spec).output.text();
    assert!(signals(&status, "SigBlk:").is_empty(), "{status}");
    assert!(signals(&status, "SigCgt:").is_empty(), "{status}");
    assert!(!signals(&status, "SigIgn:").contains(&13), "{status}");
    assert_eq!(signals(&own(), "SigBlk:"), signals(&before, "SigBlk:"));
    let killed = finish(sh("kill -s PIPE $$", Containment::Group));
    assert_eq!(killed.signal, Some(13));
}

#[test]
fn what_is_no_program_is_an_error_and_leaves_no_child() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = folder.path().join("text");
    std::fs::write(&path, "no program\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let number = unique();
    let spec = |argv: Vec<std::ffi::OsString>| ProcessSpec {
        containment: Containment::Group,
        ..ProcessSpec::new(argv)
    };
    let said = run(spec(vec![path.into(), (&number).into()]), &Cancel::new()).unwrap_err();
    assert!(said.to_string().contains("Exec format error"), "{said}");
    let said = run(spec(vec!["echo".into(), "a\0b".into()]), &Cancel::new()).unwrap_err();
    assert!(said.to_string().contains("NUL byte"), "{said}");
    assert_eq!(running(&number), NONE);
}

#[test]
fn commands_have_no_terminal() {
    for containment in BOTH {
        let finished =
            finish(sh("(: </dev/tty) 2>/dev/null && echo has || echo none", containment.clone()));
        assert_eq!(finished.output.text(), "none\n");
    }
}

#[test]
fn many_commands_at_once_end_in_any_order() {
    std::thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                let command = format!("sleep 0.{}; echo {number}", 8 - number);
                let finished = finish(sh(&command, BOTH[number % 2].clone()));
                assert_eq!(finished.output.text(), format!("{number}\n"));
            });
        }
    });
}

/// Not a test of its own: what the tests start this binary again for.
#[test]
fn helper() {
    let Ok(task) = std::env::var("HELPER") else { return };
    let (task, rest) = task.split_once(' ').unwrap_or((&task, ""));
    let env = vec![("LISTED".to_owned(), "yes".to_owned())];
    let spec = match task {
        "environment" => ProcessSpec { env, ..sh("env", Containment::Auto) },
        _ => {
            let (marks, number) = rest.split_once(' ').unwrap();
            let containment = if task == "auto" { Containment::Auto } else { Containment::Group };
            let mark_dir = Some(marks.into());
            ProcessSpec {
                mark_dir,
                mark: "killed".to_owned(),
                ..sh(&daemons(number), containment.clone())
            }
        }
    };
    println!("{}", finish(spec).output.text());
}

/// Starts a runner with daemons below it and kills it as a crash would.
fn killed_runner(kind: &str, marks: &Path, number: &str) {
    let mut runner = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tools::process::helper", "--nocapture"])
        .env("HELPER", format!("{kind} {} {number}", marks.display()))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("four sleepers", || running(number).len() == 4);
    assert_eq!(reap_leftovers(marks), [], "the marks of a living runner are left alone");
    runner.kill().unwrap();
    runner.wait().unwrap();
}

#[test]
fn killing_the_runner_leaves_no_process_where_namespaces_work() {
    let (marks, number) = (folder(), unique());
    killed_runner("auto", marks.path(), &number);
    if !namespaces_work() {
        assert_eq!(reap_leftovers(marks.path()).len(), 1);
    }
    eventually("no sleepers", || running(&number).is_empty());
    reap_leftovers(marks.path());
    assert_eq!(std::fs::read_dir(marks.path()).unwrap().count(), 0);
}

#[test]
fn leftovers_of_a_killed_runner_are_reaped_and_others_are_not() {
    let (marks, number) = (folder(), unique());
    killed_runner("group", marks.path(), &number);
    assert!(
        !running(&number).is_empty(),
        "without a namespace and a warden, daemons outlive the runner"
    );
    // A mark whose leader's number now belongs to somebody else.
    let innocent = unique();
    let mut bystander = std::process::Command::new("sleep").arg(&innocent).spawn().unwrap();
    let path = std::fs::read_dir(marks.path()).unwrap().next().unwrap().unwrap().path();
    let mut forged: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    forged["leader"] = bystander.id().into();
    forged["leader_start"] = 1.into();
    forged["stamp"] = "another.stamp".into();
    std::fs::write(marks.path().join("forged.json"), forged.to_string()).unwrap();

    let reaped = reap_leftovers(marks.path());
    assert_eq!(reaped.len(), 2);
    assert!(reaped.iter().all(|reaped| reaped.mark == "killed"));
    eventually("no sleepers", || running(&number).is_empty());
    assert_eq!(running(&innocent).len(), 1);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(std::fs::read_dir(marks.path()).unwrap().count(), 0);
}

#[test]
fn a_finished_command_leaves_no_mark() {
    let marks = folder();
    let spec =
        ProcessSpec { mark_dir: Some(marks.path().into()), ..sh("ls | wc -l", Containment::Auto) };
    assert_eq!(finish(spec).exit, Some(0));
    assert_eq!(std::fs::read_dir(marks.path()).unwrap().count(), 0);
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

#[test]
fn a_child_is_talked_to_line_by_line_from_any_thread() {
    for containment in BOTH {
        let spec =
            sh("while read line; do echo \"got $line\"; done; echo bye >&2", containment.clone());
        // Started by a thread that is gone when the first line is written.
        let mut child = std::thread::spawn(|| Child::spawn(spec).unwrap()).join().unwrap();
        let cancel = Cancel::new();
        for word in ["one", "two"] {
            child.write_line(word, &Cancel::new()).unwrap();
            let line = child.read_line(soon(), 100, &cancel).unwrap();
            assert_eq!(line, Some(format!("got {word}")));
        }
        child.close_stdin();
        assert_eq!(child.read_line(soon(), 100, &cancel).unwrap(), None);
        assert_eq!(child.wait(Duration::from_secs(30)).unwrap().code, Some(0));
        assert_eq!(child.stderr_tail(), "bye\n");
        assert!(child.write_line("three", &Cancel::new()).is_err());
    }
}

#[test]
fn a_child_that_is_silent_endless_or_garbled_is_a_typed_error() {
    let command = "printf 'tail without end' ; read line; printf '%0500d\\n' 1; printf '\\377\\n'; echo fine; printf last";
    let mut child = Child::spawn(sh(command, Containment::Group)).unwrap();
    let cancel = Cancel::new();
    let short = Instant::now() + Duration::from_millis(50);
    assert!(matches!(child.read_line(short, 400, &cancel), Err(ReadError::TimedOut)));
    let cancelled = Cancel::new();
    cancelled.trigger();
    assert!(matches!(child.read_line(soon(), 400, &cancelled), Err(ReadError::Cancelled)));
    child.write_line("go", &Cancel::new()).unwrap();
    assert!(matches!(
        child.read_line(soon(), 400, &cancel),
        Err(ReadError::TooLong { limit: 400 })
    ));
    let line = child.read_line(soon(), 4000, &cancel).unwrap().unwrap();
    assert!(line.starts_with("tail without end0") && line.ends_with("01"));
    let rest: Vec<String> = std::iter::from_fn(|| match child.read_line(soon(), 4000, &cancel) {
        Err(ReadError::NotText) => Some("garbled".to_owned()),
        other => other.unwrap(),
    })
    .collect();
    assert_eq!(rest, ["garbled", "fine", "last"]);
}

#[test]
fn dropping_a_child_ends_its_whole_tree() {
    for containment in BOTH {
        let number = unique();
        let child = Child::spawn(sh(&daemons(&number), containment.clone())).unwrap();
        eventually("four sleepers", || running(&number).len() == 4);
        drop(child);
        assert_eq!(running(&number), NONE, "{containment:?}");
    }
}

#[test]
fn a_child_that_does_not_end_by_itself_is_ended() {
    let number = unique();
    let mut child = Child::spawn(sh(&format!("sleep {number}"), Containment::Auto)).unwrap();
    assert!(child.finish(Duration::from_millis(50)).is_some());
    assert_eq!(running(&number), NONE);
    let error = Child::spawn(ProcessSpec::new(["no-such-program-here"])).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
