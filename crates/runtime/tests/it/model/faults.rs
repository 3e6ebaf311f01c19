//! What goes wrong on the way, and what the task is told about it.

use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use machine::message::Retry;
use runtime::http::Limits;
use runtime::model::Models;
use runtime::process::Cancel;
use runtime::providers::Environment;
use serde_json::Value;

use super::server::{HEAD, Server, chunk, hold, plain, whole};
use super::{ANTHROPIC, CHAT, KEY, Rig, WAYS, call, empty, short};

#[test]
fn a_cut_answer_is_truncated_and_asked_for_again() {
    for (model, text) in [("anthropic/claude", ANTHROPIC), ("here/small", CHAT)] {
        for cut in [text.len() / 4, text.len() / 2] {
            // Inside a chunk, after a chunk, and with an end that claims to be one.
            let half = &text.as_bytes()[..cut];
            let mut inside = [HEAD.as_bytes(), &chunk(text)].concat();
            inside.truncate(HEAD.len() + cut);
            let after = [HEAD.as_bytes(), &chunk(half)].concat();
            let ended = [&after[..], b"0\r\n\r\n"].concat();
            for (bytes, way) in
                [inside, after, ended].iter().flat_map(|it| WAYS.map(|way| (it, way)))
            {
                let server = Server::saying(bytes.as_slice());
                let failure = way(&server).fails(model);
                assert_eq!(failure.kind, "stream_truncated", "{failure:?}");
                assert_eq!(failure.retry, Retry::Backoff);
            }
        }
    }
}

#[test]
fn what_a_cut_answer_cost_is_counted() {
    let server = Server::saying([HEAD.as_bytes(), &chunk(&ANTHROPIC[..500])].concat());
    assert_eq!(Rig::new(&server).fails("anthropic/claude").usage.input, Some(10));
}

#[test]
fn what_a_cut_answer_cost_is_measured_where_nobody_told_it_and_its_price_is_known() {
    let said = "x".repeat(400);
    let piece =
        format!(r#"data: {{"id":"c1","choices":[{{"index":0,"delta":{{"content":"{said}"}}}}]}}"#);
    let server = Server::saying([HEAD.as_bytes(), &chunk(format!("{piece}\n\n"))].concat());
    let priced = "[model.\"here/small\"]\nprice = { input = 3, output = 15 }\n";
    let failure = Rig::written(&server, Limits::default(), priced).fails("here/small");
    let sent = server.requests()[0].body.len() as u64;
    let usage = failure.usage;
    assert_eq!((usage.input, usage.output), (Some(sent.div_ceil(4)), Some(100)));
    assert_eq!(usage.nanodollars, Some(sent.div_ceil(4) * 3_000 + 1_500_000));
    // Nothing is guessed without a price: a limit of money would count as reached.
    assert_eq!(Rig::new(&server).fails("here/small").usage.total(), 0);
}

#[test]
fn pings_do_not_keep_a_stalled_answer_alive() {
    let server = Server::new(|_, stream| {
        let begin = ANTHROPIC.find("event: content_block_stop").unwrap();
        let mut sent = stream.write_all(&[HEAD.as_bytes(), &chunk(&ANTHROPIC[..begin])].concat());
        while sent.is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            sent = stream.write_all(&chunk("event: ping\ndata: {\"type\":\"ping\"}\n\n: x\n\n"));
        }
        false
    });
    let failure = Rig::with(&server, short(10_000, 200, 20_000)).fails("anthropic/claude");
    assert_eq!((failure.kind.as_str(), failure.retry), ("idle_timeout", Retry::Backoff));
    assert_eq!(failure.usage.input, Some(10));
}

