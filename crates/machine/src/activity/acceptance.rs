//! Done is a claim: criteria frozen at the start decide, and what failed goes back to the driver.

use crate::driver::Hand;
use crate::effect::Effect;
use crate::event::EventKind;
use crate::state::{Pending, Phase};
use crate::step::Step;
use crate::task::{Criterion, CriterionResult, Outcome};
use crate::verdict::{Place, Verdict};

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

    /// Keeps the tree that is handed over, then checks it. Without a git worktree there is nothing to keep. The worker's
    /// servers are stopped with it, so they are opened again before it goes on.
    pub(crate) fn check_claim(&mut self, summary: String) {
        self.state.data.tools_open = false;
        if self.is_kept() { self.freeze(summary) } else { self.verify(summary) }
    }

    pub(crate) fn verify(&mut self, summary: String) {
        let Some(workspace) = self.state.data.workspace.clone() else { return };
        let id = self.expect(Pending::Verify);
        let data = &self.state.data;
        self.output.effects.push(Effect::Verify {
            id,
            goal: data.spec.goal.clone(),
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
        let mut verdict = match verdict {
            Ok(verdict) => verdict,
            Err(reason) => {
                return self.finish(
                    Outcome::Failed,
                    format!("the criteria could not be checked: {reason}"),
                );
            }
        };
        let criteria = self.state.data.spec.criteria();
        for (place, result) in verdict.results.iter().enumerate() {
            if !matches!(criteria.get(place), Some(Criterion::Judge { .. })) {
                self.event(|| EventKind::CriterionChecked { result: result.clone() });
            }
        }
        if self.begin_judging(&summary, &mut verdict) {
            return;
        }
        self.settle_verdict(summary, &verdict);
    }

    /// Everything was checked and judged: the task ends, or its driver is told.
    pub(crate) fn settle_verdict(&mut self, summary: String, verdict: &Verdict) {
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
        let (outcome, reason) = self.proven(verdict, summary);
        if outcome == Outcome::Verified {
            self.note_proof(verdict);
        }
        self.finish(outcome, reason);
    }

    /// What a verdict without a failure proves. What was protected stayed so, and an opinion was heard: that alone
    /// proves nothing. Neither does a worker's claim over the very files that it was given, since the criteria held
    /// before it began.
    fn proven(&self, verdict: &Verdict, summary: String) -> (Outcome, String) {
        let data = &self.state.data;
        if !data.spec.acceptance.iter().any(Criterion::decides) {
            return (Outcome::Completed, summary);
        }
        let unchanged = verdict.place == Place::CleanCheckout
            && verdict.touched_total == 0
            && data.base.is_some();
        if !unchanged {
            return (Outcome::Verified, summary);
        }
        let before = if summary.is_empty() { String::new() } else { format!("{summary}; ") };
        match self.state.driver.hand() {
            Hand::Worker => (
                Outcome::Completed,
                format!(
                    "{before}nothing was changed: every criterion held before the task began, so nothing is proven"
                ),
            ),
            Hand::Written | Hand::Person => (
                Outcome::Verified,
                format!("{before}nothing was changed: every criterion holds as it is"),
            ),
        }
    }
}
