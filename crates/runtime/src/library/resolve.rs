//! Puts in its place whatever a task names: workflows, plugins, agents, criteria. Nothing is left to look up afterwards.

use std::path::Path;

use machine::driver::external::PluginSpec;
use machine::driver::{Registry, composite};
use machine::file::lookup::Kind;
use machine::file::plugin::Plugin;
use machine::file::task::{Brought, TaskFile};
use machine::file::workflow::Workflow;
use machine::file::{self, Format};
use machine::policy::sandbox::Wishes;
use machine::task::{Criterion, CustomCheck, DriverSpec, FileRole, FileStanding};
use serde_json::{Value, json};

use super::{Library, LibraryError, agents, folder_of, is_path};
use crate::acting;

impl Library {
    /// Reads a workflow by its name, or by its path below `base`.
    pub fn workflow(&self, reference: &str, base: &Path) -> Result<Workflow, LibraryError> {
        let (text, file) = if is_path(reference) {
            self.read_named(&base.join(reference), FileRole::Workflow)?
        } else {
            let found = self.take(Kind::Workflow, reference)?;
            (found.text, found.file)
        };
        let mut workflow = self.read_workflow(&text, &file)?;
        // A machine asks no model.
        let told = self.told.borrow();
        if let Some(model) = told.model.as_ref().filter(|_| workflow.driver.name == "workflow") {
            file::workflow::default_model(&mut workflow.driver.config, model);
        }
        Ok(workflow)
    }

    /// Reads the text of a workflow; what it refers to is looked up here.
    pub fn read_workflow(&self, text: &str, file: &str) -> Result<Workflow, LibraryError> {
        let workflow = file::workflow::parse(text, file, self).map_err(LibraryError::Source)?;
        check_patterns(&workflow.acceptance, text, file)?;
        Ok(workflow)
    }

    /// Reads a plugin by its name.
    pub fn plugin(&self, name: &str) -> Result<PluginSpec, LibraryError> {
        let path = self.named("drivers", "plugin", name)?;
        let (text, shown) = self.read_named(&path, FileRole::Plugin)?;
        let plugin = file::plugin::parse(&text, &shown).map_err(LibraryError::Source)?;
        if plugin.name != name {
            return Err(LibraryError::Wrong(format!(
                "{shown} holds the driver {:?}, not {name:?}: rename the file or the driver",
                plugin.name
            )));
        }
        let spec = spec_of(plugin, &path);
        if let Some(folder) = &spec.folder {
            for program in acting::programs_of(&spec.command, Path::new(folder))? {
                self.unchanged(&program.seen.path, &program.seen)?;
                self.note(program.recorded(FileStanding::Named));
            }
        }
        Ok(spec)
    }

    /// Reads a task file and puts in its place whatever it names. Nothing is left to look up afterwards.
    pub fn task(&self, path: &Path, registry: &Registry) -> Result<TaskFile, LibraryError> {
        let (text, shown) = self.read_named(path, FileRole::Task)?;
        let format = Format::of(&shown);
        // A script that a workflow in the file calls is run while the file is read.
        if let Some(goal) = file::task::goal(&text, &shown, format) {
            self.tell_goal(&goal);
        }
        let mut task = file::task::parse_with(&text, &shown, format, registry, self)
            .map_err(LibraryError::Source)?;
        check_patterns(&task.acceptance, &text, &shown)?;
        let base = path.parent().unwrap_or(Path::new("."));
        let driver = task.driver.name.clone();
        self.resolve_task(&mut task, base, registry)
            .map_err(|error| placed(error, &driver, &text, &shown))?;
        Ok(task)
    }

