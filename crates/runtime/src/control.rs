//! The control socket: commands from other processes of the same user to a task that runs in this one.
//!
//! One JSON object a line: `{"v":1,"task":ID,"command":COMMAND}`, answered by `{"v":1,"ok":true}` or
//! `{"v":1,"ok":false,"error":TEXT}`. The answer comes after the command is in the journal, never before. Without a
//! command it is asked whether the process drives the task: that it takes one up is not in the journal at once.
//!
//! This is the operator's side: whoever can speak here can approve. So it stands in a folder that only this user can
//! enter, both ends make sure of the other's user, and no box that holds a worker ever sees it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use machine::Command;
use machine::id::TaskId;
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::inbox::{Inbox, Refusal};
use crate::process::is_stopped;
use crate::socket;

/// The largest request; a goal or a note is far smaller.
const MAX_REQUEST: usize = 1 << 20;

/// Connections served at once; more wait for their turn, as long as whoever is served may take.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may take to send its request, and a server to journal it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a process that ends waits for the answers it owes.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long a listener rests after the system refused it a connection.
const REST: Duration = Duration::from_millis(50);

/// How often a listener to whom nobody speaks looks whether it can still be found.
const GLANCE: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    v: u32,
    task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Command>,
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
    /// The command waits to be journaled, and will be when that is possible.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    late: bool,
}

impl Answer {
    fn of(answer: Result<(), Refusal>) -> Answer {
        let (error, not_here) = match &answer {
            Ok(()) => (String::new(), false),
            Err(Refusal::Rejected(error)) => (error.clone(), false),
            Err(Refusal::NotHere) => (String::new(), true),
        };
        Answer { v: 1, ok: answer.is_ok(), error, not_here, late: false }
    }

    fn late() -> Answer {
        let error = ControlError::Late.to_string();
        Answer { v: 1, ok: false, error, not_here: false, late: true }
    }

    fn read(self) -> Result<(), ControlError> {
        match self {
            Answer { ok: true, .. } => Ok(()),
            Answer { not_here: true, .. } => Err(ControlError::NotHere),
            Answer { late: true, .. } => Err(ControlError::Late),
            Answer { error, .. } => Err(ControlError::Refused(error)),
        }
    }
}

/// Why a command could not be given.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens: the process is gone.
    #[error("no process listens on {0}")]
    Gone(PathBuf),
    /// The socket, or its folder, may be another user's: nothing was said to it.
    #[error("the control socket cannot be trusted: {0}")]
    Untrusted(String),
    /// The process lives but does not drive the task; nothing was journaled.
    #[error("the process does not drive the task")]
    NotHere,
    /// It was journaled but does not fit the task, or was refused before that.
    #[error("{0}")]
    Refused(String),
    /// It could not be journaled in time, and is when that is possible again: the process waits for the disk, or for whoever
    /// reads what it prints.
    #[error(
        "the process that drives the task has not come to it in time, because the disk is full or nobody reads what it prints: the command waits there and takes effect when that is over; look with `drivetrain log`, or end the process with two signals (kill)"
    )]
    Late,
    /// The process was stopped, as Ctrl-Z does: nothing was said to it, which it would do whenever it goes on.
    #[error(
        "process {0}, which drives the task, is stopped (Ctrl-Z), so nothing was said to it: let it go on with `fg` in its terminal or `kill -CONT {0}`, then give the command again"
    )]
    Stopped(i32),
    /// The connection broke or took too long: whether the command was journaled is not known.
    #[error("the process that drives the task did not answer: {0}; look with `drivetrain log`")]
    Unknown(String),
}

/// A listening control socket; closed and removed when dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    closing: Arc<AtomicBool>,
    /// Requests that were read and not answered yet.
    owed: Arc<AtomicUsize>,
}

