//! Tells whether two outputs say the same. What differs from run to run without meaning anything (moments, lengths of
//! time, temporary paths, addresses, process numbers, hashes, ports) is replaced before they are compared; anything
//! else counts: a line number, a count, a percentage.

/// FNV-1a: stable across runs and platforms, unlike the standard hasher.
#[derive(Debug, Clone, Copy)]
pub struct Hash(u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Adds one part; parts do not run into each other.
    pub fn add(&mut self, part: &[u8]) -> &mut Hash {
        for byte in part.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self
    }

    /// The number.
    pub fn end(&self) -> u64 {
        self.0
    }
}

/// Units that may stand right behind a number, longest first.
const UNITS: [&str; 15] = [
    "seconds", "minutes", "second", "minute", "hours", "secs", "mins", "hour", "sec", "min", "ms",
    "us", "µs", "ns", "s",
];

/// Units that may stand behind a number and a space.
const SPACED_UNITS: [&str; 11] = [
    "milliseconds",
    "seconds",
    "minutes",
    "second",
    "minute",
    "hours",
    "secs",
    "mins",
    "hour",
    "sec",
    "ms",
];

/// Folders whose content has made-up names.
const TEMPORARY: [&str; 5] =
    ["/private/var/folders/", "/var/folders/", "/var/tmp/", "/dev/shm/", "/tmp/"];

/// Words that a process number follows.
const NUMBERED: [&str; 4] = ["process", "thread", "pid", "tid"];

/// The text with what differs from run to run replaced. Linear in its length.
pub fn normalise(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut said = String::with_capacity(text.len());
    // Up to where the text is in there, and up to where it was looked at.
    let (mut taken, mut at) = (0, 0);
    while let Some(skipped) = until_one_may_begin(&bytes[at..]) {
        at += skipped;
        let rest = &text[at..];
        let before = text[taken..at].chars().next_back().or_else(|| said.chars().next_back());
        // Inside of a word nothing of this begins.
        let word = word(&bytes[at..]);
        if word > 0 && is_word(before) {
            at += word;
            continue;
        }
        said.push_str(&text[taken..at]);
        let found = match bytes[at] {
            0x1b => escape(rest),
            b'/' if !in_path(before) => temporary(rest),
            b'/' => None,
            _ => token(rest, before, &said),
        };
        match found {
            Some((length, word)) => {
                said.push_str(word);
                at += length;
                taken = at;
            }
            None => {
                taken = at;
                at += 1;
            }
        }
    }
    said.push_str(&text[taken..]);
    said
}

/// How far it is to where something that differs from run to run may begin: an escape sequence, a path, a number.
fn until_one_may_begin(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            0x1b | b'/' | b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => return Some(at),
            b'g'..=b'z' | b'G'..=b'Z' => at += word(&bytes[at..]),
            _ => at += 1,
        }
    }
}

/// How far letters and figures reach.
fn word(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(bytes.len())
}

/// What begins at the start of a word with a figure, or with a letter that may be one of a hash: how long it is and what
/// stands for it.
fn token(rest: &str, before: Option<char>, said: &str) -> Option<(usize, &'static str)> {
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        let length = uuid(rest).or_else(|| long_hex(rest))?;
        return Some((length, "<hash>"));
    }
    if let Some(length) = date(rest) {
        return Some((length, "<time>"));
    }
    // A line and a column behind a file's name are no time of day.
    if before != Some(':')
        && let Some(length) = time_of_day(rest)
    {
        return Some((length, "<time>"));
    }
    if let Some(length) = address(rest) {
        return Some((length, "<address>"));
    }
    if let Some(length) = uuid(rest).or_else(|| long_hex(rest)) {
        return Some((length, "<hash>"));
    }
    if let Some(length) = duration(rest) {
        return Some((length, "<duration>"));
    }
    number_of_process(rest, said)
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn in_path(c: Option<char>) -> bool {
    is_word(c) || matches!(c, Some('.' | '-' | '/'))
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn ends_word(text: &str) -> bool {
    !is_word(text.chars().next())
}

/// A terminal's escape sequence: it says nothing.
fn escape(rest: &str) -> Option<(usize, &'static str)> {
    let body = rest.strip_prefix("\u{1b}[")?;
    let end = body.find(|c: char| c.is_ascii_alphabetic())?;
    (end <= 32).then_some((2 + end + 1, ""))
}

/// A path below a folder of temporary files: all but its last part is made up, and of a path of one part all.
fn temporary(rest: &str) -> Option<(usize, &'static str)> {
    let root = TEMPORARY.iter().find(|root| rest.starts_with(**root))?;
    let ends = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '"' | '\'' | '`' | ':' | ',' | ')' | ']' | '>' | ';')
    };
    let path = &rest[root.len()..];
    let path = &path[..path.find(ends).unwrap_or(path.len())];
    let made_up = path.rfind('/').map_or(path.len(), |slash| slash);
    (made_up > 0).then_some((root.len() + made_up, "<temporary>"))
}

