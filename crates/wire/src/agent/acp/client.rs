//! What an agent asks of its client: files and terminals. Each becomes a call of a tool that drivetrain offers, so that
//! the same gate judges it and the same loop runs it:
//!
//! | the agent sends | the call |
//! | --- | --- |
//! | `fs/read_text_file` | `read` with `path`, `offset`, `limit` |
//! | `fs/write_text_file` | `write` with `path`, `content` |
//! | `terminal/create` | `shell` with `command`; the terminal is there at once, its output when the call has ended |
//! | `terminal/output`, `wait_for_exit` | nothing: answered from what is known of the call |
//! | `terminal/kill`, `terminal/release` | nothing: a call under way is withdrawn |
//!
//! A refused call is an error to whoever reads or writes, and a command that failed to whoever waits for a terminal.
//! What was not offered when the conversation was opened is refused here and never becomes a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::agent::{AgentEvent, AgentRequest};
use serde_json::{Value, json};

use super::super::codex::join;
use super::super::peer::{Peer, beginning};
use crate::jsonrpc::METHOD_NOT_FOUND;

/// More terminals than this are refused.
const MOST_TERMINALS: usize = 64;

/// JSON-RPC's code for parameters that cannot be used.
const INVALID_PARAMS: i64 = -32602;

/// ACP's code for something that is not there or may not be.
const REFUSED: i64 = -32000;

/// What the agent may ask of us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AcpOffers {
    /// Read text files. Only for whoever gives them whole: an agent writes back what it read.
    pub read: bool,
    /// Write text files.
    pub write: bool,
    /// Run commands.
    pub terminal: bool,
}

/// What the agent asked and was not answered, and its terminals.
#[derive(Debug, Default)]
pub(super) struct Client {
    waiting: BTreeMap<String, Waiting>,
    terminals: BTreeMap<String, Terminal>,
    last_terminal: u64,
}

#[derive(Debug)]
enum Waiting {
    Read(Value),
    Write(Value),
    Terminal(String),
}

#[derive(Debug)]
struct Terminal {
    key: String,
    result: Option<Result<String, String>>,
    /// Requests that wait for the exit.
    waits: Vec<Value>,
    limit: usize,
}

impl Client {
    /// Whether it is a request to the client at all.
    pub(super) fn knows(method: &str) -> bool {
        method.starts_with("fs/") || method.starts_with("terminal/")
    }

    /// Takes a request; `key` is the one that its call would have.
    #[expect(clippy::too_many_arguments, reason = "a request, what it may, and two ways out")]
    pub(super) fn request(
        &mut self,
        offers: AcpOffers,
        key: String,
        id: Value,
        method: &str,
        params: &Value,
        peer: &Peer,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        let is_offered = match method {
            "fs/read_text_file" => offers.read,
            "fs/write_text_file" => offers.write,
            _ => method.starts_with("terminal/") && offers.terminal,
        };
        if !is_offered {
            let message = format!("{method} was not offered");
            peer.refuse(reply, &id, METHOD_NOT_FOUND, &message);
            out.push(AgentEvent::Unknown { kind: message });
            return;
        }
        let path = params["path"].as_str();
        match (method, path) {
            ("fs/read_text_file", Some(path)) => {
                let mut input = json!({ "path": path });
                for (theirs, ours) in [("line", "offset"), ("limit", "limit")] {
                    if let Some(number) = params[theirs].as_u64() {
                        input[ours] = json!(number);
                    }
                }
                self.call(key, "read", input, Waiting::Read(id), out);
            }
            ("fs/write_text_file", Some(path)) if params["content"].is_string() => {
                let input = json!({ "path": path, "content": params["content"] });
                self.call(key, "write", input, Waiting::Write(id), out);
            }
            ("terminal/create", _) => match command_line(params) {
                Ok(_) if self.terminals.len() >= MOST_TERMINALS => {
                    peer.refuse(reply, &id, REFUSED, "too many terminals");
                }
                Ok(command) => {
                    self.last_terminal += 1;
                    let name = format!("terminal-{}", self.last_terminal);
                    let limit = params["outputByteLimit"].as_u64().unwrap_or(u64::MAX);
                    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                    let terminal =
                        Terminal { key: key.clone(), result: None, waits: Vec::new(), limit };
                    self.terminals.insert(name.clone(), terminal);
                    peer.answer(reply, &id, &json!({ "terminalId": name }));
                    let input = json!({ "command": command });
                    self.call(key, "shell", input, Waiting::Terminal(name), out);
                }
                Err(why) => peer.refuse(reply, &id, INVALID_PARAMS, &why),
            },
            _ => self.on_terminal(id, method, params, peer, reply, out),
        }
    }

    fn call(
        &mut self,
        key: String,
        tool: &str,
        input: Value,
        waiting: Waiting,
        out: &mut Vec<AgentEvent>,
    ) {
        self.waiting.insert(key.clone(), waiting);
        let (tool, input) = (tool.to_owned(), Arc::new(input));
        out.push(AgentEvent::Calls(AgentRequest { key, id: "".into(), tool, input }));
    }

