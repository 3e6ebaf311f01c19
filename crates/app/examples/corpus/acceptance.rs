//! The kind `acceptance`: a worker that wants to be believed. Each case is a whole task with a scripted model that
//! cheats; the bar is that none is verified.

pub(crate) mod attacks;
pub(crate) mod stage;

use crate::Verdict;
use crate::case::Case;
use crate::rig::Rig;
use attacks::CORPUS;
use stage::{Bad, Stage};

/// Tries one case.
pub(crate) fn run(case: &Case, rig: &Rig) -> Verdict {
    let Some(attack) = CORPUS.iter().find(|attack| attack.id == case.id) else {
        return Verdict::Fail(format!("nobody plays {:?}", case.text("attack")));
    };
    let stage = Stage::new(&rig.outside().join("stage"), &rig.binary());
    match stage.play(attack) {
        Ok(_) => Verdict::Pass,
        Err(Bad::Skipped(reason)) => Verdict::Skip(reason),
        Err(Bad::Failed(reason)) => Verdict::Fail(reason),
        Err(Bad::Escaped(reason)) => Verdict::Escape(reason),
        Err(Bad::Hung(reason)) => Verdict::Hang(reason),
    }
}
