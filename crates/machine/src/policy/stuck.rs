//! When the same thing keeps coming back, trying again is not progress. What is counted is counted for one task, from
//! what happened in it, and forgotten as soon as a person steps in.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::cause::Repetition;
use crate::policy::signature::{Hash, normalise};
use crate::task::CriterionResult;
use crate::time::Span;

/// How often each thing may come before the task is stuck. Zero means that nobody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Failed verdicts alike, in a row.
    pub same_failure: u32,
    /// Turns of a worker with the same calls and the same results, in a row.
    pub same_action: u32,
    /// Failed claims with the same files, in a row.
    pub unchanged_tree: u32,
    /// Rounds of two to four turns, or verdicts, that follow each other.
    pub cycle: u32,
    /// The same question to a person.
    pub same_question: u32,
    /// The same call, denied.
    pub same_denied: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            same_failure: 3,
            same_action: 5,
            unchanged_tree: 4,
            cycle: 4,
            same_question: 4,
            same_denied: 5,
        }
    }
}

impl Limits {
    /// Whether these are the usual ones.
    pub fn is_default(&self) -> bool {
        *self == Limits::default()
    }
}

/// A turn that takes this long and succeeds waits for something: it may come back more often.
pub const WAITS: Span = Span::seconds(5);

/// How much more often.
pub const PATIENCE: u32 = 10;

/// The longest round that is looked for.
const LONGEST_ROUND: usize = 4;

/// Questions and denied calls that are remembered.
const REMEMBERED: usize = 64;

/// The most turns that are remembered, whatever the limits are.
const MOST_TURNS: usize = 400;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// What repeated itself.
    pub what: Repetition,
    /// Which, how often, and what to do, for a person.
    pub said: String,
}

/// Remembers the last failed verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Streak {
    signature: u64,
    count: u32,
    /// The tree of the last claim that failed; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tree: String,
    /// Failed claims with that tree.
    #[serde(default, skip_serializing_if = "is_zero")]
    unchanged: u32,
    /// The last signatures, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    before: VecDeque<u64>,
}

impl Streak {
    /// Notes a failed verdict over `tree`; what was one too many of the same, if anything.
    pub fn on_verdict_failed(
        &mut self,
        results: &[CriterionResult],
        tree: Option<&str>,
        limits: &Limits,
    ) -> Option<Found> {
        let signature = signature(results);
        self.count = if self.count > 0 && self.signature == signature { self.count + 1 } else { 1 };
        self.signature = signature;
        let tree = tree.unwrap_or_default();
        let same_tree = !tree.is_empty() && self.unchanged > 0 && self.tree == tree;
        self.unchanged = if same_tree { self.unchanged + 1 } else { u32::from(!tree.is_empty()) };
        tree.clone_into(&mut self.tree);
        remember(&mut self.before, signature, limits.cycle);
        let titles: Vec<&str> = results
            .iter()
            .filter(|result| result.fails())
            .map(|result| result.title.as_str())
            .collect();
        let failed = titles.join("; ");
        if reached(self.count, limits.same_failure) {
            let said = format!(
                "the same acceptance failure came {} times in a row: {failed}; look at what the check says, or hand \
                 over to somebody else",
                self.count
            );
            return Some(Found { what: Repetition::SameFailure, said });
        }
        if reached(self.unchanged, limits.unchanged_tree) {
            let said = format!(
                "{} claims in a row failed and no file changed between them: {failed}; tell the driver what to change, \
                 or look whether the check is to be relied on",
                self.unchanged
            );
            return Some(Found { what: Repetition::UnchangedTree, said });
        }
        let round = round(self.before.iter().copied(), limits.cycle)?;
        let said = format!(
            "the same {round} acceptance failures came in turn, {} times: {failed}; mending one breaks the other",
            limits.cycle
        );
        Some(Found { what: Repetition::Cycle, said })
    }

    /// Something else is tried: what failed before does not count any more.
    pub fn forget(&mut self) {
        *self = Streak::default();
    }

    /// The files were put back: the same ones again say nothing.
    pub fn forget_tree(&mut self) {
        self.unchanged = 0;
        self.tree.clear();
    }
}

/// What a worker did, as far as it takes to see that it does the same over and over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Watch {
    /// The last turns, oldest first; a turn that waited has its second part set.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    turns: VecDeque<(u64, bool)>,
    /// How often the last one came in a row.
    #[serde(skip_serializing_if = "is_zero")]
    row: u32,
    /// How often each question was asked.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    questions: BTreeMap<u64, u32>,
    /// How often each call was denied.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    denied: BTreeMap<u64, u32>,
    /// What was found and has not been acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// A turn of a worker as it ended.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// The hash of its calls and their results.
    pub signature: u64,
    /// What a person sees it as.
    pub title: &'a str,
    /// Whether it took long and went well.
    pub waited: bool,
}

