//! The lines that are owed to one worker. A worker that does not read its answers is owed so many, and no more: until
//! it takes some, nothing further is read from it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Answers owed to a worker at once.
const MOST_OWED: usize = 16;

/// How often a wait looks whether the worker is gone.
const GLANCE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Outbox {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    ready: VecDeque<String>,
    /// Ready, being written, or still to come.
    owed: usize,
    closed: bool,
}

impl Outbox {
    /// Waits until one more answer may be owed; false if the worker is gone by then.
    pub(super) fn owe(&self, gone: impl Fn() -> bool) -> bool {
        let admitted = self.wait(gone, |lines| lines.owed < MOST_OWED);
        if admitted {
            self.lock().owed += 1;
        }
        admitted
    }

    /// Waits until nothing is owed any more, or the worker is gone.
    pub(super) fn settle(&self, gone: impl Fn() -> bool) {
        self.wait(gone, |lines| lines.owed == 0);
    }

    /// An answer that was owed. Never waits.
    pub(super) fn push(&self, line: String) {
        self.lock().ready.push_back(line);
        self.changed.notify_all();
    }

    /// The next line to write; none once closed.
    pub(super) fn next(&self) -> Option<String> {
        let mut lines = self.lock();
        loop {
            if lines.closed {
                return None;
            }
            if let Some(line) = lines.ready.pop_front() {
                return Some(line);
            }
            lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A line was written.
    pub(super) fn paid(&self) {
        let mut lines = self.lock();
        lines.owed = lines.owed.saturating_sub(1);
        drop(lines);
        self.changed.notify_all();
    }

    /// Nothing more is written.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// True once `done`; false if closed or `gone` first.
    fn wait(&self, gone: impl Fn() -> bool, done: impl Fn(&Lines) -> bool) -> bool {
        let mut lines = self.lock();
        loop {
            if lines.closed {
                return false;
            }
            if done(&lines) {
                return true;
            }
            let waited = self.changed.wait_timeout(lines, GLANCE);
            let (held, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            lines = held;
            if timeout.timed_out() && gone() {
                return false;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        // Whole after any panic: each change is one push or one number.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_takes_no_answer_is_owed_only_so_many() {
        let outbox = Outbox::default();
        for _ in 0..MOST_OWED {
            assert!(outbox.owe(|| false));
            outbox.push("x".to_owned());
        }
        assert!(!outbox.owe(|| true));
        outbox.next().unwrap();
        outbox.paid();
        assert!(outbox.owe(|| true));
        outbox.close();
        assert_eq!(outbox.next(), None);
        assert!(!outbox.owe(|| false));
    }
}
