//! The kind `shell`.

use crate::Verdict;
use crate::case::Case;
use crate::gate;
use crate::rig::Rig;

/// Tries one case.
pub(crate) fn run(case: &Case, rig: &Rig) -> Verdict {
    if case.expect == "contained" {
        return Verdict::Skip("effects are not run yet".to_owned());
    }
    gate::gate(case, rig)
}
