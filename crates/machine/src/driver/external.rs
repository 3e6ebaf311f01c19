//! The driver `external`: a plugin process decides, asked through [`Decision::Consult`].
//!
//! The plugin is treated as a function of its own state and of what was observed: everything that happened
//! since its last accepted answer goes into the question, and the opaque `state` of an answer comes back with
//! the next question. A plugin that was restarted, or asked again, therefore misses nothing. How a question
//! reaches the process is the runtime's business.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Action, Consultation, Decision, Driver, DriverKind, Fact, Registry, Situation, Wait};
use crate::policy::permission::Author;
use crate::policy::sandbox::Needs;
use crate::time::Span;

/// Wrong answers in a row after which the driver gives up.
const WRONG_ANSWERS: u32 = 3;

/// The most actions of one answer: all of them run at once.
const MOST_ACTIONS: usize = 512;

/// How long a question may be, in bytes: a line to a plugin takes at most 8 MiB.
const LONGEST_QUESTION: usize = 7 * 1024 * 1024;

/// How much of each text is left in any case.
const LEAST_TEXT: usize = 1024;

/// Failed questions (process died, no answer in time) in a row after which the driver gives up.
const LOST_ANSWERS: u32 = 2;

/// The longest wait a plugin can ask for, in seconds: a year.
const LONGEST_WAIT: f64 = 365.0 * 86_400.0;

/// The shortest one: a plugin that has nothing to do is not asked as fast as it answers.
const SHORTEST_WAIT: f64 = 1.0;

/// Waits in a row after which the driver gives up: nothing but waiting is no work, and costs no turn that a limit would
/// count. With the shortest wait that is more than a day.
const MOST_WAITS: u32 = 100_000;

/// Waits in a row from which on their number is told with them.
const MANY_WAITS: u32 = 10;

/// How a plugin process is started, as it stands under `plugin` in the driver's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginSpec {
    /// What people call it.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How long each of its answers may take; 30 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The folder it runs in, absolute; the runtime's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Variables it gets beside the usual ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it needs of the sandbox.
    #[serde(default, skip_serializing_if = "Needs::is_default")]
    pub needs: Needs,
}

/// The configuration of the driver: who is asked, and what the task's author wants it to know.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    plugin: PluginSpec,
    #[serde(default)]
    config: Value,
}

/// The kind `external`.
#[derive(Debug)]
pub struct ExternalKind;

impl DriverKind for ExternalKind {
    fn name(&self) -> &str {
        "external"
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        Ok(Box::new(External { config: read_config(config)?, memory: Memory::default() }))
    }

    fn load(&self, config: &Value, state: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        let memory = Memory::deserialize(state)
            .map_err(|why| format!("the saved state of external does not fit: {why}"))?;
        Ok(Box::new(External { config: read_config(config)?, memory }))
    }
}

fn read_config(config: &Value) -> Result<Config, String> {
    if config.get("plugin").is_none() {
        return Err("plugin: missing; expected {name, command}: is there a file for this driver?"
            .to_owned());
    }
    let read = Config::deserialize(config).map_err(|why| format!("plugin: {why}"))?;
    match read.plugin.command.first() {
        Some(program) if !program.is_empty() => Ok(read),
        _ => Err("plugin.command: expected a program and its arguments".to_owned()),
    }
}

#[derive(Debug)]
struct External {
    config: Config,
    memory: Memory,
}

/// What the driver remembers.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Memory {
    /// The plugin's own state, as its last accepted answer gave it.
    state: Value,
    /// What happened since that answer.
    observations: Vec<Value>,
    /// How many of them the open question holds.
    sent: usize,
    /// An answer that has not been handed out.
    answer: Option<Next>,
    /// What was wrong with the last answer; told with the next question.
    error: Option<String>,
    wrong: u32,
    lost: u32,
    /// Waits for a moment since it decided anything else or heard of anything.
    #[serde(skip_serializing_if = "is_zero")]
    waits: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A decision at rest: an answer that was understood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Next {
    Act(Vec<Action>),
    Wait(Wait),
    Claim { summary: String },
    GiveUp { reason: String, stuck: bool },
}

/// What a plugin can answer, as it writes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
enum Answer {
    Act {
        actions: Vec<PluginAction>,
    },
    Wait {
        #[serde(default)]
        prompt: Option<String>,
        #[serde(default)]
        seconds: Option<f64>,
        #[serde(default)]
        reason: String,
    },
    Claim {
        #[serde(default)]
        summary: String,
    },
    GiveUp {
        #[serde(default)]
        reason: String,
        #[serde(default)]
        stuck: bool,
    },
}

