//! A text into a tree, within bounds of time and memory.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, Parser, Tree};

use super::{Language, Unfinished};

/// How long one file may take.
const PARSE_TIME: Duration = Duration::from_secs(5);
/// How much this process may grow while one file is parsed, in bytes.
const PARSE_MEMORY: u64 = 512 * 1024 * 1024;
/// The most that may be open at once: brackets, and what the language's `chains` say. Where a text breaks off, the
/// parser tries every way out of all that is open, and cannot be stopped meanwhile: with Java's grammar, eight
/// thousand bytes of `a => ` take nine hundred megabytes and twice as many take four times that.
const OPEN: usize = 600;

/// The tree of a text. `stop` is asked again and again.
pub(super) fn tree(
    language: &Language,
    text: &[u8],
    stop: &dyn Fn() -> bool,
) -> Result<Tree, Unfinished> {
    if most_open(language, text) > OPEN {
        return Err(Unfinished::TooHard);
    }
    parsed(language, text, stop)
        .ok_or_else(|| if stop() { Unfinished::Stopped } else { Unfinished::TooHard })
}

fn parsed(language: &Language, text: &[u8], stop: &dyn Fn() -> bool) -> Option<Tree> {
    let mut parser = Parser::new();
    // Fails only for a grammar of another generation, which a test would show.
    parser.set_language(&(language.grammar)()).ok()?;
    let (begun, size) = (Instant::now(), process_size());
    let mut progress = |_: &tree_sitter::ParseState| {
        let grown = process_size().saturating_sub(size);
        if grown > PARSE_MEMORY || begun.elapsed() > PARSE_TIME || stop() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let mut input = |at: usize, _| text.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut input, None, Some(options))
}

/// How much is open where most is, by the bytes alone: what is in comments and strings counts too.
fn most_open(language: &Language, text: &[u8]) -> usize {
    let (mut brackets, mut chain, mut most) = (0usize, 0usize, 0usize);
    let mut before = b' ';
    for byte in text {
        match byte {
            b'(' | b'[' | b'{' => brackets += 1,
            b')' | b']' | b'}' => brackets = brackets.saturating_sub(1),
            // A doubled sign is another one, or a line in a comment.
            _ if language.chains.contains(byte) && before != *byte => chain += 1,
            _ => {}
        }
        if matches!(byte, b';' | b'{' | b'}') {
            chain = 0;
        }
        most = most.max(brackets + chain);
        before = *byte;
    }
    most
}

/// The memory that this process has, in bytes.
fn process_size() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    resident.unwrap_or_default() * rustix::param::page_size() as u64
}
