//! Chunks in, events and replies out.

use super::super::OpenAiChat;
use super::{calls, events, interleave, reply, says};
use machine::message::StopReason;
use serde_json::{Value, json};

/// A chunk of the first choice.
fn chunk(delta: Value, finish_reason: Value) -> String {
    json!({
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "gpt-x",
        "system_fingerprint": "fp",
        "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason }],
        "usage": null,
    })
    .to_string()
}

fn delta(delta: Value) -> String {
    chunk(delta, Value::Null)
}

fn finish(reason: &str) -> String {
    chunk(json!({}), reason.into())
}

fn tool(index: u64, fields: Value) -> String {
    let mut call = json!({ "index": index });
    call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    delta(json!({ "tool_calls": [call] }))
}

fn opens(index: u64, id: &str) -> String {
    let function = json!({ "name": "bash", "arguments": "" });
    tool(index, json!({ "id": id, "type": "function", "function": function }))
}

fn goes_on(index: u64, arguments: &str) -> String {
    tool(index, json!({ "function": { "arguments": arguments } }))
}

fn done() -> String {
    "[DONE]".to_owned()
}

#[track_caller]
fn check(frames: &[String], expected: &[&str]) {
    assert_eq!(events(&OpenAiChat::openai(), frames), expected);
}

/// The word of the error that these frames end with.
fn fails(frames: &[String]) -> &'static str {
    reply(&OpenAiChat::openai(), frames).unwrap_err().kind.word()
}

#[test]
fn text_comes_with_its_usage_before_the_end() {
    let usage = json!({
        "id": "c1", "choices": [],
        "usage": {
            "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
            "prompt_tokens_details": { "cached_tokens": 64, "cache_write_tokens": 6 },
            "completion_tokens_details": { "reasoning_tokens": 5 },
        },
    });
    let frames = [
        delta(json!({ "role": "assistant", "content": "", "refusal": null })),
        delta(json!({ "content": "Hel" })),
        delta(json!({ "content": "lo" })),
        finish("stop"),
        usage.to_string(),
        done(),
    ];
    check(
        &frames,
        &[
            "start c1 gpt-x",
            "0 text Hel",
            "0 text lo",
            "delta EndTurn",
            "delta in=30 out=20 thinking=5 read=64 write=6",
            "end",
            "complete",
        ],
    );
    let reply = reply(&OpenAiChat::openai(), &frames).unwrap();
    assert_eq!(says(&reply), ("Hello".to_owned(), StopReason::EndTurn));
    assert_eq!(reply.usage.total(), 120);
}

#[test]
fn parallel_calls_interleave_by_their_number() {
    let frames = [
        delta(json!({ "content": "Both." })),
        opens(0, "call_a"),
        opens(1, "call_b"),
        goes_on(1, "{\"command\":"),
        goes_on(0, "{\"command\":\"a\"}"),
        goes_on(1, "\"b\"}"),
        finish("tool_calls"),
        done(),
    ];
    check(
        &frames,
        &[
            "start c1 gpt-x",
            "0 text Both.",
            "1 tool call_a bash",
            "2 tool call_b bash",
            "2 json {\"command\":",
            "1 json {\"command\":\"a\"}",
            "2 json \"b\"}",
            "1 stop",
            "2 stop",
            "delta ToolUse",
            "end",
            "complete",
        ],
    );
}

#[test]
fn however_arguments_are_cut_and_mixed_they_assemble_to_the_same() {
    let inputs = [
        json!({ "command": "printf 'ä\\n\"€\" \u{1f600}'", "n": [1, 2.5, null] }),
        json!({}),
        json!({ "nested": { "deep": { "er": ["x", { "y": "\\" }] } } }),
    ];
    let texts: Vec<String> = inputs.iter().map(Value::to_string).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for seed in 0..300 {
        let mut frames: Vec<String> = (0..3).map(|n| opens(n, &format!("call_{n}"))).collect();
        frames.extend(
            interleave(&texts, seed).into_iter().map(|(n, piece)| goes_on(n as u64, piece)),
        );
        frames.extend([finish("tool_calls"), done()]);
        let got = calls(&reply(&OpenAiChat::openai(), &frames).unwrap());
        let expected: Vec<(String, Value)> = inputs
            .iter()
            .enumerate()
            .map(|(n, input)| (format!("call_{n}"), input.clone()))
            .collect();
        assert_eq!(got, expected, "seed {seed}");
    }
}

