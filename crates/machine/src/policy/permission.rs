//! The first gate: may this call run? Rules in order, then a profile.
//!
//! A call is taken apart (`parts`): a shell line into every command that it can run, every path and every host. Each
//! part is weighed alone (`weigh`): the first rule that means it decides, else the profile. The strictest word of all
//! parts is the answer. What is not understood is never more than asked about, unless nothing is forbidden at all.
//!
//! A policy is plain data and frozen with its task. Patterns are split when they are read, not when they are used.

mod command;
mod glob;
mod parts;
mod place;
mod profile;
mod protected;
#[cfg(test)]
mod tests;
mod weigh;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::charter::Charter;
use crate::policy::decider::Decider;
use crate::tool::EffectClass;

pub use command::CommandPattern;
pub use glob::PathPattern;
pub(crate) use parts::tool_paths;
pub use profile::Profile;
pub use protected::{PROTECTED, protected_name};
pub use weigh::{PartJudgement, explain, judge};

/// The rules of a task, frozen at its start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policy {
    /// What is allowed where no rule says anything. Without one only the tool's class counts, as in tasks that were
    /// started before there were profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// In order; the first that means a part decides on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// What becomes of a question to a person when nobody attends.
    #[serde(default)]
    pub unattended: Unattended,
    /// The user's own folder, absolute: what `~` means in paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Who is asked in a person's place when nobody attends and `unattended` says to escalate: in order, until one
    /// decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deciders: Vec<Decider>,
    /// What the file of the task's agent holds it to.
    #[serde(default, skip_serializing_if = "Charter::is_default")]
    pub charter: Charter,
}

/// One rule. All matchers that are given must match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The tool it is about; `*` for every tool, `mcp__SERVER__*` for every tool of a server.
    pub tool: String,
    /// Commands, as parsed; any of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<CommandPattern>,
    /// Paths that are read or written; any of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathPattern>,
    /// Only for paths: what is done with them; either if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Hosts that are spoken to, by name; any of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<String>,
    /// The task's driver; any of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver: Vec<String>,
    /// Whether somebody attends; either if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attended: Option<bool>,
    /// What it says.
    pub decide: Decide,
    /// Shown to the person and to the worker.
    #[serde(default)]
    pub reason: String,
    /// Where it stands, for a person who looks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Origin>,
}

impl Default for Rule {
    /// A rule that asks about everything.
    fn default() -> Rule {
        Rule {
            tool: "*".to_owned(),
            command: Vec::new(),
            path: Vec::new(),
            access: None,
            host: Vec::new(),
            driver: Vec::new(),
            attended: None,
            decide: Decide::Ask,
            reason: String::new(),
            from: None,
        }
    }
}

impl Rule {
    /// Whether it looks at the tool's name alone, and not at what a call does.
    pub(crate) fn is_bare(&self) -> bool {
        self.command.is_empty() && self.path.is_empty() && self.host.is_empty()
    }
}

/// Where a rule stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The file, as a person names it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Which rule of the file, from 1.
    pub number: usize,
}

/// What is done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It is read.
    Read,
    /// It is written, made or removed.
    Write,
}

/// What a rule can say; the later, the stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decide {
    /// It may run.
    Allow,
    /// A person is asked.
    Ask,
    /// It may not run.
    Deny,
}

impl Decide {
    /// The word people and JSON see.
    pub fn word(self) -> &'static str {
        match self {
            Decide::Allow => "allow",
            Decide::Ask => "ask",
            Decide::Deny => "deny",
        }
    }
}

/// Whether a pattern means something; the later, the surer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It does not.
    No,
    /// Only the run can tell.
    Maybe,
    /// It does.
    Yes,
}

impl From<bool> for Fit {
    fn from(yes: bool) -> Fit {
        if yes { Fit::Yes } else { Fit::No }
    }
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

impl Unattended {
    /// The word people write.
    pub fn word(self) -> &'static str {
        match self {
            Unattended::Deny => "deny",
            Unattended::Wait => "wait",
            Unattended::Escalate => "escalate",
        }
    }
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
    /// The drivers that it has work in its place: its children, and those of its steps.
    pub within: &'a [String],
    /// Whether a person is there to answer.
    pub attended: bool,
    /// The folder that it works in, absolute; none for a task without one.
    pub workspace: Option<&'a str>,
    /// Whether a sandbox holds what it starts.
    pub sandboxed: bool,
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
    /// Which rule decided: `rule 3 of .drivetrain/policy.toml:17`, `profile dev`, `protected names`, `default`.
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

impl Layer {
    /// The word people and JSON see.
    pub fn word(self) -> &'static str {
        match self {
            Layer::Tool => "tool",
            Layer::Command => "command",
            Layer::Path => "path",
            Layer::Host => "host",
        }
    }
}

impl Judgement {
    /// The proof that the call may run; else the judgement is given back.
    pub(crate) fn approval(self) -> Result<Approval, Judgement> {
        if self.decide == Decide::Allow { Ok(Approval { by: self.by }) } else { Err(self) }
    }

    /// What the rules and the profile say, whether or not somebody is there to be asked.
    pub fn meant(&self) -> Decide {
        if self.nobody { Decide::Ask } else { self.decide }
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
