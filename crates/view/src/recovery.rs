//! What is tried after a failure, and how far a task is, in words.

use machine::cause::Cause;
use machine::event::EventKind;
use machine::policy::budget::{Budget, Spend};
use machine::policy::recovery::{Course, Recovery, Rung};

use crate::{Line, spend, text};

/// What is tried after a failure.
pub fn chosen(cause: &Cause, rung: &Rung, attempt: u32) -> String {
    let tried = match rung {
        Rung::NextTurn => "the driver goes on".to_owned(),
        Rung::FreshSession => "the driver begins a new conversation".to_owned(),
        Rung::RollBack => "the files go back to the start and the driver begins anew".to_owned(),
        Rung::HandOver(name) => format!("{} takes over", text::visible(name)),
        Rung::Escalate => "a person is asked".to_owned(),
        Rung::GiveUp => "it ends".to_owned(),
    };
    let times = if attempt > 1 { format!(" ({attempt} times)") } else { String::new() };
    format!("{cause}{times}: {tried}")
}

/// How far the task is.
pub fn progress(event: &EventKind) -> Vec<String> {
    let EventKind::Progress { turn, spend: spent, changed, changes, criteria, actions } = event
    else {
        return Vec::new();
    };
    let files = match (changed, changes) {
        (Some(true), _) => "files changed".to_owned(),
        (Some(false), 0) => "no file changed".to_owned(),
        (Some(false), calls) => format!("no file changed by {calls} calls"),
        (None, 1) => "1 call that may change files".to_owned(),
        (None, calls) => format!("{calls} calls that may change files"),
    };
    let passed = criteria.iter().filter(|criterion| criterion.passed).count();
    let verdict = match criteria.len() {
        0 => String::new(),
        all => format!(", {passed} of {all} criteria passed last"),
    };
    let cost = spend::line(spent, &Budget::default());
    let mut lines = vec![format!("so far: turn {turn}, {files}{verdict}; {cost}")];
    if !actions.is_empty() {
        let actions: Vec<String> = actions.iter().map(|action| text::visible(action)).collect();
        lines.push(format!("  lately: {}", actions.join(", ")));
    }
    lines
}

/// The requests that came to nothing, if there were any.
pub fn wasted(spend: &Spend) -> Option<Line> {
    let all = spend.wasted_requests();
    if all == 0 {
        return None;
    }
    let kinds: Vec<String> = spend
        .wasted
        .iter()
        .map(|(kind, count)| match kind.as_str() {
            "rate_limited" => format!("{count} on 429 (rate_limited)"),
            kind => format!("{count} on {}", text::visible(kind)),
        })
        .collect();
    let verb = if all == 1 { "request was" } else { "requests were" };
    Some(Line::plain(format!("wasted     {all} {verb} wasted: {}", kinds.join(", "))))
}

/// What was tried after failures, where the task says what to try.
pub fn tried(recovery: &Recovery, course: &Course) -> Option<Line> {
    if recovery.ladders.is_empty() {
        return None;
    }
    let tried: Vec<String> =
        course.tried.iter().map(|(kind, times)| format!("{} {times}", kind.key())).collect();
    (!tried.is_empty()).then(|| Line::plain(format!("failures   {} in a row", tried.join(", "))))
}