#[test]
fn ids_and_names_may_be_repeated_or_come_late() {
    let function = |arguments: &str| json!({ "name": "bash", "arguments": arguments });
    let repeated = [
        tool(0, json!({ "id": "call_1", "function": function("{") })),
        tool(0, json!({ "id": "call_1", "function": function("}") })),
        tool(0, json!({ "id": "", "function": { "name": "", "arguments": "" } })),
        tool(0, json!({ "id": null, "function": { "name": null, "arguments": null } })),
        finish("tool_calls"),
    ];
    check(
        &repeated,
        &[
            "start c1 gpt-x",
            "0 tool call_1 bash",
            "0 json {",
            "0 json }",
            "ping",
            "ping",
            "0 stop",
            "delta ToolUse",
            "complete",
        ],
    );
    let late = [
        tool(0, json!({ "id": "call_1" })),
        tool(0, json!({ "function": { "arguments": "{" } })),
        tool(0, json!({ "function": function("}") })),
        finish("tool_calls"),
    ];
    check(
        &late,
        &[
            "start c1 gpt-x",
            "ping",
            "0 tool call_1 bash",
            "0 json {}",
            "0 stop",
            "delta ToolUse",
            "complete",
        ],
    );
}

#[test]
fn calls_that_all_have_the_number_zero_are_told_apart_by_id() {
    let whole = |id: &str| json!({ "id": id, "function": { "name": "bash", "arguments": "{}" } });
    let frames = [tool(0, whole("call_1")), tool(0, whole("call_2")), finish("tool_calls"), done()];
    let got = calls(&reply(&OpenAiChat::openai(), &frames).unwrap());
    assert_eq!(got, [("call_1".to_owned(), json!({})), ("call_2".to_owned(), json!({}))]);
}

#[test]
fn a_call_whose_id_changes_under_way_is_one_call_unless_it_is_named_anew() {
    let named = |id: &str, arguments: &str| {
        let function = json!({ "name": "bash", "arguments": arguments });
        tool(0, json!({ "id": id, "function": function }))
    };
    let piece = |id: Value, arguments: &str| {
        tool(0, json!({ "id": id, "function": { "name": null, "arguments": arguments } }))
    };
    let got = |frames: &[String]| {
        let frames = [frames, &[finish("tool_calls"), done()]].concat();
        calls(&reply(&OpenAiChat::openai(), &frames).unwrap())
    };
    let call = |id: &str, input: Value| (id.to_owned(), input);
    // Older vLLM makes up an id for each piece, and some servers end with one that says nothing.
    let renamed = [
        named("r1", ""),
        piece("r2".into(), "{\"command\":"),
        piece("r3".into(), "\"ls\"}"),
        piece("r4".into(), ""),
    ];
    assert_eq!(got(&renamed), [call("r1", json!({ "command": "ls" }))]);
    // The same without numbers.
    let unnumbered = renamed.each_ref().map(|frame| {
        let mut frame: Value = serde_json::from_str(frame).unwrap();
        frame["choices"][0]["delta"]["tool_calls"][0]["index"].take();
        frame.to_string()
    });
    assert_eq!(got(&unnumbered), [call("r1", json!({ "command": "ls" }))]);
    // Two calls under one number, both in pieces.
    let two = [
        named("a", "{\"n\":"),
        piece("a".into(), "1}"),
        named("b", "{\"n\":"),
        piece("".into(), "2"),
        piece(Value::Null, "}"),
    ];
    assert_eq!(got(&two), [call("a", json!({ "n": 1 })), call("b", json!({ "n": 2 }))]);
    // An id that is known decides, also where pieces are mixed.
    let mixed = ["a", "b", "a", "b"].into_iter().zip(["{\"n\":", "{\"n\":", "1}", "2}"]);
    let mixed: Vec<String> = [named("a", ""), named("b", "")]
        .into_iter()
        .chain(mixed.map(|(id, arguments)| piece(id.into(), arguments)))
        .collect();
    assert_eq!(got(&mixed), [call("a", json!({ "n": 1 })), call("b", json!({ "n": 2 }))]);
}

