//! `drivetrain fake model`: the real binary, asked by a client that reads bytes, in every dialect.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use machine::message::{Block, Message, Part, Reply, Role, Usage};
use runtime::fake::{Fake, Limits};
use serde_json::{Value, json};
use wire::model::anthropic_messages::AnthropicMessages;
use wire::model::google_generate::GoogleGenerate;
use wire::model::openai_chat::OpenAiChat;
use wire::model::openai_responses::OpenAiResponses;
use wire::model::script::{Script, Served};
use wire::model::{Dialect, ErrorKind, ModelRequest, Retry, Stream, ToolChoice, assemble};

use crate::environment::TestEnvironment;

const REPLY: &str = r#"
[[reply]]
text = "Let me look at it, piece by piece."
tool_calls = [{ tool = "shell", id = "abcDEF123", input = { command = "ls" } }]
usage = { input = 100, output = 20 }
repeat = true
"#;
const SAID: &str = "Let me look at it, piece by piece.";

/// The binary as it serves a script. Ends with its test.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn of(environment: &TestEnvironment, script: &str) -> Server {
        environment.write("script.toml", script);
        let mut child = environment
            .command(&["fake", "model", "script.toml", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let port = u16::try_from(told["port"].as_u64().unwrap()).unwrap();
        assert_eq!(
            told,
            json!({ "v": 1, "url": format!("http://127.0.0.1:{port}"), "port": port })
        );
        Server { child, port }
    }

    /// What it was asked so far.
    pub(crate) fn requests(&self) -> Value {
        self.ask("GET", "/requests", "").json()["requests"].clone()
    }

    fn connect(&self) -> Client {
        connect(self.port)
    }

    /// Asks on a connection of its own.
    fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        self.connect().ask(method, path, &[], body)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut complaints = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut complaints).unwrap();
        assert!(complaints.is_empty() || std::thread::panicking(), "{complaints}");
    }
}

/// A client that knows just enough HTTP.
struct Client {
    stream: BufReader<TcpStream>,
}

#[derive(Debug, Default)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The body as it was chunked.
    chunks: Vec<Vec<u8>>,
    is_whole: bool,
}

impl Answer {
    fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json");
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

fn connect(port: u16) -> Client {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    Client { stream: BufReader::new(stream) }
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: &str,
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        self.answer(method != "HEAD")
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    /// Reads one answer, as far as it comes.
    fn answer(&mut self, has_body: bool) -> Answer {
        let mut answer = Answer::default();
        let first = self.line().expect("an answer");
        answer.status = first.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").unwrap();
            answer.headers.push((name.to_owned(), value.to_owned()));
        }
        if !has_body || answer.status == 100 {
            return answer;
        }
        if answer.header("transfer-encoding") != "chunked" {
            answer.body = vec![0; answer.header("content-length").parse().unwrap()];
            self.stream.read_exact(&mut answer.body).unwrap();
            answer.is_whole = true;
            return answer;
        }
        while let Some(line) = self.line() {
            let mut chunk = vec![0; usize::from_str_radix(&line, 16).unwrap()];
            self.stream.read_exact(&mut chunk).unwrap();
            assert_eq!(self.line().as_deref(), Some(""));
            if chunk.is_empty() {
                answer.is_whole = true;
                break;
            }
            answer.body.extend(&chunk);
            answer.chunks.push(chunk);
        }
        answer
    }

