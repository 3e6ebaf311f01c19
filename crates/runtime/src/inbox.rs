//! Everything that is ready, as one batch, people first. Commands and signals of all tasks meet here; one
//! batch is one commit. What nobody waits for is held back for a moment, so that it goes with what comes next.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::agent::AgentNews;
use machine::id::{EffectId, TaskId};
use machine::stream::StreamEvent;
use machine::{Input, Signal};
use tokio::sync::Notify;

use crate::live::{Feed, PICTURE, Streamed};
use crate::room::Room;
use crate::{network, redact};

/// Commands that may wait at once; beyond it a sender is told to come back.
const MAX_COMMANDS: usize = 4096;

/// How long what nobody waits for may be held back, where nobody looks after it: whoever looks on does not notice, and what
/// a process that is killed would have written down is not much.
const HELD_FOR: Duration = Duration::from_millis(50);

/// What is due within this time counts as due for whoever looks now and then.
const SOON: Duration = Duration::from_millis(30);

/// How many such inputs wait at most: what is held is in memory only.
const MAX_HELD: usize = 64;

/// How many pieces of what is just being said wait at most, so that there is room for all of them.
const MAX_PIECES: usize = 256;

/// One input on its way to a task.
#[derive(Debug)]
pub struct Delivery {
    /// The task.
    pub task: TaskId,
    /// What enters.
    pub input: Input,
    /// Who wants to know that it was journaled, and whether it was taken.
    pub reply: Option<Reply>,
    /// It as the journal keeps it, where somebody has made that already.
    pub(crate) body: Option<Vec<u8>>,
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
#[derive(Debug, Clone)]
pub struct Inbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    held_for: Duration,
    /// Whether somebody follows what is just being said.
    followed: AtomicBool,
    queues: Mutex<Queues>,
    ready: Condvar,
    /// The same, for a supervisor that drives the network while it waits.
    notified: Notify,
}

#[derive(Debug, Default)]
struct Queues {
    /// What nobody waits for. It came before everything in the other two: nothing is held once one of them has
    /// something.
    held: Vec<Delivery>,
    /// When the oldest of them has been held back for long enough.
    held_until: Option<Instant>,
    people: VecDeque<Delivery>,
    signals: VecDeque<Delivery>,
    stops: u32,
    /// Why the first stop was asked for, if it was not by a signal.
    left: Option<&'static str>,
    streams: Vec<Streamed>,
    /// How many pieces of texts came for them, and until when they may wait.
    pieces: usize,
    told_until: Option<Instant>,
    /// Whether something else came for them, such as the beginning of an answer.
    is_news: bool,
    room: Vec<Room>,
    /// How often they were taken.
    taken: u64,
    /// Whether the supervisor waits; waking nobody costs a system call.
    waiting: bool,
    /// Whether it drives the network meanwhile.
    driving: bool,
    /// How many look after what is held.
    watches: usize,
    /// The tasks that this process drives, or is just taking up.
    driven: BTreeSet<TaskId>,
}

/// Somebody who is awake now and then in any case and looks after what is held, so that the supervisor need not be woken
/// only to learn how long it may sleep.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    inbox: &'a Inbox,
}

impl Watch<'_> {
    /// Has the supervisor take what has been held back for long enough.
    pub(crate) fn look(&self) {
        let mut queues = self.inbox.lock();
        let soon = Instant::now() + SOON;
        if let Some(until) = &mut queues.held_until
            && *until <= soon
        {
            *until = Instant::now();
            self.inbox.wake(queues);
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut queues = self.inbox.lock();
        queues.watches -= 1;
        // The supervisor learns how long it may sleep.
        if !queues.held.is_empty() {
            self.inbox.wake(queues);
        }
    }
}

/// A line on which a call or a turn tells what it is just saying.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Where its last events were put; they may have been taken since.
    place: Option<Place>,
    /// Whether words of its answer have come.
    has_spoken: bool,
}

/// Where the events of a line wait: the number, and how often all of them had been taken by then.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    taken: u64,
}

/// What `take` found.
#[derive(Debug, Default)]
pub struct Batch {
    /// What was held back, then commands, then signals, each in the order they came.
    pub deliveries: Vec<Delivery>,
    /// How often this process was asked to stop so far.
    pub stops: u32,
    /// What models said meanwhile.
    pub streams: Vec<Streamed>,
    /// What waits for room on the disk, or does not any more.
    pub room: Vec<Room>,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::holding(HELD_FOR)
    }
}

