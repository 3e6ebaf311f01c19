//! Done is a claim: criteria frozen at the start decide, and what failed goes back to the driver.

use crate::effect::Effect;
use crate::event::EventKind;
use crate::state::{Pending, Phase};
use crate::step::Step;
use crate::task::{CriterionResult, Outcome, WorkspaceKind};
use crate::verdict::{Checkpoint, Verdict};

impl Step<'_> {
    pub(crate) fn on_claim(&mut self, summary: String) {
        if self.has_more_to_say() {
            return;
        }
        let said = summary.clone();
        self.event(|| EventKind::Claimed { summary: said });
        if self.state.data.spec.criteria().is_empty() {
            return self.finish(Outcome::Completed, summary);
        }
        self.check_claim(summary);
    }

    /// Whether notes wait for a driver that would be finished: it is asked again, with them in mind.
    fn has_more_to_say(&mut self) -> bool {
        let data = &mut self.state.data;
        data.notes.append(&mut data.follow_ups);
        !data.notes.is_empty()
    }

    /// Keeps the tree that is handed over, then checks it. Without a git worktree there is nothing to keep.
    pub(crate) fn check_claim(&mut self, summary: String) {
        match self.state.data.workspace.clone() {
            Some(workspace) if workspace.kind == WorkspaceKind::Worktree => {
                let id = self.expect(Pending::Checkpoint);
                let reason = "handed over".to_owned();
                self.output.effects.push(Effect::Checkpoint { id, workspace, reason });
                self.state.data.phase = Phase::Checkpointing { summary };
            }
            _ => self.verify(summary),
        }
    }

    pub(crate) fn on_checkpointed(&mut self, made: Result<Checkpoint, String>) {
        let Phase::Checkpointing { summary } = self.state.data.phase.clone() else { return };
        match made {
            Ok(checkpoint) => {
                self.event(|| EventKind::Checkpointed { checkpoint: checkpoint.name.clone() });
                self.state.data.frozen = Some(checkpoint);
                self.verify(summary);
            }
            Err(reason) => {
                self.finish(Outcome::Failed, format!("the workspace cannot be kept: {reason}"))
            }
        }
    }

    fn verify(&mut self, summary: String) {
        let Some(workspace) = self.state.data.workspace.clone() else { return };
        let id = self.expect(Pending::Verify);
        let data = &self.state.data;
        self.output.effects.push(Effect::Verify {
            id,
            criteria: data.spec.criteria(),
            workspace,
            spec: data.spec.workspace.clone(),
            folder: data.spec.folder.clone(),
            base: data.base.clone(),
            frozen: data.frozen.clone(),
            sandbox: data.spec.sandbox.clone(),
        });
        self.state.data.phase = Phase::Verifying { summary };
    }

    pub(crate) fn on_verified(&mut self, verdict: Result<Verdict, String>) {
        let summary = match &self.state.data.phase {
            Phase::Verifying { summary } => summary.clone(),
            _ => String::new(),
        };
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(reason) => {
                return self.finish(
                    Outcome::Failed,
                    format!("the criteria could not be checked: {reason}"),
                );
            }
        };
        for result in &verdict.results {
            self.event(|| EventKind::CriterionChecked { result: result.clone() });
        }
        // A verdict over fewer criteria than were frozen proves nothing.
        let complete = verdict.results.len() == self.state.data.spec.criteria().len();
        if !complete || verdict.results.iter().any(CriterionResult::fails) {
            return self.on_verdict_failed(&verdict.results);
        }
        if self.has_more_to_say() {
            // It was said while the claim was checked.
            self.state.data.phase = Phase::Ready;
            return;
        }
        // What was protected stayed so; that alone proves nothing.
        let proven = !self.state.data.spec.acceptance.is_empty();
        if proven {
            self.note_proof(&verdict);
        }
        self.finish(if proven { Outcome::Verified } else { Outcome::Completed }, summary);
    }
}
