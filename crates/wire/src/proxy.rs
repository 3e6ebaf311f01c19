//! What a proxy reads: heads of HTTP/1.1 messages, bodies in chunks, SOCKS5, and the first message of TLS.
//!
//! The bytes come from a sandbox, so every reader here is strict and bounded: what two readers could take for two
//! different things is refused, not mended. Readers take what has come so far and say that they need more.

pub mod chunks;
pub mod head;
pub mod hello;
pub mod socks;

/// Why bytes are not what a proxy takes. `host` is what was asked for, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong, for a person.
    pub reason: String,
    /// The host that was asked for, as it stood there; may be empty, may hold anything.
    pub host: String,
}

impl Fault {
    /// A fault of bytes that name no host.
    pub fn new(reason: impl Into<String>) -> Fault {
        Fault { reason: reason.into(), host: String::new() }
    }

    /// The same fault, with the host that was asked for.
    pub fn asking(mut self, host: &str) -> Fault {
        self.host = host.to_owned();
        self
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for Fault {}
