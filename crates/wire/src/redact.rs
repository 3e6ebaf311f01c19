//! Finds known secrets in text, whatever common clothes they wear, and puts their names in their place.
//!
//! A secret is known by its value: as it is, as it stands inside JSON or a URL, in hex, and in base64 at each of the three
//! places where it can begin. What is too short to be told from ordinary words is no secret.

use std::borrow::Cow;

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
        self.forms.iter().any(|(form, _)| text.contains(form.as_str()))
    }

    /// The text with the name of each secret in its place.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut shown = Cow::Borrowed(text);
        for (form, cover) in &self.forms {
            if shown.contains(form.as_str()) {
                shown = Cow::Owned(shown.replace(form.as_str(), cover));
            }
        }
        shown
    }

    /// The same for bytes that may be no text.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut shown = Cow::Borrowed(bytes);
        for (form, cover) in &self.forms {
            if let Some(changed) = replaced(&shown, form.as_bytes(), cover.as_bytes()) {
                shown = Cow::Owned(changed);
            }
        }
        shown
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

fn replaced(bytes: &[u8], form: &[u8], cover: &[u8]) -> Option<Vec<u8>> {
    let find = |from: &[u8]| from.windows(form.len()).position(|part| part == form);
    let mut at = find(bytes)?;
    let (mut shown, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    loop {
        shown.extend_from_slice(&rest[..at]);
        shown.extend_from_slice(cover);
        rest = &rest[at + form.len()..];
        match find(rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    shown.extend_from_slice(rest);
    Some(shown)
}

#[cfg(test)]
mod tests {
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

    fn whole_base64(bytes: &[u8]) -> String {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().div_ceil(3) * 3, 0);
        base64_piece(&padded, 0, STANDARD)
    }
}
