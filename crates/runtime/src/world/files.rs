//! What is done with a task's files: a place to work in, a state that is kept or put back, and the check of a claim. Each waits
//! where the disk has no room, and the last three until the worker has stopped.

use std::path::Path;
use std::sync::Arc;

use machine::effect::{InTheWay, Worker};
use machine::id::{EffectId, TaskId};
use machine::input::Signal;
use machine::policy::sandbox::SandboxSpec;
use machine::task::{Criterion, ForkedFrom, Workspace, WorkspaceKind, WorkspaceSpec};
use machine::verdict::Checkpoint;

use super::World;
use super::running::Running;
use crate::acceptance::{self, Claim, Places};
use crate::agent::Agents;
use crate::checkpoint::{self, Unkept};
use crate::gate::Gates;
use crate::home::Home;
use crate::mcp::Mcp;
use crate::plugin::Plugins;
use crate::process::Cancel;
use crate::room;
use crate::workspace::{self, setup::make_ready};

/// What is claimed to be done: [`Claim`], owned.
pub(super) struct Claimed {
    pub goal: String,
    pub criteria: Vec<Criterion>,
    pub workspace: Workspace,
    pub spec: WorkspaceSpec,
    pub base: Option<Checkpoint>,
    pub frozen: Option<Checkpoint>,
    pub sandbox: SandboxSpec,
}

impl World {
    pub(super) fn open_workspace(
        &mut self,
        task: &TaskId,
        id: EffectId,
        spec: WorkspaceSpec,
        folder: String,
        sandbox: SandboxSpec,
        forked_from: Option<ForkedFrom>,
    ) {
        if spec.kind == Some(WorkspaceKind::None) {
            let nothing =
                Workspace { kind: WorkspaceKind::None, path: None, branch: None, base: None };
            let opened = Signal::WorkspaceOpened(id, Ok(nothing));
            return self.inbox.signal(task.clone(), opened.into());
        }
        let (name, home, tools) = (task.clone(), self.home.clone(), self.tools_of(task));
        let (inbox, commands) = (self.inbox.clone(), Arc::clone(&self.commands));
        self.spawn(
            task,
            id,
            move |cancel| {
                let _descriptors = commands.take(cancel);
                let (task, state, folder) = (name.as_str(), home.root(), Path::new(&folder));
                let open = || match &forked_from {
                    None => workspace::open(task, &spec, folder, state),
                    Some(forked) => workspace::open_fork(task, forked, state, cancel),
                };
                let (disks, tell) = ([state, folder], |room| inbox.room(room));
                let opened = room::until_there_is_some(&disks, cancel, tell, open);
                let ready = opened.and_then(|opened| {
                    let make = || make_ready(task, &opened, &spec, &sandbox, &tools, state, cancel);
                    room::while_there_is_none(&disks, cancel, tell, make)?;
                    Ok(opened)
                });
                Signal::WorkspaceOpened(id, ready).into()
            },
            move |reason| Signal::WorkspaceOpened(id, Err(reason)).into(),
        );
    }

    pub(super) fn checkpoint(
        &mut self,
        task: &TaskId,
        id: EffectId,
        workspace: Workspace,
        reason: String,
        worker: Worker,
    ) {
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

    pub(super) fn restore(
        &mut self,
        task: &TaskId,
        id: EffectId,
        workspace: Workspace,
        to: String,
        in_the_way: InTheWay,
    ) {
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

    pub(super) fn verify(&mut self, task: &TaskId, id: EffectId, claimed: Claimed) {
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
                    goal: &claimed.goal,
                    criteria: &claimed.criteria,
                    workspace: &claimed.workspace,
                    spec: &claimed.spec,
                    base: claimed.base.as_ref(),
                    frozen: claimed.frozen.as_ref(),
                    sandbox: &claimed.sandbox,
                };
                let places = Places { state_home: home.root(), checkouts: &checkouts };
                let disks = disks(&home, &claimed.workspace);
                let verify = || acceptance::verify(&claim, &places, &tools, cancel);
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
}

/// Where a task's files are written.
fn disks<'a>(home: &'a Home, workspace: &'a Workspace) -> Vec<&'a Path> {
    let place = workspace.path.as_deref().map(Path::new);
    [Some(home.root()), place].into_iter().flatten().collect()
}

/// Ends the worker of a task before its files are looked at.
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

    fn wait(&self, cancel: &Cancel) -> Result<(), String> {
        self.running.await_others(&self.task, self.asking, cancel)
    }
}
