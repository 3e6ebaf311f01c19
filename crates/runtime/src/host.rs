//! Owns one task's state: encodes its inputs, folds its records, knows when to snapshot. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::Loaded;
use machine::driver::Registry;
use machine::id::TaskId;
use machine::input::Stamped;
use machine::state::{SavedState, Standing, State};
use machine::stream::Endings;
use machine::time::Timestamp;
use machine::{Input, Output, step};
use serde_json::{Value, json};

/// Records between two snapshots: bounds what a resume has to fold.
pub const SNAPSHOT_EVERY: u64 = 1000;

/// A task that this process holds.
#[derive(Debug)]
pub struct Host {
    /// Its state.
    pub state: State,
    /// The number of its last record.
    pub last: u64,
    /// The number last given to a record, written or not.
    pub numbered: u64,
    /// The number of the record its last snapshot includes.
    pub snapshot: u64,
    /// What its events add to its live stream.
    pub endings: Endings,
}

/// Why a task cannot be brought back.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// A record that this version cannot read.
    #[error("record {n} of task {task} (machine version {version}) cannot be read: {reason}")]
    Record {
        /// The task.
        task: TaskId,
        /// Which record.
        n: u64,
        /// Who wrote it.
        version: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// A snapshot that this version cannot use.
    #[error("the snapshot of task {task} cannot be used: {reason}")]
    Snapshot {
        /// The task.
        task: TaskId,
        /// What is wrong with it.
        reason: String,
    },
}

impl Host {
    /// A task before its first record.
    pub fn new(task: TaskId, registry: Arc<Registry>) -> Host {
        let (state, endings) = (State::new(task, registry), Endings::default());
        Host { state, last: 0, numbered: 0, snapshot: 0, endings }
    }

    /// Folds what the journal holds; `each` hears every output on the way.
    pub fn fold(
        task: &TaskId,
        loaded: &Loaded,
        registry: Arc<Registry>,
        quiet: bool,
        mut each: impl FnMut(Output),
    ) -> Result<Host, FoldError> {
        let mut host = Host::new(task.clone(), Arc::clone(&registry));
        if let Some(snapshot) = &loaded.snapshot {
            let wrong = |reason: String| FoldError::Snapshot { task: task.clone(), reason };
            let saved: SavedState =
                serde_json::from_slice(&snapshot.body).map_err(|error| wrong(error.to_string()))?;
            host.state = State::load(&saved, registry).map_err(wrong)?;
            host.last = snapshot.n;
            host.snapshot = snapshot.n;
        }
        host.state.set_quiet(quiet);
        for record in &loaded.records {
            let wrong = |reason: String| FoldError::Record {
                task: task.clone(),
                n: record.n,
                version: record.version,
                reason,
            };
            if record.version > machine::MACHINE_VERSION {
                return Err(wrong("it was written by a newer drivetrain".to_owned()));
            }
            let input = decode(&record.body).map_err(wrong)?;
            each(step(&mut host.state, Stamped { time: Timestamp(record.time), input }));
            host.last = record.n;
        }
        host.state.set_quiet(false);
        host.numbered = host.last;
        Ok(host)
    }

    /// What a list shows of the task.
    pub fn summary(&self) -> Value {
        summary(&self.state)
    }

    /// Whether the task may still go on by itself, so that `resume --all` and `list` look at it.
    pub fn is_open(&self) -> bool {
        !matches!(self.state.standing(), Standing::Finished { .. })
    }
}

/// The tasks that this process holds, each in a slot: a batch looks a task up once and then knows its place.
#[derive(Debug, Default)]
pub struct Hosts {
    places: BTreeMap<TaskId, usize>,
    slots: Vec<Option<Host>>,
    free: Vec<usize>,
}

impl Hosts {
    /// Adds a task.
    pub fn insert(&mut self, id: TaskId, host: Host) {
        self.remove(&id);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(host);
        self.places.insert(id, slot);
    }

    /// Takes a task out. Its slot may be given to another.
    pub fn remove(&mut self, id: &TaskId) -> Option<Host> {
        let slot = self.places.remove(id)?;
        self.free.push(slot);
        self.slots[slot].take()
    }

    /// The task and its slot.
    pub fn find(&mut self, id: &TaskId) -> Option<(usize, &mut Host)> {
        let slot = *self.places.get(id)?;
        Some((slot, self.slots[slot].as_mut()?))
    }

    /// The task in a slot.
    pub fn slot_mut(&mut self, slot: usize) -> Option<&mut Host> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The task.
    pub fn get(&self, id: &TaskId) -> Option<&Host> {
        self.slots[*self.places.get(id)?].as_ref()
    }

    /// All tasks, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&TaskId, &Host)> {
        self.places.iter().filter_map(|(id, slot)| Some((id, self.slots[*slot].as_ref()?)))
    }

    /// All tasks, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Host> {
        self.slots.iter_mut().flatten()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// An input as the journal keeps it.
pub fn encode(input: &Input) -> Vec<u8> {
    // Inputs are plain data with text keys: encoding them cannot fail.
    serde_json::to_vec(input).expect("an input is always encodable")
}

/// Reads back what `encode` made.
pub fn decode(body: &[u8]) -> Result<Input, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// The stable shape of `show --json` and `list --json`.
pub fn summary(state: &State) -> Value {
    let data = state.data();
    let standing = state.standing();
    let mut row = json!({
        "id": data.id,
        "goal": data.spec.goal,
        "driver": state.driver_name(),
        "turns": data.spend.turns,
        "spend": data.spend,
        "budget": data.budget,
        "criteria": data.spec.acceptance.len(),
        "paused": data.paused,
        "workspace": data.workspace.as_ref().and_then(|w| w.path.clone()),
        "workspace_kind": data.workspace.as_ref().map(|w| w.kind),
        "branch": data.workspace.as_ref().and_then(|w| w.branch.clone()),
        "started": data.started,
        "updated": data.clock,
        "records": data.inputs,
    });
    if let Some(contest) = &data.spec.contest {
        row["race"] = json!({
            "race": contest.name(),
            "number": contest.number(&data.id),
            "racers": contest.racers,
            "pick": contest.pick,
        });
    }
    if let Some(dispatch) = &data.spec.dispatch {
        row["dispatch"] = json!(dispatch);
    }
    if !data.children.is_empty() {
        row["children"] = json!(data.children);
    }
    if let Some(integrated) = &data.integrated {
        row["integrated"] = json!(integrated);
    }
    match standing {
        Standing::Finished { outcome, reason } => {
            row["outcome"] = json!(outcome.word());
            row["phase"] = json!("finished");
            row["exit_code"] = json!(outcome.exit_code());
            if let machine::state::Phase::Finished { cause: Some(cause), .. } = &data.phase {
                row["cause"] = json!(cause);
            }
            row["reason"] = json!(reason);
        }
        Standing::AwaitingPerson { asks } => {
            row["phase"] = json!("waiting");
            row["asks"] = json!(asks);
        }
        Standing::Paused => row["phase"] = json!("paused"),
        Standing::Working => {
            row["phase"] = json!(if data.attachment.is_some() { "working" } else { "idle" });
            if let Some(at) = data.retry_at {
                row["asked_again"] = json!(at);
            }
        }
    }
    row
}
