//! Task files: the goal, who drives, what it may spend and what proves that it is done.
//!
//! A workflow or a machine may stand in the file itself, as `[workflow]` or `[machine]` or inside
//! `driver_config`; or `driver_config.workflow` names one, which [`TaskFile::resolve`] puts in its place.

pub(crate) mod criteria;
mod drivers;

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use super::brought::Brought;
use super::check::{Cursor, Problems, is_name, suggest};
use super::lookup::{Lookup, Nothing};
use super::recovery;
use super::sandbox::{self, Says};
use super::shape::task as shape;
use super::source::Source;
use super::workflow::{self, Resolver, Workflow};
use super::{Format, SourceError};
use crate::driver::{Registry, composite};
use crate::policy::budget::Budget;
use crate::policy::recovery::Recovery;
use crate::policy::sandbox::Wishes;
use crate::task::{Checkpoints, Criterion, DriverSpec, WorkspaceKind, WorkspaceSpec};

/// A task as written.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskFile {
    /// What is to be achieved; may hold control characters, so escape it when it is shown.
    pub goal: String,
    /// Who decides; `user` if the file does not say.
    pub driver: DriverSpec,
    /// Limits, those of a workflow in the same file included.
    pub budget: Budget,
    /// What decides whether it is done.
    pub acceptance: Vec<Criterion>,
    /// The files that hold the rubrics of judges, by the judge's place among the criteria.
    pub rubric_files: BTreeMap<usize, String>,
    /// Where it works.
    pub workspace: WorkspaceSpec,
    /// What it wants of the sandbox.
    pub sandbox: Wishes,
    /// What follows a failed turn.
    pub recovery: Recovery,
}

impl TaskFile {
    /// Puts the workflows that `driver_config.workflow` names in their places, in composites and in steps too.
    ///
    /// `load` is given the name or path as written. Wherever a workflow stands, its limits tighten the task's and its criteria
    /// are the task's: the parts of a task have no verdict of their own.
    pub fn resolve(
        &mut self,
        load: &mut dyn FnMut(&str) -> Result<Workflow, String>,
    ) -> Result<(), String> {
        let mut brought = Brought::default();
        let mut switched = None;
        // The driver itself is visited before those inside it.
        let mut is_first = true;
        composite::visit(&self.driver.name, &mut self.driver.config, &mut |name, config| {
            let is_own = std::mem::take(&mut is_first);
            if !matches!(name, "workflow" | "state_machine") {
                return Ok(());
            }
            let Some(reference) = config.get("workflow").and_then(Value::as_str).map(str::to_owned)
            else {
                return Ok(());
            };
            let found = load(&reference)?;
            if found.driver.name != name {
                if !is_own {
                    return Err(format!(
                        "{reference:?} needs driver = {:?}, not {name:?}",
                        found.driver.name
                    ));
                }
                switched = Some(found.driver.name.clone());
            }
            brought.add(Brought::by(&found));
            // What is given to its inputs is said where it is named.
            let given = config.get("given").cloned();
            *config = found.driver.config;
            if let (Some(given), Some(table)) = (given, config.as_object_mut()) {
                table.insert("given".to_owned(), given);
            }
            Ok(())
        })?;
        self.demand(brought);
        if let Some(name) = switched {
            self.driver.name = name;
        }
        Ok(())
    }

    /// Adds what a part of the task brings.
    pub fn demand(&mut self, brought: Brought) {
        brought.join(&mut self.budget, &mut self.acceptance, &mut self.rubric_files);
    }
}

/// The goal of a task file, if it has one that can be read; mistakes are left to [`parse_with`].
pub fn goal(text: &str, file: &str, format: Format) -> Option<String> {
    let source = Source::read(file, text, format).ok()?;
    let goal = source.value.pointer("/task/goal").or_else(|| source.value.get("goal"))?;
    goal.as_str().map(str::to_owned)
}

/// Reads a task file for the drivers that come with drivetrain.
pub fn parse(text: &str, file: &str, format: Format) -> Result<TaskFile, Vec<SourceError>> {
    parse_for(text, file, format, &Registry::builtin())
}

/// Reads a task file for these drivers.
pub fn parse_for(
    text: &str,
    file: &str,
    format: Format,
    registry: &Registry,
) -> Result<TaskFile, Vec<SourceError>> {
    parse_with(text, file, format, registry, &Nothing)
}

/// Reads a task file for these drivers; what a workflow in it refers to is looked up and put in its place.
pub fn parse_with(
    text: &str,
    file: &str,
    format: Format,
    registry: &Registry,
    lookup: &dyn Lookup,
) -> Result<TaskFile, Vec<SourceError>> {
    let source = Source::read(file, text, format)?;
    let mut problems = Problems::default();
    let resolver = RefCell::new(Resolver::new(lookup, ""));
    let known = Known { registry, resolver: &resolver };
    let task = read_file(&Cursor::top(&source.value), known, &mut problems);
    match task {
        Some(mut task) if problems.is_empty() => {
            // The first workflow of a composite has it for all of them.
            let noted = composite::visit(
                &task.driver.name,
                &mut task.driver.config,
                &mut |name, config| {
                    if name == "workflow" {
                        resolver.borrow_mut().note_in(config);
                    }
                    Ok(())
                },
            );
            // A tree that is too deep is refused when its driver is made.
            drop(noted);
            Ok(task)
        }
        _ => {
            let mut errors = source.errors(problems);
            errors.append(&mut resolver.borrow_mut().errors());
            Err(errors)
        }
    }
}

