//! One connection's talk: what a line asks for, and what to do about it.

#[cfg(test)]
mod tests;

use machine::tool::EffectClass;
use serde_json::{Map, Value, json};

use super::code;
use super::json::{Unfit, parse};
use super::{FALLBACK, MAX_FRAME, PROTOCOL};

/// Where a request may name the key that stands for its call, in `_meta`.
const KEY: &str = "drivetrain/key";

/// The longest text that is taken as an id or a key, in bytes.
const MAX_ID: usize = 128;

/// A request's id: text or a whole number, given back as it came.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestId {
    /// A number.
    Number(i64),
    /// Text.
    Text(String),
}

impl RequestId {
    fn read(value: &Value) -> Option<RequestId> {
        match value {
            Value::Number(number) => number.as_i64().map(RequestId::Number),
            Value::String(text) if text.len() <= MAX_ID => Some(RequestId::Text(text.clone())),
            _ => None,
        }
    }

    /// The id as JSON.
    pub fn json(&self) -> Value {
        match self {
            RequestId::Number(number) => json!(number),
            RequestId::Text(text) => json!(text),
        }
    }
}

/// A tool as a worker sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name here: letters, digits, `_` and `-`. A request must name it byte for byte.
    pub name: String,
    /// Its name in rules and records.
    pub means: String,
    /// What it does.
    pub description: String,
    /// Its parameters as a JSON schema.
    pub schema: Value,
    /// How repeatable it is, where that is said to whoever is offered it.
    pub class: Option<EffectClass>,
}

/// What a worker is offered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Toolbox {
    /// The tools.
    pub tools: Vec<Tool>,
    /// The folder that they work in, absolute; none for a task without one.
    pub root: Option<String>,
}

/// What to do about a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Reaction {
    /// Nothing.
    Ignore,
    /// Send this line.
    Answer(String),
    /// Send this line, if there is one, and close the connection: nothing more can be understood.
    Close(Option<String>),
    /// Ask for a call and answer this id with what comes of it.
    Call {
        /// The request.
        id: RequestId,
        /// The key that the worker names for it, if it does.
        key: Option<String>,
        /// The tool, as rules and records name it.
        tool: String,
        /// Its parameters.
        input: Value,
        /// What is to be named when it is told how far the call is.
        progress: Option<RequestId>,
    },
    /// The worker wants no answer to this request of its any more.
    Withdraw(RequestId),
}

/// One connection's state.
#[derive(Debug, Default)]
pub struct Session {
    initialized: bool,
}

/// A request that cannot be served: code and words.
type Fault = (i64, String);

