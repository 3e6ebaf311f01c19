//! The driver `user`: a person decides each move by typing a line.
//!
//! [`parse`] turns a line into a [`Move`]; the driver itself only remembers what the person has to be told
//! with the next prompt. A line that cannot be understood costs nothing: the prompt says what was expected.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Action, Decision, Driver, DriverKind, Fact, Registry, Situation, Wait};
use super::{Said, SavedDriver};
use crate::policy::permission::Author;
use crate::task::CriterionResult;
use crate::tool::{self, ToolResult};

/// What `help` answers.
pub const HELP: &str = "\
shell COMMAND            run a command; !COMMAND is short for it
read PATH [FROM [LINES]] read a file
write PATH TEXT          write a file of one line
glob PATTERN             list files
grep PATTERN [PATH]      search files
skeleton PATH            outline source code
view SYMBOL [PATH]       show a definition
validator.run [CHECK …]  run the project's own checks
memory list              notes of this project; also read NAME, write NAME TEXT, forget NAME
ask TEXT                 ask a person
say TEXT                 say something in the transcript
edit {\"path\": \"…\", \"old\": \"…\", \"new\": \"…\"}
patch {\"diff\": \"…\"}
TOOL {…}                 any tool, with its parameters as JSON
done [SUMMARY]           the work is finished; the acceptance criteria decide
give up [REASON]         it cannot be done
quit                     leave the prompt: the task waits, and resume goes on
help                     this list";

/// What a line can begin with, beside the tools.
const VERBS: [&str; 4] = ["done", "fail", "give up", "help"];

/// How much of a criterion's evidence a prompt shows, in characters from its end.
const EVIDENCE: usize = 2000;

/// What a line means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Move {
    /// Call this tool with these parameters, which are checked.
    Act {
        /// The tool's name.
        tool: String,
        /// Its parameters.
        input: Arc<Value>,
    },
    /// The work is finished.
    Claim(String),
    /// It cannot be done.
    GiveUp(String),
    /// Show the commands.
    Help,
}

/// Reads a person's line. The error is a sentence for the person.
pub fn parse(line: &str) -> Result<Move, String> {
    let line = line.trim();
    if let Some(command) = line.strip_prefix('!') {
        return shell(command);
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim_start();
    if let Some(spec) = tool::find(word) {
        return match serde_json::from_str::<Map<String, Value>>(rest) {
            Ok(fields) => act(spec.name, Value::Object(fields)),
            Err(why) => words(spec.name, rest, &why),
        };
    }
    match word {
        "" => Err("nothing was typed".to_owned()),
        "done" => Ok(Move::Claim(rest.to_owned())),
        "fail" if rest.is_empty() => Err("expected: fail REASON".to_owned()),
        "fail" => Ok(Move::GiveUp(rest.to_owned())),
        "give" if rest == "up" => Ok(Move::GiveUp("the operator gave up".to_owned())),
        "give" if rest.starts_with("up ") => Ok(Move::GiveUp(rest[3..].trim_start().to_owned())),
        "give" => Err("expected: give up [REASON]".to_owned()),
        "help" | "?" => Ok(Move::Help),
        _ => Err(match nearest(word) {
            Some(known) => format!("there is no command {word:?}; did you mean {known}?"),
            None => {
                let known: Vec<&str> = commands().collect();
                format!("there is no command {word:?}; expected one of {}", known.join(", "))
            }
        }),
    }
}

fn commands() -> impl Iterator<Item = &'static str> {
    tool::TOOLS.iter().map(|tool| tool.name).chain(VERBS)
}

fn shell(command: &str) -> Result<Move, String> {
    match command.trim() {
        "" => Err("expected: shell COMMAND".to_owned()),
        command => act("shell", json!({ "command": command })),
    }
}

fn act(tool: &str, input: Value) -> Result<Move, String> {
    if let Some(spec) = tool::find(tool) {
        tool::check_input(spec, &input)?;
    }
    Ok(Move::Act { tool: tool.to_owned(), input: Arc::new(input) })
}

/// The short form of a tool, for those that have one; `why` is what JSON said of the same text.
fn words(tool: &str, rest: &str, why: &serde_json::Error) -> Result<Move, String> {
    match tool {
        "shell" => shell(rest),
        "read" => {
            let usage = || "expected: read PATH [FROM [LINES]]".to_owned();
            let words = split(rest)?;
            let (path, numbers) = words.split_first().ok_or_else(usage)?;
            if numbers.len() > 2 {
                return Err(usage());
            }
            let mut input = json!({ "path": path });
            for (key, number) in ["offset", "limit"].iter().zip(numbers) {
                let number: u64 = number
                    .parse()
                    .map_err(|_| format!("{}; {number:?} is not a number of lines", usage()))?;
                input[key] = json!(number);
            }
            act("read", input)
        }
        "write" => {
            // The text is everything after the path, so that its spaces and quotes stay as typed.
            let (path, text) = first(rest)?;
            match (path.is_empty(), text.is_empty()) {
                (false, false) => {
                    act("write", json!({ "path": path, "content": format!("{text}\n") }))
                }
                _ => Err("expected: write PATH TEXT".to_owned()),
            }
        }
        "glob" if !rest.is_empty() => act("glob", json!({ "pattern": rest })),
        "glob" => Err("expected: glob PATTERN".to_owned()),
        "grep" => match split(rest)?.as_slice() {
            [pattern] => act("grep", json!({ "pattern": pattern })),
            [pattern, path] => act("grep", json!({ "pattern": pattern, "path": path })),
            _ => Err("expected: grep PATTERN [PATH]; quote a pattern with spaces".to_owned()),
        },
        "skeleton" => match split(rest)?.as_slice() {
            [path] => act("skeleton", json!({ "path": path })),
            _ => Err("expected: skeleton PATH; quote a path with spaces".to_owned()),
        },
        "view" => match split(rest)?.as_slice() {
            [symbol] => act("view", json!({ "symbol": symbol })),
            [symbol, path] => act("view", json!({ "symbol": symbol, "path": path })),
            _ => Err("expected: view SYMBOL [PATH]".to_owned()),
        },
        "validator.run" => match split(rest)?.as_slice() {
            [] => act("validator.run", json!({})),
            only => act("validator.run", json!({ "only": only })),
        },
        "memory" if !rest.starts_with('{') => memory(rest),
        "ask" if !rest.is_empty() && !rest.starts_with('{') => {
            act("ask", json!({ "question": rest }))
        }
        "say" if !rest.is_empty() && !rest.starts_with('{') => act("say", json!({ "text": rest })),
        _ => {
            let keys: Vec<&str> = tool::find(tool).map_or_else(Vec::new, |spec| {
                spec.parameters.iter().filter(|p| p.required).map(|p| p.name).collect()
            });
            let shape: Vec<String> = keys.iter().map(|key| format!("{key:?}: …")).collect();
            let shape = shape.join(", ");
            Err(match rest {
                "" => format!("expected: {tool} {{{shape}}}"),
                _ => format!(
                    "expected: {tool} {{{shape}}}; the text after {tool} is not a JSON object: {why}"
                ),
            })
        }
    }
}

fn memory(rest: &str) -> Result<Move, String> {
    let (action, rest) = first(rest)?;
    let (name, text) = first(rest)?;
    match (action, name.is_empty(), text.trim().is_empty()) {
        ("list", true, true) => act("memory", json!({ "action": "list" })),
        ("read" | "forget", false, true) => {
            act("memory", json!({ "action": action, "name": name }))
        }
        ("write", false, false) => {
            act("memory", json!({ "action": "write", "name": name, "text": format!("{text}\n") }))
        }
        _ => Err(
            "expected: memory list, memory read NAME, memory write NAME TEXT or memory forget NAME"
                .to_owned(),
        ),
    }
}

/// The words of a text; one in quotes may hold spaces.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (word, after) = first(rest)?;
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}

