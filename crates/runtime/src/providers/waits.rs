//! How long a server may take and how much it may say, as `models.toml` has it: a model that runs on a processor may read
//! a long question for many minutes before it says a word.

use std::time::Duration;

use machine::time::Span;
use serde::{Deserialize, Deserializer, de};

use crate::http;

/// The shortest and the longest wait that a file may ask for.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(24 * 3600));

/// The smallest and the largest limit of an answer that a file may set; some providers refuse a smaller one.
const TOKENS: (u64, u64) = (16, 10_000_000);

/// How long the answers of a provider are waited for; what is absent is as for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// Until the first piece.
    pub first: Option<Duration>,
    /// Between two pieces.
    pub next: Option<Duration>,
    /// For all of it.
    pub whole: Option<Duration>,
}

impl Waits {
    /// The limits of a call that keeps to these waits.
    pub(crate) fn over(&self, limits: http::Limits) -> http::Limits {
        let idle = self.next.unwrap_or(limits.idle);
        http::Limits {
            first: self.first.unwrap_or(limits.first),
            idle,
            busy: limits.busy.max(idle),
            total: self.whole.unwrap_or(limits.total),
            ..limits
        }
    }

    /// What is wrong with them together, if anything: a wait that another one cuts short is none.
    pub(super) fn problem(&self) -> Option<String> {
        let limits = self.over(http::Limits::default());
        let longest = [("first_piece", limits.first), ("next_piece", limits.idle)]
            .into_iter()
            .find(|(_, wait)| *wait > limits.total)?;
        let or_not = if self.whole.is_some() { "" } else { ", which is 1h if it is not said" };
        Some(format!("{} is longer than whole_answer{or_not}", longest.0))
    }
}

/// Reads a wait.
pub(super) fn wait<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let wait = Duration::from_millis(Span::deserialize(from)?.0);
    if wait < WAITS.0 || wait > WAITS.1 {
        return Err(de::Error::custom("expected a time from \"1s\" to \"24h\""));
    }
    Ok(Some(wait))
}

/// Reads a number of tokens.
pub(super) fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let tokens = u64::deserialize(from)?;
    if tokens < TOKENS.0 || tokens > TOKENS.1 {
        let expected = format!("expected a number of tokens from {} to {}", TOKENS.0, TOKENS.1);
        return Err(de::Error::custom(expected));
    }
    Ok(Some(tokens))
}
