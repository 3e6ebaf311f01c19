//! The gateway between an agent and its models: what passes it, what does not, and what is told of it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use machine::agent::AgentNews;
use machine::message::Usage;
use machine::policy::price::Price;
use runtime::fake::{self, Fake};
use runtime::gateway::{Gateway, Limits, Listen, Options, Upstream};
use runtime::model::{Recorder, Recording, Traffic};
use runtime::providers::Secret;
use wire::gateway::Api;
use wire::model::script::Script;

use crate::read_once;

/// Longer than anything here takes on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(60);

const KEY: &str = "sk-real-key-of-the-provider";

/// A gateway, and a loop that answers each request alike.
struct Rig {
    gateway: Arc<Gateway>,
    told: Receiver<AgentNews>,
    news: Mutex<Sender<AgentNews>>,
    may: Result<(), String>,
}

impl Rig {
    fn new(address: &str, may: Result<(), String>) -> Rig {
        Rig::with(address, may, Limits::default(), Traffic::Live)
    }

    fn with(address: &str, may: Result<(), String>, limits: Limits, traffic: Traffic) -> Rig {
        let upstreams = Api::ALL
            .map(|api| {
                let version = if api == Api::OpenAi { "/v1" } else { "" };
                Upstream { api, address: format!("{address}{version}"), key: Secret::new(KEY) }
            })
            .to_vec();
        let price = |model: &str| {
            let price: Price = serde_json::from_str(r#"{"input":1.0,"output":2.0}"#).unwrap();
            (model == "anthropic/priced").then_some(price)
        };
        let task = "t1".to_owned();
        let options = Options { upstreams, task, traffic, price: Box::new(price), limits };
        let gateway = Arc::new(Gateway::start(Listen::Loopback, options).unwrap());
        let (news, told) = channel();
        Rig { gateway, told, news: Mutex::new(news), may }
    }

    /// Begins a turn.
    fn open(&self) -> &Rig {
        let (news, may) = (self.news.lock().unwrap().clone(), self.may.clone());
        let gateway = Arc::downgrade(&self.gateway);
        self.gateway.open(Arc::new(move |said| {
            if let AgentNews::WouldAsk { request, .. } = said {
                let (gateway, may) = (gateway.clone(), may.clone());
                // As the loop does it: later, and from elsewhere.
                std::thread::spawn(move || gateway.upgrade().unwrap().answer(request, may));
            }
            news.send(said).unwrap();
        }));
        self
    }

    fn base(&self) -> (u16, String) {
        let rest = self.gateway.address().strip_prefix("http://127.0.0.1:").unwrap();
        let (port, token) = rest.split_once('/').unwrap();
        (port.parse().unwrap(), format!("/{token}"))
    }

    fn ask(&self, path: &str, body: &str) -> Answer {
        let (port, token) = self.base();
        ask(port, &format!("{token}{path}"), body)
    }

    /// What the next answer counted for.
    fn passed(&self) -> Usage {
        loop {
            if let AgentNews::Passed { usage, .. } = self.told.recv_timeout(PATIENCE).unwrap() {
                return usage;
            }
        }
    }
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
    /// It came to the end that its framing says.
    whole: bool,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn question(port: u16, path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nX-Api-Key: worth-nothing\r\n\
         Authorization: Bearer worth-nothing\r\nX-Custom: kept\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn ask(port: u16, path: &str, body: &str) -> Answer {
    let mut stream = connect(port);
    stream.write_all(question(port, path, body).as_bytes()).unwrap();
    read_answer(&mut stream)
}

fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    let end = all.windows(4).position(|at| at == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
    let status = head[9..12].parse().unwrap();
    let mut rest = &all[end..];
    if !head.contains("transfer-encoding: chunked") {
        return Answer { status, head, body: rest.to_vec(), whole: true };
    }
    let mut body = Vec::new();
    loop {
        let Some(at) = rest.windows(2).position(|at| at == b"\r\n") else {
            return Answer { status, head, body, whole: false };
        };
        let size = std::str::from_utf8(&rest[..at]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return Answer { status, head, body, whole: true };
        }
        let piece = &rest[at + 2..];
        body.extend_from_slice(&piece[..size.min(piece.len())]);
        if piece.len() < size + 2 {
            return Answer { status, head, body, whole: false };
        }
        rest = &piece[size + 2..];
    }
}

fn scripted(script: &str) -> Arc<Fake> {
    let script = Script::parse(script, "script.toml").unwrap();
    let server = Arc::new(Fake::bind(script, 0, fake::Limits::default()).unwrap());
    let serving = Arc::clone(&server);
    std::thread::spawn(move || serving.serve());
    server
}

/// A server that takes one request and is given the connection then.
fn raw(answer: impl FnOnce(String, TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
        while !heard.ends_with(b"}") {
            let count = stream.read(&mut piece).unwrap();
            heard.extend_from_slice(&piece[..count]);
        }
        answer(String::from_utf8(heard).unwrap(), stream);
    });
    address
}

const REPLY: &str = r#"
[[reply]]
text = "Let me look at it, piece by piece."
usage = { input = 100, output = 20, cache_read = 7 }
repeat = true
"#;

const DIALECTS: [(&str, &str); 5] = [
    (
        "/v1/messages?beta=true",
        r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
    ),
    ("/v1/messages", r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#),
    ("/v1/responses", r#"{"model":"m","stream":true,"input":"hi"}"#),
    (
        "/v1/chat/completions",
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}"#,
    ),
    (
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
    ),
];

#[test]
fn answers_pass_byte_for_byte_in_every_dialect_and_are_counted() {
    for (path, body) in DIALECTS {
        // The same script from its beginning, asked directly and through the gateway.
        let direct = ask(scripted(REPLY).port(), path, body);
        let server = scripted(REPLY);
        let rig = Rig::new(&server.url(), Ok(()));
        let through = rig.open().ask(path, body);
        assert_eq!((through.status, through.whole), (200, true), "{path}: {}", through.text());
        assert_eq!(through.text(), direct.text(), "{path}");
        let usage = rig.passed();
        let counts = (usage.input, usage.cache_read, usage.output, usage.nanodollars);
        assert_eq!(counts, (Some(100), Some(7), Some(20), None), "{path}");
        let asked = server.requests();
        assert_eq!(
            asked["requests"][0]["body"],
            serde_json::from_str::<serde_json::Value>(body).unwrap()
        );
    }
}

#[test]
fn what_the_loop_refuses_is_never_sent_and_refused_in_the_agents_own_words() {
    let server = scripted(REPLY);
    let rig = Rig::new(&server.url(), Err("the budget of this task is spent".to_owned()));
    rig.open();
    for (path, body) in DIALECTS {
        let refused = rig.ask(path, body);
        assert_eq!(refused.status, 400, "{path}");
        let told: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
        let message = told["error"]["message"].as_str().unwrap();
        assert_eq!(message, "drivetrain: the budget of this task is spent", "{path}");
        assert!(refused.head.contains("x-should-retry: false"), "{}", refused.head);
    }
    assert_eq!(server.requests()["requests"], serde_json::json!([]));
}

#[test]
fn an_answer_that_is_fetched_later_is_refused_before_anything_is_sent() {
    let server = scripted(REPLY);
    let rig = Rig::new(&server.url(), Ok(()));
    let body = r#"{"model":"m","input":"hi","background":true,"store":true}"#;
    let refused = rig.open().ask("/v1/responses", body);
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("background"), "{}", refused.text());
    assert_eq!(server.requests()["requests"], serde_json::json!([]));
}

#[test]
fn a_question_that_does_not_name_one_model_is_refused_before_anything_is_sent() {
    let server = scripted(REPLY);
    let rig = Rig::new(&server.url(), Ok(()));
    let gateway = rig.open();
    for body in [r#"{"messages":[]}"#, r#"{"model":"cheap","messages":[],"model":"dear"}"#, "hi"] {
        let refused = gateway.ask("/v1/messages", body);
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.text().contains("names one"), "{}", refused.text());
    }
    assert_eq!(server.requests()["requests"], serde_json::json!([]));
}

#[test]
fn nothing_is_sent_before_a_turn_or_after_it() {
    let server = scripted(REPLY);
    let rig = Rig::new(&server.url(), Ok(()));
    let (path, body) = DIALECTS[0];
    let early = rig.ask(path, body);
    assert!(early.text().contains("no turn of this agent is under way"), "{}", early.text());
    assert_eq!(rig.open().ask(path, body).status, 200);
    rig.gateway.close();
    assert_eq!(rig.ask(path, body).status, 400);
    assert_eq!(server.requests()["requests"].as_array().unwrap().len(), 1);
}

#[test]
fn a_refusal_of_the_provider_passes_as_it_is_and_costs_nothing() {
    let server = scripted("[[reply]]\nstatus = 429\nretry_after = \"7s\"\nrepeat = true\n");
    let rig = Rig::new(&server.url(), Ok(()));
    let (path, body) = DIALECTS[0];
    let refused = rig.open().ask(path, body);
    assert_eq!(refused.status, 429);
    assert!(refused.head.contains("retry-after: 7"), "{}", refused.head);
    assert_eq!(refused.text(), ask(server.port(), path, body).text());
    assert_eq!(rig.passed(), Usage::default());
}

#[test]
fn an_answer_that_is_cut_is_cut_for_the_agent_and_counted_as_far_as_it_came() {
    let server = scripted(
        "[[reply]]\ntext = \"a text of some length\"\nusage = { input = 100, output = 20 }\ncut_after_bytes = 700\n",
    );
    let rig = Rig::new(&server.url(), Ok(()));
    let (path, body) = DIALECTS[0];
    let cut = rig.open().ask(path, body);
    assert_eq!((cut.status, cut.whole), (200, false));
    let usage = rig.passed();
    assert_eq!(usage.input, Some(100), "the beginning says what the question cost");
    assert!(usage.output.is_some_and(|output| output < 20), "{usage:?}");
}

#[test]
fn the_real_key_is_put_in_the_agents_own_is_left_out_and_the_rest_is_sent_as_it_is() {
    let (sender, heard) = channel();
    let address = raw(move |request, mut stream| {
        sender.send(request).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-answer: kept\r\n\r\n{}")
            .unwrap();
    });
    let rig = Rig::new(&address, Ok(()));
    let body = r#"{ "model" : "m",  "odd": "spacing" }"#;
    let answer = rig.open().ask("/v1/messages?beta=true", body);
    assert!(answer.head.contains("x-answer: kept"));
    let request = heard.recv_timeout(PATIENCE).unwrap();
    let (head, sent) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert_eq!(sent, body);
    assert!(head.starts_with("post /v1/messages?beta=true http/1.1"), "{head}");
    assert!(
        head.contains(&format!("x-api-key: {KEY}")) && head.contains("x-custom: kept"),
        "{head}"
    );
    assert!(!head.contains("worth-nothing") && !head.contains("authorization"), "{head}");
}

#[test]
fn whoever_does_not_know_the_token_or_asks_for_more_than_models_is_sent_away() {
    let server = scripted(REPLY);
    let rig = Rig::new(&server.url(), Ok(()));
    rig.open();
    let ((port, token), (_, body)) = (rig.base(), DIALECTS[0]);
    for path in ["/v1/messages", "/00000000000000000000000000000000/v1/messages", "/"] {
        assert_eq!(ask(port, path, body).status, 404, "{path}");
    }
    for path in ["/v1/messages/batches", "/v1/files", "/v1/organizations/x"] {
        assert_eq!(rig.ask(path, body).status, 404, "{path}");
    }
    let mut stream = connect(port);
    let led = question(port, &format!("{token}/v1/messages"), body)
        .replace(&format!("Host: 127.0.0.1:{port}"), "Host: evil.example");
    stream.write_all(led.as_bytes()).unwrap();
    assert_eq!(read_answer(&mut stream).status, 400);
    assert_eq!(server.requests()["requests"], serde_json::json!([]));
}

#[test]
fn a_refusal_of_a_request_for_a_head_has_no_body_and_the_connection_goes_on() {
    let server = scripted(REPLY);
    let rig = Rig::new(&server.url(), Ok(()));
    // Agents look whether their provider is there before they are asked for anything.
    for path in ["/", "/api/hello", "/v1/files"] {
        let (port, token) = rig.base();
        let head = format!("HEAD {token}{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
        let mut stream = connect(port);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(question(port, &format!("{token}/v1/none"), "{}").as_bytes()).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        let (first, rest) = answers.split_once("\r\n\r\n").unwrap();
        assert!(first.contains("HTTP/1.1 4") && rest.starts_with("HTTP/1.1 404"), "{answers}");
    }
}

/// Whether the bytes came at once, or in pieces with time between them, nothing is added or lost; and a piece that waits
/// for the next one is not kept back.
#[test]
fn what_comes_at_once_passes_at_once_and_what_comes_late_is_a_sign_of_life() {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (go_on, waits) = channel::<()>();
    let address = raw(move |_, mut stream| {
        stream.write_all(head.as_bytes()).unwrap();
        let burst: String = (0..200).map(|_| "5\r\nevent\r\n").collect();
        stream.write_all(burst.as_bytes()).unwrap();
        waits.recv_timeout(PATIENCE).unwrap();
        stream.write_all(b"3\r\nend\r\n0\r\n\r\n").unwrap();
    });
    let rig = Rig::new(&address, Ok(()));
    let (port, token) = rig.open().base();
    let mut stream = connect(port);
    let (path, body) = DIALECTS[0];
    stream.write_all(question(port, &format!("{token}{path}"), body).as_bytes()).unwrap();
    let mut heard = Vec::new();
    while String::from_utf8_lossy(&heard).matches("event").count() < 201 {
        let mut piece = [0; 4096];
        let count = read_once(&mut stream, &mut piece).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&piece[..count]);
    }
    let sizes = String::from_utf8_lossy(&heard).matches("\r\nevent").count();
    assert!(sizes < 100, "{sizes} pieces of 200 that had come together");
    let before = rig.gateway.heard();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(rig.gateway.heard(), before);
    go_on.send(()).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "3\r\nend\r\n0\r\n\r\n");
    assert!(rig.gateway.heard() > before);
}

