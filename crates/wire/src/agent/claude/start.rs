//! How Claude Code is started: its arguments and its variables, from plain options. Nothing is taken over from
//! whoever starts it but what is named here.

use std::fmt;

use serde_json::{Value, json};

use super::super::{Launch, Session as Conversation, Started};
use super::{ClaudeCodec, OWN_SERVER};
use crate::agent::table::Version;

/// The first version that refuses a call whose hook failed. Those before it run the call.
const BLOCKS_ON_FAILURE: Version = Version(2, 1, 325);

/// Tools that are asked about by a rule of the agent's own, beside the hook: where a hook fails, the rule still holds.
/// A tool that a version does not have is no error in such a rule.
const ASKED: &[&str] = &[
    "Agent",
    "Bash",
    "BashOutput",
    "Edit",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "Monitor",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Read",
    "SendMessage",
    "Skill",
    "Task",
    "TaskOutput",
    "TaskStop",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];

/// Tools that take a decision that is drivetrain's: where the agent works, when it works, whom it asks.
const WITHOUT: &[&str] = &[
    "AskUserQuestion",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "ScheduleWakeup",
];

/// Variables that are passed on as they are, if they are set.
pub const PASSED: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// Variables that keep it from talking to anybody but its model, and from reading files that a prompt names behind an `@`,
/// which it does without asking; versions of old do not know that one.
const QUIET: &[&str] = &[
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
];

/// How many milliseconds it waits for a tool of ours: a day, since a person may be asked before it runs.
const TOOL_PATIENCE: &str = "86400000";

/// Everything that its start depends on.
#[derive(Clone, PartialEq)]
pub struct ClaudeOptions {
    /// What it prints of itself when asked for its version; empty if it was not asked. Older versions are held more
    /// strictly, and so is one that is not known.
    pub version: String,
    /// Its conversation.
    pub session: Session,
    /// The model, as it names it; its own choice if absent.
    pub model: Option<String>,
    /// The model that is asked when the first is overloaded.
    pub fallback: Option<String>,
    /// The workspace is trusted: its settings, hooks, servers and notes count. They run code before anything is asked.
    pub trusted: bool,
    /// The mode of permission; `default` asks the most.
    pub mode: String,
    /// After so many questions to its model it stops a turn.
    pub max_turns: Option<u64>,
    /// After so many dollars, by its own count, it stops.
    pub max_usd: Option<f64>,
    /// Added to its standing instructions.
    pub instructions: Option<String>,
    /// Tools that it does not have.
    pub without: Vec<String>,
    /// How often it asks its model again.
    pub retries: u32,
    /// Whether it tells what its model says piece by piece, with what each answer cost, or only block by block.
    pub pieces: bool,
    /// The folder in which it works; what its calls do elsewhere is not told apart if it is empty.
    pub folder: String,
    /// Where all of its state goes.
    pub config_dir: String,
    /// Where its temporary files go; below `/tmp` if absent.
    pub temporary: Option<String>,
    /// Where its model is; the vendor's address if absent.
    pub base_url: Option<String>,
    /// The key of its model; that of its own login if absent.
    pub key: Option<ClaudeKey>,
}

/// A conversation to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// A new one with this id, in the form of a UUID that was never used before.
    New(String),
    /// The one that has this id.
    Resume(String),
    /// A copy of a conversation.
    Fork {
        /// Of this one.
        from: String,
        /// Under this id.
        to: String,
    },
}

/// A key. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ClaudeKey(String);

impl ClaudeKey {
    /// Keeps a key.
    pub fn new(key: impl Into<String>) -> ClaudeKey {
        ClaudeKey(key.into())
    }
}

impl fmt::Debug for ClaudeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

impl fmt::Debug for ClaudeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Instructions are a person's words and may hold anything; addresses may hold a password.
        f.debug_struct("ClaudeOptions")
            .field("version", &self.version)
            .field("session", &self.session)
            .field("model", &self.model)
            .field("trusted", &self.trusted)
            .field("mode", &self.mode)
            .field("config_dir", &self.config_dir)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl ClaudeOptions {
    /// The strictest start of a conversation, with all state below one folder.
    pub fn new(session: Session, config_dir: impl Into<String>) -> ClaudeOptions {
        ClaudeOptions {
            version: String::new(),
            session,
            model: None,
            fallback: None,
            trusted: false,
            mode: "default".to_owned(),
            max_turns: None,
            max_usd: None,
            instructions: None,
            without: WITHOUT.iter().map(|tool| (*tool).to_owned()).collect(),
            retries: 4,
            pieces: true,
            folder: String::new(),
            config_dir: config_dir.into(),
            temporary: None,
            base_url: None,
            key: None,
        }
    }

    /// Whether a hook that fails is certain to block its call.
    pub(super) fn hook_blocks(&self) -> bool {
        Version::find(&self.version).is_some_and(|version| version >= BLOCKS_ON_FAILURE)
    }
}

