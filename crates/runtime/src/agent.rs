//! Coding agents: one live process for each driver of a task, kept between turns. Bytes go through `wire::agent`, what
//! counts goes to the loop as a signal, and what the loop answers comes back as an order.

mod behind;
mod client;
mod files;
pub mod inventory;
mod process;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use machine::agent::{AgentCall, AgentOrder, AgentTurn, FailedOrder};
use machine::id::{EffectId, TaskId};
use machine::policy::sandbox::SandboxSpec;
use machine::server::ToolOffer;
use machine::task::Workspace;

pub use wire::agent::{acp_server, acp_told};

use crate::inbox::Inbox;
use crate::model::Traffic;
use crate::process::Cancel;
use process::{NotStarted, Process, Setting};

/// The agents of this runtime.
#[derive(Debug)]
pub struct Agents {
    slots: Mutex<BTreeMap<Key, Arc<Mutex<Slot>>>>,
    /// Those in the middle of a turn.
    at_work: Mutex<BTreeMap<(TaskId, EffectId), Arc<Process>>>,
    setting: Setting,
}

/// A task and a driver's place in it: each driver of a tree has an agent of its own.
type Key = (TaskId, Vec<u32>);

/// A place for one process; its lock lets one turn at a time through.
#[derive(Debug, Default)]
struct Slot {
    process: Option<Arc<Process>>,
}

/// A turn to be performed.
#[derive(Debug)]
pub struct Turn {
    /// The task.
    pub task: TaskId,
    /// The effect: what everything that is said belongs to.
    pub effect: EffectId,
    /// What the agent is asked.
    pub call: AgentCall,
    /// Where it works.
    pub workspace: Workspace,
    /// The tools of drivetrain's own that it may call.
    pub tools: Vec<ToolOffer>,
    /// The walls around it.
    pub sandbox: SandboxSpec,
    /// The folder the task was started in.
    pub folder: PathBuf,
}

impl Agents {
    /// No process yet. `state` is the folder of this program's own state, `marks` is where processes are noted.
    pub fn new(state: PathBuf, marks: Option<PathBuf>) -> Agents {
        let setting = Setting { state, marks, traffic: Traffic::Live };
        Agents { slots: Mutex::default(), at_work: Mutex::default(), setting }
    }

    /// The same, with what passes their gateways written down or not.
    pub fn carrying(mut self, traffic: Traffic) -> Agents {
        self.setting.traffic = traffic;
        self
    }

    /// Performs a turn and waits for its end; the process is started if there is none that can go on. What is said
    /// meanwhile goes to `inbox`.
    pub fn turn(&self, turn: &Turn, inbox: &Inbox, cancel: &Cancel) -> Result<AgentTurn, String> {
        let key = (turn.task.clone(), turn.call.path.clone());
        let slot = Arc::clone(lock(&self.slots).entry(key).or_default());
        let mut slot = lock(&slot);
        // Looked at before it starts: a program need not wait for what it is told.
        let before = entries(&turn.workspace);
        let fits = |process: &Arc<Process>| process.can_go_on(&turn.call);
        let process = match slot.process.take().filter(fits) {
            Some(process) => process,
            None => match Process::start(turn, &self.setting, cancel) {
                Ok(process) => process,
                Err(NotStarted::Ended(ended)) => return Ok(ended),
                Err(NotStarted::Failed(reason)) => return Err(reason),
            },
        };
        let at_work = (turn.task.clone(), turn.effect);
        lock(&self.at_work).insert(at_work.clone(), Arc::clone(&process));
        let ended = process.turn(turn, inbox, cancel);
        lock(&self.at_work).remove(&at_work);
        let ended =
            if is_lost(&turn.workspace, &before) { Ok(process.lose_folder()) } else { ended };
        if cancel.is_triggered() && !turn.call.program.protocol.outlives_a_stop() {
            process.finish();
        } else if process.is_alive() {
            slot.process = Some(process);
        }
        ended
    }

    /// Tells the agent whose turn this is; one that is gone misses it. Words that it did not get are given back.
    pub fn tell(
        &self,
        task: &TaskId,
        turn: EffectId,
        order: AgentOrder,
    ) -> Result<(), FailedOrder> {
        let process = lock(&self.at_work).get(&(task.clone(), turn)).cloned();
        match (process, order) {
            (Some(process), order) => process.tell(order),
            (None, AgentOrder::Steer { text }) => Err(FailedOrder::turn_ended(text)),
            (None, _) => Ok(()),
        }
    }

    /// Tells the gateway of the agent whose turn this is whether a request may be sent.
    pub fn let_ask(&self, task: &TaskId, turn: EffectId, request: u64, may: Result<(), String>) {
        let process = lock(&self.at_work).get(&(task.clone(), turn)).cloned();
        if let Some(process) = process {
            process.let_ask(request, may);
        }
    }

    /// Ends the agents of a task; returns when they are gone. Cancel their turns first: this waits for them.
    pub fn close(&self, task: &TaskId) {
        let ended: Vec<Arc<Mutex<Slot>>> = {
            let mut slots = lock(&self.slots);
            let keys: Vec<Key> = slots.keys().filter(|(owner, _)| owner == task).cloned().collect();
            keys.iter().filter_map(|key| slots.remove(key)).collect()
        };
        for slot in ended {
            if let Some(process) = lock(&slot).process.take() {
                process.finish();
            }
        }
    }
}

/// What lies in a workspace, but for names with a dot in front: git's own, and those that a sandbox hides behind empty
/// files while a process runs, come and go by themselves.
fn entries(workspace: &Workspace) -> BTreeSet<OsString> {
    let Some(path) = &workspace.path else { return BTreeSet::new() };
    let listed = std::fs::read_dir(path).into_iter().flatten().flatten();
    let names = listed.map(|entry| entry.file_name());
    names.filter(|name| !name.as_encoded_bytes().starts_with(b".")).collect()
}

/// Whether nothing of a workspace is left of what lay there.
fn is_lost(workspace: &Workspace, before: &BTreeSet<OsString>) -> bool {
    let Some(path) = &workspace.path else { return false };
    !Path::new(path).is_dir() || (!before.is_empty() && before.is_disjoint(&entries(workspace)))
}

/// What a panic under a lock leaves is whole: each change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
