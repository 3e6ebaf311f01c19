//! Acceptance criteria as a file writes them: `kind = "shell"` with its keys, or `shell: "command"` alone.

mod custom;
mod judge;

use crate::acceptance::touched::pattern_problem;
use crate::file::check::{Cursor, Problems, suggest};
use crate::file::shape::Table;
use crate::file::shape::task::criteria::{self as shape, Form, KINDS, MAX_REPEAT};
use crate::task::{Criterion, default_check_timeout};
use crate::time::Span;

/// A criterion as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    /// The criterion; the rubric of a judge is empty if it is in a file.
    pub(crate) criterion: Criterion,
    /// The file that holds a judge's rubric.
    pub(crate) rubric_file: Option<String>,
}

impl From<Criterion> for Written {
    fn from(criterion: Criterion) -> Written {
        Written { criterion, rubric_file: None }
    }
}

/// Reads one criterion.
pub(crate) fn read(at: &Cursor<'_>, problems: &mut Problems) -> Option<Written> {
    if !at.value.is_object() {
        let hint = "write kind = \"shell\" and command = \"…\"".to_owned();
        problems.push(at, "expected a criterion, a table", Some(hint));
        return None;
    }
    if let Some(kind) = at.get("kind") {
        let word = kind.choice(problems, &KINDS)?;
        return match word {
            "shell" => read_shell(at, at.get("command"), Form::Kind, problems).map(Written::from),
            "file" => read_file(at, at.get("path"), &shape::FILE.kind, problems).map(Written::from),
            "custom" => custom::read(at, at.get("name"), Form::Kind, problems).map(Written::from),
            _ => judge::read(at, at.get("rubric"), Form::Kind, problems),
        };
    }
    let short = ["shell", "file", "file_match", "custom", "judge"]
        .into_iter()
        .find_map(|key| Some((key, at.get(key)?)));
    let Some((key, value)) = short else {
        let hint = at
            .entries()
            .find_map(|(key, _)| suggest(key, KINDS.into_iter()))
            .or_else(|| Some("add kind = \"shell\" and command = \"…\"".to_owned()));
        let message = format!("a criterion needs a kind, one of {}", KINDS.join(", "));
        problems.push_key(at, message, hint);
        return None;
    };
    // `shell: command` has its other keys beside it; `shell: {…}` has all of them inside.
    let is_table = value.value.is_object();
    if is_table {
        at.table(problems, "a criterion", &[key]);
    }
    let (place, form) = if is_table { (&value, Form::Inside) } else { (at, Form::Beside) };
    let main = |name| if is_table { value.get(name) } else { Some(value.clone()) };
    match key {
        "shell" => read_shell(place, main("command"), form, problems).map(Written::from),
        "custom" => custom::read(place, main("name"), form, problems).map(Written::from),
        "judge" => judge::read(place, main("rubric"), form, problems),
        _ => {
            let shape = match (form, key) {
                (Form::Beside, "file_match") => &shape::MATCH_BESIDE,
                _ => shape::FILE.of(form),
            };
            read_file(place, main("path"), shape, problems).map(Written::from)
        }
    }
}

fn read_shell(
    at: &Cursor<'_>,
    command: Option<Cursor<'_>>,
    form: Form,
    problems: &mut Problems,
) -> Option<Criterion> {
    at.keys(problems, shape::SHELL.of(form));
    let exit = match (at.get("exit"), at.get("expect_exit")) {
        (Some(_), Some(second)) => {
            problems.push_key(
                &second,
                "exit and expect_exit are the same: give one",
                Some("remove one of the two".to_owned()),
            );
            None
        }
        (Some(exit), None) | (None, Some(exit)) => exit.exit(problems),
        (None, None) => None,
    };
    let stdout = at.get("stdout").and_then(|pattern| pattern.text(problems)).map(str::to_owned);
    let timeout = read_timeout(at, problems);
    let repeat = at.get("repeat").and_then(|times| read_repeat(&times, problems));
    let red_first = at.get("red_first").and_then(|flag| flag.flag(problems));
    let command = read_command(at, command, problems)?;
    Some(Criterion::Shell {
        command,
        exit: exit.unwrap_or(0),
        stdout,
        timeout: timeout.unwrap_or_else(default_check_timeout),
        repeat: repeat.unwrap_or(1),
        red_first: red_first.unwrap_or(false),
    })
}

