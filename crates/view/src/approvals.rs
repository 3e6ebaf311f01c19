//! What a person is asked, with the commands that answer it.
//!
//! Nobody can judge what was hidden: what a call would do is shown with every character that steers a terminal as an
//! escape, long gaps are counted instead of shown, words that mix alphabets are named, and what is too long for a
//! screen says how much is missing and how to see it. The beginning and the end are always there.

use machine::id::{CallId, TaskId};
use machine::policy::call_hash::CallHash;
use machine::state::Ask;
use serde_json::Value;

use crate::{Line, Tone, scripts, text};

/// Lines of one parameter that are shown: these many from its beginning and from its end.
const LINES: (usize, usize) = (40, 10);

/// Characters of one line that are shown, from its beginning and from its end.
const CHARACTERS: (usize, usize) = (1500, 500);

/// Longer gaps are counted instead of shown: what stands behind one is easily missed.
const GAP: usize = 24;

/// More empty lines in a row than this are counted.
const EMPTY: usize = 4;

/// How much of a call is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// What fits a screen, and how much more there is.
    Screen,
    /// All of it.
    Whole,
}

/// What a person is asked to let pass.
#[derive(Debug, Clone, Copy)]
pub struct Approval<'a> {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: &'a str,
    /// Its parameters.
    pub input: &'a Value,
    /// Why it is asked.
    pub reason: &'a str,
    /// The exact call.
    pub hash: CallHash,
    /// The part of the call that was decisive; may be empty.
    pub part: &'a str,
}

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
    let shown: Vec<(String, String)> = commands
        .iter()
        .map(|next| (text::visible(&next.command), text::visible(&next.effect)))
        .collect();
    let width = shown.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0).min(56);
    let line = |(command, effect): &(String, String)| format!("  {command:width$}  {effect}");
    shown.iter().map(|next| Line::plain(line(next))).collect()
}

/// What is asked, as much as fits a screen.
pub fn lines(ask: &Ask) -> Vec<Line> {
    shown(ask, Amount::Screen)
}

/// What is asked.
pub fn shown(ask: &Ask, amount: Amount) -> Vec<Line> {
    match ask {
        Ask::Approval { call, tool, input, reason, hash, part } => {
            let asked = Approval { call: *call, tool, input, reason, hash: *hash, part };
            approval(&asked, amount)
        }
        Ask::Question { call, question: asked, choices } => question(*call, asked, choices),
        Ask::InDoubt { call, tool, input } => in_doubt(*call, tool, input),
        Ask::Escalation { cause, reason, .. } => {
            let mut lines = indented("? ", reason);
            lines.push(Line::plain(format!("  {cause}; is it to go on?")));
            lines
        }
        Ask::Decision { prompt, .. } => indented("? ", prompt),
        Ask::Child { child, reason } => {
            indented(&format!("? task {child}, which a step of it began, asks: "), reason)
        }
    }
}

/// The commands that answer it, in a task with this driver.
pub fn answers(task: &TaskId, driver: &str, ask: &Ask) -> Vec<Next> {
    match ask {
        Ask::Approval { call, .. } => vec![
            Next::new(format!("drivetrain approve {task} {call}"), "let it run"),
            Next::new(
                format!("drivetrain approve {task} {call} --for task"),
                "let it run, also when it comes again",
            ),
            Next::new(format!("drivetrain deny {task} {call} --reason TEXT"), "refuse it"),
        ],
        Ask::Question { call, choices, .. } => {
            let answer = suggested(choices.first().map(String::as_str));
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
        Ask::Escalation { number, .. } => vec![
            Next::new(format!("drivetrain answer {task} {number} 'go on'"), "have it try again"),
            Next::new(
                format!("drivetrain answer {task} {number} TEXT"),
                "have it try again and tell it how",
            ),
            Next::new(
                format!("drivetrain hand-over {task} --driver user"),
                "decide yourself from here",
            ),
            Next::new(format!("drivetrain answer {task} {number} 'give up'"), "end it"),
        ],
        Ask::Child { child, .. } => vec![Next::new(
            format!("drivetrain why {child}"),
            "what that task asks, and how to answer it",
        )],
        Ask::Decision { number, .. } if driver == "llm" => vec![
            Next::new(format!("drivetrain chat --resume {task}"), "go on talking"),
            Next::new(
                format!("drivetrain answer {task} {number} TEXT"),
                "say one thing to the model",
            ),
        ],
        Ask::Decision { number, .. } if driver == "user" => {
            vec![Next::new(
                format!("drivetrain answer {task} {number} 'shell ls'"),
                "decide the next move (or: help, done)",
            )]
        }
        Ask::Decision { number, prompt } => {
            let answer = suggested(offered(prompt));
            vec![Next::new(format!("drivetrain answer {task} {number} {answer}"), "answer it")]
        }
    }
}

/// An answer as a word of a command to type. One that could not be typed as it is shown, or would be taken for an option, is
/// not suggested.
fn suggested(answer: Option<&str>) -> String {
    let can_be_typed = |answer: &&str| {
        !answer.is_empty() && !answer.starts_with('-') && text::visible(answer) == **answer
    };
    answer.filter(can_be_typed).map_or_else(|| "TEXT".to_owned(), text::quoted)
}

/// The first of the answers that a question names at its end, as `Ship it? (yes / no)` does.
fn offered(prompt: &str) -> Option<&str> {
    let (_, named) = prompt.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    Some(named.split_once(" / ")?.0).filter(|first| !first.is_empty() && !first.contains('\n'))
}

/// May this call run?
pub fn approval(asked: &Approval<'_>, amount: Amount) -> Vec<Line> {
    let (tool, reason) = (text::visible(asked.tool), text::visible(asked.reason));
    let call = asked.call;
    let mut lines = vec![Line::new(Tone::Ask, format!("? {call} wants to run {tool} ({reason})"))];
    lines.extend(parameters(asked.input, amount));
    let is_whole = asked.input["command"].as_str().is_some_and(|all| all.trim() == asked.part);
    if !asked.part.is_empty() && !is_whole {
        lines.push(Line::plain(format!("    asked about: {}", spaced(asked.part))));
    }
    lines.extend(warnings(asked.input).into_iter().map(|said| Line::new(Tone::Bad, said)));
    lines.push(Line::new(Tone::Faint, format!("    hash: {}", asked.hash)));
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
            "? {call} is in doubt: {} was under way when it was cut off; did it run?",
            text::visible(tool)
        ),
    )];
    lines.extend(parameters(input, Amount::Screen));
    lines
}

