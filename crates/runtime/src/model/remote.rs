//! A call of a model over the network: the provider is looked up, the question translated, sent, and the answer
//! put together as it comes. One call is one request; whether to ask again is decided elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use machine::message::{ModelCall, Reply};
use machine::policy::price::Price;
use machine::tool;
use wire::model::assemble::Limits;
use wire::model::constrained::{Choices, constrain};
use wire::model::recording::{Cover, Question};
use wire::model::{
    Answer, Dialect, ErrorKind, HttpRequest, ModelError, ModelRequest, Stream, StreamEvent,
    ToolChoice, ToolDeclaration,
};

use super::answers::{Answers, Asked};
use super::endpoints::{Admission, Endpoints};
use super::recording::Tape;
use super::{Listener, Recording, Traffic, file};
use crate::http::{self, Chunk, Finished, KeyHeader, TransportError};
use crate::process::Cancel;
use crate::providers::{Decisions, Environment, KeyError, KeyState, Provider, Providers, Secret};

/// Reaches models over the network.
#[derive(Debug, Default)]
pub(super) struct Remote {
    environment: Environment,
    limits: http::Limits,
    /// What key commands gave, by command, until a provider refuses it: a command may ask a person.
    keys: Mutex<BTreeMap<Vec<String>, Secret>>,
    traffic: Traffic,
    answers: Answers,
    endpoints: Endpoints,
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

    /// Forgets the answer of a task that has ended.
    pub(super) fn finished(&self, task: &str) {
        self.answers.forget(task);
    }

    /// Asks `model` of a provider that is known in `folder`.
    pub(super) fn call(
        &self,
        task: &str,
        provider: &str,
        model: &str,
        call: &ModelCall,
        folder: &Path,
        cancel: &Cancel,
        hear: Listener<'_>,
    ) -> Result<Reply, ModelError> {
        let config = |error: &dyn ToString| ModelError::new(ErrorKind::Config, error.to_string());
        let providers = Providers::of(folder, &self.environment).map_err(|error| config(&error))?;
        let provider = providers.find(provider).map_err(|error| config(&error))?;
        let dialect = provider.translation();
        let facts = providers.facts(&call.model);
        let (question, choices) = match facts.decisions.unwrap_or(provider.decisions) {
            Decisions::Native => (question(model, call), None),
            Decisions::Constrained => {
                let (question, choices) = constrain(question(model, call));
                (question, Some(choices))
            }
        };
        let request = dialect.encode(&question);
        let reader = Reader { choices, ..Reader::new(&*dialect, model, hear) };
        let known = providers.keys(&self.environment);
        let price = facts.price;
        if let Traffic::Replay(recording) = &self.traffic {
            let cover = Cover::new(known.iter().map(Secret::reveal));
            let question = recorded(provider, &request, &cover);
            return charged(replay(recording, task, &question, reader), price.as_ref());
        }
        let sent = file::digest(&[request.path.as_bytes(), b"\n", &request.body].concat());
        let asked = Asked { task, question: call.question, request: &sent };
        if let Some(reply) = self.answers.find(asked) {
            return Ok(reply);
        }
        let admission = self.endpoints.admit(&provider.base_url)?;
        let key = self.key(provider, cancel)?;
        let cover = Cover::new(known.iter().chain(&key).map(Secret::reveal));
        let (answer, recorded) =
            self.ask(provider, key.as_ref(), request, cancel, &cover, &admission, reader);
        admission.ended(&answer);
        let answer = charged(answer, price.as_ref());
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
            if error.kind == ErrorKind::Auth {
                self.lock().remove(&provider.key_command);
            }
            error
        })
    }

    /// The answer, and whether the exchange was recorded if it had to be.
    fn ask(
        &self,
        provider: &Provider,
        key: Option<&Secret>,
        request: HttpRequest,
        cancel: &Cancel,
        cover: &Cover,
        admission: &Admission<'_>,
        mut reader: Reader<'_>,
    ) -> (Answer, Result<(), String>) {
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
            if meant != Chunk::Empty {
                admission.began();
            }
            meant
        };
        let ended =
            http::post(&url, &request.headers, key, request.body, self.limits, cancel, &mut take);
        let written = match record {
            Some((recorder, question, tape)) => recorder.write(question, tape, &ended, cover),
            None => Ok(()),
        };
        (reader.end(ended), written)
    }

    fn key(&self, provider: &Provider, cancel: &Cancel) -> Result<Option<Secret>, ModelError> {
        let from_command = provider.key_state(&self.environment) == KeyState::Command;
        if from_command && let Some(key) = self.lock().get(&provider.key_command) {
            return Ok(Some(key.clone()));
        }
        let key = provider.key(&self.environment, cancel).map_err(|error| {
            let kind = match error {
                KeyError::Missing(_) => ErrorKind::Auth,
                KeyError::Cancelled => ErrorKind::Cancelled,
            };
            ModelError::new(kind, error.to_string())
        })?;
        if from_command && let Some(key) = &key {
            self.lock().insert(provider.key_command.clone(), key.clone());
        }
        Ok(key)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Secret>> {
        // Each change is one insert or one remove.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts an answer together as its bytes come.
struct Reader<'a> {
    dialect: &'a dyn Dialect,
    stream: Stream,
    events: Vec<StreamEvent>,
    /// What the answer may be, if it is bound to a schema.
    choices: Option<Choices>,
    hear: Listener<'a>,
}

impl<'a> Reader<'a> {
    fn new(dialect: &'a dyn Dialect, model: &str, hear: Listener<'a>) -> Reader<'a> {
        let stream = Stream::new(dialect, Limits::default()).for_model(model);
        Reader { dialect, stream, events: Vec::new(), choices: None, hear }
    }

    fn take(&mut self, chunk: &[u8]) -> Chunk {
        let chunk = match self.stream.push(chunk, &mut self.events) {
            Ok(()) => weigh(&self.events),
            // The stream keeps its error and tells it at its end.
            Err(_) => Chunk::Last,
        };
        self.tell();
        chunk
    }

    /// Half a decision is nothing to read.
    fn tell(&mut self) {
        if self.choices.is_some() {
            self.events.retain(|event| !matches!(event, StreamEvent::TextDelta { .. }));
        }
        (self.hear)(&mut self.events);
        self.events.clear();
    }

    fn end(mut self, ended: Result<Finished, TransportError>) -> Answer {
        let stream = self.stream;
        let answer = match ended {
            Ok(Finished { status: 200, .. }) => stream.close(&mut self.events),
            Ok(Finished { status, headers, body }) => {
                Err(self.dialect.failure(status, &headers, &body))
            }
            Err(error) => cut(stream, &error, &mut self.events),
        };
        if self.choices.is_some() {
            self.events.retain(|event| !matches!(event, StreamEvent::TextDelta { .. }));
        }
        (self.hear)(&mut self.events);
        match self.choices {
            Some(choices) => answer.and_then(|reply| choices.interpret(reply)),
            None => answer,
        }
    }
}

