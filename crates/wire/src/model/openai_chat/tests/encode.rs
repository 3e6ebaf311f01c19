//! Conversations in, bodies out.

use super::super::OpenAiChat;
use super::{
    ask, assistant, bash, body, call, made_by, media, plain, result, text, thinking, user,
};
use crate::model::{Dialect, Effort, ModelRequest, ToolChoice, Vendor};
use machine::message::{Block, Message, Part};
use serde_json::{Value, json};

fn messages(dialect: &OpenAiChat, messages: Vec<Message>) -> Value {
    body(dialect, &ask(messages))["messages"].take()
}

fn calls(ids: &[&str]) -> Message {
    assistant(ids.iter().map(|id| plain(call(id, json!({ "command": "ls" })))).collect())
}

#[test]
fn a_plain_request_asks_for_a_stream_with_usage() {
    let request = ModelRequest {
        system: "Be brief.".to_owned(),
        max_tokens: Some(100),
        temperature: Some(0.5),
        effort: Some(Effort::Low),
        ..ask(vec![user(vec![text("Hi")])])
    };
    let sent = OpenAiChat::openai().encode(&request);
    assert_eq!(sent.path, "/chat/completions");
    assert!(sent.headers.iter().all(|(name, _)| name != "authorization"));
    assert_eq!(OpenAiChat::openai().key_header(), ("authorization", "Bearer "));
    assert_eq!(
        body(&OpenAiChat::openai(), &request),
        json!({
            "model": "m",
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "Hi" },
            ],
            "stream": true,
            "stream_options": { "include_usage": true },
            "max_completion_tokens": 100,
            "temperature": 0.5,
            "reasoning_effort": "low",
        })
    );
    let mistral = body(&OpenAiChat::mistral(), &request);
    assert_eq!(mistral["max_tokens"], 100);
    assert_eq!(mistral.get("max_completion_tokens"), None);
    assert_eq!(mistral.get("stream_options"), None);
}

#[test]
fn tools_and_their_choice_are_said_in_the_vendors_words() {
    let choice = |dialect: OpenAiChat, tool_choice: ToolChoice| {
        let request = ModelRequest { tools: vec![bash()].into(), tool_choice, ..ask(vec![]) };
        body(&dialect, &request)["tool_choice"].take()
    };
    assert_eq!(choice(OpenAiChat::openai(), ToolChoice::Auto), "auto");
    assert_eq!(choice(OpenAiChat::openai(), ToolChoice::None), "none");
    assert_eq!(choice(OpenAiChat::openai(), ToolChoice::Any), "required");
    assert_eq!(choice(OpenAiChat::mistral(), ToolChoice::Any), "any");
    let forced = json!({ "type": "function", "function": { "name": "bash" } });
    assert_eq!(choice(OpenAiChat::mistral(), ToolChoice::Tool("bash".to_owned())), forced);
    let request = ModelRequest { tools: vec![bash()].into(), ..ask(vec![]) };
    assert_eq!(
        body(&OpenAiChat::openai(), &request)["tools"],
        json!([{
            "type": "function",
            "function": {
                "name": "bash",
                "description": "Runs a command",
                "parameters": { "type": "object", "properties": { "command": { "type": "string" } } },
            },
        }])
    );
    assert_eq!(body(&OpenAiChat::openai(), &ask(vec![])).get("tool_choice"), None);
}

#[test]
fn a_schema_is_strict_only_if_it_keeps_strict_modes_rules() {
    let format = |schema: Value| {
        let request = ModelRequest { output_schema: Some(schema), ..ask(vec![]) };
        body(&OpenAiChat::openai(), &request)["response_format"].take()
    };
    let open = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    assert_eq!(
        format(open.clone()),
        json!({
            "type": "json_schema",
            "json_schema": { "name": "answer", "schema": open, "strict": false },
        })
    );
    let closed = json!({
        "type": "object", "properties": { "a": { "type": "string" } },
        "required": ["a"], "additionalProperties": false,
    });
    assert_eq!(format(closed)["json_schema"]["strict"], true);
}

#[test]
fn results_follow_their_calls_and_the_users_words_come_last() {
    let failed = Part::ToolResult {
        id: "call_2".to_owned(),
        name: "bash".to_owned(),
        text: "no".to_owned(),
        is_error: true,
    };
    let history = vec![
        user(vec![text("Go")]),
        assistant(vec![
            plain(text("Both.")),
            plain(call("call_1", json!({ "command": "ls" }))),
            plain(call("call_2", json!({}))),
        ]),
        user(vec![text("And stop."), failed, result("call_1", "")]),
    ];
    assert_eq!(
        messages(&OpenAiChat::openai(), history),
        json!([
            { "role": "user", "content": "Go" },
            { "role": "assistant", "content": "Both.", "tool_calls": [
                { "id": "call_1", "type": "function", "function": { "name": "bash", "arguments": "{\"command\":\"ls\"}" } },
                { "id": "call_2", "type": "function", "function": { "name": "bash", "arguments": "{}" } },
            ] },
            { "role": "tool", "tool_call_id": "call_1", "content": "(no output)" },
            { "role": "tool", "tool_call_id": "call_2", "content": "Error: no" },
            { "role": "user", "content": "And stop." },
        ])
    );
}

