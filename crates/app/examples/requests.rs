//! Prints requests as we send them, one JSON object a line: `{"dialect", "name", "path", "body"}`. The official SDKs'
//! own types are held against them (`tests/legs/accept.py`).
#![allow(clippy::print_stdout, reason = "what is printed is what it is for")]
#![allow(clippy::unwrap_used, reason = "a tool of the tests that cannot go on has failed")]

use machine::message::{Block, Message, Part, Reply, Role};
use machine::tool;
use serde_json::{Value, json};
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::assemble::Limits;
use wire::model::constrained::constrain;
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::script::{Mode, Outcome, Player, Script, Served, render};
use wire::model::{Dialect, Effort, ModelRequest, Stream, ToolChoice, ToolDeclaration, ToolList};

/// A picture of one point.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

/// What the dialects' models said before: thoughts, words and two calls at once.
const SAID: &str = r#"
[[reply]]
thinking = "I should look at both."
text = "Let me look."
tool_calls = [
    { tool = "read", id = "abcDEF123", input = { path = "a.txt" } },
    { tool = "shell", id = "abcDEF124", input = { command = "ls" } },
]
usage = { input = 100, output = 20 }
"#;

fn main() {
    for served in Served::ALL {
        let (dialect, model): (Box<dyn Dialect>, &str) = match served {
            Served::AnthropicMessages => (Box::new(AnthropicMessages), "claude-opus-5"),
            Served::OpenAiChat => (Box::new(OpenAiChat::openai()), "gpt-5.2"),
            Served::OpenAiResponses => (Box::new(OpenAiResponses), "gpt-5.2"),
            Served::GoogleGenerate => (Box::new(GoogleGenerate), "gemini-3-pro"),
            Served::Mistral => (Box::new(OpenAiChat::mistral()), "mistral-large-latest"),
        };
        for (name, mut request) in requests(served, &*dialect, model) {
            request.model = model.to_owned();
            let sent = dialect.encode(&request);
            let body: Value = serde_json::from_slice(&sent.body).unwrap();
            let line =
                json!({"dialect": served.name(), "name": name, "path": sent.path, "body": body});
            println!("{line}");
        }
    }
}

/// One request for each thing that can be in one.
fn requests(
    served: Served,
    dialect: &dyn Dialect,
    model: &str,
) -> Vec<(&'static str, ModelRequest)> {
    let plain = asks(vec![Message::user("Hi")]);
    let everything = ModelRequest {
        system: "Be kind.".to_owned(),
        tools: tools(),
        tool_choice: ToolChoice::Any,
        max_tokens: Some(9000),
        temperature: Some(0.5),
        effort: Some(Effort::Medium),
        output_schema: Some(json!({
            "type": "object",
            "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}},
            "required": ["answer"],
            "additionalProperties": false
        })),
        cache: true,
        ..plain.clone()
    };
    let forced = ModelRequest {
        tools: tools(),
        tool_choice: ToolChoice::Tool("read".to_owned()),
        effort: Some(Effort::None),
        ..plain.clone()
    };
    let forbidden = ModelRequest { tools: tools(), tool_choice: ToolChoice::None, ..plain.clone() };
    let files = vec![
        text("What is this?"),
        media("image/png", PNG, None),
        media("application/pdf", "JVBERi0xLjQK", Some("paper.pdf")),
        media("text/plain", "b25lCnR3bwo=", Some("notes.txt")),
        media("audio/wav", "UklGRg==", None),
    ];
    let files = asks(vec![message(Role::User, files)]);
    let own = told(served, dialect, model);
    let results = [
        result("abcDEF123", "read", "one\ntwo", false),
        result("abcDEF124", "shell", "no such command", true),
        text("Mind the dots."),
    ];
    let replayed = ModelRequest {
        system: "Be kind.".to_owned(),
        tools: tools(),
        cache: true,
        effort: Some(Effort::Low),
        ..asks(vec![
            Message::user("Look at both."),
            own.message.clone(),
            message(Role::User, results.to_vec()),
        ])
    };
    let tools_gone = ModelRequest { tools: Default::default(), ..replayed.clone() };
    let foreign = told(another(served), &*of(another(served)), "other").message;
    let adopted = ModelRequest {
        tools: tools(),
        ..asks(vec![
            Message::user("Look."),
            foreign,
            message(Role::User, vec![result("abcDEF123", "read", "", false)]),
            message(Role::Assistant, vec![text("Done."), call("odd id/1", "shell", json!({}))]),
            message(Role::User, vec![result("never called", "read", "late", false)]),
        ])
    };
    let interrupted = ModelRequest {
        tools: tools(),
        ..asks(vec![
            Message::user("Look."),
            message(Role::Assistant, vec![call("c1", "read", json!({"path": "a"}))]),
            Message::user("Stop. Why?"),
            message(Role::Assistant, vec![text("")]),
        ])
    };
    let small = ModelRequest { tools: tools(), ..replayed.clone() };
    vec![
        ("plain", plain),
        ("everything", everything),
        ("forced", forced),
        ("forbidden", forbidden),
        ("files", files),
        ("replayed", replayed),
        ("tools_gone", tools_gone),
        ("adopted", adopted),
        ("interrupted", interrupted),
        ("constrained", constrain(small).0),
    ]
}

/// What the dialect's own model said, with the blocks in its provider's own form.
fn told(served: Served, dialect: &dyn Dialect, model: &str) -> Reply {
    let script = Script::parse(SAID, "said").unwrap();
    let Outcome::Reply(mut reply) = Player::new(script).next("").outcome else { unreachable!() };
    if served == Served::OpenAiChat {
        // OpenAI's own chat shows no thoughts; where compatible servers put them, its types have no place.
        reply.message.blocks.retain(|block| !matches!(block.part, Part::Thinking { .. }));
    }
    let mut stream = Stream::new(dialect, Limits::default()).for_model(model);
    for chunk in render(&reply, served, Mode::Stream).chunks {
        stream.push(&chunk, &mut Vec::new()).unwrap();
    }
    stream.finish().unwrap()
}

fn another(served: Served) -> Served {
    match served {
        Served::AnthropicMessages => Served::OpenAiResponses,
        _ => Served::AnthropicMessages,
    }
}

fn of(served: Served) -> Box<dyn Dialect> {
    match served {
        Served::AnthropicMessages => Box::new(AnthropicMessages),
        _ => Box::new(OpenAiResponses),
    }
}

fn asks(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: String::new(),
        system: String::new(),
        messages: machine::message::conversation(messages),
        moved: 0,
        tools: Default::default(),
        tool_choice: ToolChoice::Auto,
        max_tokens: None,
        temperature: None,
        effort: None,
        output_schema: None,
        cache: false,
    }
}

fn tools() -> ToolList {
    let declare = |tool: &tool::ToolSpec| ToolDeclaration {
        name: tool.name.to_owned(),
        description: tool.summary.to_owned(),
        schema: tool::schema(tool),
    };
    tool::TOOLS.iter().map(declare).collect()
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    let blocks = parts.into_iter().map(|part| Block { part, native: None }).collect();
    Message { role, blocks }
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn media(media_type: &str, data: &str, name: Option<&str>) -> Part {
    Part::Media {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
        name: name.map(str::to_owned),
    }
}

fn call(id: &str, name: &str, input: Value) -> Part {
    Part::ToolUse { id: id.to_owned(), name: name.to_owned(), input }
}

fn result(id: &str, name: &str, text: &str, is_error: bool) -> Part {
    let (id, name, text) = (id.to_owned(), name.to_owned(), text.to_owned());
    Part::ToolResult { id, name, text, is_error }
}
