//! Status, headers and body in, typed errors out.

use super::super::OpenAiChat;
use crate::model::{Dialect, ModelError, Retry};

fn failure(status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    OpenAiChat::openai().failure(status, &headers, body.as_bytes())
}

#[track_caller]
fn check(status: u16, body: &str, kind: &str, retry: Retry) {
    let error = failure(status, &[], body);
    assert_eq!((error.kind.word(), error.retry), (kind, retry), "{error}");
}

#[test]
fn openai_bodies_have_their_kinds() {
    let never = Retry::Never;
    let body = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    check(429, body, "quota", never);
    let body = r#"{"error":{"message":"Rate limit reached for m. Please try again in 1.898s. Visit us.","type":"tokens","code":"rate_limit_exceeded"}}"#;
    check(429, body, "rate_limited", Retry::After(1898));
    let body = r#"{"error":{"message":"Limit reached. Please try again in 6m0s.","type":"requests","code":null}}"#;
    check(429, body, "rate_limited", Retry::After(360_000));
    let body = r#"{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 40000.","type":"tokens","code":"rate_limit_exceeded"}}"#;
    check(429, body, "context_overflow", never);
    let body = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    check(400, body, "context_overflow", never);
    let body = r#"{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":null}}"#;
    check(400, body, "context_overflow", never);
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-proj-1234567890abcdef.","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    check(401, body, "auth", never);
    assert!(!failure(401, &[], body).message.contains("1234567890"));
    let body = r#"{"error":{"message":"The model `gpt-9` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#;
    check(404, body, "config", never);
    let body = r#"{"error":{"message":"Invalid 'tools[0].function.name'","type":"invalid_request_error","param":"tools[0]","code":null}}"#;
    check(400, body, "config", never);
    let body = r#"{"error":{"message":"slow down","type":"server_error","code":"slow_down"}}"#;
    check(503, body, "overloaded", Retry::Backoff);
    let body = r#"{"error":{"message":"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.","type":"invalid_request_error"}}"#;
    check(400, body, "history", never);
    let body = r#"{"error":{"message":"No tool output found for function call call_1.","type":"invalid_request_error"}}"#;
    check(400, body, "history", never);
    let body = r#"{"error":{"message":"Item 'rs_1' of type 'reasoning' was provided without its required following item.","type":"invalid_request_error"}}"#;
    check(400, body, "history", never);
    let body = r#"{"error":{"message":"flagged","type":"invalid_request_error","code":"content_policy_violation"}}"#;
    check(400, body, "content_filter", never);
}

