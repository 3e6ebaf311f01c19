//! Arguments of commands that drive a task: run, chat, resume.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{CheckArgs, Limits, WallArgs, WorkArgs};

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A task file (.toml, .yaml, .yml), or the goal in words
    #[arg(value_name = "TASK")]
    pub(crate) task: String,

    /// Who decides: user, workflow, state_machine, external:NAME, …
    #[arg(long, value_name = "NAME", conflicts_with = "workflow")]
    pub(crate) driver: Option<String>,

    /// Run this workflow, by name or path
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) workflow: Option<String>,

    /// Let this model decide; script/FILE plays a script, without a network or a key. With --workflow: the model of steps
    /// that name none, where [workflow.llm] names none either
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,

    /// Let this coding agent work: claude, codex, gemini, opencode or one of your own; --model is then its model
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workflow", "driver"])]
    pub(crate) agent: Option<String>,

    /// Ask the agent's models in its place, so that it never has the key; usual where it uses one
    #[arg(long, requires = "agent", overrides_with = "no_gateway")]
    pub(crate) gateway: bool,

    /// Give the agent its key and let it ask its models by itself
    #[arg(long, requires = "agent", overrides_with = "gateway")]
    pub(crate) no_gateway: bool,

    /// Let the agent work though its version is older than what was tried
    #[arg(long, requires = "agent")]
    pub(crate) any_version: bool,

    #[command(flatten)]
    pub(crate) with: WorkArgs,
}

/// Arguments of `chat`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).multiple(true).args(["model", "resume"])))]
pub(crate) struct ChatArgs {
    /// What is said first; asked for if it is left out
    #[arg(value_name = "TEXT", conflicts_with = "resume")]
    pub(crate) text: Option<String>,

    /// The model to talk to; script/FILE plays a script, without a network or a key
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,

    /// Go on with this chat; --model hands it to another model
    #[arg(long, value_name = "ID", conflicts_with_all = ["CheckArgs", "max_steps", "Limits", "PlaceArgs", "WallArgs"])]
    pub(crate) resume: Option<String>,

    #[command(flatten)]
    pub(crate) check: CheckArgs,

    /// How often the model may be asked between two of your lines; 10 if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(crate) max_steps: Option<u64>,

    #[command(flatten)]
    pub(crate) limits: Limits,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) walls: WallArgs,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Where a task works, and what it may do there.
#[derive(Debug, Clone, Args, Default)]
pub(crate) struct PlaceArgs {
    /// What it may do where no rule says anything: read-only, dev or open; in place of what policy files name
    #[arg(long, value_name = "NAME", help_heading = "Permissions")]
    pub(crate) profile: Option<String>,

    /// Work in the folder itself: there is no way back, and checks run where the worker works
    #[arg(long, conflicts_with_all = ["no_workspace", "worktree"], help_heading = "Workspace")]
    pub(crate) in_place: bool,

    /// Work in no folder: tools that need one are refused, and nothing can be checked
    #[arg(long, conflicts_with = "worktree", help_heading = "Workspace")]
    pub(crate) no_workspace: bool,

    /// Work in a git worktree of its own; the default in a repository
    #[arg(long, help_heading = "Workspace")]
    pub(crate) worktree: bool,

    /// Let the project's own files count for this task, without trusting them for good
    #[arg(long, help_heading = "Workspace")]
    pub(crate) trust: bool,
}

/// Where the answers of models come from.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrafficArgs {
    /// Write every exchange with a model's server into this folder, without keys
    #[arg(long, value_name = "DIR", help_heading = "Model traffic")]
    pub(crate) record: Option<PathBuf>,

    /// Answer from what was recorded in this folder: no network, no key
    #[arg(long, value_name = "DIR", conflicts_with = "record", help_heading = "Model traffic")]
    pub(crate) replay: Option<PathBuf>,
}

/// How a task is watched.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScreenArgs {
    /// Ask nobody: what a person would have to decide is refused or waits, as the policy says
    #[arg(long)]
    pub(crate) unattended: bool,

    /// Print only the end
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// With --json: print what models say, piece by piece, between the events
    #[arg(long)]
    pub(crate) stream: bool,
}

/// Arguments of `resume`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["id", "all"])))]
pub(crate) struct ResumeArgs {
    /// The task's id, or the beginning of it
    pub(crate) id: Option<String>,

    /// Every open task that no process drives and that does not wait for a person
    #[arg(long)]
    pub(crate) all: bool,

    /// Go on although a program of the project has changed since
    #[arg(long)]
    pub(crate) trust: bool,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,

    #[command(flatten)]
    pub(crate) screen: ScreenArgs,
}
