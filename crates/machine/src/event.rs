//! Facts for observers: what a person, a screen or a script sees of a task. Never needed to resume.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{AgentEnd, Unknown};
use crate::cause::Cause;
use crate::driver::Note;
use crate::id::{CallId, QuestionId, TaskId};
use crate::message::{StopReason, Usage};
use crate::policy::budget::{Budget, Exhausted, Spend};
use crate::policy::call_hash::CallHash;
use crate::policy::grant::Scope;
use crate::policy::permission::{Decide, Layer};
use crate::policy::recovery::Rung;
use crate::policy::sandbox::Level;
use crate::task::{CriterionResult, Outcome, ProjectFile, Workspace};
use crate::time::Timestamp;
use crate::tool::ToolResult;

/// One fact with its place and time; the shape of a line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number within the task, from 1, without gaps.
    pub seq: u64,
    /// When the input that caused it entered, in milliseconds since the epoch.
    pub time: Timestamp,
    /// The task.
    pub task: TaskId,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// By what the files of a workspace were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// The machine was restarted.
    Restart,
    /// Its folder was gone.
    Folder,
}

/// What can happen, as observers hear it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A task began.
    TaskStarted {
        /// Its goal.
        goal: String,
        /// Who decides.
        driver: String,
        /// The coding agent that it is, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// How many acceptance criteria it has.
        criteria: usize,
        /// How strong the walls around its processes are.
        #[serde(default)]
        sandbox: Level,
    },
    /// Files of the project have a say in it, or were refused one.
    FilesJudged {
        /// The files, and by whose word each counts.
        files: Vec<ProjectFile>,
    },
    /// A process took it up.
    Attached {
        /// The process's owner number.
        owner: u64,
        /// Whether a person is there.
        attended: bool,
    },
    /// The process let go of it.
    Detached {
        /// Why.
        reason: String,
    },
    /// The process that drove it was lost.
    OwnerLost {
        /// Calls that will be run again.
        repeated: Vec<CallId>,
        /// Calls nobody knows the end of.
        in_doubt: Vec<CallId>,
    },
    /// The machine was restarted while the task was under way, or its workspace was removed.
    Restarted {
        /// Which of them.
        by: Loss,
        /// Files of the last checkpoint that were lost, and are there again.
        brought_back: u32,
        /// Why it is not known what was lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// The journal was damaged, and records of it are gone.
    RecordsLost {
        /// How many, from the end.
        lost: u64,
        /// Whose they were, if they are those of a task that a step of it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<TaskId>,
    },
    /// It has a place to work.
    WorkspaceOpened {
        /// The place.
        workspace: Workspace,
    },
    /// A server was asked for its tools, or has other ones now.
    ToolsOpened {
        /// The server.
        server: String,
        /// The names of its tools.
        tools: Vec<String>,
        /// Why there are none, or what was left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// A model is asked.
    ModelCalled {
        /// The model.
        model: String,
        /// How many messages it is sent.
        messages: usize,
    },
    /// A model answered.
    ModelReplied {
        /// The model, as its provider names it.
        model: String,
        /// Its words.
        text: String,
        /// The tools it asks for.
        tools: Vec<String>,
        /// Why it stopped.
        stop: StopReason,
        /// What it cost.
        usage: Usage,
    },
    /// A model did not answer.
    ModelFailed {
        /// The kind in one word.
        kind: String,
        /// What is wrong.
        message: String,
        /// In how many milliseconds it is asked again; absent if it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again_in: Option<u64>,
    },
    /// A coding agent is asked for a turn.
    AgentAsked {
        /// Its name.
        agent: String,
        /// Which conversation with it, from 1.
        conversation: u32,
    },
    /// A coding agent is there, in a version of which something is to be known.
    AgentMet {
        /// Its name.
        agent: String,
        /// Its version, as it says.
        version: String,
        /// What is to be known; one sentence each.
        remarks: Vec<String>,
    },
    /// A coding agent said or thought something, whole.
    AgentSaid {
        /// Its words; empty if it only thought.
        text: String,
        /// What it thought before, as far as it tells.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        thinking: String,
    },
    /// A coding agent's turn ended, or there is no agent.
    AgentEnded {
        /// How; absent if there is no agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<AgentEnd>,
        /// Its last words, or what is wrong.
        text: String,
        /// Messages of its turn that nobody knows.
        #[serde(default, skip_serializing_if = "Unknown::is_empty")]
        unknown: Unknown,
    },
    /// The answer before stands for the conversation from here on, which had become too long. The journal keeps all
    /// of it.
    Compacted {
        /// How many messages it had.
        messages: usize,
    },
    /// Somebody wants the conversation of whoever works shorter before its next turn.
    CompactionAsked {
        /// What is kept above all; may be empty.
        focus: String,
    },
    /// A coding agent wrote a summary in place of its conversation, because it was told to or by itself.
    AgentCompacted {
        /// The size before, in tokens, where it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<u64>,
        /// The size after.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// The driver decided.
    TurnStarted {
        /// The turn's number, from 1.
        turn: u64,
        /// How many actions it has.
        actions: usize,
    },
    /// All that a decision caused has ended.
    TurnEnded {
        /// The turn's number.
        turn: u64,
    },
    /// A call began.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// What a person calls it; may be empty.
        label: String,
        /// Its parameters.
        input: Arc<Value>,
        /// Who let it pass.
        allowed_by: String,
    },
    /// A call ended.
    ToolEnded {
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// What a person calls it; may be empty.
        label: String,
        /// The id of the model's tool call that asked for it; empty if no model did.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tool_use: String,
        /// What came of it.
        #[serde(serialize_with = "crate::tool::serialize_long")]
        result: ToolResult,
    },
    /// A person is asked whether a call may run.
    ApprovalRequested {
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// Its parameters.
        input: Arc<Value>,
        /// Why it is asked.
        reason: String,
        /// The exact call: what an answer is bound to.
        hash: CallHash,
        /// The part of the call that was decisive; empty if that is the whole.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        part: String,
    },
    /// The question was answered.
    ApprovalDecided {
        /// The call.
        call: CallId,
        /// Whether it may run.
        allowed: bool,
        /// What the worker is told, if not.
        reason: String,
        /// How far a yes reaches.
        #[serde(default, skip_serializing_if = "Scope::is_once")]
        scope: Scope,
    },
    /// A decider is asked in a person's place.
    DeciderAsked {
        /// The call.
        call: CallId,
        /// Its name.
        decider: String,
        /// The model, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// Somebody or something decided about a call: the gate, a grant, a shortcut, a decider or a person.
    CallJudged {
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// Its parameters.
        input: Arc<Value>,
        /// The exact call.
        hash: CallHash,
        /// What was decided; `ask` if that is left to somebody else.
        decide: Decide,
        /// Who decided: `rule 3`, `default`, `grant c4`, `shortcut`, `decider NAME`, `person`.
        by: String,
        /// Which layer of the gate saw what was decisive.
        layer: Layer,
        /// The part of the call that was decisive; empty if that is the whole.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        part: String,
        /// Why; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// A person is asked something.
    QuestionAsked {
        /// The call.
        call: CallId,
        /// The question.
        question: String,
        /// The answers to choose from; any text if empty.
        choices: Vec<String>,
    },
    /// A call is in doubt: a crash hid whether it ran.
    CallInDoubt {
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// Its parameters.
        input: Arc<Value>,
    },
    /// Somebody said what became of a call in doubt.
    CallResolved {
        /// The call.
        call: CallId,
        /// What was said: did, did_not or retry.
        how: String,
    },
    /// The task's driver waits for a person's line.
    DecisionAwaited {
        /// What is expected.
        prompt: String,
        /// Which question it is.
        #[serde(default)]
        question: QuestionId,
    },
    /// A person decided.
    Told {
        /// The line.
        line: String,
    },
    /// The task's driver waits for a moment.
    TimerAwaited {
        /// When.
        until: Timestamp,
        /// Why.
        reason: String,
    },
    /// An agent did not take an order; a note that it was to hear is queued again.
    OrderFailed {
        /// The order in one word, such as `steer`.
        order: String,
        /// Why, as the agent says.
        reason: String,
    },
    /// A note was queued for the driver.
    NoteQueued {
        /// The note.
        note: Note,
    },
    /// A note reached the driver.
    NoteDelivered {
        /// The note.
        note: Note,
    },
    /// It makes no new moves.
    Paused,
    /// It goes on.
    Resumed,
    /// Its budget grew.
    BudgetRaised {
        /// All limits after that.
        budget: Budget,
    },
    /// Somebody else decides.
    DriverChanged {
        /// Who did.
        from: String,
        /// Who does.
        to: String,
        /// The model it asks, if it asks one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The coding agent it is, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
    /// A checkpoint of the workspace was made.
    Checkpointed {
        /// Its name.
        checkpoint: String,
    },
    /// There is no checkpoint, because the workspace holds something that cannot be kept.
    Unkept {
        /// What.
        reason: String,
    },
    /// Somebody asked for an earlier state of the workspace.
    RollBackAsked {
        /// The checkpoint.
        to: String,
    },
    /// The workspace could not be given the state of a checkpoint.
    RollBackFailed {
        /// The checkpoint.
        to: String,
        /// Why.
        reason: String,
    },
    /// The workspace has the state of a checkpoint.
    RolledBack {
        /// The checkpoint.
        to: String,
        /// What it was before: going back to this undoes it.
        undo: String,
    },
    /// Its change did not hold where it was to go; the driver is told.
    Reopened {
        /// What failed, in one line.
        reason: String,
    },
    /// The files of the workspace are those of a branch and of the task's change together.
    Rebased {
        /// The branch.
        branch: String,
        /// The commit at its tip.
        commit: String,
        /// What the workspace was before: going back to this undoes it.
        undo: String,
    },
    /// Its change is in a branch.
    Integrated {
        /// The branch.
        branch: String,
        /// The commit that brought it.
        commit: String,
        /// The hash of all files of that commit.
        tree: String,
    },
    /// A child was dispatched; what it may spend is set aside.
    ChildDispatched {
        /// The child.
        child: TaskId,
        /// What it is to achieve.
        goal: String,
    },
    /// What a child spent was charged.
    ChildReported {
        /// The child.
        child: TaskId,
        /// How it ended; absent while it goes on.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
        /// All that it spent so far, in US dollars.
        usd: f64,
        /// The same in tokens.
        tokens: u64,
    },
    /// It makes no move until one of these has reported: what is left of its budget is set aside for them.
    ChildrenAwaited {
        /// The children that have not ended.
        children: Vec<TaskId>,
    },
    /// A child that is waited for could go on, and nobody drives it: its process is gone.
    ChildLost {
        /// The child.
        child: TaskId,
        /// It was taken up often enough without coming further; otherwise it is taken up now.
        given_up: bool,
    },
    /// The driver says that it is finished.
    Claimed {
        /// In its words.
        summary: String,
    },
    /// One criterion was checked.
    CriterionChecked {
        /// How it went.
        result: CriterionResult,
    },
    /// A judge is asked.
    JudgeAsked {
        /// The criterion in one line.
        criterion: String,
        /// The model.
        model: String,
    },
    /// A judge answered, or could not. What it means is in the criterion that was checked.
    JudgeReplied {
        /// The criterion in one line.
        criterion: String,
        /// What the answer cost.
        usage: Usage,
        /// Why it is no verdict, if it is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// The claim did not hold; the driver is told.
    VerdictFailed {
        /// How many criteria failed.
        failed: usize,
    },
    /// Something is tried after a failure. That a failed verdict goes back to the driver is told by that event alone.
    RecoveryChosen {
        /// What failed.
        cause: Cause,
        /// What is tried.
        action: Rung,
        /// The how-manieth failure of this kind in a row it is.
        attempt: u32,
        /// What happened, for a person.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// A person is asked what to do about a failure.
    Escalated {
        /// What failed.
        cause: Cause,
        /// What happened, for a person.
        reason: String,
        /// Which question it is.
        #[serde(default)]
        question: QuestionId,
    },
    /// How far the task is, every so many turns.
    Progress {
        /// Turns so far.
        turn: u64,
        /// What was spent.
        spend: Spend,
        /// Whether the files are others than at the last report; absent if no checkpoint says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed: Option<bool>,
        /// Calls since the last report that may have changed something.
        changes: u64,
        /// The criteria as the last verdict left them.
        criteria: Vec<CriterionState>,
        /// The last calls, oldest first.
        actions: Vec<String>,
    },
    /// A limit was reached.
    BudgetExhausted {
        /// Every axis that was.
        axes: Vec<Exhausted>,
    },
    /// An input could not be used; nothing changed.
    Rejected {
        /// What was expected and what came.
        reason: String,
    },
    /// A late, doubled or foreign signal was dropped.
    SignalDropped {
        /// How many were so far.
        total: u64,
    },
    /// It ended, or stopped to wait.
    TaskFinished {
        /// How.
        outcome: Outcome,
        /// The exit code of `drivetrain run`.
        exit_code: u8,
        /// Why, for a person.
        reason: String,
        /// What was spent.
        spend: Spend,
        /// How strong the walls around its processes were.
        #[serde(default)]
        sandbox: Level,
        /// Why, for a script; absent if it went well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
        /// What a workflow hands over, by name; absent if it declares nothing or did not come to its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<serde_json::Value>,
    },
}

/// A criterion as the last verdict left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriterionState {
    /// The criterion in one line.
    pub title: String,
    /// Whether it passed.
    pub passed: bool,
}
