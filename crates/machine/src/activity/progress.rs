//! What is remembered of calls and turns as they end: to see circles, and to tell now and then how far the task is.

use serde_json::Value;

use crate::activity::request::digest;
use crate::event::{CriterionState, EventKind};
use crate::id::CallId;
use crate::policy::permission::Author;
use crate::policy::signature::{Hash, normalise};
use crate::policy::stuck::{Turn, WAITS};
use crate::state::{Call, CallStatus};
use crate::step::Step;
use crate::tool::{EffectClass, Status, ToolResult};

/// The last calls that a report names.
const LAST_ACTIONS: usize = 5;

/// Characters of a parameter that are shown.
const SHOWN: usize = 80;

/// Bytes of a line that are neither the tool's name nor what is shown of its parameter.
const AROUND: usize = 24;

/// The parameters that say most of a call, the first of them first.
const TELLING: [&str; 5] = ["command", "path", "question", "pattern", "text"];

impl Step<'_> {
    /// Notes the end of a call.
    pub(crate) fn note_call_ended(&mut self, id: CallId, result: &ToolResult) {
        let data = &mut self.state.data;
        let Some(call) = data.calls.iter().find(|call| call.id == id) else { return };
        let workspace = data.workspace.as_ref().and_then(|workspace| workspace.path.as_deref());
        let ended = (call.action.tool.as_str(), &*call.action.input);
        data.spec.policy.charter.note(ended, result, &mut data.looked, workspace);
        if data.spec.recovery.progress.every > 0 {
            let milestone = &mut data.course.milestone;
            if result.status == Status::Ok && call.class != EffectClass::Pure {
                milestone.changes += 1;
            }
            // Once there are enough, the oldest gives its place, and its memory, to the newest.
            let mut line = match milestone.actions.len() >= LAST_ACTIONS {
                true => milestone.actions.remove(0),
                false => String::new(),
            };
            line.clear();
            write_title(&call.action.tool, &call.action.input, &mut line);
            [" (", result.status.word(), ")"].iter().for_each(|part| line.push_str(part));
            milestone.actions.push(line);
        }
        if call.action.author != Author::Worker {
            return;
        }
        let limits = data.spec.recovery.stuck;
        let course = &mut data.course;
        match result.status {
            Status::Ok => (course.errors, course.timeouts, course.denies) = (0, 0, 0),
            Status::Error => {
                course.errors += 1;
                (course.timeouts, course.denies) = (0, 0);
            }
            Status::TimedOut => {
                course.errors += 1;
                course.timeouts += 1;
                course.denies = 0;
            }
            Status::Denied => course.denies += 1,
            Status::Skipped | Status::Aborted | Status::InDoubt => return,
        }
        if call.action.tool == "ask" {
            course.watch.on_question(&call.question().0, &limits);
        } else if result.status == Status::Denied {
            let key = digest(&call.action.tool, &call.action.input);
            course.watch.on_denied(key, &title(call), &limits);
        }
        if call.request.is_some() || call.agent.is_some() {
            let calls = std::mem::take(&mut self.state.data.calls);
            if let Some(call) = calls.iter().find(|call| call.id == id) {
                self.note_actions(&[(call, result)]);
            }
            self.state.data.calls = calls;
        }
    }

    /// Notes the end of a turn, before its calls are forgotten.
    pub(crate) fn note_turn_ended(&mut self) {
        let calls = std::mem::take(&mut self.state.data.calls);
        let worker = |call: &&Call| {
            call.action.author == Author::Worker && call.request.is_none() && call.agent.is_none()
        };
        let ended: Vec<(&Call, &ToolResult)> = calls
            .iter()
            .filter(worker)
            .filter_map(|call| match &call.status {
                CallStatus::Done(result) => Some((call, result)),
                _ => None,
            })
            .collect();
        if !ended.is_empty() && ended.iter().any(|(_, result)| result.status != Status::Skipped) {
            self.note_actions(&ended);
        }
        drop(ended);
        self.state.data.calls = calls;
    }

    fn note_actions(&mut self, calls: &[(&Call, &ToolResult)]) {
        // What is hashed stays as it is, the order of keys included: journals of older versions are folded by it.
        let mut hash = Hash::default();
        for (call, result) in calls {
            hash.add(call.action.tool.as_bytes())
                .add(call.action.input.to_string().as_bytes())
                .add(result.status.word().as_bytes())
                .add(&result.exit.unwrap_or(i32::MIN).to_le_bytes())
                .add(normalise(&result.text).as_bytes());
        }
        let Some((first, _)) = calls.first() else { return };
        let more = calls.len() - 1;
        let title = match more {
            0 => title(first),
            _ => format!("{} and {more} more", title(first)),
        };
        let well = calls.iter().all(|(_, result)| result.status == Status::Ok);
        let took = |call: &Call| call.began.map_or(0, |began| self.now.since(began).0);
        let waited = well && calls.iter().any(|(call, _)| took(call) >= WAITS.0);
        let limits = self.state.data.spec.recovery.stuck;
        let turn = Turn { signature: hash.end(), title: &title, waited };
        self.state.data.course.watch.on_turn(turn, &limits);
    }

    /// Tells how far the task is, once an interval.
    pub(crate) fn tell_progress(&mut self) {
        let data = &self.state.data;
        let (every, turn) = (data.spec.recovery.progress.every, data.spend.turns);
        if every == 0 || turn < data.course.milestone.turn.saturating_add(every) {
            return;
        }
        let kept = data.frozen.as_ref().or(data.base.as_ref());
        let tree = kept.map(|checkpoint| checkpoint.tree.clone()).unwrap_or_default();
        let base = data.base.as_ref().map(|base| base.tree.as_str()).unwrap_or_default();
        let before = match data.course.milestone.tree.as_str() {
            "" => base,
            tree => tree,
        };
        let changed = match (before, &data.unchanged_since) {
            ("", _) => None,
            _ if tree != *before => Some(true),
            // What was kept last says nothing of what was done since.
            (_, Some(name)) => kept.is_some_and(|kept| kept.name == *name).then_some(false),
            (_, None) => None,
        };
        let spend = data.spend.clone();
        let results = data.course.verdict.iter();
        let criteria: Vec<CriterionState> = results
            .map(|result| CriterionState { title: result.title.clone(), passed: result.passed })
            .collect();
        let milestone = &mut self.state.data.course.milestone;
        let changes = std::mem::take(&mut milestone.changes);
        let actions = std::mem::take(&mut milestone.actions);
        milestone.turn = turn;
        milestone.tree = tree;
        self.event(|| EventKind::Progress { turn, spend, changed, changes, criteria, actions });
    }
}

