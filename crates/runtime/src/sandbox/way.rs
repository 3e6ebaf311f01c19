//! The way out of a sandbox whose network is limited to named hosts: a proxy outside, a bridge inside.
//!
//! The proxy's socket is not in the sandbox's view. Its folder comes in as a descriptor, which only the bridge gets: the
//! command sees a port of its own loopback and nothing else.

use std::ffi::OsStr;
use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use machine::policy::hosts::Allowed;
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::egress::{self, PassageLog, Proxy};
use crate::sandbox::scratch::Scratch;

/// The first argument of a start as the process that leaves the bridge behind, and of the bridge itself.
pub(super) const WORDS: [&str; 2] = ["--as-sandbox-bridge-starter", "--as-sandbox-bridge"];

/// The outer side, for as long as something runs inside.
#[derive(Debug)]
pub(super) struct Way {
    // They go in this order.
    _proxy: Proxy,
    folder: File,
    _scratch: Scratch,
}

impl Way {
    /// Starts a proxy for one sandbox in an empty folder, which goes with it. What is reached is told in the file
    /// `passages`.
    pub(super) fn open(
        hosts: &[String],
        scratch: Scratch,
        passages: Option<&Path>,
    ) -> Result<Way, String> {
        let allowed = Allowed::parse(hosts)?;
        let failed = |error: std::io::Error| format!("the egress proxy cannot be started: {error}");
        let log = passages.map(PassageLog::open).transpose().map_err(failed)?;
        let proxy = Proxy::start(scratch.path(), allowed, move |passage| {
            if let Some(log) = &log {
                log.write(passage);
            }
        });
        let proxy = proxy.map_err(failed)?;
        let folder = File::open(scratch.path()).map_err(failed)?;
        Ok(Way { _proxy: proxy, folder, _scratch: scratch })
    }

    /// The descriptor that the bridge needs.
    pub(super) fn descriptor(&self) -> i32 {
        self.folder.as_raw_fd()
    }
}

/// Inside: starts a bridge to the socket of this name in the folder that is open as `descriptor`, from this port of the
/// loopback or, if it is 0, from any; gives the port that the command uses.
///
/// The bridge is nobody's child: a command that waits for all of its children would otherwise wait for ever.
pub(super) fn begin(descriptor: i32, port: u16, socket: &str) -> Result<u16, String> {
    let failed =
        |error: std::io::Error| format!("the way to the network cannot be opened: {error}");
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, format!("/proc/self/fd/{descriptor}"), flags, Mode::empty());
    let folder = folder.map_err(|error| failed(error.into()))?;
    let started = start([WORDS[0].as_ref(), socket.as_ref()], OwnedFd::from(listener), folder)
        .and_then(|mut child| child.wait());
    if started.map_err(failed)?.success() {
        Ok(port)
    } else {
        Err("the bridge to the network did not start".to_owned())
    }
}

/// Starts this program again with two descriptors and nothing else, out of reach of what is typed at the terminal.
fn start(
    words: [&OsStr; 2],
    listener: OwnedFd,
    folder: OwnedFd,
) -> std::io::Result<std::process::Child> {
    Command::new("/proc/self/exe")
        .args(words)
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::from(listener))
        .stdout(Stdio::from(folder))
        .stderr(Stdio::null())
        .spawn()
}

/// The two further starts of this program. The exit code.
pub(super) fn continue_as(word: &str, name: &OsStr) -> i32 {
    let listener = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3);
    let folder = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3);
    let (Ok(listener), Ok(folder)) = (listener, folder) else { return 1 };
    if word == WORDS[0] {
        return i32::from(start([WORDS[1].as_ref(), name], listener, folder).is_err());
    }
    let socket = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    let _ = egress::bridge(&socket, TcpListener::from(listener));
    1
}
