//! A tool call as a file writes it: read once, checked against the tool, and handed out without a copy.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::driver::{Action, Situation};
use crate::file::check::{Cursor, Problems, suggest};
use crate::policy::permission::Author;
use crate::server;
use crate::time::Span;
use crate::tool::{self, Status, ToolResult};

/// How much of an output is shown when a call fails.
const SHOWN_LINES: usize = 12;
const SHOWN_CHARS: usize = 1500;

/// A tool, its parameters, and what a person sees it as.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    tool: String,
    input: Arc<Value>,
    timeout: Option<Span>,
    /// The name of the step or state.
    pub(crate) label: String,
}

impl Call {
    /// Reads `tool`, `parameters` and `timeout` of a table whose other keys the caller checks.
    pub(crate) fn read(at: &Cursor<'_>, label: String, problems: &mut Problems) -> Option<Call> {
        Call::read_as(at, None, label, problems)
    }

    /// The tool that a name stands for: some files call ours by other names.
    pub(crate) fn meant(name: &str) -> &str {
        match name {
            "shell.run" => "shell",
            "patch.apply" => "patch",
            name => name,
        }
    }

    /// The tool's name.
    pub(crate) fn tool(&self) -> &str {
        &self.tool
    }

    /// The same, with these parameters in place of those that are written, which are filled in later.
    pub(crate) fn read_as(
        at: &Cursor<'_>,
        stand_in: Option<Value>,
        label: String,
        problems: &mut Problems,
    ) -> Option<Call> {
        let timeout = at.get("timeout").and_then(|timeout| timeout.span(problems));
        let given = at.need(problems, "tool")?;
        let written = given.text(problems)?;
        let name = Call::meant(written);
        if server::is_offered(name) {
            return Call::offered(at, name, timeout, label, problems);
        }
        let Some(spec) = tool::find(name) else {
            let names: Vec<&str> = tool::TOOLS.iter().map(|tool| tool.name).collect();
            let hint = suggest(name, names.iter().copied())
                .or_else(|| Some(format!("the tools are {}", names.join(", "))));
            problems.push(&given, format!("there is no tool {name:?}"), hint);
            return None;
        };
        let parameters = at.get("parameters");
        let written_out = || match &parameters {
            Some(at) => at.value.clone(),
            // The format that calls it so has commands without a command, which do nothing.
            None if written == "shell.run" => json!({ "command": "true" }),
            None => Value::Object(serde_json::Map::new()),
        };
        let input = stand_in.unwrap_or_else(written_out);
        if let Err(message) = tool::check_input(spec, &input) {
            // The message names the parameter; the place is that parameter if it is there.
            let keys = spec.parameters.iter().map(|parameter| parameter.name);
            let culprit = parameters.as_ref().and_then(|at| {
                let quoted =
                    |(key, _): &(&str, Cursor<'_>)| message.contains(&format!("parameter {key:?}"));
                at.entries().find(quoted)
            });
            match (culprit, &parameters) {
                (Some((key, entry)), _)
                    if spec.parameters.iter().any(|known| known.name == key) =>
                {
                    let hint = Some("`drivetrain tools` says what it takes".to_owned());
                    problems.push(&entry, message, hint);
                }
                (Some((key, entry)), _) => problems.push_key(&entry, message, suggest(key, keys)),
                (None, Some(at)) => {
                    let hint = Some("`drivetrain tools` says what it takes".to_owned());
                    problems.push_key(at, message, hint);
                }
                (None, None) => {
                    let example = spec.parameters.iter().find(|parameter| parameter.required);
                    let hint = example
                        .map(|parameter| format!("add parameters = {{ {} = … }}", parameter.name));
                    problems.push(&given, message, hint);
                }
            }
            return None;
        }
        Some(Call { tool: name.to_owned(), input: Arc::new(input), timeout, label })
    }

    /// A server's tool: which parameters it takes is not known before the server runs.
    fn offered(
        at: &Cursor<'_>,
        name: &str,
        timeout: Option<Span>,
        label: String,
        problems: &mut Problems,
    ) -> Option<Call> {
        let parameters = at.get("parameters");
        if let Some(wrong) = parameters.as_ref().filter(|at| !at.value.is_object()) {
            wrong.wrong(problems, "a table");
            return None;
        }
        let input =
            parameters.map_or_else(|| Value::Object(serde_json::Map::new()), |at| at.value.clone());
        Some(Call { tool: name.to_owned(), input: Arc::new(input), timeout, label })
    }

    /// The action for the loop.
    pub(crate) fn action(&self, situation: &Situation<'_>) -> Action {
        Action {
            tool: self.tool.clone(),
            input: Arc::clone(&self.input),
            label: self.label.clone(),
            tool_use: String::new(),
            path: situation.path.to_vec(),
            author: Author::Operator,
            timeout: self.timeout,
        }
    }

    /// What went wrong, for a person: `what "name" (tool) failed: status, exit code, the end of the output`.
    pub(crate) fn failure(&self, what: &str, result: &ToolResult) -> String {
        let exit = result.exit.map(|code| format!(", exit code {code}")).unwrap_or_default();
        let output = tail(&result.text);
        let output = if output.is_empty() { String::new() } else { format!(": {output}") };
        format!(
            "{what} {:?} ({}) failed: {}{exit}{output}",
            self.label,
            self.tool,
            result.status.word()
        )
    }
}

/// True if a call that ended so is made again rather than counted: it never began, because a person's note
/// came first. Only so many times in a row, so that nothing can make it an endless circle.
pub(crate) fn is_put_off(status: Status, in_a_row: u32) -> bool {
    status == Status::Skipped && in_a_row < 100
}

/// The end of an output.
pub(crate) fn tail(text: &str) -> String {
    let text = text.trim_end();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
    let extra = last.chars().count().saturating_sub(SHOWN_CHARS);
    let shown: String = last.chars().skip(extra).collect();
    if shown.len() < text.len() { format!("…{shown}") } else { shown }
}
