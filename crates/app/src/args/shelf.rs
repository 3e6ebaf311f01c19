//! Workflows, prompts and agents as files.

use clap::{Args, Subcommand};

use super::{CheckArgs, GraphArgs, Limits, PlaceArgs, ScreenArgs, TrafficArgs, WallArgs};

/// What `workflow` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCmd {
    /// List the workflows that can be used here, and where each comes from
    #[command(after_long_help = "EXAMPLES:\n  drivetrain workflow list\n  \
        drivetrain workflow list --json | jq -r '.items[].name'")]
    List,
    /// Print a workflow, where each part of it comes from, and what it takes the place of
    #[command(after_long_help = "EXAMPLES:\n  drivetrain workflow show validate-fix\n  \
        drivetrain workflow show fix-issue --json | jq .inputs")]
    Show(ShelfArgs),
    /// Read every workflow strictly, and name all mistakes of all files; ends with 2 if there are any
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain workflow check\n  drivetrain workflow check fix-issue\n  \
        drivetrain workflow check draft.toml --json | jq '.errors[].message'"
    )]
    Check(NamesArgs),
    /// Run a workflow as a task, in the foreground
    ///
    /// Its inputs are given as NAME=VALUE and read by their declared type: lists and tables as JSON. What `run` takes, this
    /// takes too.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain workflow run validate-fix
  drivetrain workflow run fix-issue --input issue='the parser drops the last line' --check 'cargo test'
  drivetrain workflow run review --input 'files=[\"src/lib.rs\"]' --json | tail -1 | jq .outputs")]
    Run(WorkflowRunArgs),
    /// Draw the steps or states of a workflow
    #[command(after_long_help = "EXAMPLES:\n  drivetrain workflow graph validate-fix\n  \
        drivetrain workflow graph fix-issue --format mermaid\n  \
        drivetrain workflow graph fix-issue --format svg -o fix-issue.svg")]
    Graph(GraphArgs),
    /// Write a commented workflow to begin with; nothing is overwritten
    #[command(after_long_help = "EXAMPLES:\n  drivetrain workflow new nightly\n  \
        drivetrain workflow new nightly --user")]
    New(NewArgs),
}

/// What `prompt` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum PromptCmd {
    /// List the prompts that can be used here, and where each comes from
    #[command(after_long_help = "EXAMPLES:\n  drivetrain prompt list")]
    List,
    /// Print a prompt, where it comes from, and what it takes the place of
    #[command(after_long_help = "EXAMPLES:\n  drivetrain prompt show terse\n  \
        drivetrain prompt show terse --json | jq -r .sha256")]
    Show(ShelfArgs),
    /// Read every prompt strictly, and name all mistakes of all files; ends with 2 if there are any
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain prompt check\n  drivetrain prompt check house-rules"
    )]
    Check(NamesArgs),
    /// Write a commented prompt to begin with; nothing is overwritten
    #[command(after_long_help = "EXAMPLES:\n  drivetrain prompt new house-rules")]
    New(NewArgs),
}

/// What `agent` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentCmd {
    /// List the agents that can be used here, and where each comes from
    #[command(after_long_help = "EXAMPLES:\n  drivetrain agent list")]
    List,
    /// Print an agent, where each part of it comes from, and what it takes the place of
    #[command(after_long_help = "EXAMPLES:\n  drivetrain agent show careful")]
    Show(ShelfArgs),
    /// Read every agent's file strictly, and name all mistakes of all files; ends with 2 if there are any
    #[command(
        after_long_help = "EXAMPLES:\n  drivetrain agent check\n  drivetrain agent check careful"
    )]
    Check(NamesArgs),
    /// Let an agent work on a goal, in the foreground
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain agent run careful 'mend the parser' --check 'cargo test'
  drivetrain agent run claude 'tidy the notes' --max-time 20m")]
    Run(AgentRunArgs),
    /// Write a commented agent to begin with; nothing is overwritten
    #[command(after_long_help = "EXAMPLES:\n  drivetrain agent new careful")]
    New(NewArgs),
}

/// One of them.
#[derive(Debug, Args)]
pub(crate) struct ShelfArgs {
    /// Its name
    pub(crate) name: String,
}

/// Some of them.
#[derive(Debug, Args)]
pub(crate) struct NamesArgs {
    /// Names, or paths of files; all that there are if left out
    #[arg(value_name = "NAME|PATH")]
    pub(crate) names: Vec<String>,
}

/// A new one.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Its name
    pub(crate) name: String,

    /// Write it into your own folder, for all projects
    #[arg(long)]
    pub(crate) user: bool,
}

/// Arguments of `workflow run`.
#[derive(Debug, Args)]
pub(crate) struct WorkflowRunArgs {
    /// The workflow, by name or path
    #[arg(value_name = "NAME|PATH")]
    pub(crate) name: String,

    /// A value for one of its inputs (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) input: Vec<String>,

    /// What is to be achieved, in words; else what the workflow says of itself
    #[arg(long, value_name = "TEXT")]
    pub(crate) goal: Option<String>,

    /// The model of steps that name none, where [workflow.llm] names none either
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) with: WorkArgs,
}

/// Arguments of `agent run`.
#[derive(Debug, Args)]
pub(crate) struct AgentRunArgs {
    /// The agent
    pub(crate) name: String,

    /// What is to be achieved, in words
    pub(crate) goal: String,

    /// A value for one of the inputs of its workflow (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) input: Vec<String>,

    #[command(flatten)]
    pub(crate) with: WorkArgs,
}

/// What every task takes.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    pub(crate) check: CheckArgs,

    #[command(flatten)]
    pub(crate) limits: Limits,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) walls: WallArgs,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,

    #[command(flatten)]
    pub(crate) screen: ScreenArgs,
}
