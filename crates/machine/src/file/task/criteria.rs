//! Acceptance criteria as a file writes them: `kind = "shell"` with its keys, or `shell: "command"` alone.

use crate::file::check::{Cursor, Problems, suggest};
use crate::task::{Criterion, default_check_timeout};

const KINDS: [&str; 4] = ["shell", "file", "custom", "judge"];
const SHELL: [&str; 7] =
    ["command", "exit", "expect_exit", "stdout", "timeout", "repeat", "red_first"];
/// More runs than anybody waits for are a slip of the hand.
const MOST_RUNS: u64 = 1000;
const FILE: [&str; 5] = ["path", "pattern", "regex", "required", "forbidden"];

/// Reads one criterion.
pub(super) fn read(at: &Cursor<'_>, problems: &mut Problems) -> Option<Criterion> {
    if !at.value.is_object() {
        let hint = "write kind = \"shell\" and command = \"…\"".to_owned();
        problems.push(at, "expected a criterion, a table", Some(hint));
        return None;
    }
    if let Some(kind) = at.get("kind") {
        let word = kind.choice(problems, &KINDS)?;
        return match word {
            "shell" => read_shell(at, at.get("command"), &["kind"], problems),
            "file" => read_file(at, at.get("path"), &["kind"], problems),
            missing => {
                refuse(&kind, missing, problems);
                None
            }
        };
    }
    let short = ["shell", "file", "file_match", "custom", "judge"]
        .into_iter()
        .find_map(|key| Some((key, at.get(key)?)));
    let Some((key, value)) = short else {
        let hint = at.entries().find_map(|(key, _)| suggest(key, KINDS.into_iter()));
        let message = format!("a criterion needs a kind, one of {}", KINDS.join(", "));
        problems.push_key(at, message, hint);
        return None;
    };
    match key {
        "shell" if value.value.is_object() => {
            at.table(problems, "a criterion", &["shell"]);
            read_shell(&value, value.get("command"), &[], problems)
        }
        "shell" => read_shell(at, Some(value), &["shell"], problems),
        "file" | "file_match" if value.value.is_object() => {
            at.table(problems, "a criterion", &[key]);
            read_file(&value, value.get("path"), &[], problems)
        }
        "file" | "file_match" => read_file(at, Some(value), &[key], problems),
        missing => {
            refuse(&value, missing, problems);
            None
        }
    }
}

fn refuse(at: &Cursor<'_>, kind: &str, problems: &mut Problems) {
    let message = format!("this version does not have {kind} criteria");
    problems.push(at, message, Some("use shell or file".to_owned()));
}

fn read_shell(
    at: &Cursor<'_>,
    command: Option<Cursor<'_>>,
    also: &[&str],
    problems: &mut Problems,
) -> Option<Criterion> {
    let own = if also.contains(&"shell") { &SHELL[1..] } else { &SHELL[..] };
    at.table(problems, "a shell criterion", &[also, own].concat());
    let exit = match (at.get("exit"), at.get("expect_exit")) {
        (Some(_), Some(second)) => {
            problems.push_key(&second, "exit and expect_exit are the same: give one", None);
            None
        }
        (Some(exit), None) | (None, Some(exit)) => exit.exit(problems),
        (None, None) => None,
    };
    let stdout = at.get("stdout").and_then(|pattern| pattern.text(problems)).map(str::to_owned);
    let timeout = at.get("timeout").and_then(|timeout| timeout.span(problems));
    let repeat = at.get("repeat").and_then(|repeat| {
        let times = repeat.whole(problems)?;
        let usable = u32::try_from(times).ok().filter(|_| (1..=MOST_RUNS).contains(&times));
        if usable.is_none() {
            problems.push(
                &repeat,
                format!("expected a number of runs from 1 to {MOST_RUNS}"),
                None,
            );
        }
        usable
    });
    let red_first = at.get("red_first").and_then(|flag| flag.flag(problems));
    let Some(given) = command else {
        problems.push_key(at, "the key \"command\" is missing", None);
        return None;
    };
    let command = given.text(problems)?;
    if command.trim().is_empty() {
        problems.push(&given, "the command is empty", None);
    }
    Some(Criterion::Shell {
        command: command.to_owned(),
        exit: exit.unwrap_or(0),
        stdout,
        timeout: timeout.unwrap_or_else(default_check_timeout),
        repeat: repeat.unwrap_or(1),
        red_first: red_first.unwrap_or(false),
    })
}

fn read_file(
    at: &Cursor<'_>,
    path: Option<Cursor<'_>>,
    also: &[&str],
    problems: &mut Problems,
) -> Option<Criterion> {
    let own = if also.contains(&"kind") || also.is_empty() { &FILE[..] } else { &FILE[1..] };
    at.table(problems, "a file criterion", &[also, own].concat());
    let pattern = match (at.get("pattern"), at.get("regex")) {
        (Some(_), Some(second)) => {
            problems.push_key(&second, "pattern and regex are the same: give one", None);
            None
        }
        (Some(pattern), None) | (None, Some(pattern)) => pattern.text(problems).map(str::to_owned),
        (None, None) => None,
    };
    let forbidden = at.get("forbidden").and_then(|flag| flag.flag(problems)).unwrap_or(false);
    if let Some(required) = at.get("required")
        && let Some(is_required) = required.flag(problems)
        && is_required == forbidden
    {
        let hint = "say forbidden = true for what must be absent, or leave both out".to_owned();
        let message = if forbidden {
            "required and forbidden contradict each other"
        } else {
            "required = false says nothing"
        };
        problems.push_key(&required, message, Some(hint));
    }
    let Some(path) = path else {
        problems.push_key(at, "the key \"path\" is missing", None);
        return None;
    };
    Some(Criterion::File { path: inside(&path, problems)?, pattern, forbidden })
}

/// A path or pattern that stays below the workspace.
pub(super) fn inside(at: &Cursor<'_>, problems: &mut Problems) -> Option<String> {
    let path = at.text(problems)?;
    let is_drive =
        path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    let wrong = if path.trim().is_empty() {
        "is empty"
    } else if path.starts_with(['/', '\\', '~']) || is_drive {
        "is absolute"
    } else if path.split(['/', '\\']).any(|part| part == "..") {
        "leads out of the workspace"
    } else {
        return Some(path.to_owned());
    };
    let hint = "write it relative to the workspace, without ..".to_owned();
    problems.push(at, format!("the path {path:?} {wrong}"), Some(hint));
    None
}
