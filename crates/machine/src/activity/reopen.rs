//! What becomes of a proven task: its change is taken into a branch, or does not hold there and comes back.

use crate::contest::Proof;
use crate::driver::{Fact, Note, NoteKind};
use crate::event::EventKind;
use crate::queue::{Integration, Rebase};
use crate::state::Phase;
use crate::step::Step;
use crate::task::{CriterionResult, Outcome};
use crate::verdict::{Checkpoint, Verdict};

impl Step<'_> {
    /// The task is about to end as verified. The first time counts in a race.
    pub(crate) fn note_proof(&mut self, verdict: &Verdict) {
        let (at, diff_lines) = (self.clock, verdict.diff_lines);
        self.state.data.proof.get_or_insert(Proof { at, diff_lines });
    }

    pub(crate) fn on_reopen(
        &mut self,
        reason: String,
        results: &[CriterionResult],
        rebase: Option<Rebase>,
    ) {
        if let Err(reason) = self.is_settled() {
            return self.reject(reason);
        }
        if !results.iter().any(CriterionResult::fails) {
            return self.reject("a task is reopened with what failed, and nothing did");
        }
        self.event(|| EventKind::Reopened { reason });
        for result in results {
            self.event(|| EventKind::CriterionChecked { result: result.clone() });
        }
        self.state.data.phase = Phase::Ready;
        self.state.data.rebase = rebase;
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::VerdictFailed(results));
    }

    pub(crate) fn on_note_integration(&mut self, integration: Integration) {
        if let Err(reason) = self.is_settled() {
            return self.reject(reason);
        }
        let Integration { branch, commit, tree } = integration.clone();
        self.state.data.integrated = Some(integration);
        self.event(|| EventKind::Integrated { branch, commit, tree });
    }

    /// Whether it is verified and its change still its own.
    fn is_settled(&self) -> Result<(), String> {
        let data = &self.state.data;
        match &data.phase {
            Phase::Finished { outcome: Outcome::Verified, .. } => {}
            Phase::Finished { outcome, .. } => {
                return Err(format!("the task is not verified: it ended as {}", outcome.word()));
            }
            _ => return Err("the task is not verified: it has not ended".to_owned()),
        }
        match &data.integrated {
            Some(done) => Err(format!("the task is integrated in {} already", done.branch)),
            None => Ok(()),
        }
    }

    /// Has the workspace given the files that the branch and the task's change make together.
    pub(crate) fn begin_rebase(&mut self) {
        let Some(rebase) = &self.state.data.rebase else { return };
        let to = rebase.combined.name.clone();
        self.roll_back(to);
    }

    /// The files of a checkpoint are in place. True if these are what the task was reopened with.
    pub(crate) fn on_rebased(&mut self, to: &str, undo: &Checkpoint) -> bool {
        let Some(rebase) = self.state.data.rebase.take_if(|rebase| rebase.combined.name == to)
        else {
            return false;
        };
        self.note_change();
        let (branch, commit) = (rebase.branch.clone(), rebase.commit.clone());
        self.event(|| EventKind::Rebased { branch, commit, undo: undo.name.clone() });
        let text = format!(
            "Your change stands on the branch {} as it is now (commit {}): the files of the workspace are both \
             together. Where the two collide, the files hold conflict marks.",
            rebase.branch,
            rebase.commit.get(..10).unwrap_or(&rebase.commit)
        );
        let data = &mut self.state.data;
        data.base = Some(rebase.base);
        if let Some(workspace) = &mut data.workspace {
            workspace.base = Some(rebase.commit);
        }
        data.notes.push_back(Note { kind: NoteKind::Steer, text });
        data.phase = Phase::Ready;
        true
    }
}
