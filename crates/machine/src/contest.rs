//! A race: several tasks with the same goal and the same criteria, of which one wins.
//!
//! Nothing is remembered about a race beside the tasks themselves: each knows its rivals and the rule from its first
//! record, and who wins follows from how they stand. So whoever takes a race up again after a crash decides the same.

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::task::Outcome;
use crate::time::Timestamp;

/// What a task knows of the race it is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contest {
    /// All that take part, itself included, in the order they were named. The first gives the race its name.
    pub racers: Vec<TaskId>,
    /// Who wins.
    pub pick: Pick,
}

impl Contest {
    /// The name of the race.
    pub fn name(&self) -> Option<&TaskId> {
        self.racers.first()
    }

    /// A task's place among the racers, from 1.
    pub fn number(&self, task: &TaskId) -> usize {
        self.racers.iter().position(|racer| racer == task).map_or(0, |place| place + 1)
    }
}

/// Which of the verified ones wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The first; the others are cancelled.
    #[default]
    First,
    /// The one that changed the fewest lines, once all have ended.
    Smallest,
}

impl Pick {
    /// The word people and JSON see.
    pub fn word(self) -> &'static str {
        match self {
            Pick::First => "first",
            Pick::Smallest => "smallest",
        }
    }
}

/// When a task was first verified, and how much it had changed by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// When.
    pub at: Timestamp,
    /// Lines added and removed since the base.
    pub diff_lines: u64,
}

/// One of a race, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Racer {
    /// The task.
    pub task: TaskId,
    /// How it ended; none as long as it can still go on.
    pub ended: Option<Outcome>,
    /// What it proved. Stays, whatever becomes of the task later.
    pub proof: Option<Proof>,
}

/// What a race has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has won yet, and somebody still can.
    Open,
    /// This one won. The others that have not ended are to be cancelled.
    Won {
        /// The winner.
        winner: TaskId,
        /// Those that are still on their way.
        losers: Vec<TaskId>,
        /// Why it is this one, for a person.
        why: String,
    },
    /// All have ended, and none is verified.
    Nobody,
}

/// What the race has come to. `racers` are in the order they were named.
pub fn judge(pick: Pick, racers: &[Racer]) -> Standing {
    let proven = || racers.iter().filter_map(|racer| Some((racer, racer.proof?)));
    let all_ended = racers.iter().all(|racer| racer.ended.is_some());
    // The earlier one of equals: `min_by_key` gives the first.
    let winner = match pick {
        Pick::First => proven().min_by_key(|(_, proof)| proof.at),
        Pick::Smallest if !all_ended => return Standing::Open,
        Pick::Smallest => proven().min_by_key(|(_, proof)| (proof.diff_lines, proof.at)),
    };
    let Some((winner, proof)) = winner else {
        return if all_ended { Standing::Nobody } else { Standing::Open };
    };
    let others = proven().count() - 1;
    let why = match (pick, others) {
        (Pick::First, _) => "it was verified first".to_owned(),
        (Pick::Smallest, 0) => "it is the only one that was verified".to_owned(),
        (Pick::Smallest, _) => format!(
            "it changed the fewest lines ({}) of {} that were verified",
            proof.diff_lines,
            others + 1
        ),
    };
    let is_loser = |racer: &&Racer| racer.task != winner.task && racer.ended.is_none();
    let losers = racers.iter().filter(is_loser).map(|racer| racer.task.clone()).collect();
    Standing::Won { winner: winner.task.clone(), losers, why }
}

const LOST: &str = "lost the race: ";

/// Why a loser is cancelled, for those who look later.
pub fn lost_to(winner: &TaskId) -> String {
    format!("{LOST}task {winner} was verified first")
}

/// Whether this is why a loser was cancelled.
pub fn is_loss(reason: &str) -> bool {
    reason.starts_with(LOST)
}

