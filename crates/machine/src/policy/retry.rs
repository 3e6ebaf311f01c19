//! When a model that failed is asked again: never at once, never for ever, never sooner than it asked for.

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::message::{ModelFailure, Retry};
use crate::policy::breaker;
use crate::time::Span;

/// How long a model that fails is waited for, as the task says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Waits {
    /// How often the same question is asked before the driver is told.
    pub attempts: u32,
    /// The longest wait that a provider can ask for; one that asks for more fails at once (but see [`for_a_person`]).
    pub longest_wait: Span,
    /// How many failed requests there may be in the whole task before a failure is no longer waited out.
    pub max_wasted: u64,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits { attempts: 10, longest_wait: Span::seconds(24 * 60 * 60), max_wasted: 100 }
    }
}

impl Waits {
    /// Whether these are the usual ones.
    pub fn is_default(&self) -> bool {
        *self == Waits::default()
    }
}

/// The first wait of our own; each further one is twice as long, up to the longest.
const FIRST_WAIT_MILLIS: u64 = 1_000;

/// The longest wait of our own. With its spread it stays below a minute, so only what a provider asks for puts a
/// task to rest.
const LONGEST_OWN_WAIT_MILLIS: u64 = 54_000;

/// All waits of our own for one question together. What a provider asks for is not counted.
const ALL_OWN_WAITS_MILLIS: u64 = 30 * 60 * 1_000;

/// The longest wait that a process sits through if nobody is there; a longer one is a moment in the journal.
pub const LONGEST_SITTING: Span = Span::seconds(60);

/// The kind of a question that was not sent, since there is no key to send it with.
pub const NO_KEY: &str = "no_key";

/// Whether the failure is the server's: a question that was held back here has not been asked.
pub fn counts(failure: &ModelFailure) -> bool {
    ![breaker::KIND, NO_KEY].contains(&failure.kind.as_str())
}

/// Whether a wait after this failure is of our own making.
pub fn is_own(failure: &ModelFailure) -> bool {
    failure.retry == Retry::Backoff || !counts(failure)
}

/// How often the same question may be answered in a way that cannot be used before the model is told so: another try often
/// does, and what answers it the same way each time would be paid for each time.
const UNUSABLE: u32 = 3;

/// Whether a model that failed so often in a row is better told what is wrong with its answers than asked the same again.
pub fn is_to_be_told(failure: &ModelFailure, failures: u32) -> bool {
    failure.is_unusable() && failures >= UNUSABLE
}

/// How the question fared that is being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Its failures in a row.
    pub failures: u32,
    /// How long it waited by rules of our own.
    pub waited: Span,
    /// Failed requests of the whole task.
    pub wasted: u64,
}

/// How long to wait before a question that has just failed is asked again; `None` if that does not help. `salt`
/// spreads tasks that failed together: the same salt gives the same wait, so that a replay does too.
pub fn wait(failure: &ModelFailure, asked: Asked, waits: &Waits, salt: u64) -> Option<Span> {
    let Asked { failures, waited, wasted } = asked;
    if failures >= waits.attempts || wasted >= waits.max_wasted {
        return None;
    }
    let wait = match failure.retry {
        Retry::Never => return None,
        Retry::After(millis) if millis > waits.longest_wait.0 => return None,
        // Up to a twentieth later, never sooner; and never sooner than by our own rule, as some servers ask for no
        // wait at all.
        Retry::After(millis) => {
            (millis + spread(salt) * millis / 20_000).max(own_wait(failures, salt))
        }
        Retry::Backoff => own_wait(failures, salt),
    };
    if is_own(failure) && waited.0.saturating_add(wait) > ALL_OWN_WAITS_MILLIS {
        return None;
    }
    Some(Span(wait))
}

/// How long a provider asks to be left alone, if that is more than a task waits for that says nothing about it: such a
/// task is put to rest for a person. One that says how long a wait may be has said what becomes of a longer one.
pub fn for_a_person(failure: &ModelFailure, waits: &Waits) -> Option<Span> {
    let longest = Waits::default().longest_wait;
    match failure.retry {
        Retry::After(millis) if waits.longest_wait == longest && millis > longest.0 => {
            Some(Span(millis))
        }
        Retry::After(_) | Retry::Backoff | Retry::Never => None,
    }
}

/// The wait of our own after so many failures in a row.
fn own_wait(failures: u32, salt: u64) -> u64 {
    let doubled = FIRST_WAIT_MILLIS << failures.saturating_sub(1).min(10);
    let whole = doubled.min(LONGEST_OWN_WAIT_MILLIS);
    whole - whole / 10 + spread(salt) * whole / 5_000
}

