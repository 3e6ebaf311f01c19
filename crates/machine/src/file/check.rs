//! Checks plain data key by key and collects everything that is wrong, each with the way to it.
//!
//! A [`Cursor`] is a value and the keys that lead to it. The readers of files turn the way into a line and a
//! column; a driver that is given a bare configuration turns it into words.

use std::fmt;

use serde_json::Value;

use super::shape::Table;
use crate::time::Span;

/// Beyond this many, problems are only counted.
const MAX_PROBLEMS: usize = 100;
/// Longer names are not compared with each other.
const MAX_COMPARED: usize = 64;

/// One step of the way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Into a table.
    Key(String),
    /// Into a list.
    Index(usize),
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The way from the top.
    pub(crate) path: Vec<Segment>,
    /// True if the key itself is meant rather than its value.
    pub(crate) on_key: bool,
    /// The bytes of the value's text that are meant, if not all of it.
    pub(crate) within: Option<(usize, usize)>,
    /// What is wrong and what was expected.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Problem {
    /// The way as it would be written: `workflow.steps[2].on_error`.
    pub(crate) fn way(&self) -> String {
        let mut way = String::new();
        for segment in &self.path {
            match segment {
                Segment::Key(key) if way.is_empty() => way.push_str(key),
                Segment::Key(key) => way.push_str(&format!(".{key}")),
                Segment::Index(index) => way.push_str(&format!("[{index}]")),
            }
        }
        way
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = self.way();
        if !way.is_empty() {
            write!(f, "{way}: ")?;
        }
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// All that is wrong, so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    left_out: usize,
}

impl Problems {
    /// True if nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The problems, and how many more were only counted.
    pub(crate) fn into_parts(self) -> (Vec<Problem>, usize) {
        (self.list, self.left_out)
    }

    /// Everything in one line, for a configuration that has no file.
    pub(crate) fn line(&self) -> String {
        let shown: Vec<String> = self.list.iter().take(3).map(Problem::to_string).collect();
        match self.list.len().saturating_sub(3) + self.left_out {
            0 => shown.join("; "),
            more => format!("{}; and {more} more", shown.join("; ")),
        }
    }

    /// Notes a problem with the value at `at`.
    pub(crate) fn push(
        &mut self,
        at: &Cursor<'_>,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.note(at, false, None, message.into(), hint);
    }

    /// Notes a problem with some bytes of the text at `at`.
    pub(crate) fn push_within(
        &mut self,
        at: &Cursor<'_>,
        bytes: (usize, usize),
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.note(at, false, Some(bytes), message.into(), hint);
    }

    /// Notes a problem with the key that leads to `at`.
    pub(crate) fn push_key(
        &mut self,
        at: &Cursor<'_>,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.note(at, true, None, message.into(), hint);
    }

    fn note(
        &mut self,
        at: &Cursor<'_>,
        on_key: bool,
        within: Option<(usize, usize)>,
        message: String,
        hint: Option<String>,
    ) {
        if self.list.len() >= MAX_PROBLEMS {
            self.left_out += 1;
            return;
        }
        let path = at.path.iter().map(|step| match step {
            Step::Key(key) => Segment::Key((*key).to_owned()),
            Step::Index(index) => Segment::Index(*index),
        });
        self.list.push(Problem { path: path.collect(), on_key, within, message, hint });
    }
}

#[derive(Debug, Clone, Copy)]
enum Step<'v> {
    Key(&'v str),
    Index(usize),
}

/// A value and the way to it. The typed readers note a problem and give nothing if the type is wrong.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'v> {
    /// The value.
    pub(crate) value: &'v Value,
    path: Vec<Step<'v>>,
}

impl<'v> Cursor<'v> {
    /// The top of some data.
    pub(crate) fn top(value: &'v Value) -> Cursor<'v> {
        Cursor { value, path: Vec::new() }
    }

    /// Another value at the same place.
    pub(crate) fn instead<'w>(&self, value: &'w Value) -> Cursor<'w>
    where
        'v: 'w,
    {
        Cursor { value, path: self.path.clone() }
    }

