//! Before the agent is asked, its conversation is made shorter, if that is wanted: the order is one more turn of it, whose end
//! is awaited.

use std::time::{Duration, Instant};

use machine::agent::summary::{AfterSummary, NextStep, SummaryEnd};
use machine::agent::{AgentEnd, AgentNews, AgentOrder, AgentTurn};

use super::super::super::{Turn, lock};
use super::Process;
use crate::inbox::Inbox;
use crate::process::Cancel;

/// How long an agent may take to say which commands it has, after it can be asked.
const COMMANDS_GRACE: Duration = Duration::from_secs(5);

impl Process {
    /// Makes the conversation shorter, if that is wanted. The end of the whole turn, if the agent is not asked after that.
    pub(super) fn shorten(&self, turn: &Turn, inbox: &Inbox, cancel: &Cancel) -> Option<AgentTurn> {
        let focus = turn.call.compact.as_deref()?;
        self.begin_order(turn, inbox);
        let ended = match self.order_summary(focus, cancel) {
            Ok(()) => Ok(self.await_end(&inbox.watch(), cancel)),
            // It was told nothing, so there is no end to wait for.
            Err(_) if cancel.is_triggered() => Ok(AgentTurn::empty(AgentEnd::Interrupted, "")),
            Err(reason) => Err(reason),
        };
        let is_shorter = std::mem::take(&mut lock(&self.hearing).compacted);
        let after = AfterSummary::of(match &ended {
            Err(reason) => SummaryEnd::NotTold(reason),
            Ok(_) if cancel.is_triggered() => SummaryEnd::Stopped,
            Ok(turn) => SummaryEnd::Ended { turn, is_shorter },
        });
        if let Some(failed) = after.failed {
            inbox.news(turn.task.clone(), turn.effect, AgentNews::OrderFailed(failed));
        }
        match after.next {
            NextStep::Ask => None,
            NextStep::EndTurn => ended.ok(),
        }
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
