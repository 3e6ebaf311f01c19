//! A disk without room. What drivetrain itself has to write so that a task can go on is tried again until there is some, as
//! the journal is: a disk that is full for a while must not end a task.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::StatVfs;

use crate::process::Cancel;

/// A disk with fewer bytes than this has no room.
const LITTLE: u64 = 64 << 10;

/// Nor has one that can hold fewer files more.
const FEW: u64 = 8;

/// What a check failed for that found no room: it says nothing about what was checked.
pub(crate) const NO_ROOM: &str = "a check failed on a disk without room";

/// How long until it is tried again.
const LATER: Duration = Duration::from_secs(1);

/// The same where there is room in between: whatever is tried takes all of it, again and again.
const LATEST: Duration = Duration::from_secs(60);

/// How often the wait looks whether it was stopped.
const GLANCE: Duration = Duration::from_millis(50);

/// What observers are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Room {
    /// Something waits for room, for this reason.
    Missing(String),
    /// It does not wait any more.
    Found,
}

/// Does something that writes to the disks of these folders, again and again for as long as there is no room for it, and until it
/// is stopped.
pub(crate) fn until_there_is_some<T, E: AsRef<str>>(
    folders: &[&Path],
    cancel: &Cancel,
    tell: impl Fn(Room),
    act: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    // Git has words of its own for it.
    let is_full = |why: &str| says_so(why) || is_missing(folders);
    try_again(LATER, is_full, || is_missing(folders), cancel, tell, act)
}

/// The same for what runs commands of somebody else, whose words count for nothing: in a sandbox they have disks of their own,
/// which may be full for ever.
pub(crate) fn while_there_is_none<T>(
    folders: &[&Path],
    cancel: &Cancel,
    tell: impl Fn(Room),
    act: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    try_again(LATER, |_| is_missing(folders), || is_missing(folders), cancel, tell, act)
}

/// Whether the disk of one of these folders has no room.
pub(crate) fn is_missing(folders: &[&Path]) -> bool {
    missing(folders).is_some()
}

/// The first of these folders whose disk has no room.
pub fn missing<'a>(folders: &[&'a Path]) -> Option<&'a Path> {
    folders.iter().copied().find(|folder| has_little(folder))
}

fn try_again<T, E: AsRef<str>>(
    first: Duration,
    is_full: impl Fn(&str) -> bool,
    is_still: impl Fn() -> bool,
    cancel: &Cancel,
    tell: impl Fn(Room),
    mut act: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let (mut waited, mut later) = (false, first);
    loop {
        let done = act();
        let is_over = match &done {
            Err(why) if is_full(why.as_ref()) => {
                if !std::mem::replace(&mut waited, true) {
                    tell(Room::Missing(why.as_ref().to_owned()));
                }
                let longer = (later * 2).min(LATEST.max(first));
                let pause = if is_still() { first } else { std::mem::replace(&mut later, longer) };
                is_stopped(pause, cancel)
            }
            Ok(_) | Err(_) => true,
        };
        if is_over {
            if waited {
                tell(Room::Found);
            }
            return done;
        }
    }
}

/// Waits; whether it was stopped meanwhile.
fn is_stopped(later: Duration, cancel: &Cancel) -> bool {
    let until = Instant::now() + later;
    while !cancel.is_triggered() && Instant::now() < until {
        std::thread::sleep(GLANCE.min(later));
    }
    cancel.is_triggered()
}

/// Whether that is why, in the words of the system or of git. Git does not say why a file cannot be written; and when it has
/// failed it takes away what it wrote, so that there seems to be room.
fn says_so(why: &str) -> bool {
    const WORDS: [&str; 6] = [
        NO_ROOM,
        "No space left on device",
        "Disk quota exceeded",
        "error: unable to write file ",
        "write error. Out of diskspace",
        "write new index file",
    ];
    WORDS.iter().any(|words| why.contains(words))
}

fn has_little(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|disk| is_full(&disk))
}

fn is_full(disk: &StatVfs) -> bool {
    // Some count no files.
    let counts_files = disk.f_files > 0;
    disk.f_bavail.saturating_mul(disk.f_frsize) < LITTLE || (counts_files && disk.f_favail < FEW)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    fn full() -> String {
        std::io::Error::from_raw_os_error(28).to_string()
    }

    #[test]
    fn git_has_words_of_its_own_for_a_full_disk() {
        for why in [
            "cannot make a worktree at x: error: unable to write file big\nfatal: Could not reset index file",
            "fatal: unable to write new index file",
            "error: could not write new index file.",
        ] {
            assert!(says_so(why), "{why}");
        }
        assert!(!says_so("error: unable to unlink old 'file': Permission denied"));
    }

    #[test]
    fn a_disk_that_can_hold_no_more_files_is_as_full_as_one_without_bytes() {
        let is_full = |f_bavail, f_files, f_favail| {
            let some = rustix::fs::statvfs("/").unwrap();
            is_full(&StatVfs { f_frsize: 4096, f_bavail, f_files, f_favail, ..some })
        };
        assert!(!is_full(1000, 1000, 500));
        assert!(is_full(10, 1000, 500));
        assert!(is_full(1000, 1000, 0));
        assert!(!is_full(1000, 0, 0), "it counts no files");
    }

    #[test]
    fn what_takes_all_room_itself_is_done_again_ever_later() {
        let (cancel, begun) = (Cancel::new(), Instant::now());
        let moments = RefCell::new(Vec::new());
        let first = Duration::from_millis(20);
        let _: Result<(), String> = try_again(
            first,
            says_so,
            || false,
            &cancel,
            drop,
            || {
                moments.borrow_mut().push(begun.elapsed());
                if moments.borrow().len() == 4 {
                    cancel.trigger();
                }
                Err(NO_ROOM.to_owned())
            },
        );
        let moments = moments.into_inner();
        let waits: Vec<Duration> = moments.windows(2).map(|two| two[1] - two[0]).collect();
        for (wait, times) in waits.iter().zip([1, 2, 4]) {
            assert!(*wait >= first * times, "{waits:?}");
        }
    }

    #[test]
    fn what_finds_no_room_is_done_again_and_told_once() {
        let (told, mut tries) = (RefCell::new(Vec::new()), 0);
        let tell = |room| told.borrow_mut().push(room);
        let done = try_again(
            SOON,
            says_so,
            || true,
            &Cancel::new(),
            tell,
            || {
                tries += 1;
                if tries < 4 { Err(full()) } else { Ok(tries) }
            },
        );
        assert_eq!(done, Ok(4));
        assert_eq!(*told.borrow(), [Room::Missing(full()), Room::Found]);
    }

    #[test]
    fn whoever_is_stopped_does_not_wait_and_other_failures_count_at_once() {
        let cancel = Cancel::new();
        let long = Duration::from_secs(3600);
        let stopped: Result<(), String> = try_again(
            long,
            says_so,
            || true,
            &cancel,
            drop,
            || {
                cancel.trigger();
                Err(full())
            },
        );
        assert_eq!(stopped, Err(full()));
        let mut tries = 0;
        let failed: Result<(), String> = try_again(
            SOON,
            says_so,
            || true,
            &Cancel::new(),
            drop,
            || {
                tries += 1;
                Err("it is broken".to_owned())
            },
        );
        assert_eq!((failed, tries), (Err("it is broken".to_owned()), 1));
    }
}
