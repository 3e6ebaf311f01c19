//! The only place that starts processes. Each command is owned as a whole tree: when the call returns, nothing
//! that it started runs any more. Nothing here decides what may run.

mod cancel;
mod capture;
mod child;
mod detached;
mod start;
mod tree;
pub(crate) mod warden;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use crate::providers::Secret;

use crate::sandbox::helper::{GO, READY};
use crate::sandbox::{Held, Sandbox, hand_over};
pub use cancel::Cancel;
pub use capture::{Capture, HEAD, KEPT, TAIL};
pub(crate) use child::write_all;
pub use child::{Child, Exit, ReadError};
pub use detached::start_detached;
pub(crate) use detached::this_program;
pub use start::outlive_limit_of_files;
use start::{Leads, Start};
use tree::Wrapped;
pub(crate) use tree::boot;
pub use tree::{Containment, Reaped, is_stopped, namespaces_work, reap_leftovers};
use tree::{MARK_VARIABLE, MarkFile, Tree};
use warden::Warden;

/// How long output is still read after the command itself has ended: a grandchild may hold it open for ever.
const DRAIN: Duration = Duration::from_millis(250);

/// A command to run. `ProcessSpec::new` gives sensible values for everything but the command.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// The program, looked up on PATH if it has no slash, and its arguments.
    pub argv: Vec<OsString>,
    /// The folder to run in; the runtime's own if absent.
    pub cwd: Option<PathBuf>,
    /// Variables beside the few that every command gets. One that looks like a secret is refused.
    pub env: Vec<(String, String)>,
    /// Variables that the user's own or trusted file names for this command: secrets may be among them.
    pub secrets: Vec<(String, Secret)>,
    /// What is written to its standard input; empty input if absent.
    pub stdin: Option<Vec<u8>>,
    /// Whether the two output streams are told apart.
    pub streams: Streams,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// How long it has between being asked to end and being killed.
    pub grace: Duration,
    /// How much output is kept.
    pub output_limit: u64,
    /// Whether everything that it prints is hashed, what is not kept included.
    pub digest: bool,
    /// Whose command this is, for `reap_leftovers`.
    pub mark: String,
    /// Where marks are kept; without it, leftovers of a killed runtime are not found again.
    pub mark_dir: Option<PathBuf>,
    /// How its processes are held together.
    pub containment: Containment,
}

/// What becomes of standard output and standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// One pipe: the order is exactly that of the writes.
    Merged,
    /// Two pipes: each is also captured alone; their common order is that of arrival.
    Separate,
}

impl ProcessSpec {
    /// A command without input or time limit.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> ProcessSpec {
        ProcessSpec {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: None,
            env: Vec::new(),
            secrets: Vec::new(),
            stdin: None,
            streams: Streams::Merged,
            timeout: None,
            grace: Duration::from_secs(2),
            output_limit: KEPT,
            digest: false,
            mark: String::new(),
            mark_dir: None,
            containment: Containment::Auto,
        }
    }

    /// The program, as it is named.
    fn name(&self) -> &OsStr {
        self.argv.first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// What the system said no to.
    fn refused(&self, source: io::Error) -> SpawnError {
        SpawnError::System { program: self.name().to_owned(), cwd: self.cwd.clone(), source }
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code. In a PID namespace a command killed by signal N reports 128 + N, as a shell does.
    pub exit: Option<i32>,
    /// The signal that killed it, where the system tells.
    pub signal: Option<i32>,
    /// It was stopped because its time was over.
    pub timed_out: bool,
    /// It was stopped because somebody asked.
    pub cancelled: bool,
    /// Everything it printed, in order.
    pub output: Capture,
    /// Standard output alone; empty for merged streams.
    pub stdout: Capture,
    /// Standard error alone; empty for merged streams.
    pub stderr: Capture,
    /// How long it took.
    pub duration: Duration,
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("cannot start {program:?}: there is no such program on PATH or at that path")]
    NoProgram {
        /// As asked for.
        program: OsString,
    },
    /// A secret would have been handed to it.
    #[error("the variable {name:?} looks like a secret and is not handed to commands")]
    Secret {
        /// The variable.
        name: String,
    },
    /// The walls do not stand, so nothing was started.
    #[error("nothing was run, because the sandbox cannot be had: {reason}")]
    Sandbox {
        /// What is wrong, and what to do about it.
        reason: String,
    },
    /// The system refused.
    #[error("cannot start {program:?} in {}: {source}", cwd.as_deref().unwrap_or(Path::new(".")).display())]
    System {
        /// As asked for.
        program: OsString,
        /// Where it would have run.
        cwd: Option<PathBuf>,
        /// The system's reason.
        source: io::Error,
    },
}

