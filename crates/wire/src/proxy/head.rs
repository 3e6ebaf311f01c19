//! Heads of HTTP/1.1 requests and answers, read strictly and written anew.
//!
//! Nothing of a head is passed on as it came: the request line, the host and the framing are written from what was
//! read, so that the server behind reads the same message that was judged.

use machine::policy::hosts::{Host, parse_port};
use memchr::memmem;

use super::Fault;

/// The longest head, in bytes.
pub const MAX_HEAD: usize = 32 * 1024;
/// The most fields in a head.
const MAX_FIELDS: usize = 128;

/// How the requests of a connection name what they want.
#[derive(Debug, Clone, Copy)]
pub enum Form<'a> {
    /// To a proxy: `CONNECT host:port`, or a whole address.
    Proxy,
    /// Inside a tunnel to this host and port: a path, and the host in its field.
    Tunnel(&'a Host, u16),
}

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks, each with its size.
    Chunked,
    /// All that comes until the connection ends; answers only.
    UntilEnd,
}

/// What a request wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A tunnel.
    Tunnel,
    /// An answer to a request of this method for this path.
    Answer {
        /// The method, as it came.
        method: String,
        /// The path with its query; begins with a slash.
        path: String,
    },
}

/// A request that can be judged and passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is wanted.
    pub wish: Wish,
    /// Of whom.
    pub host: Host,
    /// At which port.
    pub port: u16,
    /// How long the body is.
    pub body: Body,
    /// Whether the client will send another request on the same connection.
    pub keeps: bool,
    /// Whether the client waits for a word before it sends the body.
    pub expects: bool,
    /// Whether the client understands chunks.
    pub chunks: bool,
    fields: Vec<Field>,
}

/// The head of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// How long the body is.
    pub body: Body,
    fields: Vec<Field>,
}

type Field = (String, Vec<u8>);

/// Where the head ends: behind its empty line. `None` as long as that has not come.
pub fn end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

impl Request {
    /// Reads a head, its empty line included.
    pub fn parse(head: &[u8], form: Form<'_>) -> Result<Request, Fault> {
        let (line, fields) = split(head)?;
        let mut words = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Fault::new(
                "expected a request line of three words with one space between",
            ));
        };
        if !is_token(method) || target.is_empty() {
            return Err(Fault::new("expected a method and a target in the request line"));
        }
        let newer = match version {
            "HTTP/1.1" => true,
            "HTTP/1.0" => false,
            _ => return Err(Fault::new("expected HTTP/1.1 or HTTP/1.0")),
        };
        let (wish, written, host, port) = match form {
            Form::Proxy => at_proxy(method, target)?,
            Form::Tunnel(host, port) => in_tunnel(method, target, host, port)?,
        };
        let wrap = |fault: Fault| fault.asking(written);
        check_host(&fields, &host, port, newer && wish != Wish::Tunnel).map_err(wrap)?;
        let body = framing(&fields, newer).map_err(wrap)?.unwrap_or(Body::None);
        if wish == Wish::Tunnel && body != Body::None {
            return Err(wrap(Fault::new("a request for a tunnel has no body")));
        }
        let connection = connection(&fields).map_err(wrap)?;
        let said = |word: &str| connection.iter().any(|own| own == word);
        let keeps = if newer { !said("close") } else { said("keep-alive") };
        let expects = match one(&fields, "expect").map_err(wrap)? {
            None => false,
            Some(value) if value.eq_ignore_ascii_case(b"100-continue") => newer,
            Some(_) => return Err(wrap(Fault::new("an expectation that is not known here"))),
        };
        let fields = passed_on(fields, &connection);
        Ok(Request { wish, host, port, body, keeps, expects, chunks: newer, fields })
    }

    /// Whether only the head of the answer is wanted.
    pub fn is_head(&self) -> bool {
        matches!(&self.wish, Wish::Answer { method, .. } if method == "HEAD")
    }

    /// The fields that concern neither the connection nor the framing, as they came.
    pub fn fields(&self) -> &[(String, Vec<u8>)] {
        &self.fields
    }

    /// The head for the server behind. It is told to close, since each request has a connection of its own.
    pub fn onward(&self) -> Vec<u8> {
        let (method, path) = match &self.wish {
            Wish::Tunnel => ("CONNECT", "/"),
            Wish::Answer { method, path } => (method.as_str(), path.as_str()),
        };
        let port = if self.port == 80 { String::new() } else { format!(":{}", self.port) };
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {}{port}\r\n", self.host).into_bytes();
        write_fields(&mut head, &self.fields, self.body);
        head.extend_from_slice(b"Connection: close\r\n\r\n");
        head
    }
}

