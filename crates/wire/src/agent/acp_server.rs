//! The other side of the Agent Client Protocol: drivetrain as the agent of an editor. Requests of the editor become
//! events, what a task does becomes updates. No process and no clock; who runs the tasks is the runtime's business.
//!
//! A session is a task's conversation. A prompt is answered when its turn has ended; one that comes while another is
//! under way is refused. A cancelled prompt ends as `cancelled`, however
//! the task says that it ended.

use std::collections::BTreeMap;

use machine::agent::AgentEvent;
use serde_json::{Value, json};

use super::peer::{Form, Peer};
use crate::gate::early_id;
use crate::jsonrpc::{Incoming, METHOD_NOT_FOUND};

/// JSON-RPC's codes for what is no JSON, no message, and for parameters that cannot be used.
const NO_JSON: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const INVALID_PARAMS: i64 = -32602;

/// JSON-RPC's code for something that went wrong on this side.
const INTERNAL_ERROR: i64 = -32603;

/// ACP's code for something that is not there.
const NOT_FOUND: i64 = -32002;

/// The one mode there is: a task's policy decides what is asked about, not the editor.
const MODE: &str = "default";

/// What an editor wants. Exhaustive on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorEvent {
    /// A session in this folder; answer with [`EditorOrder::Opened`] or [`EditorOrder::NotOpened`].
    Open {
        /// What the answer is given with.
        key: String,
        /// The folder, absolute.
        folder: String,
    },
    /// A session of another process; what was said in it is told by updates before it is answered.
    Load {
        /// What the answer is given with.
        key: String,
        /// The session.
        session: String,
        /// The folder, absolute.
        folder: String,
    },
    /// A turn; ends with [`EditorOrder::Ended`].
    Prompt {
        /// The session.
        session: String,
        /// What its end is told with: another prompt may have come by then.
        key: String,
        /// What is asked. Files that the editor names stand in it as their addresses.
        text: String,
    },
    /// The turn is not wanted any more. What ends of it has to be told before its own end is.
    Cancel {
        /// The session.
        session: String,
    },
    /// A question was answered; no answer is a no.
    Answered {
        /// What it was asked with.
        key: String,
        /// Whether the call may run.
        may: bool,
        /// Whether that holds for calls like it in this session too.
        always: bool,
    },
    /// A line could not be understood, or nobody serves what it asks.
    Strange {
        /// What is wrong.
        reason: String,
    },
}

/// What a line that could not be understood is like, in a person's words.
fn what_is_wrong(line: &AgentEvent) -> String {
    match line {
        AgentEvent::Malformed { reason, line } => format!("{reason}: {line}"),
        other => format!("{other:?}"),
    }
}

/// How a line that is no message of the protocol is refused: by its id, where it has one.
fn unreadable(line: &AgentEvent) -> (i64, Value) {
    let AgentEvent::Malformed { line, .. } = line else { return (INVALID_REQUEST, Value::Null) };
    match serde_json::from_str::<Value>(line) {
        Ok(read) => (INVALID_REQUEST, read["id"].clone()),
        // Of a request that is too long, or breaks off, the beginning tells who waits. The ids of answers are ours.
        Err(_) => {
            let id = early_id(line).filter(|_| line.contains("\"method\""));
            (NO_JSON, id.map_or(Value::Null, |id| id.json()))
        }
    }
}