/// What names in a task file can mean.
#[derive(Clone, Copy)]
struct Known<'k> {
    registry: &'k Registry,
    resolver: &'k RefCell<Resolver<'k>>,
}

fn read_file(top: &Cursor<'_>, known: Known<'_>, problems: &mut Problems) -> Option<TaskFile> {
    let task = match top.get("task") {
        Some(task) => {
            task.keys(problems, &shape::TASK);
            top.keys(problems, &shape::LONG);
            task
        }
        None => {
            top.keys(problems, &shape::WITHOUT_TASK);
            top.clone()
        }
    };
    let goal = task.need(problems, "goal").and_then(|goal| {
        let text = goal.text(problems)?;
        if text.trim().is_empty() {
            problems.push(
                &goal,
                "the goal is empty",
                Some("say what is to be achieved".to_owned()),
            );
        }
        Some(text.to_owned())
    });
    let mut budget =
        top.get("budget").map(|budget| read_budget(&budget, problems)).unwrap_or_default();
    let driver = read_driver(top, &task, known, problems);
    let items = top.get("acceptance").map(|list| list.items(problems)).unwrap_or_default();
    let (mut acceptance, mut rubric_files) = (Vec::new(), BTreeMap::new());
    for written in items.iter().filter_map(|item| criteria::read(item, problems)) {
        rubric_files.extend(written.rubric_file.map(|path| (acceptance.len(), path)));
        acceptance.push(written.criterion);
    }
    let mut others = Brought::default();
    let recovery = recovery::read(top, problems, &mut |at, problems| {
        let name = check_driver(&at.need(problems, "driver")?, known.registry, problems)?;
        let (driver, brought) = configured(name, at, at.get("driver").as_ref(), known, problems);
        others.add(brought);
        Some(driver)
    });
    others.add(known.resolver.borrow_mut().take_brought());
    let driver = driver.map(|(driver, brought)| {
        for brought in [brought, others] {
            brought.join(&mut budget, &mut acceptance, &mut rubric_files);
        }
        driver
    });
    if let Some(flag) = task.get("red_first")
        && flag.flag(problems) == Some(true)
        && !Criterion::require_red_first(&mut acceptance)
    {
        let hint = Some("add [[acceptance]] with kind = \"shell\"".to_owned());
        problems.push_key(&flag, "red_first is for commands, and no criterion is one", hint);
    }
    let workspace =
        top.get("workspace").map(|table| read_workspace(&table, problems)).unwrap_or_default();
    let sandbox = top.get("sandbox").map(|at| sandbox::read(&at, Says::Task, problems));
    let sandbox = sandbox.unwrap_or_default();
    Some(TaskFile {
        goal: goal?,
        driver: driver?,
        budget,
        acceptance,
        rubric_files,
        workspace,
        sandbox,
        recovery,
    })
}

fn read_driver(
    top: &Cursor<'_>,
    task: &Cursor<'_>,
    known: Known<'_>,
    problems: &mut Problems,
) -> Option<(DriverSpec, Brought)> {
    let config = task.get("driver_config");
    let inline = match (top.get("workflow"), top.get("machine")) {
        (Some(_), Some(machine)) => {
            problems.push_key(
                &machine,
                "a file has either [workflow] or [machine]",
                Some("remove one of the two".to_owned()),
            );
            return None;
        }
        (Some(table), None) => {
            let found =
                workflow::read_workflow(&table, &mut known.resolver.borrow_mut(), problems)?;
            Some((table.clone(), found))
        }
        (None, Some(table)) => Some((table.clone(), workflow::read_machine(&table, problems)?)),
        (None, None) => None,
    };
    let given = task.get("driver");
    let name = match &given {
        Some(given) => Some(check_driver(given, known.registry, problems)?),
        None => None,
    };
    if let Some((table, found)) = inline {
        if let Some(config) = config.as_ref().filter(|config| !config.value.is_object()) {
            config.wrong(problems, "a table");
        }
        if let Some(config) =
            config.filter(|config| config.value.as_object().is_some_and(|keys| !keys.is_empty()))
        {
            problems.push_key(
                &config,
                "the driver is configured twice, here and in the file's own table",
                Some("remove driver_config".to_owned()),
            );
        }
        // "workflow" stands for both forms that a [workflow] can have.
        let fits = name.is_none_or(|name| {
            name == found.driver.name || (name == "workflow" && top.get("workflow").is_some())
        });
        if !fits {
            let message =
                format!("this is for driver = {:?}, but the task has another", found.driver.name);
            problems.push_key(&table, message, None);
        }
        let brought = Brought::by(&found);
        return Some((found.driver, brought));
    }
    Some(configured(name.unwrap_or("user"), task, given.as_ref(), known, problems))
}

