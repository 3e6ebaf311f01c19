//! Deciders outside: plugin processes, asked over JSON-RPC 2.0 on their standard input and output.
//!
//! A process lives as long as its task is attended to here, and is started when it is first asked. One that
//! dies, answers too late or talks nonsense is ended; the next question starts a new one, which gets the
//! plugin's last state with `initialize`. Nothing is kept here that would be missed: question and state are in
//! the effect.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::driver::external::PluginSpec;
use machine::policy::protected;
use machine::policy::sandbox::SandboxSpec;
use machine::task::Workspace;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::jsonrpc::{self, Incoming};

use crate::gate::{self, Door, Gates};
use crate::process::{Cancel, Child, Containment, ProcessSpec, ReadError};
use crate::sandbox::{Access, Program};

/// The version of the protocol; a plugin that names another one is refused.
pub const PROTOCOL: u64 = 1;

/// The method of those who decide about calls in a person's place.
const JUDGE: &str = "judge";

/// How long a line may be, in bytes, in either direction.
const LINE_LIMIT: usize = 8 * 1024 * 1024;

/// How many lines of a process may be no JSON-RPC before it is ended.
const MALFORMED_LIMIT: u64 = 64;

/// How many lines that are no answer are still read once the time for one is over: it may stand right behind them.
const LATE_LIMIT: u64 = 1000;

/// How long an answer may take if the plugin's file does not say.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a process may take to end by itself once its input is closed.
const GRACE: Duration = Duration::from_millis(500);

/// The plugin processes of this runtime.
#[derive(Debug, Default)]
pub struct Plugins {
    slots: Mutex<BTreeMap<Key, Arc<Mutex<Slot>>>>,
    mark_dir: Option<PathBuf>,
    gates: Option<Arc<Gates>>,
    /// What nothing inside a sandbox sees.
    state: Option<PathBuf>,
}

/// The walls around a plugin.
#[derive(Debug, Clone, Copy)]
pub struct Walls<'a> {
    /// The task's sandbox.
    pub spec: &'a SandboxSpec,
    /// Where the task works: a plugin looks at it, and writes there only if its file says so.
    pub workspace: &'a Workspace,
}

/// A task and a driver's place in it: each driver of a tree has a process of its own.
type Key = (String, Vec<u32>);

/// A place for one process; its lock lets one question at a time through.
#[derive(Debug, Default)]
struct Slot {
    process: Option<Process>,
}

/// Who is asked, and with what.
struct Question<'a> {
    task: &'a str,
    plugin: PluginSpec,
    config: &'a Value,
    method: &'a str,
    params: &'a Value,
    walls: Walls<'a>,
}

impl Plugins {
    /// No process yet. Marks of those that will be started go to `mark_dir`, so that a runtime that comes after
    /// a crash finds what is left of them.
    pub fn new(mark_dir: Option<PathBuf>) -> Plugins {
        Plugins { slots: Mutex::default(), mark_dir, gates: None, state: None }
    }

    /// The same, where a plugin can ask for tools while it decides: its task's door, if it is open when the process
    /// starts, is named in the process's environment.
    #[must_use]
    pub fn behind(mut self, gates: Arc<Gates>) -> Plugins {
        self.gates = Some(gates);
        self
    }

    /// Hides the folder of this program's own state from them.
    #[must_use]
    pub fn hiding(mut self, state: &Path) -> Plugins {
        self.state = Some(state.to_owned());
        self
    }

