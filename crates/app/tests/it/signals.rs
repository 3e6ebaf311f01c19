//! SIGINT and SIGTERM: the first lets the running step end, the second does not wait. A hangup is never the second.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::environment::{TestEnvironment, exists};

#[test]
fn the_first_signal_lets_the_running_step_end() {
    for signal in ["TERM", "INT"] {
        let environment = TestEnvironment::new();
        let wait = "touch one; while ! test -e go; do sleep 0.02; done; touch whole";
        environment.steps("task.toml", &[wait, "touch two"], "");
        let task = environment.start(&["run", "task.toml"]);
        environment.until_file("one");
        task.signal(signal);
        environment.until_draining(&task.id);
        environment.write("go", "");
        let id = task.id.clone();
        let ran = task.wait();
        assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("letting the running step end"), "{}", ran.out);
        assert!(exists(&environment.folder().join("whole")));
        assert!(!exists(&environment.folder().join("two")));
        assert_eq!(environment.run(&["resume", &id]).code, 0);
        assert!(exists(&environment.folder().join("two")));
    }
}

/// The shell of a terminal that is closed sends one, and the kernel another.
#[test]
fn a_terminal_that_is_closed_asks_once() {
    let environment = TestEnvironment::new();
    let wait = "touch one; while ! test -e go; do sleep 0.02; done; touch whole";
    environment.steps("task.toml", &[wait, "touch two"], "");
    let task = environment.start_by_env("--default-signal=HUP", &["run", "task.toml"]);
    environment.until_file("one");
    task.signal("HUP");
    environment.until_draining(&task.id);
    task.signal("HUP");
    environment.write("go", "");
    let id = task.id.clone();
    let ran = task.wait();
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(exists(&environment.folder().join("whole")), "{}", ran.out);
    assert_eq!(environment.run(&["resume", &id]).code, 0, "nothing is in doubt");
}

#[test]
fn a_hangup_that_nohup_has_ignored_stops_nothing() {
    let environment = TestEnvironment::new();
    let wait = "touch one; while ! test -e go; do sleep 0.02; done; touch whole";
    environment.steps("task.toml", &[wait, "touch two"], "");
    let task = environment.start_by_env("--ignore-signal=HUP", &["run", "task.toml"]);
    environment.until_file("one");
    task.signal("HUP");
    environment.write("go", "");
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(exists(&environment.folder().join("two")));
}

#[test]
fn the_second_signal_stops_at_once_and_leaves_the_step_in_doubt() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch one; sleep 60"], "");
    let task = environment.start(&["run", "task.toml", "--json"]);
    environment.until_file("one");
    task.signal("TERM");
    environment.until_draining(&task.id);
    task.signal("TERM");
    let id = task.id.clone();
    let ran = task.wait();
    assert_eq!(ran.code, 13);
    let last: serde_json::Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["outcome"], "waiting");
    insta::assert_snapshot!(environment.plain(&environment.ok(&["why", &id])), @"
    task ID: make the numbers add up

    It waits for a person.
      ? c1 is in doubt: shell was under way when it was cut off; did it run?
          command: touch one; sleep 60

    spent      1 turn, 1 tool call, TIME
    driver     workflow
    workspace  FOLDER (in place)
    sandbox    full, network none
    last news  WHEN

    next
      drivetrain resolve ID c1 --did      it ran to its end: take it as done
      drivetrain resolve ID c1 --did-not  it did not run: take it as failed
      drivetrain resolve ID c1 --retry    run it again
      drivetrain resume ID                then go on: no process drives it
    ");
    environment.ok(&["resolve", &id, "c1", "--did"]);
    assert_eq!(environment.run(&["resume", &id]).code, 0);
}

