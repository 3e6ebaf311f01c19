//! Requests compared whole, answers as recorded, errors by their bodies.

use machine::message::{Block, Message, Native, Part, Role, StopReason, Usage};
use serde_json::{Value, json};

use super::{GoogleGenerate, NAME, schema};
use crate::model::assemble::Limits;
use crate::model::{
    Answer, Dialect, Effort, ErrorKind, ModelError, ModelRequest, Retry, Stream, StreamEvent,
    ToolChoice, ToolDeclaration, cuts, order,
};

fn asks(model: &str, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: model.to_owned(),
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

fn body(request: &ModelRequest) -> Value {
    serde_json::from_slice(&GoogleGenerate.encode(request).body).unwrap()
}

fn block(part: Part) -> Block {
    Block { part, native: None }
}

fn text(text: &str) -> Block {
    block(Part::Text { text: text.to_owned() })
}

fn call(id: &str, name: &str, input: Value) -> Block {
    block(Part::ToolUse { id: id.to_owned(), name: name.to_owned(), input })
}

fn result(id: &str, name: &str, text: &str, is_error: bool) -> Block {
    let (id, name, text) = (id.to_owned(), name.to_owned(), text.to_owned());
    block(Part::ToolResult { id, name, text, is_error })
}

fn native(part: Part, dialect: &str, model: &str, raw: Value) -> Block {
    let native = Native { dialect: dialect.to_owned(), model: model.to_owned(), raw };
    Block { part, native: Some(native) }
}

fn user(blocks: Vec<Block>) -> Message {
    Message { role: Role::User, blocks }
}

fn assistant(blocks: Vec<Block>) -> Message {
    Message { role: Role::Assistant, blocks }
}

fn shell() -> ToolDeclaration {
    ToolDeclaration {
        name: "shell".to_owned(),
        description: "Runs a command.".to_owned(),
        schema: json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command", "absent"],
            "additionalProperties": false,
        }),
    }
}

#[test]
fn a_plain_question_has_only_what_was_asked() {
    let request = asks("gemini-2.5-flash", vec![user(vec![text("hi")])]);
    let sent = GoogleGenerate.encode(&request);
    assert_eq!(sent.path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    assert_eq!(sent.headers, [("content-type".to_owned(), "application/json".to_owned())]);
    assert_eq!(body(&request), json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}));
    assert_eq!(GoogleGenerate.key_header(), ("x-goog-api-key", ""));
}

#[test]
fn a_models_name_cannot_leave_its_place_in_the_path() {
    for (model, path) in [
        ("models/gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("a b?c#d:e", "models/a%20b%3Fc%23d%3Ae"),
    ] {
        let sent = GoogleGenerate.encode(&asks(model, Vec::new()));
        assert_eq!(sent.path, format!("/v1beta/{path}:streamGenerateContent?alt=sse"));
    }
}

#[test]
fn tools_choices_and_limits_are_said_in_googles_words() {
    let mut request = asks("gemini-2.5-flash", vec![user(vec![text("hi")])]);
    request.system = "be short".to_owned();
    request.tools = vec![
        shell(),
        ToolDeclaration {
            name: "now".to_owned(),
            description: "The time.".to_owned(),
            schema: json!({"type": "object", "properties": {}}),
        },
    ]
    .into();
    request.tool_choice = ToolChoice::Tool("shell".to_owned());
    request.max_tokens = Some(100);
    request.temperature = Some(0.5);
    request.effort = Some(Effort::Low);
    assert_eq!(
        body(&request),
        json!({
            "systemInstruction": {"parts": [{"text": "be short"}]},
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "tools": [{"functionDeclarations": [
                {
                    "name": "shell",
                    "description": "Runs a command.",
                    "parameters": {
                        "type": "object",
                        "properties": {"command": {"type": "string"}},
                        "required": ["command"],
                    },
                },
                {"name": "now", "description": "The time."},
            ]}],
            "toolConfig": {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["shell"]},
            },
            "generationConfig": {
                "maxOutputTokens": 100,
                "temperature": 0.5,
                "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": true},
            },
        })
    );
    for (choice, calling) in [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, json!({"mode": "NONE"})),
        (ToolChoice::Any, json!({"mode": "ANY"})),
    ] {
        request.tool_choice = choice;
        assert_eq!(body(&request)["toolConfig"]["functionCallingConfig"], calling);
    }
    request.tools = Default::default();
    assert_eq!(body(&request).get("toolConfig"), None);
}

