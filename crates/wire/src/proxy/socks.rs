//! SOCKS5 with names: no authentication, only connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use machine::policy::hosts::Host;

use super::Fault;

/// The version that a client begins with.
pub const VERSION: u8 = 5;

/// What a client offers first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// Whether it can go without authentication.
    pub open: bool,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

/// Why a request is refused, and the code that tells the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocksFault {
    /// The code in the reply.
    pub code: Code,
    /// What is wrong.
    pub fault: Fault,
    /// The port that was asked for, if it came.
    pub port: u16,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Connected.
    Done = 0,
    /// Something else.
    Failed = 1,
    /// Not allowed.
    Refused = 2,
    /// Could not be reached.
    Unreachable = 4,
    /// Only connections are made.
    NoSuchCommand = 7,
    /// Neither a name nor an address.
    NoSuchKind = 8,
}

/// Reads the greeting: `None` if more must come, else it and how many bytes it took.
pub fn greeting(bytes: &[u8]) -> Result<Option<(Greeting, usize)>, Fault> {
    match bytes {
        [] | [VERSION] => Ok(None),
        [VERSION, 0, ..] => Err(Fault::new("the SOCKS greeting offers no method")),
        [VERSION, count, rest @ ..] => Ok(rest
            .get(..usize::from(*count))
            .map(|methods| (Greeting { open: methods.contains(&0) }, 2 + methods.len()))),
        _ => Err(Fault::new("expected SOCKS version 5")),
    }
}

/// The answer to a greeting.
pub fn welcome(greeting: Greeting) -> [u8; 2] {
    [VERSION, if greeting.open { 0 } else { 0xff }]
}

/// Reads a request: `None` if more must come, else it and how many bytes it took.
pub fn request(bytes: &[u8]) -> Result<Option<(Request, usize)>, SocksFault> {
    let plain = |code, reason: &str| SocksFault { code, fault: Fault::new(reason), port: 0 };
    if bytes.first().is_some_and(|version| *version != VERSION) {
        return Err(plain(Code::Failed, "expected SOCKS version 5"));
    }
    let Some((head, rest)) = bytes.split_at_checked(4) else { return Ok(None) };
    if head[1] != 1 {
        return Err(plain(Code::NoSuchCommand, "only connections are made, neither BIND nor UDP"));
    }
    if head[2] != 0 {
        return Err(plain(Code::Failed, "the reserved byte of a SOCKS request is not zero"));
    }
    let length = match head[3] {
        1 => 4,
        4 => 16,
        3 => match rest.first() {
            None => return Ok(None),
            Some(length) => 1 + usize::from(*length),
        },
        _ => {
            return Err(plain(
                Code::NoSuchKind,
                "expected a name or an address in the SOCKS request",
            ));
        }
    };
    let (Some(host), Some(&[high, low])) = (rest.get(..length), rest.get(length..length + 2))
    else {
        return Ok(None);
    };
    let port = u16::from_be_bytes([high, low]);
    let refused = |host: &str, reason: String| SocksFault {
        code: Code::Refused,
        fault: Fault::new(reason).asking(host),
        port,
    };
    let host = match host.len() {
        4 if head[3] == 1 => {
            Host::Address(IpAddr::V4(Ipv4Addr::new(host[0], host[1], host[2], host[3])))
        }
        16 if head[3] == 4 => {
            let mut octets = [0; 16];
            octets.copy_from_slice(host);
            Host::Address(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => {
            // The whole counted string is the name: a NUL in it ends nothing.
            let text = String::from_utf8_lossy(&host[1..]);
            Host::parse(&text).map_err(|error| refused(&text, error.to_string()))?
        }
    };
    if port == 0 {
        return Err(refused(&host.to_string(), "expected a port from 1 to 65535".to_owned()));
    }
    Ok(Some((Request { host, port }, 4 + length + 2)))
}

/// The reply to a request. The address in it is not told: nobody needs it.
pub fn reply(code: Code) -> [u8; 10] {
    [VERSION, code as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}
