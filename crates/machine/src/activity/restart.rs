//! The machine was restarted, or somebody removed the workspace: the journal and the checkpoints outlive that, the files of
//! the workspace need not. Or the journal itself was damaged, and its end is gone.

use crate::driver::{Hand, Note, NoteKind};
use crate::event::{EventKind, Loss};
use crate::id::TaskId;
use crate::state::Phase;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn on_restarted(&mut self, by: Loss, brought_back: Result<u32, String>) {
        let is_whole = self.is_unchanged() || self.state.data.spend.turns == 0;
        self.note_change();
        let (count, problem) = match brought_back {
            Ok(count) => (count, None),
            Err(problem) => (0, Some(problem)),
        };
        // Steps that were written down cannot look again themselves.
        let unknown = match &problem {
            Some(problem) => Some(format!("it is not known which files were lost ({problem})")),
            None if !is_whole && self.state.driver.hand() == Hand::Written => {
                Some("what the last steps wrote may be lost".to_owned())
            }
            None => None,
        };
        let data = &mut self.state.data;
        let dispatch = data.spec.dispatch.as_ref();
        let is_anothers = dispatch.is_some_and(|dispatch| dispatch.within.is_some());
        // What setup commands made is in no checkpoint.
        data.unready |= by == Loss::Folder
            && problem.is_none()
            && data.workspace.is_some()
            && !data.spec.workspace.setup.is_empty()
            && !is_anothers;
        self.event(|| EventKind::Restarted { by, brought_back: count, problem });
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
        let text = match by {
            Loss::Restart => format!(
                "The machine was restarted while you were at work. {back}What was written in the last moments before may be \
                 old, empty or gone: look again before you rely on what you remember of it."
            ),
            Loss::Folder => format!(
                "Your workspace was removed while you were at work, and was made again as its last checkpoint holds it. \
                 {back}What was written after that, and what git ignores, is gone: look again before you rely on what you \
                 remember of it."
            ),
        };
        self.state.data.notes.push_back(Note { kind: NoteKind::Steer, text });
        if let Some(unknown) = unknown {
            self.have_looked_at(unknown);
        }
    }

    /// What the lost records told of was done. Nobody who goes on from what is left knows that, so a person looks first,
    /// whoever decides.
    pub(crate) fn on_records_lost(&mut self, lost: u64, child: Option<TaskId>) {
        self.note_change();
        let records = if lost == 1 {
            "the last record".to_owned()
        } else {
            format!("the last {lost} records")
        };
        let whose = match &child {
            Some(child) => format!("task {child}, which a step of it began"),
            None => "it".to_owned(),
        };
        if child.is_none() {
            self.state.data.records_lost = self.state.data.records_lost.saturating_add(lost);
            let text = format!(
                "The journal was damaged and lost {records} of this task. What was done then is done, though you do not \
                 remember it: look again before you rely on what you remember, and before you do something twice."
            );
            self.state.data.notes.push_back(Note { kind: NoteKind::Steer, text });
        }
        self.event(|| EventKind::RecordsLost { lost, child });
        self.have_looked_at(format!(
            "the journal was damaged and lost {records} of {whose}, so what was done already may be done again"
        ));
    }
}
