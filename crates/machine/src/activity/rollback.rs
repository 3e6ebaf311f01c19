//! Going back: the workspace gets the state of a checkpoint, the conversation stays, and the driver is told.
//!
//! An operator's command is journaled first and performed after, by whoever drives the task or, where nobody does, by
//! whoever takes it up: a crash at any point leaves it to be done. A task that has ended goes back in its files alone;
//! how it ended, and what it proved, stays.

use crate::driver::{Note, NoteKind};
use crate::effect::{Effect, InTheWay};
use crate::event::EventKind;
use crate::state::{Attachment, Pending, Phase};
use crate::step::Step;
use crate::task::Outcome;
use crate::verdict::Checkpoint;

impl Step<'_> {
    pub(crate) fn on_roll_back(&mut self, to: String) {
        if self.state.data.workspace.as_ref().is_none_or(|place| place.path.is_none()) {
            return self.reject("the task has no workspace that could go back");
        }
        if self.state.data.pending.values().any(|pending| *pending == Pending::Restore) {
            return self.reject("the workspace is going back already: wait until it has");
        }
        self.state.data.going_back = Some(to.clone());
        self.event(|| EventKind::RollBackAsked { to: to.clone() });
        if self.is_finished() {
            return;
        }
        self.stop(|pending| !matches!(pending, Pending::Deadline));
        self.close_requests("the workspace goes back to an earlier state");
        self.abort_calls("the workspace goes back to an earlier state");
        self.settle_doubts();
        self.close_turn();
        // What was decided and not begun is still held: the driver waits for it, and is told first that the files went back.
        match &self.state.data.attachment {
            // The operator asked for it, so a pause does not hold it up.
            Some(attachment) if !attachment.draining => self.restore(to.clone()),
            // Whoever takes the task up does it first.
            Some(_) | None => {}
        }
        self.roll_back(to);
    }

    /// Has the workspace given the state of a checkpoint once the task may move; the driver is asked again after that.
    pub(crate) fn roll_back(&mut self, to: String) {
        self.state.data.phase = Phase::RollingBack { to };
    }

    pub(crate) fn restore(&mut self, to: String) {
        let Some(workspace) = self.state.data.workspace.clone() else { return };
        let id = self.expect(Pending::Restore);
        // Whoever asked for it can move them; where nobody did, nobody may be there.
        let asked = self.state.data.going_back.is_some();
        let in_the_way = if asked { InTheWay::Refused } else { InTheWay::SetAside };
        self.output.effects.push(Effect::Restore { id, workspace, to, in_the_way });
    }

    /// A process takes a task up that has ended, for what is left to be done of going back and nothing else.
    pub(crate) fn attach_to_go_back(&mut self, owner: u64) {
        let Some(to) = self.state.data.going_back.clone() else {
            return self.reject(self.ended());
        };
        self.state.data.attachment = Some(Attachment { owner, attended: false, draining: true });
        self.event(|| EventKind::Attached { owner, attended: false });
        self.restore(to);
    }

    pub(crate) fn on_restored(&mut self, restored: Result<Checkpoint, String>) {
        let asked = self.state.data.going_back.take();
        match (self.state.data.phase.clone(), asked) {
            (Phase::RollingBack { to }, asked) => match restored {
                Ok(undo) if self.on_rebased(&to, &undo) => {}
                Ok(undo) => {
                    self.went_back(to, undo);
                    self.reopen();
                }
                Err(reason) if asked.is_some() => {
                    let unknown = format!("the workspace could not go back ({reason})");
                    self.event(|| EventKind::RollBackFailed { to, reason });
                    self.state.data.phase = Phase::Ready;
                    self.have_looked_at(unknown);
                }
                Err(reason) => {
                    self.finish(Outcome::Failed, format!("the workspace cannot go back: {reason}"))
                }
            },
            (Phase::Finished { .. }, Some(to)) => {
                match restored {
                    Ok(undo) => self.went_back(to, undo),
                    Err(reason) => self.event(|| EventKind::RollBackFailed { to, reason }),
                }
                self.state.data.attachment = None;
            }
            _ => {}
        }
    }

    fn went_back(&mut self, to: String, undo: Checkpoint) {
        self.note_change();
        let text = format!(
            "The files of the workspace were put back to an earlier state (checkpoint {}): look again before you \
             rely on what you remember of them.",
            to.get(..10).unwrap_or(&to)
        );
        self.event(|| EventKind::RolledBack { to, undo: undo.name });
        let note = Note { kind: NoteKind::Steer, text };
        // The task of a step works in the same files, and goes on with what it remembers of them.
        self.note_for_children(&note);
        self.state.data.notes.push_back(note);
    }
}
