//! A script's file, read strictly: every key is known, every error has its place.

use std::ops::Range;

use machine::file::SourceError;
use machine::message::{StopReason, Usage};
use machine::time::Span;
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Call, End, FAILURES, Failure, Fault, Repeat, Says, Script, Scripted};

/// Larger than any script a person writes.
const MAX_BYTES: usize = 16 << 20;
/// A person fixes a few errors at a time.
const MAX_ERRORS: usize = 20;
/// Parameters of a tool do not nest deeper.
const MAX_DEPTH: usize = 48;
const SNIPPET_WIDTH: usize = 100;

const REPLY_KEYS: &[&str] = &[
    "match",
    "repeat",
    "delay",
    "text",
    "thinking",
    "tool_calls",
    "usage",
    "stop",
    "status",
    "error",
    "body",
    "retry_after",
    "cut_after_bytes",
    "stall",
    "drip",
    "hang_up",
];
/// Keys that make a reply something: without any of them it is a mistake.
const SUBSTANCE: &[&str] = &[
    "text",
    "thinking",
    "tool_calls",
    "stop",
    "status",
    "error",
    "cut_after_bytes",
    "stall",
    "hang_up",
];
const STOPS: &[(&str, StopReason)] = &[
    ("end_turn", StopReason::EndTurn),
    ("tool_use", StopReason::ToolUse),
    ("max_tokens", StopReason::MaxTokens),
    ("stop_sequence", StopReason::StopSequence),
    ("refusal", StopReason::Refusal),
    ("pause", StopReason::Pause),
];

pub(super) fn parse(text: &str, file: &str) -> Result<Script, Vec<SourceError>> {
    let mut reader = Reader { file, text, errors: Vec::new() };
    if text.len() > MAX_BYTES {
        reader.wrong(
            0..0,
            format!("the file has {} bytes: at most {MAX_BYTES} are read", text.len()),
        );
        return Err(reader.errors);
    }
    // The recovering parser hands out the tree even on error: taken apart below, it is never dropped deep.
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MAX_ERRORS) {
        let message = error.message().trim().replace('\n', ", ");
        reader.wrong(error.span().unwrap_or(0..0), message);
    }
    if !reader.errors.is_empty() {
        discard(DeValue::Table(table.into_inner()));
        return Err(reader.errors);
    }
    let script = reader.script(table.get_ref());
    discard(DeValue::Table(table.into_inner()));
    match script {
        Some(script) if reader.errors.is_empty() => Ok(script),
        _ => {
            reader.errors.sort_by_key(|error| (error.line, error.column));
            reader.errors.truncate(MAX_ERRORS);
            Err(reader.errors)
        }
    }
}

/// Takes a tree apart without recursion.
fn discard(value: DeValue<'_>) {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            DeValue::Array(items) => left.extend(items.into_iter().map(Spanned::into_inner)),
            DeValue::Table(table) => {
                left.extend(table.into_iter().map(|(_, value)| value.into_inner()));
            }
            _ => {}
        }
    }
}

type Item<'t> = Spanned<DeValue<'t>>;

struct Reader<'f> {
    file: &'f str,
    text: &'f str,
    errors: Vec<SourceError>,
}

