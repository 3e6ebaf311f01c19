//! Arguments about what a task did to files, and about its proof.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use machine::time::Span;

use super::{Limits, ScreenArgs, TrafficArgs};

/// Arguments of `receipt`.
#[derive(Debug, Args)]
pub(crate) struct ReceiptArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Write it into this new file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A receipt's file, or the id of a verified task
    pub(crate) receipt: String,

    /// Run the commands of a receipt that the journal here does not know, without being asked
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Begin at this checkpoint; the task's base if absent
    #[arg(long, value_name = "N")]
    pub(crate) from: Option<String>,

    /// End at this checkpoint; what the task comes to if absent
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<String>,

    /// Lines by file
    #[arg(long)]
    pub(crate) stat: bool,

    /// Names alone
    #[arg(long, conflicts_with = "stat")]
    pub(crate) name_only: bool,
}

/// Arguments of `rollback`.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// The checkpoint, by its number or the beginning of its name
    #[arg(long, value_name = "N")]
    pub(crate) to: String,

    /// Say what would change, and change nothing
    #[arg(long)]
    pub(crate) preview: bool,
}

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: String,

    /// Another branch than the one that is checked out; made if there is none
    #[arg(long, value_name = "BRANCH", conflicts_with = "no_commit")]
    pub(crate) onto: Option<String>,

    /// Make a commit; the default
    #[arg(long, conflicts_with = "no_commit")]
    pub(crate) commit: bool,

    /// Leave the changes in your files and index
    #[arg(long, conflicts_with_all = ["message", "hooks"])]
    pub(crate) no_commit: bool,

    /// The commit's message; the goal if absent
    #[arg(long, short, value_name = "MESSAGE")]
    pub(crate) message: Option<String>,

    /// Merge into a branch that has moved since the task began
    #[arg(long)]
    pub(crate) merge: bool,

    /// Leave uncommitted changes of yours as they are, if they are in other files
    #[arg(long)]
    pub(crate) beside_changes: bool,

    /// Have your own git make the commit, with hooks and signature
    #[arg(long, conflicts_with = "onto")]
    pub(crate) hooks: bool,

    /// Hand over what was not verified
    #[arg(long)]
    pub(crate) force_unverified: bool,

    /// Write the changes to a file as a patch, and touch nothing else; - prints it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["onto", "commit", "no_commit", "message", "merge", "hooks", "beside_changes"])]
    pub(crate) patch: Option<PathBuf>,
}

/// Arguments of `fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The old task's id, or the beginning of it
    pub(crate) id: String,

    /// The checkpoint to begin with, by its number or the beginning of its name
    #[arg(long, value_name = "N")]
    pub(crate) at: String,

    /// The state that changes are counted from: task (where the old task began) or here
    #[arg(long, value_name = "WHERE", value_parser = ["task", "here"])]
    pub(crate) base: Option<String>,

    /// What is to be achieved, in place of the old goal
    #[arg(long, value_name = "TEXT")]
    pub(crate) goal: Option<String>,

    /// Who decides, in place of the old driver
    #[arg(long, value_name = "NAME", conflicts_with = "workflow")]
    pub(crate) driver: Option<String>,

    /// Run this workflow, by name or path
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) workflow: Option<String>,

    /// Let this model decide
    #[arg(long, value_name = "PROVIDER/NAME", conflicts_with = "workflow")]
    pub(crate) model: Option<String>,

    /// Let this coding agent work: claude, codex, gemini, opencode or one of your own; --model is then its model
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workflow", "driver"])]
    pub(crate) agent: Option<String>,

    /// Let the agent work though its version is older than what was tried
    #[arg(long, requires = "agent")]
    pub(crate) any_version: bool,

    /// A command that must succeed, in place of the old criteria (repeatable)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Vec<String>,

    /// Let the project's own files count for this task, without trusting them for good
    #[arg(long)]
    pub(crate) trust: bool,

    #[command(flatten)]
    pub(crate) limits: Limits,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,

    #[command(flatten)]
    pub(crate) screen: ScreenArgs,
}

/// What `worktrees` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum WorktreesCmd {
    /// List them with their task, size, and whether they can go; the default
    List,
    /// Take away what loses nothing; everything else is named with the reason
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain worktrees clean --dry-run
  drivetrain worktrees clean --older-than 7d
  drivetrain worktrees clean 7k3 --checkpoints
      Also gives up the states that are kept of it, once its worktree is gone")]
    Clean(CleanArgs),
}

/// Arguments of `worktrees clean`.
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// The tasks; all if none is named
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// Only those of tasks in which nothing has happened for so long, such as 36h or 7d
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    pub(crate) older_than: Option<Span>,

    /// Say what would go, and take nothing away
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Take the checkpoints of these tasks away; their worktrees must be gone
    #[arg(long)]
    pub(crate) checkpoints: bool,
}