impl Session {
    /// Takes one line.
    pub fn take(&mut self, line: &[u8], toolbox: &Toolbox) -> Reaction {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Reaction::Ignore;
        }
        let value = match parse(line) {
            Ok(value) => value,
            Err(Unfit::Foreign) => {
                let words = "expected one JSON object a line, got something else";
                return Reaction::Close(Some(error(None, code::PARSE, words)));
            }
            Err(Unfit::Malformed(why)) => {
                return Reaction::Answer(error(None, code::PARSE, &format!("not JSON: {why}")));
            }
        };
        let Value::Object(fields) = value else {
            let words = "expected one JSON object: batches are not taken";
            return Reaction::Answer(error(None, code::INVALID_REQUEST, words));
        };
        self.take_object(fields, toolbox)
    }

    fn take_object(&mut self, mut fields: Map<String, Value>, toolbox: &Toolbox) -> Reaction {
        let id = fields.get("id").and_then(RequestId::read);
        let invalid =
            |words: &str| Reaction::Answer(error(id.as_ref(), code::INVALID_REQUEST, words));
        if fields.get("jsonrpc") != Some(&json!("2.0")) {
            return invalid("expected \"jsonrpc\": \"2.0\"");
        }
        if fields.contains_key("id") && id.is_none() {
            return invalid("expected a whole number or a short text as \"id\"");
        }
        let method = match fields.remove("method") {
            Some(Value::String(method)) => method,
            Some(_) => return invalid("expected a text as \"method\""),
            // Nothing is ever asked of a worker, so no answer of its can mean anything.
            None if fields.contains_key("result") || fields.contains_key("error") => {
                return Reaction::Ignore;
            }
            None => return invalid("expected a \"method\""),
        };
        let known = ["jsonrpc", "id", "params"];
        if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return invalid(&format!("expected jsonrpc, id, method and params, got {key:?}"));
        }
        let params = match fields.remove("params") {
            None => Ok(Map::new()),
            Some(Value::Object(params)) => Ok(params),
            Some(_) => Err((code::INVALID_PARAMS, "expected a table as \"params\"".to_owned())),
        };
        let Some(id) = id else { return notified(&method, params) };
        self.requested(&id, &method, params, toolbox)
            .unwrap_or_else(|(code, words)| Reaction::Answer(error(Some(&id), code, &words)))
    }

    fn requested(
        &mut self,
        id: &RequestId,
        method: &str,
        params: Result<Map<String, Value>, Fault>,
        toolbox: &Toolbox,
    ) -> Result<Reaction, Fault> {
        let known = ["initialize", "ping", "tools/list", "tools/call", "roots/list"];
        if !known.contains(&method) {
            let words = format!("no method {method:?}: expected one of {}", known.join(", "));
            return Err((code::METHOD_NOT_FOUND, words));
        }
        let params = params?;
        let answer = |result: Value| Ok(Reaction::Answer(result_line(id, &result)));
        let ready = self.initialized;
        let not_ready = || (code::NOT_INITIALIZED, "expected initialize first".to_owned());
        match method {
            "ping" => answer(json!({})),
            "initialize" => answer(self.initialize(&params)?),
            "tools/list" => {
                only(&params, &["cursor", "_meta"])?;
                if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
                    return Err((code::INVALID_PARAMS, "there is only one page".to_owned()));
                }
                if ready { answer(listed(toolbox)) } else { Err(not_ready()) }
            }
            "roots/list" => {
                let roots = toolbox.root.iter().map(|path| json!({ "uri": uri(path) }));
                let roots: Vec<Value> = roots.collect();
                if ready { answer(json!({ "roots": roots })) } else { Err(not_ready()) }
            }
            _ => {
                let call = called(id, &params, toolbox)?;
                if ready { Ok(call) } else { Err(not_ready()) }
            }
        }
    }

    fn initialize(&mut self, params: &Map<String, Value>) -> Result<Value, Fault> {
        if self.initialized {
            return Err((code::INVALID_REQUEST, "initialized already".to_owned()));
        }
        let wrong = |words: &str| Err((code::INVALID_PARAMS, words.to_owned()));
        let Some(wanted) = params.get("protocolVersion").and_then(Value::as_str) else {
            return wrong("expected a text as \"protocolVersion\"");
        };
        if !params.get("capabilities").is_none_or(Value::is_object) {
            return wrong("expected a table as \"capabilities\"");
        }
        self.initialized = true;
        let spoken = if wanted == PROTOCOL { PROTOCOL } else { FALLBACK };
        Ok(json!({
            "protocolVersion": spoken,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "drivetrain", "version": env!("CARGO_PKG_VERSION") },
        }))
    }
}

/// A notification: nobody is told what is wrong with one.
fn notified(method: &str, params: Result<Map<String, Value>, Fault>) -> Reaction {
    let request = params.ok().and_then(|params| RequestId::read(params.get("requestId")?));
    match (method, request) {
        ("notifications/cancelled", Some(id)) => Reaction::Withdraw(id),
        _ => Reaction::Ignore,
    }
}

fn called(
    id: &RequestId,
    params: &Map<String, Value>,
    toolbox: &Toolbox,
) -> Result<Reaction, Fault> {
    let wrong = |words: String| Err((code::INVALID_PARAMS, words));
    only(params, &["name", "arguments", "_meta"])?;
    let Some(Value::String(name)) = params.get("name") else {
        return wrong("expected a text as \"name\"".to_owned());
    };
    let Some(tool) = toolbox.tools.iter().find(|tool| tool.name == *name) else {
        return wrong(format!("no tool {name:?}: tools/list names those there are"));
    };
    let input = match params.get("arguments") {
        None => json!({}),
        Some(Value::Object(fields)) => Value::Object(fields.clone()),
        Some(_) => return wrong("expected a table as \"arguments\"".to_owned()),
    };
    let key = match params.get("_meta").map(|meta| meta.as_object()) {
        None => None,
        Some(None) => return wrong("expected a table as \"_meta\"".to_owned()),
        Some(Some(meta)) => match meta.get(KEY) {
            None => None,
            Some(Value::String(key)) if is_key(key) => Some(key.clone()),
            Some(_) => {
                return wrong(format!(
                    "expected 1 to {MAX_ID} visible ASCII characters as {KEY:?} in \"_meta\""
                ));
            }
        },
    };
    let token = params.get("_meta").and_then(|meta| RequestId::read(meta.get("progressToken")?));
    Ok(Reaction::Call { id: id.clone(), key, tool: tool.means.clone(), input, progress: token })
}

