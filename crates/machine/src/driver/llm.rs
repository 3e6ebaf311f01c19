//! The driver `llm`: a model decides. It is asked with the whole conversation; the tools it asks for are this
//! turn's actions; when it asks for none it claims to be finished.
//!
//! Its configuration is `{"model": "PROVIDER/NAME", "system", "tools": [..], "without": [..], "first": [..], "max_steps",
//! "chat"}`. The conversation
//! is its memory: everything it was told and everything it said, each once, in order.
//!
//! In a chat an answer without a tool is not a claim: a person speaks next, and says `/done` when all is said. What
//! would end a task (a model that does not answer, a limit of steps) only ends the turn.

mod compact;
mod written;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::opening::{self, Look};
use super::{
    Action, Consultation, Decision, Driver, DriverKind, Fact, Note, NoteKind, Registry, Retry,
    Said, SavedDriver, Situation, Wait, agent, user,
};
use crate::cause::ModelTrouble;
use crate::message::{
    Block, Conversation, Effort, Message, ModelCall, ModelFailure, Part, Reply, Role, StopReason,
};
use crate::policy::permission::Author;
use crate::server::{self, ToolOffer};
use crate::task::CriterionResult;
use crate::tool::{self, Status, ToolResult};
use compact::{Kept, Squeeze};

/// Whether an answer to the request for a summary is one.
pub(crate) fn is_summary(reply: &Reply) -> bool {
    compact::summary(reply).is_some()
}

/// The kind of driver that asks a model.
#[derive(Debug)]
pub struct LlmKind;

/// The name of this kind.
pub(crate) const KIND: &str = "llm";

/// What a model is told beside the goal, if the task says nothing else.
const SYSTEM: &str = "You work on a task in a folder, with the tools you are given. Look before you change. \
Make the smallest change that reaches the goal, check it, and stop. When the goal is reached, answer without \
asking for a tool and say in one or two sentences what you did. Your claim is then checked by commands you cannot \
change.";

/// How often a model is asked between two lines of a person, if the chat says nothing else.
const CHAT_STEPS: u64 = 10;

/// The line of a person that ends a chat: what was said last is the claim.
pub const DONE: &str = "/done";

/// The line of a person that makes the conversation of a chat shorter; what follows is kept above all.
pub const COMPACT: &str = "/compact";

/// What a person is asked for between two turns of a chat.
pub const YOUR_TURN: &str = "your turn";

/// How the reason begins for which a chat waits when a limit of its own is reached.
pub const LIMIT_REACHED: &str = "max_steps = ";

/// Why a chat waits after a person stopped the model without a word.
const STOPPED: &str = "stopped";

/// What is added to a refusal in a chat.
const LEFT_OUT: &str = "what you say next goes without the line that was refused";

/// Answers in a row that were cut at the model's limit, or could not be used, before the driver gives up.
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
    /// Tools that it may not ask for, of servers too.
    #[serde(default)]
    without: Vec<String>,
    /// Calls that are made before it is asked for the first time; it is told what came of them.
    #[serde(default)]
    first: Vec<Look>,
    /// The servers whose tools it may ask for; all if absent.
    #[serde(default)]
    servers: Option<Vec<String>>,
    /// How often it may be asked, in a chat between two lines of a person. If absent, a task has no limit of its
    /// own and a chat has ten.
    #[serde(default)]
    max_steps: Option<u64>,
    /// Whether a person speaks when it has nothing more to do.
    #[serde(default)]
    chat: bool,
    /// Whether it is told nothing of ours: it answers a question rather than working on a task.
    #[serde(default)]
    bare: bool,
    /// How freely it may choose its words; the provider's own default if absent.
    #[serde(default)]
    temperature: Option<f64>,
    /// How much it shall think before it answers; its own default if absent.
    #[serde(default)]
    effort: Option<Effort>,
    /// What its answer must be like, if it is offered no tools.
    #[serde(default)]
    schema: Option<Arc<Value>>,
    /// How many tokens its context holds. If absent, the conversation is made shorter only once it did not fit.
    #[serde(default)]
    context: Option<u64>,
}

