//! The only reader of the time.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use machine::time::{Span, Timestamp};

/// Where the time comes from; a simulation brings its own.
pub trait Clock: Send {
    /// This moment.
    fn now(&self) -> Timestamp;

    /// How long the machine was awake since some moment before. Nobody sets it, and it rests while the machine sleeps.
    fn awake(&self) -> Span;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn awake(&self) -> Span {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        let awake = BEGUN.get_or_init(Instant::now).elapsed();
        Span(u64::try_from(awake.as_millis()).unwrap_or(u64::MAX))
    }
}
