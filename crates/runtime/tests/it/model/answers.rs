//! Whole answers, however their bytes arrive.

use std::io::Write;
use std::sync::Barrier;

use machine::message::{Part, StopReason, Usage};
use runtime::http::Limits;

use super::server::{END, HEAD, Server, chunk, hold, whole};
use super::{ANTHROPIC, CHAT, KEY, Rig, short};

#[test]
fn an_anthropic_stream_becomes_an_answer() {
    let server = Server::saying(whole(ANTHROPIC));
    let reply = Rig::new(&server).ask("anthropic/claude").unwrap();
    assert_eq!((reply.id.as_str(), reply.model.as_str()), ("msg_1", "claude-dated"));
    assert_eq!(reply.message.text(), "Grüße, wörld");
    assert_eq!(reply.stop, StopReason::EndTurn);
    let usage = Usage { input: Some(10), output: Some(5), ..Usage::default() };
    assert_eq!(reply.usage, usage);

    let [request] = &server.requests()[..] else { panic!("{:?}", server.requests()) };
    assert!(request.head.starts_with("POST /v1/messages HTTP/1.1"), "{}", request.head);
    assert!(request.has(&format!("x-api-key: {KEY}")), "{}", request.head);
    assert!(request.has("accept-encoding: identity"), "{}", request.head);
    for part in ["\"claude\"", "Be brief.", "Say hello.", "\"read\"", "cache_control"] {
        assert!(request.body.contains(part), "{part}: {}", request.body);
    }
}

