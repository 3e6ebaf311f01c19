//! The contract as a test suite: every journal passes [`check`].

use std::fmt::Debug;

use crate::{Entry, Journal, JournalError, Loaded, MAX_BODY, Record, Snapshot};

/// A place that a journal can be opened on again and again, also while another one is open.
pub trait Store {
    /// Opens it for writing, as another process would.
    fn open(&self) -> Box<dyn Journal>;
}

/// Runs the whole suite, each case on a new and empty store.
///
/// # Panics
///
/// When a journal breaks the contract; the message says where.
pub fn check(new: &mut dyn FnMut() -> Box<dyn Store>) {
    for case in [
        records_come_back_in_order,
        a_refused_batch_writes_nothing,
        a_claim_fences_the_former_holder,
        a_task_must_be_held_to_be_written,
        numbers_must_follow,
        large_bodies_and_bad_ids_are_refused,
        ids_are_unique,
        a_load_starts_at_the_snapshot,
        summaries_decide_the_lists,
        reopening_keeps_everything,
        one_commit_is_one_sync,
        tasks_do_not_mix,
    ] {
        case(&*new());
    }
}

fn create(task: &str, time: i64) -> Entry<'_> {
    Entry::Create { task, time }
}

fn record<'a>(task: &'a str, n: u64, body: &'a [u8]) -> Entry<'a> {
    Entry::Record { task, n, time: 1_000 + n as i64, version: 7, body }
}

fn expected(n: u64, body: &[u8]) -> Record {
    Record { n, time: 1_000 + n as i64, version: 7, body: body.to_vec() }
}

#[track_caller]
fn ok<T>(result: Result<T, JournalError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("unexpected error: {error}"),
    }
}

#[track_caller]
fn refused<T: Debug>(result: Result<T, JournalError>, how: &str) {
    match result {
        Ok(value) => panic!("expected {how}, got {value:?}"),
        Err(error) => {
            let name = format!("{error:?}");
            assert!(name.starts_with(how), "expected {how}, got {name}");
        }
    }
}

#[track_caller]
fn sound(journal: &dyn Journal) {
    let report = journal.verify();
    assert_eq!(report.damages, [], "a journal nobody damaged is sound");
}

fn records_come_back_in_order(store: &dyn Store) {
    let mut journal = store.open();
    ok(journal.commit(&[create("a", 5), record("a", 1, b"one"), record("a", 2, b"")]));
    ok(journal.commit(&[record("a", 3, &[0, 255, 10])]));
    let all = vec![expected(1, b"one"), expected(2, b""), expected(3, &[0, 255, 10])];
    assert_eq!(ok(journal.load("a")), Loaded { snapshot: None, records: all.clone() });
    assert_eq!(ok(journal.records("a", 0)), all);
    assert_eq!(ok(journal.records("a", 2)), all[2..]);
    assert_eq!(ok(journal.records("a", 3)), []);
    assert_eq!(ok(journal.records("a", u64::MAX)), []);
    refused(journal.load("b"), "UnknownTask");
    refused(journal.records("b", 0), "UnknownTask");
    refused(journal.task("b"), "UnknownTask");
    refused(journal.claim("b"), "UnknownTask");
    let report = journal.verify();
    assert_eq!((report.tasks, report.records, report.damages.len()), (1, 3, 0));
}

fn a_refused_batch_writes_nothing(store: &dyn Store) {
    let mut journal = store.open();
    ok(journal.commit(&[create("a", 1), record("a", 1, b"one")]));
    let batch = [
        record("a", 2, b"two"),
        create("b", 2),
        record("b", 1, b"one"),
        Entry::Summary { task: "a", open: false, body: "{}" },
        Entry::Snapshot { task: "a", n: 2, body: b"state" },
        record("a", 4, b"gap"),
    ];
    refused(journal.commit(&batch), "OutOfOrder");
    refused(journal.task("b"), "UnknownTask");
    assert_eq!(ok(journal.task("a")).summary, "");
    assert_eq!(ok(journal.load("a")).snapshot, None);
    assert_eq!(ok(journal.records("a", 0)), [expected(1, b"one")]);
    ok(journal.commit(&batch[..5]));
    assert_eq!(ok(journal.records("a", 1)), [expected(2, b"two")]);
    refused(journal.commit(&[record("a", 3, b"x"), record("c", 1, b"x")]), "UnknownTask");
    ok(journal.commit(&[record("a", 3, b"three")]));
    sound(&*journal);
}

