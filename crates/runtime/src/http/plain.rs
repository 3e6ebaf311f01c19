//! HTTP/1.1 in the clear: models on this machine and gateways to others. A waiting call holds a socket and no
//! buffer; what comes is read in large pieces and handed on as it stands, all that came at once, or for one picture, in one go.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use reqwest::Url;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use wire::model::HttpRequest;

use super::pace::{Pace, gather};
use super::{
    CONNECT, Call, Chunk, ERROR_PATIENCE, Finished, KeyHeader, LINGER, Reader, TransportError,
    Unpacker, unpacked,
};

/// How long a connection that nobody uses is kept.
const KEPT: Duration = Duration::from_secs(60);

/// What is read at once at most.
const MOST_READ: usize = 64 << 10;

thread_local! {
    /// Where all calls read to, one after the other: nothing stays in it.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The largest head of an answer, and the longest line between two chunks.
const MAX_HEAD: usize = 64 << 10;
const MAX_LINE: usize = 1 << 10;

/// Connections that wait to be used again, by address; the one used last at the end.
static IDLE: Mutex<BTreeMap<String, Vec<(TcpStream, Instant)>>> = Mutex::new(BTreeMap::new());

/// Sends the request and reads the answer.
pub(super) async fn perform(
    call: &Call,
    url: &Url,
    key: Option<KeyHeader<'_>>,
    request: HttpRequest,
    reader: Reader<'_>,
) -> Result<Finished, TransportError> {
    let length = request.parts().iter().map(|part| part.len()).sum();
    let head = head(url, &request.headers, key, length)?;
    let address = format!(
        "{}:{}",
        url.host_str().unwrap_or_default(),
        url.port_or_known_default().unwrap_or(80)
    );
    let unreachable =
        |reason: String| TransportError::Unreachable { origin: call.origin.clone(), reason };
    let mut used = used_before(&address);
    let mut question = Some((head, request));
    let (mut answer, Head { status, headers }) = loop {
        let may_be_stale = used.is_some();
        let stream = match used.take() {
            Some(stream) => stream,
            None => connect(&address).await.map_err(unreachable)?,
        };
        let mut answer = Answer::new(call, stream);
        let sent = match &question {
            Some((head, request)) => {
                let [one, two, three] = request.parts();
                answer.send([head, one, two, three]).await?
            }
            None => Ok(()),
        };
        if !may_be_stale {
            // While it waits it holds nothing, and what it shared can grow again.
            question = None;
        }
        // A server may answer before it has read everything: what it says counts more than that it closed its ears.
        let began = answer.head().await;
        match (sent, began) {
            (_, Ok(head)) => break (answer, head),
            // Some servers promise to keep a connection and close it just when the next question comes: nobody has
            // read that, so it is asked on a new one.
            (Err(_), Err(_)) | (Ok(()), Err(Ended::Broken(_)))
                if may_be_stale && answer.buffer.is_empty() => {}
            (Err(reason), Err(_)) | (Ok(()), Err(Ended::Broken(reason))) => {
                return Err(unreachable(reason));
            }
            (Ok(()), Err(Ended::Failed(error))) => return Err(error),
        }
    };
    drop(question);
    let mut finished = Finished { status, headers, body: Vec::new() };
    let damage = if status == 200 {
        let mut unpacker = Unpacker::new(&mut finished.headers, reader);
        answer.stream(&mut |chunk| unpacker.take(chunk)).await?;
        unpacker.damage()
    } else {
        answer.waiting.limit = ERROR_PATIENCE.min(call.limits.idle);
        answer.waiting.since = Instant::now();
        let body = answer.error_body().await;
        finished.body = unpacked(&mut finished.headers, body, call.limits.error_body);
        None
    };
    if answer.framing == Framing::Ended && answer.is_kept && answer.buffer.is_empty() {
        keep(address, answer.stream);
    }
    call.unless_damaged(damage, finished)
}

async fn connect(address: &str) -> Result<TcpStream, String> {
    let connecting = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
    let stream = connecting
        .map_err(|_| format!("no connection within {} s", CONNECT.as_secs()))?
        .map_err(|error| error.to_string())?;
    // Requests are written whole; waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// A connection to the address that its server has not closed.
fn used_before(address: &str) -> Option<TcpStream> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let streams = idle.get_mut(address)?;
    while let Some((stream, since)) = streams.pop() {
        // Nothing may come unasked: an end, an error and a byte all say that it is of no more use.
        let is_quiet = matches!(
            rustix::net::recv(
                &stream,
                &mut [0_u8; 1],
                rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT
            ),
            Err(rustix::io::Errno::AGAIN)
        );
        if is_quiet && since.elapsed() < KEPT {
            return Some(stream);
        }
    }
    idle.remove(address);
    None
}

fn keep(address: String, stream: TcpStream) {
    // Each change is one push or one removal, so the map is whole after any panic.
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let streams = idle.entry(address).or_default();
    if streams.first().is_some_and(|(_, since)| since.elapsed() > KEPT) {
        streams.retain(|(_, since)| since.elapsed() <= KEPT);
    }
    streams.push((stream, Instant::now()));
}

/// The request up to its body.
fn head(
    url: &Url,
    headers: &[(String, String)],
    key: Option<KeyHeader<'_>>,
    length: usize,
) -> Result<Vec<u8>, TransportError> {
    let mut head = Vec::with_capacity(512);
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = url.path();
    for part in ["POST ", path, &query, " HTTP/1.1\r\nhost: ", host, &port] {
        head.extend_from_slice(part.as_bytes());
    }
    let length = length.to_string();
    for (name, value) in
        [("user-agent", super::AGENT), ("accept-encoding", "identity"), ("content-length", &length)]
    {
        add_header(&mut head, name, "", value)?;
    }
    for (name, value) in headers {
        add_header(&mut head, name, "", value)?;
    }
    if let Some(KeyHeader { name, prefix, key }) = key {
        add_header(&mut head, name, prefix, key.reveal())?;
    }
    head.extend_from_slice(b"\r\n\r\n");
    Ok(head)
}

fn add_header(
    head: &mut Vec<u8>,
    name: &str,
    prefix: &str,
    value: &str,
) -> Result<(), TransportError> {
    // Nothing that could end the line, or the name.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_text = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    if name.is_empty() || !name.bytes().all(is_name) || !value.bytes().all(is_text) {
        return Err(super::not_a_header(name));
    }
    for part in ["\r\n", name, ": ", prefix, value] {
        head.extend_from_slice(part.as_bytes());
    }
    Ok(())
}

