//! What an agent's file holds its worker to: which tools it has, and that it looks at a file before it changes it.
//!
//! Both are judged from what happened, at the gate, whoever asks for the call: a model, a coding agent, a plugin, a step of a
//! workflow. Looking first is asked of those that decide by themselves; the order of a workflow's own steps is its author's.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::permission::Author;
use crate::diff;
use crate::server;
use crate::tool::{self, Status, ToolResult};

/// Files that are remembered as looked at. Beyond that, looking again is asked for sooner than needed.
pub const MOST_LOOKED: usize = 4_096;

/// What an agent's file holds its worker to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Charter {
    /// The agent's name.
    pub agent: String,
    /// The tools that it has; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<Vec<String>>,
    /// Tools that it does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<String>,
    /// Whether a file must have been looked at before it is changed.
    pub peek_first: bool,
}

impl Charter {
    /// True if it holds nobody to anything.
    pub fn is_default(&self) -> bool {
        *self == Charter::default()
    }

    /// Whether a tool is among those that the agent has.
    pub fn has(&self, tool: &str) -> bool {
        let names = |known: &String| known == tool || server::names(known, tool);
        self.enabled.as_ref().is_none_or(|enabled| enabled.iter().any(names))
            && !self.disabled.iter().any(names)
    }

    /// Why a call is refused, in words for whoever asked for it; none if it is not.
    pub fn refusal(
        &self,
        call: (&str, &Value),
        author: Author,
        looked: &BTreeSet<String>,
        workspace: Option<&str>,
    ) -> Option<String> {
        let (tool, input) = call;
        if !self.has(tool) {
            let has = match &self.enabled {
                Some(enabled) => {
                    let has: Vec<&str> =
                        enabled.iter().map(String::as_str).filter(|name| self.has(name)).collect();
                    format!("it has {}", has.join(", "))
                }
                None => format!("it has all but {}", self.disabled.join(", ")),
            };
            return Some(format!(
                "the agent {:?} does not have the tool {tool}: {has}",
                self.agent
            ));
        }
        if !self.peek_first || author != Author::Worker {
            return None;
        }
        let changed = changed_by(tool, input);
        let unseen = changed
            .iter()
            .map(|path| plain(path, workspace))
            .find(|path| !looked.contains(path))?;
        Some(format!(
            "look before you change: {unseen} was not looked at in this task. Read it, or view the symbol that you mean, and \
             try again; of a new file, a read that finds nothing is enough"
        ))
    }

    /// Remembers what a call that has ended showed.
    pub fn note(
        &self,
        call: (&str, &Value),
        result: &ToolResult,
        looked: &mut BTreeSet<String>,
        workspace: Option<&str>,
    ) {
        if !self.peek_first {
            return;
        }
        for path in shown_by(call, result) {
            if looked.len() < MOST_LOOKED {
                looked.insert(plain(&path, workspace));
            }
        }
    }
}

/// The files that a call would change.
fn changed_by(tool: &str, input: &Value) -> Vec<String> {
    match tool {
        "edit" | "write" => paths(input),
        "patch" => changed_by_diff(input["diff"].as_str().unwrap_or_default()),
        _ => Vec::new(),
    }
}

