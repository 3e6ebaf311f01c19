//! Starts a program in a child that borrows this process's memory until it becomes the program, as `posix_spawn` does.
//! The standard library copies the process as soon as something is to be done in the child, and a copy takes longer the
//! more memory this process has; what a command needs before it begins is more than `posix_spawn` itself can do.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;

use libc::{c_char, c_int, c_void};
use rustix::process::{Pid, Rlimit, WaitOptions, waitpid};

use super::Exit;

/// What the child has for its calls; none of them goes deep.
const STACK: usize = 64 * 1024;

/// What a program is the first of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leads {
    /// A session of its own, so it has no terminal.
    Session,
    /// A group in the session of whoever starts it.
    Group,
}

/// A program to start, ended with the thread that starts it.
pub(super) struct Start {
    /// The path of the program and its arguments.
    pub(super) argv: Vec<OsString>,
    /// All its variables; of two with one name the later one counts.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Where it begins; here if absent.
    pub(super) cwd: Option<PathBuf>,
    /// Its input, output and errors.
    pub(super) streams: [OwnedFd; 3],
    /// Descriptors that stay open for it.
    pub(super) open: Vec<i32>,
    /// Where it writes `0` to be counted.
    pub(super) join: Option<i32>,
    /// How many descriptors it may have, if not as many as this process.
    pub(super) descriptors: Option<Rlimit>,
    /// What it is the first of.
    pub(super) leads: Leads,
}

/// The same as the child takes it. It must not ask for memory, so all of it is laid out before.
struct Orders {
    program: *const c_char,
    argv: *const *const c_char,
    environment: *const *const c_char,
    cwd: *const c_char,
    streams: [c_int; 3],
    open: *const [i32],
    join: Option<i32>,
    descriptors: Option<Rlimit>,
    leads: Leads,
    parent: Pid,
    /// What went wrong in the child, by the system's number.
    failed: c_int,
}

impl Start {
    /// Starts it; an error is that of the child, which is gone then.
    #[allow(unsafe_code)]
    pub(super) fn start(mut self) -> io::Result<Pid> {
        for stream in &mut self.streams {
            // One that stood in another's place would be closed by it.
            if stream.as_raw_fd() < 3 {
                *stream = rustix::io::fcntl_dupfd_cloexec(&*stream, 3)?;
            }
        }
        let words = self.argv.into_iter().map(text).collect::<io::Result<Vec<CString>>>()?;
        let variables: BTreeMap<OsString, OsString> = self.environment.into_iter().collect();
        let variable = |(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            text(name)
        };
        let variables =
            variables.into_iter().map(variable).collect::<io::Result<Vec<CString>>>()?;
        let cwd = self.cwd.map(|cwd| text(cwd.into_os_string())).transpose()?;
        let Some(program) = words.first() else {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        };
        let (argv, environment) = (pointers(&words), pointers(&variables));
        let mut orders = Orders {
            program: program.as_ptr(),
            argv: argv.as_ptr(),
            environment: environment.as_ptr(),
            cwd: cwd.as_ref().map_or(ptr::null(), |cwd| cwd.as_ptr()),
            streams: self.streams.each_ref().map(AsRawFd::as_raw_fd),
            open: &raw const *self.open,
            join: self.join,
            descriptors: self.descriptors,
            leads: self.leads,
            parent: rustix::process::getpid(),
            failed: 0,
        };
        let mut stack: Vec<MaybeUninit<u8>> = Vec::with_capacity(STACK);
        let (pid, error) = {
            let _quiet = Quiet::begin();
            // SAFETY: the child runs on a stack of its own and, by CLONE_VFORK, this thread stands still until the child
            // has become the program or is gone: what `orders` points to outlives it, and nobody else has a reference to
            // `orders` meanwhile. No handler of this process runs in the child: all signals are held back here, and the
            // child puts handlers off before it lets signals come. What it calls are system calls only.
            unsafe {
                let top = stack.as_mut_ptr().add(STACK);
                let top = top.sub(top as usize % 16);
                let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
                let pid = libc::clone(child, top.cast(), flags, (&raw mut orders).cast());
                (pid, io::Error::last_os_error())
            }
        };
        let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 0) else { return Err(error) };
        // SAFETY: the child is over; it wrote through the pointer that it was given.
        let failed = unsafe { ptr::read_volatile(&raw const orders.failed) };
        if failed != 0 {
            wait(pid);
            return Err(io::Error::from_raw_os_error(failed));
        }
        Ok(pid)
    }
}

