//! `--replay`: answers from recorded exchanges, without a network and without a key. A question is answered by what
//! was recorded for the same question, several of them in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use wire::model::recording::{End, Exchange, Question, Response};

use super::recording::number;
use crate::http::{Chunk, Finished, TransportError};

/// What errors name in place of the server.
const ORIGIN: &str = "the recorded server";

/// The largest file that is read.
const MAX_FILE: u64 = 256 << 20;

/// A folder of recorded exchanges.
#[derive(Debug)]
pub struct Recording {
    folder: PathBuf,
    /// By file, in the order in which they were recorded.
    exchanges: Vec<(String, Exchange)>,
    /// The places of equal questions.
    places: BTreeMap<String, Vec<usize>>,
    /// How often each task has asked each question. Lost with the process: a task that is resumed begins with the
    /// first of equal ones again, so a fault that was recorded may come once more, and the answer after it.
    asked: Mutex<BTreeMap<(String, String), usize>>,
    /// What each task's agents were answered with already. Lost with the process, as the numbers above.
    given: Mutex<BTreeMap<String, BTreeSet<usize>>>,
}

impl Recording {
    /// Reads a folder. Files that are no exchanges by their name are left alone; a wrong one is an error.
    pub fn load(folder: &Path) -> Result<Recording, String> {
        let failed = |path: &Path, why: &dyn std::fmt::Display| {
            format!("cannot replay {}: {why}", path.display())
        };
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| failed(folder, &error))? {
            let name = entry.map_err(|error| failed(folder, &error))?.file_name();
            if let Some((name, number)) = name.to_str().and_then(|name| Some((name, number(name)?)))
            {
                files.push((number, name.to_owned()));
            }
        }
        files.sort();
        if files.is_empty() {
            return Err(failed(folder, &"nothing is recorded there; --record DIR records a run"));
        }
        let mut exchanges = Vec::new();
        for (_, name) in files {
            let path = folder.join(&name);
            let size = fs::metadata(&path).map_err(|error| failed(&path, &error))?.len();
            if size > MAX_FILE {
                return Err(failed(&path, &format!("it is larger than {MAX_FILE} bytes")));
            }
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            let exchange = Exchange::read(&text).map_err(|error| failed(&path, &error))?;
            exchanges.push((name, exchange));
        }
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, (_, exchange)) in exchanges.iter().enumerate() {
            places.entry(exchange.question.canonical()).or_default().push(place);
        }
        Ok(Recording {
            folder: folder.to_owned(),
            exchanges,
            places,
            asked: Mutex::default(),
            given: Mutex::default(),
        })
    }

    /// Gives the recorded answer to `take`, chunk by chunk and at once, and says how it ended. The error says why
    /// there is none.
    pub(super) fn answer(
        &self,
        task: &str,
        question: &Question,
        take: &mut dyn FnMut(&[u8]) -> Chunk,
    ) -> Result<Result<Finished, TransportError>, String> {
        let exchange = self.find(task, question)?;
        let response = &exchange.response;
        let chunks = response.chunks.iter().filter_map(|chunk| chunk.data.bytes());
        let (status, headers) = (response.status.unwrap_or(200), response.headers.clone());
        let mut finished = Finished { status, headers, body: Vec::new() };
        if status != 200 {
            finished.body = chunks.flatten().collect();
            return Ok(Ok(finished));
        }
        for chunk in chunks {
            if take(&chunk) == Chunk::Last {
                return Ok(Ok(finished));
            }
        }
        let origin = ORIGIN.to_owned();
        Ok(match &response.end {
            End::Whole => Ok(finished),
            End::Unreachable { reason } => {
                Err(TransportError::Unreachable { origin, reason: reason.clone() })
            }
            End::Broken { reason } => {
                Err(TransportError::Broken { origin, reason: reason.clone() })
            }
            End::Silent { millis } => {
                Err(TransportError::Silent { origin, after: Duration::from_millis(*millis) })
            }
            End::TooLong { millis } => {
                Err(TransportError::TooLong { origin, after: Duration::from_millis(*millis) })
            }
        })
    }

    /// The recorded answer to a question of an agent: of those of its form that the task had not yet, the one whose
    /// question has most in common with this one, and of equally near ones the first. The error says why there is none.
    pub(crate) fn agent_answer(
        &self,
        task: &str,
        question: &Question,
    ) -> Result<&Response, String> {
        let form = question.form();
        // Each change is one insert.
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let given = given.entry(task.to_owned()).or_default();
        let left = self.exchanges.iter().enumerate().filter(|(place, (_, exchange))| {
            !given.contains(place) && exchange.question.form() == form
        });
        let nearest =
            left.rev().max_by_key(|(_, (_, exchange))| question.likeness(&exchange.question));
        let Some((place, (_, exchange))) = nearest else {
            let folder = self.folder.display();
            return Err(format!(
                "{folder} has no answer left to a question of this form: {}",
                self.near(question)
            ));
        };
        given.insert(place);
        Ok(&exchange.response)
    }

    /// The recorded answer to what an agent asks freely and as often as it likes, such as a count of tokens: those to the
    /// same question in their order, the last of them again and again; else the one of its form whose question has most in
    /// common with this one. The error says why there is none.
    pub(crate) fn free_answer(&self, task: &str, question: &Question) -> Result<&Response, String> {
        let canonical = question.canonical();
        if let Some(places) = self.places.get(&canonical) {
            // Each change is one insert or one addition.
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let times = asked.entry((task.to_owned(), canonical)).or_insert(0);
            if let Some(place) = places.get(*times).or(places.last()) {
                *times += 1;
                return Ok(&self.exchanges[*place].1.response);
            }
        }
        let form = question.form();
        let alike = self.exchanges.iter().filter(|(_, exchange)| exchange.question.form() == form);
        let nearest = alike.rev().max_by_key(|(_, known)| question.likeness(&known.question));
        nearest.map(|(_, exchange)| &exchange.response).ok_or_else(|| {
            let (folder, Question { method, path, .. }) = (self.folder.display(), question);
            format!("{folder} has no answer to {method} {path}")
        })
    }

    /// The next exchange of this task with this question.
    fn find(&self, task: &str, question: &Question) -> Result<&Exchange, String> {
        let folder = self.folder.display();
        let canonical = question.canonical();
        let Some(places) = self.places.get(&canonical) else {
            return Err(format!(
                "{folder} has no answer to this question: {}",
                self.near(question)
            ));
        };
        // Each change is one insert or one addition.
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry((task.to_owned(), canonical)).or_insert(0);
        let Some(place) = places.get(*times) else {
            return Err(format!(
                "{folder} has {} to this question, and it is asked once more",
                match places.len() {
                    1 => "one answer".to_owned(),
                    count => format!("{count} answers"),
                }
            ));
        };
        *times += 1;
        Ok(&self.exchanges[*place].1)
    }

    /// The recorded question that has most in common with this one, and the first thing it has not.
    fn near(&self, question: &Question) -> String {
        // The first of equally near ones.
        let nearest = self
            .exchanges
            .iter()
            .rev()
            .max_by_key(|(_, exchange)| question.likeness(&exchange.question));
        match nearest {
            Some((name, exchange)) => {
                let place = question.difference(&exchange.question).unwrap_or_default();
                format!("the nearest, {name}, differs first in {place}")
            }
            // A recording has at least one exchange.
            None => "it is empty".to_owned(),
        }
    }
}
