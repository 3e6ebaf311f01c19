//! `drivetrain trust`: shows the project's files that can act, asks, and records the answer outside the project.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use machine::file::mcp::{Reach, Server};
use machine::lookalike::cover_lookalikes;
use machine::policy::sandbox::{Needs, Network};
use machine::server::{ServerSpec, wanted};
use machine::task::{DriverSpec, FileRole};
use runtime::acting::{self, Acting};
use runtime::home::Home;
use runtime::library::Library;
use runtime::redact;
use runtime::servers::{self, ServerFile};
use runtime::trust::{self, Seen, TrustState};
use serde_json::{Value, json};
use view::{Line, Tone, text};

use crate::args::TrustArgs;
use crate::error::{CommandError, Kind, near};
use crate::prompt::reader::forget_typed;
use crate::{locate, output};

/// Runs the command.
pub(crate) fn run(args: &TrustArgs, json: bool) -> Result<u8, CommandError> {
    let home = locate::home()?;
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().map_err(|error| {
            CommandError::environment(format!("the current folder cannot be used: {error}"))
        })?,
    };
    let root = trust::root(&folder).map_err(CommandError::usage)?;
    if args.revoke {
        return revoke(&home, &folder, &root, json);
    }
    let mut files = acting::all(&folder)?;
    if !args.only.is_empty() {
        files = only(files, &args.only, &folder)?;
    }
    // What is shown, hashed and recorded are the same bytes, read once; a file of servers that cannot be read right is
    // not trusted.
    let mut shown = Vec::new();
    for file in &files {
        let state = file.state(&home, &folder).map_err(CommandError::environment)?;
        shown.push((file, state, servers_of(file)?));
    }
    let all_trusted = shown.iter().all(|(_, state, _)| *state == TrustState::Trusted);
    if !json {
        output::lines(&shown_lines(&root, &shown)?);
    }
    let asks = !args.show && !all_trusted && !files.is_empty();
    if asks && files.iter().any(|file| file.role == FileRole::Policy) {
        // Neither is a policy: no task would begin with it.
        Library::of(&folder).policies()?;
    }
    let mut trusted = all_trusted;
    if asks && (args.yes || agreed(json)?) {
        let seen: Vec<Seen> = files.iter().map(|file| file.seen.clone()).collect();
        trust::trust(&home, &folder, &seen, locate::now()).map_err(CommandError::environment)?;
        trusted = true;
    }
    if json {
        output::json(&shown_json(&root, &shown, trusted));
    } else if asks {
        let end = if trusted {
            Line::new(Tone::Good, "trusted, as long as these files stay as they are")
        } else {
            Line::plain("not trusted: nothing of this counts")
        };
        output::lines(&[end]);
    }
    Ok(0)
}

/// The files that were named; each must be one that can act.
fn only(files: Vec<Acting>, named: &[PathBuf], folder: &Path) -> Result<Vec<Acting>, CommandError> {
    let mut kept = Vec::new();
    for name in named {
        let real = std::fs::canonicalize(folder.join(name)).unwrap_or_else(|_| folder.join(name));
        match files.iter().find(|file| file.seen.path == real) {
            Some(file) => kept.push(file.clone()),
            None => {
                let message = format!("{} is no file of the project that can act", name.display());
                return Err(CommandError::usage(message)
                    .hint("drivetrain trust --show lists the files that can"));
            }
        }
    }
    Ok(kept)
}

/// What a file of servers declares; none of another.
fn servers_of(file: &Acting) -> Result<Vec<Server>, CommandError> {
    if file.role != FileRole::Servers {
        return Ok(Vec::new());
    }
    Ok(ServerFile::of_project(file.seen.clone(), file.bytes.clone()).servers()?)
}

fn revoke(home: &Home, folder: &Path, root: &Path, json: bool) -> Result<u8, CommandError> {
    let found = trust::revoke(home, folder).map_err(CommandError::environment)?;
    if json {
        output::json(&json!({ "v": 1, "folder": root, "revoked": found }));
    } else {
        let root = text::visible(&root.to_string_lossy());
        let line = if found {
            format!("nothing in {root} is trusted any more")
        } else {
            format!("nothing in {root} was trusted")
        };
        output::lines(&[Line::plain(line)]);
    }
    Ok(0)
}

