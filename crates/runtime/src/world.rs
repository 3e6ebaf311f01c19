//! The real performer: one thread for each effect under way, each with a handle to stop it; calls of remote models,
//! which are many and idle, wait on the network's loop instead. What cannot take long is done at once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use journal::blob::Blobs;
use machine::agent::AgentNews;
use machine::driver::Registry;
use machine::effect::{Effect, ToolCall, Worker};
use machine::event::Loss;
use machine::id::{EffectId, TaskId};
use machine::input::{Input, Signal};
use machine::message::{ModelCall, ModelFailure, Retry, Usage};
use machine::server::ServerTools;
use machine::task::{Workspace, WorkspaceKind};
use machine::tool::{Status, ToolResult};
use tokio::sync::Notify;
use wire::gate::Toolbox;

use crate::acceptance::{self, Claim, Places};
use crate::agent::{Agents, Turn};
use crate::checkpoint::{self, Unkept};
use crate::control;
use crate::descriptors::{self, Places as Descriptors};
use crate::gate::Gates;
use crate::home::Home;
use crate::http;
use crate::inbox::Inbox;
use crate::mcp::Mcp;
use crate::minding::{self, Minder, Minding};
use crate::model::{Models, Traffic};
use crate::network;
use crate::perform::Perform;
use crate::plugin::{Plugins, Walls};
use crate::process::{Cancel, Containment};
use crate::providers::{Environment, Providers};
use crate::redact;
use crate::room;
use crate::tool::{self, BlobSink, Lines, ToolServices};
use crate::workspace::{self, setup::make_ready};

/// How long `release` waits for stopped work to end; a process tree is killed well within it.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);
/// How often a wait looks whether it was stopped itself.
const GLANCE: Duration = Duration::from_millis(50);

/// Performs effects for all tasks of this process.
#[derive(Debug)]
pub struct World {
    inbox: Inbox,
    running: Arc<Running>,
    tools: Arc<ToolServices>,
    plugins: Arc<Plugins>,
    models: Arc<Models>,
    servers: Arc<Mcp>,
    gates: Arc<Gates>,
    agents: Arc<Agents>,
    home: Home,
    checkouts: PathBuf,
    /// Held by whoever keeps the files of a task or puts them back: one that was stopped may still be ending.
    keeping: BTreeMap<TaskId, Arc<Mutex<()>>>,
    /// Who looks after children, for each task that waits for some.
    minders: BTreeMap<TaskId, Minder>,
    /// Who changes files next.
    lines: Lines,
    /// How many commands may run at once.
    commands: Arc<Descriptors>,
}

/// The effects under way. An entry is removed by the thread that performed it, after its report is queued.
#[derive(Debug, Default)]
struct Running {
    effects: Mutex<BTreeMap<(TaskId, EffectId), Stop>>,
    ended: Condvar,
    /// How many wait for an end: waking nobody costs a system call.
    waiting: AtomicUsize,
}

impl World {
    /// A performer that reports to `inbox`; `marks` is where child processes are noted.
    pub fn new(inbox: Inbox, home: &Home, marks: PathBuf) -> World {
        redact::learn_environment();
        let blobs: Arc<dyn BlobSink> =
            Arc::new(JournalBlobs(Blobs::new(home.journal().join("blobs"))));
        let changed = inbox.clone();
        let servers = Mcp::new(
            home.clone(),
            Some(marks.clone()),
            Arc::new(move |task, tools| {
                changed.signal(TaskId(task.to_owned()), Signal::ToolsChanged(tools).into());
            }),
        );
        // Beside the marks, under the same owner's number: whoever forgets a dead owner forgets both.
        let gates = Arc::new(Gates::new(marks.with_extension("gates"), inbox.clone()));
        let checkouts = marks.with_extension("checkouts");
        World {
            inbox,
            running: Arc::default(),
            plugins: Arc::new(
                Plugins::new(Some(marks.clone())).behind(Arc::clone(&gates)).hiding(home.root()),
            ),
            models: Arc::new(own_models(home)),
            servers: Arc::new(servers),
            gates,
            agents: Arc::new(Agents::new(home.root().to_owned(), Some(marks.clone()))),
            tools: Arc::new(ToolServices {
                blobs,
                mark_dir: Some(marks),
                env: Vec::new(),
                containment: Containment::Auto,
                state: Some(home.root().to_owned()),
                passages: None,
                memory: Some(home.memory()),
                judge: Some(home.clone()),
            }),
            home: home.clone(),
            checkouts,
            keeping: BTreeMap::new(),
            minders: BTreeMap::new(),
            lines: Lines::default(),
            commands: descriptors::commands(),
        }
    }

