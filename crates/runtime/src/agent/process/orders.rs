//! What an agent is told before its prompt, in the same turn: to ask another model, and to make its conversation shorter. What it
//! says and asks meanwhile is heard, judged and paid for as everything in the turn.

mod model;
mod shorten;

use machine::agent::AgentTurn;

use super::super::{Turn, lock};
use super::Process;
use super::listener::Listener;
use crate::inbox::Inbox;
use crate::process::Cancel;

/// How the orders before a prompt came out.
#[derive(Debug)]
pub(super) enum Obeyed {
    /// The agent can be asked.
    Ready,
    /// The turn is over.
    Ended(AgentTurn),
    /// Only another process can be asked for this turn.
    Refused,
}

impl Process {
    /// Gives the orders that come before the prompt of a turn, one after the other; most turns have none.
    pub(super) fn obey(&self, turn: &Turn, inbox: &Inbox, cancel: &Cancel) -> Obeyed {
        if !self.asks_model(turn, inbox, cancel) {
            return Obeyed::Refused;
        }
        match self.shorten(turn, inbox, cancel) {
            Some(ended) => Obeyed::Ended(ended),
            None => Obeyed::Ready,
        }
    }

    /// What is heard from here on is said to an order: nothing was asked yet.
    fn begin_order(&self, turn: &Turn, inbox: &Inbox) {
        lock(&self.hearing).begin(Listener::of_order(turn, inbox));
    }
}
