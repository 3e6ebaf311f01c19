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
            StreamEvent::Error { .. } | StreamEvent::Interrupted { .. } => return self.cut(event),
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

    /// The words end here, whatever comes after them: the line that was not finished, and all that were given of them.
    pub fn end_words(&mut self) -> (Vec<Line>, Vec<Line>) {
        let open = std::mem::take(&mut self.open);
        let last = if self.says && !open.is_empty() { self.give(&open) } else { Vec::new() };
        (last, std::mem::take(self).given)
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
    fn cut(&mut self, by: &StreamEvent) -> Vec<Line> {
        let (mut lines, given) = self.end_words();
        lines.extend(cut_mark(by).filter(|_| !given.is_empty()));
        lines
    }
}

/// What marks the words before an event that ends an answer early.
pub(super) fn cut_mark(event: &StreamEvent) -> Option<Line> {
    let how = match event {
        StreamEvent::Error { .. } => "broke off",
        StreamEvent::Interrupted { .. } => "was interrupted",
        _ => return None,
    };
    Some(Line::new(Tone::Faint, format!("  … the answer {how}")))
}
