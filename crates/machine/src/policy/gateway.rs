//! Requests of a coding agent to its models that pass through drivetrain: whether one may be sent, what it counts for,
//! and how that goes together with what the agent says itself, so that nothing is counted twice.

use serde::{Deserialize, Serialize};

use super::budget::{Budget, Purchase, Spend};
use super::price::tokens_in;
use crate::message::Usage;

/// Whether a gateway asks an agent's models in its place. It can only do so with a key: an agent's own login stays with
/// the agent. The error says what is missing.
pub fn is_used(wish: Option<bool>, key: KeyFound) -> Result<bool, String> {
    match (wish, key) {
        (Some(false), _) => Ok(false),
        (_, KeyFound::Yes) => Ok(true),
        (None, KeyFound::Unset | KeyFound::Unknown) => Ok(false),
        (Some(true), KeyFound::Unset) => Err(
            "the gateway needs the agent's key, and none of its variables is set: set one, or say --no-gateway".to_owned(),
        ),
        (Some(true), KeyFound::Unknown) => Err(
            "the gateway does not know whom this agent asks: its file names none of the keys ANTHROPIC_API_KEY, \
             OPENAI_API_KEY, GEMINI_API_KEY; say --no-gateway"
                .to_owned(),
        ),
    }
}

/// Whether what an agent asks can be answered from a recording. Only a gateway can do that; the error says why there is
/// none.
pub fn may_replay(wish: Option<bool>, key: KeyFound) -> Result<(), String> {
    match (wish, key) {
        (Some(false), _) => Err(
            "without its gateway an agent asks by itself, and nothing can be replayed: say --replay without --no-gateway"
                .to_owned(),
        ),
        (None | Some(true), KeyFound::Yes | KeyFound::Unset) => Ok(()),
        (None | Some(true), KeyFound::Unknown) => Err(
            "what this agent asks cannot be replayed: its file names none of the keys ANTHROPIC_API_KEY, OPENAI_API_KEY, \
             GEMINI_API_KEY, so nobody knows whom it asks"
                .to_owned(),
        ),
    }
}

/// What is known of an agent's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFound {
    /// A variable that the gateway knows is set.
    Yes,
    /// The gateway knows one of its variables, and none is set.
    Unset,
    /// The gateway knows none of its variables.
    Unknown,
}

/// Whether there is a turn that a request can belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The agent was asked for one that has not ended.
    UnderWay,
    /// Nobody asked it for anything.
    None,
}

/// Whether a request may be sent; the error is for the agent and for whoever reads its words.
pub fn may_ask(turn: Turn, budget: &Budget, spend: &Spend) -> Result<(), String> {
    if turn == Turn::None {
        return Err("no turn of this agent is under way, so its models are not asked".to_owned());
    }
    let reached: Vec<String> = budget
        .forbids(spend, &[Purchase::Answer])
        .into_iter()
        .map(|axis| format!("{} = {} reached ({})", axis.axis, axis.limit, axis.spent))
        .collect();
    if reached.is_empty() {
        return Ok(());
    }
    Err(format!("the budget of this task is spent: {}", reached.join(", ")))
}

/// What is known of one answer that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passed {
    /// What its provider counted.
    pub usage: Usage,
    /// Bytes of the question.
    pub asked: u64,
    /// Bytes of text that came back.
    pub said: u64,
    /// The provider began to answer: a request that it refused costs nothing.
    pub began: bool,
    /// The answer came to its end.
    pub whole: bool,
}

/// What an answer counts for. A count that is missing is taken from the size of the text: what was sent is paid for,
/// whether or not anybody stayed to hear what it cost.
pub fn charge(passed: &Passed) -> Usage {
    let mut usage = passed.usage;
    if !passed.began {
        return usage;
    }
    let no_input = [usage.input, usage.cache_read, usage.cache_write, usage.cache_write_long]
        .iter()
        .all(Option::is_none);
    if no_input {
        usage.input = Some(tokens_in(passed.asked));
    }
    // The count that comes with the beginning of an answer is not that of its end.
    if usage.output.is_none() || !passed.whole {
        usage.output = Some(usage.output.unwrap_or(0).max(tokens_in(passed.said)));
    }
    usage
}