#[derive(Debug)]
struct Llm {
    model: String,
    system: Arc<str>,
    tools: Arc<[String]>,
    offered: Offered,
    first: Vec<Look>,
    max_steps: Option<u64>,
    temperature: Option<f64>,
    effort: Option<Effort>,
    schema: Option<Arc<Value>>,
    chat: bool,
    window: Option<u64>,
    memory: Memory,
}

/// Which tools of servers the model is offered.
#[derive(Debug)]
struct Offered {
    servers: Option<Vec<String>>,
    /// As written, the built-in ones among them; `mcp__SERVER__*` names all of a server.
    names: Option<Vec<String>>,
    /// Those that it is not offered.
    without: Vec<String>,
}

impl Offered {
    fn of(&self, tools: &[ToolOffer]) -> Arc<Vec<ToolOffer>> {
        let wanted = |tool: &&ToolOffer| {
            let named = |name: &String| server::names(name, &tool.name);
            self.servers.as_ref().is_none_or(|servers| servers.contains(&tool.source))
                && self.names.as_ref().is_none_or(|names| names.iter().any(named))
                && !self.without.iter().any(named)
        };
        Arc::new(tools.iter().filter(wanted).cloned().collect())
    }
}

/// All that is remembered between two calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Memory {
    /// The conversation.
    messages: Conversation,
    /// How many of its first messages were said after something else than what stands before them now.
    #[serde(default, skip_serializing_if = "is_zero")]
    moved: usize,
    /// What is to be said next, in order; becomes one message of the user.
    #[serde(default)]
    unsaid: Vec<Block>,
    /// Tools that the last answer asks for and that have no result.
    #[serde(default)]
    asked: Vec<Call>,
    /// How many of the calls at the start have ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    looked: usize,
    /// How often the model was asked; in a chat, since a person spoke.
    #[serde(default)]
    steps: u64,
    /// Answers in a row that were cut.
    #[serde(default)]
    cuts: u32,
    /// The claim, once the model asked for no tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    /// Why it cannot go on; in a chat, not without a person's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    /// Whether the last answer in a chat was a refusal, and what was refused still stands.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
    /// Refusals in a row: what was refused may stand further back than the last line.
    #[serde(default, skip_serializing_if = "is_zero")]
    refusals: usize,
    /// Whether a person ended the chat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
    /// The size of the context at the last answer, in tokens.
    #[serde(default)]
    context: u64,
    /// The operator's notes, word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// What the last failed verdict said, word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// Times in a row that the conversation was made shorter without room to show for it.
    #[serde(default)]
    squeezes: u32,
    /// How the conversation is to be made shorter before the model goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    squeeze: Option<Squeeze>,
    /// How it was last made shorter, until an answer shows that it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    squeezed: Option<Squeeze>,
    /// What stands for the conversation before its first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    /// What a person wants kept above all when that is done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    focus: String,
    /// Somebody wants the conversation shorter before the next question, and this kept above all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shorter: Option<String>,
    /// Whether the question that is under way is for a summary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    summing_up: bool,
    /// Whether the answer to it was no summary: from then on tools are forbidden in it. Not before, as that costs the
    /// provider's cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    words_only: bool,
}

/// One tool call of an answer, known by its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Call {
    id: String,
    name: String,
    input: Arc<Value>,
}

impl DriverKind for LlmKind {
    fn name(&self) -> &str {
        KIND
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
        let (names, without) = (config.tools.clone(), config.without);
        let tools: Vec<String> = config.tools.unwrap_or_else(all);
        let is_own = |name: &String| !server::is_offered(name) && !without.contains(name);
        let tools: Vec<String> = tools.into_iter().filter(is_own).collect();
        let offered = Offered { servers: config.servers, names, without };
        if let Some(unknown) = tools.iter().find(|name| tool::find(name).is_none()) {
            return Err(format!("tools: there is no tool {unknown:?}"));
        }
        let is_bare = config.bare && tools.is_empty();
        let system = match config.system.filter(|text| !text.trim().is_empty()) {
            Some(text) if is_bare => text,
            None if is_bare => String::new(),
            Some(text) => format!("{SYSTEM}\n\n{text}"),
            None => SYSTEM.to_owned(),
        };
        let (model, chat, window) = (config.model, config.chat, config.context);
        let max_steps = config.max_steps.or(chat.then_some(CHAT_STEPS));
        Ok(Llm {
            model,
            system: system.into(),
            tools: tools.into(),
            offered,
            first: config.first,
            max_steps,
            temperature: config.temperature,
            effort: config.effort,
            schema: config.schema,
            chat,
            window,
            memory,
        })
    }

