//! Calls of models. Those of remote ones are many and idle: they wait on the network's loop, none holds a thread.

use std::path::Path;
use std::sync::Arc;

use machine::id::{EffectId, TaskId};
use machine::input::{Input, Signal};
use machine::message::{ModelCall, ModelFailure, Retry, Usage};
use tokio::sync::Notify;

use super::World;
use super::running::{Ending, Stop};
use crate::inbox::Inbox;
use crate::model::Models;
use crate::network;

impl World {
    pub(super) fn call_model(
        &mut self,
        task: &TaskId,
        id: EffectId,
        call: ModelCall,
        folder: String,
    ) {
        if Models::is_remote(&call.model) {
            return self.call_remote_model(task, id, call, folder);
        }
        let (name, models) = (task.clone(), Arc::clone(&self.models));
        let mut feed = self.inbox.feed(task.clone(), id);
        self.spawn(
            task,
            id,
            move |cancel| {
                let folder = Path::new(&folder);
                let mut hear = |events: &mut Vec<_>| feed.push(events);
                let reply = models.call(name.as_str(), &call, folder, cancel, &mut hear);
                Signal::ModelReplied(id, Box::new(reply)).into()
            },
            move |message| no_reply(id, message),
        );
    }

    fn call_remote_model(&mut self, task: &TaskId, id: EffectId, call: ModelCall, folder: String) {
        let (inbox, models) = (self.inbox.clone(), Arc::clone(&self.models));
        let mut feed = inbox.feed(task.clone(), id);
        let stop = Arc::new(Notify::new());
        let guard = self.running.begin(task, id, Stop::Call(Arc::clone(&stop)));
        let spawned = network::spawn(async move {
            let task = guard.task().clone();
            let report = Report { inbox, guard: Some(guard) };
            let mut hear = |events: &mut Vec<_>| feed.push(events);
            let (folder, stopped) = (Path::new(&folder), stop.notified());
            let reply = models.ask(task.as_str(), call, folder, stopped, &mut hear).await;
            report.send(Signal::ModelReplied(id, Box::new(reply)).into());
        });
        if let Err(reason) = spawned {
            self.inbox.signal(task.clone(), no_reply(id, reason));
        }
    }
}

/// Reports a model call. One that panicked says so, so that nothing waits for ever.
#[derive(Debug)]
struct Report {
    inbox: Inbox,
    guard: Option<Ending>,
}

impl Report {
    fn send(mut self, input: Input) {
        if let Some(guard) = self.guard.take() {
            self.inbox.signal(guard.task().clone(), input);
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take()
            && std::thread::panicking()
        {
            let panicked = no_reply(guard.effect(), "the performer panicked".to_owned());
            self.inbox.signal(guard.task().clone(), panicked);
        }
    }
}

fn no_reply(id: EffectId, message: String) -> Input {
    let failure = ModelFailure {
        kind: "internal".to_owned(),
        retry: Retry::Never,
        message,
        usage: Usage::default(),
    };
    Signal::ModelReplied(id, Box::new(Err(failure))).into()
}
