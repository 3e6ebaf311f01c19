//! A host as somebody wrote it, in the one form that it is compared in.

use std::net::{IpAddr, Ipv6Addr};

/// The longest name that the name system takes.
const MAX_NAME: usize = 253;
/// The longest part of a name between two dots.
const MAX_LABEL: usize = 63;

/// A host: a name in lower case, or an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// A name of plain labels.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Why a text is no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// There is nothing in it.
    Empty,
    /// It is longer than a name can be.
    TooLong,
    /// It holds something that is no part of a name.
    Holds(&'static str),
    /// A part between two dots is empty, too long, or begins or ends with a hyphen.
    Label,
    /// It ends in a dot.
    TrailingDot,
    /// It ends in a number, as an address does, but is not one in its usual form.
    OddAddress,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("this is no plain host name: ")?;
        match self {
            Malformed::Empty => formatter.write_str("it is empty"),
            Malformed::TooLong => formatter.write_str("it is longer than 253 characters"),
            Malformed::Holds(what) => write!(formatter, "it holds {what}"),
            Malformed::Label => formatter.write_str(
                "a part between two dots is empty, longer than 63 characters, or begins or ends with a hyphen",
            ),
            Malformed::TrailingDot => formatter.write_str("it ends in a dot; write it without"),
            Malformed::OddAddress => formatter.write_str(
                "it ends in a number but is no address in its usual form (four decimal numbers, or IPv6)",
            ),
        }
    }
}

impl std::error::Error for Malformed {}

impl Host {
    /// Reads a name, an IPv4 address of four decimal numbers, or an IPv6 address, in brackets or without.
    pub fn parse(text: &str) -> Result<Host, Malformed> {
        if text.is_empty() {
            return Err(Malformed::Empty);
        }
        if text.len() > MAX_NAME {
            return Err(Malformed::TooLong);
        }
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = inner.unwrap_or(text).parse::<Ipv6Addr>() {
            return Ok(Host::Address(address.into()));
        }
        check_characters(text)?;
        if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
            return Ok(Host::Address(address.into()));
        }
        if text.ends_with('.') {
            return Err(Malformed::TrailingDot);
        }
        if !text.split('.').all(is_label) {
            return Err(Malformed::Label);
        }
        // What resolvers take for an address although it does not look like one: 127.1, 0x7f.1, 2130706433.
        let last = text.rsplit('.').next().unwrap_or_default().as_bytes();
        let hexadecimal = last.starts_with(b"0x") || last.starts_with(b"0X");
        if hexadecimal || last.iter().all(u8::is_ascii_digit) {
            return Err(Malformed::OddAddress);
        }
        Ok(Host::Name(text.to_ascii_lowercase()))
    }
}

impl std::fmt::Display for Host {
    /// As it is written before a port: an IPv6 address in brackets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Host::Name(name) => formatter.write_str(name),
            Host::Address(IpAddr::V4(address)) => write!(formatter, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

fn check_characters(text: &str) -> Result<(), Malformed> {
    for c in text.chars() {
        let what = match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => continue,
            '\0' => "a NUL",
            ' ' => "a space",
            '%' => "a percent sign",
            '@' => "an @, as before a host in an address with a user",
            '/' | '\\' => "a slash",
            ':' | '[' | ']' => "a colon or a bracket",
            '*' => "a *",
            c if c.is_control() => "a control character",
            c if !c.is_ascii() => {
                "a character outside ASCII; write the name as it is resolved (xn--…)"
            }
            _ => "a character that no host name has",
        };
        return Err(Malformed::Holds(what));
    }
    Ok(())
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
}