#[test]
fn calls_that_share_a_number_and_have_no_ids_are_told_apart_where_one_is_whole() {
    let piece = |name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        tool(0, json!({ "function": function }))
    };
    let inputs = |frames: &[String]| {
        let ends = [finish("tool_calls"), done()];
        let frames: Vec<String> = frames.iter().chain(&ends).cloned().collect();
        let reply = reply(&OpenAiChat::openai(), &frames).unwrap();
        calls(&reply).into_iter().map(|(_, input)| input).collect::<Vec<_>>()
    };
    let whole = [r#"{"path":"}{"}"#, r#"{"path":"b"}"#, r#"{"path":"\\\"{"}"#];
    let expected = [json!({"path": "}{"}), json!({"path": "b"}), json!({"path": "\\\"{"})];
    assert_eq!(inputs(&whole.map(|arguments| piece("read", arguments))), expected);
    // In pieces, the name in each of them.
    let pieces: Vec<String> = whole
        .iter()
        .flat_map(|whole| {
            let (one, two) = whole.split_at(5);
            [piece("read", ""), piece("read", one), piece("read", two)]
        })
        .collect();
    assert_eq!(inputs(&pieces), expected);
    // The name in the first piece of each only.
    let pieces: Vec<String> = whole
        .iter()
        .flat_map(|whole| {
            let (one, two) = whole.split_at(5);
            [piece("read", one), piece("", two), piece("", "")]
        })
        .collect();
    assert_eq!(inputs(&pieces), expected);
    // One without an id before one with an id, of another name or of the same.
    for name in ["write", "read"] {
        let function = json!({ "name": name, "arguments": "{\"b\":1}" });
        let second = tool(0, json!({ "id": "call_2", "function": function }));
        let both = inputs(&[piece("read", "{\"a\":1}"), second]);
        assert_eq!(both, [json!({"a": 1}), json!({"b": 1})], "{name}");
    }
    // The end of a call may come with its name once more.
    assert_eq!(inputs(&[piece("read", "{}"), piece("read", ""), piece("read", " ")]), [json!({})]);
}

#[test]
fn what_a_gateway_says_that_an_answer_cost_is_taken() {
    let cost = |more: Value| {
        let mut usage = json!({ "prompt_tokens": 10, "completion_tokens": 2 });
        usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let counts = json!({ "choices": [], "usage": usage }).to_string();
        let frames = [delta(json!({ "content": "Hi" })), finish("stop"), counts, done()];
        reply(&OpenAiChat::openai(), &frames).unwrap().usage.nanodollars
    };
    assert_eq!(cost(json!({})), None);
    assert_eq!(cost(json!({ "cost": 0.000125 })), Some(125_000));
    assert_eq!(cost(json!({ "cost": 2, "is_byok": false })), Some(2_000_000_000));
    let behind = json!({ "upstream_inference_cost": 19 });
    let own_key = json!({ "cost": 0.95, "is_byok": true, "cost_details": behind });
    assert_eq!(cost(own_key), Some(19_950_000_000));
    let passed_on = json!({ "cost": 0.5, "cost_details": { "upstream_inference_cost": 0.5 } });
    assert_eq!(cost(passed_on), Some(500_000_000));
    assert_eq!(cost(json!({ "cost": { "total_cost": 0.25 } })), Some(250_000_000));
    for nonsense in [json!(-1), json!("free"), json!(null), json!([1]), json!({ "total_cost": -1 })]
    {
        assert_eq!(cost(json!({ "cost": nonsense })), None, "{nonsense}");
    }
}

#[test]
fn mistral_sends_whole_calls_without_numbers() {
    let calls_delta = json!({ "tool_calls": [
        { "id": "D681PevKs", "function": { "name": "bash", "arguments": "{\"command\":\"ls\"}" } },
        { "id": "E681PevKs", "function": { "name": "bash", "arguments": { "command": "pwd" } } },
    ] });
    let frames = [chunk(calls_delta, "tool_calls".into()), done()];
    let got = calls(&reply(&OpenAiChat::mistral(), &frames).unwrap());
    assert_eq!(
        got,
        [
            ("D681PevKs".to_owned(), json!({ "command": "ls" })),
            ("E681PevKs".to_owned(), json!({ "command": "pwd" })),
        ]
    );
}

