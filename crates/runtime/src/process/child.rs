//! Long-lived processes that are talked to line by line, such as plugins.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::{
    Cancel, Containment, DRAIN, Launched, ProcessSpec, SpawnError, launch, pipe, set_nonblocking,
    start, timeout_until,
};
use crate::redact;
use crate::sandbox::Sandbox;
use crate::sandbox::helper::{GO, READY};

/// How much of standard error is kept.
const STDERR_TAIL: usize = 16 * 1024;

/// How many characters of it a report shows.
const STDERR_SHOWN: usize = 2000;
/// How much of what it says is taken in while it is written to.
const TAKEN_MEANWHILE: usize = 16 * 1024 * 1024;
/// How long a line may wait for the process to take it.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// How long the namespace may take to be made.
const GUARD_LIMIT: Duration = Duration::from_secs(10);

/// A running process with pipes to it. Dropping it ends the whole tree.
///
/// A thread of its own starts the process and stays with it, because the kernel ends the process with the
/// thread that started it; so a `Child` may move between threads.
#[derive(Debug)]
pub struct Child {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    /// Bytes read and not yet handed out.
    buffer: VecDeque<u8>,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    shared: Arc<Shared>,
    stop: Cancel,
    keeper: Option<JoinHandle<()>>,
    sandbox: Option<Arc<Sandbox>>,
}

