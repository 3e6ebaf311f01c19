//! One run of a seed: processes that live and die, operators, and the checks after every step.

mod check;
mod operate;
mod process;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use machine::Event;
use machine::id::TaskId;
use machine::input::Input;
use runtime::inbox::Inbox;
use runtime::supervisor::Supervisor;

use crate::audit::{Check, Violation};
use crate::bug::Bug;
use crate::people::People;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::world::{Crash, Happening, Performer, Shared, Tally, World, brief, lock};

/// Rounds in which the operators say all they are asked; far more than any task needs.
const LAST_ROUNDS: u32 = 400;

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) scenario: Scenario,
    /// Distances between crashes, in points.
    pub(crate) crashes: Vec<u64>,
    pub(crate) bug: Option<Bug>,
    /// Checks that look the other way.
    pub(crate) blind: Vec<Check>,
    pub(crate) traced: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) violation: Option<Violation>,
    pub(crate) commits: u64,
    pub(crate) tally: Tally,
    pub(crate) trace: Vec<String>,
}

/// Runs a plan to its end.
pub(crate) fn run(plan: &Plan) -> Ended {
    let mut run = Run::new(plan);
    run.play();
    let mut world = lock(&run.world);
    let mut tally = world.tally;
    for task in world.audit.tasks.values() {
        tally.records += task.records;
        tally.children += u64::from(task.state.data().spec.dispatch.is_some());
        tally.continued += task.continued;
        tally.in_doubt += task.events.iter().filter(|event| is_doubt(event)).count() as u64;
    }
    Ended {
        violation: world.violation.take(),
        commits: world.commits,
        tally,
        trace: world.trace.take().unwrap_or_default(),
    }
}

fn is_doubt(event: &Event) -> bool {
    matches!(event.kind, machine::EventKind::CallInDoubt { .. })
}

/// How a process ended.
enum Death {
    Crash,
    Panic(String),
}

struct Process {
    number: usize,
    owner: u64,
    inbox: Inbox,
    stops: u32,
    supervisor: Supervisor<Performer>,
    /// The cycle that counts; others that are scheduled were overtaken.
    wake: Option<(i64, u64)>,
    /// How many records of each task the last comparison with the fold included.
    compared: BTreeMap<TaskId, u64>,
}

struct Run {
    world: Shared,
    scenario: Scenario,
    random: Random,
    people: People,
    processes: Vec<Process>,
    made: usize,
    heard: Arc<Mutex<Vec<Event>>>,
    recovery_is_due: bool,
    last_rounds: u32,
}

impl Run {
    fn new(plan: &Plan) -> Run {
        let mut world = World::new(plan.seed, &plan.crashes, plan.bug, plan.traced);
        world.in_step = plan.scenario.in_step;
        world.blind.clone_from(&plan.blind);
        Run {
            world: Arc::new(Mutex::new(world)),
            scenario: plan.scenario.clone(),
            random: Random::new(plan.seed, 4),
            people: People::default(),
            processes: Vec::new(),
            made: 0,
            heard: Arc::default(),
            recovery_is_due: false,
            last_rounds: 0,
        }
    }

    fn play(&mut self) {
        self.schedule();
        loop {
            let next = {
                let mut world = lock(&self.world);
                if world.violation.is_some() {
                    return;
                }
                world.next()
            };
            let Some((key, happening)) = next else { break };
            self.happen(key, happening);
            if self.last_rounds > 0 && self.is_over() {
                break;
            }
        }
        let checked = self.check_end();
        lock(&self.world).check(checked);
    }

    fn schedule(&mut self) {
        let mut world = lock(&self.world);
        let scenario = &self.scenario;
        for _ in 0..scenario.people {
            let at = self.random.millis(1, scenario.horizon as u64);
            world.after(at, Happening::Person);
        }
        for (from, length) in &scenario.full {
            world.after(*from, Happening::DiskFull(true));
            world.after(from + length, Happening::DiskFull(false));
        }
        for at in &scenario.take_overs {
            world.after(*at, Happening::TakeOver);
        }
        for at in &scenario.stops {
            world.after(*at, Happening::Stop);
        }
        for (at, jump) in &scenario.jumps {
            world.after(*at, Happening::ClockJump(*jump));
        }
        world.after(scenario.horizon, Happening::Finish);
        drop(world);
        self.plan_recovery(0);
    }

