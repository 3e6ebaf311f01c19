//! Steps that other drivers carry out: a model, an agent, a person at the keyboard, a plugin. Each is a driver like any
//! other, with a goal of its own; the contract toward it is kept by the same `Child` that composites use.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::frame::Address;
use crate::driver::composite::{Child, SavedChild, Spec};
use crate::driver::{
    Action, Consultation, Decision, Fact, NO_CONVERSATION, Registry, Situation, Wait,
};

/// A driver at work in a step.
#[derive(Debug)]
pub(super) struct StepChild {
    child: Child,
    goal: Goal,
    standing: Standing,
    /// How many conversations agents had begun before.
    conversations: u32,
    /// How often its answer did not fit.
    pub(super) misfits: u32,
}

/// What it is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    /// The task's own, with what decides whether it is reached.
    Task,
    /// This.
    Own(String),
}

/// How it stands with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// It has to be asked.
    Ready,
    /// Its actions are under way.
    Busy,
    /// It waits for a person or a moment.
    Waits(Wait),
    /// It has a question for a decider outside that has not been put.
    Asks(Consultation),
    /// Its question was put.
    Asked,
    /// It ended, and actions of it are still under way.
    Ended(End),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// With these words.
    Done(String),
    /// It could not go on.
    GaveUp { reason: String, stuck: bool },
}

/// What it does next.
#[derive(Debug)]
pub(super) enum Move {
    Ended(End),
    Acts(Vec<Action>),
    Busy,
    Waits(Wait),
    Asks(Consultation),
}

/// A driver at rest. Its configuration is here, since it may have been filled in.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedStepChild {
    pub(super) address: Address,
    driver: String,
    config: Value,
    goal: Goal,
    standing: Standing,
    #[serde(default)]
    conversations: u32,
    #[serde(default)]
    misfits: u32,
    child: SavedChild,
}

impl StepChild {
    /// A driver at its beginning.
    pub(super) fn create(
        step: &str,
        driver: &str,
        config: Value,
        goal: Goal,
        conversations: u32,
        registry: &Registry,
    ) -> Result<StepChild, String> {
        let spec = Arc::new(Spec::of_step(format!("step {step:?}"), driver, config));
        let child = Child::create(spec, registry)?;
        Ok(StepChild { child, goal, standing: Standing::Ready, conversations, misfits: 0 })
    }

    /// As it was saved.
    pub(super) fn load(saved: SavedStepChild, registry: &Registry) -> Result<StepChild, String> {
        let SavedStepChild {
            driver, config, goal, standing, conversations, misfits, child, ..
        } = saved;
        let spec = Arc::new(Spec::of_step("a step".to_owned(), &driver, config));
        let child = Child::load(spec, child, registry)?;
        Ok(StepChild { child, goal, standing, conversations, misfits })
    }

    pub(super) fn save(&self, address: &Address) -> SavedStepChild {
        SavedStepChild {
            address: address.clone(),
            driver: self.child.name().to_owned(),
            config: self.child.config().clone(),
            goal: self.goal.clone(),
            standing: self.standing.clone(),
            conversations: self.conversations,
            misfits: self.misfits,
            child: self.child.save(),
        }
    }

    pub(super) fn eager(&self) -> bool {
        self.child.eager()
    }

    pub(super) fn owns(&self, path: &[u32]) -> bool {
        self.child.owns(path)
    }

    pub(super) fn has_decided(&self) -> bool {
        self.child.has_decided()
    }

    /// Its question to a person, if it waits with one, was not put.
    pub(super) fn not_put(&mut self) {
        let timed = matches!(self.standing, Standing::Waits(Wait::Person { until: Some(_), .. }));
        if timed && self.child.not_put() {
            self.standing = Standing::Ready;
        }
    }

    /// Its conversation is to be shorter.
    pub(super) fn compact(&mut self, focus: &str) -> Result<(), String> {
        if matches!(self.standing, Standing::Ended(_)) {
            return Err(NO_CONVERSATION.to_owned());
        }
        self.child.compact(focus)?;
        if matches!(self.standing, Standing::Asks(_)) {
            self.standing = Standing::Ready;
        }
        Ok(())
    }

