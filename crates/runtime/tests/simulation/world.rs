//! The world outside the process: virtual time, the disk, work that takes its time, and crashes at numbered
//! points. All chance of a run comes from here.

mod agent;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use machine::Effect;
use machine::driver::Registry;
use machine::driver::scripted::ScriptedKind;
use machine::id::{CallId, EffectId, TaskId};
use machine::input::Input;
use machine::time::{Span, Timestamp};
use machine::tool::EffectClass;
use runtime::clock::Clock;
use runtime::perform::Perform;

use crate::audit::{Audit, Check, Reports, Violation};
use crate::bug::Bug;
use crate::disk::Disk;
use crate::random::Random;
use work::Attempt;

/// Where a process dies: unwinding ends it as suddenly as a signal would, for nothing catches it on the way.
pub(crate) struct Crash;

pub(crate) type Shared = Arc<Mutex<World>>;

/// What will happen, in order of time.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    /// A process takes what has gathered for it.
    Cycle(usize),
    /// An attempt does its work.
    Act(usize),
    /// An agent says something.
    Say(usize),
    /// An attempt reports.
    Report(usize),
    /// A report that nobody waits for arrives.
    Stray(usize, TaskId, Input),
    /// An operator does something.
    Person,
    /// The disk is full, or has space again.
    DiskFull(bool),
    /// A process is asked to stop.
    Stop,
    /// Another process takes a task from one that lives.
    TakeOver,
    /// Somebody takes up what nobody drives.
    Recover,
    /// The clock jumps.
    ClockJump(i64),
    /// From here on, operators bring everything to an end.
    Finish,
}

/// Everything outside the processes.
pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) skew: i64,
    pub(crate) random: Random,
    pub(crate) registry: Arc<Registry>,
    pub(crate) disk: Disk,
    pub(crate) audit: Audit,
    pub(crate) reports: Reports,
    /// Tasks whose criteria passed, all of them, at least once.
    pub(crate) passed: BTreeMap<TaskId, u64>,
    /// How often each call really ran.
    ran: BTreeMap<(TaskId, CallId), u64>,
    pub(crate) attempts: Vec<Attempt>,
    /// How many counts of tokens were told.
    last_count: u64,
    schedule: BTreeMap<(i64, u64), Happening>,
    scheduled: u64,
    /// Distances between crashes, in points.
    pub(crate) crashes: VecDeque<u64>,
    pub(crate) points: u64,
    pub(crate) commits: u64,
    pub(crate) bug: Option<Bug>,
    /// Checks that look the other way.
    pub(crate) blind: Vec<Check>,
    pub(crate) violation: Option<Violation>,
    pub(crate) trace: Option<Vec<String>>,
    /// Nothing hangs any more.
    pub(crate) finishing: bool,
    /// All work takes the same time and ends well.
    pub(crate) in_step: bool,
    pub(crate) tally: Tally,
}

/// What a run contained, to see that nothing is tested that never happens.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) crashes: u64,
    pub(crate) cycles: u64,
    pub(crate) acknowledged: u64,
    pub(crate) acted: u64,
    pub(crate) repeated: u64,
    pub(crate) in_doubt: u64,
    pub(crate) fenced: u64,
    pub(crate) stalled: u64,
    pub(crate) torn: u64,
    pub(crate) records: u64,
    /// Tasks that steps of others began.
    pub(crate) children: u64,
    /// Turns of agents that began, and calls that agents made in them.
    pub(crate) agent_turns: u64,
    pub(crate) agent_calls: u64,
    /// Turns that were interrupted by a crash and went on.
    pub(crate) continued: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.crashes += other.crashes;
        self.cycles += other.cycles;
        self.acknowledged += other.acknowledged;
        self.acted += other.acted;
        self.repeated += other.repeated;
        self.in_doubt += other.in_doubt;
        self.fenced += other.fenced;
        self.stalled += other.stalled;
        self.torn += other.torn;
        self.records += other.records;
        self.children += other.children;
        self.agent_turns += other.agent_turns;
        self.agent_calls += other.agent_calls;
        self.continued += other.continued;
    }
}

pub(crate) fn lock(shared: &Shared) -> MutexGuard<'_, World> {
    // A crash unwinds only while nothing is locked; after a failed check the run is over anyway.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place where the process may die.
pub(crate) fn point(shared: &Shared, what: &str) {
    let dies = lock(shared).is_crash(what);
    if dies {
        resume_unwind(Box::new(Crash));
    }
}

