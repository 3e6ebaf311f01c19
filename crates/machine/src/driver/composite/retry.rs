//! The driver `retry`: makes its child anew when it gives up, after a pause that doubles.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Renewable, SavedRenewable, Spec, count, fields, saved, to_value};
use crate::driver::{Decision, Driver, Fact, Registry, Situation, Wait};
use crate::time::{Span, Timestamp};

/// Doubling stops here: a pause that nobody lives to see helps nobody.
const LONGEST_PAUSE: Span = Span::seconds(3600);

#[derive(Debug)]
struct Retry {
    worker: Renewable,
    /// Attempts in all, the first included.
    limit: u32,
    backoff: Option<Span>,
    /// Attempts that failed.
    failed: u32,
    /// Nothing is tried before.
    until: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    failed: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    worker: SavedRenewable,
}

pub(super) fn build(
    config: &Value,
    state: Option<&Value>,
    registry: &Registry,
) -> Result<Box<dyn Driver>, String> {
    let fields = fields(config, &["driver", "limit", "backoff"])?;
    let spec = Spec::single(fields)?;
    let limit = count(fields, "limit", 3)?;
    let backoff = match fields.get("backoff") {
        None => None,
        Some(Value::String(text)) => {
            Some(Span::parse(text).map_err(|why| format!("backoff: {why}"))?)
        }
        Some(other) => {
            return Err(format!("backoff: expected a duration such as \"2s\", got {other}"));
        }
    };
    let (failed, until, worker) = match saved::<Saved>(state)? {
        None => (0, None, None),
        Some(Saved { failed, until, worker }) => (failed, until, Some(worker)),
    };
    let worker = Renewable::build(spec, worker, registry)?;
    Ok(Box::new(Retry { worker, limit, backoff, failed, until }))
}

impl Retry {
    /// The pause after so many failures.
    fn pause(&self) -> Option<Span> {
        let doublings = self.failed.saturating_sub(1).min(63);
        let pause = self.backoff?.0.saturating_mul(1 << doublings);
        Some(Span(pause.min(LONGEST_PAUSE.0.max(self.backoff?.0))))
    }
}

impl Driver for Retry {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        loop {
            if let Some(decision) = self.worker.prepare(situation) {
                return decision;
            }
            if let Some(at) = self.until.filter(|at| situation.now < *at) {
                let reason =
                    format!("attempt {} of {} begins after a pause", self.failed + 1, self.limit);
                return Decision::Wait(Wait::Until { at, reason });
            }
            self.until = None;
            match self.worker.child.decide(situation) {
                Decision::GiveUp { reason, stuck: false } => {
                    self.failed = self.failed.saturating_add(1);
                    if self.failed >= self.limit {
                        let reason =
                            format!("gave up after {} attempts, the last: {reason}", self.failed);
                        return Decision::GiveUp { reason, stuck: false };
                    }
                    self.until = self.pause().map(|pause| situation.now.after(pause));
                    self.worker.renew = true;
                }
                // Going round in circles once more would be the same circle.
                other => return other,
            }
        }
    }

    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        if matches!(fact, Fact::Retry(retry) if retry.fresh) {
            (self.failed, self.until) = (0, None);
        }
        self.worker.observe(situation, fact);
    }

    fn save(&self) -> Value {
        to_value(&Saved { failed: self.failed, until: self.until, worker: self.worker.save() })
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
