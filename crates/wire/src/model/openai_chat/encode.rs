//! The body of a chat completions request.

use std::borrow::Cow;
use std::collections::BTreeMap;

use machine::message::Part;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::NAME;
use super::details;
use super::history::{self, Heard, History, IdForm, Said, Turn};
use crate::model::{
    Effort, HttpRequest, ModelRequest, ToolChoice, ToolDeclaration, Vendor, Written, schema,
    sent_name,
};

/// Between a tool's result and a person, where the server wants the model to speak first.
const BRIDGE: &str = "Understood.";

/// What the model is told if nothing was said since it last spoke.
const CONTINUE: &str = "Continue.";

pub(super) fn request(
    vendor: &Vendor,
    request: &ModelRequest,
    written: &mut Written,
) -> HttpRequest {
    let form = if vendor.short_tool_ids { IdForm::Nine } else { IdForm::AtMost(40) };
    let known = format!("{NAME} {vendor:?} {} {}", request.model, request.moved);
    written.follow(&known, &request.messages);
    let moved = |written: &Written| request.moved.saturating_sub(written.begun());
    if let Some(stable) = written.stable(&request.messages) {
        let history = History::new(stable, form, written.ids(), moved(written));
        if history.is_settled() {
            let (items, ids) = (messages(vendor, &request.model, history.turns), history.ids);
            written.add(stable, &items, ids);
        }
    }
    let rest = written.rest(&request.messages);
    let history = History::new(rest, form, written.ids(), moved(written));
    let items = messages(vendor, &request.model, history.turns);
    let system = (!request.system.is_empty()).then_some(Wire::System { content: &request.system });
    let limit = |named: bool| request.max_tokens.filter(|_| named);
    let has_tools = !request.tools.is_empty();
    let rest = Rest {
        stream: true,
        stream_options: (!vendor.no_stream_options)
            .then_some(StreamOptions { include_usage: true }),
        tools: request.tools.written(NAME, |tools| tools.iter().map(Tool::new).collect::<Vec<_>>()),
        tool_choice: has_tools.then(|| Choice::new(vendor, &request.tool_choice)),
        max_tokens: limit(!vendor.max_completion_tokens),
        max_completion_tokens: limit(vendor.max_completion_tokens),
        temperature: request.temperature.filter(|_| takes_temperature(&request.model)),
        reasoning_effort: request.effort.map(effort),
        response_format: request.output_schema.as_ref().map(ResponseFormat::new),
    };
    let head = Head { model: &request.model };
    let messages = ("messages", system, &items[..]);
    written.request("/chat/completions".to_owned(), headers(), &head, messages, &rest)
}

/// The headers of every request of both OpenAI dialects.
pub(in crate::model) fn headers() -> Vec<(String, String)> {
    [("content-type", "application/json"), ("accept", "text/event-stream")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// OpenAI's models that reason refuse any temperature. Names of others say nothing about it.
pub(in crate::model) fn takes_temperature(model: &str) -> bool {
    // Gateways put the maker before the name.
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let number = |rest: &str| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<u32>().ok()
    };
    match (name.strip_prefix("gpt-"), name.strip_prefix('o')) {
        _ if name.starts_with("gpt-5-chat") => true,
        (Some(rest), _) => number(rest).is_none_or(|version| version < 5),
        (_, Some(rest)) => number(rest).is_none(),
        _ => true,
    }
}

/// Whether a model of OpenAI can be bound to a schema; its older ones cannot.
pub(in crate::model) fn is_bound(model: &str) -> bool {
    const OLDER: [&str; 6] =
        ["gpt-3", "gpt-4-", "gpt-4o-2024-05-13", "chatgpt-", "o1-mini", "o1-preview"];
    model != "gpt-4" && !OLDER.iter().any(|older| model.starts_with(older))
}

/// The word for an effort, in both OpenAI dialects.
pub(in crate::model) fn effort(effort: Effort) -> &'static str {
    match effort {
        Effort::None => "none",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

fn messages<'a>(vendor: &Vendor, model: &str, turns: Vec<Turn<'a>>) -> Vec<Wire<'a>> {
    let mut messages = Vec::with_capacity(turns.len() + 1);
    for turn in turns {
        match turn {
            Turn::User(heard) => {
                if vendor.assistant_after_tools
                    && matches!(messages.last(), Some(Wire::Tool { .. }))
                {
                    messages.push(Wire::said(BRIDGE));
                }
                let parts = heard.into_iter().map(|heard| user_part(vendor, heard)).collect();
                messages.extend(Content::new(parts).map(|content| Wire::User { content }));
            }
            Turn::Assistant(said) => assistant(said, model, &mut messages),
        }
    }
    // A turn that its own provider would have gone on with ends with the model; here somebody has to ask.
    if vendor.assistant_after_tools && matches!(messages.last(), Some(Wire::Assistant { .. })) {
        messages.push(Wire::User { content: Content::Text(CONTINUE.into()) });
    }
    messages
}

