//! A handle that stops work: cheap to clone, triggered from any thread, waited on with poll(2).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use std::os::fd::AsFd;

use rustix::event::{EventfdFlags, eventfd};

/// Stops whatever was given a clone of it. Once triggered it stays triggered.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    triggered: AtomicBool,
    /// Absent if the process had no descriptor left; waiters then look at the flag from time to time.
    event: Option<OwnedFd>,
}

impl Cancel {
    /// A handle that nobody has triggered.
    pub fn new() -> Cancel {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        Cancel(Arc::new(Inner { triggered: AtomicBool::new(false), event }))
    }

    /// Stops the work. Calling it again changes nothing.
    pub fn trigger(&self) {
        self.0.triggered.store(true, Ordering::SeqCst);
        if let Some(event) = &self.0.event {
            // A failed write can only mean a full counter, which is readable already.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// Whether the work shall stop.
    pub fn is_triggered(&self) -> bool {
        self.0.triggered.load(Ordering::SeqCst)
    }

    /// Readable once triggered, for poll(2).
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        self.0.event.as_ref().map(AsFd::as_fd)
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Cancel::new()
    }
}
