//! The hash chain that binds each record to its task, its number and everything before it.

use std::fmt;

use ring::digest::{Context, SHA256};

/// The link after a record: the first 16 bytes of a SHA-256 over the link before it and the record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Chain([u8; 16]);

impl Chain {
    /// The link before a task's first record. It depends on the task's id, so that records copied from one
    /// task to another do not fit.
    pub fn start(task: &str) -> Self {
        Self(digest(&[b"drivetrain-journal-1", task.as_bytes()]))
    }

    /// The link after the given record, which follows this link.
    #[must_use]
    pub fn next(&self, n: u64, time: i64, version: u32, body: &[u8]) -> Self {
        // Hashing one piece is faster than hashing two, and most records are small.
        let mut piece = [0; 320];
        let (head, rest) = piece.split_at_mut(36);
        head[..16].copy_from_slice(&self.0);
        head[16..24].copy_from_slice(&n.to_be_bytes());
        head[24..32].copy_from_slice(&time.to_be_bytes());
        head[32..].copy_from_slice(&version.to_be_bytes());
        match rest.get_mut(..body.len()) {
            Some(rest) => {
                rest.copy_from_slice(body);
                Self(digest(&[&piece[..36 + body.len()]]))
            }
            None => Self(digest(&[&piece[..36], body])),
        }
    }

    /// The bytes as stored.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The bytes in hex, for what is read by people and other programs.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// Reads stored bytes back; `None` if they are not 16.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({})", hex(&self.0))
    }
}

/// The SHA-256 of the parts, one after the other. As the library for TLS has it: a record is hashed twice as fast by that as in
/// plain Rust, where the processor has no instructions for it.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut whole = [0; 32];
    whole.copy_from_slice(context.finish().as_ref());
    whole
}

/// The first 16 bytes of the SHA-256 of the parts, one after the other.
pub(crate) fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&sha256(parts)[..16]);
    first
}

/// The first 8 bytes of the SHA-256 of the parts, as a number that SQLite can hold.
pub(crate) fn checksum(parts: &[&[u8]]) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&digest(parts)[..8]);
    i64::from_be_bytes(first)
}

/// Lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_record_changes_the_link() {
        let start = Chain::start("a");
        let link = start.next(1, 2, 3, b"body");
        assert_eq!(link, Chain::start("a").next(1, 2, 3, b"body"));
        assert_ne!(link, Chain::start("b").next(1, 2, 3, b"body"));
        assert_ne!(link, start.next(2, 2, 3, b"body"));
        assert_ne!(link, start.next(1, 3, 3, b"body"));
        assert_ne!(link, start.next(1, 2, 4, b"body"));
        assert_ne!(link, start.next(1, 2, 3, b"bodz"));
        assert_eq!(Chain::from_slice(link.bytes()), Some(link));
        assert_eq!(Chain::from_slice(b"short"), None);
    }

    #[test]
    fn the_first_links_are_fixed_for_ever() {
        // Stored journals depend on these bytes.
        assert_eq!(format!("{:?}", Chain::start("t")), "Chain(1c0e262fe2b3af50f47adb9f73320a2d)");
        assert_eq!(
            format!("{:?}", Chain::start("t").next(1, 2, 3, b"x")),
            "Chain(a480735af66d679c2b2078a9a3ab21ae)"
        );
    }
}
