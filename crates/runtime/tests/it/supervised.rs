//! The supervisor over the real journal: how many syncs a step costs, what a full disk and a second owner do.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::sqlite::SqliteJournal;
use journal::{Entry, Journal, JournalError, Loaded, Record, Report, TaskRow};
use machine::driver::Registry;
use machine::driver::scripted::ScriptedKind;
use machine::effect::Effect;
use machine::event::{EventKind, Loss};
use machine::id::{EffectId, TaskId};
use machine::input::Command;
use machine::stream::{Interruption, StreamEvent};
use machine::task::{DriverSpec, Outcome, TaskSpec, WorkspaceKind, WorkspaceSpec};
use machine::time::{Span, Timestamp};
use runtime::clock::{Clock, SystemClock};
use runtime::home::Home;
use runtime::host::Host;
use runtime::inbox::Inbox;
use runtime::perform::Perform;
use runtime::supervisor::{Notice, Supervisor, SupervisorError};
use runtime::world::World;
use serde_json::{Value, json};

fn registry() -> Arc<Registry> {
    let mut registry = Registry::builtin();
    registry.register(Arc::new(ScriptedKind));
    Arc::new(registry)
}

fn spec(config: Value) -> TaskSpec {
    TaskSpec {
        workspace: WorkspaceSpec { kind: Some(WorkspaceKind::None), ..WorkspaceSpec::default() },
        sandbox: machine::policy::sandbox::SandboxSpec::off(),
        ..TaskSpec::new("be counted", DriverSpec::new("scripted", config), "/")
    }
}

fn steps(count: u64) -> TaskSpec {
    let say = json!({ "tool": "say", "input": { "text": "x" } });
    spec(json!({ "turns": [[say]], "repeat": count - 1 }))
}

fn supervisor(home: &Home, journal: Box<dyn Journal>) -> Supervisor<World> {
    let inbox = Inbox::default();
    let world = World::new(inbox.clone(), home, home.marks(0));
    Supervisor::new(journal, world, Box::new(SystemClock), registry(), inbox)
}

/// A clock that somebody sets, on a machine that sleeps.
#[derive(Clone, Default)]
struct SetClock(Arc<AtomicI64>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::Relaxed))
    }

    fn awake(&self) -> Span {
        SystemClock.awake()
    }
}

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path());
    home.create().unwrap();
    (folder, home)
}

fn id(name: &str) -> TaskId {
    TaskId(name.to_owned())
}

/// Syncs of `tasks` tasks of `count` steps each, run together to their end.
fn syncs(tasks: u64, count: u64) -> u64 {
    let (_folder, home) = home();
    let mut supervisor = supervisor(&home, Box::new(SqliteJournal::open(&home.journal()).unwrap()));
    for task in 0..tasks {
        supervisor.begin(id(&format!("t{task}")), steps(count), false).unwrap();
    }
    let before = supervisor.journal().syncs();
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes().len() as u64, tasks);
    supervisor.journal().syncs() - before
}

const HOUR: i64 = 3_600_000;

fn supervisor_by(clock: &SetClock, home: &Home, journal: Box<dyn Journal>) -> Supervisor<World> {
    let inbox = Inbox::default();
    let world = World::new(inbox.clone(), home, home.marks(0));
    Supervisor::new(journal, world, Box::new(clock.clone()), registry(), inbox)
}

/// One round, with what has come in by then.
fn round(supervisor: &mut Supervisor<World>) {
    let batch = supervisor.inbox().take(supervisor.patience(), 0);
    supervisor.cycle(batch).unwrap();
}

fn charged(supervisor: &Supervisor<World>, task: &str) -> u64 {
    let loaded = supervisor.journal().load(task).unwrap();
    Host::fold(&id(task), &loaded, registry(), true, drop).unwrap().state.data().spend.millis
}