    fn is_closed(&mut self) -> bool {
        self.stream.read_to_end(&mut Vec::new()).is_ok_and(|count| count == 0)
    }
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

/// Asks for a stream, with the request that we would send to the provider.
fn ask_for_stream(client: &mut Client, served: Served, text: &str) -> Answer {
    let part = Part::Text { text: text.to_owned() };
    let request = ModelRequest {
        model: "m-1".to_owned(),
        system: "Be brief.".to_owned(),
        messages: machine::message::conversation([Message {
            role: Role::User,
            blocks: vec![Block { part, native: None }],
        }]),
        moved: 0,
        tools: Default::default(),
        tool_choice: ToolChoice::Auto,
        max_tokens: Some(100),
        temperature: None,
        effort: None,
        output_schema: None,
        cache: false,
    };
    let dialect = dialect(served);
    let encoded = dialect.encode(&request);
    let (key, before) = dialect.key_header();
    let mut headers = encoded.headers;
    headers.push((key.to_owned(), format!("{before}sk-very-secret")));
    let prefix = if served == Served::Mistral { "/mistral" } else { "" };
    let body = String::from_utf8(encoded.body).unwrap();
    client.ask("POST", &format!("{prefix}{}", encoded.path), &headers, &body)
}

fn decode(served: Served, answer: &Answer) -> wire::model::Answer {
    let mut stream = Stream::new(&*dialect(served), assemble::Limits::default());
    for chunk in &answer.chunks {
        stream.push(chunk, &mut Vec::new())?;
    }
    stream.finish()
}

fn chat(text: &str, streaming: bool) -> String {
    json!({ "model": "m", "stream": streaming, "messages": [{ "role": "user", "content": text }] })
        .to_string()
}

fn text_of(reply: &Reply) -> String {
    let text = |block: &Block| match &block.part {
        Part::Text { text } => Some(text.clone()),
        _ => None,
    };
    reply.message.blocks.iter().filter_map(text).collect()
}

#[test]
fn every_dialect_streams_what_the_script_says() {
    let environment = TestEnvironment::new();
    let server = Server::of(&environment, REPLY);
    for served in Served::ALL {
        let answer = ask_for_stream(&mut server.connect(), served, "go");
        assert_eq!((answer.status, answer.is_whole), (200, true), "{served:?}");
        assert_eq!(answer.header("content-type"), "text/event-stream");
        for chunk in &answer.chunks {
            let event = String::from_utf8(chunk.clone()).unwrap();
            assert!(event.ends_with("\n\n") && event.matches("\n\n").count() == 1, "{event:?}");
        }
        let reply = decode(served, &answer).unwrap();
        let call = Part::ToolUse {
            id: "abcDEF123".to_owned(),
            name: "shell".to_owned(),
            input: json!({ "command": "ls" }),
        };
        let parts: Vec<Part> = reply.message.blocks.into_iter().map(|block| block.part).collect();
        assert_eq!(parts, [Part::Text { text: SAID.to_owned() }, call], "{served:?}");
        let Usage { input, output, .. } = reply.usage;
        assert_eq!((input, output), (Some(100), Some(20)), "{served:?}");
        assert_eq!(reply.model, "m-1");
    }
}

#[test]
fn every_dialect_answers_whole_if_no_stream_is_asked_for() {
    let environment = TestEnvironment::new();
    let server = Server::of(&environment, REPLY);
    let whole = |path: &str, body: Value| {
        let answer = server.ask("POST", path, &body.to_string());
        assert_eq!((answer.status, answer.chunks.len()), (200, 0), "{path}");
        answer.json()
    };
    let messages = json!({ "model": "m", "messages": [{ "role": "user", "content": "go" }] });

    let anthropic = whole("/v1/messages", messages.clone());
    assert_eq!(anthropic["content"][0]["text"], SAID);
    assert_eq!(anthropic["content"][1]["input"], json!({ "command": "ls" }));
    assert_eq!(anthropic["stop_reason"], "tool_use");
    assert_eq!(anthropic["usage"]["input_tokens"], 100);

    for path in ["/v1/chat/completions", "/mistral/v1/chat/completions"] {
        let chat = whole(path, messages.clone());
        let message = &chat["choices"][0]["message"];
        assert_eq!(message["content"], SAID);
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"command\":\"ls\"}");
        assert_eq!(chat["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(chat["usage"]["completion_tokens"], 20);
    }

    let responses = whole("/v1/responses", json!({ "model": "m", "input": "go" }));
    let output = responses["output"].as_array().unwrap();
    let of = |kind: &str| output.iter().find(|item| item["type"] == kind).unwrap();
    assert_eq!(of("message")["content"][0]["text"], SAID);
    assert_eq!(of("function_call")["arguments"], "{\"command\":\"ls\"}");
    assert_eq!(responses["usage"]["output_tokens"], 20);

    let google = whole(
        "/v1beta/models/m:generateContent",
        json!({ "contents": [{ "role": "user", "parts": [{ "text": "go" }] }] }),
    );
    let parts = &google["candidates"][0]["content"]["parts"];
    assert_eq!(parts[0]["text"], SAID);
    assert_eq!(parts[1]["functionCall"]["args"], json!({ "command": "ls" }));
    assert_eq!(google["usageMetadata"]["promptTokenCount"], 100);
}

#[test]
fn a_status_with_its_wait_is_an_error_of_the_dialect() {
    let environment = TestEnvironment::new();
    let script = "[[reply]]\nstatus = 429\nretry_after = \"7s\"\nrepeat = true";
    let server = Server::of(&environment, script);
    for served in Served::ALL {
        let answer = ask_for_stream(&mut server.connect(), served, "go");
        assert_eq!((answer.status, answer.header("retry-after")), (429, "7"));
        let error = dialect(served).failure(answer.status, &answer.headers, &answer.body);
        assert_eq!((error.kind, error.retry), (ErrorKind::RateLimited, Retry::After(7000)));
    }
}

#[test]
fn a_cut_ends_the_connection_in_the_middle_of_the_body() {
    let environment = TestEnvironment::new();
    let script = "[[reply]]\ntext = \"never seen whole\"\ncut_after_bytes = 50\nrepeat = true";
    let server = Server::of(&environment, script);
    for served in Served::ALL {
        let mut client = server.connect();
        let answer = ask_for_stream(&mut client, served, "go");
        assert_eq!((answer.body.len(), answer.is_whole), (50, false), "{served:?}");
        assert_eq!(decode(served, &answer).unwrap_err().kind, ErrorKind::StreamTruncated);
        assert!(client.is_closed());
    }
    let whole = server.ask("POST", "/v1/chat/completions", &chat("go", false));
    assert_eq!((whole.body.len(), whole.is_whole), (50, false));
}

#[test]
fn delays_and_stalls_are_waited_out_and_a_client_that_leaves_frees_its_place() {
    let environment = TestEnvironment::new();
    let script = "[[reply]]\ntext = \"late\"\ndelay = \"150ms\"\nstall = \"150ms\"\nrepeat = 2\n\
                  [[reply]]\ntext = \"never\"\nstall = \"10m\"\nrepeat = 64\n\
                  [[reply]]\ntext = \"served\"";
    let server = Server::of(&environment, script);
    for streaming in [true, false] {
        let begun = Instant::now();
        let answer = server.ask("POST", "/v1/chat/completions", &chat("go", streaming));
        assert!(begun.elapsed() >= Duration::from_millis(300));
        assert!(answer.is_whole);
    }
    for _ in 0..64 {
        let mut client = server.connect();
        let body = chat("go", true);
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n";
        client.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        assert_eq!(client.line().as_deref(), Some("HTTP/1.1 200 OK"));
    }
    let answer = environment.until(|| {
        let answer = server.ask("POST", "/v1/chat/completions", &chat("go", false));
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "served");
}

#[test]
fn a_connection_serves_one_request_after_the_other_even_if_they_come_at_once() {
    let environment = TestEnvironment::new();
    let server = Server::of(&environment, "[[reply]]\ntext = \"one\"\n[[reply]]\ntext = \"two\"");
    let mut client = server.connect();
    let body = chat("go", true);
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.send(format!("{request}{request}").as_bytes());
    for text in ["one", "two"] {
        let answer = client.answer(true);
        assert_eq!(text_of(&decode(Served::OpenAiChat, &answer).unwrap()), text);
    }
    let over = client.ask("POST", "/v1/chat/completions", &[], &body);
    assert_eq!(over.status, 400);
    assert_eq!(over.json()["error"]["message"], "the script is over: nothing comes after reply 2");
    let last = client.ask("GET", "/", &[("connection".to_owned(), "close".to_owned())], "");
    assert_eq!((last.status, last.header("connection")), (404, "close"));
    assert!(client.is_closed());
}

#[test]
fn what_was_asked_is_told_without_keys_and_the_script_starts_over() {
    let environment = TestEnvironment::new();
    let server = Server::of(&environment, "[[reply]]\ntext = \"one\"\n[[reply]]\ntext = \"two\"");
    let mut client = server.connect();
    for served in [Served::AnthropicMessages, Served::GoogleGenerate] {
        assert_eq!(ask_for_stream(&mut client, served, "hello there").status, 200);
    }
    client.ask("POST", "/v1beta/models/m:generateContent?key=sk-very-secret&alt=sse", &[], "{");
    client.ask("GET", "/nowhere", &[], "");
    let told = client.ask("GET", "/requests", &[], "");
    let text = String::from_utf8(told.body.clone()).unwrap();
    assert!(text.contains("hello there") && !text.contains("secret"), "{text}");
    let requests = told.json()["requests"].as_array().unwrap().clone();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[0]["headers"]["anthropic-version"], "2023-06-01");
    assert_eq!(requests[0]["body"]["system"].to_string().matches("Be brief.").count(), 1);
    assert_eq!(
        (&requests[1]["turn"], &requests[1]["dialect"]),
        (&json!(2), &json!("google_generate"))
    );
    assert_eq!(requests[2]["path"], "/v1beta/models/m:generateContent?key=-&alt=sse");
    assert_eq!((&requests[2]["body"], &requests[2]["turn"]), (&json!("{"), &Value::Null));
    assert_eq!((&requests[3]["method"], &requests[3]["body"]), (&json!("GET"), &Value::Null));

    assert_eq!(client.ask("POST", "/reset", &[], "").json(), json!({ "v": 1 }));
    assert_eq!(client.ask("GET", "/requests", &[], "").json()["requests"], json!([]));
    let again = ask_for_stream(&mut client, Served::AnthropicMessages, "hello");
    assert_eq!(text_of(&decode(Served::AnthropicMessages, &again).unwrap()), "one");
    let head = client.ask("HEAD", "/requests", &[], "");
    assert_eq!(head.status, 200);
    client.send(b"GET /requests HTTP/1.1\r\nhost: evil.example\r\n\r\n");
    assert_eq!(client.answer(true).status, 403);
}

#[test]
fn wrong_paths_methods_and_bodies_are_explained() {
    let environment = TestEnvironment::new();
    let server = Server::of(&environment, REPLY);
    let mut client = server.connect();
    let lost = client.ask("GET", "/v1/models", &[], "");
    assert_eq!(lost.status, 404);
    assert_eq!(lost.json()["error"]["message"], "nothing is served at GET /v1/models");
    assert_eq!(lost.json()["routes"][0]["path"], "/v1/messages");
    let head = client.ask("HEAD", "/v1/models", &[], "");
    assert_eq!((head.status, head.header("content-type")), (404, "application/json"));
    for (method, path, allowed) in [
        ("GET", "/v1/messages", "POST"),
        ("PUT", "/v1/responses", "POST"),
        ("GET", "/reset", "POST"),
        ("POST", "/requests", "GET, HEAD"),
    ] {
        let answer = client.ask(method, path, &[], "");
        assert_eq!((answer.status, answer.header("allow")), (405, allowed), "{method} {path}");
    }
    for (path, place) in [
        ("/v1/messages", "/error/message"),
        ("/v1/chat/completions", "/error/message"),
        ("/v1/responses", "/error/message"),
        ("/v1beta/models/m:streamGenerateContent", "/error/message"),
        ("/mistral/v1/chat/completions", "/message"),
    ] {
        let answer = client.ask("POST", path, &[], "{\"model\": ");
        assert_eq!(answer.status, 400);
        let message = answer.json().pointer(place).and_then(Value::as_str).unwrap().to_owned();
        assert!(message.starts_with("the body is no JSON"), "{path}: {message}");
    }
    assert_eq!(client.ask("POST", "/v1/messages", &[], "{}").status, 400);
}

#[test]
fn a_chunked_body_is_read_and_an_expectation_answered() {
    let environment = TestEnvironment::new();
    let server = Server::of(&environment, REPLY);
    let mut client = server.connect();
    let body = chat("go", false);
    client.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nTransfer-Encoding: Chunked\r\nExpect: 100-Continue\r\n\r\n",
    );
    assert_eq!(client.answer(false).status, 100);
    for piece in body.as_bytes().chunks(7) {
        client.send(format!("{:X};name=value\r\n", piece.len()).as_bytes());
        client.send(piece);
        client.send(b"\r");
        client.send(b"\n");
    }
    client.send(b"0\r\ntrailer: x\r\n\r\n");
    assert_eq!(client.answer(true).json()["choices"][0]["message"]["content"], SAID);
    assert_eq!(client.ask("GET", "/", &[], "").status, 404);
    // The oldest clients read to the end of the connection.
    let mut old = server.connect();
    old.send(
        format!(
            "POST /v1/chat/completions HTTP/1.0\r\ncontent-length: {}\r\n\r\n{}",
            chat("go", true).len(),
            chat("go", true)
        )
        .as_bytes(),
    );
    let mut text = String::new();
    old.stream.read_to_string(&mut text).unwrap();
    assert!(!text.contains("chunked") && text.ends_with("data: [DONE]\n\n"), "{text}");
}

#[test]
fn what_is_no_clear_request_is_refused_and_the_connection_ends() {
    let environment = TestEnvironment::new();
    let server = Server::of(&environment, REPLY);
    let post = "POST /v1/messages HTTP/1.1\r\nhost: x\r\n";
    let long = "a".repeat(40_000);
    for (bytes, status) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\n\n".to_owned(), 400),
        ("GET /  HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nhost: x\r\n folded\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nhost : x\r\n\r\n".to_owned(), 400),
        ("GET x HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/2.0\r\nhost: x\r\n\r\n".to_owned(), 505),
        (format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(8000)), 431),
        (format!("{post}content-length: 1\r\ncontent-length: 1\r\n\r\n{{"), 400),
        (format!("{post}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"), 400),
        (format!("{post}content-length: +1\r\n\r\n"), 400),
        (format!("{post}content-length: 33554433\r\n\r\n"), 413),
        (format!("{post}content-length: 99999999999999999999999\r\n\r\n"), 413),
        (format!("{post}transfer-encoding: gzip\r\n\r\n"), 501),
        (format!("{post}transfer-encoding: chunked\r\n\r\n0x1\r\n"), 400),
        (format!("{post}transfer-encoding: chunked\r\n\r\n1\r\nab\r\n"), 400),
        (format!("{post}transfer-encoding: chunked\r\n\r\nfffffffff\r\n"), 413),
        (format!("{post}expect: wonders\r\ncontent-length: 1\r\n\r\n"), 417),
    ] {
        let mut client = server.connect();
        client.send(bytes.as_bytes());
        let answer = client.answer(true);
        let shown = &bytes[..bytes.len().min(80)];
        assert_eq!((answer.status, answer.header("connection")), (status, "close"), "{shown:?}");
        assert!(answer.json()["error"]["message"].is_string());
        assert!(client.is_closed());
    }
    assert_eq!(server.ask("GET", "/requests", "").json()["requests"], json!([]));
}

