//! The one door: routes an input to the activity that owns it. Total: an input that does not fit changes
//! nothing and says why.

use crate::activity::approval::Reach;
use crate::driver::Hand;
use crate::effect::Effect;
use crate::event::{Event, EventKind, Loss};
use crate::id::EffectId;
use crate::input::{Command, Input, Signal, Stamped};
use crate::state::{Pending, Phase, State};
use crate::time::Timestamp;

/// What came of one input.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// Work for the world, in the order it is to be started.
    pub effects: Vec<Effect>,
    /// Facts for observers.
    pub events: Vec<Event>,
    /// Set if the input was refused: what was expected and what came. The sender is told.
    pub rejected: Option<String>,
}

/// Takes one input. The input must be in the journal before this is called, and the effects are performed
/// after; the same inputs in the same order give the same states, effects and events.
pub fn step(state: &mut State, stamped: Stamped<Input>) -> Output {
    let clock = stamped.time;
    let now = state.data.own(clock);
    let mut step = Step { clock, now, state, output: Output::default() };
    step.state.data.inputs += 1;
    step.follow_clock(&stamped.input);
    match stamped.input {
        Input::ToolEnded(id, result) => step.on_tool_ended(id, result),
        Input::Signal(signal) => step.on_signal(signal),
        Input::Command(command) => step.on_command(command),
    }
    step.advance();
    step.forget_waiting();
    step.translate_timers();
    step.output
}

/// One input on its way through the machine. The activities add their methods in their own files.
pub(crate) struct Step<'a> {
    /// What the clock says, for those who look.
    pub(crate) clock: Timestamp,
    /// The task's own time, which no clock that is set back takes with it. All moments in the state are in it.
    pub(crate) now: Timestamp,
    pub(crate) state: &'a mut State,
    pub(crate) output: Output,
}