impl Answer {
    /// Reads a head that answers a request of this method, its empty line included.
    pub fn parse(head: &[u8], method: &str) -> Result<Answer, Fault> {
        let (line, fields) = split(head)?;
        let newer = line.starts_with("HTTP/1.1 ");
        let digits = line.get(9..12).unwrap_or_default();
        let status = digits.parse::<u16>().ok().filter(|status| (100..=599).contains(status));
        let ended = matches!(line.as_bytes().get(12), None | Some(b' '));
        let (Some(status), true, true) = (status, ended, newer || line.starts_with("HTTP/1.0 "))
        else {
            return Err(Fault::new("the answer does not begin with a status line of HTTP/1.1"));
        };
        let framed = framing(&fields, newer)?;
        let bodiless = method == "HEAD" || status < 200 || status == 204 || status == 304;
        let body = if bodiless { Body::None } else { framed.unwrap_or(Body::UntilEnd) };
        let connection = connection(&fields)?;
        let length =
            fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length")).cloned();
        let mut fields = passed_on(fields, &connection);
        // To a HEAD the length is information, not framing.
        fields.extend(length.filter(|_| bodiless && status >= 200 && status != 204));
        Ok(Answer { status, body, fields })
    }

    /// Whether another answer to the same request follows.
    pub fn is_provisional(&self) -> bool {
        self.status < 200
    }

    /// The head for the client. A client that does not understand chunks gets the bare bytes until the end.
    pub fn onward(&self, request: &Request, keeps: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} \r\n", self.status).into_bytes();
        let body = match self.body {
            Body::Chunked if !request.chunks => Body::UntilEnd,
            other => other,
        };
        write_fields(&mut head, &self.fields, body);
        if !self.is_provisional() {
            let word = if keeps { "keep-alive" } else { "close" };
            head.extend_from_slice(format!("Connection: {word}\r\n").as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

/// An answer of the proxy's own: a status and a line for a person. The connection ends after it.
pub fn own_answer(status: u16, phrase: &str, text: &str) -> Vec<u8> {
    // Text may quote what was asked for: it must not end the line or the field.
    let plain: String = text.chars().flat_map(char::escape_debug).collect();
    let body = format!("{plain}\n");
    format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nX-Proxy-Error: {}\r\nConnection: close\r\n\r\n{body}",
        body.len(),
        plain.chars().filter(char::is_ascii).take(300).collect::<String>(),
    )
    .into_bytes()
}

/// The first line and the fields, every byte of them checked.
fn split(head: &[u8]) -> Result<(&str, Vec<Field>), Fault> {
    if head.len() > MAX_HEAD {
        return Err(Fault::new("the head is longer than 32 KiB"));
    }
    let Some(head) = head.strip_suffix(b"\r\n\r\n") else {
        return Err(Fault::new("the head does not end in an empty line"));
    };
    let mut lines = Vec::new();
    let mut rest = head;
    loop {
        let at = memmem::find(rest, b"\r\n");
        let line = &rest[..at.unwrap_or(rest.len())];
        // Checked before anything is cut: a lone line break or a NUL is where two readers part.
        if line.iter().any(|&byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f) {
            return Err(Fault::new("the head holds a control character"));
        }
        lines.push(line);
        match at {
            Some(at) => rest = &rest[at + 2..],
            None => break,
        }
    }
    let first =
        std::str::from_utf8(lines[0]).ok().filter(|line| line.is_ascii() && !line.contains('\t'));
    let Some(first) = first else {
        return Err(Fault::new("the first line holds bytes that are not plain ASCII"));
    };
    if lines.len() - 1 > MAX_FIELDS {
        return Err(Fault::new("the head has more than 128 fields"));
    }
    let fields =
        lines[1..].iter().map(|line| field(line)).collect::<Result<Vec<Field>, Fault>>()?;
    Ok((first, fields))
}

fn field(line: &[u8]) -> Result<Field, Fault> {
    let at = line.iter().position(|byte| *byte == b':');
    let name =
        at.and_then(|at| std::str::from_utf8(&line[..at]).ok()).filter(|name| is_token(name));
    let (Some(at), Some(name)) = (at, name) else {
        return Err(Fault::new(
            "a line of the head is no field: expected a name, a colon, a value",
        ));
    };
    let value = line[at + 1..].trim_ascii();
    Ok((name.to_owned(), value.to_vec()))
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// What a request to a proxy wants: the wish, the host as written, the host, the port.
fn at_proxy<'a>(method: &str, target: &'a str) -> Result<(Wish, &'a str, Host, u16), Fault> {
    if method == "CONNECT" {
        let Some((name, port)) = target.rsplit_once(':') else {
            return Err(Fault::new("expected CONNECT host:port").asking(target));
        };
        let port = parse_port(port)
            .ok_or_else(|| Fault::new("expected a port from 1 to 65535").asking(name))?;
        return Ok((Wish::Tunnel, name, parse_host(name)?, port));
    }
    let scheme = target.get(..7).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("http://") {
        return Err(Fault::new(
            "expected a whole address that begins with http://, or CONNECT for anything else",
        ));
    }
    let rest = &target[7..];
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, digits)) if !digits.ends_with(']') => {
            let port = parse_port(digits);
            (name, port.ok_or_else(|| Fault::new("expected a port from 1 to 65535").asking(name))?)
        }
        _ => (authority, 80),
    };
    let host = parse_host(name)?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let wish = answer(method, path).map_err(|fault| fault.asking(name))?;
    Ok((wish, name, host, port))
}

