//! What follows a failed turn: the next rung of the ladder that the task has for this cause. All of it is state, so it
//! survives the process, and no driver can keep it from happening.

use crate::activity::request::digest;
use crate::agent::{AgentEnd, AgentFault, AgentTurn};
use crate::cause::{Cause, ModelTrouble, Repetition, Surroundings};
use crate::driver::{Fact, Note, NoteKind, Retry};
use crate::event::EventKind;
use crate::id::CallId;
use crate::message::StopReason;
use crate::policy::recovery::{Rung, usual};
use crate::policy::stuck::Found;
use crate::state::{Call, CallStatus, Pending, Phase};
use crate::step::Step;
use crate::task::Outcome;
use crate::time::Span;

/// A failure that something is to be done about.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// What happened, for a person and for whoever goes on.
    pub(crate) reason: String,
    /// Whether the driver has given up over it.
    pub(crate) gave_up: bool,
}

impl Step<'_> {
    /// Walks the ladder of the cause by one rung; what cannot be done here is left out.
    pub(crate) fn recover(&mut self, failure: Failure) {
        let Some(kind) = failure.cause.ladder() else { return self.give_in(failure) };
        let ladder = self.state.data.spec.recovery.ladder(kind);
        let length = u32::try_from(ladder.rungs.len()).unwrap_or(u32::MAX);
        loop {
            let tried = self.state.data.course.tried.entry(kind).or_default();
            *tried = tried.saturating_add(1);
            let attempt = *tried;
            let Some(rung) = ladder.rung(kind, attempt) else { return self.give_in(failure) };
            // A driver that has given up again after the last rung gives up after the same one, too.
            if failure.gave_up && attempt > length {
                return self.give_in(failure);
            }
            if self.is_possible(rung) {
                let rung = rung.clone();
                if attempt <= length && !matches!(rung, Rung::NextTurn | Rung::GiveUp) {
                    // Something else is tried: it gets as many chances as what was tried before.
                    self.state.data.streak.forget();
                }
                return self.climb(rung, failure, attempt);
            }
            if attempt >= length {
                return self.give_in(failure);
            }
        }
    }

    /// Whether the next failure of this kind meets something that has not been tried: another way than going on.
    pub(crate) fn has_another_way(&self, cause: &Cause) -> bool {
        let Some(kind) = cause.ladder() else { return false };
        let data = &self.state.data;
        let ladder = data.spec.recovery.ladder(kind);
        let tried = usize::try_from(data.course.tried.get(&kind).copied().unwrap_or(0));
        let rest = ladder.rungs.get(tried.unwrap_or(usize::MAX)..).unwrap_or_default();
        rest.iter().find(|rung| self.is_possible(rung)).is_some_and(|rung| *rung != Rung::NextTurn)
    }

    fn is_possible(&self, rung: &Rung) -> bool {
        let data = &self.state.data;
        match rung {
            Rung::RollBack => {
                data.base.is_some()
                    && data.workspace.as_ref().is_some_and(|place| place.path.is_some())
            }
            Rung::HandOver(name) => data.spec.recovery.drivers.contains_key(name),
            Rung::NextTurn | Rung::FreshSession | Rung::Escalate | Rung::GiveUp => true,
        }
    }

    fn climb(&mut self, rung: Rung, failure: Failure, attempt: u32) {
        // That a failed verdict goes back to the driver is told by the verdict; an end is told by the end.
        let told = matches!((&rung, &failure.cause), (Rung::NextTurn, Cause::VerdictFailed { .. }))
            && !failure.gave_up;
        if !told && rung != Rung::GiveUp {
            let (cause, action, reason) =
                (failure.cause.clone(), rung.clone(), failure.reason.clone());
            self.event(|| EventKind::RecoveryChosen { cause, action, attempt, reason });
        }
        match rung {
            Rung::NextTurn => {
                if !told {
                    self.have_retried(&failure.reason, false);
                }
                self.state.data.phase = Phase::Ready;
            }
            Rung::FreshSession => {
                self.have_retried(&failure.reason, true);
                self.state.data.phase = Phase::Ready;
            }
            Rung::RollBack => {
                self.have_retried(&failure.reason, true);
                self.state.data.streak.forget_tree();
                if let Some(base) = &self.state.data.base {
                    let name = base.name.clone();
                    self.roll_back(name);
                }
            }
            Rung::HandOver(name) => self.pass_on(&name, failure.reason),
            Rung::Escalate => {
                let Failure { cause, reason, .. } = failure;
                let (over, said) = (cause.clone(), reason.clone());
                let question = self.put_question(None);
                self.event(|| EventKind::Escalated { cause: over, reason: said, question });
                self.state.data.phase = Phase::Escalated { cause, reason };
            }
            Rung::GiveUp => self.give_in(failure),
        }
    }

    /// Has the driver try again, with what it knows or without.
    fn have_retried(&mut self, why: &str, fresh: bool) {
        self.state.data.course.trouble = None;
        if fresh {
            // One that only goes on still waits for what it decided.
            self.state.data.held = None;
            self.state.data.course.watch.forget_turns();
        }
        let retry = Retry { why: why.to_owned(), fresh };
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::Retry(&retry));
    }

    /// Puts another driver of the task in charge; it is told what failed.
    fn pass_on(&mut self, name: &str, reason: String) {
        let Some(spec) = self.state.data.spec.recovery.drivers.get(name).cloned() else { return };
        let data = &mut self.state.data;
        data.successor = Some(spec);
        data.held = None;
        data.retry_at = None;
        data.course.trouble = None;
        data.course.watch.forget_turns();
        data.course.brief = Some(reason);
        data.phase = Phase::Ready;
    }

    /// Tells a driver that has just taken over, in the ladder's course, what it could not know.
    pub(crate) fn brief_successor(&mut self, former: &str) {
        let Some(why) = self.state.data.course.brief.take() else { return };
        if former == self.state.driver.name {
            // One of the same kind goes on with what the former knew, and has to be set going.
            let retry = Retry { why, fresh: false };
            let (driver, situation) = self.driver();
            return driver.observe(&situation, &Fact::Retry(&retry));
        }
        let results = self.state.data.course.verdict.clone();
        let failed = results.iter().any(|result| result.fails());
        let retry = Retry { why, fresh: false };
        let (driver, situation) = self.driver();
        if failed {
            driver.observe(&situation, &Fact::VerdictFailed(&results));
        } else {
            driver.observe(&situation, &Fact::Retry(&retry));
        }
    }

    /// Nothing is tried any more, unless a person who is there says what to do instead.
    fn give_in(&mut self, mut failure: Failure) {
        let asked_wait = self.asked_wait(&failure.cause);
        if let Some(wait) = asked_wait {
            failure.reason.push_str(&format!("; it asks to be left alone for {wait}"));
        }
        let (driver, _) = self.driver();
        if driver.gives_the_word_back(&failure.reason) {
            self.state.data.course.trouble = None;
            self.state.data.phase = Phase::Ready;
        } else if asked_wait.is_some() {
            self.climb(Rung::Escalate, failure, 1);
        } else {
            self.end_by(failure);
        }
    }

    /// How long a model wants to be left alone, if this is what failed and the task does not say what to do about it: years
    /// are not waited for, but neither is the work lost.
    fn asked_wait(&mut self, cause: &Cause) -> Option<Span> {
        let asked = self.state.data.course.asked_wait.take()?;
        let kind = cause.ladder().filter(|_| matches!(cause, Cause::ModelFailed { .. }))?;
        (self.state.data.spec.recovery.ladder(kind) == usual(kind)).then_some(asked)
    }

    fn end_by(&mut self, failure: Failure) {
        let Failure { cause, reason, .. } = failure;
        let outcome = if cause.is_circle() { Outcome::Stuck } else { Outcome::Failed };
        self.finish_because(outcome, reason, Some(cause));
    }

    /// The driver gave up: over what it was last told, or by its own word.
    pub(crate) fn on_give_up(&mut self, reason: String, stuck: bool) {
        let trouble = self.state.data.course.trouble.take();
        let cause = match trouble {
            _ if stuck => Cause::NoProgress { what: Repetition::Driver },
            Some(cause) => cause,
            None => Cause::GaveUp,
        };
        self.recover(Failure { cause, reason, gave_up: true });
    }

    /// Looks at what happened in a row once nothing is under way; true if something was done about it.
    pub(crate) fn look_back(&mut self) -> bool {
        if !matches!(self.state.data.phase, Phase::Ready | Phase::Consulting { .. }) {
            return false;
        }
        if let Some(found) = self.state.data.course.watch.found.take() {
            self.on_no_progress(found);
            return true;
        }
        if self.state.data.phase != Phase::Ready {
            return false;
        }
        let Some(failure) = self.failed_in_a_row() else { return false };
        self.recover(failure);
        true
    }

    fn failed_in_a_row(&mut self) -> Option<Failure> {
        let course = &self.state.data.course;
        if (course.timeouts, course.errors, course.denies) == (0, 0, 0) {
            return None;
        }
        let recovery = &self.state.data.spec.recovery;
        let after =
            |cause: &Cause| cause.ladder().map_or(0, |kind| u64::from(recovery.ladder(kind).after));
        let causes = [
            (Cause::TimedOut { count: course.timeouts }, course.timeouts),
            (Cause::ToolErrors { count: course.errors }, course.errors),
            (Cause::Denied { count: course.denies }, course.denies),
        ];
        let reached = |(cause, count): &(Cause, u64)| *count > 0 && *count >= after(cause);
        let (cause, _) = causes.into_iter().find(reached)?;
        let course = &mut self.state.data.course;
        (course.timeouts, course.errors) = match cause {
            Cause::Denied { .. } => (course.timeouts, course.errors),
            _ => (0, 0),
        };
        course.denies = 0;
        let reason = cause.to_string();
        Some(Failure { cause, reason, gave_up: false })
    }

    /// What is done leads nowhere: whatever is under way is stopped, and something else is tried or it ends.
    pub(crate) fn on_no_progress(&mut self, found: Found) {
        self.stop(|pending| !matches!(pending, Pending::Deadline));
        self.close_requests("it goes round in circles");
        self.abort_calls("it goes round in circles");
        self.settle_doubts();
        self.close_turn();
        let Found { what, said } = found;
        let cause = Cause::NoProgress { what };
        self.state.data.course.watch.forget_turns();
        self.state.data.streak.forget();
        self.recover(Failure { cause, reason: said, gave_up: false });
    }

    /// Remembers what a model's answer may make the driver give up over.
    pub(crate) fn note_reply(&mut self, stop: Option<StopReason>, failure: Option<ModelTrouble>) {
        let failure = failure.or(match stop {
            Some(StopReason::Refusal) => Some(ModelTrouble::Refusal),
            Some(StopReason::MaxTokens) => Some(ModelTrouble::BadReply),
            _ => None,
        });
        self.state.data.course.trouble = failure.map(|failure| Cause::ModelFailed { failure });
    }

    /// Remembers what the end of an agent's turn may make the driver give up over.
    pub(crate) fn note_agent_ended(&mut self, ended: &Result<AgentTurn, String>) {
        let model = |failure| Some(Cause::ModelFailed { failure });
        self.state.data.course.trouble = match ended.as_ref().map(|turn| &turn.end) {
            Ok(AgentEnd::Done | AgentEnd::Interrupted) => None,
            // Nothing is to be tried again: the driver gives up by its own word.
            Ok(AgentEnd::Broken(AgentFault::Policy)) => None,
            Ok(AgentEnd::Refused) => model(ModelTrouble::Refusal),
            Ok(AgentEnd::ContextOverflow) => model(ModelTrouble::ContextOverflow),
            Ok(AgentEnd::Model { kind, .. }) => model(ModelTrouble::of_kind(kind)),
            Ok(AgentEnd::NoSession | AgentEnd::Limit | AgentEnd::Failed | AgentEnd::Broken(_))
            | Err(_) => Some(Cause::WorkerDied),
        };
    }

    /// A person says what is to become of a task that was escalated.
    pub(crate) fn on_escalation_answered(&mut self, line: &str) {
        let Phase::Escalated { cause, reason } = self.state.data.phase.clone() else { return };
        let said = line.trim();
        self.event(|| EventKind::Told { line: said.to_owned() });
        match said.to_lowercase().as_str() {
            "give up" | "give-up" | "no" | "n" => {
                self.end_by(Failure { cause, reason, gave_up: true })
            }
            "go on" | "go-on" | "yes" | "y" | "" => self.go_on(),
            _ => {
                let note = Note { kind: NoteKind::Steer, text: said.to_owned() };
                self.state.data.notes.push_back(note);
                self.go_on();
            }
        }
    }

    /// Goes on after an escalation.
    pub(crate) fn go_on(&mut self) {
        let Phase::Escalated { cause, reason } = self.state.data.phase.clone() else { return };
        // After a failed verdict a worker knows what to do next.
        let knows = matches!(cause, Cause::VerdictFailed { .. });
        if !knows || self.state.driver.ends_by_verdict() {
            self.have_retried(&reason, false);
        }
        self.state.data.phase = Phase::Ready;
    }

    /// A person has stepped in: what was tried and counted before does not count any more.
    pub(crate) fn begin_anew(&mut self) {
        self.state.data.course.begin_anew();
        self.state.data.streak.forget();
    }

    /// Somebody lets a call pass: that it was denied before says nothing about it any more.
    pub(crate) fn forget_denials(&mut self, id: CallId) {
        let data = &mut self.state.data;
        if let Some(call) = data.calls.iter().find(|call| call.id == id) {
            data.course.watch.on_allowed(digest(&call.action.tool, &call.action.input));
        }
    }

    /// Why a task that is let go of has not ended.
    pub(crate) fn waiting_cause(&self) -> Cause {
        let state = &*self.state;
        if let Phase::Escalated { cause, .. } = &state.data.phase {
            return Cause::Escalated { over: Box::new(cause.clone()) };
        }
        let doubtful = |call: &Call| call.status == CallStatus::InDoubt;
        if state.data.calls.iter().any(doubtful) {
            return Cause::InDoubt;
        }
        if state.data.look_first.is_some() || !state.asks().is_empty() {
            return Cause::AsksPerson;
        }
        let waits = state.data.retry_at.is_some_and(|at| at > self.now);
        if waits && matches!(state.data.phase, Phase::Consulting { .. }) {
            return Cause::UsageLimit;
        }
        Cause::LetGo
    }

    /// The cause of an end that nobody named one for.
    pub(crate) fn cause_of(&self, outcome: Outcome) -> Option<Cause> {
        let part = match self.state.data.phase {
            Phase::OpeningWorkspace => Some(Surroundings::Workspace),
            Phase::KeepingBase | Phase::Checkpointing { .. } => Some(Surroundings::Checkpoint),
            Phase::Verifying { .. } => Some(Surroundings::Verdict),
            Phase::RollingBack { .. } => Some(Surroundings::Rollback),
            _ => None,
        };
        match outcome {
            Outcome::Verified | Outcome::Completed => None,
            Outcome::Cancelled => Some(Cause::Cancelled),
            Outcome::BudgetExhausted => Some(Cause::Budget { axes: Vec::new() }),
            Outcome::Waiting => Some(self.waiting_cause()),
            Outcome::Stuck => Some(Cause::NoProgress { what: Repetition::Driver }),
            Outcome::Failed => Some(part.map_or(Cause::GaveUp, |part| Cause::Environment { part })),
        }
    }
}
