//! What is seen of a claim when it is checked: the trees before and after, every criterion, and where it ran.

use serde::{Deserialize, Serialize};

use crate::policy::sandbox::Level;
use crate::task::CriterionResult;

/// A state of the workspace that is kept outside of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Checkpoint {
    /// The name it is found by.
    pub name: String,
    /// The hash of all its files; empty for one from a journal that did not note it.
    pub tree: String,
}

/// Older journals have the name alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Name(String),
    Whole { name: String, tree: String },
}

impl From<Written> for Checkpoint {
    fn from(written: Written) -> Checkpoint {
        match written {
            Written::Name(name) => Checkpoint { name, tree: String::new() },
            Written::Whole { name, tree } => Checkpoint { name, tree },
        }
    }
}

/// What came of checking a claim.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "WrittenVerdict")]
pub struct Verdict {
    /// One result for each criterion that was frozen, in the same order.
    pub results: Vec<CriterionResult>,
    /// Where the criteria ran.
    pub place: Place,
    /// On what they ran.
    pub environment: Environment,
    /// The paths that differ between the base and what was handed over; the first ones, if there are many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<Touched>,
    /// How many paths differ.
    pub touched_total: u64,
    /// How many lines were added and removed.
    pub diff_lines: u64,
    /// What differs, as a patch for judges to read: the beginning, if it is long.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub patch: String,
}

impl Verdict {
    /// A verdict that consists of results alone.
    pub fn of(results: Vec<CriterionResult>) -> Verdict {
        Verdict { results, ..Verdict::default() }
    }
}

/// Older journals have the results alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenVerdict {
    Results(Vec<CriterionResult>),
    Whole {
        results: Vec<CriterionResult>,
        #[serde(default)]
        place: Place,
        #[serde(default)]
        environment: Environment,
        #[serde(default)]
        touched: Vec<Touched>,
        #[serde(default)]
        touched_total: u64,
        #[serde(default)]
        diff_lines: u64,
        #[serde(default)]
        patch: String,
    },
}

impl From<WrittenVerdict> for Verdict {
    fn from(written: WrittenVerdict) -> Verdict {
        match written {
            WrittenVerdict::Results(results) => Verdict::of(results),
            WrittenVerdict::Whole {
                results,
                place,
                environment,
                touched,
                touched_total,
                diff_lines,
                patch,
            } => Verdict { results, place, environment, touched, touched_total, diff_lines, patch },
        }
    }
}

/// Where criteria ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the folder that the worker worked in: whatever lies there took part.
    #[default]
    Workspace,
    /// In a new folder with exactly the files of the frozen tree.
    CleanCheckout,
}

/// On what criteria ran.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// The version of drivetrain.
    pub drivetrain: String,
    /// The operating system with its version.
    pub system: String,
    /// The processor's kind.
    pub processor: String,
    /// The walls around the commands.
    pub sandbox: Level,
    /// What they reached of the network, in one word.
    pub network: String,
}

/// A path that differs between the base and what was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// The path below the top of the workspace; what is not text in it is replaced.
    pub path: String,
    /// What happened to it.
    pub how: Touch,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Content, mode or kind is another.
    Changed,
}
