//! A journal in memory, for tests and dry runs: the same rules as on disk, without the disk.

use std::collections::{BTreeMap, btree_map};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::chain::Chain;
use crate::{
    Damage, DamageKind, Entry, Journal, JournalError, Loaded, MAX_BODY, Record, Report, Snapshot,
    TaskRow, check_id,
};

/// What outlives a [`MemoryJournal`]: the place it is opened on. Clones share the content.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Content>>);

#[derive(Debug, Clone, Default)]
struct Content {
    owner: u64,
    tasks: BTreeMap<String, Task>,
}

#[derive(Debug, Clone)]
struct Task {
    number: usize,
    row: TaskRow,
    snapshot: Option<Snapshot>,
    records: Vec<(Record, Chain)>,
}

/// A journal on a [`MemoryStore`].
#[derive(Debug)]
pub struct MemoryJournal {
    store: MemoryStore,
    owner: u64,
    syncs: u64,
}

impl MemoryJournal {
    /// Opens a store for writing, which raises its owner number.
    pub fn open(store: &MemoryStore) -> Self {
        let owner = {
            let mut content = store.lock();
            content.owner += 1;
            content.owner
        };
        Self { store: store.clone(), owner, syncs: 0 }
    }

    fn take(&mut self, task: &str, from: Option<u64>) -> Result<u64, JournalError> {
        let mut content = self.store.lock();
        let unknown = || JournalError::UnknownTask(task.to_owned());
        let found = content.tasks.get_mut(task).ok_or_else(unknown)?;
        if from.is_some_and(|from| found.row.owner != from) {
            let (task, owner, by) = (task.to_owned(), self.owner, found.row.owner);
            return Err(JournalError::Fenced { task, owner, by });
        }
        found.row.owner = self.owner;
        Ok(found.records.len() as u64)
    }
}

impl Default for MemoryJournal {
    /// A journal on a store of its own.
    fn default() -> Self {
        Self::open(&MemoryStore::default())
    }
}

impl MemoryStore {
    /// Nothing here panics between two changes that belong together, so a poisoned lock is still sound.
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    fn task(&self, id: &str) -> Result<&Task, JournalError> {
        self.tasks.get(id).ok_or_else(|| JournalError::UnknownTask(id.to_owned()))
    }

    fn newest_first(&self) -> Vec<&Task> {
        let mut tasks: Vec<_> = self.tasks.values().collect();
        tasks.sort_by_key(|task| std::cmp::Reverse((task.row.created, task.number)));
        tasks
    }
}

/// The changes of a batch, kept apart until the whole batch has been accepted.
struct Staged<'c, 'a> {
    content: &'c Content,
    owner: u64,
    changes: BTreeMap<&'a str, Change>,
}

/// A task as it will be; `added` holds only its new records.
struct Change {
    number: usize,
    row: TaskRow,
    snapshot: Option<Snapshot>,
    count: u64,
    chain: Chain,
    added: Vec<(Record, Chain)>,
}

impl<'a> Staged<'_, 'a> {
    fn held(&mut self, id: &'a str) -> Result<&mut Change, JournalError> {
        let change = match self.changes.entry(id) {
            btree_map::Entry::Occupied(entry) => entry.into_mut(),
            btree_map::Entry::Vacant(entry) => {
                let task = self.content.task(id)?;
                entry.insert(Change {
                    number: task.number,
                    row: task.row.clone(),
                    snapshot: task.snapshot.clone(),
                    count: task.records.len() as u64,
                    chain: task.records.last().map_or_else(|| Chain::start(id), |last| last.1),
                    added: Vec::new(),
                })
            }
        };
        if change.row.owner != self.owner {
            return Err(JournalError::Fenced {
                task: id.to_owned(),
                owner: self.owner,
                by: change.row.owner,
            });
        }
        Ok(change)
    }

    fn apply(&mut self, entry: &Entry<'a>) -> Result<(), JournalError> {
        match *entry {
            Entry::Create { task: id, time } => self.create(id, time)?,
            Entry::Record { task: id, n, time, version, body } => {
                if body.len() > MAX_BODY {
                    return Err(JournalError::TooLarge { task: id.to_owned(), size: body.len() });
                }
                let change = self.held(id)?;
                let expected = change.count + 1;
                if n != expected {
                    return Err(JournalError::OutOfOrder { task: id.to_owned(), expected, got: n });
                }
                change.count = n;
                change.chain = change.chain.next(n, time, version, body);
                let record = Record { n, time, version, body: body.to_vec() };
                change.added.push((record, change.chain));
            }
            Entry::Snapshot { task: id, n, body } => {
                self.held(id)?.snapshot = Some(Snapshot { n, body: body.to_vec() });
            }
            Entry::Summary { task: id, open, body } => {
                let row = &mut self.held(id)?.row;
                row.open = open;
                body.clone_into(&mut row.summary);
            }
        }
        Ok(())
    }

    fn create(&mut self, id: &'a str, time: i64) -> Result<(), JournalError> {
        check_id(id)?;
        if self.content.tasks.contains_key(id) || self.changes.contains_key(id) {
            return Err(JournalError::DuplicateTask(id.to_owned()));
        }
        let row = TaskRow {
            id: id.to_owned(),
            created: time,
            owner: self.owner,
            open: true,
            summary: String::new(),
        };
        let number = self.content.tasks.len() + self.changes.len();
        let chain = Chain::start(id);
        self.changes
            .insert(id, Change { number, row, snapshot: None, count: 0, chain, added: Vec::new() });
        Ok(())
    }

    /// A snapshot's record may come later in the batch, so this is asked at the end.
    fn check_snapshots(&self) -> Result<(), JournalError> {
        for (id, change) in &self.changes {
            if let Some(snapshot) = &change.snapshot
                && snapshot.n > change.count
            {
                let (task, expected, got) = ((*id).to_owned(), change.count, snapshot.n);
                return Err(JournalError::OutOfOrder { task, expected, got });
            }
        }
        Ok(())
    }
}

