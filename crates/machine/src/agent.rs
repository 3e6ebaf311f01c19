//! Coding agents: programs with a loop of their own, driven from outside. What one says and what it can be told is the
//! same for all of them; the bytes of each are in `wire::agent`.

pub mod ability;
pub mod client;
pub mod offer;
mod program;
pub mod summary;
pub mod used;
mod walls;

pub use ability::{AgentAbilities, GateDepth, PausePoint};
pub use client::ClientRequest;
pub use program::AgentQuirks;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Usage;
use crate::stream::StreamEvent;
use crate::time::Span;

/// How an agent's program is started and spoken to, as a task freezes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentProgram {
    /// What people call it, such as `claude`.
    pub name: String,
    /// What it speaks.
    pub protocol: AgentProtocol,
    /// The program and arguments of its own; those of the protocol are added.
    pub command: Vec<String>,
    /// Names of variables that it gets as they are here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<String>,
    /// Names of variables that hold its keys: given to it alone, or kept from it where a gateway asks in its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Hosts that it speaks to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The mode of permission that it is put into; that of its protocol's adapter if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model that it asks, as it names it; its own choice if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What marks the operator's words to it: made at random for each task, so that no file can hold it.
    #[serde(default)]
    pub operator: String,
    /// What stands before the model on its command line; nothing if the model is said on its pipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flag: Option<String>,
    /// Variables that are set for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where it departs from its protocol.
    #[serde(default, skip_serializing_if = "AgentQuirks::is_none")]
    pub quirks: AgentQuirks,
    /// How long it may be silent while it is at work; ten minutes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Span>,
    /// Whether its models are asked in its place; if absent, wherever it uses a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<bool>,
    /// Whether it may work in a version that is older than what can be held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_version: bool,
}

/// What an agent's program speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentProtocol {
    /// Claude Code's lines of JSON with its control requests.
    Claude,
    /// The app server of Codex.
    Codex,
    /// The Agent Client Protocol, version 1.
    Acp,
}

/// A turn that an agent is asked for, complete in itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCall {
    /// Who is asked.
    pub program: Arc<AgentProgram>,
    /// What it is asked.
    pub prompt: String,
    /// Which conversation of the task this is, from 1: a new number is a fresh one.
    pub conversation: u32,
    /// What the conversation is resumed by; none if it has not begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What the conversation has cost so far by the agent's own count, in billionths of a dollar; nothing if nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Whether it has been told so: it is only reminded after that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken: bool,
    /// The conversation is made shorter before it is asked, and what this names is kept above all; it may be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact: Option<String>,
    /// The driver's place in a tree of drivers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<u32>,
}

/// What an agent is told when it had begun and nobody knows how far it came.
pub const CONTINUE: &str = "Your work was interrupted before you said that you are finished. Look at the state of the files, and go on.";

/// How an agent's words for a turn begin that came to its end because a call was refused; the reason follows.
pub const REFUSED: &str = "a call was refused";

/// The word for the order to make a conversation shorter.
pub const COMPACT: &str = "compact";

/// The word for the order to ask another model.
pub const SET_MODEL: &str = "set_model";

impl AgentProgram {
    /// Whether it is started and spoken to as this one is, whatever models they ask.
    pub fn is_but_for_model(&self, other: &AgentProgram) -> bool {
        let plain = |program: &AgentProgram| AgentProgram { model: None, ..program.clone() };
        plain(self) == plain(other)
    }

    /// The order that has a live process of it ask this model; none if only another process can.
    pub fn to_model(&self, model: Option<&str>) -> Option<AgentOrder> {
        // What is said on the command line is said once.
        if self.model_flag.is_some() {
            return None;
        }
        model.map(|model| AgentOrder::SetModel { model: model.to_owned() })
    }

    /// A note of the operator, marked with what nobody else knows.
    pub fn operator_says(&self, text: &str) -> String {
        format!("[operator {}] {text}", self.operator)
    }
}

