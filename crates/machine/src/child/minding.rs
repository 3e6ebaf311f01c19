//! Children that were dispatched and work in processes of their own: what is done when such a process is gone. Whoever
//! waits for one looks whether anybody drives it; here is what follows from what was seen.

use serde::{Deserialize, Serialize};

use super::{Charge, Child};
use crate::effect::Effect;
use crate::event::EventKind;
use crate::id::{EffectId, TaskId};
use crate::state::{Standing, State};
use crate::step::Step;
use crate::task::Outcome;
use crate::time::{Span, Timestamp};

/// How often a child that comes no further is taken up before nobody waits for it any more.
pub const MOST_TAKEN_UP: u32 = 3;

/// How long nobody may drive a child before it counts as lost: a process that is just starting has not said so yet.
pub const LOST_AFTER: Span = Span::seconds(3);

/// What was seen of a child that is waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildSeen {
    /// The child.
    pub child: TaskId,
    /// All that it has spent so far.
    pub charge: Charge,
    /// How it ended; if it has not, it could go on and nobody drives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Outcome>,
}

/// How a child stands for somebody who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// It goes on by itself, or waits for a person or a moment.
    GoesOn,
    /// It could go on, and nobody drives it.
    Lost,
    /// It has ended.
    Ended(Outcome),
}

/// What is done about a child that nobody drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescue {
    /// A process takes it up.
    TakeUp,
    /// That was tried often enough.
    GiveUp,
}

impl Rescue {
    /// For a child that was taken up so often without coming further.
    pub fn after(taken_up: u32) -> Rescue {
        if taken_up < MOST_TAKEN_UP { Rescue::TakeUp } else { Rescue::GiveUp }
    }
}

impl State {
    /// How this task stands for whoever dispatched it; `driven` says whether a living process drives it.
    pub fn outlook(&self, driven: bool, now: Timestamp) -> Outlook {
        match self.standing() {
            Standing::Finished { outcome, .. } => Outlook::Ended(outcome),
            Standing::Working if !driven && self.rests_until(now).is_none() => Outlook::Lost,
            Standing::Working | Standing::Paused | Standing::AwaitingPerson { .. } => {
                Outlook::GoesOn
            }
        }
    }

    /// The children that somebody has to look after while this task waits for them; none if it does not wait.
    pub fn minds(&self) -> Vec<TaskId> {
        let data = self.data();
        let is_driven = data.attachment.as_ref().is_some_and(|by| !by.draining);
        if !data.awaits_children || data.paused || !is_driven {
            return Vec::new();
        }
        let minded = data.children.iter().filter(|(_, child)| child.is_minded());
        minded.map(|(id, _)| id.clone()).collect()
    }
}

impl Child {
    /// Whether somebody will say how it ended.
    pub(crate) fn may_report(&self) -> bool {
        self.ended.is_none() && !self.given_up
    }

    /// Whether it is dispatched, has not ended and may still do so: those of steps are driven with their parent.
    pub(crate) fn is_minded(&self) -> bool {
        self.step.is_none() && self.may_report()
    }
}

impl Step<'_> {
    /// Somebody looked after the children that the task waits for.
    pub(crate) fn on_children_seen(&mut self, seen: Vec<ChildSeen>) {
        for ChildSeen { child, charge, ended } in seen {
            let known = self.state.data.children.get(&child);
            let Some(known) = known.filter(|known| known.is_minded()) else {
                self.drop_signal();
                continue;
            };
            let moved = known.charged != charge;
            if moved || ended.is_some() {
                self.charge_child(&child, charge, ended);
            }
            if ended.is_none() {
                self.rescue(child, moved);
            }
        }
    }

    fn rescue(&mut self, child: TaskId, moved: bool) {
        if !self.may_move() {
            return self.drop_signal();
        }
        let Some(known) = self.state.data.children.get_mut(&child) else { return };
        if moved {
            known.taken_up = 0;
        }
        let rescue = Rescue::after(known.taken_up);
        match rescue {
            Rescue::GiveUp => known.given_up = true,
            Rescue::TakeUp => {
                known.taken_up += 1;
                self.state.data.last_effect += 1;
                let id = EffectId(self.state.data.last_effect);
                let folder = self.state.data.spec.folder.clone();
                let child = child.clone();
                self.output.effects.push(Effect::TakeUpChild { id, child, folder });
            }
        }
        self.event(|| EventKind::ChildLost { child, given_up: rescue == Rescue::GiveUp });
    }
}