/// Plays a stream of the corpus that bytes alone cannot show, much faster than it says, and says how it ended.
fn play(case: &Value) -> String {
    let text = case["in"].as_str().unwrap().to_owned();
    let then = case["then"].as_str().unwrap().to_owned();
    let server = Server::new(move |_, stream| {
        let mut sent = stream.write_all(HEAD.as_bytes());
        if then == "one-byte-per-10s" {
            for byte in text.as_bytes().iter().cycle() {
                std::thread::sleep(Duration::from_millis(20));
                sent = sent.and_then(|()| stream.write_all(&chunk([*byte])));
                if sent.is_err() {
                    return false;
                }
            }
        }
        sent = sent.and_then(|()| stream.write_all(&chunk(&text)));
        let filler = match then.as_str() {
            "comments-forever" => ": x\n\n",
            "pings-forever" => "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            "hang" => {
                hold(stream);
                return false;
            }
            other => panic!("nothing plays {other}"),
        };
        while sent.is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            sent = stream.write_all(&chunk(filler));
        }
        false
    });
    // The silence may be fifty times as long as the pace of one byte in 20 ms, and the whole answer takes longer than the call may.
    let failure = Rig::with(&server, short(1_000, 1_000, 4_000)).fails("anthropic/claude");
    format!("error:{}", failure.kind)
}

#[test]
fn streams_of_the_corpus_that_need_a_clock_end_as_stated() {
    let corpus = include_str!("../../../../wire/tests/fixtures/sse.jsonl");
    let cases = corpus.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let timed: Vec<Value> = cases.filter(|case| case["then"].is_string()).collect();
    let timed: Vec<&Value> = timed
        .iter()
        .filter(|case| {
            let then = case["then"].as_str().unwrap();
            ["hang", "comments-forever", "pings-forever", "one-byte-per-10s"].contains(&then)
        })
        .collect();
    assert!(timed.len() >= 3, "{timed:?}");
    for case in timed {
        assert_eq!(case["provider"], "anthropic");
        assert_eq!(play(case), case["expect"].as_str().unwrap(), "{}", case["id"]);
    }
}

/// An answer whose call is begun and then held back, with a sign of life now and then.
fn holding_back(pings: usize) -> Server {
    Server::new(move |_, stream| {
        let begin = ANTHROPIC.find("event: content_block_start").unwrap();
        let call = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}}"#;
        let opened = format!("{}data: {call}\n\n", &ANTHROPIC[..begin]);
        let mut sent = stream.write_all(&[HEAD.as_bytes(), &chunk(&opened)].concat());
        for _ in 0..pings {
            std::thread::sleep(Duration::from_millis(50));
            sent = sent.and(stream.write_all(&chunk("data: {\"type\":\"ping\"}\n\n")));
        }
        let json = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#;
        let rest = &ANTHROPIC[ANTHROPIC.find("event: content_block_stop").unwrap()..];
        sent.is_ok() && stream.write_all(&chunk(format!("data: {json}\n\n{rest}"))).is_ok()
    })
}

#[test]
fn a_call_that_is_held_back_until_it_is_whole_is_waited_for_while_its_server_lives() {
    let limits = short(400, 400, 60_000);
    let reply = Rig::with(&holding_back(20), limits).ask("anthropic/claude").unwrap();
    assert_eq!(reply.message.blocks.len(), 1);
    // But not for ever.
    let limits = Limits { busy: Duration::from_millis(600), ..limits };
    let failure = Rig::with(&holding_back(1000), limits).fails("anthropic/claude");
    assert_eq!((failure.kind.as_str(), failure.retry), ("idle_timeout", Retry::Backoff));
}

