//! Lines from bytes that come in pieces of any size. A line longer than the limit is told once and left out, so that
//! memory is bounded whatever a program writes.

/// How long a line may be: agents put whole files into theirs.
pub const LONGEST: usize = 64 << 20;

/// How much of a line is quoted in messages.
const QUOTED: usize = 200;

/// Joins pieces to lines.
#[derive(Debug)]
pub struct Lines {
    /// What came after the last whole line.
    begun: Vec<u8>,
    longest: usize,
    /// Whether the rest of a line that is too long is being left out.
    skips: bool,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<'a> {
    /// Without its end.
    Whole(&'a [u8]),
    /// Longer than is taken; its beginning.
    TooLong(String),
}

impl Lines {
    /// Takes lines of at most so many bytes.
    pub fn new(longest: usize) -> Lines {
        Lines { begun: Vec::new(), longest, skips: false }
    }

    /// Takes a piece, and gives each line that it completes to `take`. Lines of white space are left out.
    pub fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(Line<'_>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if std::mem::take(&mut self.skips) {
                continue;
            }
            if self.begun.len() + line.len() > self.longest {
                self.begun.extend_from_slice(&line[..line.len().min(QUOTED)]);
                take(Line::TooLong(quoted(&self.begun)));
            } else if self.begun.is_empty() {
                give(line, &mut take);
            } else {
                self.begun.extend_from_slice(line);
                give(&self.begun, &mut take);
            }
            self.begun.clear();
            // One long line must not keep its room for ever.
            self.begun.shrink_to(1 << 16);
        }
        if self.skips {
            return;
        }
        if self.begun.len() + bytes.len() > self.longest {
            self.begun.extend_from_slice(&bytes[..bytes.len().min(QUOTED)]);
            take(Line::TooLong(quoted(&self.begun)));
            self.begun = Vec::new();
            self.skips = true;
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }

    /// The bytes have ended: what is left without the end of a line, if anything.
    pub fn end(&mut self) -> Option<Vec<u8>> {
        self.skips = false;
        let rest = std::mem::take(&mut self.begun);
        (!rest.trim_ascii().is_empty()).then_some(rest)
    }
}

/// The beginning of a line, for messages.
pub fn quoted(line: &[u8]) -> String {
    let line = line.trim_ascii();
    String::from_utf8_lossy(&line[..line.len().min(QUOTED)]).into_owned()
}

fn give(line: &[u8], take: &mut impl FnMut(Line<'_>)) {
    let line = line.trim_ascii();
    if !line.is_empty() {
        take(Line::Whole(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> (Vec<String>, Option<Vec<u8>>) {
        let mut lines = Lines::new(8);
        let mut seen = Vec::new();
        for piece in pieces {
            lines.feed(piece, |line| {
                seen.push(match line {
                    Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                    Line::TooLong(beginning) => format!("too long: {beginning}"),
                });
            });
        }
        (seen, lines.end())
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let text = b"one\r\n\n  \ntwo\nlonger than eight\nthree\nrest";
        let whole = read(&[text]);
        assert_eq!(whole.0[..2], ["one", "two"]);
        assert_eq!(whole.0[3], "three");
        assert_eq!(whole.1.as_deref(), Some(b"rest".as_slice()));
        for cut in 0..text.len() {
            let (seen, rest) = read(&[&text[..cut], &text[cut..]]);
            assert_eq!((seen.len(), &seen[3], &rest), (4, &whole.0[3], &whole.1), "cut at {cut}");
            assert!(seen[2].starts_with("too long: longer th"), "{seen:?}");
        }
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(read(&single).0[3], "three");
    }

    #[test]
    fn a_line_without_an_end_is_told_once_and_takes_no_room() {
        let mut lines = Lines::new(8);
        let mut told = 0;
        for _ in 0..1000 {
            lines.feed(&[b'x'; 100], |_| told += 1);
            assert!(lines.begun.len() <= 8, "{}", lines.begun.len());
        }
        assert_eq!(told, 1);
    }
}
