//! What decides whether a task is done, as the command line says it.

use clap::Args;

/// Checks, in addition to those of a task file.
#[derive(Debug, Args, Default, Clone)]
pub(crate) struct CheckArgs {
    /// A command that must succeed before the task counts as done (repeatable); auto finds the project's own tests
    #[arg(long, value_name = "COMMAND|auto", help_heading = "Checks")]
    pub(crate) check: Vec<String>,

    /// Run every command this often: it must pass each time
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100),
        allow_negative_numbers = true,
        help_heading = "Checks"
    )]
    pub(crate) repeat: Option<u32>,

    /// Every command must fail on the files as they were before the task, and pass on those it hands over
    #[arg(long, help_heading = "Checks")]
    pub(crate) red_first: bool,

    /// Paths that must stay as they are, such as 'tests/**'; '!PATH' excepts some (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = "Checks")]
    pub(crate) protect: Vec<String>,

    /// Files that steer tests and builds must stay as they are: conftest.py, manifests, Makefiles, CI, …
    #[arg(long, help_heading = "Checks")]
    pub(crate) protect_framework: bool,

    /// A model that judges what was done by --rubric, once everything else has passed
    #[arg(long, value_name = "PROVIDER/NAME", requires = "rubric", help_heading = "Checks")]
    pub(crate) judge: Option<String>,

    /// What the judge judges by: text, or @FILE
    #[arg(long, value_name = "TEXT|@FILE", requires = "judge", help_heading = "Checks")]
    pub(crate) rubric: Option<String>,

    /// The judge's no fails the work; otherwise it is only told
    #[arg(long, requires = "judge", help_heading = "Checks")]
    pub(crate) judge_decides: bool,
}
