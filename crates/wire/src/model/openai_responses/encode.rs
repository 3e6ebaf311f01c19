//! The body of a Responses request.

use std::borrow::Cow;

use machine::message::Part;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::NAME;
use crate::model::openai_chat::encode::{effort, headers, takes_temperature};
use crate::model::openai_chat::history::{self, Heard, History, IdForm, Said, Turn};
use crate::model::{
    HttpRequest, ModelRequest, ToolChoice, ToolDeclaration, Written, schema, sent_name,
};

/// Families that do not reason; they refuse to be asked for encrypted reasoning.
const WITHOUT_REASONING: &[&str] = &["gpt-3", "gpt-4", "chatgpt-"];

pub(super) fn request(request: &ModelRequest, written: &mut Written) -> HttpRequest {
    const FORM: IdForm = IdForm::AtMost(64);
    written.follow(&format!("{NAME} {}", request.model), &request.messages);
    if let Some(stable) = written.stable(&request.messages) {
        let history = History::new(stable, FORM, written.ids(), 0);
        if history.is_settled() {
            let (items, ids) = (input(&request.model, history.turns), history.ids);
            written.add(stable, &items, ids);
        }
    }
    let history = History::new(written.rest(&request.messages), FORM, written.ids(), 0);
    let items = input(&request.model, history.turns);
    let has_tools = !request.tools.is_empty();
    let rest = Rest {
        tools: request.tools.written(NAME, |tools| tools.iter().map(Tool::new).collect::<Vec<_>>()),
        tool_choice: has_tools.then(|| Choice::new(&request.tool_choice)),
        max_output_tokens: request.max_tokens,
        temperature: request.temperature.filter(|_| takes_temperature(&request.model)),
        reasoning: request.effort.map(|e| Reasoning { effort: effort(e), summary: "auto" }),
        include: if reasons(request) { &["reasoning.encrypted_content"] } else { &[] },
        text: request.output_schema.as_ref().map(|schema| Text { format: Format::new(schema) }),
        store: false,
        stream: true,
    };
    let head = Head { model: &request.model, instructions: &request.system };
    written.request("/responses".to_owned(), headers(), &head, ("input", None, &items), &rest)
}

fn reasons(request: &ModelRequest) -> bool {
    let name = request.model.strip_prefix("ft:").unwrap_or(&request.model);
    let is_plain =
        name.contains("-chat") || WITHOUT_REASONING.iter().any(|family| name.starts_with(family));
    request.effort.is_some() || !is_plain
}

fn input<'a>(model: &str, turns: Vec<Turn<'a>>) -> Vec<Item<'a>> {
    let mut items = Vec::with_capacity(2 * turns.len());
    for turn in turns {
        match turn {
            Turn::User(heard) => {
                let content = Content::new(heard.into_iter().map(user_part).collect());
                items.push(Item::Message { role: "user", content });
            }
            Turn::Assistant(said) => assistant(said, model, &mut items),
        }
    }
    items
}

fn assistant<'a>(said: Vec<Said<'a>>, model: &str, items: &mut Vec<Item<'a>>) {
    let begin = items.len();
    let mut results = Vec::new();
    for Said { block, call, .. } in said {
        let native = history::native(block, NAME, model).filter(|raw| is_taken_back(raw));
        let text = match (&block.part, native, call) {
            (Part::ToolUse { name, input, .. }, native, Some(call)) => {
                let name = sent_name(name);
                match native.filter(|raw| raw["call_id"] == *call.id && raw["name"] == *name) {
                    Some(raw) => items.push(Item::Raw(raw)),
                    None => items.push(Item::FunctionCall {
                        call_id: call.id.clone(),
                        name,
                        arguments: history::arguments(input),
                    }),
                }
                results.push(Item::FunctionCallOutput { call_id: call.id, output: call.result });
                continue;
            }
            (_, Some(raw), _) => {
                if !is_reasoning(raw) || can_go_back(raw) {
                    items.push(Item::Raw(raw));
                }
                continue;
            }
            (Part::Text { text }, ..) => Cow::Borrowed(text.as_str()),
            (Part::Media { media_type, name, .. }, ..) => {
                Cow::Owned(history::left_out(media_type, name.as_deref()))
            }
            (Part::Thinking { .. } | Part::Opaque, ..) => continue,
            (Part::ToolUse { .. } | Part::ToolResult { .. }, ..) => continue,
        };
        items.push(Item::Message { role: "assistant", content: Content::Text(text) });
    }
    // Reasoning must be followed by what it led to; an interrupted answer has only the reasoning.
    while items.len() > begin && matches!(items.last(), Some(Item::Raw(raw)) if is_reasoning(raw)) {
        items.pop();
    }
    items.append(&mut results);
}

