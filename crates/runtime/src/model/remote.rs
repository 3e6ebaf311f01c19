//! A call of a model over the network: the provider is looked up, the question translated, sent, and the answer
//! put together as it comes. One call is one request; whether to ask again is decided elsewhere.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::message::{ModelCall, Reply};
use machine::policy::price::{self, Price};
use machine::server::ToolOffer;
use machine::tool;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::sync::OnceCell;
use wire::model::assemble::Limits;
use wire::model::constrained::{Choices, constrain};
use wire::model::recording::{Cover, Question};
use wire::model::{
    Answer, Dialect, Effort, ErrorKind, HttpRequest, ModelError, ModelRequest, Retry, Stream,
    StreamEvent, ToolChoice, ToolDeclaration, ToolList, Written,
};

use super::answers::{Answers, Asked};
use super::endpoints::{Admission, Endpoints};
use super::recording::Tape;
use super::{Listener, Recording, Traffic};
use crate::http::{self, Chunk, Finished, KeyHeader, TransportError};
use crate::network;
use crate::process::Cancel;
use crate::providers::{
    Decisions, Environment, KeyError, KeyState, Provider, ProviderError, Providers, Secret, Source,
};
use crate::redact;
use crate::sha256;

/// How long what the files say of providers is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// The most bytes of conversations that are kept in wire form.
const MAX_WRITTEN: usize = 64 << 20;

/// The most that is read of an answer that is no stream.
const MAX_DOCUMENT: usize = 64 << 10;

/// What is said of a server that gives an answer, but not as it was asked to.
const IN_ONE_PIECE: &str =
    "an answer in one piece; the server, or a proxy before it, must be one that streams";

/// How many lists of tools are kept.
const MAX_DECLARED: usize = 16;

/// Reaches models over the network.
#[derive(Debug, Default)]
pub(super) struct Remote {
    environment: Environment,
    limits: http::Limits,
    known: Mutex<Known>,
    traffic: Traffic,
    answers: Answers,
    endpoints: Endpoints,
}

/// One run of a key command, and what came of it.
type KeyRun = OnceCell<Result<Option<Secret>, ModelError>>;

/// What is kept between calls. Each change is one insert or one removal.
#[derive(Debug, Default)]
struct Known {
    /// What key commands gave, by command, until a provider refuses it: a command may ask a person.
    keys: BTreeMap<Vec<String>, Secret>,
    /// Key commands that run: whoever needs the key too waits for the same run.
    asking: BTreeMap<Vec<String>, Arc<KeyRun>>,
    /// The providers of a folder, and when they were read.
    providers: BTreeMap<PathBuf, (Instant, Arc<Providers>)>,
    /// Conversations in wire form, by task and model.
    written: BTreeMap<(String, String), Written>,
    /// Their size.
    size: usize,
    /// The tools that were declared last: most tasks have the same.
    declared: Vec<Declared>,
}

/// The tools of a call, and how a model is told of them.
#[derive(Debug)]
struct Declared {
    tools: Arc<[String]>,
    offers: Arc<Vec<ToolOffer>>,
    list: ToolList,
}

/// A question on its way, and what its answer needs.
struct Sending<'a, 'e> {
    provider: &'a Provider,
    key: Option<&'a Secret>,
    request: HttpRequest,
    cover: &'a Cover,
    admission: &'a mut Admission<'e>,
    reader: Reader<'e>,
}

impl Remote {
    pub(super) fn new(environment: Environment, limits: http::Limits) -> Remote {
        Remote { environment, limits, ..Remote::default() }
    }

    /// Says where answers come from.
    pub(super) fn carry(&mut self, traffic: Traffic) {
        self.traffic = traffic;
    }

    /// Says where answers are kept until they are journaled.
    pub(super) fn keep_answers_in(&mut self, folder: PathBuf) {
        self.answers = Answers::in_folder(folder);
    }

    /// Takes note of a task that did not exist before.
    pub(super) fn begun(&self, task: &str) {
        self.answers.begun(task);
    }

    /// Forgets the answer of a task that has ended.
    pub(super) fn finished(&self, task: &str) {
        self.answers.forget(task);
    }

