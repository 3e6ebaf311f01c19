//! One run of a seed: processes that live and die, operators, and the checks after every step.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journal::JournalError;
use machine::Event;
use machine::id::TaskId;
use machine::input::{Command, Input};
use machine::state::Standing;
use machine::task::Outcome;
use runtime::inbox::Inbox;
use runtime::supervisor::{Notice, Supervisor, SupervisorError};

use crate::audit::{Check, Violation};
use crate::bug::Bug;
use crate::journal::SimulatedJournal;
use crate::people::{People, key_of};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::world::{
    Crash, Happening, Performer, Shared, SimulatedClock, Tally, World, brief, lock,
};

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

    // Processes.

    /// Opens a process; `None` if it died at once or the disk is full.
    fn open(&mut self) -> Option<usize> {
        self.made += 1;
        let number = self.made;
        let world = Arc::clone(&self.world);
        let journal = match guarded(|| SimulatedJournal::open(&world)) {
            Ok(Ok(journal)) => journal,
            Ok(Err(JournalError::Full(_))) => return None,
            Ok(Err(error)) => {
                self.give_up(number, &error.into());
                return None;
            }
            Err(death) => {
                self.bury(number, death);
                return None;
            }
        };
        let owner = journal::Journal::owner(&journal);
        self.note(|| format!("process {number} begins as owner {owner}"));
        let performer = Performer { world: Arc::clone(&world), process: number, owner };
        let inbox = Inbox::default();
        let registry = Arc::clone(&lock(&world).registry);
        let clock = Box::new(SimulatedClock(Arc::clone(&world)));
        let mut supervisor =
            Supervisor::new(Box::new(journal), performer, clock, registry, inbox.clone());
        if self.scenario.observed {
            self.listen(&mut supervisor);
        }
        self.processes.push(Process { number, owner, inbox, stops: 0, supervisor, wake: None });
        Some(self.processes.len() - 1)
    }

    fn listen(&self, supervisor: &mut Supervisor<Performer>) {
        let heard = Arc::clone(&self.heard);
        let world = Arc::clone(&self.world);
        supervisor.observe(Box::new(move |notice| match notice {
            Notice::Event(event) => {
                heard.lock().unwrap_or_else(PoisonError::into_inner).push((*event).clone());
            }
            Notice::Lost(task, reason) => {
                let mut world = lock(&world);
                world.tally.fenced += 1;
                world.note(|| format!("{task} is lost: {reason}"));
            }
            Notice::Stalled(_) | Notice::Unstalled => {}
        }));
    }

    /// A process died, alone or because the power went.
    fn bury(&mut self, number: usize, death: Death) {
        self.processes.retain(|process| process.number != number);
        if let Death::Panic(message) = death {
            return self.fail(Check::Sound, format!("process {number} panicked: {message}"));
        }
        // The power takes every process with it.
        let power = !self.random.one_in(3) && (self.processes.is_empty() || self.random.one_in(3));
        {
            let mut world = lock(&self.world);
            world.on_death(number, power);
            for other in self.processes.extract_if(.., |_| power) {
                world.on_death(other.number, power);
            }
        }
        self.hear();
        self.plan_recovery(200);
    }

    /// A process ends with an error. Only a disk that fails is a reason to.
    fn give_up(&mut self, number: usize, error: &SupervisorError) {
        if !matches!(error, SupervisorError::Journal(JournalError::Store(_))) {
            self.fail(Check::Sound, format!("process {number} fails: {error}"));
        }
        self.bury(number, Death::Crash);
    }

    fn plan_recovery(&mut self, within: u64) {
        if !std::mem::replace(&mut self.recovery_is_due, true) {
            let delay = self.random.millis(0, within);
            lock(&self.world).after(delay, Happening::Recover);
        }
    }

    fn wake(&mut self, index: usize, delay: i64) {
        let number = self.processes[index].number;
        let mut world = lock(&self.world);
        let at = world.now + delay;
        if self.processes[index].wake.is_none_or(|(wake, _)| wake > at) {
            self.processes[index].wake = Some(world.after(delay, Happening::Cycle(number)));
        }
    }

    fn cycle(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let number = process.number;
        let batch = process.inbox.take(Some(Duration::ZERO), process.stops);
        process.stops = batch.stops;
        let before = process.supervisor.outcomes().len();
        let held = self.held(index);
        let commits = {
            let mut world = lock(&self.world);
            world.tally.cycles += 1;
            let inputs: Vec<String> = batch
                .deliveries
                .iter()
                .map(|d| format!("{} {}", d.task, brief(&d.input)))
                .collect();
            world.note(|| format!("process {number} takes [{}]", inputs.join(", ")));
            world.commits
        };
        let ended = guarded(|| self.processes[index].supervisor.cycle(batch));
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return self.give_up(number, &error),
            Err(death) => return self.bury(number, death),
        }
        self.hear();
        self.check_fold(index);
        let left = held.difference(&self.held(index)).count()
            + self.processes[index].supervisor.outcomes().len().saturating_sub(before);
        self.check_syncs(index, commits, left as u64);
        self.plan_next(index);
    }

    fn plan_next(&mut self, index: usize) {
        let process = &self.processes[index];
        if process.stops > 0 && process.supervisor.is_empty() {
            let number = process.number;
            self.note(|| format!("process {number} ends"));
            self.processes.remove(index);
            lock(&self.world).on_death(number, false);
            return self.plan_recovery(300);
        }
        if let Some(patience) = process.supervisor.patience() {
            let millis = patience.as_millis().min(100_000) as i64;
            self.wake(index, millis);
        }
    }

    fn held(&self, index: usize) -> BTreeSet<TaskId> {
        let supervisor = &self.processes[index].supervisor;
        let ids = self.scenario.tasks.iter().map(|task| &task.id);
        ids.filter(|id| supervisor.host(id).is_some()).cloned().collect()
    }

    /// Who drives a task: the process that has it and that the journal says owns it.
    fn holder(&self, task: &TaskId) -> Option<usize> {
        let owner = lock(&self.world).audit.tasks.get(task).map(|task| task.owner);
        self.processes.iter().position(|process| {
            process.supervisor.host(task).is_some()
                && owner.is_none_or(|owner| owner == process.owner)
        })
    }

    // What happens in the world.

    fn act(&mut self, attempt: usize) {
        let number = lock(&self.world).attempts[attempt].process();
        self.may_die(number, "before an effect acts");
        let acted = lock(&self.world).on_act(attempt);
        if acted {
            self.may_die(number, "after an effect acted, before its report");
        }
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

    // What people do.

    fn person(&mut self) {
        let task = self.random.pick(&self.scenario.tasks).id.clone();
        let command = {
            let world = lock(&self.world);
            let Some(found) = world.audit.tasks.get(&task) else { return };
            if found.outcome().is_none() && self.random.one_in(4) {
                None
            } else {
                Some(self.people.whim(&found.state, &mut self.random))
            }
        };
        match command {
            None => self.take_up(&task),
            Some(command) => self.send(&task, command),
        }
    }

    /// Sends a command to whoever drives the task, or to the journal if nobody does.
    fn send(&mut self, task: &TaskId, command: Command) {
        let mut index = self.holder(task);
        if index.is_some() && self.random.one_in(8) {
            // An operator who talks to the wrong process is told so.
            index =
                self.processes.iter().position(|process| process.supervisor.host(task).is_some());
        }
        match index {
            Some(index) => self.send_live(index, task, command),
            None => self.send_at_rest(task, command),
        }
    }

    fn send_live(&mut self, index: usize, task: &TaskId, command: Command) {
        self.note(|| format!("operator to {task}: {}", key_of(&command)));
        self.people.sends(task, &command);
        let bug = lock(&self.world).bug;
        let (reply, answer) = sync_channel(1);
        if bug == Some(Bug::CommandIsAcknowledgedOnArrival) {
            let _ = reply.try_send(Ok(()));
        }
        let process = &self.processes[index];
        let input = Input::Command(command.clone());
        if bug == Some(Bug::CommandIsHandedOnTwice) {
            let _ = process.inbox.command(task.clone(), input.clone(), None);
        }
        let _ = process.inbox.command(task.clone(), input, Some(reply));
        self.people.awaits(task, command, answer);
        let delay = self.random.millis(0, 6);
        self.wake(index, delay);
    }

    fn send_at_rest(&mut self, task: &TaskId, command: Command) {
        let Some(index) = self.any_process() else { return };
        self.note(|| format!("operator to {task}, which nobody drives: {}", key_of(&command)));
        self.people.sends(task, &command);
        let number = self.processes[index].number;
        let sent =
            guarded(|| self.processes[index].supervisor.command_at_rest(task, command.clone()));
        match sent {
            Ok(Ok(())) => {
                let mut world = lock(&self.world);
                world.tally.acknowledged += 1;
                let kept = self.people.acknowledge(task, command, &world.audit);
                world.check(kept);
            }
            Ok(Err(
                SupervisorError::Refused(_) | SupervisorError::Journal(JournalError::Full(_)),
            )) => {}
            Ok(Err(error)) => return self.give_up(number, &error),
            Err(death) => return self.bury(number, death),
        }
        self.hear();
        self.wake(index, 0);
    }

    /// A process that lives, or a new one.
    fn any_process(&mut self) -> Option<usize> {
        let live: Vec<usize> =
            (0..self.processes.len()).filter(|index| self.processes[*index].stops == 0).collect();
        if live.is_empty() || (live.len() < 3 && self.random.one_in(4)) {
            return self.open();
        }
        Some(*self.random.pick(&live))
    }

    /// Somebody resumes a task that nobody drives; one that has ended is refused.
    fn take_up(&mut self, task: &TaskId) {
        if self.holder(task).is_none()
            && let Some(index) = self.any_process()
        {
            self.resume(index, task);
        }
    }

    fn resume(&mut self, index: usize, task: &TaskId) {
        let number = self.processes[index].number;
        let attended = self.scenario.tasks.iter().any(|plan| plan.id == *task && plan.attended);
        self.note(|| format!("process {number} takes up {task}"));
        // Taking up a paused task ends the pause.
        self.people.sends(task, &Command::Resume);
        let resumed = guarded(|| self.processes[index].supervisor.resume(task, attended));
        let finished =
            lock(&self.world).audit.tasks.get(task).is_some_and(|task| task.outcome().is_some());
        match resumed {
            Ok(Ok(())) if finished => {
                self.fail(Check::NeverRevived, format!("{task} had ended and was taken up"))
            }
            Ok(Ok(())) => {
                self.check_fold(index);
                self.wake(index, 0);
            }
            Ok(Err(SupervisorError::Refused(_))) => {}
            Ok(Err(SupervisorError::Journal(JournalError::Full(_)))) => self.plan_recovery(100),
            Ok(Err(error)) => self.give_up(number, &error),
            Err(death) => self.bury(number, death),
        }
    }

    /// Begins what is not in the journal and takes up what nobody drives and nobody paused.
    fn recover(&mut self) {
        self.recovery_is_due = false;
        let Some(index) = self.any_process() else { return self.plan_recovery(100) };
        let number = self.processes[index].number;
        for plan in self.scenario.tasks.clone() {
            let Some(index) = self.processes.iter().position(|process| process.number == number)
            else {
                return;
            };
            if self.processes[index].supervisor.host(&plan.id).is_some()
                || self.holder(&plan.id).is_some()
            {
                continue;
            }
            let known = {
                let world = lock(&self.world);
                world
                    .audit
                    .tasks
                    .get(&plan.id)
                    .map(|task| (task.outcome().is_some(), task.state.data().paused))
            };
            match known {
                None => {
                    self.note(|| format!("process {number} begins {}", plan.id));
                    let begun = self.processes[index].supervisor.begin(
                        plan.id.clone(),
                        plan.spec.clone(),
                        plan.attended,
                    );
                    if let Err(error) = begun {
                        self.fail(Check::Sound, format!("{} cannot begin: {error}", plan.id));
                    }
                    self.wake(index, 0);
                }
                Some((_, true)) => {}
                Some((true, _)) if !self.random.one_in(4) => {}
                Some(_) => self.resume(index, &plan.id),
            }
        }
    }

    /// A second process takes a task whose owner lives.
    fn take_over(&mut self) {
        let task = self.random.pick(&self.scenario.tasks).id.clone();
        let Some(holder) = self.holder(&task) else { return };
        let open =
            lock(&self.world).audit.tasks.get(&task).is_some_and(|task| task.outcome().is_none());
        if !open {
            return;
        }
        let first = self.processes[holder].number;
        self.note(|| format!("{task} is taken from process {first}"));
        if let Some(index) = self.open() {
            self.resume(index, &task);
        }
    }

    fn stop(&mut self) {
        if self.processes.is_empty() {
            return;
        }
        let index = self.random.below(self.processes.len() as u64) as usize;
        let number = self.processes[index].number;
        self.note(|| format!("process {number} is asked to stop"));
        self.processes[index].inbox.stop();
        if self.random.one_in(3) {
            self.processes[index].inbox.stop();
        }
        self.wake(index, 0);
    }

    // The end.

    /// The operators answer everything, so that every task can end.
    fn finish(&mut self) {
        self.last_rounds += 1;
        {
            let mut world = lock(&self.world);
            world.finishing = true;
            world.disk.full = false;
            world.after(100, Happening::Finish);
        }
        if self.last_rounds > LAST_ROUNDS {
            let open: Vec<String> = {
                let world = lock(&self.world);
                let tasks = world.audit.tasks.iter().filter(|(_, task)| task.outcome().is_none());
                tasks
                    .map(|(id, task)| {
                        format!("{id} {:?} {:?}", task.state.standing(), task.state.data().phase)
                    })
                    .collect()
            };
            return self.fail(Check::ComesToAnEnd, format!("still open: {}", open.join("; ")));
        }
        for plan in self.scenario.tasks.clone() {
            self.settle(&plan.id);
        }
    }

    fn settle(&mut self, task: &TaskId) {
        let commands = {
            let world = lock(&self.world);
            let Some(found) = world.audit.tasks.get(task) else {
                drop(world);
                return self.plan_recovery(0);
            };
            if found.outcome().is_some() {
                return;
            }
            let mut commands: Vec<Command> = found
                .state
                .asks()
                .iter()
                .map(|ask| self.people.reply(ask, &mut self.random))
                .collect();
            if matches!(found.state.standing(), Standing::Paused) || found.state.data().paused {
                commands.push(Command::Resume);
            }
            // What hangs for good has to be interrupted.
            if self.last_rounds.is_multiple_of(10) && world.hangs(task, &found.outstanding()) {
                commands.push(Command::Interrupt { note: format!("hangs {}", self.last_rounds) });
            }
            commands
        };
        for command in commands {
            self.send(task, command);
        }
        self.take_up(task);
    }

    fn is_over(&self) -> bool {
        let world = lock(&self.world);
        self.scenario.tasks.iter().all(|plan| {
            world.audit.tasks.get(&plan.id).is_some_and(|task| task.outcome().is_some())
        })
    }

    // Checks.

    /// Operators hear their answers and observers their events: all of it must be durable.
    fn hear(&mut self) {
        let mut world = lock(&self.world);
        match self.people.hear(&world.audit) {
            Ok(heard) => world.tally.acknowledged += heard,
            Err(violation) => world.check(Err(violation)),
        }
        let heard = std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        for event in heard {
            let kept = world
                .audit
                .tasks
                .get(&event.task)
                .and_then(|task| task.events.get(event.seq as usize - 1));
            if kept != Some(&event) {
                let what = format!(
                    "{} was shown event {} ({:?}), which is not on disk",
                    event.task, event.seq, event.kind
                );
                world.fail(Check::NothingLost, what);
            }
        }
    }

    /// The live state of every task that the process owns is the fold of its durable records.
    fn check_fold(&self, index: usize) {
        let process = &self.processes[index];
        let mut world = lock(&self.world);
        for plan in &self.scenario.tasks {
            let Some(host) = process.supervisor.host(&plan.id) else { continue };
            let Some(task) = world.audit.tasks.get(&plan.id) else { continue };
            if task.owner != process.owner {
                continue;
            }
            if host.last != task.records || host.state.save() != task.saved() {
                let what = format!(
                    "process {} has {} after {} records, the disk says {} records",
                    process.number, plan.id, host.last, task.records
                );
                return world.fail(Check::Fold, what);
            }
        }
    }

    /// A batch is one commit, however many tasks it is about; letting go of a task may take two more.
    fn check_syncs(&self, index: usize, before: u64, left: u64) {
        let process = &self.processes[index];
        let mut world = lock(&self.world);
        let commits = world.commits - before;
        if commits > 1 + 2 * left {
            let what = format!(
                "process {} made {commits} commits of one batch, letting go of {left}",
                process.number
            );
            world.fail(Check::OneSync, what);
        }
    }

    fn check_end(&mut self) -> Result<(), Violation> {
        let world = lock(&self.world);
        self.people.check(&world.audit)?;
        for plan in &self.scenario.tasks {
            let Some(task) = world.audit.tasks.get(&plan.id) else { continue };
            let Some(outcome) = task.outcome() else { continue };
            self.check_outcome(plan, outcome, &world)?;
            for event in &task.events {
                if let machine::EventKind::ToolEnded { call, tool, result, .. } = &event.kind
                    && result.text.contains("by effect")
                    && world.times(&plan.id, *call) == 0
                {
                    let what = format!("{tool} {call} of {} has a result but never ran", plan.id);
                    return Err(Violation { check: Check::TrueResult, what });
                }
            }
        }
        Ok(())
    }

    fn check_outcome(
        &self,
        plan: &crate::scenario::Plan,
        outcome: Outcome,
        world: &World,
    ) -> Result<(), Violation> {
        let sent = |word: &str| self.people.has_sent(&plan.id, |key| key.contains(word));
        let script = &plan.spec.driver.config;
        let plain = plan.spec.driver.name == "scripted" && !sent("\"hand_over\"");
        let right = match outcome {
            Outcome::Verified => {
                !plan.spec.acceptance.is_empty() && world.passed.contains_key(&plan.id)
            }
            Outcome::Completed => plan.spec.acceptance.is_empty(),
            Outcome::Cancelled => sent("\"cancel\""),
            Outcome::BudgetExhausted => {
                plan.spec.budget != machine::policy::budget::Budget::default()
            }
            Outcome::Failed if plain => {
                script["end"] == "give_up" || !plan.spec.acceptance.is_empty()
            }
            Outcome::Stuck if plain => !plan.spec.acceptance.is_empty(),
            Outcome::Failed | Outcome::Stuck => true,
            Outcome::Waiting => false,
        };
        if right {
            return Ok(());
        }
        let what = format!("{} ended as {}, which cannot be", plan.id, outcome.word());
        Err(Violation { check: Check::RightOutcome, what })
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
