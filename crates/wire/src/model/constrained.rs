//! Decisions of a model that cannot call tools well: the list of tools becomes one JSON schema of its answer, and
//! the answer becomes a tool call, or the end of its turn.
//!
//! A server that binds the model to the schema (llama.cpp and others turn it into a grammar) makes the form of every
//! answer certain, however small the model. An answer that does not follow the schema all the same is an error to
//! try again, never a call.

use machine::message::{Block, Message, Part, Reply, Role, StopReason, conversation};
use serde_json::{Map, Value, json};

use super::assemble::strict_json;
use super::{ErrorKind, ModelError, ModelRequest, ToolChoice, ToolDeclaration, ToolList, schema};

/// The keys of a decision. A server writes keys in the order of the schema, and ours are sorted: these two let the
/// model name the tool before its parameters.
const TOOL: &str = "tool";
const WITH: &str = "with";

/// The id of the call: an answer is at most one.
const ID: &str = "call_0";

/// What a constrained model may decide; reads its answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    tools: Vec<ToolDeclaration>,
    /// The word that ends the turn, and the schema of what goes with it; none if a tool must be called.
    answer: Option<(String, Value)>,
}

/// Asks the same with a schema instead of tools. Calls and results of the conversation become text. A request
/// without tools stays as it is.
pub fn constrain(mut request: ModelRequest) -> (ModelRequest, Choices) {
    let choices = Choices::of(&request);
    if choices.tools.is_empty() {
        return (request, choices);
    }
    request.messages = conversation(request.messages.iter().filter_map(|m| choices.rewrite(m)));
    request.system = choices.instructions(&request.system);
    request.output_schema = Some(choices.schema());
    request.tools = ToolList::default();
    request.tool_choice = ToolChoice::Auto;
    (request, choices)
}

impl Choices {
    fn of(request: &ModelRequest) -> Choices {
        let wanted = |tool: &&ToolDeclaration| match &request.tool_choice {
            ToolChoice::Auto | ToolChoice::Any => true,
            ToolChoice::None => false,
            ToolChoice::Tool(name) => tool.name == *name,
        };
        let plain = |tool: &ToolDeclaration| ToolDeclaration {
            schema: schema::parameters(&tool.schema),
            ..tool.clone()
        };
        let tools: Vec<ToolDeclaration> = request.tools.iter().filter(wanted).map(plain).collect();
        let may_answer = matches!(request.tool_choice, ToolChoice::Auto | ToolChoice::None);
        let answer = may_answer.then(|| {
            let mut word = "answer".to_owned();
            while tools.iter().any(|tool| tool.name == word) {
                word.push('_');
            }
            let text = json!({
                "type": "object",
                "properties": { "text": { "type": "string" } },
                "required": ["text"],
                "additionalProperties": false
            });
            (word, request.output_schema.clone().unwrap_or(text))
        });
        Choices { tools, answer }
    }

    /// Each alternative: its name, and the schema of what goes with it.
    fn alternatives(&self) -> impl Iterator<Item = (&str, &Value)> {
        let tools = self.tools.iter().map(|tool| (tool.name.as_str(), &tool.schema));
        tools.chain(self.answer.iter().map(|(word, schema)| (word.as_str(), schema)))
    }

    fn schema(&self) -> Value {
        let alternative = |(at, (name, schema)): (usize, (&str, &Value))| {
            let place = format!("/anyOf/{at}/properties/{WITH}");
            json!({
                "type": "object",
                "properties": { TOOL: { "const": name }, WITH: portable(schema, &place) },
                "required": [TOOL, WITH],
                "additionalProperties": false
            })
        };
        json!({ "anyOf": self.alternatives().enumerate().map(alternative).collect::<Vec<_>>() })
    }

