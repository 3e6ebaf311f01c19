//! What tokens cost: prices as data with a date, and the cost of one call from what its provider counted.
//!
//! Money is counted in whole billionths of a US dollar, so that sums are exact.

use serde::{Deserialize, Serialize};

use crate::message::{Block, Message, Part, Usage};

/// Billionths of a dollar in one dollar for a million tokens: what one token costs at a price of 1.
const PER_TOKEN: f64 = 1000.0;

/// Bytes of text that are taken for one token where nobody counts.
const BYTES_PER_TOKEN: u64 = 4;

/// The price of a model, in US dollars for a million tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens of the question.
    pub input: f64,
    /// Tokens of the answer, thinking included.
    pub output: f64,
    /// Tokens of the question that were read from a cache; as other input if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Tokens of the question that were written to a cache; as other input if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// The same, kept for longer; as `cache_write` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<f64>,
    /// The day on which the price was looked up, such as `2026-01-31`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
    /// What long questions cost instead, where they cost more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<Box<LongPrice>>,
}

/// The price of a question that is longer than some size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// The number of tokens up to which the ordinary price holds.
    pub over: u64,
    /// As in [`Price`].
    pub input: f64,
    /// As in [`Price`].
    pub output: f64,
    /// As in [`Price`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// As in [`Price`], but never less than what is said there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// As in [`Price`], but never less than what is said there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<f64>,
}

impl Price {
    /// What is wrong with it, if anything: a price is a number of zero or more.
    pub fn problem(&self) -> Option<String> {
        let long = self.long.as_deref();
        let parts = [
            ("input", Some(self.input)),
            ("output", Some(self.output)),
            ("cache_read", self.cache_read),
            ("cache_write", self.cache_write),
            ("cache_write_long", self.cache_write_long),
            ("long.input", long.map(|long| long.input)),
            ("long.output", long.map(|long| long.output)),
            ("long.cache_read", long.and_then(|long| long.cache_read)),
            ("long.cache_write", long.and_then(|long| long.cache_write)),
            ("long.cache_write_long", long.and_then(|long| long.cache_write_long)),
        ];
        let wrong = parts.into_iter().find(|(_, price)| {
            price.is_some_and(|price| !price.is_finite() || !(0.0..=1e6).contains(&price))
        });
        wrong.map(|(name, _)| {
            format!("price.{name}: expected dollars for a million tokens, from 0 to 1000000")
        })
    }

    fn is_free(&self) -> bool {
        let long = self.long.as_deref().map_or(0.0, |long| long.input + long.output);
        let cached = [self.cache_read, self.cache_write, self.cache_write_long];
        self.input + self.output + long + cached.into_iter().flatten().sum::<f64>() == 0.0
    }

    /// What a call cost, in billionths of a US dollar; none if its provider counted nothing, unless it is free.
    pub fn cost(&self, usage: &Usage) -> Option<u64> {
        if usage.input.is_none() && usage.output.is_none() {
            return self.is_free().then_some(0);
        }
        let long = self.long.as_deref().filter(|long| usage.context() > long.over);
        let (input, output) =
            long.map_or((self.input, self.output), |long| (long.input, long.output));
        let cache_read = long.map_or(self.cache_read, |long| long.cache_read).unwrap_or(input);
        let mut cache_write = self.cache_write.unwrap_or(input);
        let mut cache_write_long = self.cache_write_long.unwrap_or(cache_write);
        if let Some(long) = long {
            cache_write = long.cache_write.unwrap_or(input).max(cache_write);
            let kept = long.cache_write_long.unwrap_or(cache_write);
            cache_write_long = kept.max(cache_write_long);
        }
        let parts = [
            (usage.input, input),
            (usage.output, output),
            (usage.cache_read, cache_read),
            (usage.cache_write, cache_write),
            (usage.cache_write_long, cache_write_long),
        ];
        let cost: f64 = parts
            .into_iter()
            .map(|(tokens, price)| tokens.unwrap_or(0) as f64 * price * PER_TOKEN)
            .sum();
        // A float becomes the nearest integer it fits into.
        Some(cost.round() as u64)
    }
}

/// Billionths of a dollar as dollars.
pub fn dollars(billionths: u64) -> f64 {
    billionths as f64 / 1e9
}