    /// Asks a model of a provider that is known in `folder`. Once `stop` ends, so does the call, with what it cost.
    pub(super) async fn call(
        &self,
        task: &str,
        call: ModelCall,
        folder: &Path,
        stop: impl Future<Output = ()> + Send,
        hear: Listener<'_>,
    ) -> Result<Reply, ModelError> {
        let mut stop = pin!(stop);
        let config = |error: &dyn ToString| ModelError::new(ErrorKind::Config, error.to_string());
        let Some((provider, model)) = call.model.split_once('/') else {
            return Err(config(&format!("the model {:?}: expected PROVIDER/NAME", call.model)));
        };
        let providers = self.providers(folder).map_err(|error| config(&error))?;
        let provider = providers.find(provider).map_err(|error| config(&error))?;
        let dialect = provider.translation();
        let facts = providers.facts(&call.model);
        let most = facts.max_output.or(provider.max_output);
        let (request, choices) = match facts.decisions.unwrap_or(provider.decisions) {
            Decisions::Native => (self.encode(task, &*dialect, model, &call, most), None),
            Decisions::Constrained => {
                // One that decides by a schema can be bound to any.
                let question = self.question(model, &call, most, |_| true);
                let (question, choices) = constrain(question);
                (dialect.encode(&question), Some(choices))
            }
        };
        let reader = Reader { choices, ..Reader::new(&*dialect, model, hear) };
        let price = facts.price.as_ref();
        let size = request.parts().iter().map(|part| part.len()).sum();
        if let Traffic::Replay(recording) = &self.traffic {
            let known = providers.keys(&self.environment);
            let cover = Cover::new(known.iter().map(Secret::reveal));
            let question = recorded(provider, &request, &cover);
            let (answer, heard) = replay(recording, task, &question, reader);
            return charged(answer, price, size, heard);
        }
        let sent = digest(&call);
        let asked = Asked { task, question: call.question, request: &sent };
        // The conversation is the machine's alone by the time it is told: it adds to it without copying.
        drop(call);
        if let Some(reply) = self.answers.find(asked) {
            return Ok(reply);
        }
        let mut admission = self.endpoints.admit(&provider.base_url)?;
        let stopped = || ModelError::new(ErrorKind::Cancelled, "the call was stopped");
        let at_hand = self.key_at_hand(provider);
        let may_be_old = at_hand.is_some() && !provider.key_command.is_empty();
        let key = match at_hand {
            Some(key) => key?,
            None => {
                // Few calls need it, and many calls wait at once.
                let command = Box::pin(self.key_of_command(provider));
                network::first(stop.as_mut(), command).await.ok_or_else(stopped)??
            }
        };
        let known = match &self.traffic {
            Traffic::Record(_) => providers.keys(&self.environment),
            Traffic::Live | Traffic::Replay(_) => Vec::new(),
        };
        let cover = Cover::new(known.iter().chain(&key).map(Secret::reveal));
        let path = request.path.clone();
        let key_of = key.as_ref();
        let sending = Sending {
            provider,
            key: key_of,
            request,
            cover: &cover,
            admission: &mut admission,
            reader,
        };
        let ((answer, heard), recorded) = self.ask(sending, stop).await;
        admission.ended(&answer);
        let answer = charged(answer, price, size, heard);
        let answer = answer.map(redact::value);
        let answer = answer.map_err(|error| located(error, provider, &path));
        if let Ok(reply) = &answer {
            self.answers.keep(asked, reply);
        }
        let answer = match (answer, recorded) {
            (answer, Ok(())) => answer,
            (answer, Err(reason)) => Err(unrecorded(&answer, reason)),
        };
        answer.map_err(|mut error| {
            if let Some(key) = &key {
                // Some servers quote the key that they refuse.
                error.message = key.hide(&error.message);
            }
            if let Some(more) = more_time(provider, error.kind) {
                error.message.push_str(more);
            }
            if error.kind == ErrorKind::Auth
                && self.forget_key(provider, key.as_ref())
                && may_be_old
            {
                // It may have run out since the command gave it: the same question brings a fresh one.
                error.retry = Retry::Backoff;
            }
            error
        })
    }