/// What an agent says in the middle of a turn that counts: journaled before anything follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentNews {
    /// It is there, in a version of which somebody should know something.
    Met {
        /// Its name.
        agent: String,
        /// Its version, as it says.
        version: String,
        /// What is to be known; one sentence each.
        remarks: Vec<String>,
    },
    /// It has been told what it was asked, in this conversation.
    Taken {
        /// What the conversation is resumed by, where that is known.
        session: Option<String>,
    },
    /// It said or thought something, whole.
    Said {
        /// Its words; empty if it only thought.
        text: String,
        /// What it thought before, as far as it tells.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        thinking: String,
    },
    /// It asks whether it may use a tool of its own.
    Asks(AgentAsk),
    /// It wants no answer any more.
    Withdrawn {
        /// What it asked with.
        key: String,
    },
    /// A tool of its own ended.
    ToolEnded {
        /// The agent's id of the call.
        id: Arc<str>,
        /// Whether it went well.
        ok: bool,
        /// What came of it; the beginning, if it is long.
        text: String,
    },
    /// It used a tool of its own that it asked nobody about.
    Used {
        /// The agent's id of the call.
        id: Arc<str>,
        /// The tool, as the agent names it.
        tool: String,
        /// Its parameters, as far as they are known.
        input: Arc<Value>,
        /// Whether it went well.
        ok: bool,
        /// What came of it; the beginning, if it is long.
        text: String,
    },
    /// Messages came in the turn that nobody knows; said at its end.
    Unknown(Unknown),
    /// It calls a tool that drivetrain offers, and waits for the result.
    Calls(AgentRequest),
    /// It did not take an order.
    OrderFailed(FailedOrder),
    /// It wrote a summary in place of its conversation.
    Compacted {
        /// Whether it was told to.
        ordered: bool,
        /// The size before, in tokens, where it says so.
        before: Option<u64>,
        /// The size after.
        after: Option<u64>,
    },
    /// What its models cost since it last said so.
    Spent {
        /// Tokens.
        usage: Usage,
        /// Dollars, where the agent counts them itself.
        usd: Option<f64>,
        /// Its models were asked through the gateway, which counted them as well.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        metered: bool,
    },
    /// It would ask a model, through the gateway. Nothing is sent before the answer, [`crate::effect::Effect::LetAsk`].
    WouldAsk {
        /// The number of the request, another one for each.
        request: u64,
        /// The size of its body, in bytes.
        bytes: u64,
    },
    /// What a request through the gateway counts for.
    Passed {
        /// The number of the request.
        request: u64,
        /// The model, as the agent named it.
        model: String,
        /// Tokens, and money where the price is known.
        usage: Usage,
    },
}

impl AgentNews {
    /// Whether nobody waits for what follows from it, so that it may be written down together with what comes next. What
    /// must be known after a crash (that a prompt was taken) and what somebody waits for does not wait. What was spent may:
    /// the next thing that spends is a question of the agent, which comes behind it.
    pub fn can_wait(&self) -> bool {
        match self {
            AgentNews::Met { .. }
            | AgentNews::Said { .. }
            | AgentNews::ToolEnded { .. }
            | AgentNews::Used { .. }
            | AgentNews::Unknown(_)
            | AgentNews::Spent { .. }
            | AgentNews::Passed { .. } => true,
            AgentNews::Taken { .. }
            | AgentNews::Asks(_)
            | AgentNews::Withdrawn { .. }
            | AgentNews::Calls(_)
            | AgentNews::OrderFailed(_)
            | AgentNews::Compacted { .. }
            | AgentNews::WouldAsk { .. } => false,
        }
    }
}

/// Messages of an agent that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Unknown {
    /// How many.
    pub count: u64,
    /// The first few kinds, as the agent names them.
    pub kinds: Vec<String>,
}

impl Unknown {
    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Something an agent said. Exhaustive on purpose: a new one must break every performer.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// It is there and can be asked; nothing but orders to open may be sent before.
    Ready(AgentFacts),
    /// Its conversation has this id; said again when the id changes.
    Session {
        /// What it is resumed by.
        id: String,
    },
    /// Text, thinking and tool calls as they stream by; for observers.
    Stream(StreamEvent),
    /// The same from a helper that it started; the helper's answers are told apart by the call that started it.
    Helper {
        /// The agent's id of the call that started the helper.
        parent: Arc<str>,
        /// What the helper's model says.
        event: StreamEvent,
    },
    /// It asks whether it may use one of its own tools. It waits for [`AgentOrder::Answer`].
    Asks(AgentAsk),
    /// It wants no answer to what it asked any more.
    Withdrawn {
        /// What it asked with.
        key: String,
    },
    /// One of its tools ended.
    ToolEnded {
        /// The agent's id of the call.
        id: Arc<str>,
        /// The tool.
        tool: String,
        /// Whether it went well.
        ok: bool,
        /// What came of it; the beginning, if it is long.
        text: String,
    },
    /// It calls a tool that drivetrain offers. It waits for [`AgentOrder::ToolResult`].
    Calls(AgentRequest),
    /// It wants a file or a command of us in place of its own. Where it is asked about first, the answer is
    /// [`AgentOrder::Answer`], as for [`AgentEvent::Asks`]; a yes is followed by the work itself.
    Wants(Box<ClientRequest>),
    /// It says that it is finished, and waits for [`AgentOrder::MayStop`] before its turn ends.
    WouldStop {
        /// What it asked with.
        key: String,
        /// Its last words.
        summary: String,
    },
    /// What its models cost since the last time it said so.
    Spent {
        /// Tokens.
        usage: Usage,
        /// Dollars, where the agent counts them itself.
        usd: Option<f64>,
    },
    /// Its model could not be had and will be asked again.
    Retries {
        /// The kind in one word.
        kind: String,
        /// In how many milliseconds, where it says so.
        again_in: Option<u64>,
    },
    /// It wrote a summary in place of its conversation.
    Compacted {
        /// The size before, in tokens, where it says so.
        before: Option<u64>,
        /// The size after.
        after: Option<u64>,
    },
    /// A turn began that nobody ordered, such as after a task in its background ended.
    TurnBegan,
    /// A turn ended.
    TurnEnded(AgentTurn),
    /// It asks the model that it was told to ask, from here on.
    ModelSet,
    /// It refused an order that it had been sent, or the order came too late for it.
    OrderFailed(FailedOrder),
    /// It broke the rules of its protocol in a way that cannot be passed over: nothing that it says counts from here on.
    Broke {
        /// How.
        fault: AgentFault,
        /// What was heard, for a person.
        why: String,
    },
    /// It said something that nobody knows. Kept and counted, never acted on.
    Unknown {
        /// What kind of message it is, as far as can be seen.
        kind: String,
    },
    /// A line could not be understood.
    Malformed {
        /// Why.
        reason: String,
        /// The beginning of the line.
        line: String,
    },
}

