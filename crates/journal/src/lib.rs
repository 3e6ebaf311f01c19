//! The record of what happened: an append-only log of inputs, by task, with a hash chain.
//!
//! The contract, in the order a caller meets it:
//!
//! 1. Open a journal. Opening raises the journal's owner number; that number is this process.
//! 2. [`Journal::claim`] a task (or create it with [`Entry::Create`]) before writing to it. Claiming takes
//!    the task from whoever held it: every later write of the former holder fails with
//!    [`JournalError::Fenced`].
//! 3. [`Journal::commit`] writes a batch of entries, of any number of tasks, all or nothing. When it
//!    returns `Ok`, the batch is on disk: a power cut cannot take it back. One call costs one sync,
//!    whatever the size of the batch.
//! 4. [`Journal::load`] gives the last snapshot and the records after it, with the chain checked.
//!
//! The journal does not know what a record means: bodies are bytes. It never deletes a record.

pub mod blob;
pub mod chain;
pub mod contract;
pub mod memory;
pub mod sqlite;

use serde::{Deserialize, Serialize};

pub use chain::Chain;

/// The largest record body; larger data belongs in a blob.
pub const MAX_BODY: usize = 8 << 20;

/// One entry of a commit.
#[derive(Debug, Clone)]
pub enum Entry<'a> {
    /// Makes a task, claimed by this owner. Must precede the task's first record (same batch or earlier).
    Create {
        /// The task's id; 1 to 64 of `[a-z0-9-]`.
        task: &'a str,
        /// Milliseconds since the epoch.
        time: i64,
    },
    /// Appends one record. `n` must be the next number of the task (the first is 1).
    Record {
        /// The task it belongs to.
        task: &'a str,
        /// Its number within the task.
        n: u64,
        /// Milliseconds since the epoch.
        time: i64,
        /// The version of the machine that wrote it.
        version: u32,
        /// What happened, opaque to the journal; at most [`MAX_BODY`] bytes.
        body: &'a [u8],
    },
    /// Replaces the task's snapshot by the state after record `n` (which must exist by the end of the batch).
    Snapshot {
        /// The task it belongs to.
        task: &'a str,
        /// The number of the last record folded into it.
        n: u64,
        /// The state, opaque to the journal.
        body: &'a [u8],
    },
    /// Replaces the task's summary: what a list shows without folding records.
    Summary {
        /// The task it belongs to.
        task: &'a str,
        /// True while the task may still go on by itself: such tasks are found by [`Journal::open_tasks`].
        open: bool,
        /// JSON text, opaque to the journal.
        body: &'a str,
    },
}

/// One record as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number within the task, from 1.
    pub n: u64,
    /// Milliseconds since the epoch.
    pub time: i64,
    /// The version of the machine that wrote it.
    pub version: u32,
    /// What happened.
    pub body: Vec<u8>,
}

/// A stored state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of the last record folded into it.
    pub n: u64,
    /// The state.
    pub body: Vec<u8>,
}

/// What [`Journal::load`] gives: enough to rebuild a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The newest usable snapshot, if any.
    pub snapshot: Option<Snapshot>,
    /// The records after it, in order, without gaps.
    pub records: Vec<Record>,
}

/// One row of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// The task's id.
    pub id: String,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// The owner number of its last holder.
    pub owner: u64,
    /// See [`Entry::Summary`].
    pub open: bool,
    /// See [`Entry::Summary`]; empty until the first one.
    pub summary: String,
}

/// Something found wrong in a journal, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The task it concerns; `None` if it concerns the whole journal.
    pub task: Option<String>,
    /// The record's number, where one can be named.
    pub n: Option<u64>,
    /// What is wrong, in one of a few fixed kinds.
    pub kind: DamageKind,
    /// A sentence for a person.
    pub detail: String,
}

/// The kinds of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DamageKind {
    /// The database cannot be read as one.
    Unreadable,
    /// A record's content does not match the chain.
    Altered,
    /// A record is missing in the middle or a number is used twice.
    Gap,
    /// Records that were committed are gone from the end.
    LostTail,
    /// A snapshot does not match its checksum or its record; it is not used.
    Snapshot,
    /// A task's row (id, owner, summary) does not match its checksum.
    TaskRow,
    /// The witness file is missing or damaged.
    Witness,
    /// A blob is missing or does not have the content its name says.
    Blob,
}

