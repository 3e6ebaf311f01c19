//! How a reader asks for another file by its kind and name. Where it lies, and whether it may be used, is not known here.

use std::ops::Range;

use serde_json::Value;

use super::check::suggest;
use super::{SourceError, source};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A text for a model.
    Prompt,
    /// Steps or states.
    Workflow,
    /// Who does the work: a program, or a workflow or model with tools.
    Agent,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Prompt, Kind::Workflow, Kind::Agent];

    /// The folder that holds them, which is also how a reference begins.
    pub fn folder(self) -> &'static str {
        match self {
            Kind::Prompt => "prompts",
            Kind::Workflow => "workflows",
            Kind::Agent => "agents",
        }
    }

    /// One of them, in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Prompt => "prompt",
            Kind::Workflow => "workflow",
            Kind::Agent => "agent",
        }
    }

    /// How the files may end, in the order in which they are tried.
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Kind::Prompt => &["toml", "md", "txt"],
            Kind::Workflow => &["toml", "yaml", "yml", "rhai"],
            Kind::Agent => &["toml", "yaml", "yml"],
        }
    }
}

/// Where a file comes from. The first that has a name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// `.drivetrain` in the folder or above it, up to the repository's root.
    Project,
    /// The user's configuration folder.
    User,
    /// Inside the program.
    BuiltIn,
}

impl Origin {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Project => "project",
            Origin::User => "user",
            Origin::BuiltIn => "built-in",
        }
    }
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it says.
    pub text: String,
    /// The file, as it is shown to a person; its ending tells the format.
    pub file: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Nothing that may be used has the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFound {
    /// The names that there are.
    pub known: Vec<String>,
    /// Why: that there is none, or why the one that there is may not be used.
    pub why: String,
}

impl NotFound {
    /// What to do about it: a name that was perhaps meant, or those that there are.
    pub fn hint(&self, name: &str) -> Option<String> {
        let near = suggest(name, self.known.iter().map(String::as_str));
        near.or_else(|| match self.known.as_slice() {
            [] => None,
            few if few.len() <= 12 => Some(format!("there are {}", few.join(", "))),
            many => {
                Some(format!("there are {} and {} more", many[..12].join(", "), many.len() - 12))
            }
        })
    }
}

/// One of several files of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Where it comes from.
    pub origin: Origin,
    /// Whether the user trusts it as it is; what is not the project's needs no trust.
    pub is_trusted: bool,
}

/// Which of some files of one name is taken; nearest first. A project's file that is not trusted does not take the place
/// of another one. Where there is no other, it counts by the word of whoever named it.
pub fn choose(candidates: &[Candidate]) -> Option<usize> {
    let counts =
        |candidate: &Candidate| candidate.origin != Origin::Project || candidate.is_trusted;
    candidates.iter().position(counts).or((!candidates.is_empty()).then_some(0))
}

/// Finds files by kind and name. The name has been checked: it is a plain file name without its ending.
pub trait Lookup {
    /// The nearest file of that name.
    fn find(&self, kind: Kind, name: &str) -> Result<Found, NotFound>;

    /// Runs the script of a workflow's file (`.rhai`): once, now. What it gives is read like a file.
    fn script(&self, text: &str, file: &str) -> Result<Given, Vec<SourceError>> {
        let message = "scripts are not run here".to_owned();
        Err(vec![source::error_at(file, text, 0..0, message, None)])
    }

    /// What is known about the project, as [`crate::facts::Facts`]; asked for only where somebody mentions it.
    fn facts(&self) -> Value {
        Value::Null
    }
}

/// What a script gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// The data of a workflow file: `{"workflow": {…}}`.
    pub value: Value,
    /// Where in the script errors in it are shown.
    pub place: Range<usize>,
}

/// A lookup that finds nothing, for files that stand alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Lookup for Nothing {
    fn find(&self, kind: Kind, name: &str) -> Result<Found, NotFound> {
        let why = format!("there is no {} {name:?}: nothing can be looked up here", kind.word());
        Err(NotFound { known: Vec::new(), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_trusted_takes_the_place_of_nothing() {
        let of = |origin, is_trusted| Candidate { origin, is_trusted };
        let (strange, trusted) = (of(Origin::Project, false), of(Origin::Project, true));
        let (own, built_in) = (of(Origin::User, true), of(Origin::BuiltIn, true));
        assert_eq!(choose(&[trusted, own, built_in]), Some(0));
        assert_eq!(choose(&[strange, own, built_in]), Some(1));
        assert_eq!(choose(&[strange, strange, built_in]), Some(2));
        assert_eq!(choose(&[strange, trusted, built_in]), Some(1));
        assert_eq!(choose(&[strange, strange]), Some(0));
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn a_name_that_is_near_is_suggested_and_few_names_are_listed() {
        let missing = |known: &[&str]| NotFound {
            known: known.iter().map(|name| (*name).to_owned()).collect(),
            why: String::new(),
        };
        let near = missing(&["terse", "repair-engine"]).hint("tersee");
        assert_eq!(near.as_deref(), Some("did you mean \"terse\"?"));
        let far = missing(&["terse", "repair-engine"]).hint("zzzzzz");
        assert_eq!(far.as_deref(), Some("there are terse, repair-engine"));
        assert_eq!(missing(&[]).hint("x"), None);
        let names: Vec<String> = (0..20).map(|n| format!("prompt-number-{n}")).collect();
        let many = NotFound { known: names, why: String::new() }.hint("zzz").unwrap();
        assert!(many.ends_with("and 8 more"), "{many}");
        assert!(Nothing.find(Kind::Prompt, "x").unwrap_err().why.contains("no prompt \"x\""));
    }
}
