//! The script of a fake agent: what `drivetrain fake agent` says and does, one step a line. Here is what a script means;
//! playing it is the runtime's.

use serde_json::{Value, json};

use super::claude::{OWN_SERVER, own_name};

/// What an unknown step is told.
const KNOWN: &str = "a line of JSON, exit N, signal N, sleep SECONDS, stdout N lines, line SIZE, stderr SIZE, close \
                     stdout, deaf, fork-daemon, setsid-child, ignore SIGTERM, run COMMAND, write PATH, rm -rf PATH, \
                     tool-without-asking COMMAND, ask COMMAND, call TOOL INPUT, begin call TOOL INPUT, await calls, \
                     permissionMode MODE, connect PATH, refuse REASON, refuse model, await interrupt, note prompt, \
                     next prompt, resumed";

/// A script: what is played after each prompt, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Played {
    /// What a process plays that begins a conversation: one list for each prompt, and the last for all after it.
    pub begun: Vec<Vec<Step>>,
    /// What a process plays that goes on with a conversation; the same as one that begins it if this is empty.
    pub resumed: Vec<Vec<Step>>,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Says a line.
    Say(String),
    /// Says what is no whole line.
    Cut(String),
    /// Ends with this status.
    Exit(u8),
    /// Is ended by this signal.
    Signal(i32),
    /// Does nothing, for so many milliseconds.
    Sleep(u64),
    /// Says so many messages that nobody knows.
    Lines(u64),
    /// Says one line of so many bytes.
    Line(u64),
    /// Writes so many bytes to standard error.
    Stderr(u64),
    /// Says nothing more, and goes on.
    CloseStdout,
    /// Reads nothing more.
    Deaf,
    /// Leaves a process behind that has its pipes, in a session of its own, with nobody above it.
    Daemon,
    /// Starts a process in a session of its own.
    Session,
    /// Takes no notice of SIGTERM, from its start on.
    IgnoreTerm,
    /// Refuses to be greeted, for this reason: it never gets as far as a prompt.
    Refuse(String),
    /// Runs a command line, and says nothing of it.
    Run(String),
    /// Runs a command line and says so, without having asked.
    Unasked(String),
    /// Asks whether it may run a command line, and does so if it may.
    Ask(String),
    /// Calls a tool of whoever drives it, with these parameters; what came of it is noted in `called.txt`.
    Call {
        /// The tool, as it is offered.
        tool: String,
        /// Its parameters.
        input: Value,
        /// Whether the result is waited for.
        waits: bool,
    },
    /// Waits for the results of all calls that have none.
    AwaitCalls,
    /// Writes a file.
    Write(String),
    /// Removes a folder and all in it; its own is `worktree`.
    Remove(String),
    /// Refuses to ask another model.
    RefuseModel,
    /// Waits until it is told to stop.
    AwaitInterrupt,
    /// Notes in `heard.jsonl` what it was asked.
    Note,
    /// Tries each socket in a folder, and notes in `connected.txt` what came of it.
    Connect(String),
}