/// A client that has asked something, and what.
fn asking(rig: &Rig) -> (TcpStream, &'static str) {
    rig.open();
    let (port, token) = rig.base();
    let mut stream = connect(port);
    let (path, body) = DIALECTS[0];
    stream.write_all(question(port, &format!("{token}{path}"), body).as_bytes()).unwrap();
    (stream, body)
}

#[test]
fn a_client_that_goes_away_ends_the_request_and_what_came_is_counted() {
    let (sender, ended) = channel();
    let address = raw(move |_, mut stream| {
        let start = concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",",
            "\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":55,\"output_tokens\":1}}}\n\n"
        );
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}{:x}\r\n{start}\r\n", start.len()).as_bytes()).unwrap();
        // Ends once the gateway has let go.
        let gone = stream.read(&mut [0; 1]);
        sender.send(matches!(gone, Ok(0) | Err(_))).unwrap();
    });
    let rig = Rig::new(&address, Ok(()));
    let (mut stream, _) = asking(&rig);
    let (mut heard, mut piece) = (String::new(), [0; 1024]);
    while !heard.contains("input_tokens") {
        let count = read_once(&mut stream, &mut piece).unwrap();
        assert_ne!(count, 0, "{heard}");
        heard.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    drop(stream);
    assert!(ended.recv_timeout(PATIENCE).unwrap(), "the provider is not asked any more");
    assert_eq!(rig.passed().input, Some(55));
}

