//! Who decides next: the driver's contract and the registry of drivers by name.
//!
//! A driver is a pure function of what has happened. The loop calls it in this order, again and again:
//!
//! 1. [`Driver::decide`] when nothing of the task is under way. It answers with a [`Decision`].
//! 2. [`Driver::observe`] for everything that came of the decision: one [`Fact::Result`] for each action, in
//!    the order of the actions, whatever the order in which they ended; answers of people; failed verdicts.
//!
//! A driver never waits, never does anything and never reads a clock: what it needs is in [`Situation`] and
//! in the facts. Between two calls it can be saved with [`Driver::save`] and made again by
//! [`DriverKind::load`], in another process, and must go on as if nothing had happened.

pub mod agent;
pub mod composite;
pub mod external;
pub mod llm;
mod opening;
pub mod scripted;
pub mod state_machine;
pub mod user;
pub mod workflow;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{AgentCall, AgentTurn};
use crate::child::step::{ChildEnd, TaskOrder};
use crate::id::CallId;
use crate::input::Command;
use crate::message::{ModelCall, ModelFailure, Reply};
use crate::policy::permission::Author;
use crate::server::ToolOffer;
use crate::task::{Criterion, CriterionResult};
use crate::time::{Span, Timestamp};
use crate::tool::ToolResult;

/// What a driver answers. Exhaustive on purpose: a new kind of move must break every caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Do these, all at once; results come back in this order.
    Act(Vec<Action>),
    /// Nothing to do until something comes.
    Wait(Wait),
    /// Ask a decider outside. A plugin's answer comes back as [`Fact::Consulted`], a model's as
    /// [`Fact::Replied`].
    Consult(Consultation),
    /// The work is finished, says the driver. Acceptance decides.
    Claim {
        /// What was done, for a person.
        summary: String,
    },
    /// It cannot go on.
    GiveUp {
        /// Why, for a person.
        reason: String,
        /// Whether it is a circle rather than a failure.
        stuck: bool,
    },
}

/// Who is asked outside, and what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consultation {
    /// A plugin process.
    Plugin(Value),
    /// A model.
    Model(ModelCall),
    /// A coding agent, for a turn.
    Agent(Box<AgentCall>),
    /// A task of its own, to its end.
    Task(Box<TaskOrder>),
}

impl Consultation {
    /// Whether whoever is asked may spend tokens and money of the task.
    pub(crate) fn spends(&self) -> bool {
        match self {
            Consultation::Plugin(_) => false,
            Consultation::Model(_) | Consultation::Agent(_) | Consultation::Task(_) => true,
        }
    }
}

/// What a driver can wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// A person's next line; the prompt says what is expected.
    Person {
        /// Shown to the person.
        prompt: String,
        /// When to decide again although nobody answered; the answer is waited for as long as it takes if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// When something else is due: the driver is asked again then, and the question is put again if it still waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
        /// Which of the driver's questions it is, so that one that is put again is known as the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u64>,
    },
    /// A moment.
    Until {
        /// When to decide again.
        at: Timestamp,
        /// Why, for a person.
        reason: String,
    },
    /// The results of actions that are under way; only a driver that is [`Driver::eager`] may say so.
    Results {
        /// When to decide again although nothing has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
}

impl Wait {
    /// For a person's next line, for as long as it takes.
    pub fn person(prompt: impl Into<String>) -> Wait {
        Wait::Person { prompt: prompt.into(), until: None, due: None, number: None }
    }

    /// The next moment at which the driver is asked again by itself.
    pub fn moment(&self) -> Option<Timestamp> {
        match self {
            Wait::Person { until, due, .. } => until.iter().chain(due).copied().min(),
            Wait::Until { at, .. } => Some(*at),
            Wait::Results { until } => *until,
        }
    }
}