/// The first word and what follows the space after it.
fn first(text: &str) -> Result<(&str, &str), String> {
    let text = text.trim_start();
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (word, after) =
                quoted.split_once(quote).ok_or_else(|| format!("a closing {quote} is missing"))?;
            return Ok((word, after.strip_prefix(char::is_whitespace).unwrap_or(after)));
        }
    }
    Ok(text.split_once(char::is_whitespace).unwrap_or((text, "")))
}

/// The known word that is at most two letters away.
fn nearest(word: &str) -> Option<&'static str> {
    let (distance, known) = commands().map(|known| (distance(word, known), known)).min()?;
    (distance <= 2 && distance < known.len()).then_some(known)
}

/// Letters to add, drop or change to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = corner + usize::from(from != *to);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

/// The name of the kind.
pub(crate) const KIND: &str = "user";

/// The kind `user`.
#[derive(Debug)]
pub struct UserKind;

impl DriverKind for UserKind {
    fn name(&self) -> &str {
        KIND
    }

    fn version(&self) -> u32 {
        1
    }

    fn create(&self, config: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        check_config(config)?;
        Ok(Box::new(User::default()))
    }

    fn load(&self, config: &Value, state: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> {
        check_config(config)?;
        match User::deserialize(state) {
            Ok(user) => Ok(Box::new(user)),
            Err(why) => Err(format!("the saved state of user does not fit: {why}")),
        }
    }
}

fn check_config(config: &Value) -> Result<(), String> {
    match config {
        Value::Null => Ok(()),
        Value::Object(fields) => match fields.keys().next() {
            Some(key) => Err(format!("{key}: the driver user takes no configuration")),
            None => Ok(()),
        },
        other => Err(format!("the driver user takes no configuration, got {other}")),
    }
}

/// A person at a prompt.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct User {
    /// Decided and not yet handed out.
    moves: VecDeque<Move>,
    /// What happened since the person's last line, one entry a fact.
    news: Vec<String>,
    /// The operator's notes, for whoever takes over next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The last failed verdict, for the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl Driver for User {
    fn decide(&mut self, _: &Situation<'_>) -> Decision {
        match self.moves.pop_front() {
            Some(Move::Act { tool, input }) => Decision::Act(vec![Action {
                tool,
                input,
                label: String::new(),
                tool_use: String::new(),
                path: Vec::new(),
                author: Author::Operator,
                timeout: None,
            }]),
            Some(Move::Claim(summary)) => Decision::Claim { summary },
            Some(Move::GiveUp(reason)) => Decision::GiveUp { reason, stuck: false },
            Some(Move::Help) => Decision::Wait(Wait::person(HELP)),
            None if self.news.is_empty() => {
                Decision::Wait(Wait::person("What is the next move? Type help for the commands."))
            }
            None => Decision::Wait(Wait::person(self.news.join("\n"))),
        }
    }