    /// Puts in its place whatever the task names, and checks what a file alone cannot say.
    pub fn resolve_task(
        &self,
        task: &mut TaskFile,
        base: &Path,
        registry: &Registry,
    ) -> Result<(), LibraryError> {
        if !task.goal.is_empty() {
            self.tell_goal(&task.goal);
        }
        // The walk speaks in text; the first typed error is kept beside it.
        let mut cause = None;
        let resolved = task.resolve(&mut |reference| {
            self.workflow(reference, base).map_err(|error| {
                let text = error.to_string();
                cause.get_or_insert(error);
                text
            })
        });
        if let Err(text) = resolved {
            return Err(cause.unwrap_or(LibraryError::Wrong(text)));
        }
        self.resolve_plugins(&mut task.driver)?;
        agents::resolve(self, &mut task.driver)?;
        let mut brought = Vec::new();
        for driver in task.recovery.drivers.values_mut() {
            brought.push(self.resolve_driver(driver, base, registry)?);
        }
        brought.into_iter().for_each(|brought| task.demand(brought));
        self.resolve_criteria(task, base)?;
        check(&task.driver, &task.acceptance, registry)
    }

    /// Puts in its place whatever a driver's configuration names. Gives what the workflows in it bring to their task.
    pub fn resolve_driver(
        &self,
        driver: &mut DriverSpec,
        base: &Path,
        registry: &Registry,
    ) -> Result<Brought, LibraryError> {
        let mut task = TaskFile {
            goal: String::new(),
            driver: driver.clone(),
            budget: machine::policy::budget::Budget::default(),
            acceptance: Vec::new(),
            rubric_files: Default::default(),
            workspace: machine::task::WorkspaceSpec::default(),
            sandbox: Wishes::default(),
            recovery: machine::policy::recovery::Recovery::default(),
        };
        self.resolve_task(&mut task, base, registry)?;
        *driver = task.driver;
        let TaskFile { budget, acceptance, rubric_files, .. } = task;
        Ok(Brought { budget, acceptance, rubric_files })
    }

    /// Gives every `external:NAME` its plugin, and the configuration it was written with.
    fn resolve_plugins(&self, driver: &mut DriverSpec) -> Result<(), LibraryError> {
        let mut cause = None;
        let visited = composite::visit(&driver.name, &mut driver.config, &mut |name, config| {
            let Some(plugin) = name.strip_prefix("external:") else { return Ok(()) };
            if config.get("plugin").is_some() {
                return Ok(());
            }
            let spec = self.plugin(plugin).map_err(|error| {
                let text = error.to_string();
                cause.get_or_insert(error);
                text
            })?;
            *config = json!({ "plugin": spec, "config": std::mem::replace(config, Value::Null) });
            Ok(())
        });
        visited.map_err(|text| cause.unwrap_or(LibraryError::Wrong(text)))
    }

    /// Gives criteria what they name: a plugin its program, a judge its rubric. From here on no file has a say in them.
    fn resolve_criteria(&self, task: &mut TaskFile, base: &Path) -> Result<(), LibraryError> {
        for (place, path) in std::mem::take(&mut task.rubric_files) {
            let (text, shown) = self.read_named(&base.join(path), FileRole::Page)?;
            if text.trim().is_empty() {
                return Err(LibraryError::Wrong(format!("the rubric {shown} is empty")));
            }
            if let Some(Criterion::Judge { rubric, .. }) = task.acceptance.get_mut(place) {
                *rubric = text;
            }
        }
        for criterion in &mut task.acceptance {
            if let Criterion::Custom(CustomCheck::Plugin { plugin, .. }) = criterion
                && plugin.get("command").is_none()
                && let Some(name) = plugin["name"].as_str().map(str::to_owned)
            {
                *plugin = json!(self.plugin(&name)?);
            }
        }
        Ok(())
    }
}

