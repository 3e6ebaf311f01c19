//! The last whole answer of each task, kept from the moment it has come until the next one has: what was paid for
//! is not asked again if the process dies before the answer is in the journal.
//!
//! An answer belongs to one question, by its number in the task and by what was sent. The loop gives a number once,
//! so an answer that was journaled is never taken for that of a later question, even if that says the same.
//!
//! While a process drives a task, its answers are in one file of that process (`spool`): keeping one is one write,
//! and nothing is made, renamed or removed. A task that the process let go has a file of its own, which whoever takes
//! the task up finds; the answers of a process that died are moved to such files by the next one that looks.
//!
//! Nothing here is synced: it outlives the process, and the journal, which is, follows at once.

mod spool;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use machine::message::Reply;

use crate::whole_file::{self, Lasting};
use spool::{Line, Place, Spool};

/// Where the files of processes are, below the tasks' own.
const UNDER_WAY: &str = "under-way";

/// Where answers are kept; nowhere by default.
#[derive(Debug, Default)]
pub(super) struct Answers {
    folder: Option<PathBuf>,
    known: Mutex<Known>,
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

/// What this process knows of the tasks that it drives, or drove just now.
#[derive(Debug, Default)]
struct Known {
    tasks: BTreeMap<String, Task>,
    /// Made with the first answer.
    spool: Option<Spool>,
    /// Tasks that were let go since the last answer. Those of them that have not ended by the next one get files.
    released: Vec<String>,
}

#[derive(Debug, Default)]
struct Task {
    /// Its last answer, in the spool.
    place: Option<Place>,
    /// Whether every answer that could be elsewhere has been looked for.
    looked: bool,
    /// Whether it was begun here, so that it has no file.
    begun: bool,
}

impl Answers {
    pub(super) fn in_folder(folder: PathBuf) -> Answers {
        Answers { folder: Some(folder), known: Mutex::default() }
    }

    /// A task that did not exist before: nobody has an answer for it.
    pub(super) fn begun(&self, task: &str) {
        if self.folder.is_some() {
            let fresh = Task { place: None, looked: true, begun: true };
            self.lock().tasks.insert(task.to_owned(), fresh);
        }
    }

    /// The answer to this question, if it has come before.
    pub(super) fn find(&self, asked: Asked<'_>) -> Option<Reply> {
        let folder = self.folder.as_ref()?;
        let name = name(asked.task)?;
        let mut known = self.lock();
        let Known { tasks, spool, .. } = &mut *known;
        let own = tasks.get(asked.task);
        if own.is_some_and(|task| task.looked && task.place.is_none()) {
            return None;
        }
        if let (Some(Task { place: Some(place), .. }), Some(spool)) = (own, &*spool)
            && place.question == asked.question
            && let Some(reply) = spool.read(*place).ok().and_then(|line| fitting(&line, asked))
        {
            return Some(reply);
        }
        if own.is_some_and(|task| task.looked) {
            return None;
        }
        let mut found = None;
        let processes = folder.join(UNDER_WAY);
        spool::each(
            &processes,
            spool.as_ref(),
            |line| rest(folder, line),
            |line| found = found.take().or_else(|| fitting(line, asked)),
        );
        let found = found.or_else(|| fitting(&fs::read(folder.join(name)).ok()?, asked));
        // From the first question on that nobody has answered, all are asked here.
        tasks.entry(asked.task.to_owned()).or_default().looked = found.is_none();
        found
    }

    /// Keeps an answer in place of the one before.
    pub(super) fn keep(&self, asked: Asked<'_>, reply: &Reply) {
        let Some(folder) = &self.folder else { return };
        if asked.question == 0 || name(asked.task).is_none() {
            return;
        }
        let mut known = self.lock();
        known.rest_released(folder);
        // Without it nothing is wrong yet: the answer is about to be journaled. A disk that is full shows there.
        let _ = known.keep(folder, asked, reply);
    }

    /// The process no longer drives the task. If that has ended, [`Answers::forget`] follows.
    pub(super) fn release(&self, task: &str) {
        if self.folder.is_none() {
            return;
        }
        let mut known = self.lock();
        match known.tasks.get_mut(task) {
            Some(Task { place: Some(_), looked, .. }) => {
                *looked = false;
                known.released.push(task.to_owned());
            }
            Some(_) => {
                known.tasks.remove(task);
            }
            None => {}
        }
    }

