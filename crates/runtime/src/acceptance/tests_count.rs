//! The criterion `tests_not_fewer`: the command runs on the base and on what was handed over, and what it prints is
//! counted.

use machine::acceptance::count;
use machine::task::CriterionResult;
use machine::time::Span;

use super::command::{Command, Ended};
use super::touched::result;
use super::{Ground, Tree, Trouble};
use crate::process::Streams;

pub(super) fn check(
    ground: &mut Ground<'_>,
    line: &str,
    timeout: Span,
) -> Result<CriterionResult, Trouble> {
    let command = Command { line, timeout, streams: Streams::Merged, mark: "criterion" };
    let before = printed(ground, Tree::Base, &command)?;
    let after = printed(ground, Tree::HandedOver, &command)?;
    let mut result = result(count::compare(&before.1, &after.1));
    result.exit = after.0.exit();
    result.on_base = before.0.exit();
    result.output = after.0.0.output.digest();
    if !result.passed {
        result.evidence = after.0.with_end(&result.evidence);
    }
    Ok(result)
}

/// What the command printed, all of it. Whether its tests pass is for other criteria to say; it must have come to an end.
fn printed(
    ground: &mut Ground<'_>,
    tree: Tree,
    command: &Command<'_>,
) -> Result<(Ended, String), Trouble> {
    let place = match tree {
        Tree::Base => "on the base",
        Tree::HandedOver => "on what was handed over",
    };
    let ended = ground.run(tree, command)?;
    if ended.exit().is_none() {
        let why = ended.complaint(0, command).unwrap_or_default();
        return Err(Trouble::Failed(ended.with_end(&format!("{place}: {why}"))));
    }
    let output = &ended.0.output;
    if output.total() > output.kept() {
        let (total, kept) = (output.total(), output.kept());
        return Err(Trouble::Failed(format!(
            "{place}, it printed {total} bytes, of which {kept} are kept: too much to count tests in"
        )));
    }
    let bytes = output.bytes().map_err(|error| {
        Trouble::Failed(format!("{place}, its output could not be read back: {error}"))
    })?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((ended, text))
}