#[test]
fn effort_is_a_budget_or_a_level_by_the_models_generation() {
    for (model, effort, expected) in [
        ("gemini-2.0-flash", Effort::High, Value::Null),
        ("gemma-3-27b-it", Effort::High, Value::Null),
        ("gemini-2.5-pro", Effort::None, json!({"thinkingBudget": 128, "includeThoughts": false})),
        ("gemini-2.5-flash", Effort::None, json!({"thinkingBudget": 0, "includeThoughts": false})),
        ("gemini-2.5-pro", Effort::High, json!({"thinkingBudget": 24576, "includeThoughts": true})),
        (
            "gemini-3-flash-preview",
            Effort::None,
            json!({"thinkingLevel": "minimal", "includeThoughts": false}),
        ),
        ("gemini-3.1-pro", Effort::None, json!({"thinkingLevel": "low", "includeThoughts": false})),
        (
            "gemini-3.5-flash-lite",
            Effort::None,
            json!({"thinkingLevel": "minimal", "includeThoughts": false}),
        ),
        (
            "gemini-3.6-flash",
            Effort::None,
            json!({"thinkingLevel": "minimal", "includeThoughts": false}),
        ),
        // Newer ones refuse the word.
        (
            "gemini-3.7-flash",
            Effort::None,
            json!({"thinkingLevel": "low", "includeThoughts": false}),
        ),
        (
            "gemini-3.8-flash",
            Effort::None,
            json!({"thinkingLevel": "low", "includeThoughts": false}),
        ),
        ("gemini-4-flash", Effort::None, json!({"thinkingLevel": "low", "includeThoughts": false})),
        (
            "gemini-flash-latest",
            Effort::None,
            json!({"thinkingLevel": "low", "includeThoughts": false}),
        ),
        (
            "gemini-3.1-pro",
            Effort::Medium,
            json!({"thinkingLevel": "medium", "includeThoughts": true}),
        ),
    ] {
        let mut request = asks(model, vec![user(vec![text("hi")])]);
        request.effort = Some(effort);
        let config = &body(&request)["generationConfig"]["thinkingConfig"];
        assert_eq!(*config, expected, "{model} {effort:?}");
    }
}

#[test]
fn an_output_schema_is_set_or_asked_for_where_tools_forbid_it() {
    let mut request = asks("gemini-2.5-flash", vec![user(vec![text("hi")])]);
    request.output_schema = Some(json!({
        "type": "object",
        "properties": {"n": {"type": ["integer", "null"]}},
        "additionalProperties": false,
    }));
    let config = json!({
        "responseMimeType": "application/json",
        "responseSchema": {
            "type": "object",
            "properties": {"n": {"type": "integer", "nullable": true}},
        },
    });
    assert_eq!(body(&request)["generationConfig"], config);
    request.tools = vec![shell()].into();
    let sent = body(&request);
    assert_eq!(sent.get("generationConfig"), None);
    let system = sent["systemInstruction"]["parts"][0]["text"].as_str().unwrap();
    assert!(system.contains("\"additionalProperties\":false"), "{system}");
    request.model = "gemini-3-pro-preview".to_owned();
    assert_eq!(body(&request)["generationConfig"], config);
}

