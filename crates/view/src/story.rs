//! The fold of a task's events that summaries are made of: what runs, what failed last, what was checked.

use std::collections::{BTreeMap, VecDeque};

use machine::change::{Change, changes};
use machine::event::{Event, EventKind};
use machine::id::CallId;
use machine::policy::budget::Spend;
use machine::task::{CriterionResult, Outcome, Workspace};
use machine::time::Timestamp;
use machine::tool::{Status, ToolResult};
use serde_json::Value;

use crate::text;

/// Failed calls that are remembered.
const FAILURES: usize = 3;

/// What happened to a task so far, as far as summaries need it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Story {
    /// The calls under way.
    pub running: BTreeMap<CallId, Running>,
    /// The last calls that failed since one that did not, oldest first.
    pub failures: VecDeque<Failure>,
    /// Calls that were stopped since one last began: no failures of the work.
    pub cut_short: Vec<Failure>,
    /// The results of the last check of a claim.
    pub verdict: Vec<CriterionResult>,
    /// How often a claim did not hold.
    pub failed_verdicts: u64,
    /// The coding agent that decides, if one does.
    pub agent: Option<String>,
    /// Where it works.
    pub workspace: Option<Workspace>,
    /// The branch that has its change, and the commit that brought it.
    pub integrated: Option<(String, String)>,
    /// What it last told of how far it is.
    pub progress: Option<Event>,
    /// How it ended, or that it stopped to wait.
    pub end: Option<End>,
    checked: bool,
}

/// A call under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// What a person sees it as.
    pub title: String,
    /// When it began.
    pub since: Timestamp,
    /// What it changes in files, where it says so.
    pub changes: Vec<Change>,
}

/// A call that failed, or that was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The call.
    pub call: CallId,
    /// What a person sees it as.
    pub title: String,
    /// What came of it.
    pub result: ToolResult,
}

/// The last event of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
    /// What was spent.
    pub spend: Spend,
}

impl Story {
    /// Takes note of an event.
    pub fn tell(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ToolStarted { call, tool, label, input, .. } => {
                let title = title(tool, label, input, self.folder());
                let changes = changes(input);
                let running = Running { title, since: event.time, changes };
                self.running.insert(*call, running);
                self.cut_short.clear();
            }
            EventKind::ToolEnded { call, tool, result, .. } => self.on_ended(*call, tool, result),
            EventKind::OwnerLost { .. } | EventKind::Detached { .. } => self.running.clear(),
            EventKind::TaskStarted { agent, .. } | EventKind::DriverChanged { agent, .. } => {
                self.agent.clone_from(agent);
            }
            EventKind::WorkspaceOpened { workspace } => self.workspace = Some(workspace.clone()),
            EventKind::Claimed { .. } => self.checked = true,
            EventKind::CriterionChecked { result } => {
                if std::mem::take(&mut self.checked) {
                    self.verdict.clear();
                }
                self.verdict.push(result.clone());
            }
            EventKind::VerdictFailed { .. } => {
                self.failed_verdicts += 1;
                self.checked = true;
            }
            EventKind::TaskFinished { outcome, reason, spend, .. } => {
                self.running.clear();
                self.end =
                    Some(End { outcome: *outcome, reason: reason.clone(), spend: spend.clone() });
            }
            EventKind::Attached { .. } => self.end = None,
            EventKind::Reopened { .. } => {
                self.end = None;
                self.checked = true;
            }
            EventKind::Integrated { branch, commit, .. } => {
                self.integrated = Some((branch.clone(), commit.clone()));
            }
            EventKind::Progress { .. } => self.progress = Some(event.clone()),
            EventKind::ChildDispatched { .. }
            | EventKind::ChildReported { .. }
            | EventKind::ChildrenAwaited { .. }
            | EventKind::ChildLost { .. }
            | EventKind::FilesJudged { .. }
            | EventKind::ToolsOpened { .. }
            | EventKind::ModelCalled { .. }
            | EventKind::ModelReplied { .. }
            | EventKind::AgentAsked { .. }
            | EventKind::AgentMet { .. }
            | EventKind::AgentSaid { .. }
            | EventKind::AgentEnded { .. }
            | EventKind::ModelFailed { .. }
            | EventKind::Compacted { .. }
            | EventKind::CompactionAsked { .. }
            | EventKind::AgentCompacted { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::ApprovalRequested { .. }
            | EventKind::ApprovalDecided { .. }
            | EventKind::DeciderAsked { .. }
            | EventKind::JudgeAsked { .. }
            | EventKind::JudgeReplied { .. }
            | EventKind::CallJudged { .. }
            | EventKind::QuestionAsked { .. }
            | EventKind::CallInDoubt { .. }
            | EventKind::CallResolved { .. }
            | EventKind::DecisionAwaited { .. }
            | EventKind::Told { .. }
            | EventKind::TimerAwaited { .. }
            | EventKind::OrderFailed { .. }
            | EventKind::NoteQueued { .. }
            | EventKind::NoteDelivered { .. }
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::BudgetRaised { .. }
            | EventKind::Checkpointed { .. }
            | EventKind::Unkept { .. }
            | EventKind::RollBackAsked { .. }
            | EventKind::RollBackFailed { .. }
            | EventKind::RolledBack { .. }
            | EventKind::Restarted { .. }
            | EventKind::RecordsLost { .. }
            | EventKind::Rebased { .. }
            | EventKind::RecoveryChosen { .. }
            | EventKind::Escalated { .. }
            | EventKind::BudgetExhausted { .. }
            | EventKind::Rejected { .. }
            | EventKind::SignalDropped { .. } => {}
        }
    }

