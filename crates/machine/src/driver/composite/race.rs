//! The driver `race`: all children work at once; the first to claim wins.
//!
//! The children share one workspace, one turn and one mouth, which leads to three rules. A child that asks
//! a decider outside holds back the others' next actions until it has its answer, because a question can
//! only be put when nothing is under way. Moments and people are waited for only when no action is under
//! way, moments first, because they come by themselves. A claim that is refused goes back to the child that
//! made it, and the race goes on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Child, Memory, SavedChild, Spec, addressee, fields, saved, to_value};
use crate::driver::{
    Action, Consultation, Decision, Driver, Fact, NO_CONVERSATION, Registry, Situation, Wait,
};
use crate::time::Timestamp;

#[derive(Debug)]
struct Race {
    children: Vec<Child>,
    standing: Vec<Standing>,
    /// Whose claim is being checked.
    claimant: Option<usize>,
    /// Whether the questions to people that children wait with were put: nothing else was under way.
    put: bool,
    /// For children that begin anew.
    memory: Memory,
    /// Makes them.
    registry: Registry,
}

/// How it stands with one child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// It has to be asked.
    Ready,
    /// Its actions are under way.
    Busy,
    /// It decided to act; the actions have not been handed out.
    Acts(Vec<Action>),
    /// It waits for a person or a moment.
    Waits(Wait),
    /// It has a question for a decider outside that has not been put.
    Asks(Consultation),
    /// Its question was put.
    Asked,
    /// It gave up.
    Ended { reason: String, stuck: bool },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    standing: Vec<Standing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claimant: Option<usize>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    put: bool,
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
    let count = specs.len();
    let (standing, claimant, put, memory, children) = match saved::<Saved>(state)? {
        None => (vec![Standing::Ready; count], None, false, Memory::default(), None),
        Some(Saved { standing, claimant, put, memory, children }) => {
            (standing, claimant, put, memory, Some(children))
        }
    };
    if standing.len() != count || claimant.is_some_and(|claimant| claimant >= count) {
        return Err(format!("the saved state has {} drivers, expected {count}", standing.len()));
    }
    let children = Child::all(specs, children, registry)?;
    Ok(Box::new(Race { children, standing, claimant, put, memory, registry: registry.clone() }))
}

impl Race {
    /// Asks every child that can be asked. Answers with the first claim.
    fn ask(&mut self, situation: &Situation<'_>) -> Option<Decision> {
        for (index, (child, standing)) in
            self.children.iter_mut().zip(&mut self.standing).enumerate()
        {
            let due = match standing {
                // The loop asks for a decision only when no question is open: this one was dropped.
                Standing::Ready | Standing::Asked => true,
                Standing::Waits(Wait::Person { until: Some(_), .. })
                    if !self.put && child.not_put() =>
                {
                    true
                }
                Standing::Waits(wait) => {
                    wait.moment().is_some_and(|at| at <= situation.now) && child.ready()
                }
                _ => false,
            };
            if !due {
                continue;
            }
            *standing = match child.decide(situation) {
                Decision::Act(actions) if actions.is_empty() => Standing::Ended {
                    reason: "decided to act but named no action".to_owned(),
                    stuck: false,
                },
                Decision::Act(actions) => Standing::Acts(actions),
                Decision::Wait(Wait::Results { until: None }) => Standing::Busy,
                Decision::Wait(wait) => Standing::Waits(wait),
                Decision::Consult(request) => Standing::Asks(request),
                Decision::GiveUp { reason, stuck } => Standing::Ended { reason, stuck },
                claim @ Decision::Claim { .. } => {
                    *standing = Standing::Ready;
                    self.claimant = Some(index);
                    return Some(claim);
                }
            };
        }
        None
    }

    fn next(&mut self, situation: &Situation<'_>) -> Decision {
        if let Some(claim) = self.ask(situation) {
            return claim;
        }
        if self.standing.iter().any(|standing| matches!(standing, Standing::Asks(_))) {
            if self.under_way() {
                return Decision::Wait(Wait::Results { until: None });
            }
            if let Some(request) = self.question() {
                return Decision::Consult(request);
            }
        }
        let actions = self.actions();
        if !actions.is_empty() {
            return Decision::Act(actions);
        }
        if self.under_way() {
            return Decision::Wait(Wait::Results { until: self.moment() });
        }
        self.idle()
    }