/// The beginning of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
}

/// Where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After the last chunk.
    Chunks(Chunks),
    /// With the connection.
    Close,
    /// It has ended.
    Ended,
}

/// What comes next of a body in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunks {
    /// The line with the next chunk's size.
    Size,
    /// So many bytes of a chunk.
    Data(u64),
    /// The end of the line after a chunk.
    After,
    /// Lines after the last chunk, up to an empty one.
    Trailers,
}

/// Why reading ended before its time.
enum Ended {
    /// The connection, for this reason.
    Broken(String),
    /// The time was over.
    Failed(TransportError),
}

struct Answer<'c> {
    call: &'c Call,
    stream: TcpStream,
    /// What was read and not yet understood.
    buffer: Vec<u8>,
    framing: Framing,
    is_kept: bool,
    waiting: super::Waiting,
    pace: Pace,
    /// Fires when it may be too late; whether it is, is looked at then. So a piece costs no timer.
    timer: Pin<Box<Sleep>>,
}

impl<'c> Answer<'c> {
    fn new(call: &'c Call, stream: TcpStream) -> Answer<'c> {
        let waiting = super::Waiting { since: call.started, limit: call.limits.first };
        let timer = Box::pin(tokio::time::sleep(waiting.limit.min(call.limits.total)));
        let (buffer, framing, is_kept) = (Vec::new(), Framing::Close, true);
        let pace = Pace::default();
        Answer { call, stream, buffer, framing, is_kept, waiting, pace, timer }
    }

    /// Writes everything. The inner error is the connection's.
    async fn send(&mut self, parts: [&[u8]; 4]) -> Result<Result<(), String>, TransportError> {
        let mut slices = parts.map(IoSlice::new);
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.stream.try_write_vectored(left) {
                Ok(bytes) => IoSlice::advance_slices(&mut left, bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match self.writable().await {
                        Ok(()) => {}
                        Err(Ended::Broken(reason)) => return Ok(Err(reason)),
                        Err(Ended::Failed(error)) => return Err(error),
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(error.to_string())),
            }
        }
        Ok(Ok(()))
    }

    /// Reads the head of the answer; interim ones are passed over.
    async fn head(&mut self) -> Result<Head, Ended> {
        let broken = |reason: &str| Ended::Broken(reason.to_owned());
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let read = read_head(&self.buffer[..end]);
                let (head, version) = read.ok_or_else(|| broken("its answer is no HTTP"))?;
                self.buffer.drain(..end + 4);
                if (100..200).contains(&head.status) {
                    continue;
                }
                let frame = framing(&head).ok_or_else(|| broken("its answer has no clear end"))?;
                self.framing = frame;
                let closes = head.headers.iter().any(|(name, value)| {
                    name == "connection" && value.to_ascii_lowercase().contains("close")
                });
                self.is_kept = version == 1 && !closes && self.framing != Framing::Close;
                return Ok(head);
            }
            if let Some(foreign) = foreign(&self.buffer) {
                return Err(broken(foreign));
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(broken("the head of its answer is too large"));
            }
            if self.read().await? == 0 {
                return Err(broken("the connection was closed before an answer"));
            }
        }
    }

    /// Gives the body to the reader as it comes.
    async fn stream(&mut self, reader: Reader<'_>) -> Result<(), TransportError> {
        let mut wanted = true;
        loop {
            let body = self.take().map_err(|reason| self.broken(reason))?;
            if wanted && body > 0 {
                match reader(&self.buffer[..body]) {
                    Chunk::Counted => {
                        let (since, limit) = (Instant::now(), self.call.limits.idle);
                        self.pace.hear(since - self.waiting.since);
                        self.waiting = super::Waiting { since, limit };
                        self.wake_in_time();
                    }
                    Chunk::Part => {
                        self.waiting.since = Instant::now();
                        self.wake_in_time();
                    }
                    Chunk::Busy => self.waiting.grow(&self.call.limits),
                    Chunk::Empty => {}
                    Chunk::Last => {
                        wanted = false;
                        self.waiting = super::Waiting { since: Instant::now(), limit: LINGER };
                        self.timer.as_mut().reset((Instant::now() + LINGER).into());
                    }
                }
            }
            self.buffer.drain(..body);
            if self.framing == Framing::Ended {
                return Ok(());
            }
            let rest = self.pace.rest(self.waiting.since, body);
            if let Some(until) = rest.filter(|_| wanted) {
                gather(&self.stream, until).await;
            }
            match self.read().await {
                Ok(0) if self.framing == Framing::Close => {
                    self.framing = Framing::Ended;
                }
                // Whether the end comes or not changes nothing for an answer that was read.
                Ok(0) | Err(_) if !wanted => return Ok(()),
                Ok(0) => return Err(self.broken("it ended too early".to_owned())),
                Ok(_) => {}
                Err(Ended::Broken(reason)) => return Err(self.broken(reason)),
                Err(Ended::Failed(error)) => return Err(error),
            }
        }
    }

    /// As much of the body as comes in time and fits: the status alone already says that it failed.
    async fn error_body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let most = self.call.limits.error_body;
        self.timer.as_mut().reset((Instant::now() + self.waiting.limit).into());
        loop {
            let Ok(length) = self.take() else { return body };
            let room = most - body.len();
            body.extend_from_slice(&self.buffer[..length.min(room)]);
            self.buffer.drain(..length);
            if length >= room || self.framing == Framing::Ended {
                return body;
            }
            if !matches!(self.read().await, Ok(1..)) {
                return body;
            }
        }
    }

    /// Takes the framing out of what was read: the first so many bytes of the buffer are of the body.
    fn take(&mut self) -> Result<usize, String> {
        match self.framing {
            Framing::Close => Ok(self.buffer.len()),
            Framing::Ended => Ok(0),
            Framing::Length(left) => {
                let here = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - here as u64;
                self.framing = if left == 0 { Framing::Ended } else { Framing::Length(left) };
                Ok(here)
            }
            Framing::Chunks(state) => {
                let (body, state) = unchunk(&mut self.buffer, state)?;
                self.framing = state.map_or(Framing::Ended, Framing::Chunks);
                Ok(body)
            }
        }
    }

    /// Reads what is there, once something is; 0 at the end.
    async fn read(&mut self) -> Result<usize, Ended> {
        poll_fn(|context| {
            // What came is copied once it is there: a call that waits holds no buffer.
            let read = SCRATCH.with_borrow_mut(|scratch| {
                scratch.resize(MOST_READ, 0);
                let mut room = ReadBuf::new(scratch);
                let read = Pin::new(&mut self.stream).poll_read(context, &mut room);
                self.buffer.extend_from_slice(room.filled());
                read.map_ok(|()| room.filled().len())
            });
            match read {
                Poll::Ready(Ok(bytes)) => Poll::Ready(Ok(bytes)),
                Poll::Ready(Err(error)) => Poll::Ready(Err(Ended::Broken(error.to_string()))),
                Poll::Pending => self.poll_late(context),
            }
        })
        .await
    }

    /// Waits until the stream can be written, as long as that may take.
    async fn writable(&mut self) -> Result<(), Ended> {
        poll_fn(|context| match self.stream.poll_write_ready(context) {
            Poll::Ready(ready) => {
                Poll::Ready(ready.map_err(|error| Ended::Broken(error.to_string())))
            }
            Poll::Pending => self.poll_late(context),
        })
        .await
    }

    /// Sets the timer anew if it would fire too late: the first wait may be the longest.
    fn wake_in_time(&mut self) {
        let until = self.call.until(&self.waiting).into();
        if until < self.timer.deadline() {
            self.timer.as_mut().reset(until);
        }
    }

    /// Ready once it is too late.
    fn poll_late<T>(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Ended>> {
        while self.timer.as_mut().poll(context).is_ready() {
            if let Some(error) = self.call.overdue(&self.waiting) {
                return Poll::Ready(Err(Ended::Failed(error)));
            }
            let until = self.call.until(&self.waiting);
            self.timer.as_mut().reset(until.into());
        }
        Poll::Pending
    }

    fn broken(&self, reason: String) -> TransportError {
        TransportError::Broken { origin: self.call.origin.clone(), reason }
    }
}

