//! HTTP/1.1 as the fake model's server speaks it: requests are read strictly, within bounds and within a time.
//! What is ambiguous (two lengths, a folded header, a bare line feed) is refused, and the connection ends.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use machine::time::Span;

use super::Limits;

/// The most of a request line with its headers, and of the trailers after a chunked body.
const MAX_HEAD: usize = 32 << 10;
/// The most of a body.
const MAX_BODY: usize = 32 << 20;
/// The most of the line before a chunk.
const MAX_CHUNK_LINE: usize = 1 << 10;
/// How much is read at once.
const PIECE: usize = 64 << 10;
/// How often a wait looks whether the client is still there, if that cannot wake it.
const GLANCE: Duration = Duration::from_millis(10);
/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) version: Version,
    /// Whether the connection may serve another one.
    pub(super) keeps_alive: bool,
}

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// No chunks; the end of the body is the end of the connection.
    Http10,
    Http11,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The client is gone, or has been silent for too long between requests.
    Closed,
    /// To be answered with this status; then the connection ends.
    Refused(u16, String),
}

/// What comes next on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Another request.
    Request,
    /// Its orderly end.
    Close,
    /// Its end in the middle of an answer.
    Cut,
}

/// How the length of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// One client.
pub(super) struct Connection {
    stream: TcpStream,
    limits: Limits,
    /// What was read; up to `at` it is used.
    buffer: Vec<u8>,
    at: usize,
    /// Whether the answer under way goes out in chunks.
    chunked: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, limits: Limits) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(limits.write))?;
        Ok(Connection { stream, limits, buffer: Vec::new(), at: 0, chunked: false })
    }

    /// The next request, whole.
    pub(super) fn next(&mut self) -> Result<Request, Stop> {
        if self.rest().is_empty() {
            let idle = Instant::now() + self.limits.idle;
            self.fill(idle).map_err(|_| Stop::Closed)?;
        }
        let head = self.head(Instant::now() + self.limits.head)?;
        let (mut request, framing) = parse(&head)?;
        if let Some(expected) = header(&request.headers, "expect") {
            if !expected.eq_ignore_ascii_case("100-continue") {
                return refused(417, format!("cannot fulfil the expectation {expected:?}"));
            }
            let waits = request.version == Version::Http11 && framing != Framing::Length(0);
            if waits && self.rest().is_empty() {
                let go_on = self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
                go_on.map_err(|_| Stop::Closed)?;
            }
        }
        let until = Instant::now() + self.limits.body;
        match framing {
            Framing::Length(length) => self.take(length, &mut request.body, until)?,
            Framing::Chunked => self.chunks(&mut request.body, until)?,
        }
        Ok(request)
    }

    /// Sends a whole answer.
    pub(super) fn reply(
        &mut self,
        request: &Request,
        status: u16,
        headers: &[(String, String)],
        body: &[u8],
    ) -> io::Result<Next> {
        let next = if request.keeps_alive { Next::Request } else { Next::Close };
        let is_bodiless = request.method == "HEAD" || matches!(status, 204 | 304);
        self.answer(status, headers, body, is_bodiless, next)?;
        Ok(next)
    }

    /// Answers a request that could not be read.
    pub(super) fn refuse(&mut self, status: u16, body: &[u8]) -> io::Result<()> {
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        self.answer(status, &headers, body, false, Next::Close)
    }

    fn answer(
        &mut self,
        status: u16,
        headers: &[(String, String)],
        body: &[u8],
        is_bodiless: bool,
        next: Next,
    ) -> io::Result<()> {
        let mut bytes = opening(status, headers, next);
        if status != 204 && status != 304 {
            bytes.extend(format!("content-length: {}\r\n", body.len()).into_bytes());
        }
        bytes.extend(b"\r\n");
        if !is_bodiless {
            bytes.extend(body);
        }
        self.stream.write_all(&bytes)
    }

    /// Begins an answer that comes in pieces.
    pub(super) fn begin(
        &mut self,
        request: &Request,
        status: u16,
        headers: &[(String, String)],
    ) -> io::Result<()> {
        self.chunked = request.version == Version::Http11;
        let next = if request.keeps_alive { Next::Request } else { Next::Close };
        let mut bytes = opening(status, headers, next);
        if self.chunked {
            bytes.extend(b"transfer-encoding: chunked\r\n");
        }
        bytes.extend(b"\r\n");
        self.stream.write_all(&bytes)
    }

    /// Sends a piece in one write.
    pub(super) fn piece(&mut self, piece: &[u8]) -> io::Result<()> {
        if !self.chunked {
            return self.stream.write_all(piece);
        }
        // An empty chunk would be the end.
        if piece.is_empty() {
            return Ok(());
        }
        let mut bytes = format!("{:x}\r\n", piece.len()).into_bytes();
        bytes.extend(piece);
        bytes.extend(b"\r\n");
        self.stream.write_all(&bytes)
    }

    /// Ends an answer that came in pieces.
    pub(super) fn end(&mut self, request: &Request) -> io::Result<Next> {
        if self.chunked {
            self.stream.write_all(b"0\r\n\r\n")?;
        }
        Ok(if request.keeps_alive { Next::Request } else { Next::Close })
    }

    /// Is silent for a while; an error if the client goes away meanwhile.
    pub(super) fn pause(&mut self, Span(millis): Span) -> io::Result<()> {
        let begun = Instant::now();
        let span = Duration::from_millis(millis);
        loop {
            let left = span.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            self.stream.set_read_timeout(Some(left.min(Duration::from_secs(60))))?;
            match self.stream.peek(&mut [0]) {
                Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
                // The next request is there already: nothing wakes the wait any more.
                Ok(_) => std::thread::sleep(left.min(GLANCE)),
                Err(error) if is_for_now(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the connection so that the last answer arrives: the client may go on sending for a while. Closing at
    /// once could destroy what it has not read yet.
    pub(super) fn close(mut self, linger: Duration) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let until = Instant::now() + linger;
        self.at = self.buffer.len();
        while self.fill(until).is_ok() {
            self.at = self.buffer.len();
        }
    }

    /// Ends the connection as it is.
    pub(super) fn cut(self) {
        // If it is gone already, all the better.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Reads once, until some time.
    fn fill(&mut self, until: Instant) -> Result<(), Stop> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let filled = self.buffer.len();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return refused(408, "the request came too slowly");
            }
            self.stream.set_read_timeout(Some(left)).map_err(|_| Stop::Closed)?;
            self.buffer.resize(filled + PIECE, 0);
            let got = self.stream.read(&mut self.buffer[filled..]);
            self.buffer.truncate(filled + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => return Err(Stop::Closed),
                Ok(_) => return Ok(()),
                Err(error) if is_for_now(&error) => {}
                Err(_) => return Err(Stop::Closed),
            }
        }
    }

    /// The request line and the headers, without the empty line after them.
    fn head(&mut self, until: Instant) -> Result<Vec<u8>, Stop> {
        let mut head = Vec::new();
        loop {
            let line = self.line(MAX_HEAD, 431, until)?;
            // Some clients send an empty line after a body.
            if line.is_empty() && head.is_empty() {
                continue;
            }
            if line.is_empty() {
                return Ok(head);
            }
            if head.len() + line.len() + 2 > MAX_HEAD {
                return refused(431, too_long(MAX_HEAD));
            }
            head.extend(line);
            head.extend(b"\r\n");
        }
    }

    /// A line without its end, which is a carriage return and a line feed.
    fn line(&mut self, most: usize, status: u16, until: Instant) -> Result<Vec<u8>, Stop> {
        let mut seen = 0;
        loop {
            if let Some(found) = self.rest()[seen..].iter().position(|byte| *byte == b'\n') {
                let line = self.rest()[..seen + found].to_vec();
                self.at += line.len() + 1;
                return match line.strip_suffix(b"\r") {
                    Some(line) if line.len() > most => refused(status, too_long(most)),
                    Some(line) => Ok(line.to_vec()),
                    None => refused(400, "a line ends without a carriage return"),
                };
            }
            seen = self.rest().len();
            // The carriage return may be there before its line feed.
            if seen > most + 1 {
                return refused(status, too_long(most));
            }
            self.fill(until)?;
        }
    }

    /// So many bytes.
    fn take(&mut self, mut count: usize, into: &mut Vec<u8>, until: Instant) -> Result<(), Stop> {
        while count > 0 {
            if self.rest().is_empty() {
                self.fill(until)?;
            }
            let taken = count.min(self.rest().len());
            into.extend(&self.buffer[self.at..self.at + taken]);
            self.at += taken;
            count -= taken;
        }
        Ok(())
    }

    fn chunks(&mut self, body: &mut Vec<u8>, until: Instant) -> Result<(), Stop> {
        loop {
            let line = self.line(MAX_CHUNK_LINE, 400, until)?;
            let size = chunk_size(&line)?;
            if size == 0 {
                break;
            }
            if size > MAX_BODY - body.len() {
                return refused(413, too_long(MAX_BODY));
            }
            self.take(size, body, until)?;
            let mut end = Vec::new();
            self.take(2, &mut end, until)?;
            if end != b"\r\n" {
                return refused(400, "a chunk is longer than it says");
            }
        }
        // Trailers mean nothing here.
        let mut left = MAX_HEAD;
        loop {
            let line = self.line(left, 431, until)?;
            if line.is_empty() {
                return Ok(());
            }
            left = left.saturating_sub(line.len() + 2);
        }
    }
}

