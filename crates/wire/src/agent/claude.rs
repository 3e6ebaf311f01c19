//! Claude Code: one live process a conversation, lines of JSON both ways, and its control requests over the same pipe.
//!
//! Every call of every tool is asked about twice. The hook before it is answered here, at once, and always says that
//! somebody must be asked; then the program asks whether it may, which waits for as long as it takes and counts as no
//! if anything goes wrong. A hook alone would not do: it waits for a set time only, and versions that cannot be told
//! to block on failure run the call once it has passed. For the same reason the tools are named in rules of the
//! program's own that ask ([`command_line`]): they hold if the hook does not.

mod control;
mod frame;
mod mcp;
mod means;
mod spending;
mod start;
mod turn;
mod voice;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use machine::agent::{AgentEnd, AgentEvent, AgentFacts, AgentFault, AgentOrder, AgentTurn};
use machine::server::ToolOffer;
use machine::stream::StreamEvent;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::AgentCodec;
use super::lines::{LONGEST, Line, Lines, quoted};
use super::place::Place;
use super::table::CLAUDE;
use crate::halves::mended;
use control::{Open, Order};
pub use means::means;
use spending::Spending;
pub(super) use start::launch;
pub use start::{ClaudeKey, ClaudeOptions, PASSED, Session, command_line, environment};
use turn::Turns;
use voice::{Ending, Heard, Voice};

/// The name of the server of our own tools, as the program knows it.
pub const OWN_SERVER: &str = machine::agent::offer::SOURCE;

/// What the program calls a tool of that server.
pub fn own_name(tool: &str) -> String {
    format!("mcp__{OWN_SERVER}__{tool}")
}

/// How much of a tool's result is told; what follows is left out.
const LONGEST_RESULT: usize = 64 << 10;
/// How many things of one kind are remembered: calls whose end has not come, helpers that speak, tasks in the
/// background. A program that goes on for ever does not take memory for ever.
const MOST: usize = 4096;

/// How a piece of an answer begins in every version that was tried. One that begins otherwise is understood too.
const PIECE: &[u8] = br#"{"type":"stream_event""#;

/// Modes of permission in which it asks nobody. It is in none of them unless it was started so.
const UNGATED: &[&str] = &["bypassPermissions", "dontAsk", "auto"];

/// The two directions of the pipe of one process.
pub struct ClaudeCodec {
    facts: AgentFacts,
    /// A hook that fails is certain to block its call.
    hook_blocks: bool,
    offers: Vec<ToolOffer>,
    lines: Lines,
    /// The next identifier of a prompt.
    uuid: u128,
    /// How many requests were made.
    requests: u64,
    /// Orders that the program has not answered, by their request.
    orders: BTreeMap<String, Order>,
    /// Questions of the program that wait for an answer, by their request.
    open: BTreeMap<String, Open>,
    /// What they were answered, and it has not repeated.
    echoes: VecDeque<Vec<u8>>,
    is_ready: bool,
    session: String,
    turns: Turns,
    /// It has said that a turn begins, and not that it ended. Every turn of every version that was tried begins so.
    is_begun: bool,
    /// The mode of permission that it was started in.
    mode: String,
    /// Who speaks: the agent itself by the empty name, helpers by the call that started them.
    voices: BTreeMap<Arc<str>, Voice>,
    /// Names of the tools of calls that have not ended.
    calls: BTreeMap<Arc<str>, String>,
    place: Place,
    /// Where calls will run that the hook has told of and that were not asked about yet.
    folders: BTreeMap<String, Value>,
    spending: Spending,
    background: Background,
    /// A turn that ended while helpers work in its background: the program goes on by itself when they have ended.
    held: Option<Held>,
    /// A task of the program has ended since the turn began, which may make it begin anew inside of the turn.
    is_woken: bool,
    /// What the program called the last failure of its model.
    failure: Option<String>,
    interrupts: bool,
}

/// What counts of a turn that goes on.
#[derive(Debug, Default)]
struct Held {
    ordered: bool,
    refused: u64,
}

