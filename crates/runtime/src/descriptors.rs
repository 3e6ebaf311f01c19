//! How many descriptors this process may have, and who may have them: connections to models and commands share them. Whoever
//! finds none left waits; a task must not fail because many others run beside it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::process::Cancel;

/// Descriptors that are left to everything else: the journal, agents, files.
const RESERVED: u64 = 256;

/// What a command in its sandbox needs, and what looks after it.
const OF_A_COMMAND: u64 = 48;

/// Commands have as many as this before connections have more.
const OF_COMMANDS: u64 = 4096;

/// How often whoever waits looks whether it was stopped.
const GLANCE: Duration = Duration::from_millis(50);

/// Descriptors this process may have, before more were allowed.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Allows this process as many descriptors as the system lets it have, once; how many that are.
fn allowed() -> u64 {
    static ALLOWED: OnceLock<u64> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let before = getrlimit(Resource::Nofile);
        let _ = BEFORE.set(before);
        let wanted = Rlimit { current: before.maximum, maximum: before.maximum };
        let now = match setrlimit(Resource::Nofile, wanted) {
            Ok(()) => before.maximum,
            Err(_) => before.current,
        };
        now.unwrap_or(u64::MAX)
    })
}

/// The limit that children get: some programs do not bear more than they expect.
pub(crate) fn of_children() -> Option<Rlimit> {
    BEFORE.get().copied()
}

/// How many connections may be open at once.
pub(crate) fn connections() -> usize {
    shares(allowed()).0
}

/// Who runs commands: as many at once as there are descriptors for.
pub(crate) fn commands() -> Arc<Places> {
    Arc::new(Places { free: Mutex::new(shares(allowed()).1), freed: Condvar::new() })
}

/// How many connections and how many commands a limit is enough for; at least one of each.
fn shares(limit: u64) -> (usize, usize) {
    let left = limit.saturating_sub(RESERVED);
    let of_commands = (left / 2).min(OF_COMMANDS).max(left / 8);
    let count = |count: u64| usize::try_from(count.max(1)).unwrap_or(usize::MAX);
    (count((left - of_commands).max(limit / 4)), count(of_commands / OF_A_COMMAND))
}

/// Places for those who need many descriptors.
#[derive(Debug)]
pub(crate) struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a>(&'a Places);

impl Places {
    /// Waits for a free one; none if it is stopped before.
    pub(crate) fn take(&self, cancel: &Cancel) -> Option<Taken<'_>> {
        let mut free = self.lock();
        while *free == 0 {
            if cancel.is_triggered() {
                return None;
            }
            let waited = self.freed.wait_timeout(free, GLANCE);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(Taken(self))
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_shared_and_many_are_for_connections() {
        for (limit, connections, commands) in
            [(32, 8, 1), (1024, 384, 8), (20_000, 15_648, 85), (524_288, 458_528, 1364)]
        {
            assert_eq!(shares(limit), (connections, commands), "{limit}");
        }
        assert!(shares(u64::MAX).1 > 1_000_000);
    }

    #[test]
    fn whoever_finds_no_place_waits_for_one_or_for_being_stopped() {
        let places = Places { free: Mutex::new(1), freed: Condvar::new() };
        let taken = places.take(&Cancel::new()).unwrap();
        let stopped = Cancel::new();
        stopped.trigger();
        assert!(places.take(&stopped).is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| places.take(&Cancel::new()).is_some());
            drop(taken);
            assert!(waits.join().unwrap());
        });
        assert_eq!(*places.lock(), 1);
    }
}
