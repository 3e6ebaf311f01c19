//! Before the agent is asked, its conversation is made shorter, if that is wanted: the order is one more turn of it, whose end
//! is awaited.

use std::time::{Duration, Instant};

use machine::agent::{AgentEnd, AgentNews, AgentOrder, AgentTurn, FailedOrder};

use super::super::{Turn, lock};
use super::Process;
use super::hearing::Listener;
use crate::inbox::Inbox;
use crate::process::Cancel;

/// How long an agent may take to say which commands it has, after it can be asked.
const COMMANDS_GRACE: Duration = Duration::from_secs(5);

impl Process {
    /// Makes the conversation shorter. The end of the whole turn, if the agent cannot be asked after that.
    pub(super) fn shorten(
        &self,
        turn: &Turn,
        inbox: &Inbox,
        cancel: &Cancel,
    ) -> Option<Result<AgentTurn, String>> {
        let focus = turn.call.compact.as_deref()?;
        lock(&self.hearing).begin(Listener::of_order(turn, inbox));
        let failed = |reason: String| {
            let failed = FailedOrder::not_compacted(reason);
            Listener::of_order(turn, inbox).tell(AgentNews::OrderFailed(failed));
        };
        if let Err(reason) = self.order_summary(focus, cancel) {
            failed(reason);
            return None;
        }
        let ended = self.await_end(&inbox.watch(), cancel);
        // Whoever stopped it wants it all the same, before the next turn.
        if cancel.is_triggered() {
            return Some(ended);
        }
        let Ok(turn) = &ended else { return Some(ended) };
        let is_shorter = std::mem::take(&mut lock(&self.hearing).compacted);
        if turn.end == AgentEnd::Done && is_shorter {
            return None;
        }
        failed(match turn.text.trim() {
            "" => "it ended without a summary".to_owned(),
            text => text.to_owned(),
        });
        let is_gone = matches!(turn.end, AgentEnd::Broken(_) | AgentEnd::NoSession);
        is_gone.then_some(ended)
    }

    fn order_summary(&self, focus: &str, cancel: &Cancel) -> Result<(), String> {
        let until = Instant::now() + COMMANDS_GRACE;
        let may_say_later = self.program.protocol.says_itself().contains(&"compact");
        loop {
            let order = AgentOrder::Compact { focus: focus.to_owned() };
            let told = self.write(|codec| codec.order(order));
            let is_over = Instant::now() >= until || cancel.is_triggered();
            if told.is_ok() || !may_say_later || is_over || !self.is_alive() {
                return told;
            }
            drop(self.wait(lock(&self.hearing)));
        }
    }
}