#[test]
fn results_answer_their_calls_in_order_and_media_is_inline() {
    let picture =
        Part::Media { media_type: "image/png".to_owned(), data: "aGk=".to_owned(), name: None };
    let request = asks(
        "gemini-2.5-flash",
        vec![
            user(vec![text("look"), block(picture)]),
            assistant(vec![
                text(""),
                call("a", "shell", json!({"command": "ls"})),
                call("b", "read", json!({})),
            ]),
            user(vec![result("b", "read", "no such file", true)]),
            user(vec![text("and?"), result("a", "shell", "x.rs", false)]),
        ],
    );
    assert_eq!(
        body(&request)["contents"],
        json!([
            {"role": "user", "parts": [
                {"text": "look"},
                {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
            ]},
            {"role": "model", "parts": [
                {"functionCall": {"id": "a", "name": "shell", "args": {"command": "ls"}}},
                {"functionCall": {"id": "b", "name": "read", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "a", "name": "shell", "response": {"output": "x.rs"}}},
                {"functionResponse": {"id": "b", "name": "read", "response": {"error": "no such file"}}},
                {"text": "and?"},
            ]},
        ])
    );
}

#[test]
fn an_interrupted_history_is_made_whole() {
    let interrupted = json!({"error": "interrupted: the outcome is unknown"});
    let request = asks(
        "gemini-2.5-flash",
        vec![
            assistant(vec![call("a", "shell", json!({}))]),
            assistant(vec![text("again"), call("b", "shell", json!({}))]),
            user(vec![text("stop"), result("gone", "read", "old", false)]),
            assistant(vec![block(Part::Thinking { text: "hm".to_owned() })]),
            assistant(vec![call("c", "shell", json!({}))]),
        ],
    );
    let response = |id: &str| json!({"functionResponse": {"id": id, "name": "shell", "response": interrupted}});
    let called = |id: &str| json!({"functionCall": {"id": id, "name": "shell", "args": {}}});
    assert_eq!(
        body(&request)["contents"],
        json!([
            {"role": "user", "parts": [{"text": "(the conversation continues)"}]},
            {"role": "model", "parts": [called("a")]},
            {"role": "user", "parts": [response("a")]},
            {"role": "model", "parts": [{"text": "again"}, called("b")]},
            {"role": "user", "parts": [
                response("b"),
                {"text": "stop"},
                {"text": "[result of read]\nold"},
            ]},
            {"role": "model", "parts": [called("c")]},
            {"role": "user", "parts": [response("c")]},
        ])
    );
    let nothing = asks("gemini-2.5-flash", vec![user(vec![text("")])]);
    assert_eq!(
        body(&nothing)["contents"],
        json!([{"role": "user", "parts": [{"text": "(the conversation continues)"}]}])
    );
}

#[test]
fn history_of_another_provider_goes_without_what_only_it_reads() {
    let thinking = Part::Thinking { text: "secret".to_owned() };
    let raw = json!({"type": "thinking", "thinking": "secret", "signature": "s"});
    let messages = vec![
        user(vec![text("go")]),
        assistant(vec![
            native(thinking, "anthropic_messages", "claude", raw),
            native(Part::Opaque, "anthropic_messages", "claude", json!({"type": "x"})),
            text("I look."),
            call("toolu_1", "shell", json!({"command": "ls"})),
            call("toolu_2", "shell", json!({"command": "pwd"})),
        ]),
        user(vec![result("toolu_1", "shell", "a", false), result("toolu_2", "shell", "b", false)]),
    ];
    let old = body(&asks("gemini-2.5-flash", messages.clone()));
    let called = |id: &str, command: &str| json!({"functionCall": {"id": id, "name": "shell", "args": {"command": command}}});
    let (first, second) = (called("toolu_1", "ls"), called("toolu_2", "pwd"));
    assert_eq!(
        old["contents"][1],
        json!({"role": "model", "parts": [{"text": "I look."}, first, second]})
    );
    // Newer models refuse a first call without a signature.
    let new = body(&asks("gemini-3-pro-preview", messages));
    assert_eq!(
        new["contents"][1]["parts"][1]["thoughtSignature"],
        "skip_thought_signature_validator"
    );
    assert_eq!(new["contents"][1]["parts"][2], second);
}

#[test]
fn signed_parts_go_back_unchanged_to_the_same_model_only() {
    let signed =
        json!({"functionCall": {"name": "shell", "args": {"z": 1}}, "thoughtSignature": "S1"});
    let said = json!({"text": "done", "thoughtSignature": "S2"});
    let bare = json!({"text": "", "thoughtSignature": "S3"});
    let code =
        json!({"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "S4"});
    let model = "gemini-3-flash-preview";
    let use_of = |id: &str| {
        let (id, name) = (id.to_owned(), "shell".to_owned());
        Part::ToolUse { id, name, input: json!({"z": 1}) }
    };
    let messages = vec![
        user(vec![text("go")]),
        assistant(vec![
            native(Part::Opaque, NAME, model, code.clone()),
            native(use_of("made-1"), NAME, model, signed.clone()),
        ]),
        user(vec![result("made-1", "shell", "ok", false)]),
        assistant(vec![
            native(Part::Text { text: "done".to_owned() }, NAME, model, said.clone()),
            native(Part::Thinking { text: String::new() }, NAME, model, bare.clone()),
        ]),
        user(vec![text("more")]),
    ];
    for asked in [model, "gemini-3-flash"] {
        assert_eq!(
            body(&asks(asked, messages.clone()))["contents"],
            json!([
                {"role": "user", "parts": [{"text": "go"}]},
                {"role": "model", "parts": [code, signed]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "shell", "response": {"output": "ok"}}},
                ]},
                {"role": "model", "parts": [said, bare]},
                {"role": "user", "parts": [{"text": "more"}]},
            ])
        );
    }
    assert_eq!(
        body(&asks("gemini-2.5-flash", messages))["contents"],
        json!([
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [
                {"executableCode": {"language": "PYTHON", "code": "1"}},
                {"functionCall": {"id": "made-1", "name": "shell", "args": {"z": 1}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "made-1", "name": "shell", "response": {"output": "ok"}}},
            ]},
            {"role": "model", "parts": [{"text": "done"}]},
            {"role": "user", "parts": [{"text": "more"}]},
        ])
    );
}