#[test]
fn time_in_which_the_machine_slept_is_not_the_tasks() {
    let (_folder, home) = home();
    let clock = SetClock::default();
    let journal = Box::new(SqliteJournal::open(&home.journal()).unwrap());
    let mut supervisor = supervisor_by(&clock, &home, journal);
    let mut task = steps(3);
    task.budget.max_time = Some(Span::seconds(3600));
    supervisor.begin(id("night"), task, false).unwrap();
    for hours in [8, 8 + 24 * 3650] {
        round(&mut supervisor);
        clock.0.store(hours * HOUR, Ordering::Relaxed);
    }
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes()[&id("night")], Outcome::Completed);
    let charged = charged(&supervisor, "night");
    assert!(charged < HOUR.unsigned_abs(), "{charged} ms");
}

#[test]
fn neither_is_it_of_a_task_that_is_let_go_as_soon_as_a_full_disk_has_space() {
    let (_folder, home) = home();
    let clock = SetClock::default();
    let journal = Watched::of(&home);
    let left = Arc::clone(&journal.left);
    let mut supervisor = supervisor_by(&clock, &home, Box::new(journal));
    supervisor
        .begin(id("night"), spec(json!({ "turns": [], "end": "wait_for_person" })), false)
        .unwrap();
    round(&mut supervisor);
    *left.lock().unwrap() = 1;
    round(&mut supervisor);
    assert_eq!(*left.lock().unwrap(), 0);
    clock.0.store(8 * HOUR, Ordering::Relaxed);
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes()[&id("night")], Outcome::Waiting);
    let charged = charged(&supervisor, "night");
    assert!(charged < HOUR.unsigned_abs(), "{charged} ms");
}

#[test]
fn time_in_which_nobody_drove_it_is_not_the_tasks_though_the_machine_sleeps_when_it_is_taken_up() {
    let (_folder, home) = home();
    let clock = SetClock::default();
    let open = || Box::new(SqliteJournal::open(&home.journal()).unwrap());
    let mut lost = supervisor_by(&clock, &home, open());
    lost.begin(id("night"), steps(3), false).unwrap();
    round(&mut lost);
    drop(lost);
    clock.0.store(HOUR, Ordering::Relaxed);
    let mut supervisor = supervisor_by(&clock, &home, open());
    supervisor.resume(&id("night"), false).unwrap();
    clock.0.store(9 * HOUR, Ordering::Relaxed);
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes()[&id("night")], Outcome::Completed);
    let charged = charged(&supervisor, "night");
    assert!(charged < HOUR.unsigned_abs(), "{charged} ms");
}

#[test]
fn a_dependent_step_costs_exactly_one_sync_and_overlapping_tasks_share_it() {
    // Start and attach are one commit, the workspace one, and the summary at the end one.
    let around = 3;
    assert_eq!(syncs(1, 1), 1 + around);
    assert_eq!(syncs(1, 50), 50 + around);
    assert_eq!(syncs(10, 50), 50 + around);
    assert_eq!(syncs(100, 20), 20 + around);
    // More begin in groups: the first is at work while the last is written. Each of the two others begins one commit
    // behind the one before it, and is put down by itself.
    assert_eq!(syncs(300, 20), 20 + around + 2 * 2);
}

/// A journal that tells what is written, and whose disk is full for a while.
struct Watched {
    inner: SqliteJournal,
    left: Arc<Mutex<u32>>,
    written: Arc<Mutex<Written>>,
    /// Claims what is claimed here right after.
    rival: Option<SqliteJournal>,
}

/// How many bytes of which kind, and how many snapshots.
#[derive(Debug, Default)]
struct Written {
    records: usize,
    snapshots: usize,
    count: u64,
}

impl Watched {
    fn of(home: &Home) -> Watched {
        let inner = SqliteJournal::open(&home.journal()).unwrap();
        Watched { inner, left: Arc::default(), written: Arc::default(), rival: None }
    }
}

