//! What SQLite's and the system's failures mean to a caller.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use rustix::fs::{StatVfs, StatVfsMountFlags};

use crate::{Damage, DamageKind, JournalError};

/// A failure of the database, with what is known about where it happened.
pub(super) fn database(error: &rusqlite::Error) -> JournalError {
    let text = error.to_string();
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull | ErrorCode::ReadOnly => JournalError::Full(text),
            // Nothing was written and nothing is broken: the same call may succeed later.
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                JournalError::Full(format!("another process keeps it locked ({text})"))
            }
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => unreadable(text),
            // The numbers are ours and unique: a clash means that the table does not hold what it should.
            ErrorCode::ConstraintViolation => unreadable(text),
            _ => JournalError::Store(text),
        },
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => unreadable(text),
        _ => JournalError::Store(text),
    }
}

/// A failure while writing: a file system that became read-only shows as an I/O error.
pub(super) fn writing(error: &rusqlite::Error, folder: &Path) -> JournalError {
    match database(error) {
        JournalError::Store(text) if !is_sync(error) && is_read_only(folder) => {
            JournalError::Full(format!("read-only file system ({text})"))
        }
        other => other,
    }
}

/// A failure while a journal is opened: on a disk without room SQLite calls it an I/O error. Nothing was promised yet, so
/// unlike a commit it may be tried again.
pub(super) fn opening(error: JournalError, folder: &Path) -> JournalError {
    match error {
        JournalError::Store(text) if has_little_room(folder) => {
            JournalError::Full(format!("the disk of {} is full ({text})", folder.display()))
        }
        other => other,
    }
}

/// A failure of a file of ours.
pub(super) fn file(path: &Path, error: &io::Error) -> JournalError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::ReadOnlyFilesystem => JournalError::Full(text),
        _ => JournalError::Store(text),
    }
}

/// Damage to the database as a whole.
pub(super) fn unreadable(detail: impl Into<String>) -> JournalError {
    JournalError::Damaged(whole(DamageKind::Unreadable, detail))
}

/// A damage that concerns no single task.
pub(super) fn whole(kind: DamageKind, detail: impl Into<String>) -> Damage {
    Damage { task: None, n: None, kind, detail: detail.into() }
}

/// A damage to one task.
pub(super) fn of_task(
    task: &str,
    n: impl Into<Option<u64>>,
    kind: DamageKind,
    detail: impl Into<String>,
) -> Damage {
    Damage { task: Some(task.to_owned()), n: n.into(), kind, detail: detail.into() }
}

/// After a failed sync the kernel may have marked lost pages clean, so nothing about it is retryable.
fn is_sync(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC};
    let rusqlite::Error::SqliteFailure(failure, _) = error else { return false };
    [SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC].contains(&failure.extended_code)
}

fn is_read_only(folder: &Path) -> bool {
    rustix::fs::statvfs(folder)
        .is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Less than a new journal takes, in bytes or in files; some disks count no files.
fn has_little_room(folder: &Path) -> bool {
    let is_full = |disk: StatVfs| {
        let bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        bytes < 64 << 10 || (disk.f_files > 0 && disk.f_favail < 8)
    };
    rustix::fs::statvfs(folder).is_ok_and(is_full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn a_journal_that_cannot_be_opened_for_want_of_room_says_so() {
        let store = || JournalError::Store("disk I/O error".to_owned());
        // A file system that has no room, ever.
        let full = opening(store(), Path::new("/proc")).to_string();
        assert_eq!(
            full,
            "the journal cannot be written: the disk of /proc is full (disk I/O error)"
        );
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(opening(store(), folder.path()), JournalError::Store(_)));
        let foreign = JournalError::Foreign("x".to_owned());
        assert!(matches!(opening(foreign, Path::new("/proc")), JournalError::Foreign(_)));
    }

    #[test]
    fn only_failures_that_wrote_nothing_may_be_retried() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |code| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let text = format!("{:?}", writing(&error, folder.path()));
            text[..text.find('(').unwrap()].to_owned()
        };
        assert_eq!(kind(ffi::SQLITE_FULL), "Full");
        assert_eq!(kind(ffi::SQLITE_READONLY), "Full");
        assert_eq!(kind(ffi::SQLITE_BUSY), "Full");
        assert_eq!(kind(ffi::SQLITE_IOERR_FSYNC), "Store");
        assert_eq!(kind(ffi::SQLITE_IOERR_WRITE), "Store");
        assert_eq!(kind(ffi::SQLITE_NOMEM), "Store");
        assert_eq!(kind(ffi::SQLITE_CORRUPT), "Damaged");
        assert_eq!(kind(ffi::SQLITE_NOTADB), "Damaged");
    }
}
