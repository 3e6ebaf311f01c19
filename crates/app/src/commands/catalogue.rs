//! What there is: `tools`, `drivers` and `completions`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::CommandFactory;
use machine::driver::Registry;
use machine::server::ServerTools;
use machine::task::{Workspace, WorkspaceKind};
use machine::tool::{EffectClass, Parameter, ParameterKind, TOOLS};
use runtime::library::{Found, Library};
use runtime::mcp::{Mcp, NOBODY};
use runtime::process::Cancel;
use runtime::servers;
use serde_json::{Value, json};
use view::{Line, Tone};

use crate::args::Cli;
use crate::error::CommandError;
use crate::{locate, output};

/// Lists the tools, those of servers too.
pub(crate) fn tools(json: bool) -> Result<u8, CommandError> {
    let (servers, untrusted) = offered()?;
    if json {
        let tools: Vec<Value> = TOOLS
            .iter()
            .map(|tool| {
                let parameters: Vec<Value> = tool.parameters.iter().map(parameter_json).collect();
                json!({ "name": tool.name, "class": tool.class, "summary": tool.summary, "parameters": parameters })
            })
            .collect();
        output::json(
            &json!({ "v": 1, "tools": tools, "servers": servers, "untrusted": untrusted }),
        );
        return Ok(0);
    }
    let mut lines = Vec::new();
    for tool in TOOLS {
        lines.push(Line::new(Tone::Strong, tool.name));
        lines.push(Line::plain(format!(
            "  {}; after a crash: {}",
            tool.summary,
            after_crash(tool.class)
        )));
        for parameter in tool.parameters {
            let need = if parameter.required { "" } else { ", optional" };
            let text = format!(
                "    {:12} {}{need}: {}",
                parameter.name,
                kind(parameter.kind),
                parameter.summary
            );
            lines.push(Line::new(Tone::Faint, text));
        }
    }
    lines.extend(servers.iter().flat_map(server_lines));
    lines.extend(untrusted.iter().map(|path| {
        let path = view::text::visible(&path.to_string_lossy());
        Line::new(Tone::Ask, format!("{path} is not trusted: drivetrain trust shows it and asks"))
    }));
    output::lines(&lines);
    Ok(0)
}

/// What the servers of this folder offer, and the files that are not trusted. They are started, asked and ended.
fn offered() -> Result<(Vec<ServerTools>, Vec<PathBuf>), CommandError> {
    let home = locate::home()?;
    let folder = std::env::current_dir().unwrap_or_default();
    let found = servers::of(&home, &folder)?;
    let untrusted = found.untrusted.into_iter().map(|file| file.path).collect();
    if found.servers.is_empty() {
        return Ok((Vec::new(), untrusted));
    }
    let folder = folder.to_string_lossy();
    let workspace = Workspace {
        kind: WorkspaceKind::InPlace,
        path: Some(folder.to_string()),
        branch: None,
        base: None,
    };
    let walls = machine::policy::sandbox::SandboxSpec::default();
    let mcp = Mcp::new(home, None, Arc::new(|_, _| {}));
    let tools = mcp.open(NOBODY, &found.servers, &workspace, &folder, &walls, &Cancel::new());
    mcp.close(NOBODY);
    Ok((tools, untrusted))
}

fn server_lines(server: &ServerTools) -> Vec<Line> {
    let title = format!("server {}", view::text::visible(&server.server));
    let mut lines = vec![Line::new(Tone::Strong, title)];
    if let Some(problem) = &server.problem {
        let said = view::text::lines(problem);
        lines.extend(said.into_iter().map(|line| Line::new(Tone::Bad, format!("  {line}"))));
    }
    for tool in &server.tools {
        let mut about = view::text::short(&tool.summary, 100);
        if !about.is_empty() {
            about.push_str("; ");
        }
        let crash = after_crash(tool.class);
        lines.push(Line::plain(format!("  {}: {about}after a crash: {crash}", tool.name)));
    }
    lines
}

fn parameter_json(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "kind": kind(parameter.kind),
        "required": parameter.required,
        "summary": parameter.summary,
    })
}

fn kind(kind: ParameterKind) -> &'static str {
    match kind {
        ParameterKind::Text => "text",
        ParameterKind::Number => "number",
        ParameterKind::Flag => "flag",
        ParameterKind::Texts => "texts",
        ParameterKind::Word(_) => "word",
        ParameterKind::Name => "name",
    }
}

fn after_crash(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Pure | EffectClass::Keyed => "run again",
        EffectClass::Checkable => "looked for, then run or not",
        EffectClass::Unsafe => "in doubt, a person decides",
    }
}

/// Lists drivers, plugins and workflows.
pub(crate) fn drivers(json: bool) -> Result<u8, CommandError> {
    let library = Library::of(&std::env::current_dir().unwrap_or_default());
    let registry = Registry::builtin();
    let names: Vec<&str> = registry.names().filter(|name| *name != "external").collect();
    let (plugins, workflows) = (library.plugins(), library.workflows());
    if json {
        let drivers: Vec<Value> =
            names.iter().map(|name| json!({ "name": name, "summary": about(name) })).collect();
        let found = |found: &[Found]| -> Value {
            found.iter().map(|found| json!({ "name": found.name, "path": found.path })).collect()
        };
        output::json(
            &json!({ "v": 1, "drivers": drivers, "plugins": found(&plugins), "workflows": found(&workflows) }),
        );
        return Ok(0);
    }
    let mut lines = vec![Line::new(Tone::Strong, "drivers")];
    lines.extend(names.iter().map(|name| Line::plain(format!("  {name:18} {}", about(name)))));
    let none = "  none here; drivetrain init shows how to write one";
    let none_of_yours = "  none of yours here; drivetrain workflow list shows the built-in ones";
    for (title, prefix, found, none) in
        [("plugins", "external:", plugins, none), ("workflows", "", workflows, none_of_yours)]
    {
        lines.push(Line::new(Tone::Strong, title));
        if found.is_empty() {
            lines.push(Line::new(Tone::Faint, none));
        }
        lines.extend(found.iter().map(|found| {
            let name = format!("{prefix}{}", found.name);
            Line::plain(format!(
                "  {:18} {}",
                view::text::visible(&name),
                view::text::visible(&found.path.to_string_lossy())
            ))
        }));
    }
    output::lines(&lines);
    Ok(0)
}

fn about(driver: &str) -> &'static str {
    match driver {
        "llm" => "a model decides, and calls the tools",
        "agent" => "a coding agent that is installed here works on the goal",
        "user" => "you decide, line by line",
        "workflow" => "the steps of a workflow file, in order",
        "state_machine" => "states with guarded transitions",
        "sequence" => "drivers one after the other",
        "fallback" => "the next driver if one gives up",
        "retry" => "a driver again, a few times, if it gives up",
        "race" => "drivers at once; the first that finishes wins",
        "until_accepted" => "a driver again until the criteria pass",
        _ => "",
    }
}

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "drivetrain", &mut script);
    output::raw(&script);
    Ok(0)
}
