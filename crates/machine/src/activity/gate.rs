//! The way of a call through the gate: the rules, then what people said before, then whoever can be asked. Every
//! decision is told with who made it.

use std::sync::Arc;

use crate::event::EventKind;
use crate::policy::call_hash::CallHash;
use crate::policy::grant::{Grant, is_like};
use crate::policy::permission::{Approval, Decide, Judgement, Policy, Question, Unattended, judge};
use crate::policy::sandbox::Level;
use crate::policy::shortcut::Denial;
use crate::step::Step;
use crate::tool::{Status, ToolResult};

impl Step<'_> {
    /// Judges a call. The proof that it may run, if it may at once; else it has been refused, or somebody is asked.
    pub(crate) fn pass_gate(&mut self, index: usize) -> Option<Approval> {
        let judged = self.distrust_changed(index, self.judge_call(index));
        if let Some(why) = self.against_charter(index) {
            let by = format!("agent {}", self.state.data.spec.policy.charter.agent);
            self.tell_decision(index, Decide::Deny, &by, &why, &judged);
            return self.refuse(index, why);
        }
        let would_ask = judged.decide == Decide::Ask || judged.nobody;
        if !would_ask {
            self.tell_decision(index, judged.decide, &judged.by, &judged.reason, &judged);
            return match judged.approval() {
                Ok(approval) => Some(approval),
                Err(judged) => self.refuse(index, judged.said()),
            };
        }
        if let Some(grant) = self.grant_for(index) {
            let by = format!("grant {}", grant.call);
            self.tell_decision(index, Decide::Allow, &by, "", &judged);
            return Some(Approval::given_by(by));
        }
        if judged.decide == Decide::Ask
            && let Some((denial, left)) = self.denied_before(index)
        {
            let said = denial.said();
            let turns = if left == 1 { "turn" } else { "turns" };
            let reason = format!("{said} (for {left} more {turns})");
            self.tell_decision(index, Decide::Deny, "shortcut", &reason, &judged);
            return self.refuse(index, said);
        }
        self.tell_decision(index, judged.decide, &judged.by, &judged.reason, &judged);
        if judged.decide == Decide::Deny {
            return self.refuse(index, judged.said());
        }
        if !self.is_attended() && self.state.data.spec.policy.unattended == Unattended::Escalate {
            self.escalate(index, judged);
        } else {
            self.ask_approval(index, judged, None);
        }
        None
    }

    /// Whether the gate would now have somebody asked about a call.
    pub(crate) fn will_be_asked(&self, index: usize) -> bool {
        let judged = self.distrust_changed(index, self.judge_call(index));
        judged.decide == Decide::Ask
            && self.against_charter(index).is_none()
            && self.grant_for(index).is_none()
            && self.denied_before(index).is_none()
    }

    /// Why the file of the task's agent does not let it do this.
    fn against_charter(&self, index: usize) -> Option<String> {
        let data = &self.state.data;
        let charter = &data.spec.policy.charter;
        if charter.is_default() {
            return None;
        }
        let action = &data.calls[index].action;
        let workspace = self.workspace();
        let call = (action.tool.as_str(), &*action.input);
        charter.refusal(call, action.author, &data.looked, workspace.path.as_deref())
    }

    /// What the rules say.
    fn judge_call(&self, index: usize) -> Judgement {
        self.with_question(index, judge)
    }

    /// Whether a call passes with these patterns.
    pub(crate) fn is_like(&self, index: usize, patterns: &[&str]) -> bool {
        self.with_question(index, |policy, question| is_like(policy, question, patterns))
    }

    fn with_question<T>(&self, index: usize, ask: impl FnOnce(&Policy, &Question<'_>) -> T) -> T {
        let call = &self.state.data.calls[index];
        let workspace = self.state.data.workspace.as_ref();
        let policy = &self.state.data.spec.policy;
        let matters = policy.rules.iter().any(|rule| !rule.driver.is_empty());
        let within = if matters { self.state.driver.within() } else { &[] };
        let question = Question {
            tool: &call.action.tool,
            input: &call.action.input,
            class: call.class,
            author: call.action.author,
            driver: self.state.driver_name(),
            within,
            attended: self.is_attended(),
            workspace: workspace.and_then(|workspace| workspace.path.as_deref()),
            sandboxed: self.state.data.spec.sandbox.level != Level::Off,
        };
        ask(policy, &question)
    }

    pub(crate) fn is_attended(&self) -> bool {
        self.state.data.attachment.as_ref().is_some_and(|attachment| attachment.attended)
    }

    /// What a person let pass before that lets this call pass.
    pub(crate) fn grant_for(&self, index: usize) -> Option<Grant> {
        let data = &self.state.data;
        let action = &data.calls[index].action;
        // What a tool now says that it does, nobody has said yes to.
        let is_another = self.is_changed(index);
        if is_another || !data.grants.iter().any(|grant| grant.tool == action.tool) {
            return None;
        }
        let hash = data.calls[index].hash();
        let offer = self.offer(&action.tool);
        let same = data.grants.iter().find(|grant| grant.is_for(&action.tool, hash, offer));
        if same.is_some() {
            return same.cloned();
        }
        let mut with = data.grants.iter().filter_map(|grant| Some((grant, grant.like.as_deref()?)));
        let patterns: Vec<&str> = with.clone().map(|(_, like)| like).collect();
        if patterns.is_empty() || !self.is_like(index, &patterns) {
            return None;
        }
        // Named after the one that would do alone; if it takes several, after the last of them.
        let last = with.clone().next_back();
        let one = with.find(|(_, like)| self.is_like(index, &[*like]));
        one.or(last).map(|(grant, _)| grant.clone())
    }

    /// What a person denied before, if it is this very call, and for how many more turns that stands.
    fn denied_before(&self, index: usize) -> Option<(Denial, u64)> {
        let data = &self.state.data;
        if data.denials.is_empty() {
            return None;
        }
        let hash = data.calls[index].hash();
        let denial = data.denials.iter().find(|denial| denial.hash == hash)?;
        Some((denial.clone(), denial.turns_left(&data.spend)?))
    }

    fn refuse(&mut self, index: usize, why: String) -> Option<Approval> {
        let id = self.state.data.calls[index].id;
        self.end_call(id, ToolResult::ended(Status::Denied, why));
        None
    }

    /// Tells who decided what about a call; `judged` is what the gate saw of it.
    pub(crate) fn tell_decision(
        &mut self,
        index: usize,
        decide: Decide,
        by: &str,
        reason: &str,
        judged: &Judgement,
    ) {
        if self.state.quiet {
            return self.count_event();
        }
        let call = &self.state.data.calls[index];
        let (id, tool, input) = (call.id, call.action.tool.clone(), Arc::clone(&call.action.input));
        let hash = CallHash::of(&tool, &input);
        self.event(|| EventKind::CallJudged {
            call: id,
            tool,
            input,
            hash,
            decide,
            by: by.to_owned(),
            layer: judged.layer,
            part: judged.part.clone(),
            reason: reason.to_owned(),
        });
    }
}
