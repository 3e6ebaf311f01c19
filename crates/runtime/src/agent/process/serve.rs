//! What the process has us do for it: performed on a thread of its own once it may be, so that neither the loop nor the
//! reader waits, and answered on its pipe.

use std::sync::Arc;
use std::time::Instant;

use machine::agent::client::ClientWork;
use machine::agent::{AgentOrder, ClientRequest};

use super::super::lock;
use super::Process;

impl Process {
    /// A yes to something that we are to do is followed by doing it; any other order is given back.
    pub(super) fn serve_if_agreed(self: &Arc<Self>, order: AgentOrder) -> Option<AgentOrder> {
        let AgentOrder::Answer { key, may } = &order else { return Some(order) };
        let mut hearing = lock(&self.hearing);
        let Some(request) = hearing.wanted.remove(key) else { return Some(order) };
        if may.is_err() {
            return Some(order);
        }
        hearing.owed.remove(key);
        hearing.heard = Instant::now();
        drop(hearing);
        self.serve(request);
        None
    }

    /// Does what may be done. Whoever waits for it is answered, unless the turn is over.
    pub(super) fn serve(self: &Arc<Self>, request: ClientRequest) {
        let Some(begun) = self.client.begin() else { return };
        let process = Arc::clone(self);
        let ClientRequest { key, work, ask } = request;
        let refused = key.clone();
        let spawned =
            std::thread::Builder::new().name("for an agent".to_owned()).spawn(move || {
                let started = match &work {
                    ClientWork::RunCommand { terminal, .. } => Some(terminal.clone()),
                    _ => None,
                };
                let heard = Arc::downgrade(&process);
                let alive = move || {
                    if let Some(process) = heard.upgrade() {
                        lock(&process.hearing).heard = Instant::now();
                    }
                };
                let done = begun.perform(work, ask.as_ref().map(|ask| &ask.id), alive);
                let told = process.write(|codec| codec.served(&key, done));
                // Nobody will ever name a command whose start nobody heard of.
                if let (Err(_), Some(terminal)) = (told, started) {
                    let _ = begun.perform(ClientWork::Release { terminal }, None, || {});
                }
            });
        if let Err(error) = spawned {
            let may = Err(format!("no thread can be started: {error}"));
            let _ = self.write(|codec| codec.order(AgentOrder::Answer { key: refused, may }));
        }
    }

    /// The turn is to end: what waits for a yes is not done any more, and commands are ended.
    pub(super) fn stop_serving(&self) {
        lock(&self.hearing).wanted.clear();
        self.client.stop();
    }
}