/// The status, the headers and the minor version of a head. None if it is none.
fn read_head(bytes: &[u8]) -> Option<(Head, u8)> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split("\r\n");
    let line = lines.next()?.strip_prefix("HTTP/1.")?;
    let (version, rest) = line.split_once(' ')?;
    let version = version.parse().ok()?;
    let status: u16 = rest.get(..3)?.parse().ok()?;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        if name.is_empty() || name.contains([' ', '\t']) {
            return None;
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Some((Head { status, headers }, version))
}

/// Where the body of an answer ends. None if the head says nothing clear.
fn framing(head: &Head) -> Option<Framing> {
    let all = |name: &str| -> Vec<&str> {
        let named = head.headers.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str()).collect()
    };
    let codings = all("transfer-encoding");
    if let Some(last) = codings.last() {
        let is_chunked = codings.len() == 1 && last.eq_ignore_ascii_case("chunked");
        return is_chunked.then_some(Framing::Chunks(Chunks::Size));
    }
    let lengths = all("content-length");
    if matches!(head.status, 204 | 304) {
        return Some(Framing::Ended);
    }
    match lengths.as_slice() {
        [] => Some(Framing::Close),
        [first, rest @ ..] if rest.iter().all(|other| other == first) => match first.parse() {
            Ok(0) => Some(Framing::Ended),
            Ok(length) => Some(Framing::Length(length)),
            Err(_) => None,
        },
        _ => None,
    }
}