    /// The next moment that a child waits for, while others act. The time of a person begins when the question is put.
    fn moment(&self) -> Option<Timestamp> {
        let moments = self.standing.iter().filter_map(|standing| match standing {
            Standing::Waits(Wait::Person { due, .. }) => *due,
            Standing::Waits(wait) => wait.moment(),
            Standing::Ready
            | Standing::Busy
            | Standing::Acts(_)
            | Standing::Asks(_)
            | Standing::Asked
            | Standing::Ended { .. } => None,
        });
        moments.min()
    }

    /// Whether actions of any child are under way in the world. Those not handed out are not.
    fn under_way(&self) -> bool {
        self.children.iter().zip(&self.standing).any(|(child, standing)| {
            let waiting = match standing {
                Standing::Acts(actions) => actions.len(),
                _ => 0,
            };
            usize::try_from(child.under_way).is_ok_and(|all| all > waiting)
        })
    }

    /// The question of the first child that has one.
    fn question(&mut self) -> Option<Consultation> {
        let asks =
            self.standing.iter_mut().find(|standing| matches!(standing, Standing::Asks(_)))?;
        match std::mem::replace(asks, Standing::Asked) {
            Standing::Asks(request) => Some(request),
            _ => None,
        }
    }

    /// All actions that have not been handed out.
    fn actions(&mut self) -> Vec<Action> {
        let mut all = Vec::new();
        for standing in &mut self.standing {
            if let Standing::Acts(actions) = standing {
                all.append(actions);
                *standing = Standing::Busy;
            }
        }
        all
    }

    /// What the children wait for, as one, when none of them does anything.
    fn idle(&self) -> Decision {
        let mut moments = Vec::new();
        let mut prompts = Vec::new();
        let mut ends = Vec::new();
        let mut ends_of_waits = Vec::new();
        let mut dues = Vec::new();
        for (child, standing) in self.children.iter().zip(&self.standing) {
            match standing {
                Standing::Waits(Wait::Until { at, reason }) => moments.push((*at, reason)),
                Standing::Waits(Wait::Person { prompt, until, due, .. }) => {
                    // What it waits for no longer is a moment too.
                    ends_of_waits.extend(*until);
                    dues.extend(*due);
                    prompts.push((child, prompt));
                }
                Standing::Ended { reason, stuck } => ends.push((child, reason, *stuck)),
                Standing::Ready
                | Standing::Busy
                | Standing::Acts(_)
                | Standing::Waits(Wait::Results { .. })
                | Standing::Asks(_)
                | Standing::Asked => {}
            }
        }
        if let Some((at, reason)) = moments.into_iter().min() {
            return Decision::Wait(Wait::Until { at, reason: reason.clone() });
        }
        let (until, due) = (ends_of_waits.into_iter().min(), dues.into_iter().min());
        match prompts.as_slice() {
            [] => {}
            [(_, prompt)] => {
                let prompt = String::clone(prompt);
                return Decision::Wait(Wait::Person { prompt, until, due, number: None });
            }
            several => {
                let prompts: Vec<String> =
                    several.iter().map(|(child, prompt)| child.spec.says(prompt)).collect();
                let prompt = prompts.join("\n");
                return Decision::Wait(Wait::Person { prompt, until, due, number: None });
            }
        }
        if ends.len() == self.children.len() {
            let stuck = ends.iter().all(|(_, _, stuck)| *stuck);
            let reasons: Vec<String> =
                ends.iter().map(|(child, reason, _)| child.spec.says(reason)).collect();
            return Decision::GiveUp {
                reason: format!("all gave up: {}", reasons.join("; ")),
                stuck,
            };
        }
        Decision::Wait(Wait::Results { until: None })
    }
}

