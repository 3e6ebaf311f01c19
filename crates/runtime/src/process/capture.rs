//! Output of any size in bounded memory: head and tail for people, the whole of it (up to a limit) in an
//! unlinked file for the record.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use rustix::fs::{CWD, Mode, OFlags};

use crate::redact;
use crate::sha256::Digest;

/// How much of the beginning is shown.
pub const HEAD: usize = 16 * 1024;
/// How much of the end is shown.
pub const TAIL: usize = 48 * 1024;
/// How much is kept in memory before it goes to a file.
const IN_MEMORY: usize = 256 * 1024;
/// How much is kept at all if the caller does not say.
pub const KEPT: u64 = 64 * 1024 * 1024;

/// What a process printed.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    /// The last bytes after the head; between once and twice `TAIL` once there are enough.
    tail: Vec<u8>,
    total: u64,
    spool: Spool,
    kept: u64,
    limit: u64,
    hash: Option<Digest>,
}

#[derive(Debug)]
enum Spool {
    Memory(Vec<u8>),
    File(File),
}

impl Capture {
    /// An empty capture that keeps at most `limit` bytes; what comes after is only counted.
    pub fn new(limit: u64) -> Capture {
        Capture {
            head: Vec::new(),
            tail: Vec::new(),
            total: 0,
            spool: Spool::Memory(Vec::new()),
            kept: 0,
            limit,
            hash: None,
        }
    }

    /// The same, with a hash of everything, what is not kept included.
    pub fn hashing(limit: u64) -> Capture {
        Capture { hash: Some(Digest::default()), ..Capture::new(limit) }
    }

    /// Adds output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.add(bytes);
        }
        self.spool(bytes);
        let to_head = bytes.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        let rest = &bytes[to_head..];
        if rest.len() >= TAIL {
            self.tail.clear();
            self.tail.extend_from_slice(&rest[rest.len() - TAIL..]);
        } else {
            self.tail.extend_from_slice(rest);
            if self.tail.len() > 2 * TAIL {
                self.tail.drain(..self.tail.len() - TAIL);
            }
        }
    }

    /// SHA-256 of everything so far, in hex; none unless it was asked for.
    pub fn digest(&self) -> Option<String> {
        self.hash.clone().map(Digest::text)
    }

    /// How many bytes there were in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many bytes, from the first, can be had back.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Whether `text` shows everything.
    pub fn fits(&self) -> bool {
        self.total <= (HEAD + TAIL) as u64
    }

    /// Head and tail, with a note of what is missing between. Bytes that are no UTF-8 are replaced, and nothing is left of a
    /// secret that a cut went through.
    pub fn text(&self) -> String {
        let tail = &self.tail[self.tail.len().saturating_sub(TAIL)..];
        if self.fits() {
            return String::from_utf8_lossy(&[&self.head[..], tail].concat()).into_owned();
        }
        let head = without_cut_end(redact::until_cut(&self.head));
        let tail = without_cut_start(redact::from_cut(tail));
        let missing = self.total - (head.len() + tail.len()) as u64;
        format!(
            "{}\n[... {missing} bytes are missing here; {} bytes in all ...]\n{}",
            String::from_utf8_lossy(head),
            self.total,
            String::from_utf8_lossy(tail)
        )
    }

    /// The end, at most `limit` bytes (and at most `TAIL`), with a note if there was more before.
    pub fn end(&self, limit: usize) -> String {
        let shown = [&self.head[..], &self.tail[..]].concat();
        let shown = if self.fits() { &shown[..] } else { &self.tail[..] };
        let limit = limit.min(TAIL);
        if self.fits() && shown.len() <= limit {
            return String::from_utf8_lossy(shown).into_owned();
        }
        let end = &shown[shown.len().saturating_sub(limit)..];
        let end = without_cut_start(redact::from_cut(end));
        let missing = self.total - end.len() as u64;
        format!("[... {missing} bytes before this ...]\n{}", String::from_utf8_lossy(end))
    }

    /// All that was kept, from the first byte.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        match &self.spool {
            Spool::Memory(bytes) => Ok(bytes.clone()),
            Spool::File(file) => {
                let mut file = file;
                file.seek(SeekFrom::Start(0))?;
                let mut bytes = Vec::new();
                file.take(self.kept).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }

    fn spool(&mut self, bytes: &[u8]) {
        // Once something was left out, what follows would not join it.
        if self.kept + (bytes.len() as u64) < self.total {
            return;
        }
        let room = usize::try_from(self.limit - self.kept).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        if let Spool::Memory(memory) = &mut self.spool
            && memory.len() + bytes.len() > IN_MEMORY
        {
            let Ok(mut file) = unlinked_file() else { return };
            if file.write_all(memory).is_err() {
                return;
            }
            self.spool = Spool::File(file);
        }
        match &mut self.spool {
            Spool::Memory(memory) => memory.extend_from_slice(bytes),
            // A full disk costs the rest of the record, never the call.
            Spool::File(file) => {
                if file.write_all(bytes).is_err() {
                    return;
                }
            }
        }
        self.kept += bytes.len() as u64;
    }
}