/// Waits until a child has ended, and takes note of it.
pub(super) fn wait(child: Pid) -> Exit {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                return Exit { code: status.exit_status(), signal: status.terminating_signal() };
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Exit { code: None, signal: None },
        }
    }
}

fn text(words: OsString) -> io::Result<CString> {
    let has_nul = |_| io::Error::new(io::ErrorKind::InvalidInput, "a word holds a NUL byte");
    CString::new(words.into_vec()).map_err(has_nul)
}

/// As the system takes a list of words.
fn pointers(words: &[CString]) -> Vec<*const c_char> {
    words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
}

/// Where files may not grow beyond a size (`ulimit -f`), a write fails and is told, in place of ending this process without a
/// word, or a git that it started in the middle of what it does: what is started has it from here.
#[allow(unsafe_code)]
pub fn outlive_limit_of_files() {
    // SAFETY: a signal that is ignored runs nothing.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Signals held back for this thread, as they were before once it is dropped.
pub(super) struct Quiet(libc::sigset_t);

impl Quiet {
    #[allow(unsafe_code)]
    pub(super) fn begin() -> Quiet {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are written whole by the calls that are given them first.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigemptyset(before.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Quiet(before.assume_init())
        }
    }
}

impl Drop for Quiet {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: a set that the system gave.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut());
        }
    }
}

/// The child's life.
#[allow(unsafe_code)]
extern "C" fn child(orders: *mut c_void) -> c_int {
    let orders: *mut Orders = orders.cast();
    // SAFETY: the parent gave a pointer to its orders and stands still.
    unsafe {
        let error = become_program(&*orders);
        ptr::write_volatile(&raw mut (*orders).failed, error.raw_os_error().unwrap_or(libc::EIO));
        libc::_exit(127)
    }
}

/// Returns only if it cannot. Asks for no memory, takes no lock, and does not panic.
#[allow(unsafe_code)]
unsafe fn become_program(orders: &Orders) -> io::Error {
    let prepared = || -> io::Result<()> {
        // SAFETY: as the caller promises, all pointers lead to what the parent keeps; numbers are of descriptors that it
        // holds open.
        unsafe {
            put_off_handlers();
            for (place, stream) in (0..).zip(orders.streams) {
                done(libc::dup2(stream, place))?;
            }
            if !orders.cwd.is_null() {
                done(libc::chdir(orders.cwd))?;
            }
            leave_open(&*orders.open, orders.join)?;
        }
        if let Some(limit) = orders.descriptors {
            rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)?;
        }
        match orders.leads {
            Leads::Session => rustix::process::setsid().map(|_| ())?,
            Leads::Group => rustix::process::setpgid(None, None)?,
        }
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The parent may have died before the line above.
        if rustix::process::getppid() != Some(orders.parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    if let Err(error) = prepared() {
        return error;
    }
    // SAFETY: as above; the set is written whole before it is used.
    unsafe {
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        libc::execve(orders.program, orders.argv, orders.environment);
    }
    io::Error::last_os_error()
}

/// Handlers are this process's own and work on its memory. A program expects to end when nobody reads what it prints.
#[allow(unsafe_code)]
unsafe fn put_off_handlers() {
    for signal in 1..=64 {
        // SAFETY: an action is plain data, of which nothing is also one; those of the child are its own.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let is_known = libc::sigaction(signal, ptr::null(), &raw mut action) == 0;
            let is_ours = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
            if is_known && (is_ours || signal == libc::SIGPIPE) {
                action = std::mem::zeroed();
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const action, ptr::null_mut());
            }
        }
    }
}

/// Leaves descriptors open for the program that this process is about to become, and has it counted. Nothing but system
/// calls: it is for a child that has not begun.
#[allow(unsafe_code)]
pub(super) fn leave_open(open: &[i32], join: Option<i32>) -> io::Result<()> {
    for number in open {
        // SAFETY: a flag of a descriptor by its number; whoever starts the program holds it open.
        done(unsafe { libc::fcntl(*number, libc::F_SETFD, 0) })?;
    }
    if let Some(number) = join {
        // SAFETY: one byte of a constant is written to a descriptor that is held open.
        if unsafe { libc::write(number, b"0".as_ptr().cast(), 1) } != 1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn done(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
