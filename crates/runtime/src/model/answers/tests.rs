//! Answers through every way in which a process can end.

use std::collections::{BTreeMap, BTreeSet};

use machine::message::{Message, StopReason, Usage};
use proptest::prelude::*;

use super::*;

fn reply(text: &str) -> Reply {
    let (id, model) = ("id".to_owned(), "model".to_owned());
    let (message, usage) = (Message::user(text), Usage::default());
    Reply { id, model, message, stop: StopReason::EndTurn, usage }
}

fn asked(task: &str, question: u64) -> Asked<'_> {
    Asked { task, question, request: "r" }
}

fn found(answers: &Answers, task: &str, question: u64) -> Option<String> {
    answers.find(asked(task, question)).map(|reply| reply.message.text())
}

/// The process ends without a chance to put anything in order.
fn die(mut answers: Answers) {
    answers.known.get_mut().unwrap().spool.take();
}

fn names(folder: &Path) -> BTreeSet<String> {
    let all = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    all.filter(|path| path.is_file())
        .map(|path| path.file_name().unwrap().display().to_string())
        .collect()
}

#[test]
fn a_new_process_finds_the_answers_of_one_that_died_and_of_one_that_went() {
    let home = tempfile::tempdir().unwrap();
    for ends in [die as fn(Answers), drop] {
        let one = Answers::in_folder(home.path().to_owned());
        one.begun("a");
        one.begun("b");
        assert_eq!(found(&one, "a", 1), None);
        one.keep(asked("a", 1), &reply("a1"));
        one.keep(asked("b", 1), &reply("b1"));
        one.keep(asked("a", 2), &reply("a2"));
        ends(one);
        for _ in 0..2 {
            let two = Answers::in_folder(home.path().to_owned());
            assert_eq!(found(&two, "a", 1), None, "another question");
            drop(two);
            let two = Answers::in_folder(home.path().to_owned());
            assert_eq!(found(&two, "a", 2).as_deref(), Some("a2"));
            assert_eq!(found(&two, "b", 1).as_deref(), Some("b1"));
            ends(two);
        }
        let three = Answers::in_folder(home.path().to_owned());
        three.forget("a");
        three.forget("b");
        assert_eq!(names(home.path()), BTreeSet::new());
        assert_eq!(names(&home.path().join(UNDER_WAY)), BTreeSet::new());
    }
}

#[test]
fn a_task_that_moves_to_another_process_takes_its_answer_along() {
    let home = tempfile::tempdir().unwrap();
    let one = Answers::in_folder(home.path().to_owned());
    let two = Answers::in_folder(home.path().to_owned());
    one.begun("a");
    one.keep(asked("a", 1), &reply("a1"));
    one.release("a");
    assert_eq!(found(&two, "a", 1).as_deref(), Some("a1"), "the first one lives");
    two.release("a");
    one.begun("b");
    one.keep(asked("b", 1), &reply("b1"));
    assert_eq!(names(home.path()), BTreeSet::from(["a.json".to_owned()]), "it rests by itself");
    assert_eq!(found(&two, "a", 1).as_deref(), Some("a1"));
    two.forget("a");
    assert_eq!(names(home.path()), BTreeSet::new());
}

#[test]
fn a_process_with_a_thousand_tasks_makes_one_file_and_no_other() {
    let home = tempfile::tempdir().unwrap();
    let answers = Answers::in_folder(home.path().to_owned());
    let tasks: Vec<String> = (0..1000).map(|n| format!("t{n}")).collect();
    for task in &tasks {
        answers.begun(task);
        assert_eq!(found(&answers, task, 1), None);
        answers.keep(asked(task, 1), &reply("x"));
    }
    assert_eq!(names(home.path()), BTreeSet::new());
    assert_eq!(names(&home.path().join(UNDER_WAY)).len(), 1);
    for task in &tasks {
        answers.release(task);
    }
    for task in &tasks {
        answers.forget(task);
    }
    answers.begun("last");
    answers.keep(asked("last", 1), &reply("x"));
    assert_eq!(names(home.path()), BTreeSet::new());
    let size = |name: &String| home.path().join(UNDER_WAY).join(name).metadata().unwrap().len();
    let sizes: Vec<u64> = names(&home.path().join(UNDER_WAY)).iter().map(size).collect();
    assert!(matches!(sizes[..], [1..1000]), "{sizes:?}");
}

