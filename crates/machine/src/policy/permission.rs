//! The first gate: may this call run? Rules by tool, the first that matches decides.

use serde::{Deserialize, Serialize};

use crate::server;
use crate::tool::EffectClass;

/// The rules of a task, frozen at its start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policy {
    /// In order; the first that names the tool decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// What becomes of a question to a person when nobody attends.
    #[serde(default)]
    pub unattended: Unattended,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The tool it is about; `*` for every tool, `mcp__SERVER__*` for every tool of a server.
    pub tool: String,
    /// What it says.
    pub decide: Decide,
    /// Shown to the person and to the worker.
    #[serde(default)]
    pub reason: String,
}

/// What a rule can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decide {
    /// It may run.
    Allow,
    /// A person is asked.
    Ask,
    /// It may not run.
    Deny,
}

/// The declared end of an approval that nobody is there to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unattended {
    /// Refused, with the reason in the result.
    #[default]
    Deny,
    /// The task waits, durably, until a person answers.
    Wait,
}

/// Who wrote the call that is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The person who started the task: a step of the task's own workflow, a line typed at the prompt.
    Operator,
    /// Something that decides by itself: a model, a coding agent, a plugin.
    Worker,
}

/// Proof that the gate let a call pass. Only this module can make one, and the effect that runs a tool
/// demands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    by: String,
}

impl Approval {
    /// Who let it pass: a rule, the default, or a person.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// A person said yes.
    pub(crate) fn by_person() -> Approval {
        Approval { by: "person".to_owned() }
    }

    /// The call has already passed once; a repeat of the same call needs no new answer.
    pub(crate) fn repeated() -> Approval {
        Approval { by: "repeat".to_owned() }
    }
}

/// What the gate says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Run it.
    Allow(Approval),
    /// Ask a person, giving this reason.
    Ask(String),
    /// Do not run it, for this reason.
    Deny(String),
}

/// Judges one call.
///
/// Without a rule, what changes nothing outside the workspace is allowed, and so is what the operator wrote.
/// An unsafe call of a worker is asked about when somebody attends, and refused when nobody does.
pub fn judge(
    policy: &Policy,
    tool: &str,
    class: EffectClass,
    author: Author,
    attended: bool,
) -> Judgement {
    let rule = policy.rules.iter().find(|rule| server::names(&rule.tool, tool));
    let (decide, by, reason) = match rule {
        Some(rule) => (
            rule.decide,
            format!("rule {} = {:?}", rule.tool, rule.decide).to_lowercase(),
            rule.reason.clone(),
        ),
        None if class == EffectClass::Unsafe && author == Author::Worker => {
            (Decide::Ask, "default".to_owned(), format!("no rule allows {tool}"))
        }
        None => (Decide::Allow, "default".to_owned(), String::new()),
    };
    match decide {
        Decide::Allow => Judgement::Allow(Approval { by }),
        Decide::Deny => Judgement::Deny(said("denied by", &by, &reason)),
        Decide::Ask if attended || policy.unattended == Unattended::Wait => {
            Judgement::Ask(said("asked by", &by, &reason))
        }
        Decide::Ask => Judgement::Deny(said("nobody attends; asked by", &by, &reason)),
    }
}

fn said(verb: &str, by: &str, reason: &str) -> String {
    if reason.is_empty() { format!("{verb} {by}") } else { format!("{verb} {by}: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &Policy, author: Author, attended: bool) -> &'static str {
        match judge(policy, "shell", EffectClass::Unsafe, author, attended) {
            Judgement::Allow(_) => "allow",
            Judgement::Ask(_) => "ask",
            Judgement::Deny(_) => "deny",
        }
    }

    #[test]
    fn an_unsafe_call_of_a_worker_is_asked_about_or_refused_by_default() {
        let policy = Policy::default();
        assert_eq!(check(&policy, Author::Worker, true), "ask");
        assert_eq!(check(&policy, Author::Worker, false), "deny");
        assert_eq!(check(&policy, Author::Operator, false), "allow");
    }

    #[test]
    fn the_first_matching_rule_decides_for_everybody() {
        let rule =
            |tool: &str, decide| Rule { tool: tool.to_owned(), decide, reason: String::new() };
        let mut policy = Policy {
            rules: vec![rule("shell", Decide::Deny), rule("*", Decide::Allow)],
            ..Policy::default()
        };
        assert_eq!(check(&policy, Author::Operator, true), "deny");
        policy.rules.reverse();
        assert_eq!(check(&policy, Author::Worker, false), "allow");
    }

    #[test]
    fn an_unattended_question_ends_as_declared() {
        let ask = Rule { tool: "shell".to_owned(), decide: Decide::Ask, reason: String::new() };
        let mut policy = Policy { rules: vec![ask], unattended: Unattended::Deny };
        assert_eq!(check(&policy, Author::Operator, false), "deny");
        policy.unattended = Unattended::Wait;
        assert_eq!(check(&policy, Author::Operator, false), "ask");
    }
}