fn a_claim_fences_the_former_holder(store: &dyn Store) {
    let mut first = store.open();
    ok(first.commit(&[create("a", 1), create("b", 1), record("a", 1, b"one")]));
    let mut second = store.open();
    assert!(second.owner() > first.owner(), "opening raises the owner number");
    ok(first.commit(&[record("a", 2, b"two")]));
    assert_eq!(ok(second.claim("a")), 2);
    let both = [record("b", 1, b"one"), record("a", 3, b"late")];
    match first.commit(&both) {
        Err(JournalError::Fenced { task, owner, by }) => {
            assert_eq!((task.as_str(), owner, by), ("a", first.owner(), second.owner()));
        }
        other => panic!("expected Fenced, got {other:?}"),
    }
    refused(first.commit(&[Entry::Summary { task: "a", open: false, body: "" }]), "Fenced");
    refused(first.commit(&[Entry::Snapshot { task: "a", n: 2, body: b"" }]), "Fenced");
    assert_eq!(ok(first.records("b", 0)), [], "a fenced batch fails whole");
    ok(first.commit(&[record("b", 1, b"one")]));
    ok(second.commit(&[record("a", 3, b"three")]));
    let (former, holder) = (first.owner(), second.owner());
    match first.claim_from("a", former) {
        Err(JournalError::Fenced { task, owner, by }) => {
            assert_eq!((task.as_str(), owner, by), ("a", former, holder), "it is no more its own");
        }
        other => panic!("expected Fenced, got {other:?}"),
    }
    refused(first.claim_from("c", holder), "UnknownTask");
    assert_eq!(ok(first.claim_from("a", holder)), 3, "as it was seen");
    assert_eq!(ok(second.claim("a")), 3);
    assert_eq!(ok(first.claim("a")), 3, "it can be taken back");
    refused(second.commit(&[record("a", 4, b"late")]), "Fenced");
    ok(first.commit(&[record("a", 4, b"four")]));
    assert_eq!(ok(second.records("a", 3)), [expected(4, b"four")]);
    sound(&*second);
}

fn a_task_must_be_held_to_be_written(store: &dyn Store) {
    let mut first = store.open();
    ok(first.commit(&[create("a", 1)]));
    drop(first);
    let mut second = store.open();
    refused(second.commit(&[record("a", 1, b"one")]), "Fenced");
    refused(second.commit(&[record("b", 1, b"one"), create("b", 1)]), "UnknownTask");
    assert_eq!(ok(second.claim("a")), 0);
    assert_eq!(ok(second.claim("a")), 0, "claiming twice changes nothing");
    ok(second.commit(&[record("a", 1, b"one")]));
    assert_eq!(ok(second.task("a")).owner, second.owner());
}

fn numbers_must_follow(store: &dyn Store) {
    let mut journal = store.open();
    ok(journal.commit(&[create("a", 1)]));
    refused(journal.commit(&[record("a", 0, b"")]), "OutOfOrder");
    refused(journal.commit(&[record("a", 2, b"")]), "OutOfOrder");
    ok(journal.commit(&[record("a", 1, b"")]));
    refused(journal.commit(&[record("a", 1, b"")]), "OutOfOrder");
    match journal.commit(&[record("a", 9, b"")]) {
        Err(JournalError::OutOfOrder { task, expected, got }) => {
            assert_eq!((task.as_str(), expected, got), ("a", 2, 9));
        }
        other => panic!("expected OutOfOrder, got {other:?}"),
    }
    refused(journal.commit(&[Entry::Snapshot { task: "a", n: 2, body: b"" }]), "OutOfOrder");
    ok(journal.commit(&[Entry::Snapshot { task: "a", n: 2, body: b"s" }, record("a", 2, b"")]));
    assert_eq!(ok(journal.load("a")).records, []);
}

