//! A turn of a coding agent: asked for as one effect, watched while it lasts, and ended with one signal. What the agent
//! does with tools of its own goes through the same gate as everything else; only the performing is the agent's.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::{
    AgentAsk, AgentCall, AgentEnd, AgentFault, AgentMeans, AgentNews, AgentOrder, AgentTurn,
    COMPACT, CONTINUE, FailedOrder, offer,
};
use crate::child::HeldAsk;
use crate::driver::agent::unmarked;
use crate::driver::{Action, AgentHeard, Consultation, Fact, Note, NoteKind};
use crate::effect::Effect;
use crate::event::EventKind;
use crate::id::{CallId, EffectId};
use crate::input::Withdrawal;
use crate::message::{ModelFailure, Retry, Usage};
use crate::policy::gateway::{self, Turn};
use crate::policy::permission::{Approval, Author};
use crate::policy::price::dollars;
use crate::request::agent_key;
use crate::state::{AgentSide, Call, CallStatus, Pending, Phase, Steered};
use crate::step::Step;
use crate::tool::{self, EffectClass, Status, ToolResult};

/// The most that anybody's count of dollars comes to: what an agent says of its costs is not believed beyond, and a
/// sum that has no number could not be written down.
const MOST_DOLLARS: f64 = 1e12;

/// Questions of an agent that may be open at once.
const MOST_OPEN: usize = 64;

