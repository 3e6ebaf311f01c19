//! Arguments of `import`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A goose recipe (.yaml, .json), a Claude Code command (.md), a SKILL.md or a WORKFLOW.md
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The folder that takes the new files, in its prompts/ and workflows/
    #[arg(long, value_name = "DIR", default_value = ".drivetrain")]
    pub(crate) to: PathBuf,
}