/// One message for what the model said, one more for each tool's result.
fn assistant<'a>(said: Vec<Said<'a>>, model: &str, messages: &mut Vec<Wire<'a>>) {
    let mut parts = Vec::new();
    let mut reasoning: BTreeMap<&str, String> = BTreeMap::new();
    let mut reasoning_details = Vec::new();
    let mut tool_calls = Vec::new();
    let mut results = Vec::new();
    for Said { block, call, is_moved } in said {
        let native = history::native(block, NAME, model);
        match &block.part {
            Part::Text { text } => parts.push(ContentPart::Text { text: Cow::Borrowed(text) }),
            Part::Media { media_type, name, .. } => {
                let text = history::left_out(media_type, name.as_deref()).into();
                parts.push(ContentPart::Text { text });
            }
            Part::Thinking { .. } | Part::Opaque => match native {
                Some(raw) if raw["type"].is_string() => parts.push(ContentPart::Raw(raw)),
                Some(raw) if raw[details::FIELD].is_array() => {
                    let all = raw[details::FIELD].as_array().into_iter().flatten();
                    reasoning_details.extend(all.filter(|d| !(is_moved && details::is_bound(d))));
                }
                // Reasoning that came in a field of its own goes back in the same field.
                Some(Value::Object(fields)) => {
                    for (name, text) in fields {
                        reasoning
                            .entry(name)
                            .or_default()
                            .push_str(text.as_str().unwrap_or_default());
                    }
                }
                Some(_) | None => {}
            },
            Part::ToolUse { name, input, .. } => {
                let Some(call) = call else { continue };
                let function =
                    Function { name: sent_name(name), arguments: history::arguments(input) };
                let extra_content = native.and_then(|raw| raw.get("extra_content"));
                tool_calls.push(ToolCall {
                    id: call.id.clone(),
                    kind: "function",
                    function,
                    extra_content,
                });
                results.push(Wire::Tool { tool_call_id: call.id, content: call.result });
            }
            Part::ToolResult { .. } => {}
        }
    }
    let content = Content::new(parts);
    if content.is_none() && tool_calls.is_empty() {
        return;
    }
    if !reasoning_details.is_empty() {
        // They hold the same words.
        reasoning.clear();
    }
    messages.push(Wire::Assistant { content, reasoning, reasoning_details, tool_calls });
    messages.append(&mut results);
}

fn user_part<'a>(vendor: &Vendor, heard: Heard<'a>) -> ContentPart<'a> {
    let (media_type, data, name) = match heard {
        Heard::Text(text) => return ContentPart::Text { text },
        Heard::Media { media_type, data, name } => (media_type, data, name),
    };
    if media_type.starts_with("image/") {
        let image_url = ImageUrl { url: history::data_url(media_type, data) };
        return ContentPart::ImageUrl { image_url };
    }
    if let Some(text) = history::document_text(media_type, data, name) {
        return ContentPart::Text { text: text.into() };
    }
    let format = match media_type {
        "audio/wav" | "audio/x-wav" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    };
    if let (Some(format), false) = (format, vendor.document_url) {
        return ContentPart::InputAudio { input_audio: InputAudio { data, format } };
    }
    if media_type.starts_with("audio/") || media_type.starts_with("video/") {
        return ContentPart::Text { text: history::left_out(media_type, name).into() };
    }
    let url = history::data_url(media_type, data);
    let name = name.map_or_else(|| history::file_name(media_type).into(), Cow::Borrowed);
    if vendor.document_url {
        ContentPart::DocumentUrl { document_url: url, document_name: name }
    } else {
        ContentPart::File { file: File { filename: name, file_data: url } }
    }
}

