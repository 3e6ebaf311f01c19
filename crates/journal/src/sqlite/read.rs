//! Reading: where a task's records are, and whether they are the ones that were written.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row};

use crate::chain::Chain;
use crate::sqlite::failure::{self, of_task};
use crate::sqlite::witness::{Seen, Tip, mark_of};
use crate::sqlite::{SqliteJournal, schema};
use crate::{Damage, DamageKind, JournalError, Loaded, Record, Snapshot, TaskRow};

/// A task's records further apart than this are looked up one by one; closer ones are scanned.
const NEAR: i64 = 16;

/// The columns of a record, in the order [`Stored::of`] takes them.
pub(super) const RECORD: &str = "seq, task, n, back, time, version, body, chain";

/// One record as stored.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) seq: i64,
    pub(super) task: i64,
    pub(super) n: u64,
    pub(super) back: i64,
    /// Milliseconds since the task was created: fewer bytes than since the epoch.
    pub(super) time: i64,
    pub(super) version: u32,
    pub(super) body: Vec<u8>,
    pub(super) chain: Chain,
}

/// The number of the first record whose link does not follow from the one before. The rows are newest first.
///
/// Every row holds its own link, so a long chain is checked in two halves at once.
fn first_broken_link(base: Chain, rows: &[Stored], created: i64) -> Option<u64> {
    const WORTH_A_THREAD: usize = 2_000;
    if rows.len() < WORTH_A_THREAD {
        return broken_link(base, rows, created);
    }
    let (newer, older) = rows.split_at(rows.len() / 2);
    std::thread::scope(|scope| {
        let rest = scope.spawn(|| broken_link(older[0].chain, newer, created));
        let first = broken_link(base, older, created);
        // The check does not panic: it only hashes what was read.
        first.or(rest.join().unwrap_or(newer.last().map(|row| row.n)))
    })
}

fn broken_link(base: Chain, rows: &[Stored], created: i64) -> Option<u64> {
    let mut chain = base;
    for row in rows.iter().rev() {
        chain = row.link(chain, created);
        if chain != row.chain {
            return Some(row.n);
        }
    }
    None
}

impl Stored {
    /// `None` if the row does not hold what a record's row holds.
    pub(super) fn of(row: &Row<'_>) -> Option<Self> {
        let integer = |column| row.get_ref(column).ok()?.as_i64().ok();
        Some(Self {
            seq: integer(0)?,
            task: integer(1)?,
            n: u64::try_from(integer(2)?).ok()?,
            back: integer(3)?,
            time: integer(4)?,
            version: u32::try_from(integer(5)?).ok()?,
            body: row.get_ref(6).ok()?.as_blob().ok()?.to_vec(),
            chain: Chain::from_slice(row.get_ref(7).ok()?.as_blob().ok()?)?,
        })
    }

    /// The link this record should have, given the one before it.
    pub(super) fn link(&self, before: Chain, created: i64) -> Chain {
        before.next(self.n, self.time.wrapping_add(created), self.version, &self.body)
    }

    pub(super) fn tip(&self) -> Tip {
        Tip { n: self.n, seq: self.seq, chain: self.chain }
    }

    fn into_record(self, created: i64) -> Record {
        let time = self.time.wrapping_add(created);
        Record { n: self.n, time, version: self.version, body: self.body }
    }
}

/// A task's row, and whether it matches its checksum.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) number: i64,
    pub(super) row: TaskRow,
    pub(super) sound: bool,
}

impl Found {
    /// The columns of a task's row, in the order [`Found::of`] takes them.
    pub(super) const COLUMNS: &'static str = "num, id, created, owner, open, summary, sum";

    /// `None` if the row does not hold what a task's row holds.
    pub(super) fn of(row: &Row<'_>) -> Option<Self> {
        let number = row.get(0).ok()?;
        let task = TaskRow {
            id: row.get(1).ok()?,
            created: row.get(2).ok()?,
            owner: u64::try_from(row.get::<_, i64>(3).ok()?).ok()?,
            open: row.get::<_, i64>(4).ok()? != 0,
            summary: row.get(5).ok()?,
        };
        let sum = row.get_ref(6).ok()?.as_blob().ok()?;
        let sound = sum == schema::row_sum(number, &task);
        Some(Self { number, row: task, sound })
    }

    pub(super) fn damage(&self) -> Damage {
        let id = &self.row.id;
        let detail = format!("the row of task {id} does not match its checksum");
        of_task(id, None, DamageKind::TaskRow, detail)
    }
}

