//! Arguments of `queue`.

use clap::{Args, Subcommand};

use super::TaskArgs;

/// What `queue` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCmd {
    /// Put verified tasks into the queue, in the order they are named
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain queue add 7k3
      For the branch that is checked out now
  drivetrain queue add 7k3 9f2 --onto release
  drivetrain queue add 7k3 --front")]
    Add(QueueAddArgs),

    /// List what waits and what became of the others
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain queue list\n  drivetrain queue list --json | jq '.entries[].stage'"
    )]
    List,

    /// Say how one task stands in the queue, or who works on it
    #[command(after_long_help = "EXAMPLES:\n  drivetrain queue show\n  drivetrain queue show 7k3")]
    Show {
        /// The task's id, or the beginning of it
        id: Option<String>,
    },

    /// Integrate what waits, one task after the other
    ///
    /// Ends with 0 if everything that was taken is in its branch, with 10 if a task was reopened or cannot be integrated,
    /// with 13 if something waits for you, such as a checkout with changes of your own. Ctrl-C lets the task at hand
    /// end; a second one stops at once. Stopped or killed at any moment, a task is in its branch or still in the queue.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain queue run
  drivetrain queue run --once
  drivetrain queue run --watch
      Goes on with whatever is added, until Ctrl-C")]
    Run(QueueRunArgs),

    /// Take a task that waits out of the queue
    #[command(after_long_help = "EXAMPLES:\n  drivetrain queue drop 7k3")]
    Drop(TaskArgs),
}

/// Arguments of `queue add`.
#[derive(Debug, Args)]
pub(crate) struct QueueAddArgs {
    /// The tasks' ids, or the beginnings of them
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,

    /// The branch; the one that is checked out in the task's repository if absent
    #[arg(long, value_name = "BRANCH")]
    pub(crate) onto: Option<String>,

    /// Before all others that wait
    #[arg(long)]
    pub(crate) front: bool,
}

/// Arguments of `queue run`.
#[derive(Debug, Args)]
pub(crate) struct QueueRunArgs {
    /// Take one task, then end
    #[arg(long, conflicts_with = "watch")]
    pub(crate) once: bool,

    /// Wait for more until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,
}
