//! Which agents there are adapters for, which of their versions were tried, and what each version can do. A version
//! outside the range is not refused here: it is reported, and whoever starts the agent decides.

use std::fmt;

use machine::agent::{AgentAbilities, AgentProtocol, AgentSupport};

/// An agent whose releases are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownAgent {
    /// The word for it on command lines and in tasks.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// The name of its executable.
    pub command: &'static str,
    /// Its package for Node.js.
    pub package: &'static str,
    /// What makes the executable print its version.
    pub version_arguments: &'static [&'static str],
    /// The oldest and the newest version that the tests ran with.
    pub tested: (Version, Version),
    /// What changed for us from version to version, oldest first. The first holds for all before it too.
    pub releases: &'static [Release],
}

/// What can be done with an agent from one version on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The first version of which this holds.
    pub since: Version,
    /// What can be done with it.
    pub can: AgentAbilities,
    /// What it lacks and what is done about it; one sentence each.
    pub limits: &'static [&'static str],
}

/// Three numbers, as agents count their releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32, pub u32, pub u32);

/// Every agent that needs no file. Others that speak the Agent Client Protocol are in no table: they say themselves what
/// they can do.
pub const PROGRAMS: &[KnownAgent] = &[CLAUDE, CODEX, GEMINI, OPENCODE];

/// Claude Code, over stream-json and its control protocol.
pub const CLAUDE: KnownAgent = KnownAgent {
    name: "claude",
    title: "Claude Code",
    command: "claude",
    package: "@anthropic-ai/claude-code",
    version_arguments: &["--version"],
    tested: (Version(2, 1, 112), Version(2, 1, 325)),
    releases: &[
        Release {
            since: Version(2, 1, 112),
            can: CLAUDE_CAN,
            limits: &[
                "a tool runs if the hook before it fails, so every call is asked about a second time, where it does not",
                "turns do not name the prompts that they answer",
            ],
        },
        Release { since: Version(2, 1, 325), can: CLAUDE_CAN, limits: &[] },
    ],
};

const CLAUDE_CAN: AgentAbilities = AgentProtocol::Claude.can();

/// Codex, over `codex app-server`.
pub const CODEX: KnownAgent = KnownAgent {
    name: "codex",
    title: "Codex",
    command: "codex",
    package: "@openai/codex",
    version_arguments: &["--version"],
    tested: (Version(0, 166, 0), Version(0, 166, 0)),
    releases: &[Release {
        since: Version(0, 166, 0),
        can: AgentProtocol::Codex.can(),
        limits: &[
            "commands that it knows only to read are not asked about: only walls hold those",
            "a helper hears of a refusal without its reason",
            "a summary cannot be told what to keep",
        ],
    }],
};

/// Gemini CLI, over the Agent Client Protocol.
pub const GEMINI: KnownAgent = KnownAgent {
    name: "gemini",
    title: "Gemini CLI",
    command: "gemini",
    package: "@google/gemini-cli",
    version_arguments: &["--version"],
    tested: (Version(0, 61, 0), Version(0, 61, 0)),
    releases: &[Release {
        since: Version(0, 61, 0),
        can: AgentAbilities { resume: true, usage: true, ..AgentProtocol::Acp.can() },
        limits: &[
            "a refusal cannot give its reason",
            "it cannot be steered",
            "a conversation with tools in it, or begun within this minute, cannot be resumed: the next one begins afresh",
        ],
    }],
};

/// OpenCode, over the Agent Client Protocol.
pub const OPENCODE: KnownAgent = KnownAgent {
    name: "opencode",
    title: "OpenCode",
    command: "opencode",
    package: "opencode-ai",
    version_arguments: &["--version"],
    tested: (Version(1, 18, 33), Version(1, 18, 33)),
    releases: &[Release {
        since: Version(1, 18, 33),
        can: AgentAbilities { resume: true, usage: true, cost: true, ..AgentProtocol::Acp.can() },
        limits: &[
            "a refusal cannot give its reason",
            "it cannot be steered",
            "its tokens are those of the last call of a turn",
        ],
    }],
};

/// The agent with this name.
pub fn program(name: &str) -> Option<&'static KnownAgent> {
    PROGRAMS.iter().find(|program| program.name == name)
}

/// The program that a protocol is spoken by, where only one speaks it. Agents of the Agent Client Protocol say themselves what
/// they can do, whatever their version.
pub fn speaker(protocol: AgentProtocol) -> Option<&'static KnownAgent> {
    match protocol {
        AgentProtocol::Claude => Some(&CLAUDE),
        AgentProtocol::Codex => Some(&CODEX),
        AgentProtocol::Acp => None,
    }
}

impl KnownAgent {
    /// The command that installs the newest version that was tried.
    pub fn install(&self) -> String {
        format!("npm install -g {}@{}", self.package, self.tested.1)
    }

    /// Whether this version was tried; it may stand anywhere in what the program prints of itself.
    pub fn support(&self, version: &str) -> AgentSupport {
        let (oldest, newest) = self.tested;
        match Version::find(version) {
            None => AgentSupport::Unknown,
            Some(version) if version < oldest => AgentSupport::Older,
            Some(version) if version > newest => AgentSupport::Newer,
            Some(_) => AgentSupport::Tested,
        }
    }

