//! Calls about one task take effect in the order in which they were sent. What changes a task is waited for by whatever is
//! sent about it later; what only looks, or waits, holds up nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use wire::tasks::About;

/// The calls that change tasks and have not ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Order(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    changes: Mutex<Changes>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct Changes {
    last: u64,
    open: BTreeMap<u64, About>,
}

/// The place of one call; others go on when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    order: Order,
    number: u64,
    /// Those that come first.
    before: Vec<u64>,
}

impl Order {
    /// The place of a call, after all that were given one before; none for a call about no task.
    pub(super) fn join(&self, about: Option<About>) -> Option<Turn> {
        let about = about?;
        let mut changes = self.lock();
        let meets = changes.open.iter().filter(|(_, other)| about.meets(other));
        let before = meets.map(|(number, _)| *number).collect();
        changes.last += 1;
        let number = changes.last;
        if about.changes {
            changes.open.insert(number, about);
        }
        drop(changes);
        Some(Turn { order: self.clone(), number, before })
    }

    /// Each change under the lock is one insert or one removal, so what it holds is whole after a panic.
    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.0.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Waits until those before it are over.
    pub(super) fn wait(&self) {
        let mut changes = self.order.lock();
        while self.before.iter().any(|number| changes.open.contains_key(number)) {
            changes = self.order.0.over.wait(changes).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.order.lock().open.remove(&self.number);
        self.order.0.over.notify_all();
    }
}