    fn say(&mut self, text: impl Into<String>) {
        self.memory.unsaid.push(Block { part: Part::Text { text: text.into() }, native: None });
    }

    /// It cannot go on by itself.
    fn stop(&self, reason: String) -> Decision {
        if self.chat {
            Decision::Wait(Wait::person(reason))
        } else {
            Decision::GiveUp { reason, stuck: false }
        }
    }

    fn ask(&mut self, situation: &Situation<'_>) -> Decision {
        if self.max_steps.is_some_and(|most| self.memory.steps >= most) {
            let reason = format!("{LIMIT_REACHED}{} is reached", self.memory.steps);
            return self.stop(reason);
        }
        let messages = Arc::make_mut(&mut self.memory.messages);
        if messages.is_empty() {
            messages.push(Arc::new(Message::user(compact::opening(situation))));
        }
        if !self.memory.unsaid.is_empty() {
            let mut blocks = std::mem::take(&mut self.memory.unsaid);
            // Providers want the results right after the calls, whatever was said in between.
            blocks.sort_by_key(|block| !matches!(block.part, Part::ToolResult { .. }));
            messages.push(Arc::new(Message { role: Role::User, blocks }));
        }
        if let Some(focus) = self.memory.shorter.take() {
            self.memory.focus = focus;
            self.memory.squeeze.get_or_insert(Squeeze::Summary);
        }
        if self.is_full() && self.memory.squeeze.is_none() && self.memory.messages.len() > 2 {
            self.memory.squeeze = Some(Squeeze::Summary);
        }
        if let Some(squeeze) = self.memory.squeeze {
            return self.shorten(situation, squeeze);
        }
        self.memory.summing_up = false;
        self.consult(situation, Arc::clone(&self.memory.messages), self.memory.moved)
    }

    fn consult(&self, situation: &Situation<'_>, messages: Conversation, moved: usize) -> Decision {
        let offers = self.offered.of(situation.tools);
        // A summary is no answer, and whoever may ask for a tool must be able to.
        let answers = !self.memory.summing_up && self.tools.is_empty() && offers.is_empty();
        Decision::Consult(Consultation::Model(ModelCall {
            model: self.model.clone(),
            system: Arc::clone(&self.system),
            messages,
            tools: Arc::clone(&self.tools),
            temperature: self.temperature,
            effort: self.effort,
            schema: self.schema.clone().filter(|_| answers),
            compacts: self.memory.summing_up,
            words_only: self.memory.words_only,
            moved,
            question: 0,
            offers,
        }))
    }

    /// Makes the conversation shorter, with the model's help where there is room to ask for it.
    fn shorten(&mut self, situation: &Situation<'_>, squeeze: Squeeze) -> Decision {
        if self.memory.squeezes >= compact::MOST {
            return self.stop(format!(
                "the conversation is too long for the model, although it was made shorter {} times in a row",
                self.memory.squeezes
            ));
        }
        if squeeze.asks() {
            self.memory.summing_up = true;
            let asked = compact::question(&self.memory.messages, squeeze, &self.memory.focus);
            let moved = match squeeze {
                Squeeze::Summary => self.memory.moved,
                _ => asked.len(),
            };
            return self.consult(situation, Arc::new(asked), moved);
        }
        self.rebuild(situation, squeeze);
        self.ask(situation)
    }