impl Step<'_> {
    /// Asks an agent for a turn.
    pub(crate) fn ask_agent(&mut self, call: AgentCall) {
        self.state.data.retry_at = None;
        // What it changes by itself nobody is told.
        self.note_change();
        let id = self.expect(Pending::Agent);
        let (agent, conversation) = (call.program.name.clone(), call.conversation);
        let data = &self.state.data;
        let tools = offer::to(&call.program, &data.spec.policy.charter, &data.tools);
        self.output.effects.push(Effect::AskAgent {
            id,
            call,
            tools,
            workspace: self.workspace(),
            sandbox: self.state.data.spec.sandbox.clone(),
            folder: self.state.data.spec.folder.clone(),
        });
        self.event(|| EventKind::AgentAsked { agent, conversation });
    }

    /// A decision to ask an agent is a turn, and counted as one.
    pub(crate) fn begin_agent_turn(&mut self) {
        self.state.data.spend.turns += 1;
        let turn = self.state.data.spend.turns;
        self.event(|| EventKind::TurnStarted { turn, actions: 1 });
    }

    /// Gives the conversation the number that it has in the task. Whoever decides counts from 1, and one that was handed
    /// over to must not speak in the conversations of the one before.
    pub(crate) fn number_conversation(&mut self, call: &mut AgentCall) {
        let data = &mut self.state.data;
        call.conversation = call.conversation.saturating_add(data.earlier_conversations);
        data.conversations = data.conversations.max(call.conversation);
    }

    /// What is asked when nobody knows how far the last time came: the agent remembers what it was told.
    pub(crate) fn ask_agent_again(&mut self, mut call: AgentCall) {
        if call.taken {
            CONTINUE.clone_into(&mut call.prompt);
        }
        // Nobody decides what it is asked this time, so what waits for a decision is said with it.
        for note in std::mem::take(&mut self.state.data.notes) {
            let words = call.program.operator_says(&note.text);
            call.prompt.push_str(&format!("\n\n{words}"));
            self.state.data.steered.push(Steered { note: note.clone(), words });
            self.event(|| EventKind::NoteDelivered { note });
        }
        self.consult(Consultation::Agent(Box::new(call)));
    }

    pub(crate) fn on_agent_said(&mut self, id: EffectId, news: AgentNews) {
        let at_work = self.state.data.pending.get(&id) == Some(&Pending::Agent);
        match news {
            AgentNews::Spent { usage, usd, metered } => {
                if !at_work && !self.state.data.unpaid.contains(&id) {
                    self.drop_signal();
                    return;
                }
                // Of a task that nobody drives there is no later conversation that this could be counted to.
                if at_work || self.state.data.attachment.is_none() {
                    self.note_cost(usd);
                }
                if metered {
                    let (usd, priced) = self.state.data.ledger.settle(usd);
                    let spend = &mut self.state.data.spend;
                    spend.usd = (spend.usd + usd).min(MOST_DOLLARS);
                    spend.unpriced = spend.unpriced.saturating_sub(priced);
                } else {
                    self.count_spent(usage, usd, self.names_price_later());
                }
            }
            AgentNews::WouldAsk { request, bytes } => self.on_agent_would_ask(id, request, bytes),
            // It may outlast its turn, and is paid for all the same; once.
            AgentNews::Passed { request, usage, .. } => {
                self.state.data.held_asks.retain(|held| held.request != request);
                if self.state.data.asked.remove(&request).is_some() {
                    if usage.total() > 0 {
                        self.state.data.ledger.count(usage.nanodollars.map(dollars));
                    }
                    self.count_spent(usage, None, false);
                } else {
                    self.drop_signal();
                }
            }
            AgentNews::Asks(ask) if at_work => self.on_agent_asks(id, ask),
            // It waits for an answer, whoever it belongs to.
            AgentNews::Asks(ask) => {
                let why = "nobody asked for this turn any more".to_owned();
                self.tell_agent(id, AgentOrder::Answer { key: ask.key, may: Err(why) });
                self.drop_signal();
            }
            AgentNews::Calls(request) if at_work => self.on_agent_calls(id, request),
            AgentNews::Calls(request) => {
                let result = Err("nobody asked for this turn any more".to_owned());
                self.tell_agent(id, AgentOrder::ToolResult { key: request.key, result });
                self.drop_signal();
            }
            AgentNews::OrderFailed(failed) => self.on_order_failed(failed),
            // Its last words come when its turn has ended, which somebody who stopped it did not wait for.
            AgentNews::Said { text, thinking } if !at_work && self.was_stopped(id) => {
                self.event(|| EventKind::AgentSaid { text, thinking });
            }
            _ if !at_work => self.drop_signal(),
            AgentNews::Met { agent, version, remarks } => {
                // Each of its processes says so; a person wants to hear it once.
                let met = Some((agent.clone(), version.clone()));
                if self.state.data.agent_met != met {
                    self.state.data.agent_met = met;
                    self.event(|| EventKind::AgentMet { agent, version, remarks });
                }
            }
            AgentNews::Taken { session } => self.on_agent_took(session),
            AgentNews::Said { text, thinking } => {
                self.event(|| EventKind::AgentSaid { text, thinking });
            }
            AgentNews::Compacted { ordered, before, after } => {
                if ordered {
                    self.settle_compaction();
                }
                self.on_agent_compacted(before, after);
            }
            AgentNews::Unknown(unknown) => self.state.data.unknown = unknown,
            AgentNews::Withdrawn { key } => {
                self.on_withdrawn(&agent_key(id, &key), Withdrawal::Cancelled);
                self.end_agent_calls(
                    Status::Skipped,
                    "the agent wants no answer any more",
                    |call, side| {
                        side.key == key && !matches!(call.status, CallStatus::Running { .. })
                    },
                );
            }
            AgentNews::ToolEnded { id: ended, ok, text } => {
                let calls = &self.state.data.calls;
                let mine = |call: &&Call| {
                    call.agent.as_ref().is_some_and(|side| *side.id == *ended)
                        && matches!(call.status, CallStatus::Running { .. })
                };
                if let Some(call) = calls.iter().find(mine).map(|call| call.id) {
                    let status = if ok { Status::Ok } else { Status::Error };
                    self.end_call(call, ToolResult::ended(status, text));
                }
            }
            AgentNews::Used { id: used, tool, input, ok, text } => {
                let (key, means) = (String::new(), AgentMeans::Other);
                let ask = AgentAsk { key, id: used, tool, input, means, helper: None };
                self.on_agent_used(id, ask, ok, text);
            }
        }
    }

    /// Whether this turn was stopped by somebody, its task goes on, and its end has not come yet.
    fn was_stopped(&self, turn: EffectId) -> bool {
        self.state.data.unpaid.contains(&turn) && !self.is_finished()
    }

    fn on_agent_took(&mut self, session: Option<String>) {
        if let Phase::Consulting { request: Consultation::Agent(call) } = &mut self.state.data.phase
        {
            call.taken = true;
            if session.is_some() {
                call.session.clone_from(&session);
            }
        }
        let (driver, situation) = self.driver();
        let heard = AgentHeard::Prompt(session.as_deref());
        driver.observe(&situation, &Fact::AgentTook(heard));
    }

    /// A request waits at the gateway, whoever it belongs to.
    pub(crate) fn on_agent_would_ask(&mut self, turn: EffectId, request: u64, bytes: u64) {
        let at_work = self.state.data.pending.get(&turn) == Some(&Pending::Agent);
        if at_work && self.holds_back() {
            return self.state.data.held_asks.push(HeldAsk { turn, request, bytes });
        }
        let is_set_aside = self.is_set_aside();
        let data = &mut self.state.data;
        let under_way = match data.pending.get(&turn) {
            Some(Pending::Agent) => Turn::UnderWay,
            _ => Turn::None,
        };
        // What is set aside for a child that nobody hears of any more is not there to be spent.
        let spend = if is_set_aside { data.committed() } else { Cow::Borrowed(&data.spend) };
        let may = gateway::may_ask(under_way, &data.budget, &spend);
        if may.is_ok() {
            data.asked.insert(request, bytes);
        }
        data.last_effect += 1;
        let id = EffectId(data.last_effect);
        self.output.effects.push(Effect::LetAsk { id, turn, request, may });
    }

    /// Nobody will say what became of requests that were under way: their questions are paid for.
    pub(crate) fn charge_lost_requests(&mut self) {
        let data = &mut self.state.data;
        for bytes in std::mem::take(&mut data.asked).into_values() {
            data.spend.tokens = data.spend.tokens.saturating_add(gateway::lost(bytes));
            data.spend.unpriced += 1;
        }
    }

    /// Keeps what the conversation has cost by the agent's own count, beside what it is resumed by: another process of the
    /// agent tells the sum, and what was told before is paid for.
    fn note_cost(&mut self, usd: Option<f64>) {
        let Some(usd) = usd.filter(|usd| *usd > 0.0) else { return };
        // Rounds to what can be written down, and is cut there.
        let more = (usd.min(MOST_DOLLARS) * 1e9).round() as u64;
        if let Phase::Consulting { request: Consultation::Agent(call) } = &mut self.state.data.phase
        {
            call.cost = call.cost.map(|cost| cost.saturating_add(more));
        }
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::AgentTook(AgentHeard::Cost(more)));
    }

    /// Whether the agent that was asked names the price later, for all of it.
    fn names_price_later(&self) -> bool {
        match &self.state.data.phase {
            Phase::Consulting { request: Consultation::Agent(call) } => {
                call.program.protocol.can().cost
            }
            _ => false,
        }
    }

    /// Counts what an answer took; one without a price is one whose price nobody knows, unless it is named later.
    fn count_spent(&mut self, usage: Usage, usd: Option<f64>, priced_later: bool) {
        let spend = &mut self.state.data.spend;
        spend.tokens = spend.tokens.saturating_add(usage.total());
        match (usd, usage.nanodollars) {
            (Some(usd), _) if usd.is_finite() && usd >= 0.0 => {
                spend.usd = (spend.usd + usd).min(MOST_DOLLARS);
            }
            (_, Some(cost)) => spend.usd = (spend.usd + dollars(cost)).min(MOST_DOLLARS),
            _ if usage.total() > 0 && !priced_later => spend.unpriced += 1,
            _ => {}
        }
    }

    /// The agent would use a tool of its own: a call like any other, but for who performs it.
    fn on_agent_asks(&mut self, turn: EffectId, ask: AgentAsk) {
        let open = self.state.data.calls.iter().filter(|call| call.agent.is_some()).count();
        if open >= MOST_OPEN {
            let why = format!("{MOST_OPEN} calls are under way already: wait for one to end");
            return self.tell_agent(turn, AgentOrder::Answer { key: ask.key, may: Err(why) });
        }
        let waits = CallStatus::Queued { approved: false, repeated: false, by: String::new() };
        self.add_agent_call(turn, ask, waits);
    }

    /// The agent used a tool of its own and asked nobody: nobody could say no, but it is seen and counted.
    fn on_agent_used(&mut self, turn: EffectId, used: AgentAsk, ok: bool, text: String) {
        let call = self.add_agent_call(turn, used, CallStatus::Running { effect: turn });
        self.state.data.spend.tool_calls += 1;
        let known = self.state.data.calls.iter().find(|known| known.id == call);
        if let Some(action) = known.map(|known| known.action.clone()) {
            let Action { tool, label, input, .. } = action;
            let allowed_by = String::new();
            self.event(|| EventKind::ToolStarted { call, tool, label, input, allowed_by });
        }
        let status = if ok { Status::Ok } else { Status::Error };
        self.end_call(call, ToolResult::ended(status, text));
    }

    fn add_agent_call(&mut self, turn: EffectId, ask: AgentAsk, status: CallStatus) -> CallId {
        let (name, path) = match &self.state.data.phase {
            Phase::Consulting { request: Consultation::Agent(call) } => {
                (call.program.name.clone(), call.path.clone())
            }
            _ => (String::new(), Vec::new()),
        };
        let (tool, input, class) = in_our_words(&name, &ask);
        let data = &mut self.state.data;
        data.last_call += 1;
        let id = CallId(data.last_call);
        data.calls.push(Call {
            id,
            action: Action {
                tool,
                input,
                label: format!("{name} {}", ask.tool),
                tool_use: ask.id.to_string(),
                path,
                author: Author::Worker,
                timeout: None,
            },
            class,
            status,
            delivered: false,
            began: None,
            request: None,
            asker: None,
            agent: Some(AgentSide { key: ask.key, id: ask.id.to_string(), turn }),
        });
        id
    }

    /// The gate let an agent's own call pass: the agent is told, and runs it.
    pub(crate) fn let_agent_run(&mut self, index: usize, approval: &Approval) {
        self.state.data.spend.tool_calls += 1;
        let call = &mut self.state.data.calls[index];
        let Some(side) = call.agent.clone() else { return };
        call.status = CallStatus::Running { effect: side.turn };
        call.began = Some(self.now);
        let (id, tool, label) = (call.id, call.action.tool.clone(), call.action.label.clone());
        let input = Arc::clone(&call.action.input);
        self.tell_agent(side.turn, AgentOrder::Answer { key: side.key, may: Ok(None) });
        let allowed_by = approval.by().to_owned();
        self.event(|| EventKind::ToolStarted { call: id, tool, label, input, allowed_by });
    }

    /// An agent's call has its result and is no longer part of the turn; one that did not run is refused.
    pub(crate) fn settle_agent_call(&mut self, id: CallId, ran: bool) {
        let calls = &mut self.state.data.calls;
        let Some(index) = calls.iter().position(|call| call.id == id && call.agent.is_some())
        else {
            return;
        };
        let call = calls.remove(index);
        if let (false, Some(side), CallStatus::Done(result)) = (ran, call.agent, call.status) {
            let why = if result.text.is_empty() { "refused".to_owned() } else { result.text };
            self.tell_agent(side.turn, AgentOrder::Answer { key: side.key, may: Err(why) });
        }
    }

    fn end_agent_calls(
        &mut self,
        status: Status,
        why: &str,
        which: impl Fn(&Call, &AgentSide) -> bool,
    ) {
        self.end_calls(status, why, |call| {
            call.agent.as_ref().is_some_and(|side| which(call, side))
                && !matches!(call.status, CallStatus::Done(_))
        });
    }

    /// The agent's turn is over, or the agent is gone: what it had under way has no other end.
    pub(crate) fn close_agent_calls(&mut self, why: &str) {
        let running = |call: &Call| matches!(call.status, CallStatus::Running { .. });
        self.end_agent_calls(Status::Aborted, why, |call, _| running(call));
        self.end_agent_calls(Status::Skipped, why, |_, _| true);
    }

    pub(crate) fn tell_agent(&mut self, turn: EffectId, order: AgentOrder) {
        self.state.data.last_effect += 1;
        let id = EffectId(self.state.data.last_effect);
        self.output.effects.push(Effect::TellAgent { id, turn, order });
    }

    /// Whoever decides from here on works alone: what agents left in their background would go on changing the files. An
    /// agent that takes over from an agent ends it by itself.
    pub(crate) fn dismiss_agents(&mut self) {
        let data = &mut self.state.data;
        if data.conversations > 0 {
            data.last_effect += 1;
            let id = EffectId(data.last_effect);
            self.output.effects.push(Effect::DismissAgents { id });
        }
    }

    /// Tells an agent something in the middle of its turn, if one is at work.
    pub(crate) fn steer_agent(&mut self, text: &str) -> bool {
        let data = &self.state.data;
        let turn = data.pending.iter().find(|(_, pending)| **pending == Pending::Agent);
        let Some(turn) = turn.map(|(id, _)| *id) else { return false };
        let Phase::Consulting { request: Consultation::Agent(call) } = &data.phase else {
            return false;
        };
        if !call.program.can().steer || !call.taken {
            return false;
        }
        let words = call.program.operator_says(text);
        let note = Note { kind: NoteKind::Steer, text: text.to_owned() };
        self.state.data.steered.push(Steered { note: note.clone(), words: words.clone() });
        self.tell_agent(turn, AgentOrder::Steer { text: words });
        self.tell_passed_on(note);
        true
    }

    /// The agent did not take an order. Words that it was to hear in its turn are said with what it is asked next.
    fn on_order_failed(&mut self, failed: FailedOrder) {
        if self.is_finished() {
            return self.drop_signal();
        }
        let FailedOrder { order, reason, words } = failed;
        if order == COMPACT {
            self.settle_compaction();
        }
        self.event(|| EventKind::OrderFailed { order, reason });
        let Some(words) = words else { return };
        let steered = &mut self.state.data.steered;
        let note = match steered.iter().position(|steered| steered.words == words) {
            Some(at) => steered.remove(at).note,
            // Its turn ended meanwhile, and what it was told was taken for heard.
            None => Note { kind: NoteKind::Steer, text: unmarked(&words).to_owned() },
        };
        self.queue_note(note);
    }

    /// A turn did not end well, so nobody knows what it heard beside its prompt: that is said again.
    pub(crate) fn return_notes(&mut self) {
        for steered in std::mem::take(&mut self.state.data.steered) {
            self.queue_note(steered.note);
        }
    }

    /// A turn ended well: it has heard everything that it was told.
    fn settle_notes(&mut self) {
        for steered in std::mem::take(&mut self.state.data.steered) {
            let (driver, situation) = self.driver();
            let heard = AgentHeard::Note(&steered.note);
            driver.observe(&situation, &Fact::AgentTook(heard));
        }
    }

    /// A turn that somebody stopped has ended for everybody who looks on.
    pub(crate) fn end_agent_turn(&mut self) {
        let turn = self.state.data.spend.turns;
        let end = Some(AgentEnd::Interrupted);
        let unknown = std::mem::take(&mut self.state.data.unknown);
        self.event(|| EventKind::AgentEnded { end, text: String::new(), unknown });
        self.event(|| EventKind::TurnEnded { turn });
        self.return_notes();
    }

    pub(crate) fn on_agent_ended(&mut self, ended: Result<AgentTurn, String>) {
        self.close_requests("the agent's turn ended before it did");
        match &ended {
            Ok(AgentTurn { end: AgentEnd::Done, .. }) => self.settle_notes(),
            _ => self.return_notes(),
        }
        let turn = self.state.data.spend.turns;
        let (end, text) = match &ended {
            Ok(turn) => (Some(turn.end.clone()), turn.text.clone()),
            Err(reason) => (None, reason.clone()),
        };
        let unknown = std::mem::take(&mut self.state.data.unknown);
        self.event(|| EventKind::AgentEnded { end, text, unknown });
        match ended.as_ref().map(|turn| &turn.end) {
            Ok(AgentEnd::ContextOverflow) => self.state.data.spend.context_overflows += 1,
            Ok(AgentEnd::Done) => self.state.data.spend.context_overflows = 0,
            _ => {}
        }
        if let Some(failure) = ended.as_ref().ok().and_then(may_heal) {
            self.count_wasted(&failure);
            if self.wait_out(&failure) {
                return;
            }
        } else {
            self.forget_failures();
        }
        self.event(|| EventKind::TurnEnded { turn });
        self.tell_progress();
        self.state.data.phase = Phase::Ready;
        self.note_agent_ended(&ended);
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::AgentEnded(ended.as_ref().map_err(String::as_str)));
        let is_gone =
            matches!(&ended, Ok(AgentTurn { end: AgentEnd::Broken(AgentFault::Workspace), .. }));
        if is_gone && let Some(kept) = self.state.data.last_kept.clone() {
            self.roll_back(kept);
        }
    }
}

