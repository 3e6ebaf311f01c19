//! Finds known secrets in text, whatever common clothes they wear, and puts their names in their place.
//!
//! A secret is known by its value: as it is, as it stands inside JSON or a URL, in hex, and in base64 at each of the three
//! places where it can begin. What is too short to be told from ordinary words is no secret.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

/// The shortest value that is covered.
pub const MIN_SECRET: usize = 8;

/// The shortest piece of an encoded value that is taken for it.
const MIN_PIECE: usize = 10;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Secrets by their values. Never shown itself.
#[derive(Clone, Default)]
pub struct Redactor {
    /// What is looked for and what it becomes, the longest first: a value that holds another is covered whole.
    forms: Vec<(String, String)>,
    /// The bytes, and the pairs of bytes, with which one of them begins: nearly every place of a text is passed over by them.
    begins: Begins,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} forms)", self.forms.len())
    }
}

impl Redactor {
    /// Adds a secret under its name. A value that is too short is left out.
    pub fn add(&mut self, name: &str, value: &str) {
        let value = value.trim();
        if value.len() < MIN_SECRET || self.forms.iter().any(|(form, _)| form == value) {
            return;
        }
        let cover = format!("[redacted: {name}]");
        for form in forms(value) {
            self.begins.add(form.as_bytes());
            self.forms.push((form, cover.clone()));
        }
        self.forms.sort_by(|left, right| {
            right.0.len().cmp(&left.0.len()).then_with(|| left.0.cmp(&right.0))
        });
        self.forms.dedup_by(|left, right| left.0 == right.0);
    }

    /// Whether nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Whether a text shows a secret.
    pub fn finds(&self, text: &str) -> bool {
        self.find(text.as_bytes(), 0).is_some()
    }