/// A driver with the configuration that stands beside its name, and what the workflows in it bring.
fn configured(
    name: &str,
    beside: &Cursor<'_>,
    given: Option<&Cursor<'_>>,
    known: Known<'_>,
    problems: &mut Problems,
) -> (DriverSpec, Brought) {
    let empty = Value::Object(Map::new());
    let config = match beside.get("driver_config") {
        Some(config) => {
            drivers::check(name, &config, known, problems);
            config.value.clone()
        }
        None => {
            if let Some(given) = given.filter(|_| matches!(name, "workflow" | "state_machine")) {
                let own = if name == "workflow" { "[[workflow.steps]]" } else { "[machine]" };
                let hint = format!("add [task.driver_config] with workflow = \"NAME\", or {own}");
                problems.push(given, format!("the driver {name:?} has nothing to run"), Some(hint));
            } else if let Some(given) = given.filter(|_| name == "agent") {
                let hint = "add [task.driver_config] with agent = \"claude\"".to_owned();
                problems.push(given, "it is not said which agent", Some(hint));
            }
            empty
        }
    };
    let mut spec = DriverSpec::new(name, config);
    drivers::resolve(name, &mut spec.config, known);
    let brought = drivers::unwrap(&mut spec, known);
    (spec, brought)
}

/// The name of a registered driver.
fn check_driver<'v>(
    at: &Cursor<'v>,
    registry: &Registry,
    problems: &mut Problems,
) -> Option<&'v str> {
    let name = at.text(problems)?;
    if let Some((kind, plugin)) = name.split_once(':')
        && (kind != "external" || !is_name(plugin))
    {
        let hint = Some("only external:NAME has a second part, the plugin's name".to_owned());
        problems.push(at, format!("no driver {name:?}"), hint);
        return None;
    }
    let Err(message) = registry.find(name) else { return Some(name) };
    problems.push(at, message, suggest(name, registry.names()));
    None
}

pub(crate) fn read_budget(at: &Cursor<'_>, problems: &mut Problems) -> Budget {
    at.keys(problems, &shape::BUDGET);
    let mut whole = |key: &str| at.get(key).and_then(|number| number.whole(problems));
    Budget {
        max_turns: whole("max_turns"),
        max_tokens: whole("max_tokens"),
        max_tool_calls: whole("max_tool_calls"),
        max_consecutive_denies: whole("max_consecutive_denies"),
        max_consecutive_errors: whole("max_consecutive_errors"),
        max_context_overflows: whole("max_context_overflows"),
        max_time: at.get("max_time").and_then(|span| span.span(problems)),
        max_usd: at.get("max_usd").and_then(|number| number.number(problems)),
    }
}

fn read_workspace(at: &Cursor<'_>, problems: &mut Problems) -> WorkspaceSpec {
    at.keys(problems, &shape::WORKSPACE);
    let kind = at.get("kind").and_then(|kind| kind.choice(problems, &shape::WORKSPACES));
    let kind = kind.map(|kind| match kind {
        "worktree" => WorkspaceKind::Worktree,
        "in_place" => WorkspaceKind::InPlace,
        _ => WorkspaceKind::None,
    });
    let given = at.get("protect");
    let protect = given.as_ref().map(|list| criteria::read_protected(list, problems));
    let protect = protect.unwrap_or_default();
    let framework = at.get("protect_framework").and_then(|flag| flag.flag(problems));
    let protect_framework = framework.unwrap_or(false);
    if let Some(given) = given
        && !protect_framework
        && !protect.is_empty()
        && protect.iter().all(|pattern| pattern.starts_with('!'))
    {
        let hint = "name what is protected, or set protect_framework = true".to_owned();
        problems.push(&given, "these are exceptions from nothing", Some(hint));
    }
    let commands = at.get("setup").map(|list| list.items(problems)).unwrap_or_default();
    let setup = commands.iter().filter_map(|command| {
        let line = command.text(problems)?;
        if line.trim().is_empty() {
            problems.push(
                command,
                "the command is empty",
                Some("write the command line, such as \"make test\"".to_owned()),
            );
        }
        Some(line.to_owned())
    });
    let setup = setup.collect();
    let folders = at.get("share").map(|list| list.items(problems)).unwrap_or_default();
    let share = folders.iter().filter_map(|folder| criteria::inside(folder, problems)).collect();
    let when = at.get("checkpoints").and_then(|when| when.choice(problems, &shape::CHECKPOINTS));
    let checkpoints = when.map(|when| match when {
        "claims" => Checkpoints::Claims,
        _ => Checkpoints::Turns,
    });
    WorkspaceSpec { kind, protect, protect_framework, setup, share, checkpoints }
}
