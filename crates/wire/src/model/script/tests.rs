//! Scripts read, played, served, and read back by every dialect's own decoder.

use machine::message::{Block, Message, Part, Reply, Role, StopReason, Usage};
use machine::time::Span;
use serde_json::{Value, json};

use super::*;
use crate::model::anthropic_messages::AnthropicMessages;
use crate::model::assemble::Limits;
use crate::model::google_generate::GoogleGenerate;
use crate::model::openai_chat::OpenAiChat;
use crate::model::openai_responses::OpenAiResponses;
use crate::model::{Dialect, ModelRequest, Retry, Stream, ToolChoice, order};

fn script(text: &str) -> Script {
    Script::parse(text, "script.toml").unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn errors(text: &str) -> Vec<String> {
    let errors = Script::parse(text, "s.toml").unwrap_err();
    let line = |error: &SourceError| {
        let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{}:{} {}{hint}", error.line, error.column, error.message)
    };
    errors.iter().map(line).collect()
}

fn dialect(served: Served) -> Box<dyn Dialect> {
    match served {
        Served::AnthropicMessages => Box::new(AnthropicMessages),
        Served::OpenAiChat => Box::new(OpenAiChat::openai()),
        Served::OpenAiResponses => Box::new(OpenAiResponses),
        Served::GoogleGenerate => Box::new(GoogleGenerate),
        Served::Mistral => Box::new(OpenAiChat::mistral()),
    }
}

const WHOLE: &str = r#"
[[reply]]
thinking = "I should look first, before I say anything."
text = "Let me look, piece by piece: grüße 🎈 and \"quotes\"\n"
tool_calls = [
  { tool = "shell", input = { command = "ls -la | grep 'x'", deep = { list = [1, 2.5, true, "ü"] } } },
  { tool = "read", id = "abcDEF123", input = { path = "a.rs" } },
  { tool = "now" },
]
usage = { input = 100, output = 20, cache_read = 30 }

[[reply]]
text = "They add up."

[[reply]]
text = "Cut at the limit"
usage = { input = 7, output = 3 }
stop = "max_tokens"

[[reply]]
text = "I will not."
stop = "refusal"

[[reply]]
tool_calls = [{ tool = "now" }]
"#;

/// The content without what only its provider reads.
fn plain(reply: &Reply) -> (Vec<Part>, StopReason, Usage, &str, &str) {
    let parts = reply.message.blocks.iter().map(|block| block.part.clone()).collect();
    (parts, reply.stop, reply.usage, &reply.id, &reply.model)
}

#[test]
fn every_reply_is_the_same_in_every_dialect_and_embedded() {
    let mut player = Player::new(script(WHOLE));
    for number in 1..=5 {
        let turn = player.next("go");
        let Outcome::Reply(reply) = &turn.outcome else { panic!("{turn:?}") };
        let (events, embedded) = turn.play();
        assert_eq!(embedded.as_ref(), Ok(reply));
        order::check(&events, Some(reply)).unwrap();
        for served in Served::ALL {
            let rendered = render(reply, served, Mode::Stream);
            let bytes = rendered.chunks.concat();
            for size in [usize::MAX, 1, 7] {
                let mut stream = Stream::new(&*dialect(served), Limits::default());
                let mut events = Vec::new();
                for chunk in bytes.chunks(size.min(bytes.len())) {
                    stream
                        .push(chunk, &mut events)
                        .unwrap_or_else(|error| panic!("{} {number}: {error}", served.name()));
                }
                let answer = stream
                    .close(&mut events)
                    .unwrap_or_else(|error| panic!("{} {number}: {error}", served.name()));
                order::check(&events, Some(&answer)).unwrap();
                let mut expected = reply.clone();
                if reply.usage == Usage::default() && served == Served::AnthropicMessages {
                    // Counters are no choice there.
                    expected.usage = Usage { input: Some(0), output: Some(0), ..Usage::default() };
                }
                let mut got = answer.clone();
                // Said as zero where it was not counted.
                for counter in [
                    &mut got.usage.cache_read,
                    &mut got.usage.thinking,
                    &mut got.usage.cache_write,
                    &mut got.usage.cache_write_long,
                ] {
                    *counter = counter.filter(|count| *count > 0);
                }
                assert_eq!(plain(&got), plain(&expected), "{} {number} {size}", served.name());
            }
        }
    }
}

#[test]
fn all_counters_survive_where_the_dialect_has_them() {
    let usage = Usage {
        nanodollars: None,
        input: Some(10),
        output: Some(9),
        thinking: Some(4),
        cache_read: Some(3),
        cache_write: Some(2),
        cache_write_long: Some(1),
    };
    let says = Says { text: Some("x".to_owned()), usage, ..Says::default() };
    for served in Served::ALL {
        let mut stream = Stream::new(&*dialect(served), Limits::default());
        let bytes = render(&says.reply(1), served, Mode::Stream).chunks.concat();
        stream.push(&bytes, &mut Vec::new()).unwrap();
        let got = stream.finish().unwrap().usage;
        assert_eq!(
            (got.context(), got.output, got.cache_read),
            (16, Some(9), Some(3)),
            "{served:?}"
        );
        match served {
            Served::AnthropicMessages => {
                assert_eq!((got.cache_write, got.cache_write_long), (Some(2), Some(1)));
            }
            _ => assert_eq!(got.thinking, Some(4), "{served:?}"),
        }
    }
}

#[test]
fn a_cut_answer_is_truncated_in_every_dialect() {
    let mut player = Player::new(script(
        "[[reply]]\ntext = \"never seen whole\"\ncut_after_bytes = 120\nrepeat = true",
    ));
    let turn = player.next("");
    assert_eq!(turn.play().1.unwrap_err().kind, ErrorKind::StreamTruncated);
    for served in Served::ALL {
        let delivery = deliver(&turn, served, "m", Mode::Stream);
        assert_eq!(delivery.ending, Ending::Cut);
        let bytes = delivery.rendered.chunks.concat();
        assert_eq!(bytes.len(), 120);
        let mut stream = Stream::new(&*dialect(served), Limits::default());
        let mut events = Vec::new();
        stream.push(&bytes, &mut events).unwrap();
        let cut = stream.close(&mut events).unwrap_err();
        assert_eq!(cut.kind, ErrorKind::StreamTruncated, "{served:?}");
        order::check(&events, None).unwrap();
    }
}

#[test]
fn failures_mean_the_same_in_every_dialect() {
    for (kind, status) in FAILURES {
        let text = format!("[[reply]]\nerror = {:?}\nretry_after = \"7s\"", kind.word());
        let turn = Player::new(script(&text)).next("");
        let embedded = turn.play().1.unwrap_err();
        assert_eq!((embedded.kind, embedded.status), (*kind, Some(*status)));
        for served in Served::ALL {
            let Rendered { status, headers, chunks } =
                deliver(&turn, served, "m", Mode::Stream).rendered;
            let error = dialect(served).failure(status, &headers, &chunks.concat());
            assert_eq!(error.kind, *kind, "{}: {error}", served.name());
            assert_eq!(error.retry, embedded.retry, "{}: {error}", served.name());
        }
    }
}

#[test]
fn a_status_is_sent_as_written() {
    let text = "[[reply]]\nstatus = 502\nbody = \"<html>bad gateway</html>\"\n\
                [[reply]]\nstatus = 429\nretry_after = 2\n[[reply]]\nstatus = 429\nretry_after = \"1500ms\"";
    let mut player = Player::new(script(text));
    let page = deliver(&player.next(""), Served::OpenAiChat, "m", Mode::Whole).rendered;
    assert_eq!((page.status, page.chunks.concat()), (502, b"<html>bad gateway</html>".to_vec()));
    assert_eq!(page.headers[0].1, "text/html");
    for wait in [2000, 1500] {
        let turn = player.next("");
        assert_eq!(turn.play().1.unwrap_err().retry, Retry::After(wait));
        for served in Served::ALL {
            let sent = deliver(&turn, served, "m", Mode::Whole).rendered;
            let error = dialect(served).failure(429, &sent.headers, &sent.chunks.concat());
            assert_eq!(error.kind, ErrorKind::RateLimited, "{served:?}");
            assert_eq!(error.retry, Retry::After(wait), "{served:?}");
        }
    }
}

#[test]
fn a_stall_is_after_the_first_piece_or_at_the_cut() {
    let text = "[[reply]]\ntext = \"late\"\nstall = \"10s\"\ndelay = \"5ms\"\n\
                [[reply]]\nstall = \"1m\"\n\
                [[reply]]\ntext = \"x\"\nstall = \"1s\"\ncut_after_bytes = 10";
    let mut player = Player::new(script(text));
    let sent = |turn: &Turn| deliver(turn, Served::OpenAiChat, "m", Mode::Stream);
    let late = sent(&player.next(""));
    assert_eq!((late.delay, late.stall), (Span(5), Some((1, Span(10_000)))));
    assert_eq!(late.ending, Ending::Whole);
    let turn = player.next("");
    assert_eq!(turn.stall(), Span(60_000));
    let silent = sent(&turn);
    assert_eq!((silent.stall, silent.ending), (Some((0, Span(60_000))), Ending::Cut));
    assert!(silent.rendered.chunks.is_empty());
    let cut = sent(&player.next(""));
    assert_eq!((cut.stall, cut.ending), (Some((1, Span(1000))), Ending::Cut));
}

#[test]
fn no_call_of_a_cut_reply_is_an_answer_embedded_either() {
    let text = "[[reply]]\ntool_calls = [{ tool = \"now\" }]\nstop = \"max_tokens\"\n\
                [[reply]]\ntext = \"\"";
    let mut player = Player::new(script(text));
    assert_eq!(player.next("").play().1.unwrap_err().kind, ErrorKind::ToolArgsTruncated);
    assert_eq!(player.next("").play().1.unwrap_err().kind, ErrorKind::EmptyCompletion);
}

fn said(turn: &Turn) -> String {
    match &turn.outcome {
        Outcome::Reply(reply) => match &reply.message.blocks[0].part {
            Part::Text { text } => text.clone(),
            other => format!("{other:?}"),
        },
        Outcome::Failure(failure) => format!("error: {}", failure.message()),
        other => format!("{other:?}"),
    }
}

#[test]
fn replies_are_used_in_order_where_they_match_and_as_often_as_they_say() {
    let text = "[[replies]]\nmatch = \"beta\"\ntext = \"B\"\n\
                [[replies]]\ntext = \"A\"\nrepeat = 2\n\
                [[replies]]\nmatch = \"ping\"\ntext = \"pong\"\nrepeat = true";
    let mut player = Player::new(script(text));
    let heard = ["x", "ping beta", "x", "ping", "ping", "x"];
    let turns: Vec<String> = heard.iter().map(|text| said(&player.next(text))).collect();
    let none = "error: no reply that is left in the script matches what was said";
    assert_eq!(turns, ["A", "B", "A", "pong", "pong", none]);
}

#[test]
fn a_script_ends_as_it_says() {
    let play = |end: &str| {
        let mut player = Player::new(script(&format!("[[reply]]\ntext = \"one\"\n{end}")));
        player.next("");
        said(&player.next(""))
    };
    assert_eq!(play(""), "error: the script is over: nothing comes after reply 1");
    assert_eq!(play("[end]\nthen = \"repeat\""), "one");
    assert_eq!(play("[end]\nmessage = \"no more\""), "error: no more");
    assert_eq!(play("[end]\nthen = \"error\"\nmessage = \"no more\""), "error: no more");
    let over = Player::new(script("reply = []")).next("").play().1.unwrap_err();
    assert_eq!((over.kind, over.retry), (ErrorKind::Client, Retry::Never));
}

#[test]
fn the_position_alone_carries_a_player_on() {
    let mut player = Player::new(script(WHOLE));
    player.next("");
    let stored = serde_json::to_string(player.position()).unwrap();
    assert_eq!(stored, r#"{"turns":1,"used":[1,0,0,0,0]}"#);
    let position: Position = serde_json::from_str(&stored).unwrap();
    let mut other = Player::resume(script(WHOLE), position);
    assert_eq!(other.next(""), player.next(""));
    assert_eq!(other, player);
}

#[test]
fn made_ids_differ_between_turns_and_suit_the_strictest_dialect() {
    let text = "[[reply]]\ntool_calls = [{ tool = \"a\" }, { tool = \"a\" }]\nrepeat = 2";
    let mut player = Player::new(script(text));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let Outcome::Reply(reply) = player.next("").outcome else { panic!() };
        for block in reply.message.blocks {
            let Part::ToolUse { id, .. } = block.part else { panic!() };
            assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
            assert!(!ids.contains(&id));
            ids.push(id);
        }
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, expected) in [
        ("", "1:1 the script has no replies (begin a reply with [[reply]])"),
        (
            "[[reply]]\ntxt = \"x\"\nstop = \"refusal\"",
            "2:1 unknown key \"txt\" in a reply (did you mean \"text\"?)",
        ),
        (
            "[[reply]]\nstatus_code = 3\ntext = \"\"",
            "2:1 unknown key \"status_code\" in a reply (did you mean \"status\"?)",
        ),
        (
            "[[repli]]\ntext = \"x\"",
            "1:3 unknown key \"repli\" in a script (did you mean \"reply\"?)",
        ),
        (
            "[[reply]]\ndelay = \"1s\"",
            "1:1 the reply says nothing and breaks nothing (give it one of text, thinking, tool_calls, stop, status, error, cut_after_bytes, stall, hang_up)",
        ),
        ("[[reply]]\ntext = 7", "2:8 expected text in quotes"),
        (
            "[[reply]]\ntext = \"x\"\nstop = \"end\"",
            "3:8 \"end\" must be one of end_turn, tool_use, max_tokens, stop_sequence, refusal, pause",
        ),
        (
            "[[reply]]\ntext = \"x\"\nstop = \"tool_use\"",
            "3:8 the reply stops for tool calls and has none",
        ),
        ("[[reply]]\ntool_calls = [{ tol = \"x\" }]", "2:15 the key \"tool\" is missing"),
        ("[[reply]]\ntool_calls = [{ tool = \"x\", input = 3 }]", "2:37 expected a table"),
        (
            "[[reply]]\ntool_calls = [{ tool = \"x\", input = { a = 1979-05-27 } }]",
            "2:43 a tool takes no dates: write it as text in quotes",
        ),
        (
            "[[reply]]\ntext = \"x\"\nusage = { input = -1 }",
            "3:19 expected a whole number, zero or more",
        ),
        ("[[reply]]\ntext = \"x\"\nrepeat = 0", "3:10 a reply that is never used: leave it out"),
        ("[[reply]]\ntext = \"x\"\nstall = 5", "3:9 expected a duration in quotes such as \"90s\""),
        ("[[reply]]\nstatus = 200", "2:10 200 is no status of an error: 300 to 599"),
        ("[[reply]]\nstatus = 429\ntext = \"x\"", "3:8 \"text\" has no place in an HTTP error"),
        (
            "[[reply]]\ntext = \"x\"\nretry_after = 3",
            "3:15 \"retry_after\" belongs to an HTTP error: give a status",
        ),
        (
            "[[reply]]\ntext = \"x\"\n[end]\nthen = \"repeat\"\nmessage = \"x\"",
            "5:11 a message is for then = \"error\"",
        ),
        ("replies = []\nreply = []", "1:11 both \"reply\" and \"replies\": use one name for all"),
        ("reply = 3", "1:9 expected a list"),
    ] {
        let found = errors(text);
        assert!(found.iter().any(|error| error == expected), "{text}\n{found:#?}");
    }
    assert!(errors("[[reply]]\ntext = ").iter().all(|error| error.starts_with("2:")));
    let shown = Script::parse("[[reply]]\ntxt = \"x\"\nstop = \"refusal\"", "s.toml").unwrap_err();
    assert_eq!(
        shown[0].to_string(),
        "error: unknown key \"txt\" in a reply\n --> s.toml:2:1\n  |\n2 | txt = \"x\"\n  | ^^^\n  = help: did you mean \"text\"?"
    );
}

#[test]
fn a_hostile_file_is_refused_in_bounds() {
    let deep = format!("[[reply]]\ntext = {}", "[".repeat(100_000));
    assert!(Script::parse(&deep, "s").is_err());
    let table = format!(
        "[[reply]]\ntool_calls = [{{ tool = \"x\", input = {{ {} = 1 }} }}]",
        vec!["a"; 60].join(".")
    );
    assert!(errors(&table)[0].contains("nest too deeply"), "{:?}", errors(&table));
    let many = "[[reply]]\nx = 1\n".repeat(1000);
    assert_eq!(errors(&many).len(), 20);
}

#[test]
fn paths_lead_to_dialects() {
    let to =
        |path: &str| route("POST", path).map(|route| (route.dialect, route.model, route.streaming));
    let plain = |served| Some((served, None, None));
    assert_eq!(to("/v1/messages?beta=true"), plain(Served::AnthropicMessages));
    assert_eq!(to("/v1/chat/completions"), plain(Served::OpenAiChat));
    assert_eq!(to("/chat/completions"), plain(Served::OpenAiChat));
    assert_eq!(to("/mistral/v1/chat/completions"), plain(Served::Mistral));
    assert_eq!(to("/openai/v1/responses"), plain(Served::OpenAiResponses));
    let google =
        |model: &str, stream| Some((Served::GoogleGenerate, Some(model.to_owned()), Some(stream)));
    assert_eq!(
        to("/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
        google("gemini-3-pro", true)
    );
    assert_eq!(to("/v1beta/models/a%3Ab:generateContent"), google("a:b", false));
    for nowhere in
        ["/", "/v1/messages/count_tokens", "/v1beta/models/x:countTokens", "/v1/models/x"]
    {
        assert_eq!(to(nowhere), None, "{nowhere}");
    }
    assert_eq!(route("GET", "/v1/messages"), None);
    for served in Served::ALL {
        assert_eq!(Served::of(served.name()), Some(served));
    }
}

#[test]
fn the_same_question_is_heard_in_every_dialect() {
    let block = |part| Block { part, native: None };
    let text = |text: &str| block(Part::Text { text: text.to_owned() });
    let (id, name) = ("abcDEF123".to_owned(), "shell".to_owned());
    let call = Part::ToolUse { id: id.clone(), name: name.clone(), input: json!({}) };
    let result = Part::ToolResult { id, name, text: "it works".to_owned(), is_error: false };
    let messages = vec![
        Message { role: Role::User, blocks: vec![text("old words")] },
        Message { role: Role::Assistant, blocks: vec![text("I call"), block(call)] },
        Message { role: Role::User, blocks: vec![block(result), text("go on")] },
    ];
    assert_eq!(heard(&messages), "it works\ngo on");
    let mut request = ModelRequest {
        model: "some-model".to_owned(),
        system: "standing orders".to_owned(),
        messages: machine::message::conversation(messages),
        moved: 0,
        tools: Default::default(),
        tool_choice: ToolChoice::Auto,
        max_tokens: Some(100),
        temperature: None,
        effort: None,
        output_schema: None,
        cache: false,
    };
    for round in 0..2 {
        for served in Served::ALL {
            let sent = dialect(served).encode(&request);
            let prefix = if served == Served::Mistral { "/mistral" } else { "" };
            let route = route("POST", &format!("{prefix}{}", sent.path)).unwrap();
            assert_eq!(route.dialect, served);
            let asked = read(&route, &sent.body).unwrap();
            assert_eq!((asked.model.as_str(), asked.mode), ("some-model", Mode::Stream));
            assert!(!asked.text.contains("standing orders"), "{served:?}: {asked:?}");
            // Mistral takes no user after a result: a word in the model's name stands between.
            let expected: &[&str] = match (round, served) {
                (0, Served::Mistral) => &["go on"],
                (0, _) => &["it works", "go on"],
                _ => &["old words"],
            };
            for words in expected {
                assert!(asked.text.contains(words), "{served:?}: {asked:?}");
            }
            assert_eq!(asked.text.contains("old words"), round == 1, "{served:?}: {asked:?}");
        }
        std::sync::Arc::make_mut(&mut request.messages).truncate(1);
    }
}

#[test]
fn requests_say_how_they_want_their_answer() {
    let ask =
        |path: &str, body: Value| read(&route("POST", path).unwrap(), body.to_string().as_bytes());
    let chat = |more: Value| {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask("/v1/chat/completions", body).unwrap().mode
    };
    assert_eq!(chat(json!({})), Mode::Whole);
    assert_eq!(chat(json!({"stream": true})), Mode::StreamWithoutUsage);
    let options = json!({"stream": true, "stream_options": {"include_usage": true}});
    assert_eq!(chat(options), Mode::Stream);
    let asked = ask("/v1/responses", json!({"model": "m", "input": "hi"})).unwrap();
    assert_eq!((asked.text.as_str(), asked.mode), ("hi", Mode::Whole));
    for wrong in [json!({"messages": []}), json!({"model": "m"}), json!([])] {
        assert!(ask("/v1/messages", wrong).is_err());
    }
    assert!(read(&route("POST", "/v1/messages").unwrap(), b"{").is_err());
}

#[test]
fn a_whole_answer_holds_what_the_stream_ends_with() {
    let Outcome::Reply(reply) = Player::new(script(WHOLE)).next("").outcome else { panic!() };
    let whole = |served| -> Value {
        let rendered = render(&reply, served, Mode::Whole);
        assert_eq!(rendered.headers[0].1, "application/json");
        serde_json::from_slice(&rendered.chunks.concat()).unwrap()
    };
    let text = "Let me look, piece by piece: grüße 🎈 and \"quotes\"\n";
    let anthropic = whole(Served::AnthropicMessages);
    assert_eq!(anthropic["content"][1]["text"], text);
    assert_eq!(anthropic["content"][3]["input"], json!({"path": "a.rs"}));
    assert_eq!(anthropic["stop_reason"], "tool_use");
    assert_eq!(anthropic["usage"]["cache_read_input_tokens"], 30);
    let chat = whole(Served::OpenAiChat);
    assert_eq!(chat["choices"][0]["message"]["content"], text);
    assert_eq!(
        chat["choices"][0]["message"]["tool_calls"][1]["function"]["arguments"],
        r#"{"path":"a.rs"}"#
    );
    assert_eq!(chat["usage"]["prompt_tokens"], 130);
    let mistral = whole(Served::Mistral);
    assert_eq!(mistral["choices"][0]["message"]["content"][1]["text"], text);
    let responses = whole(Served::OpenAiResponses);
    assert_eq!(responses["output"][1]["content"][0]["text"], text);
    assert_eq!(responses["output"][3]["call_id"], "abcDEF123");
    assert_eq!(responses["status"], "completed");
    let google = whole(Served::GoogleGenerate);
    assert_eq!(google["candidates"][0]["content"]["parts"][1]["text"], text);
    assert_eq!(google["usageMetadata"]["promptTokenCount"], 130);
    assert_eq!(google["candidates"][0]["finishReason"], "STOP");
}

#[test]
fn a_chat_stream_is_the_events_that_clients_know() {
    let text = "[[reply]]\ntext = \"Hi\"\ntool_calls = [{ tool = \"t\", input = { a = 1 } }]\nusage = { input = 1, output = 2 }";
    let turn = Player::new(script(text)).next("");
    let delivery = deliver(&turn, Served::OpenAiChat, "gpt", Mode::Stream);
    let frames: Vec<String> = delivery
        .rendered
        .chunks
        .into_iter()
        .map(|chunk| String::from_utf8(chunk).unwrap())
        .collect();
    let chunk = |rest: Value| {
        let mut chunk = json!({"id": "script-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "gpt"});
        chunk.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let call = |fields: Value| delta(json!({"tool_calls": [fields]}), Value::Null);
    assert_eq!(
        frames,
        [
            delta(json!({"role": "assistant", "content": ""}), Value::Null),
            delta(json!({"content": "Hi"}), Value::Null),
            call(
                json!({"index": 0, "id": "c00001000", "type": "function", "function": {"name": "t", "arguments": ""}})
            ),
            call(json!({"index": 0, "function": {"arguments": "{\"a\":1}"}})),
            delta(json!({}), json!("tool_calls")),
            chunk(
                json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}})
            ),
            "data: [DONE]\n\n".to_owned(),
        ]
    );
    let silent = deliver(&turn, Served::OpenAiChat, "gpt", Mode::StreamWithoutUsage);
    assert_eq!(silent.rendered.chunks.len(), 6);
}

#[test]
fn a_reply_can_drip_and_a_connection_can_end_before_it() {
    let mut player = Player::new(script(
        "[[reply]]\ntext = \"slow\"\ndrip = \"50ms\"\n[[reply]]\nhang_up = true\n",
    ));
    let drip = deliver(&player.next(""), Served::OpenAiChat, "m", Mode::Stream);
    assert_eq!((drip.drip, drip.ending), (Span(50), Ending::Whole));
    let gone = player.next("");
    assert_eq!(deliver(&gone, Served::OpenAiChat, "m", Mode::Stream).ending, Ending::HangUp);
    assert_eq!(gone.play().1.unwrap_err().kind, ErrorKind::Transport);
    let wrong = errors(
        "[[reply]]\nhang_up = false\n[[reply]]\ntext = \"x\"\ndrip = \"1s\"\nstall = \"1s\"\n",
    );
    assert_eq!(wrong.len(), 2, "{wrong:?}");
}

#[test]
fn a_question_beside_the_conversation_takes_no_turn() {
    let text = "[[reply]]\ntext = \"first\"\n[aside]\ntext = \"ok\"\nusage = { input = 1 }\n";
    let mut player = Player::new(script(text));
    let aside = player.aside().unwrap();
    assert_eq!(aside.play().1.unwrap().message.text(), "ok");
    assert_eq!(player.position().turns, 0);
    assert_eq!(player.next("").play().1.unwrap().message.text(), "first");
    assert_eq!(Player::new(script("[[reply]]\ntext = \"x\"\n")).aside(), None);
    let wrong =
        errors("[[reply]]\ntext = \"x\"\n[aside]\nusage = { input = 1 }\nstop = \"end_turn\"\n");
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    let route = route("POST", "/v1/messages").unwrap();
    let asks = |body: &str| read(&route, body.as_bytes()).unwrap().offers_tools;
    let start = r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]"#;
    assert!(!asks(&format!("{start}}}")));
    assert!(!asks(&format!("{start},\"tools\":[]}}")));
    assert!(asks(&format!(
        "{start},\"tools\":[{{\"name\":\"t\",\"input_schema\":{{\"type\":\"object\"}}}}]}}"
    )));
}

#[test]
fn tools_that_are_offered_within_the_conversation_are_offered() {
    let route = route("POST", "/v1/responses").unwrap();
    let asks = |item: &str| {
        let said = r#"{"type":"message","role":"user","content":"hi"}"#;
        let body = format!(r#"{{"model":"m","input":[{item}{said}]}}"#);
        read(&route, body.as_bytes()).unwrap().offers_tools
    };
    let item = |tools: &str| {
        format!(r#"{{"type":"additional_tools","role":"developer","tools":[{tools}]}},"#)
    };
    assert!(!asks("") && !asks(&item("")));
    assert!(asks(&item(r#"{"type":"function","name":"wait"}"#)));
}