/// Asks the person at the terminal; without one, or for a program, somebody has to say so beforehand.
fn agreed(json: bool) -> Result<bool, CommandError> {
    if json || !output::is_terminal() {
        return Err(CommandError::usage("nobody is there to be asked")
            .hint("drivetrain trust --show shows the files; drivetrain trust --yes trusts them"));
    }
    Ok(ask("Trust these files, and let them count? [y/N] ") == Answer::Yes)
}

/// What a person says about files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    Once,
    No,
}

/// Puts a question to the person at the terminal until the answer is clear; an empty line, or none any more, is a no.
pub(crate) fn ask(question: &str) -> Answer {
    loop {
        // What it is about was shown before this.
        forget_typed();
        output::raw(question.as_bytes());
        let _ = std::io::stdout().flush();
        let mut answer = String::new();
        if std::io::stdin().read_line(&mut answer).is_err() {
            return Answer::No;
        }
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => return Answer::Yes,
            "o" | "only" | "once" => return Answer::Once,
            "" | "n" | "no" => return Answer::No,
            // Whoever began to talk to a model is not taken for somebody who says no.
            _ => output::raw(b"that is no answer to this question\n"),
        }
    }
}

type Shown<'a> = (&'a Acting, TrustState, Vec<Server>);

fn word(state: &TrustState) -> &'static str {
    match state {
        TrustState::Trusted => "trusted",
        TrustState::Untrusted { changed, .. } if !changed.is_empty() => "changed",
        TrustState::Untrusted { .. } => "new",
    }
}

