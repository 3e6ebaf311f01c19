//! One run: a server for each task, and processes one after the other that drive all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use journal::Journal;
use journal::sqlite::SqliteJournal;
use machine::driver::Registry;
use machine::effect::Effect;
use machine::id::{EffectId, TaskId};
use machine::input::{Command, Input, Signal};
use machine::state::Pending;
use machine::task::{DriverSpec, Outcome, TaskSpec, WorkspaceKind, WorkspaceSpec};
use machine::time::{Span, Timestamp};
use runtime::clock::Clock;
use runtime::fake::{self, Fake};
use runtime::home::Home;
use runtime::host::Host;
use runtime::http::Limits;
use runtime::inbox::{Delivery, Inbox};
use runtime::model::Models;
use runtime::perform::Perform;
use runtime::providers::Environment;
use runtime::supervisor::Supervisor;
use runtime::world::World;
use serde_json::{Value, json};
use wire::model::script::Served;

use crate::faults::{self, MODEL, Step};
use crate::random::Random;

/// How much faster than the machine's clock the tasks' time runs: waits of seconds take milliseconds.
const PACE: u64 = 200;

/// Nothing may take longer; far more than it takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// One conversation, and its own server.
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) served: Served,
    pub(crate) steps: Vec<Step>,
    pub(crate) server: Arc<Fake>,
    pub(crate) folder: PathBuf,
}

/// A tool that was really started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Started {
    pub(crate) task: TaskId,
    pub(crate) input: Value,
    pub(crate) repeated: bool,
}

/// Whether somebody says something to the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum People {
    Interfere,
    Absent,
}

pub(crate) struct Run {
    random: Random,
    pub(crate) tasks: Vec<Task>,
    pub(crate) home: Home,
    _folder: tempfile::TempDir,
    clock: FastClock,
    pub(crate) outcomes: BTreeMap<TaskId, Outcome>,
    pub(crate) started: Arc<Mutex<Vec<Started>>>,
    /// Tasks that were held by a process that died.
    pub(crate) survivors: BTreeSet<TaskId>,
    pub(crate) crashes: u32,
    /// Answers that had come whole to a process that died before they were journaled: the task, and the answer's id.
    pub(crate) in_hand: BTreeSet<(TaskId, String)>,
    /// How often a process died while a task waited for an answer that had not come.
    pub(crate) cut: BTreeMap<TaskId, usize>,
    people: People,
    pub(crate) acts: BTreeMap<&'static str, u32>,
    /// How often people interfered with a task.
    bothered: BTreeMap<TaskId, u32>,
}

