//! Where the agents that were tried depart from the protocol, by the name that they give themselves. Each row was seen
//! in a run of the version that it names.

use machine::agent::{AgentQuirks, AgentSupport};

use super::super::table::Version;

/// What is known of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The version that was tried.
    tried: Version,
    /// Whether it says what its models cost, in tokens and in money.
    pub(super) usage: bool,
    pub(super) cost: bool,
    pub(super) quirks: AgentQuirks,
}

impl Row {
    /// What a person is told of a version that was not tried.
    pub(super) fn remark(&self, version: &str) -> Option<String> {
        let what = match self.support(version) {
            AgentSupport::Older => "older",
            AgentSupport::Newer => "newer",
            AgentSupport::Tested | AgentSupport::Unknown => return None,
        };
        Some(format!("it is {what} than what was tried, which is {}", self.tried))
    }

    /// Whether this version is the one that was tried.
    pub(super) fn support(&self, version: &str) -> AgentSupport {
        match Version::find(version) {
            None => AgentSupport::Unknown,
            Some(version) if version < self.tried => AgentSupport::Older,
            Some(version) if version > self.tried => AgentSupport::Newer,
            Some(_) => AgentSupport::Tested,
        }
    }
}

/// The row of an agent that is known by its own name.
pub(super) fn of(agent: &str) -> Option<Row> {
    let row = |(a, b, c), costs: &[&str], modes: &[&str], words: &[&str]| {
        let asking_modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
        let mut quirks = AgentQuirks { asking_modes, ..AgentQuirks::default() };
        for word in words {
            quirks.set(word);
        }
        let (usage, cost) = (costs.contains(&"tokens"), costs.contains(&"dollars"));
        Some(Row { tried: Version(a, b, c), usage, cost, quirks })
    };
    let both = ["tokens", "dollars"];
    match agent {
        "@agentclientprotocol/claude-agent-acp" => {
            row((0, 99, 0), &both, &["default", "plan"], &[])
        }
        "@zed-industries/claude-agent-acp" => {
            let words = ["stale_after_cancel", "outlives_input"];
            row((0, 23, 1), &both, &["default", "plan"], &words)
        }
        // Begins in `agent`, whatever its configuration says.
        "@agentclientprotocol/codex-acp" => {
            row((2, 6, 0), &["tokens"], &["read-only"], &["hides_failures", "refusal_ends_turn"])
        }
        // The one of the same name that is older.
        "codex-acp" => {
            row((0, 16, 0), &[], &["read-only"], &["refusal_ends_turn", "outlives_input"])
        }
        // Asks as its configuration says, in every mode. Its tokens are those of the last call of a turn.
        "OpenCode" => row((1, 18, 33), &both, &["build", "plan"], &[]),
        "gemini-cli" => row((0, 61, 0), &["tokens"], &["default", "plan"], &["late_history"]),
        _ => None,
    }
}