/// The program's tasks that run in its background.
#[derive(Debug, Default)]
struct Background {
    tasks: BTreeSet<String>,
    /// Those of them in which a model works, as far as the program tells. They come to an end, and the program says then what
    /// came of them; a shell may run for ever.
    helpers: usize,
    /// The program tells the whole set at once; single starts and ends do not count then.
    is_told: bool,
}

/// A piece of an answer: the one message that comes often, so it is not read into a tree.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    event: &'a RawValue,
    #[serde(default)]
    parent_tool_use_id: Option<String>,
}

impl ClaudeCodec {
    /// For a process that was started with these options and offers these tools. `seed` is made by chance, another one
    /// for each process: the identifiers of prompts begin there.
    pub fn new(options: &ClaudeOptions, offers: Vec<ToolOffer>, seed: u128) -> ClaudeCodec {
        let session = match &options.session {
            Session::New(id) | Session::Resume(id) | Session::Fork { to: id, .. } => id.clone(),
        };
        ClaudeCodec {
            facts: facts(&options.version, &options.mode, options.hook_blocks()),
            hook_blocks: options.hook_blocks(),
            offers,
            lines: Lines::new(LONGEST),
            uuid: seed,
            requests: 0,
            orders: BTreeMap::new(),
            open: BTreeMap::new(),
            echoes: VecDeque::new(),
            is_ready: false,
            session,
            turns: Turns::default(),
            is_begun: false,
            mode: options.mode.clone(),
            voices: BTreeMap::new(),
            calls: BTreeMap::new(),
            place: Place::new(&options.folder),
            folders: BTreeMap::new(),
            spending: Spending::default(),
            background: Background::default(),
            held: None,
            is_woken: false,
            failure: None,
            interrupts: false,
        }
    }

    fn line(&mut self, line: &[u8], reply: &mut Vec<u8>, out: &mut Vec<AgentEvent>) {
        if self.is_echo(line) {
            return;
        }
        let line = &*mended(line);
        if line.starts_with(PIECE)
            && let Ok(piece) = serde_json::from_slice::<Piece<'_>>(line)
            && piece.kind == "stream_event"
        {
            let parent = piece.parent_tool_use_id.unwrap_or_default();
            return self.on_piece(piece.event.get(), &parent, out);
        }
        match serde_json::from_slice::<Value>(line) {
            Ok(message @ Value::Object(_)) => self.message(&message, reply, out),
            Ok(_) => out.push(malformed("a line is no JSON object", line)),
            Err(error) => out.push(malformed(&format!("a line is no JSON: {error}"), line)),
        }
    }

    fn message(&mut self, message: &Value, reply: &mut Vec<u8>, out: &mut Vec<AgentEvent>) {
        let parent = message["parent_tool_use_id"].as_str().unwrap_or_default();
        match message["type"].as_str().unwrap_or_default() {
            "stream_event" => self.on_piece(&message["event"].to_string(), parent, out),
            "assistant" => self.on_assistant(message, parent, out),
            "user" => self.on_user(message, parent, out),
            "system" => self.on_system(message, out),
            "result" => self.on_result(message, out),
            "control_request" => self.on_request(message, reply, out),
            "control_response" => self.on_response(&message["response"], out),
            "control_cancel_request" => {
                let key = message["request_id"].as_str().unwrap_or_default();
                self.withdraw(key, out);
            }
            "conversation_reset" => self.hear_session(message, out),
            // How far a prompt has come is told by its echo; the others are for screens.
            "command_lifecycle" | "keep_alive" | "rate_limit_event" | "auth_status"
            | "tool_progress" | "tool_use_summary" | "prompt_suggestion" => {}
            kind => out.push(AgentEvent::Unknown { kind: told(kind) }),
        }
    }

    fn on_piece(&mut self, event: &str, parent: &str, out: &mut Vec<AgentEvent>) {
        self.begin_turn(parent, out);
        let heard = self.voice(parent).piece(event);
        self.tell(parent, heard, out);
    }

