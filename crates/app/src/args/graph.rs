//! Arguments of `workflow graph`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `workflow graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The workflow: a name to look up, or a path
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// How it is drawn
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = GraphFormat::Text)]
    pub(crate) format: GraphFormat,

    /// Write it into a file instead of showing it
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// How a workflow is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// Lines for a terminal
    Text,
    /// A Mermaid flowchart, for a page
    Mermaid,
    /// A picture
    Svg,
}