/// What an editor is told.
#[derive(Debug, Clone, PartialEq)]
pub enum EditorOrder {
    /// The session is there.
    Opened {
        /// What it was asked with.
        key: String,
        /// Its id.
        session: String,
    },
    /// It is not.
    NotOpened {
        /// What it was asked with.
        key: String,
        /// Why.
        reason: String,
    },
    /// Something happened in a session.
    Update {
        /// The session.
        session: String,
        /// What.
        update: EditorUpdate,
    },
    /// May this call run? It was told of by an update.
    Ask {
        /// The session.
        session: String,
        /// What the answer is given with.
        key: String,
        /// The call.
        call: String,
        /// What it is, for a person.
        title: String,
        /// Its parameters.
        input: Value,
        /// What it would change.
        diffs: Vec<Diff>,
    },
    /// The turn has ended.
    Ended {
        /// The session.
        session: String,
        /// What its prompt came with.
        key: String,
        /// How.
        end: EditorEnd,
    },
}

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq)]
pub enum EditorUpdate {
    /// What a person said; for a session that is loaded.
    Asked(String),
    /// Text for the person.
    Said(String),
    /// Thinking.
    Thought(String),
    /// The plan: what is to be done, and how far each part is.
    Plan(Vec<(String, Progress)>),
    /// A call that nobody was told of.
    Call {
        /// Its id.
        id: String,
        /// What it is, for a person.
        title: String,
        /// What kind of call, in the protocol's words: `read`, `edit`, `search`, `execute`, `fetch` or `other`.
        kind: &'static str,
        /// Its parameters.
        input: Value,
        /// Whether it runs; else somebody is asked first.
        runs: bool,
    },
    /// A call that was asked about runs.
    CallBegan {
        /// Its id.
        id: String,
    },
    /// A call has ended.
    CallEnded {
        /// Its id.
        id: String,
        /// Whether it went well.
        ok: bool,
        /// What came of it.
        text: String,
        /// What it changed, where that is known.
        diffs: Vec<Diff>,
    },
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// The file, absolute.
    pub path: String,
    /// What stood there; nothing for a file that is written whole.
    pub old: Option<String>,
    /// What stands there now.
    pub new: String,
}

/// How far a part of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Not begun.
    Pending,
    /// Under way.
    Running,
    /// Done.
    Done,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorEnd {
    /// By itself.
    Done,
    /// It was cancelled.
    Cancelled,
    /// Its model refused.
    Refused,
    /// A limit was reached.
    Limit,
    /// Its model could not be had.
    Model {
        /// The kind in one word, as for models that drivetrain asks itself.
        kind: String,
        /// What is wrong.
        why: String,
    },
    /// It failed.
    Failed(String),
}

/// The agent's side of one pipe to an editor.
#[derive(Debug)]
pub struct AcpServer {
    peer: Peer,
    version: String,
    is_open: bool,
    last_key: u64,
    /// Requests for sessions that were not answered: the id, and the session if it is to be loaded.
    opening: BTreeMap<String, (Value, Option<String>)>,
    /// The prompt under way in each session; nothing for a session that waits.
    sessions: BTreeMap<String, Option<Prompt>>,
    /// Questions that wait, by the id of our request.
    asks: BTreeMap<u64, (String, String)>,
}

/// A prompt that was not answered.
#[derive(Debug)]
struct Prompt {
    /// What its end is told with.
    key: String,
    id: Value,
    is_cancelled: bool,
}

impl AcpServer {
    /// A server for an editor that was just connected; `version` is ours.
    pub fn new(version: &str) -> AcpServer {
        AcpServer {
            peer: Peer::new(Form::Stated),
            version: version.to_owned(),
            is_open: false,
            last_key: 0,
            opening: BTreeMap::new(),
            sessions: BTreeMap::new(),
            asks: BTreeMap::new(),
        }
    }