    /// The value of a key, if this is a table that has it. Null counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<Cursor<'v>> {
        let (key, value) = self.value.as_object()?.get_key_value(key)?;
        (!value.is_null()).then(|| self.down(value, Step::Key(key)))
    }

    /// As [`Cursor::get`], and a problem if it is absent.
    pub(crate) fn need(&self, problems: &mut Problems, key: &str) -> Option<Cursor<'v>> {
        let found = self.get(key);
        if found.is_none() && self.value.is_object() {
            let hint = Some(format!("add {key} = …"));
            problems.push_key(self, format!("the key {key:?} is missing"), hint);
        }
        found
    }

    /// The entries of a table, in the order of their keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'v str, Cursor<'v>)> {
        let table = self.value.as_object();
        table
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), self.down(value, Step::Key(key))))
    }

    /// The items of a list.
    pub(crate) fn items(&self, problems: &mut Problems) -> Vec<Cursor<'v>> {
        let Some(list) = self.value.as_array() else {
            self.wrong(problems, "a list");
            return Vec::new();
        };
        list.iter().enumerate().map(|(index, value)| self.down(value, Step::Index(index))).collect()
    }

    fn down(&self, value: &'v Value, step: Step<'v>) -> Cursor<'v> {
        let mut path = Vec::with_capacity(self.path.len() + 1);
        path.extend_from_slice(&self.path);
        path.push(step);
        Cursor { value, path }
    }

    /// Checks that this is a table with no other keys than these; false if it is no table.
    pub(crate) fn table(&self, problems: &mut Problems, what: &str, known: &[&str]) -> bool {
        if !self.value.is_object() {
            self.wrong(problems, "a table");
            return false;
        }
        for (key, entry) in self.entries() {
            if !known.contains(&key) {
                self.unknown(problems, &entry, key, what, known);
            }
        }
        true
    }

    /// Checks that this is a table with no other keys than its shape has; false if it is no table.
    pub(crate) fn keys(&self, problems: &mut Problems, shape: &Table) -> bool {
        self.keys_of(problems, shape.what, shape)
    }

    /// As [`Cursor::keys`], for a table that errors call by a name of its own.
    pub(crate) fn keys_of(&self, problems: &mut Problems, what: &str, shape: &Table) -> bool {
        if !self.value.is_object() {
            self.wrong(problems, "a table");
            return false;
        }
        // The way to a key is only made for what is wrong: nearly all of them are right.
        let keys = self.value.as_object().into_iter().flatten();
        for (key, value) in keys.filter(|(key, _)| !shape.names().any(|known| known == *key)) {
            let entry = self.down(value, Step::Key(key));
            self.unknown(problems, &entry, key, what, &shape.names().collect::<Vec<_>>());
        }
        true
    }

    fn unknown(
        &self,
        problems: &mut Problems,
        entry: &Cursor<'_>,
        key: &str,
        what: &str,
        known: &[&str],
    ) {
        let hint = suggest(key, known.iter().copied())
            .or_else(|| Some(format!("expected {}", known.join(", "))));
        problems.push_key(entry, format!("unknown key {key:?} in {what}"), hint);
    }

    /// Text without NUL.
    pub(crate) fn text(&self, problems: &mut Problems) -> Option<&'v str> {
        match self.value.as_str() {
            Some(text) if text.contains('\0') => {
                let hint = Some("remove the character".to_owned());
                problems.push(self, "text must not contain NUL", hint);
                None
            }
            Some(text) => Some(text),
            None => {
                self.wrong(problems, "text");
                None
            }
        }
    }

    /// A name that is safe as a file name: letters, digits, `_`, `.` and `-`.
    pub(crate) fn name(&self, problems: &mut Problems) -> Option<&'v str> {
        let name = self.text(problems)?;
        if is_name(name) {
            return Some(name);
        }
        problems.push(
            self,
            format!("{} is not a name", short(self.value)),
            Some(NAME_RULE.to_owned()),
        );
        None
    }

    /// A whole number, zero or more.
    pub(crate) fn whole(&self, problems: &mut Problems) -> Option<u64> {
        let number = self.value.as_u64();
        if number.is_none() {
            self.wrong(problems, "a whole number, zero or more");
        }
        number
    }

    /// A number, zero or more.
    pub(crate) fn number(&self, problems: &mut Problems) -> Option<f64> {
        let number = self.value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            self.wrong(problems, "a number, zero or more");
        }
        number
    }

    /// An exit code.
    pub(crate) fn exit(&self, problems: &mut Problems) -> Option<i32> {
        let code = self.value.as_i64().and_then(|code| i32::try_from(code).ok());
        if code.is_none() {
            self.wrong(problems, "an exit code");
        }
        code
    }

    /// True or false.
    pub(crate) fn flag(&self, problems: &mut Problems) -> Option<bool> {
        let flag = self.value.as_bool();
        if flag.is_none() {
            self.wrong(problems, "true or false");
        }
        flag
    }

    /// A length of time such as `"90s"`.
    pub(crate) fn span(&self, problems: &mut Problems) -> Option<Span> {
        let parsed = match self.value.as_str() {
            Some(text) => Span::parse(text),
            None => Err(format!(
                "expected a duration in quotes such as \"90s\", got {}",
                short(self.value)
            )),
        };
        let hint = || match self.value.as_u64() {
            Some(number) => {
                format!("write \"{number}s\" for seconds; the units are ms, s, m, h and d")
            }
            None => "write numbers with units, such as \"1h30m\": ms, s, m, h and d".to_owned(),
        };
        parsed.map_err(|message| problems.push(self, message, Some(hint()))).ok()
    }

    /// A list of texts.
    pub(crate) fn texts(&self, problems: &mut Problems) -> Vec<String> {
        let items = self.items(problems);
        items.iter().filter_map(|item| item.text(problems)).map(str::to_owned).collect()
    }

    /// One of some words.
    pub(crate) fn choice(
        &self,
        problems: &mut Problems,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let given = self.text(problems)?;
        let found = words.iter().find(|word| **word == given);
        if found.is_none() {
            let hint = suggest(given, words.iter().copied())
                .or_else(|| Some(format!("write one of them, such as {:?}", words.first()?)));
            problems.push(
                self,
                format!("{} must be one of {}", short(self.value), words.join(", ")),
                hint,
            );
        }
        found.copied()
    }

    /// Notes that the value is not what was expected.
    pub(crate) fn wrong(&self, problems: &mut Problems, expected: &str) {
        let hint = self.mend(expected);
        problems.push(self, format!("expected {expected}, got {}", short(self.value)), hint);
    }

    /// How what is written becomes what was expected.
    fn mend(&self, expected: &str) -> Option<String> {
        let is_plain = !self.value.is_object() && !self.value.is_array();
        let word = expected.split([' ', ',']).find(|word| !matches!(*word, "a" | "an"))?;
        Some(match (word, self.value) {
            ("text", _) if is_plain => format!("put it in quotes: \"{}\"", self.value),
            ("text", Value::Array(_)) => "write one text in quotes, not a list".to_owned(),
            ("text", _) => "write one text in quotes".to_owned(),
            ("list", Value::String(text)) if !text.contains(' ') => {
                format!("put it in brackets: [{}]", short(self.value))
            }
            ("list", Value::String(_)) => {
                "put it in brackets, each part in quotes of its own: [\"a\", \"b\"]".to_owned()
            }
            ("list", _) => "write a list: [ … ]".to_owned(),
            ("table", _) => {
                "write a table: { key = value }, or [name] on a line of its own".to_owned()
            }
            ("true", _) => "write true or false, without quotes".to_owned(),
            ("whole" | "number", Value::String(text)) if text.parse::<u64>().is_ok() => {
                format!("write it without quotes: {text}")
            }
            ("whole", Value::Number(_)) => {
                "write a number without a sign and without a point".to_owned()
            }
            ("whole" | "number" | "exit", _) => "write a number, without quotes".to_owned(),
            ("size", _) => "write a number of bytes, or one with K, M, G or T".to_owned(),
            _ => return None,
        })
    }
}