#[test]
fn content_in_parts_keeps_thinking_with_its_signature_and_unknown_parts() {
    let part =
        |text: &str| json!({ "type": "thinking", "thinking": [{ "type": "text", "text": text }] });
    let frames = [
        delta(json!({ "content": [part("Hm"), part("m.")] })),
        delta(json!({ "content": [{ "type": "thinking", "thinking": [], "signature": "s" }] })),
        delta(json!({ "content": [{ "type": "text", "text": "Hi" }] })),
        delta(json!({ "content": [{ "type": "reference", "reference_ids": [1] }] })),
        finish("stop"),
        done(),
    ];
    check(
        &frames,
        &[
            "start c1 gpt-x",
            "0 thinking Hm",
            "0 thinking m.",
            "0 thinking ",
            "0 native {\"signature\":\"s\",\"thinking\":[{\"text\":\"Hmm.\",\"type\":\"text\"}],\"type\":\"thinking\"}",
            "1 text Hi",
            "2 native {\"reference_ids\":[1],\"type\":\"reference\"}",
            "delta EndTurn",
            "end",
            "complete",
        ],
    );
}

#[test]
fn reasoning_in_a_field_of_its_own_is_thinking_and_is_taken_once() {
    for field in ["reasoning_content", "reasoning"] {
        let frames = [
            delta(json!({ "content": null, field: "Let " })),
            delta(json!({ field: "me" })),
            delta(json!({ "content": "Hi", field: null })),
            finish("stop"),
        ];
        let native = format!("0 native {{\"{field}\":\"Let me\"}}");
        check(
            &frames,
            &[
                "start c1 gpt-x",
                "0 thinking Let ",
                "0 thinking me",
                &native,
                "1 text Hi",
                "delta EndTurn",
                "complete",
            ],
        );
    }
    let both = [delta(json!({ "reasoning": "x", "reasoning_content": "x" })), finish("stop")];
    check(
        &both,
        &[
            "start c1 gpt-x",
            "0 thinking x",
            "0 native {\"reasoning_content\":\"x\"}",
            "delta EndTurn",
            "complete",
        ],
    );
}

#[test]
fn every_finish_reason_has_its_meaning() {
    let says = |reason: &str| {
        let frames = [delta(json!({ "content": "x" })), finish(reason), done()];
        match reply(&OpenAiChat::openai(), &frames) {
            Ok(reply) => format!("{:?}", reply.stop),
            Err(error) => error.kind.word().to_owned(),
        }
    };
    assert_eq!(says("stop"), "EndTurn");
    assert_eq!(says("length"), "MaxTokens");
    assert_eq!(says("content_filter"), "Refusal");
    assert_eq!(says("tool_calls"), "malformed_tool_call");
    assert_eq!(says("model_length"), "context_overflow");
    assert_eq!(says("error"), "server");
    assert_eq!(says("insufficient_system_resource"), "overloaded");
    for end in ["eos", "STOP", "end_turn"] {
        assert_eq!(says(end), "EndTurn", "{end}");
    }
    assert_eq!(says("max_tokens"), "MaxTokens");
    assert_eq!(says("tool_use"), "malformed_tool_call");
    assert_eq!(says("content_filter: PROHIBITED_CONTENT"), "Refusal");
    assert_eq!(says("function_call_filter: MALFORMED_FUNCTION_CALL"), "malformed_tool_call");
    assert_eq!(says("model_context_window_exceeded"), "context_overflow");
    for failure in ["abort", "network_error", "ERROR"] {
        assert_eq!(says(failure), "server", "{failure}");
    }
    assert_eq!(says("sensitive"), "Refusal");
    assert_eq!(says("banana"), "unknown_stop");
    assert_eq!(says(""), "stream_truncated");
    let number = [delta(json!({ "content": "x" })), chunk(json!({}), 3.into()), done()];
    assert_eq!(fails(&number), "unknown_stop");
}

#[test]
fn a_refusal_is_text_and_a_reason() {
    let frames = [
        delta(json!({ "refusal": "I " })),
        delta(json!({ "refusal": "won't" })),
        finish("stop"),
        done(),
    ];
    let reply = reply(&OpenAiChat::openai(), &frames).unwrap();
    assert_eq!(says(&reply), ("I won't".to_owned(), StopReason::Refusal));
}

