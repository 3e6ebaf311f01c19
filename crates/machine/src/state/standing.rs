//! What a task waits for, read off its state: who is asked what, and whether a process still has something to do for it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::{Call, CallStatus, Pending, Phase, State};
use crate::cause::Cause;
use crate::driver::Wait;
use crate::id::{CallId, QuestionId, TaskId};
use crate::policy::call_hash::CallHash;
use crate::policy::retry::LONGEST_SITTING;
use crate::task::Outcome;
use crate::time::{Span, Timestamp};
use crate::tool::EffectClass;

/// What a task waits for or how it ended, for those who look from outside.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Standing {
    /// Effects are under way, or would be if a process drove it.
    Working,
    /// Somebody paused it.
    Paused,
    /// It cannot go on before a person says something.
    AwaitingPerson {
        /// What is asked, one by one.
        asks: Vec<Ask>,
    },
    /// It ended.
    Finished {
        /// How.
        outcome: Outcome,
        /// Why.
        reason: String,
    },
}

/// One thing a person is asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// May this call run?
    Approval {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Its parameters.
        input: Arc<Value>,
        /// Why it is asked.
        reason: String,
        /// The exact call: what an answer is bound to.
        hash: CallHash,
        /// The part of the call that was decisive; empty if that is the whole.
        #[serde(skip_serializing_if = "String::is_empty")]
        part: String,
    },
    /// What is the answer?
    Question {
        /// The call.
        call: CallId,
        /// The question.
        question: String,
        /// The answers to choose from; any text if empty.
        choices: Vec<String>,
    },
    /// Did this call run?
    InDoubt {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Its parameters.
        input: Arc<Value>,
    },
    /// Is it to go on after a failure?
    Escalation {
        /// Which question it is.
        number: QuestionId,
        /// What failed.
        cause: Cause,
        /// What happened.
        reason: String,
    },
    /// What is the next move?
    Decision {
        /// Which question it is.
        number: QuestionId,
        /// What is expected.
        prompt: String,
    },
    /// What the child of a step asks: the answer is given to that one.
    Child {
        /// The child.
        child: TaskId,
        /// What it asks.
        reason: String,
    },
}

impl State {
    /// What the task waits for or how it ended.
    pub fn standing(&self) -> Standing {
        if let Phase::Finished { outcome, reason, .. } = &self.data.phase {
            return Standing::Finished { outcome: *outcome, reason: reason.clone() };
        }
        if self.asks_somebody() && (!self.is_busy() || self.is_held_up()) {
            Standing::AwaitingPerson { asks: self.asks() }
        } else if self.data.paused {
            Standing::Paused
        } else {
            Standing::Working
        }
    }

    /// Everything a person is asked at this moment.
    pub fn asks(&self) -> Vec<Ask> {
        let mut asks: Vec<Ask> = self.data.calls.iter().filter_map(Call::ask).collect();
        let number = self.data.last_question;
        if let Phase::Waiting(Wait::Person { prompt, .. }) = &self.data.phase {
            asks.push(Ask::Decision { number, prompt: prompt.clone() });
        }
        if let Phase::Escalated { cause, reason } = &self.data.phase {
            asks.push(Ask::Escalation { number, cause: cause.clone(), reason: reason.clone() });
        }
        if let Some((child, reason)) = self.child_asks() {
            asks.push(Ask::Child { child, reason: reason.to_owned() });
        }
        asks
    }

    /// What the child of a step asks that the task waits for.
    fn child_asks(&self) -> Option<(TaskId, &str)> {
        let (id, child) = self.data.awaited_child()?;
        Some((id, child.waits.as_deref()?))
    }

    /// Whether the child that the task waits for was put down: the task can do nothing before somebody takes it up.
    fn child_rests(&self) -> bool {
        self.data.awaited_child().is_some() && !self.data.drives_child()
    }

    /// Whether the process that drives the task should let go of it: it ended, a person is to look at its files, the child
    /// that it waits for was put down, or nobody is there and it waits for a person or for a moment that is far away.
    pub fn wants_release(&self) -> bool {
        if matches!(self.data.phase, Phase::Finished { .. }) {
            return !self.data.pending.values().any(|pending| *pending == Pending::Restore);
        }
        let looks = self.data.look_first.is_some() && self.is_idle();
        if self.data.attachment.is_some() && (looks || self.child_rests()) {
            return true;
        }
        let unattended = self.data.attachment.as_ref().is_some_and(|by| !by.attended);
        let timed = |pending: &Pending| matches!(pending, Pending::DeciderTimer(_));
        // A question with an end that is near is waited for: what follows was declared.
        let ends_soon = match &self.data.phase {
            Phase::Waiting(wait @ Wait::Person { .. }) => wait
                .moment()
                .is_some_and(|at| at.since(self.data.own(self.data.clock)) <= LONGEST_SITTING),
            _ => false,
        };
        let waits_for_person = || {
            !self.is_busy()
                && self.asks_somebody()
                && !ends_soon
                && !self.data.pending.values().any(timed)
        };
        unattended && (waits_for_person() || self.rests_until(self.data.clock).is_some())
    }

