//! Arguments of commands that look at tasks and at the journal.

use clap::{Args, Subcommand};

use super::count;

/// What `journal` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalCmd {
    /// Check every record, and name what is damaged
    Verify,
    /// Make a new journal of everything that can be read; the old one is kept beside it
    ///
    /// Of each task the records from the first up to the first damaged one are kept. A task that lost its last records
    /// is paused: look at its files before you resume it, for what was done already may be done again. No process may
    /// have the journal open.
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain journal verify\n  drivetrain journal rebuild\n  drivetrain journal rebuild --json"
    )]
    Rebuild,
    /// Print the records of a task, one JSON object a line
    Export(TaskArgs),
}

/// A task.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// All tasks, however old
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,

    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = count::<usize>, allow_negative_numbers = true)]
    pub(crate) limit: usize,
}

/// Arguments of `log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Go on until the task has ended
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Only who decided what about which call, one line a decision
    #[arg(long)]
    pub(crate) decisions: bool,

    /// Show instead which hosts its sandboxes have reached for, and what became of it
    #[arg(long, conflicts_with_all = ["follow", "decisions"])]
    pub(crate) network: bool,
}

/// Arguments of `approvals`.
#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    /// Go on, and tell what is newly asked and what was settled, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,

    /// Show every call to its last character, however long it is
    #[arg(long)]
    pub(crate) whole: bool,
}