/// The heads of the tasks with records after the saved point, found by scanning.
#[derive(Debug, Default)]
pub(super) struct Tail {
    upto: i64,
    heads: HashMap<i64, i64>,
    /// Part of what was scanned cannot be read, so a head may be missing.
    holes: bool,
}

impl SqliteJournal {
    /// A task's row, sound or not.
    pub(super) fn found(&self, id: &str) -> Result<Found, JournalError> {
        if let Some(found) = self.look_up(id)? {
            return Ok(found);
        }
        // A task that the witness knows and the database does not is not unknown, it is lost. The row is
        // looked up again because another process may have made the task in between.
        match self.lost(id)? {
            Some(damage) => self.look_up(id)?.ok_or(JournalError::Damaged(damage)),
            None => Err(JournalError::UnknownTask(id.to_owned())),
        }
    }

    pub(super) fn look_up(&self, id: &str) -> Result<Option<Found>, JournalError> {
        // The second way does not need the index, should that be damaged.
        let mut result = Ok(None);
        for indexing in ["", "not indexed"] {
            let sql = format!("select {} from task {indexing} where id = ?1", Found::COLUMNS);
            result = self.db.prepare_cached(&sql).and_then(|mut statement| {
                statement.query_row([id], |row| Ok(Found::of(row))).optional()
            });
            if result.is_ok() {
                break;
            }
        }
        match result.map_err(|error| failure::database(&error))? {
            Some(Some(found)) => Ok(Some(found)),
            Some(None) => Err(JournalError::Damaged(of_task(
                id,
                None,
                DamageKind::TaskRow,
                format!("the row of task {id} cannot be read"),
            ))),
            None => Ok(None),
        }
    }

    fn lost(&self, id: &str) -> Result<Option<Damage>, JournalError> {
        let Some(witness) = &self.witness else { return Ok(None) };
        let mut damage = None;
        witness.each(|_, seen| {
            if let Seen::Tip { id: Some(known), tip, .. } = seen
                && known == id
            {
                damage = Some(lost_task(id, tip.n));
            }
        })?;
        Ok(damage)
    }

    /// What the witness says of a task. Ask before the database is read: then the database can be ahead of
    /// the answer, but not behind it.
    pub(super) fn seen(&self, number: i64) -> Result<Seen, JournalError> {
        self.witness.as_ref().map_or(Ok(Seen::Nothing), |witness| witness.seen(number))
    }

    /// The last record of a task, checked against the witness.
    pub(super) fn tip(&self, id: &str, number: i64, seen: &Seen) -> Result<Tip, JournalError> {
        let failed = |error: rusqlite::Error| failure::database(&error);
        let none = Tip { n: 0, seq: 0, chain: Chain::start(id) };
        let holes = self.scan_tail()?;
        let head = self.tail.borrow().heads.get(&number).copied();
        let head = match head {
            Some(head) => Some(head),
            // A head that cannot be read is searched for.
            None => schema::head(&self.db, number).unwrap_or(None),
        };
        let tip = match head {
            Some(0) => Some(none),
            Some(seq) => tip_at(&self.db, number, seq).map_err(failed)?,
            None => None,
        };
        let searched = tip.is_none();
        let mut tip = match tip {
            Some(tip) => tip,
            None => self.search(number)?.unwrap_or(none),
        };
        match seen {
            Seen::Tip { mark, tip: known, .. } if *mark == mark_of(id) => {
                if tip.n < known.n && !searched {
                    tip = self.search(number)?.unwrap_or(none);
                }
                self.compare(id, number, tip, *known).map_err(JournalError::Damaged)?;
            }
            // Nobody else can say how far the task had come.
            Seen::Nothing | Seen::Spoiled | Seen::Tip { .. } if holes => {
                let detail = format!("task {id} may have lost records: pages cannot be read");
                return Err(JournalError::Damaged(of_task(
                    id,
                    None,
                    DamageKind::Unreadable,
                    detail,
                )));
            }
            Seen::Nothing | Seen::Spoiled | Seen::Tip { .. } => {}
        }
        Ok(tip)
    }