    /// Whether the time of a person who was asked is over by this clock, or something else is due: whoever takes the task up goes
    /// on without the answer.
    pub fn is_answer_late(&self, now: Timestamp) -> bool {
        match &self.data.phase {
            Phase::Waiting(wait @ Wait::Person { .. }) => {
                wait.moment().is_some_and(|at| at <= self.data.own(now))
            }
            _ => false,
        }
    }

    /// Why a process lets go of a task that has not ended, for a person.
    pub fn release_reason(&self) -> String {
        if let Some(reason) = &self.data.look_first {
            return reason.clone();
        }
        if let Phase::Escalated { reason, .. } = &self.data.phase {
            return format!("a person is asked what to do: {reason}");
        }
        if let Some((child, reason)) = self.child_asks() {
            return format!("task {child}, which a step of it began, waits for a person: {reason}");
        }
        if let Some((child, _)) = self.data.awaited_child() {
            return format!("task {child}, which a step of it began, was put down");
        }
        match self.rests_until(self.data.clock) {
            Some(at) => {
                let seconds = at.since(self.data.clock).0.div_ceil(1000);
                format!("the model is asked again in {}, once resumed", Span::seconds(seconds))
            }
            None => "it waits for a person".to_owned(),
        }
    }

    /// The moment before which the task has nothing to do, if it is too far away for a process to wait, by the clock.
    pub fn rests_until(&self, now: Timestamp) -> Option<Timestamp> {
        let waits = |pending: &Pending| matches!(pending, Pending::Deadline | Pending::Retry);
        self.data
            .retry_at
            .map(|at| self.data.by_the_clock(at))
            .filter(|_| matches!(self.data.phase, Phase::Consulting { .. }))
            // A clock that was set back says nothing about how long it has waited.
            .filter(|_| now >= self.data.clock)
            .filter(|at| at.since(now) > LONGEST_SITTING && self.data.pending.values().all(waits))
    }

    /// Whether effects are outstanding that will make the task move.
    fn is_busy(&self) -> bool {
        // The end of a person's time is no work either.
        let asks = matches!(self.data.phase, Phase::Waiting(Wait::Person { .. }));
        let waits = |pending: &Pending| match pending {
            Pending::Deadline | Pending::DeciderTimer(_) => true,
            Pending::Alarm => asks,
            _ => false,
        };
        !self.data.pending.values().all(waits)
    }

    /// Whether the decider outside can only wait for a person: all that it asked for does.
    fn is_held_up(&self) -> bool {
        matches!(self.data.phase, Phase::Consulting { .. })
            && !self.data.pending.values().any(|pending| matches!(pending, Pending::Call(_)))
    }

    fn asks_somebody(&self) -> bool {
        matches!(self.data.phase, Phase::Waiting(Wait::Person { .. }) | Phase::Escalated { .. })
            || self.child_asks().is_some()
            || self.data.calls.iter().any(|call| match call.status {
                CallStatus::AwaitingApproval { .. }
                | CallStatus::AwaitingAnswer
                | CallStatus::InDoubt => true,
                CallStatus::Queued { .. }
                | CallStatus::AwaitingDecider { .. }
                | CallStatus::Running { .. }
                | CallStatus::Done(_) => false,
            })
    }

    /// Whether something that was stopped may still say what it cost.
    pub fn is_owed(&self) -> bool {
        !self.data.unpaid.is_empty() || !self.data.asked.is_empty()
    }

    /// Whether something is under way that is better brought to its end: a command that is cut off is in doubt, and files
    /// are being put in their place. Whatever else is cut off is only asked, or looked at, once more.
    pub fn is_in_the_middle(&self) -> bool {
        let is_unsafe = |id: CallId| {
            let call = self.data.calls.iter().find(|call| call.id == id);
            call.is_some_and(|call| call.class == EffectClass::Unsafe)
        };
        self.data.pending.values().any(|pending| match pending {
            Pending::Call(id) => is_unsafe(*id),
            Pending::Workspace | Pending::Checkpoint | Pending::Restore => true,
            Pending::Tools
            | Pending::Decider(_)
            | Pending::DeciderTimer(_)
            | Pending::Consult
            | Pending::Model
            | Pending::Agent
            | Pending::Child
            | Pending::Retry
            | Pending::Verify
            | Pending::Judge
            | Pending::JudgeTimer
            | Pending::Alarm
            | Pending::Deadline => false,
        })
    }

    /// True once every effect that was started has reported, timers apart.
    pub fn is_idle(&self) -> bool {
        let is_timer = |p: &Pending| {
            matches!(
                p,
                Pending::Deadline
                    | Pending::Alarm
                    | Pending::Retry
                    | Pending::DeciderTimer(_)
                    | Pending::JudgeTimer
            )
        };
        self.data.pending.values().all(is_timer)
    }
}
