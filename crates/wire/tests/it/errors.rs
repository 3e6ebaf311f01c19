//! What headers and texts of answers tell about an error.

use wire::model::error::{
    duration, http_date, reset_after, retry_after, says_overflow, told, try_again_in,
};
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::{Dialect, ErrorKind, Retry, anthropic_messages::AnthropicMessages};

fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn waits_are_read_in_every_form() {
    let wait = |pairs: &[(&str, &str)]| retry_after(&headers(pairs));
    assert_eq!(wait(&[("retry-after", "7")]), Some(7000));
    assert_eq!(wait(&[("retry-after", " 1.5 ")]), Some(1500));
    assert_eq!(wait(&[("retry-after", "0")]), Some(0));
    assert_eq!(wait(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(1500));
    assert_eq!(wait(&[("retry-after-ms", "x"), ("retry-after", "9")]), Some(9000));
    assert_eq!(wait(&[("retry-after", "999999999")]), Some(999_999_999_000));
    assert_eq!(wait(&[("retry-after", "1e300")]), Some(u64::MAX));
    for nothing in ["-5", "abc", "", "NaN", "inf", "-inf", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        assert_eq!(wait(&[("retry-after", nothing)]), None, "{nothing}");
    }
    let until =
        |date: &str| wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), ("date", date)]);
    assert_eq!(until("Sun, 06 Nov 1994 08:49:07 GMT"), Some(30_000));
    assert_eq!(until("Sun, 06 Nov 1994 08:49:38 GMT"), None);
    assert_eq!(until("yesterday"), None);
}

const DATE: (&str, &str) = ("date", "Sun, 15 Nov 2026 06:30:00 GMT");

#[test]
fn a_limit_that_is_used_up_is_waited_for_until_its_reset() {
    let wait = |pairs: &[(&str, &str)]| reset_after(&headers(pairs));
    let openai = |left: &str, reset: &str| {
        wait(&[
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1h"),
            ("x-ratelimit-remaining-tokens", left),
            ("x-ratelimit-reset-tokens", reset),
        ])
    };
    assert_eq!(openai("0", "6m0s"), Some(360_000));
    assert_eq!(openai("0", "1.5"), Some(1_500));
    assert_eq!(openai("3", "6m0s"), None, "nothing is used up");
    assert_eq!(openai("0", "soon"), None);
    let anthropic = |reset: &str| {
        wait(&[
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", reset),
            DATE,
        ])
    };
    assert_eq!(anthropic("2026-11-15T06:30:40Z"), Some(40_000));
    assert_eq!(anthropic("2026-11-15T06:29:00Z"), None, "it has been");
    assert_eq!(anthropic("2026-13-15T06:29:00Z"), None);
    let moment = |reset: &str, date: &[(&str, &str)]| {
        let limit = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)];
        wait(&[&limit[..], date].concat())
    };
    assert_eq!(moment("1794724205000", &[DATE]), Some(5_000));
    assert_eq!(moment("1794724205", &[DATE]), Some(5_000));
    assert_eq!(moment("1794724205", &[]), None, "a moment needs a clock");
}

