//! Which hosts a sandbox may reach: patterns as a person writes them, and the judgement of one wish.
//!
//! A wish is judged twice. The name and port are judged first ([`Allowed::grant`]); what the name leads to is judged
//! once it has been resolved ([`Grant::admit`]), and only an address that was admitted can be connected to. Nothing here
//! resolves anything.

mod address;
mod name;

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

pub use address::Realm;
pub use name::{Host, Malformed};

/// Ports of a pattern that names none: plain and encrypted web.
pub const USUAL_PORTS: [u16; 2] = [80, 443];

/// What may be reached. The empty list reaches nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowed {
    patterns: Vec<Pattern>,
}

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    host: HostPattern,
    /// Absent: the usual ports.
    port: Option<u16>,
    reach: Reach,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    /// This host and no other.
    Exactly(Host),
    /// Every name that ends in a dot and this one.
    Below(String),
}

/// Which addresses a name may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Those that the whole internet shares.
    Public,
    /// Also those of this machine and of the networks it is in.
    Private,
}

/// Why something is not reached; the text says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    reason: String,
}

impl Refusal {
    /// A refusal that a caller has found a reason for.
    pub fn because(reason: impl Into<String>) -> Refusal {
        Refusal { reason: reason.into() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for Refusal {}

/// A host and port that the list names. Only [`Allowed::grant`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    host: Host,
    port: u16,
    reach: Reach,
}

/// An address that was judged. Only [`Grant::admit`] makes one, and whoever connects asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted(SocketAddr);

impl Admitted {
    /// Where to connect.
    pub fn address(self) -> SocketAddr {
        self.0
    }
}

impl Allowed {
    /// Reads a list of patterns: `crates.io`, `*.npmjs.org`, `example.org:8443`, `192.0.2.7`, `[2001:db8::7]:443`,
    /// `private:build.example.org`. The error names the entry.
    pub fn parse(patterns: &[String]) -> Result<Allowed, String> {
        let patterns = patterns
            .iter()
            .map(|text| Pattern::parse(text).map_err(|reason| format!("{text:?}: {reason}")))
            .collect::<Result<Vec<Pattern>, String>>()?;
        Ok(Allowed { patterns })
    }

    /// Whether nothing at all may be reached.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a host, as somebody wrote it, may be asked for at a port.
    pub fn permits(&self, host: &str, port: u16) -> Result<(), Refusal> {
        let host = Host::parse(host).map_err(|error| Refusal::because(error.to_string()))?;
        self.grant(&host, port).map(|_| ())
    }

    /// Whether a host may be asked for at a port. What it leads to is judged by the grant.
    pub fn grant(&self, host: &Host, port: u16) -> Result<Grant, Refusal> {
        let named: Vec<&Pattern> =
            self.patterns.iter().filter(|pattern| pattern.host.covers(host)).collect();
        let reach =
            named.iter().filter(|pattern| pattern.opens(port)).map(|pattern| pattern.reach).max();
        match reach {
            Some(reach) => Ok(Grant { host: host.clone(), port, reach }),
            None if named.is_empty() => {
                Err(Refusal::because(format!("{host} is not in the list of hosts")))
            }
            None => Err(Refusal::because(format!(
                "{host} is in the list of hosts, but not with port {port}; write {host}:{port} to allow it"
            ))),
        }
    }
}

impl Grant {
    /// The host that was asked for.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port that was asked for.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Judges the name of the server in the first message of TLS: it is the host that was asked for, so that nobody
    /// asks for one host and talks to another behind the same address. An address is named by nobody, or as itself.
    pub fn check_server_name(&self, name: Option<&[u8]>) -> Result<(), Refusal> {
        let Some(name) = name else {
            return match &self.host {
                Host::Address(_) => Ok(()),
                Host::Name(host) => Err(Refusal::because(format!(
                    "TLS to {host} does not say which server it asks for, so it cannot be checked"
                ))),
            };
        };
        let text = String::from_utf8_lossy(name);
        match Host::parse(&text) {
            Ok(host) if host == self.host => Ok(()),
            _ => Err(Refusal::because(format!(
                "TLS asks for the server {text:?}, but the connection was asked for {}",
                self.host
            ))),
        }
    }

    /// Judges an address that the host was resolved to. A host that is an address leads to itself only.
    pub fn admit(&self, address: IpAddr) -> Result<Admitted, Refusal> {
        let admitted = Ok(Admitted(SocketAddr::new(address, self.port)));
        if let Host::Address(own) = &self.host {
            return if *own == address {
                admitted
            } else {
                Err(Refusal::because(format!("{own} does not lead to {address}")))
            };
        }
        let realm = Realm::of(address);
        match (realm, self.reach) {
            (Realm::Public, _) | (Realm::Loopback | Realm::Private, Reach::Private) => admitted,
            (Realm::Loopback | Realm::Private, Reach::Public) => Err(Refusal::because(format!(
                "{} leads to {address}, {}; write private:{} if that is meant",
                self.host,
                realm.describe(),
                self.host
            ))),
            (Realm::LinkLocal | Realm::Special, _) => Err(Refusal::because(format!(
                "{} leads to {address}, {}, which is reached only if the list names the address itself",
                self.host,
                realm.describe()
            ))),
        }
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Pattern, String> {
        let (reach, rest) = match text.strip_prefix("private:") {
            Some(rest) => (Reach::Private, rest),
            None => (Reach::Public, text),
        };
        if rest == "*" {
            return Err("a list that names every host is no list; name the hosts".to_owned());
        }
        if rest.contains("://") {
            return Err(
                "expected a host, found an address with a scheme; write the host alone".to_owned()
            );
        }
        let (host, port) = split_port(rest)?;
        let host = match host.strip_prefix("*.") {
            None if host.contains('*') => {
                return Err("a * stands only in front, followed by a dot: *.example.org".to_owned());
            }
            None => HostPattern::Exactly(Host::parse(host).map_err(|error| error.to_string())?),
            Some(below) => match Host::parse(below).map_err(|error| error.to_string())? {
                Host::Name(name) if name.contains('.') => HostPattern::Below(name),
                Host::Name(name) => {
                    return Err(format!(
                        "*.{name} is too wide: expected at least two names after the *, as in *.example.org"
                    ));
                }
                Host::Address(_) => return Err("nothing is below an address".to_owned()),
            },
        };
        Ok(Pattern { host, port, reach })
    }

    fn opens(&self, port: u16) -> bool {
        self.port.map_or(USUAL_PORTS.contains(&port), |own| own == port)
    }
}

impl HostPattern {
    fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (HostPattern::Exactly(own), host) => own == host,
            (HostPattern::Below(name), Host::Name(asked)) => asked
                .strip_suffix(name.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            (HostPattern::Below(_), Host::Address(_)) => false,
        }
    }
}

/// Splits `host:port`; an IPv6 address with a port stands in brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let bare_v6 = !text.starts_with('[') && text.matches(':').count() > 1;
    let at = if text.ends_with(']') || bare_v6 { None } else { text.rfind(':') };
    match at {
        None => Ok((text, None)),
        Some(at) => {
            let port = parse_port(&text[at + 1..]).ok_or_else(|| {
                format!(
                    "expected a port from 1 to 65535 after the colon, found {:?}",
                    &text[at + 1..]
                )
            })?;
            Ok((&text[..at], Some(port)))
        }
    }
}

/// A port in plain digits. Zero, signs, spaces and leading zeros are none.
pub fn parse_port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if plain { text.parse().ok() } else { None }
}

