//! Codex over `codex app-server`: JSON-RPC on the pipe, one object a line, without the field `jsonrpc`. A conversation
//! is a thread, a turn has an id, everything the agent does is an item that starts and completes.
//!
//! What is known from the program itself and decides much here:
//! - approval policy, reviewer and sandbox are said when a thread is opened, and the answer says what is in force. One
//!   that differs is refused: nothing is sent to that thread;
//! - a patch's question does not hold the patch: it is in the item that started before;
//! - token counters are totals of the whole thread, those of earlier processes included. A thread that is resumed tells
//!   its old total before its first turn; only what is added counts;
//! - a no to a question has no room for its reason. That is said in the turn first, and the no once that was taken, or
//!   the model might hear of the no alone and of the reason when it has said its last word;
//! - threads of helpers speak on the same pipe. Their turns are not ours, their questions and their costs are.

mod asks;
mod errors;
pub mod setup;
mod turn;

pub(super) use asks::{join, script_of};
pub(super) use errors::{end_of, model, of_status, word_of};

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::agent::{
    AgentAbilities, AgentEnd, AgentEvent, AgentFacts, AgentOrder, AgentRequest, AgentTurn,
    FailedOrder, GateDepth, PausePoint,
};
use serde_json::{Value, json};

use super::AgentCodec;
use super::answer::Answer;
use super::opening::Opening;
use super::peer::{Form, Peer};
use super::place::Place;
use super::table;
use crate::jsonrpc::{Incoming, METHOD_NOT_FOUND, RpcError};
use turn::Turns;

/// More questions than this at once are refused unseen.
const MOST_ASKS: usize = 256;

/// When Codex asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// Before everything but commands that it knows only to read.
    Untrusted,
    /// When it wants more than its sandbox allows.
    OnRequest,
    /// Never: only walls hold it.
    Never,
}

/// What Codex's own sandbox lets commands do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodexSandbox {
    /// Read.
    ReadOnly,
    /// Write in the working folder.
    WorkspaceWrite,
    /// Everything; for when the walls around it are ours.
    FullAccess,
}

/// How a conversation is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexOpen {
    /// The version of whoever drives it; Codex tells its server.
    pub version: String,
    /// The folder in which it works.
    pub folder: String,
    /// Which conversation.
    pub opening: Opening,
    /// The model; as configured if absent.
    pub model: Option<String>,
    /// When it asks.
    pub approval: Approval,
    /// What its own sandbox allows.
    pub sandbox: CodexSandbox,
}

/// One process of `codex app-server` with one thread.
#[derive(Debug)]
pub struct CodexCodec {
    open: CodexOpen,
    place: Place,
    peer: Peer,
    phase: Phase,
    version: String,
    thread: String,
    turns: Turns,
    answer: Answer,
    /// What was asked and not answered, by key.
    asks: BTreeMap<String, Ask>,
    last_key: u64,
    /// Orders that wait for the agent's answer, by the id of the request.
    sent: BTreeMap<u64, Sent>,
    /// The model of the next turn.
    next_model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Initializing,
    OpeningThread,
    Ready,
    /// It must not be asked anything; why.
    Refused(String),
}

#[derive(Debug)]
struct Ask {
    id: Value,
    form: Waiting,
}

#[derive(Debug)]
enum Waiting {
    /// A yes or no in this form; and what was asked about, if its turn can be told the reason.
    Approval(asks::Form, Option<String>),
    /// A call of a tool that we offer.
    Result,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    Initialize,
    Thread,
    Turn,
    Compact,
    /// With these words.
    Steer(String),
    /// With the reason for a refusal, which follows: the answer to this request.
    Reason(Value, Value),
    Interrupt,
    /// Nobody waits for its answer any more.
    Late,
}

impl Sent {
    /// Whether the request with this id is refused once it was answered.
    fn refuses(&self, id: &Value) -> bool {
        matches!(self, Sent::Reason(of, _) if of == id)
    }
}

impl CodexCodec {
    /// A codec for a process that was just started.
    pub fn new(open: CodexOpen) -> CodexCodec {
        let is_new = open.opening == Opening::New;
        CodexCodec {
            place: Place::new(&open.folder),
            open,
            peer: Peer::new(Form::Bare),
            phase: Phase::Initializing,
            version: String::new(),
            thread: String::new(),
            turns: Turns::new(is_new),
            answer: Answer::default(),
            asks: BTreeMap::new(),
            last_key: 0,
            sent: BTreeMap::new(),
            next_model: None,
        }
    }