impl Control {
    /// Listens at `path`, for this user only: a folder that others may use is refused. A program that tidies up may remove the
    /// socket: then it is made again, and `look` is for what else has to be found there.
    pub fn listen(
        path: &Path,
        inbox: Inbox,
        look: impl Fn() + Send + 'static,
    ) -> io::Result<Control> {
        let mut listener = socket::listen(path)?;
        let place = path.to_owned();
        let closing = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&closing);
        let connections = Arc::new(AtomicUsize::new(0));
        let owed = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&owed);
        std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if !socket::has_come(&listener, GLANCE) {
                    look();
                    if let Some(anew) = found_again(&place) {
                        listener = anew;
                    }
                    if stop.load(Ordering::Relaxed) {
                        let _ = fs::remove_file(&place);
                    }
                    continue;
                }
                let accepted = listener.accept();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let Ok((stream, _)) = accepted else {
                    std::thread::sleep(REST);
                    continue;
                };
                while connections.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
                    std::thread::sleep(REST);
                }
                connections.fetch_add(1, Ordering::Relaxed);
                let (inbox, open) = (inbox.clone(), Arc::clone(&connections));
                let owed = Arc::clone(&counted);
                let served = std::thread::Builder::new().name("control-client".to_owned()).spawn(
                    move || {
                        // A broken client is its own loss: there is nobody to tell.
                        let _ = serve(stream, &inbox, &owed);
                        open.fetch_sub(1, Ordering::Relaxed);
                    },
                );
                if served.is_err() {
                    connections.fetch_sub(1, Ordering::Relaxed);
                }
            }
        })?;
        Ok(Control { path: path.to_owned(), closing, owed })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        // Wakes the listener so that it sees the flag.
        let _ = socket::connect(&self.path);
        let _ = fs::remove_file(&self.path);
        // A command may end the task and with it this process: whoever gave it is told before.
        let until = Instant::now() + LAST_WORDS;
        while self.owed.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A new listener at a place where there is none any more. Where none can be made now, it is tried again.
fn found_again(path: &Path) -> Option<UnixListener> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => socket::listen(path).ok(),
        Ok(_) | Err(_) => None,
    }
}