#[test]
fn a_model_that_reasons_unseen_is_waited_for_while_its_server_lives() {
    let server = |pings: usize| {
        Server::new(move |_, stream| {
            let begin = [
                r#"{"type":"response.created","response":{"id":"r1","model":"m"}}"#,
                r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1"}}"#,
            ];
            let rest = [
                r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1"}}"#,
                r#"{"type":"response.output_text.delta","output_index":1,"delta":"Hello."}"#,
                r#"{"type":"response.completed","response":{"id":"r1","status":"completed"}}"#,
            ];
            let frames = |frames: &[&str]| {
                frames.iter().map(|f| format!("data: {f}\n\n")).collect::<String>()
            };
            let mut sent = stream.write_all(&[HEAD.as_bytes(), &chunk(frames(&begin))].concat());
            for _ in 0..pings {
                std::thread::sleep(Duration::from_millis(50));
                let alive = r#"{"type":"keepalive","sequence_number":3}"#;
                sent = sent.and(stream.write_all(&chunk(frames(&[alive]))));
            }
            sent.is_ok() && stream.write_all(&chunk(frames(&rest))).is_ok()
        })
    };
    let asked = |server: &Server, limits| {
        let there = format!(
            "[provider.there]\ndialect = \"openai_responses\"\nbase_url = \"{}/v1\"\n",
            server.url()
        );
        Rig::written(server, limits, &there).ask("there/thinker")
    };
    let limits = short(400, 400, 60_000);
    assert_eq!(asked(&server(20), limits).unwrap().message.text(), "Hello.");
    // But not for ever.
    let limits = Limits { busy: Duration::from_millis(600), ..limits };
    assert_eq!(asked(&server(1000), limits).unwrap_err().kind, "idle_timeout");
}

