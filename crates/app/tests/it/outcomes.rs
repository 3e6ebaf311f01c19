//! Every outcome with its exit code, its summary and its last event.

use serde_json::Value;

use crate::environment::TestEnvironment;

fn last(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn a_verified_task_ends_with_0_and_says_what_was_checked() {
    let environment = TestEnvironment::new();
    let check = "[[acceptance]]\nkind = \"shell\"\ncommand = \"test $(wc -l < out.txt) -eq 2\"\n";
    environment.steps("task.toml", &["echo 1 >> out.txt", "echo 2 >> out.txt; echo done"], check);
    let ran = environment.run(&["run", "task.toml"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    insta::assert_snapshot!(environment.plain(&ran.out), @"
    task ID: make the numbers add up
      driver workflow, 1 acceptance criterion
      works in FOLDER (in place): there is no way back, and checks run where the worker works
    c1 s1 (shell: echo 1 >> out.txt)
    c1 ok: s1 (TIME)
    c2 s2 (shell: echo 2 >> out.txt; echo done)
    c2 ok: s2 (TIME)
      | done
    claims to be finished: the workflow: 2 steps done
    passed: shell: test $(wc -l < out.txt) -eq 2 (TIME)

    verified: the workflow: 2 steps done
    criteria   1 of 1 passed
      passed: shell: test $(wc -l < out.txt) -eq 2 (TIME)
    spent      2 turns, 2 tool calls, TIME
    workspace  FOLDER (in place)
    receipt    RECEIPT
    task       ID
    next
      drivetrain receipt ID  what was proven, and how
      drivetrain log ID      everything that happened
    ");
    insta::assert_snapshot!(environment.plain(&environment.ok(&["why", &environment.id()])), @"
    task ID: make the numbers add up

    It is verified: every acceptance criterion passed.
      the workflow: 2 steps done
      passed: shell: test $(wc -l < out.txt) -eq 2 (TIME)

    spent      2 turns, 2 tool calls, TIME
    driver     workflow
    workspace  FOLDER (in place)
    receipt    RECEIPT
    sandbox    full, network none
    last news  WHEN

    next
      drivetrain receipt ID  what was proven, and how
      drivetrain log ID      everything that happened
    ");
    let list = environment.ok(&["list"]);
    let cells: Vec<Vec<&str>> =
        list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[0], ["ID", "STANDING", "DRIVER", "TURNS", "AGE", "GOAL"]);
    assert_eq!(cells[1][..4], [environment.id().as_str(), "verified", "workflow", "2"]);
    assert!(list.trim_end().ends_with("make the numbers add up"), "{list}");
    assert_eq!(environment.read("out.txt"), "1\n2\n");
}

#[test]
fn json_begins_with_the_task_and_ends_with_its_outcome() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["true"], "");
    let ran = environment.run(&["run", "task.toml", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let events: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["type"], "task_started");
    assert_eq!(events[0]["task"], environment.id());
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index + 1);
        assert!(event["time"].is_i64() && event["task"].is_string() && event["type"].is_string());
    }
    let last = events.last().unwrap();
    assert_eq!(last["type"], "task_finished");
    assert_eq!((&last["outcome"], &last["exit_code"]), (&"completed".into(), &0.into()));
    let shown = environment.show(&environment.id());
    for key in ["id", "outcome", "phase", "driver", "turns", "spend", "workspace", "branch"] {
        assert!(shown.get(key).is_some(), "{key}");
    }
    assert_eq!(environment.events(&environment.id()), events);
}

#[test]
fn a_failed_step_ends_with_10() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["echo oh no; exit 3"], "");
    let ran = environment.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 10);
    insta::assert_snapshot!(environment.plain(&ran.out), @r#"
    task ID: make the numbers add up
      driver workflow, no acceptance criteria
      works in FOLDER (in place): there is no way back, and checks run where the worker works
    c1 s1 (shell: echo oh no; exit 3)
    c1 error, exit 3: s1 (TIME)
      | oh no

    failed: step "s1" (shell) failed: error, exit code 3: oh no
    spent      1 turn, 1 tool call, TIME, 1 failed call in a row
    workspace  FOLDER (in place)
    task       ID
    next
      drivetrain log ID                      everything that happened
      drivetrain hand-over ID --driver user  decide yourself from here
    "#);
    insta::assert_snapshot!(environment.plain(&environment.run(&["resume", &environment.id()]).err), @"
    error: task ID has ended: failed
      hint: drivetrain hand-over ID --driver user lets you decide from here; then resume it
    ");
}

#[test]
fn a_reached_limit_ends_with_11_and_goes_on_when_raised() {
    let environment = TestEnvironment::new();
    environment.steps(
        "task.toml",
        &["echo 1 >> out.txt", "echo 2 >> out.txt"],
        "[budget]\nmax_turns = 1\n",
    );
    let ran = environment.run(&["run", "task.toml", "--json"]);
    assert_eq!(ran.code, 11);
    assert_eq!(last(&ran.out)["outcome"], "budget_exhausted");
    let id = environment.id();
    insta::assert_snapshot!(environment.plain(&environment.ok(&["why", &id])), @"
    task ID: make the numbers add up

    It stopped at a limit of its budget. It can go on with a larger one.
      max_turns = 1 reached (1)

    spent      1 turn of 1, 1 tool call, TIME
    driver     workflow
    workspace  FOLDER (in place)
    sandbox    full, network none
    last news  WHEN

    next
      drivetrain raise ID --max-turns 2  allow more
      drivetrain resume ID               then go on
      drivetrain log ID                  everything that happened
    ");
    assert_eq!(environment.run(&["raise", &id, "--max-turns", "1"]).code, 2);
    insta::assert_snapshot!(environment.plain(&environment.ok(&["raise", &id, "--max-turns", "2"])), @"
    task ID may spend more
    no process drives it: drivetrain resume ID goes on
    ");
    assert_eq!(environment.run(&["resume", &id, "--quiet"]).code, 0);
    assert_eq!(environment.read("out.txt"), "1\n2\n");
}

#[test]
fn a_cancelled_task_ends_with_12() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["touch begun; sleep 60"], "");
    let task = environment.start(&["run", "task.toml", "--json"]);
    environment.until_file("begun");
    environment.ok(&["cancel", &task.id, "--reason", "not needed"]);
    let ran = task.wait();
    assert_eq!(ran.code, 12);
    assert_eq!(last(&ran.out)["reason"], "not needed");
}

#[test]
fn a_question_without_anybody_ends_with_13_and_waits_for_its_answer() {
    let environment = TestEnvironment::new();
    environment.write(
        "task.toml",
        "[task]\ngoal = \"ask\"\ndriver = \"workflow\"\n[[task.driver_config.steps]]\nname = \"q\"\ntool = \"ask\"\n\
         parameters = { question = \"which?\", choices = [\"red\", \"blue\"] }\n[workspace]\nkind = \"none\"\n",
    );
    let ran = environment.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 13);
    insta::assert_snapshot!(environment.plain(&ran.out), @"
    task ID: ask
      driver workflow, no acceptance criteria
      works in no folder: no files, and nothing that can be checked
    ? c1 asks: which?
        1) red
        2) blue

    waiting: it waits for a person
    spent      1 turn, TIME
    workspace  no folder
    task       ID
    next
      drivetrain answer ID c1 red  answer it
      drivetrain resume ID         then go on: no process drives it
    ");
    insta::assert_snapshot!(environment.plain(&environment.ok(&["approvals"])), @"
    task ID: ask
    ? c1 asks: which?
        1) red
        2) blue
      drivetrain answer ID c1 red  answer it
    ");
    let id = environment.id();
    let asks: Value = serde_json::from_str(&environment.ok(&["approvals", "--json"])).unwrap();
    assert_eq!(asks["asks"][0]["task"], id.as_str());
    let refused = environment.run(&["answer", &id, "green"]);
    assert_eq!(refused.code, 2);
    insta::assert_snapshot!(environment.plain(&refused.err), @r#"error: "green" is not a choice: expected one of red, blue"#);
    insta::assert_snapshot!(environment.plain(&environment.ok(&["answer", &id, "blue"])), @"
    task ID has the answer to c1
    no process drives it: drivetrain resume ID goes on
    ");
    assert_eq!(environment.run(&["resume", &id]).code, 0);
}

#[test]
fn the_same_failure_again_and_again_ends_with_14() {
    let environment = TestEnvironment::new();
    let ran = environment.run_with(
        &["run", "never done", "--driver", "user", "--check", "false", "--json"],
        "done\ndone\ndone\ndone\n",
    );
    assert_eq!(ran.code, 14, "{}", ran.err);
    assert_eq!(last(&ran.out)["outcome"], "stuck");
    let why = environment.ok(&["why", &environment.id()]);
    assert!(why.contains("It is stuck") && why.contains("failed, exit 1: shell: false"), "{why}");
}

#[test]
fn a_limit_of_the_size_of_files_is_told_and_ends_nothing_in_the_middle_of_a_write() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["true"], "");
    let plain = environment.command(&["run", "task.toml"]);
    let limited = |blocks: u32| {
        let mut command = std::process::Command::new("sh");
        let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(plain.get_program()).args(plain.get_args());
        command.current_dir(environment.folder()).env_clear();
        let variables = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
        environment.ran(command.envs(variables).output().unwrap())
    };
    let ran = limited(64);
    assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("journal") && ran.err.contains("ulimit -f unlimited"), "{}", ran.err);
    environment.steps(
        "task.toml",
        &["dd if=/dev/zero of=large bs=1M count=3; echo ended by $?"],
        "",
    );
    let ran = environment.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "the journal is sound: {}{}", ran.out, ran.err);
    let ran = limited(4096);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("File too large") && ran.out.contains("ended by 1"), "{}", ran.out);
}

