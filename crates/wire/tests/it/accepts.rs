//! What providers refuse of a conversation: the well-known ways to spoil one, each refused in the provider's words,
//! which our own reader of errors takes for what they are.

use serde_json::{Value, json};
use wire::model::script::{Failure, Served, read, render_failure, route};
use wire::model::{ErrorKind, accepts};

use crate::histories::dialect;

fn body(served: Served, history: &Value) -> Value {
    let key = match served {
        Served::AnthropicMessages | Served::OpenAiChat | Served::Mistral => "messages",
        Served::OpenAiResponses => "input",
        Served::GoogleGenerate => "contents",
    };
    json!({ "model": "m", key: history, "tools": [{ "name": "read" }] })
}

fn takes(served: Served, history: &Value) {
    assert_eq!(accepts::check(served, &body(served, history)), Ok(()), "{served:?} {history}");
}

/// Refused, and the refusal is read as what it is: never to be tried again.
fn refuses(served: Served, words: &str, history: &Value) {
    let body = body(served, history);
    let message = accepts::check(served, &body).expect_err(&format!("{served:?} takes {history}"));
    assert!(message.contains(words), "{served:?} {history}: {message}");
    let path = match served {
        Served::AnthropicMessages => "/v1/messages",
        Served::OpenAiChat => "/v1/chat/completions",
        Served::OpenAiResponses => "/v1/responses",
        Served::GoogleGenerate => "/v1beta/models/m:streamGenerateContent",
        Served::Mistral => "/mistral/v1/chat/completions",
    };
    let failure: Failure =
        read(&route("POST", path).unwrap(), body.to_string().as_bytes()).unwrap_err();
    let rendered = render_failure(&failure, served);
    assert_eq!(rendered.status, 400);
    let error = dialect(served).failure(400, &rendered.headers, &rendered.chunks.concat());
    assert_eq!(error.kind, ErrorKind::History, "{served:?}: {error}");
}

#[test]
fn anthropic_wants_results_at_once_and_nothing_empty() {
    let served = Served::AnthropicMessages;
    let user = json!({ "role": "user", "content": "hi" });
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "read", "input": {} });
    let calls = |ids: &[&str]| json!({ "role": "assistant", "content": ids.iter().map(|id| call(id)).collect::<Vec<_>>() });
    let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "x" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let says = |role: &str, blocks: Value| json!({ "role": role, "content": blocks });

    takes(
        served,
        &json!([user, calls(&["a", "b"]), says("user", json!([result("b"), result("a")]))]),
    );
    takes(served, &json!([user, user, says("assistant", json!([text("so")])), user]));
    takes(served, &json!([user, calls(&["a"]), says("user", json!([result("a"), text("and")]))]));
    refuses(served, "without `tool_result`", &json!([user, calls(&["a"]), user]));
    refuses(served, "without `tool_result`", &json!([user, calls(&["a"])]));
    refuses(
        served,
        "without `tool_result`",
        &json!([user, calls(&["a", "b"]), says("user", json!([result("a")]))]),
    );
    refuses(
        served,
        "without `tool_result`",
        &json!([user, calls(&["a"]), says("user", json!([text("first"), result("a")]))]),
    );
    refuses(served, "unexpected `tool_use_id`", &json!([user, says("user", json!([result("a")]))]));
    refuses(
        served,
        "unexpected `tool_use_id`",
        &json!([user, calls(&["a"]), says("user", json!([result("a"), result("a")]))]),
    );
    refuses(served, "should match", &json!([user, calls(&["a:b"])]));
    refuses(
        served,
        "must be unique",
        &json!([user, calls(&["a"]), says("user", json!([result("a")])), calls(&["a"])]),
    );
    refuses(served, "\"user\" role", &json!([says("assistant", json!([text("me")])), user]));
    refuses(served, "non-empty content", &json!([user, says("assistant", json!([])), user]));
    refuses(
        served,
        "non-whitespace",
        &json!([user, says("assistant", json!([text(" \n")])), user]),
    );
    refuses(served, "must end with a user", &json!([user, says("assistant", json!([text("me")]))]));
    let thought = json!({ "type": "thinking", "thinking": "hm", "signature": "x" });
    refuses(
        served,
        "cannot be `thinking`",
        &json!([user, says("assistant", json!([thought])), user]),
    );
}

