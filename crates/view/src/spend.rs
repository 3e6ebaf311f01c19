//! What was spent, against what is allowed.

use machine::policy::budget::{Budget, Spend};
use machine::time::Span;

use crate::text::plural;

/// What was spent on one axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The option that limits it, without dashes: `max-turns`.
    pub option: &'static str,
    /// What was spent, with its unit.
    pub spent: String,
    /// The limit, if there is one.
    pub limit: Option<String>,
}

/// Every axis that is limited or was used.
pub fn rows(spend: &Spend, budget: &Budget) -> Vec<Row> {
    let count = |option, spent: u64, limit: Option<u64>, word: &str| {
        let amount = usize::try_from(spent).unwrap_or(usize::MAX);
        let row = Row {
            option,
            spent: format!("{spent} {}", plural(amount, word)),
            limit: limit.map(|l| l.to_string()),
        };
        (spent > 0 || limit.is_some()).then_some(row)
    };
    let dollars =
        (spend.usd > 0.0 || spend.unpriced > 0 || budget.max_usd.is_some()).then(|| Row {
            option: "max-usd",
            spent: match spend.unpriced {
                0 => money(spend.usd),
                calls => format!(
                    "{} and the unknown price of {calls} {}",
                    money(spend.usd),
                    plural(usize::try_from(calls).unwrap_or(usize::MAX), "answer")
                ),
            },
            limit: budget.max_usd.map(money),
        });
    [
        count("max-turns", spend.turns, budget.max_turns, "turn"),
        count("max-tool-calls", spend.tool_calls, budget.max_tool_calls, "tool call"),
        Some(Row {
            option: "max-time",
            spent: duration(spend.millis),
            limit: budget.max_time.map(|limit| limit.to_string()),
        }),
        count("max-tokens", spend.tokens, budget.max_tokens, "token"),
        dollars,
        count(
            "max-consecutive-denies",
            spend.consecutive_denies,
            budget.max_consecutive_denies,
            "denied call",
        ),
        count(
            "max-consecutive-errors",
            spend.consecutive_errors,
            budget.max_consecutive_errors,
            "failed call",
        ),
        count(
            "max-context-overflows",
            spend.context_overflows,
            budget.max_context_overflows,
            "context overflow",
        ),
    ]
    .into_iter()
    .flatten()
    .map(|mut row| {
        if row.option.starts_with("max-consecutive-") {
            row.spent.push_str(" in a row");
        }
        row
    })
    .collect()
}

/// All of it in one line: `3 turns of 40, 2 tool calls, 1.2s of 30m`.
pub fn line(spend: &Spend, budget: &Budget) -> String {
    let parts: Vec<String> = rows(spend, budget)
        .into_iter()
        .map(|row| match row.limit {
            Some(limit) => format!("{} of {limit}", row.spent),
            None => row.spent,
        })
        .collect();
    parts.join(", ")
}

/// The limits alone: `max-turns 40, max-usd $2.50`.
pub fn limits(budget: &Budget) -> String {
    let limited = rows(&Spend::default(), budget)
        .into_iter()
        .filter_map(|row| Some((row.option, row.limit?)));
    limited.map(|(option, limit)| format!("{option} {limit}")).collect::<Vec<String>>().join(", ")
}

/// Dollars for a reader: in cents, and an amount of less than ten cents with the digits that make it something.
pub fn money(usd: f64) -> String {
    if !(0.0..0.1).contains(&usd) || usd == 0.0 {
        return format!("${usd:.2}");
    }
    // Two digits that count; answers are counted in billionths.
    let digits = (2..=9).find(|digits| usd >= 10_f64.powi(1 - digits)).unwrap_or(9);
    let text = format!("${usd:.*}", usize::try_from(digits).unwrap_or(9));
    let cents = "$0.00".len();
    let end = text.trim_end_matches('0').len().max(cents);
    text[..end].to_owned()
}

/// A length of time for a reader: two units at most.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis}ms"),
        1000..10_000 => format!("{}.{}s", millis / 1000, millis % 1000 / 100),
        10_000..60_000 => format!("{}s", millis / 1000),
        60_000..3_600_000 => Span(millis / 1000 * 1000).to_string(),
        _ => Span(millis / 60_000 * 60_000).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_what_was_used_or_is_limited() {
        let spend = Spend { turns: 3, tool_calls: 1, millis: 1234, ..Spend::default() };
        let budget = Budget { max_turns: Some(40), max_usd: Some(2.5), ..Budget::default() };
        insta::assert_snapshot!(line(&spend, &budget), @"3 turns of 40, 1 tool call, 1.2s, $0.00 of $2.50");
        let spend = Spend { consecutive_denies: 2, consecutive_errors: 1, ..Spend::default() };
        insta::assert_snapshot!(line(&spend, &Budget::default()), @"0ms, 2 denied calls in a row, 1 failed call in a row");
    }

    #[test]
    fn a_small_amount_of_money_is_not_shown_as_nothing() {
        let shown: Vec<String> =
            [0.0, 12.345, 0.5, 0.1, 0.0999, 0.05, 0.0351, 0.0015, 0.0007, 0.000_000_12, 1e-12]
                .map(money)
                .into();
        let expected = [
            "$0.00",
            "$12.35",
            "$0.50",
            "$0.10",
            "$0.10",
            "$0.05",
            "$0.035",
            "$0.0015",
            "$0.0007",
            "$0.00000012",
            "$0.00",
        ];
        assert_eq!(shown, expected);
        let spend = Spend { usd: 0.0015, ..Spend::default() };
        let budget = Budget { max_usd: Some(0.001), ..Budget::default() };
        assert_eq!(line(&spend, &budget), "0ms, $0.0015 of $0.001");
    }

    #[test]
    fn a_duration_has_two_units_at_most() {
        let shown: Vec<String> =
            [0, 999, 1250, 59_999, 61_500, 3_600_000, 90_061_001].map(duration).into();
        assert_eq!(shown, ["0ms", "999ms", "1.2s", "59s", "1m1s", "1h", "1d1h1m"]);
    }
}
