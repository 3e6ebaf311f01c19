//! Arguments about what is allowed: policy, sandbox, trust.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What `policy` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCmd {
    /// Load every policy file, and say what was found or what is wrong
    Check,
    /// Say what would become of a call of a worker, which rule decides, and what each part of it is worth
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain policy explain 'git push --force'
  drivetrain policy explain 'cat notes | sh' --unattended
  drivetrain policy explain --tool write --input '{\"path\": \".git/config\", \"content\": \"\"}'")]
    Explain(ExplainArgs),
    /// Try every example of every rule: one line each, the sum last; ends with 2 if one differs
    Test,
}

/// Arguments of `policy explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A command line, as a worker would write it
    #[arg(value_name = "LINE", conflicts_with = "input")]
    pub(crate) line: Option<String>,

    /// Another tool than shell
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,

    /// The tool's parameters
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,

    /// The task's driver
    #[arg(long, value_name = "NAME", default_value = "llm")]
    pub(crate) driver: String,

    /// As if nobody were there to be asked
    #[arg(long)]
    pub(crate) unattended: bool,

    /// Under this profile: read-only, dev or open
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

/// What `sandbox` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCmd {
    /// Run a command in this folder as a task would: same walls, this terminal
    ///
    /// Ends with the command's exit code; 125 if the sandbox itself fails, 20 if it cannot be had on this machine.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain sandbox run -- cargo test
  drivetrain sandbox run --network open -- npm install
  drivetrain sandbox run --read ~/models --write /srv/out -- make
  drivetrain sandbox run --level reduced -- sh")]
    Run(SandboxRunArgs),
    /// Print what a command in this folder would see, in the order it is laid out
    Show(SandboxProfile),
}

/// What a sandbox is tried with.
#[derive(Debug, Args)]
pub(crate) struct SandboxProfile {
    /// none, loopback, open, or hosts separated by commas
    #[arg(long, value_name = "NETWORK", default_value = "none")]
    pub(crate) network: String,

    /// A path that can be read beside what everybody can (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<String>,

    /// A path that can be written beside this folder (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<String>,

    /// How strong: full or reduced
    #[arg(long, value_name = "LEVEL", value_parser = ["full", "reduced"], default_value = "full")]
    pub(crate) level: String,
}

/// Arguments of `sandbox run`.
#[derive(Debug, Args)]
pub(crate) struct SandboxRunArgs {
    #[command(flatten)]
    pub(crate) profile: SandboxProfile,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// The walls around what a task starts.
#[derive(Debug, Clone, Args, Default)]
pub(crate) struct WallArgs {
    /// How strong: full, or reduced where the system has no namespaces
    #[arg(long, value_name = "LEVEL", value_parser = ["full", "reduced"], help_heading = "Sandbox")]
    pub(crate) sandbox: Option<String>,

    /// Run without a sandbox: commands can do all that you can; every summary says so
    #[arg(long, conflicts_with = "sandbox", help_heading = "Sandbox")]
    pub(crate) no_sandbox: bool,
}

/// Arguments of `trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The project's folder; this one if absent
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,

    /// Only show the files and how they stand
    #[arg(long, visible_alias = "list", conflicts_with_all = ["revoke", "yes"])]
    pub(crate) show: bool,

    /// Take all trust in the folder back
    #[arg(long, conflicts_with = "yes")]
    pub(crate) revoke: bool,

    /// Trust the files as they are without being asked
    #[arg(long)]
    pub(crate) yes: bool,

    /// Only this file (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with = "revoke")]
    pub(crate) only: Vec<PathBuf>,
}