/// The arguments, without the program itself. `offers` says whether drivetrain offers tools of its own.
pub fn command_line(options: &ClaudeOptions, offers: bool) -> Vec<String> {
    let mut line: Vec<String> = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        // An echo of each prompt says when it was taken up.
        "--replay-user-messages",
        "--permission-prompt-tool",
        "stdio",
        "--permission-mode",
        &options.mode,
        "--settings",
        &settings().to_string(),
    ]
    .map(str::to_owned)
    .into();
    let mut add = |flag: &str, value: &str| line.extend([flag.to_owned(), value.to_owned()]);
    match &options.session {
        Session::New(id) => add("--session-id", id),
        Session::Resume(id) => add("--resume", id),
        Session::Fork { from, to } => {
            add("--resume", from);
            add("--session-id", to);
        }
    }
    if let Some(model) = &options.model {
        add("--model", model);
    }
    if let Some(fallback) = &options.fallback {
        add("--fallback-model", fallback);
    }
    if let Some(turns) = options.max_turns {
        add("--max-turns", &turns.to_string());
    }
    if let Some(dollars) = options.max_usd {
        add("--max-budget-usd", &dollars.to_string());
    }
    if let Some(text) = &options.instructions {
        add("--append-system-prompt", text);
    }
    if !options.without.is_empty() {
        add("--disallowedTools", &options.without.join(","));
    }
    if offers {
        add("--mcp-config", &servers().to_string());
    }
    if !options.trusted {
        add("--setting-sources", "");
        line.push("--strict-mcp-config".to_owned());
    }
    if options.pieces {
        line.push("--include-partial-messages".to_owned());
    }
    if matches!(options.session, Session::Fork { .. }) {
        line.push("--fork-session".to_owned());
    }
    line
}

/// The variables, all of them: whoever starts it clears the rest. Of `inherited` only what is named in [`PASSED`] is
/// passed on.
pub fn environment(
    options: &ClaudeOptions,
    inherited: &[(String, String)],
) -> Vec<(String, String)> {
    let is_passed = |name: &str| PASSED.contains(&name);
    let mut variables: Vec<(String, String)> =
        inherited.iter().filter(|(name, _)| is_passed(name)).cloned().collect();
    let mut set = |name: &str, value: &str| {
        variables.retain(|(known, _)| known != name);
        variables.push((name.to_owned(), value.to_owned()));
    };
    for name in QUIET {
        set(name, "1");
    }
    set("CLAUDE_CONFIG_DIR", &options.config_dir);
    set("CLAUDE_CODE_MAX_RETRIES", &options.retries.to_string());
    if let Some(folder) = &options.temporary {
        set("CLAUDE_CODE_TMPDIR", folder);
    }
    if let Some(url) = &options.base_url {
        set("ANTHROPIC_BASE_URL", url);
    }
    if let Some(ClaudeKey(key)) = &options.key {
        set("ANTHROPIC_API_KEY", key);
    }
    variables.sort();
    variables
}

/// How it is started for a task: as strictly as it can be, and with a key that is worth nothing where a gateway asks in
/// its place.
pub(in super::super) fn launch(launch: &Launch<'_>) -> Started {
    let session = match launch.session {
        Conversation::New(id) => Session::New(id.to_owned()),
        Conversation::Resume(id) => Session::Resume(id.to_owned()),
    };
    let mut options = ClaudeOptions::new(session, launch.home);
    options.version = launch.version.to_owned();
    options.folder = launch.folder.to_owned();
    // A program that takes its model by an argument of its own is not told twice.
    options.model = launch.program.model.clone().filter(|_| launch.program.model_flag.is_none());
    options.temporary = Some(format!("{}/tmp", launch.home));
    if let Some(mode) = &launch.program.mode {
        options.mode.clone_from(mode);
    }
    if let Some(gateway) = launch.gateway {
        options.base_url = Some(gateway.to_owned());
        options.key = Some(ClaudeKey::new("drivetrain"));
        // The gateway hears what its model says, and counts it.
        options.pieces = false;
    }
    let mut argv = launch.program.command_line(None);
    argv.extend(command_line(&options, !launch.tools.is_empty()));
    let mut env = environment(&options, &[]);
    if !launch.tools.is_empty() {
        env.push(("MCP_TOOL_TIMEOUT".to_owned(), TOOL_PATIENCE.to_owned()));
    }
    // What its file says of its provider is for the gateway to know.
    let is_own = |name: &str| {
        launch.gateway.is_some() && ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"].contains(&name)
    };
    env.extend(launch.program.env.clone().into_iter().filter(|(name, _)| !is_own(name)));
    Started {
        argv,
        env,
        files: vec![("tmp/.keep".to_owned(), String::new())],
        codec: Box::new(ClaudeCodec::new(&options, launch.tools.to_vec(), launch.seed)),
    }
}

fn settings() -> Value {
    json!({ "permissions": { "ask": ASKED } })
}

fn servers() -> Value {
    json!({ "mcpServers": { OWN_SERVER: { "type": "sdk", "name": OWN_SERVER } } })
}
