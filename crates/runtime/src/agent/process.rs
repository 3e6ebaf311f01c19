//! One agent's process: a reader and a writer of its own from the start to the end, a codec between bytes and events,
//! and at most one turn that hears what is said. Nobody but the writer waits for the process to read.

mod gone;
mod hearing;
mod launch;
mod listener;
mod orders;
mod pipe;
mod serve;

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::agent::{
    AgentCall, AgentEnd, AgentFault, AgentOrder, AgentProgram, AgentTurn, FailedOrder,
};

use super::behind::Behind;
use super::client::Client;
use super::login::Lent;
use super::{Turn, lock};
use crate::inbox::{Inbox, Watch};
use crate::model::Traffic;
use crate::process::{Cancel, Child};
use gone::Gone;
use hearing::Hearing;
use listener::Listener;
use orders::Obeyed;
use pipe::Link;

/// How long an agent may be silent at work, if its file does not say.
const IDLE: Duration = Duration::from_secs(600);
/// How long a turn that was stopped may take to end before its process is ended.
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);
/// How long a process may take to end by itself once its input is closed.
const END_GRACE: Duration = Duration::from_secs(2);
/// The same for one that writes the end of its conversation down only then.
const WRITING_GRACE: Duration = Duration::from_secs(5);
/// How often a turn looks whether somebody stopped it, and after what is held back.
const GLANCE: Duration = Duration::from_millis(200);
/// Longer than a look can be late on a busy machine: this process did not run meanwhile. It was stopped, by Ctrl-Z or by
/// its machine.
const ABSENT: Duration = Duration::from_secs(2);
/// What all agents of a runtime have in common.
#[derive(Debug)]
pub(super) struct Setting {
    /// The folder of this program's own state.
    pub(super) state: PathBuf,
    /// Where processes are noted.
    pub(super) marks: Option<PathBuf>,
    /// Whether what passes a gateway is written down.
    pub(super) traffic: Traffic,
}

/// Why there is no process to be asked.
#[derive(Debug)]
pub(super) enum NotStarted {
    /// It said so itself, in a way that has a name.
    Ended(AgentTurn),
    /// For a person.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Process {
    program: Arc<AgentProgram>,
    /// The model that it asks, if it was told which.
    model: Mutex<Option<String>>,
    conversation: u32,
    link: Mutex<Link>,
    /// How many bytes wait for it to read them.
    unread: Arc<AtomicUsize>,
    child: Mutex<Child>,
    /// The operator's login, if it works with that.
    lent: Option<Lent>,
    /// The gateway to its models; after the process itself, which is gone first.
    behind: Option<Behind>,
    /// What it has us do for it.
    client: Arc<Client>,
    hearing: Mutex<Hearing>,
    /// It is ready, its turn has ended, or it is gone.
    news: Condvar,
}

