//! Tasks as steps, through the real binary: what the end is worth, money, people, cancelling, and a kill in the middle.

use journal::sqlite::SqliteJournal;
use journal::{Entry, Journal};
use machine::input::{Command as MachineCommand, Input, Signal};
use runtime::home::Home;
use runtime::host::encode;
use serde_json::Value;

use crate::environment::{TestEnvironment, exists};
use crate::model::SCRIPT;

/// Waits for the file `go`, having said so.
const HOLD: &str = "touch waits; while [ ! -e go ]; do sleep 0.05; done";

fn place(workflow: &str) -> TestEnvironment {
    let place = TestEnvironment::new();
    place.write("replies.toml", SCRIPT);
    place.write("task.toml", &format!("[task]\ngoal = \"all of it\"\n[workflow]\n{workflow}"));
    place
}

/// A step with a task, and one that tells what came of it.
fn steps(task: &str, more: &str) -> String {
    format!(
        "[[workflow.steps]]\nname = \"part\"\n{more}\n[workflow.steps.task]\n{task}\n\
         [[workflow.steps]]\nname = \"tell\"\ntool = \"shell\"\n\
         parameters = {{ command = \"echo {{{{ steps.part.outcome }}}} {{{{ steps.part.id }}}} {{{{ steps.part.attempts }}}} > told\" }}\n"
    )
}

/// A task that is a workflow of one command.
fn shell(command: &str) -> String {
    format!(
        "goal = \"a part\"\nworkflow = {{ steps = [{{ name = \"work\", tool = \"shell\", \
         parameters = {{ command = {} }} }}] }}",
        Value::from(command)
    )
}

/// The tasks that steps began, oldest first.
fn children(place: &TestEnvironment, parent: &str) -> Vec<Value> {
    let mut tasks = place.tasks();
    tasks.retain(|task| task["id"] != parent);
    tasks.reverse();
    tasks
}

fn parent(place: &TestEnvironment) -> String {
    let tasks = place.tasks();
    let found = tasks.iter().find(|task| task["goal"] == "all of it").unwrap();
    found["id"].as_str().unwrap().to_owned()
}

fn id(task: &Value) -> String {
    task["id"].as_str().unwrap().to_owned()
}

#[test]
fn the_task_of_a_step_in_which_a_model_decides_has_an_end() {
    let place = place(&steps("goal = \"a part\"\nmodel = \"script/replies.toml\"", ""));
    place.ok(&["run", "task.toml"]);
    let part = id(&children(&place, &parent(&place))[0]);
    let shown = place.ok(&["show", &part]);
    assert!(shown.contains("1 turn of 1000"), "{shown}");
}

