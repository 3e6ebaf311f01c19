//! A request in Google's words.

use std::borrow::Cow;
use std::sync::Arc;

use machine::message::{Block, Message, Native, Part, Role};
use serde_json::{Map, Value, json};

use super::{NAME, schema};
use crate::model::written::{Ids, Written};
use crate::model::{Effort, HttpRequest, ModelRequest, ToolChoice, sent_name};

/// What a model is told of a call that has no result.
const INTERRUPTED: &str = "interrupted: the outcome is unknown";
/// A conversation begins with the user; this stands in where the history does not.
const CONTINUED: &str = "(the conversation continues)";
/// What the model is told if nothing was said since it last spoke.
const CONTINUE: &str = "Continue.";
/// Google's own word for calls that another model made: newer models refuse a call without a signature.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn request(request: &ModelRequest, written: &mut Written) -> HttpRequest {
    let model = request.model.strip_prefix("models/").unwrap_or(&request.model);
    let generation = Generation::of(model);
    let mut body = Map::new();
    let mut system = request.system.clone();
    let mut config = generation_config(request, generation);
    if let Some(wanted) = &request.output_schema {
        if request.tools.is_empty() || generation.joins_tools_and_schema() {
            config.insert("responseMimeType".to_owned(), "application/json".into());
            config.insert("responseSchema".to_owned(), schema::reduce(wanted));
        } else {
            // Refused together with tools, so that it can only be asked for.
            let asked = format!(
                "Answer with one JSON value that follows this schema, and with nothing else: {wanted}"
            );
            let gap = if system.is_empty() { "" } else { "\n\n" };
            system.push_str(&format!("{gap}{asked}"));
        }
    }
    if !system.is_empty() {
        body.insert("systemInstruction".to_owned(), json!({"parts": [{"text": system}]}));
    }
    if !request.tools.is_empty() {
        let declarations: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                let parameters = schema::parameters(&tool.schema);
                let mut declaration = json!({"name": tool.name, "description": tool.description});
                if schema::has_properties(&parameters) {
                    declaration["parameters"] = parameters;
                }
                declaration
            })
            .collect();
        body.insert("tools".to_owned(), json!([{"functionDeclarations": declarations}]));
        let calling = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some(json!({"mode": "NONE"})),
            ToolChoice::Any => Some(json!({"mode": "ANY"})),
            ToolChoice::Tool(name) => Some(json!({"mode": "ANY", "allowedFunctionNames": [name]})),
        };
        if let Some(calling) = calling {
            body.insert("toolConfig".to_owned(), json!({"functionCallingConfig": calling}));
        }
    }
    if !config.is_empty() {
        body.insert("generationConfig".to_owned(), config.into());
    }
    written.follow(&format!("{NAME} {}", request.model), &request.messages);
    if let Some(stable) = written.stable(&request.messages) {
        let history = Contents::new(stable, model, generation, written);
        if history.is_settled() {
            written.add(stable, &history.list(), Ids::default());
        }
    }
    let mut history = Contents::new(written.rest(&request.messages), model, generation, written);
    history.answer(&mut Vec::new());
    let list = history.list();
    // The conversation is the first field, as the fields are in the order of their names.
    let path = format!("/v1beta/{}:streamGenerateContent?alt=sse", resource(model));
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    written.request(path, headers, &json!({}), ("contents", None, &list), &body)
}