/// A failure of the agent's model that may be gone later.
fn may_heal(turn: &AgentTurn) -> Option<ModelFailure> {
    let AgentEnd::Model { kind, again: true, after, .. } = &turn.end else { return None };
    Some(ModelFailure {
        kind: kind.clone(),
        retry: after.map_or(Retry::Backoff, Retry::After),
        message: turn.text.clone(),
        usage: Usage::default(),
    })
}

/// An agent's call as the gate knows calls. What is not certain keeps the agent's name for it, and is asked about.
fn in_our_words(agent: &str, ask: &AgentAsk) -> (String, Arc<Value>, EffectClass) {
    let raw = &ask.input;
    let own = || format!("{agent}.{}", ask.tool);
    let (tool, input, class) = match &ask.means {
        AgentMeans::Command(line) => {
            ("shell".to_owned(), json!({ "command": line }), EffectClass::Unsafe)
        }
        AgentMeans::Read(path) => ("read".to_owned(), json!({ "path": path }), EffectClass::Pure),
        AgentMeans::Write(paths) => {
            let input = json!({ "paths": paths, "input": raw });
            ("write".to_owned(), input, EffectClass::Checkable)
        }
        AgentMeans::Fetch(url) => {
            ("fetch".to_owned(), json!({ "url": url, "input": raw }), EffectClass::Unsafe)
        }
        AgentMeans::Ours(tool) => {
            let class = tool::find(tool).map_or(EffectClass::Unsafe, |known| known.class);
            return (tool.clone(), Arc::clone(raw), class);
        }
        AgentMeans::Inner => return (own(), Arc::clone(raw), EffectClass::Pure),
        AgentMeans::Other => return (own(), Arc::clone(raw), EffectClass::Unsafe),
    };
    (tool, Arc::new(input), class)
}