impl Journal for Watched {
    fn owner(&self) -> u64 {
        self.inner.owner()
    }
    fn commit(&mut self, entries: &[Entry<'_>]) -> Result<(), JournalError> {
        let mut left = self.left.lock().unwrap();
        if *left > 0 {
            *left -= 1;
            return Err(JournalError::Full("no space left on device".to_owned()));
        }
        let mut written = self.written.lock().unwrap();
        for entry in entries {
            match entry {
                Entry::Record { body, .. } => written.records += body.len(),
                Entry::Snapshot { body, .. } => {
                    written.snapshots += body.len();
                    written.count += 1;
                }
                Entry::Create { .. } | Entry::Summary { .. } => {}
            }
        }
        self.inner.commit(entries)
    }
    fn claim(&mut self, task: &str) -> Result<u64, JournalError> {
        let claimed = self.inner.claim(task);
        if let Some(mut rival) = self.rival.take() {
            rival.claim(task)?;
        }
        claimed
    }
    fn claim_from(&mut self, task: &str, from: u64) -> Result<u64, JournalError> {
        self.inner.claim_from(task, from)
    }
    fn load(&self, task: &str) -> Result<Loaded, JournalError> {
        self.inner.load(task)
    }
    fn records(&self, task: &str, after: u64) -> Result<Vec<Record>, JournalError> {
        self.inner.records(task, after)
    }
    fn task(&self, task: &str) -> Result<TaskRow, JournalError> {
        self.inner.task(task)
    }
    fn find(&self, prefix: &str, limit: usize) -> Result<Vec<String>, JournalError> {
        self.inner.find(prefix, limit)
    }
    fn list(&self, limit: usize, before: Option<i64>) -> Result<Vec<TaskRow>, JournalError> {
        self.inner.list(limit, before)
    }
    fn open_tasks(&self) -> Result<Vec<TaskRow>, JournalError> {
        self.inner.open_tasks()
    }
    fn verify(&self) -> Report {
        self.inner.verify()
    }
    fn syncs(&self) -> u64 {
        self.inner.syncs()
    }
}

/// What is written for a task that is run to its end; what is folded with a snapshot and without is the same.
fn written_for(task: TaskSpec) -> Written {
    let (_folder, home) = home();
    let journal = Watched::of(&home);
    let written = Arc::clone(&journal.written);
    let mut supervisor = supervisor(&home, Box::new(journal));
    supervisor.begin(id("t"), task, false).unwrap();
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes()[&id("t")], Outcome::Completed);
    let folded = |loaded: &Loaded| {
        let host = Host::fold(&id("t"), loaded, registry(), true, drop).unwrap();
        serde_json::to_string(&host.state.save()).unwrap()
    };
    let loaded = supervisor.journal().load("t").unwrap();
    let written = std::mem::take(&mut *written.lock().unwrap());
    assert_eq!(loaded.snapshot.is_some(), written.count > 0);
    let records = supervisor.journal().records("t", 0).unwrap();
    assert_eq!(folded(&loaded), folded(&Loaded { snapshot: None, records }));
    written
}

/// A workflow of so many steps that begins anew a few times.
fn rounds(steps: u64, again: u64) -> TaskSpec {
    let said = "x".repeat(300);
    let step = |n| {
        let mut step =
            json!({ "name": format!("s{n}"), "tool": "say", "parameters": { "text": said } });
        if again > 0 && n + 1 == steps {
            step["then"] = json!("s0");
            step["max_visits"] = json!(again);
            step["when"] = json!(format!("visits.s0 <= {again}"));
        }
        step
    };
    let config = json!({ "name": "row", "steps": (0..steps).map(step).collect::<Vec<_>>() });
    let driver = DriverSpec::new("workflow", config);
    TaskSpec { driver, ..spec(json!({})) }
}

#[test]
fn a_workflow_of_many_steps_is_not_written_again_and_again() {
    let written = written_for(rounds(2500, 0));
    assert!(written.count <= 1, "one is as long as all that happened: {written:?}");
    let written = written_for(rounds(700, 3));
    assert!((1..=3).contains(&written.count), "{written:?}");
    assert!(written.snapshots <= written.records, "{written:?}");
}