/// What [`Journal::verify`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Tasks looked at.
    pub tasks: u64,
    /// Records whose chain was checked.
    pub records: u64,
    /// Everything wrong, in order of task and number.
    pub damages: Vec<Damage>,
}

/// Why a journal call failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// No task of that id.
    #[error("no task {0}")]
    UnknownTask(String),
    /// A task of that id exists.
    #[error("task {0} exists already")]
    DuplicateTask(String),
    /// Somebody else claimed the task after us: stop driving it.
    #[error("task {task} was taken over by owner {by}; this process is owner {owner}")]
    Fenced {
        /// The task that was lost.
        task: String,
        /// Our own number.
        owner: u64,
        /// The number of who has it.
        by: u64,
    },
    /// The record's number is not the next one.
    #[error("record {got} of task {task} does not follow: expected number {expected}")]
    OutOfOrder {
        /// The task.
        task: String,
        /// The number that would follow.
        expected: u64,
        /// The number given.
        got: u64,
    },
    /// A body over [`MAX_BODY`].
    #[error(
        "record of {size} bytes for task {task}: at most {MAX_BODY} are allowed, larger data goes to a blob"
    )]
    TooLarge {
        /// The task.
        task: String,
        /// The size given.
        size: usize,
    },
    /// An id that cannot be a task's.
    #[error("{0:?} cannot be a task id: expected 1 to 64 of a-z, 0-9 and '-'")]
    BadId(String),
    /// The disk is full or read-only: nothing was written; the same call may succeed later.
    #[error("the journal cannot be written: {0}")]
    Full(String),
    /// The file was made by a newer drivetrain.
    #[error(
        "{path} has format {found}; this drivetrain reads up to {known}: use the newer version"
    )]
    Newer {
        /// The file.
        path: String,
        /// Its format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// The file is not a drivetrain journal.
    #[error("{0} is not a drivetrain journal")]
    Foreign(String),
    /// Committed data is damaged or gone.
    #[error("journal damaged: {}", .0.detail)]
    Damaged(Damage),
    /// Any other failure of the store. After one of these during a commit, the journal refuses further
    /// writes until it is reopened: what reached the disk is not known.
    #[error("journal: {0}")]
    Store(String),
}

/// A store of records. See the crate's page for the contract; `contract::check` tests it.
pub trait Journal: Send {
    /// This process's owner number.
    fn owner(&self) -> u64;

    /// Writes all entries or none, durably. One sync.
    fn commit(&mut self, entries: &[Entry<'_>]) -> Result<(), JournalError>;

    /// Takes the task, fencing its former holder, and returns the number of its last record.
    fn claim(&mut self, task: &str) -> Result<u64, JournalError>;

    /// The same if the task is still `from`'s; [`JournalError::Fenced`] names who has it if not.
    fn claim_from(&mut self, task: &str, from: u64) -> Result<u64, JournalError>;

    /// The newest snapshot and what follows. Damage in what is returned is an error; a damaged snapshot is
    /// passed over and the records are read from the start.
    fn load(&self, task: &str) -> Result<Loaded, JournalError>;

    /// All records with number greater than `after`, chain checked.
    fn records(&self, task: &str, after: u64) -> Result<Vec<Record>, JournalError>;

    /// One task's row.
    fn task(&self, task: &str) -> Result<TaskRow, JournalError>;

    /// Ids that start with `prefix`, at most `limit`, newest first.
    fn find(&self, prefix: &str, limit: usize) -> Result<Vec<String>, JournalError>;

    /// The newest tasks first: at most `limit`, created before `before` (milliseconds) if given.
    fn list(&self, limit: usize, before: Option<i64>) -> Result<Vec<TaskRow>, JournalError>;

    /// Every task whose summary says open, oldest first. Cost does not depend on the number of closed ones.
    fn open_tasks(&self) -> Result<Vec<TaskRow>, JournalError>;

    /// Checks everything and names what is wrong. Never fails: a store that cannot be read is a damage.
    fn verify(&self) -> Report;

    /// How many syncs `commit` has caused so far; the tests count them.
    fn syncs(&self) -> u64;
}

/// Refuses what cannot be a task's id.
pub(crate) fn check_id(id: &str) -> Result<(), JournalError> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=64).contains(&id.len()) && id.bytes().all(fits) {
        return Ok(());
    }
    Err(JournalError::BadId(id.to_owned()))
}