#[test]
fn mistral_bodies_have_their_kinds() {
    let never = Retry::Never;
    let body = r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"invalid_request_error","code":null}"#;
    check(400, body, "overloaded", Retry::Backoff);
    let body =
        r#"{"object":"error","message":"x","type":"service_tier_capacity_exceeded","code":"3505"}"#;
    check(429, body, "overloaded", Retry::Backoff);
    check(429, r#"{"object":"error","message":"x","code":3505}"#, "overloaded", Retry::Backoff);
    check(429, r#"{"message":"Requests rate limit exceeded"}"#, "rate_limited", Retry::Backoff);
    let body = r#"{"object":"error","message":"Tool call id was toolu_1 but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_function_call","code":"3280"}"#;
    check(400, body, "history", never);
    let body = r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","code":"3230"}"#;
    check(400, body, "history", never);
    let body = r#"{"object":"error","message":{"detail":[{"msg":"x","loc":["body","model"]}]},"type":"invalid_request_error"}"#;
    check(400, body, "config", never);
    assert_eq!(failure(400, &[], body).message, "body.model: x");
    check(
        422,
        r#"{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"}]}"#,
        "config",
        never,
    );
    check(401, r#"{"detail":"Unauthorized"}"#, "auth", never);
    let body = r#"{"object":"error","message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}"#;
    check(400, body, "context_overflow", never);
}

#[test]
fn a_call_that_the_server_could_not_read_is_asked_for_again() {
    let body = r#"{"error":{"message":"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=ls"}}"#;
    check(400, body, "malformed_tool_call", Retry::Backoff);
}

#[test]
fn every_server_has_its_own_words_for_a_question_that_is_too_long() {
    for words in [
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "prompt token count of 5000 exceeds the limit of 4096",
        "Range of input length should be [1, 30000]",
        "Context size has been exceeded.",
    ] {
        let body = serde_json::json!({ "error": { "message": words, "code": null } }).to_string();
        check(400, &body, "context_overflow", Retry::Never);
    }
}

#[test]
fn bodies_that_are_no_errors_leave_it_to_the_status() {
    let never = Retry::Never;
    check(502, "<html>bad gateway</html>", "server", Retry::Backoff);
    check(500, r#"{"error":"a string, not an object"}"#, "server", Retry::Backoff);
    check(500, "[]", "server", Retry::Backoff);
    check(503, "", "overloaded", Retry::Backoff);
    check(413, "<html>too large</html>", "too_large", never);
    check(402, "{}", "quota", never);
    check(418, "null", "client", never);
    check(200, "<html>login</html>", "malformed", never);
    check(200, r#"{"choices":[]}"#, "malformed", never);
    check(
        200,
        r#"{"error":{"message":"x","code":"server_is_overloaded"}}"#,
        "overloaded",
        Retry::Backoff,
    );
    let page = failure(502, &[], "<html>x</html>").message;
    assert_eq!(page, "HTTP 502: a web page instead of an answer");
    assert_eq!(failure(503, &[], "").message, "HTTP 503");
    assert_eq!(failure(500, &[], "\u{1b}[31mno\n").message, "[31mno");
}

#[test]
fn headers_decide_the_wait_and_name_the_request() {
    let body = r#"{"error":{"message":"Please try again in 20s","code":"rate_limit_exceeded"}}"#;
    let headers = [("retry-after", "7"), ("x-request-id", "req_1")];
    let error = failure(429, &headers, body);
    assert_eq!(error.retry, Retry::After(7000));
    assert_eq!((error.status, error.request_id.as_deref()), (Some(429), Some("req_1")));
    assert_eq!(failure(429, &[("retry-after-ms", "1500")], "").retry, Retry::After(1500));
    assert_eq!(failure(429, &[("retry-after", "abc")], "").retry, Retry::Backoff);
    let quota = r#"{"error":{"message":"x","code":"insufficient_quota"}}"#;
    assert_eq!(failure(429, &headers, quota).retry, Retry::Never);
    let redirect = failure(302, &[("location", "http://attacker.invalid/")], body);
    assert_eq!((redirect.kind.word(), redirect.retry), ("redirect", Retry::Never));
    let told = "HTTP 302 to http://attacker.invalid/, which is not followed: see to its base URL";
    assert_eq!(redirect.message, told);
    let elsewhere = failure(308, &[("location", "https://host/v1?code=secret")], "");
    assert!(elsewhere.message.starts_with("HTTP 308 to https://host/v1, "), "{elsewhere}");
}

#[test]
fn what_the_server_behind_a_gateway_said_is_told_and_decides() {
    let raw = r#"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 208732 tokens > 200000 maximum\"}}"#;
    let body = |raw: &str| {
        format!(
            r#"{{"error":{{"message":"Provider returned error","code":400,"metadata":{{"raw":"{raw}","provider_name":"x"}}}}}}"#
        )
    };
    check(400, &body(raw), "context_overflow", Retry::Never);
    let told = failure(400, &[], &body(raw)).message;
    assert!(told.starts_with("Provider returned error: prompt is too long: 208732"), "{told}");
    let told = failure(400, &[], &body("no such thing")).message;
    assert_eq!(told, "Provider returned error: no such thing");
    let bound = "messages.1: Invalid `signature` in `thinking` block. The block is bound to a different conversation.";
    check(400, &body(bound), "stale_thinking", Retry::Never);
}