/// Moves the bytes of all chunks in the buffer to its beginning, next to each other, and what is not understood yet
/// behind them. Says how many bytes of the body there are, and what comes next; none after the last chunk.
fn unchunk(buffer: &mut Vec<u8>, mut state: Chunks) -> Result<(usize, Option<Chunks>), String> {
    let (mut from, mut to) = (0, 0);
    let mut next = None;
    loop {
        match state {
            Chunks::Data(left) => {
                let here = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len() - from);
                buffer.copy_within(from..from + here, to);
                from += here;
                to += here;
                if (here as u64) < left {
                    next = Some(Chunks::Data(left - here as u64));
                    break;
                }
                state = Chunks::After;
            }
            Chunks::After | Chunks::Size | Chunks::Trailers => {
                let rest = &buffer[from..];
                let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                    if rest.len() > MAX_LINE {
                        return Err("a line between two chunks is too long".to_owned());
                    }
                    next = Some(state);
                    break;
                };
                let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
                let is_empty = line.is_empty();
                state = match state {
                    Chunks::After if is_empty => Chunks::Size,
                    Chunks::After => return Err("a chunk is longer than it says".to_owned()),
                    Chunks::Trailers if is_empty => {
                        from += end + 1;
                        break;
                    }
                    Chunks::Trailers => Chunks::Trailers,
                    Chunks::Size | Chunks::Data(_) => match chunk_size(line) {
                        Some(0) => Chunks::Trailers,
                        Some(size) => Chunks::Data(size),
                        None => return Err("a chunk does not say how long it is".to_owned()),
                    },
                };
                from += end + 1;
            }
        }
    }
    buffer.drain(to..from);
    Ok((to, next))
}

/// What an answer is that does not begin as one of HTTP.
fn foreign(answer: &[u8]) -> Option<&'static str> {
    const BEGIN: &[u8] = b"HTTP/";
    if BEGIN.starts_with(&answer[..answer.len().min(BEGIN.len())]) {
        return None;
    }
    Some(match answer {
        // An alert, or a handshake.
        [0x15 | 0x16, 3, ..] => "what it says is encrypted: it may be a server for https://",
        _ => "its answer is no HTTP",
    })
}

/// The size of a chunk; what stands after it means nothing.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let (mut size, mut digits) = (0_u64, 0);
    for byte in line {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b';' | b' ' | b'\t' => break,
            _ => return None,
        };
        digits += 1;
        if digits > 15 {
            return None;
        }
        size = (size << 4) | u64::from(digit);
    }
    (digits > 0).then_some(size)
}

#[cfg(test)]
mod tests;