    fn instructions(&self, system: &str) -> String {
        let mut text = system.trim_end().to_owned();
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str("Answer with one JSON object and nothing else. To use a tool, answer ");
        text.push_str(&format!(
            "{{\"{TOOL}\": NAME, \"{WITH}\": PARAMETERS}}; you are then told its result. The tools:"
        ));
        for tool in &self.tools {
            let (name, parameters) = (&tool.name, parameters(&tool.schema));
            let summary = tool.description.lines().next().unwrap_or_default();
            text.push_str(&format!("\n- {name}({parameters}): {summary}"));
        }
        if let Some((word, schema)) = &self.answer {
            let parameters = parameters(schema);
            text.push_str(&format!("\n- {word}({parameters}): end your turn with this answer"));
        }
        text
    }

    /// A message as such a model would have said or heard it. What it thought is left out.
    fn rewrite(&self, message: &Message) -> Option<Message> {
        let text = |text: String| Block { part: Part::Text { text }, native: None };
        let calls = message.blocks.iter().any(|b| matches!(b.part, Part::ToolUse { .. }));
        let answer = self.answer.as_ref().map(|(word, _)| word);
        let block = |block: &Block| match (&block.part, message.role, answer) {
            (Part::ToolUse { name, input, .. }, ..) => Some(text(decision(name, input))),
            (Part::ToolResult { name, text: told, is_error, .. }, ..) => {
                let end = if *is_error { "failed" } else { "gave" };
                Some(text(format!("The tool {name} {end}:\n{told}")))
            }
            (Part::Text { text: said }, Role::Assistant, Some(word)) if !calls => {
                Some(text(decision(word, &json!({ "text": said }))))
            }
            (Part::Text { text: said }, ..) => Some(text(said.clone())),
            (Part::Media { .. }, ..) => Some(Block { part: block.part.clone(), native: None }),
            (Part::Thinking { .. } | Part::Opaque, ..) => None,
        };
        let blocks: Vec<Block> = message.blocks.iter().filter_map(block).collect();
        (!blocks.is_empty()).then_some(Message { role: message.role, blocks })
    }

    /// The answer as a tool call or as the end of the turn. What was refused or paused stays as it is.
    pub fn interpret(&self, reply: Reply) -> Result<Reply, ModelError> {
        if self.tools.is_empty() || matches!(reply.stop, StopReason::Refusal | StopReason::Pause) {
            return Ok(reply);
        }
        match self.read(&reply) {
            Ok((part, stop)) => Ok(replace(reply, part, stop)),
            Err(why) => {
                let message = format!("the answer is no decision: {why}");
                let mut error = ModelError::new(ErrorKind::MalformedToolCall, message);
                error.usage = reply.usage;
                Err(error)
            }
        }
    }

    fn read(&self, reply: &Reply) -> Result<(Part, StopReason), String> {
        if reply.stop == StopReason::MaxTokens {
            // Whole or not: a server may have closed the braces itself.
            return Err("it ended at its limit of tokens".to_owned());
        }
        let mut text = String::new();
        for block in &reply.message.blocks {
            match &block.part {
                Part::Text { text: more } => text.push_str(more),
                Part::Thinking { .. } | Part::Opaque => {}
                Part::ToolUse { .. } | Part::ToolResult { .. } | Part::Media { .. } => {
                    return Err("it holds something else than text".to_owned());
                }
            }
        }
        let Value::Object(mut decision) = strict_json(text.trim())? else {
            return Err("it is no JSON object".to_owned());
        };
        let (Some(Value::String(name)), Some(with), true) =
            (decision.remove(TOOL), decision.remove(WITH), decision.is_empty())
        else {
            return Err(format!("expected the keys `{TOOL}` and `{WITH}`, and no other"));
        };
        let Some((_, schema)) = self.alternatives().find(|(known, _)| *known == name) else {
            return Err(format!("there is no tool {name:?}"));
        };
        if !fits(schema, &with) {
            return Err(format!("the parameters of {name} do not follow its schema"));
        }
        if self.answer.as_ref().is_some_and(|(word, _)| *word == name) {
            return Ok((Part::Text { text: answered(with) }, StopReason::EndTurn));
        }
        if !with.is_object() {
            return Err(format!("the parameters of {name} are no object"));
        }
        Ok((Part::ToolUse { id: ID.to_owned(), name, input: with }, StopReason::ToolUse))
    }
}