/// `models/NAME`, or the name itself if it says which kind of model (`tunedModels/NAME`).
fn resource(model: &str) -> String {
    let mut path = if model.contains('/') { String::new() } else { "models/".to_owned() };
    for byte in model.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => path.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// What a model's name tells about what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// No thinking that could be set, and models nobody knows.
    Plain,
    /// Thinking by a budget of tokens; the smallest budget it takes.
    Budget { least: u64 },
    /// Thinking by a word; the words for none and for some.
    Level { none: &'static str },
}

impl Generation {
    fn of(model: &str) -> Generation {
        let Some(version) = model.strip_prefix("gemini-") else { return Generation::Plain };
        let is_pro = model.contains("-pro");
        let number = version.split('-').next().unwrap_or_default();
        let mut digits = number.split('.').map(|part| part.parse::<u32>().ok());
        let (major, minor) = (digits.next().flatten(), digits.next().flatten().unwrap_or(0));
        match (major, number) {
            (Some(2), "2.5") if is_pro => Generation::Budget { least: 128 },
            (Some(2), "2.5") => Generation::Budget { least: 0 },
            // Since 3.7 none of them takes the word for next to nothing, as no pro ever did.
            (Some(3), _) if !is_pro && minor < 7 => Generation::Level { none: "minimal" },
            (Some(3..), _) => Generation::Level { none: "low" },
            // An alias of the newest (`gemini-flash-latest`).
            (None, _) if model.ends_with("-latest") => Generation::Level { none: "low" },
            _ => Generation::Plain,
        }
    }

    fn joins_tools_and_schema(self) -> bool {
        matches!(self, Generation::Level { .. })
    }

    fn wants_signatures(self) -> bool {
        matches!(self, Generation::Level { .. })
    }

    fn thinking(self, effort: Effort) -> Option<Value> {
        let shown = effort != Effort::None;
        match self {
            Generation::Plain => None,
            Generation::Budget { least } => {
                let budget = match effort {
                    Effort::None => least,
                    Effort::Low => 1024,
                    Effort::Medium => 8192,
                    Effort::High => 24_576,
                };
                Some(json!({"thinkingBudget": budget, "includeThoughts": shown}))
            }
            Generation::Level { none } => {
                let level = match effort {
                    Effort::None => none,
                    Effort::Low => "low",
                    Effort::Medium => "medium",
                    Effort::High => "high",
                };
                Some(json!({"thinkingLevel": level, "includeThoughts": shown}))
            }
        }
    }
}

fn generation_config(request: &ModelRequest, generation: Generation) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(limit) = request.max_tokens {
        config.insert("maxOutputTokens".to_owned(), limit.into());
    }
    if let Some(temperature) = request.temperature.filter(|number| number.is_finite()) {
        config.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(thinking) = request.effort.and_then(|effort| generation.thinking(effort)) {
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    config
}

/// A call that waits for its response.
struct Call<'m> {
    /// The id in the history.
    id: &'m str,
    name: Cow<'m, str>,
    /// The id that was sent, which the response repeats; none if the call went without.
    sent: Option<String>,
}

struct Contents<'m> {
    model: &'m str,
    generation: Generation,
    list: Vec<Value>,
    open: Vec<Call<'m>>,
    /// Whether the conversation begins with it.
    is_first: bool,
}