    /// Takes what was read, in pieces of any size; what must be written at once is in `reply`.
    pub fn read(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> Vec<EditorEvent> {
        let mut out = Vec::new();
        for line in self.peer.read(bytes) {
            match line {
                Ok(Incoming::Request { id, method, params }) => {
                    self.on_request(id, &method, &params, reply, &mut out);
                }
                Ok(Incoming::Notification { method, params }) => {
                    self.on_notification(&method, &params, &mut out);
                }
                Ok(Incoming::Response { id, result }) => {
                    let Some((key, _)) = self.asks.remove(&id) else { continue };
                    let option = result.map(|result| result["outcome"]["optionId"].clone());
                    let option = option.unwrap_or_default();
                    let may = matches!(option.as_str(), Some("allow_once" | "allow_always"));
                    let always = option.as_str() == Some("allow_always");
                    out.push(EditorEvent::Answered { key, may, always });
                }
                Err(strange) => {
                    let reason = what_is_wrong(&strange);
                    let (code, id) = unreadable(&strange);
                    self.peer.refuse(reply, &id, code, &reason);
                    out.push(EditorEvent::Strange { reason });
                }
            }
        }
        out
    }

    fn on_request(
        &mut self,
        id: Value,
        method: &str,
        params: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<EditorEvent>,
    ) {
        if method == "initialize" {
            self.is_open = true;
            let answer = json!({
                "protocolVersion": 1,
                "agentCapabilities": {
                    "loadSession": true,
                    "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
                },
                "agentInfo": { "name": "drivetrain", "title": "drivetrain", "version": self.version },
                "authMethods": [],
            });
            return self.peer.answer(reply, &id, &answer);
        }
        if !self.is_open {
            return self.peer.refuse(reply, &id, INVALID_PARAMS, "expected initialize first");
        }
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let folder = params["cwd"].as_str().filter(|folder| folder.starts_with('/'));
        let servers = params["mcpServers"].as_array().is_some_and(|servers| !servers.is_empty());
        if servers && matches!(method, "session/new" | "session/load") {
            let reason = "mcpServers must be empty: only servers that drivetrain's own files declare are started";
            return self.peer.refuse(reply, &id, INVALID_PARAMS, reason);
        }
        if method == "session/load" {
            self.let_go_of_cancelled(&session, reply);
        }
        match (method, folder) {
            ("session/new" | "session/load", None) => {
                self.peer.refuse(reply, &id, INVALID_PARAMS, "cwd must be an absolute path");
            }
            ("session/new", Some(folder)) => {
                let (key, folder) = (self.key(), folder.to_owned());
                self.opening.insert(key.clone(), (id, None));
                out.push(EditorEvent::Open { key, folder });
            }
            ("session/load", Some(_)) if matches!(self.sessions.get(&session), Some(Some(_))) => {
                let reason = "a turn is under way in this session; cancel it first";
                self.peer.refuse(reply, &id, INVALID_PARAMS, reason);
            }
            ("session/load", Some(folder)) => {
                let (key, folder) = (self.key(), folder.to_owned());
                self.opening.insert(key.clone(), (id, Some(session.clone())));
                out.push(EditorEvent::Load { key, session, folder });
            }
            ("session/set_mode", _) if params["modeId"] == MODE => {
                self.peer.answer(reply, &id, &json!({}));
            }
            ("session/set_mode", _) => {
                let reason = format!("there is no mode {}: expected {MODE:?}", params["modeId"]);
                self.peer.refuse(reply, &id, INVALID_PARAMS, &reason);
            }
            ("session/prompt", _) => self.on_prompt(id, session, &params["prompt"], reply, out),
            _ => {
                let reason = format!("{method} is not served");
                self.peer.refuse(reply, &id, METHOD_NOT_FOUND, &reason);
                out.push(EditorEvent::Strange { reason });
            }
        }
    }

    fn on_prompt(
        &mut self,
        id: Value,
        session: String,
        prompt: &Value,
        reply: &mut Vec<u8>,
        out: &mut Vec<EditorEvent>,
    ) {
        let key = self.key();
        self.let_go_of_cancelled(&session, reply);
        let refusal = match self.sessions.get_mut(&session) {
            None => Some((NOT_FOUND, format!("there is no session {session:?}"))),
            Some(Some(_)) => Some((INVALID_PARAMS, "a turn is under way; cancel it first".into())),
            Some(waiting) => match text_of(prompt) {
                Ok(text) => {
                    let is_cancelled = false;
                    *waiting = Some(Prompt { key: key.clone(), id: id.clone(), is_cancelled });
                    out.push(EditorEvent::Prompt { session, key, text });
                    None
                }
                Err(reason) => Some((INVALID_PARAMS, reason)),
            },
        };
        if let Some((code, reason)) = refusal {
            self.peer.refuse(reply, &id, code, &reason);
        }
    }

    /// An editor may go on before it is told that what it cancelled has stopped.
    fn let_go_of_cancelled(&mut self, session: &str, reply: &mut Vec<u8>) {
        let open = self.sessions.get_mut(session);
        if let Some(prompt) = open.and_then(|open| open.take_if(|prompt| prompt.is_cancelled)) {
            self.answer_end(&prompt.id, EditorEnd::Cancelled, reply);
        }
    }

    fn on_notification(&mut self, method: &str, params: &Value, out: &mut Vec<EditorEvent>) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if method != "session/cancel" {
            out.push(EditorEvent::Strange { reason: format!("{method} is not known") });
            return;
        }
        if let Some(Some(prompt)) = self.sessions.get_mut(&session)
            && !std::mem::replace(&mut prompt.is_cancelled, true)
        {
            self.asks.retain(|_, (_, of)| *of != session);
            out.push(EditorEvent::Cancel { session });
        }
    }

