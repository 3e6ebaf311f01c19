//! The loop on which connections to servers live. A server may speak at any time, so the loop has a thread of its
//! own; it starts with the first server, and nothing of it exists before.

use std::future::pending;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;

static ENGINE: Mutex<Option<Handle>> = Mutex::new(None);

/// The loop, started if it is the first time. It ends with the process.
pub(super) fn handle() -> Result<Handle, String> {
    // The only change is one assignment.
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*engine {
        return Ok(handle.clone());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("servers cannot be spoken to: {error}"))?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("servers".to_owned())
        .spawn(move || runtime.block_on(pending::<()>()))
        .map_err(|error| format!("no thread can be started for servers: {error}"))?;
    *engine = Some(handle.clone());
    Ok(handle)
}