impl Watch {
    /// Whether nothing was seen.
    pub fn is_default(&self) -> bool {
        *self == Watch::default()
    }

    /// Notes a turn.
    pub fn on_turn(&mut self, turn: Turn<'_>, limits: &Limits) {
        let same = self.turns.back().is_some_and(|(last, _)| *last == turn.signature);
        self.row = if same { self.row.saturating_add(1) } else { 1 };
        let patience = if turn.waited { PATIENCE } else { 1 };
        let kept = LONGEST_ROUND
            * usize::try_from(limits.cycle.saturating_mul(PATIENCE)).unwrap_or(MOST_TURNS);
        while self.turns.len() >= kept.clamp(1, MOST_TURNS) {
            self.turns.pop_front();
        }
        self.turns.push_back((turn.signature, turn.waited));
        if reached(self.row, limits.same_action.saturating_mul(patience)) {
            let said = format!(
                "the same action with the same result came {} times in a row: {}; tell the driver what to do instead",
                self.row, turn.title
            );
            self.find(Repetition::SameAction, said);
            return;
        }
        let waits = self.turns.iter().rev().take(LONGEST_ROUND).any(|(_, waited)| *waited);
        let rounds = limits.cycle.saturating_mul(if waits { PATIENCE } else { 1 });
        if let Some(length) = round(self.turns.iter().map(|(signature, _)| *signature), rounds) {
            let said = format!(
                "the same {length} actions with the same results came in turn, {rounds} times; the last was {}; tell the \
                 driver what to do instead",
                turn.title
            );
            self.find(Repetition::Cycle, said);
        }
    }

    /// Notes a question that was asked and ended.
    pub fn on_question(&mut self, question: &str, limits: &Limits) {
        let key = Hash::default().add(normalise(question).as_bytes()).end();
        let count = counted(&mut self.questions, key);
        if reached(count, limits.same_question) {
            let said = format!(
                "the same question was asked {count} times: {question}; answer it in a note (steer), or in the goal"
            );
            self.find(Repetition::SameQuestion, said);
        }
    }

    /// Notes a call that was denied.
    pub fn on_denied(&mut self, call: u64, title: &str, limits: &Limits) {
        let count = counted(&mut self.denied, call);
        if reached(count, limits.same_denied) {
            let said = format!(
                "the same call was denied {count} times: {title}; allow it by a rule, or tell the driver another way"
            );
            self.find(Repetition::BlockedCall, said);
        }
    }

    /// A person let the call pass: that it was denied before does not count any more.
    pub fn on_allowed(&mut self, call: u64) {
        self.denied.remove(&call);
    }

    /// The worker does not know any more what it did, or the files are others: doing it again is no circle.
    pub fn forget_turns(&mut self) {
        self.turns.clear();
        self.row = 0;
    }

    fn find(&mut self, what: Repetition, said: String) {
        self.found.get_or_insert(Found { what, said });
    }
}

fn reached(count: u32, limit: u32) -> bool {
    limit > 0 && count >= limit
}

fn counted(counts: &mut BTreeMap<u64, u32>, key: u64) -> u32 {
    if !counts.contains_key(&key) && counts.len() >= REMEMBERED {
        // Whatever came least often goes first: it is furthest from a limit.
        let least = counts.iter().min_by_key(|(_, count)| **count).map(|(key, _)| *key);
        least.and_then(|key| counts.remove(&key));
    }
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
    *count
}

fn remember(list: &mut VecDeque<u64>, signature: u64, cycle: u32) {
    let kept = LONGEST_ROUND * usize::try_from(cycle).unwrap_or(MOST_TURNS);
    while list.len() >= kept.clamp(1, MOST_TURNS) {
        list.pop_front();
    }
    list.push_back(signature);
}

/// The length of the round that the end of the list goes through, two to four long and not all the same, if it went
/// through it `rounds` times.
fn round(list: impl DoubleEndedIterator<Item = u64>, rounds: u32) -> Option<usize> {
    let rounds = usize::try_from(rounds).ok().filter(|rounds| *rounds > 0)?;
    let latest: Vec<u64> = list.rev().take(LONGEST_ROUND.saturating_mul(rounds)).collect();
    (2..=LONGEST_ROUND).find(|length| {
        let Some(seen) = latest.get(..length * rounds) else { return false };
        let first = &seen[..*length];
        first.iter().any(|one| *one != first[0]) && seen.chunks(*length).all(|chunk| chunk == first)
    })
}

/// What failed and what it printed.
pub fn signature(results: &[CriterionResult]) -> u64 {
    let mut hash = Hash::default();
    for result in results {
        hash.add(result.title.as_bytes())
            .add(&[u8::from(result.passed)])
            .add(&result.exit.unwrap_or(i32::MIN).to_le_bytes())
            .add(
                if result.passed { String::new() } else { normalise(&result.evidence) }.as_bytes(),
            );
    }
    hash.end()
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
