//! Performs model calls. The scripted model is played here; it needs no network and no key. Every other model is
//! reached over the network (`remote`).

mod answers;
mod endpoints;
mod recording;
mod remote;
mod replay;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use machine::message::{ModelCall, ModelFailure, Reply, Role};
use machine::time::Span;
use wire::model::script::{self, Player, Script};
use wire::model::{ErrorKind, ModelError, StreamEvent};

use crate::http;
use crate::network;
use crate::process::Cancel;
use crate::providers::Environment;
pub use recording::Recorder;
pub(crate) use recording::Tape;
use remote::Remote;
pub use replay::Recording;

/// The largest script that is read.
const MAX_SCRIPT: u64 = 4 << 20;

/// How often a wait looks whether it was cancelled.
const GLANCE: Duration = Duration::from_millis(10);

/// The models of this process, by task.
#[derive(Debug, Default)]
pub struct Models {
    players: Mutex<BTreeMap<(String, String), Player>>,
    remote: Remote,
}

/// Where the answers of models come from that are not scripted.
#[derive(Debug, Clone, Default)]
pub enum Traffic {
    /// Their servers.
    #[default]
    Live,
    /// Their servers, and every exchange is written down.
    Record(Arc<Recorder>),
    /// What was written down; no server is asked and no key is needed.
    Replay(Arc<Recording>),
}

/// Is told what an answer is made of while it comes, and may take it out.
pub type Listener<'a> = &'a mut (dyn FnMut(&mut Vec<StreamEvent>) + Send);

impl Models {
    /// Models whose keys come from `environment` and whose calls have these limits.
    pub fn new(environment: Environment, limits: http::Limits) -> Models {
        Models { players: Mutex::default(), remote: Remote::new(environment, limits) }
    }

    /// The same, with their answers from elsewhere.
    pub fn carrying(mut self, traffic: Traffic) -> Models {
        self.remote.carry(traffic);
        self
    }

    /// The same, with the last answer of each task kept in a folder until it is journaled.
    pub fn keeping(mut self, answers: PathBuf) -> Models {
        self.remote.keep_answers_in(answers);
        self
    }

    /// Asks a model and waits for its whole answer; `hear` is told what comes as it comes. `folder` is where the
    /// task was started.
    pub fn call(
        &self,
        task: &str,
        call: &ModelCall,
        folder: &Path,
        cancel: &Cancel,
        hear: Listener<'_>,
    ) -> Result<Reply, ModelFailure> {
        if let Some((script::NAME, file)) = call.model.split_once('/') {
            return self.play(task, call, &folder.join(file), cancel, hear);
        }
        let stop = http::triggered(cancel);
        match network::wait(self.remote.call(task, call.clone(), folder, stop, hear)) {
            Ok(answer) => answer.map_err(failure),
            Err(reason) => Err(failure(ModelError::new(ErrorKind::Config, reason))),
        }
    }

    /// Whether a model is reached over the network, where many calls can wait on one thread (see [`Models::ask`]).
    pub(crate) fn is_remote(model: &str) -> bool {
        !matches!(model.split_once('/'), Some((script::NAME, _)))
    }

    /// The same as [`Models::call`] for a remote model, as a future. It ends early once `stop` does.
    pub(crate) async fn ask(
        &self,
        task: &str,
        call: ModelCall,
        folder: &Path,
        stop: impl Future<Output = ()> + Send,
        hear: Listener<'_>,
    ) -> Result<Reply, ModelFailure> {
        self.remote.call(task, call, folder, stop, hear).await.map_err(failure)
    }

    /// A task comes into being: no answer for it can be anywhere.
    pub fn begun(&self, task: &str) {
        self.remote.begun(task);
    }

    /// Forgets how far the task's scripts were played, and what was written of its conversations.
    pub fn close(&self, task: &str) {
        let mut players = self.lock();
        if !players.is_empty() {
            players.retain(|(owner, _), _| owner != task);
        }
        drop(players);
        self.remote.close(task);
    }

    /// Forgets the last answer of a task that has ended.
    pub fn finished(&self, task: &str) {
        self.remote.finished(task);
    }

    fn play(
        &self,
        task: &str,
        call: &ModelCall,
        file: &Path,
        cancel: &Cancel,
        hear: Listener<'_>,
    ) -> Result<Reply, ModelFailure> {
        let key = (task.to_owned(), call.model.clone());
        let turn = {
            let mut players = self.lock();
            if !players.contains_key(&key) {
                players.insert(key.clone(), begun(file, call)?);
            }
            // Just looked up or put there.
            let player = players.get_mut(&key).expect("the player is there");
            player.next(&script::heard(&call.messages))
        };
        if !wait(turn.delay, cancel) {
            return Err(failure(stopped()));
        }
        let (mut events, mut answer) = turn.play();
        let mut rest = events.split_off(turn.stalls_after(&events));
        hear(&mut events);
        if !wait(turn.stall(), cancel) {
            return Err(failure(stopped()));
        }
        hear(&mut rest);
        // A script costs nothing.
        if let Ok(reply) = &mut answer {
            reply.usage.nanodollars = Some(0);
        }
        answer.map_err(failure)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), Player>> {
        // Each change is one insert, one retain or one turn of a player.
        self.players.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A player of the script, as far as the conversation has come: a new process plays on where the last one was.
fn begun(file: &Path, call: &ModelCall) -> Result<Player, ModelFailure> {
    let wrong = |reason: String| failure(ModelError::new(ErrorKind::Config, reason));
    let unreadable = |why: &dyn std::fmt::Display| {
        wrong(format!("cannot read the script {}: {why}", file.display()))
    };
    let size = fs::metadata(file).map_err(|error| unreadable(&error))?.len();
    if size > MAX_SCRIPT {
        return Err(unreadable(&format!("it has {size} bytes, at most {MAX_SCRIPT} are read")));
    }
    let text = fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    let script = Script::parse(&text, &file.display().to_string()).map_err(|errors| {
        wrong(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n"))
    })?;
    let mut player = Player::new(script);
    for (at, message) in call.messages.iter().enumerate() {
        if message.role == Role::Assistant {
            player.next(&script::heard(&call.messages[..at]));
        }
    }
    Ok(player)
}

/// False if it was cancelled before the time was over.
fn wait(span: Span, cancel: &Cancel) -> bool {
    let until = Instant::now() + Duration::from_millis(span.0);
    loop {
        if cancel.is_triggered() {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(GLANCE));
    }
}

fn stopped() -> ModelError {
    ModelError::new(ErrorKind::Cancelled, "the call was stopped")
}

fn failure(error: ModelError) -> ModelFailure {
    let (kind, retry) = (error.kind.word().to_owned(), error.retry);
    ModelFailure { kind, retry, message: error.message, usage: error.usage }
}
