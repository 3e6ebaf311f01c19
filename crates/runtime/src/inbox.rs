//! Everything that is ready, as one batch, people first. Commands and signals of all tasks meet here; one
//! batch is one commit.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::Input;
use machine::id::{EffectId, TaskId};
use machine::stream::StreamEvent;
use tokio::sync::Notify;

use crate::live::{Feed, Streamed};
use crate::{network, redact};

/// Commands that may wait at once; beyond it a sender is told to come back.
const MAX_COMMANDS: usize = 4096;

/// One input on its way to a task.
#[derive(Debug)]
pub struct Delivery {
    /// The task.
    pub task: TaskId,
    /// What enters.
    pub input: Input,
    /// Who wants to know that it was journaled, and whether it was taken.
    pub reply: Option<Reply>,
}

/// Where the answer to a command goes: `Ok` once it is in the journal and was taken.
pub type Reply = SyncSender<Result<(), Refusal>>;

/// Why a command was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// This process does not drive the task; nothing was journaled.
    NotHere,
    /// It does not fit the task as it stands, for this reason.
    Rejected(String),
}

/// The queue between those who ask, those who perform, and the supervisor. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Inbox {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queues: Mutex<Queues>,
    ready: Condvar,
    /// The same, for a supervisor that drives the network while it waits.
    notified: Notify,
}

#[derive(Debug, Default)]
struct Queues {
    people: VecDeque<Delivery>,
    signals: VecDeque<Delivery>,
    stops: u32,
    streams: Vec<Streamed>,
    /// How often they were taken.
    taken: u64,
    /// Whether the supervisor waits; waking nobody costs a system call.
    waiting: bool,
    /// Whether it drives the network meanwhile.
    driving: bool,
}

/// Where the events of a line wait: the number, and how often all of them had been taken by then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    at: usize,
    taken: u64,
}

/// What `take` found.
#[derive(Debug, Default)]
pub struct Batch {
    /// Commands first, then signals, each in the order they came.
    pub deliveries: Vec<Delivery>,
    /// How often this process was asked to stop so far.
    pub stops: u32,
    /// What models said meanwhile.
    pub streams: Vec<Streamed>,
}

impl Inbox {
    /// Brings a command. Fails if too many wait.
    pub fn command(&self, task: TaskId, input: Input, reply: Option<Reply>) -> Result<(), String> {
        let mut queues = self.lock();
        if queues.people.len() >= MAX_COMMANDS {
            return Err(format!("{MAX_COMMANDS} commands wait already: try again later"));
        }
        queues.people.push_back(Delivery { task, input, reply });
        self.wake(queues);
        Ok(())
    }

    /// Brings an effect's report, without the secrets that this process knows. Never refused: there is at most one for
    /// each effect under way.
    pub fn signal(&self, task: TaskId, input: Input) {
        let input = redact::input(input);
        let mut queues = self.lock();
        queues.signals.push_back(Delivery { task, input, reply: None });
        self.wake(queues);
    }

    /// A line on which a call of a model tells what it is just saying.
    pub fn feed(&self, task: TaskId, effect: EffectId) -> Feed {
        Feed::new(self.clone(), task, effect)
    }

    /// Brings what came on a line. `place` is where its last events were put; they may have been taken since.
    pub(crate) fn stream(
        &self,
        place: &mut Option<Place>,
        begun: impl FnOnce() -> Streamed,
        events: impl Iterator<Item = StreamEvent>,
    ) {
        let mut queues = self.lock();
        let Queues { streams, taken, .. } = &mut *queues;
        let at = match place {
            Some(Place { at, taken: since }) if since == taken => *at,
            _ => {
                streams.push(begun());
                *place = Some(Place { at: streams.len() - 1, taken: *taken });
                streams.len() - 1
            }
        };
        events.for_each(|event| streams[at].add(event));
        self.wake(queues);
    }

    /// Asks the supervisor to let go of its tasks; a second time, to do so at once.
    pub fn stop(&self) {
        let mut queues = self.lock();
        queues.stops += 1;
        self.wake(queues);
    }

    /// Waits at most `patience` (for ever if `None`) until something is there, and takes all of it.
    pub fn take(&self, patience: Option<Duration>, seen_stops: u32) -> Batch {
        let mut queues = self.lock();
        let empty = |q: &mut Queues| {
            q.people.is_empty()
                && q.signals.is_empty()
                && q.streams.is_empty()
                && q.stops == seen_stops
        };
        if !empty(&mut queues) {
            // Whoever is always busy must not starve the network.
            drop(queues);
            network::glance();
            queues = self.lock();
        }
        let deadline = patience.map(|patience| Instant::now() + patience);
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        while empty(&mut queues) && left() != Some(Duration::ZERO) {
            (queues.waiting, queues.driving) = (true, true);
            drop(queues);
            let drove = network::idle(&self.shared.notified, left());
            queues = self.lock();
            (queues.waiting, queues.driving) = (false, false);
            if !drove {
                break;
            }
        }
        if empty(&mut queues) {
            queues.waiting = true;
            queues = match patience {
                None => self
                    .shared
                    .ready
                    .wait_while(queues, empty)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    self.shared
                        .ready
                        .wait_timeout_while(queues, patience, empty)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
            queues.waiting = false;
        }
        let mut deliveries: Vec<Delivery> =
            Vec::with_capacity(queues.people.len() + queues.signals.len());
        deliveries.extend(queues.people.drain(..));
        deliveries.extend(queues.signals.drain(..));
        let streams = std::mem::take(&mut queues.streams);
        queues.taken += 1;
        Batch { deliveries, stops: queues.stops, streams }
    }

    fn wake(&self, queues: MutexGuard<'_, Queues>) {
        let (waiting, driving) = (queues.waiting, queues.driving);
        drop(queues);
        if driving {
            self.shared.notified.notify_one();
        } else if waiting {
            self.shared.ready.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        // A panic elsewhere leaves the queues whole: each change is one push or one drain.
        self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
