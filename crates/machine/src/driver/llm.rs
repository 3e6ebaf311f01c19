//! The driver `llm`: a model decides. It is asked with the whole conversation; the tools it asks for are this
//! turn's actions, all at once; when it asks for none it claims to be finished.
//!
//! Its configuration is `{"model": "PROVIDER/NAME", "system", "tools": [..], "max_steps"}`. The conversation is
//! its memory: everything it was told and everything it said, each once, in order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Action, Consultation, Decision, Driver, DriverKind, Fact, Note, NoteKind, Registry, Situation,
};
use crate::message::{
    Block, Conversation, Message, ModelCall, ModelFailure, Part, Reply, Role, StopReason,
};
use crate::policy::permission::Author;
use crate::task::CriterionResult;
use crate::tool::{self, Status, ToolResult};

/// The kind of driver that asks a model.
#[derive(Debug)]
pub struct LlmKind;

/// What a model is told beside the goal, if the task says nothing else.
const SYSTEM: &str = "You work on a task in a folder, with the tools you are given. Look before you change. \
Make the smallest change that reaches the goal, check it, and stop. When the goal is reached, answer without \
asking for a tool and say in one or two sentences what you did. Your claim is then checked by commands you cannot \
change.";

/// Answers in a row that were cut at the model's limit before the driver gives up.
const MOST_CUTS: u32 = 3;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// `PROVIDER/NAME`.
    model: String,
    /// Standing instructions, beside our own.
    #[serde(default)]
    system: Option<String>,
    /// The tools it may ask for; all if absent.
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// How often it may be asked; no limit of its own if absent.
    #[serde(default)]
    max_steps: Option<u64>,
}

#[derive(Debug)]
struct Llm {
    model: String,
    system: Arc<str>,
    tools: Arc<[String]>,
    max_steps: Option<u64>,
    memory: Memory,
}

/// All that is remembered between two calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Memory {
    /// The conversation.
    messages: Conversation,
    /// What is to be said next, in order; becomes one message of the user.
    #[serde(default)]
    unsaid: Vec<Block>,
    /// Tools that the last answer asks for and that have not been acted on.
    #[serde(default)]
    asked: Vec<Call>,
    /// How often the model was asked.
    #[serde(default)]
    steps: u64,
    /// Answers in a row that were cut.
    #[serde(default)]
    cuts: u32,
    /// The claim, once the model asked for no tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    /// Why it cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<String>,
}

/// One tool call of an answer; its place among the actions is its place here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Call {
    id: String,
    name: String,
    input: Arc<Value>,
}

impl DriverKind for LlmKind {
    fn name(&self) -> &str {
        "llm"
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        Ok(Box::new(Llm::new(config, Memory::default())?))
    }

    fn load(&self, config: &Value, state: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        let memory = Memory::deserialize(state).map_err(|error| format!("saved llm: {error}"))?;
        Ok(Box::new(Llm::new(config, memory)?))
    }
}

impl Llm {
    fn new(config: &Value, memory: Memory) -> Result<Llm, String> {
        let config = Config::deserialize(config).map_err(|error| format!("llm: {error}"))?;
        if config
            .model
            .split_once('/')
            .is_none_or(|(provider, name)| provider.is_empty() || name.is_empty())
        {
            return Err(format!(
                "model {:?}: expected PROVIDER/NAME, such as script/replies.toml",
                config.model
            ));
        }
        let all = || tool::TOOLS.iter().map(|tool| tool.name.to_owned()).collect();
        let tools: Vec<String> = config.tools.unwrap_or_else(all);
        if let Some(unknown) = tools.iter().find(|name| tool::find(name).is_none()) {
            return Err(format!("tools: there is no tool {unknown:?}"));
        }
        let system = match config.system.filter(|text| !text.trim().is_empty()) {
            Some(text) => format!("{SYSTEM}\n\n{text}"),
            None => SYSTEM.to_owned(),
        };
        let (model, max_steps) = (config.model, config.max_steps);
        Ok(Llm { model, system: system.into(), tools: tools.into(), max_steps, memory })
    }

    fn say(&mut self, text: impl Into<String>) {
        self.memory.unsaid.push(Block { part: Part::Text { text: text.into() }, native: None });
    }

    fn ask(&mut self, situation: &Situation<'_>) -> Decision {
        if self.max_steps.is_some_and(|most| self.memory.steps >= most) {
            let reason = format!("max_steps = {} is reached", self.memory.steps);
            return Decision::GiveUp { reason, stuck: false };
        }
        let messages = Arc::make_mut(&mut self.memory.messages);
        if messages.is_empty() {
            messages.push(Arc::new(Message::user(situation.goal)));
        }
        if !self.memory.unsaid.is_empty() {
            let mut blocks = std::mem::take(&mut self.memory.unsaid);
            // Providers want the results right after the calls, whatever was said in between.
            blocks.sort_by_key(|block| !matches!(block.part, Part::ToolResult { .. }));
            messages.push(Arc::new(Message { role: Role::User, blocks }));
        }
        Decision::Consult(Consultation::Model(ModelCall {
            model: self.model.clone(),
            system: Arc::clone(&self.system),
            messages: Arc::clone(&self.memory.messages),
            tools: Arc::clone(&self.tools),
        }))
    }