/// The value of a header.
pub(super) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Reads a request line and headers.
fn parse(head: &[u8]) -> Result<(Request, Framing), Stop> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
    let (method, target, version) = request_line(lines.next().unwrap_or_default())?;
    let mut headers = Vec::new();
    for line in lines {
        let Some((name, value)) = line.split_once(':').filter(|(name, _)| is_token(name)) else {
            return refused(400, "a header is no name, a colon and a value");
        };
        let value = value.trim_matches([' ', '\t']);
        if value.chars().any(|c| c.is_ascii_control() && c != '\t') {
            return refused(400, "a header holds a control character");
        }
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let all = |name: &'static str| {
        headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    if version == Version::Http11 && all("host").count() != 1 {
        return refused(400, "expected one host header");
    }
    let framing = framing(
        &all("content-length").collect::<Vec<_>>(),
        &all("transfer-encoding").collect::<Vec<_>>(),
        version,
    )?;
    let closes = all("connection")
        .flat_map(|value| value.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case("close"));
    let keeps_alive = version == Version::Http11 && !closes;
    Ok((Request { method, target, headers, body: Vec::new(), version, keeps_alive }, framing))
}

fn request_line(line: &str) -> Result<(String, String, Version), Stop> {
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else {
        return refused(400, "the request line is no method, target and version");
    };
    let version = match version {
        "HTTP/1.1" => Version::Http11,
        "HTTP/1.0" => Version::Http10,
        other if other.starts_with("HTTP/") => {
            return refused(505, "only HTTP/1.1 is spoken here");
        }
        _ => return refused(400, "the request line does not end with a version"),
    };
    if !is_token(method) || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused(400, "the request line holds what it must not");
    }
    // The whole URL is how a proxy is asked; what matters is what follows the host.
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    if !path.starts_with('/') && path != "*" {
        return refused(400, "the target is no path");
    }
    Ok((method.to_owned(), path.to_owned(), version))
}