/// Every parameter: `command: make`, and texts of several lines below their name.
fn parameters(input: &Value, amount: Amount) -> Vec<Line> {
    let Value::Object(fields) = input else {
        return vec![Line::plain(format!("    {}", cut(&spaced(&input.to_string()), amount)))];
    };
    let mut lines = Vec::new();
    for (name, value) in fields {
        let name = text::visible(name);
        match value.as_str() {
            Some(said) if said.trim_end_matches('\n').contains('\n') => {
                lines.push(Line::plain(format!("    {name}:")));
                let block = block(said, amount).into_iter();
                lines.extend(block.map(|line| Line::plain(format!("      | {line}"))));
            }
            Some(said) => {
                lines.push(Line::plain(format!("    {name}: {}", cut(&spaced(said), amount))));
            }
            None => {
                let said = cut(&spaced(&value.to_string()), amount);
                lines.push(Line::plain(format!("    {name}: {said}")));
            }
        }
    }
    lines
}

/// The lines of a text: its beginning and its end, with how much stands between them.
fn block(said: &str, amount: Amount) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut empty = 0;
    for line in said.lines() {
        if line.trim().is_empty() && line.len() <= GAP {
            empty += 1;
            continue;
        }
        end_gap(&mut all, &mut empty);
        all.push(cut(&spaced(&line.replace('\t', "    ")), amount));
    }
    end_gap(&mut all, &mut empty);
    let (first, last) = LINES;
    // A little more than the limit is shown rather than counted.
    if amount == Amount::Whole || all.len() <= first + last + 1 {
        return all;
    }
    let missing = all.len() - first - last;
    let lines = text::plural(missing, "line");
    let note = format!("… {missing} more {lines} here, {} bytes in all; {SEE_ALL}", said.len());
    let tail = all.split_off(all.len() - last);
    all.truncate(first);
    all.push(note);
    all.extend(tail);
    all
}

const SEE_ALL: &str = "drivetrain approvals --whole shows them";

fn end_gap(lines: &mut Vec<String>, empty: &mut usize) {
    if *empty > EMPTY {
        lines.push(format!("\\({empty} empty lines)"));
    } else {
        lines.extend(std::iter::repeat_n(String::new(), *empty));
    }
    *empty = 0;
}

/// A line in one piece, or its beginning and its end with how much stands between them.
fn cut(shown: &str, amount: Amount) -> String {
    let (first, last) = CHARACTERS;
    let count = shown.chars().count();
    if amount == Amount::Whole || count <= first + last + 100 {
        return shown.to_owned();
    }
    let head: String = shown.chars().take(first).collect();
    let tail: String = shown.chars().skip(count - last).collect();
    let missing = count - first - last;
    format!("{head} …({missing} more characters here; {SEE_ALL})… {tail}")
}

/// The text in one line, made visible, with long gaps counted.
fn spaced(said: &str) -> String {
    let visible = text::visible(said);
    let mut shown = String::with_capacity(visible.len());
    let mut gap = 0;
    for c in visible.chars().chain(['\n']) {
        if c.is_whitespace() && c != '\n' {
            gap += 1;
            continue;
        }
        match gap {
            0..=GAP => shown.extend(std::iter::repeat_n(' ', gap)),
            _ => shown.push_str(&format!("\\({gap} spaces)")),
        }
        gap = 0;
        shown.push(c);
    }
    shown.pop();
    shown
}

/// What a person should know who reads a call: that it holds what cannot be seen, or what only looks familiar.
fn warnings(input: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    collect(input, &mut texts);
    let hidden: usize = texts.iter().map(|said| text::hidden(said)).sum();
    let mut warnings = Vec::new();
    if hidden > 0 {
        let what = text::plural(hidden, "character");
        warnings.push(format!("    ! {hidden} {what} that cannot be seen, shown as escapes"));
    }
    for scripts::Mixed { word, odd: (letter, script) } in
        texts.iter().flat_map(|said| scripts::mixed(said)).take(5)
    {
        warnings.push(format!(
            "    ! {} mixes alphabets: U+{:04X} is {script}",
            text::short(&word, 60),
            u32::from(letter)
        ));
    }
    warnings
}

/// Every text of a value, names of fields too.
fn collect<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(said) => texts.push(said),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(fields) => {
            for (name, value) in fields {
                texts.push(name);
                collect(value, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn indented(prefix: &str, said: &str) -> Vec<Line> {
    let mut shown = text::lines(said).into_iter();
    let mut lines =
        vec![Line::new(Tone::Ask, format!("{prefix}{}", shown.next().unwrap_or_default()))];
    lines.extend(shown.map(|line| Line::plain(format!("    {line}"))));
    lines
}
