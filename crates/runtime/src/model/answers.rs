//! The last whole answer of each task, kept from the moment it has come until the next one has: what was paid for
//! is not asked again if the process dies before the answer is in the journal.
//!
//! An answer belongs to one question, by its number in the task and by what was sent. The loop gives a number once,
//! so an answer that was journaled is never taken for that of a later question, even if that says the same.

use std::fs;
use std::path::PathBuf;

use machine::message::Reply;
use serde::{Deserialize, Serialize};

use super::file::{self, Lasting};

/// The version of the files.
const VERSION: u32 = 1;

/// Where answers are kept; nowhere by default.
#[derive(Debug, Default)]
pub(super) struct Answers {
    folder: Option<PathBuf>,
}

/// A question of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) task: &'a str,
    /// Zero for one that the loop did not ask.
    pub(super) question: u64,
    /// The digest of what is sent.
    pub(super) request: &'a str,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    v: u32,
    question: u64,
    request: String,
    reply: Reply,
}

impl Answers {
    pub(super) fn in_folder(folder: PathBuf) -> Answers {
        Answers { folder: Some(folder) }
    }

    /// The answer to this question, if it has come before.
    pub(super) fn find(&self, asked: Asked<'_>) -> Option<Reply> {
        let path = self.folder.as_ref()?.join(name(asked.task)?);
        let kept: Kept = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let fits = kept.v == VERSION
            && asked.question != 0
            && kept.question == asked.question
            && kept.request == asked.request;
        fits.then_some(kept.reply)
    }

    /// Keeps an answer in place of the one before.
    pub(super) fn keep(&self, asked: Asked<'_>, reply: &Reply) {
        let (Some(folder), Some(name)) = (&self.folder, name(asked.task)) else { return };
        if asked.question == 0 {
            return;
        }
        let (question, request) = (asked.question, asked.request.to_owned());
        let kept = Kept { v: VERSION, question, request, reply: reply.clone() };
        // Without it nothing is wrong yet: the answer is about to be journaled. A disk that is full shows there.
        if let Ok(bytes) = serde_json::to_vec(&kept)
            && file::make_folder(folder).is_ok()
        {
            // Not synced: it outlives this process, and the journal, which is, follows at once.
            let _ = file::write(folder, &name, &bytes, Lasting::No);
        }
    }

    /// The task has ended.
    pub(super) fn forget(&self, task: &str) {
        if let (Some(folder), Some(name)) = (&self.folder, name(task)) {
            // Most tasks have none.
            let _ = fs::remove_file(folder.join(name));
        }
    }
}

/// The file of a task; none for a name that could lead elsewhere.
fn name(task: &str) -> Option<String> {
    let fits = !task.is_empty() && task.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then(|| format!("{task}.json"))
}
