//! The first gate: may this call run? Rules by tool, the first that matches decides.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::decider::Decider;
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
    /// Who is asked in a person's place when nobody attends and `unattended` says to escalate: in order, until one
    /// decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deciders: Vec<Decider>,
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
    /// The deciders of the policy are asked, one after the other; if none decides, it is refused.
    Escalate,
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

/// A call as the gate sees it.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its parameters, checked.
    pub input: &'a Value,
    /// How repeatable it is.
    pub class: EffectClass,
    /// Who wrote it.
    pub author: Author,
    /// The task's driver, by name.
    pub driver: &'a str,
    /// Whether a person is there to answer.
    pub attended: bool,
    /// The folder that it works in, absolute; none for a task without one.
    pub workspace: Option<&'a str>,
}

/// Proof that the gate let a call pass. Only the gate can make one, and the effect that runs a tool demands it.
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

    /// A decider, or what a person said before about the rest of the task.
    pub(crate) fn given_by(by: impl Into<String>) -> Approval {
        Approval { by: by.into() }
    }

    /// The call has already passed once; a repeat of the same call needs no new answer.
    pub(crate) fn repeated() -> Approval {
        Approval { by: "repeat".to_owned() }
    }
}

/// What the gate says of a call, and why: what is journaled, logged and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// What becomes of the call.
    pub decide: Decide,
    /// Which rule decided: `rule 3`, `profile dev`, `default`.
    pub by: String,
    /// Which layer saw what was decisive: the tool's name, the parsed command, a path, a host.
    pub layer: Layer,
    /// Why, for the person and for the worker; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The part of the call that was decisive, where it has parts: one command of a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// True if a person would have been asked, but nobody attends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nobody: bool,
}

/// Which layer of the gate saw what was decisive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The tool's name alone.
    Tool,
    /// A command, as parsed.
    Command,
    /// A path.
    Path,
    /// A host.
    Host,
}

impl Judgement {
    /// The proof that the call may run, if it may.
    pub(crate) fn approval(&self) -> Option<Approval> {
        (self.decide == Decide::Allow).then(|| Approval { by: self.by.clone() })
    }

    /// The judgement in one line, for the worker and for the person who is asked.
    pub fn said(&self) -> String {
        let verb = match (self.decide, self.nobody) {
            (Decide::Allow, _) => "allowed by",
            (Decide::Ask, _) => "asked by",
            (Decide::Deny, true) => "nobody attends; asked by",
            (Decide::Deny, false) => "denied by",
        };
        let part =
            if self.part.is_empty() { String::new() } else { format!(" for `{}`", self.part) };
        let reason =
            if self.reason.is_empty() { String::new() } else { format!(": {}", self.reason) };
        format!("{verb} {}{part}{reason}", self.by)
    }
}

/// Judges one call.
///
/// Without a rule, what changes nothing outside the workspace is allowed, and so is what the operator wrote.
/// An unsafe call of a worker is asked about when somebody attends, and refused when nobody does.
pub fn judge(policy: &Policy, question: &Question<'_>) -> Judgement {
    let rule = policy.rules.iter().position(|rule| server::names(&rule.tool, question.tool));
    let (decide, by, reason) = match rule {
        Some(n) => {
            let rule = &policy.rules[n];
            (rule.decide, format!("rule {}", n + 1), rule.reason.clone())
        }
        None if question.class == EffectClass::Unsafe && question.author == Author::Worker => {
            (Decide::Ask, "default".to_owned(), format!("no rule allows {}", question.tool))
        }
        None => (Decide::Allow, "default".to_owned(), String::new()),
    };
    let unanswerable = !question.attended && policy.unattended == Unattended::Deny;
    let nobody = decide == Decide::Ask && unanswerable;
    let decide = if nobody { Decide::Deny } else { decide };
    Judgement { decide, by, layer: Layer::Tool, reason, part: String::new(), nobody }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &Policy, author: Author, attended: bool) -> &'static str {
        let question = Question {
            tool: "shell",
            input: &serde_json::json!({ "command": "true" }),
            class: EffectClass::Unsafe,
            author,
            driver: "llm",
            attended,
            workspace: None,
        };
        match judge(policy, &question).decide {
            Decide::Allow => "allow",
            Decide::Ask => "ask",
            Decide::Deny => "deny",
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
        let mut policy = Policy { rules: vec![ask], ..Policy::default() };
        assert_eq!(check(&policy, Author::Operator, false), "deny");
        policy.unattended = Unattended::Wait;
        assert_eq!(check(&policy, Author::Operator, false), "ask");
    }
}