/// What comes before the messages.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
}

/// What comes after them.
#[derive(Serialize)]
struct Rest<'a> {
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Wire<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        /// Null beside tool calls, as OpenAI itself writes it: gateways refuse empty text.
        content: Option<Content<'a>>,
        #[serde(flatten)]
        reasoning: BTreeMap<&'a str, String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning_details: Vec<&'a Value>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: String,
        content: Cow<'a, str>,
    },
}

impl Wire<'_> {
    fn said(text: &str) -> Wire<'_> {
        let content = Some(Content::Text(Cow::Borrowed(text)));
        let (reasoning, reasoning_details) = (BTreeMap::new(), Vec::new());
        Wire::Assistant { content, reasoning, reasoning_details, tool_calls: Vec::new() }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

impl<'a> Content<'a> {
    /// Text alone is one string: not every compatible server takes parts. None if there is nothing.
    fn new(mut parts: Vec<ContentPart<'a>>) -> Option<Content<'a>> {
        if parts.len() == 1
            && let ContentPart::Text { text } = &mut parts[0]
        {
            return Some(Content::Text(std::mem::take(text)));
        }
        let texts: Option<Vec<&str>> = parts
            .iter()
            .map(|part| match part {
                ContentPart::Text { text } => Some(&**text),
                _ => None,
            })
            .collect();
        match texts {
            Some(texts) if texts.is_empty() => None,
            Some(texts) => Some(Content::Text(texts.join("\n\n").into())),
            None => Some(Content::Parts(parts)),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text {
        text: Cow<'a, str>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
    File {
        file: File<'a>,
    },
    DocumentUrl {
        document_url: String,
        document_name: Cow<'a, str>,
    },
    InputAudio {
        input_audio: InputAudio<'a>,
    },
    #[serde(untagged)]
    Raw(&'a Value),
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct File<'a> {
    filename: Cow<'a, str>,
    file_data: String,
}

#[derive(Serialize)]
struct InputAudio<'a> {
    data: &'a str,
    format: &'static str,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Declared<'a>,
}

#[derive(Serialize)]
struct Declared<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Value,
}

impl Tool<'_> {
    fn new(tool: &ToolDeclaration) -> Tool<'_> {
        let parameters = schema::parameters(&tool.schema);
        let function = Declared { name: &tool.name, description: &tool.description, parameters };
        Tool { kind: "function", function }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Tool {
        #[serde(rename = "type")]
        kind: &'static str,
        function: Named<'a>,
    },
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

impl<'a> Choice<'a> {
    fn new(vendor: &Vendor, choice: &'a ToolChoice) -> Choice<'a> {
        match choice {
            ToolChoice::Auto => Choice::Word("auto"),
            ToolChoice::None => Choice::Word("none"),
            ToolChoice::Any if vendor.tool_choice_any => Choice::Word("any"),
            ToolChoice::Any => Choice::Word("required"),
            ToolChoice::Tool(name) => Choice::Tool { kind: "function", function: Named { name } },
        }
    }
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'static str,
    schema: &'a Value,
    strict: bool,
}

impl ResponseFormat<'_> {
    fn new(schema: &Value) -> ResponseFormat<'_> {
        let strict = history::is_strict(schema);
        ResponseFormat {
            kind: "json_schema",
            json_schema: JsonSchema { name: "answer", schema, strict },
        }
    }
}