    /// Says where the answers of models come from. To be said before the first effect.
    pub fn carry(&mut self, traffic: Traffic) {
        let marks = self.tools.mark_dir.clone();
        let agents = Agents::new(self.home.root().to_owned(), marks);
        self.agents = Arc::new(agents.carrying(traffic.clone()));
        self.models = Arc::new(own_models(&self.home).carrying(traffic));
    }

    /// The same, with models whose keys and limits are others than this process's own.
    pub fn with_models(mut self, models: Models) -> World {
        self.models = Arc::new(models);
        self
    }

    /// Performs on a thread of its own. `act` gets the handle that stops it; a panic becomes the report that
    /// `failed` makes, so that nothing waits for ever.
    fn spawn(
        &mut self,
        task: &TaskId,
        id: EffectId,
        act: impl FnOnce(&Cancel) -> Input + Send + 'static,
        failed: impl Fn(String) -> Input + Send + Sync + 'static,
    ) {
        self.spawn_then(task, id, act, failed, || {});
    }

    /// As `spawn`; `then` is done after the report is queued.
    fn spawn_then(
        &mut self,
        task: &TaskId,
        id: EffectId,
        act: impl FnOnce(&Cancel) -> Input + Send + 'static,
        failed: impl Fn(String) -> Input + Send + Sync + 'static,
        then: impl FnOnce() + Send + 'static,
    ) {
        let failed = Arc::new(failed);
        let stillborn = Arc::clone(&failed);
        let cancel = Cancel::new();
        let key = (task.clone(), id);
        self.running.lock().insert(key.clone(), Stop::Handle(cancel.clone()));
        let (running, inbox, name) = (Arc::clone(&self.running), self.inbox.clone(), task.clone());
        let guard = Ending { running, key };
        let spawned =
            std::thread::Builder::new().name(format!("effect-{}", id.0)).spawn(move || {
                let input = match catch_unwind(AssertUnwindSafe(|| act(&cancel))) {
                    Ok(input) => input,
                    Err(panic) => failed(format!("the performer panicked: {}", panic_text(&panic))),
                };
                inbox.signal(name, input);
                then();
                drop(guard);
            });
        if let Err(error) = spawned {
            self.inbox
                .signal(task.clone(), stillborn(format!("no thread can be started: {error}")));
        }
    }

    /// Asks a model on the network's loop: ten thousand can wait at once, none holds a thread.
    fn call_model(&mut self, task: &TaskId, id: EffectId, call: ModelCall, folder: String) {
        let key = (task.clone(), id);
        let (running, inbox, models) =
            (Arc::clone(&self.running), self.inbox.clone(), Arc::clone(&self.models));
        let guard = Ending { running, key: key.clone() };
        let mut feed = inbox.feed(task.clone(), id);
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        // Held until the entry is there: what ends at once waits to take it off.
        let mut effects = self.running.lock();
        let spawned = network::spawn(async move {
            let report = Report { inbox, guard: Some(guard) };
            let task = report.task();
            let mut hear = |events: &mut Vec<_>| feed.push(events);
            let (folder, stopped) = (Path::new(&folder), stopped.notified());
            let reply = models.ask(task.as_str(), call, folder, stopped, &mut hear).await;
            report.send(Signal::ModelReplied(id, Box::new(reply)).into());
        });
        match spawned {
            Ok(()) => {
                effects.insert(key, Stop::Call(stop));
            }
            Err(reason) => {
                drop(effects);
                self.inbox.signal(task.clone(), no_reply(id, reason));
            }
        }
    }