/// How a process ended: one of the two is there, as for `Finished`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The deadline passed; the process may still answer later.
    #[error("no line came in time")]
    TimedOut,
    /// Somebody asked to stop.
    #[error("the wait for a line was cancelled")]
    Cancelled,
    /// The line is longer than allowed. It stays on the stream; the process should be ended.
    #[error("a line is longer than {limit} bytes")]
    TooLong {
        /// What was allowed.
        limit: usize,
    },
    /// The line is no UTF-8; it was taken off the stream.
    #[error("a line is not UTF-8")]
    NotText,
    /// The pipe failed.
    #[error("cannot read from the process: {0}")]
    Io(#[from] io::Error),
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stderr: VecDeque<u8>,
    exit: Option<Exit>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Child {
    /// Starts a process. Its timeout, if any, ends the whole tree; `stdin`, `streams` and `output_limit` of
    /// the spec do not apply.
    pub fn spawn(spec: ProcessSpec) -> io::Result<Child> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let shared = Arc::new(Shared::default());
        let stop = Cancel::new();
        let sandbox = match &spec.containment {
            Containment::Sandbox(sandbox) => Some(Arc::clone(sandbox)),
            _ => None,
        };
        let keeper = {
            let (shared, stop) = (Arc::clone(&shared), stop.clone());
            std::thread::Builder::new()
                .name("child".to_owned())
                .spawn(move || keep(&spec, &shared, &stop, &sender))?
        };
        let started = receiver.recv().map_err(io::Error::other)?;
        let (stdin, stdout) = started.map_err(io::Error::from)?;
        Ok(Child {
            stdin: Some(stdin),
            stdout: Some(stdout),
            buffer: VecDeque::new(),
            searched: 0,
            shared,
            stop,
            keeper: Some(keeper),
            sandbox,
        })
    }

    /// Writes one line and its end. What the process says meanwhile is taken in and kept for `read_line`: one that speaks
    /// while it is spoken to could not read on before somebody listens. One that does not read for half a minute is an error,
    /// and so is a cancel while it does not.
    pub fn write_line(&mut self, line: &str, cancel: &Cancel) -> io::Result<()> {
        let Child { stdin, stdout, buffer, .. } = self;
        let Some(stdin) = &*stdin else {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "its input is closed"));
        };
        let bytes = [line.as_bytes(), b"\n"].concat();
        write_while(stdin, &bytes, |until| {
            if cancel.is_triggered() {
                return Err(io::Error::other("it was cancelled"));
            }
            let event = cancel.event();
            let glance = event.is_none().then(|| Instant::now() + Duration::from_millis(20));
            let mut fds = vec![PollFd::new(stdin, PollFlags::OUT)];
            fds.extend(event.iter().map(|event| PollFd::new(event, PollFlags::IN)));
            let listens = buffer.len() < TAKEN_MEANWHILE;
            let from = stdout.as_ref().filter(|_| listens);
            fds.extend(from.map(|from| PollFd::new(from, PollFlags::IN)));
            let _ = poll(&mut fds, timeout_until([Some(until), glance]).as_ref());
            let speaks = from.is_some() && fds.last().is_some_and(|fd| !fd.revents().is_empty());
            drop(fds);
            if speaks {
                take_in(stdout, buffer);
            }
            Ok(())
        })
    }

    /// The next line without its end (`\n` or `\r\n`); none at the end of output. What follows the last line
    /// end counts as a line. A call that ends in `TimedOut` or `Cancelled` loses nothing: the next one goes on.
    pub fn read_line(
        &mut self,
        deadline: Instant,
        max_len: usize,
        cancel: &Cancel,
    ) -> Result<Option<String>, ReadError> {
        loop {
            // Also while there is always more to read.
            if cancel.is_triggered() {
                return Err(ReadError::Cancelled);
            }
            let found = self.buffer.range(self.searched..).position(|byte| *byte == b'\n');
            if let Some(end) = found.map(|at| at + self.searched) {
                if end > max_len {
                    return Err(ReadError::TooLong { limit: max_len });
                }
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                self.searched = 0;
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return String::from_utf8(line).map(Some).map_err(|_| ReadError::NotText);
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > max_len {
                return Err(ReadError::TooLong { limit: max_len });
            }
            let Some(stdout) = &self.stdout else {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                self.searched = 0;
                let line = Vec::from(std::mem::take(&mut self.buffer));
                return String::from_utf8(line).map(Some).map_err(|_| ReadError::NotText);
            };
            let mut chunk = [0u8; 16 * 1024];
            match rustix::io::read(stdout, &mut chunk[..]) {
                Ok(0) => self.stdout = None,
                Ok(count) => self.buffer.extend(&chunk[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if Instant::now() >= deadline => return Err(ReadError::TimedOut),
                Err(Errno::AGAIN) => {
                    let mut fds = vec![PollFd::new(stdout, PollFlags::IN)];
                    let event = cancel.event();
                    let glance =
                        event.is_none().then(|| Instant::now() + Duration::from_millis(20));
                    if let Some(event) = &event {
                        fds.push(PollFd::new(event, PollFlags::IN));
                    }
                    let _ = poll(&mut fds, timeout_until([Some(deadline), glance]).as_ref());
                }
                Err(error) => return Err(ReadError::Io(error.into())),
            }
        }
    }

    /// Its input and output, for whoever talks to it in another way than line by line; once.
    pub fn take_pipes(&mut self) -> Option<(OwnedFd, OwnedFd)> {
        Some((self.stdin.take()?, self.stdout.take()?))
    }

    /// The end of what it wrote to standard error so far.
    pub fn stderr_tail(&self) -> String {
        let state = self.shared.lock();
        let bytes: Vec<u8> = state.stderr.iter().copied().collect();
        let is_cut = bytes.len() == STDERR_TAIL;
        let shown = if is_cut { redact::from_cut(&bytes) } else { &bytes };
        String::from_utf8_lossy(shown).into_owned()
    }

    /// The same for a report, on lines of its own, and what it may have missed; empty if it wrote nothing.
    pub fn complaint(&self) -> String {
        let errors = redact::text(&self.stderr_tail());
        let errors = errors.trim_end();
        if errors.is_empty() {
            return String::new();
        }
        let skipped = errors.chars().count().saturating_sub(STDERR_SHOWN);
        let end: String = errors.chars().skip(skipped).collect();
        let mut complaint = format!("\nthe end of its error output:\n{end}");
        if let Some(path) = self.sandbox.as_ref().and_then(|sandbox| sandbox.unseen(&end)) {
            complaint.push_str(&format!(
                "\n{} is there, but the sandbox hides it: name it, or its folder, in `read` of [sandbox] in \
                 .drivetrain/policy.toml (docs/sandbox.md)",
                path.display()
            ));
        }
        complaint
    }

    /// Closes its standard input: most processes take that as a request to end.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits until it has ended and everything it started is gone; none if that takes longer.
    pub fn wait(&self, timeout: Duration) -> Option<Exit> {
        let until = Instant::now() + timeout;
        let mut state = self.shared.lock();
        while state.exit.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.shared.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.exit
    }

    /// Closes its input, lets it end by itself for `grace`, then ends it.
    pub fn finish(&mut self, grace: Duration) -> Option<Exit> {
        self.close_stdin();
        self.wait(grace).or_else(|| {
            self.kill();
            self.shared.lock().exit
        })
    }

    /// What ends the whole tree when it is triggered, for whoever does not hold the process.
    pub fn stopper(&self) -> Cancel {
        self.stop.clone()
    }

    /// Ends the whole tree at once; returns when nothing of it runs any more.
    pub fn kill(&mut self) {
        self.stop.trigger();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// Reads what is there now; none is left of the pipe at its end.
fn take_in(stdout: &mut Option<OwnedFd>, buffer: &mut VecDeque<u8>) {
    let Some(from) = stdout else { return };
    let mut chunk = [0u8; 16 * 1024];
    match rustix::io::read(from, &mut chunk[..]) {
        Ok(0) => *stdout = None,
        Ok(count) => buffer.extend(&chunk[..count]),
        // Whoever reads next meets the same error.
        Err(_) => {}
    }
}

/// Writes everything to a process's input. One that does not read for half a minute is an error.
pub(crate) fn write_all(stdin: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    write_while(stdin, bytes, |until| {
        let mut fds = [PollFd::new(stdin, PollFlags::OUT)];
        let _ = poll(&mut fds, timeout_until([Some(until)]).as_ref());
        Ok(())
    })
}

/// The same; `wait` is called with the end of the time whenever the process takes nothing.
fn write_while(
    stdin: &OwnedFd,
    bytes: &[u8],
    mut wait: impl FnMut(Instant) -> io::Result<()>,
) -> io::Result<()> {
    let until = Instant::now() + WRITE_LIMIT;
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(stdin, &bytes[written..]) {
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if Instant::now() >= until => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the process does not read its input",
                ));
            }
            Err(Errno::AGAIN) => wait(until)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

type Started = Result<(OwnedFd, OwnedFd), SpawnError>;

/// The keeper's life: start the process, take its standard error, end and reap the tree.
fn keep(spec: &ProcessSpec, shared: &Shared, stop: &Cancel, sender: &mpsc::SyncSender<Started>) {
    let ([stdin, stdout, stderr], launched) = match begin(spec) {
        Ok(begun) => begun,
        Err(error) => {
            let _ = sender.send(Err(error));
            return;
        }
    };
    for end in [&stdin, &stdout, &stderr] {
        let _ = set_nonblocking(end);
    }
    let mut stderr = Some(stderr);
    let guarded = spec.containment.is_guarded(spec.mark_dir.as_deref());
    let is_held = guarded && !let_go(&stdin, &stdout, &launched);
    if is_held {
        spec.containment.distrust(spec.mark_dir.as_deref());
    }
    if is_held && spec.containment.is_sandbox() {
        launched.tree.kill();
        take_stderr(&mut stderr, shared);
        let said: Vec<u8> = shared.lock().stderr.iter().copied().collect();
        let reason = String::from_utf8_lossy(&said).trim().to_owned();
        let _ = sender.send(Err(SpawnError::Sandbox { reason }));
        start::wait(launched.leader);
        return;
    }
    let _ = sender.send(Ok((stdin, stdout)));
    attend(spec, &launched, &mut stderr, shared, stop);
    launched.tree.kill();
    take_stderr(&mut stderr, shared);
    let exit = start::wait(launched.leader);
    drop(launched);
    shared.lock().exit = Some(exit);
    shared.ended.notify_all();
}

/// Starts it, with pipes to it.
fn begin(spec: &ProcessSpec) -> Result<([OwnedFd; 3], Launched), SpawnError> {
    let refused = |source| spec.refused(source);
    let (input, stdin) = pipe().map_err(refused)?;
    let (stdout, output) = pipe().map_err(refused)?;
    let (stderr, errors) = pipe().map_err(refused)?;
    let launched = launch(spec, [input, output, errors])?;
    Ok(([stdin, stdout, stderr], launched))
}

/// Waits for the guard's word and lets it become the command. A guard that never speaks has failed; without a sandbox
/// that shows as a process that has ended.
fn let_go(stdin: &OwnedFd, stdout: &OwnedFd, launched: &Launched) -> bool {
    let until = Instant::now() + GUARD_LIMIT;
    let mut word = [0u8; 1];
    while Instant::now() < until && !launched.tree.has_ended() {
        match rustix::io::read(stdout, &mut word[..]) {
            Ok(1) if word[0] == READY => {
                launched.tree.hold_first();
                return rustix::io::write(stdin, GO).is_ok();
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                let mut fds = [PollFd::new(stdout, PollFlags::IN)];
                let _ = poll(&mut fds, timeout_until([Some(until)]).as_ref());
            }
            Ok(_) | Err(_) => return false,
        }
    }
    false
}

/// Reads standard error until the process ends by itself or is to be ended.
fn attend(
    spec: &ProcessSpec,
    launched: &Launched,
    stderr: &mut Option<OwnedFd>,
    shared: &Shared,
    stop: &Cancel,
) {
    let handle = launched.tree.handle();
    let deadline = spec.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut drained = None;
    loop {
        let now = Instant::now();
        let exited = launched.tree.has_ended();
        if exited && drained.is_none() {
            drained = Some(now + DRAIN);
        }
        let over = [deadline, drained].into_iter().flatten().any(|at| now >= at);
        if stop.is_triggered() || over || (exited && stderr.is_none()) {
            return;
        }
        let mut fds = Vec::with_capacity(3);
        if let Some(stderr) = stderr.as_ref() {
            fds.push(PollFd::new(stderr, PollFlags::IN));
        }
        if let (Some(handle), false) = (&handle, exited) {
            fds.push(PollFd::new(handle, PollFlags::IN));
        }
        let event = stop.event();
        if let Some(event) = &event {
            fds.push(PollFd::new(event, PollFlags::IN));
        }
        let blind = event.is_none() || (handle.is_none() && !exited);
        let glance = blind.then(|| now + Duration::from_millis(20));
        let _ = poll(&mut fds, timeout_until([deadline, drained, glance]).as_ref());
        drop(fds);
        take_stderr(stderr, shared);
    }
}

fn take_stderr(stderr: &mut Option<OwnedFd>, shared: &Shared) {
    let mut chunk = [0u8; 16 * 1024];
    for _ in 0..16 {
        let Some(fd) = stderr.as_ref() else { return };
        match rustix::io::read(fd, &mut chunk[..]) {
            Ok(0) => *stderr = None,
            Ok(count) => {
                let mut state = shared.lock();
                state.stderr.extend(&chunk[..count]);
                let excess = state.stderr.len().saturating_sub(STDERR_TAIL);
                state.stderr.drain(..excess);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return,
            Err(_) => *stderr = None,
        }
    }
}