fn framing(lengths: &[&str], encodings: &[&str], version: Version) -> Result<Framing, Stop> {
    match (lengths, encodings) {
        ([], []) => Ok(Framing::Length(0)),
        ([length], []) => {
            if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
                return refused(400, "the content-length is no number");
            }
            // A number that does not fit is too large, too.
            match length.parse::<usize>() {
                Ok(length) if length <= MAX_BODY => Ok(Framing::Length(length)),
                _ => refused(413, too_long(MAX_BODY)),
            }
        }
        ([], [encoding]) if version == Version::Http11 => {
            if encoding.eq_ignore_ascii_case("chunked") {
                Ok(Framing::Chunked)
            } else {
                refused(501, format!("the transfer-encoding {encoding:?} is not known"))
            }
        }
        _ => refused(400, "the length of the body is told in more than one way"),
    }
}

/// The size before a chunk; what follows a semicolon means nothing here.
fn chunk_size(line: &[u8]) -> Result<usize, Stop> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let text = std::str::from_utf8(digits).unwrap_or_default();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return refused(400, "the size of a chunk is no number");
    }
    usize::from_str_radix(text, 16).or_else(|_| refused(413, too_long(MAX_BODY)))
}

fn is_token(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_fit)
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn refused<T>(status: u16, message: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Refused(status, message.into()))
}

fn too_long(most: usize) -> String {
    format!("the request is too long: at most {most} bytes are read here")
}

/// The status line and the headers that are the same for every body.
fn opening(status: u16, headers: &[(String, String)], next: Next) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if next != Next::Request {
        text.push_str("connection: close\r\n");
    }
    text.into_bytes()
}

/// The words of a status, which no client reads but people do.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        529 => "Overloaded",
        _ => "By The Script",
    }
}
