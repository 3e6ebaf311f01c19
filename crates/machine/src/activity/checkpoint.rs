//! Checkpoints: the workspace is kept before anything changes it, before turns of a worker that may change it, and when
//! it is handed over. What was kept is what a claim is compared with and what a task can go back to.
//!
//! Only a worktree is kept. A task in place gives that up: there is no base to compare with, nothing to go back to, and
//! its claims are checked where the worker worked.

use crate::agent::AgentCall;
use crate::cause::{Cause, Surroundings};
use crate::driver::{Consultation, Hand, Note, NoteKind};
use crate::effect::{Effect, Worker};
use crate::event::EventKind;
use crate::policy::permission::Author;
use crate::state::{CallStatus, Pending, Phase};
use crate::step::Step;
use crate::task::{Checkpoints, CriterionResult, Outcome, WorkspaceKind};
use crate::tool::EffectClass;
use crate::verdict::Checkpoint;

impl Step<'_> {
    /// Whether the workspace is to be kept before the first decision: there is something to be proven, or somebody
    /// decides whom nobody has read beforehand. Steps that were written down and prove nothing need no way back.
    pub(crate) fn wants_base(&self) -> bool {
        let data = &self.state.data;
        if data.base.is_some() || data.spend.turns > 0 || !self.is_kept() {
            return false;
        }
        !data.spec.criteria().is_empty()
            || data.spec.workspace.checkpoints == Some(Checkpoints::Turns)
            || self.state.driver.hand() != Hand::Written
    }

    pub(crate) fn keep_base(&mut self) {
        self.keep("start".to_owned(), Worker::Stays);
        self.state.data.phase = Phase::KeepingBase;
    }

    /// Whether a call has to wait until the workspace is kept. The first of a turn that may change something asks for
    /// it; the others of the turn wait with it.
    pub(crate) fn waits_for_checkpoint(&mut self, index: usize) -> bool {
        let data = &self.state.data;
        let call = &data.calls[index];
        let wanted = match data.spec.workspace.checkpoints {
            Some(Checkpoints::Claims) => false,
            Some(Checkpoints::Turns) => true,
            None => call.action.author == Author::Worker,
        };
        if !wanted || data.turn_kept || call.class == EffectClass::Pure || !self.is_kept() {
            return false;
        }
        if data.pending.values().any(|pending| *pending == Pending::Checkpoint) {
            return true;
        }
        let running = data.calls.iter().any(|call| {
            call.class != EffectClass::Pure && matches!(call.status, CallStatus::Running { .. })
        });
        // Between the writes of another branch there is no state worth keeping.
        if running || self.is_unchanged() {
            self.state.data.turn_kept = true;
            return false;
        }
        let turn = self.state.data.spend.turns;
        self.keep(format!("before turn {turn}"), Worker::Stays);
        true
    }

    /// Asks an agent for a turn. It works with tools of its own, so the workspace is kept before.
    pub(crate) fn ask_agent_once_kept(&mut self, call: AgentCall) {
        let data = &self.state.data;
        let wanted = data.spec.workspace.checkpoints != Some(Checkpoints::Claims);
        if wanted && self.is_kept() && !self.is_unchanged() {
            let turn = data.spend.turns;
            self.state.data.turn_kept = false;
            // Whatever it had to wait for is over; it waits for this now.
            self.state.data.retry_at = None;
            return self.keep(format!("before turn {turn}"), Worker::Stays);
        }
        self.note_change();
        self.state.data.turn_kept = true;
        self.ask_agent(call);
    }

    /// From here on nobody knows whether the workspace is still as it was kept.
    pub(crate) fn note_change(&mut self) {
        self.state.data.unchanged_since = None;
    }

    /// Freezes what is handed over; the claim is checked after.
    pub(crate) fn freeze(&mut self, summary: String) {
        // One that is being made for a turn that is over says nothing about what is handed over.
        self.stop(|pending| *pending == Pending::Checkpoint);
        self.keep("handed over".to_owned(), Worker::Stops);
        self.state.data.phase = Phase::Checkpointing { summary };
    }

    fn keep(&mut self, reason: String, worker: Worker) {
        let workspace = self.workspace();
        let id = self.expect(Pending::Checkpoint);
        self.output.effects.push(Effect::Checkpoint { id, workspace, reason, worker });
    }

    /// Whether the workspace is of a kind that is kept.
    pub(crate) fn is_kept(&self) -> bool {
        let workspace = self.state.data.workspace.as_ref();
        workspace.is_some_and(|workspace| workspace.kind == WorkspaceKind::Worktree)
    }

    /// Whether the workspace is certainly as it was last kept. Servers work on their own.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.state.data.unchanged_since.is_some() && self.state.data.spec.servers.is_empty()
    }

    pub(crate) fn on_checkpointed(&mut self, made: Result<Checkpoint, String>) {
        let checkpoint = match made {
            Ok(checkpoint) => checkpoint,
            Err(reason) => {
                let reason = format!("the workspace cannot be kept: {reason}");
                let cause = Cause::Environment { part: Surroundings::Checkpoint };
                return self.finish_because(Outcome::Failed, reason, Some(cause));
            }
        };
        self.event(|| EventKind::Checkpointed { checkpoint: checkpoint.name.clone() });
        let data = &mut self.state.data;
        data.unkeepable = None;
        data.unchanged_since = Some(checkpoint.name.clone());
        data.last_kept = Some(checkpoint.name.clone());
        match data.phase.clone() {
            Phase::KeepingBase => {
                data.base = Some(checkpoint);
                data.phase = Phase::Ready;
            }
            Phase::Checkpointing { summary } => {
                data.frozen = Some(checkpoint);
                data.phase = Phase::Verifying { summary };
            }
            // What waited for the checkpoint of a turn begins once the task may move.
            _ => data.turn_kept = true,
        }
    }

    /// The workspace holds something that cannot be kept. That ends a task in which nobody has worked yet, and one that hands over
    /// what nobody can take back. A worker goes on without a way back: it is told, and what it hands over is refused, until
    /// that is gone.
    pub(crate) fn on_unkeepable(&mut self, why: String) {
        let is_written = self.state.driver.hand() == Hand::Written;
        let is_claim = match self.state.data.phase {
            Phase::KeepingBase => return self.on_checkpointed(Err(why)),
            Phase::Checkpointing { .. } if is_written => return self.on_checkpointed(Err(why)),
            Phase::Checkpointing { .. } => true,
            _ => false,
        };
        let is_news = self.state.data.unkeepable.as_ref() != Some(&why);
        self.state.data.unkeepable = Some(why.clone());
        self.event(|| EventKind::Unkept { reason: why.clone() });
        if is_claim {
            self.state.data.frozen = None;
            let title = "everything in the workspace can be kept".to_owned();
            let result = CriterionResult { title, evidence: why, ..CriterionResult::default() };
            self.event(|| EventKind::CriterionChecked { result: result.clone() });
            return self.on_verdict_failed(&[result]);
        }
        if is_news && !is_written {
            let text = format!(
                "The state of your workspace could not be kept, so there is no way back to it, and it cannot be handed over \
                 as it is: {why}"
            );
            self.state.data.notes.push_back(Note { kind: NoteKind::Steer, text });
        }
        self.state.data.turn_kept = true;
    }

    /// Asks the agent that waited for a checkpoint.
    pub(crate) fn ask_agent_that_waits(&mut self) {
        let data = &self.state.data;
        let is_held = |pending: &Pending| {
            matches!(pending, Pending::Agent | Pending::Checkpoint | Pending::Retry)
        };
        let is_due = data.turn_kept && data.calls.is_empty() && data.retry_at.is_none();
        if let Phase::Consulting { request: Consultation::Agent(call) } = &data.phase
            && is_due
            && !data.pending.values().any(is_held)
        {
            let call = AgentCall::clone(call);
            self.note_change();
            self.ask_agent(call);
        }
    }
}
