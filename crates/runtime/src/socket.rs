//! Sockets of this user alone: where they may stand, and who may be at the other end. Nothing is said to, or taken
//! from, a socket that another user could have put there.

use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Socket addresses hold 107 bytes; a longer path is reached through its folder's descriptor.
const SHORT: usize = 100;

/// Listens at `path`. Its folder must be ours alone; what stands there already is removed, so whoever calls has made
/// sure that nobody alive listens on it.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    check_folder(path)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_short_path(path, |path| UnixListener::bind(path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Whether somebody comes to a listener within this time. One that cannot be waited for says itself what is wrong.
pub(crate) fn has_come(listener: &UnixListener, within: Duration) -> bool {
    let within = Timespec { tv_sec: within.as_secs().cast_signed(), tv_nsec: 0 };
    match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&within)) {
        Ok(0) | Err(Errno::INTR) => false,
        Ok(_) | Err(_) => true,
    }
}

/// Connects to a socket at `path`, if its folder and the socket itself are ours alone and one of our own processes
/// listens on it.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = connect_from_box(path)?;
    if !is_ours(&stream) {
        return Err(refused(path, "another user listens on it"));
    }
    Ok(stream)
}

/// The same for a process in a PID namespace, which cannot see who listens outside of it: the folder, which nobody
/// else can write to, has to be enough.
pub fn connect_from_box(path: &Path) -> io::Result<UnixStream> {
    check_folder(path)?;
    let found = fs::symlink_metadata(path)?;
    if !found.file_type().is_socket() {
        return Err(refused(path, "it is no socket"));
    }
    check_ours(path, &found)?;
    with_short_path(path, |path| UnixStream::connect(path))
}

/// Whether the process at the other end is this user's. Not to be asked from inside a PID namespace about a process
/// outside: that one has no number there, and the answer would mean nothing.
pub fn is_ours(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream.as_fd())
        .is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// The number of the process at the other end: the one that began to listen.
pub fn peer(stream: &UnixStream) -> Option<i32> {
    let peer = rustix::net::sockopt::socket_peercred(stream.as_fd()).ok()?;
    Some(peer.pid.as_raw_nonzero().get())
}

/// A stream whose reads can be given a time.
pub trait Timed {
    /// Reads once, for at most this time.
    fn read_within(&self, buffer: &mut [u8], time: Option<Duration>) -> io::Result<usize>;
}

impl Timed for &UnixStream {
    fn read_within(&self, buffer: &mut [u8], time: Option<Duration>) -> io::Result<usize> {
        self.set_read_timeout(time)?;
        (&mut &**self).read(buffer)
    }
}

impl Timed for &TcpStream {
    fn read_within(&self, buffer: &mut [u8], time: Option<Duration>) -> io::Result<usize> {
        self.set_read_timeout(time)?;
        (&mut &**self).read(buffer)
    }
}

/// Reads once, until some time at the latest. A read with a time is broken off by every signal, even by the one that
/// lets a stopped process go on; that is no reason to give up the other end.
pub fn read(stream: &impl Timed, buffer: &mut [u8], until: Option<Instant>) -> io::Result<usize> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read_within(buffer, left) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A read whose time is over says "would block".
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

fn check_folder(path: &Path) -> io::Result<()> {
    check_private(path.parent().ok_or_else(|| refused(path, "it has no folder"))?)
}

/// Refuses a folder for sockets that others may use.
pub fn check_private(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(refused(folder, "it is no folder"));
    }
    check_ours(folder, &found)
}

fn check_ours(path: &Path, found: &Metadata) -> io::Result<()> {
    let us = rustix::process::geteuid().as_raw();
    if found.uid() != us {
        return Err(refused(path, &format!("it belongs to user {}, not to {us}", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        return Err(refused(path, &format!("others may use it (mode {mode:o}): chmod go= it")));
    }
    Ok(())
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {why}", path.display()))
}

pub(crate) fn with_short_path<T>(
    path: &Path,
    act: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    if path.as_os_str().len() < SHORT {
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

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        folder
    }

    fn why<T: std::fmt::Debug>(result: io::Result<T>) -> String {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        error.to_string()
    }

    #[test]
    fn a_folder_that_others_may_use_is_refused_for_listening_and_for_connecting() {
        let folder = folder();
        let path = folder.path().join("s");
        let _listener = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        connect(&path).unwrap();
        for mode in [0o770, 0o705, 0o711] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert!(why(connect(&path)).contains("others may use it"));
            assert!(why(listen(&folder.path().join("t"))).contains("others may use it"));
        }
    }

    #[test]
    fn a_socket_of_another_user_or_kind_is_refused() {
        let folder = folder();
        let path = folder.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(why(connect(&path)).contains("others may use it"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        // Only root can give a file away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert!(why(connect(&path)).contains("belongs to user 65534"));
            std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
            assert!(why(connect(&path)).contains("belongs to user 65534"));
            assert!(why(listen(&path)).contains("belongs to user 65534"));
            std::os::unix::fs::chown(folder.path(), Some(0), None).unwrap();
        }
        let file = folder.path().join("f");
        fs::write(&file, "").unwrap();
        assert!(why(connect(&file)).contains("no socket"));
        let link = folder.path().join("l");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(why(connect(&link.join("s"))).contains("no folder"));
    }
}
