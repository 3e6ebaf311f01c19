//! A task's life: start, attach, pause, cancel, interrupt, hand over, finish. These rules are the loop's own:
//! no driver, tool or refusal can keep them from working.

use std::sync::Arc;

use crate::cause::Cause;
use crate::driver::{DriverSlot, Note, NoteKind, agent, llm, user};
use crate::event::EventKind;
use crate::id::CallId;
use crate::input::Command;
use crate::policy::budget::{Budget, Exhausted};
use crate::policy::permission::Author;
use crate::state::{Attachment, Call, CallStatus, Pending, Phase};
use crate::step::Step;
use crate::task::{DriverSpec, FileStanding, Outcome, TaskSpec};
use crate::tool::{EffectClass, Status, ToolResult};

/// How much of a question is told with its answer to whoever did not ask it, in characters.
const QUESTION_KEPT: usize = 400;

impl Step<'_> {
    pub(crate) fn on_start(&mut self, spec: TaskSpec) {
        let DriverSpec { name, config } = &spec.driver;
        let prepared = self.state.prepared.take();
        let prepared = prepared.filter(|made| made.name == *name && *made.config == *config);
        let made =
            prepared.map_or_else(|| DriverSlot::create(name, config, &self.state.registry), Ok);
        self.state.driver = match made {
            Ok(driver) => driver,
            Err(reason) => return self.reject(format!("the driver cannot be made: {reason}")),
        };
        self.event(|| EventKind::TaskStarted {
            goal: spec.goal.clone(),
            driver: spec.driver.name.clone(),
            agent: spec.driver.agent().map(str::to_owned),
            criteria: spec.criteria().len(),
            sandbox: spec.sandbox.level,
        });
        // What was named on the command line goes without saying.
        if spec.files.iter().any(|file| file.standing != FileStanding::Named) {
            self.event(|| EventKind::FilesJudged { files: spec.files.clone() });
        }
        let data = &mut self.state.data;
        data.budget = spec.budget.clone();
        data.spec = Arc::new(spec);
        data.phase = Phase::Ready;
        data.started = self.clock;
    }

    pub(crate) fn on_attach(&mut self, owner: u64, attended: bool) {
        if let Some(attachment) = &self.state.data.attachment {
            return self
                .reject(format!("the task is driven by process {} already", attachment.owner));
        }
        self.state.data.owner_lost = false;
        // Nobody reports here what another process stopped.
        self.state.data.unpaid.clear();
        if self.is_finished() {
            return self.attach_to_go_back(owner);
        }
        self.state.data.attachment = Some(Attachment { owner, attended, draining: false });
        self.event(|| EventKind::Attached { owner, attended });
        // Nobody knows who was at the files while nobody drove the task.
        self.note_change();
        if !self.state.data.unready {
            self.renew_timers();
        }
        self.state.data.to_renew = true;
    }

    pub(crate) fn on_drain(&mut self) {
        match &mut self.state.data.attachment {
            Some(attachment) => attachment.draining = true,
            None => self.reject("no process drives the task"),
        }
    }

    pub(crate) fn on_detach(&mut self, reason: String) {
        if self.state.data.attachment.take().is_none() {
            return self.reject("no process drives the task");
        }
        // They were stopped, and the process that lets go still hears what they cost.
        let pending = self.state.data.pending.iter();
        let costly = pending.filter(|(_, what)| what.costs()).map(|(id, _)| *id);
        let unpaid = costly.chain(self.state.data.unpaid.iter().copied()).collect();
        self.lose_effects();
        self.state.data.unpaid = unpaid;
        self.event(|| EventKind::Detached { reason: reason.clone() });
        if self.is_finished() {
            return;
        }
        let cause = Some(self.waiting_cause());
        let (spend, sandbox) = (self.state.data.spend.clone(), self.state.data.spec.sandbox.level);
        self.event(|| EventKind::TaskFinished {
            outcome: Outcome::Waiting,
            exit_code: Outcome::Waiting.exit_code(),
            reason,
            spend,
            sandbox,
            cause,
            outputs: None,
        });
    }

    pub(crate) fn on_owner_lost(&mut self) {
        self.state.data.attachment = None;
        self.state.data.owner_lost = true;
        let (repeated, in_doubt) = self.lose_effects();
        self.event(|| EventKind::OwnerLost { repeated, in_doubt });
    }

    /// Nobody performs the outstanding effects any more. What is repeatable will be repeated when a process
    /// takes the task up; an unsafe call is in doubt.
    fn lose_effects(&mut self) -> (Vec<CallId>, Vec<CallId>) {
        self.state.data.pending.clear();
        self.state.data.unpaid.clear();
        self.charge_lost_requests();
        self.state.data.held_asks.clear();
        self.return_notes();
        self.state.data.tools_open = false;
        self.lose_requests();
        self.forget_deciders();
        self.leave_undone(|_| true)
    }

    /// What becomes of running calls that nobody will report on.
    fn leave_undone(&mut self, which: impl Fn(&Call) -> bool) -> (Vec<CallId>, Vec<CallId>) {
        let (mut repeated, mut in_doubt) = (Vec::new(), Vec::new());
        for call in &mut self.state.data.calls {
            if matches!(call.status, CallStatus::Running { .. }) && which(call) {
                if call.class == EffectClass::Unsafe {
                    call.status = CallStatus::InDoubt;
                    in_doubt.push(call.id);
                } else {
                    call.status =
                        CallStatus::Queued { approved: true, repeated: true, by: String::new() };
                    repeated.push(call.id);
                }
            }
        }
        for id in &in_doubt {
            let found = self.state.data.calls.iter().find(|call| call.id == *id);
            if let Some((tool, input)) =
                found.map(|call| (call.action.tool.clone(), Arc::clone(&call.action.input)))
            {
                self.event(|| EventKind::CallInDoubt { call: *id, tool, input });
            }
        }
        (repeated, in_doubt)
    }

    pub(crate) fn on_pause(&mut self) {
        if self.is_finished() {
            return self.reject(self.ended());
        }
        if self.state.data.paused {
            return self.reject("the task is paused already");
        }
        self.state.data.paused = true;
        self.event(|| EventKind::Paused);
        self.hand_on(|| Command::Pause);
    }

    /// Nobody goes on with files of which nobody knows what they are: a person looks, and resumes.
    pub(crate) fn have_looked_at(&mut self, reason: String) {
        self.state.data.look_first = Some(format!("{reason}: look at the files, then resume it"));
        if !self.state.data.paused {
            self.state.data.paused = true;
            // One that has ended makes no move anyway; if somebody has it go on, it waits then.
            if !self.is_finished() {
                self.event(|| EventKind::Paused);
            }
        }
    }

    pub(crate) fn on_resume(&mut self) {
        if self.is_finished() {
            return self.reject(self.ended());
        }
        if !self.state.data.paused {
            return self.reject("the task is not paused");
        }
        self.state.data.paused = false;
        self.state.data.look_first = None;
        self.event(|| EventKind::Resumed);
        self.hand_on(|| Command::Resume);
        // What was put back could not be made ready, and what was under way has not begun again.
        let data = &mut self.state.data;
        data.to_renew |= data.unready && data.attachment.is_some();
        if !data.unready {
            self.renew_deadline();
        }
    }

    pub(crate) fn on_cancel(&mut self, reason: String) {
        match &self.state.data.phase {
            Phase::Finished { outcome: Outcome::BudgetExhausted, .. } => {}
            Phase::Finished { .. } => return self.reject(self.ended()),
            _ => {}
        }
        let reason = if reason.is_empty() { "cancelled".to_owned() } else { reason };
        self.abort_calls("the task was cancelled");
        self.finish(Outcome::Cancelled, reason);
    }

    pub(crate) fn on_interrupt(&mut self, note: String) {
        if self.is_finished() {
            return self.reject(self.ended());
        }
        let note = Note { kind: NoteKind::Interrupt, text: note };
        if self.pass_on_note(&note) {
            return;
        }
        self.stop(|pending| {
            !matches!(
                pending,
                Pending::Deadline | Pending::Workspace | Pending::Tools | Pending::Restore
            )
        });
        self.state.data.retry_at = None;
        self.state.data.held_claim = None;
        self.abort_calls("interrupted by the operator");
        match self.state.data.phase {
            Phase::Consulting { .. }
            | Phase::KeepingBase
            | Phase::Checkpointing { .. }
            | Phase::Verifying { .. }
            | Phase::Judging(_)
            | Phase::Waiting(_) => self.state.data.phase = Phase::Ready,
            Phase::Escalated { .. } => self.go_on(),
            // Files that are half way between two states are nobody's wish: that is brought to its end.
            Phase::RollingBack { .. }
            | Phase::New
            | Phase::OpeningWorkspace
            | Phase::OpeningTools
            | Phase::Ready
            | Phase::Acting
            | Phase::Finished { .. } => {}
        }
        self.queue_note(note);
    }

    pub(crate) fn on_steer(&mut self, text: String) {
        if self.is_finished() {
            return self.reject(self.ended());
        }
        let note = Note { kind: NoteKind::Steer, text };
        if self.pass_on_note(&note) {
            return;
        }
        // A worker can think again about what it has not begun; a step the operator wrote stands.
        self.end_calls(Status::Skipped, "the operator steered before it began", |call| {
            matches!(call.status, CallStatus::Queued { repeated: false, .. })
                && call.action.author == crate::policy::permission::Author::Worker
        });
        if !self.steer_agent(&note.text) {
            self.queue_note(note);
        }
    }

    pub(crate) fn on_follow_up(&mut self, text: String) {
        if self.is_finished() {
            return self.reject(self.ended());
        }
        let note = Note { kind: NoteKind::FollowUp, text };
        self.state.data.follow_ups.push_back(note.clone());
        self.event(|| EventKind::NoteQueued { note });
    }

    /// Somebody else has the note already.
    pub(crate) fn tell_passed_on(&mut self, note: Note) {
        self.event(|| EventKind::NoteQueued { note: note.clone() });
        self.event(|| EventKind::NoteDelivered { note });
    }

    pub(crate) fn queue_note(&mut self, note: Note) {
        self.state.data.notes.push_back(note.clone());
        self.event(|| EventKind::NoteQueued { note });
    }

    pub(crate) fn on_raise(&mut self, raise: &Budget) {
        match &self.state.data.phase {
            Phase::Finished { outcome: Outcome::BudgetExhausted, .. } => {
                if let Some(around) = self.state.data.begun_by() {
                    return self.reject(format!(
                        "{}, and task {around}, whose step began it, says what it may spend: raise that \
                         one, if it waits for this one still",
                        self.ended()
                    ));
                }
            }
            Phase::Finished { .. } => return self.reject(self.ended()),
            _ => {}
        }
        // What it spends is spent of what the task around it has.
        if let Some(around) = self.state.data.begun_by()
            && (raise.max_usd.is_some() || raise.max_tokens.is_some())
        {
            return self.reject(format!(
                "task {around}, whose step began it, says what it may spend: raise that one"
            ));
        }
        if let Err(reason) = self.state.data.budget.raise(raise) {
            return self.reject(reason);
        }
        if raise.max_usd.is_some() {
            self.state.data.spend.allow_unpriced();
        }
        let budget = self.state.data.budget.clone();
        self.event(|| EventKind::BudgetRaised { budget });
        if self.is_finished() {
            self.reopen();
        }
        self.raise_children();
        self.renew_deadline();
    }

    pub(crate) fn on_hand_over(&mut self, driver: DriverSpec) {
        match &self.state.data.phase {
            Phase::Finished {
                outcome: Outcome::Failed | Outcome::Stuck | Outcome::BudgetExhausted,
                ..
            } => {
                if let Err(reason) = self.may_go_on_alone() {
                    return self.reject(reason);
                }
            }
            Phase::Finished { .. } => return self.reject(self.ended()),
            _ => {}
        }
        if let Err(reason) = DriverSlot::create(&driver.name, &driver.config, &self.state.registry)
        {
            return self.reject(format!("the driver cannot be made: {reason}"));
        }
        if self.is_finished() {
            self.reopen();
        }
        let data = &mut self.state.data;
        data.budget.bound(&driver, data.spend.turns);
        self.state.data.successor = Some(driver);
        self.state.data.held = None;
        self.state.data.held_claim = None;
        self.state.data.retry_at = None;
        self.state.data.course.trouble = None;
        // What the former driver waits for no longer matters; calls under way end first.
        if matches!(
            self.state.data.phase,
            Phase::Waiting(_)
                | Phase::KeepingBase
                | Phase::Consulting { .. }
                | Phase::Checkpointing { .. }
                | Phase::Verifying { .. }
                | Phase::Judging(_)
                | Phase::Escalated { .. }
        ) {
            self.close_requests("somebody else decides");
            self.keep_untold_notes();
            self.cancel_children("somebody else decides in the task that began it");
            self.stop(|pending| !matches!(pending, Pending::Deadline));
            self.state.data.phase = Phase::Ready;
        }
        // What it wished for and nobody has begun is no longer asked of anybody, so that the successor decides at once.
        self.end_calls(Status::Skipped, "somebody else decides", |call| match &call.status {
            // One that may have run is repeated, as it would be without the hand-over: skipped would not be true of it.
            CallStatus::Queued { repeated, .. } => !repeated,
            CallStatus::AwaitingApproval { .. }
            | CallStatus::AwaitingDecider { .. }
            | CallStatus::AwaitingAnswer => true,
            CallStatus::Running { .. } | CallStatus::InDoubt | CallStatus::Done(_) => false,
        });
    }

    /// Puts the successor in charge, if one was named.
    pub(crate) fn succeed(&mut self) {
        let Some(spec) = self.state.data.successor.take() else { return };
        match DriverSlot::create(&spec.name, &spec.config, &self.state.registry) {
            Ok(mut driver) => {
                driver.live.inherit(&self.state.driver.save());
                self.state.data.asked_person = None;
                let from = std::mem::replace(&mut self.state.driver, driver).name;
                // An agent goes on counting where the one before it was, and may go on in its conversation.
                if from != agent::KIND || spec.name != agent::KIND {
                    self.state.data.earlier_conversations = self.state.data.conversations;
                    self.dismiss_agents();
                }
                let program = &spec.config["program"];
                let agent = spec.agent();
                let model = spec.config["model"].as_str().or(program["model"].as_str());
                let (agent, model) = (agent.map(str::to_owned), model.map(str::to_owned));
                let former = from.clone();
                let to = spec.name.clone();
                self.event(|| EventKind::DriverChanged { from, to, model, agent });
                self.brief_successor(&former);
                self.hand_on_what_was_told(&former, &spec.name);
            }
            // It was made once already, when the hand-over was accepted, from the same plain data.
            Err(reason) => self.finish(Outcome::Failed, reason),
        }
    }

    /// Keeps what a person said until the driver has decided since. A question is quoted: none of it may look like the operator's
    /// own words.
    pub(crate) fn remember_told(&mut self, said: &str, question: &str) {
        let question: String = question.chars().take(QUESTION_KEPT).collect();
        self.state.data.told.push(match question.as_str() {
            "" => said.to_owned(),
            question => format!("{said} (the answer to {question:?})"),
        });
    }

    /// What people said and the former driver has not acted on is said to its successor, save what was about the former alone.
    fn hand_on_what_was_told(&mut self, former: &str, successor: &str) {
        let told = std::mem::take(&mut self.state.data.told);
        // A model goes on with the conversation that it stands in.
        if (former, successor) == (llm::KIND, llm::KIND) {
            return;
        }
        let is_own = |line: &String| match former {
            llm::KIND => llm::is_command(line),
            user::KIND => user::parse(line) == Ok(user::Move::Help),
            _ => false,
        };
        for text in told.into_iter().filter(|line| !is_own(line)) {
            self.queue_note(Note { kind: NoteKind::Steer, text });
        }
    }

    /// Whether a task that has ended can go on. The files of one that a step began are those of the task around it, which
    /// has gone on with them.
    fn may_go_on_alone(&self) -> Result<(), String> {
        let Some(around) = self.state.data.begun_by() else { return Ok(()) };
        Err(format!(
            "{}, and task {around}, whose step began it, has gone on without it in the same files",
            self.ended()
        ))
    }

    /// A task that a limit or its driver had ended goes on; a process has to take it up.
    pub(crate) fn reopen(&mut self) {
        let data = &mut self.state.data;
        let cut_short = data.cut_short.take();
        self.state.data.phase = match data.going_back.clone().or(cut_short) {
            Some(to) => Phase::RollingBack { to },
            None if self.state.data.calls.is_empty() => Phase::Ready,
            None => Phase::Acting,
        };
    }

    pub(crate) fn exhaust(&mut self, axes: Vec<Exhausted>) {
        let words: Vec<String> = axes
            .iter()
            .map(|a| format!("{} = {} reached ({})", a.axis, a.limit, a.spent))
            .collect();
        let cause = Cause::Budget { axes: axes.iter().map(|axis| axis.axis.clone()).collect() };
        self.event(|| EventKind::BudgetExhausted { axes });
        self.close_requests("the budget was exhausted");
        self.set_steps_aside();
        self.end_calls(Status::Aborted, "the budget was exhausted", |call| {
            matches!(call.status, CallStatus::Running { .. })
        });
        self.finish_because(Outcome::BudgetExhausted, words.join(", "), Some(cause));
    }

    /// Stops the steps under way that were written down, so that they can be gone on with once there is more: a worker
    /// thinks of something else, but a list of steps would end over one that failed.
    fn set_steps_aside(&mut self) {
        if !self.state.driver.ends_by_verdict() {
            return;
        }
        let is_step = |call: &Call| {
            call.action.author == Author::Operator
                && matches!(call.status, CallStatus::Running { .. })
        };
        let steps: Vec<CallId> =
            self.state.data.calls.iter().filter(|call| is_step(call)).map(|call| call.id).collect();
        for id in &steps {
            self.stop(|pending| *pending == Pending::Call(*id));
        }
        self.leave_undone(|call| steps.contains(&call.id));
    }

    /// Ends the task by the cause that its phase tells.
    pub(crate) fn finish(&mut self, outcome: Outcome, reason: String) {
        let cause = self.cause_of(outcome);
        self.finish_because(outcome, reason, cause);
    }

    /// Ends the task: nothing stays outstanding.
    pub(crate) fn finish_because(
        &mut self,
        outcome: Outcome,
        reason: String,
        cause: Option<Cause>,
    ) {
        // The driver has begun anew already: with a larger budget the files go back first.
        let data = &mut self.state.data;
        data.cut_short = match &data.phase {
            Phase::RollingBack { to }
                if outcome == Outcome::BudgetExhausted && data.going_back.is_none() =>
            {
                Some(to.clone())
            }
            _ => None,
        };
        // Nobody is asked any more who could be told; a larger budget lets the driver go on.
        if outcome != Outcome::BudgetExhausted {
            self.cancel_children("the task that began it has ended");
            self.state.data.steered.clear();
        }
        self.stop(|_| true);
        self.forget_deciders();
        if outcome != Outcome::BudgetExhausted {
            self.abort_calls("the task ended");
            self.settle_doubts();
            self.close_turn();
        }
        self.state.data.attachment = None;
        self.state.data.tools_open = false;
        self.state.data.phase =
            Phase::Finished { outcome, reason: reason.clone(), cause: cause.clone() };
        let outputs = if matches!(outcome, Outcome::Completed | Outcome::Verified) {
            let (driver, situation) = self.driver();
            driver.outputs(&situation)
        } else {
            None
        };
        let (spend, sandbox) = (self.state.data.spend.clone(), self.state.data.spec.sandbox.level);
        self.event(|| EventKind::TaskFinished {
            outcome,
            exit_code: outcome.exit_code(),
            reason,
            spend,
            sandbox,
            cause,
            outputs,
        });
    }

    /// Gives every open call of the turn its one result: what ran is aborted, what did not is skipped. A
    /// call in doubt stays so: a person may still say.
    pub(crate) fn abort_calls(&mut self, why: &str) {
        self.end_calls(Status::Aborted, why, |call| {
            matches!(call.status, CallStatus::Running { .. })
        });
        self.end_calls(Status::Skipped, why, |call| {
            matches!(
                call.status,
                CallStatus::Queued { .. }
                    | CallStatus::AwaitingApproval { .. }
                    | CallStatus::AwaitingDecider { .. }
                    | CallStatus::AwaitingAnswer
            )
        });
    }

    /// Nobody will ask any more: a call in doubt has that as its result.
    pub(crate) fn settle_doubts(&mut self) {
        self.end_calls(Status::InDoubt, "nobody said whether it ran", |call| {
            call.status == CallStatus::InDoubt
        });
    }

    pub(crate) fn end_calls(
        &mut self,
        status: Status,
        why: &str,
        which: impl Fn(&crate::state::Call) -> bool,
    ) {
        let ids: Vec<CallId> =
            self.state.data.calls.iter().filter(|call| which(call)).map(|call| call.id).collect();
        for id in ids {
            self.stop(|pending| *pending == Pending::Call(id));
            self.stop_deciders(id);
            self.end_call(id, ToolResult::ended(status, why));
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.state.data.phase, Phase::Finished { .. })
    }

    pub(crate) fn ended(&self) -> String {
        match &self.state.data.phase {
            Phase::Finished { outcome, .. } => format!("the task has ended: {}", outcome.word()),
            _ => "the task has not ended".to_owned(),
        }
    }
}
