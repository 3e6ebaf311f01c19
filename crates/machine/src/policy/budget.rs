//! What a task may spend, and what it has spent. Checked before each effect that spends.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::driver::composite;
use crate::task::DriverSpec;
use crate::time::Span;

/// The turns of a task that nobody set a limit to, if a worker decides the next move: more than any work that gets
/// somewhere, and far less than a circle can cost.
pub const WORKER_TURNS: u64 = 1_000;

/// The same, if a workflow decides and a worker carries out steps of it: every way in a workflow has a limit of its own, and its
/// steps may be many. Also where there is a limit, but one that a worker may never come to.
pub const WORKFLOW_TURNS: u64 = 100_000;

/// Limits. Absent means none; zero means that nothing of it is allowed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Decisions of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    /// Time while the task is driven and not paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Span>,
    /// Model tokens, in and out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Money, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
    /// Tool calls that were started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    /// Denied calls in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consecutive_denies: Option<u64>,
    /// Failed calls in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consecutive_errors: Option<u64>,
    /// Times in a row that the model's context overflowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context_overflows: Option<u64>,
}

/// What has been spent so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Spend {
    /// Decisions made.
    pub turns: u64,
    /// Milliseconds driven and not paused.
    pub millis: u64,
    /// Model tokens.
    pub tokens: u64,
    /// US dollars, as far as prices are known.
    pub usd: f64,
    /// Answers of models whose cost nobody knows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced: u64,
    /// How many of them there were when the limit of money was raised: they do not count as that limit reached any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_allowed: u64,
    /// Tool calls started.
    pub tool_calls: u64,
    /// Denied calls since one that was not.
    pub consecutive_denies: u64,
    /// Failed calls since one that was not.
    pub consecutive_errors: u64,
    /// Overflows since a model call that fitted.
    pub context_overflows: u64,
    /// Requests to models that failed, by the kind of failure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wasted: BTreeMap<String, u64>,
}

impl Spend {
    /// The limit of money was raised: what the answers so far have cost is nothing that it has to hold. Nobody will ever know it, so
    /// that no limit would be large enough.
    pub(crate) fn allow_unpriced(&mut self) {
        self.unpriced_allowed = self.unpriced;
    }

    /// All requests to models that failed.
    pub fn wasted_requests(&self) -> u64 {
        self.wasted.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// One limit that is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exhausted {
    /// The budget key, such as `max_turns`.
    pub axis: String,
    /// What was spent.
    pub spent: String,
    /// The limit.
    pub limit: String,
}

/// What is about to be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purchase {
    /// One more decision of the driver.
    Turn,
    /// One more tool call.
    ToolCall,
    /// What a model is paid for: a question to one, a turn of an agent, a child.
    Answer,
    /// Nothing in particular: only what binds everything is checked.
    Time,
}

impl Budget {
    /// Sets a limit of turns, counted from those that are spent, where nobody set one that a task without an end would reach.
    /// Where a person decides each move, and where all of it is written down, there is an end without one.
    pub fn bound(&mut self, driver: &DriverSpec, spent: u64) {
        if self.max_turns.is_some() || self.max_time.is_some() {
            return;
        }
        let mut is_work = false;
        let mut config = driver.config.clone();
        // A tree that is too deep is refused elsewhere.
        let _ = composite::visit(&driver.name, &mut config, &mut |name, config| {
            let is_worker = name == "llm" || name == "agent" || name.starts_with("external:");
            is_work |= is_worker && config["chat"] != true;
            Ok(())
        });
        if !is_work {
            return;
        }
        // Time passes in any case. A plugin asks no model, some models are free, and not every agent says what it used.
        let has_another = self.max_tokens.is_some() || self.max_usd.is_some();
        let more =
            if has_another || driver.name == "workflow" { WORKFLOW_TURNS } else { WORKER_TURNS };
        self.max_turns = Some(spent.saturating_add(more));
    }