#[test]
fn anthropic_takes_no_thoughts_where_thinking_is_switched_off() {
    let says = |role: &str, blocks: Value| json!({ "role": role, "content": blocks });
    let thought = json!({ "type": "thinking", "thinking": "hm", "signature": "x" });
    let call = json!({ "type": "tool_use", "id": "a", "name": "read", "input": {} });
    let result = json!({ "type": "tool_result", "tool_use_id": "a", "content": "x" });
    let user = || says("user", json!([{ "type": "text", "text": "hi" }]));
    let words = json!({ "type": "text", "text": "so" });
    let last =
        json!([user(), says("assistant", json!([thought, call])), says("user", json!([result]))]);
    let before = json!([
        user(),
        says("assistant", json!([thought, words])),
        user(),
        says("assistant", json!([words])),
        user(),
    ]);
    let check = |history: &Value, thinking: Value| {
        let tools = json!([{ "name": "read", "input_schema": { "type": "object" } }]);
        let body = json!({ "messages": history, "tools": tools, "thinking": thinking });
        accepts::check(Served::AnthropicMessages, &body)
    };
    assert_eq!(check(&last, json!({ "type": "adaptive" })), Ok(()));
    assert_eq!(check(&last, Value::Null), Ok(()));
    assert_eq!(check(&before, json!({ "type": "disabled" })), Ok(()));
    let over = json!([user(), says("assistant", json!([thought, words])), user()]);
    assert_eq!(check(&over, json!({ "type": "disabled" })), Ok(()));
    let why = check(&last, json!({ "type": "disabled" })).unwrap_err();
    assert!(why.contains("When thinking is disabled"), "{why}");
    // It is told as what heals without the thoughts.
    let body = json!({ "error": { "type": "invalid_request_error", "message": why } });
    let error = dialect(Served::AnthropicMessages).failure(400, &[], body.to_string().as_bytes());
    assert_eq!(error.kind, ErrorKind::StaleThinking);
}

#[test]
fn anthropic_takes_instructions_after_the_user_and_before_the_model() {
    let served = Served::AnthropicMessages;
    let text = |text: &str| json!({ "type": "text", "text": text });
    let says = |role: &str, blocks: Value| json!({ "role": role, "content": blocks });
    let user = says("user", json!("hi"));
    let model = says("assistant", json!([text("so")]));
    let told = says("system", json!([text("be brief")]));
    let call = json!({ "type": "tool_use", "id": "a", "name": "read", "input": {} });
    let calls = says("assistant", json!([call]));
    let results =
        says("user", json!([{ "type": "tool_result", "tool_use_id": "a", "content": "x" }]));
    let searched = says(
        "assistant",
        json!([{ "type": "web_search_tool_result", "tool_use_id": "s", "content": [] }]),
    );
    let change = says("system", json!([{ "type": "tool_addition", "tool": {} }]));
    let mut effort = says("system", json!([]));
    effort["output_config"] = json!({ "effort": "low" });

    takes(served, &json!([user, told]));
    takes(served, &json!([user, says("system", json!("be brief")), model, user]));
    takes(served, &json!([user, calls, results, told, model, user, told]));
    takes(served, &json!([user, told, told, model, user]));
    takes(served, &json!([user, searched, told, model, user]));
    takes(served, &json!([user, change, model, user]));
    // What only sets something, and says nothing, stands anywhere.
    takes(served, &json!([effort, user, effort, calls, effort, results, effort]));

    refuses(served, "top-level 'system'", &json!([told, user]));
    refuses(served, "messages.2: role 'system' must follow", &json!([user, model, told, user]));
    refuses(served, "messages.2: role 'system' must follow", &json!([user, calls, told, results]));
    refuses(served, "messages.2: role 'system' must precede", &json!([user, told, told, user]));
    refuses(served, "without `tool_result`", &json!([user, calls, user, told]));
    refuses(served, "without `tool_result`", &json!([user, calls, effort]));
    refuses(served, "must end with a user", &json!([user, model, effort]));
    refuses(served, "at least one block", &json!([user, says("system", json!([]))]));
    refuses(served, "at least one block", &json!([user, says("system", json!(""))]));
    refuses(served, "non-empty", &json!([user, says("system", json!([text("")]))]));
    refuses(served, "blocks only", &json!([user, says("system", json!([{ "type": "image" }]))]));
}

