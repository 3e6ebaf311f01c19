//! Servers that bring tools of their own to a task: how a task names one, and what becomes of the tools it claims
//! to have.
//!
//! What a server says about itself is hostile input: names, descriptions and schemas are cut to size and cleaned
//! here, in one place, before a model, a person or a rule sees them. What it says about how safe a tool is counts
//! only if the operator's file says so.

mod root;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::AgentProgram;
use crate::driver::{agent, composite};
use crate::task::DriverSpec;
use crate::tool::EffectClass;

/// How the name of every offered tool begins. No built-in tool's name does.
pub const PREFIX: &str = "mcp__";

/// The longest name that every provider of models takes.
pub const MAX_NAME: usize = 64;
/// The longest summary of a tool, in bytes.
pub const MAX_SUMMARY: usize = 1024;
/// The largest schema of a tool's parameters, as JSON text in bytes.
pub const MAX_SCHEMA: usize = 16 << 10;
/// The most tools of one server.
pub const MAX_TOOLS: usize = 128;
/// The deepest nesting of a schema.
const MAX_DEPTH: usize = 24;

/// A server as a task knows it. Its command, address, variables and headers stay in the file that declares it,
/// because they may hold secrets: whoever starts it reads that file, if it is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// Its name.
    pub name: String,
    /// The file that declares it, absolute.
    pub file: String,
    /// SHA-256 of that file when the task was started, in hex.
    pub sha256: String,
}

/// A server with its part in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCall {
    /// The server.
    pub server: ServerSpec,
    /// The tool's name, as the server has it.
    pub tool: String,
    /// The folder the task was started in: what is trusted is looked up by it.
    pub folder: String,
}

/// A tool that a task has beside the built-in ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOffer {
    /// Its name, as models, rules and steps write it.
    pub name: String,
    /// Its name, as its server has it.
    pub tool: String,
    /// What it does, in the server's words.
    pub summary: String,
    /// Its parameters as a JSON schema.
    pub schema: Value,
    /// How repeatable it is.
    pub class: EffectClass,
    /// The server.
    pub source: String,
    /// It is no longer what it was when the task first had it, and nobody has allowed it as it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
}

impl ToolOffer {
    /// Whether both are one tool of one server, whatever it is called here.
    pub(crate) fn is_same_tool(&self, other: &ToolOffer) -> bool {
        self.source == other.source && self.tool == other.tool
    }

    /// Whether both say the same of what the tool does and takes.
    pub(crate) fn says_the_same(&self, other: &ToolOffer) -> bool {
        self.summary == other.summary && self.schema == other.schema && self.class == other.class
    }
}

/// What a server offers at the moment, or why it offers nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerTools {
    /// The server.
    pub server: String,
    /// Its tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolOffer>,
    /// Why there are none, or what was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A tool as its server claims it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its parameters as a JSON schema.
    pub schema: Value,
    /// It changes nothing, says the server.
    pub read_only: bool,
    /// Calling it twice is calling it once, says the server.
    pub idempotent: bool,
}

/// How far a server's claims go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits<'a> {
    /// The tools that are wanted; all if absent.
    pub only: Option<&'a [String]>,
    /// Whether its word on what its tools change counts.
    pub trust_annotations: bool,
}

/// Makes offers of what a server claims: in the order of their names, cleaned, cut and counted. What is left out is
/// named in `problem`.
pub fn offers(server: &str, claims: Vec<Claim>, limits: Limits<'_>) -> ServerTools {
    let mut left_out: Vec<String> = Vec::new();
    let mut tools: Vec<ToolOffer> = Vec::new();
    let mut claims = claims;
    claims.sort_by(|left, right| left.name.cmp(&right.name));
    claims.dedup_by(|later, first| later.name == first.name);
    for claim in claims {
        if limits.only.is_some_and(|only| !only.contains(&claim.name)) {
            continue;
        }
        let shown = clean(&claim.name, MAX_NAME);
        if tools.len() == MAX_TOOLS {
            left_out.push(format!("more than {MAX_TOOLS} tools"));
            break;
        }
        if claim.name.is_empty() || claim.name.len() > 1024 {
            left_out.push(format!("{shown:?}: its name is empty or too long"));
            continue;
        }
        if is_offered(&claim.name) || claim.name.chars().any(hides) {
            let why = "its name pretends to be another server's or hides characters";
            left_out.push(format!("{shown:?}: {why}"));
            continue;
        }
        let schema = match checked_schema(claim.schema) {
            Ok(schema) => schema,
            Err(why) => {
                left_out.push(format!("{shown:?}: {why}"));
                continue;
            }
        };
        let class = match (limits.trust_annotations, claim.read_only, claim.idempotent) {
            (true, true, _) => EffectClass::Pure,
            (true, false, true) => EffectClass::Keyed,
            _ => EffectClass::Unsafe,
        };
        tools.push(ToolOffer {
            name: name_of(server, &claim.name),
            tool: claim.name,
            summary: without_tags(&clean(&claim.description, MAX_SUMMARY)),
            schema,
            class,
            source: server.to_owned(),
            changed: false,
        });
    }
    if let Some(only) = limits.only {
        for missing in only.iter().filter(|name| !tools.iter().any(|tool| tool.tool == **name)) {
            left_out.push(format!("it has no tool {missing:?}"));
        }
    }
    let problem = (!left_out.is_empty()).then(|| {
        let more = left_out.len().saturating_sub(5);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        left_out.truncate(5);
        format!("left out: {}{more}", left_out.join("; "))
    });
    ServerTools { server: server.to_owned(), tools: distinct(tools), problem }
}