impl From<SpawnError> for io::Error {
    fn from(error: SpawnError) -> io::Error {
        let kind = match &error {
            SpawnError::NoProgram { .. } => io::ErrorKind::NotFound,
            SpawnError::Secret { .. } => io::ErrorKind::InvalidInput,
            SpawnError::Sandbox { .. } => io::ErrorKind::Unsupported,
            SpawnError::System { source, .. } => source.kind(),
        };
        io::Error::new(kind, error)
    }
}

/// Runs a command to its end, its timeout or its cancellation. Blocks the calling thread, which must not end
/// before: the kernel ends the command with the thread that started it.
pub fn run(spec: ProcessSpec, cancel: &Cancel) -> Result<Finished, SpawnError> {
    let started = Instant::now();
    let refused = |source| spec.refused(source);
    let (out, out_end) = pipe().map_err(refused)?;
    let (error, error_end) = match spec.streams {
        Streams::Merged => (None, out_end.try_clone().map_err(refused)?),
        Streams::Separate => {
            let (error, end) = pipe().map_err(refused)?;
            (Some(error), end)
        }
    };
    let guarded = spec.containment.is_guarded(spec.mark_dir.as_deref());
    let (stdin, input) = if spec.stdin.is_some() || guarded {
        let (end, input) = pipe().map_err(refused)?;
        (end, Some(input))
    } else {
        (nothing().map_err(refused)?, None)
    };
    let mut to_write = if guarded { GO.to_vec() } else { Vec::new() };
    to_write.extend_from_slice(spec.stdin.as_deref().unwrap_or_default());
    let launched = launch(&spec, [stdin, out_end, error_end])?;
    let mut pipes = Pipes {
        streams: spec.streams,
        out: Some(out),
        error,
        input,
        to_write,
        held: guarded,
        output_limit: spec.output_limit,
        digest: spec.digest,
        written: 0,
        output: whole_output(spec.output_limit, spec.digest),
        stdout: Capture::new(spec.output_limit),
        stderr: Capture::new(spec.output_limit),
    };
    pipes.unblock();
    let (timed_out, cancelled) = attend(&spec, &launched, &mut pipes, cancel, started);
    launched.tree.kill();
    pipes.read_ready();
    let exit = start::wait(launched.leader);
    if pipes.held && !timed_out && !cancelled {
        spec.containment.distrust(spec.mark_dir.as_deref());
        if spec.containment.is_sandbox() {
            return Err(SpawnError::Sandbox { reason: pipes.output.text().trim().to_owned() });
        }
    }
    Ok(Finished {
        exit: exit.code,
        signal: exit.signal,
        timed_out,
        cancelled,
        output: pipes.output,
        stdout: pipes.stdout,
        stderr: pipes.stderr,
        duration: started.elapsed(),
    })
}

