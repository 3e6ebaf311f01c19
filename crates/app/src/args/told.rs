//! Arguments of what a person tells a task, running or not.

use clap::{ArgGroup, Args};
use machine::id::CallId;

use super::Limits;

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Why, for those who look later
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
}

/// Arguments of `interrupt`.
#[derive(Debug, Args)]
pub(crate) struct InterruptArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// What the driver is told; words of it need no quotes
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
}

/// A task and a text.
#[derive(Debug, Args)]
pub(crate) struct NoteArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// What the driver is told; words of it need no quotes
    #[arg(value_name = "TEXT", required = true)]
    pub(crate) text: Vec<String>,
}

/// Arguments of `compact`.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// What is kept above all; words of it need no quotes
    #[arg(value_name = "FOCUS")]
    pub(crate) focus: Vec<String>,
}

/// Arguments of `raise`.
#[derive(Debug, Args)]
pub(crate) struct RaiseArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) limits: Limits,
}

/// A task and one of its calls.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// The call, such as c12; may be left out if only one waits
    pub(crate) call: Option<CallId>,
}

/// Arguments of `approve`.
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) which: CallArgs,

    /// How far the answer reaches: this call, the same call again in this task, or tasks to come
    #[arg(long = "for", value_name = "REACH", value_enum, default_value_t = Reach::Once)]
    pub(crate) reach: Reach,

    /// For shell: also commands that are like this, such as 'git push'
    #[arg(long, value_name = "PATTERN")]
    pub(crate) like: Option<String>,

    /// The hash that was shown with the call: refused if the call has another one
    #[arg(long, value_name = "DIGITS")]
    pub(crate) hash: Option<String>,
}

/// How far an approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reach {
    /// This call only
    Once,
    /// The same call again in this task
    Task,
    /// Tasks to come as well: a rule is written into the project's policy
    Project,
}

/// Arguments of `deny`.
#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    pub(crate) which: CallArgs,

    /// What the worker is told
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
}

/// Arguments of `answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// The question or the call, if more than one waits, then the answer
    #[arg(value_name = "[QUESTION] TEXT", num_args = 1..=2, required = true)]
    pub(crate) words: Vec<String>,
}

/// Arguments of `resolve`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("how").required(true).args(["did", "did_not", "retry"])))]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    pub(crate) which: CallArgs,

    /// It ran to its end: take it as done
    #[arg(long)]
    pub(crate) did: bool,

    /// It did not run: take it as failed
    #[arg(long)]
    pub(crate) did_not: bool,

    /// Run it again
    #[arg(long)]
    pub(crate) retry: bool,
}

/// Arguments of `hand-over`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("to").required(true).multiple(true).args(["driver", "model", "agent"])))]
pub(crate) struct HandOverArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Who decides from here on
    #[arg(long, value_name = "NAME")]
    pub(crate) driver: Option<String>,

    /// The driver's configuration: JSON, or a file of JSON or TOML
    #[arg(long, value_name = "JSON|FILE", requires = "driver")]
    pub(crate) config: Option<String>,

    /// This model decides; a model before it leaves it the conversation and all other settings. With --agent, or alone and
    /// without a provider while a coding agent works: its model
    #[arg(long, value_name = "PROVIDER/NAME", conflicts_with = "driver")]
    pub(crate) model: Option<String>,

    /// This coding agent works: claude, codex, gemini, opencode or one of your own; --model is then its model
    #[arg(long, value_name = "NAME", conflicts_with = "driver")]
    pub(crate) agent: Option<String>,

    /// Let the agent work though its version is older than what was tried
    #[arg(long, requires = "agent")]
    pub(crate) any_version: bool,
}