fn large_bodies_and_bad_ids_are_refused(store: &dyn Store) {
    let mut journal = store.open();
    let largest = vec![1; MAX_BODY];
    let too_large = vec![1; MAX_BODY + 1];
    ok(journal.commit(&[create("a", 1), record("a", 1, &largest)]));
    refused(journal.commit(&[record("a", 2, &too_large)]), "TooLarge");
    assert_eq!(ok(journal.records("a", 0)), [expected(1, &largest)]);
    let long = "x".repeat(65);
    for id in ["", "A", "a b", "a/b", "ä", "a\0", "..", &long] {
        refused(journal.commit(&[create(id, 1)]), "BadId");
    }
    ok(journal.commit(&[create(&long[..64], 1), record(&long[..64], 1, b"")]));
    assert_eq!(ok(journal.records(&long[..64], 0)).len(), 1);
}

fn ids_are_unique(store: &dyn Store) {
    let mut journal = store.open();
    ok(journal.commit(&[create("a", 1), record("a", 1, b"")]));
    refused(journal.commit(&[create("a", 2)]), "DuplicateTask");
    refused(journal.commit(&[create("b", 2), create("b", 2)]), "DuplicateTask");
    ok(journal.commit(&[create("b", 3)]));
    let mut other = store.open();
    refused(other.commit(&[create("b", 4)]), "DuplicateTask");
    assert_eq!(ok(journal.task("b")).created, 3);
}

fn a_load_starts_at_the_snapshot(store: &dyn Store) {
    let mut journal = store.open();
    ok(journal.commit(&[
        create("a", 1),
        record("a", 1, b"1"),
        record("a", 2, b"2"),
        Entry::Snapshot { task: "a", n: 2, body: b"after two" },
        record("a", 3, b"3"),
    ]));
    let snapshot = |n, body: &[u8]| Some(Snapshot { n, body: body.to_vec() });
    let loaded = ok(journal.load("a"));
    assert_eq!(loaded.snapshot, snapshot(2, b"after two"));
    assert_eq!(loaded.records, [expected(3, b"3")]);
    ok(journal.commit(&[record("a", 4, b"4"), record("a", 5, b"5")]));
    ok(journal.commit(&[Entry::Snapshot { task: "a", n: 4, body: b"after four" }]));
    let journal = store.open();
    let loaded = ok(journal.load("a"));
    assert_eq!(loaded.snapshot, snapshot(4, b"after four"));
    assert_eq!(loaded.records, [expected(5, b"5")]);
    assert_eq!(ok(journal.records("a", 0)).len(), 5, "a snapshot deletes nothing");
    sound(&*journal);
}