#[test]
fn a_client_that_goes_away_before_the_answer_begins_pays_for_its_question() {
    let (sender, ended) = channel();
    let (asked, was_asked) = channel();
    let address = raw(move |_, mut stream| {
        asked.send(()).unwrap();
        let gone = stream.read(&mut [0; 1]);
        sender.send(matches!(gone, Ok(0) | Err(_))).unwrap();
    });
    let rig = Rig::new(&address, Ok(()));
    let (stream, body) = asking(&rig);
    was_asked.recv_timeout(PATIENCE).unwrap();
    drop(stream);
    assert!(ended.recv_timeout(PATIENCE).unwrap(), "the provider is not asked any more");
    assert_eq!(rig.passed().input, Some(body.len().div_ceil(4) as u64));
}

#[test]
fn what_is_too_large_is_refused_and_connections_have_a_limit() {
    let server = scripted(REPLY);
    let limits = Limits { body: 1000, connections: 2, ..Limits::default() };
    let rig = Rig::with(&server.url(), Ok(()), limits, Traffic::Live);
    rig.open();
    let (port, token) = rig.base();
    let large = "x".repeat(1001);
    assert_eq!(rig.ask("/v1/messages", &large).status, 413);
    let mut stream = connect(port);
    let head = format!(
        "POST {token}/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX: {}\r\n",
        "y".repeat(40_000)
    );
    let _ = stream.write_all(head.as_bytes());
    assert_eq!(read_answer(&mut stream).status, 431);
    let (_one, _two) = (connect(port), connect(port));
    let mut third = connect(port);
    let _ = third.write_all(question(port, &format!("{token}/v1/messages"), "{}").as_bytes());
    let mut all = Vec::new();
    let _ = third.read_to_end(&mut all);
    assert_eq!(all, b"", "one more than the limit is closed at once");
    assert_eq!(server.requests()["requests"], serde_json::json!([]));
}

