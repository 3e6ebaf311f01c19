//! The real performer: one thread for each effect under way, each with a handle to stop it; calls of remote models,
//! which are many and idle, wait on the network's loop instead. What cannot take long is done at once.

mod files;
mod model_call;
mod running;
mod workers;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use journal::blob::Blobs;
use machine::agent::AgentNews;
use machine::driver::Registry;
use machine::effect::Effect;
use machine::event::Loss;
use machine::id::{EffectId, TaskId};
use machine::input::{Input, Signal};
use machine::task::Workspace;

use self::files::Claimed;
use self::running::{Running, Stop};
use self::workers::Question;
use crate::agent::{Agents, Turn};
use crate::control;
use crate::descriptors::{self, Places as Descriptors};
use crate::gate::Gates;
use crate::home::Home;
use crate::http;
use crate::inbox::Inbox;
use crate::mcp::Mcp;
use crate::minding::{self, Minder, Minding};
use crate::model::{Models, Traffic};
use crate::perform::Perform;
use crate::plugin::Plugins;
use crate::process::{Cancel, Containment};
use crate::providers::{Environment, Providers};
use crate::redact;
use crate::tool::{BlobSink, Lines, ToolServices};
use crate::workspace;

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
        let guard = self.running.begin(task, id, Stop::Handle(cancel.clone()));
        let (inbox, name) = (self.inbox.clone(), task.clone());
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

    /// What checks the criteria of a task outside of its life: its tools, and where checkouts are made.
    pub fn ground(&self, task: &TaskId) -> (ToolServices, PathBuf) {
        (self.tools_of(task), self.checkouts.clone())
    }

    /// What the tools of a task need.
    fn tools_of(&self, task: &TaskId) -> ToolServices {
        let passages = Some(self.home.passages(task));
        ToolServices { passages, ..ToolServices::clone(&self.tools) }
    }

    /// Whoever holds it is the only one at the task's checkpoints.
    fn keeping(&mut self, task: &TaskId) -> Arc<Mutex<()>> {
        Arc::clone(self.keeping.entry(task.clone()).or_default())
    }
}

impl Perform for World {
    fn taken_up(&mut self, task: &TaskId) -> Option<(Loss, Result<u32, String>)> {
        workspace::taken_up(task.as_str(), self.home.root())
    }

    fn told_of_loss(&mut self, task: &TaskId) {
        workspace::told(task.as_str(), self.home.root());
    }

    fn hinders(&self, task: &TaskId, workspace: &Workspace) -> Option<String> {
        workspace::hinders(task.as_str(), workspace, self.home.root())
    }

    fn start(&mut self, task: &TaskId, effect: Effect) {
        match effect {
            Effect::RunTool { id, call, .. } => self.run_tool(task, id, call),
            Effect::OpenTools { id, servers, workspace, folder, sandbox } => {
                self.open_tools(task, id, servers, workspace, folder, sandbox);
            }
            Effect::OpenWorkspace { id, spec, folder, sandbox, forked_from } => {
                self.open_workspace(task, id, spec, folder, sandbox, forked_from);
            }
            Effect::Consult { id, plugin, request, tools, workspace, sandbox } => {
                let question = Question { plugin, request, tools };
                self.consult(task, id, question, workspace, sandbox);
            }
            Effect::AnswerRequest { key, digest, answer, .. } => {
                self.gates.answer(task, &key, digest, &answer);
            }
            Effect::CallModel { id, call, folder } => self.call_model(task, id, call, folder),
            Effect::AskAgent { id: effect, call, tools, workspace, sandbox, folder } => {
                let (task, folder) = (task.clone(), folder.into());
                self.ask_agent(Turn { task, effect, call, workspace, tools, sandbox, folder });
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
                self.checkpoint(task, id, workspace, reason, worker);
            }
            Effect::Restore { id, workspace, to, in_the_way } => {
                self.restore(task, id, workspace, to, in_the_way);
            }
            Effect::Verify {
                id, goal, criteria, workspace, spec, base, frozen, sandbox, ..
            } => {
                let claimed = Claimed { goal, criteria, workspace, spec, base, frozen, sandbox };
                self.verify(task, id, claimed);
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
        self.running.stop(task, target);
    }

    fn stop(&mut self, task: &TaskId) {
        self.running.stop_all(task);
    }

    fn release(&mut self, task: &TaskId) {
        self.running.end_all(task);
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
