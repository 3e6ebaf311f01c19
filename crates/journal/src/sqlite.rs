//! The journal on disk: one SQLite database, a witness beside it, and a folder of blobs.
//!
//! Several processes may have the same folder open, each driving its own tasks. SQLite says what was
//! written; the chain says that it is what was meant; the witness says that nothing is missing from the end.
//!
//! | file | holds |
//! | --- | --- |
//! | `journal.db`, `-wal`, `-shm` | records, tasks, snapshots |
//! | `tips` | the witness: the last record of every task |
//! | `blobs/` | data too large for a record |
//! | `turn` | nothing; locked while a process opens or rebuilds the journal |
//! | `rebuilt`, `damaged-1` … | what a rebuild has made or set aside |

mod failure;
mod read;
mod rebuild;
mod schema;
mod verify;
mod witness;
mod write;

use std::cell::RefCell;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use serde::Serialize;

use crate::blob::Blobs;
use crate::chain::hex;
use crate::{Damage, DamageKind, Entry, Journal, JournalError, Loaded, Record, Report, TaskRow};
pub use rebuild::{LossNote, LostTail};
use verify::Extent;
use witness::{Header, Seen, Witness};

const DATABASE: &str = "journal.db";
const LOG: &str = "journal.db-wal";
const SHARED: &str = "journal.db-shm";
const TIPS: &str = "tips";
const BLOBS: &str = "blobs";
const TURN: &str = "turn";

/// A journal in a folder.
#[derive(Debug)]
pub struct SqliteJournal {
    db: Connection,
    folder: PathBuf,
    /// 0 in a journal opened for reading.
    owner: u64,
    witness: Option<Witness>,
    syncs: u64,
    writer: write::Writer,
    tail: RefCell<read::Tail>,
    /// Damage met on the way that `verify` could not see any more.
    noted: Vec<Damage>,
}

