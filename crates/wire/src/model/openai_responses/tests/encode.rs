//! Conversations in, bodies out.

use super::super::OpenAiResponses;
use crate::model::openai_chat::tests::{
    ask, assistant, bash, body, call, made_by, media, plain, result, text, thinking, user,
};
use crate::model::{Dialect, Effort, ModelRequest, ToolChoice};
use machine::message::{Block, Message, Part};
use serde_json::{Value, json};

fn input(messages: Vec<Message>) -> Value {
    body(&OpenAiResponses, &ask(messages))["input"].take()
}

fn own(model: &str, part: Part, raw: Value) -> Block {
    made_by("openai_responses", model, part, raw)
}

fn reasoning() -> Value {
    json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc" })
}

fn function_call() -> Value {
    json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash", "arguments": "{ }", "status": "completed" })
}

#[test]
fn a_request_is_stateless_and_asks_for_encrypted_reasoning() {
    let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let request = ModelRequest {
        system: "Be brief.".to_owned(),
        tools: vec![bash()].into(),
        tool_choice: ToolChoice::Tool("bash".to_owned()),
        max_tokens: Some(100),
        temperature: Some(0.5),
        effort: Some(Effort::High),
        output_schema: Some(schema.clone()),
        ..ask(vec![user(vec![text("Hi")])])
    };
    assert_eq!(OpenAiResponses.encode(&request).path, "/responses");
    assert_eq!(
        body(&OpenAiResponses, &request),
        json!({
            "model": "m",
            "instructions": "Be brief.",
            "input": [{ "type": "message", "role": "user", "content": "Hi" }],
            "tools": [{
                "type": "function", "name": "bash", "description": "Runs a command",
                "parameters": { "type": "object", "properties": { "command": { "type": "string" } } },
                "strict": false,
            }],
            "tool_choice": { "type": "function", "name": "bash" },
            "max_output_tokens": 100,
            "temperature": 0.5,
            "reasoning": { "effort": "high", "summary": "auto" },
            "include": ["reasoning.encrypted_content"],
            "text": { "format": { "type": "json_schema", "name": "answer", "schema": schema, "strict": true } },
            "store": false,
            "stream": true,
        })
    );
}

#[test]
fn families_without_reasoning_are_not_asked_for_it() {
    let include = |model: &str, effort: Option<Effort>| {
        let request = ModelRequest { model: model.to_owned(), effort, ..ask(vec![]) };
        body(&OpenAiResponses, &request).get("include").is_some()
    };
    assert!(include("gpt-5", None));
    assert!(include("o3", None));
    assert!(!include("gpt-4.1-mini", None));
    assert!(!include("ft:gpt-4.1-mini:me::1", None));
    assert!(!include("gpt-5-chat-latest", None));
    assert!(include("gpt-4.1-mini", Some(Effort::Low)));
}

#[test]
fn the_same_model_gets_its_items_back_as_they_were() {
    let message = json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": [] });
    let turn = assistant(vec![
        own("m", thinking(""), reasoning()),
        own("m", text("Look."), message.clone()),
        own("m", call("call_1", json!({})), function_call()),
        own("m", Part::Opaque, json!({ "type": "web_search_call", "id": "ws_1" })),
    ]);
    let history = vec![user(vec![text("Go")]), turn, user(vec![result("call_1", "ok")])];
    assert_eq!(
        input(history),
        json!([
            { "type": "message", "role": "user", "content": "Go" },
            reasoning(),
            message,
            function_call(),
            { "type": "web_search_call", "id": "ws_1" },
            { "type": "function_call_output", "call_id": "call_1", "output": "ok" },
        ])
    );
}

#[test]
fn another_model_gets_what_everybody_can_read() {
    let turn = assistant(vec![
        own("other", thinking("hm"), reasoning()),
        own("other", text("Look."), json!({ "type": "message", "id": "msg_1" })),
        own("other", call("call_1", json!({ "command": "ls" })), function_call()),
        made_by("anthropic_messages", "m", Part::Opaque, json!({ "type": "redacted_thinking" })),
    ]);
    assert_eq!(
        input(vec![turn]),
        json!([
            { "type": "message", "role": "assistant", "content": "Look." },
            { "type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{\"command\":\"ls\"}" },
            {
                "type": "function_call_output", "call_id": "call_1",
                "output": "The call was interrupted; its outcome is unknown.",
            },
        ])
    );
}

#[test]
fn reasoning_that_led_to_nothing_or_cannot_be_read_is_left_out() {
    assert_eq!(input(vec![assistant(vec![own("m", thinking("x"), reasoning())])]), json!([]));
    let mut bare = reasoning();
    bare["encrypted_content"] = Value::Null;
    let turn = |raw: Value| assistant(vec![own("m", thinking("x"), raw), plain(text("Hi"))]);
    assert_eq!(input(vec![turn(bare.clone())]).as_array().unwrap().len(), 1);
    bare["content"] = json!([{ "type": "reasoning_text", "text": "x" }]);
    assert_eq!(input(vec![turn(bare)]).as_array().unwrap().len(), 2);
}

#[test]
fn a_call_whose_id_is_taken_gets_another_and_loses_its_item() {
    let turn = || assistant(vec![own("m", call("call_1", json!({})), function_call())]);
    let answer = || user(vec![result("call_1", "ok")]);
    let got = input(vec![turn(), answer(), turn(), answer()]);
    assert_eq!(got[0], function_call());
    assert_eq!(
        got[2],
        json!({ "type": "function_call", "call_id": "call_2", "name": "bash", "arguments": "{}" })
    );
    assert_eq!(got[3]["call_id"], "call_2");
    let long = "x".repeat(65);
    let got = input(vec![assistant(vec![plain(call(&long, json!({})))])]);
    assert_eq!(got[0]["call_id"], "call_1");
}

#[test]
fn pictures_and_documents_are_parts() {
    let parts = vec![
        text("See"),
        media("image/png", "iVBO", None),
        media("application/pdf", "JVBE", None),
        media("audio/wav", "UklG", Some("a.wav")),
        media("text/markdown", "SGk", Some("b.md")),
    ];
    assert_eq!(
        input(vec![user(parts)])[0]["content"],
        json!([
            { "type": "input_text", "text": "See" },
            { "type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto" },
            { "type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE" },
            { "type": "input_text", "text": "[a.wav (audio/wav) left out]" },
            { "type": "input_text", "text": "b.md:\nHi" },
        ])
    );
}

#[test]
fn temperatures_go_only_to_models_that_take_them() {
    let sent = |model: &str| {
        let mut request = ask(vec![]);
        (request.model, request.temperature) = (model.to_owned(), Some(0.5));
        body(&OpenAiResponses, &request).get("temperature").is_some()
    };
    for model in
        ["gpt-4.1", "ft:gpt-4.1-mini:me", "gpt-5-chat-latest", "gpt-oss-20b", "omega", "openhands"]
    {
        assert!(sent(model), "{model}");
    }
    for model in ["gpt-5", "gpt-5.2-codex", "o3", "o4-mini", "openai/gpt-5-mini", "ft:o4-mini:me"] {
        assert!(!sent(model), "{model}");
    }
}
