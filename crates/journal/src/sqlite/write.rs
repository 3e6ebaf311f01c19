//! Writing: one transaction and one sync a commit, fenced by owner number.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use rusqlite::Connection;

use crate::chain::Chain;
use crate::sqlite::read::Found;
use crate::sqlite::witness::{SLOT, Seen, Slot, Tip, Witness};
use crate::sqlite::{SqliteJournal, failure, schema};
use crate::{DamageKind, Entry, JournalError, MAX_BODY, TaskRow, check_id};

/// The heads are saved once so many records were written, in all and for each task held: this bounds what is
/// scanned after a crash, and what saving adds to each record.
const POINT_EVERY: i64 = 5_000;
const POINT_EVERY_TASK: i64 = 20;

/// A process that commits this often gets a write-ahead log of so many frames at once, so that its commits
/// overwrite blocks that the file already has, where growing the file would change its metadata each time.
/// Most processes drive one task and commit less often than the full length takes to pay for itself.
const WARM: [(u64, u64); 3] = [(12, 48), (28, 160), (256, 1_100)];

/// A task that this process writes.
#[derive(Debug)]
pub(super) struct Held {
    number: i64,
    created: i64,
    tip: Tip,
    slot: Slot,
    /// The value of [`Writer::epoch`] at which the owner was last read.
    epoch: u64,
    /// The turn that last changed it, and the tip before that.
    turn: u64,
    before: Tip,
    /// The turn that made it.
    made: u64,
}

/// What a writer remembers between commits.
#[derive(Debug, Default)]
pub(super) struct Writer {
    held: HashMap<String, Held>,
    /// Counts commits and attempts.
    turn: u64,
    /// Counts how often another process was seen to have written.
    epoch: u64,
    version: i64,
    next: i64,
    point: i64,
    /// The value of `epoch` at which the point was saved by this process; 0 before that.
    point_epoch: u64,
    /// Number and last record of tasks written since the point and no longer held.
    closed: Vec<(i64, i64)>,
    commits: u64,
    plan: Vec<Step>,
    slots: Vec<u8>,
    /// Why nothing more may be written.
    broken: Option<String>,
}

/// What one entry needs besides its own fields.
#[derive(Debug)]
enum Step {
    Create { number: i64 },
    Record { number: i64, seq: i64, back: i64, time: i64, chain: Chain },
    Snapshot { number: i64, chain: Chain },
    Summary { number: i64, created: i64 },
}