    /// Goes on from the summary, if there is one.
    fn rebuild(&mut self, situation: &Situation<'_>, squeeze: Squeeze) {
        let Memory { messages, notes, failure, summary, .. } = &self.memory;
        let kept = Kept {
            situation,
            notes,
            failure: failure.as_deref(),
            summary: summary.as_deref().filter(|_| squeeze != Squeeze::Opening),
        };
        self.memory.messages = Arc::new(compact::rebuilt(&kept, messages, squeeze));
        self.memory.moved = self.memory.messages.len();
        self.memory.squeezed = Some(squeeze);
        self.end_summary();
        self.memory.context = 0;
        self.memory.squeezes += 1;
    }

    /// Nothing is asked for the sake of a summary any more.
    fn end_summary(&mut self) {
        self.memory.squeeze = None;
        self.memory.summing_up = false;
        self.memory.words_only = false;
        self.memory.focus.clear();
    }

    /// What is no summary must not take the place of a conversation: it is asked for once more, then there must be a
    /// way without it.
    fn on_summary(&mut self, situation: &Situation<'_>, reply: &Reply) {
        let squeeze = self.memory.squeeze.unwrap_or(Squeeze::Summary);
        if let Some(summary) = compact::summary(reply) {
            self.memory.summary = Some(summary);
            return self.rebuild(situation, squeeze);
        }
        self.on_no_summary();
    }

    fn on_no_summary(&mut self) {
        let squeeze = self.memory.squeeze.unwrap_or(Squeeze::Summary);
        if !self.memory.words_only {
            self.memory.words_only = true;
        } else if squeeze > Squeeze::Summary || self.is_full() {
            self.memory.squeeze = squeeze.harder();
        } else {
            // Only a person wanted it shorter: it goes on as it is.
            self.end_summary();
        }
    }

    fn is_full(&self) -> bool {
        self.window.is_some_and(|window| compact::is_full(self.memory.context, window))
    }

    fn on_reply(&mut self, situation: &Situation<'_>, reply: &Reply) {
        if self.memory.summing_up {
            return self.on_summary(situation, reply);
        }
        self.memory.steps += 1;
        self.memory.squeezed = None;
        self.memory.context = reply.usage.total();
        let refusals = std::mem::take(&mut self.memory.refusals);
        self.memory.refused = false;
        if self.window.is_none_or(|window| !compact::is_full(self.memory.context, window)) {
            self.memory.squeezes = 0;
        }
        Arc::make_mut(&mut self.memory.messages).push(Arc::new(reply.message.clone()));
        let calls = reply.message.blocks.iter().filter_map(|block| match &block.part {
            Part::ToolUse { id, name, input } => {
                Some(Call { id: id.clone(), name: name.clone(), input: Arc::new(input.clone()) })
            }
            _ => None,
        });
        self.memory.asked = calls.collect();
        let is_written = self.memory.asked.is_empty()
            && written::is_call(&reply.message.text(), |word| {
                let known = |tool: &String| tool == word || tool::model_name(tool) == word;
                self.tools.iter().any(known) || server::is_offered(word)
            });
        let is_unusable = is_written || reply.stop == StopReason::MaxTokens;
        self.memory.cuts = if is_unusable { self.memory.cuts + 1 } else { 0 };
        match reply.stop {
            _ if !self.memory.asked.is_empty() => {}
            _ if is_written && self.memory.cuts >= MOST_CUTS => {
                self.memory.end = Some(written::GIVEN_UP.to_owned());
            }
            _ if is_written => self.say(written::TOLD),
            StopReason::MaxTokens if self.memory.cuts >= MOST_CUTS => {
                self.memory.end =
                    Some(format!("{MOST_CUTS} answers in a row were cut at the model's limit"));
            }
            StopReason::MaxTokens => {
                self.say("Your answer was cut at its limit. Go on, in smaller parts.")
            }
            StopReason::Pause => {}
            StopReason::Refusal => {
                let reason = match reply.message.text() {
                    said if said.trim().is_empty() => {
                        "the model refused, without a word".to_owned()
                    }
                    said => format!("the model refused: {said}"),
                };
                self.memory.refusals = refusals;
                self.memory.end = Some(self.refuse(reason));
            }
            StopReason::EndTurn | StopReason::StopSequence | StopReason::ToolUse => {
                self.memory.claim = Some(reply.message.text());
            }
        }
    }

