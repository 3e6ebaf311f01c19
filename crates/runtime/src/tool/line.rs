//! Who changes files next. Calls that run at once, of branches or of a plugin, change files of the same folder one after
//! the other, in the order in which they were asked for: two that read, change and write the same file would undo each
//! other.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use machine::tool::changes_files;

/// The lines before all folders.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Whoever stands last, by folder.
    last: BTreeMap<String, Arc<Spot>>,
}

/// A place in a line, left when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    before: Option<Arc<Spot>>,
    own: Arc<Spot>,
}

#[derive(Debug, Default)]
struct Spot {
    is_left: Mutex<bool>,
    left: Condvar,
}

impl Lines {
    /// The next place before this folder; none for a tool that changes nothing.
    pub(crate) fn join(&mut self, tool: &str, folder: Option<&str>) -> Option<Place> {
        let folder = folder.filter(|_| changes_files(tool))?;
        self.last.retain(|_, last| !*last.lock());
        let own = Arc::new(Spot::default());
        let before = self.last.insert(folder.to_owned(), Arc::clone(&own));
        Some(Place { before, own })
    }
}

impl Place {
    /// Waits until everybody before has left. None of them takes long: they read and write one file or a few.
    pub(crate) fn wait(&self) {
        let Some(before) = &self.before else { return };
        let mut is_left = before.lock();
        while !*is_left {
            is_left = before.left.wait(is_left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whoever leaves before its turn lets nobody pass those before it.
        self.wait();
        *self.own.lock() = true;
        self.own.left.notify_all();
    }
}

impl Spot {
    fn lock(&self) -> MutexGuard<'_, bool> {
        // One assignment: it is whole after any panic.
        self.is_left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
