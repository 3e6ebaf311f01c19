//! Both journals pass the one suite.

use journal::Journal;
use journal::contract::{Store, check};
use journal::memory::{MemoryJournal, MemoryStore};
use journal::sqlite::SqliteJournal;
use tempfile::TempDir;

use crate::support::scratch;

struct Memory(MemoryStore);

impl Store for Memory {
    fn open(&self) -> Box<dyn Journal> {
        Box::new(MemoryJournal::open(&self.0))
    }
}

struct Folder(TempDir);

impl Store for Folder {
    fn open(&self) -> Box<dyn Journal> {
        Box::new(SqliteJournal::open(self.0.path()).unwrap())
    }
}

#[test]
fn the_journal_in_memory_keeps_the_contract() {
    check(&mut || Box::new(Memory(MemoryStore::default())));
}

#[test]
fn the_journal_on_disk_keeps_the_contract() {
    check(&mut || Box::new(Folder(scratch())));
}
