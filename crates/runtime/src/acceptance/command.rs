//! Commands of criteria: run to their end, their whole output hashed and its end kept.

use std::path::Path;
use std::time::{Duration, Instant};

use machine::task::{CriterionResult, default_check_timeout};
use machine::time::Span;
use regex::bytes::Regex;

use super::{Ground, Tree, Trouble, pattern};
use crate::process::{
    Cancel, Containment, Finished, KEPT, ProcessSpec, Streams, run as run_process,
};
use crate::tool::ToolServices;

/// How much of the end of a command's output is kept as evidence.
const EVIDENCE: usize = 4 * 1024;

/// A command line for `sh`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command<'a> {
    pub(crate) line: &'a str,
    pub(crate) timeout: Span,
    /// Merged, its output is hashed in the order in which it was written.
    pub(crate) streams: Streams,
    /// Whose it is, for whoever looks for what a killed process left.
    pub(crate) mark: &'a str,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended(pub(crate) Finished);

/// What a criterion of the kind `shell` asks for.
pub(super) struct Wanted<'a> {
    pub(super) command: &'a str,
    pub(super) exit: i32,
    pub(super) stdout: Option<&'a str>,
    pub(super) timeout: Span,
    pub(super) repeat: u32,
    pub(super) red_first: bool,
}

/// Runs the command as often as is asked, on the base too if it must fail there.
pub(super) fn check(
    wanted: &Wanted<'_>,
    ground: &mut Ground<'_>,
) -> Result<CriterionResult, Trouble> {
    let matching = wanted.stdout.map(pattern).transpose().map_err(Trouble::Failed)?;
    let command = Command {
        line: wanted.command,
        timeout: wanted.timeout,
        streams: if matching.is_some() { Streams::Separate } else { Streams::Merged },
        mark: "criterion",
    };
    let times = wanted.repeat.max(1);
    let mut result = CriterionResult::default();
    for run in 1..=times {
        let ended = ground.run(Tree::HandedOver, &command)?;
        let complaint =
            ended.complaint(wanted.exit, &command).or_else(|| ended.lacks(matching.as_ref()));
        result.exit = ended.exit();
        result.output = ended.0.output.digest();
        result.runs = (times > 1).then_some(run);
        result.passed = complaint.is_none();
        result.evidence = match complaint {
            Some(reason) => ended.with_end(&in_runs(run, times, reason)),
            None => ended.0.output.end(EVIDENCE),
        };
        if !result.passed {
            return Ok(result);
        }
    }
    if wanted.red_first {
        must_fail_on_base(wanted, &command, matching.as_ref(), ground, &mut result)?;
    }
    Ok(result)
}

fn in_runs(run: u32, times: u32, reason: String) -> String {
    match (run, times) {
        (_, 1) => reason,
        (1, _) => format!("run 1 of {times}: {reason}"),
        _ => format!(
            "run {run} of {times}: {reason}; the {} before it passed on the same files, so it is flaky",
            run - 1
        ),
    }
}

/// A check that also passes without the work says nothing about the work; neither does one that could not run there.
fn must_fail_on_base(
    wanted: &Wanted<'_>,
    command: &Command<'_>,
    matching: Option<&Regex>,
    ground: &mut Ground<'_>,
    result: &mut CriterionResult,
) -> Result<(), Trouble> {
    let refuse = |result: &mut CriterionResult, evidence: String| {
        result.passed = false;
        result.evidence = evidence;
    };
    let ended = match ground.run(Tree::Base, command) {
        Ok(ended) => ended,
        Err(Trouble::Failed(reason)) => {
            refuse(
                result,
                format!("[it must fail on the base, and could not run there: {reason}]"),
            );
            return Ok(());
        }
        Err(broken) => return Err(broken),
    };
    result.on_base = ended.exit();
    let failed = ended.complaint(wanted.exit, command).or_else(|| ended.lacks(matching));
    match failed {
        None => refuse(
            result,
            ended.with_end(
                "it must fail on the base and passes there: it says nothing about what was changed",
            ),
        ),
        Some(reason) if !ended.is_own_failure() => refuse(
            result,
            ended.with_end(&format!(
                "it must fail on the base by what it checks, and could not run there: {reason}"
            )),
        ),
        Some(_) => {}
    }
    Ok(())
}