    fn observe(&mut self, _: &Situation<'_>, fact: &Fact<'_>) {
        match fact {
            Fact::Told(line) => {
                self.news.clear();
                match parse(line) {
                    Ok(Move::Help) => self.news.push(HELP.to_owned()),
                    Ok(next) => self.moves.push_back(next),
                    Err(expected) => {
                        self.news.push(format!("{expected} (help lists the commands)"))
                    }
                }
            }
            Fact::Result { action, result, .. } => self.news.push(ended(action, result)),
            Fact::Note(note) if note.text.trim().is_empty() => {
                self.news.push("interrupted".to_owned());
            }
            Fact::Note(note) => {
                self.notes.push(note.text.clone());
                self.news.push(format!("note: {}", note.text));
            }
            Fact::VerdictFailed(results) => {
                self.failure = Some(super::rejection(results));
                self.news.push(refused(results));
            }
            // A person is told, never consulted.
            Fact::Retry(retry) => self.news.push(retry.why.clone()),
            Fact::Consulted(_)
            | Fact::Replied(_)
            | Fact::AgentTook(_)
            | Fact::AgentEnded(_)
            | Fact::ChildBegan(_)
            | Fact::ChildEnded(_) => {}
        }
    }

    /// What a model or an agent was told before is kept for the next one.
    fn inherit(&mut self, former: &SavedDriver) {
        let Said { notes, failure } = Said::by(former);
        (self.notes, self.failure) = (notes, failure);
    }

    fn save(&self) -> Value {
        // Plain data with text keys: nothing in it can fail to become JSON.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// How an action ended, in one line; the screen shows the output itself.
fn ended(action: &Action, result: &ToolResult) -> String {
    let mut line = format!("{}: {}", action.tool, result.status.word());
    if let Some(exit) = result.exit {
        line.push_str(&format!(" (exit {exit})"));
    }
    if let Some(last) = result.text.lines().rev().find(|line| !line.trim().is_empty()) {
        let short: String = last.trim().chars().take(120).collect();
        line.push_str(&format!(": {short}"));
    }
    line
}

/// The criteria that did not pass, each with the end of its evidence.
fn refused(results: &[CriterionResult]) -> String {
    let mut text = "the work was not accepted:".to_owned();
    for result in results.iter().filter(|result| result.fails()) {
        text.push_str(&format!("\n- {}", result.title));
        if let Some(exit) = result.exit {
            text.push_str(&format!(" (exit {exit})"));
        }
        let evidence = result.evidence.trim_end();
        let skipped = evidence.chars().count().saturating_sub(EVIDENCE);
        let end: String = evidence.chars().skip(skipped).collect();
        if skipped > 0 {
            text.push_str("\n  …");
        }
        for line in end.lines() {
            text.push_str(&format!("\n  {line}"));
        }
    }
    text
}