    /// Keeps in mind that a provider refused, and adds to the reason what a chat makes of it.
    fn refuse(&mut self, reason: String) -> String {
        self.memory.refused = self.chat;
        self.memory.refusals += usize::from(self.chat);
        match self.refused_line() {
            Some(_) if self.chat => format!("{reason} ({LEFT_OUT})"),
            _ => reason,
        }
    }

    /// The place of what was said last, or of what was said before that if it was not the last of it that was refused; never the
    /// goal, without which nobody knows what the chat is for.
    fn refused_line(&self) -> Option<usize> {
        let is_line = |message: &Arc<Message>| {
            let mut parts = message.blocks.iter().map(|block| &block.part);
            message.role == Role::User && parts.any(|part| matches!(part, Part::Text { .. }))
        };
        let lines = self.memory.messages.iter().enumerate().skip(1);
        let lines = lines.rev().filter(|(_, message)| is_line(message)).map(|(at, _)| at);
        lines.take(self.memory.refusals.max(1)).last()
    }

    /// What a provider refused it refuses again as long as it stands in the conversation: the line and all that was done for its
    /// sake are left out, save results that belong to calls before it, and what was said before stands as it did.
    fn leave_refused_out(&mut self) {
        if !std::mem::take(&mut self.memory.refused) {
            return;
        }
        let Some(at) = self.refused_line() else { return };
        let messages = Arc::make_mut(&mut self.memory.messages);
        let rest: Vec<Arc<Message>> = messages.drain(at..).collect();
        let is_result = |block: &&Block| matches!(block.part, Part::ToolResult { .. });
        let line = rest.first().map(|line| line.blocks.iter().filter(is_result).cloned());
        let results: Vec<Block> = line.into_iter().flatten().collect();
        if !results.is_empty() {
            messages.push(Arc::new(Message { role: Role::User, blocks: results }));
        }
        self.memory.moved = self.memory.moved.min(messages.len());
        let last = messages.last().filter(|last| last.role == Role::Assistant);
        self.memory.claim = last.map(|last| last.text());
        // A summary would bring them back.
        let lines = rest.iter().filter(|message| message.role == Role::User);
        for block in lines.flat_map(|message| &message.blocks) {
            let Part::Text { text } = &block.part else { continue };
            let is_it = |note: &String| {
                text.strip_suffix(note.as_str()).is_some_and(|who| who.ends_with(": "))
            };
            if let Some(at) = self.memory.notes.iter().rposition(is_it) {
                self.memory.notes.remove(at);
            }
        }
    }

    fn on_failure(&mut self, failure: &ModelFailure) {
        if failure.is_overflow() {
            let tried = self.memory.squeeze.or(self.memory.squeezed).unwrap_or(Squeeze::Summary);
            if let Some(harder) = tried.harder() {
                self.memory.squeeze = Some(harder);
                return;
            }
        }
        // Tools or instructions that changed on the way have the same effect as a prefix that was replaced.
        if failure.is_stale_thinking() && self.memory.moved < self.memory.messages.len() {
            self.memory.moved = self.memory.messages.len();
            return;
        }
        if failure.is_unusable() && self.memory.summing_up {
            return self.on_no_summary();
        }
        if failure.is_unusable() && self.memory.cuts + 1 < MOST_CUTS {
            self.memory.cuts += 1;
            return self.say(format!(
                "Your last answer could not be used, and nothing of it was done: {} Try again; if it was long, \
                 in smaller parts.",
                sentence(&failure.message)
            ));
        }
        let what = match failure.is_unusable() {
            true => "what the model answers cannot be used",
            false => "the model did not answer",
        };
        let reason = format!("{what}: {}: {}", failure.kind, failure.message);
        self.memory.end = Some(match ModelTrouble::of(failure) {
            ModelTrouble::Refusal => self.refuse(reason),
            _ => reason,
        });
    }

