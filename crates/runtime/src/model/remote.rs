//! A call of a model over the network: the provider is looked up, the question translated, sent, and the answer
//! put together as it comes. One call is one request; whether to ask again is decided elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::message::{ModelCall, Reply};
use machine::tool;
use wire::model::assemble::Limits;
use wire::model::{
    Answer, Dialect, ErrorKind, HttpRequest, ModelError, ModelRequest, Stream, StreamEvent,
    ToolChoice, ToolDeclaration, Written,
};

use super::Listener;
use crate::http::{self, Chunk, Finished, KeyHeader, TransportError};
use crate::process::Cancel;
use crate::providers::{
    Environment, KeyError, KeyState, Provider, ProviderError, Providers, Secret,
};

/// How long what the files say of providers is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// The most bytes of conversations that are kept in wire form.
const MAX_WRITTEN: usize = 64 << 20;

/// Reaches models over the network.
#[derive(Debug, Default)]
pub(super) struct Remote {
    environment: Environment,
    limits: http::Limits,
    known: Mutex<Known>,
}

/// What is kept between calls. Each change is one insert or one removal.
#[derive(Debug, Default)]
struct Known {
    /// What key commands gave, by command, until a provider refuses it: a command may ask a person.
    keys: BTreeMap<Vec<String>, Secret>,
    /// The providers of a folder, and when they were read.
    providers: BTreeMap<PathBuf, (Instant, Arc<Providers>)>,
    /// Conversations in wire form, by task and model.
    written: BTreeMap<(String, String), Written>,
    /// Their size.
    size: usize,
}

impl Remote {
    pub(super) fn new(environment: Environment, limits: http::Limits) -> Remote {
        Remote { environment, limits, known: Mutex::default() }
    }

    /// Asks `model` of a provider that is known in `folder`. Whoever drops it stops it.
    pub(super) async fn call(
        &self,
        task: &str,
        call: ModelCall,
        folder: &Path,
        hear: Listener<'_>,
    ) -> Result<Reply, ModelError> {
        let config = |error: &dyn ToString| ModelError::new(ErrorKind::Config, error.to_string());
        let Some((provider, model)) = call.model.split_once('/') else {
            return Err(config(&format!("the model {:?}: expected PROVIDER/NAME", call.model)));
        };
        let providers = self.providers(folder).map_err(|error| config(&error))?;
        let provider = providers.find(provider).map_err(|error| config(&error))?;
        let key = self.key(provider).await?;
        let dialect = provider.translation();
        let request = self.encode(task, &*dialect, model, &call);
        let mut stream = Box::new(Stream::new(&*dialect, Limits::default()).for_model(model));
        // The conversation is the machine's alone by the time it is told: it adds to it without copying.
        drop(call);
        let answer = self.ask(provider, &*dialect, key.as_ref(), request, &mut stream, hear).await;
        let answer = match answer {
            Ok(Finished { status: 200, .. }) => stream.finish(),
            Ok(Finished { status, headers, body }) => Err(dialect.failure(status, &headers, &body)),
            Err(error) => cut(*stream, &error),
        };
        answer.map_err(|mut error| {
            if let Some(key) = &key {
                // Some servers quote the key that they refuse.
                error.message = key.hide(&error.message);
            }
            if error.kind == ErrorKind::Auth {
                self.lock().keys.remove(&provider.key_command);
            }
            error
        })
    }

    /// Forgets what was written of the task's conversations.
    pub(super) fn close(&self, task: &str) {
        let mut known = self.lock();
        let from = (task.to_owned(), String::new());
        while let Some(key) = known.written.range(from.clone()..).next().map(|(key, _)| key.clone())
            && key.0 == task
        {
            let gone = known.written.remove(&key).map_or(0, |written| written.size());
            known.size -= gone;
        }
    }

    async fn ask(
        &self,
        provider: &Provider,
        dialect: &dyn Dialect,
        key: Option<&Secret>,
        request: HttpRequest,
        stream: &mut Stream,
        hear: Listener<'_>,
    ) -> Result<Finished, TransportError> {
        let url = format!("{}{}", provider.base_url, request.path);
        let (name, prefix) = dialect.key_header();
        let key = key.map(|key| KeyHeader { name, prefix, key });
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
        http::exchange(&url, request, key, self.limits, &mut take).await
    }

    /// The request. What was written of the task's conversation before is not written again.
    fn encode(
        &self,
        task: &str,
        dialect: &dyn Dialect,
        model: &str,
        call: &ModelCall,
    ) -> HttpRequest {
        let question = question(model, call);
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

    fn providers(&self, folder: &Path) -> Result<Arc<Providers>, ProviderError> {
        if let Some((read, providers)) = self.lock().providers.get(folder)
            && read.elapsed() < BELIEVED
        {
            return Ok(Arc::clone(providers));
        }
        let providers = Arc::new(Providers::of(folder, &self.environment)?);
        let entry = (Instant::now(), Arc::clone(&providers));
        self.lock().providers.insert(folder.to_owned(), entry);
        Ok(providers)
    }

    async fn key(&self, provider: &Provider) -> Result<Option<Secret>, ModelError> {
        let from_command = provider.key_state(&self.environment) == KeyState::Command;
        if !from_command {
            return provider.key(&self.environment, &Cancel::new()).map_err(no_key);
        }
        if let Some(key) = self.lock().keys.get(&provider.key_command) {
            return Ok(Some(key.clone()));
        }
        // A command may take its time, and must end with the call that waits for it.
        let cancel = Cancel::new();
        let _stop = StopOnDrop(cancel.clone());
        let (asked, environment) = (provider.clone(), self.environment.clone());
        let run = tokio::task::spawn_blocking(move || asked.key(&environment, &cancel));
        let key = match run.await {
            Ok(key) => key.map_err(no_key)?,
            Err(error) => {
                let told = format!("the key command could not be run: {error}");
                return Err(ModelError::new(ErrorKind::Auth, told));
            }
        };
        if let Some(key) = &key {
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
        KeyError::Missing(_) => ErrorKind::Auth,
        KeyError::Cancelled => ErrorKind::Cancelled,
    };
    ModelError::new(kind, error.to_string())
}

/// The call as a dialect wants it.
fn question(model: &str, call: &ModelCall) -> ModelRequest {
    let declare = |tool: &tool::ToolSpec| ToolDeclaration {
        name: tool.name.to_owned(),
        description: tool.summary.to_owned(),
        schema: tool::schema(tool),
    };
    ModelRequest {
        model: model.to_owned(),
        system: call.system.to_string(),
        messages: Arc::clone(&call.messages),
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
