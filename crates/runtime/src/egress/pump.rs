//! Carries bytes both ways between two sockets until both have ended. One thread, no lock: neither side can keep the
//! other from being heard.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustix::time::Timespec;

/// What is under way in one direction at most.
const ROOM: usize = 64 * 1024;

/// How many bytes went each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// From the left to the right.
    pub(super) up: u64,
    /// From the right to the left.
    pub(super) down: u64,
}

/// Carries bytes between two sockets. `first` has come from the left already. Without a byte for the time `idle` it is
/// given up as timed out.
pub(super) fn pump(
    left: impl AsFd,
    right: impl AsFd,
    first: &[u8],
    idle: Option<Duration>,
    counts: &mut Counts,
) -> io::Result<()> {
    let (left, right) = (left.as_fd(), right.as_fd());
    rustix::io::ioctl_fionbio(left, true)?;
    rustix::io::ioctl_fionbio(right, true)?;
    let mut up = Lane::new(first);
    let mut down = Lane::new(&[]);
    while !(up.told && down.told) {
        wait(left, interest(&up, &down), right, interest(&down, &up), idle)?;
        counts.up += up.advance(left, right)?;
        counts.down += down.advance(right, left)?;
    }
    Ok(())
}

/// What is waited for at a socket that one lane comes from and the other goes to.
fn interest(from: &Lane, to: &Lane) -> PollFlags {
    let mut flags = PollFlags::empty();
    if from.has_room() {
        flags |= PollFlags::IN;
    }
    if to.holds_something() {
        flags |= PollFlags::OUT;
    }
    flags
}

fn wait(
    left: BorrowedFd<'_>,
    at_left: PollFlags,
    right: BorrowedFd<'_>,
    at_right: PollFlags,
    idle: Option<Duration>,
) -> io::Result<()> {
    // A socket that nothing is expected of is left out: that it was hung up would be told again and again.
    let mut waiting: Vec<PollFd<'_>> = [(left, at_left), (right, at_right)]
        .into_iter()
        .filter(|(_, flags)| !flags.is_empty())
        .map(|(socket, flags)| PollFd::from_borrowed_fd(socket, flags))
        .collect();
    let time = idle.and_then(|idle| Timespec::try_from(idle).ok());
    match poll(&mut waiting, time.as_ref()) {
        Ok(0) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// One direction.
struct Lane {
    space: Vec<u8>,
    /// What is held lies between these two.
    start: usize,
    end: usize,
    /// The source has said all.
    ended: bool,
    /// The other side has been told.
    told: bool,
}

impl Lane {
    fn new(first: &[u8]) -> Lane {
        let mut space = first.to_vec();
        space.resize(ROOM.max(first.len()), 0);
        Lane { space, start: 0, end: first.len(), ended: false, told: false }
    }

    fn has_room(&self) -> bool {
        !self.ended && self.end < self.space.len()
    }

    fn holds_something(&self) -> bool {
        self.start < self.end
    }

    /// Takes what has come and gives on what can be given. How many bytes were given on.
    fn advance(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<u64> {
        if self.has_room() {
            match recv(from, &mut self.space[self.end..], RecvFlags::empty()) {
                Ok((_, 0)) => self.ended = true,
                Ok((_, got)) => self.end += got,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut given = 0;
        if self.holds_something() {
            match send(to, &self.space[self.start..self.end], SendFlags::NOSIGNAL) {
                Ok(sent) => given = sent,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.start += given;
        }
        if !self.holds_something() {
            (self.start, self.end) = (0, 0);
            if self.ended && !self.told {
                self.told = true;
                // A side that is gone already needs no telling.
                let _ = shutdown(to, Shutdown::Write);
            }
        }
        Ok(given as u64)
    }
}