    /// The witness may be behind the database, on the same chain; it is never ahead.
    fn compare(&self, id: &str, number: i64, tip: Tip, known: Tip) -> Result<(), Damage> {
        if tip.n < known.n {
            return Err(lost_tail(id, tip.n, known.n));
        }
        let there = if tip.n == known.n {
            Some(tip)
        } else if known.n == 0 {
            return Ok(());
        } else {
            tip_at(&self.db, number, known.seq).unwrap_or(None)
        };
        match there {
            Some(tip) if (tip.n, tip.chain) == (known.n, known.chain) => Ok(()),
            _ => Err(of_task(
                id,
                known.n,
                DamageKind::Altered,
                format!("record {} of task {id} is not the one that was committed", known.n),
            )),
        }
    }

    /// Brings the heads of recently written tasks up to date; says whether something could not be read.
    pub(super) fn scan_tail(&self) -> Result<bool, JournalError> {
        // Without a usable point every record is looked at: slower, never wrong.
        let point = schema::meta(&self.db, schema::POINT).ok().flatten().unwrap_or(0);
        let mut tail = self.tail.borrow_mut();
        if point > tail.upto {
            *tail = Tail { upto: point, ..Tail::default() };
        }
        let after = tail.upto;
        let holes = sweep(&self.db, "seq, task", after, &mut |row| {
            if let (Ok(seq), Ok(task)) = (row.get(0), row.get::<_, i64>(1)) {
                tail.upto = seq;
                tail.heads.insert(task, seq);
            }
        })
        .map_err(|error| failure::database(&error))?;
        tail.holes |= !holes.is_empty();
        Ok(tail.holes)
    }

    /// The last record of a task by looking at every record there is.
    fn search(&self, number: i64) -> Result<Option<Tip>, JournalError> {
        let failed = |error: rusqlite::Error| failure::database(&error);
        let mut last = None;
        sweep(&self.db, "seq, task", 0, &mut |row| {
            if row.get::<_, i64>(1) == Ok(number) {
                last = row.get::<_, i64>(0).ok();
            }
        })
        .map_err(failed)?;
        last.map_or(Ok(None), |seq| tip_at(&self.db, number, seq).map_err(failed))
    }

    /// The records after number `after` up to the tip, in order, with the chain checked, and the link
    /// before them.
    pub(super) fn read_after(
        &self,
        found: &Found,
        tip: Tip,
        after: u64,
    ) -> Result<(Chain, Vec<Record>), JournalError> {
        let id = &found.row.id;
        if after >= tip.n {
            return Ok((tip.chain, Vec::new()));
        }
        let mut rows = self.walk(id, found.number, tip, after).map_err(JournalError::Damaged)?;
        let base = match after {
            0 => Chain::start(id),
            // The walk ends with the record before the ones asked for.
            _ => rows.pop().map_or_else(|| Chain::start(id), |row| row.chain),
        };
        let created = found.row.created;
        if let Some(n) = first_broken_link(base, &rows, created) {
            return Err(JournalError::Damaged(altered(id, n)));
        }
        Ok((base, rows.into_iter().rev().map(|row| row.into_record(created)).collect()))
    }

