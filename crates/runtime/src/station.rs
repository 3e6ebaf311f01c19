//! A process that drives tasks: journal, supervisor, control socket and lock, put together.

use std::sync::Arc;

use journal::sqlite::SqliteJournal;
use journal::{Journal, JournalError};
use machine::driver::Registry;
use machine::id::{TASK_LETTERS, TaskId};

use crate::clock::SystemClock;
use crate::control::Control;
use crate::home::{Home, Presence};
use crate::inbox::Inbox;
use crate::process;
use crate::supervisor::Supervisor;
use crate::world::World;

/// Everything a driving process holds. Dropping it closes the socket and frees the lock.
pub struct Station {
    /// The loop over all tasks.
    pub supervisor: Supervisor<World>,
    /// Where commands and signals arrive.
    pub inbox: Inbox,
    /// Where the state is.
    pub home: Home,
    _control: Control,
    _presence: Arc<Presence>,
}

/// Why a station cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StationError {
    /// The home folder cannot be used.
    #[error("{0}")]
    Home(String),
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Station {
    /// Opens the journal for writing, ends what dead processes left running, and listens for commands.
    pub fn open(home: &Home, registry: Arc<Registry>) -> Result<Station, StationError> {
        home.create().map_err(StationError::Home)?;
        let journal = SqliteJournal::open(&home.journal())?;
        let owner = journal.owner();
        let failed = |what: &str, error: std::io::Error| {
            StationError::Home(format!("cannot {what} in {}: {error}", home.run().display()))
        };
        let presence = Presence::take(home, owner).map_err(|error| failed("make a lock", error))?;
        let presence = Arc::new(presence);
        process::reap_leftovers(&home.trials());
        for dead in home.dead_owners() {
            process::reap_leftovers(&home.marks(dead));
            home.forget(dead);
        }
        let inbox = Inbox::default();
        let held = Arc::downgrade(&presence);
        let look = move || {
            if let Some(presence) = held.upgrade() {
                presence.renew();
            }
        };
        let control = Control::listen(&home.socket(owner), inbox.clone(), look)
            .map_err(|error| failed("listen for commands", error))?;
        let world = World::new(inbox.clone(), home, home.marks(owner));
        let supervisor = Supervisor::new(
            Box::new(journal),
            world,
            Box::new(SystemClock),
            registry,
            inbox.clone(),
        );
        Ok(Station {
            supervisor,
            inbox,
            home: home.clone(),
            _control: control,
            _presence: presence,
        })
    }
}

/// A new task's id: 12 random characters, so that a short prefix is nearly always enough.
pub fn new_task_id() -> TaskId {
    let mut bytes = [0u8; 12];
    // The system's source of randomness does not fail on the kernels that have the other calls we need.
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    TaskId(bytes.iter().map(|byte| char::from(TASK_LETTERS[usize::from(byte % 32)])).collect())
}
