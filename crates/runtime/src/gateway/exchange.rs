//! One request of an agent and its answer: judged, sent on with the real key, and carried back while a copy is counted.

use std::time::Duration;

use machine::agent::AgentNews;
use machine::policy::gateway::{Passed, charge};
use machine::policy::hosts::Host;
use machine::policy::price::{self, Price};
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response};
use wire::gateway::{Api, KEY_FIELDS, Speaks, Tap, Wish, asked, wish, without_key};
use wire::model::recording::{Cover, Question};
use wire::proxy::head::{Form, Request, Wish as Asked};

use super::answer::Answer;
use super::connection::{Connection, Missing, Socket};
use super::{Hear, Shared, Upstream};
use crate::http::{Finished, TransportError};
use crate::model::{Tape, Traffic};
use crate::network;

/// Serves a connection until it ends.
pub(super) async fn serve(socket: Socket, shared: &Shared) {
    let mut connection = Connection::new(socket, shared.options.limits.idle);
    while next(&mut connection, shared).await {}
}

/// Answers the next request; whether another one can follow.
async fn next(connection: &mut Connection, shared: &Shared) -> bool {
    let limits = shared.options.limits;
    let head = match connection.head(limits.kept, limits.request).await {
        Ok(head) => head,
        Err(Missing::TooLarge) => {
            let told = "the head of the request is longer than 32 KiB";
            return refuse(connection, Api::Anthropic, 431, told, None).await;
        }
        Err(_) => return false,
    };
    // The host is this one by its number: a page in a browser that was led here names another.
    let own = Host::parse("127.0.0.1");
    let Ok(request) = own
        .map_err(|_| ())
        .and_then(|own| Request::parse(&head, Form::Tunnel(&own, shared.port)).map_err(|_| ()))
    else {
        let told = "this is no request that the gateway understands";
        return refuse(connection, Api::Anthropic, 400, told, None).await;
    };
    let Asked::Answer { method, path } = &request.wish else { return false };
    let Some(path) = beyond_token(path, &shared.token) else {
        return refuse(connection, Api::Anthropic, 404, "there is nothing here", None).await;
    };
    let keys: Vec<Api> = shared.options.upstreams.iter().map(|known| known.api).collect();
    let known = wish(method, path, &keys);
    let api = known.map_or(Api::Anthropic, |(api, _)| api);
    if request.expects && connection.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err() {
        return false;
    }
    let body = match connection.body(request.body, limits.body, limits.request).await {
        Ok(body) => body,
        Err(Missing::TooLarge) => {
            let told = format!("the request is larger than {} bytes", limits.body);
            return refuse(connection, api, 413, &told, None).await;
        }
        Err(_) => return false,
    };
    let Some((api, wish)) = known else {
        let told = format!("{method} {path} does not pass the gateway: only models can be asked");
        return refuse(connection, api, 404, &told, Some(&request)).await;
    };
    let Some(upstream) = shared.options.upstreams.iter().find(|known| known.api == api) else {
        let told = format!("this agent has no key for {}: set {}", api.name(), api.key_variable());
        return refuse(connection, api, 400, &told, Some(&request)).await;
    };
    let path = without_key(path);
    let speaks = match wish {
        Wish::Ask(speaks) => Some(speaks),
        Wish::Free => None,
    };
    let model = match speaks.map(|speaks| asked(speaks, &path, &body)).transpose() {
        Ok(model) => model.unwrap_or_default(),
        Err(told) => return refuse(connection, api, 400, told, Some(&request)).await,
    };
    let bytes = body.len() as u64;
    let (number, hear) = match network::first(connection.gone(), shared.ask(bytes)).await {
        Some(Ok(asked)) => asked,
        Some(Err(reason)) => {
            return refuse(connection, api, 400, &reason, Some(&request)).await;
        }
        // Should it be let through after all, nobody would say what became of it.
        None => return false,
    };
    let meter = Meter {
        hear,
        request: number,
        price: (shared.options.price)(&format!("{}/{model}", api.name())),
        model,
        tap: None,
        asked: bytes,
        began: false,
        told: false,
    };
    let onward = Onward { api, upstream, method, path: &path, speaks, request: &request };
    carry(connection, shared, onward, body, meter).await
}

/// A request that may be sent.
struct Onward<'a> {
    api: Api,
    upstream: &'a Upstream,
    method: &'a str,
    path: &'a str,
    speaks: Option<Speaks>,
    request: &'a Request,
}