    /// What checks the criteria of a task outside of its life: its tools, and where checkouts are made.
    pub fn ground(&self, task: &TaskId) -> (ToolServices, PathBuf) {
        (self.tools_of(task), self.checkouts.clone())
    }

    /// What the tools of a task need.
    fn tools_of(&self, task: &TaskId) -> ToolServices {
        let passages = Some(self.home.passages(task));
        ToolServices { passages, ..ToolServices::clone(&self.tools) }
    }

    /// What ends everything that works for a task, all but the effect that asks for it.
    fn stopping(&self, task: &TaskId, asking: EffectId) -> Stopping {
        Stopping {
            task: task.clone(),
            asking,
            running: Arc::clone(&self.running),
            plugins: Arc::clone(&self.plugins),
            agents: Arc::clone(&self.agents),
            gates: Arc::clone(&self.gates),
            servers: Arc::clone(&self.servers),
        }
    }

    /// Whoever holds it is the only one at the task's checkpoints.
    fn keeping(&mut self, task: &TaskId) -> Arc<Mutex<()>> {
        Arc::clone(self.keeping.entry(task.clone()).or_default())
    }

    fn run_tool(&mut self, task: &TaskId, id: EffectId, call: ToolCall) {
        // Saying something takes no time and touches nothing.
        if call.tool == "say" {
            let text = call.input["text"].as_str().unwrap_or_default();
            return self.inbox.signal(task.clone(), Input::ToolEnded(id, ToolResult::ok(text)));
        }
        let tools = self.tools_of(task);
        let (name, servers) = (task.clone(), Arc::clone(&self.servers));
        let place = self.lines.join(&call.tool, call.workspace.path.as_deref());
        let commands = Arc::clone(&self.commands);
        self.spawn(
            task,
            id,
            move |cancel| {
                if let Some(place) = &place {
                    place.wait();
                    if cancel.is_triggered() {
                        let stopped = ToolResult::ended(Status::Aborted, "stopped before it began");
                        return Input::ToolEnded(id, stopped);
                    }
                }
                let _descriptors = commands.take(cancel);
                let result = match &call.server {
                    Some(behind) => servers.call(name.as_str(), &call, behind, &tools, cancel),
                    None => tool::run(&call, &tools, cancel),
                };
                Input::ToolEnded(id, result)
            },
            move |reason| Input::ToolEnded(id, ToolResult::ended(Status::Error, reason)),
        );
    }
}

impl Perform for World {
    fn taken_up(&mut self, task: &TaskId) -> Option<(Loss, Result<u32, String>)> {
        workspace::taken_up(task.as_str(), self.home.root())
    }

    fn hinders(&self, task: &TaskId, workspace: &Workspace) -> Option<String> {
        workspace::hinders(task.as_str(), workspace, self.home.root())
    }

