//! Questions to a person: may a call run, and what is the answer. A question holds its call, durably, until
//! it is answered, and each answer fits exactly one question.

use std::sync::Arc;

use crate::event::EventKind;
use crate::id::CallId;
use crate::state::{Call, CallStatus};
use crate::step::Step;
use crate::tool::{Status, ToolResult};

impl Step<'_> {
    pub(crate) fn ask_approval(&mut self, index: usize, reason: String) {
        let call = &mut self.state.data.calls[index];
        call.status = CallStatus::AwaitingApproval { reason: reason.clone() };
        let (id, tool, input) = (call.id, call.action.tool.clone(), Arc::clone(&call.action.input));
        self.event(|| EventKind::ApprovalRequested { call: id, tool, input, reason });
    }

    pub(crate) fn ask_question(&mut self, index: usize) {
        let call = &mut self.state.data.calls[index];
        call.status = CallStatus::AwaitingAnswer;
        let (id, (question, choices)) = (call.id, call.question());
        self.event(|| EventKind::QuestionAsked { call: id, question, choices });
    }

    pub(crate) fn on_approve(&mut self, id: CallId) {
        match self.asked(id) {
            Ok(call) if matches!(call.status, CallStatus::AwaitingApproval { .. }) => {
                call.status = CallStatus::Queued { approved: true, repeated: false };
                self.event(|| EventKind::ApprovalDecided {
                    call: id,
                    allowed: true,
                    reason: String::new(),
                });
            }
            Ok(_) => self.reject(format!("call {id} does not wait for an approval")),
            Err(reason) => self.reject(reason),
        }
    }

    pub(crate) fn on_deny(&mut self, id: CallId, reason: String) {
        match self.asked(id) {
            Ok(call)
                if matches!(
                    call.status,
                    CallStatus::AwaitingApproval { .. } | CallStatus::AwaitingAnswer
                ) =>
            {
                let said = reason.clone();
                self.event(|| EventKind::ApprovalDecided {
                    call: id,
                    allowed: false,
                    reason: said,
                });
                let text = if reason.is_empty() {
                    "denied by a person".to_owned()
                } else {
                    format!("denied by a person: {reason}")
                };
                self.end_call(id, ToolResult::ended(Status::Denied, text));
            }
            Ok(_) => self.reject(format!("call {id} does not wait for an answer")),
            Err(reason) => self.reject(reason),
        }
    }

    pub(crate) fn on_answer(&mut self, id: CallId, text: String) {
        let choices = match self.asked(id) {
            Ok(call) if call.status == CallStatus::AwaitingAnswer => call.question().1,
            Ok(_) => return self.reject(format!("call {id} does not ask for an answer")),
            Err(reason) => return self.reject(reason),
        };
        if !choices.is_empty() && !choices.contains(&text) {
            return self.reject(format!(
                "{text:?} is not a choice: expected one of {}",
                choices.join(", ")
            ));
        }
        self.end_call(id, ToolResult::ok(text));
    }

    fn asked(&mut self, id: CallId) -> Result<&mut Call, String> {
        if self.is_finished() {
            return Err(self.ended());
        }
        self.state
            .data
            .calls
            .iter_mut()
            .find(|call| call.id == id)
            .ok_or_else(|| format!("no call {id} is open"))
    }
}
