//! `shell`: a command line, run by sh in the workspace.

use std::path::Path;
use std::time::Duration;

use machine::effect::ToolCall;
use machine::time::Span;
use machine::tool::{Status, ToolResult};

use super::{ToolServices, failed, shown, text};
use crate::process::{Cancel, ProcessSpec, run as run_process};

/// How long a command may take if nobody says.
const DEFAULT_TIMEOUT: Span = Span::seconds(600);

/// The longest time that a call can ask for.
const LONGEST_TIMEOUT: Span = Span::seconds(86_400);

pub(super) fn run(
    call: &ToolCall,
    folder: &Path,
    services: &ToolServices,
    cancel: &Cancel,
) -> ToolResult {
    let wished = match call.input.get("timeout").and_then(|value| value.as_str()) {
        None => None,
        Some(text) => match Span::parse(text) {
            Ok(span) if span > LONGEST_TIMEOUT => {
                return failed(format!(
                    "parameter \"timeout\" of shell: expected at most {LONGEST_TIMEOUT}, got {span}"
                ));
            }
            Ok(span) => Some(span),
            Err(reason) => return failed(format!("parameter \"timeout\" of shell: {reason}")),
        },
    };
    let timeout = [wished, call.timeout].into_iter().flatten().min().unwrap_or(DEFAULT_TIMEOUT);
    let command = text(call, "command");
    if command.contains('\0') {
        return failed("the command holds a NUL character, which no shell can take");
    }
    let spec = ProcessSpec {
        cwd: Some(folder.to_owned()),
        env: services.env.clone(),
        timeout: Some(Duration::from_millis(timeout.0)),
        mark: format!("tool-{}", call.call),
        mark_dir: services.mark_dir.clone(),
        containment: services.containment_of(&call.sandbox, &call.workspace),
        ..ProcessSpec::new(["sh", "-c", command])
    };
    let finished = match run_process(spec, cancel) {
        Ok(finished) => finished,
        Err(error) => return failed(error.to_string()),
    };
    let (mut text, blob) = shown(&finished.output, services);
    let (status, exit, note) = if finished.cancelled {
        (Status::Aborted, None, Some("stopped while it ran".to_owned()))
    } else if finished.timed_out {
        (Status::TimedOut, None, Some(format!("stopped: it ran longer than {timeout}")))
    } else {
        match (finished.exit, finished.signal) {
            (Some(0), _) => (Status::Ok, Some(0), None),
            (Some(code), _) => (Status::Error, Some(code), None),
            (None, Some(signal)) => {
                (Status::Error, None, Some(format!("killed by signal {signal}")))
            }
            (None, None) => (Status::Error, None, Some("ended in an unknown way".to_owned())),
        }
    };
    if let Some(note) = note {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{note}]"));
    }
    ToolResult { status, text, exit, blob }
}