    fn on_assistant(&mut self, message: &Value, parent: &str, out: &mut Vec<AgentEvent>) {
        self.begin_turn(parent, out);
        let error = message["error"].as_str();
        if message["message"]["model"] == "<synthetic>" || error.is_some() {
            // Words of the program, not of its model: the turn's result has them too.
            self.failure = error.map(str::to_owned).or(self.failure.take());
            return;
        }
        // Its helpers may go on when its own turn has ended.
        if !self.is_begun && parent.is_empty() {
            out.push(broke(AgentFault::Protocol, "it speaks, and no turn has begun"));
        }
        for block in message["message"]["content"].as_array().into_iter().flatten() {
            if let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) {
                self.calls.insert(id.into(), name.to_owned());
                if self.calls.len() > MOST {
                    self.calls.pop_first();
                }
            }
        }
        let heard = self.voice(parent).blocks(&message["message"]);
        self.tell(parent, heard, out);
        if message["aborted"] == true {
            let heard = self.voice(parent).ended(Ending::Stopped);
            self.tell(parent, heard, out);
        }
    }

    fn on_user(&mut self, message: &Value, parent: &str, out: &mut Vec<AgentEvent>) {
        if message["isReplay"] == true {
            self.turns.taken(message["uuid"].as_str().unwrap_or_default());
            return;
        }
        // Text is what the program tells its model in a person's place, or what a helper is asked.
        for block in message["message"]["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                let heard = self.voice(parent).ended_blocks();
                self.tell(parent, heard, out);
                self.tool_ended(block, out);
            }
        }
    }

    fn tool_ended(&mut self, block: &Value, out: &mut Vec<AgentEvent>) {
        let id: Arc<str> = block["tool_use_id"].as_str().unwrap_or_default().into();
        let tool = self.calls.remove(&id).unwrap_or_default();
        let text = match &block["content"] {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => {
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        };
        let ok = block["is_error"] != true;
        out.push(AgentEvent::ToolEnded { id, tool, ok, text: beginning(text, LONGEST_RESULT) });
    }

    fn on_system(&mut self, message: &Value, out: &mut Vec<AgentEvent>) {
        match message["subtype"].as_str().unwrap_or_default() {
            "init" => {
                self.hear_session(message, out);
                self.hear_mode(message, out);
                self.place.hear(&message["cwd"]);
                let woken = std::mem::take(&mut self.is_woken);
                if std::mem::replace(&mut self.is_begun, true) && !woken {
                    out.push(broke(AgentFault::Protocol, "a turn begins inside another one"));
                }
                self.hear_version(message["claude_code_version"].as_str(), out);
                self.begin_turn("", out);
            }
            "status" => {
                self.hear_mode(message, out);
                if message["status"] == "compacting" {
                    self.begin_turn("", out);
                }
            }
            "api_retry" => {
                let status = message["error_status"].as_u64();
                let status = status.and_then(|status| u16::try_from(status).ok());
                let kind = voice::failure(status, message["error"].as_str(), "").word();
                let again_in = message["retry_delay_ms"].as_u64();
                let heard = self.voice("").ended(Ending::Broken { kind, again_in });
                self.tell("", heard, out);
                out.push(AgentEvent::Retries { kind: kind.to_owned(), again_in });
            }
            // Another model is asked in its place.
            "model_fallback" => {
                let kind = message["trigger"].as_str().unwrap_or("fallback");
                out.push(AgentEvent::Retries { kind: told(kind), again_in: None });
            }
            "compact_boundary" => {
                let data = &message["compact_metadata"];
                let (before, after) = (data["pre_tokens"].as_u64(), data["post_tokens"].as_u64());
                out.push(AgentEvent::Compacted { before, after });
            }
            "background_tasks_changed" => {
                self.background = Background::told(&message["tasks"]);
            }
            "task_started" => self.background.began(message),
            "task_updated" if is_over(&message["patch"]["status"]) => {
                self.background.ended(message);
            }
            "task_notification" => {
                self.is_woken = true;
                self.background.ended(message);
                let parent = message["tool_use_id"].as_str().unwrap_or_default();
                if let Some(mut voice) = self.voices.remove(parent) {
                    self.tell(parent, voice.ended(Ending::Whole), out);
                }
            }
            "informational"
            | "notification"
            | "thinking_tokens"
            | "hook_started"
            | "hook_progress"
            | "hook_response"
            | "permission_denied"
            | "task_progress"
            | "task_updated"
            | "session_state_changed"
            | "local_command_output"
            | "files_persisted"
            | "post_turn_summary" => {}
            subtype => out.push(AgentEvent::Unknown { kind: told(&format!("system/{subtype}")) }),
        }
    }

    fn on_result(&mut self, result: &Value, out: &mut Vec<AgentEvent>) {
        let is_begun = std::mem::take(&mut self.is_begun);
        if is_begun && result["session_id"].as_str().is_some_and(|id| id != self.session) {
            out.push(broke(AgentFault::Protocol, "a turn ends in another conversation"));
        }
        self.hear_session(result, out);
        let word = self.failure.take();
        let interrupts = std::mem::take(&mut self.interrupts);
        let (end, text) = turn::ended(result, word.as_deref(), interrupts);
        if !is_begun && end == AgentEnd::Done {
            out.push(broke(AgentFault::Protocol, "a turn ends that has not begun"));
        }
        self.is_woken = false;
        let how = match &end {
            AgentEnd::Interrupted => Ending::Stopped,
            AgentEnd::Model { kind, .. } => Ending::Broken { kind, again_in: None },
            _ => Ending::Whole,
        };
        let heard = self.voice("").ended(how);
        self.tell("", heard, out);
        if let Some((usage, usd)) = self.spending.result(result) {
            out.push(AgentEvent::Spent { usage, usd });
        }
        let (ordered, queued) = self.turns.end(result);
        let refused = result["permission_denials"].as_array().map_or(0, Vec::len) as u64;
        let before = self.held.take().unwrap_or_default();
        let (ordered, refused) = (ordered || before.ordered, refused + before.refused);
        if end == AgentEnd::Done && self.background.helpers > 0 {
            // To end it now would lose what they do, and take "I wait for my helper" for a claim.
            self.held = Some(Held { ordered, refused });
            return;
        }
        let background = self.background.tasks.len() as u64;
        let turn = AgentTurn { end, text, ordered, refused, background, queued };
        out.push(AgentEvent::TurnEnded(turn));
    }

    fn begin_turn(&mut self, parent: &str, out: &mut Vec<AgentEvent>) {
        if parent.is_empty() && self.turns.hear() {
            out.push(AgentEvent::TurnBegan);
        }
    }

    fn hear_session(&mut self, message: &Value, out: &mut Vec<AgentEvent>) {
        let id = message["session_id"].as_str().unwrap_or_default();
        if !id.is_empty() && id != self.session {
            id.clone_into(&mut self.session);
            out.push(AgentEvent::Session { id: id.to_owned() });
        }
    }

    /// A mode in which it asks nobody is not passed over, whoever put it there.
    fn hear_mode(&self, message: &Value, out: &mut Vec<AgentEvent>) {
        let mode = message["permissionMode"].as_str().unwrap_or_default();
        if UNGATED.contains(&mode) && mode != self.mode {
            let why = format!("its mode of permission is {mode}, not {}", told(&self.mode));
            out.push(broke(AgentFault::Policy, &why));
        }
    }

    /// The version may be told for the first time when the first turn begins. Then the facts are told again.
    fn hear_version(&mut self, version: Option<&str>, out: &mut Vec<AgentEvent>) {
        let Some(version) = version else { return };
        if super::table::Version::find(&self.facts.version) != super::table::Version::find(version)
        {
            let mode = self.facts.modes.first().cloned().unwrap_or_default();
            self.facts = facts(version, &mode, self.hook_blocks);
            if self.is_ready {
                out.push(AgentEvent::Ready(self.facts.clone()));
            }
        }
    }

    fn voice(&mut self, parent: &str) -> &mut Voice {
        if self.voices.len() > MOST {
            self.voices.retain(|name, _| name.is_empty());
        }
        self.voices.entry(parent.into()).or_default()
    }

    fn tell(&mut self, parent: &str, heard: Heard, out: &mut Vec<AgentEvent>) {
        for event in heard.events {
            if let StreamEvent::ToolUseStart { id, name, .. } = &event {
                self.calls.insert(Arc::clone(id), name.clone());
                if self.calls.len() > MOST {
                    self.calls.pop_first();
                }
            }
            out.push(match parent {
                "" => AgentEvent::Stream(event),
                parent => AgentEvent::Helper { parent: parent.into(), event },
            });
        }
        for usage in heard.spent {
            let usage = self.spending.answer(usage);
            out.extend(usage.map(|usage| AgentEvent::Spent { usage, usd: None }));
        }
    }

    fn prompt(&mut self) -> String {
        let uuid = frame::uuid(self.uuid);
        self.uuid = self.uuid.wrapping_add(1);
        self.turns.sent(&uuid);
        uuid
    }
}

