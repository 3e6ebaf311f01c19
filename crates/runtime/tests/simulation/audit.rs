//! The judge: folds what is durable on the disk, by a reader of its own, and holds everything that happens
//! against it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machine::agent::{AgentNews, AgentOrder, CONTINUE};
use machine::driver::Registry;
use machine::effect::Effect;
use machine::event::EventKind;
use machine::id::{CallId, EffectId, TaskId};
use machine::input::{Command, Input, Resolution, Signal, Stamped};
use machine::policy::gateway;
use machine::state::{CallStatus, Pending, Phase, SavedState, State};
use machine::task::Outcome;
use machine::time::Timestamp;
use machine::tool::{EffectClass, Status, ToolResult};
use machine::{Event, Output, step};
use runtime::host;

use crate::disk::{Kind, Line, batch_at};

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Check {
    /// What was acknowledged or shown is in the journal, and has its effect.
    NothingLost,
    /// No command counts twice; no call that cannot be repeated runs twice unless a person says so.
    NothingDoubled,
    /// What was refused has no effect.
    RefusedIsRefused,
    /// A cancelled task stays cancelled.
    NeverRevived,
    /// Every call has exactly one result.
    OneResult,
    /// A result is the one that the world gave for this very effect, or a person's word.
    TrueResult,
    /// An unsafe call caught by a crash is in doubt until a person resolves it.
    InDoubt,
    /// The fold of the records is the live state.
    Fold,
    /// Nothing begins before the record that causes it is durable.
    RecordFirst,
    /// Work that was stopped does nothing more.
    StoppedIsStopped,
    /// An owner that was fenced writes nothing and starts nothing.
    Fence,
    /// One sync for a commit, one commit for a batch.
    OneSync,
    /// Every task comes to an end once people have said all they are asked.
    ComesToAnEnd,
    /// It is the right end.
    RightOutcome,
    /// No more time is charged than passed.
    TimeWorked,
    /// The supervisor neither panics nor fails.
    Sound,
}

/// A check that did not hold.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    pub(crate) check: Check,
    pub(crate) what: String,
}

pub(crate) fn violation<T>(check: Check, what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { check, what: what.into() })
}

/// What the world reported for each effect.
pub(crate) type Reports = BTreeMap<(TaskId, EffectId), ToolResult>;

/// Everything durable, folded.
#[derive(Debug)]
pub(crate) struct Audit {
    registry: Arc<Registry>,
    pub(crate) tasks: BTreeMap<TaskId, TaskAudit>,
    /// How much of the file was read.
    offset: usize,
}

/// One task, as its durable records tell it.
#[derive(Debug)]
pub(crate) struct TaskAudit {
    pub(crate) state: State,
    pub(crate) owner: u64,
    pub(crate) records: u64,
    pub(crate) events: Vec<Event>,
    /// Commands by their JSON: how often recorded, how often taken.
    pub(crate) recorded: BTreeMap<String, (u64, u64)>,
    /// Effects that the records cause, and whether they were started.
    emitted: BTreeMap<EffectId, (Effect, bool)>,
    pub(crate) results: BTreeMap<CallId, u64>,
    pub(crate) retries: BTreeMap<CallId, u64>,
    /// Calls that a person let pass.
    approved: BTreeSet<CallId>,
    cancelled: bool,
    /// What agents' own calls are called by them.
    agent_calls: BTreeMap<CallId, String>,
    /// What agents and their gateways said that they spent, and what requests cost whose end nobody heard.
    spent: u64,
    /// Counts that came to that, each of them another one.
    counts: BTreeSet<u64>,
    /// The turn whose agent has heard what it was asked.
    heard: Option<EffectId>,
    /// Such a turn was cut off: the agent is to go on, and not to begin again.
    must_continue: bool,
    /// How often it did.
    pub(crate) continued: u64,
}

impl Audit {
    pub(crate) fn new(registry: Arc<Registry>) -> Audit {
        Audit { registry, tasks: BTreeMap::new(), offset: 0 }
    }