/// One action: a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The tool's name.
    pub tool: String,
    /// Its parameters.
    pub input: Arc<Value>,
    /// What a person sees it as, such as the step's name; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The id of the model's tool call that asks for it; empty if no model does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool_use: String,
    /// The way down a tree of drivers to the one that acts: given back with the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<u32>,
    /// Who wrote it.
    pub author: Author,
    /// Stop it after this time; the tool's own limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// Something that happened and that the driver is told once.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact<'a> {
    /// An action ended.
    Result {
        /// The call's id.
        call: CallId,
        /// What was asked.
        action: &'a Action,
        /// What came of it.
        result: &'a ToolResult,
    },
    /// A person decided, in one line (answer to [`Wait::Person`]).
    Told(&'a str),
    /// A note of the operator: steering, an interrupt's note, or a follow-up.
    Note(&'a Note),
    /// The claim was checked and these criteria did not all pass.
    VerdictFailed(&'a [CriterionResult]),
    /// The plugin answered, or could not (the error says why).
    Consulted(Result<&'a Value, &'a str>),
    /// The model answered, or could not.
    Replied(Result<&'a Reply, &'a ModelFailure>),
    /// The loop has it try again after a failure, of which it has been told.
    Retry(&'a Retry),
    /// The agent has heard something.
    AgentTook(AgentHeard<'a>),
    /// The agent's turn ended, or there is no agent (the error says why).
    AgentEnded(Result<&'a AgentTurn, &'a str>),
    /// The task that was asked for begins, and has this number from now on.
    ChildBegan(u64),
    /// The task that was asked for ended, or could not begin.
    ChildEnded(&'a ChildEnd),
}

/// What an agent has certainly heard, and what it says of its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentHeard<'a> {
    /// What it was asked, in the conversation of this id, where that is known.
    Prompt(Option<&'a str>),
    /// A note of the operator, beside what it was asked.
    Note(&'a Note),
    /// Its conversation cost this much more by its own count, in billionths of a dollar.
    Cost(u64),
    /// The order to make its conversation shorter, whatever came of it.
    Compact,
}

/// How a driver is to try again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// What failed, for whoever begins without knowing it.
    pub why: String,
    /// Whether it begins anew: a new conversation with the goal and what failed, or the first step. People's notes
    /// are kept.
    pub fresh: bool,
}

/// What a worker is told about a claim that did not hold.
pub(crate) fn rejection(results: &[CriterionResult]) -> String {
    let mut text = "The work was not accepted. These checks failed:".to_owned();
    for result in results.iter().filter(|result| result.fails()) {
        let exit = result.exit.map(|code| format!(" (exit code {code})")).unwrap_or_default();
        text.push_str(&format!("\n\n{}{exit}\n{}", result.title, result.evidence));
    }
    text
}

/// What a person sent to the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// How it was sent.
    pub kind: NoteKind,
    /// What it says.
    pub text: String,
}

/// The ways to send a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// Before the next action that has not started.
    Steer,
    /// After the running work was stopped.
    Interrupt,
    /// When the driver would otherwise be finished.
    FollowUp,
}

/// What a driver may look at when it decides.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The task's goal.
    pub goal: &'a str,
    /// What decides whether it is reached.
    pub criteria: &'a [Criterion],
    /// The time of the input that led here.
    pub now: Timestamp,
    /// Decisions made before this one.
    pub turns: u64,
    /// The driver's own place in a tree of drivers; a composite extends it for its children.
    pub path: &'a [u32],
    /// The tools beside the built-in ones.
    pub tools: &'a [ToolOffer],
}

/// Why nothing can be made shorter where neither a model nor an agent works.
pub(crate) const NO_CONVERSATION: &str =
    "no model and no agent works now whose conversation could be made shorter";

/// A live driver. See the module's page for the contract.
pub trait Driver: fmt::Debug + Send {
    /// The next move. Called only when nothing is under way, unless the driver is eager.
    fn decide(&mut self, situation: &Situation<'_>) -> Decision;

    /// Takes note of what happened.
    fn observe(&mut self, situation: &Situation<'_>, fact: &Fact<'_>);

    /// Everything it remembers, as plain data that [`DriverKind::load`] understands.
    fn save(&self) -> Value;

    /// Takes over from the driver that decided so far. Most begin anew; one of the same kind may go on with what
    /// the former knew.
    fn inherit(&mut self, former: &SavedDriver) {
        let _ = former;
    }

    /// True if it wants results one by one, and to decide after each while others are under way.
    fn eager(&self) -> bool {
        false
    }

    /// Whether an action with this path is its own, or that of a driver below it. The result of another one, which a driver
    /// before it has left open, is not for it.
    fn owns(&self, path: &[u32]) -> bool {
        let _ = path;
        true
    }

    /// Whether it has decided on actions that it has not handed out: what it is told now comes too late for them.
    fn has_decided(&self) -> bool {
        false
    }

    /// The question to a person that it waits with was not put, because something else was under way. True if it is to be
    /// asked again, since the person's time begins when the question is put.
    fn not_put(&mut self) -> bool {
        false
    }

    /// The task would end for this reason. True if its driver waits for a person's word instead.
    fn gives_the_word_back(&mut self, reason: &str) -> bool {
        let _ = reason;
        false
    }

    /// Somebody wants its conversation shorter before its next question, and what `focus` names kept above all. The error
    /// says why it cannot be.
    fn compact(&mut self, focus: &str) -> Result<(), String> {
        let _ = focus;
        Err(NO_CONVERSATION.to_owned())
    }

    /// What it hands over beside the work itself, once it claimed and the claim held.
    fn outputs(&self, situation: &Situation<'_>) -> Option<Value> {
        let _ = situation;
        None
    }
}

/// A kind of driver: what the registry holds.
pub trait DriverKind: fmt::Debug + Send + Sync {
    /// The name that task files use.
    fn name(&self) -> &str;

    /// Raised when saved state of an older version is no longer understood.
    fn version(&self) -> u32;

    /// Checks a configuration and makes a driver at its beginning. The error names the key that is wrong.
    fn create(&self, config: &Value, registry: &Registry) -> Result<Box<dyn Driver>, String>;

    /// Makes a driver from what [`Driver::save`] gave.
    fn load(
        &self,
        config: &Value,
        state: &Value,
        registry: &Registry,
    ) -> Result<Box<dyn Driver>, String>;
}

/// The drivers that exist, by name.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<String, Arc<dyn DriverKind>>,
}

impl Registry {
    /// The drivers that come with drivetrain.
    pub fn builtin() -> Registry {
        let mut registry = Registry::default();
        registry.register(Arc::new(user::UserKind));
        registry.register(Arc::new(workflow::WorkflowKind));
        registry.register(Arc::new(state_machine::StateMachineKind));
        registry.register(Arc::new(external::ExternalKind));
        registry.register(Arc::new(llm::LlmKind));
        registry.register(Arc::new(agent::AgentKind));
        for kind in composite::kinds() {
            registry.register(kind);
        }
        registry
    }

    /// Adds a driver; one of the same name is replaced.
    pub fn register(&mut self, kind: Arc<dyn DriverKind>) {
        self.kinds.insert(kind.name().to_owned(), kind);
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// Finds a kind. `external:NAME` is the kind `external`; its configuration names the plugin.
    pub fn find(&self, name: &str) -> Result<&Arc<dyn DriverKind>, String> {
        let kind = name.split_once(':').map_or(name, |(kind, _)| kind);
        self.kinds.get(kind).ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            format!("no driver {name:?}: expected one of {}", names.join(", "))
        })
    }
}

/// A driver as part of a state: its name, version and configuration beside the live thing.
#[derive(Debug)]
pub struct DriverSlot {
    /// The registered name.
    pub name: String,
    /// The version that made it.
    pub version: u32,
    /// Its configuration.
    pub config: Arc<Value>,
    /// The driver itself.
    pub live: Box<dyn Driver>,
    /// See [`DriverSlot::within`]; walked once, as a configuration may be long and never changes.
    within: OnceLock<Vec<String>>,
}

/// A driver at rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedDriver {
    /// The registered name.
    pub name: String,
    /// The version that saved it.
    pub version: u32,
    /// Its configuration.
    pub config: Arc<Value>,
    /// What it remembered.
    pub state: Value,
}

