//! The one screen that says how a task stands, in its main situations.

use machine::input::{Command, Signal};
use machine::policy::budget::{Budget, Spend};
use machine::state::Standing;
use machine::task::{CriterionResult, Outcome};
use machine::time::Span;
use machine::tool::{Status, ToolResult};
use serde_json::{Value, json};
use view::why::{self, Subject};

use crate::scene::{Scene, asking, shell, spec, workflow};
use machine::verdict::Verdict;

#[test]
fn a_running_task_names_what_runs_and_for_how_long() {
    let scene = Scene::begin(workflow(&["cargo test"]));
    insta::assert_snapshot!(scene.why(), @"
    task k3v9: make the numbers add up

    It is being worked on by process 4711.
      c1 runs for 5.0s: s0 (shell: cargo test)

    spent      1 turn of 2, 1 tool call, 5.1s
    driver     workflow
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain log k3v9 --follow  watch it
      drivetrain steer k3v9 TEXT    tell its driver something
      drivetrain pause k3v9         hold it
      drivetrain cancel k3v9        end it
    ");
}

#[test]
fn an_interrupted_task_names_what_will_be_in_doubt() {
    let mut scene = Scene::begin(workflow(&["cargo test"]));
    scene.pid = None;
    insta::assert_snapshot!(scene.why(), @"
    task k3v9: make the numbers add up

    It was interrupted: the process that drove it is gone. Nothing is lost; it goes on when resumed.
      c1 was under way and is in doubt: s0 (shell: cargo test)

    spent      1 turn of 2, 1 tool call, 100ms
    driver     workflow
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain resume k3v9  go on from here
      drivetrain cancel k3v9  end it
    ");
}

#[test]
fn what_nobody_does_any_more_was_being_done() {
    let mut task = workflow(&["true"]);
    task.acceptance = vec![shell("cargo test")];
    let mut scene = Scene::begin(task);
    scene.end(ToolResult::ok(""));
    assert!(scene.why().contains("the acceptance criteria are being checked"), "{}", scene.why());
    scene.pid = None;
    assert!(scene.why().contains("the acceptance criteria were being checked"), "{}", scene.why());
}

#[test]
fn an_approval_is_shown_whole_with_the_commands_that_answer() {
    let mut asked = workflow(&["rm -rf build\nrm -rf dist"]);
    asked.policy = asking();
    let mut scene = Scene::begin(asked);
    scene.put(Command::Detach { reason: "it waits for a person".to_owned() });
    scene.pid = None;
    insta::assert_snapshot!(scene.why(), @"
    task k3v9: make the numbers add up

    It waits for a person.
      ? c1 wants to run shell (asked by rule 1: look first)
          command:
            | rm -rf build
            | rm -rf dist
          hash: cce9880223f7

    spent      1 turn of 2, 200ms
    driver     workflow
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain approve k3v9 c1             let it run
      drivetrain approve k3v9 c1 --for task  let it run, also when it comes again
      drivetrain deny k3v9 c1 --reason TEXT  refuse it
      drivetrain resume k3v9                 then go on: no process drives it
    ");
}

#[test]
fn a_question_and_a_call_in_doubt_have_their_answers() {
    let config = json!({"steps": [{"name": "q", "tool": "ask",
        "parameters": {"question": "which one?", "choices": ["the red", "blue"]}}]});
    let mut scene = Scene::begin(spec("workflow", config));
    scene.pid = None;
    insta::assert_snapshot!(scene.why(), @"
    task k3v9: make the numbers add up

    It waits for a person.
      ? c1 asks: which one?
          1) the red
          2) blue

    spent      1 turn of 2, 100ms
    driver     workflow
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain answer k3v9 c1 'the red'  answer it
      drivetrain resume k3v9               then go on: no process drives it
    ");
    let mut scene = Scene::begin(workflow(&["make install"]));
    scene.put(Signal::OwnerLost);
    scene.pid = None;
    insta::assert_snapshot!(scene.why(), @"
    task k3v9: make the numbers add up

    It waits for a person.
      ? c1 is in doubt: shell was under way when it was cut off; did it run?
          command: make install

    spent      1 turn of 2, 1 tool call, 100ms
    driver     workflow
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain resolve k3v9 c1 --did      it ran to its end: take it as done
      drivetrain resolve k3v9 c1 --did-not  it did not run: take it as failed
      drivetrain resolve k3v9 c1 --retry    run it again
      drivetrain resume k3v9                then go on: no process drives it
    ");
}

#[test]
fn an_exhausted_budget_says_how_to_raise_it() {
    let mut scene = Scene::begin(workflow(&["a", "b", "c"]));
    scene.end(ToolResult::ok(""));
    scene.end(ToolResult::ok(""));
    scene.pid = None;
    insta::assert_snapshot!(scene.why(), @"
    task k3v9: make the numbers add up

    It stopped at a limit of its budget. It can go on with a larger one.
      max_turns = 2 reached (2)

    spent      2 turns of 2, 2 tool calls, 300ms
    driver     workflow
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain raise k3v9 --max-turns 4  allow more
      drivetrain resume k3v9               then go on
      drivetrain log k3v9                  everything that happened
    ");
}

#[test]
fn a_call_that_a_limit_or_a_person_cut_short_is_no_failure() {
    let ended_by = |command: Command| {
        let mut task = spec("user", Value::Null);
        task.budget.max_time = Some(Span::seconds(9));
        let mut scene = Scene::begin(task);
        let said = |line: &str| Command::Tell { line: line.to_owned(), question: None };
        scene.put(said("shell make"));
        scene.end(ToolResult { exit: Some(2), ..ToolResult::ended(Status::Error, "no rule") });
        scene.put(said("shell sleep 100"));
        scene.now += 10_000;
        scene.put(command);
        scene.pid = None;
        scene
            .why()
            .lines()
            .skip(2)
            .take_while(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!(ended_by(Command::Cancel { reason: String::new() }), @"
    It was cancelled.
      cut short: c2 shell: sleep 100 (the task was cancelled)
      last failure: c1 shell: make
        | no rule
    ");
    let note = Command::FollowUp { text: "later".to_owned() };
    insta::assert_snapshot!(ended_by(note), @"
    It stopped at a limit of its budget. It can go on with a larger one.
      max_time = 9s reached (10s500ms)
      cut short: c2 shell: sleep 100 (the budget was exhausted)
      last failure: c1 shell: make
        | no rule
    ");
}

#[test]
fn a_failed_step_shows_the_end_of_its_output() {
    let mut scene = Scene::begin(workflow(&["make"]));
    let mut result = ToolResult::ended(Status::Error, "cc main.c\nmain.c:3: no such thing\n");
    result.exit = Some(2);
    scene.end(result);
    scene.pid = None;
    insta::assert_snapshot!(scene.why(), @r#"
    task k3v9: make the numbers add up

    It failed: its driver gave up or cannot go on.
      step "s0" (shell) failed: error, exit code 2: cc main.c
      main.c:3: no such thing

    spent      1 turn of 2, 1 tool call, 200ms, 1 failed call in a row
    driver     workflow
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain log k3v9                      everything that happened
      drivetrain hand-over k3v9 --driver user  decide yourself from here
    "#);
}

#[test]
fn a_verified_task_shows_its_criteria() {
    let mut asked = workflow(&["true"]);
    asked.acceptance.push(shell("test -s out.txt"));
    let mut scene = Scene::begin(asked);
    scene.end(ToolResult::ok(""));
    let id = scene.next_effect();
    let title = "shell: test -s out.txt".to_owned();
    let passed = CriterionResult {
        title,
        passed: true,
        exit: Some(0),
        evidence: String::new(),
        millis: 7,
        ..CriterionResult::default()
    };
    scene.put(Signal::Verified(id, Ok(Verdict::of(vec![passed]))));
    scene.pid = None;
    insta::assert_snapshot!(scene.why(), @"
    task k3v9: make the numbers add up

    It is verified: every acceptance criterion passed.
      the workflow: 1 step done
      passed: shell: test -s out.txt (7ms)

    spent      1 turn of 2, 1 tool call, 300ms
    driver     workflow
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain log k3v9  everything that happened
    ");
}

#[test]
fn a_paused_task_and_one_that_a_person_drives_say_how_to_go_on() {
    let mut scene = Scene::begin(workflow(&["make"]));
    scene.put(Command::Pause);
    insta::assert_snapshot!(scene.why(), @"
    task k3v9: make the numbers add up

    It is paused: it makes no new move until it is resumed.
      c1 runs for 5.1s: s0 (shell: make)

    spent      1 turn of 2, 1 tool call, 200ms
    driver     workflow
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain resume k3v9  go on from here
      drivetrain cancel k3v9  end it
    ");
    let mut scene = Scene::begin(spec("user", Value::Null));
    scene.put(Signal::OwnerLost);
    scene.put(Signal::Restarted(Err("no git".to_owned())));
    scene.pid = None;
    let why = scene.why();
    let reason =
        "it is not known which files were lost (no git): look at the files, then resume it";
    assert!(why.contains(reason), "{why}");
    let mut scene = Scene::begin(spec("user", Value::Null));
    scene.put(Command::Detach { reason: "it waits for a person".to_owned() });
    scene.pid = None;
    insta::assert_snapshot!(scene.why(), @"
    task k3v9: make the numbers add up

    It waits for a person.
      ? What is the next move? Type help for the commands.

    spent      0 turns of 2, 200ms
    driver     user
    workspace  /work (in place)
    sandbox    full, network none
    last news  5.0s ago

    next
      drivetrain answer k3v9 q1 'shell ls'  decide the next move (or: help, done)
      drivetrain resume k3v9                then go on: no process drives it
    ");
}

#[test]
fn a_question_with_an_end_says_how_long_it_is_waited_with() {
    let ask = json!({ "name": "ok", "approve": "Release?", "timeout": "1m", "on_timeout": "skip" });
    let mut scene = Scene::begin(spec("workflow", json!({ "name": "w", "steps": [ask] })));
    let said = |scene: &Scene| {
        let why = scene.why();
        why.lines().skip_while(|line| !line.contains("Release?")).nth(1).unwrap().to_owned()
    };
    assert_eq!(said(&scene), "  it waits 55s more for the answer, then goes on without");
    scene.pid = None;
    scene.put(Command::Detach { reason: "it waits for a person".to_owned() });
    scene.now += 60_000;
    assert_eq!(said(&scene), "  its time is over: an answer counts until it is resumed");
}

#[test]
fn whatever_limit_is_reached_the_command_that_raises_it_names_it() {
    let scene = Scene::begin(workflow(&["true"]));
    let spend: Spend = serde_json::from_value(json!({
        "turns": 1, "millis": 1000, "tokens": 1, "usd": 1.0, "tool_calls": 1,
        "consecutive_denies": 1, "consecutive_errors": 1, "context_overflows": 1,
    }))
    .unwrap();
    // Every axis that there is: one that is forgotten here does not compile.
    let Budget {
        max_turns: _,
        max_time: _,
        max_tokens: _,
        max_usd: _,
        max_tool_calls: _,
        max_consecutive_denies: _,
        max_consecutive_errors: _,
        max_context_overflows: _,
    } = Budget::default();
    for (axis, limit) in [
        ("max_turns", json!(1)),
        ("max_time", json!("1s")),
        ("max_tokens", json!(1)),
        ("max_usd", json!(1.0)),
        ("max_tool_calls", json!(1)),
        ("max_consecutive_denies", json!(1)),
        ("max_consecutive_errors", json!(1)),
        ("max_context_overflows", json!(1)),
    ] {
        let mut data = scene.state.data().clone();
        data.budget = serde_json::from_value(json!({ axis: limit })).unwrap();
        data.spend.clone_from(&spend);
        let reason = "a limit was reached".to_owned();
        let standing = Standing::Finished { outcome: Outcome::BudgetExhausted, reason };
        let subject = Subject { data: &data, ..scene.subject(&standing) };
        let said = view::join(&view::why::lines(&subject));
        let option = format!("drivetrain raise k3v9 --{} 2", axis.replace('_', "-"));
        assert!(said.contains(&option), "{axis}: {said}");
        // However much of it a server says that it used.
        data.spend.tokens = u64::MAX;
        let subject = Subject { data: &data, ..scene.subject(&standing) };
        let said = view::join(&view::why::lines(&subject));
        let option = option.strip_suffix('2').unwrap();
        assert!(said.contains(option), "{axis}: {said}");
    }
}

#[test]
fn a_limit_of_time_that_left_a_call_in_doubt_says_how_to_resolve_it() {
    let mut scene = Scene::begin(workflow(&["make"]));
    scene.put(Signal::OwnerLost);
    scene.pid = None;
    let reason = "max_time = 1s reached".to_owned();
    let standing = Standing::Finished { outcome: Outcome::BudgetExhausted, reason };
    let next = why::next(&scene.subject(&standing));
    let commands: Vec<&str> = next.iter().map(|next| next.command.as_str()).collect();
    assert_eq!(
        commands[1..],
        [
            "drivetrain resolve k3v9 c1 --did",
            "drivetrain resolve k3v9 c1 --did-not",
            "drivetrain resolve k3v9 c1 --retry",
            "drivetrain resume k3v9",
            "drivetrain log k3v9",
        ]
    );
}

#[test]
fn however_much_it_waits_for_it_is_one_screen() {
    let branches: serde_json::Map<String, Value> = (0..40)
        .map(|n| {
            let step = json!({"name": format!("s{n}"), "tool": "shell", "parameters": {"command": "make"}});
            (format!("b{n}"), json!([step]))
        })
        .collect();
    let mut asked = spec("workflow", json!({"steps": [{"name": "all", "parallel": branches}]}));
    asked.goal = "word ".repeat(10_000);
    asked.budget.max_turns = None;
    let mut scene = Scene::begin(asked);
    let running = scene.why();
    assert!(running.contains("and 34 more") && running.lines().count() < 24, "{running}");
    scene.put(Signal::OwnerLost);
    scene.pid = None;
    let doubtful = scene.why();
    assert!(doubtful.contains("and 37 more: drivetrain approvals lists them"), "{doubtful}");
    assert!(doubtful.contains("c3 --did") && !doubtful.contains("c4 --did"), "{doubtful}");
    let (lines, widest) = (doubtful.lines().count(), doubtful.lines().map(str::len).max());
    assert!(lines < 40 && widest < Some(500), "{lines} lines, {widest:?}: {doubtful}");
    let standing = scene.state.standing();
    // Whoever reads it as data gets all.
    assert!(why::next(&scene.subject(&standing)).len() > 120);
}
