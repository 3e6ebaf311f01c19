//! What Claude Code's models cost. Streams say so answer by answer, results turn by turn; what is told must be neither
//! twice nor late, since a budget is held against it.

use machine::message::Usage;
use serde_json::Value;

/// What is known of the cost.
#[derive(Debug, Default)]
pub(super) struct Spending {
    /// What answers have said since the last result.
    told: Usage,
    /// The process's sums, as the last result had them.
    sums: Sum,
}

/// Tokens and dollars together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    usage: Usage,
    usd: f64,
}

impl Spending {
    /// An answer has ended and says what it cost.
    pub(super) fn answer(&mut self, usage: Usage) -> Option<Usage> {
        let usage = without_zeros(usage);
        self.told.add(&usage);
        (usage != Usage::default()).then_some(usage)
    }

    /// A turn has ended: what it cost beside what its answers told, such as summaries and small questions.
    pub(super) fn result(&mut self, result: &Value) -> Option<(Usage, Option<f64>)> {
        let sums = match &result["modelUsage"] {
            Value::Null => Sum { usd: dollars(&result["total_cost_usd"]), ..Sum::default() },
            models => sum(models),
        };
        let turn = match &result["model_usage_since_last_result"] {
            // A resumed conversation begins with the sums of the one before, so the difference is taken only where
            // it must be: versions that do not tell it begin at nothing.
            Value::Object(_) => sum(&result["model_usage_since_last_result"]),
            _ => Sum {
                usage: beyond(sums.usage, self.sums.usage),
                usd: (sums.usd - self.sums.usd).max(0.0),
            },
        };
        self.sums = sums;
        let rest = without_zeros(beyond(turn.usage, std::mem::take(&mut self.told)));
        let usd = (turn.usd > 0.0).then_some(turn.usd);
        (rest != Usage::default() || usd.is_some()).then_some((rest, usd))
    }
}

/// The sum over all models.
fn sum(models: &Value) -> Sum {
    let mut sum = Sum::default();
    for model in models.as_object().into_iter().flat_map(|models| models.values()) {
        let count = |key: &str| model[key].as_u64();
        let long = count("cacheCreationEphemeral1hInputTokens");
        let written = count("cacheCreationInputTokens");
        sum.usage.add(&Usage {
            input: count("inputTokens"),
            output: count("outputTokens"),
            thinking: count("thinkingTokens"),
            cache_read: count("cacheReadInputTokens"),
            cache_write: written.map(|written| written.saturating_sub(long.unwrap_or(0))),
            cache_write_long: long,
            nanodollars: None,
        });
        sum.usd += dollars(&model["costUSD"]);
    }
    sum
}

fn dollars(value: &Value) -> f64 {
    value.as_f64().filter(|usd| usd.is_finite()).unwrap_or(0.0)
}

/// What the first has more than the second.
fn beyond(one: Usage, two: Usage) -> Usage {
    let more =
        |one: Option<u64>, two: Option<u64>| one.map(|one| one.saturating_sub(two.unwrap_or(0)));
    Usage {
        input: more(one.input, two.input),
        output: more(one.output, two.output),
        thinking: more(one.thinking, two.thinking),
        cache_read: more(one.cache_read, two.cache_read),
        cache_write: more(one.cache_write, two.cache_write),
        cache_write_long: more(one.cache_write_long, two.cache_write_long),
        nanodollars: None,
    }
}

fn without_zeros(usage: Usage) -> Usage {
    let some = |count: Option<u64>| count.filter(|count| *count > 0);
    Usage {
        input: some(usage.input),
        output: some(usage.output),
        thinking: some(usage.thinking),
        cache_read: some(usage.cache_read),
        cache_write: some(usage.cache_write),
        cache_write_long: some(usage.cache_write_long),
        nanodollars: None,
    }
}