    /// Every axis that forbids one of the purchases; all are reported, not only the first.
    ///
    /// Time and what fails again and again (denies, errors) forbid everything once reached; every other axis only what spends
    /// of it: a step that asks no model goes on though all the money is spent.
    pub fn forbids(&self, spend: &Spend, purchases: &[Purchase]) -> Vec<Exhausted> {
        let mut reached = Vec::new();
        // Every step asks, and nearly always nothing is reached: words are made only then.
        let mut axis = |name: &str, over: bool, spent: &dyn Display, limit: &dyn Display| {
            if over {
                let (spent, limit) = (spent.to_string(), limit.to_string());
                reached.push(Exhausted { axis: name.to_owned(), spent, limit });
            }
        };
        if purchases.contains(&Purchase::Turn)
            && let Some(limit) = self.max_turns
        {
            axis("max_turns", spend.turns >= limit, &spend.turns, &limit);
        }
        if purchases.contains(&Purchase::ToolCall)
            && let Some(limit) = self.max_tool_calls
        {
            axis("max_tool_calls", spend.tool_calls >= limit, &spend.tool_calls, &limit);
        }
        if let Some(limit) = self.max_time {
            axis("max_time", spend.millis >= limit.0, &Span(spend.millis), &limit);
        }
        let asks = purchases.contains(&Purchase::Answer);
        if asks && let Some(limit) = self.max_usd {
            let usd = spend.usd;
            let answers = match spend.unpriced {
                0 => String::new(),
                1 => ", and 1 answer whose price is unknown".to_owned(),
                calls => format!(", and {calls} answers whose price is unknown"),
            };
            // A limit that cannot be held has been reached.
            let over = usd >= limit || spend.unpriced > spend.unpriced_allowed;
            axis("max_usd", over, &format_args!("{usd:.4}{answers}"), &limit);
        }
        if asks && let Some(limit) = self.max_tokens {
            axis("max_tokens", spend.tokens >= limit, &spend.tokens, &limit);
        }
        let overflows = self.max_context_overflows.filter(|_| asks);
        for (name, limit, spent) in [
            ("max_consecutive_denies", self.max_consecutive_denies, spend.consecutive_denies),
            ("max_consecutive_errors", self.max_consecutive_errors, spend.consecutive_errors),
            ("max_context_overflows", overflows, spend.context_overflows),
        ] {
            if let Some(limit) = limit {
                // A streak of nothing has not reached a limit of zero; the first failure has.
                axis(name, spent > 0 && spent >= limit, &spent, &limit);
            }
        }
        reached
    }

    /// The limits of what models are paid for that were reached by spending: nothing that is claimed then is a success. A limit
    /// of zero that nothing was spent of is kept, not reached.
    pub fn used_up(&self, spend: &Spend) -> Vec<Exhausted> {
        let mut reached = self.forbids(spend, &[Purchase::Answer]);
        reached.retain(|reached| match reached.axis.as_str() {
            "max_tokens" => spend.tokens > 0,
            "max_usd" => spend.usd > 0.0 || spend.unpriced > 0,
            _ => true,
        });
        reached
    }

    /// Takes the larger limit of money, tokens and time, where there is one; whether one is larger now.
    pub(crate) fn grow(&mut self, to: &Budget) -> bool {
        fn up<T: PartialOrd + Copy>(limit: &mut Option<T>, to: Option<T>) -> bool {
            let larger = limit.is_some_and(|had| to.is_some_and(|to| to > had));
            if larger {
                *limit = to;
            }
            larger
        }
        let usd = up(&mut self.max_usd, to.max_usd);
        let tokens = up(&mut self.max_tokens, to.max_tokens);
        let time = up(&mut self.max_time, to.max_time);
        usd || tokens || time
    }

