//! `drivetrain workflow`: steps and states by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::driver::Registry;
use machine::file::lookup::Kind;
use machine::file::workflow::Workflow;
use machine::task::DriverSpec;
use runtime::library::{Library, LibraryError};
use serde_json::json;

use super::options::Options;
use super::shelf::{self, Part, Read};
use super::{model_name, prepare, settle};
use crate::args::{WorkflowCmd, WorkflowRunArgs};
use crate::error::{CommandError, Kind as ErrorKind};
use crate::locate;

/// Runs the command.
pub(crate) fn run(command: &WorkflowCmd, json: bool) -> Result<u8, CommandError> {
    match command {
        WorkflowCmd::List => shelf::list(Kind::Workflow, &read, json),
        WorkflowCmd::Show(args) => shelf::show(Kind::Workflow, &args.name, &read, json),
        WorkflowCmd::Check(args) => shelf::check(Kind::Workflow, &args.names, &read, json),
        WorkflowCmd::Run(args) => start(args, json),
        WorkflowCmd::Graph(args) => super::graph::run(args, json),
        WorkflowCmd::New(args) => {
            shelf::begin(Kind::Workflow, args, "toml", include_str!("shelf/workflow.toml"), json)
        }
    }
}

/// What a workflow says of itself, and what it was made of.
fn read(part: &Part<'_>) -> Read {
    let workflow = part.library.read_workflow(part.text, part.file).map_err(errors_of(part))?;
    let config = &workflow.driver.config;
    let mut parts = Vec::new();
    for key in ["prompts", "files"] {
        for used in config[key].as_array().into_iter().flatten() {
            let field = |name: &str| used[name].as_str().unwrap_or_default().to_owned();
            parts.push((key.trim_end_matches('s').to_owned(), field("name"), field("file")));
        }
    }
    Ok(shelf::About {
        name: workflow.name.clone(),
        description: workflow.description.clone(),
        version: workflow.version.clone(),
        more: json!({
            "driver": workflow.driver.name,
            "inputs": config["inputs"],
            "outputs": config["outputs"],
            "budget": workflow.budget,
        }),
        parts,
    })
}

/// The mistakes of a file; another error is one too, at its beginning.
pub(super) fn errors_of(
    part: &Part<'_>,
) -> impl Fn(LibraryError) -> Vec<machine::file::SourceError> {
    move |error| match error {
        LibraryError::Source(errors) => errors,
        other => vec![machine::file::whole(part.file, part.text, other.to_string())],
    }
}

fn start(args: &WorkflowRunArgs, json: bool) -> Result<u8, CommandError> {
    let home = locate::home()?;
    let folder = locate::folder()?;
    let registry = Arc::new(Registry::builtin());
    let library = Library::of(&folder).judged_by(&home, &folder);
    let typed = typed(&args.input)?;
    library.tell_inputs(typed.clone());
    if let Some(goal) = &args.goal {
        library.tell_goal(goal);
    }
    if let Some(model) = &args.model {
        model_name::check(model, &folder, &library)?;
        library.tell_model(model);
    }
    let options = Options::of(&args.with, &home, json);
    let task = settle::named(&library, &folder, &options, || {
        let mut workflow = library.workflow(&args.name, &folder)?;
        give(&mut workflow, &typed)?;
        let goal = match (&args.goal, workflow.description.trim()) {
            (Some(goal), _) => goal.clone(),
            (None, "") => format!("run the workflow {}", workflow.name),
            (None, said) => said.to_owned(),
        };
        let mut config = json!({ "workflow": args.name });
        if let Some(given) = workflow.driver.config.get("given") {
            config["given"] = given.clone();
        }
        let driver = DriverSpec::new("workflow", config);
        let mut task = prepare::from_goal(&goal, driver)?;
        library.resolve_task(&mut task, &folder, &registry)?;
        Ok(task)
    })?;
    let spec = prepare::complete(task, options, &library, folder)?;
    shelf::drive(&home, registry, &args.with, spec, json)
}

/// `NAME=VALUE`, each name once.
pub(super) fn typed(input: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let mut typed = BTreeMap::new();
    for pair in input {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(CommandError::usage(format!("--input {pair:?}: expected NAME=VALUE")));
        };
        if typed.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(CommandError::usage(format!("the input {name:?} is given twice")));
        }
    }
    Ok(typed)
}

/// Gives a workflow its inputs, read by their declared type.
pub(super) fn give(
    workflow: &mut Workflow,
    typed: &BTreeMap<String, String>,
) -> Result<(), CommandError> {
    workflow.give(typed).map_err(|why| CommandError::new(ErrorKind::Usage, why))
}
