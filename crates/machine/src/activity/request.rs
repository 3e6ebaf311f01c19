//! Calls that a worker asks for while it decides outside: a plugin through the gate socket, an agent through its own pipe.
//! Each is journaled, judged and run as any other call of a worker; its one result goes back as an answer.
//!
//! A key stands for one call: asked again it gives the same answer, and with another call it is refused. Nobody
//! answers for a worker that is gone: what it asked for and had not begun does not begin any more.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{AgentOrder, AgentRequest, offer};
use crate::driver::{Action, Consultation};
use crate::effect::Effect;
use crate::event::EventKind;
use crate::id::{CallId, EffectId};
use crate::input::Withdrawal;
use crate::policy::permission::Author;
use crate::state::{AgentSide, Call, CallStatus, Pending, Phase};
use crate::step::Step;
use crate::tool::{EffectClass, Status, ToolResult};

/// Keys that a task remembers. A key that is older than this many later ones is forgotten.
const MOST_KEYS: usize = 1024;

/// Answers that a task keeps whole, to be given again.
const MOST_ANSWERS: usize = 32;

/// Requests of a task that may be open at once.
const MOST_OPEN: usize = 64;

/// The keys that workers used, oldest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Requests(VecDeque<Request>);

/// One key and what it stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Request {
    key: String,
    /// Of tool and parameters.
    digest: u64,
    #[serde(default, skip_serializing_if = "Given::is_gone")]
    answer: Given,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Given {
    /// Its call is under way.
    Open,
    /// It was answered so.
    Answer(ToolResult),
    /// It was answered, and the answer is kept no longer.
    #[default]
    Gone,
}

impl Given {
    fn is_gone(&self) -> bool {
        *self == Given::Gone
    }
}

impl Requests {
    /// Whether no key was ever used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&mut self, key: &str) -> Option<&mut Request> {
        self.0.iter_mut().rev().find(|request| request.key == key)
    }

    fn add(&mut self, key: String, digest: u64) {
        self.0.push_back(Request { key, digest, answer: Given::Open });
        while self.0.len() > MOST_KEYS {
            self.0.pop_front();
        }
    }

    fn settle(&mut self, key: &str, answer: Given) {
        if let Some(request) = self.find(key) {
            request.answer = answer;
        }
        let kept = self.0.iter_mut().rev().filter(|r| matches!(r.answer, Given::Answer(_)));
        kept.skip(MOST_ANSWERS).for_each(|request| request.answer = Given::Gone);
    }
}

/// Where a call that a worker asks for belongs.
struct Place {
    path: Vec<u32>,
    label: String,
}

