//! What the tests share.

use std::path::Path;

use journal::sqlite::SqliteJournal;
use journal::{Entry, Journal, Record};
use tempfile::TempDir;

/// A temporary folder, in memory where there is such a place: syncs then cost nothing.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir()
        && let Ok(folder) = tempfile::tempdir_in(memory)
    {
        return folder;
    }
    tempfile::tempdir().unwrap()
}

pub(crate) fn open(folder: &Path) -> SqliteJournal {
    SqliteJournal::open(folder).unwrap()
}

pub(crate) fn create(task: &str, time: i64) -> Entry<'_> {
    Entry::Create { task, time }
}

pub(crate) fn record<'a>(task: &'a str, n: u64, body: &'a [u8]) -> Entry<'a> {
    Entry::Record { task, n, time: 1_700_000_000_000 + n as i64, version: 1, body }
}

pub(crate) fn bodies(records: &[Record]) -> Vec<Vec<u8>> {
    records.iter().map(|record| record.body.clone()).collect()
}

/// Copies a journal's files as they are, which is what a kill leaves behind.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in FILES {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

pub(crate) const FILES: [&str; 4] = ["journal.db", "journal.db-wal", "journal.db-shm", "tips"];

/// A small generator of numbers: the same seed gives the same test.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

pub(crate) fn database(folder: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(folder.join("journal.db")).unwrap()
}

#[track_caller]
pub(crate) fn sound(journal: &dyn Journal) {
    assert_eq!(journal.verify().damages, []);
}
