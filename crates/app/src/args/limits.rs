//! Limits, as every command that makes a task takes them.

use std::str::FromStr;

use clap::Args;
use machine::policy::budget::Budget;
use machine::time::Span;

/// Limits.
#[derive(Debug, Clone, Args, Default)]
pub(crate) struct Limits {
    /// Decisions of the driver
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_turns: Option<u64>,
    /// Time while it is driven and not paused, such as 90s, 30m or 1h30m
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, help_heading = "Budget")]
    pub(crate) max_time: Option<Span>,
    /// Model tokens, in and out
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_tokens: Option<u64>,
    /// Money, in US dollars
    #[arg(long, value_name = "USD", value_parser = money, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_usd: Option<f64>,
    /// Tool calls
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_tool_calls: Option<u64>,
    /// Denied calls in a row
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_consecutive_denies: Option<u64>,
    /// Failed calls in a row
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_consecutive_errors: Option<u64>,
    /// Overflows of the model's context in a row
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_context_overflows: Option<u64>,
}

/// A number, also one that is none: with a hyphen before it, it is not taken for another flag.
pub(crate) fn count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number such as 40".to_owned())
}

pub(crate) fn money(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("expected an amount such as 2.50".to_owned()),
    }
}

impl Limits {
    /// The limits that were given.
    pub(crate) fn budget(&self) -> Budget {
        Budget {
            max_turns: self.max_turns,
            max_time: self.max_time,
            max_tokens: self.max_tokens,
            max_usd: self.max_usd,
            max_tool_calls: self.max_tool_calls,
            max_consecutive_denies: self.max_consecutive_denies,
            max_consecutive_errors: self.max_consecutive_errors,
            max_context_overflows: self.max_context_overflows,
        }
    }

    /// Takes the limits that were given in place of those of a file.
    pub(crate) fn replace(&self, budget: &mut Budget) {
        let given = self.budget();
        budget.max_turns = given.max_turns.or(budget.max_turns);
        budget.max_time = given.max_time.or(budget.max_time);
        budget.max_tokens = given.max_tokens.or(budget.max_tokens);
        budget.max_usd = given.max_usd.or(budget.max_usd);
        budget.max_tool_calls = given.max_tool_calls.or(budget.max_tool_calls);
        budget.max_consecutive_denies =
            given.max_consecutive_denies.or(budget.max_consecutive_denies);
        budget.max_consecutive_errors =
            given.max_consecutive_errors.or(budget.max_consecutive_errors);
        budget.max_context_overflows = given.max_context_overflows.or(budget.max_context_overflows);
    }
}