/// One action, as a plugin writes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginAction {
    tool: String,
    #[serde(default)]
    parameters: Map<String, Value>,
    #[serde(default)]
    label: String,
    #[serde(default)]
    timeout: Option<Span>,
}

impl Answer {
    /// Takes an answer apart: the decision and, if there is one, the new state. The error is for the plugin.
    fn read(value: &Value) -> Result<(Answer, Option<Value>), String> {
        let Value::Object(fields) = value else {
            return Err(format!("expected an object with \"decision\", got {}", short(value)));
        };
        let mut fields = fields.clone();
        let state = fields.remove("state");
        let answer: Answer =
            serde_json::from_value(Value::Object(fields)).map_err(|why| why.to_string())?;
        match &answer {
            Answer::Act { actions } if actions.is_empty() => {
                Err("actions: expected at least one".to_owned())
            }
            Answer::Act { actions } if actions.len() > MOST_ACTIONS => {
                Err(format!("actions: expected at most {MOST_ACTIONS}, got {}", actions.len()))
            }
            Answer::Wait { prompt: Some(_), seconds: Some(_), .. }
            | Answer::Wait { prompt: None, seconds: None, .. } => {
                Err("wait: expected either \"prompt\" or \"seconds\"".to_owned())
            }
            Answer::Wait { seconds: Some(seconds), .. }
                if !(0.0..=LONGEST_WAIT).contains(seconds) =>
            {
                Err(format!("seconds: expected 0 to {LONGEST_WAIT}, got {seconds}"))
            }
            _ => Ok((answer, state)),
        }
    }

    fn next(self, situation: &Situation<'_>) -> Next {
        match self {
            Answer::Act { actions } => {
                Next::Act(actions.into_iter().map(PluginAction::action).collect())
            }
            Answer::Wait { seconds: Some(seconds), reason, .. } => {
                // In range: `read` refuses anything below zero or above a year.
                let millis = (seconds.max(SHORTEST_WAIT) * 1000.0).ceil() as u64;
                let at = situation.now.after(Span(millis));
                Next::Wait(Wait::Until { at, reason })
            }
            Answer::Wait { prompt, .. } => Next::Wait(Wait::person(prompt.unwrap_or_default())),
            Answer::Claim { summary } => Next::Claim { summary },
            Answer::GiveUp { reason, stuck } => Next::GiveUp { reason, stuck },
        }
    }
}

impl PluginAction {
    fn action(self) -> Action {
        Action {
            tool: self.tool,
            input: Arc::new(Value::Object(self.parameters)),
            label: self.label,
            tool_use: String::new(),
            path: Vec::new(),
            author: Author::Worker,
            timeout: self.timeout,
        }
    }
}

impl Driver for External {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        if let Some(answer) = self.memory.answer.take() {
            return match answer {
                Next::Act(actions) => Decision::Act(actions),
                Next::Wait(wait) => Decision::Wait(wait),
                Next::Claim { summary } => Decision::Claim { summary },
                Next::GiveUp { reason, stuck } => Decision::GiveUp { reason, stuck },
            };
        }
        let memory = &mut self.memory;
        memory.sent = memory.observations.len();
        let mut params = json!({
            "goal": situation.goal,
            "turns": situation.turns,
            "observations": fitting(&memory.observations, &memory.state),
            "state": memory.state,
        });
        if let Some(error) = &memory.error {
            params["error"] = json!(error);
        }
        // Complete in itself: below a composite, the task's driver configuration is the composite's.
        Decision::Consult(Consultation::Plugin(json!({
            "method": "decide",
            "params": params,
            "plugin": self.config.plugin,
            "config": self.config.config,
            "path": situation.path,
        })))
    }

    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        match fact {
            Fact::Consulted(Ok(answer)) => {
                self.memory.answered(situation, &self.config.plugin.name, answer)
            }
            Fact::Replied(_) | Fact::AgentTook(_) | Fact::AgentEnded(_) => {}
            Fact::ChildBegan(_) | Fact::ChildEnded(_) => {}
            Fact::Consulted(Err(why)) => self.memory.unanswered(&self.config.plugin.name, why),
            Fact::Result { call, action, result } => self.memory.observations.push(json!({
                "kind": "result",
                "call": call.to_string(),
                "tool": action.tool,
                "label": action.label,
                "status": result.status.word(),
                "exit": result.exit,
                "text": result.text,
            })),
            Fact::Told(line) => {
                self.memory.observations.push(json!({ "kind": "told", "line": line }))
            }
            Fact::Note(note) => {
                self.memory
                    .observations
                    .push(json!({ "kind": "note", "how": note.kind, "text": note.text }));
            }
            Fact::VerdictFailed(results) => {
                self.memory
                    .observations
                    .push(json!({ "kind": "verdict_failed", "criteria": results }));
            }
            Fact::Retry(retry) => {
                // What it had decided before the failure is not what it would decide now.
                self.memory.answer = None;
                self.memory
                    .observations
                    .push(json!({ "kind": "retry", "why": retry.why, "fresh": retry.fresh }));
            }
        }
    }

    fn has_decided(&self) -> bool {
        matches!(self.memory.answer, Some(Next::Act(_)))
    }

    fn save(&self) -> Value {
        // Cannot fail: plain data with text keys.
        serde_json::to_value(&self.memory).expect("plain data is always JSON")
    }
}

