//! `drivetrain hand-over`: another driver decides from here on.

use std::path::Path;

use machine::Command;
use machine::task::DriverSpec;
use runtime::home::Home;
use runtime::library::Library;
use serde_json::{Value, json};

use super::tell::give;
use super::{model_name, prepare, settle};
use crate::args::HandOverArgs;
use crate::error::{CommandError, Kind};
use crate::locate::{Records, Task};

/// Whether the new driver asks its models, so that it needs their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    Needed,
    /// A recording answers.
    Unneeded,
}

/// Runs the command.
pub(crate) fn run(args: &HandOverArgs, json: bool) -> Result<u8, CommandError> {
    let records = Records::open()?;
    let id = records.find(&args.id)?;
    let task = records.load(&id)?;
    let config = args.config.as_deref().map_or_else(|| Ok(json!({})), read_config);
    let driver = match (&args.agent, &args.model, &args.driver) {
        (Some(agent), model, _) => {
            let mut driver = prepare::agent(agent, model.as_deref(), None);
            if args.any_version {
                driver.config["any_version"] = true.into();
            }
            to_driver(&records, &task, driver)?
        }
        (None, Some(model), _) if is_own_model(&task, model) => {
            let mut driver = task.driver();
            driver.config["program"]["model"] = json!(model);
            let library = Library::of(Path::new(&task.state.data().spec.folder));
            settled(driver, &task, &library, Keys::Needed)?
        }
        (None, Some(model), _) => {
            settle::of_another_process(&records.home, task.state.data(), model)?;
            to_model(&records.home, &task, model, Keys::Needed)?
        }
        (None, None, Some(name)) => {
            to_driver(&records, &task, DriverSpec::new(name.as_str(), config?))?
        }
        (None, None, None) => {
            return Err(CommandError::usage("say who decides: --driver, --model or --agent"));
        }
    };
    let to = match &args.agent {
        Some(agent) => view::text::named(&driver.name, [&Some(agent.clone()), &args.model]),
        None => view::text::visible(args.model.as_deref().unwrap_or(&driver.name)),
    };
    let done = format!("is handed over to {to}");
    give(records, &id, "hand-over", Command::HandOver(driver), &done, json)
}

/// Whether this is a model of the coding agent that works, by the name that the agent has for it: one that drivetrain asks
/// itself has its provider in front.
fn is_own_model(task: &Task, model: &str) -> bool {
    task.driver().name == "agent" && !model.contains('/')
}

/// The driver that asks this model: the task's own with another model if a model decides already, so that it has
/// the same tools, instructions and limits; else a new one. Nothing is changed by asking.
pub(crate) fn to_model(
    home: &Home,
    task: &Task,
    model: &str,
    keys: Keys,
) -> Result<DriverSpec, CommandError> {
    let folder = Path::new(&task.state.data().spec.folder);
    let library = Library::of(folder).judged_by(home, folder);
    model_name::check(model, folder, &library)?;
    let mut driver = task.driver();
    let is_new = driver.name != "llm";
    if is_new {
        driver = DriverSpec::new("llm", json!({}));
    }
    driver.config["model"] = json!(model);
    if let Some(config) = driver.config.as_object_mut() {
        // Another model has another context.
        config.remove("context");
    }
    library.check_scripts(&driver, folder)?;
    if is_new {
        library.instruct(&mut driver, folder)?;
    }
    settled(driver, task, &library, keys)
}

/// The driver with what is known of its models, held to the task's limit of money.
fn settled(
    mut driver: DriverSpec,
    task: &Task,
    library: &Library,
    keys: Keys,
) -> Result<DriverSpec, CommandError> {
    let data = task.state.data();
    let folder = Path::new(&data.spec.folder);
    let missing = library.settle_models(&mut driver, data.budget.max_usd, folder)?;
    // The keys of another process are its own.
    let is_here = task.driven_by.is_none_or(|process| process == std::process::id());
    if is_here && keys == Keys::Needed {
        prepare::require_keys(&missing)?;
    }
    Ok(driver)
}

fn to_driver(
    records: &Records,
    task: &Task,
    mut driver: DriverSpec,
) -> Result<DriverSpec, CommandError> {
    let here = std::env::current_dir().unwrap_or_default();
    let folder = Path::new(&task.state.data().spec.folder);
    let library = Library::of(folder).and_of(&here).judged_by(&records.home, folder);
    let brought = library.resolve_driver(&mut driver, &here, &records.registry)?;
    if !brought.is_empty() {
        let message = "the workflow brings criteria or limits of its own, and those of a task are what it began with";
        return Err(CommandError::new(Kind::Configuration, message)
            .hint("take acceptance, budget and limits (but for max_steps) out of the workflow")
            .hint(format!(
                "or begin a task with it: drivetrain fork {} --workflow NAME",
                task.state.data().id
            )));
    }
    prepare::require_agent(&driver, folder, &records.home)?;
    prepare::require_plugin(&driver, folder)?;
    settled(driver, task, &library, Keys::Needed)
}

/// JSON as it stands, or a file of JSON or TOML.
fn read_config(given: &str) -> Result<Value, CommandError> {
    let wrong = |text: String| CommandError::new(Kind::Configuration, text);
    let table = if given.trim_start().starts_with('{') {
        serde_json::from_str(given)
            .map_err(|error| wrong(format!("--config is not JSON: {error}")))?
    } else {
        let text = std::fs::read_to_string(given).map_err(|error| {
            wrong(format!("cannot read {given}: {error}"))
                .hint("--config takes a JSON object or a file of JSON or TOML")
        })?;
        if given.ends_with(".toml") {
            toml::from_str(&text).map_err(|error| wrong(format!("{given}: {error}")))?
        } else {
            serde_json::from_str(&text).map_err(|error| wrong(format!("{given}: {error}")))?
        }
    };
    match table {
        Value::Object(_) => Ok(table),
        other => Err(wrong(format!("the configuration must be an object, got {other}"))),
    }
}
