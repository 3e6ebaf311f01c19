//! Every dialect as its providers write it, in the pieces that a network makes of it.

use machine::message::Usage;

use super::*;

const ANTHROPIC: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",",
    "\"role\":\"assistant\",\"model\":\"x\",\"content\":[],\"usage\":{\"input_tokens\":7,",
    "\"cache_read_input_tokens\":5,\"output_tokens\":1}}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
    "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,",
    "\"delta\":{\"type\":\"text_delta\",\"text\":\"abcdefgh\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},",
    "\"usage\":{\"output_tokens\":9}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

const CHAT: &str = concat!(
    "data: {\"id\":\"c\",\"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hi\"}}]}\n\n",
    "data: {\"id\":\"c\",\"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"id\":\"c\",\"model\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":9,",
    "\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\n",
    "data: [DONE]\n\n",
);

const GOOGLE: &str = concat!(
    "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"hi\"}]},\"finishReason\":\"STOP\"}],",
    "\"usageMetadata\":{\"promptTokenCount\":12,\"cachedContentTokenCount\":5,\"candidatesTokenCount\":9}}\n\n",
);

fn tapped(speaks: Speaks, content_type: &str, bytes: &str, size: usize) -> Tap {
    let mut tap = Tap::new(speaks, content_type);
    for piece in bytes.as_bytes().chunks(size) {
        tap.push(piece);
    }
    tap.end();
    tap
}

fn counts(usage: Usage) -> (u64, u64, u64) {
    let some = |count: Option<u64>| count.unwrap_or(0);
    (some(usage.input), some(usage.cache_read), some(usage.output))
}

#[test]
fn a_stream_is_counted_in_every_dialect_whatever_its_pieces_are() {
    for size in [1, 7, 4096] {
        for (speaks, text) in [
            (Speaks::AnthropicMessages, ANTHROPIC),
            (Speaks::OpenAiChat, CHAT),
            (Speaks::GoogleGenerate, GOOGLE),
        ] {
            let tap = tapped(speaks, "text/event-stream; charset=utf-8", text, size);
            assert_eq!(counts(tap.usage()), (7, 5, 9), "{speaks:?} in pieces of {size}");
            assert!(tap.is_complete(), "{speaks:?}");
        }
    }
}

#[test]
fn an_answer_in_one_piece_is_counted_in_every_dialect() {
    let answers = [
        (
            Speaks::AnthropicMessages,
            r#"{"type":"message","model":"x","content":[],"usage":{"input_tokens":7,"cache_read_input_tokens":5,"output_tokens":9}}"#,
        ),
        (
            Speaks::OpenAiChat,
            r#"{"model":"x","choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":12,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":5}}}"#,
        ),
        (
            Speaks::OpenAiResponses,
            r#"{"id":"r","status":"completed","model":"x","output":[],"usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":5},"output_tokens":9}}"#,
        ),
        (
            Speaks::GoogleGenerate,
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":12,"cachedContentTokenCount":5,"candidatesTokenCount":9}}"#,
        ),
    ];
    for (speaks, text) in answers {
        let tap = tapped(speaks, "application/json", text, 10);
        assert_eq!(counts(tap.usage()), (7, 5, 9), "{speaks:?}");
        assert!(tap.is_complete(), "{speaks:?}");
    }
}

