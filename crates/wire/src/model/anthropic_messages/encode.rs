//! Requests of the Messages API. Built from borrowed parts, so that a long history is written once and never
//! copied; what the API's rules need beyond the history is added on the way, never stored.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use machine::message::{Block, Message, Native, Part, Role};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::NAME;
use crate::model::written::{Ids, Written};
use crate::model::{Effort, HttpRequest, ModelRequest, ToolChoice, schema, sent_name};

pub(super) fn encode(request: &ModelRequest, written: &mut Written) -> HttpRequest {
    let max_tokens = request.max_tokens.unwrap_or_else(|| default_max_tokens(&request.model));
    let (thinking, effort) = thinking(request, max_tokens);
    // The names of all tools that were ever called are needed where none is declared.
    if request.tools.is_empty() && !written.is_nothing() {
        return encode(request, &mut Written::nothing());
    }
    let thoughts = Thoughts::of(&request.model, thinking);
    let form = format!("{NAME} {} {} {thoughts:?}", request.model, request.moved);
    written.follow(&form, &request.messages);
    if let Some(stable) = written.stable(&request.messages) {
        let mut history = History::new(request, thoughts, written);
        history.take(stable);
        if history.is_settled() {
            let (turns, ids) = (history.turns, history.ids);
            written.add(stable, &turns, ids);
        }
    }
    let mut history = History::new(request, thoughts, written);
    history.take(written.rest(&request.messages));
    history.end();
    // What marks the end of the cache, and what decides on thinking, must be among what is written anew.
    if !written.is_empty() && !history.is_apart() {
        return encode(request, &mut Written::nothing());
    }
    let is_budgeted = matches!(thinking, Some(Thinking::Enabled { .. }));
    if is_budgeted && continues_without_thought(&history.turns) {
        // So it does not think, and thoughts from before are refused then.
        let nothing = Written::nothing();
        let mut history = History::new(request, Thoughts::LeftOut, &nothing);
        history.take(&request.messages);
        history.end();
        return body(request, (max_tokens, None, effort), history, &nothing);
    }
    body(request, (max_tokens, thinking, effort), history, written)
}

fn body(
    request: &ModelRequest,
    (max_tokens, thinking, effort): (u64, Option<Thinking>, Option<&'static str>),
    mut history: History<'_, '_>,
    written: &Written,
) -> HttpRequest {
    let cache = request.cache.then_some(Ephemeral::DEFAULT);
    let form = if request.cache { "anthropic_messages, cached" } else { NAME };
    let mut tools = request.tools.written(form, |tools| declare(tools.iter().map(Tool::of), cache));
    let mut tool_choice = match &request.tool_choice {
        _ if tools.is_none() => None,
        ToolChoice::Auto => None,
        ToolChoice::None => Some(Choice::None),
        ToolChoice::Any => Some(Choice::Any),
        ToolChoice::Tool(name) => Some(Choice::Tool { name }),
    };
    if tools.is_none() && !history.tools.is_empty() {
        // Calls in the history need declarations, even where no further call is wanted.
        let named = declare(history.tools.iter().map(|name| Tool::named(name.clone())), cache);
        // Structs of texts and values: writing them to memory cannot fail.
        tools = to_raw_value(&named).ok().map(Cow::Owned);
        tool_choice = Some(Choice::None);
    }
    let mut system = Vec::new();
    if !request.system.trim().is_empty() {
        system.push(Content::Text { text: (&*request.system).into(), cache_control: cache });
    }
    if request.cache {
        mark_ends(&mut history.turns);
    }
    let format =
        request.output_schema.as_ref().map(|schema| Format { kind: "json_schema", schema });
    let output_config =
        (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format });
    let head = Head {
        model: &request.model,
        max_tokens,
        stream: true,
        // While they think, models take no other temperature than their own.
        temperature: request.temperature.filter(|_| {
            takes_temperature(&request.model) && !thinking.is_some_and(Thinking::is_on)
        }),
        thinking,
        output_config,
        system,
        tools,
        tool_choice,
    };
    let headers = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
        ("anthropic-version", "2023-06-01"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let messages = ("messages", None, &history.turns[..]);
    written.request("/v1/messages".to_owned(), headers.into(), &head, messages, &Rest {})
}

/// What comes after the messages.
#[derive(Serialize)]
struct Rest {}

/// What comes before the messages.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Content<'a>>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Disabled,
    Adaptive,
    Enabled { budget_tokens: u64 },
}

