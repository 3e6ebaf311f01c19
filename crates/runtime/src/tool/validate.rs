//! `validator.run`: the project's own checks, and what they report as a list.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use machine::effect::ToolCall;
use machine::file::SourceError;
use machine::file::validators::{self, Check};
use machine::tool::{BlobRef, Status, ToolResult};
use wire::diagnostics::{self, Diagnostic};

use super::{ToolServices, failed};
use crate::beneath::{Kind, Reason, Root};
use crate::process::{Cancel, Finished, ProcessSpec, run as run_process};
use crate::trust::{self, Seen};

/// The largest file that says or suggests which checks there are.
const FILE_LIMIT: u64 = 1024 * 1024;
/// The most reports that are listed.
const LISTED: usize = 50;
/// How much of the end of a failed check's output is shown, in bytes.
const TAIL: usize = 4000;

/// A check that ran.
struct Ran {
    check: Check,
    finished: Finished,
    output: String,
}

impl Ran {
    fn passed(&self) -> bool {
        self.finished.exit == Some(0) && !self.finished.timed_out
    }

    /// How it ended, in a few words.
    fn end(&self) -> String {
        let Finished { exit, signal, timed_out, .. } = &self.finished;
        match (timed_out, exit, signal) {
            (true, ..) => format!("stopped: it ran longer than {}", self.check.timeout),
            (_, Some(code), _) => format!("exit {code}"),
            (_, None, Some(signal)) => format!("killed by signal {signal}"),
            (_, None, None) => "ended in an unknown way".to_owned(),
        }
    }
}

pub(super) fn run(
    call: &ToolCall,
    root: &Root,
    folder: &Path,
    services: &ToolServices,
    cancel: &Cancel,
) -> ToolResult {
    let path = call.input.get("path").and_then(|value| value.as_str()).unwrap_or(".");
    let below = match root.kind(path).and_then(|kind| Ok((kind, root.relative(path)?))) {
        Ok((Some(Kind::Folder), below)) => below,
        Ok(_) => return failed(format!("cannot check {path:?}: expected a folder that exists")),
        Err(error) => return failed(format!("cannot check {error}")),
    };
    let checks = match checks(call, root, folder, &below, services) {
        Ok(checks) => checks,
        Err(reason) => return failed(reason),
    };
    let place = folder.join(&below);
    let begun = Instant::now();
    let mut ran = Vec::new();
    for check in checks {
        let mut limit = Duration::from_millis(check.timeout.0);
        if let Some(all) = call.timeout {
            limit = limit.min(Duration::from_millis(all.0).saturating_sub(begun.elapsed()));
        }
        let spec = ProcessSpec {
            cwd: Some(place.clone()),
            env: services.env.clone(),
            timeout: Some(limit),
            mark: format!("tool-{}", call.call),
            mark_dir: services.mark_dir.clone(),
            containment: services.containment_of(&call.sandbox, &call.workspace),
            ..ProcessSpec::new(["sh", "-c", check.command.as_str()])
        };
        let finished = match run_process(spec, cancel) {
            Ok(finished) => finished,
            Err(error) => return failed(format!("check {:?}: {error}", check.name)),
        };
        if finished.cancelled {
            let text = format!("stopped while the check {:?} ran", check.name);
            return ToolResult::ended(Status::Aborted, text);
        }
        let output = match finished.output.bytes() {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => finished.output.text(),
        };
        ran.push(Ran { check, finished, output });
    }
    report(&ran, folder, &below, services)
}

/// The checks to run: written down, or else suggested by the folder's files.
fn checks(
    call: &ToolCall,
    root: &Root,
    folder: &Path,
    below: &str,
    services: &ToolServices,
) -> Result<Vec<Check>, String> {
    let at =
        |name: &str| if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
    let file = at(validators::FILE);
    let written = match root.read(&file, FILE_LIMIT) {
        Ok(bytes) => Some(bytes),
        Err(error) if matches!(error.reason, Reason::Missing) => None,
        Err(error) => return Err(format!("cannot read {error}")),
    };
    let known = match written {
        Some(bytes) => {
            trusted(&bytes, &file, folder, services)?;
            let shown = |errors: Vec<SourceError>| {
                errors.iter().map(SourceError::to_string).collect::<Vec<_>>().join("\n")
            };
            let text = machine::file::decode(&bytes, &file).map_err(shown)?;
            validators::parse(text, &file).map_err(shown)?
        }
        None => {
            let text = |name: &str| {
                Some(String::from_utf8_lossy(&root.read(&at(name), FILE_LIMIT).ok()?).into_owned())
            };
            let files: BTreeMap<&str, String> =
                validators::MARKERS.iter().filter_map(|name| Some((*name, text(name)?))).collect();
            validators::detect(&files)
        }
    };
    if known.is_empty() {
        return Err(format!(
            "no check is known for this folder; expected {file} with [[check]] (name, command), or one of {}",
            validators::MARKERS.join(", ")
        ));
    }
    // A list without names means that none was chosen: nothing that was checked would otherwise pass for all is well.
    let only = call.input.get("only").and_then(|value| value.as_array());
    let Some(only) = only.filter(|only| !only.is_empty()) else { return Ok(known) };
    let only: Vec<&str> = only.iter().filter_map(|name| name.as_str()).collect();
    if let Some(unknown) = only.iter().find(|name| !known.iter().any(|check| check.name == **name))
    {
        let names: Vec<&str> = known.iter().map(|check| check.name.as_str()).collect();
        return Err(format!("there is no check {unknown:?}; expected one of {}", names.join(", ")));
    }
    Ok(known.into_iter().filter(|check| only.contains(&check.name.as_str())).collect())
}

