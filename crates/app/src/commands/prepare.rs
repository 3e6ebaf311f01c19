//! Makes a task complete and checked: what `run` and `chat` have in common. Nothing is recorded here.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use machine::agent::AgentProgram;
use machine::driver::external::PluginSpec;
use machine::file::task::TaskFile;
use machine::policy::budget::Budget;
use machine::policy::recovery::Recovery;
use machine::policy::sandbox::{Level, SandboxSpec, Wishes};
use machine::task::{Before, Criterion, DriverSpec, TaskSpec, WorkspaceKind, WorkspaceSpec};
use runtime::agent::login::NoWay;
use runtime::home::Home;
use runtime::library::Library;
use runtime::workspace::in_repository;
use serde::Deserialize;
use serde_json::json;

use super::options::Options;
use super::{checks, settle, trust};
use crate::args::{PlaceArgs, WallArgs};
use crate::error::{CommandError, Kind};

/// The driver that is this coding agent, with this model of its own.
pub(crate) fn agent(name: &str, model: Option<&str>, gateway: Option<bool>) -> DriverSpec {
    let mut config = json!({ "agent": name });
    if let Some(model) = model {
        config["model"] = model.into();
    }
    if let Some(gateway) = gateway {
        config["gateway"] = gateway.into();
    }
    DriverSpec::new("agent", config)
}

/// A task of a goal in words.
pub(crate) fn from_goal(goal: &str, driver: DriverSpec) -> Result<TaskFile, CommandError> {
    if goal.trim().is_empty() {
        return Err(CommandError::usage("the goal is empty").hint("say what is to be achieved"));
    }
    if goal.contains('\0') {
        return Err(CommandError::usage("the goal must not contain NUL"));
    }
    Ok(TaskFile {
        goal: goal.to_owned(),
        driver,
        budget: Budget::default(),
        acceptance: Vec::new(),
        rubric_files: Default::default(),
        workspace: WorkspaceSpec::default(),
        sandbox: Wishes::default(),
        recovery: Recovery::default(),
    })
}

/// The task that a file or a goal and the options ask for, complete and checked.
pub(crate) fn complete(
    mut task: TaskFile,
    options: Options<'_>,
    library: &Library,
    folder: PathBuf,
) -> Result<TaskSpec, CommandError> {
    task.workspace.kind = kind_of(options.place).or(task.workspace.kind);
    check_workspace(&task.workspace, &folder)?;
    check_agent(&task, &folder, &options)?;
    checks::add(&mut task, options.check, library, &folder, options.json)?;
    let everyone = everyone(&task);
    library.check_scripts(&everyone, &folder)?;
    let mut files = settle::files(&everyone, &folder, &options)?;
    options.limits.replace(&mut task.budget);
    for driver in [&task.driver].into_iter().chain(task.recovery.drivers.values()) {
        task.budget.bound(driver, 0);
    }
    let max_usd = task.budget.max_usd;
    let mut missing = BTreeSet::new();
    for driver in task.recovery.drivers.values_mut().chain([&mut task.driver]) {
        library.instruct(driver, &folder)?;
        missing.extend(library.settle_models(driver, max_usd, &folder)?);
    }
    if !task.recovery.drivers.is_empty() {
        // One of several may have no key: another can take its place.
        missing.clear();
    }
    missing.extend(library.settle_judges(&task.acceptance, max_usd, &folder)?);
    if !options.replays {
        require_keys(&missing)?;
    }
    let mut policy = library.policy()?;
    super::policy::choose_profile(&mut policy, options.place.profile.as_deref())?;
    let servers = trust::servers_for(options.home, &folder, &everyone, options.json)?;
    files.extend(library.named_files());
    let sandbox = sandbox_of(&mut task, library, options.walls, &folder)?;
    let TaskFile { goal, driver, budget, acceptance, workspace, recovery, .. } = task;
    let folder = folder.into_os_string().into_string().map_err(|folder| {
        CommandError::usage(format!(
            "the folder {} has a name that is not UTF-8",
            folder.to_string_lossy()
        ))
    })?;
    let spec = TaskSpec {
        goal,
        driver,
        budget,
        acceptance,
        workspace,
        policy,
        sandbox,
        recovery,
        folder,
        servers,
        files,
        forked_from: None,
        contest: None,
        dispatch: None,
    };
    check_before(&spec)?;
    Ok(spec)
}

/// A task whose agent or plugin is not there does not begin. One of several may be missing: another can take its place.
fn check_agent(task: &TaskFile, folder: &Path, options: &Options<'_>) -> Result<(), CommandError> {
    if !task.recovery.drivers.is_empty() {
        return Ok(());
    }
    require_agent(&task.driver, folder, options.home)?;
    require_plugin(&task.driver, folder)?;
    match options.replays {
        true => Ok(()),
        false => require_way(&task.driver),
    }
}

