//! The driver `workflow`: steps in a row, one tool call a turn, with a declared answer to each failure.
//!
//! Its configuration is `{"name", "steps": [{"name", "tool", "parameters", "timeout", "on_error",
//! "max_retries", "on_exhausted"}], "max_steps"}`, as [`crate::file::workflow`] makes it. After the last step
//! it claims. A failed verdict ends it: a row of steps has no means to repair anything.
//!
//! Whatever fails, it ends: every retry and every goto is counted, and what it remembers is a place and
//! those counters, however many steps there are.

pub(crate) mod call;
mod definition;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, Driver, DriverKind, Fact, Registry, Situation};
use crate::task::CriterionResult;
use crate::tool::{Status, ToolResult};

use call::{is_put_off, tail};
pub(crate) use definition::read_steps;
use definition::{Definition, Escape, OnError};

/// The kind of driver that runs steps in a row.
#[derive(Debug)]
pub struct WorkflowKind;

impl DriverKind for WorkflowKind {
    fn name(&self) -> &str {
        "workflow"
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        let definition = Arc::new(Definition::read(config)?);
        Ok(Box::new(Workflow { definition, memory: Memory::default() }))
    }

    fn load(&self, config: &Value, state: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        let definition = Definition::read(config)?;
        let memory =
            Memory::deserialize(state).map_err(|error| format!("saved workflow: {error}"))?;
        if memory.at > definition.steps.len() {
            return Err(format!(
                "saved workflow stands at step {} of {}",
                memory.at,
                definition.steps.len()
            ));
        }
        Ok(Box::new(Workflow { definition: Arc::new(definition), memory }))
    }
}

/// A workflow under way.
#[derive(Debug)]
struct Workflow {
    definition: Arc<Definition>,
    memory: Memory,
}

/// All that is remembered between two calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    /// The step that is next; the number of steps when all are done.
    at: usize,
    /// Steps that were carried out, repeats included.
    #[serde(default)]
    carried_out: u64,
    /// Repeats of the step that is next.
    #[serde(default)]
    retries: u64,
    /// Times in a row that it was put off.
    #[serde(default)]
    put_off: u32,
    /// Failures passed over.
    #[serde(default)]
    passed_over: u64,
    /// How often the goto of each step was taken.
    #[serde(default)]
    gotos: BTreeMap<usize, u64>,
    /// Why it cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<End>,
}

/// Why a driver cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// For a person.
    pub(crate) reason: String,
    /// Whether it is a circle rather than a failure.
    pub(crate) stuck: bool,
}

impl End {
    /// A failure.
    pub(crate) fn failed(reason: String) -> End {
        End { reason, stuck: false }
    }

    /// A circle.
    pub(crate) fn stuck(reason: String) -> End {
        End { reason, stuck: true }
    }

    /// The decision that says so.
    pub(crate) fn decision(&self) -> Decision {
        Decision::GiveUp { reason: self.reason.clone(), stuck: self.stuck }
    }
}

/// What a definition without means of repair says to a failed verdict.
pub(crate) fn verdict_failed(who: &str, results: &[CriterionResult]) -> End {
    let failed: Vec<String> = results
        .iter()
        .filter(|result| result.fails())
        .map(|result| {
            let exit = result.exit.map(|code| format!(" (exit code {code})")).unwrap_or_default();
            let evidence = tail(&result.evidence);
            let evidence = if evidence.is_empty() { evidence } else { format!(": {evidence}") };
            format!("{}{exit}{evidence}", result.title)
        })
        .collect();
    End::failed(format!("{who} is finished, but acceptance failed: {}", failed.join("; ")))
}

impl Driver for Workflow {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        if let Some(end) = &self.memory.end {
            return end.decision();
        }
        let Some(step) = self.definition.steps.get(self.memory.at) else {
            return Decision::Claim { summary: self.summary() };
        };
        match self.definition.max_steps {
            Some(most) if self.memory.carried_out >= most => Decision::GiveUp {
                reason: format!("max_steps = {most} is reached before step {:?}", step.call.label),
                stuck: true,
            },
            _ => Decision::Act(vec![step.call.action(situation)]),
        }
    }

    fn observe(&mut self, _: &Situation<'_>, fact: &Fact<'_>) {
        match fact {
            Fact::Result { result, .. } if self.memory.end.is_none() => self.on_result(result),
            Fact::Retry(retry) if retry.fresh => self.memory = Memory::default(),
            Fact::VerdictFailed(results) => {
                let who = self.definition.title();
                self.memory.end.get_or_insert_with(|| verdict_failed(&who, results));
            }
            // A row of steps takes no advice: what it does was decided when it was written.
            Fact::Result { .. }
            | Fact::Note(_)
            | Fact::Told(_)
            | Fact::Consulted(_)
            | Fact::Replied(_)
            | Fact::AgentTook(_)
            | Fact::AgentEnded(_)
            | Fact::Retry(_) => {}
        }
    }

    fn save(&self) -> Value {
        // Plain numbers, texts and a map with number keys: nothing in it can fail to become JSON.
        serde_json::to_value(&self.memory).unwrap_or_default()
    }
}

impl Workflow {
    fn on_result(&mut self, result: &ToolResult) {
        let definition = Arc::clone(&self.definition);
        let at = self.memory.at;
        let Some(step) = definition.steps.get(at) else { return };
        if is_put_off(result, self.memory.put_off) {
            self.memory.put_off += 1;
            return;
        }
        self.memory.put_off = 0;
        self.memory.carried_out += 1;
        if result.status == Status::Ok {
            return self.go_to(at + 1);
        }
        let failure = || step.call.failure("step", result);
        match step.on_error {
            OnError::Escape(escape) => self.escape(at, escape, step.max_gotos, failure),
            OnError::Retry { most, exhausted } => {
                if self.memory.retries < most {
                    self.memory.retries += 1;
                    return;
                }
                let tried = move || format!("{} (after {most} retries)", failure());
                self.escape(at, exhausted, step.max_gotos, tried);
            }
        }
    }

    fn escape(
        &mut self,
        at: usize,
        escape: Escape,
        max_gotos: u64,
        failure: impl FnOnce() -> String,
    ) {
        match escape {
            Escape::Fail => self.memory.end = Some(End::failed(failure())),
            Escape::Skip => {
                self.memory.passed_over += 1;
                self.go_to(at + 1);
            }
            Escape::Goto(target) => {
                let taken = self.memory.gotos.entry(at).or_default();
                if *taken >= max_gotos {
                    let steps = &self.definition.steps;
                    self.memory.end = Some(End::stuck(format!(
                        "the goto {} -> {} was taken {max_gotos} times; the last time, {}",
                        steps[at].call.label,
                        steps[target].call.label,
                        failure()
                    )));
                    return;
                }
                *taken += 1;
                self.memory.passed_over += 1;
                self.go_to(target);
            }
        }
    }

    fn go_to(&mut self, at: usize) {
        self.memory.at = at;
        self.memory.retries = 0;
    }

    fn summary(&self) -> String {
        let steps = self.definition.steps.len();
        let title = self.definition.title();
        let plural = if steps == 1 { "" } else { "s" };
        match self.memory.passed_over {
            0 => format!("{title}: {steps} step{plural} done"),
            over => format!("{title}: {steps} step{plural} done, {over} failed on the way"),
        }
    }
}