impl Thinking {
    fn is_on(self) -> bool {
        !matches!(self, Thinking::Disabled)
    }
}

/// What becomes of the model's own thoughts: where it is not to think, they are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thoughts {
    GivenBack,
    LeftOut,
}

impl Thoughts {
    fn of(model: &str, thinking: Option<Thinking>) -> Thoughts {
        match style(model) == Style::Always || thinking.is_some_and(Thinking::is_on) {
            true => Thoughts::GivenBack,
            false => Thoughts::LeftOut,
        }
    }
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a Value,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Ephemeral>,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a crate::model::ToolDeclaration) -> Tool<'a> {
        let input_schema = schema::parameters(&tool.schema);
        let description = &tool.description;
        Tool { name: (&*tool.name).into(), description, input_schema, cache_control: None }
    }

    fn named(name: Cow<'a, str>) -> Tool<'a> {
        let input_schema = serde_json::json!({"type": "object"});
        Tool { name, description: "", input_schema, cache_control: None }
    }
}

/// All tools, the last with the mark of what is cached.
fn declare<'a>(
    tools: impl Iterator<Item = Tool<'a>>,
    cache_control: Option<Ephemeral>,
) -> Vec<Tool<'a>> {
    let mut tools: Vec<Tool<'a>> = tools.collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = cache_control;
    }
    tools
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Choice<'a> {
    None,
    Any,
    Tool { name: &'a str },
}

/// Marks the end of what is cached, for the short time.
#[derive(Debug, Clone, Copy, Serialize)]
struct Ephemeral {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl Ephemeral {
    const DEFAULT: Ephemeral = Ephemeral { kind: "ephemeral" };
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Ephemeral>,
    },
    ToolUse {
        id: String,
        name: Cow<'a, str>,
        input: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Ephemeral>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Ephemeral>,
    },
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Ephemeral>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Ephemeral>,
    },
    /// As the provider sent it; never marked, never changed.
    #[serde(untagged)]
    Native(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Text { media_type: &'static str, data: String },
}

impl<'a> Content<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Content<'a> {
        Content::Text { text: text.into(), cache_control: None }
    }

    /// Where the mark of this block stands; a native block has no room for one.
    fn mark(&mut self) -> Option<&mut Option<Ephemeral>> {
        match self {
            Content::Text { cache_control, .. }
            | Content::ToolUse { cache_control, .. }
            | Content::ToolResult { cache_control, .. }
            | Content::Image { cache_control, .. }
            | Content::Document { cache_control, .. } => Some(cache_control),
            Content::Native(_) => None,
        }
    }
}

/// Marks the end of all that is said, where the next request finds it, and the end of what the request before said: what
/// the model said since may be longer than the provider looks back.
fn mark_ends(turns: &mut [Turn<'_>]) {
    let Some((_, stable)) = turns.split_last_mut() else { return };
    if let Some(asked) = stable.iter_mut().rfind(|turn| turn.role == Role::User) {
        mark_last(asked.content.iter_mut());
    }
    mark_last(turns.iter_mut().flat_map(|turn| &mut turn.content));
}

fn mark_last<'b, 'a: 'b>(blocks: impl DoubleEndedIterator<Item = &'b mut Content<'a>>) {
    if let Some(mark) = blocks.rev().find_map(Content::mark) {
        *mark = Some(Ephemeral::DEFAULT);
    }
}