    /// Reads on to the end of what is durable.
    pub(crate) fn advance(&mut self, durable: &[u8], reports: &Reports) -> Result<(), Violation> {
        while let Some((lines, next)) = batch_at(durable, self.offset) {
            self.offset = next;
            for line in lines {
                self.take(line, reports)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, line: Line, reports: &Reports) -> Result<(), Violation> {
        let id = TaskId(line.task.clone());
        match line.kind {
            Kind::Created => {
                if self.tasks.contains_key(&id) {
                    return violation(Check::NothingDoubled, format!("task {id} was made twice"));
                }
                let task = TaskAudit::new(&id, line.owner, Arc::clone(&self.registry));
                self.tasks.insert(id, task);
                return Ok(());
            }
            Kind::Opened | Kind::Commit => return Ok(()),
            Kind::Claimed | Kind::Record | Kind::Snapshot | Kind::Summary => {}
        }
        let Some(task) = self.tasks.get_mut(&id) else {
            return violation(Check::Sound, format!("a line for the unknown task {id}"));
        };
        if line.kind == Kind::Claimed {
            task.owner = line.owner;
        } else if line.owner != task.owner {
            let (writer, owner) = (line.owner, task.owner);
            return violation(
                Check::Fence,
                format!("owner {writer} wrote to {id}, which owner {owner} holds"),
            );
        } else if line.kind == Kind::Record {
            return task.record(&line, reports);
        }
        Ok(())
    }

    /// Whether an owner may start an effect at this moment.
    pub(crate) fn on_start(
        &mut self,
        id: &TaskId,
        owner: u64,
        effect: &Effect,
    ) -> Result<(), Violation> {
        let number = effect.id().0;
        let Some(task) = self.tasks.get_mut(id) else {
            return violation(
                Check::RecordFirst,
                format!("effect {number} of {id}, which is not on disk"),
            );
        };
        if task.owner != owner {
            let holder = task.owner;
            return violation(
                Check::Fence,
                format!("owner {owner} starts effect {number} of {id}, held by {holder}"),
            );
        }
        match task.emitted.get_mut(&effect.id()) {
            Some((caused, started)) if caused == effect => {
                if std::mem::replace(started, true) {
                    return violation(
                        Check::NothingDoubled,
                        format!("effect {number} of {id} starts again"),
                    );
                }
            }
            _ => {
                return violation(
                    Check::RecordFirst,
                    format!("no durable record causes effect {number} of {id}"),
                );
            }
        }
        // What an agent is told has no report.
        let is_reported = !matches!(
            effect,
            Effect::TellAgent { .. } | Effect::LetAsk { .. } | Effect::DismissAgents { .. }
        );
        if is_reported && !task.state.data().pending.contains_key(&effect.id()) {
            return violation(
                Check::StoppedIsStopped,
                format!("effect {number} of {id} starts though it was stopped"),
            );
        }
        Ok(())
    }
}

/// What a call looked like before a step.
struct Before {
    running_unsafe: Vec<CallId>,
    in_doubt: Vec<CallId>,
}

impl TaskAudit {
    fn new(id: &TaskId, owner: u64, registry: Arc<Registry>) -> TaskAudit {
        TaskAudit {
            state: State::new(id.clone(), registry),
            owner,
            records: 0,
            events: Vec::new(),
            recorded: BTreeMap::new(),
            emitted: BTreeMap::new(),
            results: BTreeMap::new(),
            retries: BTreeMap::new(),
            approved: BTreeSet::new(),
            cancelled: false,
            agent_calls: BTreeMap::new(),
            spent: 0,
            counts: BTreeSet::new(),
            heard: None,
            must_continue: false,
            continued: 0,
        }
    }

    pub(crate) fn saved(&self) -> SavedState {
        self.state.save()
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match &self.state.data().phase {
            Phase::Finished { outcome, .. } => Some(*outcome),
            _ => None,
        }
    }

    fn record(&mut self, line: &Line, reports: &Reports) -> Result<(), Violation> {
        if line.n != self.records + 1 {
            return violation(Check::Fold, format!("record {} follows {}", line.n, self.records));
        }
        self.records = line.n;
        let input = match host::decode(&line.body) {
            Ok(input) => input,
            Err(reason) => return violation(Check::Sound, format!("record {}: {reason}", line.n)),
        };
        let before = self.before();
        self.check_report(&input, reports)?;
        self.count_lost(&input);
        let output =
            step(&mut self.state, Stamped { time: Timestamp(line.time), input: input.clone() });
        if let Input::Command(_) = &input {
            let counts = self.recorded.entry(key(&input)).or_default();
            counts.0 += 1;
            counts.1 += u64::from(output.rejected.is_none());
        }
        self.check_agent(&input, &output)?;
        self.check_results(&input, &output)?;
        self.check_doubt(&input, &before, &output)?;
        self.check_deadline()?;
        self.check_cancelled(&output)?;
        for effect in output.effects {
            if !matches!(effect, Effect::Cancel { .. } | Effect::SetTimer { .. }) {
                self.emitted.insert(effect.id(), (effect, false));
            }
        }
        self.events.extend(output.events);
        Ok(())
    }

    fn before(&self) -> Before {
        let calls = &self.state.data().calls;
        // What an agent ran itself is gone with it, and the agent is told to look.
        let unsafe_running = |call: &&machine::state::Call| {
            call.class == EffectClass::Unsafe
                && call.agent.is_none()
                && matches!(call.status, CallStatus::Running { .. })
        };
        Before {
            running_unsafe: calls.iter().filter(unsafe_running).map(|call| call.id).collect(),
            in_doubt: calls
                .iter()
                .filter(|c| c.status == CallStatus::InDoubt)
                .map(|c| c.id)
                .collect(),
        }
    }

    /// A report that counts must be the world's own, for this effect.
    fn check_report(&self, input: &Input, reports: &Reports) -> Result<(), Violation> {
        let Input::ToolEnded(id, result) = input else { return Ok(()) };
        let task = self.state.id();
        if !self.state.data().pending.contains_key(id)
            || reports.get(&(task.clone(), *id)) == Some(result)
        {
            return Ok(());
        }
        violation(
            Check::TrueResult,
            format!("effect {} of {task} is said to have ended with {:?}", id.0, result.text),
        )
    }

    /// Each call gets one result; a success needs the world's or a person's word for this very call.
    fn check_results(&mut self, input: &Input, output: &Output) -> Result<(), Violation> {
        let id = self.state.id().clone();
        for event in &output.events {
            match &event.kind {
                EventKind::ToolEnded { call, result, .. } => {
                    let times = self.results.entry(*call).or_default();
                    *times += 1;
                    if *times > 1 {
                        return violation(
                            Check::OneResult,
                            format!("{call} of {id} has {times} results"),
                        );
                    }
                    if result.status == Status::Ok && !self.vouches(input, *call) {
                        return violation(
                            Check::TrueResult,
                            format!("{call} of {id} ended well, but who says so?"),
                        );
                    }
                }
                EventKind::ApprovalDecided { call, allowed: true, .. } => {
                    self.approved.insert(*call);
                }
                EventKind::ApprovalRequested { call, .. } if self.approved.contains(call) => {
                    return violation(
                        Check::NothingLost,
                        format!("{call} of {id} was let pass and is asked about again"),
                    );
                }
                EventKind::CallResolved { call, how } if how == "retry" => {
                    *self.retries.entry(*call).or_default() += 1;
                }
                _ => {}
            }
        }
        self.check_calls()
    }

    /// A call that is not open has a result; an effect that is outstanding belongs to a call that runs.
    fn check_calls(&self) -> Result<(), Violation> {
        let id = self.state.id();
        let data = self.state.data();
        for number in 1..=data.last_call {
            let call = CallId(number);
            let open = data.calls.iter().any(|open| open.id == call);
            if !open && !self.results.contains_key(&call) {
                return violation(
                    Check::OneResult,
                    format!("{call} of {id} vanished without a result"),
                );
            }
        }
        for (effect, pending) in &data.pending {
            let Pending::Call(call) = pending else { continue };
            let runs = CallStatus::Running { effect: *effect };
            if !data.calls.iter().any(|open| open.id == *call && open.status == runs) {
                return violation(
                    Check::StoppedIsStopped,
                    format!("effect {} of {id} goes on, but {call} does not run", effect.0),
                );
            }
        }
        Ok(())
    }

    fn vouches(&self, input: &Input, call: CallId) -> bool {
        match input {
            Input::ToolEnded(id, _) => matches!(
                self.emitted.get(id),
                Some((Effect::RunTool { call: caused, .. }, _)) if caused.call == call
            ),
            Input::Command(Command::Answer { call: asked, .. }) => *asked == call,
            Input::Command(Command::Resolve { call: asked, how: Resolution::Did }) => {
                *asked == call
            }
            Input::Signal(Signal::AgentSaid(_, AgentNews::ToolEnded { id, .. })) => {
                self.agent_calls.get(&call).is_some_and(|known| **known == **id)
            }
            Input::Command(_) | Input::Signal(_) => false,
        }
    }

    /// Requests whose end nobody will hear are paid for by their size.
    fn count_lost(&mut self, input: &Input) {
        let data = self.state.data();
        let lost = match input {
            Input::Signal(Signal::OwnerLost) => true,
            Input::Command(Command::Detach { .. }) => data.attachment.is_some(),
            _ => false,
        };
        if lost {
            self.spent += data.asked.values().map(|bytes| gateway::lost(*bytes)).sum::<u64>();
        }
    }

    /// What an agent spent is counted once, and an agent that has heard what it was asked is not asked again.
    fn check_agent(&mut self, input: &Input, output: &Output) -> Result<(), Violation> {
        let id = self.state.id().clone();
        for call in &self.state.data().calls {
            if let Some(side) = &call.agent {
                self.agent_calls.insert(call.id, side.id.clone());
            }
        }
        let dropped = |event: &Event| matches!(event.kind, EventKind::SignalDropped { .. });
        let counts = !output.events.iter().any(dropped);
        match input {
            Input::Signal(Signal::AgentSaid(
                _,
                AgentNews::Spent { usage, .. } | AgentNews::Passed { usage, .. },
            )) if counts => {
                self.spent += usage.total();
                if usage.total() > 0 && !self.counts.insert(usage.total()) {
                    return violation(
                        Check::NothingDoubled,
                        format!("{} tokens of {id} are counted twice", usage.total()),
                    );
                }
            }
            Input::Signal(Signal::AgentSaid(turn, AgentNews::Taken { .. })) if counts => {
                self.heard = Some(*turn);
            }
            Input::Signal(Signal::AgentEnded(turn, _)) if self.heard == Some(*turn) => {
                self.heard = None;
            }
            Input::Signal(Signal::OwnerLost) | Input::Command(Command::Detach { .. }) => {
                self.must_continue |= self.heard.take().is_some();
            }
            // Whoever steps in may want something else.
            Input::Command(Command::Attach { .. } | Command::Resume | Command::Pause) => {}
            Input::Command(_) if output.rejected.is_none() => {
                (self.heard, self.must_continue) = (None, false);
            }
            _ => {}
        }
        for effect in &output.effects {
            let Effect::AskAgent { call, .. } = effect else { continue };
            if std::mem::take(&mut self.must_continue) {
                self.continued += 1;
                if !call.prompt.starts_with(CONTINUE) {
                    return violation(
                        Check::NothingDoubled,
                        format!("the agent of {id} had heard what it is asked: {:?}", call.prompt),
                    );
                }
            }
        }
        if self.state.data().spend.tokens != self.spent && self.is_agents() {
            let (said, spent) = (self.spent, self.state.data().spend.tokens);
            return violation(
                Check::NothingDoubled,
                format!("{id} spent {said} tokens, and {spent} are counted"),
            );
        }
        Ok(())
    }

    /// Whether nobody but agents spends anything: it was never handed over to a model.
    fn is_agents(&self) -> bool {
        let asks = |event: &Event| matches!(event.kind, EventKind::ModelCalled { .. });
        self.state.data().spec.driver.name == "agent" && !self.events.iter().any(asks)
    }

    /// Losing the owner puts running unsafe calls in doubt. Only a person's word takes them out of it; a task
    /// that goes on or ends over one has in doubt as the call's result.
    fn check_doubt(
        &self,
        input: &Input,
        before: &Before,
        output: &Output,
    ) -> Result<(), Violation> {
        let id = self.state.id();
        let data = self.state.data();
        let status =
            |call: CallId| data.calls.iter().find(|open| open.id == call).map(|open| &open.status);
        let lost = matches!(
            input,
            Input::Signal(Signal::OwnerLost) | Input::Command(Command::Detach { .. })
        );
        for call in before.running_unsafe.iter().filter(|_| lost) {
            if status(*call) != Some(&CallStatus::InDoubt) {
                return violation(
                    Check::InDoubt,
                    format!("{call} of {id} ran when its owner was lost, and is not in doubt"),
                );
            }
        }
        let resolved = match input {
            Input::Command(Command::Resolve { call, .. }) => Some(*call),
            _ => None,
        };
        let named = |asked: CallId| {
            output.events.iter().any(|event| {
                matches!(&event.kind, EventKind::ToolEnded { call, result, .. }
                    if *call == asked && result.status == Status::InDoubt)
            })
        };
        for call in before.in_doubt.iter().filter(|call| Some(**call) != resolved) {
            if status(*call) != Some(&CallStatus::InDoubt) && !named(*call) {
                return violation(
                    Check::InDoubt,
                    format!("{call} of {id} was in doubt, and nobody resolved it"),
                );
            }
        }
        Ok(())
    }

    /// A task that may run out of time has a timer that says when, whoever drives it.
    fn check_deadline(&self) -> Result<(), Violation> {
        let data = self.state.data();
        let left = data.budget.max_time.is_some_and(|limit| data.spend.millis < limit.0);
        let driven = data.attachment.is_some() && !data.paused && self.outcome().is_none();
        if left && driven && !data.pending.values().any(|pending| *pending == Pending::Deadline) {
            let what = format!("{} has a time limit but no timer", self.state.id());
            return violation(Check::ComesToAnEnd, what);
        }
        Ok(())
    }

    fn check_cancelled(&mut self, output: &Output) -> Result<(), Violation> {
        let now = self.outcome() == Some(Outcome::Cancelled);
        // Whoever still asks is told no.
        let begins = output.effects.iter().any(|effect| match effect {
            Effect::Cancel { .. } | Effect::LetAsk { may: Err(_), .. } => false,
            Effect::TellAgent { order, .. } => !matches!(
                order,
                AgentOrder::Answer { may: Err(_), .. } | AgentOrder::ToolResult { .. }
            ),
            _ => true,
        });
        if self.cancelled && (!now || begins) {
            return violation(
                Check::NeverRevived,
                format!("{} was cancelled and goes on", self.state.id()),
            );
        }
        self.cancelled = now;
        Ok(())
    }

    /// How often a command was recorded and how often it was taken.
    pub(crate) fn counts(&self, key: &str) -> (u64, u64) {
        self.recorded.get(key).copied().unwrap_or_default()
    }

    /// The effects that the task waits for, timers apart.
    pub(crate) fn outstanding(&self) -> Vec<EffectId> {
        let timer = |pending: &Pending| {
            matches!(pending, Pending::Alarm | Pending::Deadline | Pending::DeciderTimer(_))
        };
        self.state.data().pending.iter().filter(|(_, p)| !timer(p)).map(|(id, _)| *id).collect()
    }
}

/// A command's identity: its JSON.
pub(crate) fn key(input: &Input) -> String {
    serde_json::to_string(input).unwrap_or_default()
}
