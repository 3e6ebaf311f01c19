//! The one error type of the edge. It alone decides what a person reads and which exit code follows.

use journal::JournalError;
use runtime::control::ControlError;
use runtime::library::LibraryError;
use runtime::station::StationError;
use runtime::supervisor::SupervisorError;
use serde_json::{Value, json};
use view::text;

/// Whose move it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What was typed does not fit.
    Usage,
    /// What was written in a file does not fit.
    Configuration,
    /// The task does not take it.
    Refused,
    /// The machine: the disk, the journal, another process.
    Environment,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Usage => "usage",
            Kind::Configuration => "configuration",
            Kind::Refused => "refused",
            Kind::Environment => "environment",
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: Kind,
    message: String,
    hints: Vec<String>,
}

impl CommandError {
    /// An error without hints.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> CommandError {
        CommandError { kind, message: message.into(), hints: Vec::new() }
    }

    /// What was typed does not fit.
    pub(crate) fn usage(message: impl Into<String>) -> CommandError {
        CommandError::new(Kind::Usage, message)
    }

    /// The machine does not do its part.
    pub(crate) fn environment(message: impl Into<String>) -> CommandError {
        CommandError::new(Kind::Environment, message)
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CommandError {
        self.hints.push(hint.into());
        self
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage | Kind::Configuration | Kind::Refused => 2,
            Kind::Environment => 20,
        }
    }

    /// What a person reads.
    pub(crate) fn text(&self) -> String {
        let told = self.told();
        if told.starts_with("error: ") { told } else { format!("error: {told}") }
    }

    /// The same where something else says that it is an error: an answer to another program.
    pub(crate) fn told(&self) -> String {
        let mut lines = text::lines(&self.message);
        for hint in &self.hints {
            let mut hint = text::lines(hint).into_iter();
            lines.extend(hint.next().map(|line| format!("  hint: {line}")));
            lines.extend(hint.map(|line| format!("        {line}")));
        }
        lines.join("\n")
    }

    /// What a program reads.
    pub(crate) fn json(&self) -> Value {
        json!({ "v": 1, "error": {
            "kind": self.kind.word(),
            "message": self.message,
            "hints": self.hints,
            "exit_code": self.exit_code(),
        }})
    }
}

impl From<JournalError> for CommandError {
    fn from(error: JournalError) -> CommandError {
        let message = error.to_string();
        match error {
            JournalError::UnknownTask(_) | JournalError::BadId(_) => {
                CommandError::usage(message).hint("drivetrain list --all shows every task")
            }
            JournalError::Damaged(_) => CommandError::environment(message)
                .hint("drivetrain journal verify names everything that is damaged")
                .hint("drivetrain journal rebuild makes a new journal of what can be read; the old one is kept"),
            JournalError::Full(_) => {
                CommandError::environment(message).hint("it needs room on a disk that can be written: free some, or set DRIVETRAIN_HOME to another disk")
            }
            JournalError::DuplicateTask(_)
            | JournalError::Fenced { .. }
            | JournalError::OutOfOrder { .. }
            | JournalError::TooLarge { .. }
            | JournalError::Newer { .. }
            | JournalError::Foreign(_)
            | JournalError::Store(_) => {
                let error = CommandError::environment(message);
                let largest = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
                match largest {
                    Some(most) => error.hint(format!(
                        "no file may grow beyond {most} bytes here, which the journal may have; ulimit -f unlimited lifts that"
                    )),
                    None => error,
                }
                .hint("drivetrain doctor looks at the whole machine")
            }
        }
    }
}

impl From<SupervisorError> for CommandError {
    fn from(error: SupervisorError) -> CommandError {
        match error {
            SupervisorError::Journal(error) => error.into(),
            SupervisorError::Refused(reason) => CommandError::new(Kind::Refused, reason),
            error @ SupervisorError::Fold(_) => CommandError::environment(error.to_string()),
        }
    }
}

impl From<StationError> for CommandError {
    fn from(error: StationError) -> CommandError {
        match error {
            StationError::Home(reason) => CommandError::environment(reason),
            StationError::Journal(error) => error.into(),
        }
    }
}

impl From<ControlError> for CommandError {
    fn from(error: ControlError) -> CommandError {
        let message = error.to_string();
        match error {
            ControlError::Refused(_) => CommandError::new(Kind::Refused, message),
            ControlError::Gone(_)
            | ControlError::Untrusted(_)
            | ControlError::NotHere
            | ControlError::Late
            | ControlError::Stopped(_)
            | ControlError::Unknown(_) => CommandError::environment(message),
        }
    }
}

impl From<LibraryError> for CommandError {
    fn from(error: LibraryError) -> CommandError {
        let message = error.to_string();
        let mut shown = CommandError::new(Kind::Configuration, message);
        if matches!(error, LibraryError::Untrusted(_)) {
            shown = shown.hint("drivetrain trust shows it and asks");
        }
        if matches!(error, LibraryError::Changed(_)) {
            shown = shown.hint("--trust of a command that runs something takes it as it is, once");
        }
        if let LibraryError::Unknown { name, known, folders, .. } = error {
            match near(&name, known.iter().map(String::as_str)) {
                Some(near) => shown = shown.hint(format!("did you mean {near:?}?")),
                None if !known.is_empty() => {
                    shown = shown.hint(format!("there is {}", known.join(", ")))
                }
                None => {}
            }
            let folders: Vec<String> =
                folders.iter().map(|folder| folder.display().to_string()).collect();
            shown = match folders.is_empty() {
                true => shown.hint(
                    "there is no .drivetrain folder here for files of your own: drivetrain init makes one",
                ),
                false => shown.hint(format!("looked in {}", folders.join(", "))),
            };
        }
        shown
    }
}

/// The candidate that a slip of the keys is most likely to have meant.
pub(crate) fn near<'a>(given: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 1.max(given.chars().count() / 3);
    candidates
        .map(|candidate| (distance(given, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to add, drop, change or swap to make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let change = above[j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut best = change.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_hints_and_no_control_characters() {
        let error = CommandError::usage("no task \u{1b}[2J\nsecond").hint("try\nagain");
        assert_eq!(error.text(), "error: no task \\x1b[2J\nsecond\n  hint: try\n        again");
        assert_eq!(error.json()["error"]["kind"], "usage");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn a_near_name_is_one_slip_away() {
        assert_eq!(near("cuont", ["count", "other"].into_iter()), Some("count"));
        assert_eq!(near("zzz", ["count"].into_iter()), None);
    }
}
