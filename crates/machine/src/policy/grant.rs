//! How far a person's yes reaches: this once, the rest of the task, or the project.
//!
//! A grant only ever answers a question that would otherwise be asked. It never passes what a rule denies.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::CallId;
use crate::policy::call_hash::CallHash;
use crate::server::ToolOffer;
use crate::shell::{self, Run, Word};

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
    /// Whether it lets this call pass.
    pub fn covers(
        &self,
        tool: &str,
        input: &Value,
        hash: CallHash,
        offer: Option<&ToolOffer>,
    ) -> bool {
        self.tool == tool
            && self.schema == offer.map(schema_hash)
            && (self.hash == hash || self.like.as_ref().is_some_and(|like| is_like(like, input)))
    }
}

/// The hash of what a server says of a tool.
pub fn schema_hash(offer: &ToolOffer) -> CallHash {
    CallHash::of(&offer.tool, &offer.schema)
}

/// Whether a call of `shell` runs nothing but what is like the pattern: words, `*` for any one word, and a last `*`
/// for any number of them. What is not understood, goes through a wrapper, or writes to a file, is not like anything.
pub fn is_like(pattern: &str, input: &Value) -> bool {
    let Some(command) = input["command"].as_str() else { return false };
    let words: Vec<&str> = pattern.split_whitespace().collect();
    // A program that may be any is no pattern.
    if words.first().is_none_or(|program| program.contains('*')) {
        return false;
    }
    let reading = shell::read(command);
    reading.unclear.is_empty()
        && !reading.runs.is_empty()
        && reading.runs.iter().all(|run| runs_like(&words, run))
}

fn runs_like(words: &[&str], run: &Run) -> bool {
    if !run.assignments.is_empty() || !run.redirects.is_empty() || !run.through.is_empty() {
        return false;
    }
    let plain = |word: &Word| match word {
        Word::Plain(text) => Some(text.clone()),
        Word::Pattern(_) | Word::Unknown(_) => None,
    };
    let Some(argv) = run.argv.iter().map(plain).collect::<Option<Vec<String>>>() else {
        return false;
    };
    let fits = |words: &[&str], argv: &[String]| {
        words.len() == argv.len()
            && words.iter().zip(argv).all(|(word, given)| *word == "*" || word == given)
    };
    match words.split_last() {
        Some((&"*", first)) => argv.len() >= first.len() && fits(first, &argv[..first.len()]),
        _ => fits(words, &argv),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, argv: &[&str]) -> bool {
        let words: Vec<&str> = pattern.split_whitespace().collect();
        let argv = argv.iter().map(|word| Word::Plain((*word).to_owned())).collect();
        runs_like(&words, &Run { argv, ..Run::default() })
    }

    #[test]
    fn a_pattern_is_words_and_a_last_star_is_the_rest() {
        assert!(check("git push *", &["git", "push", "origin", "main"]));
        assert!(check("git push *", &["git", "push"]));
        assert!(check("git * origin", &["git", "push", "origin"]));
        assert!(!check("git * origin", &["git", "push", "--force", "origin"]));
        assert!(!check("git push", &["git", "push", "--force"]));
        assert!(!check("git push *", &["git", "-c", "x=y", "push"]));
    }

    #[test]
    fn what_is_not_plain_is_like_nothing() {
        let words = ["git", "push", "*"];
        let run = |last: Word| Run {
            argv: vec![Word::Plain("git".to_owned()), Word::Plain("push".to_owned()), last],
            ..Run::default()
        };
        assert!(runs_like(&words, &run(Word::Plain("x".to_owned()))));
        assert!(!runs_like(&words, &run(Word::Unknown("$(x)".to_owned()))));
        assert!(!runs_like(&words, &run(Word::Pattern("*".to_owned()))));
        let wrapped = Run { through: vec!["sudo".to_owned()], ..run(Word::Plain("x".to_owned())) };
        assert!(!runs_like(&words, &wrapped));
        for pattern in ["", " ", "*", "* push", "g*t push"] {
            assert!(!is_like(pattern, &serde_json::json!({ "command": "git push" })), "{pattern}");
        }
    }
}
