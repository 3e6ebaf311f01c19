//! Arguments of `mcp` and `acp`: drivetrain as a server of other programs.

use clap::{ArgGroup, Args};
use machine::time::Span;

use super::{CheckArgs, Limits, PlaceArgs, WallArgs, count, money};

/// Arguments of `mcp`.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("worker").required(true).multiple(true).args(["agent", "model"])))]
pub(crate) struct McpArgs {
    /// A coding agent that may work on tasks (repeatable); the first worker named is the default
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Vec<String>,

    /// A model that may work on tasks (repeatable)
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Vec<String>,

    /// The task that dispatches: its children are counted to it, and may do no more than it may
    #[arg(long, value_name = "ID")]
    pub(crate) parent: Option<String>,

    /// Refuse a dispatch without a key, so that none is made twice
    #[arg(long)]
    pub(crate) require_key: bool,

    /// How many tasks may be dispatched
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, default_value_t = 32, help_heading = "Budget")]
    pub(crate) max_tasks: u64,

    /// For how long a task that was dispatched in this folder counts toward --max-tasks, --max-usd and --max-tokens,
    /// whichever server dispatched it. Children of --parent count always
    #[arg(long, value_name = "SPAN", default_value = "1d", value_parser = Span::parse, help_heading = "Budget")]
    pub(crate) per: Span,

    /// Money for all tasks together, in US dollars
    #[arg(long, value_name = "USD", value_parser = money, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_usd: Option<f64>,

    /// Tokens for all tasks together
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_tokens: Option<u64>,

    /// Turns of each task
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = "Budget")]
    pub(crate) max_turns: Option<u64>,

    /// Time of each task, such as 30m
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, help_heading = "Budget")]
    pub(crate) max_time: Option<Span>,

    /// What tasks may do where no rule says anything: read-only, dev or open
    #[arg(long, value_name = "NAME", help_heading = "Permissions")]
    pub(crate) profile: Option<String>,

    /// Let the project's own files count for the tasks, without trusting them for good
    #[arg(long, help_heading = "Permissions")]
    pub(crate) trust: bool,

    /// Show, steer and cancel every task, not only those dispatched here
    #[arg(long, conflicts_with = "parent", help_heading = "Permissions")]
    pub(crate) all_tasks: bool,

    /// A command that must succeed before any task counts as done (repeatable)
    #[arg(long, value_name = "COMMAND", help_heading = "Checks")]
    pub(crate) check: Vec<String>,

    #[command(flatten)]
    pub(crate) walls: WallArgs,
}

/// Arguments of `acp`.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("worker").required(true).multiple(true).args(["agent", "model"])))]
pub(crate) struct AcpArgs {
    /// The model to talk to; script/FILE plays a script, without a network or a key
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,

    /// Let this coding agent work: claude, codex, gemini, opencode or one of your own; --model is then its model
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    #[command(flatten)]
    pub(crate) check: CheckArgs,

    #[command(flatten)]
    pub(crate) limits: Limits,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) walls: WallArgs,
}