impl AgentCodec for ClaudeCodec {
    fn open(&mut self) -> Vec<u8> {
        let hook = |id: &str, timeout: u64, on_failure: Option<&str>| {
            let mut hook = json!({ "matcher": null, "hookCallbackIds": [id], "timeout": timeout });
            if let Some(on_failure) = on_failure {
                hook["onFailure"] = json!(on_failure);
            }
            json!([hook])
        };
        let mut request = json!({
            "subtype": "initialize",
            "hooks": {
                control::BEFORE_TOOL: hook(
                    control::BEFORE_TOOL,
                    control::hook_patience(self.hook_blocks),
                    Some("block"),
                ),
                control::STOP: hook(control::STOP, control::STOP_PATIENCE, None),
            },
        });
        if !self.offers.is_empty() {
            request["sdkMcpServers"] = json!([OWN_SERVER]);
        }
        self.request(Order::Initialize, &request)
    }

    fn read(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> Vec<AgentEvent> {
        let mut out = Vec::new();
        let mut lines = std::mem::replace(&mut self.lines, Lines::new(LONGEST));
        lines.feed(bytes, |line| match line {
            Line::Whole(line) => self.line(line, reply, &mut out),
            Line::TooLong(beginning) => out.push(AgentEvent::Malformed {
                reason: format!("a line is longer than {LONGEST} bytes"),
                line: beginning,
            }),
        });
        self.lines = lines;
        out
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        let mut out = Vec::new();
        if let Some(rest) = self.lines.end() {
            out.push(malformed("the output ended in the middle of a line", &rest));
        }
        for key in std::mem::take(&mut self.open).into_keys() {
            out.push(AgentEvent::Withdrawn { key });
        }
        let broken = Ending::Broken { kind: "transport", again_in: None };
        for parent in self.voices.keys().cloned().collect::<Vec<_>>() {
            let heard = self.voice(&parent).ended(broken);
            self.tell(&parent, heard, &mut out);
        }
        for (_, order) in std::mem::take(&mut self.orders) {
            out.push(order.failed("the agent's program ended before it answered"));
        }
        let background = self.background.tasks.len() as u64;
        let held = self.held.take().is_some();
        out.extend(self.turns.cut_off(background, held).map(AgentEvent::TurnEnded));
        out
    }

    fn order(&mut self, order: AgentOrder) -> Result<Vec<u8>, String> {
        match order {
            // A prompt in the middle of a turn is given to the model with the next result of a tool; one that comes
            // too late for that begins a turn of its own.
            AgentOrder::Prompt { text } | AgentOrder::Steer { text } => {
                if text.trim().is_empty() {
                    return Err("an empty prompt says nothing".to_owned());
                }
                let uuid = self.prompt();
                Ok(frame::prompt(&text, &uuid))
            }
            AgentOrder::Compact { focus } => {
                let uuid = self.prompt();
                Ok(frame::compact(&focus, &uuid))
            }
            AgentOrder::Answer { key, may } => self.answer(&key, may),
            AgentOrder::ToolResult { key, result } => self.tool_result(&key, &result),
            AgentOrder::MayStop { key, missing } => self.may_stop(&key, missing),
            AgentOrder::Interrupt => {
                self.interrupts = true;
                Ok(self.request(Order::Interrupt, &json!({ "subtype": "interrupt" })))
            }
            AgentOrder::SetModel { model } => {
                let request = json!({ "subtype": "set_model", "model": model });
                Ok(self.request(Order::SetModel, &request))
            }
        }
    }
}

impl Background {
    fn told(tasks: &Value) -> Background {
        let tasks: Vec<&Value> = tasks.as_array().into_iter().flatten().take(MOST).collect();
        let works = |task: &&&Value| {
            matches!(task["task_type"].as_str(), Some("local_agent" | "local_workflow"))
        };
        let helpers = tasks.iter().filter(works).count();
        let ids = tasks.iter().filter_map(|task| task["task_id"].as_str()).map(str::to_owned);
        Background { tasks: ids.collect(), helpers, is_told: true }
    }