#[test]
fn a_small_state_is_written_every_thousand_records() {
    let written = written_for(steps(2_500));
    assert_eq!(written.count, 2, "{written:?}");
}

#[test]
fn a_full_disk_only_delays_and_is_said_once() {
    let (_folder, home) = home();
    let journal = Watched::of(&home);
    let left = Arc::clone(&journal.left);
    let mut supervisor = supervisor(&home, Box::new(journal));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&heard);
    supervisor.observe(Box::new(move |notice| match notice {
        Notice::Stalled(reason) => notes.lock().unwrap().push(format!("stalled: {reason}")),
        Notice::Unstalled => notes.lock().unwrap().push("unstalled".to_owned()),
        Notice::Event(_) | Notice::Streamed(..) | Notice::Room(_) | Notice::Lost(..) => {}
    }));
    supervisor.begin(id("t"), steps(3), false).unwrap();
    *left.lock().unwrap() = 2;
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes()[&id("t")], Outcome::Completed);
    assert_eq!(*heard.lock().unwrap(), ["stalled: no space left on device", "unstalled"]);
    let loaded = supervisor.journal().records("t", 0).unwrap();
    assert_eq!(loaded.len(), 6, "start, attach, workspace, three steps: nothing twice");
}

#[test]
fn whoever_is_asked_to_stop_waits_for_a_full_disk_no_longer_than_for_work() {
    let (_folder, home) = home();
    let journal = Watched::of(&home);
    *journal.left.lock().unwrap() = u32::MAX;
    let (time, inbox) = (Arc::new(AtomicI64::new(1_000)), Inbox::default());
    let clock = Box::new(SetClock(Arc::clone(&time)));
    let mut supervisor =
        Supervisor::new(Box::new(journal), Noted::default(), clock, registry(), inbox.clone());
    // Its grace is over as soon as there is no room.
    supervisor.observe(Box::new(move |notice| {
        if matches!(notice, Notice::Stalled(_)) {
            time.fetch_add(10_000, Ordering::SeqCst);
        }
    }));
    supervisor.begin(id("t"), steps(3), false).unwrap();
    inbox.stop();
    let ended = supervisor.run();
    assert!(matches!(ended, Err(SupervisorError::Journal(JournalError::Full(_)))), "{ended:?}");
}

#[test]
fn a_task_claimed_by_another_process_is_let_go_and_the_rest_goes_on() {
    let (_folder, home) = home();
    let mut first = supervisor(&home, Box::new(SqliteJournal::open(&home.journal()).unwrap()));
    let waiting = spec(json!({ "turns": [], "end": "wait_for_person" }));
    first.begin(id("a"), waiting.clone(), true).unwrap();
    first.begin(id("b"), waiting, true).unwrap();
    for _ in 0..3 {
        let batch = first.inbox().clone().take(Some(std::time::Duration::from_millis(20)), 0);
        first.cycle(batch).unwrap();
    }
    let mut second = SqliteJournal::open(&home.journal()).unwrap();
    second.claim("a").unwrap();

    let tell = |supervisor: &mut Supervisor<World>, task: &str| {
        let (sender, answer) = sync_channel(1);
        let line = Command::tell("done");
        supervisor.inbox().command(id(task), line.into(), Some(sender)).unwrap();
        let batch = supervisor.inbox().clone().take(Some(std::time::Duration::ZERO), 0);
        supervisor.cycle(batch).unwrap();
        answer.try_recv()
    };
    assert!(tell(&mut first, "a").is_err(), "never acknowledged");
    assert!(first.host(&id("a")).is_none());
    assert_eq!(tell(&mut first, "b"), Ok(Ok(())));
    assert_eq!(first.outcomes()[&id("b")], Outcome::Completed);
    assert_eq!(second.records("a", 0).unwrap().len(), 3, "the fenced owner wrote nothing");
}

