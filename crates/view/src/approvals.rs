//! What a person is asked, shown whole, with the commands that answer it.
//!
//! Nobody can judge what was cut away: a call that is asked about is always shown to its last character.

use machine::id::{CallId, TaskId};
use machine::state::Ask;
use serde_json::Value;

use crate::{Line, Tone, text};

/// A command to type and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// The command line.
    pub command: String,
    /// What it does.
    pub effect: String,
}

impl Next {
    /// A command and what it does.
    pub fn new(command: impl Into<String>, effect: impl Into<String>) -> Next {
        Next { command: command.into(), effect: effect.into() }
    }
}

/// Commands in two columns.
pub fn next_lines(commands: &[Next]) -> Vec<Line> {
    let width = commands.iter().map(|next| next.command.chars().count()).max().unwrap_or(0).min(56);
    commands
        .iter()
        .map(|next| Line::plain(format!("  {:width$}  {}", next.command, next.effect)))
        .collect()
}

/// What is asked, in full.
pub fn lines(ask: &Ask) -> Vec<Line> {
    match ask {
        Ask::Approval { call, tool, input, reason } => approval(*call, tool, input, reason),
        Ask::Question { call, question: asked, choices } => question(*call, asked, choices),
        Ask::InDoubt { call, tool, input } => in_doubt(*call, tool, input),
        Ask::Decision { prompt } => indented("? ", prompt),
    }
}

/// The commands that answer it, in a task with this driver.
pub fn answers(task: &TaskId, driver: &str, ask: &Ask) -> Vec<Next> {
    match ask {
        Ask::Approval { call, .. } => vec![
            Next::new(format!("drivetrain approve {task} {call}"), "let it run"),
            Next::new(format!("drivetrain deny {task} {call} --reason TEXT"), "refuse it"),
        ],
        Ask::Question { call, choices, .. } => {
            let answer =
                choices.first().map_or_else(|| "TEXT".to_owned(), |choice| text::quoted(choice));
            vec![Next::new(format!("drivetrain answer {task} {call} {answer}"), "answer it")]
        }
        Ask::InDoubt { call, .. } => vec![
            Next::new(
                format!("drivetrain resolve {task} {call} --did"),
                "it ran to its end: take it as done",
            ),
            Next::new(
                format!("drivetrain resolve {task} {call} --did-not"),
                "it did not run: take it as failed",
            ),
            Next::new(format!("drivetrain resolve {task} {call} --retry"), "run it again"),
        ],
        Ask::Decision { .. } if driver == "llm" => vec![
            Next::new(format!("drivetrain chat --resume {task}"), "go on talking"),
            Next::new(format!("drivetrain answer {task} TEXT"), "say one thing to the model"),
        ],
        Ask::Decision { .. } => {
            vec![Next::new(
                format!("drivetrain answer {task} 'shell ls'"),
                "decide the next move (or: help, done)",
            )]
        }
    }
}

/// May this call run?
pub fn approval(call: CallId, tool: &str, input: &Value, reason: &str) -> Vec<Line> {
    let (tool, reason) = (text::visible(tool), text::visible(reason));
    let mut lines = vec![Line::new(Tone::Ask, format!("? {call} wants to run {tool} ({reason})"))];
    lines.extend(parameters(input));
    lines
}

/// What is the answer?
pub fn question(call: CallId, question: &str, choices: &[String]) -> Vec<Line> {
    let mut lines = indented(&format!("? {call} asks: "), question);
    for (index, choice) in choices.iter().enumerate() {
        lines.push(Line::plain(format!("    {}) {}", index + 1, text::visible(choice))));
    }
    lines
}

/// Did this call run?
pub fn in_doubt(call: CallId, tool: &str, input: &Value) -> Vec<Line> {
    let mut lines = vec![Line::new(
        Tone::Ask,
        format!(
            "? {call} is in doubt: {} was under way when the process stopped; did it run?",
            text::visible(tool)
        ),
    )];
    lines.extend(parameters(input));
    lines
}

/// Every parameter, whole: `command: make`, and texts of several lines below their name.
fn parameters(input: &Value) -> Vec<Line> {
    let Value::Object(fields) = input else {
        return vec![Line::plain(format!("    {}", text::visible(&input.to_string())))];
    };
    let mut lines = Vec::new();
    for (name, value) in fields {
        let name = text::visible(name);
        match value.as_str() {
            Some(said) if said.trim_end_matches('\n').contains('\n') => {
                lines.push(Line::plain(format!("    {name}:")));
                lines.extend(
                    text::lines(said)
                        .into_iter()
                        .map(|line| Line::plain(format!("      | {line}"))),
                );
            }
            Some(said) => lines.push(Line::plain(format!("    {name}: {}", text::visible(said)))),
            None => lines
                .push(Line::plain(format!("    {name}: {}", text::visible(&value.to_string())))),
        }
    }
    lines
}

fn indented(prefix: &str, said: &str) -> Vec<Line> {
    let mut shown = text::lines(said).into_iter();
    let mut lines =
        vec![Line::new(Tone::Ask, format!("{prefix}{}", shown.next().unwrap_or_default()))];
    lines.extend(shown.map(|line| Line::plain(format!("    {line}"))));
    lines
}
