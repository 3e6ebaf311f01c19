//! Model calls: what they cost is counted once, failed ones too; a failure that may heal is waited out, durably.

use crate::driver::{Consultation, Fact};
use crate::effect::Effect;
use crate::event::EventKind;
use crate::message::{ModelCall, ModelFailure, Part, Reply, Usage};
use crate::policy::retry;
use crate::state::{Pending, Phase};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn call_model(&mut self, call: ModelCall) {
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
                self.state.data.model_failures = 0;
                let tools = reply.message.blocks.iter().filter_map(|block| match &block.part {
                    Part::ToolUse { name, .. } => Some(name.clone()),
                    _ => None,
                });
                let (model, text, stop) = (reply.model.clone(), reply.message.text(), reply.stop);
                let tools: Vec<String> = tools.collect();
                self.event(|| EventKind::ModelReplied { model, text, tools, stop, usage });
            }
            Err(failure) => {
                if failure.kind == "context_overflow" {
                    spend.context_overflows += 1;
                }
                if self.wait_out(failure) {
                    return;
                }
            }
        }
        self.state.data.phase = Phase::Ready;
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::Replied(reply.as_ref()));
    }

    /// Counts what a call cost, whether its answer is still wanted or not.
    pub(crate) fn pay(&mut self, reply: &Result<Reply, ModelFailure>) -> Usage {
        let usage = match reply {
            Ok(reply) => reply.usage,
            Err(failure) => failure.usage,
        };
        let spend = &mut self.state.data.spend;
        spend.tokens = spend.tokens.saturating_add(usage.total());
        usage
    }

    /// Sets a timer to ask again, if that may help; false if the driver has to be told.
    fn wait_out(&mut self, failure: &ModelFailure) -> bool {
        self.state.data.model_failures += 1;
        let failures = self.state.data.model_failures;
        let wait = retry::wait(failure.retry, failures, self.state.data.last_effect);
        let (kind, message) = (failure.kind.clone(), failure.message.clone());
        self.event(|| EventKind::ModelFailed { kind, message, again_in: wait.map(|wait| wait.0) });
        let Some(wait) = wait else {
            self.state.data.model_failures = 0;
            return false;
        };
        let at = self.now.after(wait);
        let id = self.expect(Pending::Retry);
        self.output.effects.push(Effect::SetTimer { id, at });
        true
    }

    /// The wait is over: the same question again.
    pub(crate) fn on_retry(&mut self) {
        if let Phase::Consulting { request: Consultation::Model(call) } = &self.state.data.phase {
            let call = call.clone();
            self.call_model(call);
        }
    }
}