    /// The rows of a task from its tip down to number `down_to` (at least 1), newest first.
    fn walk(&self, id: &str, number: i64, tip: Tip, down_to: u64) -> Result<Vec<Stored>, Damage> {
        let mut rows = Vec::new();
        let (mut seq, mut n) = (tip.seq, tip.n);
        // Whoever goes on from the last record must not come upon a neighbour's damage, see `look_ahead`.
        let near = if tip.n.saturating_sub(down_to) > 1 { NEAR } else { 0 };
        let unreadable = |n: u64, error: rusqlite::Error| {
            let detail = format!("record {n} of task {id} cannot be read: {error}");
            of_task(id, n, DamageKind::Unreadable, detail)
        };
        let sql = format!("select {RECORD} from record where seq <= ?1 order by seq desc");
        let mut statement = self.db.prepare_cached(&sql).map_err(|error| unreadable(n, error))?;
        'seek: loop {
            let mut rest = statement.query([seq]).map_err(|error| unreadable(n, error))?;
            let mut sought = true;
            loop {
                let row = match rest.next() {
                    Ok(Some(row)) => row,
                    Ok(None) => return Err(missing(id, n)),
                    // What cannot be read may be a neighbour's.
                    Err(_) if !sought => continue 'seek,
                    Err(error) => return Err(unreadable(n, error)),
                };
                let is_first = std::mem::take(&mut sought);
                match row.get::<_, i64>(0) {
                    Ok(other) if other > seq => continue,
                    Ok(found) if found == seq => {}
                    // So may what is out of its place.
                    _ if !is_first => continue 'seek,
                    _ => return Err(missing(id, n)),
                }
                let row = Stored::of(row).ok_or_else(|| altered(id, n))?;
                if (row.task, row.n) != (number, n) {
                    return Err(missing(id, n));
                }
                let back = row.back;
                rows.push(row);
                if n <= down_to.max(1) {
                    return Ok(rows);
                }
                if back <= 0 || back >= seq {
                    return Err(missing(id, n - 1));
                }
                (seq, n) = (seq - back, n - 1);
                if back > near {
                    continue 'seek;
                }
            }
        }
    }

    pub(super) fn load_task(&self, id: &str) -> Result<Loaded, JournalError> {
        let number = self.found(id)?.number;
        let seen = self.seen(number)?;
        self.reading(|| {
            let found = self.found(id)?;
            let tip = self.tip(id, number, &seen)?;
            // A snapshot that does not fit is passed over.
            if let Ok(Some((snapshot, chain))) = self.snapshot(number)
                && snapshot.n <= tip.n
            {
                let (base, records) = match snapshot.n {
                    0 => (Chain::start(id), self.read_after(&found, tip, 0)?.1),
                    n => self.read_after(&found, tip, n)?,
                };
                if base == chain {
                    return Ok(Loaded { snapshot: Some(snapshot), records });
                }
            }
            Ok(Loaded { snapshot: None, records: self.read_after(&found, tip, 0)?.1 })
        })
    }

    pub(super) fn read_task(&self, id: &str, after: u64) -> Result<Vec<Record>, JournalError> {
        let number = self.found(id)?.number;
        let seen = self.seen(number)?;
        self.reading(|| {
            let found = self.found(id)?;
            let tip = self.tip(id, number, &seen)?;
            Ok(self.read_after(&found, tip, after)?.1)
        })
    }

    /// The records of a task from the first up to the first that is damaged or missing. Nothing leads to them but a look at
    /// every record.
    pub(super) fn read_sound(&self, id: &str) -> Result<Vec<Record>, JournalError> {
        self.reading(|| {
            let Found { number, row: TaskRow { created, .. }, .. } = self.found(id)?;
            let (mut chain, mut sound) = (Chain::start(id), Vec::new());
            let mut keep = |row: &Row<'_>| {
                let is_of_task = row.get::<_, i64>(1).is_ok_and(|task| task == number);
                if let Some(row) = is_of_task.then(|| Stored::of(row)).flatten()
                    && row.n == sound.len() as u64 + 1
                    && row.link(chain, created) == row.chain
                {
                    chain = row.chain;
                    sound.push(row.into_record(created));
                }
            };
            sweep(&self.db, RECORD, 0, &mut keep).map_err(|error| failure::database(&error))?;
            Ok(sound)
        })
    }

    /// Everything inside sees the database as it was at one moment.
    fn reading<T>(
        &self,
        read: impl FnOnce() -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let transaction =
            self.db.unchecked_transaction().map_err(|error| failure::database(&error))?;
        let result = read();
        // Nothing was written, so it does not matter how the transaction ends.
        let _ = transaction.finish();
        result
    }

    /// The snapshot of a task and its link; `None` if there is none that matches its checksum.
    fn snapshot(&self, number: i64) -> rusqlite::Result<Option<(Snapshot, Chain)>> {
        let found = self
            .db
            .prepare_cached("select task, n, chain, body, sum from snapshot where task = ?1")?
            .query_row([number], |row| Ok(snapshot_of(row)))
            .optional()?;
        Ok(found.flatten())
    }

    pub(super) fn rows(
        &self,
        rest: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<Vec<TaskRow>, JournalError> {
        let failed = |error: rusqlite::Error| failure::database(&error);
        let sql = format!("select {} from task {rest}", Found::COLUMNS);
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query(parameters).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            // One damaged row must not hide the others: `task`, `claim` and `verify` name it.
            if let Some(one) = Found::of(row) {
                found.push(one.row);
            }
        }
        Ok(found)
    }
}

/// A snapshot's row (task, n, chain, body, sum), if it matches its checksum.
pub(super) fn snapshot_of(row: &Row<'_>) -> Option<(Snapshot, Chain)> {
    let number = row.get(0).ok()?;
    let n = u64::try_from(row.get::<_, i64>(1).ok()?).ok()?;
    let chain = row.get_ref(2).ok()?.as_blob().ok()?;
    let body = row.get_ref(3).ok()?.as_blob().ok()?;
    let sum = row.get_ref(4).ok()?.as_blob().ok()?;
    if sum != schema::snapshot_sum(number, n, chain, body) {
        return None;
    }
    Some((Snapshot { n, body: body.to_vec() }, Chain::from_slice(chain)?))
}

