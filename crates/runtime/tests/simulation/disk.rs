//! A disk with one file on it, and the frames of the log in that file.
//!
//! What was written and not synced is at chance's mercy when the power goes: lost, kept, or torn at any byte.

use crate::random::Random;

/// The file: everything up to `synced` survives whatever happens.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) synced: usize,
    pub(crate) full: bool,
    pub(crate) syncs: u64,
}

impl Disk {
    /// Appends; on a full disk only a part arrives.
    pub(crate) fn write(&mut self, frame: &[u8], random: &mut Random) -> Result<(), String> {
        if self.full {
            let part = random.below(frame.len() as u64) as usize;
            self.bytes.extend_from_slice(&frame[..part]);
            return Err("no space left on the simulated disk".to_owned());
        }
        self.bytes.extend_from_slice(frame);
        Ok(())
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.synced = self.synced.min(length);
    }

    pub(crate) fn sync(&mut self) {
        self.synced = self.bytes.len();
        self.syncs += 1;
    }

    /// What a power cut makes of the unsynced end; in words.
    pub(crate) fn cut_power(&mut self, random: &mut Random) -> &'static str {
        let loose = (self.bytes.len() - self.synced) as u64;
        let fate = match random.below(4) {
            _ if loose == 0 => "nothing was unsynced",
            0 => {
                self.bytes.truncate(self.synced);
                "the unsynced end is lost"
            }
            1 => "the unsynced end is kept",
            2 => {
                self.bytes.truncate(self.synced + random.below(loose) as usize);
                "the unsynced end is torn"
            }
            _ => {
                let hole = self.synced + random.below(loose) as usize;
                self.bytes[hole] ^= 1 + random.below(255) as u8;
                "the unsynced end is damaged"
            }
        };
        self.synced = self.bytes.len();
        fate
    }
}

/// What a line of the log is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Opened,
    Claimed,
    Created,
    Record,
    Snapshot,
    Summary,
    /// Ends a batch; `n` is the number of its lines. Lines without one never happened.
    Commit,
}

const KINDS: [Kind; 7] = [
    Kind::Opened,
    Kind::Claimed,
    Kind::Created,
    Kind::Record,
    Kind::Snapshot,
    Kind::Summary,
    Kind::Commit,
];

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) kind: Kind,
    /// Who wrote it.
    pub(crate) owner: u64,
    pub(crate) task: String,
    pub(crate) n: u64,
    pub(crate) time: i64,
    pub(crate) version: u32,
    pub(crate) body: Vec<u8>,
}

/// Length and checksum.
const HEAD: usize = 12;
/// Kind, length of the task's id, owner, number, time, version.
const FIXED: usize = 30;

impl Line {
    pub(crate) fn new(kind: Kind, owner: u64, task: &str, n: u64) -> Line {
        Line { kind, owner, task: task.to_owned(), n, time: 0, version: 0, body: Vec::new() }
    }

    /// The line as a frame: length, checksum, content.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(FIXED + self.task.len() + self.body.len());
        content.push(self.kind as u8);
        content.push(self.task.len() as u8);
        content.extend_from_slice(&self.owner.to_le_bytes());
        content.extend_from_slice(&self.n.to_le_bytes());
        content.extend_from_slice(&self.time.to_le_bytes());
        content.extend_from_slice(&self.version.to_le_bytes());
        content.extend_from_slice(self.task.as_bytes());
        content.extend_from_slice(&self.body);
        let mut frame = Vec::with_capacity(HEAD + content.len());
        frame.extend_from_slice(&(content.len() as u32).to_le_bytes());
        frame.extend_from_slice(&checksum(&content).to_le_bytes());
        frame.extend_from_slice(&content);
        frame
    }

    fn from_content(content: &[u8]) -> Option<Line> {
        let number =
            |at: usize| Some(u64::from_le_bytes(content.get(at..at + 8)?.try_into().ok()?));
        let task_end = FIXED + usize::from(*content.get(1)?);
        Some(Line {
            kind: *KINDS.get(usize::from(*content.first()?))?,
            owner: number(2)?,
            n: number(10)?,
            time: number(18)? as i64,
            version: u32::from_le_bytes(content.get(26..FIXED)?.try_into().ok()?),
            task: String::from_utf8(content.get(FIXED..task_end)?.to_vec()).ok()?,
            body: content.get(task_end..)?.to_vec(),
        })
    }
}

/// The line at a place and where the next one begins; `None` for one that is torn or damaged. Without
/// `strict`, whatever is there is taken for a line.
pub(crate) fn line_at(bytes: &[u8], at: usize, strict: bool) -> Option<(Line, usize)> {
    let length = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
    let sum = u64::from_le_bytes(bytes.get(at + 4..at + HEAD)?.try_into().ok()?);
    let end = at + HEAD + length;
    let end = if strict { end } else { end.min(bytes.len()) };
    let content = bytes.get(at + HEAD..end)?;
    if strict && checksum(content) != sum {
        return None;
    }
    Some((Line::from_content(content)?, end))
}

/// The batch at a place, whole, and where the next one begins.
pub(crate) fn batch_at(bytes: &[u8], mut at: usize) -> Option<(Vec<Line>, usize)> {
    let mut lines = Vec::new();
    loop {
        let (line, next) = line_at(bytes, at, true)?;
        at = next;
        if line.kind == Kind::Commit {
            return (line.n == lines.len() as u64).then_some((lines, at));
        }
        lines.push(line);
    }
}

/// FNV-1a, eight bytes at a time.
fn checksum(content: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325 ^ content.len() as u64;
    let mut chunks = content.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
    for byte in chunks.remainder() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}