/// An agent that this process is to drive needs a way to its models.
fn require_way(driver: &DriverSpec) -> Result<(), CommandError> {
    let Some(mut program) = program_of(driver) else { return Ok(()) };
    if let Some(model) = driver.config["model"].as_str() {
        program.model = Some(model.to_owned());
    }
    match runtime::agent::login::check(&program) {
        Ok(()) => Ok(()),
        Err(NoWay::NoGateway(why)) => Err(CommandError::usage(why)),
        Err(NoWay::Missing { token, file }) => {
            let (name, keys) = (&program.name, program.keys.join(" or "));
            let lacks = if file.is_some() { "neither a key nor a login" } else { "no key" };
            let message = format!("the agent {name} has {lacks}: nobody would answer it");
            let error = CommandError::environment(message).hint(format!(
                "set {keys}: its models are asked through the gateway, and counted exactly"
            ));
            let or_set = token.map(|token| format!(", or set {token}")).unwrap_or_default();
            Err(match file {
                Some(file) => {
                    error.hint(format!("or log in with {name} itself, which makes {file}{or_set}"))
                }
                None => error,
            })
        }
    }
}

/// The program of a driver that is an agent. What is wrong with it is said by whoever makes it.
fn program_of(driver: &DriverSpec) -> Option<AgentProgram> {
    let program = &driver.config["program"];
    AgentProgram::deserialize(program).ok().filter(|_| driver.name == "agent")
}

/// A driver that is an agent needs its program, in a version that can be held.
pub(crate) fn require_agent(
    driver: &DriverSpec,
    folder: &Path,
    home: &Home,
) -> Result<(), CommandError> {
    let Some(program) = program_of(driver) else { return Ok(()) };
    let (name, command) = (&program.name, program.command.first().cloned().unwrap_or_default());
    if runtime::process::find_program(OsStr::new(&command), Some(folder)).is_none() {
        let error = CommandError::environment(format!(
            "the agent {name} is not installed: there is no program {command:?} on PATH or at that path"
        ));
        return Err(match runtime::agent::inventory::install(&program) {
            Some(install) => error.hint(install),
            None => error,
        }
        .hint("drivetrain agents shows those that are"));
    }
    let Some(why) = runtime::agent::inventory::refusal(&program, folder, home.root()) else {
        return Ok(());
    };
    Err(CommandError::environment(format!("the agent {name} is not started: {why}"))
        .hint("install a newer version of it; drivetrain agents shows what was found")
        .hint("run, race, fork and hand-over --any-version, or any_version = true in its file, let it work all the same"))
}

/// A driver that is a plugin needs its program.
pub(crate) fn require_plugin(driver: &DriverSpec, folder: &Path) -> Result<(), CommandError> {
    // What is wrong with its file is said by whoever makes the driver.
    let Ok(plugin) = PluginSpec::deserialize(&driver.config["plugin"]) else { return Ok(()) };
    let (name, Some(command)) = (&plugin.name, plugin.command.first()) else { return Ok(()) };
    let folder = plugin.folder.as_deref().map_or(folder, Path::new);
    if runtime::process::find_program(OsStr::new(command), Some(folder)).is_some() {
        return Ok(());
    }
    let place = if command.contains('/') {
        format!("at {}", folder.join(command).display())
    } else {
        "on PATH".to_owned()
    };
    let message =
        format!("the plugin {name} cannot be started: there is no program {command:?} {place}");
    Err(CommandError::environment(message)
        .hint("put it there and make it executable, or change command in the plugin's file"))
}

/// The task's driver and those it can be handed over to, as one: what any of them needs, the task needs.
fn everyone(task: &TaskFile) -> DriverSpec {
    if task.recovery.drivers.is_empty() {
        return task.driver.clone();
    }
    let all = task.recovery.drivers.values().chain([&task.driver]);
    let drivers: Vec<_> =
        all.map(|spec| json!({ "driver": spec.name, "config": spec.config })).collect();
    DriverSpec::new("fallback", json!({ "drivers": drivers }))
}

/// The walls that the policy, the task and the command line ask for, in this order. They are tried: a task that could
/// start no command does not begin.
fn sandbox_of(
    task: &mut TaskFile,
    library: &Library,
    walls: &WallArgs,
    folder: &Path,
) -> Result<SandboxSpec, CommandError> {
    let mut spec = SandboxSpec::default();
    for wishes in library.sandbox()? {
        wishes.change(&mut spec);
    }
    std::mem::take(&mut task.sandbox).change(&mut spec);
    spec.level = match (walls.no_sandbox, walls.sandbox.as_deref()) {
        (true, _) => Level::Off,
        (false, Some("reduced")) => Level::Reduced,
        (false, Some(_)) => Level::Full,
        (false, None) => spec.level,
    };
    spec.read = runtime::sandbox::resolve(&spec.read, folder);
    spec.write = runtime::sandbox::resolve(&spec.write, folder);
    require_sandbox(&spec)?;
    Ok(spec)
}