/// The conversation: roles take turns, and every call is answered in the turn after it.
impl<'m> Contents<'m> {
    fn new(
        messages: &'m [Arc<Message>],
        model: &'m str,
        generation: Generation,
        before: &Written,
    ) -> Contents<'m> {
        let (list, open, is_first) = (Vec::new(), Vec::new(), before.is_empty());
        let mut contents = Contents { model, generation, list, open, is_first };
        for run in messages.chunk_by(|a, b| a.role == b.role) {
            match run.first().map(|message| message.role) {
                Some(Role::User) => contents.user(run),
                Some(Role::Assistant) => run.iter().for_each(|message| contents.assistant(message)),
                None => {}
            }
        }
        contents
    }

    /// Whether nothing that follows can change it, if an answer follows.
    fn is_settled(&self) -> bool {
        self.open.is_empty() && self.list.last().is_some_and(|content| content["role"] == "user")
    }

    /// The conversation as it is sent.
    fn list(self) -> Vec<Value> {
        let mut list = self.list;
        if self.is_first && list.first().is_none_or(|content| content["role"] == "model") {
            list.insert(0, json!({"role": "user", "parts": [{"text": CONTINUED}]}));
        }
        // A turn that its own provider would have gone on with ends with the model; here somebody has to ask.
        if list.last().is_some_and(|content| content["role"] == "model") {
            list.push(json!({"role": "user", "parts": [{"text": CONTINUE}]}));
        }
        list
    }

    /// What was said to the model in one go: the results of its calls first, in their order.
    fn user(&mut self, run: &'m [Arc<Message>]) {
        let mut blocks: Vec<&'m Block> = run.iter().flat_map(|message| &message.blocks).collect();
        self.answer(&mut blocks);
        let parts = blocks.into_iter().filter_map(|block| match &block.part {
            Part::Text { text } => text_part(text),
            // A result of no call that was sent: what it says is kept.
            Part::ToolResult { name, text, .. } => {
                text_part(&format!("[result of {name}]\n{text}"))
            }
            Part::Media { media_type, data, .. } => media_part(media_type, data),
            Part::Thinking { .. } | Part::ToolUse { .. } | Part::Opaque => None,
        });
        self.push("user", parts.collect());
    }

    /// One message of the model. Its calls stay open until the next turn answers them.
    fn assistant(&mut self, message: &'m Message) {
        self.answer(&mut Vec::new());
        let mut parts = Vec::new();
        for block in &message.blocks {
            let own = block.native.as_ref().filter(|native| native.dialect == NAME);
            if let Part::ToolUse { id, name, input } = &block.part {
                let part = self.call(id, name, input, own);
                parts.push(part);
                continue;
            }
            if let Some(own) = own
                && same_model(&own.model, self.model)
            {
                parts.push(own.raw.clone());
                continue;
            }
            parts.extend(match &block.part {
                Part::Text { text } => text_part(text),
                Part::Media { media_type, data, .. } => media_part(media_type, data),
                Part::Opaque => own.and_then(|own| unsigned(&own.raw)),
                Part::Thinking { .. } | Part::ToolUse { .. } | Part::ToolResult { .. } => None,
            });
        }
        self.push("model", parts);
    }

    fn call(&mut self, id: &'m str, name: &'m str, input: &Value, own: Option<&Native>) -> Value {
        let name = sent_name(name);
        let kept = own.filter(|own| {
            same_model(&own.model, self.model) && own.raw["functionCall"]["name"] == *name
        });
        let is_first = self.open.is_empty();
        let (part, sent) = match kept {
            Some(own) => {
                let sent = own.raw["functionCall"]["id"].as_str().map(str::to_owned);
                (own.raw.clone(), sent)
            }
            None => {
                let mut call = json!({"name": name, "args": input});
                if !input.is_object() {
                    call["args"] = json!({});
                }
                if !id.is_empty() {
                    call["id"] = id.into();
                }
                let mut part = json!({"functionCall": call});
                if is_first && self.generation.wants_signatures() {
                    part["thoughtSignature"] = NO_SIGNATURE.into();
                }
                (part, (!id.is_empty()).then(|| id.to_owned()))
            }
        };
        self.open.push(Call { id, name, sent });
        part
    }

    /// Answers the open calls with the results among `blocks`, which are taken out.
    fn answer(&mut self, blocks: &mut Vec<&'m Block>) {
        let mut parts = Vec::new();
        for call in std::mem::take(&mut self.open) {
            let found = blocks.iter().position(
                |block| matches!(&block.part, Part::ToolResult { id, .. } if id == call.id),
            );
            let response = match found.map(|at| &blocks.remove(at).part) {
                Some(Part::ToolResult { text, is_error: false, .. }) => json!({"output": text}),
                Some(Part::ToolResult { text, .. }) => json!({"error": text}),
                _ => json!({"error": INTERRUPTED}),
            };
            let mut answer = json!({"name": call.name, "response": response});
            if let Some(id) = call.sent {
                answer["id"] = id.into();
            }
            parts.push(json!({"functionResponse": answer}));
        }
        self.push("user", parts);
    }

    /// Adds parts, to the turn before if it is of the same role.
    fn push(&mut self, role: &str, parts: Vec<Value>) {
        if parts.is_empty() {
            return;
        }
        if let Some(last) = self.list.last_mut()
            && last["role"] == role
            && let Some(Value::Array(before)) = last.get_mut("parts")
        {
            before.extend(parts);
        } else {
            self.list.push(json!({"role": role, "parts": parts}));
        }
    }
}

/// Whether an answer of `made` belongs to a request for `asked`: the same name, or one with a version after it.
fn same_model(made: &str, asked: &str) -> bool {
    let made = made.strip_prefix("models/").unwrap_or(made);
    let versioned = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.starts_with('-'))
    };
    !made.is_empty() && (made == asked || versioned(made, asked) && is_version(made, asked))
}

/// Whether what follows the asked name is a version (`-001`, `-preview-09-2025`) and no other model (`-lite`).
fn is_version(made: &str, asked: &str) -> bool {
    let rest = made.get(asked.len()..).unwrap_or_default();
    rest.split('-').filter(|word| !word.is_empty()).all(|word| {
        word.bytes().all(|byte| byte.is_ascii_digit()) || matches!(word, "preview" | "exp")
    })
}

fn text_part(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({"text": text}))
}

fn media_part(media_type: &str, data: &str) -> Option<Value> {
    (!data.is_empty()).then(|| json!({"inlineData": {"mimeType": media_type, "data": data}}))
}

/// A part of another model of Google's without its signature.
fn unsigned(raw: &Value) -> Option<Value> {
    let mut part = raw.as_object()?.clone();
    part.remove("thoughtSignature");
    (!part.is_empty()).then(|| part.into())
}
