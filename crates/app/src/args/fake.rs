//! Arguments of the servers and agents that play a script.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What `fake` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum FakeCmd {
    /// Serve a scripted model on this machine, in every dialect, until Ctrl-C
    ///
    /// SCRIPT is a TOML list of replies and faults. Anthropic's messages, OpenAI's chat completions and responses,
    /// Google's generateContent and Mistral's chat (under /mistral) are served at one base URL, which is printed;
    /// all clients play the same script. GET /requests tells what was asked, without keys; POST /reset starts over.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain fake model script.toml
  drivetrain fake model script.toml --port 8089
  curl -s http://127.0.0.1:8089/requests | jq '.requests[].body.messages'")]
    Model(FakeModelArgs),
    /// Play a scripted coding agent on standard input and output, in the words of Claude Code
    ///
    /// For tests of what becomes of a task when its agent misbehaves: name it as the command of an agent's file with
    /// protocol = "claude". SCRIPT has one step a line: a line of JSON is said as it is; others are exit N, signal N,
    /// sleep SECONDS, ask COMMAND, run COMMAND, stderr 1GB, close stdout, deaf and more (docs/agents.md). A line
    /// "next prompt" begins what follows the next prompt, "resumed" what a process plays that was resumed.
    #[command(after_long_help = "\
EXAMPLES:
  drivetrain fake agent steps.txt --version
  printf '[agent]\\nname = \"odd\"\\nprotocol = \"claude\"\\ncommand = [\"drivetrain\", \"fake\", \"agent\", \"/tmp/steps.txt\"]\\n' > .drivetrain/agents/odd.toml")]
    Agent(FakeAgentArgs),
    /// Play a scripted coding agent on standard input and output, in the words of the Agent Client Protocol
    ///
    /// For tests of what an agent asks of drivetrain as its client: files, commands, permissions. Name it as the command of
    /// an agent's file. SCRIPT has one step a line, in JSON (docs/agents.md); answers are noted in answers.jsonl in the
    /// agent's home.
    #[command(after_long_help = "\
EXAMPLES:
  echo '{\"ask\":{\"method\":\"fs/read_text_file\",\"params\":{\"path\":\"$FOLDER/README.md\"}}}' > steps.jsonl
  printf '[agent]\\nname = \"asks\"\\ncommand = [\"drivetrain\", \"fake\", \"acp-agent\", \"steps.jsonl\"]\\n' > .drivetrain/agents/asks.toml")]
    AcpAgent(FakeAcpAgentArgs),
}

/// Arguments of `fake acp-agent`.
#[derive(Debug, Args)]
pub(crate) struct FakeAcpAgentArgs {
    /// The script
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: PathBuf,
}

/// Arguments of `fake agent`.
#[derive(Debug, Args)]
pub(crate) struct FakeAgentArgs {
    /// The script
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: PathBuf,

    /// What a coding agent is started with; --version and --resume are heeded
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// Arguments of `fake model`.
#[derive(Debug, Args)]
pub(crate) struct FakeModelArgs {
    /// The script
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: PathBuf,

    /// The port; 0 takes any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
}