/// The conversation under the API's rules: roles take turns, each call has its result in the next turn, ids
/// are unique and of a certain form, no text is empty.
struct History<'a, 'w> {
    model: &'a str,
    thoughts: Thoughts,
    /// How many of the messages to come were said after something else than what stands before them now.
    moved: usize,
    /// What stands before it.
    before: &'w Written,
    turns: Vec<Turn<'a>>,
    /// The calls of the last turn: the history's id and the one that is sent.
    open: Vec<(&'a str, String)>,
    ids: Ids,
    /// The tools that were called.
    tools: BTreeSet<Cow<'a, str>>,
    /// Whether the last turn ends with a server's tool: the provider continues it by itself.
    pauses: bool,
}

const INTERRUPTED: &str = "The call was interrupted; whether it had an effect is unknown.";
const CONTINUE: &str = "Continue.";

impl<'a, 'w> History<'a, 'w> {
    fn new(request: &'a ModelRequest, thoughts: Thoughts, before: &'w Written) -> History<'a, 'w> {
        let (model, moved) = (&request.model, request.moved.saturating_sub(before.begun()));
        let (turns, open) = (Vec::new(), Vec::new());
        let (ids, tools) = (Ids::default(), BTreeSet::new());
        History { model, thoughts, moved, before, turns, open, ids, tools, pauses: false }
    }

    fn take(&mut self, messages: &'a [Arc<Message>]) {
        for group in messages.chunk_by(|a, b| a.role == b.role) {
            match group.first().map(|message| message.role) {
                Some(Role::Assistant) => self.assistant(group),
                Some(Role::User) => self.user(group),
                None => {}
            }
            self.moved = self.moved.saturating_sub(group.len());
        }
    }

    /// Whether nothing that follows can change it, if an answer follows.
    fn is_settled(&self) -> bool {
        self.open.is_empty() && self.turns.last().is_some_and(|turn| turn.role == Role::User)
    }

    /// Whether nothing about it depends on what stands before it, but the ids.
    fn is_apart(&self) -> bool {
        let [stable @ .., _] = self.turns.as_slice() else { return false };
        // Whatever a user says can be marked.
        stable.iter().any(|turn| turn.role == Role::User)
    }

    fn assistant(&mut self, messages: &'a [Arc<Message>]) {
        let mut content = Vec::new();
        self.pauses = false;
        let moved = self.moved;
        let blocks = messages
            .iter()
            .enumerate()
            .flat_map(|(at, message)| message.blocks.iter().map(move |block| (at < moved, block)));
        for (is_moved, block) in blocks {
            let native = block.native.as_ref().and_then(|native| self.own(native));
            // Thinking is bound to all that stood before it, and refused behind anything else.
            let is_stale = is_moved || self.thoughts == Thoughts::LeftOut;
            let native = native.filter(|raw| is_taken_back(raw) && !(is_stale && is_thought(raw)));
            self.pauses = native.is_some_and(is_server_tool);
            match (&block.part, native) {
                (Part::ToolUse { id, name, input }, native) => {
                    content.push(self.call(id, name, input, native));
                }
                (_, Some(raw)) => content.push(Content::Native(raw)),
                // Thoughts of another model are no use to this one, and none of its own words.
                (Part::Thinking { .. } | Part::Opaque, None) => {}
                (Part::Text { .. } | Part::ToolResult { .. } | Part::Media { .. }, None) => {
                    content.extend(readable(block));
                }
            }
        }
        // No turn may end in thought.
        while matches!(content.last(), Some(Content::Native(raw)) if is_thought(raw)) {
            content.pop();
        }
        if self.turns.is_empty() && self.before.is_empty() && !content.is_empty() {
            self.push(Role::User, vec![Content::text(CONTINUE)]);
        }
        self.push(Role::Assistant, content);
    }

    fn user(&mut self, messages: &'a [Arc<Message>]) {
        let mut results = Vec::new();
        let mut rest = Vec::new();
        for block in messages.iter().flat_map(|message| &message.blocks) {
            if let Part::ToolResult { id, text, is_error, .. } = &block.part
                && let Some(at) = self.open.iter().position(|(known, _)| known == id)
            {
                let (_, sent) = self.open.remove(at);
                results.push(result(sent, text, *is_error));
            } else {
                rest.extend(readable(block));
            }
        }
        results.extend(self.interrupted());
        results.append(&mut rest);
        self.push(Role::User, results);
    }

    /// Makes the conversation one that can be answered.
    fn end(&mut self) {
        let results: Vec<_> = self.interrupted().collect();
        self.push(Role::User, results);
        let waits = self.turns.last().is_none_or(|turn| turn.role == Role::Assistant);
        if waits && !self.pauses {
            self.push(Role::User, vec![Content::text(CONTINUE)]);
        }
    }