impl Inbox {
    /// One that holds back for so long what nobody waits for.
    fn holding(held_for: Duration) -> Inbox {
        let (queues, ready, notified) = (Mutex::default(), Condvar::new(), Notify::new());
        let followed = AtomicBool::new(false);
        Inbox { shared: Arc::new(Shared { held_for, followed, queues, ready, notified }) }
    }

    /// Brings a command. Fails if too many wait.
    pub fn command(&self, task: TaskId, input: Input, reply: Option<Reply>) -> Result<(), String> {
        let mut queues = self.lock();
        if queues.people.len() >= MAX_COMMANDS {
            return Err(format!("{MAX_COMMANDS} commands wait already: try again later"));
        }
        queues.people.push_back(Delivery { task, input, reply, body: None });
        self.wake(queues);
        Ok(())
    }

    /// Brings an effect's report, without the secrets that this process knows. Never refused: there is at most one for
    /// each effect under way.
    pub fn signal(&self, task: TaskId, input: Input) {
        let (input, body) = redact::input(input);
        let mut queues = self.lock();
        queues.signals.push_back(Delivery { task, input, reply: None, body });
        self.wake(queues);
    }

    /// The same for a report that nothing follows from at once: it is taken with what comes next, and after a moment in any
    /// case. What is brought later is never taken before it.
    pub fn hold(&self, task: TaskId, input: Input) {
        let (input, body) = redact::input(input);
        let mut queues = self.lock();
        let delivery = Delivery { task, input, reply: None, body };
        if !queues.people.is_empty() || !queues.signals.is_empty() {
            // The supervisor is on its way.
            queues.signals.push_back(delivery);
            return;
        }
        queues.held.push(delivery);
        let held_for = self.shared.held_for;
        queues.held_until.get_or_insert_with(|| Instant::now() + held_for);
        // The supervisor learns of the first one, so that it knows how long it may sleep, unless somebody will tell it.
        let is_news = queues.held.len() == 1 && queues.watches == 0;
        if is_news || queues.held.len() >= MAX_HELD {
            self.wake(queues);
        }
    }

