//! When a model that failed is asked again: never at once, never for ever, never sooner than it asked for.

use crate::message::Retry;
use crate::time::Span;

/// How often the same question is asked before the driver is told.
const ATTEMPTS: u32 = 6;

/// The first wait of our own; each further one is twice as long.
const FIRST_WAIT_MILLIS: u64 = 1_000;

/// The longest wait, ours or the provider's; one that asks for more has to be resumed by a person.
const LONGEST_WAIT_MILLIS: u64 = 6 * 60 * 60 * 1_000;

/// How long to wait after the `failures`-th failure in a row; `None` if asking again does not help. `salt` spreads
/// tasks that failed together: the same salt gives the same wait, so that a replay does too.
pub fn wait(retry: Retry, failures: u32, salt: u64) -> Option<Span> {
    if failures >= ATTEMPTS {
        return None;
    }
    let wait = match retry {
        Retry::Never => return None,
        Retry::After(millis) if millis > LONGEST_WAIT_MILLIS => return None,
        // Up to a twentieth later, never sooner.
        Retry::After(millis) => millis + spread(salt) * millis / 20_000,
        Retry::Backoff => {
            let whole = FIRST_WAIT_MILLIS << (failures.saturating_sub(1)).min(10);
            whole - whole / 10 + spread(salt) * whole / 5_000
        }
    };
    Some(Span(wait))
}

/// A number from 0 to 1000 that looks random.
fn spread(salt: u64) -> u64 {
    let mixed = (salt ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 31)) % 1001
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_never_sooner_than_asked_and_never_endless() {
        for salt in 0..200 {
            let asked = wait(Retry::After(7_000), 1, salt).unwrap().0;
            assert!((7_000..=7_350).contains(&asked), "{asked}");
            for failures in 1..ATTEMPTS {
                let own = wait(Retry::Backoff, failures, salt).unwrap().0;
                let whole = 1_000 << (failures - 1);
                assert!((whole * 9 / 10..=whole * 11 / 10).contains(&own), "{failures}: {own}");
            }
        }
        assert_eq!(wait(Retry::Never, 1, 0), None);
        assert_eq!(wait(Retry::Backoff, ATTEMPTS, 0), None);
        assert_eq!(wait(Retry::After(999_999_999), 1, 0), None);
    }
}