    /// The text with the name of each secret in its place.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let (mut shown, mut from) = (String::new(), 0);
        // A secret is text: it begins and ends between two letters.
        while let Some((place, cover)) = self.find(text.as_bytes(), from) {
            shown.push_str(&text[from..place.start]);
            shown.push_str(cover);
            from = place.end;
        }
        if from == 0 {
            return Cow::Borrowed(text);
        }
        shown.push_str(&text[from..]);
        Cow::Owned(shown)
    }

    /// The same for bytes that may be no text.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let (mut shown, mut from) = (Vec::new(), 0);
        while let Some((place, cover)) = self.find(bytes, from) {
            shown.extend_from_slice(&bytes[from..place.start]);
            shown.extend_from_slice(cover.as_bytes());
            from = place.end;
        }
        if from == 0 {
            return Cow::Borrowed(bytes);
        }
        shown.extend_from_slice(&bytes[from..]);
        Cow::Owned(shown)
    }

    /// The next piece of a text that comes in pieces, as far as it can be shown by now. `held` is what was held back of
    /// those before, because a secret may begin there; whoever knows that no more comes shows it with [`Redactor::text`].
    pub fn piece(&self, held: &mut String, piece: &str) -> String {
        held.push_str(piece);
        let cut = self.cut(held.as_bytes());
        let rest = held.split_off(cut);
        let known = std::mem::replace(held, rest);
        match self.text(&known) {
            Cow::Borrowed(_) => known,
            Cow::Owned(shown) => shown,
        }
    }

    /// The value without secrets in any of its texts and names.
    pub fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text).into_owned()),
            Value::Array(items) => items.into_iter().map(|item| self.json(item)).collect(),
            Value::Object(map) => map
                .into_iter()
                .map(|(name, value)| (self.text(&name).into_owned(), self.json(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    /// The first secret from there on, and all others that begin inside of it: nothing of them may be left over.
    fn find(&self, bytes: &[u8], from: usize) -> Option<(Range<usize>, &str)> {
        let (start, (length, cover)) =
            (from..bytes.len()).find_map(|at| Some((at, self.longest_at(bytes, at)?)))?;
        let (mut at, mut end) = (start + 1, start + length);
        while at < end {
            if let Some((length, _)) = self.longest_at(bytes, at) {
                end = end.max(at + length);
            }
            at += 1;
        }
        Some((start..end, cover))
    }

    fn longest_at(&self, bytes: &[u8], at: usize) -> Option<(usize, &str)> {
        if !self.begins.may_be(&bytes[at..]) {
            return None;
        }
        let found = self.forms.iter().find(|(form, _)| bytes[at..].starts_with(form.as_bytes()));
        found.map(|(form, cover)| (form.len(), cover.as_str()))
    }

    /// Up to where a text is known, whatever follows it: to the first place where a secret begins that is not whole, or to
    /// the beginning of a whole one that goes on behind that place.
    fn cut(&self, bytes: &[u8]) -> usize {
        let longest = self.forms.first().map_or(0, |(form, _)| form.len());
        let is_open = |at: &usize| {
            let rest = &bytes[*at..];
            self.begins.may_be(rest)
                && self
                    .forms
                    .iter()
                    .any(|(form, _)| form.len() > rest.len() && form.as_bytes().starts_with(rest))
        };
        let Some(open) = (bytes.len().saturating_sub(longest)..bytes.len()).find(is_open) else {
            return bytes.len();
        };
        let mut from = 0;
        while let Some((place, _)) = self.find(bytes, from) {
            if place.end > open {
                return place.start.min(open);
            }
            from = place.end;
        }
        open
    }
}

/// Which bytes, and which pairs of bytes, begin something that is looked for.
#[derive(Clone, Default)]
struct Begins {
    first: [u64; 4],
    pairs: Vec<u64>,
}

impl Begins {
    fn add(&mut self, form: &[u8]) {
        let &[first, second, ..] = form else { return };
        let pair = usize::from(first) << 8 | usize::from(second);
        self.pairs.resize(1 << 10, 0);
        self.first[usize::from(first) / 64] |= 1 << (first % 64);
        self.pairs[pair / 64] |= 1 << (pair % 64);
    }

    /// Whether something may begin with these bytes, or they with it.
    fn may_be(&self, bytes: &[u8]) -> bool {
        match *bytes {
            [] => false,
            [first] => self.first[usize::from(first) / 64] >> (first % 64) & 1 == 1,
            [first, second, ..] => {
                let pair = usize::from(first) << 8 | usize::from(second);
                self.pairs.get(pair / 64).is_some_and(|word| word >> (pair % 64) & 1 == 1)
            }
        }
    }
}

/// The ways in which a value may be written.
fn forms(value: &str) -> Vec<String> {
    let quoted = Value::from(value).to_string();
    let hex = |upper: bool| -> String {
        let digits = value.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        if upper { digits.to_uppercase() } else { digits }
    };
    let in_url: String = value
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect();
    let mut forms = vec![
        value.to_owned(),
        quoted[1..quoted.len() - 1].to_owned(),
        in_url.clone(),
        in_url.to_lowercase(),
        hex(false),
        hex(true),
    ];
    for alphabet in [STANDARD, FOR_URLS] {
        forms.extend((0..3).map(|before| base64_piece(value.as_bytes(), before, alphabet)));
    }
    // Lower case makes another word of a value with capitals, which nobody's decoder understands.
    forms.retain(|form| form == value || (form.len() >= MIN_PIECE && !is_other_case(form, value)));
    forms
}

fn is_other_case(form: &str, value: &str) -> bool {
    form != value && form.eq_ignore_ascii_case(value)
}

/// The letters of a value's base64 that do not depend on what stands around it, if that many bytes stand before it.
fn base64_piece(value: &[u8], before: usize, alphabet: &[u8; 64]) -> String {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(value);
    let bits = bytes.len() * 8;
    let (first, last) = ((before * 8).div_ceil(6), bits / 6);
    let sextet = |index: usize| {
        let bit = |at: usize| {
            let byte = bytes.get(at / 8).copied().unwrap_or(0);
            usize::from(byte >> (7 - at % 8) & 1)
        };
        (0..6).fold(0, |sum, offset| sum << 1 | bit(index * 6 + offset))
    };
    (first..last).map(|index| char::from(alphabet[sextet(index)])).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const KEY: &str = "sk-Live+0123/456789\"x";

    fn redactor() -> Redactor {
        let mut redactor = Redactor::default();
        redactor.add("A_KEY", KEY);
        redactor.add("SHORT", "none");
        redactor
    }

    #[test]
    fn a_secret_is_covered_in_every_form() {
        let redactor = redactor();
        let shown = |text: &str| redactor.text(text).into_owned();
        assert_eq!(shown(&format!("a {KEY} b")), "a [redacted: A_KEY] b");
        assert_eq!(shown("none of it"), "none of it");
        assert_eq!(shown("k=sk-Live%2B0123%2F456789%22x&"), "k=[redacted: A_KEY]&");
        let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown(&hex), "[redacted: A_KEY]");
        let quoted = json!({ "key": KEY }).to_string();
        assert_eq!(shown(&quoted), r#"{"key":"[redacted: A_KEY]"}"#);
        let covered = redactor.json(json!({ "a": [KEY], KEY: 1 }));
        assert!(!covered.to_string().contains("0123"), "{covered}");
        assert_eq!(
            redactor.bytes(format!("\u{1}{KEY}{KEY}\u{2}").as_bytes()).as_ref(),
            b"\x01[redacted: A_KEY][redacted: A_KEY]\x02"
        );
    }

    #[test]
    fn base64_is_found_wherever_the_secret_begins() {
        let redactor = redactor();
        for before in ["", "x", "xy", "xyz", "Authorization: Bearer "] {
            let text = format!("{before}{KEY} and more");
            let encoded = whole_base64(text.as_bytes());
            let shown = redactor.text(&encoded).into_owned();
            assert!(shown.contains("[redacted: A_KEY]"), "{before:?}: {encoded} {shown}");
        }
    }

    #[test]
    fn a_secret_inside_another_does_not_leave_its_rest() {
        let mut redactor = Redactor::default();
        redactor.add("INNER", "abcdefgh1234");
        redactor.add("OUTER", "abcdefgh12345678");
        assert_eq!(redactor.text("abcdefgh12345678"), "[redacted: OUTER]");
        assert_eq!(format!("{redactor:?}").matches("abcd").count(), 0);
    }

    #[test]
    fn of_two_secrets_that_overlap_nothing_is_left() {
        let mut redactor = Redactor::default();
        redactor.add("LEFT", "left-1234-abcd");
        redactor.add("RIGHT", "abcd-5678-right");
        assert_eq!(redactor.text("<left-1234-abcd-5678-right>"), "<[redacted: LEFT]>");
    }

    #[test]
    fn what_cannot_be_a_secret_any_more_is_shown_at_once() {
        let redactor = redactor();
        let mut held = String::new();
        assert_eq!(redactor.piece(&mut held, "the key is sk-Live"), "the key is ");
        assert_eq!(redactor.piece(&mut held, "ly as ever."), "sk-Lively as ever.");
        assert_eq!(redactor.piece(&mut held, "sk-Live+0123/4567"), "");
        assert_eq!(redactor.piece(&mut held, "89\"x!"), "[redacted: A_KEY]!");
        assert_eq!(held, "");
    }

    proptest! {
        /// Words that begin like secrets, end like them and overlap, cut anywhere: as if it had come at once.
        #[test]
        fn pieces_show_what_the_whole_shows(
            words in proptest::collection::vec(0..8usize, 0..12),
            cuts in proptest::collection::vec(0..400usize, 0..12),
        ) {
            let mut redactor = redactor();
            for (name, value) in
                [("LEFT", "left-1234-abcd"), ("RIGHT", "abcd-5678-right"), ("LONG", "left-1234-abcd-56789")]
            {
                redactor.add(name, value);
            }
            let parts = [KEY, "left-1234-", "abcd", "-5678-right", "9", "sk-", "é ", "left-1234-abcd-56789"];
            let text: String = words.iter().map(|word| parts[*word]).collect();
            let mut cuts: Vec<usize> =
                cuts.into_iter().filter(|cut| text.is_char_boundary(*cut)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let (mut held, mut shown) = (String::new(), String::new());
            for cut in cuts.windows(2) {
                shown += &redactor.piece(&mut held, &text[cut[0]..cut[1]]);
            }
            shown += &redactor.text(&held);
            prop_assert_eq!(shown, redactor.text(&text).into_owned());
        }
    }

    fn whole_base64(bytes: &[u8]) -> String {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().div_ceil(3) * 3, 0);
        base64_piece(&padded, 0, STANDARD)
    }
}