/// Sends a request on and carries its answer back; whether another request can follow.
async fn carry(
    connection: &mut Connection,
    shared: &Shared,
    onward: Onward<'_>,
    body: Vec<u8>,
    mut meter: Meter,
) -> bool {
    let idle = shared.options.limits.idle;
    let mut notes = Notes::begin(shared, &onward, &body);
    let sent = answered(shared, &onward, body);
    let sent = network::first(connection.gone(), within(idle, sent)).await;
    let mut answer = match sent {
        None => {
            // It was sent, and is paid for though nobody stayed to hear the answer.
            meter.began = onward.speaks.is_some();
            return false;
        }
        Some(Ok(answer)) => answer,
        Some(Err(reason)) => {
            meter.tell();
            // What is missing in a recording is missing the next time too.
            let (status, told) = match (&shared.options.traffic, onward.speaks) {
                (Traffic::Replay(_), Some(_)) => (400, format!("replay_missing: {reason}")),
                // Agents go on without it.
                (Traffic::Replay(_), None) => (404, format!("replay_missing: {reason}")),
                (Traffic::Live | Traffic::Record(_), _) => {
                    (502, format!("{} cannot be reached: {reason}", onward.api.name()))
                }
            };
            notes.end(shared, Err(TransportError::Unreachable { origin: String::new(), reason }));
            return refuse(connection, onward.api, status, &told, Some(onward.request)).await;
        }
    };
    let status = answer.status;
    meter.began = onward.speaks.is_some() && status == 200;
    let kind = answer.headers.get("content-type").and_then(|value| value.to_str().ok());
    if let (Some(speaks), true) = (onward.speaks, meter.began) {
        meter.tap = Some(Tap::new(speaks, kind.unwrap_or_default()));
    }
    let bodiless = onward.method == "HEAD" || status == 204 || status == 304;
    let chunked = !bodiless && onward.request.chunks;
    let keeps = onward.request.keeps && (chunked || bodiless);
    let headers = answer.headers.clone();
    // What comes together is sent together.
    let mut unsent = answer_head(status, &headers, chunked, keeps);
    if !answer.has_begun() {
        if connection.write(&unsent).await.is_err() {
            return false;
        }
        unsent.clear();
    }
    loop {
        let chunk = network::first(connection.gone(), within(idle, answer.next_chunk())).await;
        let chunk = match chunk {
            // The agent does not listen any more: dropping the answer ends it for its provider too.
            None => return false,
            Some(Ok(chunk)) => chunk,
            Some(Err(reason)) => {
                // It breaks off where it did.
                let _ = connection.write(&unsent).await;
                meter.tell();
                notes.end(shared, Err(TransportError::Broken { origin: String::new(), reason }));
                return false;
            }
        };
        shared.hear();
        notes.hear(&chunk.bytes);
        // Counted before the agent sees it: it may ask again at once.
        meter.push(&chunk.bytes);
        if chunk.is_last {
            meter.end();
            notes.end(shared, Ok((status, &headers)));
        }
        match chunked {
            true => chunk.frame(&mut unsent),
            false => unsent.extend_from_slice(&chunk.bytes),
        }
        if connection.write(&unsent).await.is_err() {
            return false;
        }
        unsent.clear();
        if chunk.is_last {
            return keeps;
        }
    }
}

async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = |_| format!("nothing came for {} s", limit.as_secs());
    tokio::time::timeout(limit, future).await.map_err(late)?
}

/// The answer of the provider, or the one that was recorded.
async fn answered(shared: &Shared, onward: &Onward<'_>, body: Vec<u8>) -> Result<Answer, String> {
    let Traffic::Replay(recording) = &shared.options.traffic else {
        return Ok(Answer::live(send(shared, onward, body).await?).await);
    };
    let (question, task) = (question(shared, onward, &body).0, &shared.options.task);
    let found = match onward.speaks {
        Some(_) => recording.agent_answer(task, &question),
        None => recording.free_answer(task, &question),
    };
    found.and_then(Answer::recorded)
}

async fn send(shared: &Shared, onward: &Onward<'_>, body: Vec<u8>) -> Result<Response, String> {
    let Onward { api, upstream, method, path, request, .. } = onward;
    let url = shared.target(api.target(&upstream.address, path))?;
    let client = shared.client(*api, &url)?;
    let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
    let mut headers = HeaderMap::new();
    for (name, value) in request.fields() {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        let value = HeaderValue::from_bytes(value).map_err(|error| error.to_string())?;
        if !KEY_FIELDS.contains(&name.as_str()) {
            headers.append(name, value);
        }
    }
    // What is compressed could not be counted.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let (name, prefix) = api.key_header();
    let mut key = HeaderValue::from_str(&format!("{prefix}{}", upstream.key.reveal()))
        .map_err(|_| format!("{} cannot be sent as a header", api.key_variable()))?;
    key.set_sensitive(true);
    headers.insert(HeaderName::from_static(name), key);
    let sent = client.request(method, url).headers(headers).body(body).send().await;
    sent.map_err(crate::http::reason)
}

/// Fields of an answer that concern one connection, or that are written anew.
const OWN: [&str; 5] =
    ["connection", "content-length", "keep-alive", "transfer-encoding", "upgrade"];