/// Puts what one server offers in the place of what it offered before; servers stand in the task's order. Names
/// that meet are told apart by what is behind them.
pub(crate) fn replace(
    all: &[ToolOffer],
    servers: &[ServerSpec],
    changed: ServerTools,
) -> Vec<ToolOffer> {
    let kept = all.iter().filter(|tool| tool.source != changed.server).cloned();
    let mut tools: Vec<ToolOffer> = kept.chain(changed.tools).collect();
    let place = |source: &str| servers.iter().position(|server| server.name == source);
    tools.sort_by_key(|tool| place(&tool.source));
    distinct(tools)
}

/// Whether a name is one that only a server's tool can have.
pub fn is_offered(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether a written name means this tool: the name itself, `*`, or the beginning of it before a `*`.
pub fn names(written: &str, tool: &str) -> bool {
    match written.strip_suffix('*') {
        Some(beginning) if is_offered(beginning) || beginning.is_empty() => {
            tool.starts_with(beginning)
        }
        _ => written == tool,
    }
}

/// The servers that a task needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Those that are there.
    pub servers: Vec<ServerSpec>,
    /// What the task's file names and nobody declares: names of servers and of tools.
    pub missing: Vec<String>,
    /// Whether the task has a use for any server at all.
    pub any: bool,
}

/// Which servers a driver has a use for: all, if a model that is not limited to some decides, or a coding agent that can be
/// offered tools; else those that it names, by name or by a tool. A server that nobody can use is not started.
pub fn wanted(driver: &DriverSpec, available: &[ServerSpec]) -> Wanted {
    let mut named: Vec<Named> = Vec::new();
    let mut config = driver.config.clone();
    // Nesting beyond the limit is reported by the composite itself when it is made.
    let _ = composite::visit(&driver.name, &mut config, &mut |name, config| {
        let texts = |value: &Value| -> Option<Vec<String>> {
            let items = value.as_array()?.iter().filter_map(Value::as_str);
            Some(items.map(str::to_owned).collect())
        };
        if name == "llm" {
            match (texts(&config["servers"]), texts(&config["tools"])) {
                (None, None) => named.push(Named::Every),
                (Some(servers), None) => named.extend(servers.into_iter().map(Named::Server)),
                (servers, Some(tools)) => {
                    named.extend(servers.into_iter().flatten().map(Named::Server));
                    let offered = tools.into_iter().filter(|tool| is_offered(tool));
                    named.extend(offered.map(Named::Tool));
                }
            }
        } else if name == agent::KIND {
            let program = AgentProgram::deserialize(&config["program"]);
            if program.is_ok_and(|program| program.can().tools) {
                named.push(Named::Every);
            }
        } else {
            called(config, &mut named);
        }
        Ok(())
    });
    let mut wanted = Wanted { any: !named.is_empty(), ..Wanted::default() };
    for name in &named {
        let fits = |server: &&ServerSpec| name.means(&server.name);
        let mut found = available.iter().filter(fits).peekable();
        match name {
            Named::Server(text) | Named::Tool(text) if found.peek().is_none() => {
                wanted.missing.push(text.clone());
            }
            _ => wanted.servers.extend(found.cloned()),
        }
    }
    let is_wanted = |server: &&ServerSpec| wanted.servers.contains(server);
    wanted.servers = available.iter().filter(is_wanted).cloned().collect();
    wanted
}

/// How a task names servers.
enum Named {
    Every,
    Server(String),
    /// A tool's name, or its beginning before a `*`.
    Tool(String),
}

impl Named {
    fn means(&self, server: &str) -> bool {
        let prefix = prefix_of(server);
        match self {
            Named::Every => true,
            Named::Server(name) => name == server,
            Named::Tool(tool) => match tool.strip_suffix('*') {
                Some(start) => start.starts_with(&prefix) || prefix.starts_with(start),
                None => tool.starts_with(&prefix),
            },
        }
    }
}

