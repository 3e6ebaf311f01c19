//! Server-sent events from bytes, in any chunking: line ends of all three kinds, a byte-order mark, comments,
//! data of several lines, characters cut anywhere. Lines and events have hard limits, so that memory does.

use std::fmt;

/// How much is taken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one line, without its end.
    pub line: usize,
    /// Bytes of one event's data.
    pub event: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { line: 16 << 20, event: 16 << 20 }
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its type; empty if it names none.
    pub event: &'a str,
    /// Its data; lines are joined by a line feed.
    pub data: &'a str,
    /// The last id that was sent; empty if there was none.
    pub id: &'a str,
}

/// Why bytes are no stream of events that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// A line is longer than the limit.
    LineTooLong {
        /// The limit.
        limit: usize,
    },
    /// An event's data is larger than the limit.
    EventTooLarge {
        /// The limit.
        limit: usize,
    },
    /// A field's value is no UTF-8.
    NotUtf8,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::LineTooLong { limit } => write!(f, "a line is longer than {limit} bytes"),
            Error::EventTooLarge { limit } => write!(f, "an event is larger than {limit} bytes"),
            Error::NotUtf8 => f.write_str("an event holds bytes that are no UTF-8"),
        }
    }
}

impl std::error::Error for Error {}

/// An incremental parser. Holds one unfinished line and one unfinished event, never more.
#[derive(Debug, Default)]
pub struct Parser {
    limits: Limits,
    /// The part of the current line that came with earlier chunks.
    line: Vec<u8>,
    event: String,
    data: String,
    id: String,
    has_data: bool,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    begun: bool,
    has_field: bool,
    /// A line came that is neither a field nor a comment.
    has_other: bool,
}

impl Parser {
    /// A parser with these limits.
    pub fn new(limits: Limits) -> Parser {
        Parser { limits, ..Parser::default() }
    }