/// The request as a recording has it.
fn recorded(provider: &Provider, request: &HttpRequest, cover: &Cover) -> Question {
    // A body that is no JSON does not happen; as a text it is still told apart from others.
    let body = serde_json::from_slice(&request.body)
        .unwrap_or_else(|_| String::from_utf8_lossy(&request.body).into());
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
) -> Answer {
    let ended = recording.answer(task, question, &mut |chunk| reader.take(chunk));
    reader.end(ended.map_err(|reason| ModelError::new(ErrorKind::ReplayMissing, reason))?)
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

/// What the answer cost, or what came of it before it failed.
fn charged(mut answer: Answer, price: Option<&Price>) -> Answer {
    let usage = match &mut answer {
        Ok(reply) => &mut reply.usage,
        Err(error) => &mut error.usage,
    };
    usage.nanodollars = price.and_then(|price| price.cost(usage));
    answer
}

/// The call as a dialect wants it.
fn question(model: &str, call: &ModelCall) -> ModelRequest {
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
    ModelRequest {
        model: model.to_owned(),
        system: call.system.to_string(),
        messages: call.messages.to_vec(),
        tools: built_in.chain(offered).collect(),
        tool_choice: ToolChoice::Auto,
        max_tokens: None,
        temperature: None,
        effort: None,
        output_schema: None,
        cache: true,
    }
}

/// What a chunk meant. The beginning of an answer and its counters say nothing yet: many servers send them at
/// once and then think.
fn weigh(events: &[StreamEvent]) -> Chunk {
    let mut chunk = Chunk::Empty;
    for event in events {
        match event {
            StreamEvent::MessageStop => return Chunk::Last,
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