    /// The bytes of an order; the error says why it does not fit.
    pub fn order(&mut self, order: EditorOrder) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        match order {
            EditorOrder::Opened { key, session } => {
                let (id, loaded) = self.opened(&key)?;
                let session = loaded.unwrap_or(session);
                let modes = json!({ "currentModeId": MODE, "availableModes": [{ "id": MODE, "name": "Ask",
                    "description": "What the policy does not allow is asked about" }] });
                self.peer.answer(&mut out, &id, &json!({ "sessionId": session, "modes": modes }));
                self.sessions.insert(session, None);
            }
            EditorOrder::NotOpened { key, reason } => {
                let (id, loaded) = self.opened(&key)?;
                let code = if loaded.is_some() { NOT_FOUND } else { INVALID_PARAMS };
                self.peer.refuse(&mut out, &id, code, &reason);
            }
            EditorOrder::Update { session, update } => {
                let params = json!({ "sessionId": session, "update": shown(update) });
                self.peer.notify(&mut out, "session/update", &params);
            }
            EditorOrder::Ask { session, key, call, title, input, diffs } => {
                let mut asked = json!({ "toolCallId": call, "title": title, "rawInput": input, "status": "pending" });
                if !diffs.is_empty() {
                    asked["content"] = diffs.into_iter().map(entry).collect();
                }
                let option =
                    |id: &str, name: &str| json!({ "optionId": id, "name": name, "kind": id });
                let params = json!({
                    "sessionId": session,
                    "toolCall": asked,
                    "options": [
                        option("allow_once", "Allow"),
                        option("allow_always", "Allow for this session"),
                        option("reject_once", "Deny"),
                    ],
                });
                let id = self.peer.request(&mut out, "session/request_permission", &params);
                self.asks.insert(id, (key, session));
            }
            EditorOrder::Ended { session, key, end } => {
                // One that was cancelled is told to have ended twice, and the one after it has an end of its own.
                let is_it = |prompt: &mut Prompt| prompt.key == key;
                let prompt = self.sessions.get_mut(&session).and_then(|open| open.take_if(is_it));
                if let Some(Prompt { id, is_cancelled, .. }) = prompt {
                    // The protocol wants this, whatever the task made of it.
                    let end = if is_cancelled { EditorEnd::Cancelled } else { end };
                    self.answer_end(&id, end, &mut out);
                }
            }
        }
        Ok(out)
    }

    fn answer_end(&self, id: &Value, end: EditorEnd, out: &mut Vec<u8>) {
        let reason = match end {
            EditorEnd::Done => "end_turn",
            EditorEnd::Cancelled => "cancelled",
            EditorEnd::Refused => "refusal",
            EditorEnd::Limit => "max_turn_requests",
            EditorEnd::Failed(why) => return self.peer.refuse(out, id, INTERNAL_ERROR, &why),
            EditorEnd::Model { kind, why } => {
                let data = json!({ "errorKind": error_kind(&kind) });
                return self.peer.refuse_with(out, id, INTERNAL_ERROR, &why, &data);
            }
        };
        self.peer.answer(out, id, &json!({ "stopReason": reason }));
    }

    fn opened(&mut self, key: &str) -> Result<(Value, Option<String>), String> {
        self.opening.remove(key).ok_or_else(|| format!("the editor waits for no session {key:?}"))
    }

    fn key(&mut self) -> String {
        self.last_key += 1;
        format!("editor-{}", self.last_key)
    }
}

