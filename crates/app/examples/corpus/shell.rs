//! The kinds `shell` and `shell-benign`: a command line, judged by the gate and run as if it were allowed. The two
//! are scored apart; what escapes is worse than what is judged otherwise.

use crate::Verdict;
use crate::case::Case;
use crate::effect;
use crate::gate;
use crate::rig::Rig;

/// Tries one case.
pub(crate) fn run(case: &Case, rig: &Rig) -> Verdict {
    let Some(bytes) = case.bytes() else {
        return Verdict::Skip("its generator is not known".to_owned());
    };
    effect::run(case, rig, &bytes).unwrap_or_else(|| gate::gate(case, rig))
}
