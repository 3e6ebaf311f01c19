//! A handle that stops work: cheap to clone, triggered from any thread, waited on with poll(2).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use std::os::fd::AsFd;

use rustix::event::{EventfdFlags, eventfd};

/// Stops whatever was given a clone of it. Once triggered it stays triggered.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    triggered: AtomicBool,
    /// Made for the first who waits. Absent if the process had no descriptor left; waiters then look at the flag
    /// from time to time.
    event: OnceLock<Option<OwnedFd>>,
}

impl Cancel {
    /// A handle that nobody has triggered.
    pub fn new() -> Cancel {
        Cancel(Arc::new(Inner { triggered: AtomicBool::new(false), event: OnceLock::new() }))
    }

    /// Stops the work. Calling it again changes nothing.
    pub fn trigger(&self) {
        self.0.triggered.store(true, Ordering::SeqCst);
        if let Some(Some(event)) = self.0.event.get() {
            ring(event);
        }
    }

    /// Whether the work shall stop.
    pub fn is_triggered(&self) -> bool {
        self.0.triggered.load(Ordering::SeqCst)
    }

    /// Readable once triggered, for poll(2).
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        let make = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        let event = self.0.event.get_or_init(make).as_ref()?;
        // Whoever triggered before the descriptor was there could not write to it.
        if self.is_triggered() {
            ring(event);
        }
        Some(event.as_fd())
    }
}

fn ring(event: &OwnedFd) {
    // A failed write can only mean a full counter, which is readable already.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

impl Default for Cancel {
    fn default() -> Self {
        Cancel::new()
    }
}