#[test]
fn schemas_are_reduced_to_what_is_read() {
    for (given, expected) in [
        (json!(true), json!({})),
        (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}})),
        (
            json!({"type": "array", "items": {"$ref": "#/$defs/A"}, "uniqueItems": true,
                "$defs": {"A": {"type": "integer", "exclusiveMinimum": 0, "minimum": 1}}}),
            json!({"type": "array", "items": {"type": "integer", "minimum": 1}}),
        ),
        (
            json!({"oneOf": [{"type": "string", "format": "uri"}, {"type": "integer", "format": "int64"}]}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer", "format": "int64"}]}),
        ),
        (
            json!({"description": "d", "anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"description": "d", "type": "string", "nullable": true}),
        ),
        (json!({"const": "x"}), json!({"type": "string", "enum": ["x"]})),
        (
            json!({"enum": ["", "x"]}),
            json!({"type": "string", "description": "One of: \"\", \"x\"."}),
        ),
        (
            json!({"type": "integer", "enum": [1, 2], "description": "How many."}),
            json!({"type": "integer", "description": "How many. One of: 1, 2."}),
        ),
        (
            json!({"type": ["string", "number"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "number"}]}),
        ),
        (
            json!({"allOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"type": "string"}}, "required": ["b"]},
            ]}),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "required": ["a", "b"]}),
        ),
        // Nothing stands beside a type that is not of that type, and no type beside alternatives.
        (
            json!({"type": ["string", "array", "null"], "minItems": 1, "maxLength": 3, "title": "t",
                "items": {"type": "integer"}}),
            json!({"title": "t", "nullable": true, "anyOf": [
                {"type": "string", "maxLength": 3},
                {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            ]}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                "anyOf": [{"required": ["a"]}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}),
            json!({"type": "object", "required": ["a"],
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}),
        ),
        (
            json!({"type": "string", "anyOf": [{"format": "uri"}, {"format": "email"}]}),
            json!({"type": "string"}),
        ),
        (
            json!({"allOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "string"}]}),
            json!({"type": "string"}),
        ),
        (json!({"anyOf": [{"type": "string"}, {}]}), json!({})),
        (json!({"enum": [1, 2]}), json!({"type": "integer", "description": "One of: 1, 2."})),
        (json!({"const": true}), json!({"type": "boolean", "description": "One of: true."})),
        (json!({"type": "object", "properties": {}}), json!({"type": "object"})),
    ] {
        assert_eq!(schema::reduce(&given), expected, "{given}");
    }
    // Each parameter has a type, also one that may be anything.
    let any = schema::reduce(&json!({"properties": {"value": {"description": "d"}}}));
    assert_eq!(any["properties"]["value"]["description"], "d");
    assert_eq!(any["properties"]["value"]["anyOf"].as_array().unwrap().len(), 5);
}

#[test]
fn a_recursive_schema_ends() {
    let tree = json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {
        "left": {"$ref": "#/$defs/T"}, "right": {"$ref": "#/$defs/T"}}}}});
    let reduced = schema::reduce(&tree).to_string();
    assert!(reduced.len() < 400_000, "{}", reduced.len());
    assert_eq!(schema::reduce(&json!({"$ref": "#"})), json!({}));
}

/// Feeds chunks and gives the events up to the error.
#[track_caller]
fn decode(chunks: &[Value]) -> (Vec<StreamEvent>, bool, Option<ModelError>) {
    decode_frames(&chunks.iter().map(Value::to_string).collect::<Vec<_>>())
}

/// Feeds the data of frames: as bytes in all cuts, which must give the same, and frame by frame.
#[track_caller]
fn decode_frames(frames: &[String]) -> (Vec<StreamEvent>, bool, Option<ModelError>) {
    let bytes: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    let _ = cuts::same_in_all(bytes.as_bytes(), |pieces| {
        let mut stream = Stream::new(&GoogleGenerate, Limits::default());
        let mut told = Vec::new();
        for piece in pieces {
            // The stream keeps its error and tells it at its end.
            let _ = stream.push(piece, &mut told);
        }
        let answer = stream.close(&mut told);
        order::check(&told, answer.as_ref().ok()).unwrap();
        (told, answer)
    });
    let mut decoder = GoogleGenerate.decoder();
    let mut events = Vec::new();
    for frame in frames {
        if let Err(error) = decoder.frame("", frame, &mut events) {
            return (events, decoder.is_complete(), Some(error));
        }
    }
    (events, decoder.is_complete(), None)
}