    /// Forgets what was written of the task's conversations: this process no longer drives it.
    pub(super) fn close(&self, task: &str) {
        self.answers.release(task);
        let mut known = self.lock();
        let from = (task.to_owned(), String::new());
        while let Some(key) = known.written.range(from.clone()..).next().map(|(key, _)| key.clone())
            && key.0 == task
        {
            let gone = known.written.remove(&key).map_or(0, |written| written.size());
            known.size -= gone;
        }
    }

    /// The answer with how many bytes of it came, and whether the exchange was recorded if it had to be.
    async fn ask(
        &self,
        sending: Sending<'_, '_>,
        stop: impl Future<Output = ()>,
    ) -> ((Answer, u64), Result<(), String>) {
        let Sending { provider, key, request, cover, admission, mut reader } = sending;
        let url = format!("{}{}", provider.base_url, request.path);
        let (name, prefix) = reader.dialect.key_header();
        let key = key.map(|key| KeyHeader { name, prefix, key });
        let mut record = match &self.traffic {
            Traffic::Record(recorder) => {
                Some((recorder, recorded(provider, &request, cover), Tape::start()))
            }
            Traffic::Live | Traffic::Replay(_) => None,
        };
        let mut take = |chunk: &[u8]| {
            if let Some((_, _, tape)) = &mut record {
                tape.hear(chunk);
            }
            let meant = reader.take(chunk);
            if !matches!(meant, Chunk::Empty | Chunk::Part) {
                admission.began();
            }
            meant
        };
        let ended = {
            // Pinned here, so that a call that waits holds it once.
            let limits = provider.waits.over(self.limits);
            let exchange = pin!(http::exchange(&url, request, key, limits, &mut take));
            network::first(stop, exchange).await.unwrap_or(Err(TransportError::Cancelled))
        };
        let written = match record {
            Some((recorder, question, tape)) => recorder.write(question, tape, &ended, cover),
            None => Ok(()),
        };
        (reader.end(ended), written)
    }

    /// The request. What was written of the task's conversation before is not written again.
    fn encode(
        &self,
        task: &str,
        dialect: &dyn Dialect,
        model: &str,
        call: &ModelCall,
        most: Option<u64>,
    ) -> HttpRequest {
        let question = self.question(model, call, most, |schema| dialect.binds(model, schema));
        let key = (task.to_owned(), call.model.clone());
        let mut written = {
            let mut known = self.lock();
            let written = known.written.remove(&key).unwrap_or_else(Written::begin);
            known.size -= written.size();
            written
        };
        let request = dialect.encode_on(&question, &mut written);
        if written.size() > 0 {
            let mut known = self.lock();
            if known.size + written.size() > MAX_WRITTEN {
                known.written.clear();
                known.size = 0;
            }
            if written.size() <= MAX_WRITTEN {
                known.size += written.size();
                known.written.insert(key, written);
            }
        }
        request
    }

    /// The call as a dialect wants it; `most` is the limit of tokens of its answer, and `binds` says whether the answer can be
    /// bound to a schema.
    fn question(
        &self,
        model: &str,
        call: &ModelCall,
        most: Option<u64>,
        binds: impl Fn(&Value) -> bool,
    ) -> ModelRequest {
        ModelRequest {
            model: model.to_owned(),
            system: call.system.to_string(),
            messages: Arc::clone(&call.messages),
            moved: call.moved,
            tools: self.declare(call),
            tool_choice: if call.words_only { ToolChoice::None } else { ToolChoice::Auto },
            max_tokens: most,
            temperature: call.temperature,
            effort: call.effort.map(|effort| match effort {
                machine::message::Effort::Low => Effort::Low,
                machine::message::Effort::Medium => Effort::Medium,
                machine::message::Effort::High => Effort::High,
            }),
            output_schema: call.schema.as_deref().filter(|schema| binds(schema)).cloned(),
            cache: true,
        }
    }

    /// The tools of a call, the same list for all calls that have the same.
    fn declare(&self, call: &ModelCall) -> ToolList {
        let mut known = self.lock();
        let same = |declared: &&Declared| {
            declared.tools == call.tools
                && (Arc::ptr_eq(&declared.offers, &call.offers) || declared.offers == call.offers)
        };
        if let Some(declared) = known.declared.iter().find(same) {
            return declared.list.clone();
        }
        let list = declarations(call);
        if known.declared.len() >= MAX_DECLARED {
            known.declared.remove(0);
        }
        let (tools, offers) = (Arc::clone(&call.tools), Arc::clone(&call.offers));
        known.declared.push(Declared { tools, offers, list: list.clone() });
        list
    }

