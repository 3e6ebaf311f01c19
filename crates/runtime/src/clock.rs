//! The only reader of the time.

use std::time::{SystemTime, UNIX_EPOCH};

use machine::time::Timestamp;

/// Where the time comes from; a simulation brings its own.
pub trait Clock: Send {
    /// This moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