fn shown_lines(root: &Path, files: &[Shown<'_>]) -> Result<Vec<Line>, CommandError> {
    let root = text::visible(&root.to_string_lossy());
    if files.is_empty() {
        return Ok(vec![Line::plain(format!("nothing in {root} has to be trusted"))]);
    }
    let mut lines = vec![Line::new(Tone::Strong, format!("project {root}"))];
    for (file, state, _) in files {
        let tone = if *state == TrustState::Trusted { Tone::Good } else { Tone::Ask };
        lines.extend(content_lines(file, word(state), tone)?);
    }
    Ok(lines)
}

/// A file with its hash and all that it says, every character visible. Of servers, what would be started: values that may
/// be secrets are covered. Of a program, its size.
pub(crate) fn content_lines(
    file: &Acting,
    word: &str,
    tone: Tone,
) -> Result<Vec<Line>, CommandError> {
    let path = text::visible(&file.seen.path.to_string_lossy());
    let mut lines = vec![
        Line::new(tone, format!("{word:8} {path}")),
        Line::new(
            Tone::Faint,
            format!("         {}, sha256 {}", file.role.word(), file.seen.sha256),
        ),
    ];
    match file.role {
        FileRole::Servers => lines.extend(server_lines(&servers_of(file)?)),
        FileRole::Program => {
            let size = format!("  {} bytes", file.bytes.len());
            lines.push(Line::new(Tone::Faint, size));
        }
        FileRole::Task
        | FileRole::Workflow
        | FileRole::Plugin
        | FileRole::Policy
        | FileRole::Page
        | FileRole::Prompt
        | FileRole::Validators
        | FileRole::Models => {
            let said = text::lines(&String::from_utf8_lossy(&file.bytes));
            lines.extend(said.into_iter().map(|line| Line::plain(format!("  | {line}"))));
        }
    }
    Ok(lines)
}

fn server_lines(servers: &[Server]) -> Vec<Line> {
    let mut lines = Vec::new();
    for server in servers {
        let off = if server.disabled { " (disabled)" } else { "" };
        lines.push(Line::plain(format!("  server {}{off}", text::visible(&server.name))));
        for line in reach_lines(&server.reach) {
            lines.push(Line::plain(format!("    {line}")));
        }
        for line in needs_lines(&server.needs) {
            lines.push(Line::new(Tone::Ask, format!("    {line}")));
        }
        if let Some(why) = server.unusable {
            lines.push(Line::new(Tone::Ask, format!("    not started: {why}")));
        }
        if server.trust_annotations {
            lines.push(Line::plain("    its own word on what its tools change is believed"));
        }
    }
    if servers.is_empty() {
        lines.push(Line::new(Tone::Faint, "  no servers"));
    }
    lines
}

/// What a server is given of the sandbox beside what every one is.
fn needs_lines(needs: &Needs) -> Vec<String> {
    let mut lines = Vec::new();
    match &needs.network {
        Network::None => {}
        Network::Open => lines.push("reaches everything over the network that you can".to_owned()),
        Network::Loopback => lines.push("reaches itself over the network".to_owned()),
        Network::Hosts(hosts) => {
            let hosts: Vec<String> = hosts.iter().map(|host| text::visible(host)).collect();
            lines.push(format!("reaches over the network: {}", hosts.join(" ")));
        }
    }
    for (what, paths) in [("reads", &needs.read), ("writes", &needs.write)] {
        lines.extend(paths.iter().map(|path| format!("{what} {}", text::visible(path))));
    }
    match needs.writes_workspace {
        Some(true) => lines.push("writes in the workspace".to_owned()),
        Some(false) => lines.push("only reads in the workspace".to_owned()),
        None => {}
    }
    lines
}

/// What stands for a value that may be a secret.
const COVER: &str = "***";

/// The value of a variable as it is shown. Only what may be a secret is covered: a value can be as much of what runs as the
/// command is.
fn shown_value(name: &str, value: &str) -> String {
    if steers(name) || is_path(value) || value.contains("${") {
        return value.to_owned();
    }
    if redact::is_secrets_name(name) {
        return COVER.to_owned();
    }
    without_password(&cover_lookalikes(value, COVER))
}

/// Whether a variable tells a program what to load or to run, whatever else its name says.
fn steers(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["LD_", "DYLD_", "PYTHON", "GIT_CONFIG"].iter().any(|start| name.starts_with(start))
        || ["NODE_OPTIONS", "BASH_ENV", "ENV"].contains(&name.as_str())
        || ["PATH", "_COMMAND", "ASKPASS"].iter().any(|end| name.ends_with(end))
}

/// Whether a value names a file. A key may begin as an absolute path does, but in no folder that there is.
fn is_path(value: &str) -> bool {
    let mut parts = Path::new(value).components();
    match parts.next() {
        Some(Component::CurDir | Component::ParentDir) => true,
        Some(Component::RootDir) => {
            parts.next().is_none_or(|first| Path::new("/").join(first).exists())
        }
        Some(Component::Normal(first)) => first.as_encoded_bytes().starts_with(b"~"),
        Some(Component::Prefix(_)) | None => false,
    }
}

/// An address without what somebody logs in with there.
fn without_password(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => format!("{scheme}://{COVER}{}", &rest[at..]),
        None => value.to_owned(),
    }
}

/// The value of a header as it is shown: one that is no reference may be a secret.
fn shown_header(_: &str, value: &str) -> String {
    if value.contains("${") { value.to_owned() } else { COVER.to_owned() }
}

/// Exactly what would run, every character visible.
fn reach_lines(reach: &Reach) -> Vec<String> {
    let values = |what: &str, table: &BTreeMap<String, String>, shown: fn(&str, &str) -> String| {
        let line = |(name, value): (&String, &String)| {
            format!("{what} {} = {}", text::visible(name), text::visible(&shown(name, value)))
        };
        table.iter().map(line).collect::<Vec<String>>()
    };
    let mut lines = Vec::new();
    match reach {
        Reach::Program { command, env } => {
            let words: Vec<String> =
                command.iter().map(|word| text::quoted(&text::visible(word))).collect();
            lines.push(format!("runs {}", words.join(" ")));
            lines.extend(values("variable", env, shown_value));
        }
        Reach::Address { url, headers } => {
            lines.push(format!("speaks to {}", text::visible(url)));
            lines.extend(values("header", headers, shown_header));
        }
        Reach::Dispatch(dispatching) => {
            let words = dispatching.arguments(Some("TASK"));
            let words: Vec<String> =
                words.iter().map(|word| text::quoted(&text::visible(word))).collect();
            let what = "dispatches tasks that are counted to the task";
            lines.push(format!("{what}: drivetrain {}", words.join(" ")));
        }
    }
    lines
}