/// `2026-11-15`, with the time behind it if there is one.
fn date(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let is = |at: usize, test: fn(&u8) -> bool| bytes.get(at).is_some_and(test);
    let separator = *bytes.get(4)?;
    let shaped = digits(rest) == 4
        && matches!(separator, b'-' | b'/')
        && is(5, u8::is_ascii_digit)
        && is(6, u8::is_ascii_digit)
        && bytes.get(7) == Some(&separator)
        && is(8, u8::is_ascii_digit)
        && is(9, u8::is_ascii_digit)
        && !is(10, u8::is_ascii_digit);
    if !shaped {
        return None;
    }
    let after = rest[10..].strip_prefix(['T', 't', ' ', '_']);
    let time = after.and_then(time_of_day).map_or(0, |length| 1 + length);
    Some(10 + time)
}

/// `12:40:07`, with a fraction and a zone.
fn time_of_day(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let hour = digits(rest);
    let pair = |at: usize| digits(rest.get(at..).unwrap_or_default()) == 2;
    let colon = |at: usize| bytes.get(at) == Some(&b':');
    if !(1..=2).contains(&hour) || !colon(hour) || !colon(hour + 3) {
        return None;
    }
    let minute = rest.get(hour + 1..hour + 3)?;
    if digits(minute) != 2 || !pair(hour + 4) {
        return None;
    }
    let mut length = hour + 6;
    if let Some(fraction) = rest[length..].strip_prefix(['.', ',']) {
        let fraction = digits(fraction);
        length += if fraction > 0 { 1 + fraction } else { 0 };
    }
    if rest[length..].starts_with(['Z', 'z']) {
        length += 1;
    } else if let Some(zone) = rest[length..].strip_prefix(['+', '-']) {
        let hours = digits(zone);
        let minutes = zone.get(hours..).and_then(|zone| zone.strip_prefix(':')).map_or(0, digits);
        length += match (hours, minutes) {
            (2, 2) => 6,
            (4, 0) => 5,
            _ => 0,
        };
    }
    Some(length)
}

/// `0x7ffd2c`.
fn address(rest: &str) -> Option<usize> {
    let hex = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"))?;
    let length = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
    // A short one is a constant that somebody wrote.
    (length >= 6 && ends_word(&hex[length..])).then_some(2 + length)
}

fn uuid(rest: &str) -> Option<usize> {
    // What else begins with figures and letters of a hash may be long.
    if rest.as_bytes().get(8) != Some(&b'-') {
        return None;
    }
    let mut at = 0;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        let part = rest.get(at..)?;
        let part = if index == 0 { part } else { part.strip_prefix('-')? };
        if part.bytes().take_while(u8::is_ascii_hexdigit).count() != length {
            return None;
        }
        at += length + usize::from(index > 0);
    }
    ends_word(&rest[at..]).then_some(at)
}

/// A hash in hex, whole or cut: seven digits or more with letters and figures among them.
fn long_hex(rest: &str) -> Option<usize> {
    let length = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    let token = &rest[..length];
    let figures = token.bytes().filter(u8::is_ascii_digit).count();
    let mixed = figures > 0 && figures < length;
    (length >= 7 && mixed && ends_word(&rest[length..])).then_some(length)
}

/// `0.35s`, `12 ms`, `3.2 seconds`.
fn duration(rest: &str) -> Option<usize> {
    let whole = digits(rest);
    if whole == 0 {
        return None;
    }
    let fraction = rest[whole..].strip_prefix('.').map_or(0, digits);
    let number = if fraction > 0 { whole + 1 + fraction } else { whole };
    let after = &rest[number..];
    let unit = |text: &str, units: &[&str]| {
        units
            .iter()
            .find(|unit| text.starts_with(**unit) && ends_word(&text[unit.len()..]))
            .map(|unit| unit.len())
    };
    if let Some(length) = unit(after, &UNITS) {
        return Some(number + length);
    }
    let length = unit(after.strip_prefix(' ')?, &SPACED_UNITS)?;
    Some(number + 1 + length)
}

