//! Model calls: what they cost is counted once, failed ones too; a failure that may heal is waited out, durably.

use crate::cause::ModelTrouble;
use crate::driver::llm::is_summary;
use crate::driver::{Consultation, Fact};
use crate::effect::Effect;
use crate::event::EventKind;
use crate::message::{ModelCall, ModelFailure, Part, Reply, StopReason, Usage};
use crate::policy::budget::Exhausted;
use crate::policy::price::dollars;
use crate::policy::retry;
use crate::state::{Pending, Phase};
use crate::step::Step;
use crate::time::{Span, Timestamp};

impl Step<'_> {
    /// A new question: what became of the one before does not count any more.
    pub(crate) fn begin_question(&mut self, request: &mut Consultation) {
        // A limit ended the task while its model was waited for: the model is not asked sooner for that.
        let until = self.state.data.retry_at.filter(|at| *at > self.now);
        self.forget_failures();
        self.state.data.retry_at = until;
        if let Consultation::Model(call) = request {
            self.state.data.questions += 1;
            call.question = self.state.data.questions;
        }
    }

    pub(crate) fn forget_failures(&mut self) {
        self.state.data.model_failures = 0;
        self.state.data.model_waited = Span::default();
        self.state.data.retry_at = None;
    }

    pub(crate) fn call_model(&mut self, call: ModelCall) {
        self.state.data.retry_at = None;
        let id = self.expect(Pending::Model);
        let (model, messages) = (call.model.clone(), call.messages.len());
        let folder = self.state.data.spec.folder.clone();
        self.output.effects.push(Effect::CallModel { id, call, folder });
        self.event(|| EventKind::ModelCalled { model, messages });
    }

    pub(crate) fn on_model_replied(&mut self, reply: Result<Reply, ModelFailure>) {
        let usage = self.pay(&reply);
        let spend = &mut self.state.data.spend;
        match &reply {
            Ok(reply) => {
                spend.context_overflows = 0;
                self.forget_failures();
                let tools = reply.message.blocks.iter().filter_map(|block| match &block.part {
                    Part::ToolUse { name, .. } => Some(name.clone()),
                    _ => None,
                });
                let (model, text, stop) = (reply.model.clone(), reply.message.text(), reply.stop);
                let tools: Vec<String> = tools.collect();
                let compacted = self.compacted(reply);
                let idle = tools.is_empty();
                if idle && stop == StopReason::Pause {
                    self.count_idle_turn();
                }
                self.note_reply(Some(stop).filter(|_| idle), None);
                self.event(|| EventKind::ModelReplied { model, text, tools, stop, usage });
                if let Some(messages) = compacted {
                    // What it did before is no longer before its eyes: it may look again.
                    self.state.data.course.watch.forget_turns();
                    self.event(|| EventKind::Compacted { messages });
                }
            }
            Err(failure) => {
                if failure.is_overflow() {
                    spend.context_overflows += 1;
                }
                if self.wait_out(failure) {
                    return;
                }
                self.note_reply(None, Some(ModelTrouble::of(failure)));
            }
        }
        self.state.data.phase = Phase::Ready;
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::Replied(reply.as_ref()));
    }

    /// The length of the conversation that this answer sums up, if it does.
    fn compacted(&self, reply: &Reply) -> Option<usize> {
        match &self.state.data.phase {
            Phase::Consulting { request: Consultation::Model(call) }
                if call.compacts && is_summary(reply) =>
            {
                // The last message is the request itself.
                Some(call.messages.len().saturating_sub(1))
            }
            _ => None,
        }
    }

    /// Counts what a call cost, whether its answer is still wanted or not.
    pub(crate) fn pay(&mut self, reply: &Result<Reply, ModelFailure>) -> Usage {
        let usage = match reply {
            Ok(reply) => reply.usage,
            Err(failure) => {
                self.count_wasted(failure);
                failure.usage
            }
        };
        let spend = &mut self.state.data.spend;
        spend.tokens = spend.tokens.saturating_add(usage.total());
        match usage.nanodollars {
            Some(cost) => spend.usd += dollars(cost),
            None if reply.is_ok() || usage.total() > 0 => spend.unpriced += 1,
            None => {}
        }
        usage
    }

    /// Counts what a call had cost when it was stopped.
    pub(crate) fn pay_stopped(&mut self, reply: &Result<Reply, ModelFailure>) {
        // A whole answer to a question of a task that was put down is kept, and counted when it is asked again.
        let is_put_down = self.state.data.attachment.is_none() && !self.is_finished();
        if reply.is_err() || !is_put_down {
            self.pay(reply);
        }
    }

    /// Counts a request that came to nothing. What was stopped here, or never asked, was not in vain.
    pub(crate) fn count_wasted(&mut self, failure: &ModelFailure) {
        if retry::counts(failure) && failure.kind != "cancelled" {
            *self.state.data.spend.wasted.entry(failure.kind.clone()).or_default() += 1;
        }
    }

    /// Sets a timer to ask again, if that may help; false if the driver has to be told.
    pub(crate) fn wait_out(&mut self, failure: &ModelFailure) -> bool {
        let data = &mut self.state.data;
        if retry::counts(failure) {
            data.model_failures += 1;
        }
        let salt = retry::salt(&data.id, data.last_effect);
        let asked = retry::Asked {
            failures: data.model_failures,
            waited: data.model_waited,
            wasted: data.spend.wasted_requests(),
        };
        // Of an agent's own questions only the agent can tell its model.
        let asks = matches!(data.phase, Phase::Consulting { request: Consultation::Model(_) });
        let is_told = asks && retry::is_to_be_told(failure, asked.failures);
        let wait = retry::wait(failure, asked, &data.spec.recovery.waits, salt);
        let wait = wait.filter(|_| !is_told);
        let (kind, message) = (failure.kind.clone(), failure.message.clone());
        self.event(|| EventKind::ModelFailed { kind, message, again_in: wait.map(|wait| wait.0) });
        let Some(wait) = wait else {
            let data = &mut self.state.data;
            data.course.asked_wait = retry::for_a_person(failure, &data.spec.recovery.waits);
            self.forget_failures();
            return false;
        };
        if retry::is_own(failure) {
            self.state.data.model_waited.0 += wait.0;
        }
        let at = self.now.after(wait);
        self.state.data.retry_wait = wait;
        if let Some(axis) = self.outlasts_budget(wait) {
            self.state.data.retry_at = Some(at);
            self.exhaust(vec![axis]);
            return true;
        }
        self.ask_again_at(at);
        true
    }

    /// The limit of time that a wait would end after, if there is one: nobody waits for that.
    fn outlasts_budget(&self, wait: Span) -> Option<Exhausted> {
        let (limit, spent) = (self.state.data.budget.max_time?, self.state.data.spend.millis);
        let over = spent.saturating_add(wait.0) > limit.0;
        over.then(|| Exhausted {
            axis: "max_time".to_owned(),
            spent: format!("{}, and the model is to be waited for {wait}", Span(spent)),
            limit: limit.to_string(),
        })
    }

    /// Whether the model was to be left alone until a moment that has not come.
    pub(crate) fn waits_for_model(&self) -> bool {
        self.state.data.retry_at.is_some_and(|at| at > self.now)
    }

    /// Waits what is left, but never longer than the wait was: a clock that was set back does not make it longer.
    pub(crate) fn wait_on(&mut self, at: Timestamp) {
        let most = match self.state.data.retry_wait {
            // Older journals do not note it.
            Span(0) => at,
            wait => self.now.after(wait),
        };
        self.ask_again_at(at.min(most));
    }

    /// The moment is in the state, so that a process that takes the task up later keeps to it.
    pub(crate) fn ask_again_at(&mut self, at: Timestamp) {
        self.state.data.retry_at = Some(at);
        let id = self.expect(Pending::Retry);
        self.output.effects.push(Effect::SetTimer { id, at });
    }

    /// Asks the same question again once its wait is over.
    pub(crate) fn ask_again(&mut self) {
        let data = &self.state.data;
        let asks = |p: &Pending| matches!(p, Pending::Model | Pending::Agent | Pending::Retry);
        if data.retry_at.is_none() || data.pending.values().any(asks) {
            return;
        }
        match &data.phase {
            Phase::Consulting { request: Consultation::Model(call) } => {
                let call = call.clone();
                self.call_model(call);
            }
            Phase::Consulting { request: Consultation::Agent(call) } => {
                let call = (**call).clone();
                self.ask_agent_again(call);
            }
            _ => {}
        }
    }
}