    fn on_result(&mut self, action: &Action, result: &ToolResult) {
        let is_meant = |call: &Call| match action.tool_use.as_str() {
            // A call that was under way when an earlier drivetrain saved it does not say which it is.
            "" => action.tool == tool::meant(&self.tools, &call.name) && action.input == call.input,
            id => call.id == id,
        };
        let asked = self.memory.asked.iter().position(is_meant);
        let Some(asked) = asked else {
            let look = self.first.get(self.memory.looked).filter(|look| look.is(action));
            if let Some(told) = look.map(|look| opening::told(look, result)) {
                self.memory.looked += 1;
                self.say(told);
            }
            return;
        };
        let call = self.memory.asked.remove(asked);
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
        self.memory.done = false;
        let waits = self.memory.claim.is_some() || self.memory.end.is_some();
        if note.text.trim().is_empty() && self.chat && waits {
            // There was nothing to stop: the person speaks, as before.
            return;
        }
        if !note.text.trim().is_empty() {
            self.leave_refused_out();
        }
        self.memory.claim = None;
        self.memory.end = None;
        if !note.text.trim().is_empty() {
            if self.chat {
                // It is a line of the person, as one that was waited for.
                self.memory.steps = 0;
            }
            self.memory.notes.push(note.text.clone());
            return self.say(format!("{how}: {}", note.text));
        }
        self.say("The operator stopped you.");
        if self.chat {
            self.memory.end = Some(STOPPED.to_owned());
        }
    }

    fn on_told(&mut self, line: &str) {
        self.memory.end = None;
        self.memory.steps = 0;
        self.memory.cuts = 0;
        self.memory.squeezes = 0;
        let said = line.trim().strip_prefix('/').filter(|said| self.chat && is_command(said));
        if self.chat && line.trim() == DONE {
            self.memory.done = true;
            self.memory.claim.get_or_insert_default();
            return;
        }
        self.leave_refused_out();
        if let Some(focus) = focus(line).filter(|_| self.chat) {
            focus.clone_into(&mut self.memory.focus);
            self.memory.squeeze = Some(Squeeze::Summary);
            return;
        }
        self.memory.claim = None;
        self.say(said.unwrap_or(line));
    }

    fn on_verdict_failed(&mut self, results: &[CriterionResult]) {
        self.leave_refused_out();
        self.memory.claim = None;
        self.memory.done = false;
        let text = super::rejection(results);
        // Whoever took over has it from the one before.
        if self.memory.messages.is_empty() && self.memory.failure.as_ref() == Some(&text) {
            return;
        }
        self.memory.failure = Some(text.clone());
        self.say(text);
    }
}

impl Llm {
    /// The operator's words count whoever hears them, and so does what failed.
    fn take_over_from_another(&mut self, former: &SavedDriver) {
        let Said { notes, failure } = Said::by(former);
        for note in &notes {
            self.say(format!("The operator said before: {note}"));
            self.memory.notes.push(note.clone());
        }
        if let Some(failure) = failure {
            self.say(failure.clone());
            self.memory.failure = Some(failure);
        }
    }