#[test]
fn a_step_has_a_task_done_and_sees_its_verdict() {
    let order = "goal = \"two lines\"\nmodel = \"script/replies.toml\"\nchecks = [\"test $(wc -l < a.txt) -eq 2\"]";
    let place = place(&steps(order, ""));
    let ran = place.run(&["run", "task.toml", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let parent = parent(&place);
    let children = children(&place, &parent);
    assert_eq!(children.len(), 1);
    let child = id(&children[0]);
    assert_eq!(place.read("told"), format!("verified {child} 1\n"));
    assert_eq!(place.read("a.txt"), "one\ntwo\n");
    let last: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["task"], Value::from(parent.clone()), "the task around it is told of last");
    assert_eq!(place.show(&child)["dispatch"]["parent"], Value::from(parent.clone()));
    assert_eq!(place.show(&child)["spend"]["tokens"], 535);
    assert_eq!(place.show(&parent)["spend"]["tokens"], 535, "charged to the task around it");
}

#[test]
fn in_a_worktree_the_change_of_the_child_is_the_change_of_the_whole() {
    let order = "goal = \"two lines\"\nmodel = \"script/replies.toml\"\nchecks = [\"test $(wc -l < a.txt) -eq 2\"]";
    let place = place(&steps(order, ""));
    place.git(&["init", "--quiet"]);
    place.commit_all("all");
    let ran = place.run(&["run", "task.toml", "--check", "grep -q two a.txt"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let parent = parent(&place);
    let children = children(&place, &parent);
    assert_eq!(children[0]["outcome"], "verified", "{}", children[0]);
    assert_eq!(place.show(&parent)["outcome"], "verified");
    assert_eq!(place.show(&parent)["workspace"], children[0]["workspace"]);
    assert_eq!(place.read("a.txt"), "", "the project itself is untouched");
    place.ok(&["apply", &parent, "--no-commit"]);
    assert_eq!(place.read("a.txt"), "one\ntwo\n");
}

#[test]
fn the_task_of_a_step_has_no_files_of_its_own_to_fork() {
    let order = shell("echo x >> a.txt") + "\nchecks = [\"test -s a.txt\"]";
    let place = place(&steps(&order, ""));
    place.git(&["init", "--quiet"]);
    place.commit_all("all");
    place.ok(&["run", "task.toml", "--check", "test -s told"]);
    let parent = parent(&place);
    let child = id(&children(&place, &parent)[0]);
    let around = place.show(&parent)["workspace"].as_str().unwrap().to_owned();
    for more in [&[][..], &["--driver", "user"]] {
        let ran =
            place.run(&[&["fork", &child, "--at", "2", "--goal", "once more"], more].concat());
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains(&format!("drivetrain fork {parent}")), "{}", ran.err);
    }
    let text = std::fs::read_to_string(format!("{around}/a.txt")).unwrap();
    assert_eq!(text, "x\n", "what the task around it proved is as it was");
    assert_eq!(place.tasks().len(), 2, "nothing was begun");
}

#[test]
fn the_files_of_a_task_at_work_do_not_go_back_by_way_of_the_task_of_a_step() {
    let order = shell("echo x >> a.txt") + "\nchecks = [\"test -s a.txt\"]";
    let hold = format!(
        "[[workflow.steps]]\nname = \"hold\"\ntool = \"shell\"\nparameters = {{ command = {} }}\n",
        Value::from(HOLD)
    );
    let place = place(&format!("{}{hold}", steps(&order, "")));
    place.git(&["init", "--quiet"]);
    place.commit_all("all");
    let running = place.start(&["run", "task.toml", "--no-sandbox"]);
    let parent = place.until(|| {
        let tasks = place.tasks();
        let found = tasks.iter().find(|task| task["goal"] == "all of it")?;
        let around = found["workspace"].as_str()?;
        exists(&std::path::Path::new(around).join("waits")).then(|| id(found))
    });
    let around = place.show(&parent)["workspace"].as_str().unwrap().to_owned();
    let child = id(&children(&place, &parent)[0]);
    let ran = place.run(&["rollback", &child, "--to", "1"]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains(&format!("those of task {parent}")), "{}", ran.err);
    std::fs::write(format!("{around}/go"), "").unwrap();
    assert_eq!(running.wait().code, 0);
    assert!(std::path::Path::new(&around).join("a.txt").exists());
}

#[test]
fn a_task_that_fails_is_the_failure_of_the_step_and_a_retry_is_another_task() {
    let more = "on_error = \"retry\"\nmax_retries = 2\non_exhausted = \"skip\"";
    let place = place(&steps(&shell("echo x >> tries; test $(wc -l < tries) -eq 2"), more));
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let parent = parent(&place);
    let children = children(&place, &parent);
    let outcomes: Vec<&Value> = children.iter().map(|child| &child["outcome"]).collect();
    assert_eq!(outcomes, ["failed", "completed"]);
    assert_eq!(place.read("told"), format!("completed {} 2\n", id(&children[1])));
    let place = self::place(&steps(&shell("exit 3"), ""));
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 10, "{}{}", ran.out, ran.err);
    let why = place.ok(&["why", &self::parent(&place)]);
    assert!(
        why.contains("step \"part\" (task ") && why.contains(") failed: step \"work\""),
        "{why}"
    );
}

#[test]
fn what_a_task_may_spend_is_at_most_what_is_left() {
    let order =
        "goal = \"two lines\"\nmodel = \"script/replies.toml\"\nbudget = { max_tokens = 900 }";
    let place = place(&steps(order, "on_error = \"skip\""));
    let ran = place.run(&["run", "task.toml", "--max-tokens", "130"]);
    assert_eq!(ran.code, 11, "{}{}", ran.out, ran.err);
    let parent = parent(&place);
    let child = &children(&place, &parent)[0];
    let shown = place.show(&id(child));
    assert_eq!(shown["budget"]["max_tokens"], 130, "{shown}");
    assert_eq!(shown["outcome"], "budget_exhausted");
    assert_eq!(shown["spend"]["tokens"], place.show(&parent)["spend"]["tokens"]);
}

#[test]
fn what_a_task_is_raised_by_reaches_the_task_of_its_step_that_used_up_all_there_was() {
    let order = "goal = \"two lines\"\nmodel = \"script/replies.toml\"";
    let place = place(&steps(order, ""));
    let ran = place.run(&["run", "task.toml", "--max-tokens", "130"]);
    assert_eq!(ran.code, 11, "{}{}", ran.out, ran.err);
    let parent = parent(&place);
    let child = id(&children(&place, &parent)[0]);
    for command in [&["resume", &child][..], &["raise", &child, "--max-tokens", "5000"]] {
        let ran = place.run(command);
        assert!(ran.code == 2 && ran.err.contains(&format!("task {parent}")), "{}", ran.err);
        assert!(!ran.err.contains(&format!("raise {child}")), "it would not help: {}", ran.err);
    }
    assert_eq!(place.run(&["raise", &parent, "--max-tokens", "5000"]).code, 0);
    let ran = place.run(&["resume", &parent]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let of_steps = children(&place, &parent);
    assert_eq!(of_steps.len(), 1, "the same one went on: {of_steps:?}");
    let shown = place.show(&id(&of_steps[0]));
    assert_eq!(
        (&shown["outcome"], &shown["budget"]["max_tokens"]),
        (&"completed".into(), &5000.into())
    );
    assert_eq!(shown["spend"]["tokens"], place.show(&parent)["spend"]["tokens"]);
}

#[test]
fn killed_while_its_task_works_there_is_one_task_and_it_goes_on() {
    let work = format!("echo began >> log; {HOLD}; echo ended >> log");
    let place = place(&steps(&shell(&work), ""));
    let running = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    running.signal("KILL");
    running.wait();
    place.until_quiet();
    place.write("go", "");
    let parent = parent(&place);
    let resumed = place.run(&["resume", &parent]);
    assert_eq!(resumed.code, 13, "{}{}", resumed.out, resumed.err);
    let child = id(&children(&place, &parent)[0]);
    let why = place.ok(&["why", &parent]);
    assert!(why.contains(&format!("task {child}, which a step of it began, asks")), "{why}");
    assert!(why.contains(&format!("drivetrain why {child}")), "{why}");
    place.ok(&["resolve", &child, "--did"]);
    let ended = place.run(&["resume", &parent]);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    assert_eq!(children(&place, &parent).len(), 1, "there is one, and it was resumed");
    assert_eq!(place.read("log"), "began\n");
    assert_eq!(place.read("told"), format!("completed {child} 1\n"));
    let made = |event: &&Value| event["type"] == "child_dispatched";
    assert_eq!(place.events(&parent).iter().filter(made).count(), 1);
}

#[test]
fn killed_after_its_task_ended_the_task_is_not_begun_again() {
    let flow = format!(
        "{}[[workflow.steps]]\nname = \"hold\"\ntool = \"shell\"\nparameters = {{ command = {} }}\n",
        steps(&shell("echo x >> log"), ""),
        Value::from(HOLD)
    );
    let place = place(&flow);
    let running = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    running.signal("KILL");
    running.wait();
    place.until_quiet();
    place.write("go", "");
    let parent = parent(&place);
    assert_eq!(place.run(&["resume", &parent]).code, 13);
    place.ok(&["resolve", &parent, "--did"]);
    assert_eq!(place.run(&["resume", &parent]).code, 0);
    assert_eq!(place.read("log"), "x\n");
    assert_eq!(children(&place, &parent).len(), 1);
}

#[test]
fn whoever_cancels_the_task_cancels_its_child_driven_or_not() {
    let place = place(&steps(&shell(HOLD), ""));
    let running = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    let parent = parent(&place);
    place.ok(&["cancel", &parent]);
    assert_eq!(running.wait().code, 12);
    let child = &children(&place, &parent)[0];
    assert_eq!(child["outcome"], "cancelled", "{child}");

    let place = self::place(&steps(&shell(HOLD), ""));
    let running = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    running.signal("KILL");
    running.wait();
    let parent = self::parent(&place);
    place.ok(&["cancel", &parent]);
    let child = &children(&place, &parent)[0];
    assert_eq!(child["outcome"], "cancelled", "{child}");
    let refused = place.run(&["resume", &id(child)]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
}

#[test]
fn what_a_child_spent_is_charged_though_both_were_killed_and_nobody_goes_on_with_it() {
    let order = format!(
        "goal = \"one line\"\nmodel = \"script/replies.toml\"\nchecks = [{}]",
        Value::from(HOLD)
    );
    for leave in [&["cancel"][..], &["hand-over", "--driver", "user"]] {
        let place = place(&steps(&order, ""));
        let running = place.start(&["run", "task.toml"]);
        place.until_file("waits");
        running.signal("KILL");
        running.wait();
        place.until_quiet();
        let parent = parent(&place);
        assert_eq!(place.show(&parent)["spend"]["tokens"], 0, "nobody has told it");
        place.ok(&[&leave[..1], &[parent.as_str()], &leave[1..]].concat());
        let child = id(&children(&place, &parent)[0]);
        let shown = place.show(&parent);
        assert_eq!(shown["spend"]["tokens"], 245, "{leave:?}");
        assert_eq!(shown["children"][&child]["ended"], "cancelled", "{leave:?}");
    }
}

#[test]
fn what_is_printed_of_a_cancelled_task_counts_what_the_task_of_its_step_spent() {
    let order = format!(
        "goal = \"one line\"\nmodel = \"script/replies.toml\"\nchecks = [{}]",
        Value::from(HOLD)
    );
    let place = place(&steps(&order, ""));
    let running = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    let parent = parent(&place);
    place.ok(&["cancel", &parent]);
    let ran = running.wait();
    assert_eq!(ran.code, 12, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("245 tokens"), "{}", ran.out);
    assert_eq!(place.show(&parent)["spend"]["tokens"], 245);
}

/// A task that rests because the task of its step asks a person; the ids of both.
fn asking() -> (TestEnvironment, String, String) {
    let order =
        "goal = \"a part\"\nworkflow = { steps = [{ name = \"which\", ask = \"Which?\" }] }";
    let place = place(&steps(order, ""));
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let parent = parent(&place);
    let child = id(&children(&place, &parent)[0]);
    (place, parent, child)
}

#[test]
fn what_is_said_to_the_task_while_it_rests_its_child_hears_when_it_goes_on() {
    let (place, parent, child) = asking();
    place.ok(&["steer", &parent, "mind the gap"]);
    place.ok(&["answer", &child, "q1", "b"]);
    assert_eq!(place.run(&["resume", &parent]).code, 0);
    let heard = |event: &Value| {
        event["type"] == "note_delivered" && event["note"]["text"] == "mind the gap"
    };
    assert!(place.events(&child).iter().any(heard), "{:?}", place.events(&child));
}

#[test]
fn what_was_said_to_the_task_when_it_was_killed_its_child_hears_once() {
    let order = format!(
        "goal = \"a part\"\nworkflow = {{ steps = [{{ name = \"work\", tool = \"shell\", parameters = {{ command = {} }} }}, {{ name = \"which\", ask = \"Which?\" }}] }}",
        Value::from(HOLD)
    );
    let place = place(&steps(&order, ""));
    let running = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    running.signal("KILL");
    running.wait();
    place.until_quiet();
    let parent = parent(&place);
    let child = id(&children(&place, &parent)[0]);
    // It was taken, and the process died before the child had it.
    record(&place, &parent, &[MachineCommand::Steer { text: "mind the gap".to_owned() }.into()]);
    let heard = || {
        let heard = |event: &&Value| {
            event["type"] == "note_queued" && event["note"]["text"] == "mind the gap"
        };
        place.events(&child).iter().filter(heard).count()
    };
    assert_eq!(heard(), 0);
    assert_eq!(place.run(&["resume", &parent]).code, 13);
    assert_eq!(heard(), 1);
    place.ok(&["resolve", &child, "--did"]);
    assert_eq!(place.run(&["resume", &parent]).code, 13);
    place.ok(&["answer", &child, "q1", "b"]);
    assert_eq!(place.run(&["resume", &parent]).code, 0);
    assert_eq!(heard(), 1, "{:?}", place.events(&child));
}

/// Puts inputs on record for a task, as somebody does who dies before anything follows from them.
fn record(place: &TestEnvironment, task: &str, inputs: &[Input]) {
    let mut journal = SqliteJournal::open(&Home::at(place.home()).journal()).unwrap();
    journal.claim(task).unwrap();
    let last = journal.records(task, 0).unwrap().last().unwrap().n;
    let bodies: Vec<_> = inputs.iter().map(encode).collect();
    let version = machine::MACHINE_VERSION;
    let entries: Vec<Entry<'_>> = (last + 1..)
        .zip(&bodies)
        .map(|(n, body)| Entry::Record { task, n, time: 2_000_000_000_000, version, body })
        .collect();
    journal.commit(&entries).unwrap();
}

/// A task that works for its parent when both are killed, and a parent that was cancelled by somebody who died before
/// the child was told; the ids of both.
fn left_behind(place: &TestEnvironment) -> (String, String) {
    let running = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    running.signal("KILL");
    running.wait();
    let parent = parent(place);
    let child = id(&children(place, &parent)[0]);
    let cancel = MachineCommand::Cancel { reason: "no more".to_owned() };
    record(place, &parent, &[Signal::OwnerLost.into(), cancel.into()]);
    assert_eq!(place.show(&parent)["outcome"], "cancelled");
    assert!(place.show(&child)["outcome"].is_null());
    (parent, child)
}

#[test]
fn a_child_that_was_not_told_of_the_cancel_is_told_by_whoever_comes_next() {
    for commands in [&["resume", "--all"][..], &["resume", "PARENT"], &["cancel", "PARENT"]] {
        let place = place(&steps(&shell(HOLD), ""));
        let (parent, child) = left_behind(&place);
        let named: Vec<&str> = commands
            .iter()
            .map(|word| if *word == "PARENT" { parent.as_str() } else { *word })
            .collect();
        let ran = place.run(&named);
        assert!(!ran.err.contains("panicked"), "{}{}", ran.out, ran.err);
        let shown = place.show(&child);
        assert_eq!(shown["outcome"], "cancelled", "{commands:?}: {}{}", ran.out, ran.err);
        assert!(shown["reason"].as_str().unwrap().contains(&parent), "{shown}");
        assert_eq!(place.read("told"), "");
    }
    let place = place(&steps(&shell(HOLD), ""));
    let (parent, child) = left_behind(&place);
    let refused = place.run(&["resume", &child]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(refused.err.contains(&format!("a step of task {parent} began it")), "{}", refused.err);
    assert_eq!(place.show(&child)["outcome"], "cancelled");
}

#[test]
fn a_child_that_asks_makes_its_parent_wait_and_goes_on_with_the_answer() {
    let order = "goal = \"a part\"\nworkflow = { steps = [{ name = \"which\", ask = \"Which?\", choices = [\"a\", \"b\"] }, \
                 { name = \"work\", tool = \"shell\", parameters = { command = \"echo {{ steps.which.text }} > out\" } }] }";
    let place = place(&steps(order, ""));
    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let parent = parent(&place);
    let child = id(&children(&place, &parent)[0]);
    assert!(ran.out.contains(&child) && ran.out.contains("Which?"), "{}", ran.out);
    let resume = format!("drivetrain resume {parent}");
    assert!(place.ok(&["why", &child]).contains(&resume), "that one goes on with it");
    let answered = place.ok(&["answer", &child, "b"]);
    assert!(answered.contains(&resume), "{answered}");
    let ended = place.run(&["resume", &parent]);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    assert_eq!(place.read("out"), "b\n");
}

#[test]
fn all_tasks_are_resumed_with_those_of_their_steps_and_never_without() {
    let (place, parent, child) = asking();
    assert!(place.ok(&["resume", "--all"]).contains("1 task waits for a person"));
    place.ok(&["answer", &child, "b"]);
    place.ok(&["pause", &parent]);
    assert!(!place.ok(&["resume", "--all"]).contains("goes on"), "it is paused");
    assert!(place.show(&child)["outcome"].is_null(), "and so is what its step began");
    place.run(&["resume", &parent]);
    assert_eq!(place.show(&parent)["outcome"], "completed");

    let ran = place.run(&["run", "task.toml"]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let tasks = place.tasks();
    let newest = |goal: &str| id(tasks.iter().find(|task| task["goal"] == goal).unwrap());
    let (parent, child) = (newest("all of it"), newest("a part"));
    place.ok(&["answer", &child, "b"]);
    let ran = place.run(&["resume", "--all"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(place.show(&parent)["outcome"], "completed", "nobody waits any more");
}

#[test]
fn a_signal_puts_both_down_and_resume_takes_both_up() {
    let place = place(&steps(&shell(HOLD), ""));
    let running = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    running.signal("TERM");
    let parent = parent(&place);
    place.until_draining(&parent);
    place.write("go", "");
    let ran = running.wait();
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    let ended = place.run(&["resume", &parent]);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    let children = children(&place, &parent);
    assert_eq!((children.len(), &children[0]["outcome"]), (1, &Value::from("completed")));
}

#[test]
fn what_is_said_to_the_task_is_passed_on_to_its_child() {
    let place = place(&steps(&shell(HOLD), ""));
    let running = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    let parent = parent(&place);
    let child = id(&children(&place, &parent)[0]);
    let tells = |what: &str| {
        let told = |event: &Value| event["type"] == what;
        place.until(|| place.events(&child).iter().any(told).then_some(()));
    };
    place.ok(&["pause", &parent]);
    tells("paused");
    place.ok(&["resume", &parent]);
    tells("resumed");
    place.ok(&["steer", &parent, "mind the gap"]);
    tells("note_queued");
    place.write("go", "");
    assert_eq!(running.wait().code, 0);
}

#[test]
fn a_child_that_another_process_drives_is_not_taken_from_it() {
    let place = place(&steps(&shell("true"), ""));
    place.write(
        "task.toml",
        &place.read("task.toml").replace(
            "steps = [{",
            &format!("steps = [{{ name = \"q\", ask = \"Well?\" }}, {{ name = \"hold\", tool = \"shell\", parameters = {{ command = {} }} }}, {{", Value::from(HOLD)),
        ),
    );
    assert_eq!(place.run(&["run", "task.toml"]).code, 13);
    let parent = parent(&place);
    let child = id(&children(&place, &parent)[0]);
    place.ok(&["answer", &child, "go"]);
    let alone = place.start(&["resume", &child]);
    place.until_file("waits");
    let refused = place.run(&["resume", &parent]);
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(
        refused.err.contains(&format!("task {child}, which a step of it began, is driven")),
        "{}",
        refused.err
    );
    place.write("go", "");
    assert_eq!(alone.wait().code, 0);
    let ended = place.run(&["resume", &parent]);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    assert_eq!(place.read("told"), format!("completed {child} 1\n"));
}

#[test]
fn the_criteria_of_a_steps_task_are_looked_at_before_anything_begins() {
    for (criterion, why) in [
        ("{ kind = \"judge\", model = \"nobody/x\", rubric = \"Is it good?\" }", "nobody"),
        (
            "{ kind = \"judge\", model = \"script/none.toml\", rubric = \"Is it good?\" }",
            "none.toml",
        ),
        ("{ kind = \"file\", path = \"a.txt\", pattern = \"(\" }", "not a regular expression"),
        (
            "{ kind = \"judge\", model = \"script/replies.toml\", rubric_file = \"rubric.md\" }",
            "the task of a step has no criterion that is looked up in a file",
        ),
        (
            "{ kind = \"custom\", name = \"plugin:mine\" }",
            "the task of a step has no criterion that is looked up in a file",
        ),
    ] {
        let order = format!("{}\nacceptance = [{criterion}]", shell("touch made"));
        let place = place(&steps(&order, ""));
        let ran = place.run(&["run", "task.toml"]);
        assert_eq!(ran.code, 2, "{criterion}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(why), "{criterion}: {}", ran.err);
        assert!(place.tasks().is_empty(), "{criterion}: nothing was begun");
    }
}

#[test]
fn the_judge_of_a_steps_task_is_heard() {
    for (verdict, outcome) in [(true, "verified"), (false, "failed")] {
        let answer = serde_json::json!({ "pass": verdict, "reason": "so it is" }).to_string();
        let order = format!(
            "{}\nchecks = [\"test -e made\"]\nacceptance = [{{ kind = \"judge\", model = \"script/judge.toml\", \
             rubric = \"Is it good?\", decides = true }}]",
            shell("touch made")
        );
        let place = place(&steps(&order, "on_error = \"skip\""));
        let reply = format!("[[reply]]\ntext = {}\nrepeat = true\n", Value::from(answer));
        place.write("judge.toml", &reply);
        let ran = place.run(&["run", "task.toml"]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let told = place.read("told");
        assert!(told.starts_with(outcome), "{verdict}: {told}");
    }
}
