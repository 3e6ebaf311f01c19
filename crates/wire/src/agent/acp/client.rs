//! What an agent asks of its client: files and terminals. Reading, writing and starting a command are asked about as our
//! own tools, so that the same gate judges them, and performed once that said yes:
//!
//! | the agent sends | the gate sees |
//! | --- | --- |
//! | `fs/read_text_file` | `read` with `path`, `offset`, `limit` |
//! | `fs/write_text_file` | `write` with `path`, `content` |
//! | `terminal/create` | `shell` with `command`: folder, variables and words as one line, which is what runs |
//! | `terminal/output`, `wait_for_exit`, `kill`, `release` | nothing: they belong to a command that it let pass |
//!
//! A refused call is answered with an error that holds the reason. What was not offered when the conversation was opened is
//! refused here and asks nobody. What the agent asked permission for in so many words, the very content or the very
//! line, is not asked about a second time when it comes back as a request: once for each permission.

mod texts;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use machine::agent::client::{ClientDone, ClientFailure, ClientWork};
use machine::agent::{AgentAsk, AgentEvent, AgentMeans, ClientRequest};
use serde_json::{Value, json};

use super::super::peer::{Peer, beginning, below, from_folder};
use crate::jsonrpc::METHOD_NOT_FOUND;
use texts::{command_line, content, exit_status, number, output, text};

/// More terminals than this, and more requests at once, are refused.
const MOST_TERMINALS: usize = 64;
const MOST_WAITING: usize = 256;

/// How much of what a command prints is kept if the agent does not say, and at most.
const KEPT_OUTPUT: usize = 1 << 20;
const MOST_OUTPUT: usize = 8 << 20;

/// Permissions that are remembered, and how many bytes they may have.
const MOST_AGREED: usize = 64;
const MOST_AGREED_BYTES: usize = 16 << 20;

/// JSON-RPC's code for parameters that cannot be used.
const INVALID_PARAMS: i64 = -32602;
/// For what was refused, or went wrong here.
const REFUSED: i64 = -32603;
/// ACP's code for something that is not there.
const NOT_FOUND: i64 = -32002;
/// For what its sender wants no more.
const CANCELLED: i64 = -32800;

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

impl AcpOffers {
    /// Everything that there is.
    pub const ALL: AcpOffers = AcpOffers { read: true, write: true, terminal: true };
}

/// What the agent asked and was not answered, and its terminals.
#[derive(Debug, Default)]
pub(super) struct Client {
    waiting: BTreeMap<String, Waiting>,
    /// How much of its output each shows.
    terminals: BTreeMap<String, usize>,
    last_terminal: u64,
    agreed: VecDeque<Agreed>,
}

/// A request that waits for its end: the agent's id of it, and what the answer needs.
#[derive(Debug)]
struct Waiting {
    id: Value,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Read { path: String, line: Option<u64>, limit: Option<u64> },
    Write,
    Create { terminal: String, limit: usize },
    Output { limit: usize },
    Exit,
    Kill,
    Release { terminal: String },
}

/// What a permission was given for, if the agent said all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Agreed {
    /// This content of this file.
    Write(String, String),
    /// This command line.
    Command(String),
}

impl Agreed {
    /// What a yes to this question would be for.
    pub(super) fn by(call: &Value, means: &AgentMeans, folder: &str) -> Vec<Agreed> {
        match means {
            AgentMeans::Command(line) => vec![Agreed::Command(line.clone())],
            AgentMeans::Write(paths) => {
                let entries = call["content"].as_array().into_iter().flatten();
                let diffs = entries.filter(|entry| entry["type"] == "diff");
                let whole = diffs.filter_map(|diff| {
                    let path = from_folder(folder, diff["path"].as_str()?);
                    let text = diff["newText"].as_str()?.to_owned();
                    paths.contains(&path).then_some(Agreed::Write(path, text))
                });
                whole.collect()
            }
            _ => Vec::new(),
        }
    }

    fn size(&self) -> usize {
        match self {
            Agreed::Write(path, text) => path.len() + text.len(),
            Agreed::Command(line) => line.len(),
        }
    }
}

/// A request as it came, with the key that its call would have.
pub(super) struct Asked<'a> {
    pub(super) key: String,
    pub(super) id: Value,
    pub(super) method: &'a str,
    pub(super) params: &'a Value,
}

/// Where answers and events go.
pub(super) struct Out<'a> {
    pub(super) peer: &'a Peer,
    pub(super) reply: &'a mut Vec<u8>,
    pub(super) events: &'a mut Vec<AgentEvent>,
}

