//! The clock and the machine's own time: a machine that slept and a clock that was set are told to every task.

use std::cmp::Reverse;

use machine::id::{EffectId, TaskId};
use machine::input::Signal;
use machine::time::{Span, Timestamp};

use super::{Supervisor, delivery};
use crate::inbox::Delivery;
use crate::perform::Perform;

/// A clock that is set right by less is nobody's concern.
const UNNOTICED: Span = Span::seconds(2);

impl<P: Perform> Supervisor<P> {
    /// Tells every task if the clock and the machine's own time went apart. A clock that was set back would keep timers waiting
    /// for as long as it was set back: they go back with it.
    pub(super) fn follow_clock(&mut self, now: Timestamp) -> Vec<Delivery> {
        let awake = self.clock.awake();
        let (seen, awake_seen) = std::mem::replace(&mut self.seen, (now, awake));
        // What the clock would say if nobody had touched it, and the machine had not slept.
        let meant = seen.after(Span(awake.0.saturating_sub(awake_seen.0)));
        let (ahead, behind) = (now.since(meant), meant.since(now));
        if ahead > UNNOTICED {
            return self.tell_all(&Signal::Slept(ahead));
        }
        let (back, told) = if behind > UNNOTICED {
            (behind, self.tell_all(&Signal::SetBack(behind)))
        } else {
            (seen.since(now), Vec::new())
        };
        if back.0 > 0 {
            let back = i64::try_from(back.0).unwrap_or(i64::MAX);
            let moved = |Reverse((at, task, id)): Reverse<(Timestamp, TaskId, EffectId)>| {
                Reverse((Timestamp(at.0.saturating_sub(back)), task, id))
            };
            self.timers = std::mem::take(&mut self.timers).into_iter().map(moved).collect();
        }
        told
    }

    /// Not of a task that has still to be told that whoever drove it is gone: when that was, nobody knows.
    fn tell_all(&self, signal: &Signal) -> Vec<Delivery> {
        let owner = self.journal.owner();
        let driven = self.hosts.iter().filter(|(_, host)| {
            host.state.data().attachment.as_ref().is_some_and(|driver| driver.owner == owner)
        });
        driven.map(|(id, _)| delivery(id, signal.clone().into())).collect()
    }
}
