//! The one way in which a receipt is written: JSON with sorted keys, whole numbers, and nothing that is not asked for.
//! White space between the parts is free, so that a file can be read by people; every other byte counts.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Difference, FORMAT, Receipt};
use crate::task::{Criterion, WorkspaceKind};
use crate::verdict::Place;

/// Why some bytes are no receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Differences that are named; more of them say no more.
const NAMED: usize = 20;

pub(super) fn read(bytes: &[u8]) -> Result<Receipt, Malformed> {
    let wrong = |reason: &str| Malformed(format!("it is not a receipt: {reason}"));
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not text"))?;
    let any: Value =
        serde_json::from_str(text).map_err(|error| wrong(&format!("it is not JSON: {error}")))?;
    let Some(format) = any.get("drivetrain_receipt") else {
        return Err(wrong("expected a JSON object with the field drivetrain_receipt"));
    };
    if format.as_u64() != Some(u64::from(FORMAT)) {
        let said = format!("it has the form {format}, and this drivetrain reads {FORMAT}");
        return Err(wrong(&said));
    }
    let receipt: Receipt = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
    // A field twice, a field more, a number or a letter written in another way: all of it is found here.
    if without_space(text) != canonical(&value(&receipt)) {
        return Err(wrong("it is not written as receipts are written; was it changed by hand?"));
    }
    check(&receipt)
        .map_err(|reason| Malformed(format!("the receipt contradicts itself: {reason}")))?;
    Ok(receipt)
}

/// Whether it can be what it says, from what it says.
fn check(receipt: &Receipt) -> Result<(), String> {
    let digest = receipt.digest();
    if receipt.id != digest {
        return Err(format!("its id is {}, and its content has {digest}", receipt.id));
    }
    if receipt.criteria_sha256 != super::criteria_digest(&receipt.criteria) {
        return Err("the digest of its criteria is another".to_owned());
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let task = receipt.task.as_str();
    if !(1..=64).contains(&task.len()) || !task.chars().all(plain) {
        return Err(format!("{task:?} cannot be a task's id"));
    }
    if receipt.criteria.is_empty() {
        return Err("it has no criteria".to_owned());
    }
    let titles = receipt.criteria.iter().map(Criterion::title);
    if !titles.eq(receipt.results.iter().map(|result| result.title.clone())) {
        return Err("its results are not those of its criteria".to_owned());
    }
    if let Some(failed) = receipt.results.iter().find(|result| !result.passed && !result.advisory) {
        return Err(format!("a criterion failed: {}", failed.title));
    }
    let hashes = [&receipt.base, &receipt.result];
    let hashes = hashes.into_iter().flatten().flat_map(|point| [&point.name, &point.tree]);
    if let Some(hash) = hashes.chain(&receipt.commit).find(|hash| !is_hash(hash)) {
        return Err(format!("{hash:?} is no name of an object"));
    }
    let proper =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    if !receipt.prefix.is_empty() && !receipt.prefix.split('/').all(proper) {
        return Err(format!("{:?} is no folder of a repository", receipt.prefix));
    }
    let frozen = receipt.result.is_some() && receipt.workspace == WorkspaceKind::Worktree;
    if receipt.place == Place::CleanCheckout && !frozen {
        return Err("its criteria ran in a clean checkout, and no tree was kept".to_owned());
    }
    if receipt.journal.record == 0 || !is_hex(&receipt.journal.chain, &[32]) {
        return Err("it names no record of a journal".to_owned());
    }
    Ok(())
}

/// The name of a git object; empty where a journal did not note it.
fn is_hash(text: &str) -> bool {
    text.is_empty() || is_hex(text, &[40, 64])
}

fn is_hex(text: &str, lengths: &[usize]) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    lengths.contains(&text.len()) && text.bytes().all(digit)
}

/// The value of anything that can be part of a receipt.
pub(super) fn value(part: &impl Serialize) -> Value {
    // Plain data with text keys: this cannot fail.
    serde_json::to_value(part).expect("a receipt is always encodable")
}

