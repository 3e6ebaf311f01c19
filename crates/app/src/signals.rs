//! The signals that ask this process to stop.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Listens for them. A hangup that whoever started this process has it ignore (`nohup`) stays ignored: the task is meant to
/// outlive the terminal.
pub(crate) fn listen() -> io::Result<Signals> {
    if hangup_is_ignored() {
        Signals::new([SIGINT, SIGTERM])
    } else {
        Signals::new([SIGINT, SIGTERM, SIGHUP])
    }
}

/// Whether a signal says nothing that an earlier one has not said. A terminal that is closed sends more than one hangup, from
/// its shell and from the kernel, and nobody asked twice.
pub(crate) fn is_repeated(signal: i32, earlier: u32) -> bool {
    signal == SIGHUP && earlier > 0
}

fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}