#[test]
fn silence_after_the_first_words_is_not_measured_by_the_patience_before_them() {
    let server = Server::new(|_, stream| {
        let begin = ANTHROPIC.find("event: content_block_stop").unwrap();
        let _ = stream.write_all(&[HEAD.as_bytes(), &chunk(&ANTHROPIC[..begin])].concat());
        hold(stream);
        false
    });
    let begun = Instant::now();
    let failure = Rig::with(&server, short(30_000, 200, 60_000)).fails("anthropic/claude");
    assert_eq!(failure.kind, "idle_timeout");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Reads for a while, says a word, and thinks for a while before the rest.
fn slow() -> Server {
    Server::new(|_, stream| {
        let begin = CHAT.find(": a comment").unwrap();
        let word = CHAT[..begin].replace(r#""content":"""#, r#""content":"So""#);
        std::thread::sleep(Duration::from_millis(300));
        let begun = stream.write_all(&[HEAD.as_bytes(), &chunk(word)].concat());
        std::thread::sleep(Duration::from_millis(300));
        begun.is_ok() && stream.write_all(&chunk(&CHAT[begin..])).is_ok()
    })
}

#[test]
fn a_slow_server_has_the_time_that_its_provider_is_given() {
    let limits = short(100, 100, 200);
    let given = "first_piece = \"10m\"\nnext_piece = \"5m\"\nwhole_answer = \"2h\"\n";
    Rig::written(&slow(), limits, given).ask("here/small").unwrap();
    // Each of them alone is not enough.
    for (given, kind, hint) in [
        ("", "idle_timeout", "first_piece and next_piece"),
        ("next_piece = \"5m\"\nwhole_answer = \"2h\"\n", "idle_timeout", "first_piece"),
        ("first_piece = \"5m\"\nwhole_answer = \"2h\"\n", "idle_timeout", "next_piece"),
        ("whole_answer = \"10s\"\nfirst_piece = \"9s\"\nnext_piece = \"9s\"\n", "", ""),
    ] {
        match Rig::written(&slow(), limits, given).ask("here/small") {
            Ok(_) => assert_eq!(kind, "", "{given}"),
            Err(failure) => {
                assert_eq!(failure.kind, kind, "{given}");
                assert!(failure.message.contains(hint), "{failure:?}");
            }
        }
    }
    // And no more than it is given.
    let never = Server::new(|_, stream| {
        hold(stream);
        false
    });
    let failure =
        Rig::written(&never, Limits::default(), "first_piece = \"1s\"\n").fails("here/small");
    assert_eq!(failure.kind, "idle_timeout");
    let given = "first_piece = \"1s\"\nnext_piece = \"1s\"\nwhole_answer = \"1s\"\n";
    let failure = Rig::written(&never, Limits::default(), given).fails("here/small");
    assert_eq!(failure.kind, "total_timeout");
    assert!(failure.message.contains("whole_answer of its provider"), "{failure:?}");
}

#[test]
fn a_file_of_models_that_breaks_while_a_task_runs_does_not_end_it() {
    let server = Server::repeating(whole(CHAT));
    let rig = Rig::new(&server);
    rig.ask("here/small").unwrap();
    std::fs::write(rig.folder.path().join("models.toml"), "[provider.here\n").unwrap();
    // What it said is believed for a second without a look.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1200) {
        rig.ask("here/small").unwrap();
    }
    let fresh = Rig::new(&server);
    std::fs::write(fresh.folder.path().join("models.toml"), "[provider.here\n").unwrap();
    assert_eq!(fresh.fails("here/small").kind, "config");
}

#[test]
fn an_answer_has_the_limit_of_tokens_of_its_model_else_of_its_provider() {
    for (more, expected) in [
        ("", None),
        ("max_output = 4096\n", Some(4096)),
        ("max_output = 4096\n[model.\"here/small\"]\nmax_output = 100\n", Some(100)),
        ("[model.\"here/small\"]\nmax_output = 100\n", Some(100)),
        ("decisions = \"constrained\"\nmax_output = 77\n", Some(77)),
    ] {
        let server = Server::saying(whole(CHAT));
        let _ = Rig::written(&server, Limits::default(), more).ask("here/small");
        let body: serde_json::Value = serde_json::from_str(&server.requests()[0].body).unwrap();
        assert_eq!(body.get("max_tokens").and_then(|most| most.as_u64()), expected, "{more}");
    }
}

#[test]
fn a_server_that_does_not_stream_is_told_of_as_one() {
    let whole = r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
    let server = Server::saying(plain("200 OK", "", whole));
    let failure = Rig::new(&server).fails("here/small");
    assert_eq!((failure.kind.as_str(), failure.retry), ("malformed", Retry::Never));
    assert!(failure.message.contains("must be one that streams"), "{}", failure.message);
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let server = Server::new(|_, stream| {
        hold(stream);
        false
    });
    let failure = Rig::with(&server, short(100, 60_000, 60_000)).fails("anthropic/claude");
    assert_eq!((failure.kind.as_str(), failure.retry), ("idle_timeout", Retry::Backoff));
}

#[test]
fn an_endless_answer_ends_at_the_total_limit() {
    let server = Server::new(|_, stream| {
        let begin = ANTHROPIC.find("event: content_block_stop").unwrap();
        let delta = &ANTHROPIC[ANTHROPIC.find("event: content_block_delta").unwrap()..begin];
        let mut sent = stream.write_all(&[HEAD.as_bytes(), &chunk(&ANTHROPIC[..begin])].concat());
        while sent.is_ok() {
            std::thread::sleep(Duration::from_millis(10));
            sent = stream.write_all(&chunk(delta));
        }
        false
    });
    let failure = Rig::with(&server, short(5000, 5000, 300)).fails("anthropic/claude");
    assert_eq!((failure.kind.as_str(), failure.retry), ("total_timeout", Retry::Backoff));
}

#[test]
fn a_rate_limit_waits_as_long_as_it_says() {
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let server = Server::saying(plain("429 Too Many Requests", "retry-after: 3\r\n", body));
    let failure = Rig::new(&server).fails("anthropic/claude");
    assert_eq!((failure.kind.as_str(), failure.retry), ("rate_limited", Retry::After(3000)));
}

#[test]
fn an_error_page_of_any_size_is_a_server_error() {
    let page = format!("<html><body>{}</body></html>", "oops ".repeat(1 << 20));
    let server = Server::saying(plain("500 Internal Server Error", "", &page));
    let failure = Rig::new(&server).fails("here/small");
    assert_eq!((failure.kind.as_str(), failure.retry), ("server", Retry::Backoff));
    assert!(failure.message.len() < 1000, "{}", failure.message.len());
}

#[test]
fn a_page_with_status_200_is_no_answer() {
    let server = Server::saying(plain("200 OK", "", "<html>Please log in</html>"));
    let failure = Rig::new(&server).fails("here/small");
    assert_eq!((failure.kind.as_str(), failure.retry), ("malformed", Retry::Never));
    assert!(failure.message.contains("a web page"), "{}", failure.message);
}

#[test]
fn an_error_with_status_200_is_told_in_its_own_words() {
    let body = r#"{"error":{"message":"insufficient balance, please recharge","code":"insufficient_quota"}}"#;
    let server = Server::saying(plain("200 OK", "", body));
    let failure = Rig::new(&server).fails("here/small");
    assert_eq!((failure.kind.as_str(), failure.retry), ("quota", Retry::Never));
    assert!(failure.message.contains("please recharge"), "{}", failure.message);
}

#[test]
fn an_error_with_status_200_that_comes_in_pieces_is_heard_to_its_end() {
    let pieces = [
        r#"{"error":{"message":"Rate limit reached. "#,
        r#"Please try again in 7s","type":"rate_limit_error","#,
        r#""code":"rate_limit_exceeded"}}"#,
    ];
    for (pieces, kind) in [(&pieces[..], "rate_limited"), (&pieces[..2], "malformed")] {
        let said: Vec<Vec<u8>> = pieces.iter().map(|piece| chunk(*piece)).collect();
        let server = Server::new(move |_, stream| {
            let mut sent = stream.write_all(HEAD.as_bytes());
            for piece in &said {
                std::thread::sleep(Duration::from_millis(30));
                sent = sent.and_then(|()| stream.write_all(piece));
            }
            false
        });
        let failure = Rig::new(&server).fails("here/small");
        assert_eq!(failure.kind, kind, "{failure:?}");
        assert!(failure.message.contains("try again in 7s"), "{}", failure.message);
        let wait = if kind == "malformed" { Retry::Never } else { Retry::After(7000) };
        assert_eq!(failure.retry, wait);
    }
}

#[test]
fn a_path_that_is_not_there_is_told_with_its_address() {
    for (status, body) in [
        ("404 Not Found", ""),
        ("404 Not Found", r#"{"detail":"Not Found"}"#),
        ("404 Not Found", "<html></html>"),
        ("405 Method Not Allowed", ""),
    ] {
        let server = Server::saying(plain(status, "", body));
        let failure = Rig::new(&server).fails("here/small");
        let address = format!("; asked at {}/v1/chat/completions, which is base_url", server.url());
        assert!(failure.message.contains(&address), "{}", failure.message);
    }
    let server = Server::saying(plain("400 Bad Request", "", ""));
    let failure = Rig::new(&server).fails("here/small");
    assert!(!failure.message.contains("asked at"), "{}", failure.message);
}

#[test]
fn a_server_in_the_clear_behind_an_encrypted_address_is_told_as_that() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let answered = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let models = Models::new(Environment::fixed(&variables, None), short(5000, 5000, 5000));
    let failure = models
        .call("t", &call("anthropic/claude"), empty(), &Cancel::new(), &mut |_| {})
        .unwrap_err();
    answered.join().unwrap();
    assert_eq!(failure.kind, "transport");
    assert!(failure.message.contains("what it says is not encrypted"), "{}", failure.message);
}

#[test]
fn a_server_that_speaks_something_else_is_told_as_that_and_not_waited_for() {
    for (said, told) in [
        (&b"SSH-2.0-OpenSSH_9.6\r\n"[..], "its answer is no HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "it may be a server for https://"),
        (b"HTTP/", "the connection was closed before an answer"),
        (b"", "the connection was closed before an answer"),
    ] {
        let failure = Rig::new(&Server::saying(said)).fails("here/small");
        assert_eq!((failure.kind.as_str(), failure.retry), ("transport", Retry::Backoff));
        assert!(failure.message.ends_with(told), "{}", failure.message);
    }
}

#[test]
fn a_redirect_is_not_followed_and_the_key_goes_nowhere_else() {
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let elsewhere = Server::saying(whole(ANTHROPIC));
        let location = format!("location: {}/v1/messages\r\n", elsewhere.url());
        let server = Server::saying(plain(status, &location, ""));
        let failure = Rig::new(&server).fails("anthropic/claude");
        assert_eq!((failure.kind.as_str(), failure.retry), ("redirect", Retry::Never));
        assert_eq!((server.connections(), elsewhere.connections()), (1, 0));
    }
}

#[test]
fn a_cancelled_call_ends_at_once_and_hangs_up() {
    for begun in [false, true] {
        // The fastest counts: a busy machine is no slow program.
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            fastest = fastest.min(cancelled_call(begun));
            if fastest < Duration::from_millis(200) {
                break;
            }
        }
        assert!(fastest < Duration::from_millis(200), "{fastest:?}");
    }
}