impl SqliteJournal {
    pub(super) fn write(&mut self, entries: &[Entry<'_>]) -> Result<(), JournalError> {
        self.writable()?;
        if entries.is_empty() {
            return Ok(());
        }
        check_sizes(entries)?;
        self.writer.turn += 1;
        if entries.iter().any(|entry| !self.writer.held.contains_key(task_of(entry))) {
            self.look_ahead();
        }
        self.begin()?;
        let (next, point) = match self.fill(entries) {
            Ok(after) => after,
            Err(error) => {
                self.undo(entries);
                return Err(self.abandon(error));
            }
        };
        if let Err(error) = self.run("commit") {
            self.undo(entries);
            return Err(self.abandon(error));
        }
        self.writer.next = next;
        if self.writer.point != point {
            self.writer.point = point;
            self.writer.point_epoch = self.writer.epoch;
            self.writer.closed.clear();
        }
        self.writer.commits += 1;
        self.syncs += 1;
        self.note_tips(entries);
        if self.witness.as_ref().is_some_and(Witness::is_removed) {
            // What was written is nowhere: the files live on without a name until this process ends.
            let why = format!("{} was removed while it was in use", self.folder.display());
            return Err(self.abandon(JournalError::Store(why)));
        }
        Ok(())
    }

    pub(super) fn take(&mut self, id: &str, from: Option<u64>) -> Result<u64, JournalError> {
        self.writable()?;
        self.look_ahead();
        self.begin()?;
        match self.take_over(id, from) {
            Ok((tip, changed)) => {
                let end = if changed { "commit" } else { "rollback" };
                match self.run(end) {
                    Ok(()) => Ok(tip.n),
                    Err(error) => {
                        self.let_go(id);
                        Err(self.abandon(error))
                    }
                }
            }
            Err(error) => Err(self.abandon(error)),
        }
    }

    /// Looks for the heads of tasks before a transaction begins that needs one. SQLite writes nothing more in a transaction that
    /// came upon a damaged page, though the page holds nothing of the task.
    fn look_ahead(&self) {
        // What is wrong is said by whoever needs a head.
        let _ = self.scan_tail();
    }

    fn writable(&self) -> Result<(), JournalError> {
        if self.owner == 0 {
            return Err(JournalError::Store("opened for reading only".to_owned()));
        }
        match &self.writer.broken {
            Some(why) => Err(JournalError::Store(format!(
                "a write failed, so the journal must be opened again ({why})"
            ))),
            None => Ok(()),
        }
    }

    fn run(&self, sql: &str) -> Result<(), JournalError> {
        let result = self.db.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        result.map(drop).map_err(|error| failure::writing(&error, &self.folder))
    }

    /// Takes the write lock, so that nothing changes until the commit, and looks whether others wrote.
    fn begin(&mut self) -> Result<(), JournalError> {
        let begun = self.run("begin immediate").and_then(|()| {
            let look = || -> rusqlite::Result<_> {
                let version = self
                    .db
                    .prepare_cached("pragma data_version")?
                    .query_row([], |row| row.get::<_, i64>(0))?;
                if version == self.writer.version && self.writer.epoch > 0 {
                    return Ok(None);
                }
                let last = self
                    .db
                    .prepare_cached("select max(seq) from record")?
                    .query_row([], |row| row.get::<_, Option<i64>>(0))?;
                let point = schema::meta(&self.db, schema::POINT)?.unwrap_or(0);
                Ok(Some((version, last.unwrap_or(0), point)))
            };
            look().map_err(|error| failure::writing(&error, &self.folder))
        });
        match begun {
            Ok(None) => Ok(()),
            Ok(Some((version, last, point))) => {
                self.writer.version = version;
                self.writer.next = last + 1;
                self.writer.point = point;
                self.writer.epoch += 1;
                Ok(())
            }
            Err(error) => Err(self.abandon(error)),
        }
    }

    /// Ends a transaction that failed. After a failure of the store itself nothing more is written: what
    /// reached the disk is not known.
    fn abandon(&mut self, error: JournalError) -> JournalError {
        if !self.db.is_autocommit()
            && let Err(second) = self.run("rollback")
        {
            self.writer.broken = Some(second.to_string());
        }
        if let JournalError::Store(why) = &error {
            self.writer.broken = Some(why.clone());
        }
        error
    }

    /// Puts the tasks of a batch back to where they were before it.
    fn undo(&mut self, entries: &[Entry<'_>]) {
        for entry in entries {
            let id = task_of(entry);
            if let Some(held) = self.writer.held.get_mut(id) {
                if held.made == self.writer.turn {
                    self.writer.held.remove(id);
                } else if held.turn == self.writer.turn {
                    held.tip = held.before;
                    held.turn = 0;
                }
            }
        }
    }

    /// Plans the whole batch, then writes it. Returns the next sequence number and the saved point.
    fn fill(&mut self, entries: &[Entry<'_>]) -> Result<(i64, i64), JournalError> {
        let next = self.plan(entries)?;
        let failed = |error: rusqlite::Error| failure::writing(&error, &self.folder);
        let commits = self.writer.commits;
        if let Some((_, frames)) = WARM.iter().find(|(after, _)| *after == commits) {
            self.warm(32 + frames * (4096 + 24));
        }
        self.insert(entries).map_err(failed)?;
        let mut point = self.writer.point;
        let many = POINT_EVERY_TASK * self.writer.held.len() as i64;
        if next - 1 - point >= many.max(POINT_EVERY) {
            match self.save_point(next - 1) {
                Ok(()) => point = next - 1,
                // Older records that cannot be read must not keep new ones from being written.
                Err(error) => match failed(error) {
                    JournalError::Damaged(_) => {}
                    error => return Err(error),
                },
            }
        }
        Ok((next, point))
    }

    fn plan(&mut self, entries: &[Entry<'_>]) -> Result<i64, JournalError> {
        let mut plan = std::mem::take(&mut self.writer.plan);
        plan.clear();
        plan.reserve(entries.len());
        let mut next = self.writer.next;
        let mut next_task = None;
        for entry in entries {
            plan.push(match *entry {
                Entry::Create { task: id, time } => {
                    let number = self.make(id, time, &mut next_task)?;
                    Step::Create { number }
                }
                Entry::Record { task: id, n, time, version, body } => {
                    let held = self.held(id)?;
                    if n != held.tip.n + 1 {
                        let (task, expected) = (id.to_owned(), held.tip.n + 1);
                        return Err(JournalError::OutOfOrder { task, expected, got: n });
                    }
                    let back = if n == 1 { 0 } else { next - held.tip.seq };
                    let chain = held.tip.chain.next(n, time, version, body);
                    held.tip = Tip { n, seq: next, chain };
                    next += 1;
                    let time = time.wrapping_sub(held.created);
                    Step::Record { number: held.number, seq: held.tip.seq, back, time, chain }
                }
                Entry::Snapshot { task: id, .. } => {
                    let held = self.held(id)?;
                    Step::Snapshot { number: held.number, chain: held.tip.chain }
                }
                Entry::Summary { task: id, .. } => {
                    let held = self.held(id)?;
                    Step::Summary { number: held.number, created: held.created }
                }
            });
        }
        for place in 0..entries.len() {
            if let Entry::Snapshot { task, n, .. } = entries[place] {
                let link = self.link_at(task, n, entries, &plan)?;
                if let Step::Snapshot { chain, .. } = &mut plan[place] {
                    *chain = link;
                }
            }
        }
        self.writer.plan = plan;
        Ok(next)
    }

    /// The task as this process may write it, with its owner checked if others wrote meanwhile.
    fn held(&mut self, id: &str) -> Result<&mut Held, JournalError> {
        let (epoch, turn) = (self.writer.epoch, self.writer.turn);
        let current = match self.writer.held.get(id) {
            None => {
                let held = self.acquire(id)?;
                self.writer.held.insert(id.to_owned(), held);
                true
            }
            Some(held) => held.epoch == epoch,
        };
        if !current {
            let found = self.found(id)?;
            if !found.sound {
                return Err(JournalError::Damaged(found.damage()));
            }
            if found.row.owner != self.owner {
                self.writer.held.remove(id);
                return Err(self.fenced(id, found.row.owner));
            }
        }
        let Some(held) = self.writer.held.get_mut(id) else {
            return Err(JournalError::UnknownTask(id.to_owned()));
        };
        held.epoch = epoch;
        if held.turn != turn {
            held.turn = turn;
            held.before = held.tip;
        }
        Ok(held)
    }

    fn fenced(&self, id: &str, by: u64) -> JournalError {
        JournalError::Fenced { task: id.to_owned(), owner: self.owner, by }
    }

    /// A task that is ours by its row but not in memory.
    fn acquire(&self, id: &str) -> Result<Held, JournalError> {
        let found = self.found(id)?;
        if found.row.owner != self.owner {
            return Err(self.fenced(id, found.row.owner));
        }
        self.hold(&found)
    }

    fn hold(&self, found: &Found) -> Result<Held, JournalError> {
        let id = &found.row.id;
        if !found.sound {
            return Err(JournalError::Damaged(found.damage()));
        }
        let seen = self.seen(found.number)?;
        let tip = self.tip(id, found.number, &seen)?;
        // Whoever goes on from here builds on the last record, so that one must be right.
        self.read_after(found, tip, tip.n.saturating_sub(1))?;
        let slot = match &self.witness {
            Some(witness) => witness.slot(found.number, id, found.row.created)?,
            None => Slot::new(found.number, id, found.row.created),
        };
        let epoch = self.writer.epoch;
        let (number, created) = (found.number, found.row.created);
        Ok(Held { number, created, tip, slot, epoch, turn: 0, before: tip, made: 0 })
    }

    fn make(
        &mut self,
        id: &str,
        time: i64,
        next_task: &mut Option<i64>,
    ) -> Result<i64, JournalError> {
        if self.writer.held.contains_key(id) {
            return Err(JournalError::DuplicateTask(id.to_owned()));
        }
        if self.look_up(id)?.is_some() {
            return Err(JournalError::DuplicateTask(id.to_owned()));
        }
        let mut number = match *next_task {
            Some(number) => number,
            None => {
                let sql = "select max(num) from task";
                let last: Option<i64> = self
                    .db
                    .query_row(sql, [], |row| row.get(0))
                    .map_err(|error| failure::writing(&error, &self.folder))?;
                last.unwrap_or(0) + 1
            }
        };
        // A slot in use tells of a task that the database has lost; it must go on telling.
        if self.seen(number)? != Seen::Nothing
            && let Some(witness) = &self.witness
        {
            number = number.max(witness.length()?);
        }
        *next_task = Some(number + 1);
        let (epoch, turn) = (self.writer.epoch, self.writer.turn);
        let tip = Tip { n: 0, seq: 0, chain: Chain::start(id) };
        let slot = Slot::new(number, id, time);
        let held = Held { number, created: time, tip, slot, epoch, turn, before: tip, made: turn };
        self.writer.held.insert(id.to_owned(), held);
        Ok(number)
    }

    /// The link after record `n` of a task, which may be older than the batch or part of it.
    fn link_at(
        &self,
        id: &str,
        n: u64,
        entries: &[Entry<'_>],
        plan: &[Step],
    ) -> Result<Chain, JournalError> {
        let Some(held) = self.writer.held.get(id) else {
            return Err(JournalError::UnknownTask(id.to_owned()));
        };
        if n == held.tip.n {
            return Ok(held.tip.chain);
        }
        if n > held.tip.n {
            let (task, expected) = (id.to_owned(), held.tip.n);
            return Err(JournalError::OutOfOrder { task, expected, got: n });
        }
        if n > held.before.n {
            for (entry, step) in entries.iter().zip(plan) {
                match (entry, step) {
                    (Entry::Record { task, n: number, .. }, Step::Record { chain, .. })
                        if *task == id && *number == n =>
                    {
                        return Ok(*chain);
                    }
                    _ => {}
                }
            }
        }
        match n {
            0 => Ok(Chain::start(id)),
            n if n == held.before.n => Ok(held.before.chain),
            n => Ok(self.read_after(&self.found(id)?, held.before, n)?.0),
        }
    }

    fn insert(&self, entries: &[Entry<'_>]) -> rusqlite::Result<()> {
        let mut insert = self.db.prepare_cached(
            "insert into record(seq, task, n, back, time, version, body, chain) \
             values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        for (entry, step) in entries.iter().zip(&self.writer.plan) {
            match (entry, step) {
                (
                    Entry::Record { n, version, body, .. },
                    Step::Record { number, seq, back, time, chain },
                ) => {
                    let n = *n as i64;
                    let chain = &chain.bytes()[..];
                    insert.execute((seq, number, n, back, time, version, body, chain))?;
                }
                (Entry::Create { task, time }, Step::Create { number }) => {
                    let row = TaskRow {
                        id: (*task).to_owned(),
                        created: *time,
                        owner: self.owner,
                        open: true,
                        summary: String::new(),
                    };
                    insert_task(&self.db, *number, &row)?;
                    schema::set_head(&self.db, *number, 0)?;
                }
                (Entry::Snapshot { n, body, .. }, Step::Snapshot { number, chain }) => {
                    insert_snapshot(&self.db, *number, *n, *chain, body)?;
                }
                (Entry::Summary { task, open, body }, Step::Summary { number, created }) => {
                    let row = TaskRow {
                        id: (*task).to_owned(),
                        created: *created,
                        owner: self.owner,
                        open: *open,
                        summary: (*body).to_owned(),
                    };
                    let sum = schema::row_sum(*number, &row);
                    self.db
                        .prepare_cached(
                            "update task set open = ?2, summary = ?3, sum = ?4 where num = ?1",
                        )?
                        .execute((number, open, body, &sum[..]))?;
                }
                // The plan was made from these very entries, one step for each.
                _ => debug_assert!(false, "the plan does not fit the batch"),
            }
        }
        Ok(())
    }

    /// Notes the new tips in the witness, slots side by side in one write, and lets go of closed tasks.
    fn note_tips(&mut self, entries: &[Entry<'_>]) {
        let turn = self.writer.turn;
        let mut slots = std::mem::take(&mut self.writer.slots);
        let mut changed = Vec::with_capacity(entries.len());
        slots.clear();
        for entry in entries {
            if let Some(held) = self.writer.held.get_mut(task_of(entry))
                && held.turn == turn
            {
                held.turn = 0;
                if held.tip != held.before || held.made == turn {
                    held.slot.set(held.tip);
                    changed.push((held.number, slots.len()));
                    slots.extend_from_slice(held.slot.bytes());
                }
            }
        }
        changed.sort_unstable();
        // Tasks that lie side by side, in the file and in the batch, are written together.
        let together = |one: &(i64, usize), next: &(i64, usize)| (one.0 + 1, one.1 + SLOT) == *next;
        for run in changed.chunk_by(together) {
            let bytes = &slots[run[0].1..run[run.len() - 1].1 + SLOT];
            if let Some(witness) = &self.witness
                && let Err(error) = witness.write_bytes(run[0].0, bytes)
                && self.noted.is_empty()
            {
                // The batch is on disk, so the commit has succeeded; only the second opinion is missing.
                let detail = format!("the witness cannot be written: {error}");
                self.noted.push(failure::whole(DamageKind::Witness, detail));
            }
        }
        self.writer.slots = slots;
        for entry in entries {
            if let Entry::Summary { task, open: false, .. } = entry {
                self.let_go(task);
            }
        }
    }

    /// Forgets a task, but not its head.
    fn let_go(&mut self, id: &str) {
        if let Some(held) = self.writer.held.remove(id) {
            self.writer.closed.push((held.number, held.tip.seq));
        }
    }

    fn take_over(&mut self, id: &str, from: Option<u64>) -> Result<(Tip, bool), JournalError> {
        let mut found = self.found(id)?;
        if from.is_some_and(|from| found.row.owner != from) {
            let (owner, by) = (self.owner, found.row.owner);
            return Err(JournalError::Fenced { task: id.to_owned(), owner, by });
        }
        let held = self.hold(&found)?;
        let tip = held.tip;
        let changed = found.row.owner != self.owner;
        if changed {
            found.row.owner = self.owner;
            let sum = schema::row_sum(found.number, &found.row);
            self.db
                .prepare_cached("update task set owner = ?2, sum = ?3 where num = ?1")
                .and_then(|mut update| update.execute((found.number, self.owner as i64, &sum[..])))
                .map_err(|error| failure::writing(&error, &self.folder))?;
        }
        self.writer.held.insert(id.to_owned(), held);
        Ok((tip, changed))
    }

    /// Gives the write-ahead log a length. Called with the write lock held, so nobody else makes it
    /// longer meanwhile; zeroes at its end are no frames. A failure only leaves it short.
    fn warm(&self, wanted: u64) {
        let path = self.folder.join("journal.db-wal");
        let Ok(file) = OpenOptions::new().write(true).open(path) else { return };
        let Ok(length) = file.metadata().map(|data| data.len()) else { return };
        // One page at a time: the kernel keeps what was written at once together, and would then count (and
        // may write) all of it for each page changed later.
        let zeroes = [0; 4096];
        let mut at = length;
        while at < wanted {
            let part = 4096 - at % 4096;
            if file.write_all_at(&zeroes[..part as usize], at).is_err() {
                return;
            }
            at += part;
        }
    }

    /// Writes the heads of all tasks with records after the old point, whoever wrote them, and the new point.
    fn save_point(&self, new: i64) -> rusqlite::Result<()> {
        let old = self.writer.point;
        let mut heads: Vec<(i64, i64)> = if self.writer.point_epoch == self.writer.epoch {
            // Nobody else wrote since the old point.
            let held = self.writer.held.values().map(|held| (held.number, held.tip.seq));
            held.chain(self.writer.closed.iter().copied()).filter(|(_, seq)| *seq > old).collect()
        } else {
            let mut heads = HashMap::new();
            let sql = "select seq, task from record where seq > ?1 order by seq";
            let mut statement = self.db.prepare_cached(sql)?;
            let mut rows = statement.query([old])?;
            while let Some(row) = rows.next()? {
                heads.insert(row.get(1)?, row.get(0)?);
            }
            heads.into_iter().collect()
        };
        // In order, so that of a task that was closed and taken up again the last record counts.
        heads.sort_unstable();
        for (task, seq) in heads {
            schema::set_head(&self.db, task, seq)?;
        }
        schema::set_meta(&self.db, schema::POINT, new)
    }

    /// Saves the heads before the journal is closed, if that spares the next process much scanning.
    pub(super) fn close(&mut self) {
        const WORTH: i64 = 500;
        if self.writable().is_err() || self.writer.next - 1 - self.writer.point < WORTH {
            return;
        }
        if self.begin().is_ok() {
            let saved = self.save_point(self.writer.next - 1).is_ok();
            // Should it fail, the next process scans a little more.
            let _ = self.run(if saved { "commit" } else { "rollback" });
        }
    }
}

pub(super) fn insert_task(db: &Connection, number: i64, row: &TaskRow) -> rusqlite::Result<()> {
    let sum = schema::row_sum(number, row);
    db.prepare_cached(
        "insert into task(num, id, created, owner, open, summary, sum) \
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute((number, &row.id, row.created, row.owner as i64, row.open, &row.summary, &sum[..]))
    .map(drop)
}

pub(super) fn insert_snapshot(
    db: &Connection,
    number: i64,
    n: u64,
    chain: Chain,
    body: &[u8],
) -> rusqlite::Result<()> {
    let sum = schema::snapshot_sum(number, n, chain.bytes(), body);
    db.prepare_cached(
        "insert or replace into snapshot(task, n, chain, body, sum) values(?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((number, n as i64, &chain.bytes()[..], body, &sum[..]))
    .map(drop)
}

fn task_of<'a>(entry: &Entry<'a>) -> &'a str {
    match *entry {
        Entry::Create { task, .. }
        | Entry::Record { task, .. }
        | Entry::Snapshot { task, .. }
        | Entry::Summary { task, .. } => task,
    }
}

fn check_sizes(entries: &[Entry<'_>]) -> Result<(), JournalError> {
    for entry in entries {
        match *entry {
            Entry::Create { task, .. } => check_id(task)?,
            Entry::Record { task, body, .. } if body.len() > MAX_BODY => {
                let size = body.len();
                return Err(JournalError::TooLarge { task: task.to_owned(), size });
            }
            Entry::Record { .. } | Entry::Snapshot { .. } | Entry::Summary { .. } => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Journal;

    use super::*;

    fn record(n: u64, body: &[u8]) -> Entry<'_> {
        Entry::Record { task: "a", n, time: 0, version: 1, body }
    }

    #[test]
    fn a_full_disk_writes_nothing_and_can_be_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = SqliteJournal::open(folder.path()).unwrap();
        journal.commit(&[Entry::Create { task: "a", time: 0 }, record(1, b"one")]).unwrap();
        let limit = |journal: &SqliteJournal, pages: i64| {
            let sql = format!("pragma max_page_count = {pages}");
            journal.db.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        limit(&journal, 1);
        let large = vec![7; 100_000];
        for _ in 0..3 {
            let full = journal.commit(&[record(2, b"two"), record(3, &large)]);
            assert!(matches!(full, Err(JournalError::Full(_))), "{full:?}");
        }
        assert_eq!(journal.records("a", 0).unwrap().len(), 1);
        limit(&journal, 1_000_000);
        journal.commit(&[record(2, b"two"), record(3, &large)]).unwrap();
        assert_eq!(journal.records("a", 0).unwrap().len(), 3);
        assert_eq!(journal.verify().damages, []);
    }

    #[test]
    fn after_a_failure_of_the_store_nothing_more_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = SqliteJournal::open(folder.path()).unwrap();
        journal.commit(&[Entry::Create { task: "a", time: 0 }, record(1, b"one")]).unwrap();
        journal.abandon(JournalError::Store("disk I/O error".to_owned()));
        assert!(matches!(journal.commit(&[record(2, b"two")]), Err(JournalError::Store(_))));
        assert!(matches!(journal.claim("a"), Err(JournalError::Store(_))));
        assert_eq!(journal.records("a", 0).unwrap().len(), 1);
        drop(journal);
        let mut journal = SqliteJournal::open(folder.path()).unwrap();
        assert_eq!(journal.claim("a").unwrap(), 1);
        journal.commit(&[record(2, b"two")]).unwrap();
    }
}
