//! What can go wrong with a model call, in the kinds that decide what to do next.

use std::fmt;

pub use machine::message::Retry;
use machine::message::Usage;

/// The kinds of failure. Exhaustive on purpose: each has a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong and will stay so.
    Client,
    /// The configuration is wrong: an unknown model, a missing parameter.
    Config,
    /// The history breaks the provider's rules (ids, order, missing results).
    History,
    /// Thinking that was given back does not fit what stands before it.
    StaleThinking,
    /// The key is wrong or not allowed.
    Auth,
    /// It was not asked: there is no key.
    NoKey,
    /// Too many requests; waiting helps.
    RateLimited,
    /// No money or quota left; waiting does not help.
    Quota,
    /// The provider is overloaded.
    Overloaded,
    /// The provider failed.
    Server,
    /// The conversation does not fit into the model's context.
    ContextOverflow,
    /// The request is larger than the provider takes.
    TooLarge,
    /// The provider's filter stopped the answer.
    ContentFilter,
    /// The network failed.
    Transport,
    /// The answer points somewhere else; the key is never sent there.
    Redirect,
    /// The answer, or a part of it, is not what the protocol says.
    Malformed,
    /// A frame was no JSON.
    MalformedStream,
    /// Frames came in an order that the protocol does not have.
    Protocol,
    /// The stream ended without its end mark.
    StreamTruncated,
    /// The answer ended at its limit before it was whole.
    Truncated,
    /// Nothing came for too long.
    IdleTimeout,
    /// The whole call took too long.
    TotalTimeout,
    /// The answer is larger than is taken.
    OutputTooLarge,
    /// A tool call was cut before its arguments were whole.
    ToolArgsTruncated,
    /// A tool call's arguments are not one JSON object.
    ToolArgsInvalid,
    /// A tool call is malformed: the provider itself says so, or a constrained answer is no decision.
    MalformedToolCall,
    /// Two tool calls of one answer have the same id.
    DuplicateToolId,
    /// An answer with nothing in it.
    EmptyCompletion,
    /// A reason to stop that nobody knows.
    UnknownStop,
    /// Somebody cancelled the call.
    Cancelled,
    /// It was not asked: it failed too often just now and is left alone for a while.
    CircuitOpen,
    /// Answers come from a recording, and it has none to this question.
    ReplayMissing,
}

impl ErrorKind {
    /// The word of logs and tests.
    pub fn word(self) -> &'static str {
        match self {
            ErrorKind::Client => "client",
            ErrorKind::Config => "config",
            ErrorKind::History => "history",
            ErrorKind::StaleThinking => "stale_thinking",
            ErrorKind::Auth => "auth",
            ErrorKind::NoKey => machine::policy::retry::NO_KEY,
            ErrorKind::RateLimited => "rate_limited",
            ErrorKind::Quota => "quota",
            ErrorKind::Overloaded => "overloaded",
            ErrorKind::Server => "server",
            ErrorKind::ContextOverflow => "context_overflow",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::ContentFilter => "content_filter",
            ErrorKind::Transport => "transport",
            ErrorKind::Redirect => "redirect",
            ErrorKind::Malformed => "malformed",
            ErrorKind::MalformedStream => "malformed_stream",
            ErrorKind::Protocol => "protocol",
            ErrorKind::StreamTruncated => "stream_truncated",
            ErrorKind::Truncated => "truncated",
            ErrorKind::IdleTimeout => "idle_timeout",
            ErrorKind::TotalTimeout => "total_timeout",
            ErrorKind::OutputTooLarge => "output_too_large",
            ErrorKind::ToolArgsTruncated => "tool_args_truncated",
            ErrorKind::ToolArgsInvalid => "tool_args_invalid",
            ErrorKind::MalformedToolCall => "malformed_tool_call",
            ErrorKind::DuplicateToolId => "duplicate_tool_id",
            ErrorKind::EmptyCompletion => "empty_completion",
            ErrorKind::UnknownStop => "unknown_stop",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::CircuitOpen => machine::policy::breaker::KIND,
            ErrorKind::ReplayMissing => "replay_missing",
        }
    }
}

/// A failed model call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// Whether to try again.
    pub retry: Retry,
    /// What the provider said, or what is wrong; never holds a key.
    pub message: String,
    /// The status of the answer, where there was one.
    pub status: Option<u16>,
    /// The provider's id of the request, to ask about.
    pub request_id: Option<String>,
    /// What was counted before it failed: it is paid for all the same.
    pub usage: Usage,
}

