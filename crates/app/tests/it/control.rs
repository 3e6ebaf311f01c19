//! Commands to a task that runs in another process.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use crate::environment::{TestEnvironment, exists};

/// Where the running processes listen.
fn sockets(environment: &TestEnvironment) -> Vec<PathBuf> {
    std::fs::read_dir(environment.home().join("run"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .collect()
}

#[test]
fn a_running_task_is_paused_and_goes_on_where_it_runs() {
    let environment = TestEnvironment::new();
    environment.steps(
        "task.toml",
        &["touch one; while ! test -e go; do sleep 0.02; done", "touch two"],
        "",
    );
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    let id = &task.id[..6];
    let refused = environment.run(&["resume", id]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("is driven by process"), "{}", refused.err);
    insta::assert_snapshot!(environment.plain(&environment.ok(&["pause", id])), @"task ID is paused");
    environment.write("go", "");
    environment.until(|| (environment.types(id).last()? == "tool_ended").then_some(()));
    assert_eq!(environment.show(id)["phase"], "paused");
    assert!(!exists(&environment.folder().join("two")));
    assert!(environment.ok(&["resume", id]).contains("goes on in process"));
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(exists(&environment.folder().join("two")));
}

#[test]
fn notes_and_budgets_reach_a_running_task() {
    let environment = TestEnvironment::new();
    let budget = "[budget]\nmax_turns = 1\n";
    environment.steps(
        "task.toml",
        &["touch one; while ! test -e go; do sleep 0.02; done", "true"],
        budget,
    );
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    environment.ok(&["steer", &task.id, "be", "quick", "--json"]);
    let told = environment.ok(&["follow-up", &task.id, "then rest"]);
    assert!(told.contains("\nits steps do what was written, and nobody reads the note"), "{told}");
    let raised: serde_json::Value =
        serde_json::from_str(&environment.ok(&["raise", &task.id, "--max-turns", "9", "--json"]))
            .unwrap();
    assert_eq!((&raised["v"], &raised["ok"]), (&1.into(), &true.into()));
    assert_eq!(raised["process"], task.pid());
    assert_eq!(environment.run(&["raise", &task.id, "--max-turns", "9"]).code, 2);
    assert_eq!(environment.run(&["raise", &task.id, "--max-usd", "9"]).code, 2);
    environment.write("go", "");
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("steered: be quick"), "{}", ran.out);
    let types = environment.types(&environment.id());
    for expected in ["note_queued", "note_delivered", "budget_raised", "rejected"] {
        assert!(types.iter().any(|kind| kind == expected), "{expected}: {types:?}");
    }
}

#[test]
fn an_interrupt_stops_what_runs_and_tells_the_driver() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch one; sleep 60"], "");
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    environment.ok(&["interrupt", &task.id, "wrong", "folder"]);
    let ran = task.wait();
    assert!(ran.out.contains("interrupted: wrong folder"), "{}", ran.out);
    assert!(ran.out.contains("c1 aborted"), "{}", ran.out);
}

