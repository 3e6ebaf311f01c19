//! A fake agent of the Agent Client Protocol: plays a script on its standard input and output, in which it asks its client
//! for files, commands and permissions, and notes what it is answered. For tests of what becomes of that.
//!
//! A script has one step a line, in JSON; `#` begins a line for people. Texts may hold `$FOLDER`, where it works, and
//! `$TERMINAL`, the last terminal that it was given. Answers are noted in `answers.jsonl` in its home, each as it comes.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// How often it looks for a file that it waits for.
const GLANCE: Duration = Duration::from_millis(20);

/// One step.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    /// Asks its client for something, and waits for the answer.
    Ask(Request),
    /// The same, and does not wait.
    Begin(Request),
    /// Waits until everything that it asked has been answered.
    Await,
    /// Says this.
    Say(String),
    /// Tells this of what it does.
    Update(Value),
    /// Makes a file itself.
    Touch(String),
    /// Waits for a file.
    Until(String),
    /// Waits until its turn is cancelled and everything that it asked has been answered; the turn ends so.
    UntilCancelled,
    /// Ends its process.
    Exit(u8),
    /// What follows is for the next prompt.
    NextPrompt,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    method: String,
    #[serde(default)]
    params: Value,
}

struct Player {
    heard: Receiver<Value>,
    home: PathBuf,
    folder: String,
    terminal: String,
    last_id: u64,
    /// What was asked and not answered: the methods, by their ids.
    open: BTreeMap<u64, String>,
    is_cancelled: bool,
}

/// Plays the script. Ends as the script says, or when its input does.
pub fn play(script: &Path) -> io::Result<u8> {
    let mut steps = parse(&fs::read_to_string(script)?)?;
    let (sender, heard) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(io::stdin()).lines().map_while(Result::ok) {
            let Ok(message) = serde_json::from_str(&line) else { continue };
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut player = Player {
        heard,
        home,
        folder: String::new(),
        terminal: String::new(),
        last_id: 1000,
        open: BTreeMap::new(),
        is_cancelled: false,
    };
    while let Ok(message) = player.heard.recv() {
        let id = &message["id"];
        match message["method"].as_str() {
            Some("session/prompt") => {
                player.is_cancelled = false;
                let Some(stop) = player.turn(&mut steps)? else { return Ok(0) };
                match stop {
                    Stop::Turn(reason) => say(
                        &json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": reason } }),
                    )?,
                    Stop::Process(code) => return Ok(code),
                }
            }
            _ => player.greet(&message)?,
        }
    }
    Ok(0)
}

/// What ends.
enum Stop {
    Turn(&'static str),
    Process(u8),
}

fn parse(text: &str) -> io::Result<VecDeque<Step>> {
    let lines = text.lines().enumerate();
    let steps = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let parsed = steps.map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("line {}: {error}", number + 1))
        })
    });
    parsed.collect()
}

impl Player {
    /// Answers what comes before a prompt, or beside one.
    fn greet(&mut self, message: &Value) -> io::Result<()> {
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": 1,
                "agentCapabilities": { "loadSession": true },
                "agentInfo": { "name": "fake", "version": "1.0.0" },
            }),
            Some("session/new" | "session/load") => {
                let folder = message["params"]["cwd"].as_str().unwrap_or_default();
                folder.clone_into(&mut self.folder);
                json!({ "sessionId": "s1" })
            }
            _ => return Ok(()),
        };
        say(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
    }

    /// Plays up to the next prompt; nothing if its input has ended.
    fn turn(&mut self, steps: &mut VecDeque<Step>) -> io::Result<Option<Stop>> {
        while let Some(step) = steps.pop_front() {
            let heard = match step {
                Step::NextPrompt => break,
                Step::Exit(code) => return Ok(Some(Stop::Process(code))),
                Step::Say(text) => {
                    let content = json!({ "type": "text", "text": text });
                    update(&json!({ "sessionUpdate": "agent_message_chunk", "content": content }))?;
                    true
                }
                Step::Update(told) => {
                    update(&told)?;
                    true
                }
                Step::Touch(name) => {
                    fs::write(Path::new(&self.folder).join(name), "")?;
                    true
                }
                Step::Until(name) => {
                    while !Path::new(&self.folder).join(&name).exists() {
                        std::thread::sleep(GLANCE);
                    }
                    true
                }
                Step::Begin(request) => {
                    self.ask(&request)?;
                    true
                }
                Step::Ask(request) => {
                    let id = self.ask(&request)?;
                    self.hear_until(|player| !player.open.contains_key(&id))?
                }
                Step::Await => self.hear_until(|player| player.open.is_empty())?,
                Step::UntilCancelled => {
                    let is_over = |player: &Player| player.is_cancelled && player.open.is_empty();
                    if !self.hear_until(is_over)? {
                        return Ok(None);
                    }
                    return Ok(Some(Stop::Turn("cancelled")));
                }
            };
            if !heard {
                return Ok(None);
            }
        }
        Ok(Some(Stop::Turn("end_turn")))
    }

    fn ask(&mut self, request: &Request) -> io::Result<u64> {
        self.last_id += 1;
        self.open.insert(self.last_id, request.method.clone());
        let mut params = request.params.clone();
        self.fill(&mut params);
        params["sessionId"] = json!("s1");
        say(
            &json!({ "jsonrpc": "2.0", "id": self.last_id, "method": request.method, "params": params }),
        )?;
        Ok(self.last_id)
    }

    /// Puts what a script cannot know into its place.
    fn fill(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                *text = text.replace("$FOLDER", &self.folder).replace("$TERMINAL", &self.terminal);
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.fill(field)),
            _ => {}
        }
    }

    /// Takes what it is told until this holds; false if its input has ended.
    fn hear_until(&mut self, is_over: impl Fn(&Player) -> bool) -> io::Result<bool> {
        while !is_over(self) {
            let Ok(message) = self.heard.recv() else { return Ok(false) };
            if message["method"] == "session/cancel" {
                self.is_cancelled = true;
            }
            let asked = message["id"].as_u64().filter(|_| message["method"].is_null());
            let Some(method) = asked.and_then(|id| self.open.remove(&id)) else { continue };
            if let Some(terminal) = message["result"]["terminalId"].as_str() {
                terminal.clone_into(&mut self.terminal);
            }
            let mut noted = json!({ "method": method });
            for name in ["result", "error"] {
                if let Some(value) = message.get(name) {
                    noted[name] = value.clone();
                }
            }
            let place = self.home.join("answers.jsonl");
            let mut file = fs::File::options().append(true).create(true).open(place)?;
            writeln!(file, "{noted}")?;
        }
        Ok(true)
    }
}

fn update(update: &Value) -> io::Result<()> {
    let params = json!({ "sessionId": "s1", "update": update });
    say(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
}

fn say(message: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_a_step_a_line_and_a_wrong_one_is_named() {
        let text = "# first\n{\"say\":\"a\"}\n\n\"await\"\n{\"ask\":{\"method\":\"m\"}}\n";
        let request = Request { method: "m".to_owned(), params: Value::Null };
        let steps = [Step::Say("a".to_owned()), Step::Await, Step::Ask(request)];
        assert_eq!(parse(text).unwrap(), steps);
        let error = parse("\"await\"\n{\"sing\":1}\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2: unknown variant `sing`"), "{error}");
    }
}