    fn send(&mut self, what: Sent, method: &str, params: &Value, out: &mut Vec<u8>) {
        let id = self.peer.request(out, method, params);
        self.sent.insert(id, what);
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
            (Sent::Initialize, Ok(hello)) => self.on_initialized(&hello, reply),
            (Sent::Thread, Ok(thread)) => self.on_thread(&thread, out),
            (Sent::Initialize, Err(error)) => {
                self.refuse(AgentEnd::Failed, format!("it does not open: {}", error.message), out);
            }
            (Sent::Thread, Err(error)) => {
                let end = match self.open.opening {
                    Opening::New => AgentEnd::Failed,
                    Opening::Resume(_) | Opening::Fork(_) => AgentEnd::NoSession,
                };
                self.refuse(end, error.message, out);
            }
            (Sent::Turn, Ok(answer)) => {
                if let Some(turn) = answer["turn"]["id"].as_str()
                    && self.turns.named(turn)
                {
                    self.interrupt(reply);
                }
            }
            (Sent::Turn | Sent::Compact, Err(error)) => {
                let text = error.message;
                if self.turns.is_under_way() {
                    self.end_turn(AgentEnd::Failed, text, out);
                }
            }
            (Sent::Steer(words), Err(error)) => {
                out.push(failed("steer", error.message, Some(words)));
            }
            (Sent::Interrupt, Err(error)) => out.push(failed("interrupt", error.message, None)),
            // Without the reason, if it was not taken.
            (Sent::Reason(id, answer), _) => self.peer.answer(reply, &id, &answer),
            (Sent::Compact | Sent::Steer(_) | Sent::Interrupt, Ok(_)) | (Sent::Late, _) => {}
        }
    }

    fn on_initialized(&mut self, hello: &Value, reply: &mut Vec<u8>) {
        // `NAME/0.166.0 (SYSTEM) …`, where NAME is what we said of ourselves.
        let agent = hello["userAgent"].as_str().unwrap_or_default();
        let after = agent.split_once('/').map_or(agent, |(_, after)| after);
        self.version = after.split(' ').next().unwrap_or_default().to_owned();
        self.peer.notify(reply, "initialized", &Value::Null);
        let CodexOpen { folder, model, approval, sandbox, .. } = &self.open;
        let (search, none) = setup::NO_SEARCH;
        let mut params = json!({
            "cwd": folder,
            "approvalPolicy": approval.word(),
            "approvalsReviewer": "user",
            "sandbox": sandbox.word(),
            "config": { search: none },
        });
        if let Some(model) = model {
            params["model"] = json!(model);
        }
        let method = match &self.open.opening {
            Opening::New => "thread/start",
            Opening::Resume(id) | Opening::Fork(id) => {
                params["threadId"] = json!(id);
                params["excludeTurns"] = json!(true);
                if matches!(self.open.opening, Opening::Fork(_)) {
                    "thread/fork"
                } else {
                    "thread/resume"
                }
            }
        };
        self.phase = Phase::OpeningThread;
        self.send(Sent::Thread, method, &params, reply);
    }

    fn on_thread(&mut self, opened: &Value, out: &mut Vec<AgentEvent>) {
        let Some(id) = opened["thread"]["id"].as_str() else {
            let text = "it opened a conversation without an id".to_owned();
            return self.refuse(AgentEnd::Failed, text, out);
        };
        if let Err(why) = self.check(opened) {
            return self.refuse(AgentEnd::Failed, why, out);
        }
        self.place.hear(&opened["cwd"]);
        self.thread = id.to_owned();
        self.turns.thread = self.thread.clone();
        self.answer.model = opened["model"].as_str().unwrap_or_default().to_owned();
        if let Some(version) = opened["thread"]["cliVersion"].as_str()
            && self.version.is_empty()
        {
            self.version = version.to_owned();
        }
        self.phase = Phase::Ready;
        out.push(AgentEvent::Ready(self.facts()));
        out.push(AgentEvent::Session { id: id.to_owned() });
    }

    /// What is in force must be what was asked for: a setting that is silently another would open the gate.
    fn check(&self, opened: &Value) -> Result<(), String> {
        let CodexOpen { approval, sandbox, .. } = &self.open;
        let checks = [
            ("approval policy", &opened["approvalPolicy"], approval.word()),
            ("reviewer of approvals", &opened["approvalsReviewer"], "user"),
            ("sandbox", &opened["sandbox"]["type"], sandbox.reported()),
        ];
        for (what, is, wanted) in checks {
            if is.as_str() != Some(wanted) {
                return Err(format!(
                    "its {what} is {is} although {wanted:?} was asked for; it is not used like this"
                ));
            }
        }
        let network = &opened["sandbox"]["networkAccess"];
        if *sandbox != CodexSandbox::FullAccess && network.as_bool() == Some(true) {
            return Err(
                "its sandbox lets commands reach the network, which nobody asked for".into()
            );
        }
        Ok(())
    }

    fn facts(&self) -> AgentFacts {
        let release = table::CODEX.release(&self.version);
        let gate = match self.open.approval {
            Approval::Untrusted => GateDepth::Ask,
            Approval::OnRequest | Approval::Never => GateDepth::Sandbox,
        };
        let can = AgentAbilities { gate, pause: PausePoint::at(gate), ..release.can };
        AgentFacts {
            support: table::CODEX.support(&self.version),
            version: self.version.clone(),
            can,
            modes: vec![format!("{}/{}", self.open.approval.word(), self.open.sandbox.word())],
            limits: release.limits.iter().map(|limit| (*limit).to_owned()).collect(),
            remarks: table::CODEX.warning(&self.version).into_iter().collect(),
            refusal: table::CODEX.refusal(&self.version),
        }
    }

    /// It cannot be used; whoever waits for it is told how it ended.
    fn refuse(&mut self, end: AgentEnd, why: String, out: &mut Vec<AgentEvent>) {
        self.phase = Phase::Refused(why.clone());
        let turn =
            AgentTurn { end, text: why, ordered: false, refused: 0, background: 0, queued: 0 };
        out.push(AgentEvent::TurnEnded(turn));
    }

    fn on_request(
        &mut self,
        id: Value,
        method: &str,
        params: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        if self.asks.values().any(|ask| ask.id == id)
            || self.sent.values().any(|sent| sent.refuses(&id))
        {
            // The answer to the first is the one answer that this id can have.
            out.push(AgentEvent::Unknown { kind: format!("{method} asked twice") });
            return;
        }
        if self.asks.len() >= MOST_ASKS {
            self.peer.refuse(reply, &id, METHOD_NOT_FOUND, "too many questions at once");
            out.push(AgentEvent::Unknown { kind: format!("{method}, one too many") });
            return;
        }
        self.last_key += 1;
        let key = format!("codex-{}", self.last_key);
        if method == "item/tool/call" {
            let tool = params["tool"].as_str().unwrap_or_default().to_owned();
            let input = Arc::new(params["arguments"].clone());
            self.asks.insert(key.clone(), Ask { id, form: Waiting::Result });
            let call = params["callId"].as_str().unwrap_or_default().into();
            out.push(AgentEvent::Calls(AgentRequest { key, id: call, tool, input }));
            return;
        }
        let changes = params["itemId"].as_str().and_then(|item| self.turns.changes(item));
        if let Some((mut ask, form)) =
            asks::read(method, params, key.clone(), changes, &self.open.folder, &self.place)
        {
            let thread = params["threadId"].as_str().unwrap_or(&self.thread);
            if thread != self.thread {
                ask.helper = Some(Arc::from(thread));
            }
            let subject = ask.helper.is_none().then(|| asks::subject(&ask));
            self.asks.insert(key, Ask { id, form: Waiting::Approval(form, subject) });
            out.push(AgentEvent::Asks(ask));
            return;
        }
        // Questions to a person and forms of MCP servers find nobody; a no is safe for each of them.
        let message = format!("nobody answers {method} here");
        self.peer.refuse(reply, &id, METHOD_NOT_FOUND, &message);
        out.push(AgentEvent::Unknown { kind: method.to_owned() });
    }

    fn on_notification(&mut self, method: &str, params: &Value, out: &mut Vec<AgentEvent>) {
        let is_ours = params["threadId"].as_str().is_none_or(|thread| thread == self.thread);
        match method {
            "thread/tokenUsage/updated" => self.turns.on_usage(params, out),
            "serverRequest/resolved" => {
                for sent in self.sent.values_mut().filter(|sent| sent.refuses(&params["requestId"]))
                {
                    *sent = Sent::Late;
                }
                let asked = |ask: &Ask| ask.id == params["requestId"];
                let key = self.asks.iter().find(|(_, ask)| asked(ask)).map(|(key, _)| key.clone());
                if let Some(key) = key {
                    self.asks.remove(&key);
                    out.push(AgentEvent::Withdrawn { key });
                }
            }
            _ if !is_ours => {}
            "turn/started" => {
                if let Some(id) = params["turn"]["id"].as_str()
                    && self.turns.began(id)
                {
                    out.push(AgentEvent::TurnBegan);
                }
            }
            "turn/completed" => self.on_turn_completed(&params["turn"], out),
            "error" => {
                let error = &params["error"];
                let message = error["message"].as_str().unwrap_or_default();
                let kind = errors::word_of(error);
                self.answer.fail(&kind, message, out);
                if params["willRetry"].as_bool() == Some(true) {
                    out.push(AgentEvent::Retries { kind, again_in: None });
                }
            }
            _ => {
                if !self.turns.on_item(method, params, &mut self.answer, out) {
                    out.push(AgentEvent::Unknown { kind: method.to_owned() });
                }
            }
        }
    }

    fn on_turn_completed(&mut self, turn: &Value, out: &mut Vec<AgentEvent>) {
        let id = turn["id"].as_str().unwrap_or_default();
        if !self.turns.is_current(id) {
            out.push(AgentEvent::Unknown { kind: "end of another turn".to_owned() });
            return;
        }
        let error = &turn["error"];
        let (end, text) = match turn["status"].as_str() {
            Some("completed") => (AgentEnd::Done, String::new()),
            Some("interrupted") => (AgentEnd::Interrupted, String::new()),
            Some("failed") => {
                (errors::end_of(error), error["message"].as_str().unwrap_or_default().to_owned())
            }
            other => {
                (AgentEnd::Failed, format!("it ended a turn as {other:?}, which nobody knows"))
            }
        };
        self.end_turn(end, text, out);
    }

    fn end_turn(&mut self, end: AgentEnd, text: String, out: &mut Vec<AgentEvent>) {
        let words = self.answer.take_words();
        let text = if text.is_empty() { words } else { text };
        match &end {
            AgentEnd::Done => self.answer.close(out),
            AgentEnd::Interrupted => self.answer.interrupt(out),
            _ => self.answer.fail("failed", &text, out),
        }
        for (key, _) in std::mem::take(&mut self.asks) {
            out.push(AgentEvent::Withdrawn { key });
        }
        self.fail_steers("its turn ended before it took this", out);
        let (ordered, refused) = self.turns.end();
        let turn = AgentTurn { end, text, ordered, refused, background: 0, queued: 0 };
        out.push(AgentEvent::TurnEnded(turn));
    }

    /// Words that the turn has not taken, it never will: it says so before its end, or not at all.
    fn fail_steers(&mut self, why: &str, out: &mut Vec<AgentEvent>) {
        for sent in self.sent.values_mut() {
            // The answer may come all the same, and means nothing then.
            match std::mem::replace(sent, Sent::Late) {
                Sent::Steer(words) => out.push(failed("steer", why.to_owned(), Some(words))),
                Sent::Reason(..) => {}
                other => *sent = other,
            }
        }
    }

    fn interrupt(&mut self, out: &mut Vec<u8>) {
        if let Some(turn) = self.turns.id() {
            let params = json!({ "threadId": self.thread, "turnId": turn });
            self.send(Sent::Interrupt, "turn/interrupt", &params, out);
        }
    }

    /// Says something in this turn, which its model hears with the next thing that it is asked.
    fn steer(&mut self, what: Sent, turn: &str, words: &str, out: &mut Vec<u8>) {
        let params = json!({
            "threadId": self.thread,
            "expectedTurnId": turn,
            "input": text_input(words),
        });
        self.send(what, "turn/steer", &params, out);
    }

    fn take(&mut self, key: &str) -> Result<Ask, String> {
        self.asks.remove(key).ok_or_else(|| format!("codex does not wait for an answer to {key:?}"))
    }
}

