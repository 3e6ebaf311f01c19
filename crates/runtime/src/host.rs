//! Owns one task's state: encodes its inputs, folds its records, knows when to snapshot. Decides nothing.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use journal::Loaded;
use machine::cause::Cause;
use machine::driver::Registry;
use machine::id::TaskId;
use machine::input::Stamped;
use machine::policy::budget::{Budget, Spend};
use machine::state::{Ask, Phase, SavedState, Standing, State};
use machine::stream::Endings;
use machine::task::WorkspaceKind;
use machine::time::Timestamp;
use machine::{Input, Output, step};
use serde::Serialize;
use serde_json::{Value, json};

use crate::world::panic_text;

/// The fewest records between two snapshots; [`Pace`] says when there are more.
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
    /// How it stands with its snapshots.
    pub pace: Pace,
    /// What its events add to its live stream.
    pub endings: Endings,
}

/// When a task's state is worth writing again: after so many records, and not before these are as many bytes as what is
/// written for them. A state that holds ten thousand steps is as long as all that it does, so writing it each time would
/// be most of what the disk gets, and reading it costs as much as folding the records that it stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// The number of the record that the last snapshot includes.
    pub at: u64,
    /// How long the last snapshot is; before the first, how long the record is that says what the task was started with,
    /// since that is most of what a snapshot holds.
    size: usize,
    /// How long the records after it are.
    since: usize,
}

impl Pace {
    /// A record was written or read.
    pub fn recorded(&mut self, n: u64, bytes: usize) {
        if n == 1 {
            self.size = bytes;
        } else {
            self.since += bytes;
        }
    }

    /// A snapshot that includes record `n` was written or read.
    pub fn saved(&mut self, n: u64, bytes: usize) {
        *self = Pace { at: n, size: bytes, since: 0 };
    }

    /// Whether a snapshot after record `last` is worth its bytes.
    pub fn is_due(&self, last: u64) -> bool {
        last >= self.at + SNAPSHOT_EVERY && self.since >= self.size
    }
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
    /// A record that this version takes and breaks over.
    #[error("record {n} of task {task} cannot be folded, which is a bug of drivetrain: {reason}")]
    Broken {
        /// The task.
        task: TaskId,
        /// Which record.
        n: u64,
        /// The words of the panic.
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
        Host { state, last: 0, numbered: 0, pace: Pace::default(), endings }
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
            host.pace.saved(snapshot.n, snapshot.body.len());
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
            let input = decode(&record.body).map_err(|reason| wrong(newer(reason)))?;
            let stamped = Stamped { time: Timestamp(record.time), input };
            // One task that breaks the machine must not hide the others. Its half-made state is dropped here.
            let output = catch_unwind(AssertUnwindSafe(|| step(&mut host.state, stamped)));
            each(output.map_err(|panic| FoldError::Broken {
                task: task.clone(),
                n: record.n,
                reason: panic_text(&*panic),
            })?);
            host.last = record.n;
            host.pace.recorded(record.n, record.body.len());
        }
        host.state.set_quiet(false);
        host.numbered = host.last;
        Ok(host)
    }

    /// What a list shows of the task, as JSON.
    pub fn summary(&self) -> String {
        // Plain data with text keys: encoding it cannot fail.
        serde_json::to_string(&shown(&self.state)).expect("a summary is always encodable")
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

/// What a body means that cannot be read, though its chain is whole: an input that is not known here is no damage.
fn newer(reason: String) -> String {
    match reason.starts_with("unknown variant") {
        true => format!("it was probably written by a newer drivetrain ({reason})"),
        false => reason,
    }
}

/// The stable shape of `show --json` and `list --json`, fields by name.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_again: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<Vec<Ask>>,
    branch: Option<&'a str>,
    budget: &'a Budget,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'a Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Value>,
    criteria: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatch: Option<Value>,
    driver: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    goal: &'a str,
    id: &'a TaskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    integrated: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    paused: bool,
    phase: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    race: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    records: u64,
    spend: &'a Spend,
    started: Timestamp,
    turns: u64,
    updated: Timestamp,
    workspace: Option<&'a str>,
    workspace_kind: Option<WorkspaceKind>,
}
/// What a list shows of a task; see [`Host::summary`].
pub fn summary(state: &State) -> Value {
    // Plain data with text keys: encoding it cannot fail.
    serde_json::to_value(shown(state)).expect("a summary is always encodable")
}