    /// What the files say of providers. One that cannot be used at the moment, because somebody is at it, does not end the
    /// tasks that began with it as it was.
    fn providers(&self, folder: &Path) -> Result<Arc<Providers>, ProviderError> {
        let known = self.lock().providers.get(folder).cloned();
        if let Some((read, providers)) = &known
            && read.elapsed() < BELIEVED
        {
            return Ok(Arc::clone(providers));
        }
        let providers = match (Providers::of(folder, &self.environment), known) {
            // A file that was changed is not believed until somebody says so, and one may be gone for a while, with the branch
            // that it is on: tasks that began with it go on with what it said.
            (Ok(now), Some((_, before))) if lacks(&now, &before) => return Ok(before),
            (Ok(providers), _) => Arc::new(providers),
            (Err(_), Some((_, before))) => return Ok(before),
            (Err(error), None) => return Err(error),
        };
        let entry = (Instant::now(), Arc::clone(&providers));
        self.lock().providers.insert(folder.to_owned(), entry);
        Ok(providers)
    }

    /// The key, unless a command has to be run for it.
    fn key_at_hand(&self, provider: &Provider) -> Option<Result<Option<Secret>, ModelError>> {
        if provider.key_state(&self.environment) != KeyState::Command {
            return Some(provider.key(&self.environment, &Cancel::new()).map_err(no_key));
        }
        self.lock().keys.get(&provider.key_command).map(|key| Ok(Some(key.clone())))
    }

    /// Forgets a key that was refused, if it came from a command; false if it did not. What the command gave to
    /// others meanwhile stays.
    fn forget_key(&self, provider: &Provider, refused: Option<&Secret>) -> bool {
        let is_command = provider.key_state(&self.environment) == KeyState::Command;
        let mut known = self.lock();
        let kept = known.keys.get(&provider.key_command).map(Secret::reveal);
        if is_command && kept == refused.map(Secret::reveal) {
            known.keys.remove(&provider.key_command);
        }
        is_command
    }

    /// The key, from one run of its command for all who need it at this time. If the call that began the run is stopped,
    /// another one begins it anew.
    async fn key_of_command(&self, provider: &Provider) -> Result<Option<Secret>, ModelError> {
        let command = &provider.key_command;
        let run = Arc::clone(self.lock().asking.entry(command.clone()).or_default());
        let key = run.get_or_init(|| self.run_key_command(provider)).await.clone();
        let mut known = self.lock();
        if known.asking.get(command).is_some_and(|other| Arc::ptr_eq(other, &run)) {
            known.asking.remove(command);
        }
        key
    }

    async fn run_key_command(&self, provider: &Provider) -> Result<Option<Secret>, ModelError> {
        // A command may take its time, and must end with the call that waits for it.
        let cancel = Cancel::new();
        let _stop = StopOnDrop(cancel.clone());
        let (asked, environment) = (provider.clone(), self.environment.clone());
        let run = tokio::task::spawn_blocking(move || asked.key(&environment, &cancel));
        let key = match run.await {
            Ok(key) => key.map_err(no_key)?,
            Err(error) => {
                let told = format!("the key command could not be run: {error}");
                return Err(ModelError::new(ErrorKind::NoKey, told));
            }
        };
        if let Some(key) = &key {
            redact::learn(&format!("key of {}", provider.name), key.reveal());
            self.lock().keys.insert(provider.key_command.clone(), key.clone());
        }
        Ok(key)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Sizes are changed beside their entries, without anything between that can panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct StopOnDrop(Cancel);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.trigger();
    }
}

fn no_key(error: KeyError) -> ModelError {
    let kind = match error {
        KeyError::Missing(_) => ErrorKind::NoKey,
        KeyError::Cancelled => ErrorKind::Cancelled,
    };
    ModelError::new(kind, error.to_string())
}

