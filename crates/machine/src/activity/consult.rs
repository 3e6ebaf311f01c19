//! Asking a decider outside: a plugin process answers with a decision, through an effect like any other.

use std::sync::Arc;

use serde_json::Value;

use crate::cause::{Cause, ModelTrouble};
use crate::driver::{Consultation, Fact};
use crate::effect::Effect;
use crate::state::{Pending, Phase};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn consult(&mut self, request: Consultation) {
        match &request {
            Consultation::Plugin(question) => {
                // It may ask for calls, and some may write themselves.
                self.note_change();
                self.state.data.turn_kept = false;
                let id = self.expect(Pending::Consult);
                self.output.effects.push(Effect::Consult {
                    id,
                    plugin: Arc::clone(&self.state.driver.config),
                    request: question.clone(),
                    tools: Some(Arc::clone(&self.state.data.tools)),
                    workspace: self.workspace(),
                    sandbox: self.state.data.spec.sandbox.clone(),
                });
            }
            Consultation::Model(_) | Consultation::Agent(_) if self.waits_for_model() => {
                let at = self.state.data.retry_at.unwrap_or_default();
                self.ask_again_at(at);
            }
            Consultation::Model(call) => self.call_model(call.clone()),
            Consultation::Agent(call) => self.ask_agent_once_kept((**call).clone()),
            Consultation::Task(order) => return self.begin_child((**order).clone()),
        }
        self.state.data.phase = Phase::Consulting { request };
    }

    pub(crate) fn on_consulted(&mut self, answer: Result<Value, String>) {
        self.close_requests("the driver decided before it ended");
        self.state.data.phase = Phase::Ready;
        // Should it give up next, without having said so, then because of this answer.
        self.state.data.course.trouble = match &answer {
            Ok(answer) if answer["decision"] == "give_up" => None,
            Ok(_) => Some(Cause::ModelFailed { failure: ModelTrouble::BadReply }),
            Err(_) => Some(Cause::WorkerDied),
        };
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::Consulted(answer.as_ref().map_err(String::as_str)));
    }
}
