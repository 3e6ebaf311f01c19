//! Recorded exchanges: what a file keeps, what it covers up, and which questions are the same.

use serde_json::{Value, json};
use wire::model::recording::{Chunk, Cover, Data, End, Exchange, Question, Response, kept};

fn question(request: Value) -> Question {
    let text = |text: &str| text.to_owned();
    Question {
        provider: text("here"),
        dialect: text("openai_chat"),
        method: text("POST"),
        path: text("/chat/completions"),
        request,
    }
}

fn exchange(request: Value, pieces: &[&[u8]], end: End) -> Exchange {
    let chunk = |(at, piece): (usize, &&[u8])| Chunk { at: at as u64, data: Data::of(piece) };
    let chunks = pieces.iter().enumerate().map(chunk).collect();
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    let response = Response { status: Some(200), headers, chunks, end };
    Exchange { v: 1, question: question(request), response }
}

fn body(exchange: &Exchange) -> Vec<u8> {
    exchange.response.chunks.iter().flat_map(|chunk| chunk.data.bytes().unwrap()).collect()
}

#[test]
fn a_file_reads_what_it_writes_whatever_the_bytes() {
    let broken = End::Broken { reason: "reset".to_owned() };
    for end in [End::Whole, broken, End::Silent { millis: 120_000 }, End::TooLong { millis: 9 }] {
        let pieces: [&[u8]; 3] = [b"data: gr\xc3", b"\xbc\xc3\x9fe\n\n", b"\xff\x00"];
        let written = exchange(json!({ "model": "m" }), &pieces, end);
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(Exchange::read(&text).unwrap(), written, "{text}");
        assert_eq!(body(&written), pieces.concat());
    }
}

#[test]
fn what_is_no_recording_says_why() {
    let good = serde_json::to_value(exchange(json!({}), &[b"x"], End::Whole)).unwrap();
    let with = |change: fn(&mut Value)| {
        let mut changed = good.clone();
        change(&mut changed);
        Exchange::read(&changed.to_string()).unwrap_err()
    };
    assert!(with(|value| value["v"] = json!(2)).contains("version 2"));
    assert!(with(|value| drop(value.as_object_mut().unwrap().remove("v"))).contains("no \"v\""));
    assert!(with(|value| value["response"]["end"] = json!("no")).contains("unknown variant"));
    let bad = with(|value| value["response"]["chunks"][0] = json!({ "at": 0, "base64": "?" }));
    assert!(bad.contains("base64"), "{bad}");
    assert!(Exchange::read("{").is_err());
}

#[test]
fn no_key_is_kept_in_any_part() {
    const KEY: &str = "q7Zt-\"very\"-private-41";
    const LOOKS: &str = "sk-ant-api03-AbCdEf0123456789";
    let cover = Cover::new([KEY, "none"]);
    let quoted = Value::from(KEY).to_string();
    let (one, two) = quoted.split_at(9);
    let request = json!({ "messages": [{ "content": format!("use {KEY}, {LOOKS}. none") }] });
    let broken = End::Broken { reason: format!("refused {LOOKS}") };
    let mut kept = exchange(request, &[one.as_bytes(), two.as_bytes()], broken);
    kept.question.path = format!("/x?key={LOOKS}");
    kept.response.headers.push(("request-id".to_owned(), KEY.to_owned()));
    let text = serde_json::to_string(&kept.covered(&cover)).unwrap();
    assert!(!text.contains("private-41") && !text.contains("api03"), "{text}");
    assert!(text.contains("use [key], [key]. none"), "{text}");
    assert!(text.contains("/x?key=[key]"), "{text}");
    assert!(!format!("{cover:?}").contains("private"));
}

/// A piece of text as an event of some dialect, and the pieces of such events joined again.
type Dialect = (fn(&str) -> Value, &'static str);

#[test]
fn a_key_that_comes_in_pieces_is_kept_in_none_of_them() {
    const KEY: &str = "my0wnRealKey9876543210abcdefgh";
    let dialects: [Dialect; 6] = [
        (
            |piece| {
                json!({ "type": "content_block_delta", "index": 1,
                "delta": { "type": "input_json_delta", "partial_json": piece } })
            },
            "/delta/partial_json",
        ),
        (
            |piece| {
                json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "thinking_delta", "thinking": piece } })
            },
            "/delta/thinking",
        ),
        (
            |piece| {
                json!({ "type": "response.function_call_arguments.delta", "output_index": 2,
                "item_id": "fc_1", "delta": piece })
            },
            "/delta",
        ),
        (
            |piece| {
                json!({ "id": "c", "choices": [{ "index": 0, "delta": { "tool_calls":
                [{ "index": 1, "function": { "arguments": piece } }] } }] })
            },
            "/choices/0/delta/tool_calls/0/function/arguments",
        ),
        (
            |piece| json!({ "choices": [{ "index": 0, "delta": { "content": piece } }] }),
            "/choices/0/delta/content",
        ),
        (
            |piece| json!({ "candidates": [{ "content": { "parts": [{ "text": piece }] } }] }),
            "/candidates/0/content/parts/0/text",
        ),
    ];
    let cover = Cover::new([KEY]);
    let words = format!("{{\"content\":\"KEY={KEY};\"}}");
    for (event, place) in dialects {
        for one in 0..words.len() {
            let two = (one + 7).min(words.len());
            let pieces = [&words[..one], &words[one..two], &words[two..]];
            let other = json!({ "type": "ping", "text": "between" });
            let events = pieces.map(|piece| {
                format!("event: x\r\ndata: {}\r\n\r\ndata: {other}\n\n", event(piece))
            });
            let stream = format!("{}data: [DONE]\n\n", events.concat());
            let (head, tail) = stream.split_at(stream.len() / 2);
            let kept = exchange(json!({}), &[head.as_bytes(), tail.as_bytes()], End::Whole);
            let kept = kept.covered(&cover);
            let text: Vec<u8> =
                kept.response.chunks.iter().flat_map(|chunk| chunk.data.bytes().unwrap()).collect();
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.matches("between").count(), 3, "{text}");
            assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
            let joined: String = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
                .filter_map(|event| event.pointer(place)?.as_str().map(str::to_owned))
                .collect();
            assert_eq!(joined, r#"{"content":"KEY=[key];"}"#, "{place} cut at {one}");
        }
    }
}

