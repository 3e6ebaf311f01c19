//! Making a sound journal of a damaged one.
//!
//! The damaged files are only ever copied and moved. The new journal is made in a folder beside the old one, which gets the
//! name `rebuilt` once everything in it is whole and on the disk. From then on it is the journal: whoever finds that name
//! first puts what is left of it in its place, so a crash between any two steps leaves the old journal or the new one.
//!
//! | in `rebuilt` | holds |
//! | --- | --- |
//! | `new/journal.db`, `new/tips` | the new journal, until they are in their place |
//! | `tips` | a copy of the old witness |
//! | `journal.db`, `-wal`, `-shm` | the old journal, as it is moved out of the way |
//! | `report.json` | what there is to tell, for whoever asks again after a kill |

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row};
use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::sqlite::failure::{self, of_task};
use crate::sqlite::read::{Found, RECORD, Stored, snapshot_of, sweep};
use crate::sqlite::verify::Extent;
use crate::sqlite::witness::{Header, Seen, Slot, Tip, Witness};
use crate::sqlite::write::{insert_snapshot, insert_task};
use crate::sqlite::{
    DATABASE, LOG, SHARED, SqliteJournal, TIPS, connect, create_private, is_blank, make_private,
    schema, take_turn,
};
use crate::{DamageKind, JournalError, Report, TaskRow};

/// So much of a database is made up at most where its end is missing: the number is from a header that may be damaged.
const MOST_MISSING: u64 = 1 << 30;

/// A new journal that is whole, with all that is left of the old one.
const REBUILT: &str = "rebuilt";

/// Its own files, in there.
const NEW: &str = "new";

/// What is told of it, in there.
const TOLD: &str = "report.json";

/// What old journals are called, before their number.
const DAMAGED: &str = "damaged";

/// What a new journal is called while it is made, before its number.
const MAKING: &str = "rebuild";

/// A task to be kept.
struct Kept {
    row: TaskRow,
    had: u64,
}

/// What a task lost from its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostTail<'a> {
    /// The task.
    pub task: &'a str,
    /// How many of its records were kept, from the first on. A task of which none was kept is gone.
    pub kept: u64,
    /// How many were lost after them.
    pub lost: u64,
}

/// A record that is put at the end of a task that lost its own end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossNote {
    /// Milliseconds since the epoch.
    pub time: i64,
    /// The version of the machine that reads it.
    pub version: u32,
    /// What it says, opaque to the journal.
    pub body: Vec<u8>,
}

/// What a rebuild tells.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    report: Report,
    /// Of every lost tail its task, how much was kept and how much was lost.
    lost: Vec<(String, u64, u64)>,
}