impl Journal for MemoryJournal {
    fn owner(&self) -> u64 {
        self.owner
    }

    fn commit(&mut self, entries: &[Entry<'_>]) -> Result<(), JournalError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut content = self.store.lock();
        let mut staged = Staged { content: &content, owner: self.owner, changes: BTreeMap::new() };
        for entry in entries {
            staged.apply(entry)?;
        }
        staged.check_snapshots()?;
        for (id, change) in staged.changes {
            let Change { number, row, snapshot, added, .. } = change;
            let task = content.tasks.entry(id.to_owned()).or_insert_with(|| Task {
                number,
                row: row.clone(),
                snapshot: None,
                records: Vec::new(),
            });
            task.row = row;
            task.snapshot = snapshot;
            task.records.extend(added);
        }
        self.syncs += 1;
        Ok(())
    }

    fn claim(&mut self, task: &str) -> Result<u64, JournalError> {
        self.take(task, None)
    }

    fn claim_from(&mut self, task: &str, from: u64) -> Result<u64, JournalError> {
        self.take(task, Some(from))
    }

    fn load(&self, task: &str) -> Result<Loaded, JournalError> {
        let snapshot = self.store.lock().task(task)?.snapshot.clone();
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.n);
        Ok(Loaded { snapshot, records: self.records(task, after)? })
    }

    fn records(&self, task: &str, after: u64) -> Result<Vec<Record>, JournalError> {
        let content = self.store.lock();
        let records = &content.task(task)?.records;
        let after = usize::try_from(after).unwrap_or(usize::MAX).min(records.len());
        Ok(records[after..].iter().map(|(record, _)| record.clone()).collect())
    }

    fn task(&self, task: &str) -> Result<TaskRow, JournalError> {
        Ok(self.store.lock().task(task)?.row.clone())
    }

    fn find(&self, prefix: &str, limit: usize) -> Result<Vec<String>, JournalError> {
        let content = self.store.lock();
        let found = content.newest_first().into_iter().map(|task| task.row.id.clone());
        Ok(found.filter(|id| id.starts_with(prefix)).take(limit).collect())
    }

    fn list(&self, limit: usize, before: Option<i64>) -> Result<Vec<TaskRow>, JournalError> {
        let content = self.store.lock();
        let rows = content.newest_first().into_iter().map(|task| &task.row);
        let rows = rows.filter(|row| before.is_none_or(|before| row.created < before));
        Ok(rows.take(limit).cloned().collect())
    }

    fn open_tasks(&self) -> Result<Vec<TaskRow>, JournalError> {
        let content = self.store.lock();
        let rows = content.newest_first().into_iter().rev().map(|task| &task.row);
        Ok(rows.filter(|row| row.open).cloned().collect())
    }

    fn verify(&self) -> Report {
        let content = self.store.lock();
        let mut report = Report { tasks: content.tasks.len() as u64, ..Report::default() };
        for (id, task) in &content.tasks {
            let mut chain = Chain::start(id);
            for (record, stored) in &task.records {
                chain = chain.next(record.n, record.time, record.version, &record.body);
                report.records += 1;
                if chain != *stored {
                    report.damages.push(Damage {
                        task: Some(id.clone()),
                        n: Some(record.n),
                        kind: DamageKind::Altered,
                        detail: format!("record {} of task {id} was altered", record.n),
                    });
                    break;
                }
            }
        }
        report
    }

    fn syncs(&self) -> u64 {
        self.syncs
    }
}