fn read_repeat(at: &Cursor<'_>, problems: &mut Problems) -> Option<u32> {
    let times = at.whole(problems)?;
    if !(1..=MAX_REPEAT).contains(&times) {
        let hint = "1 runs it once; more shows that it does not pass by luck".to_owned();
        let message = format!("a check runs 1 to {MAX_REPEAT} times, not {times}");
        problems.push(at, message, Some(hint));
        return None;
    }
    u32::try_from(times).ok()
}

/// The command of a criterion, which must be there and say something.
fn read_command(
    at: &Cursor<'_>,
    given: Option<Cursor<'_>>,
    problems: &mut Problems,
) -> Option<String> {
    let Some(given) = given else {
        problems.push_key(
            at,
            "the key \"command\" is missing",
            Some("add command = \"…\"".to_owned()),
        );
        return None;
    };
    let command = given.text(problems)?;
    if command.trim().is_empty() {
        problems.push(
            &given,
            "the command is empty",
            Some("write the command line, such as \"make test\"".to_owned()),
        );
    }
    Some(command.to_owned())
}

fn read_timeout(at: &Cursor<'_>, problems: &mut Problems) -> Option<Span> {
    let given = at.get("timeout")?;
    let timeout = given.span(problems)?;
    if timeout == Span(0) {
        problems.push(
            &given,
            "a timeout of nothing would stop every check",
            Some("write a longer one, such as \"10m\", or leave it out".to_owned()),
        );
    }
    Some(timeout)
}

fn read_file(
    at: &Cursor<'_>,
    path: Option<Cursor<'_>>,
    shape: &Table,
    problems: &mut Problems,
) -> Option<Criterion> {
    at.keys(problems, shape);
    let pattern = match (at.get("pattern"), at.get("regex")) {
        (Some(_), Some(second)) => {
            problems.push_key(
                &second,
                "pattern and regex are the same: give one",
                Some("remove one of the two".to_owned()),
            );
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
        problems.push_key(at, "the key \"path\" is missing", Some("add path = \"…\"".to_owned()));
        return None;
    };
    Some(Criterion::File { path: inside(&path, problems)?, pattern, forbidden })
}

/// A path or pattern that stays below the workspace.
pub(super) fn inside(at: &Cursor<'_>, problems: &mut Problems) -> Option<String> {
    let written = at.text(problems)?;
    let Some(wrong) = pattern_problem(written) else { return Some(written.to_owned()) };
    let hint = "write it relative to the workspace, without ..".to_owned();
    problems.push(at, format!("the path {written:?} {wrong}"), Some(hint));
    None
}

/// A list of patterns of paths below the workspace, at least one.
fn read_paths(at: &Cursor<'_>, problems: &mut Problems) -> Vec<String> {
    let Some(list) = at.need(problems, "paths") else { return Vec::new() };
    let items = list.items(problems);
    if list.value.as_array().is_some_and(Vec::is_empty) {
        let hint = "write [\"tests/**\"]".to_owned();
        problems.push(&list, "no path is named", Some(hint));
    }
    items.iter().filter_map(|item| read_pattern(item, problems)).collect()
}

fn read_pattern(at: &Cursor<'_>, problems: &mut Problems) -> Option<String> {
    let pattern = inside(at, problems)?;
    if pattern.starts_with('!') {
        let hint = "only protect has exceptions; write what is meant without !".to_owned();
        problems.push(
            at,
            format!("{pattern:?} is an exception, which has no meaning here"),
            Some(hint),
        );
        return None;
    }
    Some(pattern)
}

/// What must not be touched: patterns, and with `!` in front what may be touched all the same.
pub(super) fn read_protected(at: &Cursor<'_>, problems: &mut Problems) -> Vec<String> {
    let items = at.items(problems);
    items.iter().filter_map(|item| inside(item, problems)).collect()
}