#[test]
fn searches_of_the_web_are_charged_for_beside_the_tokens() {
    let searched = |count: u64| {
        let usage = format!(
            r#""usage":{{"output_tokens":9,"server_tool_use":{{"web_search_requests":{count}}}}}"#
        );
        ANTHROPIC.replace(r#""usage":{"output_tokens":9}"#, &usage)
    };
    let fees = |text: &str| {
        let tap = tapped(Speaks::AnthropicMessages, "text/event-stream", text, 64);
        assert_eq!(counts(tap.usage()), (7, 5, 9), "{text}");
        tap.fees()
    };
    assert_eq!(fees(ANTHROPIC), 0);
    assert_eq!(fees(&searched(0)), 0);
    assert_eq!(fees(&searched(2)), 20_000_000);
    let whole = r#"{"type":"message","model":"x","content":[],"usage":{"input_tokens":7,"output_tokens":9,"server_tool_use":{"web_search_requests":2}}}"#;
    let tap = tapped(Speaks::AnthropicMessages, "application/json", whole, 10);
    assert_eq!(tap.fees(), 20_000_000);
}

#[test]
fn a_stream_that_is_cut_is_not_complete_and_says_how_much_came() {
    let cut = &ANTHROPIC[..ANTHROPIC.find("event: message_delta").unwrap()];
    let tap = tapped(Speaks::AnthropicMessages, "text/event-stream", cut, 64);
    assert!(!tap.is_complete());
    assert_eq!(counts(tap.usage()), (7, 5, 1));
    assert_eq!(tap.said(), 8);
    let noise = tapped(Speaks::OpenAiChat, "text/event-stream", "{\"what\":1}\n\nmore\n", 4);
    assert!(!noise.is_complete() && noise.said() > 0);
}

#[test]
fn only_what_is_counted_or_free_passes() {
    let ask = |path: &str| wish("POST", path, &Api::ALL);
    assert_eq!(
        ask("/v1/messages?beta=true"),
        Some((Api::Anthropic, Wish::Ask(Speaks::AnthropicMessages)))
    );
    assert_eq!(ask("/v1/responses"), Some((Api::OpenAi, Wish::Ask(Speaks::OpenAiResponses))));
    assert_eq!(
        ask("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        Some((Api::Google, Wish::Ask(Speaks::GoogleGenerate)))
    );
    assert_eq!(ask("/v1/messages/count_tokens"), Some((Api::Anthropic, Wish::Free)));
    for path in
        ["/v1/messages/batches", "/v1/files", "/v1/organizations", "/v1beta/models/x:embed", "/"]
    {
        assert_eq!(ask(path), None, "{path}");
    }
    for name in ["", "..", "a/../b", "a%2fb", "a%2Dpro", "a\\b", "a;b", "a:b", "models/a"] {
        assert_eq!(ask(&format!("/v1beta/models/{name}:generateContent")), None, "{name}");
    }
    assert_eq!(wish("DELETE", "/v1/messages", &Api::ALL), None);
    let list = |path: &str, keys: &[Api]| wish("GET", path, keys).map(|(api, _)| api);
    assert_eq!(list("/v1/models?limit=100", &[Api::Anthropic]), Some(Api::Anthropic));
    assert_eq!(list("/v1/models", &[Api::OpenAi]), Some(Api::OpenAi));
    assert_eq!(list("/v1/models", &Api::ALL), Some(Api::OpenAi));
    assert_eq!(list("/v1beta/models", &[Api::Google]), Some(Api::Google));
    assert_eq!(list("/v1beta/files", &[Api::Google]), None);
}

#[test]
fn addresses_keys_and_models_are_those_of_the_provider() {
    let to = |api: Api, address: &str, path: &str| api.target(address, path);
    assert_eq!(to(Api::OpenAi, "http://h:1/v1/", "/v1/responses"), "http://h:1/v1/responses");
    assert_eq!(to(Api::Anthropic, "http://h:1", "/v1/messages"), "http://h:1/v1/messages");
    assert_eq!(
        without_key("/v1beta/models/x:countTokens?key=abc&alt=sse"),
        "/v1beta/models/x:countTokens?alt=sse"
    );
    assert_eq!(without_key("/a?key=abc"), "/a");
    let model = |speaks, path: &str, body: &[u8]| asked(speaks, path, body).unwrap_or_default();
    assert_eq!(model(Speaks::GoogleGenerate, "/v1beta/models/g-1:generateContent?x", b""), "g-1");
    let cheap = "/v1beta/models/dear:generateContent?alt=/cheap:x";
    assert_eq!(model(Speaks::GoogleGenerate, cheap, b""), "dear");
    assert_eq!(model(Speaks::OpenAiChat, "/v1/chat/completions", br#"{"model":"m"}"#), "m");
    assert_eq!(model(Speaks::OpenAiChat, "/v1/chat/completions", b"nothing"), "");
    for api in Api::ALL {
        let (status, body) = api.refusal(400, "no \"turn\"");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (status, body["error"]["message"].as_str()),
            (400, Some("drivetrain: no \"turn\""))
        );
    }
}

#[test]
fn an_answer_that_is_fetched_later_is_not_asked_for() {
    let ask = |speaks, body: &str| asked(speaks, "/v1/responses", body.as_bytes());
    let refused = |body: &str| {
        ask(Speaks::OpenAiResponses, body).is_err_and(|why| !why.contains("names one"))
    };
    for body in [
        r#"{"model":"m","background":true}"#,
        r#"{"model":"m","background":true,"background":false}"#,
        r#"{"model":"m","background":false} {"background":true}"#,
        r#"{"model":"m","back\u0067round":1}"#,
        "no question",
        "",
    ] {
        assert!(refused(body), "{body}");
    }
    let deep = format!(r#"{{"model":"m","input":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
    for body in [r#"{"model":"m","background":false}"#, r#"{"model":"m","background":null}"#, &deep]
    {
        assert_eq!(ask(Speaks::OpenAiResponses, body).as_deref(), Ok("m"), "{body}");
    }
    assert!(ask(Speaks::OpenAiResponses, "{}").is_err(), "it names no model");
    assert!(ask(Speaks::OpenAiChat, r#"{"model":"m","background":true}"#).is_ok());
}