/// What a connection through the proxy has to show of itself, by the port it goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// TLS whose first message names the host that was asked for.
    Tls,
    /// Plain HTTP: each request names the host that was asked for.
    Http,
    /// Anything; what begins as TLS is held to its rule.
    Any,
}

impl Manner {
    /// What is expected at a port.
    pub fn of(port: u16) -> Manner {
        match port {
            443 => Manner::Tls,
            80 => Manner::Http,
            _ => Manner::Any,
        }
    }
}

/// One line of the log: a wish to reach a host and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The host as it was asked for. It may hold anything if it was refused: show it with care.
    pub host: String,
    /// The port; 0 if none could be read.
    pub port: u16,
    /// What became of it.
    pub decision: Decision,
    /// Why it was refused, or which address it led to.
    pub reason: String,
    /// Bytes that went out, so far as the connection has ended.
    pub bytes_up: u64,
    /// Bytes that came in, so far as the connection has ended.
    pub bytes_down: u64,
}

/// What became of a wish to reach a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// A connection was made. Told before its first byte goes out.
    Allowed,
    /// Nothing was sent.
    Refused,
    /// The host is allowed, but could not be reached.
    Failed,
    /// An allowed connection has ended.
    Ended,
}

impl Decision {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Decision::Allowed => "allowed",
            Decision::Refused => "refused",
            Decision::Failed => "failed",
            Decision::Ended => "ended",
        }
    }
}