#[test]
fn what_the_body_says_comes_before_the_reset_of_a_limit() {
    let limits =
        headers(&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")]);
    let chat = OpenAiChat::default();
    let retry = |message: &str| {
        let body = format!(r#"{{"error":{{"code":"rate_limit_exceeded","message":"{message}"}}}}"#);
        chat.failure(429, &limits, body.as_bytes()).retry
    };
    assert_eq!(retry("Please try again in 1.898s."), Retry::After(1898));
    assert_eq!(retry("slow down"), Retry::After(360_000));
    let overloaded = chat.failure(503, &limits, b"{}");
    assert_eq!(overloaded.retry, Retry::Backoff, "no limit was reached");
    let claude = headers(&[
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-reset", "2026-11-15T06:31:00Z"),
        DATE,
    ]);
    let body = br#"{"error":{"type":"rate_limit_error","message":"slow"}}"#;
    assert_eq!(AnthropicMessages.failure(429, &claude, body).retry, Retry::After(60_000));
}

#[test]
fn a_plan_that_is_used_up_is_waited_for_if_the_server_says_until_when() {
    let body = |rest: &str| {
        format!(r#"{{"error":{{"type":"usage_limit_reached","message":"used up"{rest}}}}}"#)
    };
    let retry = |rest: &str| {
        let failure = OpenAiChat::default().failure(429, &[], body(rest).as_bytes());
        assert_eq!(failure.kind, ErrorKind::Quota);
        failure.retry
    };
    assert_eq!(retry(""), Retry::Never);
    assert_eq!(retry(r#","resets_in_seconds":7200"#), Retry::After(7_200_000));
}

#[test]
fn dates_are_read_without_a_clock() {
    assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
    assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
    assert_eq!(http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
    for wrong in ["", "Sun, 06 Nov 1994 08:49:37", "Sun, 6x Nov 1994 08:49:37 GMT", "1994-11-06"] {
        assert_eq!(http_date(wrong), None, "{wrong}");
    }
}

#[test]
fn waits_in_prose_are_read() {
    assert_eq!(try_again_in("Rate limit. Please try again in 1.898s."), Some(1898));
    assert_eq!(try_again_in("Try again in 6m0s, please"), Some(360_000));
    assert_eq!(try_again_in("Quota exceeded. Please retry in 54.4s."), Some(54_400));
    assert_eq!(try_again_in("try again in a moment"), None);
    assert_eq!(try_again_in("try again in "), None);
    assert_eq!(duration("500ms"), Some(500));
    assert_eq!(duration("39s"), Some(39_000));
    assert_eq!(duration("s"), None);
    assert_eq!(duration("-1s"), None);
    assert_eq!(duration(""), None);
}

#[test]
fn what_a_provider_says_is_bounded_and_holds_no_key() {
    assert_eq!(told("a\n\tb\u{1b}[31m"), "a b [31m");
    assert_eq!(told("Wrong key: sk-ant-0123456789abcdef."), "Wrong key: [key]");
    assert_eq!(told("key=sk-0123456789abcdef \\nsk-0123456789abcdef"), "key=[key] \\n[key]");
    assert_eq!(told("no server desk-machine-lab"), "no server desk-machine-lab");
    assert_eq!(told("ask-me"), "ask-me");
    let long = told(&"é".repeat(5000));
    assert!(long.len() < 510 && long.ends_with('…'), "{long}");
    assert!(told(&"word ".repeat(5000)).len() < 520);
}

#[test]
fn overflow_is_told_by_text() {
    assert!(says_overflow("Prompt is too long: 210000 tokens > 200000 maximum"));
    assert!(!says_overflow("max_tokens: 9000 > 8192, the maximum allowed number of output tokens"));
}

#[test]
fn bodies_of_anthropic_become_kinds() {
    let failure = |status, error: &str, message: &str| {
        let body = format!(
            r#"{{"type":"error","error":{{"type":"{error}","message":"{message}"}},"request_id":"req_1"}}"#
        );
        AnthropicMessages.failure(status, &headers(&[("retry-after", "2")]), body.as_bytes())
    };
    let kind = |status, error, message| failure(status, error, message).kind;
    assert_eq!(
        kind(429, "rate_limit_error", "40,000 input tokens per minute"),
        ErrorKind::RateLimited
    );
    assert_eq!(kind(429, "rate_limit_error", "enforced_spend_limit_reached"), ErrorKind::Quota);
    assert_eq!(
        kind(400, "invalid_request_error", "You have reached your specified API usage limits."),
        ErrorKind::Quota
    );
    assert_eq!(
        kind(400, "invalid_request_error", "Your credit balance is too low"),
        ErrorKind::Quota
    );
    assert_eq!(kind(402, "billing_error", "x"), ErrorKind::Quota);
    assert_eq!(kind(529, "overloaded_error", "x"), ErrorKind::Overloaded);
    assert_eq!(kind(500, "invalid_request_error", "x"), ErrorKind::Server);
    let bound = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.";
    assert_eq!(kind(400, "invalid_request_error", bound), ErrorKind::StaleThinking);
    for stale in [
        "messages.1.content.0: Invalid signature in thinking block",
        "messages.1.content.0: When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`.",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
    ] {
        assert_eq!(kind(400, "invalid_request_error", stale), ErrorKind::StaleThinking, "{stale}");
    }
    assert_eq!(kind(403, "permission_error", "x"), ErrorKind::Auth);
    assert_eq!(kind(404, "not_found_error", "model: nope"), ErrorKind::Config);
    assert_eq!(kind(413, "request_too_large", "x"), ErrorKind::TooLarge);
    assert_eq!(kind(400, "invalid_request_error", "max_tokens: required"), ErrorKind::Config);
    assert_eq!(
        kind(400, "invalid_request_error", "messages: roles must alternate"),
        ErrorKind::History
    );
    assert_eq!(
        kind(400, "invalid_request_error", "Output blocked by content filtering policy"),
        ErrorKind::ContentFilter
    );

    let limited = failure(429, "rate_limit_error", "slow");
    assert_eq!(limited.retry, Retry::After(2000));
    assert_eq!((limited.status, limited.request_id.as_deref()), (Some(429), Some("req_1")));
    assert_eq!(failure(429, "rate_limit_error", "spend limit").retry, Retry::Never);
}

#[test]
fn bodies_that_are_no_json_go_by_status() {
    let kind = |status| AnthropicMessages.failure(status, &[], b"<html>what</html>").kind;
    assert_eq!(kind(413), ErrorKind::TooLarge);
    assert_eq!(kind(529), ErrorKind::Overloaded);
    assert_eq!(kind(502), ErrorKind::Server);
    assert_eq!(kind(418), ErrorKind::Client);
    assert_eq!(kind(302), ErrorKind::Redirect);
    assert_eq!(kind(200), ErrorKind::Malformed);
    let should_not = headers(&[("x-should-retry", "false"), ("retry-after", "1")]);
    assert_eq!(AnthropicMessages.failure(429, &should_not, b"").retry, Retry::Never);
}

fn dialects() -> [Box<dyn Dialect>; 4] {
    [
        Box::new(AnthropicMessages),
        Box::new(GoogleGenerate),
        Box::new(OpenAiChat::default()),
        Box::new(OpenAiResponses),
    ]
}

#[test]
fn a_body_without_an_error_is_told_in_the_same_words_in_every_dialect() {
    for dialect in dialects() {
        let told = |status, body: &str| dialect.failure(status, &[], body.as_bytes()).message;
        for body in [
            "<html><head><title>502 Bad Gateway</title></head></html>",
            "\n  <!DOCTYPE html>\n<p>Blocked</p>",
            "\u{feff}<!doctype html><p>Blocked</p>",
        ] {
            let page = "HTTP 502: a web page instead of an answer";
            assert_eq!(told(502, body), page, "{}", dialect.name());
        }
        let page = "HTTP 200: a web page instead of an answer";
        assert_eq!(told(200, "<html>Please log in</html>"), page, "{}", dialect.name());
        let xml = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>";
        assert_eq!(told(403, xml), xml, "it says something: {}", dialect.name());
        assert_eq!(told(502, " upstream is gone\n"), "upstream is gone", "{}", dialect.name());
        for nothing in ["", " \n", "null", "{}", "[]"] {
            assert_eq!(told(503, nothing), "HTTP 503", "{}: {nothing:?}", dialect.name());
        }
        let other = told(503, r#"{"reason":"a standby"}"#);
        assert!(other.contains("a standby"), "{}: {other}", dialect.name());
    }
    let bare = AnthropicMessages.failure(529, &[], br#"{"error":{"type":"overloaded_error"}}"#);
    assert_eq!(bare.message, "overloaded_error");
}

#[test]
fn a_key_that_is_refused_is_so_whatever_the_body_is() {
    let error = |rest: &str| format!(r#"{{"error":{{"message":"no such key"{rest}}}}}"#);
    let bodies = [
        String::new(),
        "<html>log in</html>".to_owned(),
        "Unauthorized".to_owned(),
        r#"{"detail":"Unauthorized"}"#.to_owned(),
        r#"{"error":"invalid_request_error"}"#.to_owned(),
        error(""),
        error(r#","type":"invalid_request_error","code":null"#),
        error(r#","type":"not_found_error""#),
        error(r#","type":"api_error""#),
        error(r#","code":401,"status":"INVALID_ARGUMENT""#),
        error(r#","code":401,"status":"INTERNAL""#),
    ];
    for dialect in dialects() {
        for status in [401, 403] {
            for body in &bodies {
                let failure = dialect.failure(status, &[], body.as_bytes());
                let told = format!("{} {status} {body}: {failure}", dialect.name());
                assert_eq!(
                    (failure.kind, failure.retry),
                    (ErrorKind::Auth, Retry::Never),
                    "{told}"
                );
            }
        }
    }
}

#[test]
fn a_refusal_that_is_not_about_the_key_keeps_its_own_kind() {
    let failure = |dialect: &dyn Dialect, status, kind: &str, message: &str| {
        let body =
            format!(r#"{{"error":{{"type":"{kind}","status":"{kind}","message":"{message}"}}}}"#);
        dialect.failure(status, &[], body.as_bytes()).kind
    };
    let claude = |kind, message| failure(&AnthropicMessages, 403, kind, message);
    assert_eq!(claude("invalid_request_error", "Your credit balance is too low"), ErrorKind::Quota);
    assert_eq!(claude("overloaded_error", "x"), ErrorKind::Overloaded);
    assert_eq!(
        claude("invalid_request_error", "Output blocked by content filtering policy"),
        ErrorKind::ContentFilter
    );
    let google = |kind, message| failure(&GoogleGenerate, 403, kind, message);
    assert_eq!(google("RESOURCE_EXHAUSTED", "spending cap"), ErrorKind::Quota);
    assert_eq!(google("UNAVAILABLE", "x"), ErrorKind::Overloaded);
    let openai = |kind, message| failure(&OpenAiChat::default(), 403, kind, message);
    assert_eq!(openai("insufficient_quota", "x"), ErrorKind::Quota);
    assert_eq!(openai("content_filter", "x"), ErrorKind::ContentFilter);
}