impl AgentCodec for CodexCodec {
    fn open(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let info = json!({
            "name": "drivetrain",
            "title": "drivetrain",
            "version": self.open.version,
        });
        self.send(Sent::Initialize, "initialize", &json!({ "clientInfo": info }), &mut out);
        out
    }

    fn read(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> Vec<AgentEvent> {
        let mut out = Vec::new();
        for line in self.peer.read(bytes) {
            match line {
                Ok(Incoming::Response { id, result }) => {
                    self.on_response(id, result, reply, &mut out);
                }
                Ok(Incoming::Request { id, method, params }) => {
                    self.on_request(id, &method, &params, reply, &mut out);
                }
                Ok(Incoming::Notification { method, params }) => {
                    self.on_notification(&method, &params, &mut out);
                }
                Err(malformed) => out.push(malformed),
            }
        }
        out
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        let mut out: Vec<AgentEvent> = self.peer.end().into_iter().collect();
        match &self.phase {
            Phase::Initializing | Phase::OpeningThread => {
                let text = "codex ended before it could be asked anything".to_owned();
                self.refuse(AgentEnd::Failed, text, &mut out);
            }
            Phase::Ready if self.turns.is_under_way() => {
                let text = "codex ended in the middle of a turn".to_owned();
                self.end_turn(AgentEnd::Failed, text, &mut out);
            }
            Phase::Ready | Phase::Refused(_) => {}
        }
        out
    }

    fn order(&mut self, order: AgentOrder) -> Result<Vec<u8>, String> {
        match &self.phase {
            Phase::Initializing | Phase::OpeningThread => {
                return Err("codex is not ready yet".to_owned());
            }
            Phase::Refused(why) => return Err(format!("codex is not used: {why}")),
            Phase::Ready => {}
        }
        let mut out = Vec::new();
        match order {
            AgentOrder::Prompt { text } => {
                self.turns.order()?;
                let mut params = json!({ "threadId": self.thread, "input": text_input(&text) });
                if let Some(model) = self.next_model.take() {
                    self.answer.model.clone_from(&model);
                    params["model"] = json!(model);
                }
                self.send(Sent::Turn, "turn/start", &params, &mut out);
            }
            AgentOrder::Steer { text } => {
                let turn = self.turns.id().ok_or("codex has no turn that could be steered")?;
                self.steer(Sent::Steer(text.clone()), &turn, &text, &mut out);
            }
            AgentOrder::Answer { may: Ok(Some(_)), .. } => {
                return Err("codex cannot be given other parameters than it asked with".to_owned());
            }
            AgentOrder::Answer { key, may } => {
                let ask = self.take(&key)?;
                let Waiting::Approval(form, subject) = &ask.form else {
                    self.asks.insert(key, ask);
                    return Err("codex waits for a result, not for a yes or no".to_owned());
                };
                let refusal = may.err();
                self.turns.refused(refusal.is_some());
                let answer = asks::answer(form, refusal.as_deref());
                match (refusal, subject, self.turns.id()) {
                    (Some(reason), Some(subject), Some(turn)) if *form != asks::Form::Review => {
                        let words = format!("drivetrain refused {subject}: {reason}");
                        let no = Sent::Reason(ask.id, answer);
                        self.steer(no, &turn, &words, &mut out);
                    }
                    _ => self.peer.answer(&mut out, &ask.id, &answer),
                }
            }
            AgentOrder::ToolResult { key, result } => {
                let ask = self.take(&key)?;
                if !matches!(ask.form, Waiting::Result) {
                    self.asks.insert(key, ask);
                    return Err("codex waits for a yes or no, not for a result".to_owned());
                }
                let success = result.is_ok();
                let text = result.unwrap_or_else(|error| error);
                let content = json!([{ "type": "inputText", "text": text }]);
                let answer = json!({ "contentItems": content, "success": success });
                self.peer.answer(&mut out, &ask.id, &answer);
            }
            AgentOrder::MayStop { .. } => {
                return Err("codex does not ask before it stops".to_owned());
            }
            AgentOrder::Interrupt => {
                if self.turns.wants_interrupt()? {
                    self.interrupt(&mut out);
                }
            }
            AgentOrder::SetModel { model } => self.next_model = Some(model),
            AgentOrder::Compact { focus } if focus.is_empty() => {
                self.turns.order()?;
                let params = json!({ "threadId": self.thread });
                self.send(Sent::Compact, "thread/compact/start", &params, &mut out);
            }
            AgentOrder::Compact { .. } => {
                return Err("codex cannot be told what its summary is to keep; \
                            compact without a focus"
                    .to_owned());
            }
        }
        Ok(out)
    }
}

fn text_input(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

fn failed(order: &str, reason: String, words: Option<String>) -> AgentEvent {
    AgentEvent::OrderFailed(FailedOrder { order: order.to_owned(), reason, words })
}

impl Approval {
    /// As Codex says it.
    pub fn word(self) -> &'static str {
        match self {
            Approval::Untrusted => "untrusted",
            Approval::OnRequest => "on-request",
            Approval::Never => "never",
        }
    }
}

impl CodexSandbox {
    /// As Codex is told.
    pub fn word(self) -> &'static str {
        match self {
            CodexSandbox::ReadOnly => "read-only",
            CodexSandbox::WorkspaceWrite => "workspace-write",
            CodexSandbox::FullAccess => "danger-full-access",
        }
    }

    /// As Codex says back.
    fn reported(self) -> &'static str {
        match self {
            CodexSandbox::ReadOnly => "readOnly",
            CodexSandbox::WorkspaceWrite => "workspaceWrite",
            CodexSandbox::FullAccess => "dangerFullAccess",
        }
    }
}