fn shown(state: &State) -> Summary<'_> {
    let data = state.data();
    let workspace = data.workspace.as_ref();
    let race = data.spec.contest.as_ref().map(|contest| {
        json!({
            "race": contest.name(),
            "number": contest.number(&data.id),
            "racers": contest.racers,
            "pick": contest.pick,
        })
    });
    let mut shown = Summary {
        agent: state.driver_spec().agent().map(str::to_owned),
        asked_again: None,
        asks: None,
        branch: workspace.and_then(|workspace| workspace.branch.as_deref()),
        budget: &data.budget,
        cause: None,
        children: (!data.children.is_empty()).then(|| json!(data.children)),
        criteria: data.spec.criteria().len(),
        dispatch: data.spec.dispatch.as_ref().map(|dispatch| json!(dispatch)),
        driver: state.driver_name(),
        exit_code: None,
        goal: &data.spec.goal,
        id: &data.id,
        integrated: data.integrated.as_ref().map(|integrated| json!(integrated)),
        outcome: None,
        paused: data.paused,
        phase: "",
        race,
        reason: None,
        records: data.inputs,
        spend: &data.spend,
        started: data.started,
        turns: data.spend.turns,
        updated: data.clock,
        workspace: workspace.and_then(|workspace| workspace.path.as_deref()),
        workspace_kind: workspace.map(|workspace| workspace.kind),
    };
    match state.standing() {
        Standing::Finished { outcome, reason } => {
            shown.phase = "finished";
            shown.outcome = Some(outcome.word());
            shown.exit_code = Some(outcome.exit_code());
            if let Phase::Finished { cause, .. } = &data.phase {
                shown.cause = cause.as_ref();
            }
            shown.reason = Some(reason);
        }
        Standing::AwaitingPerson { asks } => {
            shown.phase = "waiting";
            shown.asks = Some(asks);
        }
        Standing::Paused => shown.phase = "paused",
        Standing::Working => {
            shown.phase = if data.attachment.is_some() { "working" } else { "idle" };
            shown.asked_again = data.retry_at.map(|at| data.by_the_clock(at));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use journal::Record;
    use machine::driver::{Decision, Driver, DriverKind, Fact, Situation};
    use machine::id::EffectId;
    use machine::task::{DriverSpec, TaskSpec, Workspace, WorkspaceSpec};
    use machine::{Command, Signal};

    use super::*;

    /// A kind of driver that breaks the machine as soon as it is asked.
    #[derive(Debug)]
    struct Bug;

    impl DriverKind for Bug {
        fn name(&self) -> &str {
            "bug"
        }

        fn version(&self) -> u32 {
            1
        }

        fn create(&self, _: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
            Ok(Box::new(Bug))
        }

        fn load(&self, _: &Value, _: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
            Ok(Box::new(Bug))
        }
    }

    impl Driver for Bug {
        fn decide(&mut self, _: &Situation<'_>) -> Decision {
            panic!("a place that is not there")
        }

        fn observe(&mut self, _: &Situation<'_>, _: &Fact<'_>) {}

        fn save(&self) -> Value {
            Value::Null
        }
    }

    #[test]
    fn a_task_that_breaks_the_machine_is_an_error_with_its_name() {
        let mut registry = Registry::builtin();
        registry.register(Arc::new(Bug));
        let spec = TaskSpec::new("a goal", DriverSpec::new("bug", Value::Null), "/project");
        let none = WorkspaceSpec { kind: Some(WorkspaceKind::None), ..WorkspaceSpec::default() };
        let opened = Workspace { kind: WorkspaceKind::None, path: None, branch: None, base: None };
        let inputs: [Input; 3] = [
            Command::Start(Box::new(TaskSpec { workspace: none, ..spec })).into(),
            Command::Attach { owner: 1, attended: false }.into(),
            Signal::WorkspaceOpened(EffectId(1), Ok(opened)).into(),
        ];
        let records = (1..).zip(&inputs).map(|(n, input)| Record {
            n,
            time: 1000,
            version: machine::MACHINE_VERSION,
            body: encode(input),
        });
        let loaded = Loaded { snapshot: None, records: records.collect() };
        let task = TaskId("t1".to_owned());
        let error = Host::fold(&task, &loaded, Arc::new(registry), true, drop).unwrap_err();
        insta::assert_snapshot!(error, @"record 3 of task t1 cannot be folded, which is a bug of drivetrain: a place that is not there");
    }

    /// What is written in snapshots beside so many records of a size, for a state of this size and growth.
    fn snapshots(records: u64, record: usize, first: usize, grows: usize) -> usize {
        let (mut pace, mut written) = (Pace::default(), 0);
        pace.recorded(1, first);
        for n in 2..=records {
            pace.recorded(n, record);
            if pace.is_due(n) {
                let size = first + grows * n as usize;
                pace.saved(n, size);
                written += size;
            }
        }
        written
    }

    #[test]
    fn snapshots_are_never_more_than_a_few_times_the_records() {
        for (first, grows) in [(1_000, 0), (3_000_000, 0), (100, 100), (1_000, 300)] {
            let written = snapshots(50_000, 300, first, grows);
            let records = first + 50_000 * 300;
            assert!(written <= 3 * records, "{first} {grows}: {written} beside {records}");
            assert!(written > 0, "{first} {grows}: there are some");
        }
    }

    #[test]
    fn a_state_that_stays_small_is_saved_every_thousand_records() {
        assert_eq!(snapshots(10_000, 300, 1_000, 0), 10 * 1_000);
    }

    #[test]
    fn how_far_it_came_is_known_after_a_resume() {
        let mut pace = Pace::default();
        pace.saved(5_000, 1_000_000);
        for n in 5_001..=8_000 {
            pace.recorded(n, 300);
        }
        assert!(!pace.is_due(8_000), "nine hundred thousand bytes for a million");
        for n in 8_001..=8_400 {
            pace.recorded(n, 300);
        }
        assert!(pace.is_due(8_400));
    }
}
