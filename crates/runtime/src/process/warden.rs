//! The process between the runtime and a command that no namespace holds: this very program, started again. What the command
//! starts cannot leave it, whichever way it goes into the background, and when the runtime is gone, killed or not, the warden
//! ends all of it. To the runtime it ends as the command did.
//!
//! What runs as another user cannot be ended by it, and whoever ends the warden itself is free of it: then the marks are left
//! (`tree`).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libc::c_int;
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process,
    kill_process_group, set_child_subreaper, set_parent_process_death_signal, setrlimit, wait,
};

use super::start::{Leads, Quiet, Start};
use super::{nothing, pipe, set_nonblocking, tree};

/// The first argument of a start as warden. No command has this name.
pub(crate) const WORD: &str = "--as-warden";

/// What has a warden end everything: the runtime sends it, and the kernel when the runtime is gone.
pub(super) const END_ALL: Signal = Signal::USR1;

/// What a warden reports: that the command has ended, and that nothing of it is left.
const ENDED: u8 = b'e';
const NOTHING_LEFT: u8 = b'n';

/// The exit code of a warden that could not begin.
const FAILED: i32 = 125;

/// How long whoever was killed may take before the warden looks again.
const GLANCE: Duration = Duration::from_millis(1);

/// Whether this program knows the word: `sandbox::helper::enter` was called.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Takes note that this program, started again with the word, becomes a warden.
pub(crate) fn is_known() {
    KNOWN.store(true, Ordering::Relaxed);
}

/// The runtime's side of a warden.
#[derive(Debug)]
pub(super) struct Warden {
    reports: OwnedFd,
    has_ended: AtomicBool,
    left_nothing: AtomicBool,
}