/// What a model, an agent and a person keep of what they were told, for one of another kind that takes over.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    /// The operator's notes.
    notes: Vec<String>,
    /// The last failed verdict.
    failure: Option<String>,
}

impl Said {
    fn by(former: &SavedDriver) -> Said {
        if ![llm::KIND, agent::KIND, user::KIND].contains(&former.name.as_str()) {
            return Said::default();
        }
        let mut said = Said::deserialize(&former.state).unwrap_or_default();
        if former.name == agent::KIND {
            // Those to an agent begin with its mark.
            said.notes.iter_mut().for_each(|note| *note = agent::unmarked(note).to_owned());
        }
        said
    }
}

/// Whose decisions a driver brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hand {
    /// Whoever wrote the steps down, before the task began.
    Written,
    /// A person, move by move.
    Person,
    /// A worker: a model, an agent, a program.
    Worker,
}

impl DriverSlot {
    pub(crate) fn new(
        name: &str,
        version: u32,
        config: Arc<Value>,
        live: Box<dyn Driver>,
    ) -> DriverSlot {
        DriverSlot { name: name.to_owned(), version, config, live, within: OnceLock::new() }
    }

    /// Looks at it and at every driver in it, however deep.
    fn each(&self, mut look: impl FnMut(&str, &Value)) {
        let mut config = Value::clone(&self.config);
        // The configuration was walked when the driver was made, so there is no error to speak of.
        let _ = composite::visit(&self.name, &mut config, &mut |name, config| {
            look(name, config);
            Ok(())
        });
    }