/// The number behind `pid`, `process` or a thread's name, and the port behind an address of this machine.
fn number_of_process(rest: &str, said: &str) -> Option<(usize, &'static str)> {
    let length = digits(rest);
    if length == 0 || !ends_word(&rest[length..]) {
        return None;
    }
    let local = ["127.0.0.1:", "localhost:", "[::1]:", "0.0.0.0:"];
    if length >= 4 && local.iter().any(|host| said.ends_with(host)) {
        return Some((length, "<port>"));
    }
    if said.ends_with("' (") && rest[length..].starts_with(')') {
        return Some((length, "<number>"));
    }
    let before = said.trim_end_matches([' ', ':', '=', '#', '[', '(']);
    if before.len() == said.len() {
        return None;
    }
    let word = NUMBERED.iter().find(|word| {
        let start = before.len().checked_sub(word.len());
        start.is_some_and(|start| {
            before.is_char_boundary(start)
                && before[start..].eq_ignore_ascii_case(word)
                && !is_word(before[..start].chars().next_back())
        })
    });
    word.map(|_| (length, "<number>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        for (said, expected) in [
            ("finished in 0.35s", "finished in <duration>"),
            ("took 12ms, 3.2 seconds in all", "took <duration>, <duration> in all"),
            ("2026-11-15T12:40:07.123Z error", "<time> error"),
            ("[12:40:07] error", "[<time>] error"),
            ("2026-11-15 12:40:07 error", "<time> error"),
            ("2026-11-15T12:40:07+02:00 error", "<time> error"),
            ("at 0x7ffd2c01aa", "at <address>"),
            ("commit 3f2a9bc failed", "commit <hash> failed"),
            ("id 123e4567-e89b-12d3-a456-426614174000.", "id <hash>."),
            ("cannot open /tmp/tmpab12/x.txt: no", "cannot open <temporary>/x.txt: no"),
            ("in '/tmp/pytest-of-me/pytest-12/test_a0/f'", "in '<temporary>/f'"),
            ("dir /tmp/tmp.Ab12Cd", "dir <temporary>"),
            ("killed (pid 4711)", "killed (pid <number>)"),
            ("PID=4711 exited", "PID=<number> exited"),
            ("thread 'main' (12345) panicked", "thread 'main' (<number>) panicked"),
            ("connect 127.0.0.1:54321 refused", "connect 127.0.0.1:<port> refused"),
            ("\u{1b}[1;31merror\u{1b}[0m", "error"),
        ] {
            assert_eq!(normalise(said), expected, "{said}");
        }
    }

    #[test]
    fn what_means_something_is_kept() {
        for said in [
            "src/main.rs:12:55: expected `;`",
            "3 tests failed, 45%",
            "exit code 101",
            "expected 5, got 6",
            "error[E0308]: mismatched types",
            "process.rs line 10",
            "0xff is not 0x10",
            "deadbeef cafe added",
            "1234567 rows",
            "version 1.2.3",
            "état 42 où ça échoue",
            "/srv/project/tmp/a",
            "127.0.0.1 is local",
            "assertion `left == right` failed\n  left: 1\n right: 2",
        ] {
            assert_eq!(normalise(said), said);
        }
    }

    #[test]
    fn odd_ends_are_taken_as_they_are() {
        for said in [
            "", "1", "12:", "12:4", "2026-", "0x", "/tmp/", "\u{1b}[", "pid ", "é1", "1.", "1:22:3",
        ] {
            assert_eq!(normalise(said), said);
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let hash = |parts: &[&str]| {
            let mut hash = Hash::default();
            parts.iter().for_each(|part| {
                hash.add(part.as_bytes());
            });
            hash.end()
        };
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_eq!(hash(&["ab", "c"]), hash(&["ab", "c"]));
    }

    /// The same, whatever it begins with.
    fn any_token(rest: &str, before: Option<char>, said: &str) -> Option<(usize, &'static str)> {
        if !rest.starts_with(|c: char| c.is_ascii_hexdigit()) {
            return None;
        }
        let time = || if before == Some(':') { None } else { time_of_day(rest) };
        let named = |length: Option<usize>, word| length.map(|length| (length, word));
        named(date(rest).or_else(time), "<time>")
            .or_else(|| named(address(rest), "<address>"))
            .or_else(|| named(uuid(rest).or_else(|| long_hex(rest)), "<hash>"))
            .or_else(|| named(duration(rest), "<duration>"))
            .or_else(|| number_of_process(rest, said))
    }

    /// The same, at each character anew.
    fn one_by_one(text: &str) -> String {
        let mut said = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let before = said.chars().next_back();
            let found = if is_word(before) && first.is_ascii_alphanumeric() {
                None
            } else {
                escape(rest)
                    .or_else(|| if in_path(before) { None } else { temporary(rest) })
                    .or_else(|| if is_word(before) { None } else { any_token(rest, before, &said) })
            };
            match found {
                Some((length, word)) => {
                    said.push_str(word);
                    rest = &rest[length..];
                }
                None => {
                    said.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        said
    }

    proptest::proptest! {
        #[test]
        fn what_is_skipped_could_not_have_begun_anything(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "2026-11-15", "12:40:07", "0x7ffd2c", "3f2a9bc", "/tmp/", "/tmp/ab/c", "12", "ms", " ", "\n",
                    "pid ", "127.0.0.1:", "54321", "\u{1b}[", "31m", "é", "x", "_", ".", "-", "/", "e", ":", "' (", ")",
                    "seconds", "deadbeef1", "123e4567-e89b-12d3-a456-426614174000", "get", "abc", "Z", "g3f2a9bc",
                ]),
                0..24,
            )
        ) {
            let text = parts.concat();
            proptest::prop_assert_eq!(normalise(&text), one_by_one(&text));
        }
    }
}