fn in_tunnel<'a>(
    method: &str,
    target: &'a str,
    host: &Host,
    port: u16,
) -> Result<(Wish, &'a str, Host, u16), Fault> {
    if method == "CONNECT" || !target.starts_with('/') {
        return Err(Fault::new("expected a request for a path inside the tunnel"));
    }
    Ok((answer(method, target.to_owned())?, "", host.clone(), port))
}

fn answer(method: &str, path: String) -> Result<Wish, Fault> {
    if path.contains('#') {
        return Err(Fault::new("the target holds a fragment"));
    }
    Ok(Wish::Answer { method: method.to_owned(), path })
}

/// A host before a port: an IPv6 address stands in brackets, since a bare one could be cut anywhere.
fn parse_host(name: &str) -> Result<Host, Fault> {
    let host = Host::parse(name).map_err(|error| Fault::new(error.to_string()).asking(name))?;
    if name.contains(':') && !name.starts_with('[') {
        return Err(Fault::new("expected an IPv6 address in brackets").asking(name));
    }
    Ok(host)
}

/// The field `Host` names what the target names, or the server behind would be asked for somebody else.
fn check_host(fields: &[Field], host: &Host, port: u16, required: bool) -> Result<(), Fault> {
    let Some(value) = one(fields, "host")? else {
        return if required { Err(Fault::new("the field Host is missing")) } else { Ok(()) };
    };
    let value = std::str::from_utf8(value).unwrap_or_default();
    let (name, said) = match value.rsplit_once(':') {
        Some((name, digits)) if !digits.ends_with(']') => (name, parse_port(digits)),
        _ => (value, Some(port)),
    };
    if Host::parse(name).ok().as_ref() == Some(host) && said == Some(port) {
        Ok(())
    } else {
        Err(Fault::new(format!("the field Host says {value:?}, the target {host}:{port}")))
    }
}

/// How long the body is; `None` if nothing says so.
fn framing(fields: &[Field], newer: bool) -> Result<Option<Body>, Fault> {
    let length = one(fields, "content-length")?;
    match (one(fields, "transfer-encoding")?, length) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(Fault::new("both Content-Length and Transfer-Encoding say how long the body is"))
        }
        (Some(coding), None) if newer && coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Some(Body::Chunked))
        }
        (Some(_), None) => Err(Fault::new("a transfer coding other than chunked")),
        (None, Some(digits)) => {
            let plain =
                digits.len() <= 18 && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(digits)
                .ok()
                .filter(|_| plain)
                .and_then(|text| text.parse().ok());
            match number {
                Some(length) => Ok(Some(Body::Length(length))),
                None => Err(Fault::new("Content-Length is not one plain number")),
            }
        }
    }
}

/// The value of a field that may stand once.
fn one<'a>(fields: &'a [Field], name: &str) -> Result<Option<&'a [u8]>, Fault> {
    let mut values = fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
    let first = values.next().map(|(_, value)| value.as_slice());
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Fault::new(format!("the field {name} stands more than once"))),
    }
}

/// The words of the field `Connection`, in lower case.
fn connection(fields: &[Field]) -> Result<Vec<String>, Fault> {
    let mut words = Vec::new();
    for (_, value) in fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("connection")) {
        for word in String::from_utf8_lossy(value).split(',') {
            words.push(word.trim().to_ascii_lowercase());
        }
    }
    let lasting = ["host", "content-length", "transfer-encoding", "cookie", "authorization"];
    match words.iter().find(|word| lasting.contains(&word.as_str())) {
        None => Ok(words),
        Some(word) => {
            Err(Fault::new(format!("the field Connection names {word}, which is not its own")))
        }
    }
}

/// Fields that concern one connection, or that are written anew.
const OWN: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn passed_on(fields: Vec<Field>, connection: &[String]) -> Vec<Field> {
    let stays = |name: &str| {
        let mut others = OWN.iter().copied().chain(connection.iter().map(String::as_str));
        !others.any(|other| other.eq_ignore_ascii_case(name))
    };
    fields.into_iter().filter(|(name, _)| stays(name)).collect()
}

fn write_fields(head: &mut Vec<u8>, fields: &[Field], body: Body) {
    for (name, value) in fields {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    match body {
        Body::None | Body::UntilEnd => {}
        Body::Length(length) => {
            head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes())
        }
        Body::Chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}