/// The exit code of a race: success is a winner; a race that can still be won waits; otherwise how all of them ended, or
/// that they failed if they ended in different ways.
pub fn exit_code(standing: &Standing, racers: &[Racer]) -> u8 {
    match standing {
        Standing::Won { .. } => Outcome::Verified.exit_code(),
        Standing::Open => Outcome::Waiting.exit_code(),
        Standing::Nobody => {
            let mut codes = racers.iter().filter_map(|racer| racer.ended).map(Outcome::exit_code);
            let first = codes.next().unwrap_or(Outcome::Failed.exit_code());
            if codes.all(|code| code == first) { first } else { Outcome::Failed.exit_code() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn racer(name: &str, ended: Option<Outcome>, proof: Option<(i64, u64)>) -> Racer {
        let proof = proof.map(|(at, diff_lines)| Proof { at: Timestamp(at), diff_lines });
        Racer { task: TaskId(name.to_owned()), ended, proof }
    }

    fn won(winner: &str, losers: &[&str]) -> (String, Vec<String>) {
        (winner.to_owned(), losers.iter().map(|loser| (*loser).to_owned()).collect())
    }

    fn check(pick: Pick, racers: &[Racer]) -> Option<(String, Vec<String>)> {
        match judge(pick, racers) {
            Standing::Won { winner, losers, .. } => {
                Some((winner.0, losers.into_iter().map(|loser| loser.0).collect()))
            }
            Standing::Open | Standing::Nobody => None,
        }
    }

    const VERIFIED: Option<Outcome> = Some(Outcome::Verified);

    #[test]
    fn the_first_verified_one_wins_and_the_living_ones_lose() {
        let racers = [
            racer("a", None, None),
            racer("b", VERIFIED, Some((7, 90))),
            racer("c", VERIFIED, Some((8, 1))),
            racer("d", Some(Outcome::Failed), None),
            racer("e", None, None),
        ];
        assert_eq!(check(Pick::First, &racers), Some(won("b", &["a", "e"])));
        assert_eq!(judge(Pick::Smallest, &racers), Standing::Open);
    }

    #[test]
    fn of_two_in_the_same_moment_the_one_named_first_wins() {
        let racers = [racer("a", VERIFIED, Some((7, 5))), racer("b", VERIFIED, Some((7, 5)))];
        assert_eq!(check(Pick::First, &racers), Some(won("a", &[])));
        assert_eq!(check(Pick::Smallest, &racers), Some(won("a", &[])));
    }

    #[test]
    fn the_smallest_wins_once_all_have_ended_and_of_equals_the_earlier() {
        let racers = [
            racer("a", VERIFIED, Some((1, 30))),
            racer("b", VERIFIED, Some((9, 4))),
            racer("c", VERIFIED, Some((5, 4))),
            racer("d", Some(Outcome::BudgetExhausted), None),
        ];
        assert_eq!(check(Pick::Smallest, &racers), Some(won("c", &[])));
    }

    #[test]
    fn a_winner_stays_the_winner_when_it_is_worked_on_again() {
        let racers = [racer("a", None, Some((1, 30))), racer("b", VERIFIED, Some((9, 4)))];
        assert_eq!(check(Pick::First, &racers), Some(won("a", &[])));
    }

    #[test]
    fn without_a_winner_the_code_is_theirs_if_they_agree() {
        let code = |outcomes: &[Option<Outcome>]| {
            let racers: Vec<Racer> =
                outcomes.iter().map(|outcome| racer("x", *outcome, None)).collect();
            exit_code(&judge(Pick::First, &racers), &racers)
        };
        assert_eq!(code(&[Some(Outcome::Stuck), Some(Outcome::Stuck)]), 14);
        assert_eq!(code(&[Some(Outcome::BudgetExhausted), Some(Outcome::BudgetExhausted)]), 11);
        assert_eq!(code(&[Some(Outcome::Stuck), Some(Outcome::Failed)]), 10);
        assert_eq!(code(&[Some(Outcome::Failed), None]), 13);
    }
}
