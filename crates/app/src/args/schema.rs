//! The arguments of `drivetrain schema`.

use std::path::PathBuf;

use clap::Args;

/// Which schema, and where to.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The kind of file; `drivetrain schema` lists them
    pub(crate) kind: Option<String>,

    /// Write the schemas of all kinds as files; needs --to
    #[arg(long, requires = "to", conflicts_with = "kind")]
    pub(crate) all: bool,

    /// The folder that they are written into; it is made if it is not there
    #[arg(long, value_name = "DIR", requires = "all")]
    pub(crate) to: Option<PathBuf>,
}
