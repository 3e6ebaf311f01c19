//! Questions to a person: may a call run, and what is the answer. A question holds its call, durably, until
//! it is answered, and each answer fits exactly one question.

use std::sync::Arc;

use crate::event::EventKind;
use crate::id::CallId;
use crate::input::Channel;
use crate::policy::call_hash::CallHash;
use crate::policy::grant::{Grant, MOST_GRANTS, Scope, schema_hash};
use crate::policy::permission::{Decide, Judgement, Layer};
use crate::policy::shortcut::{self, Denial};
use crate::state::{CallStatus, DeciderTurn};
use crate::step::Step;
use crate::tool::{Status, ToolResult};

/// How far a yes reaches.
pub(crate) struct Reach {
    pub(crate) scope: Scope,
    pub(crate) like: Option<String>,
}

impl Step<'_> {
    pub(crate) fn ask_approval(
        &mut self,
        index: usize,
        judged: Judgement,
        turn: Option<DeciderTurn>,
    ) {
        let call = &mut self.state.data.calls[index];
        let (reason, part) = (judged.said(), judged.part.clone());
        let judged = Some(Box::new(judged));
        call.status = CallStatus::AwaitingApproval { reason: reason.clone(), judged, turn };
        if self.state.quiet {
            return self.count_event();
        }
        let call = &self.state.data.calls[index];
        let (id, tool, input) = (call.id, call.action.tool.clone(), Arc::clone(&call.action.input));
        let hash = call.hash();
        self.event(|| EventKind::ApprovalRequested { call: id, tool, input, reason, hash, part });
    }

    pub(crate) fn ask_question(&mut self, index: usize) {
        let call = &mut self.state.data.calls[index];
        call.status = CallStatus::AwaitingAnswer;
        let (id, (question, choices)) = (call.id, call.question());
        self.event(|| EventKind::QuestionAsked { call: id, question, choices });
    }

    pub(crate) fn on_approve(
        &mut self,
        id: CallId,
        reach: Reach,
        shown: Option<CallHash>,
        via: Option<Channel>,
    ) {
        let (index, judged) = match self.asked_to_pass(id, shown) {
            Ok(found) => found,
            Err(reason) => return self.reject(reason),
        };
        let tool = &self.state.data.calls[index].action.tool;
        if reach.like.is_some() && (reach.scope.is_once() || tool != "shell") {
            return self.reject(format!(
                "call {id} cannot be approved by a pattern: expected a call of shell, for the task or the project"
            ));
        }
        if let Some(like) = &reach.like
            && !self.is_like(index, &[like])
        {
            return self.reject(format!(
                "the pattern {like:?} is not about all of call {id}: expected a program and its words, such as \"git push\""
            ));
        }
        let hash = self.state.data.calls[index].hash();
        self.state.data.denials.retain(|denial| denial.hash != hash);
        let said = match reach.scope {
            Scope::Once => "",
            Scope::Task => "for this task",
            Scope::Project => "for the project",
        };
        self.tell_decision(index, Decide::Allow, &person(via), said, &judged);
        self.let_pass(index, String::new(), reach.scope);
        if !reach.scope.is_once() {
            self.grant(index, hash, reach);
        }
    }

    /// Notes what is let pass from here on; what waits and is covered by it need not be asked about any more.
    fn grant(&mut self, index: usize, hash: CallHash, reach: Reach) {
        let call = &self.state.data.calls[index];
        let (id, tool) = (call.id, call.action.tool.clone());
        let schema = self.offer(&tool).map(schema_hash);
        let grant = Grant { call: id, tool, hash, like: reach.like, schema };
        let grants = &mut self.state.data.grants;
        grants.retain(|old| (old.hash, &old.like) != (grant.hash, &grant.like));
        grants.push(grant);
        let surplus = grants.len().saturating_sub(MOST_GRANTS);
        grants.drain(..surplus);
        for other in 0..self.state.data.calls.len() {
            let CallStatus::AwaitingApproval { judged, .. } = &self.state.data.calls[other].status
            else {
                continue;
            };
            let judged = judged.as_deref().cloned().unwrap_or_else(unknown);
            if let Some(grant) = self.grant_for(other) {
                let by = format!("grant {}", grant.call);
                self.tell_decision(other, Decide::Allow, &by, "", &judged);
                self.let_pass(other, by, reach.scope);
            }
        }
    }

    fn let_pass(&mut self, index: usize, by: String, scope: Scope) {
        let call = &mut self.state.data.calls[index];
        call.status = CallStatus::Queued { approved: true, repeated: false, by };
        let id = call.id;
        self.stop_deciders(id);
        let reason = String::new();
        self.event(|| EventKind::ApprovalDecided { call: id, allowed: true, reason, scope });
    }

    pub(crate) fn on_deny(
        &mut self,
        id: CallId,
        reason: String,
        shown: Option<CallHash>,
        via: Option<Channel>,
    ) {
        let awaits_answer = |status: &CallStatus| *status == CallStatus::AwaitingAnswer;
        match self.asked(id) {
            Ok(index) if awaits_answer(&self.state.data.calls[index].status) => {}
            Ok(_) => match self.asked_to_pass(id, shown) {
                Ok((index, judged)) => {
                    self.tell_decision(index, Decide::Deny, &person(via), &reason, &judged);
                    self.learn_denial(index, &reason, shown);
                }
                Err(reason) => return self.reject(reason),
            },
            Err(reason) => return self.reject(reason),
        }
        self.stop_deciders(id);
        let (said, scope) = (reason.clone(), Scope::Once);
        self.event(|| EventKind::ApprovalDecided { call: id, allowed: false, reason: said, scope });
        let text = if reason.is_empty() {
            "denied by a person".to_owned()
        } else {
            format!("denied by a person: {reason}")
        };
        self.end_call(id, ToolResult::ended(Status::Denied, text));
    }

    /// A person who saw the call and denied it is not asked about the same one again for a while. A denial that is
    /// not bound to what was shown teaches nothing: nobody may have looked.
    fn learn_denial(&mut self, index: usize, reason: &str, shown: Option<CallHash>) {
        let Some(hash) = shown else { return };
        let data = &mut self.state.data;
        let call = &data.calls[index];
        data.grants.retain(|grant| grant.hash != hash);
        let denial = Denial {
            call: call.id,
            tool: call.action.tool.clone(),
            hash,
            reason: reason.to_owned(),
            turn: data.spend.turns,
            millis: data.spend.millis,
        };
        shortcut::learn(&mut data.denials, denial, &data.spend);
    }

    pub(crate) fn on_answer(&mut self, id: CallId, text: String) {
        let (question, choices, is_asked_meanwhile) = match self.asked(id) {
            Ok(index) => {
                let call = &self.state.data.calls[index];
                if call.status != CallStatus::AwaitingAnswer {
                    return self.reject(format!("call {id} does not ask for an answer"));
                }
                let (question, choices) = call.question();
                (question, choices, call.request.is_some())
            }
            Err(reason) => return self.reject(reason),
        };
        if !choices.is_empty() && !choices.contains(&text) {
            // They are a worker's words: none of them may look like a line of ours.
            let choices: Vec<String> =
                choices.iter().map(|choice| choice.escape_debug().to_string()).collect();
            return self.reject(format!(
                "{text:?} is not a choice: expected one of {}",
                choices.join(", ")
            ));
        }
        // A worker in the middle of its turn hears it at once; whoever decides between turns does so when it decides again.
        if !is_asked_meanwhile {
            self.remember_told(&text, &question);
        }
        self.end_call(id, ToolResult::ok(text));
    }

    /// The place of an open call.
    fn asked(&self, id: CallId) -> Result<usize, String> {
        if self.is_finished() {
            return Err(self.ended());
        }
        self.state
            .data
            .calls
            .iter()
            .position(|call| call.id == id)
            .ok_or_else(|| format!("no call {id} is open"))
    }

    /// The place of a call that waits for a person's yes or no, if it is the one that was shown.
    fn asked_to_pass(
        &self,
        id: CallId,
        shown: Option<CallHash>,
    ) -> Result<(usize, Judgement), String> {
        let index = self.asked(id)?;
        let call = &self.state.data.calls[index];
        let CallStatus::AwaitingApproval { judged, .. } = &call.status else {
            return Err(format!("call {id} does not wait for an approval"));
        };
        match shown {
            Some(shown) if shown != call.hash() => Err(format!(
                "call {id} has changed since it was shown: it is {}, not {shown}",
                call.hash()
            )),
            Some(_) | None => Ok((index, judged.as_deref().cloned().unwrap_or_else(unknown))),
        }
    }
}

/// What the gate said of a call that was asked about before that was kept.
fn unknown() -> Judgement {
    Judgement {
        decide: Decide::Ask,
        by: "default".to_owned(),
        layer: Layer::Tool,
        reason: String::new(),
        part: String::new(),
        nobody: false,
    }
}

fn person(via: Option<Channel>) -> String {
    match via {
        None => "person".to_owned(),
        Some(Channel::Prompt) => "person (prompt)".to_owned(),
        Some(Channel::Command) => "person (command)".to_owned(),
    }
}