impl Run {
    pub(crate) fn new(seed: u64, tasks: u64) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("home"));
        home.create().unwrap();
        let mut random = Random::new(seed, 1);
        let task = |n: u64| {
            let served = Served::ALL[(n % 5) as usize];
            let folder = folder.path().join(format!("t{n}"));
            Task::new(n, served, folder, &mut random)
        };
        let tasks = (0..tasks).map(task).collect();
        Run {
            random: Random::new(seed, 2),
            tasks,
            home,
            _folder: folder,
            clock: FastClock(Instant::now()),
            outcomes: BTreeMap::new(),
            started: Arc::default(),
            survivors: BTreeSet::new(),
            crashes: 0,
            in_hand: BTreeSet::new(),
            cut: BTreeMap::new(),
            people: People::Interfere,
            acts: BTreeMap::new(),
            bothered: BTreeMap::new(),
        }
    }

    /// The same, with nobody around.
    pub(crate) fn alone(seed: u64, tasks: u64) -> Run {
        Run { people: People::Absent, ..Run::new(seed, tasks) }
    }

    /// A new process takes up what has not ended, and dies at a random moment with what it was just told.
    pub(crate) fn drive_a_while(&mut self) {
        let mut supervisor = self.take_up();
        let inbox = supervisor.inbox().clone();
        for _ in 0..self.random.below(12) {
            let wait = supervisor.patience().map_or(20, |wait| wait.as_millis() as u64 / PACE);
            supervisor
                .cycle(inbox.take(Some(Duration::from_millis(wait.clamp(1, 20))), 0))
                .unwrap();
        }
        let mut told = inbox.take(Some(Duration::from_millis(20)), 0).deliveries;
        for task in &self.tasks {
            supervisor.performer().release(&task.id);
        }
        told.extend(inbox.take(Some(Duration::ZERO), 0).deliveries);
        self.note_lost(&supervisor, told);
        self.outcomes.extend(supervisor.outcomes().clone());
        self.crash(supervisor);
    }

    /// Keeps in mind what the process was asking when it died.
    fn note_lost(&mut self, supervisor: &Supervisor<Watched>, told: Vec<Delivery>) {
        let mut came = BTreeMap::new();
        for delivery in told {
            if let Input::Signal(Signal::ModelReplied(_, answer)) = delivery.input
                && let Ok(reply) = *answer
            {
                came.insert(delivery.task, reply.id);
            }
        }
        for task in &self.tasks {
            let Some(host) = supervisor.host(&task.id) else { continue };
            if !host.state.data().pending.values().any(|pending| *pending == Pending::Model) {
                continue;
            }
            match came.remove(&task.id) {
                Some(answer) => drop(self.in_hand.insert((task.id.clone(), answer))),
                None => *self.cut.entry(task.id.clone()).or_default() += 1,
            }
        }
    }

    /// A new process, with everything that has not ended.
    fn take_up(&self) -> Supervisor<Watched> {
        let mut supervisor = self.process();
        let is_first = self.crashes == 0;
        for task in self.tasks.iter().filter(|task| !self.outcomes.contains_key(&task.id)) {
            if is_first {
                supervisor.begin(task.id.clone(), task.spec(), false).unwrap();
            } else {
                supervisor.resume(&task.id, false).unwrap();
            }
        }
        supervisor
    }

    /// A new process takes up what has not ended, and dies once so many tasks have.
    pub(crate) fn drive_until(&mut self, ended: usize) {
        let mut supervisor = self.take_up();
        let began = Instant::now();
        let mut paused: Vec<(Instant, TaskId)> = Vec::new();
        while self.outcomes.len() + supervisor.outcomes().len() < ended {
            assert!(began.elapsed() < PATIENCE, "it hangs: {}", self.stuck(&supervisor));
            let wait = supervisor.patience().map_or(20, |wait| wait.as_millis() as u64 / PACE);
            let inbox = supervisor.inbox().clone();
            supervisor
                .cycle(inbox.take(Some(Duration::from_millis(wait.clamp(1, 20))), 0))
                .unwrap();
            if self.people == People::Interfere {
                self.interfere(&supervisor, &mut paused);
            }
        }
        for task in &self.tasks {
            check_fold(&supervisor, &task.id);
        }
        self.outcomes.extend(supervisor.outcomes().clone());
        self.crash(supervisor);
    }

    fn process(&self) -> Supervisor<Watched> {
        let journal = SqliteJournal::open(&self.home.journal()).unwrap();
        let inbox = Inbox::default();
        let limits = Limits {
            first: Duration::from_secs(3),
            idle: Duration::from_millis(1500),
            total: Duration::from_secs(60),
            ..Limits::default()
        };
        let models = Models::new(Environment::fixed(&[], None), limits);
        let models = models.keeping(self.home.answers());
        let world = World::new(inbox.clone(), &self.home, self.home.marks(journal.owner()));
        let world =
            Watched { world: world.with_models(models), started: Arc::clone(&self.started) };
        let (clock, registry) = (Box::new(self.clock), Arc::new(Registry::builtin()));
        Supervisor::new(Box::new(journal), world, clock, registry, inbox)
    }

    /// The process is gone: its work ends where it is, and nothing that was not written is known.
    fn crash(&mut self, mut supervisor: Supervisor<Watched>) {
        let held: Vec<TaskId> = self
            .tasks
            .iter()
            .map(|task| &task.id)
            .filter(|id| supervisor.host(id).is_some())
            .cloned()
            .collect();
        if held.is_empty() {
            return;
        }
        for id in &held {
            supervisor.performer().release(id);
        }
        self.survivors.extend(held);
        self.crashes += 1;
    }

    /// Now and then somebody says something to some task, or holds it for a moment.
    fn interfere(&mut self, supervisor: &Supervisor<Watched>, paused: &mut Vec<(Instant, TaskId)>) {
        let inbox = supervisor.inbox();
        let late = |(since, _): &mut (Instant, TaskId)| since.elapsed() > Duration::from_millis(40);
        for (_, id) in paused.extract_if(.., late) {
            inbox.command(id, Command::Resume.into(), None).unwrap();
        }
        let is_held = |task: &&Task| supervisor.host(&task.id).is_some();
        let held: Vec<&Task> = self.tasks.iter().filter(is_held).collect();
        if held.is_empty() || self.random.one_in(2) {
            return;
        }
        let id = self.random.pick(&held).id.clone();
        let times = self.bothered.entry(id.clone()).or_default();
        let is_paused = paused.iter().any(|(_, known)| *known == id);
        if *times >= 2 || is_paused {
            return;
        }
        *times += 1;
        let text = || "mind the edge cases".to_owned();
        let (name, command) = match self.random.below(8) {
            0..=3 => ("interrupt", Command::Interrupt { note: text() }),
            4 | 5 => ("steer", Command::Steer { text: text() }),
            6 => ("follow_up", Command::FollowUp { text: text() }),
            _ => {
                paused.push((Instant::now(), id.clone()));
                ("pause", Command::Pause)
            }
        };
        *self.acts.entry(name).or_default() += 1;
        inbox.command(id, command.into(), None).unwrap();
    }

    fn stuck(&self, supervisor: &Supervisor<Watched>) -> String {
        let hosts = self.tasks.iter().filter_map(|task| {
            let state = &supervisor.host(&task.id)?.state;
            Some(format!("{} {:?} {:?}", task.id, state.standing(), state.data().pending))
        });
        hosts.collect::<Vec<_>>().join("\n")
    }
}