#[test]
fn a_home_that_cannot_be_made_ends_with_20() {
    let environment = TestEnvironment::new();
    environment.write("file", "");
    environment.steps("task.toml", &["true"], "");
    let output = environment
        .command(&["run", "task.toml", "--json"])
        .env("DRIVETRAIN_HOME", environment.folder().join("file/home"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(20));
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((&error["v"], &error["error"]["kind"]), (&1.into(), &"environment".into()));
    assert!(output.stdout.is_empty());
}

#[test]
fn an_approval_that_waits_is_given_from_outside() {
    let environment = TestEnvironment::new();
    environment.write(
        ".drivetrain/policy.toml",
        "unattended = \"wait\"\n[[rule]]\ntool = \"shell\"\ndecide = \"ask\"\nreason = \"look first\"\n",
    );
    environment.trust();
    environment.steps("task.toml", &["echo 1 >> out.txt", "echo 2 >> out.txt"], "");
    assert_eq!(environment.run(&["run", "task.toml"]).code, 13);
    let id = environment.id();
    insta::assert_snapshot!(environment.plain(&environment.ok(&["why", &id])), @"
    task ID: make the numbers add up

    It waits for a person.
      ? c1 wants to run shell (asked by rule 1 of .drivetrain/policy.toml:2: look first)
          command: echo 1 >> out.txt
          hash: 739a9bc19079

    spent      1 turn, TIME
    driver     workflow
    workspace  FOLDER (in place)
    sandbox    full, network none
    last news  WHEN

    next
      drivetrain approve ID c1             let it run
      drivetrain approve ID c1 --for task  let it run, also when it comes again
      drivetrain deny ID c1 --reason TEXT  refuse it
      drivetrain resume ID                 then go on: no process drives it
    ");
    environment.ok(&["approve", &id]);
    assert_eq!(environment.run(&["resume", &id]).code, 13);
    environment.ok(&["deny", &id, "--reason", "enough"]);
    assert_eq!(environment.run(&["resume", &id]).code, 10);
    assert_eq!(environment.read("out.txt"), "1\n");
}
