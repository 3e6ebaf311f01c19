//! The kind `acceptance`: a worker that wants to be believed. Each case is a whole task with a scripted model that
//! cheats; the bar is that none is verified.

pub(crate) mod attacks;
pub(crate) mod stage;

use crate::Verdict;
use crate::case::Case;
use crate::rig::Rig;
use attacks::{CORPUS, OWN};
use stage::{Attack, Bad, Stage};

/// Tries one case.
pub(crate) fn run(case: &Case, rig: &Rig) -> Verdict {
    let Some(attack) = attack_of(case) else {
        return Verdict::Skip(format!("nobody here knows how to play {:?}", case.text("attack")));
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

/// The attack of that id; for a case that came later, the one that is told in the same words.
fn attack_of(case: &Case) -> Option<&'static Attack> {
    let all = || CORPUS.iter().chain(OWN);
    let words = |text: &str| -> Vec<String> {
        let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        parts.filter(|part| part.len() > 3).map(str::to_lowercase).collect()
    };
    let told = words(case.text("attack"));
    let shared = |attack: &&Attack| {
        let own = words(attack.what);
        told.iter().filter(|word| own.contains(word)).count()
    };
    let same = all().find(|attack| attack.id == case.id);
    same.or_else(|| all().max_by_key(shared).filter(|attack| shared(attack) >= 2))
}
