//! `drivetrain fork`: begins a new task with the files of any state of an old one.

use std::path::Path;
use std::sync::Arc;

use machine::driver::Registry;
use machine::file::task::TaskFile;
use machine::policy::sandbox::Wishes;
use machine::task::{ForkedFrom, TaskSpec, WorkspaceKind};
use machine::verdict::Checkpoint;
use runtime::library::Library;
use runtime::process::Cancel;
use runtime::station::new_task_id;

use super::checks;
use super::options::Options;
use super::prepare;
use super::run::{Who, driver_of};
use super::settle::{self, Change};
use crate::args::{CheckArgs, ForkArgs, PlaceArgs, WallArgs};
use crate::error::{CommandError, Kind};
use crate::foreground::{self, Part, Watching};
use crate::kept::Kept;
use crate::locate::Records;
use crate::{output, traffic};

/// Runs the command.
pub(crate) fn run(args: &ForkArgs, json: bool) -> Result<u8, CommandError> {
    let (records, cancel) = (Records::open()?, Cancel::new());
    let kept = Kept::open(&records, &args.id, &cancel)?;
    if kept.workspace.kind != WorkspaceKind::Worktree {
        let reason = format!("task {} has no worktree of its own to begin from", kept.id);
        return Err(CommandError::new(Kind::Refused, reason)
            .hint("only a task in a worktree can be forked: its base is known"));
    }
    if let Some(around) = kept.task.state.begun_by() {
        let reason =
            format!("a step of task {around} began task {}, in the files of that one", kept.id);
        return Err(CommandError::new(Kind::Refused, reason)
            .hint(format!("drivetrain fork {around} --at N begins with a state of those files")));
    }
    let registry = Arc::new(Registry::builtin());
    if let Some(lacks) = kept.lacks(&records, kept.point(&args.at)?)? {
        let hint = "begin at a later one; drivetrain diff ID --from N --to N shows what an earlier one holds";
        return Err(CommandError::new(Kind::Refused, lacks).hint(hint));
    }
    let forked_from = forked_from(args, &kept)?;
    let spec = spec_of(args, &kept, &records, &registry, json)?;
    let mut spec = TaskSpec { forked_from: Some(forked_from), ..spec };
    // Its files were written by those who know the marks of the old task.
    runtime::library::mark_anew(&mut spec).map_err(CommandError::environment)?;
    let traffic = traffic::open(&args.traffic)?;
    let watching = Watching::new(&args.screen, json, Part::in_driver(&spec.driver))?;
    drop(kept);
    let Records { home, journal, .. } = records;
    drop(journal);
    foreground::drive(&home, registry, watching, move |station| {
        station.supervisor.performer().carry(traffic);
        let id = new_task_id();
        station.supervisor.begin(id.clone(), spec, watching.attended())?;
        Ok(vec![id])
    })
}

fn forked_from(args: &ForkArgs, kept: &Kept<'_>) -> Result<ForkedFrom, CommandError> {
    let point = kept.point(&args.at)?;
    let tree = kept.store.tree(&point.commit).map_err(CommandError::environment)?;
    Ok(ForkedFrom {
        task: kept.id.to_string(),
        number: u64::try_from(point.number).unwrap_or(u64::MAX),
        at: Checkpoint { name: point.commit.clone(), tree },
        base: kept.data().whole_base().cloned(),
        here: args.base.as_deref() == Some("here"),
        commit: kept.workspace.base.clone(),
    })
}

/// The old task's words, unless others were given.
fn spec_of(
    args: &ForkArgs,
    kept: &Kept<'_>,
    records: &Records,
    registry: &Registry,
    json: bool,
) -> Result<TaskSpec, CommandError> {
    let old = &kept.data().spec;
    let folder = Path::new(&old.folder);
    let library = Library::of(folder).judged_by(&records.home, folder);
    let goal = args.goal.clone().unwrap_or_else(|| old.goal.clone());
    if goal.trim().is_empty() || goal.contains('\0') {
        return Err(CommandError::usage("the goal is empty or holds a NUL"));
    }
    let who = Who {
        driver: args.driver.as_deref(),
        workflow: args.workflow.as_deref(),
        model: args.model.as_deref(),
        agent: args.agent.as_deref(),
        gateway: None,
        any_version: args.any_version,
    };
    let acceptance = if args.check.is_empty() { old.acceptance.clone() } else { Vec::new() };
    let Some(driver) = driver_of(who, registry, &library)? else {
        // The driver as it was settled then; what its programs are now is looked at, as for a task that is resumed.
        let change = if args.trust { Change::Taken } else { Change::Refused };
        settle::go_on(kept.data(), change, json)?;
        // It runs in no race, and nobody dispatched it and set something aside for it.
        let alone = TaskSpec { dispatch: None, contest: None, ..TaskSpec::clone(old) };
        let mut spec = TaskSpec { goal, acceptance, ..alone };
        let kind = spec.workspace.kind;
        spec.acceptance.extend(checks::commands(&args.check, folder, kind, json)?);
        args.limits.replace(&mut spec.budget);
        prepare::require_sandbox(&spec.sandbox)?;
        return Ok(spec);
    };
    let mut task = TaskFile {
        goal,
        driver,
        budget: old.budget.clone(),
        acceptance,
        rubric_files: Default::default(),
        workspace: old.workspace.clone(),
        sandbox: Wishes::default(),
        recovery: old.recovery.clone(),
    };
    library.resolve_task(&mut task, folder, registry)?;
    let attended = output::is_terminal() && !json && !args.screen.unattended;
    let place = PlaceArgs { trust: args.trust, ..PlaceArgs::default() };
    let walls = WallArgs::default();
    let check = CheckArgs { check: args.check.clone(), ..CheckArgs::default() };
    let options = Options {
        check: &check,
        limits: &args.limits,
        place: &place,
        walls: &walls,
        home: &records.home,
        json,
        attended,
        replays: args.traffic.replay.is_some(),
    };
    let spec = prepare::complete(task, options, &library, folder.to_owned())?;
    let (policy, sandbox) = (old.policy.clone(), old.sandbox.clone());
    prepare::require_sandbox(&sandbox)?;
    // Those it can be handed over to are as they were settled then.
    let recovery = old.recovery.clone();
    Ok(TaskSpec { policy, sandbox, recovery, ..spec })
}