/// Runs a command inside a sandbox at this terminal, until it ends; gives its exit code. For people who try the walls:
/// what it starts ends with it, and nothing is captured or limited in time.
#[allow(unsafe_code)]
pub fn run_here(sandbox: &Sandbox, argv: &[OsString], cwd: &Path) -> Result<u8, SpawnError> {
    let name = argv.first().cloned().unwrap_or_default();
    let refused =
        |source| SpawnError::System { program: name.clone(), cwd: Some(cwd.to_owned()), source };
    let Some(program) = find_program(&name, Some(cwd)) else {
        return Err(SpawnError::NoProgram { program: name });
    };
    let arranged =
        sandbox.arrange(Some(cwd), false).map_err(|reason| SpawnError::Sandbox { reason })?;
    let stamp = new_stamp("by-hand").map_err(refused)?;
    let mut command = Command::new(&arranged.argv[0]);
    command.args(&arranged.argv[1..]).arg(program).args(&argv[1..]);
    command.env_clear().envs([mark_variable(&stamp)]).current_dir(cwd);
    let all = [environment(&[], &stamp)?, arranged.env].concat();
    let _variables = hand_over(arranged.variables, &all).map_err(refused)?;
    let (open, join) = (arranged.open, arranged.join);
    // SAFETY: between fork and exec only async-signal-safe work is allowed. These are direct system calls on numbers
    // that were counted before; nothing is allocated or freed.
    unsafe {
        command.pre_exec(move || start::leave_open(&open, join));
    }
    let status = command.status().map_err(refused)?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    drop(arranged.view);
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Where a running command stands.
enum Stage {
    Running,
    Terminating { kill_at: Instant },
    Draining { until: Instant },
}

/// Reads and writes until the command is over or must be killed; says whether it was stopped, and why.
fn attend(
    spec: &ProcessSpec,
    launched: &Launched,
    pipes: &mut Pipes,
    cancel: &Cancel,
    started: Instant,
) -> (bool, bool) {
    let deadline = spec.timeout.and_then(|timeout| started.checked_add(timeout));
    let handle = launched.tree.handle();
    let (mut timed_out, mut cancelled) = (false, false);
    let mut stage = Stage::Running;
    loop {
        let exited = launched.tree.has_ended();
        let now = Instant::now();
        stage = match stage {
            Stage::Running | Stage::Terminating { .. } if exited => {
                Stage::Draining { until: now + DRAIN }
            }
            Stage::Running if cancel.is_triggered() || deadline.is_some_and(|at| now >= at) => {
                cancelled = cancel.is_triggered();
                timed_out = !cancelled;
                launched.tree.terminate();
                Stage::Terminating { kill_at: now + spec.grace }
            }
            stage => stage,
        };
        let wake = match stage {
            Stage::Running => deadline,
            Stage::Terminating { kill_at } if now >= kill_at => return (timed_out, cancelled),
            Stage::Terminating { kill_at } => Some(kill_at),
            Stage::Draining { until } if now >= until || pipes.all_read() => {
                return (timed_out, cancelled);
            }
            Stage::Draining { until } => Some(until),
        };
        let watched = if matches!(stage, Stage::Running) { Some(cancel) } else { None };
        // A zombie's handle stays readable, so it is watched only while the command runs.
        let handle = if exited { None } else { handle.as_ref() };
        pipes.wait(watched, handle, wake, !exited);
        let was_held = pipes.held;
        pipes.read_ready();
        if was_held && !pipes.held {
            launched.tree.hold_first();
        }
        pipes.write_ready();
    }
}

fn whole_output(limit: u64, digest: bool) -> Capture {
    if digest { Capture::hashing(limit) } else { Capture::new(limit) }
}

struct Pipes {
    streams: Streams,
    out: Option<OwnedFd>,
    error: Option<OwnedFd>,
    input: Option<OwnedFd>,
    to_write: Vec<u8>,
    written: usize,
    /// Whether the guard has not said that it is there; until then nothing is written.
    held: bool,
    output_limit: u64,
    digest: bool,
    output: Capture,
    stdout: Capture,
    stderr: Capture,
}

impl Pipes {
    fn unblock(&self) {
        for end in [&self.out, &self.error, &self.input].into_iter().flatten() {
            // Our ends of fresh pipes: this cannot fail in a way that leaves them usable.
            let _ = set_nonblocking(end);
        }
    }

    fn all_read(&self) -> bool {
        self.out.is_none() && self.error.is_none()
    }

    /// Waits until something can be done, or until `wake`.
    fn wait(
        &self,
        cancel: Option<&Cancel>,
        handle: Option<&OwnedFd>,
        wake: Option<Instant>,
        may_exit: bool,
    ) {
        let mut fds = Vec::with_capacity(5);
        for end in [&self.out, &self.error].into_iter().flatten() {
            fds.push(PollFd::new(end, PollFlags::IN));
        }
        if let (Some(input), false) = (&self.input, self.held) {
            fds.push(PollFd::new(input, PollFlags::OUT));
        }
        if let Some(handle) = handle {
            fds.push(PollFd::new(handle, PollFlags::IN));
        }
        let event = cancel.map(Cancel::event);
        if let Some(Some(event)) = &event {
            fds.push(PollFd::new(event, PollFlags::IN));
        }
        // Without a handle or an event the flags are looked at from time to time.
        let blind = (may_exit && handle.is_none()) || matches!(event, Some(None));
        let glance = blind.then(|| Instant::now() + Duration::from_millis(10));
        let _ = poll(&mut fds, timeout_until([wake, glance]).as_ref());
    }

    /// Reads what is there, a bounded amount at a time so that limits are looked at in between.
    fn read_ready(&mut self) {
        let mut buffer = vec![0u8; 64 * 1024];
        for _ in 0..16 {
            let mut any = false;
            for from_out in [true, false] {
                let end = if from_out { &mut self.out } else { &mut self.error };
                let Some(fd) = end.as_ref() else { continue };
                let count = match rustix::io::read(fd, &mut buffer[..]) {
                    Ok(0) => {
                        *end = None;
                        continue;
                    }
                    Ok(count) => count,
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
                    Err(_) => {
                        *end = None;
                        continue;
                    }
                };
                any = true;
                let mut bytes = &buffer[..count];
                if self.held
                    && from_out
                    && let Some(at) = bytes.iter().position(|byte| *byte == READY)
                {
                    // What was said before it, by whoever makes the namespace, is no part of the output.
                    self.held = false;
                    bytes = &bytes[at + 1..];
                    self.output = whole_output(self.output_limit, self.digest);
                }
                self.output.push(bytes);
                if self.streams == Streams::Separate {
                    let alone = if from_out { &mut self.stdout } else { &mut self.stderr };
                    alone.push(bytes);
                }
            }
            if !any {
                return;
            }
        }
    }

    fn write_ready(&mut self) {
        let (Some(input), false) = (&self.input, self.held) else { return };
        match rustix::io::write(input, &self.to_write[self.written..]) {
            Ok(count) => self.written += count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
            // The command does not want its input; that is its business.
            Err(_) => self.written = self.to_write.len(),
        }
        if self.written >= self.to_write.len() {
            self.input = None;
        }
    }
}

/// A started command. Dropping the mark file says that nothing of it is left.
struct Launched {
    leader: Pid,
    tree: Tree,
    _mark: Option<MarkFile>,
    /// What the sandbox needs outside; cleared up after the processes have ended.
    _held: Option<Held>,
}

/// Starts a command: the one place that does.
fn launch(spec: &ProcessSpec, streams: [OwnedFd; 3]) -> Result<Launched, SpawnError> {
    let refused = |source| spec.refused(source);
    let Some(program) = find_program(spec.name(), spec.cwd.as_deref()) else {
        return Err(SpawnError::NoProgram { program: spec.name().to_owned() });
    };
    let stamp = new_stamp(&spec.mark).map_err(refused)?;
    let environment = match spec.containment {
        Containment::Alone => std::env::vars_os().collect(),
        _ => environment(&spec.env, &stamp)?,
    };
    let mut environment: Vec<(OsString, OsString)> = environment;
    environment.extend(spec.secrets.iter().map(|(k, v)| (k.into(), v.reveal().into())));
    if !matches!(spec.containment, Containment::Alone) {
        // Whatever a file names, the mark stays: the tree is found by it.
        environment.push(mark_variable(&stamp));
    }
    let wrapped = spec
        .containment
        .wrap(spec.cwd.as_deref(), spec.mark_dir.as_deref())
        .map_err(|reason| SpawnError::Sandbox { reason })?;
    let Wrapped { argv: around, namespaced, env, variables, mut open, join, held } = wrapped;
    environment.extend(env);
    // Open until it has begun.
    let _variables = match variables {
        Some(place) => {
            let all = std::mem::replace(&mut environment, vec![mark_variable(&stamp)]);
            Some(hand_over(place, &all).map_err(refused)?)
        }
        None => None,
    };
    let is_watched = !namespaced && spec.containment.has_warden();
    let warden = if is_watched { Warden::open().map_err(refused)? } else { None };
    let (warden, report) = warden.unzip();
    let mut argv = report.as_ref().map(Warden::words).unwrap_or_default();
    open.extend(report.as_ref().map(AsRawFd::as_raw_fd));
    argv.extend(around);
    argv.push(program.into());
    argv.extend(spec.argv.iter().skip(1).cloned());
    let folder = spec.mark_dir.as_deref();
    let mark = folder.map(|folder| MarkFile::create(folder, &stamp, &spec.mark)).transpose();
    // A namespace ends with the runtime; without one, only the mark finds what a dead runtime left.
    let mut mark = if namespaced { mark.unwrap_or(None) } else { mark.map_err(refused)? };
    let descriptors = crate::descriptors::of_children();
    let cwd = spec.cwd.clone();
    let leads = Leads::Session;
    let start = Start { argv, environment, cwd, streams, open, join, descriptors, leads };
    let began = Instant::now();
    let leader = start.start().map_err(refused)?;
    drop(report);
    if let Some(Err(error)) = warden.as_ref().map(Warden::begun) {
        start::wait(leader);
        return Err(refused(error));
    }
    let tree = Tree::new(leader, began, &spec.containment, namespaced, stamp, warden);
    if let Some(mark) = &mut mark {
        mark.started(&tree);
    }
    Ok(Launched { leader, tree, _mark: mark, _held: held })
}

/// Looks a program up: on PATH (absolute folders only, so that no workspace can put itself first) if it has no
/// slash, else relative to `cwd`.
pub fn find_program(name: &OsStr, cwd: Option<&Path>) -> Option<PathBuf> {
    let runs = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.as_encoded_bytes().contains(&b'/') {
        let path = cwd.map_or_else(|| PathBuf::from(name), |cwd| cwd.join(name));
        return runs(&path).then_some(path);
    }
    if name.is_empty() {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| runs(path))
}

/// What every command gets of the runtime's own environment, beside `LC_*`.
const INHERITED: [&str; 7] = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL"];

fn environment(
    listed: &[(String, String)],
    stamp: &str,
) -> Result<Vec<(OsString, OsString)>, SpawnError> {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, value)| {
            let name = name.to_string_lossy();
            (INHERITED.contains(&name.as_ref()) || name.starts_with("LC_"))
                && !looks_secret(&name, &value.to_string_lossy())
        })
        .collect();
    for (name, value) in listed {
        if looks_secret(name, value) {
            return Err(SpawnError::Secret { name: name.clone() });
        }
        environment.push((name.into(), value.into()));
    }
    environment.push(mark_variable(stamp));
    Ok(environment)
}

