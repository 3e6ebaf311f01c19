//! Agents that speak the Agent Client Protocol, version 1: JSON-RPC on the pipe, one object a line. A session has a
//! mode of permission, a prompt is a request that is answered when its turn has ended, and everything in between is an
//! update or a question.
//!
//! The protocol leaves much to each agent, and agents depart from it. What was seen is data (`quirks`, and
//! [`machine::agent::AgentQuirks`] for agents that come by a file); what is the same for all:
//! - a session is only used in a mode in which the agent asks, or in the one that somebody named. If it goes into
//!   another by itself it is put back, and not used any more if that fails;
//! - a question is answered by the kind of its options, never by their ids, and never with more than it asks for;
//! - what the agent may ask of us is said at the start, and anything else is refused;
//! - an end of a turn without any sign of work is not believed.
//!
//! The types are written by hand: the schema's crate brings some forty others for a dozen messages, of which this
//! reads a few fields each, and must read those of agents that are not quite in the schema.

mod client;
mod ends;
mod means;
mod mode;
mod quirks;
mod session;
pub mod setup;
mod updates;

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::agent::client::{ClientDone, ClientFailure};
use machine::agent::{
    AgentEnd, AgentEvent, AgentOrder, AgentQuirks, AgentTurn, FailedOrder, SET_MODEL,
};
use machine::policy::price::dollars;
use serde_json::{Value, json};

use super::AgentCodec;
use super::answer::Answer;
use super::mention;
use super::opening::Opening;
use super::peer::{Form, Peer};
use crate::jsonrpc::{Incoming, METHOD_NOT_FOUND, RpcError};
pub use client::AcpOffers;
use client::{Agreed, Asked, Client, Out};
use ends::Signs;
use mode::Modes;

/// More questions or calls than this at once are refused, or not remembered.
const MOST: usize = 256;

/// How a conversation is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpOpen {
    /// The version of whoever drives it.
    pub version: String,
    /// The folder in which it works.
    pub folder: String,
    /// Which conversation.
    pub opening: Opening,
    /// What it has cost so far by the agent's own count, in billionths of a dollar, where that is known.
    pub cost: Option<u64>,
    /// The mode of permission; one in which it asks if absent.
    pub mode: Option<String>,
    /// The model; the agent's own choice if absent.
    pub model: Option<String>,
    /// What it may ask of us.
    pub offers: AcpOffers,
    /// Where it departs from the protocol; what is known of agents of its name if there is nothing here.
    pub quirks: AgentQuirks,
}

/// One process of an agent with one session.
#[derive(Debug)]
pub struct AcpCodec {
    open: AcpOpen,
    peer: Peer,
    phase: Phase,
    agent: Value,
    quirks: AgentQuirks,
    session: String,
    modes: Modes,
    /// What the answer to opening the session said of models.
    models: Value,
    /// The mode that an update told of since it was set last.
    told_mode: Option<String>,
    replay: Replay,
    answer: Answer,
    last_message: String,
    /// Calls of the agent's tools that have not ended, and whether observers know them.
    tools: BTreeMap<String, (Value, bool)>,
    asks: BTreeMap<String, Ask>,
    client: Client,
    last_key: u64,
    sent: BTreeMap<u64, Sent>,
    turn: Option<Turn>,
    /// The turn before was cancelled.
    after_cancel: bool,
    /// The cost of the session so far, where that is known.
    cost: Option<f64>,
    /// Whether this process has told it.
    tells_cost: bool,
    can_compact: bool,
    /// What an order led to, for whoever reads next.
    late: Vec<AgentEvent>,
    /// Whether it goes on with a conversation of which nobody knows yet whether its provider takes it.
    unproven: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Initializing,
    Opening,
    Ready,
    /// It must not be asked anything; why.
    Refused(String),
}

/// Whether what comes was said before this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replay {
    No,
    /// Up to the answer to the request that opens the session.
    UntilOpen,
    /// For agents that go on with it later: up to the list of commands that they send then.
    UntilCommands,
}

#[derive(Debug)]
struct Ask {
    id: Value,
    /// The agent's id of the call.
    call: Arc<str>,
    allow: Option<String>,
    reject: Option<String>,
    /// What a yes would be for.
    agrees: Vec<Agreed>,
}

#[derive(Debug, Default)]
struct Turn {
    signs: Signs,
    is_cancelled: bool,
    refused: u64,
    /// Why a call of its own was refused, if it has said and begun nothing since.
    refusal: Option<String>,
    compacts: bool,
}