impl SqliteJournal {
    /// Opens the journal in a folder for writing, making both as needed, and raises its owner number.
    ///
    /// The folder and the files are made readable by this user only.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        Self::open_once(folder).map_err(|error| failure::opening(error, folder))
    }

    fn open_once(folder: &Path) -> Result<Self, JournalError> {
        make_private(folder)?;
        // Two processes that open a new folder at once make its files one after the other.
        let _turn = take_turn(folder)?;
        rebuild::finish(folder)?;
        let mut noted = Vec::new();
        let tips = folder.join(TIPS);
        let blank = is_blank(folder)?;
        let witness = begun(blank, Witness::open(&tips, true)?)?;
        rebuild::check_not_aside(folder, witness.as_ref())?;
        let witness = match witness {
            Some(witness) => witness,
            None => {
                if !blank {
                    noted.push(failure::whole(DamageKind::Witness, "the witness file is missing"));
                }
                Witness::create(&tips, Header { owner: 0, remade: !blank })?
            }
        };
        if witness.seize().is_ok() {
            // Nobody else has the journal, and nobody opens it while this process has the turn: so nobody is storing anything.
            Blobs::new(folder.join(BLOBS)).clear_unfinished();
        }
        witness.share()?;
        if blank {
            check_new(folder, &witness)?;
            create_private(&folder.join(DATABASE))?;
        }
        let mut db = connect(folder, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let failed = |error: rusqlite::Error| failure::writing(&error, folder);
        let kind = schema::inspect(&db, &folder.join(DATABASE).to_string_lossy())?;
        schema::settle_writer(&db).map_err(failed)?;
        if kind == schema::Kind::Blank {
            check_new(folder, &witness)?;
        }
        let header = witness.header()?;
        if header.is_none() {
            noted.push(failure::whole(DamageKind::Witness, "the witness's header is damaged"));
        }
        let remade = header.is_none_or(|header| header.remade);
        let known = header.map_or(0, |header| header.owner);
        let owner = raise_owner(&mut db, folder, kind, known, &mut noted)?;
        witness.write_header(Header { owner, remade })?;
        Ok(Self {
            db,
            folder: folder.to_owned(),
            owner,
            witness: Some(witness),
            syncs: 0,
            writer: write::Writer::default(),
            tail: RefCell::default(),
            noted,
        })
    }

    /// Opens the journal in a folder for reading: `commit` and `claim` fail, and the owner number (which is
    /// given as 0) stays as it is. A folder without a journal reads as an empty one.
    pub fn read(folder: &Path) -> Result<Self, JournalError> {
        let mut turn = share_turn(folder)?;
        if rebuild::is_broken_off(folder) {
            drop(turn.take());
            let alone = take_turn(folder)?;
            rebuild::finish(folder)?;
            drop(alone);
            turn = share_turn(folder)?;
        }
        match Self::read_once(folder) {
            // Nobody had opened the journal a moment ago: what looks like damage may be its making.
            Err(JournalError::Damaged(_) | JournalError::Foreign(_)) if turn.is_none() => {
                let _turn = share_turn(folder)?;
                Self::read_once(folder)
            }
            result => result,
        }
    }

    fn read_once(folder: &Path) -> Result<Self, JournalError> {
        let blank = is_blank(folder)?;
        let witness = begun(blank, Witness::open(&folder.join(TIPS), false)?)?;
        let mut noted = Vec::new();
        let db = if blank {
            rebuild::check_not_aside(folder, witness.as_ref())?;
            if let Some(witness) = &witness {
                check_new(folder, witness)?;
            }
            empty().map_err(|error| failure::database(&error))?
        } else {
            let db = connect_reader(folder)?;
            match schema::inspect(&db, &folder.join(DATABASE).to_string_lossy())? {
                schema::Kind::Journal => {
                    if witness.is_none() {
                        let detail = "the witness file is missing";
                        noted.push(failure::whole(DamageKind::Witness, detail));
                    }
                    db
                }
                schema::Kind::Blank => {
                    if let Some(witness) = &witness {
                        check_new(folder, witness)?;
                    }
                    empty().map_err(|error| failure::database(&error))?
                }
            }
        };
        Ok(Self {
            db,
            folder: folder.to_owned(),
            owner: 0,
            witness,
            syncs: 0,
            writer: write::Writer::default(),
            tail: RefCell::default(),
            noted,
        })
    }

    /// Checks the journal in a folder as [`Journal::verify`] does, also if it cannot be opened.
    pub fn inspect(folder: &Path) -> Report {
        Self::inspect_some(folder, Extent::All)
    }

    fn inspect_some(folder: &Path, extent: Extent) -> Report {
        match Self::read(folder) {
            Ok(journal) => verify::verify(&journal, extent),
            Err(JournalError::Damaged(damage)) => {
                Report { damages: vec![damage], ..Report::default() }
            }
            Err(error) => {
                let damage = failure::whole(DamageKind::Unreadable, error.to_string());
                Report { damages: vec![damage], ..Report::default() }
            }
        }
    }

    /// Makes a new journal of everything that can be read: of each task the records from the first up to
    /// the first damaged one. What was there is kept, in a folder `damaged-1` (or `-2` …) beside it, and
    /// what could not be kept is in the report. No process may have the journal open.
    pub fn rebuild(folder: &Path) -> Result<Report, JournalError> {
        let report = rebuild::rebuild(folder, &mut |_| None)?;
        Self::told_of_rebuild(folder)?;
        Ok(report)
    }

    /// The same, and a task that lost its end has a record instead that says so. `note` hears of every lost tail. Until it is said
    /// that this was told, the next one tells it again.
    pub fn rebuild_noting(
        folder: &Path,
        note: &mut dyn FnMut(&LostTail<'_>) -> Option<LossNote>,
    ) -> Result<Report, JournalError> {
        rebuild::rebuild(folder, note)
    }

    /// What the last rebuild found was told to whom it concerns.
    pub fn told_of_rebuild(folder: &Path) -> Result<(), JournalError> {
        rebuild::told(folder)
    }

    /// The blobs of this journal.
    pub fn blobs(&self) -> Blobs {
        Blobs::new(self.folder.join(BLOBS))
    }

    /// All records of a task; if it is damaged, those from the first up to the damage, and what that is.
    pub fn sound_records(&self, task: &str) -> Result<(Vec<Record>, Option<Damage>), JournalError> {
        match self.records(task, 0) {
            Ok(records) => Ok((records, None)),
            Err(JournalError::Damaged(damage)) => Ok((self.read_sound(task)?, Some(damage))),
            Err(error) => Err(error),
        }
    }

    /// Writes the records of a task as JSON, one a line. A body that is JSON stands there as it is, any
    /// other as hexadecimal under `hex`. Damage is an error, behind everything before it.
    pub fn export(&self, task: &str, out: &mut dyn Write) -> Result<(), JournalError> {
        let (records, damage) = self.sound_records(task)?;
        for record in records {
            let failed = |error: std::io::Error| JournalError::Store(error.to_string());
            serde_json::to_writer(&mut *out, &Line::of(&record))
                .map_err(|error| failed(error.into()))?;
            out.write_all(b"\n").map_err(failed)?;
        }
        damage.map_or(Ok(()), |damage| Err(JournalError::Damaged(damage)))
    }
}

impl Drop for SqliteJournal {
    fn drop(&mut self) {
        self.close();
    }
}

impl Journal for SqliteJournal {
    fn owner(&self) -> u64 {
        self.owner
    }

    fn commit(&mut self, entries: &[Entry<'_>]) -> Result<(), JournalError> {
        self.write(entries)
    }

    fn claim(&mut self, task: &str) -> Result<u64, JournalError> {
        self.take(task, None)
    }

    fn claim_from(&mut self, task: &str, from: u64) -> Result<u64, JournalError> {
        self.take(task, Some(from))
    }

    fn load(&self, task: &str) -> Result<Loaded, JournalError> {
        self.load_task(task)
    }

    fn records(&self, task: &str, after: u64) -> Result<Vec<Record>, JournalError> {
        self.read_task(task, after)
    }

    fn task(&self, task: &str) -> Result<TaskRow, JournalError> {
        let found = self.found(task)?;
        if found.sound { Ok(found.row) } else { Err(JournalError::Damaged(found.damage())) }
    }

    fn find(&self, prefix: &str, limit: usize) -> Result<Vec<String>, JournalError> {
        // '{' follows 'z', the last character an id can have.
        let rest = "where id >= ?1 and id < ?1 || '{' order by created desc, num desc limit ?2";
        let rows = self.rows(rest, (prefix, limit_of(limit)))?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    fn list(&self, limit: usize, before: Option<i64>) -> Result<Vec<TaskRow>, JournalError> {
        match before {
            Some(before) => self.rows(
                "where created < ?1 order by created desc, num desc limit ?2",
                (before, limit_of(limit)),
            ),
            None => self.rows("order by created desc, num desc limit ?1", [limit_of(limit)]),
        }
    }

    fn open_tasks(&self) -> Result<Vec<TaskRow>, JournalError> {
        self.rows("where open = 1 order by created, num", [])
    }

    fn verify(&self) -> Report {
        verify::verify(self, Extent::All)
    }

    fn syncs(&self) -> u64 {
        self.syncs
    }
}

#[derive(Serialize)]
struct Line {
    n: u64,
    time: i64,
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Line {
    fn of(record: &Record) -> Self {
        let body: Option<serde_json::Value> = serde_json::from_slice(&record.body).ok();
        let hex = body.is_none().then(|| hex(&record.body));
        Self { n: record.n, time: record.time, version: record.version, body, hex }
    }
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn connect(folder: &Path, flags: OpenFlags) -> Result<Connection, JournalError> {
    let db =
        Connection::open_with_flags(folder.join(DATABASE), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    db.and_then(|db| schema::settle(&db).map(|()| db)).map_err(|error| failure::database(&error))
}

/// A connection that changes nothing of what is recorded. It may write the log's index: after a crash somebody
/// has to make it anew before anything can be read.
fn connect_reader(folder: &Path) -> Result<Connection, JournalError> {
    let db = match connect(folder, OpenFlags::SQLITE_OPEN_READ_WRITE) {
        Ok(db) => db,
        // On a disk that cannot be written there is no crash to mend.
        Err(_) => return connect(folder, OpenFlags::SQLITE_OPEN_READ_ONLY),
    };
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .and_then(|_| db.execute_batch("pragma query_only = on"))
        .map_err(|error| failure::database(&error))?;
    Ok(db)
}

/// Holds the folder's turn until dropped.
fn take_turn(folder: &Path) -> Result<fs::File, JournalError> {
    let path = folder.join(TURN);
    let failed = |error: std::io::Error| failure::file(&path, &error);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| failed(error.into()))?;
    Ok(file)
}

/// Waits until nobody opens the journal for writing, and keeps it so until dropped. None if nobody ever did,
/// or if it cannot be known here.
fn share_turn(folder: &Path) -> Result<Option<fs::File>, JournalError> {
    let path = folder.join(TURN);
    let Ok(file) = fs::File::open(&path) else { return Ok(None) };
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockShared)
        .map_err(|error| failure::file(&path, &error.into()))?;
    Ok(Some(file))
}

/// An empty journal that is nowhere.
fn empty() -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    schema::settle(&db)?;
    schema::create(&db)?;
    Ok(db)
}

/// True if there is no database yet. The file is not opened: closing it would drop the locks that another
/// connection of this process may hold on it.
fn is_blank(folder: &Path) -> Result<bool, JournalError> {
    let path = folder.join(DATABASE);
    match fs::metadata(&path) {
        Ok(data) => Ok(data.len() == 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(failure::file(&path, &error)),
    }
}

/// The witness, unless nothing was ever written to it: a first start makes its file before all others, and may find a full
/// disk or be killed before it has written any of it.
fn begun(blank: bool, witness: Option<Witness>) -> Result<Option<Witness>, JournalError> {
    match witness {
        Some(witness) if blank && witness.length()? == 0 => Ok(None),
        witness => Ok(witness),
    }
}

/// A database that is to be made must not take the place of one that was lost.
fn check_new(folder: &Path, witness: &Witness) -> Result<(), JournalError> {
    let mut tasks = 0_u64;
    let mut first = None;
    witness.each(|_, seen| {
        tasks += 1;
        if let Seen::Tip { id: Some(id), tip, .. } = seen
            && first.is_none()
        {
            first = Some((id, tip.n));
        }
    })?;
    if tasks > 0 {
        let (task, n) = first.map_or((None, None), |(id, n)| (Some(id), Some(n)));
        let detail = format!(
            "{} is missing or empty, but the witness knows {tasks} tasks, {} the first",
            folder.join(DATABASE).display(),
            task.as_deref().unwrap_or("one without a readable name"),
        );
        let kind = DamageKind::LostTail;
        return Err(JournalError::Damaged(Damage { task, n, kind, detail }));
    }
    let log = folder.join(LOG);
    if is_blank(folder)? && fs::metadata(&log).is_ok_and(|data| data.len() > 0) {
        return Err(failure::unreadable(format!(
            "{} is missing or empty, but {} is not",
            folder.join(DATABASE).display(),
            log.display()
        )));
    }
    Ok(())
}

fn raise_owner(
    db: &mut Connection,
    folder: &Path,
    kind: schema::Kind,
    known: u64,
    noted: &mut Vec<Damage>,
) -> Result<u64, JournalError> {
    let failed = |error: rusqlite::Error| failure::writing(&error, folder);
    let transaction =
        db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Another process may have made the tables while this one waited for the lock.
    let path = folder.join(DATABASE);
    if kind == schema::Kind::Blank
        && schema::inspect(&transaction, &path.to_string_lossy())? == schema::Kind::Blank
    {
        schema::create(&transaction).map_err(failed)?;
    }
    let stored = schema::meta(&transaction, schema::OWNER)
        .map_err(failed)?
        .and_then(|owner| u64::try_from(owner).ok())
        .ok_or_else(|| failure::unreadable("the owner number is damaged"))?;
    if known > stored {
        let detail = format!(
            "the journal is older than its witness: {known} processes have opened it, it knows of {stored}"
        );
        noted.push(failure::whole(DamageKind::LostTail, detail));
    }
    let owner = stored.max(known) + 1;
    schema::set_meta(&transaction, schema::OWNER, owner as i64).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok(owner)
}

/// Makes the folder, and keeps it and its files to this user.
fn make_private(folder: &Path) -> Result<(), JournalError> {
    if !folder.is_dir() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failure::file(folder, &error))?;
    }
    keep_private(folder, 0o700)?;
    for name in [DATABASE, LOG, SHARED, TIPS] {
        keep_private(&folder.join(name), 0o600)?;
    }
    Ok(())
}

fn keep_private(path: &Path, mode: u32) -> Result<(), JournalError> {
    let failed = |error: std::io::Error| failure::file(path, &error);
    let data = match fs::metadata(path) {
        Ok(data) => data,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if data.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)
}

fn create_private(path: &Path) -> Result<(), JournalError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failure::file(path, &error)),
    }
}
