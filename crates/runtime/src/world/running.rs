//! The effects under way: what stops each of them, and waiting until they have ended.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use machine::id::{EffectId, TaskId};
use tokio::sync::Notify;

use crate::network;
use crate::process::Cancel;

/// How long stopped work is waited for; a process tree is killed well within it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a wait looks whether it was stopped itself.
const GLANCE: Duration = Duration::from_millis(50);

type Key = (TaskId, EffectId);
type Effects = BTreeMap<Key, Stop>;

/// The effects under way. An entry is removed by whoever performed it, after its report is queued.
#[derive(Debug, Default)]
pub(super) struct Running {
    effects: Mutex<Effects>,
    ended: Condvar,
    /// How many wait for an end: waking nobody costs a system call.
    waiting: AtomicUsize,
}

impl Running {
    /// Notes an effect before it begins. It is under way until what is returned is dropped.
    pub(super) fn begin(self: &Arc<Running>, task: &TaskId, id: EffectId, stop: Stop) -> Ending {
        let key = (task.clone(), id);
        self.lock().insert(key.clone(), stop);
        Ending { running: Arc::clone(self), key }
    }

    /// Stops one effect, and does not wait for its end.
    pub(super) fn stop(&self, task: &TaskId, id: EffectId) {
        if let Some(stop) = self.lock().get(&(task.clone(), id)) {
            stop.trigger();
        }
    }

    /// The same for all of a task.
    pub(super) fn stop_all(&self, task: &TaskId) {
        self.lock().range(all_of(task)).for_each(|(_, stop)| stop.trigger());
    }

    /// Stops all of a task, and waits until they have ended or do not want to.
    pub(super) fn end_all(&self, task: &TaskId) {
        let deadline = Instant::now() + PATIENCE;
        self.stop_all(task);
        let mut effects = self.lock();
        while let Some((_, stop)) = effects.range(all_of(task)).next() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if matches!(stop, Stop::Call(_)) {
                // It ends once the loop looks at it, and nobody else makes it look.
                drop(effects);
                network::glance();
                effects = self.lock();
                continue;
            }
            effects = self.wait(effects, left);
        }
    }

    /// Waits until nothing of a task is at work but what asks: what was stopped a moment ago may still be at it.
    pub(super) fn await_others(
        &self,
        task: &TaskId,
        asking: EffectId,
        cancel: &Cancel,
    ) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        // Models only speak.
        let at_work = |effects: &Effects| {
            let mut of_task = effects.range(all_of(task));
            of_task.any(|((_, id), stop)| *id != asking && matches!(stop, Stop::Handle(_)))
        };
        let mut effects = self.lock();
        while at_work(&effects) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || cancel.is_triggered() {
                return Err("something of the worker does not end".to_owned());
            }
            effects = self.wait(effects, left.min(GLANCE));
        }
        if cancel.is_triggered() { Err("stopped before it began".to_owned()) } else { Ok(()) }
    }

    /// Waits for an end, whichever comes first.
    fn wait<'a>(
        &'a self,
        effects: MutexGuard<'a, Effects>,
        at_most: Duration,
    ) -> MutexGuard<'a, Effects> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = self.ended.wait_timeout(effects, at_most);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, Effects> {
        // The map is whole after any panic: each change is one insert or one remove.
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn all_of(task: &TaskId) -> RangeInclusive<Key> {
    (task.clone(), EffectId(0))..=(task.clone(), EffectId(u64::MAX))
}

/// Stops an effect.
#[derive(Debug)]
pub(super) enum Stop {
    /// Of one with a thread of its own.
    Handle(Cancel),
    /// Of one on the network's loop: it says what it cost by then.
    Call(Arc<Notify>),
}

impl Stop {
    fn trigger(&self) {
        match self {
            Stop::Handle(cancel) => cancel.trigger(),
            // Kept for a call that does not wait yet.
            Stop::Call(stop) => stop.notify_one(),
        }
    }
}

/// Takes an effect off the list, whatever way it ends.
#[derive(Debug)]
pub(super) struct Ending {
    running: Arc<Running>,
    key: Key,
}

impl Ending {
    /// Whose effect it is.
    pub(super) fn task(&self) -> &TaskId {
        &self.key.0
    }

    /// Which one.
    pub(super) fn effect(&self) -> EffectId {
        self.key.1
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut effects = self.running.lock();
        effects.remove(&self.key);
        // Read under the lock, with which whoever waits has counted itself.
        let is_awaited = self.running.waiting.load(Ordering::Relaxed) > 0;
        drop(effects);
        if is_awaited {
            self.running.ended.notify_all();
        }
    }
}