/// A decision as the model writes it.
fn decision(name: &str, with: &Value) -> String {
    json!({ TOOL: name, WITH: with }).to_string()
}

/// The text of an answer; the JSON itself if a schema of the caller's own was followed.
fn answered(with: Value) -> String {
    match with {
        Value::Object(mut fields) if fields.len() == 1 => match fields.remove("text") {
            Some(Value::String(text)) => text,
            Some(other) => json!({ "text": other }).to_string(),
            None => Value::Object(fields).to_string(),
        },
        other => other.to_string(),
    }
}

/// The reply with its text replaced by what it means. Thoughts and what only the provider understands stay.
fn replace(mut reply: Reply, part: Part, stop: StopReason) -> Reply {
    reply.message.blocks.retain(|block| !matches!(block.part, Part::Text { .. }));
    reply.message.blocks.push(Block { part, native: None });
    reply.stop = stop;
    reply
}

/// The names of an object's properties, with a question mark after those that may be left out.
fn parameters(schema: &Value) -> String {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|list| list.iter().any(|r| r == name));
    let properties = schema["properties"].as_object();
    let names = properties.into_iter().flat_map(Map::keys);
    let marked = names.map(|name| match is_required(name) {
        true => name.clone(),
        false => format!("{name}?"),
    });
    marked.collect::<Vec<_>>().join(", ")
}

/// A schema that grammars can be made of, at its place in a larger one: references into itself follow it there, and
/// patterns are left out, as few servers take all of them.
fn portable(schema: &Value, place: &str) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, value)| *key != "pattern" || !value.is_string());
            let moved = |(key, value): (&String, &Value)| {
                let value = match (key.as_str(), value.as_str().and_then(|r| r.strip_prefix('#'))) {
                    ("$ref", Some(inside)) => format!("#{place}{inside}").into(),
                    _ => portable(value, place),
                };
                (key.clone(), value)
            };
            Value::Object(kept.map(moved).collect())
        }
        Value::Array(items) => items.iter().map(|item| portable(item, place)).collect(),
        other => other.clone(),
    }
}

/// Whether a value follows a schema, as far as a grammar would have held it. What is not known here allows
/// everything: whoever performs the call checks its parameters again.
fn fits(schema: &Value, value: &Value) -> bool {
    let kind_fits = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => true,
    };
    let kind = match &schema["type"] {
        Value::String(kind) => kind_fits(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(kind_fits),
        _ => true,
    };
    let listed = |key: &str, fits: &dyn Fn(&Value) -> bool| {
        schema[key].as_array().is_none_or(|items| items.iter().any(fits))
    };
    let least =
        schema["minimum"].as_f64().is_none_or(|least| value.as_f64().is_none_or(|v| v >= least));
    let one_of_them = schema.get("const").is_none_or(|only| only == value)
        && listed("enum", &|item| item == value)
        && listed("anyOf", &|item| fits(item, value))
        && listed("oneOf", &|item| fits(item, value));
    let inside = match value {
        Value::Object(fields) => {
            let closed = schema["additionalProperties"] == Value::Bool(false);
            let required = schema["required"].as_array();
            fields.iter().all(|(name, value)| match schema["properties"].get(name) {
                Some(schema) => fits(schema, value),
                None => !closed,
            }) && required
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .all(|r| fields.contains_key(r))
        }
        Value::Array(items) => {
            schema.get("items").is_none_or(|schema| items.iter().all(|item| fits(schema, item)))
        }
        _ => true,
    };
    kind && least && one_of_them && inside
}