impl ModelError {
    /// An error with nothing but its kind and message; the kind's usual answer to whether to try again.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ModelError {
        let retry = match kind {
            ErrorKind::RateLimited
            | ErrorKind::Overloaded
            | ErrorKind::Server
            | ErrorKind::Transport
            | ErrorKind::MalformedStream
            | ErrorKind::Protocol
            | ErrorKind::StreamTruncated
            | ErrorKind::IdleTimeout
            | ErrorKind::TotalTimeout
            | ErrorKind::MalformedToolCall
            | ErrorKind::DuplicateToolId
            | ErrorKind::EmptyCompletion
            | ErrorKind::CircuitOpen => Retry::Backoff,
            ErrorKind::Client
            | ErrorKind::Config
            | ErrorKind::History
            | ErrorKind::StaleThinking
            | ErrorKind::Auth
            | ErrorKind::NoKey
            | ErrorKind::Quota
            | ErrorKind::ContextOverflow
            | ErrorKind::TooLarge
            | ErrorKind::ContentFilter
            | ErrorKind::Redirect
            | ErrorKind::Malformed
            | ErrorKind::Truncated
            | ErrorKind::OutputTooLarge
            | ErrorKind::ToolArgsTruncated
            | ErrorKind::ToolArgsInvalid
            | ErrorKind::UnknownStop
            | ErrorKind::Cancelled
            | ErrorKind::ReplayMissing => Retry::Never,
        };
        let usage = Usage::default();
        ModelError { kind, retry, message: message.into(), status: None, request_id: None, usage }
    }

    /// The error of an answer with this status and these headers: carries both, and waits as long as the
    /// headers ask for if its kind is one to try again. `message` goes through [`told`].
    pub fn of_answer(
        kind: ErrorKind,
        message: &str,
        status: u16,
        headers: &[(String, String)],
    ) -> ModelError {
        let mut error = ModelError::new(kind, told(message)).wait(retry_after(headers));
        if header(headers, "x-should-retry") == Some("false") {
            error.retry = Retry::Never;
        }
        error.status = Some(status);
        error.request_id =
            ["request-id", "x-request-id", "x-goog-request-id", "mistral-correlation-id"]
                .into_iter()
                .find_map(|name| header(headers, name))
                .map(str::to_owned);
        error
    }

    /// The error of an answer that points elsewhere. Where to is told without what may be secret in it.
    pub fn redirect(status: u16, headers: &[(String, String)]) -> ModelError {
        let to = header(headers, "location").and_then(|to| to.split(['?', '#']).next());
        let to = to.filter(|to| !to.is_empty()).unwrap_or("nowhere");
        let message = format!("HTTP {status} to {to}, which is not followed: see to its base URL");
        ModelError::of_answer(ErrorKind::Redirect, &message, status, headers)
    }

    /// The same, to be tried again after this many milliseconds where it is to be tried again at all.
    pub fn wait(mut self, milliseconds: Option<u64>) -> ModelError {
        if let (Retry::Backoff, Some(milliseconds)) = (self.retry, milliseconds) {
            self.retry = Retry::After(milliseconds);
        }
        self
    }
}

impl ModelError {
    /// The same, to be tried again when the limit that was reached is reset, where it is a rate limit and nothing
    /// more exact was told.
    pub fn wait_for_reset(self, headers: &[(String, String)]) -> ModelError {
        match self.kind {
            ErrorKind::RateLimited => self.wait(reset_after(headers)),
            _ => self,
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.word(), self.message)
    }
}

impl std::error::Error for ModelError {}

/// The first header of this name (lower case).
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim())
}

/// How long the headers ask to wait, in milliseconds: `retry-after-ms`, then `retry-after` in seconds or as a
/// date. A date counts from the answer's own `date`, so it needs no clock; without one it says nothing.
/// What is negative or no number says nothing either; what is absurdly long is told as it is.
pub fn retry_after(headers: &[(String, String)]) -> Option<u64> {
    if let Some(wait) = header(headers, "retry-after-ms").and_then(|text| milliseconds(text, 1.0)) {
        return Some(wait);
    }
    let text = header(headers, "retry-after")?;
    milliseconds(text, 1000.0).or_else(|| {
        let until = http_date(text)?;
        let now = http_date(header(headers, "date")?)?;
        u64::try_from(until - now).ok()?.checked_mul(1000)
    })
}