impl Step<'_> {
    fn on_command(&mut self, command: Command) {
        let started = self.state.data.phase != Phase::New;
        if started != !matches!(command, Command::Start(_)) {
            return self.reject(if started {
                "the task has been started already"
            } else {
                "the task has not been started: expected a start first"
            });
        }
        let steps_in = match command {
            Command::Interrupt { .. }
            | Command::Steer { .. }
            | Command::FollowUp { .. }
            | Command::Raise(_)
            | Command::RollBack { .. }
            | Command::Reopen { .. }
            | Command::HandOver(_) => true,
            // Whoever makes every move does not step in with one of them.
            Command::Tell { .. } => {
                self.state.driver.hand() != Hand::Person
                    || matches!(self.state.data.phase, Phase::Escalated { .. })
            }
            _ => false,
        };
        let approved = match &command {
            Command::Approve { call, .. } => Some(*call),
            _ => None,
        };
        self.on_fitting_command(command);
        if self.output.rejected.is_some() {
            return;
        }
        if steps_in {
            self.begin_anew();
        }
        if let Some(call) = approved {
            self.forget_denials(call);
        }
    }

    fn on_fitting_command(&mut self, command: Command) {
        match command {
            Command::Start(spec) => self.on_start(*spec),
            Command::Attach { owner, attended } => self.on_attach(owner, attended),
            Command::Drain => self.on_drain(),
            Command::Detach { reason } => self.on_detach(reason),
            Command::Pause => self.on_pause(),
            Command::Resume => self.on_resume(),
            Command::Cancel { reason } => self.on_cancel(reason),
            Command::Interrupt { note } => self.on_interrupt(note),
            Command::Steer { text } => self.on_steer(text),
            Command::FollowUp { text } => self.on_follow_up(text),
            Command::Raise(budget) => self.on_raise(&budget),
            Command::Allot(budget) => self.on_allot(&budget),
            Command::Relay { number, note } => self.on_relay(number, note),
            Command::Approve { call, scope, like, hash, via } => {
                self.on_approve(call, Reach { scope, like }, hash, via);
            }
            Command::Deny { call, reason, hash, via } => self.on_deny(call, reason, hash, via),
            Command::Answer { call, text } => self.on_answer(call, text),
            Command::Tell { line, question } => self.on_tell(line, question),
            Command::Resolve { call, how } => self.on_resolve(call, how),
            Command::RollBack { to } => self.on_roll_back(to),
            Command::HandOver(driver) => self.on_hand_over(driver),
            Command::Reopen { reason, results, rebase } => self.on_reopen(reason, &results, rebase),
            Command::NoteIntegration(integration) => self.on_note_integration(integration),
            Command::Dispatch(order) => self.on_dispatch(order),
            Command::ChildReport(report) => self.on_child_report(report),
            Command::Compact { focus } => self.on_compact(focus),
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::WorkspaceOpened(id, opened) => {
                if self.take(id, Pending::Workspace) {
                    self.on_workspace_opened(opened);
                }
            }
            Signal::ToolsOpened(id, opened) => {
                if self.take(id, Pending::Tools) {
                    self.on_tools_opened(opened);
                }
            }
            Signal::ToolsChanged(changed) => self.on_tools_changed(changed),
            Signal::Verified(id, verdict) => {
                if self.take(id, Pending::Verify) {
                    self.on_verified(verdict);
                }
            }
            Signal::Consulted(id, answer) => {
                self.state.data.unpaid.remove(&id);
                if let Some(call) = self.take_decider(id) {
                    self.on_program_decided(call, answer);
                } else if self.take(id, Pending::Consult) {
                    self.on_consulted(answer);
                }
            }
            Signal::ModelReplied(id, reply) => {
                if self.state.data.unpaid.remove(&id) {
                    self.pay_stopped(&reply);
                }
                if let Some(call) = self.take_decider(id) {
                    self.on_model_decided(call, *reply);
                } else if self.state.data.pending.get(&id) == Some(&Pending::Judge) {
                    self.state.data.pending.remove(&id);
                    self.on_judged(*reply);
                } else if self.take(id, Pending::Model) {
                    self.on_model_replied(*reply);
                }
            }
            Signal::AgentSaid(id, news) => self.on_agent_said(id, news),
            Signal::AgentEnded(id, ended) => {
                self.state.data.unpaid.remove(&id);
                if self.take(id, Pending::Agent) {
                    self.on_agent_ended(ended);
                }
            }
            Signal::ChildLeft(id, end) => self.on_child_left(id, &end),
            Signal::ChildrenSeen(seen) => self.on_children_seen(seen),
            Signal::Checkpointed(id, made) => {
                if self.take(id, Pending::Checkpoint) {
                    self.on_checkpointed(made);
                }
            }
            Signal::Unkeepable(id, why) => {
                if self.take(id, Pending::Checkpoint) {
                    self.on_unkeepable(why);
                }
            }
            Signal::Restored(id, restored) => {
                if self.take(id, Pending::Restore) {
                    self.on_restored(restored);
                }
            }
            Signal::Requested { key, tool, input } => self.on_requested(key, tool, input),
            Signal::Withdrawn { key, how } => self.on_withdrawn(&key, how),
            Signal::TimerFired(id) => self.on_timer_fired(id),
            Signal::OwnerLost => self.on_owner_lost(),
            Signal::Restarted(brought_back) => self.on_restarted(Loss::Restart, brought_back),
            Signal::FolderGone(brought_back) => self.on_restarted(Loss::Folder, brought_back),
            Signal::RecordsLost { lost, child } => self.on_records_lost(lost, child),
            // Its time was charged without the sleep, so there is more of it left than the deadline knows.
            Signal::Slept(_) => self.renew_deadline(),
            // The timers of this process were set back with it.
            Signal::SetBack(_) => {}
        }
    }

    /// Takes the report of an outstanding effect. One that is late, doubled or foreign is dropped and counted.
    fn take(&mut self, id: EffectId, expected: Pending) -> bool {
        if self.state.data.pending.get(&id) == Some(&expected) {
            self.state.data.pending.remove(&id);
            return true;
        }
        self.drop_signal();
        false
    }

    pub(crate) fn drop_signal(&mut self) {
        self.state.data.dropped += 1;
        let total = self.state.data.dropped;
        self.event(|| EventKind::SignalDropped { total });
    }

    pub(crate) fn reject(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        self.event(|| EventKind::Rejected { reason: reason.clone() });
        self.output.rejected = Some(reason);
    }

    /// Tells observers; the event is only made if somebody listens, but always counted.
    pub(crate) fn event(&mut self, make: impl FnOnce() -> EventKind) {
        self.count_event();
        if !self.state.quiet {
            self.output.events.push(Event {
                seq: self.state.data.last_event,
                time: self.clock,
                task: self.state.data.id.clone(),
                kind: make(),
            });
        }
    }

    /// Gives the next event its number, also where nobody listens and making it would only cost.
    pub(crate) fn count_event(&mut self) {
        self.state.data.last_event += 1;
    }

    /// A new effect id, noted as outstanding.
    pub(crate) fn expect(&mut self, pending: Pending) -> EffectId {
        self.state.data.last_effect += 1;
        let id = EffectId(self.state.data.last_effect);
        self.state.data.pending.insert(id, pending);
        id
    }

    /// Whether an effect for this is outstanding.
    pub(crate) fn is_pending(&self, what: Pending) -> bool {
        self.state.data.pending.values().any(|pending| *pending == what)
    }

    /// Stops outstanding effects of the given kinds; their late reports will be dropped.
    pub(crate) fn stop(&mut self, which: impl Fn(&Pending) -> bool) {
        let targets: Vec<EffectId> =
            self.state.data.pending.iter().filter(|(_, p)| which(p)).map(|(id, _)| *id).collect();
        for target in targets {
            let was = self.state.data.pending.remove(&target);
            if was.as_ref().is_some_and(Pending::costs) {
                self.state.data.unpaid.insert(target);
            }
            if was == Some(Pending::Child) {
                // It is put down and not ended: whoever waited for it may ask for it again.
                if let Some((child, _)) = self.state.data.awaited_child() {
                    let reason = "the task that waits for it was stopped".to_owned();
                    self.tell_child(child, Command::Detach { reason });
                }
                continue;
            }
            self.output.effects.push(Effect::Cancel { target });
            if was == Some(Pending::Agent) {
                self.end_agent_turn();
            }
        }
    }
}