#[test]
fn a_long_life_does_not_fill_the_disk() {
    let home = tempfile::tempdir().unwrap();
    let answers = Answers::in_folder(home.path().to_owned());
    let long = "x".repeat(100 << 10);
    for question in 1..200 {
        for task in ["a", "b", "c"] {
            answers.keep(asked(task, question), &reply(&format!("{task}{question}{long}")));
        }
    }
    let sizes: u64 = names(&home.path().join(UNDER_WAY))
        .iter()
        .map(|name| home.path().join(UNDER_WAY).join(name).metadata().unwrap().len())
        .sum();
    assert!(sizes < 6 << 20, "{sizes}");
    die(answers);
    let next = Answers::in_folder(home.path().to_owned());
    for task in ["a", "b", "c"] {
        let text = format!("{task}199{long}");
        assert!(found(&next, task, 199) == Some(text), "{task}");
    }
}

#[test]
fn a_line_that_was_cut_costs_only_itself() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(UNDER_WAY);
    let one = Answers::in_folder(home.path().to_owned());
    one.keep(asked("a", 1), &reply("a1"));
    one.keep(asked("b", 1), &reply("b1"));
    let name = names(&folder).pop_first().unwrap();
    die(one);
    let whole = fs::read(folder.join(&name)).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for length in first..whole.len() - 1 {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(UNDER_WAY)).unwrap();
        fs::write(home.path().join(UNDER_WAY).join(&name), &whole[..length]).unwrap();
        let two = Answers::in_folder(home.path().to_owned());
        assert_eq!(found(&two, "a", 1).as_deref(), Some("a1"), "{length}");
        assert_eq!(found(&two, "b", 1), None, "{length}");
    }
}

/// What happens to three tasks in two processes.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// The process asks the task's next question and gets an answer.
    Answered,
    /// It asks the last question again, as after a crash.
    Again,
    Released,
    Ended,
    Died,
    Left,
}

fn acts() -> impl Strategy<Value = Vec<(usize, usize, Act)>> {
    let act = prop_oneof![
        6 => Just(Act::Answered),
        2 => Just(Act::Again),
        2 => Just(Act::Released),
        1 => Just(Act::Ended),
        1 => Just(Act::Died),
        1 => Just(Act::Left),
    ];
    proptest::collection::vec((0..2_usize, 0..3_usize, act), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The rule for all of it: the last answer of a task that has not ended is found by whoever drives it next, and
    /// nobody is given another.
    #[test]
    fn the_last_answer_is_never_lost(acts in acts()) {
        let home = tempfile::tempdir().unwrap();
        let new = || Answers::in_folder(home.path().to_owned());
        let mut processes = [Some(new()), Some(new())];
        // No two tasks ever have one name.
        let mut tasks = ["a", "b", "c"].map(str::to_owned);
        // Who drives a task, its last question, and whether that was answered.
        let mut driver: BTreeMap<usize, usize> = BTreeMap::new();
        let mut last = [0_u64; 3];
        for (process, task, act) in acts {
            let name = tasks[task].clone();
            let name = name.as_str();
            // A task is taken over from whoever drove it, as the journal's fence has it.
            if matches!(act, Act::Answered | Act::Again | Act::Ended)
                && let Some(before) = driver.insert(task, process)
                && before != process
            {
                processes[before].as_ref().unwrap().release(name);
            }
            let answers = processes[process].as_ref().unwrap();
            match act {
                Act::Answered => {
                    if last[task] == 0 {
                        answers.begun(name);
                    }
                    last[task] += 1;
                    prop_assert_eq!(found(answers, name, last[task]), None);
                    answers.keep(asked(name, last[task]), &reply(&format!("{name}{}", last[task])));
                }
                Act::Again if last[task] > 0 => {
                    let text = format!("{name}{}", last[task]);
                    prop_assert_eq!(found(answers, name, last[task]), Some(text));
                }
                Act::Again => {}
                Act::Released => {
                    if driver.get(&task) == Some(&process) {
                        answers.release(name);
                        driver.remove(&task);
                    }
                }
                Act::Ended => {
                    answers.release(name);
                    answers.forget(name);
                    driver.remove(&task);
                    last[task] = 0;
                    tasks[task].push('x');
                }
                Act::Died | Act::Left => {
                    let gone = processes[process].take().unwrap();
                    if matches!(act, Act::Died) { die(gone) } else { drop(gone) }
                    processes[process] = Some(new());
                    driver.retain(|_, by| *by != process);
                }
            }
        }
    }
}