    fn on_terminal(
        &mut self,
        id: Value,
        method: &str,
        params: &Value,
        peer: &Peer,
        reply: &mut Vec<u8>,
        out: &mut Vec<AgentEvent>,
    ) {
        let name = params["terminalId"].as_str().unwrap_or_default();
        let Some(terminal) = self.terminals.get_mut(name) else {
            let message = format!("{method} needs what it is about: {params}");
            return peer.refuse(reply, &id, INVALID_PARAMS, beginning(&message, 200));
        };
        match method {
            "terminal/output" => peer.answer(reply, &id, &terminal.output()),
            "terminal/wait_for_exit" => match terminal.exit() {
                Some(exit) => peer.answer(reply, &id, &exit),
                None => terminal.waits.push(id),
            },
            "terminal/kill" | "terminal/release" => {
                if terminal.result.is_none() {
                    let key = terminal.key.clone();
                    terminal.end(Err("it was killed".to_owned()), peer, reply);
                    self.waiting.remove(&key);
                    out.push(AgentEvent::Withdrawn { key });
                }
                if method == "terminal/release" {
                    self.terminals.remove(name);
                }
                peer.answer(reply, &id, &json!({}));
            }
            _ => {
                peer.refuse(reply, &id, METHOD_NOT_FOUND, "nobody knows this method");
                out.push(AgentEvent::Unknown { kind: method.to_owned() });
            }
        }
    }

    /// A call has ended. The error says that nobody waits for it.
    pub(super) fn result(
        &mut self,
        key: &str,
        result: Result<String, String>,
        peer: &Peer,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let waiting = self.waiting.remove(key);
        match (waiting.ok_or_else(|| format!("the agent waits for no result of {key:?}"))?, result)
        {
            (Waiting::Read(id), Ok(content)) => {
                peer.answer(out, &id, &json!({ "content": content }));
            }
            (Waiting::Write(id), Ok(_)) => peer.answer(out, &id, &json!({})),
            (Waiting::Read(id) | Waiting::Write(id), Err(why)) => {
                peer.refuse(out, &id, REFUSED, &why);
            }
            (Waiting::Terminal(name), result) => {
                if let Some(terminal) = self.terminals.get_mut(&name) {
                    terminal.end(result, peer, out);
                }
            }
        }
        Ok(())
    }

    /// Nothing that was asked is wanted any more.
    pub(super) fn withdraw(&mut self, peer: &Peer, out: &mut Vec<u8>) -> Vec<AgentEvent> {
        let keys: Vec<String> = self.waiting.keys().cloned().collect();
        let withdrawn = keys.into_iter().map(|key| {
            // The key was taken from the map, so somebody waits for it.
            let _ = self.result(&key, Err("the turn was stopped".to_owned()), peer, out);
            AgentEvent::Withdrawn { key }
        });
        withdrawn.collect()
    }
}

impl Terminal {
    fn end(&mut self, result: Result<String, String>, peer: &Peer, out: &mut Vec<u8>) {
        self.result = Some(result);
        if let Some(exit) = self.exit() {
            for id in std::mem::take(&mut self.waits) {
                peer.answer(out, &id, &exit);
            }
        }
    }

    /// How it ended. What our shell tool calls an error is an exit other than zero, or a command that did not run.
    fn exit(&self) -> Option<Value> {
        let code = match self.result.as_ref()? {
            Ok(_) => 0,
            Err(_) => 1,
        };
        Some(json!({ "exitCode": code, "signal": null }))
    }

    fn output(&self) -> Value {
        let text = match &self.result {
            Some(Ok(text) | Err(text)) => text.as_str(),
            None => "",
        };
        // The protocol cuts from the beginning.
        let from = text.ceil_char_boundary(text.len().saturating_sub(self.limit));
        let mut output = json!({ "output": text[from..], "truncated": from > 0 });
        if let Some(exit) = self.exit() {
            output["exitStatus"] = exit;
        }
        output
    }
}

/// One line for a shell: the folder, the variables and the command with its arguments. Without arguments the command
/// may be a whole line itself, and is taken as one.
fn command_line(params: &Value) -> Result<String, String> {
    let command = params["command"].as_str().ok_or("terminal/create needs a command")?;
    let arguments = params["args"].as_array().map(Vec::as_slice).unwrap_or_default();
    let arguments: Option<Vec<&str>> = arguments.iter().map(Value::as_str).collect();
    let arguments = arguments.ok_or("the arguments of terminal/create must be texts")?;
    let mut line = String::new();
    if let Some(folder) = params["cwd"].as_str() {
        line = format!("cd {} && ", join(&[folder]));
    }
    for variable in params["env"].as_array().into_iter().flatten() {
        let (name, value) = (variable["name"].as_str(), variable["value"].as_str());
        let (Some(name), Some(value)) = (name, value) else {
            return Err("a variable of terminal/create needs a name and a value".to_owned());
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
            || !name.chars().all(is_name)
        {
            return Err(format!("{name:?} cannot be the name of a variable"));
        }
        line.push_str(&format!("{name}={} ", join(&[value])));
    }
    let words: Vec<&str> = std::iter::once(command).chain(arguments.iter().copied()).collect();
    line.push_str(&if arguments.is_empty() { command.to_owned() } else { join(&words) });
    Ok(line)
}