#[test]
fn chat_wants_one_result_for_each_call_and_mistral_an_answer_after_it() {
    let user = json!({ "role": "user", "content": "hi" });
    let says = json!({ "role": "assistant", "content": "so" });
    let calls = |ids: &[&str]| {
        let call = |id: &&str| json!({ "id": id, "type": "function", "function": { "name": "read", "arguments": "{}" } });
        json!({ "role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>() })
    };
    let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "x" });
    let (a, b) = ("abcdefgh1", "abcdefgh2");

    for served in [Served::OpenAiChat, Served::Mistral] {
        takes(served, &json!([user, calls(&[a, b]), result(b), result(a)]));
        takes(served, &json!([user, calls(&[a]), result(a), says, user]));
        refuses(served, "", &json!([user, calls(&[a])]));
        refuses(served, "", &json!([user, calls(&[a, b]), result(a), user]));
        refuses(served, "", &json!([user, result(a)]));
        refuses(served, "", &json!([user, calls(&[a]), result(a), result(a)]));
        refuses(served, "", &json!([user, calls(&[a]), result(b)]));
        refuses(served, "", &json!([user, { "role": "assistant", "content": null }, user]));
        refuses(served, "", &json!([user, calls(&[a, a]), result(a), result(a)]));
        refuses(served, "", &json!([user, calls(&[&"x".repeat(41)]), result(&"x".repeat(41))]));
    }
    takes(Served::OpenAiChat, &json!([user, calls(&["x"]), result("x"), user]));
    refuses(Served::Mistral, "length of 9", &json!([user, calls(&["x"]), result("x")]));
    refuses(Served::Mistral, "after role 'tool'", &json!([user, calls(&[a]), result(a), user]));
    refuses(Served::Mistral, "Expected last role", &json!([user, says]));
}

#[test]
fn responses_want_pairs_and_what_reasoning_led_to() {
    let served = Served::OpenAiResponses;
    let user = json!({ "role": "user", "content": "hi" });
    let call =
        json!({ "type": "function_call", "call_id": "a", "name": "read", "arguments": "{}" });
    let output = json!({ "type": "function_call_output", "call_id": "a", "output": "x" });
    let thought = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "x" });
    takes(served, &json!([user, thought, call, output, user]));
    refuses(served, "No tool output found", &json!([user, call, user]));
    refuses(served, "No tool call found", &json!([user, output]));
    refuses(served, "No tool call found", &json!([user, output, call]));
    refuses(served, "without its required following", &json!([user, thought]));
    refuses(served, "without its required following", &json!([user, thought, user]));
}

#[test]
fn google_wants_turns_and_as_many_responses_as_calls() {
    let served = Served::GoogleGenerate;
    let says = |role: &str, parts: Value| json!({ "role": role, "parts": parts });
    let user = says("user", json!([{ "text": "hi" }]));
    let call = |id: &str| json!({ "functionCall": { "id": id, "name": "read", "args": {} } });
    let response = |id: &str| json!({ "functionResponse": { "id": id, "name": "read", "response": { "output": "x" } } });
    let calls = says("model", json!([call("a"), call("b")]));
    takes(served, &json!([user, calls, says("user", json!([response("a"), response("b")]))]));
    refuses(served, "number of function response", &json!([user, calls, user]));
    refuses(served, "number of function response", &json!([user, calls]));
    refuses(
        served,
        "number of function response",
        &json!([user, calls, says("user", json!([response("a")]))]),
    );
    refuses(served, "immediately after", &json!([says("user", json!([response("a")]))]));
    refuses(served, "alternate", &json!([user, user]));
    refuses(served, "alternate", &json!([says("model", json!([{ "text": "me" }])), user]));
    refuses(
        served,
        "end with a user role",
        &json!([user, says("model", json!([{ "text": "me" }]))]),
    );
    refuses(served, "must not be empty", &json!([user, says("model", json!([])), user]));
}
