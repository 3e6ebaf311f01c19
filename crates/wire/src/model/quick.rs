//! Frames that repeat each other but for one text, read without a JSON parser: most of a stream is made of these.
//! Whatever looks different in any way is left to the parser.

use std::borrow::Cow;

/// A JSON string at the start of a text, and what comes after it. None if it is none, or none for sure.
pub(super) fn string(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inside = text.strip_prefix('"')?;
    let bytes = inside.as_bytes();
    let mut escaped = false;
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => break,
            b'\\' => {
                escaped = true;
                at += 2;
            }
            0..0x20 => return None,
            _ => at += 1,
        }
    }
    let rest = &inside[at + 1..];
    let string = if escaped {
        Cow::Owned(serde_json::from_str(&text[..at + 2]).ok()?)
    } else {
        Cow::Borrowed(&inside[..at])
    };
    Some((string, rest))
}

/// A frame that was read by the parser, cut at one text in it. A frame with the same bytes before and after its
/// text means the same, but for the text.
#[derive(Debug, Default)]
pub(super) struct Template {
    before: String,
    after: String,
}

impl Template {
    /// Cuts a frame at the text under `key`, which has quotes and a colon and must be there only once: inside of
    /// a JSON string its quotes would be escaped, so it is a key wherever it stands.
    pub(super) fn learn(&mut self, frame: &str, key: &str, text: &str) -> bool {
        let Some((before, after)) = frame.split_once(key) else { return false };
        if after.contains(key) {
            return false;
        }
        match string(after) {
            Some((found, rest)) if found == text => {
                self.before.clear();
                self.before.push_str(before);
                self.before.push_str(key);
                self.after.clear();
                self.after.push_str(rest);
                true
            }
            _ => false,
        }
    }

    /// The text of a frame that is like the one that was learned.
    pub(super) fn fill<'f>(&self, frame: &'f str) -> Option<Cow<'f, str>> {
        let (text, rest) = string(frame.strip_prefix(&*self.before)?)?;
        (rest == self.after).then_some(text)
    }
}
