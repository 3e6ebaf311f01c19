//! Runs acceptance criteria. A criterion passes only if it was seen to pass: whatever cannot be run, read or
//! understood has failed, and its evidence says why.

use std::path::Path;
use std::time::{Duration, Instant};

use machine::policy::sandbox::SandboxSpec;
use machine::task::{Criterion, CriterionResult, Workspace};
use machine::time::Span;
use regex::bytes::{Regex, RegexBuilder};

use crate::beneath::{Kind, Root};
use crate::process::{Cancel, Containment, ProcessSpec, Streams, run};
use crate::tool::ToolServices;

/// How much of the end of a command's output is kept as evidence.
const EVIDENCE: usize = 4 * 1024;
/// The largest file whose content is looked at.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;

/// Runs every criterion, one after the other, and gives a result for each in the same order.
/// The error is for what concerns them all: no folder to run in, or cancelled.
pub fn verify(
    criteria: &[Criterion],
    workspace: &Workspace,
    sandbox: &SandboxSpec,
    services: &ToolServices,
    cancel: &Cancel,
) -> Result<Vec<CriterionResult>, String> {
    if criteria.is_empty() {
        return Ok(Vec::new());
    }
    let Some(path) = &workspace.path else {
        return Err("the criteria need a folder to run in, and this task's workspace is of the kind \"none\""
            .to_owned());
    };
    let folder = Path::new(path);
    let root = Root::open(folder)
        .map_err(|error| format!("cannot open the workspace folder {path}: {error}"))?;
    let mut results = Vec::with_capacity(criteria.len());
    for criterion in criteria {
        let started = Instant::now();
        let outcome = match criterion {
            Criterion::Shell { command, exit, stdout, timeout, .. } => {
                let containment = services.containment_of(sandbox, workspace);
                let stdout = stdout.as_deref();
                check_command(
                    command,
                    *exit,
                    stdout,
                    *timeout,
                    folder,
                    containment,
                    services,
                    cancel,
                )
            }
            Criterion::File { path, pattern, forbidden } => {
                check_file(path, pattern.as_deref(), *forbidden, &root)
            }
            Criterion::Custom(_) | Criterion::Judge { .. } | Criterion::Protect { .. } => {
                Outcome::failed("nothing here can check this criterion")
            }
        };
        if cancel.is_triggered() {
            return Err("stopped before all criteria had run".to_owned());
        }
        results.push(CriterionResult {
            title: criterion.title(),
            passed: outcome.passed,
            exit: outcome.exit,
            evidence: outcome.evidence,
            millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            ..CriterionResult::default()
        });
    }
    Ok(results)
}

struct Outcome {
    passed: bool,
    exit: Option<i32>,
    evidence: String,
}

impl Outcome {
    fn failed(evidence: impl Into<String>) -> Outcome {
        Outcome { passed: false, exit: None, evidence: evidence.into() }
    }
}

