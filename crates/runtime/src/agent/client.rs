//! What agents have us do for them, once the gate has let it pass: files below the workspace, exactly as they are, and
//! commands in the sandbox that the task's own shell has. Everything that a turn began ends with the turn.

mod terminal;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use machine::agent::AgentNews;
use machine::agent::client::{ClientDone, ClientFailure, ClientWork, CommandExit};

use super::process::Setting;
use super::{Turn, lock};
use crate::beneath::{PathError, Reason, Root, Written};
use crate::home::Home;
use crate::inbox::Inbox;
use crate::process::{Containment, ProcessSpec};
use crate::sandbox::Sandbox;
use crate::{redact, sha256};
use terminal::Terminal;

/// The largest file that is read: as for the tools that change files.
const FILE_LIMIT: u64 = 32 << 20;
/// How long the end of a turn waits for what is under way to end.
const END_LIMIT: Duration = Duration::from_secs(10);
/// How much of the end of a command's output is told with its end, in characters.
const TOLD: usize = 1500;

/// Serves one agent's process.
#[derive(Debug)]
pub(super) struct Client {
    folder: Option<PathBuf>,
    /// How a command is started, but for the command.
    shell: ProcessSpec,
    desk: Mutex<Desk>,
    /// Something has ended.
    ended: Condvar,
}

/// What is under way.
#[derive(Debug, Default)]
struct Desk {
    /// Whom to tell; nothing is begun while there is nobody.
    hears: Option<Hears>,
    terminals: BTreeMap<String, Arc<Terminal>>,
    at_work: usize,
}

/// Who is told of a turn.
#[derive(Debug, Clone)]
struct Hears {
    task: machine::id::TaskId,
    effect: machine::id::EffectId,
    inbox: Inbox,
}

impl Hears {
    fn tell(&self, call: &Arc<str>, ok: bool, text: String) {
        let news = AgentNews::ToolEnded { id: Arc::clone(call), ok, text };
        self.inbox.news(self.task.clone(), self.effect, news);
    }
}

/// Something that was let pass and is performed; whoever holds it is waited for.
pub(super) struct Begun {
    client: Arc<Client>,
    hears: Hears,
}

impl Drop for Begun {
    fn drop(&mut self) {
        lock(&self.client.desk).at_work -= 1;
        self.client.ended.notify_all();
    }
}

impl Client {
    /// For the process of a turn.
    pub(super) fn new(turn: &Turn, setting: &Setting) -> Arc<Client> {
        let folder = turn.workspace.path.as_ref().map(PathBuf::from);
        let passages = Home::at(&setting.state).passages(&turn.task);
        let containment = Sandbox::containment(
            &turn.sandbox,
            &turn.workspace,
            Some(&setting.state),
            Some(&passages),
            &Containment::Auto,
        );
        let shell = ProcessSpec {
            cwd: folder.clone(),
            mark: format!("terminal of {}", turn.task.as_str()),
            mark_dir: setting.marks.clone(),
            containment,
            ..ProcessSpec::new(["sh"])
        };
        Arc::new(Client { folder, shell, desk: Mutex::default(), ended: Condvar::new() })
    }

    /// A turn begins, and this is who hears of it.
    pub(super) fn open(&self, turn: &Turn, inbox: &Inbox) {
        let (task, effect, inbox) = (turn.task.clone(), turn.effect, inbox.clone());
        lock(&self.desk).hears = Some(Hears { task, effect, inbox });
    }

    /// The turn is over, or to be: nothing more is begun, and commands are ended.
    pub(super) fn stop(&self) {
        let terminals = {
            let mut desk = lock(&self.desk);
            desk.hears = None;
            std::mem::take(&mut desk.terminals)
        };
        terminals.values().for_each(|terminal| terminal.kill());
    }