/// The same error with the address that was asked, where nothing may be there: most often its base URL says too much or too
/// little.
fn located(mut error: ModelError, provider: &Provider, path: &str) -> ModelError {
    if !matches!(error.status, Some(404 | 405)) {
        return error;
    }
    let base = &provider.base_url;
    error.message.push_str(&format!("; asked at {base}{path}"));
    if provider.source != Source::BuiltIn {
        error.message.push_str(", which is base_url in models.toml and the path of its dialect");
    }
    error
}

/// What gives a server that somebody set up more time, if it took too long.
fn more_time(provider: &Provider, kind: ErrorKind) -> Option<&'static str> {
    if provider.source == Source::BuiltIn {
        return None;
    }
    match kind {
        ErrorKind::IdleTimeout => Some(
            "; if it is slow, first_piece and next_piece of its provider in models.toml give it more time",
        ),
        ErrorKind::TotalTimeout => {
            Some("; if it is slow, whole_answer of its provider in models.toml gives it more time")
        }
        _ => None,
    }
}

/// Puts an answer together as its bytes come.
struct Reader<'a> {
    dialect: &'a dyn Dialect,
    /// Elsewhere: a call that waits is moved about before it does.
    stream: Box<Stream>,
    events: Vec<StreamEvent>,
    /// How many bytes the model has said.
    heard: u64,
    /// The beginning of an answer that is no stream.
    document: Option<Vec<u8>>,
    /// What the answer may be, if it is bound to a schema.
    choices: Option<Choices>,
    hear: Listener<'a>,
}

impl<'a> Reader<'a> {
    fn new(dialect: &'a dyn Dialect, model: &str, hear: Listener<'a>) -> Reader<'a> {
        let stream = Box::new(Stream::new(dialect, Limits::default()).for_model(model));
        let events = Vec::new();
        Reader { dialect, stream, events, heard: 0, document: None, choices: None, hear }
    }

    fn take(&mut self, chunk: &[u8]) -> Chunk {
        let (mut meant, mut rest) = (Chunk::Empty, chunk);
        while !rest.is_empty() {
            let (part, after) = rest.split_at(few(rest));
            let pushed = self.stream.push(part, &mut self.events);
            meant = weigh(meant, &self.events, self.stream.is_held_back());
            self.heard += self.events.iter().map(said).sum::<u64>();
            tell(self.hear, &mut self.events, self.choices.is_some());
            match pushed {
                Ok(()) => rest = after,
                // The stream keeps its error and tells it at its end.
                Err(error) if error.kind == ErrorKind::Malformed => return self.hear_out(rest),
                Err(_) => return Chunk::Last,
            }
        }
        match meant {
            Chunk::Empty if self.stream.is_within_an_event() => Chunk::Part,
            meant => meant,
        }
    }

    /// More of an answer that is no stream. What its server has to say may come in pieces.
    fn hear_out(&mut self, chunk: &[u8]) -> Chunk {
        let document = self.document.get_or_insert_default();
        let room = MAX_DOCUMENT - document.len();
        document.extend_from_slice(&chunk[..chunk.len().min(room)]);
        let is_whole = || serde_json::from_slice::<IgnoredAny>(document).is_ok();
        if document.len() == MAX_DOCUMENT || is_whole() { Chunk::Last } else { Chunk::Empty }
    }

    /// The answer, and how many bytes of it came.
    fn end(self, ended: Result<Finished, TransportError>) -> (Answer, u64) {
        let heard = self.heard;
        (self.finish(ended), heard)
    }

    fn finish(self, ended: Result<Finished, TransportError>) -> Answer {
        let Reader { dialect, stream, mut events, document, choices, hear, .. } = self;
        let answer = match document {
            // Also where its end did not come: what is there says more than that.
            Some(document) if ended != Err(TransportError::Cancelled) => {
                let headers = ended.map(|finished| finished.headers).unwrap_or_default();
                if let Some(packing) = packing(&headers) {
                    return Err(packed(packing));
                }
                let mut failure = dialect.failure(200, &headers, &document);
                if is_answer(&document) {
                    failure.message = IN_ONE_PIECE.to_owned();
                }
                Err(explained(stream.close(&mut events), failure))
            }
            _ => match ended {
                Ok(Finished { status: 200, headers, .. }) => stream
                    .close(&mut events)
                    .map_err(|error| packing(&headers).map(packed).unwrap_or(error)),
                Ok(Finished { status, headers, body }) => {
                    Err(dialect.failure(status, &headers, &body))
                }
                Err(error) => cut(*stream, &error, &mut events),
            },
        };
        tell(hear, &mut events, choices.is_some());
        match choices {
            Some(choices) => answer.and_then(|reply| choices.interpret(reply)),
            None => answer,
        }
    }
}

