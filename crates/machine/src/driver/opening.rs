//! Calls that are made before a model or an agent is asked for the first time, and what it is told of them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Action, Decision, Situation};
use crate::policy::permission::Author;
use crate::tool::{Status, ToolResult};

/// One call that is made at the start; the operator's, since the agent's file asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Look {
    /// The tool.
    tool: String,
    /// Its parameters.
    #[serde(default = "none")]
    input: Value,
    /// What its result is, in words.
    title: String,
}

impl Look {
    /// Whether an action is this call.
    pub(super) fn is(&self, action: &Action) -> bool {
        action.tool_use.is_empty() && action.tool == self.tool && action.label == self.title
    }
}

fn none() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The calls that are still to be made, of which so many were.
pub(super) fn rest(looks: &[Look], done: usize, situation: &Situation<'_>) -> Option<Decision> {
    let rest = looks.get(done..).filter(|rest| !rest.is_empty())?;
    let action = |look: &Look| Action {
        tool: look.tool.clone(),
        input: Arc::new(look.input.clone()),
        label: look.title.clone(),
        tool_use: String::new(),
        path: situation.path.to_vec(),
        author: Author::Operator,
        timeout: None,
    };
    Some(Decision::Act(rest.iter().map(action).collect()))
}

/// What is told of a result.
pub(super) fn told(look: &Look, result: &ToolResult) -> String {
    let how = match (result.status, result.exit) {
        (Status::Ok, _) => String::new(),
        (status, Some(exit)) => format!(" ({}, exit code {exit})", status.word()),
        (status, None) => format!(" ({})", status.word()),
    };
    format!("{}{how}:\n\n{}", look.title, result.text)
}