/// SHA-256 of the canonical form, in hex.
pub(super) fn digest(part: &impl Serialize) -> String {
    let hash = Sha256::digest(canonical(&value(part)).as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Criteria as they are read back. A fraction, which only a plugin's settings can hold, may come back from JSON as its
/// neighbour; after a few rounds it does not any more.
pub(super) fn settled(criteria: Vec<Criterion>) -> Result<Vec<Criterion>, String> {
    let mut criteria = criteria;
    for _ in 0..8 {
        let written = canonical(&value(&criteria));
        let read: Vec<Criterion> = serde_json::from_str(&written)
            .map_err(|error| format!("its criteria cannot be written down: {error}"))?;
        if canonical(&value(&read)) == written {
            return Ok(read);
        }
        criteria = read;
    }
    Err("its criteria hold a number that cannot be written down".to_owned())
}

/// JSON with sorted keys and no white space.
fn canonical(value: &Value) -> String {
    let mut text = String::new();
    put(value, None, &mut text);
    text
}

/// The same with line ends and indents.
pub(super) fn pretty(part: &impl Serialize) -> String {
    let mut text = String::new();
    put(&value(part), Some(0), &mut text);
    text.push('\n');
    text
}

fn put(value: &Value, indent: Option<usize>, text: &mut String) {
    let inner = indent.map(|depth| depth + 1);
    let space = |text: &mut String, depth: Option<usize>| {
        if let Some(depth) = depth {
            text.push('\n');
            text.push_str(&"  ".repeat(depth));
        }
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (n, item) in items.iter().enumerate() {
                text.push(if n == 0 { '[' } else { ',' });
                space(text, inner);
                put(item, inner, text);
            }
            space(text, indent);
            text.push(']');
        }
        Value::Object(fields) if !fields.is_empty() => {
            // The map may keep the order of insertion, where some other crate wants that.
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            for (n, (name, field)) in sorted.into_iter().enumerate() {
                text.push(if n == 0 { '{' } else { ',' });
                space(text, inner);
                put_ascii(&Value::from(name.as_str()), text);
                text.push_str(if indent.is_some() { ": " } else { ":" });
                put(field, inner, text);
            }
            space(text, indent);
            text.push('}');
        }
        plain => put_ascii(plain, text),
    }
}

/// A text, number or word with every character beyond plain ASCII as an escape: nothing in a receipt can act on a
/// terminal, or look like something else.
fn put_ascii(plain: &Value, text: &mut String) {
    for c in plain.to_string().chars() {
        match c {
            ' '..='~' => text.push(c),
            other => {
                let units = &mut [0; 2];
                text.extend(other.encode_utf16(units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
}

/// JSON without the white space outside of its strings.
fn without_space(json: &str) -> String {
    let mut kept = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if matches!(c, ' ' | '\t' | '\r' | '\n') {
            continue;
        } else {
            in_string = c == '"';
        }
        kept.push(c);
    }
    kept
}

pub(super) fn differences(here: &Value, there: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    differ("", Some(here), Some(there), &mut found);
    found
}

fn differ(field: &str, here: Option<&Value>, there: Option<&Value>, found: &mut Vec<Difference>) {
    if here == there || found.len() >= NAMED {
        return;
    }
    match (here, there) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let mut names: Vec<&String> = left.keys().chain(right.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let dot = if field.is_empty() { "" } else { "." };
                differ(&format!("{field}{dot}{name}"), left.get(name), right.get(name), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for n in 0..left.len().max(right.len()) {
                differ(&format!("{field}[{n}]"), left.get(n), right.get(n), found);
            }
        }
        _ => {
            let said = |value: Option<&Value>| value.map(canonical).unwrap_or_default();
            let (here, there) = (said(here), said(there));
            found.push(Difference { field: field.to_owned(), here, there });
        }
    }
}