/// How long until every limit is reset that has nothing left, in milliseconds, as `x-ratelimit-reset-…` (OpenAI and
/// compatible: a length of time, or seconds or milliseconds since 1970) and `anthropic-ratelimit-…-reset` (a date)
/// tell. A moment counts from the answer's own `date`.
pub fn reset_after(headers: &[(String, String)]) -> Option<u64> {
    let now = || http_date(header(headers, "date")?).map(|seconds| seconds.saturating_mul(1000));
    let until = |moment: i64| u64::try_from(moment.saturating_sub(now()?)).ok();
    let wait = |(name, value): &(String, String)| {
        let (limit, remaining) = match name.strip_prefix("anthropic-ratelimit-") {
            Some(rest) => (rest.strip_suffix("-reset")?, "anthropic-ratelimit-{}-remaining"),
            None => (name.strip_prefix("x-ratelimit-reset")?, "x-ratelimit-remaining{}"),
        };
        let left: f64 = header(headers, &remaining.replace("{}", limit))?.parse().ok()?;
        if left > 0.0 {
            return None;
        }
        let value = value.trim();
        match value.parse::<f64>() {
            Ok(moment) if moment >= 1e12 => until(moment as i64),
            Ok(moment) if moment >= 1e9 => until((moment * 1000.0) as i64),
            Ok(_) => milliseconds(value, 1000.0),
            Err(_) => duration(value).or_else(|| until(timestamp(value)?.checked_mul(1000)?)),
        }
    };
    headers.iter().filter_map(wait).max()
}

/// A length of time such as `39s`, `1.898s`, `500ms` or `6m0s`, in milliseconds.
pub fn duration(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let unit = &rest[number..];
        let unit = &unit[..unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len())];
        let scale = match unit {
            "ms" => 1.0,
            "s" => 1000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return None,
        };
        total = total.saturating_add(milliseconds(&rest[..number], scale)?);
        rest = &rest[number + unit.len()..];
    }
    (!text.is_empty()).then_some(total)
}

/// The wait that a message tells in prose (`Please try again in 1.898s.`; Google says `retry in`), in milliseconds.
pub fn try_again_in(message: &str) -> Option<u64> {
    const MARKS: [&str; 2] = ["try again in ", "retry in "];
    let lower = message.to_ascii_lowercase();
    let start = MARKS.iter().find_map(|mark| Some(lower.find(mark)? + mark.len()))?;
    let text = message.get(start..)?.split_whitespace().next()?;
    duration(text.trim_end_matches(['.', ',', ')']))
}

/// Whether a provider's message says that the conversation does not fit into the model's context. Providers
/// have one error type for all that is wrong with a request, so the text decides.
pub fn says_overflow(message: &str) -> bool {
    const SIGNS: &[&str] = &[
        "prompt is too long",
        "input is too long",
        "exceed context limit",
        "exceeds the context",
        "exceed the context",
        "context length",
        "context window",
        "context_length_exceeded",
        "exceeds the maximum number of tokens",
        "exceeds the available context size",
        "too many tokens",
        "input token count",
        "prompt token count",
        "maximum prompt length",
        "maximum model length",
        "maximum allowed input length",
        "range of input length should be",
        "prompt exceeds max length",
        "reduce the length of the messages",
        "exceeded model token limit",
        "context size has been exceeded",
        "configured context size",
    ];
    let message = message.to_ascii_lowercase();
    SIGNS.iter().any(|sign| message.contains(sign))
}

/// Whether a provider's message says that thinking was given back which does not fit the conversation any more, or that
/// some is missing. Without any the conversation is taken.
pub fn says_stale_thinking(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let says = |sign: &str| message.contains(sign);
    says("thinking")
        && (says("bound to a different conversation")
            || says("invalid `signature`")
            || says("invalid signature")
            || says("cannot be modified")
            || says("when thinking is disabled")
            || says("must start with a thinking block"))
}

/// A provider's words, fit for logs: one line of bounded length without control characters, and without what
/// looks like a key (some providers quote it back).
pub fn told(message: &str) -> String {
    const LONGEST: usize = 500;
    let mut out = String::new();
    for word in message.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if out.len() + word.len() > LONGEST {
            let room = LONGEST.saturating_sub(out.len() + 1);
            let cut = (0..=room.min(word.len())).rev().find(|at| word.is_char_boundary(*at));
            if !out.is_empty() {
                out.push(' ');
            }
            out.push_str(&hide_key(&word[..cut.unwrap_or(0)]));
            out.push('…');
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&hide_key(word));
    }
    out
}

