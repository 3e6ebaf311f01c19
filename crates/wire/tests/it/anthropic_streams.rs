//! Streams as Anthropic sends them, and the events and replies they become.

use proptest::prelude::*;
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::{Dialect, ModelError, StreamEvent};

use crate::rig::{named_events, run_in_all_cuts, show, show_answer};

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-6","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":1}}}"#;
const HELLO: &str = r#"
    {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
    {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}
    {"type":"content_block_stop","index":0}
"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn read(lines: &str) -> String {
    show(&run_in_all_cuts(&AnthropicMessages, named_events(lines).as_bytes()))
}

/// The outcome alone of `Hello` and this reason to stop.
fn stops(reason: &str) -> String {
    let lines = format!(
        r#"{START}
        {HELLO}
        {{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{"output_tokens":7}}}}
        {STOP}"#
    );
    show_answer(&run_in_all_cuts(&AnthropicMessages, named_events(&lines).as_bytes()).1)
}

/// The outcome alone of `Hello` and then this error.
fn fails(error: &str, message: &str) -> String {
    let lines = format!(
        r#"{START}
        {HELLO}
        {{"type":"error","error":{{"type":"{error}","message":"{message}"}}}}"#
    );
    show_answer(&run_in_all_cuts(&AnthropicMessages, named_events(&lines).as_bytes()).1)
}

#[test]
fn text() {
    let lines = format!(
        r#"{START}
        {{"type":"ping"}}
        {{"type":"content_block_start","index":0,"content_block":{{"type":"text","text":""}}}}
        {{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"Hel"}}   }}
        {{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"lo \"你好\" \ud83d\ude42\n"}}}}
        {{"type":"content_block_stop","index":0}}
        {{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{{"output_tokens":12}}}}
        {STOP}"#
    );
    insta::assert_snapshot!(read(&lines), @r#"
    start msg_1 claude-opus-4-6
    delta {"input":10,"output":1,"cache_read":4,"cache_write":0} None
    ping
    0 text "Hel"
    0 text "lo \"你好\" 🙂\n"
    delta {"output":12} Some(EndTurn)
    stop
    => msg_1 claude-opus-4-6 EndTurn {"input":10,"output":12,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello \"你好\" 🙂\n"}
    "#);
}