#[test]
fn a_command_to_a_task_at_rest_is_journaled_and_starts_nothing() {
    let (_folder, home) = home();
    let mut first = supervisor(&home, Box::new(SqliteJournal::open(&home.journal()).unwrap()));
    first.begin(id("a"), spec(json!({ "turns": [], "end": "wait_for_person" })), false).unwrap();
    first.run().unwrap();
    assert_eq!(first.outcomes()[&id("a")], Outcome::Waiting);
    drop(first);

    let mut second = supervisor(&home, Box::new(SqliteJournal::open(&home.journal()).unwrap()));
    second.command_at_rest(&id("a"), Command::tell("done")).unwrap();
    assert!(second.is_empty());
    let refused = second.command_at_rest(&id("a"), Command::tell("done")).unwrap_err();
    assert!(refused.to_string().contains("does not wait"), "{refused}");
    second.resume(&id("a"), false).unwrap();
    second.run().unwrap();
    assert_eq!(second.outcomes()[&id("a")], Outcome::Completed);
    assert!(
        second.resume(&id("a"), false).unwrap_err().to_string().contains("has ended: completed")
    );
    let cancel = Command::Cancel { reason: String::new() };
    assert!(second.command_at_rest(&id("a"), cancel).is_err());
}

/// Whoever gives a command to a task that nobody drives and whoever takes the task up may meet: the command is not lost
/// in silence, and the task is not left by both.
#[test]
fn a_command_to_a_task_that_is_being_taken_up_gives_way_and_says_so() {
    let (_folder, home) = home();
    let open = || SqliteJournal::open(&home.journal()).unwrap();
    let mut first = supervisor(&home, Box::new(open()));
    first.begin(id("a"), spec(json!({ "turns": [], "end": "wait_for_person" })), false).unwrap();
    first.run().unwrap();
    let seen = first.journal().task("a").unwrap().owner;
    drop(first);
    let tell = || Command::tell("done");
    let fenced = |error: SupervisorError| match error {
        SupervisorError::Journal(JournalError::Fenced { by, .. }) => by,
        other => panic!("{other}"),
    };

    // It was taken up after it was looked at.
    let mut driving = supervisor(&home, Box::new(open()));
    driving.resume(&id("a"), false).unwrap();
    let mut teller = supervisor(&home, Box::new(open()));
    let by = teller.command_at_rest_from(&id("a"), seen, tell()).unwrap_err();
    assert_eq!(fenced(by), driving.journal().owner());
    assert!(teller.is_empty());
    driving.run().unwrap();
    assert_eq!(driving.outcomes()[&id("a")], Outcome::Waiting, "it goes on undisturbed");
    let before = driving.journal().records("a", 0).unwrap().len();

    // It is taken up between the claim and the record.
    let rival = open();
    let owner = rival.owner();
    let mut teller =
        supervisor(&home, Box::new(Watched { rival: Some(rival), ..Watched::of(&home) }));
    assert_eq!(fenced(teller.command_at_rest(&id("a"), tell()).unwrap_err()), owner);
    assert_eq!(teller.journal().records("a", 0).unwrap().len(), before, "nothing was written");
}

/// Starts nothing, and notes in which order tasks are stopped and waited for.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl Perform for Noted {
    fn start(&mut self, _task: &TaskId, _effect: Effect) {}

    fn cancel(&mut self, _task: &TaskId, _target: EffectId) {}

    fn stop(&mut self, task: &TaskId) {
        self.0.lock().unwrap().push(format!("stop {task}"));
    }

    fn release(&mut self, task: &TaskId) {
        self.0.lock().unwrap().push(format!("release {task}"));
    }
}

/// Has lost files of every task that it takes up, and notes who was told.
#[derive(Clone, Default)]
struct Lossy(Arc<Mutex<Vec<TaskId>>>);

impl Perform for Lossy {
    fn start(&mut self, _task: &TaskId, _effect: Effect) {}