/// How many bytes of what the model says are in an event.
fn said(event: &StreamEvent) -> u64 {
    let text = match event {
        StreamEvent::TextDelta { text, .. } | StreamEvent::ThinkingDelta { text, .. } => text,
        StreamEvent::InputJsonDelta { json, .. } => json,
        _ => return 0,
    };
    text.len() as u64
}

/// Whether a provider of before is gone, or a file is not believed that was.
fn lacks(now: &Providers, before: &Providers) -> bool {
    before.iter().any(|provider| now.find(&provider.name).is_err())
        || now.untrusted().iter().any(|file| !before.untrusted().contains(file))
}

/// How an answer is packed that the transport cannot unpack, if it is: none was asked to be packed.
fn packing(headers: &[(String, String)]) -> Option<&str> {
    let named = headers.iter().find(|(name, _)| name == "content-encoding");
    named
        .map(|(_, packing)| packing.trim())
        .filter(|packing| !packing.eq_ignore_ascii_case("identity"))
}

/// What is said of such an answer.
fn packed(packing: &str) -> ModelError {
    let packing: String = packing.chars().filter(|c| !c.is_control()).take(40).collect();
    let told = format!(
        "its answer is packed ({packing}), which was not asked for; the server, or a proxy before it, must not do that"
    );
    ModelError::new(ErrorKind::Malformed, told)
}

/// Whether a document is an answer of a provider, whole: each dialect has its words in a list of its own.
fn is_answer(document: &[u8]) -> bool {
    let read: Option<Value> = serde_json::from_slice(document).ok();
    let has = |key: &str| read.as_ref().is_some_and(|read| read[key].is_array());
    ["choices", "content", "output", "candidates"].into_iter().any(has)
}

/// What is wrong with an answer that is no stream, in the server's own words.
fn explained(answer: Answer, mut failure: ModelError) -> ModelError {
    if let Err(error) = answer {
        failure.message = format!("{}: {}", error.message, failure.message);
    }
    failure
}

/// Passes on what came. Half a decision is nothing to read.
fn tell(hear: Listener<'_>, events: &mut Vec<StreamEvent>, is_constrained: bool) {
    if is_constrained {
        events.retain(|event| !matches!(event, StreamEvent::TextDelta { .. }));
    }
    hear(events);
    events.clear();
}

/// The request as a recording has it.
fn recorded(provider: &Provider, request: &HttpRequest, cover: &Cover) -> Question {
    // A body that is no JSON does not happen; as a text it is still told apart from others.
    let body = request.parts().concat();
    let body =
        serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into());
    Question {
        provider: provider.name.clone(),
        dialect: provider.dialect.word().to_owned(),
        method: "POST".to_owned(),
        path: cover.text(&request.path),
        request: cover.json(&body),
    }
}

fn replay(
    recording: &Recording,
    task: &str,
    question: &Question,
    mut reader: Reader<'_>,
) -> (Answer, u64) {
    match recording.answer(task, question, &mut |chunk| reader.take(chunk)) {
        Ok(ended) => reader.end(ended),
        Err(reason) => (Err(ModelError::new(ErrorKind::ReplayMissing, reason)), 0),
    }
}

/// A task that is to be recorded does not go on without: the answer was paid for, but nobody would find it.
fn unrecorded(answer: &Answer, reason: String) -> ModelError {
    let mut error = ModelError::new(ErrorKind::Config, reason);
    error.usage = match answer {
        Ok(reply) => reply.usage,
        Err(error) => error.usage,
    };
    error
}

/// Tells questions apart that a task asks under one number, which happens only if its journal was cut.
fn digest(call: &ModelCall) -> String {
    let mut digest = sha256::Digest::default();
    digest.add(call.model.as_bytes());
    digest.add(b"\n");
    digest.add(&call.messages.len().to_le_bytes());
    // Nothing of it is a writer that fails.
    let _ = serde_json::to_writer(&mut digest, &call.messages.last());
    digest.text()
}

