//! A real model behind a real server that is not ours: llama.cpp's, in the three dialects it speaks. Asserts structure,
//! counters and reasons to stop, never prose.
//!
//! The tests are ignored because they need the server; `scripts/test` starts it (`tests/legs/llama.py`) and runs them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::{Command, Stdio};

use machine::message::{Block, Message, Part, Reply, Role, StopReason, conversation};
use machine::tool;
use runtime::http::{self, Chunk, Limits};
use runtime::process::Cancel;
use serde_json::{Value, json};
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::{
    Dialect, ModelRequest, Stream, StreamEvent, ToolChoice, ToolDeclaration, assemble,
};

const SCHEMA: &str = include_str!("../../../../tests/legs/answer.schema.json");

fn url(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run this through scripts/test, which starts the server")
    })
}

/// What the server speaks, with what stands between its address and the dialect's path.
fn dialects() -> [(Box<dyn Dialect>, &'static str); 3] {
    [
        (Box::new(OpenAiChat::default()), "/v1"),
        (Box::new(OpenAiResponses), "/v1"),
        (Box::new(AnthropicMessages), ""),
    ]
}

fn request(messages: Vec<Message>, max_tokens: u64) -> ModelRequest {
    ModelRequest {
        model: "smol".to_owned(),
        system: "Answer briefly.".to_owned(),
        messages: conversation(messages),
        moved: 0,
        tools: Default::default(),
        tool_choice: ToolChoice::Auto,
        max_tokens: Some(max_tokens),
        temperature: Some(0.0),
        effort: None,
        output_schema: None,
        cache: true,
    }
}

/// Asks over HTTP and reads the stream to its end.
fn ask(
    dialect: &dyn Dialect,
    server: &str,
    prefix: &str,
    asked: &ModelRequest,
) -> (Vec<StreamEvent>, Reply) {
    let sent = dialect.encode(asked);
    let mut stream = Stream::new(dialect, assemble::Limits::default());
    let mut events = Vec::new();
    let mut take = |chunk: &[u8]| {
        stream.push(chunk, &mut events).unwrap();
        match events.last() {
            Some(StreamEvent::MessageStop) => Chunk::Last,
            _ => Chunk::Counted,
        }
    };
    let address = format!("{}{prefix}{}", url(server), sent.path);
    let cancel = Cancel::new();
    let ended = http::post(&address, sent, None, Limits::default(), &cancel, &mut take).unwrap();
    assert_eq!(ended.status, 200, "{}", String::from_utf8_lossy(&ended.body));
    let reply = stream.finish().unwrap_or_else(|error| panic!("{}: {error}", dialect.name()));
    (events, reply)
}

fn pieces(events: &[StreamEvent]) -> usize {
    events.iter().filter(|event| matches!(event, StreamEvent::TextDelta { .. })).count()
}

fn assert_counted(reply: &Reply, most: u64) {
    assert!(reply.usage.context() > 0, "{:?}", reply.usage);
    assert!((1..=most).contains(&reply.usage.output.unwrap()), "{:?}", reply.usage);
}

#[test]
#[ignore = "needs llama.cpp's server: scripts/test runs it"]
fn text_streams_piece_by_piece_and_is_counted() {
    for (dialect, prefix) in dialects() {
        let asked = request(vec![Message::user("Tell me about the sea.")], 12);
        let (events, reply) = ask(&*dialect, "DRIVETRAIN_LLAMA_URL", prefix, &asked);
        assert!(pieces(&events) > 1, "{}: {events:?}", dialect.name());
        assert!(!reply.message.text().is_empty());
        assert_counted(&reply, 12);
        match dialect.name() {
            // It says `completed` of every answer in this dialect, cut or not.
            "openai_responses" => {}
            name => assert_eq!(reply.stop, StopReason::MaxTokens, "{name}: {reply:?}"),
        }
    }
}

#[test]
#[ignore = "needs llama.cpp's server: scripts/test runs it"]
fn an_answer_under_a_schema_follows_it() {
    for (dialect, prefix) in dialects() {
        let mut asked = request(vec![Message::user("Is the sea deep?")], 120);
        asked.output_schema = Some(serde_json::from_str(SCHEMA).unwrap());
        let server = match dialect.name() {
            "openai_chat" => "DRIVETRAIN_LLAMA_URL",
            // It reads no schema of a request in the other dialects; this one has it from its start.
            _ => "DRIVETRAIN_LLAMA_JSON_URL",
        };
        let (events, reply) = ask(&*dialect, server, prefix, &asked);
        assert!(pieces(&events) > 1, "{}: {events:?}", dialect.name());
        let answer: Value = serde_json::from_str(&reply.message.text()).unwrap();
        assert!(["yes", "no", "perhaps"].contains(&answer["answer"].as_str().unwrap()), "{answer}");
        let reasons = answer["reasons"].as_array().unwrap();
        assert!(reasons.iter().all(|reason| reason == "a" || reason == "b"), "{answer}");
        assert_eq!(answer.as_object().unwrap().len(), 2, "{answer}");
        assert_eq!(reply.stop, StopReason::EndTurn);
        assert_counted(&reply, 120);
    }
}

#[test]
#[ignore = "needs llama.cpp's server: scripts/test runs it"]
fn a_forced_tool_is_called_and_its_result_is_taken() {
    for (dialect, prefix) in dialects() {
        let mut asked = request(vec![Message::user("How is the weather in Rome?")], 120);
        asked.tools = vec![ToolDeclaration {
            name: "weather".to_owned(),
            description: "tells the weather of a city".to_owned(),
            schema: json!({
                "type": "object",
                "properties": { "city": { "type": "string", "enum": ["Rome", "Paris"] } },
                "required": ["city"],
                "additionalProperties": false
            }),
        }]
        .into();
        asked.tool_choice = match dialect.name() {
            "anthropic_messages" => ToolChoice::Tool("weather".to_owned()),
            // A choice by name is not read in OpenAI's dialects; there is only one.
            _ => ToolChoice::Any,
        };
        let call = |asked: &ModelRequest| {
            let (events, reply) = ask(&*dialect, "DRIVETRAIN_LLAMA_TOOLS_URL", prefix, asked);
            assert_eq!(reply.stop, StopReason::ToolUse, "{}: {reply:?}", dialect.name());
            let started = |event: &&StreamEvent| matches!(event, StreamEvent::ToolUseStart { .. });
            assert_eq!(events.iter().filter(started).count(), 1, "{events:?}");
            assert_counted(&reply, 120);
            let found = reply.message.blocks.iter().find_map(|block| match &block.part {
                Part::ToolUse { id, name, input } => {
                    Some((id.clone(), name.clone(), input.clone()))
                }
                _ => None,
            });
            let (id, name, input) = found.unwrap();
            assert_eq!(name, "weather");
            assert!(
                input == json!({"city": "Rome"}) || input == json!({"city": "Paris"}),
                "{input}"
            );
            (reply, id)
        };
        let (reply, id) = call(&asked);
        let result = Part::ToolResult {
            id,
            name: "weather".to_owned(),
            text: "It rains.".to_owned(),
            is_error: false,
        };
        let result =
            Message { role: Role::User, blocks: vec![Block { part: result, native: None }] };
        let said = asked.messages.iter().map(|message| Message::clone(message));
        asked.messages = conversation(said.chain([reply.message, result]).collect::<Vec<_>>());
        // The template forces another call; what counts is that the whole history was taken.
        call(&asked);
    }
}

#[test]
#[ignore = "needs llama.cpp's server: scripts/test runs it"]
fn a_small_model_drives_a_task_by_constrained_decisions() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("project");
    std::fs::create_dir_all(folder.join(".drivetrain")).unwrap();
    std::fs::write(folder.join("notes.txt"), "one\ntwo\n").unwrap();
    let models = format!(
        "[provider.local]\ndialect = \"openai_chat\"\nbase_url = \"{}/v1\"\ndecisions = \"constrained\"\n",
        url("DRIVETRAIN_LLAMA_URL")
    );
    std::fs::write(folder.join(".drivetrain/models.toml"), models).unwrap();
    let run = |args: &[&str]| {
        let ran = Command::new(env!("CARGO_BIN_EXE_drivetrain"))
            .args(args)
            .current_dir(&folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place.path())
            .env("DRIVETRAIN_HOME", place.path().join("home"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
    };
    let limits = ["--in-place", "--unattended", "--max-turns", "3", "--max-time", "5m"];
    let goal = ["run", "list the files of this folder", "--model", "local/smol", "--json"];
    let (code, out, err) = run(&[&goal[..], &limits[..]].concat());
    assert!([0, 10, 11, 13, 14].contains(&code), "{code}\n{out}{err}");
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    assert_eq!(of("task_finished").count(), 1, "{out}");
    let replied: Vec<&Value> = of("model_replied").collect();
    assert!(!replied.is_empty(), "{out}");
    for reply in &replied {
        // One legal call, or the claim that the turn is over.
        let tools: Vec<&str> =
            reply["tools"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert!(tools.iter().all(|name| tool::find(name).is_some()), "{reply}");
        let stop = if tools.is_empty() { "end_turn" } else { "tool_use" };
        assert_eq!((tools.len() <= 1, reply["stop"].as_str()), (true, Some(stop)), "{reply}");
    }
    for failed in of("model_failed") {
        // An answer may be cut at the server's limit of tokens: then it is no decision.
        assert_eq!(failed["kind"], "malformed_tool_call", "{failed}");
    }
    for ended in of("tool_started") {
        let tool = tool::find(ended["tool"].as_str().unwrap()).unwrap();
        assert_eq!(tool::check_input(tool, &ended["input"]), Ok(()), "{ended}");
    }
    assert_eq!(run(&["journal", "verify"]).0, 0);
}
