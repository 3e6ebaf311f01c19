//! Asking deciders in a person's place: one after the other, each through an effect like any other, until one allows or
//! denies. What none of them settles is denied.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::driver::external::PluginSpec;
use crate::effect::Effect;
use crate::event::EventKind;
use crate::id::{CallId, EffectId};
use crate::message::{ModelCall, ModelFailure, Reply};
use crate::policy::budget::Purchase;
use crate::policy::decider::{self, Asked, Decider, DeciderKind, Verdict};
use crate::policy::permission::{Decide, Judgement};
use crate::state::{Call, CallStatus, DeciderTurn, Pending};
use crate::step::Step;
use crate::tool::{Status, ToolResult};

/// The driver's place that programs of deciders run under; no driver of a tree is there.
const PLACE: u32 = u32::MAX;

impl Step<'_> {
    /// Begins the chain.
    pub(crate) fn escalate(&mut self, index: usize, judged: Judgement) {
        self.set_decider(index, judged, 0);
        self.ask_decider(index);
    }

    fn set_decider(&mut self, index: usize, judged: Judgement, decider: u32) {
        self.state.data.calls[index].status = CallStatus::AwaitingDecider {
            judged: Box::new(judged),
            turn: DeciderTurn { decider, until: None },
            effect: None,
        };
    }

    /// Asks the decider whose turn it is. A person who has come meanwhile is asked instead.
    pub(crate) fn ask_decider(&mut self, index: usize) {
        let call = &self.state.data.calls[index];
        let CallStatus::AwaitingDecider { judged, turn, effect: None } = &call.status else {
            return;
        };
        let (id, judged, mut turn) = (call.id, (**judged).clone(), *turn);
        if self.is_attended() {
            return self.ask_approval(index, judged, None);
        }
        // A worker can wish for any number of calls at once: what one question cost counts before the next is asked.
        if self.state.data.pending.values().any(|pending| matches!(pending, Pending::Decider(_))) {
            return;
        }
        let deciders = &self.state.data.spec.policy.deciders;
        let place = usize::try_from(turn.decider).unwrap_or(usize::MAX);
        let Some(asked) = deciders.get(place).cloned() else {
            return self.deny_unsettled(index, &judged);
        };
        if let DeciderKind::Model { .. } = asked.kind {
            let data = &self.state.data;
            let forbidden = data.budget.forbids(&data.committed(), &[Purchase::Answer]);
            if !forbidden.is_empty() {
                // What runs may end first: its result is not lost to the limit.
                let running = |call: &Call| matches!(call.status, CallStatus::Running { .. });
                if !data.calls.iter().any(running) {
                    self.exhaust(forbidden);
                }
                return;
            }
        }
        if let Some(patience) = asked.patience() {
            let at = self.now.after(patience);
            turn.until = Some(at);
            let timer = self.expect(Pending::DeciderTimer(id));
            self.output.effects.push(Effect::SetTimer { id: timer, at });
        }
        let (effect, model) = match &asked.kind {
            DeciderKind::Person => return self.ask_approval(index, judged, Some(turn)),
            DeciderKind::Model { model, rubric } => {
                (self.ask_model_decider(index, model, rubric, &judged), Some(model.clone()))
            }
            DeciderKind::Program { plugin } => {
                let plugin = PluginSpec { timeout: asked.patience(), ..plugin.clone() };
                (self.ask_program_decider(index, plugin, &judged, turn.decider), None)
            }
        };
        self.state.data.calls[index].status =
            CallStatus::AwaitingDecider { judged: Box::new(judged), turn, effect: Some(effect) };
        self.event(|| EventKind::DeciderAsked { call: id, decider: asked.name, model });
    }

    fn ask_model_decider(
        &mut self,
        index: usize,
        model: &str,
        rubric: &str,
        judged: &Judgement,
    ) -> EffectId {
        let question = decider::question(model, rubric, &self.about(index, judged));
        let id = self.expect(Pending::Decider(self.state.data.calls[index].id));
        let data = &mut self.state.data;
        data.questions += 1;
        let call = ModelCall { question: data.questions, ..question };
        let folder = data.spec.folder.clone();
        self.output.effects.push(Effect::CallModel { id, call, folder });
        id
    }

    fn ask_program_decider(
        &mut self,
        index: usize,
        mut plugin: PluginSpec,
        judged: &Judgement,
        number: u32,
    ) -> EffectId {
        plugin.folder.get_or_insert_with(|| self.state.data.spec.folder.clone());
        let params = self.about(index, judged).json();
        let request = json!({ "method": "judge", "params": params, "path": [PLACE, number] });
        let plugin = Arc::new(json!({ "plugin": plugin, "config": null }));
        let id = self.expect(Pending::Decider(self.state.data.calls[index].id));
        // Whoever judges calls makes none.
        let workspace = self.workspace();
        let sandbox = self.state.data.spec.sandbox.clone();
        let tools = None;
        self.output.effects.push(Effect::Consult {
            id,
            plugin,
            request,
            tools,
            workspace,
            sandbox,
        });
        id
    }

    fn about<'a>(&'a self, index: usize, judged: &'a Judgement) -> Asked<'a> {
        let data = &self.state.data;
        let call = &data.calls[index];
        Asked {
            goal: &data.spec.goal,
            tool: &call.action.tool,
            input: &call.action.input,
            hash: call.hash(),
            workspace: data.workspace.as_ref().and_then(|workspace| workspace.path.as_deref()),
            judged,
        }
    }

    /// The call that a decider's report is about, if one is awaited under that id.
    pub(crate) fn take_decider(&mut self, id: EffectId) -> Option<CallId> {
        let Some(Pending::Decider(call)) = self.state.data.pending.get(&id) else { return None };
        let call = *call;
        self.state.data.pending.remove(&id);
        Some(call)
    }

    pub(crate) fn on_model_decided(&mut self, call: CallId, reply: Result<Reply, ModelFailure>) {
        self.pay(&reply);
        let verdict = match &reply {
            Ok(reply) => decider::read_reply(reply),
            Err(failure) => {
                Verdict::Pass(format!("no answer ({}): {}", failure.kind, failure.message))
            }
        };
        self.on_decided(call, verdict);
    }

    pub(crate) fn on_program_decided(&mut self, call: CallId, answer: Result<Value, String>) {
        let verdict = match &answer {
            Ok(answer) => decider::read_answer(answer),
            Err(reason) => Verdict::Pass(format!("no answer: {reason}")),
        };
        self.on_decided(call, verdict);
    }

    /// The time of a decider, or of a person in the chain, is up.
    pub(crate) fn on_decider_late(&mut self, id: CallId) {
        self.stop(|pending| *pending == Pending::Decider(id));
        self.on_decided(id, Verdict::Pass("no answer in time".to_owned()));
    }

    fn on_decided(&mut self, id: CallId, verdict: Verdict) {
        self.stop_deciders(id);
        let Some(index) = self.state.data.calls.iter().position(|call| call.id == id) else {
            return;
        };
        let (judged, turn) = match &self.state.data.calls[index].status {
            CallStatus::AwaitingDecider { judged, turn, .. } => ((**judged).clone(), *turn),
            CallStatus::AwaitingApproval { judged: Some(judged), turn: Some(turn), .. } => {
                ((**judged).clone(), *turn)
            }
            _ => return,
        };
        let place = usize::try_from(turn.decider).unwrap_or(usize::MAX);
        let by = self
            .state
            .data
            .spec
            .policy
            .deciders
            .get(place)
            .map_or_else(|| "deciders".to_owned(), Decider::by);
        match verdict {
            Verdict::Allow(reason) => {
                self.tell_decision(index, Decide::Allow, &by, &reason, &judged);
                self.state.data.calls[index].status =
                    CallStatus::Queued { approved: true, repeated: false, by };
            }
            Verdict::Deny(reason) => {
                self.tell_decision(index, Decide::Deny, &by, &reason, &judged);
                let text = format!("denied by the {by}: {reason}");
                self.end_call(id, ToolResult::ended(Status::Denied, text));
            }
            Verdict::Pass(reason) => {
                self.tell_decision(index, Decide::Ask, &by, &reason, &judged);
                // The next one is asked once the task may move: nothing begins while it is held.
                self.set_decider(index, judged, turn.decider.saturating_add(1));
            }
        }
    }

    fn deny_unsettled(&mut self, index: usize, judged: &Judgement) {
        let reason = "nobody attends, and no decider allowed it";
        self.tell_decision(index, Decide::Deny, "deciders", reason, judged);
        let id = self.state.data.calls[index].id;
        let text = format!("{reason}; {}", judged.said());
        self.end_call(id, ToolResult::ended(Status::Denied, text));
    }

    /// Stops whatever is asked or timed about a call.
    pub(crate) fn stop_deciders(&mut self, id: CallId) {
        self.stop(|pending| {
            matches!(pending, Pending::Decider(call) | Pending::DeciderTimer(call) if *call == id)
        });
    }

    /// Nobody will answer what deciders were asked: they are asked again once the task goes on.
    pub(crate) fn forget_deciders(&mut self) {
        for call in &mut self.state.data.calls {
            if let CallStatus::AwaitingDecider { effect, .. } = &mut call.status {
                *effect = None;
            }
        }
    }

    /// Sets the timers of people in the chain again, for a process that has just taken the task up.
    pub(crate) fn renew_decider_timers(&mut self) {
        let timed = self.state.data.calls.iter().filter_map(|call| match &call.status {
            CallStatus::AwaitingApproval {
                turn: Some(DeciderTurn { until: Some(at), .. }),
                ..
            } => Some((call.id, *at)),
            _ => None,
        });
        let timed: Vec<(CallId, crate::time::Timestamp)> = timed.collect();
        for (call, at) in timed {
            let id = self.expect(Pending::DeciderTimer(call));
            self.output.effects.push(Effect::SetTimer { id, at });
        }
    }
}