    /// Takes the next bytes and gives each event that they complete to `on_frame`. After an error the parser
    /// is of no more use. An event without its blank line is never given: at the end of a stream it is a cut one.
    pub fn push<E: From<Error>>(
        &mut self,
        mut chunk: &[u8],
        mut on_frame: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // What is known to be text of what comes next: many events are checked at once.
        let mut sound = "";
        while !chunk.is_empty() {
            if self.is_between() {
                if sound.is_empty() {
                    sound = sound_start(chunk);
                }
                if let Some(rest) = self.take_whole(sound, &mut on_frame)? {
                    chunk = &chunk[sound.len() - rest.len()..];
                    sound = rest;
                    continue;
                }
            }
            let before = chunk.len();
            if self.after_return {
                self.after_return = false;
                if let [b'\n', rest @ ..] = chunk {
                    chunk = rest;
                    sound = sound.get(1..).unwrap_or_default();
                    continue;
                }
            }
            let Some(end) = find_line_end(chunk) else {
                self.check_line(chunk.len())?;
                self.line.extend_from_slice(chunk);
                break;
            };
            self.check_line(end)?;
            self.after_return = chunk[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&chunk[..end], &mut on_frame)?;
            } else {
                self.line.extend_from_slice(&chunk[..end]);
                let mut line = std::mem::take(&mut self.line);
                self.take_line(&line, &mut on_frame)?;
                line.clear();
                self.line = line;
            }
            chunk = &chunk[end + 1..];
            sound = sound.get(before - chunk.len()..).unwrap_or_default();
        }
        Ok(())
    }

    /// Whether the next byte begins an event, and nothing of it is kept yet.
    fn is_between(&self) -> bool {
        self.begun
            && self.line.is_empty()
            && self.event.is_empty()
            && !self.has_data
            && !self.after_return
    }

    /// Whether an event has begun whose end has not come. A comment is none.
    pub fn is_within_an_event(&self) -> bool {
        let begun = !self.line.is_empty() && !self.line.starts_with(b":");
        begun || self.has_data || !self.event.is_empty()
    }

    /// Whether what came so far can be a stream of events at all: some line was a field or a comment, or the
    /// unfinished one may become one. A page or a JSON document that came in its place is none.
    pub fn is_plausible(&self) -> bool {
        const STARTS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
        let line = self.line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.line);
        let may_become = |start: &&[u8]| line.starts_with(start) || start.starts_with(line);
        self.has_field || (!self.has_other && STARTS.iter().any(may_become))
    }

    /// Takes an event that is at the start of the text, whole and in the form that most have, without keeping
    /// anything of it; what comes after it. Only between events.
    fn take_whole<'c, E: From<Error>>(
        &mut self,
        sound: &'c str,
        on_frame: &mut impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<Option<&'c str>, E> {
        let Some((event, data, rest)) = whole(sound) else { return Ok(None) };
        if event.len() + 7 > self.limits.line
            || data.len() + 6 > self.limits.line.min(self.limits.event)
        {
            return Ok(None);
        }
        self.has_field = true;
        on_frame(Frame { event, data, id: &self.id })?;
        Ok(Some(rest))
    }

    fn check_line(&self, more: usize) -> Result<(), Error> {
        let limit = self.limits.line;
        if self.line.len() + more > limit { Err(Error::LineTooLong { limit }) } else { Ok(()) }
    }

    fn take_line<E: From<Error>>(
        &mut self,
        mut line: &[u8],
        on_frame: &mut impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event(on_frame);
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            self.add_data(value)?;
        } else if let Some(value) = line.strip_prefix(b"event:") {
            self.event.clear();
            self.event.push_str(text(value)?);
        } else if let Some(value) = line.strip_prefix(b"id:") {
            let value = text(value)?;
            if !value.contains('\0') {
                self.id.clear();
                self.id.push_str(value);
            }
        } else {
            match line {
                // A name alone is a field with an empty value.
                b"data" => self.add_data(b"")?,
                b"event" => self.event.clear(),
                b"id" => self.id.clear(),
                _ if line.starts_with(b":") || line.starts_with(b"retry:") => {}
                _ => {
                    self.has_other = true;
                    return Ok(());
                }
            }
        }
        self.has_field = true;
        Ok(())
    }

    fn add_data(&mut self, value: &[u8]) -> Result<(), Error> {
        let value = text(value)?;
        let limit = self.limits.event;
        if self.data.len() + usize::from(self.has_data) + value.len() > limit {
            return Err(Error::EventTooLarge { limit });
        }
        if self.has_data {
            self.data.push('\n');
        }
        self.data.push_str(value);
        self.has_data = true;
        Ok(())
    }

    fn end_event<E>(
        &mut self,
        on_frame: &mut impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let given = if self.has_data {
            on_frame(Frame { event: &self.event, data: &self.data, id: &self.id })
        } else {
            Ok(())
        };
        self.event.clear();
        self.data.clear();
        self.has_data = false;
        given
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An event of one line of data, with its type before it or without one: its type, its data, and what follows.
fn whole(text: &str) -> Option<(&str, &str, &str)> {
    let (event, line) = match text.strip_prefix("event: ") {
        Some(lines) => {
            let (event, rest) = lines.split_at(find_line_end(lines.as_bytes())?);
            (event, rest.strip_prefix('\n')?)
        }
        None => ("", text),
    };
    let value = line.strip_prefix("data: ")?;
    let (data, rest) = value.split_at(find_line_end(value.as_bytes())?);
    Some((event, data, rest.strip_prefix("\n\n")?))
}

/// The beginning of some bytes, as far as it is text.
fn sound_start(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// A field's value: one space after the colon is not part of it.
fn text(value: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(value.strip_prefix(b" ").unwrap_or(value)).map_err(|_| Error::NotUtf8)
}

/// Where the first line feed or carriage return is. Eight bytes at a time: no other byte below the two is common, and
/// only a byte below (or one above it) borrows into its highest bit.
fn find_line_end(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    const LAST: u64 = ONES * (b'\r' as u64 + 1);
    let (words, _) = bytes.as_chunks::<8>();
    let low = words.iter().position(|word| {
        let word = u64::from_le_bytes(*word);
        word.wrapping_sub(LAST) & !word & HIGHS != 0
    });
    let from = low.unwrap_or(words.len()) * 8;
    let at = bytes[from..].iter().position(|b| *b == b'\n' || *b == b'\r')?;
    Some(from + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_first_line_end_is_found(
            bytes in proptest::collection::vec(prop_oneof![1 => 0_u8..20, 4 => any::<u8>()], 0..60),
        ) {
            let first = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            prop_assert_eq!(find_line_end(&bytes), first);
        }
    }
}
