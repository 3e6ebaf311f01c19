//! The fold of a task's events that summaries are made of: what runs, what failed last, what was checked.

use std::collections::{BTreeMap, VecDeque};

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
    /// The results of the last check of a claim.
    pub verdict: Vec<CriterionResult>,
    /// How often a claim did not hold.
    pub failed_verdicts: u64,
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
}

/// A call that failed.
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
                let running = Running { title: title(tool, label, input), since: event.time };
                self.running.insert(*call, running);
            }
            EventKind::ToolEnded { call, tool, result, .. } => self.on_ended(*call, tool, result),
            EventKind::OwnerLost { .. } | EventKind::Detached { .. } => self.running.clear(),
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
            | EventKind::TaskStarted { .. }
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
            | EventKind::DriverChanged { .. }
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

    fn on_ended(&mut self, call: CallId, tool: &str, result: &ToolResult) {
        let running = self.running.remove(&call);
        if result.status == Status::Ok {
            self.failures.clear();
            return;
        }
        let title = running.map_or_else(|| tool.to_owned(), |running| running.title);
        self.failures.push_back(Failure { call, title, result: result.clone() });
        if self.failures.len() > FAILURES {
            self.failures.pop_front();
        }
    }
}

/// A call in one line: its label, its tool, and the parameter that says most.
pub fn title(tool: &str, label: &str, input: &Value) -> String {
    let parameter = ["command", "path", "question", "pattern", "text"]
        .iter()
        .find_map(|key| input[*key].as_str());
    let said = match parameter {
        Some(said) => text::short(said, 200),
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