    /// Takes the larger limit on every axis that `raise` names.
    ///
    /// An axis that has no limit keeps none. A lower or equal limit is an error and changes nothing.
    pub fn raise(&mut self, raise: &Budget) -> Result<(), String> {
        fn up<T: PartialOrd + Copy + std::fmt::Display>(
            name: &str,
            old: Option<T>,
            new: Option<T>,
        ) -> Result<Option<T>, String> {
            match (old, new) {
                (Some(old), Some(new)) if new <= old => {
                    Err(format!("{name} is {old} already: a budget can only be raised, got {new}"))
                }
                (None, Some(_)) => Err(format!("{name} has no limit: there is nothing to raise")),
                (Some(_), Some(new)) => Ok(Some(new)),
                (old, None) => Ok(old),
            }
        }
        let raised = Budget {
            max_turns: up("max_turns", self.max_turns, raise.max_turns)?,
            max_time: up("max_time", self.max_time, raise.max_time)?,
            max_tokens: up("max_tokens", self.max_tokens, raise.max_tokens)?,
            max_usd: up("max_usd", self.max_usd, raise.max_usd)?,
            max_tool_calls: up("max_tool_calls", self.max_tool_calls, raise.max_tool_calls)?,
            max_consecutive_denies: up(
                "max_consecutive_denies",
                self.max_consecutive_denies,
                raise.max_consecutive_denies,
            )?,
            max_consecutive_errors: up(
                "max_consecutive_errors",
                self.max_consecutive_errors,
                raise.max_consecutive_errors,
            )?,
            max_context_overflows: up(
                "max_context_overflows",
                self.max_context_overflows,
                raise.max_context_overflows,
            )?,
        };
        if *self == raised {
            return Err(
                "no budget axis was named: say which one, such as --max-turns 60".to_owned()
            );
        }
        *self = raised;
        Ok(())
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_means_none_allowed_and_absent_means_no_limit() {
        let none = Budget { max_turns: Some(0), max_tool_calls: Some(0), ..Budget::default() };
        assert_eq!(none.forbids(&Spend::default(), &[Purchase::Turn])[0].axis, "max_turns");
        assert_eq!(
            none.forbids(&Spend::default(), &[Purchase::ToolCall])[0].axis,
            "max_tool_calls"
        );
        let much = Spend { turns: u64::MAX, millis: u64::MAX, usd: 1e9, ..Spend::default() };
        assert!(Budget::default().forbids(&much, &[Purchase::Turn]).is_empty());
    }

    #[test]
    fn an_axis_forbids_only_what_spends_of_it() {
        let budget = Budget {
            max_turns: Some(0),
            max_tool_calls: Some(0),
            max_tokens: Some(0),
            max_usd: Some(0.0),
            ..Budget::default()
        };
        let axes = |purchases: &[Purchase]| -> Vec<String> {
            let reached = budget.forbids(&Spend::default(), purchases);
            reached.into_iter().map(|reached| reached.axis).collect()
        };
        assert_eq!(axes(&[Purchase::Turn]), ["max_turns"]);
        assert_eq!(axes(&[Purchase::ToolCall]), ["max_tool_calls"]);
        assert_eq!(axes(&[Purchase::Answer]), ["max_usd", "max_tokens"]);
        assert_eq!(axes(&[Purchase::Turn, Purchase::Answer]).len(), 3);
        assert!(axes(&[Purchase::Time]).is_empty());
        let late = Budget { max_time: Some(Span(0)), ..Budget::default() };
        for purchase in [Purchase::Turn, Purchase::ToolCall, Purchase::Answer, Purchase::Time] {
            assert_eq!(late.forbids(&Spend::default(), &[purchase]).len(), 1, "time passes");
        }
    }

    #[test]
    fn a_worker_without_any_limit_gets_one_and_nobody_else_does() {
        let bound = |budget: &Budget, name: &str, config: serde_json::Value| {
            let mut budget = budget.clone();
            budget.bound(&DriverSpec::new(name, config), 0);
            budget.max_turns
        };
        let none = Budget::default();
        let ask =
            serde_json::json!({ "steps": [{ "name": "a", "prompt": "x", "model": "script/x" }] });
        let call = serde_json::json!({ "steps": [{ "name": "a", "tool": "shell" }] });
        let model = || serde_json::json!({ "model": "script/x" });
        assert_eq!(bound(&none, "llm", model()), Some(WORKER_TURNS));
        assert_eq!(
            bound(&none, "agent", serde_json::json!({ "agent": "claude" })),
            Some(WORKER_TURNS)
        );
        assert_eq!(bound(&none, "external:mine", serde_json::json!({})), Some(WORKER_TURNS));
        assert_eq!(bound(&none, "workflow", ask), Some(WORKFLOW_TURNS));
        assert_eq!(bound(&none, "workflow", call), None);
        assert_eq!(bound(&none, "user", serde_json::json!({})), None);
        assert_eq!(bound(&none, "llm", serde_json::json!({ "chat": true })), None);
        let timed = Budget { max_time: Some(Span(1)), ..Budget::default() };
        assert_eq!(bound(&timed, "llm", model()), None, "what ends it was said");
        for said in [
            Budget { max_usd: Some(1.0), ..Budget::default() },
            Budget { max_tokens: Some(1), ..Budget::default() },
        ] {
            let turns = bound(&said, "external:mine", serde_json::json!({}));
            assert_eq!(turns, Some(WORKFLOW_TURNS), "it may never come to that");
        }
    }

    #[test]
    fn a_person_beside_a_worker_is_no_end() {
        let bound = |name: &str, drivers: serde_json::Value| {
            let mut budget = Budget::default();
            budget.bound(&DriverSpec::new(name, serde_json::json!({ "drivers": drivers })), 5);
            budget.max_turns
        };
        let model = serde_json::json!({ "driver": "llm", "config": { "model": "script/x" } });
        let chat = serde_json::json!({ "driver": "llm", "config": { "chat": true } });
        let user = serde_json::json!({ "driver": "user" });
        for first in [&model, &user, &chat] {
            let turns = bound("fallback", serde_json::json!([first, model, user]));
            assert_eq!(turns, Some(5 + WORKER_TURNS), "{first}");
        }
        assert_eq!(bound("fallback", serde_json::json!([user, chat])), None);
    }

    #[test]
    fn every_reached_axis_is_reported() {
        let budget = Budget { max_turns: Some(1), max_usd: Some(0.5), ..Budget::default() };
        let spend = Spend { turns: 1, usd: 0.5, ..Spend::default() };
        let axes: Vec<String> = budget
            .forbids(&spend, &[Purchase::Turn, Purchase::Answer])
            .into_iter()
            .map(|reached| reached.axis)
            .collect();
        assert_eq!(axes, ["max_turns", "max_usd"]);
    }

    #[test]
    fn a_budget_is_raised_only_upward() {
        let mut budget = Budget { max_turns: Some(10), ..Budget::default() };
        let to = |turns| Budget { max_turns: Some(turns), ..Budget::default() };
        assert!(budget.raise(&to(10)).unwrap_err().contains("only be raised"));
        assert!(budget.raise(&Budget { max_usd: Some(1.0), ..Budget::default() }).is_err());
        assert!(budget.raise(&Budget::default()).is_err());
        budget.raise(&to(11)).unwrap();
        assert_eq!(budget.max_turns, Some(11));
    }
}