/// What the journal holds is what is remembered.
fn check_fold(supervisor: &Supervisor<Watched>, id: &TaskId) {
    let Some(live) = supervisor.host(id) else { return };
    let loaded = supervisor.journal().load(id.as_str()).unwrap();
    let folded = Host::fold(id, &loaded, Arc::new(Registry::builtin()), true, drop).unwrap();
    assert_eq!(folded.state.save(), live.state.save(), "{id}");
}

impl Task {
    fn new(n: u64, served: Served, folder: PathBuf, random: &mut Random) -> Task {
        let steps = faults::plan(random);
        let script = faults::script(&steps, served, random);
        let server = Arc::new(Fake::bind(script, 0, fake::Limits::default()).unwrap());
        let serving = Arc::clone(&server);
        std::thread::spawn(move || serving.serve());
        std::fs::create_dir_all(folder.join(".drivetrain")).unwrap();
        let (dialect, path, flags) = match served {
            Served::AnthropicMessages => ("anthropic_messages", "", ""),
            Served::OpenAiChat => ("openai_chat", "/v1", ""),
            Served::OpenAiResponses => ("openai_responses", "/v1", ""),
            Served::GoogleGenerate => ("google_generate", "", ""),
            Served::Mistral => (
                "openai_chat",
                "/mistral/v1",
                "short_tool_ids = true\nassistant_after_tools = true\nno_stream_options = true\n",
            ),
        };
        let url = server.url();
        let provider = format!(
            "[provider.soak]\ndialect = \"{dialect}\"\nbase_url = \"{url}{path}\"\n{flags}"
        );
        let file = folder.join(".drivetrain/models.toml");
        std::fs::write(&file, provider).unwrap();
        runtime::trust::grant(runtime::trust::read_file(&file, 1 << 20).unwrap().unwrap().0);
        Task { id: TaskId(format!("t{n}")), served, steps, server, folder }
    }

    fn spec(&self) -> TaskSpec {
        let config = json!({ "model": format!("soak/{MODEL}"), "tools": ["read", "write"] });
        TaskSpec {
            workspace: WorkspaceSpec {
                kind: Some(WorkspaceKind::InPlace),
                ..WorkspaceSpec::default()
            },
            sandbox: machine::policy::sandbox::SandboxSpec::off(),
            ..TaskSpec::new(
                "write all the files",
                DriverSpec::new("llm", config),
                self.folder.to_str().unwrap(),
            )
        }
    }
}

/// The real world, and a note of every tool that it started.
pub(crate) struct Watched {
    world: World,
    started: Arc<Mutex<Vec<Started>>>,
}

impl Perform for Watched {
    fn start(&mut self, task: &TaskId, effect: Effect) {
        if let Effect::RunTool { call, .. } = &effect {
            let (task, input) = (task.clone(), Value::clone(&call.input));
            self.started.lock().unwrap().push(Started { task, input, repeated: call.repeated });
        }
        self.world.start(task, effect);
    }

    fn cancel(&mut self, task: &TaskId, target: EffectId) {
        self.world.cancel(task, target);
    }

    fn begun(&mut self, task: &TaskId) {
        self.world.begun(task);
    }

    fn release(&mut self, task: &TaskId) {
        self.world.release(task);
    }

    fn finished(&mut self, task: &TaskId) {
        self.world.finished(task);
    }
}

/// Time that runs faster.
#[derive(Debug, Clone, Copy)]
struct FastClock(Instant);

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        let passed = self.0.elapsed().as_millis() as i64;
        Timestamp(1_700_000_000_000 + passed * PACE as i64)
    }

    fn awake(&self) -> Span {
        Span(self.0.elapsed().as_millis() as u64 * PACE)
    }
}