    /// Whether something of it goes on in the world.
    pub(super) fn is_busy(&self) -> bool {
        self.child.is_under_way()
    }

    fn situation<'a>(goal: &'a Goal, situation: &Situation<'a>) -> Situation<'a> {
        match goal {
            Goal::Task => *situation,
            Goal::Own(text) => Situation { goal: text, criteria: &[], ..*situation },
        }
    }

    /// Asks it, if it can be asked, and says how it stands. `last` is the number of the last conversation of an agent.
    pub(super) fn next(&mut self, situation: &Situation<'_>, last: &mut u32) -> Move {
        match &self.standing {
            Standing::Ended(_) if self.child.is_under_way() => return Move::Busy,
            Standing::Ended(end) => return Move::Ended(end.clone()),
            Standing::Busy => return Move::Busy,
            Standing::Asks(request) => return Move::Asks(request.clone()),
            Standing::Waits(wait)
                if wait.moment().is_some_and(|at| at <= situation.now) && self.child.ready() => {}
            Standing::Waits(wait) => return Move::Waits(wait.clone()),
            // The loop asks for a decision only when no question is open: this one was dropped.
            Standing::Ready | Standing::Asked => {}
        }
        let decision = self.child.decide(&StepChild::situation(&self.goal, situation));
        let (standing, next) = match decision {
            Decision::Act(actions) if actions.is_empty() => {
                let reason = "decided to act but named no action".to_owned();
                return self.end(End::GaveUp { reason, stuck: false });
            }
            Decision::Act(actions) => (Standing::Busy, Move::Acts(actions)),
            Decision::Wait(Wait::Results { until: None }) => (Standing::Busy, Move::Busy),
            Decision::Wait(wait) => (Standing::Waits(wait.clone()), Move::Waits(wait)),
            Decision::Consult(mut request) => {
                if let Consultation::Agent(call) = &mut request {
                    // Each step has conversations of its own, and each conversation of the task its number.
                    call.conversation += self.conversations;
                    *last = (*last).max(call.conversation);
                }
                (Standing::Asks(request.clone()), Move::Asks(request))
            }
            Decision::Claim { summary } => return self.end(End::Done(summary)),
            Decision::GiveUp { reason, stuck } => return self.end(End::GaveUp { reason, stuck }),
        };
        self.standing = standing;
        next
    }

    fn end(&mut self, end: End) -> Move {
        if self.child.is_under_way() {
            self.standing = Standing::Ended(end);
            return Move::Busy;
        }
        Move::Ended(end)
    }

    /// Its question was put.
    pub(super) fn asked(&mut self) {
        self.standing = Standing::Asked;
    }

    /// It is told something, and asked again if that is what it waited for.
    pub(super) fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        if let Standing::Ended(_) = self.standing {
            if let Fact::Result { .. } = fact {
                self.child.straggler();
            }
            return;
        }
        self.child.observe(&StepChild::situation(&self.goal, situation), fact);
        let wakes = match self.standing {
            Standing::Busy | Standing::Waits(Wait::Results { .. }) => self.child.ready(),
            Standing::Waits(_) => true,
            // What it wanted to ask may be another question now.
            Standing::Asks(_) => matches!(fact, Fact::Note(_)),
            Standing::Asked => {
                let is_end = matches!(fact, Fact::AgentEnded(_) | Fact::ChildEnded(_));
                is_end || matches!(fact, Fact::Consulted(_) | Fact::Replied(_))
            }
            Standing::Ready | Standing::Ended(_) => false,
        };
        if wakes {
            self.standing = Standing::Ready;
        }
    }

    /// Its answer will not do.
    pub(super) fn again(&mut self, situation: &Situation<'_>, why: String) {
        self.misfits += 1;
        self.standing = Standing::Ready;
        let retry = crate::driver::Retry { why, fresh: false };
        self.child.observe(&StepChild::situation(&self.goal, situation), &Fact::Retry(&retry));
    }
}
