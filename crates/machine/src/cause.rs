//! Why a turn failed, or why a task ended or stopped: closed kinds, for policies to choose by and for scripts to read.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::message::ModelFailure;
use crate::policy::{breaker, retry};
use crate::task::CriterionKind;

/// Why something ended, stopped or has to be tried anew. Exhaustive on purpose: a new cause needs a ladder, a place
/// in the documents and an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// A claim was checked and did not hold.
    VerdictFailed {
        /// The kinds of criteria that failed, each once; none if some were not checked at all.
        criteria: Vec<CriterionKind>,
    },
    /// A model did not answer, or not in a way that helps.
    ModelFailed {
        /// How.
        failure: ModelTrouble,
    },
    /// Calls failed, one after the other.
    ToolErrors {
        /// How many in a row.
        count: u64,
    },
    /// Calls ran out of their time, one after the other.
    TimedOut {
        /// How many in a row.
        count: u64,
    },
    /// Calls were denied, one after the other.
    Denied {
        /// How many in a row.
        count: u64,
    },
    /// The agent or the plugin that decides is gone or does not answer.
    WorkerDied,
    /// The driver gave up by its own word.
    GaveUp,
    /// What is done no longer leads anywhere.
    NoProgress {
        /// What repeated itself.
        what: Repetition,
    },
    /// Limits were reached.
    Budget {
        /// The keys of the budget.
        axes: Vec<String>,
    },
    /// Something around the task cannot be had.
    Environment {
        /// What.
        part: Surroundings,
    },
    /// A person was asked what to do about something.
    Escalated {
        /// About what.
        over: Box<Cause>,
    },
    /// A crash hid whether a call ran.
    InDoubt,
    /// Somebody cancelled it.
    Cancelled,
    /// A person was asked something: an approval, an answer, the next move.
    AsksPerson,
    /// Its model is asked again later.
    UsageLimit,
    /// The process that drove it let go of it.
    LetGo,
}

/// How a model did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelTrouble {
    /// Too many requests, or a quota is used up.
    RateLimited,
    /// The provider has no room.
    Overloaded,
    /// The key is missing or wrong.
    Auth,
    /// The conversation does not fit.
    ContextOverflow,
    /// It, or its provider, refused.
    Refusal,
    /// What it said cannot be used.
    BadReply,
    /// Nothing came back, or not in time.
    Unreachable,
    /// Anything else.
    Other,
}

/// What repeated itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repetition {
    /// The same acceptance failure.
    SameFailure,
    /// The same actions with the same results.
    SameAction,
    /// Claims with the same files.
    UnchangedTree,
    /// A few things in turn.
    Cycle,
    /// The same question to a person.
    SameQuestion,
    /// The same call, denied each time.
    BlockedCall,
    /// The driver says so itself: an edge of a workflow over its limit, or decisions without a deed.
    Driver,
}

/// What a task needs around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surroundings {
    /// Its workspace could not be opened.
    Workspace,
    /// Its work could not be kept.
    Checkpoint,
    /// The criteria could not be run.
    Verdict,
    /// The workspace could not go back.
    Rollback,
}

/// The kinds of cause that have a ladder: the keys of `[retry]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// [`Cause::VerdictFailed`].
    VerdictFailed,
    /// [`Cause::ModelFailed`], where its kind has no ladder of its own.
    ModelFailed,
    /// [`ModelTrouble::RateLimited`].
    RateLimited,
    /// [`ModelTrouble::Overloaded`].
    Overloaded,
    /// [`ModelTrouble::Auth`].
    Auth,
    /// [`ModelTrouble::ContextOverflow`].
    ContextOverflow,
    /// [`ModelTrouble::Refusal`].
    Refusal,
    /// [`ModelTrouble::BadReply`].
    BadReply,
    /// [`Cause::ToolErrors`].
    ToolErrors,
    /// [`Cause::TimedOut`].
    TimedOut,
    /// [`Cause::Denied`].
    Denied,
    /// [`Cause::WorkerDied`].
    WorkerDied,
    /// [`Cause::GaveUp`].
    GaveUp,
    /// [`Cause::NoProgress`].
    NoProgress,
}

impl CauseKind {
    /// All of them, in the order of the documents.
    pub const ALL: [CauseKind; 14] = [
        CauseKind::VerdictFailed,
        CauseKind::ModelFailed,
        CauseKind::RateLimited,
        CauseKind::Overloaded,
        CauseKind::Auth,
        CauseKind::ContextOverflow,
        CauseKind::Refusal,
        CauseKind::BadReply,
        CauseKind::ToolErrors,
        CauseKind::TimedOut,
        CauseKind::Denied,
        CauseKind::WorkerDied,
        CauseKind::GaveUp,
        CauseKind::NoProgress,
    ];

    /// The key in a task file.
    pub const fn key(self) -> &'static str {
        match self {
            CauseKind::VerdictFailed => "verdict_failed",
            CauseKind::ModelFailed => "model_failed",
            CauseKind::RateLimited => "rate_limited",
            CauseKind::Overloaded => "overloaded",
            CauseKind::Auth => "auth",
            CauseKind::ContextOverflow => "context_overflow",
            CauseKind::Refusal => "refusal",
            CauseKind::BadReply => "bad_reply",
            CauseKind::ToolErrors => "tool_errors",
            CauseKind::TimedOut => "timed_out",
            CauseKind::Denied => "denied",
            CauseKind::WorkerDied => "worker_died",
            CauseKind::GaveUp => "gave_up",
            CauseKind::NoProgress => "no_progress",
        }
    }

    /// Whether several of them in a row may count as one.
    pub const fn is_counted(self) -> bool {
        matches!(self, CauseKind::ToolErrors | CauseKind::TimedOut | CauseKind::Denied)
    }
}