    fn cancel(&mut self, _task: &TaskId, _target: EffectId) {}

    fn taken_up(&mut self, _task: &TaskId) -> Option<(Loss, Result<u32, String>)> {
        Some((Loss::Restart, Ok(1)))
    }

    fn told_of_loss(&mut self, task: &TaskId) {
        self.0.lock().unwrap().push(task.clone());
    }

    fn release(&mut self, _task: &TaskId) {}
}

#[test]
fn a_loss_counts_as_told_once_it_is_in_the_journal() {
    let (_folder, home) = home();
    let started = || {
        let (inbox, lossy) = (Inbox::default(), Lossy::default());
        let journal = Box::new(SqliteJournal::open(&home.journal()).unwrap());
        let clock = Box::new(SystemClock);
        let supervisor = Supervisor::new(journal, lossy.clone(), clock, registry(), inbox.clone());
        (supervisor, inbox, lossy)
    };
    let (mut first, inbox, _) = started();
    for name in ["a", "b"] {
        first.begin(id(name), steps(1), false).unwrap();
    }
    first.cycle(inbox.take(Some(Duration::ZERO), 0)).unwrap();
    drop(first);
    // Killed after it has taken them up.
    let (mut killed, _, lossy) = started();
    killed.resume(&id("a"), false).unwrap();
    killed.resume(&id("b"), false).unwrap();
    assert_eq!(*lossy.0.lock().unwrap(), []);
    drop(killed);
    let (mut next, inbox, lossy) = started();
    next.resume(&id("b"), false).unwrap();
    next.cycle(inbox.take(Some(Duration::ZERO), 0)).unwrap();
    assert_eq!(*lossy.0.lock().unwrap(), [id("b")]);
}

#[test]
fn whoever_is_told_to_stop_now_stops_all_tasks_before_waiting_for_any() {
    let (_folder, home) = home();
    let (inbox, noted) = (Inbox::default(), Noted::default());
    let journal = Box::new(SqliteJournal::open(&home.journal()).unwrap());
    let mut supervisor =
        Supervisor::new(journal, noted.clone(), Box::new(SystemClock), registry(), inbox.clone());
    for name in ["a", "b", "c"] {
        supervisor
            .begin(id(name), TaskSpec { workspace: WorkspaceSpec::default(), ..steps(1) }, false)
            .unwrap();
    }
    supervisor.cycle(inbox.take(Some(Duration::ZERO), 0)).unwrap();
    inbox.stop();
    inbox.stop();
    supervisor.run().unwrap();
    let order = noted.0.lock().unwrap();
    assert_eq!(order[..4], ["stop a", "stop b", "stop c", "release a"], "{order:?}");
}

#[test]
fn many_tasks_run_their_processes_at_once_and_all_end() {
    let (folder, home) = home();
    let mut supervisor = supervisor(&home, Box::new(SqliteJournal::open(&home.journal()).unwrap()));
    for task in 0..8 {
        let shell = |text: &str| json!({ "tool": "shell", "input": { "command": text } });
        let mut task_spec =
            spec(json!({ "turns": [[shell("echo 1"), shell("echo 2")], [shell("exit 3")]] }));
        task_spec.workspace.kind = Some(WorkspaceKind::InPlace);
        task_spec.folder = folder.path().to_str().unwrap().to_owned();
        supervisor.begin(id(&format!("t{task}")), task_spec, false).unwrap();
    }
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes().len(), 8);
    assert!(supervisor.outcomes().values().all(|outcome| *outcome == Outcome::Completed));
}

