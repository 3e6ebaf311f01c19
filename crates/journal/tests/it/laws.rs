//! Random batches over several tasks, with the journal reopened at random points, read back as written.

use std::collections::BTreeMap;
use std::path::Path;

use journal::memory::{MemoryJournal, MemoryStore};
use journal::{Entry, Journal, Record, Snapshot};
use proptest::prelude::*;

use crate::support::{open, scratch, sound};

#[derive(Debug, Clone)]
enum Move {
    /// How many records each task gets in one batch, their size, and which task gets a snapshot.
    Commit {
        counts: Vec<u8>,
        size: u16,
        snapshot: Option<u8>,
        close: Option<u8>,
    },
    Reopen,
    /// A second process takes a task and writes to it.
    TakeOver(u8),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let commit = (
        prop::collection::vec(0..4_u8, 5),
        prop_oneof![9 => 0..300_u16, 1 => 0..20_000_u16],
        prop::option::of(0..5_u8),
        prop::option::weighted(0.2, 0..5_u8),
    )
        .prop_map(|(counts, size, snapshot, close)| Move::Commit {
            counts,
            size,
            snapshot,
            close,
        });
    prop::collection::vec(
        prop_oneof![8 => commit, 1 => Just(Move::Reopen), 1 => (0..5_u8).prop_map(Move::TakeOver)],
        1..40,
    )
}

#[derive(Default)]
struct Expected {
    records: Vec<Record>,
    snapshot: Option<Snapshot>,
    open: bool,
}

/// Runs the moves on any journal; `new` opens the same store once more.
fn play(moves: &[Move], new: &dyn Fn() -> Box<dyn Journal>) {
    let ids: Vec<String> = (0..5).map(|task| format!("task-{task}")).collect();
    let mut expected: BTreeMap<&str, Expected> = BTreeMap::new();
    let mut journal = new();
    let creates: Vec<_> =
        ids.iter().map(|task| Entry::Create { task, time: 1_700_000_000_000 }).collect();
    journal.commit(&creates).unwrap();
    for id in &ids {
        expected.insert(id, Expected { open: true, ..Expected::default() });
    }
    for one in moves {
        match one {
            Move::Commit { counts, size, snapshot, close } => {
                commit(&mut *journal, &ids, &mut expected, counts, *size, *snapshot, *close);
            }
            Move::Reopen => {
                drop(journal);
                journal = new();
                claim_all(&mut *journal, &ids, &expected);
            }
            Move::TakeOver(task) => {
                let id = &ids[usize::from(*task)];
                let mut other = new();
                let n = other.claim(id).unwrap() + 1;
                assert_eq!(n, expected[id.as_str()].records.len() as u64 + 1);
                let record = Record { n, time: 5, version: 9, body: vec![1, 2, 3] };
                let entry = Entry::Record { task: id, n, time: 5, version: 9, body: &record.body };
                other.commit(std::slice::from_ref(&entry)).unwrap();
                assert!(journal.commit(&[entry]).is_err(), "the former holder is fenced");
                expected.get_mut(id.as_str()).unwrap().records.push(record);
                assert_eq!(journal.claim(id).unwrap(), n);
            }
        }
        let probe = &ids[0];
        assert_eq!(journal.records(probe, 0).unwrap(), expected[probe.as_str()].records);
    }
    let last = new();
    for (id, task) in &expected {
        assert_eq!(last.records(id, 0).unwrap(), task.records);
        let loaded = last.load(id).unwrap();
        assert_eq!(loaded.snapshot, task.snapshot);
        let after = task.snapshot.as_ref().map_or(0, |snapshot| snapshot.n) as usize;
        assert_eq!(loaded.records, task.records[after..]);
    }
    let open: Vec<_> = last.open_tasks().unwrap().into_iter().map(|row| row.id).collect();
    let still: Vec<_> =
        expected.iter().filter(|(_, task)| task.open).map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(open, still);
    sound(&*last);
}

fn claim_all(journal: &mut dyn Journal, ids: &[String], expected: &BTreeMap<&str, Expected>) {
    for id in ids {
        assert_eq!(journal.claim(id).unwrap(), expected[id.as_str()].records.len() as u64);
    }
}

fn commit<'a>(
    journal: &mut dyn Journal,
    ids: &'a [String],
    expected: &mut BTreeMap<&'a str, Expected>,
    counts: &[u8],
    size: u16,
    snapshot: Option<u8>,
    close: Option<u8>,
) {
    let mut added: Vec<(&str, Record)> = Vec::new();
    for (id, count) in ids.iter().zip(counts) {
        for _ in 0..*count {
            let before = added.iter().filter(|(task, _)| task == id).count();
            let n = (expected[id.as_str()].records.len() + before) as u64 + 1;
            let time = 1_700_000_000_000 + n as i64 * 977 - i64::from(size) * 1_000;
            let body = (0..size).map(|at| (u64::from(at) ^ n) as u8).collect();
            added.push((id, Record { n, time, version: u32::from(size) << 4, body }));
        }
    }
    let mut entries: Vec<_> = added
        .iter()
        .map(|(task, record)| Entry::Record {
            task,
            n: record.n,
            time: record.time,
            version: record.version,
            body: &record.body,
        })
        .collect();
    for (id, record) in &added {
        expected.get_mut(id).unwrap().records.push(record.clone());
    }
    if let Some(task) = snapshot {
        let id = ids[usize::from(task)].as_str();
        let task = expected.get_mut(id).unwrap();
        // Sometimes the newest record, sometimes an older one.
        let n = (task.records.len() as u64).saturating_sub(u64::from(size % 3));
        entries.push(Entry::Snapshot { task: id, n, body: b"state" });
        task.snapshot = Some(Snapshot { n, body: b"state".to_vec() });
    }
    if let Some(task) = close {
        let id = ids[usize::from(task)].as_str();
        let task = expected.get_mut(id).unwrap();
        task.open = !task.open;
        entries.push(Entry::Summary { task: id, open: task.open, body: "{}" });
    }
    journal.commit(&entries).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_was_committed_on_disk_is_read_back(moves in moves()) {
        let folder = scratch();
        let path: &Path = folder.path();
        play(&moves, &|| Box::new(open(path)));
    }

    #[test]
    fn what_was_committed_in_memory_is_read_back(moves in moves()) {
        let store = MemoryStore::default();
        play(&moves, &|| Box::new(MemoryJournal::open(&store)));
    }
}

#[test]
fn heads_are_found_after_many_records_and_a_crash() {
    let folder = scratch();
    let mut journal = open(folder.path());
    let ids: Vec<String> = (0..50).map(|task| format!("t{task}")).collect();
    let creates: Vec<_> = ids.iter().map(|task| Entry::Create { task, time: 0 }).collect();
    journal.commit(&creates).unwrap();
    // Past two saved points, with tasks that stopped before, between and after them.
    for n in 1..=260_u64 {
        let entries: Vec<_> = ids
            .iter()
            .enumerate()
            .filter(|(place, _)| n <= 10 + 5 * *place as u64)
            .map(|(_, task)| Entry::Record { task, n, time: n as i64, version: 1, body: b"x" })
            .collect();
        if !entries.is_empty() {
            journal.commit(&entries).unwrap();
        }
    }
    let copy = scratch();
    crate::support::copy(folder.path(), copy.path());
    let mut crashed = open(copy.path());
    for (place, id) in ids.iter().enumerate() {
        let last = 10 + 5 * place as u64;
        assert_eq!(crashed.claim(id).unwrap(), last);
        assert_eq!(crashed.records(id, 0).unwrap().len() as u64, last);
    }
    sound(&crashed);
    sound(&journal);
}