    fn start(&mut self, task: &TaskId, effect: Effect) {
        match effect {
            Effect::RunTool { id, call, .. } => self.run_tool(task, id, call),
            Effect::OpenWorkspace { id, spec, .. } if spec.kind == Some(WorkspaceKind::None) => {
                let nothing =
                    Workspace { kind: WorkspaceKind::None, path: None, branch: None, base: None };
                self.inbox.signal(task.clone(), Signal::WorkspaceOpened(id, Ok(nothing)).into());
            }
            Effect::OpenWorkspace { id, spec, folder, sandbox, forked_from } => {
                let (name, home, tools) = (task.clone(), self.home.clone(), self.tools_of(task));
                let (inbox, commands) = (self.inbox.clone(), Arc::clone(&self.commands));
                self.spawn(
                    task,
                    id,
                    move |cancel| {
                        let _descriptors = commands.take(cancel);
                        let (task, state, folder) =
                            (name.as_str(), home.root(), Path::new(&folder));
                        let open = || match &forked_from {
                            None => workspace::open(task, &spec, folder, state),
                            Some(forked) => workspace::open_fork(task, forked, state, cancel),
                        };
                        let (disks, tell) = ([state, folder], |room| inbox.room(room));
                        let opened = room::until_there_is_some(&disks, cancel, tell, open);
                        let ready = opened.and_then(|opened| {
                            let make = || {
                                make_ready(task, &opened, &spec, &sandbox, &tools, state, cancel)
                            };
                            room::while_there_is_none(&disks, cancel, tell, make)?;
                            Ok(opened)
                        });
                        Signal::WorkspaceOpened(id, ready).into()
                    },
                    move |reason| Signal::WorkspaceOpened(id, Err(reason)).into(),
                );
            }
            Effect::OpenTools { id, servers, workspace, folder, sandbox } => {
                let (name, mcp) = (task.clone(), Arc::clone(&self.servers));
                let absent: Vec<String> = servers.iter().map(|s| s.name.clone()).collect();
                let (owner, answered) = (task.clone(), Arc::clone(&self.servers));
                self.spawn_then(
                    task,
                    id,
                    move |cancel| {
                        let opened = mcp.open(
                            name.as_str(),
                            &servers,
                            &workspace,
                            &folder,
                            &sandbox,
                            cancel,
                        );
                        Signal::ToolsOpened(id, opened).into()
                    },
                    move |reason| {
                        let none = |server: &String| ServerTools {
                            server: server.clone(),
                            tools: Vec::new(),
                            problem: Some(reason.clone()),
                        };
                        Signal::ToolsOpened(id, absent.iter().map(none).collect()).into()
                    },
                    move || answered.answered(owner.as_str()),
                );
            }
            Effect::Consult { id, plugin, request, tools, workspace, sandbox } => {
                let (name, plugins) = (task.clone(), Arc::clone(&self.plugins));
                let gates = Arc::clone(&self.gates);
                self.spawn(
                    task,
                    id,
                    move |cancel| {
                        let opened = match &tools {
                            Some(tools) => gates
                                .open(&name, Toolbox::new(tools, workspace.path.clone()))
                                .map(drop),
                            None => Ok(()),
                        };
                        let walls = Walls { spec: &sandbox, workspace: &workspace };
                        let answer = opened.and_then(|()| {
                            plugins.consult(name.as_str(), &plugin, &request, walls, cancel)
                        });
                        Signal::Consulted(id, answer).into()
                    },
                    move |reason| Signal::Consulted(id, Err(reason)).into(),
                );
            }
            Effect::AnswerRequest { key, digest, answer, .. } => {
                self.gates.answer(task, &key, digest, &answer);
            }
            Effect::CallModel { id, call, folder } if Models::is_remote(&call.model) => {
                self.call_model(task, id, call, folder);
            }
            Effect::CallModel { id, call, folder } => {
                let (name, models) = (task.clone(), Arc::clone(&self.models));
                let mut feed = self.inbox.feed(task.clone(), id);
                self.spawn(
                    task,
                    id,
                    move |cancel| {
                        let folder = Path::new(&folder);
                        let mut hear = |events: &mut Vec<_>| feed.push(events);
                        let reply = models.call(name.as_str(), &call, folder, cancel, &mut hear);
                        Signal::ModelReplied(id, Box::new(reply)).into()
                    },
                    move |message| no_reply(id, message),
                );
            }
            Effect::AskAgent { id, call, tools, workspace, sandbox, folder } => {
                let (agents, inbox) = (Arc::clone(&self.agents), self.inbox.clone());
                let turn = Turn {
                    task: task.clone(),
                    effect: id,
                    call,
                    workspace,
                    tools,
                    sandbox,
                    folder: folder.into(),
                };
                self.spawn(
                    task,
                    id,
                    move |cancel| {
                        let ended = agents.turn(&turn, &inbox, cancel);
                        Signal::AgentEnded(id, ended).into()
                    },
                    move |reason| Signal::AgentEnded(id, Err(reason)).into(),
                );
            }
            Effect::TellAgent { turn, order, .. } => {
                if let Err(failed) = self.agents.tell(task, turn, order) {
                    let said = Signal::AgentSaid(turn, AgentNews::OrderFailed(failed));
                    self.inbox.signal(task.clone(), said.into());
                }
            }
            Effect::LetAsk { turn, request, may, .. } => {
                self.agents.let_ask(task, turn, request, may);
            }
            Effect::DismissAgents { .. } => self.agents.dismiss(task),
            Effect::Checkpoint { id, workspace, reason, worker } => {
                let (name, home, inbox) = (task.clone(), self.home.clone(), self.inbox.clone());
                let (stopping, keeping) = (self.stopping(task, id), self.keeping(task));
                let commands = Arc::clone(&self.commands);
                self.spawn(
                    task,
                    id,
                    move |cancel| {
                        let stopped = match worker {
                            Worker::Stops => stopping.stop(cancel),
                            Worker::Stays => Ok(()),
                        };
                        let make = || {
                            let _alone = keeping.lock();
                            let (task, home) = (name.as_str(), home.root());
                            checkpoint::checkpoint(task, &workspace, &reason, home, cancel)
                        };
                        let tell = |room| inbox.room(room);
                        let made = stopped.map_err(Unkept::Failed).and_then(|()| {
                            let _descriptors = commands.take(cancel);
                            room::until_there_is_some(&[home.root()], cancel, tell, make)
                        });
                        match made {
                            Ok(made) => Signal::Checkpointed(id, Ok(made)),
                            Err(Unkept::Incomplete(why)) => Signal::Unkeepable(id, why),
                            Err(Unkept::Failed(why)) => Signal::Checkpointed(id, Err(why)),
                        }
                        .into()
                    },
                    move |reason| Signal::Checkpointed(id, Err(reason)).into(),
                );
            }
            Effect::Restore { id, workspace, to, in_the_way } => {
                let (name, home, inbox) = (task.clone(), self.home.clone(), self.inbox.clone());
                let (stopping, keeping) = (self.stopping(task, id), self.keeping(task));
                let commands = Arc::clone(&self.commands);
                self.spawn(
                    task,
                    id,
                    move |cancel| {
                        let (disks, mut before) = (disks(&home, &workspace), None);
                        let restore = || {
                            let _alone = keeping.lock();
                            let (task, home, way) = (name.as_str(), home.root(), in_the_way);
                            let before = &mut before;
                            checkpoint::restore(task, &workspace, &to, way, before, home, cancel)
                        };
                        let tell = |room| inbox.room(room);
                        // What was stopped for this must not write after it.
                        let restored = stopping.wait(cancel).and_then(|()| {
                            let _descriptors = commands.take(cancel);
                            room::until_there_is_some(&disks, cancel, tell, restore)
                        });
                        // Whoever is only stopped goes on with it later.
                        if restored.is_err() && !cancel.is_triggered() {
                            checkpoint::gave_up_going_back(name.as_str(), home.root());
                        }
                        Signal::Restored(id, restored).into()
                    },
                    move |reason| Signal::Restored(id, Err(reason)).into(),
                );
            }
            Effect::Verify {
                id, goal, criteria, workspace, spec, base, frozen, sandbox, ..
            } => {
                let (name, tools) = (task.clone(), self.tools_of(task));
                let (home, checkouts) = (self.home.clone(), self.checkouts.clone());
                let (stopping, inbox) = (self.stopping(task, id), self.inbox.clone());
                let commands = Arc::clone(&self.commands);
                self.spawn(
                    task,
                    id,
                    move |cancel| {
                        let claim = Claim {
                            task: name.as_str(),
                            goal: &goal,
                            criteria: &criteria,
                            workspace: &workspace,
                            spec: &spec,
                            base: base.as_ref(),
                            frozen: frozen.as_ref(),
                            sandbox: &sandbox,
                        };
                        let places = Places { state_home: home.root(), checkouts: &checkouts };
                        let disks = disks(&home, &workspace);
                        let verify = || {
                            let verdict = acceptance::verify(&claim, &places, &tools, cancel)?;
                            let failed = verdict.results.iter().any(|result| !result.passed);
                            // What runs on a full disk fails, and that says nothing about the claim.
                            if failed && room::is_missing(&disks) {
                                return Err("a check failed on a disk without room".to_owned());
                            }
                            Ok(verdict)
                        };
                        let tell = |room| inbox.room(room);
                        let verdict = stopping.stop(cancel).and_then(|()| {
                            let _descriptors = commands.take(cancel);
                            room::until_there_is_some(&disks, cancel, tell, verify)
                        });
                        Signal::Verified(id, verdict).into()
                    },
                    move |reason| Signal::Verified(id, Err(reason)).into(),
                );
            }
            // One that cannot be started is seen to be driven by nobody.
            Effect::TakeUpChild { child, folder, .. } => {
                let _ = minding::drive_apart(&self.home, &child, Path::new(&folder));
            }
            // The supervisor keeps timers, drives children and turns cancels into calls of `cancel`.
            Effect::SetTimer { .. }
            | Effect::DriveChild { .. }
            | Effect::TellChild { .. }
            | Effect::Cancel { .. } => {}
        }
    }

