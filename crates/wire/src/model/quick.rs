//! Frames that repeat each other but for one text, read without a JSON parser: most of a stream is made of these.
//! Whatever looks different in any way is left to the parser.

use std::borrow::Cow;

/// A JSON string at the start of a text, and what comes after it. None if it is none, or none for sure.
pub(super) fn string(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inside = text.strip_prefix('"')?;
    let bytes = inside.as_bytes();
    let mut at = plain(bytes);
    if bytes.get(at)? == &b'"' {
        return Some((Cow::Borrowed(&inside[..at]), &inside[at + 1..]));
    }
    let mut all = String::with_capacity(at + 32);
    all.push_str(&inside[..at]);
    loop {
        match bytes.get(at)? {
            b'"' => return Some((Cow::Owned(all), &inside[at + 1..])),
            b'\\' => {
                all.push(match bytes.get(at + 1)? {
                    byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
                    b'b' => '\u{8}',
                    b'f' => '\u{c}',
                    b'n' => '\n',
                    b'r' => '\r',
                    b't' => '\t',
                    b'u' => return spelled(text),
                    _ => return None,
                });
                at += 2;
            }
            0..0x20 => return None,
            _ => {
                let end = at + plain(&bytes[at..]);
                all.push_str(&inside[at..end]);
                at = end;
            }
        }
    }
}

/// A JSON string with characters that are spelled by their number.
fn spelled(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while bytes.get(at)? != &b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    let (string, rest) = text.split_at_checked(at + 1)?;
    Some((Cow::Owned(serde_json::from_str(string).ok()?), rest))
}

/// How many bytes stand for themselves in a JSON string: up to a quote, a backslash or a control character. Eight
/// bytes at a time: a byte that equals the sought one is zero after the exclusive or, and only a byte below the
/// subtracted one (or one above it) borrows into its highest bit.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let (words, _) = bytes.as_chunks::<8>();
    let mut from = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = (quote | backslash | below(word, 0x20)) & HIGHS;
        if found != 0 {
            return from + found.trailing_zeros() as usize / 8;
        }
        from += 8;
    }
    let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    from + bytes[from..].iter().position(ends).unwrap_or(bytes.len() - from)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// What is read quickly is what the parser reads; what the parser refuses is never read.
        #[test]
        fn a_string_is_read_as_the_parser_reads_it(
            parts in proptest::collection::vec(
                prop_oneof![
                    8 => "[a-zé✓ ]{0,12}".prop_map(|text| text),
                    4 => prop::sample::select(vec![r#"\""#, r"\\", r"\n", r"\t", r"\/", r"\b", r"\f", r"\r"])
                        .prop_map(str::to_owned),
                    1 => prop::sample::select(vec![r"\u00e9", r"\ud83d\ude00", r"\ud83d", r"\u00g0", r"\x", "\n", "\u{1}"])
                        .prop_map(str::to_owned),
                ],
                0..12,
            ),
            rest in "[}\" ,a]{0,10}",
            is_closed in any::<bool>(),
        ) {
            let text = format!("\"{}{}{rest}", parts.concat(), if is_closed { "\"" } else { "" });
            let mut stream = serde_json::Deserializer::from_str(&text).into_iter::<String>();
            let parsed = stream.next().and_then(Result::ok);
            let after = &text[stream.byte_offset()..];
            match (string(&text), parsed) {
                (Some((quick, left)), Some(slow)) => {
                    prop_assert_eq!(&*quick, slow);
                    prop_assert_eq!(left, after);
                }
                (None, None) => {}
                (quick, slow) => prop_assert!(false, "{quick:?} {slow:?} of {text:?}"),
            }
        }

        #[test]
        fn bytes_that_stand_for_themselves_are_counted(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let counted = bytes.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20));
            prop_assert_eq!(plain(&bytes), counted.count());
        }
    }
}