fn summaries_decide_the_lists(store: &dyn Store) {
    let mut journal = store.open();
    for (id, time) in [("ab-1", 10), ("ab-2", 20), ("b-3", 30), ("ab-4", 30)] {
        ok(journal.commit(&[create(id, time)]));
    }
    let ids = |rows: Vec<crate::TaskRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(ids(ok(journal.open_tasks())), ["ab-1", "ab-2", "b-3", "ab-4"]);
    let closed = r#"{"outcome":"verified"}"#;
    ok(journal.commit(&[
        Entry::Summary { task: "ab-1", open: false, body: closed },
        Entry::Summary { task: "b-3", open: false, body: "" },
        Entry::Summary { task: "ab-2", open: true, body: "later" },
    ]));
    assert_eq!(ids(ok(journal.open_tasks())), ["ab-2", "ab-4"]);
    assert_eq!(ids(ok(journal.list(10, None))), ["ab-4", "b-3", "ab-2", "ab-1"]);
    assert_eq!(ids(ok(journal.list(2, None))), ["ab-4", "b-3"]);
    assert_eq!(ids(ok(journal.list(10, Some(30)))), ["ab-2", "ab-1"]);
    assert_eq!(ok(journal.find("ab-", 10)), ["ab-4", "ab-2", "ab-1"]);
    assert_eq!(ok(journal.find("ab-", 2)), ["ab-4", "ab-2"]);
    assert_eq!(ok(journal.find("", 10)).len(), 4);
    assert_eq!(ok(journal.find("ab-1", 10)), ["ab-1"]);
    assert_eq!(ok(journal.find("z", 10)), [""; 0]);
    assert_eq!(ok(journal.find("AB", 10)), [""; 0]);
    let row = ok(journal.task("ab-1"));
    assert_eq!((row.open, row.summary.as_str(), row.created), (false, closed, 10));
    ok(journal.commit(&[Entry::Summary { task: "ab-1", open: true, body: "again" }]));
    ok(journal.commit(&[record("ab-1", 1, b"one")]));
    assert_eq!(ids(ok(journal.open_tasks())), ["ab-1", "ab-2", "ab-4"]);
    sound(&*journal);
}

fn reopening_keeps_everything(store: &dyn Store) {
    let mut owner = 0;
    for round in 0..5_u64 {
        let mut journal = store.open();
        assert!(journal.owner() > owner);
        owner = journal.owner();
        if round == 0 {
            ok(journal.commit(&[create("a", 1)]));
        } else {
            assert_eq!(ok(journal.claim("a")), round * 3);
        }
        for n in round * 3 + 1..=round * 3 + 3 {
            ok(journal.commit(&[record("a", n, &n.to_be_bytes())]));
        }
        let all: Vec<_> = (1..=round * 3 + 3).map(|n| expected(n, &n.to_be_bytes())).collect();
        assert_eq!(ok(journal.records("a", 0)), all);
    }
    sound(&*store.open());
}

fn one_commit_is_one_sync(store: &dyn Store) {
    let mut journal = store.open();
    let before = journal.syncs();
    ok(journal.commit(&[create("a", 1), create("b", 1)]));
    for n in 1..=50 {
        ok(journal.commit(&[record("a", n, b"x"), record("b", n, b"y")]));
    }
    assert_eq!(journal.syncs() - before, 51);
    refused(journal.commit(&[record("a", 7, b"x")]), "OutOfOrder");
    ok(journal.commit(&[]));
    assert_eq!(journal.syncs() - before, 51, "nothing written, nothing synced");
}

fn tasks_do_not_mix(store: &dyn Store) {
    let mut journal = store.open();
    let ids: Vec<String> = (0..40).map(|task| format!("t-{task}")).collect();
    let creates: Vec<_> = ids.iter().map(|id| create(id, 1)).collect();
    ok(journal.commit(&creates));
    let bodies: Vec<Vec<u8>> = ids.iter().map(|id| id.repeat(3).into_bytes()).collect();
    for n in 1..=30 {
        // The tasks take turns unevenly, so that distances between a task's records differ.
        let batch: Vec<_> = ids
            .iter()
            .zip(&bodies)
            .enumerate()
            .filter(|(place, _)| n <= 30 - *place as u64 / 2)
            .map(|(_, (id, body))| record(id, n, body))
            .collect();
        ok(journal.commit(&batch));
    }
    let journal = store.open();
    for (place, (id, body)) in ids.iter().zip(&bodies).enumerate() {
        let all: Vec<_> = (1..=30 - place as u64 / 2).map(|n| expected(n, body)).collect();
        assert_eq!(ok(journal.records(id, 0)), all);
    }
    sound(&*journal);
}
