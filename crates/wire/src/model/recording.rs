//! One exchange with a model's server, as a file keeps it: what was asked, what came back and when, and how it
//! ended. No header of a request is kept, and what looks like a key is covered up everywhere.
//!
//! Two requests are the same if they go the same way and their covered bodies are equal as JSON, whatever the order
//! of their keys.

mod pieces;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machine::lookalike::cover_lookalikes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the files that are written here.
pub const VERSION: u32 = 1;

/// What stands where a key was.
const COVER: &str = "[key]";

/// The shortest known key that is looked for: a word such as `none`, which servers on this machine are given, is no secret.
const MIN_KNOWN: usize = 8;

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The version of the file.
    pub v: u32,
    /// What was asked.
    #[serde(flatten)]
    pub question: Question,
    /// What came back.
    pub response: Response,
}

/// A request, without its key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The provider, for a person.
    pub provider: String,
    /// What it speaks.
    pub dialect: String,
    /// The method.
    pub method: String,
    /// What is appended to the provider's base URL.
    pub path: String,
    /// The body.
    pub request: Value,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// None if no answer began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Those that matter, names in lower case.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body as it came.
    #[serde(default)]
    pub chunks: Vec<Chunk>,
    /// How it ended.
    pub end: End,
}

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Milliseconds since the request was sent.
    pub at: u64,
    /// Its bytes.
    #[serde(flatten)]
    pub data: Data,
}

/// Bytes, readable where they are text. A chunk may end inside a letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Base64(String),
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// As far as it was wanted.
    Whole,
    /// No answer began.
    Unreachable {
        /// Why.
        reason: String,
    },
    /// The connection broke.
    Broken {
        /// Why.
        reason: String,
    },
    /// Nothing that counts came for so long.
    Silent {
        /// In milliseconds.
        millis: u64,
    },
    /// It was not over after so long.
    TooLong {
        /// In milliseconds.
        millis: u64,
    },
}

impl Data {
    /// Keeps bytes.
    pub fn of(bytes: &[u8]) -> Data {
        match std::str::from_utf8(bytes) {
            Ok(text) => Data::Text(text.to_owned()),
            Err(_) => Data::Base64(STANDARD.encode(bytes)),
        }
    }

    /// The bytes; none if they were not kept whole.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Data::Text(text) => Some(text.clone().into_bytes()),
            Data::Base64(text) => STANDARD.decode(text).ok(),
        }
    }
}

impl Exchange {
    /// Reads a file. The error says what is wrong with it.
    pub fn read(text: &str) -> Result<Exchange, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match value.get("v").and_then(Value::as_u64) {
            Some(v) if v == u64::from(VERSION) => {}
            Some(v) => return Err(format!("version {v}; this drivetrain reads {VERSION}")),
            None => return Err("no \"v\": expected a recorded exchange".to_owned()),
        }
        let exchange: Exchange =
            serde_json::from_value(value).map_err(|error| error.to_string())?;
        if exchange.response.chunks.iter().any(|chunk| chunk.data.bytes().is_none()) {
            return Err("a chunk is not base64".to_owned());
        }
        Ok(exchange)
    }

    /// The exchange without anything that is, or looks like, a key.
    pub fn covered(mut self, cover: &Cover) -> Exchange {
        self.question.request = cover.json(&self.question.request);
        self.question.path = cover.text(&self.question.path);
        for (_, value) in &mut self.response.headers {
            *value = cover.text(value);
        }
        let bytes: Vec<u8> =
            self.response.chunks.iter().filter_map(|chunk| chunk.data.bytes()).flatten().collect();
        if let Ok(whole) = String::from_utf8(bytes) {
            let covered = pieces::covered(&whole, cover);
            let covered = cover.text(covered.as_deref().unwrap_or(&whole));
            if covered != whole {
                // A key may lie across chunks, so what hides one is kept as one.
                let at = self.response.chunks.last().map_or(0, |chunk| chunk.at);
                self.response.chunks = vec![Chunk { at, data: Data::Text(covered) }];
            }
        }
        if let End::Unreachable { reason } | End::Broken { reason } = &mut self.response.end {
            *reason = cover.text(reason);
        }
        self
    }
}

impl Question {
    /// The same text for the same question, and for no other.
    pub fn canonical(&self) -> String {
        let mut text = format!("{} {} {}\n", self.dialect, self.method, self.path);
        write_sorted(&self.request, &mut text);
        text
    }