/// What an agent says of itself at the start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentFacts {
    /// Its version, as it says.
    pub version: String,
    /// What it can do, as it says.
    pub can: AgentAbilities,
    /// The modes of permission that it has, the one in force first.
    pub modes: Vec<String>,
    /// Whether this version is one that was tried.
    #[serde(default)]
    pub support: AgentSupport,
    /// What this version lacks, and what is done about it; one sentence each.
    #[serde(default)]
    pub limits: Vec<String>,
    /// What whoever uses this version should know before it works; one sentence each.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Why this version cannot be held, if it cannot.
    #[serde(default)]
    pub refusal: Option<String>,
}

impl AgentFacts {
    /// Why a program that says this of itself is not asked anything, unless its operator wants it all the same.
    pub fn refused(&self, program: &AgentProgram) -> Option<String> {
        self.refusal.clone().filter(|_| !program.any_version)
    }
}

/// Whether a version of an agent is one that drivetrain was tried with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentSupport {
    /// It does not say its version, or not in a form that can be compared.
    #[default]
    Unknown,
    /// Older than the oldest that was tried.
    Older,
    /// Within what was tried.
    Tested,
    /// Newer than the newest that was tried.
    Newer,
}

/// A question of an agent about one of its own tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentAsk {
    /// What the answer is sent with.
    pub key: String,
    /// The agent's id of the call.
    pub id: Arc<str>,
    /// The tool, as the agent names it.
    pub tool: String,
    /// Its parameters, as the agent has them.
    pub input: Arc<Value>,
    /// What it is in words that the gate knows, where that is certain.
    pub means: AgentMeans,
    /// The helper of the agent that calls, as the agent names it; nothing for the agent itself.
    pub helper: Option<Arc<str>>,
}

/// A call of a tool that drivetrain offers to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRequest {
    /// What the result is sent with.
    pub key: String,
    /// The agent's id of the call; empty if it does not say.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub id: Arc<str>,
    /// The tool, as drivetrain names it.
    pub tool: String,
    /// Its parameters.
    pub input: Arc<Value>,
}

/// An order that an agent did not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedOrder {
    /// The order in one word, such as `steer`.
    pub order: String,
    /// Why, as the agent says.
    pub reason: String,
    /// The words that it was to be told, as they were sent; none if it was no order of words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
}

impl FailedOrder {
    /// Words that came too late: nobody would hear them, or they would begin a turn that nobody asked for.
    pub fn turn_ended(words: String) -> FailedOrder {
        FailedOrder::unheard(words, "its turn has ended".to_owned())
    }

    /// The conversation is as long as it was, for this reason.
    pub fn not_compacted(reason: impl Into<String>) -> FailedOrder {
        FailedOrder { order: COMPACT.to_owned(), reason: reason.into(), words: None }
    }

    /// Words that it did not get, for this reason.
    pub fn unheard(words: String, reason: String) -> FailedOrder {
        FailedOrder { order: "steer".to_owned(), reason, words: Some(words) }
    }
}

/// What a call of an agent's own tool does, as far as the gate can judge it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMeans {
    /// Runs a command line.
    Command(String),
    /// Reads below this path.
    Read(String),
    /// Changes this file.
    Write(Vec<String>),
    /// Fetches from this address.
    Fetch(String),
    /// What our own tool of this name does with these parameters; performed by us.
    Ours(String),
    /// Keeps to the agent itself: plans, lists, its own helpers, whose calls are asked about one by one.
    Inner,
    /// Something else.
    Other,
}

