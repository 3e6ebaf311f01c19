//! Bytes into lines, however they are cut.

/// The longest line, in bytes, without its end.
pub const MAX_FRAME: usize = 1 << 20;

/// A line grew over [`MAX_FRAME`]. Nothing after it can be trusted to begin where a line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Collects bytes until a line is whole. Holds at most one unfinished line.
#[derive(Debug, Default)]
pub struct Frames {
    partial: Vec<u8>,
    broken: bool,
}

impl Frames {
    /// Takes bytes and gives `each` every line that is whole by now, without its end. Stops for good at a line that is
    /// too long, after the lines before it.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), TooLong> {
        while !self.broken {
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                if self.partial.len() + bytes.len() > MAX_FRAME {
                    break;
                }
                self.partial.extend_from_slice(bytes);
                return Ok(());
            };
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.partial.len() + line.len() > MAX_FRAME {
                break;
            }
            if self.partial.is_empty() {
                each(line);
            } else {
                self.partial.extend_from_slice(line);
                each(&self.partial);
                self.partial.clear();
            }
            bytes = rest;
        }
        self.broken = true;
        self.partial = Vec::new();
        Err(TooLong)
    }

    /// Whether a line has begun and not ended.
    pub fn is_partial(&self) -> bool {
        !self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
        let (mut frames, mut lines, mut too_long) = (Frames::default(), Vec::new(), false);
        for piece in pieces {
            too_long |= frames.push(piece, |line| lines.push(line.to_vec())).is_err();
        }
        (lines, too_long)
    }

    proptest! {
        #[test]
        fn the_same_bytes_are_the_same_lines_however_they_are_cut(
            text in "[a-z{}\n]{0,200}", cuts in prop::collection::vec(1usize..9, 0..50)
        ) {
            let bytes = text.as_bytes();
            let whole = lines([bytes]);
            prop_assert_eq!(lines(bytes.chunks(1)), whole.clone());
            let (mut pieces, mut rest) = (Vec::new(), bytes);
            for cut in cuts {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = more;
            }
            pieces.push(rest);
            prop_assert_eq!(lines(pieces), whole);
        }
    }

    #[test]
    fn a_line_that_is_too_long_ends_everything_and_keeps_no_memory() {
        let mut frames = Frames::default();
        let piece = vec![b'a'; MAX_FRAME / 4];
        let mut seen = Vec::new();
        frames.push(b"one\n", |line| seen.push(line.to_vec())).unwrap();
        for _ in 0..4 {
            frames.push(&piece, |_| unreachable!()).unwrap();
        }
        assert_eq!(frames.push(b"a", |_| unreachable!()), Err(TooLong));
        assert_eq!(frames.push(b"\n{}\n", |_| unreachable!()), Err(TooLong));
        assert!(!frames.is_partial() && frames.partial.capacity() == 0);
        assert_eq!(seen, [b"one"]);
    }
}