/// About how many tokens so many bytes of text are, where nobody counts.
pub(crate) fn tokens_in(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Dollars that a provider says, in billionths; none if that is no sum of money.
pub fn told(dollars: f64) -> Option<u64> {
    // A float becomes the nearest integer it fits into: a sum beyond all measure reaches every limit.
    (dollars >= 0.0).then(|| (dollars * 1e9).round() as u64)
}

/// What a call cost whose provider may have said so. Never less than its tokens cost at a known price, and nothing is
/// unknown, not free, where the price is not known: a gateway that knows no price says 0, and a limit must not be evaded
/// by that.
pub fn charge(usage: &Usage, price: Option<&Price>) -> Option<u64> {
    let listed = price.and_then(|price| price.cost(usage));
    match usage.nanodollars {
        Some(0) | None => listed,
        told => told.max(listed),
    }
}

/// What a call counts for. Where its provider counts nothing, or nothing but zeros, and does not say what it cost either, that
/// stays unknown; the tokens of an answer are guessed from how many bytes were sent and what came, so that a limit of them
/// holds and a full context is seen.
pub fn count(usage: Usage, price: Option<&Price>, answered: Option<(u64, &Message)>) -> Usage {
    let empty = Usage { nanodollars: usage.nanodollars, ..Usage::default() };
    let counted = Some(usage).filter(|usage| usage.total() > 0).unwrap_or(empty);
    let counted = Usage { nanodollars: charge(&counted, price), ..counted };
    match answered.filter(|_| counted.total() == 0) {
        Some((sent, answer)) => Usage {
            input: Some(tokens_in(sent)),
            output: Some(tokens_in(answer.blocks.iter().map(bytes_of).sum())),
            ..counted
        },
        None => counted,
    }
}

/// What an answer counts for that was cut off after `heard` bytes of it. Providers tell what they count at the beginning or at
/// the end, so what came counts at least by its size, and the question too where nothing was told of it. Where the price is
/// not known nothing is guessed: a guess without a price would end a task that has a limit of money.
pub fn count_cut(usage: Usage, price: Option<&Price>, sent: u64, heard: u64) -> Usage {
    let told = count(usage, price, None);
    if heard == 0 || price.is_none() {
        return told;
    }
    let came = tokens_in(heard);
    let guessed = match told.total() {
        0 => Usage { input: Some(tokens_in(sent)), output: Some(came), ..told },
        _ => Usage { output: Some(told.output.unwrap_or(0).max(came)), ..told },
    };
    Usage { nanodollars: charge(&guessed, price), ..guessed }
}

fn bytes_of(block: &Block) -> u64 {
    let bytes = match &block.part {
        Part::Text { text } | Part::Thinking { text } | Part::ToolResult { text, .. } => text.len(),
        Part::ToolUse { name, input, .. } => name.len() + input.to_string().len(),
        Part::Media { data, .. } => data.len(),
        Part::Opaque => 0,
    };
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_nobody_counted_is_measured_and_its_cost_unknown() {
        let answer = Message::user("12345");
        let zeros = Usage { input: Some(0), output: Some(0), ..Usage::default() };
        for untold in [Usage::default(), zeros] {
            let guessed = count(untold, Some(&price()), Some((41, &answer)));
            assert_eq!((guessed.input, guessed.output), (Some(11), Some(2)));
            assert_eq!(guessed.nanodollars, None);
            assert_eq!(count(untold, Some(&price()), None), Usage::default());
        }
        let told = Usage { input: Some(1), ..Usage::default() };
        let counted = count(told, Some(&price()), Some((41, &answer)));
        assert_eq!(counted, Usage { nanodollars: Some(3_000), ..told });
    }

    #[test]
    fn an_answer_that_was_cut_off_counts_by_what_came_of_it() {
        // Nothing was told: the question and what came are measured.
        let cut = count_cut(Usage::default(), Some(&price()), 4_000, 400);
        assert_eq!((cut.input, cut.output), (Some(1_000), Some(100)));
        assert_eq!(cut.nanodollars, Some(3_000_000 + 1_500_000));
        // The counters of the beginning know nothing of what came after them.
        let begun = Usage { input: Some(10), output: Some(1), ..Usage::default() };
        let cut = count_cut(begun, Some(&price()), 4_000, 400);
        assert_eq!(
            (cut.input, cut.output, cut.nanodollars),
            (Some(10), Some(100), Some(1_530_000))
        );
        let counted = Usage { output: Some(120), ..begun };
        assert_eq!(count_cut(counted, Some(&price()), 4_000, 400).output, Some(120));
        // An answer of which nothing came, and one of an unknown price, count as they were told.
        for (price, heard) in [(Some(&price()), 0), (None, 400)] {
            assert_eq!(count_cut(Usage::default(), price, 4_000, heard), Usage::default());
        }
    }

    fn price() -> Price {
        Price {
            input: 3.0,
            output: 15.0,
            cache_read: Some(0.3),
            cache_write: Some(3.75),
            cache_write_long: None,
            as_of: None,
            long: None,
        }
    }

    fn long() -> LongPrice {
        LongPrice {
            over: 10,
            input: 6.0,
            output: 22.5,
            cache_read: None,
            cache_write: None,
            cache_write_long: None,
        }
    }

    #[test]
    fn what_a_provider_says_counts_unless_its_tokens_cost_more_at_a_known_price() {
        let said =
            |dollars| Usage { input: Some(1_000), nanodollars: told(dollars), ..Usage::default() };
        let cost = |dollars, price: Option<&Price>| count(said(dollars), price, None).nanodollars;
        assert_eq!(cost(0.25, None), Some(250_000_000));
        assert_eq!(cost(0.25, Some(&price())), Some(250_000_000));
        // A discount is not believed, so that no limit is evaded by one.
        assert_eq!(cost(0.000_001, Some(&price())), Some(3_000_000));
        for nonsense in [0.0, -0.0, -4.0, f64::NAN] {
            assert_eq!(cost(nonsense, None), None, "{nonsense}");
            assert_eq!(cost(nonsense, Some(&price())), Some(3_000_000), "{nonsense}");
        }
        assert_eq!(cost(1e300, None), Some(u64::MAX));
        let free =
            Price { input: 0.0, output: 0.0, cache_read: None, cache_write: None, ..price() };
        assert_eq!(cost(0.0, Some(&free)), Some(0));
        // Also where no token is counted.
        let untold = Usage { nanodollars: told(0.5), ..Usage::default() };
        let counted = count(untold, Some(&price()), Some((41, &Message::user("12345"))));
        assert_eq!((counted.input, counted.nanodollars), (Some(11), Some(500_000_000)));
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let usage = Usage {
            input: Some(1_000),
            output: Some(100),
            thinking: Some(90),
            cache_read: Some(10_000),
            cache_write: Some(2_000),
            cache_write_long: Some(1_000),
            ..Usage::default()
        };
        // 3,000 + 1,500 + 3,000 + 7,500 + 3,750 millionths of a dollar.
        assert_eq!(price().cost(&usage), Some(18_750_000));
        assert_eq!(dollars(18_750_000), 0.01875);
    }

    #[test]
    fn what_was_not_counted_has_no_cost_and_what_is_not_listed_costs_as_input() {
        assert_eq!(price().cost(&Usage::default()), None);
        let free =
            Price { input: 0.0, output: 0.0, cache_read: None, cache_write: None, ..price() };
        assert_eq!(free.cost(&Usage::default()), Some(0));
        let plain = Price { cache_read: None, cache_write: None, ..price() };
        let usage = Usage { input: Some(1), cache_read: Some(1), ..Usage::default() };
        assert_eq!(plain.cost(&usage), Some(6_000));
    }

    #[test]
    fn a_long_question_has_its_own_price() {
        let price = Price { long: Some(Box::new(long())), ..price() };
        let usage = |input| Usage { input: Some(input), output: Some(1), ..Usage::default() };
        assert_eq!(price.cost(&usage(10)), Some(45_000));
        assert_eq!(price.cost(&usage(11)), Some(88_500));
    }

    #[test]
    fn a_long_question_that_is_kept_costs_no_less_than_one_that_is_not() {
        let usage = Usage {
            input: Some(11),
            cache_write: Some(1),
            cache_write_long: Some(1),
            ..Usage::default()
        };
        let with =
            |long| Price { cache_write_long: Some(5.0), long: Some(Box::new(long)), ..price() };
        // Nothing is said: as other tokens of a long question, each.
        assert_eq!(with(long()).cost(&usage), Some(66_000 + 6_000 + 6_000));
        let said = LongPrice { cache_write: Some(7.5), cache_write_long: Some(12.0), ..long() };
        assert_eq!(with(said).cost(&usage), Some(66_000 + 7_500 + 12_000));
    }

    #[test]
    fn a_price_is_a_number_of_zero_or_more() {
        assert_eq!(price().problem(), None);
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            let problem = Price { cache_read: Some(wrong), ..price() }.problem().unwrap();
            assert!(problem.starts_with("price.cache_read"), "{problem}");
        }
    }
}
