//! The control socket: commands from other processes of the same user to a task that runs in this one.
//!
//! One JSON object a line: `{"v":1,"task":ID,"command":COMMAND}`, answered by `{"v":1,"ok":true}` or
//! `{"v":1,"ok":false,"error":TEXT}`. The answer comes after the command is in the journal, never before.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use machine::Command;
use machine::id::TaskId;
use serde::{Deserialize, Serialize};

use crate::inbox::{Inbox, Refusal};

/// The largest request; a goal or a note is far smaller.
const MAX_REQUEST: u64 = 1 << 20;

/// Connections served at once; more are closed unanswered.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may take to send its request, and a server to journal it.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    v: u32,
    task: TaskId,
    command: Command,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    v: u32,
    ok: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    error: String,
    /// The process lives but does not drive the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    not_here: bool,
}

/// Why a command could not be given.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens: the process is gone.
    #[error("no process listens on {0}")]
    Gone(PathBuf),
    /// The process lives but does not drive the task; nothing was journaled.
    #[error("the process does not drive the task")]
    NotHere,
    /// It was journaled but does not fit the task, or was refused before that.
    #[error("{0}")]
    Refused(String),
    /// The connection broke or took too long: whether the command was journaled is not known.
    #[error("the process that drives the task did not answer: {0}; look with `drivetrain log`")]
    Unknown(String),
}

/// A listening control socket; closed and removed when dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    closing: Arc<AtomicBool>,
}

impl Control {
    /// Listens at `path`, for this user only.
    pub fn listen(path: &Path, inbox: Inbox) -> io::Result<Control> {
        let _ = fs::remove_file(path);
        let listener = with_short_path(path, |path| UnixListener::bind(path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let closing = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&closing);
        let connections = Arc::new(AtomicUsize::new(0));
        std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                if connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                    connections.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (inbox, open) = (inbox.clone(), Arc::clone(&connections));
                let served = std::thread::Builder::new().name("control-client".to_owned()).spawn(
                    move || {
                        // A broken client is its own loss: there is nobody to tell.
                        let _ = serve(stream, &inbox);
                        open.fetch_sub(1, Ordering::Relaxed);
                    },
                );
                if served.is_err() {
                    connections.fetch_sub(1, Ordering::Relaxed);
                }
            }
        })?;
        Ok(Control { path: path.to_owned(), closing })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        // Wakes the listener so that it sees the flag.
        let _ = with_short_path(&self.path, |path| UnixStream::connect(path));
        let _ = fs::remove_file(&self.path);
    }
}

fn serve(stream: UnixStream, inbox: &Inbox) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    if peer.uid != rustix::process::geteuid() {
        return Ok(());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new((&stream).take(MAX_REQUEST));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let refused = |reason: String| Err(Refusal::Rejected(reason));
    let answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) if request.v == 1 => ask(inbox, request),
        Ok(request) => {
            refused(format!("protocol version {} is not spoken here: expected 1", request.v))
        }
        Err(error) => refused(format!("not a request: {error}")),
    };
    let answer = match answer {
        Ok(()) => Answer { v: 1, ok: true, error: String::new(), not_here: false },
        Err(Refusal::Rejected(error)) => Answer { v: 1, ok: false, error, not_here: false },
        Err(Refusal::NotHere) => Answer { v: 1, ok: false, error: String::new(), not_here: true },
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    (&stream).write_all(text.as_bytes())
}

fn ask(inbox: &Inbox, request: Request) -> Result<(), Refusal> {
    let refused = |reason: &str| Err(Refusal::Rejected(reason.to_owned()));
    // Taking a task up or letting it go is its own process's business.
    if matches!(
        request.command,
        Command::Start(_) | Command::Attach { .. } | Command::Drain | Command::Detach { .. }
    ) {
        return refused("this command cannot be given from outside");
    }
    let (sender, answer) = sync_channel(1);
    inbox.command(request.task, request.command.into(), Some(sender)).map_err(Refusal::Rejected)?;
    match answer.recv_timeout(PATIENCE) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => refused("the journal could not be written in time"),
        Err(RecvTimeoutError::Disconnected) => refused("the process is stopping"),
    }
}

/// Gives a command to the process that listens at `path`, and returns once it is journaled.
pub fn send(path: &Path, task: &TaskId, command: Command) -> Result<(), ControlError> {
    let stream = with_short_path(path, |path| UnixStream::connect(path))
        .map_err(|_| ControlError::Gone(path.to_owned()))?;
    let unknown = |error: io::Error| ControlError::Unknown(error.to_string());
    stream.set_read_timeout(Some(PATIENCE + Duration::from_secs(5))).map_err(unknown)?;
    let request = Request { v: 1, task: task.clone(), command };
    let mut text = serde_json::to_string(&request)
        .map_err(|error| ControlError::Unknown(error.to_string()))?;
    text.push('\n');
    (&stream).write_all(text.as_bytes()).map_err(unknown)?;
    let mut line = String::new();
    BufReader::new((&stream).take(MAX_REQUEST)).read_line(&mut line).map_err(unknown)?;
    let answer: Answer = serde_json::from_str(&line)
        .map_err(|_| ControlError::Unknown("the connection closed before an answer".to_owned()))?;
    match answer {
        Answer { ok: true, .. } => Ok(()),
        Answer { not_here: true, .. } => Err(ControlError::NotHere),
        Answer { error, .. } => Err(ControlError::Refused(error)),
    }
}

/// Socket addresses hold 107 bytes; a deep folder is reached through its descriptor.
pub(crate) fn with_short_path<T>(
    path: &Path,
    act: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    if path.as_os_str().len() < 100 {
        return act(path);
    }
    use std::os::fd::AsRawFd;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return act(path) };
    let folder = fs::File::open(folder)?;
    act(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(inbox: Inbox, answer: Result<(), Refusal>) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let batch = inbox.take(None, 0);
            let delivery = batch.deliveries.into_iter().next().unwrap();
            delivery.reply.unwrap().send(answer).unwrap();
            format!("{:?}", delivery.input)
        })
    }

    #[test]
    fn a_command_is_answered_after_it_was_taken_even_below_a_deep_folder() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(120));
        fs::create_dir(&deep).unwrap();
        let path = deep.join("1.sock");
        let inbox = Inbox::default();
        let control = Control::listen(&path, inbox.clone()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let task = TaskId("t1".to_owned());

        let host = answering(inbox.clone(), Ok(()));
        send(&path, &task, Command::Pause).unwrap();
        assert_eq!(host.join().unwrap(), "Command(Pause)");

        let host = answering(inbox, Err(Refusal::Rejected("no".to_owned())));
        assert!(
            matches!(send(&path, &task, Command::Resume), Err(ControlError::Refused(reason)) if reason == "no")
        );
        host.join().unwrap();

        let attach = Command::Attach { owner: 1, attended: true };
        assert!(matches!(send(&path, &task, attach), Err(ControlError::Refused(_))));
        drop(control);
        assert!(matches!(send(&path, &task, Command::Pause), Err(ControlError::Gone(_))));
    }
}