/// A call in one line.
fn title(call: &Call) -> String {
    let mut line = String::new();
    write_title(&call.action.tool, &call.action.input, &mut line);
    line
}

/// Adds a call in one line. Every call of every task comes by here: what needs no change is copied as it is.
fn write_title(tool: &str, input: &Value, line: &mut String) {
    // Calls have few parameters: to look at each of them is faster than to look for five.
    let rank = |name: &str| TELLING.iter().position(|telling| *telling == name);
    let fields = input.as_object().into_iter().flatten();
    let telling = fields.filter_map(|(name, value)| Some((rank(name)?, value.as_str()?)));
    let said = telling.min_by_key(|(rank, _)| *rank).map_or("", |(_, said)| said);
    let head = &said.as_bytes()[..said.len().min(SHOWN)];
    line.reserve(tool.len() + head.len() + AROUND);
    line.push_str(tool);
    if said.is_empty() {
        return;
    }
    line.push_str(": ");
    // All of it is looked at, at many a time.
    let is_plain = head.iter().fold(true, |plain, byte| plain & (b' '..=b'~').contains(byte));
    let shown = match is_plain {
        true => &said[..head.len()],
        false => &said[..said.char_indices().nth(SHOWN).map_or(said.len(), |(at, _)| at)],
    };
    match is_plain {
        true => line.push_str(shown),
        false => line.extend(shown.chars().map(|c| if c.is_control() { ' ' } else { c })),
    }
    if shown.len() < said.len() {
        line.push('…');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_one_line_of_bounded_length() {
        let shown = |input: Value| {
            let mut line = String::new();
            write_title("shell", &input, &mut line);
            line
        };
        assert_eq!(shown(json!({})), "shell");
        assert_eq!(shown(json!({ "command": "" })), "shell");
        assert_eq!(shown(json!({ "command": "ls -l" })), "shell: ls -l");
        assert_eq!(shown(json!({ "text": "b", "path": "a", "line": "c" })), "shell: a");
        assert_eq!(shown(json!({ "text": "b", "path": 1 })), "shell: b");
        assert_eq!(shown(json!({ "text": "b", "path": "" })), "shell");
        assert_eq!(shown(json!({ "path": "a\u{1b}[1m\n\u{85}ü" })), "shell: a [1m  ü");
        let long = |text: &str, count: usize| format!("shell: {}", text.repeat(count));
        assert_eq!(shown(json!({ "text": "x".repeat(80) })), long("x", 80));
        assert_eq!(shown(json!({ "text": "x".repeat(81) })), long("x", 80) + "…");
        assert_eq!(shown(json!({ "text": "ü".repeat(80) })), long("ü", 80));
        assert_eq!(shown(json!({ "text": "ü".repeat(81) })), long("ü", 80) + "…");
    }
}