    /// Whose decisions it brings; of several, those that are known the least beforehand.
    pub fn hand(&self) -> Hand {
        let mut hand = Hand::Written;
        self.each(|name, config| {
            hand = hand.max(match name {
                "workflow" | "state_machine" => Hand::Written,
                "scripted" if config["author"] != "worker" => Hand::Written,
                "user" => Hand::Person,
                name if composite::is_kind(name) => Hand::Written,
                _ => Hand::Worker,
            });
        });
        hand
    }

    /// The names of the drivers that it has work in its place, however deep.
    pub(crate) fn within(&self) -> &[String] {
        self.within.get_or_init(|| {
            let mut names = BTreeSet::new();
            self.each(|name, _| names.extend([name.to_owned()]));
            names.into_iter().collect()
        })
    }

    /// Whether what a person says to it are lines of their own, and not answers to what it asks.
    pub(crate) fn is_prompt(&self) -> bool {
        matches!(self.name.as_str(), llm::KIND | user::KIND)
    }

    /// Whether a failed verdict may have ended it, so that it has to be told to try again: what it does was written down.
    pub(crate) fn ends_by_verdict(&self) -> bool {
        matches!(self.name.as_str(), "workflow" | "state_machine") || composite::is_kind(&self.name)
    }

    /// What becomes of a note to it, where it does not simply read it: steps that were written down take no advice, only
    /// whoever works at one of them does.
    pub(crate) fn remark(&self, command: &Command) -> Option<String> {
        match command {
            Command::Steer { .. } | Command::FollowUp { .. } => {}
            Command::Interrupt { note } if !note.is_empty() => {}
            _ => return None,
        }
        let is_written = |name: &str| matches!(name, "workflow" | "state_machine");
        let within = self.within();
        if !within.iter().any(|name| is_written(name)) {
            return None;
        }
        let reads = within.iter().any(|name| !is_written(name) && !composite::is_kind(name));
        Some(match reads {
            true => "only the steps at which a model, an agent, a plugin or a person is at work then read it; the others do \
                     what was written"
                .to_owned(),
            false => "its steps do what was written, and nobody reads the note: it stands in the log alone".to_owned(),
        })
    }

    /// Makes a driver at its beginning.
    pub fn create(name: &str, config: &Value, registry: &Registry) -> Result<DriverSlot, String> {
        let kind = registry.find(name)?;
        let live = kind.create(config, registry)?;
        Ok(DriverSlot::new(name, kind.version(), Arc::new(config.clone()), live))
    }

    /// Puts it to rest.
    pub fn save(&self) -> SavedDriver {
        SavedDriver {
            name: self.name.clone(),
            version: self.version,
            config: Arc::clone(&self.config),
            state: self.live.save(),
        }
    }

    /// Wakes it. A driver of a newer version than the registry's is refused.
    pub fn load(saved: &SavedDriver, registry: &Registry) -> Result<DriverSlot, String> {
        let kind = registry.find(&saved.name)?;
        if saved.version > kind.version() {
            return Err(format!(
                "driver {} was saved by version {}; this drivetrain has version {}",
                saved.name,
                saved.version,
                kind.version()
            ));
        }
        let live = kind.load(&saved.config, &saved.state, registry)?;
        Ok(DriverSlot::new(&saved.name, saved.version, Arc::clone(&saved.config), live))
    }
}