impl World {
    pub(crate) fn new(seed: u64, crashes: &[u64], bug: Option<Bug>, traced: bool) -> World {
        let mut registry = Registry::builtin();
        registry.register(Arc::new(ScriptedKind));
        let registry = Arc::new(registry);
        World {
            now: 1_000_000,
            skew: 0,
            random: Random::new(seed, 1),
            registry: Arc::clone(&registry),
            disk: Disk::default(),
            audit: Audit::new(registry),
            reports: Reports::new(),
            passed: BTreeMap::new(),
            ran: BTreeMap::new(),
            attempts: Vec::new(),
            last_count: 0,
            schedule: BTreeMap::new(),
            scheduled: 0,
            crashes: crashes.iter().copied().collect(),
            points: 0,
            commits: 0,
            bug,
            blind: Vec::new(),
            violation: None,
            trace: traced.then(Vec::new),
            finishing: false,
            in_step: false,
            tally: Tally::default(),
        }
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>8} ms  {}", now - 1_000_000, what()));
        }
    }

    /// Keeps the first violation; what follows from it does not matter.
    pub(crate) fn check(&mut self, result: Result<(), Violation>) {
        if let (Err(violation), None) = (result, &self.violation) {
            if self.blind.contains(&violation.check) {
                return;
            }
            self.note(|| format!("VIOLATION {:?}: {}", violation.check, violation.what));
            self.violation = Some(violation);
        }
    }

    pub(crate) fn fail(&mut self, check: Check, what: impl Into<String>) {
        self.check(Err(Violation { check, what: what.into() }));
    }

    pub(crate) fn after(&mut self, millis: i64, happening: Happening) -> (i64, u64) {
        self.scheduled += 1;
        let key = (self.now + millis, self.scheduled);
        self.schedule.insert(key, happening);
        key
    }

    /// The next thing that happens; time goes on to it.
    pub(crate) fn next(&mut self) -> Option<((i64, u64), Happening)> {
        let (key, happening) = self.schedule.pop_first()?;
        self.now = self.now.max(key.0);
        Some((key, happening))
    }

    fn chance(&mut self, n: u64) -> bool {
        !self.in_step && self.random.one_in(n)
    }

    pub(crate) fn delay(&mut self, low: u64, high: u64) -> i64 {
        if self.in_step { low as i64 } else { self.random.millis(low, high) }
    }

    pub(crate) fn is_crash(&mut self, what: &str) -> bool {
        self.points += 1;
        let Some(left) = self.crashes.front_mut() else { return false };
        *left -= 1;
        if *left > 0 {
            return false;
        }
        self.crashes.pop_front();
        self.tally.crashes += 1;
        let point = self.points;
        self.note(|| format!("CRASH at point {point}: {what}"));
        true
    }

    /// A crash that begins with a sync that fails: nobody knows what reached the disk.
    pub(crate) fn sync_fails(&mut self) -> bool {
        self.is_crash("a sync fails")
    }

    pub(crate) fn write(&mut self, frame: &[u8]) -> Result<(), String> {
        self.disk.write(frame, &mut self.random)
    }

    pub(crate) fn sync(&mut self) {
        self.disk.sync();
        self.read_on();
    }

    fn read_on(&mut self) {
        let read = self.audit.advance(&self.disk.bytes[..self.disk.synced], &self.reports);
        self.check(read);
    }

    /// A process is gone. Some of its work dies with it, some lives on and is never reported.
    pub(crate) fn on_death(&mut self, process: usize, power: bool) {
        if power {
            let fate = self.disk.cut_power(&mut self.random);
            self.tally.torn += u64::from(fate.contains("torn"));
            self.note(|| format!("the power is gone: {fate}"));
        }
        self.read_on();
        for attempt in self.attempts.iter_mut().filter(|attempt| attempt.process == process) {
            let checkable = matches!(&attempt.effect, Effect::RunTool { call, .. } if call.class == EffectClass::Checkable);
            // An agent is gone with its process.
            let outlives = !checkable && !matches!(attempt.effect, Effect::AskAgent { .. });
            attempt.orphan = !power && outlives && !attempt.stopped && self.random.one_in(3);
            attempt.stopped |= !attempt.orphan;
        }
    }
}

/// Starts effects in the simulated world, for one process.
pub(crate) struct Performer {
    pub(crate) world: Shared,
    pub(crate) process: usize,
    pub(crate) owner: u64,
}

impl Perform for Performer {
    fn start(&mut self, task: &TaskId, effect: Effect) {
        point(&self.world, "before an effect starts");
        {
            let mut world = lock(&self.world);
            let allowed = world.audit.on_start(task, self.owner, &effect);
            world.check(allowed);
            world.begin(self.process, task, effect);
        }
        point(&self.world, "after an effect started");
    }

    fn cancel(&mut self, task: &TaskId, target: EffectId) {
        point(&self.world, "before an effect is stopped");
        let mut world = lock(&self.world);
        let process = self.process;
        world.note(|| format!("process {process} stops #{} of {task}", target.0));
        world.stop(process, task, |id| id == target);
    }

    fn release(&mut self, task: &TaskId) {
        point(&self.world, "before a task is released");
        lock(&self.world).stop(self.process, task, |_| true);
    }
}

/// The world's time, as a process with a clock of its own sees it.
pub(crate) struct SimulatedClock(pub(crate) Shared);

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let world = lock(&self.0);
        Timestamp(world.now + world.skew)
    }

    fn awake(&self) -> Span {
        Span(lock(&self.0).now.unsigned_abs())
    }
}

/// An input in one short line.
pub(crate) fn brief(input: &Input) -> String {
    let text = crate::audit::key(input);
    if text.len() <= 110 {
        text
    } else {
        format!("{}…", text.chars().take(110).collect::<String>())
    }
}
