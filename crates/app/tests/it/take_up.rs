//! Processes that take up the same tasks at the same moment: one drives each, the others say so and disturb nothing.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use journal::sqlite::SqliteJournal;
use journal::{Entry, Journal};
use runtime::home::Home;

use crate::environment::{Ran, TestEnvironment};
use crate::model::count;

/// How often it is tried; each time the processes meet at another moment.
const ROUNDS: usize = 8;

/// How long one of several that cannot all go on may take to say so.
const PATIENCE: Duration = Duration::from_secs(60);

fn spawn(place: &TestEnvironment, arguments: &[&str]) -> Child {
    place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Which of them ends first.
fn first_to_end(children: &mut [Child]) -> usize {
    let begun = Instant::now();
    loop {
        let ended = |child: &mut Child| child.try_wait().unwrap().is_some();
        if let Some(at) = children.iter_mut().position(ended) {
            return at;
        }
        if begun.elapsed() > PATIENCE {
            children.iter_mut().for_each(|child| child.kill().unwrap());
            panic!("none of {} ended in time", children.len());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ended(place: &TestEnvironment, child: Child) -> Ran {
    place.ran(child.wait_with_output().unwrap())
}

/// A workflow that was asked to stop after its first step; the second goes on until there is a file `release`.
fn at_rest(place: &TestEnvironment) -> String {
    let first = "touch one; while ! test -e go; do sleep 0.02; done";
    let second = "echo x >> count; while ! test -e release; do sleep 0.02; done";
    place.steps("task.toml", &[first, second], "");
    let task = place.start(&["run", "task.toml"]);
    place.until_file("one");
    task.signal("TERM");
    place.until_draining(&task.id);
    place.write("go", "");
    let id = task.id.clone();
    assert_eq!(task.wait().code, 13);
    id
}

#[test]
fn of_several_that_resume_a_task_at_once_one_drives_it_and_the_others_say_so() {
    for round in 0..ROUNDS {
        let place = TestEnvironment::new();
        let id = at_rest(&place);
        let mut children: Vec<Child> =
            (0..3).map(|_| spawn(&place, &["resume", &id, "--unattended"])).collect();
        // The one that drives it cannot end before the file is there.
        let mut others = Vec::new();
        while others.len() < 2 {
            let at = first_to_end(&mut children);
            others.push(ended(&place, children.remove(at)));
        }
        place.write("release", "");
        let ran = ended(&place, children.remove(0));
        assert_eq!(ran.code, 0, "round {round}: {}{}", ran.out, ran.err);
        for other in others {
            assert_eq!(other.code, 2, "round {round}: {}{}", other.out, other.err);
            let said = format!("task {id} is driven by process ");
            assert!(other.err.contains(&said), "round {round}: {}", other.err);
        }
        assert_eq!(place.read("count"), "x\n", "round {round}");
        let types = place.types(&id);
        assert!(!types.iter().any(|kind| kind.contains("doubt")), "round {round}: {types:?}");
    }
}

#[test]
fn of_two_that_resume_all_at_once_each_task_has_one_and_each_question_is_asked_once() {
    let place = TestEnvironment::new();
    let stalled = "[[reply]]\ntext = \"Never.\"\ndelay = \"600s\"\nrepeat = true\n";
    place.write("replies.toml", stalled);
    let run = ["run", "say it", "--model", "script/replies.toml", "--no-workspace"];
    for _ in 0..6 {
        let task = place.start(&run);
        place.until(|| (count(&place.events(&task.id), "model_called") == 1).then_some(()));
        task.signal("KILL");
        task.wait();
    }
    place.write("replies.toml", "[[reply]]\ntext = \"Said.\"\ndelay = \"400ms\"\n");
    let both = [(); 2].map(|()| spawn(&place, &["resume", "--all", "--unattended"]));
    for ran in both.map(|child| ended(&place, child)) {
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert!(!ran.out.contains("was taken over"), "{}", ran.out);
    }
    for task in place.tasks() {
        let events = place.events(task["id"].as_str().unwrap());
        assert_eq!(task["outcome"], "completed", "{task}");
        assert_eq!(count(&events, "model_called"), 2, "once more after the one that was killed");
    }
}

/// Adds a record to a task that nobody drives.
fn add(place: &TestEnvironment, id: &str, version: u32, body: &[u8]) {
    let mut journal = SqliteJournal::open(&Home::at(place.home()).journal()).unwrap();
    let n = journal.claim(id).unwrap() + 1;
    journal
        .commit(&[Entry::Record { task: id, n, time: 2_000_000_000_000, version, body }])
        .unwrap();
}

#[test]
fn a_task_that_cannot_be_read_counts_for_the_exit_code_of_all() {
    let later = machine::MACHINE_VERSION + 1;
    for version in [machine::MACHINE_VERSION, later] {
        let place = TestEnvironment::new();
        let id = at_rest(&place);
        add(&place, &id, version, br#"{"sig":{"dreamt":1}}"#);
        let ran = place.run(&["resume", "--all", "--unattended"]);
        assert_eq!(ran.code, 20, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("written by a newer drivetrain"), "{}", ran.err);
        place.write("release", "");
        assert_eq!(place.run(&["run", "task.toml"]).code, 0);
        assert_eq!(place.run(&["resume", "--all", "--json"]).code, 20, "nothing to resume");
    }
}