/// A file that no name leads to: gone with its descriptor, whatever happens.
fn unlinked_file() -> io::Result<File> {
    let folder = std::env::temp_dir();
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(fd) = rustix::fs::openat(CWD, &folder, flags | OFlags::TMPFILE, mode) {
        return Ok(File::from(fd));
    }
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let path = folder.join(format!("drivetrain-{:016x}", u64::from_ne_bytes(random)));
    let fd = rustix::fs::openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
    std::fs::remove_file(&path)?;
    Ok(File::from(fd))
}

/// Drops the bytes of a character that the cut split, so that no replacement sign appears for it.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=3.min(bytes.len()) {
        let lead = bytes[bytes.len() - back];
        let length = match lead {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        };
        if length > back {
            return &bytes[..bytes.len() - back];
        }
        if lead & 0xC0 != 0x80 {
            break;
        }
    }
    bytes
}

fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let skip = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    &bytes[skip..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_output_is_shown_whole_and_large_output_names_what_is_missing() {
        let mut capture = Capture::new(KEPT);
        capture.push("grüße".as_bytes());
        assert_eq!(capture.text(), "grüße");
        let mut capture = Capture::new(KEPT);
        for _ in 0..100_000 {
            capture.push("ä".as_bytes());
        }
        let text = capture.text();
        assert!(!text.contains('\u{FFFD}'));
        assert!(text.contains("bytes are missing here; 200000 bytes in all"));
        assert!(text.len() < HEAD + TAIL + 100);
        assert_eq!(capture.bytes().unwrap().len(), 200_000);
    }

    #[test]
    fn of_a_secret_that_a_cut_goes_through_nothing_is_left() {
        redact::learn("CUT_KEY", "of-this-test-0819");
        let mut capture = Capture::new(KEPT);
        capture.push("#".repeat(HEAD - 9).as_bytes());
        capture.push(b"of-this-test-0819");
        capture.push("+".repeat(TAIL).as_bytes());
        capture.push(b"of-this-test-0819");
        capture.push("#".repeat(TAIL - 8).as_bytes());
        let (text, end) = (capture.text(), capture.end(TAIL));
        for part in ["of-", "0819"] {
            assert!(!text.contains(part) && !end.contains(part), "{part}");
        }
        assert_eq!(text.matches('#').count(), HEAD - 9 + TAIL - 8, "all else is");
        assert_eq!(end.matches('#').count(), TAIL - 8);
        let missing = format!("[... {} bytes are missing here;", TAIL + 34);
        assert!(text.contains(&missing), "{}", &text[HEAD - 9..][..60]);
    }

    #[test]
    fn what_is_past_the_limit_is_only_counted() {
        let mut capture = Capture::new(600_000);
        for number in 0..100_000u32 {
            capture.push(format!("{number:09}\n").as_bytes());
        }
        assert_eq!((capture.total(), capture.kept()), (1_000_000, 600_000));
        let kept = capture.bytes().unwrap();
        assert_eq!(kept.len(), 600_000);
        assert!(kept.ends_with(b"000059999\n"));
        assert!(capture.end(20).ends_with("\n000099998\n000099999\n"));
        assert!(capture.text().ends_with("000099999\n"));
    }
}