#[test]
fn eight_clients_at_once_get_each_reply_once() {
    let environment = TestEnvironment::new();
    let replies: String = (0..80).map(|n| format!("[[reply]]\ntext = \"reply {n}\"\n")).collect();
    let server = Server::of(&environment, &replies);
    let together = Barrier::new(8);
    let ask = |at: usize| {
        let mut client = server.connect();
        together.wait();
        let served = Served::ALL[at % Served::ALL.len()];
        let texts = (0..10).map(|_| {
            let answer = ask_for_stream(&mut client, served, "go");
            text_of(&decode(served, &answer).unwrap())
        });
        texts.collect::<Vec<String>>()
    };
    let mut texts: Vec<String> = std::thread::scope(|scope| {
        let ask = &ask;
        let clients: Vec<_> = (0..8).map(|at| scope.spawn(move || ask(at))).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    texts.sort();
    let mut expected: Vec<String> = (0..80).map(|n| format!("reply {n}")).collect();
    expected.sort();
    assert_eq!(texts, expected);
    let requests = server.ask("GET", "/requests", "").json()["requests"].clone();
    let turns: Vec<u64> =
        requests.as_array().unwrap().iter().map(|asked| asked["turn"].as_u64().unwrap()).collect();
    assert_eq!(turns, (1..=80).collect::<Vec<u64>>());
}

#[test]
fn slow_and_surplus_clients_are_sent_away() {
    let short = Duration::from_millis(50);
    let limits = Limits { connections: 2, head: short, body: short, ..Limits::default() };
    let script = Script::parse(REPLY, "script.toml").unwrap();
    let fake = Fake::bind(script, 0, limits).unwrap();
    let port = fake.port();
    // Ends with the process of the tests.
    std::thread::spawn(move || fake.serve());
    for begun in ["GET / HT", "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"]
    {
        let mut client = connect(port);
        client.send(begun.as_bytes());
        assert_eq!(client.answer(true).status, 408);
        assert!(client.is_closed());
    }
    // Each is answered and keeps its place.
    let mut first: Vec<Client> = Vec::new();
    while first.len() < 2 {
        let mut client = connect(port);
        client.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        if client.answer(true).status == 404 {
            first.push(client);
        }
    }
    assert_eq!(connect(port).answer(true).status, 503);
    drop(first);
    let mut patience = 1000;
    while connect(port).ask("GET", "/", &[], "").status == 503 && patience > 0 {
        patience -= 1;
    }
    assert!(patience > 0);
}

#[test]
fn a_bad_script_opens_no_port() {
    let environment = TestEnvironment::new();
    environment.write(
        "script.toml",
        "[[reply]]\ntext = \"x\"\n\n[[reply]]\ntxt = \"y\"\nstop = \"end_turn\"\n",
    );
    let ran = environment.run(&["fake", "model", "script.toml"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    insta::assert_snapshot!(ran.err, @r#"
    error: unknown key "txt" in a reply
     --> script.toml:5:1
      |
    5 | txt = "y"
      | ^^^
      = help: did you mean "text"?
    "#);
    let ran = environment.run(&["fake", "model", "script.toml", "--json"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(error["error"]["kind"], "configuration");
    let ran = environment.run(&["fake", "model", "missing.toml"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("cannot read missing.toml"), "{}", ran.err);
    assert_eq!(environment.run(&["fake", "model", "script.toml", "--port", "70000"]).code, 2);
    assert!(!environment.home().exists(), "nothing is kept");
}

#[test]
fn a_taken_port_is_told_and_a_signal_ends_it() {
    let environment = TestEnvironment::new();
    let mut server = Server::of(&environment, REPLY);
    let port = server.port.to_string();
    let ran = environment.run(&["fake", "model", "script.toml", "--port", &port]);
    assert_eq!((ran.code, ran.out.as_str()), (20, ""));
    assert!(ran.err.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{}", ran.err);

    // A client in the middle of something does not keep it.
    let mut client = server.connect();
    client.send(b"GET / HT");
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));

    let mut plain = environment
        .command(&["fake", "model", "script.toml", "--port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(plain.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let pid = plain.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(plain.wait().unwrap().code(), Some(0));
    assert!(line.starts_with("serving script.toml on http://127.0.0.1:"), "{line}");
}