impl Turn {
    /// A call of its own was refused. Some agents end their turn with that, and their model never hears of it.
    fn refuse(&mut self, why: &str) {
        self.refused += 1;
        self.refusal = Some(why.to_owned());
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    Initialize,
    Session,
    Mode(String),
    FirstModel,
    Model,
    Prompt,
    RestoreMode,
}

impl AcpCodec {
    /// A codec for a process that was just started.
    pub fn new(open: AcpOpen) -> AcpCodec {
        let cost = match open.opening {
            Opening::New => Some(0.0),
            Opening::Resume(_) | Opening::Fork(_) => open.cost.map(dollars),
        };
        let unproven = open.opening != Opening::New;
        AcpCodec {
            quirks: open.quirks.clone(),
            open,
            peer: Peer::new(Form::Stated),
            phase: Phase::Initializing,
            agent: Value::Null,
            session: String::new(),
            modes: Modes::default(),
            models: Value::Null,
            told_mode: None,
            replay: Replay::UntilOpen,
            answer: Answer::default(),
            last_message: String::new(),
            tools: BTreeMap::new(),
            asks: BTreeMap::new(),
            client: Client::default(),
            last_key: 0,
            sent: BTreeMap::new(),
            turn: None,
            after_cancel: false,
            cost,
            tells_cost: false,
            can_compact: false,
            unproven,
            late: Vec::new(),
        }
    }

    /// Where this agent departs from the protocol, as far as it is known by now.
    pub fn quirks(&self) -> &AgentQuirks {
        &self.quirks
    }

    fn send(&mut self, what: Sent, method: &str, params: &Value, out: &mut Vec<u8>) {
        let id = self.peer.request(out, method, params);
        self.sent.insert(id, what);
    }

    fn name(&self) -> &str {
        self.agent["agentInfo"]["name"].as_str().unwrap_or_default()
    }

    fn on_response(
        &mut self,
        id: u64,
        result: Result<Value, RpcError>,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        let Some(what) = self.sent.remove(&id) else {
            out.push(AgentEvent::Unknown { kind: "answer to nothing".to_owned() });
            return;
        };
        match (what, result) {
            (Sent::Initialize, Ok(agent)) => self.on_initialized(agent, reply, out),
            (Sent::Session, Ok(session)) => self.on_session(&session, reply, out),
            (Sent::Mode(mode), Ok(answer)) => self.on_mode(mode, &answer, reply, out),
            (Sent::FirstModel, Ok(_)) => self.on_ready(out),
            (Sent::Prompt, Ok(result)) => self.on_prompt_ended(&result, out),
            (Sent::Prompt, Err(error)) => self.on_prompt_failed(error, out),
            (Sent::Model, Ok(_)) => out.push(AgentEvent::ModelSet),
            (Sent::RestoreMode, Ok(_)) => {}
            (Sent::Initialize, Err(error)) => {
                let text = format!("it does not open: {}", error.words());
                self.refuse(ends::by_error(&error), text, out);
            }
            (Sent::Session, Err(error)) => {
                let end = match (self.open.opening.clone(), ends::by_error(&error)) {
                    (_, end @ AgentEnd::Model { .. }) => end,
                    (Opening::New, end) => end,
                    (Opening::Resume(_) | Opening::Fork(_), _) => AgentEnd::NoSession,
                };
                self.refuse(end, error.words(), out);
            }
            (Sent::Mode(mode), Err(error)) => {
                let text = format!("it could not be put into mode {mode:?}: {}", error.words());
                self.refuse(AgentEnd::Failed, text, out);
            }
            (Sent::FirstModel, Err(error)) => {
                let model = self.open.model.clone().unwrap_or_default();
                let text = format!("it does not take the model {model:?}: {}", error.words());
                self.refuse(AgentEnd::Failed, text, out);
            }
            (Sent::Model, Err(error)) => {
                let (order, reason) = (SET_MODEL.to_owned(), error.words());
                let failed = FailedOrder { order, reason, words: None };
                out.push(AgentEvent::OrderFailed(failed));
            }
            (Sent::RestoreMode, Err(error)) => {
                let text = format!("it went into another mode and stays there: {}", error.words());
                self.give_up(text, reply, out);
            }
        }
    }

