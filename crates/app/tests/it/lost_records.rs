//! A journal that lost the end of a task, through the real binary: after `journal rebuild` nothing is done twice before a
//! person has looked.

use std::fs;

use crate::environment::TestEnvironment;

/// Waits for the file `go`, having said so.
const HOLD: &str = "touch waits; while ! test -e go; do sleep 0.02; done";

const FILES: [&str; 2] = ["journal.db", "journal.db-wal"];

/// The database as it is at this moment, at which nobody writes.
fn copy(place: &TestEnvironment) -> [Option<Vec<u8>>; 2] {
    FILES.map(|name| fs::read(place.home().join("journal").join(name)).ok())
}

/// Puts that database in the place of the newer one: everything after it is lost, and the witness knows.
fn put_back(place: &TestEnvironment, old: [Option<Vec<u8>>; 2]) {
    let folder = place.home().join("journal");
    let _ = fs::remove_file(folder.join("journal.db-shm"));
    for (name, content) in FILES.iter().zip(old) {
        match content {
            Some(content) => fs::write(folder.join(name), content).unwrap(),
            None => drop(fs::remove_file(folder.join(name))),
        }
    }
}

/// Asks for the rebuild, and that the task waits for somebody to look at it.
fn rebuilt(place: &TestEnvironment, id: &str) {
    let verified = place.run(&["journal", "verify"]);
    assert_eq!(verified.code, 20, "{}{}", verified.out, verified.err);
    let told = place.ok(&["journal", "rebuild"]);
    let asked = format!("look at its files, then drivetrain resume {id}");
    assert!(told.contains(&asked), "{told}");
    assert!(place.ok(&["journal", "verify"]).starts_with("sound"));
    let resumed = place.run(&["resume", "--all", "--unattended"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
}

#[test]
fn steps_that_were_done_are_not_done_again_before_somebody_looked() {
    let place = TestEnvironment::new();
    let first = format!("echo 1 >> out; {HOLD}");
    place.steps("task.toml", &[&first, "echo 2 >> out", "echo 3 >> out"], "");
    let task = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    task.signal("TERM");
    let id = task.id.clone();
    place.until_draining(&id);
    place.write("go", "");
    assert_eq!(task.wait().code, 13);
    let old = copy(&place);
    place.ok(&["resume", &id]);
    assert_eq!(place.show(&id)["outcome"], "completed");
    put_back(&place, old);

    // What is left is shown before it is mended.
    for command in [&["log", &id][..], &["log", &id, "--json"], &["journal", "export", &id]] {
        let ran = place.run(command);
        assert_eq!(ran.code, 20, "{command:?}: {}", ran.err);
        assert!(ran.out.contains("echo 1 >> out"), "{command:?}: {}", ran.out);
        assert!(ran.err.contains("drivetrain journal rebuild"), "{command:?}: {}", ran.err);
    }
    rebuilt(&place, &id);
    assert_eq!(place.read("out"), "1\n2\n3\n");
    let listed = &place.tasks()[0];
    assert_eq!((&listed["outcome"], &listed["phase"]), (&().into(), &"paused".into()));
    let why = place.ok(&["why", &id]);
    for said in ["the journal was damaged and lost the last", "look at the files, then resume it"] {
        assert!(why.contains(said), "{said}: {why}");
    }
    let told = place.events(&id);
    let lost = told.iter().find(|event| event["type"] == "records_lost").unwrap();
    assert!(lost["lost"].as_u64().unwrap() > 2, "{lost}");

    // Whoever resumes it by name has looked.
    place.ok(&["resume", &id]);
    assert_eq!(place.read("out"), "1\n2\n3\n2\n3\n");
    let why = place.ok(&["why", &id]);
    assert!(why.contains(&format!("was damaged and lost {} records", lost["lost"])), "{why}");
}

#[test]
fn what_a_model_had_done_is_not_done_again_either() {
    let place = TestEnvironment::new();
    let call = |command: &str| {
        format!(
            "[[reply]]\ntool_calls = [{{ tool = \"shell\", input = {{ command = \"{command}\" }} }}]\n"
        )
    };
    let script =
        [call(HOLD), call("echo 1 >> out"), "[[reply]]\ntext = \"Done.\"\n".to_owned()].concat();
    place.write("replies.toml", &script);
    let arguments = ["run", "count", "--model", "script/replies.toml", "--in-place"];
    let task = place.start(&arguments);
    place.until_file("waits");
    let old = copy(&place);
    place.write("go", "");
    let id = task.id.clone();
    let ran = task.wait();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    put_back(&place, old);

    rebuilt(&place, &id);
    assert_eq!(place.read("out"), "1\n");
    assert!(place.ok(&["why", &id]).contains("look at the files, then resume it"));
}

#[test]
fn a_task_waits_too_whose_step_began_the_one_that_lost_records() {
    let place = TestEnvironment::new();
    let step = |name: &str, command: &str| {
        format!(
            "{{ name = \"{name}\", tool = \"shell\", parameters = {{ command = \"{command}\" }} }}"
        )
    };
    let steps = [step("a", "echo 1 >> out; printf 'the out%s' put"), step("b", HOLD)].join(", ");
    place.write(
        "task.toml",
        &format!(
            "[task]\ngoal = \"all of it\"\n[workflow]\n[[workflow.steps]]\nname = \"part\"\n\
             [workflow.steps.task]\ngoal = \"a part\"\nworkflow = {{ steps = [{steps}] }}\n"
        ),
    );
    let task = place.start(&["run", "task.toml"]);
    place.until_file("waits");
    task.signal("TERM");
    let tasks = place.tasks();
    let whole = tasks.iter().find(|task| task["goal"] == "all of it").unwrap();
    let id = whole["id"].as_str().unwrap().to_owned();
    place.until_draining(&id);
    place.write("go", "");
    assert_eq!(task.wait().code, 13);
    // The end of the child's first step, of which the task around it knows nothing.
    let path = place.home().join("journal/journal.db");
    let mut bytes = fs::read(&path).unwrap();
    let mark = b"the output";
    let places: Vec<usize> =
        (0..bytes.len() - mark.len()).filter(|at| bytes[*at..].starts_with(mark)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] = b'T');
    fs::write(&path, bytes).unwrap();

    rebuilt(&place, &id);
    assert_eq!(place.read("out"), "1\n");
    let why = place.ok(&["why", &id]);
    assert!(why.contains("which a step of it began, so what was done already"), "{why}");
    // Somebody looked, and is asked of the call whose end is among what was lost.
    let ran = place.run(&["resume", &id]);
    assert_eq!(ran.code, 13, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("did it run?"), "{}", ran.out);
    assert_eq!(place.read("out"), "1\n");
}