/// What a question that nobody heard the end of counts for, in tokens.
pub fn lost(asked: u64) -> u64 {
    tokens_in(asked)
}

/// Money for what passed, beside what the agent says that it cost: kept since the agent last said so.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Dollars that were counted here.
    pub charged: f64,
    /// Answers whose price is not known here.
    pub unpriced: u64,
}

impl Ledger {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        *self == Ledger::default()
    }

    /// An answer was counted, with its price in dollars where that is known.
    pub fn count(&mut self, usd: Option<f64>) {
        match usd {
            Some(usd) => self.charged += usd,
            None => self.unpriced += 1,
        }
    }

    /// The agent says what it spent since it last said so. What the gateway counted stands; where it knew no price, the
    /// rest of the agent's sum counts. Gives the dollars to add and the answers that have a price now.
    pub fn settle(&mut self, usd: Option<f64>) -> (f64, u64) {
        let Some(usd) = usd.filter(|usd| usd.is_finite() && *usd > 0.0) else { return (0.0, 0) };
        let known = std::mem::take(self);
        match known.unpriced {
            0 => (0.0, 0),
            priced => ((usd - known.charged).max(0.0), priced),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_used_where_there_is_a_key_unless_somebody_says_otherwise() {
        assert_eq!(is_used(None, KeyFound::Yes), Ok(true));
        assert_eq!(is_used(None, KeyFound::Unset), Ok(false));
        assert_eq!(is_used(None, KeyFound::Unknown), Ok(false));
        assert_eq!(is_used(Some(false), KeyFound::Yes), Ok(false));
        assert_eq!(is_used(Some(true), KeyFound::Yes), Ok(true));
        assert!(is_used(Some(true), KeyFound::Unset).unwrap_err().contains("--no-gateway"));
        assert!(is_used(Some(true), KeyFound::Unknown).unwrap_err().contains("OPENAI_API_KEY"));
    }

    #[test]
    fn nothing_is_sent_outside_of_a_turn_or_beyond_the_budget() {
        let budget = Budget { max_tokens: Some(100), ..Budget::default() };
        let spend = |tokens| Spend { tokens, ..Spend::default() };
        assert_eq!(may_ask(Turn::UnderWay, &budget, &spend(99)), Ok(()));
        let refused = may_ask(Turn::UnderWay, &budget, &spend(100)).unwrap_err();
        assert!(refused.contains("max_tokens = 100 reached (100)"), "{refused}");
        assert!(may_ask(Turn::None, &budget, &spend(0)).unwrap_err().contains("no turn"));
    }

    #[test]
    fn what_nobody_counted_is_taken_from_the_size_of_the_text() {
        let counted = Usage { input: Some(7), output: Some(3), ..Usage::default() };
        let whole = Passed { usage: counted, asked: 4000, said: 4000, began: true, whole: true };
        assert_eq!(charge(&whole), counted);
        let cut = charge(&Passed { whole: false, ..whole });
        assert_eq!((cut.input, cut.output), (Some(7), Some(1000)));
        let silent = charge(&Passed { usage: Usage::default(), ..whole });
        assert_eq!((silent.input, silent.output), (Some(1000), Some(1000)));
        let cached = Usage { cache_read: Some(9), ..Usage::default() };
        assert_eq!(charge(&Passed { usage: cached, ..whole }).input, None);
        let refused = Passed { usage: Usage::default(), began: false, ..whole };
        assert_eq!(charge(&refused), Usage::default());
    }

    #[test]
    fn money_is_counted_once_whoever_names_it() {
        let mut known = Ledger::default();
        known.count(Some(0.5));
        assert_eq!(known.settle(Some(0.6)), (0.0, 0), "the price was known here");
        let mut mixed = Ledger::default();
        mixed.count(Some(0.25));
        mixed.count(None);
        assert_eq!(mixed.settle(None), (0.0, 0));
        assert_eq!(mixed.settle(Some(1.0)), (0.75, 1));
        assert_eq!(mixed.settle(Some(1.0)), (0.0, 0), "it was settled");
        mixed.count(None);
        assert_eq!(mixed.settle(Some(f64::NAN)), (0.0, 0));
    }
}
