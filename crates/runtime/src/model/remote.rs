//! A call of a model over the network: the provider is looked up, the question translated, sent, and the answer
//! put together as it comes. One call is one request; whether to ask again is decided elsewhere.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use machine::message::{ModelCall, Reply};
use machine::tool;
use wire::model::assemble::Limits;
use wire::model::{
    Answer, ErrorKind, ModelError, ModelRequest, Stream, StreamEvent, ToolChoice, ToolDeclaration,
};

use super::Listener;
use crate::http::{self, Chunk, Finished, KeyHeader, TransportError};
use crate::process::Cancel;
use crate::providers::{Environment, KeyError, KeyState, Provider, Providers, Secret};

/// Reaches models over the network.
#[derive(Debug, Default)]
pub(super) struct Remote {
    environment: Environment,
    limits: http::Limits,
    /// What key commands gave, by command, until a provider refuses it: a command may ask a person.
    keys: Mutex<BTreeMap<Vec<String>, Secret>>,
}

impl Remote {
    pub(super) fn new(environment: Environment, limits: http::Limits) -> Remote {
        Remote { environment, limits, keys: Mutex::default() }
    }

    /// Asks `model` of a provider that is known in `folder`.
    pub(super) fn call(
        &self,
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
        let key = self.key(provider, cancel)?;
        let answer = self.ask(provider, key.as_ref(), model, call, cancel, hear);
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

    fn ask(
        &self,
        provider: &Provider,
        key: Option<&Secret>,
        model: &str,
        call: &ModelCall,
        cancel: &Cancel,
        hear: Listener<'_>,
    ) -> Answer {
        let dialect = provider.translation();
        let request = dialect.encode(&question(model, call));
        let url = format!("{}{}", provider.base_url, request.path);
        let (name, prefix) = dialect.key_header();
        let key = key.map(|key| KeyHeader { name, prefix, key });
        let mut stream = Stream::new(&*dialect, Limits::default()).for_model(model);
        let mut events = Vec::new();
        let mut take = |chunk: &[u8]| {
            events.clear();
            let pushed = stream.push(chunk, &mut events);
            hear(&events);
            match pushed {
                Ok(()) => weigh(&events),
                // The stream keeps its error and tells it at its end.
                Err(_) => Chunk::Last,
            }
        };
        let ended =
            http::post(&url, &request.headers, key, request.body, self.limits, cancel, &mut take);
        match ended {
            Ok(Finished { status: 200, .. }) => stream.finish(),
            Ok(Finished { status, headers, body }) => Err(dialect.failure(status, &headers, &body)),
            Err(error) => cut(stream, &error),
        }
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

/// The call as a dialect wants it.
fn question(model: &str, call: &ModelCall) -> ModelRequest {
    let declare = |tool: &tool::ToolSpec| ToolDeclaration {
        name: tool::model_name(tool.name).into_owned(),
        description: tool.summary.to_owned(),
        schema: tool::schema(tool),
    };
    ModelRequest {
        model: model.to_owned(),
        system: call.system.to_string(),
        messages: call.messages.to_vec(),
        tools: call.tools.iter().filter_map(|name| tool::find(name)).map(declare).collect(),
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
            | StreamEvent::MessageDelta { .. } => {}
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
fn cut(stream: Stream, error: &TransportError) -> Answer {
    let usage = stream.usage();
    let (kind, may_be_whole) = match error {
        TransportError::Unusable(_) => (ErrorKind::Config, false),
        TransportError::Unreachable { .. } => (ErrorKind::Transport, false),
        TransportError::Broken { .. } => (ErrorKind::StreamTruncated, true),
        TransportError::Silent { .. } => (ErrorKind::IdleTimeout, true),
        TransportError::TooLong { .. } => (ErrorKind::TotalTimeout, true),
        TransportError::Cancelled => (ErrorKind::Cancelled, false),
    };
    if may_be_whole && let Ok(reply) = stream.finish() {
        return Ok(reply);
    }
    let mut cut = ModelError::new(kind, error.to_string());
    cut.usage = usage;
    Err(cut)
}