impl ModelTrouble {
    /// The kind of a failure, by the word that the wire has for it.
    pub fn of(failure: &ModelFailure) -> ModelTrouble {
        ModelTrouble::of_kind(&failure.kind)
    }

    /// As [`ModelTrouble::of`], from the word alone.
    pub fn of_kind(kind: &str) -> ModelTrouble {
        match kind {
            "rate_limited" | "quota" => ModelTrouble::RateLimited,
            "overloaded" => ModelTrouble::Overloaded,
            "auth" | retry::NO_KEY => ModelTrouble::Auth,
            "context_overflow" | "too_large" => ModelTrouble::ContextOverflow,
            "content_filter" => ModelTrouble::Refusal,
            "malformed"
            | "malformed_stream"
            | "truncated"
            | "tool_args_truncated"
            | "tool_args_invalid"
            | "malformed_tool_call"
            | "duplicate_tool_id"
            | "empty_completion"
            | "unknown_stop"
            | "output_too_large" => ModelTrouble::BadReply,
            "server" | "transport" | "redirect" | "protocol" | "stream_truncated"
            | "idle_timeout" | "total_timeout" => ModelTrouble::Unreachable,
            kind if kind == breaker::KIND => ModelTrouble::Unreachable,
            _ => ModelTrouble::Other,
        }
    }

    fn ladder(self) -> CauseKind {
        match self {
            ModelTrouble::RateLimited => CauseKind::RateLimited,
            ModelTrouble::Overloaded => CauseKind::Overloaded,
            ModelTrouble::Auth => CauseKind::Auth,
            ModelTrouble::ContextOverflow => CauseKind::ContextOverflow,
            ModelTrouble::Refusal => CauseKind::Refusal,
            ModelTrouble::BadReply => CauseKind::BadReply,
            ModelTrouble::Unreachable | ModelTrouble::Other => CauseKind::ModelFailed,
        }
    }
}

impl Cause {
    /// The ladder that is walked after it; none if nothing but a person or a larger budget helps.
    pub fn ladder(&self) -> Option<CauseKind> {
        Some(match self {
            Cause::VerdictFailed { .. } => CauseKind::VerdictFailed,
            Cause::ModelFailed { failure } => failure.ladder(),
            Cause::ToolErrors { .. } => CauseKind::ToolErrors,
            Cause::TimedOut { .. } => CauseKind::TimedOut,
            Cause::Denied { .. } => CauseKind::Denied,
            Cause::WorkerDied => CauseKind::WorkerDied,
            Cause::GaveUp => CauseKind::GaveUp,
            Cause::NoProgress { .. } => CauseKind::NoProgress,
            Cause::Budget { .. }
            | Cause::Environment { .. }
            | Cause::Escalated { .. }
            | Cause::InDoubt
            | Cause::Cancelled
            | Cause::AsksPerson
            | Cause::UsageLimit
            | Cause::LetGo => return None,
        })
    }

    /// What follows if nothing is tried any more: whether it is a circle rather than a failure.
    pub fn is_circle(&self) -> bool {
        matches!(
            self,
            Cause::NoProgress { .. }
                | Cause::ToolErrors { .. }
                | Cause::TimedOut { .. }
                | Cause::Denied { .. }
        )
    }
}

/// In a few words, for a person.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::VerdictFailed { .. } => f.write_str("the work was not accepted"),
            Cause::ModelFailed { failure } => f.write_str(match failure {
                ModelTrouble::RateLimited => "the model takes no more requests for now",
                ModelTrouble::Overloaded => "the model is overloaded",
                ModelTrouble::Auth => "the model does not take the key",
                ModelTrouble::ContextOverflow => "the conversation is too long for the model",
                ModelTrouble::Refusal => "the model refused",
                ModelTrouble::BadReply => "the model's answers cannot be used",
                ModelTrouble::Unreachable => "the model cannot be reached",
                ModelTrouble::Other => "the model did not answer",
            }),
            Cause::ToolErrors { count } => write!(f, "{count} calls in a row failed"),
            Cause::TimedOut { count } => write!(f, "{count} calls in a row ran out of time"),
            Cause::Denied { count } => write!(f, "{count} calls in a row were denied"),
            Cause::WorkerDied => f.write_str("the worker died or does not answer"),
            Cause::GaveUp => f.write_str("the driver gave up"),
            Cause::NoProgress { .. } => f.write_str("it goes round in circles"),
            Cause::Budget { axes } => write!(f, "the budget is used up ({})", axes.join(", ")),
            Cause::Environment { part } => f.write_str(match part {
                Surroundings::Workspace => "the workspace cannot be opened",
                Surroundings::Checkpoint => "the work cannot be kept",
                Surroundings::Verdict => "the criteria cannot be run",
                Surroundings::Rollback => "the workspace cannot go back",
            }),
            Cause::Escalated { over } => write!(f, "a person is asked what to do: {over}"),
            Cause::InDoubt => f.write_str("a crash hid whether a call ran"),
            Cause::Cancelled => f.write_str("somebody cancelled it"),
            Cause::AsksPerson => f.write_str("a person is asked"),
            Cause::UsageLimit => f.write_str("the model is asked again later"),
            Cause::LetGo => f.write_str("the process that drove it stopped"),
        }
    }
}