/// Items of compatible servers may lack what the next request needs; those are told in words, if at all.
fn is_taken_back(raw: &Value) -> bool {
    match raw["type"].as_str() {
        Some("message") => raw["role"] == "assistant" && raw["content"].is_array(),
        Some("function_call") => {
            let arguments = raw["arguments"].as_str().unwrap_or_default();
            serde_json::from_str::<serde_json::Map<String, Value>>(arguments).is_ok()
        }
        Some("function_call_output") | None => false,
        Some(kind) => !kind.is_empty(),
    }
}

fn is_reasoning(raw: &Value) -> bool {
    raw["type"] == "reasoning"
}

/// Nothing is stored at the provider, so reasoning goes back by its content or not at all.
fn can_go_back(raw: &Value) -> bool {
    raw["encrypted_content"].as_str().is_some_and(|content| !content.is_empty())
        || raw["content"].as_array().is_some_and(|content| !content.is_empty())
}

fn user_part(heard: Heard<'_>) -> InputPart<'_> {
    let (media_type, data, name) = match heard {
        Heard::Text(text) => return InputPart::Text { text },
        Heard::Media { media_type, data, name } => (media_type, data, name),
    };
    if media_type.starts_with("image/") {
        let image_url = history::data_url(media_type, data);
        return InputPart::Image { image_url, detail: "auto" };
    }
    if let Some(text) = history::document_text(media_type, data, name) {
        return InputPart::Text { text: text.into() };
    }
    if media_type.starts_with("audio/") || media_type.starts_with("video/") {
        return InputPart::Text { text: history::left_out(media_type, name).into() };
    }
    InputPart::File {
        filename: name.map_or_else(|| history::file_name(media_type).into(), Cow::Borrowed),
        file_data: history::data_url(media_type, data),
    }
}

/// What comes before the conversation.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
}

/// What comes after it.
#[derive(Serialize)]
struct Rest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    store: bool,
    stream: bool,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
    summary: &'static str,
}

#[derive(Serialize)]
struct Text<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    schema: &'a Value,
    strict: bool,
}

impl Format<'_> {
    fn new(schema: &Value) -> Format<'_> {
        Format { kind: "json_schema", name: "answer", schema, strict: history::is_strict(schema) }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Content<'a>,
    },
    FunctionCall {
        call_id: String,
        name: Cow<'a, str>,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: String,
        output: Cow<'a, str>,
    },
    #[serde(untagged)]
    Raw(&'a Value),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<InputPart<'a>>),
}

impl<'a> Content<'a> {
    fn new(mut parts: Vec<InputPart<'a>>) -> Content<'a> {
        match parts.as_mut_slice() {
            [InputPart::Text { text }] => Content::Text(std::mem::take(text)),
            _ => Content::Parts(parts),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum InputPart<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { image_url: String, detail: &'static str },
    #[serde(rename = "input_file")]
    File { filename: Cow<'a, str>, file_data: String },
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Value,
    /// This API is strict unless told otherwise, and refuses schemas that are not.
    strict: bool,
}

impl Tool<'_> {
    fn new(tool: &ToolDeclaration) -> Tool<'_> {
        Tool {
            kind: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: schema::parameters(&tool.schema),
            strict: false,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Tool {
        #[serde(rename = "type")]
        kind: &'static str,
        name: &'a str,
    },
}

impl<'a> Choice<'a> {
    fn new(choice: &'a ToolChoice) -> Choice<'a> {
        match choice {
            ToolChoice::Auto => Choice::Word("auto"),
            ToolChoice::None => Choice::Word("none"),
            ToolChoice::Any => Choice::Word("required"),
            ToolChoice::Tool(name) => Choice::Tool { kind: "function", name },
        }
    }
}
