//! That the walls held when they were tried, remembered for the next processes: a trial takes longer than all else that
//! a short task does before its first question. Only that they held is remembered, never that something weaker would do,
//! and every command is still put behind walls of its own or not started: a record that is wrong weakens nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use machine::time::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, SystemClock};
use crate::file_mark::FileMark;
use crate::process::boot;
use crate::whole_file;

/// How long a trial counts.
const BELIEVED: Span = Span::seconds(24 * 60 * 60);

/// Settings of the kernel that decide who may make namespaces.
const SETTINGS: [&str; 4] = [
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/seccomp/actions_avail",
];

/// What of a process's status decides what it can put around others.
const STANDING: [&str; 8] =
    ["Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters"];

/// The namespaces that this process is in.
const NAMESPACES: [&str; 6] = ["cgroup", "ipc", "mnt", "net", "pid", "user"];

/// A trial that held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// What bubblewrap says of its version, if it was asked.
    pub(super) version: String,
    conditions: Conditions,
    /// When it was tried.
    tried: Timestamp,
}

/// All that a trial depends on, as far as it can be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Conditions {
    boot: String,
    drivetrain: FileMark,
    bubblewrap: FileMark,
    settings: Vec<Option<String>>,
    standing: Vec<String>,
    namespaces: Vec<Option<PathBuf>>,
}

impl Conditions {
    fn now(bubblewrap: &Path) -> io::Result<Conditions> {
        let status = fs::read_to_string("/proc/self/status")?;
        let decides =
            |line: &&str| line.split_once(':').is_some_and(|(name, _)| STANDING.contains(&name));
        Ok(Conditions {
            boot: boot().to_owned(),
            drivetrain: FileMark::of(Path::new("/proc/self/exe"))?,
            bubblewrap: FileMark::of(bubblewrap)?,
            settings: SETTINGS.iter().map(|path| fs::read_to_string(path).ok()).collect(),
            standing: status.lines().filter(decides).map(str::to_owned).collect(),
            namespaces: NAMESPACES
                .iter()
                .map(|name| fs::read_link(Path::new("/proc/self/ns").join(name)).ok())
                .collect(),
        })
    }
}

/// The last trial of this bubblewrap, if it held and nothing has changed since.
pub(super) fn recall(record: &Path, bubblewrap: &Path) -> Option<Held> {
    let held: Held = whole_file::recall(record)?;
    let is_recent = (held.tried..held.tried.after(BELIEVED)).contains(&SystemClock.now());
    let is_same = || Conditions::now(bubblewrap).is_ok_and(|now| now == held.conditions);
    (is_recent && is_same()).then_some(held)
}

/// Writes down that the walls held just now. Without it they are tried again.
pub(super) fn note(record: &Path, bubblewrap: &Path, version: &str) -> io::Result<()> {
    let conditions = Conditions::now(bubblewrap)?;
    let held = Held { version: version.to_owned(), conditions, tried: SystemClock.now() };
    whole_file::remember(record, &held)
}
