//! What the agents that speak JSON-RPC on their pipe have in common: lines in pieces of any size, counted requests,
//! and lines that cannot be understood.

use machine::agent::AgentEvent;
use serde_json::{Value, json};

use super::lines::{Line, Lines, quoted};
use crate::jsonrpc::{self, Incoming};

/// Longer lines are passed over: what an agent says in one line fits many times, and a line without an end must not
/// fill the memory.
const LONGEST_LINE: usize = 8 << 20;

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
    lines: Lines,
    last_id: u64,
}

impl Peer {
    pub(super) fn new(form: Form) -> Peer {
        Peer { form, lines: Lines::new(LONGEST_LINE), last_id: 0 }
    }

    /// The lines that are complete by now.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<Result<Incoming, AgentEvent>> {
        let (mut read, form) = (Vec::new(), self.form);
        self.lines.feed(bytes, |line| {
            read.push(match line {
                Line::Whole(line) => classify(form, line),
                Line::TooLong(line) => {
                    let reason = format!("the line is longer than {LONGEST_LINE} bytes");
                    Err(AgentEvent::Malformed { reason, line })
                }
            });
        });
        read
    }

    /// What is left of a line when nothing more comes.
    pub(super) fn end(&mut self) -> Option<AgentEvent> {
        let rest = self.lines.end()?;
        Some(malformed("the output ended in the middle of a line".to_owned(), &rest))
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

impl Peer {
    /// Refuses a request, with more for programs beside the words for people.
    pub(super) fn refuse_with(
        &self,
        out: &mut Vec<u8>,
        id: &Value,
        code: i64,
        message: &str,
        data: &Value,
    ) {
        let mut line =
            json!({ "id": id, "error": { "code": code, "message": message, "data": data } });
        if self.form == Form::Stated {
            line["jsonrpc"] = json!("2.0");
        }
        write(out, &line.to_string());
    }
}

fn write(out: &mut Vec<u8>, line: &str) {
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

fn classify(form: Form, line: &[u8]) -> Result<Incoming, AgentEvent> {
    let text = std::str::from_utf8(line)
        .map_err(|_| malformed("the line is not UTF-8 text".to_owned(), line))?;
    let incoming = match form {
        Form::Stated => jsonrpc::classify(text),
        Form::Bare => jsonrpc::classify_bare(text),
    };
    incoming.map_err(|reason| malformed(reason, line))
}

fn malformed(reason: String, line: &[u8]) -> AgentEvent {
    AgentEvent::Malformed { reason, line: quoted(line) }
}

/// The beginning of a text, cut between two characters.
pub(super) fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// A path as it is from the folder in which the agent works: what it names without a beginning is meant from there.
pub(super) fn from_folder(folder: &str, path: &str) -> String {
    if path.starts_with(['/', '~']) || folder.is_empty() {
        path.to_owned()
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    }
}

/// A path in the folder as it is named from there; any other as it is.
pub(super) fn below(folder: &str, path: &str) -> String {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    let rest = rest.and_then(|rest| rest.strip_prefix('/')).filter(|rest| !rest.is_empty());
    rest.filter(|rest| !rest.starts_with('/') && !folder.is_empty()).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_the_folder_is_named_from_there() {
        assert_eq!(below("/w", "/w/a/b"), "a/b");
        assert_eq!(below("/w/", "/w/a"), "a");
        for path in ["/wa/b", "/w", "/w/", "/w//etc", "a", "/etc/passwd", "../x"] {
            assert_eq!(below("/w", path), path);
        }
        assert_eq!(below("", "/a"), "/a");
    }
}