/// What an answer says in which no error can be read. A page made for people says nothing in its source, so it is named.
pub fn words_of(status: u16, body: &[u8]) -> String {
    let start = String::from_utf8_lossy(&body[..body.len().min(2000)]);
    let is_page = |text: &str| {
        let text = text.to_ascii_lowercase();
        text.starts_with('<') && ["<!doctype html", "<html"].iter().any(|mark| text.contains(mark))
    };
    match start.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}') {
        "" | "null" | "{}" | "[]" => format!("HTTP {status}"),
        page if is_page(page) => format!("HTTP {status}: a web page instead of an answer"),
        text => text.to_owned(),
    }
}

/// The kind that a status alone tells, where the body tells nothing.
pub fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        200..=299 => ErrorKind::Malformed,
        300..=399 => ErrorKind::Redirect,
        400 | 404 | 422 => ErrorKind::Config,
        401 | 403 | 407 => ErrorKind::Auth,
        402 => ErrorKind::Quota,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::RateLimited,
        499 => ErrorKind::Cancelled,
        503 | 529 => ErrorKind::Overloaded,
        // A conflict or a timeout of the provider's own heals like its other failures.
        408 | 409 | 425 | 500..=599 => ErrorKind::Server,
        _ => ErrorKind::Client,
    }
}

/// The kind of an answer whose body says that it is of this one. A key that is refused is refused whatever word the
/// body has for it: the words for a wrong request and for a failure are used for everything, and behind a gateway they are
/// another vendor's. What says more than the status (no money, a filter, too many requests) counts.
pub fn kind_of_answer(status: u16, said: ErrorKind) -> ErrorKind {
    match (kind_of_status(status), said) {
        (
            ErrorKind::Auth,
            ErrorKind::Client | ErrorKind::Config | ErrorKind::Server | ErrorKind::Malformed,
        ) => ErrorKind::Auth,
        (_, said) => said,
    }
}

/// Seconds since 1970 of a date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.trim().split_once(", ")?;
    let mut words = rest.split(' ');
    let day: i64 = number(words.next()?, 1, 31)?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let year: i64 = number(words.next()?, 1970, 9999)?;
    let mut clock = words.next()?.split(':');
    let hour = number(clock.next()?, 0, 23)?;
    let minute = number(clock.next()?, 0, 59)?;
    let second = number(clock.next()?, 0, 60)?;
    if words.next() != Some("GMT") || words.next().is_some() || clock.next().is_some() {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Seconds since 1970 of a date such as `2026-11-15T06:30:00Z`.
fn timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-');
    let year = number(date.next()?, 1970, 9999)?;
    let month = number(date.next()?, 1, 12)?;
    let day = number(date.next()?, 1, 31)?;
    let mut clock = time.split('.').next()?.split(':');
    let hour = number(clock.next()?, 0, 23)?;
    let minute = number(clock.next()?, 0, 59)?;
    let second = number(clock.next()?, 0, 60)?;
    let is_over = date.next().is_none() && clock.next().is_none();
    is_over.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days from 1970 to a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last of the year.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn number(text: &str, from: i64, to: i64) -> Option<i64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| digits && (from..=to).contains(n))
}

fn milliseconds(text: &str, scale: f64) -> Option<u64> {
    let value: f64 = text.trim().parse().ok()?;
    // Rounded up: never sooner than asked for. The cast saturates.
    (value.is_finite() && value >= 0.0).then(|| (value * scale).ceil() as u64)
}

fn hide_key(word: &str) -> std::borrow::Cow<'_, str> {
    const STARTS: &[&str] = &["sk-", "AIza", "gsk_", "xai-", "Bearer"];
    // No part of another word, but perhaps behind the letter of an escape.
    let begins = |at: &usize| {
        let mut before = word[..*at].chars().rev();
        before.next().is_none_or(|c| !c.is_alphanumeric() || before.next() == Some('\\'))
    };
    let places = |mark: &&str| word.match_indices(*mark).map(|(at, _)| at).find(begins);
    let start = STARTS.iter().filter_map(places).min();
    match start {
        Some(at) if word.len() - at >= 12 => format!("{}[key]", &word[..at]).into(),
        _ => word.into(),
    }
}
