//! Reading along: the lines of an answer as they are finished, the same that the transcript shows at its end.

use machine::stream::StreamEvent;

use crate::transcript::said;
use crate::{Line, Tone};

/// Gives the lines of one answer after the other.
#[derive(Debug, Default)]
pub struct Reading {
    /// Text that is no whole line yet; before the first word, all of it.
    open: String,
    block: Option<usize>,
    /// Whether there is more than white space.
    says: bool,
    /// The lines that were given.
    given: Vec<Line>,
    /// Text is missing, so that the rest is left to the end.
    is_broken: bool,
}

impl Reading {
    /// Takes an event; gives the lines that it finishes.
    pub fn push(&mut self, event: &StreamEvent) -> Vec<Line> {
        match event {
            StreamEvent::MessageStart { .. } => *self = Reading::default(),
            StreamEvent::TextDelta { index, text } if !self.is_broken => {
                return self.read(*index, text);
            }
            StreamEvent::Gap { .. } => {
                self.is_broken = true;
                self.open.clear();
            }
            // What comes after a call is another block, and another line.
            StreamEvent::ToolUseStart { .. } if self.says && !self.open.is_empty() => {
                let line = std::mem::take(&mut self.open);
                self.block = None;
                return self.give(&line);
            }
            StreamEvent::Error { .. } => return self.cut("broke off"),
            StreamEvent::Interrupted { .. } => return self.cut("was interrupted"),
            _ => {}
        }
        Vec::new()
    }

    /// The answer is finished, and these are its lines: those that were not given. All of them, if what was given
    /// turns out to be something else.
    pub fn rest(&mut self, mut lines: Vec<Line>) -> Vec<Line> {
        let given = std::mem::take(self).given;
        if lines.starts_with(&given) {
            lines.drain(..given.len());
        }
        lines
    }

    /// The end of the line that is not finished.
    pub fn tail(&self, most: usize) -> &str {
        let from = self.open.char_indices().rev().take(most).last().map_or(0, |(at, _)| at);
        if self.says { &self.open[from..] } else { "" }
    }

    fn read(&mut self, index: usize, text: &str) -> Vec<Line> {
        if text.is_empty() {
            return Vec::new();
        }
        // Blocks follow each other as lines do.
        let breaks = self.block.replace(index).is_some_and(|block| block != index);
        if breaks {
            self.open.push('\n');
        }
        self.open.push_str(text);
        let begins = !self.says && !text.trim().is_empty();
        self.says |= begins;
        // Only what is new can end a line, but for the white space before the first word.
        if !self.says || !(begins || breaks || text.contains('\n')) {
            return Vec::new();
        }
        let Some(end) = self.open.rfind('\n') else { return Vec::new() };
        let rest = self.open.split_off(end + 1);
        let whole = std::mem::replace(&mut self.open, rest);
        self.give(&whole)
    }

    fn give(&mut self, text: &str) -> Vec<Line> {
        let lines = said(text, self.given.is_empty());
        self.given.extend_from_slice(&lines);
        lines
    }

    /// The answer ends here and does not count: what was read of it is marked.
    fn cut(&mut self, how: &str) -> Vec<Line> {
        let open = std::mem::take(&mut self.open);
        let mut lines = if self.says && !open.is_empty() { self.give(&open) } else { Vec::new() };
        if !self.given.is_empty() {
            lines.push(Line::new(Tone::Faint, format!("  … the answer {how}")));
        }
        *self = Reading::default();
        lines
    }
}