    fn driver(&self, task: &TaskId, owner: u64) -> Option<u32> {
        control::driver(&self.home, owner, task)
    }

    fn mind(&mut self, task: &TaskId, children: Vec<TaskId>) {
        self.minders.remove(task);
        if !children.is_empty() {
            let minding = Minding::new(self.home.clone(), Arc::new(Registry::builtin()));
            let minder = minding.keep_on(task.clone(), children, self.inbox.clone());
            self.minders.insert(task.clone(), minder);
        }
    }

    fn cancel(&mut self, task: &TaskId, target: EffectId) {
        if let Some(stop) = self.running.lock().get(&(task.clone(), target)) {
            stop.trigger();
        }
    }

    fn stop(&mut self, task: &TaskId) {
        let all = (task.clone(), EffectId(0))..=(task.clone(), EffectId(u64::MAX));
        self.running.lock().range(all).for_each(|(_, stop)| stop.trigger());
    }

    fn release(&mut self, task: &TaskId) {
        let deadline = Instant::now() + RELEASE_PATIENCE;
        let mut effects = self.running.lock();
        let of_task = || (task.clone(), EffectId(0))..=(task.clone(), EffectId(u64::MAX));
        effects.range(of_task()).for_each(|(_, stop)| stop.trigger());
        while let Some((_, stop)) = effects.range(of_task()).next() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if matches!(stop, Stop::Call(_)) {
                // It ends once the loop looks at it, and nobody else makes it look.
                drop(effects);
                network::glance();
                effects = self.running.lock();
                continue;
            }
            self.running.waiting.fetch_add(1, Ordering::Relaxed);
            effects = self
                .running
                .ended
                .wait_timeout(effects, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            self.running.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        drop(effects);
        self.agents.close(task);
        self.plugins.close(task.as_str());
        self.gates.close(task);
        self.models.close(task.as_str());
        self.servers.close(task.as_str());
        self.keeping.remove(task);
        workspace::settle(task.as_str(), self.home.root());
    }

    fn begun(&mut self, task: &TaskId) {
        self.models.begun(task.as_str());
    }

    fn finished(&mut self, task: &TaskId) {
        self.models.finished(task.as_str());
    }
}

/// Where a task's files are written.
fn disks<'a>(home: &'a Home, workspace: &'a Workspace) -> Vec<&'a Path> {
    let place = workspace.path.as_deref().map(Path::new);
    [Some(home.root()), place].into_iter().flatten().collect()
}

/// Models whose keys are this process's own. A project's file says nothing about them unless the user trusts it.
fn own_models(home: &Home) -> Models {
    let environment = Environment::default().judged_by(home);
    // The user's own file may keep keys in variables of any name.
    if let Ok(providers) = Providers::of(Path::new("/"), &environment) {
        for name in providers.iter().flat_map(|provider| &provider.key_variables) {
            redact::learn(name, &std::env::var(name).unwrap_or_default());
        }
    }
    Models::new(environment, http::Limits::default()).keeping(home.answers())
}

/// Ends the worker of a task before its claim is looked at.
struct Stopping {
    task: TaskId,
    asking: EffectId,
    running: Arc<Running>,
    plugins: Arc<Plugins>,
    agents: Arc<Agents>,
    gates: Arc<Gates>,
    servers: Arc<Mcp>,
}

impl Stopping {
    /// Ends the programs of the worker; returns once nothing of it runs any more.
    fn stop(&self, cancel: &Cancel) -> Result<(), String> {
        self.wait(cancel)?;
        self.agents.close(&self.task);
        self.plugins.close(self.task.as_str());
        self.gates.close(&self.task);
        self.servers.close(self.task.as_str());
        Ok(())
    }