impl Step<'_> {
    pub(crate) fn on_requested(&mut self, key: String, tool: String, input: Arc<Value>) {
        self.take_request(key, None, tool, input);
    }

    /// An agent calls a tool that it is offered, in the middle of its turn.
    pub(crate) fn on_agent_calls(&mut self, turn: EffectId, request: AgentRequest) {
        let AgentRequest { key, id, tool, input } = request;
        let side = AgentSide { key, id: id.to_string(), turn };
        self.take_request(agent_key(turn, &side.key), Some(side), tool, input);
    }

    fn take_request(
        &mut self,
        key: String,
        asker: Option<AgentSide>,
        tool: String,
        input: Arc<Value>,
    ) {
        let digest = digest(&tool, &input);
        if let Some(known) = self.state.data.requests.find(&key) {
            let answer = match &known.answer {
                _ if known.digest != digest => Err(format!(
                    "the key {key:?} was used for another call: use a new key for each call"
                )),
                // Its one answer goes to everybody who asked with this key.
                Given::Open => return,
                Given::Answer(result) => Ok(result.clone()),
                Given::Gone => Err(format!(
                    "the call of the key {key:?} was answered before, and the answer is kept no longer"
                )),
            };
            return self.answer(key, digest, asker, answer);
        }
        let place = match self.worker_at_work(asker.as_ref(), &tool) {
            Ok(place) => place,
            Err(reason) => {
                self.event(|| EventKind::Rejected { reason: reason.clone() });
                return self.answer(key, digest, asker, Err(reason));
            }
        };
        let class = self.class_of(&tool);
        let data = &mut self.state.data;
        data.last_call += 1;
        data.calls.push(Call {
            id: CallId(data.last_call),
            action: Action {
                tool,
                input,
                label: place.label,
                tool_use: asker.as_ref().map(|side| side.id.clone()).unwrap_or_default(),
                path: place.path,
                author: Author::Worker,
                timeout: None,
            },
            class,
            status: CallStatus::Queued { approved: false, repeated: false, by: String::new() },
            delivered: false,
            began: None,
            request: Some(key.clone()),
            asker,
            agent: None,
        });
        data.requests.add(key, digest);
    }

    /// The worker wants no answer any more. A call that runs is stopped if that was asked for; if the worker is only
    /// gone, it may end, and its result is kept for whoever asks again.
    pub(crate) fn on_withdrawn(&mut self, key: &str, how: Withdrawal) {
        let mine = |call: &Call| call.request.as_deref() == Some(key);
        let (why, stops) = match how {
            Withdrawal::Cancelled => ("the worker took its request back", true),
            Withdrawal::Gone => ("whoever asked for it is gone", false),
        };
        self.end_requests(why, |call| {
            mine(call) && (stops || !matches!(call.status, CallStatus::Running { .. }))
        });
    }

    /// Where the call of a worker belongs that decides outside at this moment; the error says why it may not ask for one.
    fn worker_at_work(&self, asker: Option<&AgentSide>, tool: &str) -> Result<Place, String> {
        let data = &self.state.data;
        if self.is_finished() {
            return Err(self.ended());
        }
        match &data.attachment {
            None => return Err("no process drives the task".to_owned()),
            Some(by) if by.draining => {
                return Err("the process is about to let go of the task".to_owned());
            }
            Some(_) => {}
        }
        let is_under_way = match asker {
            Some(side) => data.pending.get(&side.turn) == Some(&Pending::Agent),
            None => data.pending.values().any(|pending| *pending == Pending::Consult),
        };
        let place = match (&data.phase, asker) {
            _ if !is_under_way => None,
            (Phase::Consulting { request: Consultation::Plugin(question) }, None) => {
                let path = Vec::deserialize(&question["path"]).unwrap_or_default();
                Some(Place { path, label: String::new() })
            }
            (Phase::Consulting { request: Consultation::Agent(call) }, Some(_)) => {
                let offered = offer::to(&call.program, &data.spec.policy.charter, &data.tools);
                if !offered.iter().any(|offer| offer.tool == tool) {
                    return Err(format!("the tool {tool:?} is not offered to the agent"));
                }
                let label = format!("{} {tool}", call.program.name);
                Some(Place { path: call.path.clone(), label })
            }
            _ => None,
        };
        let Some(place) = place else {
            return Err(
                "the driver is not at work: tools are there only while it decides".to_owned()
            );
        };
        if data.calls.iter().filter(|call| call.request.is_some()).count() >= MOST_OPEN {
            return Err(format!("{MOST_OPEN} calls are under way already: wait for one to end"));
        }
        Ok(place)
    }

    /// Starts what was asked for and may be. While nobody is consulted, calls whose end a crash hid hold the driver
    /// up; once a person has said what became of them it is told and decides anew. True if there is more to do at
    /// once.
    pub(crate) fn attend_requests(&mut self) -> bool {
        self.start_calls();
        let data = &self.state.data;
        // A limit that a refusal or a failure has just reached is seen before anything else begins.
        let reached = !self.reached().is_empty();
        if reached || !matches!(data.phase, Phase::Consulting { .. }) {
            return true;
        }
        let asks = |p: &Pending| {
            matches!(p, Pending::Consult | Pending::Model | Pending::Agent | Pending::Retry)
        };
        if data.calls.is_empty() || data.retry_at.is_some() || data.pending.values().any(asks) {
            self.ask_agent_that_waits();
            self.ask_again();
            return false;
        }
        if !self.end_left_over() {
            return false;
        }
        self.state.data.phase = Phase::Ready;
        true
    }

    /// The driver's work outside is over: whatever it asked for, or asked about, and has not ended is stopped or skipped.
    pub(crate) fn close_requests(&mut self, why: &str) {
        self.end_requests(why, |call| call.request.is_some());
        self.close_agent_calls(why);
    }

    /// Nobody performs the effects any more and whoever asked is gone. An unsafe call that ran is in doubt, as any;
    /// nobody waits for its answer.
    pub(crate) fn lose_requests(&mut self) {
        let mut lost = Vec::new();
        for call in &mut self.state.data.calls {
            let running = matches!(call.status, CallStatus::Running { .. });
            if running && call.class == EffectClass::Unsafe {
                lost.extend(call.request.take());
                call.asker = None;
            }
        }
        for key in lost {
            self.state.data.requests.settle(&key, Given::Gone);
        }
        self.close_agent_calls("the agent that ran it is gone");
        self.close_requests("the process that ran it is gone");
    }

    fn end_requests(&mut self, why: &str, which: impl Fn(&Call) -> bool) {
        self.end_calls(Status::Aborted, why, |call| {
            which(call) && matches!(call.status, CallStatus::Running { .. })
        });
        self.end_calls(Status::Skipped, why, |call| {
            which(call) && !matches!(call.status, CallStatus::Done(_))
        });
    }

    /// A call has its result: whoever asked for it is answered, and the call is no longer part of the turn.
    pub(crate) fn settle_request(&mut self, id: CallId) {
        let calls = &mut self.state.data.calls;
        let asked = |call: &Call| call.id == id && call.request.is_some();
        let Some(index) = calls.iter().position(asked) else { return };
        let call = calls.remove(index);
        if let (Some(key), CallStatus::Done(result)) = (call.request, call.status) {
            let digest = digest(&call.action.tool, &call.action.input);
            self.state.data.requests.settle(&key, Given::Answer(result.clone()));
            self.answer(key, digest, call.asker, Ok(result));
        }
    }

    fn answer(
        &mut self,
        key: String,
        digest: u64,
        asker: Option<AgentSide>,
        answer: Result<ToolResult, String>,
    ) {
        if let Some(side) = asker {
            let order = AgentOrder::ToolResult { key: side.key, result: told(answer) };
            return self.tell_agent(side.turn, order);
        }
        self.state.data.last_effect += 1;
        let id = EffectId(self.state.data.last_effect);
        self.output.effects.push(Effect::AnswerRequest { id, key, digest, answer });
    }
}

/// What a key of an agent is remembered by: a later process of it may count from the beginning again.
pub(crate) fn agent_key(turn: EffectId, key: &str) -> String {
    format!("agent {} {key}", turn.0)
}

/// A call's answer, as an agent is told it.
fn told(answer: Result<ToolResult, String>) -> Result<String, String> {
    let result = answer?;
    match result.status {
        Status::Ok => Ok(result.text),
        status if result.text.is_empty() => Err(status.word().to_owned()),
        _ => Err(result.text),
    }
}

/// Tells one call from another under the same key. FNV-1a, stable across runs and platforms; nothing is kept safe by
/// it, since a worker that makes two calls meet only gets the first one's answer twice.
pub fn digest(tool: &str, input: &Value) -> u64 {
    let text = input.to_string();
    let bytes = tool.bytes().chain([0]).chain(text.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
