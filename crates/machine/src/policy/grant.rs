//! How far a person's yes reaches: this once, the rest of the task, or the project.
//!
//! A grant only ever answers a question that would otherwise be asked. It never passes what a rule denies.

use serde::{Deserialize, Serialize};

use crate::id::CallId;
use crate::policy::call_hash::CallHash;
use crate::policy::permission::{Author, CommandPattern, Decide, Policy, Question, Rule, judge};
use crate::server::ToolOffer;

/// The most grants that a task keeps; the oldest go first.
pub const MOST_GRANTS: usize = 256;

/// How far an approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This call only.
    #[default]
    Once,
    /// The same call again in this task, or what is like it, if a pattern was said.
    Task,
    /// As for the task; whoever asks for it also writes a rule into the project's policy.
    Project,
}

impl Scope {
    /// Whether it is for this call only.
    pub fn is_once(&self) -> bool {
        *self == Scope::Once
    }
}

/// What a person let pass for the rest of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The call at which it was said.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The exact call.
    pub hash: CallHash,
    /// Commands of the shell that are let pass as well, such as `git push *`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// What the tool's server said of its parameters at the time; none for a built-in tool. A tool that has changed
    /// is another tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<CallHash>,
}

impl Grant {
    /// Whether it is about this very call.
    pub fn is_for(&self, tool: &str, hash: CallHash, offer: Option<&ToolOffer>) -> bool {
        self.tool == tool && self.hash == hash && self.schema == offer.map(schema_hash)
    }
}

/// The hash of what a server says of a tool.
pub fn schema_hash(offer: &ToolOffer) -> CallHash {
    CallHash::of(&offer.tool, &offer.schema)
}

/// Whether a call of `shell` that the policy asks about passes with these patterns: as if each were a rule before all
/// others. A rule that asks about the whole tool is answered by them if they cover every command of the line.
///
/// The caller makes sure that the policy asks: what it denies is not looked at here.
pub fn is_like(policy: &Policy, question: &Question<'_>, patterns: &[&str]) -> bool {
    let as_rule = |pattern: &&str| Rule {
        tool: "shell".to_owned(),
        command: vec![CommandPattern::from(*pattern)],
        decide: Decide::Allow,
        ..Rule::default()
    };
    let said: Vec<Rule> = patterns.iter().filter(|like| is_pattern(like)).map(as_rule).collect();
    if question.tool != "shell" || said.is_empty() {
        return false;
    }
    let allows =
        |policy: &Policy, question: &Question<'_>| judge(policy, question).decide == Decide::Allow;
    let before = |keeps: fn(&Rule) -> bool| {
        let kept = policy.rules.iter().filter(|rule| keeps(rule));
        Policy { rules: said.iter().chain(kept).cloned().collect(), ..policy.clone() }
    };
    if allows(&before(|_| true), question) {
        return true;
    }
    let alone = Policy { rules: said.clone(), ..Policy::default() };
    let narrower = before(|rule| !(rule.is_bare() && rule.decide == Decide::Ask));
    allows(&alone, &Question { author: Author::Worker, ..*question }) && allows(&narrower, question)
}

/// Whether it names a program.
pub fn is_pattern(like: &str) -> bool {
    like.split_whitespace().next().is_some_and(|program| !program.contains('*'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::permission::Profile;
    use crate::tool::EffectClass;

    fn check(policy: &Policy, pattern: &str, command: &str) -> bool {
        let question = Question {
            tool: "shell",
            input: &json!({ "command": command }),
            class: EffectClass::Unsafe,
            author: Author::Worker,
            driver: "llm",
            within: &[],
            attended: true,
            workspace: Some("/w"),
            sandboxed: true,
        };
        is_like(policy, &question, &[pattern])
    }

    #[test]
    fn a_pattern_is_matched_as_a_rule_would_be() {
        let policy = Policy { profile: Some(Profile::Dev), ..Policy::default() };
        assert!(check(&policy, "git push *", "git push origin main"));
        assert!(check(&policy, "git push", "cd below && git push"), "the profile allows the rest");
        for other in [
            "git pull",
            "git push origin; curl example.org",
            "sudo git push origin",
            "git -c core.sshCommand=x push origin",
            "git push origin > .git/config",
        ] {
            assert!(!check(&policy, "git push *", other), "{other}");
        }
        assert!(!check(&policy, "cat *", "cat ~/.ssh/id_rsa"), "secrets need a rule of their own");
        for pattern in ["", " ", "*", "* push"] {
            assert!(!check(&policy, pattern, "git push origin"), "{pattern:?}");
        }
    }

    #[test]
    fn a_rule_about_the_whole_tool_is_answered_for_what_is_like_the_pattern_alone() {
        let ask = Rule { tool: "shell".to_owned(), decide: Decide::Ask, ..Rule::default() };
        for profile in [None, Some(Profile::Dev), Some(Profile::Open)] {
            let policy = Policy { profile, rules: vec![ask.clone()], ..Policy::default() };
            assert!(check(&policy, "git push", "git push origin main"), "{profile:?}");
            assert!(!check(&policy, "git push", "touch x"), "{profile:?}");
            assert!(!check(&policy, "git push", "touch x && git push"), "{profile:?}");
        }
    }
}