    /// It cannot be used; whoever waits for it is told how it ended.
    fn refuse(&mut self, end: AgentEnd, why: String, out: &mut Vec<AgentEvent>) {
        self.phase = Phase::Refused(why.clone());
        let turn =
            AgentTurn { end, text: why, ordered: false, refused: 0, background: 0, queued: 0 };
        out.push(AgentEvent::TurnEnded(turn));
    }

    /// It must not go on: what it is doing is stopped, and it is not asked again.
    fn give_up(&mut self, why: String, reply: &mut Vec<u8>, out: &mut Vec<AgentEvent>) {
        if self.turn.is_none() {
            return self.refuse(AgentEnd::Failed, why, out);
        }
        self.peer.notify(reply, "session/cancel", &json!({ "sessionId": self.session }));
        out.extend(self.withdraw(reply));
        self.end_turn(AgentEnd::Failed, why.clone(), out);
        self.phase = Phase::Refused(why);
    }

    fn on_request(
        &mut self,
        id: Value,
        method: &str,
        params: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        if self.asks.values().any(|ask| ask.id == id) || self.client.has_request(&id) {
            // The answer to the first is the one answer that this id can have.
            out.push(AgentEvent::Unknown { kind: format!("{method} asked twice") });
            return;
        }
        let is_open = self.phase == Phase::Ready && self.asks.len() < MOST;
        self.last_key += 1;
        let key = format!("acp-{}", self.last_key);
        if is_open && method == "session/request_permission" {
            self.on_permission(key, id, params, out);
        } else if is_open && Client::knows(method) {
            self.replay = Replay::No;
            if let Some(turn) = &mut self.turn {
                turn.signs.tools = true;
                turn.refusal = None;
            }
            let asked = Asked { key, id, method, params };
            let mut out = Out { peer: &self.peer, reply, events: out };
            self.client.take(asked, self.open.offers, &self.open.folder, &mut out);
        } else {
            let message = format!("{method} is not served here");
            self.peer.refuse(reply, &id, METHOD_NOT_FOUND, &message);
            out.push(AgentEvent::Unknown { kind: method.to_owned() });
        }
    }

    /// Answers everything that the agent waits for with a no of its protocol.
    fn withdraw(&mut self, out: &mut Vec<u8>) -> Vec<AgentEvent> {
        let asks = std::mem::take(&mut self.asks);
        let mut events = Vec::new();
        for (key, ask) in asks {
            self.peer.answer(out, &ask.id, &json!({ "outcome": { "outcome": "cancelled" } }));
            events.push(AgentEvent::Withdrawn { key });
        }
        events.extend(self.client.withdraw(&self.peer, out));
        events
    }

    fn prompt(&mut self, text: &str, turn: Turn, out: &mut Vec<u8>) -> Result<(), String> {
        if self.turn.is_some() {
            return Err("the agent is in the middle of a turn; wait for its end".to_owned());
        }
        self.turn = Some(turn);
        let prompt = mention::blocks(text);
        let prompt = prompt.unwrap_or_else(|| json!([{ "type": "text", "text": text }]));
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        self.send(Sent::Prompt, "session/prompt", &params, out);
        Ok(())
    }