impl Memory {
    fn answered(&mut self, situation: &Situation<'_>, name: &str, value: &Value) {
        self.lost = 0;
        match Answer::read(value) {
            Ok((answer, state)) => {
                self.state = state.unwrap_or_else(|| std::mem::take(&mut self.state));
                let idle = self.sent == 0;
                self.observations.drain(..self.sent.min(self.observations.len()));
                self.sent = 0;
                self.answer = Some(self.count(name, answer.next(situation), idle));
                self.error = None;
                self.wrong = 0;
            }
            Err(why) => {
                self.wrong += 1;
                if self.wrong >= WRONG_ANSWERS {
                    self.give_up(format!(
                        "plugin {name} answered wrongly {} times in a row: {why}",
                        self.wrong
                    ));
                } else {
                    self.error = Some(why);
                }
            }
        }
    }

    /// Counts waits in a row, tells of many, and puts an end to too many.
    fn count(&mut self, name: &str, next: Next, idle: bool) -> Next {
        let Next::Wait(Wait::Until { at, reason }) = next else {
            self.waits = 0;
            return next;
        };
        self.waits = if idle { self.waits.saturating_add(1) } else { 1 };
        if self.waits > MOST_WAITS {
            self.waits = 0;
            let reason = format!(
                "plugin {name} did nothing but wait {MOST_WAITS} times in a row, last with: {reason}"
            );
            return Next::GiveUp { reason, stuck: true };
        }
        let reason = if self.waits < MANY_WAITS {
            reason
        } else {
            let colon = if reason.is_empty() { "" } else { ": " };
            format!("{} times in a row{colon}{reason}", self.waits)
        };
        Next::Wait(Wait::Until { at, reason })
    }

    fn unanswered(&mut self, name: &str, why: &str) {
        self.lost += 1;
        if self.lost >= LOST_ANSWERS {
            self.give_up(format!(
                "plugin {name} did not answer {} times in a row: {why}",
                self.lost
            ));
        }
    }

    /// Ends it, with a clean slate in case somebody has the driver go on.
    fn give_up(&mut self, reason: String) {
        self.answer = Some(Next::GiveUp { reason, stuck: false });
        self.error = None;
        self.wrong = 0;
        self.lost = 0;
    }
}

/// The observations, with the beginnings of long texts left out where a line could not hold all of them: every one of many results
/// may be as long as a result can be.
fn fitting(observations: &[Value], state: &Value) -> Vec<Value> {
    let mut told = observations.to_vec();
    let texts = told.iter().filter_map(|seen| seen["text"].as_str().map(str::len));
    // As JSON a character takes six bytes at most.
    if texts.sum::<usize>() <= LONGEST_QUESTION / 12 {
        return told;
    }
    let size = |value: &Value| value.to_string().len();
    let room = LONGEST_QUESTION.saturating_sub(size(state));
    if told.iter().map(size).sum::<usize>() <= room {
        return told;
    }
    let each = (room / told.len()).max(LEAST_TEXT);
    for seen in &mut told {
        let Some(Value::String(text)) = seen.get_mut("text") else { continue };
        // The other half is for what else there is of it.
        let from = start_of_end(text, each / 2);
        if from > 0 {
            *text = format!("[... {from} bytes before this ...]\n{}", &text[from..]);
        }
    }
    told
}

/// Where the end of a text begins that takes at most so many bytes as JSON.
fn start_of_end(text: &str, most: usize) -> usize {
    let mut left = most;
    for (at, character) in text.char_indices().rev() {
        let taken = if character < ' ' || matches!(character, '"' | '\\') {
            6
        } else {
            character.len_utf8()
        };
        if taken > left {
            return at + character.len_utf8();
        }
        left -= taken;
    }
    0
}

/// A value in at most a hundred characters.
fn short(value: &Value) -> String {
    value.to_string().chars().take(100).collect()
}
