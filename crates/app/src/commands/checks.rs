//! The checks of the command line, added to those of a task. What `--check auto` finds is decided here, once, from the
//! files that the task begins with, and said.

use std::path::Path;

use machine::acceptance::detect::{self, Found};
use machine::acceptance::touched::pattern_problem;
use machine::file::task::TaskFile;
use machine::task::{Criterion, WorkspaceKind};
use runtime::library::Library;
use serde_json::json;
use view::text;

use super::model_name;
use crate::args::CheckArgs;
use crate::error::{CommandError, Kind};
use crate::output;

/// Adds the checks to a task, whose workspace is settled.
pub(crate) fn add(
    task: &mut TaskFile,
    args: &CheckArgs,
    library: &Library,
    folder: &Path,
    json: bool,
) -> Result<(), CommandError> {
    task.acceptance.extend(commands(&args.check, folder, task.workspace.kind, json)?);
    if let (Some(model), Some(rubric)) = (&args.judge, &args.rubric) {
        model_name::check(model, folder, library)?;
        let (model, rubric) = (model.clone(), rubric_of(rubric, folder)?);
        task.acceptance.push(Criterion::Judge { model, rubric, decides: args.judge_decides });
    }
    protect(task, args)?;
    if let Some(times) = args.repeat {
        for criterion in &mut task.acceptance {
            if let Criterion::Shell { repeat, .. } = criterion {
                *repeat = times;
            }
        }
    }
    let is_command = |criterion: &Criterion| matches!(criterion, Criterion::Shell { .. });
    let option = if args.red_first { "--red-first" } else { "--repeat" };
    if (args.red_first || args.repeat.is_some()) && !task.acceptance.iter().any(is_command) {
        return Err(CommandError::usage(format!("{option} is for commands, and no check is one"))
            .hint("--check COMMAND adds one"));
    }
    if args.red_first {
        Criterion::require_red_first(&mut task.acceptance);
    }
    Ok(())
}

/// The criteria that `--check` stands for.
pub(crate) fn commands(
    check: &[String],
    folder: &Path,
    kind: Option<WorkspaceKind>,
    json: bool,
) -> Result<Vec<Criterion>, CommandError> {
    let mut criteria = Vec::new();
    for command in check {
        match command.trim() {
            "" => return Err(CommandError::usage("--check needs a command")),
            "auto" => criteria.extend(found(folder, kind, json)?),
            _ => criteria.push(Criterion::shell(command)),
        }
    }
    Ok(criteria)
}

fn found(
    folder: &Path,
    kind: Option<WorkspaceKind>,
    json: bool,
) -> Result<Vec<Criterion>, CommandError> {
    let project = runtime::detect::project(folder, kind).map_err(|reason| {
        CommandError::new(
            Kind::Configuration,
            format!("--check auto cannot look at the project: {reason}"),
        )
    })?;
    let found = detect::detect(&project);
    if found.is_empty() {
        let message = format!("--check auto finds nothing that checks {}", folder.display());
        return Err(CommandError::usage(message)
            .hint(format!("looked for: {}", detect::LOOKED_FOR))
            .hint("--check COMMAND says what to run"));
    }
    tell(&found, json);
    Ok(found.iter().flat_map(Found::criteria).collect())
}

fn tell(found: &[Found], json: bool) {
    let words = found.iter().map(|found| {
        let pinned = if found.pinned.is_some() { ", which must stay as it is" } else { "" };
        format!("{} ({}{pinned})", text::visible(&found.command), text::visible(&found.because))
    });
    let message = format!("--check auto: {}", words.collect::<Vec<_>>().join("; "));
    let commands: Vec<&str> = found.iter().map(|found| found.command.as_str()).collect();
    let notice = json!({ "v": 1, "notice": message, "commands": commands });
    output::error(&if json { notice.to_string() } else { format!("note: {message}") });
}

fn rubric_of(given: &str, folder: &Path) -> Result<String, CommandError> {
    let rubric = match given.strip_prefix('@') {
        Some(path) => {
            let path = folder.join(path);
            std::fs::read_to_string(&path).map_err(|error| {
                CommandError::usage(format!("cannot read the rubric {}: {error}", path.display()))
            })?
        }
        None => given.to_owned(),
    };
    if rubric.trim().is_empty() || rubric.contains('\0') {
        return Err(
            CommandError::usage("the rubric is empty").hint("say what the work is judged by")
        );
    }
    Ok(rubric)
}

fn protect(task: &mut TaskFile, args: &CheckArgs) -> Result<(), CommandError> {
    for pattern in &args.protect {
        if let Some(wrong) = pattern_problem(pattern) {
            return Err(CommandError::usage(format!("--protect {pattern:?}: the path {wrong}"))
                .hint("write it relative to the folder, without .."));
        }
    }
    let workspace = &mut task.workspace;
    workspace.protect.extend(args.protect.iter().cloned());
    workspace.protect_framework |= args.protect_framework;
    let only_exceptions = workspace.protect.iter().all(|pattern| pattern.starts_with('!'));
    if !workspace.protect.is_empty() && only_exceptions && !workspace.protect_framework {
        return Err(CommandError::usage("--protect names exceptions from nothing")
            .hint("name what is protected, or add --protect-framework"));
    }
    Ok(())
}