    /// Asks a plugin and waits for its answer; the process is started if there is none.
    ///
    /// `plugin` and `request` are those of `Effect::Consult`; a request names its own plugin if it comes from
    /// below a composite driver. Blocks the calling thread, at most for three times the plugin's timeout, or until
    /// `cancel` is triggered. Questions of different drivers run at once, those of one driver one by one. The
    /// error is for a person and holds the end of the process's error output.
    pub fn consult(
        &self,
        task: &str,
        plugin: &Value,
        request: &Value,
        walls: Walls<'_>,
        cancel: &Cancel,
    ) -> Result<Value, String> {
        let source = if request.get("plugin").is_some() { request } else { plugin };
        let question = Question {
            task,
            plugin: PluginSpec::deserialize(&source["plugin"])
                .map_err(|why| format!("the plugin's configuration does not fit: {why}"))?,
            config: &source["config"],
            method: request["method"].as_str().ok_or("the question names no method")?,
            params: &request["params"],
            walls,
        };
        let path = match &request["path"] {
            Value::Null => Vec::new(),
            path => Vec::deserialize(path)
                .map_err(|why| format!("the question's path does not fit: {why}"))?,
        };
        let slot = Arc::clone(lock(&self.slots).entry((task.to_owned(), path)).or_default());
        let mut slot = lock(&slot);
        self.ask(&mut slot, &question, cancel)
    }

    /// Ends the processes of a task; returns when they are gone. Cancel the task's questions first: this waits
    /// for those under way.
    pub fn close(&self, task: &str) {
        let ended: Vec<Arc<Mutex<Slot>>> = {
            let mut slots = lock(&self.slots);
            let keys: Vec<Key> = slots.keys().filter(|(owner, _)| owner == task).cloned().collect();
            keys.iter().filter_map(|key| slots.remove(key)).collect()
        };
        for slot in ended {
            if let Some(mut process) = lock(&slot).process.take() {
                process.child.finish(GRACE);
            }
        }
    }

    fn ask(
        &self,
        slot: &mut Slot,
        question: &Question<'_>,
        cancel: &Cancel,
    ) -> Result<Value, String> {
        let name = &question.plugin.name;
        let mut process = match slot.process.take() {
            // A process that died in silence is found out before it is asked, not by the question.
            Some(process) if process.child.wait(Duration::ZERO).is_none() => process,
            _ => self.start(question, cancel).map_err(|why| format!("plugin {name}: {why}"))?,
        };
        match process.answer(question, cancel) {
            Ok(answer) => {
                slot.process = Some(process);
                Ok(answer)
            }
            // An error that the plugin itself reports leaves it fit to go on.
            Err(Failure::Refused(why)) => {
                let report = process.report(&why);
                slot.process = Some(process);
                Err(format!("plugin {name}: {report}"))
            }
            Err(Failure::Broken(why)) => {
                process.child.kill();
                Err(format!("plugin {name}: {}", process.report(&why)))
            }
        }
    }

    fn start(&self, question: &Question<'_>, cancel: &Cancel) -> Result<Process, String> {
        let plugin = &question.plugin;
        if question.method == JUDGE {
            check_judge(plugin, question.walls.workspace)?;
        }
        let mut spec = ProcessSpec::new(plugin.command.iter().cloned());
        spec.cwd = plugin.folder.as_ref().map(PathBuf::from);
        spec.env = plugin.env.clone().into_iter().collect();
        spec.mark = question.task.to_owned();
        spec.mark_dir = self.mark_dir.clone();
        let door = self.gates.as_ref().and_then(|gates| gates.door(question.task));
        if let Some(door) = &door {
            let path = door.path().display().to_string();
            spec.env.push((gate::SOCKET_VARIABLE.to_owned(), path));
            spec.secrets.push((gate::TOKEN_VARIABLE.to_owned(), door.token().clone()));
        }
        let writes = plugin.needs.writes_workspace == Some(true);
        let program = Program {
            task: question.walls.spec,
            needs: &plugin.needs,
            workspace: question.walls.workspace,
            folder: spec.cwd.as_deref(),
            access: if writes { Access::Write } else { Access::Read },
            state: self.state.as_deref(),
            name: question.task,
            gate: door.as_ref().map(|door| door.path()),
            own: None,
            gateway: None,
            files: &[],
        };
        spec.containment = program.containment(&Containment::Auto);
        let child = Child::spawn(spec).map_err(|why| why.to_string())?;
        let timeout = plugin.timeout.map_or(TIMEOUT, |span| Duration::from_millis(span.0));
        let mut process = Process {
            child,
            timeout,
            last_id: 0,
            observes: false,
            snapshots: false,
            tally: Tally::default(),
            door,
        };
        match process.initialize(question, cancel) {
            Ok(()) => Ok(process),
            Err(Failure::Broken(why) | Failure::Refused(why)) => {
                process.child.kill();
                Err(process.report(&why))
            }
        }
    }
}

