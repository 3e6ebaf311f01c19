//! A conversation that somebody wants shorter: whoever works is told before its next turn, never in the middle of one.

use crate::agent::AgentCall;
use crate::driver::{AgentHeard, Consultation, Fact};
use crate::event::EventKind;
use crate::input::Command;
use crate::state::Phase;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn on_compact(&mut self, focus: String) {
        if self.is_finished() {
            return self.reject(self.ended());
        }
        if !self.hand_on(|| Command::Compact { focus: focus.clone() }) {
            let (driver, _) = self.driver();
            if let Err(why) = driver.compact(&focus) {
                return self.reject(why);
            }
            self.compact_before_asking_again(&focus);
        }
        self.event(|| EventKind::CompactionAsked { focus });
    }

    /// What was asked and may be asked again without a decision comes after it, too.
    fn compact_before_asking_again(&mut self, focus: &str) {
        let data = &mut self.state.data;
        let is_at_rest = data.attachment.is_none();
        match &mut data.phase {
            Phase::Consulting { request: Consultation::Agent(call) } if can_do(call, focus) => {
                call.compact = Some(focus.to_owned());
            }
            // Nobody waits for the answer any more, so the question is as good as not asked.
            Phase::Consulting { request: Consultation::Model(_) } if is_at_rest => {
                data.phase = Phase::Ready;
            }
            _ => {}
        }
    }

    /// The agent has done as it was told, or could not.
    pub(crate) fn settle_compaction(&mut self) {
        if let Phase::Consulting { request: Consultation::Agent(call) } = &mut self.state.data.phase
        {
            call.compact = None;
        }
        let (driver, situation) = self.driver();
        driver.observe(&situation, &Fact::AgentTook(AgentHeard::Compact));
    }

    pub(crate) fn on_agent_compacted(&mut self, before: Option<u64>, after: Option<u64>) {
        // What it did before is no longer before its eyes: it may look again.
        self.state.data.course.watch.forget_turns();
        self.event(|| EventKind::AgentCompacted { before, after });
    }
}

/// Whether there is a conversation, and the agent may be able to make it shorter.
fn can_do(call: &AgentCall, focus: &str) -> bool {
    (call.taken || call.session.is_some()) && call.program.may_compact(focus).is_ok()
}