    fn began(&mut self, task: &Value) {
        if !self.is_told && self.tasks.len() < MOST {
            self.tasks.extend(task["task_id"].as_str().map(str::to_owned));
        }
    }

    fn ended(&mut self, task: &Value) {
        self.tasks.remove(task["task_id"].as_str().unwrap_or_default());
    }
}

impl fmt::Debug for ClaudeCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither prompts nor parameters nor results: any of them may hold a secret.
        f.debug_struct("ClaudeCodec")
            .field("version", &self.facts.version)
            .field("session", &self.session)
            .field("ready", &self.is_ready)
            .field("open", &self.open.keys())
            .field("turns", &self.turns)
            .finish_non_exhaustive()
    }
}

fn is_over(status: &Value) -> bool {
    !matches!(status.as_str(), None | Some("pending" | "running" | "in_progress"))
}

/// What a version can do, and what it is held to.
fn facts(version: &str, mode: &str, hook_blocks: bool) -> AgentFacts {
    const MODES: &[&str] = &["default", "acceptEdits", "plan", "dontAsk", "auto"];
    let release = CLAUDE.release(version);
    let mut modes = vec![mode.to_owned()];
    modes.extend(MODES.iter().filter(|known| **known != mode).map(|known| (*known).to_owned()));
    let mut limits: Vec<String> = release.limits.iter().map(|limit| (*limit).to_owned()).collect();
    limits.extend(CLAUDE.warning(version));
    if !hook_blocks && release.limits.is_empty() {
        limits.extend(CLAUDE.releases[0].limits.first().map(|limit| (*limit).to_owned()));
    }
    let mut remarks: Vec<String> = CLAUDE.warning(version).into_iter().collect();
    if !hook_blocks {
        remarks.extend(CLAUDE.releases[0].limits.first().map(|limit| (*limit).to_owned()));
    }
    // What it prints of itself has its name in it too.
    let number = super::table::Version::find(version).map(|version| version.to_string());
    AgentFacts {
        version: number.unwrap_or_else(|| version.to_owned()),
        can: release.can,
        modes,
        support: CLAUDE.support(version),
        limits,
        remarks,
        refusal: CLAUDE.refusal(version),
    }
}

fn broke(fault: AgentFault, why: &str) -> AgentEvent {
    AgentEvent::Broke { fault, why: why.to_owned() }
}

fn malformed(reason: &str, line: &[u8]) -> AgentEvent {
    AgentEvent::Malformed { reason: reason.to_owned(), line: quoted(line) }
}

/// A word of the program, as far as it is worth keeping.
fn told(word: &str) -> String {
    beginning(word.to_owned(), 64)
}

fn beginning(mut text: String, most: usize) -> String {
    if text.len() > most {
        let mut end = most;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}
