//! Guards: conditions on a result, as data.
//!
//! A guard is a word (`"ok"`, `"error"`, `"always"`) or a table of predicates that must all hold. What a
//! guard does not know is refused when it is read, so that no condition is ever silently true or false.

use crate::file::check::{Cursor, Problems, suggest};
use crate::file::shape::workflow::machine as shape;
use crate::tool::{Status, ToolResult};

const STATUSES: [Status; 7] = [
    Status::Ok,
    Status::Error,
    Status::Denied,
    Status::Skipped,
    Status::Aborted,
    Status::TimedOut,
    Status::InDoubt,
];

/// A condition. An edge is a state's index and the index of one of its transitions.
#[derive(Debug, PartialEq)]
pub(super) enum Guard {
    /// Holds always.
    Always,
    /// The result is a success.
    Ok,
    /// The call ended in this way.
    Status(Status),
    /// The command ended with this code.
    Exit(i32),
    /// The output has this text in it.
    Contains(String),
    /// There is no output but space.
    Empty,
    /// A transition was taken fewer times than this.
    CountBelow { edge: (usize, usize), limit: u64 },
    /// All of them.
    All(Vec<Guard>),
    /// At least one.
    Any(Vec<Guard>),
    /// Not this one.
    Not(Box<Guard>),
}

/// What the guards of a state look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'r> {
    /// Whether it counts as a success.
    pub(super) ok: bool,
    /// The results it is made of; none for a state that does nothing.
    pub(super) results: &'r [&'r ToolResult],
}

impl Guard {
    /// Whether it holds. Predicates on what came back hold if they hold for one of the results.
    pub(super) fn holds(&self, seen: &Seen<'_>, count: &dyn Fn((usize, usize)) -> u64) -> bool {
        match self {
            Guard::Always => true,
            Guard::Ok => seen.ok,
            Guard::Status(Status::Ok) => seen.ok,
            Guard::Status(status) => seen.results.iter().any(|result| result.status == *status),
            Guard::Exit(code) => seen.results.iter().any(|result| result.exit == Some(*code)),
            Guard::Contains(text) => {
                seen.results.iter().any(|result| result.text.contains(text.as_str()))
            }
            Guard::Empty => seen.results.iter().all(|result| result.text.trim().is_empty()),
            Guard::CountBelow { edge, limit } => count(*edge) < *limit,
            Guard::All(guards) => guards.iter().all(|guard| guard.holds(seen, count)),
            Guard::Any(guards) => guards.iter().any(|guard| guard.holds(seen, count)),
            Guard::Not(guard) => !guard.holds(seen, count),
        }
    }
}

/// What a guard may refer to.
pub(super) struct Scope<'s> {
    /// The transition it belongs to.
    pub(super) edge: (usize, usize),
    /// Finds `a -> b`.
    pub(super) find: &'s dyn Fn(&str) -> Option<(usize, usize)>,
}

/// Reads a guard.
pub(super) fn read(at: &Cursor<'_>, scope: &Scope<'_>, problems: &mut Problems) -> Option<Guard> {
    if at.value.is_string() {
        return Some(match at.choice(problems, &["always", "ok", "error"])? {
            "ok" => Guard::Ok,
            "error" => Guard::Not(Box::new(Guard::Ok)),
            _ => Guard::Always,
        });
    }
    if !at.value.is_object() {
        at.wrong(problems, "a condition such as \"ok\" or { exit = 3 }");
        return None;
    }
    let mut all = Vec::new();
    for (key, entry) in at.entries() {
        all.extend(predicate(key, &entry, scope, problems));
    }
    if at.entries().next().is_none() {
        problems.push(
            at,
            "the condition is empty",
            Some("leave it out, or write \"always\"".to_owned()),
        );
    }
    if all.len() == 1 { all.pop() } else { Some(Guard::All(all)) }
}

fn predicate(
    key: &str,
    at: &Cursor<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<Guard> {
    let unless = |flag: bool, guard: Guard| if flag { guard } else { Guard::Not(Box::new(guard)) };
    Some(match key {
        "ok" => unless(at.flag(problems)?, Guard::Ok),
        "error" => unless(!at.flag(problems)?, Guard::Ok),
        "status" => {
            let word = at.choice(problems, &shape::STATUSES)?;
            Guard::Status(STATUSES.into_iter().find(|status| status.word() == word)?)
        }
        "exit" => Guard::Exit(at.exit(problems)?),
        "contains" => Guard::Contains(at.text(problems)?.to_owned()),
        "empty" => unless(at.flag(problems)?, Guard::Empty),
        "count" => return read_count(at, scope, problems),
        "and" | "or" => {
            let parts = at.items(problems);
            if parts.is_empty() && at.value.is_array() {
                problems.push(at, format!("{key} needs at least one condition"), None);
            }
            let guards = parts.iter().filter_map(|part| read(part, scope, problems)).collect();
            if key == "and" { Guard::All(guards) } else { Guard::Any(guards) }
        }
        "not" => Guard::Not(Box::new(read(at, scope, problems)?)),
        unknown => {
            let known: Vec<&str> = shape::CONDITION.names().collect();
            let hint = suggest(unknown, known.iter().copied())
                .or_else(|| Some(format!("expected {}", known.join(", "))));
            problems.push_key(at, format!("unknown condition {unknown:?}"), hint);
            return None;
        }
    })
}

/// Reads `{ edge = "a -> b", less_than = 3 }`; the edge is the transition itself if absent.
fn read_count(at: &Cursor<'_>, scope: &Scope<'_>, problems: &mut Problems) -> Option<Guard> {
    if !at.keys(problems, &shape::COUNTED) {
        return None;
    }
    let edge = match at.get("edge") {
        None => scope.edge,
        Some(name) => {
            let text = name.text(problems)?;
            let Some(edge) = (scope.find)(text) else {
                let hint = "write it as \"from -> to\", with the names of two states".to_owned();
                problems.push(&name, format!("there is no transition {text:?}"), Some(hint));
                return None;
            };
            edge
        }
    };
    match (at.get("less_than"), at.get("at_least")) {
        (Some(limit), None) => Some(Guard::CountBelow { edge, limit: limit.whole(problems)? }),
        (None, Some(limit)) => {
            Some(Guard::Not(Box::new(Guard::CountBelow { edge, limit: limit.whole(problems)? })))
        }
        _ => {
            problems.push(
                at,
                "count needs either less_than or at_least",
                Some("write { less_than = 3 }".to_owned()),
            );
            None
        }
    }
}