    fn interrupted(&mut self) -> impl Iterator<Item = Content<'a>> + use<'a> {
        std::mem::take(&mut self.open).into_iter().map(|(_, sent)| result(sent, INTERRUPTED, true))
    }

    fn push(&mut self, role: Role, mut content: Vec<Content<'a>>) {
        match self.turns.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.append(&mut content),
            _ => self.turns.push(Turn { role, content }),
        }
    }

    fn call(
        &mut self,
        id: &'a str,
        name: &'a str,
        input: &'a Value,
        native: Option<&'a Value>,
    ) -> Content<'a> {
        let name = sent_name(name);
        self.tools.insert(name.clone());
        let sent = self.id(id);
        let unchanged = native.filter(|raw| raw["id"] == sent.as_str() && raw["name"] == *name);
        self.open.push((id, sent.clone()));
        match unchanged {
            Some(raw) => Content::Native(raw),
            None => Content::ToolUse { id: sent, name, input, cache_control: None },
        }
    }

    /// An id of the form that is taken, and that no earlier call has.
    fn id(&mut self, id: &str) -> String {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let mut clean: String = id.chars().map(|c| if is_fine(c) { c } else { '_' }).collect();
        if clean.is_empty() {
            clean.push_str("call");
        }
        let mut sent = clean.clone();
        let mut n = 1_u32;
        while !self.ids.take(&sent, self.before.ids()) {
            n += 1;
            sent = format!("{clean}_{n}");
        }
        sent
    }

    /// The native form, if it is this dialect's and this model's.
    fn own(&self, native: &'a Native) -> Option<&'a Value> {
        let is_own = native.dialect == NAME && undated(&native.model) == undated(self.model);
        is_own.then_some(&native.raw)
    }
}

fn result(tool_use_id: String, text: &str, is_error: bool) -> Content<'_> {
    // An error must say something.
    let content = if text.is_empty() && is_error { "(no output)" } else { text };
    Content::ToolResult { tool_use_id, content, is_error, cache_control: None }
}

/// A block as anybody's: nothing, if there is nothing to read.
fn readable(block: &Block) -> Option<Content<'_>> {
    match &block.part {
        Part::Text { text } => (!text.trim().is_empty()).then(|| Content::text(&**text)),
        Part::ToolResult { name, text, .. } => {
            Some(Content::text(format!("[result of {name}]\n{text}")))
        }
        Part::Media { media_type, data, name } => Some(media(media_type, data, name.as_deref())),
        Part::ToolUse { .. } | Part::Thinking { .. } | Part::Opaque => None,
    }
}

fn media<'a>(media_type: &'a str, data: &'a str, title: Option<&'a str>) -> Content<'a> {
    let source = Source::Base64 { media_type, data };
    match media_type {
        "image/jpeg" | "image/png" | "image/gif" | "image/webp" => {
            Content::Image { source, cache_control: None }
        }
        "application/pdf" => Content::Document { source, title, cache_control: None },
        _ => match decode_base64(data).and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(data) => {
                let source = Source::Text { media_type: "text/plain", data };
                Content::Document { source, title, cache_control: None }
            }
            None => Content::text(format!("[a file of type {media_type}, not shown]")),
        },
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut bits = 0_u32;
    let mut held = 0;
    for byte in text.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Some(out)
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// It cannot.
    Never,
    /// With a number of tokens.
    Budget,
    /// As much as it likes, with a word for the effort; only if it is asked to.
    Adaptive,
    /// The same, but it thinks unasked. Also for names that nobody knows.
    Always,
}

fn style(model: &str) -> Style {
    // Gateways put a name of their own before it.
    let Some((_, rest)) = model.rsplit_once("claude-") else { return Style::Always };
    if rest.starts_with("3-7") {
        return Style::Budget;
    }
    if rest.starts_with(['1', '2', '3']) || rest.starts_with("instant") {
        return Style::Never;
    }
    match version(rest) {
        (Some(4), None | Some(0..=5)) => Style::Budget,
        (Some(4), _) => Style::Adaptive,
        _ => Style::Always,
    }
}