#[test]
fn an_interrupted_history_gets_the_results_it_lacks() {
    let history = vec![
        calls(&["call_1", "call_2"]),
        user(vec![result("call_2", "two")]),
        assistant(vec![plain(text(""))]),
        assistant(vec![]),
        user(vec![text("Go on"), result("call_9", "lost")]),
        assistant(vec![plain(text("Well,"))]),
        assistant(vec![plain(text("then."))]),
    ];
    let got = messages(&OpenAiChat::openai(), history);
    let roles: Vec<&str> =
        got.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["assistant", "tool", "tool", "user", "assistant"]);
    assert_eq!(got[0]["content"], Value::Null);
    assert_eq!(got[1]["content"], "The call was interrupted; its outcome is unknown.");
    assert_eq!(got[2]["content"], "two");
    assert_eq!(got[3]["content"], "Go on\n\nResult of the tool bash:\nlost");
    assert_eq!(got[4]["content"], "Well,\n\nthen.");
}

#[test]
fn a_result_that_comes_late_is_told_as_text() {
    let history = vec![
        calls(&["call_1"]),
        user(vec![text("Wait")]),
        assistant(vec![plain(text("Yes"))]),
        user(vec![result("call_1", "late")]),
    ];
    let got = messages(&OpenAiChat::openai(), history);
    assert_eq!(got[1]["content"], "The call was interrupted; its outcome is unknown.");
    let told = json!({ "role": "user", "content": "Result of the tool bash:\nlate" });
    assert_eq!(got[4], told);
}

#[test]
fn calls_stored_one_a_message_find_their_results() {
    let answers = user(vec![result("call_1", "one"), result("call_2", "two")]);
    let got =
        messages(&OpenAiChat::openai(), vec![calls(&["call_1"]), calls(&["call_2"]), answers]);
    assert_eq!((&got[1]["content"], &got[3]["content"]), (&json!("one"), &json!("two")));
}

#[test]
fn mistral_gets_ids_of_nine_characters_that_never_collide() {
    let history = vec![
        calls(&["toolu_01VpEm654HvfMoRcrE3Hgdc6", "c00000002", "call_1"]),
        user(vec![
            result("call_1", "c"),
            result("toolu_01VpEm654HvfMoRcrE3Hgdc6", "a"),
            result("c00000002", "b"),
        ]),
        calls(&["call_1", "D681PevKs"]),
        user(vec![result("call_1", "d"), result("D681PevKs", "e")]),
    ];
    let got = messages(&OpenAiChat::mistral(), history.clone());
    let ids = |message: &Value| -> Vec<String> {
        let calls = message["tool_calls"].as_array().unwrap();
        calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&got[0]), ["c00000001", "c00000002", "c00000003"]);
    assert_eq!(ids(&got[4]), ["c00000004", "D681PevKs"]);
    let results: Vec<(&str, &str)> = got
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["role"] == "tool")
        .map(|m| (m["tool_call_id"].as_str().unwrap(), m["content"].as_str().unwrap()))
        .collect();
    assert_eq!(
        results,
        [
            ("c00000001", "a"),
            ("c00000002", "b"),
            ("c00000003", "c"),
            ("c00000004", "d"),
            ("D681PevKs", "e"),
        ]
    );
    // A longer history keeps the ids of the shorter one, so that caches stay warm.
    assert_eq!(messages(&OpenAiChat::mistral(), history[..2].to_vec())[0], got[0]);
}

#[test]
fn openai_gets_ids_of_forty_characters_at_most() {
    let long = "call_".repeat(10);
    let got = messages(&OpenAiChat::openai(), vec![calls(&[&long, "a b", "", "ok"])]);
    let ids: Vec<&str> = got[0]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["call_1", "call_2", "call_3", "ok"]);
}

#[test]
fn mistral_hears_the_model_between_a_result_and_a_person() {
    let history = vec![calls(&["call_1"]), user(vec![result("call_1", "x"), text("Stop")])];
    let roles = |dialect: OpenAiChat| -> Vec<String> {
        let got = messages(&dialect, history.clone());
        got.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(OpenAiChat::mistral()), ["assistant", "tool", "assistant", "user"]);
    assert_eq!(roles(OpenAiChat::openai()), ["assistant", "tool", "user"]);
}

