//! The driver `sequence`: one child after the other; each begins when the one before claims, and is told what people
//! have said so far.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Child, Memory, SavedChild, Spec, addressee, fields, saved, to_value};
use crate::driver::{Decision, Driver, Fact, Registry, Situation, Wait};

#[derive(Debug)]
struct Sequence {
    children: Vec<Child>,
    at: usize,
    /// What the children before said when they claimed.
    summaries: Vec<String>,
    memory: Memory,
    /// Makes the children anew.
    registry: Registry,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    at: usize,
    summaries: Vec<String>,
    #[serde(default)]
    memory: Memory,
    children: Vec<SavedChild>,
}

pub(super) fn build(
    config: &Value,
    state: Option<&Value>,
    registry: &Registry,
) -> Result<Box<dyn Driver>, String> {
    let specs = Spec::list(fields(config, &["drivers"])?)?;
    let (at, summaries, memory, children) = match saved::<Saved>(state)? {
        None => (0, Vec::new(), Memory::default(), None),
        Some(Saved { at, .. }) if at >= specs.len() => {
            return Err(format!("the saved state is at driver {at} of {}", specs.len()));
        }
        Some(Saved { at, summaries, memory, children }) => (at, summaries, memory, Some(children)),
    };
    let children = Child::all(specs, children, registry)?;
    Ok(Box::new(Sequence { children, at, summaries, memory, registry: registry.clone() }))
}

impl Sequence {
    fn stragglers(&self) -> bool {
        self.children[..self.at].iter().any(|child| child.under_way > 0)
    }
}

impl Driver for Sequence {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        loop {
            if self.stragglers() {
                return Decision::Wait(Wait::Results { until: None });
            }
            let last = self.at + 1 == self.children.len();
            let child = &mut self.children[self.at];
            match child.decide(situation) {
                Decision::Claim { summary } if last => {
                    let summaries =
                        self.summaries.iter().map(String::as_str).chain([summary.as_str()]);
                    let told: Vec<&str> = summaries.filter(|summary| !summary.is_empty()).collect();
                    return Decision::Claim { summary: told.join("; ") };
                }
                Decision::Claim { summary } => {
                    self.summaries.push(summary);
                    self.at += 1;
                    self.memory.tell(&mut self.children[self.at], situation);
                }
                Decision::GiveUp { reason, stuck } => {
                    return Decision::GiveUp { reason: child.spec.says(&reason), stuck };
                }
                other => return other,
            }
        }
    }

    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        self.memory.keep(fact);
        match fact {
            Fact::Retry(retry) if retry.fresh => {
                Child::renew(&mut self.children, &self.registry);
                self.at = 0;
                self.summaries.clear();
                self.memory.tell(&mut self.children[0], situation);
                self.children[0].observe(situation, fact);
            }
            Fact::Result { action, .. } => match addressee(action) {
                Some(index) if index == self.at => self.children[index].observe(situation, fact),
                Some(index) if index < self.at => self.children[index].straggler(),
                _ => {}
            },
            _ => self.children[self.at].observe(situation, fact),
        }
    }

    fn save(&self) -> Value {
        to_value(&Saved {
            at: self.at,
            summaries: self.summaries.clone(),
            memory: self.memory.clone(),
            children: self.children.iter().map(Child::save).collect(),
        })
    }

    fn owns(&self, path: &[u32]) -> bool {
        self.children.iter().any(|child| child.owns(path))
    }

    fn has_decided(&self) -> bool {
        self.children[self.at].has_decided()
    }

    fn not_put(&mut self) -> bool {
        self.children[self.at].not_put()
    }

    fn compact(&mut self, focus: &str) -> Result<(), String> {
        self.children[self.at].compact(focus)
    }

    fn eager(&self) -> bool {
        self.stragglers() || self.children[self.at].live.eager()
    }
}
