//! `drivetrain run`: makes a task of a file or of a goal in words, and drives it in the foreground.
//!
//! Everything that can be wrong is looked at before the first record: nothing is half started.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use machine::driver::Registry;
use machine::task::{DriverSpec, TaskSpec};
use runtime::home::Home;
use runtime::library::{self, Library};
use runtime::station::new_task_id;
use serde_json::json;

use super::options::Options;
use super::{model_name, prepare, settle};
use crate::args::RunArgs;
use crate::error::{CommandError, Kind, near};
use crate::foreground::{self, Part, Watching};
use crate::{locate, traffic};

/// Runs the command.
pub(crate) fn run(args: &RunArgs, json: bool) -> Result<u8, CommandError> {
    let home = locate::home()?;
    let registry = Arc::new(Registry::builtin());
    let spec = task_of(args, &home, &registry, json)?;
    let traffic = traffic::open(&args.with.traffic)?;
    let watching = Watching::new(&args.with.screen, json, Part::in_driver(&spec.driver))?;
    foreground::drive(&home, registry, watching, move |station| {
        station.supervisor.performer().carry(traffic);
        let id = new_task_id();
        station.supervisor.begin(id.clone(), spec, watching.attended())?;
        Ok(vec![id])
    })
}

/// The task that the arguments ask for, complete and checked.
pub(crate) fn task_of(
    args: &RunArgs,
    home: &Home,
    registry: &Registry,
    json: bool,
) -> Result<TaskSpec, CommandError> {
    let folder = locate::folder()?;
    let path = Path::new(&args.task);
    // A goal of one word may be the name of some file; with a driver at hand it is a goal.
    let names_driver = args.driver.is_some()
        || args.workflow.is_some()
        || args.model.is_some()
        || args.agent.is_some();
    let is_file = path.is_file() && (library::is_path(&args.task) || !names_driver);
    if !is_file && (looks_like_path(&args.task) || (path.is_dir() && !names_driver)) {
        return Err(no_file(&args.task));
    }
    let library = Library::of(&folder).judged_by(home, &folder);
    let library = match path.parent().filter(|_| is_file) {
        Some(beside) => library.and_of(&folder.join(beside)),
        None => library,
    };
    let who = Who {
        driver: args.driver.as_deref(),
        workflow: args.workflow.as_deref(),
        model: args.model.as_deref(),
        agent: args.agent.as_deref(),
        gateway: (args.gateway || args.no_gateway).then_some(args.gateway),
        any_version: args.any_version,
    };
    let options = Options::of(&args.with, home, json);
    let task = settle::named(&library, &folder, &options, || {
        Ok(match (is_file, driver_of(who, registry, &library)?) {
            (true, None) => library.task(path, registry)?,
            (true, Some(driver)) => {
                let mut task = library.task(path, registry)?;
                task.driver = driver;
                library.resolve_task(&mut task, &folder, registry)?;
                task
            }
            (false, Some(driver)) => {
                let mut task = prepare::from_goal(&args.task, driver)?;
                library.resolve_task(&mut task, &folder, registry)?;
                task
            }
            (false, None) => return Err(no_driver(&args.task, registry)),
        })
    })?;
    prepare::complete(task, options, &library, folder)
}

/// Who decides, as the command line says it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who<'a> {
    /// A driver by name.
    pub(crate) driver: Option<&'a str>,
    /// A workflow.
    pub(crate) workflow: Option<&'a str>,
    /// A model.
    pub(crate) model: Option<&'a str>,
    /// A coding agent.
    pub(crate) agent: Option<&'a str>,
    /// Whether its models are asked in its place; as is usual for it if absent.
    pub(crate) gateway: Option<bool>,
    /// Whether it may be older than what was tried.
    pub(crate) any_version: bool,
}