/// A number that differs from task to task and from effect to effect.
pub fn salt(task: &TaskId, effect: u64) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let start = 0xcbf2_9ce4_8422_2325;
    effect.to_le_bytes().into_iter().fold(task.as_str().bytes().fold(start, fold), fold)
}

/// A number from 0 to 1000 that looks random.
fn spread(salt: u64) -> u64 {
    let mixed = (salt ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 31)) % 1001
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Usage;

    fn failure(kind: &str, retry: Retry) -> ModelFailure {
        let (kind, message) = (kind.to_owned(), String::new());
        ModelFailure { kind, retry, message, usage: Usage::default() }
    }

    fn after(retry: Retry, failures: u32, salt: u64) -> Option<u64> {
        let asked = Asked { failures, ..Asked::default() };
        wait(&failure("server", retry), asked, &Waits::default(), salt).map(|wait| wait.0)
    }

    #[test]
    fn a_wait_is_never_sooner_than_asked_and_never_endless() {
        for salt in 0..200 {
            let asked = after(Retry::After(7_000), 1, salt).unwrap();
            assert!((7_000..=7_350).contains(&asked), "{asked}");
            for failures in 1..Waits::default().attempts {
                let own = after(Retry::Backoff, failures, salt).unwrap();
                let whole = (1_000 << (failures - 1)).min(LONGEST_OWN_WAIT_MILLIS);
                assert!((whole * 9 / 10..=whole * 11 / 10).contains(&own), "{failures}: {own}");
                assert!(own < LONGEST_SITTING.0, "{failures}: {own}");
            }
        }
        assert_eq!(after(Retry::Never, 1, 0), None);
        for failures in 1..Waits::default().attempts {
            let own = after(Retry::Backoff, failures, 7);
            assert_eq!(after(Retry::After(0), failures, 7), own, "some servers ask for no wait");
        }
        assert_eq!(after(Retry::Backoff, Waits::default().attempts, 0), None);
    }

    #[test]
    fn edge_case_35_a_provider_may_ask_for_a_day_and_more_fails_at_once() {
        let day = 24 * 60 * 60 * 1_000;
        assert!(after(Retry::After(day), 1, 0).unwrap() >= day);
        assert_eq!(after(Retry::After(day + 1), 1, 0), None);
        assert_eq!(after(Retry::After(u64::MAX), 1, 0), None);
        let asked = |millis| failure("rate_limited", Retry::After(millis));
        assert_eq!(for_a_person(&asked(day), &Waits::default()), None);
        assert_eq!(for_a_person(&asked(day + 1), &Waits::default()), Some(Span(day + 1)));
        let said = Waits { longest_wait: Span(day / 2), ..Waits::default() };
        assert_eq!(for_a_person(&asked(day + 1), &said), None);
    }

    #[test]
    fn waits_of_our_own_end_after_half_an_hour_and_those_of_a_provider_do_not_count() {
        let waits = Waits::default();
        let fresh = Asked { failures: 1, ..Asked::default() };
        let waited = Asked { waited: Span(ALL_OWN_WAITS_MILLIS), ..fresh };
        for own in [failure("server", Retry::Backoff), failure(breaker::KIND, Retry::After(9_000))]
        {
            assert!(is_own(&own));
            assert_eq!(wait(&own, waited, &waits, 3), None);
            assert!(wait(&own, fresh, &waits, 3).is_some());
        }
        let asked = failure("rate_limited", Retry::After(9_000));
        assert!(!is_own(&asked) && wait(&asked, waited, &waits, 3).is_some());
    }

    #[test]
    fn a_task_sets_how_often_and_how_long_a_failure_is_waited_out() {
        let asked = failure("rate_limited", Retry::After(9_000));
        let fresh = Asked { failures: 1, ..Asked::default() };
        let patient = Waits { max_wasted: 7, ..Waits::default() };
        let short = Waits { longest_wait: Span(8_000), ..Waits::default() };
        let once = Waits { attempts: 1, ..Waits::default() };
        assert!(wait(&asked, Asked { wasted: 6, ..fresh }, &patient, 0).is_some());
        assert_eq!(wait(&asked, Asked { wasted: 7, ..fresh }, &patient, 0), None);
        assert_eq!(wait(&asked, fresh, &short, 0), None);
        assert_eq!(wait(&asked, fresh, &once, 0), None);
    }

    #[test]
    fn tasks_that_fail_together_do_not_come_back_together() {
        let waits = |effect: u64| {
            let of = |task: u64| {
                after(Retry::Backoff, 9, salt(&TaskId(format!("task{task}")), effect)).unwrap()
            };
            (0..100).map(of).collect::<std::collections::BTreeSet<u64>>()
        };
        assert!(waits(7).len() > 80, "{:?}", waits(7));
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
    }
}