fn serve(stream: UnixStream, inbox: &Inbox, owed: &AtomicUsize) -> io::Result<()> {
    if !socket::is_ours(&stream) {
        return Ok(());
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = read_request(&stream, Instant::now() + PATIENCE)?;
    owed.fetch_add(1, Ordering::AcqRel);
    let answered = answer(&stream, &line, inbox);
    owed.fetch_sub(1, Ordering::AcqRel);
    answered
}

fn answer(stream: &UnixStream, line: &[u8], inbox: &Inbox) -> io::Result<()> {
    let refused = |reason: String| Answer::of(Err(Refusal::Rejected(reason)));
    let answer = match read(line) {
        Ok(request) if request.v == 1 => ask(inbox, request, PATIENCE),
        Ok(request) => {
            refused(format!("protocol version {} is not spoken here: expected 1", request.v))
        }
        Err(reason) => refused(format!("not a request: {reason}")),
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    (&*stream).write_all(text.as_bytes())
}

/// Reads the one line, within the time for all of it and up to the largest request.
fn read_request(stream: &UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut line, mut chunk) = (Vec::new(), [0u8; 4096]);
    while line.len() <= MAX_REQUEST {
        let count = socket::read(&stream, &mut chunk, Some(deadline))?;
        let end = chunk[..count].iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&chunk[..end.unwrap_or(count)]);
        if count == 0 || end.is_some() {
            return Ok(line);
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

/// A request has one reading: a key that stands twice is an error.
fn read(line: &[u8]) -> Result<Request, String> {
    let value = match wire::gate::parse(line) {
        Ok(value) => value,
        Err(wire::gate::Unfit::Foreign) => return Err("it is no JSON".to_owned()),
        Err(wire::gate::Unfit::Malformed(why)) => return Err(why),
    };
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn ask(inbox: &Inbox, request: Request, patience: Duration) -> Answer {
    let refused = |reason: &str| Answer::of(Err(Refusal::Rejected(reason.to_owned())));
    let Some(command) = request.command else {
        let drives = inbox.drives(&request.task);
        return Answer::of(if drives { Ok(()) } else { Err(Refusal::NotHere) });
    };
    // Taking a task up or letting it go is its own process's business.
    if matches!(
        command,
        Command::Start(_) | Command::Attach { .. } | Command::Drain | Command::Detach { .. }
    ) {
        return refused("this command cannot be given from outside");
    }
    let (sender, answer) = sync_channel(1);
    if let Err(reason) = inbox.command(request.task, command.into(), Some(sender)) {
        return refused(&reason);
    }
    match answer.recv_timeout(patience) {
        Ok(answer) => Answer::of(answer),
        // It stays where it is and enters when there is room, so it is not refused.
        Err(RecvTimeoutError::Timeout) => Answer::late(),
        Err(RecvTimeoutError::Disconnected) => refused("the process is stopping"),
    }
}

/// Gives a command to the process that listens at `path`, and returns once it is journaled.
pub fn send(path: &Path, task: &TaskId, command: Command) -> Result<(), ControlError> {
    say(path, Request { v: 1, task: task.clone(), command: Some(command) })
}

/// The living process that drives a task which has this owner in the journal, or is just taking it up. An owner that lives
/// may have let go of it.
pub fn driver(home: &Home, owner: u64, task: &TaskId) -> Option<u32> {
    let pid = home.alive(owner)?;
    let asked = Request { v: 1, task: task.clone(), command: None };
    match say(&home.socket(owner), asked) {
        Ok(()) => Some(pid),
        Err(ControlError::NotHere) => None,
        Err(ControlError::Stopped(_)) => Some(pid),
        // One that is just ending has let go of all its tasks. Of one that does not answer, such as one whose socket was
        // removed, that is not known.
        Err(_) => (!has_ended(home, owner)).then_some(pid),
    }
}

/// Whether the process of this owner has ended, or does so by the time that its last words may take.
pub fn has_ended(home: &Home, owner: u64) -> bool {
    let until = Instant::now() + 2 * LAST_WORDS;
    while home.alive(owner).is_some() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

fn say(path: &Path, request: Request) -> Result<(), ControlError> {
    let stream = socket::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => ControlError::Untrusted(error.to_string()),
        _ => ControlError::Gone(path.to_owned()),
    })?;
    if let Some(pid) = socket::peer(&stream).filter(|pid| is_stopped(*pid)) {
        return Err(ControlError::Stopped(pid));
    }
    let unknown = |error: io::Error| {
        ControlError::Unknown(match error.kind() {
            // A read whose time is over says "would block".
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                "nothing came within half a minute; it may have been stopped (Ctrl-Z)".to_owned()
            }
            _ => error.to_string(),
        })
    };
    stream.set_read_timeout(Some(PATIENCE + Duration::from_secs(5))).map_err(unknown)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(unknown)?;
    let mut text = serde_json::to_string(&request)
        .map_err(|error| ControlError::Unknown(error.to_string()))?;
    text.push('\n');
    (&stream).write_all(text.as_bytes()).map_err(unknown)?;
    let mut line = String::new();
    BufReader::new((&stream).take(MAX_REQUEST as u64)).read_line(&mut line).map_err(unknown)?;
    let answer: Answer = serde_json::from_str(&line)
        .map_err(|_| ControlError::Unknown("the connection closed before an answer".to_owned()))?;
    answer.read()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    use super::*;

    /// What a listening socket answers to these bytes; none if it closes without a word.
    fn says(path: &Path, bytes: &[u8]) -> Option<String> {
        let stream = socket::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The other end may close before it has read all of a large request.
        let _ = (&stream).write_all(bytes);
        let mut line = String::new();
        let _ = BufReader::new(&stream).read_line(&mut line);
        (!line.is_empty()).then_some(line)
    }

    fn listening() -> (tempfile::TempDir, PathBuf, Control) {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let path = folder.path().join("1.sock");
        let control = Control::listen(&path, Inbox::default(), || {}).unwrap();
        (folder, path, control)
    }

    #[test]
    fn a_request_has_one_reading_and_a_size() {
        let (_folder, path, _control) = listening();
        for (bytes, expected) in [
            (r#"{"v":1,"task":"a","task":"b","command":"pause"}"#, "stands twice"),
            (r#"{"v":1,"task":"a","command":{"approve":{"call":1,"call":2}}}"#, "stands twice"),
            (r#"{"v":1,"task":"a","command":"pause","as":"root"}"#, "unknown field"),
            (r#"{"v":2,"task":"a","command":"pause"}"#, "is not spoken here"),
            ("GET / HTTP/1.1\r", "no JSON"),
        ] {
            let said = says(&path, format!("{bytes}\n").as_bytes()).unwrap();
            assert!(said.contains("\"ok\":false") && said.contains(expected), "{bytes}: {said}");
        }
        assert_eq!(says(&path, &vec![b'a'; MAX_REQUEST + 8192]), None);
    }

    #[test]
    fn a_command_that_waits_for_the_disk_is_not_called_refused() {
        let inbox = Inbox::default();
        let request = || Request {
            v: 1,
            task: TaskId("t1".to_owned()),
            command: Some(Command::Cancel { reason: String::new() }),
        };
        let answer = ask(&inbox, request(), Duration::from_millis(1));
        let text = serde_json::to_string(&answer).unwrap();
        let read = serde_json::from_str::<Answer>(&text).unwrap().read();
        assert!(matches!(read, Err(ControlError::Late)), "{read:?}");
        assert_eq!(inbox.take(None, 0).deliveries.len(), 1, "it enters when there is room");
    }

    #[test]
    fn a_process_says_which_tasks_it_drives() {
        let (folder, path, _control) = listening();
        let inbox = Inbox::default();
        let second = folder.path().join("2.sock");
        let _listening = Control::listen(&second, inbox.clone(), || {}).unwrap();
        let task = TaskId("t1".to_owned());
        let asked = |path: &Path| say(path, Request { v: 1, task: task.clone(), command: None });
        assert!(matches!(asked(&path), Err(ControlError::NotHere)));
        inbox.take_up(&task);
        assert!(asked(&second).is_ok());
        inbox.let_go(&task);
        assert!(matches!(asked(&second), Err(ControlError::NotHere)));
    }

    #[test]
    fn a_living_process_that_does_not_answer_is_taken_for_one_that_drives() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        home.create().unwrap();
        let task = TaskId("t1".to_owned());
        let presence = crate::home::Presence::take(&home, 7).unwrap();
        let listener = socket::listen(&home.socket(7)).unwrap();
        let breaks_off = std::thread::spawn(move || drop(listener.accept()));
        assert_eq!(driver(&home, 7, &task), Some(std::process::id()));
        breaks_off.join().unwrap();
        drop(presence);
        assert_eq!(driver(&home, 7, &task), None);
    }

    #[test]
    fn what_was_journaled_is_answered_before_the_process_ends() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let path = folder.path().join("1.sock");
        let inbox = Inbox::default();
        let control = Control::listen(&path, inbox.clone(), || {}).unwrap();
        let client = {
            let path = path.clone();
            std::thread::spawn(move || {
                send(&path, &TaskId("t1".to_owned()), Command::Cancel { reason: String::new() })
            })
        };
        let delivery = inbox.take(None, 0).deliveries.into_iter().next().unwrap();
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            delivery.reply.unwrap().send(Ok(())).unwrap();
        });
        drop(control);
        assert!(late.is_finished(), "the answer was owed");
        client.join().unwrap().unwrap();
    }

    #[test]
    fn a_socket_that_was_removed_is_made_again() {
        let (_folder, path, control) = listening();
        let asked = || Request { v: 1, task: TaskId("t1".to_owned()), command: None };
        for _ in 0..2 {
            fs::remove_file(&path).unwrap();
            assert!(matches!(say(&path, asked()), Err(ControlError::Gone(_))));
            let until = Instant::now() + PATIENCE;
            while !path.exists() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            // It has its name before it is ours alone.
            let mut said = say(&path, asked());
            while matches!(said, Err(ControlError::Untrusted(_) | ControlError::Gone(_)))
                && Instant::now() < until
            {
                said = say(&path, asked());
            }
            assert!(matches!(said, Err(ControlError::NotHere)), "{said:?}");
        }
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn whoever_finds_all_places_taken_waits_for_one() {
        let (_folder, path, _control) = listening();
        let silent: Vec<UnixStream> =
            (0..MAX_CONNECTIONS).map(|_| socket::connect(&path).unwrap()).collect();
        let asks = std::thread::spawn(move || {
            say(&path, Request { v: 1, task: TaskId("t1".to_owned()), command: None })
        });
        // It would have been turned away by now.
        std::thread::sleep(Duration::from_millis(200));
        drop(silent);
        let said = asks.join().unwrap();
        assert!(matches!(said, Err(ControlError::NotHere)), "{said:?}");
    }

    #[test]
    fn the_whole_request_has_one_time_limit() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let deadline = Instant::now() + Duration::from_millis(300);
        let reading = std::thread::spawn(move || read_request(&ours, deadline));
        // One byte at a time never lets a single read wait for long.
        while Instant::now() < deadline + Duration::from_millis(100) {
            if (&theirs).write_all(b"x").is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let error = reading.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    #[test]
    fn a_socket_that_others_could_have_put_there_is_not_spoken_to() {
        let (folder, path, _control) = listening();
        let task = TaskId("t1".to_owned());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let sent = send(&path, &task, Command::Pause);
        assert!(matches!(sent, Err(ControlError::Untrusted(_))), "{sent:?}");
        let second = folder.path().join("2.sock");
        assert!(Control::listen(&second, Inbox::default(), || {}).is_err());
        assert!(!second.exists());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let sent = send(&path, &task, Command::Pause);
        assert!(matches!(sent, Err(ControlError::Untrusted(_))), "{sent:?}");
    }

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
        fs::DirBuilder::new().mode(0o700).create(&deep).unwrap();
        let path = deep.join("1.sock");
        let inbox = Inbox::default();
        let control = Control::listen(&path, inbox.clone(), || {}).unwrap();
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
