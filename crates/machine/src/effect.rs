//! Work for the world, as plain data. Each effect has an id and carries everything it needs: a performer
//! never looks at a state. Exhaustive on purpose: a new effect must break every performer.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::{AgentCall, AgentOrder};
use crate::id::{CallId, EffectId, TaskId};
use crate::input::Command;
use crate::message::ModelCall;
use crate::policy::permission::Approval;
use crate::policy::sandbox::SandboxSpec;
use crate::server::{ServerCall, ServerSpec, ToolOffer};
use crate::task::{Criterion, ForkedFrom, TaskSpec, Workspace, WorkspaceSpec};
use crate::time::{Span, Timestamp};
use crate::tool::{EffectClass, ToolResult};
use crate::verdict::Checkpoint;

/// One piece of work. All but `Cancel`, `AnswerRequest`, `TellAgent`, `LetAsk` and `TellChild` are answered by exactly one signal that carries the id.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Make or find the task's workspace. Idempotent: the same task gets the same one.
    OpenWorkspace {
        /// Answered by `WorkspaceOpened`.
        id: EffectId,
        /// What is wanted.
        spec: WorkspaceSpec,
        /// The folder the task was started in.
        folder: String,
        /// The walls around what makes it ready.
        sandbox: SandboxSpec,
        /// The state of another task that it begins with.
        forked_from: Option<ForkedFrom>,
    },
    /// Start the task's servers, where they do not run, and ask them for their tools.
    OpenTools {
        /// Answered by `ToolsOpened`.
        id: EffectId,
        /// Who is asked.
        servers: Vec<ServerSpec>,
        /// Where they work.
        workspace: Workspace,
        /// The folder the task was started in: what is trusted is looked up by it.
        folder: String,
        /// The walls around them.
        sandbox: SandboxSpec,
    },
    /// Run a tool.
    RunTool {
        /// Answered by `ToolEnded`.
        id: EffectId,
        /// Everything about the call.
        call: ToolCall,
        /// The gate let it pass.
        approval: Approval,
    },
    /// Ask the decider outside.
    Consult {
        /// Answered by `Consulted`.
        id: EffectId,
        /// The plugin's configuration, as the driver has it.
        plugin: Arc<Value>,
        /// What it is asked.
        request: Value,
        /// The tools beside the built-in ones that it may ask for meanwhile; none at all if it may not ask.
        tools: Option<Arc<Vec<ToolOffer>>>,
        /// What it may look at, and where its calls would work.
        workspace: Workspace,
        /// The walls around it.
        sandbox: SandboxSpec,
    },
    /// Answer a worker that asked for a call. Has no answer itself; a worker that is gone misses it.
    AnswerRequest {
        /// Of its own.
        id: EffectId,
        /// What it asked with.
        key: String,
        /// Of the call that it asked for under this key: [`crate::request::digest`].
        digest: u64,
        /// The call's one result, or why there is no call.
        answer: Result<ToolResult, String>,
    },
    /// Ask a model.
    CallModel {
        /// Answered by `ModelReplied`.
        id: EffectId,
        /// What it is asked.
        call: ModelCall,
        /// The folder that a model of the kind `script` is looked up in.
        folder: String,
    },
    /// Ask a coding agent for a turn. It may say things that count meanwhile: `AgentSaid`.
    AskAgent {
        /// Answered by `AgentEnded`.
        id: EffectId,
        /// What it is asked.
        call: AgentCall,
        /// The tools of drivetrain's own that it may call meanwhile.
        tools: Vec<ToolOffer>,
        /// Where it works.
        workspace: Workspace,
        /// The walls around it.
        sandbox: SandboxSpec,
        /// The folder the task was started in.
        folder: String,
    },
    /// Tell an agent something in the middle of a turn. Has no answer itself; an agent that is gone misses it.
    TellAgent {
        /// Of its own.
        id: EffectId,
        /// The turn.
        turn: EffectId,
        /// What it is told.
        order: AgentOrder,
    },
    /// Tell an agent's gateway whether a request to a model may be sent. Has no answer itself; a gateway that is gone
    /// misses it.
    LetAsk {
        /// Of its own.
        id: EffectId,
        /// The turn.
        turn: EffectId,
        /// The number of the request.
        request: u64,
        /// It may, or the reason why not.
        may: Result<(), String>,
    },
    /// End the agents of a driver that decides no more, with all that they left running. Has no answer, and whoever decides
    /// now does not wait for it.
    DismissAgents {
        /// Of its own.
        id: EffectId,
    },
    /// Keep the whole state of the workspace, outside of it.
    Checkpoint {
        /// Answered by `Checkpointed`.
        id: EffectId,
        /// What to keep.
        workspace: Workspace,
        /// Why, for a person.
        reason: String,
        /// Whether the worker goes on after it.
        worker: Worker,
    },
    /// Give the workspace the state of a checkpoint. The state before is kept first.
    Restore {
        /// Answered by `Restored`.
        id: EffectId,
        /// What changes.
        workspace: Workspace,
        /// The name of the checkpoint.
        to: String,
        /// What becomes of files that going back would destroy for good.
        in_the_way: InTheWay,
    },
    /// Run the criteria.
    Verify {
        /// Answered by `Verified`.
        id: EffectId,
        /// The task's goal, for plugins that check.
        goal: String,
        /// As frozen at the start.
        criteria: Vec<Criterion>,
        /// Where the worker worked.
        workspace: Workspace,
        /// How a checkout is made ready.
        spec: WorkspaceSpec,
        /// The folder the task was started in.
        folder: String,
        /// The state before the worker changed anything.
        base: Option<Checkpoint>,
        /// The state that is handed over; criteria run in the workspace itself without it.
        frozen: Option<Checkpoint>,
        /// The walls around what they run.
        sandbox: SandboxSpec,
    },
    /// Take up the child of a step, or begin it, and drive it to its end beside its parent. Idempotent: a child that has
    /// ended is only told of.
    DriveChild {
        /// Answered by `ChildLeft`.
        id: EffectId,
        /// The child.
        child: TaskId,
        /// How it starts, if it has not.
        spec: Box<TaskSpec>,
        /// Whether a person is there to answer.
        attended: bool,
    },
    /// Give a child of a step a command. Has no answer itself; one that does not fit it any more is refused there.
    TellChild {
        /// Of its own.
        id: EffectId,
        /// The child.
        child: TaskId,
        /// What it is told: to cancel reaches it also where nobody drives it.
        command: Box<Command>,
    },
    /// Have a process of its own take up a child that was dispatched and that nobody drives. Has no answer itself: whoever
    /// minds the child sees what came of it.
    TakeUpChild {
        /// Of its own.
        id: EffectId,
        /// The child.
        child: TaskId,
        /// The folder that the process begins in.
        folder: String,
    },
    /// Report back at a moment.
    SetTimer {
        /// Answered by `TimerFired`.
        id: EffectId,
        /// When.
        at: Timestamp,
    },
    /// Stop another effect and everything it started. Has no answer; a late one of its target is dropped.
    Cancel {
        /// The effect to stop.
        target: EffectId,
    },
}

