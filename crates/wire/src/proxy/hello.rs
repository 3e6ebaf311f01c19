//! The first message of a TLS client, as far as the name of the server that it asks for.

use super::Fault;

/// The type byte of a record that carries the handshake.
pub const HANDSHAKE: u8 = 22;
/// The most bytes that are looked at before the message is whole. Key shares take two kilobytes, tickets a few more.
pub const MAX_HELLO: usize = 32 * 1024;
/// The longest record that TLS knows.
const MAX_RECORD: usize = 16 * 1024 + 256;

/// What the bytes so far say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// The message is not whole yet.
    More,
    /// The name of the server, if the client gave one. Not checked in any way.
    Named(Option<Vec<u8>>),
}

/// Reads the name of the server from the bytes that a client has sent so far.
pub fn server_name(bytes: &[u8]) -> Result<Hello, Fault> {
    let Some(message) = handshake(bytes)? else {
        if bytes.len() >= MAX_HELLO {
            return Err(Fault::new("the first message of TLS is longer than 32 KiB"));
        }
        return Ok(Hello::More);
    };
    let broken = || Fault::new("the first message of TLS is broken");
    let mut hello = Cursor(&message);
    // Version and random bytes.
    hello.take(2 + 32).ok_or_else(broken)?;
    hello.counted8().ok_or_else(broken)?;
    hello.counted16().ok_or_else(broken)?;
    hello.counted8().ok_or_else(broken)?;
    if hello.0.is_empty() {
        return Ok(Hello::Named(None));
    }
    let mut extensions = Cursor(hello.counted16().ok_or_else(broken)?);
    if !hello.0.is_empty() {
        return Err(broken());
    }
    let mut found: Option<Vec<u8>> = None;
    while !extensions.0.is_empty() {
        let kind = extensions.take(2).ok_or_else(broken)?;
        let content = extensions.counted16().ok_or_else(broken)?;
        if kind == [0, 0] {
            if found.is_some() {
                return Err(Fault::new("the first message of TLS names its server twice"));
            }
            found = Some(name(content).ok_or_else(broken)?);
        }
    }
    Ok(Hello::Named(found))
}

/// The body of the first handshake message, put together from its records; `None` if more must come.
fn handshake(bytes: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    let not_tls = || Fault::new("expected TLS, found something else");
    let mut rest = bytes;
    let mut message: Vec<u8> = Vec::new();
    loop {
        if rest.first().is_some_and(|kind| *kind != HANDSHAKE)
            || rest.get(1).is_some_and(|major| *major != 3)
        {
            return Err(not_tls());
        }
        let Some((head, after)) = rest.split_at_checked(5) else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        if length == 0 || length > MAX_RECORD {
            return Err(not_tls());
        }
        // What has come of the record tells early that it is no greeting, so that nobody waits for the rest of it.
        let here = &after[..length.min(after.len())];
        message.extend_from_slice(here);
        if message.first().is_some_and(|kind| *kind != 1) {
            return Err(Fault::new("TLS does not begin with the greeting of a client"));
        }
        let whole = here.len() == length;
        if let [_, a, b, c, body @ ..] = message.as_slice() {
            let expected =
                usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap_or(usize::MAX);
            if expected > MAX_HELLO {
                return Err(Fault::new("the first message of TLS is longer than 32 KiB"));
            }
            if body.len() > expected {
                return Err(Fault::new("something follows the first message of TLS in its record"));
            }
            if body.len() == expected && whole {
                return Ok(Some(body.to_vec()));
            }
        }
        if !whole {
            return Ok(None);
        }
        rest = &after[length..];
    }
}

/// The one host name in the list of names.
fn name(content: &[u8]) -> Option<Vec<u8>> {
    let mut content = Cursor(content);
    let mut list = Cursor(content.counted16()?);
    let kind = list.take(1)?;
    let name = list.counted16()?;
    let only = kind == [0] && list.0.is_empty() && content.0.is_empty() && !name.is_empty();
    only.then(|| name.to_vec())
}

/// Bytes that are read from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Bytes behind their number in one byte.
    fn counted8(&mut self) -> Option<&'a [u8]> {
        let count = self.take(1)?;
        self.take(usize::from(count[0]))
    }

    /// Bytes behind their number in two bytes.
    fn counted16(&mut self) -> Option<&'a [u8]> {
        let count = self.take(2)?;
        self.take(usize::from(u16::from_be_bytes([count[0], count[1]])))
    }
}
