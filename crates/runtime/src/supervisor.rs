//! Many tasks in one loop: take a batch, journal it, step each task, perform what came out.
//!
//! One thread owns all states and is the journal's writer. While a commit waits for the disk, inputs gather
//! in the inbox and become the next batch: that is the group commit. Nothing is acknowledged, stepped or
//! performed before its record is on disk. Children that steps begin are driven here, beside their parents (`children`).

mod at_rest;
mod beginning;
mod children;
mod group;
mod two_times;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use journal::{Entry, Journal, JournalError};
use machine::child::step::ChildEnd;
use machine::driver::{DriverSlot, Registry};
use machine::event::Loss;
use machine::id::{EffectId, TaskId};
use machine::input::{Command, Signal, Stamped};
use machine::state::{Pending, Standing};
use machine::stream::StreamEvent;
use machine::task::{Outcome, TaskSpec};
use machine::time::{Span, Timestamp};
use machine::{Effect, Event, Input, step};

use crate::clock::Clock;
use crate::host::{FoldError, Host, Hosts};
use crate::inbox::{Batch, Delivery, Inbox, Refusal};
use crate::live::Streamed;
use crate::perform::Perform;
use crate::room::Room;
use beginning::Beginning;
use group::{Group, Item, encode, start};

/// How long to wait before a full disk is tried again.
const FULL_DISK_PATIENCE: Duration = Duration::from_secs(1);

/// How long running work may take to end after the first request to stop.
const DRAIN_GRACE_MILLIS: i64 = 10_000;