/// The servers' tools that steps and states call, wherever they stand.
fn called(value: &Value, named: &mut Vec<Named>) {
    match value {
        Value::Object(fields) => {
            let tool = fields.get("tool").and_then(Value::as_str).filter(|tool| is_offered(tool));
            named.extend(tool.map(|tool| Named::Tool(tool.to_owned())));
            fields.values().for_each(|value| called(value, named));
        }
        Value::Array(items) => items.iter().for_each(|item| called(item, named)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The server's part of an offered tool's name: all tools of the server begin so.
pub fn prefix_of(server: &str) -> String {
    format!("{PREFIX}{}__", plain(server))
}

/// `mcp__SERVER__TOOL` in letters that every provider takes; a long one ends in a digest of the whole.
fn name_of(server: &str, tool: &str) -> String {
    let name = format!("{}{}", prefix_of(server), plain(tool));
    if name.len() <= MAX_NAME { name } else { with_digest(&name, server, tool) }
}

fn with_digest(name: &str, server: &str, tool: &str) -> String {
    let digest = format!("_{:010x}", digest(&[server, tool]) & 0xff_ffff_ffff);
    let kept = name.len().min(MAX_NAME - digest.len());
    format!("{}{digest}", &name[..kept])
}

/// Gives each offer a name of its own: the first keeps it, later ones get a digest and, if that meets too, a number.
fn distinct(tools: Vec<ToolOffer>) -> Vec<ToolOffer> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut named = Vec::with_capacity(tools.len());
    for mut tool in tools {
        if taken.contains(&tool.name) {
            tool.name = with_digest(&tool.name, &tool.source, &tool.tool);
        }
        let mut number = 2;
        while taken.contains(&tool.name) {
            let end = format!("_{number}");
            let kept = tool.name.len().min(MAX_NAME - end.len());
            tool.name = format!("{}{end}", &tool.name[..kept]);
            number += 1;
        }
        taken.insert(tool.name.clone());
        named.push(tool);
    }
    named
}

/// ASCII letters, digits, `_` and `-`; every other character is one `_`.
fn plain(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// Without what steers a terminal or hides from a reader, and cut at a character.
pub fn clean(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        let c = match c {
            '\n' | '\t' => c,
            c if hides(c) => continue,
            c => c,
        };
        if shown.len() + c.len_utf8() > most.saturating_sub('…'.len_utf8()) {
            shown.push('…');
            break;
        }
        shown.push(c);
    }
    shown
}

/// Words of a server must not look like marks of ours or of a model's: angle brackets become quotation marks.
fn without_tags(text: &str) -> String {
    text.replace('<', "\u{2039}").replace('>', "\u{203a}")
}

/// Control characters, those that reorder text, those without width, those that fill without being seen, and the
/// invisible copies of ASCII.
fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{2028}' | '\u{2029}' | '\u{2800}')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// A schema of an object, cleaned, as every provider takes it; else why it cannot be one.
fn checked_schema(schema: Value) -> Result<Value, String> {
    let wrong = || "its schema is too large or no table".to_owned();
    let mut schema = match schema {
        Value::Null => json!({}),
        Value::Object(_) => schema,
        _ => return Err(wrong()),
    };
    let is_large = |schema: &Value| schema.to_string().len() > MAX_SCHEMA;
    if !tidy(&mut schema, 0) || is_large(&schema) {
        return Err(wrong());
    }
    match schema.get("type") {
        None => schema["type"] = json!("object"),
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err(wrong()),
    }
    root::unite(&mut schema);
    if is_large(&schema) {
        return Err(wrong());
    }
    match root::unsendable(&schema) {
        Some(key) => Err(format!(
            "the name of its parameter {:?} is not one that every provider takes (letters, digits, `_`, `.` and `-`)",
            clean(key, MAX_NAME)
        )),
        None => Ok(schema),
    }
}

/// Cleans every text of a schema, its keys too; false if it nests too deeply.
fn tidy(value: &mut Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    match value {
        Value::String(text) => {
            *text = clean(text, MAX_SCHEMA);
            true
        }
        Value::Array(items) => items.iter_mut().all(|item| tidy(item, depth + 1)),
        Value::Object(fields) => {
            fields.retain(|key, _| !key.chars().any(hides));
            for key in ["description", "title"] {
                if let Some(Value::String(text)) = fields.get_mut(key) {
                    *text = without_tags(text);
                }
            }
            fields.values_mut().all(|value| tidy(value, depth + 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// FNV-1a over the parts. It tells names apart; nothing is kept safe by it.
fn digest(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}