    /// Looks after what is held, as long as this is kept; whoever keeps it must look often.
    pub(crate) fn watch(&self) -> Watch<'_> {
        self.lock().watches += 1;
        Watch { inbox: self }
    }

    /// Brings what an agent says in a turn; what nothing follows from is held.
    pub fn news(&self, task: TaskId, turn: EffectId, news: AgentNews) {
        let can_wait = news.can_wait();
        let input = Signal::AgentSaid(turn, news).into();
        if can_wait { self.hold(task, input) } else { self.signal(task, input) }
    }

    /// A line on which a call of a model, or an agent's turn, tells what it is just saying.
    pub fn feed(&self, task: TaskId, effect: EffectId) -> Feed {
        Feed::new(self.clone(), task, effect)
    }

    /// Says that somebody follows what is just being said: it is brought from now on.
    pub fn follow(&self) {
        self.shared.followed.store(true, Ordering::Relaxed);
    }

    /// Whether somebody does. Nobody is woken for what nobody would hear.
    pub(crate) fn is_followed(&self) -> bool {
        self.shared.followed.load(Ordering::Relaxed)
    }

    /// Brings what came on a line.
    pub(crate) fn stream(
        &self,
        line: &mut Line,
        begun: impl FnOnce() -> Streamed,
        events: impl Iterator<Item = StreamEvent>,
    ) {
        let mut queues = self.lock();
        let Queues { streams, taken, pieces, is_news, .. } = &mut *queues;
        let at = match &line.place {
            Some(Place { at, taken: since }) if since == taken => *at,
            _ => {
                streams.push(begun());
                line.place = Some(Place { at: streams.len() - 1, taken: *taken });
                streams.len() - 1
            }
        };
        let before = *pieces;
        events.for_each(|event| {
            // Whatever others say, neither the beginning of an answer nor its first words wait.
            let is_delta = event.is_delta();
            *is_news |= !is_delta || !line.has_spoken;
            *pieces += usize::from(is_delta);
            let begins = matches!(event, StreamEvent::MessageStart { .. });
            line.has_spoken = is_delta || (line.has_spoken && !begins);
            streams[at].add(event);
        });
        // Of what may wait the supervisor learns once, so that it knows how long it may sleep.
        if before == 0 || queues.must_be_told() {
            self.wake(queues);
        }
    }

    /// Says that something waits for room on the disk, or does not any more.
    pub(crate) fn room(&self, room: Room) {
        let mut queues = self.lock();
        queues.room.push(room);
        self.wake(queues);
    }

    /// Says that a task is being taken up here. Until its record says so too, nobody else can know.
    pub(crate) fn take_up(&self, task: &TaskId) {
        self.lock().driven.insert(task.clone());
    }

    /// Says that a task is not driven here any more.
    pub(crate) fn let_go(&self, task: &TaskId) {
        self.lock().driven.remove(task);
    }

    /// Whether a task was taken up here and not let go of.
    pub(crate) fn drives(&self, task: &TaskId) -> bool {
        self.lock().driven.contains(task)
    }

    /// Takes what effects of one task have reported, and nothing else.
    pub(crate) fn reports_of(&self, task: &TaskId) -> Vec<Delivery> {
        let mut queues = self.lock();
        let is_its = |delivery: &mut Delivery| delivery.task == *task;
        let mut reports: Vec<Delivery> = queues.held.extract_if(.., is_its).collect();
        if queues.held.is_empty() {
            queues.held_until = None;
        }
        let (its, others) = queues.signals.drain(..).partition(|delivery| delivery.task == *task);
        queues.signals = others;
        reports.extend::<VecDeque<Delivery>>(its);
        reports
    }

    /// Asks the supervisor to let go of its tasks; a second time, to do so at once.
    pub fn stop(&self) {
        let mut queues = self.lock();
        queues.stops += 1;
        self.wake(queues);
    }

    /// The same for whoever has nobody left to ask: the tasks that are let go say why.
    pub fn leave(&self, why: &'static str) {
        let mut queues = self.lock();
        if queues.stops == 0 {
            queues.left = Some(why);
        }
        queues.stops += 1;
        self.wake(queues);
    }

    /// Why tasks are let go.
    pub fn why_stopped(&self) -> &'static str {
        self.lock().left.unwrap_or("the process was asked to stop")
    }

    /// Waits at most `patience` (for ever if `None`) until something is there, and takes all of it. What is held back
    /// stays if nothing but what models say has come meanwhile.
    pub fn take(&self, patience: Option<Duration>, seen_stops: u32) -> Batch {
        let mut queues = self.lock();
        if queues.has_come(seen_stops) || patience == Some(Duration::ZERO) {
            // Whoever is always busy must not starve the network.
            drop(queues);
            network::glance();
            queues = self.lock();
        }
        let deadline = patience.map(|patience| Instant::now() + patience);
        let is_late = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        while !queues.has_come(seen_stops) && !is_late() {
            queues = self.wait(queues, deadline);
        }
        let is_held = queues.held_until.is_some()
            && !queues.is_urgent(seen_stops)
            && !queues.is_due()
            && !is_late();
        let count = queues.held.len() + queues.people.len() + queues.signals.len();
        let mut deliveries: Vec<Delivery> = Vec::with_capacity(count);
        if !is_held {
            deliveries.append(&mut queues.held);
            queues.held_until = None;
        }
        deliveries.extend(queues.people.drain(..));
        deliveries.extend(queues.signals.drain(..));
        let streams = std::mem::take(&mut queues.streams);
        if std::mem::take(&mut queues.pieces) > 0 {
            queues.told_until = Some(Instant::now() + PICTURE);
        }
        queues.is_news = false;
        let room = std::mem::take(&mut queues.room);
        queues.taken += 1;
        Batch { deliveries, stops: queues.stops, streams, room }
    }

    /// Sleeps until somebody wakes it, `deadline` or the moment at which what is held is due; drives the network if
    /// there is one.
    fn wait<'a>(
        &'a self,
        mut queues: MutexGuard<'a, Queues>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, Queues> {
        let told_until = queues.told_until.filter(|_| queues.pieces > 0);
        let until = deadline.into_iter().chain(queues.held_until).chain(told_until).min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        queues.waiting = true;
        queues = if network::is_running() {
            queues.driving = true;
            drop(queues);
            network::idle(&self.shared.notified, left);
            self.lock()
        } else {
            let ready = &self.shared.ready;
            match left {
                None => ready.wait(queues).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    ready.wait_timeout(queues, left).unwrap_or_else(PoisonError::into_inner).0
                }
            }
        };
        (queues.waiting, queues.driving) = (false, false);
        queues
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