fn is_key(key: &str) -> bool {
    (1..=MAX_ID).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whoever names a parameter that does not exist believes that it means something.
fn only(params: &Map<String, Value>, known: &[&str]) -> Result<(), Fault> {
    match params.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let words = format!("no parameter {key:?}: expected {}", known.join(", "));
            Err((code::INVALID_PARAMS, words))
        }
    }
}

fn listed(toolbox: &Toolbox) -> Value {
    let tools: Vec<Value> = toolbox
        .tools
        .iter()
        .map(|tool| {
            let mut said = json!({
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.schema,
            });
            if let Some(class) = tool.class {
                said["annotations"] = json!({
                    "readOnlyHint": class == EffectClass::Pure,
                    "idempotentHint": matches!(class, EffectClass::Pure | EffectClass::Keyed),
                });
            }
            said
        })
        .collect();
    json!({ "tools": tools })
}

/// A path as the address of a file, each byte that has a meaning there written as a number.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let escaped = path.bytes().map(|byte| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    format!("file://{}", escaped.collect::<String>())
}

/// The line that answers a call with its result.
pub fn result(id: &RequestId, result: &machine::tool::ToolResult) -> String {
    let mut meta = json!({ "drivetrain/status": result.status.word() });
    if let Some(exit) = result.exit {
        meta["drivetrain/exit"] = json!(exit);
    }
    let answer = json!({
        "content": [{ "type": "text", "text": result.text }],
        "isError": result.status != machine::tool::Status::Ok,
        "_meta": meta,
    });
    result_line(id, &answer)
}

/// The line that answers a call that the task did not take.
pub fn refused(id: &RequestId, reason: &str) -> String {
    error(Some(id), code::REFUSED, reason)
}

/// The line for a worker whose last line grew over the limit; with its id, if that stands whole in its beginning.
pub fn too_long(beginning: &str) -> String {
    let words = format!("expected one JSON object a line of at most {MAX_FRAME} bytes");
    error(early_id(beginning).as_ref(), code::INVALID_REQUEST, &words)
}

/// The id of an object that breaks off, if it is among the first of its keys.
pub(crate) fn early_id(beginning: &str) -> Option<RequestId> {
    let mut rest = beginning.trim_start().strip_prefix('{')?;
    loop {
        let Value::String(key) = leading(&mut rest)? else { return None };
        rest = rest.trim_start().strip_prefix(':')?;
        let value = leading(&mut rest)?;
        // Without what follows it, a number may be the beginning of a longer one.
        rest = rest.trim_start().strip_prefix(',')?;
        if key == "id" {
            return RequestId::read(&value);
        }
    }
}

/// Takes one whole value off the text.
fn leading(text: &mut &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    *text = &text[values.byte_offset()..];
    Some(value)
}

fn result_line(id: &RequestId, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id.json(), "result": result }).to_string()
}

fn error(id: Option<&RequestId>, code: i64, words: &str) -> String {
    let id = id.map_or(Value::Null, RequestId::json);
    let error = json!({ "code": code, "message": words });
    json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
}

impl Toolbox {
    /// The built-in tools and those of a task's servers. Where two would have one name, the first has it.
    pub fn new(offers: &[machine::server::ToolOffer], root: Option<String>) -> Toolbox {
        let built_in = machine::tool::TOOLS.iter().map(|tool| Tool {
            name: machine::tool::model_name(tool.name).into_owned(),
            means: tool.name.to_owned(),
            description: tool.summary.to_owned(),
            schema: machine::tool::schema(tool),
            class: None,
        });
        let offered = offers.iter().map(|offer| Tool {
            name: offer.name.clone(),
            means: offer.name.clone(),
            description: offer.summary.clone(),
            schema: offer.schema.clone(),
            class: None,
        });
        let mut tools: Vec<Tool> = Vec::new();
        for tool in built_in.chain(offered) {
            if !tools.iter().any(|known| known.name == tool.name) {
                tools.push(tool);
            }
        }
        Toolbox { tools, root }
    }
}