/// Runs a command in a folder. The error is for one that did not run at all.
pub(crate) fn run(
    command: &Command<'_>,
    folder: &Path,
    containment: Containment,
    services: &ToolServices,
    cancel: &Cancel,
) -> Result<Ended, Trouble> {
    if command.line.contains('\0') {
        let reason = "the command holds a NUL character, which no shell can take".to_owned();
        return Err(Trouble::Failed(reason));
    }
    let spec = ProcessSpec {
        cwd: Some(folder.to_owned()),
        env: services.env.clone(),
        timeout: Some(Duration::from_millis(command.timeout.0)),
        streams: command.streams,
        digest: true,
        mark: command.mark.to_owned(),
        mark_dir: services.mark_dir.clone(),
        containment,
        ..ProcessSpec::new(["sh", "-c", command.line])
    };
    let finished = run_process(spec, cancel).map_err(|error| Trouble::Failed(error.to_string()))?;
    if cancel.is_triggered() {
        return Err(Trouble::Broken("stopped before all criteria had run".to_owned()));
    }
    Ok(Ended(finished))
}

/// Runs commands that make a folder ready, one after the other; the first that fails is the last.
pub(crate) fn set_up(
    lines: &[String],
    folder: &Path,
    containment: &Containment,
    services: &ToolServices,
    cancel: &Cancel,
) -> Result<(), Trouble> {
    for line in lines {
        let timeout = default_check_timeout();
        let command = Command { line, timeout, streams: Streams::Merged, mark: "setup" };
        let ended = run(&command, folder, containment.clone(), services, cancel)?;
        if let Some(reason) = ended.complaint(0, &command) {
            let output = ended.with_end(&reason);
            return Err(Trouble::Failed(format!("the setup command {line:?} failed: {output}")));
        }
    }
    Ok(())
}

impl Ended {
    /// The exit code, if it ended by itself.
    pub(crate) fn exit(&self) -> Option<i32> {
        if self.0.timed_out || self.0.cancelled { None } else { self.0.exit }
    }

    /// Why it did not end with this exit code, if it did not.
    pub(crate) fn complaint(&self, exit: i32, command: &Command<'_>) -> Option<String> {
        if self.0.timed_out || self.0.cancelled {
            return Some(format!("stopped: it ran longer than {}", command.timeout));
        }
        let Some(code) = self.0.exit else {
            let signal = self.0.signal.map_or("a signal".to_owned(), |n| format!("signal {n}"));
            return Some(format!("killed by {signal}"));
        };
        if code == exit {
            return None;
        }
        // What a namespace and a shell report for a command that a signal killed.
        let hint = match code {
            129..=192 => format!(" (as after signal {})", code - 128),
            _ => String::new(),
        };
        Some(format!("exit code {code}{hint}, expected {exit}"))
    }

    /// Why its standard output is not what is wanted, if it is not.
    fn lacks(&self, wanted: Option<&Regex>) -> Option<String> {
        let wanted = wanted?;
        match self.0.stdout.bytes() {
            Err(error) => Some(format!("its output could not be read back: {error}")),
            Ok(bytes) if wanted.is_match(&bytes) => None,
            Ok(bytes) => {
                let looked = match self.0.stdout.total() > bytes.len() as u64 {
                    true => format!("the first {KEPT} bytes of standard output do"),
                    false => "standard output does".to_owned(),
                };
                Some(format!("{looked} not contain {:?}", wanted.as_str()))
            }
        }
    }

    /// Whether a failure is the command's own: it was found, could be started, and came to an end.
    fn is_own_failure(&self) -> bool {
        self.exit().is_some_and(|code| code != 126 && code != 127)
    }

    /// The end of the output, with a reason after it.
    pub(crate) fn with_end(&self, reason: &str) -> String {
        let end = self.0.output.end(EVIDENCE);
        match end.is_empty() {
            true => format!("[{reason}; it printed nothing]"),
            false => format!("{}\n[{reason}]", end.trim_end_matches('\n')),
        }
    }
}

/// Milliseconds since a moment.
pub(super) fn millis_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