#[test]
fn another_providers_history_is_sent_without_what_only_it_reads() {
    let foreign = |part: Part, raw: Value| made_by("anthropic_messages", "claude", part, raw);
    let history = vec![
        user(vec![text("Hi")]),
        assistant(vec![
            foreign(thinking("hm"), json!({ "type": "thinking", "signature": "s" })),
            foreign(Part::Opaque, json!({ "type": "redacted_thinking", "data": "x" })),
            plain(text("Look.")),
            foreign(call("toolu_1", json!({})), json!({ "type": "tool_use" })),
        ]),
        user(vec![result("toolu_1", "ok")]),
        assistant(vec![foreign(thinking("only"), json!({}))]),
    ];
    assert_eq!(
        messages(&OpenAiChat::openai(), history),
        json!([
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "Look.", "tool_calls": [
                { "id": "toolu_1", "type": "function", "function": { "name": "bash", "arguments": "{}" } },
            ] },
            { "role": "tool", "tool_call_id": "toolu_1", "content": "ok" },
        ])
    );
}

#[test]
fn the_same_model_gets_its_thinking_back_in_the_form_it_came_in() {
    let said = |model: &str| -> Vec<Block> {
        let own = |part: Part, raw: Value| made_by("openai_chat", model, part, raw);
        vec![
            own(thinking("a"), json!({ "reasoning_content": "a" })),
            own(
                thinking("b"),
                json!({ "type": "thinking", "thinking": [{ "type": "text", "text": "b" }] }),
            ),
            plain(text("Hi")),
            own(call("call_1", json!({})), json!({ "extra_content": { "google": 1 } })),
        ]
    };
    let got = messages(&OpenAiChat::openai(), vec![assistant(said("m"))]);
    assert_eq!(
        got[0],
        json!({
            "role": "assistant",
            "reasoning_content": "a",
            "content": [
                { "type": "thinking", "thinking": [{ "type": "text", "text": "b" }] },
                { "type": "text", "text": "Hi" },
            ],
            "tool_calls": [{
                "id": "call_1", "type": "function", "function": { "name": "bash", "arguments": "{}" },
                "extra_content": { "google": 1 },
            }],
        })
    );
    let got = messages(&OpenAiChat::openai(), vec![assistant(said("other"))]);
    assert_eq!(got[0]["content"], "Hi");
    assert_eq!(got[0].get("reasoning_content"), None);
    assert_eq!(got[0]["tool_calls"][0].get("extra_content"), None);
}

#[test]
fn reasoning_that_a_gateway_passed_on_goes_back_unless_it_is_bound_to_what_is_gone() {
    let bound = json!({ "type": "reasoning.text", "text": "a", "signature": "S", "format": "anthropic-claude-v1", "index": 0 });
    let free = json!({ "type": "reasoning.encrypted", "data": "D", "format": "google-gemini-v1", "index": 0 });
    let said = |model: &str| {
        let raw = json!({ "reasoning_details": [bound, free] });
        let own = |raw: Value| made_by("openai_chat", model, thinking("a"), raw);
        vec![assistant(vec![own(json!({ "reasoning": "a" })), own(raw), plain(text("Hi"))])]
    };
    let mut request = ask(said("m"));
    let sent = |request: &ModelRequest| body(&OpenAiChat::openai(), request)["messages"][0].take();
    let details = json!([bound, free]);
    let whole = json!({ "role": "assistant", "content": "Hi", "reasoning_details": details });
    assert_eq!(sent(&request), whole, "the same words are not sent twice");
    request.moved = 1;
    assert_eq!(sent(&request)["reasoning_details"], json!([free]));
    assert_eq!(sent(&ask(said("other"))), json!({ "role": "assistant", "content": "Hi" }));
}

#[test]
fn pictures_and_documents_are_parts() {
    let parts = || {
        vec![
            text("See"),
            media("image/png", "iVBO", None),
            media("application/pdf", "JVBE", Some("a.pdf")),
            media("text/plain", "SMOkbGxv", Some("b.txt")),
            media("audio/wav", "UklG", None),
            media("video/mp4", "AAAA", None),
        ]
    };
    assert_eq!(
        messages(&OpenAiChat::openai(), vec![user(parts())])[0]["content"],
        json!([
            { "type": "text", "text": "See" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBO" } },
            { "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE" } },
            { "type": "text", "text": "b.txt:\nHällo" },
            { "type": "input_audio", "input_audio": { "data": "UklG", "format": "wav" } },
            { "type": "text", "text": "[video/mp4 left out]" },
        ])
    );
    let mistral = messages(&OpenAiChat::mistral(), vec![user(parts())]);
    assert_eq!(
        mistral[0]["content"][2],
        json!({
            "type": "document_url",
            "document_url": "data:application/pdf;base64,JVBE",
            "document_name": "a.pdf",
        })
    );
    let said = vec![assistant(vec![plain(media("image/png", "iVBO", None))])];
    assert_eq!(messages(&OpenAiChat::openai(), said)[0]["content"], "[image/png left out]");
}

#[test]
fn the_same_request_gives_the_same_bytes() {
    let request = ModelRequest { tools: vec![bash()].into(), ..ask(vec![calls(&["x!", "y!"])]) };
    let dialect = OpenAiChat { vendor: Vendor::default() };
    assert_eq!(dialect.encode(&request), dialect.encode(&request));
}