impl Warden {
    /// A warden that has not begun, and where it reports; none in a program that cannot be one.
    pub(super) fn open() -> io::Result<Option<(Warden, OwnedFd)>> {
        if !KNOWN.load(Ordering::Relaxed) || fs::symlink_metadata(PROGRAM).is_err() {
            return Ok(None);
        }
        let (reports, end) = pipe()?;
        let (has_ended, left_nothing) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Some((Warden { reports, has_ended, left_nothing }, end)))
    }

    /// The words before the command's own, for one that reports here.
    pub(super) fn words(end: &OwnedFd) -> Vec<OsString> {
        vec![PROGRAM.into(), WORD.into(), end.as_raw_fd().to_string().into()]
    }

    /// Waits until the command has begun; the error is why it has not.
    pub(super) fn begun(&self) -> io::Result<()> {
        let mut said = [0u8; 4];
        let mut length = 0;
        while length < said.len() {
            match rustix::io::read(&self.reports, &mut said[length..]) {
                Ok(0) => return Err(io::Error::other("its warden ended before it began")),
                Ok(more) => length += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match i32::from_ne_bytes(said) {
            0 => set_nonblocking(&self.reports),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    /// Whether the command has ended, or the warden itself.
    pub(super) fn has_ended(&self) -> bool {
        self.listen();
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Whether nothing of the command is left.
    pub(super) fn left_nothing(&self) -> bool {
        self.listen();
        self.left_nothing.load(Ordering::Relaxed)
    }

    /// What becomes readable when the command ends.
    pub(super) fn handle(&self) -> Option<OwnedFd> {
        self.reports.try_clone().ok()
    }

    fn listen(&self) {
        let mut said = [0u8; 2];
        loop {
            match rustix::io::read(&self.reports, &mut said[..]) {
                Ok(0) => return self.has_ended.store(true, Ordering::Relaxed),
                Ok(length) => {
                    self.has_ended.store(true, Ordering::Relaxed);
                    if said[..length].contains(&NOTHING_LEFT) {
                        self.left_nothing.store(true, Ordering::Relaxed);
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// This program, also where its file was replaced.
const PROGRAM: &str = "/proc/self/exe";

/// The warden's own life; gives its exit code. No other thread is there.
pub(crate) fn watch(mut words: impl Iterator<Item = OsString>) -> i32 {
    let number = words.next().and_then(|word| word.to_str()?.parse().ok());
    let Some(report) = number.and_then(take_over) else { return FAILED };
    // For good: signals are asked for one by one.
    std::mem::forget(Quiet::begin());
    // Until the next line the kernel kills this process with the runtime, so this is nobody else.
    let runtime = getppid();
    let prepared = set_parent_process_death_signal(Some(END_ALL))
        .and_then(|()| set_child_subreaper(Some(getpid())))
        .map_err(io::Error::from);
    if getppid() != runtime {
        return FAILED;
    }
    let begun = prepared.and_then(|()| begin(words.collect()));
    let error = begun.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    let _ = rustix::io::write(&report, &error.to_ne_bytes());
    let Ok(command) = begun else { return FAILED };
    step_back(report.as_raw_fd());
    let mut watch = Watch { command, runtime, report, ended: None };
    watch.until_nothing_is_left();
    end_as(watch.ended)
}

/// The descriptor of this number as our own, which the command does not get.
#[allow(unsafe_code)]
fn take_over(number: i32) -> Option<OwnedFd> {
    // SAFETY: the flag of a descriptor by its number; whoever started this left it open for nobody but us, and nobody else
    // here knows of it.
    unsafe {
        let is_open = number > 2 && libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) == 0;
        is_open.then(|| OwnedFd::from_raw_fd(number))
    }
}

/// Starts the command with what this process was given.
fn begin(argv: Vec<OsString>) -> io::Result<Pid> {
    let streams = [
        rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?,
        rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?,
        rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3)?,
    ];
    let environment = std::env::vars_os().collect();
    let (open, join, descriptors) = (Vec::new(), None, None);
    Start { argv, environment, cwd: None, streams, open, join, descriptors, leads: Leads::Group }
        .start()
}

/// Lets go of everything that is the command's alone: whoever reads its output waits for the last who holds it.
#[allow(unsafe_code)]
fn step_back(report: i32) {
    if let Ok(empty) = nothing() {
        let _ = rustix::stdio::dup2_stdin(&empty);
        let _ = rustix::stdio::dup2_stdout(&empty);
        let _ = rustix::stdio::dup2_stderr(&empty);
    }
    for (first, last) in [(3, report - 1), (report + 1, i32::MAX)] {
        if first <= last {
            // SAFETY: descriptors by their numbers; this process uses none but those that are left out.
            unsafe {
                libc::syscall(libc::SYS_close_range, first, last, 0);
            }
        }
    }
    let _ = std::env::set_current_dir("/");
    let _ = rustix::thread::set_name(c"drivetrain-ward");
}

struct Watch {
    command: Pid,
    runtime: Option<Pid>,
    report: OwnedFd,
    ended: Option<WaitStatus>,
}

impl Watch {
    fn until_nothing_is_left(&mut self) {
        let mut is_to_end = false;
        loop {
            if self.take_note() {
                let _ = rustix::io::write(&self.report, &[NOTHING_LEFT]);
                return;
            }
            is_to_end |= getppid() != self.runtime;
            if is_to_end && !self.end_children() {
                return;
            }
            let Some((signal, sender)) = next_signal(is_to_end.then_some(GLANCE)) else { continue };
            // From the runtime, or from the kernel in its name.
            let is_order = signal == END_ALL.as_raw() && sender == Pid::as_raw(self.runtime);
            if is_order {
                is_to_end = true;
            } else if signal != libc::SIGCHLD && self.ended.is_none() {
                self.pass_on(signal);
            }
        }
    }

    /// Takes note of all that have ended; says whether nothing is left.
    fn take_note(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((process, status))) if process == self.command => {
                    self.ended = Some(status);
                    let _ = rustix::io::write(&self.report, &[ENDED]);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Kills the children, whose own children are ours after that; until they are waited for, their numbers are nobody
    /// else's. Says whether any may still end.
    fn end_children(&self) -> bool {
        let own = getpid().as_raw_pid();
        let listed = fs::read_to_string(format!("/proc/self/task/{own}/children"));
        let children: Vec<i32> = match listed {
            Ok(listed) => listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
            Err(_) => tree::children_of(own),
        };
        let refused = |pid: &Pid| kill_process(*pid, Signal::KILL) == Err(Errno::PERM);
        let found: Vec<Pid> = children.into_iter().filter_map(Pid::from_raw).collect();
        let refused = found.iter().filter(|pid| refused(pid)).count();
        found.is_empty() || refused < found.len()
    }

    /// A signal for the command and those it works with, as if this process were not there.
    fn pass_on(&self, signal: c_int) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process_group(self.command, signal);
        }
    }
}

/// The next signal that comes, and who sent it; none if there is none in this time.
#[allow(unsafe_code)]
fn next_signal(within: Option<Duration>) -> Option<(c_int, i32)> {
    let mut all = MaybeUninit::uninit();
    let mut told = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the set is written whole before it is used; what is told is plain data, and the sender is in the same place
    // for every signal that a process or the kernel sends.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        let signal = match within {
            None => libc::sigwaitinfo(all.as_ptr(), told.as_mut_ptr()),
            Some(time) => {
                let time = libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
                libc::sigtimedwait(all.as_ptr(), told.as_mut_ptr(), &raw const time)
            }
        };
        (signal > 0).then(|| (signal, told.assume_init().si_pid()))
    }
}

/// Ends this process as the command ended: by the same signal, or with the code that is given. One that could not be
/// ended counts as killed.
#[allow(unsafe_code)]
fn end_as(ended: Option<WaitStatus>) -> i32 {
    if let Some(code) = ended.and_then(|status| status.exit_status()) {
        return code;
    }
    let signal = ended.and_then(|status| status.terminating_signal()).unwrap_or(libc::SIGKILL);
    // The command has left its own, if it was to leave one.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // SAFETY: handlers and masks of this process alone, which has one thread and ends here; the set is written whole.
    // No other signal is let in: an order to end everything may have come meanwhile.
    unsafe {
        let mut this = MaybeUninit::uninit();
        libc::sigemptyset(this.as_mut_ptr());
        libc::sigaddset(this.as_mut_ptr(), signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, this.as_ptr(), ptr::null_mut());
        libc::raise(signal);
    }
    128 + signal
}
