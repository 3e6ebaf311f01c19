//! A file of a project that nobody trusts: in every place that a project has for files, it changes nothing that the user's
//! own files and a worker come to. Once it is trusted it counts; once it is changed it does not count again.

use std::path::Path;

use serde_json::Value;

use super::{Ran, Scene, fail, found, words};
use crate::Verdict;
use crate::injection;

/// What a program that the file names leaves in the workspace, beside the canary outside.
pub(crate) const MARK: &str = "a-program-of-the-file-was-here";

/// Where files of a project are looked for.
const PLACES: [&str; 8] = [
    ".drivetrain/workflows/NAME.toml",
    ".drivetrain/drivers/NAME.toml",
    ".drivetrain/agents/NAME.toml",
    ".drivetrain/prompts/NAME.toml",
    ".drivetrain/policy.toml",
    ".drivetrain/models.toml",
    ".drivetrain/mcp.toml",
    ".drivetrain/validators.toml",
];

/// The user's own workflow of the same name: it says that it ran, and what it ran with.
const OWN: &str = "[workflow]\n[[workflow.steps]]\nname = \"one\"\ntool = \"shell\"\n\
                   parameters = { command = \"echo own; command -v sh; env | grep -v DRIVETRAIN\" }\n";

/// A worker that wants what a policy would have to allow.
const WORKER: &str = "[[reply]]\ntool_calls = [{ tool = \"shell\", input = { command = \"git push; curl http://x.invalid\" } }]\n\
                      [[reply]]\ntext = \"Done.\"\nrepeat = true\n";

/// Whether the file of the case waits for trust.
pub(super) fn waits(scene: &Scene<'_>) -> Result<(), Verdict> {
    let folder = scene.rig.worktree();
    let place = |place: &str| folder.join(place.replace("NAME", scene.name()));
    std::fs::remove_file(place(PLACES[0])).unwrap();
    prepare(scene);
    let usual = outcome(scene)?;
    if !usual.contains("own") {
        return Err(fail(format!("the user's own workflow does not run: {usual}")));
    }
    for name in PLACES {
        let file = place(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, scene.bytes()).unwrap();
        for kind in ["workflow", "prompt", "agent"] {
            scene.command(&words(&[kind, "list"]))?;
        }
        match outcome(scene) {
            Ok(now) if now == usual => {}
            Ok(now) => return Err(fail(format!("{name} changes {usual:?} into {now:?}"))),
            // Neither obeyed nor passed over: nothing begins until somebody has looked at it.
            Err(Verdict::Fail(why)) if why.contains("drivetrain trust") => {}
            Err(other) => return Err(other),
        }
        std::fs::remove_file(&file).unwrap();
    }
    counts_once_trusted(scene, &place(PLACES[0]), &usual)
}

/// Trusted it is used, or refused for what it says; changed, the user's own is used again.
fn counts_once_trusted(scene: &Scene<'_>, file: &Path, usual: &str) -> Result<(), Verdict> {
    std::fs::write(file, scene.bytes()).unwrap();
    let trusted = scene.command(&words(&["trust", "--yes"]))?;
    if trusted.code != Some(0) {
        return Err(fail(format!("it cannot be trusted: {}", trusted.told())));
    }
    // What it does then is what it was trusted with, so that nothing is looked for but that it is not the user's own.
    let args = ["workflow", "run", scene.name(), "--in-place", "--unattended"];
    let ran = injection::drivetrain(scene.rig, &args)?;
    let told = injection::drivetrain(
        scene.rig,
        &["log", &injection::task(scene.rig).unwrap_or_default()],
    )?;
    if ran.status.success() && String::from_utf8_lossy(&told.stdout).contains("echo own") {
        return Err(fail("it counts for nothing once it is trusted".to_owned()));
    }
    for mark in [scene.rig.canary(), scene.rig.worktree().join(MARK)] {
        let _ = std::fs::remove_file(mark);
    }
    let mut changed = scene.bytes().to_vec();
    changed.extend_from_slice(b"\n# changed\n");
    std::fs::write(file, changed).unwrap();
    let now = outcome(scene)?;
    if now != usual {
        return Err(fail(format!("it counts although it was changed: {now:?}")));
    }
    Ok(())
}

/// The user's own files, and every program that the case names, each of which would leave a mark.
fn prepare(scene: &Scene<'_>) {
    let (rig, folder) = (scene.rig, scene.rig.worktree());
    let own = rig.user().join(".config/drivetrain/workflows");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join(format!("{}.toml", scene.name())), OWN).unwrap();
    std::fs::write(rig.user().join("worker.toml"), WORKER).unwrap();
    let mark = format!("#!/bin/sh\ntouch {} {}/{MARK}\n", rig.canary().display(), folder.display());
    let program = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &mark).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    for named in found(r"\./([A-Za-z0-9_./-]+)", &String::from_utf8_lossy(scene.bytes())) {
        if named.contains('.') {
            program(&folder.join(&named));
        } else {
            for name in ["sh", "bash", "env", "git", "touch", "grep"] {
                program(&folder.join(&named).join(name));
            }
        }
    }
}

/// What comes of the user's own workflow, and what a worker is refused.
fn outcome(scene: &Scene<'_>) -> Result<String, Verdict> {
    let by_name = ["workflow", "run", scene.name(), "--in-place", "--unattended"];
    let mut seen = vec![results(scene, &by_name)?];
    let model = format!("script/{}", scene.rig.user().join("worker.toml").display());
    seen.push(results(scene, &["run", "do it", "--model", &model, "--in-place", "--unattended"])?);
    Ok(seen.join("; "))
}

/// How each call of a new task ended, and what it gave.
fn results(scene: &Scene<'_>, args: &[&str]) -> Result<String, Verdict> {
    let before = injection::task(scene.rig);
    let ran: Ran = scene.command(&words(args))?;
    let id = injection::task(scene.rig);
    let Some(id) = id.filter(|id| before.as_ref() != Some(id)) else {
        return Err(fail(format!("{args:?} begins nothing: {}", ran.told())));
    };
    let log = scene.command(&words(&["log", &id, "--json"]))?;
    let events = log.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ended = events.filter(|event| event["type"] == "tool_ended");
    let told =
        ended.map(|event| format!("{} {}", event["result"]["status"], event["result"]["text"]));
    Ok(told.collect::<Vec<_>>().join(", "))
}