    /// The task has ended.
    pub(super) fn forget(&self, task: &str) {
        let (Some(folder), Some(name)) = (&self.folder, name(task)) else { return };
        let mut known = self.lock();
        let ended = known.tasks.remove(task);
        if let (Some(Task { place: Some(place), .. }), Some(spool)) = (&ended, &mut known.spool) {
            spool.forget(task, *place);
        }
        if !ended.is_some_and(|task| task.begun) {
            // Most tasks have none.
            let _ = fs::remove_file(folder.join(name));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // A panic can only leave an answer in the file that nobody knows of: it is asked for again.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn keep(&mut self, folder: &Path, asked: Asked<'_>, reply: &Reply) -> std::io::Result<()> {
        if self.spool.is_none() {
            let processes = folder.join(UNDER_WAY);
            whole_file::make_folder(&processes)?;
            // Whoever died before us leaves nothing behind for ever.
            spool::each(&processes, None, |line| rest(folder, line), |_| {});
            self.spool = Some(Spool::create(&processes)?);
        }
        let Some(spool) = &mut self.spool else { return Ok(()) };
        if !self.tasks.contains_key(asked.task) {
            self.tasks.insert(asked.task.to_owned(), Task::default());
        }
        // Just looked up or put there.
        let task = self.tasks.get_mut(asked.task).expect("the task is there");
        if let Some(before) = task.place.take() {
            spool.replace(before);
        }
        let line = Line {
            v: spool::VERSION,
            task: asked.task.into(),
            question: asked.question,
            request: asked.request.into(),
            reply: Some(Cow::Borrowed(reply)),
        };
        task.place = Some(spool.append(&line)?);
        if spool.is_wasteful() {
            let places = self.tasks.values_mut().filter_map(|task| task.place.as_mut());
            spool.shrink(places.collect())?;
        }
        Ok(())
    }

    /// Gives the answers of tasks that were let go, and have not ended, files of their own.
    fn rest_released(&mut self, folder: &Path) {
        for id in std::mem::take(&mut self.released) {
            let (Some(task), Some(spool)) = (self.tasks.get(&id), &mut self.spool) else {
                continue;
            };
            // Taken up again meanwhile.
            if task.looked {
                continue;
            }
            if let Some(place) = task.place {
                if let Ok(line) = spool.read(place) {
                    rest(folder, &line);
                }
                spool.forget(&id, place);
            }
            self.tasks.remove(&id);
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let Some(folder) = &self.folder else { return };
        let known = self.known.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(spool) = known.spool.take() else { return };
        for place in known.tasks.values().filter_map(|task| task.place) {
            if let Ok(line) = spool.read(place) {
                rest(folder, &line);
            }
        }
        spool.remove();
    }
}

/// The reply in a line, if it answers the question.
fn fitting(line: &[u8], asked: Asked<'_>) -> Option<Reply> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let fits = line.v == spool::VERSION
        && asked.question != 0
        && line.question == asked.question
        && line.request == asked.request
        && (line.task.is_empty() || line.task == asked.task);
    line.reply.filter(|_| fits).map(Cow::into_owned)
}

/// Writes an answer to its task's own file, unless that has a later one.
fn rest(folder: &Path, line: &[u8]) {
    let Ok(answer) = serde_json::from_slice::<Line<'_>>(line) else { return };
    let Some(name) = name(&answer.task) else { return };
    let is_older = fs::read(folder.join(&name)).is_ok_and(|bytes| {
        let there = serde_json::from_slice::<Line<'_>>(&bytes);
        there.is_ok_and(|there| there.question > answer.question)
    });
    if !is_older {
        // As with keeping it: without it nothing is wrong yet.
        let _ = whole_file::write(folder, &name, line, Lasting::No);
    }
}

/// The file of a task; none for a name that could lead elsewhere.
fn name(task: &str) -> Option<String> {
    let fits = !task.is_empty() && task.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then(|| format!("{task}.json"))
}

#[cfg(test)]
mod tests;
