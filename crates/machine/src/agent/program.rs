//! The agents that need no file, and where agents depart from their protocol, as data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AgentProgram, AgentProtocol};

/// Where an agent departs from the Agent Client Protocol, or what the protocol does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentQuirks {
    /// The modes in which it asks before it acts, the one to put it into first. If there are any, it is only used in
    /// one of them, or in the one that its file names.
    #[serde(default)]
    pub asking_modes: Vec<String>,
    /// The prompt after a cancelled one is answered with the end of the cancelled one: nothing was done.
    #[serde(default)]
    pub stale_after_cancel: bool,
    /// A turn that failed ends as if all were well, with the error as its text.
    #[serde(default)]
    pub hides_failures: bool,
    /// What was said before goes on coming after a conversation was loaded.
    #[serde(default)]
    pub late_history: bool,
    /// It goes on when its input ends, and must be killed.
    #[serde(default)]
    pub outlives_input: bool,
    /// A refused call ends its turn as if it had been cancelled.
    #[serde(default)]
    pub refusal_ends_turn: bool,
    /// It takes a file that is not there for a failure when its client reads for it, so it is not offered that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_itself: bool,
}

impl AgentQuirks {
    /// The words for what is either so or not.
    pub const WORDS: [&'static str; 6] = [
        "stale_after_cancel",
        "hides_failures",
        "late_history",
        "outlives_input",
        "refusal_ends_turn",
        "reads_itself",
    ];

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == AgentQuirks::default()
    }

    /// Notes one of [`AgentQuirks::WORDS`]; false if it is none.
    pub fn set(&mut self, word: &str) -> bool {
        let is = match word {
            "stale_after_cancel" => &mut self.stale_after_cancel,
            "hides_failures" => &mut self.hides_failures,
            "late_history" => &mut self.late_history,
            "outlives_input" => &mut self.outlives_input,
            "refusal_ends_turn" => &mut self.refusal_ends_turn,
            "reads_itself" => &mut self.reads_itself,
            _ => return false,
        };
        *is = true;
        true
    }
}

impl AgentProgram {
    /// The names of the agents that need no file.
    pub const BUILT_IN: [&'static str; 4] = ["claude", "codex", "gemini", "opencode"];

    /// An agent that needs no file.
    pub fn built_in(name: &str) -> Option<AgentProgram> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let program = |protocol, command: &[&str], keys: &[&str], hosts: &[&str]| AgentProgram {
            name: name.to_owned(),
            protocol,
            command: owned(command),
            pass: Vec::new(),
            keys: owned(keys),
            hosts: owned(hosts),
            mode: None,
            model: None,
            model_flag: None,
            env: BTreeMap::new(),
            quirks: AgentQuirks::default(),
            operator: String::new(),
            idle: None,
            gateway: None,
            any_version: false,
        };
        let set = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        Some(match name {
            "claude" => {
                let hosts = ["api.anthropic.com"];
                AgentProgram {
                    pass: owned(&["ANTHROPIC_BASE_URL"]),
                    ..program(AgentProtocol::Claude, &["claude"], &["ANTHROPIC_API_KEY"], &hosts)
                }
            }
            "codex" => {
                let hosts = ["api.openai.com"];
                program(AgentProtocol::Codex, &["codex"], &["OPENAI_API_KEY"], &hosts)
            }
            // Its own choice of a model first asks another model which one to take. Left alone it starts itself a second time
            // for more memory than node gives it, which takes a second and keeps two processes.
            "gemini" => AgentProgram {
                model_flag: Some("-m".to_owned()),
                model: Some("gemini-2.5-pro".to_owned()),
                env: set(&[("GEMINI_CLI_NO_RELAUNCH", "true")]),
                ..program(
                    AgentProtocol::Acp,
                    &["gemini", "--acp"],
                    &["GEMINI_API_KEY"],
                    &["generativelanguage.googleapis.com"],
                )
            },
            // Without this configuration it asks about nothing, and without a model one of its maker's own service. What its
            // helpers would ask never comes to its client, and they wait for the answer for ever: it has none.
            "opencode" => AgentProgram {
                model: Some("anthropic/claude-sonnet-4-5".to_owned()),
                env: set(&[
                    (
                        "OPENCODE_CONFIG_CONTENT",
                        r#"{"autoupdate":false,"share":"disabled","permission":{"edit":"ask","bash":"ask","webfetch":"ask","task":"deny"}}"#,
                    ),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
                    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                    ("OPENCODE_DISABLE_SHARE", "1"),
                ]),
                ..program(
                    AgentProtocol::Acp,
                    &["opencode", "acp"],
                    &["ANTHROPIC_API_KEY"],
                    &["api.anthropic.com"],
                )
            },
            _ => return None,
        })
    }

    /// The program and arguments of its own, with the model where that belongs there.
    pub fn command_line(&self, model: Option<&str>) -> Vec<String> {
        let mut words = self.command.clone();
        if let (Some(flag), Some(model)) = (&self.model_flag, model.or(self.model.as_deref())) {
            words.extend([flag.clone(), model.to_owned()]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_agent_is_there_under_its_name() {
        for name in AgentProgram::BUILT_IN {
            let program = AgentProgram::built_in(name).unwrap();
            assert_eq!(program.name, name);
            let text = serde_json::to_string(&program).unwrap();
            assert_eq!(serde_json::from_str::<AgentProgram>(&text).unwrap(), program);
        }
        assert_eq!(AgentProgram::built_in("nobody"), None);
    }

    #[test]
    fn the_model_is_on_the_command_line_only_where_a_flag_says_so() {
        let gemini = AgentProgram::built_in("gemini").unwrap();
        assert_eq!(gemini.command_line(None), ["gemini", "--acp", "-m", "gemini-2.5-pro"]);
        assert_eq!(gemini.command_line(Some("x")), ["gemini", "--acp", "-m", "x"]);
        let codex = AgentProgram::built_in("codex").unwrap();
        assert_eq!(codex.command_line(Some("x")), ["codex"]);
    }

    #[test]
    fn every_word_for_a_quirk_is_taken() {
        for word in AgentQuirks::WORDS {
            let mut quirks = AgentQuirks::default();
            assert!(quirks.set(word));
            assert_ne!(quirks, AgentQuirks::default(), "{word}");
        }
        assert!(!AgentQuirks::default().set("unheard"));
    }
}