impl Client {
    /// Whether it is a request to the client at all.
    pub(super) fn knows(method: &str) -> bool {
        method.starts_with("fs/") || method.starts_with("terminal/")
    }

    /// Takes a request of an agent that works in this folder.
    pub(super) fn take(
        &mut self,
        asked: Asked<'_>,
        offers: AcpOffers,
        folder: &str,
        out: &mut Out<'_>,
    ) {
        let is_offered = match asked.method {
            "fs/read_text_file" => offers.read,
            "fs/write_text_file" => offers.write,
            _ => asked.method.starts_with("terminal/") && offers.terminal,
        };
        if !is_offered {
            let message = format!("{} was not offered", asked.method);
            out.peer.refuse(out.reply, &asked.id, METHOD_NOT_FOUND, &message);
            out.events.push(AgentEvent::Unknown { kind: message });
            return;
        }
        let taken = if self.waiting.len() >= MOST_WAITING {
            Err(format!("{MOST_WAITING} requests wait already: wait for one to end"))
        } else {
            self.understand(&asked, folder)
        };
        match taken {
            Ok((of, work, ask)) => {
                let Asked { key, id, .. } = asked;
                self.waiting.insert(key.clone(), Waiting { id, of });
                let request = Box::new(ClientRequest { key, work, ask });
                out.events.push(AgentEvent::Wants(request));
            }
            Err(why) => out.peer.refuse(out.reply, &asked.id, INVALID_PARAMS, beginning(&why, 500)),
        }
    }

    fn understand(
        &mut self,
        asked: &Asked<'_>,
        folder: &str,
    ) -> Result<(Of, ClientWork, Option<AgentAsk>), String> {
        let Asked { method, params, .. } = *asked;
        let question = |tool: &str, input: Value| AgentAsk {
            key: asked.key.clone(),
            id: Arc::from(asked.key.as_str()),
            tool: method.to_owned(),
            input: Arc::new(input),
            means: AgentMeans::Ours(tool.to_owned()),
            helper: None,
        };
        match method {
            "fs/read_text_file" => {
                let path = below(folder, text(params, "path", method)?);
                let (line, limit) = (number(params, "line")?, number(params, "limit")?);
                let mut input = json!({ "path": path });
                for (name, value) in [("offset", line), ("limit", limit)] {
                    if let Some(value) = value {
                        input[name] = json!(value);
                    }
                }
                let of = Of::Read { path: path.clone(), line, limit };
                Ok((of, ClientWork::ReadFile { path }, Some(question("read", input))))
            }
            "fs/write_text_file" => {
                let path = text(params, "path", method)?;
                let content = text(params, "content", method)?.to_owned();
                let whole = from_folder(folder, path);
                let is_agreed = self.is_agreed(
                    |agreed| matches!(agreed, Agreed::Write(p, c) if *p == whole && *c == content),
                );
                let path = below(folder, path);
                let input = json!({ "path": path, "content": content });
                let ask = (!is_agreed).then(|| question("write", input));
                Ok((Of::Write, ClientWork::WriteFile { path, content }, ask))
            }
            "terminal/create" => {
                let command = command_line(params, folder)?;
                let limit = number(params, "outputByteLimit")?;
                let limit = limit.map_or(KEPT_OUTPUT, |limit| {
                    usize::try_from(limit).unwrap_or(usize::MAX).min(MOST_OUTPUT)
                });
                let pending = self.waiting.values().filter(|w| matches!(w.of, Of::Create { .. }));
                if self.terminals.len() + pending.count() >= MOST_TERMINALS {
                    return Err(format!(
                        "{MOST_TERMINALS} terminals are open already: release one first"
                    ));
                }
                self.last_terminal += 1;
                let terminal = format!("terminal-{}", self.last_terminal);
                let is_agreed = self.is_agreed(
                    |agreed| matches!(agreed, Agreed::Command(line) if *line == command),
                );
                let ask = (!is_agreed).then(|| question("shell", json!({ "command": command })));
                let of = Of::Create { terminal: terminal.clone(), limit };
                Ok((of, ClientWork::RunCommand { terminal, command, keep: limit }, ask))
            }
            _ => {
                let terminal = text(params, "terminalId", method)?.to_owned();
                let Some(limit) = self.terminals.get(&terminal).copied() else {
                    return Err(format!("there is no terminal {terminal:?}"));
                };
                let name = terminal.clone();
                let (of, work) = match method {
                    "terminal/output" => {
                        (Of::Output { limit }, ClientWork::ShowOutput { terminal })
                    }
                    "terminal/wait_for_exit" => (Of::Exit, ClientWork::AwaitExit { terminal }),
                    "terminal/kill" => (Of::Kill, ClientWork::Kill { terminal }),
                    "terminal/release" => {
                        (Of::Release { terminal: name }, ClientWork::Release { terminal })
                    }
                    _ => return Err(format!("nobody knows {method}")),
                };
                Ok((of, work, None))
            }
        }
    }