    /// The folder that it works in; empty if nobody knows it.
    pub fn folder(&self) -> &str {
        let workspace = self.workspace.as_ref();
        workspace.and_then(|workspace| workspace.path.as_deref()).unwrap_or_default()
    }

    fn on_ended(&mut self, call: CallId, tool: &str, result: &ToolResult) {
        let running = self.running.remove(&call);
        if result.status == Status::Ok {
            self.failures.clear();
            return;
        }
        // What was not begun has nothing to tell.
        if result.status == Status::Skipped {
            return;
        }
        let title = running.map_or_else(|| tool.to_owned(), |running| running.title);
        let failure = Failure { call, title, result: result.clone() };
        if result.status == Status::Aborted {
            return self.cut_short.push(failure);
        }
        self.failures.push_back(failure);
        if self.failures.len() > FAILURES {
            self.failures.pop_front();
        }
    }
}

/// A call in one line: its label, its tool, and the parameter that says most. Files below the folder that it works in are
/// named as they are there.
pub fn title(tool: &str, label: &str, input: &Value, folder: &str) -> String {
    let said = match of_a_note(tool, input).or_else(|| says_most(input, folder)) {
        Some(said) => text::short(&said, 200),
        None if input.as_object().is_none_or(serde_json::Map::is_empty) => String::new(),
        None => text::short(&input.to_string(), 200),
    };
    let label = text::visible(label);
    let tool = text::visible(tool);
    match (label.is_empty(), said.is_empty()) {
        (true, true) => tool,
        (true, false) => format!("{tool}: {said}"),
        (false, true) => format!("{label} ({tool})"),
        (false, false) => format!("{label} ({tool}: {said})"),
    }
}

/// What is done to which note: its text alone says neither.
fn of_a_note(tool: &str, input: &Value) -> Option<String> {
    let action = input["action"].as_str().filter(|_| tool == "memory")?;
    Some(input["name"].as_str().map_or(action.to_owned(), |name| format!("{action} {name}")))
}