/// Checks that are written down are commands of whoever wrote the project: the user must trust the very content. In a
/// worktree of the project the same file is trusted in the same place, and one that the worker has changed is not.
fn trusted(bytes: &[u8], file: &str, folder: &Path, services: &ToolServices) -> Result<(), String> {
    let Some(home) = &services.judge else { return Ok(()) };
    let real = std::fs::canonicalize(folder).map_err(|error| error.to_string())?;
    let seen = Seen { path: real.join(file), sha256: trust::hash(bytes) };
    if trust::allows(home, folder, &seen)? {
        return Ok(());
    }
    Err(format!(
        "{file} is not trusted as it is, so none of its checks is run: the user can look at it and trust it with \
         `drivetrain trust` in the project"
    ))
}

/// First what passed and what did not, then what was reported, then the end of what was printed.
fn report(ran: &[Ran], folder: &Path, below: &str, services: &ToolServices) -> ToolResult {
    let passed: Vec<&str> =
        ran.iter().filter(|ran| ran.passed()).map(|ran| ran.check.name.as_str()).collect();
    let failed: Vec<&Ran> = ran.iter().filter(|ran| !ran.passed()).collect();
    let mut heads = Vec::new();
    if !failed.is_empty() {
        let ends = failed.iter().map(|ran| format!("{} ({})", ran.check.name, ran.end()));
        heads.push(format!("failed: {}", ends.collect::<Vec<_>>().join(", ")));
    }
    if !passed.is_empty() {
        heads.push(format!("ok: {}", passed.join(", ")));
    }
    let mut text = heads.join("; ");
    let found = found(ran, folder, below);
    for one in found.iter().take(LISTED) {
        text.push_str(&format!("\n{one}"));
    }
    if found.len() > LISTED {
        text.push_str(&format!("\n[{} more are not listed]", found.len() - LISTED));
    }
    let mut cut = found.len() > LISTED;
    for ran in &failed {
        let (shown, whole) = tail(&ran.output);
        cut |= !whole;
        text.push_str(&format!("\n\n== {}: {}\n{shown}", ran.check.name, ran.check.command));
    }
    let blob = if cut { keep(ran, services, &mut text) } else { None };
    // A check that ran out of time says nothing about the work; one that failed does.
    let status = if failed.iter().any(|ran| !ran.finished.timed_out) {
        Status::Error
    } else if failed.is_empty() {
        Status::Ok
    } else {
        Status::TimedOut
    };
    let exit = match status {
        Status::Ok => Some(0),
        _ => failed.iter().find(|ran| !ran.finished.timed_out).and_then(|ran| ran.finished.exit),
    };
    ToolResult { status, text, exit, blob }
}

/// What all checks report, each once, the worst first, with paths below the workspace.
fn found(ran: &[Ran], folder: &Path, below: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for mut one in ran.iter().flat_map(|ran| diagnostics::parse(&ran.output)) {
        // A relative path is seen from where the check ran.
        let whole = folder.join(below).join(&one.path);
        if let Ok(path) = whole.strip_prefix(folder)
            && let Some(path) = path.to_str()
        {
            one.path = path.to_owned();
        }
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found.sort_by_key(|one| one.severity);
    found
}

/// The end of an output, from the beginning of a line; and whether that is all of it.
fn tail(output: &str) -> (String, bool) {
    let output = output.trim_end();
    if output.len() <= TAIL {
        return (output.to_owned(), true);
    }
    let mut from = output.len() - TAIL;
    while !output.is_char_boundary(from) {
        from += 1;
    }
    let from = output[from..].find('\n').map_or(from, |at| from + at + 1);
    (format!("[{from} bytes before this are not shown]\n{}", &output[from..]), false)
}

/// Keeps the whole output of all checks.
fn keep(ran: &[Ran], services: &ToolServices, text: &mut String) -> Option<BlobRef> {
    let mut whole = String::new();
    for ran in ran {
        whole.push_str(&format!("== {}: {}\n{}\n", ran.check.name, ran.check.command, ran.output));
    }
    match services.blobs.put(whole.as_bytes()) {
        Ok(sha256) => Some(BlobRef { sha256, size: whole.len() as u64 }),
        Err(reason) => {
            text.push_str(&format!("\n[the whole output could not be kept: {reason}]"));
            None
        }
    }
}