/// Whoever judges a worker's calls must not be what the worker wrote: no file that its command names may lie where the
/// task works, unless it lies below a name that nobody there can write.
fn check_judge(plugin: &PluginSpec, workspace: &Workspace) -> Result<(), String> {
    let (Some(folder), Some(workspace)) = (&plugin.folder, &workspace.path) else { return Ok(()) };
    let Ok(workspace) = fs::canonicalize(workspace) else { return Ok(()) };
    for (number, word) in plugin.command.iter().enumerate() {
        // A bare word at the beginning is looked up among the system's programs.
        let path = Path::new(folder).join(word);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir());
        if !is_file || (number == 0 && !word.contains('/')) {
            continue;
        }
        let above = path.parent().and_then(|above| fs::canonicalize(above).ok());
        let named = above.zip(path.file_name()).map(|(above, name)| above.join(name));
        for place in named.into_iter().chain(fs::canonicalize(&path)) {
            let Ok(below) = place.strip_prefix(&workspace) else { continue };
            let first = below.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
            if protected::part(first).is_none() {
                return Err(format!(
                    "{} lies where the task works and could have been written by the worker: keep it below \
                     .drivetrain or elsewhere",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

/// A running plugin that was initialized.
#[derive(Debug)]
struct Process {
    child: Child,
    timeout: Duration,
    last_id: u64,
    /// It wants each observation as a notification of its own.
    observes: bool,
    /// It gives its state when asked, not with every answer.
    snapshots: bool,
    tally: Tally,
    /// Where it asks for tools.
    door: Option<Arc<Door>>,
}

/// Lines of a process that were not answers to what it was asked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    malformed: u64,
    notifications: u64,
    stale: u64,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The plugin said no.
    Refused(String),
    /// The process is of no use any more.
    Broken(String),
}

impl Process {
    fn initialize(&mut self, question: &Question<'_>, cancel: &Cancel) -> Result<(), Failure> {
        let params = json!({
            "protocol": PROTOCOL,
            "driver": question.plugin.name,
            "config": question.config,
            "state": question.params["state"],
        });
        let answer = self.call("initialize", &params, cancel)?;
        if let Some(protocol) =
            answer.get("protocol").filter(|protocol| **protocol != json!(PROTOCOL))
        {
            return Err(Failure::Broken(format!(
                "it speaks protocol {protocol}, expected {PROTOCOL}"
            )));
        }
        // A table that says yes, or a list that names them: what is not understood here would cost its state in silence.
        let can = |what: &str| {
            let said = &answer["capabilities"];
            said[what] == true || said.as_array().is_some_and(|list| list.contains(&json!(what)))
        };
        self.observes = can("observe");
        self.snapshots = can("snapshot");
        Ok(())
    }

    /// One question with what the plugin's capabilities add to it.
    fn answer(&mut self, question: &Question<'_>, cancel: &Cancel) -> Result<Value, Failure> {
        if self.observes {
            for observation in question.params["observations"].as_array().into_iter().flatten() {
                self.send(&jsonrpc::notification("observe", observation), cancel)?;
            }
        }
        let mut answer = self.call(question.method, question.params, cancel)?;
        if self.snapshots
            && let Some(fields) = answer.as_object_mut()
            && !fields.contains_key("state")
        {
            let state = self.call("snapshot", &json!({}), cancel)?;
            fields.insert("state".to_owned(), state);
        }
        Ok(answer)
    }

    fn call(&mut self, method: &str, params: &Value, cancel: &Cancel) -> Result<Value, Failure> {
        self.last_id += 1;
        self.send(&jsonrpc::request(self.last_id, method, params), cancel)?;
        let mut deadline = Instant::now() + self.timeout;
        let mut late = 0;
        loop {
            // One that never stops to speak is late too, though there is always another line.
            late += u64::from(Instant::now() >= deadline);
            if late > LATE_LIMIT && !self.waited_until(&mut deadline) {
                return Err(self.too_late(method));
            }
            let line = match self.child.read_line(deadline, LINE_LIMIT, cancel) {
                Ok(Some(line)) => line,
                Ok(None) => return Err(Failure::Broken(self.ended(method))),
                Err(ReadError::NotText) => {
                    self.malformed("not UTF-8")?;
                    continue;
                }
                // Its time does not run while it waits for a tool.
                Err(ReadError::TimedOut) if self.waited_until(&mut deadline) => continue,
                Err(ReadError::TimedOut) => return Err(self.too_late(method)),
                Err(why) => return Err(Failure::Broken(format!("no answer to {method}: {why}"))),
            };
            if line.trim().is_empty() {
                continue;
            }
            match jsonrpc::classify(&line) {
                Ok(Incoming::Response { id, result }) if id == self.last_id => {
                    return result.map_err(|why| {
                        Failure::Refused(format!(
                            "it refused {method}: {} ({})",
                            why.message, why.code
                        ))
                    });
                }
                Ok(Incoming::Response { .. }) => self.tally.stale += 1,
                Ok(Incoming::Notification { .. }) => self.tally.notifications += 1,
                Ok(Incoming::Request { id, method, .. }) => {
                    let message = format!("drivetrain serves no method {method:?}");
                    let refusal = jsonrpc::refusal(&id, jsonrpc::METHOD_NOT_FOUND, &message);
                    self.send(&refusal, cancel)?;
                }
                Err(why) => self.malformed(&why)?,
            }
        }
    }

    fn too_late(&self, method: &str) -> Failure {
        let waited = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        Failure::Broken(format!("no answer to {method} within {}", machine::time::Span(waited)))
    }

    /// Puts the deadline off to what is left since the plugin last waited for us; false if nothing is.
    fn waited_until(&self, deadline: &mut Instant) -> bool {
        let owed = self.door.as_ref().and_then(|door| door.last_owed());
        *deadline = owed.map_or(*deadline, |owed| owed + self.timeout);
        *deadline > Instant::now()
    }

    fn send(&mut self, line: &str, cancel: &Cancel) -> Result<(), Failure> {
        if line.len() > LINE_LIMIT {
            let size = line.len();
            return Err(Failure::Broken(format!(
                "a question of {size} bytes is longer than {LINE_LIMIT}"
            )));
        }
        self.child
            .write_line(line, cancel)
            .map_err(|why| Failure::Broken(format!("it takes no question: {why}")))
    }

    fn malformed(&mut self, why: &str) -> Result<(), Failure> {
        self.tally.malformed += 1;
        if self.tally.malformed <= MALFORMED_LIMIT {
            return Ok(());
        }
        let count = self.tally.malformed;
        Err(Failure::Broken(format!("{count} of its lines are no JSON-RPC, the last: {why}")))
    }

    /// It closed its output: how it ended, if it did.
    fn ended(&self, method: &str) -> String {
        let how = match self.child.wait(GRACE) {
            Some(exit) => match (exit.code, exit.signal) {
                (Some(code), _) => format!("it exited with {code}"),
                (None, Some(signal)) => format!("it was killed by signal {signal}"),
                (None, None) => "it ended".to_owned(),
            },
            None => "it closed its output".to_owned(),
        };
        format!("{how} before it answered {method}")
    }

    /// A failure with what may explain it.
    fn report(&self, why: &str) -> String {
        let mut report = why.to_owned();
        let Tally { malformed, notifications, stale } = self.tally;
        if malformed + notifications + stale > 0 {
            report.push_str(&format!(
                " ({malformed} malformed lines, {notifications} notifications and {stale} stale answers skipped)"
            ));
        }
        report.push_str(&self.child.complaint());
        match &self.door {
            Some(door) => door.token().hide(&report),
            None => report,
        }
    }
}

/// A panic under a lock leaves the process in an unknown place in its talk, and ids tell stale answers apart.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