#[test]
fn a_cut_call_never_runs() {
    let cut =
        |reason: &str| [opens(0, "call_1"), goes_on(0, "{\"command\":\"l"), finish(reason), done()];
    assert_eq!(fails(&cut("tool_calls")), "tool_args_invalid");
    assert_eq!(fails(&cut("stop")), "tool_args_invalid");
    assert_eq!(fails(&cut("length")), "tool_args_truncated");
    assert_eq!(fails(&cut("tool_calls")[..2]), "stream_truncated");
    assert_eq!(fails(&[opens(0, "call_1"), finish("length"), done()]), "tool_args_truncated");
    assert_eq!(fails(&[opens(0, "call_1"), done()]), "stream_truncated");
    let late = [opens(0, "call_1"), goes_on(0, "{}"), finish("tool_calls"), goes_on(0, " ")];
    assert_eq!(fails(&late), "protocol");
    let same = [opens(0, "call_1"), goes_on(0, "{}"), opens(1, "call_1"), goes_on(1, "{}")];
    assert_eq!(
        fails(&[same.to_vec(), vec![finish("tool_calls"), done()]].concat()),
        "duplicate_tool_id"
    );
    let nameless =
        [tool(0, json!({ "id": "a", "function": { "arguments": "{}" } })), finish("tool_calls")];
    assert_eq!(fails(&nameless), "malformed_tool_call");
}

#[test]
fn a_call_without_arguments_has_no_parameters() {
    for reason in ["tool_calls", "stop"] {
        let two = [opens(0, "call_1"), opens(1, "call_2"), goes_on(1, "{\"command\":\"ls\"}")];
        let frames = [&two[..], &[finish(reason), done()]].concat();
        let reply = reply(&OpenAiChat::default(), &frames).unwrap();
        let expected = [("call_1", json!({})), ("call_2", json!({ "command": "ls" }))];
        assert_eq!(calls(&reply), expected.map(|(id, input)| (id.to_owned(), input)));
    }
}

#[test]
fn a_call_without_an_id_gets_one() {
    let frames = [
        tool(0, json!({ "function": { "name": "bash", "arguments": "{}" } })),
        finish("stop"),
        done(),
    ];
    let reply = reply(&OpenAiChat::default(), &frames).unwrap();
    assert_eq!(calls(&reply), [("call_0".to_owned(), json!({}))]);
    assert_eq!(reply.stop, StopReason::ToolUse);
}

#[test]
fn the_finish_reason_is_the_end_mark_and_done_alone_is_not() {
    let text = delta(json!({ "content": "Hi" }));
    assert!(reply(&OpenAiChat::default(), &[text.clone(), finish("stop")]).is_ok());
    assert_eq!(fails(&[text.clone(), done()]), "stream_truncated");
    assert_eq!(fails(std::slice::from_ref(&text)), "stream_truncated");
    // More text after the reason needs a reason of its own.
    assert_eq!(fails(&[text.clone(), finish("stop"), text.clone()]), "stream_truncated");
    let each = chunk(json!({ "content": "a" }), "stop".into());
    let reply = reply(&OpenAiChat::default(), &[each.clone(), each, done()]).unwrap();
    assert_eq!(says(&reply).0, "aa");
}

#[test]
fn nothing_said_is_an_empty_completion() {
    let empty = json!({ "id": "c1", "choices": [] }).to_string();
    assert_eq!(fails(&[empty, done()]), "empty_completion");
    assert_eq!(
        fails(&[delta(json!({ "content": null })), finish("stop"), done()]),
        "empty_completion"
    );
    assert_eq!(fails(&[delta(json!({})), finish("length"), done()]), "truncated");
}

