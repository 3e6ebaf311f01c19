//! The driver `fallback`: the next child takes the work over when one gives up. It is told what people
//! have said so far and why the last claim was refused, if one was.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Child, Memory, SavedChild, Spec, addressee, fields, saved, to_value};
use crate::driver::{Decision, Driver, Fact, NO_CONVERSATION, Registry, Situation, Wait};

#[derive(Debug)]
struct Fallback {
    children: Vec<Child>,
    /// The child that decides; their number when all gave up.
    at: usize,
    /// Whether it has been told what happened before.
    begun: bool,
    reasons: Vec<String>,
    /// Whether each that gave up went in circles.
    stuck: bool,
    memory: Memory,
    /// Makes the children anew.
    registry: Registry,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    at: usize,
    begun: bool,
    reasons: Vec<String>,
    stuck: bool,
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
    Ok(Box::new(match saved::<Saved>(state)? {
        None => Fallback {
            children: Child::all(specs, None, registry)?,
            at: 0,
            begun: true,
            reasons: Vec::new(),
            stuck: true,
            memory: Memory::default(),
            registry: registry.clone(),
        },
        Some(Saved { at, .. }) if at > specs.len() => {
            return Err(format!("the saved state is at driver {at} of {}", specs.len()));
        }
        Some(Saved { at, begun, reasons, stuck, memory, children }) => {
            let children = Child::all(specs, Some(children), registry)?;
            let registry = registry.clone();
            Fallback { children, at, begun, reasons, stuck, memory, registry }
        }
    }))
}

impl Fallback {
    fn stragglers(&self) -> bool {
        self.children[..self.at].iter().any(|child| child.under_way > 0)
    }
}

impl Driver for Fallback {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        loop {
            if self.at == self.children.len() {
                let reason = format!("all gave up: {}", self.reasons.join("; "));
                return Decision::GiveUp { reason, stuck: self.stuck };
            }
            if self.stragglers() {
                return Decision::Wait(Wait::Results { until: None });
            }
            let child = &mut self.children[self.at];
            if !self.begun {
                self.begun = true;
                self.memory.tell(child, situation);
            }
            match child.decide(situation) {
                Decision::GiveUp { reason, stuck } => {
                    self.reasons.push(child.spec.says(&reason));
                    self.stuck &= stuck;
                    self.at += 1;
                    self.begun = false;
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
                (self.at, self.begun, self.stuck) = (0, true, true);
                self.reasons.clear();
                self.memory.tell(&mut self.children[0], situation);
                self.children[0].observe(situation, fact);
            }
            // All gave up: the last tries again.
            Fact::Retry(_) if self.at == self.children.len() => {
                (self.at, self.begun) = (self.at - 1, true);
                self.reasons.pop();
                self.children[self.at].observe(situation, fact);
            }
            Fact::Result { action, .. } => match addressee(action) {
                Some(index) if index < self.at.min(self.children.len()) => {
                    self.children[index].straggler()
                }
                Some(index) if index == self.at => {
                    if let Some(child) = self.children.get_mut(index) {
                        child.observe(situation, fact);
                    }
                }
                _ => {}
            },
            // A child that has not begun is told from memory.
            _ if !self.begun => {}
            _ => {
                if let Some(child) = self.children.get_mut(self.at) {
                    child.observe(situation, fact);
                }
            }
        }
    }

    fn save(&self) -> Value {
        to_value(&Saved {
            at: self.at,
            begun: self.begun,
            reasons: self.reasons.clone(),
            stuck: self.stuck,
            memory: self.memory.clone(),
            children: self.children.iter().map(Child::save).collect(),
        })
    }

    fn owns(&self, path: &[u32]) -> bool {
        self.children.iter().any(|child| child.owns(path))
    }

    fn has_decided(&self) -> bool {
        self.children.get(self.at).is_some_and(Child::has_decided)
    }

    fn not_put(&mut self) -> bool {
        self.children.get_mut(self.at).is_some_and(Child::not_put)
    }

    fn compact(&mut self, focus: &str) -> Result<(), String> {
        match self.children.get_mut(self.at) {
            Some(child) => child.compact(focus),
            None => Err(NO_CONVERSATION.to_owned()),
        }
    }

    fn eager(&self) -> bool {
        self.stragglers() || self.children.get(self.at).is_some_and(|child| child.live.eager())
    }
}
