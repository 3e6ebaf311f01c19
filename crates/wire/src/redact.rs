//! Finds known secrets in text, whatever common clothes they wear, and puts their names in their place.
//!
//! A secret is known by its value: as it is, as it stands inside JSON or a URL, in hex, and in base64 at each of the three
//! places where it can begin; one of several lines also by each of them. What is too short to be told from ordinary words is
//! no secret. Where a text ends, or what is quoted in it, the first half of a secret is covered too: it was cut by somebody
//! who did not know what it was.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

/// The shortest value that is covered.
pub const MIN_SECRET: usize = 8;

/// The shortest piece of an encoded value that is taken for it.
const MIN_PIECE: usize = 10;

/// The shortest line of a value that is a secret by itself.
const MIN_LINE: usize = 16;

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
        self.text_until(text, text.len())
    }

    /// The same up to a place that no secret crosses.
    fn text_until<'a>(&self, text: &'a str, until: usize) -> Cow<'a, str> {
        let (mut shown, mut from) = (String::new(), 0);
        // A secret is text: it begins and ends between two letters.
        while let Some((place, cover)) = self.find(text.as_bytes(), from)
            && place.start < until
        {
            shown.push_str(&text[from..place.start]);
            shown.push_str(cover);
            from = place.end;
        }
        if from == 0 {
            return Cow::Borrowed(&text[..until]);
        }
        shown.push_str(&text[from..until]);
        Cow::Owned(shown)
    }

    /// The same for what is read without regard to case, as the name of a host.
    pub fn text_in_any_case(&self, text: &str) -> String {
        let mut folded = Redactor::default();
        for (form, cover) in &self.forms {
            let form = form.to_ascii_lowercase();
            folded.begins.add(form.as_bytes());
            folded.forms.push((form, cover.clone()));
        }
        match folded.text(&text.to_ascii_lowercase()) {
            Cow::Borrowed(_) => text.to_owned(),
            Cow::Owned(shown) => shown,
        }
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
        let known = self.known_until(held.as_bytes());
        let shown = self.text_until(held, known).into_owned();
        held.drain(..known);
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
        let rest = &bytes[at..];
        if !self.begins.may_be(rest) {
            return None;
        }
        let here =
            self.forms.iter().filter_map(|(form, cover)| Some((standing(form, rest)?, cover)));
        let (length, cover) = here.max_by_key(|(length, _)| *length)?;
        Some((length, cover))
    }

    /// From where a text is known, whatever stood before it: from behind the rest of a secret that may have begun there, and
    /// of a whole one that begins in that rest.
    pub fn known_from(&self, bytes: &[u8]) -> usize {
        let rest_of = |form: &[u8]| {
            let rests = (1..form.len()).map(|begun| &form[begun..]);
            let here = |rest: &&[u8]| bytes.starts_with(rest) || rest.starts_with(bytes);
            rests.into_iter().find(here).map_or(0, |rest| rest.len().min(bytes.len()))
        };
        let mut known =
            self.forms.iter().map(|(form, _)| rest_of(form.as_bytes())).max().unwrap_or(0);
        let mut at = 0;
        while at < known {
            if let Some((length, _)) = self.longest_at(bytes, at) {
                known = known.max(at + length);
            }
            at += 1;
        }
        known
    }

    /// Up to where a text is known, whatever follows it: to the first place where a secret begins that is not whole, or to
    /// the beginning of a whole one that goes on behind that place.
    pub fn known_until(&self, bytes: &[u8]) -> usize {
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

/// How much of a form stands there: all of it, or at least the first half of it, with nothing behind it but the mark of a cut.
fn standing(form: &str, rest: &[u8]) -> Option<usize> {
    let common = form.bytes().zip(rest).take_while(|(wanted, byte)| wanted == *byte).count();
    // What addresses, paths and keys in files begin with is in many texts.
    let is_shared = form.starts_with(['/', '-']) || form.contains("://");
    let is_much = common >= MIN_SECRET && common * 2 >= form.len() && !is_shared;
    let behind = &rest[common..];
    let is_cut =
        || behind.is_empty() || behind.starts_with(b"\"") || behind.starts_with("…".as_bytes());
    (common == form.len() || (is_much && is_cut())).then_some(common)
}

/// The ways in which a value may be written.
fn forms(value: &str) -> Vec<String> {
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
    let mut forms = vec![in_url.clone(), in_url.to_lowercase(), hex(false), hex(true)];
    for alphabet in [STANDARD, FOR_URLS] {
        forms.extend((0..3).map(|before| base64_piece(value.as_bytes(), before, alphabet)));
    }
    // Lower case makes another word of a value with capitals, which nobody's decoder understands.
    forms.retain(|form| form.len() >= MIN_PIECE && !is_other_case(form, value));
    // Other programs than ours have a sign before a slash in JSON, too.
    forms.extend([value.to_owned(), quoted(value), quoted(value).replace('/', "\\/")]);
    forms.extend(lines(value).flat_map(|line| [line.to_owned(), quoted(line)]));
    forms
}

/// The lines of a value that has several, as they are shown one by one: of a key in a file, or in the JSON of an account.
/// What has words in it may be in any file of that kind.
fn lines(value: &str) -> impl Iterator<Item = &str> {
    let lines = value.lines().flat_map(|line| line.split("\\n")).map(str::trim);
    lines.filter(move |line| {
        line.len() >= MIN_LINE && *line != value && !line.contains(char::is_whitespace)
    })
}

fn quoted(value: &str) -> String {
    let quoted = Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
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
    fn a_key_of_several_lines_is_covered_line_by_line() {
        let mut redactor = Redactor::default();
        let lines = ["MIIEvQIBADANBgkqhkiG9w0BAQ", "BHW9b8CqQ+0123456789abcdef", "short="];
        let key = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            lines.join("\n")
        );
        redactor.add("PEM", &key);
        assert_eq!(redactor.text(&format!("<{}>", key.trim())), "<[redacted: PEM]>");
        assert_eq!(redactor.text(&json!(key.trim()).to_string()), "\"[redacted: PEM]\"");
        assert_eq!(redactor.text(&format!("2: {}\n", lines[1])), "2: [redacted: PEM]\n");
        assert_eq!(redactor.text("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
        redactor.add("ACCOUNT", &json!({ "private_key": key.replace("MII", "NII") }).to_string());
        assert_eq!(redactor.text(&lines[0].replace("MII", "NII")), "[redacted: ACCOUNT]");
    }

    #[test]
    fn a_short_secret_is_found_inside_json_and_a_slash_with_a_sign_before_it() {
        let mut redactor = Redactor::default();
        redactor.add("SHORT", "pa\"ss/12");
        assert_eq!(redactor.text(r#"{"p":"pa\"ss/12"}"#), r#"{"p":"[redacted: SHORT]"}"#);
        assert_eq!(redactor.text(r#"{"p":"pa\"ss\/12"}"#), r#"{"p":"[redacted: SHORT]"}"#);
    }

    #[test]
    fn the_first_half_of_a_secret_is_covered_where_it_was_cut() {
        let redactor = redactor();
        for behind in ["", "\"}", "…"] {
            let shown = redactor.text(&format!("is {}{behind}", &KEY[..11])).into_owned();
            assert_eq!(shown, format!("is [redacted: A_KEY]{behind}"));
        }
        assert_eq!(redactor.text("is sk-Live"), "is sk-Live", "what many keys begin with");
        assert_eq!(redactor.text("sk-Live+0123/ is none"), "sk-Live+0123/ is none");
        let mut redactor = Redactor::default();
        redactor.add("TOKEN_URL", "https://login.example.org/oauth/token");
        redactor.add("KEY_FILE", "/srv/service/keys/one");
        for text in ["\"https://login.example.org\"", "\"/srv/service/keys\""] {
            assert_eq!(redactor.text(text), text);
        }
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
    fn in_the_name_of_a_host_a_secret_is_found_in_any_case() {
        let mut redactor = Redactor::default();
        redactor.add("A_KEY", "Sk-Live0123");
        let shown = |host: &str| redactor.text_in_any_case(host);
        assert_eq!(shown("sk-live0123.Example.org"), "[redacted: A_KEY].example.org");
        assert_eq!(shown("Example.org"), "Example.org");
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
        /// Whatever piece is cut out of a text: nothing of a secret that one of the cuts went through is left.
        #[test]
        fn of_a_piece_nothing_is_known_that_a_cut_went_through(
            words in proptest::collection::vec(0..5usize, 1..8),
            cuts in (0..400usize, 0..400usize),
        ) {
            let mut redactor = redactor();
            redactor.add("LEFT", "left-1234-abcd");
            redactor.add("RIGHT", "abcd-5678-right");
            let parts = [KEY, "left-1234-", "abcd", "-5678-right", " "];
            let text: Vec<u8> = words.iter().flat_map(|word| parts[*word].bytes()).collect();
            let mut hidden = vec![false; text.len()];
            let mut from = 0;
            while let Some((place, _)) = redactor.find(&text, from) {
                hidden[place.clone()].fill(true);
                from = place.end;
            }
            let (from, to) = (cuts.0.min(cuts.1).min(text.len()), cuts.0.max(cuts.1).min(text.len()));
            let piece = &text[from..to];
            let piece = &piece[redactor.known_from(piece)..];
            let start = to - piece.len();
            let piece = &piece[..redactor.known_until(piece)];
            let mut shows = vec![true; piece.len()];
            let mut at = 0;
            while let Some((place, _)) = redactor.find(piece, at) {
                shows[place.clone()].fill(false);
                at = place.end;
            }
            for (at, shows) in shows.iter().enumerate() {
                prop_assert!(!shows || !hidden[start + at], "{:?}", String::from_utf8_lossy(piece));
            }
        }

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
