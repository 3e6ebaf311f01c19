//! What comes after an order to make a conversation shorter. The order is one more turn of the agent, before the one that it is
//! asked for; whether that one still follows depends on how the order ended.

use super::{AgentEnd, AgentTurn, FailedOrder};

/// How an order to make a conversation shorter ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SummaryEnd<'a> {
    /// The agent could not be told, for this reason.
    NotTold(&'a str),
    /// Somebody stopped it.
    Stopped,
    /// Its turn ended by itself.
    Ended {
        /// How.
        turn: &'a AgentTurn,
        /// Whether the agent said meanwhile that its conversation is shorter.
        is_shorter: bool,
    },
}

/// What comes after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfterSummary {
    /// That the conversation is as long as it was, and why; it is not tried again after that.
    pub failed: Option<FailedOrder>,
    /// What is done.
    pub next: NextStep,
}

/// What is done after an order to make a conversation shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// The agent is asked what it was to be asked.
    Ask,
    /// There is nobody to ask: the turn ended as the order did.
    EndTurn,
}

impl AfterSummary {
    /// A conversation that is as long as before is no reason not to work in it. One that is not there is.
    pub fn of(end: SummaryEnd<'_>) -> AfterSummary {
        match end {
            SummaryEnd::NotTold(reason) => AfterSummary::failed(reason, NextStep::Ask),
            // Whoever stopped it wants it all the same, before the next turn.
            SummaryEnd::Stopped => AfterSummary { failed: None, next: NextStep::EndTurn },
            SummaryEnd::Ended { turn, is_shorter } => {
                let next = match turn.end {
                    AgentEnd::Done if is_shorter => {
                        return AfterSummary { failed: None, next: NextStep::Ask };
                    }
                    AgentEnd::Done
                    | AgentEnd::Interrupted
                    | AgentEnd::Limit
                    | AgentEnd::Refused
                    | AgentEnd::ContextOverflow
                    | AgentEnd::Model { .. }
                    | AgentEnd::Failed => NextStep::Ask,
                    AgentEnd::NoSession | AgentEnd::Broken(_) => NextStep::EndTurn,
                };
                let reason = match turn.text.trim() {
                    "" => "it ended without a summary",
                    text => text,
                };
                AfterSummary::failed(reason, next)
            }
        }
    }

    fn failed(reason: &str, next: NextStep) -> AfterSummary {
        AfterSummary { failed: Some(FailedOrder::not_compacted(reason)), next }
    }
}

#[cfg(test)]
mod tests {
    use super::super::AgentFault;
    use super::*;

    fn after(end: AgentEnd, text: &str, is_shorter: bool) -> (Option<String>, NextStep) {
        let turn = AgentTurn::empty(end, text);
        let AfterSummary { failed, next } =
            AfterSummary::of(SummaryEnd::Ended { turn: &turn, is_shorter });
        (failed.map(|failed| failed.reason), next)
    }

    #[test]
    fn an_agent_whose_conversation_is_shorter_is_asked_and_nothing_is_said_of_it() {
        assert_eq!(after(AgentEnd::Done, "Compacted", true), (None, NextStep::Ask));
    }

    #[test]
    fn an_agent_whose_conversation_is_as_long_as_before_is_asked_all_the_same_and_it_is_said_why() {
        let model = AgentEnd::Model {
            kind: "rate_limit".to_owned(),
            status: Some(429),
            again: true,
            after: None,
        };
        let ends = [
            AgentEnd::Interrupted,
            AgentEnd::Limit,
            AgentEnd::Refused,
            AgentEnd::ContextOverflow,
            model,
            AgentEnd::Failed,
        ];
        for end in ends {
            for is_shorter in [false, true] {
                let expected = (Some("Not enough messages".to_owned()), NextStep::Ask);
                assert_eq!(after(end.clone(), " Not enough messages\n", is_shorter), expected);
            }
        }
        let unsaid = (Some("it ended without a summary".to_owned()), NextStep::Ask);
        assert_eq!(after(AgentEnd::Done, "\n", false), unsaid);
        let untold = AfterSummary::of(SummaryEnd::NotTold("it has no such command"));
        assert_eq!(untold.failed, Some(FailedOrder::not_compacted("it has no such command")));
        assert_eq!(untold.next, NextStep::Ask);
    }

    #[test]
    fn a_turn_is_over_when_nobody_is_there_to_be_asked_after_the_order() {
        for end in [AgentEnd::NoSession, AgentEnd::Broken(AgentFault::Exit)] {
            for is_shorter in [false, true] {
                let expected = (Some("it exited with 1".to_owned()), NextStep::EndTurn);
                assert_eq!(after(end.clone(), "it exited with 1", is_shorter), expected);
            }
        }
    }

    #[test]
    fn an_order_that_somebody_stopped_did_not_fail_and_so_is_given_again() {
        let stopped = AfterSummary::of(SummaryEnd::Stopped);
        assert_eq!(stopped, AfterSummary { failed: None, next: NextStep::EndTurn });
    }
}