/// Tries the walls that a task needs. Nothing runs without them.
pub(crate) fn require_sandbox(spec: &SandboxSpec) -> Result<(), CommandError> {
    let Err(unavailable) = runtime::sandbox::require(spec.level) else { return Ok(()) };
    let message = format!(
        "the {} sandbox cannot be had, so nothing is run: {}",
        spec.level.word(),
        unavailable.reason
    );
    let error = CommandError::environment(message).hint(unavailable.mend);
    let error = match spec.level {
        Level::Full => {
            error.hint("--sandbox reduced does without namespaces, where the kernel allows")
        }
        Level::Reduced | Level::Off => error,
    };
    Err(error
        .hint("--no-sandbox runs commands with all your rights, and says so everywhere")
        .hint("drivetrain doctor says what this machine gives"))
}

/// A task that could not ask its models does not begin. Whether a command gives a key is known once it is asked.
pub(crate) fn require_keys(missing: &BTreeSet<String>) -> Result<(), CommandError> {
    if missing.is_empty() {
        return Ok(());
    }
    let words: Vec<&str> = missing.iter().map(String::as_str).collect();
    Err(CommandError::environment(words.join("; "))
        .hint("or name a program that prints it, as key_command in your own models.toml (docs/models.md)")
        .hint("drivetrain models shows which providers have a key"))
}

fn kind_of(place: &PlaceArgs) -> Option<WorkspaceKind> {
    match (place.in_place, place.no_workspace, place.worktree) {
        (true, _, _) => Some(WorkspaceKind::InPlace),
        (_, true, _) => Some(WorkspaceKind::None),
        (_, _, true) => Some(WorkspaceKind::Worktree),
        (false, false, false) => None,
    }
}

/// A criterion that compares with what was there before could only fail where nothing of that is known: better said now
/// than once the work is done.
fn check_before(spec: &TaskSpec) -> Result<(), CommandError> {
    let compares = |check: &Criterion| check.compares_with().map(|before| (before, check.title()));
    let compared: Vec<(Before, String)> = spec.criteria().iter().filter_map(compares).collect();
    if compared.is_empty() {
        return Ok(());
    }
    let folder = Path::new(&spec.folder);
    let has_worktree = match spec.workspace.kind {
        Some(kind) => kind == WorkspaceKind::Worktree,
        None => runtime::workspace::has_commits(folder),
    };
    if has_worktree {
        return Ok(());
    }
    if let Some((_, title)) = compared.iter().find(|(before, _)| *before == Before::Files) {
        let message = format!(
            "the criterion \"{title}\" runs a command on the files as they were before, and only a task in a \
             worktree has them kept"
        );
        return Err(CommandError::new(Kind::Configuration, message).hint(
            "run git init and make a commit, and leave --in-place out; or leave the criterion out",
        ));
    }
    let is_in_place = spec.workspace.kind != Some(WorkspaceKind::None);
    if is_in_place && runtime::workspace::begins_at_commit(folder) {
        return Ok(());
    }
    let lacks = match is_in_place {
        true => format!("{} is not in a git repository with a commit", folder.display()),
        false => "a task without a workspace has none".to_owned(),
    };
    let title = &compared[0].1;
    let message = format!(
        "the criterion \"{title}\" compares with the commit that the task begins at, and {lacks}"
    );
    Err(CommandError::new(Kind::Configuration, message)
        .hint("run git init and make a commit, or leave the criterion out"))
}

/// A worktree needs git, and a repository with a commit. What only git can say of that is seen when it is made.
fn check_workspace(workspace: &WorkspaceSpec, folder: &Path) -> Result<(), CommandError> {
    if workspace.kind == Some(WorkspaceKind::Worktree) && !in_repository(folder) {
        let message =
            format!("cannot make a worktree: {} is not in a git repository", folder.display());
        return Err(CommandError::new(Kind::Configuration, message)
            .hint("run git init and make a commit, or work in the folder itself with --in-place"));
    }
    if workspace.kind == Some(WorkspaceKind::Worktree) && runtime::workspace::is_unborn(folder) {
        let message =
            format!("cannot make a worktree: the repository of {} has no commit", folder.display());
        return Err(CommandError::new(Kind::Configuration, message)
            .hint("make a commit, or work in the folder itself with --in-place"));
    }
    if runtime::process::find_program(OsStr::new("git"), Some(folder)).is_some() {
        return Ok(());
    }
    let wants_worktree = match workspace.kind {
        Some(kind) => kind == WorkspaceKind::Worktree,
        None => runtime::workspace::has_commits(folder),
    };
    if wants_worktree {
        return Err(CommandError::environment("cannot make a worktree: there is no git on PATH")
            .hint("install git (Debian: apt install git), or work in the folder itself with --in-place"));
    }
    Ok(())
}