#[test]
fn what_passed_is_priced_and_written_down_without_a_key() {
    let server = scripted(REPLY);
    let folder = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::open(folder.path()).unwrap());
    let rig = Rig::with(&server.url(), Ok(()), Limits::default(), Traffic::Record(recorder));
    let body = format!(
        r#"{{"model":"priced","max_tokens":9,"stream":true,"messages":[{{"role":"user","content":"my key is {KEY}"}}]}}"#
    );
    let answer = rig.open().ask("/v1/messages", &body);
    // 107 tokens of the question at one dollar for a million, 20 of the answer at two.
    assert_eq!(rig.passed().nanodollars, Some(147_000));
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains(KEY) && text.contains("my key is [key]"), "{text}");
    let kept = wire::model::recording::Exchange::read(&text).unwrap();
    assert_eq!((kept.question.provider.as_str(), kept.response.status), ("anthropic", Some(200)));
    let heard: Vec<u8> =
        kept.response.chunks.iter().flat_map(|chunk| chunk.data.bytes().unwrap()).collect();
    assert_eq!(heard, answer.body);
}

#[test]
fn searches_that_the_provider_made_for_an_agent_are_charged_by_the_piece() {
    let answer = r#"{"type":"message","role":"assistant","model":"priced","content":[],"stop_reason":"end_turn","usage":{"input_tokens":100,"output_tokens":20,"server_tool_use":{"web_search_requests":3}}}"#;
    let server = raw(move |_, mut stream| {
        let length = answer.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + answer).as_bytes()).unwrap();
    });
    let rig = Rig::new(&server, Ok(()));
    let body = r#"{"model":"priced","max_tokens":9,"messages":[{"role":"user","content":"go"}]}"#;
    assert_eq!(rig.open().ask("/v1/messages", body).status, 200);
    // Its tokens, and three searches at ten dollars for a thousand.
    assert_eq!(rig.passed().nanodollars, Some(140_000 + 30_000_000));
}

