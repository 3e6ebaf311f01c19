//! Coding agents: one live process for each driver of a task, kept between turns. Bytes go through `wire::agent`, what
//! counts goes to the loop as a signal, and what the loop answers comes back as an order.

mod behind;
mod client;
mod files;
pub mod inventory;
pub mod login;
mod process;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use machine::agent::{AgentCall, AgentOrder, AgentTurn, FailedOrder};
use machine::id::{EffectId, TaskId};
use machine::policy::protected;
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
    /// What ends those that were dismissed.
    leaving: Mutex<BTreeMap<TaskId, Vec<JoinHandle<()>>>>,
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
        let (slots, at_work, leaving) = (Mutex::default(), Mutex::default(), Mutex::default());
        Agents { slots, at_work, leaving, setting }
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
        let before = Entries::of(&turn.workspace);
        let former = slot.process.take();
        let asked = former
            .as_ref()
            .filter(|process| process.can_go_on(&turn.call))
            .and_then(|process| self.ask(process, turn, inbox, cancel));
        let (process, ended) = match (former, asked) {
            (Some(process), Some(ended)) => (process, ended),
            (former, _) => {
                // Whoever goes on in its place works alone.
                former.iter().for_each(|process| process.finish());
                let process = match Process::start(turn, &self.setting, cancel) {
                    Ok(process) => process,
                    Err(NotStarted::Ended(ended)) => return Ok(ended),
                    Err(NotStarted::Failed(reason)) => return Err(reason),
                };
                let ended = self.ask(&process, turn, inbox, cancel);
                // One that was started for this turn has been told its model.
                let refused =
                    || Err("it cannot be asked for the turn it was started for".to_owned());
                (process, ended.unwrap_or_else(refused))
            }
        };
        let ended =
            if is_lost(&turn.workspace, &before) { Ok(process.lose_folder()) } else { ended };
        if cancel.is_triggered() && !turn.call.program.protocol.outlives_a_stop() {
            process.finish();
        } else if process.is_alive() {
            slot.process = Some(process);
        }
        ended
    }

    /// Asks a process for a turn, from the first order to its end: what the loop answers meanwhile comes to it. None if only
    /// another process can be asked.
    fn ask(
        &self,
        process: &Arc<Process>,
        turn: &Turn,
        inbox: &Inbox,
        cancel: &Cancel,
    ) -> Option<Result<AgentTurn, String>> {
        let at_work = (turn.task.clone(), turn.effect);
        lock(&self.at_work).insert(at_work.clone(), Arc::clone(process));
        let ended = process.turn(turn, inbox, cancel);
        lock(&self.at_work).remove(&at_work);
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
        lock(&self.leaving).remove(task).into_iter().flatten().for_each(|leaving| {
            // One that panicked has nothing left to end.
            let _ = leaving.join();
        });
        self.take(task).iter().for_each(put_down);
    }

    /// Ends the agents that a task has by now, and does not wait for it: those that are asked from here on are others.
    pub fn dismiss(&self, task: &TaskId) {
        let former = self.take(task);
        if former.is_empty() {
            return;
        }
        let ends = Arc::new(former);
        let ending = Arc::clone(&ends);
        let leaving = std::thread::Builder::new()
            .name("dismissed".to_owned())
            .spawn(move || ending.iter().for_each(put_down));
        match leaving {
            Ok(leaving) => lock(&self.leaving).entry(task.clone()).or_default().push(leaving),
            Err(_) => ends.iter().for_each(put_down),
        }
    }

    fn take(&self, task: &TaskId) -> Vec<Arc<Mutex<Slot>>> {
        let mut slots = lock(&self.slots);
        let keys: Vec<Key> = slots.keys().filter(|(owner, _)| owner == task).cloned().collect();
        keys.iter().filter_map(|key| slots.remove(key)).collect()
    }
}

/// Ends the process of a slot, once its turn is over.
fn put_down(slot: &Arc<Mutex<Slot>>) {
    if let Some(process) = lock(slot).process.take() {
        process.put_down();
    }
}

/// What lies in a workspace, but for git's own.
#[derive(Debug, Default)]
struct Entries {
    /// Whether there is anything that anybody sees.
    seen: bool,
    /// Names with a dot in front that hold something. Those that hold nothing do not count: a sandbox puts them in the
    /// place of what it hides, and takes them away again.
    hidden: BTreeSet<OsString>,
}

impl Entries {
    fn of(workspace: &Workspace) -> Entries {
        let mut entries = Entries::default();
        let Some(path) = &workspace.path else { return entries };
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            // Some of the names that a sandbox puts empty files in the place of have no dot in front.
            let may_be_hidden = name.to_str().is_some_and(|name| protected::part(name).is_some());
            let holds_nothing = (is_hidden || may_be_hidden) && !holds_something(&entry.path());
            if name == ".git" || holds_nothing {
                continue;
            }
            if is_hidden {
                entries.hidden.insert(name);
            } else {
                entries.seen = true;
            }
        }
        entries
    }
}

/// Whether there is a file below this path that is not empty.
fn holds_something(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            let mut inside = std::fs::read_dir(path).into_iter().flatten().flatten();
            inside.any(|entry| holds_something(&entry.path()))
        }
        Ok(found) => !found.is_file() || found.len() > 0,
        Err(_) => false,
    }
}

/// Whether a workspace is gone, or emptied. Files that have other names than before, or lie in a folder that was not there
/// before, are work; what a sandbox keeps from being removed is none.
fn is_lost(workspace: &Workspace, before: &Entries) -> bool {
    let Some(path) = &workspace.path else { return false };
    if !Path::new(path).is_dir() {
        return true;
    }
    let now = Entries::of(workspace);
    before.seen && !now.seen && now.hidden.is_subset(&before.hidden)
}

/// What a panic under a lock leaves is whole: each change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use machine::task::WorkspaceKind;

    use super::*;

    /// Whether a workspace with one file that anybody sees is lost after this.
    fn is_lost_after(change: impl Fn(&Path)) -> bool {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in
            [("main.py", "x"), (".git", "gitdir: y"), (".mcp.json", "{}"), (".env", "")]
        {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let path = Some(folder.path().to_string_lossy().into_owned());
        let workspace = Workspace { kind: WorkspaceKind::InPlace, path, branch: None, base: None };
        let before = Entries::of(&workspace);
        change(folder.path());
        is_lost(&workspace, &before)
    }

    #[test]
    fn a_workspace_is_lost_when_it_is_gone_or_emptied_and_not_when_its_files_are_elsewhere() {
        assert!(!is_lost_after(|_| {}));
        for place in ["other.py", "src/main.py", ".github/workflows/main.py"] {
            let moved = is_lost_after(|path| {
                fs::create_dir_all(path.join(place).parent().unwrap()).unwrap();
                fs::rename(path.join("main.py"), path.join(place)).unwrap();
            });
            assert!(!moved, "{place}");
        }
        assert!(is_lost_after(|path| fs::remove_dir_all(path).unwrap()));
        // What a sandbox keeps, and what it puts there itself, is nothing that was worked.
        assert!(is_lost_after(|path| {
            fs::remove_file(path.join("main.py")).unwrap();
            fs::create_dir(path.join(".vscode")).unwrap();
            fs::write(path.join(".vscode/settings.json"), "").unwrap();
            fs::write(path.join("rust-toolchain"), "").unwrap();
        }));
    }
}