    /// The same text for all questions of this form: for an agent, which puts times, ids and the names of its folders into
    /// what it asks, so that no question of it comes twice. Of the texts only those count that say what a part is (who
    /// speaks, to which model, of which call).
    pub fn form(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let mut text = format!("{} {} {path}\n", self.dialect, self.method);
        write_form(&self.request, None, &mut text);
        text
    }

    /// How much of another question is the same: the number of equal values, most of all if it goes the same way.
    pub fn likeness(&self, other: &Question) -> (bool, usize) {
        let same_way = self.dialect == other.dialect && self.path == other.path;
        (same_way, alike(&self.request, &other.request))
    }

    /// The first place where two questions differ, such as `messages[3].content[0].text`.
    pub fn difference(&self, other: &Question) -> Option<String> {
        for (name, ours, theirs) in [
            ("dialect", &self.dialect, &other.dialect),
            ("method", &self.method, &other.method),
            ("path", &self.path, &other.path),
        ] {
            if ours != theirs {
                return Some(format!("the {name}, {theirs:?} there and {ours:?} now"));
            }
        }
        let mut place = String::new();
        differs(&self.request, &other.request, &mut place).then(|| match place.as_str() {
            "" => "the whole body".to_owned(),
            _ => place.trim_start_matches('.').to_owned(),
        })
    }
}

/// The headers of an answer that say something about it. All others stay out of files.
pub fn kept(headers: &[(String, String)]) -> Vec<(String, String)> {
    const NAMES: &[&str] = &[
        "content-type",
        "date",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "request-id",
        "x-request-id",
        "x-goog-request-id",
        "mistral-correlation-id",
    ];
    let matters = |name: &str| NAMES.contains(&name) || name.contains("ratelimit-");
    headers.iter().filter(|(name, _)| matters(name)).cloned().collect()
}

/// Covers up keys: those that are known, and words that look like one.
#[derive(Clone, Default)]
pub struct Cover {
    known: Vec<String>,
}

impl std::fmt::Debug for Cover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cover({} known)", self.known.len())
    }
}

impl Cover {
    /// A cover for these keys.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Cover {
        let mut known: Vec<String> = Vec::new();
        for key in keys.into_iter().filter(|key| key.len() >= MIN_KNOWN) {
            // As it is, and as it stands inside JSON.
            let quoted = Value::from(key).to_string();
            known.extend([key.to_owned(), quoted[1..quoted.len() - 1].to_owned()]);
        }
        // A key that holds another is covered whole.
        known.sort_by_key(|key| std::cmp::Reverse(key.len()));
        known.dedup();
        Cover { known }
    }

    /// The text without keys.
    pub fn text(&self, text: &str) -> String {
        let known = |text: String, key: &String| match text.contains(key) {
            true => text.replace(key, COVER),
            false => text,
        };
        cover_lookalikes(&self.known.iter().fold(text.to_owned(), known), COVER)
    }

    /// The value without keys in any of its texts.
    pub fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| (key.clone(), self.json(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for key in keys {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_sorted(&map[key], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_sorted(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

/// Keys whose texts say what a part of a question is.
const TELLING: &[&str] = &["model", "role", "type", "name", "tool_use_id", "call_id"];

fn write_form(value: &Value, key: Option<&str>, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for key in keys {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_form(&map[key], Some(key), out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_form(item, None, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::String(text) if key.is_some_and(|key| TELLING.contains(&key)) => out.push_str(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push('.'),
    }
}

fn alike(ours: &Value, theirs: &Value) -> usize {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.iter().filter_map(|(key, value)| Some(alike(value, theirs.get(key)?))).sum()
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.iter().zip(theirs).map(|(ours, theirs)| alike(ours, theirs)).sum()
        }
        _ => usize::from(ours == theirs),
    }
}

/// Whether two values differ; then `place` is where.
fn differs(ours: &Value, theirs: &Value, place: &mut String) -> bool {
    if ours == theirs {
        return false;
    }
    let here = place.len();
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let mut keys: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
            keys.sort();
            for key in keys {
                place.push_str(&format!(".{key}"));
                match (ours.get(key), theirs.get(key)) {
                    (Some(ours), Some(theirs)) if !differs(ours, theirs, place) => {}
                    _ => return true,
                }
                place.truncate(here);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            for at in 0..ours.len().max(theirs.len()) {
                place.push_str(&format!("[{at}]"));
                match (ours.get(at), theirs.get(at)) {
                    (Some(ours), Some(theirs)) if !differs(ours, theirs, place) => {}
                    _ => return true,
                }
                place.truncate(here);
            }
        }
        _ => {}
    }
    true
}
