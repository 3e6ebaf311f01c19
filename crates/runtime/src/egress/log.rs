//! The passages of a task on disk: one JSON object a line, for its owner only.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use machine::policy::hosts::Passage;
use machine::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, SystemClock};
use crate::redact;

/// The longest line that is read back.
const MAX_LINE: u64 = 64 * 1024;

/// A passage with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was told.
    pub time: Timestamp,
    /// The passage.
    #[serde(flatten)]
    pub passage: Passage,
}

/// A log that is written to.
#[derive(Debug)]
pub struct PassageLog {
    file: Mutex<File>,
}

impl PassageLog {
    /// Opens a log at its end; it and its folder are made if they are missing.
    pub fn open(path: &Path) -> io::Result<PassageLog> {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        Ok(PassageLog { file: Mutex::new(file) })
    }

    /// Writes one line, without secrets. A full disk loses it: the connection has been decided on already.
    pub fn write(&self, passage: Passage) {
        // Whoever is to be let in may stand before the host.
        let host = passage.host.rsplit('@').next().unwrap_or_default();
        let (host, reason) = (redact::in_any_case(host), redact::in_any_case(&passage.reason));
        let passage = Passage { host, reason, ..passage };
        let entry = Entry { time: SystemClock.now(), passage };
        let Ok(mut line) = serde_json::to_vec(&entry) else { return };
        line.push(b'\n');
        // One write to the end of the file, so that several boxes of a task do not mix their lines.
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
    }
}

/// Reads a log; a task without one has reached for nothing. A line that is none is given as it stands.
pub fn read_log(path: &Path) -> io::Result<Vec<Result<Entry, String>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut reader = BufReader::new(file);
    let mut entries = Vec::new();
    loop {
        let mut line = Vec::new();
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(entries);
        }
        entries.push(
            serde_json::from_slice(&line)
                .map_err(|_| String::from_utf8_lossy(&line).trim_end().to_owned()),
        );
    }
}