/// The word for a failure of a model that clients of other agents know already. Those that have none are told as what
/// will be the same the next time.
fn error_kind(kind: &str) -> &'static str {
    match kind {
        "rate_limited" => "rate_limit",
        "overloaded" | "circuit_open" => "overloaded",
        "auth" => "authentication_failed",
        "quota" => "billing_error",
        "config" => "model_not_found",
        "server" | "transport" | "stream_truncated" | "idle_timeout" | "total_timeout"
        | "empty_completion" => "server_error",
        _ => "invalid_request",
    }
}

/// What a prompt says, with the addresses of what it links to.
fn text_of(prompt: &Value) -> Result<String, String> {
    let blocks = prompt.as_array().ok_or("a prompt is a list of blocks")?;
    let mut parts = Vec::new();
    for block in blocks {
        let part = match block["type"].as_str().unwrap_or_default() {
            "text" => block["text"].as_str(),
            "resource_link" => block["uri"].as_str(),
            "resource" => block["resource"]["text"].as_str().or(block["resource"]["uri"].as_str()),
            other => return Err(format!("a block of type {other:?} was not offered")),
        };
        parts.push(part.ok_or_else(|| format!("a block says nothing: {block}"))?);
    }
    if parts.iter().all(|part| part.trim().is_empty()) {
        return Err("the prompt is empty".to_owned());
    }
    Ok(parts.join("\n"))
}

fn shown(update: EditorUpdate) -> Value {
    let chunk = |kind: &str, text: String| json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } });
    match update {
        EditorUpdate::Asked(text) => chunk("user_message_chunk", text),
        EditorUpdate::Said(text) => chunk("agent_message_chunk", text),
        EditorUpdate::Thought(text) => chunk("agent_thought_chunk", text),
        EditorUpdate::Plan(parts) => {
            let entries = parts.into_iter().map(|(content, progress)| {
                let status = match progress {
                    Progress::Pending => "pending",
                    Progress::Running => "in_progress",
                    Progress::Done => "completed",
                };
                json!({ "content": content, "priority": "medium", "status": status })
            });
            json!({ "sessionUpdate": "plan", "entries": entries.collect::<Vec<_>>() })
        }
        EditorUpdate::Call { id, title, kind, input, runs } => json!({
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "title": title,
            "kind": kind,
            "rawInput": input,
            "status": if runs { "in_progress" } else { "pending" },
        }),
        EditorUpdate::CallBegan { id } => json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": id,
            "status": "in_progress",
        }),
        EditorUpdate::CallEnded { id, ok, text, diffs } => {
            let mut content: Vec<Value> = diffs.into_iter().map(entry).collect();
            content.push(json!({ "type": "content", "content": { "type": "text", "text": text } }));
            json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": id,
                "status": if ok { "completed" } else { "failed" },
                "content": content,
            })
        }
    }
}

/// A change as an entry of a call's content.
fn entry(diff: Diff) -> Value {
    json!({ "type": "diff", "path": diff.path, "oldText": diff.old, "newText": diff.new })
}