/// Hears of every lost tail, and may have it noted in the task.
pub(super) type Noting<'a> = &'a mut dyn FnMut(&LostTail<'_>) -> Option<LossNote>;

pub(super) fn rebuild(folder: &Path, noting: Noting<'_>) -> Result<Report, JournalError> {
    make_private(folder)?;
    // Whoever opens it meanwhile waits.
    let _turn = take_turn(folder)?;
    finish(folder)?;
    // One that was killed had made the new journal, and nobody was told what is in it.
    if let Some(Told { report, lost }) = untold(folder) {
        for (task, kept, lost) in &lost {
            // It is noted already.
            let _ = noting(&LostTail { task, kept: *kept, lost: *lost });
        }
        return Ok(report);
    }
    let report = prepare(folder, noting)?;
    finish(folder)?;
    Ok(report)
}

/// What a rebuild had to tell that was broken off before it did, whoever put its journal in its place since; none if all was
/// told, or it cannot be read.
fn untold(folder: &Path) -> Option<Told> {
    let mut asides = numbered(folder, DAMAGED).into_iter();
    let text = asides.find_map(|aside| fs::read(aside.join(TOLD)).ok())?;
    serde_json::from_slice(&text).ok()
}

/// What the last rebuild found was told.
pub(super) fn told(folder: &Path) -> Result<(), JournalError> {
    for path in numbered(folder, DAMAGED).into_iter().map(|aside| aside.join(TOLD)) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failure::file(&path, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes the new journal, up to the moment from which it counts.
fn prepare(folder: &Path, noting: Noting<'_>) -> Result<Report, JournalError> {
    let old_witness = Witness::open(&folder.join(TIPS), true)?;
    if let Some(witness) = &old_witness {
        witness.seize()?;
    }
    check_not_aside(folder, old_witness.as_ref())?;
    clear_half_made(folder);
    let work = fresh(folder, MAKING)?;
    // There may be no room for the copy, so it is made before anything is moved.
    let mut lost = Vec::new();
    let mut hear = |tail: &LostTail<'_>| {
        lost.push((tail.task.to_owned(), tail.kept, tail.lost));
        noting(tail)
    };
    let made = make(folder, &work, &mut hear).and_then(|report| {
        copy(&folder.join(TIPS), &work.join(TIPS))?;
        let told = Told { report, lost };
        write(&work.join(TOLD), &serde_json::to_vec(&told).unwrap_or_default())?;
        let report = told.report;
        sync_folder(&work.join(NEW))?;
        sync_folder(&work)?;
        Ok(report)
    });
    if made.is_err() {
        // Nothing was moved yet, and on a full disk somebody needs the room.
        let _ = fs::remove_dir_all(&work);
    }
    let report = made?;
    rename(&work, &folder.join(REBUILT))?;
    Ok(report)
}

/// Whether a rebuild was broken off after the new journal was whole.
pub(super) fn is_broken_off(folder: &Path) -> bool {
    folder.join(REBUILT).exists()
}

/// Puts a new journal that is whole in the place of the old one, from wherever that was broken off. Whoever calls has the
/// folder's turn, so that nobody has the journal open.
pub(super) fn finish(folder: &Path) -> Result<(), JournalError> {
    while let Some(step) = next_step(folder) {
        step.take()?;
    }
    Ok(())
}

/// One step of putting a new journal in its place.
#[derive(Debug)]
enum Step {
    Move { from: PathBuf, to: PathBuf },
    Remove(PathBuf),
}

impl Step {
    fn take(self) -> Result<(), JournalError> {
        match self {
            Step::Move { from, to } => rename(&from, &to),
            Step::Remove(path) => {
                fs::remove_dir_all(&path).map_err(|error| failure::file(&path, &error))
            }
        }
    }
}

/// What is to be done next, by what is there. The old log goes before the new database comes: to SQLite the two would be one.
fn next_step(folder: &Path) -> Option<Step> {
    let aside = folder.join(REBUILT);
    let new = aside.join(NEW);
    if new.join(DATABASE).exists() {
        let old = [LOG, SHARED, DATABASE].into_iter().find(|name| folder.join(name).exists());
        return Some(match old {
            Some(name) => Step::Move { from: folder.join(name), to: aside.join(name) },
            None => Step::Move { from: new.join(DATABASE), to: folder.join(DATABASE) },
        });
    }
    if new.join(TIPS).exists() {
        return Some(Step::Move { from: new.join(TIPS), to: folder.join(TIPS) });
    }
    if new.exists() {
        // The log of the look that was taken at it is empty.
        return Some(Step::Remove(new));
    }
    aside.exists().then(|| Step::Move { to: free(folder, DAMAGED), from: aside })
}

/// Where there is no journal, none is made beside one that was set aside. A rebuild of an older drivetrain that was broken
/// off could leave only that.
pub(super) fn check_not_aside(
    folder: &Path,
    witness: Option<&Witness>,
) -> Result<(), JournalError> {
    let knows_tasks = |witness: &Witness| witness.length().is_ok_and(|slots| slots > 1);
    if !is_blank(folder)? || witness.is_some_and(knows_tasks) {
        return Ok(());
    }
    match numbered(folder, DAMAGED).into_iter().find(|aside| aside.join(DATABASE).exists()) {
        None => Ok(()),
        Some(aside) => Err(JournalError::Store(format!(
            "{} is missing or empty, and {} holds the one that was there before: move the files of that folder back to \
             have it, or the folder away to begin anew",
            folder.join(DATABASE).display(),
            aside.display()
        ))),
    }
}

/// Removes what rebuilds were making that were broken off before it was whole.
fn clear_half_made(folder: &Path) {
    for left in numbered(folder, MAKING) {
        let _ = fs::remove_dir_all(left);
    }
}

/// Makes a new journal of what can be read of the one in a folder, and looks at it before anybody relies on it.
fn make(folder: &Path, work: &Path, noting: Noting<'_>) -> Result<Report, JournalError> {
    let (old, new) = (work.join("old"), work.join(NEW));
    private_folder(&old)?;
    private_folder(&new)?;
    for name in [DATABASE, LOG, TIPS] {
        copy(&folder.join(name), &old.join(name))?;
    }
    lengthen(&old.join(DATABASE))?;
    let mut report = SqliteJournal::inspect_some(&old, Extent::Records);
    (report.tasks, report.records) = (0, 0);
    salvage(&old, &new, noting, &mut report)?;
    // To look at the new one takes a little room, and the copies are of no use any more.
    fs::remove_dir_all(&old).map_err(|error| failure::file(&old, &error))?;
    check(&new, &report)?;
    Ok(report)
}

/// SQLite reads nothing of a database that is shorter than its header says, so what is missing at the end is made up by
/// zeroes: then only what was there is lost.
fn lengthen(path: &Path) -> Result<(), JournalError> {
    let failed = |error: std::io::Error| failure::file(path, &error);
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return Ok(()) };
    let mut header = [0; 100];
    if file.read_exact_at(&mut header, 0).is_err() {
        return Ok(());
    }
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    let length = file.metadata().map_err(failed)?.len();
    let missing = (page * u64::from(pages)).saturating_sub(length);
    if missing > 0 && missing <= MOST_MISSING {
        file.set_len(length + missing).map_err(failed)?;
    }
    Ok(())
}

/// What was made must be what is reported, or the old one is better.
fn check(new: &Path, report: &Report) -> Result<(), JournalError> {
    let made = SqliteJournal::inspect_some(new, Extent::Records);
    if let Some(damage) = made.damages.first() {
        let why = format!("the rebuilt journal is not sound: {}", damage.detail);
        return Err(JournalError::Store(why));
    }
    if (made.tasks, made.records) != (report.tasks, report.records) {
        return Err(JournalError::Store(format!(
            "the rebuilt journal holds {} tasks and {} records, and not {} and {}",
            made.tasks, made.records, report.tasks, report.records
        )));
    }
    Ok(())
}

/// Reads everything that can be read in one folder and makes a new journal of it in another.
fn salvage(
    old: &Path,
    new: &Path,
    noting: Noting<'_>,
    report: &mut Report,
) -> Result<(), JournalError> {
    let path = new.join(DATABASE);
    create_private(&path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let db = connect(new, flags)?;
    let failed = |error: rusqlite::Error| failure::writing(&error, new);
    schema::settle_writer(&db).map_err(failed)?;
    db.execute_batch("begin immediate").map_err(failed)?;
    schema::create(&db).map_err(failed)?;
    // All rows of the old table, whatever their order: of several with one number the chain tells which.
    db.execute_batch(
        "create temp table salvaged(task integer, n integer, seq integer, time integer, \
         version integer, body blob, chain blob, primary key(task, n, seq)) without rowid",
    )
    .map_err(failed)?;

    let witness = Witness::open(&old.join(TIPS), false)?;
    let mut owner = 0;
    let mut kept = BTreeMap::new();
    if let Some(witness) = &witness {
        owner = witness.header()?.map_or(0, |header| header.owner);
        witness.each(|number, seen| {
            if let Seen::Tip { id: Some(id), created, tip, .. } = seen {
                // Whether it was still open is not known, so somebody should look at it.
                let row = TaskRow { id, created, owner: 0, open: true, summary: String::new() };
                kept.insert(number, Kept { row, had: tip.n });
            }
        })?;
    }
    let source = connect(old, OpenFlags::SQLITE_OPEN_READ_WRITE).ok();
    if let Some(source) = &source {
        owner = owner.max(read_tasks(source, &mut kept));
        collect(source, &db).map_err(failed)?;
    }
    let header = Header { owner, remade: false };
    let tips = Witness::create(&new.join(TIPS), header)?;
    schema::set_meta(&db, schema::OWNER, owner as i64).map_err(failed)?;
    let mut numbers = Numbers { seq: 0, task: 0 };
    for (number, task) in &kept {
        let mut keep = keep_task(&db, *number, task, &mut numbers).map_err(failed)?;
        let id = &task.row.id;
        let had = task.had.max(keep.seen);
        let kept = keep.tip.n;
        if kept < had {
            let detail = match kept {
                0 => format!("none of the {had} records of task {id} could be kept"),
                n => format!(
                    "of task {id}, records 1 to {n} were kept and {} to {had} were not",
                    n + 1
                ),
            };
            report.damages.push(of_task(id, kept + 1, DamageKind::LostTail, detail));
            let note = noting(&LostTail { task: id, kept, lost: had - kept });
            if let (Some(note), Some(to)) = (note, keep.number) {
                append(&db, to, task.row.created, note, &mut keep, &mut numbers).map_err(failed)?;
            }
        }
        let Some(to) = keep.number else { continue };
        report.tasks += 1;
        report.records += keep.tip.n;
        if let Some(source) = &source {
            keep_snapshot(source, &db, *number, to, &keep).map_err(failed)?;
        }
        let mut slot = Slot::new(to, id, task.row.created);
        slot.set(keep.tip);
        tips.write_bytes(to, slot.bytes())?;
    }
    schema::set_meta(&db, schema::POINT, numbers.seq).map_err(failed)?;
    db.execute_batch("drop table salvaged; commit").map_err(failed)?;
    tips.sync()?;
    report.damages.sort_by(|one, other| (&one.task, one.n).cmp(&(&other.task, other.n)));
    empty_log(&db).map_err(failed)?;
    db.close().map_err(|(_, error)| failure::writing(&error, new))?;
    drop(source);
    File::open(&path).and_then(|file| file.sync_all()).map_err(|error| failure::file(&path, &error))
}

/// Moves everything into the one file. Closing does so too, but does not say if there was no room.
fn empty_log(db: &Connection) -> rusqlite::Result<()> {
    let left: (i64, i64) =
        db.query_row("pragma wal_checkpoint(truncate)", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if left == (0, 0) {
        return Ok(());
    }
    // Nobody else knows this database, so nobody can be in the way.
    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    Err(rusqlite::Error::SqliteFailure(busy, Some("its log could not be emptied".to_owned())))
}

/// The rows of the old database go before what the witness says. Returns the highest owner number met.
fn read_tasks(source: &Connection, kept: &mut BTreeMap<i64, Kept>) -> u64 {
    let stored = schema::meta(source, schema::OWNER).ok().flatten().unwrap_or(0);
    let mut owner = u64::try_from(stored).unwrap_or(0);
    let sql =
        format!("select {} from task not indexed where num > ?1 order by num", Found::COLUMNS);
    let mut after = i64::MIN;
    // A row that cannot be read is stepped over by number; the table holds few pages, so a fixed number of
    // tries reaches every readable one in practice.
    for _ in 0..10_000 {
        let result = source.prepare_cached(&sql).and_then(|mut statement| {
            let mut rows = statement.query([after])?;
            while let Some(row) = rows.next()? {
                after = row.get(0)?;
                if let Some(found) = Found::of(row) {
                    owner = owner.max(found.row.owner);
                    keep_row(kept, found);
                }
            }
            Ok(())
        });
        match result {
            Ok(()) => break,
            Err(_) => after = after.max(0).saturating_add(1),
        }
    }
    owner
}

fn keep_row(kept: &mut BTreeMap<i64, Kept>, found: Found) {
    let known = kept.get(&found.number);
    if !found.sound {
        // The witness is the better source of the id; owner and summary are taken as they are.
        if let Some(known) = known {
            let row = TaskRow { id: known.row.id.clone(), created: known.row.created, ..found.row };
            let had = known.had;
            kept.insert(found.number, Kept { row, had });
            return;
        }
        if crate::check_id(&found.row.id).is_err() {
            return;
        }
    }
    let had = known.filter(|known| known.row.id == found.row.id).map_or(0, |known| known.had);
    kept.insert(found.number, Kept { row: found.row, had });
}

fn collect(source: &Connection, db: &Connection) -> rusqlite::Result<()> {
    let mut insert =
        db.prepare("insert or ignore into salvaged values(?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    let mut result = Ok(());
    let mut keep = |row: &Row<'_>| {
        if let (Some(row), true) = (Stored::of(row), result.is_ok()) {
            let chain = &row.chain.bytes()[..];
            let (n, seq) = (row.n as i64, row.seq);
            result = insert
                .execute((row.task, n, seq, row.time, row.version, &row.body, chain))
                .map(drop);
        }
    };
    let swept = sweep(source, RECORD, 0, &mut keep);
    // Where pages changed places, rows are met in no order, and a walk from either end meets them all.
    for order in ["asc", "desc"] {
        let sql = format!("select {RECORD} from record order by seq {order}");
        let Ok(mut statement) = source.prepare(&sql) else { continue };
        let Ok(mut rows) = statement.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            keep(row);
        }
    }
    // A source without a table of records has none to give.
    drop(swept);
    result
}

/// The last numbers given out in the new database.
struct Numbers {
    seq: i64,
    task: i64,
}

/// What was kept of a task.
struct Keep {
    /// `None` if there was nothing to keep.
    number: Option<i64>,
    tip: Tip,
    /// The highest record number seen, whether it could be kept or not.
    seen: u64,
    /// The links of its records, by number.
    chains: Vec<Chain>,
}

fn keep_task(
    db: &Connection,
    number: i64,
    task: &Kept,
    numbers: &mut Numbers,
) -> rusqlite::Result<Keep> {
    let id = &task.row.id;
    let mut tip = Tip { n: 0, seq: 0, chain: Chain::start(id) };
    let (mut seen, mut chains) = (0, Vec::new());
    let to = numbers.task + 1;
    let mut select = db.prepare_cached(
        "select seq, task, n, 0, time, version, body, chain from salvaged \
         where task = ?1 order by n, seq",
    )?;
    let mut insert = db.prepare_cached(
        "insert into record(seq, task, n, back, time, version, body, chain) \
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let mut rows = select.query([number])?;
    while let Some(row) = rows.next()? {
        let Some(row) = Stored::of(row) else { continue };
        seen = seen.max(row.n);
        if row.n != tip.n + 1 || row.link(tip.chain, task.row.created) != row.chain {
            continue;
        }
        numbers.seq += 1;
        let back = i64::from(row.n > 1);
        let chain = &row.chain.bytes()[..];
        insert.execute((
            numbers.seq,
            to,
            row.n as i64,
            back,
            row.time,
            row.version,
            &row.body,
            chain,
        ))?;
        tip = Tip { n: row.n, seq: numbers.seq, chain: row.chain };
        chains.push(row.chain);
    }
    let had = task.had.max(seen);
    if tip.n == 0 && had > 0 {
        return Ok(Keep { number: None, tip, seen, chains });
    }
    numbers.task = to;
    // The summary tells of records that are gone; of an open task the records are looked at instead.
    let is_outdated = tip.n < had;
    let outdated = TaskRow { open: true, summary: String::new(), ..task.row.clone() };
    insert_task(db, to, if is_outdated { &outdated } else { &task.row })?;
    schema::set_head(db, to, tip.seq)?;
    Ok(Keep { number: Some(to), tip, seen, chains })
}

/// Puts a record behind those that were kept.
fn append(
    db: &Connection,
    to: i64,
    created: i64,
    note: LossNote,
    keep: &mut Keep,
    numbers: &mut Numbers,
) -> rusqlite::Result<()> {
    let LossNote { time, version, body } = note;
    let n = keep.tip.n + 1;
    let chain = keep.tip.chain.next(n, time, version, &body);
    numbers.seq += 1;
    // The records of a task lie side by side here, so the one before is one place before.
    db.execute(
        "insert into record(seq, task, n, back, time, version, body, chain) \
         values(?1, ?2, ?3, 1, ?4, ?5, ?6, ?7)",
        (numbers.seq, to, n as i64, time.wrapping_sub(created), version, &body, &chain.bytes()[..]),
    )?;
    keep.tip = Tip { n, seq: numbers.seq, chain };
    keep.chains.push(chain);
    schema::set_head(db, to, keep.tip.seq)
}

fn keep_snapshot(
    source: &Connection,
    db: &Connection,
    number: i64,
    to: i64,
    keep: &Keep,
) -> rusqlite::Result<()> {
    let found = source
        .prepare_cached("select task, n, chain, body, sum from snapshot where task = ?1")
        .and_then(|mut statement| statement.query_row([number], |row| Ok(snapshot_of(row))));
    // One that cannot be read is left behind: the records tell the same, only slower.
    let Ok(Some((snapshot, chain))) = found else { return Ok(()) };
    let place = usize::try_from(snapshot.n).ok().and_then(|n| n.checked_sub(1));
    if place.and_then(|place| keep.chains.get(place)) == Some(&chain) {
        insert_snapshot(db, to, snapshot.n, chain, &snapshot.body)?;
    }
    Ok(())
}

/// A new folder with the first free number in its name.
fn fresh(folder: &Path, name: &str) -> Result<PathBuf, JournalError> {
    let path = free(folder, name);
    private_folder(&path)?;
    Ok(path)
}

fn free(folder: &Path, name: &str) -> PathBuf {
    let path = |number: u64| folder.join(format!("{name}-{number}"));
    let number = (1..u64::MAX).find(|number| !path(*number).exists());
    path(number.unwrap_or(u64::MAX))
}

/// The folders with that name and a number.
fn numbered(folder: &Path, name: &str) -> Vec<PathBuf> {
    let is_one = |entry: &fs::DirEntry| {
        let found = entry.file_name();
        let number = found.to_str().and_then(|found| found.strip_prefix(name)?.strip_prefix('-'));
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.filter(is_one).map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn private_folder(path: &Path) -> Result<(), JournalError> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| failure::file(path, &error))
}

fn copy(from: &Path, to: &Path) -> Result<(), JournalError> {
    if !from.exists() {
        return Ok(());
    }
    fs::copy(from, to).map(drop).map_err(|error| failure::file(to, &error))
}

fn write(path: &Path, text: &[u8]) -> Result<(), JournalError> {
    create_private(path)?;
    fs::write(path, text)
        .and_then(|()| File::open(path)?.sync_all())
        .map_err(|error| failure::file(path, &error))
}

/// Lasting before whatever follows.
fn rename(from: &Path, to: &Path) -> Result<(), JournalError> {
    fs::rename(from, to).map_err(|error| failure::file(to, &error))?;
    [to, from].into_iter().filter_map(Path::parent).try_for_each(sync_folder)
}

fn sync_folder(folder: &Path) -> Result<(), JournalError> {
    File::open(folder)
        .and_then(|file| file.sync_all())
        .map_err(|error| failure::file(folder, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, Journal};

    #[test]
    fn what_was_made_is_looked_at_before_the_old_one_is_moved() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = SqliteJournal::open(folder.path()).unwrap();
        let body = vec![7; 10_000];
        let one = Entry::Record { task: "a", n: 1, time: 0, version: 1, body: &body };
        journal.commit(&[Entry::Create { task: "a", time: 0 }, one]).unwrap();
        drop(journal);
        let work = fresh(folder.path(), "rebuild").unwrap();
        let report = make(folder.path(), &work, &mut |_| None).unwrap();
        assert_eq!((report.tasks, report.records), (1, 1));
        let new = work.join(NEW);
        let log = fs::metadata(new.join(LOG)).map_or(0, |data| data.len());
        assert_eq!(log, 0, "everything is in the one file");
        check(&new, &report).unwrap();
        let more = Report { records: 2, ..report.clone() };
        assert!(matches!(check(&new, &more), Err(JournalError::Store(_))));
        // What a disk without room leaves of it.
        let made = OpenOptions::new().write(true).open(new.join(DATABASE)).unwrap();
        made.set_len(4096).unwrap();
        assert!(matches!(check(&new, &report), Err(JournalError::Store(_))));
    }

    /// A journal with a task, most of it in the log, as a killed process leaves it; without a witness if that is lost.
    fn left(witness: bool) -> tempfile::TempDir {
        let (used, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut journal = SqliteJournal::open(used.path()).unwrap();
        let one = Entry::Record { task: "a", n: 1, time: 0, version: 1, body: b"one" };
        journal.commit(&[Entry::Create { task: "a", time: 0 }, one]).unwrap();
        for name in [DATABASE, LOG, SHARED, TIPS] {
            if witness || name != TIPS {
                fs::copy(used.path().join(name), folder.path().join(name)).unwrap();
            }
        }
        folder
    }

    /// As [`rebuild`], killed after so many steps once the new journal is whole; whether it was.
    fn killed_after(folder: &Path, steps: usize) -> bool {
        prepare(folder, &mut |_| None).unwrap();
        for _ in 0..steps {
            let Some(step) = next_step(folder) else { return false };
            step.take().unwrap();
        }
        next_step(folder).is_some()
    }

    #[test]
    fn a_rebuild_that_is_killed_between_any_two_steps_is_brought_to_its_end_by_whoever_comes() {
        for witness in [true, false] {
            for writes in [true, false] {
                let mut steps = 0;
                loop {
                    let folder = left(witness);
                    let was_killed = killed_after(folder.path(), steps);
                    let journal = match writes {
                        true => SqliteJournal::open(folder.path()),
                        false => SqliteJournal::read(folder.path()),
                    };
                    let journal = journal.unwrap();
                    let records = journal.records("a", 0).unwrap();
                    assert_eq!(records.len(), 1, "after {steps} steps");
                    assert_eq!(journal.verify().damages, [], "after {steps} steps");
                    drop(journal);
                    let aside = folder.path().join("damaged-1");
                    for name in [DATABASE, LOG, SHARED] {
                        assert!(aside.join(name).exists(), "{name} after {steps} steps");
                    }
                    assert_eq!(aside.join(TIPS).exists(), witness);
                    assert!(!is_broken_off(folder.path()));
                    if !was_killed {
                        break;
                    }
                    steps += 1;
                }
                assert!(steps >= 6, "{steps} steps are no rebuild");
            }
        }
    }

    #[test]
    fn a_rebuild_that_was_killed_tells_what_it_found_when_it_is_asked_for_again() {
        let mut steps = 0;
        loop {
            let folder = left(true);
            let db = Connection::open(folder.path().join(DATABASE)).unwrap();
            db.execute("delete from record", []).unwrap();
            drop(db);
            let was_killed = killed_after(folder.path(), steps);
            if !was_killed {
                break;
            }
            // Whoever opens it meanwhile brings it to its end.
            if steps.is_multiple_of(2) {
                drop(SqliteJournal::open(folder.path()).unwrap());
            }
            // It may be killed once more before anybody was told.
            for _ in 0..2 {
                let mut lost = Vec::new();
                let report = SqliteJournal::rebuild_noting(folder.path(), &mut |tail| {
                    lost.push((tail.task.to_owned(), tail.kept, tail.lost));
                    None
                });
                let damages = report.unwrap().damages;
                let kinds: Vec<DamageKind> = damages.iter().map(|damage| damage.kind).collect();
                assert!(kinds.contains(&DamageKind::LostTail), "after {steps} steps: {damages:?}");
                assert_eq!(lost, [("a".to_owned(), 0, 1)], "after {steps} steps");
                let aside = |number| folder.path().join(format!("damaged-{number}"));
                assert!(aside(1).exists() && !aside(2).exists(), "it is not done once more");
            }
            SqliteJournal::told_of_rebuild(folder.path()).unwrap();
            let again = SqliteJournal::rebuild_noting(folder.path(), &mut |_| None).unwrap();
            assert_eq!(again.damages, [], "what was told is told once");
            steps += 1;
        }
        assert!(steps >= 4, "{steps} steps are no rebuild");
    }

    #[test]
    fn a_rebuild_that_is_killed_before_the_new_journal_is_whole_leaves_the_old_one() {
        let folder = left(true);
        let work = fresh(folder.path(), MAKING).unwrap();
        make(folder.path(), &work, &mut |_| None).unwrap();
        let journal = SqliteJournal::open(folder.path()).unwrap();
        assert_eq!(journal.records("a", 0).unwrap().len(), 1);
        drop(journal);
        SqliteJournal::rebuild(folder.path()).unwrap();
        assert!(!work.exists(), "what it had begun is of no use to anybody");
        assert_eq!(SqliteJournal::read(folder.path()).unwrap().list(9, None).unwrap().len(), 1);
    }

    #[test]
    fn no_empty_journal_is_made_beside_one_that_was_set_aside() {
        let folder = left(false);
        let aside = fresh(folder.path(), DAMAGED).unwrap();
        for name in [DATABASE, LOG, SHARED] {
            fs::rename(folder.path().join(name), aside.join(name)).unwrap();
        }
        let said = |result: Result<(), JournalError>| result.unwrap_err().to_string();
        for _ in 0..2 {
            for said in [
                said(SqliteJournal::open(folder.path()).map(drop)),
                said(SqliteJournal::read(folder.path()).map(drop)),
                said(SqliteJournal::rebuild(folder.path()).map(drop)),
            ] {
                assert!(said.contains("damaged-1 holds the one that was there before"), "{said}");
            }
        }
        for name in [DATABASE, LOG, SHARED] {
            fs::rename(aside.join(name), folder.path().join(name)).unwrap();
        }
        assert_eq!(SqliteJournal::open(folder.path()).unwrap().list(9, None).unwrap().len(), 1);
    }
}
