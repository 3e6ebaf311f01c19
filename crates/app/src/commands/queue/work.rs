//! `drivetrain queue run`: takes one task after the other, tries to integrate it, and does what follows from that.
//!
//! A task is noted as integrated first in its own journal, then in the queue. Killed in between, or between the branch and
//! the note, the next run finds the task where it was left and sees from the branch what is missing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use machine::Command;
use machine::driver::Registry;
use machine::id::TaskId;
use machine::queue::{self, Entry, Follow, Integration, Lane, Queue, Stage};
use machine::state::{Data, Phase};
use machine::task::Outcome;
use runtime::host::Host;
use runtime::integrate::{self, Ground, Stopped};
use runtime::process::Cancel;
use runtime::queue::QueueFile;
use runtime::station::Station;
use serde_json::{Value, json};
use view::{Line, Tone, text};

use crate::args::QueueRunArgs;
use crate::error::{CommandError, Kind};
use crate::locate::{self, Records};
use crate::take_up::{self, Untaken};
use crate::{output, signals};

/// How often it is looked whether something was added.
const GLANCE: Duration = Duration::from_millis(300);

/// How long a branch that is held up is left alone.
const HELD: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) fn run(args: &QueueRunArgs, json: bool) -> Result<u8, CommandError> {
    let home = locate::home()?;
    let file = QueueFile::of(&home);
    let _runner = match file.work().map_err(CommandError::environment)? {
        Ok(runner) => runner,
        Err(pid) => {
            let who =
                if pid == 0 { "another process".to_owned() } else { format!("process {pid}") };
            let message = format!("{who} works on the queue already");
            return Err(CommandError::new(Kind::Refused, message)
                .hint("drivetrain queue show says what it does"));
        }
    };
    let station = Station::open(&home, Arc::new(Registry::builtin()))?;
    let (stops, cancel) = (Arc::new(AtomicU32::new(0)), Cancel::new());
    listen(Arc::clone(&stops), cancel.clone(), json)?;
    let mut worker = Worker { station, file, cancel, json, tally: Tally::default() };
    let mut held: BTreeSet<Lane> = BTreeSet::new();
    let mut held_since = Instant::now();
    while stops.load(Ordering::Relaxed) == 0 {
        let queue = worker.file.read().map_err(CommandError::environment)?;
        match queue.next(&held).cloned() {
            Some(entry) => {
                if let Some(lane) = worker.take(&entry)? {
                    held_since = Instant::now();
                    held.insert(lane);
                }
                if args.once {
                    break;
                }
            }
            None if !args.watch => break,
            None => {
                std::thread::sleep(GLANCE);
                if held_since.elapsed() > HELD {
                    held.clear();
                }
            }
        }
    }
    let left = worker.file.read().map_err(CommandError::environment)?.open();
    worker.tally.conclude(left, json)
}

/// What came of a run.
#[derive(Default)]
struct Tally {
    integrated: usize,
    sent_back: usize,
    held: BTreeSet<TaskId>,
}

impl Tally {
    fn conclude(&self, left: usize, json: bool) -> Result<u8, CommandError> {
        let code = queue::exit_code(self.sent_back, self.held.len());
        if json {
            output::json(&json!({
                "v": 1, "type": "queue_ran", "integrated": self.integrated,
                "sent_back": self.sent_back, "held": self.held.len(), "waiting": left,
                "exit_code": code,
            }));
            return Ok(code);
        }
        let mut parts = vec![format!("{} integrated", self.integrated)];
        if self.sent_back > 0 {
            parts.push(format!("{} sent back", self.sent_back));
        }
        if left > 0 {
            parts.push(format!("{left} still waiting"));
        }
        let tone = if code == 0 { Tone::Good } else { Tone::Bad };
        output::lines(&[Line::new(tone, parts.join(", "))]);
        Ok(code)
    }
}

struct Worker {
    station: Station,
    file: QueueFile,
    cancel: Cancel,
    json: bool,
    tally: Tally,
}

impl Worker {
    /// Takes one entry as far as it goes; the lane, if that is held up.
    fn take(&mut self, entry: &Entry) -> Result<Option<Lane>, CommandError> {
        let (task, branch) = (&entry.task, entry.lane.branch.as_str());
        let data = match self.data(task) {
            Ok(data) => data,
            Err(error) => {
                self.refuse(entry, &error.text())?;
                return Ok(None);
            }
        };
        if let Some(done) = &data.integrated {
            // A process died before it could say so here.
            self.integrated(task, &done.clone())?;
            return Ok(None);
        }
        if !matches!(data.phase, Phase::Finished { outcome: Outcome::Verified, .. }) {
            let reason = "the task is not verified any more".to_owned();
            self.settle(task, queue::unfit(&entry.stage, reason, locate::now()))?;
            self.tally.sent_back += 1;
            self.tell("refused", Tone::Bad, task, branch, "is not verified any more", json!({}));
            return Ok(None);
        }
        self.settle(task, Stage::Integrating)?;
        self.tell("integrating", Tone::Strong, task, branch, "is being integrated", json!({}));
        let Some(follow) = self.try_until_settled(&data, branch)? else {
            self.settle(task, Stage::Waiting)?;
            return Ok(None);
        };
        match follow {
            Follow::Note(integration) => {
                let note = Command::NoteIntegration(integration.clone());
                self.give(task, note)?;
                self.integrated(task, &integration)?;
            }
            Follow::Reopen { reason, results, rebase } => {
                let reopen = Command::Reopen { reason: reason.clone(), results, rebase };
                self.give(task, reopen)?;
                let at = locate::now();
                self.settle(task, Stage::Reopened { reason: reason.clone(), at })?;
                self.tally.sent_back += 1;
                let said = format!("is reopened: {}", text::visible(&reason));
                self.tell("reopened", Tone::Bad, task, branch, &said, json!({ "reason": reason }));
                if !self.json {
                    let next = format!("  drivetrain resume {task} goes on with the failure");
                    output::lines(&[Line::new(Tone::Faint, next)]);
                }
            }
            Follow::Hold(reason) => {
                self.settle(task, Stage::Waiting)?;
                if self.tally.held.insert(task.clone()) {
                    let said = format!("has to wait: {}", text::visible(&reason));
                    self.tell("held", Tone::Ask, task, branch, &said, json!({ "reason": reason }));
                }
                return Ok(Some(entry.lane.clone()));
            }
            Follow::Refuse(reason) => self.refuse(entry, &reason)?,
            // Tried until it is something else.
            Follow::Again => {}
        }
        self.tally.held.remove(task);
        Ok(None)
    }