/// The record at a place, if it is one of this task.
fn tip_at(db: &Connection, number: i64, seq: i64) -> rusqlite::Result<Option<Tip>> {
    let found = db
        .prepare_cached("select task, n, chain from record where seq = ?1")?
        .query_row([seq], |row| {
            let task: i64 = row.get(0)?;
            let n = u64::try_from(row.get::<_, i64>(1)?).ok();
            let chain = row.get_ref(2)?.as_blob().ok().and_then(Chain::from_slice);
            Ok((task, n.zip(chain)))
        })
        .optional();
    match found {
        Ok(Some((task, Some((n, chain))))) if task == number => Ok(Some(Tip { n, seq, chain })),
        // A row of the wrong shape is no record of this task.
        Ok(_) | Err(rusqlite::Error::InvalidColumnType(..)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Calls back with every readable row of `record` after a sequence number, in order, and returns the ranges
/// (exclusive at both ends; the last may be open) in which there is something that cannot be read.
pub(super) fn sweep(
    db: &Connection,
    columns: &str,
    after: i64,
    each: &mut dyn FnMut(&Row<'_>),
) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut up =
        db.prepare_cached(&format!("select {columns} from record where seq > ?1 order by seq"))?;
    let mut last = after;
    let mut holes = Vec::new();
    let mut tried = None;
    loop {
        let mut rows = up.query([last])?;
        loop {
            match rows.next() {
                Ok(Some(row)) => match row.get::<_, i64>(0) {
                    Ok(seq) if seq > last => {
                        each(row);
                        last = seq;
                    }
                    // Pages out of order.
                    _ => break,
                },
                Ok(None) => return Ok(holes),
                Err(error) => match failure::database(&error) {
                    JournalError::Damaged(_) => break,
                    _ => return Err(error),
                },
            }
        }
        drop(rows);
        match beyond(db, last)? {
            None => {
                holes.push((last, i64::MAX));
                return Ok(holes);
            }
            // The row's number can be read, the rest of it cannot.
            Some(next) if tried == Some(next) => {
                holes.push((next - 1, next + 1));
                last = next;
            }
            Some(next) => {
                holes.push((last, next));
                tried = Some(next);
                last = next - 1;
            }
        }
    }
}

/// The first row beyond an unreadable place whose number can be read.
fn beyond(db: &Connection, last: i64) -> rusqlite::Result<Option<i64>> {
    let mut step = 1_i64;
    let mut at = db.prepare_cached("select seq from record where seq > ?1 order by seq limit 1")?;
    let further = loop {
        let from = last.saturating_add(step);
        match at.query_row([from], |row| row.get::<_, i64>(0)).optional() {
            Ok(Some(seq)) if seq > from => break seq,
            Ok(None) => break from,
            _ if step < 1 << 40 => step *= 2,
            _ => return Ok(None),
        }
    };
    // The step may have jumped over readable rows: go back to the first of them.
    let mut down =
        db.prepare_cached("select seq from record where seq > ?1 and seq <= ?2 order by seq desc")?;
    let mut rows = down.query((last, further))?;
    let mut first = None;
    while let Ok(Some(row)) = rows.next() {
        match row.get::<_, i64>(0) {
            Ok(seq) if seq > last && first.is_none_or(|first| seq < first) => first = Some(seq),
            _ => break,
        }
    }
    Ok(first)
}

pub(super) fn altered(id: &str, n: u64) -> Damage {
    let detail = format!("record {n} of task {id} was altered: it does not fit the chain");
    of_task(id, n, DamageKind::Altered, detail)
}

pub(super) fn missing(id: &str, n: u64) -> Damage {
    let detail = format!("record {n} of task {id} is missing or not where it should be");
    of_task(id, n, DamageKind::Gap, detail)
}

pub(super) fn lost_tail(id: &str, have: u64, had: u64) -> Damage {
    let detail = match had - have {
        1 => format!("task {id} lost its last record, number {had}, which was committed"),
        _ => format!(
            "task {id} lost its last records, numbers {} to {had}, which were committed",
            have + 1
        ),
    };
    of_task(id, have + 1, DamageKind::LostTail, detail)
}

pub(super) fn lost_task(id: &str, had: u64) -> Damage {
    let detail = format!("task {id} is gone; {had} of its records were committed");
    of_task(id, 1, DamageKind::LostTail, detail)
}