fn shown_json(root: &Path, files: &[Shown<'_>], trusted: bool) -> Value {
    let server_json = |server: &Server| {
        let mut value = json!({
            "name": server.name,
            "disabled": server.disabled,
            "needs": server.needs,
            "trust_annotations": server.trust_annotations,
        });
        let shown = |table: &BTreeMap<String, String>, shown: fn(&str, &str) -> String| {
            let pairs = table.iter().map(|(name, value)| (name.clone(), shown(name, value)));
            json!(pairs.collect::<BTreeMap<_, _>>())
        };
        match &server.reach {
            Reach::Program { command, env } => {
                value["command"] = json!(command);
                value["env"] = json!(env.keys().collect::<Vec<_>>());
                value["env_values"] = shown(env, shown_value);
            }
            Reach::Address { url, headers } => {
                value["url"] = json!(url);
                value["headers"] = json!(headers.keys().collect::<Vec<_>>());
                value["header_values"] = shown(headers, shown_header);
            }
            Reach::Dispatch(dispatching) => {
                value["dispatch"] = json!(dispatching.arguments(Some("TASK")));
            }
        }
        value
    };
    let file_json = |(file, state, servers): &Shown<'_>| {
        let state = if trusted { "trusted" } else { word(state) };
        let servers: Vec<Value> = servers.iter().map(server_json).collect();
        json!({
            "path": file.seen.path,
            "role": file.role,
            "sha256": file.seen.sha256,
            "state": state,
            "servers": servers,
        })
    };
    let files: Vec<Value> = files.iter().map(file_json).collect();
    json!({ "v": 1, "folder": root, "trusted": trusted, "files": files })
}

/// The servers of a task that is about to start. Files that nobody trusts cost their servers, and that is said; if the
/// task names what is missing, it does not start.
pub(crate) fn servers_for(
    home: &Home,
    folder: &Path,
    driver: &DriverSpec,
    json: bool,
) -> Result<Vec<ServerSpec>, CommandError> {
    // Nothing is read that the task has no use for.
    if !wanted(driver, &[]).any {
        return Ok(Vec::new());
    }
    let found = servers::of(home, folder)?;
    let wanted = wanted(driver, &found.servers);
    let untrusted: Vec<PathBuf> = found.untrusted.iter().map(|file| file.path.clone()).collect();
    let shown = untrusted.iter().map(|path| text::visible(&path.to_string_lossy()));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let verb = if found.untrusted.iter().all(|file| file.changed) {
        "changed since it was trusted"
    } else {
        "not trusted"
    };
    if let Some(missing) = wanted.missing.first() {
        let message =
            format!("the task names {missing:?}, and no server that may be started has it");
        let error = CommandError::new(Kind::Configuration, message);
        let names = found.servers.iter().map(|server| server.name.as_str());
        return Err(match near(missing, names) {
            _ if !untrusted.is_empty() => {
                error.hint(format!("{shown} is {verb}: drivetrain trust shows it and asks"))
            }
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint("servers are declared in .drivetrain/mcp.toml or .mcp.json"),
        });
    }
    if !untrusted.is_empty() {
        let message = format!(
            "{shown} is {verb}, so its servers are not started: drivetrain trust shows it and asks"
        );
        let notice = json!({ "v": 1, "notice": message, "files": untrusted });
        output::error(&if json { notice.to_string() } else { format!("note: {message}") });
    }
    Ok(wanted.servers)
}
