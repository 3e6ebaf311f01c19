//! Where the reading stands in the text: blanks, comments, newlines and reserved words.

use super::here::Pending;
use super::{DEEPEST, Reading};

/// The reading cannot go on from here; why is among the doubts.
pub(super) struct Stop;

/// What every part of the reading gives.
pub(super) type Step<T> = Result<T, Stop>;

/// A text on its way to being read. Runs and doubts are collected in the reading.
pub(super) struct Scanner<'t, 'r> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    /// How many readings, groups and substitutions this one is inside of.
    pub(super) depth: usize,
    /// Here-documents whose text begins at the next newline.
    pub(super) pending: Vec<Pending>,
    /// Whether a here-document of an enclosing command waits for its text.
    pub(super) owed: bool,
    /// How many here-documents were met.
    pub(super) heres: usize,
    pub(super) reading: &'r mut Reading,
}

impl<'t, 'r> Scanner<'t, 'r> {
    pub(super) fn new(text: &'t str, depth: usize, reading: &'r mut Reading) -> Self {
        Scanner { text, at: 0, depth, pending: Vec::new(), owed: false, heres: 0, reading }
    }

    /// Reads the text as a list of commands up to its end. Where that fails, the doubt says why.
    pub(super) fn whole(&mut self) {
        let _ = self.deeper(|scanner| {
            scanner.list()?;
            if scanner.at < scanner.text.len() {
                return Err(scanner.stop("a word or operator where a command should begin"));
            }
            scanner.nothing_pending()
        });
    }

    /// Runs one level deeper, or stops where that is too deep to follow.
    pub(super) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Step<T>) -> Step<T> {
        if self.depth >= DEEPEST {
            return Err(self.stop("nested too deep"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    pub(super) fn starts_with(&self, prefix: &str) -> bool {
        self.text.as_bytes()[self.at..].starts_with(prefix.as_bytes())
    }

    /// Notes a doubt about the text from `start` to here.
    pub(super) fn doubt(&mut self, start: usize, why: &str) {
        self.reading.doubt(&self.text[start..self.at], why);
    }

    /// Notes a doubt about the text from here on, with which the reading ends.
    pub(super) fn stop(&mut self, why: &str) -> Stop {
        self.reading.doubt(&self.text[self.at..], why);
        Stop
    }

    /// Passes spaces, tabs and continued lines.
    pub(super) fn blanks(&mut self) -> Step<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => self.continuation()?,
                _ => return Ok(()),
            }
        }
    }

    /// Passes a backslash and a newline, which together are nothing.
    pub(super) fn continuation(&mut self) -> Step<()> {
        if self.owed || !self.pending.is_empty() {
            return Err(self.stop("a continued line before the text of a here-document"));
        }
        self.at += 2;
        Ok(())
    }

    /// Passes blanks and a comment.
    pub(super) fn blanks_and_comment(&mut self) -> Step<()> {
        self.blanks()?;
        if self.peek() == Some(b'#') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
        Ok(())
    }

    /// Passes blanks, comments and newlines.
    pub(super) fn lines(&mut self) -> Step<()> {
        loop {
            self.blanks_and_comment()?;
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    /// Passes a newline and the here-documents that begin there.
    pub(super) fn newline(&mut self) -> Step<()> {
        if self.owed {
            return Err(
                self.stop("a newline inside a substitution before the text of a here-document")
            );
        }
        self.at += 1;
        self.here_documents()
    }

    /// Whether the next word is exactly these characters, without quotes.
    pub(super) fn at_reserved(&self, word: &str) -> bool {
        if !self.starts_with(word) {
            return false;
        }
        ends_word(self.peek_at(word.len()))
    }

    /// Passes a reserved word, or stops.
    pub(super) fn expect_reserved(&mut self, word: &str) -> Step<()> {
        if !self.at_reserved(word) {
            return Err(self.stop(&format!("`{word}` was expected")));
        }
        self.at += word.len();
        Ok(())
    }

    /// Stops if a here-document has no text yet.
    pub(super) fn nothing_pending(&mut self) -> Step<()> {
        if self.pending.is_empty() {
            Ok(())
        } else {
            Err(self.stop("a here-document without its text"))
        }
    }
}

/// Whether a character, or the end, ends an unquoted word.
pub(super) fn ends_word(byte: Option<u8>) -> bool {
    match byte {
        None => true,
        Some(byte) => b" \t\n;&|<>()".contains(&byte),
    }
}
