//! The machine was restarted: the journal and the checkpoints outlive that, the files of the workspace need not.

use crate::driver::{Hand, Note, NoteKind};
use crate::event::EventKind;
use crate::state::Phase;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn on_restarted(&mut self, brought_back: Result<u32, String>) {
        let is_whole = self.is_unchanged() || self.state.data.spend.turns == 0;
        self.note_change();
        let (count, problem) = match brought_back {
            Ok(count) => (count, None),
            Err(problem) => (0, Some(problem)),
        };
        let is_known = problem.is_none();
        self.event(|| EventKind::Restarted { brought_back: count, problem });
        // A claim that is being checked rests on a checkpoint, whatever became of the files.
        if matches!(
            self.state.data.phase,
            Phase::Verifying { .. } | Phase::Judging(_) | Phase::Finished { .. }
        ) {
            return;
        }
        let back = match count {
            0 => String::new(),
            1 => "One file that was lost was brought back. ".to_owned(),
            count => format!("{count} files that were lost were brought back. "),
        };
        let text = format!(
            "The machine was restarted while you were at work. {back}What was written in the last moments before may be \
             old, empty or gone: look again before you rely on what you remember of it."
        );
        self.state.data.notes.push_back(Note { kind: NoteKind::Steer, text });
        // Steps that were written down cannot look, and nobody goes on with files of which nobody knows what they are: a
        // person looks, and resumes.
        let must_look = !is_known || (!is_whole && self.state.driver.hand() == Hand::Written);
        if must_look && !self.state.data.paused {
            self.state.data.paused = true;
            self.event(|| EventKind::Paused);
        }
    }
}