/// The parameter that says most, as our own tools name it, or as agents do.
fn says_most(input: &Value, folder: &str) -> Option<String> {
    const PATHS: [&str; 5] = ["path", "file_path", "filePath", "absolute_path", "notebook_path"];
    const OTHERS: [&str; 4] = ["url", "question", "pattern", "text"];
    let one = |name: &&str| input[*name].as_str();
    // A definition says more than the file in which it is looked for.
    if let Some(said) = ["command", "symbol"].iter().find_map(one) {
        return Some(said.to_owned());
    }
    if let Some(path) = PATHS.iter().find_map(one) {
        return Some(text::below(folder, path).to_owned());
    }
    if let Some(said) = OTHERS.iter().find_map(one) {
        return Some(said.to_owned());
    }
    let texts = |list: &Value, inner: Option<&str>| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        let text = |entry: &Value| {
            let text = inner.map_or(entry, |name| &entry[name]).as_str()?;
            Some(text::below(folder, text).to_owned())
        };
        list.filter_map(text).collect()
    };
    let command = input["command"].as_array().into_iter().flatten();
    let command: Vec<&str> = command.filter_map(Value::as_str).collect();
    if !command.is_empty() {
        return Some(command.join(" "));
    }
    let lists = [
        texts(&input["paths"], None),
        texts(&input["changes"], Some("path")),
        texts(&input["locations"], Some("path")),
    ];
    let paths = lists.into_iter().find(|paths| !paths.is_empty());
    // What an agent asked with may be wrapped in what it was taken for.
    let wrapped =
        || ["rawInput", "input"].iter().find_map(|name| says_most(input.get(*name)?, folder));
    // Some agents tell a command line only as the title of what they ask.
    let titled = || input["title"].as_str().map(str::to_owned);
    paths.map(|paths| paths.join(", ")).or_else(wrapped).or_else(titled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_of_an_agent_shows_its_path_or_command_however_the_agent_names_it() {
        let edit = json!({ "file_path": "/w/a.rs", "old_string": "a", "new_string": "b" });
        let edit = json!({ "paths": ["/w/a.rs"], "input": edit });
        assert_eq!(title("write", "claude Edit", &edit, ""), "claude Edit (write: /w/a.rs)");
        assert_eq!(title("write", "claude Edit", &edit, "/w"), "claude Edit (write: a.rs)");
        assert_eq!(title("write", "claude Edit", &edit, "/"), "claude Edit (write: /w/a.rs)");
        let patch = json!([{ "path": "a.rs", "diff": "" }, { "path": "b.rs", "diff": "" }]);
        let patch = json!({ "itemId": "i", "changes": patch });
        assert_eq!(title("codex.fileChange", "", &patch, ""), "codex.fileChange: a.rs, b.rs");
        let place = json!({ "title": "Read", "locations": [{ "path": "c.rs", "line": 3 }] });
        assert_eq!(title("gemini.read_file", "", &place, ""), "gemini.read_file: c.rs");
        let raw = json!({ "kind": "other", "rawInput": { "command": ["ls", "-l"] } });
        assert_eq!(title("x.run", "", &raw, ""), "x.run: ls -l");
        let content = json!([{ "type": "content", "content": { "text": "[in /w] (run it)" } }]);
        let asked =
            json!({ "content": content, "kind": "execute", "locations": [], "title": "make" });
        assert_eq!(title("gemini.execute", "", &asked, ""), "gemini.execute: make");
        let other = json!({ "a": 1 });
        assert_eq!(title("x.y", "", &other, ""), "x.y: {\"a\":1}", "nothing says more");
    }

    #[test]
    fn a_call_for_a_definition_or_a_note_names_it() {
        let shown = |tool, input| title(tool, "", &input, "");
        assert_eq!(shown("view", json!({ "symbol": "Foo.bar" })), "view: Foo.bar");
        let below = json!({ "path": "src", "symbol": "Foo.bar" });
        assert_eq!(shown("view", below), "view: Foo.bar");
        let write = json!({ "action": "write", "name": "build", "text": "run make" });
        assert_eq!(shown("memory", write), "memory: write build");
        assert_eq!(shown("memory", json!({ "action": "list" })), "memory: list");
    }
}
