//! Tool calls: many at once, each with exactly one result, matched by id.

use std::sync::Arc;

use crate::effect::{Effect, ToolCall};
use crate::event::EventKind;
use crate::id::{CallId, EffectId};
use crate::input::Resolution;
use crate::policy::budget::Purchase;
use crate::policy::permission::Approval;
use crate::state::{Call, CallStatus, Pending, Phase};
use crate::step::Step;
use crate::tool::{EffectClass, Status, ToolResult};

impl Step<'_> {
    /// Starts every call that has not been started and may be, whether the driver decided on it or a worker asked for
    /// it. A call that a worker asked for is gone once it has its result.
    pub(crate) fn start_calls(&mut self) {
        let phase = std::mem::discriminant(&self.state.data.phase);
        let mut index = 0;
        while let Some(call) = self.state.data.calls.get(index) {
            let id = call.id;
            match &call.status {
                CallStatus::Queued { approved, repeated, by } => {
                    let (approved, repeated, by) = (*approved, *repeated, by.clone());
                    let forbidden = self
                        .state
                        .data
                        .budget
                        .forbids(&self.state.data.committed(), &[Purchase::ToolCall]);
                    if !forbidden.is_empty() && !repeated {
                        // What runs may end first: its result is not lost to the limit.
                        let running =
                            |call: &Call| matches!(call.status, CallStatus::Running { .. });
                        if !self.state.data.calls.iter().any(running) {
                            self.exhaust(forbidden);
                        }
                        return;
                    }
                    // Whoever is to be asked about it can be asked meanwhile.
                    if self.waits_its_turn(index) && (approved || !self.will_be_asked(index)) {
                        index += 1;
                        continue;
                    }
                    // An attempt that may have run before had its checkpoint.
                    if !repeated && self.waits_for_checkpoint(index) {
                        index += 1;
                        continue;
                    }
                    self.start_call(index, approved, repeated, by);
                    if std::mem::discriminant(&self.state.data.phase) != phase {
                        return;
                    }
                }
                CallStatus::AwaitingDecider { effect: None, .. } => {
                    self.ask_decider(index);
                    if std::mem::discriminant(&self.state.data.phase) != phase {
                        return;
                    }
                }
                _ => {}
            }
            if self.state.data.calls.get(index).is_some_and(|call| call.id == id) {
                index += 1;
            }
        }
    }

    /// Whether a call has to wait for one before it in the same answer of a model. Models ask for what depends on each other at
    /// once (`git add` and `git commit`, an edit and the test of it): only what changes nothing runs side by side.
    fn waits_its_turn(&self, index: usize) -> bool {
        let (before, rest) = self.state.data.calls.split_at(index);
        let Some(call) = rest.first().filter(|call| call.has_a_turn()) else {
            return false;
        };
        before.iter().filter(|other| other.has_a_turn()).any(|other| {
            other.action.path == call.action.path
                && !matches!(other.status, CallStatus::Done(_))
                && (other.class != EffectClass::Pure || call.class != EffectClass::Pure)
        })
    }

    fn start_call(&mut self, index: usize, approved: bool, repeated: bool, by: String) {
        // One that may have run before ran by a yes for its tool as that was then.
        let is_known = repeated && !self.is_changed(index);
        if approved && !repeated {
            self.accept_changed(index);
        }
        let call = &self.state.data.calls[index];
        let id = call.id;
        let outside = call.agent.is_some();
        if !outside && let Err(reason) = self.check_call(&call.action.tool, &call.action.input) {
            return self.end_call(id, ToolResult::ended(Status::Error, reason));
        }
        let approval = if is_known {
            Approval::repeated()
        } else if approved && !repeated && by.is_empty() {
            Approval::by_person()
        } else if approved && !repeated {
            Approval::given_by(by)
        } else {
            match self.pass_gate(index) {
                Some(approval) => approval,
                None => return,
            }
        };
        if outside {
            self.let_agent_run(index, &approval);
        } else if self.state.data.calls[index].action.tool == "ask" {
            self.ask_question(index);
        } else {
            self.run_call(index, approval, repeated);
        }
    }

    fn run_call(&mut self, index: usize, approval: Approval, repeated: bool) {
        let id = self.state.data.calls[index].id;
        if self.state.data.calls[index].class != EffectClass::Pure {
            self.note_change();
        }
        let effect = self.expect(Pending::Call(id));
        self.state.data.spend.tool_calls += 1;
        let workspace = self.workspace();
        let sandbox = self.state.data.spec.sandbox.clone();
        let server = self.server_call(&self.state.data.calls[index].action.tool);
        let call = &mut self.state.data.calls[index];
        call.status = CallStatus::Running { effect };
        call.began = Some(self.now);
        let (class, action) = (call.class, &call.action);
        let (tool, input, timeout) =
            (action.tool.clone(), Arc::clone(&action.input), action.timeout);
        if self.state.quiet {
            self.count_event();
        } else {
            let (tool, label, input) = (tool.clone(), action.label.clone(), Arc::clone(&input));
            let allowed_by = approval.by().to_owned();
            self.event(|| EventKind::ToolStarted { call: id, tool, label, input, allowed_by });
        }
        let call = ToolCall {
            call: id,
            tool,
            input,
            class,
            timeout,
            workspace,
            sandbox,
            repeated,
            server,
        };
        // An effect is large, and most inputs lead to one: to find room for four is slow.
        if self.output.effects.is_empty() {
            self.output.effects.reserve_exact(1);
        }
        self.output.effects.push(Effect::RunTool { id: effect, call, approval });
    }

    pub(crate) fn on_tool_ended(&mut self, effect: EffectId, result: ToolResult) {
        match self.state.data.pending.get(&effect) {
            Some(Pending::Call(call)) => {
                let call = *call;
                self.state.data.pending.remove(&effect);
                self.end_call(call, result);
            }
            _ => self.drop_signal(),
        }
    }

    /// Gives a call its one result.
    pub(crate) fn end_call(&mut self, id: CallId, result: ToolResult) {
        self.note_call_ended(id, &result);
        let spend = &mut self.state.data.spend;
        match result.status {
            Status::Denied => spend.consecutive_denies += 1,
            Status::Error | Status::TimedOut => {
                spend.consecutive_errors += 1;
                spend.consecutive_denies = 0;
            }
            Status::Ok => {
                spend.consecutive_errors = 0;
                spend.consecutive_denies = 0;
            }
            Status::Skipped | Status::Aborted | Status::InDoubt => {}
        }
        let quiet = self.state.quiet;
        let Some(call) = self.state.data.calls.iter_mut().find(|call| call.id == id) else {
            return;
        };
        let ran = matches!(call.status, CallStatus::Running { .. });
        if quiet {
            call.status = CallStatus::Done(result);
            self.count_event();
            self.settle_agent_call(id, ran);
            return self.settle_request(id);
        }
        call.status = CallStatus::Done(result.clone());
        let (tool, label) = (call.action.tool.clone(), call.action.label.clone());
        let tool_use = call.action.tool_use.clone();
        self.event(|| EventKind::ToolEnded { call: id, tool, label, tool_use, result });
        self.settle_agent_call(id, ran);
        self.settle_request(id);
    }

    pub(crate) fn on_resolve(&mut self, id: CallId, how: Resolution) {
        let Some(call) = self.state.data.calls.iter_mut().find(|call| call.id == id) else {
            return self.reject(format!("no call {id} is open"));
        };
        if call.status != CallStatus::InDoubt {
            return self.reject(format!("call {id} is not in doubt"));
        }
        if matches!(self.state.data.phase, Phase::Finished { .. }) {
            return self.reject(self.ended());
        }
        let word = match how {
            Resolution::Did => "did",
            Resolution::DidNot => "did_not",
            Resolution::Retry => "retry",
        };
        if how == Resolution::Retry {
            call.status = CallStatus::Queued { approved: true, repeated: true, by: String::new() };
        }
        self.event(|| EventKind::CallResolved { call: id, how: word.to_owned() });
        match how {
            Resolution::Did => {
                self.end_call(id, ToolResult::ok("a person says that it ran to its end"))
            }
            Resolution::DidNot => {
                self.end_call(
                    id,
                    ToolResult::ended(Status::Error, "a person says that it did not run"),
                );
            }
            Resolution::Retry => {}
        }
    }
}