fn answer_head(status: u16, headers: &HeaderMap, chunked: bool, keeps: bool) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} \r\n").into_bytes();
    for (name, value) in headers {
        if !OWN.contains(&name.as_str()) {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
    }
    if chunked {
        head.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    let word = if keeps { "keep-alive" } else { "close" };
    head.extend_from_slice(format!("connection: {word}\r\n\r\n").as_bytes());
    head
}

/// Answers in the agent's own words; whether another request can follow. None can after one that was not read to its end.
async fn refuse(
    connection: &Connection,
    api: Api,
    status: u16,
    told: &str,
    request: Option<&Request>,
) -> bool {
    let keeps = request.is_some_and(|request| request.keeps);
    let (status, body) = api.refusal(status, told);
    let word = if keeps { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status} \r\ncontent-type: application/json\r\nx-should-retry: {}\r\ncontent-length: {}\r\nconnection: {word}\r\n\r\n",
        status >= 500,
        body.len()
    );
    // What follows the answer to a HEAD would be taken for the beginning of the next one.
    let body = if request.is_some_and(Request::is_head) { "" } else { &body };
    connection.write(&[head.as_bytes(), body.as_bytes()].concat()).await.is_ok() && keeps
}

/// The path behind the token; none if another one, or none, stands there.
fn beyond_token<'a>(path: &'a str, token: &str) -> Option<&'a str> {
    let rest = path.strip_prefix('/')?;
    let (given, rest) = rest.split_at_checked(token.len())?;
    // All of it is looked at, whatever is wrong: time tells nothing.
    let differs = given.bytes().zip(token.bytes()).fold(0, |sum, (one, two)| sum | (one ^ two));
    match rest {
        _ if differs != 0 => None,
        "" => Some("/"),
        rest => rest.starts_with('/').then_some(rest),
    }
}

/// Says once what a request counted for, at the latest when nobody is left who could say so.
struct Meter {
    hear: Hear,
    request: u64,
    model: String,
    price: Option<Price>,
    tap: Option<Tap>,
    asked: u64,
    began: bool,
    told: bool,
}

impl Meter {
    fn push(&mut self, bytes: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap.push(bytes);
            if tap.is_complete() {
                self.tell();
            }
        }
    }

    fn end(&mut self) {
        if let Some(tap) = &mut self.tap {
            tap.end();
        }
        self.tell();
    }

    fn tell(&mut self) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let tap = self.tap.as_ref();
        let mut usage = charge(&Passed {
            usage: tap.map(Tap::usage).unwrap_or_default(),
            asked: self.asked,
            said: tap.map_or(0, Tap::said),
            began: self.began,
            whole: tap.is_some_and(Tap::is_complete),
        });
        let fees = tap.map_or(0, Tap::fees);
        usage.nanodollars =
            price::charge(&usage, self.price.as_ref()).map(|tokens| tokens.saturating_add(fees));
        let (request, model) = (self.request, std::mem::take(&mut self.model));
        (self.hear)(AgentNews::Passed { request, model, usage });
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.tell();
    }
}

/// The request as a recording has it, and what covers its keys.
fn question(shared: &Shared, onward: &Onward<'_>, body: &[u8]) -> (Question, Cover) {
    let cover = Cover::new(shared.options.upstreams.iter().map(|known| known.key.reveal()));
    let text = || String::from_utf8_lossy(body).into();
    let request = serde_json::from_slice(body).unwrap_or_else(|_| text());
    let dialect = match onward.speaks {
        Some(Speaks::AnthropicMessages) => "anthropic_messages",
        Some(Speaks::OpenAiResponses) => "openai_responses",
        Some(Speaks::OpenAiChat) => "openai_chat",
        Some(Speaks::GoogleGenerate) => "google_generate",
        None => "free",
    };
    let question = Question {
        provider: onward.api.name().to_owned(),
        dialect: dialect.to_owned(),
        method: onward.method.to_owned(),
        path: cover.text(onward.path),
        request: cover.json(&request),
    };
    (question, cover)
}

/// What is written down of an exchange, where that is wanted.
struct Notes(Option<(Question, Tape, Cover)>);

impl Notes {
    fn begin(shared: &Shared, onward: &Onward<'_>, body: &[u8]) -> Notes {
        let Traffic::Record(_) = &shared.options.traffic else { return Notes(None) };
        let (question, cover) = question(shared, onward, body);
        Notes(Some((question, Tape::start(), cover)))
    }

    fn hear(&mut self, chunk: &[u8]) {
        if let Some((_, tape, _)) = &mut self.0 {
            tape.hear(chunk);
        }
    }

    fn end(&mut self, shared: &Shared, ended: Result<(u16, &HeaderMap), TransportError>) {
        let (Traffic::Record(recorder), Some((question, tape, cover))) =
            (&shared.options.traffic, self.0.take())
        else {
            return;
        };
        let ended = ended.map(|(status, headers)| {
            let headers = crate::http::plain_headers(headers);
            Finished { status, headers, body: Vec::new() }
        });
        // The agent has its answer already: a folder that cannot be written takes nothing from it.
        let _ = recorder.write(question, tape, &ended, &cover);
    }
}
