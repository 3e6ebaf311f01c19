//! The second opinion: a file that holds the tip of every task, apart from the database.
//!
//! SQLite drops a damaged end of its write-ahead log in silence, and an old copy of a database looks as
//! sound as the newest one. So each commit also notes, outside the database and after it, how far each of
//! its tasks has come. A database that is behind its witness has lost records. One that is ahead has not:
//! the note is not synced, and a crash may come between the two.
//!
//! The file is an array of slots by task number; slot 0 is the header. A slot is the task's id and two
//! copies of its tip, written in turn: a torn write spoils at most the newer copy.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, StatxFlags};

use crate::JournalError;
use crate::chain::Chain;
use crate::sqlite::failure;

/// Bytes of a slot.
pub(super) const SLOT: usize = 192;
const ID: usize = 64;
const COPY: usize = 64;
const SUMMED: usize = 56;
const MAGIC: &str = "drivetrain-tips-1";

/// How far a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tip {
    pub(super) n: u64,
    pub(super) seq: i64,
    pub(super) chain: Chain,
}

/// What a slot says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing was ever written there.
    Nothing,
    /// Something was written there and cannot be made out.
    Spoiled,
    /// A tip. `id` is `None` if only the name cannot be made out.
    Tip { id: Option<String>, mark: u64, created: i64, tip: Tip },
}

/// The bytes of one slot, kept by whoever writes the task.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    bytes: [u8; SLOT],
    newer: usize,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Witness {
    file: File,
    path: PathBuf,
}

/// The header's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The highest owner number given out.
    pub(super) owner: u64,
    /// True if the file was made anew because the first one was lost.
    pub(super) remade: bool,
}

impl Witness {
    /// Opens the file; `None` if there is none.
    pub(super) fn open(path: &Path, write: bool) -> Result<Option<Self>, JournalError> {
        match OpenOptions::new().read(true).write(write).open(path) {
            Ok(file) => Ok(Some(Self { file, path: path.to_owned() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failure::file(path, &error)),
        }
    }

    /// Makes the file, durably, with a header and no tips.
    pub(super) fn create(path: &Path, header: Header) -> Result<Self, JournalError> {
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| failure::file(path, &error))?;
        let witness = Self { file: made, path: path.to_owned() };
        witness.write_header(header)?;
        witness.sync()?;
        Ok(witness)
    }

    /// Says that this process has the journal open; a rebuild waits for nobody and refuses.
    pub(super) fn share(&self) -> Result<(), JournalError> {
        rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockShared)
            .map_err(|_| JournalError::Store(format!("{} is being rebuilt", self.path.display())))
    }