impl Queues {
    /// Whether there is something to take at once.
    fn has_come(&self, seen_stops: u32) -> bool {
        let is_told = self.must_be_told() || !self.room.is_empty();
        self.is_urgent(seen_stops) || is_told || self.is_due()
    }

    /// Whether what is just being said must not wait any longer.
    fn must_be_told(&self) -> bool {
        let may_wait = || self.told_until.is_some_and(|until| Instant::now() < until);
        self.is_news || (self.pieces > 0 && (self.pieces >= MAX_PIECES || !may_wait()))
    }

    /// Whether somebody waits for what is here.
    fn is_urgent(&self, seen_stops: u32) -> bool {
        !self.people.is_empty() || !self.signals.is_empty() || self.stops != seen_stops
    }

    /// Whether what is held back was held back for long enough.
    fn is_due(&self) -> bool {
        self.held.len() >= MAX_HELD || self.held_until.is_some_and(|until| until <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(number: u64) -> Input {
        Signal::TimerFired(EffectId(number)).into()
    }

    fn task() -> TaskId {
        TaskId("t".to_owned())
    }

    fn numbers(batch: &Batch) -> Vec<u64> {
        let number = |delivery: &Delivery| match &delivery.input {
            Input::Signal(Signal::TimerFired(id)) => id.0,
            _ => 0,
        };
        batch.deliveries.iter().map(number).collect()
    }

    fn pause(inbox: &Inbox) {
        inbox.command(task(), machine::Command::Pause.into(), None).unwrap();
    }

    #[test]
    fn what_is_held_goes_with_what_comes_next_and_before_it() {
        let inbox = patient();
        inbox.hold(task(), report(1));
        inbox.hold(task(), report(2));
        inbox.signal(task(), report(3));
        inbox.hold(task(), report(4));
        assert_eq!(numbers(&inbox.take(None, 0)), [1, 2, 3, 4]);
        inbox.hold(task(), report(5));
        pause(&inbox);
        inbox.hold(task(), report(6));
        assert_eq!(numbers(&inbox.take(None, 0)), [5, 0, 6], "it came before the command");
    }

    #[test]
    fn reports_of_one_task_are_taken_alone_and_in_order() {
        let inbox = patient();
        let other = TaskId("other".to_owned());
        inbox.hold(task(), report(1));
        inbox.hold(other.clone(), report(2));
        inbox.signal(task(), report(3));
        pause(&inbox);
        let deliveries = inbox.reports_of(&task());
        let taken = Batch { deliveries, stops: 0, streams: Vec::new(), room: Vec::new() };
        assert_eq!(numbers(&taken), [1, 3]);
        assert!(inbox.reports_of(&task()).is_empty());
        assert_eq!(numbers(&inbox.take(None, 0)), [2, 0], "what is not a report stays");
    }

    /// Longer than any test takes.
    fn patient() -> Inbox {
        Inbox::holding(Duration::from_secs(3600))
    }

    #[test]
    fn what_models_say_is_not_kept_waiting_and_takes_nothing_along() {
        let inbox = patient();
        inbox.follow();
        inbox.hold(task(), report(1));
        let mut feed = inbox.feed(task(), EffectId(1));
        let delta = || StreamEvent::TextDelta { index: 0, text: "x".to_owned() };
        feed.push(&mut vec![delta()]);
        let first = inbox.take(None, 0);
        assert_eq!((first.streams.len(), first.deliveries.len()), (1, 0));
        feed.push(&mut vec![delta()]);
        inbox.signal(task(), report(2));
        assert_eq!(numbers(&inbox.take(None, 0)), [1, 2]);
    }

    #[test]
    fn what_nobody_follows_is_not_brought() {
        let inbox = patient();
        let mut feed = inbox.feed(task(), EffectId(1));
        let mut say = || {
            let mut said = vec![StreamEvent::TextDelta { index: 0, text: "x".to_owned() }];
            feed.push(&mut said);
            assert_eq!(said, []);
        };
        say();
        assert!(!inbox.lock().has_come(0));
        assert_eq!(inbox.take(Some(Duration::ZERO), 0).streams, []);
        inbox.follow();
        say();
        assert!(inbox.lock().has_come(0));
    }

    #[test]
    fn what_goes_on_being_said_is_told_together_after_a_moment_and_much_of_it_at_once() {
        let inbox = patient();
        inbox.follow();
        let begun = || StreamEvent::MessageStart { id: String::new(), model: "m".to_owned() };
        let mut feed = inbox.feed(task(), EffectId(1));
        let mut say = |text: &str| {
            feed.push(&mut vec![StreamEvent::TextDelta { index: 0, text: text.to_owned() }]);
        };
        let told = || {
            let said = inbox.take(None, 0).streams.pop().unwrap().events;
            assert_eq!(said.len(), 1, "{said:?}");
            match &said[0] {
                StreamEvent::TextDelta { text, .. } => text.clone(),
                other => panic!("{other:?}"),
            }
        };
        // Neither the beginning of an answer nor its first words wait.
        inbox.feed(task(), EffectId(2)).push(&mut vec![StreamEvent::MessageStop, begun()]);
        assert_eq!(inbox.take(None, 0).streams.pop().unwrap().events, [begun()]);
        assert!(inbox.lock().told_until.is_none(), "what comes next is told at once");
        say("a");
        assert_eq!(told(), "a");
        inbox.lock().told_until = Some(Instant::now() + Duration::from_secs(3600));
        let mut other = inbox.feed(task(), EffectId(3));
        for _ in 0..2 {
            other.push(&mut vec![begun()]);
            assert_eq!(inbox.take(None, 0).streams.len(), 1);
            other.push(&mut vec![StreamEvent::TextDelta { index: 0, text: "first".to_owned() }]);
            assert_eq!(told(), "first", "whatever others say meanwhile");
            inbox.lock().told_until = Some(Instant::now() + Duration::from_secs(3600));
        }
        say("b");
        assert!(!inbox.lock().has_come(0), "it waits for what comes next");
        say("c");
        inbox.lock().told_until = Some(Instant::now() + Duration::from_millis(1));
        assert_eq!(told(), "bc", "it comes by itself");
        inbox.lock().told_until = Some(Instant::now() + Duration::from_secs(3600));
        (0..MAX_PIECES).for_each(|_| say("d"));
        assert_eq!(told(), "d".repeat(MAX_PIECES));
    }

    #[test]
    fn much_of_it_is_not_held_and_whoever_takes_for_another_reason_takes_it_along() {
        let inbox = patient();
        for number in 0..MAX_HELD as u64 {
            inbox.hold(task(), report(number));
        }
        assert_eq!(inbox.take(None, 0).deliveries.len(), MAX_HELD);
        inbox.hold(task(), report(1));
        assert_eq!(numbers(&inbox.take(Some(Duration::ZERO), 0)), [1]);
        inbox.hold(task(), report(2));
        inbox.stop();
        assert_eq!(numbers(&inbox.take(None, 0)), [2]);
    }

    #[test]
    fn whoever_looks_after_what_is_held_wakes_the_supervisor_in_time() {
        let inbox = Inbox::holding(Duration::from_millis(1));
        let sleeper = inbox.clone();
        let (taken, takes) = std::sync::mpsc::channel();
        std::thread::spawn(move || while taken.send(numbers(&sleeper.take(None, 0))).is_ok() {});
        let sleeps = || {
            while !inbox.lock().waiting {
                std::thread::yield_now();
            }
        };
        sleeps();
        let watch = inbox.watch();
        inbox.hold(task(), report(1));
        std::thread::sleep(Duration::from_millis(20));
        assert!(takes.try_recv().is_err(), "it sleeps on");
        watch.look();
        assert_eq!(takes.recv().unwrap(), [1]);
        sleeps();
        inbox.hold(task(), report(2));
        // Nobody would look after it any more.
        drop(watch);
        assert_eq!(takes.recv().unwrap(), [2]);
    }

    #[test]
    fn what_is_held_comes_by_itself_after_a_moment() {
        let inbox = Inbox::default();
        let sleeper = inbox.clone();
        let slept = std::thread::spawn(move || numbers(&sleeper.take(None, 0)));
        while !inbox.lock().waiting {
            std::thread::yield_now();
        }
        inbox.hold(task(), report(7));
        assert_eq!(slept.join().unwrap(), [7]);
    }
}