/// How long a call takes to end that is cancelled before anything of its answer came, or after.
fn cancelled_call(begun: bool) -> Duration {
    let (said, asked) = mpsc::channel();
    let (left, gone) = mpsc::channel();
    let server = Server::new(move |_, stream| {
        if begun {
            stream.write_all(&[HEAD.as_bytes(), &chunk(&ANTHROPIC[..500])].concat()).unwrap();
        }
        said.send(()).unwrap();
        hold(stream);
        left.send(()).unwrap();
        false
    });
    let rig = Rig::new(&server);
    let cancel = Cancel::new();
    let (failure, took) = std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            let ended = rig.ask_until("anthropic/claude", &cancel);
            (ended, Instant::now())
        });
        asked.recv().unwrap();
        let triggered = Instant::now();
        cancel.trigger();
        let (ended, at) = call.join().unwrap();
        (ended.unwrap_err(), at - triggered)
    });
    assert_eq!((failure.kind.as_str(), failure.retry), ("cancelled", Retry::Never));
    gone.recv_timeout(Duration::from_secs(30)).unwrap();
    took
}

#[test]
fn a_call_that_was_cancelled_before_it_began_reaches_nobody() {
    let server = Server::saying(whole(ANTHROPIC));
    let cancel = Cancel::new();
    cancel.trigger();
    let failure = Rig::new(&server).ask_until("anthropic/claude", &cancel).unwrap_err();
    assert_eq!(failure.kind, "cancelled");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_server_that_is_not_there_is_a_transport_error() {
    let server = Server::saying("");
    let rig = Rig::new(&server);
    drop(server);
    // The listener may take a moment to go; what is asked by then is not answered either.
    let failure = rig.fails("anthropic/claude");
    assert_eq!((failure.kind.as_str(), failure.retry), ("transport", Retry::Backoff));
    assert!(failure.message.starts_with("cannot reach http://127.0.0.1:"), "{}", failure.message);
}

#[test]
fn an_encrypted_address_is_never_spoken_to_in_the_clear() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let heard = std::thread::spawn(move || {
        let mut bytes = vec![0; 4096];
        let count = listener.accept().unwrap().0.read(&mut bytes).unwrap();
        bytes.truncate(count);
        bytes
    });
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let models = Models::new(Environment::fixed(&variables, None), short(5000, 5000, 5000));
    let failure = models
        .call("t", &call("anthropic/claude"), empty(), &Cancel::new(), &mut |_| {})
        .unwrap_err();
    assert_eq!((failure.kind.as_str(), failure.retry), ("transport", Retry::Backoff));
    // A handshake's first byte.
    let heard = heard.join().unwrap();
    assert_eq!(heard[0], 0x16);
    assert!(!heard.windows(KEY.len()).any(|part| part == KEY.as_bytes()));
}