/// How a turn of an agent ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentTurn {
    /// How.
    pub end: AgentEnd,
    /// Its last words, or what is wrong.
    pub text: String,
    /// Whether drivetrain ordered it; not for one that began by itself.
    pub ordered: bool,
    /// How many calls of its own tools were refused.
    pub refused: u64,
    /// How many tasks of its own still run in its background; each may begin a turn when it ends.
    #[serde(default)]
    pub background: u64,
    /// How many prompts came too late for this turn and will be answered by another one, which begins by itself.
    #[serde(default)]
    pub queued: u64,
}

impl AgentTurn {
    /// The end of a turn that was ordered and in which the agent did nothing.
    pub fn empty(end: AgentEnd, text: impl Into<String>) -> AgentTurn {
        AgentTurn { end, text: text.into(), ordered: true, refused: 0, background: 0, queued: 0 }
    }
}

/// The ways a turn can end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentEnd {
    /// It has nothing more to do, it says.
    Done,
    /// It was stopped from outside.
    Interrupted,
    /// A limit of the agent's own was reached.
    Limit,
    /// Its model refused.
    Refused,
    /// Its conversation is longer than its model takes.
    ContextOverflow,
    /// Its model could not be had.
    Model {
        /// The kind in one word, as for models that drivetrain asks itself.
        kind: String,
        /// The status of the answer, where there is one.
        status: Option<u16>,
        /// Whether the same may go well later.
        again: bool,
        /// In how many milliseconds, where that is known.
        after: Option<u64>,
    },
    /// The conversation that was to be resumed is not there.
    NoSession,
    /// Something else went wrong, as the agent itself says.
    Failed,
    /// Its program broke off or broke the rules: nothing that it said is an end.
    Broken(AgentFault),
}

/// How an agent's program can break a turn. What a person is told beside it is the turn's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentFault {
    /// It ended by itself.
    Exit,
    /// A signal ended it.
    Killed,
    /// It said nothing for too long, did not read what it was told, or did not end when it should have.
    Timeout,
    /// What it said is not in the form of its protocol.
    Malformed,
    /// It said more than anybody listens to.
    TooLarge,
    /// What it said is in the form of its protocol, and not in its order.
    Protocol,
    /// Its own gate is not as it was set, or it acted without asking. It is not asked again.
    Policy,
    /// The folder that it works in is gone.
    Workspace,
}

impl AgentFault {
    /// In one word, as in the journal.
    pub fn word(self) -> &'static str {
        match self {
            AgentFault::Exit => "exit",
            AgentFault::Killed => "killed",
            AgentFault::Timeout => "timeout",
            AgentFault::Malformed => "malformed",
            AgentFault::TooLarge => "too_large",
            AgentFault::Protocol => "protocol",
            AgentFault::Policy => "policy",
            AgentFault::Workspace => "workspace",
        }
    }
}

/// What an agent can be told. What an adapter cannot say gives an error that names it.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentOrder {
    /// Begin a turn.
    Prompt {
        /// What it is asked.
        text: String,
    },
    /// Say something in the middle of a turn.
    Steer {
        /// What it is told.
        text: String,
    },
    /// Answer a question about a tool.
    Answer {
        /// What it asked with.
        key: String,
        /// The call may run, with these parameters if they are others; or the reason why not.
        may: Result<Option<Value>, String>,
    },
    /// Give the result of a tool that drivetrain offers.
    ToolResult {
        /// What it asked with.
        key: String,
        /// What came of it, or what is wrong.
        result: Result<String, String>,
    },
    /// Answer [`AgentEvent::WouldStop`].
    MayStop {
        /// What it asked with.
        key: String,
        /// What is missing; it may stop if nothing is.
        missing: Option<String>,
    },
    /// Stop the turn.
    Interrupt,
    /// Ask this model from here on.
    SetModel {
        /// The model, as the agent names it.
        model: String,
    },
    /// Write a summary in place of the conversation.
    Compact {
        /// What to keep in mind; may be empty.
        focus: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_agent_is_told_of_another_model_unless_its_command_line_says_it() {
        let claude = AgentProgram::built_in("claude").unwrap();
        let other = AgentProgram { model: Some("small".to_owned()), ..claude.clone() };
        assert!(claude.is_but_for_model(&other));
        let order = AgentOrder::SetModel { model: "small".to_owned() };
        assert_eq!(claude.to_model(other.model.as_deref()), Some(order));
        assert_eq!(other.to_model(None), None, "its own choice is made when it starts");
        let flagged = AgentProgram { model_flag: Some("-m".to_owned()), ..claude.clone() };
        assert_eq!(flagged.to_model(Some("small")), None);
        assert!(!claude.is_but_for_model(&flagged));
        let freer = AgentProgram { mode: Some("bypassPermissions".to_owned()), ..other };
        assert!(!claude.is_but_for_model(&freer));
    }
}
