//! Half characters in JSON. Programs in JavaScript cut texts where they like, and write one half of a character that has two as
//! `\ud83d`; no text can hold that, and a parser refuses the whole line over it. What was cut stands as the character for what
//! cannot be shown.

use std::borrow::Cow;

use memchr::memmem;

/// What stands for a half.
const INSTEAD: &[u8] = br"\ufffd";

/// How long a character is that is spelled by its number.
const SPELLED: usize = 6;

/// A line in which no character is cut. One that is no JSON stays none.
pub fn mended(line: &[u8]) -> Cow<'_, [u8]> {
    if memmem::find(line, br"\ud").is_none() && memmem::find(line, br"\uD").is_none() {
        return Cow::Borrowed(line);
    }
    let mut line = line.to_vec();
    mend(&mut line);
    Cow::Owned(line)
}

/// Mends lines that come in pieces, in their place: nothing gets longer or shorter. Gives how many bytes are as they stay; the
/// others come again at the beginning of the next piece, since what follows says whether they are a half.
pub fn mend(piece: &mut [u8]) -> usize {
    let mut at = 0;
    // A backslash stands in no other place than in a text, and begins something there.
    while let Some(next) = memchr::memchr(b'\\', &piece[at..]) {
        at += next;
        let here = &mut piece[at..];
        let (begins, rest) = here.split_at_mut(SPELLED.min(here.len()));
        at += match (half(begins), rest) {
            _ if begins.len() < SPELLED && may_be_half(begins) => return at,
            (None, _) => 2,
            (Some(Half::First), rest) if half(rest) == Some(Half::Second) => 2 * SPELLED,
            (Some(Half::First), rest) if rest.len() < SPELLED && may_be_half(rest) => return at,
            (Some(_), _) => {
                begins.copy_from_slice(INSTEAD);
                SPELLED
            }
        };
        if at >= piece.len() {
            break;
        }
    }
    piece.len()
}

/// Whether a half may begin like this.
fn may_be_half(text: &[u8]) -> bool {
    let escape = &br"\u"[..text.len().min(2)];
    text.starts_with(escape) && text.iter().skip(2).all(u8::is_ascii_hexdigit)
}

#[derive(Debug, PartialEq)]
enum Half {
    First,
    Second,
}

/// Which half begins here, if one does.
fn half(text: &[u8]) -> Option<Half> {
    let digits = text.get(2..SPELLED).filter(|_| may_be_half(&text[..SPELLED]))?;
    let digits = std::str::from_utf8(digits).ok()?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..0xdc00 => Some(Half::First),
        0xdc00..0xe000 => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(line: &str) -> Option<String> {
        serde_json::from_slice(&mended(line.as_bytes())).ok()
    }

    #[test]
    fn a_character_that_was_cut_is_no_reason_to_refuse_a_line() {
        for (line, expected) in [
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\uDE00b""#, "\u{fffd}b"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""\uD83D\uDE00\ude00""#, "\u{1f600}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\ud83dx\ude00""#, "\u{fffd}x\u{fffd}"),
            (r#""\\ud83d""#, r"\ud83d"),
            (r#""\\\ud83d""#, "\\\u{fffd}"),
            (r#""\udbff\udfff\ue000\ud7ff""#, "\u{10ffff}\u{e000}\u{d7ff}"),
        ] {
            assert_eq!(text(line).as_deref(), Some(expected), "{line}");
        }
        for line in [r#""\ud83"#, r#""\ud83d"#, r#""\ud83d\"#, r#""\ud+3d""#, r"\ud83d\", r"\"] {
            assert_eq!(text(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_whole_text_stays_as_it_is_and_any_other_can_be_read(units in prop::collection::vec(any::<u16>(), 0..12)) {
            let spelled: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let line = format!("\"{spelled}\"");
            let read = text(&line);
            prop_assert_eq!(read.as_deref(), Some(&*String::from_utf16_lossy(&units)));
            if serde_json::from_str::<String>(&line).is_ok() {
                prop_assert_eq!(&*mended(line.as_bytes()), line.as_bytes());
            }
        }

        #[test]
        fn lines_in_pieces_come_to_the_same_as_whole_ones(
            parts in prop::collection::vec(prop::sample::select(vec![
                r"\", "u", "d83d", r"\ud83d", r"\ude00", "\"", "é", "x", "\n",
            ]), 0..12),
            cuts in prop::collection::vec(1usize..9, 1..9),
        ) {
            let text = format!("{}\n", parts.concat());
            let (mut came, mut held, mut rest) = (Vec::new(), Vec::new(), text.as_bytes());
            for cut in cuts.into_iter().cycle() {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                held.extend_from_slice(piece);
                let stays = mend(&mut held);
                prop_assert!(held.len() - stays < 2 * SPELLED);
                came.extend(held.drain(..stays));
                rest = more;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(held.is_empty(), "nothing is cut where a line ends");
            let mut whole = text.clone().into_bytes();
            mend(&mut whole);
            prop_assert_eq!(came, whole);
        }

        #[test]
        fn bytes_of_any_kind_are_read_to_their_end(parts in prop::collection::vec(prop::sample::select(vec![
            r"\", "u", "d83d", r"\ud83d", r"\ude00", "\"", "é", "x",
        ]), 0..12)) {
            let line = parts.concat();
            if !line.contains(r"\ud") {
                prop_assert_eq!(&*mended(line.as_bytes()), line.as_bytes());
            }
            mended(line.as_bytes());
        }
    }
}
