//! The world outside the process: virtual time, the disk, work that takes its time, and crashes at numbered
//! points. All chance of a run comes from here.

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use machine::Effect;
use machine::driver::Registry;
use machine::driver::scripted::ScriptedKind;
use machine::effect::ToolCall;
use machine::id::{CallId, EffectId, TaskId};
use machine::input::{Input, Signal};
use machine::task::{CriterionResult, Workspace, WorkspaceKind};
use machine::time::Timestamp;
use machine::tool::{EffectClass, Status, ToolResult};
use runtime::clock::Clock;
use runtime::perform::Perform;
use serde_json::{Value, json};

use crate::audit::{Audit, Check, Reports, Violation};
use crate::bug::Bug;
use crate::disk::Disk;
use crate::random::Random;

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

/// One attempt at an effect.
#[derive(Debug)]
pub(crate) struct Attempt {
    process: usize,
    task: TaskId,
    effect: Effect,
    acted: bool,
    stopped: bool,
    reported: bool,
    /// It never ends by itself.
    hangs: bool,
    /// Its process is gone and it lives on.
    orphan: bool,
    /// The id it reports under, where a planted mistake confuses two.
    alias: Option<EffectId>,
}

impl Attempt {
    /// The process that started it.
    pub(crate) fn process(&self) -> usize {
        self.process
    }
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
            attempt.orphan = !power && !checkable && !attempt.stopped && self.random.one_in(3);
            attempt.stopped |= !attempt.orphan;
        }
    }

    fn begin(&mut self, process: usize, task: &TaskId, effect: Effect) {
        let number = self.attempts.len();
        let is_workspace = matches!(effect, Effect::OpenWorkspace { .. });
        let hangs = !is_workspace && !self.finishing && self.chance(30);
        self.note(|| {
            format!("process {process} starts {} #{} of {task}", name(&effect), effect.id().0)
        });
        if let Effect::RunTool { call, .. } = &effect
            && !call.repeated
            && self.times(task, call.call) > 0
        {
            self.fail(
                Check::NothingDoubled,
                format!("{} of {task} starts as if it had never run", call.call),
            );
        }
        self.attempts.push(Attempt {
            process,
            task: task.clone(),
            effect,
            acted: false,
            stopped: false,
            reported: false,
            hangs,
            orphan: false,
            alias: None,
        });
        if !hangs || self.chance(2) {
            let delay = self.delay(1, 120);
            self.after(delay, Happening::Act(number));
            if self.bug == Some(Bug::EffectsStartTwice) {
                self.after(delay + 1, Happening::Act(number));
            }
        }
    }

    fn stop(&mut self, process: usize, task: &TaskId, which: impl Fn(EffectId) -> bool) {
        if self.bug == Some(Bug::StoppedWorkGoesOn) {
            // The caller believes that it ended; the judge is told so, the work is not.
            for attempt in &mut self.attempts {
                if attempt.process == process && attempt.task == *task && which(attempt.effect.id())
                {
                    attempt.stopped = true;
                }
            }
            return;
        }
        for index in 0..self.attempts.len() {
            let attempt = &mut self.attempts[index];
            if attempt.process != process || attempt.task != *task || !which(attempt.effect.id()) {
                continue;
            }
            let late = !attempt.stopped && !attempt.reported;
            attempt.stopped = true;
            // What was cancelled may still have something to say.
            if late && self.chance(3) {
                let attempt = &self.attempts[index];
                if let Effect::RunTool { id, .. } = attempt.effect {
                    let input = Input::ToolEnded(id, ToolResult::ended(Status::Aborted, "stopped"));
                    let happening = Happening::Stray(process, task.clone(), input);
                    let delay = self.delay(0, 50);
                    self.after(delay, happening);
                }
            }
        }
    }

    /// The work is done in the world; whether anybody hears of it is another matter.
    pub(crate) fn on_act(&mut self, number: usize) -> bool {
        let attempt = &self.attempts[number];
        let goes_on = self.bug == Some(Bug::StoppedWorkGoesOn);
        if attempt.stopped && !goes_on || attempt.reported {
            return false;
        }
        let (task, stopped, quiet) =
            (attempt.task.clone(), attempt.stopped, attempt.hangs || attempt.orphan);
        if let Effect::RunTool { id, call, .. } = &attempt.effect {
            let (id, call) = (*id, call.clone());
            if stopped {
                self.fail(
                    Check::StoppedIsStopped,
                    format!("effect {} of {task} acts after it was stopped", id.0),
                );
            }
            self.act(&task, &call);
        }
        self.attempts[number].acted = true;
        if !quiet {
            let delay = self.delay(0, 60);
            self.after(delay, Happening::Report(number));
        }
        true
    }

    /// One call acts. A checkable tool sees what has been done; an unsafe one must not act again unless told to.
    fn act(&mut self, task: &TaskId, call: &ToolCall) {
        let place = (task.clone(), call.call);
        let before = self.ran.get(&place).copied().unwrap_or_default();
        if call.class == EffectClass::Checkable && before > 0 {
            return;
        }
        *self.ran.entry(place).or_default() += 1;
        self.tally.acted += 1;
        self.tally.repeated += u64::from(before > 0);
        self.note(|| format!("{} {} of {task} acts ({before} times before)", call.tool, call.call));
        let allowed =
            self.audit.tasks.get(task).and_then(|task| task.retries.get(&call.call)).copied();
        let repeatable = matches!(call.class, EffectClass::Pure | EffectClass::Keyed);
        if !repeatable && before > allowed.unwrap_or_default() {
            self.fail(
                Check::NothingDoubled,
                format!("{} {} of {task} acts again", call.tool, call.call),
            );
        }
    }

    /// Whether an effect that a task waits for will never end.
    pub(crate) fn hangs(&self, task: &TaskId, outstanding: &[EffectId]) -> bool {
        self.attempts.iter().any(|attempt| {
            attempt.hangs
                && !attempt.stopped
                && attempt.task == *task
                && outstanding.contains(&attempt.effect.id())
        })
    }

    /// How often a call really ran.
    pub(crate) fn times(&self, task: &TaskId, call: CallId) -> u64 {
        self.ran.get(&(task.clone(), call)).copied().unwrap_or_default()
    }

    /// Who is to hear what of an attempt that ended.
    pub(crate) fn on_report(&mut self, number: usize) -> Option<(usize, TaskId, Input)> {
        let unheard = self.chance(2);
        let attempt = &self.attempts[number];
        if attempt.reported || attempt.orphan || (attempt.stopped && unheard) {
            return None;
        }
        let (process, task) = (attempt.process, attempt.task.clone());
        let input = self.answer(number);
        self.attempts[number].reported = true;
        if let Input::ToolEnded(id, result) = &input {
            self.reports.insert((task.clone(), *id), result.clone());
        }
        self.note(|| format!("report for process {process}, {task}: {}", brief(&input)));
        let input = self.confuse(number, input)?;
        self.stray(process, &task, &input);
        Some((process, task, input))
    }

    /// Now and then a report comes twice, or one comes that nobody asked for.
    fn stray(&mut self, process: usize, task: &TaskId, input: &Input) {
        let delay = self.delay(0, 80);
        if self.chance(12) {
            self.after(delay, Happening::Stray(process, task.clone(), input.clone()));
        }
        if self.chance(20) {
            let foreign = EffectId(1_000_000 + self.random.below(9));
            let input = Input::ToolEnded(foreign, ToolResult::ok("from elsewhere"));
            self.after(delay, Happening::Stray(process, task.clone(), input));
        }
    }

    /// What planted mistakes make of a report.
    fn confuse(&mut self, number: usize, input: Input) -> Option<Input> {
        if self.bug == Some(Bug::ReportsGetLost) && self.chance(5) {
            return None;
        }
        let Input::ToolEnded(id, result) = input else { return Some(input) };
        let (process, task) = (self.attempts[number].process, self.attempts[number].task.clone());
        let beside = |other: &&mut Attempt| {
            other.process == process
                && other.task == task
                && !other.reported
                && !other.stopped
                && matches!(other.effect, Effect::RunTool { .. })
        };
        let alias = self.attempts[number].alias;
        match (self.bug, self.attempts.iter_mut().find(beside)) {
            (Some(Bug::ResultsMatchByPosition), Some(other)) if alias.is_none() => {
                let theirs = other.effect.id();
                other.alias = Some(id);
                return Some(Input::ToolEnded(theirs, result));
            }
            (Some(Bug::ReportCountsForTwo), Some(other)) => {
                let theirs = other.effect.id();
                self.after(
                    1,
                    Happening::Stray(process, task, Input::ToolEnded(theirs, result.clone())),
                );
            }
            _ => {}
        }
        Some(Input::ToolEnded(alias.unwrap_or(id), result))
    }

    /// What an effect comes to.
    fn answer(&mut self, number: usize) -> Input {
        let effect = self.attempts[number].effect.clone();
        let task = self.attempts[number].task.clone();
        match effect {
            Effect::OpenWorkspace { id, spec, folder } => {
                let kind = spec.kind.unwrap_or(WorkspaceKind::InPlace);
                let path = (kind != WorkspaceKind::None).then_some(folder);
                let branch =
                    (kind == WorkspaceKind::Worktree).then(|| format!("drivetrain/{task}"));
                Signal::WorkspaceOpened(id, Ok(Workspace { kind, path, branch, base: None })).into()
            }
            Effect::RunTool { id, call, .. } => {
                let text = format!("{task} {} by effect {}", call.call, id.0);
                let status = match (self.chance(10), self.chance(30)) {
                    (true, _) => Status::Error,
                    (false, true) => Status::TimedOut,
                    (false, false) => Status::Ok,
                };
                Input::ToolEnded(
                    id,
                    ToolResult {
                        exit: Some(i32::from(status != Status::Ok)),
                        ..ToolResult::ended(status, text)
                    },
                )
            }
            Effect::Consult { id, request, .. } => {
                Signal::Consulted(id, self.advise(&request)).into()
            }
            Effect::Checkpoint { id, .. } => {
                Signal::Checkpointed(id, Ok(format!("tree-{}", id.0))).into()
            }
            Effect::Verify { id, criteria, .. } => {
                let results: Vec<CriterionResult> = criteria
                    .iter()
                    .map(|criterion| {
                        let passed = !self.chance(4);
                        let evidence = format!("seen by effect {}", id.0);
                        let exit = Some(i32::from(!passed));
                        CriterionResult {
                            title: criterion.title(),
                            passed,
                            exit,
                            evidence,
                            millis: 3,
                        }
                    })
                    .collect();
                if results.iter().all(|result| result.passed) {
                    *self.passed.entry(task).or_default() += 1;
                }
                Signal::Verified(id, Ok(results)).into()
            }
            // The supervisor keeps timers and turns cancels into calls.
            Effect::SetTimer { id, .. } | Effect::Cancel { target: id } => {
                Signal::TimerFired(id).into()
            }
        }
    }

    /// A plugin's answer: a few actions, then a claim; sometimes none, sometimes nonsense.
    fn advise(&mut self, request: &Value) -> Result<Value, String> {
        let turns = request["params"]["turns"].as_u64().unwrap_or_default();
        if self.chance(12) {
            return Err("the plugin died".to_owned());
        }
        if self.chance(12) {
            return Ok(json!({ "decision": "dance" }));
        }
        if turns >= 3 {
            return Ok(json!({ "decision": "claim", "summary": "enough", "state": turns }));
        }
        let shell =
            json!({ "tool": "shell", "parameters": { "command": format!("plugin {turns}") } });
        let read = json!({ "tool": "read", "parameters": { "path": "notes" } });
        let actions = if self.chance(2) { json!([shell, read]) } else { json!([read]) };
        Ok(json!({ "decision": "act", "actions": actions, "state": turns }))
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
}

fn name(effect: &Effect) -> String {
    match effect {
        Effect::OpenWorkspace { .. } => "open workspace".to_owned(),
        Effect::RunTool { call, .. } => format!("{} {}", call.tool, call.call),
        Effect::Consult { .. } => "consult".to_owned(),
        Effect::Checkpoint { .. } => "checkpoint".to_owned(),
        Effect::Verify { .. } => "verify".to_owned(),
        Effect::SetTimer { .. } => "timer".to_owned(),
        Effect::Cancel { .. } => "cancel".to_owned(),
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