    /// A permission was given.
    pub(super) fn agree(&mut self, agreed: Vec<Agreed>) {
        self.agreed.extend(agreed);
        let too_much = |agreed: &VecDeque<Agreed>| {
            agreed.len() > MOST_AGREED
                || agreed.iter().map(Agreed::size).sum::<usize>() > MOST_AGREED_BYTES
        };
        while too_much(&self.agreed) {
            self.agreed.pop_front();
        }
    }

    /// Whether this was agreed to, and was not done since.
    fn is_agreed(&mut self, is_it: impl Fn(&Agreed) -> bool) -> bool {
        let at = self.agreed.iter().position(is_it);
        at.and_then(|at| self.agreed.remove(at)).is_some()
    }

    /// Whether a request waits with this key.
    pub(super) fn waits(&self, key: &str) -> bool {
        self.waiting.contains_key(key)
    }

    /// A request is refused, and why.
    pub(super) fn refuse(&mut self, key: &str, why: &str, peer: &Peer, out: &mut Vec<u8>) {
        if let Some(waiting) = self.waiting.remove(key) {
            peer.refuse(out, &waiting.id, REFUSED, why);
        }
    }

    /// Something was done, or could not be. The error says that nobody waits for it.
    pub(super) fn served(
        &mut self,
        key: &str,
        done: Result<ClientDone, ClientFailure>,
        peer: &Peer,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let waiting = self.waiting.remove(key);
        let Waiting { id, of } =
            waiting.ok_or_else(|| format!("the agent waits for nothing with {key:?}"))?;
        let answer = match (of, done) {
            (_, Err(failure)) if failure.is_missing => {
                let message = format!("Resource not found: {}", failure.why);
                peer.refuse(out, &id, NOT_FOUND, &message);
                return Ok(());
            }
            (_, Err(failure)) => Err((REFUSED, failure.why)),
            (Of::Read { path, line, limit }, Ok(ClientDone::Content(bytes))) => {
                content(&path, bytes, line, limit).map(|content| json!({ "content": content }))
            }
            (Of::Create { terminal, limit }, Ok(ClientDone::Done)) => {
                self.terminals.insert(terminal.clone(), limit);
                Ok(json!({ "terminalId": terminal }))
            }
            (Of::Output { limit }, Ok(ClientDone::Output { bytes, is_cut, exit })) => {
                Ok(output(&bytes, is_cut, limit, exit.as_ref()))
            }
            (Of::Exit, Ok(ClientDone::Exited(exit))) => Ok(exit_status(&exit)),
            (Of::Release { terminal }, Ok(ClientDone::Done)) => {
                self.terminals.remove(&terminal);
                Ok(json!({}))
            }
            (Of::Write | Of::Kill, Ok(ClientDone::Done)) => Ok(json!({})),
            (_, Ok(_)) => Err((REFUSED, "what was done is not what was asked".to_owned())),
        };
        match answer {
            Ok(answer) => peer.answer(out, &id, &answer),
            Err((code, why)) => peer.refuse(out, &id, code, &why),
        }
        Ok(())
    }

    /// Whether the request with this id was not answered yet.
    pub(super) fn has_request(&self, id: &Value) -> bool {
        self.waiting.values().any(|waiting| waiting.id == *id)
    }

    /// The agent wants no answer to the request with this id any more; the key that it had.
    pub(super) fn cancel(&mut self, id: &Value, peer: &Peer, out: &mut Vec<u8>) -> Option<String> {
        let found = self.waiting.iter().find(|(_, waiting)| waiting.id == *id);
        let key = found.map(|(key, _)| key.clone())?;
        self.waiting.remove(&key);
        peer.refuse(out, id, CANCELLED, "it was cancelled");
        Some(key)
    }

    /// Nothing that was asked is wanted any more: all of it is answered.
    pub(super) fn withdraw(&mut self, peer: &Peer, out: &mut Vec<u8>) -> Vec<AgentEvent> {
        for waiting in self.waiting.values() {
            peer.refuse(out, &waiting.id, REFUSED, "the turn was stopped");
        }
        self.forget()
    }

    /// The turn is over, and everything of it.
    pub(super) fn forget(&mut self) -> Vec<AgentEvent> {
        self.terminals.clear();
        self.agreed.clear();
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_keys().map(|key| AgentEvent::Withdrawn { key }).collect()
    }
}