    fn happen(&mut self, key: (i64, u64), happening: Happening) {
        match happening {
            Happening::Cycle(number) => {
                let due = |process: &Process| process.number == number && process.wake == Some(key);
                if let Some(index) = self.processes.iter().position(due) {
                    self.processes[index].wake = None;
                    self.cycle(index);
                }
            }
            Happening::Act(attempt) => self.act(attempt),
            Happening::Say(attempt) => self.say(attempt),
            Happening::Report(attempt) => self.report(attempt),
            Happening::Stray(number, task, input) => {
                self.note(|| {
                    format!("a stray report for process {number}, {task}: {}", brief(&input))
                });
                self.deliver(number, task, input);
            }
            Happening::Person => self.person(),
            Happening::DiskFull(full) => {
                self.note(|| format!("the disk {}", if full { "is full" } else { "has space" }));
                let mut world = lock(&self.world);
                world.disk.full = full;
                world.tally.stalled += u64::from(full);
            }
            Happening::Stop => self.stop(),
            Happening::TakeOver => self.take_over(),
            Happening::Recover => self.recover(),
            Happening::ClockJump(jump) => {
                self.note(|| format!("the clock jumps by {jump} ms"));
                lock(&self.world).skew += jump;
                for index in 0..self.processes.len() {
                    self.wake(index, 0);
                }
            }
            Happening::Finish => self.finish(),
        }
    }

    fn note(&self, what: impl FnOnce() -> String) {
        lock(&self.world).note(what);
    }

    fn fail(&self, check: Check, what: impl Into<String>) {
        lock(&self.world).fail(check, what);
    }

    fn act(&mut self, attempt: usize) {
        let number = lock(&self.world).attempts[attempt].process();
        self.may_die(number, "before an effect acts");
        self.check_held(number, attempt);
        let acted = lock(&self.world).on_act(attempt);
        if acted {
            self.may_die(number, "after an effect acted, before its report");
        }
    }

    fn say(&mut self, attempt: usize) {
        let number = lock(&self.world).attempts[attempt].process();
        self.may_die(number, "before an agent says something");
        self.check_held(number, attempt);
        let said = lock(&self.world).on_say(attempt);
        let Some((number, task, turn, news)) = said else { return };
        if let Some(index) = self.processes.iter().position(|process| process.number == number) {
            self.note(|| format!("the agent of {task} says to process {number}: {news:?}"));
            self.processes[index].inbox.news(task, turn, news);
            let delay = lock(&self.world).delay(0, 6);
            self.wake(index, delay);
        }
        self.may_die(number, "after an agent said something");
    }

    fn report(&mut self, attempt: usize) {
        let report = lock(&self.world).on_report(attempt);
        let Some((number, task, input)) = report else { return };
        self.deliver(number, task, input);
        self.may_die(number, "after a report is queued");
    }

    /// A point between two cycles of a process that lives.
    fn may_die(&mut self, number: usize, what: &str) {
        let lives = self.processes.iter().any(|process| process.number == number);
        if lives && lock(&self.world).is_crash(what) {
            self.bury(number, Death::Crash);
        }
    }

    fn deliver(&mut self, number: usize, task: TaskId, input: Input) {
        if let Some(index) = self.processes.iter().position(|process| process.number == number) {
            self.processes[index].inbox.signal(task, input);
            let delay = lock(&self.world).delay(0, 6);
            self.wake(index, delay);
        }
    }
}

/// Runs a process for a while; it may die on the way.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Death> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload: Box<dyn Any + Send>| {
        if payload.is::<Crash>() {
            return Death::Crash;
        }
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Death::Panic(text.unwrap_or_default())
    })
}