#[test]
fn changes_of_one_file_that_are_asked_for_at_once_are_all_made_in_their_order() {
    let (folder, home) = home();
    let mut supervisor = supervisor(&home, Box::new(SqliteJournal::open(&home.journal()).unwrap()));
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    // Each changes what the one before made; a large file keeps each of them busy for a while.
    std::fs::write(work.join("f"), format!("n0;{}", "x".repeat(1 << 20))).unwrap();
    let edit = |n: u32| {
        let (old, new) = (format!("n{n};"), format!("n{};", n + 1));
        json!({ "tool": "edit", "input": { "path": "f", "old": old, "new": new } })
    };
    let edits: Vec<Value> = (0..20).map(edit).collect();
    let mut task = spec(json!({ "turns": [edits] }));
    task.workspace.kind = Some(WorkspaceKind::InPlace);
    task.folder = work.to_str().unwrap().to_owned();
    supervisor.begin(id("t"), task, false).unwrap();
    supervisor.run().unwrap();
    let after = std::fs::read_to_string(work.join("f")).unwrap();
    assert_eq!(&after[..5], "n20;x");
}

#[test]
fn what_a_model_says_is_heard_before_its_answer_and_is_not_journaled() {
    let (folder, home) = home();
    std::fs::write(folder.path().join("s.toml"), "[[reply]]\ntext = \"hello there\"\n").unwrap();
    let mut supervisor = supervisor(&home, Box::new(SqliteJournal::open(&home.journal()).unwrap()));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&heard);
    supervisor.follow(Box::new(move |notice| match notice {
        Notice::Streamed(_, events) => {
            let mut notes = notes.lock().unwrap();
            notes.extend(events.iter().map(|event| serde_json::to_string(event).unwrap()));
        }
        Notice::Event(event) if matches!(event.kind, EventKind::ModelReplied { .. }) => {
            notes.lock().unwrap().push("replied".to_owned());
        }
        _ => {}
    }));
    let mut task = spec(json!({ "model": "script/s.toml" }));
    task.driver.name = "llm".to_owned();
    task.folder = folder.path().to_str().unwrap().to_owned();
    supervisor.begin(id("t"), task, false).unwrap();
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes()[&id("t")], Outcome::Completed);
    assert_eq!(
        *heard.lock().unwrap(),
        [
            r#"{"type":"message_start","id":"script-1","model":"script"}"#,
            r#"{"type":"text_delta","index":0,"text":"hello there"}"#,
            r#"{"type":"message_delta","usage":{},"stop":"end_turn"}"#,
            r#"{"type":"message_stop"}"#,
            "replied",
        ]
    );
    assert_eq!(
        supervisor.journal().records("t", 0).unwrap().len(),
        4,
        "start, attach, workspace, reply"
    );
}

/// A task of a scripted model, and what it streams.
fn streaming(script: &str) -> (tempfile::TempDir, Supervisor<World>, Arc<Mutex<Vec<StreamEvent>>>) {
    let (folder, home) = home();
    std::fs::write(folder.path().join("s.toml"), script).unwrap();
    let mut supervisor = supervisor(&home, Box::new(SqliteJournal::open(&home.journal()).unwrap()));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&heard);
    supervisor.follow(Box::new(move |notice| {
        if let Notice::Streamed(_, events) = notice {
            notes.lock().unwrap().extend_from_slice(events);
        }
    }));
    let mut task = spec(json!({ "model": "script/s.toml" }));
    task.driver.name = "llm".to_owned();
    task.folder = folder.path().to_str().unwrap().to_owned();
    supervisor.begin(id("t"), task, false).unwrap();
    (folder, supervisor, heard)
}