/// What [`is_name`] asks for, in words.
pub(crate) const NAME_RULE: &str =
    "names are made of letters, digits, _ . and -, up to 100 of them";

/// True if it can be the name of a workflow, a step, a state or a driver, and of a file.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    !name.is_empty()
        && name.len() <= 100
        && name.chars().all(plain)
        && !name.chars().all(|c| c == '.')
}

/// A value in a few characters.
pub(crate) fn short(value: &Value) -> String {
    match value {
        Value::Object(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Null => "nothing".to_owned(),
        Value::String(text) if text.chars().count() > 40 => {
            format!("{:?}…", text.chars().take(40).collect::<String>())
        }
        Value::String(text) => format!("{text:?}"),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// "Did you mean", if one of the candidates is near: a slip of the keys, or the same first word.
pub(crate) fn suggest<'c>(
    given: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Option<String> {
    if given.len() > MAX_COMPARED {
        return None;
    }
    let lower = given.to_lowercase();
    let first = lower.split(['.', ':', '/', ' ']).next().unwrap_or_default();
    let near =
        candidates.filter(|candidate| candidate.len() <= MAX_COMPARED).filter_map(|candidate| {
            let distance =
                if candidate == first { 1 } else { distance(&lower, &candidate.to_lowercase()) };
            let letters = given.chars().count();
            (distance <= 1.max(letters / 3) && distance < letters).then_some((distance, candidate))
        });
    near.min().map(|(_, candidate)| format!("did you mean {candidate:?}?"))
}

/// How many letters must be added, removed, changed or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let changed = above[j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut best = changed.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[right.len()]
}