    fn on_reply(&mut self, reply: &Reply) {
        self.memory.steps += 1;
        Arc::make_mut(&mut self.memory.messages).push(Arc::new(reply.message.clone()));
        let calls = reply.message.blocks.iter().filter_map(|block| match &block.part {
            Part::ToolUse { id, name, input } => {
                Some(Call { id: id.clone(), name: name.clone(), input: Arc::new(input.clone()) })
            }
            _ => None,
        });
        self.memory.asked = calls.collect();
        self.memory.cuts =
            if reply.stop == StopReason::MaxTokens { self.memory.cuts + 1 } else { 0 };
        match reply.stop {
            _ if !self.memory.asked.is_empty() => {}
            StopReason::MaxTokens if self.memory.cuts >= MOST_CUTS => {
                self.memory.end =
                    Some(format!("{MOST_CUTS} answers in a row were cut at the model's limit"));
            }
            StopReason::MaxTokens => {
                self.say("Your answer was cut at its limit. Go on, in smaller parts.")
            }
            StopReason::Pause => {}
            StopReason::Refusal => {
                self.memory.end = Some(format!("the model refused: {}", reply.message.text()));
            }
            StopReason::EndTurn | StopReason::StopSequence | StopReason::ToolUse => {
                self.memory.claim = Some(reply.message.text());
            }
        }
    }

    fn on_failure(&mut self, failure: &ModelFailure) {
        self.memory.end =
            Some(format!("the model did not answer: {}: {}", failure.kind, failure.message));
    }

    fn on_result(&mut self, result: &ToolResult) {
        // Results come in the order of the actions, one for each.
        if self.memory.asked.is_empty() {
            return;
        }
        let call = self.memory.asked.remove(0);
        let text = match result.status {
            Status::Ok => result.text.clone(),
            status => {
                let exit =
                    result.exit.map(|code| format!(", exit code {code}")).unwrap_or_default();
                format!("[{}{exit}]\n{}", status.word(), result.text)
            }
        };
        let part = Part::ToolResult {
            id: call.id,
            name: call.name,
            text,
            is_error: result.status != Status::Ok,
        };
        self.memory.unsaid.push(Block { part, native: None });
    }

    fn on_note(&mut self, note: &Note) {
        let how = match note.kind {
            NoteKind::Steer => "The operator says",
            NoteKind::Interrupt => "The operator stopped you and says",
            NoteKind::FollowUp => "The operator adds",
        };
        self.memory.claim = None;
        self.say(format!("{how}: {}", note.text));
    }

    fn on_verdict_failed(&mut self, results: &[CriterionResult]) {
        self.memory.claim = None;
        let mut text = "The work was not accepted. These checks failed:".to_owned();
        for result in results.iter().filter(|result| !result.passed) {
            let exit = result.exit.map(|code| format!(" (exit code {code})")).unwrap_or_default();
            text.push_str(&format!("\n\n{}{exit}\n{}", result.title, result.evidence));
        }
        self.say(text);
    }
}

impl Driver for Llm {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        if let Some(reason) = &self.memory.end {
            return Decision::GiveUp { reason: reason.clone(), stuck: false };
        }
        if let Some(summary) = &self.memory.claim {
            return Decision::Claim { summary: summary.clone() };
        }
        if self.memory.asked.is_empty() {
            return self.ask(situation);
        }
        let action = |call: &Call| Action {
            tool: call.name.clone(),
            input: Arc::clone(&call.input),
            label: String::new(),
            path: situation.path.to_vec(),
            author: Author::Worker,
            timeout: None,
        };
        Decision::Act(self.memory.asked.iter().map(action).collect())
    }

    fn observe(&mut self, _: &Situation<'_>, fact: &Fact<'_>) {
        match fact {
            Fact::Replied(Ok(reply)) => self.on_reply(reply),
            Fact::Replied(Err(failure)) => self.on_failure(failure),
            Fact::Result { result, .. } => self.on_result(result),
            Fact::Note(note) => self.on_note(note),
            Fact::VerdictFailed(results) => self.on_verdict_failed(results),
            Fact::Told(line) => self.say(*line),
            Fact::Consulted(_) => {}
        }
    }

    fn save(&self) -> Value {
        // Plain data with text keys: nothing in it can fail to become JSON.
        serde_json::to_value(&self.memory).unwrap_or_default()
    }
}
