//! What people say to a task while it waits for one that a step of it began: it is for that one, and passed on. A note stays
//! with the task it was said to until the other is known to have heard it, since a process may die between their records.

use crate::child::Child;
use crate::child::step::ChildEnd;
use crate::driver::{Note, NoteKind};
use crate::event::EventKind;
use crate::id::TaskId;
use crate::input::Command;
use crate::step::Step;

/// Which notes a child is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relayed {
    /// Those that it was not told since it was begun or taken up.
    News,
    /// Those too that whoever told it may have died over.
    All,
}

impl Step<'_> {
    /// Passes a note on to the child that is waited for: at once to one that is driven, and to one at rest when it goes on.
    /// False if no child is waited for.
    pub(crate) fn pass_on_note(&mut self, note: &Note) -> bool {
        let data = &mut self.state.data;
        let Some((child, _)) = data.awaited_child() else { return false };
        let is_driven = data.drives_child();
        if let Some(known) = data.children.get_mut(&child) {
            known.untold.push(note.clone());
        }
        self.event(|| EventKind::NoteQueued { note: note.clone() });
        if is_driven {
            self.relay_notes(&child, Relayed::News);
        }
        true
    }

    /// Keeps a note for those that steps have begun and that nobody drives: it concerns whoever goes on.
    pub(crate) fn note_for_children(&mut self, note: &Note) {
        let open = |child: &&mut Child| child.step.is_some() && child.ended.is_none();
        let open = self.state.data.children.values_mut().filter(open);
        open.for_each(|child| child.untold.push(note.clone()));
    }

    /// Tells a child what it is not known to have heard.
    pub(crate) fn relay_notes(&mut self, child: &TaskId, which: Relayed) {
        let Some(known) = self.state.data.children.get_mut(child) else { return };
        let (numbers, told) = (known.heard + 1.., known.told);
        let mut notes: Vec<(u64, Note)> = numbers.zip(known.untold.iter().cloned()).collect();
        known.told = told.max(known.heard + notes.len() as u64);
        if which == Relayed::News {
            notes.retain(|(number, _)| *number > told);
        }
        for (number, note) in notes {
            let relay = Command::Relay { number, note: note.clone() };
            self.tell_child(child.clone(), relay);
            if number > told {
                self.event(|| EventKind::NoteDelivered { note });
            }
        }
    }

    /// What a child says that it has heard need not be said again.
    pub(crate) fn note_heard(&mut self, end: &ChildEnd) {
        let known = self.state.data.children.get_mut(&end.child);
        let (Some(known), Some(heard)) = (known, end.heard) else { return };
        let more = heard.saturating_sub(known.heard);
        let count = usize::try_from(more).unwrap_or(usize::MAX).min(known.untold.len());
        known.untold.drain(..count);
        known.heard += count as u64;
    }

    /// A child has ended before it heard all that was said: that is for whoever goes on.
    pub(crate) fn take_back_notes(&mut self, child: &TaskId) {
        let known = self.state.data.children.get_mut(child);
        let notes = known.map(|known| std::mem::take(&mut known.untold)).unwrap_or_default();
        self.queue_notes(notes);
    }

    /// Nobody goes on with the children of steps: what none of them is certain to hear is for whoever decides from here on.
    pub(crate) fn keep_untold_notes(&mut self) {
        let data = &mut self.state.data;
        let driven = data.awaited_child().map(|(id, _)| id).filter(|_| data.drives_child());
        let mut notes = Vec::new();
        for (id, child) in &mut data.children {
            // Whoever told one that nobody drives may have died over it.
            let told = match driven.as_ref() == Some(id) {
                true => child.told.saturating_sub(child.heard),
                false => 0,
            };
            let told = usize::try_from(told).unwrap_or(usize::MAX);
            notes.append(&mut child.untold.split_off(told.min(child.untold.len())));
        }
        self.queue_notes(notes);
    }

    fn queue_notes(&mut self, notes: Vec<Note>) {
        for note in notes {
            // What concerned both is with this one already.
            if !self.state.data.notes.contains(&note) {
                self.queue_note(note);
            }
        }
    }

    /// The task whose step began this one passes on what was said to it.
    pub(crate) fn on_relay(&mut self, number: u64, note: Note) {
        // One behind a gap is told again, with those before it.
        if number != self.state.data.relayed + 1 {
            return;
        }
        match note.kind {
            NoteKind::Steer => self.on_steer(note.text),
            NoteKind::Interrupt => self.on_interrupt(note.text),
            NoteKind::FollowUp => self.on_follow_up(note.text),
        }
        if self.output.rejected.is_none() {
            self.state.data.relayed = number;
            self.begin_anew();
        }
    }
}