#[test]
fn an_interrupt_ends_the_running_answer_and_nothing_of_it_comes_later() {
    let script = "[[reply]]\ntext = \"one two three four five\"\nstall = \"60s\"\n[[reply]]\ntext = \"well\"\n";
    let (_folder, mut supervisor, heard) = streaming(script);
    let inbox = supervisor.inbox().clone();
    let is_partial = |heard: &Arc<Mutex<Vec<StreamEvent>>>| {
        heard.lock().unwrap().iter().any(|event| matches!(event, StreamEvent::TextDelta { .. }))
    };
    while !is_partial(&heard) {
        let batch = inbox.take(Some(std::time::Duration::from_millis(20)), 0);
        supervisor.cycle(batch).unwrap();
    }
    // What comes late, from a call that is not under way, is not told.
    let late = StreamEvent::TextDelta { index: 0, text: "late".to_owned() };
    inbox.feed(id("t"), EffectId(999)).push(&mut vec![late]);
    inbox.command(id("t"), Command::Interrupt { note: "stop".to_owned() }.into(), None).unwrap();
    supervisor.run().unwrap();
    let heard = heard.lock().unwrap();
    let types: Vec<String> = heard
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    let one = ["message_start", "text_delta", "interrupted"];
    let two = ["message_start", "text_delta", "message_delta", "message_stop"];
    assert_eq!(types, [&one[..], &two[..]].concat());
    assert_eq!(heard[2], StreamEvent::Interrupted { reason: Interruption::Operator });
}

#[test]
fn results_carry_the_id_of_their_call_and_failures_are_told() {
    let script = r#"
[[reply]]
status = 529
retry_after = "0s"

[[reply]]
tool_calls = [{ tool = "say", id = "one", input = { text = "a" } }, { tool = "nothing", id = "two" }]

[[reply]]
text = "Done."
"#;
    let (_folder, mut supervisor, heard) = streaming(script);
    supervisor.run().unwrap();
    let heard = heard.lock().unwrap();
    let StreamEvent::Error { kind, again_in, .. } = &heard[0] else { panic!("{:?}", heard[0]) };
    assert_eq!((kind.as_str(), again_in.is_some()), ("overloaded", true));
    let results: Vec<(&str, bool)> = heard
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ToolResult { id, is_error, .. } => Some((&**id, *is_error)),
            _ => None,
        })
        .collect();
    // Nobody knows what the second would change, so it waits for the first.
    assert_eq!(results, [("one", false), ("two", true)]);
    assert_eq!(heard.last(), Some(&StreamEvent::MessageStop));
}

#[test]
fn an_answer_that_no_record_can_hold_fails_its_call_and_leaves_other_tasks_alone() {
    // Each of these is two characters of JSON, so that the file is smaller than the record would be.
    let script = format!("[[reply]]\ntext = '{}'\n", "\\".repeat((4 << 20) - 30));
    let (_folder, mut supervisor, _) = streaming(&script);
    supervisor.begin(id("other"), steps(5), false).unwrap();
    supervisor.run().unwrap();
    assert_eq!(supervisor.outcomes()[&id("other")], Outcome::Completed);
    assert_eq!(supervisor.outcomes()[&id("t")], Outcome::Failed);
    let loaded = supervisor.journal().load("t").unwrap();
    let host = Host::fold(&id("t"), &loaded, registry(), true, drop).unwrap();
    let why = format!("{:?}", host.state.standing());
    assert!(why.contains("output_too_large") || why.contains("at most 8388608"), "{why}");
}

#[test]
fn a_task_or_a_command_that_no_record_can_hold_is_refused() {
    let (_folder, home) = home();
    let mut supervisor = supervisor(&home, Box::new(SqliteJournal::open(&home.journal()).unwrap()));
    let large = || "x".repeat(9 << 20);
    let task = TaskSpec { goal: large(), ..steps(1) };
    let refused = supervisor.begin(id("large"), task.clone(), false).unwrap_err();
    assert!(refused.to_string().contains("at most 8388608"), "{refused}");
    assert!(supervisor.lay_down(&id("large"), task).is_err());
    assert!(supervisor.is_empty());
    supervisor.begin(id("small"), steps(2), false).unwrap();
    let (sender, answer) = sync_channel(1);
    let note = Command::Steer { text: large() };
    supervisor.inbox().command(id("small"), note.into(), Some(sender)).unwrap();
    supervisor.run().unwrap();
    let answer = answer.try_recv().unwrap();
    assert!(format!("{answer:?}").contains("at most 8388608"), "{answer:?}");
    assert_eq!(supervisor.outcomes()[&id("small")], Outcome::Completed);
}