/// Nobody is there.
const NOWHERE: &str = "http://127.0.0.1:1";

#[test]
fn what_was_written_down_is_answered_again_byte_for_byte_and_counted_and_nobody_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::open(folder.path()).unwrap());
    let server = scripted(&format!(
        "[[reply]]\nstatus = 429\n[[reply]]\ntext = \"after all\"\nusage = {{ input = 3, output = 2 }}\n{REPLY}"
    ));
    let live = Rig::with(&server.url(), Ok(()), Limits::default(), Traffic::Record(recorder));
    let (path, body) = DIALECTS[0];
    let asks = [(path, body)].into_iter().chain(DIALECTS);
    let mut heard = Vec::new();
    for (path, body) in asks.clone() {
        let answer = live.open().ask(path, body);
        heard.push((answer.status, answer.text(), live.passed().total()));
    }
    assert_eq!(heard[0].0, 429);
    drop(server);

    let recording = || Traffic::Replay(Arc::new(Recording::load(folder.path()).unwrap()));
    let rig = Rig::with(NOWHERE, Ok(()), Limits::default(), recording());
    for ((path, body), heard) in asks.zip(&heard) {
        // What an agent says is never the same twice.
        let answer = rig.open().ask(path, &body.replace("hi", "hi again, it is late"));
        let again = (answer.status, answer.text(), rig.passed().total());
        assert_eq!(&again, heard, "{path}");
        assert!(answer.whole);
    }
    let more = rig.ask(path, body);
    assert_eq!(more.status, 400, "{}", more.text());
    assert!(more.text().contains("replay_missing") && more.text().contains("no answer left"));
    assert!(more.head.contains("x-should-retry: false"), "{}", more.head);
    let other = rig.ask("/v1/messages", r#"{"model":"other","messages":[]}"#);
    assert!(other.text().contains("differs first in"), "{}", other.text());
    let free = rig.ask("/v1/messages/count_tokens", "{}");
    assert_eq!(free.status, 404, "{}", free.text());
    assert!(free.text().contains("replay_missing"), "{}", free.text());

    // A budget binds as it does when somebody is asked.
    let spent = Rig::with(NOWHERE, Err("it is spent".into()), Limits::default(), recording());
    let refused = spent.open().ask(path, body);
    assert!(refused.status == 400 && refused.text().contains("it is spent"), "{}", refused.text());
}

#[test]
fn what_an_agent_asks_freely_is_answered_again_as_often_as_it_asks() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::open(folder.path()).unwrap());
    let address = raw(|_, mut stream| {
        let body = r#"{"input_tokens":42}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    });
    let live = Rig::with(&address, Ok(()), Limits::default(), Traffic::Record(recorder));
    let path = "/v1/messages/count_tokens?beta=true";
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let counted = live.open().ask(path, body);
    assert_eq!((counted.status, counted.text().as_str()), (200, r#"{"input_tokens":42}"#));
    drop(live);

    let recording = Traffic::Replay(Arc::new(Recording::load(folder.path()).unwrap()));
    let rig = Rig::with(NOWHERE, Ok(()), Limits::default(), recording);
    let others = body.replace("hi", "hi, it is late");
    for body in [body, body, &others, body] {
        let again = rig.open().ask(path, body);
        assert_eq!((again.status, again.text()), (200, counted.text()), "{body}");
        assert_eq!(rig.passed().total(), 0, "it costs nothing");
    }
    let other = rig.ask(path, r#"{"model":"m","messages":[]}"#);
    assert_eq!(other.status, 404, "{}", other.text());
    assert!(other.text().contains("has no answer to POST"), "{}", other.text());
}