    /// A new conversation keeps the instructions, the operator's notes and what failed last; the one before is in the
    /// journal. One that goes on is only told what failed, if it does not know.
    fn on_retry(&mut self, situation: &Situation<'_>, retry: &Retry) {
        self.memory.claim = None;
        self.memory.end = None;
        self.memory.cuts = 0;
        self.memory.squeeze = None;
        self.memory.words_only = false;
        self.memory.squeezes = 0;
        if !retry.fresh {
            // A question that was not answered is asked again as it is.
            let unanswered = self.memory.unsaid.is_empty()
                && self.memory.messages.last().is_none_or(|last| last.role == Role::User);
            if !unanswered || self.memory.messages.is_empty() {
                self.say(format!("{} Go on.", sentence(&retry.why)));
            }
            return;
        }
        let Memory { notes, failure, steps, .. } = std::mem::take(&mut self.memory);
        let mut text = compact::begun_anew(situation, &notes, failure.as_deref());
        if failure.is_none() {
            text.push_str(&format!("\n\nWhat became of the attempt before: {}", retry.why));
        }
        self.memory = Memory {
            messages: Arc::new(vec![Arc::new(Message::user(text))]),
            notes,
            failure,
            steps,
            ..Memory::default()
        };
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The text with a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// What a person wants kept above all, if the line asks for a shorter conversation.
pub fn focus(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix(COMPACT)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

/// Whether a line of a person means something to a chat itself. With one more slash before it, it is said to the model.
pub fn is_command(line: &str) -> bool {
    line.trim() == DONE || focus(line).is_some()
}

impl Driver for Llm {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        if let Some(reason) = &self.memory.end {
            return self.stop(reason.clone());
        }
        if self.memory.squeeze == Some(Squeeze::Summary) && self.memory.asked.is_empty() {
            return self.ask(situation);
        }
        if self.chat && !self.memory.done && self.memory.claim.is_some() {
            return Decision::Wait(Wait::person(YOUR_TURN));
        }
        if let Some(summary) = &self.memory.claim {
            return Decision::Claim { summary: summary.clone() };
        }
        if self.memory.messages.is_empty()
            && let Some(looks) = opening::rest(&self.first, self.memory.looked, situation)
        {
            return looks;
        }
        if self.memory.asked.is_empty() {
            return self.ask(situation);
        }
        let action = |call: &Call| Action {
            tool: tool::meant(&self.tools, &call.name).to_owned(),
            input: Arc::clone(&call.input),
            label: String::new(),
            tool_use: call.id.clone(),
            path: situation.path.to_vec(),
            author: Author::Worker,
            timeout: None,
        };
        Decision::Act(self.memory.asked.iter().map(action).collect())
    }

    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>) {
        match fact {
            Fact::Replied(Ok(reply)) => self.on_reply(situation, reply),
            Fact::Replied(Err(failure)) => self.on_failure(failure),
            Fact::Result { action, result, .. } => self.on_result(action, result),
            Fact::Note(note) => self.on_note(note),
            Fact::VerdictFailed(results) => self.on_verdict_failed(results),
            Fact::Told(line) => self.on_told(line),
            Fact::Retry(retry) => self.on_retry(situation, retry),
            Fact::Consulted(_)
            | Fact::AgentTook(_)
            | Fact::AgentEnded(_)
            | Fact::ChildBegan(_)
            | Fact::ChildEnded(_) => {}
        }
    }

    fn has_decided(&self) -> bool {
        !self.memory.asked.is_empty()
    }

    fn compact(&mut self, focus: &str) -> Result<(), String> {
        if self.memory.messages.is_empty() {
            return Err("the conversation with the model has not begun".to_owned());
        }
        self.memory.shorter = Some(focus.to_owned());
        Ok(())
    }

    fn gives_the_word_back(&mut self, reason: &str) -> bool {
        if self.chat {
            self.memory.end = Some(reason.to_owned());
        }
        self.chat
    }

    /// After an agent or a person it begins with what the operator said and what failed last. Another model goes on with the same
    /// conversation; what only the former understands is left out when the request is built. What was answered stays
    /// answered, and a chat that was stopped still waits for its person.
    fn inherit(&mut self, former: &SavedDriver) {
        if former.name == agent::KIND || former.name == user::KIND {
            return self.take_over_from_another(former);
        }
        let (true, Ok(memory)) = (former.name == KIND, Memory::deserialize(&former.state)) else {
            return;
        };
        let end = memory.end.clone().filter(|reason| self.chat && reason == STOPPED);
        self.memory = Memory { end, steps: 0, cuts: 0, ..memory };
        let spoke = self.memory.messages.last().is_some_and(|last| last.role == Role::Assistant);
        let answered = self.memory.claim.is_some() || !self.memory.asked.is_empty();
        if spoke && !answered && self.memory.unsaid.is_empty() {
            // Not every provider takes a conversation whose last word is the model's.
            self.say("Go on.");
        }
    }

    fn save(&self) -> Value {
        // Plain data with text keys: nothing in it can fail to become JSON.
        serde_json::to_value(&self.memory).unwrap_or_default()
    }
}