/// Hears what happens, on the supervisor's thread; must not block for long.
pub type Observer = Box<dyn FnMut(&Notice<'_>) + Send>;

/// What observers hear.
#[derive(Debug)]
pub enum Notice<'a> {
    /// Something happened to a task.
    Event(&'a Event),
    /// What a task's model is just saying and doing. What an event adds to it comes before the event.
    Streamed(&'a TaskId, &'a [StreamEvent]),
    /// The journal cannot be written; everything waits until it can.
    Stalled(&'a str),
    /// The journal can be written again.
    Unstalled,
    /// Something else than the journal waits for room on the disk, or does not any more.
    Room(&'a Room),
    /// This process no longer holds a task: another took it.
    Lost(&'a TaskId, &'a str),
}

/// Why the supervisor stopped or refused.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A task cannot be brought back.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// What was asked does not fit the task.
    #[error("{0}")]
    Refused(String),
}

/// The loop over all tasks of this process.
pub struct Supervisor<P> {
    journal: Box<dyn Journal>,
    perform: P,
    clock: Box<dyn Clock>,
    registry: Arc<Registry>,
    inbox: Inbox,
    observers: Vec<Observer>,
    /// Those of them that also hear what is just being said.
    followers: Vec<Observer>,
    hosts: Hosts,
    /// The one that was let go last of all.
    last: Option<Host>,
    outcomes: BTreeMap<TaskId, Outcome>,
    timers: BinaryHeap<Reverse<(Timestamp, TaskId, EffectId)>>,
    /// What the clock said last, and how long the machine had been awake then.
    seen: (Timestamp, Span),
    /// Tasks that were begun and are not in the journal yet.
    beginning: Beginning,
    /// Inputs that go into the next batch before all others: of tasks taken up, or kept while stalled.
    backlog: Vec<Delivery>,
    /// A batch that could not be written yet.
    held: Option<Group>,
    stalled: Option<String>,
    stops: u32,
    drain_deadline: Option<Timestamp>,
    /// The parents of children that are driven here for them, and the effect that waits.
    awaited: BTreeMap<TaskId, (TaskId, EffectId)>,
    /// Children that are looked after for a task that waits for them.
    minded: BTreeMap<TaskId, Vec<TaskId>>,
    /// Commands for children that nobody drives, given once the batch is through.
    errands: Vec<(TaskId, Command)>,
}

impl<P: Perform> Supervisor<P> {
    /// A supervisor with no tasks.
    pub fn new(
        journal: Box<dyn Journal>,
        perform: P,
        clock: Box<dyn Clock>,
        registry: Arc<Registry>,
        inbox: Inbox,
    ) -> Supervisor<P> {
        let seen = (clock.now(), clock.awake());
        Supervisor {
            journal,
            perform,
            clock,
            registry,
            inbox,
            observers: Vec::new(),
            followers: Vec::new(),
            hosts: Hosts::default(),
            last: None,
            outcomes: BTreeMap::new(),
            timers: BinaryHeap::new(),
            seen,
            beginning: Beginning::default(),
            backlog: Vec::new(),
            held: None,
            stalled: None,
            stops: 0,
            drain_deadline: None,
            awaited: BTreeMap::new(),
            minded: BTreeMap::new(),
            errands: Vec::new(),
        }
    }

    /// Adds a listener to everything but what is just being said. Without any, events are counted but not made.
    pub fn observe(&mut self, observer: Observer) {
        self.observers.push(observer);
        self.make_events();
    }

    /// Adds a listener to everything. Without one, what is just being said is not even brought here.
    pub fn follow(&mut self, follower: Observer) {
        self.followers.push(follower);
        self.inbox.follow();
        self.make_events();
    }

    fn make_events(&mut self) {
        for host in self.hosts.values_mut() {
            host.state.set_quiet(false);
        }
    }

    fn is_unobserved(&self) -> bool {
        self.observers.is_empty() && self.followers.is_empty()
    }

    /// The journal, to read.
    pub fn journal(&self) -> &dyn Journal {
        self.journal.as_ref()
    }

    /// Where inputs arrive.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// The performer.
    pub fn performer(&mut self) -> &mut P {
        &mut self.perform
    }

    /// The task, if this process holds it.
    pub fn host(&self, task: &TaskId) -> Option<&Host> {
        self.hosts.get(task)
    }

    /// The task that was let go when no other was left: as it was put down.
    pub fn last(&self) -> Option<&Host> {
        self.last.as_ref()
    }

    /// How each task that was let go ended.
    pub fn outcomes(&self) -> &BTreeMap<TaskId, Outcome> {
        &self.outcomes
    }

    /// Whether no task is held.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Whether something is under way that should come to its end before its task is let go.
    pub fn is_in_the_middle(&self) -> bool {
        self.hosts.iter().any(|(_, host)| host.state.is_in_the_middle())
    }

    /// Makes a task and takes it up with the next batch. Nothing is written if the driver cannot be made.
    pub fn begin(
        &mut self,
        id: TaskId,
        spec: TaskSpec,
        attended: bool,
    ) -> Result<(), SupervisorError> {
        let driver = DriverSlot::create(&spec.driver.name, &spec.driver.config, &self.registry)
            .map_err(SupervisorError::Refused)?;
        let start = start(&id, spec)?;
        let attach = Command::Attach { owner: self.journal.owner(), attended };
        let mut host = Host::new(id.clone(), Arc::clone(&self.registry));
        host.state.prepare(driver);
        host.state.set_quiet(self.is_unobserved());
        self.hosts.insert(id.clone(), host);
        self.inbox.take_up(&id);
        self.perform.begun(&id);
        self.beginning.push(&id, [start, delivery(&id, attach.into())]);
        Ok(())
    }

    /// Makes a task and lets it rest: it is in the journal when this returns, and whoever resumes it goes on with it.
    pub fn lay_down(&mut self, id: &TaskId, spec: TaskSpec) -> Result<(), SupervisorError> {
        let driver = DriverSlot::create(&spec.driver.name, &spec.driver.config, &self.registry)
            .map_err(SupervisorError::Refused)?;
        let start = start(id, spec)?;
        let mut host = Host::new(id.clone(), Arc::clone(&self.registry));
        host.state.prepare(driver);
        self.hosts.insert(id.clone(), host);
        self.turn(vec![start])?;
        if self.hosts.remove(id).is_some() || self.held.take().is_some() {
            self.stalled = None;
            return Err(SupervisorError::Refused(
                "the journal cannot be written at the moment".to_owned(),
            ));
        }
        Ok(())
    }

    /// Takes a task up, with the next batch, where its records end, whoever held it before. A task that has
    /// ended is refused.
    pub fn resume(&mut self, id: &TaskId, attended: bool) -> Result<(), SupervisorError> {
        self.take_up_from(id, None, attended)
    }

    /// The same for one that was seen in the hands of this owner, which does not drive it. If a process takes it up
    /// meanwhile, that goes on undisturbed, and the error is [`JournalError::Fenced`].
    pub fn resume_from(
        &mut self,
        id: &TaskId,
        from: u64,
        attended: bool,
    ) -> Result<(), SupervisorError> {
        self.take_up_from(id, Some(from), attended)
    }

    fn take_up_from(
        &mut self,
        id: &TaskId,
        from: Option<u64>,
        attended: bool,
    ) -> Result<(), SupervisorError> {
        // Before the claim, so that whoever sees the claim can ask whose it is.
        self.inbox.take_up(id);
        let taken = self.attach(id, from, attended);
        if self.hosts.get(id).is_none() {
            self.inbox.let_go(id);
        }
        taken
    }

    fn attach(
        &mut self,
        id: &TaskId,
        from: Option<u64>,
        attended: bool,
    ) -> Result<(), SupervisorError> {
        let mut inputs = self.take_over(id, from)?;
        let Some(host) = self.hosts.get(id) else { return Ok(()) };
        // A command that was given meanwhile may have recorded the loss already.
        let is_lost = !inputs.is_empty() || host.state.data().owner_lost;
        // What is left to be done of going back is done, whatever became of the task.
        let goes_back = host.state.data().going_back.is_some();
        if let Standing::Finished { outcome, .. } = host.state.standing()
            && !goes_back
        {
            let left = host.state.left_behind();
            self.hosts.remove(id);
            self.cancel_left(id, left)?;
            return Err(SupervisorError::Refused(format!(
                "task {id} has ended: {}",
                outcome.word()
            )));
        }
        if let Some(parent) = host.state.begun_by().cloned()
            && self.is_left_by(&parent)
        {
            self.hosts.remove(id);
            self.cancel_left(&parent, vec![id.clone()])?;
            return Err(SupervisorError::Refused(format!(
                "task {id} is cancelled: a step of task {parent} began it, which has ended"
            )));
        }
        // Whoever went on would work, and be paid, for a task that can only fail.
        let workspace = host.state.data().workspace.as_ref().filter(|_| host.is_open());
        if let Some(reason) = workspace.and_then(|place| self.perform.hinders(id, place)) {
            self.hosts.remove(id);
            return Err(SupervisorError::Refused(format!("task {id} stays at rest: {reason}")));
        }
        if host.state.data().paused && host.is_open() {
            inputs.push(Command::Resume.into());
        }
        // A task that was put down before the machine was, and has lost nothing, has nothing to be told. A folder that is
        // gone took with it what no checkpoint holds.
        match self.perform.taken_up(id) {
            Some((Loss::Restart, Ok(0))) if !is_lost => self.perform.told_of_loss(id),
            Some((Loss::Restart, found)) => inputs.push(Signal::Restarted(found).into()),
            Some((Loss::Folder, found)) => inputs.push(Signal::FolderGone(found).into()),
            None => {}
        }
        let unreported = self.hosts.get(id).map(|host| self.unreported(host.state.data()));
        inputs.extend(unreported.unwrap_or_default().into_iter().map(Input::from));
        inputs.push(Command::Attach { owner: self.journal.owner(), attended }.into());
        self.backlog.extend(inputs.into_iter().map(|input| delivery(id, input)));
        Ok(())
    }

    /// Claims a task, from this owner if one is named, and folds it; what must be recorded first if its last owner was
    /// lost.
    fn take_over(&mut self, id: &TaskId, from: Option<u64>) -> Result<Vec<Input>, SupervisorError> {
        if self.hosts.get(id).is_some() {
            return Err(SupervisorError::Refused(format!("task {id} is driven here already")));
        }
        match from {
            Some(from) => self.journal.claim_from(id.as_str(), from)?,
            None => self.journal.claim(id.as_str())?,
        };
        let loaded = self.journal.load(id.as_str())?;
        let mut host = Host::fold(id, &loaded, Arc::clone(&self.registry), true, drop)?;
        host.state.set_quiet(self.is_unobserved());
        let lost = host.state.data().attachment.is_some();
        self.hosts.insert(id.clone(), host);
        Ok(if lost { vec![Signal::OwnerLost.into()] } else { Vec::new() })
    }

    /// Runs until every task has been let go.
    pub fn run(&mut self) -> Result<(), SupervisorError> {
        while !self.hosts.is_empty() {
            let patience = self.patience();
            let batch = self.inbox.take(patience, self.stops);
            self.cycle(batch)?;
            self.check_room()?;
        }
        Ok(())
    }

    /// Time to stop and the disk still full: what was not acknowledged is not promised.
    pub fn check_room(&self) -> Result<(), SupervisorError> {
        let is_late =
            |_: &&String| self.drain_deadline.is_some_and(|deadline| self.clock.now() >= deadline);
        match self.stalled.as_ref().filter(is_late) {
            Some(reason) => Err(JournalError::Full(reason.clone()).into()),
            None => Ok(()),
        }
    }

    /// How long nothing has to be done: until the next timer, or the next try at a full disk.
    pub fn patience(&self) -> Option<Duration> {
        if self.stalled.is_some() {
            return Some(FULL_DISK_PATIENCE);
        }
        if !self.backlog.is_empty() || !self.beginning.is_empty() {
            return Some(Duration::ZERO);
        }
        let next = self.timers.peek().map(|Reverse((at, _, _))| *at);
        let next = next.into_iter().chain(self.drain_deadline).min()?;
        Some(Duration::from_millis(next.since(self.clock.now()).0))
    }

    /// One round: what came in, what is due, and what follows from both.
    pub fn cycle(&mut self, batch: Batch) -> Result<(), SupervisorError> {
        for streamed in &batch.streams {
            self.tell(streamed);
        }
        for room in &batch.room {
            self.notify(&Notice::Room(room));
        }
        let mut deliveries = batch.deliveries;
        self.on_stops(batch.stops, &mut deliveries);
        if let Some(group) = self.held.take() {
            self.write(group)?;
        }
        let now = self.clock.now();
        // Behind a group that is held, what the clock did would be told with the time of a later one: it is told
        // when that can be written.
        let mut all = if self.held.is_none() { self.follow_clock(now) } else { Vec::new() };
        deliveries.extend(self.due_timers(now));
        all.append(&mut self.backlog);
        all.append(&mut deliveries);
        self.beginning.keep_back(&mut all);
        if self.held.is_none() {
            all.append(&mut self.beginning.next());
        }
        if !all.is_empty() {
            self.turn(all)?;
        }
        self.run_errands()?;
        self.drain()
    }

    /// Tells what a model or an agent is just saying. What comes late from a call that was stopped is not told: its end was.
    fn tell(&mut self, Streamed { task, effect, events, .. }: &Streamed) {
        let host = self.hosts.get(task);
        let pending = host.and_then(|host| host.state.data().pending.get(effect));
        if matches!(pending, Some(Pending::Model | Pending::Agent)) {
            let streamed = Notice::Streamed(task, events);
            self.followers.iter_mut().for_each(|follower| follower(&streamed));
        }
    }

    fn due_timers(&mut self, now: Timestamp) -> Vec<Delivery> {
        let mut due = Vec::new();
        while let Some(Reverse((at, _, _))) = self.timers.peek() {
            if *at > now {
                break;
            }
            if let Some(Reverse((_, task, id))) = self.timers.pop() {
                due.push(delivery(&task, Signal::TimerFired(id).into()));
            }
        }
        due
    }

    /// The first request to stop lets running work end; the second does not wait.
    fn on_stops(&mut self, stops: u32, deliveries: &mut Vec<Delivery>) {
        if stops == self.stops {
            return;
        }
        if self.stops == 0 {
            deliveries.extend(self.hosts.iter().map(|(id, _)| delivery(id, Command::Drain.into())));
            self.drain_deadline = Some(Timestamp(self.clock.now().0 + DRAIN_GRACE_MILLIS));
        }
        if stops >= 2 {
            self.drain_deadline = Some(self.clock.now());
        }
        self.stops = stops;
    }

    /// While stopping, lets go of every task whose work has ended, or of all once the grace is over.
    fn drain(&mut self) -> Result<(), SupervisorError> {
        let Some(deadline) = self.drain_deadline else { return Ok(()) };
        if self.held.is_some() {
            return Ok(());
        }
        if !self.backlog.is_empty() || !self.beginning.is_empty() {
            // What came before could not be written yet; neither can this.
            return Ok(());
        }
        let late = self.clock.now() >= deadline;
        let ready: Vec<TaskId> = self
            .hosts
            .iter()
            .filter(|(_, host)| late || host.state.is_idle())
            .map(|(id, _)| id.clone())
            .collect();
        // Each may take seconds to end, and there may be a hundred of them.
        ready.iter().for_each(|id| self.perform.stop(id));
        for id in ready {
            // The work is stopped before the record says so.
            self.perform.release(&id);
            self.turn(vec![delivery(&id, detach(self.inbox.why_stopped()))])?;
        }
        Ok(())
    }

    /// Journals a batch, then steps and performs it. On a full disk the batch is held and tried again; a task
    /// that another process took is dropped from it.
    pub fn turn(&mut self, deliveries: Vec<Delivery>) -> Result<(), SupervisorError> {
        if self.held.is_some() {
            // Behind what is kept already: that entered first.
            self.backlog.extend(deliveries);
            return Ok(());
        }
        let group = self.gather(deliveries);
        self.write(group)
    }

    /// Numbers and encodes a batch. Inputs for tasks that are not held here are refused.
    fn gather(&mut self, deliveries: Vec<Delivery>) -> Group {
        let time = self.clock.now();
        // Before anything else that carries this time, or it would be taken for time that was worked.
        let told = self.follow_clock(time);
        let mut group =
            Group { time, items: Vec::with_capacity(deliveries.len()), ..Group::default() };
        for mut delivery in told.into_iter().chain(deliveries) {
            let Some((slot, host)) = self.hosts.find(&delivery.task) else {
                if let Some(reply) = delivery.reply {
                    let _ = reply.try_send(Err(Refusal::NotHere));
                }
                continue;
            };
            let Some(body) = encode(&mut delivery, &mut self.perform) else { continue };
            if host.numbered == host.last && host.pace.is_due(host.last) {
                group.snapshots.push((delivery.task.clone(), host.last, save(host)));
            }
            host.numbered += 1;
            group.items.push(Item { n: host.numbered, slot, body, delivery });
        }
        group
    }

    /// Writes a group in one commit and lets it out, or holds it.
    fn write(&mut self, mut group: Group) -> Result<(), SupervisorError> {
        while !group.items.is_empty() {
            match self.journal.commit(&group.entries()) {
                Ok(()) => return self.let_out(group),
                Err(JournalError::Full(reason)) => {
                    if self.stalled.is_none() {
                        self.notify(&Notice::Stalled(&reason));
                    }
                    self.stalled = Some(reason);
                    self.held = Some(group);
                    return Ok(());
                }
                Err(JournalError::Fenced { task, by, .. }) => {
                    let task = TaskId(task);
                    self.lose(&task, &format!("it was taken over by owner {by}"));
                    group.forget(&task);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The group is on disk: its tasks move, observers hear of it, whoever asked is answered, effects begin.
    fn let_out(&mut self, group: Group) -> Result<(), SupervisorError> {
        if self.stalled.take().is_some() {
            self.notify(&Notice::Unstalled);
        }
        for (task, n, body) in group.snapshots {
            if let Some((_, host)) = self.hosts.find(&task) {
                host.pace.saved(n, body.len());
            }
        }
        let mut effects = Vec::with_capacity(group.items.len());
        let mut touched = Vec::with_capacity(group.items.len());
        for Item { n, slot, delivery, body } in group.items {
            let Some(host) = self.hosts.slot_mut(slot) else { continue };
            host.last = n;
            host.pace.recorded(n, body.len());
            touched.push(slot);
            if let Input::Signal(Signal::Restarted(_) | Signal::FolderGone(_)) = &delivery.input {
                self.perform.told_of_loss(&delivery.task);
            }
            let output = step(&mut host.state, Stamped { time: group.time, input: delivery.input });
            for event in &output.events {
                if !self.followers.is_empty()
                    && let Some(ending) = host.endings.hear(&event.kind)
                {
                    let streamed = Notice::Streamed(&event.task, std::slice::from_ref(&ending));
                    self.followers.iter_mut().for_each(|follower| follower(&streamed));
                }
                for observer in self.observers.iter_mut().chain(&mut self.followers) {
                    observer(&Notice::Event(event));
                }
            }
            if let Some(reply) = delivery.reply {
                // Whoever asked may have gone away; the record stands.
                let rejected = output.rejected.map(Refusal::Rejected);
                let _ = reply.try_send(rejected.map_or(Ok(()), Err));
            }
            effects
                .extend(output.effects.into_iter().map(|effect| (delivery.task.clone(), effect)));
        }
        self.start(effects);
        touched.sort_unstable();
        touched.dedup();
        self.let_go(&touched)
    }

    /// Starts the effects of a whole batch; one that the same batch cancelled is never started.
    fn start(&mut self, effects: Vec<(TaskId, Effect)>) {
        let cancelled: Vec<(TaskId, EffectId)> = effects
            .iter()
            .filter(|(_, effect)| matches!(effect, Effect::Cancel { .. }))
            .map(|(task, effect)| (task.clone(), effect.id()))
            .collect();
        for (task, effect) in effects {
            match effect {
                Effect::Cancel { target } => self.perform.cancel(&task, target),
                Effect::SetTimer { id, at } => self.timers.push(Reverse((at, task, id))),
                Effect::DriveChild { id, child, spec, attended } => {
                    let waits = (task, id);
                    self.drive_child(waits, child, *spec, attended);
                }
                Effect::TellChild { child, command, .. } => self.tell_child(child, *command),
                effect
                    if !cancelled.is_empty()
                        && cancelled.contains(&(task.clone(), effect.id())) => {}
                effect => self.perform.start(&task, effect),
            }
        }
    }

    /// Lets go of every touched task that ended, was put to rest, or waits for a person who is not there.
    fn let_go(&mut self, touched: &[usize]) -> Result<(), SupervisorError> {
        let mut leaving = Vec::new();
        let mut late = Vec::new();
        let mut unattended = Vec::new();
        let mut of_steps = Vec::new();
        for slot in touched {
            let Some(host) = self.hosts.slot_mut(*slot) else { continue };
            if host.state.data().awaits_children || !self.minded.is_empty() {
                let (id, children) = (host.state.id().clone(), host.state.minds());
                mind(&mut self.minded, &mut self.perform, id, children);
            }
            if host.state.data().attachment.is_none() {
                let outcome = match host.state.standing() {
                    Standing::Finished { outcome, .. } => outcome,
                    Standing::Working | Standing::Paused | Standing::AwaitingPerson { .. } => {
                        Outcome::Waiting
                    }
                };
                let id = host.state.id().clone();
                self.perform.release(&id);
                if host.state.is_owed() {
                    // What was stopped says by its end what it has cost.
                    let reports = self.inbox.reports_of(&id);
                    if !reports.is_empty() {
                        late.extend(reports);
                        continue;
                    }
                }
                if let Some((parent, effect)) = self.awaited.remove(&id) {
                    let end = Box::new(host.state.child_end());
                    let left = Signal::ChildLeft(effect, end);
                    self.backlog.push(delivery(&parent, left.into()));
                }
                self.outcomes.insert(id.clone(), outcome);
                of_steps.extend(host.state.begun_by().map(|parent| (id.clone(), parent.clone())));
                leaving.push(id);
            } else if host.state.wants_release() {
                let id = host.state.id().clone();
                self.perform.release(&id);
                unattended.push(delivery(&id, detach(&host.state.release_reason())));
            }
        }
        self.put_down(&leaving)?;
        of_steps.retain(|(_, parent)| self.hosts.get(parent).is_none());
        for (child, _) in of_steps {
            // Whoever takes its parent up looks what it has spent, if this cannot be written now.
            let _ = self.report_end(&child);
        }
        late.append(&mut unattended);
        if late.is_empty() { Ok(()) } else { self.turn(late) }
    }

    /// Writes the tasks' summaries and snapshots and forgets them: from here on they are only in the journal.
    fn put_down(&mut self, leaving: &[TaskId]) -> Result<(), SupervisorError> {
        let mut hosts: Vec<Host> = leaving.iter().filter_map(|id| self.hosts.remove(id)).collect();
        leaving.iter().for_each(|id| self.inbox.let_go(id));
        for host in hosts.iter().filter(|host| !host.is_open()) {
            self.perform.finished(host.state.id());
        }
        // A short task is folded from its records as fast as from a snapshot.
        let worth = |host: &Host| host.pace.is_due(host.last);
        let saved: Vec<(Option<Vec<u8>>, String)> =
            hosts.iter().map(|host| (worth(host).then(|| save(host)), host.summary())).collect();
        let mut entries = Vec::with_capacity(2 * hosts.len());
        for (host, (body, summary)) in hosts.iter().zip(&saved) {
            let task = host.state.id().as_str();
            if let Some(body) = body {
                entries.push(Entry::Snapshot { task, n: host.last, body });
            }
            entries.push(Entry::Summary { task, open: host.is_open(), body: summary });
        }
        if entries.is_empty() {
            return Ok(());
        }
        match self.journal.commit(&entries) {
            // The records are the truth; a list that is late and a longer fold are all that is lost.
            Ok(()) | Err(JournalError::Full(_) | JournalError::Fenced { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if self.hosts.is_empty() {
            self.last = hosts.pop();
        }
        Ok(())
    }

    /// Another process has the task: stop acting on it at once.
    fn lose(&mut self, id: &TaskId, reason: &str) {
        self.hosts.remove(id);
        self.inbox.let_go(id);
        self.perform.release(id);
        mind(&mut self.minded, &mut self.perform, id.clone(), Vec::new());
        if let Some((parent, effect)) = self.awaited.remove(id) {
            let end = Box::new(ChildEnd::put_down(id.clone(), reason.to_owned()));
            self.backlog.push(delivery(&parent, Signal::ChildLeft(effect, end).into()));
        }
        self.notify(&Notice::Lost(id, reason));
    }

    fn notify(&mut self, notice: &Notice<'_>) {
        for observer in self.observers.iter_mut().chain(&mut self.followers) {
            observer(notice);
        }
    }
}

/// Has other children looked after than before, if they are others.
fn mind<P: Perform>(
    minded: &mut BTreeMap<TaskId, Vec<TaskId>>,
    perform: &mut P,
    task: TaskId,
    children: Vec<TaskId>,
) {
    if minded.get(&task).map_or(children.is_empty(), |before| *before == children) {
        return;
    }
    perform.mind(&task, children.clone());
    if children.is_empty() {
        minded.remove(&task);
    } else {
        minded.insert(task, children);
    }
}

fn delivery(task: &TaskId, input: Input) -> Delivery {
    Delivery { task: task.clone(), input, reply: None, body: None }
}

fn detach(reason: &str) -> Input {
    Command::Detach { reason: reason.to_owned() }.into()
}

fn save(host: &Host) -> Vec<u8> {
    // A state is plain data with text keys: encoding it cannot fail.
    serde_json::to_vec(&host.state.save()).expect("a state is always encodable")
}