fn chunk(parts: Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    json!({"candidates": [candidate], "responseId": "r1", "modelVersion": "gemini-3-flash"})
}

#[test]
fn thinking_text_and_calls_become_blocks_in_their_order() {
    let started =
        StreamEvent::MessageStart { id: "r1".to_owned(), model: "gemini-3-flash".to_owned() };
    let signed = json!({"functionCall": {"id": "f1", "name": "shell", "args": {"command": "ls"}}, "thoughtSignature": "S"});
    let mut last = chunk(json!([signed, {"functionCall": {"name": "now"}}]), Some("STOP"));
    last["usageMetadata"] = json!({"promptTokenCount": 100, "cachedContentTokenCount": 40,
        "candidatesTokenCount": 7, "thoughtsTokenCount": 5, "totalTokenCount": 112});
    let (events, is_complete, error) = decode(&[
        chunk(json!([{"text": "I ", "thought": true}]), None),
        chunk(json!([{"text": "think", "thought": true}, {"text": "Hel"}]), None),
        chunk(json!([{"text": ""}, {"text": "lo"}]), None),
        last,
    ]);
    let usage = Usage {
        input: Some(60),
        output: Some(12),
        thinking: Some(5),
        cache_read: Some(40),
        ..Usage::default()
    };
    assert_eq!(
        events,
        [
            started,
            StreamEvent::ThinkingDelta { index: 0, text: "I ".to_owned() },
            StreamEvent::ThinkingDelta { index: 0, text: "think".to_owned() },
            StreamEvent::TextDelta { index: 1, text: "Hel".to_owned() },
            StreamEvent::TextDelta { index: 1, text: "lo".to_owned() },
            StreamEvent::ToolUseStart { index: 2, id: "f1".into(), name: "shell".to_owned() },
            StreamEvent::InputJsonDelta {
                index: 2,
                id: "".into(),
                json: r#"{"command":"ls"}"#.to_owned()
            },
            StreamEvent::ToolUseStop { index: 2, id: "".into() },
            StreamEvent::Native { index: 2, raw: signed },
            StreamEvent::ToolUseStart { index: 3, id: "".into(), name: "now".to_owned() },
            StreamEvent::InputJsonDelta { index: 3, id: "".into(), json: "{}".to_owned() },
            StreamEvent::ToolUseStop { index: 3, id: "".into() },
            StreamEvent::Native { index: 3, raw: json!({"functionCall": {"name": "now"}}) },
            StreamEvent::MessageDelta { usage, stop: Some(StopReason::ToolUse) },
        ]
    );
    assert!(is_complete && error.is_none());
}

#[test]
fn signed_text_is_a_block_of_its_own_and_unknown_parts_are_kept() {
    let code = json!({"executableCode": {"language": "PYTHON", "code": "1"}});
    let signed = json!({"text": "b", "thoughtSignature": "S1"});
    let bare = json!({"text": "", "thoughtSignature": "S2"});
    let (events, ..) = decode(&[
        chunk(json!([{"text": "a"}, signed, {"text": "c"}, code, null, 7]), None),
        chunk(json!([{"futurePart": {}}, bare]), Some("STOP")),
    ]);
    assert_eq!(
        events[1..9],
        [
            StreamEvent::TextDelta { index: 0, text: "a".to_owned() },
            StreamEvent::TextDelta { index: 1, text: "b".to_owned() },
            StreamEvent::Native { index: 1, raw: signed },
            StreamEvent::TextDelta { index: 2, text: "c".to_owned() },
            StreamEvent::Native { index: 3, raw: code },
            StreamEvent::Native { index: 4, raw: json!({"futurePart": {}}) },
            StreamEvent::ThinkingDelta { index: 5, text: String::new() },
            StreamEvent::Native { index: 5, raw: bare },
        ]
    );
}

