//! The driver `until_accepted`: bounds how often a claim may be refused, and gives the work to a fresh
//! child when the one whose claim was refused gives up.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Renewable, SavedRenewable, Spec, count, fields, saved, to_value};
use crate::driver::{Decision, Driver, Fact, Registry, Situation};

#[derive(Debug)]
struct UntilAccepted {
    worker: Renewable,
    /// Claims that may be refused.
    rounds: u32,
    /// Claims that were.
    refused: u32,
    /// A claim is being checked. A verdict without one is news from before, told by a parent.
    claimed: bool,
    /// Whether the last of them was the present child's. One that gives up without a claim is not followed
    /// by another: that would go on for ever.
    answered: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    refused: u32,
    claimed: bool,
    answered: bool,
    worker: SavedRenewable,
}

pub(super) fn build(
    config: &Value,
    state: Option<&Value>,
    registry: &Registry,
) -> Result<Box<dyn Driver>, String> {
    let fields = fields(config, &["driver", "rounds"])?;
    let spec = Spec::single(fields)?;
    let rounds = count(fields, "rounds", 3)?;
    Ok(Box::new(match saved::<Saved>(state)? {
        None => {
            let worker = Renewable::build(spec, None, registry)?;
            UntilAccepted { worker, rounds, refused: 0, claimed: false, answered: false }
        }
        Some(Saved { refused, claimed, answered, worker }) => {
            let worker = Renewable::build(spec, Some(worker), registry)?;
            UntilAccepted { worker, rounds, refused, claimed, answered }
        }
    }))
}

impl UntilAccepted {
    fn reason(&self) -> String {
        let verdict = self.worker.memory.verdict.iter().flatten();
        let failed: Vec<&str> =
            verdict.filter(|result| result.fails()).map(|result| result.title.as_str()).collect();
        format!("not accepted after {} rounds; failed last: {}", self.refused, failed.join(", "))
    }
}

impl Driver for UntilAccepted {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        loop {
            if self.refused >= self.rounds {
                return Decision::GiveUp { reason: self.reason(), stuck: false };
            }
            if let Some(decision) = self.worker.prepare(situation) {
                return decision;
            }
            match self.worker.child.decide(situation) {
                Decision::GiveUp { .. } if self.answered => {
                    self.answered = false;
                    self.worker.renew = true;
                }
                other => {
                    self.claimed = matches!(other, Decision::Claim { .. });
                    return other;
                }
            }
        }
    }

    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        if matches!(fact, Fact::VerdictFailed(_)) && std::mem::take(&mut self.claimed) {
            self.refused = self.refused.saturating_add(1);
            self.answered = true;
        }
        if matches!(fact, Fact::Retry(retry) if retry.fresh) {
            (self.refused, self.claimed, self.answered) = (0, false, false);
        }
        if let Fact::Retry(_) = fact {
            // Whoever has it try again after the last round wants one more.
            self.refused = self.refused.min(self.rounds - 1);
        }
        self.worker.observe(situation, fact);
    }

    fn save(&self) -> Value {
        to_value(&Saved {
            refused: self.refused,
            claimed: self.claimed,
            answered: self.answered,
            worker: self.worker.save(),
        })
    }

    fn owns(&self, path: &[u32]) -> bool {
        self.worker.owns(path)
    }

    fn has_decided(&self) -> bool {
        self.worker.has_decided()
    }

    fn not_put(&mut self) -> bool {
        self.worker.not_put()
    }

    fn compact(&mut self, focus: &str) -> Result<(), String> {
        self.worker.compact(focus)
    }

    fn eager(&self) -> bool {
        self.worker.eager()
    }
}