    /// Waits for everything else of the task to end: what was cancelled a moment ago may still be at it.
    fn wait(&self, cancel: &Cancel) -> Result<(), String> {
        let deadline = Instant::now() + RELEASE_PATIENCE;
        let all = (self.task.clone(), EffectId(0))..=(self.task.clone(), EffectId(u64::MAX));
        let mut effects = self.running.lock();
        // Models only speak.
        let at_work = |effects: &BTreeMap<(TaskId, EffectId), Stop>| {
            effects
                .range(all.clone())
                .any(|((_, id), stop)| *id != self.asking && matches!(stop, Stop::Handle(_)))
        };
        while at_work(&effects) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || cancel.is_triggered() {
                return Err("something of the worker does not end".to_owned());
            }
            self.running.waiting.fetch_add(1, Ordering::Relaxed);
            let waited = self.running.ended.wait_timeout(effects, left.min(GLANCE));
            effects = waited.unwrap_or_else(PoisonError::into_inner).0;
            self.running.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        if cancel.is_triggered() { Err("stopped before it began".to_owned()) } else { Ok(()) }
    }
}

/// Stops an effect.
#[derive(Debug)]
enum Stop {
    /// Of one with a thread of its own.
    Handle(Cancel),
    /// Of one on the network's loop: it says what it cost by then.
    Call(Arc<Notify>),
}

impl Stop {
    fn trigger(&self) {
        match self {
            Stop::Handle(cancel) => cancel.trigger(),
            // Kept for a call that does not wait yet.
            Stop::Call(stop) => stop.notify_one(),
        }
    }
}

/// Reports a model call. One that panicked says so, so that nothing waits for ever.
#[derive(Debug)]
struct Report {
    inbox: Inbox,
    guard: Option<Ending>,
}

impl Report {
    fn task(&self) -> TaskId {
        self.guard.as_ref().map_or_else(|| TaskId(String::new()), |guard| guard.key.0.clone())
    }