impl Driver for Race {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        let decision = self.next(situation);
        self.put = matches!(decision, Decision::Wait(Wait::Person { .. }));
        decision
    }

    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        self.memory.keep(fact);
        if matches!(fact, Fact::Retry(retry) if retry.fresh) {
            self.begin_anew(situation);
        }
        let has_ended = |standing: &Standing| matches!(standing, Standing::Ended { .. });
        if matches!(fact, Fact::Retry(_)) && self.standing.iter().all(has_ended) {
            // All gave up: all of them try again.
            self.standing.fill(Standing::Ready);
        }
        let addressees: Vec<usize> = match fact {
            Fact::Result { action, .. } => addressee(action).into_iter().collect(),
            Fact::Told(_) => {
                self.first(|standing| matches!(standing, Standing::Waits(Wait::Person { .. })))
            }
            Fact::Consulted(_)
            | Fact::Replied(_)
            | Fact::AgentTook(_)
            | Fact::AgentEnded(_)
            | Fact::ChildBegan(_)
            | Fact::ChildEnded(_) => self.first(|standing| *standing == Standing::Asked),
            Fact::VerdictFailed(_) if self.claimant.is_some() => {
                self.claimant.take().into_iter().collect()
            }
            Fact::Note(_) | Fact::VerdictFailed(_) | Fact::Retry(_) => {
                (0..self.children.len()).collect()
            }
        };
        for index in addressees {
            let (Some(child), Some(standing)) =
                (self.children.get_mut(index), self.standing.get_mut(index))
            else {
                continue;
            };
            if let Standing::Ended { .. } = standing {
                if let Fact::Result { .. } = fact {
                    child.straggler();
                }
                continue;
            }
            child.observe(situation, fact);
            let wakes = match standing {
                Standing::Busy | Standing::Waits(Wait::Results { .. }) => child.ready(),
                Standing::Waits(_) => true,
                Standing::Asked => {
                    let is_end = matches!(fact, Fact::AgentEnded(_) | Fact::ChildEnded(_));
                    is_end || matches!(fact, Fact::Consulted(_) | Fact::Replied(_))
                }
                // What it wanted to ask may be another question now.
                Standing::Asks(_) => matches!(fact, Fact::Note(_)),
                Standing::Ready | Standing::Acts(_) | Standing::Ended { .. } => false,
            };
            if wakes {
                *standing = Standing::Ready;
            }
        }
    }

    fn save(&self) -> Value {
        to_value(&Saved {
            standing: self.standing.clone(),
            claimant: self.claimant,
            put: self.put,
            memory: self.memory.clone(),
            children: self.children.iter().map(Child::save).collect(),
        })
    }

    fn owns(&self, path: &[u32]) -> bool {
        self.children.iter().any(|child| child.owns(path))
    }

    fn has_decided(&self) -> bool {
        self.standing.iter().any(|standing| matches!(standing, Standing::Acts(_)))
            || self.children.iter().any(Child::has_decided)
    }

    fn not_put(&mut self) -> bool {
        self.put = false;
        let timed = |standing: &Standing| {
            matches!(standing, Standing::Waits(Wait::Person { until: Some(_), .. }))
        };
        self.standing.iter().any(timed)
    }

    /// All who can are meant.
    fn compact(&mut self, focus: &str) -> Result<(), String> {
        let mut told = Err(NO_CONVERSATION.to_owned());
        for (child, standing) in self.children.iter_mut().zip(&mut self.standing) {
            if matches!(standing, Standing::Ended { .. }) {
                continue;
            }
            let taken = child.compact(focus);
            if taken.is_ok() && matches!(standing, Standing::Asks(_)) {
                *standing = Standing::Ready;
            }
            told = told.or(taken);
        }
        told
    }

    fn eager(&self) -> bool {
        true
    }
}

impl Race {
    fn begin_anew(&mut self, situation: &Situation<'_>) {
        Child::renew(&mut self.children, &self.registry);
        self.standing.fill(Standing::Ready);
        self.claimant = None;
        for child in &mut self.children {
            self.memory.tell(child, situation);
        }
    }

    fn first(&self, which: impl Fn(&Standing) -> bool) -> Vec<usize> {
        self.standing.iter().position(which).into_iter().collect()
    }
}