#[test]
fn parallel_tools() {
    let lines = format!(
        r#"{START}
        {HELLO}
        {{"type":"content_block_start","index":1,"content_block":{{"type":"tool_use","id":"toolu_1","name":"read","input":{{}}}}}}
        {{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":""}}}}
        {{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":"{{\"path\": \"a"}}}}
        {{"type":"content_block_start","index":2,"content_block":{{"type":"tool_use","id":"toolu_2","name":"list","input":{{}}}}}}
        {{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":".txt\"}}"}}}}
        {{"type":"content_block_stop","index":2}}
        {{"type":"content_block_stop","index":1}}
        {{"type":"message_delta","delta":{{"stop_reason":"tool_use"}},"usage":{{"output_tokens":30}}}}
        {STOP}"#
    );
    insta::assert_snapshot!(read(&lines), @r#"
    start msg_1 claude-opus-4-6
    delta {"input":10,"output":1,"cache_read":4,"cache_write":0} None
    0 text "Hello"
    1 tool toolu_1 read
    1 json 
    1 json {"path": "a
    2 tool toolu_2 list
    1 json .txt"}
    2 json {}
    2 tool stop
    1 tool stop
    delta {"output":30} Some(ToolUse)
    stop
    => msg_1 claude-opus-4-6 ToolUse {"input":10,"output":30,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello"}
       {"part":"tool_use","id":"toolu_1","name":"read","input":{"path":"a.txt"}}
       {"part":"tool_use","id":"toolu_2","name":"list","input":{}}
    "#);
}

#[test]
fn thinking_keeps_its_signature_and_order() {
    let lines = format!(
        r#"{START}
        {{"type":"content_block_start","index":0,"content_block":{{"type":"thinking","thinking":"","signature":""}}}}
        {{"type":"content_block_delta","index":0,"delta":{{"type":"thinking_delta","thinking":"Let me "}}}}
        {{"type":"content_block_delta","index":0,"delta":{{"type":"thinking_delta","thinking":"see."}}}}
        {{"type":"content_block_delta","index":0,"delta":{{"type":"signature_delta","signature":"EqQB/=="}}}}
        {{"type":"content_block_stop","index":0}}
        {{"type":"content_block_start","index":1,"content_block":{{"type":"redacted_thinking","data":"EmwK"}}}}
        {{"type":"content_block_stop","index":1}}
        {{"type":"content_block_start","index":2,"content_block":{{"type":"text","text":""}}}}
        {{"type":"content_block_delta","index":2,"delta":{{"type":"text_delta","text":"So"}}}}
        {{"type":"content_block_stop","index":2}}
        {{"type":"content_block_start","index":3,"content_block":{{"type":"thinking","thinking":"","signature":""}}}}
        {{"type":"content_block_delta","index":3,"delta":{{"type":"signature_delta","signature":"hidden"}}}}
        {{"type":"content_block_stop","index":3}}
        {{"type":"content_block_start","index":4,"content_block":{{"type":"text","text":"Done."}}}}
        {{"type":"content_block_stop","index":4}}
        {{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{{"output_tokens":40}}}}
        {STOP}"#
    );
    insta::assert_snapshot!(read(&lines), @r#"
    start msg_1 claude-opus-4-6
    delta {"input":10,"output":1,"cache_read":4,"cache_write":0} None
    0 thinking ""
    0 thinking "Let me "
    0 thinking "see."
    0 native {"signature":"EqQB/==","thinking":"Let me see.","type":"thinking"}
    1 native {"data":"EmwK","type":"redacted_thinking"}
    2 text "So"
    3 thinking ""
    3 native {"signature":"hidden","thinking":"","type":"thinking"}
    4 text "Done."
    delta {"output":40} Some(EndTurn)
    stop
    => msg_1 claude-opus-4-6 EndTurn {"input":10,"output":40,"cache_read":4,"cache_write":0}
       {"part":"thinking","text":"Let me see.","native":{"dialect":"anthropic_messages","model":"claude-opus-4-6","raw":{"signature":"EqQB/==","thinking":"Let me see.","type":"thinking"}}}
       {"part":"opaque","native":{"dialect":"anthropic_messages","model":"claude-opus-4-6","raw":{"data":"EmwK","type":"redacted_thinking"}}}
       {"part":"text","text":"So"}
       {"part":"thinking","text":"","native":{"dialect":"anthropic_messages","model":"claude-opus-4-6","raw":{"signature":"hidden","thinking":"","type":"thinking"}}}
       {"part":"text","text":"Done."}
    "#);
}

#[test]
fn server_tools_citations_and_unknown_blocks_are_kept() {
    let lines = format!(
        r#"{START}
        {{"type":"content_block_start","index":0,"content_block":{{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{{}}}}}}
        {{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":"{{\"query\":\"x\"}}"}}}}
        {{"type":"content_block_stop","index":0}}
        {{"type":"content_block_start","index":1,"content_block":{{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{{"type":"web_search_result","url":"https://a.invalid","encrypted_content":"E"}}]}}}}
        {{"type":"content_block_stop","index":1}}
        {{"type":"content_block_start","index":2,"content_block":{{"citations":[],"type":"text","text":""}}}}
        {{"type":"content_block_delta","index":2,"delta":{{"type":"citations_delta","citation":{{"type":"web_search_result_location","url":"https://a.invalid"}}}}}}
        {{"type":"content_block_delta","index":2,"delta":{{"type":"text_delta","text":"As it says."}}}}
        {{"type":"content_block_stop","index":2}}
        {{"type":"content_block_start","index":3,"content_block":{{"type":"compaction","content":null}}}}
        {{"type":"content_block_delta","index":3,"delta":{{"type":"compaction_delta","content":"so "}}}}
        {{"type":"content_block_delta","index":3,"delta":{{"type":"compaction_delta","content":"far"}}}}
        {{"type":"content_block_stop","index":3}}
        {{"type":"content_block_start","index":4,"content_block":{{"type":"tool_use","id":"toolu_1","name":"read","input":{{}},"caller":{{"type":"direct"}}}}}}
        {{"type":"content_block_delta","index":4,"delta":{{"type":"input_json_delta","partial_json":"{{\"a\":1}}"}}}}
        {{"type":"content_block_stop","index":4}}
        {{"type":"future_event","x":1}}
        {{"type":"message_delta","delta":{{"stop_reason":"pause_turn"}},"usage":{{"output_tokens":9,"server_tool_use":{{"web_search_requests":1}}}}}}
        {STOP}"#
    );
    insta::assert_snapshot!(read(&lines), @r#"
    start msg_1 claude-opus-4-6
    delta {"input":10,"output":1,"cache_read":4,"cache_write":0} None
    0 native {"id":"srvtoolu_1","input":{"query":"x"},"name":"web_search","type":"server_tool_use"}
    1 native {"content":[{"encrypted_content":"E","type":"web_search_result","url":"https://a.invalid"}],"tool_use_id":"srvtoolu_1","type":"web_search_tool_result"}
    2 text "As it says."
    2 native {"citations":[{"type":"web_search_result_location","url":"https://a.invalid"}],"text":"As it says.","type":"text"}
    3 native {"content":"so far","type":"compaction"}
    4 tool toolu_1 read
    4 json {"a":1}
    4 tool stop
    4 native {"caller":{"type":"direct"},"id":"toolu_1","input":{"a":1},"name":"read","type":"tool_use"}
    delta {"output":9} Some(Pause)
    stop
    => msg_1 claude-opus-4-6 Pause {"input":10,"output":9,"cache_read":4,"cache_write":0}
       {"part":"opaque","native":{"dialect":"anthropic_messages","model":"claude-opus-4-6","raw":{"id":"srvtoolu_1","input":{"query":"x"},"name":"web_search","type":"server_tool_use"}}}
       {"part":"opaque","native":{"dialect":"anthropic_messages","model":"claude-opus-4-6","raw":{"content":[{"encrypted_content":"E","type":"web_search_result","url":"https://a.invalid"}],"tool_use_id":"srvtoolu_1","type":"web_search_tool_result"}}}
       {"part":"text","text":"As it says.","native":{"dialect":"anthropic_messages","model":"claude-opus-4-6","raw":{"citations":[{"type":"web_search_result_location","url":"https://a.invalid"}],"text":"As it says.","type":"text"}}}
       {"part":"opaque","native":{"dialect":"anthropic_messages","model":"claude-opus-4-6","raw":{"content":"so far","type":"compaction"}}}
       {"part":"tool_use","id":"toolu_1","name":"read","input":{"a":1},"native":{"dialect":"anthropic_messages","model":"claude-opus-4-6","raw":{"caller":{"type":"direct"},"id":"toolu_1","input":{"a":1},"name":"read","type":"tool_use"}}}
    "#);
}

#[test]
fn every_reason_to_stop() {
    let all = ["end_turn", "stop_sequence", "max_tokens", "refusal", "pause_turn", "tool_use"];
    let all = all.into_iter().chain(["model_context_window_exceeded", "because"]);
    let found: String = all.map(|reason| format!("{reason} {}", stops(reason))).collect();
    insta::assert_snapshot!(found, @r#"
    end_turn => msg_1 claude-opus-4-6 EndTurn {"input":10,"output":7,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello"}
    stop_sequence => msg_1 claude-opus-4-6 StopSequence {"input":10,"output":7,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello"}
    max_tokens => msg_1 claude-opus-4-6 MaxTokens {"input":10,"output":7,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello"}
    refusal => msg_1 claude-opus-4-6 Refusal {"input":10,"output":7,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello"}
    pause_turn => msg_1 claude-opus-4-6 Pause {"input":10,"output":7,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello"}
    tool_use => malformed_tool_call: the answer stops for a tool call and has none (Backoff, {"input":10,"output":7,"cache_read":4,"cache_write":0})
    model_context_window_exceeded => context_overflow: the answer filled the model's context (Never, {"input":10,"output":7,"cache_read":4,"cache_write":0})
    because => unknown_stop: the answer stops for an unknown reason: because (Never, {"input":10,"output":7,"cache_read":4,"cache_write":0})
    "#);
}

#[test]
fn errors_inside_a_stream() {
    let found = [
        fails("overloaded_error", "Overloaded"),
        fails("api_error", "Internal"),
        fails("rate_limit_error", "too fast"),
        fails("rate_limit_error", "enforced_spend_limit_reached"),
        fails("invalid_request_error", "prompt is too long: 3 tokens > 2 maximum"),
        fails("authentication_error", "invalid x-api-key"),
        fails("invented_error", "x"),
    ];
    insta::assert_snapshot!(found.concat(), @r#"
    => overloaded: Overloaded (Backoff, {"input":10,"output":1,"cache_read":4,"cache_write":0})
    => server: Internal (Backoff, {"input":10,"output":1,"cache_read":4,"cache_write":0})
    => rate_limited: too fast (Backoff, {"input":10,"output":1,"cache_read":4,"cache_write":0})
    => quota: enforced_spend_limit_reached (Never, {"input":10,"output":1,"cache_read":4,"cache_write":0})
    => context_overflow: prompt is too long: 3 tokens > 2 maximum (Never, {"input":10,"output":1,"cache_read":4,"cache_write":0})
    => auth: invalid x-api-key (Never, {"input":10,"output":1,"cache_read":4,"cache_write":0})
    => server: x (Backoff, {"input":10,"output":1,"cache_read":4,"cache_write":0})
    "#);
}

#[test]
fn a_refusal_inside_a_tool_call_runs_nothing() {
    let lines = format!(
        r#"{START}
        {HELLO}
        {{"type":"content_block_start","index":1,"content_block":{{"type":"tool_use","id":"toolu_1","name":"read","input":{{}}}}}}
        {{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":"{{\"path"}}}}
        {{"type":"content_block_stop","index":1}}
        {{"type":"message_delta","delta":{{"stop_reason":"refusal"}},"usage":{{"output_tokens":3}}}}
        {STOP}"#
    );
    let (_, answer) = run_in_all_cuts(&AnthropicMessages, named_events(&lines).as_bytes());
    insta::assert_snapshot!(show_answer(&answer), @r#"
    => msg_1 claude-opus-4-6 Refusal {"input":10,"output":3,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello"}
    "#);
}

#[test]
fn a_refusal_says_why_in_its_providers_words() {
    let refused = |begun: &str, details: &str| {
        let lines = format!(
            r#"{START}
            {begun}
            {{"type":"message_delta","delta":{{"stop_reason":"refusal","stop_details":{details}}},"usage":{{"output_tokens":3}}}}
            {STOP}"#
        );
        show_answer(&run_in_all_cuts(&AnthropicMessages, named_events(&lines).as_bytes()).1)
    };
    let why = r#"{"type":"refusal","category":"cyber","explanation":"It could do harm."}"#;
    let silent = r#"{"type":"refusal","category":null,"explanation":null}"#;
    let found =
        [refused(HELLO, why), refused("", why), refused(HELLO, silent), refused("", "null")];
    insta::assert_snapshot!(found.concat(), @r#"
    => msg_1 claude-opus-4-6 Refusal {"input":10,"output":3,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello"}
       {"part":"text","text":"It could do harm."}
    => msg_1 claude-opus-4-6 Refusal {"input":10,"output":3,"cache_read":4,"cache_write":0}
       {"part":"text","text":"It could do harm."}
    => msg_1 claude-opus-4-6 Refusal {"input":10,"output":3,"cache_read":4,"cache_write":0}
       {"part":"text","text":"Hello"}
    => msg_1 claude-opus-4-6 Refusal {"input":10,"output":3,"cache_read":4,"cache_write":0}
    "#);
}

#[test]
fn counters_of_both_caches_are_told_apart() {
    let lines = format!(
        r#"{{"type":"message_start","message":{{"id":"m","model":"c","usage":{{"input_tokens":5,"cache_creation_input_tokens":30,"cache_read_input_tokens":100,"cache_creation":{{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20}},"output_tokens":1}}}}}}
        {HELLO}
        {{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{{"input_tokens":5,"cache_creation_input_tokens":30,"output_tokens":9}}}}
        {STOP}"#
    );
    let (_, answer) = run_in_all_cuts(&AnthropicMessages, named_events(&lines).as_bytes());
    let usage = answer.unwrap().usage;
    assert_eq!((usage.cache_write, usage.cache_write_long), (Some(10), Some(20)));
    assert_eq!((usage.cache_read, usage.output, usage.total()), (Some(100), Some(9), 144));
}

#[test]
fn what_breaks_the_order_is_an_error() {
    let begun =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#;
    let json = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"x"}}"#;
    let ended = r#"{"type":"content_block_stop","index":0}"#;
    for lines in [
        [begun, "", ""],
        [START, START, ""],
        [START, delta, ""],
        [START, ended, ""],
        [START, begun, begun],
        [START, begun, json],
        [START, begun, STOP],
    ] {
        let shown = read(&lines.join("\n"));
        assert!(shown.contains("=> protocol: "), "{lines:?}\n{shown}");
    }
    let after = read(&[START, begun, ended, delta].join("\n"));
    assert!(after.contains("=> protocol: "), "{after}");
}

/// All frames through one decoder.
fn decode(frames: &[String]) -> (Vec<StreamEvent>, Result<(), ModelError>) {
    let mut decoder = AnthropicMessages.decoder();
    let mut events = Vec::new();
    for frame in frames {
        if let Err(error) = decoder.frame("", frame, &mut events) {
            return (events, Err(error));
        }
    }
    (events, Ok(()))
}

fn pieces() -> impl Strategy<Value = String> {
    let literal = prop_oneof![
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        r#""[a-z\\"/bnu0-9{}\[\]é🙂	]{0,12}""#,
        r#"[a-z"\\]{0,6}"#,
    ];
    let index = prop_oneof![Just("0".to_owned()), "[0-2]", "0[0-9]", "-1", "[0-9]{7}"];
    let kind = prop_oneof![
        Just((r#"text_delta","text":"#, 0)),
        Just((r#"thinking_delta","thinking":"#, 1)),
        Just((r#"input_json_delta","partial_json":"#, 2)),
        Just((r#"signature_delta","signature":"#, 1)),
    ];
    let end =
        prop_oneof![Just("}}"), Just("}   }"), Just("}} "), Just("}"), Just("}}}"), Just(",}}")];
    (literal, index, kind, end).prop_map(|(literal, index, (kind, own), end)| {
        // Mostly the block to which this kind of piece belongs.
        let index = if index == "0" { own.to_string() } else { index };
        format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}{literal}{end}"#
        )
    })
}

/// What every answer begins and ends with, as the provider writes it, with one place changed.
fn frames_around() -> impl Strategy<Value = String> {
    let frame = prop::sample::select(vec![
        START,
        r#"{"type":"message_start","message":{"model":"m","id":"i","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":7,"cache_read_input_tokens":3,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":3},"output_tokens":1,"output_tokens_details":{"thinking_tokens":2},"service_tier":"standard"}} }"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":12}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"\n"},"usage":{"input_tokens":1,"output_tokens":12}}"#,
    ]);
    let other = prop::sample::select(vec![
        "",
        " ",
        "0",
        "7",
        "-",
        ".5",
        "\"",
        "\\u00e9",
        "{",
        "}",
        "{}",
        "[",
        "null",
        ",",
        "a",
        "é",
        r#","usage":{"output_tokens":3}"#,
        r#","input_tokens":8"#,
        r#""id":"x","#,
    ]);
    (frame, any::<prop::sample::Index>(), 0..3usize, other).prop_map(|(frame, at, cut, other)| {
        let chars: Vec<char> = frame.chars().collect();
        let at = at.index(chars.len());
        let rest = chars.iter().skip(at + cut);
        chars[..at].iter().copied().chain(other.chars()).chain(rest.copied()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn the_beginning_and_the_end_are_read_as_the_parser_reads_them(frame in frames_around()) {
        let text = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        let is_start = frame.contains("message_start");
        let before = if is_start { vec![] } else { vec![START.to_owned(), text.to_owned()] };
        let all = |frame: String| before.iter().cloned().chain([frame]).collect::<Vec<String>>();
        // A space where the quick way expects none.
        let slow = decode(&all(frame.replacen('{', "{ ", 1)));
        let quick = decode(&all(frame));
        prop_assert_eq!(&quick.0, &slow.0);
        let kind = |result: Result<(), ModelError>| result.map_err(|error| error.kind);
        prop_assert_eq!(kind(quick.1), kind(slow.1));
    }

    #[test]
    fn the_quick_way_reads_what_the_parser_reads(piece in pieces()) {
        let mut frames = vec![START.to_owned()];
        for (index, block) in [
            r#"{"type":"text","text":""}"#,
            r#"{"type":"thinking","thinking":"","signature":""}"#,
            r#"{"type":"tool_use","id":"t","name":"n","input":{}}"#,
        ].into_iter().enumerate() {
            frames.push(format!(
                r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#
            ));
        }
        let mut slow = frames.clone();
        // A space where the quick way expects none.
        slow.push(piece.replacen('{', "{ ", 1));
        frames.push(piece);
        let (quick, slow) = (decode(&frames), decode(&slow));
        prop_assert_eq!(&quick.0, &slow.0);
        let kind = |result: Result<(), ModelError>| result.map_err(|error| error.kind);
        prop_assert_eq!(kind(quick.1), kind(slow.1));
    }
}