    fn on_answer(
        &mut self,
        key: &str,
        may: Result<Option<Value>, String>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if self.client.waits(key) {
            // A yes is followed by what it is for, and that is the answer.
            if let Err(why) = &may {
                self.client.refuse(key, why, &self.peer, out);
                if let Some(turn) = &mut self.turn {
                    turn.refused += 1;
                }
            }
            return Ok(());
        }
        let nobody = || format!("the agent does not wait for an answer to {key:?}");
        let ask = self.asks.get(key).ok_or_else(nobody)?;
        let selected = |option: &str| json!({ "outcome": "selected", "optionId": option });
        let outcome = match (&may, &ask.allow, &ask.reject) {
            (Ok(Some(_)), _, _) => {
                return Err("the agent cannot be given other parameters than it asked with".into());
            }
            (Ok(None), Some(allow), _) => selected(allow),
            // A yes for more than this call is nobody's to give, so there it is a no.
            (_, _, Some(reject)) => selected(reject),
            (_, _, None) => json!({ "outcome": "cancelled" }),
        };
        self.peer.answer(out, &ask.id, &json!({ "outcome": outcome }));
        let Some(ask) = self.asks.remove(key) else { return Ok(()) };
        let runs = may.is_ok() && ask.allow.is_some();
        if may.is_ok() && !runs {
            self.late.push(did_not_run(&ask.call));
        }
        if runs {
            self.client.agree(ask.agrees);
        } else if let Some(turn) = &mut self.turn {
            turn.refuse(may.as_ref().err().map_or(NOT_ALONE, String::as_str));
        }
        Ok(())
    }
}

/// Why a call does not run that may.
const NOT_ALONE: &str = "the agent offers no permission for this call alone";

/// The end of a call that may run and cannot be let run.
fn did_not_run(call: &Arc<str>) -> AgentEvent {
    let text = format!("it did not run: {NOT_ALONE}");
    AgentEvent::ToolEnded { id: Arc::clone(call), tool: String::new(), ok: false, text }
}

impl AgentCodec for AcpCodec {
    fn open(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let AcpOffers { read, write, terminal } = self.open.offers;
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": { "readTextFile": read, "writeTextFile": write },
                "terminal": terminal,
            },
            "clientInfo": {
                "name": "drivetrain",
                "title": "drivetrain",
                "version": self.open.version,
            },
        });
        self.send(Sent::Initialize, "initialize", &params, &mut out);
        out
    }

    fn read(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> Vec<AgentEvent> {
        let mut out = std::mem::take(&mut self.late);
        for line in self.peer.read(bytes) {
            match line {
                Ok(Incoming::Response { id, result }) => {
                    self.on_response(id, result, reply, &mut out);
                }
                Ok(Incoming::Request { id, method, params }) => {
                    self.on_request(id, &method, &params, reply, &mut out);
                }
                Ok(Incoming::Notification { method, params }) => {
                    self.on_notification(&method, &params, reply, &mut out);
                }
                Err(malformed) => out.push(malformed),
            }
        }
        out
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        let mut out = std::mem::take(&mut self.late);
        out.extend(self.peer.end());
        match &self.phase {
            Phase::Initializing | Phase::Opening => {
                let text = "the agent ended before it could be asked anything".to_owned();
                self.refuse(AgentEnd::Failed, text, &mut out);
            }
            Phase::Ready => {
                let text = "the agent ended in the middle of a turn".to_owned();
                self.end_turn(AgentEnd::Failed, text, &mut out);
            }
            Phase::Refused(_) => {}
        }
        out
    }

    fn served(
        &mut self,
        key: &str,
        done: Result<ClientDone, ClientFailure>,
    ) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        self.client.served(key, done, &self.peer, &mut out)?;
        Ok(out)
    }

    fn order(&mut self, order: AgentOrder) -> Result<Vec<u8>, String> {
        match &self.phase {
            Phase::Initializing | Phase::Opening => {
                return Err("the agent is not ready yet".to_owned());
            }
            Phase::Refused(why) => return Err(format!("the agent is not used: {why}")),
            Phase::Ready => {}
        }
        let mut out = Vec::new();
        match order {
            AgentOrder::Prompt { text } => {
                self.prompt(&no_command(text), Turn::default(), &mut out)?;
            }
            AgentOrder::Steer { .. } => {
                return Err("the protocol cannot say anything in the middle of a turn".to_owned());
            }
            AgentOrder::Answer { key, may } => self.on_answer(&key, may, &mut out)?,
            AgentOrder::ToolResult { .. } => {
                return Err("the agent is offered no tools".to_owned());
            }
            AgentOrder::MayStop { .. } => {
                return Err("the agent does not ask before it stops".to_owned());
            }
            AgentOrder::Interrupt => {
                let turn = self.turn.as_mut();
                turn.ok_or("the agent has no turn that could be stopped")?.is_cancelled = true;
                let params = json!({ "sessionId": self.session });
                self.peer.notify(&mut out, "session/cancel", &params);
                let withdrawn = self.withdraw(&mut out);
                self.late.extend(withdrawn);
            }
            AgentOrder::SetModel { model } => {
                let (method, params) = self.set_model(&model)?;
                self.answer.model = model;
                self.send(Sent::Model, method, &params, &mut out);
            }
            AgentOrder::Compact { focus } => {
                if !self.can_compact {
                    return Err(
                        "the agent has no command that makes its conversation shorter".into()
                    );
                }
                let text = format!("/compact {focus}");
                let turn = Turn { compacts: true, ..Turn::default() };
                self.prompt(text.trim_end(), turn, &mut out)?;
            }
        }
        Ok(out)
    }
}

/// A text that begins with a slash is a command to most agents themselves, to some behind white space too: they would
/// carry that out, and say that they are done.
fn no_command(text: String) -> String {
    let words = text.trim_start();
    if words.starts_with('/') { format!("The task: {words}") } else { text }
}