/// The two numbers in a name such as `opus-4-6`.
fn version(rest: &str) -> (Option<u32>, Option<u32>) {
    let mut words = undated(rest).split('-').skip(1).map(|word| word.parse().ok());
    (words.next().flatten(), words.next().flatten())
}

/// Since 4.5 these models can be bound to a schema. Of other servers that speak this dialect nobody knows.
pub(super) fn is_bound(model: &str) -> bool {
    let Some((_, rest)) = model.rsplit_once("claude-") else { return false };
    // The oldest have their number before their name.
    let is_old = rest.starts_with(['1', '2', '3']);
    !is_old && matches!(version(rest), (Some(4), Some(5..)) | (Some(5..), _))
}

/// Since 4.7 these models refuse any temperature. Other servers that speak this dialect take one.
fn takes_temperature(model: &str) -> bool {
    let Some((_, rest)) = model.rsplit_once("claude-") else { return true };
    rest.starts_with(['1', '2', '3'])
        || rest.starts_with("instant")
        || matches!(version(rest), (Some(4), None | Some(0..=6)))
}

/// A name without the date or the `latest` that aliases differ in.
fn undated(model: &str) -> &str {
    match model.rsplit_once(['-', '@']) {
        Some((name, end))
            if end == "latest" || (end.len() == 8 && end.bytes().all(|b| b.is_ascii_digit())) =>
        {
            name
        }
        _ => model,
    }
}

fn default_max_tokens(model: &str) -> u64 {
    match model.rsplit_once("claude-") {
        Some((_, rest)) if rest.starts_with("3-5") => 8_192,
        Some((_, rest)) if rest.starts_with("3-7") => 32_000,
        Some((_, rest)) if rest.starts_with(['1', '2', '3']) => 4_096,
        _ => 32_000,
    }
}

/// The thinking mode and the effort for a request, as far as its history does not matter.
fn thinking(request: &ModelRequest, max_tokens: u64) -> (Option<Thinking>, Option<&'static str>) {
    const LEAST: u64 = 1_024;
    let Some(effort) = request.effort else { return (None, None) };
    // A forced call leaves no room for thought.
    let is_forced = matches!(request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_));
    let (word, tokens) = match effort {
        Effort::None | Effort::Low => ("low", 2_048),
        Effort::Medium => ("medium", 8_192),
        Effort::High => ("high", 24_576),
    };
    match style(&request.model) {
        Style::Never => (None, None),
        Style::Budget => {
            let budget_tokens = tokens.min(max_tokens / 2);
            let is_on = effort != Effort::None && budget_tokens >= LEAST && !is_forced;
            (is_on.then_some(Thinking::Enabled { budget_tokens }), None)
        }
        Style::Adaptive if effort == Effort::None => (Some(Thinking::Disabled), None),
        Style::Adaptive | Style::Always if is_forced => (None, Some(word)),
        Style::Adaptive => (Some(Thinking::Adaptive), Some(word)),
        Style::Always if effort == Effort::None => (None, Some(word)),
        Style::Always => (Some(Thinking::Adaptive), Some(word)),
    }
}

/// Whether the turn that is to be continued has calls without the thoughts that led to them (another model
/// made them): models with a budget refuse that while they are to think.
fn continues_without_thought(turns: &[Turn<'_>]) -> bool {
    let [.., calls, results] = turns else { return false };
    let begins_with_thought =
        matches!(calls.content.first(), Some(Content::Native(raw)) if is_thought(raw));
    let has_results =
        results.content.iter().any(|block| matches!(block, Content::ToolResult { .. }));
    has_results && !begins_with_thought
}

/// The provider itself sends empty texts, and servers like it blocks without a type; both are refused later.
fn is_taken_back(raw: &Value) -> bool {
    match raw["type"].as_str() {
        Some("text") => raw["text"].as_str().is_some_and(|text| !text.trim().is_empty()),
        Some("thinking") => raw["signature"].is_string(),
        Some(kind) => !kind.is_empty(),
        None => false,
    }
}

fn is_thought(raw: &Value) -> bool {
    raw["type"] == "thinking" || raw["type"] == "redacted_thinking"
}

fn is_server_tool(raw: &Value) -> bool {
    raw["type"].as_str().is_some_and(|name| name != "tool_use" && name.contains("tool"))
}
