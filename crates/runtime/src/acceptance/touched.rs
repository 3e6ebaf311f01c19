//! Criteria about paths and lines: what differs between the base and what was handed over, judged by the machine's rules.

use machine::acceptance::touched::{Finding, Touching};
use machine::task::{Criterion, CriterionResult, CustomCheck};

use super::difference::all_touched;
use super::sides::count_lines;
use super::{Ground, Trouble};

/// Whether a criterion needs to know what differs.
pub(super) fn concerns(criterion: &Criterion) -> bool {
    match criterion {
        Criterion::Protect { .. } | Criterion::Judge { .. } => true,
        Criterion::Custom(check) => match check {
            CustomCheck::NoPathsTouched { .. }
            | CustomCheck::OnlyPathsTouched { .. }
            | CustomCheck::MaxDiffLines { .. }
            | CustomCheck::Plugin { .. } => true,
            CustomCheck::GitClean | CustomCheck::TestsNotFewer { .. } => false,
        },
        Criterion::Shell { .. } | Criterion::File { .. } => false,
    }
}

/// Judges what differs.
pub(super) fn check(
    ground: &Ground<'_>,
    judge: impl FnOnce(&Touching<'_>) -> Finding,
) -> Result<CriterionResult, Trouble> {
    ground.compared.clone().map_err(Trouble::Failed)?;
    let touched = all_touched(&ground.difference.changes);
    let touching = Touching { touched: &touched, prefix: &ground.difference.prefix };
    Ok(result(judge(&touching)))
}

/// No more lines than these may have been added and removed.
pub(super) fn check_lines(ground: &Ground<'_>, most: u64) -> Result<CriterionResult, Trouble> {
    ground.compared.clone().map_err(Trouble::Failed)?;
    let lines = match ground.difference.changes.is_empty() {
        true => 0,
        false => count_lines(&ground.context).map_err(Trouble::Failed)?,
    };
    let were = if lines == 1 { "line was" } else { "lines were" };
    let told = format!("{lines} {were} added and removed, at most {most} may be");
    Ok(result(Finding { passed: lines <= most, evidence: told }))
}

/// A finding as the result of a criterion.
pub(super) fn result(finding: Finding) -> CriterionResult {
    let Finding { passed, evidence } = finding;
    CriterionResult { passed, evidence, ..CriterionResult::default() }
}