    /// What this version can do and what it lacks. One that cannot be told counts as the oldest: what is promised for
    /// it holds for all.
    pub fn release(&self, version: &str) -> &'static Release {
        let version = Version::find(version).unwrap_or(self.tested.0);
        let known = self.releases.iter().rev().find(|release| release.since <= version);
        known.unwrap_or(&self.releases[0])
    }

    /// Why this version is not driven, if it is not. Every word that is exchanged with these programs is one of their
    /// versions, so what an older one makes of it, and whether it asks at all, nobody knows. One that does not say its
    /// version is held as strictly as the oldest that was tried.
    pub fn refusal(&self, version: &str) -> Option<String> {
        let oldest = self.tested.0;
        let found = Version::find(version).filter(|found| *found < oldest)?;
        Some(format!(
            "{} {found} is older than what can be held: expected is {oldest} or newer ({})",
            self.title,
            self.tried()
        ))
    }

    /// What a person is told of a version that was not tried.
    pub fn warning(&self, version: &str) -> Option<String> {
        let what = match self.support(version) {
            AgentSupport::Tested => return None,
            AgentSupport::Unknown => format!("does not say its version ({version:?})"),
            AgentSupport::Older => format!("{version} is older than what was tried"),
            AgentSupport::Newer => format!("{version} is newer than what was tried"),
        };
        Some(format!("{} {what}; {}", self.title, self.tried()))
    }

    /// The versions that were tried, in words.
    fn tried(&self) -> String {
        match self.tested {
            (oldest, newest) if oldest == newest => format!("tried is {oldest}"),
            (oldest, newest) => format!("tried are {oldest} to {newest}"),
        }
    }
}

impl Version {
    /// The first version in a text, such as in `2.1.112 (Claude Code)` or `codex-cli 0.166.0`.
    pub fn find(text: &str) -> Option<Version> {
        let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
        words.into_iter().find_map(|word| {
            let mut numbers = word.split('.').map(|number| number.parse::<u32>().ok());
            Some(Version(numbers.next()??, numbers.next()??, numbers.next()??))
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        assert_eq!(Version::find("2.1.112 (Claude Code)"), Some(Version(2, 1, 112)));
        assert_eq!(Version::find("codex-cli 0.166.0"), Some(Version(0, 166, 0)));
        assert_eq!(Version::find("v1.2.3-rc.4"), Some(Version(1, 2, 3)));
        assert_eq!(Version::find("two point one"), None);
        assert_eq!(Version::find("99999999999.0.0"), None);
    }

    #[test]
    fn a_version_outside_what_was_tried_is_reported() {
        assert_eq!(CLAUDE.support("2.1.111"), AgentSupport::Older);
        assert_eq!(CLAUDE.support("2.1.112 (Claude Code)"), AgentSupport::Tested);
        assert_eq!(CLAUDE.support("2.1.326"), AgentSupport::Newer);
        assert_eq!(CLAUDE.support(""), AgentSupport::Unknown);
        assert_eq!(CLAUDE.warning("2.1.200"), None);
        let warning = CLAUDE.warning("3.0.0").unwrap_or_default();
        assert_eq!(
            warning,
            "Claude Code 3.0.0 is newer than what was tried; tried are 2.1.112 to 2.1.325"
        );
    }

    #[test]
    fn a_version_that_is_too_old_is_refused_and_none_that_was_tried_or_is_not_known() {
        let refusal = CLAUDE.refusal("1.0.3 (Claude Code)").unwrap_or_default();
        assert_eq!(
            refusal,
            "Claude Code 1.0.3 is older than what can be held: expected is 2.1.112 or newer (tried are 2.1.112 to 2.1.325)"
        );
        assert_eq!(
            CODEX.refusal("codex-cli 0.20.0").unwrap(),
            "Codex 0.20.0 is older than what can be held: expected is 0.166.0 or newer (tried is 0.166.0)"
        );
        assert!(CODEX.refusal("codex-cli 0.100.0").is_some());
        for version in ["2.1.112 (Claude Code)", "2.1.325", "3.0.0", "", "nightly"] {
            assert_eq!(CLAUDE.refusal(version), None, "{version}");
        }
        assert_eq!(CODEX.refusal("codex-cli 0.166.0"), None);
        assert!(speaker(AgentProtocol::Acp).is_none(), "it says itself what it can do");
    }

    #[test]
    fn what_can_be_resumed_only_in_part_says_so() {
        let gemini = GEMINI.release("0.61.0");
        assert!(gemini.can.resume);
        assert!(gemini.limits.iter().any(|limit| limit.contains("cannot be resumed")));
    }

    #[test]
    fn the_table_is_in_order_and_a_version_that_cannot_be_told_counts_as_the_oldest() {
        for program in PROGRAMS {
            assert!(program.releases.is_sorted_by_key(|release| release.since), "{}", program.name);
            assert!(program.tested.0 <= program.tested.1, "{}", program.name);
            assert_eq!(program.release("?"), &program.releases[0], "{}", program.name);
        }
        assert!(!CLAUDE.release("2.1.324").limits.is_empty());
        assert!(CLAUDE.release("2.1.325").limits.is_empty());
        assert_eq!(CLAUDE.release("1.0.0"), CLAUDE.release("2.1.112"));
    }
}
