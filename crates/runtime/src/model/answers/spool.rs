//! The file in which one process keeps the answers of the tasks that it drives, a line each. Its owner holds a lock
//! on it, so that others see whether it lives.
//!
//! Lines are only ever added behind others; a line that was cut by the end of its process, or by a loss of power, is
//! no JSON, and nobody reads beyond it. Once no answer is of use any more the file is emptied.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use machine::message::Reply;
use serde::{Deserialize, Serialize};

use crate::lock::FileLock;

/// The version of the lines.
pub(super) const VERSION: u32 = 1;

/// Bytes that may be of no use any more before a file is written anew.
const WASTE: u64 = 4 << 20;

/// Bytes that are of no use may be left standing up to here: emptying a file costs more than adding to it.
const LEFT: u64 = 64 << 10;

const ENDING: &str = "spool";

/// One line: an answer, or that a task's answer is of no use any more.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line<'a> {
    pub(super) v: u32,
    #[serde(default)]
    pub(super) task: Cow<'a, str>,
    pub(super) question: u64,
    pub(super) request: Cow<'a, str>,
    pub(super) reply: Option<Given<'a>>,
}

/// A reply that is borrowed while it is written and owned once it was read.
pub(super) type Given<'a> = Cow<'a, Reply>;

/// Where an answer stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) question: u64,
    at: u64,
    length: u64,
}

#[derive(Debug)]
pub(super) struct Spool {
    file: FileLock,
    path: PathBuf,
    /// Where the next line goes.
    end: u64,
    /// Answers that are of use, and their bytes.
    count: u64,
    used: u64,
    /// Lines that go with the next one: tasks whose answers are of no use any more.
    gone: Vec<u8>,
}

impl Spool {
    /// A new file in the folder.
    pub(super) fn create(folder: &Path) -> io::Result<Spool> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{number}.{ENDING}", std::process::id()));
            let mut options = OpenOptions::new();
            let file = match options.create_new(true).read(true).write(true).mode(0o600).open(&path)
            {
                Ok(file) => file,
                // Of a process that died and had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            // Somebody who looks for the dead may have seen it without its lock.
            if let Some(file) = FileLock::take(file)
                && file.file().metadata()?.nlink() > 0
            {
                return Ok(Spool { file, path, end: 0, count: 0, used: 0, gone: Vec::new() });
            }
        }
    }

    /// Writes an answer behind the others.
    pub(super) fn append(&mut self, line: &Line<'_>) -> io::Result<Place> {
        if self.count == 0 && self.end > LEFT {
            self.empty()?;
        }
        let mut bytes = std::mem::take(&mut self.gone);
        let before = bytes.len() as u64;
        let written = write(&mut bytes, line).and_then(|()| {
            self.file.file().write_all_at(&bytes, self.end).map(|()| bytes.len() as u64)
        });
        bytes.clear();
        // The next line needs room again.
        self.gone = bytes;
        let (at, length) = (self.end + before, written? - before);
        self.end = at + length;
        self.count += 1;
        self.used += length;
        Ok(Place { question: line.question, at, length })
    }

    /// The line at a place.
    pub(super) fn read(&self, place: Place) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(place.length).unwrap_or_default()];
        self.file.file().read_exact_at(&mut bytes, place.at)?;
        Ok(bytes)
    }

    /// An answer is of no use any more, and the next one of its task follows.
    pub(super) fn replace(&mut self, place: Place) {
        self.count -= 1;
        self.used -= place.length;
    }

    /// An answer is of no use any more.
    pub(super) fn forget(&mut self, task: &str, place: Place) {
        self.replace(place);
        if self.count == 0 {
            // What is left standing is old, which is all that can come of a failure.
            let _ = self.empty();
            return;
        }
        let (question, task, request) = (place.question, task.into(), "".into());
        let line = Line { v: VERSION, task, question, request, reply: None };
        // Into memory, where nothing fails.
        let _ = write(&mut self.gone, &line);
    }

    fn empty(&mut self) -> io::Result<()> {
        self.gone.clear();
        self.file.file().set_len(0)?;
        self.end = 0;
        Ok(())
    }

    /// Whether most of the file is of no use.
    pub(super) fn is_wasteful(&self) -> bool {
        self.end > WASTE + 2 * self.used
    }

    /// Writes what is of use to a new file. All places must be there.
    pub(super) fn shrink(&mut self, mut places: Vec<&mut Place>) -> io::Result<()> {
        let mut next = Spool::create(self.path.parent().unwrap_or(Path::new(".")))?;
        let (mut bytes, mut moved) = (Vec::new(), Vec::with_capacity(places.len()));
        for place in &places {
            moved.push(bytes.len() as u64);
            bytes.extend(self.read(**place)?);
        }
        next.file.file().write_all_at(&bytes, 0)?;
        for (place, at) in places.iter_mut().zip(moved) {
            place.at = at;
        }
        (next.end, next.count, next.used) = (bytes.len() as u64, self.count, self.used);
        std::mem::replace(self, next).remove();
        Ok(())
    }

    /// Nothing in it is needed any more.
    pub(super) fn remove(self) {
        // If it cannot be, the next process that looks does it.
        let _ = fs::remove_file(&self.path);
    }
}

fn write(out: &mut Vec<u8>, line: &Line<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.push(b'\n');
    Ok(())
}

/// Gives every answer that other processes keep: those of processes that died to `dead`, whose files are then
/// removed, those of others to `alive`.
pub(super) fn each(
    folder: &Path,
    own: Option<&Spool>,
    mut dead: impl FnMut(&[u8]),
    mut alive: impl FnMut(&[u8]),
) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_none_or(|ending| ending != ENDING)
            || own.is_some_and(|own| own.path == path)
        {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        let Some(lock) = FileLock::take(file) else {
            last_lines(&steady(&path)).into_values().for_each(&mut alive);
            continue;
        };
        if lock.file().metadata().is_ok_and(|data| data.nlink() > 0)
            && let Ok(bytes) = fs::read(&path)
        {
            last_lines(&bytes).into_values().for_each(&mut dead);
            // If it cannot be removed, the next one that looks finds the same.
            let _ = fs::remove_file(&path);
        }
    }
}

/// What is in a file that somebody else may be writing: the same twice, so that no part of it is older than another.
fn steady(path: &Path) -> Vec<u8> {
    const TRIES: usize = 5;
    let read = || fs::read(path).unwrap_or_default();
    let mut before = read();
    for _ in 0..TRIES {
        let again = read();
        if again == before {
            return again;
        }
        before = again;
    }
    Vec::new()
}

/// The last answer of each task.
fn last_lines(bytes: &[u8]) -> BTreeMap<String, &[u8]> {
    let mut last = BTreeMap::new();
    for bytes in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(bytes) else { break };
        if line.v != VERSION {
            break;
        }
        match line.reply {
            Some(_) => last.insert(line.task.into_owned(), bytes),
            None => last.remove(&*line.task),
        };
    }
    last
}