    /// The same; returns once nothing of the turn is under way any more.
    pub(super) fn close(&self) {
        self.stop();
        let until = Instant::now() + END_LIMIT;
        let mut desk = lock(&self.desk);
        while desk.at_work > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.ended.wait_timeout(desk, left);
            desk = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Something is about to be performed; none if the turn is over.
    pub(super) fn begin(self: &Arc<Client>) -> Option<Begun> {
        let mut desk = lock(&self.desk);
        let hears = desk.hears.clone()?;
        desk.at_work += 1;
        Some(Begun { client: Arc::clone(self), hears })
    }

    fn terminal(&self, name: &str) -> Result<Arc<Terminal>, ClientFailure> {
        let found = lock(&self.desk).terminals.get(name).cloned();
        found.ok_or_else(|| failed(format!("there is no terminal {name:?} any more")))
    }

    fn root(&self) -> Result<Root, ClientFailure> {
        let folder: &Path = self.folder.as_deref().ok_or_else(|| {
            failed("there are no files here: this task's workspace is of the kind \"none\"")
        })?;
        Root::open(folder).map_err(|error| {
            failed(format!("cannot open the workspace folder {}: {error}", folder.display()))
        })
    }
}

impl Begun {
    /// Performs it. `call` is what the loop knows it by, if it asked the loop; `alive` is told whenever a command that this
    /// starts says something.
    pub(super) fn perform(
        &self,
        work: ClientWork,
        call: Option<&Arc<str>>,
        alive: impl Fn() + Send + 'static,
    ) -> Result<ClientDone, ClientFailure> {
        let client = &self.client;
        let done = match work {
            ClientWork::ReadFile { path } => {
                let read = client.root().and_then(|root| {
                    root.read(&path, FILE_LIMIT).map_err(|error| of_path("read", &error))
                });
                read.map(|bytes| (shown(&bytes), ClientDone::Content(bytes)))
            }
            ClientWork::WriteFile { path, content } => client.root().and_then(|root| {
                let written = root.write(&path, content.as_bytes(), None);
                let did = match written.map_err(|error| of_path("write", &error))? {
                    Written::Created => "created",
                    Written::Replaced => "replaced",
                    Written::Unchanged => "already had this content:",
                };
                Ok((format!("{did} {path} ({} bytes)", content.len()), ClientDone::Done))
            }),
            ClientWork::RunCommand { terminal, command, keep } => {
                return self.start(terminal, &command, keep, call, alive);
            }
            ClientWork::ShowOutput { terminal } => {
                return client.terminal(&terminal).map(|terminal| terminal.output());
            }
            ClientWork::AwaitExit { terminal } => {
                return client.terminal(&terminal).map(|one| ClientDone::Exited(one.wait()));
            }
            ClientWork::Kill { terminal } => {
                let terminal = client.terminal(&terminal)?;
                terminal.kill();
                terminal.wait();
                return Ok(ClientDone::Done);
            }
            ClientWork::Release { terminal: name } => {
                let terminal = client.terminal(&name)?;
                terminal.kill();
                terminal.wait();
                lock(&client.desk).terminals.remove(&name);
                return Ok(ClientDone::Done);
            }
        };
        if let Some(call) = call {
            let (ok, text) = match &done {
                Ok((said, _)) => (true, said.clone()),
                Err(failure) => (false, failure.why.clone()),
            };
            self.hears.tell(call, ok, text);
        }
        done.map(|(_, done)| done)
    }

    /// Starts a command. Its end is told as that of the call, whenever it comes.
    fn start(
        &self,
        name: String,
        command: &str,
        keep: usize,
        call: Option<&Arc<str>>,
        alive: impl Fn() + Send + 'static,
    ) -> Result<ClientDone, ClientFailure> {
        let mut spec = self.client.shell.clone();
        // One stream, in the order of the writes; the line itself is left as it was judged.
        let merged = ["sh", "-c", "exec sh -c \"$1\" 2>&1", "sh", command];
        spec.argv = merged.map(Into::into).to_vec();
        let (hears, told) = (self.hears.clone(), call.cloned());
        let on_end = move |exit: &CommandExit, printed: String| {
            if let Some(call) = &told {
                let mut text = last_of(&printed);
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(&format!("[{}]", exit.said()));
                hears.tell(call, exit.is_good(), text);
            }
        };
        // Held while the command runs: the end of the turn waits for it.
        let begun = self.client.begin();
        let started = match begun {
            Some(begun) => Terminal::start(spec, keep, alive, move |exit, printed| {
                on_end(exit, printed);
                drop(begun);
            }),
            None => Err("the turn is over".to_owned()),
        };
        let terminal = match started {
            Ok(terminal) => terminal,
            Err(why) => {
                if let Some(call) = call {
                    self.hears.tell(call, false, why.clone());
                }
                return Err(failed(why));
            }
        };
        let mut desk = lock(&self.client.desk);
        if desk.hears.is_none() {
            drop(desk);
            terminal.kill();
            return Err(failed("the turn is over"));
        }
        desk.terminals.insert(name, terminal);
        Ok(ClientDone::Done)
    }
}

fn failed(why: impl Into<String>) -> ClientFailure {
    ClientFailure { is_missing: false, why: why.into() }
}

fn of_path(did: &str, error: &PathError) -> ClientFailure {
    let is_missing = matches!(error.reason, Reason::Missing);
    ClientFailure { is_missing, why: format!("cannot {did} {error}") }
}

/// What a record says of a content in its place: enough to tell it from another.
fn shown(bytes: &[u8]) -> String {
    format!("{} bytes, sha256 {}", bytes.len(), &sha256::of(bytes)[..12])
}

/// The end of a text, with a note if there is more before.
fn last_of(text: &str) -> String {
    let text = redact::text(text);
    let skipped = text.chars().count().saturating_sub(TOLD);
    let end: String = text.chars().skip(skipped).collect();
    if skipped == 0 { end } else { format!("[... {skipped} characters before this ...]\n{end}") }
}
