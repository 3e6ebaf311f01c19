//! What the agents that speak JSON-RPC on their pipe have in common: lines in pieces of any size, counted requests,
//! and lines that cannot be understood.

use machine::agent::AgentEvent;
use serde_json::{Value, json};

use crate::jsonrpc::{self, Incoming};

/// Longer lines are passed over: what an agent says in one line fits many times, and a line without an end must not
/// fill the memory.
const LONGEST_LINE: usize = 8 << 20;

/// How much of a line that is not understood is shown.
const SHOWN: usize = 200;

/// Whether each line says that it is JSON-RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As the standard wants it.
    Stated,
    /// Without the field `jsonrpc`.
    Bare,
}

/// One side of the conversation: frames what is read, counts what is asked.
#[derive(Debug)]
pub(super) struct Peer {
    form: Form,
    rest: Vec<u8>,
    /// The line under way was too long; it is dropped up to its end.
    is_skipping: bool,
    last_id: u64,
}

impl Peer {
    pub(super) fn new(form: Form) -> Peer {
        Peer { form, rest: Vec::new(), is_skipping: false, last_id: 0 }
    }

    /// The lines that are complete by now.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<Result<Incoming, AgentEvent>> {
        let mut lines = Vec::new();
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if !self.is_skipping {
                self.rest.extend_from_slice(piece);
                if self.rest.len() > LONGEST_LINE {
                    self.is_skipping = true;
                    let reason = format!("the line is longer than {LONGEST_LINE} bytes");
                    lines.push(Err(malformed(reason, &self.rest)));
                    self.rest = Vec::new();
                }
            }
            if pieces.peek().is_some() {
                let line = std::mem::take(&mut self.rest);
                if !std::mem::take(&mut self.is_skipping) {
                    lines.extend(self.line(&line));
                }
            }
        }
        lines
    }

    /// What is left of a line when nothing more comes.
    pub(super) fn end(&mut self) -> Option<AgentEvent> {
        let rest = std::mem::take(&mut self.rest);
        let is_blank = rest.iter().all(u8::is_ascii_whitespace);
        let reason = || "the output ended in the middle of a line".to_owned();
        (!is_blank).then(|| malformed(reason(), &rest))
    }

    fn line(&self, line: &[u8]) -> Option<Result<Incoming, AgentEvent>> {
        let Ok(text) = std::str::from_utf8(line) else {
            return Some(Err(malformed("the line is not UTF-8 text".to_owned(), line)));
        };
        if text.trim().is_empty() {
            return None;
        }
        let incoming = match self.form {
            Form::Stated => jsonrpc::classify(text),
            Form::Bare => jsonrpc::classify_bare(text),
        };
        Some(incoming.map_err(|reason| malformed(reason, line)))
    }

    /// Writes a request; gives the id that its answer will have.
    pub(super) fn request(&mut self, out: &mut Vec<u8>, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let line = match self.form {
            Form::Stated => jsonrpc::request(self.last_id, method, params),
            Form::Bare => {
                json!({ "id": self.last_id, "method": method, "params": params }).to_string()
            }
        };
        write(out, &line);
        self.last_id
    }

    /// Writes a notification; null parameters are left out.
    pub(super) fn notify(&self, out: &mut Vec<u8>, method: &str, params: &Value) {
        let line = match self.form {
            Form::Stated => jsonrpc::notification(method, params),
            Form::Bare if params.is_null() => json!({ "method": method }).to_string(),
            Form::Bare => json!({ "method": method, "params": params }).to_string(),
        };
        write(out, &line);
    }

    /// Writes the answer to a request of the agent.
    pub(super) fn answer(&self, out: &mut Vec<u8>, id: &Value, result: &Value) {
        let line = match self.form {
            Form::Stated => jsonrpc::answer(id, result),
            Form::Bare => json!({ "id": id, "result": result }).to_string(),
        };
        write(out, &line);
    }

    /// Refuses a request of the agent.
    pub(super) fn refuse(&self, out: &mut Vec<u8>, id: &Value, code: i64, message: &str) {
        let line = match self.form {
            Form::Stated => jsonrpc::refusal(id, code, message),
            Form::Bare => {
                json!({ "id": id, "error": { "code": code, "message": message } }).to_string()
            }
        };
        write(out, &line);
    }
}

fn write(out: &mut Vec<u8>, line: &str) {
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

fn malformed(reason: String, line: &[u8]) -> AgentEvent {
    let shown = &line[..line.len().min(SHOWN)];
    AgentEvent::Malformed { reason, line: String::from_utf8_lossy(shown).into_owned() }
}

/// The beginning of a text, cut between two characters.
pub(super) fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
