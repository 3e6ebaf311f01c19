//! What came of a step, as expressions see it: a table with the same keys for every kind, its texts bounded.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::frame::Came;
use crate::tool::{Status, ToolResult};

/// How much of a text is kept, from its end.
const KEPT: usize = 32 << 10;

/// A step that ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ended {
    pub(super) ok: bool,
    /// `ok`, `error`, `denied`, `timed_out`, `skipped` and so on.
    pub(super) status: String,
    /// What expressions see beside that.
    pub(super) fields: Map<String, Value>,
    /// What went wrong, for a person.
    pub(super) why: String,
    /// Whether it is a circle rather than a failure.
    pub(super) stuck: bool,
}

impl Ended {
    /// A success with this text.
    pub(super) fn ok(text: &str) -> Ended {
        let mut ended = Ended {
            ok: true,
            status: "ok".to_owned(),
            fields: Map::new(),
            why: String::new(),
            stuck: false,
        };
        if !text.is_empty() {
            ended.set("text", json!(end_of(text)));
        }
        ended
    }

    /// A failure.
    pub(super) fn failed(status: &str, text: &str, why: String) -> Ended {
        Ended { ok: false, status: status.to_owned(), why, ..Ended::ok(text) }
    }

    /// A step that did not run.
    pub(super) fn skipped() -> Ended {
        Ended { ok: false, status: "skipped".to_owned(), ..Ended::ok("") }
    }

    /// Whether it did not run.
    pub(super) fn is_skipped(&self) -> bool {
        self.status == "skipped" && self.why.is_empty()
    }

    /// Puts something beside the text.
    pub(super) fn set(&mut self, key: &str, value: Value) {
        self.fields.insert(key.to_owned(), value);
    }

    /// What expressions see.
    pub(super) fn value(self, attempts: u64) -> Value {
        unpacked(&self.packed(attempts, None))
    }

    /// The same in the journal: what [`blank`] says of it anyway is left out, and what is not among these fields.
    pub(super) fn packed(self, attempts: u64, fields: Option<&BTreeSet<String>>) -> Value {
        let (ok, skipped) = (self.ok, self.is_skipped());
        let attempts = if skipped { 0 } else { attempts };
        let blank = blank();
        let mut packed = Map::new();
        let mut put = |key: String, value: Value| {
            let is_asked = fields.is_none_or(|fields| fields.contains(&key));
            if is_asked && blank[key.as_str()] != value {
                packed.insert(key, value);
            }
        };
        put("status".to_owned(), Value::String(self.status));
        for (key, is_so) in [("ok", ok), ("failed", !ok && !skipped), ("skipped", skipped)] {
            put(key.to_owned(), Value::Bool(is_so));
        }
        put("attempts".to_owned(), json!(attempts));
        for (key, value) in self.fields {
            put(key, value);
        }
        Value::Object(packed)
    }
}

/// A step that has not run yet.
fn blank() -> &'static Value {
    static BLANK: OnceLock<Value> = OnceLock::new();
    BLANK.get_or_init(|| {
        json!({ "status": "not_run", "ok": false, "failed": false, "skipped": false, "exit": null, "text": "",
                "value": null, "outputs": {}, "results": [], "branches": {}, "attempts": 0, "outcome": "", "id": "" })
    })
}

/// The same, to change.
pub(super) fn not_run() -> Value {
    blank().clone()
}

/// One field of a packed result, or of a step that has not run.
pub(super) fn field(packed: Option<&Value>, name: &str) -> Option<Value> {
    packed.and_then(|packed| packed.get(name)).or_else(|| blank().get(name)).cloned()
}

/// The whole of a packed result.
pub(super) fn unpacked(packed: &Value) -> Value {
    let mut value = not_run();
    for (key, field) in packed.as_object().into_iter().flatten() {
        value[key.as_str()] = field.clone();
    }
    value
}

/// Whether a packed result is a failure.
pub(super) fn is_failure(packed: Option<&Value>) -> bool {
    packed.is_some_and(|packed| packed["failed"] == true)
}

/// The end of a text.
pub(super) fn end_of(text: &str) -> &str {
    let mut from = text.len().saturating_sub(KEPT);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// A text as JSON, if it is; a block of code in an answer counts as well.
pub(super) fn as_json(text: &str) -> Option<Value> {
    serde_json::from_str(text.trim())
        .ok()
        .or_else(|| serde_json::from_str(block(text)?.trim()).ok())
}

/// The first block of code in a text.
pub(super) fn block(text: &str) -> Option<&str> {
    let mut from = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        match from {
            None if is_fence => from = Some(at + line.len()),
            Some(from) if is_fence => return Some(&text[from..at]),
            _ => {}
        }
        at += line.len();
    }
    None
}

impl Came {
    /// What is kept of a tool's result.
    pub(super) fn of(result: &ToolResult) -> Came {
        Came { status: result.status, exit: result.exit, text: end_of(&result.text).to_owned() }
    }

    /// As a tool's result.
    pub(super) fn result(&self) -> ToolResult {
        ToolResult { exit: self.exit, ..ToolResult::ended(self.status, self.text.as_str()) }
    }

    /// As the end of a step. `why` is said of a failure; `keeps` tells whether anybody will look.
    pub(super) fn ended(&self, why: impl FnOnce() -> String, keeps: bool) -> Ended {
        let ok = self.status == Status::Ok;
        let text = if keeps { self.text.as_str() } else { "" };
        let mut ended = Ended::ok(text);
        if !ok {
            (ended.ok, ended.status, ended.why) = (false, self.status.word().to_owned(), why());
        }
        if keeps {
            ended.set("exit", json!(self.exit));
            ended.set("value", as_json(text).unwrap_or_default());
        }
        ended
    }
}
