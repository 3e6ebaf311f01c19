//! Whether anybody drives the children that a task waits for: they work in processes of their own, and a process that is
//! killed tells nobody. What follows from what is seen here is decided in `machine::child::minding`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::sqlite::SqliteJournal;
use journal::{Journal, JournalError, Loaded};
use machine::child::minding::{ChildSeen, LOST_AFTER, Outlook};
use machine::driver::Registry;
use machine::id::TaskId;
use machine::input::Signal;

use crate::clock::{Clock, SystemClock};
use crate::home::Home;
use crate::host::Host;
use crate::inbox::Inbox;
use crate::process::{Cancel, start_detached};

/// How often somebody looks.
const GLANCE: Duration = Duration::from_millis(500);

/// Looks after children, again and again.
#[derive(Debug)]
pub struct Minding {
    home: Home,
    registry: Arc<Registry>,
    /// Since when nobody drives them.
    alone: BTreeMap<TaskId, Instant>,
}

impl Minding {
    /// Nobody was looked at yet.
    pub fn new(home: Home, registry: Arc<Registry>) -> Minding {
        Minding { home, registry, alone: BTreeMap::new() }
    }

    /// Those of the children that have ended, or that nobody has driven for long enough. One that was told of as driven by
    /// nobody has as long again before it is told of once more: somebody may have taken it up.
    pub fn look(&mut self, children: &[TaskId]) -> Vec<ChildSeen> {
        // What cannot be read now is looked at the next time.
        let Ok(journal) = SqliteJournal::read(&self.home.journal()) else { return Vec::new() };
        children.iter().filter_map(|child| self.look_at(&journal, child)).collect()
    }

    fn look_at(&mut self, journal: &dyn Journal, child: &TaskId) -> Option<ChildSeen> {
        let row = journal.task(child.as_str()).ok()?;
        let loaded: Result<Loaded, JournalError> = journal.load(child.as_str());
        let registry = Arc::clone(&self.registry);
        let host = Host::fold(child, &loaded.ok()?, registry, true, drop).ok()?;
        let attachment = host.state.data().attachment.as_ref();
        let driven = attachment.is_some_and(|by| by.owner == row.owner)
            && self.home.alive(row.owner).is_some();
        let ended = match host.state.outlook(driven, SystemClock.now()) {
            Outlook::GoesOn => {
                self.alone.remove(child);
                return None;
            }
            Outlook::Ended(outcome) => Some(outcome),
            Outlook::Lost => {
                let since = *self.alone.entry(child.clone()).or_insert_with(Instant::now);
                if since.elapsed() < Duration::from_millis(LOST_AFTER.0) {
                    return None;
                }
                None
            }
        };
        self.alone.remove(child);
        let charge = host.state.charge();
        Some(ChildSeen { child: child.clone(), charge, ended })
    }
}

/// Looks after children for as long as it lives.
#[derive(Debug)]
pub struct Minder(Cancel);

impl Drop for Minder {
    fn drop(&mut self) {
        self.0.trigger();
    }
}

impl Minding {
    /// Looks after these children on a thread of its own, and tells the task that waits for them what is seen.
    pub fn keep_on(mut self, task: TaskId, children: Vec<TaskId>, inbox: Inbox) -> Minder {
        let stop = Cancel::new();
        let stopped = stop.clone();
        let looks = move || {
            while !stopped.is_triggered() {
                let seen = self.look(&children);
                if !seen.is_empty() && !stopped.is_triggered() {
                    inbox.signal(task.clone(), Signal::ChildrenSeen(seen).into());
                }
                std::thread::sleep(GLANCE);
            }
        };
        // Without a thread nobody looks, and whoever waits is told by its children alone.
        let _ = std::thread::Builder::new().name("minding".to_owned()).spawn(looks);
        Minder(stop)
    }
}

/// Starts a process of its own that drives a task which is journaled; its number.
pub fn drive_apart(home: &Home, task: &TaskId, folder: &Path) -> io::Result<u32> {
    let logs = home.root().join("dispatched");
    fs::create_dir_all(&logs)?;
    let arguments = ["resume", task.as_str(), "--unattended", "--quiet"];
    start_detached(&arguments, folder, &logs.join(format!("{task}.log")))
}