    fn send(mut self, input: Input) {
        if let Some(guard) = self.guard.take() {
            self.inbox.signal(guard.key.0.clone(), input);
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take()
            && std::thread::panicking()
        {
            let (task, id) = guard.key.clone();
            self.inbox.signal(task, no_reply(id, "the performer panicked".to_owned()));
        }
    }
}

fn no_reply(id: EffectId, message: String) -> Input {
    let failure = ModelFailure {
        kind: "internal".to_owned(),
        retry: Retry::Never,
        message,
        usage: Usage::default(),
    };
    Signal::ModelReplied(id, Box::new(Err(failure))).into()
}

/// Takes an effect off the list, whatever way its thread ends.
#[derive(Debug)]
struct Ending {
    running: Arc<Running>,
    key: (TaskId, EffectId),
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut effects = self.running.lock();
        effects.remove(&self.key);
        // Read under the lock, with which whoever waits has counted itself.
        let is_awaited = self.running.waiting.load(Ordering::Relaxed) > 0;
        drop(effects);
        if is_awaited {
            self.running.ended.notify_all();
        }
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(TaskId, EffectId), Stop>> {
        // The map is whole after any panic: each change is one insert or one remove.
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct JournalBlobs(pub(crate) Blobs);

impl BlobSink for JournalBlobs {
    fn put(&self, bytes: &[u8]) -> Result<String, String> {
        self.0.put(&redact::bytes(bytes)).map_err(|error| error.to_string())
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