/// The driver that was named; none if nobody was.
pub(crate) fn driver_of(
    args: Who<'_>,
    registry: &Registry,
    library: &Library,
) -> Result<Option<DriverSpec>, CommandError> {
    if let Some(workflow) = args.workflow {
        if let Some(model) = args.model {
            model_name::check(model, &locate::folder()?, library)?;
            library.tell_model(model);
        }
        return Ok(Some(DriverSpec::new("workflow", json!({ "workflow": workflow }))));
    }
    if let Some(agent) = args.agent {
        let mut driver = prepare::agent(agent, args.model, args.gateway);
        if args.any_version {
            driver.config["any_version"] = true.into();
        }
        return Ok(Some(driver));
    }
    if let Some(model) = args.model {
        return match args.driver {
            None | Some("llm") => {
                model_name::check(model, &locate::folder()?, library)?;
                Ok(Some(DriverSpec::new("llm", json!({ "model": model }))))
            }
            Some(other) => Err(CommandError::usage(format!(
                "--model is for the driver llm, not for {other:?}"
            ))),
        };
    }
    let Some(name) = args.driver else { return Ok(None) };
    if name == "llm" {
        return Err(CommandError::usage("the driver llm needs a model")
            .hint("--model script/FILE plays a script, without a network or a key"));
    }
    if let Err(reason) = registry.find(name) {
        let error = CommandError::usage(reason);
        return Err(match near(name, registry.names()) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error,
        });
    }
    if name == "agent" {
        return Err(CommandError::usage("it is not said which agent").hint("--agent claude"));
    }
    if matches!(name, "workflow" | "state_machine") {
        return Err(CommandError::usage(format!("the driver {name:?} has nothing to run"))
            .hint("--workflow NAME|PATH says which workflow; drivetrain drivers lists them"));
    }
    Ok(Some(DriverSpec::new(name, json!({}))))
}

/// A single word with a folder or a known ending is meant as a file, also if there is none.
fn looks_like_path(text: &str) -> bool {
    !text.contains(char::is_whitespace) && library::is_path(text)
}

fn no_file(text: &str) -> CommandError {
    let path = Path::new(text);
    if path.is_dir() {
        return CommandError::usage(format!(
            "{text} is a folder: expected a task file or a goal in words"
        ));
    }
    if let Some(what) = no_plain_file(path) {
        return CommandError::usage(format!(
            "{text} is {what}: expected a task file or a goal in words"
        ))
        .hint("save the task in a file, and name that");
    }
    let error = CommandError::new(Kind::Configuration, format!("there is no task file {text}"));
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).map(|entries| {
        entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect::<Vec<String>>()
    });
    let wanted = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match near(wanted, entries.as_deref().unwrap_or_default().iter().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {}?", folder.join(near).display())),
        None => error.hint("a goal in words has more than one word; quote it"),
    }
}

/// What stands in place of a file, if something does that cannot be read as one, or not again.
fn no_plain_file(path: &Path) -> Option<&'static str> {
    let is_link = path.symlink_metadata().ok()?.is_symlink();
    Some(match path.metadata() {
        Ok(found) if found.file_type().is_fifo() => "a pipe",
        Ok(found) if found.file_type().is_socket() => "a socket",
        Ok(found) if found.is_file() => return None,
        Ok(_) => "a device",
        Err(error) if is_link && error.kind() == ErrorKind::NotFound => "a link that leads nowhere",
        Err(_) if is_link => "a link that cannot be followed",
        Err(_) => return None,
    })
}

fn no_driver(goal: &str, registry: &Registry) -> CommandError {
    let names: Vec<&str> = registry.names().collect();
    let goal = view::text::quoted(&view::text::short(goal, 60));
    CommandError::usage("a goal in words needs a driver: who decides the next move?")
        .hint(format!("drivetrain run {goal} --driver user          you decide, line by line"))
        .hint(format!("drivetrain run {goal} --model PROVIDER/NAME  a model decides"))
        .hint(format!("drivetrain run {goal} --workflow NAME        the steps of a workflow file"))
        .hint(format!("drivers: {}", names.join(", ")))
}
