//! Going back: the workspace gets the state of a checkpoint, the conversation stays, and the driver is told.

use crate::driver::{Note, NoteKind};
use crate::effect::Effect;
use crate::event::EventKind;
use crate::state::{Pending, Phase};
use crate::step::Step;
use crate::task::Outcome;
use crate::verdict::Checkpoint;

impl Step<'_> {
    pub(crate) fn on_roll_back(&mut self, to: String) {
        if self.is_finished() {
            return self.reject(self.ended());
        }
        if self.state.data.workspace.as_ref().is_none_or(|place| place.path.is_none()) {
            return self.reject("the task has no workspace that could go back");
        }
        if !self.may_move() {
            return self.reject("nobody drives the task, so nobody can change its workspace");
        }
        self.stop(|pending| !matches!(pending, Pending::Deadline));
        self.abort_calls("the workspace goes back to an earlier state");
        self.settle_doubts();
        self.close_turn();
        self.roll_back(to);
    }

    /// Has the workspace given the state of a checkpoint; the driver is asked again after that.
    pub(crate) fn roll_back(&mut self, to: String) {
        let Some(workspace) = self.state.data.workspace.clone() else { return };
        let id = self.expect(Pending::Restore);
        self.output.effects.push(Effect::Restore { id, workspace, to: to.clone() });
        self.state.data.phase = Phase::RollingBack { to };
    }

    pub(crate) fn on_restored(&mut self, restored: Result<Checkpoint, String>) {
        let Phase::RollingBack { to } = self.state.data.phase.clone() else { return };
        match restored {
            Ok(undo) => {
                self.note_change();
                self.event(|| EventKind::RolledBack { to: to.clone(), undo: undo.name });
                let text = format!(
                    "The files of the workspace were put back to an earlier state (checkpoint {}): look again \
                     before you rely on what you remember of them.",
                    to.get(..10).unwrap_or(&to)
                );
                self.state.data.notes.push_back(Note { kind: NoteKind::Steer, text });
                self.state.data.phase = Phase::Ready;
            }
            Err(reason) => {
                self.finish(Outcome::Failed, format!("the workspace cannot go back: {reason}"))
            }
        }
    }
}