impl Played {
    /// Reads a script; the error says which line nobody understands.
    pub fn parse(text: &str) -> Result<Played, String> {
        let mut played = Played { begun: vec![Vec::new()], resumed: Vec::new() };
        let mut resumes = false;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            let list = if resumes { &mut played.resumed } else { &mut played.begun };
            match line {
                "" => {}
                _ if line.starts_with('#') => {}
                "next prompt" => list.push(Vec::new()),
                "resumed" => {
                    resumes = true;
                    played.resumed.push(Vec::new());
                }
                _ => {
                    let step = step(line).ok_or_else(|| {
                        format!("line {}: {line:?} is no step; one of: {KNOWN}", index + 1)
                    })?;
                    if let Some(last) = list.last_mut() {
                        last.push(step);
                    }
                }
            }
        }
        Ok(played)
    }

    /// What is played after the prompt of this number, from 0.
    pub fn after(&self, prompt: usize, resumes: bool) -> &[Step] {
        let list = if resumes && !self.resumed.is_empty() { &self.resumed } else { &self.begun };
        list.get(prompt).or(list.last()).map_or(&[], Vec::as_slice)
    }

    /// Why it refuses to be greeted, if it does.
    pub fn refusal(&self) -> Option<&str> {
        let mut steps = self.begun.iter().chain(&self.resumed).flatten();
        steps.find_map(|step| match step {
            Step::Refuse(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Whether it refuses to ask another model.
    pub fn refuses_model(&self) -> bool {
        let lists = self.begun.iter().chain(&self.resumed);
        lists.flatten().any(|step| *step == Step::RefuseModel)
    }

    /// Whether SIGTERM does nothing to it.
    pub fn ignores_term(&self) -> bool {
        let lists = self.begun.iter().chain(&self.resumed);
        lists.flatten().any(|step| *step == Step::IgnoreTerm)
    }
}

fn step(line: &str) -> Option<Step> {
    if line.starts_with('{') {
        let is_whole = serde_json::from_str::<Value>(line).is_ok();
        return Some(if is_whole {
            Step::Say(line.to_owned())
        } else {
            Step::Cut(line.to_owned())
        });
    }
    let rest = |word: &str| {
        let rest = line.strip_prefix(word)?.strip_prefix(' ')?.trim();
        (!rest.is_empty()).then(|| rest.to_owned())
    };
    match line {
        "close stdout" => return Some(Step::CloseStdout),
        "deaf" => return Some(Step::Deaf),
        "fork-daemon" => return Some(Step::Daemon),
        "setsid-child" => return Some(Step::Session),
        "ignore SIGTERM" => return Some(Step::IgnoreTerm),
        "await calls" => return Some(Step::AwaitCalls),
        "refuse model" => return Some(Step::RefuseModel),
        "await interrupt" => return Some(Step::AwaitInterrupt),
        "note prompt" => return Some(Step::Note),
        _ => {}
    }
    if let Some(count) = rest("stdout").and_then(|rest| rest.strip_suffix(" lines")?.parse().ok()) {
        return Some(Step::Lines(count));
    }
    if let Some(mode) = rest("permissionMode") {
        let status = json!({ "type": "system", "subtype": "status", "status": null, "permissionMode": mode });
        return Some(Step::Say(status.to_string()));
    }
    if let Some(seconds) = rest("sleep").and_then(|rest| rest.parse::<f64>().ok()) {
        // Longer than anybody waits, and a number that every clock can add.
        return Some(Step::Sleep((seconds.clamp(0.0, 1e6) * 1000.0) as u64));
    }
    rest("exit")
        .and_then(|code| code.parse().ok().map(Step::Exit))
        .or_else(|| rest("signal").and_then(|number| number.parse().ok().map(Step::Signal)))
        .or_else(|| rest("line").and_then(|text| size(&text).map(Step::Line)))
        .or_else(|| rest("stderr").and_then(|text| size(&text).map(Step::Stderr)))
        .or_else(|| rest("run").map(Step::Run))
        .or_else(|| rest("tool-without-asking").map(Step::Unasked))
        .or_else(|| rest("ask").map(Step::Ask))
        .or_else(|| rest("call").and_then(|call| called(&call, true)))
        .or_else(|| rest("begin call").and_then(|call| called(&call, false)))
        .or_else(|| rest("write").map(Step::Write))
        .or_else(|| rest("rm -rf").map(Step::Remove))
        .or_else(|| rest("connect").map(Step::Connect))
        .or_else(|| rest("refuse").map(Step::Refuse))
}

/// `TOOL INPUT`.
fn called(call: &str, waits: bool) -> Option<Step> {
    let (tool, input) = call.split_once(' ')?;
    let input = serde_json::from_str(input.trim()).ok()?;
    Some(Step::Call { tool: tool.to_owned(), input, waits })
}

/// `10`, `64KB`, `100MB`, `1GB`.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = [("KB", 10), ("MB", 20), ("GB", 30)]
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .unwrap_or((text, 0));
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The lines of a call: that it is made, and what came of it.
pub fn call(id: &str, command: &str) -> [Value; 2] {
    let made = json!({
        "type": "assistant",
        "message": {
            "id": format!("msg_{id}"),
            "role": "assistant",
            "model": "played",
            "content": [{ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": command } }],
        },
        "parent_tool_use_id": null,
    });
    let ended = json!({
        "type": "user",
        "message": {
            "role": "user",
            "content": [{ "type": "tool_result", "tool_use_id": id, "content": "ran" }],
        },
        "parent_tool_use_id": null,
    });
    [made, ended]
}

/// The question whether a command line may run.
pub fn question(key: &str, id: &str, command: &str) -> Value {
    let request = json!({
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "tool_use_id": id,
        "input": { "command": command },
    });
    json!({ "type": "control_request", "request_id": key, "request": request })
}

/// The lines of a call of a tool of whoever drives it: that it is made, and the request.
pub fn request(key: &str, id: &str, number: u64, tool: &str, input: &Value) -> [Value; 2] {
    let name = own_name(tool);
    let made = json!({
        "type": "assistant",
        "message": {
            "id": format!("msg_{id}"),
            "role": "assistant",
            "model": "played",
            "content": [{ "type": "tool_use", "id": id, "name": name, "input": input }],
        },
        "parent_tool_use_id": null,
    });
    let params =
        json!({ "name": tool, "arguments": input, "_meta": { "claudecode/toolUseId": id } });
    let message =
        json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params });
    let request =
        json!({ "subtype": "mcp_message", "server_name": OWN_SERVER, "message": message });
    [made, json!({ "type": "control_request", "request_id": key, "request": request })]
}

/// What such a call came to, as its model is told.
pub fn result(id: &str, answer: &Value) -> Value {
    let is_error = answer["result"]["isError"] != false;
    json!({
        "type": "user",
        "message": {
            "role": "user",
            "content": [{
                "type": "tool_result",
                "tool_use_id": id,
                "is_error": is_error,
                "content": [{ "type": "text", "text": words(answer) }],
            }],
        },
        "parent_tool_use_id": null,
    })
}

/// The words of an answer: of the result, or of the error.
pub fn words(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.or_else(|| answer["error"]["message"].as_str()).unwrap_or_default()
}

/// The words of a prompt, in one block or in several.
pub fn prompt(message: &Value) -> String {
    match &message["message"]["content"] {
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}

/// The answer to a request of whoever drives it.
pub fn answer(request: &Value) -> Value {
    let response =
        json!({ "subtype": "success", "request_id": request["request_id"], "response": {} });
    json!({ "type": "control_response", "response": response })
}

/// The answer to the order to ask another model, with a reason why not; none if the message is no such order.
pub fn model_refusal(message: &Value) -> Option<Value> {
    (message["request"]["subtype"] == "set_model").then(|| {
        let (id, error) = (&message["request_id"], "there is no such model");
        let response = json!({ "subtype": "error", "request_id": id, "error": error });
        json!({ "type": "control_response", "response": response })
    })
}

/// The answer to the greeting of whoever drives it, with the reason why not; none if the message is no greeting. Claude Code
/// is greeted by a control request, the others by a call.
pub fn refusal(message: &Value, reason: &str) -> Option<Value> {
    if message["method"] == "initialize" {
        let error = json!({ "code": -32603, "message": reason });
        return Some(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
    }
    let greets =
        message["type"] == "control_request" && message["request"]["subtype"] == "initialize";
    greets.then(|| {
        let response =
            json!({ "subtype": "error", "request_id": message["request_id"], "error": reason });
        json!({ "type": "control_response", "response": response })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_and_prompts_have_their_own() {
        let text = "# how it goes\n{\"type\":\"x\"}\n{\"type\":\nexit 3\nnext prompt\nstderr 2KB\nstdout 5 lines\n\
                    sleep 0.5\ncall view {\"symbol\":\"x\"}\nawait calls\nresumed\nrm -rf worktree\n";
        let played = Played::parse(text).unwrap_or_default();
        let first = [
            Step::Say("{\"type\":\"x\"}".to_owned()),
            Step::Cut("{\"type\":".to_owned()),
            Step::Exit(3),
        ];
        assert_eq!(played.after(0, false), first);
        let call =
            Step::Call { tool: "view".to_owned(), input: json!({ "symbol": "x" }), waits: true };
        let second = [Step::Stderr(2048), Step::Lines(5), Step::Sleep(500), call, Step::AwaitCalls];
        assert_eq!(played.after(1, false), second);
        assert_eq!(played.after(9, false), second, "the last stands for all after it");
        assert_eq!(played.after(0, true), [Step::Remove("worktree".to_owned())]);
        assert!(!played.ignores_term());
    }

    #[test]
    fn a_step_that_nobody_knows_is_told_with_its_line() {
        let error = Played::parse("exit 0\nexplode\n").unwrap_err();
        assert!(
            error.starts_with("line 2: \"explode\" is no step; one of: a line of JSON"),
            "{error}"
        );
        for wrong in [
            "exit",
            "exit x",
            "stderr lots",
            "signal",
            "sleep soon",
            "stdout 5",
            "call",
            "call view",
            "call view {",
            "begin call view x",
        ] {
            assert!(Played::parse(wrong).is_err(), "{wrong}");
        }
    }
}