/// What the answer counts for, or what came of it before it failed.
fn charged(mut answer: Answer, price: Option<&Price>, sent: usize, heard: u64) -> Answer {
    let sent = sent as u64;
    match &mut answer {
        Ok(reply) => reply.usage = price::count(reply.usage, price, Some((sent, &reply.message))),
        Err(error) if is_cut_off(error.kind) => {
            error.usage = price::count_cut(error.usage, price, sent, heard);
        }
        Err(error) => error.usage = price::count(error.usage, price, None),
    }
    answer
}

/// Whether an answer failed before its provider could say all that it counts.
fn is_cut_off(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::StreamTruncated
            | ErrorKind::IdleTimeout
            | ErrorKind::TotalTimeout
            | ErrorKind::MalformedStream
            | ErrorKind::Protocol
            | ErrorKind::OutputTooLarge
            | ErrorKind::Cancelled
    )
}

fn declarations(call: &ModelCall) -> ToolList {
    let declare = |tool: &tool::ToolSpec| ToolDeclaration {
        name: tool::model_name(tool.name).into_owned(),
        description: tool.summary.to_owned(),
        schema: tool::schema(tool),
    };
    let built_in = call.tools.iter().filter_map(|name| tool::find(name)).map(declare);
    let offered = call.offers.iter().map(|offer| ToolDeclaration {
        name: offer.name.clone(),
        description: offer.summary.clone(),
        schema: offer.schema.clone(),
    });
    built_in.chain(offered).collect()
}

/// How many bytes of a chunk are taken at a time, if possible up to the end of an event. What their texts are kept in is at
/// hand again for those that follow; it would not be for all of a large chunk at once.
fn few(chunk: &[u8]) -> usize {
    const FEW: usize = 1 << 10;
    let Some(first) = chunk.get(..FEW) else { return chunk.len() };
    let end = first.windows(2).rposition(|two| two == b"\n\n");
    end.map_or(chunk.len(), |end| end + 2)
}

/// What a chunk meant, after what was known of it. The beginning of an answer and its counters say nothing yet: many servers send them at
/// once and then think.
fn weigh(mut chunk: Chunk, events: &[StreamEvent], is_held_back: bool) -> Chunk {
    if chunk == Chunk::Last {
        return chunk;
    }
    for event in events {
        match event {
            StreamEvent::MessageStop => return Chunk::Last,
            StreamEvent::Ping if is_held_back && chunk == Chunk::Empty => chunk = Chunk::Busy,
            StreamEvent::Ping
            | StreamEvent::MessageStart { .. }
            | StreamEvent::MessageDelta { .. }
            // No provider sends these.
            | StreamEvent::ToolResult { .. }
            | StreamEvent::Error { .. }
            | StreamEvent::Interrupted { .. }
            | StreamEvent::Gap { .. } => {}
            StreamEvent::TextDelta { .. }
            | StreamEvent::ThinkingDelta { .. }
            | StreamEvent::ToolUseStart { .. }
            | StreamEvent::InputJsonDelta { .. }
            | StreamEvent::ToolUseStop { .. }
            | StreamEvent::Native { .. } => chunk = Chunk::Counted,
        }
    }
    chunk
}

/// What is left of an answer whose connection did not come to its end. One that was complete by then counts: some
/// servers never close.
fn cut(stream: Stream, error: &TransportError, events: &mut Vec<StreamEvent>) -> Answer {
    let usage = stream.usage();
    let (kind, may_be_whole) = match error {
        TransportError::Unusable(_) => (ErrorKind::Config, false),
        TransportError::Unreachable { .. } => (ErrorKind::Transport, false),
        TransportError::Broken { .. } => (ErrorKind::StreamTruncated, true),
        TransportError::Silent { .. } => (ErrorKind::IdleTimeout, true),
        TransportError::TooLong { .. } => (ErrorKind::TotalTimeout, true),
        TransportError::Cancelled => (ErrorKind::Cancelled, false),
    };
    if may_be_whole && let Ok(reply) = stream.close(events) {
        return Ok(reply);
    }
    let mut cut = ModelError::new(kind, error.to_string());
    cut.usage = usage;
    Err(cut)
}