fn check_command(
    command: &str,
    exit: i32,
    stdout: Option<&str>,
    timeout: Span,
    folder: &Path,
    containment: Containment,
    services: &ToolServices,
    cancel: &Cancel,
) -> Outcome {
    let wanted = match stdout.map(pattern).transpose() {
        Ok(wanted) => wanted,
        Err(reason) => return Outcome::failed(reason),
    };
    if command.contains('\0') {
        return Outcome::failed("the command holds a NUL character, which no shell can take");
    }
    let spec = ProcessSpec {
        cwd: Some(folder.to_owned()),
        env: services.env.clone(),
        timeout: Some(Duration::from_millis(timeout.0)),
        streams: Streams::Separate,
        mark: "criterion".to_owned(),
        mark_dir: services.mark_dir.clone(),
        containment,
        ..ProcessSpec::new(["sh", "-c", command])
    };
    let finished = match run(spec, cancel) {
        Ok(finished) => finished,
        Err(error) => return Outcome::failed(error.to_string()),
    };
    let end = finished.output.end(EVIDENCE);
    let with_end = |reason: String| match end.is_empty() {
        true => format!("[{reason}; it printed nothing]"),
        false => format!("{}\n[{reason}]", end.trim_end_matches('\n')),
    };
    if finished.timed_out || finished.cancelled {
        return Outcome::failed(with_end(format!("stopped: it ran longer than {timeout}")));
    }
    let Some(code) = finished.exit else {
        let signal =
            finished.signal.map_or("a signal".to_owned(), |number| format!("signal {number}"));
        return Outcome::failed(with_end(format!("killed by {signal}")));
    };
    let failed = |evidence| Outcome { passed: false, exit: Some(code), evidence };
    if code != exit {
        // What a namespace and a shell report for a command that a signal killed.
        let hint = match code {
            129..=192 => format!(" (as after signal {})", code - 128),
            _ => String::new(),
        };
        return failed(with_end(format!("exit code {code}{hint}, expected {exit}")));
    }
    if let Some(wanted) = wanted {
        match finished.stdout.bytes() {
            Err(error) => {
                return failed(with_end(format!("its output could not be read back: {error}")));
            }
            Ok(bytes) if !wanted.is_match(&bytes) => {
                return failed(with_end(format!(
                    "standard output does not contain {:?}",
                    wanted.as_str()
                )));
            }
            Ok(_) => {}
        }
    }
    Outcome { passed: true, exit: Some(code), evidence: end }
}

fn check_file(path: &str, wanted: Option<&str>, forbidden: bool, root: &Root) -> Outcome {
    let passed = |evidence: String| Outcome { passed: true, exit: None, evidence };
    let Some(wanted) = wanted else {
        return match (forbidden, root.exists(path)) {
            (_, Err(error)) => Outcome::failed(error.to_string()),
            (true, Ok(true)) => Outcome::failed(format!("{path} exists")),
            (true, Ok(false)) => passed(format!("{path} does not exist")),
            (false, Ok(false)) => Outcome::failed(format!("{path} does not exist")),
            (false, Ok(true)) => match root.kind(path) {
                Ok(Some(Kind::File)) => passed(format!("{path} exists")),
                Ok(Some(Kind::Folder)) => {
                    Outcome::failed(format!("{path} is a folder, expected a file"))
                }
                Ok(Some(Kind::Special)) => Outcome::failed(format!("{path} is not a regular file")),
                Ok(None) => Outcome::failed(format!("{path} is a link that leads nowhere")),
                Err(error) => Outcome::failed(error.to_string()),
            },
        };
    };
    let wanted = match pattern(wanted) {
        Ok(wanted) => wanted,
        Err(reason) => return Outcome::failed(reason),
    };
    match root.exists(path) {
        Err(error) => return Outcome::failed(error.to_string()),
        Ok(false) if forbidden => return passed(format!("{path} does not exist")),
        Ok(false) => return Outcome::failed(format!("{path} does not exist")),
        Ok(true) => {}
    }
    let bytes = match root.read(path, FILE_LIMIT) {
        Ok(bytes) => bytes,
        Err(error) => return Outcome::failed(error.to_string()),
    };
    let found = wanted
        .find(&bytes)
        .map(|found| bytes[..found.start()].iter().filter(|byte| **byte == b'\n').count() + 1);
    match (found, forbidden) {
        (Some(line), false) => passed(format!("{path}, line {line} matches")),
        (None, true) => passed(format!("nothing in {path} matches")),
        (Some(line), true) => Outcome::failed(format!(
            "{path}, line {line} matches {:?}, which is forbidden",
            wanted.as_str()
        )),
        (None, false) => {
            Outcome::failed(format!("nothing in {path} matches {:?}", wanted.as_str()))
        }
    }
}

/// `^` and `$` mean the ends of lines. Matching takes linear time whatever the expression.
fn pattern(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text)
        .multi_line(true)
        .build()
        .map_err(|error| format!("{text:?} is not a regular expression: {error}"))
}