/// What becomes of the worker when its files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// It goes on.
    Stays,
    /// It handed over: nothing that it started runs when its files are looked at, or after.
    Stops,
}

/// What becomes of files that are in no checkpoint, where those of the checkpoint to go back to belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTheWay {
    /// Nothing changes, and they are named: somebody can move them.
    Refused,
    /// They are moved out of the workspace.
    SetAside,
}

/// A tool call, complete.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The call's id: also its idempotency key, the same for every attempt.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
    /// Its parameters, checked.
    pub input: Arc<Value>,
    /// How repeatable it is.
    pub class: EffectClass,
    /// Stop it after this time; the tool's own limit if absent.
    pub timeout: Option<Span>,
    /// Where it works.
    pub workspace: Workspace,
    /// The walls around what it starts.
    pub sandbox: SandboxSpec,
    /// True if an earlier attempt may have run: a checkable tool looks before it acts.
    pub repeated: bool,
    /// The server that performs it; none for a built-in tool.
    pub server: Option<ServerCall>,
}

impl Effect {
    /// The effect's own id; of a `Cancel`, its target's.
    pub fn id(&self) -> EffectId {
        match self {
            Effect::OpenWorkspace { id, .. }
            | Effect::OpenTools { id, .. }
            | Effect::RunTool { id, .. }
            | Effect::Consult { id, .. }
            | Effect::AnswerRequest { id, .. }
            | Effect::CallModel { id, .. }
            | Effect::AskAgent { id, .. }
            | Effect::TellAgent { id, .. }
            | Effect::LetAsk { id, .. }
            | Effect::DismissAgents { id }
            | Effect::Checkpoint { id, .. }
            | Effect::Restore { id, .. }
            | Effect::Verify { id, .. }
            | Effect::DriveChild { id, .. }
            | Effect::TellChild { id, .. }
            | Effect::TakeUpChild { id, .. }
            | Effect::SetTimer { id, .. } => *id,
            Effect::Cancel { target } => *target,
        }
    }
}