    /// Says that nobody may have the journal open.
    pub(super) fn seize(&self) -> Result<(), JournalError> {
        rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            JournalError::Store(format!("{} is in use by another process", self.path.display()))
        })
    }

    pub(super) fn sync(&self) -> Result<(), JournalError> {
        self.file.sync_all().map_err(|error| failure::file(&self.path, &error))
    }

    /// Whether the file has no name any more: somebody removed the journal. Nothing else is asked: once a file's times were
    /// looked at, Linux gives its next write a time of its own, and each commit takes half as long again.
    pub(super) fn is_removed(&self) -> bool {
        let seen = rustix::fs::statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::NLINK);
        seen.is_ok_and(|seen| seen.stx_nlink == 0)
    }

    /// The header; `None` if it cannot be made out.
    pub(super) fn header(&self) -> Result<Option<Header>, JournalError> {
        Ok(match self.seen(0)? {
            Seen::Tip { id: Some(id), tip, .. } if id == MAGIC => {
                Some(Header { owner: tip.n, remade: tip.seq != 0 })
            }
            Seen::Nothing | Seen::Spoiled | Seen::Tip { .. } => None,
        })
    }

    pub(super) fn write_header(&self, header: Header) -> Result<(), JournalError> {
        let mut slot = self.slot(0, MAGIC, 0)?;
        // The header has no chain; any fixed link will do.
        let chain = Chain::start(MAGIC);
        slot.set(Tip { n: header.owner, seq: i64::from(header.remade), chain });
        self.write_bytes(0, slot.bytes())
    }

    /// Slots in the file, the header included.
    pub(super) fn length(&self) -> Result<i64, JournalError> {
        let length = self.file.metadata().map_err(|error| failure::file(&self.path, &error))?.len();
        Ok(i64::try_from(length.div_ceil(SLOT as u64)).unwrap_or(i64::MAX))
    }

    /// What the slot of a task says.
    pub(super) fn seen(&self, number: i64) -> Result<Seen, JournalError> {
        Ok(read_slot(number, &self.bytes(number)?).0)
    }

    /// The slot of a task, to go on writing to it.
    pub(super) fn slot(&self, number: i64, id: &str, created: i64) -> Result<Slot, JournalError> {
        let bytes = self.bytes(number)?;
        let (seen, newer) = read_slot(number, &bytes);
        let mut slot = Slot::new(number, id, created);
        if matches!(seen, Seen::Tip { mark, .. } if mark == mark_of(id)) {
            let kept = ID + newer * COPY;
            slot.bytes[kept..kept + COPY].copy_from_slice(&bytes[kept..kept + COPY]);
            slot.newer = newer;
        }
        Ok(slot)
    }

    /// Calls back with every slot that was ever written, but the header.
    pub(super) fn each(&self, mut each: impl FnMut(i64, Seen)) -> Result<(), JournalError> {
        let mut buffer = vec![0; SLOT * 1024];
        let mut number = 0;
        loop {
            let offset = number as u64 * SLOT as u64;
            let length = read_up_to(&self.file, &mut buffer, offset)
                .map_err(|error| failure::file(&self.path, &error))?;
            if length == 0 {
                return Ok(());
            }
            buffer[length..].fill(0);
            for chunk in buffer[..length.next_multiple_of(SLOT)].chunks_exact(SLOT) {
                let mut bytes = [0; SLOT];
                bytes.copy_from_slice(chunk);
                let seen = read_slot(number, &bytes).0;
                if number > 0 && seen != Seen::Nothing {
                    each(number, seen);
                }
                number += 1;
            }
        }
    }

    /// Writes the bytes of slots of tasks with numbers that follow each other, in one call and without a
    /// sync.
    pub(super) fn write_bytes(&self, first: i64, bytes: &[u8]) -> Result<(), JournalError> {
        let offset = first.unsigned_abs() * SLOT as u64;
        self.file.write_all_at(bytes, offset).map_err(|error| failure::file(&self.path, &error))
    }

    fn bytes(&self, number: i64) -> Result<[u8; SLOT], JournalError> {
        let mut bytes = [0; SLOT];
        if let Some(offset) = u64::try_from(number).ok().and_then(|n| n.checked_mul(SLOT as u64)) {
            // Past the end is the same as never written; an offset no file can have is past the end too.
            match read_up_to(&self.file, &mut bytes, offset) {
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                    return Err(failure::file(&self.path, &error));
                }
                _ => {}
            }
        }
        Ok(bytes)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // Expressly: a child that another thread is just starting has a copy of the open file, and would keep a lock
        // that was only closed.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Slot {
    /// A slot without a tip. What never changes stands in both copies from the start.
    pub(super) fn new(number: i64, id: &str, created: i64) -> Self {
        let mut bytes = [0; SLOT];
        bytes[..id.len()].copy_from_slice(id.as_bytes());
        for which in [0, 1] {
            let copy = &mut bytes[ID + which * COPY..][..COPY];
            copy[32..40].copy_from_slice(&created.to_be_bytes());
            copy[40..48].copy_from_slice(&mark_of(id).to_be_bytes());
            copy[48..56].copy_from_slice(&number.to_be_bytes());
        }
        Self { bytes, newer: 1 }
    }

    pub(super) fn bytes(&self) -> &[u8; SLOT] {
        &self.bytes
    }

    /// Puts a new tip over the older of the two copies.
    pub(super) fn set(&mut self, tip: Tip) {
        self.newer = 1 - self.newer;
        let copy = &mut self.bytes[ID + self.newer * COPY..][..COPY];
        copy[..8].copy_from_slice(&tip.n.to_be_bytes());
        copy[8..16].copy_from_slice(&tip.seq.to_be_bytes());
        copy[16..32].copy_from_slice(tip.chain.bytes());
        let sum = sum_of(copy);
        copy[SUMMED..].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A checksum of a copy. Each step can be undone, so no change of a single word goes unnoticed, and it
/// costs next to nothing, which matters as every record pays for it.
fn sum_of(copy: &[u8]) -> u64 {
    (0..SUMMED).step_by(8).fold(0x6472_7674_7469_7073, |sum: u64, at| {
        (sum ^ number_at(copy, at)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

/// Ties a copy to the task's id.
pub(super) fn mark_of(id: &str) -> u64 {
    number_at(Chain::start(id).bytes(), 0)
}

fn read_slot(number: i64, bytes: &[u8; SLOT]) -> (Seen, usize) {
    let copies = [0, 1].map(|which| {
        let copy = &bytes[ID + which * COPY..][..COPY];
        let sound = sum_of(copy) == number_at(copy, SUMMED) && copy[48..56] == number.to_be_bytes();
        sound.then_some(copy)
    });
    let newer = match copies {
        [Some(first), Some(second)] => usize::from(number_at(second, 0) >= number_at(first, 0)),
        [Some(_), None] => 0,
        [None, Some(_)] => 1,
        [None, None] if bytes.iter().all(|byte| *byte == 0) => return (Seen::Nothing, 1),
        [None, None] => return (Seen::Spoiled, 1),
    };
    let copy = copies[newer].unwrap_or_default();
    let mark = number_at(copy, 40);
    let end = bytes[..ID].iter().position(|byte| *byte == 0).unwrap_or(ID);
    let id = std::str::from_utf8(&bytes[..end]).ok().filter(|id| mark_of(id) == mark);
    let Some(chain) = Chain::from_slice(&copy[16..32]) else { return (Seen::Spoiled, 1) };
    let tip = Tip { n: number_at(copy, 0), seq: number_at(copy, 8) as i64, chain };
    let created = number_at(copy, 32) as i64;
    (Seen::Tip { id: id.map(str::to_owned), mark, created, tip }, newer)
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(number)
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tip(n: u64) -> Tip {
        Tip { n, seq: 10 * n as i64, chain: Chain::start("a").next(n, 0, 0, b"") }
    }

    #[test]
    fn a_torn_write_leaves_the_tip_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tips");
        let witness = Witness::create(&path, Header { owner: 3, remade: false }).unwrap();
        assert_eq!(witness.header().unwrap(), Some(Header { owner: 3, remade: false }));
        let mut slot = Slot::new(7, "a", 99);
        for n in 0..5 {
            slot.set(tip(n));
            witness.write_bytes(7, slot.bytes()).unwrap();
        }
        let seen = |n| Seen::Tip {
            id: Some("a".to_owned()),
            mark: mark_of("a"),
            created: 99,
            tip: tip(n),
        };
        assert_eq!(witness.seen(7).unwrap(), seen(4));
        assert_eq!(witness.seen(6).unwrap(), Seen::Nothing);
        assert_eq!(witness.seen(i64::MAX).unwrap(), Seen::Nothing);
        let newer = 7 * SLOT + ID + slot.newer * COPY;
        witness.file.write_all_at(&[0xff; 20], newer as u64).unwrap();
        assert_eq!(witness.seen(7).unwrap(), seen(3));
        // The writer goes on over the torn copy.
        let mut slot = witness.slot(7, "a", 99).unwrap();
        slot.set(tip(5));
        witness.write_bytes(7, slot.bytes()).unwrap();
        assert_eq!(witness.seen(7).unwrap(), seen(5));
        witness.file.write_all_at(&[0xff; SLOT], 7 * SLOT as u64).unwrap();
        assert_eq!(witness.seen(7).unwrap(), Seen::Spoiled);
        let mut all = Vec::new();
        witness.each(|number, seen| all.push((number, seen))).unwrap();
        assert_eq!(all, [(7, Seen::Spoiled)]);
    }
}