/// What is wrong with what a file names, shown where it does.
fn placed(error: LibraryError, driver: &str, text: &str, file: &str) -> LibraryError {
    let mut help = None;
    let part = match &error {
        LibraryError::Unknown { name, known, folders, .. } => {
            let near = file::suggestion(name, known.iter().map(String::as_str));
            let known = (!known.is_empty()).then(|| format!("there is {}", known.join(", ")));
            let folders: Vec<String> = folders.iter().map(|at| at.display().to_string()).collect();
            let looked = (!folders.is_empty()).then(|| format!("looked in {}", folders.join(", ")));
            help = match (near.or(known), looked) {
                (Some(hint), Some(looked)) => Some(format!("{hint} ({looked})")),
                (hint, looked) => hint.or(looked),
            };
            name.clone()
        }
        LibraryError::Unreadable { path, .. } => {
            path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        }
        LibraryError::Wrong(why) => wrong_key(why, text).unwrap_or(driver).to_owned(),
        LibraryError::Source(_) | LibraryError::Untrusted(_) | LibraryError::Changed(_) => {
            return error;
        }
    };
    let quoted = format!("\"{part}\"");
    // One that another file names is not here.
    match [quoted.as_str(), &part].into_iter().find(|part| text.contains(part)) {
        Some(part) => {
            let message = error.to_string();
            LibraryError::Source(vec![file::at_part(file, text, part, message, help)])
        }
        None => error,
    }
}

/// The key of a driver's configuration that it refuses, if that is what is wrong.
fn wrong_key<'w>(why: &'w str, text: &str) -> Option<&'w str> {
    let reason = why.split_once(CANNOT_BE_USED)?.1;
    let key = match reason.split_once("unknown field `") {
        Some((_, rest)) => rest.split('`').next()?,
        None => reason.split_once(':')?.0.rsplit(['.', ']']).next()?,
    };
    (!key.is_empty() && text.contains(key)).then_some(key)
}

/// What is said of a driver that cannot be made, before the reason.
const CANNOT_BE_USED: &str = " cannot be used: ";

/// Checks what only the runtime can: that the driver can be made, and that patterns can be searched for.
pub fn check(
    driver: &DriverSpec,
    acceptance: &[Criterion],
    registry: &Registry,
) -> Result<(), LibraryError> {
    let wrong = |text: String| LibraryError::Wrong(text);
    machine::driver::DriverSlot::create(&driver.name, &driver.config, registry)
        .map_err(|reason| wrong(format!("the driver {:?}{CANNOT_BE_USED}{reason}", driver.name)))?;
    let of_steps = driver.criteria_of_steps();
    match wrong_pattern(acceptance).or_else(|| wrong_pattern(&of_steps)) {
        Some((_, why)) => Err(wrong(why)),
        None => Ok(()),
    }
}

/// The same for what a file says, with the place in it.
fn check_patterns(acceptance: &[Criterion], text: &str, file: &str) -> Result<(), LibraryError> {
    match wrong_pattern(acceptance) {
        Some((pattern, why)) => {
            Err(LibraryError::Source(vec![file::at_part(file, text, pattern, why, None)]))
        }
        None => Ok(()),
    }
}

/// The first pattern that cannot be searched for, and why.
fn wrong_pattern(acceptance: &[Criterion]) -> Option<(&str, String)> {
    acceptance.iter().find_map(|criterion| {
        let pattern = match criterion {
            Criterion::Shell { stdout, .. } => stdout.as_deref()?,
            Criterion::File { pattern, .. } => pattern.as_deref()?,
            Criterion::Custom(_) | Criterion::Judge { .. } | Criterion::Protect { .. } => {
                return None;
            }
        };
        let error = regex::Regex::new(pattern).err()?.to_string();
        // The lines before the last draw the pattern, which is shown where it stands.
        let error = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let title = criterion.title();
        let why = format!(
            "the criterion {title:?} has a pattern that is not a regular expression: {error}"
        );
        Some((pattern, why))
    })
}

fn spec_of(plugin: Plugin, path: &Path) -> PluginSpec {
    let folder = folder_of(path);
    PluginSpec {
        name: plugin.name,
        command: plugin.command,
        timeout: Some(plugin.timeout),
        folder: folder.map(|folder| folder.to_string_lossy().into_owned()),
        env: plugin.env,
        needs: plugin.needs,
    }
}