#[test]
fn usage_may_be_empty_odd_early_or_inside_the_choice() {
    let text = delta(json!({ "content": "Hi" }));
    let usage = |usage: Value| json!({ "id": "c1", "choices": [], "usage": usage }).to_string();
    let counted = |frames: &[String]| {
        let frames = [frames, &[finish("stop"), done()]].concat();
        reply(&OpenAiChat::default(), &frames).unwrap().usage
    };
    assert_eq!(counted(&[text.clone(), usage(json!({}))]).total(), 0);
    assert_eq!(
        counted(&[text.clone(), usage(json!({ "prompt_tokens": -4, "completion_tokens": "9" }))])
            .input,
        None
    );
    let early =
        counted(&[text.clone(), usage(json!({ "prompt_tokens": 1, "completion_tokens": 2 }))]);
    assert_eq!((early.input, early.output, early.cache_read), (Some(1), Some(2), None));
    let deepseek = json!({ "prompt_tokens": 10, "prompt_cache_hit_tokens": 8 });
    let deepseek = counted(&[text.clone(), usage(deepseek)]);
    assert_eq!((deepseek.input, deepseek.cache_read), (Some(2), Some(8)));
    let inside =
        json!({ "choices": [{ "delta": {}, "usage": { "prompt_tokens": 7 } }] }).to_string();
    assert_eq!(counted(&[text, inside]).input, Some(7));
}

#[test]
fn errors_in_the_stream_end_it_with_their_kind() {
    let fails = |frame: Value| {
        let frames = [delta(json!({ "content": "x" })), frame.to_string()];
        reply(&OpenAiChat::default(), &frames).unwrap_err()
    };
    let error = |error: Value| fails(json!({ "error": error })).kind.word();
    assert_eq!(error(json!({ "message": "boom", "type": "server_error", "code": null })), "server");
    assert_eq!(error(json!("boom")), "server");
    assert_eq!(error(json!({ "message": "Overloaded", "code": 503 })), "overloaded");
    assert_eq!(error(json!({ "message": "no", "code": "invalid_api_key" })), "auth");
    assert_eq!(
        error(json!({ "message": "x", "code": "context_length_exceeded" })),
        "context_overflow"
    );
    let capacity = "Service tier capacity exceeded for this model.";
    let capacity =
        json!({ "object": "error", "message": capacity, "type": "invalid_request_error" });
    assert_eq!(fails(capacity).kind.word(), "overloaded");
}