/// What every process of a command is found by.
fn mark_variable(stamp: &str) -> (OsString, OsString) {
    (MARK_VARIABLE.into(), stamp.into())
}

/// Whether a variable looks like a key, by its name or by the known beginnings of keys.
fn looks_secret(name: &str, value: &str) -> bool {
    const WORDS: [&str; 6] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];
    const BEGINNINGS: [&str; 9] =
        ["sk-", "ghp_", "gho_", "ghs_", "github_pat_", "xoxb-", "xoxp-", "AKIA", "-----BEGIN "];
    let name = name.to_ascii_uppercase();
    let key_word =
        name.split('_').any(|word| word == "AUTH" || word.ends_with("KEY") || word == "KEYS");
    key_word
        || WORDS.iter().any(|word| name.contains(word))
        || BEGINNINGS.iter().any(|beginning| value.starts_with(beginning))
}

/// The mark made unique, in letters that are safe in a file name.
fn new_stamp(mark: &str) -> io::Result<String> {
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let mark: String = mark
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' })
        .take(60)
        .collect();
    Ok(format!("{mark}.{:016x}", u64::from_ne_bytes(random)))
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// What is empty, and takes everything.
fn nothing() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    Ok(rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?)
}

/// The time left to the earliest of some moments, as poll wants it; none if there is no moment.
fn timeout_until<const N: usize>(moments: [Option<Instant>; N]) -> Option<Timespec> {
    let earliest = moments.into_iter().flatten().min()?;
    let left = earliest.saturating_duration_since(Instant::now());
    Timespec::try_from(left).ok()
}
