//! `--record`: every exchange with a model's server, one file each. What a file holds, and what it must not, is in
//! `wire::model::recording`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use wire::model::recording::{
    Chunk, Cover, Data, End, Exchange, Question, Response, VERSION, kept,
};

use crate::http::{Finished, TransportError};
use crate::sha256;
use crate::whole_file::{self, Lasting};

/// How much of a digest tells questions apart in the name of a file.
const SHORT: usize = 12;

/// A folder that exchanges are written into.
#[derive(Debug)]
pub struct Recorder {
    folder: PathBuf,
    /// The number of the last file.
    last: Mutex<u64>,
}

impl Recorder {
    /// Makes the folder if there is none and sees that it can be written. Files that are there stay: the numbers
    /// go on after theirs.
    pub fn open(folder: &Path) -> Result<Recorder, String> {
        let failed =
            |error: std::io::Error| format!("cannot record into {}: {error}", folder.display());
        whole_file::make_folder(folder).map_err(failed)?;
        let probe = ".probe";
        whole_file::write(folder, probe, b"", Lasting::No).map_err(failed)?;
        fs::remove_file(folder.join(probe)).map_err(failed)?;
        let mut last = 0;
        for entry in fs::read_dir(folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            last = last.max(name.to_str().and_then(number).unwrap_or(0));
        }
        Ok(Recorder { folder: folder.to_owned(), last: Mutex::new(last) })
    }

    /// Writes an exchange. What was stopped from here, or never sent, is none.
    pub(crate) fn write(
        &self,
        question: Question,
        tape: Tape,
        ended: &Result<Finished, TransportError>,
        cover: &Cover,
    ) -> Result<(), String> {
        let Some(response) = tape.response(ended) else { return Ok(()) };
        let exchange = Exchange { v: VERSION, question, response }.covered(cover);
        let digest = sha256::of(exchange.question.canonical().as_bytes());
        // Plain data with text keys: nothing in it can fail to become JSON.
        let mut bytes = serde_json::to_vec_pretty(&exchange).unwrap_or_default();
        bytes.push(b'\n');
        // Under the lock, so that the numbers are in the order of the ends.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let name = loop {
            *last += 1;
            let name = format!("{:04}-{}.json", *last, &digest[..SHORT]);
            // Another process may record into the same folder.
            if !self.folder.join(&name).exists() {
                break name;
            }
        };
        whole_file::write(&self.folder, &name, &bytes, Lasting::No).map_err(|error| {
            format!("cannot record into {}: {error}", self.folder.join(name).display())
        })
    }
}

/// The number of a recorded file; none for other files.
pub(super) fn number(name: &str) -> Option<u64> {
    name.strip_suffix(".json")?.split_once('-')?.0.parse().ok()
}

/// What comes back, as it comes.
#[derive(Debug)]
pub(crate) struct Tape {
    started: Instant,
    chunks: Vec<Chunk>,
}

impl Tape {
    pub(crate) fn start() -> Tape {
        Tape { started: Instant::now(), chunks: Vec::new() }
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        let chunk = Chunk { at: self.at(), data: Data::of(bytes) };
        self.chunks.push(chunk);
    }

    fn at(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn response(mut self, ended: &Result<Finished, TransportError>) -> Option<Response> {
        let millis = |after: &std::time::Duration| u64::try_from(after.as_millis()).unwrap_or(0);
        let error = match ended {
            Ok(Finished { status, headers, body }) => {
                if !body.is_empty() {
                    self.hear(body);
                }
                let (status, headers) = (Some(*status), kept(headers));
                return Some(Response { status, headers, chunks: self.chunks, end: End::Whole });
            }
            Err(error) => error,
        };
        let (status, end) = match error {
            TransportError::Unusable(_) | TransportError::Cancelled => return None,
            TransportError::Unreachable { reason, .. } => {
                (None, End::Unreachable { reason: reason.clone() })
            }
            TransportError::Broken { reason, .. } => {
                (Some(200), End::Broken { reason: reason.clone() })
            }
            TransportError::Silent { after, .. } => {
                (Some(200), End::Silent { millis: millis(after) })
            }
            TransportError::TooLong { after, .. } => {
                (Some(200), End::TooLong { millis: millis(after) })
            }
        };
        Some(Response { status, headers: Vec::new(), chunks: self.chunks, end })
    }
}