impl Process {
    fn wait<'a>(&self, hearing: MutexGuard<'a, Hearing>) -> MutexGuard<'a, Hearing> {
        self.news.wait_timeout(hearing, GLANCE).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Whether this process can be asked for the turn, as far as can be known without telling it anything.
    pub(super) fn can_go_on(&self, call: &AgentCall) -> bool {
        self.is_alive()
            && self.conversation == call.conversation
            && self.program.is_but_for_model(&call.program)
    }

    pub(super) fn is_alive(&self) -> bool {
        lock(&self.hearing).gone.is_none()
    }

    /// Gives the orders that come before a turn, asks for it and waits for its end. None if only another process can be asked.
    pub(super) fn turn(
        &self,
        turn: &Turn,
        inbox: &Inbox,
        cancel: &Cancel,
    ) -> Option<Result<AgentTurn, String>> {
        self.open(turn, inbox);
        let ended = match self.obey(turn, inbox, cancel) {
            Obeyed::Ready => Some(self.ask(turn, inbox, cancel)),
            Obeyed::Ended(ended) => Some(Ok(ended)),
            Obeyed::Refused => None,
        };
        self.close();
        self.lent.iter().for_each(Lent::give_back);
        ended
    }

    /// What it asks of us and of its models is of this turn from here on.
    fn open(&self, turn: &Turn, inbox: &Inbox) {
        self.client.open(turn, inbox);
        if let Some(behind) = &self.behind {
            behind.open(turn, inbox);
        }
    }

    fn close(&self) {
        if let Some(behind) = &self.behind {
            behind.close();
        }
        lock(&self.hearing).close();
        self.client.close();
    }

    fn ask(&self, turn: &Turn, inbox: &Inbox, cancel: &Cancel) -> Result<AgentTurn, String> {
        lock(&self.hearing).begin(Listener::new(turn, inbox));
        let order = AgentOrder::Prompt { text: turn.call.prompt.clone() };
        match self.write(|codec| codec.order(order)) {
            Ok(()) => Ok(self.await_end(&inbox.watch(), cancel)),
            Err(reason) => Err(self.report(&reason)),
        }
    }

    fn await_end(&self, held: &Watch<'_>, cancel: &Cancel) -> AgentTurn {
        let idle = self.program.idle.map_or(IDLE, |span| Duration::from_millis(span.0));
        let mut stopped: Option<Instant> = None;
        let mut looked = Instant::now();
        loop {
            let mut hearing = lock(&self.hearing);
            if absent(&mut looked).is_some() {
                // Nobody could have heard it.
                hearing.heard = looked;
                stopped = stopped.map(|_| looked);
            }
            if let Some(ended) = hearing.ended.take() {
                // From here on nothing is told to it: it would begin a turn of its own.
                hearing.close();
                return ended;
            }
            if let Some(gone) = hearing.gone.clone() {
                drop(hearing);
                return self.broken(&gone);
            }
            // Its time does not run while it waits for us.
            let waits = !hearing.owed.is_empty() || self.behind.as_ref().is_some_and(Behind::waits);
            let heard = self.behind.as_ref().map_or(hearing.heard, |behind| {
                // What its model says to it is a sign of life too.
                hearing.heard.max(behind.heard())
            });
            let silent = if waits { Duration::ZERO } else { heard.elapsed() };
            let is_late = stopped.is_some_and(|at| at.elapsed() >= INTERRUPT_GRACE);
            if is_late || silent >= idle {
                let why = match stopped {
                    Some(_) => "it was stopped, and did not end by itself".to_owned(),
                    None => hearing.silent_for(idle),
                };
                // Before it is killed: how it ended then is not why.
                let gone = Gone::new(AgentFault::Timeout, why);
                let gone = hearing.gone.get_or_insert(gone).clone();
                drop(hearing);
                lock(&self.child).kill();
                return self.broken(&gone);
            }
            if stopped.is_none() && cancel.is_triggered() {
                drop(hearing);
                stopped = Some(Instant::now());
                let _ = self.write(|codec| codec.order(AgentOrder::Interrupt));
                self.stop_serving();
                continue;
            }
            drop(self.wait(hearing));
            held.look();
        }
    }

    /// Tells it something in the middle of a turn. Words that it did not get are given back; whoever waited for an answer
    /// and is gone is found to be gone by its reader.
    pub(super) fn tell(self: &Arc<Self>, order: AgentOrder) -> Result<(), FailedOrder> {
        let Some(order) = self.serve_if_agreed(order) else { return Ok(()) };
        let words = match &order {
            AgentOrder::Answer { key, .. } | AgentOrder::ToolResult { key, .. } => {
                let mut hearing = lock(&self.hearing);
                hearing.owed.remove(key);
                hearing.heard = Instant::now();
                None
            }
            AgentOrder::Steer { text } => Some(text.clone()),
            _ => None,
        };
        let Some(words) = words else {
            let _ = self.write(|codec| codec.order(order));
            return Ok(());
        };
        if lock(&self.hearing).is_over() {
            return Err(FailedOrder::turn_ended(words));
        }
        let told = self.write(|codec| codec.order(order));
        told.map_err(|reason| FailedOrder::unheard(words, reason))
    }

    /// Says whether a request to a model may be sent.
    pub(super) fn let_ask(&self, request: u64, may: Result<(), String>) {
        if let Some(behind) = &self.behind {
            lock(&self.hearing).heard = Instant::now();
            behind.answer(request, may);
        }
    }

    /// The folder that it works in is gone, and so is it.
    pub(super) fn lose_folder(&self) -> AgentTurn {
        let gone =
            Gone::new(AgentFault::Workspace, "the folder that it works in is gone, or empty");
        lock(&self.hearing).gone.get_or_insert_with(|| gone.clone());
        lock(&self.child).kill();
        self.broken(&gone)
    }

    /// Lets it end by itself, then ends it.
    pub(super) fn finish(&self) {
        self.end_within(END_GRACE);
    }

    /// The same after a turn that was not stopped: what was said last is to be in its conversation.
    pub(super) fn put_down(&self) {
        let writes = self.program.protocol.writes_at_its_end();
        self.end_within(if writes { WRITING_GRACE } else { END_GRACE });
    }

    fn end_within(&self, grace: Duration) {
        lock(&self.link).out = None;
        let mut child = lock(&self.child);
        if child.wait(grace).is_none() {
            child.kill();
        }
        self.lent.iter().for_each(Lent::take_back);
    }

    /// The end of a turn whose process is gone, or never got as far as one.
    fn broken(&self, gone: &Gone) -> AgentTurn {
        AgentTurn::empty(AgentEnd::Broken(gone.fault), self.report(&gone.why))
    }

    /// A failure with what may explain it.
    fn report(&self, why: &str) -> String {
        let mut report = why.to_owned();
        let malformed = lock(&self.hearing).malformed;
        if malformed > 0 {
            report.push_str(&format!(" ({malformed} of its lines were not understood)"));
        }
        report.push_str(&lock(&self.child).complaint());
        report
    }
}

/// How long this process did not run since the last look, if it was stopped.
fn absent(looked: &mut Instant) -> Option<Duration> {
    let passed = looked.elapsed();
    *looked += passed;
    (passed >= ABSENT).then_some(passed)
}