#[test]
fn what_is_no_json_or_of_another_shape_ends_the_stream() {
    let fails = |frame: &str| fails(&[delta(json!({ "content": "x" })), frame.to_owned()]);
    assert_eq!(fails("{\"choices\":[{"), "malformed_stream");
    assert_eq!(fails("hello"), "malformed_stream");
    assert_eq!(
        fails(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        "malformed_stream"
    );
    assert_eq!(fails("[1]"), "protocol");
    assert_eq!(fails("{\"choices\":7}"), "protocol");
    assert_eq!(fails(&delta(json!({ "content": 7 }))), "protocol");
}

#[test]
fn unknown_fields_other_choices_and_gateways_first_chunks_are_passed_over() {
    let frames = [
        json!({ "id": "", "choices": [], "prompt_filter_results": [{ "prompt_index": 0 }] })
            .to_string(),
        json!({ "id": "c1", "model": "g", "choices": [
            { "index": 1, "delta": { "content": "other" }, "finish_reason": null },
            { "index": 0, "delta": { "content": "a", "audio": {} }, "finish_reason": "" },
        ] })
        .to_string(),
        json!({ "id": "c1", "choices": [{ "delta": null, "finish_reason": "stop" }] }).to_string(),
        done(),
        "anything".to_owned(),
    ];
    check(&frames, &["ping", "start c1 g", "0 text a", "delta EndTurn", "end", "complete"]);
}

#[test]
fn an_answer_in_one_piece_is_taken() {
    let whole = json!({ "id": "c1", "choices": [{
        "message": { "role": "assistant", "content": "Hi" }, "finish_reason": "stop",
    }] });
    let reply = reply(&OpenAiChat::default(), &[whole.to_string()]).unwrap();
    assert_eq!(says(&reply).0, "Hi");
}

#[test]
fn extra_content_of_a_call_is_kept() {
    let extra = json!({ "google": { "thought_signature": "sig" } });
    let function = json!({ "name": "bash", "arguments": "{}" });
    let call = json!({ "id": "call_1", "function": function, "extra_content": extra });
    check(
        &[tool(0, call), finish("tool_calls")],
        &[
            "start c1 gpt-x",
            "0 tool call_1 bash",
            "0 json {}",
            "0 stop",
            "0 native {\"extra_content\":{\"google\":{\"thought_signature\":\"sig\"}}}",
            "delta ToolUse",
            "complete",
        ],
    );
}

#[test]
fn frames_that_repeat_each_other_are_read_like_any_others() {
    let say = |text: &str| delta(json!({ "content": text }));
    let frames = [
        delta(json!({ "role": "assistant", "content": "", "refusal": null })),
        say("a"),
        say("b \"c\" \\ é\n"),
        say("\"content\":\"x\""),
        say(""),
        say("d"),
        delta(json!({ "reasoning": "hm" })),
        say("e"),
        say("f"),
        delta(json!({ "refusal": "no" })),
        say("g"),
        delta(json!({ "content": "h", "x": { "content": "h" } })),
        delta(json!({ "content": "i", "x": { "content": "h" } })),
        say("j"),
        opens(0, "one"),
        goes_on(0, "{\"a\":"),
        goes_on(0, "1"),
        opens(1, "two"),
        goes_on(1, "{}"),
        goes_on(0, ",\"arguments\":2"),
        goes_on(0, "}"),
        goes_on(0, ""),
        finish("tool_calls"),
        goes_on(0, ""),
    ];
    // A number that is never the same makes each frame unlike the one before it.
    let number = |(n, frame): (usize, &String)| format!("{{\"n\":{n},{}", &frame[1..]);
    let unlike: Vec<String> = frames.iter().enumerate().map(number).collect();
    let dialect = OpenAiChat::default();
    assert_eq!(events(&dialect, &frames), events(&dialect, &unlike));
    // And each but the first of a row was read at a glance.
    let mut decoder = super::super::decode::Decoder::default();
    let mut glances = 0;
    for frame in &frames[..4] {
        let mut out = Vec::new();
        glances += usize::from(decoder.repeat("", frame, &mut out));
        if out.is_empty() {
            crate::model::Decode::frame(&mut decoder, "", frame, &mut out).unwrap();
        }
    }
    assert_eq!(glances, 2);
}

#[test]
fn reasoning_that_a_gateway_passes_on_is_put_together_and_kept() {
    let details = |piece: Value| json!({ "content": "", "reasoning_details": [piece] });
    let text = |text: &str| json!({ "type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0 });
    let seal = json!({ "type": "reasoning.text", "signature": "S", "format": "anthropic-claude-v1", "index": 0 });
    let hidden = |id: &str| json!({ "type": "reasoning.encrypted", "data": id, "id": id, "format": "google-gemini-v1", "index": 0 });
    let frames = [
        delta(details(text("I se"))),
        delta(details(text("e."))),
        delta(details(seal)),
        delta(details(hidden("call_a"))),
        delta(details(hidden("call_b"))),
        delta(json!({ "content": "Hi" })),
        finish("stop"),
    ];
    let reply = reply(&OpenAiChat::openai(), &frames).unwrap();
    let kept = reply.message.blocks.iter().find_map(|block| block.native.as_ref()).unwrap();
    let whole = json!({ "type": "reasoning.text", "text": "I see.", "signature": "S", "format": "anthropic-claude-v1", "index": 0 });
    assert_eq!(
        kept.raw,
        json!({ "reasoning_details": [whole, hidden("call_a"), hidden("call_b")] })
    );
    assert_eq!(says(&reply), ("Hi".to_owned(), StopReason::EndTurn));
}

#[test]
fn reasoning_that_is_counted_beside_the_output_is_output() {
    let counted_in = |total: u64, details: Value| {
        let usage = json!({
            "prompt_tokens": 10120, "completion_tokens": 1499, "total_tokens": total,
            "prompt_tokens_details": { "cached_tokens": 128 },
            "completion_tokens_details": details,
        });
        let counts = json!({ "choices": [], "usage": usage }).to_string();
        let frames = [delta(json!({ "content": "Hi" })), finish("stop"), counts];
        reply(&OpenAiChat::openai(), &frames).unwrap().usage
    };
    let counted = |total: u64| counted_in(total, json!({ "reasoning_tokens": 809 }));
    assert_eq!(counted(10120 + 1499).output, Some(1499));
    assert_eq!(counted(0).output, Some(1499));
    let untold = counted_in(10120 + 1499 + 809, Value::Null);
    assert_eq!(untold.output, Some(1499 + 809), "only the sum tells");
    assert_eq!(counted(10120 + 1499 + 809).output, Some(1499 + 809));
    assert_eq!(counted(10120 + 1499 + 809).input, Some(9992));
}