/// The file that a call names; a coding agent's may name several.
fn paths(input: &Value) -> Vec<String> {
    let several = input["paths"].as_array().into_iter().flatten();
    several.chain([&input["path"]]).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The files that a diff changes and that are there before: what it makes needs no look.
fn changed_by_diff(diff: &str) -> Vec<String> {
    let patches = diff::parse(diff).unwrap_or_default();
    patches.into_iter().filter_map(|patch| patch.old).collect()
}

/// The files whose text a call has shown, or made.
fn shown_by((tool, input): (&str, &Value), result: &ToolResult) -> Vec<String> {
    match (tool, result.status) {
        // That there is no such file was seen too.
        ("read", Status::Ok | Status::Error) | ("edit" | "write", Status::Ok) => paths(input),
        ("patch", Status::Ok) => {
            let patches = diff::parse(input["diff"].as_str().unwrap_or_default());
            patches.unwrap_or_default().into_iter().filter_map(|patch| patch.new).collect()
        }
        // Each definition stands below a line such as `src/parser.rs:39-51  Parser::push`.
        ("view", Status::Ok) => {
            let places = result.text.lines().filter(|line| !line.starts_with(char::is_whitespace));
            places.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// A path in one way of writing: below the workspace, without `.` and doubled slashes.
fn plain(path: &str, workspace: Option<&str>) -> String {
    let below = workspace
        .and_then(|workspace| path.strip_prefix(workspace))
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or(path);
    let mut parts: Vec<&str> = Vec::new();
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// The tool that a name in an agent's file stands for: its name, or the first word of it, as `validator` for
/// `validator.run` and `patch.apply` for `patch`.
pub fn tool_meant(name: &str) -> Option<&'static str> {
    let first = |text: &str| text.split('.').next().unwrap_or_default().to_owned();
    let exact = tool::TOOLS.iter().find(|tool| tool.name == name);
    let alike = || tool::TOOLS.iter().find(|tool| first(tool.name) == first(name));
    exact.or_else(alike).map(|tool| tool.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn charter() -> Charter {
        Charter { agent: "careful".to_owned(), peek_first: true, ..Charter::default() }
    }

    fn refused(charter: &Charter, tool: &str, input: Value, looked: &[&str]) -> Option<String> {
        let looked = looked.iter().map(|path| (*path).to_owned()).collect();
        charter.refusal((tool, &input), Author::Worker, &looked, Some("/ws"))
    }

    #[test]
    fn a_file_is_changed_only_after_it_was_looked_at() {
        let charter = charter();
        let edit = json!({ "path": "src/a.rs", "old": "x", "new": "y" });
        let why = refused(&charter, "edit", edit.clone(), &[]).unwrap();
        assert!(why.contains("src/a.rs was not looked at"), "{why}");
        assert!(refused(&charter, "edit", edit.clone(), &["src/b.rs"]).is_some());
        assert_eq!(refused(&charter, "edit", edit.clone(), &["src/a.rs"]), None);
        for path in ["./src/a.rs", "/ws/src/a.rs", "src//a.rs", "src/x/../a.rs"] {
            let write = json!({ "path": path, "content": "" });
            assert_eq!(refused(&charter, "write", write, &["src/a.rs"]), None, "{path}");
        }
        let diff = "--- a/src/a.rs\t2020\n+++ b/src/a.rs\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/new.rs\n";
        assert!(refused(&charter, "patch", json!({ "diff": diff }), &[]).is_some());
        assert_eq!(refused(&charter, "patch", json!({ "diff": diff }), &["src/a.rs"]), None);
        assert_eq!(refused(&charter, "shell", json!({ "command": "true" }), &[]), None);
        // What a coding agent changes.
        let write = json!({ "paths": ["/ws/src/a.rs", "/ws/src/b.rs"], "input": {} });
        let why = refused(&charter, "write", write.clone(), &["src/a.rs"]).unwrap();
        assert!(why.contains("src/b.rs was not looked at"), "{why}");
        assert_eq!(refused(&charter, "write", write.clone(), &["src/a.rs", "src/b.rs"]), None);
        let mut looked = BTreeSet::new();
        let done = ToolResult::ended(Status::Ok, String::new());
        charter.note(("write", &write), &done, &mut looked, Some("/ws"));
        assert_eq!(looked.into_iter().collect::<Vec<_>>(), ["src/a.rs", "src/b.rs"]);
        let all = Charter::default();
        assert_eq!(refused(&all, "edit", edit.clone(), &[]), None);
        let own = charter.refusal(("edit", &edit), Author::Operator, &BTreeSet::new(), None);
        assert_eq!(own, None, "the order of a workflow's steps is its author's");
    }

    #[test]
    fn what_was_read_viewed_or_written_was_looked_at() {
        let charter = charter();
        let mut looked = BTreeSet::new();
        let ok = |text: &str| ToolResult::ok(text.to_owned());
        let failed = ToolResult::ended(Status::Error, "there is no such file".to_owned());
        charter.note(("read", &json!({ "path": "./a.rs" })), &ok("text"), &mut looked, None);
        charter.note(("read", &json!({ "path": "new.rs" })), &failed, &mut looked, None);
        let view = "src/p.rs:39-51  Parser::push\n    // src/no.rs: not this\n";
        charter.note(("view", &json!({ "symbol": "push" })), &ok(view), &mut looked, None);
        charter.note(("edit", &json!({ "path": "b.rs" })), &failed, &mut looked, None);
        charter.note(("grep", &json!({ "pattern": "x" })), &ok("c.rs:1: x"), &mut looked, None);
        let diff = json!({ "diff": "--- /dev/null\n+++ b/made.rs\n" });
        charter.note(("patch", &diff), &ok(""), &mut looked, None);
        let seen: Vec<&str> = looked.iter().map(String::as_str).collect();
        assert_eq!(seen, ["a.rs", "made.rs", "new.rs", "src/p.rs"]);
        let mut none = BTreeSet::new();
        Charter::default().note(("read", &json!({ "path": "a" })), &ok(""), &mut none, None);
        assert!(none.is_empty(), "nothing is kept for those who do not ask");
    }

    #[test]
    fn an_agent_has_the_tools_of_its_file_and_is_told_which() {
        let few = Charter {
            agent: "few".to_owned(),
            enabled: Some(vec!["read".to_owned(), "shell".to_owned(), "mcp__db__*".to_owned()]),
            disabled: vec!["shell".to_owned()],
            peek_first: false,
        };
        assert!(few.has("read") && few.has("mcp__db__query") && !few.has("mcp__other__x"));
        assert!(!few.has("shell") && !few.has("write"));
        let why = refused(&few, "shell", json!({ "command": "true" }), &[]).unwrap();
        assert_eq!(why, "the agent \"few\" does not have the tool shell: it has read, mcp__db__*");
        let most = Charter { enabled: None, ..few };
        assert!(most.has("write") && !most.has("shell"));
        assert!(refused(&most, "shell", json!({}), &[]).unwrap().contains("all but shell"));
    }

    #[test]
    fn tools_are_known_by_the_first_word_of_their_name() {
        assert_eq!(tool_meant("validator"), Some("validator.run"));
        assert_eq!(tool_meant("patch.apply"), Some("patch"));
        assert_eq!(tool_meant("read"), Some("read"));
        assert_eq!(tool_meant("nothing"), None);
    }
}