impl Reader<'_> {
    fn script(&mut self, top: &DeTable<'_>) -> Option<Script> {
        self.known(top, "a script", &["reply", "replies", "end", "aside"]);
        let list = match (top.get("reply"), top.get("replies")) {
            (Some(_), Some(twice)) => {
                self.wrong(twice.span(), "both \"reply\" and \"replies\": use one name for all");
                return None;
            }
            (Some(list), None) | (None, Some(list)) => list,
            (None, None) => {
                let hint = "begin a reply with [[reply]]".to_owned();
                self.hinted(0..0, "the script has no replies", Some(hint));
                return None;
            }
        };
        let mut replies = Vec::new();
        for item in self.items(list) {
            if let Some(table) = self.table(item) {
                let reply = self.reply(table, item.span());
                replies.extend(reply);
            }
        }
        let end = match top.get("end") {
            None => End::Fail(None),
            Some(end) => self.end(end)?,
        };
        let aside = match top.get("aside") {
            None => None,
            Some(aside) => Some(self.aside(aside)?),
        };
        Some(Script { replies, end, aside })
    }

    fn aside(&mut self, item: &Item<'_>) -> Option<Says> {
        let table = self.table(item)?;
        self.known(table, "[aside]", &["text", "usage"]);
        if !table.contains_key("text") {
            self.wrong(item.span(), "[aside] has no text to answer with");
        }
        self.says(table)
    }

    fn end(&mut self, item: &Item<'_>) -> Option<End> {
        let table = self.table(item)?;
        self.known(table, "[end]", &["then", "message"]);
        let message = table.get("message");
        let words = message.and_then(|message| self.string(message));
        match table.get("then") {
            None => Some(End::Fail(words)),
            Some(then) => match self.choice(then, &["repeat", "error"])? {
                0 => {
                    if let Some(message) = message {
                        self.wrong(message.span(), "a message is for then = \"error\"");
                    }
                    Some(End::RepeatLast)
                }
                _ => Some(End::Fail(words)),
            },
        }
    }

    fn reply(&mut self, table: &DeTable<'_>, place: Range<usize>) -> Option<Scripted> {
        self.known(table, "a reply", REPLY_KEYS);
        if !SUBSTANCE.iter().any(|key| table.contains_key(*key)) {
            let hint = format!("give it one of {}", SUBSTANCE.join(", "));
            self.hinted(place, "the reply says nothing and breaks nothing", Some(hint));
            return None;
        }
        let needs = table.get("match").and_then(|item| self.string(item));
        let repeat = match table.get("repeat") {
            None => Repeat::Times(1),
            Some(item) => self.repeat(item)?,
        };
        let delay = table.get("delay").and_then(|item| self.span(item)).unwrap_or_default();
        let fault = self.fault(table);
        let says = self.says(table)?;
        Some(Scripted { needs, repeat, delay, says, fault })
    }

    fn says(&mut self, table: &DeTable<'_>) -> Option<Says> {
        let text = table.get("text").and_then(|item| self.string(item));
        let thinking = table.get("thinking").and_then(|item| self.string(item));
        let mut calls = Vec::new();
        if let Some(list) = table.get("tool_calls") {
            for item in self.items(list) {
                let call = self.table(item).and_then(|table| self.call(table, item.span()));
                calls.extend(call);
            }
        }
        let usage = table.get("usage").map(|item| self.usage(item)).unwrap_or_default();
        let words: Vec<&str> = STOPS.iter().map(|(word, _)| *word).collect();
        let stop = table.get("stop").and_then(|item| Some(STOPS[self.choice(item, &words)?].1));
        if let (Some(item), Some(StopReason::ToolUse), true) =
            (table.get("stop"), stop, calls.is_empty())
        {
            self.wrong(item.span(), "the reply stops for tool calls and has none");
        }
        Some(Says { thinking, text, calls, usage, stop })
    }

    fn call(&mut self, table: &DeTable<'_>, place: Range<usize>) -> Option<Call> {
        self.known(table, "a tool call", &["tool", "input", "id"]);
        let id = table.get("id").and_then(|item| self.string(item));
        let Some(tool) = table.get("tool") else {
            self.wrong(place, "the key \"tool\" is missing");
            return None;
        };
        let name = self.string(tool)?;
        if name.is_empty() {
            self.wrong(tool.span(), "a tool has a name");
        }
        let input = match table.get("input") {
            None => Value::Object(Map::new()),
            Some(item) => {
                self.table(item)?;
                self.plain(item, 0)
            }
        };
        Some(Call { id, tool: name, input })
    }

    fn usage(&mut self, item: &Item<'_>) -> Usage {
        const KEYS: &[&str] =
            &["input", "output", "thinking", "cache_read", "cache_write", "cache_write_long"];
        let Some(table) = self.table(item) else { return Usage::default() };
        self.known(table, "usage", KEYS);
        let mut count = |key: &str| table.get(key).and_then(|item| self.whole(item));
        Usage {
            nanodollars: None,
            input: count("input"),
            output: count("output"),
            thinking: count("thinking"),
            cache_read: count("cache_read"),
            cache_write: count("cache_write"),
            cache_write_long: count("cache_write_long"),
        }
    }

    fn fault(&mut self, table: &DeTable<'_>) -> Option<Fault> {
        let is_failure = table.contains_key("status") || table.contains_key("error");
        let alone: &[&str] = if is_failure {
            &[
                "text",
                "thinking",
                "tool_calls",
                "usage",
                "stop",
                "cut_after_bytes",
                "stall",
                "drip",
                "hang_up",
            ]
        } else {
            &["body", "retry_after"]
        };
        for (key, item) in alone.iter().filter_map(|key| Some((key, table.get(*key)?))) {
            let message = if is_failure {
                format!("{key:?} has no place in an HTTP error")
            } else {
                format!("{key:?} belongs to an HTTP error: give a status")
            };
            self.wrong(item.span(), message);
        }
        if is_failure {
            return self.failure(table).map(Fault::Failure);
        }
        if let Some(item) = table.get("hang_up") {
            match item.get_ref() {
                DeValue::Boolean(true) => {}
                _ => self.wrong(item.span(), "expected true, or leave it out"),
            }
            return Some(Fault::HangUp);
        }
        if let Some(item) = table.get("drip") {
            for other in ["stall", "cut_after_bytes"] {
                if let Some(other) = table.get(other) {
                    self.wrong(other.span(), "this and \"drip\" have no place in one reply");
                }
            }
            return self.span(item).map(Fault::Drip);
        }
        let stall = table.get("stall").and_then(|item| self.span(item));
        let cut = table.get("cut_after_bytes").and_then(|item| self.whole(item));
        let says = ["text", "thinking", "tool_calls", "stop"];
        match (cut, stall) {
            (Some(after_bytes), stall) => {
                Some(Fault::Cut { after_bytes, stall: stall.unwrap_or_default() })
            }
            // Nothing to say after the silence: the connection ends.
            (None, Some(stall)) if !says.iter().any(|key| table.contains_key(*key)) => {
                Some(Fault::Cut { after_bytes: 0, stall })
            }
            (None, Some(stall)) => Some(Fault::Stall(stall)),
            (None, None) => None,
        }
    }

    fn failure(&mut self, table: &DeTable<'_>) -> Option<Failure> {
        let words: Vec<&str> = FAILURES.iter().map(|(kind, _)| kind.word()).collect();
        let meant = match table.get("error") {
            None => None,
            Some(item) => Some(FAILURES[self.choice(item, &words)?]),
        };
        let status = match table.get("status") {
            None => None,
            Some(item) => {
                let number = self.whole(item)?;
                let is_error = (300..=599).contains(&number);
                let Some(status) = u16::try_from(number).ok().filter(|_| is_error) else {
                    self.wrong(
                        item.span(),
                        format!("{number} is no status of an error: 300 to 599"),
                    );
                    return None;
                };
                Some(status)
            }
        };
        let (kind, usual) = meant.map_or((None, 500), |(kind, status)| (Some(kind), status));
        let mut failure = Failure::of_status(status.unwrap_or(usual));
        failure.kind = kind.unwrap_or(failure.kind);
        failure.body = table.get("body").and_then(|item| self.string(item));
        failure.retry_after = table.get("retry_after").and_then(|item| self.wait(item));
        Some(failure)
    }

    fn repeat(&mut self, item: &Item<'_>) -> Option<Repeat> {
        match item.get_ref() {
            DeValue::Boolean(true) => Some(Repeat::Forever),
            DeValue::Boolean(false) => Some(Repeat::Times(1)),
            DeValue::Integer(_) => match self.whole(item)? {
                0 => {
                    self.wrong(item.span(), "a reply that is never used: leave it out");
                    None
                }
                times => Some(Repeat::Times(times)),
            },
            _ => {
                self.wrong(item.span(), "expected a number of times, or true for ever");
                None
            }
        }
    }

    /// As HTTP has it in whole seconds, or as a duration.
    fn wait(&mut self, item: &Item<'_>) -> Option<Span> {
        match item.get_ref() {
            DeValue::Integer(_) => {
                self.whole(item).map(|seconds| Span(seconds.saturating_mul(1000)))
            }
            _ => self.span(item),
        }
    }

    fn span(&mut self, item: &Item<'_>) -> Option<Span> {
        let parsed = match item.get_ref() {
            DeValue::String(text) => Span::parse(text),
            _ => Err("expected a duration in quotes such as \"90s\"".to_owned()),
        };
        parsed.map_err(|message| self.wrong(item.span(), message)).ok()
    }

    fn string(&mut self, item: &Item<'_>) -> Option<String> {
        let text = item.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong(item.span(), "expected text in quotes");
        }
        text
    }

    fn whole(&mut self, item: &Item<'_>) -> Option<u64> {
        let number = match item.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        if number.is_none() {
            self.wrong(item.span(), "expected a whole number, zero or more");
        }
        number
    }

    /// The place of a word in a list of words.
    fn choice(&mut self, item: &Item<'_>, words: &[&str]) -> Option<usize> {
        let given = self.string(item)?;
        let found = words.iter().position(|word| *word == given);
        if found.is_none() {
            let message = format!("{given:?} must be one of {}", words.join(", "));
            self.hinted(item.span(), message, nearest(&given, words));
        }
        found
    }

    fn items<'v, 't>(&mut self, item: &'v Item<'t>) -> &'v [Item<'t>] {
        match item.get_ref() {
            DeValue::Array(items) => items,
            _ => {
                self.wrong(item.span(), "expected a list");
                &[]
            }
        }
    }

    fn table<'v, 't>(&mut self, item: &'v Item<'t>) -> Option<&'v DeTable<'t>> {
        let table = item.get_ref().as_table();
        if table.is_none() {
            self.wrong(item.span(), "expected a table");
        }
        table
    }

    fn known(&mut self, table: &DeTable<'_>, what: &str, keys: &[&str]) {
        for key in table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref().as_ref();
            let hint =
                nearest(name, keys).unwrap_or_else(|| format!("expected {}", keys.join(", ")));
            self.hinted(key.span(), format!("unknown key {name:?} in {what}"), Some(hint));
        }
    }

    /// A value as JSON has it.
    fn plain(&mut self, item: &Item<'_>, depth: usize) -> Value {
        let mut refuse = |message: &str| {
            self.wrong(item.span(), message);
            Value::Null
        };
        match item.get_ref() {
            DeValue::Array(_) | DeValue::Table(_) if depth >= MAX_DEPTH => {
                refuse("the parameters nest too deeply")
            }
            DeValue::String(text) => Value::String(text.clone().into_owned()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Datetime(_) => refuse("a tool takes no dates: write it as text in quotes"),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Value::from(number),
                    Err(_) => refuse("the number needs more than 64 bits"),
                }
            }
            DeValue::Float(number) => {
                match number.as_str().parse().ok().and_then(Number::from_f64) {
                    Some(number) => Value::Number(number),
                    None => refuse("the number is not finite"),
                }
            }
            DeValue::Array(items) => items.iter().map(|item| self.plain(item, depth + 1)).collect(),
            DeValue::Table(table) => Value::Object(
                table
                    .iter()
                    .map(|(key, item)| (key.get_ref().to_string(), self.plain(item, depth + 1)))
                    .collect(),
            ),
        }
    }

    fn wrong(&mut self, range: Range<usize>, message: impl Into<String>) {
        self.hinted(range, message, None);
    }

    fn hinted(&mut self, range: Range<usize>, message: impl Into<String>, hint: Option<String>) {
        let mut start = range.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let column = self.text[line_start..start].chars().count();
        let from = column.saturating_sub(SNIPPET_WIDTH / 2);
        let line = self.text[line_start..line_end].chars().skip(from).take(SNIPPET_WIDTH);
        let snippet: String = line.map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut stop = range.end.clamp(start, line_end);
        while !self.text.is_char_boundary(stop) {
            stop -= 1;
        }
        let room = snippet.chars().count().saturating_sub(column - from);
        self.errors.push(SourceError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: column + 1,
            message: message.into(),
            hint,
            snippet: snippet.trim_end().to_owned(),
            caret: (column - from, self.text[start..stop].chars().count().min(room)),
        });
    }
}

/// "Did you mean", if one of the words differs by a slip of the keys or begins alike.
fn nearest(given: &str, words: &[&str]) -> Option<String> {
    if given.len() > 64 {
        return None;
    }
    let most = 1.max(given.chars().count() / 3);
    let near = words.iter().map(|word| (distance(given, word), *word));
    let found = near.filter(|(distance, _)| *distance <= most).min();
    let alike = || {
        let is_alike = |word: &&&str| {
            given.len() >= 4 && (word.starts_with(given) || given.starts_with(**word))
        };
        words.iter().find(is_alike).copied()
    };
    let word = found.map(|(_, word)| word).or_else(alike)?;
    Some(format!("did you mean {word:?}?"))
}

/// How many letters must be added, removed or changed.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let changed = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row[right.len()]
}
