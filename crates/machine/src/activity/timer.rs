//! Moments: the driver's alarm and the task's deadline. A timer lives in the process that attends to it, so
//! a process that takes the task up sets them anew.
//!
//! Moments are kept in a time of the task's own. It goes on with the clock, and stays where it is while the clock is set
//! back: otherwise a wait of a minute would become one of as long as the clock was wrong.

use crate::driver::Consultation;
use crate::effect::Effect;
use crate::id::EffectId;
use crate::input::{Command, Input, Signal};
use crate::state::{Data, Pending, Phase};
use crate::step::Step;
use crate::time::{Span, Timestamp};

impl Data {
    /// The task's own time when the clock says this.
    pub fn own(&self, clock: Timestamp) -> Timestamp {
        clock.after(self.set_back)
    }

    /// What the clock says at a moment of the task's own time.
    pub fn by_the_clock(&self, own: Timestamp) -> Timestamp {
        Timestamp(own.0.saturating_sub(i64::try_from(self.set_back.0).unwrap_or(i64::MAX)))
    }
}

impl Step<'_> {
    /// Brings the task's own time up to the clock, and counts what passed since the last input if the task was driven and not
    /// paused. Time under an owner that was lost is not counted, nor time of which the records were: nobody knows when it ended.
    /// Neither is time in which the machine slept.
    pub(crate) fn follow_clock(&mut self, input: &Input) {
        let data = &mut self.state.data;
        let before = data.own(data.clock);
        let back = match input {
            Input::Signal(Signal::SetBack(back)) => *back,
            // Nobody saw it happen: of a clock that is behind no more is known than that.
            _ => data.clock.since(self.clock),
        };
        data.set_back = Span(data.set_back.0.saturating_add(back.0));
        data.clock = self.clock;
        self.now = data.own(self.clock);
        let lost = matches!(
            input,
            Input::Signal(Signal::OwnerLost | Signal::RecordsLost { .. })
                | Input::Command(Command::Start(_) | Command::Attach { .. })
        );
        let slept = match input {
            Input::Signal(Signal::Slept(span)) => span.0,
            _ => 0,
        };
        if data.attachment.is_some() && !data.paused && !lost {
            let worked = self.now.since(before).0.saturating_sub(slept);
            data.spend.millis = data.spend.millis.saturating_add(worked);
        }
    }

    /// Timers are set by the clock.
    pub(crate) fn translate_timers(&mut self) {
        for effect in &mut self.output.effects {
            if let Effect::SetTimer { at, .. } = effect {
                *at = self.state.data.by_the_clock(*at);
            }
        }
    }

    pub(crate) fn set_alarm(&mut self, at: Timestamp) {
        let id = self.expect(Pending::Alarm);
        self.output.effects.push(Effect::SetTimer { id, at });
    }

    /// Sets the deadline from what is left of the task's time, in place of the one before.
    pub(crate) fn renew_deadline(&mut self) {
        self.stop(|pending| *pending == Pending::Deadline);
        let data = &self.state.data;
        if data.attachment.is_none() || data.paused {
            return;
        }
        if let Some(limit) = data.budget.max_time {
            let at = self.now.after(Span(limit.0.saturating_sub(data.spend.millis)));
            let id = self.expect(Pending::Deadline);
            self.output.effects.push(Effect::SetTimer { id, at });
        }
    }

    pub(crate) fn on_timer_fired(&mut self, id: EffectId) {
        match self.state.data.pending.get(&id) {
            Some(Pending::Alarm) => {
                self.state.data.pending.remove(&id);
                // Its wait is over, whatever the clock says.
                let now = self.now;
                match &self.state.data.phase {
                    Phase::Waiting(_) => self.state.data.phase = Phase::Ready,
                    _ => self.state.data.wakes_at = self.state.data.wakes_at.map(|at| at.min(now)),
                }
            }
            // A task that may move asks again; one that is held does so when it goes on.
            Some(Pending::Retry | Pending::JudgeTimer) => {
                self.state.data.pending.remove(&id);
                // Its wait is over, whatever the clock says.
                let now = self.now;
                self.state.data.retry_at = self.state.data.retry_at.map(|at| at.min(now));
            }
            Some(Pending::DeciderTimer(call)) => {
                let call = *call;
                self.state.data.pending.remove(&id);
                self.on_decider_late(call);
            }
            Some(Pending::Deadline) => {
                self.state.data.pending.remove(&id);
                // Paused time does not count, so there may be time left.
                self.renew_deadline_if_time_is_left();
            }
            _ => self.drop_signal(),
        }
    }

    fn renew_deadline_if_time_is_left(&mut self) {
        let data = &self.state.data;
        if data.budget.max_time.is_some_and(|limit| data.spend.millis < limit.0) {
            self.renew_deadline();
        }
    }

    /// Sets the timers anew for a process that has just taken the task up.
    pub(crate) fn renew_timers(&mut self) {
        self.renew_deadline();
        self.renew_decider_timers();
    }

    /// Once a task that a process has just taken up may move: makes its workspace ready and repeats what the process before
    /// left outstanding.
    pub(crate) fn renew(&mut self) {
        if !self.state.data.to_renew || !self.may_move() {
            return;
        }
        if self.state.data.unready {
            return self.make_ready();
        }
        self.state.data.to_renew = false;
        self.reissue();
    }

    /// Calls, judges, and what waits in a phase without its effect, are begun by `advance`, which sees that they are not.
    fn reissue(&mut self) {
        match self.state.data.phase.clone() {
            // Of a turn that was under way before.
            Phase::OpeningTools if !self.state.data.calls.is_empty() => {
                self.state.data.phase = Phase::Acting;
            }
            Phase::OpeningWorkspace | Phase::KeepingBase | Phase::OpeningTools => {
                self.state.data.phase = Phase::Ready;
            }
            // A call in doubt holds the driver up, whoever asked for it.
            Phase::Consulting { .. } if !self.state.data.calls.is_empty() => {}
            Phase::Consulting { request } => match self.state.data.retry_at {
                Some(at) if at > self.now => self.wait_on(at),
                Some(_) | None => match request {
                    Consultation::Agent(call) => self.ask_agent_again(*call),
                    other => self.consult(other),
                },
            },
            Phase::Checkpointing { summary } | Phase::Verifying { summary } => {
                self.check_claim(summary)
            }
            Phase::Waiting(wait) => {
                if let Some(at) = wait.moment() {
                    self.set_alarm(at);
                }
            }
            Phase::Acting => {
                if let Some(at) = self.state.data.wakes_at {
                    self.set_alarm(at);
                }
            }
            Phase::New
            | Phase::Ready
            | Phase::Judging(_)
            | Phase::RollingBack { .. }
            | Phase::Escalated { .. }
            | Phase::Finished { .. } => {}
        }
    }
}