#[test]
fn every_reason_to_stop_has_its_meaning() {
    let stop = |reason: &str| {
        let (events, is_complete, error) =
            decode(&[json!({"candidates": [{"finishReason": reason, "index": 0}]})]);
        let stop = events.iter().find_map(|event| match event {
            StreamEvent::MessageDelta { stop, .. } => *stop,
            _ => None,
        });
        assert_eq!(is_complete, stop.is_some(), "{reason}");
        stop.ok_or(error.map(|error| error.kind))
    };
    assert_eq!(stop("STOP"), Ok(StopReason::EndTurn));
    assert_eq!(stop("MAX_TOKENS"), Ok(StopReason::MaxTokens));
    for refused in [
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "LANGUAGE",
        "MODEL_ARMOR",
    ] {
        assert_eq!(stop(refused), Ok(StopReason::Refusal));
    }
    assert_eq!(stop("MALFORMED_FUNCTION_CALL"), Err(Some(ErrorKind::MalformedToolCall)));
    assert_eq!(stop("UNEXPECTED_TOOL_CALL"), Err(Some(ErrorKind::MalformedToolCall)));
    assert_eq!(stop("MALFORMED_RESPONSE"), Err(Some(ErrorKind::Protocol)));
    assert_eq!(stop("OTHER"), Err(Some(ErrorKind::Server)));
    assert_eq!(stop("FUTURE_REASON"), Err(Some(ErrorKind::UnknownStop)));
    assert_eq!(stop(""), Err(None));
    assert_eq!(stop("FINISH_REASON_UNSPECIFIED"), Err(None));
}

/// The answer that these chunks make.
#[track_caller]
fn answer(chunks: &[Value]) -> Answer {
    decode(chunks);
    let mut stream = Stream::new(&GoogleGenerate, Limits::default());
    for chunk in chunks {
        stream.push(format!("data: {chunk}\n\n").as_bytes(), &mut Vec::new())?;
    }
    stream.finish()
}

#[test]
fn what_comes_after_the_reason_to_stop_belongs_to_the_answer() {
    let counted = |mut chunk: Value, said: u64| {
        chunk["usageMetadata"] = json!({"promptTokenCount": 5, "candidatesTokenCount": said});
        chunk
    };
    let call = json!({"functionCall": {"id": "f1", "name": "shell", "args": {"command": "ls"}}});
    let chunks = [
        counted(chunk(json!([{"text": "Hel"}]), Some("STOP")), 1),
        chunk(json!([{"text": "lo"}]), None),
        counted(chunk(json!([call]), None), 2),
        counted(chunk(json!([{"text": ""}]), Some("STOP")), 9),
        json!({"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 12}}),
    ];
    let stops = |stop| [StopReason::EndTurn, StopReason::ToolUse].contains(&stop);
    for until in 1..=chunks.len() {
        let (events, is_complete, error) = decode(&chunks[..until]);
        assert!(is_complete && error.is_none(), "{until}");
        assert!(!events.contains(&StreamEvent::MessageStop), "{until}");
        assert!(stops(answer(&chunks[..until]).unwrap().stop), "{until}");
    }
    let reply = answer(&chunks).unwrap();
    assert_eq!((reply.usage.output, reply.stop), (Some(12), StopReason::ToolUse));
    let parts: Vec<_> = reply.message.blocks.into_iter().map(|block| block.part).collect();
    let (id, name) = ("f1".to_owned(), "shell".to_owned());
    let input = json!({"command": "ls"});
    assert_eq!(parts, [Part::Text { text: "Hello".to_owned() }, Part::ToolUse { id, name, input }]);
    // The mark of a gateway is the end.
    let frames = [chunks[0].to_string(), "[DONE]".to_owned()];
    assert_eq!(decode_frames(&frames).0.last(), Some(&StreamEvent::MessageStop));
    assert_eq!(decode_frames(&frames[1..]), (vec![StreamEvent::Ping], false, None));
    // What was cut or refused stays so.
    for (reason, stop) in [("MAX_TOKENS", StopReason::MaxTokens), ("SAFETY", StopReason::Refusal)] {
        let ends = [chunk(json!([{"text": "a"}]), Some(reason)), chunk(json!([]), Some("STOP"))];
        assert_eq!(answer(&ends).unwrap().stop, stop);
        let [first, second] = ends;
        let ends = [second, first];
        assert_eq!(answer(&ends).unwrap().stop, stop);
    }
}

#[test]
fn a_blocked_prompt_is_a_refusal() {
    let (events, is_complete, _) =
        decode(&[json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "usageMetadata": {"promptTokenCount": 9}})]);
    let usage = Usage { input: Some(9), ..Usage::default() };
    assert_eq!(events[1..], [StreamEvent::MessageDelta { usage, stop: Some(StopReason::Refusal) }]);
    assert!(is_complete);
}