#[test]
fn a_chat_stream_becomes_a_tool_call() {
    let server = Server::saying(whole(CHAT));
    let reply = Rig::new(&server).ask("here/small/er").unwrap();
    let tools: Vec<_> = reply
        .message
        .blocks
        .iter()
        .filter_map(|block| match &block.part {
            Part::ToolUse { id, name, input } => {
                Some((id.as_str(), name.as_str(), input.to_string()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(tools, [("t1", "read", r#"{"path":"a.txt"}"#.to_owned())]);
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!(reply.usage.total(), 10);

    let [request] = &server.requests()[..] else { panic!("{:?}", server.requests()) };
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", request.head);
    assert!(request.has(&format!("authorization: Bearer {KEY}")), "{}", request.head);
    assert!(request.body.contains("\"small/er\""), "{}", request.body);
}

#[test]
fn an_answer_that_nobody_counted_is_measured() {
    for counts in ["", r#","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#] {
        let counted = r#","usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}"#;
        let server = Server::saying(whole(&CHAT.replace(counted, counts)));
        let reply = Rig::new(&server).ask("here/small").unwrap();
        let sent = server.requests()[0].body.len() as u64;
        let said = "read".len() + r#"{"path":"a.txt"}"#.len();
        assert_eq!(reply.usage.input, Some(sent.div_ceil(4)));
        assert_eq!(reply.usage.output, Some(said as u64 / 4));
        assert_eq!(reply.usage.nanodollars, None, "what it cost is not known");
    }
}

/// A chat stream that says `text` and then stops.
fn chat(text: &str) -> String {
    let chunk = |delta: serde_json::Value, stop: Option<&str>| {
        let choice = serde_json::json!({"index": 0, "delta": delta, "finish_reason": stop});
        format!("data: {}\n\n", serde_json::json!({"id": "c1", "model": "m", "choices": [choice]}))
    };
    let said = text.chars().map(|c| chunk(serde_json::json!({"content": c.to_string()}), None));
    said.collect::<String>()
        + chunk(serde_json::json!({}), Some("stop")).as_str()
        + "data: [DONE]\n\n"
}

#[test]
fn a_constrained_model_is_asked_by_a_schema_and_its_json_becomes_a_call() {
    let server =
        Server::saying(whole(&chat(r#"{"tool": "read", "with": {"path": "a.txt", "limit": 3}}"#)));
    let rig = Rig::new(&server);
    let path = rig.folder.path().join("models.toml");
    let file = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{file}[model.\"here/tiny\"]\ndecisions = \"constrained\"\n"))
        .unwrap();
    let mut heard = Vec::new();
    let mut hear = |events: &mut Vec<wire::model::StreamEvent>| heard.append(events);
    let cancel = runtime::process::Cancel::new();
    let reply = rig
        .models
        .call("task", &super::call("here/tiny"), rig.folder.path(), &cancel, &mut hear)
        .unwrap();
    assert_eq!(reply.stop, StopReason::ToolUse);
    let input = serde_json::json!({"path": "a.txt", "limit": 3});
    let part = Part::ToolUse { id: "call_0".to_owned(), name: "read".to_owned(), input };
    assert_eq!(reply.message.blocks.len(), 1);
    assert_eq!(reply.message.blocks[0].part, part);
    let shown = |event: &wire::model::StreamEvent| {
        matches!(event, wire::model::StreamEvent::TextDelta { .. })
    };
    assert!(!heard.iter().any(shown), "{heard:?}");
    let [request] = &server.requests()[..] else { panic!("{:?}", server.requests()) };
    assert!(!request.body.contains("\"tools\""), "{}", request.body);
    assert!(request.body.contains("\"const\":\"read\""), "{}", request.body);

    // Another model of the same server is asked as ever.
    assert_eq!(rig.ask("here/other").unwrap().stop, StopReason::EndTurn);
    assert!(server.requests()[1].body.contains("\"tools\""));

    let server = Server::saying(whole(&chat("I would read a.txt.")));
    let rig = Rig::new(&server);
    let path = rig.folder.path().join("models.toml");
    let file = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{file}decisions = \"constrained\"\n")).unwrap();
    let failure = rig.fails("here/tiny");
    assert_eq!(failure.kind, "malformed_tool_call");
    assert_eq!(failure.retry, machine::message::Retry::Backoff);
    let rig = Rig::new(&server);
    let path = rig.folder.path().join("models.toml");
    std::fs::write(&path, format!("{file}decisions = \"tight\"\n")).unwrap();
    assert!(rig.fails("here/tiny").message.contains("models.toml:5: unknown variant `tight`"));
}

#[test]
fn byte_by_byte_gives_the_same_answer() {
    for (model, text) in [("anthropic/claude", ANTHROPIC), ("here/small", CHAT)] {
        let at_once = Server::saying(whole(text));
        let slowly = Server::new(move |_, stream| {
            stream.write_all(HEAD.as_bytes()).unwrap();
            for byte in text.bytes() {
                stream.write_all(&chunk([byte])).unwrap();
            }
            stream.write_all(END.as_bytes()).unwrap();
            false
        });
        let reply = Rig::new(&slowly).ask(model).unwrap();
        assert_eq!(reply, Rig::new(&at_once).ask(model).unwrap());
    }
}

#[test]
fn a_long_answer_is_the_same_at_once_and_one_event_each_millisecond() {
    let piece = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"N \"}}\n\n";
    let pieces: String = (0..200).map(|number| piece.replace('N', &number.to_string())).collect();
    let (start, end) = ANTHROPIC.split_at(ANTHROPIC.find("event: content_block_stop").unwrap());
    let text = format!("{start}{pieces}{end}");
    let at_once = Rig::new(&Server::saying(whole(&text))).ask("anthropic/claude").unwrap();
    let said: String = (0..200).map(|number| format!("{number} ")).collect();
    assert_eq!(at_once.message.text(), format!("Grüße, wörld{said}"));
    // The connection stays: what was gathered must not be waited for until it ends.
    let slowly = Server::new(move |_, stream| {
        stream.write_all(HEAD.as_bytes()).unwrap();
        for event in text.split_inclusive("\n\n") {
            stream.write_all(&chunk(event)).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        stream.write_all(END.as_bytes()).is_ok()
    });
    assert_eq!(Rig::new(&slowly).ask("anthropic/claude").unwrap(), at_once);
}

#[test]
fn an_answer_is_over_at_its_end_mark_not_when_the_server_hangs_up() {
    let server = Server::new(|_, stream| {
        stream.write_all(HEAD.as_bytes()).unwrap();
        stream.write_all(&chunk(ANTHROPIC)).unwrap();
        hold(stream);
        false
    });
    // The default limits would take minutes.
    let reply = Rig::new(&server).ask("anthropic/claude").unwrap();
    assert_eq!(reply.message.text(), "Grüße, wörld");
}

#[test]
fn a_chat_answer_without_its_last_line_counts_once_the_server_stays_silent() {
    let text = CHAT.replace("data: [DONE]\n\n", "");
    let server = Server::new(move |_, stream| {
        stream.write_all(HEAD.as_bytes()).unwrap();
        stream.write_all(&chunk(&text)).unwrap();
        hold(stream);
        false
    });
    let reply = Rig::with(&server, short(5000, 100, 5000)).ask("here/small").unwrap();
    assert_eq!(reply.stop, StopReason::ToolUse);
}

#[test]
fn two_calls_run_at_once() {
    // Neither is answered before both have asked.
    let both = Barrier::new(2);
    let server = Server::new(move |_, stream| {
        both.wait();
        stream.write_all(&whole(ANTHROPIC)).unwrap();
        false
    });
    let rig = Rig::with(&server, Limits::default());
    std::thread::scope(|scope| {
        let calls = [0, 1].map(|_| scope.spawn(|| rig.ask("anthropic/claude")));
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap().message.text(), "Grüße, wörld");
        }
    });
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_server_that_closes_after_an_answer_without_saying_so_is_asked_again() {
    // As llama.cpp does after a stream, though its answer promised to keep the connection: here at the worst moment,
    // when the next question has just come.
    let server = Server::new(|_, stream| {
        stream.write_all(&whole(ANTHROPIC)).unwrap();
        let _ = stream.peek(&mut [0]);
        false
    });
    let rig = Rig::new(&server);
    for _ in 0..3 {
        rig.ask("anthropic/claude").unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 3));
}

#[test]
fn calls_one_after_the_other_share_a_connection() {
    let server = Server::new(|_, stream| stream.write_all(&whole(ANTHROPIC)).is_ok());
    let rig = Rig::new(&server);
    for _ in 0..3 {
        rig.ask("anthropic/claude").unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 1));
}
