//! `drivetrain agent`: who does the work, by name.

use std::path::Path;
use std::sync::Arc;

use machine::agent::AgentProgram;
use machine::driver::Registry;
use machine::file::composed::{self, Composed, Worker};
use machine::file::lookup::Kind;
use machine::file::task::TaskFile;
use machine::task::DriverSpec;
use runtime::library::Library;
use serde_json::json;
use view::{Line, Tone};

use super::options::Options;
use super::shelf::{self, Part, Read};
use super::{model_name, prepare, settle, workflow};
use crate::args::{AgentCmd, AgentRunArgs};
use crate::error::CommandError;
use crate::{locate, output};

/// Runs the command.
pub(crate) fn run(command: &AgentCmd, json: bool) -> Result<u8, CommandError> {
    match command {
        AgentCmd::List => shelf::list(Kind::Agent, &read, json),
        AgentCmd::Show(args) => match AgentProgram::built_in(&args.name) {
            Some(program) => show_program(&program, json),
            None => shelf::show(Kind::Agent, &args.name, &read, json),
        },
        AgentCmd::Check(args) => shelf::check(Kind::Agent, &args.names, &read, json),
        AgentCmd::Run(args) => start(args, json),
        AgentCmd::New(args) => {
            shelf::begin(Kind::Agent, args, "toml", include_str!("shelf/agent.toml"), json)
        }
    }
}

/// Shows an agent that needs no file.
fn show_program(program: &AgentProgram, json: bool) -> Result<u8, CommandError> {
    if json {
        output::json(&json!({
            "v": 1,
            "kind": "agent",
            "name": program.name,
            "origin": "built-in",
            "overrides": [],
            "program": program.command,
            "keys": program.keys,
            "hosts": program.hosts,
        }));
        return Ok(0);
    }
    let words = program.command.join(" ");
    output::lines(&[
        Line::new(Tone::Strong, format!("agent {}", program.name)),
        Line::plain("from         built-in, needs no file"),
        Line::plain(format!("program      {words}")),
    ]);
    Ok(0)
}

/// What an agent's file says of itself, and what it is made of.
fn read(part: &Part<'_>) -> Read {
    if !composed::is_composed(part.text, part.file) {
        let program = machine::file::agent::parse(part.text, part.file)?;
        return Ok(shelf::About {
            name: program.name.clone(),
            description: format!("the program {}", program.command.join(" ")),
            version: String::new(),
            more: json!({ "program": program.command }),
            parts: Vec::new(),
        });
    }
    let agent = composed::parse(part.text, part.file, part.library)?;
    let mut parts = Vec::new();
    if let Some(file) = &agent.prompt_file {
        parts.push(("prompt".to_owned(), String::new(), file.clone()));
    }
    let worker = match &agent.worker {
        Worker::Workflow(name) => {
            use machine::file::lookup::Lookup;
            if let Ok(found) = part.library.find(Kind::Workflow, name) {
                // A mistake in the workflow is a mistake of the agent that runs it.
                part.library
                    .read_workflow(&found.text, &found.file)
                    .map_err(workflow::errors_of(part))?;
                parts.push(("workflow".to_owned(), name.clone(), found.file));
            }
            json!({ "workflow": name })
        }
        Worker::Model(model) => json!({ "model": model }),
        Worker::Program(program, model) => json!({ "program": program, "model": model }),
        Worker::Driver(driver) => json!({ "driver": driver }),
    };
    Ok(shelf::About {
        name: agent.name.clone(),
        description: agent.description.clone(),
        version: String::new(),
        more: json!({
            "worker": worker,
            "tools": { "enabled": agent.charter.enabled, "disabled": agent.charter.disabled },
            "context": {
                "include_diagnostics": agent.include_diagnostics,
                "include_memory": agent.include_memory,
                "peek_first": agent.charter.peek_first,
            },
        }),
        parts,
    })
}

fn start(args: &AgentRunArgs, json: bool) -> Result<u8, CommandError> {
    let home = locate::home()?;
    let folder = locate::folder()?;
    let registry = Arc::new(Registry::builtin());
    let library = Library::of(&folder).judged_by(&home, &folder);
    let options = Options::of(&args.with, &home, json);
    let made =
        settle::named(&library, &folder, &options, || made_of(args, &library, &folder, &registry));
    let (agent, task) = made?;
    let mut spec = prepare::complete(task, options, &library, folder)?;
    if let Some(agent) = agent {
        spec.policy.charter = agent.charter;
    }
    shelf::drive(&home, registry, &args.with, spec, json)
}

/// The agent, if it is made of parts, and the task that it gets.
fn made_of(
    args: &AgentRunArgs,
    library: &Library,
    folder: &Path,
    registry: &Registry,
) -> Result<(Option<Composed>, TaskFile), CommandError> {
    let agent = match AgentProgram::built_in(&args.name) {
        Some(_) => None,
        None => library.composed(&args.name)?,
    };
    let mut driver = match &agent {
        Some(agent) => agent.driver(),
        None => DriverSpec::new("agent", json!({ "agent": args.name })),
    };
    if let Some(name) = driver.config["workflow"].as_str() {
        let typed = workflow::typed(&args.input)?;
        library.tell_inputs(typed.clone());
        library.tell_goal(&args.goal);
        let mut found = library.workflow(name, folder)?;
        workflow::give(&mut found, &typed)?;
        if let Some(given) = found.driver.config.get("given").cloned() {
            driver.config["given"] = given;
        }
    } else if !args.input.is_empty() {
        return Err(CommandError::usage("--input is for an agent whose work is a workflow"));
    }
    if let Some(model) = agent.as_ref().and_then(|agent| match &agent.worker {
        Worker::Model(model) => Some(model),
        _ => None,
    }) {
        model_name::check(model, folder, library)?;
    }
    let mut task = prepare::from_goal(&args.goal, driver)?;
    library.resolve_task(&mut task, folder, registry)?;
    if let Some(agent) = &agent {
        let notes = match agent.include_memory {
            true => library.notes(folder)?,
            false => None,
        };
        agent
            .instruct(&mut task.driver, &args.goal, notes.as_deref())
            .map_err(runtime::library::LibraryError::Wrong)?;
    }
    Ok((agent, task))
}