#[test]
fn an_error_inside_the_stream_keeps_what_was_counted() {
    let mut first = chunk(json!([{"text": "a"}]), None);
    first["usageMetadata"] = json!({"promptTokenCount": 5, "candidatesTokenCount": 1});
    let failed = json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "The model is overloaded."}});
    for failed in [failed.clone(), json!([failed])] {
        let (_, is_complete, error) = decode(&[first.clone(), failed]);
        let error = error.unwrap();
        assert_eq!((error.kind, error.retry), (ErrorKind::Overloaded, Retry::Backoff));
        assert_eq!((error.usage.input, error.usage.output), (Some(5), Some(1)));
        assert!(!is_complete);
    }
}

#[test]
fn frames_that_break_the_protocol_end_the_stream() {
    let kind = |data: &str| decode_frames(&[data.to_owned()]).2.unwrap().kind;
    assert_eq!(kind("{\"candidates\":"), ErrorKind::MalformedStream);
    assert_eq!(kind("7"), ErrorKind::MalformedStream);
    let part = |part: Value| chunk(json!([part]), None).to_string();
    let pieces = json!({"functionCall": {"name": "x", "willContinue": true}});
    assert_eq!(kind(&part(pieces)), ErrorKind::Protocol);
    assert_eq!(kind(&part(json!({"functionCall": {"args": {}}}))), ErrorKind::MalformedToolCall);
    assert_eq!(kind(r#"{"candidates":[{"finishReason":3}]}"#), ErrorKind::UnknownStop);
}

#[test]
fn no_reason_to_stop_is_no_end_and_only_the_first_candidate_counts() {
    let other = json!({"candidates": [{"content": {"parts": [{"text": "no"}]}, "finishReason": "STOP", "index": 1}]});
    let (events, is_complete, error) =
        decode(&[json!({"candidates": []}), chunk(json!([{"text": "Hi"}]), None), other]);
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(!is_complete && error.is_none());
}

#[test]
fn counters_that_are_no_counters_are_ignored() {
    let mut only = chunk(json!([{"text": "a"}]), Some("STOP"));
    only["usageMetadata"] = json!({"promptTokenCount": -4, "candidatesTokenCount": "7",
        "thoughtsTokenCount": null, "cachedContentTokenCount": 1.5});
    let (events, ..) = decode(&[only]);
    let delta =
        StreamEvent::MessageDelta { usage: Usage::default(), stop: Some(StopReason::EndTurn) };
    assert_eq!(events[2], delta);
}

#[test]
fn a_counter_that_a_chunk_leaves_out_stays_as_it_was_last_told() {
    let counted = |counters: Value| {
        let mut chunk = chunk(json!([{"text": "a"}]), None);
        chunk["usageMetadata"] = counters;
        chunk
    };
    let all = json!({"promptTokenCount": 100, "cachedContentTokenCount": 40,
        "toolUsePromptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 30});
    let usage = |chunks: &[Value]| {
        let (events, ..) = decode(chunks);
        let told = events.iter().rev().find_map(|event| match event {
            StreamEvent::MessageDelta { usage, .. } => Some(*usage),
            _ => None,
        });
        told.unwrap()
    };
    let expected = |output| Usage {
        input: Some(67),
        output: Some(output),
        thinking: Some(30),
        cache_read: Some(40),
        ..Usage::default()
    };
    let last = json!({"promptTokenCount": 100, "candidatesTokenCount": 5});
    let chunks = [counted(all.clone()), counted(last)];
    assert_eq!(usage(&chunks), expected(35), "what was cached is not input once more");
    // In whatever order, and in as many pieces, they come.
    let pieces = all.as_object().unwrap();
    let mut chunks: Vec<Value> =
        pieces.iter().map(|(key, count)| counted(json!({ key: count }))).collect();
    assert_eq!(usage(&chunks), expected(32));
    chunks.reverse();
    assert_eq!(usage(&chunks), expected(32));
}

fn failed(status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    GoogleGenerate.failure(status, &headers, body.as_bytes())
}

#[test]
fn errors_are_told_apart_by_status_reason_and_text() {
    let error = |code: u16, status: &str, message: &str, details: Value| {
        let body = json!({"error": {"code": code, "status": status, "message": message, "details": details}});
        let error = failed(code, &[], &body.to_string());
        (error.kind, error.retry)
    };
    let never = |kind| (kind, Retry::Never);
    let daily = json!([{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
        {"retryDelay": "39s"}]);
    let minute = json!([{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "39s"}]);
    let exhausted = "RESOURCE_EXHAUSTED";
    assert_eq!(error(429, exhausted, "quota", daily), never(ErrorKind::Quota));
    assert_eq!(
        error(429, exhausted, "quota", minute),
        (ErrorKind::RateLimited, Retry::After(39_000))
    );
    let half = json!([{"retryDelay": "0.5s"}]);
    assert_eq!(error(429, exhausted, "", half), (ErrorKind::RateLimited, Retry::After(500)));
    let told = "Please retry in 1.25s.";
    assert_eq!(
        error(429, exhausted, told, json!([])),
        (ErrorKind::RateLimited, Retry::After(1250))
    );
    let bad = json!([{"retryDelay": "-3s"}]);
    assert_eq!(error(429, exhausted, "", bad), (ErrorKind::RateLimited, Retry::Backoff));
    let key = json!([{"reason": "API_KEY_INVALID"}]);
    assert_eq!(error(400, "INVALID_ARGUMENT", "x", key), never(ErrorKind::Auth));
    for (message, kind) in [
        (
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
            ErrorKind::ContextOverflow,
        ),
        ("Function call is missing a thought_signature", ErrorKind::History),
        (
            "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
            ErrorKind::History,
        ),
        (
            "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
            ErrorKind::History,
        ),
        ("Request payload size exceeds the limit: 20971520 bytes.", ErrorKind::TooLarge),
        ("Unknown name \"x\"", ErrorKind::Config),
    ] {
        assert_eq!(error(400, "INVALID_ARGUMENT", message, json!([])), never(kind), "{message}");
    }
    assert_eq!(error(403, "PERMISSION_DENIED", "", json!([])), never(ErrorKind::Auth));
    assert_eq!(error(404, "NOT_FOUND", "", json!([])), never(ErrorKind::Config));
    assert_eq!(error(499, "CANCELLED", "", json!([])), never(ErrorKind::Cancelled));
    assert_eq!(error(500, "INTERNAL", "", json!([])), (ErrorKind::Server, Retry::Backoff));
    assert_eq!(error(503, "UNAVAILABLE", "", json!([])), (ErrorKind::Overloaded, Retry::Backoff));
    let late = (ErrorKind::TotalTimeout, Retry::Backoff);
    assert_eq!(error(504, "DEADLINE_EXCEEDED", "", json!([])), late);
}

#[test]
fn answers_without_an_error_object_are_told_by_their_status() {
    let kind = |status: u16, body: &str| failed(status, &[], body).kind;
    let page = "<html><title>502</title></html>";
    assert_eq!(kind(502, page), ErrorKind::Server);
    assert_eq!(kind(429, page), ErrorKind::RateLimited);
    assert_eq!(kind(403, ""), ErrorKind::Auth);
    assert_eq!(kind(200, page), ErrorKind::Malformed);
    assert_eq!(kind(500, r#"{"error": "a string, not an object"}"#), ErrorKind::Server);
    let wrapped = r#"[{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "x"}}]"#;
    assert_eq!(kind(400, wrapped), ErrorKind::Config);
    let elsewhere = failed(302, &[("location", "http://attacker.invalid/")], "");
    assert_eq!((elsewhere.kind, elsewhere.retry), (ErrorKind::Redirect, Retry::Never));
    let waits = failed(503, &[("retry-after", "3"), ("x-request-id", "q")], "");
    assert_eq!((waits.retry, waits.request_id.as_deref()), (Retry::After(3000), Some("q")));
    assert_eq!(waits.status, Some(503));
}

#[test]
fn an_error_never_repeats_a_key() {
    let body = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT",
        "message": "API key AIzaSyA1234567890abcdef not valid"}});
    assert!(!failed(400, &[], &body.to_string()).message.contains("1234567890"));
}

#[test]
fn a_plain_chunk_says_the_same_the_short_way_and_the_long_way() {
    let usage = json!({"promptTokenCount": 3, "candidatesTokenCount": 2});
    for part in
        [json!({"text": "a \"b\" é"}), json!({"text": "hm", "thought": true}), json!({"text": ""})]
    {
        let mut short = chunk(json!([part]), None);
        short["usageMetadata"] = usage.clone();
        let mut long = short.clone();
        // A list of two is never read the short way.
        long["candidates"][0]["content"]["parts"] = json!([part, {"text": ""}]);
        assert_eq!(decode(&[short.clone(), short]), decode(&[long.clone(), long]), "{part}");
    }
    // A counter of the wrong kind is passed over, and the text kept.
    let mut odd = chunk(json!([{"text": "a"}]), None);
    odd["usageMetadata"] = json!({"promptTokenCount": -3});
    assert_eq!(decode(&[odd]), decode(&[chunk(json!([{"text": "a"}]), None)]));
}