#[test]
fn whoever_takes_over_decides_at_once_though_a_question_is_open() {
    let environment = TestEnvironment::new();
    let ask = "[[reply]]\ntool_calls = [{ tool = \"ask\", input = { question = \"Which?\" } }]\n";
    environment.write("replies.toml", ask);
    let ran = environment.run(&["run", "g", "--model", "script/replies.toml", "--unattended"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let id = environment.id();
    environment.ok(&["hand-over", &id, "--driver", "user"]);
    let why = environment.ok(&["why", &id]);
    assert!(!why.contains("Which?"), "{why}");
    assert!(why.contains("llm, handed over to user"), "{why}");
    let ran = environment.run_with(&["resume", &id], "done it is the first\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("driver llm handed over to user"), "{}", ran.out);
}

#[test]
fn a_model_that_takes_over_from_a_person_has_an_end() {
    let environment = TestEnvironment::new();
    environment.write("replies.toml", "[[reply]]\ntext = \"done\"\n");
    let ran = environment.run_with(&["run", "g", "--driver", "user"], "say one\n");
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let id = environment.id();
    assert!(!environment.ok(&["show", &id]).contains(" of "));
    environment.ok(&["hand-over", &id, "--model", "script/replies.toml"]);
    let shown = environment.ok(&["show", &id]);
    assert!(shown.contains("1 turn of 1001"), "{shown}");
    environment.ok(&["raise", &id, "--max-turns", "2000"]);
}

#[test]
fn a_task_is_handed_over_and_finished_by_a_person() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["exit 1"], "");
    assert_eq!(environment.run(&["run", "task.toml"]).code, 10);
    let id = environment.id();
    let wrong = environment.run(&["hand-over", &id, "--driver", "usr"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    let wrong =
        environment.run(&["hand-over", &id, "--driver", "workflow", "--config", "{\"steps\": 1}"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    environment.ok(&["hand-over", &id, "--driver", "user"]);
    let ran = environment.run_with(&["resume", &id], "shell touch two\ndone it works\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    insta::assert_snapshot!(environment.plain(&ran.out), @"
    task ID: make the numbers add up (goes on)
    driver workflow handed over to user
    ? What is the next move? Type help for the commands.
    > shell touch two
    c2 shell: touch two
    c2 ok: shell (TIME)
    > done it works
    claims to be finished: it works

    completed: it works
    spent      2 turns, 2 tool calls, TIME
    workspace  FOLDER (in place)
    task       ID
    next
      drivetrain log ID  everything that happened
    ");
    assert!(exists(&environment.folder().join("two")));
}

#[test]
fn the_control_socket_is_for_its_owner_only_and_goes_with_its_process() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch one; sleep 60"], "");
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    let found = sockets(&environment);
    assert_eq!(found.len(), 1);
    assert_eq!(std::fs::metadata(&found[0]).unwrap().permissions().mode() & 0o777, 0o600);
    environment.ok(&["cancel", &task.id]);
    task.wait();
    assert!(sockets(&environment).is_empty());
}

#[test]
fn a_log_is_followed_to_the_end() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch one; while ! test -e go; do sleep 0.02; done"], "");
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    let follower = environment
        .command(&["log", &task.id, "--follow", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    environment.write("go", "");
    let ended = follower.wait_with_output().unwrap();
    let followed = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "", "nobody is gone who is done");
    let last: serde_json::Value = serde_json::from_str(followed.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "task_finished");
    assert_eq!(last["seq"], followed.lines().count());
    assert_eq!(task.wait().code, 0);
}

#[test]
fn commands_to_a_task_at_rest_are_kept_and_say_how_to_go_on() {
    let environment = TestEnvironment::new();
    assert_eq!(environment.run(&["run", "x y", "--driver", "user", "--in-place"]).code, 13);
    let id = environment.id();
    insta::assert_snapshot!(environment.plain(&environment.ok(&["steer", &id, "use make"])), @"
    task ID has the note
    no process drives it: drivetrain resume ID goes on
    ");
    environment.ok(&["answer", &id, "shell touch two"]);
    let ran = environment.run_with(&["resume", &id], "done\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(exists(&environment.folder().join("two")));
    let refused = environment.run(&["pause", &id]);
    insta::assert_snapshot!(environment.plain(&refused.err), @"error: the task has ended: completed");
}

#[test]
fn a_process_that_was_stopped_and_goes_on_hears_the_rest_of_a_request() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch one; while ! test -e go; do sleep 0.02; done"], "");
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    let stream = UnixStream::connect(&sockets(&environment)[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request =
        format!(r#"{{"v":1,"task":"{}","command":{{"steer":{{"text":"on"}}}}}}"#, task.id);
    let (first, rest) = request.split_at(20);
    (&stream).write_all(first.as_bytes()).unwrap();
    // Long enough that it waits for the rest.
    std::thread::sleep(Duration::from_millis(100));
    for signal in ["STOP", "CONT"] {
        task.signal(signal);
        std::thread::sleep(Duration::from_millis(50));
    }
    (&stream).write_all(format!("{rest}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).unwrap();
    assert!(answer.contains("\"ok\":true"), "{answer}");
    environment.write("go", "");
    assert_eq!(task.wait().code, 0);
}

#[test]
fn a_stopped_process_is_named_at_once_and_told_nothing() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch one; while ! test -e go; do sleep 0.02; done"], "");
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    task.signal("STOP");
    let pid = i32::try_from(task.pid()).unwrap();
    environment.until(|| runtime::process::is_stopped(pid).then_some(()));
    let cancel = environment.run(&["cancel", &task.id]);
    assert_eq!((cancel.code, cancel.out.as_str()), (20, ""), "{}", cancel.err);
    assert!(cancel.err.contains("is stopped (Ctrl-Z)"), "{}", cancel.err);
    assert!(cancel.err.contains(&format!("kill -CONT {pid}")), "{}", cancel.err);
    task.signal("CONT");
    environment.write("go", "");
    let ran = task.wait();
    assert_eq!(ran.code, 0, "it was not cancelled: {}{}", ran.out, ran.err);
}

#[test]
fn a_task_is_not_taken_from_a_living_process_that_cannot_be_reached() {
    let environment = TestEnvironment::new();
    let wait = "touch one; while ! test -e go; do sleep 0.02; done";
    environment.steps("task.toml", &[wait, "touch two"], "");
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    // Whoever tidies up old files takes it away.
    sockets(&environment).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    for command in [&["steer", &task.id, "be quick"][..], &["cancel", &task.id]] {
        let told = environment.run(command);
        assert_eq!(told.code, 20, "{}{}", told.out, told.err);
        assert!(told.err.contains(&format!("process {}", task.pid())), "{}", told.err);
        assert!(told.err.contains("kill"), "{}", told.err);
    }
    environment.write("go", "");
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(exists(&environment.folder().join("two")));
}

#[test]
fn a_command_whose_process_ends_before_it_answers_is_given_all_the_same() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch one; sleep 60"], "");
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    // In its place the command is heard by somebody who never answers.
    let (socket, own) = (&sockets(&environment)[0], environment.home().join("run/own"));
    let listener = UnixListener::bind(&own).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&own, socket).unwrap();
    let mut cancel = environment.command(&["cancel", &task.id]);
    let cancel = cancel.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let heard = listener.accept().unwrap().0;
    BufReader::new(&heard).read_line(&mut String::new()).unwrap();
    task.signal("KILL");
    drop((heard, listener));
    let told = cancel.wait_with_output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    assert_eq!(environment.show(&task.id)["outcome"], "cancelled");
}

#[test]
fn whoever_follows_is_told_that_the_process_is_gone_and_ends_with_the_reader() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch one; sleep 60"], "");
    let task = environment.start(&["run", "task.toml"]);
    environment.until_file("one");
    let mut follow = environment.command(&["log", &task.id, "--follow"]);
    let mut follower = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("touch one")).unwrap().unwrap();
    task.signal("KILL");
    let said = lines.find(|line| line.as_ref().unwrap().contains("is gone")).unwrap().unwrap();
    assert!(said.contains(&format!("drivetrain resume {}", task.id)), "{said}");
    drop(lines);
    assert_eq!(follower.wait().unwrap().code(), Some(0));
}
