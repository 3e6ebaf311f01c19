//! A driver that decides what it was told beforehand. For tests, simulations and benchmarks of the loop
//! itself; not registered by default.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Action, Decision, Driver, DriverKind, Fact, Registry, Situation, Wait};
use crate::policy::permission::Author;

/// Makes scripted drivers; registered by those who want one.
#[derive(Debug)]
pub struct ScriptedKind;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    /// One list a turn: the actions of that turn.
    turns: Vec<Vec<ScriptedAction>>,
    /// Begin again this many times; results do not matter.
    #[serde(default)]
    repeat: u64,
    /// How the driver ends.
    #[serde(default)]
    end: End,
    /// Who the actions are said to come from.
    #[serde(default = "operator")]
    author: Author,
}

fn operator() -> Author {
    Author::Operator
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedAction {
    tool: String,
    #[serde(default)]
    input: Arc<Value>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    #[default]
    Claim,
    GiveUp,
    WaitForPerson,
}

#[derive(Debug)]
struct Scripted {
    script: Script,
    at: u64,
    /// How often a claim was refused; the second time it gives up.
    refused: u32,
    /// Whether a person said that it is done.
    done: bool,
}

impl DriverKind for ScriptedKind {
    fn name(&self) -> &str {
        "scripted"
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        let script = Script::deserialize(config).map_err(|error| error.to_string())?;
        Ok(Box::new(Scripted { script, at: 0, refused: 0, done: false }))
    }

    fn load(&self, config: &Value, state: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        let script = Script::deserialize(config).map_err(|error| error.to_string())?;
        let at = state["at"].as_u64().ok_or("scripted: at must be a number")?;
        let refused = state["refused"].as_u64().unwrap_or(0) as u32;
        let done = state["done"].as_bool().unwrap_or(false);
        Ok(Box::new(Scripted { script, at, refused, done }))
    }
}

impl Driver for Scripted {
    fn decide(&mut self, _: &Situation<'_>) -> Decision {
        let turns = self.script.turns.len() as u64;
        if self.at < turns * (self.script.repeat + 1) {
            let actions = &self.script.turns[(self.at % turns) as usize];
            self.at += 1;
            return Decision::Act(
                actions
                    .iter()
                    .map(|action| Action {
                        tool: action.tool.clone(),
                        input: Arc::clone(&action.input),
                        label: String::new(),
                        tool_use: String::new(),
                        path: Vec::new(),
                        author: self.script.author,
                        timeout: None,
                    })
                    .collect(),
            );
        }
        match self.script.end {
            End::Claim if self.refused < 2 => {
                Decision::Claim { summary: "the script ended".to_owned() }
            }
            End::Claim | End::GiveUp => {
                Decision::GiveUp { reason: "the script gives up".to_owned(), stuck: false }
            }
            End::WaitForPerson if self.done => {
                Decision::Claim { summary: "a person said so".to_owned() }
            }
            End::WaitForPerson => Decision::Wait(Wait::person("what next?")),
        }
    }

    fn observe(&mut self, _: &Situation<'_>, fact: &Fact<'_>) {
        match fact {
            Fact::VerdictFailed(_) => self.refused += 1,
            Fact::Told(line) if *line == "done" => self.done = true,
            _ => {}
        }
    }

    fn save(&self) -> Value {
        json!({ "at": self.at, "refused": self.refused, "done": self.done })
    }
}
