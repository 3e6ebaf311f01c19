//! Bad input: a clear error with its place, and nothing half started.

use crate::environment::{Ran, TestEnvironment, exists};

fn refused(environment: &TestEnvironment, args: &[&str]) -> String {
    let Ran { code, out, err } = environment.run(args);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(!exists(&environment.home().join("journal")), "nothing may be started");
    environment.plain(&err)
}

#[test]
fn a_wrong_task_file_is_shown_with_its_line() {
    let environment = TestEnvironment::new();
    environment.write("task.toml", "[task]\ngoal = \"g\"\ndrivr = \"user\"\n");
    insta::assert_snapshot!(refused(&environment, &["run", "task.toml"]), @r#"
    error: unknown key "drivr" in [task]
     --> task.toml:3:1
      |
    3 | drivr = "user"
      | ^^^^^
      = help: did you mean "driver"?
    "#);
    environment.write("task.toml", "[task\n");
    insta::assert_snapshot!(refused(&environment, &["run", "task.toml"]), @"
    error: unclosed table, expected `]`
     --> task.toml:1:6
      |
    1 | [task
      |      ^
      = help: add the bracket that closes it
    ");
    environment.write(
        "task.yaml",
        "task:\n  goal: g\n  driver: workflow\n  driver_config: {workflow: cuont}\n",
    );
    environment.write(
        ".drivetrain/workflows/count.toml",
        "[workflow]\n[[workflow.steps]]\nname = \"one\"\ntool = \"shel\"\nparameters = { command = \"true\" }\n",
    );
    insta::assert_snapshot!(refused(&environment, &["run", "task.yaml"]), @r#"
    error: there is no workflow "cuont"
     --> task.yaml:4:29
      |
    4 |   driver_config: {workflow: cuont}
      |                             ^^^^^
      = help: did you mean "count"? (looked in FOLDER/.drivetrain/workflows)
    "#);
    environment.write(
        "retry.toml",
        "[task]\ngoal = \"g\"\ndriver = \"retry\"\n[task.driver_config]\nlimt = 3\n",
    );
    insta::assert_snapshot!(refused(&environment, &["run", "retry.toml"]), @r#"
    error: the driver "retry" cannot be used: limt: unknown; expected driver, limit, backoff
     --> retry.toml:5:1
      |
    5 | limt = 3
      | ^^^^
    "#);
    environment.write("plugin.toml", "[task]\ngoal = \"g\"\ndriver = \"external:nope\"\n");
    insta::assert_snapshot!(refused(&environment, &["run", "plugin.toml"]), @r#"
    error: there is no plugin "nope"
     --> plugin.toml:3:20
      |
    3 | driver = "external:nope"
      |                    ^^^^
      = help: looked in FOLDER/.drivetrain/drivers
    "#);
    environment.write(
        "llm.toml",
        "[task]\ngoal = \"g\"\ndriver = \"llm\"\n[task.driver_config]\nmodle = \"a/b\"\n",
    );
    insta::assert_snapshot!(refused(&environment, &["run", "llm.toml"]), @r#"
    error: the driver "llm" cannot be used: llm: unknown field `modle`, expected one of `model`, `system`, `tools`, `without`, `first`, `servers`, `max_steps`, `chat`, `bare`, `temperature`, `effort`, `schema`, `context`
     --> llm.toml:5:1
      |
    5 | modle = "a/b"
      | ^^^^^
    "#);
    environment.write(
        "all.toml",
        "[task]\ngoal = \"g\"\ndriver = \"sequence\"\n[task.driver_config]\ndrivers = []\n",
    );
    insta::assert_snapshot!(refused(&environment, &["run", "all.toml"]), @r#"
    error: the driver "sequence" cannot be used: drivers: expected a list of at least one driver, got []
     --> all.toml:5:1
      |
    5 | drivers = []
      | ^^^^^^^
    "#);
    environment.write(
        "task.yaml",
        "task:\n  goal: g\n  driver: workflow\n  driver_config: {workflow: count}\n",
    );
    insta::assert_snapshot!(refused(&environment, &["run", "task.yaml"]), @r#"
    error: there is no tool "shel"
     --> FOLDER/.drivetrain/workflows/count.toml:4:8
      |
    4 | tool = "shel"
      |        ^^^^^^
      = help: did you mean "shell"?
    "#);
}

#[test]
fn a_pattern_that_is_none_is_shown_where_it_stands() {
    let environment = TestEnvironment::new();
    let check = "[[acceptance]]\nkind = \"shell\"\ncommand = \"true\"\n\tstdout = \"(\"\n";
    environment.write("task.toml", &format!("[task]\ngoal = \"x\"\ndriver = \"user\"\n{check}"));
    insta::assert_snapshot!(refused(&environment, &["run", "task.toml"]), @r#"
    error: the criterion "shell: true" has a pattern that is not a regular expression: unclosed group
     --> task.toml:7:12
      |
    7 |  stdout = "("
      |            ^
    "#);
}

#[test]
fn a_missing_file_is_not_taken_for_a_goal() {
    let environment = TestEnvironment::new();
    environment.write("task.toml", "");
    insta::assert_snapshot!(refused(&environment, &["run", "tsak.toml"]), @"
    error: there is no task file tsak.toml
      hint: did you mean ./task.toml?
    ");
    insta::assert_snapshot!(refused(&environment, &["run", "other/task.yaml"]), @"
    error: there is no task file other/task.yaml
      hint: a goal in words has more than one word; quote it
    ");
    insta::assert_snapshot!(refused(&environment, &["run", "."]), @"error: . is a folder: expected a task file or a goal in words");
}

#[test]
fn what_is_there_and_no_file_is_not_said_to_be_missing() {
    let environment = TestEnvironment::new();
    let place = |name: &str| environment.folder().join(name);
    let made = std::process::Command::new("mkfifo").arg(place("pipe.toml")).status().unwrap();
    assert!(made.success());
    std::os::unix::fs::symlink("circle.toml", place("circle.toml")).unwrap();
    std::os::unix::fs::symlink("nowhere", place("gone.toml")).unwrap();
    std::os::unix::fs::symlink("/dev/null", place("device.toml")).unwrap();
    let said = ["pipe.toml", "circle.toml", "gone.toml", "device.toml"]
        .map(|name| refused(&environment, &["run", name]).lines().next().unwrap().to_owned());
    insta::assert_snapshot!(said.join("\n"), @"
    error: pipe.toml is a pipe: expected a task file or a goal in words
    error: circle.toml is a link that cannot be followed: expected a task file or a goal in words
    error: gone.toml is a link that leads nowhere: expected a task file or a goal in words
    error: device.toml is a device: expected a task file or a goal in words
    ");
}

#[test]
fn a_goal_needs_somebody_who_decides() {
    let environment = TestEnvironment::new();
    insta::assert_snapshot!(refused(&environment, &["run", "tidy up"]), @"
    error: a goal in words needs a driver: who decides the next move?
      hint: drivetrain run 'tidy up' --driver user          you decide, line by line
      hint: drivetrain run 'tidy up' --model PROVIDER/NAME  a model decides
      hint: drivetrain run 'tidy up' --workflow NAME        the steps of a workflow file
      hint: drivers: agent, external, fallback, llm, race, retry, sequence, state_machine, until_accepted, user, workflow
    ");
    insta::assert_snapshot!(refused(&environment, &["run", "tidy up", "--driver", "usr"]), @r#"
    error: no driver "usr": expected one of agent, external, fallback, llm, race, retry, sequence, state_machine, until_accepted, user, workflow
      hint: did you mean "user"?
    "#);
    insta::assert_snapshot!(refused(&environment, &["run", "tidy up", "--driver", "workflow"]), @r#"
    error: the driver "workflow" has nothing to run
      hint: --workflow NAME|PATH says which workflow; drivetrain drivers lists them
    "#);
    insta::assert_snapshot!(refused(&environment, &["run", "tidy up", "--workflow", "tidy"]), @r#"
    error: there is no workflow "tidy"
      hint: there is fix-issue, refactor-safely, review, triage-failing-test, update-dependency, validate-fix, write-tests
      hint: there is no .drivetrain folder here for files of your own: drivetrain init makes one
    "#);
    insta::assert_snapshot!(refused(&environment, &["run", "tidy up", "--driver", "external:mine"]), @r#"
    error: there is no plugin "mine"
      hint: there is no .drivetrain folder here for files of your own: drivetrain init makes one
    "#);
    insta::assert_snapshot!(refused(&environment, &["run", " ", "--driver", "user"]), @"
    error: the goal is empty
      hint: say what is to be achieved
    ");
}

#[test]
fn a_plugin_whose_program_is_missing_keeps_its_task_from_beginning() {
    let environment = TestEnvironment::new();
    for command in ["no-such-program", "./mine.py"] {
        let file = format!("[driver]\nname = \"mine\"\ncommand = [{command:?}]\n");
        environment.write(".drivetrain/drivers/mine.toml", &file);
        environment.trust();
        let ran = environment.run(&["run", "tidy up", "--driver", "external:mine"]);
        assert_eq!((ran.code, ran.out.as_str()), (20, ""), "{}", ran.err);
        let said = format!("the plugin mine cannot be started: there is no program {command:?} ");
        assert!(ran.err.contains(&said), "{}", ran.err);
        assert!(environment.tasks().is_empty(), "nothing may be started");
    }
}

#[test]
fn a_wrong_policy_pattern_or_workspace_is_found_first() {
    let environment = TestEnvironment::new();
    environment.steps(
        "task.toml",
        &["true"],
        "[[acceptance]]\nkind = \"file\"\npath = \"a\"\npattern = \"(\"\n",
    );
    let error = refused(&environment, &["run", "task.toml"]);
    assert!(error.contains("not a regular expression"), "{error}");
    environment.steps("task.toml", &["true"], "");
    insta::assert_snapshot!(refused(&environment, &["run", "task.toml", "--worktree"]), @"
    error: cannot make a worktree: FOLDER is not in a git repository
      hint: run git init and make a commit, or work in the folder itself with --in-place
    ");
    environment.write(".drivetrain/policy.toml", "[[rule]]\ntool = \"shell\"\ndecide = \"alow\"\n");
    insta::assert_snapshot!(refused(&environment, &["run", "task.toml"]), @"
    error: the policy FOLDER/.drivetrain/policy.toml is not trusted, so the task does not begin
      hint: drivetrain trust shows it and asks; drivetrain trust --yes trusts it as it is
      hint: --trust lets the project's files count for this task alone
    ");
    insta::assert_snapshot!(refused(&environment, &["run", "task.toml", "--trust"]), @r#"
    error: "alow" must be one of allow, ask, deny
     --> .drivetrain/policy.toml:3:10
      |
    3 | decide = "alow"
      |          ^^^^^^
      = help: did you mean "allow"?
    "#);
}

#[test]
fn errors_are_json_where_json_was_asked_for() {
    let environment = TestEnvironment::new();
    for args in
        [&["run", "tidy up", "--json"][..], &["show", "x!", "--json"], &["frobnicate", "--json"]]
    {
        let ran = environment.run(args);
        assert_eq!(ran.code, 2);
        let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((&error["v"], &error["error"]["kind"]), (&1.into(), &"usage".into()));
        assert!(error["error"]["message"].is_string() && error["error"]["hints"].is_array());
    }
}

#[test]
fn flags_replace_what_the_file_says() {
    let environment = TestEnvironment::new();
    environment.steps("task.toml", &["true", "true"], "[budget]\nmax_turns = 1\n");
    let ran = environment.run(&[
        "run",
        "task.toml",
        "--max-turns",
        "2",
        "--check",
        "true",
        "--no-workspace",
        "--quiet",
    ]);
    assert_eq!(ran.code, 10, "shell needs a folder: {}", ran.out);
    let ran =
        environment.run(&["run", "task.toml", "--max-turns", "2", "--check", "true", "--quiet"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.out.contains("verified"), "{}", ran.out);
}

#[test]
fn a_worktree_of_a_repository_without_a_commit_is_refused_before_anything_begins() {
    let environment = TestEnvironment::new();
    environment.git(&["init", "--quiet"]);
    environment.worktree_steps("task.toml", &["true"], "");
    for words in [&["run", "task.toml"][..], &["run", "x", "--driver", "user", "--worktree"]] {
        let ran = environment.run(words);
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        let said = ran.err.contains("has no commit") && ran.err.contains("hint: make a commit");
        assert!(said, "{}", ran.err);
    }
    assert!(environment.tasks().is_empty(), "nothing was begun");
}
