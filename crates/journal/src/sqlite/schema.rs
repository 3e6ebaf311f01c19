//! The database's shape, its settings, and the small values in it that carry a checksum.

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension};

use crate::chain::{checksum, digest};
use crate::sqlite::failure;
use crate::{JournalError, TaskRow};

/// "drvt"
pub(super) const APPLICATION: i64 = 0x6472_7674;
/// The format this code writes.
pub(super) const FORMAT: i64 = 1;

/// Key of the highest owner number given out.
pub(super) const OWNER: i64 = 1;
/// Key of the saved point: the `head` rows are right for all records up to this sequence number.
pub(super) const POINT: i64 = 2;

/// Every object of the schema, as SQLite keeps its text.
///
/// `record` has no index on the task: a commit of many tasks then writes one page where it would write one
/// per task. `back` is the distance to the task's record before, so that a task is read from its head down.
const OBJECTS: [(&str, &str); 7] = [
    (
        "meta",
        "CREATE TABLE meta(key integer primary key, value integer not null, sum integer not null)",
    ),
    (
        "task",
        "CREATE TABLE task(num integer primary key, id text not null, created integer not null, \
         owner integer not null, open integer not null, summary text not null, sum blob not null)",
    ),
    ("task_id", "CREATE UNIQUE INDEX task_id on task(id)"),
    ("task_created", "CREATE INDEX task_created on task(created)"),
    ("task_open", "CREATE INDEX task_open on task(created) where open = 1"),
    (
        "head",
        "CREATE TABLE head(task integer primary key, seq integer not null, sum integer not null)",
    ),
    (
        "snapshot",
        "CREATE TABLE snapshot(task integer primary key, n integer not null, \
         chain blob not null, body blob not null, sum blob not null)",
    ),
];

const RECORD: (&str, &str) = (
    "record",
    "CREATE TABLE record(seq integer primary key, task integer not null, n integer not null, \
     back integer not null, time integer not null, version integer not null, body blob not null, \
     chain blob not null)",
);

/// What a file turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing has been written to it yet.
    Blank,
    /// A journal of ours.
    Journal,
}

/// Settings that write nothing, for every connection. What SQLite does by itself is not asked for: each is a statement,
/// and most processes do little else with their first milliseconds.
pub(super) fn settle(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(Duration::from_secs(10))?;
    db.set_prepared_statement_cache_capacity(64);
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.execute_batch("pragma cache_size = -4000; pragma cell_size_check = on")
}

/// Settings of a connection that writes.
pub(super) fn settle_writer(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch("pragma journal_mode = wal; pragma synchronous = full")
}

/// Tells a journal from anything else, without writing.
pub(super) fn inspect(db: &Connection, path: &str) -> Result<Kind, JournalError> {
    let read = |name: &str| -> rusqlite::Result<i64> {
        db.query_row(&format!("pragma {name}"), [], |row| row.get(0))
    };
    let failed = |error: rusqlite::Error| failure::database(&error);
    let application = read("application_id").map_err(failed)?;
    let format = read("user_version").map_err(failed)?;
    let mut found = objects(db).map_err(failed)?;
    if application == 0 && format == 0 && found.is_empty() {
        return Ok(Kind::Blank);
    }
    if application != APPLICATION {
        return Err(JournalError::Foreign(path.to_owned()));
    }
    if format > FORMAT {
        return Err(JournalError::Newer { path: path.to_owned(), found: format, known: FORMAT });
    }
    let mut expected: Vec<_> = OBJECTS
        .iter()
        .chain([&RECORD])
        .map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned()))
        .collect();
    found.sort();
    expected.sort();
    if format < FORMAT || found != expected {
        return Err(failure::unreadable(format!(
            "the schema of {path} is not the one of a journal"
        )));
    }
    Ok(Kind::Journal)
}

fn objects(db: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement =
        db.prepare("select name, sql from sqlite_schema where name not like 'sqlite_%'")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Makes the tables, in the caller's transaction.
pub(super) fn create(db: &Connection) -> rusqlite::Result<()> {
    for (_, sql) in OBJECTS.iter().chain([&RECORD]) {
        db.execute_batch(sql)?;
    }
    db.execute_batch(&format!(
        "pragma application_id = {APPLICATION}; pragma user_version = {FORMAT};"
    ))?;
    set_meta(db, OWNER, 0)?;
    set_meta(db, POINT, 0)
}

/// A value of `meta`; `None` if it is gone or does not match its checksum.
pub(super) fn meta(db: &Connection, key: i64) -> rusqlite::Result<Option<i64>> {
    let found = db
        .prepare_cached("select value, sum from meta where key = ?1")?
        .query_row([key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    Ok(found.filter(|(value, sum)| *sum == meta_sum(key, *value)).map(|(value, _)| value))
}

pub(super) fn set_meta(db: &Connection, key: i64, value: i64) -> rusqlite::Result<()> {
    db.prepare_cached("insert or replace into meta(key, value, sum) values(?1, ?2, ?3)")?
        .execute((key, value, meta_sum(key, value)))
        .map(drop)
}

fn meta_sum(key: i64, value: i64) -> i64 {
    checksum(&[b"meta", &key.to_be_bytes(), &value.to_be_bytes()])
}

/// The head of a task at the saved point: `None` if the row is gone or wrong, 0 if there was no record.
pub(super) fn head(db: &Connection, number: i64) -> rusqlite::Result<Option<i64>> {
    let found = db
        .prepare_cached("select seq, sum from head where task = ?1")?
        .query_row([number], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    Ok(found.filter(|(seq, sum)| *sum == head_sum(number, *seq)).map(|(seq, _)| seq))
}

pub(super) fn set_head(db: &Connection, number: i64, seq: i64) -> rusqlite::Result<()> {
    db.prepare_cached("insert or replace into head(task, seq, sum) values(?1, ?2, ?3)")?
        .execute((number, seq, head_sum(number, seq)))
        .map(drop)
}

/// Four bytes: these rows are rewritten often, and a wrong one is caught by the record it points to.
fn head_sum(number: i64, seq: i64) -> i64 {
    checksum(&[b"head", &number.to_be_bytes(), &seq.to_be_bytes()]) >> 32
}

/// The checksum of a task's row.
pub(super) fn row_sum(number: i64, row: &TaskRow) -> [u8; 16] {
    digest(&[
        b"task",
        &number.to_be_bytes(),
        &row.created.to_be_bytes(),
        &row.owner.to_be_bytes(),
        &[u8::from(row.open)],
        &(row.id.len() as u64).to_be_bytes(),
        row.id.as_bytes(),
        row.summary.as_bytes(),
    ])
}

/// The checksum of a snapshot.
pub(super) fn snapshot_sum(number: i64, n: u64, chain: &[u8], body: &[u8]) -> [u8; 16] {
    digest(&[b"snapshot", &number.to_be_bytes(), &n.to_be_bytes(), chain, body])
}