#[test]
fn words_of_people_are_no_keys() {
    let cover = Cover::default();
    for text in [
        "task-runner-configuration-2.toml",
        "the desk-0123456789-0123456789 is free",
        "sk-learn",
        "sk-a-long-word-of-letters-only",
        "AIza",
        "größe sk",
        "",
    ] {
        assert_eq!(cover.text(text), text);
    }
    assert_eq!(cover.text("\"sk-0123456789abcdefghij\"!"), "\"[key]\"!");
}

#[test]
fn bytes_stay_as_they_are_where_nothing_is_hidden() {
    let kept = exchange(json!({ "a": 1 }), &[b"one", b"two", b"\xff"], End::Whole);
    assert_eq!(kept.clone().covered(&Cover::new(["something else"])), kept);
}

#[test]
fn the_order_of_keys_makes_no_difference_and_everything_else_does() {
    let read = |text: &str| question(serde_json::from_str(text).unwrap());
    let one = read(r#"{"a": 1, "b": [{"c": "x", "d": null}]}"#);
    let two = read(r#"{"b": [{"d": null, "c": "x"}], "a": 1}"#);
    assert_eq!(one.canonical(), two.canonical());
    assert_eq!(one.difference(&two), None);
    for (other, place) in [
        (r#"{"a": 1, "b": [{"c": "y", "d": null}]}"#, "b[0].c"),
        (r#"{"a": 1, "b": [{"c": "x"}]}"#, "b[0].d"),
        (r#"{"a": 1, "b": []}"#, "b[0]"),
        (r#"{"a": 1, "b": [{"c": "x", "d": null}, 2]}"#, "b[1]"),
        (r#"{"a": "1", "b": [{"c": "x", "d": null}]}"#, "a"),
        ("[]", "the whole body"),
    ] {
        let other = read(other);
        assert_ne!(one.canonical(), other.canonical());
        assert_eq!(one.difference(&other).as_deref(), Some(place));
    }
    let elsewhere = Question { path: "/responses".to_owned(), ..one.clone() };
    assert_ne!(one.canonical(), elsewhere.canonical());
    assert!(one.difference(&elsewhere).unwrap().contains("path"));
    let named = Question { provider: "other".to_owned(), ..one.clone() };
    assert_eq!(one.canonical(), named.canonical(), "what a provider is called means nothing");
}

#[test]
fn the_nearest_question_has_most_in_common() {
    let ours = question(json!({ "m": ["a", "b", "c"], "n": 1 }));
    let near = question(json!({ "m": ["a", "b", "x"], "n": 1 }));
    let far = question(json!({ "m": ["a"], "n": 1 }));
    assert!(ours.likeness(&near) > ours.likeness(&far));
    let elsewhere = Question { path: "/responses".to_owned(), ..ours.clone() };
    assert!(ours.likeness(&far) > ours.likeness(&elsewhere));
}

#[test]
fn only_headers_that_matter_are_kept() {
    let pairs = ["retry-after", "set-cookie", "x-ratelimit-reset-tokens", "authorization", "date"];
    let headers: Vec<_> = pairs.map(|name| (name.to_owned(), "1".to_owned())).into();
    let names: Vec<String> = kept(&headers).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["retry-after", "x-ratelimit-reset-tokens", "date"]);
}

#[test]
fn questions_of_an_agent_have_one_form_whatever_times_ids_and_folders_they_name() {
    let asks = |folder: &str, call: &str, role: &str| {
        let used =
            json!([{ "type": "tool_use", "id": "x", "name": "Read", "input": { "path": folder } }]);
        let result = json!([{ "type": "tool_result", "tool_use_id": call, "content": folder }]);
        question(json!({
            "model": "m",
            "metadata": { "user_id": folder },
            "messages": [
                { "role": "user", "content": format!("work in {folder}") },
                { "role": "assistant", "content": used },
                { "role": role, "content": result },
            ],
            "max_tokens": folder.len(),
        }))
    };
    let one = asks("/w/1", "toolu_1", "user");
    assert_eq!(one.form(), asks("/elsewhere/2", "toolu_1", "user").form());
    assert_ne!(one.form(), asks("/w/1", "toolu_2", "user").form(), "another call");
    assert_ne!(one.form(), asks("/w/1", "toolu_1", "system").form(), "another speaker");
    let mut longer = one.clone();
    let message = json!({ "role": "user", "content": "more" });
    longer.request["messages"].as_array_mut().unwrap().push(message);
    assert_ne!(one.form(), longer.form(), "more was said");
    let elsewhere = Question { path: "/responses".to_owned(), ..one.clone() };
    assert_ne!(one.form(), elsewhere.form());
    let again = Question { path: format!("{}?beta=true", one.path), ..one.clone() };
    assert_eq!(one.form(), again.form());
}