#[test]
fn a_reader_that_goes_away_does_not_stop_the_task() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["sleep 0.2; echo 1 >> out.txt", "echo 2 >> out.txt"], "");
    let mut child = environment
        .command(&["run", "task.toml", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap().take(2000))
        .read_line(&mut first)
        .unwrap();
    assert!(first.contains("task_started"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(environment.read("out.txt"), "1\n2\n");
}

#[test]
fn a_person_at_a_pipe_decides_line_by_line() {
    let environment = TestEnvironment::new();
    let ran = environment.run_with(
        &["run", "x", "--driver", "user", "--in-place"],
        "shell echo hi\nnonsense\n\nshell true\ndone all well\n",
    );
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    insta::assert_snapshot!(environment.plain(&ran.out), @r#"
    task ID: x
      driver user, no acceptance criteria
      works in FOLDER (in place): there is no way back, and checks run where the worker works
    ? What is the next move? Type help for the commands.
    > shell echo hi
    c1 shell: echo hi
    c1 ok: shell (TIME)
      | hi
    > nonsense
    ? there is no command "nonsense"; expected one of ask, edit, glob, grep, memory, patch, read, say, shell, skeleton, validator.run, view, write, done, fail, give up, help (help lists the commands)
    > shell true
    c2 shell: true
    c2 ok: shell (TIME)
    > done all well
    claims to be finished: all well

    completed: all well
    spent      2 turns, 2 tool calls, TIME
    workspace  FOLDER (in place)
    task       ID
    next
      drivetrain log ID  everything that happened
    "#);
    let environment = TestEnvironment::new();
    let ran = environment.run_with(&["run", "x", "--driver", "user", "--in-place"], "shell true\n");
    assert_eq!(ran.code, 13, "the end of input puts the task to rest");
    assert!(ran.out.contains("\nwaiting: the input that answers it has ended\n"), "{}", ran.out);
    let environment = TestEnvironment::new();
    let ran = environment.run_with(&["run", "x", "--driver", "user", "--in-place"], "quit\n");
    assert!(ran.out.contains("\nwaiting: its prompt was left\n"), "{}", ran.out);
}

/// A note asks for the next move anew; so does somebody else's move.
#[test]
fn a_move_that_is_typed_after_a_note_is_used() {
    let environment = TestEnvironment::new();
    let mut child = environment
        .command(&["run", "x", "--driver", "user", "--in-place"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let asks = || environment.tasks().first().is_some_and(|task| task["phase"] == "waiting");
    environment.until(|| asks().then_some(()));
    let id = environment.id();
    environment.ok(&["steer", &id, "mind the gap"]);
    environment.ok(&["answer", &id, "shell touch theirs; sleep 0.2"]);
    environment.until_file("theirs");
    let mut typed = child.stdin.take().unwrap();
    typed.write_all(b"shell touch mine\ndone\n").unwrap();
    drop(typed);
    let ran = environment.ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(exists(&environment.folder().join("mine")), "{}", ran.out);
    assert!(!ran.out.contains("not used"), "{}", ran.out);
}

#[test]
fn a_reader_that_does_not_read_keeps_nobody_from_stopping() {
    for json in [&["--json"][..], &[]] {
        let environment = TestEnvironment::new();
        let reply = |number: u32| {
            let call = format!("{{ tool = \"glob\", input = {{ pattern = \"{number}*\" }} }}");
            let text = format!("line {number}\\n").repeat(900);
            format!("[[reply]]\ntext = \"{text}\"\ntool_calls = [{call}]\n")
        };
        let waits = "[[reply]]\nstatus = 529\nretry_after = \"50s\"\n";
        let script = (0..60).map(reply).chain([waits.to_owned()]).collect::<String>();
        environment.write("s.toml", &script);
        let words = ["run", "talk", "--model", "script/s.toml", "--in-place"];
        let mut run = environment.command(&[&words[..], json].concat());
        let mut child = run.stdout(Stdio::piped()).spawn().unwrap();
        let unread = child.stdout.take().unwrap();
        let waiting = || rustix::io::ioctl_fionread(&unread).unwrap();
        // It is full once nothing more is added to it.
        environment.until(|| {
            let before = waiting();
            std::thread::sleep(std::time::Duration::from_millis(500));
            (before > 32 << 10 && before == waiting()).then_some(())
        });
        for _ in 0..2 {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            // Two of the same kind that come at once are one.
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        environment.until(|| child_has_ended(&child));
        assert_eq!(child.wait().unwrap().code(), Some(13));
        drop(unread);
        let id = environment.id();
        assert_eq!(environment.show(&id)["interrupted"], false, "it was put down");
    }
}

/// Whether a process is only waited for.
fn child_has_ended(child: &std::process::Child) -> Option<()> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    status.contains("State:\tZ").then_some(())
}