    /// Tries as long as others move the branch meanwhile; none if it was stopped.
    fn try_until_settled(
        &mut self,
        data: &Data,
        branch: &str,
    ) -> Result<Option<Follow>, CommandError> {
        let tree = data.frozen.as_ref().map_or("", |frozen| frozen.tree.as_str());
        let message = view::queue::message(&data.spec.goal, data.id.as_str(), tree);
        let (services, checkouts) = self.station.supervisor.performer().ground(&data.id);
        for moves in 0.. {
            let ground = Ground {
                home: &self.station.home,
                checkouts: &checkouts,
                services: &services,
                cancel: &self.cancel,
            };
            let tried = match integrate::integrate(data, branch, &message, &ground) {
                Ok(tried) => tried,
                Err(Stopped) => return Ok(None),
            };
            match queue::follow(tried, branch, moves) {
                Follow::Again => {
                    let said = "has to be tried anew: somebody else moved the branch";
                    self.tell("moved", Tone::Ask, &data.id, branch, said, json!({}));
                }
                follow => return Ok(Some(follow)),
            }
        }
        Ok(None)
    }

    /// Gives a task a command; through the process that drives it, should one.
    fn give(&mut self, task: &TaskId, command: Command) -> Result<(), CommandError> {
        match take_up::command(&mut self.station, task, command.clone()) {
            Err(Untaken::Driven(..)) => Records::open()?.give(task, command).map(drop),
            given => Ok(given?),
        }
    }

    fn data(&self, task: &TaskId) -> Result<Data, CommandError> {
        let loaded = self.station.supervisor.journal().load(task.as_str())?;
        let registry = Arc::new(Registry::builtin());
        let host = Host::fold(task, &loaded, registry, true, drop)
            .map_err(|error| CommandError::environment(error.to_string()))?;
        Ok(host.state.data().clone())
    }

    fn integrated(&mut self, task: &TaskId, done: &Integration) -> Result<(), CommandError> {
        let Integration { branch, commit, tree } = done;
        self.settle(task, Stage::Integrated { commit: commit.clone(), at: locate::now() })?;
        self.tally.integrated += 1;
        let said = format!("is in it, as {}", text::commit(commit));
        let more = json!({ "commit": commit, "tree": tree });
        self.tell("integrated", Tone::Good, task, branch, &said, more);
        Ok(())
    }

    fn refuse(&mut self, entry: &Entry, reason: &str) -> Result<(), CommandError> {
        let stage = Stage::Refused { reason: reason.to_owned(), at: locate::now() };
        self.settle(&entry.task, stage)?;
        self.tally.sent_back += 1;
        let said = format!("cannot be integrated: {}", text::visible(reason));
        let more = json!({ "reason": reason });
        self.tell("refused", Tone::Bad, &entry.task, &entry.lane.branch, &said, more);
        Ok(())
    }

    fn settle(&self, task: &TaskId, stage: Stage) -> Result<(), CommandError> {
        let change = |queue: &mut Queue| {
            queue.settle(task, stage);
            Ok(())
        };
        self.file.change(change).map_err(CommandError::environment)
    }

    fn tell(&self, kind: &str, tone: Tone, task: &TaskId, branch: &str, said: &str, more: Value) {
        if self.json {
            let mut line = json!({ "v": 1, "type": kind, "task": task, "branch": branch });
            if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
                line.extend(more);
            }
            return output::json(&line);
        }
        output::lines(&[Line::new(tone, format!("{task} → {}: {said}", text::visible(branch)))]);
    }
}

/// The first signal lets the task at hand end, the second stops it.
fn listen(stops: Arc<AtomicU32>, cancel: Cancel, json: bool) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::environment(format!("cannot listen for signals: {error}"))
    };
    let mut signals = signals::listen().map_err(failed)?;
    let hear = move || {
        for signal in signals.forever() {
            if signals::is_repeated(signal, stops.load(Ordering::Relaxed)) {
                continue;
            }
            output::stop();
            let before = stops.fetch_add(1, Ordering::Relaxed);
            let said = match before {
                0 => "letting the task at hand end; a second signal stops it now",
                _ => "stopping now",
            };
            if before > 0 {
                cancel.trigger();
            }
            let notice = json!({ "v": 1, "notice": said }).to_string();
            output::error(if json { &notice } else { said });
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(hear).map(drop).map_err(failed)
}
